/* What all operations do with rows of tasks: read guards, insert, replace and delete rows, read rows of a result. */
#include <assert.h>

#include "store/common/reading.h"
#include "store/postgres/internal.h"

#define SQL_OF_X(column, kind, member, max) ", x." #column
#define TASK_NAMES                          "part" TASK_COLUMNS(SQL_NAME)

/* Locks in the order of the ids, so that transactions cannot deadlock. */
static const struct pg_statement read_guards = {
    "read_guards",
    "SELECT id, tenant_id, state, fence, deleted, claim_id, version, kind, cursor_ms, last_run_ms, runs_count, "
    "skipped_count, lane, losses, gates IS NOT NULL, waits_for, parent_id, (SELECT EXISTS (SELECT FROM wishes)), links, "
    "run_id, place, created_ms, started_ms, scheduled_ms FROM tasks WHERE id = ANY ($1) ORDER BY id FOR UPDATE",
};
static const struct pg_statement insert_rows = {
    "insert_rows",
    "INSERT INTO tasks (" TASK_NAMES ") SELECT * FROM unnest($*) ON CONFLICT (id) DO NOTHING RETURNING id",
};
static const struct pg_statement replace_row = {
    "replace_row",
    "UPDATE tasks SET (" TASK_NAMES ") = (x.part" TASK_COLUMNS(SQL_OF_X) ") FROM unnest($*) AS x(" TASK_NAMES
                                                                         ") WHERE tasks.id = x.id",
};
static const struct pg_statement delete_rows = { "delete_rows", "DELETE FROM tasks WHERE id = ANY ($1)" };
/* Locks parents in the order of their ids, so that transactions cannot deadlock. */
static const struct pg_statement lock_parents = {
    "lock_parents",
    "SELECT 1 FROM tasks WHERE id = ANY ($1) ORDER BY id FOR UPDATE",
};

void pg_add_ids(struct pg_params *p, const struct uuid *ids, size_t n)
{
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(p, ids[i]);
    pg_array_end(p);
}

/* ---- guards ---- */

enum guard_column {
    G_ID,
    G_TENANT,
    G_STATE,
    G_FENCE,
    G_DELETED,
    G_CLAIM,
    G_VERSION,
    G_KIND,
    G_CURSOR,
    G_LAST_RUN,
    G_RUNS,
    G_SKIPPED,
    G_LANE,
    G_LOSSES,
    G_GATED,
    G_WAITS_FOR,
    G_PARENT,
    G_RECALLS,
    G_LINKS,
    G_RUN,
    G_PLACE,
    G_CREATED,
    G_STARTED,
    G_SCHEDULED
};

static enum err pg_read_guard(struct store_postgres *s, const struct pg_result *r, int row, struct pg_guards *ret,
                              struct error *e)
{
    *ret = (struct pg_guards){
        .found = true,
        .version = pg_i64(r, row, G_VERSION),
        .fence = pg_i64(r, row, G_FENCE),
        .tenant = (int32_t)pg_i64(r, row, G_TENANT),
        .state = (enum task_state)pg_i64(r, row, G_STATE),
        .deleted = pg_bool(r, row, G_DELETED),
        .kind = (enum task_kind)pg_i64(r, row, G_KIND),
        .cursor_ms = pg_i64(r, row, G_CURSOR),
        .last_run_ms = pg_i64(r, row, G_LAST_RUN),
        .runs_count = pg_i64(r, row, G_RUNS),
        .skipped_count = pg_i64(r, row, G_SKIPPED),
        .lane = pg_i64(r, row, G_LANE),
        .losses = (int)pg_i64(r, row, G_LOSSES),
        .gated = pg_bool(r, row, G_GATED),
        .claim = pg_uuid(r, row, G_CLAIM),
        .parent = pg_uuid(r, row, G_PARENT),
        .any_recall_requests = pg_bool(r, row, G_RECALLS),
        .links = (int)pg_i64(r, row, G_LINKS),
        .run = pg_uuid(r, row, G_RUN),
        .place = pg_i64(r, row, G_PLACE),
        .created_ms = pg_i64(r, row, G_CREATED),
        .started_ms = pg_i64(r, row, G_STARTED),
        .scheduled_ms = pg_i64(r, row, G_SCHEDULED),
    };
    if (pg_is_null(r, row, G_WAITS_FOR))
        return ERR_OK;
    return arena_str(&s->arena, pg_text(r, row, G_WAITS_FOR), &ret->waits_for) ? ERR_OK : error_no_room(e);
}

