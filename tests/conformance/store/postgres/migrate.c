/* Migrating PostgreSQL's schema up and down, with data in place and with running nodes; and migrations that a later
 * release might have. */
#include <pthread.h>

#include "store/postgres/internal.h"
#include "store_world.h"

enum { NODES = 4 };

static char url[POSTGRES_URL];

static int set_up(void **state)
{
    (void)state;
    postgres_make("migrate", url);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    postgres_drop(url);
    return 0;
}

/* ---- a later release: our migrations and these ---- */

extern const struct embedded_file migrations_postgres[];
extern const size_t migrations_postgres_count;

#define FILE_OF(file, text)                                                                                            \
    {                                                                                                                  \
        file,                                                                                                          \
        {                                                                                                              \
            text, sizeof(text) - 1                                                                                     \
        }                                                                                                              \
    }

static const struct embedded_file later_files[] = {
    FILE_OF("0001_start.down.sql", "DROP TABLE things;\n"),
    FILE_OF("0001_start.up.sql",
            "-- Things; not people.\nCREATE TABLE things (\n    id integer PRIMARY KEY, -- a number;\n"
            "    name text DEFAULT 'a--b'\n);\nINSERT INTO things VALUES (1); -- the first\n"),
    FILE_OF("0002_index.down.sql", "DROP INDEX CONCURRENTLY IF EXISTS things_name;\n"),
    FILE_OF("0002_index.up.sql", "-- no transaction\n-- readers from 1\n"
                                 "DROP INDEX CONCURRENTLY IF EXISTS things_name;\n"
                                 "CREATE INDEX CONCURRENTLY things_name ON things (name);\n"),
    FILE_OF("0003_column.down.sql", "ALTER TABLE things DROP COLUMN size;\n"),
    FILE_OF("0003_column.up.sql", "-- readers from 2\nALTER TABLE things ADD COLUMN size bigint NOT NULL DEFAULT 7;\n"),
    FILE_OF("0004_break.down.sql", "ALTER TABLE things RENAME COLUMN title TO name;\n"),
    FILE_OF("0004_break.up.sql", "ALTER TABLE things RENAME COLUMN name TO title;\n"),
    FILE_OF("0005_wrong.down.sql", "SELECT 1;\n"),
    FILE_OF("0005_wrong.up.sql", "-- readers from 4\nALTER TABLE things ADD COLUMN half text;\nSELECT nonsense;\n"),
};
static const struct schema all_files = { later_files, array_count(later_files) };
static const struct schema first_four = { later_files, 8 };

static enum err go(const struct schema *s, int to, bool in_company, struct error *e)
{
    struct pg_migration m = { .schema = s, .to = to, .nodes_running = in_company };
    return pg_migrate(url, clock_system(), &m, e);
}

static int64_t version(void)
{
    return postgres_number(url, "SELECT coalesce(max(version), 0) FROM schema_migrations");
}

static void steps_go_up_and_down_with_data_in_place(void **state)
{
    (void)state;
    struct error e = { 0 };
    assert_ok(go(&first_four, 1, false, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM things WHERE name = 'a--b'"), 1);
    assert_ok(go(&first_four, 3, false, &e), &e);
    assert_int_equal(version(), 3);
    assert_int_equal(postgres_number(url, "SELECT size FROM things WHERE id = 1"), 7);
    assert_int_equal(
        postgres_number(url, "SELECT indisvalid::int FROM pg_index WHERE indexrelid = 'things_name'::regclass"), 1);
    assert_ok(go(&first_four, STORE_POSTGRES_NEWEST, false, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM things WHERE title = 'a--b'"), 1);
    assert_ok(go(&first_four, 1, false, &e), &e);
    assert_int_equal(version(), 1);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM things WHERE name = 'a--b'"), 1);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relname = 'things_name'"), 0);
    assert_ok(go(&first_four, 0, false, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
                     0);
    assert_int_equal(go(&first_four, 5, false, &e), ERR_INVALID);
    assert_says(&e, "there is no schema version 5: this belfry knows up to 4");
}

static void a_step_that_fails_leaves_the_one_before(void **state)
{
    (void)state;
    struct error e = { 0 };
    assert_int_equal(go(&all_files, 5, false, &e), ERR_CORRUPT);
    assert_says(&e, "migration 5 (wrong) up: ");
    assert_int_equal(version(), 4);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_attribute WHERE attname = 'half'"), 0);
}

static void a_broken_off_index_is_built_anew(void **state)
{
    (void)state;
    struct error e = { 0 };
    assert_ok(go(&first_four, 1, false, &e), &e);
    postgres_run(url, "CREATE INDEX things_name ON things (id)"); /* as a crash between two statements leaves it */
    assert_ok(go(&first_four, 2, false, &e), &e);
    assert_int_equal(postgres_number(url,
                                     "SELECT count(*) FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = "
                                     "i.indexrelid WHERE i.indexrelid = 'things_name'::regclass AND attname = 'name'"),
                     1);
}

static void in_company_only_steps_are_taken_that_the_others_can_work_with(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct schema first_three = { later_files, 6 };
    assert_ok(go(&first_four, 2, true, &e), &e); /* an empty database has no running nodes */
    assert_ok(go(&first_three, 3, true, &e), &e);
    assert_int_equal(go(&first_four, 4, true, &e), ERR_INVALID);
    assert_says(
        &e,
        "nodes of the version before cannot work with schema version 4: stop all of them, then run 'belfry migrate up'");
    assert_int_equal(version(), 3);
    assert_ok(go(&first_four, 4, false, &e), &e);
}

static void *migrate_in_a_thread(void *context)
{
    struct error *e = context;
    (void)!go(&first_four, 3, true, e);
    return NULL;
}

static void nodes_that_start_at_once_take_each_step_once(void **state)
{
    (void)state;
    pthread_t threads[NODES];
    struct error errors[NODES] = { 0 };
    for (int i = 0; i < NODES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, migrate_in_a_thread, &errors[i]), 0);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(errors[i].code, &errors[i]);
    }
    assert_int_equal(version(), 3);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM things"), 1);
}

/* ---- our own migrations ---- */

static void *open_in_a_thread(void *context)
{
    struct error *e = context;
    struct store *s = NULL;
    if (!postgres_store_open(url, &s, e))
        store_free(s);
    return NULL;
}

static void stores_that_open_at_once_on_an_empty_database_all_open(void **state)
{
    (void)state;
    pthread_t threads[NODES];
    struct error errors[NODES] = { 0 };
    for (int i = 0; i < NODES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_in_a_thread, &errors[i]), 0);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(errors[i].code, &errors[i]);
    }
    assert_int_equal(version(), (int64_t)migrations_postgres_count / 2);
}

