/* Retries and reruns of runs: which steps run again, as docs/WORKFLOWS.md says it. This is no copy of flow_retry and
 * flow_rerun: a bug may be planted in these, and a mistake in them must not be the oracle's, too.
 *
 *  - A retry touches no COMPLETED step. FAILED, EXPIRED and CANCELLED ones run again, or those of them that the user
 *    named, and what was skipped below them.
 *  - A rerun is a new run. It repeats the step that the user named and all below it, what did not end well, what was
 *    undone and all below that. It has copies of the others, which are not called and not undone. */
#include <stdlib.h>

#include "flows.h"
#include "sim.h"

enum { MODEL_BYTES = 1 << 20 };

static bool again_is_skip(enum flow_outcome o)
{
    return o == FLOW_SKIPPED || o == FLOW_BROKEN;
}

static bool again_has_failed(enum flow_outcome o)
{
    return o == FLOW_FAILED || o == FLOW_EXPIRED || o == FLOW_CANCELLED;
}

/* How the steps ended, with those that are skipped because of others. */
static void again_ends(const struct flow *f, enum flow_outcome *ret)
{
    cleanup_with(arena_release) struct arena a;
    enum flow_outcome given[FLOW_STEPS_MAX];
    struct flow_state state;
    struct error e;
    arena_init(&a, MODEL_BYTES);
    flow_outcomes(f, given);
    if (flow_state(f->definition->dag, given, &a, &state, &e))
        abort();
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        ret[i] = state.v[i].outcome;
}

/* kept: as the steps ended; of those that run again, FLOW_OPEN from now on. */
static void again_open(const struct flow *f, const bool *again, enum flow_outcome *kept)
{
    bool below[FLOW_STEPS_MAX] = { false };
    dag_mark_below(f->definition->dag, again, below);
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        if (again[i] || (below[i] && again_is_skip(kept[i])))
            kept[i] = FLOW_OPEN;
}

/* ---- retry ---- */

/* If a step that the user named has ended otherwise since, by a further attempt of the run, all that failed runs again. */
static bool retry_is_of_named(const struct flow *f, const enum flow_outcome *ends)
{
    bool all_failed = true;
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        if (f->retry_steps >> i & 1)
            all_failed = all_failed && again_has_failed(ends[i]);
    return f->retry_steps && all_failed;
}

static void retry_kept(const struct flow *f, enum flow_outcome *kept)
{
    bool again[FLOW_STEPS_MAX] = { false };
    again_ends(f, kept);
    bool named = retry_is_of_named(f, kept);
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        again[i] = kept[i] == FLOW_OPEN || (again_has_failed(kept[i]) && (!named || f->retry_steps >> i & 1));
    again_open(f, again, kept);
}

static void flow_reset_task(struct sim *s, struct flow_task *t)
{
    struct subject *x = oracle_find(s, t->id);
    t->outcome = FLOW_OPEN;
    t->output = FLOW_NO_VALUE;
    t->body = (struct str){ 0 };
    t->called = t->by_hand = t->has_senders = false;
    if (x)
        oracle_redriven(x);
}

/* A step that runs again, with its items that are not COMPLETED. Its signals are gone. */
static void flow_reset_step(struct sim *s, struct flow *f, uint32_t step)
{
    for (size_t i = 0; i < f->task_count; i++) {
        struct flow_task *t = &f->tasks[i];
        bool is_step = place_kind(t->place) == PLACE_KIND_STEP && place_step(t->place) == step;
        if (is_step && (place_item(t->place) < 0 || t->outcome != FLOW_COMPLETED))
            flow_reset_task(s, t);
    }
    for (int i = 0; i < FLOW_SENDERS; i++)
        f->signals[step][i].acked = false;
}

void flow_begins_again(struct sim *s, struct flow *f)
{
    enum flow_outcome kept[FLOW_STEPS_MAX];
    retry_kept(f, kept);
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        if (kept[i] == FLOW_OPEN)
            flow_reset_step(s, f, i);
    flow_reset_task(s, flow_task_at(f, place_of_deadline()));
    trace(s, "run %s begins again", short_id(f->id));
    s->stats->retried += f->subject != NULL;
    f->generation++;
    f->ended = f->again = false;
    f->stop = RUN_GOES_ON;
    f->own->outcome = FLOW_OPEN;
}

