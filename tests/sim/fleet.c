#include "fleet.h"

#include <stdlib.h>

#include "events/memory/events_memory.h"
#include "queue/memory/queue_memory.h"
#include "sim.h"

enum {
    SECOND_US = 1000000,
    VISIBILITY_MS = 4000,
    HOUR_US_S = 3600,
    EVEN_US = 25 * SECOND_US,
    AFTER_US = SECOND_US,
    FOUND_US = 5 * SECOND_US
};

/* A claim, its owner, and whether it was handed over to the queue. */
struct fleet_claim {
    struct uuid id;
    struct sim_node *node;
    uint64_t life;
    bool handed, orphan;
    int64_t orphan_us;
};

struct claimed {
    struct fenced_id id;
    const struct fleet_claim *claim;
};

struct doubt {
    struct fenced_id id;
};

bool is_fleet(const struct sim *s)
{
    return s->profile.workers > 0;
}

int sim_process_count(const struct sim *s)
{
    return s->profile.nodes + s->profile.workers;
}

struct sim_node *sim_process(struct sim *s, int i)
{
    return i < s->profile.nodes ? &s->nodes[i] : &s->workers[i - s->profile.nodes];
}

bool is_up(const struct sim_node *n)
{
    return n->node || n->worker;
}

/* ---- the plan ---- */

/* Limits, hosts and poison are tried without a fleet. */
void fleet_choose(struct sim *s, struct profile *p)
{
    if (s->seed % 5 != 0)
        return;
    p->workers = (int)between(s, 1, WORKERS_MAX);
    p->hosts = p->poison = p->rules = p->limits = p->keys = false;
    p->tenants = 1;
    p->jumps = 0;
    if (p->calm)
        return;
    p->worker_crashes = chance(s, 60) ? (int)between(s, 1, 4) : 0;
    p->worker_stops = chance(s, 40) ? (int)between(s, 1, 3) : 0;
    p->wipes = chance(s, 60) ? (int)between(s, 1, 6) : 0;
    p->queue_downs = chance(s, 40) ? (int)between(s, 1, 3) : 0;
    p->events_downs = chance(s, 40) ? (int)between(s, 1, 2) : 0;
    p->cuts = chance(s, 40) ? (int)between(s, 1, 2) : 0;
}

static struct str claim_key(const struct uuid *id)
{
    return (struct str){ (const char *)id->b, sizeof id->b };
}

void fleet_init(struct sim *s)
{
    if (!is_fleet(s))
        return;
    s->fleet.queue = queue_memory_new();
    s->fleet.events = events_memory_new();
    s->fleet.push_again = chance(s, 50);
    s->fleet.fallback = chance(s, 50);
    s->fleet.epoch = 1;
    map_init(&s->fleet.claims, HASH_STABLE);
    map_init(&s->fleet.doubtful, HASH_STABLE);
    map_init(&s->fleet.claimed, HASH_STABLE);
    for (int i = 0; i < s->profile.workers; i++) {
        struct sim_node *w = &s->workers[i];
        nodes_init_clock(s, w, i);
        if (chance(s, 50))
            w->skew_us = between(s, -HOUR_US_S, HOUR_US_S) * SECOND_US;
        sim_runner_init(w);
    }
    for (int i = 0; i < sim_process_count(s); i++)
        fleet_async_io_init(sim_process(s, i));
}

void fleet_release(struct sim *s)
{
    if (!is_fleet(s))
        return;
    map_each (&s->fleet.claims, slot)
        free(slot->value);
    map_each (&s->fleet.doubtful, slot)
        free(slot->value);
    map_each (&s->fleet.claimed, slot)
        free(slot->value);
    map_release(&s->fleet.claimed);
    map_release(&s->fleet.claims);
    map_release(&s->fleet.doubtful);
    queue_free(s->fleet.queue);
    events_free(s->fleet.events);
}

/* ---- tasks that a fault may repeat ---- */

void fleet_doubt(struct sim *s, struct uuid id, int64_t fence)
{
    struct doubt *d = xnew(*d);
    d->id = (struct fenced_id){ id, fence };
    free(map_put(&s->fleet.doubtful, fenced_id_key(&d->id), d));
    s->lives++; /* an AT_MOST_ONCE task may end as lost */
}

bool fleet_forgives(struct sim *s, const struct task *t)
{
    if (!is_fleet(s))
        return false;
    struct fenced_id id = { t->id, t->fence };
    const struct fleet_claim *c = map_get(&s->fleet.claims, claim_key(&t->claim));
    return s->steady_us < s->fleet.trouble_us || (c && c->orphan) || map_get(&s->fleet.doubtful, fenced_id_key(&id));
}

