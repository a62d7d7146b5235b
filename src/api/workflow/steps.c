/* The steps of a run: their list, and decisions over one of them by hand. Such a decision is an edit of the step's
 * task, which from then on has TASK_BY_HAND: its join did not decide. */
#include <assert.h>
#include <stdio.h>

#include "api/resource/change.h"
#include "api/resource/recall.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/timers.h"
#include "api/workflow/holds.h"
#include "api/workflow/runs.h"
#include "api/workflow/waits.h"
#include "base/log.h"
#include "core/flow/place.h"
#include "core/task/action.h"
#include "workflow/definition.h"

enum {
    TRIES_MAX = 8,
    RETRY_MS = 5,
    NS_PER_MS = 1000000,
    OUTPUTS_LIMIT = 100,
    ITEMS_ARENA = 64 << 20,
    EXECUTIONS_ARENA = 16 << 20,
};

/* ---- list ---- */

struct steps_query {
    unsigned states;
    struct str step, cursor;
    int64_t limit;
};

/* What one step is shown with. */
struct step_view {
    struct request *q;
    struct reader *r;
    const struct dag *d;
    bool outputs; /* with what it answered */
    struct run_holds *holds;
    const char *notice; /* NULL: none */
};

static const char *steps_kind(int64_t place)
{
    return place_kind(place) == PLACE_KIND_UNDO ? "COMPENSATION" : place_item(place) >= 0 ? "ITEM" : "STEP";
}

static void steps_write_parents(struct jw *w, const struct dag *d, const struct dag_step *s)
{
    jw_key(w, "depends_on");
    jw_array(w);
    for (uint32_t i = 0; i < s->in.n; i++)
        if (i == 0 || s->in.v[i].step != s->in.v[i - 1].step)
            jw_str(w, d->steps[s->in.v[i].step].name);
    jw_array_end(w);
}

/* The row has the start of the latest attempt that has ended. Of one that runs, the claim has the time at which a node
 * took it. */
static int64_t steps_started_ms(const struct task *t, int64_t now_ms)
{
    bool runs = task_shown_state(t, now_ms) == TASK_RUNNING && !uuid_is_nil(t->claim) && t->target != TARGET_WORKFLOW;
    return runs ? max_of(uuid_time_ms(t->claim), t->due_ms) : t->started_ms;
}

/* When it could start first: its release, and its delay after that. Later attempts, losses and pauses do not move it. A
 * user who starts a step does not wait for that. The delay of a step that waits for none is in its time already. */
static int64_t steps_released_ms(const struct dag *d, const struct task *t, int64_t first_ms)
{
    const struct dag_step *s = &d->steps[place_step(t->place)];
    bool is_delayed = place_kind(t->place) == PLACE_KIND_STEP && place_item(t->place) < 0 && s->in.n;
    int64_t ms = t->scheduled_ms + (is_delayed ? s->delay_ms : 0);
    if (!first_ms && (t->links & TASK_WAITS || task_is_final(t->state)))
        return 0;
    return first_ms ? min_of(ms, first_ms) : ms;
}

/* The start of its first attempt. The row knows the latest one; if there were others, they are in its history. */
static enum err steps_first_ms(const struct step_view *v, const struct task *t, int64_t started_ms, int64_t *ret,
                               struct error *e)
{
    bool repeated = t->attempts > 1 || t->losses || (t->attempts && !task_is_final(t->state)) ||
                    (started_ms && t->due_ms > t->scheduled_ms && t->target != TARGET_WORKFLOW);
    struct execution_filter f = { .tenant = t->tenant, .task = t->id, .limit = LIST_MAX };
    struct execution_page page = { 0 };
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, EXECUTIONS_ARENA);
    *ret = started_ms;
    bool none_counts = task_is_final(t->state) && !started_ms; /* a user has ended it, or it is a copy */
    if (!repeated || none_counts)
        return ERR_OK;
    enum err rc = reader_executions(v->r, &f, &a, &page, e);
    if (rc && rc != ERR_LIMIT) /* outputs too large to look at: the latest start is better than none */
        return rc;
    for (size_t i = 0; i < page.executions.n; i++) {
        int64_t ms = page.executions.v[i].started_us / 1000;
        bool is_of_run = ms >= t->created_ms; /* a run that was retried begins anew */
        if (ms && is_of_run && (!*ret || ms < *ret))
            *ret = ms;
    }
    return ERR_OK;
}

static void steps_write_span(struct jw *w, const char *name, bool known, int64_t ms)
{
    jw_key(w, name);
    if (known)
        jw_i64(w, max_of(ms, (int64_t)0));
    else
        jw_null(w);
}

