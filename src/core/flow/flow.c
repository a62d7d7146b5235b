#include "core/flow/flow.h"

#include <assert.h>

/* ---- edges and joins ---- */

static bool flow_is_broken_by(enum flow_outcome o)
{
    return o == FLOW_FAILED || o == FLOW_EXPIRED || o == FLOW_CANCELLED || o == FLOW_BROKEN;
}

struct flow_counts flow_arrival(enum dag_type type, enum flow_outcome parent)
{
    assert(parent != FLOW_OPEN && parent != FLOW_FORCED);
    bool met = false, broken = false;
    switch (type) {
    case DAG_MUST_SUCCEED:
        met = parent == FLOW_COMPLETED;
        broken = flow_is_broken_by(parent);
        break;
    case DAG_MUST_NOT_FAIL:
        met = parent == FLOW_COMPLETED || parent == FLOW_SKIPPED;
        broken = flow_is_broken_by(parent);
        break;
    case DAG_MUST_FINISH: met = true; break;
    case DAG_MUST_FAIL: met = parent == FLOW_FAILED || parent == FLOW_EXPIRED; break;
    }
    return (struct flow_counts){ 1, met, broken };
}

static void flow_add_counts(struct flow_counts *to, struct flow_counts more)
{
    to->arrived += more.arrived;
    to->met += more.met;
    to->broken += more.broken;
}

bool flow_counts_are_sound(uint32_t expected, struct flow_counts c)
{
    return c.arrived <= expected && c.met <= c.arrived && c.broken <= c.arrived - c.met;
}

enum flow_decision flow_decide(enum dag_join join, uint32_t expected, struct flow_counts c)
{
    bool all = c.arrived >= expected;
    enum flow_decision skip = c.broken ? FLOW_SKIP_BROKEN : FLOW_SKIP;
    if (expected == 0)
        return FLOW_START;
    switch (join) {
    case DAG_ALL: return c.met >= expected ? FLOW_START : c.broken || all ? skip : FLOW_WAIT;
    case DAG_ANY: return c.met ? FLOW_START : all ? skip : FLOW_WAIT;
    case DAG_SOME: break;
    }
    return !all ? FLOW_WAIT : c.met ? FLOW_START : skip;
}

enum flow_outcome flow_outcome_of(enum task_state state, enum dag_join join, uint32_t expected, struct flow_counts c,
                                  bool by_hand)
{
    switch (state) {
    case TASK_COMPLETED: return FLOW_COMPLETED;
    case TASK_FAILED: return FLOW_FAILED;
    case TASK_EXPIRED: return FLOW_EXPIRED;
    case TASK_CANCELLED: return FLOW_CANCELLED;
    case TASK_SKIPPED:
        return !by_hand && flow_decide(join, expected, c) == FLOW_SKIP_BROKEN ? FLOW_BROKEN : FLOW_SKIPPED;
    case TASK_SCHEDULED:
    case TASK_BLOCKED:
    case TASK_PAUSED:
    case TASK_RUNNING: break;
    }
    return FLOW_OPEN;
}

enum task_state flow_task_state(enum flow_outcome o)
{
    static const enum task_state states[] = {
        [FLOW_COMPLETED] = TASK_COMPLETED, [FLOW_FAILED] = TASK_FAILED,   [FLOW_EXPIRED] = TASK_EXPIRED,
        [FLOW_CANCELLED] = TASK_CANCELLED, [FLOW_SKIPPED] = TASK_SKIPPED, [FLOW_BROKEN] = TASK_SKIPPED,
    };
    assert(o != FLOW_OPEN && (size_t)o < array_count(states)); /* FLOW_FORCED is behind the end */
    return states[o];
}

static enum flow_outcome flow_outcome_of_decision(enum flow_decision d)
{
    return d == FLOW_SKIP ? FLOW_SKIPPED : d == FLOW_SKIP_BROKEN ? FLOW_BROKEN : FLOW_OPEN;
}

/* ---- the effects of a step's end ---- */

void flow_effects_init(struct flow_effects *f, const struct dag *d, bool all_have_rows, struct arena *a)
{
    *f = (struct flow_effects){ .d = d, .a = a, .all_have_rows = all_have_rows };
}

