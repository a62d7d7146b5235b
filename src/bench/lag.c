/* The scenario `lag`: tasks are due at a steady rate; how late does each start?
 *
 * With --stall or --rate it measures no-op tasks and webhooks, each on a fresh server, and besides the lag:
 *
 *  - Tasks claimed ahead: the most at once, and their memory.
 *  - Recalls: a few more tasks are cancelled by the API RECALL_AHEAD_MS before they are due, when the node has claimed
 *    them. The requests come at a fixed rate, whatever the answers take. If a stall was or began between request and
 *    answer, the recall has met it. A task that was acknowledged as cancelled must not run.
 *
 * All tasks are created so long before they are due that their commit, and the claim behind it, may meet a stall. */
#include <poll.h>
#include <stdlib.h>

#include "bench/load.h"
#include "bench/sample_groups.h"
#include "bench/scenario.h"

enum {
    RATE = 1000,
    SECONDS = 10,
    STALL_SECONDS = 20,
    CREATED_AHEAD_MS = 3000, /* at least, and one stall more */
    RECALL_AHEAD_MS = 1000,
    RECALL_EVERY_MS = 50,
    RECALL_CONNECTIONS = 64,
    IDLE_MS = 15000,
    LOOK_MS = 10,
    SETTLED_MS = 500, /* after its start, a task is settled; a stall comes on top */
    NS_PER_MS = 1000000,
};

/* ---- recalls ---- */

struct lag_recalls {
    struct bench *bench;
    size_t n;
    struct uuid *ids;
    bool *cancelled;
    int64_t *usual_us, *stalled_us; /* durations: outside of stalls, and of those that met one */
    size_t usual_count, stalled_count;
};

static void lag_recalls_init(struct lag_recalls *r, struct bench *b, size_t n)
{
    *r = (struct lag_recalls){ .bench = b,
                               .n = n,
                               .ids = xcalloc(n, sizeof *r->ids),
                               .cancelled = xcalloc(n, sizeof *r->cancelled),
                               .usual_us = xcalloc(n, sizeof *r->usual_us),
                               .stalled_us = xcalloc(n, sizeof *r->stalled_us) };
}

static void lag_recalls_release(struct lag_recalls *r)
{
    free(r->ids);
    free(r->cancelled);
    free(r->usual_us);
    free(r->stalled_us);
}

static void lag_write_cancel(void *context, size_t i, struct buf *out)
{
    const struct lag_recalls *r = context;
    char id[UUID_TEXT + 1];
    uuid_format(r->ids[i], id);
    buf_printf(out,
               "POST /v1/tasks/%s/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
               "Content-Length: 0\r\n\r\n",
               id, r->bench->server.key);
}

static bool lag_met_stall(struct failpoint_stall s, int64_t sent_ns, int64_t received_ns)
{
    if (s.length_ms == 0)
        return false;
    int64_t period_ns = s.period_ms * NS_PER_MS;
    return failpoint_stall_left_ns(s, sent_ns) > 0 || sent_ns / period_ns != received_ns / period_ns;
}

static void lag_on_cancelled(void *context, const struct load_answer *a)
{
    struct lag_recalls *r = context;
    int64_t took_us = (a->received_ns - a->sent_ns) / 1000;
    r->cancelled[a->request] = a->ok;
    if (!a->ok)
        return;
    if (lag_met_stall(r->bench->place.stall, a->sent_ns, a->received_ns))
        r->stalled_us[r->stalled_count++] = took_us;
    else
        r->usual_us[r->usual_count++] = took_us;
}

static enum err lag_cancel_all(struct lag_recalls *r, struct error *e)
{
    struct load load = { .clock = r->bench->cli->clock,
                         .port = r->bench->server.port,
                         .cacert = bench_server_cacert(&r->bench->server),
                         .connections = RECALL_CONNECTIONS,
                         .requests = r->n,
                         .every_us = RECALL_EVERY_MS * 1000,
                         .make = lag_write_cancel,
                         .on_answer = lag_on_cancelled,
                         .context = r };
    if (load_run(&load, e))
        return e->code;
    qsort(r->usual_us, r->usual_count, sizeof *r->usual_us, bench_compare_i64);
    qsort(r->stalled_us, r->stalled_count, sizeof *r->stalled_us, bench_compare_i64);
    return ERR_OK;
}