/* Every running task may be settled as lost. */
static void forgive_running(struct sim *s, int64_t until_us)
{
    s->lives++;
    s->fleet.trouble_us = max_of(s->fleet.trouble_us, until_us + AFTER_US);
    for (int i = 0; i < sim_process_count(s); i++)
        oracle_crashed(sim_process(s, i));
}

static void forgive_again(struct sim *s, void *context)
{
    (void)context;
    forgive_running(s, s->steady_us);
}

/* Other nodes find the claims that it had not handed over, and cannot know whether they ran. */
void fleet_node_died(struct sim_node *n)
{
    if (!is_fleet(n->sim))
        return;
    map_each (&n->sim->fleet.claims, slot) {
        struct fleet_claim *c = slot->value;
        if (c->orphan || c->node != n || c->handed)
            continue;
        c->orphan = true;
        c->orphan_us = n->sim->steady_us;
    }
    oracle_forgive(n->sim, fleet_forgives_call);
}

bool fleet_forgives_call(struct sim *s, const struct known_call *call)
{
    const struct fleet_claim *c = map_get(&s->fleet.claims, claim_key(&call->claim));
    return c && c->orphan;
}

static void node_crashes(struct sim *s, void *context)
{
    struct sim_node *n = context;
    if (s->healed || !n->node || is_stopped(n))
        return;
    sim_crash(n);
    sim_come_back(n);
}

/* A crash hurts most while tasks are claimed that are due soon. One node stays. */
static void crash_perhaps(struct sim_node *n)
{
    struct sim *s = n->sim;
    if (s->profile.failover && n->number > 0 && chance(s, 10))
        after_us(s, between(s, 0, SECOND_US / 30), node_crashes, n);
}

static void note_claim(struct sim_node *by, struct uuid claim, const struct tasks *tasks)
{
    struct sim *s = by->sim;
    struct fleet_claim *c = xnew(*c);
    *c = (struct fleet_claim){ .id = claim, .node = by, .life = by->life };
    free(map_put(&s->fleet.claims, claim_key(&c->id), c));
    for (size_t i = 0; i < tasks->n; i++) {
        struct claimed *x = xnew(*x);
        *x = (struct claimed){ .id = { tasks->v[i].id, tasks->v[i].fence }, .claim = c };
        free(map_put(&s->fleet.claimed, fenced_id_key(&x->id), x));
    }
    crash_perhaps(by);
}

static void note_handed(struct sim *s, const struct op_handoff *op)
{
    for (size_t i = 0; i < op->n; i++) {
        struct fleet_claim *c = map_get(&s->fleet.claims, claim_key(&op->claims[i]));
        if (c && (!c->orphan || op->orphaned)) /* perhaps by another node, in the place of the dead one */
            c->handed = true;
    }
}

/* Claims that a dead node had not handed over are found in time. */
static void judge_orphans(struct sim *s, const struct op_settle *op)
{
    for (size_t i = 0; i < op->n && s->profile.failover; i++) {
        struct fenced_id id = { op->v[i].id, op->v[i].fence };
        const struct claimed *x = map_get(&s->fleet.claimed, fenced_id_key(&id));
        if (x && x->claim->orphan && !x->claim->handed && !op->v[i].stale &&
            s->steady_us - x->claim->orphan_us > FOUND_US)
            breach(s, BREACH_FAILOVER, "%s was taken from its dead node after %lld ms", short_id(id.id),
                   (long long)(s->steady_us - x->claim->orphan_us) / 1000);
    }
}

void fleet_applied(struct sim_node *by, const struct op *op)
{
    struct sim *s = by->sim;
    if (!is_fleet(s) || op->rc || s->ghost == by)
        return;
    const struct op_claim *claim = (const struct op_claim *)op;
    const struct op_retake *retake = (const struct op_retake *)op;
    if (op->kind == OP_CLAIM && claim->ret.n)
        note_claim(by, claim->claim, &claim->ret);
    else if (op->kind == OP_RETAKE && retake->ret.n)
        note_claim(by, retake->claim, &retake->ret);
    else if (op->kind == OP_HANDOFF)
        note_handed(s, (const struct op_handoff *)op);
    else if (op->kind == OP_SETTLE)
        judge_orphans(s, (const struct op_settle *)op);
}

/* ---- nodes ---- */

struct news {
    struct sim_node *to;
    uint64_t life;
    size_t n;
    struct fenced_id v[];
};

