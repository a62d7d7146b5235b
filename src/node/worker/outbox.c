/* An outcome is borrowed for the call that reports it, so it is copied into the outbox. The outbox is published as
 * one batch and kept until that succeeded. A worker that cannot publish takes no more tasks once its slots are full
 * of unpublished outcomes; it drops nothing. Deliveries in the outbox, of parked tasks, and of those that wait to hear
 * what is wanted back, are renewed like running ones: they must not time out while they wait. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/worker/internal.h"

enum { OUTBOX_ARENA = 256 << 20 };

struct acking {
    struct io_ids ids;
    struct worker *worker;
    struct list link;    /* in worker.unacked, after a failure */
    int64_t retry_at_ms; /* steady */
    struct fenced_id v[WORKER_PUBLISH_MAX];
};

struct renewing {
    struct io_renew io_request;
    struct worker *worker;
    int64_t sent_ms; /* steady */
    const struct task **tasks;
    struct delivery_batch **delivery_batches; /* of the tasks, referenced: the tasks may end meanwhile */
    size_t n;
};

void worker_outbox_init(struct worker *w)
{
    arena_init(&w->outbox.arena, OUTBOX_ARENA);
    arena_init(&w->spare.arena, OUTBOX_ARENA);
    list_init(&w->unacked);
}

static void outbox_release(struct outbox *o)
{
    arena_release(&o->arena);
    free(o->v);
    free(o->jobs);
}

void worker_outbox_release(struct worker *w)
{
    assert(!w->publishing && !w->acking && !w->renewing);
    outbox_release(&w->outbox);
    outbox_release(&w->spare);
    free(w->free_ack);
}

static void outbox_keep_text(struct arena *a, struct str *s)
{
    if (s->n && !arena_str(a, *s, s))
        *s = S("");
}

static void outbox_grow(struct outbox *b)
{
    b->cap = max_of(b->cap * 2, (size_t)256);
    b->v = xrealloc(b->v, b->cap * sizeof *b->v);
    b->jobs = xrealloc(b->jobs, b->cap * sizeof(struct job *));
}

static void outbox_add_news(struct worker *w, const struct job *j, struct event *e)
{
    char host[TARGET_HOST_MAX];
    if (j->news.host.kind == BREAKER_NO_NEWS && j->news.tenant.kind == BREAKER_NO_NEWS)
        return;
    e->breakers = j->news;
    e->host = target_host(j->run.task, host);
    outbox_keep_text(&w->outbox.arena, &e->host);
    if (w->setup.breaker_news)
        w->setup.breaker_news(w->setup.context, e);
}

void worker_add_outcome(struct worker *w, struct job *j, const struct outcome *o)
{
    struct outbox *b = &w->outbox;
    if (b->n == b->cap)
        outbox_grow(b);
    struct event *e = &b->v[b->n];
    b->jobs[b->n++] = j;
    *e = (struct event){ .task = settle_facts_of(j->run.task, o, &b->arena), .outcome = *o };
    e->outcome.worker = w->setup.name; /* the worker's memory: it outlives the event */
    outbox_keep_text(&b->arena, &e->task.retry.rules);
    outbox_keep_text(&b->arena, &e->task.queue);
    outbox_keep_text(&b->arena, &e->task.name);
    outbox_keep_text(&b->arena, &e->task.trace);
    outbox_keep_text(&b->arena, &e->outcome.error);
    outbox_keep_text(&b->arena, &e->outcome.output);
    outbox_keep_text(&b->arena, &e->outcome.trace_id);
    outbox_keep_text(&b->arena, &e->outcome.aside);
    outbox_add_news(w, j, e);
    if (w->setup.ended)
        w->setup.ended(w->setup.context, j->id.id, j->id.fence);
}

/* ---- publishing ---- */

/* A failed acknowledgement is repeated: the delivery would time out, and be settled as lost if its outcome is not
 * applied by then. */
static void outbox_on_acknowledged(struct io_request *e)
{
    struct acking *a = container_of(e, struct acking, ids.io_request);
    struct worker *w = a->worker;
    if (log_first_failure(&w->acks_down, e->rc))
        log_warn("ack_failed", kv_err(&e->error), kv_i64("deliveries", (int64_t)a->ids.n));
    if (e->rc && !w->giving_up && !w->setup.async_io->at_once) {
        a->retry_at_ms = w->now.steady_ms + WORKER_RETRY_MS;
        list_push(&w->unacked, &a->link);
        return;
    }
    w->acking--;
    if (w->free_ack)
        free(a);
    else
        w->free_ack = a;
}

static void outbox_submit_ack(struct acking *a)
{
    a->ids.io_request = (struct io_request){ .kind = IO_ACK, .done = outbox_on_acknowledged };
    async_io_submit(a->worker->setup.async_io, &a->ids.io_request);
}

static void outbox_acknowledge_again(struct worker *w)
{
    list_each (&w->unacked, link) {
        struct acking *a = container_of(link, struct acking, link);
        if (a->retry_at_ms > w->now.steady_ms)
            continue;
        list_remove(link);
        outbox_submit_ack(a);
    }
}

static void outbox_acknowledge(struct worker *w, struct job *const *jobs, size_t n)
{
    struct acking *a = w->free_ack ? take(w->free_ack) : xmalloc(sizeof *a);
    a->worker = w;
    a->ids = (struct io_ids){ .v = a->v, .n = n };
    for (size_t i = 0; i < n; i++) {
        a->v[i] = jobs[i]->id;
        delivery_batch_unref(jobs[i]->delivery_batch);
    }
    w->acking++;
    outbox_submit_ack(a);
}

