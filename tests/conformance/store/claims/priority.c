/* Lanes of one line: OP_CLAIM 1, and all other rules of a claim where lanes are merged. Lanes by needs and by host. */
#include <stdlib.h>

#include "store_fleet.h"
#include "store_slots.h"

enum { MINUTE = 60000 };

static struct task ranked(struct world *w, int priority, int64_t due_ms)
{
    struct task t = some_task(w);
    t.priority = priority;
    t.due_ms = t.scheduled_ms = due_ms;
    return t;
}

static struct task ranked_key(struct world *w, int priority, int limit, int64_t due_ms)
{
    struct task t = keyed_task(w, limit, due_ms);
    t.priority = priority;
    return t;
}

/* The lanes of these tasks, with plenty of quota; two tasks have no lane in common. */
static struct lane_quota *lanes_of(struct world *w, const struct task *const *tasks, size_t n)
{
    struct lane_quota *v = arena_array(&w->arena, struct lane_quota, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct lane_quota){ task_lane(tasks[i]), CLAIM_MAX };
    return v;
}
#define LANES_OF(w, ...)                                                                                               \
    lanes_of((w), (const struct task *const[]){ __VA_ARGS__ }, array_count(((const struct task *[]){ __VA_ARGS__ })))

/* One line of all these lanes. */
static struct op_claim line_with(struct world *w, struct lane_quota *lanes, size_t n, size_t max)
{
    struct claim_line *line = arena_new(&w->arena, struct claim_line);
    *line = (struct claim_line){ n, max };
    struct op_claim op = claim_of(w, lanes, n);
    op.lines = line;
    op.line_count = 1;
    return op;
}

static struct op_claim line_of(struct world *w, struct lane_quota *lanes, size_t n)
{
    return line_with(w, lanes, n, CLAIM_MAX);
}

static void claim_now_or_fail(struct world *w, struct op_claim *op)
{
    assert_ok(world_apply(w, &op->op), &op->op.error);
}

/* ---- the order in a line ---- */

static void of_tasks_due_at_once_the_higher_priority_goes_first(void **state)
{
    struct world *w = *state;
    struct task seven = ranked(w, 7, NOW), nine = ranked(w, 9, NOW), eight = ranked(w, 8, NOW - 1);
    insert(w, (struct task[]){ seven, nine, eight }, 3);
    struct op_claim op = line_of(w, LANES_OF(w, &seven, &nine, &eight), 3);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &nine.id, &eight.id, &seven.id);
}

static void every_ten_minutes_of_waiting_count_as_a_level(void **state)
{
    struct world *w = *state;
    struct task old = ranked(w, 7, NOW - 21 * MINUTE), level = ranked(w, 7, NOW - 20 * MINUTE),
                young = ranked(w, 7, NOW - 19 * MINUTE), nine = ranked(w, 9, NOW);
    insert(w, (struct task[]){ nine, young, level, old }, 4);
    struct op_claim op = line_of(w, LANES_OF(w, &nine, &old), 2);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &old.id, &level.id, &nine.id, &young.id); /* level and nine are equal: ids decide */
}

static void equals_of_two_lanes_go_by_their_ids(void **state)
{
    struct world *w = *state;
    struct task a = some_task(w), b = some_task(w), c = some_task(w), d = some_task(w);
    a.requires = c.requires = S("gpu");
    insert(w, (struct task[]){ a, b, c, d }, 4);
    struct op_claim op = line_of(w, LANES_OF(w, &b, &a), 2);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &a.id, &b.id, &c.id, &d.id);
}

enum { MANY = 150, RANKS = 3 };

static int compare_order(const void *x, const void *y)
{
    const struct task *a = x, *b = y;
    struct lane p = task_lane(a), q = task_lane(b);
    int64_t i = lane_order_ms(&p, a->due_ms), j = lane_order_ms(&q, b->due_ms);
    return i != j ? (i < j ? -1 : 1) : uuid_cmp(a->id, b->id);
}

