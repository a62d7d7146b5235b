/* Retry, rerun and compensation. */
#include <assert.h>

#include "core/flow/flow.h"

static bool flow_can_retry(enum flow_outcome o)
{
    return o == FLOW_FAILED || o == FLOW_EXPIRED || o == FLOW_CANCELLED;
}

static bool flow_is_skip(enum flow_outcome o)
{
    return o == FLOW_SKIPPED || o == FLOW_BROKEN;
}

/* Opens the steps of `again` and all that were skipped below them or below `changed`. */
static enum err flow_open_again(const struct dag *d, const bool *again, const bool *changed, struct arena *a,
                                enum flow_outcome *outcomes, struct error *e)
{
    bool *below = arena_array(a, bool, d->n);
    if (!below)
        return error_no_room(e);
    dag_mark_below(d, changed, below);
    for (uint32_t i = 0; i < d->n; i++)
        if (again[i] || (below[i] && flow_is_skip(outcomes[i])))
            outcomes[i] = FLOW_OPEN;
    return ERR_OK;
}

/* ---- retry ---- */

static enum err flow_check_retry(const struct dag *d, const struct flow_retry *r, const struct flow_state *s,
                                 struct error *e)
{
    assert(!r->completes || r->count == 1);
    for (size_t i = 0; i < r->count; i++) {
        uint32_t step = r->steps[i];
        assert(step < d->n);
        enum flow_outcome o = s->v[step].outcome;
        if (!flow_can_retry(o) && !(r->begun && o == FLOW_OPEN))
            return error_set(e, ERR_CONFLICT,
                             "the step '" STR_FMT "' is %s; only FAILED, EXPIRED and CANCELLED steps can be retried",
                             STR_ARG(d->steps[step].name),
                             o == FLOW_OPEN ? "open" : task_state_name(flow_task_state(o)));
    }
    return ERR_OK;
}

static void flow_choose_retried(const struct dag *d, const struct flow_retry *r, bool *again)
{
    bool all = r->count == 0 || r->completes;
    for (uint32_t i = 0; all && i < d->n; i++)
        again[i] = flow_can_retry(r->was[i]);
    for (size_t i = 0; i < r->count; i++)
        again[r->steps[i]] = !r->completes;
}

enum err flow_retry(const struct dag *d, const struct flow_retry *r, struct arena *a, enum flow_outcome *ret,
                    struct error *e)
{
    struct flow_state s; /* skipped steps that have no row */
    bool *again = arena_array(a, bool, d->n), *changed = arena_array(a, bool, d->n);
    enum flow_outcome *kept = arena_array(a, enum flow_outcome, d->n);
    if (!again || !changed || !kept)
        return error_no_room(e);
    enum err rc = flow_state(d, r->was, a, &s, e);
    if (rc == ERR_OK)
        rc = flow_check_retry(d, r, &s, e);
    if (rc)
        return rc;
    flow_choose_retried(d, r, again);
    for (uint32_t i = 0; i < d->n; i++) {
        kept[i] = s.v[i].outcome;
        changed[i] = again[i] || kept[i] == FLOW_OPEN;
    }
    if (r->completes) {
        kept[r->steps[0]] = FLOW_COMPLETED;
        changed[r->steps[0]] = true;
    }
    rc = flow_open_again(d, again, changed, a, kept, e);
    if (rc == ERR_OK)
        memcpy(ret, kept, d->n * sizeof *ret);
    return rc;
}

/* ---- rerun ---- */

enum err flow_rerun(const struct dag *d, const enum flow_outcome *was, const bool *undone, uint32_t from,
                    struct arena *a, enum flow_outcome *ret, struct error *e)
{
    assert(from < d->n);
    struct flow_state s;
    bool *again = arena_array(a, bool, d->n), *chosen = arena_array(a, bool, d->n);
    enum flow_outcome *kept = arena_array(a, enum flow_outcome, d->n);
    if (!again || !chosen || !kept)
        return error_no_room(e);
    enum err rc = flow_state(d, was, a, &s, e);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < d->n; i++)
        chosen[i] = again[i] = i == from || (undone && undone[i]);
    dag_mark_below(d, chosen, again);
    for (uint32_t i = 0; i < d->n; i++) {
        kept[i] = s.v[i].outcome;
        again[i] |= kept[i] != FLOW_COMPLETED && !flow_is_skip(kept[i]);
    }
    rc = flow_open_again(d, again, again, a, kept, e);
    if (rc == ERR_OK)
        memcpy(ret, kept, d->n * sizeof *ret);
    return rc;
}

/* ---- compensation ---- */

static bool flow_is_undone(const struct dag_step *s, enum flow_reach reach)
{
    return s->has_compensate && (reach == FLOW_DONE || (s->compensate_if_attempted && reach == FLOW_SENT));
}

/* The highest number of compensations on a path downwards from each step, without its own: that is its wave. */
static void flow_count_below(const struct dag *d, const enum flow_reach *reach, uint32_t *below)
{
    for (uint32_t i = d->n; i-- > 0;) {
        uint32_t step = d->order[i];
        const struct dag_edges *out = &d->steps[step].out;
        for (uint32_t k = 0; k < out->n; k++) {
            uint32_t child = out->v[k].step;
            below[step] = max_of(below[step], below[child] + flow_is_undone(&d->steps[child], reach[child]));
        }
    }
}

enum err flow_undo(const struct dag *d, const enum flow_reach *reach, struct arena *a, struct flow_undo *ret,
                   struct error *e)
{
    uint32_t *below = arena_array(a, uint32_t, d->n);
    struct flow_undo u = { .steps = arena_array(a, uint32_t, d->n), .wave_from = arena_array(a, uint32_t, d->n + 2) };
    if (!below || !u.steps || !u.wave_from)
        return error_no_room(e);
    flow_count_below(d, reach, below);
    for (uint32_t i = 0; i < d->n; i++) {
        if (!flow_is_undone(&d->steps[i], reach[i]))
            continue;
        u.wave_from[below[i] + 2]++; /* two ahead: the starts of waves are summed up in place, then moved by one */
        u.waves = max_of(u.waves, below[i] + 1);
        u.n++;
    }
    for (uint32_t w = 2; w <= u.waves; w++)
        u.wave_from[w] += u.wave_from[w - 1];
    for (uint32_t i = 0; i < d->n; i++)
        if (flow_is_undone(&d->steps[i], reach[i]))
            u.steps[u.wave_from[below[i] + 1]++] = i;
    *ret = u;
    return ERR_OK;
}
