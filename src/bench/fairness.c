/* belfry bench fairness - one tenant's backlog, and how soon others start beside it.
 *
 * Probes are single tasks due when they are sent, every 50 ms: their lag holds the API, the commit, the claim and the start. First beside a
 * backlog of no-op tasks of priority 0, which keeps the writer and the scheduler busy: another tenant's, and the same tenant's
 * of priority 9. Then beside webhooks that hold their slots for a second, on a server with few. Tasks of a backlog share one due
 * time, which no probe has: that is how samples are told apart. */
#include <poll.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/rfc3339.h"
#include "bench/load.h"
#include "bench/tasks.h"

enum {
    PROBES = 100,
    PROBE_EVERY_MS = 50,
    PROBE_WAIT_MS = 60000, /* for the last of them */
    BACKLOG = 500000,
    BACKLOG_AHEAD_MS = 500, /* of the first probe: by then the backlog is under way */
    FEW_SLOTS = 100,
    SLOW_MS = 1000,
    SLOW_TASKS = 5 * FEW_SLOTS,
    DEFAULT_TENANT = 1,
    KEY_MAX = 256,
    ANSWER_TEXT = 1 << 20,
};

static const char noop_low[] = "\"priority\":0,\"target_type\":\"NOOP\"";
static const char other_name[] = "other";

struct other {
    char key[KEY_MAX];
};

/* ---- single requests ---- */

struct request {
    const char *key, *path;
    struct str body;
};

static void make_one(void *context, size_t i, struct buf *out)
{
    const struct request *q = context;
    (void)i;
    buf_printf(out,
               "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n",
               q->path, q->key, q->body.n);
    buf_add(out, q->body);
}

static enum err post(struct bench *b, struct request *q, struct buf *ret_answer, struct error *e)
{
    struct load load = { .clock = b->cli->clock,
                         .port = b->server.port,
                         .connections = 1,
                         .requests = 1,
                         .make = make_one,
                         .context = q,
                         .answer = ret_answer };
    if (load_run(&load, e))
        return e->code;
    return load.refused ? error_set(e, ERR_UNAVAILABLE, "POST %s was refused: %.300s", q->path, load.first_refusal)
                        : ERR_OK;
}

/* A second tenant, and a key of it. */
static enum err make_other(struct bench *b, struct other *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf answer;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    buf_init(&answer, ANSWER_TEXT);
    char tenant[64], key[128];
    snprintf(tenant, sizeof tenant, "{\"name\":\"%s\"}", other_name);
    snprintf(key, sizeof key, "{\"name\":\"bench\",\"scopes\":[\"tasks:write\"],\"tenant\":\"%s\"}", other_name);
    struct request make = { b->server.key, "/v1/tenants", str_from(tenant) };
    struct request open = { b->server.key, "/v1/api-keys", str_from(key) };
    if (post(b, &make, NULL, e) || post(b, &open, &answer, e))
        return e->code;
    const char *body = strstr(buf_cstr(&answer), "\r\n\r\n");
    if (!body || json_parse(str_from(body + 4), &doc, e))
        return error_set(e, ERR_CORRUPT, "the answer to a new key is no JSON");
    snprintf(ret->key, sizeof ret->key, STR_FMT, STR_ARG(json_text_at(doc.root, "key")));
    return ERR_OK;
}

/* ---- probes ---- */

static int64_t now_ms(const struct bench *b)
{
    return clock_wall_ms(b->cli->clock);
}

static enum err probe(struct bench *b, const char *key, int priority, struct error *e)
{
    char due[RFC3339_TEXT + 1], body[160];
    rfc3339_format(now_ms(b), due);
    snprintf(body, sizeof body, "{\"run_at\":\"%s\",\"priority\":%d,\"target_type\":\"NOOP\"}", due, priority);
    struct request q = { key, "/v1/tasks", str_from(body) };
    return post(b, &q, NULL, e);
}

