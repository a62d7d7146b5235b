/* OP_PURGE: deletes a small batch of old rows without reading rows that stay, returns some free space to the file
 * system, and moves some far tasks near (far_due.c).
 *
 * Executions and idempotency records are stored in the order of their creation, so the old ones come first. Tasks are
 * not: waiting tasks lie between final ones. So each transaction writes a note of the tasks that it made final (table
 * `ended`), which costs a settle next to nothing, and a purge reads the notes from the oldest on. A note only says
 * where to look: a task is deleted if its own row says that it is final and old. FAILED tasks are few and have an index
 * instead. */
#include "store/sqlite/retention/purge.h"

#include <stdlib.h>

enum {
    VISIT_EXTRA = 500,     /* rows examined in vain, of tables that are nearly in order */
    SPARE_PAGES_MIN = 256, /* 1 MiB (256 pages) stays free inside the file, */
    SPARE_PART = 8,        /* or an eighth of it: new rows need the space again */
    VACUUM_PAGES = 128,    /* pages, as in ST_VACUUM */
};

/* ---- tasks ---- */

struct purged_task sqlite_purged_task(sqlite3_stmt *st)
{
    return (struct purged_task){ .rid = sqlite3_column_int64(st, 0),
                                 .id = row_uuid(st, 1),
                                 .tenant = sqlite3_column_int(st, 2),
                                 .state = (enum task_state)sqlite3_column_int(st, 3),
                                 .deleted = sqlite3_column_int(st, 4) != 0,
                                 .links = sqlite3_column_int(st, 5),
                                 .target = (enum target_kind)sqlite3_column_int(st, 6) };
}

enum err sqlite_purge_row(struct store_sqlite *s, struct purge_budget *f, const struct purged_task *t, struct error *e)
{
    if (!t->deleted)
        tally_add(&s->of_op, t->tenant, t->state, -1);
    f->left--;
    ++*f->count;
    return sqlite_joins_purge(s, &t->id, t->links, e) ? e->code : sqlite_delete_task(s, t->rid, e);
}

/* Some steps of the run are gone: it is not to be retried without them. */
static enum err sqlite_purge_hide(struct store_sqlite *s, const struct purged_task *t, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_PURGE_HIDE);
    if (t->deleted)
        return ERR_OK;
    tally_add(&s->of_op, t->tenant, t->state, -1);
    sqlite3_bind_int64(st, 1, t->rid);
    return conn_run(&s->conn, st, e);
}

/* A run goes after its steps. *ret_done false: there was no room for all of it. */
static enum err sqlite_purge_task(struct store_sqlite *s, struct purge_budget *f, const struct purged_task *t,
                                  bool *ret_done, struct error *e)
{
    size_t left = f->left;
    *ret_done = true;
    if (t->target == TARGET_WORKFLOW && sqlite_purge_run(s, f, &t->id, ret_done, e))
        return e->code;
    *ret_done = *ret_done && f->left;
    if (*ret_done)
        return sqlite_purge_row(s, f, t, e);
    return f->left < left ? sqlite_purge_hide(s, t, e) : ERR_OK;
}

/* A task that became FAILED, or final at another time, is found by the index or by another note. Steps go with their
 * run. */
static enum err sqlite_purge_noted_task(struct store_sqlite *s, struct purge_budget *f, int64_t rid, bool *ret_done,
                                        struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_ENDED_TASK);
    bool row;
    *ret_done = true;
    sqlite3_bind_int64(st, 1, rid);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    if (!row)
        return ERR_OK;
    struct purged_task t = sqlite_purged_task(st);
    int64_t completed_ms = sqlite3_column_int64(st, PURGED_COLUMNS);
    bool is_step = sqlite3_column_type(st, PURGED_COLUMNS + 1) != SQLITE_NULL;
    sqlite3_reset(st);
    bool old = task_is_final(t.state) && t.state != TASK_FAILED && completed_ms > 0 && completed_ms < f->before_ms;
    return old && !is_step ? sqlite_purge_task(s, f, &t, ret_done, e) : ERR_OK;
}

