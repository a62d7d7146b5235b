/* Queues, tenants and hosts, and what users do to them until all faults end. The catalog cache is what a node would
 * have read. The oracle looks at what was put into it, never at what the node made of it. */
#include <assert.h>
#include <stdlib.h>

#include "core/target/target_url.h"
#include "sim.h"

enum { SECOND_US = 1000000, SECOND_MS = 1000, DOC_MAX = 4096, CHANGES_MAX = 12, POISON_TASKS = 30 };

static const char *const queue_names[QUEUES] = { "default", "mail", "reports" };
static const char *const targets[HOSTS] = {
    "{\"url\":\"http://host0.example/hook\"}",      "{\"url\":\"http://host1.example/hook\"}",
    "{\"url\":\"http://host2.example:8080/hook\"}", "{\"url\":\"http://host3.example/hook\"}",
    "{\"url\":\"http://host4.example/hook\"}",      "{\"url\":\"http://host5.example/hook\"}"
};
static const char *const tenant_names[TENANTS_MAX] = { "default", "acme", "globex" };

struct str gates_queue_name(int number)
{
    return str_from(queue_names[number]);
}

struct str gates_target(int host)
{
    return str_from(targets[host]);
}

int gates_host(const struct task *t)
{
    for (int i = 0; i < HOSTS; i++)
        if (t->target == TARGET_HTTP && str_eq(t->target_config, gates_target(i)))
            return i;
    return -1;
}

struct sim_tenant *gates_tenant(struct sim *s, const struct task *t)
{
    assert(t->tenant >= 1 && t->tenant <= TENANTS_MAX);
    return &s->gates.tenants[t->tenant - 1];
}

struct sim_queue *gates_queue(struct sim *s, const struct task *t)
{
    for (int i = 0; i < QUEUES; i++)
        if (str_eq(t->queue, gates_queue_name(i)))
            return &gates_tenant(s, t)->queues[i];
    abort();
}

/* ---- the catalog cache ---- */

static void put(struct sim *s, int32_t tenant, enum catalog_kind kind, struct str name, struct buf *doc)
{
    struct error e;
    struct catalog_entry entry = { .tenant = tenant, .kind = kind, .name = name, .version = 1, .doc = buf_str(doc) };
    if (catalog_cache_put(s->gates.catalog, &entry, &e)) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    s->stats->rules++;
    for (int i = 0; i < s->profile.nodes; i++) {
        struct sim_node *n = &s->nodes[i];
        if (!n->node || s->ghost == n || s->plant == PLANT_DEAF)
            continue;
        node_rules_changed(n->node);
        n->poked = true;
    }
}

static void put_queue(struct sim *s, int tenant, int number)
{
    struct sim_queue *q = &s->gates.tenants[tenant].queues[number];
    struct queue_rules told = q->rules;
    struct buf doc;
    struct jw w;
    if (s->plant == PLANT_HASTY) {
        told.rate *= 2;
        told.burst *= 2;
    }
    buf_init(&doc, DOC_MAX);
    jw_init(&w, &doc);
    jw_object(&w);
    queue_rules_write(&w, &told);
    jw_object_end(&w);
    trace(s, "queue " STR_FMT " of tenant %d: " STR_FMT, STR_ARG(gates_queue_name(number)), tenant + 1,
          STR_ARG(buf_str(&doc)));
    q->changed_us = s->steady_us;
    q->level = (double)q->rules.burst;
    q->level_wall_us = wall_us(s);
    q->level_us = s->steady_us;
    put(s, tenant + 1, CATALOG_QUEUE, gates_queue_name(number), &doc);
    buf_release(&doc);
}

static void put_tenant(struct sim *s, int number)
{
    struct sim_tenant *t = &s->gates.tenants[number];
    struct buf doc;
    struct jw w;
    buf_init(&doc, DOC_MAX);
    jw_init(&w, &doc);
    jw_object(&w);
    tenant_rules_write(&w, &t->rules);
    jw_object_end(&w);
    trace(s, "tenant %d: " STR_FMT, number + 1, STR_ARG(buf_str(&doc)));
    t->changed_us = s->steady_us;
    put(s, 0, CATALOG_TENANT, str_from(tenant_names[number]), &doc);
    buf_release(&doc);
}

struct catalog_cache *gates_catalog_cache(struct sim *s)
{
    return s->plant == PLANT_DEAF ? s->gates.deaf : s->gates.catalog;
}

void gates_init(struct sim *s)
{
    s->gates.catalog = catalog_cache_new();
    s->gates.deaf = catalog_cache_new();
    for (int i = 0; i < TENANTS_MAX; i++) {
        struct sim_tenant *t = &s->gates.tenants[i];
        t->rules = (struct tenant_rules){ .number = i + 1, .name = str_from(tenant_names[i]) };
        for (int k = 0; k < QUEUES; k++)
            t->queues[k].rules = QUEUE_RULES_DEFAULT;
        if (i && i < s->profile.tenants)
            put_tenant(s, i);
    }
}

void gates_release(struct sim *s)
{
    catalog_cache_free(s->gates.catalog);
    catalog_cache_free(s->gates.deaf);
}

void gates_node_starts(struct sim *s)
{
    for (int i = 0; i < TENANTS_MAX; i++) {
        struct sim_tenant *t = &s->gates.tenants[i];
        memset(t->left_alone_ms, 0, sizeof t->left_alone_ms);
        for (int k = 0; k < QUEUES; k++) {
            t->queues[k].level = (double)t->queues[k].rules.burst;
            t->queues[k].level_wall_us = wall_us(s);
            t->queues[k].level_us = s->steady_us;
        }
    }
}

bool gates_were_ever_closed(const struct sim *s)
{
    const struct profile *p = &s->profile;
    return p->rules || p->limits || p->hosts || p->poison || p->connections;
}

