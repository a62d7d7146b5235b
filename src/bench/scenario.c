#include "bench/scenario.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "base/rfc3339.h"
#include "bench/load.h"

enum { LEAD_MS = 3000, IDLE_MS = 15000, PAD = 180, BODY_MAX = 16 << 20 };

/* ---- single requests ---- */

static void bench_write_single(void *context, size_t i, struct buf *out)
{
    struct bench_request *q = context;
    (void)i;
    buf_printf(out,
               "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n",
               q->method, q->path, q->key, q->body.n);
    buf_add(out, q->body);
    q->ret_sent_us = clock_wall_us(q->clock);
}

enum err bench_send(struct bench *b, struct bench_request *q, struct buf *ret_answer, struct error *e)
{
    struct load load = { .clock = b->cli->clock,
                         .port = b->server.port,
                         .cacert = bench_server_cacert(&b->server),
                         .connections = 1,
                         .requests = 1,
                         .make = bench_write_single,
                         .context = q,
                         .answer = ret_answer };
    q->key = q->key ? q->key : b->server.key;
    q->clock = b->cli->clock;
    if (load_run(&load, e))
        return e->code;
    q->ret_took_us = load.took_us;
    return load.refused
               ? error_set(e, ERR_UNAVAILABLE, "%s %s was refused: %.300s", q->method, q->path, load.first_refusal)
               : ERR_OK;
}

/* ---- many tasks ---- */

void bench_remove_samples(struct bench *b)
{
    atomic_store(&b->server.shared->taken, 0);
    atomic_store(&b->server.shared->n, 0);
}

static int64_t bench_task_due_ms(const struct bench_workload *w, size_t i)
{
    size_t number = w->first + i;
    uint64_t chance = hash_bytes(HASH_STABLE, (struct str){ (const char *)&number, sizeof number });
    if (w->soon_each && i % w->soon_each == 0)
        return w->soon_ms + (int64_t)(chance % SOON_SPREAD_MS);
    if (w->random_due)
        return w->due_ms + (int64_t)(chance % (uint64_t)w->spread_ms);
    return w->due_ms + (w->spread_ms ? (int64_t)i * w->spread_ms / (int64_t)w->tasks : 0);
}

/* Without printf, which is slow: this process shares the machine with the server that it measures. */
static void bench_write_task(const struct bench_workload *w, size_t i, struct buf *out)
{
    static char pad[PAD];
    char due[RFC3339_TEXT + 1];
    memset(pad, '0', sizeof pad);
    rfc3339_format(bench_task_due_ms(w, i), due);
    buf_text(out, "{\"name\":\"bench ");
    buf_u64(out, w->first + i);
    buf_text(out, "\",\"run_at\":\"");
    buf_text(out, due);
    buf_text(out, "\",");
    buf_text(out, w->target ? w->target : w->bench->target);
    buf_text(out, ",\"payload\":{\"order\":");
    buf_u64(out, w->first + i);
    buf_text(out, ",\"note\":\"");
    buf_add(out, (struct str){ pad, sizeof pad });
    buf_text(out, "\"}}");
}

static void bench_write_head(const struct bench_workload *w, size_t request, const char *path, size_t length,
                             struct buf *out)
{
    buf_printf(out,
               "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
               "Idempotency-Key: bench-%llx-%zu\r\nContent-Length: %zu\r\n\r\n",
               path, w->key ? w->key : w->bench->server.key, (unsigned long long)w->bench->run, request, length);
}

static void bench_write_request(void *context, size_t request, struct buf *out)
{
    struct bench_workload *w = context;
    struct buf *body = &w->scratch;
    buf_reset(body);
    size_t from = request * w->per_request, to = min_of(from + w->per_request, w->tasks);
    if (w->per_request == 1) {
        bench_write_task(w, from, body);
    } else {
        for (size_t i = from; i < to; i++) {
            buf_char(body, i == from ? '[' : ',');
            bench_write_task(w, i, body);
        }
        buf_char(body, ']');
    }
    bench_write_head(w, request, w->per_request == 1 ? "/v1/tasks" : "/v1/tasks/batch", body->n, out);
    buf_add(out, buf_str(body));
}

/* Requests are answered in any order: each answer has the tasks of its request. */
static void bench_read_ids(void *context, const struct load_answer *a)
{
    struct bench_workload *w = context;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    const char *body = a->ok ? strstr(a->text.p, "\r\n\r\n") : NULL;
    struct error ignored;
    if (!body || json_parse_answer(str_from(body + 4), &doc, &ignored))
        return;
    size_t from = a->request * w->per_request, to = min_of(from + w->per_request, w->tasks);
    for (size_t i = from; i < to; i++) {
        char path[32] = "id";
        if (w->per_request > 1)
            snprintf(path, sizeof path, "tasks[%zu].id", i - from);
        w->id_count += uuid_parse(json_text_at(doc.root, path), &w->ids[i]);
    }
}

