/* Open runs: OP_AWAIT, OP_SIGNAL, OP_STOP, outputs, lists without steps, OP_DEFINE and OP_PURGE (port/store/runs.h). */
#include <stdlib.h>

#include "store_runs.h"

enum { STEPS = 4 };

/* A run of independent steps that end it. */
static struct task open_run(struct world *w, struct open_row rows[STEPS])
{
    struct task run = claimed_run(w);
    struct run_row begin;
    for (uint32_t i = 0; i < STEPS; i++) {
        rows[i] = root_row(&run, i);
        rows[i].ends = true;
    }
    rows[0].task.target = TARGET_WORKFLOW;
    rows[1].task.links = TASK_KEEPS_OUTPUT;
    struct op_open op = open_of(&run, &begin, rows, STEPS);
    apply(w, &op.op);
    return run;
}

/* ---- signals ---- */

static struct op_await await_of(const struct task *step, size_t seen, int64_t timeout_ms)
{
    return (struct op_await){ .op.kind = OP_AWAIT,
                              .id = step->id,
                              .fence = step->fence,
                              .signal = S("go"),
                              .seen = seen,
                              .timeout_ms = timeout_ms,
                              .now_ms = NOW + 7 };
}

static struct signal_row signal_by(const struct task *run, const char *sender)
{
    return (struct signal_row){
        .run = run->id, .name = S("go"), .sender = str_from(sender), .payload = S("{}"), .time_ms = NOW + 9
    };
}

static struct op_signal signal_of(const struct signal_row *s, const struct uuid *steps, size_t n)
{
    return (struct op_signal){ .op.kind = OP_SIGNAL, .tenant = TENANT, .signal = s, .steps = steps, .n = n };
}

static void a_step_awaits_a_signal(void **state) /* OP_AWAIT 1, 2, 4; OP_SIGNAL 6 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
    struct op_await op = await_of(&step, 0, 0), repeated = op;
    apply(w, &op.op);
    struct task t = get(w, step.id);
    assert_true(t.state == TASK_BLOCKED && t.due_ms == 0 && t.started_ms == NOW + 7 && uuid_is_nil(t.claim));
    assert_true(t.links & TASK_AWAITS && t.waits_for.n == 0 && str_eq(t.queue, S("default")));
    assert_int_equal(world_apply(w, &repeated.op), ERR_CONFLICT);
    assert_string_equal(repeated.op.error.field, "fence");
    struct signal_row s = signal_by(&run, "ann");
    struct op_signal signal = signal_of(&s, &step.id, 1);
    apply(w, &signal.op);
    t = get(w, step.id);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 9);
    assert_true(signal.ret_unblocked_lanes == lane_bit(task_lane(&t)));
    assert_true(lane_eq(&(struct lane){ .tenant = TENANT, .priority = PRIORITY_DEFAULT },
                        &(struct lane){ task_lane(&t).tenant, task_lane(&t).queue, task_lane(&t).priority }));
    struct task again = claim_step(w, step.id);
    struct op_await more = await_of(&again, 1, 5000);
    apply(w, &more.op);
    t = get(w, step.id);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 7 + 5000 && t.started_ms == NOW + 7);
}

static void a_signal_sent_early_is_not_lost(void **state) /* OP_AWAIT 3; OP_SIGNAL 2, 4 */
{
    struct world *w = *state;
    struct task run = some_task(w);
    run.target = TARGET_WORKFLOW;
    insert(w, &run, 1);
    struct signal_row s = signal_by(&run, "ann");
    struct uuid later = place_id(run.id, place_of_step(0));
    struct op_signal signal = signal_of(&s, &later, 1);
    apply(w, &signal.op); /* the run is not open yet */
    struct task claimed = claim_step(w, run.id);
    struct run_row begin;
    struct open_row row = root_row(&claimed, 0);
    row.task.target = TARGET_WORKFLOW;
    struct op_open op = open_of(&claimed, &begin, &row, 1);
    op.expected = 1;
    apply(w, &op.op);
    struct task step = claim_step(w, later);
    struct op_await await = await_of(&step, 0, 0);
    apply(w, &await.op);
    struct task t = get(w, later);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 7);
    assert_true(await.ret_unblocked_lanes == lane_bit(task_lane(&t)));
}

