/* Table `executions` is partitioned by month. Its key, the execution's id, begins with a time. A month that is over is
 * dropped as a whole and leaves nothing to vacuum.
 *
 * Partitions are made before their month begins. An execution without a partition goes to executions_other, and is
 * moved when its month's partition is made later. A month is retired in three steps, and after a crash the next run
 * continues with the next step:
 *   - It is detached and renamed, in one transaction.
 *   - It is written to a file in the archive folder. The file gets its final name when it is complete and synced to
 *     disk.
 *   - It is dropped.
 *
 * Making and detaching take locks for a moment that conflict with every read and write of executions. A dump may hold a
 * conflicting lock for hours, and while we wait for it, all others queue up behind us. So the wait is limited to 200
 * ms, and the next run tries again. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/date.h"
#include "core/task/execution_json.h"
#include "platform/clock_system.h"
#include "store/postgres/internal.h"

enum {
    MONTHS_AHEAD = 3,
    AGAIN_MS = 3600 * 1000,       /* pause between two runs */
    AFTER_FAILURE_MS = 60 * 1000, /* pause after a failed run */
    ANSWER_MS = 600 * 1000,       /* moving rows into a late partition may take minutes */
    SQL_TEXT = 1024,
    PATH_TEXT = 4096,
    NAME_TEXT = 32,
    PAGE_ROWS = 500,
    PAGE_BYTES = 256 << 20,
    NS_PER_MS = 1000000,
};

static const struct pg_statement list_months = {
    "list_months",
    "SELECT c.relname::text, EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = c.oid) FROM pg_class AS c "
    "WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'executions'::regclass) "
    "AND c.relname ~ '^executions_[0-9]{4}_[0-9]{2}(_over)?$' ORDER BY 1",
};
static const struct pg_statement try_lock = { "try_lock_months", "SELECT pg_try_advisory_xact_lock($1)" };

/* ---- months ---- */

/* Months since year 0. */
static int pg_month_of(int64_t ms)
{
    struct date d = date_of_day(floor_div(ms, DAY_MS));
    return d.year * 12 + d.month - 1;
}

static int64_t pg_month_begin_ms(int month)
{
    return day_number((struct date){ .year = month / 12, .month = month % 12 + 1, .day = 1 }) * DAY_MS;
}

static void pg_month_name(int month, char out[NAME_TEXT])
{
    snprintf(out, NAME_TEXT, "executions_%04d_%02d", month / 12, month % 12 + 1);
}

/* The lowest id of that time. */
static void pg_month_bound(int64_t ms, char out[UUID_TEXT + 1])
{
    uuid_format(uuid_floor(ms), out);
}

/* From "executions_2026_02" or "executions_2026_02_over". */
static int pg_month_of_name(struct str name)
{
    int64_t year = 0, month = 1;
    (void)str_to_i64(str_sub(name, 11, 15), 0, 9999, &year);
    (void)str_to_i64(str_sub(name, 16, 18), 1, 12, &month);
    return (int)(year * 12 + month - 1);
}

struct pg_months {
    int n;
    struct {
        int month;
        bool attached; /* false: detached, because it is over */
    } v[512];
};

static enum err pg_months_read(struct pg_conn *c, struct pg_months *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    if (pg_run(c, &list_months, NULL, &r, e))
        return e->code;
    ret->n = min_of(r.rows, (int)array_count(ret->v));
    for (int i = 0; i < ret->n; i++) {
        ret->v[i].month = pg_month_of_name(pg_text(&r, i, 0));
        ret->v[i].attached = pg_bool(&r, i, 1);
    }
    return ERR_OK;
}

static bool pg_months_has(const struct pg_months *m, int month)
{
    for (int i = 0; i < m->n; i++)
        if (m->v[i].month == month)
            return true;
    return false;
}

/* ---- transactions ---- */

