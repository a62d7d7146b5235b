/* The SQLite store on a disk that fails: at a commit, and at each single read and write of an operation. No failure
 * leaves a half-done change, and the store works again when the disk does. */
#include "sqlite_fixture.h"

#include "failing_statement.h"
#include "store/sqlite/migrate.h"

/* ---- a fault at a commit ---- */

static void fail_and_recover(struct fixture *f, int *what, int code, const char *says)
{
    failing_vfs_start();
    open_store(f);
    struct task before = plain_task(f), lost = plain_task(f), after = plain_task(f), t;
    lost.queue = S("a lane of its own");
    insert(f, &before, 1);
    struct error e = { 0 };
    *what = code;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(try_insert(f, &lost, &e), ERR_UNAVAILABLE);
        assert_says(&e, says);
    }
    *what = 0;
    assert_int_equal(get(f, lost.id, &t), ERR_NOT_FOUND);
    after.queue = S("another lane");
    insert(f, &after, 1);
    assert_int_equal(get(f, before.id, &t), ERR_OK);
    assert_int_equal(get(f, after.id, &t), ERR_OK);
    assert_str(t.queue, "another lane");
    assert_int_equal(counts(f).by_state[TASK_SCHEDULED], 2);
    close_store(f);
    failing_vfs_end();
    open_store(f);
    assert_int_equal(get(f, lost.id, &t), ERR_NOT_FOUND);
    assert_int_equal(get(f, after.id, &t), ERR_OK);
}

static void a_full_disk_refuses_and_recovers(void **state)
{
    fail_and_recover(*state, &failing.write_code, SQLITE_FULL, "database or disk is full");
}

static void a_failing_fsync_acknowledges_nothing(void **state)
{
    fail_and_recover(*state, &failing.sync_code, SQLITE_IOERR_FSYNC, "disk I/O error");
}

static void a_write_that_breaks_off_midway_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    enum { TASKS = 50 };
    failing_vfs_start();
    open_store(f);
    for (int64_t writes = 0; writes < 12; writes++) {
        struct task tasks[TASKS], t;
        for (size_t i = 0; i < TASKS; i++)
            tasks[i] = plain_task(f);
        struct op_insert op = { .op.kind = OP_INSERT, .tasks = tasks, .count = TASKS };
        struct error e = { 0 };
        failing.writes_left = writes;
        failing.write_code = SQLITE_IOERR_WRITE;
        enum err rc = try_apply(f, &op.op, &e);
        failing.write_code = 0;
        assert_true(rc == ERR_OK || rc == ERR_UNAVAILABLE);
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(get(f, tasks[i].id, &t), rc == ERR_OK ? ERR_OK : ERR_NOT_FOUND);
    }
    close_store(f);
    failing_vfs_end();
}

/* ---- a fault at each read ---- */

enum { TRIES_MAX = 400 };

/* One operation of every kind, on tasks that wait, run, recur and are final. */
struct everything {
    struct task waiting, running, parent, occurrence, spawned, put, also, fresh[2];
    struct task other_parent, late; /* in a lane of its own, from which no claim takes */
    struct idempotency record, settle_record;
    struct api_key key;
    struct spawn_plan plan;
    struct settlement settlement;
    struct op_insert insert;
    struct lane_quota lanes[2];
    struct claim_line line; /* of both lanes */
    struct op_claim claim;
    struct op_claimed claimed;
    struct op_orphans held;
    struct op_settle settle;
    struct op_recurring recurring;
    struct op_spawn spawn;
    struct op_catch_up missed;
    struct op_put put_op;
    struct op_key_put key_put;
    struct catalog_change change;
    struct op_catalog catalog;
    struct op_lease lease;
    struct op_purge forget;
    struct op *all[13];
};

