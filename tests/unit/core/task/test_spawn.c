/* core/task/spawn: which occurrences are created now. Many visits are compared with core/time/recurrence. */
#include "core/task/spawn.h"

#include <stdlib.h>

#include "base/rfc3339.h"
#include "core/task/fence.h"
#include "random_bytes.h"
#include "seed.h"
#include "spawn_bench.h"

/* Applies a plan as the store does. */
static void apply(struct bench *b)
{
    b->t.cursor_ms = b->plan.cursor_ms;
    b->t.runs_count += b->plan.runs;
    b->t.skipped_count += b->plan.skipped;
    if (b->plan.ended)
        b->t.state = TASK_COMPLETED;
}

/* ---- occurrences ahead ---- */

static void what_comes_before_the_horizon_is_made(void **state)
{
    (void)state;
    struct bench b;
    every(&b, 2 * SECOND, NOW);
    plan_at(&b, NOW);
    assert_int_equal(b.plan.occurrences.n, 5); /* the one at 10 s is not before the horizon */
    for (size_t i = 0; i < 5; i++)
        is_run(&b, i, NOW + (int64_t)i * 2 * SECOND, NOW + (int64_t)i * 2 * SECOND);
    assert_true(b.plan.cursor_ms == NOW + 10 * SECOND);
    assert_true(b.plan.runs == 5 && b.plan.skipped == 0);
    assert_false(b.plan.ended);
    assert_false(b.plan.more);
    apply(&b);
    plan_at(&b, NOW); /* a second visit at the same time has nothing to do */
    assert_int_equal(b.plan.occurrences.n, 0);
    assert_true(b.plan.cursor_ms == NOW + 10 * SECOND);
    assert_false(b.plan.ended);
    arena_release(&b.arena);
}

static void what_lies_beyond_the_horizon_waits(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW + HOUR);
    plan_at(&b, NOW);
    assert_int_equal(b.plan.occurrences.n, 0);
    assert_true(b.plan.cursor_ms == NOW + HOUR);
    assert_false(b.plan.ended);
    arena_release(&b.arena);
}

static void an_occurrence_carries_what_its_task_says(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW);
    b.t.delivery = DELIVER_AT_MOST_ONCE;
    b.t.timeout_ms = 1234;
    b.t.expires_after_ms = 5678;
    b.t.target = TARGET_NOOP;
    b.t.task_type = S("type");
    b.t.target_config = S("{\"url\": 1}");
    b.t.payload = S("[7]");
    b.t.extra = S("{\"metadata\": {}}");
    b.t.concurrency_key = S("db");
    b.t.concurrency_limit = 4;
    b.t.schedule.overlap = OVERLAP_QUEUE_ALL;
    b.t.dedupe_key = S("once"); /* belongs to the task, not to each occurrence */
    b.t.attempts = 3;           /* the task's own progress is not copied */
    b.t.losses = 2;
    b.t.runs_count = 4;
    plan_at(&b, NOW);
    const struct task *o = occurrence(&b, 0);
    assert_true(uuid_eq(o->id, occurrence_id(b.t.id, NOW)));
    assert_true(uuid_eq(o->parent, b.t.id));
    assert_int_equal(o->kind, TASK_OCCURRENCE);
    assert_int_equal(o->tenant, 3);
    assert_int_equal(o->priority, 8);
    assert_true(o->version == 1 && fence_is_unclaimed(o->fence) && o->attempts == 0 && o->losses == 0);
    assert_true(o->runs_count == 1); /* it counts as a run until it is withdrawn */
    assert_true(o->created_ms == NOW && o->updated_ms == NOW && o->completed_ms == 0);
    assert_str(o->queue, "mail");
    assert_str(o->name, "digest");
    assert_str(o->task_type, "type");
    assert_str(o->target_config, "{\"url\": 1}");
    assert_str(o->payload, "[7]");
    assert_str(o->extra, "{\"metadata\": {}}");
    assert_int_equal(o->delivery, DELIVER_AT_MOST_ONCE);
    assert_int_equal(o->target, TARGET_NOOP);
    assert_true(o->timeout_ms == 1234 && o->expires_after_ms == 5678);
    assert_int_equal(o->retry.max_attempts, 5);
    assert_str(o->concurrency_key, "db");
    assert_int_equal(o->concurrency_limit, 4);
    assert_int_equal(o->overlap, OVERLAP_QUEUE_ALL);
    assert_int_equal(o->dedupe_key.n, 0);
    assert_true(uuid_is_nil(o->claim));
    arena_release(&b.arena);
}

