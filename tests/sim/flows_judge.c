/* What the oracle notes of runs, and how it judges what happens to them.
 *
 * The outcome of a task is what it was settled with. Settlements of calls are judged by the receiver's answers
 * (oracle.c). Those of runs, maps and awaits are judged here, by the outcomes of what they are made of. */
#include <stdlib.h>

#include "flows.h"
#include "sim.h"

enum { MODEL_BYTES = 1 << 20, VALUES = 100, OUTPUT_TEXT = 32 };

/* ---- what the receiver answers ---- */

/* The same for each call under one fence: a fault may send it twice. */
static int64_t answer_value(struct uuid id, int64_t fence)
{
    return (id.b[15] + 7 * id.b[14] + 13 * fence) % VALUES;
}

struct str flows_output(struct sim *s, struct uuid id, int64_t fence)
{
    struct buf text;
    buf_init(&text, OUTPUT_TEXT);
    buf_printf(&text, "{\"n\":%lld}", (long long)answer_value(id, fence));
    struct str kept = flows_keep(s, &text);
    buf_release(&text);
    return kept;
}

/* ---- values ---- */

bool flow_value_fits(const struct flow_task *t, int64_t value)
{
    const struct flow *f = t->flow;
    const struct dag_step *of = &f->definition->dag->steps[place_step(t->place)];
    if (of->map.is_set && place_item(t->place) < 0) {
        const struct flow_task *first = flow_task_at(f, place_of_item(place_step(t->place), 0));
        return first ? flow_value_fits(first, value) : value == FLOW_NO_VALUE;
    }
    if (t->outcome != FLOW_COMPLETED)
        return value == FLOW_NO_VALUE;
    if (t->by_hand && t->output == FLOW_NO_VALUE) /* completed without an output */
        return value == FLOW_NO_VALUE;
    if (of->is_workflow)
        return t->run && flow_value_fits(flow_task_at(t->run, place_of_step(t->run->definition->result_of)), value);
    if (!of->await.signal.n)
        return value == t->output;
    for (int i = 0; i < FLOW_SENDERS; i++)
        if (f->signals[place_step(t->place)][i].sent && f->signals[place_step(t->place)][i].value == value)
            return true;
    return value == FLOW_NO_VALUE && of->await.has_on_timeout;
}

/* Whether the condition of a step holds, as far as it has one. */
static bool flow_may_run(const struct flow *f, uint32_t step)
{
    const struct flow_step_facts *facts = &f->definition->steps[step];
    if (facts->when_of < 0)
        return true;
    const struct flow_task *of = flow_task_at(f, place_of_step((uint32_t)facts->when_of));
    if (f->definition->dag->steps[facts->when_of].map.is_set)
        of = flow_task_at(f, place_of_item((uint32_t)facts->when_of, 0));
    bool has_value = of && of->outcome == FLOW_COMPLETED && of->output != FLOW_NO_VALUE; /* by hand: it has none */
    return has_value && of->output < facts->when_below;
}

/* ---- runs begin ---- */

static void flow_opened(struct sim *s, const struct op_open *op)
{
    struct flow_task *t = flows_task(s, op->id);
    if (!t || op->ret_stopped || op->ret_arrivals_left)
        return;
    const struct flow_definition *d = op->begin ? flows_definition(s, op->tenant, op->begin->hash) : NULL;
    if (t->flow)
        t->flow->moved_us = s->steady_us;
    if (!op->begin) {
        flow_undoes_again(s, op);
        if (t->run && t->run->rerun_of && !t->run->generation)
            flow_goes_on_as_rerun(s, t->run, op);
        return;
    }
    if (!d) {
        breach(s, BREACH_PINNED, "%s is opened with a definition that nobody made", short_id(op->id));
        return;
    }
    struct flow *f = t->run ? t->run : flow_new(s, d, t->id, t);
    if (memcmp(d->row.hash, f->definition->row.hash, DEFINITION_HASH) != 0) {
        breach(s, BREACH_PINNED, "%s has definition %d, and is opened with %d", short_id(op->id), f->definition->number,
               d->number);
        return;
    }
    f->moved_us = s->steady_us;
    if (op->again)
        flow_begins_again(s, f);
    else if (!f->opened && f->rerun_of)
        flow_begins_as_rerun(s, f, op);
    if (!f->opened || op->again) /* its planner took the time a little earlier */
        f->opened_ms = op->begin->deadline_ms ? op->begin->deadline_ms - f->deadline_ms : wall_ms(s);
    if (!f->opened)
        flows_send_signals(s, f);
    f->opened = true;
    flows_pounce(s, f);
}

