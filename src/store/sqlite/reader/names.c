/* Finding tasks by the beginning of a name, and by a dedupe key. */
#include "store/sqlite/reader/reader.h"

/* Finds the next name behind `after`; *ret_found false: none. */
static enum err reader_sqlite_next_name(struct reader_sqlite *r, int32_t tenant, struct str after, struct arena *a,
                                        struct str *ret, bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_NEXT_NAME);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, after);
    if (conn_step(&r->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    struct str name = { (const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0) };
    bool fits = arena_str(a, name, ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

/* Reads the newest task of a name. *ret_found false: all tasks of this name are deleted. */
static enum err reader_sqlite_named(struct reader_sqlite *r, int32_t tenant, struct str name, struct task_name *ret,
                                    bool *ret_found, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_NAMED);
    bool second = false;
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, name);
    if (conn_step(&r->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    *ret = (struct task_name){ .name = name, .newest = row_uuid(st, 0) };
    if (conn_step(&r->conn, st, &second, e))
        return e->code;
    ret->is_only = !second;
    sqlite3_reset(st);
    return ERR_OK;
}

enum err reader_sqlite_names(struct reader *base, int32_t tenant, struct str prefix, size_t max, struct arena *a,
                             struct task_names *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct task_names names = { .v = arena_array(a, struct task_name, max) };
    struct str name = prefix;
    if (!names.v)
        return reader_no_room(e);
    for (bool more = true; more && str_starts(name, prefix) && names.n < max;) {
        bool found = false;
        if ((name.n && reader_sqlite_named(r, tenant, name, &names.v[names.n], &found, e)) ||
            reader_sqlite_next_name(r, tenant, name, a, &name, &more, e))
            return e->code;
        names.n += found;
    }
    *ret = names;
    return ERR_OK;
}

/* ---- dedupe keys ---- */

enum err reader_sqlite_dedupe(struct reader *base, int32_t tenant, struct str key, int64_t now_ms, struct uuid *ret,
                              struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_DEDUPE);
    bool row;
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, key);
    sqlite3_bind_int64(st, 3, now_ms);
    if (conn_step(&r->conn, st, &row, e))
        return e->code;
    if (!row)
        return reader_not_found("task", e);
    *ret = row_uuid(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}