/* Settles with an execution. True: the settlement was applied as it is. */
static bool end_await(struct world *w, const struct task *step, enum task_state next)
{
    struct settlement v = settlement_of(step, next);
    v.verdict.has_execution = true;
    v.verdict.attempts = 1;
    v.verdict.execution = some_execution(w, step);
    return settle_with(w, &v);
}

static void a_signal_after_the_plan_of_a_step_is_in_the_next_one(void **state) /* rule 10 */
{
    static const enum task_state ends[] = { TASK_COMPLETED, TASK_FAILED };
    struct world *w = *state;
    for (size_t i = 0; i < array_count(ends); i++) {
        struct open_row rows[STEPS];
        struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
        struct signal_row s = signal_by(&run, "ann");
        struct op_signal signal = signal_of(&s, &step.id, 1);
        apply(w, &signal.op);
        assert_state(w, step.id, TASK_RUNNING);
        assert_true(get(w, step.id).links & TASK_SIGNALLED && signal.ret_unblocked_lanes == 0);
        assert_false(end_await(w, &step, ends[i]));
        struct task t = get(w, step.id);
        assert_true(t.state == TASK_SCHEDULED && uuid_is_nil(t.claim) && t.attempts == 0 && !t.completed_ms);
        assert_false(t.links & TASK_SIGNALLED);
        step = claim_step(w, step.id);
        assert_true(end_await(w, &step, ends[i]));
        assert_state(w, step.id, ends[i]);
    }
}

/* No definition has such a step; the rules hold for it all the same, whether or not it was cancelled. */
static void a_signal_to_a_run_within_another_is_in_its_next_plan(void **state) /* rules 8 and 10 */
{
    static const enum task_state ends[] = { TASK_COMPLETED, TASK_FAILED };
    struct world *w = *state;
    for (size_t i = 0; i < 2 * array_count(ends); i++) {
        struct open_row rows[STEPS];
        struct task run = open_run(w, rows), sub = claim_step(w, rows[0].task.id);
        struct run_row begin;
        struct op_open inner = open_of(&sub, &begin, NULL, 0);
        inner.root = begin.root = run.id;
        apply(w, &inner.op);
        sub = claim_step(w, sub.id);
        struct signal_row s = signal_by(&run, "ann");
        struct op_signal signal = signal_of(&s, &sub.id, 1);
        struct op_stop stop = stop_of(&sub, RUN_CANCEL);
        apply(w, &signal.op);
        if (i % 2)
            apply(w, &stop.op);
        assert_false(end_await(w, &sub, ends[i / 2]));
        struct task t = get(w, sub.id);
        assert_true(t.state == TASK_SCHEDULED && t.attempts == 0 && !(t.links & (TASK_SIGNALLED | TASK_AGAIN)));
    }
}

static void a_step_that_awaits_again_has_seen_its_signals(void **state) /* rule 10, OP_AWAIT 3 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
    struct signal_row s = signal_by(&run, "ann");
    struct op_signal signal = signal_of(&s, &step.id, 1);
    apply(w, &signal.op);
    struct op_await op = await_of(&step, 0, 0);
    apply(w, &op.op);
    struct task t = get(w, step.id);
    assert_true(t.state == TASK_SCHEDULED && !(t.links & TASK_SIGNALLED));
    step = claim_step(w, step.id);
    assert_true(end_await(w, &step, TASK_COMPLETED));
}

static void a_cancelled_step_ends_whatever_signal_came(void **state) /* rule 10 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
    struct signal_row s = signal_by(&run, "ann");
    struct op_signal signal = signal_of(&s, &step.id, 1);
    apply(w, &signal.op);
    struct settlement v = settlement_of(&step, TASK_CANCELLED);
    assert_true(settle_with(w, &v));
    assert_state(w, step.id, TASK_CANCELLED);
}

static void a_sender_counts_once(void **state) /* OP_SIGNAL 1, 3 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows);
    struct signal_row first = signal_by(&run, "bob"), other = first, second = signal_by(&run, "ann");
    struct idempotency key = some_idempotency();
    struct op_signal op = signal_of(&first, NULL, 0), again = op, differs = signal_of(&other, NULL, 0);
    struct op_signal by_ann = signal_of(&second, NULL, 0);
    op.idempotency = &key;
    other.rejects = true;
    apply(w, &op.op);
    assert_false(op.ret_repeated);
    apply(w, &again.op);
    assert_true(again.ret_repeated);
    assert_int_equal(world_apply(w, &differs.op), ERR_CONFLICT);
    assert_string_equal(differs.op.error.field, "by");
    by_ann.idempotency = &key;
    struct op_signal used = by_ann;
    assert_int_equal(world_apply(w, &used.op), ERR_CONFLICT);
    assert_string_equal(used.op.error.field, "idempotency-key");
    by_ann.idempotency = NULL;
    apply(w, &by_ann.op);
    struct signal_rows all;
    assert_int_equal(reader_signals(w->reader, run.id, S("go"), &w->arena, &all, NULL), ERR_OK);
    assert_int_equal(all.n, 2);
    assert_true(str_eq(all.v[0].sender, S("ann")) && str_eq(all.v[1].sender, S("bob"))); /* of one time: by sender */
    assert_true(str_eq(all.v[1].payload, S("{}")) && all.v[1].time_ms == NOW + 9 && !all.v[1].rejects);
}

