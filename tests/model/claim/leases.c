/* Leases of tasks, under which external workers run them. A lease ends with the claim of its task; one whose task is
 * gone is dropped when it is found. */
#include <stdlib.h>

#include "model/internal.h"

struct lease_entry {
    struct uuid task;
    struct lease_row row;
    char text[];
};

static void memory_task_lease_drop(struct store_memory *s, struct lease_entry *x)
{
    order_remove(&s->task_leases_by_expiry, x->row.until_ms, x->task);
    map_remove(&s->task_leases, uuid_bytes(&x->task));
    free(x);
}

static void memory_task_lease_put(struct store_memory *s, struct uuid task, const struct lease_row *row)
{
    struct lease_entry *x = xmalloc(sizeof *x + str_pack_size(row->worker) + str_pack_size(row->progress));
    struct lease_entry *old = map_get(&s->task_leases, uuid_bytes(&task));
    char *at = x->text;
    *x = (struct lease_entry){ .task = task, .row = *row };
    x->row.worker = str_pack(row->worker, &at);
    x->row.progress = str_pack(row->progress, &at);
    if (old)
        memory_task_lease_drop(s, old); /* row's texts may be borrowed from it */
    map_put(&s->task_leases, uuid_bytes(&x->task), x);
    order_add(&s->task_leases_by_expiry, x->row.until_ms, x->task, x);
}

void memory_lease_put(struct store_memory *s, struct uuid task, int64_t fence, const struct lease_terms *terms)
{
    memory_task_lease_put(s, task,
                          &(struct lease_row){ .fence = fence, .until_ms = terms->until_ms, .worker = terms->worker });
}

void memory_lease_leave(struct store_memory *s, struct uuid task)
{
    struct lease_entry *x = map_get(&s->task_leases, uuid_bytes(&task));
    if (x)
        memory_task_lease_drop(s, x);
}

void memory_leases_release(struct store_memory *s)
{
    map_each (&s->task_leases, slot)
        free(slot->value);
    map_release(&s->task_leases);
    order_release(&s->task_leases_by_expiry);
}

/* The lease of a task at this moment; NULL: the task is not leased. */
static const struct lease_entry *memory_task_lease_find(const struct store_memory *s, struct uuid task)
{
    const struct lease_entry *x = map_get(&s->task_leases, uuid_bytes(&task));
    return x && memory_task_runs(s, task, x->row.fence) ? x : NULL;
}

static void memory_lease_renew_one(struct store_memory *s, int32_t tenant, struct lease_renewal *k)
{
    const struct lease_entry *x = memory_task_lease_find(s, k->id);
    k->ret_kept = x && x->row.fence == k->fence && table_get(&s->table, k->id)->tenant == tenant;
    k->ret_ended = k->ret_kept && memory_abort_requested(s, k->id, k->fence);
    if (!k->ret_kept)
        return;
    struct lease_row row = x->row;
    row.until_ms = k->until_ms;
    row.progress = k->progress.n ? k->progress : row.progress;
    memory_task_lease_put(s, k->id, &row);
}

enum err memory_lease_renew(struct store_memory *s, struct op *base)
{
    struct op_lease_renew *op = container_of(base, struct op_lease_renew, op);
    for (size_t i = 0; i < op->n; i++)
        memory_lease_renew_one(s, op->tenant, &op->v[i]);
    return ERR_OK;
}

static int memory_by_expiry(const void *x, const void *y)
{
    const struct task *a = *(const struct task *const *)x, *b = *(const struct task *const *)y;
    int64_t ams = task_expires_ms(a), bms = task_expires_ms(b);
    return ams == bms ? uuid_cmp(a->id, b->id) : (ams > bms) - (ams < bms);
}

static enum err memory_waiting_expired(struct store_memory *s, struct op_leases_expired *op)
{
    cleanup_with(picks_release) struct picks p = { 0 };
    op->ret_next_waiting_ms = INT64_MAX;
    op->ret_expires = false;
    for (size_t i = 0; op->max_waiting && i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        op->ret_expires = op->ret_expires || (t->expires_after_ms && !task_is_final(t->state));
        if (task_may_expire(t))
            picks_add(&p, t);
    }
    if (p.n)
        qsort(p.v, p.n, sizeof *p.v, memory_by_expiry);
    size_t n = 0;
    while (n < p.n && n < op->max_waiting && is_expired(task_expires_ms(p.v[n]), op->now_ms))
        n++;
    if (n < p.n)
        op->ret_next_waiting_ms = task_expires_ms(p.v[n]);
    p.n = n;
    return picks_copy(&p, &op->op.arena, &op->ret_waiting, &op->op.error);
}

enum err memory_leases_expired(struct store_memory *s, struct op *base)
{
    struct op_leases_expired *op = container_of(base, struct op_leases_expired, op);
    cleanup_with(picks_release) struct picks p = { 0 };
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < order_count(&s->task_leases_by_expiry) && next_ms == INT64_MAX;) {
        struct lease_entry *x = order_at(&s->task_leases_by_expiry, i)->value;
        if (!memory_task_lease_find(s, x->task)) {
            memory_task_lease_drop(s, x);
            continue;
        }
        if (p.n < op->max && x->row.until_ms <= op->now_ms)
            picks_add(&p, table_get(&s->table, x->task));
        else
            next_ms = x->row.until_ms;
        i++;
    }
    if (picks_copy(&p, &base->arena, &op->ret, &base->error))
        return base->error.code;
    op->ret_next_ms = next_ms;
    return memory_waiting_expired(s, op);
}

enum err memory_reader_lease(struct reader *r, int32_t tenant, struct uuid task, struct arena *a, struct lease_row *ret,
                             struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct lease_entry *x = memory_task_lease_find(s, task);
    if (!x || table_get(&s->table, task)->tenant != tenant)
        return memory_not_found("lease", e);
    struct lease_row copy = x->row;
    if (!arena_str(a, x->row.worker, &copy.worker) || !arena_str(a, x->row.progress, &copy.progress))
        return memory_no_room(e);
    copy.is_ended = memory_abort_requested(s, task, copy.fence);
    *ret = copy;
    return ERR_OK;
}
