#include "port/queue.h"

#include <assert.h>

enum err queue_push(struct queue *q, const struct task *tasks, size_t n, struct error *e)
{
    assert(n <= PUSH_MAX);
    for (size_t i = 0; i < n; i++)
        assert(tasks[i].state == TASK_RUNNING && tasks[i].fence > 0);
    return n == 0 ? ERR_OK : q->ops->push(q, tasks, n, e);
}

enum err queue_take(struct queue *q, const struct take *t, struct arena *a, struct tasks *ret, struct error *e)
{
    assert(t->max > 0 && t->max <= TAKE_MAX);
    enum err rc = (q->ops->take)(q, t, a, ret, e) /* in brackets: take is a macro too */;
    for (size_t i = 0; rc == ERR_OK && i < ret->n; i++)
        assert(ret->v[i].fence > 0);
    return rc;
}

enum err queue_renew(struct queue *q, const struct delivery_id *v, size_t n, int64_t until_ms, struct error *e)
{
    return n == 0 ? ERR_OK : q->ops->renew(q, v, n, until_ms, e);
}

enum err queue_ack(struct queue *q, const struct delivery_id *v, size_t n, struct error *e)
{
    return n == 0 ? ERR_OK : q->ops->ack(q, v, n, e);
}

enum err queue_lapsed(struct queue *q, int64_t now_ms, struct arena *a, struct tasks *ret, struct error *e)
{
    return q->ops->lapsed(q, now_ms, a, ret, e);
}

enum err queue_recall(struct queue *q, struct delivery_id d, bool *ret_recalled, struct error *e)
{
    return q->ops->recall(q, d, ret_recalled, e);
}

size_t queue_depth(struct queue *q)
{
    return q->ops->depth(q);
}

void queue_free(struct queue *q)
{
    if (q)
        q->ops->free(q);
}
