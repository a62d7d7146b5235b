/* Holds each adapter to port/store.h: store_suite [adapter]. Each sentence there is a test in one of the
 * folders beside this file. */
#include <stdio.h>

#include "store_world.h"

int main(int argc, char **argv)
{
    const struct test_list *const areas[] = {
        &insert_tests,   &claim_tests,      &settle_tests,    &recurring_tests,  &missed_tests, &put_tests,
        &read_tests,     &dedupe_tests,     &catalog_tests,   &forget_tests,     &causes_tests, &growth_tests,
        &slot_tests,     &line_tests,       &overlap_tests,   &suspect_tests,    &limits_tests, &node_tests,
        &share_tests,    &partition_tests,  &hand_tests,      &retake_tests,     &lease_tests,  &worker_tests,
        &breaker_tests,  &reseal_tests,     &far_tests,       &priority_tests,   &late_tests,   &join_tests,
        &run_tests,      &run_change_tests, &run_retry_tests, &run_record_tests, &audit_tests,  &stats_tests,
        &incident_tests, &change_tests,
    };
    struct CMUnitTest tests[1024];
    size_t n = 0;
    for (size_t i = 0; i < array_count(areas); i++) {
        memcpy(tests + n, areas[i]->v, areas[i]->n * sizeof *tests);
        n += areas[i]->n;
    }
    adapter_under_test = store_adapter_of(argc, argv);
    if (!adapter_under_test) {
        fprintf(stderr, "%s is no store that was built\n", argv[1]);
        return 2;
    }
    return _cmocka_run_group_tests(adapter_under_test->name, tests, n, NULL, NULL);
}
