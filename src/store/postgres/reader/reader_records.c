/* Reading all but tasks and executions: keys, dead letters by cause, the catalog, slots, lanes and counts. */
#include <assert.h>

#include "store/postgres/reader/reader.h"

/* A statement for pg_row_read: the table's columns begin at the second column. */
#define ROWS(columns, rest) "SELECT 0" columns(SQL_NAME) " FROM " rest

/* ---- keys and slots ---- */

enum err reader_postgres_idempotency(struct reader *base, int32_t tenant, const uint8_t key[32], struct arena *a,
                                     struct idempotency *ret, struct error *e)
{
    static const struct pg_statement by_key = {
        "read_idempotency", ROWS(IDEMPOTENCY_COLUMNS, "idempotency WHERE key = $1 AND tenant_id = $2")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    struct idempotency record = { 0 };
    pg_add_bytes(p, (struct str){ (const char *)key, 32 });
    pg_add_i32(p, tenant);
    if (pg_reader_run_one(r, &by_key, &table_idempotency, a, &record, e))
        return e->code;
    *ret = record;
    return ERR_OK;
}

enum err reader_postgres_key(struct reader *base, struct str id, struct arena *a, struct api_key *ret, struct error *e)
{
    static const struct pg_statement by_id = { "read_key", ROWS(API_KEY_COLUMNS, "api_keys WHERE id = $1") };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct api_key k = { 0 };
    if (!text_is_clean(id))
        return reader_not_found("API key", e);
    pg_add_text(pg_reader_params(r), id);
    if (pg_reader_run_one(r, &by_id, &table_api_keys, a, &k, e))
        return e->code;
    *ret = k;
    return ERR_OK;
}

enum err reader_postgres_keys(struct reader *base, int32_t tenant, struct arena *a, struct key_list *ret,
                              struct error *e)
{
    static const struct pg_statement of_tenant = {
        "read_keys", ROWS(API_KEY_COLUMNS, "api_keys WHERE tenant_id = $1 AND expires_ms >= 0 AND parent IS NULL "
                                           "ORDER BY id LIMIT $2")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_i64(p, LIST_MAX);
    if (pg_reader_run(r, false, &of_tenant, &got, e))
        return e->code;
    struct key_list keys = { arena_array(a, struct api_key, (size_t)got.rows), (size_t)got.rows };
    if (!keys.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_api_keys, a, &keys.v[i], e))
            return e->code;
    *ret = keys;
    return ERR_OK;
}

enum err reader_postgres_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                                struct error *e)
{
    static const struct pg_statement holder = { "read_dedupe",
                                                "SELECT d.task_id FROM dedupe AS d JOIN tasks AS t ON t.id = d.task_id "
                                                "WHERE d.tenant_id = $1 AND d.key = $2 AND d.until_ms > $3 "
                                                "AND NOT t.deleted" };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_text(p, key);
    pg_add_i64(p, now_ms);
    if (text_is_clean(key) && pg_reader_run(r, false, &holder, &got, e))
        return e->code;
    if (got.rows == 0)
        return reader_not_found("task", e);
    *ret = pg_uuid(&got, 0, 0);
    return ERR_OK;
}

