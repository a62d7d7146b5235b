/* Runs that begin again, and the compensation of what a run did. */
#include "workflow/internal.h"

/* ---- retry ---- */

/* The steps that the user named; none: all that can be retried. */
static enum err again_named_steps(struct run_view *v, const struct json_doc *extra, struct flow_retry *r,
                                  struct error *e)
{
    json_t *names = json_object_get(extra->root, "retry_steps");
    uint32_t *steps = arena_array(v->a, uint32_t, json_array_size(names) + 1);
    if (!steps)
        return error_no_room(e);
    for (size_t i = 0; i < json_array_size(names); i++) {
        struct str name = str_from(json_string_value(json_array_get(names, i)));
        if (dag_find_or_explain(v->dag, name, &steps[r->count++], e))
            return e->code;
    }
    r->steps = steps;
    return ERR_OK;
}

/* The failed step that a user completes: the others are retried. If it is COMPLETED, the opening was cut off. */
static enum err again_completed_step(struct run_view *v, const struct json_doc *extra, enum flow_outcome *was,
                                     struct flow_retry *r, struct error *e)
{
    struct str name = json_text_at(extra->root, "retry_completes");
    uint32_t *step = arena_new(v->a, uint32_t);
    if (!name.p)
        return ERR_OK;
    if (!step)
        return error_no_room(e);
    if (dag_find_or_explain(v->dag, name, step, e))
        return e->code;
    was[*step] = FLOW_FAILED;
    *r = (struct flow_retry){ .was = was, .steps = step, .count = 1, .completes = true, .begun = r->begun };
    return ERR_OK;
}

/* How the steps ended before the retry. If its opening was cut off, the steps that it has opened are open, also if they
 * have ended since: the retry is planned as it was the first time, and the store keeps their rows. */
static enum flow_outcome *again_outcomes(struct run_view *v, const struct run_progress *g)
{
    enum flow_outcome *was = arena_array(v->a, enum flow_outcome, v->dag->n);
    for (uint32_t i = 0; was && i < v->dag->n; i++) {
        bool opened = g->begun && g->steps[i] && g->steps[i]->created_ms >= g->begun_ms;
        was[i] = opened ? FLOW_OPEN : g->outcomes[i];
    }
    return was;
}

enum err plan_again(struct run_view *v, const struct run_progress *g, struct plan *p, struct error *e)
{
    enum flow_outcome *kept = arena_array(v->a, enum flow_outcome, v->dag->n), *was = again_outcomes(v, g);
    struct flow_retry r = { .was = was, .begun = g->begun };
    cleanup_with(json_doc_release) struct json_doc extra = { 0 };
    if (!kept || !was)
        return error_no_room(e);
    if (json_parse(p->task->extra.n ? p->task->extra : S("{}"), &extra, e) || again_named_steps(v, &extra, &r, e) ||
        again_completed_step(v, &extra, was, &r, e))
        return e->code;
    enum err rc = flow_retry(v->dag, &r, v->a, kept, e);
    if (rc == ERR_CONFLICT) { /* it was named before and has ended otherwise since: all that can be retried */
        r.count = 0;
        rc = flow_retry(v->dag, &r, v->a, kept, e);
    }
    if (rc)
        return rc;
    bool keeps_deadline = g->begun || run_awaits_attempt(p->task); /* else it counts from the new opening */
    if (!keeps_deadline && run_view_deadline(v, p->now_ms, e))
        return e->code;
    struct open_completed done = { 0 };
    if (r.completes) {
        done = (struct open_completed){ .is_set = true, .step = r.steps[0] };
        done.output = json_member_text(&extra, "retry_output");
        done.by = json_text_at(extra.root, "retry_by");
    }
    return open_again_rows(v, kept, &done, g->begun_ms, p, e);
}

/* ---- rerun ---- */

/* A step was undone if its compensation, or that of one of its items, is COMPLETED. */
static void rerun_undone(const struct run_progress *g, bool *undone)
{
    for (size_t i = 0; i < g->tasks.n; i++) {
        const struct task *t = &g->tasks.v[i];
        if (place_kind(t->place) == PLACE_KIND_UNDO && t->state == TASK_COMPLETED)
            undone[place_step(t->place)] = true;
    }
}

