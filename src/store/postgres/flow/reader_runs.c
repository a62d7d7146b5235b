/* Reading runs, their steps, outputs and signals, and definitions (port/store/runs.h). */
#include <assert.h>

#include "store/postgres/reader/reader.h"

/* ---- definitions ---- */

enum err reader_postgres_definition(struct reader *base, int32_t tenant, const uint8_t hash[DEFINITION_HASH],
                                    struct arena *a, struct str *ret, struct error *e)
{
    static const struct pg_statement by_hash = { "read_definition",
                                                 "SELECT text FROM definitions WHERE tenant_id = $1 AND hash = $2" };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_bytes(p, (struct str){ (const char *)hash, DEFINITION_HASH });
    if (pg_reader_run(r, false, &by_hash, &got, e))
        return e->code;
    if (got.rows == 0)
        return reader_not_found("definition", e);
    return arena_str(a, pg_text(&got, 0, 0), ret) ? ERR_OK : reader_no_room(e);
}

#define WORKFLOW_NAMES "name, version, hash, created_ms"

static enum err pg_read_hash(struct pg_reader *r, const struct pg_result *got, int row, int column,
                             uint8_t ret[DEFINITION_HASH], struct error *e)
{
    struct str hash = pg_text(got, row, column);
    if (hash.n != DEFINITION_HASH)
        return pg_corrupt(r->last_conn, "the hash of a definition has another length", e);
    memcpy(ret, hash.p, DEFINITION_HASH);
    return ERR_OK;
}

enum err reader_postgres_definitions(struct reader *base, const struct definition *after, size_t max, struct arena *a,
                                     struct definition_page *ret, struct error *e)
{
    static const struct pg_statement next = { "read_definitions",
                                              "SELECT tenant_id, hash, text FROM definitions WHERE (tenant_id, hash) > "
                                              "($1, $2) ORDER BY tenant_id, hash LIMIT $3" };
    struct pg_reader *r = pg_reader_self(base);
    struct definition_page page = { .v = arena_array(a, struct definition, max) };
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    e = pg_reader_error(base, e);
    if (!page.v)
        return reader_no_room(e);
    struct pg_params *p = pg_reader_params(r);
    pg_add_i32(p, after->tenant);
    pg_add_bytes(p, (struct str){ (const char *)after->hash, DEFINITION_HASH });
    pg_add_i64(p, (int64_t)max);
    enum err rc = pg_reader_run(r, false, &next, &got, e);
    bool has_room = true;
    for (int i = 0; !rc && has_room && i < got.rows; i++) {
        struct definition d = { .tenant = (int32_t)pg_i64(&got, i, 0), .text = pg_text(&got, i, 2) };
        rc = pg_read_hash(r, &got, i, 1, d.hash, e);
        if (!rc)
            rc = definition_page_add(&page, &d, max, a, &has_room, e);
    }
    if (!rc)
        *ret = page;
    return rc;
}

static enum err pg_read_workflow(struct pg_reader *r, const struct pg_result *got, int row, int32_t tenant,
                                 struct arena *a, struct workflow_row *ret, struct error *e)
{
    *ret = (struct workflow_row){ .tenant = tenant, .version = pg_i64(got, row, 1), .created_ms = pg_i64(got, row, 3) };
    if (!arena_str(a, pg_text(got, row, 0), &ret->name))
        return reader_no_room(e);
    return pg_read_hash(r, got, row, 2, ret->hash, e);
}

