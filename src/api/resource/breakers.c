/* Circuit breakers that are not closed: the rows of the store. Closing one removes its row and tells the node in this
 * process; other nodes read the store again. */
#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "base/json/json.h"

static void breakers_write(struct request *q, struct jw *w, const struct breaker_row *b, const char *state)
{
    const struct catalog_cache *catalog = q->server->setup.catalog;
    struct tenant_rules tenant;
    bool of_tenant = str_eq(b->host, BREAKER_ANY_HOST);
    jw_object(w);
    jw_kv_uuid(w, "id", b->id);
    if (catalog && catalog_cache_tenant(catalog, b->tenant, &q->arena, &tenant))
        jw_kv_str(w, "tenant", tenant.name);
    jw_kv_cstr(w, "scope", of_tenant ? "tenant" : "host");
    if (!of_tenant)
        jw_kv_str(w, "host", b->host);
    jw_kv_cstr(w, "state", state);
    jw_kv_time(w, "opened_at", b->opened_ms);
    jw_kv_time(w, "retry_at", b->until_ms);
    jw_kv_i64(w, "calls", b->calls);
    jw_kv_i64(w, "failures", b->failures);
    jw_kv_i64(w, "reopened", b->reopened);
    jw_kv_str(w, "reason", b->reason);
    jw_object_end(w);
}

static const char *breakers_state_of(const struct breaker_row *b, int64_t now_ms)
{
    return b->until_ms > now_ms ? "OPEN" : "HALF_OPEN";
}

struct breakers_query {
    int64_t limit;
    struct str cursor, host;
    struct uuid before; /* the cursor's */
    int scope;          /* 0: any, else enum breaker_scope */
};

enum handled breakers_list(struct request *q, struct reader *r)
{
    _Static_assert(BREAKER_SCOPE_HOST == 1 && BREAKER_SCOPE_TENANT == 2, "the order of `scopes`, from 1 on");
    static const char *const scopes[] = { "host", "tenant", NULL };
    static const struct query_field fields[] = {
        { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX },
        { .name = "cursor",
          .kind = QUERY_TEXT,
          .offset = offsetof(struct breakers_query, cursor),
          .max = SEAL_TEXT_MAX },
        { .name = "host", .kind = QUERY_TEXT, .offset = offsetof(struct breakers_query, host) },
        { .name = "scope", .kind = QUERY_CHOICE, .offset = offsetof(struct breakers_query, scope), .names = scopes },
    };
    struct breakers_query p = { .limit = LIST_DEFAULT };
    struct breaker_rows rows = { 0 };
    struct error e = { 0 };
    if (query_read(q->query, fields, array_count(fields), &p, &q->arena, &e) ||
        seal_open_id(q, p.cursor, &p.before, &e))
        return request_fail(q, &e);
    size_t limit = (size_t)p.limit;
    struct breaker_filter f = { .tenant = q->who.tenant,
                                .host = p.host,
                                .scope = (enum breaker_scope)p.scope,
                                .before = p.before,
                                .limit = min_of(limit + 1, (size_t)LIST_MAX) }; /* one more: is there a next page? */
    if (reader_breakers(r, &f, &q->arena, &rows, &e))
        return request_fail(q, &e);
    bool more = rows.n > limit || (limit == LIST_MAX && rows.n == LIST_MAX);
    size_t n = min_of(rows.n, limit);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "breakers");
    jw_array(&w);
    for (size_t i = 0; i < n; i++)
        breakers_write(q, &w, &rows.v[i], breakers_state_of(&rows.v[i], q->now_ms));
    jw_array_end(&w);
    struct uuid next = more ? rows.v[n - 1].id : (struct uuid){ 0 };
    pagination_write(q, &w, &(struct pagination){ .more = more, .next = next, .limit = p.limit, .total = -1 });
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- closing ---- */

/* The smallest id above this one: lists go downwards from there. */
static struct uuid breakers_id_above(struct uuid id)
{
    for (size_t i = sizeof id.b; i > 0 && ++id.b[i - 1] == 0; i--)
        ;
    return id;
}

static const char not_open[] =
    "there is no such breaker, or it is closed already; 'GET /v1/breakers' lists the open ones";

static void breakers_on_closed(struct op *op)
{
    struct request *q = request_finish_op(op);
    const struct api_setup *setup = &q->server->setup;
    const struct breaker_row *row = &q->write.breakers.v[0].row;
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_NOT_FOUND)
        request_refuse(q, PROBLEM_NOT_FOUND, not_open);
    else if (op->rc)
        request_fail(q, &op->error);
    else if (setup->breaker_closed)
        setup->breaker_closed(setup->context, row->tenant, row->host);
    request_answer(q);
}

enum handled breakers_close_one(struct request *q, struct reader *r)
{
    struct breaker_rows rows = { 0 };
    struct error e = { 0 };
    struct breaker_filter f = { .tenant = q->who.tenant, .before = breakers_id_above(q->id), .limit = 1 };
    if (!request_check_no_query(q))
        return HANDLED_DONE;
    if (request_check_no_body(q, &e) || reader_breakers(r, &f, &q->arena, &rows, &e))
        return request_fail(q, &e);
    if (rows.n == 0 || !uuid_eq(rows.v[0].id, q->id))
        return request_refuse(q, PROBLEM_NOT_FOUND, not_open);
    struct breaker_change *c = arena_new(&q->arena, struct breaker_change);
    if (!c)
        return request_refuse(q, PROBLEM_INVALID, "the request does not fit in the memory allowed");
    *c = (struct breaker_change){ .row = rows.v[0], .close = true };
    q->object_name = rows.v[0].host;
    struct jw w = respond_json(&q->response, 200);
    breakers_write(q, &w, &rows.v[0], "CLOSED");
    q->write.breakers = (struct op_breakers){
        .op = { .kind = OP_BREAKERS }, .v = c, .n = 1, .must_exist = true, .idempotency = request_record(q)
    };
    return request_submit(q, breakers_on_closed);
}
