/* OP_HEARTBEAT, OP_NODE_DEAD, OP_RECALL and OP_RECALL_LIST, and what they mean for claims and OP_ORPHANS. */
#include "core/task/fence.h"
#include "store_nodes.h"

/* ---- beats ---- */

static void the_first_beat_puts_a_node_in(void **state)
{
    struct world *w = *state;
    struct op_heartbeat op = { .node = { .id = fresh_id(w), .name = S("a:1"), .version = S("1.2"), .doc = S("{}") } };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_int_equal(op.ret.n, 1);
    const struct node_row *n = &op.ret.v[0];
    assert_true(uuid_eq(n->id, op.node.id));
    assert_str(n->name, "a:1");
    assert_str(n->version, "1.2");
    assert_str(n->doc, "{}");
    assert_int_equal(n->beats, 1);
    assert_int_equal(n->joined_ms, NOW);
    assert_false(n->dead || op.ret_dead || op.ret_recall_requested || op.ret_has_orphans);
    assert_int_equal(n->dead_ms, 0);
}

static void each_beat_counts_and_says_how_it_is_now(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w), other = fresh_id(w);
    beat(w, me);
    beat(w, other);
    struct op_heartbeat op = { .node = { .id = me, .name = S("b:2"), .doc = S("[1]") }, .now_ms = NOW + 500 };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_nodes(&op, &me, &other);
    assert_int_equal(op.ret.v[0].beats, 2);
    assert_int_equal(op.ret.v[0].joined_ms, NOW);
    assert_str(op.ret.v[0].name, "b:2");
    assert_int_equal(op.ret.v[0].version.n, 0);
    assert_str(op.ret.v[0].doc, "[1]");
    assert_int_equal(op.ret.v[1].beats, 1);
}

/* Returns the fence of the claim. The task is due again. */
static int64_t claim_once_more(struct world *w, const struct task *t)
{
    struct lane_quota lane = { .lane = task_lane(t), .max = 1 };
    struct op_claim op = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 1);
    struct settlement v = settlement_of(&op.ret.v[0], TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    return op.ret.v[0].fence;
}

/* A restored store: rule 10. */
static void a_store_that_forgot_beats_raises_its_fences(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w);
    const int64_t floor = NOW << FENCE_CLAIM_BITS;
    struct task t = some_task(w);
    insert(w, &t, 1);
    beat(w, me);
    assert_int_equal(claim_once_more(w, &t), 1);
    struct op_heartbeat as_known = { .node = { .id = me, .beats = 1 } };
    assert_ok(beat_with(w, &as_known), &as_known.op.error);
    assert_int_equal(claim_once_more(w, &t), 2);
    struct op_heartbeat forgotten = { .node = { .id = me, .beats = 3 } };
    assert_ok(beat_with(w, &forgotten), &forgotten.op.error);
    assert_int_equal(forgotten.ret.v[0].beats, 3);
    assert_int_equal(claim_once_more(w, &t), floor + 1);
    assert_int_equal(claim_once_more(w, &t), floor + 2);
    struct op_heartbeat again = { .node = { .id = fresh_id(w), .beats = 1 } }; /* the whole row is gone */
    assert_ok(beat_with(w, &again), &again.op.error);
    assert_int_equal(claim_once_more(w, &t), floor + FENCE_STEP + 1);
}

static void nodes_come_by_id_and_dead_ones_behind_them(void **state)
{
    struct world *w = *state;
    struct uuid a = fresh_id(w), early = fresh_id(w), b = fresh_id(w), late = fresh_id(w), twin = fresh_id(w);
    beat_at(w, late, NOW + 2);
    beat_at(w, twin, NOW + 2);
    beat_at(w, early, NOW + 1);
    beat(w, b);
    assert_true(bury(w, twin, 1) && bury(w, early, 1) && bury(w, late, 1));
    struct op_heartbeat op = beat(w, a);
    assert_nodes(&op, &a, &b, &late, &twin, &early);
    assert_true(op.ret.v[2].dead && op.ret.v[2].dead_ms == NOW + 1000);
}

