/* Several nodes on one store. Each has a clock of its own, which is wrong, and is corrected by the store's. Each may
 * crash or be stopped while the others go on. Only a node that crashed, was stopped or could not be heard may be
 * marked dead. */
#include "sim.h"

enum {
    SECOND_US = 1000000,
    SKEW_US = 20 * SECOND_US,
    UNEVEN_US = 6 * SECOND_US,
    RELEASED_US = SECOND_US,
    AHEAD_MS = 2200
};

bool is_cluster(const struct sim *s)
{
    return s->profile.nodes > 1;
}

/* ---- clocks ---- */

static int64_t machine_us(struct clock *c)
{
    const struct sim_node *n = container_of(c, struct sim_node, clock);
    return wall_us(n->sim) + n->skew_us;
}

static int64_t clock_us(struct clock *c)
{
    const struct sim_node *n = container_of(c, struct sim_node, clock);
    return n->corrected_us ? n->sim->steady_us + n->corrected_us : machine_us(c);
}

/* A planted bug: a clock that stands still with the process. */
static int64_t steady_ns(struct clock *c)
{
    const struct sim_node *n = container_of(c, struct sim_node, clock);
    return (n->sim->steady_us + SECOND_US - (n->sim->plant == PLANT_NO_SELF_FENCE ? n->slept_us : 0)) * 1000;
}

static void correct(struct clock *c, int64_t offset_us, int64_t behind_us)
{
    struct sim_node *n = container_of(c, struct sim_node, clock);
    n->behind_us = behind_us;
    if (is_cluster(n->sim) && n->sim->plant != PLANT_OWN_CLOCK)
        n->corrected_us = offset_us + SECOND_US + (n->sim->plant == PLANT_NO_SELF_FENCE ? -n->slept_us : 0);
}

static int64_t behind_us(struct clock *c)
{
    return container_of(c, struct sim_node, clock)->behind_us;
}

int64_t node_wall_ms(struct sim_node *n)
{
    return clock_us(&n->clock) / 1000;
}

int64_t nodes_behind_ms(const struct sim *s)
{
    return is_cluster(s) ? 4 * s->profile.latency_us / 1000 + 1 : 0;
}

/* ---- the plan ---- */

/* Then a late task is late for no other reason. */
static void only_crash(struct sim *s, struct profile *p)
{
    p->calm = p->failover = true;
    p->crashes = (int)between(s, 4, 10);
    p->requests = (int)between(s, 60, 120);
    p->length_us = 60 * SECOND_US;
    p->slots = ROOM_FOR_ALL;
    p->latency_us = 5000;
    p->fail_percent = p->ports_percent = p->downs = p->zone_losses = 0;
    p->rules = p->limits = p->keys = false;
}

/* Hosts that answer with Retry-After, and poison, are tried with one node. */
void nodes_choose(struct sim *s, struct profile *p)
{
    p->nodes = 1;
    if (s->seed % 3 != 0)
        return;
    p->nodes = (int)between(s, 2, NODES_MAX);
    p->hosts = p->poison = false;
    p->rules = chance(s, 60);
    p->limits = chance(s, 30);
    p->jumps = 0;
    if (chance(s, s->seed % 5 ? 25 : 50))
        only_crash(s, p);
    p->stops = !p->calm && chance(s, 60) ? (int)between(s, 1, 4) : 0;
}

void nodes_init_clock(struct sim *s, struct sim_node *n, int number)
{
    static const struct clock_ops ops = { clock_us, steady_ns, correct, machine_us, behind_us };
    n->sim = s;
    n->number = number;
    n->wake_ms = INT64_MAX;
    n->clock.ops = &ops;
}

void nodes_init(struct sim *s)
{
    s->joined_ms = is_cluster(s) ? wall_ms(s) + 8000 : 0; /* the last may begin after five seconds */
    for (int i = 0; i < s->profile.nodes; i++) {
        struct sim_node *n = &s->nodes[i];
        nodes_init_clock(s, n, i);
        n->skew_us = is_cluster(s) && chance(s, 70) ? between(s, -SKEW_US, SKEW_US) : 0;
        sim_writer_init(n);
        sim_runner_init(n);
        flows_planner_init(n);
    }
}

