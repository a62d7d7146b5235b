/* What must hold when a call starts, judged by the calls that are under way: the receiver's view. Calls that a crash
 * left behind do not count: nobody waits for them any more. */
#include "sim.h"

enum { SHARE_PERCENT = 80, UNDERWAY_US = 20000000 };
#define ARMED_S  1.1
#define PARKED_S 0.25

struct crowd {
    size_t here, tenant_here, suspects; /* on the same node */
    size_t tenant, queue, key, parent;
    int key_limit; /* the highest limit that one of them has: a task with a lower one may have come first */
};

/* The task as its user asked for it; of an occurrence, its recurring task. */
static const struct subject *user_settings_of(struct sim *s, const struct task *t)
{
    const struct subject *x = oracle_find(s, t->kind == TASK_OCCURRENCE ? t->parent : t->id);
    return x ? x : oracle_find(s, t->id);
}

/* A call of a stopped node is orphaned once the node is marked dead, which gives its places to others. Slots become
 * free when it is settled as lost. */
static bool is_orphan(const struct known_call *c)
{
    return c && c->at_crash;
}

static void count_others(struct sim_node *n, bool here, const struct task *t, struct crowd *ret)
{
    struct sim *s = n->sim;
    struct crowd c = *ret;
    list_each (&n->runner.calls, link) {
        const struct task *o = container_of(link, struct call, link)->run->task;
        const struct known_call *call = oracle_call(s, o->id, o->fence);
        if (uuid_eq(o->id, t->id) || (is_orphan(call) && call->settled))
            continue;
        bool same_tenant = o->tenant == t->tenant, places = same_tenant && !is_orphan(call);
        c.here += here;
        c.tenant_here += here && same_tenant;
        c.tenant += places;
        c.queue += places && str_eq(o->queue, t->queue);
        bool same_key = same_tenant && t->concurrency_limit && str_eq(o->concurrency_key, t->concurrency_key);
        c.key += same_key;
        c.key_limit = same_key ? max_of(c.key_limit, user_settings_of(s, o)->key_limit) : c.key_limit;
        c.parent += t->kind == TASK_OCCURRENCE && t->overlap != OVERLAP_ALLOW && o->overlap != OVERLAP_ALLOW &&
                    uuid_eq(o->parent, t->parent);
        c.suspects += here && task_is_suspect(o);
    }
    *ret = c;
}

static struct crowd others(struct sim_node *n, const struct task *t)
{
    struct crowd c = { 0 };
    for (int i = 0; i < n->sim->profile.nodes; i++)
        count_others(&n->sim->nodes[i], &n->sim->nodes[i] == n, t, &c);
    return c;
}

/* With queues that fail, tasks that fired under the old rules may be under way for a while. So may tasks that several
 * nodes had claimed before the limit was shared. */
static bool is_recent(const struct sim *s, int64_t changed_us)
{
    return (s->profile.ports_percent || is_cluster(s)) && s->steady_us - changed_us < UNDERWAY_US;
}

static void judge_queue(struct sim *s, const struct task *t, const struct crowd *c)
{
    const struct sim_queue *q = gates_queue(s, t);
    if (is_recent(s, q->changed_us))
        return;
    if (q->rules.concurrent && c->queue >= (size_t)q->rules.concurrent)
        breach(s, BREACH_LIMIT, "%s is number %zu of its queue, %lld allowed", short_id(t->id), c->queue + 1,
               (long long)q->rules.concurrent);
    if (queue_is_paused(&q->rules, wall_ms(s)))
        breach(s, BREACH_LIMIT, "%s started though its queue is paused", short_id(t->id));
}

static void judge_tenant(struct sim *s, const struct task *t, const struct crowd *c)
{
    const struct sim_tenant *x = gates_tenant(s, t);
    size_t share = max_of(s->profile.slots * SHARE_PERCENT / 100, (size_t)1);
    if (s->profile.tenants > 1 && c->tenant_here >= share)
        breach(s, BREACH_LIMIT, "%s is number %zu of its tenant, of %zu slots", short_id(t->id), c->tenant_here + 1,
               s->profile.slots);
    if (is_recent(s, x->changed_us))
        return;
    if (x->rules.max_running && c->tenant >= (size_t)x->rules.max_running)
        breach(s, BREACH_LIMIT, "%s is number %zu of its tenant, %lld allowed", short_id(t->id), c->tenant + 1,
               (long long)x->rules.max_running);
    if (x->rules.disabled)
        breach(s, BREACH_LIMIT, "%s started though its tenant is disabled", short_id(t->id));
}

/* A token bucket of the oracle's own. If queues fail, tasks that were dispatched in time may start in a bunch. */
static void judge_rate(struct sim *s, const struct task *t)
{
    struct sim_queue *q = gates_queue(s, t);
    if (q->rules.rate <= 0 || s->profile.ports_percent)
        return;
    /* A clock that is set forward fills the bucket, one that is set back takes nothing. */
    double gone = (double)max_of(wall_us(s) - q->level_wall_us, s->steady_us - q->level_us) / 1e6;
    q->level = min_of(q->level + gone * q->rules.rate, (double)q->rules.burst) - 1;
    q->level_wall_us = wall_us(s);
    q->level_us = s->steady_us;
    double slack = q->rules.rate / 500 + 0.01; /* the node's clock has milliseconds */
    if (is_cluster(s)) /* a token is taken with the claim, which is up to so much earlier; clocks differ a little */
        slack += q->rules.rate * ARMED_S;
    if (s->profile.hosts || s->profile.connections) /* a token is taken before the task waits for its host */
        slack += q->rules.rate * PARKED_S;
    if (q->level < -slack)
        breach(s, BREACH_RATE, "%s is %.3f beyond its queue's %.1f a second, %lld at once", short_id(t->id), -q->level,
               q->rules.rate, (long long)q->rules.burst);
}

