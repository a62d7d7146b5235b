/* Cancel, pause and resume of an open run change its steps: first those that wait, page by page,
 * with the runs below it, then those that are claimed and have not begun, which their owners give back. A step that
 * runs is aborted by a cancel and goes on after a pause. If not all of this is done within recall_ms, the answer to a
 * cancel is 202. Runs below it that are not stopped by then are stopped by the planner of the run. The answer to a
 * pause is 202 if a step that is claimed may start after it: not all that may have it have answered.
 *
 * Who paused it, why and until when is written last, into its record (port/store/incidents.h 9). If that fails, the run
 * is paused, and the client, which has no answer, asks again.
 *
 * A run that is not open is a task like any other: edit.c changes it. */
#include "api/workflow/stop.h"

#include <assert.h>
#include <stdio.h>

#include "api/auth/sender.h"
#include "api/resource/edit.h"
#include "api/resource/recall.h"
#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "api/server/request_input.h"
#include "api/task/body.h"
#include "api/workflow/retry.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "core/flow/place.h"

enum {
    STOP_ROWS = 1000,
    STOP_ARENA = 4 << 20,
    STOP_READS_MAX = 100, /* rows that are read one by one, before requests of others have their turn */
    STOPPED_ANYWAY = 100,
    STOPPED_LATE_MS = 5000,
    CHECK_MS = 10,
    NS_PER_MS = 1000000,
    NOTE_TRIES_MAX = 8,
    PAUSE_DOC_MAX = 16 << 10,
    PAUSE_LOOKED_AT_MS = 86400000, /* a pause without an end: whether its record is still needed */
    WHY_TEXT = 160
};

/* ---- cancel, pause, resume ---- */

struct stopping {
    struct request *q;
    enum action action, asked; /* asked: by the request. It is the same, unless another was first */
    bool compensate;
    bool follows; /* another pause or resume was first */
    struct pause_body pause;
    bool notes_pause, was_paused; /* the pause is to be noted; it goes on */
    int tries;
    char why[WHY_TEXT];
    struct uuid *runs; /* the run and the runs below it */
    size_t run_count, run_cap, at;
    bool pages;                /* the run `at` has more */
    struct fenced_id *claimed; /* steps that are RUNNING under a claim */
    size_t claimed_count, claimed_cap;
    bool claimed_is_cut; /* there are more */
    size_t read;         /* so many of `claimed` were read to be asked for */
    size_t told,
        certain;   /* of `claimed`: their owners were asked; of the first ones it is certain what comes of them */
    bool has_told; /* it has begun to ask */
    struct task replace;
    int64_t until_ns;
    bool nudged;
    struct timer timer;
};

static route_handler stopping_recall, stopping_check;
static enum handled stopping_next(struct stopping *s);

static int64_t stopping_left_ms(const struct stopping *s)
{
    return (s->until_ns - clock_steady_ns(s->q->server->setup.clock)) / NS_PER_MS;
}

static bool stopping_add_run(struct stopping *s, struct uuid run)
{
    for (size_t i = 0; i < s->run_count; i++)
        if (uuid_eq(s->runs[i], run))
            return true;
    if (s->run_count == s->run_cap) {
        size_t cap = 2 * s->run_cap + 16;
        struct uuid *v = arena_array(&s->q->arena, struct uuid, cap);
        if (!v)
            return false;
        if (s->run_count)
            memcpy(v, s->runs, s->run_count * sizeof *v);
        s->runs = v;
        s->run_cap = cap;
    }
    s->runs[s->run_count++] = run;
    return true;
}

static bool stopping_add_claimed(struct stopping *s, const struct fenced_id *v, size_t n)
{
    size_t cap = s->claimed_count + n;
    if (n == 0)
        return true;
    if (cap > s->claimed_cap) {
        struct fenced_id *all = arena_array(&s->q->arena, struct fenced_id, 2 * cap);
        if (!all)
            return false;
        if (s->claimed_count)
            memcpy(all, s->claimed, s->claimed_count * sizeof *all);
        s->claimed = all;
        s->claimed_cap = 2 * cap;
    }
    memcpy(s->claimed + s->claimed_count, v, n * sizeof *v);
    s->claimed_count += n;
    return true;
}

