/* Parts `fan`, `map` and `join`: a step waits for many.
 *
 *  - fan: 400 no-op steps without parents, and a step that depends on all of them.
 *  - map: a map of 10,000 no-op items, and a step that depends on it.
 *  - join: fans of 100, one after the other. Measures the start of the last step after the end of its last parent. */
#include <stdlib.h>

#include "bench/workflow.h"

enum { FAN_STEPS = 400, FAN_ROUNDS = 5, MAP_ITEMS = 10000, MAP_ROUNDS = 3, JOIN_PARENTS = 100, JOIN_RUNS = 100 };

static void join_write_fan(struct buf *out, size_t parents)
{
    workflow_body_begin(out);
    for (size_t i = 0; i < parents; i++)
        workflow_body_step(out, i, workflow_noop, 0, 0);
    workflow_body_step(out, parents, workflow_noop, 0, parents);
    workflow_body_end(out);
}

static void join_write_map(struct buf *out, size_t items)
{
    workflow_body_begin(out);
    workflow_body_step(out, 0, "\"target_type\":\"NOOP\",\"map\":{\"over\":{\"$ref\":\"/input\"}}", 0, 0);
    workflow_body_step(out, 1, workflow_noop, 0, 1);
    buf_text(out, "]},\"input\":[");
    for (size_t i = 0; i < items; i++)
        buf_printf(out, "%s%zu", i ? "," : "", i);
    buf_text(out, "]}");
}

static enum err join_run_rounds(struct bench *b, const char *name, struct str body, size_t tasks, size_t rounds,
                                struct error *e)
{
    int64_t total_us[WORKFLOW_ROUNDS_MAX];
    struct bench_run r;
    for (size_t i = 0; i < rounds; i++)
        if (workflow_post_and_wait(b, body, tasks, &r, e) || workflow_total_us(b, &r, &total_us[i], e))
            return e->code;
    workflow_add_rounds(b, name, total_us, rounds);
    return ERR_OK;
}

enum err workflow_fan(struct bench *b, struct error *e)
{
    cleanup_with(buf_release) struct buf body;
    size_t n = workflow_count(b, FAN_STEPS);
    buf_init(&body, WORKFLOW_BODY_MAX);
    join_write_fan(&body, n);
    return join_run_rounds(b, "fan: POST to final", buf_str(&body), n + 1, FAN_ROUNDS, e);
}

enum err workflow_map(struct bench *b, struct error *e)
{
    cleanup_with(buf_release) struct buf body;
    size_t n = workflow_count(b, MAP_ITEMS);
    buf_init(&body, WORKFLOW_BODY_MAX);
    join_write_map(&body, n);
    return join_run_rounds(b, "map: POST to final", buf_str(&body), n + 2, MAP_ROUNDS, e);
}

static enum err join_measure(struct bench *b, struct str body, int64_t *ret_us, struct error *e)
{
    struct bench_run r;
    const struct bench_sample **v;
    int64_t last_us = 0;
    if (workflow_post_and_wait(b, body, JOIN_PARENTS + 1, &r, e) || workflow_samples(b, &r, JOIN_PARENTS + 1, &v, e))
        return e->code;
    for (size_t i = 0; i < JOIN_PARENTS; i++)
        last_us = max_of(last_us, v[i]->completed_us);
    *ret_us = v[JOIN_PARENTS]->started_us - last_us;
    free(v);
    return ERR_OK;
}

enum err workflow_join(struct bench *b, struct error *e)
{
    cleanup_with(buf_release) struct buf body;
    size_t runs = max_of(workflow_count(b, JOIN_RUNS * JOIN_PARENTS) / JOIN_PARENTS, (size_t)1);
    int64_t us[JOIN_RUNS];
    buf_init(&body, WORKFLOW_BODY_MAX);
    join_write_fan(&body, JOIN_PARENTS);
    for (size_t i = 0; i < runs; i++)
        if (join_measure(b, buf_str(&body), &us[i], e))
            return e->code;
    qsort(us, runs, sizeof *us, bench_compare_i64);
    bench_add_percentiles(b, "join: start after its last parent", BENCH_P50_P99_MAX, us, runs);
    return ERR_OK;
}
