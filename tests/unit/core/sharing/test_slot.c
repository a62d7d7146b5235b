#include "check.h"

#include "core/sharing/slot.h"

static const struct uuid parent = { { 0x01, 0x9c, 0x46, 0x90, 0x7c, 0x00, 0x72, 0xfa, 0x8c, 0xe1, 1, 2, 3, 4, 5, 6 } };

static struct task run_with(enum overlap overlap)
{
    return (struct task){ .kind = TASK_OCCURRENCE, .tenant = 12, .parent = parent, .overlap = overlap };
}

static struct task keyed(struct str key, int limit)
{
    return (struct task){ .tenant = 12, .concurrency_key = key, .concurrency_limit = limit };
}

static void a_plain_task_needs_no_slot(void **state)
{
    (void)state;
    struct slot_need needs[SLOTS_MAX];
    struct task one_time = { .tenant = 1 }, allowed = run_with(OVERLAP_ALLOW), no_limit = keyed(S("db"), 0);
    assert_int_equal(slot_needs(&one_time, needs), 0);
    assert_int_equal(slot_needs(&allowed, needs), 0);
    assert_int_equal(slot_needs(&no_limit, needs), 0);
}

static void a_recurring_task_itself_needs_none(void **state)
{
    (void)state;
    struct slot_need needs[SLOTS_MAX];
    struct task t = keyed(S("db"), 3);
    t.kind = TASK_RECURRING;
    assert_int_equal(slot_needs(&t, needs), 0);
}

static void a_run_needs_the_one_slot_of_its_task_first(void **state)
{
    (void)state;
    struct slot_need needs[SLOTS_MAX];
    struct task t = run_with(OVERLAP_QUEUE_ONE);
    t.concurrency_key = S("db: 100 %");
    t.concurrency_limit = 7;
    assert_int_equal(slot_needs(&t, needs), 2);
    assert_int_equal(needs[0].kind, SLOT_OVERLAP);
    assert_str(needs[0].key, "o:019c4690-7c00-72fa-8ce1-010203040506");
    assert_int_equal(needs[0].limit, 1);
    assert_int_equal(needs[0].policy, OVERLAP_QUEUE_ONE);
    assert_int_equal(needs[1].kind, SLOT_KEY);
    assert_str(needs[1].key, "c:12:db: 100 %");
    assert_int_equal(needs[1].limit, 7);
    assert_int_equal(needs[1].policy, OVERLAP_QUEUE_ALL);
    assert_int_equal(slot_kind_of(needs[0].key), SLOT_OVERLAP);
    assert_int_equal(slot_kind_of(needs[1].key), SLOT_KEY);
}

static void the_policy_decides_what_a_late_run_does(void **state)
{
    (void)state;
    static const struct {
        enum overlap policy;
        enum slot_answer alone, behind_others;
    } rows[] = {
        { OVERLAP_SKIP, SLOT_SKIP, SLOT_SKIP },
        { OVERLAP_QUEUE_ONE, SLOT_WAIT, SLOT_SKIP },
        { OVERLAP_QUEUE_ALL, SLOT_WAIT, SLOT_WAIT },
        { OVERLAP_CANCEL_PREVIOUS, SLOT_REPLACE, SLOT_REPLACE },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct slot_need need = { .policy = rows[i].policy };
        assert_int_equal(slot_decide(&need, 0, false, false), rows[i].alone);
        assert_int_equal(slot_decide(&need, 1, false, false), rows[i].behind_others);
        enum slot_answer promised = rows[i].policy == OVERLAP_CANCEL_PREVIOUS ? SLOT_WAIT : rows[i].behind_others;
        assert_int_equal(slot_decide(&need, 1, false, true), promised);
        assert_int_equal(slot_decide(&need, 0, true, false), SLOT_WAIT);
        assert_int_equal(slot_decide(&need, 1, true, false), SLOT_WAIT);
    }
}

static void a_slot_is_held_ahead_until_its_run_is_due_or_has_begun(void **state)
{
    (void)state;
    struct task t = run_with(OVERLAP_SKIP), retried = t, lost = t, by_hand = t;
    t.due_ms = retried.due_ms = lost.due_ms = by_hand.due_ms = 1000;
    retried.attempts = lost.losses = 1;
    by_hand.started_ms = 10; /* a retry by hand resets the attempts */
    assert_true(slot_is_held_ahead(&t, 999));
    assert_false(slot_is_held_ahead(&t, 1000));
    assert_false(slot_is_held_ahead(&retried, 999));
    assert_false(slot_is_held_ahead(&lost, 999));
    assert_false(slot_is_held_ahead(&by_hand, 999));
}

static void a_key_is_held_while_running_and_a_run_until_it_is_final(void **state)
{
    (void)state;
    for (int s = 0; s <= TASK_EXPIRED; s++) {
        enum task_state next = (enum task_state)s;
        assert_int_equal(slot_outlives(SLOT_KEY, next), next == TASK_RUNNING);
        assert_int_equal(slot_outlives(SLOT_OVERLAP, next), !task_is_final(next));
    }
}