/* ---- runs are stopped ---- */

static const struct flow *flow_around(const struct flow *f)
{
    return f->own->flow;
}

static bool flow_is_stopped(const struct flow *f)
{
    return f && (f->stop != RUN_GOES_ON || flow_is_stopped(flow_around(f)));
}

static bool flow_was_asked_to_stop(const struct flow *f)
{
    return f && (f->cancel_sent || flow_was_asked_to_stop(flow_around(f)));
}

/* A run between its attempts is stopped, and not only cancelled, if the run around it closes the map that it is of: it
 * has to undo what it did. */
static bool flow_is_closed(const struct flow *f)
{
    const struct flow *around = flow_around(f);
    return around && around->has_closed;
}

static bool flow_is_overdue(const struct sim *s, const struct flow *f)
{
    if (!f)
        return false;
    int64_t until_ms = f->opened_ms + f->deadline_ms - nodes_behind_ms(s);
    return (f->deadline_ms && (wall_ms(s) >= until_ms || s->jumped)) || flow_is_overdue(s, flow_around(f));
}

static void flow_stopped(struct sim *s, const struct op_stop *op)
{
    struct flow_task *t = flows_task(s, op->run);
    struct flow *f = t ? t->run : NULL;
    if (!f)
        return;
    f->moved_us = s->steady_us;
    bool is_timer = op->has_range && op->from == place_of_deadline();
    f->has_closed = f->has_closed || (op->change == RUN_CLOSE && !is_timer);
    if (f->stop == RUN_CANCELLED && op->stop == RUN_CANCELLED_AND_UNDONE)
        f->stop = op->stop;
    if (op->change != RUN_CANCEL || op->has_range || (f->stop != RUN_GOES_ON && !f->again))
        return;
    bool asked = op->stop == RUN_AT_DEADLINE ? flow_is_overdue(s, f) : flow_was_asked_to_stop(f) || flow_is_closed(f);
    if (!asked)
        breach(s, BREACH_ENDS, "%s is stopped, and nobody asked for it", short_id(f->id));
    f->stop = op->stop;
    f->stopped_us = s->steady_us;
}

/* A user has started, completed or skipped a step. */
static void flow_put_step(struct sim *s, struct flow_task *t, enum task_state state)
{
    if (t->outcome != FLOW_OPEN)
        breach(s, BREACH_ENDS, "step %u of %s is changed by hand, and has ended", place_step(t->place),
               short_id(t->flow->id));
    struct subject *x = oracle_find(s, t->id);
    t->by_hand = true;
    t->flow->moved_us = s->steady_us;
    if (x)
        oracle_redriven(x);
    if (x && !task_is_final(state))
        oracle_awake(s, x); /* it does not wait for its next attempt */
    if (!task_is_final(state))
        return;
    t->outcome = dependency_outcome(state, 0);
    t->output = FLOW_NO_VALUE;
}

/* The steps that a retry is for: {"retry_steps":["s0","s3"]}; 0: all. */
static unsigned flow_named_steps(struct str extra)
{
    unsigned steps = 0;
    for (unsigned i = 0; i < FLOW_STEPS_MAX; i++) {
        char name[8];
        int n = snprintf(name, sizeof name, "\"s%u\"", i);
        steps |= extra.n && memmem(extra.p, extra.n, name, (size_t)n) ? 1U << i : 0;
    }
    return steps;
}

