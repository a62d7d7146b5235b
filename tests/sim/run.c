/* The world's clock and its one loop, starts and crashes of nodes, and the plan of a run: faults and users until
 * length_us; then all faults end, everything drains and is judged. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

#include "model/store_memory.h"
#include "sim.h"

#define EPOCH_US 1767225600000000LL /* 2026-01-01T00:00:00Z */

enum {
    SECOND_US = 1000000,
    SPINS_MAX = 200,
    HEAL_US = 60 * SECOND_US,
    REST_US = 30 * SECOND_US,
    LEAP_US = 4 * SECOND_US,
    FLOWS_EVERY = 11, /* of that many seeds one has runs of workflows */
    FLOWS_AT = 7
};

static int64_t healing_us(const struct sim *s) /* breakers have seen failures for minutes */
{
    return s->profile.hosts ? 8LL * HEAL_US : HEAL_US;
}

/* ---- texts ---- */

const char *breach_text(enum breach b)
{
    static const char *const texts[] = {
#define X(name, text) [BREACH_##name] = text,
        BREACH_MAP(X)
#undef X
    };
    return texts[b];
}

const char *fault_text(enum fault f)
{
    static const char *const texts[] = {
#define X(name, text) [FAULT_##name] = text,
        FAULT_MAP(X)
#undef X
    };
    return texts[f];
}

const char *plant_name(enum plant p)
{
    static const char *const names[] = {
#define X(name, breach, text) [PLANT_##name] = text,
        PLANT_MAP(X)
#undef X
    };
    return names[p];
}

enum breach plant_breach(enum plant p)
{
    static const enum breach breaches[] = {
#define X(name, made, text) [PLANT_##name] = (enum breach)(made),
        PLANT_MAP(X)
#undef X
    };
    return breaches[p];
}

const char *short_id(struct uuid id)
{
    static char texts[8][UUID_TEXT + 1];
    static size_t next;
    char *text = texts[next++ % array_count(texts)];
    uuid_format(id, text);
    return text + 19; /* the part that differs */
}

