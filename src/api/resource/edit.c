/* Changes of tasks by users: the requests, and which of them a task or a run allows. The row is read, the core decides
 * what it becomes (edit_plan.c), and the writer or the owner of the task stores it (edit_store.c). */
#include "api/resource/edit.h"

#include "api/resource/edit_internal.h"
#include "api/resource/recall.h"
#include "api/resource/withdraw_occurrences.h"
#include "api/server/request_context.h"
#include "api/server/request_input.h"
#include "api/task/json.h"
#include "api/workflow/retry.h"
#include "api/workflow/run.h"
#include "api/workflow/runs.h"
#include "api/workflow/stop.h"
#include "base/json/json.h"

/* ---- the requests ---- */

static struct edit *edit_new(struct request *q)
{
    q->edit = arena_new(&q->arena, struct edit);
    q->edit->q = q;
    return q->edit;
}

/* {"status": "PAUSED"} is another way to pause. */
static enum err edit_action_of_status(const struct json_doc *doc, enum action *ret, struct error *e)
{
    static const struct {
        const char *status;
        enum action action;
    } rows[] = {
        { "PAUSED", ACTION_PAUSE },
        { "SCHEDULED", ACTION_RESUME },
        { "CANCELLED", ACTION_CANCEL },
    };
    if (json_object_size(doc->root) > 1)
        return error_field(e, "status", "cannot be changed together with other fields; send two requests");
    const char *status = json_string_value(json_object_get(doc->root, "status"));
    for (size_t i = 0; status && i < array_count(rows); i++) {
        if (strcmp(status, rows[i].status) == 0) {
            *ret = rows[i].action;
            return ERR_OK;
        }
    }
    return error_field(e, "status", "can only be set to PAUSED, SCHEDULED or CANCELLED");
}

enum handled tasks_patch(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = edit_new(q);
    if (q->body.n == 0)
        return request_refuse(q, PROBLEM_INVALID, "the body must be a JSON object with the fields to change");
    enum err rc = request_read_object(q, &doc, &e);
    edit->is_patch = rc == ERR_OK && !json_object_get(doc.root, "status");
    edit->has_action = !edit->is_patch;
    if (rc == ERR_OK && !edit->is_patch)
        rc = edit_action_of_status(&doc, &edit->action, &e);
    return rc ? request_fail(q, &e) : edit_attempt(q, r);
}

enum err edit_read_pause(struct request *q, const struct json_doc *doc, struct pause_body *ret, struct error *e)
{
    if (pause_body_read(doc, q->now_ms, &q->arena, ret, e))
        return e->code;
    q->act_reason = ret->reason;
    q->act_until_ms = ret->until_ms;
    return ERR_OK;
}

enum handled tasks_act(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "force", .kind = JSON_KIND_BOOL, .offset = offsetof(struct edit, force) },
    };
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = edit_new(q);
    edit->has_action = true;
    edit->action = (enum action)q->route->argument;
    size_t known = edit->action == ACTION_RUN_NOW ? 1 : 0;
    enum err rc = request_read_object(q, &doc, &e);
    if (rc == ERR_OK && edit->action == ACTION_PAUSE)
        rc = edit_read_pause(q, &doc, &edit->pause, &e);
    else if (rc == ERR_OK)
        rc = json_read(doc.root, fields, known, edit, &q->arena, &e);
    return rc ? request_fail(q, &e) : edit_attempt(q, r);
}

enum handled edit_act(struct request *q, struct reader *r, enum action action, bool compensate,
                      const struct pause_body *pause)
{
    struct edit *edit = edit_new(q);
    edit->compensate = compensate;
    edit->pause = *pause;
    edit->has_action = true;
    edit->action = action;
    return edit_attempt(q, r);
}

enum handled tasks_delete(struct request *q, struct reader *r)
{
    return tasks_act(q, r);
}

enum handled dlq_retry(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = edit_new(q);
    edit->has_action = true;
    edit->action = ACTION_RETRY;
    if (request_read_object(q, &doc, &e))
        return request_fail(q, &e);
    edit->is_patch = json_object_size(doc.root) > 0;
    return edit_attempt(q, r);
}

