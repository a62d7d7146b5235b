/* Tests of the SQLite store only; tests/conformance has those for all stores. */
#include "sqlite_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/date.h"
#include "store/sqlite/migrate.h"

/* ---- durability ---- */

static struct task rich_task(struct fixture *f)
{
    struct task t = plain_task(f);
    t.kind = TASK_RECURRING;
    t.cursor_ms = NOW_MS + 60000;
    t.runs_count = 3;
    t.skipped_count = 2;
    t.last_run_ms = 12;
    t.name = S("nightly \"report\"");
    t.task_type = S("report");
    t.extra = S("{\"team\":\"a\"}");
    t.payload = S("{\"n\":1}");
    t.target_config = S("{\"url\":\"http://x\"}");
    t.last_error = S("HTTP 503");
    t.delivery = DELIVER_AT_MOST_ONCE;
    t.expires_after_ms = 99;
    t.started_ms = 5;
    t.retry = (struct retry_policy){ .max_attempts = 9,
                                     .backoff = BACKOFF_FIXED,
                                     .base_delay_ms = 10,
                                     .max_delay_ms = 20,
                                     .jitter = JITTER_NONE,
                                     .rules = S("[{\"on\":\"429\"}]") };
    t.schedule = (struct schedule){ .cron = S("0 8 * * *"),
                                    .time_zone = S("Europe/Berlin"),
                                    .calendar = S("work"),
                                    .calendar_policy = CALENDAR_NEXT_DAY,
                                    .gap = DST_GAP_SKIP,
                                    .repeat = DST_REPEAT_BOTH,
                                    .start_ms = 1,
                                    .end_ms = INT64_MAX,
                                    .max_runs = 7,
                                    .spread_ms = 8,
                                    .catch_up = CATCH_UP_NONE,
                                    .catch_up_window_ms = 9,
                                    .overlap = OVERLAP_CANCEL_PREVIOUS };
    return t;
}

static void assert_schedule(const struct schedule *s)
{
    assert_str(s->cron, "0 8 * * *");
    assert_str(s->time_zone, "Europe/Berlin");
    assert_str(s->calendar, "work");
    assert_int_equal(s->interval_ms, 0);
    assert_int_equal(s->calendar_policy, CALENDAR_NEXT_DAY);
    assert_int_equal(s->gap, DST_GAP_SKIP);
    assert_int_equal(s->repeat, DST_REPEAT_BOTH);
    assert_int_equal(s->start_ms, 1);
    assert_true(s->end_ms == INT64_MAX);
    assert_int_equal(s->max_runs, 7);
    assert_int_equal(s->spread_ms, 8);
    assert_int_equal(s->catch_up, CATCH_UP_NONE);
    assert_int_equal(s->catch_up_window_ms, 9);
    assert_int_equal(s->overlap, OVERLAP_CANCEL_PREVIOUS);
}

static void assert_rich(const struct task *t)
{
    assert_int_equal(t->kind, TASK_RECURRING);
    assert_int_equal(t->cursor_ms, NOW_MS + 60000);
    assert_int_equal(t->runs_count, 3);
    assert_int_equal(t->skipped_count, 2);
    assert_int_equal(t->last_run_ms, 12);
    assert_str(t->queue, "default");
    assert_str(t->name, "nightly \"report\"");
    assert_str(t->task_type, "report");
    assert_str(t->extra, "{\"team\":\"a\"}");
    assert_str(t->payload, "{\"n\":1}");
    assert_str(t->target_config, "{\"url\":\"http://x\"}");
    assert_str(t->last_error, "HTTP 503");
    assert_int_equal(t->delivery, DELIVER_AT_MOST_ONCE);
    assert_int_equal(t->expires_after_ms, 99);
    assert_int_equal(t->retry.max_attempts, 9);
    assert_int_equal(t->retry.backoff, BACKOFF_FIXED);
    assert_int_equal(t->retry.base_delay_ms, 10);
    assert_int_equal(t->retry.max_delay_ms, 20);
    assert_int_equal(t->retry.jitter, JITTER_NONE);
    assert_str(t->retry.rules, "[{\"on\":\"429\"}]");
    assert_schedule(&t->schedule);
}

