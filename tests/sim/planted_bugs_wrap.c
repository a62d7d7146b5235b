/* Planted bugs inside the node. The linker leads the node's calls of these functions here (--wrap); what they were
 * called with goes on to the real ones, unless the bug of this run is in the way. They are declared by the type of the
 * function that they stand for, so that a change of it does not go unnoticed. */
#include <stdlib.h>

#include "core/sharing/breaker.h"
#include "core/sharing/fair.h"
#include "node/scheduler/scheduler.h"
#include "sim.h"
#include "workflow/definition.h"

/* The calls say nothing about the run that they belong to. There is one at a time. */
static struct sim *run_now;

void plant_wrap(struct sim *s)
{
    run_now = s;
}

static bool is_planted(enum plant p)
{
    return run_now && run_now->plant == p;
}

/* ---- shares ---- */

__typeof__(fair_took) __real_fair_took, __wrap_fair_took;

void __wrap_fair_took(struct fair *f, const struct fair_round *r)
{
    if (!is_planted(PLANT_ASKS_DROPPED)) {
        __real_fair_took(f, r);
        return;
    }
    struct fair_round part = *r;
    part.asks = xcalloc(r->n + 1, sizeof *part.asks);
    part.n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->asks[i].quota)
            part.asks[part.n++] = r->asks[i];
    __real_fair_took(f, &part);
    free(part.asks);
}

/* ---- places ---- */

__typeof__(class_slots_of) __real_class_slots_of, __wrap_class_slots_of;

struct class_slots __wrap_class_slots_of(size_t n, const size_t running[CLASSES])
{
    struct class_slots room = __real_class_slots_of(n, running);
    if (is_planted(PLANT_NO_KEEP))
        memset(room.kept, 0, sizeof room.kept);
    return room;
}

__typeof__(lanes_set_parked) __real_lanes_set_parked, __wrap_lanes_set_parked;

void __wrap_lanes_set_parked(struct lanes *l, size_t parked)
{
    __real_lanes_set_parked(l, is_planted(PLANT_PARKED_SLOT) ? 0 : parked);
}

__typeof__(scheduler_on_ended) __real_scheduler_on_ended, __wrap_scheduler_on_ended;

void __wrap_scheduler_on_ended(struct scheduler *s, struct uuid id, int64_t fence)
{
    if (!is_planted(PLANT_SLOT_AT_SETTLE))
        __real_scheduler_on_ended(s, id, fence);
}

/* ---- lanes ---- */

__typeof__(lane_order_ms) __real_lane_order_ms, __wrap_lane_order_ms;

int64_t __wrap_lane_order_ms(const struct lane *lane, int64_t due_ms)
{
    return is_planted(PLANT_DUE_ORDER) ? due_ms : __real_lane_order_ms(lane, due_ms);
}

__typeof__(task_lane) __real_task_lane, __wrap_task_lane;

struct lane __wrap_task_lane(const struct task *t)
{
    struct lane lane = __real_task_lane(t);
    if (is_planted(PLANT_KEY_AT_CLAIM))
        lane.late = false;
    return lane;
}

/* ---- breakers ---- */

__typeof__(breakers_ask) __real_breakers_ask, __wrap_breakers_ask;
__typeof__(breakers_report) __real_breakers_report, __wrap_breakers_report;

static struct sim_host *host_of(int32_t tenant, struct str host)
{
    char text[TARGET_HOST_MAX];
    for (int i = 0; i < HOSTS; i++) {
        struct task t = { .target = TARGET_HTTP, .target_config = gates_target(i) };
        if (str_eq(target_host(&t, text), host))
            return &run_now->gates.tenants[tenant - 1].hosts[i];
    }
    return NULL;
}

struct open_one {
    int32_t tenant;
    bool found;
};

static void see_open(void *context, const struct breaker_view *v)
{
    struct open_one *x = context;
    x->found = x->found || (v->tenant == x->tenant && v->status.state != BREAKER_CLOSED);
}

struct breakers_answer __wrap_breakers_ask(struct breakers *b, int32_t tenant, struct str host, int64_t timeout_ms,
                                           int64_t now_ms)
{
    struct breakers_answer held = { .by_tenant = true, .until_ms = now_ms + 1000 };
    struct open_one any = { .tenant = tenant };
    const struct sim_host *h = is_planted(PLANT_BLAMED_ON_SUCCESS) ? host_of(tenant, host) : NULL;
    if (is_planted(PLANT_ANY_HOST) && host.n)
        breakers_each(b, now_ms, see_open, &any);
    return any.found || (h && h->blamed_ms > now_ms) ? held : __real_breakers_ask(b, tenant, host, timeout_ms, now_ms);
}

struct breakers_news __wrap_breakers_report(struct breakers *b, int32_t tenant, struct str host,
                                            const struct breakers_answer *went, const struct outcome *o, int64_t now_ms)
{
    struct breaker_status status;
    struct sim_host *h = is_planted(PLANT_BLAMED_ON_SUCCESS) ? host_of(tenant, host) : NULL;
    struct breakers_news news = __real_breakers_report(b, tenant, host, went, o, now_ms);
    if (h && o->kind == OUTCOME_OK && breakers_status(b, tenant, host, now_ms, &status) &&
        status.state == BREAKER_CLOSED && breaker_is_exceeded(&breaker_host, status.counts))
        h->blamed_ms = now_ms + breaker_host.open_ms;
    return news;
}