static void assert_signal_fails(struct world *w, struct op_signal op, enum err code, const char *field)
{
    assert_int_equal(world_apply(w, &op.op), code);
    if (field)
        assert_string_equal(op.op.error.field, field);
}

static void signals_are_refused_when_nobody_awaits_them(void **state) /* OP_SIGNAL 2, 4 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), plain = some_task(w);
    insert(w, &plain, 1);
    struct signal_row s = signal_by(&run, "ann"), nowhere = s, no_run = signal_by(&plain, "ann");
    struct uuid steps[] = { rows[0].task.id, rows[1].task.id };
    struct op_signal op = signal_of(&s, steps, 2), theirs = op;
    nowhere.run = fresh_id(w);
    theirs.tenant = OTHER_TENANT;
    assert_signal_fails(w, theirs, ERR_NOT_FOUND, NULL);
    assert_signal_fails(w, signal_of(&nowhere, NULL, 0), ERR_NOT_FOUND, NULL);
    assert_signal_fails(w, signal_of(&no_run, NULL, 0), ERR_NOT_FOUND, NULL);
    end_step(w, steps[0], TASK_COMPLETED, S(""));
    struct op_signal one_left = op;
    apply(w, &one_left.op);
    end_step(w, steps[1], TASK_CANCELLED, S(""));
    s.sender = S("bob");
    assert_signal_fails(w, op, ERR_CONFLICT, "step");
    for (int i = 2; i < STEPS; i++)
        end_step(w, rows[i].task.id, TASK_COMPLETED, S(""));
    end_step(w, run.id, TASK_COMPLETED, S(""));
    assert_signal_fails(w, signal_of(&s, NULL, 0), ERR_CONFLICT, "run");
}

static void a_run_takes_so_many_bytes_of_signals(void **state) /* OP_SIGNAL 5 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows);
    char *bytes = xmalloc(SIGNAL_BYTES_MAX);
    memset(bytes, '1', SIGNAL_BYTES_MAX);
    struct signal_row s = signal_by(&run, "ann");
    s.payload = (struct str){ bytes, SIGNAL_BYTES_MAX };
    struct op_signal op = signal_of(&s, NULL, 0);
    apply(w, &op.op);
    s.sender = S("bob");
    s.payload.n = 1;
    assert_signal_fails(w, signal_of(&s, NULL, 0), ERR_LIMIT, "payload");
    s.name = S("other");
    struct op_signal other = signal_of(&s, NULL, 0);
    apply(w, &other.op);
    free(bytes);
}

static void a_signal_to_a_paused_run_is_seen_when_it_resumes(void **state) /* OP_AWAIT 5; OP_SIGNAL 6; OP_STOP 4 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), resume = stop_of(&run, RUN_RESUME);
    struct op_await await = await_of(&step, 0, 0);
    apply(w, &pause.op);
    apply(w, &await.op);
    struct task t = get(w, step.id);
    assert_true(t.state == TASK_PAUSED && t.due_ms == 0 && !await.ret_unblocked_lanes);
    struct op_stop early = resume, late = resume, pause_again = pause;
    apply(w, &early.op);
    assert_state(w, step.id, TASK_BLOCKED);
    apply(w, &pause_again.op);
    struct signal_row s = signal_by(&run, "ann");
    struct op_signal signal = signal_of(&s, &step.id, 1);
    apply(w, &signal.op);
    assert_state(w, step.id, TASK_PAUSED);
    apply(w, &late.op);
    assert_state(w, step.id, TASK_SCHEDULED);
}

static void a_step_of_a_stopped_run_does_not_await(void **state) /* OP_AWAIT 6 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), stop = stop_of(&run, RUN_CANCEL);
    struct op_await await = await_of(&step, 0, 5000);
    apply(w, &pause.op);
    apply(w, &stop.op);
    apply(w, &await.op);
    struct task t = get(w, step.id);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 7);
    assert_true(await.ret_unblocked_lanes == lane_bit(task_lane(&t)));
}

static void a_signal_after_the_timeout_is_refused(void **state) /* OP_SIGNAL 4, 6 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[0].task.id);
    struct op_stop pause = stop_of(&run, RUN_PAUSE);
    struct op_await await = await_of(&step, 0, 50); /* until NOW + 57 */
    int64_t timeout_ms = 50;
    apply(w, &await.op);
    apply(w, &pause.op);
    struct signal_row s = signal_by(&run, "ann");
    struct op_signal late = signal_of(&s, &step.id, 1), timely = late;
    late.timeouts_ms = timely.timeouts_ms = &timeout_ms;
    s.time_ms = NOW + 57;
    assert_signal_fails(w, late, ERR_CONFLICT, "step");
    assert_int_equal(get(w, step.id).due_ms, NOW + 57);
    s.time_ms = NOW + 56;
    apply(w, &timely.op);
    assert_int_equal(get(w, step.id).due_ms, NOW + 56);
    assert_state(w, step.id, TASK_PAUSED);
}

