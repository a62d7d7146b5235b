/* Holders of slots and the tasks that wait for them, while other nodes read and change the same. A transaction that
 * reads a slot key, or changes its holders or its line, has the key's lock until it ends. So what it has read stays
 * valid except for its own changes, and is cached. Changes are queued without waiting for their results.
 *
 * Which slots a task holds changes only together with its own row, which the caller has locked. */
#include <assert.h>
#include <stdlib.h>

#include "store/postgres/sharing/slots.h"

static const struct pg_statement slot_counts = {
    "slot_counts",
    "SELECT k.place, count(s.task_id), min(t.scheduled_ms), max(t.due_ms) FILTER (WHERE t.attempts = 0 "
    "AND t.losses = 0 AND t.started_ms = 0) FROM unnest($1) WITH ORDINALITY AS k(key, place) "
    "LEFT JOIN slots AS s ON s.key = k.key LEFT JOIN tasks AS t ON t.id = s.task_id AND k.key LIKE 'o:%' GROUP BY 1",
};
static const struct pg_statement slot_lines = {
    "slot_lines",
    "SELECT k.place, t.id, t.due_ms, t.tenant_id, t.deleted, (t.gates::json->>'concurrency_limit')::bigint, t.lane, "
    "(t.gates::json->>'overlap')::bigint, t.links "
    "FROM unnest($1) WITH ORDINALITY AS k(key, place) CROSS JOIN LATERAL (SELECT id, due_ms, tenant_id, deleted, "
    "gates, lane, links FROM tasks WHERE waits_for = k.key ORDER BY due_ms, id LIMIT $2) AS t ORDER BY k.place, t.due_ms, t.id",
};
static const struct pg_statement slot_take = {
    "slot_take",
    "INSERT INTO slots (tenant_id, key, task_id) VALUES ($1, $2, $3)",
};
static const struct pg_statement slot_drop = { "slot_drop", "DELETE FROM slots WHERE key = $1 AND task_id = $2" };
static const struct pg_statement slot_hand = {
    "slot_hand",
    "WITH first AS (UPDATE tasks SET state = " SQL_SCHEDULED ", waits_for = NULL WHERE id = $1 AND waits_for = $2 "
    "RETURNING tenant_id, id) INSERT INTO slots (tenant_id, key, task_id) SELECT tenant_id, $2, id FROM first",
};
static const struct pg_statement slot_waited_for = { "slot_waited_for", "SELECT waits_for FROM tasks WHERE id = $1" };
static const struct pg_statement uncount_runs = {
    "uncount_runs",
    "WITH gone AS (UPDATE tasks SET runs_count = 0 FROM unnest($1, $2, $3) AS x(id, parent, skipped) "
    "WHERE tasks.id = x.id AND tasks.kind = 2 AND tasks.runs_count = 1 AND tasks.started_ms = 0 "
    "RETURNING x.parent, x.skipped), "
    "of AS (SELECT parent, count(*) AS n, count(*) FILTER (WHERE skipped) AS skipped FROM gone GROUP BY parent) "
    "UPDATE tasks SET runs_count = greatest(runs_count - n, 0), skipped_count = skipped_count + of.skipped FROM of "
    "WHERE tasks.id = of.parent",
};

/* ---- loading slots ---- */

struct pg_slot *pg_slot_state(struct store_postgres *s, struct str key)
{
    struct pg_slot *k = map_get(&s->slot_keys, key);
    if (k)
        return k;
    k = xcalloc(1, sizeof *k + str_pack_size(key));
    char *at = k->text;
    k->key = str_pack(key, &at);
    (void)map_put(&s->slot_keys, k->key, k);
    return k;
}

