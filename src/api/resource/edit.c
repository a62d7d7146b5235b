/* Users' changes to tasks: the row is read, the core says what it becomes, the writer puts it there if it still is what was
 * read; else all is done again from the start, a few times. A task that is claimed belongs to its owner, who is asked to
 * give it back; that may take RECALL_MS, then the answer is 409. */
#include "api/resource/listing.h"
#include "api/resource/recall.h"
#include "api/resource/withdraw.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "base/json/json.h"
#include "core/task/action.h"

enum { REASON_MAX = 500, TRIES_MAX = 8, LOOK_AGAIN_MS = 10, NS_PER_MS = 1000000 };

struct edit {
    struct request *q;
    bool is_patch; /* the fields in the body change; with an action, before that is done */
    bool has_action;
    enum action action;
    bool force;
    struct str reason; /* why a dead letter is archived */

    struct task current;
    struct action_plan plan;
    int64_t withdraw_from_ms;
    int tries;

    int64_t deadline_ns;    /* of a recall; 0: none yet */
    int64_t aborting_fence; /* its owner has been told to end it; 0: not so */
    struct task claimed;    /* what another node was asked for, and gave back; its id is nil: nothing */
    struct timer look_again;
};

static route_handler attempt;

/* ---- what is wished ---- */

static enum err read_body(struct request *q, struct json_doc *ret, struct error *e)
{
    struct str text = q->body.n ? buf_str(&q->body) : S("{}");
    enum err rc = json_parse(text, ret, e);
    if (rc == ERR_OK && !json_is_object(ret->root)) {
        json_doc_release(ret);
        return error_set(e, ERR_INVALID, "the body must be a JSON object");
    }
    return rc;
}

static struct edit *new_edit(struct request *q)
{
    q->edit = arena_new(&q->arena, struct edit);
    q->edit->q = q;
    return q->edit;
}

/* {"status": "PAUSED"} is a way to say pause. */
static enum err action_of_status(const struct json_doc *doc, enum action *ret, struct error *e)
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
        return error_field(e, "status", "must stand alone: change other fields in a request of their own");
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
    struct edit *edit = new_edit(q);
    if (q->body.n == 0)
        return request_refuse(q, PROBLEM_INVALID, "the body must be a JSON object with the fields to change");
    enum err rc = read_body(q, &doc, &e);
    edit->is_patch = rc == ERR_OK && !json_object_get(doc.root, "status");
    edit->has_action = !edit->is_patch;
    if (rc == ERR_OK && !edit->is_patch)
        rc = action_of_status(&doc, &edit->action, &e);
    return rc ? request_fail(q, &e) : attempt(q, r);
}

enum handled tasks_act(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "force", .kind = JSON_KIND_BOOL, .offset = offsetof(struct edit, force) },
    };
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = new_edit(q);
    edit->has_action = true;
    edit->action = (enum action)q->route->argument;
    size_t known = edit->action == ACTION_RUN_NOW ? 1 : 0;
    if (read_body(q, &doc, &e) || json_read(doc.root, fields, known, edit, &q->arena, &e))
        return request_fail(q, &e);
    return attempt(q, r);
}

enum handled tasks_delete(struct request *q, struct reader *r)
{
    return tasks_act(q, r);
}

enum handled dlq_retry(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = new_edit(q);
    edit->has_action = true;
    edit->action = ACTION_RETRY;
    if (read_body(q, &doc, &e))
        return request_fail(q, &e);
    edit->is_patch = json_object_size(doc.root) > 0;
    return attempt(q, r);
}

enum handled dlq_archive(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "reason", .kind = JSON_KIND_STR, .offset = offsetof(struct edit, reason), .max = REASON_MAX },
    };
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct edit *edit = new_edit(q);
    edit->has_action = true;
    edit->action = ACTION_ARCHIVE;
    if (read_body(q, &doc, &e) || json_read(doc.root, fields, array_count(fields), edit, &q->arena, &e))
        return request_fail(q, &e);
    return attempt(q, r);
}

/* ---- what it becomes ---- */

