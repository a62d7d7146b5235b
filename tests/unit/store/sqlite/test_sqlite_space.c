/* The size of the file: a purge returns free space, a little at a time, if the file has incremental auto_vacuum; files
 * of older versions. */
#include "sqlite_fixture.h"

#include "store/sqlite/backup.h"
#include "store/sqlite/migrate.h"

enum { TASKS = 2000, TEXT = 3000, PAGE = 4096, GIVEN_MAX = 128 };

/* A file as an older version creates it. */
static void make_older_file(struct fixture *f)
{
    assert_int_equal(mkdir(f->directory, 0700), 0);
    edit_file(f, "CREATE TABLE t (a); DROP TABLE t");
}

static int64_t pages(struct fixture *f)
{
    return number_in(f, "belfry.db", "PRAGMA page_count");
}

static void fill(struct fixture *f)
{
    static struct task v[TASKS];
    static char text[TEXT];
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < TASKS; i++) {
        v[i] = plain_task(f);
        v[i].payload = (struct str){ text, sizeof text };
        v[i].state = TASK_COMPLETED;
        v[i].completed_ms = NOW_MS;
    }
    insert(f, v, TASKS);
}

static struct op_purge forget(struct fixture *f)
{
    struct op_purge op = { .op.kind = OP_PURGE, .tasks_before_ms = NOW_MS + 1, .max = 250 };
    apply(f, &op.op);
    return op;
}

static void forget_all(struct fixture *f)
{
    while (forget(f).ret_more)
        ;
    assert_int_equal(counts(f).by_state[TASK_COMPLETED], 0);
}

static void a_file_shrinks_when_what_filled_it_is_forgotten(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    open_store(f);
    fill(f);
    int64_t full = pages(f);
    assert_true(full > TASKS / 2);
    forget_all(f);
    assert_true(pages(f) < full / 3);
    int64_t left = pages(f);
    close_store(f); /* the write-ahead log is copied into the file */
    assert_int_equal(stat(file_of(f, "belfry.db"), &st), 0);
    assert_int_equal(st.st_size, left * PAGE);
    open_store(f);
    fill(f);
    assert_int_equal(counts(f).by_state[TASK_COMPLETED], TASKS);
}

static void no_batch_gives_back_much_at_once(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f);
    int64_t before = pages(f), given = 0;
    for (bool more = true; more;) {
        more = forget(f).ret_more;
        int64_t after = pages(f);
        assert_true(before - after <= GIVEN_MAX + 1); /* plus a page of pointers */
        given += before - after;
        before = after;
    }
    assert_true(given > GIVEN_MAX);
}

static void room_for_what_comes_next_is_kept(void **state)
{
    struct fixture *f = *state;
    open_store(f);
    fill(f);
    forget_all(f);
    assert_true(number_in(f, "belfry.db", "PRAGMA freelist_count") > 0);
    assert_false(forget(f).ret_more); /* free space alone is no reason to ask again */
}

static void an_older_file_works_on_and_uses_its_room_again(void **state)
{
    struct fixture *f = *state;
    make_older_file(f);
    open_store(f);
    assert_int_equal(number_in(f, "belfry.db", "PRAGMA auto_vacuum"), 0);
    fill(f);
    int64_t full = pages(f);
    forget_all(f);
    assert_int_equal(pages(f), full);
    fill(f);
    assert_true(pages(f) < full + full / 10);
}

static void what_ended_before_an_upgrade_is_forgotten_after_it(void **state)
{
    struct fixture *f = *state;
    struct error e = { 0 };
    open_store(f);
    fill(f);
    struct task dead = plain_task(f);
    dead.state = TASK_FAILED;
    dead.completed_ms = NOW_MS;
    insert(f, &dead, 1);
    close_store(f);
    assert_ok(store_sqlite_migrate(f->directory, 1, NOW_MS, &e), &e); /* the schema before the table `ended` existed */
    open_store(f);
    forget_all(f);
    assert_int_equal(counts(f).by_state[TASK_FAILED], 1);
    struct op_purge op = { .op.kind = OP_PURGE, .dlq_before_ms = NOW_MS + 1, .max = 250 };
    apply(f, &op.op);
    assert_int_equal(op.ret_purged, 1);
}

static void the_copy_of_an_older_file_can_shrink(void **state)
{
    struct fixture *f = *state;
    struct store_sqlite_facts facts;
    struct error e = { 0 };
    make_older_file(f);
    open_store(f);
    fill(f);
    assert_ok(store_sqlite_backup(&(struct backup_request){ .directory = f->directory, .path = file_of(f, "copy.db") },
                                  &facts, &e),
              &e);
    close_store(f);
    char copy[128];
    snprintf(copy, sizeof copy, "%s", file_of(f, "copy.db"));
    assert_int_equal(rename(copy, file_of(f, "belfry.db")), 0);
    open_store(f);
    assert_int_equal(counts(f).by_state[TASK_COMPLETED], TASKS);
    int64_t full = pages(f);
    forget_all(f);
    assert_true(pages(f) < full / 3);
}

static const struct CMUnitTest tests[] = {
#define row(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    row(a_file_shrinks_when_what_filled_it_is_forgotten),
    row(no_batch_gives_back_much_at_once),
    row(room_for_what_comes_next_is_kept),
    row(an_older_file_works_on_and_uses_its_room_again),
    row(what_ended_before_an_upgrade_is_forgotten_after_it),
    row(the_copy_of_an_older_file_can_shrink),
#undef row
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
