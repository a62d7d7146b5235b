/* Runs that begin again: OP_OPEN with `again`, and what leads to it. The numbers are those of OP_OPEN in
 * port/store/runs.h; "rule" names the rules for all operations there. */
#include "store_runs.h"

static void a_retry_replaces_what_is_final(void **state) /* 2, 4 with again */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    c.rows[1].task.links |= TASK_KEEPS_OUTPUT;
    apply(w, &c.op.op);
    end_step(w, c.first, TASK_COMPLETED, S("[1]"));
    end_step(w, c.second, TASK_FAILED, S(""));
    struct op_stop stop = stop_of(&c.run, RUN_CANCEL);
    apply(w, &stop.op);
    struct task before = get(w, c.second);
    end_step(w, c.run.id, TASK_CANCELLED, S("no"));
    retry_run(w, c.run.id);
    struct task run = claim_step(w, c.run.id);
    struct open_edge_row met = { c.first, DAG_MUST_SUCCEED, EDGE_MET };
    struct open_row row = c.rows[0];
    row.edges = &met;
    row.task.state = TASK_SCHEDULED;
    row.task.links = TASK_HAS_PARENTS;
    struct op_open op = open_of(&run, &c.begin, &row, 1);
    begin_again(&op, &row, NOW + 100);
    apply(w, &op.op);
    struct run_row r = run_of(w, run.id);
    assert_true(r.generation == 1 && r.stop == RUN_GOES_ON && r.stopped_by.n == 0 && r.tasks == 2);
    assert_is_open(w, run.id);
    struct task t = get(w, c.second);
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_true(t.fence >= before.fence && t.completed_ms == 0);
    struct task_links l = links_of(w, c.second);
    assert_true(l.expected == 1 && l.counts.met == 1);
    assert_int_equal(outputs_of(w, run.id).n, 1); /* of the first, which stays */
    end_step(w, c.second, TASK_COMPLETED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
    assert_int_equal(links_of(w, run.id).counts.arrived, 1);
}

static void a_retry_forgets_outputs_and_signals(void **state) /* 4 with again */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row row = root_row(&run, 0);
    row.ends = row.drops_signals = true;
    row.signal = S("go");
    row.task.links = TASK_KEEPS_OUTPUT;
    struct op_open op = open_of(&run, &begin, &row, 1);
    apply(w, &op.op);
    static const char *const names[] = { "go", "stay" };
    for (size_t i = 0; i < array_count(names); i++) {
        struct signal_row s = { .run = run.id, .name = str_from(names[i]), .sender = S("ann"), .time_ms = NOW };
        struct op_signal signal = { .op.kind = OP_SIGNAL, .tenant = TENANT, .signal = &s };
        apply(w, &signal.op);
    }
    end_step(w, row.task.id, TASK_COMPLETED, S("{}"));
    assert_int_equal(outputs_of(w, run.id).n, 1);
    struct task claimed = claim_step(w, run.id);
    struct op_open again = open_of(&claimed, &begin, &row, 1);
    begin_again(&again, &row, NOW + 100);
    apply(w, &again.op);
    assert_state(w, row.task.id, TASK_SCHEDULED);
    assert_int_equal(outputs_of(w, run.id).n, 0);
    struct signal_rows s;
    assert_int_equal(reader_signals(w->reader, run.id, S("go"), &w->arena, &s, NULL), ERR_OK);
    assert_int_equal(s.n, 0);
    assert_int_equal(reader_signals(w->reader, run.id, S("stay"), &w->arena, &s, NULL), ERR_OK);
    assert_int_equal(s.n, 1);
}