/* ---- one target ---- */

struct lag_target {
    const char *label;
    const char *json;
    size_t tasks, rate;
};

static enum err lag_create(struct bench *b, const struct lag_target *t, struct lag_recalls *r, int64_t due_ms,
                           struct error *e)
{
    double rate;
    struct bench_workload recalled = { .target = t->json,
                                       .ids = r->ids,
                                       .tasks = r->n,
                                       .per_request = BENCH_BATCH,
                                       .due_ms = due_ms + RECALL_AHEAD_MS,
                                       .spread_ms = (int64_t)r->n * RECALL_EVERY_MS };
    struct bench_workload all = { .target = t->json,
                                  .tasks = t->tasks,
                                  .per_request = BENCH_BATCH,
                                  .due_ms = due_ms,
                                  .spread_ms = (int64_t)(t->tasks * 1000 / t->rate) };
    if (bench_create_tasks(b, &recalled, 1, &rate, e) || bench_create_tasks(b, &all, BATCH_CONNECTIONS, &rate, e))
        return e->code;
    return bench_ms_from_now(b, CREATED_AHEAD_MS + b->place.stall.length_ms) <= due_ms
               ? ERR_OK
               : error_set(e, ERR_UNAVAILABLE, "creating took longer than expected; try again, or with fewer --tasks");
}

static void lag_add_recalls(struct bench *b, const char *label, const struct lag_recalls *r, size_t cancelled_run,
                            size_t refused_run)
{
    size_t refused = r->n - r->usual_count - r->stalled_count;
    char name[64];
    snprintf(name, sizeof name, "%srecall", label);
    bench_add_percentiles(b, name, BENCH_P50_P99, r->usual_us, r->usual_count);
    snprintf(name, sizeof name, "%srecall in a stall", label);
    bench_add_percentiles(b, name, BENCH_P50_P99, r->stalled_us, r->stalled_count);
    snprintf(name, sizeof name, "%srecalls refused", label);
    bench_add_figure(b, name, "tasks", (double)refused);
    snprintf(name, sizeof name, "%srefused but not run", label);
    bench_add_figure(b, name, "tasks", (double)(refused - min_of(refused, refused_run)));
    snprintf(name, sizeof name, "%scancelled but run", label);
    bench_add_figure(b, name, "tasks", (double)cancelled_run);
}

static void lag_add_memory(struct bench *b, const char *label)
{
    char name[64];
    struct bench_ahead ahead = bench_server_ahead_peak(&b->server);
    snprintf(name, sizeof name, "%sclaimed ahead, peak", label);
    bench_add_figure(b, name, "tasks", (double)ahead.tasks);
    bench_add_figure(b, name, "MiB", (double)ahead.bytes / (1 << 20));
    snprintf(name, sizeof name, "%sserver memory, peak", label);
    bench_add_figure(b, name, "MiB", (double)bench_server_peak_rss_kib(&b->server) / 1024);
}

enum { LAG_CANCELLED, LAG_REFUSED };

static void lag_group_recalls(const struct lag_recalls *r, struct sample_groups *ret)
{
    for (size_t i = 0; i < r->n; i++)
        sample_groups_add(ret, r->cancelled[i] ? LAG_CANCELLED : LAG_REFUSED, &r->ids[i], 1);
}

/* Waits until all tasks have ended but those to recall, and until these would have run. */
static enum err lag_wait_settled(struct bench *b, const struct lag_target *t, struct sample_groups *groups,
                                 int64_t until_ms, struct error *e)
{
    size_t ended = 0, seen = 0;
    bench_wait_until(b, until_ms);
    for (int64_t idle_ms = 0; ended < t->tasks && idle_ms < IDLE_MS; idle_ms += LOOK_MS) {
        size_t n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
        idle_ms = n > seen ? 0 : idle_ms;
        for (; seen < n; seen++)
            ended += sample_groups_find(groups, b->server.shared->v[seen].id) == SAMPLE_GROUP_NONE;
        poll(NULL, 0, ended < t->tasks ? LOOK_MS : 0);
    }
    return ended == t->tasks ? ERR_OK : error_set(e, ERR_CORRUPT, "%zu of %zu tasks were settled", ended, t->tasks);
}