static void stopping_on_page(struct op *op)
{
    const struct op_stop *p = (const struct op_stop *)op;
    struct request *q = op->context;
    struct stopping *s = q->stopping;
    bool fits = true;
    enum err rc = op->rc;
    s->pages = rc == ERR_OK && p->ret_more;
    if (rc == ERR_OK && !p->ret_more) {
        s->claimed_is_cut = s->claimed_is_cut || p->ret_running_count == STOP_RUNNING_MAX;
        fits = stopping_add_claimed(s, p->ret_running, p->ret_running_count);
        for (size_t i = 0; fits && i < p->ret_run_count; i++)
            fits = stopping_add_run(s, p->ret_runs[i]);
        s->at++;
    }
    bool below = (rc == ERR_NOT_FOUND || rc == ERR_CONFLICT) && s->at > 0; /* a map, which is no run, or it has ended */
    request_finish_op(op);
    if (below)
        s->at++;
    if (rc == ERR_CONFLICT && !below) { /* it has ended: the check says how */
        request_later(q, stopping_check);
        return;
    }
    if ((rc && !below) || !fits) {
        if (rc)
            request_fail(q, &op->error);
        else
            request_refuse(q, PROBLEM_UNAVAILABLE, "the run is too large to be changed at once; try again");
        request_answer(q);
        return;
    }
    if (stopping_next(s) == HANDLED_DONE)
        request_answer(q);
}

/* The time is over, and the planner goes on: the run itself is stopped, and no other is half stopped. A few runs below
 * it are stopped in any case, even if the store is slow: nothing of them starts after the answer. */
static bool stopping_leaves(const struct stopping *s)
{
    int64_t left_ms = stopping_left_ms(s) + (s->at <= STOPPED_ANYWAY ? STOPPED_LATE_MS : 0);
    return s->action == ACTION_CANCEL && s->at > 0 && !s->pages && left_ms <= 0;
}

static enum handled stopping_next(struct stopping *s)
{
    static const enum run_change changes[] = {
        [ACTION_CANCEL] = RUN_CANCEL, [ACTION_PAUSE] = RUN_PAUSE, [ACTION_RESUME] = RUN_RESUME
    };
    struct request *q = s->q;
    if (s->at == s->run_count || stopping_leaves(s))
        return request_later(q, stopping_recall);
    q->write.stop = (struct op_stop){ .op = { .kind = OP_STOP, .done = stopping_on_page, .context = q },
                                      .tenant = q->who.tenant,
                                      .run = s->runs[s->at],
                                      .change = changes[s->action],
                                      .follows = s->follows && s->at == 0,
                                      .stop = s->action != ACTION_CANCEL ? RUN_GOES_ON
                                              : s->compensate            ? RUN_CANCELLED_AND_UNDONE
                                                                         : RUN_CANCELLED,
                                      .why = str_from(s->why),
                                      .max = STOP_ROWS,
                                      .now_ms = q->now_ms };
    arena_init(&q->write.op.arena, STOP_ARENA);
    return request_submit_op(q, &q->write.op);
}

/* ---- steps that are claimed ---- */

static void stopping_set_replacement(struct stopping *s, const struct task *t)
{
    s->replace = *t;
    s->replace.version++;
    s->replace.updated_ms = s->q->now_ms;
    s->replace.claim = (struct uuid){ 0 };
    task_forget_delays(&s->replace);
    if (s->action == ACTION_PAUSE) {
        s->replace.state = TASK_PAUSED;
        return;
    }
    s->replace.state = TASK_CANCELLED;
    s->replace.completed_ms = s->q->now_ms;
    s->replace.last_error = str_from(s->why);
}

