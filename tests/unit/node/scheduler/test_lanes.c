/* node/scheduler/lanes: which lines a claim asks for, and how the room is shared over many claims. */
#include "node/scheduler/lanes.h"

#include <stdio.h>
#include <stdlib.h>

#include "both_at.h"
#include "check.h"

enum { NOW = 1700000000, LANES_MAX = 8 };

/* Lanes with a backlog that never ends, and a store that gives what it is asked for. */
struct world {
    struct lanes *lanes;
    struct lane_entry *v[LANES_MAX];
    struct lane lane[LANES_MAX];
    int64_t due_ms[LANES_MAX], got[LANES_MAX];
    size_t n;
};

static int open_world(void **state)
{
    struct world *w = xnew(*w);
    w->lanes = lanes_new(&(struct lanes_setup){ .slots = 100 });
    lanes_set_window(w->lanes, 100);
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    lanes_free(w->lanes);
    free(w);
    return 0;
}
#define lanes_test(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

static size_t add_lane(struct world *w, struct lane lane, int64_t due_ms)
{
    size_t i = w->n++;
    assert_true(i < LANES_MAX);
    w->lane[i] = lane;
    w->due_ms[i] = due_ms;
    w->v[i] = lanes_know(w->lanes, lane);
    lanes_due(w->lanes, w->v[i], due_ms, false);
    return i;
}

static size_t add(struct world *w, int32_t tenant, int priority)
{
    return add_lane(w, (struct lane){ .tenant = tenant, .queue = S("q"), .priority = priority }, NOW);
}

static size_t index_of(const struct world *w, const struct lane *lane)
{
    for (size_t i = 0; i < w->n; i++)
        if (lane_eq(&w->lane[i], lane))
            return i;
    fail_msg("a lane that nobody added");
    return 0;
}

/* The store takes from the lanes of each line by priority and age, one task after the other. */
static void answer_line(struct world *w, struct lane_quota *v, const struct claim_line *line)
{
    for (size_t left = line->max; left; left--) {
        size_t best = 0;
        for (size_t i = 1; i < line->lanes; i++)
            if (lane_order_ms(&v[i].lane, w->due_ms[index_of(w, &v[i].lane)]) <
                lane_order_ms(&v[best].lane, w->due_ms[index_of(w, &v[best].lane)]))
                best = i;
        v[best].ret_taken++;
        w->got[index_of(w, &v[best].lane)]++;
    }
}

/* What is due in lanes without a worker. */
static void answer_look(struct world *w, struct lanes_round *r, int64_t now_ms)
{
    assert_true(r->n && r->line_count == 0 && r->v[0].max == 0); /* nothing is taken */
    for (size_t i = 0; i < r->n; i++)
        r->v[i].ret_next_due_ms = r->v[i].ret_next_own_ms = w->due_ms[index_of(w, &r->v[i].lane)];
    struct op_claim answer = {
        .now_ms = now_ms, .until_ms = r->until_ms, .max = r->max, .ret_next_suspect_ms = INT64_MAX
    };
    assert_false(lanes_answered(w->lanes, r, &answer));
}

static bool claim(struct world *w, size_t max)
{
    struct lanes_round r;
    struct lanes_offer offer = { .max = max, .claims = true, .wanted = LANES_DUE, .now = both_at(NOW) };
    size_t sum = 0;
    while (lanes_ask(w->lanes, &offer, &r) && r.missing)
        answer_look(w, &r, NOW);
    if (!r.n)
        return false;
    for (size_t i = 0, first = 0; i < r.line_count; first += r.lines[i++].lanes) {
        answer_line(w, r.v + first, &r.lines[i]);
        sum += r.lines[i].max;
    }
    for (size_t i = 0; i < r.n; i++)
        r.v[i].ret_next_due_ms = w->due_ms[index_of(w, &r.v[i].lane)];
    assert_true(sum <= max && sum <= r.max);
    struct op_claim answer = {
        .now_ms = NOW, .until_ms = r.until_ms, .max = r.max, .ret.n = sum, .ret_next_suspect_ms = INT64_MAX
    };
    lanes_answered(w->lanes, &r, &answer);
    return true;
}

static void run(struct world *w, int rounds, size_t room)
{
    for (int i = 0; i < rounds; i++)
        assert_true(claim(w, room));
}

