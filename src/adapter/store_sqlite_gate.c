/* The half of OP_CLAIM that sees to slots: who needs which, and what becomes of who finds none. */
#include <stdlib.h>

#include "adapter/store_sqlite_claim.h"

static bool is_picked(const struct store_sqlite *s, const struct claiming *c, int64_t rid)
{
    for (size_t i = 0; i < c->n; i++)
        if (s->rids[i] == rid)
            return true;
    return false;
}

static enum err read_candidate(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret, struct error *e)
{
    ret->rid = sqlite3_column_int64(st, AT_rid);
    ret->bytes = (size_t)sqlite3_column_bytes(st, AT_payload) + (size_t)sqlite3_column_bytes(st, AT_target_config);
    ret->task = (struct task){ .id = row_uuid(st, AT_id),
                               .tenant = sqlite3_column_int(st, AT_tenant_id),
                               .kind = (enum task_kind)sqlite3_column_int(st, AT_kind),
                               .parent = row_uuid(st, AT_parent_id),
                               .due_ms = sqlite3_column_int64(st, AT_due_ms),
                               .scheduled_ms = sqlite3_column_int64(st, AT_scheduled_ms),
                               .deleted = sqlite3_column_int(st, AT_deleted) != 0 };
    arena_reset(&s->arena);
    if (row_read_gates(st, AT_gates, &s->arena, &ret->task, e))
        return e->code;
    ret->n = slot_needs(&ret->task, ret->needs);
    return slots_of(s, &ret->task.id, &ret->held, e);
}

static enum err find_missing(struct store_sqlite *s, struct candidate *k, struct error *e)
{
    for (k->missing = 0; k->missing < k->n; k->missing++) {
        const struct slot_need *need = &k->needs[k->missing];
        bool is_free = slots_have(&k->held, need->key);
        if (!is_free && slot_is_free(s, &k->task, need, &is_free, e))
            return e->code;
        if (!is_free)
            return ERR_OK;
    }
    return ERR_OK;
}

enum err gate_look(struct store_sqlite *s, sqlite3_stmt *st, struct candidate *ret, struct error *e)
{
    if (read_candidate(s, st, ret, e))
        return e->code;
    return find_missing(s, ret, e);
}

enum err gate_take_slots(struct store_sqlite *s, const struct candidate *k, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!slots_have(&k->held, k->needs[i].key) && slot_take(s, k->task.tenant, &k->task.id, k->needs[i].key, e))
            return e->code;
    return ERR_OK;
}

/* ---- those that find no slot ---- */

static void add_gated(struct claiming *c, int64_t rid)
{
    if (c->gated_count == c->gated_cap) {
        c->gated_cap = c->gated_cap * 2 + 16;
        c->gated = xrealloc(c->gated, c->gated_cap * sizeof *c->gated);
    }
    c->gated[c->gated_count++] = rid;
}

static bool is_gated(const struct claiming *c, int64_t rid)
{
    for (size_t i = 0; i < c->gated_count; i++)
        if (c->gated[i] == rid)
            return true;
    return false;
}

static void add_replaced(struct claiming *c, struct uuid id, int64_t fence, int64_t by_scheduled_ms)
{
    if (c->replaced_count == c->replaced_cap) {
        c->replaced_cap = c->replaced_cap * 2 + 16;
        c->replaced = xrealloc(c->replaced, c->replaced_cap * sizeof *c->replaced);
    }
    c->replaced[c->replaced_count++] = (struct replaced){ id, fence, by_scheduled_ms };
}

/* SKIPPED or CANCELLED. */
static enum err give_up(struct store_sqlite *s, const struct claiming *c, int64_t rid, enum task_state state,
                        struct str why, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_GIVE_UP);
    sqlite3_bind_int64(st, 1, rid);
    sqlite3_bind_int(st, 2, (int)state);
    sqlite3_bind_int64(st, 3, c->op->now_ms);
    (void)bind_str(st, 4, why);
    note_ended(s, rid, state, c->op->now_ms);
    return conn_run(&s->conn, st, e);
}

static enum err skip_task(struct store_sqlite *s, const struct claiming *c, const struct candidate *k,
                          struct slot_keys *keys, struct error *e)
{
    char text[SLOT_REASON_MAX];
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_SINCE);
    bool row;
    (void)bind_str(st, 1, k->needs[k->missing].key);
    if (conn_step(&s->conn, st, &row, e))
        return e->code;
    struct str why = slot_skip_reason(sqlite3_column_int64(st, 0), text);
    sqlite3_reset(st);
    tally_move(s, k->task.tenant, k->task.deleted, TASK_SCHEDULED, TASK_SKIPPED);
    if (give_up(s, c, k->rid, TASK_SKIPPED, why, e) || count_as_skipped(s, k->rid, &k->task.parent, e))
        return e->code;
    return slots_let_go(s, &k->task.id, NULL, keys, e);
}