/* A retry of a user, or a decision on a step. */
static void flow_put(struct sim *s, const struct op_put *op)
{
    struct flow_task *t = flows_task(s, op->task->id);
    if (t && t->flow && op->task->links & TASK_BY_HAND)
        flow_put_step(s, t, op->task->state);
    if (!t || !t->run || t->flow || op->task->state != TASK_SCHEDULED)
        return;
    t->run->ended = false;
    t->run->again = true;
    t->run->retry_steps = flow_named_steps(op->task->extra);
    t->run->own->outcome = FLOW_OPEN;
    t->run->moved_us = s->steady_us;
}

static void flow_claimed(struct sim *s, const struct op_claim *op)
{
    for (size_t i = 0; i < op->ret.n; i++) {
        struct flow_task *t = flows_task(s, op->ret.v[i].id);
        if (t)
            t->claimed_us = s->steady_us;
    }
}

void flows_applied(struct sim_node *by, const struct op *op)
{
    struct sim *s = by->sim;
    if (op->rc || !s->profile.flows)
        return;
    switch (op->kind) {
    case OP_CLAIM: flow_claimed(s, (const struct op_claim *)op); break;
    case OP_OPEN: flow_opened(s, (const struct op_open *)op); break;
    case OP_STOP: flow_stopped(s, (const struct op_stop *)op); break;
    case OP_PUT: flow_put(s, (const struct op_put *)op); break;
    default: break;
    }
}

/* ---- tasks end ---- */

static enum flow_stop flow_stop_of(const struct flow *f)
{
    return f->stop == RUN_GOES_ON       ? FLOW_NOT_STOPPED
           : f->stop == RUN_AT_DEADLINE ? FLOW_STOP_DEADLINE
                                        : FLOW_STOP_CANCEL;
}

/* *ret_failed: items that ended and are not COMPLETED; of the model, so without those that were cancelled. */
static int64_t map_completed(const struct flow *f, uint32_t step, int64_t *ret_failed)
{
    int64_t completed = 0;
    *ret_failed = 0;
    for (int64_t i = 0; i < f->items; i++) {
        enum flow_outcome o = flow_task_at(f, place_of_item(step, i))->outcome;
        completed += o == FLOW_COMPLETED;
        *ret_failed += o != FLOW_COMPLETED && o != FLOW_OPEN;
    }
    return completed;
}

/* An item that has not begun, or not begun again, is cancelled once its map has failed. */
static bool flow_is_of_failed_map(const struct flow *f)
{
    const struct flow *around = flow_around(f);
    int64_t failed;
    if (!around || place_item(f->own->place) < 0)
        return false;
    (void)map_completed(around, place_step(f->own->place), &failed);
    return failed > around->definition->dag->steps[place_step(f->own->place)].map.max_failures;
}

/* A run that was stopped when its end had been planned may end either way. */
static void judge_run(struct sim *s, struct flow *f, enum task_state end)
{
    cleanup_with(arena_release) struct arena a;
    const struct dag *d = f->definition->dag;
    struct flow_state state;
    arena_init(&a, MODEL_BYTES);
    flow_model(f, &a, &state);
    bool fits = f->stop != RUN_GOES_ON && flow_result(d, &state, flow_stop_of(f), true).state == end;
    fits = fits || (end == TASK_CANCELLED && (flow_is_stopped(flow_around(f)) || flow_is_of_failed_map(f)));
    if (!fits && state.open == 0)
        fits = flow_result(d, &state, FLOW_NOT_STOPPED, true).state == end;
    if (!fits)
        breach(s, BREACH_ENDS, "run %s is %s; the model has %u open steps%s", short_id(f->id), task_state_name(end),
               state.open, f->stop != RUN_GOES_ON ? ", and it was stopped" : "");
    f->ended = true;
    f->again = false;
    f->end = end;
}

static void judge_map(struct sim *s, const struct flow *f, uint32_t step, enum task_state end)
{
    int64_t failed, completed = map_completed(f, step, &failed);
    int64_t most = f->definition->dag->steps[step].map.max_failures;
    bool fits =
        end == TASK_FAILED ? failed > most : end == TASK_COMPLETED && failed <= most && completed + failed >= f->items;
    if (!fits)
        breach(s, BREACH_MAP, "step %u of %s is %s with %lld of %lld items completed, %lld failed", step,
               short_id(f->id), task_state_name(end), (long long)completed, (long long)f->items, (long long)failed);
}