/* The row of an id; -1: none. The rows are sorted by id. */
static int pg_guard_row(const struct pg_result *r, struct uuid id)
{
    int low = 0, high = r->rows - 1;
    while (low <= high) {
        int middle = low + (high - low) / 2, order = uuid_cmp(pg_uuid(r, middle, G_ID), id);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

enum err pg_read_guards(struct store_postgres *s, const struct uuid *ids, size_t n, struct pg_guards *ret,
                        struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, ids, n);
    if (pg_run(&s->conn, &read_guards, &s->params, &r, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        int row = pg_guard_row(&r, ids[i]);
        ret[i] = (struct pg_guards){ 0 };
        if (row >= 0 && pg_read_guard(s, &r, row, &ret[i], e))
            return e->code;
    }
    return ERR_OK;
}

/* ---- rows ---- */

/* "part" and all columns of n tasks, as parameters of insert_rows and replace_row. */
static enum err pg_add_tasks(struct store_postgres *s, const struct task *const *tasks, size_t n, struct error *e)
{
    int64_t *lanes = arena_array(&s->arena, int64_t, max_of(n, (size_t)1));
    struct pg_lane_want *wants = arena_array(&s->arena, struct pg_lane_want, max_of(n, (size_t)1));
    if (!lanes || !wants)
        return error_no_room(e);
    for (size_t i = 0; i < n; i++)
        wants[i] = (struct pg_lane_want){ .lane = task_lane(tasks[i]), .pool = task_pool(tasks[i]) };
    if (pg_lane_numbers(s, wants, n, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        lanes[i] = wants[i].number;
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_I16);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(&s->params, partition_of(tasks[i]->id));
    pg_array_end(&s->params);
    pg_add_rows(&s->params, &table_tasks, (const void *const *)tasks, lanes, n);
    return ERR_OK;
}

/* Notes a task row that was written: counts, `ended`, and the due time. */
static void pg_note_row(struct store_postgres *s, const struct task *t)
{
    pg_tally_new(s, t->tenant, t->deleted, t->state, 1);
    pg_note_ended(s, t->id, t->state, t->completed_ms);
    if (t->state == TASK_SCHEDULED)
        pg_note_due(s, t->kind == TASK_RECURRING ? t->cursor_ms : t->due_ms);
}

/* RETURNING gives the ids of the new rows in the order of the parameters. */
static enum err pg_insert_mark_new(struct store_postgres *s, const struct task *const *tasks, size_t n,
                                   const struct pg_result *r, bool *ret_new, struct error *e)
{
    int at = 0;
    for (size_t i = 0; i < n; i++) {
        ret_new[i] = at < r->rows && uuid_eq(pg_uuid(r, at, 0), tasks[i]->id);
        at += ret_new[i];
    }
    return at == r->rows ? ERR_OK : pg_corrupt(&s->conn, "INSERT returned the rows in another order", e);
}

enum err pg_insert_rows(struct store_postgres *s, const struct task *const *tasks, size_t n, bool *ret_new,
                        struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (n == 0)
        return ERR_OK;
    if (pg_add_tasks(s, tasks, n, e) || pg_run(&s->conn, &insert_rows, &s->params, &r, e) ||
        pg_insert_mark_new(s, tasks, n, &r, ret_new, e))
        return e->code;
    for (size_t i = 0; i < n; i++) {
        if (!ret_new[i])
            continue;
        pg_note_row(s, tasks[i]);
        if (tasks[i]->state == TASK_RUNNING && pg_claim_join(s, tasks[i]->claim, tasks[i]->id, e))
            return e->code;
    }
    return ERR_OK;
}

enum err pg_replace_row(struct store_postgres *s, const struct pg_guards *old, const struct task *t, struct error *e)
{
    if (pg_add_tasks(s, &t, 1, e) || pg_queue(&s->conn, &replace_row, &s->params, e))
        return e->code;
    pg_tally_new(s, old->tenant, old->deleted, old->state, -1);
    pg_note_row(s, t);
    bool held = old->state == TASK_RUNNING && !uuid_is_nil(old->claim),
         holds = t->state == TASK_RUNNING && !uuid_is_nil(t->claim);
    if (held && holds && uuid_eq(old->claim, t->claim))
        return ERR_OK;
    if (holds && pg_claim_join(s, t->claim, t->id, e))
        return e->code;
    if (!held)
        return ERR_OK;
    const struct lane_row *row;
    pg_note_left(s, old->claim);
    if (pg_lanes_at(&s->conn, &s->lanes, old->lane, &row, e))
        return e->code;
    return pool_is_leased(row->pool) ? pg_lease_drop_terms(s, &t->id, 1, e) : ERR_OK;
}

enum err pg_delete_rows(struct store_postgres *s, const struct uuid *ids, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, ids, n);
    return pg_queue(&s->conn, &delete_rows, &s->params, e);
}

enum err pg_lock_parents(struct store_postgres *s, const struct uuid *parents, size_t n, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, parents, n);
    return pg_queue(&s->conn, &lock_parents, &s->params, e);
}

/* ---- results ---- */

enum err pg_scratch_read(struct store_postgres *s, const struct pg_result *r, int row, size_t n, struct arena *a,
                         struct error *e)
{
    if (n >= s->scratch_cap) {
        s->scratch_cap = s->scratch_cap * 2 + 64;
        s->scratch = xrealloc(s->scratch, s->scratch_cap * sizeof *s->scratch);
    }
    assert(n < s->scratch_cap);
    s->scratch[n] = (struct task){ 0 };
    return pg_row_read(&s->conn, &s->lanes, r, row, 1, &table_tasks, a, &s->scratch[n], e);
}

enum err pg_read_tasks(struct store_postgres *s, const struct pg_result *r, size_t n, struct arena *a,
                       struct tasks *ret, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (pg_scratch_read(s, r, (int)i, i, a, e))
            return e->code;
    return pg_scratch_take(s, n, a, ret, e);
}

enum err pg_scratch_take(struct store_postgres *s, size_t n, struct arena *a, struct tasks *ret, struct error *e)
{
    return reader_copy_tasks(s->scratch, n, a, ret, e);
}
