/* Backups of a store: complete while it runs, and refused if they are not. */
#include "sqlite_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "store/sqlite/backup_internal.h"

enum { TASKS = 500 };

static const char *copy_of(const struct fixture *f)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/copy.db", f->directory);
    return path;
}

static const char *part_of(const struct fixture *f)
{
    static char path[140];
    snprintf(path, sizeof path, "%s.part", copy_of(f));
    return path;
}

static void fill(struct fixture *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct task t = plain_task(f);
        insert(f, &t, 1);
    }
}

static struct store_sqlite_facts backed_up(struct fixture *f)
{
    struct store_sqlite_facts facts = { 0 };
    struct error e = { 0 };
    assert_ok(
        store_sqlite_backup(&(struct backup_request){ .directory = f->directory, .path = copy_of(f) }, &facts, &e), &e);
    return facts;
}

static void assert_no_copy(struct fixture *f)
{
    assert_int_equal(access(copy_of(f), F_OK), -1);
    assert_int_equal(access(part_of(f), F_OK), -1);
}

/* Opens the copy as a data directory of its own. */
static void move_into(struct fixture *f)
{
    char place[128];
    close_store(f);
    snprintf(place, sizeof place, "%s/restored", f->directory);
    assert_int_equal(mkdir(place, 0700), 0);
    snprintf(place, sizeof place, "%s/restored/belfry.db", f->directory);
    assert_int_equal(rename(copy_of(f), place), 0);
    struct error e = { 0 };
    snprintf(place, sizeof place, "%s/restored", f->directory);
    assert_ok(store_sqlite_open(place, 0, &f->store, &e), &e);
}

/* A check of all tables precedes the end: no row of any table may look damaged to it. */
static void a_store_whose_tasks_hold_slots_is_backed_up(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    for (int i = 0; i < 3; i++) {
        struct task t = plain_task(f);
        t.concurrency_key = S("one at a time");
        t.concurrency_limit = 1;
        insert(f, &t, 1);
    }
    assert_int_equal(claim(f).n, 1);
    assert_int_equal(backed_up(f).tasks, 3);
    move_into(f);
}

static void the_copy_of_an_open_store_holds_what_was_written_before(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f, TASKS);
    struct task before = plain_task(f), after = plain_task(f), read;
    insert(f, &before, 1);
    finish(f, &claim(f).v[0], TASK_COMPLETED);
    struct store_sqlite_facts facts = backed_up(f);
    assert_int_equal(facts.tasks, TASKS + 1);
    assert_int_equal(facts.executions, 1);
    assert_int_equal(facts.version, newest_schema());
    insert(f, &after, 1);
    struct stat st;
    assert_int_equal(stat(copy_of(f), &st), 0);
    assert_int_equal(st.st_size, facts.bytes);
    assert_int_equal(st.st_mode & 0777, 0600);
    move_into(f);
    assert_int_equal(get(f, before.id, &read), ERR_OK);
    assert_int_equal(get(f, after.id, &read), ERR_NOT_FOUND);
    assert_int_equal(counts(f).by_state[TASK_COMPLETED], 1);
    insert(f, &after, 1);
}

static void a_store_that_nobody_has_open_is_copied_too(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f, 3);
    close_store(f);
    assert_int_equal(backed_up(f).tasks, 3);
}

struct writing {
    struct fixture *f;
    atomic_bool stop;
    atomic_int committed;
};

static void *keep_writing(void *context)
{
    struct writing *w = context;
    while (!atomic_load(&w->stop)) {
        struct task t = plain_task(w->f);
        insert(w->f, &t, 1);
        atomic_fetch_add(&w->committed, 1);
    }
    return NULL;
}

static void a_copy_made_while_others_write_is_whole(void **state)
{
    struct fixture *f = *state;
    struct writing w = { .f = f };
    pthread_t thread;
    open_store(f);
    fill(f, TASKS);
    assert_int_equal(pthread_create(&thread, NULL, keep_writing, &w), 0);
    while (atomic_load(&w.committed) == 0)
        sched_yield();
    int before = atomic_load(&w.committed);
    struct store_sqlite_facts facts = backed_up(f);
    int after = atomic_load(&w.committed);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_true(facts.tasks >= TASKS + before && facts.tasks <= TASKS + after + 1);
}

/* ---- progress ---- */

struct told {
    int calls[2];
    int64_t last[2], total[2];
    int give_up_at; /* the step at which to cancel, or -1 */
};

static bool tell(void *context, enum backup_step step, int64_t done, int64_t total)
{
    struct told *t = context;
    assert_true(done >= t->last[step] && done <= total);
    t->calls[step]++;
    t->last[step] = done;
    t->total[step] = total;
    return t->give_up_at != (int)step;
}

static void progress_goes_from_nothing_to_all(void **state)
{
    struct fixture *f = *state;
    struct told told = { .give_up_at = -1 };
    struct backup_progress progress = { tell, &told };
    struct store_sqlite_facts facts;
    struct error e = { 0 };
    open_store(f);
    fill(f, TASKS);
    assert_ok(store_sqlite_backup(
                  &(struct backup_request){ .directory = f->directory, .path = copy_of(f), .progress = &progress },
                  &facts, &e),
              &e);
    for (int step = BACKUP_COPYING; step <= BACKUP_VERIFYING; step++) {
        assert_true(told.calls[step] >= 2);
        assert_int_equal(told.last[step], told.total[step]);
    }
    assert_int_equal(told.total[BACKUP_VERIFYING], facts.bytes);
}

