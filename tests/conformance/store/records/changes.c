/* Changes of tasks that operations make beside what they are asked for. The numbers are those of
 * port/store/changes.h. */
#include <stdlib.h>

#include "store_changes.h"
#include "store_runs.h"
#include "store_slots.h"

static struct told told; /* of the current test */

static int changes_open(void **state)
{
    int rc = world_open(state);
    told_listen(&told, ((struct world *)*state)->store);
    return rc;
}

static int changes_close(void **state)
{
    int rc = world_close(state);
    arena_release(&told.arena);
    return rc;
}

struct expected {
    struct uuid id;
    int from;
    enum task_state to;
};

/* These were told since the last time, in any order, and nothing else. */
static void assert_changes(const struct expected *v, size_t n)
{
    assert_int_equal(told.n, n);
    assert_int_equal(told.left_out, 0);
    for (size_t i = 0; i < n; i++) {
        size_t found = 0;
        for (size_t k = 0; k < told.n; k++)
            found += uuid_eq(told.v[k].task.id, v[i].id) && told.v[k].from == v[i].from && told.v[k].to == v[i].to;
        if (found != 1)
            fail_msg("change %zu was told %zu times", i, found);
    }
    told_clear(&told);
}
#define assert_told(...)                                                                                               \
    assert_changes((struct expected[]){ __VA_ARGS__ }, array_count(((struct expected[]){ __VA_ARGS__ })))
#define assert_told_nothing() assert_changes(NULL, 0)
/* clang-format off */
#define CHANGE(id, from, to) { (id), TASK_##from, TASK_##to }
#define NEW(id, to) { (id), CHANGE_NEW, TASK_##to }
/* clang-format on */

/* ---- dependencies ---- */

static struct task child_of(struct world *w, const struct task *parent)
{
    struct task t = some_task(w);
    struct dependency edge = { parent->id, DAG_MUST_SUCCEED };
    struct depends_on d = { .v = &edge, .n = 1 };
    struct op_insert op = insert_of(&t, 1);
    t.queue = S("mail");
    t.trace = S("- order-7");
    op.depends = &d;
    apply(w, &op.op);
    return t;
}

static void children_that_start_or_are_skipped_are_told(void **state) /* 1, 2, 3, 7 */
{
    struct world *w = *state;
    struct task good = claimed_run(w), bad = claimed_run(w);
    assert_told_nothing(); /* OP_INSERT, OP_CLAIM */
    struct task starts = child_of(w, &good), skipped = child_of(w, &bad), after = child_of(w, &skipped);
    assert_told(NEW(starts.id, BLOCKED), NEW(skipped.id, BLOCKED), NEW(after.id, BLOCKED));
    end_step(w, good.id, TASK_COMPLETED, S(""));
    assert_int_equal(told.n, 1);
    assert_true(told.v[0].task.tenant == TENANT && str_eq(told.v[0].task.queue, S("mail")));
    assert_true(str_eq(told.v[0].task.trace, S("- order-7")) && told.v[0].task.last_error.n == 0);
    assert_told(CHANGE(starts.id, BLOCKED, SCHEDULED));
    end_step(w, bad.id, TASK_FAILED, S(""));
    assert_true(str_starts(told.v[0].task.last_error, S(DEPENDENCY_SKIPPED)));
    assert_told(CHANGE(skipped.id, BLOCKED, SKIPPED), CHANGE(after.id, BLOCKED, SKIPPED));
    struct task late = child_of(w, &skipped);
    assert_told(NEW(late.id, SKIPPED));
}

/* ---- slots ---- */

static void tasks_that_find_no_slot_and_get_one_later_are_told(void **state) /* 1, 2 */
{
    struct world *w = *state;
    struct task a = keyed_task(w, 1, NOW - 2), b = keyed_task(w, 1, NOW - 1);
    a = claim_alone(w, &a);
    gate_alone(w, &b);
    assert_told(CHANGE(b.id, SCHEDULED, BLOCKED));
    end_wakes(w, &a, TASK_COMPLETED);
    assert_told(CHANGE(b.id, BLOCKED, SCHEDULED));
}

static struct task occurrence_of(struct world *w, const struct task *parent, int64_t at_ms)
{
    struct task t = some_occurrence(w, parent, at_ms);
    t.overlap = parent->schedule.overlap;
    return t;
}

static struct task recurring_with(struct world *w, enum overlap overlap)
{
    struct task t = some_recurring(w);
    t.schedule.overlap = overlap;
    insert(w, &t, 1);
    return t;
}

static void runs_that_overlap_are_told(void **state) /* 1, 7 */
{
    struct world *w = *state;
    struct task skips = recurring_with(w, OVERLAP_SKIP), first = occurrence_of(w, &skips, NOW - 60000),
                second = occurrence_of(w, &skips, NOW);
    claim_alone(w, &first);
    gate_alone(w, &second);
    assert_true(told.n == 1 && uuid_eq(told.v[0].task.parent, skips.id) && told.v[0].task.kind == TASK_OCCURRENCE);
    assert_true(str_starts(told.v[0].task.last_error, S("skipped: the run of ")));
    assert_told(CHANGE(second.id, SCHEDULED, SKIPPED));
}

