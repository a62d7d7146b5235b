/* Decisions on a step of a run by hand: run now, complete, skip. Such a decision is an edit of the step's task, which
 * from then on has TASK_BY_HAND: its join did not decide. */
#include <stdio.h>

#include "api/resource/recall.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "api/server/timers.h"
#include "api/workflow/retry.h"
#include "api/workflow/steps.h"
#include "base/log.h"
#include "core/flow/place.h"
#include "core/task/action.h"
#include "workflow/definition.h"

enum {
    TRIES_MAX = 8,
    RETRY_MS = 5,
    NS_PER_MS = 1000000,
    NOTICE_TEXT = 1024,
    REFERRERS_SHOWN = 8,
};

struct step_edit {
    enum action action; /* CANCEL: skip */
    int64_t item;       /* of a map; -1: the step itself */
    bool force;
    json_t *output_value;
    struct str output; /* JSON text; empty: none */
    struct task current, next;
    struct workflow_run run;
    struct task run_next; /* with `retries`: the run, which goes on with the step COMPLETED */
    bool retries;
    bool undoes;        /* `next` is a compensation that failed: there may be more */
    size_t undone;      /* such ones so far */
    int64_t undo_place; /* of the compensation of an open run that is decided on; 0: none */
    bool undo_more;     /* the step has more compensations that wait: of a map */
    int tries;
    struct request *q;
    struct task claimed; /* as it was when another node gave it back */
    int64_t deadline_ns; /* for its node to give it back; 0: not asked yet */
    struct timer timer;
};

static route_handler steps_attempt;

static void steps_log(struct request *q, const struct step_edit *s, enum task_state now)
{
    struct task t = s->next;
    t.state = now;
    transition_log_changed(q->server->setup.transitions, &t, task_shown_state(&s->current, q->now_ms));
}

static void steps_on_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct step_edit *s = q->context;
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_OK)
        steps_log(q, s, q->write.put.ret_state);
    if (op->rc == ERR_CONFLICT && ++s->tries < TRIES_MAX) {
        request_later(q, steps_attempt);
        return;
    }
    if (op->rc == ERR_OK && (s->undoes || s->undo_more)) {
        if (s->undo_more)
            request_nudge(q, &s->next, 1);
        s->undo_place = s->undo_more ? s->current.place : 0;
        request_later(q, steps_attempt);
        return;
    }
    request_answer_written(q, op, &s->next, 1);
}

static void steps_on_run_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct step_edit *s = q->context;
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_OK)
        transition_log_changed(q->server->setup.transitions, &s->run_next, s->run.task.state);
    request_answer_written(q, op, &s->run_next, 1);
}

/* A user has completed or skipped it: the error and the start of the attempt before are none of this. Who did it, and
 * the output for those who refer to it, are kept with the row. An await has waited until now. */
static enum err steps_settle(struct request *q, struct step_edit *s, struct str why, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 2 * STEP_OUTPUT_MAX);
    struct str rest = s->next.extra.n ? str_sub(s->next.extra, 1, s->next.extra.n) : S("}");
    s->next.last_error = why;
    if (!(s->current.links & TASK_AWAITS))
        s->next.started_ms = 0;
    buf_printf(&text, "{\"%s\":\"%s\"%s", SETTLED_BY, q->who.key_id, s->output.n ? ",\"output\":" : "");
    buf_add(&text, s->output);
    buf_text(&text, rest.n > 1 ? "," : "");
    buf_add(&text, rest);
    return !text.full && arena_str(&q->arena, buf_str(&text), &s->next.extra) ? ERR_OK : error_no_room(e);
}

