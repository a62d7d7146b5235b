/* A search uses bit masks that are made at parse time. A month is one of 28 kinds (its length, the weekday of its first
 * day), so 28 words hold the matching days of every month, and the next matching day is found by counting zero bits. */
#include "core/time/cron.h"

#include <assert.h>

#include "base/hash.h"
#include "core/time/cron_syntax.h"

/* The bounds of a search: 0000-01-01, and 2500-01-01, from which on nothing fires. */
enum { DAY_FIRST = -719528, DAY_END = 193579 };

enum { SATURDAY = 6, SUNDAY = 0, SHORTEST = 28, WEEK = 7, MONTHS = 12 };

/* Bit n: this month can have 28 + n days. */
static const uint8_t month_lengths[MONTHS + 1] = { 0, 8, 3, 8, 4, 8, 4, 8, 8, 4, 8, 4, 8 };

/* Each field derives its own value from the hash. With the same bits, an H minute would determine the H hour. */
static uint64_t cron_field_choice(uint64_t hash, enum cron_field_id field)
{
    char bytes[9];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(hash >> 8 * i);
    bytes[8] = (char)field;
    return hash_bytes(HASH_STABLE, (struct str){ bytes, sizeof bytes });
}

uint64_t cron_item_set(const struct cron_item *item, uint64_t choice)
{
    assert(item->kind == CRON_SPAN);
    unsigned first = item->from + (unsigned)(item->choices ? choice % item->choices : 0);
    uint64_t set = 1ULL << first;
    for (unsigned v = first; item->step && v <= item->to; v += item->step)
        set |= 1ULL << v;
    return set;
}

static uint64_t cron_field_set(const struct cron_syntax *syntax, uint64_t hash, enum cron_field_id field)
{
    uint64_t set = 0, choice = cron_field_choice(hash, field);
    for (each_item(i, syntax, field))
        set |= cron_item_set(i, choice);
    return set;
}

/* A month by its length and the weekday of its first day. */
struct cron_month_kind {
    int length, first;
};

static uint32_t cron_month_days(struct cron_month_kind m)
{
    return (uint32_t)((1ULL << (m.length + 1)) - 2);
}

static int cron_weekday_in(struct cron_month_kind m, int day)
{
    return (m.first + day - 1) % WEEK;
}

static int cron_first_of_weekday(struct cron_month_kind m, int weekday)
{
    return 1 + (weekday - m.first + WEEK) % WEEK;
}

/* The workday (Monday to Friday) nearest to `day` within the month. */
static int cron_nearest_workday(struct cron_month_kind m, int day)
{
    switch (cron_weekday_in(m, day)) {
    case SATURDAY: return day > 1 ? day - 1 : day + 2;
    case SUNDAY: return day < m.length ? day + 1 : day - 2;
    default: return day;
    }
}

static int cron_last_workday(struct cron_month_kind m)
{
    int weekday = cron_weekday_in(m, m.length);
    return m.length - (weekday == SATURDAY ? 1 : weekday == SUNDAY ? 2 : 0);
}

static uint32_t cron_weekdays_in(struct cron_month_kind m, uint64_t weekdays)
{
    uint64_t days = 0, weekly = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
    for (int w = 0; w <= WEEK; w++) /* 7 is Sunday again */
        if (weekdays >> w & 1)
            days |= weekly << cron_first_of_weekday(m, w % WEEK);
    return (uint32_t)days & cron_month_days(m);
}

static uint32_t cron_item_days(const struct cron_item *i, enum cron_field_id field, uint64_t choice,
                               struct cron_month_kind m)
{
    int day = 0;
    switch ((enum cron_item_kind)i->kind) {
    case CRON_SPAN: {
        uint64_t set = cron_item_set(i, choice);
        return field == CRON_DAY ? (uint32_t)set & cron_month_days(m) : cron_weekdays_in(m, set);
    }
    case CRON_LAST: day = m.length - i->from; break;
    case CRON_LAST_WORKDAY: day = cron_last_workday(m); break;
    case CRON_NEAREST_WORKDAY: day = i->from <= m.length ? cron_nearest_workday(m, i->from) : 0; break;
    case CRON_NTH: day = cron_first_of_weekday(m, i->from) + (i->nth - 1) * WEEK; break;
    case CRON_LAST_OF: day = m.length - (cron_weekday_in(m, m.length) - i->from + WEEK) % WEEK; break;
    }
    return day >= 1 && day <= m.length ? 1u << day : 0;
}

static uint32_t cron_field_days(const struct cron_syntax *syntax, uint64_t choice, enum cron_field_id field,
                                struct cron_month_kind m)
{
    uint32_t days = 0;
    for (each_item(i, syntax, field))
        days |= cron_item_days(i, field, choice, m);
    return days;
}