static void long_lanes_keep_the_order_to_their_end(void **state)
{
    struct world *w = *state;
    struct task *v = arena_array(&w->arena, struct task, MANY * RANKS);
    for (size_t i = 0; i < MANY * RANKS; i++) /* the lanes overlap by turns, and some times are equal */
        v[i] = ranked(w, 7 + (int)(i % RANKS), NOW - (int64_t)(i * i % 97) * MINUTE / 2);
    insert(w, v, MANY * RANKS);
    size_t max = MANY * RANKS - 5;
    struct op_claim op = line_with(w, LANES_OF(w, &v[0], &v[1], &v[2]), RANKS, max);
    claim_now_or_fail(w, &op);
    qsort(v, MANY * RANKS, sizeof *v, compare_order);
    assert_int_equal(op.ret.n, max);
    for (size_t i = 0; i < max; i++)
        assert_true(uuid_eq(op.ret.v[i].id, v[i].id));
    assert_int_equal(op.lanes[0].ret_taken + op.lanes[1].ret_taken + op.lanes[2].ret_taken, max);
    op = line_of(w, LANES_OF(w, &v[0]), 1);
    op.lanes[0].lane.priority = 7;
    claim_now_or_fail(w, &op);
    for (size_t i = 0; i < op.ret.n; i++)
        assert_true(compare_order(&v[max - 1], &op.ret.v[i]) < 0);
}

/* ---- quotas, lines, bytes ---- */

static void a_line_has_its_max_and_each_of_its_lanes_its_quota(void **state)
{
    struct world *w = *state;
    struct task nine[] = { ranked(w, 9, NOW - 3), ranked(w, 9, NOW - 2), ranked(w, 9, NOW - 1) },
                seven[] = { ranked(w, 7, NOW - 3), ranked(w, 7, NOW - 2), ranked(w, 7, NOW - 1) };
    insert(w, nine, 3);
    insert(w, seven, 3);
    struct op_claim op = line_with(w, LANES_OF(w, &seven[0], &nine[0]), 2, 4);
    op.lanes[1].max = 2;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &nine[0].id, &nine[1].id, &seven[0].id, &seven[1].id);
    assert_int_equal(op.lanes[0].ret_taken, 2);
    assert_int_equal(op.lanes[1].ret_taken, 2);
    assert_int_equal(op.lanes[0].ret_next_due_ms, NOW - 1);
    assert_int_equal(op.lanes[1].ret_next_due_ms, NOW - 1);
}

static void a_line_of_one_lane_has_the_lower_of_both_limits(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < 2; i++) {
        struct task v[] = { some_task(w), some_task(w), some_task(w) };
        insert(w, v, 3);
        struct op_claim op = line_with(w, LANES_OF(w, &v[0]), 1, i ? 9 : 1);
        op.lanes[0].max = i ? 1 : 9;
        claim_now_or_fail(w, &op);
        assert_int_equal(op.ret.n, 1);
        assert_int_equal(op.lanes[0].ret_taken, 1);
    }
}

static void a_line_or_lane_that_may_give_nothing_tells_when(void **state)
{
    struct world *w = *state;
    struct task seven = ranked(w, 7, NOW - 1), nine = ranked(w, 9, NOW), low = ranked(w, 1, NOW - 5);
    insert(w, (struct task[]){ seven, nine, low }, 3);
    struct op_claim op = claim_of(w, LANES_OF(w, &seven, &nine, &low), 3);
    op.lines = (struct claim_line[]){ { 2, 5 }, { 1, 0 } };
    op.line_count = 2;
    op.lanes[1].max = 0;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &seven.id);
    assert_true(op.lanes[0].ret_next_due_ms == INT64_MAX);
    assert_int_equal(op.lanes[1].ret_next_due_ms, NOW);
    assert_int_equal(op.lanes[2].ret_next_due_ms, NOW - 5);
    assert_int_equal(op.ret_next_due_ms, NOW - 5);
}

static void lines_are_served_in_the_order_they_are_given(void **state)
{
    struct world *w = *state;
    struct task low = ranked(w, 1, NOW), two = ranked(w, 2, NOW), seven = ranked(w, 7, NOW), nine = ranked(w, 9, NOW),
                other = ranked(w, 8, NOW);
    other.queue = S("other");
    insert(w, (struct task[]){ nine, seven, two, low, other }, 5);
    struct op_claim op = claim_of(w, LANES_OF(w, &low, &two, &other, &seven, &nine), 5);
    op.lines = (struct claim_line[]){ { 2, 9 }, { 1, 9 }, { 2, 9 } };
    op.line_count = 3;
    op.max = 4;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &two.id, &low.id, &other.id, &nine.id);
    assert_int_equal(op.lanes[3].ret_taken, 0);
    assert_int_equal(op.lanes[4].ret_taken, 1);
    assert_int_equal(op.ret_next_due_ms, NOW);
}