static enum err pg_partition_exec(struct pg_conn *c, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum err pg_partition_exec(struct pg_conn *c, struct error *e, const char *format, ...)
{
    char sql[SQL_TEXT];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    return n < SQL_TEXT ? pg_exec(c, sql, e) : error_set(e, ERR_LIMIT, "a statement of more than %d bytes", SQL_TEXT);
}

/* Begins a transaction with the lock on partition maintenance. *ret_alone is false if another process has the lock. */
static enum err pg_partition_begin(struct pg_conn *c, bool *ret_alone, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    cleanup_with(pg_params_release) struct pg_params p;
    pg_params_init(&p);
    pg_add_i64(&p, pg_lock_number(PG_LOCK_PARTITIONS, S("")));
    if (pg_exec(c, "BEGIN", e) || pg_exec(c, "SET LOCAL lock_timeout = '200ms'", e) ||
        pg_exec(c, "SET LOCAL idle_in_transaction_session_timeout = 0", e) || pg_run(c, &try_lock, &p, &r, e))
        return e->code;
    *ret_alone = pg_bool(&r, 0, 0);
    return ERR_OK;
}

/* Runs fn with `context` in such a transaction. Does nothing if another process has the lock. */
static enum err pg_partition_exclusive(struct pg_conn *c, enum err (*fn)(struct pg_conn *, void *, struct error *),
                                       void *context, struct error *e)
{
    bool is_alone = false;
    struct error ignored;
    enum err rc = pg_partition_begin(c, &is_alone, e);
    if (!rc && is_alone)
        rc = fn(c, context, e);
    if (!rc && is_alone)
        return pg_exec(c, "COMMIT", e);
    (void)!pg_rollback(c, "ROLLBACK", &ignored);
    return rc;
}

/* ---- making partitions ---- */

static enum err pg_partition_make(struct pg_conn *c, void *context, struct error *e)
{
    int month = *(int *)context;
    char name[NAME_TEXT], from[UUID_TEXT + 1], to[UUID_TEXT + 1];
    struct pg_months m;
    pg_month_name(month, name);
    pg_month_bound(pg_month_begin_ms(month), from);
    pg_month_bound(pg_month_begin_ms(month + 1), to);
    if (pg_months_read(c, &m, e))
        return e->code;
    if (pg_months_has(&m, month))
        return ERR_OK;
    if (pg_partition_exec(c, e, "CREATE TABLE %s (LIKE executions INCLUDING ALL)", name) ||
        pg_exec(c, "LOCK TABLE executions_other IN ACCESS EXCLUSIVE MODE", e) ||
        pg_partition_exec(c, e,
                          "WITH moved AS (DELETE FROM executions_other WHERE id >= '%s' AND id < '%s' RETURNING *) "
                          "INSERT INTO %s SELECT * FROM moved",
                          from, to, name))
        return e->code;
    return pg_partition_exec(c, e, "ALTER TABLE executions ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", name,
                             from, to);
}

static enum err pg_partition_make_ahead(struct pg_conn *c, const struct pg_months *m, int64_t now_ms, struct error *e)
{
    for (int ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
        int month = pg_month_of(now_ms) + ahead;
        if (!pg_months_has(m, month) && pg_partition_exclusive(c, pg_partition_make, &month, e))
            return error_wrap(e, "make a partition of executions");
    }
    return ERR_OK;
}

/* ---- retiring partitions ---- */

/* Whether all executions in it were completed before that time. */
static enum err pg_partition_is_over(struct pg_conn *c, const char *name, int64_t before_ms, bool *ret, struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    cleanup_with(pg_params_release) struct pg_params p;
    char sql[SQL_TEXT];
    pg_params_init(&p);
    pg_add_i64(&p, before_ms * 1000);
    snprintf(sql, sizeof sql, "SELECT NOT EXISTS (SELECT FROM %s WHERE completed_us >= $1)", name);
    if (pg_run(c, &(struct pg_statement){ name, sql }, &p, &r, e))
        return e->code;
    *ret = pg_bool(&r, 0, 0);
    return ERR_OK;
}

static enum err pg_partition_detach(struct pg_conn *c, void *context, struct error *e)
{
    const char *name = context;
    return pg_partition_exec(c, e, "ALTER TABLE executions DETACH PARTITION %s", name)
               ? e->code
               : pg_partition_exec(c, e, "ALTER TABLE %s RENAME TO %s_over", name, name);
}

struct pg_archive {
    const char *name; /* of the table, without "_over" */
    const char *directory;
    const atomic_bool *stop;
    struct arena arena;
    struct buf lines;
    struct pg_params params;
};

static enum err pg_archive_io_error(const char *what, const char *path, struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE, "%s '%s': %s", what, path, strerror(errno));
}

static enum err pg_archive_write_bytes(int fd, const char *path, struct str bytes, struct error *e)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            return pg_archive_io_error("write", path, e);
        bytes = str_sub(bytes, (size_t)max_of(n, (ssize_t)0), bytes.n);
    }
    return ERR_OK;
}

