/* What a process finds after an earlier one died, and which task it blames. */
#include "node_world.h"

enum { MANY = 1002 /* more than are read at once */ };

static struct task suspect(int n, int64_t due_ms)
{
    struct task t = plain_task(n, due_ms);
    t.losses = SUSPECT_LOSSES;
    return t;
}

/* The dead node had told the store that it fires nothing that is due later. */
static void the_dead_fired_until(struct world *w, int64_t until_ms)
{
    struct op_heartbeat beat = { .op = { .kind = OP_HEARTBEAT },
                                 .node = { .id = { { 8 } }, .fires_until_ms = until_ms },
                                 .now_ms = w->now_ms };
    struct op_node_dead dead = { .op = { .kind = OP_NODE_DEAD }, .node = { { 8 } }, .beats = 1, .now_ms = w->now_ms };
    arena_init(&beat.op.arena, 1 << 16);
    arena_init(&dead.op.arena, 1 << 16);
    apply_op(w, &beat.op);
    apply_op(w, &dead.op);
    assert_true(dead.ret_marked_dead);
    arena_release(&beat.op.arena);
    arena_release(&dead.op.arena);
}

static size_t count_failed(struct world *w)
{
    struct store_counts counts;
    struct error e;
    assert_ok(reader_counts(w->reader, w->now_ms, &counts, &e), &e);
    return (size_t)counts.by_state[TASK_FAILED];
}

static void nothing_is_claimed_before_what_died_is_settled(void **state)
{
    struct world *w = *state;
    task_due(w, 1, NOW);
    step_at(w, NOW);
    struct op *held = next_op(w, OP_ORPHANS);
    list_each (&w->pending, link)
        assert_true(container_of(link, struct op, link)->kind != OP_CLAIM);
    apply_op(w, held);
    held->done(held);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

static void suspects_run_one_at_a_time_and_others_beside_them(void **state)
{
    struct world *w = *state;
    settle_down(w);
    struct task first = add_task(w, suspect(1, NOW - 1)), second = add_task(w, suspect(2, NOW));
    struct task other = task_due(w, 3, NOW);
    settle_down(w);
    assert_int_equal(w->run_count, 2);
    assert_true(is_running(w, &first) && is_running(w, &other));
    while (is_running(w, &first)) {
        end_run(w, OUTCOME_OK);
        settle_down(w);
    }
    assert_true(is_running(w, &second));
}

static void a_suspect_that_died_alone_twice_is_poison(void **state)
{
    struct world *w = *state;
    struct task t = suspect(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    struct task other = task_due(w, 2, NOW - 1);
    settle_down(w);
    assert_int_equal(w->run_count, 1); /* tried alone */
    assert_true(is_running(w, &t));
    die_and_start_again(w);
    w->run_count = 0;
    settle_down(w);
    assert_int_equal(state_of(w, t.id), TASK_FAILED);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &other));
}

