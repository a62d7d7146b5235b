#pragma once
/* core/time/tz_rule.h - the rule at the end of a TZif file: when daylight time begins and ends in any year.
 *
 * A POSIX TZ string, "CET-1CEST,M3.5.0,M10.5.0/3", as RFC 8536 has it: a file's table ends somewhere, its rule goes on.
 * Only core/time/tz.c uses it, once for each zone, to write the years to come into the zone's table. */
#include "base/str.h"

struct tz_rule_clock {
    struct str abbreviation; /* borrowed from the text */
    int32_t offset_s;        /* local = instant + offset; the text has it the other way round */
};

/* A moment of each year: a day, and a time on the clock that is valid before the change. */
struct tz_rule_edge {
    enum { TZ_EDGE_JULIAN, TZ_EDGE_DAY, TZ_EDGE_WEEKDAY } kind; /* Jn, n, Mm.w.d */
    int month;                                                  /* 1..12, TZ_EDGE_WEEKDAY only */
    int week;                                                   /* 1..5, 5 the last; TZ_EDGE_WEEKDAY only */
    int day;        /* Jn: 1..365 without 29 February; n: 0..365 with it; Mm.w.d: 0 Sunday … 6 Saturday */
    int32_t time_s; /* since that day's midnight: may be negative or beyond a day's end */
};

struct tz_rule {
    struct tz_rule_clock standard, daylight;
    bool has_daylight; /* false: always standard, and daylight, start and end are empty */
    struct tz_rule_edge start, end;
};

/* extended: times of -167 to 167 hours are allowed, as in files of version 3 and later; else 0 to 24.
 * Errors are ERR_CORRUPT: the text comes from a file, not from a user. */
enum err tz_rule_parse(struct str text, bool extended, struct tz_rule *ret, struct error *e) must_use;

/* The daylight time that begins in this year: [from, until) as instants, from < until. until lies in the next year where
 * summer does; it may lie beyond the next beginning, which is how a rule says that daylight time never ends. */
struct tz_daylight {
    int64_t from, until;
};

struct tz_daylight tz_rule_daylight(const struct tz_rule *r, int year);