static void judge_await(struct sim *s, const struct flow *f, uint32_t step, enum task_state end)
{
    const struct dag_await *w = &f->definition->dag->steps[step].await;
    bool may_be_late = w->timeout_ms && (s->jumped || wall_ms(s) + nodes_behind_ms(s) >= f->opened_ms + w->timeout_ms);
    int64_t approvals = 0, rejections = 0;
    for (int i = 0; i < FLOW_SENDERS; i++) {
        approvals += f->signals[step][i].sent && !f->signals[step][i].rejects;
        rejections += f->signals[step][i].sent && f->signals[step][i].rejects;
    }
    bool fits = end == TASK_COMPLETED ? approvals >= w->approvals || (may_be_late && w->has_on_timeout)
                                      : rejections || (may_be_late && !w->has_on_timeout);
    if (!fits)
        breach(s, BREACH_SIGNAL, "step %u of %s is %s, with %lld of %lld approvals and %lld rejections", step,
               short_id(f->id), task_state_name(end), (long long)approvals, (long long)w->approvals,
               (long long)rejections);
}

static bool is_control(const struct flow_task *t)
{
    const struct dag_step *of = &t->flow->definition->dag->steps[place_step(t->place)];
    return place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) < 0 &&
           (of->map.is_set || of->await.signal.n);
}

static void judge_control(struct sim *s, const struct flow_task *t, enum task_state end)
{
    uint32_t step = place_step(t->place);
    if (flow_is_stopped(t->flow))
        return;
    if (end != TASK_COMPLETED && end != TASK_FAILED)
        breach(s, BREACH_ENDS, "step %u of %s is %s", step, short_id(t->flow->id), task_state_name(end));
    else if (t->flow->definition->dag->steps[step].map.is_set)
        judge_map(s, t->flow, step, end);
    else
        judge_await(s, t->flow, step, end);
}

static void judge_skip(struct sim *s, const struct flow_task *t)
{
    if (place_item(t->place) >= 0 || flow_may_run(t->flow, place_step(t->place)))
        breach(s, BREACH_ENDS, "step %u of %s is skipped, and its condition holds", place_step(t->place),
               short_id(t->flow->id));
}

static void judge_end(struct sim *s, struct flow_task *t, enum task_state end)
{
    if (t->outcome != FLOW_OPEN)
        breach(s, BREACH_ENDS, "%s ends as %s, and had ended before", short_id(t->id), task_state_name(end));
    if (t->flow && end == TASK_SKIPPED)
        judge_skip(s, t);
    else if (t->run && t->run->opened)
        judge_run(s, t->run, end);
    else if (t->flow && is_control(t))
        judge_control(s, t, end);
}

void flows_judge_signals(struct sim *s, const struct flow *f, uint32_t step)
{
    const struct flow_task *t = flow_task_at(f, place_of_step(step));
    for (int i = 0; i < FLOW_SENDERS && t->outcome == FLOW_COMPLETED && t->has_senders && !s->jumped; i++)
        if (f->signals[step][i].acked && !(t->senders >> i & 1))
            breach(s, BREACH_SIGNAL, "the signal of u%d was accepted, and step %u of %s does not have it", i, step,
                   short_id(f->id));
}

/* Who is in the output of an await. One that has timed out has the value for that. */
static void note_senders(struct flow_task *t, struct str output)
{
    char by[16];
    t->has_senders = output.n > 1 && output.p[0] == '[';
    t->senders = 0;
    for (int i = 0; i < FLOW_SENDERS && t->has_senders; i++) {
        snprintf(by, sizeof by, "\"by\":\"u%d\"", i);
        t->senders |= memmem(output.p, output.n, by, strlen(by)) ? 1U << i : 0;
    }
}

