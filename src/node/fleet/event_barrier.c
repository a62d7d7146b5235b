#include "node/fleet/event_barrier.h"

#include <assert.h>

#include "base/log.h"

enum {
    PASSED_MS = 50, /* between two questions whether it has passed */
    AGAIN_MS = 200, /* after one that failed */
};

void event_barrier_begin(struct event_barrier_wait *m, struct moment now)
{
    assert(!m->asking);
    *m = (struct event_barrier_wait){ .async_io = m->async_io,
                                      .state = EVENT_BARRIER_WAITS,
                                      .now = now,
                                      .begun_ms = now.steady_ms,
                                      .ask_at_ms = now.steady_ms };
}

static void note_failure(struct event_barrier_wait *m, const struct error *e)
{
    if (!m->complained)
        log_warn("mark_waits", kv_err(e));
    m->complained = true;
    m->error = *e;
}

static void answered(struct io_request *e)
{
    struct event_barrier_wait *m = e->context;
    bool first = e->kind == IO_BARRIER && !e->rc;
    m->asking = false;
    m->ask_at_ms = m->now.steady_ms + (e->rc ? AGAIN_MS : first ? 0 : PASSED_MS);
    m->is_set = m->is_set || first;
    if (e->rc)
        note_failure(m, &e->error);
    if (m->left)
        m->state = EVENT_BARRIER_NONE;
    else if (!e->rc && !first && m->io_request.ret_passed)
        m->state = EVENT_BARRIER_PASSED;
}

static void ask(struct event_barrier_wait *m)
{
    if (m->now.steady_ms - m->begun_ms > EVENT_BARRIER_PATIENCE_MS) {
        if (!m->error.code)
            error_set(&m->error, ERR_UNAVAILABLE, "events from before are not applied after %d seconds",
                      EVENT_BARRIER_PATIENCE_MS / 1000);
        m->state = EVENT_BARRIER_FAILED;
        return;
    }
    m->asking = true;
    m->io_request.io_request =
        (struct io_request){ .kind = m->is_set ? IO_BARRIER_PASSED : IO_BARRIER, .done = answered, .context = m };
    async_io_submit(m->async_io, &m->io_request.io_request);
}

int64_t event_barrier_step(struct event_barrier_wait *m, struct moment now)
{
    m->now = now;
    while (m->state == EVENT_BARRIER_WAITS && !m->asking && m->ask_at_ms <= now.steady_ms)
        ask(m);
    return m->state == EVENT_BARRIER_WAITS && !m->asking ? moment_wall_at(now, m->ask_at_ms) : INT64_MAX;
}

void event_barrier_leave(struct event_barrier_wait *m)
{
    m->left = true;
    if (!m->asking)
        m->state = EVENT_BARRIER_NONE;
}
