/* What ran, over all tasks. */
#include "store/sqlite/reader/reader.h"

#define HISTORY_SLACK_US 60000000 /* rows are written nearly in the order of completed_us */
enum { HISTORY_SLICE = 4000 };

/* The rows that can matter, and where the walk is: rows below `above`. */
struct history_walk {
    int64_t lowest, above;
    int64_t visited;
};

/* The completed_us of the first row at or above rowid; INT64_MAX: there is none. */
static enum err reader_sqlite_history_at(struct conn *c, int64_t rowid, int64_t *ret_us, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_HISTORY_AT);
    bool row;
    sqlite3_bind_int64(st, 1, rowid);
    if (conn_step(c, st, &row, e))
        return e->code;
    *ret_us = row ? sqlite3_column_int64(st, 1) : INT64_MAX;
    sqlite3_reset(st);
    return ERR_OK;
}

/* The lowest rowid in low..high whose row, or the next one, ended at or after us; high: none did. */
static enum err reader_sqlite_history_find(struct conn *c, int64_t us, int64_t low, int64_t high, int64_t *ret,
                                           struct error *e)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2, at_us;
        if (reader_sqlite_history_at(c, middle, &at_us, e))
            return e->code;
        if (at_us < us)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = low;
    return ERR_OK;
}

static enum err reader_sqlite_history_start(struct conn *c, const struct history_filter *f, struct history_walk *w,
                                            struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_HISTORY_ENDS);
    int64_t skip;
    bool row;
    if (conn_step(c, st, &row, e))
        return e->code;
    int64_t first = sqlite3_column_int64(st, 0), end = sqlite3_column_int64(st, 1) + 1;
    sqlite3_reset(st);
    *w = (struct history_walk){ .lowest = first, .above = end };
    if (f->from_us && reader_sqlite_history_find(c, f->from_us - HISTORY_SLACK_US, first, end, &w->lowest, e))
        return e->code;
    if (!uuid_is_nil(f->before))
        reader_place_read(f->before, &w->above, &skip);
    else if (reader_sqlite_history_find(c, f->to_us + HISTORY_SLACK_US, first, end, &w->above, e))
        return e->code;
    return ERR_OK;
}

/* Reads the current row; *ret_wanted false: its task is in another queue. */
static enum err reader_sqlite_history_row(struct reader_sqlite *r, sqlite3_stmt *st, const struct history_filter *f,
                                          struct arena *a, struct history_row *ret, bool *ret_wanted, struct error *e)
{
    int after = 1 + table_executions.count;
    const struct lane_row *lane;
    struct str queue = row_text(st, after + 2);
    if (!queue.n && sqlite3_column_type(st, after + 1) != SQLITE_NULL) {
        if (lanes_at(&r->conn, sqlite3_column_int64(st, after + 1), &lane, e))
            return e->code;
        queue = lane->lane.queue;
    }
    *ret_wanted = !f->queue.n || str_eq(f->queue, queue);
    if (!*ret_wanted)
        return ERR_OK;
    *ret = (struct history_row){ 0 };
    if (!arena_str(a, row_text(st, after), &ret->name) || !arena_str(a, queue, &ret->queue))
        return reader_no_room(e);
    return row_read(&r->conn, st, 1, &table_executions, a, &ret->execution, e);
}

/* Adds the wanted rows of one slice to the page, until it is full. */
static enum err reader_sqlite_history_slice(struct reader_sqlite *r, const struct history_filter *f,
                                            struct history_walk *w, struct arena *a, struct history_page *page,
                                            struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_HISTORY);
    int64_t from = max_of(w->lowest, w->above - HISTORY_SLICE);
    sqlite3_bind_int64(st, 1, w->above);
    sqlite3_bind_int64(st, 2, from);
    sqlite3_bind_int(st, 3, f->tenant);
    sqlite3_bind_int(st, 4, (int)f->statuses);
    (void)bind_str(st, 5, f->worker);
    sqlite3_bind_int64(st, 6, f->from_us);
    sqlite3_bind_int64(st, 7, f->to_us);
    (void)bind_str(st, 8, f->error);
    enum err rc = ERR_OK;
    for (bool row, wanted = false; page->n < f->limit;) {
        rc = conn_step(&r->conn, st, &row, e);
        if (rc || !row)
            break;
        w->above = sqlite3_column_int64(st, 0);
        rc = reader_sqlite_history_row(r, st, f, a, &page->v[page->n], &wanted, e);
        if (rc)
            break;
        page->n += wanted;
    }
    sqlite3_reset(st);
    if (page->n < f->limit)
        w->above = from;
    w->visited += HISTORY_SLICE;
    return rc;
}

enum err reader_sqlite_history(struct reader *base, const struct history_filter *f, struct arena *a,
                               struct history_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct history_page page = { .v = arena_array(a, struct history_row, f->limit) };
    struct history_walk w;
    if (!page.v)
        return reader_no_room(e);
    if (reader_sqlite_history_start(&r->conn, f, &w, e))
        return e->code;
    while (page.n < f->limit && w.above > w.lowest && w.visited < LIST_VISIT_MAX)
        if (reader_sqlite_history_slice(r, f, &w, a, &page, e))
            return e->code;
    page.more = w.above > w.lowest;
    page.next_before = reader_place(w.above, 1);
    *ret = page;
    return ERR_OK;
}