enum err reader_postgres_slots(struct reader *base, struct str key, struct arena *a, struct slot_holders *ret,
                               struct error *e)
{
    static const struct pg_statement holders_of = {
        "read_slots", "SELECT t.id, t.state, t.scheduled_ms FROM slots AS s JOIN tasks AS t ON t.id = s.task_id "
                      "WHERE s.key = $1 ORDER BY t.scheduled_ms, t.id LIMIT $2"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_text(p, key);
    pg_add_i64(p, LIST_MAX);
    if (text_is_clean(key) && pg_reader_run(r, false, &holders_of, &got, e))
        return e->code;
    struct slot_holders holders = { arena_array(a, struct slot_holder, (size_t)got.rows), (size_t)got.rows };
    if (!holders.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        holders.v[i] =
            (struct slot_holder){ pg_uuid(&got, i, 0), (enum task_state)pg_i64(&got, i, 1), pg_i64(&got, i, 2) };
    *ret = holders;
    return ERR_OK;
}

/* ---- dead letters by cause ---- */

#define DEAD "failed_ms IS NOT NULL AND resolved_ms = 0 AND NOT deleted AND tenant_id = $1"
#define COUNTED(cause_is)                                                                                              \
    "(SELECT count(*) AS n, min(failed_ms) AS first, max(failed_ms) AS last, "                                         \
    "(array_agg(id ORDER BY failed_ms DESC, id DESC))[1] AS latest FROM (SELECT id, failed_ms FROM tasks "             \
    "WHERE " DEAD " AND " cause_is " ORDER BY id DESC LIMIT 10000) AS t) AS x"
static_assert(COUNT_SLOW_MAX == 10000, "COUNTED says the same");

/* Steps from cause to cause in the index, beginning with NULL: no cause. After a million dead letters the rest is not
 * counted. */
/* clang-format off */
static const struct pg_statement causes_of = {
    "read_causes",
    "WITH RECURSIVE g AS (SELECT NULL::text COLLATE \"C\" AS cause, x.n, x.first, x.last, x.latest, x.n AS looked FROM "
    COUNTED("cause IS NULL")
    " UNION ALL SELECT c.cause, x.n, x.first, x.last, x.latest, g.looked + x.n FROM g, LATERAL (SELECT cause FROM tasks WHERE "
    DEAD " AND cause > coalesce(g.cause, '') ORDER BY cause LIMIT 1) AS c, LATERAL " COUNTED("cause = c.cause")
    " WHERE g.looked < 1000000) "
    "SELECT top.cause, top.n, top.first, top.last, top.latest, t.last_error "
    "FROM (SELECT * FROM g WHERE n > 0 ORDER BY n DESC, cause NULLS FIRST LIMIT $2) AS top, "
    "LATERAL (SELECT last_error FROM tasks WHERE id = top.latest LIMIT 1) AS t "
    "ORDER BY top.n DESC, top.cause NULLS FIRST"
};
/* clang-format on */

enum err reader_postgres_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                                struct cause_groups *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_i64(p, (int64_t)max);
    if (pg_reader_run(r, false, &causes_of, &got, e))
        return e->code;
    struct cause_groups groups = { arena_array(a, struct cause_group, (size_t)got.rows), (size_t)got.rows };
    if (!groups.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        struct cause_group *g = &groups.v[i];
        *g = (struct cause_group){ .count = pg_i64(&got, i, 1),
                                   .first_failed_ms = pg_i64(&got, i, 2),
                                   .last_failed_ms = pg_i64(&got, i, 3),
                                   .latest = pg_uuid(&got, i, 4) };
        if (!arena_str(a, pg_text(&got, i, 0), &g->cause) || !arena_str(a, pg_text(&got, i, 5), &g->last_error))
            return reader_no_room(e);
    }
    *ret = groups;
    return ERR_OK;
}

/* ---- names of tasks ---- */

#define NAMED "tenant_id = $1 AND kind <> 2"
static_assert(TASK_OCCURRENCE == 2, "statements name it by number");

/* Jumps from name to name in the index, so that tasks of the same name cost nothing. */
static const struct pg_statement names_of = {
    "read_names",
    "WITH RECURSIVE n AS ((SELECT name FROM tasks WHERE " NAMED " AND name >= $2 ORDER BY name LIMIT 1) UNION ALL "
    "SELECT next.name FROM n, LATERAL (SELECT name FROM tasks WHERE " NAMED " AND name > n.name ORDER BY name LIMIT 1) "
    "AS next WHERE starts_with(n.name, $2)) SELECT n.name, ids[1], ids[2] IS NULL FROM n, LATERAL (SELECT ARRAY(SELECT "
    "id FROM tasks WHERE " NAMED " AND name = n.name AND NOT deleted ORDER BY id DESC LIMIT 2) AS ids) AS t "
    "WHERE starts_with(n.name, $2) AND n.name <> '' AND ids[1] IS NOT NULL LIMIT $3"
};

enum err reader_postgres_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                               struct task_names *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_text(p, prefix);
    pg_add_i64(p, (int64_t)max);
    if (text_is_clean(prefix) && pg_reader_run(r, true, &names_of, &got, e))
        return e->code;
    struct task_names names = { arena_array(a, struct task_name, (size_t)got.rows), (size_t)got.rows };
    if (!names.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        names.v[i] = (struct task_name){ .newest = pg_uuid(&got, i, 1), .is_only = pg_bool(&got, i, 2) };
        if (!arena_str(a, pg_text(&got, i, 0), &names.v[i].name))
            return reader_no_room(e);
    }
    *ret = names;
    return ERR_OK;
}

