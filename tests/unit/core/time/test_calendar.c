/* Calendars that are closed for a long time: the search by words is compared with one that tries every day, and it must
 * be cheap, since each request that shows a task searches. */
#include "check.h"

#include <time.h>

#include "base/rfc3339.h"
#include "core/time/recurrence.h"
#include "core/time/recurrence_shown.h"
#include "platform/zoneinfo_system.h"
#include "seed.h"

static struct zoneinfo *zones;

static int64_t at(const char *text)
{
    struct error e;
    int64_t ms = 0;
    assert_ok(rfc3339_parse(str_from(text), &ms, &e), &e);
    return ms;
}

static struct tz *zone(const char *name)
{
    struct error e;
    struct tz *z = NULL;
    assert_ok(zoneinfo_get(zones, str_from(name), &z, &e), &e);
    return z;
}

static struct recurrence cron_rule(const char *expression, struct tz *z, const struct calendar *c)
{
    struct error e;
    struct recurrence r = { .kind = RECUR_CRON, .zone = z, .end_ms = INT64_MAX, .calendar = c };
    assert_ok(cron_parse(str_from(expression), 0, &r.cron, &e), &e);
    return r;
}

/* ---- random calendars ---- */

enum { DATES = 1200 };

struct random_calendar {
    struct calendar c;
    int32_t excluded[DATES], included[DATES];
    uint64_t words[CALENDAR_WORDS];
};

/* Dates in a row, or strewn over a span, from `first` on. */
static size_t some_dates(struct prng *r, int64_t first, int32_t dates[DATES])
{
    bool in_a_row = prng_below(r, 2);
    size_t n = prng_below(r, prng_below(r, 2) ? DATES : 10);
    int64_t span = prng_between(r, 1, 4000);
    first -= prng_between(r, 0, 500);
    for (size_t i = 0; i < n; i++)
        dates[i] = (int32_t)(first + (in_a_row ? (int64_t)i : prng_between(r, 0, span)));
    return calendar_sort(dates, n);
}

static void make_calendar(struct random_calendar *x, struct prng *r, int64_t day)
{
    static const uint8_t weekdays[] = { 0, 0x7f, 0x7f, 0x41, 0x7e, 0x3f };
    x->c = (struct calendar){ .name = "c",
                              .excluded_weekdays = weekdays[prng_below(r, array_count(weekdays))],
                              .excluded = x->excluded,
                              .included = x->included };
    x->c.excluded_count = some_dates(r, day, x->excluded);
    x->c.included_count = some_dates(r, day, x->included);
    if (prng_below(r, 3) == 0)
        x->c.included_count = min_of(x->c.included_count, (size_t)3);
    x->c.words = prng_below(r, 4) ? x->words : NULL;
    if (x->c.words)
        calendar_fill_words(&x->c, x->words);
}

static bool is_listed(const int32_t *days, size_t n, int64_t day)
{
    for (size_t i = 0; i < n; i++)
        if (days[i] == day)
            return true;
    return false;
}

/* The definition. */
static bool is_open(const struct calendar *c, int64_t day)
{
    if (is_listed(c->included, c->included_count, day))
        return true;
    return !is_listed(c->excluded, c->excluded_count, day) && !(c->excluded_weekdays >> weekday_of(day) & 1);
}

static void days_are_found_as_if_each_was_tried(void **state)
{
    (void)state;
    struct prng r = seeded_prng("days_are_found_as_if_each_was_tried");
    static struct random_calendar x;
    for (int round = 0; round < 60; round++) {
        int64_t day = prng_between(&r, -2000, 90000), last = day + prng_between(&r, 0, 300);
        make_calendar(&x, &r, day);
        int64_t next = day, before = last;
        while (next <= last && !is_open(&x.c, next))
            next++;
        while (before >= day && !is_open(&x.c, before))
            before--;
        assert_int_equal(calendar_first_from(&x.c, day, last), next <= last ? next : INT64_MAX);
        assert_int_equal(calendar_last_until(&x.c, last, day), before >= day ? before : INT64_MIN);
        uint64_t days = calendar_business_days(&x.c, day);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(days >> i & 1, is_open(&x.c, day + i));
            assert_int_equal(calendar_is_business_day(&x.c, day + i), is_open(&x.c, day + i));
        }
    }
}