/* The calendar of a task must exist. */
static void add_calendar(struct fixture *f, struct str name)
{
    struct catalog_change change = { .entry = { .tenant = 1, .kind = CATALOG_CALENDAR, .name = name, .doc = S("{}") } };
    struct op_catalog op = { .op.kind = OP_CATALOG, .v = &change, .n = 1, .now_ms = NOW_MS };
    apply(f, &op.op);
}

static void what_was_written_is_there_after_a_restart(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task v[3] = { rich_task(f), plain_task(f), plain_task(f) };
    v[2].due_ms++;
    add_calendar(f, S("work"));
    insert(f, v, 3);
    struct tasks claimed = claim(f);
    assert_int_equal(claimed.n, 1);
    finish(f, &claimed.v[0], TASK_COMPLETED);
    close_store(f);
    struct stat st;
    assert_int_equal(stat(file_of(f, "belfry.db-wal"), &st), -1); /* a clean close leaves one file */

    open_store(f);
    struct task t;
    assert_int_equal(get(f, v[0].id, &t), ERR_OK);
    assert_rich(&t);
    assert_int_equal(get(f, v[1].id, &t), ERR_OK);
    assert_int_equal(t.state, TASK_COMPLETED);
    assert_int_equal(t.retry.max_attempts, 5);
    struct store_counts c = counts(f);
    assert_int_equal(c.by_state[TASK_SCHEDULED], 2);
    assert_int_equal(c.by_state[TASK_COMPLETED], 1);
    assert_int_equal(c.due, 0);
    struct task more = plain_task(f);
    insert(f, &more, 1);
    claimed = claim(f); /* the lane is still known by its number */
    assert_int_equal(claimed.n, 1);
    assert_true(uuid_eq(claimed.v[0].id, more.id));
}

