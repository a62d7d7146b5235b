/* core/task/spawn: rows for times that the rule itself leaves out or moves. */
#include "core/task/spawn.h"

#include "spawn_bench.h"

/* Fires each day at 02:30 in Berlin, where that time does not exist on 29 March 2026. */
static void daily_in_berlin(struct bench *b, enum dst_gap gap)
{
    struct error e;
    every(b, HOUR, 0);
    b->t.schedule.cron = S("30 2 * * *");
    b->t.schedule.gap = gap;
    b->t.extra = S("{\"metadata\":{\"team\":\"a\"}}");
    b->t.cursor_ms = 1774743000000; /* 2026-03-29T00:10:00Z */
    assert_ok(schedule_rule(&b->t.schedule, b->t.id, berlin, NULL, 0, &b->rule, &e), &e);
}

static void a_time_that_does_not_exist_is_a_row(void **state)
{
    (void)state;
    struct bench b;
    daily_in_berlin(&b, DST_GAP_SKIP);
    assert_true(spawn_first_entry(&b.rule, b.t.cursor_ms) == 1774746000000 - 1);
    plan_at(&b, 1774746000000 - 5 * SECOND);
    assert_int_equal(b.plan.occurrences.n, 1);
    is_skipped(&b, 0, 1774746000000 - 1, "skipped: its local time does not exist that day");
    assert_true(b.plan.skipped == 1 && b.plan.runs == 0 && b.plan.missed == 0);
    assert_string_equal(skip_reason_name(occurrence(&b, 0)), "DST_GAP");
    assert_true(b.plan.cursor_ms == 1774830600000); /* 02:30 of the next day */
    arena_release(&b.arena);
}

static void a_time_that_is_shifted_says_from_where(void **state)
{
    (void)state;
    struct bench b;
    daily_in_berlin(&b, DST_GAP_SHIFT);
    plan_at(&b, 1774746000000 - 5 * SECOND);
    is_run(&b, 0, 1774746000000, 1774746000000);
    assert_str(occurrence(&b, 0)->extra, "{\"metadata\":{\"team\":\"a\"},\"moved\":{\"from\":\"2026-03-29T02:30:00\","
                                         "\"reason\":\"DST_GAP\"}}");
    b.t.extra = S("");
    plan_at(&b, 1774746000000 - 5 * SECOND);
    assert_str(occurrence(&b, 0)->extra, "{\"moved\":{\"from\":\"2026-03-29T02:30:00\",\"reason\":\"DST_GAP\"}}");
    arena_release(&b.arena);
}

static void an_excluded_day_is_one_row_that_missed_ones_do_not_reach_over(void **state)
{
    (void)state;
    static const int32_t excluded[] = { 20515 }; /* 2026-03-03 */
    static const struct calendar calendar = { .name = "c", .excluded = excluded, .excluded_count = 1 };
    struct bench b;
    every(&b, 6 * HOUR, NOW - 34 * HOUR); /* at 04:00, 10:00, 16:00 and 22:00; from the 2nd at 00:00 */
    b.rule.calendar = &calendar;
    b.t.schedule.catch_up = CATCH_UP_NONE;
    plan_at(&b, NOW + 24 * HOUR + 5 * SECOND); /* the 4th at 10:00 */
    assert_int_equal(b.plan.occurrences.n, 3);
    assert_true(b.plan.skipped == 4 + 4 + 2 && b.plan.missed == 6);
    is_skipped(
        &b, 0, NOW - 6 * HOUR,
        "skipped 4 occurrences from 2026-03-03T04:00:00.000Z to 2026-03-03T22:00:00.000Z: its day is excluded by the "
        "calendar");
    assert_true(occurrence(&b, 0)->cursor_ms == NOW + 12 * HOUR && skip_count(occurrence(&b, 0)) == 4);
    assert_true(occurrence(&b, 1)->cursor_ms == NOW - 12 * HOUR && skip_count(occurrence(&b, 1)) == 4);
    assert_true(occurrence(&b, 2)->scheduled_ms == NOW + 18 * HOUR && skip_count(occurrence(&b, 2)) == 2);
    arena_release(&b.arena);
}

/* Of six missed hours the second and the third have a row already. */
static void hours_of_which_two_are_taken(struct bench *b, struct spawn_taken *taken)
{
    static const struct spawn_span span = { NOW - 4 * HOUR, NOW - 3 * HOUR };
    every(b, HOUR, NOW - 5 * HOUR);
    *taken = (struct spawn_taken){ &span, 1, INT64_MAX };
    b->taken = taken;
}

