/* Sessions of browsers: who has an API key, or a login code that was made with one, logs in and gets a cookie.
 *
 * A session and a code are keys with a parent (auth.h), so that they work on every node, and end with the key. A code
 * works once: the node that revokes it may make the session. No idempotency record holds a session.
 *
 * A login replaces the session that the browser had: it ends as soon as the new one is stored. */
#include <stdio.h>
#include <stdlib.h>

#include "api/auth/session_keys.h"
#include "api/catalog/catalog_barrier.h"
#include "api/dashboard/session_cookie.h"
#include "api/live/live.h"
#include "api/resource/tenants.h"
#include "api/server/audit.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "base/json/json.h"

/* ---- views ---- */

static void session_write_scopes(struct jw *w, uint32_t scopes)
{
    jw_key(w, "scopes");
    jw_array(w);
    for (enum scope s = SCOPE_ANY + 1; s <= SCOPE_ADMIN; s++)
        if (scopes & 1U << s)
            jw_str(w, str_from(scope_name(s)));
    jw_array_end(w);
}

/* expires_ms 0: never. csrf NULL: it is no session. */
static void session_answer(struct request *q, int status, struct str tenant, struct str name, uint32_t scopes,
                           int64_t expires_ms, const char *csrf)
{
    struct jw w = respond_json(&q->response, status);
    jw_object(&w);
    jw_kv_str(&w, "tenant", tenant);
    jw_kv_cstr(&w, "key_id", q->who.key_id);
    jw_kv_str(&w, "name", name);
    session_write_scopes(&w, scopes);
    jw_key(&w, "expires_at");
    if (expires_ms)
        jw_time(&w, expires_ms);
    else
        jw_null(&w);
    jw_kv_cstr(&w, "csrf_token", csrf);
    jw_object_end(&w);
}

enum handled session_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct tenant_rules tenant;
    struct api_key key = { .name = str_from(q->who.key_id) };
    char csrf[CSRF_TEXT + 1];
    bool is_session = q->who.session[0], has_key = strlen(q->who.key_id) == AUTH_ID;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    const char *id = is_session ? q->who.session : q->who.key_id;
    if (request_tenant(q, r, S(""), &tenant, &e) || (has_key && auth_read_key(r, str_from(id), &q->arena, &key, &e)))
        return request_fail(q, &e);
    if (is_session)
        auth_csrf_token(q->server->setup.pepper, q->session, csrf);
    session_answer(q, 200, tenant.name, key.name, q->who.scopes, key.expires_ms, is_session ? csrf : NULL);
    return HANDLED_DONE;
}

/* ---- login ---- */

struct login_body {
    struct str key, code;
};

/* A login at work: the session that it makes, and the one that the browser had. */
struct login {
    struct api_key made;
    struct identity old; /* its session is empty: the browser had none */
};

static enum err session_read_body(struct request *q, struct login_body *ret, struct error *e)
{
#define AT(member) .offset = offsetof(struct login_body, member)
    static const struct json_field fields[] = {
        { .name = "key", .kind = JSON_KIND_STR, AT(key), .max = 200, .nullable = true },
        { .name = "code", .kind = JSON_KIND_STR, AT(code), .max = 200, .nullable = true },
    };
#undef AT
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    *ret = (struct login_body){ 0 };
    if (request_read_object(q, &doc, e) || json_read(doc.root, fields, array_count(fields), ret, &q->arena, e))
        return e->code;
    if (!ret->key.n == !ret->code.n)
        return error_set(e, ERR_INVALID, "give a key or a code: an API key, or what 'belfry dashboard' prints");
    return ERR_OK;
}

/* Ten a minute for an address, right or wrong. */
static bool session_take_login(struct request *q)
{
    struct api_server *s = q->server;
    int64_t wait_ms = 0;
    pthread_mutex_lock(&s->lock);
    bool taken = peer_buckets_take(&s->logins, http_peer(q->exchange), clock_steady_ms(s->setup.clock), &wait_ms);
    pthread_mutex_unlock(&s->lock);
    if (taken)
        return true;
    respond_problem(&q->response, PROBLEM_LOGIN_LIMIT, "this address has logged in %d times in a minute; wait",
                    LOGINS_BURST);
    q->response.retry_after_s = (int)(wait_ms / 1000 + 1);
    return false;
}