static void a_retry_waits_for_steps_that_still_run(void **state) /* 4, 6 with again */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row rows[] = { root_row(&run, 0), root_row(&run, 1) };
    rows[0].ends = rows[1].ends = true;
    struct op_open op = open_of(&run, &begin, rows, 2);
    op.max_broken = 0;
    op.end_type = DAG_MUST_SUCCEED;
    apply(w, &op.op);
    struct task runs = claim_step(w, rows[1].task.id);
    end_step(w, rows[0].task.id, TASK_FAILED, S(""));
    struct task claimed = claim_step(w, run.id);
    struct op_open again = open_of(&claimed, &begin, rows, 2);
    begin_again(&again, rows, NOW + 100);
    apply(w, &again.op);
    struct task stays = get(w, runs.id);
    assert_true(stays.state == TASK_RUNNING && stays.fence == runs.fence);
    assert_state(w, rows[0].task.id, TASK_SCHEDULED);
    end_step(w, rows[0].task.id, TASK_COMPLETED, S(""));
    assert_is_open(w, run.id);
    end_step(w, runs.id, TASK_COMPLETED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
}

/* A run of two independent steps that have failed, claimed for its retry. */
static struct task failed_run(struct world *w, struct run_row *begin, struct open_row rows[2])
{
    struct task run = claimed_run(w);
    for (uint32_t i = 0; i < 2; i++) {
        rows[i] = root_row(&run, i);
        rows[i].ends = true;
    }
    struct op_open op = open_of(&run, begin, rows, 2);
    apply(w, &op.op);
    for (int i = 0; i < 2; i++)
        end_step(w, rows[i].task.id, TASK_FAILED, S(""));
    end_step(w, run.id, TASK_SCHEDULED, S("no")); /* so it has TASK_AGAIN */
    return claim_step(w, run.id);
}

/* The first page of its retry, with the first row. */
static struct op_open first_page(const struct task *run, struct run_row *begin, struct open_row rows[2])
{
    struct op_open op = open_of(run, begin, rows, 2);
    begin_again(&op, rows, NOW + 100);
    op.n = 1;
    op.last = false;
    return op;
}

static void a_retry_that_was_cut_off_keeps_what_has_run(void **state) /* 2, 4, 6 with again */
{
    struct world *w = *state;
    struct run_row begin;
    struct open_row rows[2];
    struct task run = failed_run(w, &begin, rows);
    struct op_open page = first_page(&run, &begin, rows);
    apply(w, &page.op);
    assert_true(get(w, run.id).links & TASK_BEGUN && get(w, run.id).started_ms == NOW + 100);
    end_step(w, rows[0].task.id, TASK_FAILED, S(""));
    struct settlement lost = settlement_of(&run, TASK_SCHEDULED);
    assert_true(settle_with(w, &lost));
    run = claim_step(w, run.id);
    assert_true((run.links & (TASK_BEGUN | TASK_AGAIN)) == (TASK_BEGUN | TASK_AGAIN));
    struct op_open repeated = first_page(&run, &begin, rows), last = open_of(&run, NULL, &rows[1], 1);
    apply(w, &repeated.op);
    assert_int_equal(run_of(w, run.id).generation, 1);
    assert_state(w, rows[0].task.id, TASK_FAILED);
    last.run = last.root = run.id;
    last.first = false;
    last.again = true;
    apply(w, &last.op);
    assert_int_equal(get(w, run.id).links & (TASK_BEGUN | TASK_AGAIN), 0);
    assert_state(w, rows[1].task.id, TASK_SCHEDULED);
    assert_is_open(w, run.id);
    end_step(w, rows[1].task.id, TASK_COMPLETED, S(""));
    assert_state(w, run.id, TASK_SCHEDULED);
}

static void a_stop_between_the_pages_of_a_retry_holds(void **state) /* 3; OP_STOP 2 */
{
    struct world *w = *state;
    struct run_row begin;
    struct open_row rows[2];
    struct task run = failed_run(w, &begin, rows);
    struct op_open page = first_page(&run, &begin, rows), repeated = page;
    apply(w, &page.op);
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    stop.has_range = true; /* one of its steps only: the bits of the run stay */
    stop.from = stop.to = rows[0].task.place;
    apply(w, &stop.op);
    stop.op = (struct op){ .kind = OP_STOP };
    stop.has_range = false;
    apply(w, &stop.op);
    assert_int_equal(get(w, run.id).links & (TASK_BEGUN | TASK_AGAIN), 0);
    apply(w, &repeated.op);
    assert_true(repeated.ret_stopped && run_of(w, run.id).stop == RUN_CANCELLED);
    assert_state(w, rows[0].task.id, TASK_CANCELLED);
    assert_state(w, rows[1].task.id, TASK_FAILED);
}

