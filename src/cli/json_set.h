#pragma once
/* cli/json_set.h - sets a member of a JSON object by its path ("retry.max_attempts"), as text: all other members stay as
 * they were written, so that no number loses digits. */
#include "base/buf.h"

/* Appends `object` with the member at `path` set to `value`. object and value must be valid JSON. Objects on the way
 * that are absent, or are no objects, are created. *ret_replaced: the member was there before. A path is names of 1 to
 * 100 letters, digits and _ - : separated by dots; others are ERR_INVALID. */
enum err json_set(struct str object, struct str path, struct str value, bool *ret_replaced, struct buf *out,
                  struct error *e) must_use;
