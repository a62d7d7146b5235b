/* Signing keys: entries of the catalog, so that every node signs with them when a change is answered. The id of a key
 * is computed from its tenant and host: so there is one key for a host, also if two requests make it at once. */
#include <stdio.h>

#include "api/catalog/catalog_list.h"
#include "api/catalog/catalog_update.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "api/signing/signing_secret.h"
#include "base/date.h"
#include "base/json/json.h"
#include "base/rfc3339.h"
#include "core/notify/setting.h"

#define WHAT "signing key"

enum { SECRET_TEXT_MAX = 512, OVERLAP_DAYS_MAX = 30 };

/* ---- the answer ---- */

static void signing_keys_write_older(struct jw *w, const struct signing_key *k, int64_t now_ms)
{
    jw_key(w, "older");
    jw_array(w);
    for (size_t i = 1; i < k->count; i++) {
        if (now_ms >= k->secrets[i].until_ms)
            continue;
        jw_object(w);
        jw_kv_cstr(w, "algorithm", signing_algorithm_names[k->secrets[i].algorithm]);
        jw_kv_str_or_null(w, "public_key", k->secrets[i].public_key);
        jw_kv_time_or_null(w, "rotated_at", k->secrets[i].rotated_ms);
        jw_kv_time(w, "signs_until", k->secrets[i].until_ms);
        jw_object_end(w);
    }
    jw_array_end(w);
}

/* secret: empty, unless it was made by this request. */
static void signing_keys_write(struct request *q, struct jw *w, const struct signing_key *k,
                               const struct catalog_entry *entry, struct str secret)
{
    jw_object(w);
    jw_kv_uuid(w, "id", k->id);
    jw_kv_str(w, "name", k->name);
    jw_kv_str_or_null(w, "host", k->host);
    jw_kv_cstr(w, "algorithm", signing_algorithm_names[k->secrets[0].algorithm]);
    jw_kv_str_or_null(w, "public_key", k->secrets[0].public_key);
    signing_keys_write_older(w, k, q->now_ms);
    catalog_entry_members(w, entry);
    if (secret.n)
        jw_kv_str(w, "secret", secret);
    jw_object_end(w);
}

static enum err signing_keys_read(struct request *q, const struct catalog_entry *entry, struct signing_key *ret,
                                  struct error *e)
{
    return signing_key_read(entry->doc, &q->arena, ret, e) ? error_wrap(e, "'" STR_FMT "'", STR_ARG(entry->name))
                                                           : ERR_OK;
}

/* ---- reading ---- */

static enum err signing_keys_write_entry(struct request *q, struct jw *w, const struct catalog_entry *entry,
                                         struct error *e)
{
    struct signing_key k;
    if (signing_keys_read(q, entry, &k, e))
        return e->code;
    signing_keys_write(q, w, &k, entry, S(""));
    return ERR_OK;
}

enum handled signing_keys_list(struct request *q, struct reader *r)
{
    return catalog_list_answer(q, r, CATALOG_SIGNING_KEY, "signing_keys", signing_keys_write_entry);
}

enum handled signing_keys_get(struct request *q, struct reader *r)
{
    return catalog_get_answer(q, r, CATALOG_SIGNING_KEY, catalog_id_name(q, q->id), WHAT, signing_keys_write_entry);
}

/* ---- bodies ---- */

struct signing_key_body {
    struct str name, host;
    struct signing_secret_body secret;
    int64_t overlap_ms;
};

/* clang-format off */
#define AT(member) .offset = offsetof(struct signing_key_body, member)
#define SECRET_FIELDS \
    { .name = "algorithm", .kind = JSON_KIND_ENUM, AT(secret.algorithm), .names = signing_algorithm_names, .nullable = true }, \
    { .name = "secret", .kind = JSON_KIND_STR, AT(secret.secret), .min = 1, .max = SECRET_TEXT_MAX, .nullable = true }
static const struct json_field create_fields[] = {
    { .name = "name", .kind = JSON_KIND_STR, AT(name), .max = SIGNING_NAME_MAX, .characters = true, .nullable = true },
    { .name = "host", .kind = JSON_KIND_STR, AT(host), .min = 1, .max = SIGNING_HOST_MAX, .nullable = true },
    SECRET_FIELDS,
};
static const struct json_field rotate_fields[] = {
    { .name = "overlap", .kind = JSON_KIND_DURATION, AT(overlap_ms), .min = 0, .max = OVERLAP_DAYS_MAX * DAY_MS, .nullable = true },
    SECRET_FIELDS,
};
#undef AT
/* clang-format on */