/* The first compensation of the step that failed; nil id: none. */
static enum err steps_failed_undo(struct request *q, struct reader *r, uint32_t step, struct task *ret, struct error *e)
{
    struct tasks v = { 0 };
    struct step_filter f = { .tenant = q->who.tenant,
                             .run = q->id,
                             .states = 1U << TASK_FAILED | 1U << TASK_EXPIRED | 1U << TASK_CANCELLED,
                             .by_step = true,
                             .step = step,
                             .has_after = true,
                             .after = place_of_undo(0, -1) - 1,
                             .limit = 1 };
    *ret = (struct task){ 0 };
    if (reader_steps(r, &f, &q->arena, &v, e))
        return e->code;
    if (v.n && place_kind(v.v[0].place) == PLACE_KIND_UNDO)
        *ret = v.v[0];
    return ERR_OK;
}

static enum err steps_complete_by_hand(struct request *q, struct step_edit *s, struct error *e)
{
    s->next = s->current;
    s->next.version++;
    s->next.updated_ms = s->next.completed_ms = q->now_ms;
    s->next.state = TASK_COMPLETED;
    s->next.links |= TASK_BY_HAND;
    s->next.cause = (struct str){ NULL, 0 };
    return steps_settle(q, s, S(""), e);
}

/* A user has undone the step: its failed compensations become COMPLETED, one after the other. Then the run is retried:
 * it repeats what else failed of them and ends anew. */
static enum err steps_plan_undo(struct request *q, struct reader *r, uint32_t step, struct step_edit *s,
                                struct error *e)
{
    struct task undo;
    if (steps_failed_undo(q, r, step, &undo, e))
        return e->code;
    s->undoes = !uuid_is_nil(undo.id);
    if (s->undoes && s->output.n)
        return error_field(e, "output", "is for a step, not for its compensation");
    if (s->undoes) {
        s->undone++;
        s->current = undo;
        return steps_complete_by_hand(q, s, e);
    }
    if (!s->undone)
        return error_set(e, ERR_CONFLICT,
                         "the steps of the run were compensated, and no compensation of this step failed; rerun it");
    s->retries = true;
    return run_make_retry(q, &s->run, S(""), &s->run_next, e);
}

/* What is possible in place of a decision on a step of a run that has ended. */
static enum err steps_refuse_over(struct request *q, const struct step_edit *s, const struct run_tally *tally,
                                  struct error *e)
{
    enum task_state state = s->run.task.state;
    char id[UUID_TEXT + 1];
    uuid_format(q->id, id);
    bool retries = state != TASK_COMPLETED && !(tally->undo_total && tally->undone == tally->undo_total);
    return error_set(e, ERR_CONFLICT,
                     "the run is %s; %srerun it from that step: belfry workflow rerun %s --from " STR_FMT,
                     task_state_name(state), retries ? "retry it, or " : "", id, STR_ARG(q->name));
}

/* A failed step of a run that has ended: the run is retried, and its opening completes the step. */
static enum err steps_plan_retry(struct request *q, struct reader *r, const struct dag *d, struct step_edit *s,
                                 struct error *e)
{
    cleanup_with(buf_release) struct buf more;
    enum task_state state = s->current.state;
    bool failed = state == TASK_FAILED || state == TASK_EXPIRED || state == TASK_CANCELLED;
    struct run_tally tally;
    buf_init(&more, 2 * STEP_OUTPUT_MAX);
    bool may = s->run.task.state != TASK_COMPLETED && s->action == ACTION_FORCE_COMPLETE;
    if (may && s->item >= 0) /* the map would end before its other items have run again */
        return error_set(e, ERR_CONFLICT,
                         "the run is %s; retry it and complete the item while it waits, or complete the whole step",
                         task_state_name(s->run.task.state));
    if (run_tally(q, r, &s->run, d, &tally, e))
        return e->code;
    if (!may)
        return steps_refuse_over(q, s, &tally, e);
    if (tally.undo_total)
        return steps_plan_undo(q, r, place_step(s->current.place), s, e);
    if (!failed)
        return error_set(e, ERR_CONFLICT, "the step is %s; only a failed step of a run that has ended can be completed",
                         task_state_name(state));
    s->retries = true;
    if (steps_complete_by_hand(q, s, e))
        return e->code;
    buf_printf(&more, "\"retry_completes\":\"" STR_FMT "\",\"retry_by\":\"%s\"", STR_ARG(q->name), q->who.key_id);
    if (s->output.n) {
        buf_text(&more, ",\"retry_output\":");
        buf_add(&more, s->output);
    }
    return more.full ? error_no_room(e) : run_make_retry(q, &s->run, buf_str(&more), &s->run_next, e);
}