static void make_tasks(struct fixture *f, struct everything *v)
{
    v->waiting = v->running = v->parent = v->occurrence = v->also = plain_task(f);
    struct task *each[] = { &v->waiting, &v->running, &v->parent, &v->occurrence, &v->also };
    for (size_t i = 0; i < array_count(each); i++)
        each[i]->id = uuid_next(&f->ids, NOW_MS);
    v->waiting.priority = 9;
    v->parent.kind = TASK_RECURRING;
    v->parent.schedule.interval_ms = 1000;
    v->parent.cursor_ms = NOW_MS;
    v->occurrence.kind = TASK_OCCURRENCE;
    v->occurrence.parent = v->parent.id;
    v->occurrence.runs_count = 1;
    v->occurrence.due_ms = v->occurrence.scheduled_ms = NOW_MS + 500;
    v->spawned = v->occurrence;
    v->spawned.id = uuid_next(&f->ids, NOW_MS);
    v->also.queue = S("a third");
    for (size_t i = 0; i < 2; i++) {
        v->fresh[i] = plain_task(f);
        v->fresh[i].queue = i ? S("another") : S("default");
        v->fresh[i].due_ms = NOW_MS + 1;
        v->fresh[i].dedupe_key = i ? S("one") : S("other");
    }
    v->other_parent = v->parent;
    v->other_parent.id = uuid_next(&f->ids, NOW_MS);
    v->other_parent.cursor_ms = NOW_MS + 9000;
    v->late = v->occurrence;
    v->late.parent = v->other_parent.id;
    v->late.id = occurrence_id(v->late.parent, NOW_MS - 5000);
    v->late.due_ms = v->late.scheduled_ms = NOW_MS - 5000;
    v->late.queue = S("late");
    v->put = v->parent;
    v->put.version++;
    v->put.cursor_ms = NOW_MS + 9000;
}

static void make_operations(struct fixture *f, struct everything *v)
{
    v->record = (struct idempotency){ .tenant = 1, .status = 201, .answer = S("{}"), .created_ms = NOW_MS };
    v->settle_record = (struct idempotency){ .tenant = 1, .key = { 1 }, .status = 200, .created_ms = NOW_MS };
    v->key = (struct api_key){ .id = S("k"), .tenant = 1, .scopes = S("all") };
    v->plan = (struct spawn_plan){ .occurrences = { &v->spawned, 1 }, .cursor_ms = NOW_MS + 1000, .runs = 1 };
    v->settlement = (struct settlement){ .id = v->running.id,
                                         .fence = 1,
                                         .parent = v->parent.id,
                                         .verdict = { .next = TASK_COMPLETED, .attempts = 1, .has_execution = true } };
    v->settlement.verdict.execution = (struct execution){
        .id = uuid_next(&f->ids, NOW_MS), .tenant = 1, .task = v->parent.id, .started_us = NOW_MS * INT64_C(1000)
    };
    v->insert = (struct op_insert){ .op.kind = OP_INSERT, .tasks = v->fresh, .count = 2, .idempotency = &v->record };
    v->lanes[0] = usual_lane;
    v->lanes[1] = (struct lane_quota){ task_lane(&v->waiting), CLAIM_MAX };
    v->line = (struct claim_line){ 2, CLAIM_MAX };
    v->claim = claim_op(f, v->lanes);
    v->claim.lane_count = 2;
    v->claim.lines = &v->line;
    v->claim.line_count = 1;
    v->claimed = (struct op_claimed){ .op.kind = OP_CLAIMED, .claim = v->running.claim };
    v->held = (struct op_orphans){ .op.kind = OP_ORPHANS, .not_node = { { 1 } }, .max = 10 };
    v->settle = (struct op_settle){
        .op.kind = OP_SETTLE, .v = &v->settlement, .n = 1, .now_ms = NOW_MS, .idempotency = &v->settle_record
    };
    v->recurring = (struct op_recurring){ .op.kind = OP_RECURRING, .until_ms = NOW_MS + 1, .max = 10 };
    v->spawn = (struct op_spawn){
        .op.kind = OP_SPAWN, .id = v->parent.id, .version = 1, .cursor_ms = NOW_MS, .plan = &v->plan, .now_ms = NOW_MS
    };
    v->missed = (struct op_catch_up){ .op.kind = OP_CATCH_UP, .before_ms = NOW_MS - 1000, .max = 10 };
    v->put_op = (struct op_put){ .op.kind = OP_PUT,
                                 .task = &v->put,
                                 .version = 1,
                                 .state = TASK_SCHEDULED,
                                 .cursor_ms = v->plan.cursor_ms, /* as moved by the spawn before it */
                                 .withdraw = true,
                                 .also = &v->also };
    v->key_put = (struct op_key_put){ .op.kind = OP_KEY_PUT, .key = &v->key };
    v->change =
        (struct catalog_change){ .entry = { .kind = CATALOG_JOB, .name = S("j"), .doc = S("{\"state\":\"DONE\"}") } };
    v->catalog = (struct op_catalog){ .op.kind = OP_CATALOG, .v = &v->change, .n = 1, .now_ms = NOW_MS };
    v->lease = (struct op_lease){ .op.kind = OP_LEASE, .name = S("x"), .holder = { { 1 } }, .now_ms = 1, .ttl_ms = 1 };
    v->forget = (struct op_purge){ .op.kind = OP_PURGE,
                                   .now_ms = NOW_MS + 1,
                                   .tasks_before_ms = NOW_MS + 1,
                                   .executions_before_ms = NOW_MS + 1,
                                   .jobs_before_ms = NOW_MS + 1,
                                   .max = 10 };
    struct op *const all[] = { &v->insert.op,    &v->claim.op, &v->claimed.op, &v->held.op,   &v->settle.op,
                               &v->recurring.op, &v->spawn.op, &v->missed.op,  &v->put_op.op, &v->key_put.op,
                               &v->catalog.op,   &v->lease.op, &v->forget.op };
    memcpy(v->all, all, sizeof all);
    for (size_t i = 0; i < array_count(all); i++)
        arena_init(&v->all[i]->arena, 1 << 20);
}

