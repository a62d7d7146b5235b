/* The lanes of several nodes on one store: limits of queues and tenants hold for all nodes together. */
#include <stdio.h>
#include <stdlib.h>

#include "both_at.h"
#include "check.h"
#include "model/store_memory.h"
#include "node/scheduler/lanes.h"

enum { TENANT = 1, NODES = 3, NOW = 1000000, ARENA = 1 << 16, ROOM = 100, HELD_MAX = 1000 };

struct party {
    struct writer writer;
    struct world *world;
    struct uuid id;
    struct lanes *lanes;
    struct lane_entry *lane;
    struct op *pending;
    size_t armed, running; /* claimed and not fired; fired and not settled */
    size_t fired;
    bool ahead; /* what it has claimed is not due yet */
    bool stopped;
};

struct world {
    struct store *store;
    struct catalog_cache *catalog;
    struct party v[NODES];
    int64_t now_ms;
    size_t due; /* how many tasks wait to be claimed by any node */
    int operations;
};

static void apply(struct world *w, struct op *op)
{
    struct error e;
    assert_int_equal(store_apply(w->store, &op, 1, &e), ERR_OK);
    assert_int_equal(op->rc, ERR_OK);
}

static void submit(struct writer *writer, struct op *op)
{
    struct party *p = container_of(writer, struct party, writer);
    assert_null(p->pending);
    p->pending = op;
    p->world->operations++;
}

static void beat(struct world *w, struct uuid id)
{
    struct op_heartbeat op = { .op.kind = OP_HEARTBEAT,
                               .node = { .id = id, .name = S("n"), .doc = S("{}") },
                               .now_ms = NOW };
    arena_init(&op.op.arena, ARENA);
    apply(w, &op.op);
    arena_release(&op.op.arena);
}

static void put(struct world *w, enum catalog_kind kind, int32_t tenant, struct str name, const char *doc)
{
    static int64_t version;
    struct catalog_entry x = {
        .kind = kind, .tenant = tenant, .name = name, .version = ++version, .doc = str_from(doc)
    };
    struct error e;
    assert_ok(catalog_cache_put(w->catalog, &x, &e), &e);
    for (int i = 0; i < NODES; i++)
        if (w->v[i].lanes)
            lanes_rules_changed(w->v[i].lanes);
}

static int setup(void **state)
{
    static const struct writer_ops ops = { submit };
    struct world *w = xnew(*w);
    w->store = store_memory_new();
    w->catalog = catalog_cache_new();
    w->now_ms = NOW;
    for (int i = 0; i < NODES; i++) {
        struct party *p = &w->v[i];
        p->writer.ops = &ops;
        p->world = w;
        p->id.b[0] = (uint8_t)(i + 1);
        beat(w, p->id);
        p->lanes = lanes_new(
            &(struct lanes_setup){ .catalog = w->catalog, .slots = ROOM, .writer = &p->writer, .node = &p->id });
        lanes_set_window(p->lanes, 100);
        p->lane =
            lanes_know(p->lanes, (struct lane){ .tenant = TENANT, .queue = S("mail"), .priority = PRIORITY_DEFAULT });
    }
    *state = w;
    return 0;
}

static void answer(struct party *p)
{
    struct op *op = take(p->pending);
    if (!op)
        return;
    apply(p->world, op);
    op->done(op);
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < NODES; i++) {
        if (w->v[i].pending)
            answer(&w->v[i]);
        lanes_free(w->v[i].lanes);
    }
    catalog_cache_free(w->catalog);
    store_free(w->store);
    free(w);
    return 0;
}

/* One round: claims what the lanes allow of what is due, as a store would. */
static void claim(struct party *p)
{
    struct world *w = p->world;
    struct lanes_round r;
    struct lanes_offer offer = { .max = ROOM, .claims = true, .wanted = LANES_DUE, .now = both_at(w->now_ms) };
    if (!lanes_ask(p->lanes, &offer, &r))
        return;
    assert_int_equal(r.n, 1);
    size_t n = min_of(r.v[0].max, w->due);
    w->due -= n;
    r.v[0].ret_taken = n;
    r.v[0].ret_next_due_ms = w->due ? w->now_ms : INT64_MAX;
    struct op_claim a = {
        .now_ms = w->now_ms, .until_ms = r.until_ms, .max = ROOM, .ret.n = n, .ret_next_suspect_ms = INT64_MAX
    };
    lanes_answered(p->lanes, &r, &a);
    for (size_t i = 0; i < n; i++)
        lanes_on_claimed(p->lanes, p->lane);
    p->armed += n;
}

