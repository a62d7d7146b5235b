#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void even_nothing_is_allocated(void **state)
{
    (void)state;
    void *a = xmalloc(0), *b = xcalloc(0, 8), *c = xcalloc(8, 0), *d = xrealloc(NULL, 0);
    assert_true(a && b && c && d);
    d = xrealloc(d, 100);
    memset(d, 1, 100);
    d = xrealloc(d, 0); /* not a call of free */
    assert_non_null(d);
    free(a);
    free(b);
    free(c);
    free(d);
}

static void new_objects_are_zeroed(void **state)
{
    (void)state;
    struct error *e = xnew(*e);
    static const struct error zeros;
    assert_memory_equal(e, &zeros, sizeof zeros);
    free(e);
    int64_t *v = xcalloc(4, sizeof *v);
    assert_true(v[0] == 0 && v[3] == 0);
    free(v);
}

static void realloc_keeps_the_content(void **state)
{
    (void)state;
    char *p = xstrdup("kept");
    p = xrealloc(p, 100000);
    assert_string_equal(p, "kept");
    free(p);
}

static void take_leaves_null_behind(void **state)
{
    (void)state;
    cleanup_with(free_charp) char *p = xstrdup("handed over");
    char *mine = take(p);
    assert_null(p);
    assert_string_equal(mine, "handed over");
    free(mine);
}

static void note_release(int **released)
{
    **released += 1;
}

static void scope_end_releases_also_on_early_return(void **state)
{
    (void)state;
    int released = 0;
    for (int i = 0; i < 3; i++) {
        cleanup_with(note_release) int *guard = &released;
        if (i == 1)
            continue;
        assert_int_equal(*guard, i);
    }
    assert_int_equal(released, 3);
}

static void container_is_found_from_its_member(void **state)
{
    (void)state;
    struct {
        int first;
        struct str s;
    } outer;
    assert_ptr_equal(container_of(&outer.s, typeof(outer), s), &outer);
    assert_ptr_equal(container_of(&outer.first, typeof(outer), first), &outer);
}

/* In a child process: plain builds abort with a line on stderr; in sanitized builds the sanitizer ends the process
 * first. */
static void running_out_of_memory_ends_the_process(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL);
        volatile size_t too_much = SIZE_MAX / 2;
        free(xmalloc(too_much));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_nothing_is_allocated),
        cmocka_unit_test(new_objects_are_zeroed),
        cmocka_unit_test(realloc_keeps_the_content),
        cmocka_unit_test(take_leaves_null_behind),
        cmocka_unit_test(scope_end_releases_also_on_early_return),
        cmocka_unit_test(container_is_found_from_its_member),
        cmocka_unit_test(running_out_of_memory_ends_the_process),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
