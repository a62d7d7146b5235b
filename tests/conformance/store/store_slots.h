#pragma once
/* tests/conformance/store/store_slots.h - what the tests of slots have in common: tasks with keys, one claim of the one
 * lane, and who holds what then. */
#include "store_world.h"

#define KEY S("c:1:db") /* of keyed_task */

static inline struct task keyed_task(struct world *w, int limit, int64_t due_ms)
{
    struct task t = some_task(w);
    w->claims_late = true;
    t.concurrency_key = S("db");
    t.concurrency_limit = limit;
    t.due_ms = t.scheduled_ms = due_ms;
    return t;
}

static inline struct op_claim claim_between(struct world *w, int64_t now_ms, int64_t until_ms)
{
    struct lane_quota *lane = arena_new(&w->arena, struct lane_quota);
    *lane = (struct lane_quota){ some_lane(), CLAIM_MAX };
    struct op_claim op = claim_of(w, lane, 1);
    op.now_ms = now_ms;
    op.until_ms = until_ms;
    op.max_suspects = 1;
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static inline struct op_claim claim_now(struct world *w)
{
    return claim_between(w, NOW, NOW);
}

/* t is inserted, and taken alone. */
static inline struct task claim_alone(struct world *w, const struct task *t)
{
    insert(w, t, 1);
    struct op_claim op = claim_now(w);
    assert_tasks(&op.ret, &t->id);
    return op.ret.v[0];
}

/* t is inserted and finds no slot. */
static inline struct task gate_alone(struct world *w, const struct task *t)
{
    insert(w, t, 1);
    struct op_claim op = claim_now(w);
    assert_int_equal(op.ret.n, 0);
    assert_tasks(&op.ret_gated, &t->id);
    return op.ret_gated.v[0];
}

static inline bool settle_wakes(struct world *w, struct settlement *v)
{
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = 1, .now_ms = NOW + 10 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_false(v->stale);
    return op.ret_unblocked_lanes;
}

static inline bool end_wakes(struct world *w, const struct task *t, enum task_state next)
{
    struct settlement v = settlement_of(t, next);
    v.verdict.due_ms = NOW + 5000;
    return settle_wakes(w, &v);
}

static inline bool put_wakes(struct world *w, const struct task *before, const struct task *after)
{
    struct op_put op = put_of(before, after);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_unblocked_lanes;
}

static inline struct slot_holders holders_of(struct world *w, struct str key)
{
    struct slot_holders h = { 0 };
    struct error e = { 0 };
    assert_ok(reader_slots(w->reader, key, &w->arena, &h, &e), &e);
    return h;
}

static inline void assert_held_by(struct world *w, struct str key, const struct uuid *const *ids, size_t n)
{
    struct slot_holders h = holders_of(w, key);
    assert_int_equal(h.n, n);
    for (size_t i = 0; i < n; i++)
        if (!uuid_eq(h.v[i].task, *ids[i]))
            fail_msg("holder %zu is not the expected one", i);
}
#define assert_holders(w, key, ...)                                                                                    \
    assert_held_by((w), (key), (const struct uuid *const[]){ __VA_ARGS__ },                                            \
                   array_count(((const struct uuid *[]){ __VA_ARGS__ })))
#define assert_free(w, key) assert_held_by((w), (key), NULL, 0)

static inline void assert_waits(struct world *w, struct uuid id, struct str key)
{
    struct task t = get(w, id);
    assert_int_equal(t.state, TASK_BLOCKED);
    assert_true(str_eq(t.waits_for, key));
}

static inline void assert_scheduled(struct world *w, struct uuid id)
{
    struct task t = get(w, id);
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_int_equal(t.waits_for.n, 0);
}

/* The next claim takes exactly these; a list holds exactly these. */
#define assert_taken(w, ...)                                                                                           \
    do {                                                                                                               \
        struct op_claim op_ = claim_now(w);                                                                            \
        assert_tasks(&op_.ret, __VA_ARGS__);                                                                           \
    } while (0)
#define assert_listed(w, f, ...)                                                                                       \
    do {                                                                                                               \
        struct task_page page_ = list((w), (f));                                                                       \
        assert_tasks(&page_.tasks, __VA_ARGS__);                                                                       \
    } while (0)