/* ---- OP_STOP ---- */

static void a_deadline_is_not_paused(void **state) /* OP_STOP 3, 4 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct open_row rows[2] = { root_row(&run, 0), root_row(&run, 1) };
    struct run_row begin;
    rows[0].ends = true;
    rows[1].task.place = place_of_deadline();
    rows[1].task.id = place_id(run.id, place_of_deadline());
    struct op_open op = open_of(&run, &begin, rows, 2);
    begin.deadline_ms = NOW + 100;
    apply(w, &op.op);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), again = pause;
    struct op_stop late = stop_of(&run, RUN_RESUME), early = late;
    early.now_ms = NOW + 99;
    late.now_ms = NOW + 100;
    apply(w, &pause.op);
    assert_state(w, rows[0].task.id, TASK_PAUSED);
    assert_state(w, rows[1].task.id, TASK_SCHEDULED);
    apply(w, &early.op);
    assert_state(w, rows[0].task.id, TASK_SCHEDULED);
    apply(w, &again.op);
    apply(w, &late.op);
    assert_state(w, rows[0].task.id, TASK_PAUSED);
    assert_true(late.ret_changed == 0);
}

static void a_cancel_takes_what_waits_page_by_page(void **state) /* OP_STOP 2, 7 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), sub = claim_step(w, rows[0].task.id);
    struct run_row begin;
    struct op_open inner = open_of(&sub, &begin, NULL, 0);
    inner.root = begin.root = run.id;
    inner.expected = 1; /* it never ends */
    apply(w, &inner.op);
    struct settlement back[STEPS];
    for (int i = 2; i < STEPS; i++) { /* claiming the sub-run's lane took them, too */
        struct task t = get(w, rows[i].task.id);
        back[i] = settlement_of(&t, TASK_SCHEDULED);
        back[i].verdict.attempts = 0;
        assert_true(settle_with(w, &back[i]));
    }
    struct task runs = get(w, rows[1].task.id);
    struct op_stop first = stop_of(&run, RUN_CANCEL), last = first, again = first;
    first.max = 1;
    apply(w, &first.op);
    assert_true(first.ret_changed == 1 && first.ret_more && first.ret_unblocked_lanes == UINT64_MAX);
    assert_state(w, rows[2].task.id, TASK_CANCELLED);
    assert_state(w, rows[3].task.id, TASK_SCHEDULED);
    assert_true(get(w, run.id).links & TASK_OPEN);
    last.stop = RUN_AT_DEADLINE;
    last.why = S("too late");
    apply(w, &last.op);
    assert_true(last.ret_changed == 1 && !last.ret_more && last.ret_running_count == 1 && last.ret_run_count == 1);
    assert_true(uuid_eq(last.ret_running[0].id, runs.id) && last.ret_running[0].fence == runs.fence);
    assert_true(uuid_eq(last.ret_runs[0], sub.id));
    struct task t = get(w, rows[2].task.id);
    assert_true(str_eq(t.last_error, S("by ann")) && t.completed_ms == NOW + 20);
    t = get(w, run.id);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 20 && !(t.links & (TASK_OPEN | TASK_WAITS)));
    struct run_row r = run_of(w, run.id);
    assert_true(r.stop == RUN_CANCELLED && str_eq(r.stopped_by, S("by ann"))); /* the first stop stays */
    assert_true(arrive(w).ret_applied == 2);
    apply(w, &again.op);
    assert_int_equal(again.ret_changed, 0);
}