static enum err plan_patch(struct request *q, struct edit *edit, struct error *e)
{
    struct task_context c = request_context(q);
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    bool withdraw = false;
    enum err rc = read_body(q, &doc, e);
    if (rc == ERR_OK)
        rc = task_patch_json(&edit->current, &doc, &c, &q->arena, &edit->plan.task, &withdraw, e);
    edit->plan.withdraw = withdraw;
    edit->plan.changes = true;
    /* An edited schedule begins now: what the old one left behind does not draw the new one into the past. */
    bool moved = edit->plan.task.cursor_ms != edit->current.cursor_ms;
    edit->withdraw_from_ms = moved ? q->now_ms : 0;
    return rc;
}

/* By whom a dead letter was resolved, how and why: JSON text, kept with it. */
static enum err note_resolution(struct request *q, struct edit *edit, struct error *e)
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

/* On the task as it is, or as the patch before made it: either way one edit, one version. */
static enum err plan_action(struct request *q, struct edit *edit, struct error *e)
{
    struct task from = edit->is_patch ? edit->plan.task : edit->current;
    enum err rc = task_act(&from, edit->action, edit->force, NULL, request_new_id(q), q->now_ms, &edit->plan, e);
    if (rc == ERR_OK && edit->plan.changes)
        edit->plan.task.version = edit->current.version + 1;
    return rc == ERR_OK && edit->action == ACTION_ARCHIVE && edit->plan.changes ? note_resolution(q, edit, e) : rc;
}

static enum err make_plan(struct request *q, struct edit *edit, struct error *e)
{
    edit->plan = (struct action_plan){ 0 };
    edit->withdraw_from_ms = 0;
    enum err rc = edit->is_patch ? plan_patch(q, edit, e) : ERR_OK;
    return rc == ERR_OK && edit->has_action ? plan_action(q, edit, e) : rc;
}

static void write_answer(struct request *q, const struct edit *edit)
{
    const struct task *t = edit->plan.changes ? &edit->plan.task : &edit->current;
    struct jw w = respond_json(&q->response, 200);
    if (edit->has_action && edit->action == ACTION_DELETE) {
        q->response.status = 204;
        q->response.type = NULL;
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

/* ---- carried out by the writer ---- */

static enum handled refuse_running(struct request *q)
{
    const struct task *t = &q->edit->current;
    if (t->target == TARGET_WORKER && q->edit->aborting_fence == t->fence)
        return request_refuse(
            q, PROBLEM_RUNNING,
            "a worker has it, and was asked to end it: it is CANCELLED when the worker says so, or when "
            "its lease is over");
    return request_refuse(q, PROBLEM_RUNNING,
                          "it is being run and was not given back in time; try again when it has ended");
}

/* What was withdrawn is spawned anew: the cursor is the one that the store set back. If its answer was lost nobody knows how
 * far, and it is looked at now. */
static void keep_cursor(struct request *q, enum err rc)
{
    struct task *t = &q->edit->plan.task;
    if (t->kind == TASK_RECURRING)
        t->cursor_ms = rc ? min_of(t->cursor_ms, q->now_ms) : q->write.put.ret_cursor_ms;
}

static void nudge(struct request *q)
{
    request_nudge(q, &q->edit->plan.task, 1);
    if (q->edit->plan.has_also)
        request_nudge(q, &q->edit->plan.also, 1);
}

/* True if the answer is there; false if it was begun anew. */
static bool resolve_conflict(struct request *q, const struct error *e)
{
    bool version = strcmp(e->field, "version") == 0;
    if (version && q->head.if_match.n) {
        request_refuse(q, PROBLEM_PRECONDITION, "it was changed since you read it; read it again");
        return true;
    }
    if (++q->edit->tries >= TRIES_MAX) {
        request_refuse(q, PROBLEM_CONFLICT, "it changes faster than this can be done; try again");
        return true;
    }
    request_later(q, attempt);
    return false;
}

static void edit_done(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_is_replay(op)) {
        request_later(q, request_replay_stored);
        return;
    }
    if (op->rc == ERR_CONFLICT) {
        struct error e = op->error;
        if (!resolve_conflict(q, &e))
            return;
    } else if (op->rc) {
        request_fail(q, &op->error);
    }
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE) { /* it may have been made, and its answer lost */
        keep_cursor(q, op->rc);
        nudge(q);
    }
    if (op->rc == ERR_OK && q->edit->plan.withdraw)
        withdraw_claimed(q, &q->edit->plan.task);
    else
        request_answer(q);
}