/* What is decided on, as a text for people. */
static const char *steps_noun(const struct step_edit *s)
{
    return s->item < 0 ? "step" : "item";
}

/* The steps behind it were told how it ended, and may have run or been skipped since: nothing can take that back while
 * the run is open. */
static enum err steps_refuse_ended(struct request *q, struct reader *r, const struct step_edit *s, struct error *e)
{
    if (task_awaits_attempt(&s->run.task, q->now_ms))
        return run_refuse_waiting(q, r, &s->run.task, "the run has not ended, and its next attempt runs the step again",
                                  e);
    bool completes = s->action == ACTION_FORCE_COMPLETE && s->item < 0;
    return error_set(
        e, ERR_CONFLICT,
        "the %s is %s, and the steps behind it know that; wait until the run has ended, or cancel it; then %s",
        steps_noun(s), task_state_name(s->current.state),
        completes ? "complete the step, which retries the run" : "retry the run ('belfry workflow retry')");
}

static enum err steps_plan(struct request *q, struct reader *r, struct step_edit *s, struct error *e)
{
    struct action_plan plan;
    bool skips = s->action == ACTION_CANCEL;
    enum action action = skips ? ACTION_FORCE_COMPLETE : s->action;
    if (task_is_final(s->current.state) && s->current.state != TASK_COMPLETED)
        return steps_refuse_ended(q, r, s, e);
    if (s->action == ACTION_RUN_NOW && s->current.state == TASK_COMPLETED)
        return error_set(e, ERR_CONFLICT,
                         "the %s is COMPLETED and cannot be run now; wait for the end of the run, or cancel it, then "
                         "rerun it from the step",
                         steps_noun(s));
    if (s->action == ACTION_RUN_NOW && s->current.links & TASK_AWAITS)
        return error_set(e, ERR_CONFLICT, "the step awaits a signal already; send it, or complete or skip the step");
    if (s->action == ACTION_RUN_NOW && s->current.links & TASK_OPEN)
        return error_set(e, ERR_CONFLICT, "the %s runs already; wait for it to end", steps_noun(s));
    if (s->action == ACTION_FORCE_COMPLETE && task_shown_state(&s->current, q->now_ms) == TASK_RUNNING)
        return error_set(e, ERR_CONFLICT,
                         "the %s is RUNNING and cannot be completed; wait for its end, or cancel the run",
                         steps_noun(s));
    if (task_act(&s->current, action, s->force, NULL, request_new_id(q), q->now_ms, &plan, e))
        return skips && e->code == ERR_CONFLICT
                   ? error_set(e, ERR_CONFLICT,
                               "the %s is %s and cannot be skipped; wait for its end, or cancel the run", steps_noun(s),
                               task_state_name(task_shown_state(&s->current, q->now_ms)))
                   : e->code;
    if (!plan.changes)
        return error_set(e, ERR_CONFLICT, "the %s is %s already", steps_noun(s), task_state_name(s->current.state));
    s->next = plan.task;
    s->next.links = (s->next.links | TASK_BY_HAND) & ~TASK_AWAITS;
    if (s->action ==
        ACTION_RUN_NOW) { /* it was released before its first attempt. What may expire counts from now on */
        if (s->current.attempts && !s->current.expires_after_ms)
            s->next.scheduled_ms = s->current.scheduled_ms;
        return ERR_OK;
    }
    s->next.state = skips ? TASK_SKIPPED : TASK_COMPLETED;
    return steps_settle(q, s, skips ? S("skipped by hand") : S(""), e);
}