enum err reader_postgres_workflow(struct reader *base, int32_t tenant, struct str name, int64_t version,
                                  struct arena *a, struct workflow_row *ret, struct error *e)
{
    static const struct pg_statement by_name = {
        "read_workflow", "SELECT " WORKFLOW_NAMES " FROM workflows WHERE tenant_id = $1 AND name = $2 "
                         "AND ($3 = 0 OR version = $3) AND NOT removed ORDER BY version DESC LIMIT 1"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_text(p, name);
    pg_add_i64(p, version);
    if (text_is_clean(name) && pg_reader_run(r, false, &by_name, &got, e))
        return e->code;
    return got.rows ? pg_read_workflow(r, &got, 0, tenant, a, ret, e) : reader_not_found("workflow", e);
}

enum err reader_postgres_workflows(struct reader *base, int32_t tenant, struct str after, size_t max, struct arena *a,
                                   struct workflow_rows *ret, struct error *e)
{
    /* Steps from name to name in the index: old versions cost nothing. */
    static const struct pg_statement by_tenant = {
        "read_workflows",
        "WITH RECURSIVE n AS ((SELECT name FROM workflows WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT 1) "
        "UNION ALL SELECT next.name FROM n, LATERAL (SELECT name FROM workflows WHERE tenant_id = $1 AND name > n.name "
        "ORDER BY name LIMIT 1) AS next) SELECT w.* FROM n, LATERAL (SELECT " WORKFLOW_NAMES
        " FROM workflows AS w WHERE w.tenant_id = $1 AND w.name = n.name AND NOT w.removed ORDER BY w.version DESC LIMIT 1) "
        "AS w LIMIT $3"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_i32(p, tenant);
    pg_add_text(p, after);
    pg_add_i64(p, (int64_t)max + 1);
    if (text_is_clean(after) && pg_reader_run(r, false, &by_tenant, &got, e))
        return e->code;
    struct workflow_rows rows = { .more = (size_t)got.rows > max, .n = min_of((size_t)got.rows, max) };
    rows.v = arena_array(a, struct workflow_row, rows.n);
    if (!rows.v)
        return reader_no_room(e);
    for (size_t i = 0; i < rows.n; i++)
        if (pg_read_workflow(r, &got, (int)i, tenant, a, &rows.v[i], e))
            return e->code;
    *ret = rows;
    return ERR_OK;
}

/* ---- runs and steps ---- */

static enum err pg_read_run(struct pg_reader *r, const struct pg_result *got, struct arena *a, struct run_row *run,
                            struct error *e)
{
    *run = (struct run_row){ .run = pg_uuid(got, 0, 0),
                             .tenant = (int32_t)pg_i64(got, 0, 1),
                             .version = pg_i64(got, 0, 4),
                             .root = pg_uuid(got, 0, 5),
                             .depth = (int32_t)pg_i64(got, 0, 6),
                             .opened_ms = pg_i64(got, 0, 7),
                             .deadline_ms = pg_i64(got, 0, 8),
                             .tasks = pg_i64(got, 0, 9),
                             .generation = (int32_t)pg_i64(got, 0, 10),
                             .stop = (enum run_stop)pg_i64(got, 0, 11),
                             .paused = pg_bool(got, 0, 13) };
    if (!arena_str(a, pg_text(got, 0, 3), &run->workflow) || !arena_str(a, pg_text(got, 0, 12), &run->stopped_by))
        return reader_no_room(e);
    return pg_read_hash(r, got, 0, 2, run->hash, e);
}

enum err reader_postgres_run(struct reader *base, int32_t tenant, struct uuid run, struct arena *a, struct run_row *ret,
                             struct error *e)
{
    static const struct pg_statement by_id = {
        "read_run", "SELECT run_id, tenant_id, hash, workflow, version, root_id, depth, opened_ms, deadline_ms, tasks, "
                    "generation, stop, stopped_by, paused FROM runs WHERE run_id = $1 AND tenant_id = $2"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_uuid(p, run);
    pg_add_i32(p, tenant);
    if (pg_reader_run(r, false, &by_id, &got, e))
        return e->code;
    return got.rows ? pg_read_run(r, &got, a, ret, e) : reader_not_found("run", e);
}

enum err reader_postgres_steps(struct reader *base, const struct step_filter *f, struct arena *a, struct tasks *ret,
                               struct error *e)
{
    static const struct pg_statement by_place = {
        "read_steps", "SELECT part" TASK_COLUMNS(
                          SQL_NAME) " FROM tasks WHERE run_id = $1 AND place > $2 AND tenant_id = $3 AND NOT deleted "
                                    "AND ($4 = 0 OR ($4 >> " SQL_SHOWN_STATE(
                                        "$7") ") & 1 = 1) "
                                              "AND ($5 < 0 OR ((place >> 24) & 16777215 = $5 AND place >> 48 < 2)) "
                                              "ORDER BY place LIMIT $6"
    };
    static_assert(PLACE_KIND_STEP == 0 && PLACE_KIND_UNDO == 1 && PLACE_KIND_DEADLINE == 2, "by_place says the same");
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    int64_t after = f->has_after ? f->after : -1;
    pg_add_uuid(p, f->run);
    pg_add_i64(p, f->by_step ? max_of(after, place_of_step(f->step) - 1) : after);
    pg_add_i32(p, f->tenant);
    pg_add_i32(p, (int32_t)f->states);
    pg_add_i64(p, f->by_step ? (int64_t)f->step : -1);
    pg_add_i64(p, (int64_t)f->limit);
    pg_add_i64(p, f->shown_at_ms);
    if (pg_reader_run(r, false, &by_place, &got, e))
        return e->code;
    struct task *v = arena_zarray(a, (size_t)got.rows + 1, sizeof *v);
    if (!v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++)
        if (pg_row_read(r->last_conn, &r->lanes, &got, i, 1, &table_tasks, a, &v[i], e))
            return e->code;
    *ret = (struct tasks){ v, (size_t)got.rows };
    return ERR_OK;
}

/* ---- outputs and signals ---- */

enum err reader_postgres_outputs(struct reader *base, struct uuid run, int64_t from, int64_t to, size_t max,
                                 struct arena *a, struct run_outputs *ret, struct error *e)
{
    static const struct pg_statement by_place = {
        "read_outputs", "SELECT place, whole, text FROM outputs WHERE run_id = $1 AND place BETWEEN $2 AND $3 "
                        "ORDER BY place LIMIT $4"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_uuid(p, run);
    pg_add_i64(p, from);
    pg_add_i64(p, to);
    pg_add_i64(p, (int64_t)max);
    if (pg_reader_run(r, false, &by_place, &got, e))
        return e->code;
    struct run_outputs outputs = { arena_array(a, struct run_output, (size_t)got.rows + 1), (size_t)got.rows };
    if (!outputs.v)
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        outputs.v[i] = (struct run_output){ .place = pg_i64(&got, i, 0), .whole = pg_bool(&got, i, 1) };
        if (!arena_str(a, pg_text(&got, i, 2), &outputs.v[i].text))
            return reader_no_room(e);
    }
    *ret = outputs;
    return ERR_OK;
}

enum err reader_postgres_signals(struct reader *base, struct uuid run, struct str name, struct arena *a,
                                 struct signal_rows *ret, struct error *e)
{
    static const struct pg_statement by_time = {
        "read_signals", "SELECT sender, payload, rejects, time_ms FROM signals WHERE run_id = $1 AND name = $2 "
                        "ORDER BY time_ms, sender"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    struct str copy;
    pg_add_uuid(p, run);
    pg_add_text(p, name);
    if (text_is_clean(name) && pg_reader_run(r, false, &by_time, &got, e))
        return e->code;
    struct signal_rows rows = { arena_array(a, struct signal_row, (size_t)got.rows + 1), (size_t)got.rows };
    if (!rows.v || !arena_str(a, name, &copy))
        return reader_no_room(e);
    for (int i = 0; i < got.rows; i++) {
        struct signal_row *x = &rows.v[i];
        *x = (struct signal_row){
            .run = run, .name = copy, .rejects = pg_bool(&got, i, 2), .time_ms = pg_i64(&got, i, 3)
        };
        if (!arena_str(a, pg_text(&got, i, 0), &x->sender) || !arena_str(a, pg_text(&got, i, 1), &x->payload))
            return reader_no_room(e);
    }
    *ret = rows;
    return ERR_OK;
}
