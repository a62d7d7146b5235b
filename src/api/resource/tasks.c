/* Creates, reads and lists tasks. A create reads nothing from the store: it is parsed on its HTTP thread and goes to
 * the writer together with its idempotency record. It reads only if that key has a record already, or if the task has a
 * dedupe_key. */
#include "api/resource/tasks.h"

#include <assert.h>
#include <stdio.h>

#include "api/resource/dedupe.h"
#include "api/resource/dependencies.h"
#include "api/resource/listing.h"
#include "api/server/internal.h"
#include "api/server/request_context.h"
#include "api/task/body.h"
#include "api/workflow/run.h"
#include "api/workflow/runs.h"
#include "base/json/json.h"
#include "base/rfc3339.h"

enum { LATEST_EXECUTIONS = 10 };

/* ---- create ---- */

void tasks_on_created(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_OK) {
        metric_add_for(q->server->setup.metrics, METRIC_TASKS_SCHEDULED, q->who.tenant, (int64_t)q->task_count);
        live_on_created(q->server->live, q->tasks, q->task_count);
        if (!q->depends || !q->depends->n) /* else its join decides, and the store tells */
            transition_log_created(q->server->setup.transitions, q->tasks, q->task_count);
    }
    request_answer_written(q, op, q->tasks, q->task_count);
}

bool tasks_take_body_key(struct request *q, const struct json_doc *doc)
{
    json_t *value = json_object_get(doc->root, "idempotency_key");
    struct str key = { json_string_value(value), json_string_length(value) };
    if (q->has_record && key.p) {
        request_refuse(q, PROBLEM_INVALID,
                       "the Idempotency-Key is given twice, in the header and in the body; send it once");
        return false;
    }
    if (key.p)
        return request_reserve_key(q, key, "idempotency_key");
    if (q->has_record || !q->server->setup.require_idempotency_key)
        return true;
    request_refuse(q, PROBLEM_KEY_MISSING, "send a header Idempotency-Key, a new one for each request");
    return false;
}

static enum err tasks_read_body(struct request *q, const struct json_doc *doc, struct uuid id, struct task *ret,
                                struct error *e)
{
    struct task_context c = request_context(q);
    c.id = id;
    c.ret_depends = q->depends;
    enum err rc = task_from_json(doc, &c, &q->arena, ret, e);
    if (rc == ERR_OK && (q->route->flags & ROUTE_RECURRING) && ret->kind != TASK_RECURRING)
        return error_field(e, "cron_expression", "is missing: a recurring task has it or 'interval_seconds'");
    return rc;
}

static void tasks_answer_created(struct request *q, const struct task *t)
{
    if (q->route->scope == SCOPE_WORKFLOWS_WRITE) {
        workflows_answer_new(q, t, 201);
        return;
    }
    struct task_context c = request_context(q);
    struct jw w = respond_json(&q->response, 201);
    task_to_json(&w, t, &c);
    char id[UUID_TEXT + 1];
    uuid_format(t->id, id);
    snprintf(q->response.location, sizeof q->response.location, "/v1/tasks/%s", id);
    respond_etag(&q->response, t->version);
}

static void tasks_answer_found(struct request *q, const struct task *t)
{
    if (q->route->scope == SCOPE_WORKFLOWS_WRITE) {
        workflows_answer_found(q, t);
        return;
    }
    struct task_context c = request_context(q);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    task_members(&w, t, &c);
    jw_kv_bool(&w, "deduplicated", true);
    jw_object_end(&w);
    respond_etag(&q->response, t->version);
}

static void tasks_answer_deduped(struct request *q, const struct creation *v, size_t n)
{
    assert(n == 1);
    if (v->found)
        tasks_answer_found(q, v->task);
    else
        tasks_answer_created(q, v->task);
}

/* ---- the record of a create ---- */

/* A record with the whole answer would be a third of what a create writes. But a request that repeats the key has the
 * same body, so the answer can be made again from that body, the time of the first request, and the brief form of the
 * task: its id, and when it is due, which depends on the clock of the node too. A node of an earlier release would
 * answer with the brief form. */
enum { BRIEF_MEMBERS = 3, BRIEF_BYTES = 512 };

/* The answer to a recurring task has its next fire, which depends on calendars: it may come out differently later. */
static bool tasks_can_answer_again(const struct request *q)
{
    return q->route->run == tasks_create && q->tasks->kind == TASK_ONE_TIME && q->tasks->target != TARGET_WORKFLOW;
}

static const struct idempotency *tasks_record(struct request *q)
{
    const struct idempotency *record = request_record(q);
    if (!record || !tasks_can_answer_again(q))
        return record;
    struct task_context c = request_context(q);
    struct buf brief;
    struct jw w;
    struct str kept;
    buf_init(&brief, BRIEF_BYTES);
    jw_init(&w, &brief);
    task_brief_to_json(&w, q->tasks, &c);
    if (arena_str(&q->arena, buf_str(&brief), &kept))
        q->record.answer = kept;
    buf_release(&brief);
    return record;
}

