/* Everything has drained: each run has ended as the model says, or has a reason to wait. */
#include <stdlib.h>

#include "flows.h"
#include "sim.h"

enum { READ_BYTES = 8 << 20, ROWS_MAX = 1000, RECENT_US = 25000000, RECENT_MS = 25000 };

/* A run and its rows. */
struct run_check {
    struct sim *s;
    struct flow *f;
    struct arena a;
    struct task row;
    struct tasks rows;
    struct flow_state model;
};

/* ---- reasons to wait ---- */

static bool is_recent(const struct sim *s, const struct flow *f)
{
    return f->moved_us > s->stopped_us - RECENT_US;
}

static bool is_decided(const struct flow *f, uint32_t step)
{
    const struct dag_await *w = &f->definition->dag->steps[step].await;
    int64_t approvals = 0, rejections = 0;
    for (int i = 0; i < FLOW_SENDERS; i++) {
        approvals += f->signals[step][i].acked && !f->signals[step][i].rejects;
        rejections += f->signals[step][i].acked && f->signals[step][i].rejects;
    }
    return approvals >= w->approvals || rejections > 0;
}

static bool may_wait(const struct run_check *c, const struct task *t)
{
    const struct flow_task *known = flows_task(c->s, t->id);
    bool later = t->due_ms > c->s->stopped_ms - RECENT_MS && t->state != TASK_RUNNING;
    bool awaits = t->links & TASK_AWAITS && t->state == TASK_BLOCKED && !is_decided(c->f, place_step(t->place));
    return t->state == TASK_PAUSED || later || awaits || (known->run && known->run->waits) ||
           (!(t->links & TASK_WAITS) && limits_is_in_line(c->s, t));
}

/* Runs within this one were looked at before it. */
static bool has_reason(const struct run_check *c)
{
    bool found = is_recent(c->s, c->f) || (c->row.due_ms > c->s->stopped_ms - RECENT_MS) ||
                 c->row.state == TASK_PAUSED || c->row.state == TASK_BLOCKED;
    for (size_t i = 0; i < c->rows.n; i++)
        found = found || (!task_is_final(c->rows.v[i].state) && place_kind(c->rows.v[i].place) != PLACE_KIND_DEADLINE &&
                          may_wait(c, &c->rows.v[i]));
    return found;
}

/* ---- steps ---- */

static void check_waiting(const struct run_check *c, const struct task *t)
{
    uint32_t step = place_step(t->place);
    const struct flow_step_state *v = &c->model.v[step];
    bool waits = t->links & TASK_WAITS && !(t->links & TASK_OPEN);
    if (v->outcome != FLOW_OPEN)
        breach(c->s, BREACH_ARRIVAL, "step %u of %s is %s, and the model has its end", step, short_id(c->f->id),
               task_state_name(t->state));
    else if (waits && v->decision != FLOW_WAIT)
        breach(c->s, BREACH_ARRIVAL, "step %u of %s waits, and its parents decide", step, short_id(c->f->id));
    else if (!waits && v->decision == FLOW_WAIT)
        breach(c->s, BREACH_JOIN, "step %u of %s does not wait, and its parents do not decide", step,
               short_id(c->f->id));
    else if (t->links & TASK_AWAITS && t->state != TASK_PAUSED && is_decided(c->f, step) && !is_recent(c->s, c->f))
        breach(c->s, BREACH_SIGNAL, "step %u of %s awaits what it has", step, short_id(c->f->id));
}

static void check_step(const struct run_check *c, const struct task *t)
{
    uint32_t step = place_step(t->place);
    enum flow_outcome is = dependency_outcome(t->state, t->links), model = c->model.v[step].outcome;
    if (!task_is_final(t->state))
        check_waiting(c, t);
    else if (is != model && (is == FLOW_SKIPPED || is == FLOW_BROKEN || model == FLOW_SKIPPED || model == FLOW_BROKEN))
        breach(c->s, BREACH_ARRIVAL, "step %u of %s is %s, and the model does not say so", step, short_id(c->f->id),
               task_state_name(t->state));
    else if (is != model)
        breach(c->s, BREACH_ENDS, "step %u of %s is %s, and nobody settled it so", step, short_id(c->f->id),
               task_state_name(t->state));
}

static int64_t count_items(const struct run_check *c, uint32_t step)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->rows.n; i++)
        n += place_kind(c->rows.v[i].place) == PLACE_KIND_STEP && place_step(c->rows.v[i].place) == step &&
             place_item(c->rows.v[i].place) >= 0;
    return n;
}

static void check_map(const struct run_check *c, const struct task *t)
{
    uint32_t step = place_step(t->place);
    if (c->f->definition->dag->steps[step].map.is_set && t->state == TASK_COMPLETED &&
        count_items(c, step) != c->f->items)
        breach(c->s, BREACH_MAP, "step %u of %s has %lld of %lld items", step, short_id(c->f->id),
               (long long)count_items(c, step), (long long)c->f->items);
}

static bool may_be_gone(const struct sim *s, const struct flow *f)
{
    while (f->own->flow)
        f = f->own->flow;
    return s->profile.purges && f->ended;
}

