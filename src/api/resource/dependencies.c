/* The tasks around a task: what it depends on, and what depends on it. Edges of a task that has not started can be
 * added and removed. Such a change is an edit of the task: it has the next version, and starts again if the task was
 * changed meanwhile. */
#include "api/resource/dependencies.h"

#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "api/task/body.h"
#include "api/task/json.h"
#include "api/workflow/run.h"
#include "base/json/json.h"

enum { TRIES_MAX = 8 };

struct dependency_edit {
    struct depends_on add;
    struct depends_change change;
    struct task current, next;
    bool is_same; /* the task has all of these dependencies */
    int tries;
};

/* ---- creating ---- */

/* What the parents make of a new task, as far as is known before the commit: for the answer. */
static enum err dependencies_preview(struct request *q, struct reader *r, struct task *t, struct error *e)
{
    const struct depends_on *d = q->depends;
    struct flow_counts counts = { 0 };
    for (size_t i = 0; i < d->n; i++) {
        struct task p = { 0 };
        enum err rc = reader_get(r, q->who.tenant, d->v[i].parent, &q->arena, &p, e);
        if ((rc && rc != ERR_NOT_FOUND) || dependency_check(&p, rc == ERR_OK, &d->v[i], i, q->who.tenant, e))
            return e->code;
        enum flow_outcome o = dependency_outcome(p.state, p.links);
        struct flow_counts c = o == FLOW_OPEN ? (struct flow_counts){ 0 } : edge_counts(edge_arrives(d->v[i].type, o));
        counts.arrived += c.arrived;
        counts.met += c.met;
        counts.broken += c.broken;
    }
    dependency_apply(t, dependency_decide(d->join, (uint32_t)d->n, counts),
                     S("skipped: a task that it depends on did not end as it asks"), q->now_ms);
    return ERR_OK;
}

enum handled dependencies_create(struct request *q, struct reader *r,
                                 void (*answer)(struct request *q, const struct task *t), void (*done)(struct op *op))
{
    struct error e = { 0 };
    struct task shown = q->tasks[0];
    if (dependencies_preview(q, r, &shown, &e))
        return request_fail(q, &e);
    answer(q, &shown);
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT },
                                          .tasks = q->tasks,
                                          .count = 1,
                                          .depends = q->depends,
                                          .definition = q->definition,
                                          .idempotency = request_record(q) };
    return request_submit(q, done);
}

/* ---- reading ---- */

static const char *dependencies_edge_name(enum edge_state s)
{
    static const char *const names[EDGE_STATES] = {
        [EDGE_OPEN] = "WAITING", [EDGE_MET] = "MET", [EDGE_BROKEN] = "BROKEN", [EDGE_UNMET] = "UNMET"
    };
    return names[s];
}

static void dependencies_write_list(struct jw *w, const char *name, const struct linked_task *v, size_t n,
                                    int64_t now_ms)
{
    jw_key(w, name);
    jw_array(w);
    for (size_t i = 0; i < n; i++) {
        struct task t = { .state = v[i].state, .due_ms = v[i].due_ms };
        jw_object(w);
        jw_kv_uuid(w, "task_id", v[i].id);
        jw_kv_cstr(w, "type", dag_type_names[v[i].type]);
        jw_kv_cstr(w, "state", dependencies_edge_name(v[i].edge));
        jw_kv_bool(w, "arrived", v[i].edge != EDGE_OPEN);
        jw_kv_cstr(w, "status", v[i].exists ? task_state_name(task_shown_state(&t, now_ms)) : NULL);
        if (v[i].name.n)
            jw_kv_str(w, "name", v[i].name);
        jw_object_end(w);
    }
    jw_array_end(w);
}

enum handled dependencies_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct task t;
    struct task_links l;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || request_get_task(q, r, &t, &e) ||
        reader_links(r, q->who.tenant, t.id, &q->arena, &l, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_uuid(&w, "task_id", t.id);
    jw_kv_cstr(&w, "status", task_state_name(task_shown_state(&t, q->now_ms)));
    jw_kv_bool(&w, "waits", t.links & TASK_WAITS);
    jw_kv_cstr(&w, "join", dag_join_names[l.has_join ? l.join : DAG_ALL]);
    jw_kv_i64(&w, "expected", l.expected);
    jw_kv_i64(&w, "arrived", l.counts.arrived);
    jw_kv_i64(&w, "met", l.counts.met);
    jw_kv_i64(&w, "broken", l.counts.broken);
    dependencies_write_list(&w, "depends_on", l.parents, l.parent_count, q->now_ms);
    dependencies_write_list(&w, "dependents", l.children, l.child_count, q->now_ms);
    jw_kv_bool(&w, "more_dependents", l.more_children);
    jw_object_end(&w);
    respond_etag(&q->response, t.version);
    return HANDLED_DONE;
}

/* ---- changing ---- */

static route_handler dependencies_attempt;

static enum err dependencies_check_task(const struct task *t, int64_t now_ms, struct error *e)
{
    if (t->kind != TASK_ONE_TIME)
        return error_set(e, ERR_CONFLICT, "the task is %s; only one-time tasks can depend on others",
                         t->kind == TASK_RECURRING ? "recurring" : "an occurrence of a recurring task");
    if (!uuid_is_nil(t->run) || t->links & TASK_OPENED)
        return error_set(e, ERR_CONFLICT, "the task belongs to a workflow, whose definition says what depends on what");
    bool waits = t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED || t->state == TASK_PAUSED;
    if (!waits)
        return error_set(e, ERR_CONFLICT, "the task is %s and its dependencies cannot be changed; %s",
                         t->state == TASK_RUNNING ? "starting" : task_state_name(task_shown_state(t, now_ms)),
                         "create a new task");
    if (task_has_fired(t))
        return error_set(e, ERR_CONFLICT,
                         "the task has started and its dependencies cannot be changed; create a new task");
    return ERR_OK;
}

