/* OP_SETTLE, and the executions it leaves. */
#include "store_slots.h"

static struct task claimed_task(struct world *w)
{
    struct task t = some_task(w);
    return claim_one(w, &t, fresh_id(w));
}

static struct execution_page executions_of(struct world *w, struct uuid task)
{
    struct execution_filter f = { .tenant = TENANT, .task = task, .limit = 100 };
    struct execution_page page = { 0 };
    struct error e = { 0 };
    assert_ok(reader_executions(w->reader, &f, &w->arena, &page, &e), &e);
    return page;
}

static struct settlement with_execution(struct world *w, const struct task *t, enum task_state next)
{
    struct settlement v = settlement_of(t, next);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, t);
    return v;
}

static void a_final_verdict_ends_a_task(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), expected = t;
    struct settlement v = with_execution(w, &t, TASK_FAILED);
    v.verdict.attempts = 5;
    v.verdict.losses = 2;
    v.verdict.last_error = S("HTTP 410");
    assert_true(settle_with(w, &v));
    expected.state = TASK_FAILED;
    expected.claim = (struct uuid){ 0 };
    expected.attempts = 5;
    expected.losses = 2;
    expected.last_error = S("HTTP 410");
    expected.started_ms = NOW;
    expected.updated_ms = expected.completed_ms = NOW + 10;
    struct task read = get(w, t.id);
    assert_same_task(&read, &expected);
}

static void a_retry_schedules_a_task_for_its_new_due_time(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), expected = t;
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.verdict.due_ms = NOW + 1000;
    assert_true(settle_with(w, &v));
    expected.state = TASK_SCHEDULED;
    expected.claim = (struct uuid){ 0 };
    expected.attempts = 1;
    expected.due_ms = NOW + 1000;
    expected.updated_ms = NOW + 10;
    struct task read = get(w, t.id);
    assert_same_task(&read, &expected);
}

/* Rule 2. */
static void a_verdict_says_what_is_waited_for_and_what_put_it_off(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), expected = t;
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    v.verdict.awaited_ms = NOW - 5000;
    v.verdict.late_by = LATE_BREAKER;
    assert_true(settle_with(w, &v));
    expected.state = TASK_RUNNING;
    expected.attempts = 1;
    expected.awaited_ms = NOW - 5000;
    expected.late_by = LATE_BREAKER;
    expected.updated_ms = NOW + 10;
    expected.fence++;
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    expected.claim = op.claim;
    assert_same_task(&op.ret.v[0], &expected);
    v = with_execution(w, &op.ret.v[0], TASK_COMPLETED);
    v.verdict.execution.late_by = LATE_BREAKER;
    assert_true(settle_with(w, &v));
    assert_int_equal(get(w, t.id).awaited_ms, NOW - 5000); /* it is kept in the final state */
    assert_int_equal(executions_of(w, t.id).executions.v[0].late_by, LATE_BREAKER);
}

/* Rule 2: the clock of the worker may be ahead. */
static void a_task_never_ends_before_its_execution(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 2; i++) {
        struct task t = claimed_task(w);
        struct settlement v = with_execution(w, &t, i ? TASK_FAILED : TASK_COMPLETED);
        v.verdict.execution.completed_us = (NOW + 26) * 1000 + 999;
        assert_true(settle_with(w, &v)); /* at NOW + 10 */
        assert_int_equal(get(w, t.id).completed_ms, NOW + 26);
    }
}

static void another_fence_is_stale_and_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w);
    for (int64_t off = -1; off <= 1; off += 2) {
        struct task other = t;
        other.fence += off;
        struct settlement v = with_execution(w, &other, TASK_COMPLETED);
        v.fence = max_of(other.fence, (int64_t)5);
        assert_false(settle_with(w, &v));
        struct task read = get(w, t.id);
        assert_same_task(&read, &t);
    }
    assert_int_equal(executions_of(w, t.id).executions.n, 0);
}

