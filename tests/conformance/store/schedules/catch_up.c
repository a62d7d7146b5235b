/* OP_CATCH_UP. */
#include "store_slots.h"

static struct op_catch_up take_back(struct world *w, struct uuid after, size_t max)
{
    struct op_catch_up op = {
        .op.kind = OP_CATCH_UP, .before_ms = NOW, .after = after, .max = max, .ret_withdrawn = 99
    };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static size_t take_back_all(struct world *w)
{
    struct op_catch_up op = take_back(w, (struct uuid){ 0 }, 1000);
    assert_true(uuid_is_nil(op.ret_after));
    return op.ret_withdrawn;
}

enum { SPAWNED = 4 };

/* A task whose cursor is NOW + 2000, with occurrences at NOW - 2000 … NOW + 1000: the first two were missed. */
static struct task with_missed(struct world *w, struct task o[SPAWNED])
{
    struct task t = some_recurring(w);
    t.cursor_ms = NOW + 2000;
    t.runs_count = 10;
    for (int i = 0; i < SPAWNED; i++)
        o[i] = some_occurrence(w, &t, NOW + 1000 * (i - 2));
    return t;
}

static void what_was_missed_is_taken_back_with_all_behind_it(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o), expected = t;
    struct task before = some_occurrence(w, &t, NOW - 3000), neighbour = some_task(w);
    before.state = TASK_COMPLETED;
    neighbour.due_ms = NOW - 5000;
    insert(w, &t, 1);
    insert(w, o, SPAWNED);
    insert(w, (struct task[]){ before, neighbour }, 2);
    assert_int_equal(take_back_all(w), SPAWNED);
    for (int i = 0; i < SPAWNED; i++)
        assert_false(is_there(w, TENANT, o[i].id));
    assert_true(is_there(w, TENANT, before.id) && is_there(w, TENANT, neighbour.id));
    expected.cursor_ms = NOW - 2000;
    expected.runs_count = 10 - SPAWNED;
    struct task after = get(w, t.id);
    assert_same_task(&after, &expected); /* no user's change: version and updated_ms stay */
    struct store_counts counts;
    struct error e;
    assert_ok(reader_counts(w->reader, NOW, &counts, &e), &e);
    assert_int_equal(counts.by_state[TASK_SCHEDULED], 2);
    assert_int_equal(take_back_all(w), 0); /* done again, it finds nothing */
}

static void what_is_not_late_stays(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o), alone = with_missed(w, (struct task[SPAWNED]){ 0 });
    insert(w, &t, 1);
    insert(w, o + 2, 2); /* one due at the limit itself, one later */
    insert(w, &alone, 1);
    assert_int_equal(take_back_all(w), 0);
    struct task after = get(w, t.id);
    assert_same_task(&after, &t);
    assert_true(is_there(w, TENANT, o[2].id) && is_there(w, TENANT, o[3].id));
}

/* Of an earlier one that is not late (it was made late) and a later one that is, only the later one goes. */
static void the_cursor_goes_back_no_further_than_to_what_was_missed(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o);
    o[0].due_ms = NOW;
    insert(w, &t, 1);
    insert(w, o, SPAWNED);
    assert_int_equal(take_back_all(w), 3);
    assert_true(is_there(w, TENANT, o[0].id));
    assert_int_equal(get(w, t.id).cursor_ms, NOW - 1000);
    assert_int_equal(get(w, t.id).runs_count, 7);
}