static enum err block_task(struct store_sqlite *s, const struct claiming *c, const struct candidate *k,
                           struct slot_keys *keys, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_BLOCK);
    sqlite3_bind_int64(st, 1, k->rid);
    (void)bind_str(st, 2, k->needs[k->missing].key);
    sqlite3_bind_int64(st, 3, c->op->now_ms);
    if (conn_run(&s->conn, st, e) || gate_take_slots(s, k, k->missing, e))
        return e->code;
    tally_move(s, k->task.tenant, k->task.deleted, TASK_SCHEDULED, TASK_BLOCKED);
    for (size_t i = k->missing + 1; i < k->n; i++) {
        if (!slots_have(&k->held, k->needs[i].key))
            continue;
        slot_keys_add(keys, k->needs[i].key);
        if (slot_drop(s, &k->task.id, k->needs[i].key, e))
            return e->code;
    }
    return ERR_OK;
}

/* Who stands in the way of a task that replaces others: the next one, as the statement says. */
struct obstacle {
    bool found;
    int64_t rid, fence;
    struct uuid id;
    int32_t tenant;
    bool deleted;
    enum task_state state;
};

static enum err next_obstacle(struct store_sqlite *s, sqlite3_stmt *st, struct obstacle *ret, struct error *e)
{
    if (conn_step(&s->conn, st, &ret->found, e))
        return e->code;
    if (!ret->found)
        return ERR_OK;
    ret->rid = sqlite3_column_int64(st, 0);
    ret->id = row_uuid(st, 1);
    ret->tenant = sqlite3_column_int(st, 2);
    ret->deleted = sqlite3_column_int(st, 3) != 0;
    ret->state = (enum task_state)sqlite3_column_int(st, 4);
    ret->fence = sqlite3_column_int64(st, 5);
    return ERR_OK;
}

static enum err cancel_task(struct store_sqlite *s, struct claiming *c, const struct obstacle *o, struct str why,
                            struct slot_keys *keys, struct error *e)
{
    char text[SLOT_KEY_MAX];
    struct str line = { 0 }; /* it may hold one slot and wait for another */
    if (slot_waited_for(s, o->rid, text, &line, e))
        return e->code;
    if (line.n)
        slot_keys_add(keys, line);
    if (!is_gated(c, o->rid))
        add_gated(c, o->rid);
    tally_move(s, o->tenant, o->deleted, o->state, TASK_CANCELLED);
    if (give_up(s, c, o->rid, TASK_CANCELLED, why, e))
        return e->code;
    return slots_let_go(s, &o->id, NULL, keys, e);
}

static enum err cancel_waiting(struct store_sqlite *s, struct claiming *c, const struct candidate *by, struct str why,
                               struct slot_keys *keys, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_OTHERS);
    for (struct obstacle o;;) {
        (void)bind_str(st, 1, by->needs[by->missing].key);
        sqlite3_bind_int64(st, 2, by->rid);
        if (next_obstacle(s, st, &o, e))
            return e->code;
        sqlite3_reset(st);
        if (!o.found)
            return ERR_OK;
        if (cancel_task(s, c, &o, why, keys, e))
            return e->code;
    }
}

/* Those that run are told of, the others let go. */
static enum err remove_holders(struct store_sqlite *s, struct claiming *c, const struct candidate *by, struct str why,
                               struct slot_keys *keys, struct error *e)
{
    sqlite3_stmt *st = writer_stmt(s, ST_SLOT_HOLDERS);
    struct obstacle *v = NULL, o;
    size_t n = 0;
    (void)bind_str(st, 1, by->needs[by->missing].key);
    enum err rc;
    while (!(rc = next_obstacle(s, st, &o, e)) && o.found) {
        v = xrealloc(v, (n + 1) * sizeof *v); /* of an overlap slot there is one */
        v[n++] = o;
    }
    for (size_t i = 0; !rc && i < n; i++) {
        bool picked = is_picked(s, c, v[i].rid);
        if (picked || v[i].state == TASK_RUNNING)
            add_replaced(c, v[i].id, v[i].fence + picked, by->task.scheduled_ms);
        else
            rc = cancel_task(s, c, &v[i], why, keys, e);
    }
    free(v);
    return rc;
}

/* `by` waits already: what is let go of here goes to it. */
static enum err replace_others(struct store_sqlite *s, struct claiming *c, const struct candidate *by,
                               struct slot_keys *keys, struct error *e)
{
    char text[SLOT_REASON_MAX];
    struct str why = slot_replace_reason(by->task.scheduled_ms, text);
    if (cancel_waiting(s, c, by, why, keys, e))
        return e->code;
    return remove_holders(s, c, by, why, keys, e);
}

enum err gate_deal_with(struct store_sqlite *s, struct claiming *c, const struct candidate *k, struct error *e)
{
    const struct slot_need *need = &k->needs[k->missing];
    bool awaited;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    if (slot_is_awaited(s, need->key, &awaited, e))
        return e->code;
    enum slot_answer answer = slot_decide(need, awaited);
    add_gated(c, k->rid);
    if (answer == SLOT_SKIP ? skip_task(s, c, k, &keys, e) : block_task(s, c, k, &keys, e))
        return e->code;
    if (answer == SLOT_REPLACE && replace_others(s, c, k, &keys, e))
        return e->code;
    c->full = ++c->dealt_with == CLAIM_GATED_MAX;
    claim_add_bytes(c, k->bytes);
    return slots_hand_over(s, &keys, &c->woke, e);
}
