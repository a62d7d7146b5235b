/* OP_INSERT.
 *
 * Plain inserts run as a batch: one statement for the records of their idempotency keys, one for all task rows. An
 * insert is plain if only an existing key or id can make it fail. If another transaction inserts the same key or id at
 * the same time, the unique index makes this one wait; afterwards it is a conflict or a repeated insert. Keys and ids
 * are sorted, so that transactions cannot deadlock. If an operation of a batch fails, its rows and its key are deleted
 * again. Inserts with limits, dedupe keys or calendars run alone, in a savepoint. */
#include <assert.h>
#include <stdlib.h>

#include "store/postgres/internal.h"

static const struct pg_statement insert_keys = {
    "insert_keys",
    "INSERT INTO idempotency SELECT * FROM unnest($*) ON CONFLICT (key, tenant_id) DO NOTHING RETURNING key, tenant_id",
};
static const struct pg_statement delete_key = {
    "insert_delete_key",
    "DELETE FROM idempotency WHERE key = $1 AND tenant_id = $2",
};
static const struct pg_statement read_created = {
    "insert_created",
    "SELECT id, created_ms FROM tasks WHERE id = ANY ($1) ORDER BY id",
};
static const struct pg_statement dedupe_insert = {
    "dedupe_insert",
    "INSERT INTO dedupe (tenant_id, key, task_id, until_ms) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (tenant_id, key) DO NOTHING",
};
static const struct pg_statement dedupe_lock = {
    "dedupe_lock",
    "SELECT task_id, until_ms FROM dedupe WHERE tenant_id = $1 AND key = $2 FOR UPDATE",
};
static const struct pg_statement dedupe_update = {
    "dedupe_take",
    "UPDATE dedupe SET task_id = $3, until_ms = $4 WHERE tenant_id = $1 AND key = $2",
};
static const struct pg_statement dedupe_holder = {
    "dedupe_holder",
    "SELECT FROM tasks WHERE id = $1 AND NOT deleted",
};

/* ---- existing tasks ---- */

static enum err pg_insert_conflict_error(const struct task *t, struct error *e)
{
    char text[UUID_TEXT + 1];
    uuid_format(t->id, text);
    (void)error_set(e, ERR_CONFLICT, "there is another task %s already", text);
    return error_in(e, "id");
}

/* The rows are sorted by id. */
static bool pg_insert_find_created(const struct pg_result *r, struct uuid id, int64_t *ret)
{
    for (int low = 0, high = r->rows; low < high;) {
        int middle = low + (high - low) / 2, order = uuid_cmp(pg_uuid(r, middle, 0), id);
        if (order == 0) {
            *ret = pg_i64(r, middle, 1);
            return true;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return false;
}

/* A repeated insert of the same task is fine, another task with its id is not. A task that was purged in between was
 * inserted, and is gone. */
static bool pg_insert_is_same(const struct pg_result *created, const struct task *t)
{
    int64_t created_ms;
    return !pg_insert_find_created(created, t->id, &created_ms) || created_ms == t->created_ms;
}

/* Reads created_ms of the tasks that existed already. Sends nothing if all are new. */
static enum err pg_insert_read_existing(struct store_postgres *s, const struct task *const *tasks, const bool *is_new,
                                        size_t n, struct pg_result *ret, struct error *e)
{
    struct pg_params *p = &s->params;
    size_t old = 0;
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++) {
        if (is_new[i])
            continue;
        pg_element_uuid(p, tasks[i]->id);
        old++;
    }
    pg_array_end(p);
    return old ? pg_run(&s->conn, &read_created, p, ret, e) : ERR_OK;
}

/* ---- dedupe keys ---- */

static void pg_dedupe_add_key(struct pg_params *p, const struct task *t)
{
    pg_params_reset(p);
    pg_add_i32(p, t->tenant);
    pg_add_text(p, t->dedupe_key);
}

static enum err pg_dedupe_write(struct store_postgres *s, const struct pg_statement *how, const struct task *t,
                                bool *ret_done, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_dedupe_add_key(&s->params, t);
    pg_add_uuid(&s->params, t->id);
    pg_add_i64(&s->params, t->created_ms + t->dedupe_window_ms);
    if (pg_run(&s->conn, how, &s->params, &r, e))
        return e->code;
    *ret_done = r.affected > 0;
    return ERR_OK;
}

/* Reads the holder's row in a statement of its own: the snapshot of the statement that waited for the key does not
 * contain a holder that was inserted together with it, and the key would be taken from that holder. */
static enum err pg_dedupe_may_take(struct store_postgres *s, const struct task *t, struct uuid takes_over,
                                   const struct pg_result *held, bool *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct uuid holder = pg_uuid(held, 0, 0);
    *ret = uuid_eq(holder, t->id) || uuid_eq(holder, takes_over) || pg_i64(held, 0, 1) <= t->created_ms;
    if (*ret)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, holder);
    if (pg_run(&s->conn, &dedupe_holder, &s->params, &r, e))
        return e->code;
    *ret = r.rows == 0;
    return ERR_OK;
}