static void what_a_task_is_in_between_is_not_told(void **state) /* 1 */
{
    struct world *w = *state;
    struct task parent = recurring_with(w, OVERLAP_CANCEL_PREVIOUS), first = occurrence_of(w, &parent, NOW - 60000),
                second = occurrence_of(w, &parent, NOW);
    first = claim_alone(w, &first);
    end_wakes(w, &first, TASK_SCHEDULED);
    insert(w, &second, 1);
    claim_now(w);
    assert_told(CHANGE(first.id, SCHEDULED, CANCELLED)); /* the second was BLOCKED until the first gave way */
    assert_scheduled(w, second.id);
    struct task third = occurrence_of(w, &parent, NOW + 1);
    assert_taken(w, &second.id);
    insert(w, &third, 1);
    struct op_claim claim = claim_between(w, NOW + 1, NOW + 1);
    assert_int_equal(claim.ret_replaced_count, 1);
    assert_told(CHANGE(third.id, SCHEDULED, BLOCKED));
}

/* ---- recurring tasks ---- */

static struct op_put cancel_of(const struct task *t, struct task *next)
{
    *next = *t;
    next->version++;
    next->state = TASK_CANCELLED;
    next->updated_ms = next->completed_ms = NOW;
    struct op_put op = put_of(t, next);
    op.withdraw = true;
    return op;
}

static void occurrences_that_are_cancelled_with_their_task_are_told(void **state) /* 2, 7; OP_PUT 16 */
{
    struct world *w = *state;
    struct task t = recurring_with(w, OVERLAP_SKIP), next, o[3];
    for (int i = 0; i < 3; i++)
        o[i] = occurrence_of(w, &t, NOW + 1000 * (i - 1)); /* the last is not due: it is deleted */
    o[1].state = TASK_PAUSED;
    insert(w, o, 3);
    struct op_put op = cancel_of(&t, &next);
    op.op.request = S("stop-1");
    apply(w, &op.op);
    assert_int_equal(op.ret_state, TASK_CANCELLED);
    assert_int_equal(told.n, 2);
    assert_true(str_eq(told.v[0].request, S("stop-1")) && str_eq(told.v[1].request, S("stop-1")));
    assert_true(str_eq(told.v[0].task.last_error, S("its schedule was cancelled")));
    assert_told(CHANGE(o[0].id, SCHEDULED, CANCELLED), CHANGE(o[1].id, PAUSED, CANCELLED));
}

static void a_recurring_task_that_ends_is_told(void **state) /* 1, 2 */
{
    struct world *w = *state;
    struct task t = recurring_with(w, OVERLAP_SKIP), last = occurrence_of(w, &t, NOW + 1000);
    struct spawn_plan plan = { .occurrences = { &last, 1 }, .cursor_ms = INT64_MAX, .runs = 1, .ended = true };
    struct op_spawn op = {
        .op.kind = OP_SPAWN, .id = t.id, .version = t.version, .cursor_ms = t.cursor_ms, .plan = &plan, .now_ms = NOW
    };
    apply(w, &op.op);
    assert_told(CHANGE(t.id, SCHEDULED, COMPLETED));
}

/* ---- runs ---- */

static void a_run_that_is_opened_starts_and_its_steps_are_new(void **state) /* 3, 4, 7 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    for (size_t i = 0; i < told.n; i++)
        assert_true(str_eq(told.v[i].task.queue, S("default")));
    assert_told(CHANGE(c.run.id, SCHEDULED, RUNNING), NEW(c.first, SCHEDULED), NEW(c.second, BLOCKED));
    end_step(w, c.first, TASK_COMPLETED, S(""));
    assert_told(CHANGE(c.second, BLOCKED, SCHEDULED));
    end_step(w, c.second, TASK_FAILED, S(""));
    assert_told_nothing(); /* the run is SCHEDULED, for its plan: people see it RUNNING */
    assert_state(w, c.run.id, TASK_SCHEDULED);
    end_step(w, c.run.id, TASK_FAILED, S(""));
    retry_run(w, c.run.id);
    assert_told_nothing(); /* OP_SETTLE, OP_CLAIM, OP_PUT */
    c.run = claim_step(w, c.run.id);
    c.op = open_of(&c.run, &c.begin, c.rows, 2);
    begin_again(&c.op, c.rows, NOW + 50);
    apply(w, &c.op.op);
    assert_told(CHANGE(c.run.id, SCHEDULED, RUNNING), CHANGE(c.first, COMPLETED, SCHEDULED),
                CHANGE(c.second, FAILED, BLOCKED));
}