/* ---- the next occurrence, day by day ---- */

static const int64_t LAST_DAY = RECURRENCE_END_MS / DAY_MS;

/* Whether an occurrence of the rule is on that day, its own or one that was moved. */
static bool day_fires(const struct recurrence *r, int64_t day)
{
    if (!calendar_is_business_day(r->calendar, day))
        return false;
    if (cron_matches_day(&r->cron, day))
        return day <= LAST_DAY;
    int back = r->calendar_policy == CALENDAR_NEXT_DAY ? -1 : 1;
    for (int i = 1; r->calendar_policy != CALENDAR_SKIP && i <= CALENDAR_REACH_DAYS; i++) {
        int64_t source = day + (int64_t)i * back;
        if (calendar_is_business_day(r->calendar, source))
            return false;
        if (cron_matches_day(&r->cron, source) && source <= LAST_DAY)
            return true;
    }
    return false;
}

/* The first fire of a local second at or after from_ms. */
static int64_t fire_of(const struct recurrence *r, int64_t local, int64_t from_ms)
{
    struct tz_instants i = tz_instants_of(r->zone, local);
    bool last = r->repeat == DST_REPEAT_LAST, both = r->repeat == DST_REPEAT_BOTH;
    if (i.kind == TZ_GAP && r->gap == DST_GAP_SKIP)
        return INT64_MAX;
    if (i.kind != TZ_REPEAT)
        return i.first * 1000 >= from_ms ? i.first * 1000 : INT64_MAX;
    if ((both || !last) && i.first * 1000 >= from_ms)
        return i.first * 1000;
    return (both || last) && i.last * 1000 >= from_ms ? i.last * 1000 : INT64_MAX;
}

static int64_t slow_next(const struct recurrence *r, int64_t from_ms)
{
    int64_t found = INT64_MAX, first = floor_div(from_ms, DAY_MS) - 2;
    for (int64_t day = first; day <= LAST_DAY && day * DAY_MS < min_of(found, RECURRENCE_END_MS) + 2 * DAY_MS; day++) {
        if (!day_fires(r, day))
            continue;
        for (int s = cron_next_in_day(&r->cron, 0); s >= 0; s = s < DAY_S - 1 ? cron_next_in_day(&r->cron, s + 1) : -1)
            found = min_of(found, fire_of(r, day * DAY_S + s, from_ms));
    }
    return found < RECURRENCE_END_MS ? found : INT64_MAX;
}

static struct recurrence some_rule(struct prng *r, struct tz *z, const struct calendar *c)
{
    static const char *const crons[] = { "30 2 * * *",      "0,30 0,2,3,23 * * *", "0 0 29 2 *",   "0 12 1-31/2 * *",
                                         "30 2 * 3,10 SUN", "0 0 L * *",           "15 9 * * MON", "0 0 13 */5 *" };
    struct recurrence rule = cron_rule(crons[prng_below(r, array_count(crons))], z, c);
    rule.calendar_policy = (enum calendar_policy)prng_below(r, 3);
    rule.gap = prng_below(r, 2) ? DST_GAP_SHIFT : DST_GAP_SKIP;
    rule.repeat = (enum dst_repeat)prng_between(r, DST_REPEAT_FIRST, DST_REPEAT_BOTH);
    return rule;
}

