/* core/task/spawn: the relation of an existing occurrence to its task's schedule. test_spawn.c covers occurrences that
 * were just created. */
#include "core/task/spawn.h"

#include "check.h"

#define NOW 1772532000000LL /* 2026-03-03T10:00:00Z */

enum { SECOND = 1000 };

static const struct uuid parent = { { 1, 2, 3, 4 } };

/* An occurrence as the schedule creates it. */
static struct task made(void)
{
    return (struct task){ .id = occurrence_id(parent, NOW),
                          .kind = TASK_OCCURRENCE,
                          .state = TASK_SCHEDULED,
                          .parent = parent,
                          .due_ms = NOW,
                          .scheduled_ms = NOW,
                          .version = 1,
                          .runs_count = 1 };
}

static void what_fired_or_was_touched_is_there_for_good(void **state)
{
    (void)state;
    struct task o[6];
    for (size_t i = 0; i < array_count(o); i++)
        o[i] = made();
    o[0].attempts = 1;
    o[1].losses = 1;
    o[2].started_ms = NOW; /* a manual retry resets the attempts to 0 */
    o[3].version = 2;
    o[4].state = TASK_RUNNING;
    o[5].scheduled_ms++; /* moved, but still a run of its schedule */
    o[5].version = 2;
    for (size_t i = 0; i < array_count(o); i++)
        assert_int_equal(spawned_how(&o[i], false), SPAWNED_FOR_GOOD);
}

static void what_stood_in_line_for_a_slot_is_there_for_good(void **state)
{
    (void)state;
    struct task o = made();
    assert_int_equal(spawned_how(&o, true), SPAWNED_FOR_GOOD); /* it was given a slot */
    o.state = TASK_BLOCKED;
    assert_int_equal(spawned_how(&o, false), SPAWNED_FOR_GOOD);
}

static void what_a_user_asked_for_is_by_hand_whatever_became_of_it(void **state)
{
    (void)state;
    struct task o = {
        .id = { { 9 } }, .kind = TASK_OCCURRENCE, .parent = { { 1 } }, .scheduled_ms = NOW, .version = 1
    };
    for (int s = TASK_SCHEDULED; s <= TASK_EXPIRED; s++) {
        o.state = (enum task_state)s;
        assert_int_equal(spawned_how(&o, false), SPAWNED_BY_HAND);
    }
}

static void what_is_late_was_missed_and_of_all_what_is_too_old(void **state)
{
    (void)state;
    struct schedule s = { .interval_ms = SECOND, .spread_ms = 3600 * SECOND, .catch_up_window_ms = 5 * SECOND };
    int64_t at_ms = NOW + schedule_spread(&s, parent);
    struct task o = { .kind = TASK_OCCURRENCE,
                      .parent = parent,
                      .scheduled_ms = NOW,
                      .due_ms = at_ms + 2 * SECOND,
                      .overlap = OVERLAP_ALLOW };
    static const enum catch_up modes[] = { CATCH_UP_ONE, CATCH_UP_NONE };
    for (size_t i = 0; i < array_count(modes); i++) {
        s.catch_up = modes[i];
        assert_false(spawned_was_missed(&o, &s, o.due_ms));
        assert_true(spawned_was_missed(&o, &s, o.due_ms + 1));
    }
    s.catch_up = CATCH_UP_ALL;
    assert_false(spawned_was_missed(&o, &s, at_ms + 5 * SECOND));
    assert_true(spawned_was_missed(&o, &s, at_ms + 5 * SECOND + 1));
    o.overlap = OVERLAP_SKIP; /* it would be skipped because of another late one */
    assert_false(spawned_was_missed(&o, &s, o.due_ms));
    assert_true(spawned_was_missed(&o, &s, o.due_ms + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fired_or_was_touched_is_there_for_good),
        cmocka_unit_test(what_stood_in_line_for_a_slot_is_there_for_good),
        cmocka_unit_test(what_a_user_asked_for_is_by_hand_whatever_became_of_it),
        cmocka_unit_test(what_is_late_was_missed_and_of_all_what_is_too_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
