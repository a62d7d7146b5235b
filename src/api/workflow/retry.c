/* A run that failed, expired or was cancelled goes on where it stopped: what failed of its steps runs again, and if it
 * was compensated, what failed of that. */
#include "api/workflow/retry.h"

#include <assert.h>

#include "api/resource/edit.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "api/task/body.h"
#include "core/flow/place.h"

enum { EXTRA_MAX = 4 * STEP_OUTPUT_MAX };

struct run_retry {
    struct json_array steps; /* struct str */
    struct task next;
};

/* What was expected of another task is not expected of this one. */
enum err run_add_extra(struct request *q, struct task *t, const struct task *of, struct str more, struct error *e)
{
    bool is_same = uuid_eq(t->id, of->id);
    const char *const names[] = { is_same ? TASK_EXPECT : NULL, TASK_METADATA, TASK_NOTIFY,
                                  is_same ? TASK_RERUN_OF : NULL, is_same ? TASK_RERUN_FROM : NULL };
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXTRA_MAX);
    buf_char(&text, '{');
    for (size_t i = 0; i < array_count(names); i++) {
        struct str member = names[i] ? task_extra(of, names[i]) : S("");
        if (member.n)
            buf_printf(&text, "%s\"%s\":" STR_FMT, text.n > 1 ? "," : "", names[i], STR_ARG(member));
    }
    buf_text(&text, more.n && text.n > 1 ? "," : "");
    buf_add(&text, more);
    buf_char(&text, '}');
    return !text.full && arena_str(&q->arena, buf_str(&text), &t->extra) ? ERR_OK : error_no_room(e);
}

static enum err retry_check_step(struct request *q, struct reader *r, const struct dag *d, struct str name,
                                 struct error *e)
{
    uint32_t step;
    struct task t;
    if (dag_find_or_explain(d, name, &step, e) ||
        reader_get(r, q->who.tenant, place_id(q->id, place_of_step(step)), &q->arena, &t, e))
        return e->code;
    if (t.state == TASK_FAILED || t.state == TASK_EXPIRED || t.state == TASK_CANCELLED)
        return ERR_OK;
    return error_set(e, ERR_CONFLICT, "step '" STR_FMT "' is %s and cannot be retried", STR_ARG(name),
                     task_state_name(t.state));
}

/* Whether the run was opened, and all compensations that it has are COMPLETED. */
static enum err retry_is_undone(struct request *q, struct reader *r, struct uuid run, bool *ret, struct error *e)
{
    struct step_filter f = { .tenant = q->who.tenant,
                             .run = run,
                             .has_after = true,
                             .after = place_of_undo(0, -1) - 1,
                             .limit = STEPS_READ_MAX };
    struct tasks v = { .n = STEPS_READ_MAX };
    size_t undone = 0, total = 0;
    while (v.n == STEPS_READ_MAX) {
        if (reader_steps(r, &f, &q->arena, &v, e))
            return e->code;
        for (size_t i = 0; i < v.n && place_kind(v.v[i].place) == PLACE_KIND_UNDO; i++, total++)
            undone += v.v[i].state == TASK_COMPLETED;
        f.after = v.n ? v.v[v.n - 1].place : 0;
    }
    *ret = total > 0 && undone == total;
    return ERR_OK;
}

static bool retry_names(const struct run_retry *b, const struct dag *d, const struct task *t)
{
    const struct str *names = b->steps.v;
    uint32_t step = place_step(t->place);
    bool named = b->steps.n == 0;
    for (size_t i = 0; i < b->steps.n && step < d->n; i++)
        named = named || str_eq(names[i], d->steps[step].name);
    return named;
}

/* A sub-run whose steps were compensated cannot go on where it failed: its steps are undone. d: NULL in sub-runs. */
static enum err retry_check_subruns(struct request *q, struct reader *r, struct uuid run, const struct dag *d,
                                    const struct run_retry *b, struct error *e)
{
    struct step_filter f = { .tenant = q->who.tenant,
                             .run = run,
                             .states = 1U << TASK_FAILED | 1U << TASK_EXPIRED | 1U << TASK_CANCELLED,
                             .limit = STEPS_READ_MAX };
    struct tasks v = { .n = STEPS_READ_MAX };
    while (v.n == STEPS_READ_MAX) {
        if (reader_steps(r, &f, &q->arena, &v, e))
            return e->code;
        for (size_t i = 0; i < v.n; i++) {
            const struct task *t = &v.v[i];
            bool undone = false;
            if (t->target != TARGET_WORKFLOW || !(t->links & TASK_OPENED) || (d && !retry_names(b, d, t)))
                continue;
            if (retry_is_undone(q, r, t->id, &undone, e))
                return e->code;
            if (undone)
                return error_set(e, ERR_CONFLICT, "the steps of a run within it were compensated; rerun it");
            if (retry_check_subruns(q, r, t->id, NULL, b, e))
                return e->code;
        }
        f.has_after = true;
        f.after = v.n ? v.v[v.n - 1].place : 0;
    }
    return ERR_OK;
}

enum err run_refuse_waiting(struct request *q, struct reader *r, const struct task *run, const char *what,
                            struct error *e)
{
    char id[UUID_TEXT + 1];
    struct str step;
    bool is_step = !uuid_is_nil(run->run);
    if (run_step_name(q, r, run, &step, e))
        return e->code;
    uuid_format(is_step ? run->run : run->id, id);
    if (is_step && place_item(run->place) >= 0)
        return error_set(e, ERR_CONFLICT,
                         "%s; it waits for its next attempt: start item %lld of step '" STR_FMT "' of run %s now", what,
                         (long long)place_item(run->place), STR_ARG(step), id);
    return error_set(e, ERR_CONFLICT,
                     "%s; it waits for its next attempt: to start that now, use POST /v1/workflows/%s/%s" STR_FMT "%s",
                     what, id, is_step ? "steps/" : "", STR_ARG(is_step ? step : S("")),
                     is_step ? "/run-now" : "retry");
}

