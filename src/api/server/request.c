/* The steps that all requests share: who asks, the idempotency key, the hand-over to the writer and back. */
#include "api/server/request.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/server/internal.h"
#include "base/json/json.h"
#include "base/log.h"

struct request *request_new(struct api_server *s, struct MHD_Connection *connection, struct str uri)
{
    struct request *q = xnew(*q);
    q->server = s;
    q->connection = connection;
    q->uri = (struct str){ memcpy(xmalloc(uri.n + 1), uri.p, uri.n), uri.n };
    size_t mark = str_find(q->uri, '?', 0);
    q->path = str_sub(q->uri, 0, mark);
    q->query = str_sub(q->uri, min_of(mark + 1, uri.n), uri.n);
    arena_init(&q->arena, REQUEST_ARENA_MAX);
    response_init(&q->response);
    return q;
}

struct request *request_own(struct api_server *s, enum http_method method, const char *path, int32_t tenant,
                            const char *key)
{
    struct request *q = request_new(s, NULL, str_from(path));
    char allow[ALLOW_TEXT];
    q->method = method;
    struct route_words words = { 0 };
    q->route = route_find(method, q->path, &words, allow);
    q->id = words.id;
    q->who = (struct identity){ .tenant = tenant, .scopes = UINT32_MAX };
    q->known = true;
    buf_init(&q->body, 1);
    if (key && !arena_str(&q->arena, str_from(key), &q->head.idempotency_key))
        abort();
    return q;
}

void request_free(struct request *q)
{
    flights_leave(&q->server->flights, &q->flight);
    atomic_fetch_sub(&q->server->body_total, q->body_counted);
    buf_release(&q->body);
    arena_release(&q->arena);
    response_release(&q->response);
    free_const(q->uri.p);
    free(q);
}

enum handled request_refuse(struct request *q, enum problem p, const char *detail)
{
    respond_problem(&q->response, p, "%s", detail);
    return HANDLED_DONE;
}

/* An outage would write a line for every request: one a second tells as much. */
static void log_failure(struct request *q, const struct error *e)
{
    enum { SECOND_NS = 1000000000 };
    int64_t now_ns = clock_steady_ns(q->server->setup.clock), last_ns = atomic_load(&q->server->logged_ns);
    if (last_ns && now_ns - last_ns < SECOND_NS)
        return;
    atomic_store(&q->server->logged_ns, now_ns);
    log_error("request_failed", kv_cstr("method", method_name(q->method)), kv_str("path", q->path), kv_err(e));
}

enum handled request_fail(struct request *q, const struct error *e)
{
    if (e->code == ERR_UNAVAILABLE || e->code == ERR_CORRUPT)
        log_failure(q, e);
    respond_error(&q->response, e);
    return HANDLED_DONE;
}

/* From here on the connection waits. Only its HTTP thread comes here: later the request is suspended already. */
static void suspend(struct request *q)
{
    if (q->suspended)
        return;
    q->suspended = true;
    if (q->connection)
        MHD_suspend_connection(q->connection);
}

void request_answer(struct request *q)
{
    assert(q->suspended && !q->answered);
    flights_leave(&q->server->flights, &q->flight);
    q->answered = true;
    if (q->own_answer) {
        q->own_answer(q); /* what it is part of runs on */
        return;
    }
    struct api_server *s = q->server; /* q is gone as soon as its connection wakes */
    MHD_resume_connection(q->connection);
    api_server_end_run(s);
}

enum handled request_later(struct request *q, route_handler *next)
{
    q->next = next;
    suspend(q);
    pool_submit(q->server->pool, &q->link);
    return HANDLED_LATER;
}

enum handled request_submit(struct request *q, void (*done)(struct op *op))
{
    struct op *op = &q->write.op;
    op->done = done;
    op->context = q;
    arena_init(&op->arena, 64 * 1024); /* what we submit has no results that need it */
    if (op->kind == OP_INSERT)
        limits_apply(q, &q->write.insert);
    return request_hand_over(q, op);
}

enum handled request_hand_over(struct request *q, struct op *op)
{
    suspend(q);
    writer_submit(q->server->setup.writer, op);
    return HANDLED_LATER;
}

struct request *request_of(struct op *op)
{
    arena_release(&op->arena);
    return op->context;
}

bool request_reserve_key(struct request *q, struct str key, const char *field)
{
    struct error e = { 0 };
    if (idempotency_check_key(key, field, &e)) {
        respond_field(&q->response, PROBLEM_INVALID, &e);
        return false;
    }
    q->record =
        idempotency_of(q->who.tenant, str_from(method_name(q->method)), q->path, key, buf_str(&q->body), q->now_ms);
    q->has_record = true;
    if (flights_enter(&q->server->flights, &q->flight, &q->record))
        return true;
    respond_problem(&q->response, PROBLEM_IN_FLIGHT, "wait for the answer to the first one, then send this again");
    return false;
}

/* Location and ETag are not kept: the task in the answer says them. */
static void restore_headers(struct response *r, bool is_task)
{
    struct json_doc doc;
    struct error e;
    if (json_parse(buf_str(&r->body), &doc, &e))
        return;
    const char *id = json_string_value(json_object_get(doc.root, "id"));
    if (id && r->status == MHD_HTTP_CREATED && is_task)
        snprintf(r->location, sizeof r->location, "/v1/tasks/%s", id);
    json_t *version = json_object_get(doc.root, "version");
    if (json_is_integer(version))
        respond_etag(r, json_integer_value(version));
    json_doc_release(&doc);
}

