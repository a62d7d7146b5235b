/* Up to IN_FLIGHT batches are with the writer at once, so that one is settled while another is committed. A batch
 * that the store could not take is submitted again later, whole. Its events stay unacknowledged until then. */
#include "node/updater/updater.h"

#include <assert.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/list.h"
#include "base/log.h"
#include "core/task/settle_metrics.h"
#include "core/task/trace.h"

enum {
    BATCH = 2000,
    IN_FLIGHT = 2,
    BATCH_ARENA = 256 << 20,
    REPORTS_ARENA = 1 << 20,
    RETRY_MIN_MS = 20,
    RETRY_MAX_MS = 1000,
    POLL_RETRY_MS = 200,
    POLL_WAIT_MS = 500,
    POLL_SHORT_MS = 20, /* while a batch is being settled: its acknowledgement goes behind this poll */
};

struct batch {
    struct io_poll poll; /* owns the events' memory */
    struct op_settle settle;
    struct op_worker_report workers;
    struct io_events_ack ack;
    struct updater *updater;
    struct event_list events;      /* outcomes first */
    size_t pending;                /* operations with the writer */
    bool is_followed;              /* by a claim right behind the settle */
    int64_t retry_ms, retry_at_ms; /* at: steady */
    struct list link;              /* while it waits to be submitted again */
};

struct updater {
    struct updater_setup setup;
    struct prng random;
    size_t in_flight;    /* batches with the writer */
    size_t acking;       /* batches whose events are being acknowledged */
    struct list waiting; /* batches that the store could not take */
    bool polling, stopped, poll_failed;
    struct batch *arrived; /* polled, and not settled yet */
    struct moment now;
    int64_t behind_ms;
    int64_t poll_at_ms; /* steady */
};

struct updater *updater_new(const struct updater_setup *setup)
{
    struct updater *u = xnew(*u);
    u->setup = *setup;
    prng_init(&u->random, setup->seed);
    list_init(&u->waiting);
    return u;
}

void updater_free(struct updater *u)
{
    if (!u)
        return;
    assert(u->in_flight == 0 && u->acking == 0 && list_empty(&u->waiting) && !u->polling && !u->arrived);
    free(u);
}

static void updater_batch_free(struct batch *b)
{
    arena_release(&b->settle.op.arena);
    arena_release(&b->workers.op.arena);
    arena_release(&b->poll.arena);
    free(b->settle.v);
    free_const(b->workers.v);
    free_const(b->ack.sequences);
    free(b);
}

static void updater_count(struct updater *u, const struct event *e, const struct settlement *s)
{
    struct trace trace;
    if (e->outcome.sampled)
        trace = trace_read(e->task.trace, e->task.kind, e->task.id, e->task.run);
    if (s->stale)
        metric_add(u->setup.metrics, METRIC_RESULTS_STALE, 1);
    else
        settle_count(u->setup.metrics, &(struct settled_attempt){ .tenant = e->task.tenant,
                                                                  .verdict = &s->verdict,
                                                                  .state = s->ret_state,
                                                                  .fault = fault_of(e->task.target, &e->outcome),
                                                                  .trace = e->outcome.sampled ? trace.id : NULL,
                                                                  .target = e->task.target });
}

static void updater_on_acknowledged(struct io_request *e)
{
    struct batch *b = container_of(e, struct batch, ack.io_request);
    b->updater->acking--;
    if (e->rc) /* the events come again, and their fences refuse them */
        log_warn("ack_failed", kv_err(&e->error));
    updater_batch_free(b);
}

static void updater_acknowledge(struct updater *u, struct batch *b)
{
    uint64_t *sequences = xcalloc(b->events.n, sizeof *sequences);
    for (size_t i = 0; i < b->events.n; i++)
        sequences[i] = b->events.v[i].sequence;
    b->ack = (struct io_events_ack){ .io_request = { .kind = IO_EVENTS_ACK, .done = updater_on_acknowledged },
                                     .sequences = sequences,
                                     .n = b->events.n };
    u->acking++;
    async_io_submit(u->setup.async_io, &b->ack.io_request);
}

/* If the operation was applied all the same, its unblocked lanes are lost. */
static void updater_wait_to_retry(struct updater *u, struct batch *b)
{
    const struct op *failed = b->settle.op.rc ? &b->settle.op : &b->workers.op;
    log_warn("settle_failed", kv_err(&failed->error), kv_i64("outcomes", (int64_t)b->settle.n));
    b->retry_ms = min_of(max_of(b->retry_ms * 2, (int64_t)RETRY_MIN_MS), (int64_t)RETRY_MAX_MS);
    b->retry_at_ms = u->now.steady_ms + b->retry_ms;
    list_push(&u->waiting, &b->link);
    u->setup.unblocked(u->setup.context, UINT64_MAX);
}

