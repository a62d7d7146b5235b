#include "node/fleet/event_barrier.h"

#include <assert.h>

#include "base/log.h"

enum {
    PASSED_MS = 50, /* between two questions whether it has passed */
    AGAIN_MS = 200, /* after one that failed */
};

void mark_begin(struct mark_wait *m, int64_t now_ms)
{
    assert(!m->asking);
    *m = (struct mark_wait){
        .courier = m->courier, .state = MARK_WAITS, .now_ms = now_ms, .begun_ms = now_ms, .ask_at_ms = now_ms
    };
}

static void note_failure(struct mark_wait *m, const struct error *e)
{
    if (!m->complained)
        log_warn("mark_waits", kv_err(e));
    m->complained = true;
    m->error = *e;
}

static void answered(struct errand *e)
{
    struct mark_wait *m = e->context;
    bool first = e->kind == ERRAND_MARK && !e->rc;
    m->asking = false;
    m->ask_at_ms = m->now_ms + (e->rc ? AGAIN_MS : first ? 0 : PASSED_MS);
    m->is_set = m->is_set || first;
    if (e->rc)
        note_failure(m, &e->error);
    if (m->left)
        m->state = MARK_NONE;
    else if (!e->rc && !first && m->errand.ret_passed)
        m->state = MARK_PASSED;
}

static void ask(struct mark_wait *m)
{
    if (m->now_ms - m->begun_ms > MARK_PATIENCE_MS) {
        if (!m->error.code)
            error_set(&m->error, ERR_UNAVAILABLE, "events from before are not applied after %d seconds",
                      MARK_PATIENCE_MS / 1000);
        m->state = MARK_FAILED;
        return;
    }
    m->asking = true;
    m->errand.errand =
        (struct errand){ .kind = m->is_set ? ERRAND_PASSED : ERRAND_MARK, .done = answered, .context = m };
    courier_submit(m->courier, &m->errand.errand);
}

int64_t mark_step(struct mark_wait *m, int64_t now_ms)
{
    if (now_ms < m->now_ms) /* the clock was set back */
        m->begun_ms = m->ask_at_ms = now_ms;
    m->now_ms = now_ms;
    while (m->state == MARK_WAITS && !m->asking && m->ask_at_ms <= now_ms)
        ask(m);
    return m->state == MARK_WAITS && !m->asking ? m->ask_at_ms : INT64_MAX;
}

void mark_leave(struct mark_wait *m)
{
    m->left = true;
    if (!m->asking)
        m->state = MARK_NONE;
}