static void assert_near(int64_t value, int64_t expected, int64_t tolerance)
{
    if (value < expected - tolerance || value > expected + tolerance)
        fail_msg("%lld is not within %lld of %lld", (long long)value, (long long)tolerance, (long long)expected);
}

static void tenants_share_one_slot_over_time(void **state)
{
    struct world *w = *state;
    for (int32_t tenant = 1; tenant <= 3; tenant++)
        add(w, tenant, PRIORITY_DEFAULT);
    run(w, 999, 1);
    for (size_t i = 0; i < w->n; i++)
        assert_near(w->got[i], 333, 1);
}

static void classes_share_one_slot_over_time(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0), normal = add(w, 1, 5), high = add(w, 1, 9);
    run(w, 1000, 1);
    assert_near(w->got[low], 100, 2);
    assert_near(w->got[normal], 300, 2);
    assert_near(w->got[high], 600, 2);
}

static void priorities_of_a_class_are_one_line(void **state)
{
    struct world *w = *state;
    size_t seven = add(w, 1, 7), eight = add(w, 1, 8), nine = add(w, 1, 9);
    run(w, 10, 5);
    assert_int_equal(w->got[nine], 50);
    assert_int_equal(w->got[eight] + w->got[seven], 0);
}

static void a_line_that_waited_long_counts_in_a_higher_class(void **state)
{
    struct world *w = *state;
    size_t old = add_lane(w, (struct lane){ .tenant = 1, .queue = S("q"), .priority = 6 }, NOW - AGEING_MS),
           fresh = add_lane(w, (struct lane){ .tenant = 1, .queue = S("other"), .priority = 9 }, NOW);
    run(w, 100, 1);
    assert_near(w->got[old], 50, 1);
    assert_near(w->got[fresh], 50, 1);
}

static void tasks_with_other_needs_share_with_those_without(void **state)
{
    struct world *w = *state;
    struct lane plain = { .tenant = 1, .queue = S("q"), .priority = 5 }, needs = plain, aside = plain;
    needs.requires = S("gpu");
    aside.host = S("slow.example");
    size_t of_plain = add_lane(w, plain, NOW), of_needs = add_lane(w, needs, NOW), of_aside = add_lane(w, aside, NOW);
    assert_ptr_equal(lanes_get(w->lanes, needs), w->v[of_needs]);
    assert_ptr_equal(lanes_get(w->lanes, aside), w->v[of_aside]);
    run(w, 99, 1);
    assert_near(w->got[of_plain], 33, 1);
    assert_near(w->got[of_needs], 33, 1);
    assert_near(w->got[of_aside], 33, 1);
}

static void hold(struct world *w, size_t lane, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lanes_on_claimed(w->lanes, w->v[lane]);
}

/* Others call it, too: what is put aside once more would be claimed again at once, and again. */
static void a_host_that_was_busy_is_left_alone_for_a_moment(void **state)
{
    struct world *w = *state;
    struct lane aside = { .tenant = 1, .queue = S("q"), .priority = 5, .host = S("slow.example") };
    lanes_free(w->lanes);
    w->lanes = lanes_new(&(struct lanes_setup){ .slots = 100, .host_calls = 4 });
    size_t i = add_lane(w, aside, NOW);
    assert_true(claim(w, 10));
    assert_int_equal(w->got[i], 4);
    lanes_on_host_busy(w->lanes, w->v[i], NOW);
    lanes_due(w->lanes, w->v[i], NOW, false);
    assert_false(claim(w, 10));
    assert_true(lanes_hold_of(w->lanes, w->v[i], NOW).gate == LANE_HOST_BUSY);
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) == NOW + 200);
}

static void a_class_without_room_waits_and_costs_no_claim(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0);
    hold(w, low, 80); /* a tenth is kept for each higher class */
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) == INT64_MAX);
    assert_true(lanes_has_room(w->lanes));
    assert_false(claim(w, 10));
    lanes_on_settled(w->lanes, w->v[low], false);
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) <= NOW);
    assert_true(claim(w, 10));
    assert_int_equal(w->got[low], 1);
}

static void a_lower_class_leaves_the_room_of_a_higher_one(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0), normal = add(w, 1, 5), high = add(w, 1, 9);
    hold(w, low, 78);
    assert_true(claim(w, 100));
    assert_true(w->got[low] <= 2 && w->got[low] + w->got[normal] <= 12);
    assert_int_equal(w->got[low] + w->got[normal] + w->got[high], 22);
}

