/* The steps that all requests share: authentication, the idempotency key, the hand-over to the writer and back. */
#include "api/server/request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/resource/recall.h"
#include "api/resource/tasks.h"
#include "api/server/audit.h"
#include "api/server/gzip.h"
#include "api/server/internal.h"
#include "api/server/negotiate.h"
#include "api/server/query.h"
#include "base/json/json.h"
#include "base/log.h"

enum { QUICK_BODY_MAX = 32 << 10 }; /* of a route that may be slow: about 250 tasks of a batch */

struct request *request_new(struct api_server *s, struct http_exchange *exchange, struct str uri)
{
    struct request *q = xnew(*q);
    q->server = s;
    q->pool = s->main.pool;
    q->exchange = exchange;
    q->uri = (struct str){ memcpy(xmalloc(uri.n + 1), uri.p, uri.n), uri.n };
    size_t mark = str_find(q->uri, '?', 0);
    q->path = str_sub(q->uri, 0, mark);
    q->query = str_sub(q->uri, min_of(mark + 1, uri.n), uri.n);
    arena_init(&q->arena, REQUEST_ARENA_MAX);
    response_init(&q->response);
    return q;
}

struct request *request_new_internal(struct api_server *s, enum http_method method, const char *path, int32_t tenant,
                                     const char *key)
{
    struct request *q = request_new(s, NULL, str_from(path));
    char allow[ALLOW_TEXT];
    q->method = method;
    struct route_params words = { 0 };
    q->route = route_find(method, q->path, &words, allow);
    q->id = words.id;
    q->other = words.other;
    q->name = words.name;
    q->who = (struct identity){ .tenant = tenant, .scopes = UINT32_MAX };
    q->authenticated = true;
    buf_init(&q->body, 1);
    if (key && !arena_str(&q->arena, str_from(key), &q->head.idempotency_key))
        abort();
    return q;
}

void request_set_body(struct request *q, struct str body)
{
    buf_release(&q->body);
    buf_init(&q->body, body.n + 1);
    buf_add(&q->body, body);
}

void request_release_memory(struct request *q)
{
    buf_release(&q->body);
    arena_release(&q->arena);
    response_release(&q->response);
    recall_group_leave(take(q->recalls));
}

void request_free(struct request *q)
{
    inflight_keys_remove(&q->server->inflight_keys, &q->inflight_key);
    live_stream_cancel(q->live_stream);
    request_release_memory(q);
    free_const(q->uri.p);
    free(q);
}

enum handled request_refuse(struct request *q, enum problem p, const char *detail)
{
    respond_problem(&q->response, p, "%s", detail);
    return HANDLED_DONE;
}

/* At most one line per second: an outage would otherwise write a line for every request. */
static void request_log_failure(struct request *q, const struct error *e)
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
        request_log_failure(q, e);
    if (e->code == ERR_UNAVAILABLE && q->method != HTTP_GET) /* whether anything was changed is not known */
        respond_problem(&q->response, PROBLEM_UNAVAILABLE,
                        "the store cannot be reached or cannot write; try again, with the same Idempotency-Key");
    else
        respond_error(&q->response, e);
    return HANDLED_DONE;
}

/* Nothing is sent until request_answer. Only the HTTP thread of the request suspends it: on every other thread the
 * request is suspended already. */
static void request_suspend(struct request *q)
{
    if (q->suspended)
        return;
    assert_owned(&q->http_thread);
    q->suspended = true;
}

void request_name_owner(const struct request *q)
{
    q->exchange->owner = q->who.tenant;
    q->exchange->is_known = q->authenticated && q->route->scope != SCOPE_PUBLIC;
}

static void request_reserve_answer(struct request *q)
{
    struct response *r = &q->response;
    if (q->authenticated)
        request_name_owner(q);
    if (r->body.full || http_reserve_answer(q->exchange, r->body.n))
        return;
    response_release(r);
    respond_problem(r, PROBLEM_UNAVAILABLE, HTTP_NO_ROOM_FOR_ANSWER);
}

