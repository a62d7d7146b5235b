/* Up to IN_FLIGHT batches are with the writer at once, so that the next is settled while one is committed. A batch that the
 * store could not take is submitted again, whole, later: its events stay unacknowledged until then. */
#include "role/updater.h"

#include <assert.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/list.h"
#include "base/log.h"

enum {
    BATCH = 2000,
    IN_FLIGHT = 2,
    BATCH_ARENA = 256 << 20,
    RETRY_MIN_MS = 20,
    RETRY_MAX_MS = 1000,
    POLL_RETRY_MS = 200
};

struct batch {
    struct op_settle op;
    struct updater *updater;
    struct arena arena; /* the events' */
    struct event_list events;
    int64_t retry_ms, retry_at_ms;
    struct list link; /* while it waits to be submitted again */
};

struct updater {
    struct updater_setup setup;
    struct prng random;
    size_t in_flight;
    struct list waiting; /* batches that the store could not take */
    int64_t now_ms, behind_ms, poll_at_ms;
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
    assert(u->in_flight == 0 && list_empty(&u->waiting));
    free(u);
}

static void batch_free(struct batch *b)
{
    arena_release(&b->op.op.arena);
    arena_release(&b->arena);
    free(b->op.v);
    free(b);
}

static void count(struct updater *u, const struct settlement *s)
{
    struct metrics *m = u->setup.metrics;
    if (s->stale) {
        metric_add(m, METRIC_RESULTS_STALE, 1);
        return;
    }
    if (s->verdict.has_execution && s->verdict.execution.status != EXECUTION_LOST)
        metric_add(m, METRIC_TASKS_EXECUTED, 1);
    if (s->verdict.has_execution && s->verdict.execution.status == EXECUTION_LOST)
        metric_add(m, METRIC_TASKS_RECOVERED, 1);
    else if (s->verdict.next == TASK_SCHEDULED && s->verdict.has_execution)
        metric_add(m, METRIC_TASKS_RETRIED, 1);
    if (s->verdict.next == TASK_COMPLETED)
        metric_add(m, METRIC_TASKS_COMPLETED, 1);
    if (s->verdict.next == TASK_FAILED)
        metric_add(m, METRIC_TASKS_FAILED, 1);
    if (s->verdict.next == TASK_EXPIRED)
        metric_add(m, METRIC_TASKS_EXPIRED, 1);
}

static void acknowledge(struct updater *u, const struct batch *b)
{
    uint64_t *sequences = xcalloc(b->events.n, sizeof *sequences);
    struct error e;
    for (size_t i = 0; i < b->events.n; i++)
        sequences[i] = b->events.v[i].sequence;
    if (events_ack(u->setup.events, sequences, b->events.n, &e)) /* they come again and are refused */
        log_warn("ack_failed", kv_err(&e));
    free(sequences);
}

static void settle_done(struct op *op)
{
    struct batch *b = container_of(op, struct batch, op.op);
    struct updater *u = b->updater;
    u->in_flight--;
    if (op->rc) {
        log_warn("settle_failed", kv_err(&op->error), kv_i64("outcomes", (int64_t)b->op.n));
        b->retry_ms = min_of(max_of(b->retry_ms * 2, (int64_t)RETRY_MIN_MS), (int64_t)RETRY_MAX_MS);
        b->retry_at_ms = u->now_ms + b->retry_ms;
        list_push(&u->waiting, &b->link);
        u->setup.woke(u->setup.context,
                      UINT64_MAX); /* if it was done all the same, nobody will say whom it let go on */
        return;
    }
    failpoint("after_settle");
    acknowledge(u, b);
    u->setup.woke(u->setup.context, b->op.ret_woke);
    for (size_t i = 0; i < b->op.n; i++) {
        count(u, &b->op.v[i]);
        u->setup.settled(u->setup.context, &b->events.v[i], &b->op.v[i]);
    }
    batch_free(b);
}

static void submit(struct updater *u, struct batch *b)
{
    b->op.now_ms = u->now_ms;
    b->op.op.rc = ERR_OK;
    u->in_flight++;
    failpoint("before_settle");
    writer_submit(u->setup.writer, &b->op.op);
}

static bool settle_some(struct updater *u)
{
    if (events_depth(u->setup.events) == 0)
        return false;
    struct batch *b = xnew(*b);
    struct error e;
    b->updater = u;
    arena_init(&b->arena, BATCH_ARENA);
    arena_init(&b->op.op.arena, 4096);
    enum err rc = events_poll(u->setup.events, BATCH, &b->arena, &b->events, &e);
    if (rc) {
        log_warn("poll_failed", kv_err(&e));
        u->poll_at_ms = u->now_ms + POLL_RETRY_MS; /* nobody else would call: what waits there was published before */
    }
    if (rc || b->events.n == 0) {
        batch_free(b);
        return false;
    }
    b->op.op.kind = OP_SETTLE;
    b->op.op.done = settle_done;
    b->op.n = b->events.n;
    b->op.v = xcalloc(b->op.n, sizeof *b->op.v);
    for (size_t i = 0; i < b->op.n; i++) {
        const struct event *ev = &b->events.v[i];
        int64_t latest_ms = u->now_ms + u->behind_ms;
        b->op.v[i] =
            (struct settlement){ .id = ev->task.id,
                                 .fence = ev->task.fence,
                                 .parent = ev->task.parent,
                                 .verdict = settle(&ev->task, &ev->outcome, latest_ms, &u->random, &b->arena) };
    }
    submit(u, b);
    return true;
}

int64_t updater_step(struct updater *u, int64_t now_ms, int64_t behind_ms)
{
    bool set_back = now_ms < u->now_ms; /* then no time that somebody waits for means anything any more */
    u->now_ms = now_ms;
    u->behind_ms = behind_ms;
    int64_t wake = INT64_MAX;
    list_each (&u->waiting, link) {
        struct batch *b = container_of(link, struct batch, link);
        if (b->retry_at_ms <= now_ms || set_back) {
            list_remove(link);
            submit(u, b);
        } else {
            wake = min_of(wake, b->retry_at_ms);
        }
    }
    if (set_back)
        u->poll_at_ms = now_ms;
    while (u->in_flight < IN_FLIGHT && list_empty(&u->waiting) && u->poll_at_ms <= now_ms && settle_some(u))
        ;
    return u->poll_at_ms > now_ms ? min_of(wake, u->poll_at_ms) : wake;
}

bool updater_is_idle(const struct updater *u)
{
    return u->in_flight == 0 && list_empty(&u->waiting) && events_depth(u->setup.events) == 0;
}
