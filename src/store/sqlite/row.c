/* Binds structs to SQLite statements, and reads rows into structs. */
#include "store/sqlite/internal.h"

/* ---- binding ---- */

bool bind_uuid(sqlite3_stmt *st, int at, const struct uuid *u)
{
    if (uuid_is_nil(*u))
        return sqlite3_bind_null(st, at) == SQLITE_OK;
    return sqlite3_bind_blob(st, at, u->b, sizeof u->b, SQLITE_STATIC) == SQLITE_OK;
}

bool bind_str(sqlite3_stmt *st, int at, struct str s)
{
    return sqlite3_bind_text64(st, at, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK;
}

static void row_bind_text(sqlite3_stmt *st, int at, struct str s)
{
    if (s.n)
        (void)bind_str(st, at, s);
    else
        sqlite3_bind_null(st, at);
}

static void row_bind_number(sqlite3_stmt *st, int at, const struct column *column, const void *row)
{
    int64_t number;
    if (column_number(column, row, &number))
        sqlite3_bind_int64(st, at, number);
    else
        sqlite3_bind_null(st, at);
}

/* Each kind of JSON has its own buffer, because SQLite reads it only when the statement runs. */
static struct buf *row_json_buf(struct conn *c, enum column_kind kind)
{
    return &c->texts[kind == COL_RETRY ? 0 : kind == COL_SCHEDULE ? 1 : kind == COL_NEEDS ? 2 : 3];
}

static void row_bind_column(struct conn *c, sqlite3_stmt *st, int at, const struct column *column, const void *row)
{
    const void *member = (const char *)row + column->offset;
    switch (column->kind) {
    case COL_UUID: (void)bind_uuid(st, at, member); break;
    case COL_BYTES32: sqlite3_bind_blob(st, at, member, 32, SQLITE_STATIC); break;
    case COL_I64: sqlite3_bind_int64(st, at, *(const int64_t *)member); break;
    case COL_INT:
    case COL_BOOL:
    case COL_DEAD_I64:
    case COL_FAILED: row_bind_number(st, at, column, row); break;
    case COL_TEXT: row_bind_text(st, at, *(const struct str *)member); break;
    case COL_RETRY:
    case COL_SCHEDULE:
    case COL_GATES:
    case COL_NEEDS:
    case COL_QUEUE:
    case COL_HELD_TEXT:
    case COL_DEAD_TEXT: row_bind_text(st, at, column_text(column, row, row_json_buf(c, column->kind))); break;
    case COL_LANE: break;
    }
}

void row_bind(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, const void *row)
{
    for (int i = 0; i < t->count; i++)
        row_bind_column(c, st, first + i, &t->columns[i], row);
}

/* ---- fresh tasks: just created, never run ---- */

static const char *const row_fresh[] = {
#define X(column, kind, member, max) FRESH_##column,
    TASK_COLUMNS(X)
#undef X
};

static bool row_is_empty(struct conn *c, const struct column *column, const void *row)
{
    const void *member = (const char *)row + column->offset;
    int64_t number;
    switch (column->kind) {
    case COL_UUID: return uuid_is_nil(*(const struct uuid *)member);
    case COL_I64: return *(const int64_t *)member == 0;
    case COL_INT:
    case COL_BOOL:
    case COL_DEAD_I64:
    case COL_FAILED: return !column_number(column, row, &number) || number == 0;
    case COL_TEXT: return ((const struct str *)member)->n == 0;
    case COL_RETRY:
    case COL_SCHEDULE:
    case COL_GATES:
    case COL_NEEDS:
    case COL_QUEUE:
    case COL_HELD_TEXT:
    case COL_DEAD_TEXT: return column_text(column, row, row_json_buf(c, column->kind)).n == 0;
    case COL_BYTES32:
    case COL_LANE: return false;
    }
    return false;
}

bool row_is_fresh(struct conn *c, const struct task *t)
{
    for (int i = 0; i < table_tasks.count; i++)
        if (row_fresh[i][0] != '?' && !row_is_empty(c, &table_tasks.columns[i], t))
            return false;
    return true;
}

void row_bind_fresh(struct conn *c, sqlite3_stmt *st, const struct task *t, int64_t lane)
{
    for (int i = 0, at = 1; i < table_tasks.count; i++) {
        if (row_fresh[i][0] != '?')
            continue;
        if (i == AT_lane - 1)
            sqlite3_bind_int64(st, at++, lane);
        else
            row_bind_column(c, st, at++, &table_tasks.columns[i], t);
    }
}

/* ---- reading ---- */

struct uuid row_uuid(sqlite3_stmt *st, int column)
{
    struct uuid u = { 0 };
    const void *p = sqlite3_column_blob(st, column);
    if (p && sqlite3_column_bytes(st, column) == (int)sizeof u.b)
        memcpy(u.b, p, sizeof u.b);
    return u;
}

struct str row_text(sqlite3_stmt *st, int column)
{
    const void *p = sqlite3_column_blob(st, column); /* not sqlite3_column_text, which may copy to add a NUL */
    return (struct str){ p, p ? (size_t)sqlite3_column_bytes(st, column) : 0 };
}

static enum err row_read_lane(struct conn *c, sqlite3_stmt *st, int at, const struct table *t,
                              const struct column *column, struct arena *a, void *row, struct error *e)
{
    const struct lane_row *lane;
    if (lanes_at(c, sqlite3_column_int64(st, at), &lane, e))
        return e->code;
    return column_read_text(t, column, lane->lane.queue, a, row, e);
}

enum err row_read_gates(sqlite3_stmt *st, int at, struct arena *a, struct task *ret, struct error *e)
{
    return column_read_text(&table_tasks, &table_tasks.columns[AT_gates - 1], row_text(st, at), a, ret, e);
}

static enum err row_read_bytes32(const struct table *t, const struct column *column, sqlite3_stmt *st, int at,
                                 void *ret, struct error *e)
{
    if (sqlite3_column_bytes(st, at) != 32)
        return column_wrong(t, column, sqlite3_column_int64(st, at), e);
    memcpy(ret, sqlite3_column_blob(st, at), 32);
    return ERR_OK;
}

enum err row_read_without(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, int left_out,
                          struct arena *a, void *row, struct error *e)
{
    for (int i = 0; i < t->count; i++) {
        if (first + i == left_out)
            continue;
        const struct column *column = &t->columns[i];
        void *member = (char *)row + column->offset;
        int at = first + i;
        enum err rc = ERR_OK;
        switch (column->kind) {
        case COL_UUID: *(struct uuid *)member = row_uuid(st, at); break;
        case COL_I64: *(int64_t *)member = sqlite3_column_int64(st, at); break;
        case COL_BYTES32: rc = row_read_bytes32(t, column, st, at, member, e); break;
        case COL_LANE: rc = row_read_lane(c, st, at, t, column, a, row, e); break;
        case COL_INT:
        case COL_BOOL:
        case COL_DEAD_I64:
        case COL_FAILED: rc = column_read_number(t, column, sqlite3_column_int64(st, at), row, e); break;
        default: rc = column_read_text(t, column, row_text(st, at), a, row, e);
        }
        if (rc)
            return rc;
    }
    return ERR_OK;
}

enum err row_read(struct conn *c, sqlite3_stmt *st, int first, const struct table *t, struct arena *a, void *row,
                  struct error *e)
{
    return row_read_without(c, st, first, t, -1, a, row, e);
}
