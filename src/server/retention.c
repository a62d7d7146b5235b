#include "server/retention.h"

#include "base/log.h"

enum { BATCH = 250, PAUSE_MAX_MS = 1000, ARENA_MAX = 1 << 20, NS_PER_MS = 1000000 };

static void retention_on_timer(uv_timer_t *timer);

static void retention_schedule(struct retention_task *u, int64_t in_ms)
{
    if (!u->stopped)
        uv_timer_start(&u->timer, retention_on_timer, (uint64_t)in_ms, 0);
}

static void retention_on_purged(struct op *op)
{
    struct retention_task *u = op->context;
    int64_t took_ms = (clock_steady_ns(u->setup.clock) - u->begun_ns) / NS_PER_MS + 1;
    u->busy = false;
    arena_release(&op->arena);
    if (op->rc) {
        log_warn("upkeep_failed", kv_err(&op->error));
    } else {
        metric_add(u->setup.metrics, METRIC_PURGED, (int64_t)u->purge.ret_purged);
        if (u->purge.ret_more) {
            retention_schedule(u, min_of(took_ms, PAUSE_MAX_MS));
            return;
        }
    }
    retention_schedule(u, u->setup.retention.interval_ms);
}

static void retention_on_timer(uv_timer_t *timer)
{
    struct retention_task *u = timer->data;
    const struct retention *r = &u->setup.retention;
    int64_t now_ms = clock_wall_ms(u->setup.clock);
    if (u->setup.is_leader && !u->setup.is_leader(u->setup.context)) {
        retention_schedule(u, r->interval_ms);
        return;
    }
    u->purge = (struct op_purge){ .op = { .kind = OP_PURGE, .done = retention_on_purged, .context = u },
                                  .now_ms = now_ms,
                                  .idempotency_before_ms = now_ms - r->idempotency_ms,
                                  .tasks_before_ms = now_ms - r->tasks_ms,
                                  .dlq_before_ms = now_ms - r->dlq_ms,
                                  .executions_before_ms = now_ms - r->executions_ms,
                                  .jobs_before_ms = now_ms - r->jobs_ms,
                                  .workers_before_ms = now_ms - r->jobs_ms,
                                  .audit_before_ms = r->audit_ms ? now_ms - r->audit_ms : 0,
                                  .max = BATCH };
    arena_init(&u->purge.op.arena, ARENA_MAX);
    u->busy = true;
    u->begun_ns = clock_steady_ns(u->setup.clock);
    writer_submit(u->setup.writer, &u->purge.op);
}

void retention_start(struct retention_task *u, const struct retention_setup *setup)
{
    *u = (struct retention_task){ .setup = *setup };
    uv_timer_init(setup->loop, &u->timer);
    u->timer.data = u;
    retention_schedule(u, setup->retention.interval_ms);
}

void retention_stop(struct retention_task *u)
{
    u->stopped = true;
    uv_timer_stop(&u->timer);
}

void retention_close(struct retention_task *u)
{
    u->stopped = true;
    uv_close((uv_handle_t *)&u->timer, NULL);
}
