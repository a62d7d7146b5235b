#include "api/live/live_filter.h"

#include "check.h"

static struct live_filters all;

static const struct uuid nil, a = { { 1, 2, 3, [15] = 7 } }, b = { { 1, 2, 4, [15] = 7 } }, c = { { 9, [15] = 8 } };

static int begin(void **state)
{
    (void)state;
    live_filters_init(&all);
    return 0;
}

static void a_stream_without_a_filter_wants_everything(void **state)
{
    (void)state;
    assert_null(live_filters_join(&all, nil, S("")));
    live_filters_fold(&all, a, nil, S("mail"));
    live_filters_fold(&all, b, nil, S(""));
    assert_int_equal(live_filters_folded(&all, NULL), 2);
    assert_false(live_filters_want(&all, a, nil, S("mail"))); /* no filter asks for more than others get */
    live_filters_leave(&all, NULL);
}

static void a_filter_wants_its_task_and_the_occurrences(void **state)
{
    (void)state;
    struct live_filter *f = live_filters_join(&all, a, S(""));
    assert_true(live_filters_want(&all, a, nil, S("mail")));
    assert_true(live_filters_want(&all, c, a, S("mail")));
    assert_false(live_filters_want(&all, b, nil, S("mail"))); /* ids whose bits are equal */
    assert_false(live_filters_want(&all, c, b, S("mail")));
    live_filters_leave(&all, f);
    assert_false(live_filters_want(&all, a, nil, S("mail")));
}

static void a_filter_wants_its_queue(void **state)
{
    (void)state;
    struct live_filter *mail = live_filters_join(&all, nil, S("mail")), *both = live_filters_join(&all, a, S("post"));
    assert_true(live_filters_want(&all, a, nil, S("mail")));
    assert_true(live_filters_want(&all, a, nil, S("post")));
    assert_false(live_filters_want(&all, b, nil, S("post")));
    assert_false(live_filters_want(&all, b, nil, S("nail"))); /* queues whose bits are equal */
    assert_false(live_filters_want(&all, b, nil, S("")));
    live_filters_leave(&all, mail);
    live_filters_leave(&all, both);
}

/* What a folded task costs depends on the filters, not on the streams. */
static void streams_that_want_the_same_share_a_filter(void **state)
{
    (void)state;
    struct live_filter *mail = live_filters_join(&all, nil, S("mail")), *post = live_filters_join(&all, nil, S("post"));
    for (int i = 0; i < 99; i++)
        assert_ptr_equal(live_filters_join(&all, nil, S("mail")), mail);
    for (int i = 0; i < 10; i++)
        live_filters_fold(&all, a, nil, i < 7 ? S("mail") : S("else"));
    assert_int_equal(live_filters_folded(&all, mail), 7);
    assert_int_equal(live_filters_folded(&all, post), 0);
    assert_int_equal(live_filters_folded(&all, NULL), 10);
    for (int i = 0; i < 99; i++)
        live_filters_leave(&all, mail);
    assert_true(live_filters_want(&all, a, nil, S("mail"))); /* the last stream is still there */
    live_filters_leave(&all, mail);
    live_filters_leave(&all, post);
    assert_true(list_empty(&all.v) && !all.queues);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_stream_without_a_filter_wants_everything, begin),
        cmocka_unit_test_setup(a_filter_wants_its_task_and_the_occurrences, begin),
        cmocka_unit_test_setup(a_filter_wants_its_queue, begin),
        cmocka_unit_test_setup(streams_that_want_the_same_share_a_filter, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
