/* The planner of each node, and what is known of runs. A plan is made of what the store has at one moment, and the node
 * gets it later: meanwhile others may have changed what it was made of. */
#include "flows.h"

#include <stdlib.h>

#include "sim.h"

enum { MEMORY_BYTES = 256 << 20, CACHE_BYTES = 64 << 10 };

/* ---- plans ---- */

struct sim_plan {
    struct list link; /* in sim_node.plans */
    struct plan *plan;
    struct sim_node *node;
    struct timer *timer;
    bool made;
};

static void plan_answer(struct sim_plan *x)
{
    struct plan *plan = x->plan;
    list_remove(&x->link);
    x->node->poked = true;
    free(x);
    plan->done(plan);
}

static void plan_make(struct sim *s, struct plan *plan)
{
    struct planner_context c = { .reader = s->flows.reader, .definitions = s->flows.cache };
    if (faulty(s, s->profile.fail_percent, FAULT_PLAN))
        plan->rc = error_set(&plan->error, ERR_UNAVAILABLE, "the store is not there to be read");
    else
        workflow_plan(&c, plan);
}

static void plan_goes_on(struct sim *s, void *context)
{
    static const char *const kinds[] = { "call", "end", "open", "await", "stop" };
    struct sim_plan *x = context;
    bool done = x->made && !is_stopped(x->node);
    x->timer = NULL;
    if (!x->made) {
        plan_make(s, x->plan);
        trace(s, "node %d: plan of %s: %s", x->node->number, short_id(x->plan->task->id),
              x->plan->rc ? x->plan->error.text : kinds[x->plan->kind]);
    }
    x->made = true;
    if (done)
        plan_answer(x);
    else
        x->timer = after_us(s, max_of(between(s, 10, s->profile.latency_us), x->node->stopped_until_us - s->steady_us),
                            plan_goes_on, x);
}

static void plan_submit(struct planner *p, struct plan *plan)
{
    struct sim_node *n = container_of(p, struct sim_node, planner);
    struct sim *s = n->sim;
    struct sim_plan *x = xnew(*x);
    *x = (struct sim_plan){ .plan = plan, .node = n };
    list_push(&n->plans, &x->link);
    if (s->ghost != n)
        x->timer = after_us(s, between(s, 10, s->profile.latency_us), plan_goes_on, x);
}

void flows_planner_init(struct sim_node *n)
{
    static const struct planner_ops ops = { plan_submit };
    n->planner.ops = &ops;
    list_init(&n->plans);
}

struct planner *flows_planner(struct sim_node *n)
{
    return n->sim->profile.flows ? &n->planner : NULL;
}

void flows_planner_crash(struct sim_node *n)
{
    list_each (&n->plans, link) {
        struct sim_plan *x = container_of(link, struct sim_plan, link);
        timer_cancel(n->sim, x->timer);
        x->timer = NULL;
    }
}

void flows_planner_answer_ghosts(struct sim_node *n)
{
    while (!list_empty(&n->plans)) {
        struct sim_plan *x = container_of(n->plans.next, struct sim_plan, link);
        x->plan->rc = error_set(&x->plan->error, ERR_UNAVAILABLE, "the node is dead");
        plan_answer(x);
    }
}

/* ---- what is known ---- */

static struct str key_of(const struct uuid *id)
{
    return (struct str){ (const char *)id->b, sizeof id->b };
}

struct flow_task *flows_task(struct sim *s, struct uuid id)
{
    return s->profile.flows ? map_get(&s->flows.by_id, key_of(&id)) : NULL;
}

struct flow_task *flow_task_at(const struct flow *f, int64_t place)
{
    for (size_t i = 0; i < f->task_count; i++)
        if (f->tasks[i].place == place)
            return &f->tasks[i];
    return NULL;
}

struct str flows_keep(struct sim *s, const struct buf *text)
{
    struct str kept;
    if (text->full || !arena_str(&s->flows.memory, buf_str(text), &kept))
        abort();
    return kept;
}

const struct flow_definition *flows_definition(struct sim *s, int32_t tenant, const uint8_t hash[DEFINITION_HASH])
{
    list_each (&s->flows.definitions, link) {
        const struct flow_definition *d = container_of(link, struct flow_definition, link);
        if (d->tenant == tenant && memcmp(d->row.hash, hash, DEFINITION_HASH) == 0)
            return d;
    }
    return NULL;
}