static void a_slot_is_kept_only_by_who_needs_it_still(void **state)
{
    (void)state;
    struct task t = keyed(S("db"), 1);
    t.state = TASK_RUNNING;
    assert_true(slot_is_kept(&t, S("c:12:db")));
    assert_false(slot_is_kept(&t, S("c:12:d")));
    assert_false(slot_is_kept(&t, S("o:019c4690-7c00-72fa-8ce1-010203040506")));
    t.deleted = true;
    assert_false(slot_is_kept(&t, S("c:12:db")));
    t = run_with(OVERLAP_SKIP);
    t.state = TASK_PAUSED;
    assert_false(slot_is_kept(&t, S("o:019c4690-7c00-72fa-8ce1-010203040506"))); /* it has not begun */
    t.state = TASK_BLOCKED;
    assert_true(slot_is_kept(&t, S("o:019c4690-7c00-72fa-8ce1-010203040506")));
    t.state = TASK_PAUSED;
    t.attempts = 1;
    assert_true(slot_is_kept(&t, S("o:019c4690-7c00-72fa-8ce1-010203040506")));
    t.overlap = OVERLAP_ALLOW;
    assert_false(slot_is_kept(&t, S("o:019c4690-7c00-72fa-8ce1-010203040506")));
}

static struct task tidied(enum task_state state, struct str waits_for, struct str waited_for)
{
    struct task t = keyed(S("db"), 1);
    t.state = state;
    t.waits_for = waits_for;
    slot_tidy(&t, waited_for);
    return t;
}

static void only_who_is_blocked_waits_and_for_what_its_row_waits_for(void **state)
{
    (void)state;
    struct str key = S("c:12:db"), other = S("c:12:cpu"), none = { 0 };
    struct task t = tidied(TASK_BLOCKED, key, key);
    assert_int_equal(t.state, TASK_BLOCKED);
    assert_str(t.waits_for, "c:12:db");
    t = tidied(TASK_BLOCKED, other, key); /* an edit of an earlier version of the row */
    assert_int_equal(t.state, TASK_BLOCKED);
    assert_str(t.waits_for, "c:12:db");
    t = tidied(TASK_BLOCKED, other, other); /* it no longer needs that slot */
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_str(t.waits_for, "");
    t = tidied(TASK_BLOCKED, key, none); /* its row did not wait */
    assert_int_equal(t.state, TASK_SCHEDULED);
    t = tidied(TASK_PAUSED, key, key);
    assert_int_equal(t.state, TASK_PAUSED);
    assert_str(t.waits_for, "");
    t = tidied(TASK_BLOCKED, none, key); /* blocked by something else */
    assert_int_equal(t.state, TASK_BLOCKED);
    assert_str(t.waits_for, "");
}

static void a_deleted_task_waits_for_nothing_and_is_not_scheduled(void **state)
{
    (void)state;
    struct task t = keyed(S("db"), 1);
    t.state = TASK_BLOCKED;
    t.deleted = true;
    t.waits_for = S("c:12:db");
    slot_tidy(&t, t.waits_for);
    assert_int_equal(t.state, TASK_BLOCKED);
    assert_str(t.waits_for, "");
}

static void reasons_name_the_run(void **state)
{
    (void)state;
    char text[SLOT_REASON_MAX];
    assert_str(slot_skip_reason(1770710400000, text), "skipped: the run of 2026-02-10T08:00:00.000Z is not over");
    assert_str(slot_replace_reason(1770710400001, text), "replaced by the run of 2026-02-10T08:00:00.001Z");
}

static void keys_are_listed_once_in_the_order_they_came(void **state)
{
    (void)state;
    struct slot_keys keys;
    struct str key;
    size_t at = 0, n = 0;
    static const char *const expected[] = { "c:1:b", "c:1:bb", "o:x" };
    slot_keys_init(&keys);
    assert_false(slot_keys_next(&keys, &at, &key));
    slot_keys_add(&keys, S("c:1:b"));
    slot_keys_add(&keys, S("c:1:bb"));
    slot_keys_add(&keys, S("c:1:b"));
    slot_keys_add(&keys, S("o:x"));
    slot_keys_add(&keys, S("o:x"));
    for (; slot_keys_next(&keys, &at, &key); n++)
        assert_str(key, expected[n]);
    assert_int_equal(n, 3);
    slot_keys_release(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_task_needs_no_slot),
        cmocka_unit_test(a_recurring_task_itself_needs_none),
        cmocka_unit_test(a_run_needs_the_one_slot_of_its_task_first),
        cmocka_unit_test(the_policy_decides_what_a_late_run_does),
        cmocka_unit_test(a_key_is_held_while_running_and_a_run_until_it_is_final),
        cmocka_unit_test(a_slot_is_held_ahead_until_its_run_is_due_or_has_begun),
        cmocka_unit_test(a_slot_is_kept_only_by_who_needs_it_still),
        cmocka_unit_test(only_who_is_blocked_waits_and_for_what_its_row_waits_for),
        cmocka_unit_test(a_deleted_task_waits_for_nothing_and_is_not_scheduled),
        cmocka_unit_test(reasons_name_the_run),
        cmocka_unit_test(keys_are_listed_once_in_the_order_they_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