static void a_new_directory_is_private(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct stat st;
    assert_int_equal(stat(f->directory, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    static const char *const names[] = { "belfry.db", "belfry.db-wal", "belfry.lock" };
    for (size_t i = 0; i < array_count(names); i++) {
        assert_int_equal(stat(file_of(f, names[i]), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
}

static void what_stands_where_the_file_should_be_is_named(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    assert_int_equal(mkdir(f->directory, 0700), 0);
    assert_int_equal(mkdir(file_of(f, "belfry.db"), 0700), 0);
    assert_int_equal(store_sqlite_open(f->directory, 0, &f->store, &e), ERR_UNAVAILABLE);
    assert_says(&e, "belfry.db': Is a directory");
    assert_int_equal(mkdir(file_of(f, "belfry.lock"), 0700), -1); /* the file exists, and its lock is free again */
    assert_int_equal(rmdir(file_of(f, "belfry.db")), 0);
    open_store(f);
}

static void a_directory_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    struct store *s = NULL;
    struct error e = { 0 };
    assert_int_equal(store_sqlite_open("/proc/no/such/place", 0, &s, &e), ERR_UNAVAILABLE);
    assert_says(&e, "make data directory '/proc/no/such/place': No such file or directory");
    assert_null(s);
}

/* ---- one process at a time ---- */

static void a_second_process_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *s;
        struct error e;
        byte = store_sqlite_open(f->directory, 0, &s, &e) ? 'n' : 'y';
        (void)!write(ready[1], &byte, 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    struct store *s = NULL;
    struct error e = { 0 };
    char expected[128];
    snprintf(expected, sizeof expected, "data directory '%s' is in use by process %d", f->directory, (int)child);
    assert_int_equal(store_sqlite_open(f->directory, 0, &s, &e), ERR_UNAVAILABLE);
    assert_string_equal(e.text, expected);
    assert_int_equal(store_sqlite_migrate(f->directory, STORE_SQLITE_NEWEST, 1, &e), ERR_UNAVAILABLE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    open_store(f); /* the lock ended with its process */
    close(ready[0]);
    close(ready[1]);
}

/* ---- kill -9 ---- */

enum { KILL_ROUNDS = 6, KILL_BATCH = 25 };

/* Inserts and claims until it is killed; writes each id to the pipe once it is durable. */
static void insert_for_ever(struct fixture *f, int fd, uint64_t seed)
{
    struct error e;
    if (store_sqlite_open(f->directory, 0, &f->store, &e))
        _exit(1);
    uuid_gen_init(&f->ids, seed);
    for (;;) {
        struct task tasks[KILL_BATCH];
        struct op_insert ops[KILL_BATCH];
        struct op *list[KILL_BATCH];
        for (size_t i = 0; i < KILL_BATCH; i++) {
            tasks[i] = plain_task(f);
            ops[i] = (struct op_insert){ .op.kind = OP_INSERT, .tasks = &tasks[i], .count = 1 };
            list[i] = &ops[i].op;
        }
        if (store_apply(f->store, list, KILL_BATCH, &e))
            _exit(1);
        for (size_t i = 0; i < KILL_BATCH; i++)
            if (write(fd, &tasks[i].id, sizeof tasks[i].id) != sizeof tasks[i].id)
                _exit(1);
    }
}

static size_t read_ids(int fd, struct uuid *ids, size_t n, size_t max)
{
    while (n < max && read(fd, &ids[n], sizeof *ids) == (ssize_t)sizeof *ids)
        n++;
    return n;
}

static void what_was_acknowledged_survives_kill_9(void **state)
{
    struct fixture *f = *state;
    static struct uuid ids[1 << 16];
    size_t n = 0;
    for (uint64_t round = 0; round < KILL_ROUNDS; round++) {
        int fd[2];
        assert_int_equal(pipe(fd), 0);
        pid_t child = fork();
        if (child == 0)
            insert_for_ever(f, fd[1], 100 + round);
        close(fd[1]);
        n = read_ids(fd[0], ids, n, n + 100 + 333 * round);
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        n = read_ids(fd[0], ids, n, array_count(ids)); /* the ids that it wrote before it died */
        close(fd[0]);
    }
    open_store(f);
    struct reader *r = open_reader(f);
    struct error e;
    for (size_t i = 0; i < n; i++) {
        struct task t;
        arena_reset(&f->arena);
        if (reader_get(r, 1, ids[i], &f->arena, &t, &e))
            fail_msg("task %zu of %zu is lost: %s", i, n, e.text);
    }
    reader_free(r);
    int64_t counted = counts(f).by_state[TASK_SCHEDULED];
    assert_true(counted >= (int64_t)n && counted <= (int64_t)n + KILL_ROUNDS * KILL_BATCH);
}

/* ---- damaged and foreign files ---- */

static void overwrite(struct fixture *f, off_t at, size_t n)
{
    char junk[8192];
    memset(junk, 'x', sizeof junk);
    int fd = open(file_of(f, "belfry.db"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, junk, n, at), n);
    close(fd);
}

static void a_damaged_file_is_named_with_what_to_do(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    close_store(f);
    overwrite(f, 0, 4096);
    struct error e = { 0 };
    assert_int_equal(store_sqlite_open(f->directory, 0, &f->store, &e), ERR_CORRUPT);
    char expected[160];
    snprintf(expected, sizeof expected, "'%s' is damaged (file is not a database): restore a backup, or move it away",
             file_of(f, "belfry.db"));
    assert_string_equal(e.text, expected);
    assert_null(f->store);
    struct store_migration *v;
    size_t count;
    assert_int_equal(store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e), ERR_CORRUPT);
}

static void damage_found_later_is_told_too(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task t = plain_task(f);
    insert(f, &t, 1);
    close_store(f);
    struct stat st;
    assert_int_equal(stat(file_of(f, "belfry.db"), &st), 0);
    for (off_t at = 3 * 4096; at < st.st_size; at += 4096)
        overwrite(f, at, 4096);
    struct error e = { 0 };
    enum err rc = store_sqlite_open(f->directory, 0, &f->store, &e);
    if (!rc)
        rc = try_insert(f, &t, &e);
    assert_int_equal(rc, ERR_CORRUPT);
    assert_says(&e, "is damaged (");
}

static void a_file_of_somebody_else_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(f->directory, 0700), 0);
    edit_file(f, "CREATE TABLE cats (name TEXT)");
    struct error e = { 0 };
    assert_int_equal(store_sqlite_open(f->directory, 0, &f->store, &e), ERR_CORRUPT);
    assert_says(&e, "is an SQLite file, but not one of belfry's: move it away");
}

static void a_newer_schema_is_refused(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    close_store(f);
    edit_file(f, "INSERT INTO migrations (version, name, applied_ms) VALUES (9000, 'later', 5)");
    struct error e = { 0 };
    assert_int_equal(store_sqlite_open(f->directory, 0, &f->store, &e), ERR_INVALID);
    assert_says(&e, "has schema version 9000, this belfry knows up to ");
    assert_says(&e, ": use a newer belfry");
    struct store_migration *v;
    size_t count;
    assert_ok(store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e), &e);
    assert_int_equal(count, newest_schema() + 1);
    assert_true(v[0].known && v[0].applied);
    assert_int_equal(v[newest_schema()].version, 9000);
    assert_str(v[newest_schema()].name, "later");
    assert_true(!v[newest_schema()].known && v[newest_schema()].applied && v[newest_schema()].applied_ms == 5);
}

static void a_row_we_did_not_write_fails_only_who_reads_it(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *sql, *says;
    } rows[] = {
        { "UPDATE tasks SET priority = 77", "task with invalid priority 77" },
        { "UPDATE tasks SET priority = 5, retry = '{'", "task with invalid retry" },
        { "UPDATE tasks SET retry = NULL, schedule = '[1]'", "task with invalid schedule" },
        { "UPDATE tasks SET schedule = NULL, lane = 5", "lane 5 does not exist" },
        { "UPDATE tasks SET lane = 1; UPDATE lanes SET lane = 2", "lane 2 is not valid" },
        { "UPDATE lanes SET lane = 1, priority = 10", "lane 1 is not valid" },
    };
    open_store(f);
    struct task t = plain_task(f);
    insert(f, &t, 1);
    for (size_t i = 0; i < array_count(rows); i++) {
        edit_file(f, rows[i].sql);
        struct error e = { 0 };
        struct reader *r = open_reader(f);
        assert_int_equal(reader_get(r, 1, t.id, &f->arena, &t, &e), ERR_CORRUPT);
        assert_says(&e, rows[i].says);
        reader_free(r);
    }
}

