/* GET /v1/audit. An admin key of the tenant `default` sees the rows of all tenants, every other key those of its own
 * tenant. */
#include "api/resource/tenants.h"
#include "api/server/internal.h"
#include "api/server/query.h"

struct audit_query {
    int64_t limit, from_ms, to_ms;
    struct str cursor, tenant, key, action, object;
};

static bool audit_is_of_task(const struct audit *row)
{
    return str_eq(row->kind, S("task")) || str_eq(row->kind, S("workflow_run"));
}

/* Names of tasks and runs are for keys of their tenant that may read tasks. */
static bool audit_may_name(const struct request *q, const struct audit *row)
{
    return !audit_is_of_task(row) || (row->tenant == q->who.tenant && identity_may(&q->who, SCOPE_TASKS_READ));
}

/* Of a row from before names were kept: the name of the task or key as it is now. */
static void audit_write_present_name(struct reader *r, struct jw *w, const struct audit *row)
{
    enum { TASK_BYTES_MAX = 8 << 20 };
    cleanup_with(arena_release) struct arena arena;
    struct error ignored;
    struct api_key key;
    struct task t;
    struct uuid id;
    arena_init(&arena, TASK_BYTES_MAX);
    if (audit_is_of_task(row) && uuid_parse(str_sub(row->object, 0, min_of(row->object.n, (size_t)UUID_TEXT)), &id) &&
        reader_get(r, row->tenant, id, &arena, &t, &ignored) == ERR_OK && t.name.n)
        jw_kv_str(w, "object_name", t.name);
    if (str_eq(row->kind, S("api_key")) && reader_key(r, row->object, &arena, &key, &ignored) == ERR_OK &&
        key.tenant == row->tenant)
        jw_kv_str(w, "object_name", key.name);
}

static void audit_write_object_name(struct request *q, struct reader *r, struct jw *w, const struct audit *row)
{
    if (!audit_may_name(q, row))
        return;
    if (row->object_name.n)
        jw_kv_str(w, "object_name", row->object_name);
    else if (!row->actor_name.n)
        audit_write_present_name(r, w, row);
}

static void audit_write(struct request *q, struct reader *r, struct jw *w, const struct audit *row)
{
    static const char *const outcomes[] = { [AUDIT_DONE] = "DONE", [AUDIT_REFUSED] = "REFUSED" };
    const struct catalog_cache *catalog = q->server->setup.catalog;
    struct tenant_rules tenant;
    char digest[2 * sizeof row->digest + 1];
    for (size_t i = 0; i < sizeof row->digest; i++)
        snprintf(digest + 2 * i, 3, "%02x", row->digest[i]);
    jw_object(w);
    jw_kv_uuid(w, "id", row->id);
    jw_kv_time(w, "at", row->at_ms);
    if (catalog && catalog_cache_tenant(catalog, row->tenant, &q->arena, &tenant))
        jw_kv_str(w, "tenant", tenant.name);
    if (row->actor.n)
        jw_kv_str(w, "key", row->actor);
    if (row->actor_name.n)
        jw_kv_str(w, "key_name", row->actor_name);
    if (row->address.n)
        jw_kv_str(w, "address", row->address);
    jw_kv_str(w, "action", row->action);
    if (row->kind.n)
        jw_kv_str(w, "object_kind", row->kind);
    if (row->object.n)
        jw_kv_str(w, "object", row->object);
    audit_write_object_name(q, r, w, row);
    if (row->details.n && row->tenant == q->who.tenant && audit_may_name(q, row)) {
        jw_key(w, "details");
        jw_raw(w, row->details);
    }
    jw_kv_cstr(w, "outcome", outcomes[row->outcome]);
    jw_kv_i64(w, "count", row->count);
    jw_kv_cstr(w, "digest", digest);
    jw_kv_uuid(w, "strand", row->strand);
    jw_kv_i64(w, "seq", row->seq);
    jw_object_end(w);
}

static enum err audit_read_filter(struct request *q, struct reader *r, struct audit_query *p, struct audit_filter *ret,
                                  struct error *e)
{
    static const struct query_field fields[] = {
        { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX },
        { .name = "cursor", .kind = QUERY_TEXT, .offset = offsetof(struct audit_query, cursor), .max = SEAL_TEXT_MAX },
        { .name = "tenant", .kind = QUERY_TEXT, .offset = offsetof(struct audit_query, tenant), .max = ROUTE_NAME_MAX },
        { .name = "key", .kind = QUERY_TEXT, .offset = offsetof(struct audit_query, key), .also = "by" },
        { .name = "action", .kind = QUERY_TEXT, .offset = offsetof(struct audit_query, action) },
        { .name = "object", .kind = QUERY_TEXT, .offset = offsetof(struct audit_query, object) },
        { .name = "from", .kind = QUERY_TIME, .offset = offsetof(struct audit_query, from_ms), .also = "since" },
        { .name = "to", .kind = QUERY_TIME, .offset = offsetof(struct audit_query, to_ms), .also = "until" },
    };
    struct tenant_rules tenant;
    struct audit_filter f = { 0 };
    if (query_read(q->query, fields, array_count(fields), p, &q->arena, e) || seal_open_id(q, p->cursor, &f.before, e))
        return e->code;
    if (p->to_ms && query_check_range(p->from_ms, p->to_ms, e))
        return e->code;
    if (p->tenant.n && request_tenant(q, r, p->tenant, &tenant, e))
        return error_set(e, ERR_NOT_FOUND, "the tenant does not exist, or this key may not see it");
    f.tenant = p->tenant.n ? tenant.number : request_is_operator(q) ? 0 : q->who.tenant;
    f.actor = str_starts(p->key, S("bf_")) ? str_sub(p->key, 3, p->key.n) : p->key;
    f.action = p->action;
    f.object = p->object;
    f.from_ms = p->from_ms;
    f.to_ms = p->to_ms;
    f.limit = (size_t)p->limit;
    *ret = f;
    return ERR_OK;
}

enum handled audit_list(struct request *q, struct reader *r)
{
    struct audit_query p = { .limit = LIST_DEFAULT };
    struct audit_filter f;
    struct audit_page page = { 0 };
    struct error e = { 0 };
    if (audit_read_filter(q, r, &p, &f, &e) || reader_audit(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "audit");
    jw_array(&w);
    for (size_t i = 0; i < page.n; i++)
        audit_write(q, r, &w, &page.v[i]);
    jw_array_end(&w);
    pagination_write(
        q, &w, &(struct pagination){ .more = page.more, .next = page.next_before, .limit = p.limit, .total = -1 });
    jw_object_end(&w);
    return HANDLED_DONE;
}
