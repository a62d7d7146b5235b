#pragma once
/* base/duration.h - parses and formats durations as people write them: 90s, 15m, 1h30m, 7d, 250ms.
 *
 * A duration is one or more of <number><unit>. The units are w, d, h, m, s and ms. They must stand in this order, each
 * at most once, without blanks. Numbers are whole: "1.5h" is an error. */
#include "base/str.h"

enum { DURATION_TEXT = 48 };
#define DURATION_MAX_MS (100LL * 366 * 86400 * 1000) /* 100 years */

enum err duration_parse(struct str text, int64_t *ret_ms, struct error *e) must_use;

/* Exact; the largest unit first, without units that are zero: 5400000 is "1h30m", 0 is "0s", one week is "7d". ms >=
 * 0. */
void duration_format(int64_t ms, char out[DURATION_TEXT]);