static void a_claim_that_meets_such_a_row_fails_alone(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task t = plain_task(f), other = plain_task(f);
    insert(f, &t, 1);
    edit_file(f, "UPDATE tasks SET attempts = -1");
    struct op_claim bad = claim_op(f, &usual_lane);
    struct op_insert good = { .op.kind = OP_INSERT, .tasks = &other, .count = 1 };
    struct error e = { 0 };
    assert_ok(store_apply(f->store, (struct op *[]){ &bad.op, &good.op }, 2, &e), &e);
    f->arena = bad.op.arena;
    assert_int_equal(bad.op.rc, ERR_CORRUPT);
    assert_ok(good.op.rc, &good.op.error);
    assert_int_equal(get(f, other.id, &t), ERR_OK);
}

/* ---- migrations ---- */

static void migrations_go_down_and_up_again(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    struct store_migration *v;
    size_t count;
    assert_ok(store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e), &e);
    assert_int_equal(count, newest_schema());
    assert_str(v[0].name, "spine");
    assert_str(v[1].name, "one_node");
    assert_str(v[2].name, "nodes");
    assert_str(v[3].name, "fleet");
    assert_true(v[0].known && !v[0].applied);

    assert_ok(store_sqlite_migrate(f->directory, STORE_SQLITE_NEWEST, 1234, &e), &e);
    open_store(f);
    struct task t = plain_task(f);
    insert(f, &t, 1);
    assert_ok(store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e), &e); /* while the store is open */
    assert_true(v[0].applied && v[0].applied_ms == 1234);
    close_store(f);

    assert_ok(store_sqlite_migrate(f->directory, 0, 5, &e), &e);
    assert_ok(store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e), &e);
    assert_int_equal(count, newest_schema());
    assert_false(v[0].applied || v[1].applied);
    assert_int_equal(store_sqlite_migrate(f->directory, newest_schema() + 1, 5, &e), ERR_INVALID);
    char says[80];
    snprintf(says, sizeof says, "there is no schema version %d: this belfry knows up to %d", newest_schema() + 1,
             newest_schema());
    assert_says(&e, says);

    open_store(f);
    assert_int_equal(get(f, t.id, &t), ERR_NOT_FOUND);
    insert(f, &t, 1);
    assert_int_equal(claim(f).n, 1);
    assert_ok(store_sqlite_migrations(f->directory, &f->arena, &v, &count, &e), &e);
    assert_true(v[0].applied && v[0].applied_ms == 0);
}

