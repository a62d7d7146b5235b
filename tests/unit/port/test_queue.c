/* port/queue: which kind a worker is of, by its filter. */
#include "port/queue.h"

#include "check.h"

enum { ARENA = 1 << 16 };

static void a_filter_becomes_sorted_lists(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, ARENA);
    const struct str queues[] = { S("reports"), S("mail"), S("reports") }, tenants[] = { S("acme") },
                     labels[] = { S("gpu"), S("eu") };
    struct queue_filter f = { .queues = queues,
                              .queue_count = 3,
                              .tenants = tenants,
                              .tenant_count = 1,
                              .labels = labels,
                              .label_count = 2,
                              .priority_min = 3,
                              .priority_max = 7 };
    struct worker_kind k = queue_worker_kind(&f, 2000, 512, &a);
    assert_str(k.queues, "mail,reports");
    assert_str(k.tenants, "acme");
    assert_str(k.labels, "eu,gpu");
    assert_true(k.priority_min == 3 && k.priority_max == 7 && k.cpu_milli == 2000 && k.memory_mb == 512);
}

static void without_a_filter_it_serves_every_task_that_requires_no_label(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, ARENA);
    struct worker_kind k = queue_worker_kind(NULL, 0, 0, &a);
    assert_true(!k.queues.n && !k.tenants.n && !k.labels.n && k.priority_min == 0 && k.priority_max == PRIORITY_MAX);
    assert_true(k.cpu_milli == -1 && k.memory_mb == -1);
}

static void lists_that_do_not_fit_are_not_known(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, 64);
    struct str queues[20];
    for (size_t i = 0; i < array_count(queues); i++)
        queues[i] = S("a queue with a long name");
    struct queue_filter f = { .queues = queues, .queue_count = array_count(queues), .priority_max = PRIORITY_MAX };
    struct worker_kind k = queue_worker_kind(&f, 0, 0, &a);
    assert_str(k.labels, WORKER_LABELS_UNKNOWN);
    assert_int_equal(k.queues.n, 0);
}

/* What the queue gives a worker, and what is claimed for it, must not differ. */
static void a_kind_serves_what_its_filter_lets_through(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, ARENA);
    const struct str queues[] = { S("mail") }, tenants[] = { S("acme") }, labels[] = { S("gpu") };
    const char *const tried[] = { "mail", "other" }, *const owners[] = { "acme", "nobody" },
                      *const needs[] = { "", "gpu", "eu,gpu" };
    for (int which = 0; which < 16; which++) {
        struct queue_filter f = { .queues = queues,
                                  .queue_count = which & 1,
                                  .tenants = tenants,
                                  .tenant_count = which >> 1 & 1,
                                  .labels = labels,
                                  .label_count = which >> 2 & 1,
                                  .priority_min = which & 8 ? 7 : 0,
                                  .priority_max = PRIORITY_MAX };
        struct worker_group g = { .kind = queue_worker_kind(&f, 0, 0, &a), .slots = 1, .workers = 1 };
        for (int i = 0; i < 24; i++) {
            struct task t = { .tenant = 1, .kind = TASK_ONE_TIME, .priority = i & 4 ? 9 : 5 };
            struct str tenant = str_from(owners[i >> 1 & 1]);
            t.queue = str_from(tried[i & 1]);
            t.requires = str_from(needs[i / 8]);
            struct lane lane = task_lane(&t);
            assert_int_equal(worker_group_serves(&g, &lane, tenant), queue_lets_through(&f, &t, tenant));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_becomes_sorted_lists),
        cmocka_unit_test(without_a_filter_it_serves_every_task_that_requires_no_label),
        cmocka_unit_test(lists_that_do_not_fit_are_not_known),
        cmocka_unit_test(a_kind_serves_what_its_filter_lets_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