static void process_is_stopped(struct sim *s, void *context)
{
    struct sim_node *n = context ? context : some_node(s);
    if (!n || !n->node || s->healed)
        return;
    int64_t for_us = chance(s, 30) ? between(s, 1000, 2 * SECOND_US) : between(s, SECOND_US, 12 * SECOND_US);
    s->stats->faults[FAULT_STOP]++;
    n->stopped_until_us = s->steady_us + for_us;
    n->slept_us += for_us;
    n->trouble_us = max_of(n->trouble_us, n->stopped_until_us + UNHEARD_US);
    if (is_fleet(s)) /* the deliveries of its worker may time out */
        oracle_crashed(n);
    trace(s, "fault: node %d is stopped for %lld ms", n->number, (long long)for_us / 1000);
}

/* Setting the clock of one machine must not matter. */
static void machine_is_set(struct sim *s, void *context)
{
    (void)context;
    struct sim_node *n = &s->nodes[between(s, 0, s->profile.nodes - 1)];
    if (s->healed)
        return;
    n->skew_us = between(s, -SKEW_US, SKEW_US);
    n->poked = true;
    trace(s, "the clock of node %d is set to %+lld ms", n->number, (long long)n->skew_us / 1000);
}

static void look_at_shares(struct sim *s, void *context)
{
    (void)context;
    nodes_judge_shares(s);
    after_us(s, SECOND_US, look_at_shares, NULL);
}

void nodes_plan(struct sim *s)
{
    if (!is_cluster(s))
        return;
    for (int i = 0; i < s->profile.stops; i++)
        after_us(s, between(s, 0, s->profile.length_us), process_is_stopped, NULL);
    for (int i = 0; i < 3; i++)
        after_us(s, between(s, 0, s->profile.length_us), machine_is_set, NULL);
    after_us(s, SECOND_US, look_at_shares, NULL);
}

/* ---- nodes that are marked dead ---- */

static struct sim_node *node_with(struct sim *s, struct uuid id)
{
    for (int i = 0; i < s->profile.nodes; i++)
        if (s->nodes[i].node && uuid_eq(node_status(s->nodes[i].node).id, id))
            return &s->nodes[i];
    return NULL;
}

/* ---- what a dead node had claimed ahead ---- */

static void note_holder(struct sim_node *by, const struct op_claim *op)
{
    for (size_t i = 0; i < op->ret.n && by->sim->profile.failover; i++) {
        struct subject *x = oracle_find(by->sim, op->ret.v[i].id);
        if (!x)
            continue;
        x->holder = node_status(by->node).id;
        x->holder_fence = op->ret.v[i].fence;
    }
}

static bool has_unburied(const struct sim *s)
{
    for (int i = 0; i < s->profile.nodes; i++)
        if (!uuid_is_nil(s->nodes[i].dead))
            return true;
    return false;
}

static void holder_crashes(struct sim *s, void *context)
{
    struct sim_node *n = context;
    if (s->healed || !n->node || is_stopped(n))
        return;
    sim_crash(n);
    sim_come_back(n);
}

/* A crash shows most if something is claimed that is due after the burial. One node stays. */
static void crash_holder_perhaps(struct sim_node *n, const struct op_claim *op)
{
    struct sim *s = n->sim;
    bool ahead = false;
    for (size_t i = 0; i < op->ret.n; i++)
        ahead = ahead || op->ret.v[i].due_ms > wall_ms(s) + AHEAD_MS;
    if (s->profile.failover && n->number > 0 && ahead && !has_unburied(s) && chance(s, 30))
        after_us(s, between(s, 0, SECOND_US / 30), holder_crashes, n);
}

void nodes_crashed(struct sim_node *n)
{
    n->dead = node_status(n->node).id;
    n->sim->crashed_us = n->sim->steady_us;
}

/* A breaker holds the calls to its host. */
static bool was_put_aside(struct sim *s, const struct subject *x)
{
    cleanup_with(arena_release) struct arena a;
    struct task t;
    struct error e;
    arena_init(&a, 1 << 20);
    return reader_get(s->reader, x->tenant, x->id, &a, &t, &e) == ERR_OK && t.aside.n;
}

/* It was due a second ago, when its node had been marked dead, and all other nodes have lived since. */
static void look_at_released(struct sim *s, void *context)
{
    const struct subject *x = context, *parent = oracle_find(s, x->parent);
    bool changed = x->stop_sent || x->pause_sent || x->force_sent || x->withdrawn || x->redrives;
    changed = changed || (parent && (parent->stop_sent || parent->pause_sent));
    bool quiet = !has_unburied(s) && s->steady_us - s->crashed_us > RELEASED_US + SECOND_US;
    if (x->waits && quiet && !changed && wall_ms(s) >= x->due_ms + RELEASED_US / 1000 && !was_put_aside(s, x))
        breach(s, BREACH_FAILOVER, "%s, which a dead node had claimed ahead, is not started a second after it was due",
               short_id(x->id));
}