static void the_steps_of_a_run_that_is_paused_resumed_or_cancelled_are_told(void **state) /* 1, 4, 7 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    told_clear(&told);
    struct op_stop pause = stop_of(&c.run, RUN_PAUSE), resume = stop_of(&c.run, RUN_RESUME),
                   cancel = stop_of(&c.run, RUN_CANCEL);
    apply(w, &pause.op);
    assert_told(CHANGE(c.first, SCHEDULED, PAUSED), CHANGE(c.second, BLOCKED, PAUSED));
    apply(w, &resume.op);
    assert_told(CHANGE(c.first, PAUSED, SCHEDULED), CHANGE(c.second, PAUSED, BLOCKED));
    apply(w, &cancel.op);
    assert_true(told.n == 2 && uuid_eq(told.v[0].task.run, c.run.id));
    assert_true(str_eq(told.v[0].task.last_error, S("by ann")) && str_eq(told.v[1].task.last_error, S("by ann")));
    assert_told(CHANGE(c.first, SCHEDULED, CANCELLED), CHANGE(c.second, BLOCKED, CANCELLED));
}

static void a_step_that_awaits_signals_is_blocked(void **state) /* 4 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row row = root_row(&run, 0);
    row.task.target = TARGET_WORKFLOW;
    struct op_open op = open_of(&run, &begin, &row, 1);
    op.expected = 1;
    apply(w, &op.op);
    struct task step = claim_step(w, row.task.id);
    told_clear(&told);
    struct op_await await = { .op.kind = OP_AWAIT,
                              .id = step.id,
                              .fence = step.fence,
                              .signal = S("go"),
                              .timeout_ms = 5000,
                              .now_ms = NOW + 7 };
    apply(w, &await.op);
    assert_state(w, step.id, TASK_SCHEDULED); /* for its timeout */
    assert_told(CHANGE(step.id, SCHEDULED, BLOCKED));
    struct signal_row s = { .run = run.id, .name = S("go"), .sender = S("ann"), .time_ms = NOW + 9 };
    struct op_signal signal = { .op.kind = OP_SIGNAL, .tenant = TENANT, .signal = &s, .steps = &step.id, .n = 1 };
    apply(w, &signal.op);
    assert_told_nothing();
    struct op_stop pause = stop_of(&run, RUN_PAUSE);
    apply(w, &pause.op);
    assert_told(CHANGE(step.id, BLOCKED, PAUSED));
}

/* ---- what is not told ---- */

static void nothing_is_told_of_an_operation_that_fails(void **state) /* 5, 6 */
{
    struct world *w = *state;
    struct task t = recurring_with(w, OVERLAP_SKIP), next, other = some_task(w), also, o[2];
    struct task parent = some_task(w);
    parent = claim_one(w, &parent, fresh_id(w));
    struct task child = child_of(w, &parent);
    for (int i = 0; i < 2; i++)
        o[i] = occurrence_of(w, &t, NOW - 1000 * i);
    insert(w, o, 2);
    insert(w, &other, 1);
    told_clear(&told);
    also = other;
    also.created_ms++;
    struct op_put put = cancel_of(&t, &next);
    put.also = &also; /* its id is taken: the put fails after it has cancelled the occurrences */
    struct settlement v = settlement_of(&parent, TASK_COMPLETED);
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW + 10 };
    world_apply_all(w, (struct op *[]){ &put.op, &settle.op }, 2);
    assert_int_equal(put.op.rc, ERR_CONFLICT);
    assert_int_equal(told.calls, 1);
    assert_told(CHANGE(child.id, BLOCKED, SCHEDULED));
}

static void what_is_too_much_is_counted(void **state) /* 6 */
{
    enum { MORE = 7 };
    struct world *w = *state;
    struct task t = recurring_with(w, OVERLAP_ALLOW), next, *o = xcalloc(CHANGES_TOLD_MAX + MORE, sizeof *o);
    for (int i = 0; i < CHANGES_TOLD_MAX + MORE; i++)
        o[i] = occurrence_of(w, &t, NOW - 1000 * i);
    insert(w, o, CHANGES_TOLD_MAX + MORE);
    struct op_put op = cancel_of(&t, &next);
    apply(w, &op.op);
    assert_int_equal(told.n, CHANGES_TOLD_MAX);
    assert_int_equal(told.left_out, MORE);
    free(o);
}

#define change_test(f) cmocka_unit_test_setup_teardown(f, changes_open, changes_close)
static const struct CMUnitTest tests[] = {
    change_test(children_that_start_or_are_skipped_are_told),
    change_test(tasks_that_find_no_slot_and_get_one_later_are_told),
    change_test(runs_that_overlap_are_told),
    change_test(what_a_task_is_in_between_is_not_told),
    change_test(occurrences_that_are_cancelled_with_their_task_are_told),
    change_test(a_recurring_task_that_ends_is_told),
    change_test(a_run_that_is_opened_starts_and_its_steps_are_new),
    change_test(the_steps_of_a_run_that_is_paused_resumed_or_cancelled_are_told),
    change_test(a_step_that_awaits_signals_is_blocked),
    change_test(nothing_is_told_of_an_operation_that_fails),
    change_test(what_is_too_much_is_counted),
};
const struct test_list change_tests = { tests, array_count(tests) };
