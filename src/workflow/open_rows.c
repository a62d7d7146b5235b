/* The rows that a run or a map is opened with (OP_OPEN). Rows that wait for others come first, those that start at once
 * last: a task that ends finds all that wait for it. */
#include "core/task/trace.h"
#include "workflow/internal.h"

void open_begin(struct run_view *v, struct plan *p)
{
    const struct task *t = p->task;
    p->kind = PLAN_OPEN;
    p->open = (struct op_open){ .tenant = t->tenant,
                                .id = t->id,
                                .fence = t->fence,
                                .run = v->task.id,
                                .root = v->row.root,
                                .stop = v->row.stop,
                                .outer = uuid_eq(t->id, v->task.id) ? t->run : (struct uuid){ { 0 } },
                                .max_broken = -1,
                                .end_type = DAG_MUST_FINISH };
}

static enum err open_edges_of(struct run_view *v, const struct dag_step *s, const struct flow_state *state,
                              struct open_row *row, struct error *e)
{
    struct open_edge_row *edges = arena_array(v->a, struct open_edge_row, s->in.n);
    if (!edges)
        return error_no_room(e);
    for (uint32_t i = 0; i < s->in.n; i++) {
        const struct dag_edge *in = &s->in.v[i];
        enum flow_outcome parent = state ? state->v[in->step].outcome : FLOW_OPEN;
        edges[i] = (struct open_edge_row){ .parent = place_id(v->task.id, place_of_step(in->step)),
                                           .type = in->type,
                                           .state = parent == FLOW_OPEN ? EDGE_OPEN : edge_arrives(in->type, parent) };
    }
    row->edges = edges;
    row->n = s->in.n;
    row->join = s->join;
    return ERR_OK;
}

static void open_set_state(const struct dag_step *s, enum flow_decision d, struct task *t)
{
    t->links |= s->in.n ? TASK_HAS_PARENTS : 0;
    t->links |= s->out.n || s->ends_run ? TASK_HAS_CHILDREN : 0;
    if (s->delay_ms && s->in.n) /* it counts from its release: the planner knows when that was */
        t->links |= TASK_PLANNED;
    if (d == FLOW_WAIT) {
        t->state = TASK_BLOCKED;
        t->links |= TASK_WAITS;
    }
}

static enum err open_add_step(struct run_view *v, const struct plan *p, uint32_t step, const struct flow_state *state,
                              struct open_row *row, struct error *e)
{
    const struct dag_step *s = &v->dag->steps[step];
    struct run_facts facts = run_view_facts(v);
    enum flow_decision d = state ? state->v[step].decision : s->in.n ? FLOW_WAIT : FLOW_START;
    if (definition_step_task(v->dag, step, &facts, p->now_ms, v->a, &row->task, e) ||
        open_edges_of(v, s, state, row, e))
        return e->code;
    open_set_state(s, d, &row->task);
    if (s->in.n)
        row->task.due_ms = row->task.scheduled_ms = p->now_ms;
    row->ends = s->ends_run;
    row->drops_signals = state && s->await.signal.n;
    return arena_str(v->a, s->await.signal, &row->signal) ? ERR_OK : error_no_room(e);
}

/* The deadline is a task of its own, so that it fires whoever lives then. */
static void open_add_deadline(const struct run_view *v, const struct plan *p, struct open_row *row)
{
    int64_t place = place_of_deadline(), at_ms = v->row.deadline_ms;
    row->task = (struct task){ .id = place_id(v->task.id, place),
                               .tenant = v->task.tenant,
                               .trace = trace_for_steps(&v->task),
                               .kind = TASK_ONE_TIME,
                               .state = TASK_SCHEDULED,
                               .run = v->task.id,
                               .place = place,
                               .due_ms = at_ms,
                               .scheduled_ms = at_ms,
                               .version = 1,
                               .priority = v->task.priority,
                               .queue = v->task.queue,
                               .retry = { .max_attempts = 1 },
                               .links = TASK_OPENED,
                               .target = TARGET_WORKFLOW,
                               .created_ms = p->now_ms,
                               .updated_ms = p->now_ms };
}

/* Adds the rows of steps whose outcome is open: wait true, those that wait; else those that start. */
static enum err open_add_steps(struct run_view *v, struct plan *p, const struct flow_state *state, bool wait,
                               struct open_row *rows, size_t *n, struct error *e)
{
    const struct dag *d = v->dag;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t step = d->order[i];
        bool waits = state ? state->v[step].decision == FLOW_WAIT : d->steps[step].in.n > 0;
        if ((state && state->v[step].outcome != FLOW_OPEN) || waits != wait)
            continue;
        if (open_add_step(v, p, step, state, &rows[*n], e))
            return e->code;
        ++*n;
    }
    return ERR_OK;
}

