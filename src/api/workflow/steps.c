/* The steps of a run as they are shown: their list, and one of them. */
#include <stdio.h>

#include "api/auth/sender.h"
#include "api/resource/tasks.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/workflow/steps.h"
#include "api/workflow/waits.h"
#include "core/flow/place.h"
#include "workflow/definition.h"

enum {
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

enum err steps_count_items(struct reader *r, const struct task *map, int64_t now_ms, int64_t by_state[TASK_STATES],
                           int64_t *ret_total, struct error *e)
{
    struct step_filter f = { .tenant = map->tenant,
                             .run = map->run,
                             .by_step = true,
                             .step = place_step(map->place),
                             .has_after = true,
                             .after = map->place,
                             .limit = STEPS_READ_MAX };
    cleanup_with(arena_release) struct arena page;
    arena_init(&page, ITEMS_ARENA);
    *ret_total = 0;
    for (bool more = true; more;) {
        struct tasks x = { 0 };
        if (reader_steps(r, &f, &page, &x, e))
            return e->code;
        for (size_t i = 0; i < x.n; i++) {
            bool is_item = place_kind(x.v[i].place) == PLACE_KIND_STEP;
            *ret_total += is_item;
            by_state[task_shown_state(&x.v[i], now_ms)] += is_item;
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
    if (steps_count_items(v->r, t, v->q->now_ms, by_state, &total, e))
        return e->code;
    run_write_items(w, by_state, total);
    return ERR_OK;
}

bool steps_is_map(const struct dag_step *s, const struct task *t)
{
    return s->map.is_set && place_item(t->place) < 0 && place_kind(t->place) == PLACE_KIND_STEP;
}

static const char *steps_target(const struct dag_step *s, const struct task *t)
{
    bool waits = place_kind(t->place) == PLACE_KIND_STEP && s->await.signal.n;
    return waits ? "AWAIT" : steps_is_map(s, t) ? "MAP" : target_kind_name(t->target);
}

enum err steps_write(const struct step_view *v, struct jw *w, const struct task *t, struct error *e)
{
    const struct dag_step *s = &v->d->steps[place_step(t->place)];
    int64_t item = place_item(t->place);
    char error[RUN_ERROR_TEXT];
    struct run_hold hold;
    struct str by = settled_by(t), by_name = S("");
    if (run_hold_read(v->holds, t, &hold, e) || (by.n && sender_name_read(v->q, v->r, by, &by_name, e)))
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
    struct step_filter f = { .tenant = q->who.tenant,
                             .run = run.task.id,
                             .states = p.states,
                             .shown_at_ms = q->now_ms,
                             .limit = (size_t)p.limit };
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

enum err steps_find(struct request *q, struct reader *r, const struct workflow_run *run, const struct dag *d,
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
    *ret = (struct run_step_shown){ .target = steps_target(s, t), .item_count = -1 };
    if (!arena_str(&q->arena, s->text, &ret->definition))
        return error_no_room(e);
    return steps_is_map(s, t) ? steps_count_items(r, t, q->now_ms, ret->items, &ret->item_count, e) : ERR_OK;
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
