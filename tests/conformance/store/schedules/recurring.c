/* OP_RECURRING and OP_SPAWN. */
#include "store_world.h"

static struct op_recurring recurring_before(struct world *w, int64_t until_ms, size_t max)
{
    struct op_recurring op = { .op.kind = OP_RECURRING, .until_ms = until_ms, .max = max };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static struct task recurring_at(struct world *w, int64_t cursor_ms)
{
    struct task t = some_recurring(w);
    t.cursor_ms = cursor_ms;
    return t;
}

static void recurring_tasks_come_earliest_first(void **state)
{
    struct world *w = *state;
    struct task a = recurring_at(w, NOW + 30), b = recurring_at(w, NOW + 10), c = recurring_at(w, NOW + 20),
                d = recurring_at(w, NOW + 10);
    b.tenant = OTHER_TENANT;
    insert(w, (struct task[]){ a, d, c, b }, 4);
    struct op_recurring op = recurring_before(w, NOW + 100, 10);
    assert_tasks(&op.ret, &b.id, &d.id, &c.id, &a.id);
    assert_same_task(&op.ret.v[0], &b);
    assert_true(op.ret_next_ms == INT64_MAX);
}

static void a_cursor_at_until_is_left_and_told(void **state)
{
    struct world *w = *state;
    struct task before = recurring_at(w, NOW + 9), at = recurring_at(w, NOW + 10);
    insert(w, (struct task[]){ before, at }, 2);
    struct op_recurring op = recurring_before(w, NOW + 10, 10);
    assert_tasks(&op.ret, &before.id);
    assert_int_equal(op.ret_next_ms, NOW + 10);
}

static void at_most_max_recurring_tasks_come(void **state)
{
    struct world *w = *state;
    struct task a = recurring_at(w, NOW + 1), b = recurring_at(w, NOW + 2), c = recurring_at(w, NOW + 3);
    insert(w, (struct task[]){ a, b, c }, 3);
    struct op_recurring op = recurring_before(w, NOW + 10, 2);
    assert_tasks(&op.ret, &a.id, &b.id);
    assert_int_equal(op.ret_next_ms, NOW + 3);
}

static struct op_recurring recurring_behind(struct world *w, int64_t cursor_ms, struct uuid id, size_t max)
{
    struct op_recurring op = {
        .op.kind = OP_RECURRING, .after_cursor_ms = cursor_ms, .after_id = id, .until_ms = NOW + 100, .max = max
    };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static void a_page_begins_behind_the_last_of_the_one_before(void **state)
{
    struct world *w = *state;
    struct task a = recurring_at(w, NOW + 1), b = recurring_at(w, NOW + 1), c = recurring_at(w, NOW + 1),
                d = recurring_at(w, NOW + 2), beyond = recurring_at(w, NOW + 100);
    insert(w, (struct task[]){ d, c, beyond, b, a }, 5);
    struct op_recurring first = recurring_before(w, NOW + 100, 2);
    assert_tasks(&first.ret, &a.id, &b.id);
    struct op_recurring second = recurring_behind(w, NOW + 1, b.id, 1), third = recurring_behind(w, NOW + 1, c.id, 2);
    assert_tasks(&second.ret, &c.id);
    assert_int_equal(second.ret_next_ms, NOW + 2);
    assert_tasks(&third.ret, &d.id);
    assert_int_equal(third.ret_next_ms, NOW + 100);
    struct op_recurring fourth = recurring_behind(w, NOW + 100, beyond.id, 2);
    assert_int_equal(fourth.ret.n, 0);
    assert_true(fourth.ret_next_ms == INT64_MAX); /* what stands before counts nowhere */
}

static void a_page_may_begin_where_there_is_nothing(void **state)
{
    struct world *w = *state;
    struct uuid nil = { 0 };
    struct task a = recurring_at(w, NOW + 1), gone = recurring_at(w, NOW + 2), b = recurring_at(w, NOW + 2);
    insert(w, (struct task[]){ a, b }, 2);
    struct op_recurring behind = recurring_behind(w, NOW + 2, gone.id, 9), at = recurring_behind(w, NOW + 2, nil, 9);
    assert_tasks(&behind.ret, &b.id);
    assert_tasks(&at.ret, &b.id);
    struct op_recurring at_a = recurring_behind(w, NOW + 1, nil, 9), late = recurring_behind(w, NOW + 3, nil, 9);
    assert_tasks(&at_a.ret, &a.id, &b.id);
    assert_int_equal(late.ret.n, 0);
}

static void only_scheduled_recurring_tasks_come(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_recurring(w), some_recurring(w), some_recurring(w) };
    v[0].cursor_ms = NOW;
    v[1].state = TASK_PAUSED;
    v[2].state = TASK_COMPLETED;
    v[3].state = TASK_CANCELLED;
    v[3].deleted = true;
    insert(w, v, 4);
    struct op_recurring op = recurring_before(w, NOW + 100000, 10);
    assert_int_equal(op.ret.n, 0);
    assert_true(op.ret_next_ms == INT64_MAX);
}

/* ---- rows behind the cursor (rule 4) ---- */

static struct spawn_taken taken_of(struct world *w, const struct task *t, int64_t taken_ms)
{
    struct op_recurring op = { .op.kind = OP_RECURRING, .until_ms = t->cursor_ms + 1, .max = 10, .taken_ms = taken_ms };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &t->id);
    return op.ret_taken[0];
}

