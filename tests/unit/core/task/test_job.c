#include "check.h"

#include "core/task/job.h"

enum { DOC_MAX = 1 << 16 };

/* Writes a job's document and reads it back. */
static struct job kept(const struct job *j, struct arena *a)
{
    struct job back;
    struct error e = { 0 };
    struct buf doc;
    buf_init(&doc, DOC_MAX);
    struct jw w;
    jw_init(&w, &doc);
    job_write(&w, j);
    assert_int_equal(job_read(buf_str(&doc), a, &back, &e), ERR_OK);
    buf_release(&doc);
    return back;
}

static struct job sample(void)
{
    return (struct job){ .id = { { 1 } },
                         .redrive = true,
                         .action = ACTION_RETRY,
                         .filter = S("{\"queue\":\"q\"}"),
                         .pause = S("{\"reason\":\"r\"}"),
                         .cursor = { { 9 } },
                         .done = 3,
                         .rate = 50,
                         .phase = JOB_TEN,
                         .watched = { { { 7 } }, { { 8 } } },
                         .watched_count = 2,
                         .succeeded = 1 };
}

static void whoever_takes_a_job_over_knows_how_far_it_came(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, DOC_MAX);
    struct job j = sample();
    job_count(&j, (struct uuid){ { 5 } }, "it was refused");
    struct job back = kept(&j, &a);
    assert_true(uuid_eq(back.cursor, j.cursor) && uuid_eq(back.watched[1], j.watched[1]));
    assert_int_equal(back.done, 3);
    assert_int_equal(back.failed, 1);
    assert_true(str_eq(back.failures[0].error, S("it was refused")));
    assert_int_equal(back.phase, JOB_TEN);
    assert_int_equal(back.watched_count, 2);
    assert_true(str_eq(back.filter, j.filter) && str_eq(back.pause, j.pause));
    assert_false(back.cancelling);
}

static void a_job_is_about_to_be_cancelled_only_while_it_runs(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, DOC_MAX);
    struct job j = sample();
    j.cancelling = true;
    assert_true(kept(&j, &a).cancelling);
    j.state = JOB_CANCELLED;
    assert_false(kept(&j, &a).cancelling);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_takes_a_job_over_knows_how_far_it_came),
        cmocka_unit_test(a_job_is_about_to_be_cancelled_only_while_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