static bool tasks_read_brief(struct str answer, struct uuid *ret_id, int64_t *ret_due_ms)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(answer, &doc, NULL) || json_object_size(doc.root) != BRIEF_MEMBERS)
        return false;
    const char *id = json_string_value(json_object_get(doc.root, "id"));
    const char *due = json_string_value(json_object_get(doc.root, "next_execution"));
    return id && due && uuid_parse(str_from(id), ret_id) && rfc3339_parse(str_from(due), ret_due_ms, NULL) == ERR_OK;
}

bool tasks_answer_again(struct request *q, const struct idempotency *stored)
{
    struct error e = { 0 };
    struct uuid id;
    int64_t due_ms;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (q->route->run != tasks_create || !tasks_read_brief(stored->answer, &id, &due_ms))
        return false;
    struct task *t = arena_new(&q->arena, struct task);
    q->depends = arena_new(&q->arena, struct depends_on);
    q->now_ms = stored->created_ms;
    /* A body that is no longer valid, because limits were changed, is answered with the brief form. */
    if (json_parse(buf_str(&q->body), &doc, &e) || tasks_read_body(q, &doc, id, t, &e))
        return false;
    t->due_ms = due_ms;
    tasks_answer_created(q, t);
    return true;
}

/* ---- creates ---- */

/* Another task may hold the dedupe_key: this create has to read. */
static enum handled tasks_create_deduped(struct request *q, struct reader *r)
{
    struct creation *c = arena_new(&q->arena, struct creation);
    c->asked = q->tasks;
    return dedupe_create(q, r, c, 1, tasks_answer_deduped);
}

/* Its parents decide what it is: this create has to read, too. */
static enum handled tasks_create_child(struct request *q, struct reader *r)
{
    return dependencies_create(q, r, tasks_answer_created, tasks_on_created);
}

enum handled tasks_create_now(struct request *q, struct reader *r)
{
    if (q->depends->n)
        return r ? tasks_create_child(q, r) : request_later(q, tasks_create_child);
    if (q->tasks->dedupe_key.n)
        return tasks_create_deduped(q, r);
    tasks_answer_created(q, q->tasks);
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT },
                                          .tasks = q->tasks,
                                          .count = 1,
                                          .definition = q->definition,
                                          .idempotency = tasks_record(q) };
    return request_submit(q, tasks_on_created);
}

/* The workflow that it names must exist: this create has to read, too. */
static enum handled tasks_create_run(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    if (!run_is_possible(q) || !run_may_change(q, q->tasks))
        return HANDLED_DONE;
    if (run_check_target(q, r, q->tasks, &e))
        return request_fail(q, &e);
    return tenant_limits_take(q, r, 1, tasks_create_now);
}

enum handled tasks_create(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    q->tasks = arena_new(&q->arena, struct task);
    q->task_count = 1;
    q->depends = arena_new(&q->arena, struct depends_on);
    if (json_parse(buf_str(&q->body), &doc, &e) || tasks_read_body(q, &doc, request_new_id(q), q->tasks, &e))
        return request_fail(q, &e);
    if (!tasks_take_body_key(q, &doc))
        return HANDLED_DONE;
    if (q->tasks->target == TARGET_WORKFLOW)
        return r ? tasks_create_run(q, r) : request_later(q, tasks_create_run);
    return tenant_limits_take(q, r, 1, tasks_create_now);
}

/* ---- read ---- */

enum handled tasks_list(struct request *q, struct reader *r)
{
    bool recurring = q->route->flags & ROUTE_RECURRING;
    struct listing l;
    if (!listing_read(q, recurring ? LISTING_RECURRING : LISTING_TASKS, &l))
        return HANDLED_DONE;
    return listing_answer(q, r, &l, (struct task_filter){ .by_kind = recurring, .recurring = recurring });
}

struct names_query {
    struct str prefix;
    int64_t limit;
};