static void release_operations(struct everything *v)
{
    for (size_t i = 0; i < array_count(v->all); i++)
        arena_release(&v->all[i]->arena);
}

/* Inserts the rows that the operations need. */
static void prepare(struct fixture *f, struct everything *v)
{
    make_tasks(f, v);
    insert(f, &v->running, 1);
    struct tasks claimed = claim(f);
    assert_int_equal(claimed.n, 1);
    v->running.claim = claimed.v[0].claim;
    struct task rest[] = { v->waiting, v->parent, v->occurrence, v->other_parent, v->late };
    insert(f, rest, array_count(rest));
    make_operations(f, v);
}

static void assert_nothing_happened(struct fixture *f, const struct everything *v)
{
    struct task t;
    struct store_counts c = counts(f);
    assert_int_equal(c.by_state[TASK_SCHEDULED], 5);
    assert_int_equal(c.by_state[TASK_RUNNING], 1);
    assert_int_equal(get(f, v->late.id, &t), ERR_OK);
    assert_int_equal(get(f, v->other_parent.id, &t), ERR_OK);
    assert_int_equal(t.cursor_ms, NOW_MS + 9000);
    assert_int_equal(get(f, v->fresh[0].id, &t), ERR_NOT_FOUND);
    assert_int_equal(get(f, v->spawned.id, &t), ERR_NOT_FOUND);
    assert_int_equal(get(f, v->occurrence.id, &t), ERR_OK);
    assert_int_equal(get(f, v->parent.id, &t), ERR_OK);
    assert_int_equal(t.version, 1);
    assert_int_equal(t.cursor_ms, NOW_MS);
    assert_int_equal(t.last_run_ms, 0);
}

static void assert_all_happened(struct fixture *f, const struct everything *v)
{
    for (size_t i = 0; i < array_count(v->all); i++)
        assert_ok(v->all[i]->rc, &v->all[i]->error);
    struct store_counts c = counts(f);
    assert_int_equal(c.by_state[TASK_SCHEDULED], 5); /* two fresh tasks, the parents, `also` */
    assert_int_equal(c.by_state[TASK_RUNNING], 1);   /* `waiting`, which is claimed */
    assert_int_equal(c.by_state[TASK_COMPLETED], 0); /* `running`, which is settled and purged */
    assert_int_equal(v->claim.ret.n, 1);
    assert_int_equal(v->claimed.ret.n, 1);
    assert_int_equal(v->held.ret.n, 2);
    assert_int_equal(v->recurring.ret.n, 1);
    assert_int_equal(v->missed.ret_withdrawn, 1);
    assert_int_equal(v->put_op.ret_withdrawn, 2);
    assert_int_equal(v->put_op.ret_cursor_ms, NOW_MS + 500);
    assert_int_equal(v->forget.ret_purged, 5); /* `running`, its execution, two keys, a job */
}