static enum err pg_dedupe_held_error(struct error *e)
{
    (void)error_set(e, ERR_CONFLICT, "another task holds this key");
    return error_in(e, "dedupe_key");
}

/* Takes the dedupe key for a task that was just inserted, unless another task holds it. */
static enum err pg_dedupe_take(struct store_postgres *s, const struct task *t, struct uuid takes_over, struct error *e)
{
    if (t->dedupe_key.n == 0 || t->kind == TASK_OCCURRENCE)
        return ERR_OK;
    assert(t->dedupe_key.n <= DEDUPE_KEY_MAX && t->dedupe_window_ms >= 0);
    for (bool done = false, may;;) {
        cleanup_with(pg_result_release) struct pg_result held = { 0 };
        if (pg_dedupe_write(s, &dedupe_insert, t, &done, e))
            return e->code;
        if (done)
            return ERR_OK;
        pg_dedupe_add_key(&s->params, t);
        if (pg_run(&s->conn, &dedupe_lock, &s->params, &held, e))
            return e->code;
        if (held.rows == 0)
            continue; /* the key was purged in between */
        if (pg_dedupe_may_take(s, t, takes_over, &held, &may, e))
            return e->code;
        return may ? pg_dedupe_write(s, &dedupe_update, t, &done, e) : pg_dedupe_held_error(e);
    }
}

/* ---- one operation ---- */

static bool pg_insert_is_recurring(const struct task *t)
{
    return t->kind == TASK_RECURRING && !t->deleted && !task_is_final(t->state);
}

static enum err pg_insert_check_rows(struct store_postgres *s, const struct op_insert *op,
                                     const struct task *const *tasks, const bool *is_new, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result created = { 0 };
    bool has_new_recurring = false;
    if (pg_insert_read_existing(s, tasks, is_new, op->count, &created, e))
        return e->code;
    for (size_t i = 0; i < op->count; i++) {
        const struct task *t = tasks[i];
        struct uuid takes_over = op->takes_over ? op->takes_over[i] : (struct uuid){ 0 };
        if (!is_new[i] && !pg_insert_is_same(&created, t))
            return pg_insert_conflict_error(t, e);
        if (is_new[i] && (pg_calendar_check(s, t, e) || pg_dedupe_take(s, t, takes_over, e)))
            return e->code;
        has_new_recurring = has_new_recurring || (is_new[i] && pg_insert_is_recurring(t));
    }
    return pg_limits_check(s, op, has_new_recurring, e);
}

/* Decides what the parents make of each new child. A task that exists already has no plan. */
static enum err pg_insert_plan(struct store_postgres *s, const struct op_insert *op, struct join_plan *plans,
                               const struct task **tasks, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result created = { 0 };
    bool *is_new = xcalloc(op->count + 1, sizeof *is_new);
    enum err rc = pg_insert_read_existing(s, tasks, is_new, op->count, &created, e);
    for (size_t i = 0; !rc && i < op->count; i++) {
        int64_t created_ms;
        if (!op->depends[i].n || pg_insert_find_created(&created, op->tasks[i].id, &created_ms))
            continue;
        rc = join_plan_make(&s->joins, &op->tasks[i], &op->depends[i], &plans[i], e);
        tasks[i] = &plans[i].task;
    }
    free(is_new);
    return rc;
}