static void the_task_that_reaches_the_bytes_is_the_last_of_a_line(void **state)
{
    struct world *w = *state;
    struct task nine = ranked(w, 9, NOW), eight = ranked(w, 8, NOW), seven = ranked(w, 7, NOW);
    nine.payload = seven.payload = S("12345");
    eight.target_config = S("12345");
    insert(w, (struct task[]){ seven, eight, nine }, 3);
    struct op_claim op = line_of(w, LANES_OF(w, &nine, &eight, &seven), 3);
    op.max_bytes = 6;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &nine.id, &eight.id);
    assert_int_equal(op.lanes[2].ret_next_due_ms, NOW);
}

static void a_lane_that_never_had_a_task_is_in_nobodys_way(void **state)
{
    struct world *w = *state;
    struct task seven = ranked(w, 7, NOW), never = ranked(w, 9, NOW), later = ranked(w, 8, NOW + 5);
    insert(w, (struct task[]){ seven, later }, 2);
    struct op_claim op = line_of(w, LANES_OF(w, &never, &later, &seven), 3);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &seven.id);
    assert_true(op.lanes[0].ret_next_due_ms == INT64_MAX);
    assert_int_equal(op.lanes[1].ret_next_due_ms, NOW + 5);
}

/* ---- tasks that are left ---- */

static void at_most_once_waits_for_its_time_in_a_line_too(void **state)
{
    struct world *w = *state;
    struct task early = ranked(w, 9, NOW + 1), due = ranked(w, 9, NOW), behind = ranked_key(w, 9, 1, NOW + 2),
                seven = ranked(w, 7, NOW + 3);
    early.delivery = due.delivery = DELIVER_AT_MOST_ONCE;
    insert(w, (struct task[]){ early, due, behind, seven }, 4);
    struct op_claim op = line_of(w, LANES_OF(w, &early, &seven), 2); /* behind is in the lane of early */
    op.until_ms = NOW + 50;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &due.id, &behind.id, &seven.id);
    assert_int_equal(op.lanes[0].ret_next_due_ms, NOW + 1);
}

static void suspects_of_a_line_are_taken_last_by_due_time(void **state)
{
    struct world *w = *state;
    struct task nine = ranked(w, 9, NOW), suspect = ranked(w, 9, NOW), older = ranked(w, 7, NOW - 1),
                seven = ranked(w, 7, NOW);
    suspect.losses = older.losses = SUSPECT_LOSSES;
    insert(w, (struct task[]){ nine, suspect, older, seven }, 4);
    struct op_claim op = line_of(w, LANES_OF(w, &nine, &seven), 2);
    op.max_suspects = 5;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &nine.id, &seven.id, &older.id, &suspect.id);
    assert_int_equal(op.lanes[0].ret_taken, 1);
}

static struct task ranked_of_half(struct world *w, const struct partitions *half, bool own, int priority,
                                  int64_t due_ms)
{
    struct task t = ranked(w, priority, due_ms);
    while (partitions_have(half, partition_of(t.id)) != own)
        t.id = fresh_id(w);
    return t;
}

static void others_tasks_in_a_line_are_left_to_them(void **state)
{
    struct world *w = *state;
    static const struct partitions half = { { UINT64_MAX, UINT64_MAX } };
    enum { OTHERS = 100 };
    struct task others[OTHERS],
        own[] = { ranked_of_half(w, &half, true, 9, NOW - 1), ranked_of_half(w, &half, true, 7, NOW - 1) },
        help = ranked_of_half(w, &half, false, 7, NOW - 200);
    for (size_t i = 0; i < OTHERS; i++)
        others[i] = ranked_of_half(w, &half, false, i % 2 ? 9 : 7, NOW - 100);
    insert(w, others, OTHERS);
    insert(w, own, 2);
    insert(w, &help, 1);
    struct op_claim op = line_of(w, LANES_OF(w, &own[1], &own[0]), 2);
    op.own = &half;
    op.help_after_ms = 200;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &own[0].id, &help.id, &own[1].id);
    assert_int_equal(op.lanes[0].ret_next_due_ms, NOW + 100);
    assert_int_equal(op.lanes[1].ret_next_due_ms, NOW + 100);
}

