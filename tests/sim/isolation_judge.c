/* Nobody waits for another: judged by the calls that are under way, at each start and ten times a second. */
#include <stdlib.h>

#include "core/sharing/slot.h"
#include "sim.h"

enum {
    IDLE_US = 1000000,
    STALL_LATE_MS = 10,
    ORDER_US = 50000,
    KEY_EARLY_MS = 100,
    KEPT_PART = 10,
    SHARE_PERCENT = 80
};

/* ---- the room of a process ---- */

struct usage {
    size_t all, of_class[CLASSES], of_host[HOSTS], of_tenant[TENANTS_MAX];
    int64_t resources[2]; /* CPU and memory */
};

/* Without the call of `except`; NULL: all. */
static struct usage usage_of(const struct sim_node *n, const struct task *except)
{
    struct usage u = { 0 };
    list_each (&n->runner.calls, link) {
        const struct task *t = container_of(link, struct call, link)->run->task;
        int host = gates_host(t);
        if (t == except)
            continue;
        u.all++;
        u.of_class[priority_class_of(t->priority)]++;
        u.of_tenant[t->tenant - 1]++;
        u.resources[0] += t->cpu_milli;
        u.resources[1] += t->memory_mb;
        if (host >= 0)
            u.of_host[host]++;
    }
    return u;
}

/* Each higher class that uses less than a tenth of the slots keeps the rest of its tenth, if it may come at all. */
static bool has_slot(const struct sim_node *n, const struct usage *u, enum priority_class c)
{
    size_t slots = n->sim->profile.slots, taken = u->all;
    for (int d = (int)c + 1; d < CLASSES; d++)
        if (u->of_class[d] < slots / KEPT_PART && isolation_serves_class(n, (enum priority_class)d))
            taken += slots / KEPT_PART - u->of_class[d];
    return taken < slots;
}

static bool has_connection(const struct sim *s, const struct usage *u, int host)
{
    return host < 0 || !s->profile.connections || u->of_host[host] < s->profile.connections;
}

/* A tenant does not get all slots if there are others. */
static bool has_share(const struct sim *s, const struct usage *u, int tenant)
{
    size_t share = max_of(s->profile.slots * SHARE_PERCENT / 100, (size_t)1);
    return s->profile.tenants < 2 || u->of_tenant[tenant] < share;
}

void isolation_note_room(struct sim_node *n)
{
    struct sim *s = n->sim;
    if (!s->profile.isolation || s->ghost == n)
        return;
    struct usage u = usage_of(n, NULL);
    for (int c = 0; c < CLASSES; c++)
        if (!has_slot(n, &u, (enum priority_class)c))
            n->full.class_us[c] = s->steady_us;
    for (int i = 0; i < HOSTS; i++)
        if (!has_connection(s, &u, i))
            n->full.host_us[i] = s->steady_us;
    for (int i = 0; i < NEEDS; i++)
        if (!isolation_has(n, u.resources, (enum need)i))
            n->full.need_us[i] = s->steady_us;
    for (int i = 0; i < TENANTS_MAX; i++)
        if (!has_share(s, &u, i))
            n->full.tenant_us[i] = s->steady_us;
}

enum { LINES = TENANTS_MAX * QUEUES * CLASSES * NEEDS };

static int line_of(const struct subject *x)
{
    int class_ = (int)priority_class_of(x->priority);
    return (((x->tenant - 1) * QUEUES + x->queue) * CLASSES + class_) * NEEDS + (int)x->need;
}

/* Steady: since when the process has had room for the task.
 *  - The queue knows no hosts: it may have given the task to another process, which waits for a connection.
 *  - Tasks of its line whose host is busy are claimed before it and put aside, a few at a time. */
static int64_t room_since_us(struct sim *s, const struct sim_node *n, const struct subject *x)
{
    const struct sim_full *f = &n->full;
    int64_t since_us = max_of(n->joined_us, f->class_us[priority_class_of(x->priority)]);
    since_us = max_of(since_us, max_of(f->need_us[x->need], f->tenant_us[x->tenant - 1]));
    for (int i = 0; i < sim_process_count(s) && x->host >= 0; i++)
        since_us = max_of(since_us, sim_process(s, i)->full.host_us[x->host]);
    return s->profile.connections ? max_of(since_us, s->unfired_us[line_of(x)]) : since_us;
}