static void a_stop_leaves_what_was_opened_to_its_plan(void **state) /* OP_STOP 7, 8 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), sub = claim_step(w, rows[0].task.id);
    struct run_row begin;
    struct op_open inner = open_of(&sub, &begin, NULL, 0);
    inner.root = begin.root = run.id;
    inner.expected = 1;
    apply(w, &inner.op);
    struct op_stop own = stop_of(&sub, RUN_CANCEL), outer = stop_of(&run, RUN_CANCEL);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), late = pause, again = outer, last = outer;
    apply(w, &own.op);
    assert_state(w, sub.id, TASK_SCHEDULED);
    apply(w, &pause.op);
    assert_state(w, sub.id, TASK_PAUSED);
    outer.now_ms = NOW + 40;
    apply(w, &outer.op);
    assert_state(w, sub.id, TASK_SCHEDULED);
    assert_int_equal(get(w, sub.id).due_ms, NOW + 40);
    again.now_ms = NOW + 50;
    apply(w, &again.op);
    assert_true(again.ret_changed == 0 && !again.ret_more);
    assert_state(w, sub.id, TASK_SCHEDULED);
    apply(w, &late.op); /* OP_STOP 3: it would never end */
    assert_true(late.ret_changed == 0 && !late.ret_more);
    assert_state(w, sub.id, TASK_SCHEDULED);
    sub = claim_step(w, sub.id);
    apply(w, &last.op);
    for (size_t i = 0; i < last.ret_running_count; i++)
        assert_false(uuid_eq(last.ret_running[i].id, sub.id));
    assert_state(w, sub.id, TASK_RUNNING);
}

static void a_cancel_starts_nothing(void **state) /* OP_STOP 2 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_edge_row edge = { place_id(run.id, place_of_step(0)), DAG_MUST_FINISH, EDGE_OPEN };
    struct open_row rows[] = { row_after(&run, 1, &edge), root_row(&run, 0) };
    rows[0].ends = true;
    rows[1].task.links = TASK_HAS_CHILDREN;
    struct op_open op = open_of(&run, &begin, rows, 2);
    apply(w, &op.op);
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    apply(w, &stop.op);
    assert_int_equal(stop.ret_changed, 2);
    while (arrive(w).ret_more)
        ;
    assert_state(w, rows[0].task.id, TASK_CANCELLED);
    assert_false(get(w, rows[0].task.id).links & TASK_WAITS);
}

static void runs_that_are_not_there_are_not_stopped(void **state) /* OP_STOP 1 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), never = some_task(w);
    never.target = TARGET_WORKFLOW;
    insert(w, &never, 1);
    struct op_stop unopened = stop_of(&never, RUN_CANCEL), theirs = stop_of(&run, RUN_CANCEL);
    theirs.tenant = OTHER_TENANT;
    assert_int_equal(world_apply(w, &unopened.op), ERR_NOT_FOUND);
    assert_int_equal(world_apply(w, &theirs.op), ERR_NOT_FOUND);
    struct idempotency key = some_idempotency();
    struct op_stop pause = stop_of(&run, RUN_PAUSE), repeated = pause;
    pause.idempotency = repeated.idempotency = &key;
    apply(w, &pause.op);
    repeated.change = RUN_RESUME;
    assert_int_equal(world_apply(w, &repeated.op), ERR_CONFLICT);
    assert_true(run_of(w, run.id).paused);
}

static void a_pause_holds_and_a_resume_goes_on(void **state) /* OP_STOP 3, 4 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_edge_row edge = { place_id(run.id, place_of_step(0)), DAG_MUST_SUCCEED, EDGE_OPEN };
    struct open_row rows[] = { row_after(&run, 1, &edge), row_after(&run, 2, &edge), root_row(&run, 0),
                               root_row(&run, 3) };
    rows[0].ends = true;
    rows[2].task.links = TASK_HAS_CHILDREN;
    rows[3].task.due_ms = rows[3].task.scheduled_ms = NOW + 90000;
    struct op_open op = open_of(&run, &begin, rows, 4);
    apply(w, &op.op);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), resume = stop_of(&run, RUN_RESUME), part = resume;
    struct task first = claim_step(w, rows[2].task.id);
    apply(w, &pause.op);
    assert_int_equal(pause.ret_changed, 2 + (get(w, rows[3].task.id).state == TASK_PAUSED));
    assert_true(get(w, run.id).links & TASK_OPEN);
    end_step(w, first.id, TASK_COMPLETED, S(""));
    struct task t = get(w, rows[0].task.id);
    assert_true(t.state == TASK_PAUSED && !(t.links & TASK_WAITS)); /* its parent has arrived meanwhile */
    part.max = 1;
    apply(w, &part.op);
    assert_true(part.ret_more && part.ret_changed == 1);
    assert_false(run_of(w, run.id).paused);
    apply(w, &resume.op);
    assert_false(resume.ret_more);
    t = get(w, rows[0].task.id);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 20);
    assert_state(w, rows[1].task.id, TASK_SCHEDULED);
}