/* The rest of the batch waits to be published again. */
static void outbox_keep_rest(struct worker *w)
{
    struct outbox *b = &w->spare;
    size_t rest = b->n - w->sent;
    memmove(b->v, b->v + w->sent, rest * sizeof *b->v);
    memmove(b->jobs, b->jobs + w->sent, rest * sizeof(struct job *));
    b->n = rest;
    w->sent = 0;
    w->retry_at_ms = w->now.steady_ms + WORKER_RETRY_MS;
}

/* Logged when it begins and when it ends, not each time. */
static void outbox_note_events(struct worker *w, const struct io_request *e)
{
    if (e->rc && !w->events_down) {
        log_warn("publish_failed", kv_err(&e->error), kv_i64("outcomes", (int64_t)worker_unpublished(w)));
        w->events_down = true;
        w->events_down_ms = w->now.steady_ms;
    } else if (!e->rc && w->events_down) {
        log_info("publish_back", kv_i64("outcomes", (int64_t)worker_unpublished(w)),
                 kv_i64("down_ms", w->now.steady_ms - w->events_down_ms));
        w->events_down = false;
    }
}

static void outbox_on_published(struct io_request *e)
{
    struct worker *w = e->context;
    w->publishing = false;
    outbox_note_events(w, e);
    if (e->rc) {
        outbox_keep_rest(w);
        return;
    }
    outbox_acknowledge(w, w->spare.jobs + w->sent, w->publish.n);
    w->sent += w->publish.n;
    if (w->sent < w->spare.n)
        return;
    w->spare.n = w->sent = 0;
    arena_reset(&w->spare.arena);
}

static void outbox_publish_some(struct worker *w)
{
    w->publishing = true;
    w->publish = (struct io_publish){ .io_request = { .kind = IO_PUBLISH, .done = outbox_on_published, .context = w },
                                      .v = w->spare.v + w->sent,
                                      .n = min_of(w->spare.n - w->sent, (size_t)WORKER_PUBLISH_MAX) };
    async_io_submit(w->setup.async_io, &w->publish.io_request);
}

void worker_publish(struct worker *w)
{
    outbox_acknowledge_again(w);
    if (w->spare.n == 0 && w->outbox.n) {
        struct outbox full = w->outbox;
        w->outbox = w->spare;
        w->spare = full;
    }
    while (!w->publishing && w->spare.n && w->retry_at_ms <= w->now.steady_ms)
        outbox_publish_some(w);
}

size_t worker_unpublished(const struct worker *w)
{
    assert_owned(&w->owner);
    return w->outbox.n + w->spare.n - w->sent;
}

/* ---- renewing ---- */

static void outbox_on_renewed(struct io_request *e)
{
    struct renewing *r = container_of(e, struct renewing, io_request.io_request);
    r->worker->renewing = NULL;
    if (log_first_failure(&r->worker->renewals_down, e->rc))
        log_warn("renew_failed", kv_err(&e->error), kv_i64("deliveries", (int64_t)r->n));
    if (!e->rc)
        r->worker->renewed_ms = r->sent_ms;
    if (e->rc) { /* soon, before the deliveries time out */
        r->worker->renew_at_ms = min_of(r->worker->renew_at_ms, r->worker->now.steady_ms + WORKER_RETRY_MS);
    }
    for (size_t i = 0; i < r->n; i++)
        delivery_batch_unref(r->delivery_batches[i]);
    free(r->tasks);
    free(r->delivery_batches);
    free(r);
}

static void outbox_renew_one(struct renewing *r, struct job *j)
{
    r->tasks[r->n] = j->run.task;
    r->delivery_batches[r->n++] = j->delivery_batch;
    j->delivery_batch->references++;
}

static void outbox_submit_renewal(struct worker *w, size_t max)
{
    struct renewing *r = w->renewing = xnew(*r);
    r->worker = w;
    r->sent_ms = w->now.steady_ms;
    r->tasks = xcalloc(max, sizeof *r->tasks);
    r->delivery_batches = xcalloc(max, sizeof *r->delivery_batches);
    size_t arrived;
    struct job *jobs = worker_arrived_jobs(w, &arrived);
    for (size_t i = 0; i < arrived; i++)
        outbox_renew_one(r, &jobs[i]);
    map_each (&w->running, slot)
        outbox_renew_one(r, slot->value);
    map_each (&w->parked, slot)
        outbox_renew_one(r, slot->value);
    for (size_t i = 0; i < w->outbox.n; i++)
        outbox_renew_one(r, w->outbox.jobs[i]);
    for (size_t i = w->sent; i < w->spare.n; i++)
        outbox_renew_one(r, w->spare.jobs[i]);
    r->io_request = (struct io_renew){ .io_request = { .kind = IO_RENEW, .done = outbox_on_renewed },
                                       .running = r->tasks,
                                       .n = r->n,
                                       .by = { .now_ms = w->now.wall_ms,
                                               .visibility_ms = w->setup.visibility_ms,
                                               .worker = w->setup.id,
                                               .alone = r->n == 1 } };
    async_io_submit(w->setup.async_io, &r->io_request.io_request);
}

void worker_renew(struct worker *w)
{
    size_t arrived;
    (void)worker_arrived_jobs(w, &arrived);
    size_t n = arrived + w->running.n + w->parked.n + worker_unpublished(w);
    if (n == 0) {
        w->renew_at_ms = INT64_MAX;
        return;
    }
    if (w->renew_at_ms == INT64_MAX)
        w->renew_at_ms = w->now.steady_ms + w->setup.visibility_ms / 3;
    if (w->now.steady_ms < w->renew_at_ms || w->renewing)
        return;
    w->renew_at_ms = w->now.steady_ms + w->setup.visibility_ms / 3;
    outbox_submit_renewal(w, n);
}