static void pg_slots_add_keys(struct pg_params *p, struct pg_slot *const *v, size_t n)
{
    pg_array(p, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_element_text(p, v[i]->key);
    pg_array_end(p);
}

static void pg_slots_read_counts(const struct pg_result *r, struct pg_slot *const *v)
{
    for (int i = 0; i < r->rows; i++) {
        struct pg_slot *k = v[pg_i64(r, i, 0) - 1];
        k->count = pg_i64(r, i, 1);
        k->since_ms = pg_i64(r, i, 2);
        k->ahead_ms = pg_i64(r, i, 3);
        k->since_known = true;
    }
}

static void pg_slots_read_lines(const struct pg_result *r, struct pg_slot *const *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i]->line_n = 0;
    for (int i = 0; i < r->rows; i++) {
        struct pg_slot *k = v[pg_i64(r, i, 0) - 1];
        k->line[k->line_n++] = (struct slot_row){ .id = pg_uuid(r, i, 1),
                                                  .due_ms = pg_i64(r, i, 2),
                                                  .tenant = (int32_t)pg_i64(r, i, 3),
                                                  .deleted = pg_bool(r, i, 4),
                                                  .state = TASK_BLOCKED,
                                                  .limit = slot_kind_of(k->key) == SLOT_OVERLAP ? 1 : pg_i64(r, i, 5),
                                                  .lane = pg_i64(r, i, 6),
                                                  .overlap = (enum overlap)pg_i64(r, i, 7),
                                                  .links = (int)pg_i64(r, i, 8) };
    }
    for (size_t i = 0; i < n; i++)
        v[i]->is_line_whole = v[i]->line_n < SLOT_LINE_CACHED;
}

enum err pg_slots_load(struct store_postgres *s, struct pg_slot *const *v, size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    cleanup_with(pg_result_release) struct pg_result counts = { 0 };
    cleanup_with(pg_result_release) struct pg_result lines = { 0 };
    if (n == 0)
        return ERR_OK;
    pg_params_reset(p);
    pg_slots_add_keys(p, v, n);
    if (pg_send(&s->conn, &slot_counts, p, e))
        return e->code;
    pg_add_i64(p, SLOT_LINE_CACHED);
    if (pg_send(&s->conn, &slot_lines, p, e) || pg_get(&s->conn, &counts, e) || pg_get(&s->conn, &lines, e))
        return e->code;
    pg_slots_read_counts(&counts, v);
    pg_slots_read_lines(&lines, v, n);
    for (size_t i = 0; i < n; i++)
        v[i]->is_loaded = true;
    return ERR_OK;
}

/* Waits for the lock of a slot that was not prefetched. */
enum err pg_slot_lock_and_load(struct store_postgres *s, struct str key, struct pg_slot **ret, struct error *e)
{
    struct pg_slot *k = pg_slot_state(s, key);
    *ret = k;
    if (k->is_loaded)
        return ERR_OK;
    if (k->lock != SLOT_LOCKED && pg_lock(s, PG_LOCK_SLOT, &k->key, 1, e))
        return e->code;
    k->lock = SLOT_LOCKED;
    return pg_slots_load(s, &k, 1, e);
}

void pg_slots_reset(struct store_postgres *s)
{
    map_each (&s->slot_keys, slot)
        free(slot->value);
    map_release(&s->slot_keys);
    map_each (&s->slots_held, slot)
        free(slot->value);
    map_release(&s->slots_held);
}

/* ---- lines: the tasks that wait for a slot ---- */

static bool pg_slot_line_before(const struct slot_row *a, const struct slot_row *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : uuid_cmp(a->id, b->id) < 0;
}

void pg_slot_line_add(struct pg_slot *k, const struct slot_row *r)
{
    size_t at = 0;
    while (at < k->line_n && pg_slot_line_before(&k->line[at], r))
        at++;
    if (at == k->line_n && !k->is_line_whole)
        return;
    if (k->line_n == SLOT_LINE_CACHED)
        k->is_line_whole = false;
    if (at == SLOT_LINE_CACHED)
        return;
    size_t behind = min_of(k->line_n, (size_t)SLOT_LINE_CACHED - 1) - at;
    memmove(&k->line[at + 1], &k->line[at], behind * sizeof *k->line);
    k->line[at] = *r;
    k->line_n = min_of(k->line_n + 1, (size_t)SLOT_LINE_CACHED);
}