/* ---- slots ---- */

static void a_slot_goes_to_the_first_of_a_line_and_the_others_wait(void **state)
{
    struct world *w = *state;
    struct task low = ranked_key(w, 7, 1, NOW - 5), high = ranked_key(w, 9, 1, NOW), next = ranked_key(w, 9, 1, NOW),
                plain = ranked(w, 7, NOW);
    insert(w, (struct task[]){ low, high, next, plain }, 4);
    struct op_claim op = line_with(w, LANES_OF(w, &low, &high, &plain), 3, 2); /* tasks that wait do not count */
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &high.id, &plain.id);
    assert_int_equal(op.ret_gated.n, 2);
    assert_waits(w, low.id, KEY);
    assert_waits(w, next.id, KEY);
    assert_holders(w, KEY, &high.id);
}

/* A run that is replaced frees a key. The task that gets it is in the lane of that priority. */
static struct op_claim replace_a_run_that_waits(struct world *w, int run_priority, int woken_priority, struct task *ret)
{
    struct task parent = some_recurring(w), holder = keyed_task(w, 1, NOW);
    parent.schedule.overlap = OVERLAP_CANCEL_PREVIOUS;
    insert(w, &parent, 1);
    claim_alone(w, &holder);
    struct task first = some_occurrence(w, &parent, NOW - 5), second = some_occurrence(w, &parent, NOW),
                woken = ranked_key(w, woken_priority, 2, NOW - 1);
    first.overlap = second.overlap = OVERLAP_CANCEL_PREVIOUS;
    first.concurrency_key = holder.concurrency_key;
    first.concurrency_limit = 1;
    second.priority = run_priority;
    gate_alone(w, &first);
    insert(w, &woken, 1);
    struct op_claim op = line_of(w, LANES_OF(w, &woken), 1);
    claim_now_or_fail(w, &op);
    assert_waits(w, woken.id, KEY);
    insert(w, &second, 1);
    *ret = woken;
    op = line_of(w, LANES_OF(w, &second, &woken), 2);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret_gated, &first.id);
    assert_true(op.ret_unblocked_lanes == (lane_bit(task_lane(&second)) | lane_bit(task_lane(&woken))));
    return op;
}

static void a_task_of_another_lane_that_gets_its_slot_in_time_is_taken(void **state)
{
    struct world *w = *state;
    struct task woken;
    struct op_claim op = replace_a_run_that_waits(w, 9, 7, &woken);
    assert_tasks(&op.ret, &woken.id);
    assert_int_equal(op.lanes[1].ret_taken, 1);
}

static void a_task_that_gets_its_slot_behind_its_turn_is_left(void **state)
{
    struct world *w = *state;
    struct task woken;
    struct op_claim op = replace_a_run_that_waits(w, 7, 9, &woken);
    assert_int_equal(op.ret.n, 0);
    assert_scheduled(w, woken.id);
    assert_int_equal(op.lanes[1].ret_next_due_ms, NOW - 1);
}

static void a_run_that_is_cancelled_in_a_line_is_not_taken_there(void **state)
{
    struct world *w = *state;
    struct task parent = some_recurring(w);
    parent.schedule.overlap = OVERLAP_CANCEL_PREVIOUS;
    insert(w, &parent, 1);
    struct task first = some_occurrence(w, &parent, NOW - 5), second = some_occurrence(w, &parent, NOW - 1),
                plain = ranked(w, 5, NOW);
    first.overlap = second.overlap = OVERLAP_CANCEL_PREVIOUS;
    second.priority = 9;
    first = claim_alone(w, &first);
    struct settlement v = settlement_of(&first, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    settle_wakes(w, &v);
    insert(w, (struct task[]){ second, plain }, 2);
    struct op_claim op = line_of(w, LANES_OF(w, &first, &second), 2);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &plain.id);
    assert_int_equal(get(w, first.id).state, TASK_CANCELLED);
    assert_scheduled(w, second.id);
}