/* A copy of a rerun took no time of this run. */
static enum err steps_write_times(const struct step_view *v, struct jw *w, const struct task *t, struct error *e)
{
    int64_t now_ms = v->q->now_ms, first_ms;
    bool copied = str_eq(t->last_error, S(COPIED_ROW));
    int64_t started_ms = copied ? 0 : steps_started_ms(t, now_ms);
    if (steps_first_ms(v, t, started_ms, &first_ms, e))
        return e->code;
    int64_t released_ms = steps_released_ms(v->d, t, first_ms);
    bool is_due_later = task_shown_state(t, now_ms) == TASK_SCHEDULED && t->due_ms > now_ms;
    jw_kv_time_or_null(w, "due_at", is_due_later ? t->due_ms : 0);
    jw_kv_time_or_null(w, "released_at", released_ms);
    jw_kv_time_or_null(w, "started_at", started_ms);
    jw_kv_time_or_null(w, "completed_at", t->completed_ms);
    steps_write_span(w, "waited_ms", first_ms && released_ms, first_ms - released_ms);
    bool ran = first_ms && t->completed_ms && !settled_by(t).n; /* an await that a user ended has its start */
    steps_write_span(w, "duration_ms", ran, t->completed_ms - first_ms);
    return ERR_OK;
}

static enum err steps_write_output(const struct step_view *v, struct jw *w, const struct task *t, struct error *e)
{
    struct str output;
    if (!v->outputs || t->state != TASK_COMPLETED)
        return ERR_OK;
    if (run_step_output(v->q, v->r, t, &output, e))
        return e->code;
    jw_kv_str_or_null(w, "output", output);
    return ERR_OK;
}

/* How many items of a map are in which state. */
static enum err steps_count_items(const struct step_view *v, const struct task *t, int64_t by_state[TASK_STATES],
                                  int64_t *ret_total, struct error *e)
{
    struct step_filter f = { .tenant = t->tenant,
                             .run = t->run,
                             .by_step = true,
                             .step = place_step(t->place),
                             .has_after = true,
                             .after = t->place,
                             .limit = STEPS_READ_MAX };
    cleanup_with(arena_release) struct arena page;
    arena_init(&page, ITEMS_ARENA);
    *ret_total = 0;
    for (bool more = true; more;) {
        struct tasks x = { 0 };
        if (reader_steps(v->r, &f, &page, &x, e))
            return e->code;
        for (size_t i = 0; i < x.n; i++) {
            bool is_item = place_kind(x.v[i].place) == PLACE_KIND_STEP;
            *ret_total += is_item;
            by_state[task_shown_state(&x.v[i], v->q->now_ms)] += is_item;
        }
        more = x.n == f.limit;
        f.after = x.n ? x.v[x.n - 1].place : 0;
        arena_reset(&page);
    }
    return ERR_OK;
}

static enum err steps_write_items(const struct step_view *v, struct jw *w, const struct task *t, struct error *e)
{
    int64_t by_state[TASK_STATES] = { 0 }, total;
    if (steps_count_items(v, t, by_state, &total, e))
        return e->code;
    run_write_items(w, by_state, total);
    return ERR_OK;
}

static bool steps_is_map(const struct dag_step *s, const struct task *t)
{
    return s->map.is_set && place_item(t->place) < 0 && place_kind(t->place) == PLACE_KIND_STEP;
}

static const char *steps_target(const struct dag_step *s, const struct task *t)
{
    bool waits = place_kind(t->place) == PLACE_KIND_STEP && s->await.signal.n;
    return waits ? "AWAIT" : steps_is_map(s, t) ? "MAP" : target_kind_name(t->target);
}

static enum err steps_write(const struct step_view *v, struct jw *w, const struct task *t, struct error *e)
{
    const struct dag_step *s = &v->d->steps[place_step(t->place)];
    int64_t item = place_item(t->place);
    char error[RUN_ERROR_TEXT];
    struct run_hold hold;
    struct str by = settled_by(t), by_name = S("");
    if (run_hold_read(v->holds, t, &hold, e) || (by.n && change_sender_name(v->q, v->r, by, &by_name, e)))
        return e->code;
    jw_object(w);
    jw_kv_str(w, "step", s->name);
    jw_key(w, "item");
    if (item < 0)
        jw_null(w);
    else
        jw_i64(w, item);
    jw_kv_uuid(w, "id", t->id);
    jw_kv_cstr(w, "kind", steps_kind(t->place));
    jw_kv_cstr(w, "status", task_state_name(task_shown_state(t, v->q->now_ms)));
    jw_kv_cstr(w, "target_type", steps_target(s, t));
    jw_kv_str(w, "queue", t->queue);
    jw_kv_i64(w, "priority", t->priority);
    jw_kv_i64(w, "attempts", t->attempts);
    steps_write_parents(w, v->d, s);
    if (steps_write_times(v, w, t, e))
        return e->code;
    jw_kv_str_or_null(w, "last_error", run_step_error(v->d, t, error));
    jw_kv_bool(w, "by_hand", t->links & TASK_BY_HAND);
    jw_kv_str_or_null(w, "settled_by", by);
    jw_kv_str_or_null(w, "settled_by_name", by_name);
    run_hold_write(w, &hold);
    if (v->notice)
        jw_kv_cstr(w, "notice", v->notice);
    if (steps_write_output(v, w, t, e) || (steps_is_map(s, t) && steps_write_items(v, w, t, e)))
        return e->code;
    jw_object_end(w);
    return ERR_OK;
}

