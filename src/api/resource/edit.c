/* Changes of tasks by users. The row is read, the core decides what it becomes, and the writer stores it if the row is
 * still the one that was read. If not, all starts again, up to TRIES_MAX times. A claimed task belongs to its owner,
 * which is asked to give it back. If that takes longer than recall_wait_ms, the answer is 409. */
#include "api/resource/edit.h"

#include "api/auth/sender.h"
#include "api/resource/recall.h"
#include "api/resource/withdraw_occurrences.h"
#include "api/server/audit.h"
#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "api/server/request_input.h"
#include "api/task/json.h"
#include "api/task/pause_body.h"
#include "api/workflow/retry.h"
#include "api/workflow/run.h"
#include "api/workflow/runs.h"
#include "api/workflow/stop.h"
#include "base/json/json.h"
#include "base/log.h"
#include "core/task/action.h"

enum { REASON_MAX = 500, TRIES_MAX = 8, RETRY_MS = 10, NS_PER_MS = 1000000 };

struct edit {
    struct request *q;
    bool is_patch; /* the fields in the body change; if there is an action too, before the action */
    bool has_action;
    enum action action;
    bool force;
    bool compensate;   /* with CANCEL, of a run */
    struct str reason; /* why a dead letter is archived */
    struct pause_body pause;

    struct task current;
    struct action_plan plan;
    int64_t withdraw_from_ms;
    int tries;
    bool was_admitted; /* run-now of a recurring task: the tenant's rate allows one more task */

    int64_t deadline_ns;    /* of a recall; 0: none yet */
    bool was_told;          /* another node was told to abort the task, and has answered */
    int64_t aborting_fence; /* the fence of the claim that its owner was told to abort; 0: none */
    struct task claimed;    /* the claim that another node was asked for and gave back; nil id: none */
    struct timer retry_timer;
};

static route_handler edit_attempt;

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
          .max = REASON_MAX,
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

/* ---- what the task becomes ---- */

static size_t edit_skip_blanks(struct str text, size_t at)
{
    while (at < text.n && (text.p[at] == ' ' || (text.p[at] >= '\t' && text.p[at] <= '\r')))
        at++;
    return at;
}

/* Whether two JSON texts differ at most in their blanks: an edit merges a configuration into a text without any. */
static bool edit_is_same_config(struct str a, struct str b)
{
    bool in_string = false, escaped = false;
    for (size_t i = 0, j = 0;; i++, j++) {
        i = in_string ? i : edit_skip_blanks(a, i);
        j = in_string ? j : edit_skip_blanks(b, j);
        if (i == a.n || j == b.n)
            return i == a.n && j == b.n;
        if (a.p[i] != b.p[j])
            return false;
        in_string = in_string != (a.p[i] == '"' && !escaped);
        escaped = in_string && a.p[i] == '\\' && !escaped;
    }
}

/* Whether the patch leaves the task as it is. Values of secret headers show only in the stored text. */
static bool edit_is_same(struct request *q, const struct edit *edit)
{
    const struct task *was = &edit->current;
    struct task next = edit->plan.task;
    struct task_context c = request_context(q);
    cleanup_with(buf_release) struct buf before, after;
    struct jw w;
    buf_init(&before, ANSWER_MAX);
    buf_init(&after, ANSWER_MAX);
    next.version = was->version;
    next.updated_ms = was->updated_ms;
    if (was->state == TASK_RUNNING) /* it was claimed, and need not be recalled */
        next.state = was->state;
    if (next.due_ms != was->due_ms || next.cursor_ms != was->cursor_ms || next.state != was->state ||
        !edit_is_same_config(next.target_config, was->target_config) || !str_eq(next.payload, was->payload) ||
        !str_eq(next.extra, was->extra))
        return false;
    jw_init(&w, &before);
    task_to_json(&w, was, &c);
    jw_init(&w, &after);
    task_to_json(&w, &next, &c);
    return !before.full && str_eq(buf_str(&before), buf_str(&after));
}

static enum err edit_plan_patch(struct request *q, struct edit *edit, struct error *e)
{
    struct task_context c = request_context(q);
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    bool withdraw = false;
    enum err rc = request_read_object(q, &doc, e);
    if (rc == ERR_OK)
        rc = task_patch_json(&edit->current, &doc, &c, &q->arena, &edit->plan.task, &withdraw, e);
    edit->plan.withdraw = withdraw;
    edit->plan.changes = rc == ERR_OK && !edit_is_same(q, edit);
    /* An edited schedule starts now: an old cursor must not draw it into the past. */
    bool moved = edit->plan.task.cursor_ms != edit->current.cursor_ms;
    edit->withdraw_from_ms = moved ? q->now_ms : 0;
    return rc;
}

