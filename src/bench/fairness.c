/* The scenario `fairness`: somebody has a backlog; how soon do the tasks of others start? Its parts stand in a table
 * at the end of this file. This file has two of them, in which one tenant has a backlog and another one probes.
 *
 * Probes are single tasks that are due when they are sent, one every 50 ms. Their lag includes API, commit, claim
 * and start.
 *
 *  - backlog: no-op tasks of priority 0 keep the writer and the scheduler busy. Probes come from another tenant, and
 *    from the same tenant with priority 9.
 *  - webhooks: webhooks occupy their slots for 1 s, on a server with few slots.
 *
 * All tasks of a backlog have the same due time, and no probe has it: this is how samples are told apart. */
#include "bench/fairness.h"

#include <poll.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/rfc3339.h"

enum {
    PROBES = 100,
    PROBE_EVERY_MS = 50,
    PROBE_WAIT_MS = 60000, /* for the last probe */
    BACKLOG = 500000,
    BACKLOG_AHEAD_MS = 500, /* before the first probe: then the backlog is being worked on */
    FEW_SLOTS = 100,
    SLOW_MS = 1000,
    SLOW_TASKS = 5 * FEW_SLOTS,
    DEFAULT_TENANT = 1,
    ANSWER_TEXT = 1 << 20,
};

static const char noop_low[] = "\"priority\":0,\"target_type\":\"NOOP\"";
static const char other_name[] = "other";

/* ---- a second tenant ---- */

enum err fairness_create_second_tenant(struct bench *b, struct second_tenant *ret, struct error *e)
{
    cleanup_with(buf_release) struct buf answer;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    buf_init(&answer, ANSWER_TEXT);
    char tenant[64], key[128];
    snprintf(tenant, sizeof tenant, "{\"name\":\"%s\"}", other_name);
    snprintf(key, sizeof key, "{\"name\":\"bench\",\"scopes\":[\"tasks:write\"],\"tenant\":\"%s\"}", other_name);
    struct bench_request make = { .method = "POST", .path = "/v1/tenants", .body = str_from(tenant) };
    struct bench_request open = { .method = "POST", .path = "/v1/api-keys", .body = str_from(key) };
    if (bench_send(b, &make, NULL, e) || bench_send(b, &open, &answer, e))
        return e->code;
    const char *body = strstr(buf_cstr(&answer), "\r\n\r\n");
    if (!body || json_parse(str_from(body + 4), &doc, e))
        return error_set(e, ERR_CORRUPT, "the answer to a new API key is not JSON");
    snprintf(ret->key, sizeof ret->key, STR_FMT, STR_ARG(json_text_at(doc.root, "key")));
    return ERR_OK;
}

/* ---- probes ---- */

static int64_t fairness_now_ms(const struct bench *b)
{
    return clock_wall_ms(b->cli->clock);
}

static enum err fairness_send_probe(struct bench *b, const char *key, int priority, struct error *e)
{
    char due[RFC3339_TEXT + 1], body[160];
    rfc3339_format(fairness_now_ms(b), due);
    snprintf(body, sizeof body, "{\"run_at\":\"%s\",\"priority\":%d,\"target_type\":\"NOOP\"}", due, priority);
    struct bench_request q = { .method = "POST", .path = "/v1/tasks", .key = key, .body = str_from(body) };
    return bench_send(b, &q, NULL, e);
}

/* own_key: NULL, or the key of the backlog's tenant, which then sends probes of priority 9, too. */
static enum err fairness_send_probes(struct bench *b, const char *other_key, const char *own_key, size_t n,
                                     struct error *e)
{
    int64_t begun = fairness_now_ms(b);
    for (size_t i = 0; i < n; i++) {
        bench_wait_until(b, begun + (int64_t)i * PROBE_EVERY_MS);
        if (fairness_send_probe(b, other_key, 5, e) || (own_key && fairness_send_probe(b, own_key, 9, e)))
            return e->code;
    }
    return ERR_OK;
}

/* ---- samples ---- */

struct fairness_lags {
    int64_t us[PROBES];
    size_t n;
};

static bool fairness_is_probe(const struct bench_sample *s, bool other, int64_t backlog_due_ms)
{
    return s->due_ms != backlog_due_ms && (s->tenant != DEFAULT_TENANT) == other;
}

