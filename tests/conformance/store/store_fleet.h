#pragma once
/* tests/conformance/store/store_fleet.h - claims that are handed to a queue, and tasks that are leased. */
#include "store_nodes.h"

static inline enum err hand_all(struct world *w, struct uuid node, const struct uuid *claims, size_t n)
{
    struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = claims, .n = n };
    return world_apply(w, &op.op);
}

static inline void hand_in(struct world *w, struct uuid node, struct uuid claim, uint64_t epoch)
{
    struct op_handoff op = { .op.kind = OP_HANDOFF, .node = node, .claims = &claim, .epochs = &epoch, .n = 1 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
}

static inline void hand(struct world *w, struct uuid node, struct uuid claim)
{
    assert_int_equal(hand_all(w, node, &claim, 1), ERR_OK);
}

static inline struct op_handed_off handed_behind(struct world *w, int64_t before_ms, struct handed_place after,
                                                 size_t max)
{
    struct op_handed_off op = { .op.kind = OP_HANDED_OFF, .before_ms = before_ms, .after = after, .max = max };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static inline struct tasks handed(struct world *w)
{
    return handed_behind(w, INT64_MAX, (struct handed_place){ 0 }, 100).ret;
}

static inline bool runs(struct world *w, struct uuid id, int64_t fence)
{
    bool ret = false;
    struct fenced_id name = { id, fence };
    struct op_running op = { .op.kind = OP_RUNNING, .v = &name, .n = 1, .ret = &ret };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return ret;
}

static inline struct task some_worker_task(struct world *w)
{
    struct task t = some_task(w);
    t.target = TARGET_WORKER;
    return t;
}

/* A minute for "w1", of the lane of some_lane. */
static inline struct op_claim lease_from(struct world *w, struct lane_quota *lanes, size_t n)
{
    static const struct lease_terms terms = { NOW + 60000, { "w1", 2 } };
    struct op_claim op = claim_of(w, lanes, n);
    op.lease = &terms;
    return op;
}

static inline struct tasks lease_some(struct world *w, size_t max)
{
    struct lane_quota lane = { some_lane(), max };
    struct op_claim op = lease_from(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret;
}

static inline struct task lease_one(struct world *w, const struct task *t)
{
    insert(w, t, 1);
    struct lane_quota lane = { task_lane(t), 1 };
    struct op_claim op = lease_from(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_tasks(&op.ret, &t->id);
    return op.ret.v[0];
}

static inline struct lease_renewal keep_as(struct world *w, int32_t tenant, struct lease_renewal k)
{
    struct op_lease_renew op = { .op.kind = OP_LEASE_RENEW, .tenant = tenant, .v = &k, .n = 1, .now_ms = NOW };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return k;
}

static inline struct lease_renewal keep(struct world *w, const struct task *t, int64_t until_ms)
{
    return keep_as(w, TENANT, (struct lease_renewal){ .id = t->id, .fence = t->fence, .until_ms = until_ms });
}

static inline struct op_leases_expired over_at(struct world *w, int64_t now_ms, size_t max)
{
    struct op_leases_expired op = { .op.kind = OP_LEASES_EXPIRED, .now_ms = now_ms, .max = max };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static inline bool is_leased(struct world *w, int32_t tenant, struct uuid task, struct lease_row *ret)
{
    struct error e = { 0 };
    enum err rc = reader_lease(w->reader, tenant, task, &w->arena, ret, &e);
    assert_true(rc == ERR_OK || rc == ERR_NOT_FOUND);
    return rc == ERR_OK;
}