/* After n rows that are there already: the steps that wait, the deadline, and the steps that start. */
static enum err open_add_rest(struct run_view *v, struct plan *p, const struct flow_state *state, struct open_row *rows,
                              size_t n, struct error *e)
{
    if (open_add_steps(v, p, state, true, rows, &n, e))
        return e->code;
    if (v->row.deadline_ms)
        open_add_deadline(v, p, &rows[n++]);
    if (open_add_steps(v, p, state, false, rows, &n, e))
        return e->code;
    p->begin = v->row;
    p->open.begin = &p->begin;
    p->open.first = true;
    for (size_t i = 0; i < n; i++)
        p->open.expected += rows[i].ends;
    p->open.rows = rows;
    p->open.n = n;
    return ERR_OK;
}

enum err open_run_rows(struct run_view *v, struct plan *p, struct error *e)
{
    struct open_row *rows = arena_array(v->a, struct open_row, v->dag->n + 1);
    if (!rows)
        return error_no_room(e);
    open_begin(v, p);
    return open_add_rest(v, p, NULL, rows, 0, e);
}

/* Steps that a retry leaves skipped get a row as well: it may have been another state before. */
static enum err open_add_skipped(struct run_view *v, struct plan *p, const enum flow_outcome *kept,
                                 const struct flow_state *state, struct open_row *rows, size_t *n, struct error *e)
{
    for (uint32_t step = 0; step < v->dag->n; step++) {
        enum flow_outcome o = state->v[step].outcome;
        if (kept[step] != FLOW_OPEN || o == FLOW_OPEN)
            continue;
        struct open_row *row = &rows[(*n)++];
        if (open_add_step(v, p, step, state, row, e))
            return e->code;
        row->task.state = flow_task_state(o);
        row->task.links = (row->task.links & ~TASK_WAITS) | (o == FLOW_BROKEN ? TASK_BROKEN : 0);
        row->task.completed_ms = p->now_ms;
        row->ends = false;
    }
    return ERR_OK;
}

/* Who completed it is kept with the row (settled_by), beside what the definition says. */
static enum err open_set_settled(struct run_view *v, struct str by, struct task *t, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct str rest = t->extra.n ? str_sub(t->extra, 1, t->extra.n) : S("}");
    buf_init(&text, t->extra.n + by.n + 64);
    if (!by.n)
        return ERR_OK;
    buf_printf(&text, "{\"%s\":\"" STR_FMT "\"%s" STR_FMT, SETTLED_BY, STR_ARG(by), rest.n > 1 ? "," : "",
               STR_ARG(rest));
    return !text.full && arena_str(v->a, buf_str(&text), &t->extra) ? ERR_OK : error_no_room(e);
}

static enum err open_add_completed(struct run_view *v, struct plan *p, const struct open_completed *done,
                                   struct open_row *row, struct error *e)
{
    if (open_add_step(v, p, done->step, NULL, row, e))
        return e->code;
    row->task.state = TASK_COMPLETED;
    row->task.links = (row->task.links & ~(TASK_WAITS | TASK_PLANNED)) | TASK_BY_HAND;
    row->task.completed_ms = p->now_ms;
    row->edges = NULL;
    row->n = 0;
    row->ends = false;
    row->has_output = done->output.n > 0;
    if (open_set_settled(v, done->by, &row->task, e))
        return e->code;
    return arena_str(v->a, done->output, &row->output) ? ERR_OK : error_no_room(e);
}

enum err open_again_rows(struct run_view *v, const enum flow_outcome *kept, const struct open_completed *done,
                         int64_t begun_ms, struct plan *p, struct error *e)
{
    struct flow_state state;
    struct open_row *rows = arena_array(v->a, struct open_row, v->dag->n + 2);
    size_t n = 0;
    if (!rows)
        return error_no_room(e);
    if (flow_state(v->dag, kept, v->a, &state, e))
        return e->code;
    open_begin(v, p);
    if (done->is_set && open_add_completed(v, p, done, &rows[n++], e))
        return e->code;
    if (open_add_skipped(v, p, kept, &state, rows, &n, e) || open_add_rest(v, p, &state, rows, n, e))
        return e->code;
    p->open.again = true;
    p->open.begun_ms = begun_ms;
    for (size_t i = 0; i < p->open.n; i++)
        rows[i].task.created_ms = begun_ms;
    return ERR_OK;
}