enum handled dlq_archive(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "reason",
          .kind = JSON_KIND_STR,
          .offset = offsetof(struct edit, reason),
          .max = ARCHIVE_REASON_MAX,
          .characters = true },
    };
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = edit_new(q);
    edit->has_action = true;
    edit->action = ACTION_ARCHIVE;
    if (request_read_object(q, &doc, &e) || json_read(doc.root, fields, array_count(fields), edit, &q->arena, &e))
        return request_fail(q, &e);
    q->act_reason = edit->reason;
    return edit_attempt(q, r);
}

/* ---- one attempt ---- */

static void edit_write_answer(struct request *q, const struct edit *edit)
{
    const struct task *t = edit->plan.changes ? &edit->plan.task : &edit->current;
    struct jw w = respond_json(&q->response, 200);
    if (edit->has_action && edit->action == ACTION_DELETE) {
        q->response.status = 204;
        q->response.type = NULL;
        return;
    }
    if (q->route->scope == SCOPE_WORKFLOWS_WRITE) {
        workflows_answer_new(q, t, 200);
        return;
    }
    struct task_context c = request_context(q);
    jw_object(&w);
    task_members(&w, t, &c);
    if (edit->plan.has_also) {
        jw_kv_uuid(&w, "occurrence_id", edit->plan.also.id);
    }
    jw_object_end(&w);
    respond_etag(&q->response, t->version);
}

static enum handled edit_refuse_plan(struct request *q, const struct edit *edit, const struct error *e)
{
    if (e->code != ERR_CONFLICT || edit->current.state != TASK_RUNNING)
        return request_fail(q, e);
    respond_field(&q->response, PROBLEM_RUNNING, e);
    return HANDLED_DONE;
}

static enum handled edit_refuse_version(struct request *q, int64_t version)
{
    char text[160];
    snprintf(text, sizeof text,
             "the task is now version %lld: read it again ('belfry show'), then send its new ETag (--if-version %lld)",
             (long long)version, (long long)version);
    return request_refuse(q, PROBLEM_PRECONDITION, text);
}

/* A step belongs to its run. */
static enum handled edit_refuse_step(struct request *q, struct reader *r, const struct edit *edit)
{
    static const char refused[] = "the task is a step of a workflow and cannot be changed by itself";
    char run[UUID_TEXT + 1];
    struct str step;
    struct error e = { 0 };
    if (run_step_name(q, r, &edit->current, &step, &e))
        return request_fail(q, &e);
    uuid_format(edit->current.run, run);
    bool by_step = edit->has_action && (edit->action == ACTION_RUN_NOW || edit->action == ACTION_FORCE_COMPLETE);
    if (!edit->has_action)
        respond_problem(&q->response, PROBLEM_CONFLICT, "%s; change the definition, and run that", refused);
    else if (edit->action == ACTION_DELETE || edit->action == ACTION_ARCHIVE)
        respond_problem(&q->response, PROBLEM_CONFLICT, "%s; it is kept and removed with its run %s", refused, run);
    else
        respond_problem(&q->response, PROBLEM_CONFLICT, "%s; use POST /v1/workflows/%s/%s" STR_FMT "%s%s", refused, run,
                        by_step ? "steps/" : "", STR_ARG(by_step ? step : S("")), by_step ? "/" : "",
                        action_name(edit->action));
    return HANDLED_DONE;
}

/* A run that is open, or being opened: its steps have to follow what becomes of it. */
static bool edit_is_of_open_run(const struct request *q, const struct edit *edit)
{
    const struct task *t = &edit->current;
    bool begins = t->state == TASK_RUNNING && t->due_ms <= q->now_ms;
    if (edit->has_action && edit->action == ACTION_RUN_NOW && task_awaits_attempt(t, q->now_ms))
        return false; /* its steps have ended */
    return t->target == TARGET_WORKFLOW && edit->has_action && !task_is_final(t->state) &&
           (t->links & TASK_OPENED || begins);
}