/* It may have been claimed and withdrawn: whoever holds that claim must not settle the new row. */
static void what_may_have_been_made_before_begins_above_its_old_fences(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW);
    b.t.version = 1;
    plan_at(&b, NOW + SECOND);
    assert_true(occurrence(&b, 0)->fence == 0);
    plan_at(&b, NOW + 2 * SECOND); /* late: OP_CATCH_UP may have withdrawn it */
    int64_t late = occurrence(&b, 0)->fence;
    assert_true(late > fence_after(0, 0) && fence_is_unclaimed(late) && !fence_is_unclaimed(fence_after(late, 0)));
    b.t.version = 2; /* a pause may have */
    plan_at(&b, NOW - 5 * SECOND);
    int64_t first = occurrence(&b, 0)->fence;
    plan_at(&b, NOW - 4 * SECOND);
    assert_true(first > 0 && occurrence(&b, 0)->fence > fence_after(first, 0));
    arena_release(&b.arena);
}

static void spread_moves_the_due_time_and_not_the_occurrence(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW);
    b.rule.spread_ms = 5 * SECOND;
    b.rule.hash = 0x123456789abcdefULL;
    int64_t offset = recurrence_spread(&b.rule);
    assert_true(offset > 0);
    plan_at(&b, NOW);
    assert_int_equal(b.plan.occurrences.n, 1);
    is_run(&b, 0, NOW, NOW + offset);
    assert_true(occurrence(&b, 0)->awaited_ms == NOW && occurrence(&b, 0)->late_by == LATE_SPREAD);
    assert_true(uuid_eq(occurrence(&b, 0)->id, occurrence_id(b.t.id, NOW)));
    assert_true(b.plan.cursor_ms == NOW + HOUR + offset);
    arena_release(&b.arena);
}

/* ---- missed occurrences ---- */

static void an_occurrence_within_the_limit_is_not_missed(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - MISSED_MS);
    b.rule.start_ms = NOW - MISSED_MS;
    b.t.schedule.catch_up = CATCH_UP_NONE;
    plan_at(&b, NOW);
    is_run(&b, 0, NOW - MISSED_MS, NOW); /* the due time is never before now */
    assert_true(b.plan.skipped == 0);
    plan_at(&b, NOW + 1);
    is_skipped(&b, 0, NOW - MISSED_MS, "skipped: missed (catch_up_mode SKIP_MISSED)");
    assert_true(b.plan.skipped == 1 && b.plan.runs == 0);
    arena_release(&b.arena);
}

static void a_late_run_says_what_its_user_waits_for_and_why(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - HOUR);
    b.t.schedule.catch_up = CATCH_UP_ALL;
    plan_at(&b, NOW + 5 * SECOND); /* two were missed */
    assert_int_equal(b.plan.missed, 2);
    assert_true(occurrence(&b, 0)->awaited_ms == NOW - HOUR && occurrence(&b, 1)->awaited_ms == NOW);
    assert_int_equal(occurrence(&b, 1)->late_by, LATE_DOWN);
    b.t.version = 2;
    b.t.updated_ms = NOW + 4 * SECOND; /* then it was resumed */
    plan_at(&b, NOW + 5 * SECOND);
    assert_int_equal(occurrence(&b, 1)->late_by, LATE_PAUSED);
    b.t.cursor_ms = NOW + HOUR;
    plan_at(&b, NOW + HOUR - SECOND);
    assert_int_equal(b.plan.missed, 0);
    assert_true(occurrence(&b, 0)->awaited_ms == 0 && occurrence(&b, 0)->late_by == LATE_NONE);
    arena_release(&b.arena);
}

