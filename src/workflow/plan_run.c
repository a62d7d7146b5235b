/* What happens with a claimed run: it is opened, or it has waited for its steps and ends, begins again or undoes what
 * it did. */
#include <assert.h>
#include <stdio.h>

#include "workflow/internal.h"

/* ---- opening ---- */

enum err run_view_deadline(struct run_view *v, int64_t now_ms, struct error *e)
{
    if (run_view_config(v, e))
        return e->code;
    int64_t in_ms = json_seconds_at(v->config.root, "deadline_seconds");
    v->row.opened_ms = v->row.opened_ms ? v->row.opened_ms : now_ms;
    v->row.deadline_ms = in_ms ? now_ms + in_ms : 0;
    return ERR_OK;
}

/* The condition of a step that is a workflow. */
static enum err run_may_open(struct run_view *v, bool *ret, struct error *e)
{
    *ret = true;
    if (!v->outer || !v->outer->dag->steps[place_step(v->task.place)].has_when)
        return ERR_OK;
    struct run_data data = { v->outer, &v->task };
    struct reference_data references = run_data_references(&data);
    struct step_data step;
    if (step_data_read(&v->outer->dag->steps[place_step(v->task.place)], &step, e))
        return e->code;
    enum err rc = step_data_when(&step, &references, ret, e);
    step_data_release(&step);
    return rc;
}

static enum err plan_open_rows(struct run_view *v, struct plan *p, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc extra = { 0 };
    if (v->outer || !v->task.extra.n)
        return open_run_rows(v, p, e);
    if (json_parse(v->task.extra, &extra, e))
        return e->code;
    return json_object_get(extra.root, TASK_RERUN_OF) ? plan_rerun(v, &extra, p, e) : open_run_rows(v, p, e);
}

static enum err plan_open(struct run_view *v, struct plan *p, struct error *e)
{
    bool may_open;
    if (v->outer && v->outer->row.stop != RUN_GOES_ON) {
        plan_cancel(p, run_stop_reason(v->outer->row.stop));
        return ERR_OK;
    }
    if (run_may_open(v, &may_open, e))
        return e->code;
    if (!may_open) {
        plan_end(p, &(struct outcome){ .kind = OUTCOME_SKIPPED, .error = S("skipped: its condition does not hold") });
        return ERR_OK;
    }
    if (run_view_pin(v, e) || run_view_deadline(v, p->now_ms, e))
        return e->code;
    return plan_open_rows(v, p, e);
}

/* ---- waiting on ---- */

/* Steps that a user started or skipped by hand did not wait for their parents: the run waits for those. The join may be
 * that of compensations, and expect more of them, or of an opening that a stop cut off, and expect steps that have no
 * row: then it begins anew. */
static void plan_wait(struct run_view *v, const struct run_progress *g, struct plan *p)
{
    open_begin(v, p);
    p->open.despite_stop = true;
    p->open.first = p->open.again = g->has_undo || g->missing;
    p->open.also = g->open;
    p->open.also_count = g->open_count;
}

static void plan_stop(struct plan *p, struct uuid run, enum run_stop stop, struct str why)
{
    p->kind = PLAN_STOP;
    p->stop.run = run;
    p->stop.stop = stop;
    p->stop.why = why;
}

/* For the steps of a run within one that was stopped. */
static struct str run_stop_reason_within(enum run_stop s)
{
    return s == RUN_AT_DEADLINE ? run_stop_reason(s) : S("cancelled: the run around it was stopped");
}

/* The runs within this one that are open and were not stopped yet. */
static enum err run_find_inner(struct run_view *v, const struct run_progress *g, struct uuid **ret, size_t *ret_count,
                               struct error *e)
{
    *ret_count = 0;
    *ret = arena_array(v->a, struct uuid, g->open_count + 1);
    if (!*ret)
        return error_no_room(e);
    for (size_t i = 0; i < g->tasks.n; i++) {
        const struct task *t = &g->tasks.v[i];
        struct run_row inner;
        if (task_is_final(t->state) || !(t->links & TASK_OPENED) || place_kind(t->place) != PLACE_KIND_STEP)
            continue;
        enum err rc = reader_run(v->c->reader, t->tenant, t->id, v->a, &inner, e);
        if (rc && rc != ERR_NOT_FOUND)
            return rc;
        if (!rc && (inner.stop == RUN_GOES_ON || t->links & TASK_AGAIN))
            (*ret)[(*ret_count)++] = t->id;
    }
    return ERR_OK;
}

