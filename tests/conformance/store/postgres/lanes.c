/* Lanes and lines as only PostgreSQL has them: several nodes claim from one line or make the same lanes, what a claim
 * reads when a million tasks are due, and the migration to lanes by priority. */
#include <stdio.h>
#include <stdlib.h>

#include "postgres_claimers.h"
#include "store/common/lane_table.h"
#include "store_fleet.h"

static struct task ranked(struct world *w, int priority, int64_t due_ms)
{
    struct task t = some_task(w);
    t.priority = priority;
    t.due_ms = t.scheduled_ms = due_ms;
    return t;
}

static void claim_or_fail(struct world *w, struct op_claim *op)
{
    assert_ok(world_apply(w, &op->op), &op->op.error);
}

/* ---- several nodes ---- */

/* Another session that has locked these tasks. */
static PGconn *locked_by_another(const struct task *const *tasks, size_t n)
{
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN");
    for (size_t i = 0; i < n; i++) {
        char sql[128], id[UUID_TEXT + 1];
        uuid_format(tasks[i]->id, id);
        snprintf(sql, sizeof sql, "SELECT FROM tasks WHERE id = '%s' FOR UPDATE", id);
        postgres_say(other, sql);
    }
    return other;
}

static void what_is_locked_in_a_line_is_left_and_the_order_holds_behind_it(void **state)
{
    struct world *w = *state;
    struct task nine[] = { ranked(w, 9, NOW - 4), ranked(w, 9, NOW - 3), ranked(w, 9, NOW - 2), ranked(w, 9, NOW - 1) },
                seven = ranked(w, 7, NOW);
    insert(w, nine, 4);
    insert(w, &seven, 1);
    PGconn *other = locked_by_another((const struct task *const[]){ &nine[0], &nine[1], &nine[2] }, 3);
    for (int round = 0; round < 2; round++) {
        struct lane_quota lanes[] = { { .lane = task_lane(&seven), .max = 2 }, { .lane = task_lane(nine), .max = 2 } };
        struct op_claim op = claim_of(w, lanes, 2);
        op.lines = &(struct claim_line){ 2, 1 };
        op.line_count = 1;
        claim_or_fail(w, &op);
        assert_tasks(&op.ret, round ? &seven.id : &nine[3].id);
        assert_int_equal(op.ret_conflicts, 3);
        assert_in_range(lanes[1].ret_next_due_ms, NOW + 1, NOW + 100);
    }
    postgres_say(other, "ROLLBACK");
    PQfinish(other);
    struct lane_quota lanes[] = { { .lane = task_lane(&seven), .max = 2 }, { .lane = task_lane(nine), .max = 2 } };
    struct op_claim op = claim_of(w, lanes, 2);
    op.lines = &(struct claim_line){ 2, 10 };
    op.line_count = 1;
    claim_or_fail(w, &op);
    assert_tasks(&op.ret, &nine[0].id, &nine[1].id); /* the lane's quota */
    assert_int_equal(op.ret_conflicts, 0);
    assert_int_equal(lanes[1].ret_next_due_ms, nine[2].due_ms);
}

static void nodes_that_claim_a_line_at_once_take_each_task_once(void **state)
{
    enum { MANY = 2000, EACH = 37 };
    struct world *w = *state;
    struct task *tasks = xcalloc(MANY, sizeof *tasks);
    for (int i = 0; i < MANY; i++)
        tasks[i] = ranked(w, PRIORITY_DEFAULT + i % CLAIMER_LANES, NOW - i % 7);
    assert_each_is_taken_once(w, tasks, MANY, EACH, NULL, CLAIMER_LANES);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE state = 3 AND fence = 1"), MANY);
    assert_int_equal(postgres_number(url, "SELECT sum(held) FROM claims"), MANY);
    free(tasks);
}

