/* OP_PUT: guards, withdrawing, and what comes along. */
#include "store_world.h"

static void a_put_replaces_the_row(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), next = t;
    insert(w, &t, 1);
    next.version = 2;
    next.state = TASK_PAUSED;
    next.name = S("weekly");
    next.queue = S("slow");
    next.priority = 9;
    next.due_ms = NOW + 99;
    next.payload = S("{}");
    next.updated_ms = NOW;
    struct op_put op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct task read = get(w, t.id);
    assert_same_task(&read, &next);
    assert_int_equal(op.ret_withdrawn, 0);
}

static void a_put_moves_a_task_to_its_new_lane(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), next = t;
    insert(w, &t, 1);
    next.version = 2;
    next.queue = S("slow");
    struct op_put op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct lane_quota lanes[] = { { task_lane(&t), 10 }, { task_lane(&next), 10 } };
    struct op_claim old = claim_of(w, &lanes[0], 1), new = claim_of(w, &lanes[1], 1);
    assert_int_equal(world_apply(w, &old.op), ERR_OK);
    assert_int_equal(old.ret.n, 0);
    assert_int_equal(world_apply(w, &new.op), ERR_OK);
    assert_tasks(&new.ret, &t.id);
}

static void assert_refused(struct world *w, struct op_put *op, enum err rc, const char *field)
{
    assert_int_equal(world_apply(w, &op->op), rc);
    assert_int_equal(op->op.error.code, rc);
    assert_string_equal(op->op.error.field, field);
}

static void a_put_is_guarded_by_version_then_fence_and_state(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), next = t;
    t.fence = next.fence = 3;
    insert(w, &t, 1);
    next.version = 2;
    struct op_put op = put_of(&t, &next);
    op.version = 7;
    op.fence = 7;
    op.state = TASK_PAUSED;
    assert_refused(w, &op, ERR_CONFLICT, "version");
    op = put_of(&t, &next);
    op.fence = 2;
    assert_refused(w, &op, ERR_CONFLICT, "state");
    op = put_of(&t, &next);
    op.state = TASK_PAUSED;
    assert_refused(w, &op, ERR_CONFLICT, "state");
    struct task read = get(w, t.id);
    assert_same_task(&read, &t);
}

static void a_put_of_what_is_not_there_is_not_found(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), deleted = some_task(w), theirs = some_task(w);
    struct op_put op = put_of(&t, &t);
    assert_refused(w, &op, ERR_NOT_FOUND, "");
    assert_false(is_there(w, TENANT, t.id));
    deleted.deleted = true;
    deleted.state = TASK_CANCELLED;
    insert(w, &deleted, 1);
    op = put_of(&deleted, &deleted);
    op.version = 9;
    assert_refused(w, &op, ERR_NOT_FOUND, "");
    insert(w, &theirs, 1);
    struct task stolen = theirs;
    stolen.tenant = OTHER_TENANT;
    op = put_of(&theirs, &stolen);
    assert_refused(w, &op, ERR_NOT_FOUND, "");
    assert_int_equal(get(w, theirs.id).tenant, TENANT);
}

static void a_running_task_keeps_its_claim_through_a_put(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), claimed = claim_one(w, &t, fresh_id(w)), next = claimed;
    next.name = S("renamed");
    next.version = 2;
    struct op_put op = put_of(&claimed, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct op_claimed held = { .op.kind = OP_CLAIMED, .claim = claimed.claim };
    assert_ok(world_apply(w, &held.op), &held.op.error);
    assert_int_equal(held.ret.n, 1);
    assert_same_task(&held.ret.v[0], &next);
    struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_str(get(w, t.id).name, "renamed");
}

static void a_deleted_task_is_on_no_list(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), next = t;
    insert(w, &t, 1);
    next.deleted = true;
    next.state = TASK_CANCELLED;
    next.version = 2;
    struct op_put op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct task_filter f = { .tenant = TENANT, .limit = 10 };
    size_t n = 9;
    struct store_counts counts;
    struct error e = { 0 };
    assert_false(is_there(w, TENANT, t.id));
    assert_int_equal(list(w, &f).tasks.n, 0);
    assert_ok(reader_count(w->reader, &f, 100, &n, &e), &e);
    assert_int_equal(n, 0);
    assert_ok(reader_counts(w->reader, NOW, &counts, &e), &e);
    assert_int_equal(counts.by_state[TASK_CANCELLED], 0);
}