void request_answer(struct request *q)
{
    assert(q->suspended && !q->answered);
    inflight_keys_remove(&q->server->inflight_keys, &q->inflight_key);
    q->answered = true;
    if (q->on_answer) {
        q->on_answer(q); /* the run that it belongs to (api_server_begin_run) continues */
        return;
    }
    struct api_server *s = q->server; /* q may be freed as soon as its exchange is resumed */
    request_reserve_answer(q);
    http_resume(q->exchange, HTTP_ANSWER);
    api_server_end_run(s);
}

/* Whether the route shows one resource: its path ends in a parameter. */
static bool request_shows_one(const struct request *q)
{
    return q->route && q->route->pattern[strlen(q->route->pattern) - 1] == '}';
}

void request_finish(struct request *q, size_t gzip_max)
{
    struct response *r = &q->response;
    if (!q->exchange || q->finished || r->body.full)
        return;
    q->finished = true;
    bool gzip = !r->is_gzip && r->body.n > GZIP_MIN && r->body.n <= gzip_max &&
                accept_encoding_allows_gzip(q->head.accept_encoding);
    if (q->method == HTTP_GET && r->status == 200 && (r->etag[0] || request_shows_one(q))) {
        if (!r->is_static)
            respond_etag_of_body(r);
        if (gzip || r->is_gzip)
            respond_etag_gzip(r);
        if (if_none_match_has(q->head.if_none_match, str_from(r->etag))) {
            respond_not_modified(r);
            return;
        }
    }
    if (gzip)
        r->is_gzip = gzip_buf(&r->body);
}

void request_time(struct request *q, int64_t *part)
{
    if (!q->timing.mark_ns)
        return;
    int64_t now_ns = clock_steady_ns(q->server->setup.clock);
    *part += now_ns - q->timing.mark_ns;
    q->timing.mark_ns = now_ns;
}

enum handled request_later(struct request *q, route_handler *next)
{
    q->next = next;
    request_suspend(q);
    request_time(q, &q->timing.store_ns);
    thread_pool_submit(q->pool, q->who.tenant, q->cost, &q->link);
    return HANDLED_LATER;
}

enum handled request_submit(struct request *q, void (*done)(struct op *op))
{
    struct op *op = &q->write.op;
    op->done = done;
    op->context = q;
    arena_init(&op->arena, 64 * 1024); /* none of these operations returns results that need more */
    if (op->kind == OP_INSERT)
        tenant_limits_apply(q, &q->write.insert);
    if (op->kind == OP_PUT)
        tenant_limits_apply_also(q, &q->write.put);
    return request_submit_op(q, op);
}

struct log_request request_log_enter(const struct request *q)
{
    return log_request_enter(q->response.request_id);
}

static void request_on_op_done(struct op *op)
{
    struct request *q = op->context;
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(q);
    q->op_done(op);
}

enum handled request_submit_op(struct request *q, struct op *op)
{
    if (!op->audit)
        op->audit = request_audit_of(q, op);
    op->request = q->response.request_id;
    q->op_done = op->done;
    op->done = request_on_op_done;
    op->context = q;
    request_suspend(q);
    request_time(q, &q->timing.store_ns);
    writer_submit(q->server->setup.writer, op);
    return HANDLED_LATER;
}

static void request_on_record_stored(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (!request_replayed(q, op))
        request_answer(q); /* all is as the client wants it, whether or not the record could be stored */
}

enum handled request_store_record(struct request *q)
{
    if (!q->has_record)
        return HANDLED_DONE;
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT }, .idempotency = request_record(q) };
    return request_submit(q, request_on_record_stored);
}

enum handled request_store_act(struct request *q)
{
    const struct audit *audit = request_audit(q, NULL);
    if (!audit)
        return request_store_record(q);
    q->write.insert = (struct op_insert){ .op = { .kind = OP_INSERT, .audit = audit },
                                          .idempotency = q->has_record ? request_record(q) : NULL };
    return request_submit(q, request_on_record_stored);
}