/* Reads a claimed step. *ret_runs: it is RUNNING still, perhaps under a later claim. */
static enum err stopping_read_claimed(struct stopping *s, struct reader *r, struct uuid id, struct arena *a,
                                      struct task *ret, bool *ret_runs, struct error *e)
{
    arena_reset(a);
    enum err rc = reader_get(r, s->q->who.tenant, id, a, ret, e);
    *ret_runs = rc == ERR_OK && ret->state == TASK_RUNNING && ret->target != TARGET_WORKFLOW;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void stopping_begin_to_tell(struct stopping *s)
{
    s->has_told = true;
    s->read = s->told = s->certain = 0;
    if (s->action == ACTION_PAUSE)
        recall_group_begin(s->q, s->claimed_count);
    if (s->action == ACTION_RESUME)
        s->read = s->claimed_count;
}

/* Asks for the next claimed steps, and keeps those in `claimed`. The planner sees itself that a control step is
 * stopped. */
static enum err stopping_tell(struct stopping *s, struct reader *r, struct error *e)
{
    bool is_pause = s->action == ACTION_PAUSE;
    size_t end = min_of(s->claimed_count, s->read + STOP_READS_MAX);
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, STOP_ARENA);
    for (; s->read < end; s->read++) {
        struct task t;
        bool runs;
        if (stopping_read_claimed(s, r, s->claimed[s->read].id, &a, &t, &runs, e))
            return e->code;
        if (!runs)
            continue;
        stopping_set_replacement(s, &t);
        recall_tell(
            s->q,
            &(struct recall_order){
                .running = &t, .replace = &s->replace, .abort = !is_pause, .lasts = is_pause, .tells = is_pause });
        s->claimed[s->told++] = (struct fenced_id){ t.id, t.fence };
    }
    return ERR_OK;
}

static enum handled stopping_tell_next(struct request *q, struct reader *r)
{
    struct stopping *s = q->stopping;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (stopping_tell(s, r, &e))
        return request_fail(q, &e);
    return s->read < s->claimed_count ? request_later(q, stopping_tell_next) : stopping_check(q, r);
}

static enum handled stopping_recall(struct request *q, struct reader *r)
{
    stopping_begin_to_tell(q->stopping);
    return stopping_tell_next(q, r);
}

static void stopping_on_timer(struct timer *timer)
{
    struct stopping *s = container_of(timer, struct stopping, timer);
    request_later(s->q, stopping_check);
}

/* How many steps of the runs are still running, or wait again because a node gave them back. Runs that it has no time
 * for count as running. */
static enum err stopping_count(struct stopping *s, struct reader *r, size_t *ret_running, bool *ret_waiting,
                               struct error *e)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, STOP_ARENA * 8);
    *ret_running = 0;
    *ret_waiting = false;
    for (size_t i = 0; i < s->run_count && !*ret_waiting; i++) {
        if (i >= s->at || (i > 0 && stopping_left_ms(s) <= 0)) {
            *ret_running += 1;
            return ERR_OK;
        }
        struct tasks v = { 0 };
        struct step_filter f = { .tenant = s->q->who.tenant,
                                 .run = s->runs[i],
                                 .states = 1U << TASK_RUNNING | 1U << TASK_SCHEDULED,
                                 .limit = OPEN_ROWS_MAX };
        if (reader_steps(r, &f, &a, &v, e))
            return e->code;
        for (size_t k = 0; k < v.n; k++) {
            bool is_call = v.v[k].target != TARGET_WORKFLOW && place_kind(v.v[k].place) == PLACE_KIND_STEP;
            *ret_running += is_call && v.v[k].state == TASK_RUNNING;
            *ret_waiting = *ret_waiting || (is_call && v.v[k].state == TASK_SCHEDULED);
        }
        arena_reset(&a);
    }
    return ERR_OK;
}

static void stopping_on_recorded(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (!request_replayed(q, op))
        request_answer(q); /* the run is as the client wants it, whether or not the record could be stored */
}

/* The change can be repeated, so its record is stored last: it has the answer. */
static enum handled stopping_answer(struct request *q, struct reader *r, const struct workflow_run *run, int status)
{
    if (q->route->scope == SCOPE_WORKFLOWS_WRITE) {
        if (run_answer(q, r, run, status) == HANDLED_LATER || q->response.status >= 300)
            return HANDLED_DONE;
    } else {
        struct task_context c = request_context(q);
        struct jw w = respond_json(&q->response, status);
        task_to_json(&w, &run->task, &c);
    }
    if (!q->has_record)
        return HANDLED_DONE;
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT }, .idempotency = request_record(q) };
    return request_submit(q, stopping_on_recorded);
}

/* A pause and a resume that came at once may have reached steps and runs below in another order than the run itself.
 * Who is done last sees that, and changes those once more, as the run is now. */
static bool stopping_is_overtaken(const struct stopping *s, const struct workflow_run *run)
{
    if (!run->opened || task_is_final(run->task.state))
        return false;
    return s->action == (run->row.paused ? ACTION_RESUME : ACTION_PAUSE);
}