/* ---- withdrawing ---- */

/* A recurring task whose cursor is NOW + 10000, with occurrences at NOW + 1000 … NOW + count * 1000. */
static struct task spawned(struct world *w, struct task *occurrences, int count)
{
    struct task t = some_recurring(w);
    t.cursor_ms = NOW + 10000;
    insert(w, &t, 1);
    for (int i = 0; i < count; i++)
        occurrences[i] = some_occurrence(w, &t, NOW + 1000 * (i + 1));
    return t;
}

static struct op_put withdraw_with(struct world *w, const struct task *t, struct task *next, int64_t from_ms)
{
    *next = *t;
    next->version++;
    struct op_put op = put_of(t, next);
    op.withdraw = true;
    op.withdraw_from_ms = from_ms;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static void withdrawing_deletes_what_waits_and_sets_the_cursor_back(void **state)
{
    struct world *w = *state;
    struct task o[3], next, t = spawned(w, o, 3);
    o[0].state = TASK_BLOCKED;
    o[1].state = TASK_PAUSED;
    insert(w, o, 3);
    struct op_put op = withdraw_with(w, &t, &next, 0);
    assert_int_equal(op.ret_withdrawn, 3);
    assert_int_equal(op.ret_cursor_ms, NOW + 1000);
    next.cursor_ms = NOW + 1000;
    struct task read = get(w, t.id);
    assert_same_task(&read, &next);
    for (int i = 0; i < 3; i++)
        assert_false(is_there(w, TENANT, o[i].id));
}

static void a_cancelled_schedule_cancels_what_is_due_and_deletes_the_rest(void **state)
{
    struct world *w = *state;
    struct task o[4], next, t = some_recurring(w);
    t.cursor_ms = NOW + 10000;
    t.runs_count = 3;
    insert(w, &t, 1);
    for (int i = 0; i < 4; i++)
        o[i] = some_occurrence(w, &t, NOW + 1000 * (i - 2)); /* the third is due now */
    o[1].state = TASK_PAUSED;
    o[1].runs_count = 0; /* by hand */
    insert(w, o, 4);
    next = t;
    next.version++;
    next.state = TASK_CANCELLED;
    next.updated_ms = next.completed_ms = NOW;
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_withdrawn, 4);
    assert_int_equal(get(w, t.id).runs_count, 0);
    for (int i = 0; i < 3; i++) {
        struct task expected = o[i], read = get(w, o[i].id);
        expected.state = TASK_CANCELLED;
        expected.last_error = S("its schedule was cancelled");
        expected.updated_ms = expected.completed_ms = NOW;
        expected.runs_count = 0;
        assert_same_task(&read, &expected);
    }
    assert_false(is_there(w, TENANT, o[3].id));
}

/* Rule 10. Each has fired and waits; in a pause their retries go on, and an opened run always goes on. */
static void retries_end_with_a_cancelled_schedule(void **state)
{
    struct world *w = *state;
    for (int pauses = 0; pauses < 2; pauses++) {
        struct task o[4], next, t = spawned(w, o, 4);
        o[0].attempts = 1;
        o[1].losses = 1;
        o[2].started_ms = NOW - 10;
        o[2].state = TASK_PAUSED;
        o[3].started_ms = NOW - 10;
        o[3].links |= TASK_OPENED;
        insert(w, o, 4);
        next = t;
        next.version++;
        next.state = pauses ? TASK_PAUSED : TASK_CANCELLED;
        next.updated_ms = NOW;
        struct op_put op = put_of(&t, &next);
        op.withdraw = true;
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_int_equal(op.ret_withdrawn, pauses ? 0 : 3);
        assert_int_equal(op.ret_cursor_ms, NOW + 10000);
        assert_int_equal(get(w, t.id).runs_count, t.runs_count);
        for (int i = 0; i < 4; i++) {
            struct task expected = o[i], read = get(w, o[i].id);
            if (!pauses && i < 3) {
                expected.state = TASK_CANCELLED;
                expected.last_error = S("its schedule was cancelled");
                expected.updated_ms = expected.completed_ms = NOW;
            }
            assert_same_task(&read, &expected);
        }
    }
}