/* Whose session it will be. False: the request is answered. */
static bool session_identify(struct request *q, struct reader *r, const struct login_body *b)
{
    struct error e = { 0 };
    enum auth_result result = AUTH_MALFORMED;
    struct str text = b->key.n ? b->key : b->code;
    if (auth_key_is_well_formed(text) &&
        auth_check_text(q->server->auth, text, b->key.n ? AUTH_KEY : AUTH_CODE, r, &result, &q->who, &e)) {
        request_fail(q, &e);
        return false;
    }
    if (result == AUTH_OK)
        return request_tenant_is_enabled(q);
    request_refuse_key(q, b->code.n && result != AUTH_MALFORMED ? AUTH_REFUSED : result);
    if (b->code.n && q->response.status == 401)
        request_refuse(q, PROBLEM_UNAUTHORIZED, "the code is unknown, was used, or is older than 60 s");
    return false;
}

/* The row of a session or a code: enough to end it. */
static struct api_key *session_row(struct request *q, const struct identity *who)
{
    struct api_key *key = arena_new(&q->arena, struct api_key);
    if (!key)
        abort(); /* the limit of an arena is far above it */
    *key = (struct api_key){ .id = str_from(who->session), .tenant = who->tenant };
    return key;
}

/* Whose session the browser has until now. A cookie that proves none ends none. */
static void session_read_old(struct request *q, struct reader *r, const struct browser_origin *o, struct identity *ret)
{
    struct error ignored = { 0 };
    enum auth_result result = AUTH_MISSING;
    struct identity old = { 0 };
    struct str text = session_cookie_text(q, o);
    if (auth_key_is_well_formed(text) &&
        auth_check_text(q->server->auth, text, AUTH_SESSION, r, &result, &old, &ignored) == ERR_OK && result == AUTH_OK)
        *ret = old;
}

/* Another failure than its absence leaves the old session to its end, after 12 hours: the login is done. */
static void session_on_replaced(struct op *op)
{
    struct request *q = request_finish_op(op);
    const struct login *login = q->context;
    auth_cache_remove(q->server->auth, str_from(login->old.session));
    api_server_check_again(q->server);
    catalog_barrier_wait(q, request_answer);
}

static enum handled session_end_old(struct request *q, struct reader *r)
{
    (void)r;
    const struct login *login = q->context;
    q->write.key = (struct op_key_put){
        .op = { .kind = OP_KEY_PUT }, .key = session_row(q, &login->old), .remove = true, .now_ms = q->now_ms
    };
    return request_submit(q, session_on_replaced);
}

static void session_on_made(struct op *op)
{
    struct request *q = request_finish_op(op);
    const struct login *login = q->context;
    if (op->rc == ERR_OK && login->old.session[0]) {
        (void)request_later(q, session_end_old);
        return;
    }
    if (op->rc)
        request_fail(q, &op->error);
    request_answer(q);
}

static void session_on_stored(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (op->rc)
        request_fail(q, &op->error);
    request_answer(q);
}

/* Stores the session that was made. */
static enum handled session_store(struct request *q, struct reader *r)
{
    (void)r;
    struct login *login = q->context;
    q->write.key = (struct op_key_put){ .op = { .kind = OP_KEY_PUT }, .key = &login->made };
    return request_submit(q, session_on_made);
}

/* Makes the session of q->who, its answer and its audit row. False: the request is answered. */
static bool session_make(struct request *q, struct reader *r, const struct browser_origin *o)
{
    struct error e = { 0 };
    struct tenant_rules tenant;
    struct api_key parent;
    struct login *login = arena_new(&q->arena, struct login);
    char *id = arena_array(&q->arena, char, AUTH_ID + 1), text[AUTH_KEY_TEXT + 1], csrf[CSRF_TEXT + 1];
    if (!login || !id || reader_key(r, str_from(q->who.key_id), &q->arena, &parent, &e) ||
        request_tenant(q, r, S(""), &tenant, &e)) {
        request_fail(q, &e);
        return false;
    }
    struct str pepper = q->server->setup.pepper;
    struct api_key *key = &login->made;
    auth_id_make(id);
    auth_session_make(pepper, (struct str){ id, AUTH_ID }, &parent, q->now_ms, text, key);
    auth_csrf_token(pepper, str_from(text), csrf);
    session_answer(q, 201, tenant.name, parent.name, scopes_parse(parent.scopes), key->expires_ms, csrf);
    session_cookie_set(q, o, text, (key->expires_ms - q->now_ms) / 1000);
    explicit_bzero(text, sizeof text);
    session_read_old(q, r, o, &login->old);
    q->context = login;
    struct op_key_put put = { .op = { .kind = OP_KEY_PUT }, .key = key };
    (void)request_audit(q, &put.op); /* the row names the session, also if it is stored with the end of a code */
    return true;
}

