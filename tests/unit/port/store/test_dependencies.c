/* What the join of a task makes of its row, and what a change of the row leaves of that. */
#include "port/store/dependencies.h"

#include "check.h"

#define NOW 1772532000000LL

static struct task waiting(enum task_state state)
{
    return (struct task){
        .state = state, .links = TASK_HAS_PARENTS | TASK_WAITS, .due_ms = NOW - 5, .scheduled_ms = NOW - 5
    };
}

static void a_start_is_due_now_unless_its_own_time_is_later(void **state)
{
    (void)state;
    struct task t = waiting(TASK_BLOCKED), late = waiting(TASK_BLOCKED);
    late.due_ms = late.scheduled_ms = NOW + 9;
    dependency_apply(&t, FLOW_START, S(""), NOW);
    dependency_apply(&late, FLOW_START, S(""), NOW);
    assert_true(t.state == TASK_SCHEDULED && t.due_ms == NOW && t.scheduled_ms == NOW && t.updated_ms == NOW);
    assert_true(late.state == TASK_SCHEDULED && late.due_ms == NOW + 9 && late.scheduled_ms == NOW + 9);
    assert_int_equal(t.links, TASK_HAS_PARENTS);
}

static void a_paused_task_stays_paused_and_is_skipped(void **state)
{
    (void)state;
    struct task t = waiting(TASK_PAUSED);
    dependency_apply(&t, FLOW_START, S(""), NOW);
    assert_true(t.state == TASK_PAUSED && t.links == TASK_HAS_PARENTS && t.due_ms == NOW && t.scheduled_ms == NOW);
    t = waiting(TASK_PAUSED);
    dependency_apply(&t, FLOW_SKIP_BROKEN, S("why"), NOW);
    assert_true(t.state == TASK_SKIPPED && t.links == (TASK_HAS_PARENTS | TASK_BROKEN) && t.completed_ms == NOW);
    assert_str(t.last_error, "why");
}

static void a_change_neither_forgets_a_join_nor_invents_one(void **state)
{
    (void)state;
    static const struct {
        enum task_state state;
        int old, next; /* links */
        enum task_state becomes;
        int links;
    } rows[] = {
        { TASK_SCHEDULED, TASK_WAITS, TASK_WAITS, TASK_BLOCKED, TASK_WAITS },
        { TASK_SCHEDULED, TASK_WAITS, 0, TASK_SCHEDULED, 0 }, /* started by hand */
        { TASK_BLOCKED, 0, TASK_WAITS, TASK_SCHEDULED, 0 },   /* decided since it was read */
        { TASK_PAUSED, TASK_WAITS, TASK_WAITS, TASK_PAUSED, TASK_WAITS },
        { TASK_CANCELLED, TASK_WAITS, TASK_WAITS, TASK_CANCELLED, 0 },
        { TASK_COMPLETED, TASK_HAS_CHILDREN, 0, TASK_COMPLETED, TASK_HAS_CHILDREN },
        { TASK_SKIPPED, TASK_BROKEN, 0, TASK_SKIPPED, TASK_BROKEN },
        { TASK_SCHEDULED, 0, TASK_HAS_CHILDREN, TASK_SCHEDULED, 0 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct task t = { .state = rows[i].state, .links = rows[i].next, .updated_ms = NOW };
        dependency_tidy(&t, rows[i].old);
        assert_int_equal(t.state, rows[i].becomes);
        assert_int_equal(t.links, rows[i].links);
    }
    struct task slot = { .state = TASK_BLOCKED, .waits_for = S("c:1:k") };
    dependency_tidy(&slot, 0);
    assert_int_equal(slot.state, TASK_BLOCKED); /* a slot is another matter */
}

static void errors_name_the_element(void **state)
{
    (void)state;
    struct dependency d = { .parent = { { 1 } } };
    struct task once = { .tenant = 1, .kind = TASK_ONE_TIME }, again = { .tenant = 1, .kind = TASK_RECURRING };
    struct error e = { 0 };
    assert_int_equal(dependency_check(&once, true, &d, 3, 1, &e), ERR_OK);
    assert_int_equal(dependency_check(&once, false, &d, 3, 1, &e), ERR_INVALID);
    assert_string_equal(e.field, "depends_on[3]");
    assert_int_equal(dependency_check(&once, true, &d, 3, 2, &e), ERR_INVALID);
    assert_int_equal(dependency_check(&again, true, &d, 0, 1, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "which is recurring; name a one-time task"));
}

static void a_long_cycle_is_cut_in_the_middle(void **state)
{
    (void)state;
    struct uuid path[40];
    struct error e = { 0 };
    for (size_t i = 0; i < array_count(path); i++)
        path[i] = (struct uuid){ { (uint8_t)(i + 1) } };
    assert_int_equal(dependency_cycle(path, 3, &e), ERR_CONFLICT);
    assert_non_null(strstr(e.text, "01000000-0000-0000-0000-000000000000 → 02000000"));
    assert_null(strstr(e.text, "…"));
    assert_int_equal(dependency_cycle(path, array_count(path), &e), ERR_CONFLICT);
    assert_string_equal(e.field, "depends_on");
    assert_non_null(strstr(e.text, "…"));
}

static void no_edges_let_a_task_start(void **state)
{
    (void)state;
    for (enum dag_join join = DAG_ALL; join <= DAG_SOME; join++)
        assert_int_equal(dependency_decide(join, 0, (struct flow_counts){ 0 }), FLOW_START);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_due_now_unless_its_own_time_is_later),
        cmocka_unit_test(a_paused_task_stays_paused_and_is_skipped),
        cmocka_unit_test(a_change_neither_forgets_a_join_nor_invents_one),
        cmocka_unit_test(errors_name_the_element),
        cmocka_unit_test(a_long_cycle_is_cut_in_the_middle),
        cmocka_unit_test(no_edges_let_a_task_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