static enum err retry_refuse(struct request *q, struct reader *r, const struct workflow_run *run, struct error *e)
{
    bool undoing;
    if (task_awaits_attempt(&run->task, q->now_ms))
        return run_refuse_waiting(q, r, &run->task, "a run that has not ended cannot be retried", e);
    if (run_is_undoing(q, r, &run->task, &undoing, e))
        return e->code;
    return error_set(e, ERR_CONFLICT, "the run is %s and cannot be retried; %s",
                     task_state_name(task_shown_state(&run->task, q->now_ms)),
                     task_is_final(run->task.state) ? "rerun it"
                     : undoing                      ? "what it did is being undone: wait for its end"
                                                    : "wait for it to end, or cancel it");
}

static enum err retry_check(struct request *q, struct reader *r, const struct workflow_run *run,
                            const struct run_retry *b, struct error *e)
{
    enum task_state state = run->task.state;
    struct run_tally tally;
    const struct str *names = b->steps.v;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (state != TASK_FAILED && state != TASK_EXPIRED && state != TASK_CANCELLED)
        return retry_refuse(q, r, run, e);
    if (!run->opened)
        return ERR_OK;
    if (run_definition(q, r, run, &d, e) || run_tally(q, r, run, d->dag, &tally, e))
        return e->code;
    if (tally.undo_total && b->steps.n)
        return error_set(e, ERR_CONFLICT, "the run was compensated: a retry repeats only what failed of that");
    if (tally.undo_total && tally.undone == tally.undo_total)
        return error_set(e, ERR_CONFLICT, "the steps of the run were compensated; rerun it");
    for (size_t i = 0; i < b->steps.n; i++)
        if (retry_check_step(q, r, d->dag, names[i], e))
            return e->code;
    return tally.undo_total ? ERR_OK : retry_check_subruns(q, r, run->task.id, d->dag, b, e);
}

enum err run_check_retry(struct request *q, struct reader *r, const struct task *t, struct error *e)
{
    struct workflow_run run;
    struct run_retry all = { 0 };
    return run_read_of(q, r, t, &run, e) ? e->code : retry_check(q, r, &run, &all, e);
}

enum err run_make_retry(struct request *q, const struct workflow_run *run, struct str more, struct task *t,
                        struct error *e)
{
    assert(task_may_begin_again(run->task.state, TASK_SCHEDULED));
    *t = run->task;
    t->version++;
    t->updated_ms = q->now_ms;
    t->state = TASK_SCHEDULED;
    t->attempts = t->losses = 0;
    t->completed_ms = t->resolved_ms = 0;
    t->cause = t->resolution = t->last_error = (struct str){ NULL, 0 };
    t->claim = (struct uuid){ 0 };
    task_forget_delays(t);
    task_set_due(t, q->now_ms);
    if (t->expires_after_ms)
        t->scheduled_ms = q->now_ms;
    if (t->links & TASK_OPENED)
        t->links = task_links_again(t->links);
    return run_add_extra(q, t, &run->task, more, e);
}

static enum err retry_make(struct request *q, const struct workflow_run *run, struct run_retry *b, struct error *e)
{
    const struct str *names = b->steps.v;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, EXTRA_MAX);
    for (size_t i = 0; i < b->steps.n; i++) /* names need no escape */
        buf_printf(&text, "%s\"" STR_FMT "\"", i ? "," : "\"retry_steps\":[", STR_ARG(names[i]));
    buf_text(&text, b->steps.n ? "]" : "");
    return run_make_retry(q, run, buf_str(&text), &b->next, e);
}

static void retry_on_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct run_retry *b = q->context;
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_OK)
        transition_log_changed(q->server->setup.transitions, &b->next, q->write.put.state);
    request_answer_written(q, op, &b->next, 1);
}

enum handled workflows_retry(struct request *q, struct reader *r)
{
    static const struct json_field name = { .kind = JSON_KIND_STR, .min = 1, .max = 4 * STEP_NAME_MAX };
    static const struct json_field fields[] = {
        { .name = "steps",
          .kind = JSON_KIND_ARRAY,
          .offset = offsetof(struct run_retry, steps),
          .fields = &name,
          .count = 1,
          .size = sizeof(struct str),
          .nullable = true },
    };
    struct error e = { 0 };
    struct workflow_run run;
    struct run_retry *b = arena_new(&q->arena, struct run_retry);
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    q->context = b;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (request_read_object(q, &doc, &e) || json_read(doc.root, fields, array_count(fields), b, &q->arena, &e) ||
        run_read(q, r, &run, &e))
        return request_fail(q, &e);
    if (task_awaits_attempt(&run.task, q->now_ms) && uuid_is_nil(run.task.run) && !b->steps.n)
        return edit_act(q, r, ACTION_RUN_NOW, false, &(struct pause_body){ 0 }); /* its next attempt is this retry */
    if (retry_check(q, r, &run, b, &e) || retry_make(q, &run, b, &e) || run_answer_brief(q, r, &b->next, 200, &e))
        return request_fail(q, &e);
    q->write.put = (struct op_put){ .op = { .kind = OP_PUT },
                                    .task = &b->next,
                                    .version = run.task.version,
                                    .fence = run.task.fence,
                                    .state = run.task.state,
                                    .idempotency = request_record(q) };
    return request_submit(q, retry_on_put);
}