static void what_a_pause_took_is_judged_by_its_end(void **state)
{
    static const struct {
        int64_t ended_ms, now_ms; /* since the occurrence */
        bool runs;
    } cases[] = {
        { MISSED_MS, MISSED_MS + 350, true },
        { MISSED_MS, 2 * MISSED_MS, true },
        { MISSED_MS + 1, MISSED_MS + 1, false },
        { MISSED_MS, 2 * MISSED_MS + 1, false }, /* no node was running at the end of the pause */
        { MISSED_MS + 350, MISSED_MS, true },    /* another node has ended it, whose clock is ahead */
    };
    (void)state;
    for (size_t i = 0; i < array_count(cases); i++) {
        struct bench b;
        every(&b, HOUR, NOW);
        b.t.schedule.catch_up = CATCH_UP_NONE;
        b.t.version = 2;
        b.t.updated_ms = NOW + cases[i].ended_ms;
        plan_at(&b, NOW + cases[i].now_ms);
        assert_true(b.plan.runs == cases[i].runs && b.plan.skipped == !cases[i].runs);
        if (cases[i].runs)
            is_run(&b, 0, NOW, NOW + cases[i].now_ms);
        arena_release(&b.arena);
    }
}

static void what_comes_after_a_pause_that_has_missed_some_is_not_missed(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW);
    b.t.schedule.catch_up = CATCH_UP_NONE;
    b.t.version = 2;
    b.t.updated_ms = NOW + 5 * SECOND;
    plan_at(&b, NOW + 6 * SECOND + 1);
    is_skipped(&b, 0, NOW,
               "skipped 5 occurrences from 2026-03-03T10:00:00.000Z to 2026-03-03T10:00:04.000Z: missed "
               "(catch_up_mode SKIP_MISSED)");
    is_run(&b, 1, NOW + 5 * SECOND, NOW + 6 * SECOND + 1);
    is_run(&b, 2, NOW + 6 * SECOND, NOW + 6 * SECOND + 1);
    arena_release(&b.arena);
}

static void run_all_missed_runs_all_of_them_now(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - 3 * HOUR);
    b.t.schedule.catch_up = CATCH_UP_ALL;
    plan_at(&b, NOW);
    assert_int_equal(b.plan.occurrences.n, 4);
    for (size_t i = 0; i < 4; i++)
        is_run(&b, i, NOW - (3 - (int64_t)i) * HOUR, NOW);
    assert_true(b.plan.runs == 4 && b.plan.skipped == 0);
    assert_true(b.plan.cursor_ms == NOW + HOUR);
    arena_release(&b.arena);
}

static void runs_that_were_missed_wait_for_each_other(void **state)
{
    static const enum overlap policies[] = { OVERLAP_SKIP, OVERLAP_QUEUE_ONE, OVERLAP_CANCEL_PREVIOUS, OVERLAP_ALLOW };
    (void)state;
    for (size_t i = 0; i < array_count(policies); i++) {
        struct bench b;
        every(&b, HOUR, NOW - 2 * HOUR);
        b.t.schedule.catch_up = CATCH_UP_ALL;
        b.t.schedule.overlap = policies[i];
        plan_at(&b, NOW);
        enum overlap missed = policies[i] == OVERLAP_ALLOW ? OVERLAP_ALLOW : OVERLAP_QUEUE_ALL;
        assert_int_equal(b.plan.occurrences.n, 3);
        assert_int_equal(b.plan.occurrences.v[0].overlap, missed);
        assert_int_equal(b.plan.occurrences.v[1].overlap, missed);
        assert_int_equal(b.plan.occurrences.v[2].overlap, policies[i]); /* it was in time */
        arena_release(&b.arena);
    }
}

static void run_one_now_runs_the_latest_for_all(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - 4 * HOUR);
    b.t.schedule.catch_up = CATCH_UP_ONE;
    plan_at(&b, NOW + 5 * SECOND);
    assert_int_equal(b.plan.occurrences.n, 2);
    is_skipped(
        &b, 0, NOW - 4 * HOUR,
        "skipped 4 occurrences from 2026-03-03T06:00:00.000Z to 2026-03-03T09:00:00.000Z: missed; a later one was run for "
        "all (catch_up_mode RUN_ONE_NOW)");
    is_run(&b, 1, NOW, NOW + 5 * SECOND);
    assert_true(b.plan.runs == 1 && b.plan.skipped == 4);
    assert_true(b.plan.cursor_ms == NOW + HOUR);
    assert_true(occurrence(&b, 0)->completed_ms == NOW + 5 * SECOND);
    arena_release(&b.arena);
}

static void run_one_now_of_one_skips_nothing(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW);
    b.t.schedule.catch_up = CATCH_UP_ONE;
    plan_at(&b, NOW + 5 * SECOND);
    assert_int_equal(b.plan.occurrences.n, 1);
    is_run(&b, 0, NOW, NOW + 5 * SECOND);
    assert_true(b.plan.skipped == 0);
    arena_release(&b.arena);
}

