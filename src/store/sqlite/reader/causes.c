/* Dead letters, grouped by their cause. */
#include <stdlib.h>

#include "store/sqlite/reader/reader.h"

/* Each cause is read by a statement of its own, so that no snapshot is held for long. After CAUSE_TASKS_MAX dead
 * letters the other causes are left out. */
enum { CAUSE_TASKS_MAX = 1000000, CAUSES_MIN = 16 };

struct cause_grouping {
    struct conn *conn;
    int32_t tenant;
    struct cause_group *v; /* their causes are in the arena */
    size_t n, cap;
    int64_t counted;
};

/* Finds the next cause behind `after`; *ret_found false: none. */
static enum err reader_sqlite_next_cause(struct cause_grouping *g, struct str after, struct arena *a, struct str *ret,
                                         bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(g->conn, RD_NEXT_CAUSE);
    sqlite3_bind_int(st, 1, g->tenant);
    (void)bind_str(st, 2, after);
    if (conn_step(g->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    struct str cause = { (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) };
    bool fits = arena_str(a, cause, ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

static enum err reader_sqlite_add_cause(struct cause_grouping *g, struct str cause, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(g->conn, RD_CAUSE);
    bool row;
    sqlite3_bind_int(st, 1, g->tenant);
    if (cause.n)
        (void)bind_str(st, 2, cause);
    else
        sqlite3_bind_null(st, 2);
    sqlite3_bind_int(st, 3, COUNT_SLOW_MAX);
    if (conn_step(g->conn, st, &row, e))
        return e->code;
    struct cause_group x = { .cause = cause,
                             .count = sqlite3_column_int64(st, 0),
                             .first_failed_ms = sqlite3_column_int64(st, 1),
                             .last_failed_ms = sqlite3_column_int64(st, 2),
                             .latest = row_uuid(st, 3) };
    sqlite3_reset(st);
    g->counted += x.count;
    if (x.count == 0) /* there is none without a cause, or it was resolved a moment ago */
        return ERR_OK;
    if (g->n == g->cap) {
        g->cap = g->cap * 2 + CAUSES_MIN;
        g->v = xrealloc(g->v, g->cap * sizeof *g->v);
    }
    g->v[g->n++] = x;
    return ERR_OK;
}

static enum err reader_sqlite_add_causes(struct cause_grouping *g, struct arena *a, struct error *e)
{
    struct str cause = S("");
    for (bool found = true; found && g->counted < CAUSE_TASKS_MAX;) {
        if (reader_sqlite_add_cause(g, cause, e) || reader_sqlite_next_cause(g, cause, a, &cause, &found, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err reader_sqlite_last_error(struct cause_grouping *g, struct uuid id, struct arena *a, struct str *ret,
                                         struct error *e)
{
    sqlite3_stmt *st = conn_stmt(g->conn, RD_LAST_ERROR);
    bool row;
    (void)bind_uuid(st, 1, &id);
    if (conn_step(g->conn, st, &row, e))
        return e->code;
    struct str text =
        row ? (struct str){ (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) } : S("");
    bool fits = arena_str(a, text, ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

static int reader_sqlite_compare_causes(const void *a, const void *b)
{
    const struct cause_group *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : str_cmp(x->cause, y->cause);
}

static enum err reader_sqlite_take_largest(struct cause_grouping *g, size_t max, struct arena *a,
                                           struct cause_groups *ret, struct error *e)
{
    if (g->n)
        qsort(g->v, g->n, sizeof *g->v, reader_sqlite_compare_causes);
    struct cause_groups copy = { .n = min_of(g->n, max) };
    copy.v = arena_array(a, struct cause_group, copy.n);
    if (!copy.v)
        return reader_no_room(e);
    for (size_t i = 0; i < copy.n; i++) {
        copy.v[i] = g->v[i];
        if (reader_sqlite_last_error(g, copy.v[i].latest, a, &copy.v[i].last_error, e))
            return e->code;
    }
    *ret = copy;
    return ERR_OK;
}

enum err reader_sqlite_causes(struct reader *base, int32_t tenant, size_t max, struct arena *a,
                              struct cause_groups *ret, struct error *e)
{
    struct cause_grouping g = { .conn = &reader_sqlite_of(base)->conn, .tenant = tenant };
    enum err rc = reader_sqlite_add_causes(&g, a, e);
    if (!rc)
        rc = reader_sqlite_take_largest(&g, max, a, ret, e);
    free(g.v);
    return rc;
}