static void no_row_is_made_for_a_time_that_has_one(void **state)
{
    (void)state;
    struct bench b;
    struct spawn_taken taken;
    hours_of_which_two_are_taken(&b, &taken);
    b.t.schedule.catch_up = CATCH_UP_ALL;
    plan_at(&b, NOW + 5 * SECOND);
    assert_true(b.plan.occurrences.n == 4 && b.plan.runs == 4 && b.plan.missed == 4);
    is_run(&b, 0, NOW - 5 * HOUR, NOW + 5 * SECOND);
    is_run(&b, 1, NOW - 2 * HOUR, NOW + 5 * SECOND);
    b.t.cursor_ms = NOW - 3 * HOUR; /* ahead of time it is the same */
    plan_at(&b, NOW - 3 * HOUR - SECOND);
    assert_int_equal(b.plan.occurrences.n, 0);
    assert_true(b.plan.cursor_ms == NOW - 2 * HOUR);
    arena_release(&b.arena);
}

static void a_row_of_missed_times_does_not_reach_over_one_that_exists(void **state)
{
    (void)state;
    static const enum catch_up modes[] = { CATCH_UP_NONE, CATCH_UP_ONE };
    for (size_t i = 0; i < array_count(modes); i++) {
        struct bench b;
        struct spawn_taken taken;
        hours_of_which_two_are_taken(&b, &taken);
        b.t.schedule.catch_up = modes[i];
        plan_at(&b, NOW + 5 * SECOND);
        assert_int_equal(b.plan.occurrences.n, 2 + b.plan.runs);
        assert_int_equal(b.plan.runs + b.plan.skipped, 4);
        assert_true(occurrence(&b, 0)->scheduled_ms == NOW - 5 * HOUR && skip_count(occurrence(&b, 0)) == 1);
        assert_true(occurrence(&b, 1)->scheduled_ms == NOW - 2 * HOUR &&
                    skip_count(occurrence(&b, 1)) == 3 - b.plan.runs);
        arena_release(&b.arena);
    }
}

/* One runs for all, so each is known to be skipped only when the next one comes. */
static void each_row_that_exists_divides_those_of_missed_times(void **state)
{
    (void)state;
    static const struct spawn_span spans[] = { { NOW - 4 * HOUR, NOW - 4 * HOUR }, { NOW - 2 * HOUR, NOW - 2 * HOUR } };
    struct spawn_taken taken = { spans, 2, INT64_MAX };
    struct bench b;
    every(&b, HOUR, NOW - 5 * HOUR);
    b.taken = &taken;
    plan_at(&b, NOW + 5 * SECOND);
    assert_true(b.plan.occurrences.n == 4 && b.plan.skipped == 3 && b.plan.runs == 1);
    for (size_t i = 0; i < 3; i++)
        assert_true(occurrence(&b, i)->scheduled_ms == NOW - (5 - 2 * (int64_t)i) * HOUR &&
                    skip_count(occurrence(&b, i)) == 1);
    is_run(&b, 3, NOW, NOW + 5 * SECOND);
    arena_release(&b.arena);
}

static void a_visit_ends_where_nothing_is_known_of_rows(void **state)
{
    (void)state;
    struct bench b;
    struct spawn_taken taken;
    hours_of_which_two_are_taken(&b, &taken);
    taken.before_ms = NOW - 2 * HOUR;
    plan_at(&b, NOW + 5 * SECOND);
    assert_true(b.plan.more && b.plan.occurrences.n == 1 && b.plan.skipped == 1);
    assert_true(b.plan.cursor_ms > NOW - 3 * HOUR && b.plan.cursor_ms <= NOW - 2 * HOUR);
    taken = (struct spawn_taken){ .before_ms = NOW - 5 * HOUR }; /* it moves on, whatever is known */
    plan_at(&b, NOW + 5 * SECOND);
    assert_true(b.plan.more && b.plan.occurrences.n == 0 && b.plan.cursor_ms > NOW - 5 * HOUR);
    arena_release(&b.arena);
}

static void a_row_is_about_the_time_it_was_spawned_for(void **state)
{
    (void)state;
    struct uuid parent = { { 1, 2, 3, 4 } };
    struct task o = { .id = occurrence_id(parent, NOW),
                      .parent = parent,
                      .kind = TASK_OCCURRENCE,
                      .state = TASK_COMPLETED,
                      .scheduled_ms = NOW + HOUR, /* a user moved it */
                      .due_ms = NOW + HOUR };
    struct spawn_span span;
    assert_true(spawned_span(&o, &span) && span.first_ms == NOW && span.last_ms == NOW);
    o.state = TASK_SKIPPED;
    o.cursor_ms = NOW + 3 * HOUR;
    assert_true(spawned_span(&o, &span) && span.first_ms == NOW && span.last_ms == NOW + 3 * HOUR);
    o.skipped_count = 4;
    assert_false(spawned_span(&o, &span)); /* the rule left it out */
    o.due_ms++;
    assert_true(spawned_span(&o, &span));
    o.id.b[15] ^= 1;
    assert_false(spawned_span(&o, &span)); /* asked for by hand */
}

static struct spawn_cut cut_at(struct bench *b, const struct task *row, int64_t before_ms, bool expect)
{
    struct spawn_cut c = { 0 };
    struct error e;
    bool cuts;
    assert_ok(spawn_cut(row, &b->rule, before_ms, &b->arena, &c, &cuts, &e), &e);
    assert_int_equal(cuts, expect);
    return c;
}

