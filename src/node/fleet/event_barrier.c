#include "node/fleet/event_barrier.h"

#include <assert.h>

#include "base/log.h"

enum {
    EVENT_BARRIER_CHECK_MS = 50,  /* between two questions whether it has passed */
    EVENT_BARRIER_RETRY_MS = 200, /* after a question that failed */
};

void event_barrier_begin(struct event_barrier_wait *b, struct moment now)
{
    assert(!b->asking);
    *b = (struct event_barrier_wait){ .async_io = b->async_io,
                                      .state = EVENT_BARRIER_WAITS,
                                      .now = now,
                                      .begun_ms = now.steady_ms,
                                      .ask_at_ms = now.steady_ms };
}

static void event_barrier_note_failure(struct event_barrier_wait *b, const struct error *e)
{
    if (!b->logged)
        log_warn("event_barrier_waits", kv_err(e));
    b->logged = true;
    b->error = *e;
}

static void event_barrier_on_answer(struct io_request *e)
{
    struct event_barrier_wait *b = e->context;
    bool was_set = e->kind == IO_BARRIER && !e->rc;
    b->asking = false;
    b->ask_at_ms = b->now.steady_ms + (e->rc ? EVENT_BARRIER_RETRY_MS : was_set ? 0 : EVENT_BARRIER_CHECK_MS);
    b->is_set = b->is_set || was_set;
    if (e->rc)
        event_barrier_note_failure(b, &e->error);
    if (b->left)
        b->state = EVENT_BARRIER_NONE;
    else if (!e->rc && !was_set && b->io_request.ret_passed)
        b->state = EVENT_BARRIER_PASSED;
}

static void event_barrier_ask(struct event_barrier_wait *b)
{
    if (b->now.steady_ms - b->begun_ms > EVENT_BARRIER_PATIENCE_MS) {
        if (!b->error.code)
            error_set(&b->error, ERR_UNAVAILABLE, "events from before are not applied after %d seconds",
                      EVENT_BARRIER_PATIENCE_MS / 1000);
        b->state = EVENT_BARRIER_FAILED;
        return;
    }
    b->asking = true;
    b->io_request.io_request = (struct io_request){ .kind = b->is_set ? IO_BARRIER_PASSED : IO_BARRIER,
                                                    .done = event_barrier_on_answer,
                                                    .context = b };
    async_io_submit(b->async_io, &b->io_request.io_request);
}

int64_t event_barrier_step(struct event_barrier_wait *b, struct moment now)
{
    b->now = now;
    while (b->state == EVENT_BARRIER_WAITS && !b->asking && b->ask_at_ms <= now.steady_ms)
        event_barrier_ask(b);
    return b->state == EVENT_BARRIER_WAITS && !b->asking ? moment_wall_at(now, b->ask_at_ms) : INT64_MAX;
}

void event_barrier_leave(struct event_barrier_wait *b)
{
    b->left = true;
    if (!b->asking)
        b->state = EVENT_BARRIER_NONE;
}
