/* Reads of runs: definitions, rows of runs, steps, outputs, signals. */
#include <stdlib.h>

#include "store/sqlite/reader/reader.h"

/* ---- definitions ---- */

enum err reader_sqlite_definition(struct reader *base, int32_t tenant, const uint8_t hash[DEFINITION_HASH],
                                  struct arena *a, struct str *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_DEFINITION);
    bool row;
    sqlite3_bind_int(st, 1, tenant);
    sqlite3_bind_blob(st, 2, hash, DEFINITION_HASH, SQLITE_STATIC);
    if (conn_step(&r->conn, st, &row, e))
        return e->code;
    if (!row)
        return reader_not_found("definition", e);
    bool fits = arena_str(a, row_text(st, 0), ret);
    sqlite3_reset(st);
    return fits ? ERR_OK : reader_no_room(e);
}

static enum err reader_sqlite_read_definition(struct reader_sqlite *r, sqlite3_stmt *st, struct definition *ret,
                                              struct error *e)
{
    enum { TENANT, HASH, TEXT };
    if (sqlite3_column_bytes(st, HASH) != DEFINITION_HASH)
        return conn_corrupt(&r->conn, "an invalid hash of a definition", e);
    *ret = (struct definition){ .tenant = sqlite3_column_int(st, TENANT), .text = row_text(st, TEXT) };
    memcpy(ret->hash, sqlite3_column_blob(st, HASH), DEFINITION_HASH);
    return ERR_OK;
}

enum err reader_sqlite_definitions(struct reader *base, const struct definition *after, size_t max, struct arena *a,
                                   struct definition_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_DEFINITIONS);
    struct definition_page page = { .v = arena_array(a, struct definition, max) };
    enum err rc = ERR_OK;
    bool row = true;
    if (!page.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, after->tenant);
    sqlite3_bind_blob(st, 2, after->hash, sizeof after->hash, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (int64_t)max);
    while (!rc && row && page.n < max) {
        struct definition d;
        rc = conn_step(&r->conn, st, &row, e);
        if (rc || !row)
            break;
        rc = reader_sqlite_read_definition(r, st, &d, e);
        if (!rc)
            rc = definition_page_add(&page, &d, max, a, &row, e);
    }
    sqlite3_reset(st);
    if (!rc)
        *ret = page;
    return rc;
}

enum err reader_sqlite_workflow(struct reader *base, int32_t tenant, struct str name, int64_t version, struct arena *a,
                                struct workflow_row *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_WORKFLOW);
    struct workflow_row w = { 0 };
    bool found;
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, name);
    sqlite3_bind_int64(st, 3, version);
    if (reader_sqlite_read_one(r, st, &table_workflows, a, &w, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("workflow", e);
    *ret = w;
    return ERR_OK;
}

/* Reads at most max rows of a bound statement into v; *ret_n may be max although there are more. */
static enum err reader_sqlite_read_rows(struct reader_sqlite *r, sqlite3_stmt *st, const struct table *t, size_t size,
                                        size_t max, struct arena *a, void *v, size_t *ret_n, struct error *e)
{
    enum err rc = ERR_OK;
    *ret_n = 0;
    for (bool row; !rc && *ret_n < max && !(rc = conn_step(&r->conn, st, &row, e)) && row; ++*ret_n)
        rc = row_read(&r->conn, st, 1, t, a, memset((char *)v + *ret_n * size, 0, size), e);
    sqlite3_reset(st);
    return rc;
}

enum err reader_sqlite_workflows(struct reader *base, int32_t tenant, struct str after, size_t max, struct arena *a,
                                 struct workflow_rows *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_WORKFLOWS);
    struct workflow_rows rows = { .v = arena_array(a, struct workflow_row, max + 1) };
    if (!rows.v)
        return reader_no_room(e);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, after);
    sqlite3_bind_int64(st, 3, (int64_t)max + 1);
    if (reader_sqlite_read_rows(r, st, &table_workflows, sizeof *rows.v, max + 1, a, rows.v, &rows.n, e))
        return e->code;
    rows.more = rows.n > max;
    rows.n = min_of(rows.n, max);
    *ret = rows;
    return ERR_OK;
}