static void of_many_dead_nodes_the_latest_are_told(void **state)
{
    struct world *w = *state;
    enum { MANY = NODES_DEAD_SHOWN + 2 };
    struct uuid v[MANY];
    for (int i = 0; i < MANY; i++) {
        v[i] = fresh_id(w);
        struct op_heartbeat op = { .node.id = v[i], .now_ms = NOW + i, .alone = true };
        assert_ok(beat_with(w, &op), &op.op.error);
    }
    struct uuid me = fresh_id(w);
    struct op_heartbeat op = { .node.id = me, .alone = true, .now_ms = NOW + MANY };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_int_equal(op.ret.n, NODES_DEAD_SHOWN + 1);
    assert_true(uuid_eq(op.ret.v[0].id, me) && uuid_eq(op.ret.v[1].id, v[MANY - 1]) && uuid_eq(op.ret.v[100].id, v[2]));
}

static void a_node_that_leaves_is_gone(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w), other = fresh_id(w);
    beat(w, other);
    beat(w, me);
    struct op_heartbeat op = { .node.id = me, .leave = true };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_nodes(&op, &other);
    struct op_heartbeat again = beat(w, other);
    assert_nodes(&again, &other);
    struct op_heartbeat back = beat(w, me);
    assert_int_equal(back.ret.v[0].beats, 1);
}

static void who_was_never_there_leaves_without_a_trace(void **state)
{
    struct world *w = *state;
    struct op_heartbeat op = { .node.id = fresh_id(w), .leave = true };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_int_equal(op.ret.n, 0);
    assert_false(op.ret_dead);
}

static void who_is_alone_buries_everybody_else(void **state)
{
    struct world *w = *state;
    struct uuid dead = fresh_id(w), other = fresh_id(w), me = fresh_id(w);
    beat(w, dead);
    assert_true(bury(w, dead, 1)); /* at NOW + 1000 */
    beat(w, other);
    struct op_heartbeat op = { .node.id = me, .alone = true, .now_ms = NOW + 7000 };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_nodes(&op, &me, &dead, &other);
    assert_int_equal(op.ret.v[1].dead_ms, NOW + 1000); /* who was dead stays so */
    assert_int_equal(op.ret.v[2].dead_ms, NOW + 7000);
    struct op_heartbeat late = { .node.id = other };
    assert_ok(beat_with(w, &late), &late.op.error);
    assert_true(late.ret_dead);
}

static void a_dead_nodes_beat_says_so_and_changes_nothing(void **state)
{
    struct world *w = *state;
    struct uuid dead = fresh_id(w), other = fresh_id(w);
    beat(w, dead);
    beat(w, other);
    assert_true(bury(w, dead, 1));
    struct op_heartbeat op = { .node = { .id = dead, .name = S("other") }, .alone = true };
    assert_ok(beat_with(w, &op), &op.op.error);
    assert_true(op.ret_dead);
    assert_nodes(&op, &other, &dead);
    struct op_heartbeat leave = { .node.id = dead, .leave = true };
    assert_ok(beat_with(w, &leave), &leave.op.error);
    assert_true(leave.ret_dead);
    struct op_heartbeat then = beat(w, other);
    assert_nodes(&then, &other, &dead);
    assert_int_equal(then.ret.v[1].beats, 1);
    assert_str(then.ret.v[1].name, "node");
}

static void a_beat_whose_answer_has_no_room_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w), other = fresh_id(w);
    beat(w, other);
    struct op_heartbeat op = { .node.id = me, .alone = true };
    arena_init(&op.op.arena, 16);
    assert_int_equal(beat_with(w, &op), ERR_LIMIT);
    struct op_heartbeat then = beat(w, other);
    assert_nodes(&then, &other);
}

/* ---- burials ---- */

static void a_node_is_buried_only_while_its_beats_are_those_seen(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), me = fresh_id(w);
    beat(w, node);
    beat(w, node);
    assert_false(bury(w, node, 1));
    assert_false(bury(w, fresh_id(w), 1));
    struct op_heartbeat op = beat(w, node);
    assert_false(op.ret_dead);
    assert_false(bury(w, node, 2));
    assert_true(bury(w, node, 3));
    assert_false(bury(w, node, 3)); /* nobody dies twice */
    struct op_heartbeat then = beat(w, me);
    assert_nodes(&then, &me, &node);
    assert_int_equal(then.ret.v[1].beats, 3);
    assert_int_equal(then.ret.v[1].dead_ms, NOW + 1000);
}

