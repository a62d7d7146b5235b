/* recurrence_next_entry: every time that a rule names is there once, as one that fires or in a run of skipped ones. */
#include "check.h"
#include "core/time/recurrence.h"
#include "nominal_times.h"
#include "platform/zoneinfo_system.h"
#include "seed.h"

#define HOUR INT64_C(3600000)

static struct zoneinfo *zones;

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

/* A rule with all that it points to. */
struct random_rule {
    struct recurrence rule;
    struct calendar calendar;
    int32_t days[8];
    struct tz *zone;
    int64_t from_ms, until_ms;
};

static void some_calendar(struct random_rule *x, struct prng *r)
{
    int64_t day = floor_div(x->from_ms, DAY_MS);
    for (size_t i = 0; i < array_count(x->days); i++)
        x->days[i] = (int32_t)(day + prng_between(r, 0, 14));
    x->calendar = (struct calendar){ .name = "c", .excluded = x->days };
    x->calendar.excluded_count = calendar_sort(x->days, array_count(x->days));
    if (prng_below(r, 2))
        x->calendar.excluded_weekdays = (uint8_t)(1 | 1 << 6);
    x->rule.calendar = &x->calendar;
    x->rule.calendar_policy = (enum calendar_policy)prng_below(r, 3);
}

/* Around clock changes: Berlin 2026-03-29 and 2026-10-25, Lord Howe 2026-04-04 and 2026-10-03, by half an hour. */
static void make_rule(struct random_rule *x, struct prng *r)
{
    static const char *const crons[] = { "*/7 * * * *",     "30 2 * * *",       "0 2,3 * * *",  "15 */20 1-3 * * *",
                                         "0 9 * * MON-FRI", "*/10 1-3 * * SUN", "45 1 1-7 * *", "0 0 * * *" };
    static const struct {
        const char *zone;
        int64_t ms;
    } changes[] = { { "Europe/Berlin", 1774746000000 },
                    { "Europe/Berlin", 1792890000000 },
                    { "Australia/Lord_Howe", 1775314800000 },
                    { "Australia/Lord_Howe", 1791041400000 },
                    { "UTC", 1774746000000 } };
    struct error e = { 0 };
    *x = (struct random_rule){ 0 };
    size_t change = prng_below(r, array_count(changes));
    assert_ok(zoneinfo_get(zones, str_from(changes[change].zone), &x->zone, &e), &e);
    x->from_ms = changes[change].ms - prng_between(r, 0, 6 * 24 * HOUR);
    x->until_ms = x->from_ms + prng_between(r, 1, 14 * 24 * HOUR);
    x->rule =
        (struct recurrence){ .kind = prng_below(r, 3) ? RECUR_CRON : RECUR_INTERVAL,
                             .zone = x->zone,
                             .interval_ms = prng_between(r, 1, 400) * 300000,
                             .gap = (enum dst_gap)prng_below(r, 3),
                             .repeat = (enum dst_repeat)prng_below(r, 4),
                             .start_ms = x->from_ms - prng_between(r, 0, 48 * HOUR),
                             .end_ms = prng_below(r, 3) ? INT64_MAX : x->until_ms - prng_between(r, 0, 5 * HOUR) };
    if (x->rule.kind == RECUR_CRON)
        assert_ok(cron_parse(str_from(crons[prng_below(r, array_count(crons))]), 1, &x->rule.cron, &e), &e);
    if (prng_below(r, 3))
        some_calendar(x, r);
}

#define fail_rule(x, i, fmt, ...)                                                                                      \
    fail_msg(                                                                                                          \
        "rule %d (kind %d, %s, interval %lld, gap %d, repeat %d, start %lld, end %lld, policy %d, from %lld): " fmt,   \
        (i), (int)(x)->rule.kind, tz_name((x)->zone), (long long)(x)->rule.interval_ms, (int)(x)->rule.gap,            \
        (int)(x)->rule.repeat, (long long)(x)->rule.start_ms, (long long)(x)->rule.end_ms,                             \
        (x)->rule.calendar ? (int)(x)->rule.calendar_policy : -1, (long long)(x)->from_ms, __VA_ARGS__)