/* ---- runs and steps ---- */

enum err reader_sqlite_run(struct reader *base, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                           struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_RUN);
    struct run_row row = { 0 };
    bool found;
    (void)bind_uuid(st, 1, &run);
    if (reader_sqlite_read_one(r, st, &table_runs, a, &row, &found, e))
        return e->code;
    if (!found || row.tenant != tenant)
        return reader_not_found("run", e);
    *ret = row;
    return ERR_OK;
}

enum err reader_sqlite_steps(struct reader *base, const struct step_filter *f, struct arena *a, struct tasks *ret,
                             struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_STEPS);
    int64_t after = f->has_after ? f->after : INT64_MIN;
    struct tasks steps = { 0 };
    reader_sqlite_make_room(r, f->limit);
    if (f->by_step)
        after = max_of(after, place_of_step(f->step) - 1);
    (void)bind_uuid(st, 1, &f->run);
    sqlite3_bind_int(st, 2, f->tenant);
    sqlite3_bind_int64(st, 3, after);
    sqlite3_bind_int64(st, 4, f->by_step ? (int64_t)f->step : -1);
    sqlite3_bind_int64(st, 5, f->states);
    sqlite3_bind_int64(st, 6, (int64_t)f->limit);
    sqlite3_bind_int64(st, 7, f->shown_at_ms);
    if (reader_sqlite_read_rows(r, st, &table_tasks, sizeof *r->tasks, f->limit, a, r->tasks, &steps.n, e))
        return e->code;
    steps.v = arena_alloc(a, steps.n * sizeof *steps.v);
    if (!steps.v)
        return reader_no_room(e);
    memcpy(steps.v, r->tasks, steps.n * sizeof *steps.v);
    *ret = steps;
    return ERR_OK;
}

/* ---- outputs and signals ---- */

static void *reader_sqlite_grow(void *v, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return v;
    *cap = *cap * 2 + 16;
    return xrealloc(v, *cap * size);
}

enum err reader_sqlite_outputs(struct reader *base, struct uuid run, int64_t from, int64_t to, size_t max,
                               struct arena *a, struct run_outputs *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_OUTPUTS);
    struct run_output *v = NULL;
    size_t n = 0, cap = 0;
    enum err rc = ERR_OK;
    (void)bind_uuid(st, 1, &run);
    sqlite3_bind_int64(st, 2, from);
    sqlite3_bind_int64(st, 3, to);
    sqlite3_bind_int64(st, 4, (int64_t)min_of(max, (size_t)INT64_MAX));
    for (bool row; !rc && !(rc = conn_step(&r->conn, st, &row, e)) && row; n++) {
        v = reader_sqlite_grow(v, n, &cap, sizeof *v);
        v[n] = (struct run_output){ .place = sqlite3_column_int64(st, 0), .whole = sqlite3_column_int(st, 1) != 0 };
        rc = arena_str(a, row_text(st, 2), &v[n].text) ? ERR_OK : reader_no_room(e);
    }
    sqlite3_reset(st);
    struct run_output *copy = rc ? NULL : arena_array(a, struct run_output, n + 1);
    rc = rc || copy ? rc : reader_no_room(e);
    if (!rc && n)
        memcpy(copy, v, n * sizeof *v);
    if (!rc)
        *ret = (struct run_outputs){ copy, n };
    free(v);
    return rc;
}

enum err reader_sqlite_signals(struct reader *base, struct uuid run, struct str name, struct arena *a,
                               struct signal_rows *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_SIGNALS);
    struct signal_rows rows = { .v = arena_array(a, struct signal_row, SIGNALS_MAX) };
    if (!rows.v)
        return reader_no_room(e);
    (void)bind_uuid(st, 1, &run);
    (void)bind_str(st, 2, name);
    if (reader_sqlite_read_rows(r, st, &table_signals, sizeof *rows.v, SIGNALS_MAX, a, rows.v, &rows.n, e))
        return e->code;
    *ret = rows;
    return ERR_OK;
}