/* With an empty cache every operation reads its pages; the nth read fails, for every n. */
static void a_read_that_fails_undoes_the_whole_batch(void **state)
{
    struct fixture *f = *state;
    static struct everything v;
    failing_vfs_start();
    open_store(f);
    prepare(f, &v);
    enum err rc = ERR_UNAVAILABLE;
    for (int64_t n = 0; rc && n < TRIES_MAX; n++) {
        struct error e = { 0 };
        close_store(f);
        open_store(f);
        for (size_t i = 0; i < array_count(v.all); i++)
            arena_reset(&v.all[i]->arena);
        failing.reads_left = n;
        failing.read_code = SQLITE_IOERR_READ;
        rc = store_apply(f->store, v.all, array_count(v.all), &e);
        failing.read_code = 0;
        if (!rc)
            break;
        assert_int_equal(rc, ERR_UNAVAILABLE);
        assert_says(&e, "disk I/O error");
        assert_nothing_happened(f, &v);
    }
    assert_int_equal(rc, ERR_OK);
    assert_all_happened(f, &v);
    release_operations(&v);
    close_store(f);
    failing_vfs_end();
}

/* ---- a fault at each statement ---- */

static void a_statement_that_fails_undoes_the_whole_batch(void **state)
{
    struct fixture *f = *state;
    static struct everything v;
    failing_statement_begin();
    open_store(f);
    prepare(f, &v);
    enum err rc = ERR_UNAVAILABLE;
    struct task t;
    for (int64_t n = 0; rc && n < 20 * TRIES_MAX; n += 7) {
        struct error e = { 0 };
        for (size_t i = 0; i < array_count(v.all); i++)
            arena_reset(&v.all[i]->arena);
        failing_statement_after(n);
        rc = store_apply(f->store, v.all, array_count(v.all), &e);
        failing_statement_after(INT64_MAX);
        if (!rc || get(f, v.fresh[0].id, &t) == ERR_OK)
            break; /* allowed: the commit succeeded, and only its answer was lost */
        assert_int_equal(rc, ERR_UNAVAILABLE);
        assert_says(&e, "interrupted");
        if (n % 16 == 0)
            assert_nothing_happened(f, &v);
    }
    if (!rc)
        assert_all_happened(f, &v);
    assert_int_equal(get(f, v.fresh[1].id, &t), ERR_OK);
    release_operations(&v);
    failing_statement_end();
}

/* Calls every verb of a reader in turn, until one fails. */
static enum err read_everything(struct fixture *f, const struct task *t, struct error *e)
{
    struct reader *r;
    struct task one;
    struct task_page page;
    struct execution_page executions;
    struct idempotency record;
    struct api_key key;
    struct key_list keys;
    struct cause_groups causes;
    struct catalog_page catalog;
    struct catalog_filter entries = { .kind = CATALOG_JOB, .tenant = 1, .limit = 10 };
    struct lane *lanes;
    struct store_counts c;
    size_t n;
    static const uint8_t used[32] = { 0 };
    enum err rc = store_reader(f->store, &r, e);
    if (rc)
        return rc;
    struct task_filter list = { .tenant = 1, .limit = 10, .queue = t->queue };
    struct execution_filter history = { .tenant = 1, .task = t->id, .limit = 10 };
    if (!(rc = reader_executions(r, &history, &f->arena, &executions, e)) &&
        !(rc = reader_idempotency(r, 1, used, &f->arena, &record, e)) &&
        !(rc = reader_key(r, S("k"), &f->arena, &key, e)) && !(rc = reader_counts(r, NOW_MS, &c, e)) &&
        !(rc = reader_keys(r, 1, &f->arena, &keys, e)) && !(rc = reader_causes(r, 1, 10, &f->arena, &causes, e)) &&
        !(rc = reader_catalog_list(r, &entries, &f->arena, &catalog, e)) &&
        !(rc = reader_lanes(r, &f->arena, &lanes, &n, e)) && !(rc = reader_count(r, &list, 10, &n, e)) &&
        !(rc = reader_list(r, &list, &f->arena, &page, e)))
        rc = reader_get(r, 1, t->id, &f->arena, &one, e);
    reader_free(r);
    return rc;
}

