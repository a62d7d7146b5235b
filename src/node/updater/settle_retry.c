#include "node/updater/settle_retry.h"

#include <assert.h>

#include "base/log.h"

enum { RETRY_MS = 200, ERRORS_ARENA = 4096 };

static void count(struct ends *e, const struct settlement *s)
{
    bool lost = s->verdict.has_execution && s->verdict.execution.status == EXECUTION_LOST;
    if (s->stale)
        return;
    if (lost)
        metric_add(e->setup.metrics, METRIC_TASKS_RECOVERED, 1);
    if (s->verdict.next == TASK_FAILED)
        metric_add(e->setup.metrics, METRIC_TASKS_FAILED, 1);
    if (s->verdict.next == TASK_EXPIRED)
        metric_add(e->setup.metrics, METRIC_TASKS_EXPIRED, 1);
}

static void settled(struct op *op)
{
    struct ends *e = op->context;
    e->in_flight = false;
    arena_release(&op->arena);
    e->setup.unblocked(e->setup.context, op->rc ? UINT64_MAX : e->op.ret_unblocked_lanes);
    if (op->rc) {
        log_warn("settle_failed", kv_err(&op->error), kv_i64("claims", (int64_t)e->op.n));
        e->waits = true;
        e->retry_at_ms = e->now.steady_ms + RETRY_MS;
        return;
    }
    for (size_t i = 0; i < e->op.n; i++) {
        count(e, &e->op.v[i]);
        e->setup.settled(e->setup.context, &e->events[i], &e->op.v[i]);
    }
    e->setup.done(e->setup.context);
}

static void submit(struct ends *e)
{
    e->waits = false;
    e->in_flight = true;
    e->op.op = (struct op){ .kind = OP_SETTLE, .done = settled, .context = e };
    e->op.now_ms = e->now.wall_ms;
    arena_init(&e->op.op.arena, ERRORS_ARENA);
    writer_submit(e->setup.writer, &e->op.op);
}

void settle_retry_submit(struct ends *e, const struct event *events, struct settlement *v, size_t n, struct moment now)
{
    assert(settle_retry_is_idle(e) && n > 0);
    e->now = now;
    e->events = events;
    e->op = (struct op_settle){ .v = v, .n = n };
    submit(e);
}

int64_t settle_retry_step(struct ends *e, struct moment now)
{
    e->now = now;
    if (e->waits && e->retry_at_ms <= now.steady_ms)
        submit(e);
    return e->waits ? moment_wall_at(now, e->retry_at_ms) : INT64_MAX;
}

void settle_retry_give_up(struct ends *e)
{
    if (!e->waits)
        return;
    e->waits = false;
    e->setup.done(e->setup.context);
}

bool settle_retry_is_idle(const struct ends *e)
{
    return !e->in_flight && !e->waits;
}