void flows_settled(struct sim *s, const struct settlement *v)
{
    struct flow_task *t = flows_task(s, v->id);
    if (!t)
        return;
    enum task_state next = v->replace ? v->replace->state : v->verdict.next;
    struct flow *f = t->flow ? t->flow : t->run;
    f->moved_us = s->steady_us;
    if (!task_is_final(next))
        return;
    if (!v->replace)
        judge_end(s, t, next);
    t->outcome = dependency_outcome(next, 0);
    t->output = t->outcome == FLOW_COMPLETED ? answer_value(t->id, v->fence) : FLOW_NO_VALUE;
    bool awaited = t->flow && place_kind(t->place) == PLACE_KIND_STEP &&
                   t->flow->definition->dag->steps[place_step(t->place)].await.signal.n;
    if (!awaited || v->replace || t->outcome != FLOW_COMPLETED)
        return;
    note_senders(t, v->verdict.execution.output);
    flows_judge_signals(s, t->flow, place_step(t->place));
}

/* ---- calls ---- */

static bool flow_is_quiet(const struct sim *s, const struct flow *f)
{
    return f && (f->quiet_us < s->steady_us || flow_is_quiet(s, flow_around(f)));
}

static void judge_stop(struct sim *s, const struct flow_task *t, int64_t fence)
{
    const struct flow *f = t->flow;
    if (place_kind(t->place) != PLACE_KIND_STEP)
        return;
    /* In a fleet, what may be in the queue counts as running, and is taken anew if it was not. */
    bool fired = t->fired_fence && (fence == t->fired_fence || is_fleet(s));
    if (flow_is_quiet(s, f) && !fired && !t->by_hand)
        breach(s, BREACH_AFTER_STOP, "step %u of %s starts after its stop was acknowledged", place_step(t->place),
               short_id(f->id));
    else if (f->stop != RUN_GOES_ON && t->claimed_us > f->stopped_us)
        breach(s, BREACH_AFTER_STOP, "step %u of %s was claimed %lld ms after its run was stopped",
               place_step(t->place), short_id(f->id), (long long)(t->claimed_us - f->stopped_us) / 1000);
}

static void judge_join(struct sim *s, const struct flow_task *t)
{
    cleanup_with(arena_release) struct arena a;
    struct flow_state state;
    uint32_t step = place_step(t->place);
    arena_init(&a, MODEL_BYTES);
    flow_model(t->flow, &a, &state);
    const struct flow_step_state *v = &state.v[step];
    const struct flow_task *own = flow_task_at(t->flow, place_of_step(step));
    if (t->outcome == FLOW_COMPLETED)
        breach(s, BREACH_RETRY, "step %u of %s is called again, and is COMPLETED", step, short_id(t->flow->id));
    else if (own->outcome != FLOW_OPEN || v->outcome == FLOW_SKIPPED || v->outcome == FLOW_BROKEN)
        breach(s, BREACH_SKIPPED_RAN, "step %u of %s starts, and has ended", step, short_id(t->flow->id));
    else if (t->by_hand) /* neither its parents nor its condition are asked */
        return;
    else if (v->decision != FLOW_START)
        breach(s, BREACH_JOIN, "step %u of %s starts, and its parents do not allow it", step, short_id(t->flow->id));
    else if (!flow_may_run(t->flow, step))
        breach(s, BREACH_SKIPPED_RAN, "step %u of %s starts, and its condition does not hold", step,
               short_id(t->flow->id));
}

/* A call that may begin although its claim is over does not count: nobody can keep a worker from it. */
static bool is_under_way(struct sim *s, struct uuid id)
{
    const struct subject *x = oracle_find(s, id);
    for (size_t i = 0; x && i < x->call_count; i++) {
        const struct known_call *c = &x->calls[i];
        struct task t = { .id = id, .fence = c->fence, .claim = c->claim };
        if (!c->ended && !c->settled && !fleet_forgives(s, &t))
            return true;
    }
    return false;
}

