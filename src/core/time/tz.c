/* A zone is one table: span i begins at from[i] and ends at from[i + 1]; type[i] is its type of local time.
 * - from[0] is INT64_MIN and `from` rises strictly, so a search always finds a span.
 * - Two neighbours never have the same type: each transition changes the offset, the daylight flag or the abbreviation.
 * - All types are different, at most 256, so a byte identifies one.
 * - Every transition is within ±2^59 s and every offset within ±26 h, so their sums cannot overflow. Sums with a
 *   caller's time can; they are capped at the ends of int64_t.
 *
 * The file's bytes are not trusted: every access is checked against the file's size first. */
#include "core/time/tz.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/date.h"
#include "core/time/tz_rule.h"

enum {
    FILE_MAX = 1 << 20,
    TRANSITIONS_MAX = 100000,
    FILE_TYPES_MAX = 254, /* two more come from the rule */
    TYPES_MAX = 256,
    ABBREVIATION_MAX = 26,
    OFFSET_LIMIT_S = 26 * HOUR_S, /* RFC 8536: less than this in both directions */
    RULE_FIRST_YEAR = 1900,       /* if a file has no transitions, its rule applies from here on */
};
#define TRANSITION_LIMIT (INT64_C(1) << 59) /* RFC 8536: before this is the Big Bang */

struct tz_type {
    int32_t offset_s;
    bool dst;
    char abbreviation[ABBREVIATION_MAX + 1];
};

struct tz {
    atomic_uint references;
    bool immortal;
    char *name;
    int64_t *from;
    uint8_t *type;
    size_t count;
    struct tz_type *types;
    size_t type_count;
    int32_t offset_min_s, offset_max_s; /* over all types */
};

/* ---- reading the file ---- */

struct tz_header {
    uint32_t isut_count, isstd_count, leap_count, transition_count, type_count, char_count;
    char version; /* '\0', '2', '3', '4' … */
};

/* The data block that is used, and the rule after it. Pointers into the file. */
struct tz_block {
    struct tz_header header;
    size_t time_size; /* 4 or 8 */
    const unsigned char *times, *indexes, *types;
    struct str chars;
    struct str rule; /* empty: none */
};

enum { HEADER_SIZE = 44, TYPE_SIZE = 6 };

static uint32_t tz_be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t tz_be_time(const unsigned char *p, size_t size)
{
    return size == 4 ? (int32_t)tz_be32(p) : (int64_t)((uint64_t)tz_be32(p) << 32 | tz_be32(p + 4));
}

static const unsigned char *tz_bytes(struct str s)
{
    return (const unsigned char *)s.p;
}

static struct str tz_skip(struct str s, size_t n)
{
    return str_sub(s, n, s.n);
}

static enum err tz_read_header(struct str *rest, struct tz_header *ret, struct error *e)
{
    if (!str_starts(*rest, S("TZif")))
        return error_set(e, ERR_CORRUPT, "not a TZif file");
    if (rest->n < HEADER_SIZE)
        return error_set(e, ERR_CORRUPT, "cut short in its header");
    const unsigned char *p = tz_bytes(*rest);
    if (p[4] != 0 && (p[4] < '2' || p[4] > '9'))
        return error_set(e, ERR_CORRUPT, "version byte 0x%02x is unknown", p[4]);
    *ret = (struct tz_header){
        .version = (char)p[4],
        .isut_count = tz_be32(p + 20),
        .isstd_count = tz_be32(p + 24),
        .leap_count = tz_be32(p + 28),
        .transition_count = tz_be32(p + 32),
        .type_count = tz_be32(p + 36),
        .char_count = tz_be32(p + 40),
    };
    *rest = tz_skip(*rest, HEADER_SIZE);
    return ERR_OK;
}

static uint64_t tz_block_size(const struct tz_header *h, size_t time_size)
{
    return (uint64_t)h->transition_count * (time_size + 1) + (uint64_t)h->type_count * TYPE_SIZE + h->char_count +
           (uint64_t)h->leap_count * (time_size + 4) + h->isstd_count + h->isut_count;
}

