/* Occurrences that were spawned ahead and became overdue while no node was running. */
#include "base/buf.h"
#include "node_world.h"

/* Fires each second from NOW + 1000 on; occurrences that are due before NOW + 10000 have been spawned. */
static struct task overlapping(struct world *w, enum catch_up mode, enum overlap overlap)
{
    struct task t = { .id = { { 7, 7 } },
                      .tenant = TENANT,
                      .kind = TASK_RECURRING,
                      .state = TASK_SCHEDULED,
                      .version = 1,
                      .priority = PRIORITY_DEFAULT,
                      .queue = S("default"),
                      .timeout_ms = 1000,
                      .target = TARGET_NOOP,
                      .retry = RETRY_DEFAULT,
                      .schedule = { .interval_ms = 1000,
                                    .overlap = overlap,
                                    .time_zone = S("UTC"),
                                    .start_ms = NOW + 1000,
                                    .end_ms = INT64_MAX,
                                    .catch_up = mode,
                                    .catch_up_window_ms = HOUR },
                      .cursor_ms = NOW + 1000,
                      .created_ms = NOW };
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &t, .count = 1 };
    apply_op(w, &op.op);
    node_nudge(w->node, &t, 1);
    settle_down(w);
    assert_int_equal(count_of(w, t.id, TASK_SCHEDULED), 9);
    return t;
}

static struct task every_second(struct world *w, enum catch_up mode)
{
    return overlapping(w, mode, OVERLAP_ALLOW);
}

/* Ends running tasks, and lets waiting ones run, until nothing is left that is due; returns how many there were. */
static int run_all(struct world *w, int64_t scheduled_ms[16])
{
    int n = 0;
    settle_down(w);
    while (w->run_count) {
        assert_true(n < 16);
        scheduled_ms[n++] = w->runs[w->run_count - 1]->task->scheduled_ms - NOW;
        end_run(w, OUTCOME_OK);
        settle_down(w);
    }
    return n;
}

static int by_size(const void *a, const void *b)
{
    return (int)(*(const int64_t *)a - *(const int64_t *)b);
}

/* Exactly these ran, in seconds from NOW. */
static void assert_runs(struct world *w, const char *expected)
{
    int64_t ran[16];
    cleanup_with(buf_release) struct buf text;
    int n = run_all(w, ran);
    qsort(ran, (size_t)n, sizeof *ran, by_size);
    buf_init(&text, 256);
    for (int i = 0; i < n; i++)
        buf_printf(&text, "%s%d", i ? " " : "", (int)(ran[i] / 1000));
    assert_string_equal(buf_cstr(&text), expected);
}

static void die_for(struct world *w, int64_t ms)
{
    w->now_ms += ms;
    die_and_start_again(w);
}

/* What the node before had claimed is settled first. */
static void recover(struct world *w)
{
    step_at(w, w->now_ms);
    answer(w, OP_ORPHANS);
    step_at(w, w->now_ms);
}

/* All that are overdue after an outage were missed; the one that is due at this moment is in time. */
static void after_a_short_outage_a_task_runs_what_its_catch_up_mode_says(void **state)
{
    struct world *w = *state;
    static const struct {
        enum catch_up mode;
        const char *runs;
        int64_t skipped;
    } rows[] = {
        { CATCH_UP_ONE, "4 5", 3 },
        { CATCH_UP_NONE, "5", 4 },
        { CATCH_UP_ALL, "1 2 3 4 5", 0 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        if (i) {
            teardown(state);
            setup(state);
            w = *state;
        }
        struct task t = every_second(w, rows[i].mode), after;
        die_for(w, 5000);
        assert_runs(w, rows[i].runs);
        after = read_task(w, t.id);
        assert_int_equal(after.skipped_count, rows[i].skipped);
        assert_int_equal(after.runs_count, 14 - rows[i].skipped); /* up to NOW + 14000 */
        assert_int_equal(count_of(w, t.id, TASK_SKIPPED), rows[i].skipped ? 1 : 0);
    }
}

/* Missed occurrences wait for each other, unless they may run beside each other. */
static void all_that_was_missed_runs_whatever_the_overlap_policy(void **state)
{
    for (enum overlap policy = OVERLAP_SKIP; policy <= OVERLAP_CANCEL_PREVIOUS; policy++) {
        if (policy) {
            teardown(state);
            setup(state);
        }
        struct world *w = *state;
        struct task t = overlapping(w, CATCH_UP_ALL, policy);
        die_for(w, 4500);
        assert_runs(w, "1 2 3 4");
        assert_int_equal(read_task(w, t.id).skipped_count, 0);
    }
}

static void an_outage_longer_than_what_was_spawned_is_one_outage(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_ONE);
    die_for(w, 60000);
    assert_runs(w, "59 60");
    assert_int_equal(read_task(w, t.id).skipped_count, 58);
    assert_int_equal(count_of(w, t.id, TASK_SKIPPED), 1);
}

static void a_second_crash_right_behind_the_first_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_ONE);
    die_for(w, 5000);
    recover(w);
    answer(w, OP_CATCH_UP); /* withdrawn, and not yet decided on */
    die_for(w, 10);
    recover(w);
    answer(w, OP_CATCH_UP);
    step_at(w, w->now_ms);
    answer(w, OP_RECURRING);
    answer(w, OP_SPAWN); /* decided on, and not yet claimed */
    die_for(w, 10);
    assert_runs(w, "5"); /* by the second start the fifth was missed, too */
    assert_int_equal(read_task(w, t.id).skipped_count, 4);
    assert_int_equal(read_task(w, t.id).runs_count, 11);
}