/* What is left of it ends, and starts nothing. Compensations can be paused. */
static bool stopping_is_too_late(const struct workflow_run *run)
{
    return run->opened && !task_is_final(run->task.state) && run->row.stop == RUN_CANCELLED &&
           !(run->task.links & TASK_AGAIN);
}

static enum handled stopping_follow(struct stopping *s)
{
    s->action = s->action == ACTION_PAUSE ? ACTION_RESUME : ACTION_PAUSE;
    s->follows = true;
    s->at = s->claimed_count = 0;
    s->claimed_is_cut = false;
    return stopping_next(s);
}

/* ---- who paused it, and why ---- */

static void stopping_on_noted(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct stopping *s = q->stopping;
    bool again = op->rc == ERR_CONFLICT && ++s->tries < NOTE_TRIES_MAX;
    s->notes_pause = again;
    if (!op->rc || again) {
        request_later(q, stopping_check);
        return;
    }
    request_fail(q, &op->error);
    request_answer(q);
}

static enum err stopping_make_note(struct request *q, struct reader *r, const struct task *run, struct record *ret,
                                   struct error *e)
{
    struct stopping *s = q->stopping;
    struct pause p;
    struct jw w;
    bool known;
    cleanup_with(buf_release) struct buf doc;
    buf_init(&doc, PAUSE_DOC_MAX);
    jw_init(&w, &doc);
    if (run_pause_read(q, r, run, ret, &p, &known, e))
        return e->code;
    if (!known || !s->was_paused)
        p = (struct pause){ .since_ms = q->now_ms };
    pause_body_apply(&s->pause, &p);
    if (sender_own_name(q, r, &p.by, e))
        return e->code;
    p.by = p.by.n ? p.by : S("a job");
    pause_write(&w, &p);
    ret->next_ms = p.until_ms ? p.until_ms : q->now_ms + PAUSE_LOOKED_AT_MS;
    return !doc.full && arena_str(&q->arena, buf_str(&doc), &ret->doc) ? ERR_OK : error_no_room(e);
}

static enum handled stopping_note_pause(struct request *q, struct reader *r, const struct task *run)
{
    struct error e = { 0 };
    struct record_change *c = arena_new(&q->arena, struct record_change);
    if (stopping_make_note(q, r, run, &c->record, &e))
        return request_fail(q, &e);
    c->version = c->record.version;
    q->write.fold = (struct op_fold){ .op = { .kind = OP_FOLD }, .v = c, .n = 1 };
    return request_submit(q, stopping_on_noted);
}

static enum handled stopping_check_later(struct stopping *s, int64_t ms)
{
    s->timer.fire = stopping_on_timer;
    timers_add(s->q->server->timers, &s->timer, ms);
    return HANDLED_LATER;
}

/* Counts on in `certain`. A step that is not RUNNING any more was taken back or has ended: the run is paused, so the
 * step does not become RUNNING again. */
static enum err stopping_count_certain(struct stopping *s, struct reader *r, struct error *e)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, STOP_ARENA);
    for (size_t reads = 0; s->certain < s->told; s->certain++) {
        struct task t;
        bool runs;
        if (recall_is_sure(s->q, s->certain))
            continue;
        if (++reads > STOP_READS_MAX) /* the next check goes on */
            return ERR_OK;
        if (stopping_read_claimed(s, r, s->claimed[s->certain].id, &a, &t, &runs, e))
            return e->code;
        if (runs)
            return ERR_OK;
    }
    return ERR_OK;
}

/* A pause is answered 200 when each claimed step is taken back, or has started, or has ended. */
static enum handled stopping_await_recalls(struct stopping *s, struct reader *r, const struct workflow_run *run)
{
    struct error e = { 0 };
    if (!s->has_told) /* it was not open */
        return stopping_answer(s->q, r, run, 200);
    if (stopping_count_certain(s, r, &e))
        return request_fail(s->q, &e);
    if (s->certain == s->told && !s->claimed_is_cut) {
        int64_t sure_in_ms = recall_sure_in_ms(s->q);
        return sure_in_ms ? stopping_check_later(s, sure_in_ms) : stopping_answer(s->q, r, run, 200);
    }
    if (stopping_left_ms(s) <= 0)
        return stopping_answer(s->q, r, run, 202);
    return stopping_check_later(s, CHECK_MS);
}