static void what_a_buried_node_held_is_found(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), me = fresh_id(w);
    beat(w, node);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_heartbeat op = beat(w, me);
    assert_false(op.ret_has_orphans);
    assert_int_equal(left_behind(w, me).n, 0); /* it lives */
    assert_true(bury(w, node, 1));
    op = beat(w, me);
    assert_true(op.ret_has_orphans);
    struct tasks held = left_behind(w, me);
    assert_tasks(&held, &t.id);
    assert_same_task(&held.v[0], &running);
    struct settlement v = settlement_of(&running, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    op = beat(w, me);
    assert_false(op.ret_has_orphans);
}

/* OP_HEARTBEAT 9 */
static int64_t fires_until(struct world *w, struct uuid node, int64_t until_ms)
{
    struct op_heartbeat op = { .node = { .id = node, .fires_until_ms = until_ms } };
    assert_ok(beat_with(w, &op), &op.op.error);
    for (size_t i = 0; i < op.ret.n; i++)
        if (uuid_eq(op.ret.v[i].id, node))
            return op.ret.v[i].fires_until_ms;
    return -1;
}

static void how_far_a_node_fires_never_falls(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), other = fresh_id(w);
    assert_int_equal(fires_until(w, node, 0), 0);
    assert_int_equal(fires_until(w, node, NOW + 2000), NOW + 2000);
    assert_int_equal(fires_until(w, node, NOW + 1000), NOW + 2000); /* an older heartbeat that was applied late */
    assert_int_equal(fires_until(w, node, NOW + 2500), NOW + 2500);
    assert_int_equal(fires_until(w, other, NOW), NOW); /* each has its own */
    assert_int_equal(fires_until(w, node, 0), NOW + 2500);
}

/* OP_ORPHANS 4 */
static void orphans_come_with_how_far_their_node_fires(void **state)
{
    struct world *w = *state;
    struct uuid me = fresh_id(w), node[] = { fresh_id(w), fresh_id(w), fresh_id(w), fresh_id(w) };
    const int64_t until_ms[] = { NOW + 2000, NOW - 500, INT64_MAX, INT64_MAX }; /* no word; never seen */
    struct task t[4];
    for (int i = 0; i < 3; i++)
        fires_until(w, node[i], until_ms[i] == INT64_MAX ? 0 : until_ms[i]);
    for (int i = 0; i < 4; i++) {
        t[i] = some_task(w);
        claim_one(w, &t[i], node[i]);
    }
    for (int i = 0; i < 3; i++)
        assert_true(bury(w, node[i], 1));
    struct op_orphans op = { .op.kind = OP_ORPHANS, .not_node = me, .max = 100 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    assert_int_equal(op.ret.n, 4);
    for (size_t i = 0; i < op.ret.n; i++)
        for (int k = 0; k < 4; k++)
            if (uuid_eq(op.ret.v[i].id, t[k].id))
                assert_int_equal(op.ret_fires_until_ms[i], until_ms[k]);
}

static void what_an_unknown_node_holds_is_found_but_not_by_itself(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), me = fresh_id(w);
    struct task t = some_task(w);
    claim_one(w, &t, node);
    struct op_heartbeat op = beat(w, me);
    assert_true(op.ret_has_orphans);
    assert_int_equal(left_behind(w, me).n, 1);
    assert_int_equal(left_behind(w, node).n, 0);
    op = beat(w, node); /* now it is known, and what it holds is its own */
    assert_false(op.ret_has_orphans);
    assert_int_equal(left_behind(w, me).n, 0);
    struct op_heartbeat leave = { .node.id = node, .leave = true };
    assert_ok(beat_with(w, &leave), &leave.op.error);
    assert_int_equal(left_behind(w, me).n, 1);
}

static void a_dead_node_claims_nothing(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w);
    beat(w, node);
    assert_true(bury(w, node, 1));
    insert(w, &t, 1);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim op = claim_of(w, &lane, 1);
    op.node = node;
    assert_int_equal(world_apply(w, &op.op), ERR_CONFLICT);
    assert_string_equal(op.op.error.field, "node");
    assert_int_equal(get(w, t.id).state, TASK_SCHEDULED);
    struct op_claim others = claim_of(w, &lane, 1);
    assert_ok(world_apply(w, &others.op), &others.op.error);
    assert_int_equal(others.ret.n, 1);
}

/* In the batch that buries it, too. */
static void a_claim_behind_its_nodes_burial_fails(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w);
    insert(w, &t, 1);
    beat(w, node);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_node_dead first = { .op.kind = OP_NODE_DEAD, .node = node, .beats = 1, .now_ms = NOW };
    struct op_claim second = claim_of(w, &lane, 1);
    second.node = node;
    world_apply_all(w, (struct op *[]){ &first.op, &second.op }, 2);
    assert_true(first.ret_marked_dead);
    assert_int_equal(second.op.rc, ERR_CONFLICT);
}