static void late_worker_is_fenced_off(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w);
    struct settlement back = settlement_of(&t, TASK_SCHEDULED), late = with_execution(w, &t, TASK_COMPLETED);
    back.verdict.due_ms = NOW;
    assert_true(settle_with(w, &back));
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(op.ret.n, 1);
    assert_false(settle_with(w, &late));
    struct task read = get(w, t.id);
    assert_same_task(&read, &op.ret.v[0]);
    struct settlement good = settlement_of(&op.ret.v[0], TASK_COMPLETED);
    assert_true(settle_with(w, &good));
}

static void a_task_that_does_not_run_cannot_be_settled(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), gone = some_task(w);
    t.fence = gone.fence = 3;
    insert(w, &t, 1);
    struct settlement v = settlement_of(&t, TASK_COMPLETED), u = settlement_of(&gone, TASK_COMPLETED);
    assert_false(settle_with(w, &v));
    assert_false(settle_with(w, &u));
    assert_int_equal(get(w, t.id).state, TASK_SCHEDULED);
    assert_false(is_there(w, TENANT, gone.id));
}

static void stale_ones_do_not_hold_up_the_others(void **state)
{
    struct world *w = *state;
    struct task a = claimed_task(w), b = claimed_task(w);
    struct settlement v[] = { settlement_of(&a, TASK_COMPLETED), settlement_of(&b, TASK_COMPLETED),
                              settlement_of(&b, TASK_FAILED) };
    v[0].fence = 99;
    v[0].stale = false;
    v[1].stale = true;
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = 3, .now_ms = NOW };
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_true(v[0].stale);
    assert_false(v[1].stale);
    assert_true(v[2].stale); /* the one before it ended the claim */
    assert_int_equal(get(w, b.id).state, TASK_COMPLETED);
}

static void an_execution_is_written_with_the_verdict(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w);
    struct settlement v = with_execution(w, &t, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    struct execution_page page = executions_of(w, t.id);
    assert_int_equal(page.executions.n, 1);
    assert_null(execution_difference(&page.executions.v[0], &v.verdict.execution));
}

/* A byte that is no text, NUL among them, comes back as itself or as U+FFFD. */
static void assert_like(struct str got, struct str given)
{
    size_t at = 0;
    for (size_t i = 0; i < given.n;) {
        size_t n = given.p[i] ? str_utf8_at(given, i) : 0;
        struct str part = str_sub(given, i, i + max_of(n, (size_t)1)), rest = str_sub(got, at, got.n);
        bool is_marked = n == 0 && str_starts(rest, S("\xEF\xBF\xBD"));
        assert_true(is_marked || str_starts(rest, part));
        at += is_marked ? 3 : part.n;
        i += part.n;
    }
    assert_int_equal(at, got.n);
}

static void what_a_target_said_may_be_any_bytes(void **state)
{
    struct world *w = *state;
    struct str said = S("caf\xE9 \0 \xFF\xFE caf\xC3\xA9 \xF0\x9F\x94\x94 \xED\xA0\x80 cut \xE2\x82");
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&claimed, TASK_FAILED);
    v.verdict.last_error = said;
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &claimed);
    v.verdict.execution.error = v.verdict.execution.output = said;
    assert_true(settle_with(w, &v));
    assert_like(get(w, t.id).last_error, said);
    struct execution_page page = executions_of(w, t.id);
    assert_int_equal(page.executions.n, 1);
    assert_like(page.executions.v[0].output, said);
    assert_like(page.executions.v[0].error, said);
}

static void no_execution_is_written_without_one(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w);
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.verdict.execution = some_execution(w, &t);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    assert_int_equal(executions_of(w, t.id).executions.n, 0);
    assert_int_equal(get(w, t.id).started_ms, 0);
}

static void a_repeated_settle_writes_one_execution(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w);
    struct settlement v = with_execution(w, &t, TASK_COMPLETED), again = v;
    assert_true(settle_with(w, &v));
    assert_false(settle_with(w, &again));
    assert_int_equal(executions_of(w, t.id).executions.n, 1);
}