static enum err pg_insert_write_plans(struct store_postgres *s, const struct op_insert *op,
                                      const struct join_plan *plans, const bool *is_new, struct error *e)
{
    for (size_t i = 0; i < op->count; i++) {
        if (!is_new[i] || !plans[i].depends)
            continue;
        change_add(&s->base, op->tasks[i].id, CHANGE_NEW, plans[i].task.state);
        if (join_plan_write(&s->joins, &plans[i], e))
            return e->code;
    }
    return ERR_OK;
}

enum err postgres_insert(struct store_postgres *s, struct op *base)
{
    const struct op_insert *op = (const struct op_insert *)base;
    struct error *e = &base->error;
    const struct task **tasks = xcalloc(op->count + 1, sizeof *tasks);
    bool *is_new = xcalloc(op->count + 1, sizeof *is_new);
    for (size_t i = 0; i < op->count; i++)
        tasks[i] = &op->tasks[i];
    struct join_plan *plans = op->depends ? xcalloc(op->count + 1, sizeof *plans) : NULL;
    enum err rc = pg_idempotency_put(s, op->idempotency, e);
    rc = rc || !op->definition ? rc : pg_definition_put(s, op->definition, op->tasks[0].created_ms, e);
    rc = rc || !plans ? rc : pg_insert_plan(s, op, plans, tasks, e);
    rc = rc ? rc : pg_insert_rows(s, tasks, op->count, is_new, e);
    rc = rc ? rc : pg_insert_check_rows(s, op, tasks, is_new, e);
    rc = rc || !plans ? rc : pg_insert_write_plans(s, op, plans, is_new, e);
    for (size_t i = 0; plans && i < op->count; i++)
        join_plan_release(&plans[i]);
    free(plans);
    free(tasks);
    free(is_new);
    return rc;
}

/* ---- batches: collecting operations ---- */

enum { BATCH_TASKS_MAX = 4096, BATCH_BYTES_MAX = 16 << 20 }; /* for one statement; a single operation may have more */

/* Only its key or its ids can make the insert fail, and deleting its rows undoes it. */
static bool pg_insert_is_plain(const struct op_insert *op)
{
    if (op->max_pending || op->max_recurring || op->depends || op->definition)
        return false;
    for (size_t i = 0; i < op->count; i++) {
        const struct task *t = &op->tasks[i];
        if (t->dedupe_key.n || task_needs_calendar(t) || t->state == TASK_RUNNING)
            return false;
    }
    return true;
}

/* One operation of a batch, and one task. */
struct pg_batch_op {
    struct op_insert *op;
    size_t place;
    bool has_key; /* the record of its key was inserted */
};

struct pg_batch_task {
    struct pg_batch_op *of;
    const struct task *task;
    bool is_new;
};

struct pg_insert_batch {
    struct pg_batch_op *ops;
    size_t n;
    struct pg_batch_op **keyed; /* the operations with keys, sorted by key */
    size_t keyed_count;
    struct pg_batch_task *tasks; /* sorted by id */
    size_t task_count;
};

static int pg_batch_compare_places(const struct pg_batch_op *a, const struct pg_batch_op *b)
{
    return (a->place > b->place) - (a->place < b->place);
}

static int pg_batch_compare_keys(const struct idempotency *a, const struct idempotency *b)
{
    int order = memcmp(a->key, b->key, sizeof a->key);
    return order ? order : (a->tenant > b->tenant) - (a->tenant < b->tenant);
}

static int pg_batch_by_key(const void *a, const void *b)
{
    const struct pg_batch_op *x = *(struct pg_batch_op *const *)a, *y = *(struct pg_batch_op *const *)b;
    int order = pg_batch_compare_keys(x->op->idempotency, y->op->idempotency);
    return order ? order : pg_batch_compare_places(x, y);
}

static int pg_batch_by_id(const void *a, const void *b)
{
    const struct pg_batch_task *x = a, *y = b;
    int order = uuid_cmp(x->task->id, y->task->id);
    return order ? order : pg_batch_compare_places(x->of, y->of);
}

static size_t pg_insert_text_bytes(const struct op_insert *op)
{
    size_t n = 0;
    for (size_t i = 0; i < op->count; i++)
        n += op->tasks[i].payload.n + op->tasks[i].target_config.n + op->tasks[i].extra.n;
    return n;
}

