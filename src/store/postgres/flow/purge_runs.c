/* OP_PURGE of runs: their steps, a few at a time, then what else there is of them; and definitions. */
#include <assert.h>
#include <stdlib.h>

#include "store/postgres/retention/purge.h"
#include "store/postgres/sharing/slots.h"

/* Of a run and the runs within it, which have the same root: the innermost one that has steps. */
static const struct pg_statement innermost = {
    "purge_innermost",
    "SELECT r.run_id FROM (SELECT run_id, depth FROM runs WHERE root_id = $1 UNION SELECT $1, 0) AS r "
    "WHERE EXISTS (SELECT FROM tasks AS t WHERE t.run_id = r.run_id) ORDER BY r.depth DESC LIMIT 1",
};
static const struct pg_statement delete_steps = {
    "purge_steps",
    "WITH gone AS (DELETE FROM tasks WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM tasks AS t WHERE t.run_id = $1 "
    "ORDER BY t.place LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING place, waits_for, " PURGED " AS gated), "
    "o AS (DELETE FROM outputs USING gone WHERE outputs.run_id = $1 AND outputs.place = gone.place) "
    "SELECT tenant_id, state, deleted, links, id, target, claim_id, gated, waits_for FROM gone",
};
#define OF_RUNS(table)                                                                                                 \
    "DELETE FROM " table " WHERE run_id = ANY ($1 || ARRAY(SELECT r.run_id FROM runs AS r WHERE r.root_id = ANY ($1)))"
static const struct pg_statement delete_outputs = { "purge_outputs", OF_RUNS("outputs") };
static const struct pg_statement delete_signals = { "purge_signals", OF_RUNS("signals") };
static const struct pg_statement delete_runs = { "purge_runs", OF_RUNS("runs") };

/* $1: put before, $2: at most. */
#define UNUSED                                                                                                         \
    "(ARRAY(SELECT d.ctid FROM definitions AS d WHERE d.put_ms < $1 AND NOT EXISTS (SELECT FROM workflows AS w "       \
    "WHERE w.tenant_id = d.tenant_id AND w.hash = d.hash AND NOT w.removed) AND NOT EXISTS (SELECT FROM runs AS r "    \
    "WHERE r.tenant_id = d.tenant_id AND r.hash = d.hash) ORDER BY d.put_ms LIMIT $2 FOR UPDATE OF d SKIP LOCKED))"
/* A definition that a task names which was not opened yet is looked at again a day later. */
static const struct pg_statement keep_definitions = {
    "purge_keep_definitions",
    "UPDATE definitions SET put_ms = $3 WHERE ctid = ANY " UNUSED " AND EXISTS (SELECT FROM tasks AS t "
    "WHERE t.target = 4 AND t.links & 32 = 0 AND t.tenant_id = definitions.tenant_id "
    "AND strpos(t.target_config, encode(definitions.hash, 'hex')) > 0)",
};
static_assert(TARGET_WORKFLOW == 4 && TASK_OPENED == 32, "statements name them by number");
static const struct pg_statement delete_definitions = { "purge_definitions",
                                                        "DELETE FROM definitions WHERE ctid = ANY " UNUSED };

/* A step of a run that is over should be final. If it is not, nobody waits for it any more. */
static enum err pg_purge_let_go(struct store_postgres *s, const struct pg_result *r, struct error *e)
{
    cleanup_with(slot_keys_release) struct slot_keys keys;
    struct uuid *gated = xcalloc((size_t)r->rows + 1, sizeof *gated);
    uint64_t ignored = 0;
    size_t n = 0;
    slot_keys_init(&keys);
    for (int i = 0; i < r->rows; i++) {
        if (!pg_is_null(r, i, 6))
            pg_note_left(s, pg_uuid(r, i, 6));
        if (pg_bool(r, i, 7) && !task_is_final((enum task_state)pg_i64(r, i, 1)))
            gated[n++] = pg_uuid(r, i, 4);
        if (pg_text(r, i, 8).n) {
            slot_keys_add(&keys, pg_text(r, i, 8));
            pg_slot_state(s, pg_text(r, i, 8))->is_loaded = false;
        }
    }
    enum err rc = pg_slots_prefetch(s, gated, n, e);
    for (size_t i = 0; !rc && i < n; i++)
        rc = pg_slots_release(s, &gated[i], NULL, &keys, e);
    free(gated);
    return rc ? rc : pg_slots_hand_over(s, &keys, &ignored, e);
}

static enum err pg_purge_slice(struct pg_purge *f, struct uuid run, size_t *ret, struct error *e)
{
    struct pg_params *p = &f->s->params;
    cleanup_with(pg_result_release) struct pg_result gone = { 0 };
    pg_params_reset(p);
    pg_add_uuid(p, run);
    pg_add_i64(p, (int64_t)f->left);
    if (pg_run(&f->s->conn, &delete_steps, p, &gone, e))
        return e->code;
    *ret = (size_t)gone.rows;
    return pg_purge_count_tasks(f, &gone, e) ? e->code : pg_purge_let_go(f->s, &gone, e);
}

enum err pg_purge_steps(struct pg_purge *f, struct uuid run, bool *ret_done, struct error *e)
{
    for (size_t gone = 1;;) {
        cleanup_with(pg_result_release) struct pg_result next = { 0 };
        pg_params_reset(&f->s->params);
        pg_add_uuid(&f->s->params, run);
        if (pg_run(&f->s->conn, &innermost, &f->s->params, &next, e))
            return e->code;
        *ret_done = next.rows == 0;
        if (*ret_done || !f->left || !gone) /* 0: other transactions have locked them */
            return ERR_OK;
        if (pg_purge_slice(f, pg_uuid(&next, 0, 0), &gone, e))
            return e->code;
    }
}

enum err pg_purge_runs_rest(struct store_postgres *s, const struct uuid *runs, size_t n, struct error *e)
{
    static const struct pg_statement *const all[] = { &delete_outputs, &delete_signals, &delete_runs };
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, runs, n);
    for (size_t i = 0; i < array_count(all); i++)
        if (pg_queue(&s->conn, all[i], &s->params, e))
            return e->code;
    return ERR_OK;
}

enum err pg_purge_definitions(struct pg_purge *f, int64_t now_ms, struct error *e)
{
    struct pg_params *p = &f->s->params;
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (f->left == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_add_i64(p, now_ms - DEFINITION_KEPT_MS);
    pg_add_i64(p, (int64_t)f->left);
    pg_add_i64(p, now_ms);
    if (pg_queue(&f->s->conn, &keep_definitions, p, e))
        return e->code;
    pg_params_reset(p);
    pg_add_i64(p, now_ms - DEFINITION_KEPT_MS);
    pg_add_i64(p, (int64_t)f->left);
    if (pg_run(&f->s->conn, &delete_definitions, p, &r, e))
        return e->code;
    pg_purge_add_count(f, (size_t)r.affected);
    return ERR_OK;
}