/* On return *text is the unread rest of the note. */
static enum err sqlite_purge_note(struct store_sqlite *s, struct purge_budget *f, struct str *text, struct error *e)
{
    struct str number, before = *text;
    int64_t rid;
    for (bool done = true; done && f->left && f->visits && str_cut(text, ' ', &number);) {
        f->visits--;
        if (!str_to_i64(number, 1, INT64_MAX, &rid))
            return error_set(e, ERR_CORRUPT, "'%s': a row of table 'ended' is not valid", s->conn.path);
        if (sqlite_purge_noted_task(s, f, rid, &done, e))
            return e->code;
        if (done)
            before = *text;
    }
    *text = before;
    return ERR_OK;
}

/* Deletes the note, or reduces it to the tasks that are left. */
static enum err sqlite_purge_shorten_note(struct store_sqlite *s, int64_t rowid, struct str rest, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, rest.n ? ST_ENDED_CUT : ST_ENDED_REMOVE);
    sqlite3_bind_int64(st, 1, rowid);
    if (rest.n)
        (void)bind_str(st, 2, rest);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_purge_ended(struct store_sqlite *s, struct purge_budget *f, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_ENDED_OLDEST);
    struct buf *note = &s->conn.texts[1]; /* a copy: the statement must be reset before rows are deleted */
    for (bool row; f->left && f->visits;) {
        sqlite3_bind_int64(st, 1, f->before_ms);
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        int64_t rowid = sqlite3_column_int64(st, 0);
        buf_reset(note);
        buf_add(note, (struct str){ (const char *)sqlite3_column_text(st, 1), (size_t)sqlite3_column_bytes(st, 1) });
        sqlite3_reset(st);
        struct str text = buf_str(note);
        if (sqlite_purge_note(s, f, &text, e) || sqlite_purge_shorten_note(s, rowid, text, e))
            return e->code;
    }
    return ERR_OK;
}

static enum err sqlite_purge_failed(struct store_sqlite *s, bool resolved, int64_t before_ms, size_t max, size_t *count,
                                    struct slot_keys *keys, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_FAILED_OLD);
    struct purge_budget f = { .left = max, .count = count, .keys = keys };
    struct purged_task *v = NULL;
    size_t n = 0, cap = 0;
    enum err rc = ERR_OK;
    bool done;
    sqlite3_bind_int(st, 1, resolved);
    sqlite3_bind_int64(st, 2, before_ms);
    sqlite3_bind_int64(st, 3, (int64_t)max);
    for (bool row; !(rc = conn_step(&s->conn, st, &row, e)) && row; n++) {
        if (n == cap) {
            cap = cap * 2 + 16;
            v = xrealloc(v, cap * sizeof *v);
        }
        v[n] = sqlite_purged_task(st);
    }
    for (size_t i = 0; !rc && f.left && i < n; i++)
        rc = sqlite_purge_task(s, &f, &v[i], &done, e);
    free(v);
    return rc;
}

static enum err sqlite_purge_tasks(struct store_sqlite *s, const struct op_purge *op, size_t *n, struct error *e)
{
    cleanup_with(slot_keys_release) struct slot_keys keys;
    struct purge_budget f = { op->tasks_before_ms, op->max - *n, op->max + VISIT_EXTRA, n, &keys };
    uint64_t ignored = 0;
    slot_keys_init(&keys);
    if (sqlite_purge_ended(s, &f, e) || sqlite_purge_failed(s, true, op->tasks_before_ms, op->max - *n, n, &keys, e) ||
        sqlite_purge_failed(s, false, op->dlq_before_ms, op->max - *n, n, &keys, e))
        return e->code;
    return slots_hand_over(&s->slots, &keys, &ignored, e);
}

/* ---- other records ---- */

static enum err sqlite_purge_oldest(struct store_sqlite *s, enum writer_statement which, int64_t before, size_t max,
                                    size_t *count, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, which);
    if (before <= 0 || max == 0)
        return ERR_OK;
    sqlite3_bind_int64(st, 1, before);
    sqlite3_bind_int64(st, 2, (int64_t)max);
    if (which != ST_PURGE_DEDUPE)
        sqlite3_bind_int64(st, 3, (int64_t)max + VISIT_EXTRA);
    if (conn_run(&s->conn, st, e))
        return e->code;
    *count += (size_t)sqlite3_changes(s->conn.db);
    return ERR_OK;
}