static void a_step_that_waits_is_blocked_again(void **state) /* OP_STOP 4 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_edge_row edge = { place_id(run.id, place_of_step(0)), DAG_MUST_SUCCEED, EDGE_OPEN };
    struct open_row rows[] = { row_after(&run, 1, &edge), root_row(&run, 0) };
    rows[1].task.links = TASK_HAS_CHILDREN;
    rows[1].task.due_ms = NOW + 90000;
    struct op_open op = open_of(&run, &begin, rows, 2);
    op.expected = 1;
    apply(w, &op.op);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), resume = stop_of(&run, RUN_RESUME);
    apply(w, &pause.op);
    assert_state(w, rows[0].task.id, TASK_PAUSED);
    apply(w, &resume.op);
    assert_state(w, rows[0].task.id, TASK_BLOCKED);
    struct task t = get(w, rows[1].task.id);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW + 90000);
}

static void a_range_is_closed_and_the_run_goes_on(void **state) /* OP_STOP 5, 6 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows);
    struct op_stop some = stop_of(&run, RUN_CLOSE), rest = some;
    some.has_range = true;
    some.from = place_of_step(1);
    some.to = place_of_step(2);
    apply(w, &some.op);
    assert_true(some.ret_changed == 2 && !some.ret_more);
    assert_state(w, rows[0].task.id, TASK_SCHEDULED);
    assert_state(w, rows[1].task.id, TASK_CANCELLED);
    assert_state(w, rows[2].task.id, TASK_CANCELLED);
    assert_state(w, rows[3].task.id, TASK_SCHEDULED);
    apply(w, &rest.op);
    assert_int_equal(rest.ret_changed, 2);
    assert_int_equal(run_of(w, run.id).stop, RUN_GOES_ON);
    assert_true(get(w, run.id).links & TASK_OPEN); /* until the arrivals are applied */
    arrive(w);
    assert_state(w, run.id, TASK_SCHEDULED);
}

static void a_step_that_is_paused_gives_up_its_slot(void **state) /* OP_STOP 2, 3 */
{
    struct world *w = *state;
    struct task run = claimed_run(w), holder = some_task(w);
    struct run_row begin;
    holder.concurrency_key = S("db");
    holder.concurrency_limit = 1;
    holder = claim_one(w, &holder, fresh_id(w));
    struct open_row rows[] = { root_row(&run, 0), root_row(&run, 1) };
    for (int i = 0; i < 2; i++) {
        rows[i].task.concurrency_key = S("db");
        rows[i].task.concurrency_limit = 1;
        rows[i].ends = true;
    }
    struct op_open op = open_of(&run, &begin, rows, 2);
    apply(w, &op.op);
    struct lane_quota lane = { task_lane(&rows[0].task), 100 };
    struct op_claim claim = claim_of(w, &lane, 1);
    apply(w, &claim.op);
    assert_int_equal(claim.ret_gated.n, 2);
    struct op_stop pause = stop_of(&run, RUN_PAUSE);
    apply(w, &pause.op);
    assert_int_equal(get(w, rows[0].task.id).waits_for.n, 0);
    end_step(w, holder.id, TASK_COMPLETED, S(""));
    assert_state(w, rows[0].task.id, TASK_PAUSED);
    struct slot_holders held;
    assert_int_equal(reader_slots(w->reader, S("c:1:db"), &w->arena, &held, NULL), ERR_OK);
    assert_int_equal(held.n, 0);
}