static void a_put_keeps_what_occurrences_have_counted_meanwhile(void **state) /* 5 */
{
    struct world *w = *state;
    struct task next, t = some_recurring(w);
    t.runs_count = 5;
    t.skipped_count = 2;
    t.last_run_ms = NOW - 100;
    insert(w, &t, 1);
    next = t;
    next.version++;
    next.runs_count = 4; /* as it was read, before an occurrence was settled */
    next.skipped_count = 1;
    next.last_run_ms = NOW - 2000;
    struct op_put op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct task read = get(w, t.id);
    t.version++;
    assert_same_task(&read, &t);
}

/* A row of times that the rule left out, as spawning makes it. */
static struct task left_out(struct world *w, const struct task *t, int64_t first_ms, int64_t last_ms, int64_t count)
{
    struct task o = some_occurrence(w, t, first_ms);
    o.state = TASK_SKIPPED;
    o.runs_count = 0;
    o.cursor_ms = last_ms;
    o.skipped_count = count;
    o.last_error = S("skipped 9 occurrences");
    o.completed_ms = NOW;
    return o;
}

static struct spawn_cut cut_of(const struct task *o, int64_t last_ms, int64_t count)
{
    return (struct spawn_cut){ .id = o->id,
                               .first_ms = o->scheduled_ms,
                               .last_was_ms = o->cursor_ms,
                               .count_was = o->skipped_count,
                               .last_ms = last_ms,
                               .count = count,
                               .error = S("skipped fewer") };
}

static void a_put_cuts_rows_of_skipped_times(void **state) /* 17 */
{
    struct world *w = *state;
    struct task o[4], next, t = some_recurring(w);
    struct store_counts before, counts;
    struct error e = { 0 };
    t.cursor_ms = NOW + 100000;
    t.skipped_count = 20;
    insert(w, &t, 1);
    o[0] = left_out(w, &t, NOW - 5000, NOW + 3000, 9);
    o[1] = left_out(w, &t, NOW + 4000, NOW + 7000, 4);
    o[2] = left_out(w, &t, NOW + 8000, NOW + 9000, 2); /* changed since it was read */
    o[3] = left_out(w, &t, NOW - 9000, NOW - 8000, 2); /* is not named */
    insert(w, o, 4);
    assert_ok(reader_counts(w->reader, NOW, &before, &e), &e);
    struct spawn_cut cuts[] = { cut_of(&o[0], NOW - 1000, 5), cut_of(&o[1], 0, 0), cut_of(&o[2], 0, 0) };
    cuts[2].count_was = 3;
    next = t;
    next.version++;
    next.cursor_ms = NOW;
    struct op_put op = put_of(&t, &next);
    op.cuts = cuts;
    op.cut_count = 3;
    op.version--; /* refused: nothing changes */
    assert_refused(w, &op, ERR_CONFLICT, "version");
    assert_int_equal(get(w, o[0].id).skipped_count, 9);
    op.version++;
    op.op.error = (struct error){ 0 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_cut, 4 + 4);
    assert_int_equal(get(w, t.id).skipped_count, 12);
    struct task read = get(w, o[0].id), expected = o[0];
    expected.cursor_ms = NOW - 1000;
    expected.skipped_count = 5;
    expected.last_error = S("skipped fewer");
    assert_same_task(&read, &expected);
    assert_false(is_there(w, TENANT, o[1].id));
    for (int i = 2; i < 4; i++) {
        read = get(w, o[i].id);
        assert_same_task(&read, &o[i]);
    }
    assert_ok(reader_counts(w->reader, NOW, &counts, &e), &e);
    assert_int_equal(counts.by_state[TASK_SKIPPED], before.by_state[TASK_SKIPPED] - 1);
}