static void fire(struct party *p)
{
    int64_t when_ms;
    while (!p->ahead && p->armed && lanes_may_fire(p->lanes, p->lane, p->world->now_ms, &when_ms)) {
        p->armed--;
        p->running++;
        p->fired++;
    }
}

static void end(struct party *p, size_t n)
{
    for (n = min_of(n, p->running); n > 0; n--) {
        p->running--;
        lanes_on_settled(p->lanes, p->lane, false);
    }
}

static size_t fired(const struct world *w)
{
    return w->v[0].fired + w->v[1].fired + w->v[2].fired;
}

static size_t held(const struct world *w)
{
    size_t n = 0;
    for (int i = 0; i < NODES; i++)
        n += w->v[i].armed + w->v[i].running;
    return n;
}

/* Every millisecond each node steps; answers come two milliseconds later. `ends`: running tasks are settled in the
 * next one. */
static void pass(struct world *w, int64_t ms, bool ends)
{
    for (int64_t until = w->now_ms + ms; w->now_ms < until; w->now_ms++)
        for (int i = 0; i < NODES; i++) {
            struct party *p = &w->v[i];
            if (p->stopped)
                continue;
            lanes_set_time(p->lanes, both_at(w->now_ms));
            if (p->pending && w->now_ms % 2 == 0)
                answer(p);
            fire(p);
            if (ends)
                end(p, HELD_MAX);
            lanes_step(p->lanes, both_at(w->now_ms), false);
            claim(p);
            lanes_step(p->lanes, both_at(w->now_ms), false);
            fire(p);
        }
}

static void make_due(struct world *w, size_t n)
{
    w->due += n;
    for (int i = 0; i < NODES; i++)
        lanes_due(w->v[i].lanes, w->v[i].lane, w->now_ms, false);
}

static void a_queues_concurrency_is_that_of_all_nodes(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_concurrent\":4}");
    make_due(w, 100);
    for (int i = 0; i < 50; i++) {
        pass(w, 10, false);
        assert_true(held(w) <= 4);
    }
    assert_int_equal(held(w), 4);
    pass(w, 1000, true);
    assert_int_equal(fired(w), 100);
    assert_int_equal(w->due, 0);
}

static void a_tenants_limit_is_that_of_all_nodes(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_TENANT, 0, S("default"), "{\"number\":1,\"name\":\"default\",\"max_running\":3}");
    make_due(w, 50);
    for (int i = 0; i < 50; i++) {
        pass(w, 10, false);
        assert_true(held(w) <= 3);
    }
    assert_int_equal(held(w), 3);
}

static void a_queues_rate_is_that_of_all_nodes(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_dispatches_per_second\":100,\"max_burst\":10}");
    make_due(w, 1000);
    pass(w, 2000, true);
    assert_in_range(fired(w), 190, 211); /* ten at once, and 100 a second */
}

static void a_slow_rate_leaves_nothing_claimed_that_has_no_token(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_dispatches_per_second\":2,\"max_burst\":1}");
    make_due(w, 10);
    for (int i = 0; i < 3000; i++) {
        pass(w, 1, true);
        assert_true(w->v[0].armed + w->v[1].armed + w->v[2].armed == 0);
    }
    assert_in_range(fired(w), 6, 8);
}

/* It has claimed tasks and has tokens for them when it is stopped. When it wakes, the bucket is full again, and all
 * nodes are busy. */
static void a_node_that_was_stopped_adds_nothing_to_a_queues_rate(void **state)
{
    struct world *w = *state;
    struct party *slow = &w->v[0];
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_dispatches_per_second\":1000,\"max_burst\":100}");
    w->due = 80;
    slow->ahead = true;
    lanes_due(slow->lanes, slow->lane, w->now_ms, false);
    pass(w, 10, true);
    assert_int_equal(slow->armed, 80);
    slow->stopped = true;
    pass(w, 500, true);
    make_due(w, 100000);
    slow->ahead = slow->stopped = false;
    pass(w, 20, true);
    assert_in_range(fired(w), 80, 130); /* the burst, and what 20 ms bring: nothing on top */
    pass(w, 980, true);
    assert_in_range(fired(w), 1050, 1110);
    assert_true(slow->fired >= 80); /* it goes on with fresh ones */
}

static void a_slow_rate_is_reached_by_one_busy_node(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_dispatches_per_second\":0.1,\"max_burst\":1}");
    w->due = 1000;
    lanes_due(w->v[0].lanes, w->v[0].lane, w->now_ms, false);
    pass(w, 99000, true);
    assert_int_equal(fired(w), 10); /* at once, and then every ten seconds */
    assert_true(w->operations < 60);
}

