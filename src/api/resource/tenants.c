/* Tenants. Users see the name of a tenant; rows hold its number. A number is given once: an entry of its own, written
 * in the transaction that creates the tenant, reserves it for ever. */
#include "api/resource/tenants.h"

#include <stdio.h>

#include "api/catalog/catalog_list.h"
#include "api/catalog/catalog_update.h"
#include "api/server/internal.h"
#include "api/server/request_input.h"
#include "base/json/json.h"
#include "base/tenant_metrics.h"

#define LIMIT_MAX    1000000000000LL
#define DEFAULT_NAME "default"
enum { NUMBER_TEXT = 10 };

/* Another node may have created the tenant just now. If it is not in the catalog cache, the store is asked. */
static bool tenants_read_from_store(struct request *q, struct reader *r, struct str name, struct tenant_rules *ret)
{
    const struct api_setup *setup = &q->server->setup;
    struct catalog_entry entry;
    struct error e = { 0 };
    if (!store_is_shared(setup->store) || reader_catalog_get(r, 0, CATALOG_TENANT, name, &q->arena, &entry, &e) ||
        catalog_cache_put(setup->catalog, &entry, &e))
        return false;
    if (setup->catalog_changed)
        setup->catalog_changed(setup->context);
    return catalog_cache_tenant_named(setup->catalog, name, &q->arena, ret);
}

enum err request_tenant(struct request *q, struct reader *r, struct str name, struct tenant_rules *ret, struct error *e)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    bool found = name.n ? catalog_cache_tenant_named(catalog, name, &q->arena, ret)
                        : catalog_cache_tenant(catalog, q->who.tenant, &q->arena, ret);
    if (!found && name.n)
        found = tenants_read_from_store(q, r, name, ret);
    if (!found || (ret->number != q->who.tenant && !request_is_operator(q)))
        return error_set(e, ERR_NOT_FOUND, "there is no such tenant");
    return ERR_OK;
}

/* ---- views ---- */

static enum err tenants_write_usage(struct jw *w, struct reader *r, int32_t tenant, struct error *e)
{
    struct tenant_usage usage = { 0 };
    if (reader_usage(r, tenant, &usage, e))
        return e->code;
    jw_kv_i64(w, "pending", usage.pending);
    jw_kv_i64(w, "recurring", usage.recurring);
    return ERR_OK;
}

/* Ends the object with `notice`, if it is not NULL. */
static enum err tenants_write(struct jw *w, struct reader *r, const struct tenant_rules *t,
                              const struct catalog_entry *entry, const char *notice, struct error *e)
{
    jw_object(w);
    tenant_rules_write(w, t);
    if (tenants_write_usage(w, r, t->number, e))
        return e->code;
    if (entry)
        catalog_entry_members(w, entry);
    else
        jw_kv_i64(w, "version", 0);
    if (notice)
        jw_kv_cstr(w, "notice", notice);
    jw_object_end(w);
    return ERR_OK;
}

static struct tenant_rules tenants_default(void)
{
    return (struct tenant_rules){ .number = TENANT_DEFAULT, .name = S(DEFAULT_NAME) };
}

/* The rules in the stored entry. `default` may have no entry. */
static enum err tenants_rules_of(struct request *q, const struct catalog_entry *entry, struct tenant_rules *ret,
                                 struct error *e)
{
    if (!entry) {
        *ret = tenants_default();
        return ERR_OK;
    }
    if (tenant_rules_read(entry->doc, &q->arena, ret, e) == ERR_OK)
        return ERR_OK;
    return error_set(e, ERR_CORRUPT, "tenant '" STR_FMT "' cannot be read", STR_ARG(entry->name));
}

/* ---- reading ---- */

static bool tenants_is_shown(const struct request *q, const struct name_page *page, const struct tenant_rules *t)
{
    bool behind = page->after.n == 0 || str_cmp(t->name, page->after) > 0;
    return behind && (request_is_operator(q) || t->number == q->who.tenant);
}

/* `default` has an entry only after it was changed. Without one it is added at its place in the order. */
static enum err tenants_read_all(struct request *q, struct reader *r, struct catalog_entries *ret, struct error *e)
{
    struct catalog_entries found;
    if (catalog_read_all(q, r, CATALOG_TENANT, 0, &found, e))
        return e->code;
    struct catalog_entry *v = arena_array(&q->arena, struct catalog_entry, found.n + 1);
    if (!v)
        return error_set(e, ERR_LIMIT, "the answer would be too large");
    size_t n = 0;
    bool has_default = false;
    for (size_t i = 0; i < found.n; i++) {
        int order = str_cmp(found.v[i].name, S(DEFAULT_NAME));
        if (order > 0 && !has_default)
            v[n++] = (struct catalog_entry){ .name = S(DEFAULT_NAME) };
        has_default = has_default || order >= 0;
        v[n++] = found.v[i];
    }
    if (!has_default)
        v[n++] = (struct catalog_entry){ .name = S(DEFAULT_NAME) };
    *ret = (struct catalog_entries){ v, n };
    return ERR_OK;
}

