/* Slots change with rows. A row that replaces another one releases the slots that it does not keep, and released slots
 * are handed over at the end. */
#include <assert.h>

#include "model/internal.h"

static bool memory_slot_is_first(const struct line *l, const struct task *t)
{
    return order_count(&l->waiting) == 0 || order_find(&l->waiting, t->due_ms, t->id) == 0;
}

bool memory_slot_is_free(const struct table *t, const struct task *task, const struct slot_need *need)
{
    const struct line *l = table_line(t, need->key);
    return !l || (order_count(&l->holders) < (size_t)need->limit && memory_slot_is_first(l, task));
}

bool memory_slot_has_earlier(const struct table *t, const struct task *task, const struct slot_need *need)
{
    const struct line *l = table_line(t, need->key);
    size_t n = l ? order_count(&l->coming) : 0;
    for (size_t i = 0; i < n && order_at(&l->coming, i)->key <= task->due_ms; i++) {
        const struct task *other = task_at(&l->coming, i);
        if (other->due_ms < task->due_ms || other->scheduled_ms < task->scheduled_ms ||
            (other->scheduled_ms == task->scheduled_ms && uuid_cmp(other->id, task->id) < 0))
            return true;
    }
    return false;
}

/* The bits of the held slots that `next` keeps. Adds the keys of the others to `keys`. */
static unsigned memory_kept_slots(const struct table *t, const struct task *old, const struct task *next, bool edited,
                                  struct slot_keys *keys)
{
    struct slot_need needs[SLOTS_MAX];
    unsigned holds = table_holds(t, old->id);
    for (size_t i = slot_needs(old, needs); i-- > 0;) {
        bool kept = edited ? slot_is_kept(next, needs[i].key) : slot_outlives(needs[i].kind, next->state);
        if (!(holds >> needs[i].kind & 1) || kept)
            continue;
        holds &= ~(1u << needs[i].kind);
        slot_keys_add(keys, needs[i].key);
    }
    return holds;
}

void memory_change_row(struct table *t, const struct task *next, bool edited, struct slot_keys *keys)
{
    const struct task *old = table_get(t, next->id);
    struct task tidy = *next;
    slot_tidy(&tidy, old->waits_for);
    if (old->waits_for.n)
        slot_keys_add(keys, old->waits_for);
    table_put_holding(t, &tidy, memory_kept_slots(t, old, &tidy, edited, keys));
}

void memory_drop_row(struct table *t, struct uuid id, struct slot_keys *keys)
{
    struct slot_need needs[SLOTS_MAX];
    const struct task *old = table_get(t, id);
    unsigned holds = table_holds(t, id);
    for (size_t i = slot_needs(old, needs); i-- > 0;)
        if (holds >> needs[i].kind & 1)
            slot_keys_add(keys, needs[i].key);
    if (old->waits_for.n)
        slot_keys_add(keys, old->waits_for);
    table_drop(t, id);
}

/* Gives the slot to the first task of the line, if it fits in. Returns the bit of its lane; 0: nobody got the slot. */
static uint64_t memory_slot_hand_to_first(struct table *t, struct str key)
{
    const struct line *l = table_line(t, key);
    if (!l || order_count(&l->waiting) == 0)
        return 0;
    struct task next = *task_at(&l->waiting, 0);
    struct slot_need needs[SLOTS_MAX];
    size_t i = slot_needs(&next, needs);
    while (i-- > 0 && !str_eq(needs[i].key, key))
        ;
    assert(i < SLOTS_MAX); /* slot_tidy guarantees it */
    if (order_count(&l->holders) >= (size_t)needs[i].limit)
        return 0;
    next.state = TASK_SCHEDULED;
    next.waits_for = (struct str){ 0 };
    uint64_t bit = lane_bit(task_lane(&next)); /* before the old row with its texts is freed */
    table_put_holding(t, &next, table_holds(t, next.id) | 1u << needs[i].kind);
    return bit;
}

void memory_hand_over(struct table *t, const struct slot_keys *keys, uint64_t *unblocked)
{
    size_t at = 0;
    for (struct str key; slot_keys_next(keys, &at, &key);)
        for (uint64_t bit; (bit = memory_slot_hand_to_first(t, key));)
            *unblocked |= bit;
}

void memory_uncount_run(struct table *t, struct task *occurrence, struct uuid parent, bool skipped)
{
    if (occurrence->kind != TASK_OCCURRENCE || occurrence->runs_count != 1 || occurrence->started_ms)
        return;
    occurrence->runs_count = 0;
    const struct task *p = table_get(t, parent);
    if (!p)
        return;
    struct task next = *p;
    next.runs_count = max_of(next.runs_count - 1, 0);
    next.skipped_count += skipped;
    table_put(t, &next);
}