static int64_t due_us(const struct sim *s, const struct subject *x)
{
    return x->due_ms * 1000 - (wall_us(s) - s->steady_us);
}

void isolation_unfired(struct sim *s, const struct subject *x)
{
    s->unfired_us[line_of(x)] = s->steady_us;
}

/* ---- idle beside a due task ---- */

static bool runs_tasks(const struct sim *s, const struct sim_node *n)
{
    return is_fleet(s) ? n->worker != NULL : n->node != NULL;
}

static void judge_idle(struct sim *s, struct subject *x)
{
    int64_t waits_us = max_of(x->waits_us, due_us(s, x));
    for (int i = 0; i < sim_process_count(s) && !x->idle_told; i++) {
        const struct sim_node *n = sim_process(s, i);
        if (!runs_tasks(s, n) || !isolation_serves(n, x))
            continue;
        int64_t idle_us = s->steady_us - max_of(waits_us, room_since_us(s, n, x));
        if (idle_us <= IDLE_US)
            continue;
        x->idle_told = true;
        breach(s, BREACH_IDLE, "%s waits for %lld ms, and process %d has had room for it for %lld ms", short_id(x->id),
               (long long)(s->steady_us - waits_us) / 1000, i, (long long)idle_us / 1000);
    }
}

/* ---- slots of concurrency keys ---- */

static void judge_keys(struct sim *s, int32_t tenant)
{
    cleanup_with(arena_release) struct arena a;
    struct slot_need needs[SLOTS_MAX];
    struct slot_holders h;
    struct error e;
    struct task like = { .tenant = tenant, .concurrency_key = S("one"), .concurrency_limit = 1 };
    arena_init(&a, 1 << 20);
    if (slot_needs(&like, needs) != 1 || reader_slots(s->reader, needs[0].key, &a, &h, &e))
        abort();
    for (size_t i = 0; i < h.n; i++) {
        const struct subject *x = oracle_find(s, h.v[i].task);
        if (x && x->waits && x->due_ms > wall_ms(s) + KEY_EARLY_MS)
            breach(s, BREACH_AHEAD, "%s holds a slot of its key, %lld ms before it is due", short_id(x->id),
                   (long long)(x->due_ms - wall_ms(s)));
    }
}

/* Neither the store nor a breaker nor a concurrency key may hold it. */
static bool is_free_of_gates(const struct sim *s, const struct subject *x)
{
    bool breakers = s->profile.isolation == ISOLATION_BREAKERS;
    return s->profile.isolation != ISOLATION_STALLS && (!breakers || (x->host < 0 && !x->key_limit));
}

void isolation_look(struct sim *s, void *context)
{
    (void)context;
    for (int i = 0; i < sim_process_count(s); i++)
        isolation_note_room(sim_process(s, i));
    for (size_t i = 0; i < s->oracle->n; i++)
        if (s->oracle->v[i]->waits && is_free_of_gates(s, s->oracle->v[i]))
            judge_idle(s, s->oracle->v[i]);
    for (int i = 0; i < s->profile.tenants && s->profile.isolation == ISOLATION_BREAKERS; i++)
        judge_keys(s, i + 1);
}

/* ---- turns ---- */

/* The processes that can run it. */
static unsigned pool_of(struct sim *s, const struct subject *x)
{
    unsigned pool = 0;
    for (int i = 0; i < sim_process_count(s); i++)
        if (runs_tasks(s, sim_process(s, i)) && isolation_serves(sim_process(s, i), x))
            pool |= 1u << i;
    return pool;
}

/* Two turns of its share, and all slots: a task may have been claimed before the line had something due. In a fleet, the
 * queue gives higher priorities first, so a low task waits there until each place before it had its turn. Three times as
 * much, because shares are not exact:
 *  - While a claim is in flight, tasks that were claimed ahead start, and pass lines whose tasks are in the store.
 *  - Pools of a fleet share workers, and the queue knows no shares. */
static int64_t overtaken_max(struct sim *s, const struct subject *x, unsigned pool)
{
    static const int percent[CLASSES] = { [CLASS_HIGH] = 60, [CLASS_NORMAL] = 30, [CLASS_LOW] = 10 };
    int64_t slots = (int64_t)s->profile.slots, waiting = is_fleet(s) ? slots : 0;
    int64_t lines = (int64_t)s->profile.tenants * s->profile.queues;
    int64_t turns = (2 + waiting) * lines * 100 / percent[priority_class_of(x->priority)];
    return 3 * (turns + slots * __builtin_popcount(pool));
}

