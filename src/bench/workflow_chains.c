/* Parts `chain`, `webhooks` and `slow`: steps of which each depends on the one before.
 *
 *  - chain: no-op steps. A hop is from the start of a step to the start of the next. Commits are those of the store
 *    from the settle of the first step to the settle of the last.
 *  - webhooks: steps that call a sink.
 *  - slow: a call takes 0.7 s. What is more than these is overhead. */
#include <stdlib.h>

#include "bench/workflow.h"

enum { CHAIN_STEPS = 1000, WEBHOOK_STEPS = 40, WEBHOOK_ROUNDS = 5, SLOW_STEPS = 10, SLOW_MS = 700, TARGET_TEXT = 192 };

static enum err chain_run(struct bench *b, const char *target, size_t n, struct bench_run *ret, int64_t *ret_total_us,
                          struct error *e)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, WORKFLOW_BODY_MAX);
    workflow_body_begin(&body);
    for (size_t i = 0; i < n; i++)
        workflow_body_step(&body, i, target, i ? i - 1 : 0, i);
    workflow_body_end(&body);
    return workflow_post_and_wait(b, buf_str(&body), n, ret, e) || workflow_total_us(b, ret, ret_total_us, e) ? e->code
                                                                                                              : ERR_OK;
}

/* ---- no-op steps ---- */

static void chain_add_hops(struct bench *b, const struct bench_sample **v, size_t n)
{
    int64_t *us = xcalloc(n, sizeof *us);
    for (size_t i = 1; i < n; i++)
        us[i - 1] = v[i]->started_us - v[i - 1]->started_us;
    qsort(us, n - 1, sizeof *us, bench_compare_i64);
    bench_add_percentiles(b, "chain: hop", BENCH_P50_P99_MAX, us, n - 1);
    free(us);
    bench_add_figure(b, "chain: commits a hop", "commits",
                     (double)(v[n - 1]->commits - v[0]->commits) / (double)(n - 1));
}

enum err workflow_chain(struct bench *b, struct error *e)
{
    size_t n = workflow_count(b, CHAIN_STEPS);
    struct bench_run r;
    const struct bench_sample **v;
    int64_t total_us, before_us = bench_server_cpu_us(&b->server);
    if (chain_run(b, workflow_noop, n, &r, &total_us, e) || workflow_samples(b, &r, n, &v, e))
        return e->code;
    chain_add_hops(b, v, n);
    free(v);
    bench_add_figure(b, "chain: server CPU", "us/step",
                     (double)(bench_server_cpu_us(&b->server) - before_us) / (double)n);
    bench_add_figure(b, "chain: POST to final", "ms", (double)total_us / 1000);
    return ERR_OK;
}

/* ---- webhooks ---- */

static enum err chain_of_webhooks(struct bench *b, const char *target, struct error *e)
{
    size_t n = workflow_count(b, WEBHOOK_STEPS);
    int64_t total_us[WEBHOOK_ROUNDS];
    struct bench_run r;
    for (size_t i = 0; i < WEBHOOK_ROUNDS; i++)
        if (chain_run(b, target, n, &r, &total_us[i], e))
            return e->code;
    workflow_add_rounds(b, "webhooks: POST to final", total_us, WEBHOOK_ROUNDS);
    return ERR_OK;
}

static enum err chain_of_slow_webhooks(struct bench *b, const char *target, struct error *e)
{
    struct bench_run r;
    int64_t total_us;
    if (chain_run(b, target, SLOW_STEPS, &r, &total_us, e))
        return e->code;
    bench_add_figure(b, "slow: POST to final", "ms", (double)total_us / 1000);
    bench_add_figure(b, "  overhead", "ms", (double)total_us / 1000 - SLOW_STEPS * SLOW_MS);
    return ERR_OK;
}

static enum err chain_with_sink(struct bench *b, int delay_ms,
                                enum err (*run)(struct bench *b, const char *target, struct error *e), struct error *e)
{
    struct bench_sink sink;
    char target[TARGET_TEXT];
    if (bench_sink_start(b->cli, "127.0.0.1:0", &sink, e))
        return e->code;
    snprintf(target, sizeof target,
             "\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://%s/delay/%d\"}", sink.address,
             delay_ms);
    enum err rc = run(b, target, e);
    bench_sink_stop(&sink);
    return rc;
}

enum err workflow_webhooks(struct bench *b, struct error *e)
{
    return chain_with_sink(b, 0, chain_of_webhooks, e);
}

enum err workflow_slow(struct bench *b, struct error *e)
{
    return chain_with_sink(b, SLOW_MS, chain_of_slow_webhooks, e);
}