static void judge_window(struct sim *s, const struct flow_task *t)
{
    const struct flow *f = t->flow;
    uint32_t step = place_step(t->place);
    const struct dag_map *map = &f->definition->dag->steps[step].map;
    int64_t others = 0;
    for (int64_t i = 0; map->max_concurrent && i < f->items; i++) {
        const struct flow_task *item = flow_task_at(f, place_of_item(step, i));
        others += item != t && is_under_way(s, item->id);
    }
    if (map->max_concurrent && others >= map->max_concurrent)
        breach(s, BREACH_MAP, "item %lld of step %u of %s is number %lld, %lld allowed",
               (long long)place_item(t->place), step, short_id(f->id), (long long)others + 1,
               (long long)map->max_concurrent);
}

bool flows_is_control(struct sim *s, struct uuid id)
{
    const struct flow_task *t = flows_task(s, id);
    if (!t || !t->flow)
        return t != NULL;
    if (place_kind(t->place) != PLACE_KIND_STEP)
        return place_kind(t->place) == PLACE_KIND_DEADLINE;
    return is_control(t) || t->flow->definition->dag->steps[place_step(t->place)].is_workflow;
}

bool flows_were_put_off(struct sim *s, struct uuid id)
{
    const struct flow_task *t = flows_task(s, id);
    const struct flow *f = t ? t->flow : NULL;
    while (f && !f->pause_sent)
        f = flow_around(f);
    return f != NULL;
}

/* ---- compensations ---- */

bool undo_is_wanted(const struct flow *f, const struct flow_task *of)
{
    const struct dag_step *s = &f->definition->dag->steps[place_step(of->place)];
    bool is_call = s->map.is_set == (place_item(of->place) >= 0);
    bool attempted = s->compensate_if_attempted && of->claimed_us; /* a claim that was lost may have been sent */
    return s->has_compensate && is_call && !of->copied && (of->outcome == FLOW_COMPLETED || attempted);
}

/* Compensations of steps below this one come before its own. */
static bool undo_is_in_order(const struct flow *f, uint32_t step)
{
    bool from[FLOW_STEPS_MAX] = { false }, below[FLOW_STEPS_MAX] = { false };
    from[step] = true;
    dag_mark_below(f->definition->dag, from, below);
    for (size_t i = 0; i < f->task_count; i++) {
        const struct flow_task *t = &f->tasks[i];
        if (place_kind(t->place) != PLACE_KIND_STEP || !below[place_step(t->place)] || t->outcome != FLOW_COMPLETED ||
            !undo_is_wanted(f, t))
            continue;
        if (flow_task_at(f, place_of_undo(place_step(t->place), place_item(t->place)))->outcome == FLOW_OPEN)
            return false;
    }
    return true;
}

static void judge_undo(struct sim *s, const struct flow_task *t)
{
    cleanup_with(arena_release) struct arena a;
    const struct flow *f = t->flow;
    struct flow_state state;
    uint32_t step = place_step(t->place);
    const struct flow_task *of = flow_task_at(f, place_of_item(step, place_item(t->place)));
    arena_init(&a, MODEL_BYTES);
    flow_model(f, &a, &state);
    bool failed =
        f->stop == RUN_AT_DEADLINE || f->stop == RUN_CANCELLED_AND_UNDONE ||
        (state.open == 0 && flow_result(f->definition->dag, &state, FLOW_NOT_STOPPED, true).state == TASK_FAILED);
    if (t->outcome == FLOW_COMPLETED)
        breach(s, BREACH_UNDO, "step %u of %s is undone twice", step, short_id(f->id));
    else if (!failed)
        breach(s, BREACH_UNDO, "step %u of %s is undone, and the run has not failed", step, short_id(f->id));
    else if (!undo_is_wanted(f, of))
        breach(s, BREACH_UNDO, "step %u of %s is undone, and was not done", step, short_id(f->id));
    else if (!undo_is_in_order(f, step))
        breach(s, BREACH_UNDO, "step %u of %s is undone before a step below it", step, short_id(f->id));
}

/* ---- bodies ---- */