static enum handled put(struct request *q, struct edit *edit)
{
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
    return request_submit(q, edit_done);
}

static void record_kept(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_is_replay(op))
        request_later(q, request_replay_stored);
    else
        request_answer(q); /* what was asked is so, whether or not its record could be kept */
}

/* Nothing is to be written but that this key was answered. */
static enum handled keep_record(struct request *q)
{
    if (!q->has_record)
        return HANDLED_DONE;
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT }, .idempotency = request_record(q) };
    return request_submit(q, record_kept);
}

/* ---- carried out by the owner of a claimed task ---- */

static void look_again(struct timer *timer)
{
    struct edit *edit = container_of(timer, struct edit, look_again);
    request_later(edit->q, attempt);
}

/* Its owner has told it to end: sees after a moment whether it has. */
static enum handled look_later(struct request *q)
{
    struct edit *edit = q->edit;
    if (clock_steady_ns(q->server->setup.clock) >= edit->deadline_ns)
        return refuse_running(q);
    edit->look_again.fire = look_again;
    timers_add(q->server->timers, &edit->look_again, LOOK_AGAIN_MS);
    return HANDLED_LATER;
}

static enum handled after_recall(struct request *q, enum recall_result result)
{
    switch (result) {
    case RECALL_DONE: nudge(q); return HANDLED_DONE;
    case RECALL_ABORTING: q->edit->aborting_fence = q->edit->current.fence; return look_later(q);
    case RECALL_ANSWERED: return request_later(q, request_replay_stored);
    case RECALL_FREED: q->edit->claimed = q->edit->current; return request_later(q, attempt);
    case RECALL_RUNNING: break;
    }
    return refuse_running(q);
}

static void recalled(struct request *q, enum recall_result result, bool known)
{
    (void)known;
    if (after_recall(q, result) == HANDLED_DONE)
        request_answer(q);
}

static enum handled recall(struct request *q, struct edit *edit)
{
    int64_t now_ns = clock_steady_ns(q->server->setup.clock);
    if (!edit->deadline_ns)
        edit->deadline_ns = now_ns + q->server->limits.recall_ms * NS_PER_MS;
    if (edit->aborting_fence == edit->current.fence)
        return look_later(q);
    struct recall_order recall_request = {
        .running = &edit->current,
        .replace = &edit->plan.task,
        .record = request_record(q),
        .abort = edit->has_action && (edit->action == ACTION_CANCEL || edit->action == ACTION_DELETE),
    };
    int64_t left_ms = (edit->deadline_ns - now_ns) / NS_PER_MS;
    return recall_ask(q, &recall_request, left_ms, recalled) ? HANDLED_LATER : refuse_running(q);
}

/* ---- one attempt ---- */

static enum handled refuse_plan(struct request *q, const struct edit *edit, const struct error *e)
{
    if (e->code != ERR_CONFLICT || edit->current.state != TASK_RUNNING)
        return request_fail(q, e);
    respond_field(&q->response, PROBLEM_RUNNING, e);
    return HANDLED_DONE;
}

static enum handled attempt(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct edit *edit = q->edit;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (request_get_task(q, r, &edit->current, &e))
        return request_fail(q, &e);
    task_undo_delay(&edit->current, &edit->claimed);
    if (!if_match_allows(q->head.if_match, edit->current.version))
        return request_refuse(q, PROBLEM_PRECONDITION, "it was changed since you read it; read it again");
    if (make_plan(q, edit, &e))
        return refuse_plan(q, edit, &e);
    write_answer(q, edit);
    if (!edit->plan.changes)
        return keep_record(q);
    if (edit->current.state == TASK_RUNNING)
        return recall(q, edit);
    return put(q, edit);
}