static void a_lane_full_of_tasks_that_wait_stalls_no_lane_of_its_line(void **state)
{
    struct world *w = *state;
    struct task holder = keyed_task(w, 1, NOW), behind = ranked_key(w, 9, 1, NOW + 2), seven = ranked(w, 7, NOW + 2),
                *v = xcalloc(CLAIM_GATED_MAX, sizeof *v);
    behind.concurrency_key = S("free");
    claim_alone(w, &holder);
    for (size_t i = 0; i < CLAIM_GATED_MAX; i++)
        v[i] = ranked_key(w, 9, 1, NOW + 1);
    insert(w, v, CLAIM_GATED_MAX);
    insert(w, (struct task[]){ behind, seven }, 2);
    struct op_claim op = line_of(w, LANES_OF(w, &behind, &seven), 2);
    op.until_ms = NOW + 50;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &seven.id);
    assert_int_equal(op.lanes[0].ret_next_due_ms, NOW + 1);
    free(v);
}

static void a_claim_decides_about_so_many_of_a_line_and_stops(void **state)
{
    struct world *w = *state;
    enum { MORE = CLAIM_GATED_MAX + 10 };
    struct task holder = keyed_task(w, 1, NOW), plain = ranked(w, 7, NOW), *v = xcalloc(MORE, sizeof *v);
    claim_alone(w, &holder);
    for (size_t i = 0; i < MORE; i++)
        v[i] = ranked_key(w, 8 + (int)(i % 2), 1, NOW);
    insert(w, v, MORE);
    insert(w, &plain, 1);
    struct op_claim op = line_of(w, LANES_OF(w, &v[0], &v[1], &plain), 3);
    claim_now_or_fail(w, &op);
    assert_int_equal(op.ret_gated.n, CLAIM_GATED_MAX);
    assert_int_equal(op.ret.n, 0);
    op = line_of(w, LANES_OF(w, &v[0], &v[1], &plain), 3);
    claim_now_or_fail(w, &op);
    assert_int_equal(op.ret_gated.n, MORE - CLAIM_GATED_MAX);
    assert_tasks(&op.ret, &plain.id);
    free(v);
}

/* ---- leases ---- */

static void a_lease_takes_a_line_in_its_order(void **state)
{
    struct world *w = *state;
    struct task low = some_worker_task(w), high = some_worker_task(w), nodes = ranked(w, 9, NOW);
    high.priority = 9;
    high.requires = S("gpu"); /* of a worker that belfry does not run */
    insert(w, (struct task[]){ low, high, nodes }, 3);
    struct lane_quota *lanes = LANES_OF(w, &low, &nodes);
    struct op_claim op = lease_from(w, lanes, 2);
    op.lines = &(struct claim_line){ 2, 5 };
    op.line_count = 1;
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret, &high.id, &low.id);
}

/* ---- lanes by needs ---- */

static void tasks_of_different_needs_are_in_different_lanes(void **state)
{
    struct world *w = *state;
    struct task plain = some_task(w), v[] = { some_task(w), some_task(w), some_task(w), some_task(w) };
    v[0].requires = S("gpu");
    v[1].requires = S("eu,gpu");
    v[2].cpu_milli = 500;
    v[3].memory_mb = 500;
    insert(w, v, array_count(v));
    insert(w, &plain, 1);
    assert_taken(w, &plain.id);
    for (size_t i = 0; i < array_count(v); i++) {
        struct op_claim op = claim_of(w, LANES_OF(w, &v[i]), 1);
        claim_now_or_fail(w, &op);
        assert_tasks(&op.ret, &v[i].id);
        assert_true(str_eq(op.ret.v[0].requires, v[i].requires));
    }
}

static void an_edit_of_priority_or_needs_moves_a_task(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    for (int i = 0; i < 3; i++) {
        struct task before = get(w, t.id), after = before;
        after.version++;
        after.priority = i == 0 ? 8 : before.priority;
        after.requires = i == 1 ? S("gpu") : before.requires;
        after.cpu_milli = i == 2 ? 100 : 0;
        struct op_put put = put_of(&before, &after);
        assert_ok(world_apply(w, &put.op), &put.op.error);
        struct op_claim op = line_of(w, LANES_OF(w, &before, &after), 2);
        op.lanes[1].max = 0;
        claim_now_or_fail(w, &op);
        assert_int_equal(op.ret.n, 0);
        assert_true(op.lanes[0].ret_next_due_ms == INT64_MAX);
        assert_int_equal(op.lanes[1].ret_next_due_ms, NOW);
    }
}