static size_t how_many_are_there(struct fixture *f, const struct task *v, size_t n)
{
    size_t there = 0;
    struct task t;
    for (size_t i = 0; i < n; i++)
        there += get(f, v[i].id, &t) == ERR_OK;
    return there;
}

static void upkeep_brings_a_few_near_on_the_evening_before_their_day(void **state)
{
    struct fixture *f = *state;
    struct task v[5];
    open_store(f);
    for (size_t i = 0; i < array_count(v); i++) {
        v[i] = plain_task(f);
        v[i].created_ms = NOW_MS;
        v[i].due_ms = NOW_MS + 10 * DAY_MS;
    }
    insert(f, v, array_count(v));
    int64_t day_ms = v[0].due_ms - v[0].due_ms % DAY_MS;
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = day_ms - DAY_MS / 2, .max = 2 };
    apply(f, &op.op);
    assert_false(op.ret_more);
    op.now_ms = day_ms - DAY_MS / 12;
    apply(f, &op.op);
    assert_true(op.ret_more);
    close_store(f);
    edit_file(f, "DELETE FROM tasks WHERE near");
    open_store(f);
    assert_int_equal(how_many_are_there(f, v, array_count(v)), 3);
}

static struct tasks lease(struct fixture *f)
{
    static const struct lease_terms terms = { NOW_MS + 60000, { "w", 1 } };
    struct op_claim op = claim_op(f, &usual_lane);
    op.lease = &terms;
    op.max_suspects = 10;
    apply(f, &op.op);
    f->arena = op.op.arena;
    return op.ret;
}

static void leases_go_down_and_up_with_data_in_place(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    struct task v[4] = { plain_task(f), plain_task(f), plain_task(f), plain_task(f) };
    v[0].target = v[1].target = v[2].target = TARGET_WORKER;
    v[1].losses = SUSPECT_LOSSES;
    v[2].due_ms = NOW_MS - 1;
    v[2].requires = S("gpu");
    v[3].target = TARGET_WORKFLOW;
    open_store(f);
    insert(f, v, 1);
    assert_int_equal(lease(f).n, 1);
    insert(f, v + 1, 3);
    close_store(f);
    assert_ok(store_sqlite_migrate(f->directory, 3, 5, &e), &e);
    assert_ok(store_sqlite_migrate(f->directory, STORE_SQLITE_NEWEST, 5, &e), &e);
    open_store(f);
    struct tasks leased = lease(f);
    assert_int_equal(leased.n, 2); /* not the WORKFLOW task */
    assert_true(uuid_eq(leased.v[0].id, v[2].id) && uuid_eq(leased.v[1].id, v[1].id));
    assert_int_equal(leased.v[0].requires.n, 0); /* data that only the newer schema can hold is lost */
    struct op_orphans held = { .op.kind = OP_ORPHANS, .op.arena = f->arena, .max = 10 };
    apply(f, &held.op);
    f->arena = held.op.arena;
    assert_int_equal(held.ret.n, 1); /* a task that was leased belongs to its node again */
    assert_true(uuid_eq(held.ret.v[0].id, v[0].id));
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    close_store(f);
    edit_file(f, "DROP TABLE leases");
    assert_int_equal(store_sqlite_migrate(f->directory, 0, 5, &e), ERR_CORRUPT);
    assert_says(&e, "migration 1 (spine) down: ");
    assert_says(&e, "no such table: leases");
    edit_file(f, "SELECT id FROM tasks");
}

/* ---- records beside the tasks ---- */

static void a_claims_row_goes_with_its_last_task(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task v[2] = { plain_task(f), plain_task(f) };
    insert(f, v, 2);
    struct tasks claimed = claim(f);
    assert_int_equal(claimed.n, 2);
    finish(f, &claimed.v[0], TASK_COMPLETED);
    assert_int_equal(number(f, "SELECT held FROM claims"), 1);
    finish(f, &claimed.v[1], TASK_FAILED);
    assert_int_equal(number(f, "SELECT count(*) FROM claims"), 0);
    assert_int_equal(claim(f).n, 0);
    assert_int_equal(number(f, "SELECT count(*) FROM claims"), 0); /* an empty claim has no row */
}

