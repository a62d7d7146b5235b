#pragma once
/* base/duration.h - durations as people write them: 90s, 15m, 1h30m, 7d, 250ms, 1.5h is refused.
 *
 * One or more of <number><unit>, units falling (w d h m s ms), each at most once, no blanks. */
#include "base/str.h"

enum { DURATION_TEXT = 48 };
#define DURATION_MAX_MS (100LL * 366 * 86400 * 1000) /* a century */

enum err duration_parse(struct str text, int64_t *ret_ms, struct error *e) must_use;

/* Exact, largest unit first, nothing that is zero: 5400000 is 1h30m, 0 is 0s, a week is 7d. ms >= 0. */
void duration_format(int64_t ms, char out[DURATION_TEXT]);
