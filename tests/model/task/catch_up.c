/* OP_CATCH_UP. It scans all rows: this store is for tests. */
#include "model/internal.h"

/* Recurring tasks behind `after` with waiting occurrences, by id. */
static void memory_catch_up_find_parents(const struct store_memory *s, struct uuid after, struct order *ret)
{
    for (size_t i = 0; i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        bool waits = t->state == TASK_SCHEDULED || t->state == TASK_BLOCKED || t->state == TASK_PAUSED;
        if (waits && uuid_cmp(t->parent, after) > 0 && !order_get(ret, 0, t->parent))
            order_add(ret, 0, t->parent, ret); /* any pointer: only the id is used */
    }
}

/* The waiting occurrences of a task that may be withdrawn, the latest first. */
static void memory_catch_up_find(const struct store_memory *s, struct uuid parent, struct picks *ret)
{
    for (size_t i = order_count(&s->table.by_id); i > 0; i--) {
        const struct task *t = task_at(&s->table.by_id, i - 1);
        if (t->kind != TASK_OCCURRENCE || !uuid_eq(t->parent, parent))
            continue;
        enum spawned how = spawned_how(t, table_holds(&s->table, t->id) != 0);
        if (how == SPAWNED_FOR_GOOD)
            return;
        if (how == SPAWNED_AHEAD)
            picks_add(ret, t);
    }
}

static size_t memory_catch_up_withdraw(struct store_memory *s, struct uuid parent, int64_t before_ms,
                                       struct slot_keys *keys)
{
    const struct task *t = table_get(&s->table, parent);
    if (!t || t->kind != TASK_RECURRING || t->state != TASK_SCHEDULED)
        return 0;
    cleanup_with(picks_release) struct picks p = { 0 };
    memory_catch_up_find(s, parent, &p);
    bool too_many = t->schedule.catch_up == CATCH_UP_ALL && p.n > CATCH_UP_ALL_MAX;
    while (p.n && !spawned_was_missed(p.v[p.n - 1], &t->schedule, before_ms))
        p.n--;
    if (p.n == 0 || too_many)
        return 0;
    struct task next = *t;
    next.cursor_ms = min_of(next.cursor_ms, p.v[p.n - 1]->scheduled_ms + schedule_spread(&t->schedule, parent));
    next.runs_count = max_of(next.runs_count - (int64_t)p.n, (int64_t)0);
    table_put(&s->table, &next);
    for (size_t i = 0; i < p.n; i++)
        memory_drop_row(&s->table, p.v[i]->id, keys);
    return p.n;
}

enum err memory_catch_up(struct store_memory *s, struct op *base)
{
    struct op_catch_up *op = container_of(base, struct op_catch_up, op);
    cleanup_with(order_release) struct order parents;
    order_init(&parents);
    memory_catch_up_find_parents(s, op->after, &parents);
    size_t n = min_of(order_count(&parents), op->max);
    cleanup_with(slot_keys_release) struct slot_keys keys;
    slot_keys_init(&keys);
    uint64_t unblocked = 0; /* not returned: the caller looks at all lanes */
    op->ret_withdrawn = 0;
    for (size_t i = 0; i < n; i++)
        op->ret_withdrawn += memory_catch_up_withdraw(s, order_at(&parents, i)->id, op->before_ms, &keys);
    memory_hand_over(&s->table, &keys, &unblocked);
    op->ret_after = n < order_count(&parents) ? order_at(&parents, n - 1)->id : (struct uuid){ 0 };
    return ERR_OK;
}