static void a_task_put_under_a_claim_is_held_by_it(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task v[2] = { plain_task(f), plain_task(f) };
    v[1].due_ms++;
    insert(f, v, 2);
    struct tasks claimed = claim(f);
    assert_int_equal(claimed.n, 1);
    v[1].state = TASK_RUNNING;
    v[1].fence = 1;
    v[1].claim = claimed.v[0].claim;
    struct op_put put = { .op.kind = OP_PUT, .task = &v[1], .version = 1, .state = TASK_SCHEDULED };
    apply(f, &put.op);
    struct task brought = plain_task(f);
    brought.state = TASK_RUNNING;
    brought.fence = 1;
    brought.claim = claimed.v[0].claim;
    insert(f, &brought, 1);
    assert_int_equal(number(f, "SELECT held FROM claims"), 3);
    struct op_claimed op = { .op.kind = OP_CLAIMED, .claim = brought.claim };
    arena_init(&op.op.arena, 1 << 20);
    apply(f, &op.op);
    assert_int_equal(op.ret.n, 3);
    arena_release(&op.op.arena);

    put.fence = 1; /* a task that a user's edit took out of its claim is not returned */
    put.state = TASK_RUNNING;
    v[1].state = TASK_CANCELLED;
    v[1].claim = (struct uuid){ 0 };
    apply(f, &put.op);
    assert_int_equal(number(f, "SELECT held FROM claims"), 2);
    finish(f, &claimed.v[0], TASK_COMPLETED);
    finish(f, &brought, TASK_COMPLETED);
    assert_int_equal(number(f, "SELECT count(*) FROM claims"), 0);
}

static void an_insert_that_fails_takes_its_lane_with_it(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct task there = plain_task(f), v[2] = { plain_task(f), there }, next = plain_task(f), t;
    insert(f, &there, 1);
    v[0].queue = S("new");
    v[1].created_ms++;
    next.queue = S("newer");
    struct op_insert bad = { .op.kind = OP_INSERT, .tasks = v, .count = 2 };
    struct op_insert good = { .op.kind = OP_INSERT, .tasks = &next, .count = 1 };
    struct error e = { 0 };
    assert_ok(store_apply(f->store, (struct op *[]){ &bad.op, &good.op }, 2, &e), &e);
    assert_int_equal(bad.op.rc, ERR_CONFLICT);
    assert_string_equal(bad.op.error.field, "id");
    assert_ok(good.op.rc, &good.op.error);
    assert_int_equal(get(f, v[0].id, &t), ERR_NOT_FOUND);
    assert_int_equal(get(f, next.id, &t), ERR_OK);
    assert_str(t.queue, "newer");
    assert_int_equal(number(f, "SELECT count(*) FROM lanes"), 2);
    assert_int_equal(counts(f).by_state[TASK_SCHEDULED], 2);
}

/* Independent of the speed of the disk: in the end far more bytes went through the write-ahead log than it holds. */
static void the_log_does_not_grow_for_ever(void **state)
{
    struct fixture *f = *state;
    enum { BYTES = 1 << 20, LEAST = 96, MOST = 1024 };
    open_store(f);
    char *text = xcalloc(1, BYTES);
    memset(text, 'x', BYTES);
    struct stat st = { 0 };
    int rounds = 0;
    while (rounds < LEAST || (rounds < MOST && st.st_size > (off_t)rounds * BYTES * 3 / 4)) {
        struct task t = plain_task(f);
        t.payload = (struct str){ text, BYTES };
        insert(f, &t, 1);
        rounds++;
        assert_int_equal(stat(file_of(f, "belfry.db-wal"), &st), 0);
    }
    free(text);
    assert_true(rounds < MOST);
}

/* ---- reading ---- */

static void fill(struct fixture *f, size_t count, struct str queue)
{
    enum { BATCH = 4000 };
    struct task *tasks = xcalloc(BATCH, sizeof *tasks);
    for (size_t done = 0; done < count; done += BATCH) {
        size_t n = min_of(count - done, (size_t)BATCH);
        for (size_t i = 0; i < n; i++) {
            tasks[i] = plain_task(f);
            tasks[i].queue = queue;
        }
        insert(f, tasks, n);
    }
    free(tasks);
}