static enum err steps_read_query(struct request *q, const struct dag *d, struct steps_query *p, struct step_filter *f,
                                 struct error *e)
{
    struct str after;
    if (seal_open_name(q, p->cursor, &after, e))
        return e->code;
    f->has_after = after.n && str_to_i64(after, 0, INT64_MAX, &f->after);
    f->by_step = p->step.n > 0;
    return f->by_step ? dag_find_or_explain(d, p->step, &f->step, e) : ERR_OK;
}

static void steps_write_cursor(struct request *q, struct jw *w, const struct tasks *v, bool more)
{
    char plain[32], cursor[SEAL_TEXT_MAX + 1];
    int n = more ? snprintf(plain, sizeof plain, "%lld", (long long)v->v[v->n - 1].place) : 0;
    jw_kv_cstr(w, "next_cursor", more ? seal_text(q, SEAL_CURSOR, (struct str){ plain, (size_t)n }, cursor).p : NULL);
}

#define FIELD(text, kind_, member, ...)                                                                                \
    {                                                                                                                  \
        .name = (text), .kind = (kind_), .offset = offsetof(struct steps_query, member), __VA_ARGS__                   \
    }
static const struct query_field steps_fields[] = {
    FIELD("status", QUERY_STATES, states, .max = 0),
    FIELD("step", QUERY_TEXT, step, .max = STEP_NAME_MAX),
    FIELD("cursor", QUERY_TEXT, cursor, .max = SEAL_TEXT_MAX),
    FIELD("limit", QUERY_I64, limit, .min = 1, .max = STEPS_READ_MAX),
};

/* A run that was never opened because its definition is gone. */
static enum handled steps_write_none(struct request *q)
{
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "steps");
    jw_array(&w);
    jw_array_end(&w);
    jw_kv_cstr(&w, "next_cursor", NULL);
    jw_object_end(&w);
    return HANDLED_DONE;
}

enum handled workflow_steps_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct workflow_run run;
    struct tasks v = { 0 };
    struct steps_query p = { .limit = LIST_DEFAULT };
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (query_read(q->query, steps_fields, array_count(steps_fields), &p, &q->arena, &e) || run_read(q, r, &run, &e))
        return request_fail(q, &e);
    enum err rc = run_definition(q, r, &run, &d, &e);
    if (rc == ERR_NOT_FOUND && !run.opened)
        return steps_write_none(q);
    if (rc)
        return request_fail(q, &e);
    struct step_filter f = {
        .tenant = q->who.tenant, .run = run.task.id, .states = p.states, .limit = (size_t)p.limit
    };
    if (steps_read_query(q, d->dag, &p, &f, &e) || (run.opened && reader_steps(r, &f, &q->arena, &v, &e)))
        return request_fail(q, &e);
    struct run_holds holds = { .q = q, .r = r, .d = d->dag, .stop = run.opened ? run.row.stop : RUN_GOES_ON };
    struct step_view view = { q, r, d->dag, p.limit <= OUTPUTS_LIMIT, &holds, NULL };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "steps");
    jw_array(&w);
    for (size_t i = 0; i < v.n; i++) {
        bool shown = place_kind(v.v[i].place) != PLACE_KIND_DEADLINE && place_step(v.v[i].place) < d->dag->n;
        if (shown && steps_write(&view, &w, &v.v[i], &e))
            return request_fail(q, &e);
    }
    jw_array_end(&w);
    steps_write_cursor(q, &w, &v, v.n == (size_t)p.limit);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- one step ---- */