static void updater_batch_done(struct updater *u, struct batch *b)
{
    u->in_flight--;
    if (b->settle.op.rc || b->workers.op.rc) {
        updater_wait_to_retry(u, b);
        return;
    }
    failpoint("after_settle");
    uint64_t lanes = op_unblocked(b->settle.ret_unblocked_lanes, b->settle.ret_arrivals_left);
    if (b->is_followed)
        u->setup.unblocked_before_claim(u->setup.context, lanes);
    else
        u->setup.unblocked(u->setup.context, lanes);
    for (size_t i = 0; i < b->settle.n; i++) {
        updater_count(u, &b->events.v[i], &b->settle.v[i]);
        u->setup.settled(u->setup.context, &b->events.v[i], &b->settle.v[i]);
    }
    if (u->setup.batch_settled)
        u->setup.batch_settled(u->setup.context);
    if (b->workers.ret_changed && u->setup.workers_changed)
        u->setup.workers_changed(u->setup.context);
    updater_acknowledge(u, b);
}

static void updater_on_op_done(struct op *op)
{
    struct batch *b = op->context;
    if (--b->pending == 0)
        updater_batch_done(b->updater, b);
}

static void updater_submit_settle(struct updater *u, struct batch *b)
{
    struct op *behind =
        u->setup.claim_behind ? u->setup.claim_behind(u->setup.context, b->events.v, b->settle.n) : NULL;
    b->is_followed = behind;
    if (behind)
        writer_submit_pair(u->setup.writer, &b->settle.op, behind);
    else
        writer_submit(u->setup.writer, &b->settle.op);
}

static void updater_submit(struct updater *u, struct batch *b)
{
    b->settle.now_ms = b->workers.now_ms = u->now.wall_ms;
    b->settle.op.rc = b->workers.op.rc = ERR_OK;
    b->pending = (b->settle.n > 0) + (b->workers.n > 0);
    bool has_workers = b->workers.n > 0; /* the batch may be done before the second operation */
    u->in_flight++;
    failpoint("before_settle");
    if (b->settle.n)
        updater_submit_settle(u, b);
    if (has_workers)
        writer_submit(u->setup.writer, &b->workers.op);
}

static bool updater_is_outcome(const struct event *e)
{
    return e->kind == EVENT_OUTCOME;
}

/* Moves outcomes to the front, in their order; returns how many there are. */
static size_t updater_outcomes_first(struct event_list *events)
{
    size_t n = 0, first = 0;
    while (first < events->n && updater_is_outcome(&events->v[first]))
        first++;
    if (first == events->n)
        return first;
    struct event *all = xcalloc(events->n, sizeof *all);
    for (size_t i = 0; i < events->n; i++)
        if (updater_is_outcome(&events->v[i]))
            all[n++] = events->v[i];
    size_t outcomes = n;
    for (size_t i = 0; i < events->n; i++)
        if (!updater_is_outcome(&events->v[i]))
            all[n++] = events->v[i];
    memcpy(events->v, all, n * sizeof *all);
    free(all);
    return outcomes;
}

/* The outcome with the lane in which the task is to wait. A lane that several hosts share is not closed while the
 * breaker of one of them is open, so a task of that host waits by its due time. */
static struct outcome updater_put_aside(const struct updater *u, const struct event *ev, int64_t now_ms)
{
    struct outcome o = ev->outcome;
    if (!o.aside.n || !u->setup.aside)
        return o;
    o.aside = u->setup.aside(u->setup.context, ev->task.tenant, o.aside);
    if (!str_eq(o.aside, ev->outcome.aside) && ev->breakers.host.kind == BREAKER_HELD)
        o.retry_after_ms = max_of(ev->breakers.host.until_ms - now_ms, (int64_t)1);
    return o;
}

static void updater_settle_outcomes(struct updater *u, struct batch *b, size_t n)
{
    int64_t latest_ms = u->now.wall_ms + u->behind_ms;
    b->settle.op.kind = OP_SETTLE;
    b->settle.op.done = updater_on_op_done;
    b->settle.op.context = b;
    arena_init(&b->settle.op.arena, 4096);
    b->settle.n = n;
    b->settle.v = xcalloc(n, sizeof *b->settle.v);
    for (size_t i = 0; i < n; i++) {
        const struct event *ev = &b->events.v[i];
        struct outcome o = updater_put_aside(u, ev, latest_ms);
        b->settle.v[i] = (struct settlement){ .id = ev->task.id,
                                              .fence = ev->task.fence,
                                              .parent = ev->task.parent,
                                              .tenant = ev->task.tenant,
                                              .verdict = settle(&ev->task, &o, latest_ms, &u->random, &b->poll.arena) };
        if (ev->host.n && u->setup.breaker_news)
            u->setup.breaker_news(u->setup.context, ev);
        u->setup.ended(u->setup.context, ev->task.id, ev->task.fence);
    }
}

