/* Tasks for external workers: due tasks are given to waiting asks in turn and within the limits; leases that run out
 * are lost. */
#include "both_at.h"
#include "node/lease/leasing.h"

#include "manual_writer.h"
#include "model/store_memory.h"
#include "node/lease/lease_expiry.h"

#define NOW 1772532000000LL

enum { TENANT = 1, ASKS = 8, LEASE_MS = 30000 };

struct client {
    struct lease_ask ask;
    int answers;
    enum err rc;
    size_t given;
    struct uuid first;
    int64_t fence;
    int priority;
};

static struct manual_writer manual;
static struct store *store;
static struct reader *reader;
static struct catalog_cache *catalog;
static struct lanes *lanes;
static struct leasing *role;
static struct uuid node = { { 7 } };
static struct client clients[ASKS];
static int64_t now_ms;
static int64_t set_back_ms; /* by how much the wall clock was, in all */

static void apply(struct op *op)
{
    struct error e;
    assert_ok(store_apply(store, &op, 1, &e), &e);
}

static void ignore_claim(void *context, const struct op_claim *claim)
{
    (void)context;
    (void)claim;
}

static void beat(void)
{
    struct op_heartbeat op = { .op.kind = OP_HEARTBEAT,
                               .node = { .id = node, .name = S("n"), .doc = S("{}") },
                               .now_ms = NOW };
    arena_init(&op.op.arena, 1 << 16);
    apply(&op.op);
    arena_release(&op.op.arena);
}

static void begin(bool shared)
{
    struct error e;
    manual_writer_init(&manual);
    store = store_memory_new();
    assert_ok(store_reader(store, &reader, &e), &e);
    catalog = catalog_cache_new();
    lanes = lanes_new(&(struct lanes_setup){ .catalog = catalog, .slots = 100 });
    now_ms = NOW;
    set_back_ms = 0;
    memset(clients, 0, sizeof clients);
    beat();
    role = leasing_new(&(struct leasing_setup){ .reaper = { .writer = &manual.writer,
                                                            .async_io = NULL,
                                                            .metrics = manual.metrics,
                                                            .seed = 1,
                                                            .settled = manual_writer_settled,
                                                            .batch_settled = manual_writer_batch_settled,
                                                            .unblocked = manual_writer_woke,
                                                            .context = &manual },
                                                .node = &node,
                                                .lanes = lanes,
                                                .shared = shared,
                                                .answered = ignore_claim });
}

static int64_t step_at(int64_t at_ms)
{
    set_back_ms += max_of(now_ms - at_ms, (int64_t)0);
    now_ms = at_ms;
    return leasing_step(role, (struct moment){ at_ms, at_ms + set_back_ms }, true);
}

/* The first operation that was submitted is applied and answered. */
static void happens(enum op_kind kind)
{
    struct op *op = asked(&manual, kind);
    apply(op);
    list_remove(&op->link);
    op->done(op);
}

/* All of them, until no more are submitted. */
static void rest_at(int64_t at_ms)
{
    for (int i = 0; i < 100; i++) {
        step_at(at_ms);
        if (asks_nothing(&manual))
            return;
        while (!asks_nothing(&manual))
            happens(container_of(manual.pending.next, struct op, link)->kind);
    }
    fail_msg("it never comes to rest");
}

static int setup(void **state)
{
    (void)state;
    begin(false);
    rest_at(NOW); /* earlier leases are counted, and there is none to look after */
    return 0;
}

static int setup_uncounted(void **state)
{
    (void)state;
    begin(false);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    leasing_stop(role);
    rest_at(now_ms);
    assert_true(leasing_is_idle(role));
    leasing_free(role);
    lanes_free(lanes);
    catalog_cache_free(catalog);
    reader_free(reader);
    store_free(store);
    manual_writer_release(&manual);
    return 0;
}

static struct task insert_task(int n, int64_t due_ms, int priority, int64_t timeout_ms)
{
    struct task t = queued_task(n);
    t.priority = priority;
    t.state = TASK_SCHEDULED;
    t.target = TARGET_WORKER;
    t.timeout_ms = timeout_ms;
    t.claim = (struct uuid){ 0 };
    t.fence = 0;
    t.version = 1;
    t.due_ms = t.scheduled_ms = due_ms;
    t.schedule.end_ms = INT64_MAX;
    struct op_insert op = { .op = { .kind = OP_INSERT }, .tasks = &t, .count = 1 };
    arena_init(&op.op.arena, 4096);
    apply(&op.op);
    assert_ok(op.op.rc, &op.op.error);
    arena_release(&op.op.arena);
    return t;
}

