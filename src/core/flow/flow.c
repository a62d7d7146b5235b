#include "core/flow/flow.h"

#include <assert.h>

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

static void flow_derive_step(const struct dag *d, uint32_t step, const enum flow_outcome *given, struct flow_state *s)
{
    const struct dag_step *of = &d->steps[step];
    struct flow_step_state *v = &s->v[step];
    v->counts = flow_counts_of(of, s->v);
    if (given && given[step] != FLOW_OPEN) {
        bool forced = given[step] == FLOW_FORCED;
        v->outcome = forced ? FLOW_OPEN : given[step];
        v->decision = forced ? FLOW_START : FLOW_WAIT;
    } else {
        v->decision = flow_decide(of->join, of->in.n, v->counts);
        v->outcome = flow_outcome_of_decision(v->decision);
    }
    s->open += v->outcome == FLOW_OPEN;
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

/* ---- awaits ---- */

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