/* Who resolved a dead letter, how and why: JSON text that is stored with the task. */
static enum err edit_set_resolution(struct request *q, struct edit *edit, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    struct jw w;
    buf_init(&text, 8 * REASON_MAX);
    jw_init(&w, &text);
    jw_object(&w);
    jw_kv_cstr(&w, "how", "archived");
    jw_kv_cstr(&w, "by", q->who.key_id);
    if (edit->reason.n)
        jw_kv_str(&w, "reason", edit->reason);
    jw_object_end(&w);
    bool fits = arena_str(&q->arena, buf_str(&text), &edit->plan.task.resolution);
    return fits ? ERR_OK : error_set(e, ERR_LIMIT, "the reason does not fit");
}

/* As a run that is open says it. */
static enum err edit_set_canceller(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    char text[160];
    struct str by;
    if (sender_own_name(q, r, &by, e))
        return e->code;
    by = by.n ? str_utf8_cut(by, sizeof text / 2) : S("a job");
    snprintf(text, sizeof text, "cancelled by " STR_FMT, STR_ARG(by));
    return arena_str(&q->arena, str_from(text), &edit->plan.task.last_error) ? ERR_OK : error_no_room(e);
}

/* Notes who paused the task, why and until when. If it was paused already, that pause goes on: what the request gives
 * is changed. */
static enum err edit_set_pause(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    struct task *t = &edit->plan.task;
    struct pause was, p = { .since_ms = q->now_ms };
    bool is_new = edit->plan.changes;
    if (!is_new && pause_body_is_empty(&edit->pause))
        return ERR_OK;
    if (!is_new)
        p = task_pause(t, &q->arena, &was) ? was : (struct pause){ .since_ms = t->updated_ms };
    was = p;
    pause_body_apply(&edit->pause, &p);
    if (!is_new && str_eq(was.reason, p.reason) && was.until_ms == p.until_ms)
        return ERR_OK;
    if (sender_own_name(q, r, &p.by, e))
        return e->code;
    p.by = p.by.n ? p.by : S("a job");
    edit->plan.changes = true;
    t->version = edit->current.version + 1;
    t->updated_ms = q->now_ms;
    return task_set_pause(t, &p, &q->arena) ? ERR_OK : error_no_room(e);
}

/* Applies the action to the current task, or to the task as the patch made it. Both together are one edit and one
 * version. */
static enum err edit_plan_action(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    struct task from = edit->is_patch ? edit->plan.task : edit->current;
    enum err rc = task_act(&from, edit->action, edit->force, NULL, request_new_id(q), q->now_ms, &edit->plan, e);
    if (rc == ERR_OK && edit->plan.changes && !edit->plan.has_also)
        edit->plan.task.version = edit->current.version + 1;
    if (rc == ERR_OK && edit->action == ACTION_RETRY && from.links & TASK_OPENED)
        edit->plan.task.links = task_links_again(edit->plan.task.links); /* a run: what failed of it runs again */
    bool cancels = rc == ERR_OK && edit->action == ACTION_CANCEL && edit->plan.changes;
    if (cancels && from.target == TARGET_WORKFLOW && from.kind != TASK_RECURRING && edit_set_canceller(q, r, edit, e))
        return e->code;
    if (rc == ERR_OK && edit->action == ACTION_PAUSE)
        return edit_set_pause(q, r, edit, e);
    return rc == ERR_OK && edit->action == ACTION_ARCHIVE && edit->plan.changes ? edit_set_resolution(q, edit, e) : rc;
}

static enum err edit_plan(struct request *q, struct reader *r, struct edit *edit, struct error *e)
{
    edit->plan = (struct action_plan){ 0 };
    edit->withdraw_from_ms = 0;
    enum err rc = edit->is_patch ? edit_plan_patch(q, edit, e) : ERR_OK;
    return rc == ERR_OK && edit->has_action ? edit_plan_action(q, r, edit, e) : rc;
}

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

/* ---- the writer stores it ---- */