/* ---- tasks that were put aside ---- */

static void put_aside(struct world *w, const struct task *running, struct str host, int losses)
{
    struct settlement v = settlement_of(running, TASK_SCHEDULED);
    v.verdict.due_ms = NOW;
    v.verdict.losses = losses;
    v.verdict.aside = host;
    assert_true(settle_with(w, &v));
}

static struct task claim_from(struct world *w, const struct task *like, size_t max_suspects)
{
    struct op_claim op = claim_of(w, LANES_OF(w, like), 1);
    op.max_suspects = max_suspects;
    claim_now_or_fail(w, &op);
    assert_int_equal(op.ret.n, 1);
    return op.ret.v[0];
}

static void a_task_that_is_put_aside_waits_in_the_lane_of_its_host(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), plain = some_task(w), running = claim_one(w, &t, fresh_id(w));
    put_aside(w, &running, S("api.example"), 0);
    struct task aside = get(w, t.id);
    assert_int_equal(aside.state, TASK_SCHEDULED);
    assert_true(str_eq(aside.aside, S("api.example")));
    insert(w, &plain, 1);
    assert_taken(w, &plain.id);
    running = claim_from(w, &aside, 0);
    assert_true(uuid_eq(running.id, t.id));
    assert_true(str_eq(running.aside, S("api.example")));
    put_aside(w, &running, (struct str){ 0 }, 0); /* it stays there */
    running = claim_from(w, &aside, 0);
    put_aside(w, &running, S("other.example"), 0);
    assert_true(str_eq(get(w, t.id).aside, S("other.example")));
    aside.aside = S("other.example");
    running = claim_from(w, &aside, 0);
    assert_true(uuid_eq(running.id, t.id));
}

static void a_settle_for_good_keeps_where_a_task_was_put(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), running = claim_one(w, &t, fresh_id(w));
    put_aside(w, &running, S("api.example"), 0);
    t.aside = S("api.example");
    running = claim_from(w, &t, 0);
    struct settlement v = settlement_of(&running, TASK_COMPLETED);
    assert_true(settle_with(w, &v));
    assert_true(str_eq(get(w, t.id).aside, S("api.example")));
}

static void a_suspect_that_is_put_aside_is_a_suspect_of_its_hosts_lane(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), running = claim_one(w, &t, fresh_id(w));
    put_aside(w, &running, S("api.example"), SUSPECT_LOSSES);
    t.aside = S("api.example");
    struct op_claim op = claim_of(w, LANES_OF(w, &t), 1);
    claim_now_or_fail(w, &op);
    assert_int_equal(op.ret.n, 0);
    assert_int_equal(op.ret_next_suspect_ms, NOW);
    running = claim_from(w, &t, 1);
    put_aside(w, &running, (struct str){ 0 }, 0);
    assert_true(uuid_eq(claim_from(w, &t, 0).id, t.id));
}

static void a_task_that_waits_for_a_slot_is_unblocked_in_the_lane_of_its_host(void **state)
{
    struct world *w = *state;
    struct task t = keyed_task(w, 1, NOW), holder = keyed_task(w, 1, NOW), running = claim_one(w, &t, fresh_id(w));
    put_aside(w, &running, S("api.example"), 0);
    holder = claim_alone(w, &holder);
    t.aside = S("api.example");
    struct op_claim op = claim_of(w, LANES_OF(w, &t), 1);
    claim_now_or_fail(w, &op);
    assert_tasks(&op.ret_gated, &t.id);
    assert_true(str_eq(op.ret_gated.v[0].aside, S("api.example")));
    assert_true(end_wakes(w, &holder, TASK_COMPLETED));
    assert_true(uuid_eq(claim_from(w, &t, 0).id, t.id));
}