void trace(const struct sim *s, const char *fmt, ...)
{
    if (!s->verbose)
        return;
    va_list args;
    va_start(args, fmt);
    printf("%10.3f %lld  ", (double)s->steady_us / 1000, (long long)wall_ms(s));
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

void breach(struct sim *s, enum breach kind, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    s->stats->breaches[kind]++;
    trace(s, "BREACH %s: %s", breach_text(kind), text);
    if (!s->first_breach[0])
        snprintf(s->first_breach, sizeof s->first_breach, "%s: %s", breach_text(kind), text);
}

/* ---- time and chance ---- */

int64_t wall_us(const struct sim *s)
{
    return EPOCH_US + s->steady_us + s->offset_us;
}

int64_t wall_ms(const struct sim *s)
{
    return wall_us(s) / 1000;
}

struct timer *after_us(struct sim *s, int64_t delay_us, timer_fn *fn, void *context)
{
    struct timer *t = xnew(*t);
    t->fn = fn;
    t->context = context;
    heap_push(&s->timers, &t->node, s->steady_us + max_of(delay_us, (int64_t)0));
    return t;
}

void timer_cancel(struct sim *s, struct timer *t)
{
    if (!t)
        return;
    heap_remove(&s->timers, &t->node);
    free(t);
}

bool chance(struct sim *s, int percent)
{
    return (int)prng_below(&s->random, 100) < percent;
}

int64_t between(struct sim *s, int64_t low, int64_t high)
{
    return prng_between(&s->random, low, high);
}

static timer_fn clock_jumps, crash_and_come_back;

/* A fault seldom comes alone: the next one hurts most where something waits to be tried again. */
static void attract_trouble(struct sim *s)
{
    if (s->profile.jumps && chance(s, 8))
        after_us(s, between(s, 0, SECOND_US / 5), clock_jumps, NULL);
    if (s->profile.crashes && chance(s, 2))
        after_us(s, between(s, 0, SECOND_US / 5), crash_and_come_back, NULL);
}

bool faulty(struct sim *s, int percent, enum fault kind)
{
    if (s->healed || s->ghost || percent == 0 || !chance(s, percent))
        return false;
    s->stats->faults[kind]++;
    trace(s, "fault: %s", fault_text(kind));
    attract_trouble(s);
    return true;
}

/* ---- the nodes ---- */

bool is_stopped(const struct sim_node *n)
{
    return n->sim->steady_us < n->stopped_until_us;
}

struct sim_node *some_node(struct sim *s)
{
    int first = is_cluster(s) ? (int)between(s, 0, s->profile.nodes - 1) : 0;
    for (int i = 0; i < s->profile.nodes; i++) {
        struct sim_node *n = &s->nodes[(first + i) % s->profile.nodes];
        if (n->node && !is_stopped(n))
            return n;
    }
    return NULL;
}

void sim_know_lanes(struct sim_node *node)
{
    cleanup_with(arena_release) struct arena a;
    struct lane *lanes;
    struct error e;
    size_t n;
    arena_init(&a, 1 << 20);
    if (reader_lanes(node->sim->reader, &a, &lanes, &n, &e))
        abort();
    node_know_lanes(node->node, lanes, n);
}

/* Finds lanes of other nodes by reading, in case a notice was lost. */
static void look_for_lanes(struct sim *s, void *context)
{
    struct sim_node *n = context;
    if (!n->node)
        return;
    if (!is_stopped(n)) {
        sim_know_lanes(n);
        n->poked = true;
    }
    after_us(s, SECOND_US, look_for_lanes, n);
}

static struct node_setup setup_of(struct sim_node *n)
{
    struct sim *s = n->sim;
    struct node_setup setup = {
        .writer = &n->writer.base,
        .planner = flows_planner(n),
        .open_rows = s->seed % 4 == 3 ? 1 + s->seed / 4 % 3 : 0,
        .clock = &n->clock,
        .shared = is_cluster(s),
        .heartbeat_ms = s->plant == PLANT_SLOW_BURIAL ? 4 * MEMBERSHIP_HEARTBEAT_MS : 0,
        .async_io = n->async_io,
        .zones = &s->node_zones,
        .catalog = gates_catalog_cache(s),
        .metrics = s->metrics,
        .name = S("simulated"),
        .version = S("1"),
        .seed = s->seed * 1000 + ++s->lives,
        .slots = s->profile.slots,
        .spawn_ahead_ms = 10000,
        .arm_min_ms = 50,
        .arm_max_ms = 1000,
        .ahead_ms = s->profile.ahead_ms,
        .ahead_bytes = s->profile.isolation ? 64 << 20 : 64 << 10, /* the latter is little enough to run out */
        .poll_ms = s->profile.poll_ms,
        .visibility_ms = 30000,
    };
    setup.runners[TARGET_HTTP] = setup.runners[TARGET_NOOP] = &n->runner.base;
    fleet_setup(n, &setup);
    return setup;
}

static void start_node(struct sim *s, void *context)
{
    struct sim_node *n = context;
    sim_ports_open(n);
    if (is_fleet(s))
        fleet_async_io_init(n);
    struct node_setup setup = setup_of(n);
    trace(s, "node %d starts, life %llu", n->number, (unsigned long long)s->lives);
    n->life = s->lives;
    n->corrected_us = n->behind_us = 0;
    n->buried = false;
    n->node = node_new(&setup, clock_now(&n->clock));
    gates_node_starts(s);
    sim_know_lanes(n);
    if (is_cluster(s))
        after_us(s, SECOND_US, look_for_lanes, n);
    s->born_ms = is_cluster(s) ? INT64_MIN : wall_ms(s);
    s->outages++;
    s->healed_ms = wall_ms(s); /* everything that was missed meanwhile is late */
    n->poked = true;
}

static void step(struct sim_node *n)
{
    struct sim *s = n->sim;
    n->poked = false;
    s->stats->steps++;
    struct moment now = clock_now(&n->clock);
    now.wall_ms += s->plant == PLANT_EARLY;
    n->wake_ms = n->worker ? worker_step(n->worker, now, 0) : node_step(n->node, now);
    n->spins = n->wake_ms <= now.wall_ms ? n->spins + 1 : 0;
    if (n->spins == SPINS_MAX)
        breach(s, BREACH_STUCK, "the node asks to be stepped again and again, and nothing happens");
}

/* Takes apart a node whose process is gone: nobody sees what it still does. */
static void bury(struct sim_node *n)
{
    struct sim *s = n->sim;
    if (is_fleet(s))
        fleet_async_io_crash(n);
    s->ghost = n;
    struct error e;
    sim_runner_crash(n);
    flows_planner_crash(n);
    if (events_reset(n->events_inner, &e)) /* events that a failed acknowledgement left behind */
        abort();
    node_drain(n->node);
    node_give_up(n->node);
    struct moment now = clock_now(&n->clock);
    for (int i = 0; i < 200 && (i == 0 || !node_is_idle(n->node)); i++) {
        sim_writer_answer_ghosts(n);
        flows_planner_answer_ghosts(n);
        if (is_fleet(s))
            fleet_async_io_answer_ghosts(n);
        now.wall_ms += 2 * SECOND_US / 1000;
        now.steady_ms += 2 * SECOND_US / 1000;
        node_step(n->node, now);
    }
    sim_writer_answer_ghosts(n);
    if (!node_is_idle(n->node)) {
        struct node_status status = node_status(n->node);
        fprintf(stderr,
                "seed %llu: a dead node cannot be taken apart: armed %zu, running %zu, queued %zu, events %zu\n",
                (unsigned long long)s->seed, status.scheduler.armed, status.running, status.queued,
                events_depth(&n->events));
        abort();
    }
    node_free(take(n->node));
    sim_ports_close(n);
    s->ghost = NULL;
}

void sim_crash(struct sim_node *n)
{
    if (!n->node)
        return;
    n->sim->stats->faults[FAULT_CRASH]++;
    trace(n->sim, "fault: node %d crashes", n->number);
    sim_writer_crash(n);
    nodes_crashed(n);
    oracle_crashed(n);
    fleet_node_died(n);
    bury(n);
    n->wake_ms = INT64_MAX;
    n->stopped_until_us = 0;
}

void sim_come_back_soon(struct sim_node *n)
{
    struct sim *s = n->sim;
    after_us(s, between(s, 1000, 3 * SECOND_US), start_node, n);
}

void sim_come_back(struct sim_node *n)
{
    struct sim *s = n->sim;
    after_us(s, chance(s, 70) ? between(s, 1000, 3 * SECOND_US) : between(s, SECOND_US, 30 * SECOND_US), start_node, n);
}

/* ---- faults ---- */

static void crash_and_come_back(struct sim *s, void *context)
{
    (void)context;
    struct sim_node *n = some_node(s);
    if (!n || s->healed || (s->profile.failover && n->number == 0)) /* one stays */
        return;
    sim_crash(n);
    sim_come_back(n);
}

static void store_goes_down(struct sim *s, void *context)
{
    (void)context;
    s->stats->faults[FAULT_DOWN]++;
    s->down_until_us = s->steady_us + between(s, SECOND_US / 10, 8 * SECOND_US);
    trace(s, "fault: the store is down for %lld ms", (long long)(s->down_until_us - s->steady_us) / 1000);
}

static void a_zone_is_lost(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    s->stats->faults[FAULT_NO_ZONES]++;
    s->no_zone_until_us = s->steady_us + between(s, SECOND_US, 30 * SECOND_US);
    trace(s, "fault: a time zone is gone for %lld ms", (long long)(s->no_zone_until_us - s->steady_us) / 1000);
}

static void clock_jumps(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    bool back = chance(s, 50);
    int64_t by_us = chance(s, 50) ? between(s, 0, 3 * SECOND_US) : between(s, 0, 60 * SECOND_US);
    if (!back && s->profile.sparse && chance(s, 10))
        by_us *= 30;
    s->stats->faults[back ? FAULT_JUMP_BACK : FAULT_JUMP_FORWARD]++;
    s->jumped++;
    s->wall_max_us = max_of(s->wall_max_us, wall_us(s));
    s->offset_us += back ? -by_us : by_us;
    if (back)
        s->born_ms = INT64_MIN;
    else if (by_us > LEAP_US && s->profile.slots >= ROOM_FOR_ALL && s->born_ms != INT64_MIN) {
        s->born_ms = wall_ms(s);
        s->outages++;
    }
    s->nodes[0].poked = true; /* a timerfd tells that the clock was set */
    trace(s, "fault: the clock jumps by %lld ms", (long long)(back ? -by_us : by_us) / 1000);
}

static void somebody_asks(struct sim *s, void *context)
{
    (void)context;
    client_act(s);
}

static void heal(struct sim *s, void *context)
{
    (void)context;
    trace(s, "everything heals");
    s->healed = true;
    s->healed_ms = wall_ms(s);
    s->down_until_us = s->no_zone_until_us = 0;
    fleet_heal(s);
    s->wall_max_us = max_of(s->wall_max_us, wall_us(s));
    gates_heal(s);
}

static void plan_faults(struct sim *s)
{
    const struct profile *p = &s->profile;
    for (int i = 0; i < p->requests; i++)
        after_us(s, between(s, 0, p->length_us), somebody_asks, NULL);
    for (int i = 0; i < p->crashes; i++)
        after_us(s, between(s, 0, p->length_us), crash_and_come_back, NULL);
    for (int i = 0; i < p->downs; i++)
        after_us(s, between(s, 0, p->length_us), store_goes_down, NULL);
    for (int i = 0; i < p->jumps; i++)
        after_us(s, between(s, 0, p->length_us), clock_jumps, NULL);
    for (int i = 0; i < p->zone_losses; i++)
        after_us(s, between(s, 0, p->length_us), a_zone_is_lost, NULL);
    gates_plan(s);
    nodes_plan(s);
    fleet_plan(s);
    isolation_plan(s);
    flows_plan(s);
    after_us(s, p->length_us, heal, NULL);
    for (int i = 0; i < p->nodes; i++)
        after_us(s, i && chance(s, 50) ? between(s, 0, 5 * SECOND_US) : 0, start_node, &s->nodes[i]);
}

/* In half of the seeds, only faults hold a task back. */
static void choose_gates(struct sim *s, struct profile *p)
{
    p->tenants = chance(s, 40) ? (int)between(s, 2, TENANTS_MAX) : 1;
    if (chance(s, 50))
        return;
    p->keys = chance(s, 60);
    p->rules = chance(s, 40);
    p->limits = chance(s, 25);
    p->hosts = chance(s, 25);
    if (!p->calm && chance(s, 15)) {
        p->poison = true;
        p->crashes = 0;
    }
}

static struct profile choose_profile(struct sim *s)
{
    if (isolation_is_due(s))
        return isolation_profile(s);
    struct profile p = {
        .calm = s->seed % 8 == 0,
        .latency_us = chance(s, 80) ? 5000 : 100000,
        .sparse = chance(s, 50),
        .impatient_percent = 25,
        .requests = (int)between(s, 20, 80),
        .slots = chance(s, 70) ? 1000 : (size_t)between(s, 5, 20),
        .poll_ms = chance(s, 80) ? 0 : 1000,
        .length_us = between(s, 20, 120) * SECOND_US,
    };
    if (p.sparse) {
        p.requests = (int)between(s, 1, 5);
        p.impatient_percent = 60;
        p.length_us = between(s, 10, 60) * SECOND_US;
    }
    if (p.calm) {
        p.slots = 1000;
        p.latency_us = min_of(p.latency_us, (int64_t)50000);
        p.poll_ms = 0;
        choose_gates(s, &p);
        nodes_choose(s, &p);
        fleet_choose(s, &p);
        return p;
    }
    int worst = p.sparse ? 30 : 10;
    p.fail_percent = chance(s, 50) ? (int)between(s, 1, worst) : 0;
    p.ports_percent = chance(s, 50) ? (int)between(s, 1, worst) : 0;
    p.crashes = chance(s, 60) ? (int)between(s, 1, 4) : 0;
    p.downs = chance(s, 40) ? (int)between(s, 1, 3) : 0;
    p.jumps = chance(s, 40) ? (int)between(s, 1, 3) : 0;
    p.zone_losses = chance(s, 20) ? (int)between(s, 1, 2) : 0;
    choose_gates(s, &p);
    nodes_choose(s, &p);
    fleet_choose(s, &p);
    return p;
}

/* ---- the loop ---- */

/* When a node wants to be stepped, in steady time. */
static int64_t wake_us(struct sim_node *n)
{
    if (!is_up(n) || (n->wake_ms == INT64_MAX && !n->poked))
        return INT64_MAX;
    int64_t at_us = n->poked ? 0 : n->wake_ms * 1000 - (clock_wall_us(&n->clock) - n->sim->steady_us);
    return max_of(at_us, n->stopped_until_us);
}

static struct sim_node *next_to_wake(struct sim *s)
{
    struct sim_node *first = &s->nodes[0];
    for (int i = 1; i < sim_process_count(s); i++)
        if (wake_us(sim_process(s, i)) < wake_us(first))
            first = sim_process(s, i);
    return first;
}

static bool spins(struct sim *s)
{
    for (int i = 0; i < sim_process_count(s); i++)
        if (sim_process(s, i)->spins >= SPINS_MAX)
            return true;
    return false;
}

/* One thing happens: a timer, or a step that a node asked for. False: nothing is left before until_us. */
static bool turn(struct sim *s, int64_t until_us)
{
    const struct heap_node *first = heap_peek(&s->timers);
    struct sim_node *n = next_to_wake(s);
    int64_t timer_us = first ? first->key : INT64_MAX;
    int64_t next_us = max_of(min_of(timer_us, wake_us(n)), s->steady_us);
    if (next_us > until_us) {
        s->steady_us = until_us;
        return false;
    }
    bool timer = timer_us <= wake_us(n);
    s->steady_us = next_us;
    if (timer) {
        struct timer *t = container_of(heap_pop(&s->timers), struct timer, node);
        t->fn(s, t->context);
        free(t);
    } else {
        n->poked = true;
    }
    for (int i = 0; i < sim_process_count(s); i++) {
        struct sim_node *p = sim_process(s, i);
        if (p->poked && is_up(p) && !is_stopped(p))
            step(p);
    }
    return !spins(s);
}

static void run_until(struct sim *s, int64_t until_us)
{
    while (turn(s, until_us))
        ;
}

static bool all_idle(const struct sim *s)
{
    for (int i = 0; i < s->profile.nodes; i++)
        if (s->nodes[i].node && !node_is_idle(s->nodes[i].node))
            return false;
    return true;
}

static void check_rest(struct sim_node *n)
{
    struct node_status status = node_status(n->node);
    bool held = status.scheduler.held && !is_fleet(n->sim); /* there it is the queue's */
    if (!node_is_idle(n->node) || held || (status.recovering && !is_cluster(n->sim)) || events_depth(&n->events))
        breach(n->sim, BREACH_STUCK, "drained: held %zu, armed %zu, running %zu, queued %zu, events %zu%s",
               status.scheduler.held, status.scheduler.armed, status.running, status.queued, events_depth(&n->events),
               status.recovering ? ", recovering" : "");
}

/* Stops the nodes as SIGTERM would, and checks that they become idle. */
static void drain_nodes(struct sim *s)
{
    s->stopped_ms = wall_ms(s);
    s->stopped_us = s->steady_us;
    for (int i = 0; i < s->profile.nodes; i++) {
        if (!s->nodes[i].node) {
            breach(s, BREACH_STUCK, "no node");
            return;
        }
        node_drain(s->nodes[i].node);
        step(&s->nodes[i]);
    }
    int64_t until_us = s->steady_us + REST_US;
    while (!all_idle(s) && turn(s, until_us))
        ;
    for (int i = 0; i < s->profile.nodes; i++)
        check_rest(&s->nodes[i]);
    if (!list_empty(&s->requests))
        breach(s, BREACH_STUCK, "a request was never answered");
}

/* The next node after those of a fleet finds what workers have done meanwhile. */
static void collect(struct sim *s)
{
    for (int i = 0; i < s->profile.nodes; i++)
        if (s->nodes[i].node)
            bury(&s->nodes[i]);
    s->fleet.collecting = true;
    start_node(s, &s->nodes[0]);
    run_until(s, s->steady_us + REST_US);
    fleet_stop_workers(s);
    int64_t until_us = s->steady_us + REST_US;
    while (!fleet_workers_are_idle(s) && turn(s, until_us))
        ;
    if (!fleet_workers_are_idle(s))
        breach(s, BREACH_STUCK, "a worker does not come to rest");
    run_until(s, s->steady_us + REST_US);
    node_drain(s->nodes[0].node);
    step(&s->nodes[0]);
    until_us = s->steady_us + REST_US;
    while (!all_idle(s) && turn(s, until_us))
        ;
    check_rest(&s->nodes[0]);
}

/* A node is marked dead after two seconds: longer claims are left over then. */
static int64_t choose_ahead(const struct sim *s)
{
    if (s->seed % 4 == 0)
        return 0;
    return s->profile.failover ? 6000 : is_cluster(s) ? 3000 : 3000 + (int64_t)(s->seed % 5) * 1750;
}

static void sim_init(struct sim *s, uint64_t seed, struct zoneinfo *zones, struct sim_stats *stats)
{
    struct error e;
    s->seed = seed;
    s->stats = stats;
    s->zones = zones;
    prng_init(&s->random, seed);
    uuid_gen_init(&s->ids, seed);
    heap_init(&s->timers);
    list_init(&s->requests);
    s->store = store_memory_new();
    s->metrics = metrics_new();
    s->oracle = oracle_new();
    sim_zones_init(s);
    if (store_reader(s->store, &s->reader, &e))
        abort();
    s->profile = choose_profile(s);
    if (!s->profile.isolation)
        s->profile.ahead_ms = choose_ahead(s);
    if (!s->profile.isolation && !s->profile.calm && seed % 4 == 1)
        s->profile.connections = 2 + seed % 7;
    s->profile.joins = !s->profile.isolation && !s->profile.poison && seed % 5 == 2;
    s->profile.flows = !s->profile.isolation && !s->profile.poison && seed % FLOWS_EVERY == FLOWS_AT;
    s->profile.purges = s->profile.flows && seed / FLOWS_EVERY % 4 == 1;
    nodes_init(s);
    fleet_init(s);
    gates_init(s);
    flows_init(s);
    isolation_init(s);
}

static void sim_release(struct sim *s)
{
    for (int i = 0; i < s->profile.nodes; i++)
        if (s->nodes[i].node)
            bury(&s->nodes[i]);
    fleet_bury_workers(s);
    struct heap_node *n;
    client_free(s);
    flows_free_requests(s);
    while ((n = heap_pop(&s->timers)))
        free(container_of(n, struct timer, node));
    heap_release(&s->timers);
    reader_free(s->reader);
    store_free(s->store);
    metrics_free(s->metrics);
    gates_release(s);
    isolation_release(s);
    fleet_release(s);
    flows_release(s);
    oracle_free(s->oracle);
}

void sim_run(uint64_t seed, enum plant plant, bool verbose, struct zoneinfo *zones, struct sim_stats *stats,
             char first_breach[512])
{
    struct sim s = { .verbose = verbose, .plant = plant };
    sim_init(&s, seed, zones, stats);
    plant_wrap(&s);
    plant_store(&s);
    plan_faults(&s);
    run_until(&s, s.profile.length_us + healing_us(&s));
    int64_t behind_us = s.wall_max_us + HEAL_US / 2 - wall_us(&s); /* the clock was set back: its time comes again */
    run_until(&s, s.steady_us + max_of(behind_us, (int64_t)0));
    drain_nodes(&s);
    if (is_fleet(&s))
        collect(&s);
    oracle_check(&s);
    stats->seeds++;
#define X(metric, text) stats->passed_##metric += metric_count(s.metrics, METRIC_##metric);
    PASS_MAP(X)
#undef X
    memcpy(first_breach, s.first_breach, sizeof s.first_breach);
    sim_release(&s);
    plant_wrap(NULL);
}
