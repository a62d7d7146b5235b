/* How a change of a task is stored. The writer stores it if the row is still the one that was read. If not, all starts
 * again, up to TRIES_MAX times. A claimed task belongs to its owner, which is asked to give it back. If that takes
 * longer than recall_wait_ms, the answer is 409. */
#include "api/resource/edit_internal.h"
#include "api/resource/recall.h"
#include "api/resource/withdraw_occurrences.h"
#include "api/server/audit.h"
#include "base/log.h"

enum { TRIES_MAX = 8, RETRY_MS = 10, NS_PER_MS = 1000000 };

void edit_set_deadline(struct request *q, int64_t wait_ms)
{
    if (!q->edit->deadline_ns)
        q->edit->deadline_ns = clock_steady_ns(q->server->setup.clock) + wait_ms * NS_PER_MS;
}

/* Until the deadline, rounded up. */
static int64_t edit_left_ms(const struct request *q)
{
    return (q->edit->deadline_ns - clock_steady_ns(q->server->setup.clock) + NS_PER_MS - 1) / NS_PER_MS;
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
    edit_set_deadline(q, q->server->limits.recall_ms);
    if (edit_left_ms(q) > 0)
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

enum handled edit_put(struct request *q, struct reader *r, struct edit *edit)
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
enum handled edit_retry_later(struct request *q)
{
    return edit_left_ms(q) > 0 ? edit_wait(q) : edit_refuse_running(q);
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
        q->edit->plan.task.state = q->became;
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

enum handled edit_recall(struct request *q, struct edit *edit)
{
    edit_set_deadline(q, recall_wait_ms(q, &edit->current));
    if (edit->aborting_fence == edit->current.fence)
        return edit_retry_later(q);
    struct recall_order order = {
        .running = &edit->current,
        .replace = &edit->plan.task,
        .record = request_record(q),
        .audit = request_audit(q, NULL),
        .abort = edit_aborts(edit),
    };
    return recall_ask(q, &order, edit_left_ms(q), edit_on_recalled) ? HANDLED_LATER : edit_refuse_running(q);
}