static void a_row_of_skipped_times_before_the_cursor_stays(void **state) /* 17 */
{
    struct world *w = *state;
    struct task o, next, t = some_recurring(w);
    t.cursor_ms = NOW + 9001;
    t.skipped_count = 8;
    insert(w, &t, 1);
    o = left_out(w, &t, NOW - 2000, NOW + 9000, 8);
    insert(w, &o, 1);
    struct spawn_cut c = cut_of(&o, NOW - 1000, 1);
    next = t;
    next.version++;
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    op.cuts = &c;
    op.cut_count = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_cut, 0);
    struct task read = get(w, o.id);
    assert_same_task(&read, &o);
    assert_int_equal(get(w, t.id).skipped_count, 8);
}

/* The cursor goes back to before the row: spawning makes all of it again. */
static void a_row_of_skipped_times_behind_the_cursor_is_deleted(void **state) /* 17 */
{
    struct world *w = *state;
    struct task o[2], next, t = spawned(w, o, 1);
    o[1] = left_out(w, &t, NOW + 2000, NOW + 9000, 8);
    insert(w, o, 2);
    struct spawn_cut c = cut_of(&o[1], NOW + 3000, 2);
    next = t;
    next.version++;
    next.skipped_count = 8;
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    op.cuts = &c;
    op.cut_count = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_cursor_ms, NOW + 1000);
    assert_int_equal(op.ret_cut, 8);
    assert_int_equal(get(w, t.id).skipped_count, 0);
    assert_false(is_there(w, TENANT, o[1].id));
}

static void the_cursor_goes_back_to_when_a_spread_occurrence_was_due(void **state)
{
    struct world *w = *state;
    struct task next, t = some_recurring(w);
    t.schedule.spread_ms = 86400000;
    int64_t spread_ms = schedule_spread(&t.schedule, t.id);
    assert_true(spread_ms > 5000); /* else this shows nothing */
    t.cursor_ms = NOW + 10000;
    insert(w, &t, 1);
    struct task o = some_occurrence(w, &t, NOW + 1000 - spread_ms);
    o.due_ms = NOW + 1000;
    insert(w, &o, 1);
    struct op_put op = withdraw_with(w, &t, &next, NOW + 1000);
    assert_int_equal(op.ret_withdrawn, 1);
    assert_int_equal(op.ret_cursor_ms, NOW + 1000); /* else all since would be made, or missed, once more */
}

static void a_put_that_did_not_see_the_latest_spawn_is_refused(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w), next = t;
    insert(w, &t, 1);
    next.version++;
    struct op_put op = put_of(&t, &next);
    op.cursor_ms = t.cursor_ms - 1;
    assert_refused(w, &op, ERR_CONFLICT, "state");
    op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

static void what_is_withdrawn_does_not_count_as_a_run(void **state)
{
    struct world *w = *state;
    struct task o[3], next, t = some_recurring(w);
    t.cursor_ms = NOW + 10000;
    t.runs_count = 7;
    t.last_run_ms = NOW - 5;
    insert(w, &t, 1);
    for (int i = 0; i < 3; i++)
        o[i] = some_occurrence(w, &t, NOW + 1000 * (i + 1));
    insert(w, o, 3);
    struct task stale = t; /* who puts had read it before the last run was settled */
    stale.last_run_ms = NOW - 1000;
    withdraw_with(w, &stale, &next, 0);
    struct task read = get(w, t.id);
    assert_int_equal(read.runs_count, 4);
    assert_int_equal(read.last_run_ms, NOW - 5);
}