static int64_t deadlocks(void)
{
    return postgres_number(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
}

/* One node gives its tasks forwards, one backwards. A session that makes the lane in the middle holds up both. */
static void nodes_that_make_the_same_lanes_at_once_wait_in_one_direction(void **state)
{
    enum { LANES = 9 };
    struct world *w = *state;
    static const char labels[LANES][4] = { "l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8" };
    struct task forwards[LANES], backwards[LANES];
    for (int i = 0; i < LANES; i++) {
        forwards[i] = some_task(w);
        backwards[i] = some_task(w);
        forwards[i].requires = str_from(labels[i]);
        backwards[i].requires = str_from(labels[LANES - 1 - i]);
    }
    struct op_insert first = insert_of(forwards, LANES), second = insert_of(backwards, LANES);
    struct store *nodes[] = { another_node(), another_node() };
    struct call calls[2];
    int64_t before = deadlocks();
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; INSERT INTO lanes (tenant_id, queue, priority, requires, pool) "
                        "VALUES (1, 'default', 5, 'l4', 0)");
    start(&calls[0], nodes[0], &first.op);
    start(&calls[1], nodes[1], &second.op);
    postgres_wait_for(url, "2 = (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                           "wait_event_type = 'Lock')");
    postgres_say(other, "ROLLBACK");
    PQfinish(other);
    for (int i = 0; i < 2; i++) {
        assert_ok(finish(&calls[i]), &calls[i].op->error);
        arena_release(&calls[i].op->arena);
        store_free(nodes[i]);
    }
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM lanes"), LANES);
    postgres_run(url, "SELECT pg_sleep(0.1)"); /* a session reports what it met when it ends */
    assert_int_equal(deadlocks(), before);
}

/* ---- many lanes ---- */

static int by_order(const void *x, const void *y)
{
    const struct task *a = x, *b = y;
    struct lane p = task_lane(a), q = task_lane(b);
    int64_t i = lane_order_ms(&p, a->due_ms), j = lane_order_ms(&q, b->due_ms);
    return i != j ? (i < j ? -1 : 1) : uuid_cmp(a->id, b->id);
}

/* Of one lane many tasks come first; of the others a few, or one. */
static void a_line_of_many_lanes_keeps_the_order(void **state)
{
    enum { LANES = 60, COUNT = 400 };
    struct world *w = *state;
    static char hosts[LANES][16];
    static struct task tasks[COUNT];
    static struct lane_quota lanes[LANES];
    for (size_t i = 0; i < LANES; i++)
        snprintf(hosts[i], sizeof hosts[i], "h%zu.example", i);
    for (size_t i = 0; i < COUNT; i++) {
        size_t lane = i % 3 ? i * i % LANES : 7;
        tasks[i] = ranked(w, 7 + (int)(lane % 3), NOW - (int64_t)(i * 7919 % 1801) * 1000);
        tasks[i].aside = str_from(hosts[lane]);
    }
    insert(w, tasks, COUNT);
    for (size_t i = 0; i < LANES; i++) {
        struct task t = ranked(w, 7 + (int)(i % 3), NOW);
        t.aside = str_from(hosts[i]);
        lanes[i] = (struct lane_quota){ .lane = task_lane(&t), .max = COUNT };
    }
    qsort(tasks, COUNT, sizeof *tasks, by_order);
    for (size_t taken = 0, max = 1; taken < COUNT; taken += max, max = min_of(max * 3, COUNT - taken)) {
        struct op_claim op = claim_of(w, lanes, LANES);
        op.lines = &(struct claim_line){ LANES, max };
        op.line_count = 1;
        claim_or_fail(w, &op);
        assert_int_equal(op.ret.n, max);
        for (size_t i = 0; i < max; i++)
            assert_true(uuid_eq(op.ret.v[i].id, tasks[taken + i].id));
    }
}

/* ---- what a claim reads ---- */

enum { TAKE = 100, FEW = 1000 };

/* Due tasks of three priorities, like those that are there. */
static void make_due(int64_t count)
{
    char sql[1024];
    snprintf(
        sql, sizeof sql,
        "CREATE TEMP TABLE model AS SELECT DISTINCT ON (priority) * FROM tasks WHERE state = 0 ORDER BY priority;"
        "INSERT INTO tasks SELECT r.* FROM generate_series(1, %lld) AS i JOIN model AS m ON m.priority = 7 + i %% 3 "
        "CROSS JOIN LATERAL jsonb_populate_record(m, jsonb_build_object('id', gen_random_uuid(), 'due_ms', "
        "m.due_ms - 1 - i / 3)) AS r",
        (long long)count);
    postgres_run(url, sql);
    postgres_run(url, "VACUUM ANALYZE tasks");
}

