#pragma once
/* base/json/json_build.h - builds jansson values from valid JSON, several times faster than jansson's own parser.
 *
 * It accepts the same text as jansson (no duplicate keys, no NUL in a key, numbers that fit) and builds the same
 * values. It does not explain errors: if it returns NULL, the caller runs jansson's parser, which reports what is wrong
 * and where. */
#include <jansson.h>

#include "base/arena.h"

/* NULL: the text is not JSON, is nested deeper than depth_max, or memory ran out. The text must be UTF-8 without NUL.
 * Escaped strings are decoded into the arena; jansson allocates the values. */
json_t *json_build(struct str text, int depth_max, struct arena *a);