static void hear(struct sim *s, void *context)
{
    (void)s;
    struct news *news = context;
    struct sim_node *n = news->to;
    if (n->node && n->life == news->life && !is_stopped(n)) {
        node_on_settled_elsewhere(n->node, news->v, news->n);
        n->poked = true;
    }
    free(news);
}

/* To all other nodes; the notice may be lost. */
static void tell(void *context, const struct fenced_id *settled, size_t n)
{
    struct sim_node *from = context;
    struct sim *s = from->sim;
    for (int i = 0; i < s->profile.nodes && s->ghost != from && s->plant != PLANT_HELD_FOREVER; i++) {
        if (&s->nodes[i] == from || (!s->healed && !s->profile.calm && chance(s, 20)))
            continue;
        struct news *news = xmalloc(sizeof *news + n * sizeof *settled);
        *news = (struct news){ .to = &s->nodes[i], .life = s->nodes[i].life, .n = n };
        memcpy(news->v, settled, n * sizeof *settled);
        after_us(s, between(s, 50, s->profile.latency_us), hear, news);
    }
}

static void read_lanes(void *context)
{
    struct sim_node *n = context;
    if (n->sim->ghost != n)
        sim_know_lanes(n);
}

void fleet_setup(struct sim_node *n, struct node_setup *setup)
{
    struct sim *s = n->sim;
    if (!is_fleet(s))
        return;
    setup->fleet = true;
    setup->own = n->async_io;
    setup->async_io = &n->fleet_async_io.base;
    setup->fallback = s->fleet.fallback;
    setup->waiting = s->profile.slots;
    setup->visibility_ms = VISIBILITY_MS;
    setup->roles = s->fleet.collecting ? NODE_UPDATER : n->number % 2 ? NODE_ALL : NODE_SCHEDULER | NODE_UPDATER;
    setup->notify_settled = tell;
    setup->read_lanes = read_lanes;
    setup->observe_context = n;
}

/* ---- workers ---- */

static void queue_time(void *context, int64_t queue_us)
{
    struct sim_node *w = context;
    int64_t offset_us = queue_us - w->sim->steady_us;
    w->corrected_us = w->corrected_us ? max_of(w->corrected_us, offset_us) : offset_us;
}

static void start_worker(struct sim *s, void *context)
{
    struct sim_node *w = context;
    struct uuid_gen ids;
    uuid_gen_init(&ids, s->seed * 1000 + ++s->lives);
    w->life = s->lives;
    w->corrected_us = 0;
    fleet_async_io_init(w);
    struct worker_setup setup = { .async_io = &w->fleet_async_io.base,
                                  .metrics = s->metrics,
                                  .id = uuid_next(&ids, wall_ms(s)),
                                  .name = S("worker"),
                                  .version = S("1"),
                                  .slots = s->profile.slots,
                                  .visibility_ms = VISIBILITY_MS,
                                  .fleet = true,
                                  .queue_time = queue_time,
                                  .context = w };
    setup.runners[TARGET_HTTP] = setup.runners[TARGET_NOOP] = &w->runner.base;
    isolation_setup_worker(w, &setup);
    trace(s, "worker %d starts", w->number);
    w->worker = worker_new(&setup);
    w->joined_us = s->steady_us;
    w->poked = true;
}

/* Takes apart a worker whose process is gone. */
static void bury_worker(struct sim_node *w)
{
    struct sim *s = w->sim;
    fleet_async_io_crash(w);
    s->ghost = w;
    sim_runner_crash(w);
    worker_stop_taking(w->worker);
    worker_give_up(w->worker);
    struct moment now = clock_now(&w->clock);
    for (int i = 0; i < 100 && (i == 0 || !worker_is_idle(w->worker)); i++) {
        fleet_async_io_answer_ghosts(w);
        now.wall_ms += 1000;
        now.steady_ms += 1000;
        worker_step(w->worker, now, 0);
    }
    if (!worker_is_idle(w->worker)) {
        fprintf(stderr, "seed %llu: a dead worker cannot be taken apart\n", (unsigned long long)s->seed);
        abort();
    }
    worker_free(take(w->worker));
    s->ghost = NULL;
    w->wake_ms = INT64_MAX;
    w->stopped_until_us = 0;
}

static struct sim_node *some_worker(struct sim *s)
{
    struct sim_node *w = &s->workers[between(s, 0, s->profile.workers - 1)];
    return w->worker && !is_stopped(w) && !s->healed ? w : NULL;
}