/* By a put while it waits, by a replacement while it is claimed. */
static void a_user_who_cancels_a_run_before_its_start_takes_it_off_the_count(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w), waits = some_occurrence(w, &parent, NOW - 1),
                ran = some_occurrence(w, &parent, NOW - 2), claimed = some_occurrence(w, &parent, NOW - 3);
    parent.runs_count = 10;
    insert(w, &parent, 1);
    claimed = claim_one(w, &claimed, fresh_id(w));
    ran.started_ms = NOW - 2;
    ran.attempts = 1;
    insert(w, (struct task[]){ waits, ran }, 2);
    struct task *v[] = { &waits, &ran };
    for (size_t i = 0; i < 2; i++) {
        struct task next = *v[i];
        next.state = TASK_CANCELLED;
        next.version++;
        struct op_put op = put_of(v[i], &next);
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_int_equal(get(w, next.id).runs_count, i);
        assert_int_equal(get(w, parent.id).runs_count, 9);
    }
    struct task gone = claimed;
    gone.state = TASK_CANCELLED;
    gone.deleted = true;
    struct settlement replaced = { .id = claimed.id, .fence = claimed.fence, .replace = &gone };
    assert_true(settle_with(w, &replaced));
    assert_int_equal(get(w, parent.id).runs_count, 8);
    assert_int_equal(get(w, parent.id).skipped_count, parent.skipped_count);
}

/* A recurring task with one occurrence by hand in each state in which one waits, and one by the schedule. */
static struct task with_runs_by_hand(struct world *w, struct task o[4])
{
    static const enum task_state states[] = { TASK_SCHEDULED, TASK_BLOCKED, TASK_PAUSED };
    struct task t = some_recurring(w);
    t.cursor_ms = NOW + 10000;
    t.runs_count = 7;
    insert(w, &t, 1);
    for (int i = 0; i < 3; i++) {
        o[i] = some_occurrence(w, &t, NOW + 500);
        o[i].id = fresh_id(w);
        o[i].runs_count = 0;
        o[i].state = states[i];
    }
    o[3] = some_occurrence(w, &t, NOW + 1000);
    insert(w, o, 4);
    return t;
}

static void a_run_by_hand_stays_when_its_task_is_paused_or_edited(void **state) /* 7, 9 */
{
    struct world *w = *state;
    for (int pauses = 0; pauses <= 1; pauses++) {
        struct task o[4], t = with_runs_by_hand(w, o), next = t;
        next.version++;
        next.state = pauses ? TASK_PAUSED : TASK_SCHEDULED;
        struct op_put op = put_of(&t, &next);
        op.withdraw = true;
        op.withdraw_from_ms = pauses ? 0 : NOW + 600; /* after the time of those by hand */
        assert_ok(world_apply(w, &op.op), &op.op.error);
        assert_int_equal(op.ret_withdrawn, 1);
        assert_int_equal(op.ret_cursor_ms, NOW + 1000);
        assert_int_equal(get(w, t.id).runs_count, 6);
        for (int i = 0; i < 3; i++) {
            struct task read = get(w, o[i].id);
            assert_same_task(&read, &o[i]);
        }
        assert_false(is_there(w, TENANT, o[3].id));
    }
}

static void a_run_by_hand_is_cancelled_with_its_task(void **state) /* 9, 10 */
{
    struct world *w = *state;
    struct task o[4], t = with_runs_by_hand(w, o), next = t;
    next.version++;
    next.state = TASK_CANCELLED;
    next.updated_ms = next.completed_ms = NOW; /* before they are due */
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_withdrawn, 4);
    assert_int_equal(get(w, t.id).runs_count, 6);
    for (int i = 0; i < 3; i++) {
        struct task expected = o[i], read = get(w, o[i].id);
        expected.state = TASK_CANCELLED;
        expected.last_error = S("its schedule was cancelled");
        expected.updated_ms = expected.completed_ms = NOW;
        assert_same_task(&read, &expected);
    }
    assert_false(is_there(w, TENANT, o[3].id));
}

static void a_withdrawn_occurrence_is_never_claimed(void **state)
{
    struct world *w = *state;
    struct task o[1], next, t = spawned(w, o, 1);
    insert(w, o, 1);
    withdraw_with(w, &t, &next, 0);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.until_ms = op.now_ms = NOW + 100000;
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(op.ret.n, 0);
}