static enum err signing_keys_read_body(struct request *q, const struct json_field *fields, size_t count,
                                       struct signing_key_body *ret, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    *ret = (struct signing_key_body){ .secret = { .algorithm = -1 }, .overlap_ms = DAY_MS };
    if (request_read_object(q, &doc, e) || json_read(doc.root, fields, count, ret, &q->arena, e))
        return e->code;
    if (!ret->host.n)
        return ERR_OK;
    char *host = arena_array(&q->arena, char, SIGNING_HOST_MAX);
    return host ? signing_host_check(ret->host, host, &ret->host, e) : error_no_room(e);
}

/* A UUID of version 8: its bits are a hash. */
static struct uuid signing_keys_id(int32_t tenant, struct str host)
{
    uint8_t hash[SHA256_SIZE];
    char text[32 + SIGNING_HOST_MAX];
    struct uuid id;
    int n = snprintf(text, sizeof text, "signing key %d " STR_FMT, tenant, STR_ARG(host));
    crypto_sha256((struct str){ text, (size_t)n }, hash);
    memcpy(id.b, hash, sizeof id.b);
    id.b[6] = (uint8_t)((id.b[6] & 0x0F) | 0x80);
    id.b[8] = (uint8_t)((id.b[8] & 0x3F) | 0x80);
    return id;
}

/* ---- changes ---- */

/* The stored answer of a repeated request has no secret. */
static enum err signing_keys_answer(struct request *q, struct catalog_update *c, const struct signing_key *k,
                                    struct str secret, struct error *e)
{
    int status = c->exists ? 200 : 201;
    struct jw w;
    jw_init(&w, c->doc);
    signing_key_write(&w, k);
    if (catalog_update_set_doc(q, c, e))
        return e->code;
    if (secret.n) {
        w = respond_json(&q->response, status);
        signing_keys_write(q, &w, k, &c->v[0].entry, S(""));
        if (!arena_str(&q->arena, buf_str(&q->response.body), &c->stored_answer))
            return error_no_room(e);
    }
    w = respond_json(&q->response, status);
    signing_keys_write(q, &w, k, &c->v[0].entry, secret);
    respond_etag(&q->response, c->v[0].entry.version);
    if (!c->exists)
        snprintf(q->response.location, sizeof q->response.location, "/v1/signing-keys/" STR_FMT, STR_ARG(c->name));
    return ERR_OK;
}

static enum err signing_keys_refuse_second(struct str host, struct str id, struct error *e)
{
    return error_set(e, ERR_CONFLICT, "there is a key for %s already, " STR_FMT "; rotate it, or remove it first",
                     host.n ? "this host" : "all hosts", STR_ARG(id));
}

/* Also for a key from before whose host is written in another form: its id is another one. */
static enum err signing_keys_check_room(struct request *q, struct reader *r, struct str host, struct error *e)
{
    struct catalog_entries all;
    struct signing_key k;
    struct error ignored;
    if (catalog_read_all(q, r, CATALOG_SIGNING_KEY, q->who.tenant, &all, e))
        return e->code;
    for (size_t i = 0; i < all.n; i++)
        if (signing_keys_read(q, &all.v[i], &k, &ignored) == ERR_OK && signing_host_is_same(k.host, host))
            return signing_keys_refuse_second(host, all.v[i].name, e);
    return all.n < SIGNING_KEYS_MAX
               ? ERR_OK
               : error_set(e, ERR_CONFLICT, "the tenant has %d signing keys already", SIGNING_KEYS_MAX);
}

static enum err signing_keys_make(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    struct signing_key_body body;
    struct signing_key k = { .count = 1 };
    struct str shown;
    if (signing_keys_read_body(q, create_fields, array_count(create_fields), &body, e))
        return e->code;
    if (str_has_control(body.name))
        return error_field(e, "name", "must not hold control characters");
    if (c->exists)
        return signing_keys_refuse_second(body.host, c->name, e);
    k.id = signing_keys_id(q->who.tenant, body.host);
    k.name = body.name;
    k.host = body.host;
    if (signing_keys_check_room(q, r, body.host, e) ||
        signing_secret_make(q, k.id, &body.secret, SIGNING_HMAC_SHA256, &k.secrets[0], &shown, e))
        return e->code;
    return signing_keys_answer(q, c, &k, shown, e);
}

