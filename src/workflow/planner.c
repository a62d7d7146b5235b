#include "workflow/planner.h"

#include <assert.h>

#include "workflow/internal.h"

void plan_end(struct plan *p, const struct outcome *o)
{
    p->kind = PLAN_END;
    p->outcome = *o;
    p->outcome.retry_after_ms = o->kind == OUTCOME_RETURNED ? o->retry_after_ms : -1;
    if (!p->outcome.completed_us)
        p->outcome.completed_us = p->now_ms * 1000;
}

/* Whether the attempt that is planned has begun: the run or map was opened, or the step awaits a signal. The start of a
 * step that makes a call, or of a run that waits for its next attempt, is that of the attempt before. */
static bool plan_has_begun(const struct plan *p)
{
    int links = p->task->links;
    return p->task->started_ms && links & (TASK_OPENED | TASK_AWAITS) && !(links & TASK_AGAIN);
}

/* 0: nothing outside has seen this attempt. A step whose call cannot be made is not undone. */
int64_t plan_started_us(const struct plan *p)
{
    bool is_step = !uuid_is_nil(p->task->run);
    if (is_step && !plan_has_begun(p))
        return 0;
    return (p->task->started_ms ? p->task->started_ms : p->now_ms) * 1000;
}

void plan_fail_text(struct plan *p, enum failure failure, struct str text)
{
    struct str kept;
    if (!arena_str(&p->arena, text, &kept))
        kept = S("failed");
    plan_end(p, &(struct outcome){
                    .kind = OUTCOME_FAILED, .failure = failure, .error = kept, .started_us = plan_started_us(p) });
}

void plan_fail(struct plan *p, const struct error *e)
{
    char text[sizeof e->field + sizeof e->text + 4];
    int n = e->field[0] ? snprintf(text, sizeof text, "%s: %s", e->field, e->text)
                        : snprintf(text, sizeof text, "%s", e->text);
    plan_fail_text(p, FAILURE_REFUSED, (struct str){ text, min_of((size_t)n, sizeof text - 1) });
}

void plan_cancel(struct plan *p, struct str why)
{
    struct str kept;
    if (!arena_str(&p->arena, why, &kept))
        kept = S("cancelled");
    plan_end(p, &(struct outcome){ .kind = OUTCOME_CANCELLED,
                                   .error = kept,
                                   .started_us = plan_has_begun(p) ? p->task->started_ms * 1000 : 0 });
}

/* The run that the task is, or is a step of. */
static bool plan_is_run(const struct run_view *outer, const struct task *t)
{
    if (uuid_is_nil(t->run))
        return true;
    if (place_kind(t->place) != PLACE_KIND_STEP)
        return false;
    const struct dag_step *s = &outer->dag->steps[place_step(t->place)];
    return s->is_workflow && (!s->map.is_set || place_item(t->place) >= 0);
}

/* An item whose map has failed does not start any more. The map cancels what waits, too, but in pages. */
static enum err plan_item_of_failed(struct run_view *outer, struct plan *p, bool *ret, struct error *e)
{
    const struct task *t = p->task;
    struct task map;
    bool waits = place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) >= 0 &&
                 !(t->links & (TASK_OPENED | TASK_BY_HAND));
    *ret = false;
    if (!waits)
        return ERR_OK;
    struct uuid id = place_id(t->run, place_of_step(place_step(t->place)));
    if (reader_get(outer->c->reader, t->tenant, id, &p->arena, &map, e))
        return e->code;
    *ret = map.links & TASK_BROKEN;
    if (*ret)
        plan_cancel(p, S(MAP_HAS_FAILED));
    return ERR_OK;
}

static enum err plan_task(struct run_view *outer, struct run_view *own, bool is_run, struct plan *p, struct error *e)
{
    bool is_over = false;
    if (!uuid_is_nil(p->task->run) && plan_item_of_failed(outer, p, &is_over, e))
        return e->code;
    if (is_over)
        return ERR_OK;
    return is_run ? plan_run(own, p, e) : plan_step(outer, p, e);
}

void workflow_plan(const struct planner_context *c, struct plan *p)
{
    const struct task *t = p->task;
    struct run_view outer = { 0 }, own = { 0 };
    struct error *e = &p->error;
    bool is_step = !uuid_is_nil(t->run), is_run = true;
    enum err rc = ERR_OK;
    if (is_step) {
        rc = run_view_read(&outer, c, t->tenant, t->run, &p->arena, e);
        is_run = !rc && plan_is_run(&outer, t);
    }
    if (!rc && is_run)
        rc = run_view_read(&own, c, t->tenant, t->id, &p->arena, e);
    if (!rc && is_run)
        rc = run_view_set_task(&own, t, e);
    if (!rc)
        rc = plan_task(&outer, &own, is_run, p, e);
    /* The workflow is wrong, so the task fails. Other errors come from the store: the plan is made again. */
    if (rc == ERR_INVALID || rc == ERR_LIMIT || rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) {
        plan_fail(p, e);
        rc = ERR_OK;
    }
    p->rc = rc;
    run_view_release(&own);
    run_view_release(&outer);
}
