#include "node/reaper/reaper.h"

#include <assert.h>

#include "base/log.h"
#include "core/task/settle_metrics.h"

enum { REAPER_ARENA = 64 << 20, REAPER_SETTLE_ARENA = 1 << 20, REAPER_RETRY_MS = 200 };

void reaper_init(struct reaper *r, const struct reaper_source *source, const struct reaper_setup *setup)
{
    assert(!source->barrier || setup->async_io);
    *r = (struct reaper){
        .source = source, .setup = *setup, .barrier.async_io = setup->async_io, .barrier_wanted = source->barrier
    };
    prng_init(&r->random, setup->seed);
}

static void reaper_end_batch(struct reaper *r)
{
    arena_release(&r->arena);
    r->n = r->found = 0;
    r->phase = REAPER_IDLE;
    r->source->batch_over(r);
}

/* A barrier that was left while it was being asked about ends with its answer, which no step may follow. */
bool reaper_is_idle(const struct reaper *r)
{
    return r->phase == REAPER_IDLE || (r->phase == REAPER_BARRIER && r->barrier.state == EVENT_BARRIER_NONE);
}

void reaper_release(struct reaper *r)
{
    assert(reaper_is_idle(r));
    if (r->phase != REAPER_IDLE)
        reaper_end_batch(r);
}

/* ---- settling ---- */

static void reaper_count(struct reaper *r, const struct event *e, const struct settlement *s)
{
    if (!s->stale)
        settle_count(r->setup.metrics, &(struct settled_attempt){ .tenant = e->task.tenant,
                                                                  .verdict = &s->verdict,
                                                                  .state = s->ret_state,
                                                                  .fault = fault_of(e->task.target, &e->outcome),
                                                                  .target = e->task.target });
}

static void reaper_acknowledge(struct reaper *r)
{
    if (!r->source->acknowledge) {
        reaper_end_batch(r);
        return;
    }
    r->phase = REAPER_ACKNOWLEDGING;
    r->source->acknowledge(r);
}

void reaper_acknowledged(struct reaper *r)
{
    assert(r->phase == REAPER_ACKNOWLEDGING);
    reaper_end_batch(r);
}

static void reaper_on_settled(struct op *op)
{
    struct reaper *r = op->context;
    pending_op_end(&r->settling, op);
    r->setup.unblocked(r->setup.context,
                       op->rc ? UINT64_MAX : op_unblocked(r->op.ret_unblocked_lanes, r->op.ret_arrivals_left));
    if (op->rc) {
        log_warn("settle_failed", kv_err(&op->error), kv_cstr("source", r->source->name),
                 kv_i64("claims", (int64_t)r->op.n));
        pending_op_wait(&r->settling, r->now, REAPER_RETRY_MS);
        if (r->stopped)
            reaper_end_batch(r);
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        reaper_count(r, &r->events[i], &r->settlements[i]);
        if (r->source->settled)
            r->source->settled(r, i);
        else
            r->setup.settled(r->setup.context, &r->events[i], &r->settlements[i]);
    }
    if (r->setup.batch_settled)
        r->setup.batch_settled(r->setup.context);
    reaper_acknowledge(r);
}

static void reaper_settle(struct reaper *r)
{
    r->op = (struct op_settle){ .op = { .kind = OP_SETTLE, .done = reaper_on_settled, .context = r },
                                .v = r->settlements,
                                .n = r->n,
                                .now_ms = r->now.wall_ms };
    pending_op_send(&r->settling, r->setup.writer, &r->op.op, REAPER_SETTLE_ARENA);
}

/* ---- verdicts ---- */

struct event *reaper_next_event(struct reaper *r)
{
    assert(r->n < r->found);
    return &r->events[r->n];
}

void reaper_add(struct reaper *r, struct settlement s)
{
    assert(r->n < r->found);
    r->settlements[r->n++] = s;
}

int64_t reaper_verdict_ms(const struct reaper *r)
{
    return r->now.wall_ms + r->behind_ms;
}

static void reaper_decide(struct reaper *r)
{
    arena_init(&r->arena, REAPER_ARENA);
    r->events = arena_array(&r->arena, struct event, r->found);
    r->settlements = arena_array(&r->arena, struct settlement, r->found);
    if (!r->events || !r->settlements) { /* more claims than a source may find at once: they are reported again */
        reaper_end_batch(r);
        return;
    }
    r->source->decide(r);
    if (!r->n) {
        reaper_acknowledge(r);
        return;
    }
    r->phase = REAPER_SETTLING;
    pending_op_wait(&r->settling, r->now, 0);
    reaper_settle(r);
}

