/* Invariant: the first task of every waiting line does not fit in. So every change of a key's holders, or of the first
 * task in its line, ends with slots_hand_over. */
#include "store/common/slots.h"

#include <stdlib.h>

bool slots_have(const struct held_slots *h, struct str key)
{
    for (size_t i = 0; i < h->n; i++)
        if (str_eq(h->key[i], key))
            return true;
    return false;
}

bool held_slots_add(struct held_slots *h, struct str key)
{
    if (h->n == SLOTS_MAX || key.n > SLOT_KEY_MAX)
        return false;
    memcpy(h->text[h->n], key.p, key.n);
    h->key[h->n] = (struct str){ h->text[h->n], key.n };
    h->n++;
    return true;
}

/* ---- hand over ---- */

static bool slots_is_before(const struct slot_row *a, const struct slot_row *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : uuid_cmp(a->id, b->id) < 0;
}

/* Whether the task, which does not hold the slot, could take it now. */
static enum err slots_is_free(struct slots *s, const struct slot_row *r, const struct slot_need *need, bool *ret,
                              struct error *e)
{
    struct slot_row first;
    int64_t count;
    bool found;
    *ret = false;
    if (s->ops->count(s, need->key, &count, e))
        return e->code;
    if (count >= need->limit)
        return ERR_OK;
    if (s->ops->first(s, need->key, &first, &found, e))
        return e->code;
    *ret = !found || !slots_is_before(&first, r);
    return ERR_OK;
}

/* Gives the slot to the first task of the line, if it fits in. *ret is the bit of its lane; 0: nobody got the slot. */
static enum err slots_hand_to_first(struct slots *s, struct str key, uint64_t *ret, struct error *e)
{
    struct slot_row first;
    int64_t count;
    bool found;
    *ret = 0;
    if (s->ops->first(s, key, &first, &found, e))
        return e->code;
    if (!found)
        return ERR_OK;
    if (s->ops->count(s, key, &count, e))
        return e->code;
    if (count >= first.limit)
        return ERR_OK;
    change_add(s->store, first.id, TASK_BLOCKED, change_state(TASK_SCHEDULED, first.links));
    return s->ops->hand(s, &first, key, ret, e);
}

enum err slots_hand_over(struct slots *s, const struct slot_keys *keys, uint64_t *unblocked, struct error *e)
{
    size_t at = 0;
    for (struct str key; slot_keys_next(keys, &at, &key);) {
        uint64_t bit;
        do {
            if (slots_hand_to_first(s, key, &bit, e))
                return e->code;
            *unblocked |= bit;
        } while (bit);
    }
    return ERR_OK;
}

/* ---- release ---- */

enum err slots_release(struct slots *s, const struct uuid *task, const struct task *next, struct slot_keys *keys,
                       struct error *e)
{
    struct held_slots held;
    if (s->ops->held(s, task, &held, e))
        return e->code;
    for (size_t i = 0; i < held.n; i++) {
        if (next && slot_is_kept(next, held.key[i]))
            continue;
        slot_keys_add(keys, held.key[i]);
        if (s->ops->drop(s, task, held.key[i], e))
            return e->code;
    }
    return ERR_OK;
}

enum err slots_settle(struct slots *s, const struct uuid *task, enum task_state next, uint64_t *unblocked,
                      struct error *e)
{
    struct held_slots held;
    if (s->ops->held(s, task, &held, e))
        return e->code;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    for (size_t i = 0; i < held.n; i++) {
        if (slot_outlives(slot_kind_of(held.key[i]), next))
            continue;
        slot_keys_add(&keys, held.key[i]);
        if (s->ops->drop(s, task, held.key[i], e))
            return e->code;
    }
    return slots_hand_over(s, &keys, unblocked, e);
}

/* ---- claims ---- */

void gate_release(struct gate *g)
{
    free(g->gated);
    free(g->replaced);
}

