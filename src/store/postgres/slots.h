#pragma once
/* store/postgres/slots.h - what is known of slots in a transaction: slots.c keeps it,
 * slots_prefetch.c asks for many at once, slot_gate.c is the half that claims need. */
#include "store/postgres/internal.h"

enum { SLOT_LINE_CACHED = 8 };

/* A key. What stands here is true once it is loaded, until the transaction ends. */
struct pg_slot {
    enum { SLOT_UNLOCKED, SLOT_BUSY, SLOT_LOCKED } lock; /* BUSY: another node had it when a claim asked */
    bool is_loaded;
    bool since_known;
    int64_t count, since_ms; /* of holders; the earliest scheduled_ms of them, of an overlap slot */
    struct slot_row line[SLOT_LINE_CACHED];
    size_t line_n;
    bool is_line_whole; /* nobody stands behind those */
    struct str key;
    char text[];
};

static inline struct store_postgres *pg_slots_self(struct slots *s)
{
    return container_of(s, struct store_postgres, slots);
}

struct pg_slot *pg_slot_state(struct store_postgres *s, struct str key);
/* Of those whose locks we have, or asked for just now: all in one round trip. */
enum err pg_slots_load(struct store_postgres *s, struct pg_slot *const *v, size_t n, struct error *e) must_use;
/* Loaded, under its lock, which is waited for. */
enum err pg_slot_lock_and_load(struct store_postgres *s, struct str key, struct pg_slot **ret,
                               struct error *e) must_use;
void pg_slot_line_add(struct pg_slot *k, const struct slot_row *r);
void pg_slot_line_remove(struct pg_slot *k, struct uuid id);

/* The locks of keys, in order; they are waited for. */
enum err pg_slots_lock(struct store_postgres *s, const struct str *keys, size_t n, struct error *e) must_use;
/* The locks that are to be had without waiting: the others are BUSY. */
enum err pg_slots_try_lock(struct store_postgres *s, struct pg_slot *const *v, size_t n, struct error *e) must_use;
/* What these tasks hold, in one round trip; then what one of them holds (NULL: nobody asked). */
enum err pg_slots_read_held(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e) must_use;
const struct held_slots *pg_slots_cached_held(struct store_postgres *s, const struct uuid *task);
void pg_slots_drop_held(struct store_postgres *s, const struct uuid *task);

/* The primitives of claims (slot_gate.c). */
enum err pg_slot_block(struct slots *base, const struct slot_row *r, const struct slot_need *need, int64_t now_ms,
                       struct error *e);
enum err pg_slot_give_up(struct slots *base, const struct slot_row *r, enum task_state state, struct str why,
                         int64_t now_ms, struct error *e);
enum err pg_slot_holders(struct slots *base, struct str key, struct slot_row **ret, size_t *ret_count, struct error *e);
enum err pg_slot_other(struct slots *base, struct str key, const struct slot_row *but, struct slot_row *ret,
                       bool *ret_found, struct error *e);
enum err pg_slot_since(struct slots *base, struct str key, int64_t *ret, struct error *e);