static enum handled edit_refuse_running(struct request *q)
{
    const struct task *t = &q->edit->current;
    if (t->target == TARGET_WORKER && q->edit->aborting_fence == t->fence)
        return request_refuse(
            q, PROBLEM_RUNNING,
            "a worker has the task and was asked to end it: it becomes CANCELLED when the worker reports, or when "
            "its lease expires");
    return request_refuse(q, PROBLEM_RUNNING,
                          "the task is running: whoever runs it was asked to give it up, and has not answered yet. It "
                          "may still be given up, or end by itself: read it again");
}

/* Withdrawn occurrences are spawned again: the store sets the cursor back and returns it. If the store's answer was
 * lost, the new cursor is unknown, and the spawner checks from now on. */
static void edit_update_cursor(struct request *q, enum err rc)
{
    struct task *t = &q->edit->plan.task;
    if (t->kind == TASK_RECURRING)
        t->cursor_ms = rc ? min_of(t->cursor_ms, q->now_ms) : q->write.put.ret_cursor_ms;
}

static void edit_nudge(struct request *q)
{
    request_nudge(q, &q->edit->plan.task, 1);
    if (q->edit->plan.has_also)
        request_nudge(q, &q->edit->plan.also, 1);
}

static void edit_log(struct request *q, enum task_state now)
{
    const struct edit *edit = q->edit;
    struct transition_log *log = q->server->setup.transitions;
    struct task t = edit->plan.task;
    t.state = now;
    transition_log_changed(log, &t, task_shown_state(&edit->current, q->now_ms));
    if (edit->plan.has_also)
        transition_log_created(log, &edit->plan.also, 1);
}

static enum handled edit_wait(struct request *q);

/* Tasks that depend on it are being told how it ended: a moment later, they know. */
static bool edit_waits_for_arrivals(struct request *q, const struct error *e)
{
    struct edit *edit = q->edit;
    int64_t now_ns = clock_steady_ns(q->server->setup.clock);
    if (!edit->deadline_ns)
        edit->deadline_ns = now_ns + q->server->limits.recall_ms * NS_PER_MS;
    if (now_ns < edit->deadline_ns)
        return edit_wait(q) == HANDLED_LATER;
    request_fail(q, e);
    return false;
}

/* True: the request is answered. False: it starts again. */
static bool edit_resolve_conflict(struct request *q, const struct error *e)
{
    bool version = strcmp(e->field, "version") == 0;
    if (strcmp(e->field, "arrivals") == 0)
        return !edit_waits_for_arrivals(q, e);
    if (version && q->head.if_match.n) {
        request_refuse(q, PROBLEM_PRECONDITION,
                       "the task was changed since you read it: read it again, then send its new ETag (--if-version)");
        return true;
    }
    if (++q->edit->tries >= TRIES_MAX) {
        request_refuse(q, PROBLEM_CONFLICT, "other requests changed the task first, several times; try again");
        return true;
    }
    request_later(q, edit_attempt);
    return false;
}

static void edit_on_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_CONFLICT) {
        struct error e = op->error;
        if (!edit_resolve_conflict(q, &e))
            return;
    } else if (op->rc) {
        request_fail(q, &op->error);
    }
    /* the change may have been written, and only the answer lost */
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE) {
        edit_update_cursor(q, op->rc);
        edit_nudge(q);
    }
    if (op->rc == ERR_OK)
        edit_log(q, q->write.put.ret_state);
    if (op->rc == ERR_OK && q->edit->plan.withdraw)
        withdraw_claimed(q, &q->edit->plan.task, q->edit->withdraw_from_ms);
    else
        request_answer(q);
}

/* What is withdrawn may set the cursor back into a row of skipped times. */
static bool edit_cuts_rows(const struct edit *edit)
{
    return edit->plan.withdraw && edit->plan.task.kind == TASK_RECURRING;
}

static enum handled edit_put(struct request *q, struct reader *r, struct edit *edit)
{
    struct error e = { 0 };
    q->write.put = (struct op_put){
        .op = { .kind = OP_PUT },
        .task = &edit->plan.task,
        .version = edit->current.version,
        .fence = edit->current.fence,
        .state = edit->current.state,
        .cursor_ms = edit->current.cursor_ms,
        .withdraw = edit->plan.withdraw,
        .withdraw_from_ms = edit->withdraw_from_ms,
        .also = edit->plan.has_also ? &edit->plan.also : NULL,
        .idempotency = request_record(q),
    };
    if (edit_cuts_rows(edit) && withdraw_cuts(q, r, &edit->current, &q->arena, &q->write.put, &e))
        return request_fail(q, &e);
    return request_submit(q, edit_on_put);
}

