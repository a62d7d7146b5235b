/* What a request knows of the recall orders that it told (api/resource/recall.h). */
#include "check.h"

#include "api/resource/recall.h"
#include "api/server/internal.h"
#include "port/queue.h"

enum { ORDERS_MAX = 8 };

static struct api_server server;
static struct request request;
static struct recall_answer *asked[ORDERS_MAX];
static size_t asked_count;
static int64_t steady_ms;

static void ask_owner(void *context, const struct recall_order *order, struct recall_answer *answer)
{
    (void)context, (void)order;
    asked[asked_count++] = answer;
}

static int64_t test_steady_ns(struct clock *c)
{
    (void)c;
    return steady_ms * 1000000;
}

static int begin(void **state)
{
    static const struct clock_ops ops = { .steady_ns = test_steady_ns };
    static struct clock test_clock = { &ops };
    (void)state;
    asked_count = 0;
    server = (struct api_server){ .setup = { .recall = ask_owner, .clock = &test_clock } };
    request = (struct request){ .server = &server };
    return 0;
}

static int end(void **state)
{
    (void)state;
    recall_group_leave(request.recalls);
    return 0;
}

static void tell(bool tells)
{
    struct task t = { .id = { { 1 } }, .fence = 1 };
    recall_tell(&request, &(struct recall_order){ .running = &t, .replace = &t, .lasts = true, .tells = tells });
}

static void answer_order(size_t at, struct recall_answer as)
{
    asked[at]->result = as.result;
    asked[at]->known = as.known;
    asked[at]->told = as.told;
    asked[at]->unsure = as.unsure;
    asked[at]->done(asked[at]);
}

static void each_order_has_its_answer(void **state)
{
    (void)state;
    static const struct {
        struct recall_answer answer;
        bool is_sure;
    } rows[] = { { { .result = RECALL_FREED }, true },
                 { { .result = RECALL_FREED, .unsure = true }, false },
                 { { .result = RECALL_RUNNING, .known = true }, true },
                 { { .result = RECALL_RUNNING, .known = true, .unsure = true }, false },
                 { { .result = RECALL_RUNNING }, false } };
    recall_group_begin(&request, array_count(rows));
    for (size_t i = 0; i < array_count(rows); i++)
        tell(true);
    for (size_t i = array_count(rows); i-- > 0;) {
        assert_false(recall_is_answered(&request));
        answer_order(i, rows[i].answer);
        assert_int_equal(recall_is_sure(&request, i), rows[i].is_sure);
    }
    assert_true(recall_is_answered(&request));
    assert_int_equal(recall_sure_in_ms(&request), 0);
}

static void a_worker_that_was_told_has_its_time(void **state)
{
    (void)state;
    recall_group_begin(&request, 1);
    tell(true);
    answer_order(0, (struct recall_answer){ .result = RECALL_RUNNING, .known = true, .told = true });
    assert_int_equal(recall_sure_in_ms(&request), DELIVERY_HEARD_MS);
    steady_ms += DELIVERY_HEARD_MS;
    assert_int_equal(recall_sure_in_ms(&request), 0);
}

/* Others that want the same task back then need not keep it. */
static void an_owner_sees_that_the_request_asks_no_more(void **state)
{
    (void)state;
    recall_group_begin(&request, 0);
    tell(true);
    tell(false);
    assert_false(atomic_load(asked[0]->over));
    assert_null(asked[1]->over);
    recall_group_begin(&request, 0);
    assert_true(atomic_load(asked[0]->over));
    for (size_t i = 0; i < 2; i++)
        answer_order(i, (struct recall_answer){ .result = RECALL_FREED });
}

/* One request may change several recurring tasks, and waits for the answers about one of them alone. */
static void an_order_that_nobody_asks_about_is_none_of_the_group(void **state)
{
    (void)state;
    recall_group_begin(&request, 1);
    tell(true);
    for (int i = 0; i < 3; i++)
        tell(false);
    answer_order(0, (struct recall_answer){ .result = RECALL_FREED });
    assert_true(recall_is_answered(&request));
    for (size_t i = 1; i < asked_count; i++)
        answer_order(i, (struct recall_answer){ .result = RECALL_RUNNING, .told = true });
    assert_int_equal(recall_sure_in_ms(&request), 0);
}

static void orders_beyond_those_with_a_number_are_waited_for(void **state)
{
    (void)state;
    recall_group_begin(&request, 0);
    tell(true);
    tell(true);
    answer_order(0, (struct recall_answer){ .result = RECALL_FREED });
    assert_false(recall_is_answered(&request));
    answer_order(1, (struct recall_answer){ .result = RECALL_RUNNING, .known = true, .told = true });
    assert_true(recall_is_answered(&request));
    assert_int_equal(recall_sure_in_ms(&request), DELIVERY_HEARD_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_order_has_its_answer, begin, end),
        cmocka_unit_test_setup_teardown(a_worker_that_was_told_has_its_time, begin, end),
        cmocka_unit_test_setup_teardown(an_owner_sees_that_the_request_asks_no_more, begin, end),
        cmocka_unit_test_setup_teardown(an_order_that_nobody_asks_about_is_none_of_the_group, begin, end),
        cmocka_unit_test_setup_teardown(orders_beyond_those_with_a_number_are_waited_for, begin, end),
    };
    return cmocka_run_group_tests_name("recall", tests, NULL, NULL);
}