static void our_own_steps_go_down_and_up_again(void **state)
{
    (void)state;
    struct error e = { 0 };
    int newest = (int)migrations_postgres_count / 2;
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    int64_t tables = postgres_number(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace");
    for (int v = newest - 1; v >= 0; v--)
        assert_ok(store_postgres_migrate(url, clock_system(), v, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
                     0);
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
                     tables);
}

static void a_database_of_the_release_before_is_migrated_when_all_its_nodes_have_stopped(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s;
    assert_ok(store_postgres_migrate(url, clock_system(), 3, &e), &e);
    assert_int_equal(postgres_store_open(url, &s, &e), ERR_INVALID);
    assert_says(
        &e,
        "nodes of the version before cannot work with schema version 4: stop all of them, then run 'belfry migrate up'");
    assert_int_equal(version(), 3);
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    assert_ok(postgres_store_open(url, &s, &e), &e);
    store_free(s);
}

static void a_schema_that_is_newer_is_refused_unless_it_says_that_we_can_work_with_it(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s;
    struct arena a;
    struct store_migration *v;
    size_t n;
    arena_init(&a, 1 << 16);
    assert_ok(store_postgres_migrate(url, clock_system(), STORE_POSTGRES_NEWEST, &e), &e);
    postgres_run(url, "INSERT INTO schema_migrations VALUES (9000, 'later', 5, 1)");
    assert_ok(postgres_store_open(url, &s, &e), &e);
    store_free(s);
    postgres_run(url, "INSERT INTO schema_migrations VALUES (9001, 'break', 6, 9001)");
    assert_int_equal(postgres_store_open(url, &s, &e), ERR_INVALID);
    assert_says(&e, "the database has schema version 9001, this belfry knows up to ");
    assert_int_equal(store_postgres_migrate(url, clock_system(), 0, &e), ERR_INVALID);
    assert_ok(store_postgres_migrations(url, clock_system(), &a, &v, &n, &e), &e);
    assert_int_equal(n, migrations_postgres_count / 2 + 2);
    assert_true(v[0].known && v[0].applied && v[0].applied_ms > 0 && !v[n - 1].known && v[n - 1].applied);
    assert_str(v[n - 1].name, "break");
    arena_release(&a);
}

static void an_old_schema_is_left_alone_when_nobody_asked_for_more(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s;
    struct store_postgres_setup setup = { .url = url, .clock = clock_system() };
    assert_int_equal(store_postgres_open(&setup, &s, &e), ERR_UNAVAILABLE);
    assert_says(&e, "the schema has version 0, this belfry needs ");
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
                     0);
    postgres_run(url, "CREATE TABLE tasks (mine text)");
    assert_int_equal(postgres_store_open(url, &s, &e), ERR_INVALID);
    assert_says(&e, "tables of another program");
}

int main(void)
{
#define migrate_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        migrate_test(steps_go_up_and_down_with_data_in_place),
        migrate_test(a_step_that_fails_leaves_the_one_before),
        migrate_test(a_broken_off_index_is_built_anew),
        migrate_test(in_company_only_steps_are_taken_that_the_others_can_work_with),
        migrate_test(nodes_that_start_at_once_take_each_step_once),
        migrate_test(stores_that_open_at_once_on_an_empty_database_all_open),
        migrate_test(our_own_steps_go_down_and_up_again),
        migrate_test(a_database_of_the_release_before_is_migrated_when_all_its_nodes_have_stopped),
        migrate_test(a_schema_that_is_newer_is_refused_unless_it_says_that_we_can_work_with_it),
        migrate_test(an_old_schema_is_left_alone_when_nobody_asked_for_more),
    };
    return cmocka_run_group_tests_name("postgres_migrate", tests, NULL, NULL);
}