/* ---- what users do ---- */

static void pause_or_resume(struct sim *s, struct queue_rules *r)
{
    if (r->paused) {
        r->paused = false;
        r->resumed_ms = wall_ms(s);
        return;
    }
    r->paused = true;
    r->paused_ms = wall_ms(s);
    r->paused_by = S("somebody");
    r->paused_until_ms = chance(s, 50) ? wall_ms(s) + between(s, 100, 20 * SECOND_MS) : 0;
}

static void queue_changes(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    int tenant = (int)between(s, 0, s->profile.tenants - 1), number = (int)between(s, 0, QUEUES - 1);
    struct queue_rules *r = &s->gates.tenants[tenant].queues[number].rules;
    if (chance(s, 40)) {
        pause_or_resume(s, r);
    } else {
        r->rate = chance(s, 50) ? (double)between(s, 1, 40) / 2 : 0;
        r->burst = r->rate > 0 ? between(s, 1, 6) : 0;
        r->concurrent = chance(s, 50) ? between(s, 1, 4) : 0;
        r->weight = between(s, 1, 1000);
    }
    put_queue(s, tenant, number);
}

static void tenant_changes(struct sim *s, void *context)
{
    (void)context;
    if (s->healed)
        return;
    int number = (int)between(s, 0, s->profile.tenants - 1);
    struct tenant_rules *r = &s->gates.tenants[number].rules;
    r->disabled = chance(s, 20);
    r->max_running = chance(s, 50) ? between(s, 1, 6) : 0;
    put_tenant(s, number);
}

static void host_changes(struct sim *s, void *context)
{
    (void)context;
    int host = (int)between(s, 0, s->profile.isolation ? HOSTS - 2 : COMMON_HOSTS - 1); /* the last one never fails */
    s->gates.failing[host] = !s->healed && !s->gates.failing[host];
    trace(s, "host %d is %s", host, s->gates.failing[host] ? "failing" : "well");
}

/* ---- poison ---- */

struct doom {
    struct sim_node *node;
    uint64_t life;
};

static void die(struct sim *s, void *context)
{
    struct doom d = *(struct doom *)context;
    free(context);
    if (!d.node->node || d.node->life != d.life)
        return;
    trace(s, "a poison task strikes");
    s->stats->poisoned++;
    sim_crash(d.node);
    sim_come_back_soon(d.node);
}

bool gates_strike(struct sim_node *n, const struct task *t)
{
    struct sim *s = n->sim;
    if (!s->profile.poison || !uuid_eq(t->id, s->gates.poison))
        return false;
    struct doom *d = xnew(*d);
    *d = (struct doom){ n, n->life };
    after_us(s, between(s, 0, 2000), die, d);
    return true;
}

static struct task plain_task(struct sim *s, bool poison)
{
    int64_t now_ms = wall_ms(s);
    return (struct task){ .id = uuid_next(&s->ids, now_ms),
                          .tenant = 1,
                          .state = TASK_SCHEDULED,
                          .due_ms = now_ms,
                          .scheduled_ms = now_ms,
                          .version = 1,
                          .priority = poison ? (int)between(s, PRIORITY_MIN, PRIORITY_MAX) : PRIORITY_DEFAULT,
                          .queue = gates_queue_name(0),
                          .name = poison ? S("poison") : S("innocent"),
                          .timeout_ms = 5000,
                          .retry = { .max_attempts = 3, .base_delay_ms = 100, .max_delay_ms = 1000 },
                          .target = TARGET_NOOP,
                          .schedule.end_ms = INT64_MAX,
                          .created_ms = now_ms };
}

/* Among many tasks that run at the same time. They exist from the start: no user has to ask for them. */
static void poison_comes(struct sim *s, void *context)
{
    (void)context;
    struct task tasks[POISON_TASKS];
    struct error e;
    for (int i = 0; i < POISON_TASKS; i++) {
        tasks[i] = plain_task(s, i == 0);
        oracle_acked(s, oracle_add(s, &tasks[i]));
    }
    s->gates.poison = tasks[0].id;
    struct op_insert insert = { .op = { .kind = OP_INSERT }, .tasks = tasks, .count = POISON_TASKS };
    struct op *op = &insert.op;
    arena_init(&op->arena, 4096);
    if (store_apply(s->store, &op, 1, &e) || op->rc)
        abort();
    arena_release(&op->arena);
    struct sim_node *n = some_node(s);
    if (!n)
        return;
    node_nudge(n->node, tasks, POISON_TASKS);
    n->poked = true;
}

/* ---- the plan ---- */

void gates_plan(struct sim *s)
{
    const struct profile *p = &s->profile;
    int changes = (int)between(s, 1, CHANGES_MAX);
    for (int i = 0; i < changes; i++) {
        if (p->rules)
            after_us(s, between(s, 0, p->length_us), queue_changes, NULL);
        if (p->limits)
            after_us(s, between(s, 0, p->length_us), tenant_changes, NULL);
        if (p->hosts)
            after_us(s, between(s, 0, p->length_us), host_changes, NULL);
    }
    if (p->poison)
        after_us(s, between(s, 0, p->length_us / 2), poison_comes, NULL);
}

void gates_heal(struct sim *s)
{
    memset(s->gates.failing, 0, sizeof s->gates.failing);
    for (int i = 0; i < s->profile.tenants; i++) {
        struct sim_tenant *t = &s->gates.tenants[i];
        t->rules.disabled = false;
        t->rules.max_running = 0;
        if (s->profile.limits)
            put_tenant(s, i);
        for (int k = 0; k < QUEUES && s->profile.rules; k++) {
            t->queues[k].rules = QUEUE_RULES_DEFAULT;
            put_queue(s, i, k);
        }
    }
}
