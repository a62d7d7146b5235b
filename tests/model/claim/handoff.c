/* OP_HANDOFF, OP_HANDED_OFF, OP_RUNNING and OP_RETAKE: tasks that a queue has, tasks that still run, and new claims on
 * RUNNING tasks. */
#include <stdlib.h>

#include "model/internal.h"

bool memory_task_runs(const struct store_memory *s, struct uuid task, int64_t fence)
{
    const struct task *t = table_get(&s->table, task);
    return t && t->state == TASK_RUNNING && !(t->links & TASK_OPEN) && t->fence == fence;
}

enum err memory_handoff(struct store_memory *s, struct op *base)
{
    struct op_handoff *op = container_of(base, struct op_handoff, op);
    if (memory_node_is_dead(s, op->node))
        return node_is_dead(&base->error);
    for (size_t i = 0; i < op->n; i++) {
        const struct claim *c = table_claim(&s->table, op->claims[i]);
        bool orphaned = op->orphaned && c && memory_claim_is_orphaned(s, c, op->node);
        if (c && (orphaned || !op->orphaned))
            (void)table_hand_claim(&s->table, c->id, orphaned ? c->node : op->node, hand_epoch(op, i));
    }
    return ERR_OK;
}

static int memory_handed_compare_tasks(const void *x, const void *y)
{
    const struct task *const *a = x, *const *b = y;
    return uuid_cmp((*a)->id, (*b)->id);
}

static int memory_handed_compare_claims(const void *a, const void *b)
{
    const struct claim *const *x = a, *const *y = b;
    return uuid_cmp((*x)->id, (*y)->id);
}

/* Adds the tasks of one claim that are behind the position. */
static void memory_handed_add(const struct claim *c, const struct handed_place *after, struct picks *p)
{
    size_t before = p->n;
    bool begun = uuid_eq(c->id, after->claim);
    list_each (&c->rows, link) {
        const struct task *t = &container_of(link, struct row, link)->task;
        if (!begun || uuid_cmp(t->id, after->task) > 0)
            picks_add(p, t);
    }
    if (p->n > before)
        qsort(p->v + before, p->n - before, sizeof *p->v, memory_handed_compare_tasks);
}

/* Copies as many tasks as the result may hold, without the texts that OP_HANDED_OFF leaves out. */
static enum err memory_handed_copy(struct store_memory *s, const struct picks *p, struct op_handed_off *op)
{
    struct task *v = arena_alloc(&op->op.arena, min_of(p->n, op->max) * sizeof *v);
    uint64_t *epochs = arena_alloc(&op->op.arena, min_of(p->n, op->max) * sizeof *epochs);
    size_t n = 0, bytes = 0;
    bool fits = v && epochs;
    for (; fits && n < min_of(p->n, op->max) && handed_goes_on(op, bytes); n++) {
        struct task t = *p->v[n];
        t.payload = t.extra = (struct str){ 0 };
        if (t.delivery != DELIVER_AT_MOST_ONCE) /* OP_HANDED_OFF 3 */
            t.target_config = (struct str){ 0 };
        bytes += t.target_config.n;
        epochs[n] = ((const struct claim *)map_get(&s->table.claims, uuid_bytes(&t.claim)))->epoch;
        fits = task_copy(&op->op.arena, &t, &v[n]);
    }
    if (!fits)
        return memory_no_room(&op->op.error);
    op->ret = (struct tasks){ v, n };
    op->ret_epochs = epochs;
    op->ret_more = n < p->n;
    return ERR_OK;
}

enum err memory_handed_off(struct store_memory *s, struct op *base)
{
    struct op_handed_off *op = container_of(base, struct op_handed_off, op);
    cleanup_with(picks_release) struct picks p = { 0 };
    const struct claim **claims = xcalloc(s->table.claims.n + 1, sizeof *claims);
    size_t n = 0;
    map_each (&s->table.claims, slot) {
        const struct claim *c = slot->value;
        if (c->hold == CLAIM_HANDED && uuid_time_ms(c->id) < op->before_ms && uuid_cmp(c->id, op->after.claim) >= 0)
            claims[n++] = c;
    }
    qsort(claims, n, sizeof *claims, memory_handed_compare_claims);
    for (size_t i = 0; i < n && p.n <= op->max; i++)
        memory_handed_add(claims[i], &op->after, &p);
    free(claims);
    return memory_handed_copy(s, &p, op);
}

enum err memory_running(struct store_memory *s, struct op *base)
{
    struct op_running *op = container_of(base, struct op_running, op);
    for (size_t i = 0; i < op->n; i++)
        op->ret[i] = memory_task_runs(s, op->v[i].id, op->v[i].fence);
    return ERR_OK;
}

static const struct task *memory_retake_find(const struct store_memory *s, const struct op_retake *op,
                                             const struct fenced_id *name)
{
    if (!memory_task_runs(s, name->id, name->fence) || memory_recall_exists(s, name->id, name->fence))
        return NULL;
    const struct task *t = table_get(&s->table, name->id);
    return retake_may(op, t) ? t : NULL;
}

/* Changes the table only after the result was copied. */
enum err memory_retake(struct store_memory *s, struct op *base)
{
    struct op_retake *op = container_of(base, struct op_retake, op);
    cleanup_with(picks_release) struct picks p = { 0 };
    if (memory_node_is_dead(s, op->node))
        return node_is_dead(&base->error);
    if (table_claim(&s->table, op->claim))
        return error_set(&base->error, ERR_CONFLICT, "this claim was made before");
    for (size_t i = 0; i < op->n; i++) {
        const struct task *t = memory_retake_find(s, op, &op->v[i]);
        if (t)
            picks_add(&p, t);
    }
    if (picks_copy(&p, &base->arena, &op->ret, &base->error))
        return base->error.code;
    if (p.n)
        table_open_claim(&s->table, op->claim, op->node, CLAIM_OWN);
    for (size_t i = 0; i < op->ret.n; i++) {
        op->ret.v[i].fence = fence_after(op->ret.v[i].fence, s->table.fence_floor);
        op->ret.v[i].claim = op->claim;
        table_put(&s->table, &op->ret.v[i]);
    }
    return ERR_OK;
}
