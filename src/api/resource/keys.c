/* API keys: created and shown once, listed without their secret, revoked at once. An idempotency record never holds the
 * secret. If a create is repeated, the answer shows the key without its secret; if the first answer was lost, create
 * another key. */
#include <stdio.h>

#include "api/catalog/catalog_barrier.h"
#include "api/resource/tenants.h"
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "base/json/json.h"
#include "base/sentence.h"

enum { KEY_NAME_MAX = 100, SCOPES_MAX = 32 };

/* ---- views ---- */

static void keys_write_scopes(struct jw *w, struct str words)
{
    struct str rest = words, word;
    jw_key(w, "scopes");
    jw_array(w);
    while (str_cut(&rest, ' ', &word))
        jw_str(w, word);
    jw_array_end(w);
}

static void keys_write_members(struct jw *w, const struct api_key *k, struct str tenant)
{
    jw_kv_str(w, "id", k->id);
    jw_kv_str(w, "name", k->name);
    jw_kv_str(w, "tenant", tenant);
    keys_write_scopes(w, k->scopes);
    jw_kv_time(w, "created_at", k->created_ms);
    jw_key(w, "expires_at");
    if (k->expires_ms)
        jw_time(w, k->expires_ms);
    else
        jw_null(w);
}

struct key_query {
    struct str tenant, cursor, after; /* after: the cursor's */
    int64_t limit;
};

/* ?tenant=, by default the tenant of the request's own key; in a list ?limit= and ?cursor= too. */
static enum err keys_read_query(struct request *q, struct reader *r, bool is_list, struct key_query *ret,
                                struct tenant_rules *ret_tenant, struct error *e)
{
    static const struct query_field fields[] = {
        { "tenant", QUERY_TEXT, offsetof(struct key_query, tenant), 0, ROUTE_NAME_MAX, NULL },
        { "cursor", QUERY_TEXT, offsetof(struct key_query, cursor), 0, SEAL_TEXT_MAX, NULL },
        { "limit", QUERY_I64, offsetof(struct key_query, limit), 1, LIST_MAX, NULL },
    };
    *ret = (struct key_query){ .limit = LIST_DEFAULT };
    if (query_read(q->query, fields, is_list ? array_count(fields) : 1, ret, &q->arena, e) ||
        seal_open_name(q, ret->cursor, &ret->after, e))
        return e->code;
    return request_tenant(q, r, ret->tenant, ret_tenant, e);
}

