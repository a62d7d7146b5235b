/* OP_RECURRING and OP_SPAWN. Two nodes may plan the same occurrences. The recurring task's row decides: its cursor
 * moves for one of them only. */
#include <stdlib.h>

#include "store/postgres/internal.h"

/* $1 and $2: only tasks behind this cursor_ms and id (NULL: the lowest id); $3 own partitions (NULL: all). */
#define NIL     "'00000000-0000-0000-0000-000000000000'"
#define BEHIND  "state = " SQL_SCHEDULED " AND kind = 1 AND (cursor_ms, id) > ($1, coalesce($2, " NIL "))"
#define IS_OURS "($3 IS NULL OR get_bit($3, part) = 1)"
#define FIRST   " ORDER BY cursor_ms, id LIMIT "

static const struct pg_statement read_recurring = {
    "recurring",
    "SELECT part" TASK_COLUMNS(SQL_NAME) " FROM tasks WHERE " BEHIND " AND cursor_ms < $4 AND (" IS_OURS
                                         " OR cursor_ms < $5)" FIRST "$6",
};
static const struct pg_statement next_of_ours = {
    "recurring_ours",
    "SELECT cursor_ms FROM tasks WHERE " BEHIND " AND " IS_OURS FIRST "1",
};
static const struct pg_statement next_of_others = {
    "recurring_others",
    "SELECT cursor_ms FROM tasks WHERE " BEHIND " AND NOT " IS_OURS FIRST "1",
};

/* Of each task $1, the first occurrences from the id $2 on. */
static const struct pg_statement read_taken = {
    "recurring_taken",
    "SELECT p.place, o.* FROM unnest($1, $2) WITH ORDINALITY AS p(id, from_id, place) CROSS JOIN LATERAL "
    "(SELECT id, state, scheduled_ms, due_ms, cursor_ms, skipped_count FROM tasks WHERE parent_id = p.id AND kind = 2 "
    "AND id >= p.from_id ORDER BY id LIMIT $3) AS o ORDER BY p.place, o.id",
};

/* Locks in the order of the ids. A transaction that waited while another moved the same cursor finds that version and
 * cursor have changed: spawn_move leaves that row out. */
static const struct pg_statement lock_recurring = {
    "spawn_lock",
    "SELECT FROM tasks WHERE id = ANY ($1) ORDER BY id FOR UPDATE",
};
static const struct pg_statement spawn_move = {
    "spawn_move",
    "UPDATE tasks SET cursor_ms = x.next_ms, runs_count = runs_count + x.runs, "
    "skipped_count = skipped_count + x.skipped, state = CASE WHEN x.ended THEN " SQL_COMPLETED " ELSE state END, "
    "updated_ms = CASE WHEN x.ended THEN x.now_ms ELSE updated_ms END, "
    "completed_ms = CASE WHEN x.ended THEN x.now_ms ELSE completed_ms END "
    "FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) WITH ORDINALITY "
    "AS x(task, version, cursor_ms, next_ms, runs, skipped, ended, now_ms, place) WHERE id = x.task AND kind = 1 AND "
    "state = " SQL_SCHEDULED
    " AND tasks.version = x.version AND tasks.cursor_ms = x.cursor_ms RETURNING x.place, tenant_id, deleted",
};

/* Skipped occurrences that existed already. */
static const struct pg_statement spawn_uncount = {
    "spawn_uncount",
    "UPDATE tasks SET skipped_count = skipped_count - $2 WHERE id = $1",
};

/* ---- OP_RECURRING ---- */

struct pg_cursor_position {
    int64_t cursor_ms;
    struct uuid id;
};

static const struct uuid last_id = { { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                       255 } };

static bool pg_cursor_before(const struct pg_cursor_position *a, const struct pg_cursor_position *b)
{
    return a->cursor_ms != b->cursor_ms ? a->cursor_ms < b->cursor_ms : uuid_cmp(a->id, b->id) < 0;
}

/* $1 to $3. */
static void pg_recurring_add_position(struct pg_params *p, const struct pg_cursor_position *pg_cursor_position,
                                      const struct partitions *own)
{
    pg_params_reset(p);
    pg_add_i64(p, pg_cursor_position->cursor_ms);
    pg_add_uuid(p, pg_cursor_position->id);
    pg_add_partitions(p, own);
}

/* The earliest cursor that is not in the result. Our tasks are behind the last one of the result; tasks of other
 * partitions may also be before it. */
