/* OP_RECALL and OP_RECALL_LIST. */
#include <stdlib.h>

#include "model/internal.h"

struct recall_entry {
    struct recall_request recall_request;
    struct uuid node; /* nil: the task is leased, and its worker learns of it by OP_LEASE_RENEW */
    bool refused;
};

static bool memory_recall_is_over(const struct store_memory *s, const struct recall_request *w)
{
    return !memory_task_runs(s, w->id, w->fence);
}

bool memory_recall_may_go(const void *entry, const struct sweep *w)
{
    const struct recall_entry *x = entry;
    return (uuid_is_nil(w->node) || uuid_eq(x->node, w->node)) && memory_recall_is_over(w->store, &x->recall_request);
}

/* Its node has to look at it. */
static bool memory_recall_is_open(const struct store_memory *s, const struct recall_entry *w, struct uuid node)
{
    return uuid_eq(w->node, node) && (!w->refused || w->recall_request.abort) &&
           !memory_recall_is_over(s, &w->recall_request);
}

bool memory_node_has_recalls(const struct store_memory *s, struct uuid node)
{
    map_each (&s->recall_requests, slot) {
        if (memory_recall_is_open(s, slot->value, node))
            return true;
    }
    return false;
}

bool memory_abort_requested(const struct store_memory *s, struct uuid task, int64_t fence)
{
    const struct recall_entry *w = map_get(&s->recall_requests, uuid_bytes(&task));
    return w && w->recall_request.fence == fence && w->recall_request.abort;
}

bool memory_recall_exists(const struct store_memory *s, struct uuid task, int64_t fence)
{
    const struct recall_entry *w = map_get(&s->recall_requests, uuid_bytes(&task));
    return w && w->recall_request.fence == fence;
}

enum err memory_recall(struct store_memory *s, struct op *base)
{
    struct op_recall *op = container_of(base, struct op_recall, op);
    struct recall_request recall_request = { op->id, op->fence, op->abort, op->by_scheduled_ms };
    const struct claim *c =
        memory_recall_is_over(s, &recall_request) ? NULL : table_claim(&s->table, table_get(&s->table, op->id)->claim);
    if (!c)
        return recall_too_late(&base->error);
    struct recall_entry *w = xnew(*w), *old = map_remove(&s->recall_requests, uuid_bytes(&op->id));
    if (old && old->recall_request.fence == recall_request.fence) {
        recall_request.abort = recall_request.abort || old->recall_request.abort;
        recall_request.by_scheduled_ms =
            recall_request.by_scheduled_ms ? recall_request.by_scheduled_ms : old->recall_request.by_scheduled_ms;
    }
    *w = (struct recall_entry){ .recall_request = recall_request,
                                .refused = old && old->recall_request.fence == recall_request.fence && old->refused };
    if (c->hold != CLAIM_LEASED)
        w->node = c->node;
    free(old);
    map_put(&s->recall_requests, uuid_bytes(&w->recall_request.id), w);
    op->ret_owner = c->node;
    op->ret_refused = w->refused;
    op->ret_handed_off = c->hold == CLAIM_HANDED;
    return ERR_OK;
}

static int memory_recall_by_task(const void *a, const void *b)
{
    return uuid_cmp(((const struct recall_request *)a)->id, ((const struct recall_request *)b)->id);
}

static void memory_recall_refuse(struct store_memory *s, const struct op_recall_list *op)
{
    for (size_t i = 0; i < op->refused_count; i++) {
        struct recall_entry *w = map_get(&s->recall_requests, uuid_bytes(&op->refused[i].id));
        if (w && w->recall_request.fence == op->refused[i].fence)
            w->refused = true;
    }
}

enum err memory_recall_list(struct store_memory *s, struct op *base)
{
    struct op_recall_list *op = container_of(base, struct op_recall_list, op);
    struct recall_request *v = arena_array(&base->arena, struct recall_request, s->recall_requests.n);
    size_t n = 0;
    if (!v)
        return memory_no_room(&base->error);
    memory_recall_refuse(s, op);
    if (uuid_is_nil(op->after)) /* once for all pages */
        (void)memory_sweep(&s->recall_requests, SIZE_MAX, memory_recall_may_go,
                           &(struct sweep){ .store = s, .node = op->node });
    map_each (&s->recall_requests, slot) {
        const struct recall_entry *w = slot->value;
        if (memory_recall_is_open(s, w, op->node) && uuid_cmp(w->recall_request.id, op->after) > 0)
            v[n++] = w->recall_request;
    }
    qsort(v, n, sizeof *v, memory_recall_by_task);
    op->ret = v;
    op->ret_count = min_of(n, op->max);
    return ERR_OK;
}