enum err bench_create_tasks(struct bench *b, struct bench_workload *w, size_t connections, double *ret_rate,
                            struct error *e)
{
    w->bench = b;
    w->first = b->made;
    b->made += w->tasks;
    bench_remove_samples(b);
    struct load load = { .clock = b->cli->clock,
                         .port = b->server.port,
                         .cacert = bench_server_cacert(&b->server),
                         .connections = connections,
                         .requests = (w->tasks + w->per_request - 1) / w->per_request,
                         .make = bench_write_request,
                         .on_answer = w->ids ? bench_read_ids : NULL,
                         .context = w };
    b->run = (uint64_t)clock_wall_us(b->cli->clock);
    buf_init(&w->scratch, BODY_MAX);
    enum err rc = load_run(&load, e);
    buf_release(&w->scratch);
    if (rc)
        return rc;
    if (load.refused)
        return error_set(e, ERR_UNAVAILABLE, "%zu requests were refused, the first: %.300s", load.refused,
                         load.first_refusal);
    if (w->ids && w->id_count < w->tasks)
        return error_set(e, ERR_CORRUPT, "answers have the ids of %zu of %zu tasks", w->id_count, w->tasks);
    *ret_rate = (double)w->tasks * 1e6 / (double)load.took_us;
    return ERR_OK;
}

size_t bench_task_count(const struct bench *b, size_t otherwise)
{
    return option_given(b->options, "tasks") ? (size_t)option_get(b->options, "tasks")->number : otherwise;
}

int64_t bench_ms_from_now(const struct bench *b, int64_t ms)
{
    return clock_wall_ms(b->cli->clock) + ms;
}

void bench_wait_until(const struct bench *b, int64_t wall_ms)
{
    for (int64_t left; (left = wall_ms - clock_wall_ms(b->cli->clock)) > 0;)
        poll(NULL, 0, (int)min_of(left, (int64_t)1000));
}

enum err bench_replace_server(struct bench *b, size_t slots, struct error *e)
{
    if (!b->place.fleet && !b->place.store)
        bench_server_signal(&b->server, SIGKILL);
    bench_server_stop(&b->server);
    return bench_server_start(b->cli, slots, &b->place, &b->server, e);
}

int64_t bench_lead_ms(size_t n)
{
    return LEAD_MS + (int64_t)n / 20;
}

/* ---- settled tasks ---- */

enum err bench_wait_settled(struct bench *b, size_t n, int64_t due_ms, struct error *e)
{
    int64_t until_due_ms = max_of(due_ms - clock_wall_ms(b->cli->clock), (int64_t)0);
    size_t seen = bench_server_wait(&b->server, n, until_due_ms + IDLE_MS);
    return seen == n ? ERR_OK : error_set(e, ERR_CORRUPT, "%zu of %zu tasks were settled", seen, n);
}

double bench_samples_rate(const struct bench *b, size_t n)
{
    int64_t first_us = INT64_MAX, last_us = 0;
    for (size_t i = 0; i < n; i++) {
        first_us = min_of(first_us, b->server.shared->v[i].started_us);
        last_us = max_of(last_us, b->server.shared->v[i].settled_us);
    }
    return (double)n * 1e6 / (double)max_of(last_us - first_us, (int64_t)1);
}

/* Tasks a second from their common due time to the last settle. Up to BENCH_SLOTS tasks were claimed before that
 * time, so they do not count. */
static double bench_burst_rate(const struct bench *b, size_t n, int64_t due_ms)
{
    int64_t last_us = 0;
    for (size_t i = 0; i < n; i++)
        last_us = max_of(last_us, b->server.shared->v[i].settled_us);
    size_t ahead = min_of(n / 2, (size_t)BENCH_SLOTS);
    return (double)(n - ahead) * 1e6 / (double)(last_us - due_ms * 1000);
}

enum err bench_run_burst(struct bench *b, size_t n, struct burst_result *ret, struct error *e)
{
    struct bench_workload w = { .tasks = n,
                                .per_request = BENCH_BATCH,
                                .due_ms = bench_ms_from_now(b, bench_lead_ms(n)) };
    double rate;
    if (bench_create_tasks(b, &w, BATCH_CONNECTIONS, &rate, e))
        return e->code;
    int64_t before_us = bench_server_cpu_us(&b->server);
    if (bench_wait_settled(b, n, w.due_ms, e))
        return e->code;
    *ret = (struct burst_result){ .rate = bench_burst_rate(b, n, w.due_ms),
                                  .cpu_us = (double)(bench_server_cpu_us(&b->server) - before_us) / (double)n };
    return ERR_OK;
}

enum err bench_run_spread(struct bench *b, size_t n, size_t rate, struct error *e)
{
    struct bench_workload w = { .tasks = n,
                                .per_request = BENCH_BATCH,
                                .due_ms = bench_ms_from_now(b, bench_lead_ms(n)),
                                .spread_ms = (int64_t)(n * 1000 / rate) };
    double created;
    return bench_create_tasks(b, &w, BATCH_CONNECTIONS, &created, e) || bench_wait_settled(b, n, w.due_ms, e) ? e->code
                                                                                                              : ERR_OK;
}
