/* The scenario `pending`: the cost of 1,000,000 waiting tasks, due at random over 30 days. Some are due soon, also
 * at random: they become due while the server is stopped, and it drains them as fast as it can after its start. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "base/date.h"
#include "bench/load.h"
#include "bench/scenario.h"

enum {
    WAITING = 1000000,
    DRAINED_EACH = 11,
    CREATES = 50000,
    ROUNDS = 3,
    RUNS = 100000,
    MARGIN_MS = 3000,
    READY_POLL_MS = 1
};
enum { CALM_LOOK_MS = 500, CALM_CPU_US = 10000, CALM_LOOKS_MAX = 120 };

struct pending_rates {
    struct burst_result create, noop;
};

/* Waits until the server uses little CPU: after the last answer it still writes from its log to the database file. */
static void pending_wait_until_idle(struct bench *b)
{
    int64_t before_us = bench_server_cpu_us(&b->server);
    for (int looks = 0; looks < CALM_LOOKS_MAX; looks++) {
        poll(NULL, 0, CALM_LOOK_MS);
        int64_t used_us = bench_server_cpu_us(&b->server);
        if (used_us - before_us < CALM_CPU_US)
            return;
        before_us = used_us;
    }
}

/* Tasks that are due at random over 30 days, but none during the benchmark. */
static struct bench_workload pending_far_tasks(struct bench *b, size_t n)
{
    return (struct bench_workload){ .tasks = n,
                                    .per_request = BENCH_BATCH,
                                    .due_ms = bench_ms_from_now(b, DAY_MS),
                                    .spread_ms = 30 * DAY_MS,
                                    .random_due = true };
}

/* A round takes half a second, and the machine may be busy with something else meanwhile: the median of ROUNDS
 * counts. */
static enum err pending_measure_creates(struct bench *b, size_t n, struct burst_result *ret, struct error *e)
{
    int64_t rates[ROUNDS];
    int64_t before_us = bench_server_cpu_us(&b->server);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct bench_workload more = pending_far_tasks(b, n);
        double rate;
        if (bench_create_tasks(b, &more, BATCH_CONNECTIONS, &rate, e))
            return e->code;
        rates[i] = (int64_t)rate;
    }
    qsort(rates, ROUNDS, sizeof *rates, bench_compare_i64);
    size_t middle = ROUNDS / 2;
    ret->rate = (double)rates[middle];
    ret->cpu_us = (double)(bench_server_cpu_us(&b->server) - before_us) / (double)(ROUNDS * n);
    return ERR_OK;
}

static enum err pending_measure(struct bench *b, size_t n, struct pending_rates *ret, struct error *e)
{
    pending_wait_until_idle(b);
    return pending_measure_creates(b, min_of(n, (size_t)CREATES), &ret->create, e)
               ? e->code
               : bench_run_burst(b, min_of(n, (size_t)RUNS), &ret->noop, e);
}

/* Creates n tasks, plus those that will be drained. */
static enum err pending_fill(struct bench *b, struct bench_workload *w, size_t n, double rate, struct error *e)
{
    *w = pending_far_tasks(b, n + n / (DRAINED_EACH - 1));
    w->soon_each = DRAINED_EACH;
    w->soon_ms = bench_ms_from_now(
        b, MARGIN_MS + (int64_t)(3000 * (double)w->tasks / rate)); /* creates get slower as the store fills */
    double filling;
    if (bench_create_tasks(b, w, BATCH_CONNECTIONS, &filling, e))
        return e->code;
    bench_add_figure(b, "create while filling", "tasks/s", filling);
    return ERR_OK;
}

/* ---- restarts ---- */

static void pending_write_ready_request(void *context, size_t i, struct buf *out)
{
    (void)context;
    (void)i;
    buf_text(out, "GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
}

static enum err pending_restart(struct bench *b, const char *name, struct error *e)
{
    int64_t begun_ns = clock_steady_ns(b->cli->clock);
    if (bench_server_restart(&b->server, e))
        return e->code;
    struct load ask = { .clock = b->cli->clock,
                        .port = b->server.port,
                        .cacert = bench_server_cacert(&b->server),
                        .connections = 1,
                        .requests = 1,
                        .make = pending_write_ready_request };
    while (ask.ok == 0) {
        if (load_run(&ask, e))
            return e->code;
        if (ask.ok == 0)
            poll(NULL, 0, READY_POLL_MS);
    }
    bench_add_figure(b, name, "ms", (double)(clock_steady_ns(b->cli->clock) - begun_ns) / 1e6);
    return ERR_OK;
}

/* ---- the drain ---- */

static enum err pending_restart_and_drain(struct bench *b, const struct bench_workload *w, struct error *e)
{
    size_t n = (w->tasks + DRAINED_EACH - 1) / DRAINED_EACH;
    bench_server_signal(&b->server, SIGKILL);
    if (pending_restart(b, "ready after kill -9", e))
        return e->code;
    bench_server_signal(&b->server, SIGTERM);
    if (clock_wall_ms(b->cli->clock) >= w->soon_ms)
        return error_set(e, ERR_UNAVAILABLE, "filling took longer than expected; try again, or with fewer --tasks");
    bench_wait_until(b, w->soon_ms + SOON_SPREAD_MS);
    if (pending_restart(b, "ready after a stop", e) || bench_wait_settled(b, n, 0, e))
        return e->code;
    bench_add_figure(b, "drain of random ones", "tasks/s", bench_samples_rate(b, n));
    return ERR_OK;
}

/* ---- the scenario ---- */

static void pending_add_comparison(struct bench *b, const struct pending_rates *few, const struct pending_rates *all)
{
    bench_add_burst(b, "create, few waiting", &few->create);
    bench_add_burst(b, "create, all waiting", &all->create);
    bench_add_figure(b, "  ratio", "%", 100 * all->create.rate / few->create.rate);
    bench_add_burst(b, "noop, few waiting", &few->noop);
    bench_add_burst(b, "noop, all waiting", &all->noop);
    bench_add_figure(b, "  ratio", "%", 100 * all->noop.rate / few->noop.rate);
}

enum err bench_pending(struct bench *b, struct error *e)
{
    size_t n = bench_task_count(b, WAITING);
    struct pending_rates few, all;
    struct bench_workload waiting;
    if (pending_measure(b, n, &few, e) || pending_fill(b, &waiting, n, few.create.rate, e))
        return e->code;
    int64_t filled_kib = bench_server_rss_kib(&b->server);
    if (pending_restart_and_drain(b, &waiting, e) || pending_measure(b, n, &all, e))
        return e->code;
    pending_add_comparison(b, &few, &all);
    bench_add_figure(b, "server memory", "MiB", (double)max_of(filled_kib, bench_server_rss_kib(&b->server)) / 1024);
    return ERR_OK;
}
