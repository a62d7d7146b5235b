/* Lanes of the SQLite store: what a claim of a line costs, and the migrations since lanes are made of priorities
 * and needs. */
#include "sqlite_fixture.h"

#include "store/sqlite/internal.h"
#include "store/sqlite/migrate.h"

/* ---- a claim costs what it takes ---- */

enum { FEW = 1000, MANY = 100000, MANY_LONG = 1000000, CLAIMED = 100, RANKS = 3 };

/* Tasks of three priorities. Those of a lower one are due earlier, so that the merge takes of all of them by turns. */
static void add_due(struct fixture *f, int count)
{
    char sql[1500];
    struct task first[RANKS] = { plain_task(f), plain_task(f), plain_task(f) };
    for (int i = 0; i < RANKS; i++) {
        first[i].priority = 7 + i;
        first[i].due_ms = NOW_MS + 1000; /* they make the lanes, and are not due */
    }
    open_store(f);
    insert(f, first, RANKS);
    close_store(f);
    snprintf(
        sql, sizeof sql,
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
        "INSERT INTO tasks (id, tenant_id, state, fence, deleted, kind, lane, due_ms, delivery, version, attempts, "
        "losses, completed_ms, scheduled_ms, started_ms, updated_ms, created_ms, cursor_ms, last_run_ms, "
        "runs_count, skipped_count, priority, target, timeout_ms, expires_after_ms) "
        "SELECT CAST(printf('%%016d', i) AS BLOB), 1, 0, 0, 0, 0, 1 + i %% 3, "
        "%d - i * 7919 %% 1800000 - (2 - i %% 3) * 600000, 0, 1, 0, "
        "0, 0, %d, 0, %d, %d, 0, 0, 0, 0, 7 + i %% 3, 5, 1000, 0 FROM n",
        count - 1, NOW_MS, NOW_MS, NOW_MS, NOW_MS);
    edit_file(f, sql);
}

static int64_t steps_so_far(struct fixture *f)
{
    struct conn *c = &container_of(f->store, struct store_sqlite, base)->conn;
    int64_t steps = 0;
    for (size_t i = 0; i < c->stmt_count; i++)
        steps += sqlite3_stmt_status(c->stmts[i], SQLITE_STMTSTATUS_VM_STEP, 0);
    return steps;
}

static struct tasks claim_line(struct fixture *f, size_t max)
{
    static struct lane_quota lanes[RANKS];
    static const struct claim_line lines[] = { { RANKS, CLAIM_MAX } };
    for (int i = 0; i < RANKS; i++)
        lanes[i] = (struct lane_quota){ { .tenant = 1, .queue = S("default"), .priority = 7 + i }, CLAIM_MAX };
    struct op_claim op = claim_op(f, lanes);
    op.lane_count = RANKS;
    op.lines = lines;
    op.line_count = 1;
    op.max = max;
    apply(f, &op.op);
    f->arena = op.op.arena;
    return op.ret;
}

static void assert_in_line(const struct tasks *v)
{
    size_t turns = 0;
    for (size_t i = 1; i < v->n; i++) {
        struct lane a = task_lane(&v->v[i - 1]), b = task_lane(&v->v[i]);
        assert_true(lane_order_ms(&a, v->v[i - 1].due_ms) <= lane_order_ms(&b, v->v[i].due_ms));
        turns += a.priority != b.priority;
    }
    assert_true(turns > v->n / 3);
}

static int64_t steps_of_a_claim(struct fixture *f, int count)
{
    add_due(f, count);
    open_store(f);
    int64_t before = steps_so_far(f);
    struct tasks taken = claim_line(f, CLAIMED);
    int64_t steps = steps_so_far(f) - before;
    assert_int_equal(taken.n, CLAIMED);
    assert_in_line(&taken);
    close_store(f);
    assert_int_equal(unlink(file_of(f, "belfry.db")), 0);
    return steps;
}

static void a_claim_of_a_line_costs_the_same_however_many_are_due(void **state)
{
    struct fixture *f = *state;
    int n = getenv("BELFRY_TEST_LONG") ? MANY_LONG : MANY;
    int64_t few = steps_of_a_claim(f, FEW), many = steps_of_a_claim(f, n);
    print_message("# a claim of %d: %lld steps with %d due, %lld with %d\n", CLAIMED, (long long)few, FEW,
                  (long long)many, n);
    assert_true(few > 0 && many * 5 <= few * 6);
}

/* ---- a damaged row ---- */