static enum handled edit_open_run(struct request *q, struct reader *r, struct edit *edit)
{
    bool changes = edit->action == ACTION_CANCEL || edit->action == ACTION_PAUSE || edit->action == ACTION_RESUME;
    if (!changes)
        return request_refuse(q, PROBLEM_CONFLICT, "the run is open; cancel it, or wait for it to end");
    if (edit->current.links & TASK_OPENED)
        return workflows_stop(q, r, edit->action, edit->compensate, &edit->pause);
    edit_set_deadline(q, q->server->limits.recall_ms);
    return edit_retry_later(q); /* it is being opened */
}

/* A run that is edited names a workflow that exists. It stays bound to a version if it was. What a run has done was
 * done with its input: after its opening neither changes. */
static enum err edit_check_run(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    struct task *t = &edit->plan.task;
    struct run_config before, after;
    bool opened = edit->current.target == TARGET_WORKFLOW && edit->current.links & TASK_OPENED;
    bool same = t->target == edit->current.target && str_eq(t->target_config, edit->current.target_config);
    if (opened && edit->is_patch && !same)
        return error_set(e, ERR_CONFLICT,
                         "the run has started, and its steps have used its input; rerun it with another input "
                         "('belfry workflow rerun --input')");
    if (opened && edit->has_action && edit->action == ACTION_RETRY && run_check_retry(q, r, &edit->current, e))
        return e->code;
    if (!edit->is_patch || t->target != TARGET_WORKFLOW || same)
        return ERR_OK;
    if (run_config_read(q, &edit->current, &before, e) || run_config_read(q, t, &after, e))
        return e->code;
    bool binds = before.has_hash && before.workflow.n && !after.has_hash;
    return binds ? run_bind(q, r, t, e) : run_check_target(q, r, t, e);
}

/* An occurrence by hand is a new task, and counts as one. */
static enum handled edit_admit(struct request *q, struct reader *r)
{
    q->edit->was_admitted = true;
    return tenant_limits_take(q, r, 1, edit_attempt);
}

/* Whoever stopped it may still be taking its claimed occurrences back, or have died meanwhile: an answer promises that
 * none of them starts. */
static bool edit_is_stopped_already(const struct edit *edit)
{
    bool stops = edit->action == ACTION_CANCEL || edit->action == ACTION_PAUSE || edit->action == ACTION_DELETE;
    return stops && !edit->is_patch && edit->current.kind == TASK_RECURRING;
}

/* Or its owner has done it for this request. */
static enum handled edit_unchanged(struct request *q, struct reader *r)
{
    (void)r;
    return q->edit->was_told ? request_store_act(q) : request_store_record(q);
}

enum handled edit_attempt(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct edit *edit = q->edit;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (request_get_task(q, r, &edit->current, &e))
        return request_fail(q, &e);
    task_undo_delay(&edit->current, &edit->claimed);
    if (!if_match_allows(q->head.if_match, edit->current.version))
        return edit_refuse_version(q, edit->current.version);
    if (!uuid_is_nil(edit->current.run))
        return edit_refuse_step(q, r, edit);
    if (!run_may_change(q, &edit->current))
        return HANDLED_DONE;
    if (edit_is_of_open_run(q, edit))
        return edit_open_run(q, r, edit);
    if (edit_plan(q, r, edit, &e))
        return edit_refuse_plan(q, edit, &e);
    if (edit->plan.changes && !run_may_change(q, &edit->plan.task)) /* the edit makes it one */
        return HANDLED_DONE;
    if (edit_check_run(q, r, edit, &e))
        return request_fail(q, &e);
    if (edit->plan.has_also && !edit->was_admitted)
        return edit_admit(q, r);
    edit_write_answer(q, edit);
    if (!edit->plan.changes)
        return edit_is_stopped_already(edit) ? withdraw_claimed_then(q, &edit->current, 0, edit_unchanged)
                                             : edit_unchanged(q, r);
    if (edit->current.state == TASK_RUNNING)
        return edit_recall(q, edit);
    return edit_put(q, r, edit);
}
