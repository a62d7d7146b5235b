/* Tests of RabbitMQ only, next to the suites of the queue and of the events: each amqp_*.c is an area. The arguments
 * name the areas to run. Most tests wait for brokers that restart, so several areas run at once. */
#include "amqp_world.h"

static const struct area {
    const char *name;
    const struct test_list *tests;
} areas[] = { { "url", &url_tests },      { "layout", &layout_tests }, { "control", &control_tests },
              { "events", &event_tests }, { "faults", &fault_tests },  { "crashes", &crash_tests } };

static const struct test_list *find_area(const char *name)
{
    for (size_t i = 0; i < array_count(areas); i++)
        if (strcmp(areas[i].name, name) == 0)
            return areas[i].tests;
    fail_msg("there is no area \"%s\"", name);
    abort();
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[64];
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        const struct test_list *area = find_area(argv[i]);
        assert_true(n + area->n <= array_count(tests));
        memcpy(tests + n, area->v, area->n * sizeof *tests);
        n += area->n;
    }
    cmocka_set_test_filter(getenv("BELFRY_TEST_ONLY")); /* selects tests by a pattern */
    return _cmocka_run_group_tests("amqp", tests, n, NULL, NULL);
}