/* Makes the row of an excluded day, then takes times from it. The calendar has no excluded day any more. */
static void a_row_of_an_excluded_day_loses_times_that_have_not_come(void **state)
{
    (void)state;
    static const char *const crons[] = { "", "*/20 * * * *", "0,30 10-23 * * *" };
    static const int64_t counts[] = { 28, 42, 28 }, left[] = { 5, 7, 5 }, minutes[] = { 120, 120, 120 };
    const struct calendar off = { .name = "off", .excluded_weekdays = 0x7f & ~(1 << 3) }; /* NOW is a Tuesday */
    for (size_t i = 0; i < array_count(crons); i++) {
        struct bench b;
        struct error e;
        every(&b, HOUR / 2, NOW);
        b.t.schedule.cron = str_from(crons[i]);
        assert_ok(schedule_rule(&b.t.schedule, b.t.id, utc, &off, 0, &b.rule, &e), &e);
        plan_at(&b, NOW - SECOND);
        struct task row = *occurrence(&b, 0);
        assert_int_equal(row.skipped_count, counts[i]);
        b.rule.calendar = NULL;
        (void)cut_at(&b, &row, row.cursor_ms + 1, false);
        struct spawn_cut c = cut_at(&b, &row, NOW + minutes[i] * 60 * SECOND + 1, true);
        assert_true(c.count == left[i] && c.count_was == counts[i] && c.first_ms == NOW);
        assert_true(c.last_ms == NOW + 2 * HOUR && uuid_eq(c.id, row.id));
        row.last_error = c.error;
        assert_string_equal(skip_reason_name(&row), "CALENDAR");
        c = cut_at(&b, &row, NOW + 1, true);
        assert_true(c.count == 1 && c.last_ms == NOW);
        assert_str(c.error, "skipped: its day is excluded by the calendar");
        assert_true(cut_at(&b, &row, NOW, true).count == 0); /* no time is left */
        row.due_ms++;                                        /* a row of missed times */
        (void)cut_at(&b, &row, NOW, false);
        arena_release(&b.arena);
    }
}

/* Berlin, 25 October 2026: from 02:00 to 03:00 local time comes twice, and the first one fires. */
static void a_row_of_an_unwanted_copy_loses_times_that_have_not_come(void **state)
{
    (void)state;
    struct bench b;
    struct error e;
    every(&b, HOUR, 1792890000000); /* 01:00Z: the change */
    b.t.schedule.cron = S("*/10 2 * * *");
    b.t.schedule.repeat = DST_REPEAT_FIRST;
    assert_ok(schedule_rule(&b.t.schedule, b.t.id, berlin, NULL, 0, &b.rule, &e), &e);
    plan_at(&b, 1792890000000 - SECOND);
    const struct task *row = occurrence(&b, 0);
    assert_string_equal(skip_reason_name(row), "DST_COPY");
    assert_int_equal(row->skipped_count, 6);
    struct spawn_cut c = cut_at(&b, row, 1792890000000 + 20 * 60 * SECOND, true);
    assert_true(c.count == 2 && c.last_ms == 1792890000000 + 10 * 60 * SECOND);
    arena_release(&b.arena);
}

static void what_was_decided_before_the_clock_was_set_back_does_not_come_again(void **state)
{
    (void)state;
    struct bench b;
    every(&b, 10 * SECOND, NOW + 10 * SECOND);
    assert_true(spawn_decided_until(&b.t, &b.rule, NOW - 5 * SECOND) == 0); /* spawned ahead */
    assert_true(spawn_decided_until(&b.t, &b.rule, NOW) == 0);
    b.t.cursor_ms = NOW + HOUR;
    assert_true(spawn_decided_until(&b.t, &b.rule, NOW) == NOW + HOUR);
    assert_true(spawn_decided_until(&b.t, &b.rule, NOW + HOUR - 20 * SECOND) == 0); /* it fires soon */
    every(&b, DAY, NOW + DAY); /* the cursor is far ahead, but there is nothing before it */
    assert_true(spawn_decided_until(&b.t, &b.rule, NOW + HOUR) == 0);
    arena_release(&b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_that_does_not_exist_is_a_row),
        cmocka_unit_test(a_time_that_is_shifted_says_from_where),
        cmocka_unit_test(an_excluded_day_is_one_row_that_missed_ones_do_not_reach_over),
        cmocka_unit_test(no_row_is_made_for_a_time_that_has_one),
        cmocka_unit_test(a_row_of_missed_times_does_not_reach_over_one_that_exists),
        cmocka_unit_test(each_row_that_exists_divides_those_of_missed_times),
        cmocka_unit_test(a_visit_ends_where_nothing_is_known_of_rows),
        cmocka_unit_test(a_row_is_about_the_time_it_was_spawned_for),
        cmocka_unit_test(a_row_of_an_excluded_day_loses_times_that_have_not_come),
        cmocka_unit_test(a_row_of_an_unwanted_copy_loses_times_that_have_not_come),
        cmocka_unit_test(what_was_decided_before_the_clock_was_set_back_does_not_come_again),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
