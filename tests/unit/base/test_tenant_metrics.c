#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/tenant_metrics.h"

enum { DAY_MS = 86400000, NOW_MS = 1000 };

static void name_tenant(void *context, int32_t tenant, struct buf *out)
{
    (void)context;
    buf_printf(out, "t%d", (int)tenant);
}

static int open_tenants(void **state)
{
    struct tenant_metrics *t = tenant_metrics_new();
    tenant_metrics_set_max(t, 2);
    *state = t;
    return 0;
}

static int close_tenants(void **state)
{
    tenant_metrics_free(*state);
    return 0;
}

/* Whether the printed text has the line. */
static bool shows(struct tenant_metrics *t, int64_t now_ms, const char *line)
{
    struct buf out;
    char whole[256];
    buf_init(&out, 1 << 20);
    buf_char(&out, '\n');
    tenant_metrics_print(t, now_ms, &(struct tenant_names){ .name = name_tenant }, &out);
    snprintf(whole, sizeof whole, "\n%s\n", line);
    bool found = strstr(buf_cstr(&out), whole) != NULL;
    buf_release(&out);
    return found;
}

static void tenants_beyond_the_limit_are_summed_up(void **state)
{
    struct tenant_metrics *t = *state;
    for (int32_t tenant = 1; tenant <= 5; tenant++)
        tenant_metrics_count(t, tenant, TENANT_COMPLETED);
    tenant_metrics_count(t, 5, TENANT_COMPLETED);
    assert_true(shows(t, NOW_MS, "belfry_tenant_tasks_total{tenant=\"t1\",outcome=\"completed\"} 1"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_tasks_total{tenant=\"t2\",outcome=\"completed\"} 1"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_tasks_total{tenant=\"_other\",outcome=\"completed\"} 4"));
    assert_true(shows(t, NOW_MS, "belfry_series_folded{kind=\"tenant\"} 3"));
}

static void delays_are_a_histogram_of_each_tenant(void **state)
{
    struct tenant_metrics *t = *state;
    tenant_metrics_observe_delay_us(t, 7, 100000);
    tenant_metrics_observe_delay_us(t, 7, 2500000);
    assert_true(shows(t, NOW_MS, "belfry_tenant_delay_seconds_bucket{tenant=\"t7\",le=\"0.1\"} 1"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_delay_seconds_bucket{tenant=\"t7\",le=\"5\"} 2"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_delay_seconds_sum{tenant=\"t7\"} 2.600000"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_delay_seconds_count{tenant=\"t7\"} 2"));
}

static void a_gauge_shows_the_last_figures_only(void **state)
{
    struct tenant_metrics *t = *state;
    const struct tenant_figure many[] = { { 1, 10 }, { 2, 20 }, { 3, 30 }, { 4, 40 } }, one[] = { { 2, 5 } };
    assert_false(shows(t, NOW_MS, "belfry_tenant_running{tenant=\"_other\"} 0"));
    tenant_metrics_set(t, TENANT_RUNNING, many, array_count(many));
    assert_true(shows(t, NOW_MS, "belfry_tenant_running{tenant=\"t1\"} 10"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_running{tenant=\"_other\"} 70"));
    tenant_metrics_set(t, TENANT_RUNNING, one, array_count(one));
    assert_true(shows(t, NOW_MS, "belfry_tenant_running{tenant=\"t1\"} 0"));
    assert_true(shows(t, NOW_MS, "belfry_tenant_running{tenant=\"t2\"} 5"));
    tenant_metrics_set(t, TENANT_RUNNING, NULL, 0);
    assert_false(shows(t, NOW_MS, "belfry_tenant_running{tenant=\"t2\"} 5"));
}

static void a_tenant_keeps_its_series_until_it_was_idle_for_a_day(void **state)
{
    struct tenant_metrics *t = *state;
    for (int32_t tenant = 1; tenant <= 3; tenant++)
        tenant_metrics_count(t, tenant, TENANT_FAILED);
    assert_true(shows(t, NOW_MS, "belfry_tenant_tasks_total{tenant=\"t1\",outcome=\"failed\"} 1"));
    tenant_metrics_count(t, 2, TENANT_FAILED);
    assert_true(shows(t, NOW_MS + DAY_MS - 1, "belfry_tenant_tasks_total{tenant=\"t1\",outcome=\"failed\"} 1"));
    assert_false(shows(t, NOW_MS + DAY_MS, "belfry_tenant_tasks_total{tenant=\"t1\",outcome=\"failed\"} 1"));
    assert_true(shows(t, NOW_MS + DAY_MS, "belfry_tenant_tasks_total{tenant=\"t2\",outcome=\"failed\"} 2"));
    tenant_metrics_count(t, 3, TENANT_FAILED);
    assert_true(shows(t, NOW_MS + DAY_MS, "belfry_tenant_tasks_total{tenant=\"t3\",outcome=\"failed\"} 1"));
    assert_true(shows(t, NOW_MS + DAY_MS, "belfry_series_folded{kind=\"tenant\"} 0"));
}

int main(void)
{
#define tenants_test(f) cmocka_unit_test_setup_teardown(f, open_tenants, close_tenants)
    const struct CMUnitTest tests[] = {
        tenants_test(tenants_beyond_the_limit_are_summed_up),
        tenants_test(delays_are_a_histogram_of_each_tenant),
        tenants_test(a_gauge_shows_the_last_figures_only),
        tenants_test(a_tenant_keeps_its_series_until_it_was_idle_for_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