static enum err plan_stopped(struct run_view *v, const struct run_progress *g, struct plan *p, struct error *e)
{
    struct uuid *inner;
    size_t n;
    if (g->waiting) {
        plan_stop(p, v->task.id, v->row.stop, run_stop_reason(v->row.stop));
        return ERR_OK;
    }
    if (run_find_inner(v, g, &inner, &n, e))
        return e->code;
    if (!n) {
        plan_wait(v, g, p);
        return ERR_OK;
    }
    plan_stop(p, inner[0], v->row.stop, run_stop_reason_within(v->row.stop));
    p->stop.others = inner + 1;
    p->stop.other_count = n - 1;
    return ERR_OK;
}

/* ---- the end ---- */

/* Whether a run that ended so is compensated. */
static bool run_is_undone(const struct run_view *v, const struct flow_result *r, const struct task *t)
{
    if (!v->dag->has_compensate || r->state == TASK_COMPLETED)
        return false;
    if (r->state == TASK_CANCELLED)
        return v->row.stop == RUN_CANCELLED_AND_UNDONE;
    return t->attempts + 1 >= t->retry.max_attempts || v->row.stop == RUN_AT_DEADLINE ||
           r->cause == FLOW_CAUSE_RESULT; /* it is not retried by itself */
}

/* Whether a run within this one, whose failure fails it, was compensated: that run cannot go on where it failed. */
static enum err run_has_undone_below(struct run_view *v, const struct run_progress *g, bool *ret, struct error *e)
{
    struct flow_state state;
    *ret = false;
    if (flow_state(v->dag, g->outcomes, v->a, &state, e))
        return e->code;
    for (size_t i = 0; i < g->tasks.n && !*ret; i++) {
        const struct task *t = &g->tasks.v[i];
        struct tasks undo = { 0 };
        struct step_filter f = {
            .tenant = t->tenant, .run = t->id, .has_after = true, .after = place_of_undo(0, -1) - 1, .limit = 1
        };
        bool is_run = t->target == TARGET_WORKFLOW && t->links & TASK_OPENED && place_kind(t->place) == PLACE_KIND_STEP;
        if (!is_run || t->state == TASK_COMPLETED || !flow_step_fails_run(v->dag, &state, place_step(t->place)))
            continue;
        if (reader_steps(v->c->reader, &f, v->a, &undo, e))
            return e->code;
        *ret = undo.n && place_kind(undo.v[0].place) == PLACE_KIND_UNDO;
    }
    return ERR_OK;
}

static enum flow_stop run_flow_stop(enum run_stop s)
{
    return s == RUN_GOES_ON ? FLOW_NOT_STOPPED : s == RUN_AT_DEADLINE ? FLOW_STOP_DEADLINE : FLOW_STOP_CANCEL;
}

static void plan_failed_by_step(struct run_view *v, const struct run_progress *g, uint32_t step, struct plan *p)
{
    const struct task *t = g->steps[step];
    char text[512];
    int n = snprintf(text, sizeof text, "step '" STR_FMT "' is %s%s" STR_FMT, STR_ARG(v->dag->steps[step].name),
                     t ? task_state_name(t->state) : "FAILED", t && t->last_error.n ? ": " : "",
                     STR_ARG(t ? str_utf8_cut(t->last_error, 380) : S("")));
    plan_fail_text(p, FAILURE_INTERNAL, (struct str){ text, min_of((size_t)n, sizeof text - 1) });
    p->outcome.by_step = true;
}

static void plan_ended(struct run_view *v, const struct run_progress *g, const struct flow_result *r, struct str result,
                       const struct error *no_result, struct plan *p)
{
    if (r->state == TASK_CANCELLED) {
        plan_cancel(p, v->row.stopped_by.n ? v->row.stopped_by : S("cancelled"));
        return;
    }
    switch (r->cause) {
    case FLOW_CAUSE_STEP: plan_failed_by_step(v, g, r->step, p); return;
    case FLOW_CAUSE_RESULT: plan_fail(p, no_result); return;
    case FLOW_CAUSE_DEADLINE: plan_fail_text(p, FAILURE_TIMEOUT, S("deadline: the run was not over in time")); return;
    case FLOW_CAUSE_NONE: break;
    }
    plan_end(p, &(struct outcome){ .kind = OUTCOME_OK, .output = result, .started_us = plan_started_us(p) });
}