enum handled keys_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct key_query query;
    struct tenant_rules tenant;
    struct key_list keys = { 0 };
    if (keys_read_query(q, r, true, &query, &tenant, &e) || reader_keys(r, tenant.number, &q->arena, &keys, &e))
        return request_fail(q, &e);
    struct pagination p = { .limit = query.limit, .total = -1 };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "keys");
    jw_array(&w);
    for (size_t i = 0, shown = 0; i < keys.n && !p.more; i++) {
        if (query.after.n && str_cmp(keys.v[i].id, query.after) <= 0)
            continue;
        p.more = shown++ == (size_t)query.limit;
        if (p.more)
            break;
        p.next_name = keys.v[i].id;
        jw_object(&w);
        keys_write_members(&w, &keys.v[i], tenant.name);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    pagination_write(q, &w, &p);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- create ---- */

struct key_body {
    struct str name, tenant;
    struct json_array scopes; /* of struct str */
    int64_t expires_ms;
};

static enum err keys_read_body(struct request *q, struct key_body *ret, struct error *e)
{
    static const struct json_field scope = { .name = "", .kind = JSON_KIND_STR, .min = 1, .max = 64 };
#define AT(member) .offset = offsetof(struct key_body, member)
    static const struct json_field fields[] = {
        { .name = "name",
          .kind = JSON_KIND_STR,
          AT(name),
          .min = 1,
          .max = KEY_NAME_MAX,
          .characters = true,
          .required = true },
        { .name = "scopes",
          .kind = JSON_KIND_ARRAY,
          AT(scopes),
          .fields = &scope,
          .count = 1,
          .size = sizeof(struct str),
          .min = 1,
          .max = SCOPES_MAX,
          .required = true },
        { .name = "expires_at", .kind = JSON_KIND_TIME, AT(expires_ms), .nullable = true },
        { .name = "tenant", .kind = JSON_KIND_STR, AT(tenant), .max = ROUTE_NAME_MAX, .nullable = true },
    };
#undef AT
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    *ret = (struct key_body){ 0 };
    if (request_read_object(q, &doc, e) || json_read(doc.root, fields, array_count(fields), ret, &q->arena, e))
        return e->code;
    if (ret->expires_ms && ret->expires_ms <= q->now_ms)
        return error_field(e, "expires_at", "is in the past");
    return ERR_OK;
}

static enum err keys_refuse_scope(size_t at, struct str word, struct error *e)
{
    char field[32], quoted[QUOTE_TEXT];
    cleanup_with(buf_release) struct buf known;
    buf_init(&known, 1024);
    struct suggest near;
    scopes_names(&known);
    suggest_init(&near, word);
    for (struct str rest = buf_str(&known), name; str_cut(&rest, ',', &name);)
        suggest_offer(&near, str_trim(name));
    snprintf(field, sizeof field, "scopes[%zu]", at);
    quote_text(word, quoted);
    if (near.closest.p)
        return error_field(e, field, "is not a scope: %s; did you mean '" STR_FMT "'? The scopes are %s", quoted,
                           STR_ARG(near.closest), buf_cstr(&known));
    return error_field(e, field, "is not a scope: %s; the scopes are %s", quoted, buf_cstr(&known));
}

/* Each scope once, separated by spaces. */
static enum err keys_join_scopes(struct request *q, const struct json_array *words, struct str *ret, struct error *e)
{
    uint32_t seen = 0;
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 4096);
    for (size_t i = 0; i < words->n; i++) {
        struct str word = ((struct str *)words->v)[i];
        uint32_t bit = str_find(word, ' ', 0) == word.n ? scopes_parse(word) : 0;
        if (!bit)
            return keys_refuse_scope(i, word, e);
        if (seen & bit)
            continue;
        if (seen)
            buf_char(&out, ' ');
        buf_add(&out, word);
        seen |= bit;
    }
    return arena_str(&q->arena, buf_str(&out), ret) ? ERR_OK : error_set(e, ERR_LIMIT, "has too many scopes");
}

/* A key that ends cannot make one that lives longer. */
static enum err keys_cap_expiry(struct request *q, struct reader *r, int64_t *expires_ms, bool *ret_capped,
                                struct error *e)
{
    struct api_key own;
    if (strlen(q->who.key_id) != AUTH_ID) /* who asks has no key */
        return ERR_OK;
    enum err rc = reader_key(r, str_from(q->who.key_id), &q->arena, &own, e);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    if (rc || own.expires_ms < 0)
        return error_set(e, ERR_CONFLICT, "the API key of this request was revoked just now");
    *ret_capped = own.expires_ms && (!*expires_ms || *expires_ms > own.expires_ms);
    if (*ret_capped)
        *expires_ms = own.expires_ms;
    return ERR_OK;
}

static void keys_answer_created(struct request *q, const struct api_key *k, struct str tenant, bool is_capped,
                                const char *text)
{
    struct jw w = respond_json(&q->response, 201);
    jw_object(&w);
    keys_write_members(&w, k, tenant);
    if (is_capped)
        jw_kv_bool(&w, "expires_with_creator", true);
    jw_kv_cstr(&w, "key", text);
    jw_object_end(&w);
}

static void keys_on_created(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc)
        request_fail(q, &op->error);
    request_answer(q);
}

static enum handled keys_put(struct request *q, struct api_key *key, struct str tenant, bool is_capped,
                             const char *text)
{
    struct api_key *kept = arena_new(&q->arena, struct api_key);
    struct str answer = { 0 };
    if (kept)
        *kept = *key;
    keys_answer_created(q, key, tenant, is_capped, NULL);
    if (!kept || !arena_str(&q->arena, buf_str(&q->response.body), &answer))
        return request_refuse(q, PROBLEM_INVALID, "the key does not fit in the memory allowed");
    const struct idempotency *record = request_record(q);
    q->record.answer = answer;
    keys_answer_created(q, key, tenant, is_capped, text);
    q->write.key = (struct op_key_put){ .op = { .kind = OP_KEY_PUT }, .key = kept, .idempotency = record };
    return request_submit(q, keys_on_created);
}

