/* Who holds a slot and who waits for it. A holder is a row of slots; who waits says so in its own row, and an index over those rows is
 * the line. Tasks that need no slot never come here: their gates are NULL.
 *
 * How many hold a key is counted once a transaction and kept in memory from there on: limits may be large. */
#include <assert.h>
#include <stdlib.h>

#include "adapter/store_sqlite_impl.h"

/* ---- holders ---- */

struct slot_count {
    int64_t n;
    struct str key;
    char text[];
};

void slot_counts_forget(struct store_sqlite *s)
{
    map_each (&s->slot_counts, slot)
        free(slot->value);
    map_release(&s->slot_counts);
}

static enum err count_holders(struct store_sqlite *s, struct str key, struct slot_count **ret, struct error *e)
{
    *ret = map_get(&s->slot_counts, key);
    if (*ret)
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_COUNT);
    (void)bind_str(st, 1, key);
    bool row;
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    struct slot_count *c = xcalloc(1, sizeof *c + str_pack_size(key));
    char *at = c->text;
    c->n = sqlite3_column_int64(st, 0);
    c->key = str_pack(key, &at);
    sqlite3_reset(st);
    (void)map_put(&s->slot_counts, c->key, c);
    *ret = c;
    return ERR_OK;
}

enum err slot_take(struct store_sqlite *s, int32_t tenant, const struct uuid *task, struct str key, struct error *e)
{
    struct slot_count *count;
    if (count_holders(s, key, &count, e))
        return e->code;
    count->n++;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_TAKE);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, key);
    (void)bind_uuid(st, 3, task);
    return conn_run(&s->conn, st, e);
}

enum err slot_drop(struct store_sqlite *s, const struct uuid *task, struct str key, struct error *e)
{
    struct slot_count *count = map_get(&s->slot_counts, key);
    if (count)
        count->n--;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_DROP);
    (void)bind_str(st, 1, key);
    (void)bind_uuid(st, 2, task);
    return conn_run(&s->conn, st, e);
}

enum err slots_of(struct store_sqlite *s, const struct uuid *task, struct held_slots *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOTS_OF);
    (void)bind_uuid(st, 1, task);
    ret->n = 0;
    for (bool row;;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        size_t n = (size_t)sqlite3_column_bytes(st, 0);
        if (n > SLOT_KEY_MAX || ret->n == SLOTS_MAX) {
            sqlite3_reset(st);
            return conn_corrupt(&s->conn, "a slot that is not one of ours", e);
        }
        memcpy(ret->text[ret->n], sqlite3_column_blob(st, 0), n);
        ret->key[ret->n] = (struct str){ ret->text[ret->n], n };
        ret->n++;
    }
}

bool slots_have(const struct held_slots *h, struct str key)
{
    for (size_t i = 0; i < h->n; i++)
        if (str_eq(h->key[i], key))
            return true;
    return false;
}

/* ---- lines ---- */

struct waiting {
    bool found;
    int64_t rid, due_ms, limit, lane;
    struct uuid id;
    int32_t tenant;
    bool deleted;
};

static enum err first_waiting(struct store_sqlite *s, struct str key, struct waiting *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_FIRST);
    (void)bind_str(st, 1, key);
    if (conn_step(&s->conn, st, &ret->found, e))
        return e->code;
    if (!ret->found)
        return ERR_OK;
    ret->rid = sqlite3_column_int64(st, 0);
    ret->id = row_uuid(st, 1);
    ret->due_ms = sqlite3_column_int64(st, 2);
    ret->tenant = sqlite3_column_int(st, 3);
    ret->deleted = sqlite3_column_int(st, 4) != 0;
    ret->limit = slot_kind_of(key) == SLOT_OVERLAP ? 1 : sqlite3_column_int64(st, 5);
    ret->lane = sqlite3_column_int64(st, 6);
    sqlite3_reset(st);
    return ERR_OK;
}

enum err slot_is_awaited(struct store_sqlite *s, struct str key, bool *ret, struct error *e)
{
    struct waiting first;
    if (first_waiting(s, key, &first, e))
        return e->code;
    *ret = first.found;
    return ERR_OK;
}

static bool stands_before(const struct waiting *w, const struct task *t)
{
    return w->due_ms != t->due_ms ? w->due_ms < t->due_ms : uuid_cmp(w->id, t->id) < 0;
}

enum err slot_is_free(struct store_sqlite *s, const struct task *t, const struct slot_need *need, bool *ret,
                      struct error *e)
{
    struct slot_count *count;
    struct waiting first;
    *ret = false;
    if (count_holders(s, need->key, &count, e))
        return e->code;
    if (count->n >= need->limit)
        return ERR_OK;
    if (first_waiting(s, need->key, &first, e))
        return e->code;
    *ret = !first.found || !stands_before(&first, t);
    return ERR_OK;
}