static void cron_compile_days(const struct cron_syntax *syntax, uint64_t hash, struct cron *c)
{
    bool both = syntax->fields[CRON_DAY].any || syntax->fields[CRON_WEEKDAY].any;
    uint64_t day_choice = cron_field_choice(hash, CRON_DAY), weekday_choice = cron_field_choice(hash, CRON_WEEKDAY);
    for (int n = 0; n < 4; n++) {
        for (int first = 0; first < WEEK; first++) {
            struct cron_month_kind m = { SHORTEST + n, first };
            uint32_t by_date = cron_field_days(syntax, day_choice, CRON_DAY, m);
            uint32_t by_weekday = cron_field_days(syntax, weekday_choice, CRON_WEEKDAY, m);
            c->days[n][first] = both ? by_date & by_weekday : by_date | by_weekday;
        }
    }
}

/* The months, as bits, in which some day can match. */
static uint64_t cron_possible_months(const struct cron *c)
{
    uint64_t possible = 0;
    for (int month = 1; month <= MONTHS; month++)
        for (int n = 0; n < 4; n++)
            for (int first = 0; first < WEEK; first++)
                if (month_lengths[month] >> n & 1 && c->days[n][first])
                    possible |= 1ULL << month;
    return possible;
}

/* Whether the month field names a possible month for every choice of H: an expression must not be valid for one task
 * and refused for another. */
static bool cron_reaches_month(const struct cron_syntax *syntax, uint64_t possible)
{
    for (each_item(i, syntax, CRON_MONTH)) {
        unsigned choice = 0;
        while (choice < max_of(i->choices, 1) && cron_item_set(i, choice) & possible)
            choice++;
        if (choice == max_of(i->choices, 1))
            return true;
    }
    return false;
}

static enum err cron_impossible_error(const struct cron_syntax *syntax, struct error *e)
{
    const char *const field = cron_rules[CRON_DAY].name;
    const struct cron_item *day = cron_items(syntax, CRON_DAY);
    const struct cron_item *month = cron_items(syntax, CRON_MONTH);
    bool one_month = syntax->fields[CRON_MONTH].count == 1;
    bool one_day = syntax->fields[CRON_DAY].count == 1 && day->kind == CRON_SPAN && day->step == 0;
    if (one_month && month->choices)
        return error_field(e, field, "some months that H may choose never have such a day; name the months instead");
    if (one_month && one_day && month->step == 0)
        return error_field(e, field, "%s never has %d days", cron_rules[CRON_MONTH].long_names[month->from - 1],
                           day->from);
    return error_field(e, field, "no date ever matches these days, months and weekdays together");
}

static bool cron_has_step(const struct cron_syntax *syntax, enum cron_field_id field)
{
    for (each_item(i, syntax, field))
        if (i->step)
            return true;
    return false;
}

static bool cron_has_hash(const struct cron_syntax *syntax)
{
    for (size_t i = 0; i < syntax->item_count; i++)
        if (syntax->items[i].choices)
            return true;
    return false;
}

enum err cron_parse(struct str text, uint64_t hash, struct cron *ret, struct error *e)
{
    struct cron_syntax syntax;
    enum err rc = cron_syntax_parse(text, &syntax, e);
    if (rc)
        return rc;
    struct cron c = {
        .seconds = cron_field_set(&syntax, hash, CRON_SECOND),
        .minutes = cron_field_set(&syntax, hash, CRON_MINUTE),
        .hours = (uint32_t)cron_field_set(&syntax, hash, CRON_HOUR),
        .months = (uint16_t)cron_field_set(&syntax, hash, CRON_MONTH),
        .has_seconds = syntax.has_seconds,
        .follows_clock = cron_has_step(&syntax, CRON_SECOND) || cron_has_step(&syntax, CRON_MINUTE) ||
                         cron_has_step(&syntax, CRON_HOUR),
        .uses_hash = cron_has_hash(&syntax),
    };
    cron_compile_days(&syntax, hash, &c);
    if (!cron_reaches_month(&syntax, cron_possible_months(&c)))
        return cron_impossible_error(&syntax, e);
    *ret = c;
    return ERR_OK;
}

/* The lowest bit at or above from, or -1. */
static int cron_next_bit(uint64_t set, int from)
{
    uint64_t rest = set >> from;
    return rest ? from + __builtin_ctzll(rest) : -1;
}

static int cron_time_of_day(int hour, int minute, int second)
{
    return hour * HOUR_S + minute * MINUTE_S + second;
}

