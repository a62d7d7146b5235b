/* Slots as claims use them. A claim never waits for a slot's lock: if another transaction has the lock of a task's
 * slot, the task is left to the next claim. So a slot does not delay other tasks, and claims cannot deadlock. */
#include <stdlib.h>

#include "store/postgres/claim/claim.h"
#include "store/postgres/sharing/slots.h"

static const struct pg_statement slot_block = {
    "slot_block",
    "UPDATE tasks SET state = " SQL_BLOCKED ", waits_for = $2, updated_ms = $3, "
    "late_by = CASE WHEN awaited_ms = 0 THEN $4 ELSE late_by END WHERE id = $1",
};
static const struct pg_statement slot_give_up = {
    "slot_give_up",
    "UPDATE tasks SET state = $2, waits_for = NULL, updated_ms = $3, completed_ms = $3, last_error = $4 WHERE id = $1",
};
/* A run that was opened counts as RUNNING: it has steps to stop. */
_Static_assert(TASK_OPENED == 32, "the next statements name it by number");
/* Locks the holders that are not RUNNING, because they are about to be cancelled. Does not wait for RUNNING holders: a
 * transaction that settles one has its row's lock and waits for our slot lock. */
static const struct pg_statement slot_lock_idle = {
    "slot_lock_idle",
    "SELECT 1 FROM slots AS s JOIN tasks AS t ON t.id = s.task_id WHERE s.key = $1 AND t.state <> " SQL_RUNNING
    " AND t.links & 32 = 0 ORDER BY t.id FOR UPDATE OF t",
};
static const struct pg_statement slot_holders = {
    "slot_holders",
    "SELECT t.id, t.tenant_id, t.deleted, CASE WHEN t.links & 32 <> 0 THEN " SQL_RUNNING
    " ELSE t.state END, t.fence, t.due_ms, t.scheduled_ms FROM slots AS s "
    "JOIN tasks AS t ON t.id = s.task_id WHERE s.key = $1",
};

/* ---- candidates ---- */

enum err pg_candidate_read(struct store_postgres *s, const struct pg_result *r, int row, struct candidate *ret,
                           struct error *e)
{
    struct task t = { .id = pg_uuid(r, row, DUE_ID),
                      .tenant = (int32_t)pg_i64(r, row, DUE_TENANT),
                      .kind = (enum task_kind)pg_i64(r, row, DUE_KIND),
                      .target = (enum target_kind)pg_i64(r, row, DUE_TARGET),
                      .links = (int)pg_i64(r, row, DUE_LINKS),
                      .parent = pg_uuid(r, row, DUE_PARENT),
                      .due_ms = pg_i64(r, row, DUE_MS),
                      .scheduled_ms = pg_i64(r, row, DUE_SCHEDULED_MS),
                      .deleted = pg_bool(r, row, DUE_DELETED) };
    if (column_read_text(&table_tasks, &table_tasks.columns[AT_gates - 1], pg_text(r, row, DUE_GATES), &s->arena, &t,
                         e))
        return e->code;
    *ret = (struct candidate){ .row = { .id = t.id,
                                        .tenant = t.tenant,
                                        .deleted = t.deleted,
                                        .state = TASK_SCHEDULED,
                                        .due_ms = t.due_ms,
                                        .links = t.links },
                               .task = t,
                               .bytes = (size_t)pg_i64(r, row, DUE_BYTES) };
    return ERR_OK;
}

struct pg_gate_wanted {
    struct uuid *tasks;
    struct slot_need (*needs)[SLOTS_MAX];
    size_t *counts;
    size_t n;
    struct pg_slot **keys;
    size_t key_count;
};

static void pg_gate_wanted_release(struct pg_gate_wanted *w)
{
    free(w->tasks);
    free(w->needs);
    free(w->counts);
    free(w->keys);
}

static bool pg_gate_wants(const struct pg_result *r, int row)
{
    return !pg_is_null(r, row, DUE_GATES) && !pg_bool(r, row, DUE_GIVES_WAY);
}

/* Collects the candidates that need slots now. */
static enum err pg_gate_find_wanted(struct store_postgres *s, const struct pg_result *r, struct pg_gate_wanted *w,
                                    struct error *e)
{
    for (int i = 0; i < r->rows; i++)
        w->n += pg_gate_wants(r, i);
    w->tasks = xcalloc(w->n + 1, sizeof *w->tasks);
    w->needs = xcalloc(w->n + 1, sizeof *w->needs);
    w->counts = xcalloc(w->n + 1, sizeof *w->counts);
    w->keys = xcalloc(w->n * SLOTS_MAX + 1, sizeof(struct pg_slot *));
    w->n = 0;
    for (int i = 0; i < r->rows; i++) {
        struct candidate k;
        if (!pg_gate_wants(r, i))
            continue;
        if (pg_candidate_read(s, r, i, &k, e))
            return e->code;
        w->tasks[w->n] = k.task.id;
        w->counts[w->n] = slot_needs(&k.task, w->needs[w->n]);
        w->n++;
    }
    return ERR_OK;
}

/* Collects the slots whose locks were not tried yet, except those that the tasks hold already. */
static void pg_gate_find_keys(struct store_postgres *s, struct pg_gate_wanted *w)
{
    for (size_t i = 0; i < w->n; i++)
        for (size_t j = 0; j < w->counts[i]; j++) {
            struct str key = w->needs[i][j].key;
            struct pg_slot *k = pg_slot_state(s, key);
            if (k->lock != SLOT_UNLOCKED || slots_have(pg_slots_cached_held(s, &w->tasks[i]), key))
                continue;
            k->lock = SLOT_BUSY; /* until the lock was tried */
            w->keys[w->key_count++] = k;
        }
}