/* Gives the first of the line its slot, if it fits in. *ret is the bit of its lane; 0: it did not. */
static enum err hand_to_first(struct store_sqlite *s, struct str key, uint64_t *ret, struct error *e)
{
    struct waiting w;
    struct slot_count *count;
    const struct lane_row *lane;
    *ret = 0;
    if (first_waiting(s, key, &w, e))
        return e->code;
    if (!w.found)
        return ERR_OK;
    if (count_holders(s, key, &count, e))
        return e->code;
    if (count->n >= w.limit)
        return ERR_OK;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_WAKE);
    sqlite3_bind_int64(st, 1, w.rid);
    if (slot_take(s, w.tenant, &w.id, key, e) || conn_run(&s->conn, st, e) || lanes_at(&s->conn, w.lane, &lane, e))
        return e->code;
    tally_move(s, w.tenant, w.deleted, TASK_BLOCKED, TASK_SCHEDULED);
    *ret = lane_bit(lane->lane);
    return ERR_OK;
}

enum err slots_hand_over(struct store_sqlite *s, const struct slot_keys *keys, uint64_t *woke, struct error *e)
{
    size_t at = 0;
    for (struct str key; slot_keys_next(keys, &at, &key);) {
        uint64_t bit;
        do {
            if (hand_to_first(s, key, &bit, e))
                return e->code;
            *woke |= bit;
        } while (bit);
    }
    return ERR_OK;
}

/* ---- letting go ---- */

enum err slots_let_go(struct store_sqlite *s, const struct uuid *task, const struct task *next, struct slot_keys *keys,
                      struct error *e)
{
    struct held_slots held;
    if (slots_of(s, task, &held, e))
        return e->code;
    for (size_t i = 0; i < held.n; i++) {
        if (next && slot_is_kept(next, held.key[i]))
            continue;
        slot_keys_add(keys, held.key[i]);
        if (slot_drop(s, task, held.key[i], e))
            return e->code;
    }
    return ERR_OK;
}

enum err slots_settle(struct store_sqlite *s, const struct uuid *task, enum task_state next, uint64_t *woke,
                      struct error *e)
{
    struct held_slots held;
    if (slots_of(s, task, &held, e))
        return e->code;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    for (size_t i = 0; i < held.n; i++) {
        if (slot_outlives(slot_kind_of(held.key[i]), next))
            continue;
        slot_keys_add(&keys, held.key[i]);
        if (slot_drop(s, task, held.key[i], e))
            return e->code;
    }
    return slots_hand_over(s, &keys, woke, e);
}

enum err slot_waited_for(struct store_sqlite *s, int64_t rid, char text[SLOT_KEY_MAX], struct str *ret, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_WAITED_FOR);
    bool row;
    sqlite3_bind_int64(st, 1, rid);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    size_t n = (size_t)sqlite3_column_bytes(st, 0);
    if (n > 0 && n <= SLOT_KEY_MAX)
        memcpy(text, sqlite3_column_blob(st, 0), n);
    sqlite3_reset(st);
    *ret = (struct str){ text, n };
    return n <= SLOT_KEY_MAX ? ERR_OK : conn_corrupt(&s->conn, "a slot that is not one of ours", e);
}

enum err change_task(struct store_sqlite *s, const struct guards *old, const struct task *t, struct slot_keys *keys,
                     struct error *e)
{
    struct task tidy = *t;
    struct str key = { 0 };
    char text[SLOT_KEY_MAX];
    if (old->waits && slot_waited_for(s, old->rid, text, &key, e))
        return e->code;
    slot_tidy(&tidy, key);
    if (key.n)
        slot_keys_add(keys, key);
    if (replace_task(s, old, &tidy, e))
        return e->code;
    return old->gated ? slots_let_go(s, &t->id, &tidy, keys, e) : ERR_OK;
}

/* ---- what will not run ---- */

enum err count_as_skipped(struct store_sqlite *s, int64_t rid, const struct uuid *parent, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_UNCOUNT);
    sqlite3_bind_int64(st, 1, rid);
    if (conn_run(&s->conn, st, e))
        return e->code;
    if (sqlite3_changes(s->conn.db) == 0)
        return ERR_OK;
    st = writer_stmt(s, ST_COUNT_SKIPPED);
    (void)bind_uuid(st, 1, parent);
    return conn_run(&s->conn, st, e);
}