static enum err rerun_kept(struct run_view *old, const struct run_progress *g, struct str from, enum flow_outcome *kept,
                           struct error *e)
{
    const struct dag *d = old->dag;
    bool *undone = arena_array(old->a, bool, d->n);
    uint32_t step = 0;
    if (!undone)
        return error_no_room(e);
    if (from.p && dag_find_or_explain(d, from, &step, e))
        return error_in(e, "from");
    rerun_undone(g, undone);
    if (from.p)
        return flow_rerun(d, g->outcomes, undone, step, old->a, kept, e);
    return ERR_OK; /* from the beginning: nothing is kept */
}

static enum err plan_copies(struct run_view *v, struct run_view *old, struct str from, struct plan *p, struct error *e)
{
    struct run_progress g;
    enum flow_outcome *kept = arena_array(v->a, enum flow_outcome, v->dag->n);
    if (!kept)
        return error_no_room(e);
    if (run_view_task(old, e) || run_progress_read(old, &g, e) || rerun_kept(old, &g, from, kept, e))
        return e->code;
    return open_copy_rows(v, old, &g, kept, p, e);
}

/* Edited before it was opened, it may have another definition: then it has nothing in common with the old run. */
enum err plan_rerun(struct run_view *v, const struct json_doc *extra, struct plan *p, struct error *e)
{
    struct str text = json_text_at(extra->root, TASK_RERUN_OF), from = json_text_at(extra->root, TASK_RERUN_FROM);
    struct run_view old = { 0 };
    struct uuid id;
    if (!uuid_parse(text, &id))
        return error_field(e, TASK_RERUN_OF, "is no id");
    enum err rc = run_view_read(&old, v->c, v->task.tenant, id, v->a, e);
    if (!rc && !old.has_row)
        rc = error_field(e, TASK_RERUN_OF, "was never opened");
    else if (!rc && memcmp(old.row.hash, v->row.hash, DEFINITION_HASH) != 0)
        rc = open_run_rows(v, p, e);
    else if (!rc)
        rc = plan_copies(v, &old, from, p, e);
    run_view_release(&old);
    return rc;
}

/* ---- compensation ---- */

/* A retry gives a step a new row, without the attempts that it had: these are in its history. A row that nobody has
 * claimed has none. */
static enum err undo_was_sent(struct run_view *v, const struct task *t, bool *ret, struct error *e)
{
    struct execution_filter f = { .tenant = t->tenant, .task = t->id, .limit = 1 };
    struct execution_page page = { 0 };
    struct arena_mark mark = arena_mark(v->a);
    *ret = task_has_fired(t);
    if (*ret || !t->fence)
        return ERR_OK;
    if (reader_executions(v->c->reader, &f, v->a, &page, e))
        return e->code;
    *ret = page.executions.n > 0;
    arena_rewind(v->a, mark);
    return ERR_OK;
}

/* What the outside has seen of a step or an item; SENT is only asked for if its compensation needs to know. */
static enum err undo_reach_of(struct run_view *v, const struct task *t, enum flow_reach *ret, struct error *e)
{
    const struct dag_step *s = &v->dag->steps[place_step(t->place)];
    bool is_copy = str_eq(t->last_error, S(COPIED_ROW)), is_sent = false;
    if (!is_copy && t->state != TASK_COMPLETED && s->compensate_if_attempted && undo_was_sent(v, t, &is_sent, e))
        return e->code;
    *ret = is_copy ? FLOW_UNTOUCHED : t->state == TASK_COMPLETED ? FLOW_DONE : is_sent ? FLOW_SENT : FLOW_UNTOUCHED;
    return ERR_OK;
}

static bool undo_is_call(const struct run_view *v, const struct task *t)
{
    bool is_item = place_item(t->place) >= 0;
    return place_kind(t->place) == PLACE_KIND_STEP && v->dag->steps[place_step(t->place)].map.is_set == is_item;
}

/* By task, and by step: of a map, the most that the outside has seen of an item. */
struct undo_reach {
    enum flow_reach *tasks, *steps;
};

static enum err undo_reach_read(struct run_view *v, const struct run_progress *g, struct undo_reach *ret,
                                struct error *e)
{
    ret->tasks = arena_array(v->a, enum flow_reach, g->tasks.n + 1);
    ret->steps = arena_array(v->a, enum flow_reach, v->dag->n);
    if (!ret->tasks || !ret->steps)
        return error_no_room(e);
    for (size_t i = 0; i < g->tasks.n; i++) {
        const struct task *t = &g->tasks.v[i];
        uint32_t step = place_step(t->place);
        if (!undo_is_call(v, t))
            continue;
        if (undo_reach_of(v, t, &ret->tasks[i], e))
            return e->code;
        ret->steps[step] = max_of(ret->steps[step], ret->tasks[i]);
    }
    return ERR_OK;
}

