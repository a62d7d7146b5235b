/* Catalog barriers: a node that changed the catalog waits until every live node has acknowledged the change. */
#include <stdlib.h>

#include "check.h"
#include "store/common/catalog_barrier.h"

#define SELF   ((struct uuid){ .b = { 1 } })
#define B      ((struct uuid){ .b = { 2 } })
#define C      ((struct uuid){ .b = { 3 } })
#define NAME_A "aaaaaaaaaaaaaaaa"
#define NAME_B "bbbbbbbbbbbbbbbb"

struct waiter {
    struct store_barrier barrier;
    int times;
};

static void over(struct store_barrier *barrier)
{
    container_of(barrier, struct waiter, barrier)->times++;
}

static int setup(void **state)
{
    struct catalog_barriers *e = xnew(*e);
    catalog_barriers_init(e);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    catalog_barriers_give_up(*state);
    catalog_barriers_release(*state);
    free(*state);
    return 0;
}

static void know(struct catalog_barriers *e, bool c_is_dead)
{
    struct node_row rows[] = { { .id = SELF }, { .id = B }, { .id = C, .dead = c_is_dead } };
    catalog_barriers_nodes(e, SELF, &(struct node_rows){ rows, array_count(rows) });
}

static void a_node_alone_waits_for_nobody(void **state)
{
    struct waiter w = { .barrier.done = over };
    catalog_barriers_on_change(*state);
    catalog_barriers_wait(*state, &w.barrier);
    assert_int_equal(w.times, 1);
    assert_false(catalog_barriers_cancel(*state, &w.barrier));
}

static void a_change_is_over_when_every_node_heeds_it(void **state)
{
    struct waiter w = { .barrier.done = over };
    know(*state, false);
    catalog_barriers_on_change(*state);
    catalog_barriers_wait(*state, &w.barrier);
    catalog_barriers_applied(*state, B, catalog_barriers_on_sent(*state));
    catalog_barriers_applied(*state, B, catalog_barriers_on_sent(*state));
    assert_int_equal(w.times, 0);
    catalog_barriers_applied(*state, C, catalog_barriers_on_sent(*state));
    assert_int_equal(w.times, 1);
    catalog_barriers_applied(*state, C, catalog_barriers_on_sent(*state));
    assert_int_equal(w.times, 1);
}

static void an_older_word_is_not_enough_and_a_later_one_is(void **state)
{
    struct waiter w = { .barrier.done = over };
    know(*state, false);
    catalog_barriers_on_change(*state);
    catalog_barriers_on_change(*state);
    catalog_barriers_wait(*state, &w.barrier);
    catalog_barriers_on_change(*state);
    catalog_barriers_applied(*state, B, 1);
    catalog_barriers_applied(*state, C, 3);
    assert_int_equal(w.times, 0);
    catalog_barriers_applied(*state, B, 2);
    assert_int_equal(w.times, 1);
}

static void nobody_waits_for_the_dead(void **state)
{
    struct waiter w = { .barrier.done = over };
    know(*state, false);
    catalog_barriers_on_change(*state);
    catalog_barriers_wait(*state, &w.barrier);
    catalog_barriers_applied(*state, B, 1);
    know(*state, true);
    assert_int_equal(w.times, 1);
}

static void what_a_node_has_said_holds_after_the_next_beat(void **state)
{
    struct waiter w = { .barrier.done = over };
    know(*state, true);
    catalog_barriers_on_change(*state);
    catalog_barriers_applied(*state, B, 1);
    know(*state, true);
    catalog_barriers_wait(*state, &w.barrier);
    assert_int_equal(w.times, 1);
}

static void who_has_waited_long_enough_is_forgotten(void **state)
{
    struct waiter w = { .barrier.done = over };
    know(*state, false);
    catalog_barriers_on_change(*state);
    catalog_barriers_wait(*state, &w.barrier);
    assert_true(catalog_barriers_cancel(*state, &w.barrier));
    assert_false(catalog_barriers_cancel(*state, &w.barrier));
    catalog_barriers_applied(*state, B, 1);
    catalog_barriers_applied(*state, C, 1);
    assert_int_equal(w.times, 0);
}

static void a_word_is_due_once_what_was_heard_is_taken_in(void **state)
{
    struct barrier_word words[BARRIER_OWED_MAX];
    uint64_t first = catalog_barriers_on_message(*state, S(NAME_A), 4);
    uint64_t second = catalog_barriers_on_message(*state, S(NAME_A), 5);
    uint64_t third = catalog_barriers_on_message(*state, S(NAME_B), 1);
    uint64_t fourth = catalog_barriers_on_message(*state, S(NAME_A), 6);
    assert_int_equal(catalog_barriers_messages(*state, first - 1, words), 0);
    assert_int_equal(catalog_barriers_messages(*state, third, words), 2);
    assert_string_equal(words[0].to, NAME_A);
    assert_int_equal(words[0].number, 5);
    assert_string_equal(words[1].to, NAME_B);
    assert_int_equal(words[1].number, 1);
    assert_int_equal(catalog_barriers_messages(*state, second, words), 0);
    assert_int_equal(catalog_barriers_messages(*state, fourth, words), 1);
    assert_int_equal(words[0].number, 6);
}

static void more_than_can_be_owed_is_dropped(void **state)
{
    struct barrier_word words[BARRIER_OWED_MAX];
    uint64_t heard = 0;
    for (uint64_t i = 1; i <= BARRIER_OWED_MAX + 10; i++)
        heard = catalog_barriers_on_message(*state, S(NAME_A), i);
    assert_int_equal(heard, BARRIER_OWED_MAX + 10);
    assert_int_equal(catalog_barriers_messages(*state, heard, words), 1);
    assert_int_equal(words[0].number, BARRIER_OWED_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_node_alone_waits_for_nobody),
        TEST(a_change_is_over_when_every_node_heeds_it),
        TEST(an_older_word_is_not_enough_and_a_later_one_is),
        TEST(nobody_waits_for_the_dead),
        TEST(what_a_node_has_said_holds_after_the_next_beat),
        TEST(who_has_waited_long_enough_is_forgotten),
        TEST(a_word_is_due_once_what_was_heard_is_taken_in),
        TEST(more_than_can_be_owed_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