static void judge_head(struct sim *s, const struct subject *x, const struct subject *started)
{
    int64_t *n = &s->overtaken[line_of(x)];
    unsigned pool = pool_of(s, x);
    bool own = line_of(x) == line_of(started), at_share = false;
    for (int i = 0; i < sim_process_count(s); i++)
        at_share = at_share || sim_process(s, i)->full.tenant_us[x->tenant - 1] == s->steady_us;
    if (own || pool != pool_of(s, started) || at_share)
        return;
    if (++*n == overtaken_max(s, x, pool) + 1)
        breach(s, BREACH_STARVED, "%s, the head of its line, was overtaken by %lld starts, priority %d",
               short_id(x->id), (long long)*n, x->priority);
}

/* A host that is busy holds up its line, and no one is to blame: so lines are judged only without. */
static void judge_turns(struct sim *s, const struct subject *started)
{
    const struct subject *heads[LINES] = { 0 };
    if (!s->profile.isolation || s->profile.connections)
        return;
    for (size_t i = 0; i < s->oracle->n; i++) {
        const struct subject *x = s->oracle->v[i];
        if (x->waits && x->due_ms <= wall_ms(s) && !heads[line_of(x)])
            heads[line_of(x)] = x;
    }
    s->overtaken[line_of(started)] = 0;
    for (int i = 0; i < LINES; i++) {
        if (!heads[i])
            s->overtaken[i] = 0;
        else
            judge_head(s, heads[i], started);
    }
}

/* ---- order ---- */

static int64_t order_ms(const struct subject *x)
{
    return x->due_ms - (int64_t)x->priority * AGEING_MS;
}

/* What was claimed before the other one was there is not called back. */
static void judge_order(struct sim *s, const struct subject *started, const struct task *t)
{
    if (s->profile.isolation != ISOLATION_BUSY || s->profile.connections)
        return;
    int64_t claimed_us = uuid_time_ms(t->claim) * 1000 - (wall_us(s) - s->steady_us);
    for (size_t i = 0; i < s->oracle->n; i++) {
        const struct subject *x = s->oracle->v[i];
        if (!x->waits || line_of(x) != line_of(started) || order_ms(x) >= order_ms(started))
            continue;
        if (max_of(x->waits_us, due_us(s, x)) + ORDER_US < claimed_us)
            breach(s, BREACH_ORDER, "%s of priority %d starts before %s of priority %d, which has waited for %lld ms",
                   short_id(started->id), started->priority, short_id(x->id), x->priority,
                   (long long)(s->steady_us - due_us(s, x)) / 1000);
    }
}

/* ---- stalls ---- */

/* What was created before claims reach it starts on time, whatever the store does. */
static void judge_stall(struct sim *s, const struct sim_node *n, const struct subject *x)
{
    int64_t late_ms = wall_ms(s) - x->due_ms;
    bool early = x->due_ms - x->acked_wall_ms > s->profile.ahead_ms;
    if (s->profile.isolation == ISOLATION_STALLS && early && late_ms > STALL_LATE_MS &&
        room_since_us(s, n, x) < due_us(s, x))
        breach(s, BREACH_STALL, "%s is %lld ms late, and there was room for it", short_id(x->id), (long long)late_ms);
}

/* ---- starts ---- */

void isolation_judge_start(struct sim_node *n, const struct task *t)
{
    struct sim *s = n->sim;
    struct usage u = usage_of(n, t);
    const struct subject *x = oracle_find(s, t->id);
    enum priority_class c = priority_class_of(t->priority);
    if (u.all < s->profile.slots && !has_slot(n, &u, c))
        breach(s, BREACH_RESERVE, "%s of priority %d starts, %zu of %zu slots are taken, and the rest is kept",
               short_id(t->id), t->priority, u.all, s->profile.slots);
    if (x->host >= 0 && !has_connection(s, &u, x->host))
        breach(s, BREACH_HOST, "%s is call number %zu to host %d", short_id(t->id), u.of_host[x->host] + 1, x->host);
    judge_stall(s, n, x);
    judge_order(s, x, t);
    if (s->profile.isolation == ISOLATION_BUSY || s->profile.isolation == ISOLATION_POOLS)
        judge_turns(s, x);
}