static void an_execution_that_is_there_already_stays(void **state)
{
    struct world *w = *state;
    struct task a = claimed_task(w), b = claimed_task(w);
    struct settlement first = with_execution(w, &a, TASK_COMPLETED), second = with_execution(w, &b, TASK_COMPLETED);
    assert_true(settle_with(w, &first));
    second.verdict.execution.id = first.verdict.execution.id;
    second.verdict.execution.task = first.verdict.execution.task; /* an id belongs to one task: it is derived from it */
    assert_true(settle_with(w, &second));
    assert_int_equal(get(w, b.id).state, TASK_COMPLETED);
    assert_int_equal(executions_of(w, a.id).executions.n, 1);
    assert_int_equal(executions_of(w, b.id).executions.n, 0);
}

static void an_occurrence_tells_its_parent_when_it_ran(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w);
    insert(w, &parent, 1);
    int64_t runs_ms[] = { NOW + 70, NOW + 40, NOW + 90 }, expected[] = { NOW + 70, NOW + 70, NOW + 90 };
    for (int i = 0; i < 3; i++) {
        struct task o = some_occurrence(w, &parent, NOW + i), claimed = claim_one(w, &o, fresh_id(w));
        struct settlement v = with_execution(w, &claimed, TASK_COMPLETED);
        v.verdict.execution.started_us = runs_ms[i] * 1000 + 999;
        assert_true(settle_with(w, &v));
        struct task after = parent;
        after.last_run_ms = expected[i];
        struct task read = get(w, parent.id);
        assert_same_task(&read, &after);
    }
    assert_int_equal(executions_of(w, parent.id).executions.n, 3);
}

static void a_parent_hears_nothing_of_what_did_not_run(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w);
    insert(w, &parent, 1);
    struct task o = some_occurrence(w, &parent, NOW), claimed = claim_one(w, &o, fresh_id(w));
    struct settlement returned = settlement_of(&claimed, TASK_SCHEDULED), stale = with_execution(w, &o, TASK_FAILED);
    returned.verdict.due_ms = NOW;
    assert_true(settle_with(w, &returned));
    stale.fence = claimed.fence;
    assert_false(settle_with(w, &stale));
    assert_int_equal(get(w, parent.id).last_run_ms, 0);
}

static void an_occurrence_without_its_parent_is_settled(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), o = some_occurrence(w, &parent, NOW),
                claimed = claim_one(w, &o, fresh_id(w));
    struct settlement v = with_execution(w, &claimed, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_int_equal(get(w, o.id).state, TASK_COMPLETED);
    assert_false(is_there(w, TENANT, parent.id));
}

static void a_recalled_task_becomes_the_row_in_its_place(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_PAUSED;
    row.name = S("renamed");
    row.version = 2;
    row.fence = t.fence;
    row.due_ms = NOW + 777;
    row.payload = S("[1]");
    row.updated_ms = NOW + 3;
    row.claim = (struct uuid){ 0 };
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    assert_true(settle_with(w, &v));
    struct task read = get(w, t.id);
    assert_same_task(&read, &row);
}

static void a_replacement_is_guarded_by_the_fence_too(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_CANCELLED;
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    v.fence++;
    assert_false(settle_with(w, &v));
    struct task read = get(w, t.id);
    assert_same_task(&read, &t);
}

static void a_replacement_brings_the_verdicts_execution_along(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_SCHEDULED;
    struct settlement v = with_execution(w, &t, TASK_SCHEDULED);
    v.replace = &row;
    assert_true(settle_with(w, &v));
    assert_int_equal(executions_of(w, t.id).executions.n, 1);
    struct lane_quota lane = { some_lane(), 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_tasks(&op.ret, &t.id); /* it stands in its lane again */
}

/* ---- with the record of a request's key ---- */

static struct op_settle recall_of(struct settlement *v, const struct idempotency *i)
{
    return (struct op_settle){ .op.kind = OP_SETTLE, .v = v, .n = 1, .now_ms = NOW + 10, .idempotency = i };
}

static void a_recalled_task_and_the_record_of_its_request_come_together(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_PAUSED;
    row.claim = (struct uuid){ 0 };
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    struct idempotency i = some_idempotency(), read;
    struct op_settle op = recall_of(&v, &i);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_false(v.stale);
    assert_int_equal(get(w, t.id).state, TASK_PAUSED);
    struct error e = { 0 };
    assert_ok(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, &e), &e);
    assert_true(read.status == i.status && str_eq(read.answer, i.answer));
    assert_memory_equal(read.payload, i.payload, sizeof read.payload);
}

