/* core/sharing/pools: which workers can run the tasks of a lane, and what the others lack. */
#include "core/sharing/pools.h"

#include "check.h"

enum { GROUPS_MAX = 4 };

static const struct lane plain = { .tenant = 1, .queue = { "mail", 4 }, .priority = 5 };

static struct worker_group group(void)
{
    return (struct worker_group){ .kind = { .priority_max = PRIORITY_MAX, .cpu_milli = -1, .memory_mb = -1 },
                                  .slots = 10,
                                  .workers = 1 };
}

static struct worker_group group_of(const char *queues, const char *tenants, const char *labels)
{
    struct worker_group g = group();
    g.kind.queues = str_from(queues);
    g.kind.tenants = str_from(tenants);
    g.kind.labels = str_from(labels);
    return g;
}

static struct lane needs(const char *labels, int64_t cpu_milli, int64_t memory_mb)
{
    struct lane l = plain;
    l.requires = str_from(labels);
    l.cpu_milli = cpu_milli;
    l.memory_mb = memory_mb;
    return l;
}

static bool serves(struct worker_group g, struct lane lane)
{
    return worker_group_serves(&g, &lane, S("acme"));
}

static struct pool_shortage shortage(struct lane lane, const struct worker_group *v, size_t n)
{
    struct worker_group copy[GROUPS_MAX];
    assert_true(n <= GROUPS_MAX);
    for (size_t i = 0; i < n; i++)
        copy[i] = v[i];
    return pool_shortage_of(&(struct worker_groups){ copy, n }, &lane, S("acme"));
}

static void assert_short(struct pool_shortage s, enum pool_need need, const char *missing, const char *reason)
{
    assert_int_equal(s.need, need);
    assert_string_equal(s.missing, missing);
    assert_string_equal(s.reason, reason);
}

static void an_empty_list_lets_everything_through(void **state)
{
    (void)state;
    assert_true(serves(group(), plain));
}

static void a_list_names_whole_words(void **state)
{
    (void)state;
    assert_true(serves(group_of("mail", "acme", ""), plain));
    assert_true(serves(group_of("a,mail,z", "a,acme", ""), plain));
    assert_false(serves(group_of("mail2,mai", "", ""), plain));
    assert_false(serves(group_of("", "acm,acme2", ""), plain));
}

static void priorities_are_a_range(void **state)
{
    (void)state;
    struct worker_group g = group();
    struct lane lane = plain;
    g.kind.priority_min = 7;
    assert_false(serves(g, lane));
    lane.priority = 7;
    assert_true(serves(g, lane));
    g.kind.priority_max = 7;
    assert_true(serves(g, lane));
    lane.priority = 8;
    assert_false(serves(g, lane));
}

static void a_worker_has_every_label_that_a_task_requires(void **state)
{
    (void)state;
    assert_false(serves(group(), needs("gpu", 0, 0)));
    assert_true(serves(group_of("", "", "gpu"), needs("gpu", 0, 0)));
    assert_true(serves(group_of("", "", "eu,gpu,ssd"), needs("eu,gpu", 0, 0)));
    assert_false(serves(group_of("", "", "eu"), needs("eu,gpu", 0, 0)));
    assert_true(serves(group_of("", "", "eu"), plain));
}

static void a_worker_that_told_nothing_of_itself_may_run_anything(void **state)
{
    (void)state;
    struct worker_group g = { .kind = WORKER_KIND_UNKNOWN, .slots = 1, .workers = 1 };
    assert_true(serves(g, needs("eu,gpu", 64000, 1 << 20)));
}

static void one_worker_has_the_resources_that_a_task_needs(void **state)
{
    (void)state;
    struct worker_group g = group();
    assert_true(serves(g, needs("", 64000, 1 << 20)));
    g.kind.cpu_milli = 2000;
    g.kind.memory_mb = 4000;
    g.workers = 8;
    assert_true(serves(g, needs("", 2000, 4000)));
    assert_false(serves(g, needs("", 2001, 0)));
    assert_false(serves(g, needs("", 0, 4001)));
}

static void a_group_without_slots_serves_nothing(void **state)
{
    (void)state;
    struct worker_group g = group();
    g.slots = 0;
    assert_false(serves(g, plain));
    assert_short(shortage(plain, &g, 1), POOL_WORKER, "worker", "there is no worker");
}

static void resources_bound_how_many_run_at_once(void **state)
{
    (void)state;
    struct worker_group g = group();
    struct lane big = needs("", 1500, 3000);
    g.slots = 300;
    g.workers = 3;
    assert_int_equal(worker_group_places(&g, &plain), 300);
    assert_int_equal(worker_group_places(&g, &big), 300);
    g.kind.cpu_milli = 4000;
    assert_int_equal(worker_group_places(&g, &big), 6);
    g.kind.memory_mb = 5999;
    assert_int_equal(worker_group_places(&g, &big), 3);
    assert_int_equal(worker_group_places(&g, &plain), 300);
    g.slots = 2;
    assert_int_equal(worker_group_places(&g, &big), 2);
}