/* ---- pools ---- */

__typeof__(lanes_set_workers) __real_lanes_set_workers, __wrap_lanes_set_workers;

/* As if each worker could run everything. */
static struct worker_group all_in_one(const struct worker_groups *groups)
{
    struct worker_group sum = { .kind = WORKER_KIND_UNKNOWN };
    for (size_t i = 0; i < groups->n; i++) {
        sum.slots += groups->v[i].slots;
        sum.workers += groups->v[i].workers;
    }
    return sum;
}

void __wrap_lanes_set_workers(struct lanes *l, const struct lanes_workers *w)
{
    struct lanes_workers told = *w;
    struct worker_group one = all_in_one(&w->groups);
    if (is_planted(PLANT_ONE_BOUND) && one.workers)
        told.groups = (struct worker_groups){ &one, 1 };
    if (is_planted(PLANT_DEAF_TO_JOINS) && run_now->plant_groups && w->groups.n > run_now->plant_groups)
        return;
    run_now->plant_groups = w->groups.n;
    __real_lanes_set_workers(l, &told);
}

/* ---- outcomes ---- */

__typeof__(settle) __real_settle, __wrap_settle;

struct verdict __wrap_settle(const struct settle_facts *t, const struct outcome *o, int64_t now_ms, struct prng *random,
                             struct arena *a)
{
    struct outcome seen = *o;
    if (is_planted(PLANT_ABORT_RECORD) && o->kind == OUTCOME_CANCELLED && !o->started_us)
        seen.started_us = now_ms * 1000;
    return __real_settle(t, &seen, now_ms, random, a);
}

/* ---- workflows ---- */

__typeof__(definition_item_task) __real_definition_item_task, __wrap_definition_item_task;

enum err __wrap_definition_item_task(const struct dag *d, uint32_t step, const struct run_facts *run, int64_t now_ms,
                                     struct arena *a, struct task *ret, struct error *e)
{
    enum err rc = __real_definition_item_task(d, step, run, now_ms, a, ret, e);
    if (!rc && ret->concurrency_limit && is_planted(PLANT_WIDE_WINDOW))
        ret->concurrency_limit++;
    return rc;
}

__typeof__(stop_step) __real_stop_step, __wrap_stop_step;

void __wrap_stop_step(struct task *t, const struct op_stop *op)
{
    __real_stop_step(t, op);
    if (!is_planted(PLANT_RESUME_PAST) || op->change != RUN_RESUME || !(t->links & TASK_WAITS))
        return;
    t->links &= ~TASK_WAITS;
    t->state = TASK_SCHEDULED;
    t->due_ms = op->now_ms;
}

__typeof__(flow_retry) __real_flow_retry, __wrap_flow_retry;

enum err __wrap_flow_retry(const struct dag *d, const struct flow_retry *r, struct arena *a, enum flow_outcome *ret,
                           struct error *e)
{
    enum err rc = __real_flow_retry(d, r, a, ret, e);
    for (uint32_t i = 0; i < d->n && !rc && is_planted(PLANT_RETRY_DONE); i++)
        ret[i] = ret[i] == FLOW_COMPLETED ? FLOW_OPEN : ret[i];
    return rc;
}

__typeof__(flow_rerun) __real_flow_rerun, __wrap_flow_rerun;

enum err __wrap_flow_rerun(const struct dag *d, const enum flow_outcome *was, const bool *undone, uint32_t from,
                           struct arena *a, enum flow_outcome *ret, struct error *e)
{
    enum err rc = __real_flow_rerun(d, was, undone, from, a, ret, e);
    for (uint32_t i = 0; i < d->n && !rc; i++) {
        if (is_planted(PLANT_RERUN_SHORT) && i != from && was[i] == FLOW_COMPLETED)
            ret[i] = FLOW_COMPLETED;
        if (is_planted(PLANT_RERUN_LONG))
            ret[i] = FLOW_OPEN;
    }
    return rc;
}

__typeof__(flow_undo) __real_flow_undo, __wrap_flow_undo;

/* One step a wave, the first first. */
enum err __wrap_flow_undo(const struct dag *d, const enum flow_reach *reach, struct arena *a, struct flow_undo *ret,
                          struct error *e)
{
    enum err rc = __real_flow_undo(d, reach, a, ret, e);
    if (rc || !is_planted(PLANT_UNDO_ORDER))
        return rc;
    ret->wave_from = arena_array(a, uint32_t, ret->n + 1);
    for (uint32_t i = 0; i < ret->n; i++)
        ret->wave_from[i + 1] = i + 1;
    for (uint32_t i = 0; i < ret->n / 2; i++) {
        uint32_t moved = ret->steps[i];
        ret->steps[i] = ret->steps[ret->n - 1 - i];
        ret->steps[ret->n - 1 - i] = moved;
    }
    ret->waves = ret->n;
    return ERR_OK;
}