/* ---- what a stop and a pause mean for the rest ---- */

static void a_step_that_would_wait_again_is_paused_with_its_run(void **state) /* rule 7 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows);
    claim_step(w, rows[1].task.id);
    struct op_stop pause = stop_of(&run, RUN_PAUSE), resume = stop_of(&run, RUN_RESUME);
    apply(w, &pause.op);
    end_step(w, rows[1].task.id, TASK_SCHEDULED, S("no"));
    assert_state(w, rows[1].task.id, TASK_PAUSED);
    apply(w, &resume.op);
    assert_state(w, rows[1].task.id, TASK_SCHEDULED);
    end_step(w, rows[1].task.id, TASK_COMPLETED, S("1"));
}

static void a_step_that_would_wait_again_is_cancelled_with_its_run(void **state) /* rule 7 */
{
    struct world *w = *state;
    struct open_row rows[STEPS];
    struct task run = open_run(w, rows), step = claim_step(w, rows[1].task.id), opened = claim_step(w, rows[0].task.id);
    struct op_open map = open_of(&opened, NULL, NULL, 0);
    apply(w, &map.op);
    claim_step(w, opened.id);
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    apply(w, &stop.op);
    end_step(w, step.id, TASK_SCHEDULED, S("no"));
    struct task t = get(w, step.id);
    assert_true(t.state == TASK_CANCELLED && t.completed_ms > 0 && t.last_error.n > 0);
    end_step(w, opened.id, TASK_SCHEDULED, S("")); /* it ends by itself: it may have tasks of its own */
    assert_state(w, opened.id, TASK_SCHEDULED);
    struct op_stop pause = stop_of(&run, RUN_PAUSE);
    apply(w, &pause.op);
    claim_step(w, opened.id);
    end_step(w, opened.id, TASK_SCHEDULED, S(""));
    assert_state(w, opened.id, TASK_SCHEDULED);
}

static void a_cancel_leaves_compensations_and_the_deadline_alone(void **state) /* OP_STOP 2 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct open_row rows[] = { root_row(&run, 0),
                               { .task = step_at(&run, place_of_undo(0, -1)) },
                               { .task = step_at(&run, place_of_deadline()) } };
    rows[0].ends = true;
    struct op_open op = open_of(&run, &begin, rows, array_count(rows));
    apply(w, &op.op);
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    apply(w, &stop.op);
    assert_int_equal(stop.ret_changed, 1);
    assert_state(w, rows[0].task.id, TASK_CANCELLED);
    assert_state(w, rows[1].task.id, TASK_SCHEDULED);
    assert_state(w, rows[2].task.id, TASK_SCHEDULED);
}

static void a_run_that_is_stopped_does_not_begin_again(void **state) /* OP_STOP 2, OP_OPEN 3 */
{
    struct world *w = *state;
    struct task run = claimed_run(w);
    struct run_row begin;
    struct op_open op = open_of(&run, &begin, NULL, 0);
    apply(w, &op.op);
    end_step(w, run.id, TASK_SCHEDULED, S("no"));
    struct task claimed = claim_step(w, run.id);
    struct op_stop stop = stop_of(&run, RUN_CANCEL);
    apply(w, &stop.op);
    assert_false(get(w, run.id).links & TASK_AGAIN);
    struct op_open again = open_of(&claimed, &begin, NULL, 0);
    again.again = true;
    apply(w, &again.op);
    assert_true(again.ret_stopped && run_of(w, run.id).stop == RUN_CANCELLED);
    assert_state(w, run.id, TASK_RUNNING);
}