/* ---- finding ---- */

static void reaper_prepare(struct reaper *r)
{
    r->phase = REAPER_PREPARING; /* it may be done at once */
    if (!r->source->prepare || !r->source->prepare(r))
        r->phase = REAPER_PREPARED;
}

void reaper_prepared(struct reaper *r)
{
    assert(r->phase == REAPER_PREPARING);
    r->phase = REAPER_PREPARED;
    if (r->stopped)
        reaper_end_batch(r);
}

void reaper_begin(struct reaper *r, size_t found)
{
    assert(r->phase == REAPER_IDLE && !r->stopped && found > 0);
    r->found = found;
    reaper_prepare(r);
    if (r->phase == REAPER_PREPARED)
        reaper_decide(r);
}

void reaper_found(struct reaper *r, size_t found)
{
    assert(r->phase == REAPER_ASKING);
    r->found = found;
    r->phase = REAPER_FOUND;
    if (!found || r->stopped)
        reaper_end_batch(r);
}

static void reaper_leave_barrier(struct reaper *r)
{
    event_barrier_leave(&r->barrier);
    if (r->barrier.state == EVENT_BARRIER_NONE)
        reaper_end_batch(r);
}

static void reaper_check_barrier(struct reaper *r)
{
    event_barrier_step(&r->barrier, r->now);
    if (r->barrier.state == EVENT_BARRIER_PASSED) {
        r->barrier.state = EVENT_BARRIER_NONE;
        reaper_prepare(r);
    } else if (r->barrier.state == EVENT_BARRIER_FAILED) {
        log_warn("event_barrier_failed", kv_err(&r->barrier.error), kv_cstr("source", r->source->name),
                 kv_i64("claims", (int64_t)r->found));
        reaper_leave_barrier(r);
    } else if (r->barrier.state == EVENT_BARRIER_NONE) {
        reaper_end_batch(r); /* it was left */
    }
}

/* ---- steps ---- */

static bool reaper_asks(const struct reaper *r, bool may_ask)
{
    return may_ask && !r->stopped && r->source->ask;
}

/* One step of the course, if there is something to do now. */
static void reaper_go_on(struct reaper *r, bool may_ask)
{
    switch (r->phase) {
    case REAPER_IDLE:
        if (!reaper_asks(r, may_ask) || r->ask_at_ms > r->now.steady_ms)
            return;
        r->phase = REAPER_ASKING;
        r->source->ask(r);
        return;
    case REAPER_FOUND:
        if (!r->barrier_wanted) {
            reaper_prepare(r);
            return;
        }
        r->phase = REAPER_BARRIER;
        event_barrier_begin(&r->barrier, r->now);
        return;
    case REAPER_BARRIER: reaper_check_barrier(r); return;
    case REAPER_PREPARED: reaper_decide(r); return;
    case REAPER_SETTLING:
        if (pending_op_may_send(&r->settling, r->now))
            reaper_settle(r);
        return;
    case REAPER_ASKING:
    case REAPER_PREPARING:
    case REAPER_ACKNOWLEDGING: return;
    }
}

int64_t reaper_step(struct reaper *r, struct moment now, int64_t behind_ms, bool may_ask)
{
    r->now = now;
    r->behind_ms = behind_ms;
    enum reaper_phase before;
    do {
        before = r->phase;
        reaper_go_on(r, may_ask);
    } while (r->phase != before);
    switch (r->phase) {
    case REAPER_IDLE: return reaper_asks(r, may_ask) ? moment_wall_at(now, r->ask_at_ms) : INT64_MAX;
    case REAPER_BARRIER: return event_barrier_step(&r->barrier, now);
    case REAPER_SETTLING: return pending_op_wake(&r->settling, now);
    default: return INT64_MAX;
    }
}

void reaper_leave(struct reaper *r)
{
    if (r->phase == REAPER_BARRIER)
        reaper_leave_barrier(r);
}

void reaper_stop(struct reaper *r)
{
    r->stopped = true;
    if (r->phase == REAPER_BARRIER)
        reaper_leave_barrier(r);
    else if (r->phase == REAPER_FOUND || r->phase == REAPER_PREPARED ||
             (r->phase == REAPER_SETTLING && !r->settling.in_flight))
        reaper_end_batch(r);
}