static void a_stale_recall_keeps_no_record(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_CANCELLED;
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    v.fence++;
    struct idempotency i = some_idempotency(), read;
    struct op_settle op = recall_of(&v, &i);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_true(v.stale);
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
    v.fence--; /* and the key is free */
    op = recall_of(&v, &i);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_false(v.stale);
}

static void a_recall_under_a_key_that_has_a_record_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_CANCELLED;
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    struct idempotency first = some_idempotency(), second = first, read;
    second.status = 418;
    struct op_insert before = { .op.kind = OP_INSERT, .idempotency = &first };
    struct op_settle op = recall_of(&v, &second);
    world_apply_all(w, (struct op *[]){ &before.op, &op.op }, 2); /* also if it was made in the same transaction */
    assert_int_equal(op.op.rc, ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "idempotency-key");
    struct task after = get(w, t.id);
    assert_same_task(&after, &t);
    struct error e = { 0 };
    assert_ok(reader_idempotency(w->reader, TENANT, first.key, &w->arena, &read, &e), &e);
    assert_int_equal(read.status, first.status);
}

static void a_repeated_recall_fails_by_its_key(void **state)
{
    struct world *w = *state;
    struct task t = claimed_task(w), row = t;
    row.state = TASK_PAUSED;
    row.claim = (struct uuid){ 0 };
    struct settlement v = settlement_of(&t, TASK_SCHEDULED);
    v.replace = &row;
    struct idempotency i = some_idempotency();
    struct op_settle op = recall_of(&v, &i), again = recall_of(&v, &i);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(world_apply(w, &again.op), ERR_CONFLICT);
    assert_string_equal(again.op.error.field, "idempotency-key");
    struct task after = get(w, t.id);
    assert_same_task(&after, &row);
}

/* ---- occurrences of recurring tasks that were called off ---- */

/* A claimed occurrence at NOW + 1000, whose parent is in that state and has spawned until NOW + 10000. */
static struct task claimed_of(struct world *w, enum task_state state, bool deleted, int64_t runs, struct task *parent)
{
    *parent = some_recurring(w);
    parent->state = state;
    parent->deleted = deleted;
    parent->cursor_ms = NOW + 10000;
    parent->runs_count = 7;
    struct task o = some_occurrence(w, parent, NOW + 1000);
    o.runs_count = runs;
    o.fence = 1;
    insert(w, parent, 1);
    return claim_one(w, &o, fresh_id(w));
}

/* As a claim is given back: it cost no attempt. */
static struct settlement returned(const struct task *t)
{
    struct settlement v = settlement_of(t, TASK_SCHEDULED);
    v.parent = t->parent;
    v.verdict.attempts = t->attempts;
    v.verdict.losses = t->losses;
    v.verdict.due_ms = t->due_ms;
    return v;
}

/* The same after an attempt that has begun. */
static struct settlement returned_after(struct world *w, const struct task *t, enum execution_status status)
{
    struct settlement v = returned(t);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, t);
    v.verdict.execution.status = status;
    v.verdict.attempts += status == EXECUTION_FAILED;
    v.verdict.losses += status == EXECUTION_LOST;
    return v;
}

