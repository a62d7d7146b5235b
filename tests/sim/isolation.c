/* Worlds without faults in which one tenant, queue, class, host or pool of workers could hold up others. Users create
 * bursts of one-time tasks and change nothing, so a task that waits has one reason to: others run. */
#include <stdlib.h>

#include "sim.h"

enum { SECOND_US = 1000000, SECOND_MS = 1000, LOOK_US = 100000, EVERY = 7 };

/* ---- workers ---- */

struct sim_worker_kind {
    struct queue_filter filter;
    int64_t cpu_milli, memory_mb; /* 0: no limit */
};

static const struct str label[] = { { "gpu", 3 } }, mail[] = { { "mail", 4 } };

enum { KIND_PLAIN, KIND_HIGH, KIND_NOT_HIGH, KIND_MAIL, KIND_LABEL, KIND_COUNT };

static const struct sim_worker_kind kinds[KIND_COUNT] = {
    [KIND_PLAIN] = { { .priority_max = PRIORITY_MAX }, 2000, 1024 },
    [KIND_HIGH] = { { .priority_min = 7, .priority_max = PRIORITY_MAX }, 0, 0 },
    [KIND_NOT_HIGH] = { { .priority_max = 6 }, 1000, 0 },
    [KIND_MAIL] = { { .priority_max = PRIORITY_MAX, .queues = mail, .queue_count = 1 }, 0, 0 },
    [KIND_LABEL] = { { .priority_max = PRIORITY_MAX, .labels = label, .label_count = 1 }, 4000, 4096 },
};

static const struct {
    struct str requires;
    int64_t cpu_milli, memory_mb;
} needs[NEEDS] = {
    [NEED_CPU] = { .cpu_milli = 500 },
    [NEED_LABEL] = { .requires = { "gpu", 3 } },
    [NEED_MUCH] = { .cpu_milli = 3000, .memory_mb = 2048 },
};

enum need isolation_need(const struct task *t)
{
    return t->requires.n ? NEED_LABEL : t->cpu_milli > 1000 ? NEED_MUCH : t->cpu_milli ? NEED_CPU : NEED_NOTHING;
}

/* The last one has what no other has, and comes late. */
void isolation_setup_worker(struct sim_node *w, struct worker_setup *setup)
{
    struct sim *s = w->sim;
    if (s->profile.isolation != ISOLATION_POOLS)
        return;
    bool last = w->number == s->profile.workers - 1;
    if (!w->kind)
        w->kind = &kinds[last ? KIND_LABEL : w->number == 0 ? KIND_PLAIN : between(s, 0, KIND_COUNT - 2)];
    setup->filter = &w->kind->filter;
    setup->cpu_milli = w->kind->cpu_milli;
    setup->memory_mb = w->kind->memory_mb;
}

int64_t isolation_join_us(struct sim *s, int worker)
{
    if (s->profile.isolation == ISOLATION_POOLS && worker == s->profile.workers - 1)
        return between(s, SECOND_US, 15 * SECOND_US);
    return worker && chance(s, 50) ? between(s, 0, 5 * SECOND_US) : 0;
}

bool isolation_has(const struct sim_node *n, const int64_t used[2], enum need need)
{
    if (!n->kind)
        return true;
    bool cpu = n->kind->cpu_milli <= 0 || n->kind->cpu_milli - used[0] >= needs[need].cpu_milli,
         memory = n->kind->memory_mb <= 0 || n->kind->memory_mb - used[1] >= needs[need].memory_mb;
    return cpu && memory;
}

bool isolation_serves(const struct sim_node *n, const struct subject *x)
{
    static const int64_t nothing[2] = { 0 };
    if (!n->kind)
        return true;
    const struct queue_filter *f = &n->kind->filter;
    return x->priority >= f->priority_min && x->priority <= f->priority_max &&
           (!f->queue_count || str_eq(gates_queue_name(x->queue), f->queues[0])) &&
           (x->need != NEED_LABEL || f->label_count) && isolation_has(n, nothing, x->need);
}

bool isolation_serves_class(const struct sim_node *n, enum priority_class c)
{
    const struct queue_filter *f = n->kind ? &n->kind->filter : NULL;
    return !f || (priority_class_of(f->priority_max) >= c && priority_class_of(f->priority_min) <= c);
}

/* ---- the plan ---- */

bool isolation_is_due(const struct sim *s)
{
    return s->seed % EVERY == 3;
}