static enum err tz_check_counts(const struct tz_header *h, struct error *e)
{
    if (h->leap_count > 0)
        return error_set(e, ERR_INVALID, "counts leap seconds; use the zone without 'right/'");
    if (h->transition_count > TRANSITIONS_MAX)
        return error_set(e, ERR_CORRUPT, "has %u transitions, more than %d", h->transition_count, TRANSITIONS_MAX);
    if (h->type_count == 0 || h->type_count > FILE_TYPES_MAX)
        return error_set(e, ERR_CORRUPT, "has %u types of local time, not 1 to %d", h->type_count, FILE_TYPES_MAX);
    if ((h->isstd_count != 0 && h->isstd_count != h->type_count) ||
        (h->isut_count != 0 && h->isut_count != h->type_count))
        return error_set(e, ERR_CORRUPT, "has indicators for some of its types only");
    return ERR_OK;
}

/* The footer is newline, rule, newline. */
static enum err tz_read_footer(struct str rest, struct str *ret, struct error *e)
{
    size_t end = str_find(rest, '\n', 1);
    if (rest.n == 0 || rest.p[0] != '\n' || end == rest.n)
        return error_set(e, ERR_CORRUPT, "has no footer");
    *ret = str_sub(rest, 1, end);
    return ERR_OK;
}

/* Files of version 2 and later hold everything twice: first with 32-bit times for old readers, which is skipped. */
static enum err tz_read_headers(struct str *rest, struct tz_block *b, struct error *e)
{
    b->time_size = 4;
    if (tz_read_header(rest, &b->header, e))
        return e->code;
    if (b->header.version == '\0')
        return ERR_OK;
    uint64_t first = tz_block_size(&b->header, 4);
    if (first > rest->n)
        return error_set(e, ERR_CORRUPT, "cut short in its first block");
    *rest = tz_skip(*rest, first);
    b->time_size = 8;
    return tz_read_header(rest, &b->header, e);
}

static enum err tz_read_block(struct str tzif, struct tz_block *ret, struct error *e)
{
    struct tz_block b = { 0 };
    struct str rest = tzif;
    if (tzif.n > FILE_MAX)
        return error_set(e, ERR_CORRUPT, "has %zu bytes, more than %d", tzif.n, FILE_MAX);
    if (tz_read_headers(&rest, &b, e) || tz_check_counts(&b.header, e))
        return e->code;
    uint64_t size = tz_block_size(&b.header, b.time_size);
    if (size > rest.n)
        return error_set(e, ERR_CORRUPT, "cut short in its table");
    b.times = tz_bytes(rest);
    b.indexes = b.times + b.header.transition_count * b.time_size;
    b.types = b.indexes + b.header.transition_count;
    b.chars = (struct str){ (const char *)b.types + (size_t)b.header.type_count * TYPE_SIZE, b.header.char_count };
    if (b.time_size == 8 && tz_read_footer(tz_skip(rest, size), &b.rule, e))
        return e->code;
    *ret = b;
    return ERR_OK;
}

/* ---- building the table ---- */

/* Returns the index of this type; adds it if it is new. There is space for it: see FILE_TYPES_MAX. */
static uint8_t tz_intern_type(struct tz *z, const struct tz_type *t)
{
    for (size_t i = 0; i < z->type_count; i++)
        if (z->types[i].offset_s == t->offset_s && z->types[i].dst == t->dst &&
            strcmp(z->types[i].abbreviation, t->abbreviation) == 0)
            return (uint8_t)i;
    assert(z->type_count < TYPES_MAX);
    z->types[z->type_count] = *t;
    z->offset_min_s = z->type_count ? min_of(z->offset_min_s, t->offset_s) : t->offset_s;
    z->offset_max_s = z->type_count ? max_of(z->offset_max_s, t->offset_s) : t->offset_s;
    return (uint8_t)z->type_count++;
}