static enum err tenants_write_page(struct request *q, struct reader *r, const struct name_page *page, struct jw *w,
                                   struct pagination *p, struct error *e)
{
    struct catalog_entries all = { 0 };
    int64_t shown = 0;
    if (tenants_read_all(q, r, &all, e))
        return e->code;
    for (size_t i = 0; i < all.n; i++) {
        const struct catalog_entry *entry = all.v[i].version ? &all.v[i] : NULL;
        struct tenant_rules t;
        if (tenants_rules_of(q, entry, &t, e))
            return e->code;
        if (!tenants_is_shown(q, page, &t))
            continue;
        if (shown++ == page->limit) {
            p->more = true;
            return ERR_OK;
        }
        p->next_name = t.name;
        if (tenants_write(w, r, &t, entry, NULL, e))
            return e->code;
    }
    return ERR_OK;
}

enum handled tenants_list(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct name_page page;
    if (!name_page_read(q, &page))
        return HANDLED_DONE;
    struct jw w = respond_json(&q->response, 200);
    struct pagination p = { .limit = page.limit, .total = -1 };
    jw_object(&w);
    jw_key(&w, "tenants");
    jw_array(&w);
    if (tenants_write_page(q, r, &page, &w, &p, &e))
        return request_fail(q, &e);
    jw_array_end(&w);
    pagination_write(q, &w, &p);
    jw_object_end(&w);
    return HANDLED_DONE;
}

enum handled tenants_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct tenant_rules t;
    struct catalog_entry entry;
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (request_tenant(q, r, q->name, &t, &e))
        return request_fail(q, &e);
    enum err rc = reader_catalog_get(r, 0, CATALOG_TENANT, q->name, &q->arena, &entry, &e);
    bool has_entry = rc == ERR_OK;
    if ((rc && rc != ERR_NOT_FOUND) || tenants_rules_of(q, has_entry ? &entry : NULL, &t, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    if (tenants_write(&w, r, &t, has_entry ? &entry : NULL, NULL, &e))
        return request_fail(q, &e);
    if (has_entry)
        respond_etag(&q->response, entry.version);
    return HANDLED_DONE;
}

/* ---- changes ---- */

#define LIMIT(text, member)                                                                                            \
    {                                                                                                                  \
        .name = (text), .kind = JSON_KIND_I64, .offset = offsetof(struct tenant_rules, member), .max = LIMIT_MAX,      \
    }
#define LIMITS                                                                                                         \
    LIMIT("max_running", max_running), LIMIT("max_pending", max_pending), LIMIT("max_recurring", max_recurring),       \
        LIMIT("creates_per_second", creates_per_second), LIMIT("payload_bytes", payload_bytes),                        \
    {                                                                                                                  \
        .name = "disabled", .kind = JSON_KIND_BOOL, .offset = offsetof(struct tenant_rules, disabled)                  \
    }

/* null removes a limit, as 0 does. */
static void tenants_clear_nulls(json_t *root, struct tenant_rules *t)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
        { "max_running", offsetof(struct tenant_rules, max_running) },
        { "max_pending", offsetof(struct tenant_rules, max_pending) },
        { "max_recurring", offsetof(struct tenant_rules, max_recurring) },
        { "creates_per_second", offsetof(struct tenant_rules, creates_per_second) },
        { "payload_bytes", offsetof(struct tenant_rules, payload_bytes) },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (json_is_null(json_object_get(root, rows[i].name)))
            *(int64_t *)(void *)((char *)t + rows[i].offset) = 0;
}

static enum err tenants_read_limits(struct request *q, bool with_name, struct tenant_rules *into, struct error *e)
{
    static const struct json_field fields[] = {
        { .name = "name",
          .kind = JSON_KIND_STR,
          .offset = offsetof(struct tenant_rules, name),
          .min = 1,
          .max = ROUTE_NAME_MAX,
          .required = true },
        LIMITS,
    };
    struct json_field rows[array_count(fields)];
    memcpy(rows, fields, sizeof rows);
    for (size_t i = 1; i < array_count(rows); i++)
        rows[i].nullable = true;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (request_read_object(q, &doc, e))
        return e->code;
    tenants_clear_nulls(doc.root, into);
    return json_read(doc.root, rows + !with_name, array_count(rows) - !with_name, into, &q->arena, e);
}

static enum err tenants_check_rules(const struct tenant_rules *t, struct error *e)
{
    if (t->number == TENANT_DEFAULT && t->disabled)
        return error_field(e, "disabled", "cannot be set for 'default': its keys manage all tenants");
    return ERR_OK;
}