static void a_task_that_is_not_scheduled_keeps_what_it_has(void **state)
{
    struct world *w = *state;
    static const struct {
        enum catch_up mode;
        enum task_state state;
        bool missing, taken;
    } rows[] = {
        { CATCH_UP_ONE, TASK_SCHEDULED, false, true },   { CATCH_UP_NONE, TASK_SCHEDULED, false, true },
        { CATCH_UP_ALL, TASK_COMPLETED, false, false },  { CATCH_UP_ONE, TASK_PAUSED, false, false },
        { CATCH_UP_NONE, TASK_COMPLETED, false, false }, { CATCH_UP_ONE, TASK_SCHEDULED, true, false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct task o[SPAWNED], t = with_missed(w, o);
        t.schedule.catch_up = rows[i].mode;
        t.state = rows[i].state;
        if (!rows[i].missing)
            insert(w, &t, 1);
        insert(w, o, SPAWNED);
        assert_int_equal(take_back_all(w), rows[i].taken ? SPAWNED : 0);
        assert_int_equal(is_there(w, TENANT, o[0].id), !rows[i].taken);
        if (!rows[i].missing)
            assert_int_equal(get(w, t.id).cursor_ms, rows[i].taken ? NOW - 2000 : NOW + 2000);
    }
}

static void a_task_that_runs_all_it_missed_keeps_what_its_window_holds(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o);
    t.schedule.catch_up = CATCH_UP_ALL;
    t.schedule.catch_up_window_ms = 2000;
    for (int i = 0; i < SPAWNED; i++)
        o[i].overlap = OVERLAP_ALLOW;
    o[0].due_ms = NOW + 500; /* made late: it is not when it is due that counts, but what it stands for */
    insert(w, &t, 1);
    insert(w, o, SPAWNED);
    assert_int_equal(take_back_all(w), 0);
    struct op_catch_up later = { .op.kind = OP_CATCH_UP, .before_ms = NOW + 1, .max = 10 };
    assert_ok(world_apply(w, &later.op), &later.op.error);
    assert_int_equal(later.ret_withdrawn, SPAWNED);
    assert_int_equal(get(w, t.id).cursor_ms, NOW - 2000);
}

static void a_task_with_very_many_to_run_keeps_them(void **state)
{
    struct world *w = *state;
    static struct task o[CATCH_UP_ALL_MAX + 1];
    struct task t = some_recurring(w);
    t.schedule.catch_up = CATCH_UP_ALL;
    for (size_t i = 0; i < array_count(o); i++)
        o[i] = some_occurrence(w, &t, NOW - 60000 + (int64_t)i);
    insert(w, &t, 1);
    insert(w, o, array_count(o));
    assert_int_equal(take_back_all(w), 0);
    struct op_purge forget = { .op.kind = OP_PURGE, .tasks_before_ms = NOW, .max = 10 };
    o[0].state = TASK_CANCELLED;
    o[0].completed_ms = 1;
    struct op_put put = put_of(&o[1], &o[0]);
    put.version = 1;
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_ok(world_apply(w, &forget.op), &forget.op.error);
    assert_int_equal(take_back_all(w), CATCH_UP_ALL_MAX); /* one less, and they are looked at */
}

/* Each row: what makes the third of four stay, and with it all before it, whether missed or not. */
static void the_cursor_never_goes_back_over_an_occurrence_that_stays(void **state)
{
    struct world *w = *state;
    static const struct task kept[] = {
        { .version = 2, .runs_count = 1 },
        { .version = 1, .runs_count = 1, .attempts = 1 },
        { .version = 1, .runs_count = 1, .losses = 1 },
        { .version = 1, .runs_count = 1, .started_ms = NOW - 9000 }, /* retried by hand */
        { .version = 1, .runs_count = 1, .state = TASK_PAUSED },
        { .version = 1, .runs_count = 1, .state = TASK_CANCELLED },
        { .version = 1, .runs_count = 0, .state = TASK_SKIPPED }, /* stands for others that were skipped */
    };
    for (size_t i = 0; i < array_count(kept); i++) {
        struct task o[SPAWNED], t = with_missed(w, o);
        for (int k = 0; k < SPAWNED; k++)
            o[k].due_ms = NOW - 10;
        o[2].version = kept[i].version;
        o[2].runs_count = kept[i].runs_count;
        o[2].attempts = kept[i].attempts;
        o[2].losses = kept[i].losses;
        o[2].started_ms = kept[i].started_ms;
        o[2].state = kept[i].state;
        insert(w, &t, 1);
        insert(w, o, SPAWNED);
        assert_int_equal(take_back_all(w), 1);
        for (int k = 0; k < 3; k++)
            assert_true(is_there(w, TENANT, o[k].id));
        assert_int_equal(get(w, t.id).cursor_ms, NOW + 1000);
        assert_int_equal(get(w, t.id).runs_count, 9);
    }
}

static void what_is_claimed_is_not_taken_back(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o);
    insert(w, &t, 1);
    struct task claimed = claim_one(w, &o[0], fresh_id(w));
    insert(w, o + 1, SPAWNED - 1);
    assert_int_equal(take_back_all(w), 3);
    struct task after = get(w, o[0].id);
    assert_same_task(&after, &claimed);
    assert_int_equal(get(w, t.id).cursor_ms, NOW - 1000);
}