static enum err signing_keys_refuse_fourth(const struct signing_key *k, struct error *e)
{
    char at[RFC3339_TEXT + 1];
    int64_t first_ms = INT64_MAX;
    for (size_t i = 1; i < k->count; i++)
        first_ms = min_of(first_ms, k->secrets[i].until_ms);
    rfc3339_format(first_ms, at);
    return error_set(e, ERR_CONFLICT,
                     "%d secrets of this key sign already; wait until %s, when one of them ends, or rotate with the "
                     "overlap 0s, which ends all of them at once",
                     SIGNING_SECRETS_MAX, at);
}

/* The secret of before signs for the overlap. The ones before it keep their own end; but without an overlap all end. */
static enum err signing_keys_make_room(struct signing_key *k, int64_t overlap_ms, int64_t now_ms, struct error *e)
{
    signing_key_drop_ended(k, now_ms);
    if (overlap_ms == 0)
        k->count = 0;
    if (k->count == SIGNING_SECRETS_MAX)
        return signing_keys_refuse_fourth(k, e);
    k->secrets[0].until_ms = now_ms + overlap_ms;
    k->secrets[0].rotated_ms = now_ms;
    memmove(k->secrets + 1, k->secrets, k->count * sizeof *k->secrets);
    k->count++;
    return ERR_OK;
}

static enum err signing_keys_make_rotated(struct request *q, struct reader *r, struct catalog_update *c,
                                          struct error *e)
{
    (void)r;
    struct signing_key_body body;
    struct signing_key k;
    struct str shown;
    if (!c->exists)
        return catalog_update_not_found(c, e);
    if (signing_keys_read(q, &c->current, &k, e) ||
        signing_keys_read_body(q, rotate_fields, array_count(rotate_fields), &body, e))
        return e->code;
    int algorithm = k.secrets[0].algorithm;
    if (signing_keys_make_room(&k, body.overlap_ms, q->now_ms, e) ||
        signing_secret_make(q, k.id, &body.secret, algorithm, &k.secrets[0], &shown, e))
        return e->code;
    return signing_keys_answer(q, c, &k, shown, e);
}

static bool signing_keys_is_named(const struct setting *s, struct str id)
{
    bool named = str_eq_nocase(s->channel.signing_key, id);
    for (size_t i = 0; i < s->step_count; i++)
        named = named || str_eq_nocase(s->steps[i].channel.signing_key, id);
    return named;
}

static enum err signing_keys_make_removed(struct request *q, struct reader *r, struct catalog_update *c,
                                          struct error *e)
{
    struct catalog_entries settings;
    if (!c->exists)
        return catalog_update_not_found(c, e);
    if (catalog_read_all(q, r, CATALOG_NOTIFICATION, q->who.tenant, &settings, e))
        return e->code;
    for (size_t i = 0; i < settings.n; i++) {
        struct setting s;
        if (setting_read(settings.v[i].doc, &q->arena, &s, NULL) == ERR_OK && signing_keys_is_named(&s, c->name))
            return error_set(e, ERR_CONFLICT, "the notification setting " STR_FMT " names it",
                             STR_ARG(settings.v[i].name));
    }
    c->v[0].remove = true;
    respond_nothing(&q->response);
    return ERR_OK;
}

/* A node of an older version would send without signatures. */
static bool signing_keys_are_known(struct request *q)
{
    const struct api_setup *setup = &q->server->setup;
    if (!setup->signatures_are_known || setup->signatures_are_known(setup->context))
        return true;
    request_refuse(q, PROBLEM_CONFLICT, "a node of an older version is running, which does not sign; upgrade it first");
    return false;
}

static enum handled signing_keys_change(struct request *q, struct reader *r, struct uuid id,
                                        enum err (*make)(struct request *, struct reader *, struct catalog_update *,
                                                         struct error *))
{
    if (!request_check_no_query(q) || !signing_keys_are_known(q))
        return HANDLED_DONE;
    struct catalog_update c = {
        .kind = CATALOG_SIGNING_KEY, .tenant = q->who.tenant, .name = catalog_id_name(q, id), .what = WHAT, .make = make
    };
    return catalog_update_begin(q, r, c);
}

enum handled signing_keys_create(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct signing_key_body body;
    if (signing_keys_read_body(q, create_fields, array_count(create_fields), &body, &e))
        return request_fail(q, &e);
    return signing_keys_change(q, r, signing_keys_id(q->who.tenant, body.host), signing_keys_make);
}

enum handled signing_keys_rotate(struct request *q, struct reader *r)
{
    return signing_keys_change(q, r, q->id, signing_keys_make_rotated);
}

enum handled signing_keys_delete(struct request *q, struct reader *r)
{
    return signing_keys_change(q, r, q->id, signing_keys_make_removed);
}