/* A task has one edge to another. The version of the task, which the put asks for, counts its edges too. */
static enum err dependencies_check_types(struct request *q, struct reader *r, struct dependency_edit *d,
                                         struct error *e)
{
    struct task_links l;
    size_t known = 0;
    d->is_same = false;
    if (!d->add.n)
        return ERR_OK;
    if (reader_links(r, q->who.tenant, d->current.id, &q->arena, &l, e))
        return e->code;
    for (size_t i = 0; i < d->add.n; i++) {
        for (size_t k = 0; k < l.parent_count; k++) {
            const struct linked_task *p = &l.parents[k];
            char id[UUID_TEXT + 1];
            if (!uuid_eq(p->id, d->add.v[i].parent))
                continue;
            if (p->type == d->add.v[i].type) {
                known++;
                continue;
            }
            uuid_format(p->id, id);
            return error_set(e, ERR_CONFLICT,
                             "depends_on[%zu]: the task depends on %s already, with type %s; remove that dependency, "
                             "then add it with type %s",
                             i, id, dag_type_names[p->type], dag_type_names[d->add.v[i].type]);
        }
    }
    d->is_same = known == d->add.n && (!d->change.sets_join || (l.has_join && l.join == d->change.join));
    return ERR_OK;
}

static void dependencies_on_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct dependency_edit *d = q->context;
    if (request_replayed(q, op))
        return;
    bool changed = op->rc == ERR_CONFLICT && strcmp(op->error.field, "depends_on") != 0;
    if (changed && !q->head.if_match.n && ++d->tries < TRIES_MAX) {
        request_later(q, dependencies_attempt);
        return;
    }
    if (changed)
        request_refuse(q, PROBLEM_CONFLICT, "other requests changed the task first; read it again and try again");
    else if (op->rc)
        request_fail(q, &op->error);
    if (op->rc == ERR_OK) {
        d->next.state = q->write.put.ret_state;
        transition_log_changed(q->server->setup.transitions, &d->next, task_shown_state(&d->current, q->now_ms));
    }
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE) { /* it may have been written, and only the answer lost */
        d->next.state = TASK_SCHEDULED;                  /* its join may have started it */
        request_nudge(q, &d->next, 1);
    }
    request_answer(q);
}

static enum handled dependencies_attempt(struct request *q, struct reader *r)
{
    struct dependency_edit *d = q->context;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (request_get_task(q, r, &d->current, &e))
        return request_fail(q, &e);
    if (!if_match_allows(q->head.if_match, d->current.version))
        return request_refuse(q, PROBLEM_PRECONDITION,
                              "it was changed since you read it; read it again and send its new ETag");
    if (!run_may_change(q, &d->current))
        return HANDLED_DONE;
    if (dependencies_check_task(&d->current, q->now_ms, &e) || dependencies_check_types(q, r, d, &e))
        return request_fail(q, &e);
    d->next = d->current;
    d->next.version += !d->is_same;
    d->next.updated_ms = q->now_ms;
    q->response.status = 204;
    q->response.type = NULL;
    respond_etag(&q->response, d->next.version);
    if (d->is_same)
        return request_store_record(q);
    q->write.put = (struct op_put){ .op = { .kind = OP_PUT },
                                    .task = &d->next,
                                    .version = d->current.version,
                                    .fence = d->current.fence,
                                    .state = d->current.state,
                                    .depends = &d->change,
                                    .idempotency = request_record(q) };
    return request_submit(q, dependencies_on_put);
}

struct dependencies_body {
    json_t *depends_on;
    int join;
    bool has_join;
};

enum handled dependencies_add(struct request *q, struct reader *r)
{
    static const struct json_field fields[] = {
        { .name = "depends_on", .kind = JSON_KIND_RAW, .offset = offsetof(struct dependencies_body, depends_on) },
        { .name = "join",
          .kind = JSON_KIND_ENUM,
          .offset = offsetof(struct dependencies_body, join),
          .seen_offset = offsetof(struct dependencies_body, has_join),
          .names = dag_join_names },
    };
    struct error e = { 0 };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    struct dependencies_body b = { 0 };
    struct dependency_edit *d = arena_new(&q->arena, struct dependency_edit);
    if (request_get_task(q, r, &d->current, &e) || request_read_object(q, &doc, &e) ||
        json_read(doc.root, fields, array_count(fields), &b, &q->arena, &e))
        return request_fail(q, &e);
    if (!b.depends_on) {
        (void)error_field(&e, "depends_on", "is required: an array of task ids");
        return request_fail(q, &e);
    }
    if (task_read_depends(b.depends_on, b.join, &q->arena, &d->add, &e))
        return request_fail(q, &e);
    d->change = (struct depends_change){
        .add = d->add.v, .n = d->add.n, .sets_join = b.has_join, .join = (enum dag_join)b.join
    };
    q->context = d;
    return dependencies_attempt(q, r);
}

enum handled dependencies_remove(struct request *q, struct reader *r)
{
    struct dependency_edit *d = arena_new(&q->arena, struct dependency_edit);
    d->change.remove = q->other;
    q->context = d;
    return dependencies_attempt(q, r);
}