/* ---- ready tasks of tenants that may have a part of the slots ---- */

enum { READY_TASKS = 400 };

struct ready_task {
    struct heap_node node;
    size_t lane;
};

struct ready_world {
    struct world *world;
    struct lane_entry *running; /* NULL: the slot is free */
};

static void on_granted(void *context, struct heap_node *node)
{
    struct ready_world *w = context;
    struct ready_task *t = container_of(node, struct ready_task, node);
    assert_null(w->running);
    w->running = w->world->v[t->lane];
    w->world->got[t->lane]++;
    lanes_on_ahead_over(w->world->lanes, w->running);
    lanes_on_claimed(w->world->lanes, w->running);
}

static void share(struct ready_world *w)
{
    struct lanes_round r;
    struct lanes_offer offer = {
        .max = 100, .claims = true, .wanted = LANES_DUE, .now = both_at(NOW), .grant = on_granted, .context = w
    };
    assert_false(lanes_ask(w->world->lanes, &offer, &r));
}

/* Each tenant may have one slot, and there is one: a tenant that has it must not lose the turn of its other tasks. */
static void tenants_and_classes_share_one_slot_among_ready_tasks(void **state)
{
    (void)state;
    struct error e;
    struct catalog_cache *catalog = catalog_cache_new();
    struct catalog_entry other = {
        .kind = CATALOG_TENANT, .name = S("other"), .doc = S("{\"name\":\"other\",\"number\":2}"), .version = 1
    };
    assert_ok(catalog_cache_put(catalog, &other, &e), &e);
    struct world w = { .lanes = lanes_new(&(struct lanes_setup){ .catalog = catalog, .slots = 1 }) };
    struct ready_world ready = { .world = &w };
    struct ready_task *tasks = xcalloc((size_t)6 * READY_TASKS, sizeof *tasks);
    for (size_t i = 0; i < 6; i++)
        add_lane(&w, (struct lane){ .tenant = 1 + (int32_t)i % 2, .queue = S("q"), .priority = (int)(i / 2) * 4 + 1 },
                 INT64_MAX);
    for (size_t i = 0; i < (size_t)6 * READY_TASKS; i++) {
        tasks[i].lane = i % 6;
        lanes_on_claimed_ahead(w.lanes, w.v[i % 6]);
        lanes_ready_add(w.lanes, w.v[i % 6], &tasks[i].node, NOW);
    }
    for (int i = 0; i < 1000; i++) {
        share(&ready);
        assert_non_null(ready.running);
        share(&ready); /* the slot is taken */
        lanes_on_unarmed(w.lanes, ready.running);
        lanes_on_settled(w.lanes, ready.running, false);
        ready.running = NULL;
    }
    static const int64_t expected[CLASSES] = { [CLASS_LOW] = 50, [CLASS_NORMAL] = 150, [CLASS_HIGH] = 300 };
    for (size_t i = 0; i < 6; i++)
        assert_near(w.got[i], expected[i / 2], 2);
    lanes_free(w.lanes);
    catalog_cache_free(catalog);
    free(tasks);
}

/* ---- pools ---- */

enum { GROUPS = 3 };

static struct worker_group workers(const char *labels, int64_t slots)
{
    return (struct worker_group){
        .kind = { .labels = str_from(labels), .priority_max = 9, .cpu_milli = -1, .memory_mb = -1 },
        .slots = slots,
        .workers = 1
    };
}

/* They run the tasks of one node, and nothing waits for them. */
static void set_workers(struct world *w, const struct worker_group *v, size_t n, bool here)
{
    struct worker_group copy[GROUPS];
    assert_true(n <= GROUPS);
    for (size_t i = 0; i < n; i++)
        copy[i] = v[i];
    lanes_set_workers(w->lanes, &(struct lanes_workers){ .groups = { copy, n }, .nodes = 1, .here = here });
}

static size_t add_with_label(struct world *w, const char *label, int priority)
{
    struct lane lane = { .tenant = 1, .queue = S("q"), .priority = priority };
    lane.requires = str_from(label);
    return add_lane(w, lane, NOW);
}