/* Reads a page of rows behind *last as lines of JSON. Sets *last to its last row. */
static enum err pg_archive_read_page(struct pg_conn *c, struct pg_archive *a, struct execution *last, int *ret_count,
                                     struct error *e)
{
    cleanup_with(pg_result_release) struct pg_result r = { 0 };
    char sql[SQL_TEXT];
    struct jw w;
    snprintf(sql, sizeof sql,
             "SELECT 0" EXECUTION_COLUMNS(SQL_NAME) " FROM %s_over WHERE $1 IS NULL OR (task_id, id) > ($1, $2) "
                                                    "ORDER BY task_id, id LIMIT %d",
             a->name, PAGE_ROWS);
    pg_params_reset(&a->params);
    pg_add_uuid(&a->params, last->task);
    pg_add_uuid(&a->params, last->id);
    if (pg_run(c, &(struct pg_statement){ "archive", sql }, &a->params, &r, e))
        return e->code;
    buf_reset(&a->lines);
    arena_reset(&a->arena);
    for (int i = 0; i < r.rows; i++) {
        *last = (struct execution){ 0 };
        if (pg_row_read(c, NULL, &r, i, 1, &table_executions, &a->arena, last, e))
            return e->code;
        jw_init(&w, &a->lines);
        jw_object(&w);
        jw_kv_i64(&w, "tenant_id", last->tenant);
        execution_members(&w, last);
        jw_object_end(&w);
        buf_char(&a->lines, '\n');
    }
    *ret_count = r.rows;
    return a->lines.full ? error_set(e, ERR_LIMIT, "a page of executions does not fit in memory") : ERR_OK;
}

static enum err pg_archive_write_rows(struct pg_conn *c, struct pg_archive *a, int fd, const char *path,
                                      struct error *e)
{
    struct execution last = { 0 };
    for (int n = PAGE_ROWS; n == PAGE_ROWS;) {
        if (a->stop && atomic_load(a->stop))
            return error_set(e, ERR_UNAVAILABLE, "stopped");
        if (pg_archive_read_page(c, a, &last, &n, e) || pg_archive_write_bytes(fd, path, buf_str(&a->lines), e))
            return e->code;
    }
    return fsync(fd) ? pg_archive_io_error("write", path, e) : ERR_OK;
}

/* Renames and syncs the folder, so that the new name survives a crash. */
static enum err pg_archive_rename_durably(const char *from, const char *to, const char *directory, struct error *e)
{
    if (rename(from, to))
        return pg_archive_io_error("rename to", to, e);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (!ok)
        pg_archive_io_error("write", directory, e);
    if (fd >= 0)
        close(fd);
    return ok ? ERR_OK : e->code;
}

static enum err pg_archive_write_file(struct pg_conn *c, struct pg_archive *a, struct error *e)
{
    char path[PATH_TEXT], part[PATH_TEXT];
    int n = snprintf(path, sizeof path, "%s/%s.ndjson", a->directory, a->name);
    int m = snprintf(part, sizeof part, "%s.part", path);
    if (n >= PATH_TEXT || m >= PATH_TEXT)
        return error_set(e, ERR_LIMIT, "a path of more than %d bytes", PATH_TEXT);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return pg_archive_io_error("create", part, e);
    fchmod(fd, 0600); /* it may be left from before */
    enum err rc = pg_archive_write_rows(c, a, fd, part, e);
    if (close(fd) && !rc)
        rc = pg_archive_io_error("write", part, e);
    return rc ? rc : pg_archive_rename_durably(part, path, a->directory, e);
}

static enum err pg_partition_archive_and_drop(struct pg_conn *c, void *context, struct error *e)
{
    struct pg_archive *a = context;
    if (a->directory && pg_archive_write_file(c, a, e))
        return e->code;
    return pg_partition_exec(c, e, "DROP TABLE IF EXISTS %s_over", a->name);
}

static enum err pg_partition_archive(struct pg_conn *c, const struct pg_partition_job *k, const char *name,
                                     struct error *e)
{
    struct pg_archive a = { .name = name, .directory = k->archive_dir, .stop = k->stop };
    bool prepare = c->prepare;
    arena_init(&a.arena, PAGE_BYTES);
    buf_init(&a.lines, PAGE_BYTES);
    pg_params_init(&a.params);
    c->prepare = false; /* the text of these statements differs for each month */
    enum err rc = pg_partition_exclusive(c, pg_partition_archive_and_drop, &a, e);
    c->prepare = prepare;
    pg_params_release(&a.params);
    buf_release(&a.lines);
    arena_release(&a.arena);
    return rc;
}