/* The pages of the table and its indexes that a node reads or finds in memory when it claims TAKE tasks. */
static int64_t pages_of_a_claim(struct world *w)
{
    static const char pages[] = "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read "
                                "FROM pg_statio_user_tables WHERE relname = 'tasks'";
    static const char sessions[] = "NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND "
                                   "application_name = 'belfry')";
    int64_t before = postgres_number(url, pages);
    struct store *kept = w->store;
    w->store = another_node();
    struct lane_quota lanes[3];
    for (int i = 0; i < 3; i++) {
        lanes[i] = (struct lane_quota){ .lane = some_lane(), .max = TAKE };
        lanes[i].lane.priority = 7 + i;
    }
    struct op_claim op = claim_of(w, lanes, 3);
    op.lines = &(struct claim_line){ 3, TAKE };
    op.line_count = 1;
    claim_or_fail(w, &op);
    assert_int_equal(op.ret.n, TAKE);
    store_free(w->store);
    w->store = kept;
    postgres_wait_for(url, sessions); /* a session that has ended has reported what it did */
    return postgres_number(url, pages) - before;
}

/* Each taken task is found and written through a few indexes, which are one level higher then. Nothing else grows. */
enum { INDEXES = 6 };

static void a_claim_reads_no_more_when_many_more_are_due(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    int64_t many = getenv("BELFRY_TEST_LONG") ? 1000000 : 100000;
    struct task v[] = { ranked(w, 7, NOW), ranked(w, 8, NOW), ranked(w, 9, NOW) };
    v[0].name = v[1].name = v[2].name = (struct str){ 0 };
    insert(w, v, 3);
    store_free(w->store);
    reader_free(w->reader);
    w->store = NULL;
    postgres_run(url, "ALTER TABLE tasks SET (autovacuum_enabled = false)"); /* it would count too */
    make_due(FEW);
    int64_t of_few = pages_of_a_claim(w);
    make_due(many);
    int64_t of_many = pages_of_a_claim(w);
    print_message("# pages of a claim of %d: %lld of %d due, %lld of %lld due\n", TAKE, (long long)of_few, FEW,
                  (long long)of_many, (long long)many);
    postgres_run(url, "ALTER TABLE tasks RESET (autovacuum_enabled)");
    assert_ok(postgres_store_open(url, &w->store, &e), &e);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    assert_true(of_few > TAKE);
    assert_true(of_many <= of_few + INDEXES * TAKE);
}

/* ---- the migration ---- */

static int64_t count_in_class(int class_, int pool)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM tasks JOIN lanes USING (lane) WHERE class = %d AND pool = %d AND queue = 'default'",
             class_, pool);
    return postgres_number(url, sql);
}

static void migrate_down_and_up(struct world *w)
{
    struct error e = { 0 };
    store_free(w->store);
    reader_free(w->reader);
    assert_ok(store_postgres_migrate(url, clock_system(), 3, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM lanes"), 6); /* one for each class and pool */
    assert_int_equal(count_in_class(CLASS_LOW, POOL_DISPATCHED), 1);
    assert_int_equal(count_in_class(CLASS_NORMAL, POOL_DISPATCHED), 6);
    assert_int_equal(count_in_class(CLASS_HIGH, POOL_DISPATCHED), 4);
    assert_int_equal(count_in_class(CLASS_HIGH, POOL_LEASED), 1);
    assert_int_equal(count_in_class(CLASS_NORMAL, POOL_SUSPECT), 2);
    assert_int_equal(count_in_class(CLASS_NORMAL, POOL_LEASED_SUSPECT), 1);
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    assert_ok(postgres_store_open(url, &w->store, &e), &e);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
}

/* The task is claimed from its own lane, and nothing else with it. */
static void assert_in_its_lane(struct world *w, const struct task *t)
{
    struct lane_quota lane = { .lane = task_lane(t), .max = 10 };
    struct op_claim op = t->target == TARGET_WORKER ? lease_from(w, &lane, 1) : claim_of(w, &lane, 1);
    op.max_suspects = task_is_suspect(t);
    claim_or_fail(w, &op);
    assert_tasks(&op.ret, &t->id);
}

static void the_step_goes_down_and_up_with_data_in_place(void **state)
{
    enum {
        LOW,
        PLAIN,
        SIX,
        NEEDS,
        ONCE,
        NINE,
        KEYED,
        RECALLED,
        WORKER,
        SUSPECT,
        LATE_SUSPECT,
        WORKER_SUSPECT,
        RUN,
        COUNT
    };
    struct world *w = *state;
    struct task v[COUNT], aside = ranked(w, 8, NOW), done = ranked(w, 4, NOW);
    for (int i = 0; i < COUNT; i++)
        v[i] = some_task(w);
    v[LOW].priority = 3;
    v[SIX].priority = 6;
    v[NEEDS].requires = S("eu,gpu");
    v[NEEDS].cpu_milli = 500;
    v[NEEDS].memory_mb = 64;
    v[ONCE].delivery = DELIVER_AT_MOST_ONCE;
    v[NINE].priority = v[WORKER].priority = 9;
    v[WORKER].target = TARGET_WORKER;
    v[WORKER].requires = S("gpu");
    v[WORKER].delivery = DELIVER_AT_MOST_ONCE; /* leased ones are not late */
    v[KEYED].priority = 8;
    v[RECALLED].priority = 7;
    v[RECALLED].recalled = true;
    v[SUSPECT].losses = v[LATE_SUSPECT].losses = v[WORKER_SUSPECT].losses = SUSPECT_LOSSES;
    v[KEYED].concurrency_key = v[LATE_SUSPECT].concurrency_key = v[WORKER_SUSPECT].concurrency_key = S("db");
    v[KEYED].concurrency_limit = v[LATE_SUSPECT].concurrency_limit = v[WORKER_SUSPECT].concurrency_limit = 3;
    v[WORKER_SUSPECT].target = TARGET_WORKER;
    v[SUSPECT].priority = v[LATE_SUSPECT].priority = 6;
    v[RUN].target = TARGET_WORKFLOW; /* an older node knows no runs: it is cancelled */
    aside.aside = S("api.example");
    insert(w, v, COUNT);
    insert(w, &aside, 1);
    struct task running = claim_one(w, &done, fresh_id(w));
    struct settlement settled = settlement_of(&running, TASK_FAILED);
    assert_true(settle_with(w, &settled));
    migrate_down_and_up(w);
    aside.aside = (struct str){ 0 }; /* the older schema does not know of it, nor of recalls */
    v[RECALLED].recalled = false;
    for (int i = 0; i < COUNT; i++)
        if (i != RUN)
            assert_in_its_lane(w, &v[i]);
    assert_int_equal(get(w, v[RUN].id).state, TASK_CANCELLED);
    assert_in_its_lane(w, &aside);
    assert_str(get(w, done.id).queue, "default");
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM lanes WHERE host <> ''"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM tasks WHERE aside IS NOT NULL OR recalled"), 0);
}