static void worker_crashes(struct sim *s, void *context)
{
    (void)context;
    struct sim_node *w = some_worker(s);
    if (!w)
        return;
    s->stats->faults[FAULT_WORKER_CRASH]++;
    trace(s, "fault: worker %d crashes", w->number);
    s->lives++;
    oracle_crashed(w);
    bury_worker(w);
    after_us(s, between(s, 1000, 10 * SECOND_US), start_worker, w);
}

static void worker_is_stopped(struct sim *s, void *context)
{
    (void)context;
    struct sim_node *w = some_worker(s);
    if (!w)
        return;
    int64_t for_us = between(s, 1000, 12 * SECOND_US);
    s->stats->faults[FAULT_WORKER_STOP]++;
    trace(s, "fault: worker %d is stopped for %lld ms", w->number, (long long)for_us / 1000);
    w->stopped_until_us = s->steady_us + for_us;
    s->lives++;
    oracle_crashed(w);
}

/* ---- the queue and the events ---- */

static void queue_is_wiped(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    s->stats->faults[FAULT_WIPE]++;
    trace(s, "fault: the queue is wiped");
    queue_free(s->fleet.queue);
    s->fleet.queue = queue_memory_new();
    s->fleet.epoch += s->plant != PLANT_SAME_EPOCH;
    forgive_running(s, s->steady_us + 2LL * SECOND_US);
}

static void queue_goes_down(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    int64_t for_us = between(s, SECOND_US / 10, 8 * SECOND_US);
    s->stats->faults[FAULT_QUEUE_DOWN]++;
    trace(s, "fault: the queue is down for %lld ms", (long long)for_us / 1000);
    s->fleet.queue_down_us = s->steady_us + for_us;
    forgive_running(s, s->fleet.queue_down_us);
    after_us(s, for_us, forgive_again, NULL);
    if (chance(s, 40)) /* and comes back empty */
        after_us(s, between(s, 0, for_us), queue_is_wiped, NULL);
}

static void events_go_down(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    int64_t for_us = between(s, SECOND_US / 10, 15 * SECOND_US);
    s->stats->faults[FAULT_EVENTS_DOWN]++;
    trace(s, "fault: the events are down for %lld ms", (long long)for_us / 1000);
    s->fleet.events_down_us = s->steady_us + for_us;
}

static void updaters_are_cut_off(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    int64_t for_us = between(s, SECOND_US, 20 * SECOND_US);
    s->stats->faults[FAULT_CUT]++;
    trace(s, "fault: nobody can poll for %lld ms", (long long)for_us / 1000);
    s->fleet.cut_us = s->steady_us + for_us;
}

static void plan(struct sim *s, int times, timer_fn *fn)
{
    for (int i = 0; i < times; i++)
        after_us(s, between(s, 0, s->profile.length_us), fn, NULL);
}

/* ---- tasks that are held and do not run ---- */

static void look_at_held(struct sim *s, void *context)
{
    (void)context;
    struct store_counts counts;
    struct error e;
    int64_t held = 0;
    bool well = s->healed && !s->stopped_ms;
    for (int i = 0; i < s->profile.nodes; i++)
        held += s->nodes[i].node ? (int64_t)node_status(s->nodes[i].node).scheduler.held : 0;
    if (reader_counts(s->reader, wall_ms(s), &counts, &e))
        abort();
    if (!well || held <= counts.by_state[TASK_RUNNING])
        s->fleet.even_us = s->steady_us;
    if (s->steady_us - s->fleet.even_us > EVEN_US)
        breach(s, BREACH_STUCK, "%lld are held, and %lld run", (long long)held,
               (long long)counts.by_state[TASK_RUNNING]);
    after_us(s, SECOND_US, look_at_held, NULL);
}

void fleet_plan(struct sim *s)
{
    const struct profile *p = &s->profile;
    if (!is_fleet(s))
        return;
    for (int i = 0; i < p->workers; i++)
        after_us(s, isolation_join_us(s, i), start_worker, &s->workers[i]);
    plan(s, p->worker_crashes, worker_crashes);
    plan(s, p->worker_stops, worker_is_stopped);
    plan(s, p->wipes, queue_is_wiped);
    plan(s, p->queue_downs, queue_goes_down);
    plan(s, p->events_downs, events_go_down);
    plan(s, p->cuts, updaters_are_cut_off);
    after_us(s, SECOND_US, look_at_held, NULL);
}

void fleet_heal(struct sim *s)
{
    s->fleet.queue_down_us = s->fleet.events_down_us = s->fleet.cut_us = 0;
}