/* While a run undoes what it did, its steps have ended: decisions are on compensations that wait, of a map on one after
 * the other. *ret_done: none is left. */
static enum err steps_find_undo(struct request *q, struct reader *r, struct step_edit *s, bool *ret_done,
                                struct error *e)
{
    uint32_t step = place_step(s->current.place);
    int64_t first = place_of_undo(step, s->item), last = s->item < 0 ? place_of_undo(step + 1, -1) - 1 : first;
    struct step_filter f = { .tenant = q->who.tenant,
                             .run = q->id,
                             .states =
                                 1U << TASK_SCHEDULED | 1U << TASK_BLOCKED | 1U << TASK_PAUSED | 1U << TASK_RUNNING,
                             .has_after = true,
                             .after = s->undo_place ? s->undo_place : first - 1,
                             .limit = 2 };
    struct tasks v = { 0 };
    bool undoing;
    *ret_done = false;
    if (run_is_undoing(q, r, &s->run.task, &undoing, e) || (undoing && reader_steps(r, &f, &q->arena, &v, e)))
        return e->code;
    if (!undoing)
        return ERR_OK;
    *ret_done = s->undo_place != 0 && (!v.n || v.v[0].place > last);
    if (*ret_done)
        return ERR_OK;
    if (!v.n || v.v[0].place > last)
        return error_set(e, ERR_CONFLICT,
                         "what the run did is being undone, and no compensation of the %s waits; wait for the end of "
                         "the run",
                         s->item < 0 ? "step" : "item");
    if (s->action == ACTION_CANCEL)
        return error_set(e, ERR_CONFLICT, "a compensation cannot be skipped; undo the step and complete it");
    if (s->output.n)
        return error_field(e, "output", "is for a step, not for its compensation");
    s->current = v.v[0];
    s->undo_more = v.n > 1 && v.v[1].place <= last;
    return ERR_OK;
}

/* ---- a step that is claimed ahead of its time ---- */

static void steps_on_timer(struct timer *timer)
{
    struct step_edit *s = container_of(timer, struct step_edit, timer);
    request_later(s->q, steps_attempt);
}

static enum handled steps_refuse_claimed(struct request *q)
{
    return request_refuse(
        q, PROBLEM_RUNNING,
        "the step is about to start: its node was asked to give it up, and has not answered yet; read "
        "the step again");
}

/* Its node does not know the claim yet: a moment later, it does. */
static enum handled steps_recall_later(struct request *q, struct step_edit *s)
{
    if (clock_steady_ns(q->server->setup.clock) >= s->deadline_ns)
        return steps_refuse_claimed(q);
    s->timer.fire = steps_on_timer;
    timers_add(q->server->timers, &s->timer, RETRY_MS);
    return HANDLED_LATER;
}

static enum handled steps_after_recall(struct request *q, enum recall_result result, bool known)
{
    struct step_edit *s = q->context;
    switch (result) {
    case RECALL_DONE:
        if (!known)
            return request_refuse(
                q, PROBLEM_UNAVAILABLE,
                "the step does not start, but the store has not confirmed the change yet: read the step again");
        steps_log(q, s, s->next.state);
        request_nudge(q, &s->next, 1);
        s->undo_place = s->undo_more ? s->current.place : 0;
        return s->undo_more ? request_later(q, steps_attempt) : HANDLED_DONE;
    case RECALL_ANSWERED: return request_later(q, request_replay_stored);
    case RECALL_FREED: s->claimed = s->current; break;
    case RECALL_ABORTING:
    case RECALL_RUNNING: /* it has started, and is refused as such */
        if (!known)
            return steps_recall_later(q, s);
        break;
    }
    return ++s->tries < TRIES_MAX ? request_later(q, steps_attempt) : steps_refuse_claimed(q);
}

static void steps_on_recalled(struct request *q, enum recall_result result, bool known)
{
    if (steps_after_recall(q, result, known) == HANDLED_DONE)
        request_answer(q);
}

