/* Creates the workloads of a part well before their tasks are due: what is measured is how they share slots, not how
 * fast they are created and claimed. */
#include <poll.h>
#include <stdlib.h>

#include "bench/fairness.h"
#include "bench/sample_groups.h"

enum { CREATED_AHEAD_MS = 3000, LOOK_MS = 20 };

static enum err fairness_create_group(struct bench *b, const struct fairness_group *g, int number, int64_t due_ms,
                                      struct sample_groups *groups, struct error *e)
{
    struct uuid *ids = xcalloc(g->tasks, sizeof *ids);
    struct bench_workload w = { .target = g->target,
                                .key = g->key,
                                .ids = ids,
                                .tasks = g->tasks,
                                .per_request = BENCH_BATCH,
                                .due_ms = due_ms + g->after_ms,
                                .spread_ms = g->spread_ms };
    double rate;
    enum err rc = bench_create_tasks(b, &w, 1, &rate, e);
    if (rc == ERR_OK)
        sample_groups_add(groups, number, ids, g->tasks);
    free(ids);
    return rc;
}

static enum err fairness_create_groups(struct bench *b, const struct fairness_group *v, size_t n, int64_t due_ms,
                                       struct sample_groups *groups, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (fairness_create_group(b, &v[i], (int)i, due_ms, groups, e))
            return e->code;
    return bench_ms_from_now(b, CREATED_AHEAD_MS) <= due_ms
               ? ERR_OK
               : error_set(e, ERR_UNAVAILABLE, "creating took longer than expected; try again");
}

/* How many tasks have ended of those that are waited for. */
static size_t fairness_count_ended(struct bench *b, const struct fairness_group *v, struct sample_groups *groups,
                                   size_t *seen)
{
    size_t count = 0, n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
    for (; *seen < n; ++*seen) {
        int group = sample_groups_find(groups, b->server.shared->v[*seen].id);
        count += group != SAMPLE_GROUP_NONE && v[group].waited_for;
    }
    return count;
}

static enum err fairness_wait_groups(struct bench *b, const struct fairness_group *v, size_t n, int64_t until_ms,
                                     struct sample_groups *groups, struct error *e)
{
    size_t wanted = 0, ended = 0, seen = 0;
    for (size_t i = 0; i < n; i++)
        wanted += v[i].waited_for ? v[i].tasks : 0;
    while (ended < wanted && bench_ms_from_now(b, 0) < until_ms) {
        poll(NULL, 0, LOOK_MS);
        ended += fairness_count_ended(b, v, groups, &seen);
    }
    return ended == wanted ? ERR_OK : error_set(e, ERR_CORRUPT, "%zu of %zu tasks have ended in time", ended, wanted);
}

enum err fairness_run_groups(struct bench *b, const struct fairness_group *v, size_t n, int64_t wait_ms,
                             struct sample_groups *ret_groups, struct error *e)
{
    size_t tasks = 0;
    int64_t last_ms = 0;
    for (size_t i = 0; i < n; i++) {
        tasks += v[i].tasks;
        last_ms = max_of(last_ms, v[i].after_ms + v[i].spread_ms);
    }
    int64_t due_ms = bench_ms_from_now(b, 2 * bench_lead_ms(tasks) + CREATED_AHEAD_MS);
    if (fairness_create_groups(b, v, n, due_ms, ret_groups, e) ||
        fairness_wait_groups(b, v, n, due_ms + last_ms + wait_ms, ret_groups, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        int64_t *lag_us;
        size_t count = v[i].label ? sample_groups_lags(ret_groups, (int)i, &b->server, &lag_us) : 0;
        if (!v[i].label)
            continue;
        bench_add_percentiles(b, v[i].label, BENCH_P50_P99_MAX, lag_us, count);
        free(lag_us);
    }
    return ERR_OK;
}