static enum err pg_recurring_read_next(struct store_postgres *s, const struct op_recurring *op, size_t n,
                                       const struct pg_cursor_position *last, int64_t *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result ours = { 0 };
    cleanup_with(pg_result_release) struct pg_result others = { 0 };
    pg_recurring_add_position(&s->params, last, op->own);
    if (pg_send(&s->conn, &next_of_ours, &s->params, e))
        return e->code;
    struct pg_cursor_position after = { op->after_cursor_ms, op->after_id },
                              helped = { op->help_until_ms - 1, last_id };
    if (n == op->max && pg_cursor_before(last, &helped))
        helped = *last;
    if (pg_cursor_before(&helped, &after))
        helped = after;
    pg_recurring_add_position(&s->params, &helped, op->own);
    if (op->own && pg_send(&s->conn, &next_of_others, &s->params, e))
        return e->code;
    if (pg_get(&s->conn, &ours, e) || (op->own && pg_get(&s->conn, &others, e)))
        return e->code;
    *ret = ours.rows ? pg_i64(&ours, 0, 0) : INT64_MAX;
    if (others.rows)
        *ret = min_of(*ret, pg_i64(&others, 0, 0) + op->until_ms - op->help_until_ms);
    return ERR_OK;
}

static struct task pg_taken_row(const struct pg_result *r, int row, struct uuid parent)
{
    return (struct task){ .id = pg_uuid(r, row, 1),
                          .parent = parent,
                          .kind = TASK_OCCURRENCE,
                          .state = (enum task_state)pg_i64(r, row, 2),
                          .scheduled_ms = pg_i64(r, row, 3),
                          .due_ms = pg_i64(r, row, 4),
                          .cursor_ms = pg_i64(r, row, 5),
                          .skipped_count = pg_i64(r, row, 6) };
}

/* Asks for the rows of those tasks that want them; at[] says which they are. */
static enum err pg_ask_taken(struct store_postgres *s, const struct tasks *found, const struct taken_rows *rows,
                             const size_t *at, size_t n, struct pg_result *ret, struct error *e)
{
    struct pg_params *p = &s->params;
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(p, found->v[at[i]].id);
    pg_array_end(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(p, rows[at[i]].from);
    pg_array_end(p);
    pg_add_i64(p, TAKEN_MAX);
    return pg_run(&s->conn, &read_taken, p, ret, e);
}

/* One more statement, if any of the tasks was changed lately. */
static enum err pg_recurring_taken(struct store_postgres *s, const struct tasks *found, struct op_recurring *op,
                                   struct error *e)
{
    struct arena *a = &op->op.arena;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct spawn_taken *taken = arena_array(a, struct spawn_taken, found->n);
    struct taken_rows *rows = arena_array(a, struct taken_rows, found->n);
    size_t *at = arena_array(a, size_t, found->n), n = 0;
    if (!taken || !rows || !at)
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    for (size_t i = 0; i < found->n; i++)
        if (taken_rows_begin(&rows[i], op, &found->v[i], a))
            at[n++] = i;
    if (n && pg_ask_taken(s, found, rows, at, n, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++) {
        size_t of = at[pg_i64(&r, i, 0) - 1];
        struct task o = pg_taken_row(&r, i, found->v[of].id);
        if (taken_rows_add(&rows[of], &o, e))
            return e->code;
    }
    for (size_t i = 0; i < found->n; i++)
        taken[i] = taken_rows_end(&rows[i]);
    op->ret_taken = taken;
    return ERR_OK;
}

enum err postgres_recurring(struct store_postgres *s, struct op *base)
{
    struct op_recurring *op = (struct op_recurring *)base;
    struct error *e = &base->error;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_cursor_position last = { op->after_cursor_ms, op->after_id };
    pg_recurring_add_position(&s->params, &last, op->own);
    pg_add_i64(&s->params, op->until_ms);
    pg_add_i64(&s->params, op->own ? op->help_until_ms : op->until_ms);
    pg_add_i64(&s->params, (int64_t)op->max);
    if (pg_run(&s->conn, &read_recurring, &s->params, &r, e))
        return e->code;
    size_t n = (size_t)r.rows;
    for (size_t i = 0; i < n; i++)
        if (pg_scratch_read(s, &r, (int)i, i, &base->arena, e))
            return e->code;
    if (n)
        last = (struct pg_cursor_position){ s->scratch[n - 1].cursor_ms, s->scratch[n - 1].id };
    struct tasks found;
    int64_t next_ms;
    if (pg_scratch_take(s, n, &base->arena, &found, e) || pg_recurring_read_next(s, op, n, &last, &next_ms, e) ||
        pg_recurring_taken(s, &found, op, e))
        return e->code;
    op->ret = found;
    op->ret_next_ms = next_ms;
    return ERR_OK;
}

/* ---- OP_SPAWN ---- */

enum { BATCH_OPS_MAX = 500, BATCH_ROWS_MAX = 4000 };

static const struct op_spawn *pg_spawn_op(const struct op *op)
{
    return (const struct op_spawn *)op;
}

/* How many spawns fit into one batch: they name different tasks and are not too large. At least one. */
static size_t pg_spawn_batch_size(struct op *const *ops, size_t n)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->kind != OP_SPAWN)
            return i;
        rows += pg_spawn_op(ops[i])->plan->occurrences.n;
        bool stops = i == BATCH_OPS_MAX || rows > BATCH_ROWS_MAX;
        for (size_t j = 0; !stops && j < i; j++)
            stops = uuid_eq(pg_spawn_op(ops[j])->id, pg_spawn_op(ops[i])->id);
        if (i && stops)
            return i;
    }
    return n;
}