/* ---- the catalog ---- */

enum err reader_postgres_catalog_get(struct reader *base, int32_t tenant, enum catalog_kind kind, struct str name,
                                     struct arena *a, struct catalog_entry *ret, struct error *e)
{
    static const struct pg_statement entry = {
        "read_catalog", ROWS(CATALOG_COLUMNS, "catalog WHERE kind = $1 AND tenant_id = $2 AND name = $3")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    struct catalog_entry x = { 0 };
    if (!text_is_clean(name))
        return reader_not_found("catalog entry", e);
    pg_add_i32(p, (int32_t)kind);
    pg_add_i32(p, tenant);
    pg_add_text(p, name);
    if (pg_reader_run_one(r, &entry, &table_catalog, a, &x, e))
        return e->code;
    *ret = x;
    return ERR_OK;
}

enum err reader_postgres_catalog_list(struct reader *base, const struct catalog_filter *f, struct arena *a,
                                      struct catalog_page *ret, struct error *e)
{
    static const struct pg_statement
        of_tenant = { "read_catalog_list",
                      ROWS(CATALOG_COLUMNS,
                           "catalog WHERE kind = $1 AND tenant_id = $2 AND name > $3 ORDER BY name LIMIT $4") },
        of_all = { "read_catalog_list_all",
                   ROWS(CATALOG_COLUMNS,
                        "catalog WHERE kind = $1 AND (tenant_id, name) > ($2, $3) ORDER BY tenant_id, name LIMIT $4") },
        unfinished = { "read_catalog_unfinished", /* matches the index catalog_unfinished */
                       ROWS(CATALOG_COLUMNS,
                            "catalog WHERE kind = $1 AND kind = 4 AND doc ~ '\"state\"\\s*:\\s*\"RUNNING\"' "
                            "AND (tenant_id, name) > ($2, $3) ORDER BY tenant_id, name LIMIT $4") };
    const struct pg_statement *list = f->unfinished ? &unfinished : f->all_tenants ? &of_all : &of_tenant;
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, (int32_t)f->kind);
    pg_add_i32(p, !f->all_tenants ? f->tenant : f->after.n ? f->after_tenant : -1);
    pg_add_text(p, f->after);
    pg_add_i64(p, (int64_t)f->limit + 1);
    if (text_is_clean(f->after) && pg_reader_run(r, false, list, &got, e))
        return e->code;
    struct catalog_page page = { .more = (size_t)got.rows > f->limit };
    page.entries.n = min_of((size_t)got.rows, f->limit);
    page.entries.v = arena_array(a, struct catalog_entry, page.entries.n);
    if (!page.entries.v)
        return reader_no_room(e);
    for (size_t i = 0; i < page.entries.n; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, (int)i, 1, &table_catalog, a, &page.entries.v[i], e))
            return e->code;
    *ret = page;
    return ERR_OK;
}

/* ---- lanes and counts ---- */

static_assert(POOL_DISPATCHED == 0 && POOL_LEASED == 1 && POOL_SUSPECT == 2 && POOL_LATE == 5 && POOL_LATE_SUSPECT == 6,
              "the next ones name them by number");

