/* Reads the slots of many tasks in a few round trips, before an operation treats them one by one from the cache. */
#include <stdlib.h>

#include "store/postgres/sharing/slots.h"

static const struct pg_statement slots_of = { "slots_of", "SELECT task_id, key FROM slots WHERE task_id = ANY ($1)" };
static const struct pg_statement slot_try = {
    "slot_try",
    "SELECT pg_try_advisory_xact_lock(k) FROM unnest($1) AS k",
};

/* ---- slots that tasks hold ---- */

struct pg_held_by {
    struct uuid task;
    struct held_slots slots;
};

static struct pg_held_by *pg_slots_held_entry(struct store_postgres *s, struct uuid task)
{
    struct pg_held_by *h = map_get(&s->slots_held, uuid_bytes(&task));
    if (h)
        return h;
    h = xcalloc(1, sizeof *h);
    h->task = task;
    (void)map_put(&s->slots_held, uuid_bytes(&h->task), h);
    return h;
}

void pg_slots_drop_held(struct store_postgres *s, const struct uuid *task)
{
    free(map_remove(&s->slots_held, uuid_bytes(task)));
}

enum err pg_slots_read_held(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e)
{
    struct pg_params *p = &s->params;
    size_t asked = 0;
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++) {
        if (map_get(&s->slots_held, uuid_bytes(&tasks[i])))
            continue;
        pg_element_uuid(p, tasks[i]);
        (void)pg_slots_held_entry(s, tasks[i]);
        asked++;
    }
    pg_array_end(p);
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (asked == 0)
        return ERR_OK;
    if (pg_run(&s->conn, &slots_of, p, &r, e))
        return e->code;
    for (int i = 0; i < r.rows; i++)
        if (!held_slots_add(&pg_slots_held_entry(s, pg_uuid(&r, i, 0))->slots, pg_text(&r, i, 1)))
            return pg_corrupt(&s->conn, "table 'slots' has a key that Belfry did not write", e);
    return ERR_OK;
}

const struct held_slots *pg_slots_cached_held(struct store_postgres *s, const struct uuid *task)
{
    const struct pg_held_by *h = map_get(&s->slots_held, uuid_bytes(task));
    return h ? &h->slots : NULL;
}

/* ---- locks and states of slots ---- */

enum err pg_slots_try_lock(struct store_postgres *s, struct pg_slot *const *v, size_t n, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (n == 0)
        return ERR_OK;
    pg_params_reset(&s->params);
    pg_array(&s->params, PG_I64);
    for (size_t i = 0; i < n; i++)
        pg_element_i64(&s->params, pg_lock_number(PG_LOCK_SLOT, v[i]->key));
    pg_array_end(&s->params);
    if (pg_run(&s->conn, &slot_try, &s->params, &r, e))
        return e->code;
    if ((size_t)r.rows != n)
        return pg_corrupt(&s->conn, "the server did not return a result for each lock", e);
    for (size_t i = 0; i < n; i++)
        v[i]->lock = pg_bool(&r, (int)i, 0) ? SLOT_LOCKED : SLOT_BUSY;
    return ERR_OK;
}

/* Collects the slots that these tasks hold and that are not loaded. */
static size_t pg_slots_find_unloaded(struct store_postgres *s, const struct uuid *tasks, size_t n, struct pg_slot **v)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const struct held_slots *h = pg_slots_cached_held(s, &tasks[i]);
        for (size_t j = 0; j < h->n; j++) {
            struct pg_slot *k = pg_slot_state(s, h->key[j]);
            if (!k->is_loaded)
                v[found++] = k;
            k->is_loaded = true; /* will be loaded: collects each slot once */
        }
    }
    return found;
}

enum err pg_slots_lock(struct store_postgres *s, const struct str *keys, size_t n, struct error *e)
{
    if (pg_lock(s, PG_LOCK_SLOT, keys, n, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        pg_slot_state(s, keys[i])->lock = SLOT_LOCKED;
    return ERR_OK;
}

static enum err pg_slots_lock_and_load(struct store_postgres *s, struct pg_slot **v, size_t n, struct error *e)
{
    struct str *keys = xcalloc(n + 1, sizeof *keys);
    size_t unlocked = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i]->lock != SLOT_LOCKED)
            keys[unlocked++] = v[i]->key;
    enum err rc = pg_slots_lock(s, keys, unlocked, e);
    free(keys);
    return rc ? rc : pg_slots_load(s, v, n, e);
}

enum err pg_slots_prefetch(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e)
{
    if (n == 0)
        return ERR_OK;
    s->has_met_slots = true;
    if (pg_slots_read_held(s, tasks, n, e))
        return e->code;
    struct pg_slot **v = xcalloc(n * SLOTS_MAX, sizeof(struct pg_slot *));
    enum err rc = pg_slots_lock_and_load(s, v, pg_slots_find_unloaded(s, tasks, n, v), e);
    free(v);
    return rc;
}

/* A settle releases its tasks' slots, and locks task rows on the way. Another transaction may have the lock of such a
 * slot and wait for one of these rows. So a transaction first takes the slot locks of all its settles, in one order. A
 * process that has never met a slot skips this. */
enum err pg_slots_lock_settled(struct store_postgres *s, struct op *const *ops, size_t n, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    struct pg_params *p = &s->params;
    size_t asked = 0;
    if (!s->has_met_slots)
        return ERR_OK;
    pg_params_reset(p);
    pg_array(p, PG_UUID);
    for (size_t i = 0; i < n; i++) {
        const struct op_settle *op = (const struct op_settle *)ops[i];
        for (size_t j = 0; ops[i]->kind == OP_SETTLE && j < op->n; j++, asked++)
            pg_element_uuid(p, op->v[j].id);
    }
    pg_array_end(p);
    if (asked == 0)
        return ERR_OK;
    if (pg_run(&s->conn, &slots_of, p, &r, e))
        return e->code;
    struct str *keys = xcalloc((size_t)r.rows + 1, sizeof *keys);
    for (int i = 0; i < r.rows; i++)
        keys[i] = pg_text(&r, i, 1);
    enum err rc = pg_slots_lock(s, keys, (size_t)r.rows, e);
    free(keys);
    return rc;
}