/* ---- the owner of a claimed task changes it ---- */

static void edit_on_retry_timer(struct timer *timer)
{
    struct edit *edit = container_of(timer, struct edit, retry_timer);
    request_later(edit->q, edit_attempt);
}

static enum handled edit_wait(struct request *q)
{
    q->edit->retry_timer.fire = edit_on_retry_timer;
    timers_add(q->server->timers, &q->edit->retry_timer, RETRY_MS);
    return HANDLED_LATER;
}

/* The owner was told to abort the task: checks a moment later whether it has ended. */
static enum handled edit_retry_later(struct request *q)
{
    bool over = clock_steady_ns(q->server->setup.clock) >= q->edit->deadline_ns;
    return over ? edit_refuse_running(q) : edit_wait(q);
}

/* The owner aborts the task, and settles it when it has ended: the act is done, whatever this request answers. */
static enum handled edit_wait_for_abort(struct request *q)
{
    /* a worker of the user hears of it with its next heartbeat: that takes longer than a request should */
    return q->edit->current.target == TARGET_WORKER ? edit_refuse_running(q) : edit_retry_later(q);
}

static void edit_on_abort_audited(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (op->rc)
        log_warn("audit_failed", kv_uuid("task", q->id), kv_err(&op->error));
    if (edit_wait_for_abort(q) == HANDLED_DONE)
        request_answer(q);
}

static enum handled edit_after_abort(struct request *q)
{
    q->edit->aborting_fence = q->edit->current.fence;
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT, .audit = request_audit(q, NULL) } };
    if (!q->write.op.audit)
        return edit_wait_for_abort(q);
    return request_submit(q, edit_on_abort_audited);
}

static bool edit_aborts(const struct edit *edit)
{
    return edit->has_action && (edit->action == ACTION_CANCEL || edit->action == ACTION_DELETE);
}

static enum handled edit_after_recall(struct request *q, enum recall_result result)
{
    switch (result) {
    case RECALL_DONE:
        edit_nudge(q);
        edit_log(q, q->edit->plan.task.state);
        return HANDLED_DONE;
    case RECALL_ABORTING: return edit_after_abort(q);
    case RECALL_ANSWERED: return request_later(q, request_replay_stored);
    case RECALL_FREED:
        q->edit->claimed = q->edit->current;
        q->edit->was_told = edit_aborts(q->edit);
        return request_later(q, edit_attempt);
    case RECALL_RUNNING: break;
    }
    bool runs_now = q->edit->has_action && q->edit->action == ACTION_RUN_NOW; /* it has just started */
    return runs_now && ++q->edit->tries < TRIES_MAX ? request_later(q, edit_attempt) : edit_refuse_running(q);
}

/* Not known: the claim is in the store, and its owner has yet to learn of it; or the time is up. */
static enum handled edit_after_unknown(struct request *q, enum recall_result result)
{
    if (result == RECALL_RUNNING)
        return edit_retry_later(q);
    return request_refuse(
        q, PROBLEM_UNAVAILABLE,
        "the task does not start, but the store has not confirmed the change yet: read the task again");
}

static void edit_on_recalled(struct request *q, enum recall_result result, bool known)
{
    if ((known ? edit_after_recall(q, result) : edit_after_unknown(q, result)) == HANDLED_DONE)
        request_answer(q);
}

static enum handled edit_recall(struct request *q, struct edit *edit)
{
    int64_t now_ns = clock_steady_ns(q->server->setup.clock);
    if (!edit->deadline_ns)
        edit->deadline_ns = now_ns + recall_wait_ms(q, &edit->current) * NS_PER_MS;
    if (edit->aborting_fence == edit->current.fence)
        return edit_retry_later(q);
    struct recall_order order = {
        .running = &edit->current,
        .replace = &edit->plan.task,
        .record = request_record(q),
        .audit = request_audit(q, NULL),
        .abort = edit_aborts(edit),
    };
    int64_t left_ms = (edit->deadline_ns - now_ns) / NS_PER_MS;
    return recall_ask(q, &order, left_ms, edit_on_recalled) ? HANDLED_LATER : edit_refuse_running(q);
}

/* ---- one attempt ---- */

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
    if (!edit->deadline_ns)
        edit->deadline_ns = clock_steady_ns(q->server->setup.clock) + q->server->limits.recall_ms * NS_PER_MS;
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

static enum handled edit_attempt(struct request *q, struct reader *r)
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
