/* The primitives for slots (struct slots_ops): holders, waiting lines and task rows. The number of holders of a key is
 * counted once a transaction and then maintained in memory, because limits may be large. */
#include <stdlib.h>

#include "store/sqlite/internal.h"

/* ---- holders ---- */

struct slot_count {
    int64_t n;
    struct str key;
    char text[];
};

void sqlite_slot_counts_clear(struct store_sqlite *s)
{
    map_each (&s->slot_counts, slot)
        free(slot->value);
    map_release(&s->slot_counts);
}

static enum err sqlite_slot_count_holders(struct store_sqlite *s, struct str key, struct slot_count **ret,
                                          struct error *e)
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

static enum err sqlite_slot_count(struct slots *base, struct str key, int64_t *ret, struct error *e)
{
    struct slot_count *c;
    if (sqlite_slot_count_holders(sqlite_of_slots(base), key, &c, e))
        return e->code;
    *ret = c->n;
    return ERR_OK;
}

static enum err sqlite_slot_hold(struct slots *base, int32_t tenant, const struct uuid *task, struct str key,
                                 struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    struct slot_count *c;
    if (sqlite_slot_count_holders(s, key, &c, e))
        return e->code;
    c->n++;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_TAKE);
    sqlite3_bind_int(st, 1, tenant);
    (void)bind_str(st, 2, key);
    (void)bind_uuid(st, 3, task);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_slot_drop(struct slots *base, const struct uuid *task, struct str key, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    struct slot_count *c = map_get(&s->slot_counts, key);
    if (c)
        c->n--;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_DROP);
    (void)bind_str(st, 1, key);
    (void)bind_uuid(st, 2, task);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_slots_held(struct slots *base, const struct uuid *task, struct held_slots *ret, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOTS_OF);
    (void)bind_uuid(st, 1, task);
    ret->n = 0;
    for (bool row;;) {
        if (conn_step(&s->conn, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        struct str key = { sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0) };
        if (!held_slots_add(ret, key)) {
            sqlite3_reset(st);
            return conn_corrupt(&s->conn, "an invalid slot key", e);
        }
    }
}

/* ---- waiting lines ---- */

static enum err sqlite_slot_first(struct slots *base, struct str key, struct slot_row *ret, bool *ret_found,
                                  struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_FIRST);
    (void)bind_str(st, 1, key);
    if (conn_step(&s->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    *ret = (struct slot_row){ .rid = sqlite3_column_int64(st, 0),
                              .id = row_uuid(st, 1),
                              .due_ms = sqlite3_column_int64(st, 2),
                              .tenant = sqlite3_column_int(st, 3),
                              .deleted = sqlite3_column_int(st, 4) != 0,
                              .state = TASK_BLOCKED,
                              .limit = slot_kind_of(key) == SLOT_OVERLAP ? 1 : sqlite3_column_int64(st, 5),
                              .lane = sqlite3_column_int64(st, 6),
                              .overlap = (enum overlap)sqlite3_column_int(st, 7),
                              .links = sqlite3_column_int(st, 8) };
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err sqlite_slot_hand(struct slots *base, const struct slot_row *r, struct str key, uint64_t *ret_bit,
                                 struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    const struct lane_row *lane;
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_UNBLOCK);
    sqlite3_bind_int64(st, 1, r->rid);
    if (sqlite_slot_hold(base, r->tenant, &r->id, key, e) || conn_run(&s->conn, st, e) ||
        lanes_at(&s->conn, r->lane, &lane, e))
        return e->code;
    tally_move(&s->of_op, r->tenant, r->deleted, TASK_BLOCKED, TASK_SCHEDULED);
    *ret_bit = lane_bit(lane->lane);
    return ERR_OK;
}

static enum err sqlite_slot_waits_for(struct slots *base, const struct slot_row *r, char text[SLOT_KEY_MAX],
                                      struct str *ret, struct error *e)
{
    struct store_sqlite *s = sqlite_of_slots(base);
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_WAITED_FOR);
    bool row;
    sqlite3_bind_int64(st, 1, r->rid);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    size_t n = (size_t)sqlite3_column_bytes(st, 0);
    if (n > 0 && n <= SLOT_KEY_MAX)
        memcpy(text, sqlite3_column_blob(st, 0), n);
    sqlite3_reset(st);
    *ret = (struct str){ text, n };
    return n <= SLOT_KEY_MAX ? ERR_OK : conn_corrupt(&s->conn, "an invalid slot key", e);
}

/* ---- task rows ---- */

enum err sqlite_uncount_run(struct store_sqlite *s, int64_t rid, const struct uuid *parent, bool skipped,
                            struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_UNCOUNT);
    sqlite3_bind_int64(st, 1, rid);
    if (conn_run(&s->conn, st, e))
        return e->code;
    if (sqlite3_changes(s->conn.db) == 0)
        return ERR_OK;
    st = writer_stmt(s, ST_UNCOUNT_PARENT);
    (void)bind_uuid(st, 1, parent);
    sqlite3_bind_int(st, 2, skipped);
    return conn_run(&s->conn, st, e);
}

static enum err sqlite_slot_uncount(struct slots *base, const struct slot_row *r, const struct uuid *parent,
                                    bool skipped, struct error *e)
{
    return sqlite_uncount_run(sqlite_of_slots(base), r->rid, parent, skipped, e);
}

enum err sqlite_change_task(struct store_sqlite *s, const struct guards *old, const struct task *t,
                            struct slot_keys *keys, enum task_state *ret_state, struct error *e)
{
    struct task tidy = *t;
    struct str key = { 0 };
    char text[SLOT_KEY_MAX];
    if (old->waits && sqlite_slot_waits_for(&s->slots, &(struct slot_row){ .rid = old->rid }, text, &key, e))
        return e->code;
    slot_tidy(&tidy, key);
    *ret_state = tidy.state;
    if (key.n)
        slot_keys_add(keys, key);
    if (sqlite_replace_task(s, old, &tidy, e))
        return e->code;
    if (task_is_called_off(&tidy) && sqlite_uncount_run(s, old->rid, &tidy.parent, tidy.state == TASK_EXPIRED, e))
        return e->code;
    return old->gated ? slots_release(&s->slots, &t->id, &tidy, keys, e) : ERR_OK;
}

void sqlite_slots_init(struct store_sqlite *s)
{
    static const struct slots_ops ops = { .count = sqlite_slot_count,
                                          .first = sqlite_slot_first,
                                          .held = sqlite_slots_held,
                                          .waits_for = sqlite_slot_waits_for,
                                          .hold = sqlite_slot_hold,
                                          .drop = sqlite_slot_drop,
                                          .hand = sqlite_slot_hand,
                                          .block = sqlite_slot_block,
                                          .give_up = sqlite_slot_give_up,
                                          .uncount = sqlite_slot_uncount,
                                          .holders = sqlite_slot_holders,
                                          .other = sqlite_slot_other,
                                          .since = sqlite_slot_since,
                                          .held_ahead = sqlite_slot_held_ahead };
    s->slots.ops = &ops;
    s->slots.store = &s->base;
    map_init(&s->slot_counts, HASH_STABLE);
}
