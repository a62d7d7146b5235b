#pragma once
/* base/rfc3339.h - instants as text: any offset in, UTC with milliseconds out (2026-02-10T08:00:00.000Z).
 *
 * Accepted: 'T', 't' or one blank between date and time; a fraction of 1 to 9 digits, cut to milliseconds; 'Z', 'z' or
 * ±hh:mm; years 0000 to 9999. A leap second (23:59:60 UTC at a month's end) is read as the second after it. */
#include "base/date.h"
#include "base/str.h"

enum { RFC3339_TEXT = 24 };

/* The sentence says what is wrong and where ("day 30 does not exist in February", "needs an offset: 'Z' or '+01:00'").
 * The error's field is left empty: the caller knows it. */
enum err rfc3339_parse(struct str text, int64_t *ret_ms, struct error *e) must_use;

/* ms within the years 0000 to 9999. */
void rfc3339_format(int64_t ms, char out[RFC3339_TEXT + 1]);