static void what_nobody_can_run_is_not_claimed_and_costs_nobody_room(void **state)
{
    struct world *w = *state;
    size_t plain = add(w, 1, 5), gpu = add_with_label(w, "gpu", 9);
    set_workers(w, (struct worker_group[]){ workers("", 8) }, 1, true);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[gpu], 0);
    assert_int_equal(w->got[plain], 8);
    assert_int_equal(lanes_hold_of(w->lanes, w->v[gpu], NOW).gate, LANE_NO_WORKER);
    assert_int_equal(lanes_hold_of(w->lanes, w->v[plain], NOW).gate, LANE_NONE);
    assert_string_equal(lanes_shortage(w->lanes, w->v[gpu]).reason, "no worker has the label gpu");
    hold(w, plain, 8);
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) > NOW + 1000); /* a closed lane costs nothing */
}

static void a_worker_that_joins_opens_its_lanes(void **state)
{
    struct world *w = *state;
    size_t gpu = add_with_label(w, "gpu", 9);
    set_workers(w, NULL, 0, false);
    assert_false(claim(w, 100));
    assert_string_equal(lanes_shortage(w->lanes, w->v[gpu]).reason, "there is no worker");
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) > NOW + 1000);
    set_workers(w, (struct worker_group[]){ workers("gpu", 4) }, 1, true);
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) <= NOW);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[gpu], 4);
    assert_int_equal(lanes_shortage(w->lanes, w->v[gpu]).need, POOL_NOTHING);
}

static void count_missing(void *context, const struct pool_shortage *s, size_t lanes)
{
    size_t *count = context;
    assert_string_equal(s->missing, "label gpu");
    *count += lanes;
}

static size_t missing(struct world *w)
{
    size_t n = 0;
    lanes_each_missing(w->lanes, count_missing, &n);
    return n;
}

static void what_is_missing_is_counted_until_it_is_there(void **state)
{
    struct world *w = *state;
    add_with_label(w, "gpu", 9);
    add_with_label(w, "gpu", 2);
    set_workers(w, (struct worker_group[]){ workers("", 8) }, 1, false);
    assert_int_equal(missing(w), 0); /* nobody has looked for a worker yet */
    assert_false(claim(w, 100));
    assert_int_equal(missing(w), 2);
    set_workers(w, (struct worker_group[]){ workers("", 8), workers("eu", 8) }, 2, false);
    assert_int_equal(missing(w), 2);
    set_workers(w, (struct worker_group[]){ workers("", 8), workers("gpu", 8) }, 2, false);
    assert_int_equal(missing(w), 0);
}

static void tasks_without_a_worker_that_are_gone_are_forgotten(void **state)
{
    struct world *w = *state;
    size_t gpu = add_with_label(w, "gpu", 9);
    struct lanes_round r;
    struct lanes_offer offer = { .max = 10, .claims = true, .wanted = LANES_DUE, .now = both_at(NOW) };
    set_workers(w, (struct worker_group[]){ workers("", 8) }, 1, false);
    assert_false(claim(w, 100));
    int64_t look_ms = lanes_next_ms(w->lanes, LANES_DUE);
    assert_int_equal(look_ms, NOW + 5000);
    for (int gone = 0; gone < 2; gone++, look_ms += 5000) {
        offer.now = both_at(look_ms);
        w->due_ms[gpu] = gone ? INT64_MAX : NOW;
        assert_true(lanes_ask(w->lanes, &offer, &r) && r.missing);
        answer_look(w, &r, look_ms);
        assert_false(lanes_ask(w->lanes, &offer, &r));
        assert_int_equal(missing(w), gone ? 0 : 1);
    }
    offer.now = both_at(look_ms);
    assert_false(lanes_ask(w->lanes, &offer, &r));
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) == INT64_MAX);
}

static void a_lane_without_tasks_lacks_no_worker(void **state)
{
    struct world *w = *state;
    size_t gpu = add_with_label(w, "gpu", 9);
    set_workers(w, (struct worker_group[]){ workers("", 8) }, 1, false);
    w->due_ms[gpu] = INT64_MAX;
    lanes_all_due(w->lanes, NOW); /* in case a nudge was lost */
    assert_false(claim(w, 100));
    assert_int_equal(missing(w), 0);
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) == INT64_MAX);
}