static void a_search_ends_after_a_hundred_thousand_rows(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    struct task oldest = plain_task(f);
    oldest.queue = S("rare");
    insert(f, &oldest, 1);
    fill(f, 100100, S("common"));
    struct reader *r = open_reader(f);
    struct task_filter filter = { .tenant = 1, .queue = S("rare"), .limit = 10 };
    struct task_page page;
    assert_ok(reader_list(r, &filter, &f->arena, &page, &e), &e);
    assert_int_equal(page.tasks.n, 0);
    assert_true(page.more);
    filter.before = page.next_before;
    assert_ok(reader_list(r, &filter, &f->arena, &page, &e), &e);
    assert_int_equal(page.tasks.n, 1);
    assert_true(uuid_eq(page.tasks.v[0].id, oldest.id));
    assert_false(page.more);
    size_t n;
    filter = (struct task_filter){ .tenant = 1, .queue = S("common") };
    assert_ok(reader_count(r, &filter, 10000, &n, &e), &e);
    assert_int_equal(n, 10000);
    assert_ok(reader_count(r, &filter, 0, &n, &e), &e);
    assert_int_equal(n, 0);
    struct task_count count;
    filter.queue = S("rare");
    assert_ok(reader_count_tasks(r, &filter, 10000, &count, &e), &e);
    assert_true(count.n == 0 && count.is_cut);
    filter = (struct task_filter){ .tenant = 1, .before = page.tasks.v[0].id };
    assert_ok(reader_count_tasks(r, &filter, 10000, &count, &e), &e);
    assert_true(count.n == 0 && !count.is_cut);
    reader_free(r);
}

static void pages_join_without_gap_or_repeat(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    enum { ALL = 9500 };
    open_store(f);
    fill(f, ALL, S("default"));
    struct reader *r = open_reader(f);
    struct task_filter filter = { .tenant = 1, .limit = 999 };
    struct task_page page = { .more = true };
    struct uuid last = { { 255 } };
    size_t seen = 0;
    while (page.more) {
        arena_reset(&f->arena);
        assert_ok(reader_list(r, &filter, &f->arena, &page, &e), &e);
        for (size_t i = 0; i < page.tasks.n; i++, seen++) {
            assert_true(uuid_cmp(page.tasks.v[i].id, last) < 0);
            last = page.tasks.v[i].id;
        }
        filter.before = page.next_before;
    }
    assert_int_equal(seen, ALL);
    reader_free(r);
}

static void a_reader_cannot_write(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    struct reader *first = open_reader(f), *second = open_reader(f);
    struct task t = plain_task(f), back;
    insert(f, &t, 1);
    struct error e = { 0 };
    /* A reader that was opened before the commit sees it. */
    assert_ok(reader_get(first, 1, t.id, &f->arena, &back, &e), &e);
    assert_ok(reader_get(second, 1, t.id, &f->arena, &back, &e), &e);
    reader_free(first);
    reader_free(second);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(what_was_written_is_there_after_a_restart),
        T(a_new_directory_is_private),
        T(what_stands_where_the_file_should_be_is_named),
        T(a_directory_that_cannot_be_made_is_named),
        T(a_second_process_is_refused_by_name),
        T(what_was_acknowledged_survives_kill_9),
        T(a_damaged_file_is_named_with_what_to_do),
        T(damage_found_later_is_told_too),
        T(a_file_of_somebody_else_is_refused),
        T(a_newer_schema_is_refused),
        T(a_row_we_did_not_write_fails_only_who_reads_it),
        T(a_claim_that_meets_such_a_row_fails_alone),
        T(migrations_go_down_and_up_again),
        T(upkeep_brings_a_few_near_on_the_evening_before_their_day),
        T(leases_go_down_and_up_with_data_in_place),
        T(a_migration_that_fails_changes_nothing),
        T(a_claims_row_goes_with_its_last_task),
        T(a_task_put_under_a_claim_is_held_by_it),
        T(an_insert_that_fails_takes_its_lane_with_it),
        T(the_log_does_not_grow_for_ever),
        T(a_search_ends_after_a_hundred_thousand_rows),
        T(pages_join_without_gap_or_repeat),
        T(a_reader_cannot_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