/* Columns that Belfry did not write. */
static void spoil(const struct task *t, const char *needs, const char *gates)
{
    char id[UUID_TEXT + 1], sql[512];
    uuid_format(t->id, id);
    snprintf(sql, sizeof sql,
             "WITH x AS (UPDATE tasks SET needs = '%s', gates = '%s', priority = 9 WHERE id = '%s' RETURNING 1) "
             "SELECT count(*) FROM x",
             needs, gates, id);
    assert_int_equal(postgres_number(url, sql), 1);
}

static void rows_that_nobody_can_read_do_not_stop_the_step(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    struct task v[4], good = ranked(w, 9, NOW);
    for (size_t i = 0; i < array_count(v); i++)
        v[i] = some_task(w);
    insert(w, v, array_count(v));
    insert(w, &good, 1);
    store_free(w->store);
    reader_free(w->reader);
    assert_ok(store_postgres_migrate(url, clock_system(), 3, &e), &e);
    spoil(&v[0], "{", "nonsense");
    spoil(&v[1], "{\"cpu_milli\":\"many\",\"memory_mb\":99999999999999999999}", "[]");
    spoil(&v[2], "7", "{\"concurrency_key\"");
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_proc WHERE proname LIKE 'moving%'"), 0);
    assert_int_equal(
        postgres_number(url, "SELECT count(*) FROM tasks JOIN lanes USING (lane) WHERE lanes.priority = 9"), 4);
    assert_ok(store_postgres_migrate(url, clock_system(), 3, &e), &e); /* and down again, without them */
    spoil(&v[0], "{}", "{}");
    spoil(&v[1], "{}", "{}");
    spoil(&v[2], "{}", "{}");
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    assert_ok(postgres_store_open(url, &w->store, &e), &e);
    assert_ok(store_reader(w->store, &w->reader, &e), &e);
    assert_str(get(w, good.id).queue, "default");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(what_is_locked_in_a_line_is_left_and_the_order_holds_behind_it),
        store_test(nodes_that_claim_a_line_at_once_take_each_task_once),
        store_test(nodes_that_make_the_same_lanes_at_once_wait_in_one_direction),
        store_test(a_line_of_many_lanes_keeps_the_order),
        store_test(a_claim_reads_no_more_when_many_more_are_due),
        store_test(the_step_goes_down_and_up_with_data_in_place),
        store_test(rows_that_nobody_can_read_do_not_stop_the_step),
    };
    adapter_under_test = &here;
    return cmocka_run_group_tests_name("postgres_lanes", tests, NULL, NULL);
}
