/* Checks each adapter against port/events.h: events_suite [adapter]. Each sentence there has a test in one of the
 * events_suite_*.c. */
#include "events_world.h"

int main(int argc, char **argv)
{
    const struct test_list *const areas[] = { &carry_tests, &updater_tests };
    struct CMUnitTest tests[64];
    size_t n = 0;
    for (size_t i = 0; i < array_count(areas); i++) {
        memcpy(tests + n, areas[i]->v, areas[i]->n * sizeof *tests);
        n += areas[i]->n;
    }
    adapter_under_test = events_adapter_of(argc, argv);
    if (!adapter_under_test) {
        fprintf(stderr, "%s are no events that were built\n", argv[1]);
        return 2;
    }
    return _cmocka_run_group_tests(adapter_under_test->name, tests, n, NULL, NULL);
}
