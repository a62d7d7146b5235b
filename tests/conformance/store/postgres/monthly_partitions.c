/* Monthly partitions of executions: made ahead of time or late, archived and dropped when they are over, and continued
 * after a crash between two steps. */
#include <sys/stat.h>

#include "store/postgres/internal.h"
#include "store_world.h"

#define DAY      (24 * INT64_C(3600000))
#define MARCH_10 (NOW + 28 * DAY) /* NOW is the 10th of February 2026 */
#define MAY_10   (NOW + 89 * DAY)
#define MAY_1    (NOW + 80 * DAY - 8 * INT64_C(3600000))
#define APRIL_1  (MAY_1 - 30 * DAY)
#define MONTHS                                                                                                         \
    "SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text) FROM pg_inherits "             \
    "WHERE inhparent = 'executions'::regclass"
#define IN(table) "SELECT count(*) FROM " table

static char url[POSTGRES_URL];

static enum err open_here(const char *directory, struct store **ret, struct error *e)
{
    (void)directory;
    postgres_make("months", url);
    return postgres_store_open(url, ret, e);
}

static const struct store_adapter here = { "postgres", open_here };

/* ---- helpers ---- */

static enum err keep(int64_t now_ms, int64_t before_ms, const char *archive_dir, struct error *e)
{
    struct pg_conn c = { 0 };
    struct pg_partition_job k = { .now_ms = now_ms, .before_ms = before_ms, .archive_dir = archive_dir };
    enum err rc = pg_conn_init(&c, url, false, clock_system(), e);
    rc = rc ? rc : pg_conn_ready(&c, e);
    rc = rc ? rc : pg_maintain_partitions(&c, &k, e);
    pg_conn_release(&c);
    return rc;
}

static void assert_months(const char *expected)
{
    char text[512];
    postgres_get(url, MONTHS, text, sizeof text);
    assert_string_equal(text, expected);
}

/* A task that ran at that time, and its execution. */
static struct uuid ran_at(struct world *w, int64_t at_ms)
{
    struct task t = some_task(w);
    t.due_ms = t.scheduled_ms = NOW;
    struct task claimed = claim_one(w, &t, fresh_id(w));
    struct settlement v = settlement_of(&claimed, TASK_COMPLETED);
    v.verdict.has_execution = true;
    v.verdict.execution = some_execution(w, &claimed);
    v.verdict.execution.id = uuid_derived_from(at_ms, t.id, 1);
    v.verdict.execution.started_us = at_ms * 1000;
    v.verdict.execution.completed_us = at_ms * 1000 + 500;
    v.verdict.execution.output = S("said \"so\"\n");
    assert_true(settle_with(w, &v));
    return t.id;
}

static size_t executions_of(struct world *w, struct uuid task)
{
    struct execution_page page;
    struct error e = { 0 };
    struct execution_filter f = { .tenant = TENANT, .task = task, .limit = 10 };
    assert_ok(reader_executions(w->reader, &f, &w->arena, &page, &e), &e);
    return page.executions.n;
}

/* ---- tests ---- */

static void three_months_are_made_ahead_and_take_what_comes(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    assert_months("executions_2026_02 executions_2026_03 executions_2026_04 executions_2026_05 executions_other");
    assert_ok(keep(NOW, 0, NULL, &e), &e); /* the second run changes nothing */
    struct uuid february = ran_at(w, NOW), april = ran_at(w, APRIL_1), late = ran_at(w, APRIL_1 - 1);
    assert_int_equal(postgres_number(url, IN("executions_2026_02")), 1);
    assert_int_equal(postgres_number(url, IN("executions_2026_03")), 1);
    assert_int_equal(postgres_number(url, IN("executions_2026_04")), 1);
    assert_int_equal(executions_of(w, february) + executions_of(w, april) + executions_of(w, late), 3);
    assert_ok(keep(MARCH_10, 0, NULL, &e), &e);
    assert_months("executions_2026_02 executions_2026_03 executions_2026_04 executions_2026_05 executions_2026_06 "
                  "executions_other");
}

static void a_month_that_is_made_late_gets_what_stood_elsewhere(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    struct uuid here_now = ran_at(w, NOW), later = ran_at(w, NOW + 300 * DAY);
    assert_int_equal(postgres_number(url, IN("executions_other")), 2);
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    assert_int_equal(postgres_number(url, IN("executions_other")), 1);
    assert_int_equal(postgres_number(url, IN("executions_2026_02")), 1);
    assert_int_equal(executions_of(w, here_now) + executions_of(w, later), 2);
}

static void a_month_goes_when_all_of_it_is_old_enough(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    struct uuid february = ran_at(w, NOW), march = ran_at(w, MARCH_10);
    assert_ok(keep(MAY_10, APRIL_1 - 31 * DAY - 1, NULL, &e), &e); /* 1 ms before the end of February */
    assert_int_equal(executions_of(w, february), 1);
    assert_ok(keep(MAY_10, APRIL_1 - 31 * DAY, NULL, &e), &e);
    assert_int_equal(executions_of(w, february), 0);
    assert_int_equal(executions_of(w, march), 1);
    assert_months("executions_2026_03 executions_2026_04 executions_2026_05 executions_2026_06 executions_2026_07 "
                  "executions_2026_08 executions_other");
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'executions_2026_02%'"), 0);
}

static void a_month_with_a_run_that_ended_later_stays(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    struct uuid long_run = ran_at(w, NOW);
    postgres_run(url, "UPDATE executions SET completed_us = completed_us + 86400000000 * 40::bigint");
    assert_ok(keep(MAY_10, APRIL_1 - 20 * DAY, NULL, &e), &e);
    assert_int_equal(executions_of(w, long_run), 1);
    assert_ok(keep(MAY_10, APRIL_1, NULL, &e), &e);
    assert_int_equal(executions_of(w, long_run), 0);
}