/* Who revokes the code has used it. Nobody else can. */
static void session_on_code_used(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (op->rc == ERR_OK) {
        (void)request_later(q, session_store);
        return;
    }
    if (op->rc == ERR_NOT_FOUND)
        request_refuse(q, PROBLEM_UNAUTHORIZED, "the code was used already");
    else
        request_fail(q, &op->error);
    request_answer(q);
}

static enum handled session_use_code(struct request *q)
{
    q->write.key = (struct op_key_put){
        .op = { .kind = OP_KEY_PUT }, .key = session_row(q, &q->who), .remove = true, .now_ms = q->now_ms
    };
    return request_submit(q, session_on_code_used);
}

enum handled session_login(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct login_body body;
    struct browser_origin o;
    if (!browser_origin_read(q, &o)) {
        browser_origin_refuse(q);
        return HANDLED_DONE;
    }
    if (browser_request_is_foreign(q, &o))
        return request_refuse(q, PROBLEM_CROSS_SITE, "a page of another origin made this request");
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (session_read_body(q, &body, &e))
        return request_fail(q, &e);
    if (!session_take_login(q) || !session_identify(q, r, &body) || !session_make(q, r, &o))
        return HANDLED_DONE;
    return body.code.n ? session_use_code(q) : session_store(q, r);
}

/* ---- logout ---- */

static void session_on_ended(struct op *op)
{
    struct request *q = request_finish_op(op);
    auth_cache_remove(q->server->auth, str_from(q->who.session)); /* also if the store's answer was lost */
    api_server_check_again(q->server);
    if (op->rc && op->rc != ERR_NOT_FOUND) {
        request_fail(q, &op->error);
        request_answer(q);
        return;
    }
    catalog_barrier_wait(q, request_answer);
}

enum handled session_logout(struct request *q, struct reader *r)
{
    (void)r;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (!q->who.session[0])
        return request_refuse(q, PROBLEM_CONFLICT,
                              "the request has no session; to end a key, use DELETE /v1/api-keys/{name}");
    respond_nothing(&q->response);
    session_cookie_clear(q);
    q->write.key = (struct op_key_put){
        .op = { .kind = OP_KEY_PUT }, .key = session_row(q, &q->who), .remove = true, .now_ms = q->now_ms
    };
    return request_submit(q, session_on_ended);
}

/* ---- login codes ---- */

static void session_answer_code(struct request *q, const char *text, int64_t expires_ms)
{
    struct browser_origin o;
    char url[BROWSER_ORIGIN_MAX + AUTH_KEY_TEXT + 16] = "";
    struct str base = q->server->setup.public_url;
    if (base.n)
        snprintf(url, sizeof url, STR_FMT "%sui/#code=%s", STR_ARG(base), base.p[base.n - 1] == '/' ? "" : "/", text);
    else if (browser_origin_read(q, &o))
        snprintf(url, sizeof url, "%s/ui/#code=%s", o.text, text);
    struct jw w = respond_json(&q->response, 201);
    jw_object(&w);
    jw_kv_cstr(&w, "code", text);
    jw_kv_time(&w, "expires_at", expires_ms);
    jw_kv_cstr(&w, "url", url[0] ? url : NULL);
    jw_object_end(&w);
    explicit_bzero(url, sizeof url);
}

enum handled session_code_create(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct api_key parent, *code = arena_new(&q->arena, struct api_key);
    char *id = arena_array(&q->arena, char, AUTH_ID + 1), text[AUTH_KEY_TEXT + 1];
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (q->who.session[0] || strlen(q->who.key_id) != AUTH_ID) /* else a session could outlive its 12 hours */
        return request_refuse(q, PROBLEM_FORBIDDEN, "a login code is made with an API key in Authorization only");
    if (!code || !id || reader_key(r, str_from(q->who.key_id), &q->arena, &parent, &e))
        return request_fail(q, &e);
    auth_id_make(id);
    auth_code_make(q->server->setup.pepper, (struct str){ id, AUTH_ID }, &parent, q->now_ms, text, code);
    session_answer_code(q, text, code->expires_ms);
    explicit_bzero(text, sizeof text);
    q->write.key = (struct op_key_put){ .op = { .kind = OP_KEY_PUT }, .key = code };
    return request_submit(q, session_on_stored);
}