void pg_slot_line_remove(struct pg_slot *k, struct uuid id)
{
    for (size_t i = 0; i < k->line_n; i++)
        if (uuid_eq(k->line[i].id, id)) {
            memmove(&k->line[i], &k->line[i + 1], (k->line_n - i - 1) * sizeof *k->line);
            k->line_n--;
            break;
        }
    if (k->line_n == 0 && !k->is_line_whole)
        k->is_loaded = false;
}

static enum err pg_slot_count(struct slots *base, struct str key, int64_t *ret, struct error *e)
{
    struct pg_slot *k;
    if (pg_slot_lock_and_load(pg_slots_self(base), key, &k, e))
        return e->code;
    *ret = k->count;
    return ERR_OK;
}

static enum err pg_slot_first(struct slots *base, struct str key, struct slot_row *ret, bool *ret_found,
                              struct error *e)
{
    struct pg_slot *k;
    if (pg_slot_lock_and_load(pg_slots_self(base), key, &k, e))
        return e->code;
    *ret_found = k->line_n > 0;
    if (*ret_found)
        *ret = k->line[0];
    return ERR_OK;
}

/* ---- holders ---- */

static enum err pg_slot_held(struct slots *base, const struct uuid *task, struct held_slots *ret, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    if (pg_slots_read_held(s, task, 1, e))
        return e->code;
    const struct held_slots *h = pg_slots_cached_held(s, task);
    ret->n = 0;
    for (size_t i = 0; i < h->n; i++)
        (void)held_slots_add(ret, h->key[i]);
    return ERR_OK;
}

static enum err pg_slot_hold(struct slots *base, int32_t tenant, const struct uuid *task, struct str key,
                             struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    struct pg_slot *k;
    if (pg_slot_lock_and_load(s, key, &k, e))
        return e->code;
    k->count++;
    k->since_known = false;
    pg_slots_drop_held(s, task);
    pg_params_reset(&s->params);
    pg_add_i32(&s->params, tenant);
    pg_add_text(&s->params, key);
    pg_add_uuid(&s->params, *task);
    return pg_queue(&s->conn, &slot_take, &s->params, e);
}

static enum err pg_slot_drop(struct slots *base, const struct uuid *task, struct str key, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    struct pg_slot *k;
    if (pg_slot_lock_and_load(s, key, &k, e))
        return e->code;
    k->count--;
    k->since_known = false;
    pg_slots_drop_held(s, task);
    pg_params_reset(&s->params);
    pg_add_text(&s->params, key);
    pg_add_uuid(&s->params, *task);
    return pg_queue(&s->conn, &slot_drop, &s->params, e);
}

