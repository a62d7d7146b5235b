/* Slots in the SQLite store: after a restart, after a migration, and in a damaged file. */
#include "sqlite_fixture.h"

#include "failing_statement.h"
#include "store/sqlite/migrate.h"

static struct task keyed_task(struct fixture *f)
{
    struct task t = plain_task(f);
    t.concurrency_key = S("db");
    t.concurrency_limit = 1;
    return t;
}

static struct slot_holders holders(struct fixture *f, struct str key)
{
    struct slot_holders h = { 0 };
    struct error e = { 0 };
    struct reader *r = open_reader(f);
    assert_ok(reader_slots(r, key, &f->arena, &h, &e), &e);
    reader_free(r);
    return h;
}

/* Inserts three tasks of one key; returns the one that runs. */
static struct tasks one_holds_and_two_wait(struct fixture *f)
{
    struct task v[] = { keyed_task(f), keyed_task(f), keyed_task(f) };
    insert(f, v, 3);
    struct op_claim op = claim_op(f, &usual_lane);
    apply(f, &op.op);
    f->arena = op.op.arena;
    assert_int_equal(op.ret.n, 1);
    assert_int_equal(op.ret_gated.n, 2);
    return op.ret;
}

static void slots_and_lines_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct tasks taken = one_holds_and_two_wait(f);
    close_store(f);
    open_store(f);
    assert_int_equal(holders(f, S("c:1:db")).n, 1);
    assert_int_equal(claim(f).n, 0);

    struct op_orphans op = { .op.kind = OP_ORPHANS, .not_node = { { 1 } }, .max = 10 };
    op.op.arena = f->arena;
    apply(f, &op.op);
    f->arena = op.op.arena;
    assert_int_equal(op.ret.n, 1);
    struct settlement v = { .id = taken.v[0].id,
                            .fence = op.ret.v[0].fence,
                            .verdict = { .next = TASK_SCHEDULED, .due_ms = NOW_MS + 10, .losses = 1 } };
    struct op_settle settle = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW_MS };
    apply(f, &settle.op);
    assert_true(settle.ret_unblocked_lanes);
    assert_int_equal(claim(f).n, 1);
}

static void a_plain_task_leaves_no_trace_among_slots(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task t = plain_task(f);
    insert(f, &t, 1);
    struct tasks taken = claim(f);
    assert_int_equal(number(f, "SELECT count(*) FROM slots"), 0);
    assert_int_equal(number(f, "SELECT gates IS NULL FROM tasks"), 1);
    finish(f, &taken.v[0], TASK_COMPLETED);
}

/* The pool of a task: in the first schema, in the newest. */
#define FIRST_POOL "0"
#define NEWEST_POOL                                                                                                    \
    "CASE WHEN delivery = 1 OR recalled OR json_extract(gates, '$.concurrency_key') IS NOT NULL "                      \
    "THEN iif(losses >= 2, 6, 5) ELSE iif(losses >= 2, 2, 0) END"

/* Checks that the counts match the states, and that every lane's row matches its tasks. */
static void assert_in_order(struct fixture *f, const char *pool)
{
    assert_int_equal(number(f,
                            "SELECT count(*) FROM (SELECT tenant_id, state, count(*) AS n FROM tasks WHERE NOT deleted "
                            "GROUP BY tenant_id, state EXCEPT SELECT tenant_id, state, n FROM counts)"),
                     0);
    assert_int_equal(number(f, "SELECT count(*) FROM counts WHERE n < 0"), 0);
    char sql[400];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tasks JOIN lanes USING (lane) WHERE pool <> %s", pool);
    assert_int_equal(number(f, sql), 0);
    assert_int_equal(number(f, "SELECT count(*) <> max(lane) FROM lanes"), 0);
}