struct request *request_finish_op(struct op *op)
{
    struct request *q = op->context;
    arena_release(&op->arena);
    request_time(q, &q->timing.store_ns);
    return q;
}

bool request_reserve_key(struct request *q, struct str key, const char *field)
{
    struct error e = { 0 };
    if (idempotency_check_key(key, field, &e)) {
        respond_field(&q->response, PROBLEM_INVALID, &e);
        return false;
    }
    q->record = idempotency_of(q->who.tenant, str_from(method_name(q->method)), q->path, q->query, key,
                               buf_str(&q->body), q->now_ms);
    q->has_record = true;
    if (inflight_keys_add(&q->server->inflight_keys, &q->inflight_key, &q->record))
        return true;
    respond_problem(&q->response, PROBLEM_IN_FLIGHT,
                    "wait until the first request with this key is answered, then send this one again");
    return false;
}

/* The record does not store Location and ETag. They are derived from the task in the stored answer. */
static void request_restore_headers(struct response *r, enum scope scope)
{
    bool is_task = scope == SCOPE_TASKS_WRITE, is_run = scope == SCOPE_WORKFLOWS_WRITE;
    struct json_doc doc;
    struct error e;
    if (json_parse(buf_str(&r->body), &doc, &e))
        return;
    const char *id = json_string_value(json_object_get(doc.root, "id"));
    if (id && r->status == 201 && (is_task || is_run))
        snprintf(r->location, sizeof r->location, "/v1/%s/%s", is_run ? "workflows" : "tasks", id);
    json_t *version = json_object_get(doc.root, "version"); /* of a run: that of its definition */
    if (json_is_integer(version) && !is_run)
        respond_etag(r, json_integer_value(version));
    json_doc_release(&doc);
}

static void request_answer_stored(struct request *q, const struct idempotency *stored)
{
    struct jw w = respond_json(&q->response, stored->status);
    buf_add(w.b, stored->answer);
    if (stored->answer.n)
        request_restore_headers(&q->response, q->route->scope);
    else
        q->response.type = NULL;
}

enum err request_replay(struct request *q, struct reader *r, struct error *e)
{
    struct idempotency stored;
    enum err rc = reader_idempotency(r, q->record.tenant, q->record.key, &q->arena, &stored, e);
    if (rc)
        return rc;
    if (!crypto_equal(stored.payload, q->record.payload, sizeof stored.payload)) {
        respond_problem(&q->response, PROBLEM_KEY_REUSED,
                        "this key was first sent with another body; use a new key for a new request");
        return ERR_OK;
    }
    if (!tasks_answer_again(q, &stored))
        request_answer_stored(q, &stored);
    q->response.replayed = true;
    return ERR_OK;
}

enum handled request_replay_stored(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    enum err rc = request_replay(q, r, &e);
    if (rc == ERR_NOT_FOUND) /* the record was purged since the conflict */
        return request_refuse(q, PROBLEM_IN_FLIGHT,
                              "the answer stored for this key was just purged; send the request again");
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

bool request_op_failed(struct request *q, const struct op *op)
{
    if (op->rc == ERR_OK)
        return false;
    request_fail(q, &op->error);
    request_answer(q);
    return true;
}

bool request_replayed(struct request *q, const struct op *op)
{
    bool replay = request_is_replay(op);
    if (replay)
        request_later(q, request_replay_stored);
    return replay;
}

enum err request_get_task(struct request *q, struct reader *r, struct task *ret, struct error *e)
{
    struct task t;
    enum err rc = reader_get(r, q->who.tenant, q->id, &q->arena, &t, e);
    bool recurring_only = q->route->flags & ROUTE_RECURRING;
    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && (t.deleted || (recurring_only && t.kind != TASK_RECURRING))))
        return error_set(e, ERR_NOT_FOUND, "there is no such %stask", recurring_only ? "recurring " : "");
    if (rc == ERR_OK)
        rc = reader_unstarted(r, &t, 1, q->now_ms, e);
    if (rc == ERR_OK) {
        *ret = t;
        q->object_name = t.name;
    }
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
    live_on_written(q->server->live, tasks, n);
    if (setup->nudge && n)
        setup->nudge(setup->context, tasks, n);
}