static void a_claim_of_a_line_that_meets_a_bad_row_fails_alone(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    struct task v[] = { plain_task(f), plain_task(f) }, other = plain_task(f);
    v[0].priority = 7;
    v[1].priority = 8;
    insert(f, v, 2);
    edit_file(f, "UPDATE tasks SET attempts = -1 WHERE priority = 7");
    struct lane_quota lanes[] = { { task_lane(&v[0]), 5 }, { task_lane(&v[1]), 5 } };
    struct op_claim bad = claim_op(f, lanes);
    bad.lane_count = 2;
    bad.lines = &(struct claim_line){ 2, 5 };
    bad.line_count = 1;
    struct op_insert good = { .op.kind = OP_INSERT, .tasks = &other, .count = 1 };
    assert_ok(store_apply(f->store, (struct op *[]){ &bad.op, &good.op }, 2, &e), &e);
    f->arena = bad.op.arena;
    assert_int_equal(bad.op.rc, ERR_CORRUPT);
    assert_ok(good.op.rc, &good.op.error);
    struct task t;
    assert_int_equal(get(f, v[1].id, &t), ERR_OK);
    assert_int_equal(t.state, TASK_SCHEDULED);
}

/* ---- the migration ---- */

enum { BEFORE = 6 };

/* Rows whose lane is not the lane of their priority and needs. */
static int64_t misfiled(struct fixture *f)
{
    return number(f, "SELECT count(*) FROM tasks AS t JOIN lanes AS l USING (lane) WHERE t.state <= 3 AND "
                     "(t.priority <> l.priority OR l.queue <> 'default' OR l.requires <> iif(t.target = 3, '', "
                     "coalesce(json_extract(t.needs, '$.requires'), '')) OR l.cpu_milli <> iif(t.target = 3, 0, "
                     "coalesce(json_extract(t.needs, '$.cpu_milli'), 0)) OR l.memory_mb <> iif(t.target = 3, 0, "
                     "coalesce(json_extract(t.needs, '$.memory_mb'), 0)) OR l.host <> coalesce(t.aside, '') "
                     "OR l.pool <> CASE WHEN t.target = 3 THEN iif(t.losses >= 2, 3, 1) WHEN t.delivery = 1 OR "
                     "t.recalled OR json_extract(t.gates, '$.concurrency_key') IS NOT NULL "
                     "THEN iif(t.losses >= 2, 6, 5) ELSE iif(t.losses >= 2, 2, 0) END)");
}

static void assert_no_gaps(struct fixture *f)
{
    assert_int_equal(number(f, "SELECT count(*) <> max(lane) FROM lanes"), 0);
}

enum { KINDS = 13, EVERY = PRIORITIES + KINDS };

/* One of each priority, then of priority 9: some of each need, suspects, leased, late and final ones. */
static void add_of_every_kind(struct fixture *f, struct task v[EVERY])
{
    for (int i = 0; i < EVERY; i++) {
        v[i] = plain_task(f);
        v[i].priority = min_of(i, PRIORITY_MAX);
    }
    struct task *t = v + PRIORITIES;
    t[0].requires = S("eu,gpu");
    t[1].cpu_milli = 500;
    t[1].losses = SUSPECT_LOSSES;
    t[2].memory_mb = 500;
    t[2].state = TASK_PAUSED;
    t[3].target = TARGET_WORKER;
    t[3].requires = S("gpu");
    t[4].state = TASK_COMPLETED;
    t[4].completed_ms = NOW_MS;
    t[5].aside = S("api.example");
    t[6].delivery = DELIVER_AT_MOST_ONCE;
    t[7].concurrency_key = S("db");
    t[7].concurrency_limit = 2;
    t[8] = t[7];
    t[8].losses = SUSPECT_LOSSES;
    t[9].recalled = true;
    t[10].target = TARGET_WORKER; /* neither late nor by its needs */
    t[10].delivery = DELIVER_AT_MOST_ONCE;
    t[11] = t[10];
    t[11].losses = SUSPECT_LOSSES;
    t[12].delivery = DELIVER_AT_MOST_ONCE;
    t[12].requires = S("eu,gpu");
    t[8].id = uuid_next(&f->ids, NOW_MS);
    t[11].id = uuid_next(&f->ids, NOW_MS);
    insert(f, v, EVERY);
}

/* Alone, without its late or ordinary twin. */
static void assert_claimed_from_its_lane(struct fixture *f, const struct task *t)
{
    struct lane_quota lane = { task_lane(t), 5 };
    struct op_claim op = claim_op(f, &lane);
    struct error e = { 0 };
    assert_ok(try_apply(f, &op.op, &e), &e);
    f->arena = op.op.arena;
    assert_ok(op.op.rc, &op.op.error);
    assert_int_equal(op.ret.n, 1);
    assert_true(uuid_eq(op.ret.v[0].id, t->id));
}