static enum err pg_slot_hand(struct slots *base, const struct slot_row *r, struct str key, uint64_t *ret_bit,
                             struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    struct pg_slot *k = pg_slot_state(s, key);
    const struct lane_row *lane;
    assert(k->is_loaded);
    if (pg_lanes_at(&s->conn, &s->lanes, r->lane, &lane, e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, r->id);
    pg_add_text(&s->params, key);
    if (pg_queue(&s->conn, &slot_hand, &s->params, e))
        return e->code;
    k->count++;
    k->since_known = false;
    pg_slots_drop_held(s, &r->id);
    pg_tally_move(s, r->tenant, r->deleted, TASK_BLOCKED, TASK_SCHEDULED);
    pg_note_due(s, r->due_ms);
    *ret_bit = lane_bit(lane->lane);
    pg_slot_line_remove(k, r->id);
    return ERR_OK;
}

static enum err pg_slot_waits_for(struct slots *base, const struct slot_row *r, char text[SLOT_KEY_MAX],
                                  struct str *ret, struct error *e)
{
    struct store_postgres *s = pg_slots_self(base);
    cleanup_with(pg_result_release) struct pg_result found = { 0 };
    pg_params_reset(&s->params);
    pg_add_uuid(&s->params, r->id);
    if (pg_run(&s->conn, &slot_waited_for, &s->params, &found, e))
        return e->code;
    struct str key = found.rows ? pg_text(&found, 0, 0) : (struct str){ 0 };
    if (key.n > SLOT_KEY_MAX)
        return pg_corrupt(&s->conn, "a task waits for a slot key that Belfry did not write", e);
    if (key.n)
        memcpy(text, key.p, key.n);
    *ret = (struct str){ text, key.n };
    return ERR_OK;
}

/* ---- functions for the operations ---- */

enum err pg_slots_release(struct store_postgres *s, const struct uuid *task, const struct task *next,
                          struct slot_keys *keys, struct error *e)
{
    return slots_release(&s->slots, task, next, keys, e);
}

enum err pg_slots_settle(struct store_postgres *s, const struct uuid *task, enum task_state next, uint64_t *unblocked,
                         struct error *e)
{
    return slots_settle(&s->slots, task, next, unblocked, e);
}

enum err pg_slots_hand_over(struct store_postgres *s, const struct slot_keys *keys, uint64_t *unblocked,
                            struct error *e)
{
    return slots_hand_over(&s->slots, keys, unblocked, e);
}

enum err pg_change_task(struct store_postgres *s, const struct pg_guards *old, const struct task *t,
                        struct slot_keys *keys, enum task_state *ret_state, struct error *e)
{
    struct task tidy = *t;
    slot_tidy(&tidy, old->waits_for);
    *ret_state = tidy.state;
    if (old->waits_for.n) {
        slot_keys_add(keys, old->waits_for);
        pg_slot_state(s, old->waits_for)->is_loaded =
            false; /* the task may leave that line, or change its place in it */
    }
    if (pg_replace_row(s, old, &tidy, e))
        return e->code;
    if (task_is_called_off(&tidy) &&
        pg_uncount_runs(s, &tidy.id, &tidy.parent, &(bool){ tidy.state == TASK_EXPIRED }, 1, e))
        return e->code;
    return old->gated ? pg_slots_release(s, &t->id, &tidy, keys, e) : ERR_OK;
}

enum err pg_uncount_runs(struct store_postgres *s, const struct uuid *ids, const struct uuid *parents,
                         const bool *skipped, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    if (n > 1 && pg_lock_parents(s, parents, n, e))
        return e->code;
    pg_params_reset(&s->params);
    pg_add_ids(&s->params, ids, n);
    pg_add_ids(&s->params, parents, n);
    pg_array(&s->params, PG_BOOL);
    for (size_t i = 0; i < n; i++)
        pg_element_bool(&s->params, skipped[i]);
    pg_array_end(&s->params);
    return pg_queue(&s->conn, &uncount_runs, &s->params, e);
}

static enum err pg_slot_uncount(struct slots *base, const struct slot_row *r, const struct uuid *parent, bool skipped,
                                struct error *e)
{
    return pg_uncount_runs(pg_slots_self(base), &r->id, parent, &skipped, 1, e);
}

void pg_slots_init(struct store_postgres *s)
{
    static const struct slots_ops ops = { .count = pg_slot_count,
                                          .first = pg_slot_first,
                                          .held = pg_slot_held,
                                          .waits_for = pg_slot_waits_for,
                                          .hold = pg_slot_hold,
                                          .drop = pg_slot_drop,
                                          .hand = pg_slot_hand,
                                          .block = pg_slot_block,
                                          .give_up = pg_slot_give_up,
                                          .uncount = pg_slot_uncount,
                                          .holders = pg_slot_holders,
                                          .other = pg_slot_other,
                                          .since = pg_slot_since,
                                          .held_ahead = pg_slot_held_ahead };
    s->slots.ops = &ops;
    s->slots.store = &s->base;
    map_init(&s->slot_keys, HASH_STABLE);
    map_init(&s->slots_held, HASH_STABLE);
}
