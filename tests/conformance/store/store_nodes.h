#pragma once
/* tests/conformance/store/store_nodes.h - nodes that beat, are buried, and are wished something of. */
#include "store_world.h"

static inline enum err beat_with(struct world *w, struct op_heartbeat *op)
{
    op->op.kind = OP_HEARTBEAT;
    op->now_ms = op->now_ms ? op->now_ms : NOW;
    return world_apply(w, &op->op);
}

static inline struct op_heartbeat beat_at(struct world *w, struct uuid node, int64_t now_ms)
{
    struct op_heartbeat op = { .node = { .id = node, .name = S("node") }, .now_ms = now_ms };
    assert_ok(beat_with(w, &op), &op.op.error);
    return op;
}

static inline struct op_heartbeat beat(struct world *w, struct uuid node)
{
    return beat_at(w, node, NOW);
}

static inline bool bury(struct world *w, struct uuid node, int64_t beats)
{
    struct op_node_dead op = { .op.kind = OP_NODE_DEAD, .node = node, .beats = beats, .now_ms = NOW + 1000 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_marked_dead;
}

/* Exactly these are there, in this order. */
#define assert_nodes(op, ...)                                                                                          \
    assert_node_ids((op), (const struct uuid *const[]){ __VA_ARGS__ },                                                 \
                    array_count(((const struct uuid *[]){ __VA_ARGS__ })))
static inline void assert_node_ids(const struct op_heartbeat *op, const struct uuid *const *ids, size_t n)
{
    assert_int_equal(op->ret.n, n);
    for (size_t i = 0; i < n; i++)
        if (!uuid_eq(op->ret.v[i].id, *ids[i]))
            fail_msg("node %zu is not the expected one", i);
}

static inline struct tasks left_behind(struct world *w, struct uuid not_node)
{
    struct op_orphans op = { .op.kind = OP_ORPHANS, .not_node = not_node, .max = 100 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret;
}

static inline enum err recall_with(struct world *w, struct op_recall *op)
{
    op->op.kind = OP_RECALL;
    op->now_ms = NOW;
    return world_apply(w, &op->op);
}

static inline struct op_recall_list recall_requests_of(struct world *w, struct uuid node, size_t max)
{
    struct op_recall_list op = { .op.kind = OP_RECALL_LIST, .node = node, .max = max };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}
