/* Part `pools`: two workers of a fleet serve priorities 0 to 6 and 7 to 9. The first has more webhooks of 1 s than it
 * can run, and 400 tasks require a label that no worker has. Beside them start no-op tasks of priority 9, 100 a
 * second. */
#include <stdlib.h>

#include "bench/fairness.h"
#include "bench/sample_groups.h"

enum {
    POOL_SLOTS = 100, /* of each worker */
    LOW_MS = 1000,
    NINES_A_SECOND = 100,
    IMPOSSIBLE = 400,
    BEHIND_MS = 1000, /* after this time the first pool is behind */
    WAIT_MS = 60000,
    TARGET_TEXT = 256,
};
enum { POOLS_LOW, POOLS_IMPOSSIBLE, POOLS_NINES, POOLS_GROUPS };

const struct queue_filter fairness_pool_filters[FAIRNESS_POOLS] = {
    { .priority_min = 0, .priority_max = 6 },
    { .priority_min = 7, .priority_max = PRIORITY_MAX },
};

static enum err pools_run(struct bench *b, const char *address, struct error *e)
{
    cleanup_with(sample_groups_release) struct sample_groups groups = { 0 };
    char slow[TARGET_TEXT];
    size_t seconds = fairness_seconds(b);
    int64_t *started_us;
    snprintf(slow, sizeof slow,
             "\"priority\":0,\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://%s/delay/%d\"}",
             address, LOW_MS);
    const struct fairness_group v[POOLS_GROUPS] = {
        [POOLS_LOW] = { .target = slow, .tasks = POOL_SLOTS * (seconds + 2) * 2 },
        [POOLS_IMPOSSIBLE] = { .target = "\"priority\":5,\"requires\":[\"nobody\"],\"target_type\":\"NOOP\"",
                               .tasks = IMPOSSIBLE },
        [POOLS_NINES] = { .label = "beside a pool that is behind,",
                          .target = "\"priority\":9,\"target_type\":\"NOOP\"",
                          .tasks = NINES_A_SECOND * seconds,
                          .after_ms = BEHIND_MS,
                          .spread_ms = (int64_t)seconds * 1000,
                          .waited_for = true },
    };
    if (fairness_run_groups(b, v, POOLS_GROUPS, WAIT_MS, &groups, e))
        return e->code;
    bench_add_figure(b, "webhooks of that pool meanwhile", "tasks",
                     (double)sample_groups_lags(&groups, POOLS_LOW, &b->server, &started_us));
    free(started_us);
    bench_add_figure(b, "started without a worker for it", "tasks",
                     (double)sample_groups_lags(&groups, POOLS_IMPOSSIBLE, &b->server, &started_us));
    free(started_us);
    return ERR_OK;
}

enum err fairness_of_pools(struct bench *b, struct error *e)
{
    struct bench_sink sink;
    if (bench_sink_start(b->cli, "127.0.0.1:0", &sink, e))
        return e->code;
    enum err rc = pools_run(b, sink.address, e);
    bench_sink_stop(&sink);
    return rc;
}