enum handled keys_create(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct key_body body;
    struct tenant_rules tenant;
    struct str scopes;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (keys_read_body(q, &body, &e) || keys_join_scopes(q, &body.scopes, &scopes, &e))
        return request_fail(q, &e);
    if (request_tenant(q, r, body.tenant, &tenant, &e)) {
        error_field(&e, "tenant", "does not exist, or this key may not manage it");
        return request_fail(q, &e);
    }
    bool is_capped = false;
    if (keys_cap_expiry(q, r, &body.expires_ms, &is_capped, &e))
        return request_fail(q, &e);
    char *id = arena_alloc(&q->arena, AUTH_ID + 1), text[AUTH_KEY_TEXT + 1];
    if (!id)
        return request_refuse(q, PROBLEM_INVALID, "the key does not fit in the memory allowed");
    auth_id_make(id);
    struct api_key key;
    auth_key_make(q->server->setup.pepper, (struct str){ id, AUTH_ID }, tenant.number, body.name, scopes, q->now_ms,
                  text, &key);
    key.expires_ms = body.expires_ms;
    enum handled handled = keys_put(q, &key, tenant.name, is_capped, text);
    explicit_bzero(text, sizeof text);
    return handled;
}

/* ---- revoke ---- */

/* Prevents a user from revoking the last admin key by mistake. Two revocations at the same moment may still do it; the
 * next start then makes a new admin key. */
static enum err keys_check_last_admin(struct request *q, struct reader *r, const struct api_key *key, struct error *e)
{
    struct key_list keys = { 0 };
    if (key->tenant != TENANT_DEFAULT || !api_key_is_admin(key, q->now_ms))
        return ERR_OK;
    if (reader_keys(r, key->tenant, &q->arena, &keys, e))
        return e->code;
    for (size_t i = 0; i < keys.n; i++)
        if (!str_eq(keys.v[i].id, key->id) && api_key_is_admin(&keys.v[i], q->now_ms))
            return ERR_OK;
    return error_set(e, ERR_CONFLICT, "this is the last admin key of 'default'; create another first");
}

/* The key of the tenant that is named by the path: by its id, or by its name if no other key has that name. */
static enum err keys_find(struct request *q, struct reader *r, int32_t tenant, struct api_key *ret, struct error *e)
{
    struct key_list keys = { 0 };
    const struct api_key *found = NULL;
    if (reader_keys(r, tenant, &q->arena, &keys, e))
        return e->code;
    for (size_t i = 0; i < keys.n; i++)
        if (str_eq(keys.v[i].id, q->name)) {
            *ret = keys.v[i];
            return ERR_OK;
        }
    for (size_t i = 0; i < keys.n; i++) {
        if (!str_eq(keys.v[i].name, q->name))
            continue;
        if (found)
            return error_set(e, ERR_CONFLICT, "several keys have this name; give the id of one: " STR_FMT ", " STR_FMT,
                             STR_ARG(found->id), STR_ARG(keys.v[i].id));
        found = &keys.v[i];
    }
    if (!found)
        return error_set(e, ERR_NOT_FOUND, "there is no such key");
    *ret = *found;
    return ERR_OK;
}

static void keys_on_revoked(struct op *op)
{
    struct request *q = request_finish_op(op);
    auth_cache_remove(q->server->auth, q->write.key.key->id); /* also if the store's answer was lost */
    api_server_check_again(q->server);
    if (request_replayed(q, op))
        return;
    if (request_op_failed(q, op))
        return;
    catalog_barrier_wait(q, request_answer);
}

enum handled keys_delete(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct tenant_rules tenant;
    struct api_key *key = arena_new(&q->arena, struct api_key);
    struct key_query query;
    enum err rc = keys_read_query(q, r, false, &query, &tenant, &e);
    if (rc == ERR_NOT_FOUND)
        return request_refuse(q, PROBLEM_NOT_FOUND, "there is no such key");
    if (rc || keys_find(q, r, tenant.number, key, &e) || keys_check_last_admin(q, r, key, &e))
        return request_fail(q, &e);
    respond_nothing(&q->response);
    q->write.key = (struct op_key_put){
        .op = { .kind = OP_KEY_PUT }, .key = key, .remove = true, .now_ms = q->now_ms, .idempotency = request_record(q)
    };
    return request_submit(q, keys_on_revoked);
}