static void nothing_is_claimed_before_what_was_missed_is_taken_back(void **state)
{
    struct world *w = *state;
    every_second(w, CATCH_UP_NONE);
    die_for(w, 5000);
    recover(w);
    deny(w, OP_CATCH_UP, false);
    settle_down(w);
    assert_true(node_status(w->node).recovering);
    assert_int_equal(w->run_count, 0);
    step_at(w, step_at(w, w->now_ms));
    deny(w, OP_CATCH_UP, true);
    settle_down(w);
    assert_int_equal(w->run_count, 0);
    step_at(w, step_at(w, w->now_ms));
    assert_runs(w, "6"); /* it is NOW + 6000 */
    assert_false(node_status(w->node).recovering);
}

static void what_can_not_be_taken_back_runs_late_rather_than_never(void **state)
{
    struct world *w = *state;
    every_second(w, CATCH_UP_NONE);
    die_for(w, 5000);
    recover(w);
    struct op *op = next_op(w, OP_CATCH_UP);
    op->rc = error_set(&op->error, ERR_CORRUPT, "a row is damaged");
    op->done(op);
    assert_runs(w, "1 2 3 4 5");
}

static void what_a_dead_process_had_in_hand_is_not_missed(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_NONE);
    step_at(w, NOW + 960);
    settle_down(w);
    step_at(w, NOW + 1000);
    assert_int_equal(w->run_count, 1);
    die_for(w, 5000);
    w->run_count = 0;
    assert_runs(w, "1 6"); /* the first may have been called: it runs again */
    assert_int_equal(read_task(w, t.id).skipped_count, 4);
}

static void an_occurrence_asked_for_by_hand_runs_however_late(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_NONE), o = t;
    o.id = (struct uuid){ { 9 } };
    o.kind = TASK_OCCURRENCE;
    o.parent = t.id;
    o.schedule = (struct schedule){ 0 };
    o.due_ms = o.scheduled_ms = NOW + 1;
    o.cursor_ms = 0;
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &o, .count = 1 };
    apply_op(w, &op.op);
    die_for(w, 5000);
    assert_runs(w, "0 5");
}

/* Stopped and continued, or the clock was set forward. */
static void a_stall_is_an_outage_too(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_ONE);
    step_at(w, NOW + 970);
    settle_down(w);
    assert_int_equal(node_status(w->node).scheduler.armed, 1);
    step_at(w, NOW + 5000);
    assert_int_equal(w->run_count, 1); /* claimed before: it is under way */
    assert_runs(w, "1 4 5");
    assert_int_equal(read_task(w, t.id).skipped_count, 2);
    w->now_ms = NOW + 9600;
    assert_runs(w, "6 9"); /* the sixth was claimed, a second ahead; the ninth stands for two others */
    assert_int_equal(read_task(w, t.id).skipped_count, 4);
}

static void a_little_late_is_no_stall(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_NONE);
    w->now_ms = NOW + 3400;
    assert_runs(w, "1 2 3");
    assert_int_equal(read_task(w, t.id).skipped_count, 0);
}

static void a_long_sleep_that_was_wished_for_is_no_stall(void **state)
{
    struct world *w = *state;
    task_due(w, 1, NOW + HOUR);
    settle_down(w);
    int64_t wake = step_at(w, NOW);
    assert_true(wake > NOW + HOUR - 2000);
    step_at(w, wake);
    struct op *claim = next_op(w, OP_CLAIM); /* at once, with nothing before it */
    assert_true(list_empty(&w->pending));
    apply_op(w, claim);
    claim->done(claim);
}

/* A visit was in flight when the process was stopped: what it planned by the old time is checked before anything is
 * claimed. */
static void what_was_planned_before_a_stall_is_in_before_it_is_judged(void **state)
{
    struct world *w = *state;
    struct task t = every_second(w, CATCH_UP_NONE);
    for (int64_t at_ms = NOW + 950; at_ms < NOW + 5000; at_ms += 50) {
        w->now_ms = at_ms;
        int64_t ignored[16];
        run_all(w, ignored);
    }
    step_at(w, NOW + 5000); /* a visit begins */
    answer(w, OP_RECURRING);
    step_at(w, NOW + 15000);
    list_each (&w->pending, link)
        assert_true(container_of(link, struct op, link)->kind != OP_CATCH_UP);
    answer(w, OP_SPAWN);
    settle_down(w);
    w->now_ms = NOW + 15000;
    int64_t ran[16];
    int n = run_all(w, ran);
    for (int i = 0; i < n; i++)
        assert_true(ran[i] == 5000 || ran[i] >= 15000);
    assert_int_equal(read_task(w, t.id).skipped_count, 9);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(after_a_short_outage_a_task_runs_what_its_catch_up_mode_says),
        node_test(all_that_was_missed_runs_whatever_the_overlap_policy),
        node_test(an_outage_longer_than_what_was_spawned_is_one_outage),
        node_test(a_second_crash_right_behind_the_first_changes_nothing),
        node_test(nothing_is_claimed_before_what_was_missed_is_taken_back),
        node_test(what_can_not_be_taken_back_runs_late_rather_than_never),
        node_test(what_a_dead_process_had_in_hand_is_not_missed),
        node_test(an_occurrence_asked_for_by_hand_runs_however_late),
        node_test(a_stall_is_an_outage_too),
        node_test(a_little_late_is_no_stall),
        node_test(a_long_sleep_that_was_wished_for_is_no_stall),
        node_test(what_was_planned_before_a_stall_is_in_before_it_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