/* Abbreviations appear on terminals and in logs, so only printable characters are accepted. */
static enum err tz_copy_abbreviation(struct str s, char ret[ABBREVIATION_MAX + 1], struct error *e)
{
    if (s.n > ABBREVIATION_MAX)
        return error_set(e, ERR_CORRUPT, "has an abbreviation of more than %d characters", ABBREVIATION_MAX);
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~')
            return error_set(e, ERR_CORRUPT, "has an abbreviation with unprintable characters");
    memcpy(ret, s.p, s.n);
    ret[s.n] = '\0';
    return ERR_OK;
}

static enum err tz_read_type(const struct tz_block *b, size_t index, struct tz_type *ret, struct error *e)
{
    const unsigned char *p = b->types + index * TYPE_SIZE;
    struct tz_type t = { .offset_s = (int32_t)tz_be32(p), .dst = p[4] };
    size_t name = p[5], name_end = str_find(b->chars, '\0', name);
    if (t.offset_s <= -OFFSET_LIMIT_S || t.offset_s >= OFFSET_LIMIT_S)
        return error_set(e, ERR_CORRUPT, "is %d s away from UTC", t.offset_s);
    if (p[4] > 1)
        return error_set(e, ERR_CORRUPT, "has a daylight mark of %d", p[4]);
    if (name >= b->chars.n || name_end == b->chars.n)
        return error_set(e, ERR_CORRUPT, "has an abbreviation outside its text");
    if (tz_copy_abbreviation(str_sub(b->chars, name, name_end), t.abbreviation, e))
        return e->code;
    *ret = t;
    return ERR_OK;
}

static void tz_add_span(struct tz *z, int64_t from, uint8_t type)
{
    assert(z->count == 0 || from > z->from[z->count - 1]);
    if (z->count && z->type[z->count - 1] == type)
        return;
    z->from[z->count] = from;
    z->type[z->count++] = type;
}

/* Adds the file's own table. The first type applies before the first transition. */
static enum err tz_add_transitions(struct tz *z, const struct tz_block *b, const uint8_t *interned, struct error *e)
{
    int64_t before = INT64_MIN;
    tz_add_span(z, INT64_MIN, interned[0]);
    for (size_t i = 0; i < b->header.transition_count; i++) {
        int64_t at = tz_be_time(b->times + i * b->time_size, b->time_size);
        if (at < -TRANSITION_LIMIT || at > TRANSITION_LIMIT)
            return error_set(e, ERR_CORRUPT, "transition %zu is too far away", i + 1);
        if (at <= before)
            return error_set(e, ERR_CORRUPT, "transition %zu is not later than the one before", i + 1);
        if (b->indexes[i] >= b->header.type_count)
            return error_set(e, ERR_CORRUPT, "transition %zu leads to type %d, which it does not have", i + 1,
                             b->indexes[i]);
        tz_add_span(z, at, interned[b->indexes[i]]);
        before = at;
    }
    return ERR_OK;
}

/* The rule takes over at the last transition, or everywhere if there is none. */
static int64_t tz_rule_begins_at(const struct tz_block *b)
{
    size_t n = b->header.transition_count;
    return n ? tz_be_time(b->times + (n - 1) * b->time_size, b->time_size) : INT64_MIN;
}

/* The rule applies from `begin` on, even if a transition at that moment leads to another type. Only a file that
 * contradicts itself has one, and other readers prefer the rule, too. */
static void tz_start_rule(struct tz *z, int64_t begin, uint8_t type)
{
    if (z->from[z->count - 1] == begin)
        z->count--;
    tz_add_span(z, begin, type);
}

/* Adds the daylight times of all years within [begin, limit) as spans. Intervals that touch or overlap are merged:
 * daylight time all year. */