static void read_archive(const struct world *w, const char *name, char *out, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    out[fread(out, 1, size - 1, f)] = '\0';
    fclose(f);
}

static void a_month_is_in_the_archive_before_it_is_gone(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    char text[8192], missing[128], task[UUID_TEXT + 1];
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    uuid_format(ran_at(w, NOW), task);
    ran_at(w, NOW + 1);
    snprintf(missing, sizeof missing, "%s/nowhere", w->directory);
    assert_int_equal(keep(MAY_10, APRIL_1 - 31 * DAY, missing, &e), ERR_UNAVAILABLE);
    assert_says(&e, "archive or drop the executions of 2026-02: create '");
    assert_int_equal(postgres_number(url, IN("executions_2026_02_over")), 2); /* detached and not lost */
    assert_ok(keep(MAY_10, APRIL_1 - 31 * DAY, w->directory, &e), &e);
    struct stat archive;
    snprintf(missing, sizeof missing, "%s/executions_2026_02.ndjson", w->directory);
    assert_int_equal(stat(missing, &archive), 0);
    assert_int_equal(archive.st_mode & 0777, 0600);
    read_archive(w, "executions_2026_02.ndjson", text, sizeof text);
    size_t lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 2);
    assert_non_null(strstr(text, task));
    assert_non_null(strstr(text, "{\"tenant_id\":1,\"id\":\""));
    assert_non_null(strstr(text, "\"started_at\":\"2026-02-10T08:00:00.000Z\""));
    assert_non_null(strstr(text, "\"output\":\"said \\\"so\\\"\\n\""));
    assert_int_equal(postgres_number(url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'executions_2026_02%'"), 0);
    snprintf(missing, sizeof missing, "%s/executions_2026_02.ndjson.part", w->directory);
    assert_int_not_equal(access(missing, F_OK), 0);
}

static void a_month_of_many_pages_is_archived_whole(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    static char text[1 << 20];
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    ran_at(w, NOW);
    postgres_run(
        url, "INSERT INTO executions SELECT id, tenant_id, gen_random_uuid(), occurrence_id, status, attempt, fence, "
             "scheduled_ms, due_ms, started_us, completed_us, http_status, worker, error, output, trace_id FROM "
             "executions, generate_series(1, 1234)");
    assert_ok(keep(MAY_10, APRIL_1 - 31 * DAY, w->directory, &e), &e);
    read_archive(w, "executions_2026_02.ndjson", text, sizeof text);
    size_t lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 1235);
}

static void somebody_who_reads_for_long_is_not_in_the_way_of_others(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    assert_ok(keep(NOW, 0, NULL, &e), &e);
    ran_at(w, NOW);
    PGconn *dump = postgres_session(url);
    postgres_say(dump, "BEGIN; LOCK TABLE executions IN ACCESS SHARE MODE");
    assert_int_equal(keep(MAY_10, APRIL_1 - 31 * DAY, NULL, &e), ERR_UNAVAILABLE); /* it did not wait for long */
    assert_says(&e, "lock timeout");
    ran_at(w, NOW + 2);
    postgres_say(dump, "COMMIT");
    PQfinish(dump);
    assert_ok(keep(MAY_10, APRIL_1 - 31 * DAY, NULL, &e), &e);
}

/* ---- runs that OP_PURGE starts ---- */

static enum err forget(struct store *s, struct error *ret)
{
    struct op_purge op = { .op.kind = OP_PURGE, .now_ms = NOW, .executions_before_ms = 1, .max = 10 };
    struct op *ops[] = { &op.op };
    struct error e = { 0 };
    arena_init(&op.op.arena, 1 << 20);
    assert_ok(store_apply(s, ops, 1, &e), &e);
    arena_release(&op.op.arena);
    *ret = op.op.error;
    return op.op.rc;
}

static void forgetting_makes_months_in_the_background(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    assert_ok(forget(w->store, &e), &e);
    postgres_wait_for(url, "(SELECT count(*) = 5 FROM pg_inherits WHERE inhparent = 'executions'::regclass)");
    assert_ok(forget(w->store, &e), &e);
}

static void what_went_wrong_with_months_is_told_once_by_the_next_forget(void **state)
{
    struct world *w = *state;
    struct error e = { 0 };
    PGconn *other = postgres_session(url);
    postgres_say(other, "BEGIN; LOCK TABLE executions_other IN ROW EXCLUSIVE MODE"); /* a writer that does not end */
    assert_ok(forget(w->store, &e), &e);
    for (int i = 0; i < 2000 && !forget(w->store, &e); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_says(&e, "make a partition of executions: ");
    assert_ok(forget(w->store, &e), &e);
    postgres_say(other, "COMMIT");
    PQfinish(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(three_months_are_made_ahead_and_take_what_comes),
        store_test(a_month_that_is_made_late_gets_what_stood_elsewhere),
        store_test(a_month_goes_when_all_of_it_is_old_enough),
        store_test(a_month_with_a_run_that_ended_later_stays),
        store_test(a_month_is_in_the_archive_before_it_is_gone),
        store_test(a_month_of_many_pages_is_archived_whole),
        store_test(somebody_who_reads_for_long_is_not_in_the_way_of_others),
        store_test(forgetting_makes_months_in_the_background),
        store_test(what_went_wrong_with_months_is_told_once_by_the_next_forget),
    };
    adapter_under_test = &here;
    return cmocka_run_group_tests_name("postgres_months", tests, NULL, NULL);
}