static void a_reader_says_that_the_disk_failed(void **state)
{
    struct fixture *f = *state;
    static struct everything v;
    struct error e = { 0 };
    failing_vfs_start();
    open_store(f);
    prepare(f, &v);
    assert_ok(store_apply(f->store, v.all, array_count(v.all), &e), &e);
    close_store(f);
    open_store(f);
    enum err rc = ERR_UNAVAILABLE;
    int64_t n = 0;
    for (; rc && n < TRIES_MAX; n++) {
        failing.reads_left = n;
        failing.read_code = SQLITE_IOERR_READ;
        rc = read_everything(f, &v.waiting, &e);
        failing.read_code = 0;
        assert_true(rc == ERR_OK || rc == ERR_UNAVAILABLE);
    }
    assert_int_equal(rc, ERR_OK);
    assert_true(n > 8); /* several calls failed */
    release_operations(&v);
    close_store(f);
    failing_vfs_end();
}

static void an_open_that_fails_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    failing_vfs_start();
    enum err rc = ERR_UNAVAILABLE;
    int64_t n = 0;
    for (; rc && n < TRIES_MAX; n++) {
        failing.writes_left = n;
        failing.write_code = SQLITE_FULL;
        rc = store_sqlite_open(f->directory, 0, &f->store, &e);
        failing.write_code = 0;
        assert_true(rc == ERR_OK || rc == ERR_UNAVAILABLE);
    }
    assert_int_equal(rc, ERR_OK);
    assert_true(n > 3);
    close_store(f);
    for (rc = ERR_UNAVAILABLE, n = 0; rc && n < TRIES_MAX; n++) {
        failing.reads_left = n;
        failing.read_code = SQLITE_IOERR_READ;
        rc = store_sqlite_open(f->directory, 0, &f->store, &e);
        failing.read_code = 0;
        assert_true(rc == ERR_OK || rc == ERR_UNAVAILABLE);
    }
    assert_int_equal(rc, ERR_OK);
    struct task t = plain_task(f);
    insert(f, &t, 1);
    close_store(f);
    for (rc = ERR_UNAVAILABLE, n = 0; rc && n < TRIES_MAX; n++) {
        struct store_migration *v;
        size_t count;
        failing.reads_left = n;
        failing.read_code = SQLITE_IOERR_READ;
        rc = store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e);
        failing.read_code = 0;
        assert_true(rc == ERR_OK || rc == ERR_UNAVAILABLE);
    }
    assert_int_equal(rc, ERR_OK);
    failing_vfs_end();
}

/* ---- arenas that are too small ---- */

static void an_answer_that_does_not_fit_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    static struct everything v;
    struct error e = { 0 };
    open_store(f);
    prepare(f, &v);
    struct op *readers[] = { &v.claim.op, &v.claimed.op, &v.held.op, &v.recurring.op };
    for (size_t size = 1; size < sizeof(struct task); size += 23) {
        for (size_t i = 0; i < array_count(readers); i++)
            readers[i]->arena.max = size;
        assert_ok(store_apply(f->store, readers, array_count(readers), &e), &e);
        for (size_t i = 0; i < array_count(readers); i++) {
            assert_int_equal(readers[i]->rc, ERR_LIMIT);
            arena_release(&readers[i]->arena);
        }
        assert_nothing_happened(f, &v);
    }
    struct reader *r = open_reader(f);
    struct task_filter list = { .tenant = 1, .limit = 10 };
    struct task_page page;
    struct task t;
    struct lane *lanes;
    size_t n;
    for (size_t size = 1; size < sizeof(struct task); size += 23) {
        struct arena small;
        arena_init(&small, size);
        assert_int_equal(reader_list(r, &list, &small, &page, &e), ERR_LIMIT);
        arena_reset(&small);
        if (size < 20) {
            assert_int_equal(reader_get(r, 1, v.waiting.id, &small, &t, &e), size < 16 ? ERR_LIMIT : ERR_OK);
            assert_int_equal(reader_lanes(r, &small, &lanes, &n, &e), ERR_LIMIT);
        }
        arena_release(&small);
    }
    reader_free(r);
    release_operations(&v);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_full_disk_refuses_and_recovers),
        T(a_failing_fsync_acknowledges_nothing),
        T(a_write_that_breaks_off_midway_leaves_nothing),
        T(a_read_that_fails_undoes_the_whole_batch),
        T(a_statement_that_fails_undoes_the_whole_batch),
        T(a_reader_says_that_the_disk_failed),
        T(an_open_that_fails_can_be_repeated),
        T(an_answer_that_does_not_fit_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
