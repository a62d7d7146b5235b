/* Pages of tasks and of executions.
 *
 * Each call is one statement, so that its result shows one moment. A list walks one index down by id and filters each
 * row. After LIST_VISIT_MAX rows the page ends, however few rows matched, with `more` and the id to continue from: so
 * no filter makes a page slow. Rows are streamed: once the page is full, the walk stops. */
#include <assert.h>

#include "store/postgres/reader/reader.h"

/* ---- lists of tasks ---- */

#define VISIT_MAX "100000"
static_assert(LIST_VISIT_MAX == 100000, "VISIT_MAX says the same");

/* All lists and counts have the same parameters (pg_list_add_filter). $3 is the offset, $4 the limit. */
#define MATCHES                                                                                                          \
    "tenant_id = $2 AND NOT deleted AND ($5 = 0 OR ($5 >> " SQL_SHOWN_STATE(                                             \
        "$24") ") & 1 = 1) AND ($6 < 0 OR kind = $6) "                                                                   \
               "AND CASE WHEN $7 IS NULL THEN kind <> 2 OR $8 ELSE kind = 2 AND parent_id = $7 END "                     \
               "AND ($9 = 0 OR due_ms >= $9) AND ($10 = 0 OR due_ms < $10) "                                             \
               "AND ($11 = '' OR name = $11) AND ($12 = '' OR starts_with(name, $12)) "                                  \
               "AND ($13 = '' OR task_type = $13) AND ($14 = '' OR calendar = $14) AND ($15 = '' OR state = " SQL_FAILED \
               " AND cause = $15) AND ($16 < 0 OR state = " SQL_FAILED                                                   \
               " AND (resolved_ms <> 0)::int = $16) AND ($17 = '' OR waits_for = $17) "                                  \
               "AND ($18 = '' OR queue = $18 "                                                                           \
               "OR lane = ANY (ARRAY(SELECT l.lane FROM lanes AS l WHERE l.tenant_id = $2 AND l.queue = $18))) "         \
               "AND (NOT $20 OR (target = 4 AND kind <> 1)) AND ($22 = 0 OR created_ms >= $22) AND ($23 = 0 OR created_ms < $23)"
static_assert(TASK_OCCURRENCE == 2 && TASK_RECURRING == 1 && TARGET_WORKFLOW == 4, "statements name them by number");

/* The rows of a walk; `ok` tells whether a row matches. */
#define VISITED(where)                                                                                                 \
    "(SELECT *, (" MATCHES ") AS ok FROM (SELECT * FROM tasks WHERE " where ") AS t ORDER BY id DESC LIMIT " VISIT_MAX \
    ") AS t"

/* `seen` numbers the visited rows, `nth` the matching ones. If the walk was cut off, its last row is returned too. */
#define LISTED_COLUMNS                                                                                                 \
    TASK_COLUMNS_BEFORE_PAYLOAD(SQL_NAME)                                                                              \
    ", CASE WHEN NOT $21 THEN payload END" TASK_COLUMNS_AFTER_PAYLOAD(SQL_NAME) TASK_COLUMNS_REST(SQL_NAME)
#define LIST(where)                                                                                                    \
    "SELECT seen, (ok AND nth > $3) IS TRUE" LISTED_COLUMNS " FROM (SELECT *, row_number() OVER w AS seen, "           \
    "count(*) FILTER (WHERE ok) OVER w AS nth FROM " VISITED(                                                          \
        where) " WINDOW w AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)) AS t "                                       \
               "WHERE (ok AND nth > $3) OR seen = " VISIT_MAX " ORDER BY id DESC LIMIT $4"

#define COUNT(where)                                                                                                   \
    "SELECT count(*) FILTER (WHERE ok), coalesce(bool_or(seen = " VISIT_MAX "), false) FROM (SELECT ok, seen FROM "    \
    "(SELECT ok, row_number() OVER () AS seen FROM " VISITED(where) ") AS t WHERE ok OR seen = " VISIT_MAX             \
                                                                    " LIMIT $4) AS t"

/* OFFSET 0 keeps the planner from walking the index by id instead of the one for the condition: the rows are few, and
 * are sorted by id. */
/* Steps are listed with their run only. */
#define IN_RANGE    "id < $1 AND id >= $19 AND run_id IS NULL"
#define BY_CALENDAR "kind = 1 AND NOT deleted AND tenant_id = $2 AND calendar = $14 AND " IN_RANGE
#define BY_CAUSE                                                                                                       \
    "failed_ms IS NOT NULL AND resolved_ms = 0 AND NOT deleted AND tenant_id = $2 AND cause = $15 AND " IN_RANGE