enum err request_replay(struct request *q, struct reader *r, struct error *e)
{
    struct idempotency stored;
    enum err rc = reader_idempotency(r, q->record.tenant, q->record.key, &q->arena, &stored, e);
    if (rc)
        return rc;
    if (!crypto_equal(stored.payload, q->record.payload, sizeof stored.payload)) {
        respond_problem(&q->response, PROBLEM_KEY_REUSED, "the first request with this key had another body");
        return ERR_OK;
    }
    struct jw w = respond_json(&q->response, stored.status);
    buf_add(w.b, stored.answer);
    if (stored.answer.n)
        restore_headers(&q->response, q->route->scope == SCOPE_TASKS_WRITE);
    else
        q->response.type = NULL;
    q->response.replayed = true;
    return ERR_OK;
}

enum handled request_replay_stored(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    enum err rc = request_replay(q, r, &e);
    if (rc == ERR_NOT_FOUND) /* it was forgotten between the conflict and now: as good as in flight */
        return request_refuse(q, PROBLEM_IN_FLIGHT, "its record was not to be found; send it again");
    return rc ? request_fail(q, &e) : HANDLED_DONE;
}

const struct idempotency *request_record(struct request *q)
{
    if (!q->has_record)
        return NULL;
    q->record.status = q->response.status;
    q->record.answer = buf_str(&q->response.body);
    return &q->record;
}

bool request_is_replay(const struct op *op)
{
    return op->rc == ERR_CONFLICT && strcmp(op->error.field, "idempotency-key") == 0;
}

enum err request_get_task(struct request *q, struct reader *r, struct task *ret, struct error *e)
{
    struct task t;
    enum err rc = reader_get(r, q->who.tenant, q->id, &q->arena, &t, e);
    bool recurring_only = q->route->flags & ROUTE_RECURRING;
    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && (t.deleted || (recurring_only && t.kind != TASK_RECURRING))))
        return error_set(e, ERR_NOT_FOUND, "there is no such %stask", recurring_only ? "recurring " : "");
    if (rc == ERR_OK)
        *ret = t;
    return rc;
}

struct uuid request_new_id(struct request *q)
{
    struct api_server *s = q->server;
    pthread_mutex_lock(&s->lock);
    struct uuid id = uuid_next(&s->ids, q->now_ms);
    pthread_mutex_unlock(&s->lock);
    return id;
}

void request_nudge(struct request *q, const struct task *tasks, size_t n)
{
    const struct api_setup *setup = &q->server->setup;
    if (setup->nudge && n)
        setup->nudge(setup->context, tasks, n);
}

/* The store's word on the key. False: the answer is there. */
static bool identify(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    enum auth_result result = AUTH_REFUSED;
    enum err rc = auth_ask(q->server->auth, q->head.authorization, r, &result, &q->who, &e);
    if (rc)
        request_fail(q, &e);
    else if (result != AUTH_OK)
        request_refuse(q, PROBLEM_UNAUTHORIZED, "the API key is unknown, expired or wrong");
    else if (!identity_may(&q->who, q->route->scope))
        respond_problem(&q->response, PROBLEM_FORBIDDEN, "it takes the scope '%s'", scope_name(q->route->scope));
    else
        q->known = true;
    return q->known;
}

/* False: the answer is there. */
static bool begin_write(struct request *q, struct reader *r)
{
    if (!q->head.idempotency_key.p) {
        bool needed = q->server->setup.require_idempotency_key && !(q->route->flags & ROUTE_BODY_KEY);
        if (needed)
            request_refuse(q, PROBLEM_KEY_MISSING, "send a header Idempotency-Key, a new one for each request");
        return !needed;
    }
    if (!q->has_record && !request_reserve_key(q, q->head.idempotency_key, "Idempotency-Key"))
        return false;
    if (!r)
        return true; /* the record's own conflict tells */
    struct error e = { 0 };
    enum err rc = request_replay(q, r, &e);
    if (rc && rc != ERR_NOT_FOUND)
        request_fail(q, &e);
    return rc == ERR_NOT_FOUND;
}

/* Its keys open nothing while a tenant is disabled; the book tells at once. */
static bool tenant_is_open(struct request *q)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    struct tenant_rules t;
    if (!catalog || q->route->scope == SCOPE_PUBLIC ||
        (catalog_cache_tenant(catalog, q->who.tenant, NULL, &t) && !t.disabled))
        return true;
    request_refuse(q, PROBLEM_FORBIDDEN, "the tenant of this key is disabled");
    return false;
}

enum handled request_run(struct request *q, struct reader *r)
{
    const struct api_setup *setup = &q->server->setup;
    q->now_ms = clock_wall_ms(setup->clock);
    if (r && uncertain_writes_do(&q->server->uncertain_writes, r, setup->catalog) && setup->catalog_changed)
        setup->catalog_changed(setup->context);
    if ((!q->known && !identify(q, r)) || !tenant_is_open(q))
        return HANDLED_DONE;
    if ((q->route->flags & ROUTE_WRITES) && !begin_write(q, r))
        return HANDLED_DONE;
    return q->route->run(q, r);
}
