#pragma once
/* core/time/tz_rule.h - the rule at the end of a TZif file: when daylight saving time begins and ends in any year.
 *
 * A POSIX TZ string such as "CET-1CEST,M3.5.0,M10.5.0/3" (RFC 8536). It applies to all times after the file's last
 * transition. Only core/time/tz.c uses it, once for each zone, to extend the zone's table. */
#include "base/str.h"

struct tz_rule_clock {
    struct str abbreviation; /* borrowed from the text */
    int32_t offset_s;        /* local = instant + offset; the text has the opposite sign */
};

/* A moment of each year: a day, and a time of the clock that is valid before the change. */
struct tz_rule_edge {
    enum { TZ_EDGE_JULIAN, TZ_EDGE_DAY, TZ_EDGE_WEEKDAY } kind; /* Jn, n, Mm.w.d */
    int month;                                                  /* 1..12, TZ_EDGE_WEEKDAY only */
    int week;                                                   /* 1..5, 5 means the last; TZ_EDGE_WEEKDAY only */
    int day;        /* Jn: 1..365 without 29 February; n: 0..365 with it; Mm.w.d: 0 Sunday … 6 Saturday */
    int32_t time_s; /* since midnight of that day: may be negative or more than a day */
};

struct tz_rule {
    struct tz_rule_clock standard, daylight;
    bool has_daylight; /* false: always standard time; daylight, start and end are empty */
    struct tz_rule_edge start, end;
};

/* extended: times of -167 to 167 hours are allowed, as in files of version 3 and later; else 0 to 24. Errors are
 * ERR_CORRUPT: the text comes from a file, not from a user. */
enum err tz_rule_parse(struct str text, bool extended, struct tz_rule *ret, struct error *e) must_use;

/* The daylight saving time that begins in this year: [from, until) as instants, from < until. On the southern
 * hemisphere `until` is in the next year. It may be after the next beginning: that is how a rule says that daylight
 * time never ends. */
struct tz_daylight {
    int64_t from, until;
};

struct tz_daylight tz_rule_daylight(const struct tz_rule *r, int year);
