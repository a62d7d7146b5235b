#pragma once
/* core/time/tz.h - a time zone: converts instants to wall-clock times and back.
 *
 * A zone is parsed from the bytes of a TZif file (RFC 8536, versions 1 to 4). It is immutable and may be shared by
 * threads. The footer's rule is expanded once, up to TZ_LAST_YEAR, so a zone is one sorted table of spans with a
 * constant offset, and every lookup is one binary search. port/zoneinfo.h reads the file, since the core does no I/O.
 *
 * Instants are UTC seconds since 1970, local times civil seconds (base/date.h). */
#include "base/str.h"

enum { TZ_LAST_YEAR = 2500 };

struct tz;

enum err tz_parse(struct str name, struct str tzif, struct tz **ret, struct error *e) must_use;
struct tz *tz_utc(void); /* built in; tz_ref and tz_unref are allowed and do nothing */

struct tz *tz_ref(struct tz *z);
void tz_unref(struct tz *z); /* NULL is fine */
void tz_unrefp(struct tz **z);

const char *tz_name(const struct tz *z); /* "Europe/Berlin" */

/* A period of time with a constant offset, [from, until). The first span begins at INT64_MIN, the last ends at
 * INT64_MAX. */
struct tz_span {
    int64_t from, until;
    int32_t offset_s; /* local = instant + offset */
    /* of the previous span: if it is larger, `from` is the start of a repeat; if smaller, of a gap */
    int32_t offset_before_s;
    bool dst;
    const char *abbreviation; /* "CEST" */
};

struct tz_span tz_span_at(const struct tz *z, int64_t instant);
int64_t tz_local(const struct tz *z, int64_t instant);

/* The instants of a wall-clock time:
 * - UNIQUE: first == last.
 * - REPEAT: the clock was set back over it; first and last are its two copies.
 * - GAP: the clock was set forward over it, so it does not exist. first == last is the first valid instant after it:
 *   the moment of the change. */
struct tz_instants {
    enum { TZ_UNIQUE, TZ_REPEAT, TZ_GAP } kind;
    int64_t first, last;
};

struct tz_instants tz_instants_of(const struct tz *z, int64_t local);