static struct task final_at(struct world *w, const struct task *t, int64_t at_ms, enum task_state state)
{
    struct task o = some_occurrence(w, t, at_ms);
    o.state = state;
    o.completed_ms = o.due_ms = at_ms + 500;
    return o;
}

static struct task went_back(struct world *w)
{
    struct task t = recurring_at(w, NOW + 1000);
    t.version = 2;
    t.updated_ms = NOW - 1000;
    insert(w, &t, 1);
    return t;
}

static void times_from_the_cursor_on_that_have_rows_are_told(void **state)
{
    struct world *w = *state;
    struct task t = went_back(w);
    struct task v[] = { final_at(w, &t, NOW + 999, TASK_COMPLETED),  final_at(w, &t, NOW + 1000, TASK_CANCELLED),
                        final_at(w, &t, NOW + 2000, TASK_SKIPPED),   final_at(w, &t, NOW + 5000, TASK_SKIPPED),
                        final_at(w, &t, NOW + 6000, TASK_COMPLETED), final_at(w, &t, NOW + 7000, TASK_SCHEDULED) };
    v[2].cursor_ms = NOW + 4000;
    v[2].skipped_count = 3;
    v[3].skipped_count = 2; /* left out by the rule */
    v[3].due_ms = v[3].scheduled_ms;
    v[4].id = uuid_next(&w->ids, NOW + 6000); /* asked for by hand */
    v[5].completed_ms = 0;
    insert(w, v, 6);
    struct spawn_taken taken = taken_of(w, &t, 2001);
    assert_int_equal(taken.n, 3);
    assert_true(taken.v[0].first_ms == NOW + 1000 && taken.v[0].last_ms == NOW + 1000);
    assert_true(taken.v[1].first_ms == NOW + 2000 && taken.v[1].last_ms == NOW + 4000);
    assert_true(taken.v[2].first_ms == NOW + 7000 && taken.v[2].last_ms == NOW + 7000);
    assert_true(taken.before_ms == INT64_MAX);
    taken = taken_of(w, &t, 2000); /* it was changed too long ago */
    assert_true(taken.n == 0 && taken.before_ms == INT64_MAX);
    assert_int_equal(taken_of(w, &t, 0).n, 0);
}

static void a_cursor_that_nobody_moved_back_has_no_rows_behind_it(void **state)
{
    struct world *w = *state;
    struct task t = recurring_at(w, NOW + 1000);
    t.updated_ms = NOW;
    t.version = 1;
    insert(w, &t, 1);
    struct task o = final_at(w, &t, NOW + 1000, TASK_COMPLETED);
    insert(w, &o, 1);
    struct spawn_taken taken = taken_of(w, &t, 5000);
    assert_true(taken.n == 0 && taken.before_ms == INT64_MAX);
}

static void only_so_many_rows_behind_a_cursor_are_read(void **state)
{
    struct world *w = *state;
    struct task t = went_back(w), *v = xcalloc(TAKEN_MAX + 1, sizeof *v);
    for (size_t i = 0; i <= TAKEN_MAX; i++)
        v[i] = final_at(w, &t, NOW + 1000 + (int64_t)i, TASK_COMPLETED);
    insert(w, v, TAKEN_MAX - 1);
    struct spawn_taken taken = taken_of(w, &t, 5000);
    assert_true(taken.n == TAKEN_MAX - 1 && taken.before_ms == INT64_MAX);
    insert(w, v + TAKEN_MAX - 1, 2);
    taken = taken_of(w, &t, 5000);
    assert_true(taken.n == TAKEN_MAX && taken.before_ms == NOW + 1000 + TAKEN_MAX - 1);
    free(v);
}