static void a_retry_waits_for_the_arrivals_of_a_stop(void **state) /* 11 */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    struct op_stop stop = stop_of(&c.run, RUN_CANCEL);
    apply(w, &stop.op);
    end_step(w, c.run.id, TASK_CANCELLED, S("no"));
    retry_run(w, c.run.id);
    struct task run = claim_step(w, c.run.id);
    struct op_open early = open_of(&run, &c.begin, c.rows, 2), op;
    begin_again(&early, c.rows, NOW + 100);
    op = early;
    apply(w, &early.op);
    assert_true(early.ret_arrivals_left && !early.ret_stopped && early.ret_unblocked_lanes == 0);
    assert_true(run_of(w, run.id).generation == 0 && run_of(w, run.id).stop == RUN_CANCELLED);
    assert_state(w, c.first, TASK_CANCELLED);
    assert_state(w, run.id, TASK_RUNNING);
    struct op_arrive arrive = { .op.kind = OP_ARRIVE, .now_ms = NOW + 30 };
    apply(w, &arrive.op);
    apply(w, &op.op);
    assert_false(op.ret_arrivals_left);
    assert_state(w, c.first, TASK_SCHEDULED);
    assert_state(w, c.second, TASK_BLOCKED);
}

static enum execution_status latest_execution(struct world *w, struct uuid task)
{
    struct execution_filter f = { .tenant = TENANT, .task = task, .limit = 1 };
    struct execution_page page = { 0 };
    struct error e = { 0 };
    assert_ok(reader_executions(w->reader, &f, &w->arena, &page, &e), &e);
    assert_int_equal(page.executions.n, 1);
    return page.executions.v[0].status;
}

static void a_run_that_was_cancelled_does_not_end_otherwise(void **state) /* rule 8; OP_STOP 1 */
{
    struct world *w = *state;
    static const enum task_state ends[] = { TASK_COMPLETED, TASK_FAILED };
    for (size_t i = 0; i < array_count(ends); i++) {
        struct chain c;
        chain_make(w, &c);
        apply(w, &c.op.op);
        end_step(w, c.first, TASK_COMPLETED, S(""));
        end_step(w, c.second, TASK_COMPLETED, S(""));
        struct task run = claim_step(w, c.run.id);
        struct op_stop stop = stop_of(&c.run, RUN_CANCEL), late = stop;
        apply(w, &stop.op);
        bool completes = ends[i] == TASK_COMPLETED;
        struct settlement v = settlement_of(&run, ends[i]);
        v.verdict.has_execution = true;
        v.verdict.execution = some_execution(w, &run);
        struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW + 10 };
        apply(w, &settle.op);
        assert_true(v.stale == completes);
        if (!completes) {
            assert_int_equal(v.ret_state, TASK_CANCELLED);
            assert_int_equal(latest_execution(w, c.run.id), EXECUTION_CANCELLED);
        }
        assert_state(w, c.run.id, completes ? TASK_SCHEDULED : TASK_CANCELLED);
        assert_true(!completes || settle.ret_unblocked_lanes == UINT64_MAX);
        if (completes) {
            assert_int_equal(get(w, c.run.id).links & TASK_AGAIN, 0);
            assert_int_equal(outputs_of(w, c.run.id).n, 0);
            end_step(w, c.run.id, TASK_CANCELLED, S(""));
        }
        assert_int_equal(world_apply(w, &late.op), ERR_CONFLICT);
        assert_string_equal(late.op.error.field, "run");
    }
}