/* Waits for all n probes. fairness_add_lags reports probes that never started. */
static void fairness_collect_lags(const struct bench *b, bool other, int64_t backlog_due_ms, size_t n,
                                  struct fairness_lags *ret)
{
    size_t seen = 0;
    *ret = (struct fairness_lags){ 0 };
    for (int64_t until = fairness_now_ms(b) + PROBE_WAIT_MS; ret->n < n && fairness_now_ms(b) < until;
         poll(NULL, 0, 2)) {
        size_t there = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
        for (; seen < there && ret->n < n; seen++) {
            const struct bench_sample *s = &b->server.shared->v[seen];
            if (fairness_is_probe(s, other, backlog_due_ms))
                ret->us[ret->n++] = s->started_us - s->due_ms * 1000;
        }
    }
    qsort(ret->us, ret->n, sizeof *ret->us, bench_compare_i64);
}

static enum err fairness_add_lags(struct bench *b, const struct fairness_lags *l, size_t n, const char *label,
                                  struct error *e)
{
    if (l->n < n)
        return error_set(e, ERR_CORRUPT, "%zu of %zu fresh tasks started within %d s", l->n, n, PROBE_WAIT_MS / 1000);
    bench_add_percentiles(b, label, BENCH_P50_P99_MAX, l->us, n);
    return ERR_OK;
}

/* ---- beside a backlog of no-op tasks ---- */

struct fairness_progress {
    size_t done;
    int64_t at_ms;
};

static struct fairness_progress fairness_read_progress(const struct bench *b, int64_t backlog_due_ms)
{
    struct fairness_progress p = { .at_ms = fairness_now_ms(b) };
    size_t n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire);
    for (size_t i = 0; i < n; i++)
        p.done += b->server.shared->v[i].due_ms == backlog_due_ms;
    return p;
}

static enum err fairness_beside_backlog(struct bench *b, struct error *e)
{
    struct second_tenant other;
    size_t n = bench_task_count(b, BACKLOG);
    struct bench_workload backlog = {
        .target = noop_low, .tasks = n, .per_request = 1000, .due_ms = fairness_now_ms(b) + bench_lead_ms(n)
    };
    double rate;
    struct fairness_lags lags;
    if (fairness_create_second_tenant(b, &other, e) || bench_create_tasks(b, &backlog, 2, &rate, e))
        return e->code;
    /* a probe is told from the backlog by its due time */
    bench_wait_until(b, backlog.due_ms + (n == BACKLOG ? BACKLOG_AHEAD_MS : 1));
    struct fairness_progress before = fairness_read_progress(b, backlog.due_ms);
    if (fairness_send_probes(b, other.key, b->server.key, PROBES, e))
        return e->code;
    struct fairness_progress after = fairness_read_progress(b, backlog.due_ms);
    fairness_collect_lags(b, true, backlog.due_ms, PROBES, &lags);
    if (fairness_add_lags(b, &lags, PROBES, "another tenant's,", e))
        return e->code;
    fairness_collect_lags(b, false, backlog.due_ms, PROBES, &lags);
    if (fairness_add_lags(b, &lags, PROBES, "its own of priority 9,", e))
        return e->code;
    bench_add_figure(b, "priority 0 meanwhile", "tasks/s",
                     (double)(after.done - before.done) * 1000 / (double)(after.at_ms - before.at_ms));
    bench_add_figure(b, "still waiting then", "tasks", (double)(n - after.done));
    return ERR_OK;
}

/* ---- beside long webhooks ---- */

static enum err fairness_wait_backlog(const struct bench *b, int64_t backlog_due_ms, size_t n, struct error *e)
{
    struct fairness_progress p = { 0 };
    for (int64_t until = fairness_now_ms(b) + PROBE_WAIT_MS; p.done < n && fairness_now_ms(b) < until;
         poll(NULL, 0, 10))
        p = fairness_read_progress(b, backlog_due_ms);
    return p.done == n ? ERR_OK : error_set(e, ERR_CORRUPT, "%zu of %zu webhooks ended", p.done, n);
}

/* The largest number of concurrent calls. All calls have ended. */
static int64_t fairness_max_concurrent_calls(const struct bench *b, int64_t backlog_due_ms)
{
    size_t n = atomic_load_explicit(&b->server.shared->n, memory_order_acquire), calls = 0, ended = 0;
    int64_t *starts = xcalloc(n, sizeof *starts), *ends = xcalloc(n, sizeof *ends), most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bench_sample *s = &b->server.shared->v[i];
        if (s->due_ms != backlog_due_ms)
            continue;
        starts[calls] = s->started_us;
        ends[calls++] = s->started_us + SLOW_MS * 1000LL; /* the earliest possible end: the settle is later */
    }
    qsort(starts, calls, sizeof *starts, bench_compare_i64);
    qsort(ends, calls, sizeof *ends, bench_compare_i64);
    for (size_t i = 0; i < calls; i++) {
        while (ends[ended] <= starts[i])
            ended++;
        most = max_of(most, (int64_t)(i + 1 - ended));
    }
    free(starts);
    free(ends);
    return most;
}