/* A copy of a row that has ended, with its output. Receivers have seen it under the old run's ids. */
static enum err open_copy_row(struct run_view *v, struct run_view *old, const struct task *was, const struct plan *p,
                              struct open_row *row, struct error *e)
{
    struct run_outputs outs;
    uint32_t step = place_step(was->place);
    struct run_facts facts = run_view_facts(v);
    bool is_item = place_item(was->place) >= 0;
    enum err rc = is_item ? definition_item_task(v->dag, step, &facts, p->now_ms, v->a, &row->task, e)
                          : open_add_step(v, p, step, NULL, row, e);
    if (rc || reader_outputs(v->c->reader, old->task.id, was->place, was->place, 1, v->a, &outs, e))
        return e->code;
    definition_move_task(&row->task, was->place);
    row->task.state = was->state;
    row->task.links = (row->task.links & ~(TASK_WAITS | TASK_PLANNED)) | (was->links & TASK_BROKEN);
    row->task.started_ms = was->started_ms;
    row->task.completed_ms = was->completed_ms;
    row->task.last_error = S(COPIED_ROW);
    row->edges = NULL;
    row->n = 0;
    row->ends = false;
    row->output = outs.n > 0 && outs.v[0].whole ? outs.v[0].text : output_by_hand(was);
    row->has_output = row->output.n > 0 || (outs.n > 0 && outs.v[0].whole);
    return ERR_OK;
}

static bool open_is_copied(const struct task *t, const enum flow_outcome *kept)
{
    return place_kind(t->place) == PLACE_KIND_STEP && kept[place_step(t->place)] != FLOW_OPEN &&
           task_is_final(t->state);
}

enum err open_copy_rows(struct run_view *v, struct run_view *old, const struct run_progress *g,
                        const enum flow_outcome *kept, struct plan *p, struct error *e)
{
    struct flow_state state;
    struct open_row *rows = arena_array(v->a, struct open_row, v->dag->n + g->tasks.n + 1);
    size_t n = 0;
    if (!rows)
        return error_no_room(e);
    if (flow_state(v->dag, kept, v->a, &state, e))
        return e->code;
    open_begin(v, p);
    for (size_t i = 0; i < g->tasks.n; i++)
        if (open_is_copied(&g->tasks.v[i], kept) && open_copy_row(v, old, &g->tasks.v[i], p, &rows[n++], e))
            return e->code;
    return open_add_skipped(v, p, kept, &state, rows, &n, e) ? e->code : open_add_rest(v, p, &state, rows, n, e);
}

enum err open_item_rows(struct run_view *v, uint32_t step, struct str items, size_t n, const bool *done, struct plan *p,
                        struct error *e)
{
    struct run_facts facts;
    struct open_row *rows = arena_array(v->a, struct open_row, n + 1);
    struct json_cursor cursor = { .text = items };
    struct str name, value;
    struct task first;
    size_t added = 0;
    if (!rows)
        return error_no_room(e);
    if (run_view_task(v, e))
        return e->code;
    facts = run_view_facts(v);
    if (definition_item_task(v->dag, step, &facts, p->now_ms, v->a, &first, e))
        return e->code;
    /* The plan of an item looks whether its map has failed meanwhile, which nobody sees of a NOOP. With a compensation,
     * its item is kept with it. */
    bool plans = first.target != TARGET_WORKFLOW && (first.target != TARGET_NOOP || v->dag->steps[step].has_compensate);
    for (size_t i = 0; i < n && json_next(&cursor, &name, &value); i++) {
        if (done && done[i])
            continue;
        struct open_row *row = &rows[added++];
        row->task = first;
        definition_move_task(&row->task, place_of_item(step, (int64_t)i));
        row->task.created_ms = p->task->created_ms; /* OP_OPEN 4: all items of one opening have the same */
        row->task.links |= plans ? TASK_PLANNED : 0;
        if (row->task.links & TASK_PLANNED || first.target == TARGET_WORKFLOW)
            row->task.payload = value; /* what /item names */
        row->task.links |= TASK_HAS_CHILDREN;
        row->ends = true;
    }
    open_begin(v, p);
    p->open.end_type = DAG_MUST_SUCCEED;
    p->open.first = true;
    p->open.again = done != NULL;
    p->open.expected = (uint32_t)added;
    p->open.max_broken = v->dag->steps[step].map.max_failures;
    p->open.rows = rows;
    p->open.n = added;
    return ERR_OK;
}
