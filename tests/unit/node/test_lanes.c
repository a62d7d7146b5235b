/* node/scheduler/lanes: which lines a claim asks for, and how the room is shared over many claims. */
#include "node/scheduler/lanes.h"

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

static bool claim(struct world *w, size_t low, size_t normal, size_t high)
{
    struct lanes_round r;
    struct lanes_offer offer = { .room = { [CLASS_LOW] = low, [CLASS_NORMAL] = normal, [CLASS_HIGH] = high },
                                 .claims = true,
                                 .wanted = LANES_DUE,
                                 .now = both_at(NOW) };
    size_t sum = 0;
    if (!lanes_ask(w->lanes, &offer, &r))
        return false;
    for (size_t i = 0, first = 0; i < r.line_count; first += r.lines[i++].lanes) {
        answer_line(w, r.v + first, &r.lines[i]);
        sum += r.lines[i].max;
    }
    for (size_t i = 0; i < r.n; i++)
        r.v[i].ret_next_due_ms = w->due_ms[index_of(w, &r.v[i].lane)];
    assert_true(sum <= high);
    struct op_claim answer = {
        .now_ms = NOW, .until_ms = r.until_ms, .max = high, .ret.n = sum, .ret_next_suspect_ms = INT64_MAX
    };
    lanes_answered(w->lanes, &r, &answer);
    return true;
}

static void run(struct world *w, int rounds, size_t room)
{
    for (int i = 0; i < rounds; i++)
        assert_true(claim(w, room, room, room));
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

static void a_class_without_room_waits_and_costs_no_claim(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0), none[CLASSES] = { 0, 0, 10 }, some[CLASSES] = { 1, 1, 10 };
    assert_true(lanes_next_ms(w->lanes, LANES_DUE, none) == INT64_MAX);
    assert_false(claim(w, 0, 0, 10));
    assert_true(lanes_next_ms(w->lanes, LANES_DUE, some) <= NOW);
    assert_true(claim(w, 1, 1, 10));
    assert_int_equal(w->got[low], 1);
}

static void a_lower_class_leaves_the_room_of_a_higher_one(void **state)
{
    struct world *w = *state;
    size_t low = add(w, 1, 0), normal = add(w, 1, 5), high = add(w, 1, 9);
    assert_true(claim(w, 2, 5, 10));
    assert_true(w->got[low] <= 2 && w->got[low] + w->got[normal] <= 5);
    assert_int_equal(w->got[low] + w->got[normal] + w->got[high], 10);
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

static void share(struct ready_world *w, size_t room)
{
    struct lanes_round r;
    struct lanes_offer offer = { .room = { room, room, room },
                                 .claims = true,
                                 .wanted = LANES_DUE,
                                 .now = both_at(NOW),
                                 .grant = on_granted,
                                 .context = w };
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
        share(&ready, 1);
        assert_non_null(ready.running);
        share(&ready, 0);
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
    assert_true(lanes_next_ms(w->lanes, LANES_DUE, (size_t[CLASSES]){ 10, 10, 10 }) <= due_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(tenants_share_one_slot_over_time),
        lanes_test(classes_share_one_slot_over_time),
        lanes_test(priorities_of_a_class_are_one_line),
        lanes_test(a_line_that_waited_long_counts_in_a_higher_class),
        lanes_test(tasks_with_other_needs_share_with_those_without),
        lanes_test(a_class_without_room_waits_and_costs_no_claim),
        lanes_test(a_lower_class_leaves_the_room_of_a_higher_one),
        lanes_test(a_task_that_is_left_ahead_is_tried_again_after_a_while),
        cmocka_unit_test(tenants_and_classes_share_one_slot_among_ready_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