static void withdrawing_never_deletes_what_fired(void **state)
{
    struct world *w = *state;
    struct task o[9], next, t = spawned(w, o, 9);
    struct task running = claim_one(w, &o[0], fresh_id(w));
    o[1].attempts = 1;
    o[2].losses = 1;
    o[3].state = TASK_COMPLETED;
    o[4].state = TASK_SKIPPED;
    o[5].state = TASK_FAILED;
    o[6].started_ms =
        NOW;        /* retried by hand: it begins at no attempts again, but it has run, and so have others since */
    o[7].fence = 4; /* claimed and given back before it fired: it waits like any other */
    insert(w, o + 1, 8);
    struct op_put op = withdraw_with(w, &t, &next, 0);
    assert_int_equal(op.ret_withdrawn, 2);
    assert_int_equal(op.ret_cursor_ms, NOW + 8000);
    for (int i = 0; i < 7; i++)
        assert_true(is_there(w, TENANT, o[i].id));
    struct task read = get(w, o[0].id);
    assert_same_task(&read, &running);
}

static void the_cursor_never_goes_before_withdraw_from(void **state)
{
    struct world *w = *state;
    struct task o[3], next, t = spawned(w, o, 3);
    insert(w, o, 3);
    struct op_put op = withdraw_with(w, &t, &next, NOW + 1001);
    assert_int_equal(op.ret_withdrawn, 3);
    assert_int_equal(op.ret_cursor_ms, NOW + 2000); /* the first has no say, the second is not lost */
}

static void an_occurrence_that_was_due_before_an_edit_is_cancelled(void **state) /* 7, 10 */
{
    struct world *w = *state;
    struct task o[3], next, t = spawned(w, o, 3);
    o[0].state = TASK_BLOCKED;
    insert(w, o, 3);
    struct op_put op = withdraw_with(w, &t, &next, NOW + 1001);
    struct task read = get(w, o[0].id);
    assert_true(read.state == TASK_CANCELLED && read.completed_ms == next.updated_ms && read.runs_count == 0);
    assert_true(str_eq(read.last_error, S("its schedule was edited")));
    assert_false(is_there(w, TENANT, o[1].id) || is_there(w, TENANT, o[2].id));
    assert_int_equal(op.ret_withdrawn, 3);
}

static void withdraw_from_itself_is_not_before_it(void **state)
{
    struct world *w = *state;
    struct task o[1], next, t = spawned(w, o, 1);
    insert(w, o, 1);
    assert_int_equal(withdraw_with(w, &t, &next, NOW + 1000).ret_cursor_ms, NOW + 1000);
}

static void withdrawing_never_moves_the_cursor_forward(void **state)
{
    struct world *w = *state;
    struct task o[1], next, t = spawned(w, o, 1);
    insert(w, o, 1);
    next = t;
    next.version++;
    next.cursor_ms = NOW + 500;
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_withdrawn, 1);
    assert_int_equal(op.ret_cursor_ms, NOW + 500);
    assert_int_equal(get(w, t.id).cursor_ms, NOW + 500);
}

static void occurrences_of_others_are_not_withdrawn(void **state)
{
    struct world *w = *state;
    struct task o[1], p[1], next, t = spawned(w, o, 1);
    spawned(w, p, 1);
    insert(w, p, 1);
    struct op_put op = withdraw_with(w, &t, &next, 0);
    assert_int_equal(op.ret_withdrawn, 0);
    assert_int_equal(op.ret_cursor_ms, NOW + 10000);
    assert_true(is_there(w, TENANT, p[0].id));
}

static void nothing_is_withdrawn_unless_asked(void **state)
{
    struct world *w = *state;
    struct task o[1], t = spawned(w, o, 1), next = t;
    insert(w, o, 1);
    next.version++;
    struct op_put op = put_of(&t, &next);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_withdrawn, 0);
    assert_int_equal(op.ret_cursor_ms, NOW + 10000);
    assert_true(is_there(w, TENANT, o[0].id));
}

static void a_refused_put_withdraws_nothing(void **state)
{
    struct world *w = *state;
    struct task o[1], t = spawned(w, o, 1), next = t;
    insert(w, o, 1);
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    op.version = 9;
    assert_refused(w, &op, ERR_CONFLICT, "version");
    assert_true(is_there(w, TENANT, o[0].id));
}

/* ---- what comes along ---- */