/* ---- spawn ---- */

static struct op_spawn spawn_of(const struct task *t, const struct spawn_plan *plan)
{
    return (struct op_spawn){ .op.kind = OP_SPAWN,
                              .id = t->id,
                              .version = t->version,
                              .cursor_ms = t->cursor_ms,
                              .plan = plan,
                              .now_ms = NOW + 5 };
}

static void spawning_puts_occurrences_in_and_moves_the_cursor(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w);
    t.runs_count = 10;
    t.skipped_count = 20;
    insert(w, &t, 1);
    struct task two[] = { some_occurrence(w, &t, NOW + 1000), some_occurrence(w, &t, NOW + 2000) };
    two[1].state = TASK_SKIPPED;
    struct spawn_plan plan = { { two, 2 }, .cursor_ms = NOW + 3000, .runs = 1, .skipped = 3 };
    struct op_spawn op = spawn_of(&t, &plan);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct task first = get(w, two[0].id), second = get(w, two[1].id), after = get(w, t.id), expected = t;
    assert_same_task(&first, &two[0]);
    assert_same_task(&second, &two[1]);
    expected.cursor_ms = NOW + 3000;
    expected.runs_count = 11;
    expected.skipped_count = 23;
    assert_same_task(&after, &expected);
    struct op_recurring next = recurring_before(w, NOW + 3001, 10);
    assert_tasks(&next.ret, &t.id);
}

static void a_task_that_has_ended_is_completed(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w), expected = t;
    insert(w, &t, 1);
    struct spawn_plan plan = { .cursor_ms = INT64_MAX, .ended = true };
    struct op_spawn op = spawn_of(&t, &plan);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    expected.state = TASK_COMPLETED;
    expected.cursor_ms = INT64_MAX;
    expected.updated_ms = expected.completed_ms = NOW + 5;
    struct task after = get(w, t.id);
    assert_same_task(&after, &expected);
    assert_int_equal(recurring_before(w, INT64_MAX, 10).ret.n, 0);
}

static void an_occurrence_that_exists_stays_as_it_is(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w);
    insert(w, &t, 1);
    struct task o = some_occurrence(w, &t, NOW + 1000), claimed = claim_one(w, &o, fresh_id(w));
    struct task two[] = { o, some_occurrence(w, &t, NOW + 2000) };
    two[0].created_ms++; /* whoever spawned it first, made it then */
    struct spawn_plan plan = { { two, 2 }, .cursor_ms = NOW + 3000, .runs = 2 };
    struct op_spawn op = spawn_of(&t, &plan);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    struct task read = get(w, o.id);
    assert_same_task(&read, &claimed);
    assert_true(is_there(w, TENANT, two[1].id));
}

/* What spoils a spawn: each row changes what is expected, or the task it meets. */
static void spawning_is_guarded(void **state)
{
    struct world *w = *state;
    static const struct {
        int64_t version, cursor;
        enum task_state state;
        enum task_kind kind;
        bool missing;
    } rows[] = {
        { 1, 0, TASK_SCHEDULED, TASK_RECURRING, false }, { 0, 1, TASK_SCHEDULED, TASK_RECURRING, false },
        { 0, 0, TASK_PAUSED, TASK_RECURRING, false },    { 0, 0, TASK_COMPLETED, TASK_RECURRING, false },
        { 0, 0, TASK_SCHEDULED, TASK_RECURRING, true },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct task t = some_recurring(w);
        t.state = rows[i].state;
        t.kind = rows[i].kind;
        if (!rows[i].missing)
            insert(w, &t, 1);
        struct task o = some_occurrence(w, &t, NOW + 1000);
        struct spawn_plan plan = { { &o, 1 }, .cursor_ms = NOW + 2000, .runs = 1 };
        struct op_spawn op = spawn_of(&t, &plan);
        op.version += rows[i].version;
        op.cursor_ms -= rows[i].cursor;
        assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
        assert_false(is_there(w, TENANT, o.id));
        if (rows[i].missing)
            continue;
        struct task after = get(w, t.id);
        assert_same_task(&after, &t);
    }
}

