/* Tasks that depend on others. Users ask for them, and the oracle remembers what they asked for: a task starts only if
 * its parents have ended as it asks, and at the end none waits although its parents have. */
#include "request.h"

enum { LOOKS = 20, CHILD_PERCENT = 60, ARENA_BYTES = 1 << 20 };

/* One of the acknowledged one-time tasks of the tenant; NULL: a few looks find none. */
static const struct subject *some_parent(struct sim *s, int32_t tenant)
{
    for (int i = 0; i < LOOKS && s->oracle->n; i++) {
        const struct subject *x = s->oracle->v[between(s, 0, (int64_t)s->oracle->n - 1)];
        if (x->kind == TASK_ONE_TIME && x->tenant == tenant && x->acked)
            return x;
    }
    return NULL;
}

static bool has_parent(const struct subject *x, struct uuid parent)
{
    for (size_t i = 0; i < x->parent_count; i++)
        if (uuid_eq(x->parents[i].parent, parent))
            return true;
    return false;
}

void joins_make(struct request *r)
{
    struct sim *s = r->sim;
    if (!s->profile.joins || r->count != 1 || !chance(s, CHILD_PERCENT))
        return;
    struct subject *x = oracle_find(s, r->tasks[0].id);
    size_t wanted = (size_t)between(s, 1, SUBJECT_PARENTS);
    x->join = (enum dag_join)between(s, DAG_ALL, DAG_SOME);
    for (size_t i = 0; i < wanted; i++) {
        const struct subject *p = some_parent(s, x->tenant);
        enum dag_type type = chance(s, 40) ? DAG_MUST_FINISH : (enum dag_type)between(s, 0, DAG_MUST_FAIL);
        if (p && !has_parent(x, p->id))
            x->parents[x->parent_count++] = (struct dependency){ p->id, type };
    }
    r->depends = (struct depends_on){ .join = x->join, .v = x->parents, .n = x->parent_count };
    r->has_key = r->has_key && !x->parent_count; /* a second try has the same id */
    s->stats->children += x->parent_count > 0;
}

static const struct linked_task *edge_from(const struct task_links *l, struct uuid parent)
{
    for (size_t i = 0; i < l->parent_count; i++)
        if (uuid_eq(l->parents[i].id, parent))
            return &l->parents[i];
    return NULL;
}

/* How an edge has arrived, by the parent itself: what it is, or was before a user retried it. */
static bool is_sound(struct sim *s, const struct linked_task *edge, bool at_end)
{
    const struct subject *p = oracle_find(s, edge->id);
    bool ended = !edge->exists || task_is_final(edge->state);
    if (edge->edge == EDGE_OPEN)
        return !(at_end && ended && edge->exists);
    return ended || (p && p->redrives);
}

/* What the edges of a task decide; *ret_sound: each has arrived if and only if its parent has ended. */
static enum flow_decision decided(struct sim *s, const struct subject *x, bool at_end, bool *ret_sound)
{
    cleanup_with(arena_release) struct arena a;
    struct task_links l = { 0 };
    struct flow_counts c = { 0 };
    struct error e;
    arena_init(&a, ARENA_BYTES);
    *ret_sound = reader_links(s->reader, x->tenant, x->id, &a, &l, &e) == ERR_OK;
    for (size_t i = 0; *ret_sound && i < x->parent_count; i++) {
        const struct linked_task *edge = edge_from(&l, x->parents[i].parent);
        *ret_sound = edge && edge->type == x->parents[i].type && is_sound(s, edge, at_end);
        c.arrived += edge && edge->edge != EDGE_OPEN;
        c.met += edge && edge->edge == EDGE_MET;
        c.broken += edge && edge->edge == EDGE_BROKEN;
    }
    return flow_decide(x->join, (uint32_t)x->parent_count, c);
}

void joins_judge_start(struct sim *s, const struct subject *x)
{
    bool sound;
    if (!x->parent_count)
        return;
    enum flow_decision d = decided(s, x, false, &sound);
    if (d != FLOW_START || !sound)
        breach(s, BREACH_JOIN, "%s starts, and its %zu parents %s", short_id(x->id), x->parent_count,
               sound ? "do not allow it" : "are not told of as they are");
}

bool joins_explain(const struct subject *x, const struct task *t)
{
    return x->parent_count && (t->state == TASK_SKIPPED || (t->state == TASK_BLOCKED && t->links & TASK_WAITS));
}

void joins_check(struct sim *s, const struct subject *x, const struct task *t)
{
    bool sound;
    if (!x->parent_count)
        return;
    enum flow_decision d = decided(s, x, true, &sound);
    if (!sound)
        breach(s, BREACH_ARRIVAL, "%s is %s, and was not told of a parent as it is", short_id(x->id),
               task_state_name(t->state));
    else if (t->links & TASK_WAITS && d != FLOW_WAIT)
        breach(s, BREACH_ARRIVAL, "%s waits, and its %zu parents decide", short_id(x->id), x->parent_count);
    else if (t->state == TASK_SKIPPED && d != FLOW_SKIP && d != FLOW_SKIP_BROKEN)
        breach(s, BREACH_ARRIVAL, "%s is skipped, and its %zu parents do not say so", short_id(x->id), x->parent_count);
}