void flow_undoes_again(struct sim *s, const struct op_open *op)
{
    for (size_t i = 0; i < op->n; i++) {
        struct flow_task *t = flows_task(s, op->rows[i].task.id);
        if (t && place_kind(t->place) == PLACE_KIND_UNDO && t->outcome != FLOW_OPEN && t->outcome != FLOW_COMPLETED)
            flow_reset_task(s, t);
    }
}

/* ---- rerun ---- */

static bool rerun_was_undone(const struct flow *f, uint32_t step)
{
    for (size_t i = 0; i < f->task_count; i++)
        if (place_kind(f->tasks[i].place) == PLACE_KIND_UNDO && place_step(f->tasks[i].place) == step &&
            f->tasks[i].outcome == FLOW_COMPLETED)
            return true;
    return false;
}

static void rerun_kept(const struct flow *old, uint32_t from, enum flow_outcome *kept)
{
    bool chosen[FLOW_STEPS_MAX] = { false }, again[FLOW_STEPS_MAX] = { false };
    uint32_t n = old->definition->dag->n;
    again_ends(old, kept);
    for (uint32_t i = 0; i < n; i++)
        chosen[i] = i == from || rerun_was_undone(old, i);
    dag_mark_below(old->definition->dag, chosen, again);
    for (uint32_t i = 0; i < n; i++)
        again[i] = again[i] || chosen[i] || (kept[i] != FLOW_COMPLETED && !again_is_skip(kept[i]));
    again_open(old, again, kept);
}

/* A step with its items, as it ended in the run before. */
static void rerun_copy_step(struct flow *f, uint32_t step)
{
    const struct flow *old = f->rerun_of;
    for (size_t i = 0; i < old->task_count; i++) {
        const struct flow_task *was = &old->tasks[i];
        struct flow_task *t = flow_task_at(f, was->place);
        if (place_kind(was->place) != PLACE_KIND_STEP || place_step(was->place) != step)
            continue;
        t->outcome = was->outcome;
        t->output = was->output;
        t->by_hand = was->by_hand;
        t->run = was->run; /* whose result is its output */
        t->copied = true;
    }
    memcpy(f->signals[step], old->signals[step], sizeof f->signals[step]);
    for (int i = 0; i < FLOW_SENDERS; i++)
        f->signals[step][i].acked = false;
}

/* The rows of a page of the new run: what is COMPLETED is a copy, and nothing else is. */
static void rerun_judge_rows(struct sim *s, const struct flow *f, const enum flow_outcome *kept,
                             const struct op_open *op)
{
    for (size_t i = 0; i < op->n; i++) {
        const struct task *t = &op->rows[i].task;
        uint32_t step = place_step(t->place);
        if (place_kind(t->place) != PLACE_KIND_STEP || place_item(t->place) >= 0)
            continue;
        bool copied = t->state == TASK_COMPLETED;
        if (copied != (kept[step] == FLOW_COMPLETED))
            breach(s, BREACH_RERUN, "step %u of %s, a rerun of %s from step %u, is %s", step, short_id(f->id),
                   short_id(f->rerun_of->id), f->rerun_from, copied ? "copied" : "repeated");
        s->stats->copied += copied;
    }
}

void flow_goes_on_as_rerun(struct sim *s, const struct flow *f, const struct op_open *op)
{
    enum flow_outcome kept[FLOW_STEPS_MAX];
    rerun_kept(f->rerun_of, f->rerun_from, kept);
    rerun_judge_rows(s, f, kept, op);
}

void flow_begins_as_rerun(struct sim *s, struct flow *f, const struct op_open *op)
{
    enum flow_outcome kept[FLOW_STEPS_MAX];
    rerun_kept(f->rerun_of, f->rerun_from, kept);
    rerun_judge_rows(s, f, kept, op);
    for (uint32_t i = 0; i < f->definition->dag->n; i++)
        if (kept[i] != FLOW_OPEN)
            rerun_copy_step(f, i);
    trace(s, "run %s is a rerun of %s from step %u", short_id(f->id), short_id(f->rerun_of->id), f->rerun_from);
    s->stats->rerun++;
}