static struct task task_of_priority(int n, int64_t due_ms, int priority)
{
    return insert_task(n, due_ms, priority, 0);
}

static struct task task_due(int n, int64_t due_ms)
{
    return task_of_priority(n, due_ms, PRIORITY_DEFAULT);
}

static struct task row_of(const struct task *t)
{
    cleanup_with(arena_release) struct arena a;
    struct task row;
    struct error e;
    arena_init(&a, 1 << 16);
    assert_ok(reader_get(reader, t->tenant, t->id, &a, &row, &e), &e);
    return row;
}

static void answered(struct lease_ask *a)
{
    struct client *c = container_of(a, struct client, ask);
    c->answers++;
    c->rc = a->claim.op.rc;
    c->given = c->rc ? 0 : a->claim.ret.n;
    if (c->given) {
        c->first = a->claim.ret.v[0].id;
        c->fence = a->claim.ret.v[0].fence;
        c->priority = a->claim.ret.v[0].priority;
    }
    arena_release(&a->claim.op.arena);
}

static struct client *ask(int n, size_t max, int64_t wait_ms)
{
    struct client *c = &clients[n];
    *c = (struct client){ .ask = { .tenant = TENANT,
                                   .queue = S("default"),
                                   .worker = S("w"),
                                   .max = max,
                                   .lease_ms = LEASE_MS,
                                   .wait_ms = wait_ms,
                                   .done = answered } };
    leasing_ask(role, &c->ask, both_at(now_ms));
    return c;
}

static void put_queue(const char *doc)
{
    struct error e;
    struct catalog_entry entry = {
        .tenant = TENANT, .kind = CATALOG_QUEUE, .name = S("default"), .version = 1, .doc = str_from(doc)
    };
    assert_ok(catalog_cache_put(catalog, &entry, &e), &e);
    lanes_rules_changed(lanes);
    leasing_all_due(role, now_ms);
}

static void who_asks_for_what_is_due_gets_it_at_once(void **state)
{
    (void)state;
    struct task t = task_due(1, NOW), later = task_due(2, NOW + 1);
    struct client *c = ask(0, 10, 5000);
    happens(OP_CLAIM);
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->given, 1);
    assert_true(uuid_eq(c->first, t.id));
    assert_int_equal(row_of(&t).state, TASK_RUNNING);
    assert_int_equal(row_of(&later).state, TASK_SCHEDULED);
}

static void who_waits_is_given_what_becomes_due_on_the_millisecond(void **state)
{
    (void)state;
    task_due(1, NOW + 400);
    struct client *c = ask(0, 1, 5000);
    happens(OP_CLAIM);
    assert_int_equal(c->answers, 0);
    assert_int_equal(step_at(NOW + 399), NOW + 400);
    assert_true(asks_nothing(&manual));
    step_at(NOW + 400);
    happens(OP_CLAIM);
    assert_int_equal(c->given, 1);
}

static void what_is_told_of_while_somebody_waits_is_looked_for(void **state)
{
    (void)state;
    struct client *c = ask(0, 1, 5000);
    happens(OP_CLAIM);
    step_at(NOW + 10);
    assert_true(asks_nothing(&manual));
    task_due(1, NOW + 20);
    leasing_due(role, TENANT, S("another"), NOW + 20);
    leasing_due(role, TENANT, S("default"), NOW + 20);
    assert_int_equal(step_at(NOW + 19), NOW + 20);
    step_at(NOW + 20);
    happens(OP_CLAIM);
    assert_int_equal(c->given, 1);
}

static void what_is_told_of_while_a_claim_is_under_way_is_not_missed(void **state)
{
    (void)state;
    struct client *c = ask(0, 1, 5000);
    struct op *op = asked(&manual, OP_CLAIM);
    apply(op); /* finds nothing */
    task_due(1, NOW);
    leasing_due(role, TENANT, S("default"), NOW);
    list_remove(&op->link);
    op->done(op);
    step_at(NOW);
    happens(OP_CLAIM);
    assert_int_equal(c->given, 1);
}