static void the_next_occurrence_is_found_as_if_each_day_was_tried(void **state)
{
    (void)state;
    static const char *const names[] = { "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca",
                                         "UTC" };
    struct prng r = seeded_prng("the_next_occurrence_is_found_as_if_each_day_was_tried");
    static struct random_calendar x;
    int found = 0, none = 0;
    for (int round = 0; round < 150; round++) {
        struct tz *z = zone(names[prng_below(&r, array_count(names))]);
        int64_t from_ms = prng_between(&r, at("2150-01-01T00:00:00Z"), RECURRENCE_END_MS - 1);
        if (prng_below(&r, 2))
            from_ms = at("2011-06-01T00:00:00Z") + prng_between(&r, 0, 3000 * DAY_MS);
        make_calendar(&x, &r, floor_div(from_ms, DAY_MS));
        struct recurrence rule = some_rule(&r, z, &x.c);
        for (int i = 0; i < 3 && from_ms < RECURRENCE_END_MS; i++) {
            struct occurrence o = { .at_ms = INT64_MAX };
            int64_t want = slow_next(&rule, from_ms);
            bool fires = recurrence_next(&rule, from_ms, &o);
            if (fires != (want != INT64_MAX) || o.at_ms != want)
                fail_msg("round %d, %s, policy %d, gap %d, repeat %d, from %lld: %lld, but tried day by day %lld",
                         round, tz_name(z), (int)rule.calendar_policy, (int)rule.gap, (int)rule.repeat,
                         (long long)from_ms, (long long)o.at_ms, (long long)want);
            *(fires ? &found : &none) += 1;
            /* a bound finds the same up to it */
            int64_t until_ms = fires ? o.at_ms : RECURRENCE_END_MS;
            struct occurrence bounded;
            assert_false(recurrence_next_before(&rule, from_ms, until_ms, &bounded));
            assert_true(!fires || (recurrence_next_before(&rule, from_ms, until_ms + 1, &bounded) &&
                                   bounded.at_ms == o.at_ms && bounded.nominal_local == o.nominal_local));
            from_ms = fires ? o.at_ms + 1 : RECURRENCE_END_MS;
        }
        tz_unref(z);
    }
    assert_true(found > 50 && none > 5);
}

static void the_last_day_of_a_calendar_has_both_copies(void **state)
{
    (void)state;
    struct tz *z = zone("Europe/Berlin");
    int32_t day = (int32_t)(at("2028-10-29T00:00:00Z") / DAY_MS); /* the clock is set back */
    struct calendar c = { .excluded_weekdays = 0x7f, .included = &day, .included_count = 1 };
    struct recurrence r = cron_rule("30 2 * * *", z, &c);
    struct occurrence o;
    r.repeat = DST_REPEAT_BOTH;
    assert_true(recurrence_next(&r, at("2026-01-01T00:00:00Z"), &o));
    assert_int_equal(o.at_ms, at("2028-10-29T00:30:00Z"));
    assert_true(recurrence_next(&r, o.at_ms + 1, &o));
    assert_int_equal(o.at_ms, at("2028-10-29T01:30:00Z"));
    assert_false(recurrence_next(&r, o.at_ms + 1, &o));
    tz_unref(z);
}

/* ---- the cost ---- */

static int64_t cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Without the calendar's words, clock changes passed over, the fire kept by a walk, and days counted as a whole, each
 * takes minutes. */
