#pragma once
/* store/postgres/sharing/slots.h - the state of slots that a transaction has read. slots.c caches it, slots_prefetch.c
 * reads it for many tasks at once, slot_gate.c holds the functions that claims use. */
#include "store/postgres/internal.h"

enum { SLOT_LINE_CACHED = 8 };

/* A slot key. Once loaded, its fields are valid until the transaction ends: the transaction holds the key's lock. */
struct pg_slot {
    enum {
        SLOT_UNLOCKED,
        SLOT_BUSY,
        SLOT_LOCKED
    } lock; /* BUSY: another transaction had the lock when a claim tried it */
    bool is_loaded;
    bool since_known;        /* since_ms and ahead_ms are */
    int64_t count, since_ms; /* number of holders; their earliest scheduled_ms (overlap slots only, like the next) */
    int64_t ahead_ms;        /* the latest due_ms of a holder that has never fired; 0: none */
    struct slot_row line[SLOT_LINE_CACHED];
    size_t line_n;
    bool is_line_whole; /* no task waits behind those in `line` */
    struct str key;
    char text[];
};

static inline struct store_postgres *pg_slots_self(struct slots *s)
{
    return container_of(s, struct store_postgres, slots);
}

struct pg_slot *pg_slot_state(struct store_postgres *s, struct str key);
/* Loads slots whose locks this transaction has, or has just asked for. One round trip. */
enum err pg_slots_load(struct store_postgres *s, struct pg_slot *const *v, size_t n, struct error *e) must_use;
/* The loaded slot. Waits for its lock if necessary. */
enum err pg_slot_lock_and_load(struct store_postgres *s, struct str key, struct pg_slot **ret,
                               struct error *e) must_use;
void pg_slot_line_add(struct pg_slot *k, const struct slot_row *r);
void pg_slot_line_remove(struct pg_slot *k, struct uuid id);

/* Takes the locks of the keys, in order. Waits for them. */
enum err pg_slots_lock(struct store_postgres *s, const struct str *keys, size_t n, struct error *e) must_use;
/* Takes the locks that are free; the other slots become SLOT_BUSY. */
enum err pg_slots_try_lock(struct store_postgres *s, struct pg_slot *const *v, size_t n, struct error *e) must_use;
/* Reads which slots these tasks hold, in one round trip; returns what one of them holds from the cache (NULL: not
 * read); removes one from the cache. */
enum err pg_slots_read_held(struct store_postgres *s, const struct uuid *tasks, size_t n, struct error *e) must_use;
const struct held_slots *pg_slots_cached_held(struct store_postgres *s, const struct uuid *task);
void pg_slots_drop_held(struct store_postgres *s, const struct uuid *task);

/* Functions of struct slots_ops that only claims use (slot_gate.c). */
enum err pg_slot_block(struct slots *base, const struct slot_row *r, const struct slot_need *need, int64_t now_ms,
                       struct error *e);
enum err pg_slot_give_up(struct slots *base, const struct slot_row *r, enum task_state state, struct str why,
                         int64_t now_ms, struct error *e);
enum err pg_slot_holders(struct slots *base, struct str key, struct slot_row **ret, size_t *ret_count, struct error *e);
enum err pg_slot_other(struct slots *base, struct str key, const struct slot_row *but, struct slot_row *ret,
                       bool *ret_found, struct error *e);
enum err pg_slot_since(struct slots *base, struct str key, int64_t *ret, struct error *e);
enum err pg_slot_held_ahead(struct slots *base, struct str key, int64_t now_ms, bool *ret, struct error *e);