static void whose_time_is_over_is_told_that_there_is_nothing(void **state)
{
    (void)state;
    struct client *c = ask(0, 1, 700), *at_once = ask(1, 1, 0);
    rest_at(NOW);
    assert_int_equal(at_once->answers, 1);
    assert_int_equal(at_once->given, 0);
    assert_int_equal(step_at(NOW + 1), NOW + 700);
    assert_int_equal(c->answers, 0);
    step_at(NOW + 700);
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->rc, ERR_OK);
    assert_int_equal(c->given, 0);
    assert_true(leasing_is_idle(role));
}

static void those_who_wait_are_served_in_the_order_they_came(void **state)
{
    (void)state;
    struct client *first = ask(0, 1, 5000), *second = ask(1, 1, 5000);
    rest_at(NOW);
    task_due(1, NOW);
    leasing_due(role, TENANT, S("default"), NOW);
    rest_at(NOW);
    assert_int_equal(first->given, 1);
    assert_int_equal(second->answers, 0);
    task_due(2, NOW);
    leasing_due(role, TENANT, S("default"), NOW);
    rest_at(NOW);
    assert_int_equal(second->given, 1);
}

static void many_who_ask_do_not_wait_for_each_others_commits(void **state)
{
    (void)state;
    size_t asked_for = 0;
    for (int i = 0; i < ASKS; i++)
        task_due(i + 1, NOW), ask(i, 1, 5000);
    list_each (&manual.pending, link)
        asked_for++;
    assert_int_equal(asked_for, 4);
    rest_at(NOW);
    for (int i = 0; i < ASKS; i++)
        assert_int_equal(clients[i].given, 1);
}

/* A thousand ask for one each, while all three classes have more than enough. */
static void no_class_starves_among_those_that_are_leased(void **state)
{
    (void)state;
    enum { EACH = 1000 };
    const int priorities[] = { 9, 5, 0 };
    size_t given[array_count(priorities)] = { 0 };
    for (size_t c = 0; c < array_count(priorities); c++)
        for (int i = 0; i < EACH; i++)
            task_of_priority((int)c * EACH + i + 1, NOW, priorities[c]);
    for (int i = 0; i < EACH; i++) {
        struct client *c = ask(0, 1, 5000);
        rest_at(NOW);
        assert_int_equal(c->given, 1);
        given[c->priority == 9 ? 0 : c->priority == 5 ? 1 : 2]++;
    }
    assert_in_range(given[0], EACH * 50 / 100, EACH * 70 / 100);
    assert_in_range(given[1], EACH * 20 / 100, EACH * 40 / 100);
    assert_in_range(given[2], EACH * 5 / 100, EACH * 15 / 100);
}

static void while_the_store_is_down_they_are_told_so(void **state)
{
    (void)state;
    struct client *c = ask(0, 1, 5000);
    answer(&manual, asked(&manual, OP_CLAIM), ERR_UNAVAILABLE);
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->rc, ERR_UNAVAILABLE);
}

static void on_a_node_that_joins_again_they_wait_on(void **state)
{
    (void)state;
    task_due(1, NOW);
    struct client *c = ask(0, 1, 5000);
    answer(&manual, asked(&manual, OP_CLAIM), ERR_CONFLICT); /* marked dead */
    assert_int_equal(c->answers, 0);
    int64_t at_ms = step_at(NOW + 1);
    assert_true(at_ms > NOW + 1 && at_ms < NOW + 1000);
    rest_at(at_ms);
    assert_int_equal(c->given, 1);
}

static void a_queue_gives_no_more_than_it_may_run_at_once(void **state)
{
    (void)state;
    put_queue("{\"max_concurrent\":2}");
    for (int i = 1; i <= 5; i++)
        task_due(i, NOW);
    struct client *c = ask(0, 5, 5000), *other = ask(1, 5, 5000);
    rest_at(NOW);
    assert_int_equal(c->given, 2);
    rest_at(NOW + 2000);
    assert_int_equal(other->answers, 0);
    leasing_on_settled(role, TENANT, S("default"));
    rest_at(NOW + 2000);
    assert_int_equal(other->given, 1);
}