static void a_copy_that_is_given_up_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite_facts facts;
    open_store(f);
    fill(f, 10);
    for (int step = BACKUP_COPYING; step <= BACKUP_VERIFYING; step++) {
        struct told told = { .give_up_at = step };
        struct backup_progress progress = { tell, &told };
        struct error e = { 0 };
        assert_int_equal(
            store_sqlite_backup(
                &(struct backup_request){ .directory = f->directory, .path = copy_of(f), .progress = &progress },
                &facts, &e),
            ERR_UNAVAILABLE);
        assert_says(&e, "cancelled");
        assert_no_copy(f);
    }
}

/* ---- requests and files that are refused ---- */

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void a_file_that_is_there_is_not_written_over(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite_facts facts;
    struct error e = { 0 };
    open_store(f);
    write_file(copy_of(f), "mine");
    assert_int_equal(
        store_sqlite_backup(&(struct backup_request){ .directory = f->directory, .path = copy_of(f) }, &facts, &e),
        ERR_CONFLICT);
    assert_says(&e, "already exists");
    struct stat st;
    assert_int_equal(stat(copy_of(f), &st), 0);
    assert_int_equal(st.st_size, 4);
}

static void what_an_earlier_try_has_left_is_replaced(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f, 2);
    write_file(part_of(f), "half of a copy");
    assert_int_equal(backed_up(f).tasks, 2);
    assert_int_equal(access(part_of(f), F_OK), -1);
}

static void without_a_store_there_is_nothing_to_copy(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite_facts facts;
    struct error e = { 0 };
    assert_int_equal(mkdir(f->directory, 0700), 0);
    assert_int_equal(
        store_sqlite_backup(&(struct backup_request){ .directory = f->directory, .path = copy_of(f) }, &facts, &e),
        ERR_NOT_FOUND);
    assert_says(&e, "there is no store to copy");
    assert_no_copy(f);
}

static void a_place_that_cannot_be_written_is_named(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite_facts facts;
    struct error e = { 0 };
    open_store(f);
    assert_int_equal(
        store_sqlite_backup(&(struct backup_request){ .directory = f->directory, .path = "/no/such/folder/copy.db" },
                            &facts, &e),
        ERR_UNAVAILABLE);
    assert_says(&e, "/no/such/folder/copy.db");
}

static void refused(const char *path, enum err rc, const char *part)
{
    struct store_sqlite_facts facts;
    struct error e = { 0 };
    assert_int_equal(store_sqlite_verify(path, NULL, &facts, &e), rc);
    assert_says(&e, part);
}

static void change_copy(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    (void)unlink(copy_of(f));
    (void)backed_up(f);
    assert_int_equal(sqlite3_open(copy_of(f), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void a_file_that_is_not_whole_is_not_verified(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f, TASKS);
    refused(copy_of(f), ERR_NOT_FOUND, "No such file");
    write_file(copy_of(f), "");
    refused(copy_of(f), ERR_CORRUPT, "is empty");
    write_file(copy_of(f), "this is not a database, but long enough to be looked at as if it were one, is it not?");
    refused(copy_of(f), ERR_CORRUPT, "damaged");
    change_copy(f, "UPDATE counts SET n = n + 1");
    refused(copy_of(f), ERR_CORRUPT, "its task counts differ from its tasks");
    change_copy(f, "DELETE FROM counts");
    refused(copy_of(f), ERR_CORRUPT, "its task counts differ from its tasks");
    change_copy(f, "INSERT INTO migrations (version, name, applied_ms) VALUES (9000, 'later', 5)");
    refused(copy_of(f), ERR_INVALID, "use a newer belfry");
    change_copy(f, "DROP TABLE migrations");
    refused(copy_of(f), ERR_CORRUPT, "not one of belfry's");
    change_copy(f, "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = "
                   "(SELECT rootpage FROM sqlite_schema WHERE name = 'tasks_id') WHERE name = 'tasks_name'");
    refused(copy_of(f), ERR_CORRUPT, "is damaged");
}

static void a_copy_that_was_cut_short_is_not_verified(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f, TASKS);
    struct store_sqlite_facts facts = backed_up(f);
    assert_int_equal(truncate(copy_of(f), facts.bytes / 2), 0);
    refused(copy_of(f), ERR_CORRUPT, "damaged");
}

/* As on a file system that cannot refuse to replace a file by itself. */
static void a_file_that_appeared_meanwhile_is_not_replaced(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    struct stat first, second;
    open_store(f);
    assert_ok(backup_make_part(part_of(f), &e), &e);
    assert_int_equal(backup_rename_by_link(part_of(f), copy_of(f)), 0);
    assert_int_equal(access(part_of(f), F_OK), -1);
    assert_int_equal(stat(copy_of(f), &first), 0);
    assert_ok(backup_make_part(part_of(f), &e), &e);
    assert_int_equal(backup_rename_by_link(part_of(f), copy_of(f)), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(stat(copy_of(f), &second), 0);
    assert_true(first.st_ino == second.st_ino && second.st_nlink == 1);
}

static const struct CMUnitTest tests[] = {
#define row(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    row(a_store_whose_tasks_hold_slots_is_backed_up), row(the_copy_of_an_open_store_holds_what_was_written_before),
    row(a_store_that_nobody_has_open_is_copied_too),  row(a_copy_made_while_others_write_is_whole),
    row(progress_goes_from_nothing_to_all),           row(a_copy_that_is_given_up_leaves_nothing),
    row(a_file_that_is_there_is_not_written_over),    row(a_file_that_appeared_meanwhile_is_not_replaced),
    row(what_an_earlier_try_has_left_is_replaced),    row(without_a_store_there_is_nothing_to_copy),
    row(a_place_that_cannot_be_written_is_named),     row(a_file_that_is_not_whole_is_not_verified),
    row(a_copy_that_was_cut_short_is_not_verified),
#undef row
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