enum err gate_check(struct gate *g, struct candidate *k, struct error *e)
{
    struct slots *s = g->slots;
    k->n = slot_needs(&k->task, k->needs);
    if (s->ops->held(s, &k->row.id, &k->held, e))
        return e->code;
    for (k->missing = 0; k->missing < k->n; k->missing++) {
        const struct slot_need *need = &k->needs[k->missing];
        bool has = slots_have(&k->held, need->key);
        if (!has && slots_is_free(s, &k->row, need, &has, e))
            return e->code;
        if (!has)
            return ERR_OK;
    }
    return ERR_OK;
}

enum err gate_take(struct gate *g, const struct candidate *k, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!slots_have(&k->held, k->needs[i].key) &&
            g->slots->ops->hold(g->slots, k->row.tenant, &k->row.id, k->needs[i].key, e))
            return e->code;
    return ERR_OK;
}

/* ---- tasks that find no slot ---- */

static void slots_add_gated(struct gate *g, const struct slot_row *r)
{
    for (size_t i = 0; i < g->gated_count; i++)
        if (uuid_eq(g->gated[i].id, r->id))
            return;
    if (g->gated_count == g->gated_cap) {
        g->gated_cap = g->gated_cap * 2 + 16;
        g->gated = xrealloc(g->gated, g->gated_cap * sizeof *g->gated);
    }
    g->gated[g->gated_count++] = (struct gated){ r->rid, r->id };
}

static void slots_add_replaced(struct gate *g, const struct slot_row *r, const struct task *by)
{
    if (g->replaced_count == g->replaced_cap) {
        g->replaced_cap = g->replaced_cap * 2 + 16;
        g->replaced = xrealloc(g->replaced, g->replaced_cap * sizeof *g->replaced);
    }
    g->replaced[g->replaced_count++] =
        (struct replaced){ r->id, r->fence, by->scheduled_ms, by->tenant, by->target == TARGET_WORKFLOW };
}

struct replaced *gate_copy_replaced(const struct gate *g, const struct tasks *taken, struct arena *a)
{
    struct replaced *v = arena_array(a, struct replaced, g->replaced_count);
    for (size_t i = 0; v && i < g->replaced_count; i++) {
        v[i] = g->replaced[i];
        for (size_t k = 0; k < taken->n; k++)
            if (uuid_eq(taken->v[k].id, v[i].id))
                v[i].fence = taken->v[k].fence;
    }
    return v;
}

static enum err slots_skip_task(struct gate *g, const struct candidate *k, struct slot_keys *keys, struct error *e)
{
    struct slots *s = g->slots;
    char text[SLOT_REASON_MAX];
    int64_t since_ms;
    change_add(s->store, k->row.id, (int)change_state(k->row.state, k->row.links), TASK_SKIPPED);
    if (s->ops->since(s, k->needs[k->missing].key, &since_ms, e) ||
        s->ops->give_up(s, &k->row, TASK_SKIPPED, slot_skip_reason(since_ms, text), g->now_ms, e) ||
        s->ops->uncount(s, &k->row, &k->task.parent, true, e))
        return e->code;
    return slots_release(s, &k->row.id, NULL, keys, e);
}

static enum err slots_block_task(struct gate *g, const struct candidate *k, struct slot_keys *keys, struct error *e)
{
    struct slots *s = g->slots;
    change_add(s->store, k->row.id, (int)change_state(k->row.state, k->row.links), TASK_BLOCKED);
    if (s->ops->block(s, &k->row, &k->needs[k->missing], g->now_ms, e) || gate_take(g, k, k->missing, e))
        return e->code;
    for (size_t i = k->missing + 1; i < k->n; i++) {
        if (!slots_have(&k->held, k->needs[i].key))
            continue;
        slot_keys_add(keys, k->needs[i].key);
        if (s->ops->drop(s, &k->row.id, k->needs[i].key, e))
            return e->code;
    }
    return ERR_OK;
}