static void a_paused_queue_gives_nothing_until_it_goes_on(void **state)
{
    (void)state;
    put_queue("{\"paused\":{\"by\":\"ops\",\"since\":\"2026-01-01T00:00:00Z\"}}");
    task_due(1, NOW);
    struct client *c = ask(0, 1, 5000);
    rest_at(NOW);
    rest_at(NOW + 1500);
    assert_int_equal(c->answers, 0);
    put_queue("{}");
    rest_at(NOW + 1500);
    assert_int_equal(c->given, 1);
}

static void before_it_is_known_what_was_leased_before_nothing_is_given(void **state)
{
    (void)state;
    put_queue("{\"max_concurrent\":1}");
    struct task t = task_due(1, NOW), second = task_due(2, NOW);
    struct lease_terms terms = { .until_ms = NOW + LEASE_MS, .worker = S("w") };
    struct lane_quota lane = { .lane = { .tenant = TENANT, .queue = S("default"), .priority = PRIORITY_DEFAULT },
                               .max = 1 };
    struct op_claim claim = { .op = { .kind = OP_CLAIM },
                              .claim = { { 1 } },
                              .node = node,
                              .lease = &terms,
                              .lanes = &lane,
                              .lane_count = 1,
                              .now_ms = NOW,
                              .until_ms = NOW,
                              .max = 1,
                              .max_bytes = 1 << 20 };
    arena_init(&claim.op.arena, 1 << 16);
    apply(&claim.op);
    assert_int_equal(claim.ret.n, 1);
    arena_release(&claim.op.arena);
    struct client *c = ask(0, 1, 60000);
    assert_true(asks_nothing(&manual));
    rest_at(NOW);
    rest_at(NOW + 2000);
    assert_int_equal(c->answers, 0); /* the one task that may run is still leased */
    rest_at(NOW + LEASE_MS);
    rest_at(NOW + LEASE_MS + 10);
    assert_int_equal(c->given, 1);
    assert_int_equal((row_of(&t).state == TASK_RUNNING) + (row_of(&second).state == TASK_RUNNING), 1);
}

static void a_lease_that_ran_out_is_lost_and_given_to_the_next(void **state)
{
    (void)state;
    struct task t = task_due(1, NOW);
    struct client *c = ask(0, 1, 0);
    rest_at(NOW);
    assert_int_equal(c->fence, 1);
    rest_at(NOW + LEASE_MS - 1);
    assert_int_equal(row_of(&t).state, TASK_RUNNING);
    assert_int_equal(manual.told_count, 0);
    rest_at(NOW + LEASE_MS + LEASE_EXPIRY_ASK_MS);
    assert_int_equal(manual.told_count, 1);
    assert_int_equal(row_of(&t).losses, 1);
    ask(1, 1, 5000);
    rest_at(row_of(&t).due_ms + LEASE_MS + LEASE_EXPIRY_ASK_MS);
    assert_int_equal(clients[1].given, 1);
    assert_int_equal(clients[1].fence, 2);
}

/* The store keeps the lease as long as its worker extends it: the API ends the extensions at the timeout. */
static void a_lease_that_ran_out_after_the_tasks_timeout_has_failed_and_is_not_lost(void **state)
{
    (void)state;
    struct task t = insert_task(1, NOW, PRIORITY_DEFAULT, LEASE_MS);
    ask(0, 1, 0);
    rest_at(NOW);
    rest_at(NOW + LEASE_MS + LEASE_EXPIRY_ASK_MS);
    struct task row = row_of(&t);
    assert_int_equal(row.losses, 0);
    assert_int_equal(row.attempts, 1);
    assert_int_equal(row.state, TASK_SCHEDULED); /* a retry */
}

static void who_does_not_lead_leaves_leases_to_who_does(void **state)
{
    (void)state;
    task_due(1, NOW);
    ask(0, 1, 0);
    rest_at(NOW);
    leasing_step(role, both_at(NOW + 2 * (int64_t)LEASE_MS), false);
    assert_true(asks_nothing(&manual));
    leasing_step(role, both_at(NOW + 2 * (int64_t)LEASE_MS), true);
    asked(&manual, OP_LEASES_EXPIRED);
}

