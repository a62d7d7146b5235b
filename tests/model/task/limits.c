/* Checks of inserts and puts beyond their own rows: the limits of a tenant, and calendars that must exist. */
#include "model/internal.h"

static bool memory_limits_counts(const struct task *t, int32_t tenant)
{
    return t->tenant == tenant && !t->deleted && !task_is_final(t->state);
}

static struct tenant_usage memory_usage_of(const struct store_memory *s, int32_t tenant)
{
    struct tenant_usage u = { 0 };
    for (size_t i = 0; i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        if (!memory_limits_counts(t, tenant))
            continue;
        u.pending++;
        u.recurring += t->kind == TASK_RECURRING;
    }
    return u;
}

/* Counts only tasks that are not in the table yet. */
static struct tenant_usage memory_usage_of_new(const struct store_memory *s, const struct op_insert *op)
{
    struct tenant_usage u = { 0 };
    cleanup_with(map_release) struct map seen;
    map_init(&seen, HASH_STABLE);
    for (size_t i = 0; i < op->count; i++) {
        const struct task *t = &op->tasks[i];
        bool is_new = !table_get(&s->table, t->id) && !map_get(&seen, uuid_bytes(&t->id));
        map_put(&seen, uuid_bytes(&t->id), &seen);
        if (!is_new || !memory_limits_counts(t, op->tasks[0].tenant))
            continue;
        u.pending++;
        u.recurring += t->kind == TASK_RECURRING;
    }
    return u;
}

enum err memory_limits_check(const struct store_memory *s, const struct op_insert *op, struct error *e)
{
    if (!op->count || (!op->max_pending && !op->max_recurring))
        return ERR_OK;
    struct tenant_usage has = memory_usage_of(s, op->tasks[0].tenant), comes = memory_usage_of_new(s, op);
    if (op->max_pending && comes.pending && has.pending + comes.pending > op->max_pending)
        return limit_reached("max_pending", op->max_pending, e);
    if (op->max_recurring && comes.recurring && has.recurring + comes.recurring > op->max_recurring)
        return limit_reached("max_recurring", op->max_recurring, e);
    return ERR_OK;
}

enum err memory_calendar_check(const struct store_memory *s, const struct task *t, struct error *e)
{
    if (!task_needs_calendar(t) || memory_catalog_find(s, t->tenant, CATALOG_CALENDAR, t->schedule.calendar))
        return ERR_OK;
    return calendar_missing(t->schedule.calendar, e);
}

enum err memory_calendar_unused(const struct store_memory *s, const struct catalog_entry *x, struct error *e)
{
    for (size_t i = 0; i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        if (t->tenant == x->tenant && task_needs_calendar(t) && str_eq(t->schedule.calendar, x->name))
            return calendar_used(x->name, e);
    }
    return ERR_OK;
}

enum err memory_usage(struct reader *r, int32_t tenant, struct tenant_usage *ret, struct error *e)
{
    (void)e;
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    *ret = memory_usage_of(s, tenant);
    return ERR_OK;
}

enum err memory_queue_due(struct reader *r, int32_t tenant, struct str queue, int64_t now_ms, int64_t *ret,
                          struct error *e)
{
    (void)e;
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    int64_t n = 0;
    map_each (&s->table.lanes, slot) {
        const struct lane_rows *l = slot->value;
        bool is_its = l->lane.tenant == tenant && str_eq(l->lane.queue, queue);
        for (int leased = 0; is_its && leased <= 1; leased++)
            n += (int64_t)order_find(&l->due[leased], now_ms + 1, (struct uuid){ 0 });
    }
    *ret = n;
    return ERR_OK;
}

enum err memory_backlog(struct reader *r, int64_t now_ms, struct arena *a, struct backlog_rows *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct backlog_rows rows = { .v = arena_array(a, struct backlog_row, s->table.lanes.n + 1) };
    if (!rows.v)
        return memory_no_room(e);
    map_each (&s->table.lanes, slot) {
        const struct lane_rows *l = slot->value;
        struct backlog_row row = { .tenant = l->lane.tenant, .priority = l->lane.priority };
        for (int leased = 0; leased <= 1; leased++)
            row.due += (int64_t)order_find(&l->due[leased], now_ms + 1, (struct uuid){ 0 });
        if (row.due && !arena_str(a, l->lane.queue, &row.queue))
            return memory_no_room(e);
        if (row.due)
            rows.v[rows.n++] = row;
        rows.by_partition[0] += row.due;
    }
    *ret = rows;
    return ERR_OK;
}