static void put_tenant(struct catalog_cache *catalog, const char *name, int number)
{
    char doc[64];
    struct error e;
    snprintf(doc, sizeof doc, "{\"name\":\"%s\",\"number\":%d}", name, number);
    struct catalog_entry entry = { .kind = CATALOG_TENANT, .name = str_from(name), .doc = str_from(doc), .version = 1 };
    assert_ok(catalog_cache_put(catalog, &entry, &e), &e);
}

static void workers_for_a_tenant_are_found_by_its_name(void **state)
{
    (void)state;
    struct catalog_cache *catalog = catalog_cache_new();
    struct world w = { .lanes = lanes_new(&(struct lanes_setup){ .catalog = catalog, .slots = 1 }) };
    struct worker_group g = workers("", 4);
    g.kind.tenants = S("acme,other");
    put_tenant(catalog, "other", 2);
    size_t other = add(&w, 2, 5), acme = add(&w, 3, 5);
    set_workers(&w, &g, 1, true);
    assert_int_equal(lanes_shortage(w.lanes, w.v[other]).need, POOL_NOTHING);
    assert_int_equal(lanes_shortage(w.lanes, w.v[acme]).need, POOL_TENANT);
    put_tenant(catalog, "acme", 3); /* the task was known before its tenant */
    lanes_rules_changed(w.lanes);
    assert_int_equal(lanes_shortage(w.lanes, w.v[acme]).need, POOL_NOTHING);
    lanes_free(w.lanes);
    catalog_cache_free(catalog);
}

static void one_tenant_among_several_leaves_room_in_each_pool(void **state)
{
    (void)state;
    struct catalog_cache *catalog = catalog_cache_new();
    struct world w = { .lanes = lanes_new(&(struct lanes_setup){ .catalog = catalog, .slots = 1 }) };
    put_tenant(catalog, "other", 2);
    lanes_set_window(w.lanes, 100);
    size_t plain = add(&w, 2, 5),
           gpu = add_lane(&w, (struct lane){ .tenant = 2, .queue = S("q"), .priority = 5, .requires = S("gpu") }, NOW);
    set_workers(&w, (struct worker_group[]){ workers("", 5), workers("gpu", 5) }, 2, true);
    assert_true(claim(&w, 100));
    assert_int_equal(w.got[plain], 8); /* of ten, and the other is not held against it */
    assert_int_equal(w.got[gpu], 4);
    hold(&w, gpu, 4);
    assert_int_equal(lanes_hold_of(w.lanes, w.v[gpu], NOW).gate, LANE_TENANT_SHARE);
    assert_int_equal(lanes_hold_of(w.lanes, w.v[plain], NOW).gate, LANE_NONE);
    lanes_free(w.lanes);
    catalog_cache_free(catalog);
}

static void a_full_pool_holds_up_no_other(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0), high = add(w, 1, 9);
    struct worker_group any = workers("", 20), urgent = workers("", 20);
    any.kind.priority_max = 6;
    urgent.kind.priority_min = 7;
    set_workers(w, (struct worker_group[]){ any, urgent }, 2, true);
    hold(w, low, 20);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[low], 0);
    assert_int_equal(w->got[high], 20);
}

static void priorities_of_a_class_may_be_in_different_pools(void **state)
{
    struct world *w = *state;
    size_t seven = add(w, 1, 7), nine = add(w, 1, 9);
    struct worker_group any = workers("", 5), urgent = workers("", 3);
    urgent.kind.priority_min = 8;
    any.kind.priority_max = 7;
    set_workers(w, (struct worker_group[]){ any, urgent }, 2, true);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[seven], 5);
    assert_int_equal(w->got[nine], 3);
    urgent.kind.priority_min = 7;
    set_workers(w, (struct worker_group[]){ urgent }, 1, true);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[nine], 6); /* one line again */
    assert_int_equal(w->got[seven], 5);
}