/* How many operations from the first on may run as one batch, judged by their content; 0: the first one runs alone. */
static size_t pg_batch_limit(struct op *const *ops, size_t n, size_t *ret_tasks)
{
    size_t bytes = 0, count = 0;
    *ret_tasks = 0;
    for (; count < n; count++) {
        const struct op_insert *op = (const struct op_insert *)ops[count];
        bytes += pg_insert_text_bytes(op);
        bool fits = *ret_tasks + op->count <= BATCH_TASKS_MAX && bytes <= BATCH_BYTES_MAX;
        if (!pg_insert_is_plain(op) || (count > 0 && !fits))
            break;
        *ret_tasks += op->count;
    }
    return count;
}

static void pg_batch_init(struct pg_insert_batch *j, struct op *const *ops, size_t n, size_t tasks)
{
    *j = (struct pg_insert_batch){ .n = n,
                                   .ops = xcalloc(n, sizeof *j->ops),
                                   .keyed = xcalloc(n, sizeof(struct pg_batch_op *)),
                                   .tasks = xcalloc(tasks + 1, sizeof *j->tasks) };
    for (size_t i = 0; i < n; i++) {
        struct op_insert *op = (struct op_insert *)ops[i];
        j->ops[i] = (struct pg_batch_op){ .op = op, .place = i };
        op->op.rc = ERR_OK;
        if (op->idempotency)
            j->keyed[j->keyed_count++] = &j->ops[i];
        for (size_t k = 0; k < op->count; k++)
            j->tasks[j->task_count++] = (struct pg_batch_task){ .of = &j->ops[i], .task = &op->tasks[k] };
    }
    qsort(j->keyed, j->keyed_count, sizeof(struct pg_batch_op *), pg_batch_by_key);
    qsort(j->tasks, j->task_count, sizeof *j->tasks, pg_batch_by_id);
}

static void pg_batch_release(struct pg_insert_batch *j)
{
    free(j->ops);
    free(j->keyed);
    free(j->tasks);
}

/* The first operation that repeats a key or an id of an earlier one, or names an id twice: it must see the earlier
 * insert. */
static size_t pg_batch_first_repeated(const struct pg_insert_batch *j)
{
    size_t first = j->n;
    for (size_t i = 1; i < j->keyed_count; i++)
        if (pg_batch_compare_keys(j->keyed[i - 1]->op->idempotency, j->keyed[i]->op->idempotency) == 0)
            first = min_of(first, j->keyed[i]->place);
    for (size_t i = 1; i < j->task_count; i++)
        if (uuid_eq(j->tasks[i - 1].task->id, j->tasks[i].task->id))
            first = min_of(first, j->tasks[i].of->place);
    return first;
}

/* ---- batches: inserting keys and rows, undoing failed operations ---- */

static bool pg_batch_is_key_at(const struct pg_result *r, int row, const struct idempotency *i)
{
    return row < r->rows && str_eq(pg_text(r, row, 0), (struct str){ (const char *)i->key, sizeof i->key }) &&
           pg_i64(r, row, 1) == i->tenant;
}

static enum err pg_batch_insert_keys(struct store_postgres *s, struct pg_insert_batch *j, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (j->keyed_count == 0)
        return ERR_OK;
    const void **rows = xcalloc(j->keyed_count, sizeof *rows);
    for (size_t i = 0; i < j->keyed_count; i++)
        rows[i] = j->keyed[i]->op->idempotency;
    pg_params_reset(&s->params);
    pg_add_rows(&s->params, &table_idempotency, rows, NULL, j->keyed_count);
    free(rows);
    if (pg_run(&s->conn, &insert_keys, &s->params, &r, e))
        return e->code;
    int at = 0; /* RETURNING gives the new keys in the order of the parameters */
    for (size_t i = 0; i < j->keyed_count; i++) {
        struct op *op = &j->keyed[i]->op->op;
        j->keyed[i]->has_key = pg_batch_is_key_at(&r, at, j->keyed[i]->op->idempotency);
        at += j->keyed[i]->has_key;
        if (!j->keyed[i]->has_key)
            op->rc = pg_idempotency_used_error(&op->error);
    }
    return at == r.rows ? ERR_OK : pg_corrupt(&s->conn, "INSERT returned the keys in another order", e);
}

/* Removes the tasks of operations that have failed. */
static void pg_batch_drop_failed(struct pg_insert_batch *j)
{
    size_t n = 0;
    for (size_t i = 0; i < j->task_count; i++)
        if (j->tasks[i].of->op->op.rc == ERR_OK)
            j->tasks[n++] = j->tasks[i];
    j->task_count = n;
}