static void judge_host(struct sim *s, const struct task *t)
{
    int host = gates_host(t);
    if (host < 0 || is_cluster(s) || is_fleet(s)) /* each process knows only what it was told itself */
        return;
    int64_t until_ms = gates_tenant(s, t)->left_alone_ms[host];
    if (!s->jumped && wall_ms(s) < until_ms - 1)
        breach(s, BREACH_HELD, "%s calls host %d, which is to be left alone for %lld ms more", short_id(t->id), host,
               (long long)(until_ms - wall_ms(s)));
}

/* Whether this call takes the last slot that its tenant gets; then others wait until it or another one ends. */
static void note_crowd(struct sim *s, const struct crowd *c)
{
    size_t share = max_of(s->profile.slots * SHARE_PERCENT / 100, (size_t)1);
    if (c->here + 1 >= s->profile.slots || (s->profile.tenants > 1 && c->tenant_here + 1 >= share))
        s->crowded = true;
}

void limits_judge_start(struct sim_node *n, const struct task *t)
{
    struct sim *s = n->sim;
    struct crowd c = others(n, t);
    const struct subject *recall_request = user_settings_of(s, t);
    int64_t expires_ms =
        recall_request->expires_after_ms ? t->scheduled_ms + recall_request->expires_after_ms : INT64_MAX;
    note_crowd(s, &c);
    if (c.here >= s->profile.slots)
        breach(s, BREACH_LIMIT, "%zu calls under way, %zu slots", c.here + 1, s->profile.slots);
    if (recall_request->key_limit && c.key >= (size_t)max_of(recall_request->key_limit, c.key_limit))
        breach(s, BREACH_LIMIT, "%s is number %zu of its key, %d allowed", short_id(t->id), c.key + 1,
               recall_request->key_limit);
    if (c.parent)
        breach(s, BREACH_LIMIT, "%s overlaps another run of its task", short_id(t->id));
    if (task_is_suspect(t) && c.suspects)
        breach(s, BREACH_LIMIT, "two suspects run at once, %s is one", short_id(t->id));
    if (wall_ms(s) - nodes_behind_ms(s) >= expires_ms)
        breach(s, BREACH_EXPIRED, "%s started at %lld, of use until %lld", short_id(t->id), (long long)wall_ms(s),
               (long long)expires_ms);
    judge_queue(s, t, &c);
    judge_tenant(s, t, &c);
    judge_rate(s, t);
    judge_host(s, t);
}

void limits_ended(struct sim *s, const struct task *t, const struct outcome *o)
{
    int host = gates_host(t);
    if (s->crowded)
        s->crowded_ms = wall_ms(s);
    s->crowded = false;
    if (host < 0 || o->kind != OUTCOME_FAILED || o->retry_after_ms <= 0)
        return;
    int64_t *until_ms = &gates_tenant(s, t)->left_alone_ms[host];
    *until_ms = max_of(*until_ms, wall_ms(s) + o->retry_after_ms);
}

/* ---- when everything has drained ---- */

static struct slot_holders holders_of(struct sim *s, struct str key, struct arena *a)
{
    struct slot_holders h = { 0 };
    struct error e;
    if (reader_slots(s->reader, key, a, &h, &e))
        breach(s, BREACH_SLOT, "slots of " STR_FMT ": %s", STR_ARG(key), e.text);
    return h;
}

bool limits_is_in_line(struct sim *s, const struct task *t)
{
    cleanup_with(arena_release) struct arena a;
    struct slot_need needs[SLOTS_MAX];
    arena_init(&a, 1 << 20);
    if (t->state == TASK_BLOCKED)
        return holders_of(s, t->waits_for, &a).n > 0;
    for (size_t i = slot_needs(t, needs); i-- > 0;) {
        struct slot_holders h = holders_of(s, needs[i].key, &a);
        for (size_t k = 0; k < h.n; k++)
            if (uuid_eq(h.v[k].task, t->id))
                return true;
    }
    return false;
}

void limits_check(struct sim *s, const struct task *t)
{
    cleanup_with(arena_release) struct arena a;
    struct slot_need needs[SLOTS_MAX];
    arena_init(&a, 1 << 20);
    for (size_t i = slot_needs(t, needs); i-- > 0;) {
        struct slot_holders h = holders_of(s, needs[i].key, &a);
        for (size_t k = 0; k < h.n; k++) {
            bool waits = needs[i].kind == SLOT_KEY && h.v[k].state == TASK_BLOCKED;
            if (task_is_final(h.v[k].state) || waits)
                breach(s, BREACH_SLOT, "%s is %s and holds a slot", short_id(h.v[k].task),
                       task_state_name(h.v[k].state));
        }
    }
    if (t->state == TASK_BLOCKED && !(t->links & (TASK_WAITS | TASK_AWAITS)) && !limits_is_in_line(s, t))
        breach(s, BREACH_SLOT, "%s waits for " STR_FMT ", which nobody holds", short_id(t->id), STR_ARG(t->waits_for));
}