static enum err sqlite_purge_jobs(struct store_sqlite *s, int64_t before_ms, size_t max, size_t *count, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_JOBS_OLD);
    size_t n = 0;
    sqlite3_bind_int64(st, 1, before_ms);
    for (bool row; n < max;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            break;
        struct str doc = { (const char *)sqlite3_column_text(st, 1), (size_t)sqlite3_column_bytes(st, 1) };
        if (!catalog_job_is_over(doc))
            continue;
        scratch_grow(s, n);
        s->rids[n++] = sqlite3_column_int64(st, 0);
    }
    sqlite3_reset(st);
    st = writer_stmt(s, ST_CATALOG_REMOVE);
    for (size_t i = 0; i < n; i++) {
        sqlite3_bind_int64(st, 1, s->rids[i]);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    *count += n;
    return ERR_OK;
}

/* Dead nodes, workers that are gone, limits that are not used any more, recall requests that are over. */
static enum err sqlite_purge_cluster(struct store_sqlite *s, const struct op_purge *op, size_t *count, struct error *e)
{
    static const enum writer_statement all[] = { ST_PURGE_RECALLS, ST_PURGE_SHARES, ST_PURGE_NODES, ST_PURGE_WORKERS };
    if (conn_run(&s->conn, writer_stmt(s, ST_PLACES_OF_DEAD), e))
        return e->code;
    for (size_t i = 0; i < array_count(all); i++) {
        sqlite3_stmt *st = writer_stmt(s, all[i]);
        sqlite3_bind_int64(st, 1, all[i] == ST_PURGE_WORKERS ? op->workers_before_ms : op->now_ms - NODE_KEPT_MS);
        sqlite3_bind_int64(st, 2, (int64_t)(op->max - *count));
        if (all[i] == ST_PURGE_SHARES)
            sqlite3_bind_int64(st, 3, op->now_ms);
        if (conn_run(&s->conn, st, e))
            return e->code;
        *count += (size_t)sqlite3_changes(s->conn.db);
    }
    return ERR_OK;
}

/* SQLite moves the last pages of the file into free pages, a few at a time. Some free pages are kept for new rows, or
 * the file would shrink and grow all day. */
static enum err sqlite_purge_vacuum(struct store_sqlite *s, bool *ret_shrunk, struct error *e)
{
    *ret_shrunk = false;
    int64_t free_pages, pages;
    if (!s->can_shrink)
        return ERR_OK;
    if (conn_number(&s->conn, "PRAGMA freelist_count", &free_pages, e) ||
        conn_number(&s->conn, "PRAGMA page_count", &pages, e))
        return e->code;
    if (free_pages < max_of((int64_t)SPARE_PAGES_MIN, pages / SPARE_PART) + VACUUM_PAGES)
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_VACUUM);
    for (bool row = true; row;) /* one row for each page */
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
    *ret_shrunk = true;
    return ERR_OK;
}

enum err sqlite_purge(struct store_sqlite *s, struct op *base)
{
    struct op_purge *op = (struct op_purge *)base;
    struct error *e = &base->error;
    size_t n = 0;
    bool shrunk, far, merging;
    if (sqlite_ended_write(s, e)) /* the notes of earlier operations of this transaction */
        return e->code;
    if (sqlite_purge_oldest(s, ST_PURGE_IDEMPOTENCY, op->idempotency_before_ms, op->max, &n, e) ||
        sqlite_purge_oldest(s, ST_PURGE_DEDUPE, op->now_ms, op->max - n, &n, e) ||
        sqlite_purge_jobs(s, op->jobs_before_ms, op->max - n, &n, e))
        return e->code;
    if (sqlite_purge_tasks(s, op, &n, e) ||
        sqlite_purge_oldest(s, ST_PURGE_EXECUTIONS, op->executions_before_ms * 1000, op->max - n, &n, e) ||
        sqlite_purge_definitions(s, op->now_ms, op->max - n, &n, e) || sqlite_purge_cluster(s, op, &n, e) ||
        sqlite_audit_purge(s, op->audit_before_ms, op->max - n, &n, e) || sqlite_purge_vacuum(s, &shrunk, e) ||
        sqlite_far_purge(s, op->now_ms, op->max, &far, e) || sqlite_purge_stats(s, op->now_ms, op->max, &merging, e))
        return e->code;
    op->ret_purged = n;
    op->ret_more = n == op->max || shrunk || far || merging;
    return ERR_OK;
}