#define BY_WAITING   "waits_for = $17 AND " IN_RANGE " OFFSET 0"
#define BY_RECURRING "kind = 1 AND NOT deleted AND tenant_id = $2 AND " IN_RANGE " OFFSET 0"
#define WALKS(X)                                                                                                       \
    X(ALL, IN_RANGE)                                                                                                   \
    X(PARENT, "parent_id = $7 AND " IN_RANGE)                                                                          \
    X(CALENDAR, BY_CALENDAR)                                                                                           \
    X(NAME, "kind <> 2 AND tenant_id = $2 AND name = $11 AND " IN_RANGE)                                               \
    X(WAITING, BY_WAITING)                                                                                             \
    X(CAUSE, BY_CAUSE)                                                                                                 \
    X(FAILED, "failed_ms IS NOT NULL AND tenant_id = $2 AND " IN_RANGE)                                                \
    X(TYPE, "tenant_id = $2 AND task_type = $13 AND " IN_RANGE)                                                        \
    X(RECURRING, BY_RECURRING)

static const struct {
    struct pg_statement list, count;
} walks[] = {
#define X(walk, where) [WALK_##walk] = { { "list_" #walk, LIST(where) }, { "count_" #walk, COUNT(where) } },
    WALKS(X)
#undef X
};
static_assert(array_count(walks) == WALK_COUNT, "a walk without a statement");

static const struct uuid highest = { { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                       255 } };

static const struct uuid lowest = { .b[15] = 1 }; /* nil would become NULL */

static void pg_list_add_filter(struct pg_params *p, const struct task_filter *f, size_t offset, size_t max)
{
    bool prefix = name_is_prefix(f->name);
    pg_add_uuid(p, uuid_is_nil(f->before) ? highest : f->before);
    pg_add_i32(p, f->tenant);
    pg_add_i64(p, (int64_t)offset);
    pg_add_i64(p, (int64_t)max);
    pg_add_i32(p, (int32_t)f->states);
    pg_add_i32(p, !f->by_kind ? -1 : f->recurring ? TASK_RECURRING : TASK_ONE_TIME);
    pg_add_uuid(p, f->parent);
    pg_add_bool(p, f->occurrences);
    pg_add_i64(p, f->due_after_ms);
    pg_add_i64(p, f->due_before_ms);
    pg_add_text(p, prefix ? S("") : f->name);
    pg_add_text(p, prefix ? str_sub(f->name, 0, f->name.n - 1) : S(""));
    pg_add_text(p, f->task_type);
    pg_add_text(p, f->calendar);
    pg_add_text(p, f->cause);
    pg_add_i32(p, !f->by_resolved ? -1 : f->resolved);
    pg_add_text(p, f->waits_for);
    pg_add_text(p, f->queue);
    pg_add_uuid(p, uuid_is_nil(f->from) ? lowest : f->from);
    pg_add_bool(p, f->runs);
    pg_add_bool(p, f->brief);
    pg_add_i64(p, f->created_after_ms);
    pg_add_i64(p, f->created_before_ms);
    pg_add_i64(p, f->shown_at_ms);
}

/* A text that is not clean matches nothing: it was stored in another form. */
static bool pg_list_filter_is_clean(const struct task_filter *f)
{
    return text_is_clean(f->name) && text_is_clean(f->queue) && text_is_clean(f->task_type) &&
           text_is_clean(f->calendar) && text_is_clean(f->cause) && text_is_clean(f->waits_for);
}

enum { AT_SEEN, AT_WANTED, AT_ROW }; /* columns of a list; the table's columns begin at AT_ROW */

/* How many rows of the result belong to the page: the leading matching ones, up to the limit. */
static int pg_list_wanted_rows(const struct pg_result *got, size_t limit)
{
    int n = 0;
    while (n < got->rows && (size_t)n < limit && pg_bool(got, n, AT_WANTED))
        n++;
    return n;
}

/* Whether the list continues, and below which id. The last row may be there only because the walk was cut off at it. */
static bool pg_list_has_more(const struct pg_result *got, int listed, struct uuid *ret_before)
{
    int last = got->rows - 1;
    if (got->rows == 0)
        return false;
    if (listed <= last && pg_bool(got, listed, AT_WANTED)) {
        *ret_before = pg_uuid(got, listed - 1, AT_ROW);
        return true;
    }
    *ret_before = pg_uuid(got, last, AT_ROW);
    return pg_i64(got, last, AT_SEEN) == LIST_VISIT_MAX;
}