static void note_burial(struct sim *s, struct uuid dead)
{
    for (int i = 0; i < s->profile.nodes; i++)
        if (uuid_eq(s->nodes[i].dead, dead))
            s->nodes[i].dead = (struct uuid){ 0 };
    for (size_t i = 0; i < s->oracle->n && s->profile.failover; i++) {
        struct subject *x = s->oracle->v[i];
        if (!x->waits || !uuid_eq(x->holder, dead) || x->due_ms <= wall_ms(s))
            continue;
        after_us(s, (x->due_ms - wall_ms(s)) * 1000 + RELEASED_US, look_at_released, x);
    }
}

static void judge_burial(struct sim *s, const struct op_node_dead *op)
{
    struct sim_node *n = op->ret_marked_dead ? node_with(s, op->node) : NULL;
    if (op->ret_marked_dead)
        note_burial(s, op->node);
    if (!n) /* it crashed */
        return;
    if (s->steady_us > n->trouble_us)
        breach(s, BREACH_BURIED, "node %d was neither stopped nor cut off", n->number);
    s->stats->faults[FAULT_BURIAL]++;
    s->lives++;
    n->buried = true;
    oracle_crashed(n);
    fleet_node_died(n);
}

/* A stop hurts most while tasks are claimed that are due soon. */
static void stop_perhaps(struct sim_node *n, const struct op_claim *op)
{
    struct sim *s = n->sim;
    if (op->ret.n && s->profile.stops && chance(s, 5))
        after_us(s, between(s, 0, SECOND_US / 30), process_is_stopped, n);
}

void nodes_applied(struct sim_node *by, const struct op *op)
{
    if (op->rc || !is_cluster(by->sim))
        return;
    if (op->kind == OP_CLAIM && by->sim->ghost != by) {
        stop_perhaps(by, (const struct op_claim *)op);
        note_holder(by, (const struct op_claim *)op);
        crash_holder_perhaps(by, (const struct op_claim *)op);
    }
    if (op->kind == OP_NODE_DEAD)
        judge_burial(by->sim, (const struct op_node_dead *)op);
    else if (op->kind == OP_HEARTBEAT && !((const struct op_heartbeat *)op)->ret_dead)
        by->buried = by->buried && by->sim->plant == PLANT_UNDEAD;
}

void nodes_judge_start(struct sim_node *n, const struct task *t)
{
    struct sim *s = n->sim;
    int64_t fence = oracle_settled_fence(s, t->id);
    fleet_judge_start(n, t);
    if (fleet_forgives(s, t))
        return;
    if (n->buried && !is_fleet(s)) /* there it may go on as a worker */
        breach(s, BREACH_STALE, "%s fence %lld started on node %d, which is buried", short_id(t->id),
               (long long)t->fence, n->number);
    else if (t->kind == TASK_ONE_TIME && t->fence <= fence) /* an occurrence may be withdrawn, and spawned anew */
        breach(s, BREACH_STALE, "%s fence %lld started after %lld was settled", short_id(t->id), (long long)t->fence,
               (long long)fence);
}

/* ---- partitions ---- */

static bool is_well(const struct sim_node *n)
{
    return n->node && !is_stopped(n) && n->sim->steady_us > n->trouble_us && !node_status(n->node).recovering &&
           !node_status(n->node).draining;
}

void nodes_judge_shares(struct sim *s)
{
    size_t sum = 0;
    bool well = s->steady_us > s->down_until_us;
    for (int i = 0; i < s->profile.nodes; i++) {
        well = well && is_well(&s->nodes[i]);
        sum += well ? node_status(s->nodes[i].node).partitions : 0;
    }
    if (!well || sum == PARTITIONS) {
        s->unowned_us = 0;
        return;
    }
    s->unowned_us = s->unowned_us ? s->unowned_us : s->steady_us;
    if (s->steady_us - s->unowned_us > UNEVEN_US)
        breach(s, BREACH_UNOWNED, "%d nodes look after %zu partitions", s->profile.nodes, sum);
}