static void what_a_node_had_claimed_before_it_died_it_may_still_settle(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w);
    beat(w, node);
    struct task running = claim_one(w, &t, node);
    assert_true(bury(w, node, 1));
    struct settlement v = settlement_of(&running, TASK_COMPLETED); /* nobody took it yet: its fence holds */
    assert_true(settle_with(w, &v));
}

/* ---- wishes ---- */

static void a_wish_reaches_who_holds_the_task(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), other = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    assert_false(beat(w, node).ret_recall_requested);
    struct op_recall op = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &op), &op.op.error);
    assert_true(uuid_eq(op.ret_owner, node));
    assert_true(beat(w, node).ret_recall_requested);
    assert_false(beat(w, other).ret_recall_requested);
    struct op_recall_list mine = recall_requests_of(w, node, 10);
    assert_int_equal(mine.ret_count, 1);
    assert_true(uuid_eq(mine.ret[0].id, t.id) && mine.ret[0].fence == running.fence && !mine.ret[0].abort);
    assert_int_equal(recall_requests_of(w, other, 10).ret_count, 0);
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 1); /* it stays until the task leaves its claim */
}

static void only_what_runs_under_that_fence_is_wished_back(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task waiting = some_task(w), t = some_task(w), put = some_task(w);
    waiting.due_ms = NOW + 1000;
    put.state = TASK_RUNNING; /* by no claim */
    put.fence = 1;
    insert(w, (struct task[]){ waiting, put }, 2);
    struct task running = claim_one(w, &t, node);
    struct op_recall v[] = { { .id = waiting.id, .fence = 1 },
                             { .id = t.id, .fence = running.fence + 1 },
                             { .id = put.id, .fence = 1 },
                             { .id = fresh_id(w), .fence = 1 } };
    for (size_t i = 0; i < array_count(v); i++) {
        assert_int_equal(recall_with(w, &v[i]), ERR_CONFLICT);
        assert_string_equal(v[i].op.error.field, "fence");
    }
    assert_false(beat(w, node).ret_recall_requested);
}

static void a_wish_is_over_when_the_task_leaves_its_claim(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_recall op = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &op), &op.op.error);
    struct settlement v = settlement_of(&running, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    assert_false(beat(w, node).ret_recall_requested);
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim again = claim_of(w, &lane, 1); /* and does not come back with the next claim */
    again.node = node;
    assert_ok(world_apply(w, &again.op), &again.op.error);
    assert_int_equal(again.ret.n, 1);
    assert_false(beat(w, node).ret_recall_requested);
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 0);
    assert_int_equal(recall_with(w, &op), ERR_CONFLICT); /* of the claim that was */
}

static void a_wish_is_over_when_the_task_is_put_out_of_its_claim(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node), next = running;
    struct op_recall op = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &op), &op.op.error);
    next.state = TASK_CANCELLED;
    next.version++;
    next.claim = (struct uuid){ 0 };
    next.completed_ms = NOW;
    struct op_put put = put_of(&running, &next);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_false(beat(w, node).ret_recall_requested);
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 0);
}

static void what_is_wished_twice_aborts_if_either_does_and_says_by_what_it_is_replaced(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    static const struct {
        bool abort;
        int64_t by_ms, says_ms;
    } made[] = { { false, 0, 0 }, { true, NOW, NOW }, { false, 0, NOW }, { true, NOW + 1, NOW + 1 } };
    for (size_t i = 0; i < array_count(made); i++) {
        struct op_recall op = {
            .id = t.id, .fence = running.fence, .abort = made[i].abort, .by_scheduled_ms = made[i].by_ms
        };
        assert_ok(recall_with(w, &op), &op.op.error);
        struct op_recall_list told = recall_requests_of(w, node, 10);
        assert_int_equal(told.ret_count, 1);
        assert_int_equal(told.ret[0].abort, i > 0);
        assert_int_equal(told.ret[0].by_scheduled_ms, made[i].says_ms);
    }
}