static void check_steps(const struct run_check *c)
{
    size_t steps = 0;
    for (size_t i = 0; i < c->rows.n; i++) {
        const struct task *t = &c->rows.v[i];
        limits_check(c->s, t);
        if (place_kind(t->place) != PLACE_KIND_STEP || place_item(t->place) >= 0)
            continue;
        steps++;
        if (!may_be_gone(c->s, c->f))
            check_map(c, t);
        if (c->f->stop == RUN_GOES_ON && !c->f->again)
            check_step(c, t);
    }
    bool cut_off = c->f->stop != RUN_GOES_ON && c->row.state != TASK_COMPLETED; /* stopped before its last page */
    if (c->f->opened && steps < c->f->definition->dag->n && !cut_off && !may_be_gone(c->s, c->f))
        breach(c->s, BREACH_ENDS, "run %s has %zu of %u steps", short_id(c->f->id), steps, c->f->definition->dag->n);
}

/* ---- the end ---- */

static void check_result(struct run_check *c)
{
    struct run_outputs outs;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct error e;
    const struct flow_task *of = flow_task_at(c->f, place_of_step(c->f->definition->result_of));
    if (reader_outputs(c->s->reader, c->f->id, PLACE_RUN, PLACE_RUN, 1, &c->a, &outs, &e) || outs.n != 1 ||
        json_parse(outs.v[0].text, &doc, &e))
        breach(c->s, BREACH_ENDS, "run %s has no result", short_id(c->f->id));
    else if (!flow_value_fits(of, json_i64_at(doc.root, "n", FLOW_NO_VALUE)))
        breach(c->s, BREACH_ENDS, "run %s has another result: " STR_FMT, short_id(c->f->id), STR_ARG(outs.v[0].text));
}

/* What a failed run has done is undone. */
static void check_undone(const struct run_check *c)
{
    const struct flow *f = c->f;
    for (size_t i = 0; i < f->task_count; i++) {
        const struct flow_task *t = &f->tasks[i];
        bool was_done = t->outcome == FLOW_COMPLETED || t->was_called; /* also by an attempt before a retry */
        if (place_kind(t->place) != PLACE_KIND_STEP || !was_done || !undo_is_wanted(f, t))
            continue;
        if (flow_task_at(f, place_of_undo(place_step(t->place), place_item(t->place)))->outcome == FLOW_OPEN)
            breach(c->s, BREACH_UNDO, "step %u of %s is not undone", place_step(t->place), short_id(f->id));
    }
}

static void trace_rows(const struct run_check *c)
{
    trace(c->s, "run %s, definition %d: %s due %lld links %d", short_id(c->f->id), c->f->definition->number,
          task_state_name(c->row.state), (long long)c->row.due_ms, c->row.links);
    for (size_t i = 0; i < c->rows.n; i++) {
        const struct task *t = &c->rows.v[i];
        trace(c->s, "  %s kind %d step %u item %lld: %s due %lld links %d, the model has %d", short_id(t->id),
              place_kind(t->place), place_step(t->place), (long long)place_item(t->place), task_state_name(t->state),
              (long long)t->due_ms, t->links, flows_task(c->s, t->id)->outcome);
    }
}

static void check_end(struct run_check *c)
{
    struct flow *f = c->f;
    bool is_final = task_is_final(c->row.state);
    f->waits = !is_final && has_reason(c);
    if (!is_final && !f->waits)
        breach(c->s, BREACH_ENDS, "run %s is %s, and nothing is left to wait for", short_id(f->id),
               task_state_name(c->row.state));
    if (!f->opened || !is_final)
        return;
    if (f->own->flow && f->own->outcome == FLOW_OPEN) /* cancelled or skipped after it had run before */
        return;
    if (!f->ended || f->end != c->row.state)
        breach(c->s, BREACH_ENDS, "run %s is %s, and was not settled so", short_id(f->id),
               task_state_name(c->row.state));
    else if (f->ended && f->end == TASK_COMPLETED)
        check_result(c);
    else if (c->row.state == TASK_FAILED || f->stop == RUN_CANCELLED_AND_UNDONE)
        check_undone(c);
}

static void check_run(struct sim *s, struct flow *f)
{
    struct run_check c = { .s = s, .f = f };
    struct step_filter filter = { .tenant = f->tenant, .run = f->id, .limit = ROWS_MAX };
    struct error e;
    arena_init(&c.a, READ_BYTES);
    if (reader_get(s->reader, f->tenant, f->id, &c.a, &c.row, &e)) {
        if ((f->opened || (f->subject && f->subject->acked)) && !may_be_gone(s, f))
            breach(s, BREACH_ENDS, "run %s is gone", short_id(f->id));
    } else if (reader_steps(s->reader, &filter, &c.a, &c.rows, &e)) {
        breach(s, BREACH_ENDS, "run %s cannot be read: %s", short_id(f->id), e.text);
    } else {
        flow_model(f, &c.a, &c.model);
        trace_rows(&c);
        check_steps(&c);
        check_end(&c);
    }
    arena_release(&c.a);
}

void flows_check(struct sim *s)
{
    if (!s->profile.flows)
        return;
    for (struct list *at = s->flows.runs.prev; at != &s->flows.runs; at = at->prev) /* those within others first */
        check_run(s, container_of(at, struct flow, link));
}

int64_t flows_count_open(struct sim *s)
{
    cleanup_with(arena_release) struct arena a;
    int64_t n = 0;
    arena_init(&a, READ_BYTES);
    if (!s->profile.flows)
        return 0;
    map_each (&s->flows.by_id, slot) {
        const struct flow_task *known = slot->value;
        struct task t;
        struct error e;
        const struct flow *f = known->flow ? known->flow : known->run;
        n += reader_get(s->reader, f->tenant, known->id, &a, &t, &e) == ERR_OK && t.state == TASK_RUNNING &&
             t.links & TASK_OPEN;
        arena_reset(&a);
    }
    return n;
}