/* Its node holds it: that node lets go of it and makes the change, as for tasks. */
static enum handled steps_recall(struct request *q, struct step_edit *s)
{
    int64_t now_ns = clock_steady_ns(q->server->setup.clock);
    if (!s->deadline_ns)
        s->deadline_ns = now_ns + recall_wait_ms(q, &s->current) * NS_PER_MS;
    struct recall_order order = { .running = &s->current, .replace = &s->next, .record = request_record(q) };
    int64_t left_ms = (s->deadline_ns - now_ns) / NS_PER_MS;
    return recall_ask(q, &order, left_ms, steps_on_recalled) ? HANDLED_LATER : steps_refuse_claimed(q);
}

/* ---- what a user should know of the decision ---- */

/* Whether the JSON text has a reference that begins so: to that value, or to a part of it. */
static bool steps_text_refers(struct str text, struct str reference)
{
    while (text.n > reference.n) {
        const char *at = memmem(text.p, text.n, reference.p, reference.n);
        if (!at)
            return false;
        text = str_sub(text, (size_t)(at - text.p) + reference.n, text.n);
        if (text.n && (text.p[0] == '"' || text.p[0] == '/'))
            return true;
    }
    return false;
}

static void steps_add_name(struct buf *out, size_t *n, const char *quote, struct str name)
{
    if (++*n <= REFERRERS_SHOWN)
        buf_printf(out, "%s%s" STR_FMT "%s", *n == 1 ? "" : ", ", quote, STR_ARG(name), quote);
}

/* A step without an output, to which others refer. Of a map, the outputs of its items are the output. */
static const char *steps_missing_output(struct request *q, const struct step_edit *s, const struct dag *d)
{
    const struct dag_step *of = &d->steps[place_step(s->next.place)];
    char reference[STEP_NAME_MAX + 32];
    cleanup_with(buf_release) struct buf names;
    struct str kept;
    size_t count = 0;
    buf_init(&names, NOTICE_TEXT);
    if (s->output.n || s->item >= 0 || !of->output_used || of->map.is_set ||
        place_kind(s->next.place) != PLACE_KIND_STEP)
        return NULL;
    buf_text(&names, "it has no output, and these refer to it: ");
    snprintf(reference, sizeof reference, "\"/steps/" STR_FMT "/output", STR_ARG(of->name));
    for (uint32_t i = 0; i < d->n; i++)
        if (steps_text_refers(d->steps[i].text, str_from(reference)))
            steps_add_name(&names, &count, "'", d->steps[i].name);
    if (steps_text_refers(of->text, S("\"/output")))
        steps_add_name(&names, &count, "", S("its compensation"));
    if (steps_text_refers(d->result, str_from(reference)))
        steps_add_name(&names, &count, "", S("the result of the run"));
    if (count > REFERRERS_SHOWN)
        buf_printf(&names, " and %zu more", count - REFERRERS_SHOWN);
    buf_text(&names, ". A reference without a default fails");
    buf_char(&names, '\0');
    return count && !names.full && arena_str(&q->arena, buf_str(&names), &kept) ? kept.p : NULL;
}

/* A user who starts a step of a paused run wants that. What the step opens is paused, as the run is. */
static const char *steps_notice(struct request *q, const struct step_edit *s, const struct dag *d)
{
    const struct dag_step *of = &d->steps[place_step(s->next.place)];
    bool opens = place_kind(s->next.place) == PLACE_KIND_STEP &&
                 (s->next.target == TARGET_WORKFLOW || steps_is_map(of, &s->next)) && !of->await.signal.n;
    if (of->map.is_set && s->item < 0 && s->undo_place) /* the answer shows the last one */
        return "the decision is for the compensations of all items that waited";
    if (s->action == ACTION_FORCE_COMPLETE)
        return steps_missing_output(q, s, d);
    if (s->action != ACTION_RUN_NOW || !s->run.row.paused)
        return NULL;
    return opens ? "the run is paused; this step starts all the same, and what it opens waits for the resume"
                 : "the run is paused; this step starts all the same";
}