static void the_schema_goes_down_and_up_with_tasks_that_wait(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    one_holds_and_two_wait(f);
    struct task v[] = { plain_task(f), plain_task(f), plain_task(f), plain_task(f), keyed_task(f) };
    v[0].losses = 2; /* in the same lane as other tasks */
    v[1].losses = 5; /* in a lane without other tasks */
    v[1].queue = S("apart");
    v[2].state = TASK_BLOCKED; /* for another reason: it stays BLOCKED */
    v[3].tenant = 2;
    v[4].losses = 2; /* late and a suspect */
    v[4].queue = S("apart");
    insert(f, v, 5);
    assert_int_equal(counts(f).by_state[TASK_BLOCKED], 3);
    assert_in_order(f, NEWEST_POOL);
    close_store(f);

    assert_ok(store_sqlite_migrate(f->directory, 1, 5, &e), &e);
    assert_in_order(f, FIRST_POOL);
    assert_int_equal(number(f, "SELECT sum(n) FROM counts WHERE state = 1"), 1);
    assert_int_equal(number(f, "SELECT sum(n) FROM counts WHERE state = 0"), 6);
    assert_int_equal(number(f, "SELECT count(*) FROM tasks WHERE state = 3"), 1);

    open_store(f);
    assert_in_order(f, NEWEST_POOL);
    assert_int_equal(counts(f).by_state[TASK_SCHEDULED], 6);
    assert_int_equal(claim(f).n, 2); /* the tasks that waited; they have lost their key */
    struct lane_quota apart = { { .tenant = 1, .queue = S("apart"), .priority = PRIORITY_DEFAULT }, 5 };
    struct op_claim op = claim_op(f, &apart);
    op.max_suspects = 5;
    apply(f, &op.op);
    f->arena = op.op.arena;
    assert_int_equal(op.ret.n, 2);
    assert_true(uuid_eq(op.ret.v[0].id, v[1].id) && uuid_eq(op.ret.v[1].id, v[4].id));
    assert_int_equal(apart.ret_taken, 0);
    close_store(f);

    assert_ok(store_sqlite_migrate(f->directory, 1, 5, &e), &e);
    assert_ok(store_sqlite_migrate(f->directory, STORE_SQLITE_NEWEST, 5, &e), &e);
    assert_in_order(f, NEWEST_POOL);
}

static void occurrences_of_an_older_schema_wait_for_no_other(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    struct task v[] = { plain_task(f), plain_task(f) }, t;
    for (size_t i = 0; i < 2; i++) {
        v[i].kind = TASK_OCCURRENCE;
        v[i].parent = (struct uuid){ { 7 } };
    }
    insert(f, v, 2);
    close_store(f);
    assert_ok(store_sqlite_migrate(f->directory, 1, 5, &e), &e);
    open_store(f);
    assert_int_equal(get(f, v[0].id, &t), ERR_OK);
    assert_int_equal(t.overlap, OVERLAP_ALLOW);
    assert_int_equal(claim(f).n, 2);
}

static void a_damaged_slot_is_told_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    struct tasks taken = one_holds_and_two_wait(f);
    edit_file(f, "UPDATE slots SET key = hex(zeroblob(400))");
    struct settlement v = { .id = taken.v[0].id, .fence = taken.v[0].fence, .verdict = { .next = TASK_COMPLETED } };
    struct op_settle op = { .op.kind = OP_SETTLE, .v = &v, .n = 1, .now_ms = NOW_MS };
    assert_int_equal(try_apply(f, &op.op, &e), ERR_CORRUPT);
    assert_says(&e, "an invalid slot key");
    assert_int_equal(counts(f).by_state[TASK_RUNNING], 1);
}

static void damaged_gates_are_told(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task t = keyed_task(f);
    insert(f, &t, 1);
    edit_file(f, "UPDATE tasks SET gates = '{\"concurrency_key\":3}'");
    struct lane_quota late = { task_lane(&t), 5 };
    struct op_claim op = claim_op(f, &late);
    struct error e = { 0 };
    assert_ok(try_apply(f, &op.op, &e), &e);
    f->arena = op.op.arena;
    assert_int_equal(op.op.rc, ERR_CORRUPT);
    assert_says(&op.op.error, "task with invalid gates");
    assert_int_equal(get(f, t.id, &t), ERR_CORRUPT);
}

/* ---- a fault at each statement ---- */