/* The second tenant exists before the calls start: a tenant's share is only limited if there are several tenants. */
static enum err fairness_probe_beside_slow_calls(struct bench *b, const struct second_tenant *other,
                                                 const char *address, struct error *e)
{
    char target[200];
    snprintf(target, sizeof target,
             "\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://%s/delay/%d\"}", address, SLOW_MS);
    struct bench_workload slow = {
        .target = target, .tasks = SLOW_TASKS, .per_request = SLOW_TASKS, .due_ms = fairness_now_ms(b) + SLOW_MS
    };
    double rate;
    struct fairness_lags lags;
    if (bench_create_tasks(b, &slow, 1, &rate, e))
        return e->code;
    bench_wait_until(b, slow.due_ms + SLOW_MS / 2);
    if (fairness_send_probes(b, other->key, NULL, PROBES / 2, e))
        return e->code;
    fairness_collect_lags(b, true, slow.due_ms, PROBES / 2, &lags);
    if (fairness_add_lags(b, &lags, PROBES / 2, "beside long webhooks,", e) ||
        fairness_wait_backlog(b, slow.due_ms, SLOW_TASKS, e))
        return e->code;
    bench_add_figure(b, "webhooks at once, of 100 slots", "calls",
                     (double)fairness_max_concurrent_calls(b, slow.due_ms));
    return ERR_OK;
}

static enum err fairness_beside_webhooks(struct bench *b, struct error *e)
{
    struct bench_sink sink;
    struct second_tenant other;
    if (bench_sink_start(b->cli, "127.0.0.1:0", &sink, e))
        return e->code;
    enum err rc = fairness_create_second_tenant(b, &other, e);
    if (!rc)
        rc = fairness_probe_beside_slow_calls(b, &other, sink.address, e);
    bench_sink_stop(&sink);
    return rc;
}

/* ---- the scenario ---- */

enum fairness_where { ANYWHERE, ONE_NODE /* its own slots */, FLEET };

static const struct fairness_part {
    size_t slots;
    enum fairness_where where;
    enum err (*run)(struct bench *b, struct error *e);
} fairness_parts[] = {
    /* in the order of the choices of --part */
    { BENCH_SLOTS, ANYWHERE, fairness_beside_backlog },
    { FEW_SLOTS, ANYWHERE, fairness_beside_webhooks },
    { 1000, ONE_NODE, fairness_beside_busy_host },
    { 1, ONE_NODE, fairness_of_one_slot },
    { 200, FLEET, fairness_of_pools },
};

size_t fairness_seconds(const struct bench *b)
{
    return (size_t)option_get(b->options, "seconds")->number;
}

static bool fairness_part_fits(const struct bench *b, const struct fairness_part *p)
{
    return p->where == ANYWHERE || (p->where == FLEET) == (b->place.fleet != NULL);
}

static enum err fairness_run_part(struct bench *b, const struct fairness_part *p, struct error *e)
{
    bool filters = p->where == FLEET;
    b->place.filters = filters ? fairness_pool_filters : NULL;
    b->place.workers = filters ? FAIRNESS_POOLS : b->place.workers;
    if (bench_replace_server(b, p->slots, e))
        return e->code;
    return p->run(b, e);
}

enum { PART_ALL }; /* of --part; the others are places in the table, from 1 on */

static size_t fairness_part_wanted(const struct bench *b)
{
    return (size_t)option_get(b->options, "part")->number;
}

enum err bench_fairness_check(const struct bench *b, struct error *e)
{
    size_t wanted = fairness_part_wanted(b);
    if (wanted == PART_ALL || fairness_part_fits(b, &fairness_parts[wanted - 1]))
        return ERR_OK;
    return error_field(e, "--part", "%s",
                       b->place.fleet ? "is about the slots of a node: not with a fleet"
                                      : "pools requires --queue and --events");
}

enum err bench_fairness(struct bench *b, struct error *e)
{
    size_t wanted = fairness_part_wanted(b);
    for (size_t i = 0; i < array_count(fairness_parts); i++) {
        const struct fairness_part *p = &fairness_parts[i];
        if ((wanted == PART_ALL || wanted == i + 1) && fairness_part_fits(b, p) && fairness_run_part(b, p, e))
            return e->code;
    }
    return ERR_OK;
}
