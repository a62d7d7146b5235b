/* OP_PURGE of runs: their steps by place, a few at a time, then what else there is of them; and definitions. */
#include <stdlib.h>

#include "store/sqlite/retention/purge.h"

struct purged_step {
    struct purged_task task;
    int64_t place;
    struct uuid claim;
    bool gated;
};

/* A step of a run that is over should be final. If it is not, nobody waits for it any more. */
static enum err sqlite_purge_let_go(struct store_sqlite *s, struct purge_budget *f, const struct purged_step *p,
                                    struct error *e)
{
    char text[SLOT_KEY_MAX];
    struct str line = { 0 };
    if (!uuid_is_nil(p->claim) && sqlite_claim_leave(s, p->claim, 1, e))
        return e->code;
    if (!p->gated || task_is_final(p->task.state))
        return ERR_OK;
    if (s->slots.ops->waits_for(&s->slots, &(struct slot_row){ .rid = p->task.rid }, text, &line, e))
        return e->code;
    if (line.n)
        slot_keys_add(f->keys, line);
    return slots_release(&s->slots, &p->task.id, NULL, f->keys, e);
}

static enum err sqlite_purge_step(struct store_sqlite *s, struct purge_budget *f, const struct uuid *run,
                                  const struct purged_step *p, bool *ret_done, struct error *e)
{
    if (p->task.target == TARGET_WORKFLOW && sqlite_purge_run(s, f, &p->task.id, ret_done, e))
        return e->code;
    *ret_done = *ret_done && f->left;
    if (!*ret_done)
        return ERR_OK;
    if (sqlite_purge_let_go(s, f, p, e) || sqlite_output_delete(s, run, p->place, e))
        return e->code;
    return sqlite_purge_row(s, f, &p->task, e);
}

static enum err sqlite_purge_read_steps(struct store_sqlite *s, const struct uuid *run, size_t max,
                                        struct purged_step **ret, size_t *ret_n, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_STEPS_PURGED);
    size_t cap = 0;
    (void)bind_uuid(st, 1, run);
    sqlite3_bind_int64(st, 2, (int64_t)max);
    for (bool row;; ++*ret_n) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        if (*ret_n == cap) {
            cap = cap * 2 + 16;
            *ret = xrealloc(*ret, cap * sizeof **ret);
        }
        (*ret)[*ret_n] = (struct purged_step){ .task = sqlite_purged_task(st),
                                               .place = sqlite3_column_int64(st, PURGED_COLUMNS),
                                               .claim = row_uuid(st, PURGED_COLUMNS + 1),
                                               .gated = sqlite3_column_int(st, PURGED_COLUMNS + 2) != 0 };
    }
}

static enum err sqlite_purge_run_rest(struct store_sqlite *s, const struct uuid *run, struct error *e)
{
    static const enum writer_statement all[] = { ST_PURGE_OUTPUTS, ST_PURGE_SIGNALS, ST_PURGE_RUN };
    for (size_t i = 0; i < array_count(all); i++) {
        sqlite3_stmt *st = writer_stmt(s, all[i]);
        (void)bind_uuid(st, 1, run);
        if (conn_run(&s->conn, st, e))
            return e->code;
    }
    return ERR_OK;
}

enum err sqlite_purge_run(struct store_sqlite *s, struct purge_budget *f, const struct uuid *run, bool *ret_done,
                          struct error *e)
{
    struct purged_step *v = NULL;
    size_t n = 0, max = f->left;
    enum err rc = sqlite_purge_read_steps(s, run, max + 1, &v, &n, e);
    *ret_done = true;
    for (size_t i = 0; !rc && *ret_done && i < n; i++)
        rc = sqlite_purge_step(s, f, run, &v[i], ret_done, e);
    free(v);
    if (rc || !*ret_done)
        return rc;
    return sqlite_purge_run_rest(s, run, e);
}

/* A definition that a task names which was not opened yet is looked at again a day later. */
enum err sqlite_purge_definitions(struct store_sqlite *s, int64_t now_ms, size_t max, size_t *count, struct error *e)
{
    static const enum writer_statement all[] = { ST_DEFINITIONS_USED, ST_PURGE_DEFINITIONS };
    for (size_t i = 0; max && i < array_count(all); i++) {
        sqlite3_stmt *st = writer_stmt(s, all[i]);
        sqlite3_bind_int64(st, 1, now_ms - DEFINITION_KEPT_MS);
        sqlite3_bind_int64(st, 2, (int64_t)max);
        if (all[i] == ST_DEFINITIONS_USED)
            sqlite3_bind_int64(st, 3, now_ms);
        if (conn_run(&s->conn, st, e))
            return e->code;
        *count += all[i] == ST_PURGE_DEFINITIONS ? (size_t)sqlite3_changes(s->conn.db) : 0;
    }
    return ERR_OK;
}
