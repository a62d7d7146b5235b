/* What only RabbitMQ is held to, next to the suites of the queue and of the events: each amqp_*.c is an area. */
#include "amqp_world.h"

int main(void)
{
    const struct test_list *const areas[] = { &url_tests, &layout_tests, &event_tests, &fault_tests };
    struct CMUnitTest tests[64];
    size_t n = 0;
    for (size_t i = 0; i < array_count(areas); i++) {
        assert_true(n + areas[i]->n <= array_count(tests));
        memcpy(tests + n, areas[i]->v, areas[i]->n * sizeof *tests);
        n += areas[i]->n;
    }
    cmocka_set_test_filter(getenv("BELFRY_TEST_ONLY")); /* one of them, by a pattern */
    return _cmocka_run_group_tests("amqp", tests, n, NULL, NULL);
}
