/* How many different needs the tasks of a tenant may have, and how many hosts have lanes of their own. */
#include <stdio.h>

#include "check.h"
#include "node/tenant_needs.h"

static int setup(void **state)
{
    *state = tenant_set_new(TENANT_NEEDS_MAX);
    return 0;
}

static int teardown(void **state)
{
    tenant_set_free(*state);
    return 0;
}

static struct task needs(int32_t tenant, const char *labels, int64_t cpu_milli)
{
    return (struct task){ .tenant = tenant,
                          .queue = S("default"),
                          .target = TARGET_HTTP,
                          .requires = str_from(labels),
                          .cpu_milli = cpu_milli };
}

static bool accepts(struct tenant_set *n, struct task t)
{
    return tenant_needs_accept(n, &t);
}

static void fill(struct tenant_set *n, int32_t tenant)
{
    for (int i = 1; i <= TENANT_NEEDS_MAX; i++)
        assert_true(accepts(n, needs(tenant, "", i)));
}

static void beyond_the_limit_only_known_needs_are_accepted(void **state)
{
    fill(*state, 1);
    assert_false(accepts(*state, needs(1, "gpu", 0)));
    assert_false(accepts(*state, needs(1, "gpu", 0))); /* a refused one does not become known */
    assert_false(accepts(*state, needs(1, "gpu", 1)));
    assert_true(accepts(*state, needs(1, "", 1)));
    assert_true(accepts(*state, needs(1, "", TENANT_NEEDS_MAX)));
}

static void each_tenant_has_its_own(void **state)
{
    fill(*state, 1);
    assert_true(accepts(*state, needs(2, "gpu", 0)));
    fill(*state, 3);
}

static void the_same_needs_count_once_and_none_do_not_count(void **state)
{
    for (int i = 0; i < 2 * TENANT_NEEDS_MAX; i++)
        assert_true(accepts(*state, needs(1, "eu,gpu", 500)));
    fill(*state, 2);
    assert_true(accepts(*state, needs(2, "", 0)));
    struct task leased = needs(2, "gpu", 0); /* leased by queue: its needs make no lane */
    leased.target = TARGET_WORKER;
    assert_true(accepts(*state, leased));
}

/* Another node has accepted them, or they are from before the limit. */
static void what_the_store_has_is_known_and_counts(void **state)
{
    struct lane lanes[TENANT_NEEDS_MAX + 2] = { { .tenant = 1 } };
    for (int i = 1; i < TENANT_NEEDS_MAX + 2; i++)
        lanes[i] = (struct lane){ .tenant = 1, .queue = S("default"), .memory_mb = i };
    tenant_needs_know(*state, lanes, TENANT_NEEDS_MAX + 2);
    assert_false(accepts(*state, needs(1, "gpu", 0)));
    struct task t = needs(1, "", 0);
    t.memory_mb = TENANT_NEEDS_MAX + 1;
    assert_true(accepts(*state, t));
}

static void what_nobody_has_any_more_makes_room(void **state)
{
    fill(*state, 1);
    assert_false(tenant_set_has_refused(*state));
    assert_false(accepts(*state, needs(1, "quite-new", 0)));
    assert_true(tenant_set_has_refused(*state));
    tenant_set_clear(*state);
    assert_false(tenant_set_has_refused(*state));
    assert_true(accepts(*state, needs(1, "quite-new", 0)));
    assert_false(tenant_set_has_refused(*state));
}

static void beyond_the_limit_new_hosts_share_a_lane(void **state)
{
    (void)state;
    struct tenant_set *hosts = tenant_set_new(TENANT_HOSTS_MAX);
    struct lane known[] = { { .tenant = 1, .host = S("known.example") }, { .tenant = 1 } };
    tenant_hosts_know(hosts, known, 2);
    char name[32];
    for (int i = 1; i < TENANT_HOSTS_MAX; i++) {
        snprintf(name, sizeof name, "h%d.example", i);
        assert_str(tenant_hosts_lane(hosts, 1, str_from(name)), name);
    }
    assert_str(tenant_hosts_lane(hosts, 1, S("one.too.many")), TENANT_HOSTS_OTHERS);
    assert_str(tenant_hosts_lane(hosts, 1, S("known.example")), "known.example");
    assert_str(tenant_hosts_lane(hosts, 1, S("h7.example")), "h7.example");
    assert_str(tenant_hosts_lane(hosts, 2, S("one.too.many")), "one.too.many");
    tenant_set_free(hosts);
}

int main(void)
{
#define needs_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        needs_test(beyond_the_limit_only_known_needs_are_accepted),
        needs_test(each_tenant_has_its_own),
        needs_test(the_same_needs_count_once_and_none_do_not_count),
        needs_test(what_the_store_has_is_known_and_counts),
        needs_test(what_nobody_has_any_more_makes_room),
        needs_test(beyond_the_limit_new_hosts_share_a_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
