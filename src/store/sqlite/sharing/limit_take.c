/* OP_LIMIT_TAKE: reads each limit, computes the node's share (store/common/limit_share.h), and writes it back if it
 * changed. */
#include "store/common/limit_share.h"
#include "store/sqlite/internal.h"

static enum err sqlite_limit_read_bucket(struct store_sqlite *s, struct str key, struct bucket *ret, bool *ret_found,
                                         struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SHARE);
    (void)bind_str(st, 1, key);
    if (conn_step(&s->conn, st, ret_found, e))
        return e->code;
    if (*ret_found)
        *ret = (struct bucket){
            .rate = sqlite3_column_double(st, 0),
            .burst = sqlite3_column_int64(st, 1),
            .level = sqlite3_column_double(st, 2),
            .since_ms = sqlite3_column_int64(st, 3),
            .taken = sqlite3_column_int64(st, 4),
            .seen_ms = sqlite3_column_int64(st, 5),
        };
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_limit_write_bucket(struct store_sqlite *s, struct str key, const struct bucket *b,
                                          struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SHARE_PUT);
    (void)bind_str(st, 1, key);
    sqlite3_bind_double(st, 2, b->rate);
    sqlite3_bind_int64(st, 3, b->burst);
    sqlite3_bind_double(st, 4, b->level);
    sqlite3_bind_int64(st, 5, b->since_ms);
    sqlite3_bind_int64(st, 6, b->taken);
    sqlite3_bind_int64(st, 7, b->seen_ms);
    return conn_run(&s->conn, st, e);
}

/* The places of a node that is not alive count as far as tasks that it claimed still run. */
static enum err sqlite_limit_read_node_places(struct store_sqlite *s, const struct share *share, struct uuid node,
                                              int64_t places, int64_t *ret, struct error *e)
{
    struct share_subject about = share_subject(share->key);
    bool known, dead;
    *ret = places;
    if (sqlite_node_find(s, &node, &known, &dead, e))
        return e->code;
    return known && !dead ? ERR_OK : sqlite_count_claimed(s, &node, &about, places, ret, e);
}

static enum err sqlite_limit_read_places(struct store_sqlite *s, const struct share *share, struct uuid node,
                                         struct share_row *ret, struct error *e)
{
    struct share_subject about = share_subject(share->key);
    sqlite3_stmt *st = writer_stmt(s, ST_PLACES);
    (void)bind_str(st, 1, share->key);
    for (bool row;;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        int64_t n;
        if (sqlite_limit_read_node_places(s, share, row_uuid(st, 0), sqlite3_column_int64(st, 1), &n, e)) {
            sqlite3_reset(st);
            return e->code;
        }
        *(uuid_eq(row_uuid(st, 0), node) ? &ret->held : &ret->others) += n;
    }
    int64_t leased = 0;
    if (share->concurrency && sqlite_count_leased(s, &about, share->concurrency, &leased, e))
        return e->code;
    ret->others += leased;
    return ERR_OK;
}

static enum err sqlite_limit_write_places(struct store_sqlite *s, struct str key, struct uuid node, int64_t n,
                                          struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, n ? ST_PLACES_PUT : ST_PLACES_GIVE_UP);
    (void)bind_str(st, 1, key);
    (void)bind_uuid(st, 2, &node);
    if (n)
        sqlite3_bind_int64(st, 3, n);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_limit_take_share(struct store_sqlite *s, struct uuid node, struct share *share, int64_t now_ms,
                                        struct error *e)
{
    struct share_row row = { 0 };
    bool found;
    if (sqlite_limit_read_bucket(s, share->key, &row.bucket, &found, e) ||
        sqlite_limit_read_places(s, share, node, &row, e))
        return e->code;
    struct share_row before = row;
    share_take(share, &row, now_ms);
    if ((!found || !share_bucket_same(&row.bucket, &before.bucket)) &&
        sqlite_limit_write_bucket(s, share->key, &row.bucket, e))
        return e->code;
    return row.held != before.held ? sqlite_limit_write_places(s, share->key, node, row.held, e) : ERR_OK;
}

enum err sqlite_limit_take(struct store_sqlite *s, struct op *base)
{
    struct op_limit_take *op = (struct op_limit_take *)base;
    struct error *e = &base->error;
    bool known, dead;
    if (sqlite_node_find(s, &op->node, &known, &dead, e))
        return e->code;
    for (size_t i = 0; i < op->n; i++)
        if (!known || dead)
            share_refuse(&op->v[i], op->now_ms);
        else if (sqlite_limit_take_share(s, op->node, &op->v[i], op->now_ms, e))
            return e->code;
    return ERR_OK;
}