static void an_occurrence_asked_for_by_hand_stays_and_is_in_nobodys_way(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o), by_hand = some_occurrence(w, &t, NOW - 1500);
    by_hand.id = fresh_id(w);
    by_hand.runs_count = 0;
    insert(w, &t, 1);
    insert(w, o, SPAWNED);
    insert(w, &by_hand, 1);
    assert_int_equal(take_back_all(w), SPAWNED);
    struct task after = get(w, by_hand.id);
    assert_same_task(&after, &by_hand);
    assert_int_equal(get(w, t.id).cursor_ms, NOW - 2000);
    assert_int_equal(take_back_all(w), 0);
}

static void counts_and_cursor_stay_within_bounds(void **state)
{
    struct world *w = *state;
    struct task o[SPAWNED], t = with_missed(w, o);
    t.runs_count = 1;
    t.cursor_ms = NOW - 60000; /* somebody set it back before */
    insert(w, &t, 1);
    insert(w, o, SPAWNED);
    assert_int_equal(take_back_all(w), SPAWNED);
    assert_int_equal(get(w, t.id).runs_count, 0);
    assert_int_equal(get(w, t.id).cursor_ms, NOW - 60000);
}

static void the_cursor_goes_back_to_when_a_spread_one_was_due(void **state)
{
    struct world *w = *state;
    struct task t = some_recurring(w);
    t.schedule.spread_ms = 86400000;
    int64_t spread_ms = schedule_spread(&t.schedule, t.id);
    struct task o = some_occurrence(w, &t, NOW - 2000 - spread_ms);
    o.due_ms = NOW - 2000;
    insert(w, &t, 1);
    insert(w, &o, 1);
    assert_int_equal(take_back_all(w), 1);
    assert_int_equal(get(w, t.id).cursor_ms, NOW - 2000);
}

static void what_was_missed_is_looked_for_a_few_tasks_at_a_time(void **state)
{
    struct world *w = *state;
    struct task t[3], o[3][SPAWNED];
    for (int i = 0; i < 3; i++) {
        t[i] = with_missed(w, o[i]);
        t[i].tenant = i == 1 ? OTHER_TENANT : TENANT;
        for (int k = 0; k < SPAWNED; k++)
            o[i][k].tenant = t[i].tenant;
        insert(w, &t[i], 1);
        insert(w, o[i], SPAWNED);
    }
    struct op_catch_up first = take_back(w, (struct uuid){ 0 }, 2);
    assert_int_equal(first.ret_withdrawn, 2 * SPAWNED);
    assert_true(uuid_eq(first.ret_after, t[1].id));
    assert_true(is_there(w, TENANT, o[2][0].id));
    struct op_catch_up second = take_back(w, first.ret_after, 2);
    assert_int_equal(second.ret_withdrawn, SPAWNED);
    assert_true(uuid_is_nil(second.ret_after));
    struct op_catch_up none = take_back(w, (struct uuid){ 0 }, 1);
    assert_true(none.ret_withdrawn == 0 && uuid_is_nil(none.ret_after));
}

/* ---- slots ---- */

static struct task run_of(struct world *w, const struct task *parent, int64_t at_ms)
{
    struct task t = some_occurrence(w, parent, at_ms);
    t.overlap = parent->schedule.overlap;
    return t;
}

static struct str slot_of(const struct task *parent, char text[UUID_TEXT + 3])
{
    char id[UUID_TEXT + 1];
    uuid_format(parent->id, id);
    snprintf(text, UUID_TEXT + 3, "o:%s", id);
    return str_from(text);
}

static struct task recurring_with(struct world *w, enum overlap overlap)
{
    struct task t = some_recurring(w);
    t.schedule.overlap = overlap;
    t.runs_count = 10;
    t.cursor_ms = NOW + 2000;
    insert(w, &t, 1);
    return t;
}