static void skip_missed_skips_and_goes_on_with_what_is_ahead(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - HOUR);
    b.t.schedule.catch_up = CATCH_UP_NONE;
    plan_at(&b, NOW + HOUR - 3 * SECOND);
    assert_int_equal(b.plan.occurrences.n, 2);
    is_skipped(&b, 0, NOW - HOUR,
               "skipped 2 occurrences from 2026-03-03T09:00:00.000Z to 2026-03-03T10:00:00.000Z: missed (catch_up_mode "
               "SKIP_MISSED)");
    is_run(&b, 1, NOW + HOUR, NOW + HOUR);
    assert_true(b.plan.runs == 1 && b.plan.skipped == 2);
    arena_release(&b.arena);
}

static void what_is_older_than_the_window_is_skipped_in_every_mode(void **state)
{
    (void)state;
    static const enum catch_up modes[] = { CATCH_UP_ONE, CATCH_UP_ALL, CATCH_UP_NONE };
    static const int64_t runs[] = { 1, 3, 0 }, skipped[] = { 4, 2, 5 };
    static const size_t place[] = { 0, 3, 0 };
    for (size_t i = 0; i < array_count(modes); i++) {
        struct bench b;
        every(&b, HOUR, NOW - 5 * HOUR);
        b.t.schedule.catch_up = modes[i];
        b.t.schedule.catch_up_window_ms = 3 * HOUR; /* at the edge of the window it still counts */
        plan_at(&b, NOW - SECOND / 2);
        is_skipped(
            &b, place[i], NOW - 5 * HOUR,
            "skipped 2 occurrences from 2026-03-03T05:00:00.000Z to 2026-03-03T06:00:00.000Z: missed for longer than "
            "catch_up_window_seconds");
        assert_true(b.plan.runs == runs[i] + 1 && b.plan.skipped == skipped[i]); /* and the one at NOW */
        arena_release(&b.arena);
    }
}

static void window_edge_is_within(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - 2 * HOUR);
    b.t.schedule.catch_up = CATCH_UP_ALL;
    b.t.schedule.catch_up_window_ms = 2 * HOUR;
    plan_at(&b, NOW);
    assert_true(b.plan.runs == 3 && b.plan.skipped == 0);
    plan_at(&b, NOW + 1);
    assert_true(b.plan.runs == 2 && b.plan.skipped == 1);
    arena_release(&b.arena);
}

/* ---- ends ---- */

static void max_runs_ends_it_after_its_last(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW);
    b.t.schedule.max_runs = 7;
    b.t.schedule.overlap = OVERLAP_ALLOW; /* no run is given back */
    b.t.runs_count = 4;
    plan_at(&b, NOW);
    assert_true(b.plan.runs == 3);
    assert_false(b.plan.ended);
    assert_false(b.plan.more);
    apply(&b);
    plan_at(&b, NOW + 2 * SECOND); /* the last one is due only now */
    assert_false(b.plan.ended);
    assert_true(b.plan.look_ms > NOW + 2 * SECOND);
    plan_at(&b, b.plan.look_ms);
    assert_int_equal(b.plan.occurrences.n, 0);
    assert_true(b.plan.ended);
    assert_true(b.plan.runs == 0 && b.plan.skipped == 0);
    arena_release(&b.arena);
}

static void skipped_ones_do_not_count_against_max_runs(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - 9 * HOUR);
    b.t.schedule.max_runs = 2;
    b.t.schedule.catch_up = CATCH_UP_NONE;
    plan_at(&b, NOW - HOUR / 2);
    assert_true(b.plan.skipped == 9 && b.plan.runs == 0);
    assert_false(b.plan.ended);
    arena_release(&b.arena);
}

/* Skips an occurrence as a store does if the previous run is not over. */
static void skip_one(struct bench *b)
{
    b->t.runs_count--;
    b->t.skipped_count++;
}

