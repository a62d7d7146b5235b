#pragma once
/* core/flow/pointer.h - JSON pointers (RFC 6901): "/items/0/id" names one value within a JSON value.
 *
 * "~1" stands for '/', "~0" for '~'. The empty pointer names the whole value. An array is entered by a decimal index
 * without leading zeros; "-", the element after the last, names no value. */
#include "base/json/json.h"

enum { POINTER_BYTES_MAX = 1024, POINTER_TOKENS_MAX = JSON_DEPTH_MAX };

/* Errors give the position, counted from 1. */
enum err pointer_check(struct str pointer, struct error *e) must_use;

/* The value that a checked pointer names; NULL if there is none. Borrowed from root. */
json_t *pointer_get(struct str pointer, json_t *root);

/* Splits off the first token: "/a~1b/c" gives "a/b" and leaves "/c". False if the pointer is empty. The token is
 * decoded into `out` and ends in NUL. */
bool pointer_next(struct str *rest, char out[POINTER_BYTES_MAX + 1], struct str *ret_token);