static void wait_until(const struct bench *b, int64_t ms)
{
    for (int64_t left; (left = ms - now_ms(b)) > 0;)
        poll(NULL, 0, (int)left);
}

/* own_key: NULL, or the tenant of the backlog sends some of priority 9 as well. */
static enum err send_probes(struct bench *b, const char *other_key, const char *own_key, size_t n, struct error *e)
{
    int64_t begun = now_ms(b);
    for (size_t i = 0; i < n; i++) {
        wait_until(b, begun + (int64_t)i * PROBE_EVERY_MS);
        if (probe(b, other_key, 5, e) || (own_key && probe(b, own_key, 9, e)))
            return e->code;
    }
    return ERR_OK;
}

/* ---- samples ---- */

struct lags {
    int64_t us[PROBES];
    size_t n;
};

static bool is_probe(const struct bench_sample *s, bool other, int64_t backlog_due_ms)
{
    return s->due_ms != backlog_due_ms && (s->tenant != DEFAULT_TENANT) == other;
}

/* Waits for all of them; those that never started are missed below. */
static void gather(const struct bench *b, bool other, int64_t backlog_due_ms, size_t n, struct lags *ret)
{
    size_t seen = 0;
    *ret = (struct lags){ 0 };
    for (int64_t until = now_ms(b) + PROBE_WAIT_MS; ret->n < n && now_ms(b) < until; poll(NULL, 0, 2)) {
        size_t there = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
        for (; seen < there && ret->n < n; seen++) {
            const struct bench_sample *s = &b->server.shared->v[seen];
            if (is_probe(s, other, backlog_due_ms))
                ret->us[ret->n++] = s->started_us - s->due_ms * 1000;
        }
    }
    qsort(ret->us, ret->n, sizeof *ret->us, compare_i64);
}

struct lag_names {
    const char *p50, *p99, *max;
};

static enum err add_lags(struct bench *b, const struct lags *l, size_t n, const struct lag_names *names,
                         struct error *e)
{
    if (l->n < n)
        return error_set(e, ERR_CORRUPT, "%zu of %zu fresh tasks started within %d s", l->n, n, PROBE_WAIT_MS / 1000);
    size_t half = n / 2, most = n * 99 / 100;
    add_figure(b, names->p50, "ms", (double)l->us[half] / 1000);
    add_figure(b, names->p99, "ms", (double)l->us[most] / 1000);
    add_figure(b, names->max, "ms", (double)l->us[n - 1] / 1000);
    return ERR_OK;
}

/* ---- beside a backlog ---- */

struct progress {
    size_t done;
    int64_t at_ms;
};

static struct progress progress_of(const struct bench *b, int64_t backlog_due_ms)
{
    struct progress p = { .at_ms = now_ms(b) };
    size_t n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
    for (size_t i = 0; i < n; i++)
        p.done += b->server.shared->v[i].due_ms == backlog_due_ms;
    return p;
}

static enum err beside_backlog(struct bench *b, const struct other *other, struct error *e)
{
    static const struct lag_names others = { "another tenant's, p50", "another tenant's, p99",
                                             "another tenant's, max" };
    static const struct lag_names nines = { "its own of priority 9, p50", "its own of priority 9, p99",
                                            "its own of priority 9, max" };
    size_t n = tasks_wanted(b, BACKLOG);
    struct bodies backlog = { .tasks = n, .per_request = 1000, .due_ms = now_ms(b) + lead_for(n) };
    double rate;
    struct lags lags;
    b->target = noop_low;
    if (create_tasks(b, &backlog, 2, &rate, e))
        return e->code;
    wait_until(b, backlog.due_ms + (n == BACKLOG ? BACKLOG_AHEAD_MS : 0));
    struct progress before = progress_of(b, backlog.due_ms);
    if (send_probes(b, other->key, b->server.key, PROBES, e))
        return e->code;
    struct progress after = progress_of(b, backlog.due_ms);
    gather(b, true, backlog.due_ms, PROBES, &lags);
    if (add_lags(b, &lags, PROBES, &others, e))
        return e->code;
    gather(b, false, backlog.due_ms, PROBES, &lags);
    if (add_lags(b, &lags, PROBES, &nines, e))
        return e->code;
    add_figure(b, "priority 0 meanwhile", "tasks/s",
               (double)(after.done - before.done) * 1000 / (double)(after.at_ms - before.at_ms));
    add_figure(b, "still waiting then", "tasks", (double)(n - after.done));
    return ERR_OK;
}

