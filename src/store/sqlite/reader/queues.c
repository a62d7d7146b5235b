/* Queues and what waits in them: lanes, counts, the backlog, and the holders of slots. */
#include "store/sqlite/reader/reader.h"

enum { DUE_MAX = COUNT_SLOW_MAX };

/* ---- slots ---- */

enum err reader_sqlite_slots(struct reader *base, struct str key, struct arena *a, struct slot_holders *ret,
                             struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_SLOTS);
    struct slot_holder found[LIST_MAX];
    struct slot_holders holders = { 0 };
    (void)bind_str(st, 1, key);
    sqlite3_bind_int(st, 2, LIST_MAX);
    for (bool row;;) {
        if (conn_step(c, st, &row, e))
            return e->code;
        if (!row)
            break;
        found[holders.n++] = (struct slot_holder){ row_uuid(st, 0), (enum task_state)sqlite3_column_int(st, 1),
                                                   sqlite3_column_int64(st, 2) };
    }
    holders.v = arena_alloc(a, holders.n * sizeof *holders.v);
    if (!holders.v)
        return reader_no_room(e);
    memcpy(holders.v, found, holders.n * sizeof *holders.v);
    *ret = holders;
    return ERR_OK;
}

/* ---- lanes and counts ---- */

enum err reader_sqlite_lanes(struct reader *base, struct arena *a, struct lane **ret, size_t *ret_count,
                             struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    if (lanes_load(c, e))
        return e->code;
    return store_lanes_list(&c->lanes, a, ret, ret_count) ? ERR_OK : reader_no_room(e);
}

enum err reader_sqlite_queues(struct reader *base, int32_t tenant, struct arena *a, struct used_queues *ret,
                              struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    if (lanes_load(c, e))
        return e->code;
    return store_lanes_queues(&c->lanes, tenant, a, ret) ? ERR_OK : reader_no_room(e);
}

static enum err reader_sqlite_count_states(struct conn *c, struct store_counts *ret, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_COUNTS);
    for (bool row;;) {
        if (conn_step(c, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        int state = sqlite3_column_int(st, 0);
        if (state >= 0 && state <= TASK_EXPIRED)
            ret->by_state[state] = sqlite3_column_int64(st, 1);
    }
}

static enum err reader_sqlite_count_due(struct conn *c, int64_t lane, int64_t now_ms, int64_t max, int64_t *total,
                                        struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_DUE);
    bool row;
    sqlite3_bind_int64(st, 1, lane);
    sqlite3_bind_int64(st, 2, now_ms);
    sqlite3_bind_int64(st, 3, max);
    if (conn_step(c, st, &row, e))
        return e->code;
    *total += sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err reader_sqlite_counts(struct reader *base, int64_t now_ms, struct store_counts *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    struct store_counts counted = { 0 };
    if (reader_sqlite_count_states(c, &counted, e) || lanes_load(c, e))
        return e->code;
    for (size_t i = 0; i < c->lanes.top && counted.due < DUE_MAX; i++)
        if (reader_sqlite_count_due(c, c->lanes.by_number[i]->number, now_ms, DUE_MAX - counted.due, &counted.due, e))
            return e->code;
    *ret = counted;
    return ERR_OK;
}

static bool reader_sqlite_is_claimable(const struct lane_row *l)
{
    return l->pool == POOL_DISPATCHED || l->pool == POOL_LEASED || l->pool == POOL_LATE;
}

enum err reader_sqlite_backlog(struct reader *base, int64_t now_ms, struct arena *a, struct backlog_rows *ret,
                               struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    if (lanes_load(c, e))
        return e->code;
    struct backlog_rows rows = { .v = arena_array(a, struct backlog_row, c->lanes.top) };
    if (!rows.v)
        return reader_no_room(e);
    for (size_t i = 0; i < c->lanes.top; i++) {
        const struct lane_row *l = c->lanes.by_number[i];
        struct backlog_row row = { .tenant = l->lane.tenant, .priority = l->lane.priority };
        if (!reader_sqlite_is_claimable(l))
            continue;
        if (reader_sqlite_count_due(c, l->number, now_ms, INT64_MAX, &row.due, e))
            return e->code;
        if (row.due && !arena_str(a, l->lane.queue, &row.queue))
            return reader_no_room(e);
        if (row.due)
            rows.v[rows.n++] = row;
        rows.by_partition[0] += row.due;
    }
    *ret = rows;
    return ERR_OK;
}

enum err reader_sqlite_queue_due(struct reader *base, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                                 struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    int64_t due = 0;
    if (lanes_load(c, e))
        return e->code;
    for (size_t i = 0; i < c->lanes.top && due < DUE_MAX; i++) {
        const struct lane_row *l = c->lanes.by_number[i];
        bool is_its = reader_sqlite_is_claimable(l) && l->lane.tenant == tenant && str_eq(l->lane.queue, queue);
        if (is_its && reader_sqlite_count_due(c, l->number, now_ms, DUE_MAX - due, &due, e))
            return e->code;
    }
    *ret = due;
    return ERR_OK;
}
