/* OP_PURGE: scans each kind of record completely, and removes the old ones, at most max. */
#include <stdlib.h>

#include "model/internal.h"

/* Keys of entries to remove from a map, which must not change while it is iterated. */
struct purge_keys {
    struct str *v;
    size_t n, max;
};

static struct purge_keys purge_keys_of(const struct map *m, size_t max)
{
    return (struct purge_keys){ .v = xcalloc(m->n, sizeof(struct str)), .max = min_of(max, m->n) };
}

static void purge_keys_add(struct purge_keys *v, struct str key)
{
    if (v->n < v->max)
        v->v[v->n++] = key;
}

static size_t purge_keys_remove(struct purge_keys *v, struct map *from)
{
    for (size_t i = 0; i < v->n; i++)
        free(map_remove(from, v->v[i]));
    free(v->v);
    return v->n;
}

size_t memory_sweep(struct map *m, size_t max, bool (*may_go)(const void *entry, const struct sweep *w),
                    const struct sweep *w)
{
    struct purge_keys gone = purge_keys_of(m, max);
    map_each (m, slot)
        if (may_go(slot->value, w))
            purge_keys_add(&gone, slot->key);
    return purge_keys_remove(&gone, m);
}

static size_t memory_purge_idempotency(struct store_memory *s, int64_t before_ms, size_t max)
{
    struct purge_keys old = purge_keys_of(&s->idempotency, max);
    map_each (&s->idempotency, slot)
        if (((const struct idempotency_row *)slot->value)->record.created_ms < before_ms)
            purge_keys_add(&old, slot->key);
    return purge_keys_remove(&old, &s->idempotency);
}

static size_t memory_purge_dedupe(struct store_memory *s, int64_t now_ms, size_t max)
{
    struct purge_keys old = purge_keys_of(&s->dedupe, max);
    map_each (&s->dedupe, slot)
        if (((const struct dedupe_row *)slot->value)->until_ms < now_ms)
            purge_keys_add(&old, slot->key);
    return purge_keys_remove(&old, &s->dedupe);
}

static size_t memory_purge_jobs(struct store_memory *s, int64_t before_ms, size_t max)
{
    struct purge_keys old = purge_keys_of(&s->catalog, max);
    map_each (&s->catalog, slot) {
        const struct catalog_entry *x = &((const struct catalog_row *)slot->value)->entry;
        if (x->kind == CATALOG_JOB && x->updated_ms < before_ms && catalog_job_is_over(x->doc))
            purge_keys_add(&old, slot->key);
    }
    return purge_keys_remove(&old, &s->catalog);
}

static bool memory_purge_is_old(const struct store_memory *s, const struct op_purge *op, const struct task *t)
{
    const struct task *run = s->joins.bug == MEMORY_PURGES_STEPS ? table_get(&s->table, t->run) : NULL;
    bool alone = uuid_is_nil(t->run) || (run && !task_is_final(run->state));
    bool dead = t->state == TASK_FAILED && t->resolved_ms == 0;
    return task_is_final(t->state) && alone && t->completed_ms > 0 &&
           t->completed_ms < (dead ? op->dlq_before_ms : op->tasks_before_ms);
}

/* A task with all that belongs to it as a run: its steps first, at most max tasks. Returns how many. */
static size_t memory_purge_task(struct store_memory *s, struct uuid id, size_t max, struct slot_keys *keys)
{
    cleanup_with(picks_release) struct picks steps = memory_steps_of(s, id);
    size_t n = 0;
    for (size_t i = 0; i < steps.n && n < max; i++)
        n += memory_purge_task(s, steps.v[i]->id, max - n, keys);
    if (n == max)
        return n;
    memory_run_drop(s, id);
    memory_joins_drop(s, id);
    memory_drop_row(&s->table, id, keys);
    return n + 1;
}

static void memory_purge_hide(struct store_memory *s, struct uuid id)
{
    struct task t = *table_get(&s->table, id);
    t.deleted = true;
    table_put(&s->table, &t);
}

static size_t memory_purge_tasks(struct store_memory *s, const struct op_purge *op, size_t max)
{
    cleanup_with(picks_release) struct picks p = { 0 };
    size_t n = 0;
    for (size_t i = 0; p.n < max && i < order_count(&s->table.by_id); i++)
        if (memory_purge_is_old(s, op, task_at(&s->table.by_id, i)))
            picks_add(&p, task_at(&s->table.by_id, i));
    struct slot_keys keys; /* of steps that are not final, although their run is */
    uint64_t ignored = 0;
    slot_keys_init(&keys);
    for (size_t i = 0; i < p.n && n < max; i++) {
        struct uuid id = p.v[i]->id;
        size_t gone = memory_purge_task(s, id, max - n, &keys);
        n += gone;
        if (gone && table_get(&s->table, id)) /* some of its steps are gone */
            memory_purge_hide(s, id);
    }
    memory_hand_over(&s->table, &keys, &ignored);
    slot_keys_release(&keys);
    return n;
}

static size_t memory_purge_executions(struct store_memory *s, int64_t before_ms, size_t max)
{
    size_t n = 0;
    for (size_t i = order_count(&s->executions); n < max && i-- > 0;) {
        struct execution *x = order_at(&s->executions, i)->value;
        if (x->completed_us / 1000 >= before_ms)
            continue;
        order_remove(&s->executions, 0, x->id);
        free(x);
        n++;
    }
    return n;
}

enum err memory_purge(struct store_memory *s, struct op *base)
{
    struct op_purge *op = container_of(base, struct op_purge, op);
    size_t n = memory_purge_idempotency(s, op->idempotency_before_ms, op->max);
    n += memory_purge_dedupe(s, op->now_ms, op->max - n);
    n += memory_purge_jobs(s, op->jobs_before_ms, op->max - n);
    n += memory_purge_tasks(s, op, op->max - n);
    n += memory_purge_executions(s, op->executions_before_ms, op->max - n);
    n += memory_purge_definitions(s, op->now_ms - DEFINITION_KEPT_MS, op->max - n);
    struct sweep w = { .store = s, .now_ms = op->now_ms };
    n += memory_sweep(&s->recall_requests, op->max - n, memory_recall_may_go, &w);
    memory_places_drop_stale(s);
    n += memory_sweep(&s->shares, op->max - n, memory_share_may_go, &w);
    n += memory_sweep(&s->nodes, op->max - n, memory_node_may_go, &w);
    w.now_ms = op->workers_before_ms;
    n += memory_sweep(&s->workers, op->max - n, memory_worker_may_go, &w);
    n += memory_audit_purge(s, op->audit_before_ms, op->max - n);
    bool merging = memory_stats_purge(s, op->now_ms, op->max);
    op->ret_purged = n;
    op->ret_more = n == op->max || merging;
    return ERR_OK;
}