static void one_more_task_comes_along_and_is_not_withdrawn(void **state)
{
    struct world *w = *state;
    struct task o[1], t = spawned(w, o, 1), next = t, also = some_occurrence(w, &t, NOW);
    also.id = fresh_id(w);
    insert(w, o, 1);
    struct op_put op = put_of(&t, &next);
    op.withdraw = true;
    op.also = &also;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret_withdrawn, 1);
    struct task read = get(w, also.id);
    assert_same_task(&read, &also);
}

static void a_clash_of_what_comes_along_fails_the_whole(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w), there = some_task(w), also = there, next = t;
    insert(w, (struct task[]){ t, there }, 2);
    next.name = S("renamed");
    also.created_ms++;
    struct op_put op = put_of(&t, &next);
    op.also = &also;
    assert_refused(w, &op, ERR_CONFLICT, "id");
    assert_str(get(w, t.id).name, "report");
    also.created_ms--;
    op = put_of(&t, &next);
    op.also = &also;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_str(get(w, t.id).name, "renamed");
}

static void a_put_keeps_an_idempotency_record_once(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), next = t;
    insert(w, &t, 1);
    next.name = S("renamed");
    struct idempotency i = { .tenant = TENANT, .key = "key", .status = 200, .answer = S("ok"), .created_ms = NOW },
                       read;
    struct op_put op = put_of(&t, &next);
    op.version = 9;
    op.idempotency = &i;
    assert_refused(w, &op, ERR_CONFLICT, "version");
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_NOT_FOUND);
    op = put_of(&t, &next);
    op.idempotency = &i;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(reader_idempotency(w->reader, TENANT, i.key, &w->arena, &read, NULL), ERR_OK);
    assert_str(read.answer, "ok");
    next.name = S("again");
    op = put_of(&t, &next);
    op.version = 9; /* the key is looked at first */
    op.idempotency = &i;
    assert_refused(w, &op, ERR_CONFLICT, "idempotency-key");
    assert_str(get(w, t.id).name, "renamed");
}

static const struct CMUnitTest tests[] = {
    store_test(a_put_replaces_the_row),
    store_test(a_put_moves_a_task_to_its_new_lane),
    store_test(a_put_is_guarded_by_version_then_fence_and_state),
    store_test(a_put_of_what_is_not_there_is_not_found),
    store_test(a_running_task_keeps_its_claim_through_a_put),
    store_test(a_deleted_task_is_on_no_list),
    store_test(withdrawing_deletes_what_waits_and_sets_the_cursor_back),
    store_test(a_cancelled_schedule_cancels_what_is_due_and_deletes_the_rest),
    store_test(retries_end_with_a_cancelled_schedule),
    store_test(a_put_keeps_what_occurrences_have_counted_meanwhile),
    store_test(a_put_cuts_rows_of_skipped_times),
    store_test(a_row_of_skipped_times_before_the_cursor_stays),
    store_test(a_row_of_skipped_times_behind_the_cursor_is_deleted),
    store_test(the_cursor_goes_back_to_when_a_spread_occurrence_was_due),
    store_test(a_put_that_did_not_see_the_latest_spawn_is_refused),
    store_test(what_is_withdrawn_does_not_count_as_a_run),
    store_test(a_user_who_cancels_a_run_before_its_start_takes_it_off_the_count),
    store_test(a_run_by_hand_stays_when_its_task_is_paused_or_edited),
    store_test(a_run_by_hand_is_cancelled_with_its_task),
    store_test(a_withdrawn_occurrence_is_never_claimed),
    store_test(withdrawing_never_deletes_what_fired),
    store_test(the_cursor_never_goes_before_withdraw_from),
    store_test(an_occurrence_that_was_due_before_an_edit_is_cancelled),
    store_test(withdraw_from_itself_is_not_before_it),
    store_test(withdrawing_never_moves_the_cursor_forward),
    store_test(occurrences_of_others_are_not_withdrawn),
    store_test(nothing_is_withdrawn_unless_asked),
    store_test(a_refused_put_withdraws_nothing),
    store_test(one_more_task_comes_along_and_is_not_withdrawn),
    store_test(a_clash_of_what_comes_along_fails_the_whole),
    store_test(a_put_keeps_an_idempotency_record_once),
};
const struct test_list put_tests = { tests, array_count(tests) };
