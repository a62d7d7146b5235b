/* Who heeds what: whoever changes something waits for the nodes that live, each of which says how far it goes. */
#include <stdlib.h>

#include "check.h"
#include "store/common/catalog_barrier.h"

#define SELF   ((struct uuid){ .b = { 1 } })
#define B      ((struct uuid){ .b = { 2 } })
#define C      ((struct uuid){ .b = { 3 } })
#define NAME_A "aaaaaaaaaaaaaaaa"
#define NAME_B "bbbbbbbbbbbbbbbb"

struct waiter {
    struct store_echo echo;
    int times;
};

static void over(struct store_echo *echo)
{
    container_of(echo, struct waiter, echo)->times++;
}

static int setup(void **state)
{
    struct echoes *e = xnew(*e);
    echoes_init(e);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    echoes_give_up(*state);
    echoes_release(*state);
    free(*state);
    return 0;
}

static void know(struct echoes *e, bool c_is_dead)
{
    struct node_row rows[] = { { .id = SELF }, { .id = B }, { .id = C, .dead = c_is_dead } };
    echoes_nodes(e, SELF, &(struct node_rows){ rows, array_count(rows) });
}

static void a_node_alone_waits_for_nobody(void **state)
{
    struct waiter w = { .echo.done = over };
    echoes_changed(*state);
    echoes_await(*state, &w.echo);
    assert_int_equal(w.times, 1);
    assert_false(echoes_forget(*state, &w.echo));
}

static void a_change_is_over_when_every_node_heeds_it(void **state)
{
    struct waiter w = { .echo.done = over };
    know(*state, false);
    echoes_changed(*state);
    echoes_await(*state, &w.echo);
    echoes_heed(*state, B, echoes_told(*state));
    echoes_heed(*state, B, echoes_told(*state));
    assert_int_equal(w.times, 0);
    echoes_heed(*state, C, echoes_told(*state));
    assert_int_equal(w.times, 1);
    echoes_heed(*state, C, echoes_told(*state));
    assert_int_equal(w.times, 1);
}

static void an_older_word_is_not_enough_and_a_later_one_is(void **state)
{
    struct waiter w = { .echo.done = over };
    know(*state, false);
    echoes_changed(*state);
    echoes_changed(*state);
    echoes_await(*state, &w.echo);
    echoes_changed(*state);
    echoes_heed(*state, B, 1);
    echoes_heed(*state, C, 3);
    assert_int_equal(w.times, 0);
    echoes_heed(*state, B, 2);
    assert_int_equal(w.times, 1);
}

static void nobody_waits_for_the_dead(void **state)
{
    struct waiter w = { .echo.done = over };
    know(*state, false);
    echoes_changed(*state);
    echoes_await(*state, &w.echo);
    echoes_heed(*state, B, 1);
    know(*state, true);
    assert_int_equal(w.times, 1);
}

static void what_a_node_has_said_holds_after_the_next_beat(void **state)
{
    struct waiter w = { .echo.done = over };
    know(*state, true);
    echoes_changed(*state);
    echoes_heed(*state, B, 1);
    know(*state, true);
    echoes_await(*state, &w.echo);
    assert_int_equal(w.times, 1);
}

static void who_has_waited_long_enough_is_forgotten(void **state)
{
    struct waiter w = { .echo.done = over };
    know(*state, false);
    echoes_changed(*state);
    echoes_await(*state, &w.echo);
    assert_true(echoes_forget(*state, &w.echo));
    assert_false(echoes_forget(*state, &w.echo));
    echoes_heed(*state, B, 1);
    echoes_heed(*state, C, 1);
    assert_int_equal(w.times, 0);
}

static void a_word_is_due_once_what_was_heard_is_taken_in(void **state)
{
    struct echo_word words[ECHO_OWED_MAX];
    uint64_t first = echoes_heard(*state, S(NAME_A), 4);
    uint64_t second = echoes_heard(*state, S(NAME_A), 5);
    uint64_t third = echoes_heard(*state, S(NAME_B), 1);
    uint64_t fourth = echoes_heard(*state, S(NAME_A), 6);
    assert_int_equal(echoes_words(*state, first - 1, words), 0);
    assert_int_equal(echoes_words(*state, third, words), 2);
    assert_string_equal(words[0].to, NAME_A);
    assert_int_equal(words[0].number, 5);
    assert_string_equal(words[1].to, NAME_B);
    assert_int_equal(words[1].number, 1);
    assert_int_equal(echoes_words(*state, second, words), 0);
    assert_int_equal(echoes_words(*state, fourth, words), 1);
    assert_int_equal(words[0].number, 6);
}

static void more_than_can_be_owed_is_dropped(void **state)
{
    struct echo_word words[ECHO_OWED_MAX];
    uint64_t heard = 0;
    for (uint64_t i = 1; i <= ECHO_OWED_MAX + 10; i++)
        heard = echoes_heard(*state, S(NAME_A), i);
    assert_int_equal(heard, ECHO_OWED_MAX + 10);
    assert_int_equal(echoes_words(*state, heard, words), 1);
    assert_int_equal(words[0].number, ECHO_OWED_MAX);
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
