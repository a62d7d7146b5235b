#pragma once
/* base/json/json_build.h - from text that is most likely JSON to jansson's values, several times faster than its own parser.
 *
 * It takes what jansson takes (no duplicate keys, no NUL in a key, numbers that fit) and makes the same values of it. What it
 * does not take it does not explain: then jansson is asked, which says what is wrong and where. */
#include <jansson.h>

#include "base/arena.h"

/* NULL: this is no JSON, or nested deeper than depth_max, or there is no memory. The text must be UTF-8 without NUL. Strings are
 * decoded in the arena; the values' own memory is jansson's business. */
json_t *json_build(struct str text, int depth_max, struct arena *a);