void fleet_judge_start(struct sim_node *n, const struct task *t)
{
    if (!n->worker)
        return;
    size_t others = 0;
    list_each (&n->runner.calls, link) {
        const struct task *o = container_of(link, struct call, link)->run->task;
        others += !uuid_eq(o->id, t->id);
        if (!uuid_eq(o->id, t->id) && task_is_suspect(o))
            breach(n->sim, BREACH_SUSPECT, "%s started next to the suspect %s", short_id(t->id), short_id(o->id));
    }
    if (task_is_suspect(t) && others)
        breach(n->sim, BREACH_SUSPECT, "%s started next to %zu others", short_id(t->id), others);
}

/* ---- the end ---- */

bool fleet_workers_are_idle(const struct sim *s)
{
    for (int i = 0; i < s->profile.workers; i++)
        if (s->workers[i].worker && !worker_is_idle(s->workers[i].worker))
            return false;
    return true;
}

void fleet_stop_workers(struct sim *s)
{
    for (int i = 0; i < s->profile.workers; i++) {
        if (!s->workers[i].worker)
            continue;
        worker_stop_taking(s->workers[i].worker);
        s->workers[i].poked = true;
    }
}

void fleet_bury_workers(struct sim *s)
{
    for (int i = 0; i < s->profile.workers; i++)
        if (s->workers[i].worker)
            bury_worker(&s->workers[i]);
}

/* ---- planted bugs ---- */

static bool is_workers(const struct sim_node *n)
{
    return n->worker != NULL;
}

static void publish_late(struct sim *s, void *context)
{
    struct event *event = context;
    struct error e;
    if (events_publish(s->fleet.events, event, 1, &e))
        abort();
    free(event);
}

/* The deliveries are acknowledged before the outcomes are published. */
static bool ack_first(struct sim_node *n, struct io_publish *x)
{
    struct error e;
    for (size_t i = 0; i < x->n; i++) {
        struct fenced_id d = { x->v[i].task.id, x->v[i].task.fence };
        if (x->v[i].kind != EVENT_OUTCOME)
            continue;
        struct event *event = xnew(*event);
        *event = x->v[i];
        event->task.retry.rules = event->task.place = event->task.queue = event->task.name = S("");
        event->outcome.error = event->outcome.output = S("");
        event->outcome.worker = event->outcome.trace_id = event->outcome.aside = S("");
        if (queue_ack(n->sim->fleet.queue, &d, 1, &e))
            abort();
        after_us(n->sim, 20LL * SECOND_US, publish_late, event);
    }
    x->io_request.rc = ERR_OK;
    return true;
}

/* A delivery that timed out is delivered once more, as it was. */
static void redeliver(struct sim *s, const struct io_timed_out *x)
{
    struct error e;
    struct pushed pushed;
    for (size_t i = 0; i < x->ret.n; i++) {
        const struct task *t = &x->ret.v[i].task;
        struct fenced_id d = { t->id, t->fence };
        if (queue_ack(s->fleet.queue, &d, 1, &e) || queue_push(s->fleet.queue, t, 1, 0, &pushed, &e))
            abort();
    }
}

bool fleet_plant_runs(struct sim_node *n, struct io_request *e)
{
    struct sim *s = n->sim;
    struct async_io_ports ports = { .queue = s->fleet.queue, .take = s->fleet.queue };
    switch (s->plant) {
    case PLANT_ACK_FIRST:
        return e->kind == IO_PUBLISH && is_workers(n) && !s->healed &&
               ack_first(n, container_of(e, struct io_publish, io_request));
    case PLANT_NOT_PASSED:
        if (e->kind == IO_BARRIER_PASSED)
            container_of(e, struct io_barrier, io_request)->ret_passed = true;
        return e->kind == IO_BARRIER_PASSED;
    case PLANT_NO_LAPSE: return e->kind == IO_TIMED_OUT;
    case PLANT_LOST_PUSH: return e->kind == IO_PUSH && chance(s, 20);
    case PLANT_SAME_EPOCH:
        for (size_t i = 0; e->kind == IO_KNOWN && i < container_of(e, struct io_known, io_request)->n; i++)
            container_of(e, struct io_known, io_request)->ret[i] = true;
        return e->kind == IO_KNOWN;
    case PLANT_REDELIVER:
        if (e->kind != IO_TIMED_OUT)
            return false;
        io_run(&ports, e);
        redeliver(s, container_of(e, struct io_timed_out, io_request));
        return true;
    default: return false;
    }
}
