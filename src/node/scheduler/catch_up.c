#include "node/scheduler/catch_up.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { BATCH = 500, RETRY_MS = 500, ARENA = 4096 };

struct missed {
    struct catch_up_setup setup;
    struct op_catch_up op;
    struct moment now;
    int64_t ask_at_ms; /* steady */
    size_t total;
    bool in_flight, over, stopped;
    bool unsure; /* whether there was an outage at all */
    bool anew;   /* there was another outage meanwhile */
};

struct missed *catch_up_new(const struct catch_up_setup *setup, struct moment now)
{
    struct missed *m = xnew(*m);
    m->setup = *setup;
    m->now = now;
    m->ask_at_ms = now.steady_ms;
    return m;
}

void catch_up_free(struct missed *m)
{
    assert(!m || !m->in_flight);
    free(m);
}

static void end(struct missed *m)
{
    if (m->total)
        log_info("missed", kv_i64("occurrences", (int64_t)m->total));
    m->over = true;
    m->setup.over(m->setup.context);
}

static void done(struct op *op)
{
    struct missed *m = op->context;
    m->in_flight = false;
    arena_release(&op->arena);
    if (m->unsure || m->over) { /* nobody waits for that any more */
        m->op.after = (struct uuid){ 0 };
        m->anew = false;
        return;
    }
    if (op->rc == ERR_OK) {
        m->total += m->op.ret_withdrawn;
        m->op.after = m->anew ? (struct uuid){ 0 } : m->op.ret_after;
        if (uuid_is_nil(m->op.after) && !m->anew)
            end(m);
        m->anew = false;
        return;
    }
    log_warn("missed_failed", kv_err(&op->error));
    m->ask_at_ms = m->now.steady_ms + RETRY_MS;
    if (op->rc != ERR_UNAVAILABLE) /* asking again would not help: then rather late than never */
        end(m);
}

static bool waits(const struct missed *m)
{
    return !m->over && !m->unsure && !m->in_flight && !m->stopped;
}

void catch_up_step(struct missed *m, struct moment now, bool may_ask)
{
    m->now = now;
    if (!waits(m) || !may_ask || m->ask_at_ms > now.steady_ms)
        return;
    m->op.op = (struct op){ .kind = OP_CATCH_UP, .done = done, .context = m };
    m->op.before_ms = now.wall_ms - SPAWN_GRACE_MS;
    m->op.max = BATCH;
    arena_init(&m->op.op.arena, ARENA);
    m->in_flight = true;
    writer_submit(m->setup.writer, &m->op.op);
}

int64_t catch_up_next_ms(const struct missed *m)
{
    return waits(m) ? moment_wall_at(m->now, m->ask_at_ms) : INT64_MAX;
}

void catch_up_look_again(struct missed *m, struct moment now)
{
    m->total = m->over ? 0 : m->total;
    m->over = m->unsure = false;
    m->anew = m->in_flight;
    if (!m->in_flight)
        m->op.after = (struct uuid){ 0 };
    m->ask_at_ms = now.steady_ms;
}

void catch_up_wait(struct missed *m)
{
    m->over = false;
    m->unsure = true;
}

void missed_skip(struct missed *m)
{
    m->unsure = false;
    m->total = 0;
    end(m);
}

void catch_up_stop(struct missed *m)
{
    m->stopped = true;
}

bool catch_up_is_over(const struct missed *m)
{
    return m->over;
}

bool catch_up_in_flight(const struct missed *m)
{
    return m->in_flight;
}
