#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failpoint.h"

#define MS 1000000LL

static int disarm(void **state)
{
    (void)state;
    return failpoint_arm(S(""), NULL) == ERR_OK ? 0 : -1;
}

static void unarmed_places_do_nothing(void **state)
{
    (void)state;
    assert_false(failpoint("before_commit"));
    assert_false(failpoint("before_fire"));
}

static void error_comes_at_the_first_pass_and_never_again(void **state)
{
    (void)state;
    struct error e;
    assert_ok(failpoint_arm(S("after_commit:error"), &e), &e);
    assert_false(failpoint("before_commit"));
    assert_true(failpoint("after_commit"));
    assert_false(failpoint("after_commit"));
}

static void error_comes_at_the_pass_asked_for(void **state)
{
    (void)state;
    struct error e;
    assert_ok(failpoint_arm(S("before_commit:error:3"), &e), &e);
    assert_false(failpoint("before_commit"));
    assert_false(failpoint("after_commit")); /* another place does not count */
    assert_false(failpoint("before_commit"));
    assert_true(failpoint("before_commit"));
    assert_false(failpoint("before_commit"));
}

static void arming_again_replaces_and_an_empty_spec_disarms(void **state)
{
    (void)state;
    struct error e;
    assert_ok(failpoint_arm(S("before_commit:error"), &e), &e);
    assert_ok(failpoint_arm(S("after_commit:error"), &e), &e);
    assert_false(failpoint("before_commit"));
    assert_ok(failpoint_arm((struct str){ 0 }, &e), &e);
    assert_false(failpoint("after_commit"));
}

/* Passes `name` a number of times in a child process; returns the child's wait status. */
static int status_after(const char *spec, const char *name, int passes)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (failpoint_arm(str_from(spec), NULL) != ERR_OK)
            _exit(2);
        for (int i = 0; i < passes; i++)
            failpoint(name);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void kill_ends_the_process_at_the_pass_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {
#define X(name, follows_error) #name,
        FAILPOINT_MAP(X)
#undef X
    };
    for (size_t i = 0; i < array_count(names); i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s:kill", names[i]);
        int status = status_after(spec, names[i], 1);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    assert_int_equal(status_after("before_call:kill:3", "before_call", 2), 0);
    int status = status_after("before_call:kill:3", "before_call", 3);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(status_after("before_call:kill", "after_call", 5), 0);
}

#define STALL_REFUSED "the stall of a failpoint must be a length and a longer period of at most 1h: 'stall=900ms/4s'"

static void wrong_specs_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *says;
    } rows[] = {
        { "before_comit:kill", "no failpoint 'before_comit'; did you mean 'before_commit'?" },
        { "xyz:kill", "no failpoint 'xyz'" },
        { ":kill", "no failpoint ''" },
        { "before_commit", "the action of a failpoint must be kill or error: 'before_commit:kill'" },
        { "before_commit:", "the action of a failpoint must be kill or error: 'before_commit:kill'" },
        { "before_commit:stop", "the action of a failpoint must be kill or error: 'before_commit:kill'" },
        { "before_fire:error", "failpoint 'before_fire' supports only the action kill" },
        { "before_commit:kill:0", "the count of a failpoint must be a number of at least 1: 'before_commit:kill:3'" },
        { "before_commit:kill:x", "the count of a failpoint must be a number of at least 1: 'before_commit:kill:3'" },
        { "before_commit:kill:1:2", "the count of a failpoint must be a number of at least 1: 'before_commit:kill:3'" },
        { "stall", "no failpoint 'stall'" },
        { "stall=", STALL_REFUSED },
        { "stall=900ms", STALL_REFUSED },
        { "stall=900/4s", STALL_REFUSED },
        { "stall=0s/4s", STALL_REFUSED },
        { "stall=4s/4s", STALL_REFUSED },
        { "stall=1s/1h1s", STALL_REFUSED },
        { "stall=1s/4s/5s", STALL_REFUSED },
    };
    struct error e;
    assert_ok(failpoint_arm(S("after_commit:error"), &e), &e);
    for (size_t i = 0; i < array_count(rows); i++) {
        assert_int_equal(failpoint_arm(str_from(rows[i].spec), &e), ERR_INVALID);
        assert_string_equal(e.text, rows[i].says);
    }
    assert_false(failpoint("before_commit"));
    assert_true(failpoint("after_commit"));
    assert_ok(failpoint_arm(S("stall=10ms/1s"), &e), &e);
    assert_int_equal(failpoint_arm(S("stall=1s"), &e), ERR_INVALID);
    assert_int_equal(failpoint_commit_wait_ns(0), 10 * MS);
}

static void a_commit_waits_until_the_stall_of_its_period_is_over(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(failpoint_commit_wait_ns(0), 0);
    assert_ok(failpoint_arm(S("stall=900ms/4s"), &e), &e);
    assert_int_equal(failpoint_commit_wait_ns(0), 900 * MS);
    assert_int_equal(failpoint_commit_wait_ns(100 * MS), 800 * MS);
    assert_int_equal(failpoint_commit_wait_ns(900 * MS - 1), 1);
    assert_int_equal(failpoint_commit_wait_ns(900 * MS), 0);
    assert_int_equal(failpoint_commit_wait_ns(4000 * MS - 1), 0);
    assert_int_equal(failpoint_commit_wait_ns(400000 * MS), 900 * MS);
    assert_int_equal(failpoint_commit_wait_ns(400300 * MS), 600 * MS);
}

static void a_stall_replaces_a_named_failpoint_and_is_replaced_by_one(void **state)
{
    (void)state;
    struct error e;
    assert_ok(failpoint_arm(S("before_commit:error"), &e), &e);
    assert_ok(failpoint_arm(S("stall=900ms/4s"), &e), &e);
    assert_false(failpoint("before_commit"));
    assert_ok(failpoint_arm(S("before_commit:error"), &e), &e);
    assert_int_equal(failpoint_commit_wait_ns(0), 0);
    assert_true(failpoint("before_commit"));
    assert_ok(failpoint_arm(S("stall=900ms/4s"), &e), &e);
    assert_ok(failpoint_arm(S(""), &e), &e);
    assert_int_equal(failpoint_commit_wait_ns(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(unarmed_places_do_nothing, disarm),
        cmocka_unit_test_teardown(error_comes_at_the_first_pass_and_never_again, disarm),
        cmocka_unit_test_teardown(error_comes_at_the_pass_asked_for, disarm),
        cmocka_unit_test_teardown(arming_again_replaces_and_an_empty_spec_disarms, disarm),
        cmocka_unit_test_teardown(kill_ends_the_process_at_the_pass_asked_for, disarm),
        cmocka_unit_test_teardown(wrong_specs_are_refused_and_change_nothing, disarm),
        cmocka_unit_test_teardown(a_commit_waits_until_the_stall_of_its_period_is_over, disarm),
        cmocka_unit_test_teardown(a_stall_replaces_a_named_failpoint_and_is_replaced_by_one, disarm),
    };
    return cmocka_run_group_tests_name("failpoint", tests, NULL, NULL);
}