static void a_run_that_comes_back_is_made_up_for_by_the_very_next(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW);
    b.t.schedule.max_runs = 4;
    b.t.schedule.overlap = OVERLAP_SKIP;
    int64_t now_ms = NOW, made = 0, looks = 0;
    while (b.t.state == TASK_SCHEDULED) {
        plan_at(&b, now_ms);
        for (size_t i = 0; i < b.plan.occurrences.n; i++, made++)
            is_run(&b, i, NOW + made * SECOND, NOW + made * SECOND); /* no occurrence is left out, none is late */
        apply(&b);
        int64_t until_ms = b.plan.ended ? INT64_MAX : b.plan.look_ms;
        assert_true(until_ms > now_ms && looks++ < 20);
        for (int64_t n = 1; n < made; n += 2) /* every second occurrence finds the previous run not over */
            if (NOW + n * SECOND >= now_ms && NOW + n * SECOND < until_ms)
                skip_one(&b);
        now_ms = until_ms;
    }
    assert_true(b.t.runs_count == 4 && b.t.skipped_count == 3 && made == 7);
    arena_release(&b.arena);
}

static void a_run_that_is_replaced_before_its_start_is_made_up_for(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW);
    b.t.schedule.max_runs = 1;
    b.t.schedule.overlap = OVERLAP_CANCEL_PREVIOUS;
    plan_at(&b, NOW);
    apply(&b);
    plan_at(&b, NOW + SECOND);
    assert_false(b.plan.ended); /* the run may be cancelled before it starts */
    assert_true(b.plan.look_ms < NOW + SPAWN_PATIENCE_MS);
    b.t.runs_count--;
    plan_at(&b, b.plan.look_ms);
    assert_int_equal(b.plan.runs, 1);
    arena_release(&b.arena);
}

static void a_last_run_that_comes_back_late_is_made_up_for_until_the_task_has_ended(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW);
    b.t.schedule.max_runs = 1;
    b.t.schedule.overlap = OVERLAP_SKIP;
    plan_at(&b, NOW);
    apply(&b);
    plan_at(&b, NOW + SPAWN_PATIENCE_MS);
    assert_false(b.plan.ended);
    plan_at(&b, b.plan.look_ms);
    assert_true(b.plan.ended);
    skip_one(&b); /* occurrences that went by since count as missed */
    plan_at(&b, NOW + 3 * SECOND);
    assert_true(b.plan.runs == 1 && b.plan.skipped == 0);
    is_run(&b, 0, NOW + SECOND, NOW + 3 * SECOND);
    apply(&b);
    assert_true(b.t.cursor_ms == NOW + 2 * SECOND);
    arena_release(&b.arena);
}

static void one_run_for_all_that_was_missed_may_come_back_too(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - 3 * HOUR);
    b.t.schedule.max_runs = 1;
    b.t.schedule.overlap = OVERLAP_SKIP;
    b.t.schedule.catch_up = CATCH_UP_ONE;
    plan_at(&b, NOW + HOUR / 2);
    assert_true(b.plan.runs == 1 && b.plan.look_ms > NOW + HOUR / 2);
    apply(&b);
    plan_at(&b, NOW + HOUR / 2 + SECOND);
    assert_false(b.plan.ended);
    skip_one(&b);
    plan_at(&b, NOW + HOUR / 2 + 2 * SECOND);
    assert_true(b.plan.runs == 0 && !b.plan.ended && b.plan.cursor_ms == NOW + HOUR);
    arena_release(&b.arena);
}

static void the_end_date_ends_it_and_is_itself_within(void **state)
{
    (void)state;
    struct bench b;
    every(&b, 2 * SECOND, NOW);
    b.rule.end_ms = NOW + 4 * SECOND;
    plan_at(&b, NOW);
    assert_true(b.plan.runs == 3);
    assert_false(b.plan.ended);
    apply(&b);
    plan_at(&b, b.t.cursor_ms);
    assert_true(b.plan.ended);
    arena_release(&b.arena);
}

static void more_runs_than_allowed_end_it_at_once(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW - HOUR);
    b.t.schedule.max_runs = 3;
    b.t.runs_count = 5; /* max_runs was lowered since */
    plan_at(&b, NOW);
    assert_true(b.plan.ended);
    assert_int_equal(b.plan.occurrences.n, 0);
    assert_false(b.plan.more);
    arena_release(&b.arena);
}

static void first_occurrence_is_at_or_after(void **state)
{
    (void)state;
    struct bench b;
    every(&b, HOUR, NOW);
    assert_true(spawn_first(&b.rule, NOW) == NOW);
    assert_true(spawn_first(&b.rule, NOW + 1) == NOW + HOUR);
    b.rule.end_ms = NOW - 1;
    assert_true(spawn_first(&b.rule, NOW) == INT64_MAX);
    arena_release(&b.arena);
}