static void a_wish_of_an_earlier_claim_does_not_abort_the_next(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w), other = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_recall first = { .id = t.id, .fence = running.fence, .abort = true, .by_scheduled_ms = NOW };
    assert_ok(recall_with(w, &first), &first.op.error);
    struct settlement v = settlement_of(&running, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim again = claim_of(w, &lane, 1);
    again.node = other;
    assert_ok(world_apply(w, &again.op), &again.op.error);
    struct op_recall second = { .id = t.id, .fence = again.ret.v[0].fence };
    assert_ok(recall_with(w, &second), &second.op.error);
    assert_true(uuid_eq(second.ret_owner, other));
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 0);
    struct op_recall_list op = recall_requests_of(w, other, 10);
    assert_int_equal(op.ret_count, 1);
    assert_false(op.ret[0].abort);
    assert_int_equal(op.ret[0].by_scheduled_ms, 0);
}

static struct fenced_id request_one(struct world *w, struct uuid node)
{
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_recall op = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &op), &op.op.error);
    assert_false(op.ret_refused || op.ret_handed_off);
    return (struct fenced_id){ t.id, running.fence };
}

static void recall_requests_are_read_page_by_page(void **state)
{
    enum { REQUESTS = 5, PAGE = 2 };
    struct world *w = *state;
    struct uuid node = fresh_id(w), last = { 0 };
    size_t n = 0;
    for (int i = 0; i < REQUESTS; i++)
        request_one(w, node);
    for (size_t left = REQUESTS; left > 0; left -= n) {
        struct op_recall_list page = { .op.kind = OP_RECALL_LIST, .node = node, .after = last, .max = PAGE };
        assert_ok(world_apply(w, &page.op), &page.op.error);
        n = page.ret_count;
        assert_int_equal(n, min_of(left, (size_t)PAGE));
        for (size_t i = 0; i < n; i++) {
            assert_true(uuid_cmp(page.ret[i].id, last) > 0);
            last = page.ret[i].id;
        }
    }
}

static struct op_recall_list refuse(struct world *w, struct uuid node, const struct fenced_id *v, size_t n)
{
    struct op_recall_list op = { .op.kind = OP_RECALL_LIST, .node = node, .max = 10, .refused = v, .refused_count = n };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op;
}

static void a_refused_request_is_read_no_more_and_who_repeats_it_hears_of_the_refusal(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct fenced_id open = request_one(w, node), refused[] = { request_one(w, node), { fresh_id(w), 1 }, open };
    refused[2].fence++; /* of a later claim: it refuses nothing */
    struct op_recall_list left = refuse(w, node, refused, array_count(refused));
    assert_int_equal(left.ret_count, 1);
    assert_true(uuid_eq(left.ret[0].id, open.id));
    struct op_recall again = { .id = refused[0].id, .fence = refused[0].fence };
    assert_ok(recall_with(w, &again), &again.op.error);
    assert_true(again.ret_refused);
    again = (struct op_recall){ .id = open.id, .fence = open.fence };
    assert_ok(recall_with(w, &again), &again.op.error);
    assert_false(again.ret_refused);
    assert_int_equal(refuse(w, node, &open, 1).ret_count, 0);
    assert_false(beat(w, node).ret_recall_requested);
}

static void a_refused_request_is_read_again_if_it_aborts(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct fenced_id id = request_one(w, node);
    assert_int_equal(refuse(w, node, &id, 1).ret_count, 0);
    struct op_recall op = { .id = id.id, .fence = id.fence, .abort = true };
    assert_ok(recall_with(w, &op), &op.op.error);
    assert_true(beat(w, node).ret_recall_requested);
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 1);
}

static void a_refusal_is_over_with_its_claim(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_recall first = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &first), &first.op.error);
    assert_int_equal(refuse(w, node, &(struct fenced_id){ t.id, running.fence }, 1).ret_count, 0);
    struct settlement v = settlement_of(&running, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    assert_true(settle_with(w, &v));
    struct lane_quota lane = { some_lane(), 10 };
    struct op_claim again = claim_of(w, &lane, 1);
    again.node = node;
    assert_ok(world_apply(w, &again.op), &again.op.error);
    struct op_recall second = { .id = t.id, .fence = again.ret.v[0].fence };
    assert_ok(recall_with(w, &second), &second.op.error);
    assert_false(second.ret_refused);
    assert_int_equal(recall_requests_of(w, node, 10).ret_count, 1);
}

static void a_request_for_a_task_that_a_queue_has_says_so(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_handoff handoff = { .op.kind = OP_HANDOFF, .node = node, .claims = &running.claim, .n = 1 };
    assert_ok(world_apply(w, &handoff.op), &handoff.op.error);
    struct op_recall op = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &op), &op.op.error);
    assert_true(op.ret_handed_off);
}

