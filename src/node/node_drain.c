/* A node that drains takes the tasks that wait in its own queue and have not started, and returns them to the
 * store. */
#include "base/log.h"
#include "node/node_internal.h"

enum { DRAIN_ARENA = 256 << 20 };

static void node_on_drained_ack(struct io_request *e)
{
    if (e->rc) /* recovery will find it */
        log_warn("ack_failed", kv_err(&e->error));
}

static void node_hand_back(struct node *n, const struct task *t)
{
    struct outcome o = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 };
    struct settle_facts facts = settle_facts_of(t, &o, NULL);
    struct fenced_id d = { t->id, t->fence };
    struct io_ids ack = { .io_request = { .kind = IO_ACK, .done = node_on_drained_ack }, .v = &d, .n = 1 };
    if (node_end_claim(n, &facts, &o))
        async_io_submit(n->setup.own, &ack.io_request);
}

static void node_on_drained_take(struct io_request *e)
{
    (void)e; /* node_drain_queue reads the result: the queue is in memory, and answers at once */
}

void node_drain_queue(struct node *n)
{
    struct async_io *c = n->setup.own;
    struct io_take all = { .io_request = { .kind = IO_TAKE, .done = node_on_drained_take },
                           .ask = { .max = TAKE_MAX,
                                    .now_ms = n->now.wall_ms,
                                    .visibility_ms = n->setup.visibility_ms,
                                    .worker = n->id,
                                    .alone = true,
                                    .cpu_milli = -1,
                                    .memory_mb = -1 } };
    arena_init(&all.arena, DRAIN_ARENA);
    while (c->ops->queue_depth(c)) {
        async_io_submit(c, &all.io_request);
        if (all.io_request.rc || !all.ret.tasks.n)
            break;
        for (size_t i = 0; i < all.ret.tasks.n; i++)
            node_hand_back(n, &all.ret.tasks.v[i]);
    }
    arena_release(&all.arena);
}
