/* Readers and plain records of PostgreSQL while others write, sessions end, or a replica exists. Where the order
 * matters, another session holds a lock, and the test continues once the store waits for it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store_world.h"

static char url[POSTGRES_URL];

static enum err open_here(const char *directory, struct store **ret, struct error *e)
{
    (void)directory;
    if (url[0])
        postgres_wipe(url);
    else
        postgres_make("records", url);
    return postgres_store_open(url, ret, e);
}

static const struct store_adapter here = { "postgres", open_here };

static void say(PGconn *c, const char *sql)
{
    PGresult *r = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    PQclear(r);
}

/* ---- entries that two nodes change ---- */

struct changing {
    struct world *world;
    struct catalog_change change;
    struct op_catalog op;
    pthread_t thread;
};

static void *run_change(void *context)
{
    struct changing *c = context;
    (void)!world_apply(c->world, &c->op.op);
    return NULL;
}

static const char its_wait[] = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                               "AND wait_event_type = 'Lock'";

/* Another session runs `first`, whose lock the store waits for, and later `last`. The store changes queue "q" and
 * expects a version. */
static void change_behind(struct world *w, const char *first, const char *last, int64_t version, struct changing *ret)
{
    PGconn *other = PQconnectdb(url);
    *ret = (struct changing){ .world = w,
                              .change = {
                                  .entry = { .tenant = TENANT, .kind = CATALOG_QUEUE, .name = S("q"), .doc = S("{}") },
                                  .version = version } };
    ret->op = (struct op_catalog){ .op = { .kind = OP_CATALOG }, .v = &ret->change, .n = 1, .now_ms = NOW };
    say(other, "BEGIN");
    say(other, first);
    assert_int_equal(pthread_create(&ret->thread, NULL, run_change, ret), 0);
    for (int i = 0; i < 2000 && !postgres_number(url, its_wait); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    assert_int_equal(postgres_number(url, its_wait), 1);
    say(other, last);
    assert_int_equal(pthread_join(ret->thread, NULL), 0);
    PQfinish(other);
}

#define PUT_IN                                                                                                         \
    "INSERT INTO catalog (tenant_id, kind, name, version, created_ms, updated_ms, doc) VALUES (1, 0, 'q', 1, 7, 7, '{}')"

static void of_two_nodes_that_make_an_entry_one_is_told_so(void **state)
{
    struct changing c;
    change_behind(*state, PUT_IN, "COMMIT", 0, &c);
    assert_int_equal(c.op.op.rc, ERR_CONFLICT);
    assert_string_equal(c.op.op.error.field, "version");
    assert_int_equal(postgres_number(url, "SELECT version FROM catalog"), 1);
}

static void an_entry_that_is_put_whatever_is_there_comes_behind_the_other(void **state)
{
    struct changing c;
    change_behind(*state, PUT_IN, "COMMIT", -1, &c);
    assert_int_equal(c.op.op.rc, ERR_OK);
    assert_int_equal(c.change.ret_version, 2);
    assert_int_equal(c.change.ret_created_ms, 7);
    assert_int_equal(postgres_number(url, "SELECT version FROM catalog"), 2);
}

static void an_entry_that_another_node_gave_up_to_make_is_made(void **state)
{
    struct changing c;
    change_behind(*state, PUT_IN, "ROLLBACK", 0, &c);
    assert_int_equal(c.op.op.rc, ERR_OK);
    assert_int_equal(c.change.ret_version, 1);
}

static void of_two_nodes_that_change_an_entry_one_is_told_so(void **state)
{
    struct changing c;
    postgres_run(url, PUT_IN);
    change_behind(*state, "UPDATE catalog SET version = 2", "COMMIT", 1, &c);
    assert_int_equal(c.op.op.rc, ERR_CONFLICT);
    assert_string_equal(c.op.op.error.field, "version");
}

static void an_entry_that_another_node_removes_meanwhile_begins_anew(void **state)
{
    struct changing c;
    postgres_run(url, PUT_IN);
    change_behind(*state, "DELETE FROM catalog", "COMMIT", -1, &c);
    assert_int_equal(c.op.op.rc, ERR_OK);
    assert_int_equal(c.change.ret_version, 1);
    assert_int_equal(c.change.ret_created_ms, NOW);
}

/* ---- a replica ---- */

/* The database that plays the replica has a task that the store's database lacks. It shows which of them was read. */
static struct store *open_beside(const char *read_url)
{
    struct store *s;
    struct error e = { 0 };
    struct store_postgres_setup setup = { .url = url, .read_url = read_url, .clock = clock_system() };
    assert_ok(store_postgres_open(&setup, &s, &e), &e);
    return s;
}

static size_t count_listed(struct reader *r, struct arena *a, bool may_lag, const struct uuid *expected)
{
    struct task_filter f = { .tenant = TENANT, .limit = 10, .may_lag = may_lag };
    struct task_page page = { 0 };
    struct error e = { 0 };
    size_t n = 0;
    assert_ok(reader_list(r, &f, a, &page, &e), &e);
    assert_ok(reader_count(r, &f, 10, &n, &e), &e);
    assert_int_equal(n, page.tasks.n);
    assert_true(page.tasks.n == 1 && uuid_eq(page.tasks.v[0].id, *expected));
    return n;
}

static void only_who_may_lag_is_answered_by_the_replica(void **state)
{
    struct world *w = *state;
    char elsewhere[POSTGRES_URL];
    struct task mine = some_task(w), theirs = some_task(w), got;
    struct store *other, *s;
    struct reader *r;
    struct error e = { 0 };
    postgres_make("replica", elsewhere);
    assert_ok(postgres_store_open(elsewhere, &other, &e), &e);
    insert(w, &mine, 1);
    struct world there = *w;
    there.store = other;
    there.arena_count = 0;
    insert(&there, &theirs, 1);
    s = open_beside(elsewhere);
    assert_ok(store_reader(s, &r, &e), &e);
    count_listed(r, &w->arena, true, &theirs.id);
    count_listed(r, &w->arena, false, &mine.id);
    assert_ok(reader_get(r, TENANT, mine.id, &w->arena, &got, &e), &e);
    assert_int_equal(reader_get(r, TENANT, theirs.id, &w->arena, &got, &e), ERR_NOT_FOUND);
    reader_free(r);
    store_free(s);
    store_free(other);
    for (size_t i = 0; i < there.arena_count; i++)
        arena_release(&there.arenas[i]);
    postgres_drop(elsewhere);
}

static void a_replica_that_is_away_is_stood_in_for(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct reader *r;
    struct error e = { 0 };
    insert(w, &t, 1);
    struct store *s = open_beside("postgres://belfry@127.0.0.1:1/nothing?connect_timeout=1");
    assert_ok(store_reader(s, &r, &e), &e);
    for (int i = 0; i < 5; i++)
        count_listed(r, &w->arena, true, &t.id);
    reader_free(r);
    store_free(s);
}

/* ---- sessions that end ---- */

static void a_reader_whose_session_was_ended_answers_all_the_same(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    insert(w, &t, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(uuid_eq(get(w, t.id).id, t.id));
        postgres_run(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                          "AND pid <> pg_backend_pid()");
    }
    count_listed(w->reader, &w->arena, false, &t.id);
}

/* ---- invalid texts ---- */

/* Invalid text is stored as U+FFFD. A filter with invalid text must not match a text that contains U+FFFD. */
static void what_no_text_can_hold_is_not_found_by_its_likeness(void **state)
{
    struct world *w = *state;
    static const struct str bad[] = { { "a\0b", 3 },
                                      { "a\xff"
                                        "b",
                                        3 } };
    const struct str like = S("a\xEF\xBF\xBD"
                              "b");
    struct task t = some_task(w);
    t.name = t.queue = t.task_type = t.dedupe_key = like;
    t.dedupe_window_ms = 1000;
    insert(w, &t, 1);
    struct catalog_change change = { .entry = {
                                         .tenant = TENANT, .kind = CATALOG_QUEUE, .name = like, .doc = S("{}") } };
    struct op_catalog put = { .op = { .kind = OP_CATALOG }, .v = &change, .n = 1, .now_ms = NOW };
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
    for (size_t i = 0; i < array_count(bad); i++) {
        struct error e = { 0 };
        struct uuid id;
        struct catalog_entry entry;
        int64_t due = -1;
        struct task_filter filters[] = { { .name = bad[i] }, { .queue = bad[i] }, { .task_type = bad[i] } };
        for (size_t k = 0; k < array_count(filters); k++) {
            filters[k].tenant = TENANT;
            filters[k].limit = 10;
            assert_int_equal(list(w, &filters[k]).tasks.n, 0);
        }
        assert_int_equal(reader_dedupe(w->reader, TENANT, bad[i], NOW, &id, &e), ERR_NOT_FOUND);
        assert_int_equal(reader_catalog_get(w->reader, TENANT, CATALOG_QUEUE, bad[i], &w->arena, &entry, &e),
                         ERR_NOT_FOUND);
        assert_ok(reader_queue_due(w->reader, TENANT, bad[i], NOW, &due, &e), &e);
        assert_int_equal(due, 0);
    }
}

/* ---- jobs ---- */

static void put_job(struct world *w, int32_t tenant, struct str name, struct str doc)
{
    struct catalog_change change = { .entry = { .tenant = tenant, .kind = CATALOG_JOB, .name = name, .doc = doc },
                                     .version = -1 };
    struct op_catalog put = { .op = { .kind = OP_CATALOG }, .v = &change, .n = 1, .now_ms = NOW };
    assert_int_equal(world_apply(w, &put.op), ERR_OK);
}

static void jobs_that_are_over_are_not_read_by_who_looks_for_work(void **state)
{
    struct world *w = *state;
    struct catalog_filter f = { .kind = CATALOG_JOB, .all_tenants = true, .limit = 10, .unfinished = true };
    struct catalog_page page = { 0 };
    struct error e = { 0 };
    put_job(w, TENANT, S("over"),
            S("{\"state\":\"DONE\",\"failures\":[{\"error\":\"\\\"state\\\":\\\"RUNNING\\\"\"}]}"));
    put_job(w, TENANT, S("runs"), S("{\"state\":\"DONE\"}"));
    put_job(w, TENANT, S("runs"), S("{\"id\":1,\"state\" : \"RUNNING\"}"));
    put_job(w, OTHER_TENANT, S("a"), S("{\"state\":\"RUNNING\"}"));
    put_job(w, OTHER_TENANT, S("b"), S("{\"state\":\"RUNNING\"}"));
    put_job(w, OTHER_TENANT, S("b"), S("{\"state\":\"CANCELLED\"}"));
    assert_ok(reader_catalog_list(w->reader, &f, &w->arena, &page, &e), &e);
    assert_int_equal(page.entries.n, 2);
    assert_true(str_eq(page.entries.v[0].name, S("runs")) && page.entries.v[1].tenant == OTHER_TENANT);
}

static void leases_that_expired_long_ago_are_forgotten(void **state)
{
    struct world *w = *state;
    struct op_lease old = {
        .op.kind = OP_LEASE, .name = S("job:1"), .holder = fresh_id(w), .now_ms = NOW, .ttl_ms = 5
    };
    struct op_lease held = old;
    held.name = S("job:2");
    held.ttl_ms = 60000;
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = NOW + NODE_KEPT_MS + 10, .max = 10 };
    assert_int_equal(world_apply(w, &old.op), ERR_OK);
    assert_int_equal(world_apply(w, &held.op), ERR_OK);
    assert_int_equal(world_apply(w, &op.op), ERR_OK);
    assert_int_equal(op.ret_purged, 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM leases WHERE name = 'job:1'"), 0);
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM leases WHERE name = 'job:2'"), 1);
}

/* ---- executions over several months ---- */

static void a_history_begins_a_little_before_its_task(void **state)
{
    struct world *w = *state;
    struct task t = some_task(w);
    struct execution_page page = { 0 };
    struct error e = { 0 };
    insert(w, &t, 1);
    char id[UUID_TEXT + 1], task[UUID_TEXT + 1], sql[512];
    uuid_format(t.id, task);
    const int64_t times[] = { NOW - 3600000, NOW + 5, NOW + INT64_C(400) * 86400000 };
    for (size_t i = 0; i < array_count(times); i++) {
        uuid_format(uuid_derived_from(times[i], t.id, 1), id);
        snprintf(
            sql, sizeof sql,
            "INSERT INTO executions (id, tenant_id, task_id, status, attempt, fence, scheduled_ms, due_ms, started_us, "
            "completed_us, http_status) VALUES ('%s', 1, '%s', 0, 1, 1, 0, 0, 0, 0, 200)",
            id, task);
        postgres_run(url, sql);
    }
    struct execution_filter f = { .tenant = TENANT, .task = t.id, .limit = 10 };
    assert_ok(reader_executions(w->reader, &f, &w->arena, &page, &e), &e);
    assert_int_equal(page.executions.n, 3);
    assert_int_equal(uuid_time_ms(page.executions.v[2].id), times[0]);
}

/* ---- the pepper of nodes that join ---- */

enum { JOINERS = 6, PEPPER = 32 };

struct joiner {
    pthread_t thread;
    uint8_t pepper[PEPPER];
    enum err rc;
    struct error e;
};

static void *join(void *context)
{
    struct joiner *j = context;
    j->rc = store_postgres_join(url, clock_system(), j->pepper, sizeof j->pepper, &j->e);
    return NULL;
}

static void nodes_that_join_at_once_share_one_pepper(void **state)
{
    (void)state;
    struct joiner v[JOINERS] = { 0 };
    for (int i = 0; i < JOINERS; i++) {
        memset(v[i].pepper, i + 1, PEPPER);
        assert_int_equal(pthread_create(&v[i].thread, NULL, join, &v[i]), 0);
    }
    for (int i = 0; i < JOINERS; i++) {
        assert_int_equal(pthread_join(v[i].thread, NULL), 0);
        assert_ok(v[i].rc, &v[i].e);
        assert_memory_equal(v[i].pepper, v[0].pepper, PEPPER);
    }
    assert_in_range(v[0].pepper[0], 1, JOINERS);
}

static void nobody_joins_before_a_copy_is_done(void **state)
{
    (void)state;
    struct joiner j = { 0 };
    postgres_run(url, "INSERT INTO cluster (name, value) VALUES ('copying', 'x')");
    join(&j);
    assert_int_equal(j.rc, ERR_UNAVAILABLE);
    assert_non_null(strstr(j.e.text, "belfry copy"));
    postgres_run(url, "DELETE FROM cluster WHERE name = 'copying'");
    join(&j);
    assert_ok(j.rc, &j.e);
}

static void nobody_changes_audit_rows(void **state) /* audit 5 */
{
    struct world *w = *state;
    static const char *const refused[] = { "UPDATE audit SET seq = 7", "DELETE FROM audit", "TRUNCATE audit" };
    struct audit row = { .id = uuid_next(&w->ids, NOW), .tenant = TENANT, .at_ms = NOW, .action = S("POST /v1/tasks") };
    struct op_insert op = { .op = { .kind = OP_INSERT, .audit = &row } };
    assert_ok(world_apply(w, &op.op), &op.op.error);
    for (size_t i = 0; i < array_count(refused); i++) {
        char sql[256];
        snprintf(sql, sizeof sql,
                 "DO $$ BEGIN EXECUTE '%s'; EXCEPTION WHEN raise_exception THEN CREATE TABLE refused_%zu (); END $$",
                 refused[i], i);
        postgres_run(url, sql);
    }
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'refused_%'"), 3);
    postgres_run(url, "DROP TABLE refused_0, refused_1, refused_2");
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM audit WHERE seq <> 7"), 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        store_test(of_two_nodes_that_make_an_entry_one_is_told_so),
        store_test(an_entry_that_is_put_whatever_is_there_comes_behind_the_other),
        store_test(an_entry_that_another_node_gave_up_to_make_is_made),
        store_test(of_two_nodes_that_change_an_entry_one_is_told_so),
        store_test(an_entry_that_another_node_removes_meanwhile_begins_anew),
        store_test(only_who_may_lag_is_answered_by_the_replica),
        store_test(a_replica_that_is_away_is_stood_in_for),
        store_test(a_reader_whose_session_was_ended_answers_all_the_same),
        store_test(what_no_text_can_hold_is_not_found_by_its_likeness),
        store_test(jobs_that_are_over_are_not_read_by_who_looks_for_work),
        store_test(leases_that_expired_long_ago_are_forgotten),
        store_test(a_history_begins_a_little_before_its_task),
        store_test(nodes_that_join_at_once_share_one_pepper),
        store_test(nobody_joins_before_a_copy_is_done),
        store_test(nobody_changes_audit_rows),
    };
    adapter_under_test = &here;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    postgres_drop(url);
    return failed;
}