void request_answer_written(struct request *q, const struct op *op, const struct task *tasks, size_t n)
{
    if (op->rc)
        request_fail(q, &op->error);
    if (op->rc == ERR_OK || op->rc == ERR_UNAVAILABLE)
        request_nudge(q, tasks, n);
    request_answer(q);
}

bool request_admit(struct request *q)
{
    bool by_certificate = str_starts(str_from(q->who.key_id), S("cert:"));
    if (q->certificate_tenant && q->who.tenant != q->certificate_tenant)
        request_refuse(q, PROBLEM_FORBIDDEN,
                       "the API key and the client certificate belong to different tenants; use those of one tenant");
    else if (!identity_may(&q->who, q->route->scope))
        respond_problem(&q->response, PROBLEM_FORBIDDEN, "the %s needs the scope '%s' for this request",
                        by_certificate ? "client certificate" : "API key", scope_name(q->route->scope));
    else
        q->authenticated = true;
    return q->authenticated;
}

bool request_is_operator(const struct request *q)
{
    return q->who.tenant == TENANT_DEFAULT && identity_may(&q->who, SCOPE_ADMIN);
}

bool request_require_default_tenant(struct request *q)
{
    if (q->who.tenant == TENANT_DEFAULT)
        return true;
    request_refuse(q, PROBLEM_FORBIDDEN, "this shows data of all tenants and needs a key of the tenant 'default'");
    return false;
}

static const struct {
    enum key_failure failure;
    const char *says;
} request_key_refusals[] = {
    [AUTH_MISSING] = { KEY_FAILURE_MISSING, "send a header 'Authorization: Bearer bf_…'" },
    [AUTH_MALFORMED] = { KEY_FAILURE_MALFORMED, "this is not a complete API key: send 'Bearer bf_…'; the end of a "
                                                "key is its checksum" },
    [AUTH_REFUSED] = { KEY_FAILURE_REFUSED, "the API key is unknown or wrong" },
    [AUTH_REVOKED] = { KEY_FAILURE_REVOKED, "the API key was revoked; use another" },
    [AUTH_EXPIRED] = { KEY_FAILURE_EXPIRED, "the API key has expired; use another" },
};

void request_refuse_key(struct request *q, enum auth_result result)
{
    if (q->session.n && (result == AUTH_REVOKED || result == AUTH_EXPIRED)) { /* as sessions do: not worth a row */
        request_refuse(q, PROBLEM_UNAUTHORIZED, "the session has ended; log in again");
        return;
    }
    struct key_refusal refusal = key_failures_add(&q->server->key_failures, http_peer(q->exchange),
                                                  request_key_refusals[result].failure, &q->who);
    audit_key_refusal(q->server, &refusal);
    if (refusal.limited)
        request_refuse(q, PROBLEM_KEY_LIMIT,
                       "the API key is not valid, and neither were too many others from this address; wait a second");
    else
        request_refuse(q, PROBLEM_UNAUTHORIZED, request_key_refusals[result].says);
}

static enum err request_check_key(struct request *q, struct reader *r, enum auth_result *ret, struct error *e)
{
    struct auth *auth = q->server->auth;
    return q->session.n ? auth_check_text(auth, q->session, AUTH_SESSION, r, ret, &q->who, e)
                        : auth_check_store(auth, q->head.authorization, r, ret, &q->who, e);
}

bool request_identify(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    enum auth_result result = AUTH_REFUSED;
    struct auth *auth = q->server->auth;
    enum err rc = request_check_key(q, r, &result, &e);
    request_time(q, &q->timing.auth_ns);
    /* metrics and alerts are wanted most while the store is unavailable */
    if (rc && q->route->flags & ROUTE_KNOWN && !q->session.n && auth_was_valid(auth, q->head.authorization, &q->who)) {
        rc = ERR_OK;
        result = AUTH_OK;
    }
    if (rc)
        request_fail(q, &e);
    else if (result != AUTH_OK)
        request_refuse_key(q, result);
    else
        request_admit(q);
    return q->authenticated;
}