/* The index has at least twice as many slots as there are effects. A slot holds 1 + the place in v. */
static uint32_t *flow_slot(const struct flow_effects *f, uint32_t step)
{
    size_t at = (step * 2654435769U) & (f->slot_count - 1);
    while (f->slots[at] && f->v[f->slots[at] - 1].step != step)
        at = (at + 1) & (f->slot_count - 1);
    return &f->slots[at];
}

static bool flow_grow_effects(struct flow_effects *f)
{
    enum { FIRST = 8 };
    size_t cap = f->cap ? 2 * f->cap : FIRST;
    struct flow_effect *v = arena_array(f->a, struct flow_effect, cap);
    uint32_t *slots = arena_array(f->a, uint32_t, 2 * cap);
    if (!v || !slots)
        return false;
    if (f->n)
        memcpy(v, f->v, f->n * sizeof *v);
    f->v = v;
    f->cap = cap;
    f->slots = slots;
    f->slot_count = 2 * cap;
    for (size_t i = 0; i < f->n; i++)
        *flow_slot(f, v[i].step) = (uint32_t)i + 1;
    return true;
}

static bool flow_add_effect(struct flow_effects *f, struct flow_effect effect)
{
    if (f->n == f->cap && !flow_grow_effects(f))
        return false;
    uint32_t *slot = flow_slot(f, effect.step);
    if (*slot) {
        flow_add_counts(&f->v[*slot - 1].counts, effect.counts);
        return true;
    }
    f->v[f->n++] = effect;
    *slot = (uint32_t)f->n;
    return true;
}

/* Steps that are skipped without a row, whose own children are still to be reached. */
struct flow_skips {
    struct flow_skip {
        uint32_t step;
        enum flow_outcome outcome;
    } * v;
    size_t n, cap;
};

static bool flow_push_skip(struct flow_effects *f, struct flow_skips *s, uint32_t step, enum flow_outcome outcome)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 8;
        struct flow_skip *v = arena_array(f->a, struct flow_skip, cap);
        if (!v)
            return false;
        if (s->n)
            memcpy(v, s->v, s->n * sizeof *v);
        s->v = v;
        s->cap = cap;
    }
    s->v[s->n++] = (struct flow_skip){ step, outcome };
    return true;
}

static bool flow_reach_child(struct flow_effects *f, struct flow_skips *skips, uint32_t child,
                             struct flow_counts counts)
{
    const struct dag_step *c = &f->d->steps[child];
    if (c->has_row || f->all_have_rows)
        return flow_add_effect(f, (struct flow_effect){ child, counts, FLOW_WAIT });
    enum flow_decision decision = flow_decide(c->join, c->in.n, counts);
    assert(decision != FLOW_WAIT); /* it has one parent, whose edges have all arrived */
    if (decision == FLOW_START)
        return flow_add_effect(f, (struct flow_effect){ child, counts, FLOW_START });
    f->skipped++;
    return flow_push_skip(f, skips, child, flow_outcome_of_decision(decision));
}

/* Edges to one child are neighbours. */
static bool flow_reach_children(struct flow_effects *f, struct flow_skips *skips, const struct dag_step *s,
                                enum flow_outcome outcome)
{
    f->ends += s->ends_run;
    for (uint32_t k = 0; k < s->out.n;) {
        uint32_t child = s->out.v[k].step;
        struct flow_counts counts = { 0 };
        for (; k < s->out.n && s->out.v[k].step == child; k++)
            flow_add_counts(&counts, flow_arrival(s->out.v[k].type, outcome));
        if (!flow_reach_child(f, skips, child, counts))
            return false;
    }
    return true;
}

enum err flow_walk(struct flow_effects *f, uint32_t step, enum flow_outcome outcome, struct error *e)
{
    assert(step < f->d->n && outcome != FLOW_OPEN);
    struct flow_skips skips = { 0 };
    if (!flow_reach_children(f, &skips, &f->d->steps[step], outcome))
        return error_no_room(e);
    while (skips.n) {
        struct flow_skip s = skips.v[--skips.n];
        if (!flow_reach_children(f, &skips, &f->d->steps[s.step], s.outcome))
            return error_no_room(e);
    }
    return ERR_OK;
}

/* ---- a run as a whole ---- */

