/* Part `slot`: a node with one slot. Two tenants have tasks of three classes, all due at the same time: how many of
 * each were among the first? Shares hold over time, whatever the number of slots: half for each tenant, and 60, 30 and
 * 10 % for the classes. */
#include <stdlib.h>

#include "bench/fairness.h"
#include "bench/sample_groups.h"

enum { TENANTS = 2, TASKS = 300, FIRST = 600, WAIT_MS = 120000 };

static const struct {
    const char *name, *target;
} slot_classes[] = {
    { "high", "\"priority\":9,\"target_type\":\"NOOP\"" },
    { "normal", "\"priority\":5,\"target_type\":\"NOOP\"" },
    { "low", "\"priority\":0,\"target_type\":\"NOOP\"" },
};
enum { SLOT_CLASSES = array_count(slot_classes), SLOT_GROUPS = TENANTS * SLOT_CLASSES };

static int slot_compare_starts(const void *a, const void *b)
{
    const struct bench_sample *x = a, *y = b;
    return (x->started_us > y->started_us) - (x->started_us < y->started_us);
}

/* How many of each group were among the first that started. */
static void slot_count_first(const struct bench *b, struct sample_groups *groups, size_t ret[SLOT_GROUPS])
{
    size_t n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
    struct bench_sample *v = xcalloc(n + 1, sizeof *v);
    memcpy(v, b->server.shared->v, n * sizeof *v);
    qsort(v, n, sizeof *v, slot_compare_starts);
    for (size_t i = 0; i < min_of(n, (size_t)FIRST); i++)
        ret[sample_groups_find(groups, v[i].id)]++;
    free(v);
}

enum err fairness_of_one_slot(struct bench *b, struct error *e)
{
    cleanup_with(sample_groups_release) struct sample_groups groups = { 0 };
    struct second_tenant other;
    struct fairness_group v[SLOT_GROUPS];
    size_t count[SLOT_GROUPS] = { 0 };
    if (fairness_create_second_tenant(b, &other, e))
        return e->code;
    for (size_t i = 0; i < SLOT_GROUPS; i++)
        v[i] = (struct fairness_group){ .target = slot_classes[i % SLOT_CLASSES].target,
                                        .key = i < SLOT_CLASSES ? NULL : other.key,
                                        .tasks = TASKS,
                                        .waited_for = true };
    if (fairness_run_groups(b, v, SLOT_GROUPS, WAIT_MS, &groups, e))
        return e->code;
    slot_count_first(b, &groups, count);
    for (size_t i = 0; i < SLOT_GROUPS; i++) {
        char name[64];
        snprintf(name, sizeof name, "one slot, first %d: tenant %c, %s", FIRST, i < SLOT_CLASSES ? 'A' : 'B',
                 slot_classes[i % SLOT_CLASSES].name);
        bench_add_figure(b, name, "tasks", (double)count[i]);
    }
    return ERR_OK;
}