static void lanes_of_classes_become_lanes_of_priorities_and_needs(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    struct task v[EVERY], t;
    open_store(f);
    add_of_every_kind(f, v);
    assert_int_equal(claim(f).n, 1); /* RUNNING, of priority 5 */
    assert_int_equal(misfiled(f), 0);
    close_store(f);

    assert_ok(store_sqlite_migrate(f->directory, BEFORE, 5, &e), &e);
    assert_no_gaps(f);
    assert_int_equal(number(f, "SELECT count(*) FROM lanes"),
                     6); /* three classes; suspects; leased, and suspects of them */
    assert_int_equal(number(f, "SELECT count(*) FROM tasks JOIN lanes USING (lane) WHERE pool <> "
                               "iif(target = 3, 1, 0) + iif(losses >= 2, 2, 0)"),
                     0);
    assert_int_equal(number(f, "SELECT count(*) FROM tasks JOIN lanes USING (lane) WHERE class <> "
                               "CASE WHEN priority <= 3 THEN 0 WHEN priority <= 6 THEN 1 ELSE 2 END"),
                     0);
    assert_int_equal(number(f, "SELECT count(*) FROM tasks"), EVERY);

    open_store(f); /* and up again */
    assert_no_gaps(f);
    assert_int_equal(misfiled(f), 0);
    for (int i = 0; i < EVERY; i++) {
        assert_int_equal(get(f, v[i].id, &t), ERR_OK);
        assert_true(str_eq(t.queue, v[i].queue) && str_eq(t.requires, v[i].requires) && t.priority == v[i].priority);
        assert_true(t.aside.n == 0 && !t.recalled); /* the older schema knows neither */
    }
    assert_claimed_from_its_lane(f, &v[PRIORITIES]);
    assert_claimed_from_its_lane(f, &v[PRIORITIES + 12]);
}

static void the_lane_of_a_class_is_that_of_one_of_its_priorities(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    static const int priorities[] = { 0, 5, 7 };
    struct task v[] = { plain_task(f), plain_task(f), plain_task(f) };
    for (size_t i = 0; i < array_count(v); i++)
        v[i].priority = priorities[i];
    open_store(f);
    insert(f, v, array_count(v));
    close_store(f);
    assert_ok(store_sqlite_migrate(f->directory, BEFORE, 5, &e), &e);
    open_store(f);
    assert_int_equal(misfiled(f), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM lanes"), 3); /* no task had to move */
}

static void a_damaged_row_stops_no_migration(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    struct task v[] = { plain_task(f), plain_task(f), plain_task(f), plain_task(f) };
    v[2].priority = 4;
    v[3].concurrency_key = S("db");
    v[3].concurrency_limit = 1;
    open_store(f);
    insert(f, v, array_count(v));
    close_store(f);
    assert_ok(store_sqlite_migrate(f->directory, BEFORE, 5, &e), &e);
    edit_file(f, "UPDATE tasks SET priority = 77 WHERE rid = 1; UPDATE tasks SET needs = '{' WHERE rid = 2; "
                 "UPDATE tasks SET gates = '{' WHERE rid = 4");
    open_store(f);
    struct task t;
    assert_int_equal(get(f, v[2].id, &t), ERR_OK);
    assert_int_equal(number(f, "SELECT l.priority FROM lanes AS l JOIN tasks AS t USING (lane) WHERE t.rid = 3"), 4);
}

/* The older server stored the default of 30 s with it, and did not use it. */
static void a_worker_task_loses_the_timeout_that_it_had_by_default(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    static const int64_t before_ms[] = { 30000, 30000, 45000 }, after_ms[] = { 30000, 0, 45000 };
    struct task v[] = { plain_task(f), plain_task(f), plain_task(f) }, t;
    v[1].target = v[2].target = TARGET_WORKER;
    for (size_t i = 0; i < array_count(v); i++)
        v[i].timeout_ms = before_ms[i];
    open_store(f);
    insert(f, v, array_count(v));
    close_store(f);
    assert_ok(store_sqlite_migrate(f->directory, BEFORE, 5, &e), &e);
    open_store(f);
    for (size_t i = 0; i < array_count(v); i++) {
        assert_int_equal(get(f, v[i].id, &t), ERR_OK);
        assert_int_equal(t.timeout_ms, after_ms[i]);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_claim_of_a_line_costs_the_same_however_many_are_due),
        T(a_claim_of_a_line_that_meets_a_bad_row_fails_alone),
        T(lanes_of_classes_become_lanes_of_priorities_and_needs),
        T(the_lane_of_a_class_is_that_of_one_of_its_priorities),
        T(a_damaged_row_stops_no_migration),
        T(a_worker_task_loses_the_timeout_that_it_had_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
