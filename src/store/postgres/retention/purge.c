/* OP_PURGE deletes a small batch of old rows and finds it without reading the rows that stay. Rows that another
 * transaction has locked are left to the next purge.
 *
 * Tasks are not stored in the order of completion. So each transaction notes the tasks that it made final in table
 * `ended`, and purge reads these notes from the oldest on. A note only says where to look: the task's own row decides
 * whether it is final and old enough. FAILED tasks are few and have an index instead. Executions are in monthly
 * partitions, which are dropped as a whole (monthly_partitions.c); only those in executions_other are deleted row by
 * row. */
#include "store/postgres/retention/purge.h"

#include <assert.h>
#include <stdlib.h>

enum { NOTES_MAX = 8, EXTRA_READS = 500, JOBS_PAGE = 100, RUNS_PAGE = 8 };

#define FROM_OLDEST(table, condition)                                                                                  \
    "DELETE FROM " table " WHERE ctid = ANY (ARRAY(SELECT ctid FROM " table " WHERE " condition                        \
    " LIMIT $2 FOR UPDATE SKIP LOCKED))"

static const struct pg_statement purge_idempotency = { "forget_idempotency",
                                                       FROM_OLDEST("idempotency", "created_ms < $1") };
static const struct pg_statement purge_dedupe = { "forget_dedupe", FROM_OLDEST("dedupe", "until_ms < $1") };
static const struct pg_statement purge_executions = { "forget_executions",
                                                      FROM_OLDEST("executions_other", "completed_us < $1") };
#define FAILED_BEFORE "failed_ms IS NOT NULL AND (resolved_ms > 0) = $3 AND failed_ms > 0 AND failed_ms < $1"
static const struct pg_statement purge_failed = {
    "forget_dead",
    FROM_OLDEST("tasks", FAILED_BEFORE " AND " PURGE_MAY) " RETURNING " PURGED,
};
static const struct pg_statement failed_runs = {
    "forget_dead_runs",
    "SELECT id FROM tasks WHERE " FAILED_BEFORE " AND run_id IS NULL AND target = 4 LIMIT $2 FOR UPDATE SKIP LOCKED",
};
#define ENDED_BEFORE                                                                                                   \
    "id = ANY ($2) AND state IN (" SQL_COMPLETED ", " SQL_CANCELLED ", " SQL_SKIPPED ", " SQL_EXPIRED                  \
    ") AND completed_ms > 0 AND completed_ms < $1"
static const struct pg_statement purge_ended = {
    "forget_ended",
    "DELETE FROM tasks WHERE " ENDED_BEFORE " AND " PURGE_MAY " RETURNING " PURGED,
};
static const struct pg_statement ended_runs = {
    "forget_ended_runs",
    "SELECT id, state, completed_ms FROM tasks WHERE " ENDED_BEFORE
    " AND run_id IS NULL AND target = 4 ORDER BY id FOR UPDATE",
};
static const struct pg_statement hide_run = {
    "forget_hide_run", "UPDATE tasks SET deleted = true WHERE id = $1 AND NOT deleted RETURNING tenant_id, state"
};
static const struct pg_statement oldest_notes = {
    "oldest_notes",
    "SELECT id, tasks FROM ended WHERE completed_ms < $1 ORDER BY completed_ms, id LIMIT $2 FOR UPDATE SKIP LOCKED",
};
static const struct pg_statement cut_note = { "cut_note",
                                              "UPDATE ended SET tasks = tasks[$2::bigint + 1:] WHERE id = $1" };
static const struct pg_statement remove_notes = { "remove_notes", "DELETE FROM ended WHERE id = ANY ($1)" };
static const struct pg_statement old_jobs = {
    "old_jobs",
    "SELECT tenant_id, name, updated_ms, version, doc FROM catalog WHERE kind = 4 AND updated_ms < $1 "
    "AND (updated_ms, tenant_id, name) > ($2, $3, $4) ORDER BY updated_ms, tenant_id, name LIMIT $5",
};
static const struct pg_statement remove_job = {
    "remove_job", "DELETE FROM catalog WHERE kind = 4 AND tenant_id = $1 AND name = $2 AND version = $3"
};

void pg_purge_add_count(struct pg_purge *f, size_t n)
{
    assert(n <= f->left);
    f->left -= n;
    f->count += n;
}

/* ---- tasks ---- */