static void an_edit_takes_a_task_back_from_aside(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w), running = claim_one(w, &t, fresh_id(w));
    put_aside(w, &running, S("api.example"), 0);
    struct task before = get(w, t.id), after = before;
    after.version++;
    after.aside = (struct str){ 0 };
    struct op_put put = put_of(&before, &after);
    assert_ok(world_apply(w, &put.op), &put.op.error);
    assert_int_equal(get(w, t.id).aside.n, 0);
    assert_taken(w, &t.id);
}

static void tasks_are_inserted_aside_and_handed_with_it(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct uuid node = fresh_id(w);
    t.aside = S("api.example");
    struct task running = claim_one(w, &t, node);
    hand(w, node, running.claim);
    struct tasks v = handed(w);
    assert_tasks(&v, &t.id);
    assert_true(str_eq(v.v[0].aside, S("api.example")));
}

/* ---- the reader ---- */

static void lanes_are_told_with_their_needs_and_hosts(void **state)
{
    struct world *w = *state;
    struct task v[] = { some_task(w), some_task(w), some_task(w), some_task(w), some_task(w), some_task(w) };
    v[1].requires = S("gpu");
    v[2].cpu_milli = 100;
    v[3].memory_mb = 100;
    v[4].aside = S("api.example");
    v[5].priority = 6;
    insert(w, v, array_count(v));
    struct lane *lanes;
    struct error e = { 0 };
    size_t n;
    assert_ok(reader_lanes(w->reader, &w->arena, &lanes, &n, &e), &e);
    assert_int_equal(n, array_count(v));
    for (size_t i = 0; i < array_count(v); i++) {
        struct lane lane = task_lane(&v[i]);
        size_t found = 0;
        for (size_t j = 0; j < n; j++)
            found += lane_eq(&lane, &lanes[j]);
        assert_int_equal(found, 1);
    }
    int64_t due;
    assert_ok(reader_queue_due(w->reader, TENANT, v[0].queue, NOW, &due, &e), &e);
    assert_int_equal(due, array_count(v));
}

static const struct CMUnitTest tests[] = {
    store_test(of_tasks_due_at_once_the_higher_priority_goes_first),
    store_test(every_ten_minutes_of_waiting_count_as_a_level),
    store_test(equals_of_two_lanes_go_by_their_ids),
    store_test(long_lanes_keep_the_order_to_their_end),
    store_test(a_line_has_its_max_and_each_of_its_lanes_its_quota),
    store_test(a_line_of_one_lane_has_the_lower_of_both_limits),
    store_test(a_line_or_lane_that_may_give_nothing_tells_when),
    store_test(lines_are_served_in_the_order_they_are_given),
    store_test(the_task_that_reaches_the_bytes_is_the_last_of_a_line),
    store_test(a_lane_that_never_had_a_task_is_in_nobodys_way),
    store_test(at_most_once_waits_for_its_time_in_a_line_too),
    store_test(suspects_of_a_line_are_taken_last_by_due_time),
    store_test(others_tasks_in_a_line_are_left_to_them),
    store_test(a_slot_goes_to_the_first_of_a_line_and_the_others_wait),
    store_test(a_task_of_another_lane_that_gets_its_slot_in_time_is_taken),
    store_test(a_task_that_gets_its_slot_behind_its_turn_is_left),
    store_test(a_run_that_is_cancelled_in_a_line_is_not_taken_there),
    store_test(a_lane_full_of_tasks_that_wait_stalls_no_lane_of_its_line),
    store_test(a_claim_decides_about_so_many_of_a_line_and_stops),
    store_test(a_lease_takes_a_line_in_its_order),
    store_test(tasks_of_different_needs_are_in_different_lanes),
    store_test(an_edit_of_priority_or_needs_moves_a_task),
    store_test(a_task_that_is_put_aside_waits_in_the_lane_of_its_host),
    store_test(a_settle_for_good_keeps_where_a_task_was_put),
    store_test(a_suspect_that_is_put_aside_is_a_suspect_of_its_hosts_lane),
    store_test(a_task_that_waits_for_a_slot_is_unblocked_in_the_lane_of_its_host),
    store_test(an_edit_takes_a_task_back_from_aside),
    store_test(tasks_are_inserted_aside_and_handed_with_it),
    store_test(lanes_are_told_with_their_needs_and_hosts),
};
const struct test_list priority_tests = { tests, array_count(tests) };