static enum err pg_list_read_rows(struct pg_reader *r, const struct pg_result *got, int n, const struct table *t,
                                  size_t size, struct arena *a, void **ret, struct error *e)
{
    char *rows = arena_zarray(a, (size_t)n, size);
    if (!rows)
        return reader_no_room(e);
    for (int i = 0; i < n; i++)
        if (pg_row_read(r->last_conn, &r->lanes, got, i, AT_ROW, t, a, rows + (size_t)i * size, e))
            return e->code;
    *ret = rows;
    return ERR_OK;
}

enum err reader_postgres_list(struct reader *base, const struct task_filter *f, struct arena *a, struct task_page *ret,
                              struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_list_add_filter(pg_reader_params(r), f, f->offset, f->limit + 1);
    if (pg_list_filter_is_clean(f) && pg_reader_run(r, f->may_lag, &walks[list_walk_of(f)].list, &got, e))
        return e->code;
    int n = pg_list_wanted_rows(&got, f->limit);
    struct task_page page = { .tasks.n = (size_t)n };
    void *rows = NULL;
    if (pg_list_read_rows(r, &got, n, &table_tasks, sizeof(struct task), a, &rows, e))
        return e->code;
    page.tasks.v = rows;
    page.more = pg_list_has_more(&got, n, &page.next_before);
    *ret = page;
    return ERR_OK;
}

enum err reader_postgres_count(struct reader *base, const struct task_filter *f, size_t max, struct task_count *ret,
                               struct error *e)
{
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_list_add_filter(pg_reader_params(r), f, 0, max);
    if (max && pg_list_filter_is_clean(f) && pg_reader_run(r, f->may_lag, &walks[list_walk_of(f)].count, &got, e))
        return e->code;
    *ret = (struct task_count){ .n = got.rows ? (size_t)pg_i64(&got, 0, 0) : 0,
                                .is_cut = got.rows && pg_bool(&got, 0, 1) };
    return ERR_OK;
}

/* ---- executions ---- */

/* Executions are partitioned by their ids, which begin with a time. An execution is not older than its task, except by
 * the difference of two clocks: earlier partitions need not be read. */
enum { CLOCKS_DIFFER_MS = 24 * 3600 * 1000 };

static struct uuid pg_list_lowest_execution(struct uuid task)
{
    int64_t ms = max_of(uuid_time_ms(task) - CLOCKS_DIFFER_MS, (int64_t)0);
    struct uuid u = { 0 };
    for (int i = 0; i < 6; i++)
        u.b[i] = (uint8_t)(ms >> (40 - 8 * i));
    u.b[15] = ms == 0; /* nil would become NULL */
    return u;
}

enum err reader_postgres_executions(struct reader *base, const struct execution_filter *f, struct arena *a,
                                    struct execution_page *ret, struct error *e)
{
    static const struct pg_statement history = {
        "read_executions", "SELECT seen, ok" EXECUTION_COLUMNS(
                               SQL_NAME) " FROM (SELECT *, row_number() OVER (ORDER BY id DESC) AS seen, "
                                         "tenant_id = $4 AND ($5 = 0 OR ($5 >> status) & 1 = 1) AS ok "
                                         "FROM (SELECT * FROM executions WHERE task_id = $1 AND id >= $2 AND id < $3 "
                                         "ORDER BY id DESC LIMIT " VISIT_MAX ") AS x) AS x "
                                         "WHERE ok OR seen = " VISIT_MAX " ORDER BY id DESC LIMIT $6"
    };
    struct pg_reader *r = pg_reader_self(base);
    e = pg_reader_error(base, e);
    struct pg_params *p = pg_reader_params(r);
    cleanup_with(pg_result_release) struct pg_result got = { 0 };
    pg_add_uuid(p, f->task);
    pg_add_uuid(p, pg_list_lowest_execution(f->task));
    pg_add_uuid(p, uuid_is_nil(f->before) ? highest : f->before);
    pg_add_i32(p, f->tenant);
    pg_add_i32(p, (int32_t)f->statuses);
    pg_add_i64(p, (int64_t)f->limit + 1);
    if (pg_reader_run(r, f->may_lag, &history, &got, e))
        return e->code;
    int n = pg_list_wanted_rows(&got, f->limit);
    struct execution_page page = { .executions.n = (size_t)n };
    void *rows = NULL;
    if (pg_list_read_rows(r, &got, n, &table_executions, sizeof(struct execution), a, &rows, e))
        return e->code;
    page.executions.v = rows;
    page.more = pg_list_has_more(&got, n, &page.next_before);
    *ret = page;
    return ERR_OK;
}
