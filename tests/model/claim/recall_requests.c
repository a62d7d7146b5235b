/* OP_RECALL and OP_RECALL_LIST. */
#include <stdlib.h>

#include "model/internal.h"

struct recall_entry {
    struct recall_request recall_request;
    struct uuid node; /* nil: the task is leased, and its worker learns of it by OP_LEASE_RENEW */
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

bool memory_node_has_recalls(const struct store_memory *s, struct uuid node)
{
    map_each (&s->recall_requests, slot) {
        const struct recall_entry *w = slot->value;
        if (uuid_eq(w->node, node) && !memory_recall_is_over(s, &w->recall_request))
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
    *w = (struct recall_entry){ .recall_request = recall_request };
    if (c->hold != CLAIM_LEASED)
        w->node = c->node;
    free(old);
    map_put(&s->recall_requests, uuid_bytes(&w->recall_request.id), w);
    op->ret_owner = c->node;
    return ERR_OK;
}

enum err memory_recall_list(struct store_memory *s, struct op *base)
{
    struct op_recall_list *op = container_of(base, struct op_recall_list, op);
    struct recall_request *v = arena_array(&base->arena, struct recall_request, min_of(op->max, s->recall_requests.n));
    size_t n = 0;
    if (!v)
        return memory_no_room(&base->error);
    (void)memory_sweep(&s->recall_requests, SIZE_MAX, memory_recall_may_go,
                       &(struct sweep){ .store = s, .node = op->node });
    map_each (&s->recall_requests, slot) {
        const struct recall_entry *w = slot->value;
        if (n < op->max && uuid_eq(w->node, op->node))
            v[n++] = w->recall_request;
    }
    op->ret = v;
    op->ret_count = n;
    return ERR_OK;
}