enum err pg_purge_count_tasks(struct pg_purge *f, const struct pg_result *r, struct error *e)
{
    struct uuid *children = xcalloc(2 * (size_t)r->rows + 1, sizeof *children), *runs = children + r->rows;
    size_t n = 0, run_count = 0;
    for (int i = 0; i < r->rows; i++) {
        pg_tally_new(f->s, (int32_t)pg_i64(r, i, 0), pg_bool(r, i, 2), (enum task_state)pg_i64(r, i, 1), -1);
        if (pg_i64(r, i, 3) & (TASK_HAS_PARENTS | TASK_OPENED))
            children[n++] = pg_uuid(r, i, 4);
        if (pg_i64(r, i, 5) == TARGET_WORKFLOW)
            runs[run_count++] = pg_uuid(r, i, 4);
    }
    pg_purge_add_count(f, (size_t)r->rows);
    enum err rc = pg_joins_purge(f->s, children, n, e);
    rc = rc ? rc : pg_purge_runs_rest(f->s, runs, run_count, e);
    free(children);
    return rc;
}

static enum err pg_purge_rows(struct pg_purge *f, int64_t before_ms, const struct uuid *ids, size_t n, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &f->s->params;
    pg_params_reset(p);
    pg_add_i64(p, before_ms);
    pg_add_ids(p, ids, n);
    return pg_run(&f->s->conn, &purge_ended, p, &r, e) ? e->code : pg_purge_count_tasks(f, &r, e);
}

/* If some steps of the run are gone and it stays, it is not to be retried without them: it is deleted. */
static enum err pg_purge_steps_of(struct pg_purge *f, struct uuid run, bool *ret_done, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &f->s->params;
    size_t left = f->left;
    if (pg_purge_steps(f, run, ret_done, e))
        return e->code;
    if (f->left == left || (*ret_done && f->left))
        return ERR_OK;
    pg_params_reset(p);
    pg_add_uuid(p, run);
    if (pg_run(&f->s->conn, &hide_run, p, &r, e))
        return e->code;
    if (r.rows)
        pg_tally_new(f->s, (int32_t)pg_i64(&r, 0, 0), false, (enum task_state)pg_i64(&r, 0, 1), -1);
    return ERR_OK;
}