static enum err pg_batch_insert_rows(struct store_postgres *s, struct pg_insert_batch *j, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result created = { 0 };
    const struct task **tasks = xcalloc(j->task_count + 1, sizeof *tasks);
    bool *is_new = xcalloc(j->task_count + 1, sizeof *is_new);
    for (size_t i = 0; i < j->task_count; i++)
        tasks[i] = j->tasks[i].task;
    enum err rc = pg_insert_rows(s, tasks, j->task_count, is_new, e);
    rc = rc ? rc : pg_insert_read_existing(s, tasks, is_new, j->task_count, &created, e);
    for (size_t i = 0; !rc && i < j->task_count; i++) {
        struct op *op = &j->tasks[i].of->op->op;
        j->tasks[i].is_new = is_new[i];
        if (!is_new[i] && !pg_insert_is_same(&created, tasks[i]) && op->rc == ERR_OK)
            op->rc = pg_insert_conflict_error(tasks[i], &op->error);
    }
    free(tasks);
    free(is_new);
    return rc;
}

/* Deletes the rows that failed operations have inserted. */
static enum err pg_batch_undo_rows(struct store_postgres *s, const struct pg_insert_batch *j, struct error *e)
{
    struct uuid *ids = xcalloc(j->task_count + 1, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < j->task_count; i++) {
        const struct task *t = j->tasks[i].task;
        if (j->tasks[i].of->op->op.rc == ERR_OK || !j->tasks[i].is_new)
            continue;
        pg_tally_new(s, t->tenant, t->deleted, t->state, -1);
        ids[n++] = t->id;
    }
    enum err rc = pg_delete_rows(s, ids, n, e);
    free(ids);
    return rc;
}

static enum err pg_batch_undo_keys(struct store_postgres *s, const struct pg_insert_batch *j, struct error *e)
{
    for (size_t i = 0; i < j->keyed_count; i++) {
        const struct idempotency *key = j->keyed[i]->op->idempotency;
        if (j->keyed[i]->op->op.rc == ERR_OK || !j->keyed[i]->has_key)
            continue;
        pg_params_reset(&s->params);
        pg_add_bytes(&s->params, (struct str){ (const char *)key->key, sizeof key->key });
        pg_add_i32(&s->params, key->tenant);
        if (pg_queue(&s->conn, &delete_key, &s->params, e))
            return e->code;
    }
    return ERR_OK;
}

/* If the batch does not fit into memory, nothing was written, and its operations fail with that error. If the
 * connection fails, so does the whole transaction. */
static enum err pg_batch_insert(struct store_postgres *s, struct pg_insert_batch *j, struct error *e)
{
    enum err rc = pg_batch_insert_keys(s, j, e);
    pg_batch_drop_failed(j);
    rc = rc ? rc : pg_batch_insert_rows(s, j, e);
    if (s->conn.failed)
        return s->conn.failed;
    for (size_t i = 0; rc && i < j->n; i++) {
        struct op *op = &j->ops[i].op->op;
        if (op->rc == ERR_OK) {
            op->rc = rc;
            op->error = *e;
        }
    }
    return pg_batch_undo_rows(s, j, e) || pg_batch_undo_keys(s, j, e) ? e->code : ERR_OK;
}

size_t postgres_insert_many(struct store_postgres *s, struct op *const *ops, size_t n, enum err *ret, struct error *e)
{
    struct pg_insert_batch j;
    size_t tasks, count = pg_batch_limit(ops, n, &tasks);
    if (count > 0) {
        pg_batch_init(&j, ops, count, tasks);
        size_t repeated = pg_batch_first_repeated(&j);
        if (repeated > 0 && repeated < count) {
            pg_batch_release(&j);
            (void)pg_batch_limit(ops, repeated, &tasks);
            pg_batch_init(&j, ops, repeated, tasks);
        }
        count = repeated;
        if (count > 0)
            *ret = pg_batch_insert(s, &j, e);
        pg_batch_release(&j);
    }
    if (count > 0)
        return count;
    ops[0]->rc = pg_in_savepoint(s, ops[0], postgres_insert);
    *ret = s->conn.failed;
    return 1;
}