/* Rule 10. */
static void what_a_cancelled_schedule_gets_back_is_cancelled(void **state)
{
    struct world *w = *state;
    for (int deleted = 0; deleted < 2; deleted++) {
        struct task parent, t = claimed_of(w, deleted ? TASK_SCHEDULED : TASK_CANCELLED, deleted, 1, &parent);
        struct settlement v = returned(&t);
        assert_true(settle_with(w, &v));
        assert_int_equal(v.ret_state, TASK_CANCELLED);
        struct task read = get(w, t.id);
        assert_int_equal(read.state, TASK_CANCELLED);
        assert_int_equal(read.completed_ms, NOW + 10);
        assert_int_equal(read.runs_count, 0);
        assert_true(str_eq(read.last_error, put_cancel_reason(&parent)));
        if (!deleted)
            assert_int_equal(get(w, parent.id).runs_count, 6);
    }
}

static void a_lost_attempt_of_a_cancelled_schedule_is_the_last(void **state)
{
    struct world *w = *state;
    struct task parent, t = claimed_of(w, TASK_CANCELLED, false, 1, &parent);
    struct settlement v = returned_after(w, &t, EXECUTION_LOST);
    assert_true(settle_with(w, &v));
    struct task read = get(w, t.id);
    assert_int_equal(read.state, TASK_CANCELLED);
    assert_int_equal(read.runs_count, 1); /* it may have run */
    assert_int_equal(get(w, parent.id).runs_count, 7);
    assert_true(str_eq(read.last_error, put_cancel_reason(&parent)));
}

static void a_failed_attempt_of_a_cancelled_schedule_is_not_retried(void **state)
{
    struct world *w = *state;
    struct task parent, t = claimed_of(w, TASK_CANCELLED, false, 1, &parent);
    struct settlement v = returned_after(w, &t, EXECUTION_FAILED);
    v.verdict.last_error = S("HTTP 503");
    v.verdict.retry_cause = (struct fingerprint){ .text = "http 503" };
    assert_true(settle_with(w, &v));
    assert_int_equal(v.ret_state, TASK_FAILED);
    struct task read = get(w, t.id);
    assert_int_equal(read.state, TASK_FAILED);
    assert_true(str_eq(read.last_error, S("HTTP 503")) && str_eq(read.cause, S("http 503")));
}

/* Rule 11. */
static void what_a_paused_schedule_gets_back_is_withdrawn(void **state)
{
    struct world *w = *state;
    struct task parent, t = claimed_of(w, TASK_PAUSED, false, 1, &parent);
    struct settlement v = returned(&t);
    assert_true(settle_with(w, &v));
    assert_int_equal(v.ret_state, TASK_SCHEDULED);
    assert_false(is_there(w, TENANT, t.id));
    assert_int_equal(get(w, parent.id).runs_count, 6);
    assert_int_equal(get(w, parent.id).cursor_ms, NOW + 1000);
    assert_int_equal(get(w, parent.id).version, parent.version);
    assert_false(settle_with(w, &v)); /* stale: it is gone */
}

static void what_has_fired_or_was_asked_for_goes_on_in_a_pause(void **state)
{
    struct world *w = *state;
    struct task parent, fired = claimed_of(w, TASK_PAUSED, false, 1, &parent);
    struct settlement v = returned_after(w, &fired, EXECUTION_LOST);
    v.verdict.due_ms = NOW + 100000; /* the next claim does not take it */
    assert_true(settle_with(w, &v));
    assert_int_equal(get(w, fired.id).state, TASK_SCHEDULED);
    struct task by_hand = claimed_of(w, TASK_PAUSED, false, 0, &parent);
    v = returned(&by_hand);
    assert_true(settle_with(w, &v));
    assert_int_equal(get(w, by_hand.id).state, TASK_SCHEDULED);
}