/* ---- bounds ---- */

static void a_visit_makes_so_many_and_comes_again(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW - 1000 * SECOND);
    b.t.schedule.catch_up = CATCH_UP_ALL;
    int visits = 0;
    int64_t runs = 0;
    do {
        plan_at(&b, NOW);
        assert_in_range(b.plan.occurrences.n, 1, SPAWN_MAX);
        for (size_t i = 0; i < b.plan.occurrences.n; i++)
            assert_true(occurrence(&b, i)->scheduled_ms == NOW + (runs + (int64_t)i - 1000) * SECOND);
        runs += b.plan.runs;
        apply(&b);
    } while (b.plan.more && ++visits < 100);
    assert_int_equal(visits, 5);
    assert_true(runs == 1000 + AHEAD / SECOND);
    arena_release(&b.arena);
}

static void what_lies_ahead_is_cut_short_too(void **state)
{
    (void)state;
    struct bench b;
    every(&b, 10, NOW);
    plan_at(&b, NOW);
    assert_int_equal(b.plan.occurrences.n, SPAWN_MAX);
    assert_true(b.plan.more);
    assert_true(b.plan.cursor_ms > NOW + (SPAWN_MAX - 1) * 10 && b.plan.cursor_ms <= NOW + SPAWN_MAX * 10);
    arena_release(&b.arena);
}

/* One day of occurrences every second was missed: few visits, few rows, everything counted. */
static void a_long_sleep_is_caught_up_in_few_visits_and_rows(void **state)
{
    (void)state;
    static const enum catch_up modes[] = { CATCH_UP_ONE, CATCH_UP_NONE };
    for (size_t i = 0; i < array_count(modes); i++) {
        struct bench b;
        every(&b, SECOND, NOW - DAY);
        b.t.schedule.catch_up = modes[i];
        int visits = 0;
        size_t rows = 0;
        do {
            plan_at(&b, NOW);
            rows += b.plan.occurrences.n - (size_t)b.plan.runs;
            apply(&b);
        } while (b.plan.more && ++visits < 100);
        assert_in_range(visits, 4, 5);
        assert_in_range(rows, 4, 5);
        int64_t late = modes[i] == CATCH_UP_ONE ? 1 : 0;
        assert_true(b.t.runs_count == late + AHEAD / SECOND);
        assert_true(b.t.skipped_count == DAY / SECOND - late);
        arena_release(&b.arena);
    }
}

static void too_little_memory_is_said(void **state)
{
    (void)state;
    struct bench b;
    struct error e;
    every(&b, HOUR, NOW);
    arena_release(&b.arena);
    arena_init(&b.arena, 4096);
    assert_int_equal(spawn_plan(&b.t, &b.rule, NULL, NOW, NOW + AHEAD, &b.arena, &b.plan, &e), ERR_LIMIT);
    assert_says(&e, "too little memory");
    arena_release(&b.arena);
    arena_init(&b.arena, (SPAWN_MAX + 4) * sizeof(struct task) + 64); /* enough for the rows, not for the reason */
    b.t.cursor_ms = NOW - 2 * HOUR;
    b.t.schedule.catch_up = CATCH_UP_NONE;
    assert_int_equal(spawn_plan(&b.t, &b.rule, NULL, NOW, NOW + AHEAD, &b.arena, &b.plan, &e), ERR_LIMIT);
    arena_release(&b.arena);
}

/* ---- over many visits no occurrence is lost or doubled ---- */

enum { LIFE_RUNS = 20000 };

struct life {
    struct bench b;
    int64_t begin_ms, now_ms;
    int64_t *ran; /* scheduled_ms, in the order in which they were created */
    size_t ran_count;
};