/* All state of slots, as one text. */
static void dump(struct fixture *f, char *out, size_t size)
{
    static const char sql[] =
        "SELECT (SELECT group_concat(hex(id) || ' ' || state || ' ' || fence || ' ' || runs_count || ' ' || lane "
        "|| ' ' || "
        "coalesce(waits_for, '-'), x'0a') FROM (SELECT * FROM tasks ORDER BY id)) || "
        "(SELECT group_concat(key || hex(task_id), x'0a') FROM (SELECT * FROM slots ORDER BY key, task_id)) || "
        "(SELECT group_concat(state || ':' || n) FROM (SELECT * FROM counts WHERE n <> 0 ORDER BY tenant_id, state))";
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(file_of(f, "belfry.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int n = snprintf(out, size, "%s", (const char *)sqlite3_column_text(st, 0));
    assert_true(n > 0 && (size_t)n < size);
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static struct task run_of(struct fixture *f, uint8_t parent, enum overlap overlap)
{
    struct task t = plain_task(f);
    t.kind = TASK_OCCURRENCE;
    t.parent = (struct uuid){ { parent } };
    t.overlap = overlap;
    t.runs_count = 1;
    return t;
}

/* One transaction with a holder that is replaced, a run that is skipped, one that waits, and a holder that ends. */
struct crowd {
    struct task retrying, replaces, running, skipped, waits;
    struct settlement v;
    struct lane_quota lanes[2];
    struct claim_line line;
    struct op_claim claim;
    struct op_settle settle;
    struct op *ops[2];
};

static void make_crowd(struct fixture *f, struct crowd *c)
{
    c->retrying = run_of(f, 1, OVERLAP_CANCEL_PREVIOUS);
    c->replaces = run_of(f, 1, OVERLAP_CANCEL_PREVIOUS);
    c->running = run_of(f, 2, OVERLAP_SKIP);
    c->skipped = run_of(f, 2, OVERLAP_SKIP);
    insert(f, (struct task[]){ c->retrying, c->running }, 2);
    struct tasks first = claim(f);
    assert_int_equal(first.n, 2);
    c->v = (struct settlement){ .id = first.v[0].id, /* lost: the slot stays held */
                                .fence = first.v[0].fence,
                                .verdict = { .next = TASK_SCHEDULED, .due_ms = NOW_MS + 9000, .losses = 2 } };
    struct op_settle lost = { .op.kind = OP_SETTLE, .v = &c->v, .n = 1, .now_ms = NOW_MS };
    apply(f, &lost.op);
    struct tasks taken = one_holds_and_two_wait(f);
    c->waits = keyed_task(f); /* the last in its line */
    insert(f, (struct task[]){ c->replaces, c->skipped, c->waits }, 3);
    c->v = (struct settlement){ .id = taken.v[0].id, .fence = taken.v[0].fence, .verdict = { .next = TASK_COMPLETED } };
    c->lanes[0] = (struct lane_quota){ task_lane(&c->replaces), 100 };
    c->lanes[1] = (struct lane_quota){ task_lane(&c->waits), 100 };
    c->line = (struct claim_line){ 2, 100 };
    c->claim = claim_op(f, c->lanes);
    c->claim.lane_count = 2;
    c->claim.lines = &c->line;
    c->claim.line_count = 1;
    c->settle = (struct op_settle){ .op.kind = OP_SETTLE, .v = &c->v, .n = 1, .now_ms = NOW_MS };
    c->ops[0] = &c->claim.op;
    c->ops[1] = &c->settle.op;
}

static void a_statement_that_fails_leaves_every_slot_where_it_was(void **state)
{
    struct fixture *f = *state;
    static struct crowd c;
    static char before[16384], after[16384];
    failing_statement_begin();
    open_store(f);
    make_crowd(f, &c);
    dump(f, before, sizeof before);
    enum err rc = ERR_UNAVAILABLE;
    int failures = 0;
    for (int64_t n = 0; rc; n += 3, failures++) {
        struct error e = { 0 };
        assert_true(n < 20000);
        failing_statement_after(n);
        rc = store_apply(f->store, c.ops, 2, &e);
        failing_statement_after(INT64_MAX);
        dump(f, after, sizeof after);
        if (rc && strcmp(before, after) != 0)
            break; /* allowed: the commit succeeded, and only its answer was lost */
        assert_true(!rc || rc == ERR_UNAVAILABLE);
    }
    assert_true(failures > 100);
    f->arena = c.claim.op.arena;
    struct task t;
    assert_int_equal(get(f, c.retrying.id, &t), ERR_OK);
    assert_int_equal(t.state, TASK_CANCELLED);
    assert_int_equal(get(f, c.replaces.id, &t), ERR_OK);
    assert_int_equal(t.state, TASK_SCHEDULED);
    assert_int_equal(get(f, c.skipped.id, &t), ERR_OK);
    assert_int_equal(t.state, TASK_SKIPPED);
    assert_int_equal(get(f, c.waits.id, &t), ERR_OK);
    assert_int_equal(t.state, TASK_BLOCKED);
    assert_int_equal(holders(f, S("c:1:db")).n, 1);
    assert_int_equal(holders(f, S("c:1:db")).v[0].state, TASK_SCHEDULED);
    assert_int_equal(number(f, "SELECT count(*) FROM slots"), 3);
    assert_in_order(f, NEWEST_POOL);
    failing_statement_end();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(slots_and_lines_outlive_the_process),
        T(a_plain_task_leaves_no_trace_among_slots),
        T(the_schema_goes_down_and_up_with_tasks_that_wait),
        T(occurrences_of_an_older_schema_wait_for_no_other),
        T(a_damaged_slot_is_told_and_changes_nothing),
        T(damaged_gates_are_told),
        T(a_statement_that_fails_leaves_every_slot_where_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