/* Whether the join of the child cannot be decided before this parent is final. */
static bool waits_in_any_case(const struct dag *d, uint32_t child, uint32_t parent)
{
    const struct dag_step *c = &d->steps[child];
    bool is_parent = false, can_break = false;
    for (uint32_t i = 0; i < c->in.n; i++) {
        bool is_it = c->in.v[i].step == parent;
        is_parent |= is_it;
        can_break |= is_it && (c->in.v[i].type == DAG_MUST_SUCCEED || c->in.v[i].type == DAG_MUST_NOT_FAIL);
    }
    return is_parent && (c->parents == 1 || c->join == DAG_SOME || (c->join == DAG_ALL && c->breaking == can_break));
}

static void judge_references(struct sim *s, const struct flow_task *t, const json_t *root)
{
    const struct flow *f = t->flow;
    uint32_t step = place_step(t->place);
    const struct flow_step_facts *facts = &f->definition->steps[step];
    const json_t *list = json_object_get(root, "r");
    if (json_array_size(list) != facts->ref_count)
        breach(s, BREACH_DATA, "step %u of %s: its body lacks something", step, short_id(f->id));
    for (size_t i = 0; i < facts->ref_count; i++) {
        int64_t value = json_integer_value(json_array_get(list, i));
        bool unknown =
            value == FLOW_NO_VALUE && (t->by_hand || !waits_in_any_case(f->definition->dag, step, facts->refs[i]));
        if (!unknown && !flow_value_fits(flow_task_at(f, place_of_step(facts->refs[i])), value))
            breach(s, BREACH_DATA, "step %u of %s gets %lld of step %u", step, short_id(f->id), (long long)value,
                   facts->refs[i]);
    }
    if (facts->ref_count && json_i64_at(root, "in", FLOW_NO_VALUE) != f->input)
        breach(s, BREACH_DATA, "step %u of %s: not its input", step, short_id(f->id));
    if (place_item(t->place) >= 0 && json_i64_at(root, "item", FLOW_NO_VALUE) != f->input + place_item(t->place))
        breach(s, BREACH_DATA, "item %lld of step %u of %s is another", (long long)place_item(t->place), step,
               short_id(f->id));
}

static void judge_body(struct sim *s, const struct flow_task *t, struct str body)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error e;
    const struct flow *f = t->flow;
    uint32_t step = place_step(t->place);
    if (json_parse(body, &doc, &e)) {
        breach(s, BREACH_DATA, "step %u of %s: its body is no JSON", step, short_id(f->id));
        return;
    }
    if (json_i64_at(doc.root, "d", 0) != f->definition->number)
        breach(s, BREACH_PINNED, "step %u of %s is of definition %lld, not %d", step, short_id(f->id),
               (long long)json_i64_at(doc.root, "d", 0), f->definition->number);
    if (place_kind(t->place) == PLACE_KIND_STEP)
        judge_references(s, t, doc.root);
    else if (!flow_value_fits(flow_task_at(f, place_of_item(step, place_item(t->place))),
                              json_i64_at(doc.root, "out", FLOW_NO_VALUE)))
        breach(s, BREACH_DATA, "the compensation of step %u of %s gets another output", step, short_id(f->id));
}

void flows_judge_start(struct sim *s, const struct task *task)
{
    struct flow_task *t = flows_task(s, task->id);
    if (!t)
        return;
    if (!t->flow) {
        breach(s, BREACH_UNASKED, "run %s is called", short_id(t->id));
        return;
    }
    t->flow->moved_us = s->steady_us;
    judge_stop(s, t, task->fence);
    if (place_kind(t->place) == PLACE_KIND_UNDO)
        judge_undo(s, t);
    else if (t->flow->stop == RUN_GOES_ON)
        judge_join(s, t);
    if (place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) >= 0)
        judge_window(s, t);
    if (!t->called)
        judge_body(s, t, task->payload);
    else if (!str_eq(t->body, task->payload))
        breach(s, BREACH_DATA, "step %u of %s gets another body than before", place_step(t->place),
               short_id(t->flow->id));
    if (!t->called && !arena_str(&s->flows.memory, task->payload, &t->body))
        abort();
    t->called = t->was_called = true;
}