static void what_is_not_limited_costs_no_operation(void **state)
{
    struct world *w = *state;
    make_due(w, 1000);
    pass(w, 100, true);
    assert_int_equal(fired(w), 1000);
    assert_int_equal(w->operations, 0);
}

static void a_queue_that_nobody_uses_costs_no_operation(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_dispatches_per_second\":100,\"max_concurrent\":4}");
    make_due(w, 5);
    pass(w, 1000, true);
    assert_int_equal(fired(w), 5);
    int before = w->operations;
    pass(w, 5000, true);
    assert_int_equal(w->operations, before);
}

static void a_disabled_tenant_with_due_tasks_costs_no_operation(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_dispatches_per_second\":5,\"max_concurrent\":4}");
    make_due(w, 100);
    pass(w, 1000, true);
    put(w, CATALOG_TENANT, 0, S("default"), "{\"number\":1,\"name\":\"default\",\"disabled\":true}");
    pass(w, 1000, true);
    int before = w->operations;
    size_t waiting = w->due;
    pass(w, 5000, true);
    assert_int_equal(w->operations, before);
    assert_int_equal(w->due, waiting);
    assert_int_equal(lanes_hold_of(w->v[0].lanes, w->v[0].lane, w->now_ms).gate, LANE_TENANT_DISABLED);
    put(w, CATALOG_TENANT, 0, S("default"), "{\"number\":1,\"name\":\"default\"}");
    pass(w, 1000, true);
    assert_in_range(waiting - w->due, 4, 10); /* 5 a second again */
}

static void a_dead_nodes_places_are_the_others(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_concurrent\":2}");
    w->due = 2;
    lanes_due(w->v[0].lanes, w->v[0].lane, w->now_ms, false);
    pass(w, 100, false);
    assert_int_equal(w->v[0].running, 2);
    struct op_node_dead bury = { .op.kind = OP_NODE_DEAD, .node = w->v[0].id, .beats = 1, .now_ms = w->now_ms };
    arena_init(&bury.op.arena, ARENA);
    apply(w, &bury.op);
    arena_release(&bury.op.arena);
    assert_true(bury.ret_marked_dead);
    make_due(w, 2);
    pass(w, 200, false);
    assert_int_equal(w->v[1].running + w->v[2].running, 2);
    end(&w->v[0], 2);
    make_due(w, 2);
    pass(w, 200, false);
    assert_int_equal(w->v[0].fired, 2); /* it gets none any more */
}

static void a_paused_queue_gives_its_places_back_and_ramps_up_for_all(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"),
        "{\"paused\":{\"by\":\"ann\",\"since\":\"1970-01-01T00:16:40.000Z\",\"until\":null}}");
    make_due(w, 10000);
    pass(w, 100, true);
    assert_int_equal(fired(w), 0);
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"resumed_at\":\"1970-01-01T00:16:40.100Z\"}");
    pass(w, 1000, true);
    assert_in_range(fired(w), 30, 120); /* 50 a second, doubling; on all nodes together */
}

static void who_waits_for_places_is_told_where_they_are(void **state)
{
    struct world *w = *state;
    put(w, CATALOG_QUEUE, TENANT, S("mail"), "{\"max_concurrent\":4}");
    w->due = 4;
    lanes_due(w->v[0].lanes, w->v[0].lane, w->now_ms, false);
    pass(w, 100, false);
    assert_int_equal(w->v[0].running, 4);
    make_due(w, 1);
    pass(w, 50, false);
    struct lane_hold h = lanes_hold_of(w->v[1].lanes, w->v[1].lane, w->now_ms);
    struct lane_facts f = lanes_facts(w->v[1].lanes, w->v[1].lane);
    assert_int_equal(h.gate, LANE_CONCURRENCY);
    assert_int_equal(f.queue_elsewhere, 4);
    assert_int_equal(f.queue_limit, 4);
    assert_int_equal(f.queue_held, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_queues_concurrency_is_that_of_all_nodes),
        TEST(a_tenants_limit_is_that_of_all_nodes),
        TEST(a_queues_rate_is_that_of_all_nodes),
        TEST(a_slow_rate_leaves_nothing_claimed_that_has_no_token),
        TEST(a_node_that_was_stopped_adds_nothing_to_a_queues_rate),
        TEST(a_slow_rate_is_reached_by_one_busy_node),
        TEST(what_is_not_limited_costs_no_operation),
        TEST(a_queue_that_nobody_uses_costs_no_operation),
        TEST(a_disabled_tenant_with_due_tasks_costs_no_operation),
        TEST(a_dead_nodes_places_are_the_others),
        TEST(a_paused_queue_gives_its_places_back_and_ramps_up_for_all),
        TEST(who_waits_for_places_is_told_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