/* Suspects have lanes of their own in the table, but the caller sees one lane for both. */
enum err reader_postgres_queues(struct reader *base, int32_t tenant, struct arena *a, struct used_queues *ret,
                                struct error *e)
{
    static const struct pg_statement queues = {
        "read_queues", "SELECT DISTINCT queue FROM lanes WHERE tenant_id = $1 AND queue <> ''"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(pg_reader_params(r), tenant);
    if (pg_reader_run(r, true, &queues, &got, e))
        return e->code;
    struct used_queues names = { arena_array(a, struct str, (size_t)got.rows), (size_t)got.rows };
    if (!names.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (!arena_str(a, pg_text(&got, i, 0), &names.v[i]))
            return reader_no_room(e);
    *ret = names;
    return ERR_OK;
}

enum err reader_postgres_lanes(struct reader *base, struct arena *a, struct lane **ret, size_t *ret_count,
                               struct error *e)
{
    static const struct pg_statement shown = { "read_lanes", "SELECT DISTINCT " PG_LANE_COLUMNS
                                                             ", pool > 2 FROM lanes WHERE pool IN (0, 2, 5, 6)" };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    (void)pg_reader_params(r);
    if (pg_reader_run(r, false, &shown, &got, e))
        return e->code;
    struct lane *v = arena_array(a, struct lane, (size_t)got.rows);
    if (!v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        struct lane *lane = &v[i];
        *lane = pg_read_lane(&got, i, 0);
        lane->late = pg_bool(&got, i, PG_LANE_COLUMN_COUNT);
        if (!arena_str(a, lane->queue, &lane->queue) || !arena_str(a, lane->requires, &lane->requires) ||
            !arena_str(a, lane->host, &lane->host))
            return reader_no_room(e);
    }
    *ret = v;
    *ret_count = (size_t)got.rows;
    return ERR_OK;
}

/* Counts lane by lane, because the index begins with the lane. $1 is now_ms. */
#define DUE_IN(lanes_where)                                                                                            \
    "SELECT count(*) FROM (SELECT 1 FROM lanes AS l, LATERAL (SELECT 1 FROM tasks AS t WHERE t.state = " SQL_SCHEDULED \
    " AND t.kind <> 1 AND t.lane = l.lane AND t.due_ms <= $1 AND NOT t.deleted LIMIT 10000) AS t" lanes_where          \
    " LIMIT 10000) AS t"

enum err reader_postgres_counts(struct reader *base, int64_t now_ms, struct store_counts *ret, struct error *e)
{
    static const struct pg_statement counted = {
        "read_counts", "SELECT state, sum(n)::bigint FROM counts GROUP BY state UNION ALL SELECT -1, (" DUE_IN("") ")"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct store_counts c = { 0 };
    pg_add_i64(pg_reader_params(r), now_ms);
    if (pg_reader_run(r, true, &counted, &got, e))
        return e->code;
    for (int i = 0; i < got.rows; i++) {
        int64_t state = pg_i64(&got, i, 0), n = pg_i64(&got, i, 1);
        if (state < 0)
            c.due = n;
        else if (state <= TASK_EXPIRED)
            c.by_state[state] = n;
    }
    *ret = c;
    return ERR_OK;
}

enum err reader_postgres_queue_due(struct reader *base, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                                   struct error *e)
{
    static const struct pg_statement due = {
        "read_queue_due", DUE_IN(" WHERE l.pool IN (0, 1, 5) AND l.tenant_id = $2 AND l.queue = $3")
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i64(p, now_ms);
    pg_add_i32(p, tenant);
    pg_add_text(p, queue);
    if (text_is_clean(queue) && pg_reader_run(r, true, &due, &got, e))
        return e->code;
    *ret = got.rows ? pg_i64(&got, 0, 0) : 0;
    return ERR_OK;
}

enum err reader_postgres_backlog(struct reader *base, int64_t now_ms, struct arena *a, struct backlog_rows *ret,
                                 struct error *e)
{
    static const struct pg_statement counted = {
        "read_backlog",
        "SELECT l.tenant_id, l.queue, l.priority, sum(t.due)::bigint, t.part FROM lanes AS l, LATERAL (SELECT t.part, "
        "count(*) AS due FROM tasks AS t WHERE t.state = " SQL_SCHEDULED
        " AND t.kind <> 1 AND t.lane = l.lane AND t.due_ms <= $1 AND NOT t.deleted GROUP BY t.part) AS t "
        "WHERE l.pool IN (0, 1, 5) GROUP BY GROUPING SETS ((l.lane, l.tenant_id, l.queue, l.priority), (t.part))"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i64(pg_reader_params(r), now_ms);
    if (pg_reader_run(r, true, &counted, &got, e))
        return e->code;
    struct backlog_rows rows = { .v = arena_array(a, struct backlog_row, (size_t)got.rows) };
    for (int i = 0; i < got.rows; i++) {
        if (!rows.v)
            return reader_no_room(e);
        if (!pg_is_null(&got, i, 4)) { /* of a partition; else of a lane */
            rows.by_partition[pg_i64(&got, i, 4) % PARTITIONS] = pg_i64(&got, i, 3);
            continue;
        }
        struct backlog_row *row = &rows.v[rows.n++];
        *row = (struct backlog_row){ .tenant = (int32_t)pg_i64(&got, i, 0),
                                     .priority = (int)pg_i64(&got, i, 2),
                                     .due = pg_i64(&got, i, 3) };
        if (!arena_str(a, pg_text(&got, i, 1), &row->queue))
            return reader_no_room(e);
    }
    *ret = rows;
    return ERR_OK;
}

enum err reader_postgres_usage(struct reader *base, int32_t tenant, struct tenant_usage *ret, struct error *e)
{
    static const struct pg_statement used = {
        "read_usage", "SELECT (SELECT sum(n)::bigint FROM counts WHERE tenant_id = $1 AND state <= " SQL_RUNNING
                      "), (SELECT count(*) "
                      "FROM tasks WHERE kind = 1 AND state < " SQL_RUNNING " AND NOT deleted AND tenant_id = $1)"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(pg_reader_params(r), tenant);
    if (pg_reader_run(r, false, &used, &got, e))
        return e->code;
    *ret = (struct tenant_usage){ pg_i64(&got, 0, 0), pg_i64(&got, 0, 1) };
    return ERR_OK;
}

/* $1 ids of recurring tasks, $2 for each: unstarted_from, $3 now_ms. */
static const struct pg_statement read_unstarted = {
    "read_unstarted",
    "SELECT (SELECT count(*) FROM tasks WHERE parent_id = k.id AND state < " SQL_RUNNING " AND " UNSTARTED
    ") + (SELECT count(*) FROM tasks AS t WHERE t.parent_id = k.id AND t.id >= k.least AND state = " SQL_RUNNING
    " AND due_ms > $3 AND " UNSTARTED ") FROM unnest($1, $2) WITH ORDINALITY AS k(id, least, place) ORDER BY k.place",
};

static size_t pg_unstarted_add(struct pg_params *p, const struct task *v, size_t n, int64_t now_ms)
{
    size_t recurring = 0;
    for (int column = 0; column < 2; column++) {
        recurring = 0;
        pg_array(p, PG_UUID);
        for (size_t i = 0; i < n; i++) {
            if (v[i].kind != TASK_RECURRING)
                continue;
            pg_element_uuid(p, column ? unstarted_from(&v[i], now_ms) : v[i].id);
            recurring++;
        }
        pg_array_end(p);
    }
    pg_add_i64(p, now_ms);
    return recurring;
}

enum err reader_postgres_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    if (!pg_unstarted_add(pg_reader_params(r), v, n, now_ms))
        return ERR_OK;
    if (pg_reader_run(r, false, &read_unstarted, &got, e))
        return e->code;
    for (size_t i = 0, row = 0; i < n; i++)
        if (v[i].kind == TASK_RECURRING)
            v[i].unstarted_count = pg_i64(&got, (int)row++, 0);
    return ERR_OK;
}

enum err reader_postgres_clock(struct reader *base, int64_t *ret_us, struct error *e)
{
    static const struct pg_statement now = { "read_clock", "SELECT " CLOCK_US };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    (void)pg_reader_params(r);
    if (pg_reader_run(r, false, &now, &got, e))
        return e->code;
    *ret_us = pg_i64(&got, 0, 0);
    return ERR_OK;
}

/* ---- audit rows ---- */

/* Where the reading of a page ends at the latest; found is false if there are not so many rows. */
static enum err reader_postgres_audit_scanned(struct pg_reader *r, struct audit_range *range, bool *ret_found,
                                              struct error *e)
{
    static const struct pg_statement scanned = {
        "read_audit_scanned", "SELECT id FROM audit WHERE id < $1 AND id >= $2 ORDER BY id DESC LIMIT 1 OFFSET $3"
    };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_uuid(pg_reader_params(r), range->below);
    pg_add_uuid(&r->params, range->lowest);
    pg_add_i64(&r->params, AUDIT_SCAN_MAX - 1);
    if (pg_reader_run(r, false, &scanned, &got, e))
        return e->code;
    *ret_found = got.rows > 0;
    if (*ret_found)
        range->lowest = pg_uuid(&got, 0, 0);
    return ERR_OK;
}

static void reader_postgres_add_audit(struct pg_reader *r, const struct audit_filter *f,
                                      const struct audit_range *range)
{
    pg_add_uuid(pg_reader_params(r), range->below);
    pg_add_uuid(&r->params, range->lowest);
    pg_add_i32(&r->params, f->tenant);
    pg_add_text(&r->params, f->actor);
    pg_add_text(&r->params, f->object);
    pg_add_text(&r->params, range->action);
    pg_add_i32(&r->params, range->is_prefix);
    pg_add_i64(&r->params, (int64_t)f->limit + 1);
}

enum err reader_postgres_audit(struct reader *base, const struct audit_filter *f, struct arena *a,
                               struct audit_page *ret, struct error *e)
{
    static const struct pg_statement rows = {
        "read_audit",
        "SELECT 0" AUDIT_COLUMNS(SQL_NAME) " FROM audit WHERE id < $1 AND id >= $2 AND ($3 = 0 OR tenant_id = $3) "
                                           "AND ($4 = '' OR actor = $4) AND ($5 = '' OR object = $5) AND ($6 = '' OR "
                                           "action = $6 OR ($7 = 1 AND left(action, length($6)) = $6)) "
                                           "ORDER BY id DESC LIMIT $8"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct audit_range range = audit_range_of(f);
    struct audit_page page = { 0 };
    e = pg_reader_error(base, e);
    if (reader_postgres_audit_scanned(r, &range, &page.more, e))
        return e->code;
    reader_postgres_add_audit(r, f, &range);
    if (pg_reader_run(r, false, &rows, &got, e))
        return e->code;
    bool over = (size_t)got.rows > f->limit;
    page.n = over ? f->limit : (size_t)got.rows;
    page.v = arena_array(a, struct audit, page.n);
    if (!page.v)
        return reader_no_room(e);
    for (size_t i = 0; i < page.n; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, (int)i, 1, &table_audit, a, &page.v[i], e))
            return e->code;
    page.more = page.more || over;
    page.next_before = over ? page.v[page.n - 1].id : range.lowest;
    *ret = page;
    return ERR_OK;
}

enum err reader_postgres_sealed(struct reader *base, struct str key_id, bool *ret, struct error *e)
{
    static const struct pg_statement sealed = {
        "read_sealed", "SELECT 1 FROM tasks WHERE strpos(target_config, '\"enc:1:' || $1) > 0 UNION ALL "
                       "SELECT 1 FROM definitions WHERE strpos(text, '\"enc:1:' || $1) > 0 UNION ALL "
                       "SELECT 1 FROM catalog WHERE strpos(doc, '\"enc:1:' || $1) > 0 LIMIT 1"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    pg_add_text(pg_reader_params(r), key_id);
    if (pg_reader_run(r, false, &sealed, &got, e))
        return e->code;
    *ret = got.rows > 0;
    return ERR_OK;
}

static struct task reader_postgres_sealed_task(const struct pg_result *r, int row)
{
    enum { ID, TENANT, KIND, PARENT, STATE, CONFIG };
    return (struct task){
        .id = pg_uuid(r, row, ID),
        .tenant = (int32_t)pg_i64(r, row, TENANT),
        .kind = (enum task_kind)pg_i64(r, row, KIND),
        .parent = pg_uuid(r, row, PARENT),
        .state = (enum task_state)pg_i64(r, row, STATE),
        .target_config = pg_text(r, row, CONFIG),
    };
}

enum err reader_postgres_sealed_page(struct reader *base, struct str key_id, struct uuid after, size_t max,
                                     struct arena *a, struct sealed_page *ret, struct error *e)
{
    static const struct pg_statement next = {
        "read_sealed_page",
        "SELECT id, tenant_id, kind, parent_id, state, CASE WHEN strpos(replace(target_config, '\"enc:1:' || $1 || "
        "':', ''), '\"enc:1:') > 0 THEN target_config END FROM tasks WHERE id > "
        "coalesce($2, uuid '00000000-0000-0000-0000-000000000000') ORDER BY id LIMIT $3"
    };
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct sealed_page page = { .tasks.v = arena_array(a, struct task, max) };
    e = pg_reader_error(base, e);
    if (!page.tasks.v)
        return reader_no_room(e);
    pg_add_text(pg_reader_params(r), key_id);
    pg_add_uuid(&r->params, after);
    pg_add_i64(&r->params, (int64_t)max);
    enum err rc = pg_reader_run(r, false, &next, &got, e);
    bool has_room = true;
    for (int i = 0; !rc && has_room && i < got.rows; i++) {
        struct task t = reader_postgres_sealed_task(&got, i);
        rc = sealed_page_add(&page, &t, (size_t)i, max, a, &has_room, e);
    }
    if (!rc)
        *ret = page;
    return rc;
}

enum err reader_postgres_key_prints(struct reader *base, struct key_prints *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    (void)pg_reader_params(r);
    return pg_reader_run(r, false, &pg_cluster_keys, &got, e) ? e->code : pg_cluster_key_prints(&got, ret, e);
}

/* ---- what ran, over all tasks ---- */

/* Rows are found by slices of time, whose blocks a BRIN index knows. A slice with more than HISTORY_ROWS rows is made
 * shorter first, so that no read visits many more than it needs. */
enum { HISTORY_ROWS = 20000, HISTORY_SHORTEST_US = 1000, HISTORY_FIRST_US = 10000000 };

struct history_slice {
    int64_t from_us, to_us, width_us;
    int64_t skip; /* rows that ended in the last microsecond of the slice and were on the page before */
    int64_t visited;
};

/* The session walks indexes by id and allows no bitmaps; BRIN has nothing else. A pooler's sessions stay as they
 * are. */
static enum err pg_history_allow_bitmaps(struct pg_reader *r, bool may_lag, struct str on, struct error *e)
{
    static const struct pg_statement allow = { "allow_bitmaps", "SELECT set_config('enable_bitmapscan', $1, false)" };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    if (!r->current.conn.prepare)
        return ERR_OK;
    pg_add_text(pg_reader_params(r), on);
    return pg_reader_run(r, may_lag, &allow, &got, e);
}

/* An attempt has begun before it ends: later partitions need not be read. */
#define HISTORY_SLICE_ROWS "FROM executions WHERE completed_us >= $1 AND completed_us < $2 AND id < $3 "

static void pg_history_add_slice(struct pg_reader *r, const struct history_slice *s)
{
    pg_add_i64(pg_reader_params(r), s->from_us);
    pg_add_i64(&r->params, s->to_us);
    pg_add_uuid(&r->params, uuid_floor(s->to_us / 1000 + 1));
}

static enum err pg_history_count(struct pg_reader *r, bool may_lag, const struct history_slice *s, int64_t *ret,
                                 struct error *e)
{
    static const struct pg_statement count = { "count_history",
                                               "SELECT count(*) FROM (SELECT 1 " HISTORY_SLICE_ROWS "LIMIT $4) AS x" };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_history_add_slice(r, s);
    pg_add_i64(&r->params, HISTORY_ROWS + 1);
    if (pg_reader_run(r, may_lag, &count, &got, e))
        return e->code;
    *ret = pg_i64(&got, 0, 0);
    return ERR_OK;
}

/* Chooses the beginning of the slice that ends at to_us. */
static enum err pg_history_choose(struct pg_reader *r, const struct history_filter *f, struct history_slice *s,
                                  struct error *e)
{
    for (int64_t rows = 0;;) {
        s->from_us = max_of(f->from_us, s->to_us - s->width_us);
        if (pg_history_count(r, f->may_lag, s, &rows, e))
            return e->code;
        bool too_many = rows > HISTORY_ROWS && s->width_us > HISTORY_SHORTEST_US;
        if (too_many) {
            s->width_us /= 4;
            continue;
        }
        s->visited += rows;
        if (rows < HISTORY_ROWS / 8 && s->width_us < INT64_MAX / 8)
            s->width_us *= 4;
        return ERR_OK;
    }
}

static enum err pg_history_read_row(struct pg_reader *r, const struct pg_result *got, int i, struct arena *a,
                                    struct history_row *ret, struct error *e)
{
    int after = 1 + table_executions.count;
    *ret = (struct history_row){ 0 };
    if (!arena_str(a, pg_text(got, i, after), &ret->name) || !arena_str(a, pg_text(got, i, after + 1), &ret->queue))
        return reader_no_room(e);
    return pg_row_read(r->last_conn, &r->lanes, got, i, 1, &table_executions, a, &ret->execution, e);
}

/* Adds the rows of the slice that match to the page. *ret_over: there are more than the page takes. */
static enum err pg_history_read_slice(struct pg_reader *r, const struct history_filter *f,
                                      const struct history_slice *s, struct arena *a, struct history_page *page,
                                      bool *ret_over, struct error *e)
{
    static const struct pg_statement rows = {
        "read_history",
        "SELECT 0" EXECUTION_COLUMNS(
            SQL_NAME) ", task_name, task_queue FROM (SELECT x.*, t.name AS task_name, "
                      "coalesce(t.queue, l.queue) AS task_queue FROM (SELECT * " HISTORY_SLICE_ROWS
                      "AND tenant_id = $4 AND ($5 = 0 OR ($5 >> status) & 1 = 1) "
                      "AND ($6 = '' OR worker = $6) AND ($10 = '' OR error = $10)) AS x LEFT JOIN tasks AS t "
                      "ON t.id = coalesce(x.occurrence_id, x.task_id) "
                      "LEFT JOIN lanes AS l ON l.lane = t.lane) AS x "
                      "WHERE ($7 = '' OR task_queue = $7) "
                      "ORDER BY completed_us DESC, id DESC OFFSET $8 LIMIT $9"
    };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    size_t room = f->limit - page->n;
    pg_history_add_slice(r, s);
    pg_add_i32(&r->params, f->tenant);
    pg_add_i32(&r->params, (int32_t)f->statuses);
    pg_add_text(&r->params, f->worker);
    pg_add_text(&r->params, f->queue);
    pg_add_i64(&r->params, s->skip);
    pg_add_i64(&r->params, (int64_t)room + 1);
    pg_add_text(&r->params, f->error);
    if (pg_reader_run(r, f->may_lag, &rows, &got, e))
        return e->code;
    *ret_over = (size_t)got.rows > room;
    for (int i = 0; i < got.rows && (size_t)i < room; i++)
        if (pg_history_read_row(r, &got, i, a, &page->v[page->n++], e))
            return e->code;
    return ERR_OK;
}

/* The place behind the last row of a full page. */
static struct uuid pg_history_place(const struct history_page *page, const struct history_slice *s)
{
    int64_t us = page->v[page->n - 1].execution.completed_us, same = 0;
    while ((size_t)same < page->n && page->v[page->n - 1 - (size_t)same].execution.completed_us == us)
        same++;
    return reader_place(us + 1, same + (us + 1 == s->to_us ? s->skip : 0));
}

static enum err pg_history_read(struct pg_reader *r, const struct history_filter *f, struct arena *a,
                                struct history_page *page, struct error *e)
{
    struct history_slice s = { .to_us = f->to_us, .width_us = HISTORY_FIRST_US };
    if (!uuid_is_nil(f->before))
        reader_place_read(f->before, &s.to_us, &s.skip);
    while (s.to_us > f->from_us && s.visited < LIST_VISIT_MAX) {
        bool over = false;
        if (pg_history_choose(r, f, &s, e) || pg_history_read_slice(r, f, &s, a, page, &over, e))
            return e->code;
        if (over) {
            page->more = true;
            page->next_before = pg_history_place(page, &s);
            return ERR_OK;
        }
        s.to_us = s.from_us;
        s.skip = 0;
    }
    page->more = s.to_us > f->from_us;
    page->next_before = reader_place(s.to_us, 0);
    return ERR_OK;
}

enum err reader_postgres_history(struct reader *base, const struct history_filter *f, struct arena *a,
                                 struct history_page *ret, struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    struct history_page page = { .v = arena_array(a, struct history_row, f->limit) };
    struct error ignored;
    e = pg_reader_error(base, e);
    if (!page.v)
        return reader_no_room(e);
    if (pg_history_allow_bitmaps(r, f->may_lag, S("on"), e))
        return e->code;
    bool may_match = text_is_clean(f->worker) && text_is_clean(f->queue) && text_is_clean(f->error);
    enum err rc = may_match ? pg_history_read(r, f, a, &page, e) : ERR_OK;
    (void)pg_history_allow_bitmaps(r, f->may_lag, S("off"), &ignored);
    if (!rc)
        *ret = page;
    return rc;
}