static void who_died_in_company_in_between_begins_anew(void **state)
{
    struct world *w = *state;
    struct task t = suspect(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    settle_down(w);
    struct task other = task_due(w, 2, NOW);
    step_at(w, NOW + HOUR); /* alone no longer */
    settle_down(w);
    assert_true(is_running(w, &t) && is_running(w, &other));
    die_and_start_again(w);
    w->run_count = 0;
    settle_down(w);
    assert_true(is_running(w, &t));
    die_and_start_again(w);
    w->run_count = 0;
    settle_down(w);
    assert_int_equal(count_failed(w), 0);
}

static void one_that_had_not_fired_is_no_company(void **state)
{
    struct world *w = *state;
    struct task both[] = { suspect(1, NOW), plain_task(2, NOW + 900) };
    both[0].last_error = S("lost alone: whoever ran it died, and nothing else was running; …");
    claimed_by_the_dead(w, both, 2);
    settle_down(w);
    assert_int_equal(state_of(w, both[0].id), TASK_FAILED);
    assert_int_equal(state_of(w, both[1].id), TASK_SCHEDULED);
}

/* The task that killed the process may be one that is not suspected yet. */
static void a_suspect_that_died_in_company_is_tried_alone_before_all_others(void **state)
{
    struct world *w = *state;
    struct task both[] = { suspect(1, NOW - 5000), plain_task(2, NOW) };
    claimed_by_the_dead(w, both, 2);
    struct task waiting = add_task(w, suspect(3, NOW - 1000)); /* lost before, and not running */
    settle_down(w);
    assert_int_equal(count_failed(w), 0);
    assert_int_equal(w->run_count, 1);
    assert_true(is_running(w, &both[0]));
    assert_true(node_status(w->node).scheduler.isolating);
    end_run(w, OUTCOME_OK);
    settle_down(w);
    assert_int_equal(w->run_count, 2); /* the process lives: the others go on */
    assert_true(is_running(w, &waiting) && is_running(w, &both[1]));
    assert_false(node_status(w->node).scheduler.isolating);
}

static void one_that_takes_its_time_alone_does_not_hold_the_others_for_long(void **state)
{
    struct world *w = *state;
    struct task both[] = { suspect(1, NOW), plain_task(2, NOW) };
    claimed_by_the_dead(w, both, 2);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
    int64_t wake = step_at(w, NOW);
    assert_true(wake > NOW + 4000 && wake <= NOW + 10000); /* it was lost once more: twice five seconds */
    step_at(w, NOW + 10000);
    settle_down(w);
    assert_int_equal(w->run_count, 2);
}

static void a_suspect_keeps_nobody_awake_who_may_not_claim(void **state)
{
    struct world *w = *state;
    struct task both[] = { suspect(1, NOW), plain_task(2, NOW) };
    claimed_by_the_dead(w, both, 2);
    settle_down(w);
    assert_true(node_status(w->node).scheduler.isolating);
    int64_t wake = step_at(w, NOW + 60000); /* stalled: until overdue occurrences are withdrawn, nothing is claimed */
    assert_true(wake > NOW + 60000);
    answer(w, OP_CATCH_UP);
    settle_down(w);
    assert_int_equal(w->run_count, 2);
}

static void nobody_of_many_is_blamed(void **state)
{
    struct world *w = *state;
    struct task *all = xcalloc(MANY, sizeof *all);
    for (int i = 0; i < MANY; i++)
        all[i] = suspect(i, NOW);
    claimed_by_the_dead(w, all, MANY);
    step_at(w, NOW);
    answer(w, OP_ORPHANS);
    step_at(w, NOW);
    assert_int_equal(((struct op_settle *)container_of(w->pending.prev, struct op, link))->n, 998);
    settle_down(w);
    assert_int_equal(count_failed(w), 0);
    assert_false(node_status(w->node).recovering);
    free(all);
}

/* Two are left behind in any case: a single one would look as if it had been alone. */
static void nobody_is_blamed_when_recovery_dies_in_the_middle(void **state)
{
    struct world *w = *state;
    struct task *all = xcalloc(MANY, sizeof *all);
    for (int i = 0; i < MANY; i++)
        all[i] = i < 3 ? suspect(i, NOW) : plain_task(i, NOW);
    for (int i = 0; i < 3; i++)
        all[i].last_error = S("lost alone: whoever ran it died, and nothing else was running");
    claimed_by_the_dead(w, all, MANY);
    step_at(w, w->now_ms);
    answer(w, OP_ORPHANS);
    step_at(w, w->now_ms);
    answer(w, OP_SETTLE);
    die_and_start_again(w);
    step_at(w, w->now_ms);
    answer(w, OP_ORPHANS);
    die_and_start_again(w); /* before the rest was settled */
    settle_down(w);
    assert_int_equal(count_failed(w), 0);
    free(all);
}

static void large_ones_are_read_fewer_at_a_time(void **state)
{
    struct world *w = *state;
    struct task t = plain_task(1, NOW);
    claimed_by_the_dead(w, &t, 1);
    step_at(w, NOW);
    struct op *held = next_op(w, OP_ORPHANS);
    assert_int_equal(((struct op_orphans *)held)->max, 1000);
    held->rc = error_set(&held->error, ERR_LIMIT, "too large");
    held->done(held);
    step_at(w, NOW);
    struct op *again = next_op(w, OP_ORPHANS);
    assert_int_equal(((struct op_orphans *)again)->max, 500);
    apply_op(w, again);
    again->done(again);
    settle_down(w);
    assert_int_equal(w->run_count, 1);
}

/* They are overdue, but their node cannot have fired those that are due after what it had told the store. */
static void what_the_dead_node_cannot_have_fired_is_not_lost(void **state)
{
    struct world *w = *state;
    struct task t[] = { plain_task(1, NOW - 3000), plain_task(2, NOW - 2000), plain_task(3, NOW - 1999),
                        plain_task(4, NOW - 1), plain_task(5, NOW + 900) };
    claimed_by_the_dead(w, t, array_count(t));
    the_dead_fired_until(w, NOW - 2000);
    settle_down(w);
    for (size_t i = 0; i < array_count(t); i++) {
        struct task now = read_task(w, t[i].id);
        assert_int_equal(now.losses, i < 2);
        assert_int_equal(now.attempts, 0);
        assert_true(is_running(w, &t[i]) || i < 2 || i == 4); /* three slots: by due time */
        if (i >= 2)
            assert_int_equal(now.due_ms, t[i].due_ms);
    }
}

/* The clock was set back since the claim, so that what is due later may have fired: but not after the node's word. */
static void a_dead_nodes_word_counts_whatever_the_clock_says(void **state)
{
    struct world *w = *state;
    struct task t[] = { plain_task(1, NOW + 100), plain_task(2, NOW + 900) };
    claimed_by_the_dead(w, t, array_count(t));
    the_dead_fired_until(w, NOW + 500);
    set_clock(w, NOW - HOUR);
    settle_down(w);
    assert_int_equal(read_task(w, t[0].id).losses, 1);
    assert_int_equal(read_task(w, t[1].id).losses, 0);
}

static void a_task_that_runs_at_most_once_is_lost_all_the_same(void **state)
{
    struct world *w = *state;
    struct task t = plain_task(1, NOW - 1);
    t.delivery = DELIVER_AT_MOST_ONCE;
    claimed_by_the_dead(w, &t, 1);
    the_dead_fired_until(w, NOW - 2000);
    settle_down(w);
    assert_int_equal(count_failed(w), 1);
}

int main(void)
{
#define node_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        node_test(nothing_is_claimed_before_what_died_is_settled),
        node_test(suspects_run_one_at_a_time_and_others_beside_them),
        node_test(a_suspect_that_died_alone_twice_is_poison),
        node_test(who_died_in_company_in_between_begins_anew),
        node_test(one_that_had_not_fired_is_no_company),
        node_test(a_suspect_that_died_in_company_is_tried_alone_before_all_others),
        node_test(one_that_takes_its_time_alone_does_not_hold_the_others_for_long),
        node_test(a_suspect_keeps_nobody_awake_who_may_not_claim),
        node_test(what_the_dead_node_cannot_have_fired_is_not_lost),
        node_test(a_dead_nodes_word_counts_whatever_the_clock_says),
        node_test(a_task_that_runs_at_most_once_is_lost_all_the_same),
        node_test(nobody_of_many_is_blamed),
        node_test(nobody_is_blamed_when_recovery_dies_in_the_middle),
        node_test(large_ones_are_read_fewer_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