#define ADD_NUMBERS(p, ops, n, number)                                                                                 \
    do {                                                                                                               \
        pg_array((p), PG_I64);                                                                                         \
        for (size_t i_ = 0; i_ < (n); i_++)                                                                            \
            pg_element_i64((p), pg_spawn_op((ops)[i_])->number);                                                       \
        pg_array_end(p);                                                                                               \
    } while (0)

static void pg_spawn_add_ids(struct pg_params *p, struct op *const *ops, size_t n)
{
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++)
        pg_element_uuid(p, pg_spawn_op(ops[i])->id);
    pg_array_end(p);
}

static enum err pg_spawn_move_cursors(struct store_postgres *s, struct op *const *ops, size_t n, struct pg_result *ret,
                                      struct error *e)
{
    struct pg_params *p = &s->params;
    pg_spawn_add_ids(p, ops, n);
    if (n > 1 && pg_queue(&s->conn, &lock_recurring, p, e))
        return e->code;
    ADD_NUMBERS(p, ops, n, version);
    ADD_NUMBERS(p, ops, n, cursor_ms);
    ADD_NUMBERS(p, ops, n, plan->cursor_ms);
    ADD_NUMBERS(p, ops, n, plan->runs);
    ADD_NUMBERS(p, ops, n, plan->skipped);
    pg_array(p, PG_BOOL);
    for (size_t i = 0; i < n; i++)
        pg_element_bool(p, pg_spawn_op(ops[i])->plan->ended);
    pg_array_end(p);
    ADD_NUMBERS(p, ops, n, now_ms);
    return pg_run(&s->conn, &spawn_move, p, ret, e);
}

static void pg_spawn_note_ended(struct store_postgres *s, const struct op_spawn *op, int32_t tenant, bool deleted)
{
    if (!op->plan->ended)
        return;
    pg_tally_move(s, tenant, deleted, TASK_SCHEDULED, TASK_COMPLETED);
    pg_note_ended(s, op->id, TASK_COMPLETED, op->now_ms);
    change_add(&s->base, op->id, TASK_SCHEDULED, TASK_COMPLETED);
}

static enum err pg_spawn_uncount(struct store_postgres *s, const struct task *skipped, struct error *e)
{
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, skipped->parent);
    pg_add_i64(&s->params, skipped->skipped_count);
    return pg_queue(&s->conn, &spawn_uncount, &s->params, e);
}

/* Inserts the occurrences of the tasks whose cursor has moved. */
static enum err pg_spawn_insert(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += pg_spawn_op(ops[i])->plan->occurrences.n;
    const struct task **v = xcalloc(count + 1, sizeof(struct task *));
    bool *is_new = xcalloc(count + 1, sizeof *is_new);
    count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tasks *t = &pg_spawn_op(ops[i])->plan->occurrences;
        for (size_t j = 0; ops[i]->rc == ERR_OK && j < t->n; j++)
            v[count++] = &t->v[j];
    }
    enum err rc = pg_insert_rows(s, v, count, is_new, e);
    for (size_t i = 0; !rc && i < count; i++)
        if (!is_new[i] && v[i]->skipped_count)
            rc = pg_spawn_uncount(s, v[i], e);
    free(v);
    free(is_new);
    return rc;
}

static enum err pg_spawn_batch(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result moved = { 0 };
    if (pg_spawn_move_cursors(s, ops, n, &moved, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        ops[i]->rc = error_set(&ops[i]->error, ERR_CONFLICT, "the recurring task has changed since");
    for (int i = 0; i < moved.rows; i++) {
        struct op *op = ops[pg_i64(&moved, i, 0) - 1];
        op->rc = ERR_OK;
        op->error = (struct error){ 0 };
        pg_spawn_note_ended(s, pg_spawn_op(op), (int32_t)pg_i64(&moved, i, 1), pg_bool(&moved, i, 2));
    }
    return pg_spawn_insert(s, ops, n, e);
}

/* If the cursors have moved but the occurrences cannot be inserted, the transaction must not commit. The caller tries
 * smaller batches to find the operation that fails. */
size_t postgres_spawn_many(struct store_postgres *s, struct op *const *ops, size_t n)
{
    struct error e;
    n = pg_spawn_batch_size(ops, n);
    if (pg_spawn_batch(s, ops, n, &e) && !s->conn.failed) {
        s->conn.failed = e.code;
        s->conn.failure = e;
    }
    return n;
}

enum err postgres_spawn(struct store_postgres *s, struct op *base)
{
    postgres_spawn_many(s, &base, 1);
    return base->rc;
}