/* A run that could not undo all that it did says so wherever its error is shown. */
static void plan_add_undo(const struct run_progress *g, struct plan *p)
{
    char text[640];
    size_t failed = 0, total = 0;
    struct str kept;
    for (size_t i = 0; i < g->tasks.n; i++) {
        bool is_undo = place_kind(g->tasks.v[i].place) == PLACE_KIND_UNDO;
        total += is_undo;
        failed += is_undo && g->tasks.v[i].state != TASK_COMPLETED;
    }
    if (!failed)
        return;
    int n = snprintf(text, sizeof text, STR_FMT "; compensation INCOMPLETE, %zu of %zu failed",
                     STR_ARG(str_utf8_cut(p->outcome.error, 512)), failed, total);
    if (arena_str(&p->arena, (struct str){ text, min_of((size_t)n, sizeof text - 1) }, &kept))
        p->outcome.error = kept;
}

static enum err run_judge(struct run_view *v, const struct run_progress *g, struct flow_result *ret, struct str *result,
                          struct error *no_result, struct error *e)
{
    struct flow_state state;
    struct run_data data = { v, NULL };
    struct reference_data references = run_data_references(&data);
    if (flow_state(v->dag, g->outcomes, v->a, &state, e))
        return e->code;
    if (state.open &&
        v->row.stop == RUN_GOES_ON) /* its rows are read from the store: a wrong one must not end the node */
        return error_set(e, ERR_CORRUPT, "%u steps of the run are gone", state.open);
    enum err rc = dag_result(v->dag, &references, v->a, result, no_result);
    if (rc == ERR_UNAVAILABLE) {
        *e = *no_result;
        return rc;
    }
    *ret = flow_result(v->dag, &state, run_flow_stop(v->row.stop), !rc);
    return ERR_OK;
}

static void plan_close_timer(struct run_view *v, struct plan *p)
{
    plan_stop(p, v->task.id, RUN_GOES_ON, S("its run is over"));
    p->stop.has_range = true;
    p->stop.from = p->stop.to = place_of_deadline();
}

/* The deadline is that of all attempts: it stays while the run waits for the next one. */
static enum err plan_close(struct run_view *v, const struct run_progress *g, struct plan *p, struct error *e)
{
    struct flow_result r = { 0 };
    struct str result;
    struct error no_result = { 0 };
    bool over = true;
    if (run_judge(v, g, &r, &result, &no_result, e))
        return e->code;
    bool has_attempts = r.state == TASK_FAILED && p->task->attempts + 1 < p->task->retry.max_attempts;
    bool undone_below = false;
    if (has_attempts && run_has_undone_below(v, g, &undone_below, e))
        return e->code;
    bool undoes = run_is_undone(v, &r, p->task) || (undone_below && v->dag->has_compensate);
    bool attempts_left = has_attempts && !undoes && !g->has_undo && !undone_below && r.cause == FLOW_CAUSE_STEP;
    if (g->has_timer && !attempts_left) { /* first: the deadline is none of the compensation's */
        plan_close_timer(v, p);
        return ERR_OK;
    }
    if ((g->has_undo || undoes) && plan_undo(v, g, p, &over, e))
        return e->code;
    if (!over)
        return ERR_OK;
    plan_ended(v, g, &r, result, &no_result, p);
    if (g->again) { /* a user has undone what was left: nothing was opened, which would have set its start */
        p->outcome.started_us = g->begun_ms * 1000;
        p->outcome.begun_again = true;
    }
    if (has_attempts && !attempts_left)
        p->outcome.failure = FAILURE_REFUSED; /* a further attempt could not go on: steps were undone, or it is late */
    if (r.state != TASK_COMPLETED)
        plan_add_undo(g, p);
    return ERR_OK;
}

/* Later than all rows that exist, whatever the clocks of nodes say. */
static int64_t run_begun_ms(const struct run_progress *g, int64_t now_ms)
{
    int64_t ms = now_ms;
    for (size_t i = 0; i < g->tasks.n; i++)
        ms = max_of(ms, g->tasks.v[i].created_ms + 1);
    return ms;
}