static void tz_add_daylight(struct tz *z, const struct tz_rule *r, int64_t begin, uint8_t standard, uint8_t daylight)
{
    const int64_t limit = day_number((struct date){ TZ_LAST_YEAR + 1, 1, 1 }) * DAY_S;
    const int64_t first = max_of(begin, day_number((struct date){ RULE_FIRST_YEAR, 1, 1 }) * DAY_S);
    int year = date_of_day(day_of_second(first)).year - 2;
    struct tz_daylight now = tz_rule_daylight(r, year);
    bool begun = false;
    while (now.from < limit) {
        struct tz_daylight next = tz_rule_daylight(r, ++year);
        if (next.from <= now.until && next.from < limit) {
            now.until = max_of(now.until, next.until);
            continue;
        }
        if (!begun && now.until > first) {
            tz_start_rule(z, begin, now.from <= first ? daylight : standard);
            begun = true;
        }
        if (now.from > first)
            tz_add_span(z, now.from, daylight);
        if (now.until > first && now.until < limit)
            tz_add_span(z, now.until, standard);
        now = next;
    }
    if (!begun) /* the last daylight time of the rule ends just before `begin` */
        tz_start_rule(z, begin, standard);
}

static enum err tz_rule_type(struct tz *z, const struct tz_rule_clock *clock, bool dst, uint8_t *ret, struct error *e)
{
    struct tz_type t = { .offset_s = clock->offset_s, .dst = dst };
    if (tz_copy_abbreviation(clock->abbreviation, t.abbreviation, e))
        return e->code;
    *ret = tz_intern_type(z, &t);
    return ERR_OK;
}

static enum err tz_add_rule(struct tz *z, const struct tz_block *b, struct error *e)
{
    struct tz_rule r;
    uint8_t standard, daylight;
    int64_t begin = tz_rule_begins_at(b);
    if (b->rule.n == 0)
        return ERR_OK;
    if (tz_rule_parse(b->rule, b->header.version >= '3', &r, e) || tz_rule_type(z, &r.standard, false, &standard, e))
        return e->code;
    if (begin >= day_number((struct date){ TZ_LAST_YEAR, 1, 1 }) * DAY_S)
        return ERR_OK;
    if (!r.has_daylight) {
        tz_start_rule(z, begin, standard);
        return ERR_OK;
    }
    if (tz_rule_type(z, &r.daylight, true, &daylight, e))
        return e->code;
    tz_add_daylight(z, &r, begin, standard, daylight);
    return ERR_OK;
}

static enum err tz_fill_tables(struct tz *z, const struct tz_block *b, struct error *e)
{
    uint8_t interned[FILE_TYPES_MAX];
    for (size_t i = 0; i < b->header.type_count; i++) {
        struct tz_type t;
        if (tz_read_type(b, i, &t, e))
            return e->code;
        interned[i] = tz_intern_type(z, &t);
    }
    return tz_add_transitions(z, b, interned, e) ? e->code : tz_add_rule(z, b, e);
}

static void tz_free(struct tz *z)
{
    free(z->from);
    free(z->type);
    free(z->types);
    free(z->name);
    free(z);
}

static char *tz_copy_name(struct str name)
{
    char *p = xcalloc(name.n + 1, 1);
    if (name.n)
        memcpy(p, name.p, name.n);
    return p;
}

/* The tables are allocated for the largest possible number of entries and shrunk later. */
static struct tz *tz_new(struct str name, const struct tz_block *b)
{
    struct tz *z = xnew(*z);
    size_t spans = 1 + b->header.transition_count + 2 * (TZ_LAST_YEAR - RULE_FIRST_YEAR + 4);
    atomic_init(&z->references, 1);
    z->name = tz_copy_name(name);
    z->from = xcalloc(spans, sizeof *z->from);
    z->type = xcalloc(spans, sizeof *z->type);
    z->types = xcalloc(b->header.type_count + 2, sizeof *z->types);
    return z;
}

static void tz_shrink_tables(struct tz *z)
{
    z->from = xrealloc(z->from, z->count * sizeof *z->from);
    z->type = xrealloc(z->type, z->count * sizeof *z->type);
    z->types = xrealloc(z->types, z->type_count * sizeof *z->types);
}

static enum err tz_parse_zone(struct str name, struct str tzif, struct tz **ret, struct error *e)
{
    struct tz_block b = { 0 };
    if (tz_read_block(tzif, &b, e))
        return e->code;
    struct tz *z = tz_new(name, &b);
    if (tz_fill_tables(z, &b, e)) {
        tz_free(z);
        return e->code;
    }
    tz_shrink_tables(z);
    *ret = z;
    return ERR_OK;
}