/* ---- beside long webhooks ---- */

static enum err expect_backlog(const struct bench *b, int64_t backlog_due_ms, size_t n, struct error *e)
{
    struct progress p = { 0 };
    for (int64_t until = now_ms(b) + PROBE_WAIT_MS; p.done < n && now_ms(b) < until; poll(NULL, 0, 10))
        p = progress_of(b, backlog_due_ms);
    return p.done == n ? ERR_OK : error_set(e, ERR_CORRUPT, "%zu of %zu webhooks ended", p.done, n);
}

/* The most that were under way at once, of calls that have all ended. */
static int64_t most_at_once(const struct bench *b, int64_t backlog_due_ms)
{
    size_t n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire), calls = 0, ended = 0;
    int64_t *starts = xcalloc(n, sizeof *starts), *ends = xcalloc(n, sizeof *ends), most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bench_sample *s = &b->server.shared->v[i];
        if (s->due_ms != backlog_due_ms)
            continue;
        starts[calls] = s->started_us;
        ends[calls++] = s->started_us + SLOW_MS * 1000LL; /* at least: the end is seen later */
    }
    qsort(starts, calls, sizeof *starts, compare_i64);
    qsort(ends, calls, sizeof *ends, compare_i64);
    for (size_t i = 0; i < calls; i++) {
        while (ends[ended] <= starts[i])
            ended++;
        most = max_of(most, (int64_t)(i + 1 - ended));
    }
    free(starts);
    free(ends);
    return most;
}

/* The other tenant is there before: the cap holds among several. */
static enum err call_slowly(struct bench *b, const struct other *other, const char *address, struct error *e)
{
    static const struct lag_names names = { "beside long webhooks, p50", "beside long webhooks, p99",
                                            "beside long webhooks, max" };
    char target[200];
    snprintf(target, sizeof target,
             "\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://%s/delay/%d\"}", address, SLOW_MS);
    struct bodies slow = { .tasks = SLOW_TASKS, .per_request = SLOW_TASKS, .due_ms = now_ms(b) + SLOW_MS };
    double rate;
    struct lags lags;
    b->target = target;
    enum err rc = create_tasks(b, &slow, 1, &rate, e);
    b->target = NULL;
    if (rc)
        return rc;
    wait_until(b, slow.due_ms + SLOW_MS / 2);
    if (send_probes(b, other->key, NULL, PROBES / 2, e))
        return e->code;
    gather(b, true, slow.due_ms, PROBES / 2, &lags);
    if (add_lags(b, &lags, PROBES / 2, &names, e) || expect_backlog(b, slow.due_ms, SLOW_TASKS, e))
        return e->code;
    add_figure(b, "webhooks at once, of 100 slots", "calls", (double)most_at_once(b, slow.due_ms));
    return ERR_OK;
}

static enum err beside_webhooks(struct bench *b, struct error *e)
{
    struct bench_sink sink;
    struct other other;
    if (bench_server_start(b->cli, FEW_SLOTS, &b->place, &b->server, e) || bench_sink_start(b->cli, &sink, e))
        return e->code;
    enum err rc = make_other(b, &other, e);
    if (!rc)
        rc = call_slowly(b, &other, sink.address, e);
    bench_sink_stop(&sink);
    return rc;
}

enum err bench_fairness(struct bench *b, struct error *e)
{
    struct other other;
    if (make_other(b, &other, e) || beside_backlog(b, &other, e))
        return e->code;
    bench_server_stop(&b->server); /* what waits goes with it */
    return beside_webhooks(b, e);
}