static enum handled steps_attempt(struct request *q, struct reader *r)
{
    struct step_edit *s = q->context;
    struct error e = { 0 };
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (run_read(q, r, &s->run, &e) || run_definition(q, r, &s->run, &d, &e) ||
        steps_find(q, r, &s->run, d->dag, s->item, &s->current, &e))
        return request_fail(q, &e);
    bool over = task_is_final(s->run.task.state), done = false;
    if (!over && task_is_final(s->current.state) && steps_find_undo(q, r, s, &done, &e))
        return request_fail(q, &e);
    if (done)
        return HANDLED_DONE; /* the answer is that of the last one */
    task_undo_delay(&s->current, &s->claimed);
    if ((over ? steps_plan_retry(q, r, d->dag, s, &e) : steps_plan(q, r, s, &e)))
        return request_fail(q, &e);
    struct run_holds holds = { .q = q, .r = r, .d = d->dag, .stop = s->run.row.stop };
    struct step_view view = { q, r, d->dag, false, &holds, steps_notice(q, s, d->dag) };
    struct jw w = respond_json(&q->response, 200);
    if (steps_write(&view, &w, &s->next, &e))
        return request_fail(q, &e);
    if (!s->retries && s->current.state == TASK_RUNNING)
        return steps_recall(q, s);
    const struct task *was = s->retries ? &s->run.task : &s->current;
    log_info("workflow_step_changed", kv_uuid("run", q->id), kv_str("step", q->name), kv_i64("item", s->item),
             kv_cstr("action", s->action == ACTION_CANCEL           ? "skip"
                               : s->action == ACTION_FORCE_COMPLETE ? "force-complete"
                                                                    : "run-now"),
             kv_cstr("by", q->who.key_id), kv_i64("tenant", q->who.tenant));
    q->write.put = (struct op_put){ .op = { .kind = OP_PUT },
                                    .task = s->retries ? &s->run_next : &s->next,
                                    .version = was->version,
                                    .fence = was->fence,
                                    .state = was->state,
                                    .idempotency = s->undoes || s->undo_more ? NULL : request_record(q) };
    return request_submit(q, s->retries ? steps_on_run_put : steps_on_put);
}

#define STEP_FIELD(text, kind_, member, ...)                                                                           \
    {                                                                                                                  \
        .name = (text), .kind = (kind_), .offset = offsetof(struct step_edit, member), __VA_ARGS__                     \
    }
#define STEP_ITEM_FIELD STEP_FIELD("item", JSON_KIND_I64, item, .min = 0, .max = DAG_ITEMS_MAX - 1)

enum handled workflow_steps_act(struct request *q, struct reader *r)
{
    /* skip takes the first only */
    static const struct json_field run_fields[] = { STEP_ITEM_FIELD, STEP_FIELD("force", JSON_KIND_BOOL, force) };
    static const struct json_field complete_fields[] = { STEP_ITEM_FIELD,
                                                         STEP_FIELD("output", JSON_KIND_RAW, output_value) };
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct step_edit *s = arena_new(&q->arena, struct step_edit);
    s->q = q;
    s->action = (enum action)q->route->argument;
    s->item = -1;
    const struct json_field *fields = s->action == ACTION_FORCE_COMPLETE ? complete_fields : run_fields;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (request_read_object(q, &doc, &e) ||
        json_read(doc.root, fields, s->action == ACTION_CANCEL ? 1 : 2, s, &q->arena, &e))
        return request_fail(q, &e);
    s->output = s->output_value ? json_member_text(&doc, "output") : S("");
    s->output_value = NULL;
    if (s->output.n > STEP_OUTPUT_MAX) {
        (void)error_field(&e, "output", "must be at most %d bytes long, not %zu", STEP_OUTPUT_MAX, s->output.n);
        return request_fail(q, &e);
    }
    q->context = s;
    return steps_attempt(q, r);
}