static void a_task_counts_in_the_pool_that_its_lane_is_in(void **state)
{
    struct world *w = *state;
    size_t gpu = add_with_label(w, "gpu", 5), plain = add(w, 1, 5);
    set_workers(w, (struct worker_group[]){ workers("", 4), workers("gpu", 4) }, 2, true);
    hold(w, gpu, 3);
    assert_int_equal(lanes_facts(w->lanes, w->v[plain]).pool_taken, 0);
    assert_int_equal(lanes_facts(w->lanes, w->v[gpu]).pool_taken, 3);
    set_workers(w, (struct worker_group[]){ workers("gpu", 4) }, 1, true); /* one pool for both */
    assert_int_equal(lanes_facts(w->lanes, w->v[plain]).pool_taken, 3);
    set_workers(w, (struct worker_group[]){ workers("", 4) }, 1, true);
    assert_int_equal(lanes_facts(w->lanes, w->v[plain]).pool_taken, 0);
    for (int i = 0; i < 3; i++)
        lanes_on_settled(w->lanes, w->v[gpu], false);
    assert_int_equal(lanes_places(w->lanes).taken, 0);
}

static void needs_bound_what_is_claimed(void **state)
{
    struct world *w = *state;
    struct lane large = { .tenant = 1, .queue = S("q"), .priority = 5, .memory_mb = 3000 };
    size_t big = add_lane(w, large, NOW), plain = add(w, 1, 5);
    struct worker_group g = workers("", 9);
    g.kind.memory_mb = 7000;
    set_workers(w, &g, 1, true);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[big], 2);
    assert_int_equal(w->got[plain], 9);
}

static void workers_that_change_while_a_claim_is_under_way_count_after_it(void **state)
{
    struct world *w = *state;
    size_t plain = add(w, 1, 5);
    struct lanes_round r;
    struct lanes_offer offer = { .max = 10, .claims = true, .wanted = LANES_DUE, .now = both_at(NOW) };
    set_workers(w, (struct worker_group[]){ workers("", 4) }, 1, true);
    assert_true(lanes_ask(w->lanes, &offer, &r));
    set_workers(w, (struct worker_group[]){ workers("gpu", 6) }, 1, true);
    lanes_answer_lost(w->lanes, &r);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[plain], 6);
}

static void some_tasks_wait_in_the_queue_and_a_higher_class_always_may(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0), high = add(w, 1, 9);
    set_workers(w, (struct worker_group[]){ workers("", 4) }, 1, false);
    hold(w, low, 5);
    assert_int_equal(lanes_facts(w->lanes, w->v[low]).pool_places, 6);
    assert_false(lanes_facts(w->lanes, w->v[low]).pool_waits);
    hold(w, low, 1);
    assert_true(lanes_facts(w->lanes, w->v[low]).pool_waits);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[high], 1); /* the queue gives it away first */
    assert_int_equal(w->got[low], 0);
    hold(w, high, 1);
    assert_false(claim(w, 100));
}

static void more_wait_in_the_queue_while_tasks_end_fast(void **state)
{
    struct world *w = *state;
    size_t plain = add(w, 1, 5);
    struct moment now = both_at(NOW);
    set_workers(w, (struct worker_group[]){ workers("", 4) }, 1, false);
    lanes_step(w->lanes, now, false);
    hold(w, plain, 25);
    for (int i = 0; i < 25; i++)
        lanes_on_settled(w->lanes, w->v[plain], false);
    now.steady_ms += 250;
    lanes_step(w->lanes, now, false);
    assert_int_equal(lanes_facts(w->lanes, w->v[plain]).pool_places, 4 + 50);
    now.steady_ms += 250;
    lanes_step(w->lanes, now, false);
    assert_int_equal(lanes_facts(w->lanes, w->v[plain]).pool_places, 6);
}

static void what_the_queue_has_does_not_count_while_it_is_down(void **state)
{
    struct world *w = *state;
    size_t plain = add(w, 1, 5);
    set_workers(w, (struct worker_group[]){ workers("", 4) }, 1, false);
    hold(w, plain, 6);
    for (int i = 0; i < 6; i++)
        lanes_on_queued(w->lanes, w->v[plain], true);
    assert_false(claim(w, 100));
    set_workers(w, (struct worker_group[]){ workers("", 2) }, 1, true);
    assert_true(claim(w, 100));
    assert_int_equal(w->got[plain], 2);
}

/* ---- claims ahead ---- */

/* Claims ahead of a task that finds no slot, from now on; the store leaves the task. */
static void claim_ahead_in_vain(struct world *w, int64_t now_ms, int64_t due_ms)
{
    struct lanes_round r;
    assert_true(lanes_ask_ahead(w->lanes, 10, both_at(now_ms), now_ms + 3000, 3000, &r));
    r.v[0].ret_next_due_ms = r.v[0].ret_next_own_ms = due_ms;
    struct op_claim answer = { .now_ms = now_ms, .until_ms = r.until_ms, .max = 10, .ret_next_suspect_ms = INT64_MAX };
    lanes_answered(w->lanes, &r, &answer);
}