/* The step in the path, or an item of it. Without an item: -1. */
static enum err steps_find(struct request *q, struct reader *r, const struct workflow_run *run, const struct dag *d,
                           int64_t item, struct task *ret, struct error *e)
{
    uint32_t step;
    if (dag_find_or_explain(d, q->name, &step, e))
        return e->code;
    if (item >= 0 && !d->steps[step].map.is_set)
        return error_field(e, "item", "names an item, and step '" STR_FMT "' has none: it is no map", STR_ARG(q->name));
    if (!run->opened)
        return error_set(e, ERR_CONFLICT, "the run has not started yet");
    int64_t place = item >= 0 ? place_of_item(step, item) : place_of_step(step);
    enum err rc = reader_get(r, q->who.tenant, place_id(run->task.id, place), &q->arena, ret, e);
    if (rc == ERR_NOT_FOUND && item >= 0)
        return error_set(e, ERR_NOT_FOUND, "step '" STR_FMT "' has no item %lld", STR_ARG(q->name), (long long)item);
    return rc;
}

static enum err steps_read_shown(struct request *q, struct reader *r, const struct dag *d, const struct task *t,
                                 struct run_step_shown *ret, struct error *e)
{
    const struct dag_step *s = &d->steps[place_step(t->place)];
    struct step_view view = { .q = q, .r = r, .d = d };
    *ret = (struct run_step_shown){ .target = steps_target(s, t), .item_count = -1 };
    if (!arena_str(&q->arena, s->text, &ret->definition))
        return error_no_room(e);
    return steps_is_map(s, t) ? steps_count_items(&view, t, ret->items, &ret->item_count, e) : ERR_OK;
}

struct step_query {
    int64_t item;
};

enum handled workflow_steps_get(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = { { .name = "item",
                                                   .kind = QUERY_I64,
                                                   .offset = offsetof(struct step_query, item),
                                                   .min = 0,
                                                   .max = DAG_ITEMS_MAX - 1 } };
    struct error e = { 0 };
    struct step_query p = { .item = -1 };
    struct workflow_run run;
    struct task t;
    cleanup_with(definition_releasep) struct cached_definition *d = NULL;
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) || run_read(q, r, &run, &e) ||
        run_definition(q, r, &run, &d, &e) || steps_find(q, r, &run, d->dag, p.item, &t, &e))
        return request_fail(q, &e);
    struct run_step_shown shown;
    if (steps_read_shown(q, r, d->dag, &t, &shown, &e))
        return request_fail(q, &e);
    q->id = t.id;
    return tasks_show_step(q, r, &shown);
}

/* ---- by hand ---- */

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

static void steps_on_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct step_edit *s = q->context;
    if (request_replayed(q, op))
        return;
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
    if (op->rc)
        request_fail(q, &op->error);
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE)
        request_nudge(q, &s->next, 1);
    request_answer(q);
}

static void steps_on_run_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct step_edit *s = q->context;
    if (request_replayed(q, op))
        return;
    if (op->rc)
        request_fail(q, &op->error);
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE)
        request_nudge(q, &s->run_next, 1);
    request_answer(q);
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
static enum err steps_refuse_ended(const struct step_edit *s, struct error *e)
{
    bool completes = s->action == ACTION_FORCE_COMPLETE && s->item < 0;
    return error_set(
        e, ERR_CONFLICT,
        "the %s is %s, and the steps behind it know that; wait until the run has ended, or cancel it; then %s",
        steps_noun(s), task_state_name(s->current.state),
        completes ? "complete the step, which retries the run" : "retry the run ('belfry workflow retry')");
}

static enum err steps_plan(struct request *q, struct step_edit *s, struct error *e)
{
    struct action_plan plan;
    bool skips = s->action == ACTION_CANCEL;
    enum action action = skips ? ACTION_FORCE_COMPLETE : s->action;
    if (task_is_final(s->current.state) && s->current.state != TASK_COMPLETED)
        return steps_refuse_ended(s, e);
    if (s->action == ACTION_RUN_NOW && s->current.links & TASK_AWAITS)
        return error_set(e, ERR_CONFLICT, "the step awaits a signal already; send it, or complete or skip the step");
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

/* A user who starts a step of a paused run wants that. What the step opens is paused, as the run is. */
static const char *steps_notice(const struct step_edit *s, const struct dag *d)
{
    const struct dag_step *of = &d->steps[place_step(s->next.place)];
    bool opens = place_kind(s->next.place) == PLACE_KIND_STEP &&
                 (s->next.target == TARGET_WORKFLOW || steps_is_map(of, &s->next)) && !of->await.signal.n;
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
    if ((over ? steps_plan_retry(q, r, d->dag, s, &e) : steps_plan(q, s, &e)))
        return request_fail(q, &e);
    struct run_holds holds = { .q = q, .r = r, .d = d->dag, .stop = s->run.row.stop };
    struct step_view view = { q, r, d->dag, false, &holds, steps_notice(s, d->dag) };
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