static void when_it_stops_those_who_wait_are_told_and_nobody_waits_any_more(void **state)
{
    (void)state;
    struct client *c = ask(0, 1, 60000);
    rest_at(NOW);
    struct client *under_way = ask(1, 1, 60000);
    leasing_due(role, TENANT, S("default"), NOW);
    step_at(NOW);
    leasing_stop_waiting(role);
    while (!asks_nothing(&manual))
        happens(OP_CLAIM);
    assert_int_equal(c->answers, 1);
    assert_int_equal(under_way->answers, 1);
    assert_int_equal(ask(2, 1, 60000)->answers, 1);
    assert_int_equal(clients[2].given, 0);
}

static void a_clock_set_back_makes_nobody_wait_longer(void **state)
{
    (void)state;
    struct client *c = ask(0, 1, 5000);
    rest_at(NOW);
    rest_at(NOW - 3600000);
    assert_int_equal(c->answers, 0);
    rest_at(NOW - 3600000 + 5000);
    assert_int_equal(c->answers, 1);
}

static bool is_allowed;

static bool allowed(struct lease_ask *a)
{
    (void)a;
    return is_allowed;
}

static struct client *ask_if_allowed(int n)
{
    is_allowed = true;
    struct client *c = ask(n, 1, 60000);
    c->ask.allowed = allowed;
    return c;
}

static void nothing_is_claimed_for_who_is_not_allowed_any_more(void **state)
{
    (void)state;
    struct client *c = ask_if_allowed(0);
    rest_at(NOW);
    struct task t = task_due(1, NOW);
    is_allowed = false;
    leasing_due(role, TENANT, S("default"), NOW);
    struct client *other = ask(1, 1, 60000); /* this serves the queue, too */
    rest_at(NOW);
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->given, 0);
    assert_true(c->ask.ret_not_allowed);
    assert_int_equal(other->given, 1);
    assert_true(uuid_eq(other->first, t.id));
}

static void who_is_allowed_again_keeps_its_place(void **state)
{
    (void)state;
    struct client *first = ask_if_allowed(0), *second = ask(1, 1, 60000);
    rest_at(NOW);
    is_allowed = false;
    step_at(NOW + 1);
    assert_true(first->ask.ret_not_allowed);
    is_allowed = true;
    first->answers = 0;
    leasing_ask(role, &first->ask, both_at(now_ms));
    assert_false(first->ask.ret_not_allowed);
    rest_at(NOW + 1);
    assert_int_equal(first->answers + second->answers, 0);
    task_due(1, NOW + 2);
    leasing_due(role, TENANT, S("default"), NOW + 2);
    rest_at(NOW + 2);
    assert_int_equal(first->given, 1);
    assert_int_equal(second->answers, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(who_asks_for_what_is_due_gets_it_at_once),
        T(who_waits_is_given_what_becomes_due_on_the_millisecond),
        T(what_is_told_of_while_somebody_waits_is_looked_for),
        T(what_is_told_of_while_a_claim_is_under_way_is_not_missed),
        T(whose_time_is_over_is_told_that_there_is_nothing),
        T(those_who_wait_are_served_in_the_order_they_came),
        T(many_who_ask_do_not_wait_for_each_others_commits),
        T(no_class_starves_among_those_that_are_leased),
        T(while_the_store_is_down_they_are_told_so),
        T(on_a_node_that_joins_again_they_wait_on),
        T(a_queue_gives_no_more_than_it_may_run_at_once),
        T(a_paused_queue_gives_nothing_until_it_goes_on),
        cmocka_unit_test_setup_teardown(before_it_is_known_what_was_leased_before_nothing_is_given, setup_uncounted,
                                        teardown),
        T(a_lease_that_ran_out_is_lost_and_given_to_the_next),
        T(a_lease_that_ran_out_after_the_tasks_timeout_has_failed_and_is_not_lost),
        T(who_does_not_lead_leaves_leases_to_who_does),
        T(when_it_stops_those_who_wait_are_told_and_nobody_waits_any_more),
        T(a_clock_set_back_makes_nobody_wait_longer),
        T(nothing_is_claimed_for_who_is_not_allowed_any_more),
        T(who_is_allowed_again_keeps_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