static void a_task_that_is_left_ahead_is_tried_again_after_a_while(void **state)
{
    struct world *w = *state;
    int64_t now_ms = NOW, due_ms = NOW + 2000, claims = 0;
    lanes_set_ahead(w->lanes, 3000);
    add_lane(w, (struct lane){ .tenant = 1, .queue = S("q"), .priority = 5 }, due_ms);
    for (int64_t next_ms; (next_ms = lanes_next_ahead_ms(w->lanes)) < due_ms; claims++) {
        assert_true(next_ms <= now_ms + 500); /* the slot may be free by then */
        now_ms = max_of(now_ms, next_ms);
        claim_ahead_in_vain(w, now_ms, due_ms);
        assert_true(claims < 20);
    }
    assert_true(claims >= 4);
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) <= due_ms);
}

static void an_open_breaker_closes_the_lanes_of_its_host_and_then_lets_one_task_go(void **state)
{
    struct world *w = *state;
    struct lane plain = { .tenant = 1, .queue = S("q"), .priority = 5 }, aside = plain, urgent, theirs;
    aside.host = S("dead.example");
    urgent = theirs = aside;
    urgent.priority = 9;
    theirs.tenant = 2;
    size_t of_aside = add_lane(w, aside, NOW), of_urgent = add_lane(w, urgent, NOW), other = add_lane(w, theirs, NOW);
    lanes_open_breaker(w->lanes, 1, S("dead.example"), NOW + 30000);
    assert_int_equal(lanes_breakers_open(w->lanes), 1);
    assert_true(claim(w, 10));
    assert_true(w->got[of_aside] == 0 && w->got[of_urgent] == 0 && w->got[other] == 10);
    struct lane_hold hold = lanes_hold_of(w->lanes, w->v[of_aside], NOW);
    assert_true(hold.gate == LANE_BREAKER && hold.until_ms == NOW + 30000);
    lanes_open_breaker(w->lanes, 1, S("dead.example"), NOW); /* an earlier time changes nothing */
    assert_int_equal(lanes_hold_of(w->lanes, w->v[of_aside], NOW).until_ms, NOW + 30000);
    lanes_shift_breakers(w->lanes, 30000);
    lanes_rules_changed(w->lanes);
    assert_true(claim(w, 10));
    assert_int_equal(w->got[of_aside] + w->got[of_urgent], 1); /* of all lines of the host */
}

static void a_trial_keeps_the_lanes_closed_until_it_has_ended(void **state)
{
    struct world *w = *state;
    size_t lane =
        add_lane(w, (struct lane){ .tenant = 1, .queue = S("q"), .priority = 5, .host = S("dead.example") }, NOW);
    lanes_open_breaker(w->lanes, 1, S("dead.example"), NOW);
    hold(w, lane, 1);
    assert_false(claim(w, 10));
    assert_true(lanes_next_ms(w->lanes, LANES_DUE) == INT64_MAX); /* and nobody asks */
    lanes_on_settled(w->lanes, w->v[lane], false);
    assert_true(claim(w, 10));
    assert_int_equal(w->got[lane], 1);
    lanes_close_breaker(w->lanes, 1, S("dead.example"));
    assert_int_equal(lanes_breakers_open(w->lanes), 0);
    assert_true(claim(w, 10));
    assert_int_equal(w->got[lane], 11);
}