static bool undo_is_wanted(const struct dag_step *s, enum flow_reach r)
{
    return r == FLOW_DONE || (r == FLOW_SENT && s->compensate_if_attempted);
}

/* One wave. */
struct undo_wave {
    struct open_row *rows; /* of compensations that do not exist yet, or run again */
    size_t n;
    size_t open; /* compensations that exist and are not final */
};

static const struct task *undo_find(const struct run_progress *g, int64_t place)
{
    size_t from = 0, to = g->tasks.n; /* tasks are ordered by place */
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (g->tasks.v[middle].place < place)
            from = middle + 1;
        else
            to = middle;
    }
    return from < g->tasks.n && g->tasks.v[from].place == place ? &g->tasks.v[from] : NULL;
}

/* A retry of the run repeats those of all waves that have ended before it and are not COMPLETED. */
static bool undo_exists(const struct run_progress *g, int64_t place, struct undo_wave *w)
{
    const struct task *t = undo_find(g, place);
    bool is_open = t && !task_is_final(t->state);
    w->open += is_open;
    return t && (is_open || t->created_ms >= g->begun_ms || t->state == TASK_COMPLETED);
}

static enum err undo_add(struct run_view *v, const struct run_progress *g, const struct task *of, struct undo_wave *w,
                         const struct plan *p, struct error *e)
{
    struct run_facts facts = run_view_facts(v);
    uint32_t step = place_step(of->place);
    if (undo_exists(g, place_of_undo(step, place_item(of->place)), w))
        return ERR_OK;
    struct open_row *row = &w->rows[w->n];
    if (definition_undo_task(v->dag, step, place_item(of->place), &facts, p->now_ms, v->a, &row->task, e))
        return e->code;
    row->task.created_ms = g->begun_ms;
    row->task.links |= TASK_HAS_CHILDREN;
    if (place_item(of->place) >= 0 && row->task.links & TASK_PLANNED)
        row->task.payload = of->payload; /* what /item names */
    row->ends = true;
    w->n++;
    return ERR_OK;
}

static enum err undo_add_step(struct run_view *v, const struct run_progress *g, const struct undo_reach *reach,
                              uint32_t step, struct undo_wave *w, const struct plan *p, struct error *e)
{
    for (size_t i = 0; i < g->tasks.n; i++) {
        const struct task *t = &g->tasks.v[i];
        if (place_step(t->place) != step || !undo_is_call(v, t) ||
            !undo_is_wanted(&v->dag->steps[step], reach->tasks[i]))
            continue;
        if (undo_add(v, g, t, w, p, e))
            return e->code;
    }
    return ERR_OK;
}

enum err plan_undo(struct run_view *v, const struct run_progress *g, struct plan *p, bool *ret_over, struct error *e)
{
    struct undo_reach reach;
    struct undo_wave w = { .rows = arena_array(v->a, struct open_row, g->tasks.n + 1) };
    struct flow_undo undo;
    if (!w.rows)
        return error_no_room(e);
    if (undo_reach_read(v, g, &reach, e) || flow_undo(v->dag, reach.steps, v->a, &undo, e))
        return e->code;
    for (uint32_t wave = 0; wave < undo.waves && !w.n && !w.open; wave++)
        for (uint32_t i = undo.wave_from[wave]; i < undo.wave_from[wave + 1]; i++)
            if (undo_add_step(v, g, &reach, undo.steps[i], &w, p, e))
                return e->code;
    *ret_over = w.n == 0 && g->open_count == 0;
    if (*ret_over)
        return ERR_OK;
    /* If an opening was cut off, some of the wave exist, and the join expects the others, too: it begins anew. Those
     * that exist may end before this is stored, and must not run again: so they are no rows of it. */
    open_begin(v, p);
    p->open.first = p->open.again = p->open.despite_stop = true;
    p->open.begun_ms = g->again ? g->begun_ms : 0;
    p->open.expected = (uint32_t)w.n;
    p->open.rows = w.rows;
    p->open.n = w.n;
    p->open.also = g->open;
    p->open.also_count = g->open_count;
    return ERR_OK;
}