enum err pg_gate_prefetch(struct store_postgres *s, const struct pg_result *r, struct error *e)
{
    cleanup_with(pg_gate_wanted_release) struct pg_gate_wanted w = { 0 };
    if (pg_gate_find_wanted(s, r, &w, e))
        return e->code;
    if (w.n == 0)
        return ERR_OK;
    s->has_met_slots = true;
    if (pg_slots_read_held(s, w.tasks, w.n, e))
        return e->code;
    pg_gate_find_keys(s, &w);
    if (pg_slots_try_lock(s, w.keys, w.key_count, e))
        return e->code;
    size_t ours = 0;
    for (size_t i = 0; i < w.key_count; i++)
        if (w.keys[i]->lock == SLOT_LOCKED)
            w.keys[ours++] = w.keys[i];
    return pg_slots_load(s, w.keys, ours, e);
}

bool pg_gate_is_busy(struct store_postgres *s, const struct candidate *k)
{
    struct slot_need needs[SLOTS_MAX];
    const struct held_slots *held = pg_slots_cached_held(s, &k->row.id);
    for (size_t i = slot_needs(&k->task, needs); i-- > 0;)
        if (pg_slot_state(s, needs[i].key)->lock == SLOT_BUSY && !(held && slots_have(held, needs[i].key)))
            return true;
    return false;
}

/* ---- candidates that do not get their slot ---- */

enum err pg_slot_block(struct slots *base, const struct slot_row *r, const struct slot_need *need, int64_t now_ms,
                       struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    struct pg_slot *k;
    if (pg_slot_lock_and_load(s, need->key, &k, e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, r->id);
    pg_add_text(&s->params, need->key);
    pg_add_i64(&s->params, now_ms);
    pg_add_i64(&s->params, slot_late_cause(need->kind));
    if (pg_queue(&s->conn, &slot_block, &s->params, e))
        return e->code;
    struct slot_row waits = *r;
    waits.state = TASK_BLOCKED;
    waits.limit = need->limit;
    waits.overlap = need->policy;
    pg_slot_line_add(k, &waits);
    pg_tally_move(s, r->tenant, r->deleted, r->state, TASK_BLOCKED);
    return ERR_OK;
}

enum err pg_slot_give_up(struct slots *base, const struct slot_row *r, enum task_state state, struct str why,
                         int64_t now_ms, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, r->id);
    pg_add_i32(&s->params, (int32_t)state);
    pg_add_i64(&s->params, now_ms);
    pg_add_text(&s->params, why);
    if (pg_queue(&s->conn, &slot_give_up, &s->params, e))
        return e->code;
    if (r->state == TASK_BLOCKED)
        map_each (&s->slot_keys, slot)
            pg_slot_line_remove(slot->value, r->id);
    pg_tally_move(s, r->tenant, r->deleted, r->state, state);
    pg_note_ended(s, r->id, state, now_ms);
    return ERR_OK;
}

/* ---- holders and waiting tasks of a slot ---- */

enum err pg_slot_holders(struct slots *base, struct str key, struct slot_row **ret, size_t *ret_count, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    pg_params_reset(&s->params);
    pg_add_text(&s->params, key);
    if (pg_queue(&s->conn, &slot_lock_idle, &s->params, e) || pg_run(&s->conn, &slot_holders, &s->params, &r, e))
        return e->code;
    struct slot_row *v = xcalloc((size_t)r.rows + 1, sizeof *v);
    for (int i = 0; i < r.rows; i++)
        v[i] = (struct slot_row){ .id = pg_uuid(&r, i, 0),
                                  .tenant = (int32_t)pg_i64(&r, i, 1),
                                  .deleted = pg_bool(&r, i, 2),
                                  .state = (enum task_state)pg_i64(&r, i, 3),
                                  .fence = pg_i64(&r, i, 4),
                                  .due_ms = pg_i64(&r, i, 5) };
    *ret = v;
    *ret_count = (size_t)r.rows;
    return ERR_OK;
}

enum err pg_slot_other(struct slots *base, struct str key, const struct slot_row *but, struct slot_row *ret,
                       bool *ret_found, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    struct pg_slot *k;
    if (pg_slot_lock_and_load(s, key, &k, e))
        return e->code;
    if (k->line_n < 2 && !k->is_line_whole && pg_slots_load(s, &k, 1, e))
        return e->code;
    *ret_found = false;
    for (size_t i = 0; i < k->line_n && !*ret_found; i++) {
        *ret = k->line[i];
        *ret_found = !uuid_eq(ret->id, but->id);
    }
    return ERR_OK;
}

static enum err pg_slot_load_since(struct slots *base, struct str key, struct pg_slot **ret, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    if (pg_slot_lock_and_load(s, key, ret, e))
        return e->code;
    return (*ret)->since_known ? ERR_OK : pg_slots_load(s, ret, 1, e);
}

enum err pg_slot_since(struct slots *base, struct str key, int64_t *ret, struct error *e)
{
    struct pg_slot *k;
    if (pg_slot_load_since(base, key, &k, e))
        return e->code;
    *ret = k->since_ms;
    return ERR_OK;
}

enum err pg_slot_held_ahead(struct slots *base, struct str key, int64_t now_ms, bool *ret, struct error *e)
{
    struct pg_slot *k;
    if (pg_slot_load_since(base, key, &k, e))
        return e->code;
    *ret = k->ahead_ms > now_ms;
    return ERR_OK;
}