static void a_task_of_another_lane_is_the_trial_if_no_other_is(void **state)
{
    struct world *w = *state;
    struct str trial;
    size_t lane =
        add_lane(w, (struct lane){ .tenant = 1, .queue = S("q"), .priority = 5, .host = S("dead.example") }, NOW);
    assert_false(lanes_breaker_holds(w->lanes, 1, S("dead.example"), NOW, &trial));
    lanes_open_breaker(w->lanes, 1, S("dead.example"), NOW + 30000);
    assert_true(lanes_breaker_holds(w->lanes, 1, S("dead.example"), NOW + 29999, &trial));
    assert_false(lanes_breaker_holds(w->lanes, 2, S("dead.example"), NOW, &trial));
    hold(w, lane, 1);
    assert_true(lanes_breaker_holds(w->lanes, 1, S("dead.example"), NOW + 30000, &trial)); /* one runs */
    lanes_on_settled(w->lanes, w->v[lane], false);
    assert_false(lanes_breaker_holds(w->lanes, 1, S("dead.example"), NOW + 30000, &trial));
    assert_str(trial, "dead.example");
    assert_true(lanes_breaker_holds(w->lanes, 1, S("dead.example"), NOW + 30001, &trial));
    assert_int_equal(lanes_hold_of(w->lanes, w->v[lane], NOW + 30001).gate, LANE_BREAKER);
    assert_int_equal(lanes_hold_of(w->lanes, w->v[lane], NOW + 31000).gate, LANE_NONE);
}

/* It would be ready when it is due, and pass what has waited longer in the store and is first by its priority. */
static void a_lower_priority_is_not_claimed_ahead_of_a_higher_one_that_is_due(void **state)
{
    struct world *w = *state;
    struct lanes_round r;
    struct lane lower = { .tenant = 1, .queue = S("q"), .priority = 4 }, higher = lower;
    higher.priority = 6;
    lanes_set_ahead(w->lanes, 3000);
    add_lane(w, lower, NOW + 1000);
    add_lane(w, higher, NOW);
    assert_false(lanes_ask_ahead(w->lanes, 10, both_at(NOW), NOW + 3000, 3000, &r));
    int64_t next_ms = lanes_next_ahead_ms(w->lanes);
    assert_true(next_ms > NOW && next_ms < NOW + 1000); /* it may be claimed ahead later */
    assert_true(claim(w, 1));
    lanes_free(w->lanes);
    w->n = 0;
    w->lanes = lanes_new(&(struct lanes_setup){ .slots = 100 });
    lanes_set_ahead(w->lanes, 3000);
    add_lane(w, higher, NOW + 1000);
    add_lane(w, lower, NOW);
    claim_ahead_in_vain(w, NOW, NOW + 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(an_open_breaker_closes_the_lanes_of_its_host_and_then_lets_one_task_go),
        lanes_test(a_trial_keeps_the_lanes_closed_until_it_has_ended),
        lanes_test(a_task_of_another_lane_is_the_trial_if_no_other_is),
        lanes_test(tenants_share_one_slot_over_time),
        lanes_test(classes_share_one_slot_over_time),
        lanes_test(priorities_of_a_class_are_one_line),
        lanes_test(a_line_that_waited_long_counts_in_a_higher_class),
        lanes_test(tasks_with_other_needs_share_with_those_without),
        lanes_test(a_host_that_was_busy_is_left_alone_for_a_moment),
        lanes_test(a_class_without_room_waits_and_costs_no_claim),
        lanes_test(a_lower_class_leaves_the_room_of_a_higher_one),
        lanes_test(a_task_that_is_left_ahead_is_tried_again_after_a_while),
        lanes_test(a_lower_priority_is_not_claimed_ahead_of_a_higher_one_that_is_due),
        cmocka_unit_test(tenants_and_classes_share_one_slot_among_ready_tasks),
        lanes_test(what_nobody_can_run_is_not_claimed_and_costs_nobody_room),
        lanes_test(a_worker_that_joins_opens_its_lanes),
        lanes_test(what_is_missing_is_counted_until_it_is_there),
        lanes_test(tasks_without_a_worker_that_are_gone_are_forgotten),
        lanes_test(a_lane_without_tasks_lacks_no_worker),
        cmocka_unit_test(workers_for_a_tenant_are_found_by_its_name),
        cmocka_unit_test(one_tenant_among_several_leaves_room_in_each_pool),
        lanes_test(a_full_pool_holds_up_no_other),
        lanes_test(priorities_of_a_class_may_be_in_different_pools),
        lanes_test(a_task_counts_in_the_pool_that_its_lane_is_in),
        lanes_test(needs_bound_what_is_claimed),
        lanes_test(workers_that_change_while_a_claim_is_under_way_count_after_it),
        lanes_test(some_tasks_wait_in_the_queue_and_a_higher_class_always_may),
        lanes_test(more_wait_in_the_queue_while_tasks_end_fast),
        lanes_test(what_the_queue_has_does_not_count_while_it_is_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