int cron_next_in_day(const struct cron *c, int from)
{
    assert(from >= 0 && from < DAY_S);
    const int now_hour = from / HOUR_S, now_minute = from % HOUR_S / MINUTE_S;
    int hour = cron_next_bit(c->hours, now_hour);
    if (hour == now_hour) {
        int minute = cron_next_bit(c->minutes, now_minute);
        if (minute == now_minute) {
            int second = cron_next_bit(c->seconds, from % MINUTE_S);
            if (second >= 0)
                return cron_time_of_day(hour, minute, second);
            minute = cron_next_bit(c->minutes, now_minute + 1);
        }
        if (minute >= 0)
            return cron_time_of_day(hour, minute, cron_next_bit(c->seconds, 0));
        hour = cron_next_bit(c->hours, now_hour + 1);
    }
    return hour < 0 ? -1 : cron_time_of_day(hour, cron_next_bit(c->minutes, 0), cron_next_bit(c->seconds, 0));
}

static int cron_count_bits(uint64_t set, int from)
{
    return __builtin_popcountll(set >> from);
}

int cron_count_in_day(const struct cron *c, int from, int *ret_last)
{
    int first = cron_next_in_day(c, from);
    if (first < 0)
        return 0;
    const int hour = first / HOUR_S, minute = first % HOUR_S / MINUTE_S, second = first % MINUTE_S;
    const int in_minute = __builtin_popcountll(c->seconds), in_hour = __builtin_popcountll(c->minutes) * in_minute;
    *ret_last = cron_time_of_day(31 - __builtin_clz(c->hours), 63 - __builtin_clzll(c->minutes),
                                 63 - __builtin_clzll(c->seconds));
    return cron_count_bits(c->hours, hour + 1) * in_hour + cron_count_bits(c->minutes, minute + 1) * in_minute +
           cron_count_bits(c->seconds, second);
}

/* One month of a search, and the day of it from which on days count. */
struct cron_month {
    int64_t start; /* its first day */
    int year, month, length, first;
    int from; /* 1..31 */
};

static struct cron_month cron_month_of(int64_t day)
{
    struct date d = date_of_day(day);
    int64_t start = day - d.day + 1;
    return (struct cron_month){ start, d.year, d.month, days_in_month(d.year, d.month), weekday_of(start), d.day };
}

static void cron_month_advance(struct cron_month *m)
{
    m->start += m->length;
    m->first = (m->first + m->length) % WEEK;
    m->year += m->month == MONTHS;
    m->month = m->month % MONTHS + 1;
    m->length = days_in_month(m->year, m->month);
    m->from = 1;
}

/* The matching days of this month, as bits. */
static uint32_t cron_month_mask(const struct cron *c, const struct cron_month *m)
{
    return c->months >> m->month & 1 ? c->days[m->length - SHORTEST][m->first] : 0;
}

bool cron_matches_day(const struct cron *c, int64_t day)
{
    if (day < DAY_FIRST || day >= DAY_END)
        return false;
    struct cron_month m = cron_month_of(day);
    return cron_month_mask(c, &m) >> m.from & 1;
}

int64_t cron_next_day(const struct cron *c, int64_t day)
{
    day = max_of(day, (int64_t)DAY_FIRST);
    if (day >= DAY_END)
        return INT64_MAX;
    for (struct cron_month m = cron_month_of(day); m.start < DAY_END; cron_month_advance(&m)) {
        int match = cron_next_bit(cron_month_mask(c, &m), m.from);
        if (match > 0)
            return m.start + match - 1;
    }
    return INT64_MAX;
}

int64_t cron_next_business_day(const struct cron *c, const struct calendar *calendar, int64_t day, int64_t last)
{
    day = max_of(day, (int64_t)DAY_FIRST);
    last = min_of(last, (int64_t)DAY_END - 1);
    if (day > last || (day = calendar_first_from(calendar, day, last)) == INT64_MAX)
        return INT64_MAX;
    struct cron_month m = cron_month_of(day);
    while (m.start <= last) {
        uint64_t days = calendar_business_days(calendar, m.start) << 1;
        int match = cron_next_bit(days & cron_month_mask(c, &m), m.from);
        if (match > 0)
            return m.start + match - 1 <= last ? m.start + match - 1 : INT64_MAX;
        cron_month_advance(&m);
        if (days) /* two months, of which the second comes now */
            continue;
        if ((day = calendar_first_from(calendar, m.start, last)) == INT64_MAX)
            return INT64_MAX;
        m = cron_month_of(day);
    }
    return INT64_MAX;
}

int64_t cron_next(const struct cron *c, int64_t local)
{
    int64_t today = day_of_second(local), day = cron_next_day(c, today);
    if (day == today) {
        int second = cron_next_in_day(c, (int)(local - today * DAY_S));
        if (second >= 0)
            return day * DAY_S + second;
        day = cron_next_day(c, today + 1);
    }
    return day == INT64_MAX ? INT64_MAX : day * DAY_S + cron_next_in_day(c, 0);
}