static struct flow_counts flow_counts_of(const struct dag_step *s, const struct flow_step_state *v)
{
    struct flow_counts counts = { 0 };
    for (uint32_t k = 0; k < s->in.n; k++) {
        enum flow_outcome parent = v[s->in.v[k].step].outcome;
        if (parent != FLOW_OPEN)
            flow_add_counts(&counts, flow_arrival(s->in.v[k].type, parent));
    }
    return counts;
}

static bool flow_has_unawaited_parent(const struct dag *d, const struct dag_step *s, const struct flow_step_state *v)
{
    for (uint32_t k = 0; k < s->in.n; k++) {
        uint32_t parent = s->in.v[k].step;
        if (v[parent].outcome == FLOW_OPEN && !d->steps[parent].ends_run)
            return true;
    }
    return false;
}

static void flow_derive_step(const struct dag *d, uint32_t step, const enum flow_outcome *given, struct flow_state *s)
{
    const struct dag_step *of = &d->steps[step];
    struct flow_step_state *v = &s->v[step];
    v->counts = flow_counts_of(of, s->v);
    if (given && given[step] != FLOW_OPEN) {
        bool forced = given[step] == FLOW_FORCED;
        v->outcome = forced ? FLOW_OPEN : given[step];
        v->decision = forced ? FLOW_START : FLOW_WAIT;
        v->late_end = flow_has_unawaited_parent(d, of, s->v);
    } else {
        v->decision = flow_decide(of->join, of->in.n, v->counts);
        v->outcome = flow_outcome_of_decision(v->decision);
    }
    s->open += v->outcome == FLOW_OPEN;
    s->expected += v->late_end + (v->outcome == FLOW_OPEN && of->ends_run);
}

enum err flow_state(const struct dag *d, const enum flow_outcome *given, struct arena *a, struct flow_state *ret,
                    struct error *e)
{
    struct flow_state s = { .v = arena_array(a, struct flow_step_state, d->n) };
    if (!s.v)
        return error_no_room(e);
    for (uint32_t i = 0; i < d->n; i++)
        flow_derive_step(d, d->order[i], given, &s);
    *ret = s;
    return ERR_OK;
}

bool flow_step_fails_run(const struct dag *d, const struct flow_state *s, uint32_t step)
{
    const struct dag_step *of = &d->steps[step];
    enum flow_outcome o = s->v[step].outcome;
    if (of->may_fail || (o != FLOW_FAILED && o != FLOW_EXPIRED && o != FLOW_CANCELLED))
        return false;
    for (uint32_t k = 0; k < of->out.n; k++) {
        const struct dag_edge *out = &of->out.v[k];
        if (out->named && out->type == DAG_MUST_FAIL && s->v[out->step].outcome == FLOW_COMPLETED)
            return false;
    }
    return true;
}

struct flow_result flow_result(const struct dag *d, const struct flow_state *s, enum flow_stop stop,
                               bool result_resolved)
{
    if (stop == FLOW_STOP_CANCEL)
        return (struct flow_result){ .state = TASK_CANCELLED };
    if (stop == FLOW_STOP_DEADLINE)
        return (struct flow_result){ .state = TASK_FAILED, .cause = FLOW_CAUSE_DEADLINE };
    assert(s->open == 0);
    for (uint32_t i = 0; i < d->n; i++)
        if (flow_step_fails_run(d, s, i))
            return (struct flow_result){ .state = TASK_FAILED, .cause = FLOW_CAUSE_STEP, .step = i };
    if (!result_resolved)
        return (struct flow_result){ .state = TASK_FAILED, .cause = FLOW_CAUSE_RESULT };
    return (struct flow_result){ .state = TASK_COMPLETED };
}

/* ---- maps and awaits ---- */

enum flow_outcome flow_map(int64_t items, int64_t completed, int64_t failed, int64_t max_failures)
{
    if (failed > max_failures)
        return FLOW_FAILED;
    return completed + failed >= items ? FLOW_COMPLETED : FLOW_OPEN;
}

enum flow_outcome flow_await(int64_t approvals, const bool *rejects, size_t n)
{
    assert(approvals > 0);
    for (size_t i = 0; i < n; i++) {
        if (rejects[i])
            return FLOW_FAILED;
        if ((int64_t)i + 1 == approvals)
            return FLOW_COMPLETED;
    }
    return FLOW_OPEN;
}