static enum handled stopping_check(struct request *q, struct reader *r)
{
    struct stopping *s = q->stopping;
    struct error e = { 0 };
    struct workflow_run run;
    size_t running = 0;
    bool waiting = false, undoing = false;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (run_read(q, r, &run, &e))
        return request_fail(q, &e);
    if (!s->nudged) {
        request_nudge(q, &run.task, 1);
        s->nudged = true;
    }
    if (s->action == ACTION_CANCEL && task_is_final(run.task.state) && run.task.state != TASK_CANCELLED)
        return request_refuse(q, PROBLEM_CONFLICT,
                              run.task.state == TASK_COMPLETED ? "the run is COMPLETED and cannot be cancelled"
                                                               : "the run has failed; there is nothing to cancel");
    if (s->asked == ACTION_PAUSE && stopping_is_too_late(&run))
        return request_refuse(q, PROBLEM_CONFLICT,
                              "the run was cancelled and is about to end: there is nothing to pause");
    if (stopping_is_overtaken(s, &run))
        return stopping_follow(s);
    if (s->notes_pause && run.opened && run.row.paused && !task_is_final(run.task.state))
        return stopping_note_pause(q, r, &run.task);
    if (s->action == ACTION_PAUSE && s->asked == ACTION_PAUSE && !task_is_final(run.task.state))
        return stopping_await_recalls(s, r, &run);
    if (s->action != ACTION_CANCEL || task_is_final(run.task.state))
        return stopping_answer(q, r, &run, 200);
    if (stopping_count(s, r, &running, &waiting, &e))
        return request_fail(q, &e);
    bool forgotten = run.opened && run.row.stop == RUN_GOES_ON; /* it was retried at the same moment */
    bool is_quiet = !running && !waiting && !forgotten;
    if (stopping_left_ms(s) <= 0) /* without compensations, a run that is quiet ends soon, and can be retried then */
        return stopping_answer(q, r, &run, is_quiet && s->compensate ? 200 : 202);
    if (waiting || forgotten) {
        s->at = s->claimed_count = 0;
        return stopping_next(s);
    }
    if (!running && s->compensate && run_is_undoing(q, r, &run.task, &undoing, &e))
        return request_fail(q, &e);
    if (undoing) /* else there is nothing to undo, and it ends soon, or a run within it undoes */
        return stopping_answer(q, r, &run, 200);
    return stopping_check_later(s, CHECK_MS);
}

/* Its deadline has passed, and the timer is about to stop it: after a downtime, that takes a moment. A resume would
 * start steps before. What a run undoes knows no deadline. */
static enum err stop_check_late(struct request *q, struct reader *r, struct error *e)
{
    struct workflow_run run;
    struct run_tally tally;
    char when[RFC3339_TEXT + 1];
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (run_read(q, r, &run, e))
        return e->code;
    if (!run.opened || task_is_final(run.task.state) || !run_is_late(&run.row, q->now_ms))
        return ERR_OK;
    if (run_definition(q, r, &run, &d, e) || run_tally(q, r, &run, d->dag, &tally, e))
        return e->code;
    if (tally.undo_total)
        return ERR_OK;
    rfc3339_format(run.row.deadline_ms, when);
    return error_set(e, ERR_CONFLICT,
                     "the deadline of the run was at %s, and it is being stopped: nothing of it starts any more", when);
}

/* A run that is paused already stays so. What the request gives is changed. */
static enum err stopping_read_pause(struct stopping *s, struct reader *r, const struct pause_body *pause,
                                    struct error *e)
{
    struct workflow_run run;
    if (s->action != ACTION_PAUSE)
        return ERR_OK;
    if (run_read(s->q, r, &run, e))
        return e->code;
    s->was_paused = run.opened && run.row.paused;
    s->pause = *pause;
    s->notes_pause = !s->was_paused || !pause_body_is_empty(pause);
    return ERR_OK;
}