/* Checks the idempotency key. False: the request is answered. */
static bool request_begin_write(struct request *q, struct reader *r)
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
        return true; /* without a reader: if the key has a record, the writer reports a conflict */
    struct error e = { 0 };
    enum err rc = request_replay(q, r, &e);
    if (rc && rc != ERR_NOT_FOUND)
        request_fail(q, &e);
    return rc == ERR_NOT_FOUND;
}

/* While a tenant is disabled its API keys are refused. The catalog cache of this node knows it at once. A tenant that
 * it does not know was made a moment ago, by another node. */
bool request_tenant_is_enabled(struct request *q)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    struct tenant_rules t;
    if (!catalog || !q->who.tenant || !catalog_cache_tenant(catalog, q->who.tenant, NULL, &t) || !t.disabled)
        return true;
    request_refuse(q, PROBLEM_FORBIDDEN,
                   "the tenant of this API key is disabled; an admin key of 'default' can enable it");
    return false;
}

/* The key was right when the request came: it does not count as a failure of its address. */
static bool request_check_key_again(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    enum auth_result result = q->session.n ? auth_check_session(q->server->auth, q->session, &q->who)
                                           : auth_check(q->server->auth, q->head.authorization, &q->who);
    if ((result == AUTH_STALE || result == AUTH_NOT_CACHED) && request_check_key(q, r, &result, &e)) {
        request_fail(q, &e);
        return false;
    }
    if (result == AUTH_OK)
        return request_admit(q);
    if (result == AUTH_REFUSED)
        result = AUTH_REVOKED; /* it was purged since */
    request_refuse(q, PROBLEM_UNAUTHORIZED,
                   q->session.n ? "the session has ended; log in again" : request_key_refusals[result].says);
    return false;
}

static bool request_check_certificate_again(struct request *q)
{
    q->who.check = auth_check_of_certificate(q->server->auth, q->who.check.expires_ms);
    if (auth_still_holds(q->server->auth, &q->who))
        return true;
    q->response.close = true;
    request_refuse(q, PROBLEM_UNAUTHORIZED, REQUEST_CERTIFICATE_EXPIRED);
    return false;
}

bool request_still_allowed(struct request *q, struct reader *r)
{
    if (!q->exchange || auth_still_holds(q->server->auth, &q->who))
        return true;
    bool by_certificate = str_starts(str_from(q->who.key_id), S("cert:"));
    q->authenticated = by_certificate;
    if (by_certificate ? !request_check_certificate_again(q) : !request_check_key_again(q, r))
        return false;
    return request_tenant_is_enabled(q);
}

/* Asked once its key was looked up, which is quick: until then its tenant is not known, so it has no turn. */
static bool request_is_slow(const struct request *q)
{
    unsigned flags = q->route->flags;
    bool asks_much = !query_is_short_page(q->query) || q->body.n > QUICK_BODY_MAX;
    return (flags & ROUTE_SLOW) || ((flags & ROUTE_MAYBE_SLOW) && asks_much);
}

enum handled request_run(struct request *q, struct reader *r)
{
    const struct api_setup *setup = &q->server->setup;
    q->now_ms = clock_wall_ms(setup->clock);
    if (r && uncertain_writes_resolve(&q->server->uncertain_writes, r, setup->catalog) && setup->catalog_changed)
        setup->catalog_changed(setup->context);
    if ((!q->authenticated && !request_identify(q, r)) || !request_tenant_is_enabled(q))
        return HANDLED_DONE;
    if (q->cost == THREAD_POOL_QUICK && request_is_slow(q)) {
        q->cost = THREAD_POOL_SLOW;
        return request_later(q, request_run);
    }
    if ((q->route->flags & ROUTE_WRITES) && !request_begin_write(q, r))
        return HANDLED_DONE;
    return q->route->run(q, r);
}
