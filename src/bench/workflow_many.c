/* Part `throughput`: many small runs of one definition are due at the same time. A run has ten no-op steps: one, eight
 * that depend on it, and one that depends on these. The rate counts steps, from the due time to the last settle; the
 * runs themselves are not counted. */
#include <stdlib.h>

#include "base/rfc3339.h"
#include "bench/load.h"
#include "bench/workflow.h"

enum { MANY_STEPS = 100000, MANY_CONNECTIONS = 64, RUN_STEPS = 10, RUN_PARALLEL = RUN_STEPS - 2, BODY_TEXT = 128 };

static enum err many_define(struct bench *b, struct error *e)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, WORKFLOW_BODY_MAX);
    buf_text(&body, "{\"steps\":[");
    for (size_t i = 0; i < RUN_STEPS; i++) {
        bool is_first = i == 0, is_last = i == RUN_STEPS - 1;
        workflow_body_step(&body, i, workflow_noop, is_last ? 1 : 0, is_first ? 0 : is_last ? 1 + RUN_PARALLEL : 1);
    }
    buf_text(&body, "]}");
    struct bench_request q = { .method = "PUT", .path = "/v1/workflow-definitions/bench", .body = buf_str(&body) };
    return bench_send(b, &q, NULL, e);
}

struct many_runs {
    const struct bench *bench;
    char body[BODY_TEXT]; /* of each run */
};

static void many_write_run(void *context, size_t i, struct buf *out)
{
    const struct many_runs *m = context;
    (void)i;
    buf_printf(out,
               "POST /v1/workflows HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               m->bench->server.key, strlen(m->body), m->body);
}

static enum err many_create(struct bench *b, size_t runs, int64_t due_ms, struct error *e)
{
    struct many_runs m = { .bench = b };
    char due[RFC3339_TEXT + 1];
    rfc3339_format(due_ms, due);
    snprintf(m.body, sizeof m.body, "{\"workflow\":\"bench\",\"run_at\":\"%s\"}", due);
    struct load load = { .clock = b->cli->clock,
                         .port = b->server.port,
                         .cacert = bench_server_cacert(&b->server),
                         .connections = MANY_CONNECTIONS,
                         .requests = runs,
                         .make = many_write_run,
                         .context = &m };
    bench_remove_samples(b);
    if (load_run(&load, e))
        return e->code;
    if (load.refused)
        return error_set(e, ERR_UNAVAILABLE, "%zu runs were refused, the first: %.300s", load.refused,
                         load.first_refusal);
    bench_add_figure(b, "throughput: create", "runs/s", (double)runs * 1e6 / (double)load.took_us);
    return bench_ms_from_now(b, 0) < due_ms
               ? ERR_OK
               : error_set(e, ERR_UNAVAILABLE, "creating took longer than expected; try again, or with fewer --tasks");
}

enum err workflow_throughput(struct bench *b, struct error *e)
{
    size_t runs = bench_task_count(b, MANY_STEPS) / RUN_STEPS, steps = runs * RUN_STEPS;
    int64_t due_ms = bench_ms_from_now(b, bench_lead_ms(steps)), last_us = 0;
    if (many_define(b, e) || many_create(b, runs, due_ms, e))
        return e->code;
    bench_wait_until(b, due_ms);
    int64_t before_us = bench_server_cpu_us(&b->server);
    if (bench_wait_settled(b, steps + runs, due_ms, e))
        return e->code;
    int64_t cpu_us = bench_server_cpu_us(&b->server) - before_us;
    for (size_t i = 0; i < steps + runs; i++)
        last_us = max_of(last_us, b->server.shared->v[i].settled_us);
    bench_add_figure(b, "throughput: steps", "steps/s", (double)steps * 1e6 / (double)(last_us - due_ms * 1000));
    bench_add_figure(b, "  server CPU", "us/step", (double)cpu_us / (double)steps);
    const struct bench_sample *v = b->server.shared->v;
    bench_add_figure(b, "  steps a commit", "steps",
                     (double)steps / (double)max_of(v[steps + runs - 1].commits - v[0].commits, (int64_t)1));
    return ERR_OK;
}