/* Only occurrences of one parent replace each other: `by` has the parent of the cancelled task. */
static enum err slots_cancel_task(struct gate *g, const struct slot_row *r, const struct candidate *by, struct str why,
                                  struct slot_keys *keys, struct error *e)
{
    struct slots *s = g->slots;
    char text[SLOT_KEY_MAX];
    struct str line = { 0 }; /* it may hold one slot and wait for another */
    if (s->ops->waits_for(s, r, text, &line, e))
        return e->code;
    if (line.n)
        slot_keys_add(keys, line);
    slots_add_gated(g, r);
    change_add(s->store, r->id, (int)r->state, TASK_CANCELLED);
    if (s->ops->give_up(s, r, TASK_CANCELLED, why, g->now_ms, e) || s->ops->uncount(s, r, &by->task.parent, false, e))
        return e->code;
    return slots_release(s, &r->id, NULL, keys, e);
}

static enum err slots_cancel_waiting(struct gate *g, const struct candidate *by, struct str why, struct slot_keys *keys,
                                     struct error *e)
{
    struct slots *s = g->slots;
    for (;;) {
        struct slot_row other;
        bool found;
        if (s->ops->other(s, by->needs[by->missing].key, &by->row, &other, &found, e))
            return e->code;
        if (!found)
            return ERR_OK;
        if (slots_cancel_task(g, &other, by, why, keys, e))
            return e->code;
    }
}

/* RUNNING holders are added to the replaced ones, for the caller to abort. The others are cancelled. */
static enum err slots_remove_holders(struct gate *g, const struct candidate *by, struct str why, struct slot_keys *keys,
                                     struct error *e)
{
    struct slot_row *v;
    size_t n;
    if (g->slots->ops->holders(g->slots, by->needs[by->missing].key, &v, &n, e))
        return e->code;
    enum err rc = ERR_OK;
    for (size_t i = 0; !rc && i < n; i++) {
        bool picked = g->is_picked(g, &v[i]);
        if (picked || v[i].state == TASK_RUNNING)
            slots_add_replaced(g, &v[i], &by->task);
        else
            rc = slots_cancel_task(g, &v[i], by, why, keys, e);
    }
    free(v);
    return rc;
}

/* `by` is BLOCKED already: slots that are released here go to it. */
static enum err slots_replace_others(struct gate *g, const struct candidate *by, struct slot_keys *keys,
                                     struct error *e)
{
    char text[SLOT_REASON_MAX];
    struct str why = slot_replace_reason(by->task.scheduled_ms, text);
    if (slots_cancel_waiting(g, by, why, keys, e))
        return e->code;
    return slots_remove_holders(g, by, why, keys, e);
}

static enum err slots_answer(struct gate *g, const struct slot_need *need, enum slot_answer *ret, struct error *e)
{
    struct slots *s = g->slots;
    struct slot_row first;
    bool awaited, held_ahead = false;
    if (s->ops->first(s, need->key, &first, &awaited, e))
        return e->code;
    bool asks = need->kind == SLOT_OVERLAP && need->policy != OVERLAP_QUEUE_ALL;
    if (asks && s->ops->held_ahead(s, need->key, g->now_ms, &held_ahead, e))
        return e->code;
    *ret = slot_decide(need, awaited, held_ahead, awaited && first.overlap == OVERLAP_QUEUE_ALL);
    return ERR_OK;
}

enum err gate_handle(struct gate *g, const struct candidate *k, struct error *e)
{
    enum slot_answer answer;
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    if (slots_answer(g, &k->needs[k->missing], &answer, e))
        return e->code;
    slots_add_gated(g, &k->row);
    if (answer == SLOT_SKIP ? slots_skip_task(g, k, &keys, e) : slots_block_task(g, k, &keys, e))
        return e->code;
    if (answer == SLOT_REPLACE && slots_replace_others(g, k, &keys, e))
        return e->code;
    g->handled++;
    return slots_hand_over(g->slots, &keys, &g->unblocked, e);
}
