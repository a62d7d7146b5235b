#pragma once
/* base/rfc3339.h - parses and formats instants: reads any UTC offset, writes UTC with milliseconds
 * (2026-02-10T08:00:00.000Z).
 *
 * Accepted input:
 * - 'T', 't' or one blank between date and time;
 * - a fraction of 1 to 9 digits, truncated to milliseconds;
 * - 'Z', 'z' or ±hh:mm;
 * - the years 0000 to 9999.
 * A leap second (23:59:60 UTC on the last day of a month) is read as the following second. */
#include "base/date.h"
#include "base/str.h"

enum { RFC3339_TEXT = 24 };
#define YEAR_0_MS        (-62167219200000LL) /* its first millisecond */
#define YEAR_9999_END_MS 253402300799999LL   /* its last one */

/* The sentence says what is wrong and where: "has day 30, which does not exist in February". The error's field is left
 * empty; the caller sets it. */
enum err rfc3339_parse(struct str text, int64_t *ret_ms, struct error *e) must_use;

/* A moment outside the years 0000 to 9999 is written as the first or the last one within them: a user may name the end
 * of 9999, and what is computed from it, such as an expiry, comes later. */
void rfc3339_format(int64_t ms, char out[RFC3339_TEXT + 1]);