/* Rule 12, and schedules that have ended by themselves: their last occurrences run. */
static void a_retry_by_hand_and_the_last_run_of_a_schedule_go_on(void **state)
{
    struct world *w = *state;
    struct task parent, last = claimed_of(w, TASK_COMPLETED, false, 1, &parent);
    struct settlement v = returned(&last);
    assert_true(settle_with(w, &v));
    assert_int_equal(get(w, last.id).state, TASK_SCHEDULED);
    struct task cancelled = some_recurring(w);
    cancelled.state = TASK_CANCELLED;
    insert(w, &cancelled, 1);
    struct task retried = some_occurrence(w, &cancelled, NOW);
    retried.runs_count = 0;
    retried.started_ms = NOW - 5000;
    retried.version = 2;
    retried = claim_one(w, &retried, fresh_id(w));
    v = returned(&retried);
    assert_true(settle_with(w, &v));
    assert_int_equal(get(w, retried.id).state, TASK_SCHEDULED);
}

/* As a pause takes the occurrence back. */
static struct task paused_row_of(const struct task *t)
{
    struct task row = *t;
    row.state = TASK_PAUSED;
    row.version++;
    row.updated_ms = NOW + 3;
    row.claim = (struct uuid){ 0 };
    return row;
}

/* Rule 13. */
static void cancels_what_ends_late(struct world *w, enum task_state ends_as)
{
    for (int deleted = 0; deleted < 2; deleted++) {
        struct task parent, t = claimed_of(w, deleted ? TASK_SCHEDULED : TASK_CANCELLED, deleted, 1, &parent);
        struct task row = paused_row_of(&t), expected = row;
        row.state = ends_as;
        row.name = expected.name = S("renamed");
        struct settlement v = returned(&t);
        v.replace = &row;
        assert_true(settle_with(w, &v));
        assert_int_equal(v.ret_state, TASK_CANCELLED);
        assert_ptr_equal(v.replace, &row);
        assert_int_equal(row.state, ends_as);
        expected.state = TASK_CANCELLED;
        expected.updated_ms = expected.completed_ms = NOW + 10;
        expected.last_error = put_cancel_reason(&parent);
        expected.runs_count = 0;
        struct task read = get(w, t.id);
        assert_same_task(&read, &expected);
        if (!deleted)
            assert_int_equal(get(w, parent.id).runs_count, 6);
    }
}

static void a_pause_that_ends_after_its_schedule_was_cancelled_cancels(void **state)
{
    cancels_what_ends_late(*state, TASK_PAUSED);
}

static void an_edit_that_ends_after_its_schedule_was_cancelled_cancels(void **state)
{
    cancels_what_ends_late(*state, TASK_SCHEDULED);
}

static void what_a_pause_takes_back_stays_paused_while_its_schedule_lives(void **state)
{
    struct world *w = *state;
    static const enum task_state states[] = { TASK_PAUSED, TASK_SCHEDULED, TASK_COMPLETED };
    for (size_t i = 0; i < array_count(states); i++) {
        struct task parent, t = claimed_of(w, states[i], false, 1, &parent), row = paused_row_of(&t);
        struct settlement v = returned(&t);
        v.replace = &row;
        assert_true(settle_with(w, &v));
        assert_int_equal(v.ret_state, TASK_PAUSED);
        struct task read = get(w, t.id);
        assert_same_task(&read, &row);
        assert_int_equal(get(w, parent.id).runs_count, 7);
    }
}

/* A user has retried it after the cancel, or it has more to do before it ends. */
static void a_pause_of_a_retry_by_hand_or_an_opened_run_holds_in_a_cancelled_schedule(void **state)
{
    struct world *w = *state;
    struct task cancelled = some_recurring(w);
    cancelled.state = TASK_CANCELLED;
    insert(w, &cancelled, 1);
    for (int i = 0; i < 2; i++) {
        struct task o = some_occurrence(w, &cancelled, NOW + i);
        o.runs_count = i;
        o.started_ms = NOW - 5000;
        o.version = 2;
        o.links |= i ? TASK_OPENED : 0;
        o.overlap = OVERLAP_ALLOW;
        o = claim_one(w, &o, fresh_id(w));
        struct task row = paused_row_of(&o);
        struct settlement v = returned(&o);
        v.replace = &row;
        assert_true(settle_with(w, &v));
        assert_int_equal(v.ret_state, TASK_PAUSED);
        assert_int_equal(get(w, o.id).state, TASK_PAUSED);
    }
}