static void a_calendar_that_is_closed_for_a_century_costs_little(void **state)
{
    (void)state;
    static int32_t excluded[CALENDAR_DATES_MAX];
    static uint64_t words[CALENDAR_WORDS];
    int32_t day = (int32_t)(at("2199-12-31T00:00:00Z") / DAY_MS);
    int64_t now_ms = at("2026-01-01T00:00:00Z"), begun_ms = cpu_ms();
    struct tz *z = zone("Europe/Berlin");
    for (int i = 0; i < CALENDAR_DATES_MAX; i++)
        excluded[i] = (int32_t)(now_ms / DAY_MS) + i;
    struct calendar calendars[] = { { .excluded_weekdays = 0x7f, .included = &day, .included_count = 1 },
                                    { .excluded = excluded, .excluded_count = CALENDAR_DATES_MAX } };
    static const char *const crons[] = { "0 0 * * *", "*/5 * * * *", "0 0 1-31/2 * *", "* * * * * *" };
    struct occurrence o;
    for (size_t i = 0; i < array_count(calendars) * array_count(crons) * 3; i++) {
        struct calendar *c = &calendars[i % 2];
        calendar_fill_words(c, words);
        c->words = words;
        struct recurrence r = cron_rule(crons[i / 2 % array_count(crons)], z, c);
        r.calendar_policy = (enum calendar_policy)(i / (2 * array_count(crons)));
        int64_t from_ms = now_ms;
        for (int lines = 0; lines < 200 && recurrence_next_shown(&r, from_ms, &o); lines++)
            from_ms = occurrence_behind(&r, &o);
        for (int n = 0; n < 20; n++)
            assert_true(recurrence_next(&r, now_ms + n * DAY_MS, &o));
        assert_true(recurrence_next_entry(&r, now_ms, INT64_MAX, &o));
        assert_true(o.at_ms < now_ms + 2 * DAY_MS);
    }
    assert_true(cpu_ms() - begun_ms < 5000);
    tz_unref(z);
}

/* A business day takes the steps of a whole closed year: 1000 fires, 100 lines of a preview, and the first entry, of
 * intervals of all sizes. The clock changes between the days and the one that takes their steps. */
static void steps_of_a_closed_year_cost_little(void **state)
{
    (void)state;
    static int32_t included[170];
    static uint64_t words[CALENDAR_WORDS];
    static const int64_t intervals[] = { 1000, 7000, 60000, 61000, 3600000, 86399000, 2 * DAY_MS, 400 * DAY_MS };
    int64_t now_ms = at("2026-11-06T00:00:00Z"), begun_ms = cpu_ms();
    struct tz *z = zone("Europe/Berlin");
    for (int i = 0; i < (int)array_count(included); i++)
        included[i] = (int32_t)(now_ms / DAY_MS) + 300 + (CALENDAR_REACH_DAYS + 1) * i;
    struct calendar c = { .excluded_weekdays = 0x7f, .included = included, .included_count = array_count(included) };
    calendar_fill_words(&c, words);
    c.words = words;
    for (size_t i = 0; i < 2 * array_count(intervals); i++) {
        struct recurrence r = { .kind = RECUR_INTERVAL,
                                .interval_ms = intervals[i / 2],
                                .zone = z,
                                .start_ms = now_ms,
                                .end_ms = INT64_MAX,
                                .calendar = &c,
                                .calendar_policy = i % 2 ? CALENDAR_NEXT_DAY : CALENDAR_PREVIOUS_DAY };
        struct occurrence o;
        int fires = 0;
        for (int64_t from_ms = now_ms; fires < 1000 && recurrence_next(&r, from_ms, &o); fires++)
            from_ms = o.at_ms + 1;
        assert_true(fires > 100);
        int64_t shown_ms = now_ms;
        for (int lines = 0; lines < 100 && recurrence_next_shown(&r, shown_ms, &o); lines++)
            shown_ms = occurrence_behind(&r, &o);
        assert_true(recurrence_next_entry(&r, now_ms, INT64_MAX, &o));
    }
    assert_true(cpu_ms() - begun_ms < 8000);
    tz_unref(z);
}

static int setup(void **state)
{
    (void)state;
    zones = zoneinfo_system_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    zoneinfo_free(zones);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_are_found_as_if_each_was_tried),
        cmocka_unit_test(the_next_occurrence_is_found_as_if_each_day_was_tried),
        cmocka_unit_test(the_last_day_of_a_calendar_has_both_copies),
        cmocka_unit_test(a_calendar_that_is_closed_for_a_century_costs_little),
        cmocka_unit_test(steps_of_a_closed_year_cost_little),
    };
    return cmocka_run_group_tests_name("calendar", tests, setup, teardown);
}