/* Detaches a partition that is over, then archives and drops it. */
static enum err pg_partition_retire(struct pg_conn *c, const struct pg_partition_job *k, int month, bool attached,
                                    struct error *e)
{
    char name[NAME_TEXT];
    bool over = true, prepare = c->prepare;
    pg_month_name(month, name);
    if (attached) {
        c->prepare = false;
        enum err rc = pg_partition_is_over(c, name, k->before_ms, &over, e);
        c->prepare = prepare;
        if (rc || (over && pg_partition_exclusive(c, pg_partition_detach, name, e)))
            return e->code;
    }
    return over ? pg_partition_archive(c, k, name, e) : ERR_OK;
}

enum err pg_maintain_partitions(struct pg_conn *c, const struct pg_partition_job *k, struct error *e)
{
    struct pg_months m;
    if (pg_months_read(c, &m, e) || pg_partition_make_ahead(c, &m, k->now_ms, e))
        return e->code;
    for (int i = 0; i < m.n; i++) {
        bool is_old = pg_month_begin_ms(m.v[i].month + 1) <= k->before_ms && m.v[i].month < pg_month_of(k->now_ms);
        if ((is_old || !m.v[i].attached) && pg_partition_retire(c, k, m.v[i].month, m.v[i].attached, e))
            return error_wrap(e, "archive or drop the executions of %04d-%02d", m.v[i].month / 12,
                              m.v[i].month % 12 + 1);
    }
    return ERR_OK;
}

/* ---- the thread ---- */

struct pg_partition_thread {
    const struct store_postgres_setup *setup; /* the store's */
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t wake;
    bool asked, working;
    int64_t before_ms;
    int64_t next_ns; /* steady clock: no run before this */
    bool failed;
    struct error failure;
};

static enum err pg_partition_thread_run_once(struct pg_partition_thread *k, int64_t before_ms, struct error *e)
{
    cleanup_with(pg_conn_release) struct pg_conn c = { 0 };
    struct pg_partition_job keep = { .now_ms = clock_wall_ms(k->setup->clock),
                                     .before_ms = before_ms,
                                     .archive_dir = k->setup->archive_dir,
                                     .stop = &k->stop };
    if (pg_conn_init(&c, k->setup->url, false, k->setup->clock, e) || pg_conn_ready(&c, e))
        return e->code;
    c.answer_ms = ANSWER_MS;
    return pg_maintain_partitions(&c, &keep, e);
}

static void *pg_partition_thread_main(void *context)
{
    struct pg_partition_thread *k = context;
    pthread_mutex_lock(&k->lock);
    while (!atomic_load(&k->stop)) {
        if (!k->asked) {
            pthread_cond_wait(&k->wake, &k->lock);
            continue;
        }
        int64_t before_ms = k->before_ms;
        struct error e = { 0 };
        k->asked = false;
        pthread_mutex_unlock(&k->lock);
        enum err rc = pg_partition_thread_run_once(k, before_ms, &e);
        int64_t now_ns = clock_steady_ns(k->setup->clock);
        pthread_mutex_lock(&k->lock);
        k->next_ns = now_ns + (int64_t)(rc ? AFTER_FAILURE_MS : AGAIN_MS) * NS_PER_MS;
        k->working = false;
        k->failed = rc != ERR_OK;
        k->failure = e;
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

struct pg_partition_thread *pg_partition_thread_new(const struct store_postgres_setup *setup)
{
    struct pg_partition_thread *k = xnew(*k);
    k->setup = setup;
    k->next_ns = INT64_MIN;
    pthread_mutex_init(&k->lock, NULL);
    clock_condition_init(&k->wake);
    int failed = pthread_create(&k->thread, NULL, pg_partition_thread_main, k);
    if (failed)
        abort();
    pthread_setname_np(k->thread, "months");
    return k;
}

enum err pg_partition_thread_nudge(struct pg_partition_thread *k, int64_t executions_before_ms, struct error *e)
{
    enum err rc = ERR_OK;
    pthread_mutex_lock(&k->lock);
    if (k->failed) {
        *e = k->failure;
        rc = e->code;
    }
    k->failed = false;
    if (!k->working && clock_steady_ns(k->setup->clock) >= k->next_ns) {
        k->asked = k->working = true;
        k->before_ms = executions_before_ms;
        pthread_cond_signal(&k->wake);
    }
    pthread_mutex_unlock(&k->lock);
    return rc;
}

void pg_partition_thread_free(struct pg_partition_thread *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    atomic_store(&k->stop, true);
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->wake);
    free(k);
}