static void what_is_taken_back_lets_go_of_its_slot(void **state)
{
    struct world *w = *state;
    char key[UUID_TEXT + 3];
    struct task parent = recurring_with(w, OVERLAP_SKIP), run = run_of(w, &parent, NOW - 1000);
    struct task claimed = claim_alone(w, &run);
    struct settlement returned = settlement_of(&claimed, TASK_SCHEDULED);
    returned.verdict.due_ms = run.due_ms;
    returned.verdict.has_execution = false;
    returned.verdict.attempts = 0;
    settle_wakes(w, &returned);
    assert_holders(w, slot_of(&parent, key), &run.id);
    assert_int_equal(take_back_all(w), 1);
    assert_free(w, slot_of(&parent, key));
    claim_alone(w, &run); /* as it is spawned anew */
}

static void who_waited_for_a_slot_that_was_taken_back_has_it(void **state)
{
    struct world *w = *state;
    char key[UUID_TEXT + 3];
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), run = run_of(w, &parent, NOW - 1000),
                earlier = run_of(w, &parent, NOW - 2000);
    struct task claimed = claim_alone(w, &run);
    gate_alone(w, &earlier);
    struct settlement returned = settlement_of(&claimed, TASK_SCHEDULED);
    returned.verdict.due_ms = run.due_ms;
    returned.verdict.has_execution = false;
    returned.verdict.attempts = 0;
    settle_wakes(w, &returned);
    assert_int_equal(take_back_all(w), 1);
    assert_holders(w, slot_of(&parent, key), &earlier.id);
    assert_taken(w, &earlier.id);
}

static void what_stands_in_line_stays_and_so_does_who_had_its_turn(void **state)
{
    struct world *w = *state;
    char key[UUID_TEXT + 3];
    struct task parent = recurring_with(w, OVERLAP_QUEUE_ALL), first = run_of(w, &parent, NOW - 3000),
                second = run_of(w, &parent, NOW - 2000);
    first = claim_alone(w, &first);
    gate_alone(w, &second);
    assert_int_equal(take_back_all(w), 0);
    assert_waits(w, second.id, slot_of(&parent, key));
    assert_int_equal(get(w, second.id).late_by, LATE_SLOT);
    end_wakes(w, &first, TASK_COMPLETED);
    assert_int_equal(take_back_all(w), 0);
    assert_taken(w, &second.id);
}

static void of_a_task_that_runs_all_it_missed_those_stay_that_would_run(void **state)
{
    struct world *w = *state;
    static const enum overlap policies[] = { OVERLAP_SKIP, OVERLAP_ALLOW, OVERLAP_QUEUE_ONE, OVERLAP_QUEUE_ALL,
                                             OVERLAP_CANCEL_PREVIOUS };
    for (size_t i = 0; i < array_count(policies); i++) {
        struct task o[SPAWNED], t = with_missed(w, o);
        t.schedule.catch_up = CATCH_UP_ALL;
        t.schedule.catch_up_window_ms = 86400000;
        for (int k = 0; k < SPAWNED; k++)
            o[k].overlap = policies[i];
        insert(w, &t, 1);
        insert(w, o, SPAWNED);
        bool all_run = policies[i] == OVERLAP_ALLOW || policies[i] == OVERLAP_QUEUE_ALL;
        assert_int_equal(take_back_all(w), all_run ? 0 : SPAWNED);
    }
}

static const struct CMUnitTest tests[] = {
    store_test(what_was_missed_is_taken_back_with_all_behind_it),
    store_test(what_is_not_late_stays),
    store_test(the_cursor_goes_back_no_further_than_to_what_was_missed),
    store_test(a_task_that_is_not_scheduled_keeps_what_it_has),
    store_test(a_task_that_runs_all_it_missed_keeps_what_its_window_holds),
    store_test(a_task_with_very_many_to_run_keeps_them),
    store_test(the_cursor_never_goes_back_over_an_occurrence_that_stays),
    store_test(what_is_claimed_is_not_taken_back),
    store_test(an_occurrence_asked_for_by_hand_stays_and_is_in_nobodys_way),
    store_test(counts_and_cursor_stay_within_bounds),
    store_test(the_cursor_goes_back_to_when_a_spread_one_was_due),
    store_test(what_was_missed_is_looked_for_a_few_tasks_at_a_time),
    store_test(what_is_taken_back_lets_go_of_its_slot),
    store_test(who_waited_for_a_slot_that_was_taken_back_has_it),
    store_test(what_stands_in_line_stays_and_so_does_who_had_its_turn),
    store_test(of_a_task_that_runs_all_it_missed_those_stay_that_would_run),
};
const struct test_list missed_tests = { tests, array_count(tests) };