static void flow_add_task(struct sim *s, struct flow *f, int64_t place)
{
    struct flow_task *t = &f->tasks[f->task_count++];
    *t = (struct flow_task){ .id = place_id(f->id, place), .flow = f, .place = place, .output = FLOW_NO_VALUE };
    map_put(&s->flows.by_id, key_of(&t->id), t);
}

/* A step, its items if it has some, and their compensations. */
static void flow_add_step(struct sim *s, struct flow *f, uint32_t step)
{
    const struct dag_step *of = &f->definition->dag->steps[step];
    int64_t items = of->map.is_set ? f->items : 0;
    flow_add_task(s, f, place_of_step(step));
    flow_add_task(s, f, place_of_undo(step, -1));
    for (int64_t i = 0; i < items; i++) {
        flow_add_task(s, f, place_of_item(step, i));
        flow_add_task(s, f, place_of_undo(step, i));
    }
}

static struct flow *flow_make(struct sim *s, const struct flow_definition *d, struct uuid id, struct flow_task *own,
                              int64_t items)
{
    struct flow *f = arena_new(&s->flows.memory, struct flow);
    size_t most = (size_t)d->dag->n * 2 * (FLOW_ITEMS_MAX + 1) + 1;
    *f = (struct flow){ .id = id, .tenant = d->tenant, .definition = d, .quiet_us = INT64_MAX, .max_attempts = 1 };
    f->items = items;
    f->tasks = arena_array(&s->flows.memory, struct flow_task, most);
    f->own = own ? own : arena_new(&s->flows.memory, struct flow_task);
    if (!own) {
        *f->own = (struct flow_task){ .id = id, .place = PLACE_RUN, .output = FLOW_NO_VALUE };
        map_put(&s->flows.by_id, key_of(&f->own->id), f->own);
    } else {
        f->input = own->flow->input;
    }
    f->own->run = f;
    for (uint32_t i = 0; i < d->dag->n; i++)
        flow_add_step(s, f, i);
    flow_add_task(s, f, place_of_deadline());
    list_push(&s->flows.runs, &f->link);
    return f;
}

/* A run within another has the items of its input. */
struct flow *flow_new(struct sim *s, const struct flow_definition *d, struct uuid id, struct flow_task *own)
{
    return flow_make(s, d, id, own, own ? own->flow->items : between(s, 0, FLOW_ITEMS_MAX));
}

struct flow *flow_new_rerun(struct sim *s, struct flow *old, uint32_t from, struct uuid id)
{
    struct flow *f = flow_make(s, old->definition, id, NULL, old->items);
    f->input = old->input;
    f->deadline_ms = old->deadline_ms;
    f->max_attempts = old->max_attempts;
    f->rerun_of = old;
    f->rerun_from = from;
    old->was_rerun = true;
    return f;
}

/* ---- the model ---- */

void flow_outcomes(const struct flow *f, enum flow_outcome *ret)
{
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        ret[i] = flow_task_at(f, place_of_step(i))->outcome;
}

/* Steps that a user has started do not wait for their parents. */
static void flow_force(const struct flow *f, enum flow_outcome *given)
{
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        if (given[i] == FLOW_OPEN && flow_task_at(f, place_of_step(i))->by_hand)
            given[i] = FLOW_FORCED;
}

void flow_model(const struct flow *f, struct arena *a, struct flow_state *ret)
{
    enum flow_outcome given[FLOW_STEPS_MAX];
    struct error e;
    flow_outcomes(f, given);
    flow_force(f, given);
    if (flow_state(f->definition->dag, given, a, ret, &e))
        abort();
}

/* ---- the world ---- */

void flows_init(struct sim *s)
{
    struct error e;
    if (!s->profile.flows)
        return;
    arena_init(&s->flows.memory, MEMORY_BYTES);
    list_init(&s->flows.definitions);
    list_init(&s->flows.runs);
    list_init(&s->flows.requests);
    map_init(&s->flows.by_id, HASH_STABLE);
    s->flows.cache = definition_cache_new(CACHE_BYTES, NULL);
    if (store_reader(s->store, &s->flows.reader, &e))
        abort();
}

void flows_release(struct sim *s)
{
    if (!s->profile.flows)
        return;
    list_each (&s->flows.definitions, link)
        dag_free(container_of(link, struct flow_definition, link)->dag);
    map_release(&s->flows.by_id);
    definition_cache_free(s->flows.cache);
    reader_free(s->flows.reader);
    arena_release(&s->flows.memory);
}