static void a_run_within_that_waits_for_its_next_attempt_is_open_to_undo(void **state) /* OP_STOP 2, 5 */
{
    static const enum run_stop stops[] = { RUN_CANCELLED, RUN_CANCELLED_AND_UNDONE, RUN_AT_DEADLINE, RUN_GOES_ON };
    struct world *w = *state;
    for (size_t i = 0; i < array_count(stops); i++) {
        struct open_row rows[STEPS];
        struct task run = open_run(w, rows), sub = claim_step(w, rows[0].task.id);
        struct run_row begin;
        struct op_open inner = open_of(&sub, &begin, NULL, 0);
        inner.root = begin.root = run.id;
        apply(w, &inner.op);
        end_step(w, sub.id, TASK_SCHEDULED, S("no"));
        struct op_stop stop = stop_of(&run, stops[i] == RUN_GOES_ON ? RUN_CLOSE : RUN_CANCEL);
        stop.stop = stops[i];
        apply(w, &stop.op);
        struct task t = get(w, sub.id);
        bool undoes = stops[i] != RUN_CANCELLED;
        assert_int_equal(t.state, undoes ? TASK_RUNNING : TASK_CANCELLED);
        assert_true(!undoes || (t.links & TASK_OPEN && t.links & TASK_AGAIN && uuid_is_nil(t.claim)));
        assert_true(stop.ret_run_count == undoes && (!undoes || uuid_eq(stop.ret_runs[0], sub.id)));
    }
}

static void signals_for_another_input_are_forgotten(void **state) /* rule 12 */
{
    struct world *w = *state;
    struct task run = some_task(w);
    run.target = TARGET_WORKFLOW;
    insert(w, &run, 1);
    struct signal_row s = signal_by(&run, "ann"), other = s;
    other.payload = S("[1]");
    struct op_signal first = signal_of(&s, NULL, 0), differs = signal_of(&other, NULL, 0), later = differs;
    apply(w, &first.op);
    struct task next = run;
    next.version++;
    struct op_put edited = put_of(&run, &next);
    apply(w, &edited.op); /* nothing that it does has changed */
    assert_int_equal(world_apply(w, &differs.op), ERR_CONFLICT);
    struct task input = next;
    input.version++;
    input.links |= TASK_NEW_INPUT;
    struct op_put put = put_of(&next, &input);
    apply(w, &put.op);
    apply(w, &later.op);
    assert_false(get(w, run.id).links & TASK_NEW_INPUT);
    struct task claimed = claim_step(w, run.id), back = claimed;
    back.state = TASK_SCHEDULED;
    back.claim = (struct uuid){ 0 };
    back.links |= TASK_NEW_INPUT;
    struct settlement v = settlement_of(&claimed, TASK_SCHEDULED);
    v.replace = &back;
    assert_true(settle_with(w, &v));
    struct op_signal last = signal_of(&s, NULL, 0);
    apply(w, &last.op);
    assert_false(last.ret_repeated || get(w, run.id).links & TASK_NEW_INPUT);
}

static const struct CMUnitTest tests[] = {
    store_test(a_step_awaits_a_signal),
    store_test(a_signal_sent_early_is_not_lost),
    store_test(a_signal_after_the_plan_of_a_step_is_in_the_next_one),
    store_test(a_signal_to_a_run_within_another_is_in_its_next_plan),
    store_test(a_step_that_awaits_again_has_seen_its_signals),
    store_test(a_cancelled_step_ends_whatever_signal_came),
    store_test(a_sender_counts_once),
    store_test(signals_are_refused_when_nobody_awaits_them),
    store_test(a_run_takes_so_many_bytes_of_signals),
    store_test(a_signal_to_a_paused_run_is_seen_when_it_resumes),
    store_test(a_step_of_a_stopped_run_does_not_await),
    store_test(a_signal_after_the_timeout_is_refused),
    store_test(a_deadline_is_not_paused),
    store_test(a_cancel_takes_what_waits_page_by_page),
    store_test(a_stop_leaves_what_was_opened_to_its_plan),
    store_test(a_cancel_starts_nothing),
    store_test(runs_that_are_not_there_are_not_stopped),
    store_test(a_pause_holds_and_a_resume_goes_on),
    store_test(a_step_that_waits_is_blocked_again),
    store_test(a_range_is_closed_and_the_run_goes_on),
    store_test(a_step_that_is_paused_gives_up_its_slot),
    store_test(a_step_that_would_wait_again_is_paused_with_its_run),
    store_test(a_step_that_would_wait_again_is_cancelled_with_its_run),
    store_test(a_cancel_leaves_compensations_and_the_deadline_alone),
    store_test(a_run_that_is_stopped_does_not_begin_again),
    store_test(a_run_within_that_waits_for_its_next_attempt_is_open_to_undo),
    store_test(signals_for_another_input_are_forgotten),
};
const struct test_list run_change_tests = { tests, array_count(tests) };