/* The more slots there are, the longer calls take: there is a backlog all the same. */
struct profile isolation_profile(struct sim *s)
{
    int kinds_of_seed = ISOLATION_KINDS - 1;
    struct profile p = {
        .isolation = (enum isolation)(1 + s->seed / EVERY % (uint64_t)kinds_of_seed),
        .calm = true,
        .latency_us = 5000,
        .requests = (int)between(s, 15, 40),
        .slots = (size_t)between(s, 1, 20),
        .tenants = 1,
        .queues = (int)between(s, 1, 2),
        .nodes = 1,
        .length_us = between(s, 10, 20) * SECOND_US,
        .ahead_ms = between(s, 3, 10) * SECOND_MS,
        .connections = chance(s, 50) ? (size_t)between(s, 2, 8) : 0,
    };
    if (p.isolation == ISOLATION_POOLS)
        p.workers = (int)between(s, 2, WORKERS_MAX);
    else if (p.isolation == ISOLATION_STALLS)
        p.connections = 0;
    else if (!p.connections) /* tasks that wait for their host count in their tenant's share, and nobody sees them */
        p.tenants = (int)between(s, 1, 2);
    p.call_us = 50000 * (int64_t)p.slots;
    if (p.isolation == ISOLATION_BREAKERS) { /* enough calls to open breakers, and room for all of them */
        p.slots = (size_t)between(s, 20, 40);
        p.hosts = true;
        p.fail_calls_percent = chance(s, 50) ? 65 : 100;
        p.connections = 0;
        p.call_us = 50000;
        p.length_us = between(s, 20, 40) * SECOND_US;
    }
    if (p.isolation == ISOLATION_STALLS) { /* the slots would be few if a task held its own until it is settled */
        p.slots = (size_t)between(s, 8, 16);
        p.call_us = 50000;
    }
    return p;
}

void isolation_init(struct sim *s)
{
    size_t lines = (size_t)TENANTS_MAX * QUEUES * CLASSES * NEEDS;
    s->overtaken = xcalloc(lines, sizeof *s->overtaken);
    s->unfired_us = xcalloc(lines, sizeof *s->unfired_us);
}

void isolation_release(struct sim *s)
{
    free(s->overtaken);
    free(s->unfired_us);
}

static void look_again(struct sim *s, void *context)
{
    isolation_look(s, context);
    if (!s->stopped_ms)
        after_us(s, LOOK_US, look_again, NULL);
}

/* At most half as long as tasks are claimed ahead: at least a quarter of that is left. */
static void store_stalls(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    int64_t ahead_us = s->profile.ahead_ms * 1000, for_us = between(s, 300000, min_of(ahead_us / 2, 4LL * SECOND_US));
    s->stats->faults[FAULT_STALL]++;
    trace(s, "fault: the store stalls for %lld ms", (long long)for_us / 1000);
    s->stalled_us = s->steady_us + for_us;
    after_us(s, for_us + ahead_us + between(s, 0, SECOND_US), store_stalls, NULL);
}

/* As if the tenants' network were down: no host alone is the cause. */
static void almost_all_hosts_fail(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    for (int i = 0; i < HOSTS - 1; i++)
        s->gates.failing[i] = true;
    trace(s, "all hosts but the last one are failing");
}

void isolation_plan(struct sim *s)
{
    const struct profile *p = &s->profile;
    if (!p->isolation)
        return;
    trace(s, "isolation %d: %zu slots, %zu connections, %d tenants, %d queues, %d workers, claims %lld ms ahead",
          p->isolation, p->slots, p->connections, p->tenants, p->queues, p->workers, (long long)p->ahead_ms);
    after_us(s, LOOK_US, look_again, NULL);
    if (p->fail_calls_percent == 100)
        after_us(s, 0, almost_all_hosts_fail, NULL);
    if (p->isolation == ISOLATION_STALLS)
        after_us(s, between(s, SECOND_US, 5 * SECOND_US), store_stalls, NULL);
}

/* ---- tasks ---- */

static void add_needs(struct sim *s, struct task *t)
{
    enum need need = chance(s, 60) ? NEED_NOTHING : (enum need)between(s, NEED_CPU, NEED_MUCH);
    t->requires = needs[need].requires;
    t->cpu_milli = needs[need].cpu_milli;
    t->memory_mb = needs[need].memory_mb;
}

void isolation_make_task(struct sim *s, struct task *t)
{
    const struct profile *p = &s->profile;
    t->queue = gates_queue_name((int)between(s, 0, p->queues - 1));
    t->delivery = DELIVER_AT_LEAST_ONCE;
    t->retry.max_attempts = 1;
    t->timeout_ms = 10 * SECOND_MS;
    if (t->target == TARGET_HTTP && p->isolation != ISOLATION_BREAKERS && chance(s, 50))
        t->target_config = gates_target(0); /* the busy one */
    if (p->isolation == ISOLATION_POOLS)
        add_needs(s, t);
    if (t->target == TARGET_HTTP && p->fail_calls_percent == 100 && chance(s, 80)) /* too few are well to matter */
        t->target_config = gates_target((int)between(s, 0, HOSTS - 2));
    if (p->isolation == ISOLATION_BREAKERS)
        t->retry.max_attempts = (int)between(s, 1, 3);
    if (p->isolation == ISOLATION_BREAKERS && chance(s, 10)) {
        t->concurrency_key = S("one");
        t->concurrency_limit = 1;
    }
    t->scheduled_ms = wall_ms(s) + (chance(s, 50) ? 0 : between(s, 0, 6 * SECOND_MS));
    if (p->isolation == ISOLATION_STALLS && chance(s, 80)) /* early enough, even if the insert meets a stall */
        t->scheduled_ms = wall_ms(s) + 2 * p->ahead_ms + between(s, 0, 10 * SECOND_MS);
    t->due_ms = t->scheduled_ms;
}

void isolation_make_alike(const struct task *as, struct task *t)
{
    t->queue = as->queue;
    t->priority = as->priority;
    t->requires = as->requires;
    t->cpu_milli = as->cpu_milli;
    t->memory_mb = as->memory_mb;
    t->scheduled_ms = t->due_ms = as->due_ms;
}