/* Those of the tasks that are runs with steps. A run that is not deleted yet is noted again. */
static enum err pg_purge_ended_runs(struct pg_purge *f, int64_t before_ms, const struct uuid *ids, size_t n,
                                    struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &f->s->params;
    pg_params_reset(p);
    pg_add_i64(p, before_ms);
    pg_add_ids(p, ids, n);
    if (pg_run(&f->s->conn, &ended_runs, p, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++) {
        struct uuid run = pg_uuid(&r, i, 0);
        bool done;
        if (pg_purge_steps_of(f, run, &done, e))
            return e->code;
        if (!done || !f->left)
            pg_note_ended(f->s, run, (enum task_state)pg_i64(&r, i, 1), pg_i64(&r, i, 2));
        else if (pg_purge_rows(f, before_ms, &run, 1, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err pg_purge_tasks(struct pg_purge *f, int64_t before_ms, const struct uuid *ids, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    return pg_purge_rows(f, before_ms, ids, n, e) ? e->code : pg_purge_ended_runs(f, before_ms, ids, n, e);
}

/* Removes the first `used` tasks from a note. */
static enum err pg_purge_cut_note(struct pg_purge *f, int64_t note, size_t used, struct error *e)
{
    struct pg_params *p = &f->s->params;
    pg_params_reset(p);
    pg_add_i64(p, note);
    pg_add_i64(p, (int64_t)used);
    return pg_queue(&f->s->conn, &cut_note, p, e);
}

static enum err pg_purge_remove_notes(struct pg_purge *f, const int64_t *notes, size_t n, struct error *e)
{
    struct pg_params *p = &f->s->params;
    if (n == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_array(p, PG_I64);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(p, notes[i]);
    pg_array_end(p);
    return pg_queue(&f->s->conn, &remove_notes, p, e);
}

/* Deletes the tasks that the notes name, up to the limit. A note is deleted with its tasks, or shortened to the
 * rest. */
static enum err pg_purge_follow_notes(struct pg_purge *f, int64_t before_ms, const struct pg_result *notes,
                                      size_t *ret_looked, struct error *e)
{
    int64_t used_up[NOTES_MAX];
    size_t n = 0, used_up_count = 0, max = f->left;
    struct uuid *ids = arena_alloc(&f->s->arena, max * sizeof *ids);
    if (!ids)
        return error_no_room(e);
    for (int i = 0; i < notes->rows && n < max; i++) {
        struct pg_walk w = pg_array_of(notes, i, 1);
        size_t before = n;
        while (n < max && pg_next_uuid(&w, &ids[n]))
            n++;
        if (w.left && pg_purge_cut_note(f, pg_i64(notes, i, 0), n - before, e))
            return e->code;
        if (!w.left)
            used_up[used_up_count++] = pg_i64(notes, i, 0);
    }
    *ret_looked = n + used_up_count;
    return pg_purge_remove_notes(f, used_up, used_up_count, e) ? e->code : pg_purge_tasks(f, before_ms, ids, n, e);
}

static enum err pg_purge_ended_tasks(struct pg_purge *f, int64_t before_ms, struct error *e)
{
    size_t looks = f->left + EXTRA_READS;
    while (before_ms > 0 && f->left && looks) {
        cleanup_with(pg_result_release) struct pg_result notes = { 0 };
        struct pg_params *p = &f->s->params;
        size_t looked = 0;
        pg_params_reset(p);
        pg_add_i64(p, before_ms);
        pg_add_i64(p, NOTES_MAX);
        if (pg_run(&f->s->conn, &oldest_notes, p, &notes, e) ||
            (notes.rows && pg_purge_follow_notes(f, before_ms, &notes, &looked, e)))
            return e->code;
        if (notes.rows == 0)
            break;
        looks -= min_of(looks, looked);
    }
    return ERR_OK;
}

static enum err pg_purge_failed_rows(struct pg_purge *f, bool resolved, int64_t before_ms, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &f->s->params;
    if (before_ms <= 0 || f->left == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_i64(p, before_ms);
    pg_add_i64(p, (int64_t)f->left);
    pg_add_bool(p, resolved);
    return pg_run(&f->s->conn, &purge_failed, p, &r, e) ? e->code : pg_purge_count_tasks(f, &r, e);
}

/* The steps of old runs, then the runs. */
static enum err pg_purge_failed_tasks(struct pg_purge *f, bool resolved, int64_t before_ms, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &f->s->params;
    bool done;
    if (before_ms <= 0 || f->left == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_i64(p, before_ms);
    pg_add_i64(p, RUNS_PAGE);
    pg_add_bool(p, resolved);
    if (pg_run(&f->s->conn, &failed_runs, p, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++)
        if (pg_purge_steps_of(f, pg_uuid(&r, i, 0), &done, e))
            return e->code;
    return pg_purge_failed_rows(f, resolved, before_ms, e);
}

/* ---- idempotency and dedupe keys, jobs, executions ---- */

static enum err pg_purge_oldest(struct pg_purge *f, const struct pg_statement *s, int64_t before, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &f->s->params;
    if (before <= 0 || f->left == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_i64(p, before);
    pg_add_i64(p, (int64_t)f->left);
    if (pg_run(&f->s->conn, s, p, &r, e))
        return e->code;
    pg_purge_add_count(f, (size_t)r.affected);
    return ERR_OK;
}

/* A job that has changed in between stays. */
static enum err pg_purge_job(struct pg_purge *f, const struct pg_result *r, int row, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result removed = { 0 };
    struct pg_params *p = &f->s->params;
    pg_params_reset(p);
    pg_add_i32(p, (int32_t)pg_i64(r, row, 0));
    pg_add_text(p, pg_text(r, row, 1));
    pg_add_i64(p, pg_i64(r, row, 3));
    if (pg_run(&f->s->conn, &remove_job, p, &removed, e))
        return e->code;
    pg_purge_add_count(f, (size_t)removed.affected);
    return ERR_OK;
}

/* The page behind the last row of the page before; NULL: the first page. */
static enum err pg_purge_next_jobs(struct pg_purge *f, int64_t before_ms, const struct pg_result *last,
                                   struct pg_result *ret, struct error *e)
{
    struct pg_params *p = &f->s->params;
    int row = last ? last->rows - 1 : 0;
    pg_params_reset(p);
    pg_add_i64(p, before_ms);
    pg_add_i64(p, last ? pg_i64(last, row, 2) : INT64_MIN);
    pg_add_i32(p, last ? (int32_t)pg_i64(last, row, 0) : 0);
    pg_add_text(p, last ? pg_text(last, row, 1) : S(""));
    pg_add_i64(p, JOBS_PAGE);
    return pg_run(&f->s->conn, &old_jobs, p, ret, e);
}

static enum err pg_purge_jobs(struct pg_purge *f, int64_t before_ms, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result page = { 0 };
    if (before_ms <= 0 || f->left == 0 || pg_purge_next_jobs(f, before_ms, NULL, &page, e))
        return f->s->conn.failed;
    while (page.rows) {
        for (int i = 0; i < page.rows && f->left; i++)
            if (catalog_job_is_over(pg_text(&page, i, 4)) && pg_purge_job(f, &page, i, e))
                return e->code;
        if (page.rows < JOBS_PAGE || f->left == 0)
            break;
        struct pg_result next;
        if (pg_purge_next_jobs(f, before_ms, &page, &next, e))
            return e->code;
        pg_result_release(&page);
        page = next;
    }
    return ERR_OK;
}

/* ---- nodes, shares, recall requests, workers, job leases ---- */

/* $1 at most, $2 older than, $3 now_ms. */
static const struct pg_statement purge_recall_requests = {
    "forget_wishes", "DELETE FROM wishes AS w USING (SELECT v.task_id, v.fence FROM wishes AS over JOIN wishes AS v "
                     "ON v.task_id = over.task_id AND v.fence = over.fence WHERE NOT " SQL_RECALL_RUNS(
                         "over") " LIMIT $1 FOR UPDATE OF v SKIP LOCKED) AS free "
                                 "WHERE w.task_id = free.task_id AND w.fence = free.fence"
};
static const struct pg_statement purge_shares = {
    "forget_shares", "DELETE FROM shares WHERE key IN (SELECT key FROM shares WHERE seen_ms < $2 "
                     "AND (rate = 0 OR level + ($3 - since_ms) * rate / 1000 - taken >= burst) "
                     "AND NOT EXISTS (SELECT 1 FROM places WHERE places.key = shares.key) "
                     "LIMIT $1 FOR UPDATE SKIP LOCKED)"
};
static const struct pg_statement purge_nodes = {
    "forget_nodes", "DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE dead AND dead_ms < $2 "
                    "AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.node = nodes.id) LIMIT $1)"
};

static const struct pg_statement purge_workers = {
    "forget_workers", "DELETE FROM workers WHERE id IN (SELECT id FROM workers WHERE seen_ms < $2 LIMIT $1)"
};
static const struct pg_statement purge_leases = {
    "forget_leases",
    "DELETE FROM leases WHERE name IN (SELECT name FROM leases WHERE name LIKE 'job:%' AND until_ms < $2 "
    "LIMIT $1 FOR UPDATE SKIP LOCKED)"
};

static enum err pg_purge_cluster_table(struct store_postgres *s, const struct pg_statement *which,
                                       const struct op_purge *op, size_t *count, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_i64(&s->params, (int64_t)(op->max - *count));
    if (which != &purge_recall_requests)
        pg_add_i64(&s->params, which == &purge_workers ? op->workers_before_ms : op->now_ms - NODE_KEPT_MS);
    if (which == &purge_shares)
        pg_add_i64(&s->params, op->now_ms);
    if (pg_run(&s->conn, which, &s->params, &r, e))
        return e->code;
    *count += (size_t)r.affected;
    return ERR_OK;
}

/* Adds the number of deleted rows to *count, at most up to op->max. */
static enum err pg_purge_cluster(struct store_postgres *s, const struct op_purge *op, size_t *count, struct error *e)
{
    if (pg_queue(&s->conn, &pg_drop_places, NULL, e) ||
        pg_purge_cluster_table(s, &purge_recall_requests, op, count, e) ||
        pg_purge_cluster_table(s, &purge_shares, op, count, e) ||
        pg_purge_cluster_table(s, &purge_nodes, op, count, e) ||
        pg_purge_cluster_table(s, &purge_workers, op, count, e))
        return e->code;
    size_t uncounted = *count; /* an expired lease has no effect: its deletion does not count */
    return pg_purge_cluster_table(s, &purge_leases, op, &uncounted, e);
}

/* ---- the operation ---- */

static enum err pg_purge_nudge_partitions(struct store_postgres *s, const struct op_purge *op, struct error *e)
{
    if (op->executions_before_ms <= 0)
        return ERR_OK;
    if (!s->partition_thread)
        s->partition_thread = pg_partition_thread_new(&s->setup);
    return pg_partition_thread_nudge(s->partition_thread, op->executions_before_ms, e);
}

enum err postgres_purge(struct store_postgres *s, struct op *base)
{
    struct op_purge *op = (struct op_purge *)base;
    struct error *e = &base->error;
    struct pg_purge f = { .s = s, .left = op->max };
    bool merging;
    if (pg_purge_nudge_partitions(s, op, e) ||
        pg_send_ended(s, e)) /* notes of earlier operations in this transaction */
        return e->code;
    if (pg_purge_oldest(&f, &purge_idempotency, op->idempotency_before_ms, e) ||
        pg_purge_oldest(&f, &purge_dedupe, op->now_ms, e) || pg_purge_jobs(&f, op->jobs_before_ms, e) ||
        pg_purge_ended_tasks(&f, op->tasks_before_ms, e) || pg_purge_failed_tasks(&f, true, op->tasks_before_ms, e) ||
        pg_purge_failed_tasks(&f, false, op->dlq_before_ms, e) ||
        pg_purge_oldest(&f, &purge_executions, op->executions_before_ms * 1000, e) ||
        pg_purge_definitions(&f, op->now_ms, e) || pg_purge_audit(&f, op->audit_before_ms, e) ||
        (f.left && pg_purge_cluster(s, op, &f.count, e)) || pg_purge_stats(s, op->now_ms, op->max, &merging, e))
        return e->code;
    op->ret_purged = f.count;
    op->ret_more = f.count == op->max || merging;
    return ERR_OK;
}