static bool run_links_again(int links)
{
    return links & TASK_AGAIN || !(links & TASK_OPENED);
}

/* p->task is as it was claimed. A stop that came after the claim has cleared TASK_AGAIN, and pages of an opening under
 * this claim have set TASK_OPENED or TASK_BEGUN: the row is read again. A stop that came after the first page of a
 * retry holds. */
static enum err run_begins_again(struct run_view *v, const struct plan *p, struct run_progress *g, struct error *e)
{
    struct task now;
    g->begun_ms = p->task->started_ms;
    if (!run_links_again(p->task->links))
        return ERR_OK;
    if (reader_get(v->c->reader, v->task.tenant, v->task.id, v->a, &now, e))
        return e->code;
    bool goes_on = !(p->task->links & TASK_OPENED) && v->row.generation > 0 &&
                   v->row.stop == RUN_GOES_ON; /* a sub-run that began again, page by page */
    g->begun = now.links & TASK_BEGUN;
    g->again = (run_links_again(now.links) && !(g->begun && v->row.stop != RUN_GOES_ON)) || goes_on;
    g->begun_ms = g->again && !g->begun ? run_begun_ms(g, p->now_ms) : now.started_ms;
    return ERR_OK;
}

/* A run that is about to begin again is stopped like one that runs if it has to undo what it did. Not OPENED: its row
 * was replaced by the retry of the run around it, and no stop would be its own. */
static bool run_is_stopped_to_undo(const struct run_view *v, const struct plan *p)
{
    int again = TASK_OPENED | TASK_AGAIN;
    return v->outer->row.stop != RUN_CANCELLED && (p->task->links & again) == again;
}

/* The run around it was stopped, and this one was not, or is about to begin again. False: it goes on. */
static bool plan_stopped_around(struct run_view *v, const struct run_progress *g, struct plan *p)
{
    bool is_stopped = v->outer && v->outer->row.stop != RUN_GOES_ON && (v->row.stop == RUN_GOES_ON || g->again);
    if (!is_stopped || g->has_undo)
        return false;
    if (g->waiting || (!g->again && (g->missing || g->open_count)) || (g->again && run_is_stopped_to_undo(v, p)))
        plan_stop(p, v->task.id, v->outer->row.stop, run_stop_reason_within(v->outer->row.stop));
    else if (g->open_count)
        plan_wait(v, g, p);
    else if (g->again)
        plan_cancel(p, run_stop_reason(v->outer->row.stop));
    else
        return false;
    return true;
}

static enum err plan_next(struct run_view *v, struct plan *p, struct error *e)
{
    struct run_progress g;
    if (!v->has_row)
        return plan_open(v, p, e);
    if (run_progress_read(v, &g, e) || run_begins_again(v, p, &g, e))
        return e->code;
    if (plan_stopped_around(v, &g, p))
        return ERR_OK;
    if (g.has_undo && !g.open_steps) /* what has begun goes on, also if its opening was cut off */
        return plan_close(v, &g, p, e);
    if (g.again && !g.has_undo && run_awaits_attempt(p->task) && run_is_late(&v->row, p->now_ms)) {
        plan_stop(p, v->task.id, RUN_AT_DEADLINE, run_stop_reason(RUN_AT_DEADLINE));
        return ERR_OK;
    }
    if (g.again && !g.has_undo)
        return plan_again(v, &g, p, e);
    if (g.missing && v->row.stop == RUN_GOES_ON)
        return plan_open_rows(v, p, e);
    if (!g.open_count)
        return plan_close(v, &g, p, e);
    if (v->row.stop != RUN_GOES_ON)
        return plan_stopped(v, &g, p, e);
    plan_wait(v, &g, p);
    return ERR_OK;
}

/* A step that its outer run has opened anew was due by its own row, until it is retried by itself. */
enum err plan_run(struct run_view *v, struct plan *p, struct error *e)
{
    enum err rc = plan_next(v, p, e);
    bool is_step = !uuid_is_nil(p->task->run);
    bool again = v->has_row && p->task->started_ms > v->row.opened_ms && (!is_step || p->task->attempts);
    if (p->kind == PLAN_END && again)
        p->outcome.begun_again = true;
    return rc;
}