/* The store reads both runs. */
static void a_run_within_another_that_was_cancelled_says_by_whom(void **state) /* rules 7 and 8 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin, within;
    struct open_row row = root_row(&run, 0);
    row.ends = true;
    row.task.target = TARGET_WORKFLOW;
    struct op_open outer = open_of(&run, &begin, &row, 1);
    begin.workflow = S("nightly.report.of.everything");
    apply(w, &outer.op);
    struct task sub = claim_step(w, row.task.id);
    struct op_open inner = open_of(&sub, &within, NULL, 0);
    inner.root = within.root = run.id;
    apply(w, &inner.op);
    sub = claim_step(w, sub.id);
    struct op_stop stop = stop_of(&sub, RUN_CANCEL);
    apply(w, &stop.op);
    end_step(w, sub.id, TASK_FAILED, S("no"));
    struct task t = get(w, sub.id);
    assert_true(t.state == TASK_CANCELLED && str_eq(t.last_error, stop.why));
}

static void a_run_that_was_cancelled_is_not_tried_again(void **state) /* rule 8 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct op_open op = open_of(&run, &begin, NULL, 0);
    apply(w, &op.op);
    run = claim_step(w, run.id);
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    apply(w, &stop.op);
    struct settlement v = settlement_of(&run, TASK_SCHEDULED);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &run);
    assert_false(settle_with(w, &v));
    struct task t = get(w, run.id);
    assert_true(t.state == TASK_SCHEDULED && !(t.links & TASK_AGAIN) && t.started_ms == run.started_ms);
    run = claim_step(w, run.id);
    assert_int_equal(run_of(w, run.id).stop, RUN_CANCELLED);
}

static void a_stop_during_a_retry_counts(void **state) /* 3 with again */
{
    struct world *w = *state;
    struct chain c;
    chain_make(w, &c);
    apply(w, &c.op.op);
    struct op_stop stop = stop_of(&c.run, RUN_CANCEL);
    apply(w, &stop.op);
    struct task run = claim_step(w, c.run.id);
    struct op_open op = open_of(&run, &c.begin, c.rows, 2);
    begin_again(&op, c.rows, NOW + 100);
    apply(w, &op.op);
    assert_true(op.ret_stopped);
    assert_int_equal(run_of(w, run.id).generation, 0);
    assert_state(w, c.first, TASK_CANCELLED);
}

static void an_attempt_that_fails_is_begun_again(void **state) /* rule 6 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct op_open op = open_of(&run, &begin, NULL, 0);
    apply(w, &op.op);
    end_step(w, run.id, TASK_SCHEDULED, S("no"));
    assert_true(get(w, run.id).links & TASK_AGAIN);
    struct task claimed = claim_step(w, run.id);
    struct op_open again = open_of(&claimed, &begin, NULL, 0);
    again.again = true;
    apply(w, &again.op);
    assert_false(get(w, run.id).links & TASK_AGAIN);
}

static void a_retry_by_hand_ends_a_pause(void **state) /* rule 9 */
{
    struct world *w = *state;
    for (int by_hand = 0; by_hand <= 1; by_hand++) {
        struct task run = claimed_run(w);
        struct run_row begin;
        struct op_open op = open_of(&run, &begin, NULL, 0);
        apply(w, &op.op);
        struct op_stop pause = stop_of(&run, RUN_PAUSE);
        apply(w, &pause.op);
        end_step(w, run.id, by_hand ? TASK_FAILED : TASK_SCHEDULED, S("no"));
        retry_run(w, run.id);
        assert_true(run_of(w, run.id).paused == !by_hand);
    }
}

static const struct CMUnitTest tests[] = {
    store_test(a_retry_replaces_what_is_final),
    store_test(a_retry_forgets_outputs_and_signals),
    store_test(a_retry_waits_for_steps_that_still_run),
    store_test(a_retry_that_was_cut_off_keeps_what_has_run),
    store_test(a_stop_between_the_pages_of_a_retry_holds),
    store_test(a_retry_waits_for_the_arrivals_of_a_stop),
    store_test(a_run_that_was_cancelled_does_not_end_otherwise),
    store_test(a_run_within_another_that_was_cancelled_says_by_whom),
    store_test(a_run_that_was_cancelled_is_not_tried_again),
    store_test(a_stop_during_a_retry_counts),
    store_test(an_attempt_that_fails_is_begun_again),
    store_test(a_retry_by_hand_ends_a_pause),
};
const struct test_list run_retry_tests = { tests, array_count(tests) };