/* ---- what is forgotten ---- */

static size_t forget_at(struct world *w, int64_t now_ms)
{
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = now_ms, .max = 100 };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    return op.ret_purged;
}

static void a_dead_node_is_forgotten_an_hour_later(void **state)
{
    struct world *w = *state;
    struct uuid dead = fresh_id(w), me = fresh_id(w);
    beat(w, dead);
    assert_true(bury(w, dead, 1)); /* at NOW + 1000 */
    beat(w, me);
    assert_int_equal(forget_at(w, NOW + 1000 + NODE_KEPT_MS), 0);
    assert_int_equal(forget_at(w, NOW + 1001 + NODE_KEPT_MS), 1);
    struct op_heartbeat op = beat(w, me); /* who lives is not forgotten, however long ago it joined */
    assert_nodes(&op, &me);
}

static void a_dead_node_is_kept_while_anything_is_claimed_by_it(void **state)
{
    struct world *w = *state;
    struct uuid dead = fresh_id(w);
    struct task t = some_task(w);
    beat(w, dead);
    struct task running = claim_one(w, &t, dead);
    assert_true(bury(w, dead, 1));
    assert_int_equal(forget_at(w, NOW + 2 * NODE_KEPT_MS), 0);
    struct settlement v = settlement_of(&running, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_int_equal(forget_at(w, NOW + 2 * NODE_KEPT_MS), 1);
}

static void wishes_that_are_over_are_forgotten(void **state)
{
    struct world *w = *state;
    struct uuid node = fresh_id(w);
    struct task t = some_task(w), running = claim_one(w, &t, node);
    struct op_recall op = { .id = t.id, .fence = running.fence };
    assert_ok(recall_with(w, &op), &op.op.error);
    assert_int_equal(forget_at(w, NOW), 0);
    struct settlement v = settlement_of(&running, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_int_equal(forget_at(w, NOW), 1);
    assert_int_equal(forget_at(w, NOW), 0);
}

static const struct CMUnitTest tests[] = {
    store_test(the_first_beat_puts_a_node_in),
    store_test(each_beat_counts_and_says_how_it_is_now),
    store_test(a_store_that_forgot_beats_raises_its_fences),
    store_test(nodes_come_by_id_and_dead_ones_behind_them),
    store_test(of_many_dead_nodes_the_latest_are_told),
    store_test(a_node_that_leaves_is_gone),
    store_test(who_was_never_there_leaves_without_a_trace),
    store_test(who_is_alone_buries_everybody_else),
    store_test(a_dead_nodes_beat_says_so_and_changes_nothing),
    store_test(a_beat_whose_answer_has_no_room_leaves_no_trace),
    store_test(a_node_is_buried_only_while_its_beats_are_those_seen),
    store_test(what_a_buried_node_held_is_found),
    store_test(how_far_a_node_fires_never_falls),
    store_test(orphans_come_with_how_far_their_node_fires),
    store_test(what_an_unknown_node_holds_is_found_but_not_by_itself),
    store_test(a_dead_node_claims_nothing),
    store_test(a_claim_behind_its_nodes_burial_fails),
    store_test(what_a_node_had_claimed_before_it_died_it_may_still_settle),
    store_test(a_wish_reaches_who_holds_the_task),
    store_test(only_what_runs_under_that_fence_is_wished_back),
    store_test(a_wish_is_over_when_the_task_leaves_its_claim),
    store_test(a_wish_is_over_when_the_task_is_put_out_of_its_claim),
    store_test(what_is_wished_twice_aborts_if_either_does_and_says_by_what_it_is_replaced),
    store_test(a_wish_of_an_earlier_claim_does_not_abort_the_next),
    store_test(recall_requests_are_read_page_by_page),
    store_test(a_refused_request_is_read_no_more_and_who_repeats_it_hears_of_the_refusal),
    store_test(a_refused_request_is_read_again_if_it_aborts),
    store_test(a_refusal_is_over_with_its_claim),
    store_test(a_request_for_a_task_that_a_queue_has_says_so),
    store_test(a_dead_node_is_forgotten_an_hour_later),
    store_test(a_dead_node_is_kept_while_anything_is_claimed_by_it),
    store_test(wishes_that_are_over_are_forgotten),
};
const struct test_list node_tests = { tests, array_count(tests) };
