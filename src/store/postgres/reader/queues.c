/* Queues and what waits in them: lanes, counts, the backlog, and the holders of slots. */
#include <assert.h>

#include "store/postgres/reader/reader.h"

/* ---- slots ---- */

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