enum handled workflows_stop(struct request *q, struct reader *r, enum action action, bool compensate,
                            const struct pause_body *pause)
{
    struct error e = { 0 };
    struct str by;
    static const char *const verbs[] = {
        [ACTION_CANCEL] = "cancelled", [ACTION_PAUSE] = "paused", [ACTION_RESUME] = "resumed"
    };
    struct stopping *s = arena_new(&q->arena, struct stopping);
    s->q = q;
    s->action = s->asked = action;
    s->compensate = compensate;
    s->until_ns = clock_steady_ns(q->server->setup.clock) + q->server->limits.recall_ms * NS_PER_MS;
    if ((action == ACTION_RESUME && stop_check_late(q, r, &e)) || stopping_read_pause(s, r, pause, &e) ||
        sender_own_name(q, r, &by, &e))
        return request_fail(q, &e);
    by = by.n ? str_utf8_cut(by, WHY_TEXT / 2) : S("a job");
    snprintf(s->why, sizeof s->why, "%s by " STR_FMT, verbs[action], STR_ARG(by));
    q->stopping = s;
    if (!stopping_add_run(s, q->id)) {
        (void)error_no_room(&e);
        return request_fail(q, &e);
    }
    return stopping_next(s);
}

struct act_body {
    bool compensate;
    struct pause_body pause;
};

/* A run that undoes what it did has failed: a cancellation would only hide why. */
static enum err stop_check_undo(struct request *q, struct reader *r, const struct workflow_run *run, struct error *e)
{
    struct run_tally tally;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (run_definition(q, r, run, &d, e) || run_tally(q, r, run, d->dag, &tally, e))
        return e->code;
    if (!tally.undo_total)
        return ERR_OK;
    return error_set(e, ERR_CONFLICT, "the run has failed, and what it did is being undone; wait for its end");
}

/* A cancel that comes after the end of the run undoes nothing. */
static enum err stop_check_ended(const struct workflow_run *run, struct error *e)
{
    enum task_state state = run->task.state;
    bool undone = run->row.stop == RUN_CANCELLED_AND_UNDONE; /* the same cancel once more */
    if (!run->opened || !task_is_final(state) || undone)
        return ERR_OK;
    return error_set(e, ERR_CONFLICT, "the run is %s, and a cancel undoes nothing any more; %s", task_state_name(state),
                     state == TASK_FAILED      ? "a run that fails undoes by itself what it did"
                     : state == TASK_CANCELLED ? "retry it, then cancel it with compensate"
                                               : "run a workflow that undoes it");
}

/* A FAILED run is retried, not resumed, unless nothing of it can be retried. */
static enum err stop_check_resume(struct request *q, struct reader *r, const struct workflow_run *run, struct error *e)
{
    struct error why = { 0 };
    if (run->task.state != TASK_FAILED || !run_check_retry(q, r, &run->task, &why))
        return ERR_OK;
    return error_set(e, ERR_CONFLICT, "the run is FAILED and cannot be resumed; %s", why.text);
}

static const char *stop_action_name(enum action a)
{
    return a == ACTION_CANCEL ? "cancel" : a == ACTION_PAUSE ? "pause" : "resume";
}

enum handled workflows_act(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "compensate", .kind = JSON_KIND_BOOL, .offset = offsetof(struct act_body, compensate) },
    };
    struct error e = { 0 };
    struct act_body b = { 0 };
    struct workflow_run run;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    enum action action = (enum action)q->route->argument;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    enum err rc = request_read_object(q, &doc, &e);
    if (rc == ERR_OK && action == ACTION_PAUSE)
        rc = edit_read_pause(q, &doc, &b.pause, &e);
    else if (rc == ERR_OK)
        rc = json_read(doc.root, fields, action == ACTION_CANCEL ? 1 : 0, &b, &q->arena, &e);
    if (rc || run_read(q, r, &run, &e))
        return request_fail(q, &e);
    if ((b.compensate && stop_check_ended(&run, &e)) || (action == ACTION_RESUME && stop_check_resume(q, r, &run, &e)))
        return request_fail(q, &e);
    bool open = run.opened && !task_is_final(run.task.state);
    if (open && action == ACTION_CANCEL && run.row.stop == RUN_GOES_ON && stop_check_undo(q, r, &run, &e))
        return request_fail(q, &e);
    log_info("workflow_changed", kv_uuid("run", q->id), kv_cstr("action", stop_action_name(action)),
             kv_cstr("by", q->who.key_id), kv_i64("tenant", q->who.tenant));
    return edit_act(q, r, action, b.compensate, &b.pause); /* which knows of open runs */
}