static enum nominal_fate fate_of(unsigned notes)
{
    if (notes & NOTE_COPY_SKIPPED)
        return NOMINAL_COPY;
    if (notes & NOTE_GAP_SKIPPED)
        return NOMINAL_GAP;
    if (notes & NOTE_MERGED)
        return notes & NOTE_GAP_SHIFTED ? NOMINAL_GAP_MERGED : NOMINAL_MERGED;
    return NOMINAL_EXCLUDED;
}

/* Takes the times of the entry; returns how many there were. */
static int64_t take_entry(struct nominals *all, const struct occurrence *o)
{
    enum nominal_fate fate = o->fires ? NOMINAL_FIRES : fate_of(o->notes);
    int64_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        struct nominal *x = &all->v[i];
        if (x->fate != fate || x->at_ms < o->scheduled_ms || x->at_ms > (o->fires ? o->scheduled_ms : o->last_ms))
            continue;
        assert_false(x->used);
        x->used = true;
        n++;
    }
    return n;
}

static void every_time_has_one_entry(void **state)
{
    (void)state;
    struct prng r = seeded_prng("every_time_has_one_entry");
    int64_t times[NOMINAL_COPY + 1] = { 0 };
    for (int i = 0; i < 500; i++) {
        struct random_rule x;
        make_rule(&x, &r);
        struct nominals all = nominals_between(&x.rule, x.from_ms, x.until_ms);
        struct occurrence o;
        int64_t at_ms = x.from_ms;
        while (recurrence_next_entry(&x.rule, at_ms, x.until_ms, &o)) {
            assert_true(o.at_ms >= at_ms && o.at_ms < x.until_ms);
            int64_t n = take_entry(&all, &o);
            if (n != (o.fires ? 1 : o.count))
                fail_rule(&x, i, "an entry of %lld times from %lld to %lld, notes %x, has %lld", (long long)o.count,
                          (long long)o.scheduled_ms, (long long)o.last_ms, o.notes, (long long)n);
            at_ms = occurrence_behind(&x.rule, &o);
        }
        for (size_t j = 0; j < all.n; j++) {
            const struct nominal *t = &all.v[j];
            bool asked = t->at_ms >= x.from_ms && t->at_ms < x.until_ms;
            if (asked && !t->used)
                fail_rule(&x, i, "the time %lld, fate %d, has no entry", (long long)t->at_ms, (int)t->fate);
            times[t->fate] += t->used;
        }
        free(all.v);
        tz_unref(x.zone);
    }
    printf("# times that fire %lld, are excluded %lld, merged %lld, in a gap %lld, merged by one %lld, copies %lld\n",
           (long long)times[0], (long long)times[1], (long long)times[2], (long long)times[3], (long long)times[4],
           (long long)times[5]);
    for (int i = 0; i <= NOMINAL_COPY; i++)
        assert_true(times[i] > 10); /* each kind occurs */
}

static void a_spread_moves_all_entries_alike(void **state)
{
    (void)state;
    struct prng r = seeded_prng("a_spread_moves_all_entries_alike");
    for (int i = 0; i < 100; i++) {
        struct random_rule x;
        make_rule(&x, &r);
        struct recurrence spread = x.rule;
        spread.spread_ms = 1000000;
        spread.hash = prng_below(&r, 1000000);
        struct occurrence a, b;
        int64_t offset = recurrence_spread(&spread);
        for (int64_t at_ms = x.from_ms; recurrence_next_entry(&x.rule, at_ms, x.until_ms, &a);
             at_ms = occurrence_behind(&x.rule, &a)) {
            assert_true(recurrence_next_entry(&spread, at_ms + offset, x.until_ms + offset, &b));
            assert_true(b.at_ms == a.at_ms + offset && b.scheduled_ms == a.scheduled_ms && b.count == a.count);
            assert_true(occurrence_behind(&spread, &b) == occurrence_behind(&x.rule, &a) + offset);
        }
        tz_unref(x.zone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_time_has_one_entry),
        cmocka_unit_test(a_spread_moves_all_entries_alike),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