/* For completion: the names that begin with a text. */
enum handled tasks_names(struct request *q, struct reader *r)
{
    static const struct query_field fields[] = {
        { .name = "prefix", .kind = QUERY_TEXT, .offset = offsetof(struct names_query, prefix) },
        { .name = "limit",
          .kind = QUERY_I64,
          .offset = offsetof(struct names_query, limit),
          .min = 1,
          .max = LIST_MAX },
    };
    struct names_query p = { .limit = LIST_DEFAULT };
    struct task_names names = { 0 };
    struct error e = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        reader_names(r, q->who.tenant, p.prefix, (size_t)p.limit, &q->arena, &names, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "names");
    jw_array(&w);
    for (size_t i = 0; i < names.n; i++) {
        jw_object(&w);
        jw_kv_str(&w, "name", names.v[i].name);
        jw_kv_uuid(&w, "task_id", names.v[i].newest);
        jw_kv_bool(&w, "only", names.v[i].is_only);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static void tasks_write_executions(struct jw *w, const struct executions *x, const struct task *t)
{
    jw_key(w, "executions");
    jw_array(w);
    for (size_t i = 0; i < x->n; i++)
        if (t->kind != TASK_OCCURRENCE || uuid_eq(x->v[i].occurrence, t->id))
            execution_to_json(w, &x->v[i]);
    jw_array_end(w);
}

/* The lease of a leased task: its worker, its expiry, its progress. */
static enum err tasks_read_lease(struct request *q, struct reader *r, const struct task *t, struct lease_row *ret,
                                 bool *ret_found, struct error *e)
{
    *ret_found = false;
    if (t->target != TARGET_WORKER || t->state != TASK_RUNNING)
        return ERR_OK;
    enum err rc = reader_lease(r, t->tenant, t->id, &q->arena, ret, e);
    *ret_found = rc == ERR_OK;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void tasks_write_lease(struct jw *w, const struct lease_row *l)
{
    jw_key(w, "lease");
    jw_object(w);
    jw_kv_str(w, "worker", l->worker);
    jw_kv_time(w, "expires_at", l->until_ms);
    jw_key(w, "progress");
    if (l->progress.n)
        jw_raw(w, l->progress);
    else
        jw_null(w);
    jw_kv_bool(w, "cancel_requested", l->is_ended);
    jw_object_end(w);
}

/* A task that is read. If it is RUNNING in the store, the node is asked whether it has started. */
struct task_read {
    struct explain_answer answer;
    struct explain_facts facts; /* none: only its place in the node matters */
    struct request *q;
    struct task task;
    struct execution_page page;
    struct lease_row lease;
    bool leased;
    struct str step, output; /* of a workflow: its name, and what it answered */
    bool as_step;
    struct run_step_shown shown; /* as_step */
};

static enum handled tasks_write_read(struct task_read *x)
{
    struct request *q = x->q;
    struct task_context c = request_context(q);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    task_members_as(&w, &x->task, &c, x->as_step ? x->shown.target : NULL);
    if (!uuid_is_nil(x->task.run))
        run_write_place(&w, &x->task, x->step);
    if (x->as_step) {
        jw_key(&w, "definition");
        run_write_step_definition(&w, x->shown.definition);
    }
    if (x->as_step && x->shown.item_count >= 0)
        run_write_items(&w, x->shown.items, x->shown.item_count);
    if (!uuid_is_nil(x->task.run) && x->task.state == TASK_COMPLETED)
        jw_kv_str_or_null(&w, "output", x->output);
    if (x->leased)
        tasks_write_lease(&w, &x->lease);
    tasks_write_executions(&w, &x->page.executions, &x->task);
    jw_object_end(&w);
    respond_etag(&q->response, x->task.version);
    return HANDLED_DONE;
}

static void tasks_on_node_answer(struct explain_answer *a)
{
    struct task_read *x = container_of(a, struct task_read, answer);
    if (a->explanation.waits)
        x->task.state = TASK_SCHEDULED;
    if (a->explanation.started_ms)
        x->task.started_ms = a->explanation.started_ms;
    tasks_write_read(x);
    request_answer(x->q);
}

static enum handled tasks_show_read(struct request *q, struct reader *r, const struct run_step_shown *shown)
{
    struct error e = { 0 };
    struct task_read *x = arena_new(&q->arena, struct task_read);
    assert(x); /* there is room for a small object */
    x->q = q;
    x->as_step = shown;
    if (shown)
        x->shown = *shown;
    if (request_get_task(q, r, &x->task, &e))
        return request_fail(q, &e);
    const struct task *t = &x->task;
    bool occurrence = t->kind == TASK_OCCURRENCE;
    struct execution_filter f = { .tenant = q->who.tenant, .task = occurrence ? t->parent : t->id };
    f.limit = occurrence || q->route->run == dlq_get ? LIST_MAX : LATEST_EXECUTIONS;
    if (reader_executions(r, &f, &q->arena, &x->page, &e) || tasks_read_lease(q, r, t, &x->lease, &x->leased, &e) ||
        run_step_names(q, r, &x->task, &x->step, &e) || run_step_output(q, r, t, &x->output, &e) ||
        run_resolve_call(q, r, &x->task, &e))
        return request_fail(q, &e);
    if (x->leased)
        x->task.started_ms = task_leased_ms(t);
    bool may_wait = task_shown_state(t, q->now_ms) == TASK_RUNNING && !x->leased;
    if (!may_wait || !q->server->setup.explain)
        return tasks_write_read(x);
    x->answer = (struct explain_answer){ .done = tasks_on_node_answer, .task = t, .facts = &x->facts };
    q->server->setup.explain(q->server->setup.context, &x->answer);
    return HANDLED_LATER;
}

enum handled tasks_show(struct request *q, struct reader *r)
{
    return tasks_show_read(q, r, NULL);
}

enum handled tasks_show_step(struct request *q, struct reader *r, const struct run_step_shown *shown)
{
    return tasks_show_read(q, r, shown);
}

enum handled tasks_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e))
        return request_fail(q, &e);
    return tasks_show(q, r);
}