static void lag_add_figures(struct bench *b, const struct lag_target *t, const struct lag_recalls *r,
                            struct sample_groups *groups)
{
    int64_t *lag_us, *cancelled_us, *refused_us;
    size_t n = sample_groups_lags(groups, SAMPLE_GROUP_NONE, &b->server, &lag_us),
           cancelled = sample_groups_lags(groups, LAG_CANCELLED, &b->server, &cancelled_us),
           refused = sample_groups_lags(groups, LAG_REFUSED, &b->server, &refused_us);
    bench_add_lags(b, t->label, lag_us, n);
    lag_add_memory(b, t->label);
    lag_add_recalls(b, t->label, r, cancelled, refused);
    free(lag_us);
    free(cancelled_us);
    free(refused_us);
}

static enum err lag_run_recalls(struct bench *b, const struct lag_target *t, struct lag_recalls *r, struct error *e)
{
    cleanup_with(sample_groups_release) struct sample_groups groups = { 0 };
    int64_t due_ms = bench_ms_from_now(b, 2 * bench_lead_ms(t->tasks) + CREATED_AHEAD_MS + b->place.stall.length_ms),
            last_ms = due_ms + RECALL_AHEAD_MS + (int64_t)r->n * RECALL_EVERY_MS;
    if (lag_create(b, t, r, due_ms, e))
        return e->code;
    bench_wait_until(b, due_ms);
    if (lag_cancel_all(r, e))
        return e->code;
    lag_group_recalls(r, &groups);
    if (lag_wait_settled(b, t, &groups, last_ms + b->place.stall.length_ms + SETTLED_MS, e))
        return e->code;
    lag_add_figures(b, t, r, &groups);
    return ERR_OK;
}

static enum err lag_run_target(struct bench *b, const struct lag_target *t, struct error *e)
{
    cleanup_with(lag_recalls_release) struct lag_recalls r;
    lag_recalls_init(&r, b, t->tasks * 1000 / t->rate / RECALL_EVERY_MS + 1);
    return lag_run_recalls(b, t, &r, e);
}

/* ---- the scenario ---- */

enum lag_option { LAG_BOTH, LAG_NOOP, LAG_WEBHOOK }; /* choices of --target */

static enum err lag_run_webhooks(struct bench *b, size_t tasks, size_t rate, struct error *e)
{
    struct bench_sink sink;
    char json[192];
    if (bench_sink_start(b->cli, "127.0.0.1:0", &sink, e))
        return e->code;
    snprintf(json, sizeof json, "\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://%s/\"}",
             sink.address);
    enum err rc = lag_run_target(b, &(struct lag_target){ "webhook: ", json, tasks, rate }, e);
    bench_sink_stop(&sink);
    return rc;
}

enum err bench_lag(struct bench *b, struct error *e)
{
    bool stalls = b->place.stall.length_ms > 0, has_rate = option_given(b->options, "rate");
    size_t rate = has_rate ? (size_t)option_get(b->options, "rate")->number : RATE,
           n = bench_task_count(b, rate * (stalls ? STALL_SECONDS : SECONDS));
    enum lag_option which = (enum lag_option)option_get(b->options, "target")->number;
    if (!stalls && !has_rate) {
        if (bench_run_spread(b, n, rate, e))
            return e->code;
        bench_add_lag(b, "", n);
        return ERR_OK;
    }
    if (which != LAG_WEBHOOK && lag_run_target(b, &(struct lag_target){ "no-op: ", b->target, n, rate }, e))
        return e->code;
    if (which == LAG_BOTH && bench_replace_server(b, BENCH_SLOTS, e))
        return e->code;
    return which == LAG_NOOP ? ERR_OK : lag_run_webhooks(b, n, rate, e);
}