/* Rule 7: it keeps no slot, as a paused one would. */
static void what_waits_for_an_occurrence_that_a_late_pause_cancels_goes_on(void **state)
{
    struct world *w = *state;
    struct task cancelled = some_recurring(w);
    cancelled.state = TASK_CANCELLED;
    insert(w, &cancelled, 1);
    struct task o = some_occurrence(w, &cancelled, NOW), waiting = keyed_task(w, 1, NOW);
    o.concurrency_key = waiting.concurrency_key;
    o.concurrency_limit = waiting.concurrency_limit;
    o = claim_alone(w, &o);
    (void)gate_alone(w, &waiting);
    struct task row = paused_row_of(&o);
    struct settlement v = returned(&o);
    v.replace = &row;
    assert_true(settle_wakes(w, &v));
    assert_int_equal(v.ret_state, TASK_CANCELLED);
    assert_scheduled(w, waiting.id);
    assert_holders(w, KEY, &waiting.id);
    struct store_counts counts;
    assert_int_equal(reader_counts(w->reader, NOW, &counts, NULL), ERR_OK);
    assert_int_equal(counts.by_state[TASK_CANCELLED], 2);
    assert_int_equal(counts.by_state[TASK_PAUSED], 0);
}

static const struct CMUnitTest tests[] = {
    store_test(a_final_verdict_ends_a_task),
    store_test(a_retry_schedules_a_task_for_its_new_due_time),
    store_test(a_verdict_says_what_is_waited_for_and_what_put_it_off),
    store_test(a_task_never_ends_before_its_execution),
    store_test(another_fence_is_stale_and_changes_nothing),
    store_test(late_worker_is_fenced_off),
    store_test(a_task_that_does_not_run_cannot_be_settled),
    store_test(stale_ones_do_not_hold_up_the_others),
    store_test(an_execution_is_written_with_the_verdict),
    store_test(what_a_target_said_may_be_any_bytes),
    store_test(no_execution_is_written_without_one),
    store_test(a_repeated_settle_writes_one_execution),
    store_test(an_execution_that_is_there_already_stays),
    store_test(an_occurrence_tells_its_parent_when_it_ran),
    store_test(a_parent_hears_nothing_of_what_did_not_run),
    store_test(an_occurrence_without_its_parent_is_settled),
    store_test(a_recalled_task_becomes_the_row_in_its_place),
    store_test(a_replacement_is_guarded_by_the_fence_too),
    store_test(a_replacement_brings_the_verdicts_execution_along),
    store_test(a_recalled_task_and_the_record_of_its_request_come_together),
    store_test(a_stale_recall_keeps_no_record),
    store_test(a_recall_under_a_key_that_has_a_record_changes_nothing),
    store_test(a_repeated_recall_fails_by_its_key),
    store_test(what_a_cancelled_schedule_gets_back_is_cancelled),
    store_test(a_lost_attempt_of_a_cancelled_schedule_is_the_last),
    store_test(a_failed_attempt_of_a_cancelled_schedule_is_not_retried),
    store_test(what_a_paused_schedule_gets_back_is_withdrawn),
    store_test(what_has_fired_or_was_asked_for_goes_on_in_a_pause),
    store_test(a_retry_by_hand_and_the_last_run_of_a_schedule_go_on),
    store_test(a_pause_that_ends_after_its_schedule_was_cancelled_cancels),
    store_test(an_edit_that_ends_after_its_schedule_was_cancelled_cancels),
    store_test(what_a_pause_takes_back_stays_paused_while_its_schedule_lives),
    store_test(a_pause_of_a_retry_by_hand_or_an_opened_run_holds_in_a_cancelled_schedule),
    store_test(what_waits_for_an_occurrence_that_a_late_pause_cancels_goes_on),
};
const struct test_list settle_tests = { tests, array_count(tests) };