static void kinds_are_compared_by_all_that_they_say(void **state)
{
    (void)state;
    struct worker_group a = group_of("q", "t", "l"), b = a;
    assert_true(worker_kind_compare(&a.kind, &b.kind) == 0);
    b.kind.memory_mb = 5;
    assert_true(worker_kind_compare(&a.kind, &b.kind) != 0);
    assert_true(worker_kind_compare(&a.kind, &b.kind) < 0 && worker_kind_compare(&b.kind, &a.kind) > 0);
    b = a;
    b.kind.labels = S("k");
    assert_true(worker_kind_compare(&a.kind, &b.kind) > 0);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    struct worker_group g = group_of("other", "", "");
    assert_short(shortage(plain, NULL, 0), POOL_WORKER, "worker", "there is no worker");
    assert_short(shortage(plain, &g, 1), POOL_QUEUE, "queue mail", "no worker serves its queue mail");
    g = group_of("", "other", "");
    assert_short(shortage(plain, &g, 1), POOL_TENANT, "tenant acme", "no worker serves its tenant acme");
    g = group();
    assert_int_equal(shortage(plain, &g, 1).need, POOL_NOTHING);
    assert_short(shortage(needs("eu,gpu", 0, 0), &g, 1), POOL_LABEL, "label eu", "no worker has the label eu");
    g.kind.priority_max = 4;
    assert_short(shortage(plain, &g, 1), POOL_PRIORITY, "priority 5", "no worker serves priority 5");
    g = group();
    g.kind.cpu_milli = 2500;
    assert_short(shortage(needs("", 4000, 0), &g, 1), POOL_CPU, "cpu 4",
                 "it needs 4 CPUs, and the largest worker has 2.5");
    g.kind.cpu_milli = 500;
    assert_short(shortage(needs("", 1000, 0), &g, 1), POOL_CPU, "cpu 1",
                 "it needs 1 CPU, and the largest worker has 0.5");
    g = group();
    g.kind.memory_mb = 16000;
    assert_short(shortage(needs("", 0, 32000), &g, 1), POOL_MEMORY, "memory_mb 32000",
                 "it needs 32000 MB of memory, and the largest worker has 16000 MB");
}

static void the_nearest_group_says_what_is_missing(void **state)
{
    (void)state;
    struct worker_group v[] = { group_of("other", "", "gpu"), group_of("mail", "", "eu"),
                                group_of("mail", "nobody", "") };
    assert_short(shortage(needs("eu,gpu", 0, 0), v, 3), POOL_LABEL, "label gpu",
                 "no worker that could otherwise run it has the label gpu");
    v[0] = group_of("mail", "", "");
    assert_short(shortage(needs("eu,gpu", 0, 0), v, 3), POOL_LABEL, "label gpu", "no worker has the label gpu");
}

static void the_largest_worker_is_one_that_could_run_it(void **state)
{
    (void)state;
    struct worker_group v[] = { group_of("", "", "gpu"), group_of("", "", "gpu"), group() };
    v[0].kind.cpu_milli = 1000;
    v[1].kind.cpu_milli = 3000;
    v[2].kind.cpu_milli = 3500;
    assert_short(shortage(needs("gpu", 4000, 0), v, 3), POOL_CPU, "cpu 4",
                 "it needs 4 CPUs, and the largest worker has 3");
    v[2].kind.cpu_milli = 64000;
    assert_short(shortage(needs("gpu", 4000, 0), v, 3), POOL_CPU, "cpu 4",
                 "it needs 4 CPUs, and the largest worker that could otherwise run it has 3");
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'x', sizeof name);
    struct lane lane = plain;
    struct worker_group g = group_of("other", "", "");
    lane.queue = (struct str){ name, sizeof name };
    assert_true(strlen(shortage(lane, &g, 1).missing) < POOL_MISSING_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_list_lets_everything_through),
        cmocka_unit_test(a_list_names_whole_words),
        cmocka_unit_test(priorities_are_a_range),
        cmocka_unit_test(a_worker_has_every_label_that_a_task_requires),
        cmocka_unit_test(a_worker_that_told_nothing_of_itself_may_run_anything),
        cmocka_unit_test(one_worker_has_the_resources_that_a_task_needs),
        cmocka_unit_test(a_group_without_slots_serves_nothing),
        cmocka_unit_test(resources_bound_how_many_run_at_once),
        cmocka_unit_test(kinds_are_compared_by_all_that_they_say),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(the_nearest_group_says_what_is_missing),
        cmocka_unit_test(the_largest_worker_is_one_that_could_run_it),
        cmocka_unit_test(a_long_name_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