enum err tz_parse(struct str name, struct str tzif, struct tz **ret, struct error *e)
{
    struct error inner = { 0 };
    if (tz_parse_zone(name, tzif, ret, &inner) == ERR_OK)
        return ERR_OK;
    return error_set(e, inner.code, "time zone '" STR_FMT "': %s", (int)min_of(name.n, (size_t)64), name.p, inner.text);
}

/* ---- sharing ---- */

struct tz *tz_utc(void)
{
    static struct tz_type types[] = { { .abbreviation = "UTC" } };
    static int64_t from[] = { INT64_MIN };
    static uint8_t type[] = { 0 };
    static char name[] = "UTC";
    static struct tz utc = {
        .immortal = true, .name = name, .from = from, .type = type, .count = 1, .types = types, .type_count = 1
    };
    return &utc; /* never written to */
}

struct tz *tz_ref(struct tz *z)
{
    if (!z->immortal)
        atomic_fetch_add_explicit(&z->references, 1, memory_order_relaxed);
    return z;
}

void tz_unref(struct tz *z)
{
    if (z && !z->immortal && atomic_fetch_sub_explicit(&z->references, 1, memory_order_acq_rel) == 1)
        tz_free(z);
}

void tz_unrefp(struct tz **z)
{
    tz_unref(*z);
}

const char *tz_name(const struct tz *z)
{
    return z->name;
}

/* ---- lookups ---- */

static int64_t tz_add_capped(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* Returns the last span that begins at or before the instant. The search halves the range without a branch that could
 * be mispredicted. */
static size_t tz_find_span(const struct tz *z, int64_t instant)
{
    const int64_t *base = z->from;
    for (size_t n = z->count; n > 1;) {
        size_t half = n / 2;
        base = base[half] <= instant ? base + half : base;
        n -= half;
    }
    return (size_t)(base - z->from);
}

static int32_t tz_span_offset(const struct tz *z, size_t span)
{
    return z->types[z->type[span]].offset_s;
}

struct tz_span tz_span_at(const struct tz *z, int64_t instant)
{
    size_t i = tz_find_span(z, instant);
    const struct tz_type *t = &z->types[z->type[i]];
    return (struct tz_span){
        .from = z->from[i],
        .until = i + 1 < z->count ? z->from[i + 1] : INT64_MAX,
        .offset_s = t->offset_s,
        .offset_before_s = i ? tz_span_offset(z, i - 1) : t->offset_s,
        .dst = t->dst,
        .abbreviation = t->abbreviation,
    };
}

int64_t tz_local(const struct tz *z, int64_t instant)
{
    return tz_add_capped(instant, tz_span_offset(z, tz_find_span(z, instant)));
}

/* The instant of a local time is between local - offset_max and local - offset_min, so only the few spans in that range
 * are checked. Within a span the clock runs without jumps, so it shows the local time at most once. */
struct tz_instants tz_instants_of(const struct tz *z, int64_t local)
{
    const int64_t latest = tz_add_capped(local, -(int64_t)z->offset_min_s);
    size_t i = tz_find_span(z, tz_add_capped(local, -(int64_t)z->offset_max_s));
    struct tz_instants found = { .kind = TZ_GAP };
    bool jumped = false;
    for (; i < z->count && z->from[i] <= latest; i++) {
        int64_t instant = tz_add_capped(local, -(int64_t)tz_span_offset(z, i));
        /* the clock jumped over it at this span's start, unless an earlier span contained it */
        if (instant < z->from[i]) {
            if (!jumped && found.kind == TZ_GAP)
                found.first = found.last = z->from[i];
            jumped = true;
        } else if (i + 1 == z->count || instant < z->from[i + 1]) {
            found.first = found.kind == TZ_GAP ? instant : found.first;
            found.kind = found.kind == TZ_GAP ? TZ_UNIQUE : TZ_REPEAT;
            found.last = instant;
        }
    }
    assert(found.kind != TZ_GAP || jumped);
    return found;
}