/* Numbers are given in turn: with the first one, tasks may no longer call loopback addresses. */
static const char *tenants_notice(const struct request *q, const struct tenant_rules *created)
{
    return q->server->setup.loopback_if_alone && created->number == TENANT_DEFAULT + 1
               ? "'default' is no longer the only tenant: from now on, calls of all tenants to loopback addresses are "
                 "refused, except those that http.allow lists"
               : NULL;
}

static enum err tenants_write_change(struct request *q, struct reader *r, struct catalog_update *c,
                                     const struct tenant_rules *t, struct error *e)
{
    struct jw w;
    jw_init(&w, c->doc);
    jw_object(&w);
    tenant_rules_write(&w, t);
    jw_object_end(&w);
    if (tenants_check_rules(t, e) || catalog_update_set_doc(q, c, e))
        return e->code;
    bool created = q->method == HTTP_POST;
    w = respond_json(&q->response, created ? 201 : 200);
    if (tenants_write(&w, r, t, &c->v[0].entry, created ? tenants_notice(q, t) : NULL, e))
        return e->code;
    respond_etag(&q->response, c->v[0].entry.version);
    if (created)
        snprintf(q->response.location, sizeof q->response.location, "/v1/tenants/" STR_FMT, STR_ARG(t->name));
    return ERR_OK;
}

static enum err tenants_make_edited(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    struct tenant_rules t;
    if (!c->exists && !str_eq(c->name, S(DEFAULT_NAME)))
        return catalog_update_not_found(c, e);
    if (tenants_rules_of(q, c->exists ? &c->current : NULL, &t, e) || tenants_read_limits(q, false, &t, e))
        return e->code;
    return tenants_write_change(q, r, c, &t, e);
}

static enum handled tenants_refuse_key(struct request *q)
{
    return request_refuse(q, PROBLEM_FORBIDDEN, "only an admin key of the tenant 'default' may change tenants");
}

static struct catalog_update tenants_change(struct str name)
{
    return (struct catalog_update){ .kind = CATALOG_TENANT, .name = name, .what = "tenant" };
}

enum handled tenants_patch(struct request *q, struct reader *r)
{
    if (!request_is_operator(q))
        return tenants_refuse_key(q);
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    struct catalog_update c = tenants_change(q->name);
    c.make = tenants_make_edited;
    return catalog_update_begin(q, r, c);
}

/* The number after the highest that was ever given. */
static enum err tenants_next_number(struct request *q, struct reader *r, int32_t *ret, struct error *e)
{
    struct catalog_entries given;
    int64_t last = TENANT_DEFAULT;
    if (catalog_read_all(q, r, CATALOG_TENANT_NUMBER, 0, &given, e))
        return e->code;
    if (given.n && !str_to_i64(given.v[given.n - 1].name, 1, INT32_MAX - 1, &last))
        return error_set(e, ERR_CORRUPT, "a tenant's number cannot be read");
    *ret = (int32_t)last + 1;
    return ERR_OK;
}

static enum err tenants_make_new(struct request *q, struct reader *r, struct catalog_update *c, struct error *e)
{
    struct tenant_rules t = { 0 };
    if (tenants_read_limits(q, true, &t, e) || tenants_next_number(q, r, &t.number, e))
        return e->code;
    if (c->exists || str_eq(t.name, S(DEFAULT_NAME)))
        return error_set(e, ERR_CONFLICT, "there is a tenant of this name already");
    char *number = arena_alloc(&q->arena, NUMBER_TEXT + 1);
    if (!number)
        return error_no_room(e);
    /* fixed width, so that the last name is the highest number */
    snprintf(number, NUMBER_TEXT + 1, "%0*d", NUMBER_TEXT, t.number);
    c->v[c->n++] = (struct catalog_change){
        .entry = { .kind = CATALOG_TENANT_NUMBER, .name = { number, NUMBER_TEXT }, .version = 1, .doc = S("{}") }
    };
    return tenants_write_change(q, r, c, &t, e);
}

static enum err tenants_check_name(struct str name, struct error *e)
{
    if (str_eq(name, S(TENANT_METRICS_OTHER)))
        return error_field(e, "name", "must not be " TENANT_METRICS_OTHER ": metrics use that name for all others");
    if (route_name_is_valid(name) && str_find(name, ':', 0) == name.n)
        return ERR_OK;
    return error_field(e, "name", "must be 1 to %d letters, digits and . _ -", ROUTE_NAME_MAX);
}

enum handled tenants_create(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct tenant_rules t = { 0 };
    if (!request_is_operator(q))
        return tenants_refuse_key(q);
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (tenants_read_limits(q, true, &t, &e) || tenants_check_name(t.name, &e))
        return request_fail(q, &e);
    struct catalog_update c = tenants_change(t.name);
    c.make = tenants_make_new;
    return catalog_update_begin(q, r, c);
}