static void updater_keep_reports(struct updater *u, struct batch *b, const struct event *v, size_t n)
{
    struct worker_row *rows = xcalloc(n, sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        const struct worker_report *r = &v[i].worker;
        rows[i] = (struct worker_row){ .id = r->id,
                                       .name = r->name,
                                       .version = r->version,
                                       .doc = r->doc,
                                       .kind = r->kind,
                                       .slots = r->slots,
                                       .running = r->running,
                                       .left_ms = r->left ? u->now.wall_ms : 0 };
    }
    b->workers = (struct op_worker_report){
        .op = { .kind = OP_WORKER_REPORT, .done = updater_on_op_done, .context = b }, .v = rows, .n = n
    };
    arena_init(&b->workers.op.arena, REPORTS_ARENA);
}

static void updater_settle_batch(struct updater *u, struct batch *b)
{
    b->events = b->poll.ret;
    size_t outcomes = updater_outcomes_first(&b->events);
    updater_settle_outcomes(u, b, outcomes);
    if (outcomes < b->events.n)
        updater_keep_reports(u, b, b->events.v + outcomes, b->events.n - outcomes);
    updater_submit(u, b);
}

/* ---- polling ---- */

static void updater_on_polled(struct io_request *e)
{
    struct batch *b = container_of(e, struct batch, poll.io_request);
    struct updater *u = b->updater;
    u->polling = false;
    if (e->rc) {
        if (!u->poll_failed)
            log_warn("poll_failed", kv_err(&e->error));
        u->poll_at_ms =
            u->now.steady_ms + POLL_RETRY_MS; /* no notice will come for events that were published before */
    }
    u->poll_failed = e->rc != ERR_OK;
    if (e->rc || b->poll.ret.n == 0)
        updater_batch_free(b);
    else
        u->arrived = b;
}

/* One poll is in flight. Its events are settled in the next step, which has the current time. */
static void updater_poll(struct updater *u)
{
    struct async_io *c = u->setup.async_io;
    bool may = !u->stopped && !u->polling && u->in_flight < IN_FLIGHT && list_empty(&u->waiting);
    if (!may || u->poll_at_ms > u->now.steady_ms || (c->at_once && c->ops->events_depth(c) == 0))
        return;
    struct batch *b = xnew(*b);
    b->updater = u;
    b->poll.io_request = (struct io_request){ .kind = IO_POLL, .done = updater_on_polled };
    b->poll.max = BATCH;
    b->poll.wait_ms = c->at_once ? 0 : u->in_flight ? POLL_SHORT_MS : POLL_WAIT_MS;
    arena_init(&b->poll.arena, BATCH_ARENA);
    u->polling = true;
    async_io_submit(c, &b->poll.io_request);
}

static bool updater_settle_arrived(struct updater *u)
{
    if (!u->arrived)
        updater_poll(u);
    if (!u->arrived)
        return false;
    updater_settle_batch(u, take(u->arrived));
    return true;
}

int64_t updater_step(struct updater *u, struct moment now, int64_t behind_ms)
{
    u->now = now;
    u->behind_ms = behind_ms;
    int64_t wake = INT64_MAX;
    list_each (&u->waiting, link) {
        struct batch *b = container_of(link, struct batch, link);
        if (b->retry_at_ms <= now.steady_ms) {
            list_remove(link);
            updater_submit(u, b);
        } else {
            wake = min_of(wake, b->retry_at_ms);
        }
    }
    while (updater_settle_arrived(u))
        ;
    if (u->poll_at_ms > now.steady_ms && !u->polling && !u->stopped)
        wake = min_of(wake, u->poll_at_ms);
    return moment_wall_at(now, wake);
}

void updater_stop(struct updater *u)
{
    u->stopped = true;
}

bool updater_is_idle(const struct updater *u)
{
    struct async_io *c = u->setup.async_io;
    return u->in_flight == 0 && u->acking == 0 && list_empty(&u->waiting) && !u->polling && !u->arrived &&
           (!c->at_once || c->ops->events_depth(c) == 0);
}