static void a_second_spawner_changes_nothing(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w);
    insert(w, &t, 1);
    struct task o = some_occurrence(w, &t, NOW + 1000);
    struct spawn_plan plan = { { &o, 1 }, .cursor_ms = NOW + 2000, .runs = 1 };
    struct op_spawn a = spawn_of(&t, &plan), b = a;
    world_apply_all(w, (struct op *[]){ &a.op, &b.op }, 2);
    assert_int_equal(a.op.rc, ERR_OK);
    assert_int_equal(b.op.rc, ERR_CONFLICT);
    assert_int_equal(get(w, t.id).runs_count, 1);
}

/* Rule 3. */
static void a_skipped_occurrence_that_exists_is_not_counted_again(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w);
    insert(w, &t, 1);
    struct task v[] = { some_occurrence(w, &t, NOW + 1000), some_occurrence(w, &t, NOW + 5000) };
    for (size_t i = 0; i < 2; i++) {
        v[i].state = TASK_SKIPPED;
        v[i].runs_count = 0;
        v[i].skipped_count = 3;
        v[i].cursor_ms = v[i].scheduled_ms + 2000;
        v[i].completed_ms = NOW;
    }
    struct spawn_plan plan = { { v, 1 }, .cursor_ms = NOW + 4000, .skipped = 3 };
    struct op_spawn a = spawn_of(&t, &plan);
    assert_ok(world_apply(w, &a.op), &a.op.error);
    assert_int_equal(get(w, t.id).skipped_count, 3);
    struct task read = get(w, v[0].id);
    assert_same_task(&read, &v[0]);
    plan = (struct spawn_plan){ { v, 2 }, .cursor_ms = NOW + 8000, .skipped = 6 }; /* the cursor went back since */
    a = spawn_of(&t, &plan);
    a.cursor_ms = NOW + 4000;
    assert_ok(world_apply(w, &a.op), &a.op.error);
    assert_int_equal(get(w, t.id).skipped_count, 6);
}

static void runs_that_have_not_started_are_counted(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w), other = some_recurring(w), one = some_task(w);
    struct task ahead = some_occurrence(w, &t, NOW + 3000), claimed = some_occurrence(w, &t, NOW + 2000),
                runs = some_occurrence(w, &t, NOW), retries = some_occurrence(w, &t, NOW - 1000),
                waits = some_occurrence(w, &t, NOW - 86400000), by_hand = some_occurrence(w, &t, NOW + 1),
                done = some_occurrence(w, &t, NOW - 2000);
    struct task *v[] = { &ahead, &claimed, &runs, &retries, &waits, &by_hand, &done };
    for (size_t i = 0; i < array_count(v); i++)
        v[i]->runs_count = 1;
    claimed.state = runs.state = TASK_RUNNING;
    claimed.claim = runs.claim = fresh_id(w);
    claimed.fence = runs.fence = 1;
    retries.attempts = 1;
    waits.state = TASK_PAUSED;
    by_hand.runs_count = 0;
    done.state = TASK_COMPLETED;
    insert(w, (struct task[]){ t, other, one, ahead, claimed, runs, retries, waits, by_hand, done }, 10);
    struct task read[] = { other, t, one };
    struct error e = { 0 };
    assert_ok(reader_unstarted(w->reader, read, 3, NOW, &e), &e);
    assert_int_equal(read[1].unstarted_count, 3); /* ahead, claimed, waits */
    assert_true(read[0].unstarted_count == 0 && read[2].unstarted_count == 0);
    assert_ok(reader_unstarted(w->reader, read, 3, NOW + 2000, &e), &e);
    assert_int_equal(read[1].unstarted_count, 2);
}

static const struct CMUnitTest tests[] = {
    store_test(recurring_tasks_come_earliest_first),
    store_test(a_cursor_at_until_is_left_and_told),
    store_test(at_most_max_recurring_tasks_come),
    store_test(a_page_begins_behind_the_last_of_the_one_before),
    store_test(a_page_may_begin_where_there_is_nothing),
    store_test(only_scheduled_recurring_tasks_come),
    store_test(times_from_the_cursor_on_that_have_rows_are_told),
    store_test(a_cursor_that_nobody_moved_back_has_no_rows_behind_it),
    store_test(only_so_many_rows_behind_a_cursor_are_read),
    store_test(spawning_puts_occurrences_in_and_moves_the_cursor),
    store_test(a_task_that_has_ended_is_completed),
    store_test(an_occurrence_that_exists_stays_as_it_is),
    store_test(spawning_is_guarded),
    store_test(a_second_spawner_changes_nothing),
    store_test(a_skipped_occurrence_that_exists_is_not_counted_again),
    store_test(runs_that_have_not_started_are_counted),
};
const struct test_list recurring_tests = { tests, array_count(tests) };