static void some_schedule(struct life *l, struct prng *r)
{
    static const char *const crons[] = { "*/5 * * * * *", "17 */3 * * * *", "30 2 * * *", "*/20 * * * *" };
    static const int64_t windows[] = { 0, 3 * SECOND, HOUR, 1000 * DAY };
    struct schedule *s = &l->b.t.schedule;
    struct error e;
    every(&l->b, prng_between(r, 1, 5000) * 100, 0);
    if (prng_below(r, 2))
        s->cron = str_from(crons[prng_below(r, array_count(crons))]);
    s->start_ms = 1774742400000LL + prng_between(r, -DAY, DAY); /* around a spring gap in Berlin */
    s->spread_ms = prng_below(r, 3) ? 0 : prng_between(r, 1, 100);
    s->catch_up = (enum catch_up)prng_below(r, 3);
    s->catch_up_window_ms = windows[prng_below(r, array_count(windows))];
    s->max_runs = prng_below(r, 3) ? 0 : prng_between(r, 1, 500);
    s->end_ms = prng_below(r, 3) ? INT64_MAX : s->start_ms + prng_between(r, 0, 12 * HOUR);
    random_bytes(r, l->b.t.id.b, sizeof l->b.t.id.b);
    assert_ok(schedule_rule(s, l->b.t.id, prng_below(r, 2) ? utc : berlin, NULL, 0, &l->b.rule, &e), &e);
    l->begin_ms = l->now_ms = s->start_ms + prng_between(r, 0, HOUR);
    l->b.t.cursor_ms = spawn_first_entry(&l->b.rule, l->begin_ms);
}

static void check_visit(struct life *l)
{
    const struct bench *b = &l->b;
    const struct schedule *s = &b->t.schedule;
    int64_t missed_runs = 0, runs = 0;
    struct occurrence first;
    bool outage = recurrence_next(&b->rule, b->t.cursor_ms, &first) && first.at_ms < l->now_ms - MISSED_MS;
    int64_t missed_before = outage ? l->now_ms : INT64_MIN;
    for (size_t i = 0; i < b->plan.occurrences.n; i++) {
        const struct task *o = &b->plan.occurrences.v[i];
        int64_t at_ms = o->scheduled_ms + recurrence_spread(&b->rule);
        if (o->state == TASK_SKIPPED) {
            assert_true(at_ms < missed_before && o->last_error.n > 0);
            continue;
        }
        assert_true(o->due_ms == max_of(at_ms, l->now_ms) && at_ms < l->now_ms + AHEAD);
        assert_true(l->ran_count == 0 || l->ran[l->ran_count - 1] < o->scheduled_ms); /* in order, none twice */
        bool missed = at_ms < missed_before;
        assert_false(missed && (s->catch_up == CATCH_UP_NONE || at_ms < l->now_ms - s->catch_up_window_ms));
        missed_runs += missed;
        runs++;
        l->ran[l->ran_count++] = o->scheduled_ms;
    }
    assert_true(runs == b->plan.runs);
    assert_false(s->catch_up == CATCH_UP_ONE && missed_runs > 1);
    assert_true(b->plan.cursor_ms >= b->t.cursor_ms);
    assert_true(s->max_runs == 0 || b->t.runs_count + runs <= s->max_runs);
}

/* Every occurrence from the first cursor to the present one has run or is counted. */
static void check_life(const struct life *l)
{
    const struct bench *b = &l->b;
    int64_t from_ms = l->begin_ms, fires = 0, left_out = 0;
    size_t next = 0;
    struct occurrence o;
    while (recurrence_next_entry(&b->rule, from_ms, b->t.cursor_ms, &o)) {
        if (b->t.schedule.max_runs && (int64_t)next == b->t.schedule.max_runs)
            break;
        if (o.fires && next < l->ran_count && l->ran[next] == o.scheduled_ms)
            next++;
        fires += o.fires ? 1 : o.count;
        left_out += o.fires ? 0 : o.count;
        from_ms = occurrence_behind(&b->rule, &o);
    }
    assert_int_equal(next, l->ran_count); /* the runs are those that the rule names */
    assert_true(fires == b->t.runs_count + b->t.skipped_count);
    if (b->t.schedule.catch_up == CATCH_UP_ALL && b->t.schedule.catch_up_window_ms > 100 * DAY)
        assert_true(b->t.skipped_count == left_out);
    if (b->t.state == TASK_COMPLETED && b->t.runs_count != b->t.schedule.max_runs)
        assert_false(recurrence_next(&b->rule, from_ms, &o));
}

