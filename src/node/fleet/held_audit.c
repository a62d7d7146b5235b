#include "node/fleet/held_audit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { BATCH = 1000, LOOK_MS = 1000, ERRORS_ARENA = 4096 };

struct held_audit {
    struct held_audit_setup setup;
    struct op_running op;
    struct fenced_id names[BATCH];
    bool running[BATCH];
    bool in_flight, stopped;
    struct moment now;
    int64_t look_at_ms; /* steady */
};

struct held_audit *held_audit_new(const struct held_audit_setup *setup)
{
    struct held_audit *h = xnew(*h);
    h->setup = *setup;
    return h;
}

void held_audit_free(struct held_audit *h)
{
    assert(!h || !h->in_flight);
    free(h);
}

static void done(struct op *op)
{
    struct held_audit *h = op->context;
    h->in_flight = false;
    arena_release(&op->arena);
    if (op->rc) { /* they are asked about again */
        log_warn("running_failed", kv_err(&op->error));
        return;
    }
    for (size_t i = 0; i < h->op.n; i++)
        if (!h->running[i])
            scheduler_freed(h->setup.scheduler, h->names[i].id, h->names[i].fence, NULL);
    if (h->op.n == BATCH)
        h->look_at_ms = h->now.steady_ms;
}

int64_t held_audit_step(struct held_audit *h, struct moment now)
{
    h->now = now;
    if (h->in_flight || h->stopped)
        return INT64_MAX;
    if (now.steady_ms < h->look_at_ms)
        return moment_wall_at(now, h->look_at_ms);
    h->look_at_ms = now.steady_ms + LOOK_MS;
    size_t n = scheduler_queued_since(h->setup.scheduler, now.steady_ms - HELD_AUDIT_MS, h->names, BATCH);
    if (!n)
        return moment_wall_at(now, h->look_at_ms);
    h->op = (struct op_running){
        .op = { .kind = OP_RUNNING, .done = done, .context = h }, .v = h->names, .n = n, .ret = h->running
    };
    arena_init(&h->op.op.arena, ERRORS_ARENA);
    h->in_flight = true;
    writer_submit(h->setup.writer, &h->op.op);
    return INT64_MAX;
}

void held_audit_stop(struct held_audit *h)
{
    h->stopped = true;
}

bool held_audit_is_idle(const struct held_audit *h)
{
    return !h->in_flight;
}
