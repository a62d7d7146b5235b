/* Checks each adapter against port/queue.h: queue_suite [adapter [pattern of test names]]. Each sentence there has a
 * test in one of the queue_suite_*.c. */
#include "queue_world.h"

int main(int argc, char **argv)
{
    const struct test_list *const areas[] = { &delivery_tests, &timeout_tests, &filter_tests, &places_tests,
                                              &random_tests };
    struct CMUnitTest tests[128];
    size_t n = 0;
    for (size_t i = 0; i < array_count(areas); i++) {
        memcpy(tests + n, areas[i]->v, areas[i]->n * sizeof *tests);
        n += areas[i]->n;
    }
    adapter_under_test = queue_adapter_of(argc, argv);
    if (!adapter_under_test) {
        fprintf(stderr, "%s is no queue that was built\n", argv[1]);
        return 2;
    }
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return _cmocka_run_group_tests(adapter_under_test->name, tests, n, NULL, NULL);
}
