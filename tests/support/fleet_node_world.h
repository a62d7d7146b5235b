#pragma once
/* tests/support/fleet_node_world.h - a node that the test controls (node_world.h), with a shared queue and shared
 * events (manual_async_io.h). */
#include "manual_async_io.h"
#include "node_world.h"

static struct manual_async_io hand;
static struct fenced_id told[16];
static size_t told_count;

static inline void tell(void *context, const struct fenced_id *settled, size_t n)
{
    (void)context;
    for (size_t i = 0; i < n; i++)
        told[told_count++ % array_count(told)] = settled[i];
}

static inline void in_a_fleet(struct node_setup *setup)
{
    setup->fleet = true;
    setup->own = setup->async_io;
    setup->async_io = &hand.base;
    setup->fallback = true;
    setup->roles = NODE_SCHEDULER | NODE_UPDATER;
    setup->notify_settled = tell;
}

/* Called for each operation after it was applied, before it is done; or NULL. */
static void (*see_op)(const struct op *op);

static inline bool is_pending(const struct world *w, enum op_kind kind)
{
    list_each (&w->pending, link)
        if (container_of(link, struct op, link)->kind == kind)
            return true;
    return false;
}

/* Completes all operations and I/O requests, except those that wait for something, up to the next operation of the
 * given kind, which the test completes. Returns whether there is one. */
static inline bool rest_until(struct world *w, enum op_kind kind)
{
    bool some = true;
    hand.now_ms = w->now_ms;
    for (int i = 0; i < 500 && some; i++) {
        step_at(w, w->now_ms);
        some = carry_all(&hand);
        if (find_io_request(&hand, IO_POLL) && events_depth(hand.events))
            carry(&hand, IO_POLL), some = true;
        if (is_pending(w, kind))
            return true;
        if (list_empty(&w->pending))
            continue;
        struct op *op = first_op(w);
        apply_op(w, op);
        if (see_op)
            see_op(op);
        op->done(op);
        some = true;
    }
    return false;
}

static inline void rest(struct world *w)
{
    (void)rest_until(w, (enum op_kind)OP_KINDS);
}

static inline void rest_at(struct world *w, int64_t now_ms)
{
    set_clock(w, now_ms);
    rest(w);
}

/* A worker of this number reports itself, as its process would. */
static inline void report_worker(struct world *w, uint8_t number, struct worker_kind kind, int64_t slots, bool left)
{
    struct event ev = { .kind = EVENT_WORKER,
                        .worker = { .id = { { number } },
                                    .name = S("w"),
                                    .version = S("1"),
                                    .slots = slots,
                                    .left = left,
                                    .kind = kind,
                                    .doc = S("{}") } };
    struct error e;
    assert_ok(events_publish(hand.events, &ev, 1, &e), &e);
    rest(w);
}

static inline int setup_fleet_without_workers(void **state, void (*as)(struct node_setup *setup))
{
    manual_async_io_init(&hand);
    told_count = 0;
    change_setup = as;
    int rc = setup(state);
    rest(*state);
    return rc;
}

/* With one worker that can run everything. */
static inline int setup_fleet_as(void **state, void (*as)(struct node_setup *setup))
{
    int rc = setup_fleet_without_workers(state, as);
    report_worker(*state, 99, WORKER_KIND_UNKNOWN, 60, false);
    return rc;
}

static inline int setup_fleet(void **state)
{
    return setup_fleet_as(state, in_a_fleet);
}

static inline int teardown_fleet(void **state)
{
    struct world *w = *state;
    node_drain(w->node);
    for (int i = 0; i < 30 && !node_is_idle(w->node); i++) {
        if (find_io_request(&hand, IO_POLL))
            carry(&hand, IO_POLL);
        rest_at(w, w->now_ms + 500);
    }
    assert_true(node_is_idle(w->node));
    free_world(w);
    manual_async_io_release(&hand);
    change_setup = NULL;
    return 0;
}

static inline struct taken take_all(struct world *w, struct arena *a)
{
    struct take ask = { .max = 100,
                        .now_ms = w->now_ms,
                        .visibility_ms = 4000,
                        .worker = { { 9 } },
                        .alone = true,
                        .cpu_milli = -1,
                        .memory_mb = -1 };
    struct taken taken;
    struct error e;
    assert_ok(queue_take(hand.queue, &ask, a, &taken, &e), &e);
    return taken;
}

static inline void publish_outcome(const struct task *t, enum outcome_kind kind)
{
    struct outcome o = {
        .kind = kind, .retry_after_ms = -1, .started_us = NOW * 1000, .completed_us = NOW * 1000, .sent = true
    };
    struct event ev = { .task = settle_facts_of(t, &o, NULL), .outcome = o };
    struct error e;
    assert_ok(events_publish(hand.events, &ev, 1, &e), &e);
}

static inline void ack(const struct task *t)
{
    struct fenced_id id = { t->id, t->fence };
    struct error e;
    assert_ok(queue_ack(hand.queue, &id, 1, &e), &e);
}

static inline size_t held_by_the_dead(struct world *w)
{
    struct op_orphans op = { .op = { .kind = OP_ORPHANS }, .max = 100 };
    arena_init(&op.op.arena, 1 << 20);
    apply_op(w, &op.op);
    size_t n = op.ret.n;
    arena_release(&op.op.arena);
    return n;
}

/* Number of handed-off tasks that the store lists for a node that it does not know. */
static inline size_t handed(struct world *w)
{
    struct op_handed_off op = { .op = { .kind = OP_HANDED_OFF }, .before_ms = INT64_MAX, .max = 100 };
    arena_init(&op.op.arena, 1 << 20);
    apply_op(w, &op.op);
    size_t n = op.ret.n;
    arena_release(&op.op.arena);
    return n;
}

/* The queue's epoch in which the store says that the task was handed off; 0: it was not. */
static inline uint64_t handed_in(struct world *w, const struct task *t)
{
    uint64_t found = 0;
    struct op_handed_off op = { .op = { .kind = OP_HANDED_OFF }, .before_ms = INT64_MAX, .max = 100 };
    arena_init(&op.op.arena, 1 << 20);
    apply_op(w, &op.op);
    for (size_t i = 0; i < op.ret.n; i++)
        found = uuid_eq(op.ret.v[i].id, t->id) ? op.ret_epochs[i] : found;
    arena_release(&op.op.arena);
    return found;
}