static void over_many_visits_nothing_is_lost_and_nothing_doubled(void **state)
{
    (void)state;
    struct prng r = seeded_prng("over_many_visits_nothing_is_lost_and_nothing_doubled");
    int64_t *ran = xcalloc(LIFE_RUNS, sizeof *ran);
    for (int i = 0; i < 150; i++) {
        struct life l = { .ran = ran };
        some_schedule(&l, &r);
        for (int visit = 0; visit < 60 && l.b.t.state == TASK_SCHEDULED && l.b.t.cursor_ms != INT64_MAX; visit++) {
            do {
                plan_at(&l.b, l.now_ms);
                check_visit(&l);
                apply(&l.b);
                assert_false(l.b.plan.more && l.b.plan.ended);
            } while (l.b.plan.more && l.ran_count < LIFE_RUNS - 2 * SPAWN_MAX);
            /* mostly on time, sometimes minutes late, sometimes the clock is set back */
            uint64_t what = prng_below(&r, 10);
            l.now_ms += what < 7 ? prng_between(&r, 0, AHEAD) : prng_between(&r, -30 * SECOND, HOUR);
            if (l.ran_count >= LIFE_RUNS - 2 * SPAWN_MAX)
                break;
        }
        check_life(&l);
        arena_release(&l.b.arena);
    }
    free(ran);
}

/* ---- existing occurrences ---- */

static void what_waits_as_it_was_made_may_be_taken_back(void **state)
{
    (void)state;
    struct bench b;
    every(&b, SECOND, NOW - 5 * SECOND);
    plan_at(&b, NOW);
    const struct task *skipped = occurrence(&b, 0), *made = occurrence(&b, 1);
    assert_int_equal(spawned_how(skipped, false), SPAWNED_FOR_GOOD);
    assert_int_equal(spawned_how(made, false), SPAWNED_AHEAD);
    struct task claimed_and_returned = *made;
    claimed_and_returned.fence = 3;
    claimed_and_returned.due_ms += 500;
    assert_int_equal(spawned_how(&claimed_and_returned, false), SPAWNED_AHEAD);
    assert_int_equal(spawned_how(&claimed_and_returned, true), SPAWNED_AHEAD); /* held by that claim */
    arena_release(&b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_as_it_was_made_may_be_taken_back),
        cmocka_unit_test(what_comes_before_the_horizon_is_made),
        cmocka_unit_test(what_lies_beyond_the_horizon_waits),
        cmocka_unit_test(an_occurrence_carries_what_its_task_says),
        cmocka_unit_test(what_may_have_been_made_before_begins_above_its_old_fences),
        cmocka_unit_test(spread_moves_the_due_time_and_not_the_occurrence),
        cmocka_unit_test(an_occurrence_within_the_limit_is_not_missed),
        cmocka_unit_test(a_late_run_says_what_its_user_waits_for_and_why),
        cmocka_unit_test(what_a_pause_took_is_judged_by_its_end),
        cmocka_unit_test(what_comes_after_a_pause_that_has_missed_some_is_not_missed),
        cmocka_unit_test(run_all_missed_runs_all_of_them_now),
        cmocka_unit_test(runs_that_were_missed_wait_for_each_other),
        cmocka_unit_test(run_one_now_runs_the_latest_for_all),
        cmocka_unit_test(run_one_now_of_one_skips_nothing),
        cmocka_unit_test(skip_missed_skips_and_goes_on_with_what_is_ahead),
        cmocka_unit_test(what_is_older_than_the_window_is_skipped_in_every_mode),
        cmocka_unit_test(window_edge_is_within),
        cmocka_unit_test(max_runs_ends_it_after_its_last),
        cmocka_unit_test(skipped_ones_do_not_count_against_max_runs),
        cmocka_unit_test(a_run_that_comes_back_is_made_up_for_by_the_very_next),
        cmocka_unit_test(a_run_that_is_replaced_before_its_start_is_made_up_for),
        cmocka_unit_test(a_last_run_that_comes_back_late_is_made_up_for_until_the_task_has_ended),
        cmocka_unit_test(one_run_for_all_that_was_missed_may_come_back_too),
        cmocka_unit_test(the_end_date_ends_it_and_is_itself_within),
        cmocka_unit_test(more_runs_than_allowed_end_it_at_once),
        cmocka_unit_test(first_occurrence_is_at_or_after),
        cmocka_unit_test(a_visit_makes_so_many_and_comes_again),
        cmocka_unit_test(what_lies_ahead_is_cut_short_too),
        cmocka_unit_test(a_long_sleep_is_caught_up_in_few_visits_and_rows),
        cmocka_unit_test(too_little_memory_is_said),
        cmocka_unit_test(over_many_visits_nothing_is_lost_and_nothing_doubled),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
