/* Reads, on the reader's own connection.
 *
 * A list walks one index downwards by id and checks every row against the filter. It walks in slices and gives up its
 * snapshot between them, so that the write-ahead log can be restarted however long a search takes. After LIST_VISIT_MAX
 * rows the page ends, even if few rows matched, with `more` and the position to continue from. So no page is slow,
 * whatever the filter. */
#include <assert.h>
#include <stdlib.h>

#include "store/sqlite/reader/reader.h"

#define TASKS "SELECT rid" TASK_COLUMNS(SQL_NAME) " FROM tasks INDEXED BY "
#define DOWN  " ORDER BY id DESC LIMIT ?3"
#define DEAD_LETTERS                                                                                                   \
    "FROM tasks INDEXED BY tasks_cause WHERE failed_ms IS NOT NULL AND resolved_ms = 0 AND deleted = 0 "               \
    "AND tenant_id = ?1 "
#define CATALOG "SELECT rowid" CATALOG_COLUMNS(SQL_NAME) " FROM catalog WHERE kind = ?1 "

#define SQL_RECORD_FILTER                                                                                              \
    "kind = ?1 AND (?2 = 0 OR tenant_id = ?2) AND (?3 IS NULL OR setting_id = ?3) AND (?4 IS NULL OR incident_id = "   \
    "?4) AND (?5 = '' OR key = ?5) AND id < ?6 AND id >= ?7 AND (?8 = 0 OR key IS NOT NULL) "

/* Parameters of lists: ?1 the value that the index is for, ?2 the id to start below, ?3 the number of rows, ?4 the
 * tenant. */
static const char *const reader_sql[] = {
    [RD_TASK] = TASKS "tasks_id WHERE id = ?1",
    [RD_LIST] = TASKS "tasks_id WHERE ?1 IS NULL AND ?4 AND id < ?2" DOWN,
    [RD_LIST_FAILED] =
        TASKS "tasks_failed WHERE failed_ms IS NOT NULL AND ?1 IS NULL AND tenant_id = ?4 AND id < ?2" DOWN,
    [RD_LIST_CAUSE] = TASKS
    "tasks_cause WHERE failed_ms IS NOT NULL AND resolved_ms = 0 AND deleted = 0 AND cause = ?1 AND tenant_id = ?4 "
    "AND id < ?2" DOWN,
    [RD_LIST_WAITING] =
        "SELECT rid" TASK_COLUMNS(SQL_NAME) " FROM tasks WHERE rid IN (SELECT rid FROM tasks INDEXED BY "
                                            "tasks_waiting WHERE waits_for = ?1 AND ?4 AND id < ?2" DOWN
                                            ") ORDER BY id DESC",
    [RD_LIST_NAME] = TASKS "tasks_name WHERE kind <> 2 AND name = ?1 AND tenant_id = ?4 AND id < ?2" DOWN,
    [RD_LIST_TYPE] = TASKS "tasks_type WHERE task_type = ?1 AND tenant_id = ?4 AND id < ?2" DOWN,
    [RD_LIST_PARENT] = TASKS "tasks_parent WHERE parent_id = ?1 AND ?4 AND id < ?2" DOWN,
    [RD_EXECUTIONS] = "SELECT rowid" EXECUTION_COLUMNS(SQL_NAME) " FROM executions INDEXED BY executions_task "
                                                                 "WHERE task_id = ?1 AND ?4 AND id < ?2" DOWN,
    [RD_IDEMPOTENCY] =
        "SELECT rowid" IDEMPOTENCY_COLUMNS(SQL_NAME) " FROM idempotency WHERE key = ?1 AND tenant_id = ?2",
    [RD_KEY] = "SELECT rowid" API_KEY_COLUMNS(SQL_NAME) " FROM api_keys WHERE id = ?1",
    [RD_JOIN] =
        "SELECT kind, expected, arrived, met, broken, max_broken FROM joins WHERE child_id = ?1 AND tenant_id = ?2",
    [RD_PARENTS] =
        "SELECT e.parent_id, e.type, e.state, t.state, t.due_ms, t.started_ms, t.name "
        "FROM edges AS e INDEXED BY edges_child LEFT JOIN tasks AS t ON t.id = e.parent_id AND NOT t.deleted "
        "WHERE e.child_id = ?1 AND e.tenant_id = ?2 ORDER BY e.parent_id LIMIT ?3",
    [RD_CHILDREN] = "SELECT e.child_id, e.type, e.state, t.state, t.due_ms, t.started_ms, t.name "
                    "FROM edges AS e LEFT JOIN tasks AS t ON t.id = e.child_id AND NOT t.deleted "
                    "WHERE e.parent_id = ?1 AND e.tenant_id = ?2 ORDER BY e.child_id LIMIT ?3",
    [RD_SLOTS] = "SELECT t.id, t.state, t.scheduled_ms FROM slots AS s CROSS JOIN tasks AS t ON t.id = s.task_id "
                 "WHERE s.key = ?1 ORDER BY t.scheduled_ms, t.id LIMIT ?2",
    [RD_COUNTS] = "SELECT state, sum(n) FROM counts GROUP BY state",
    [RD_DUE] = ("SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_due "
                "WHERE " SQL_NEAR "AND lane = ?1 AND due_ms <= ?2 AND NOT deleted "
                "UNION ALL SELECT 1 FROM tasks INDEXED BY tasks_far WHERE " SQL_FAR_UNTIL(
                    "?2") "AND lane = ?1 AND due_ms <= ?2 AND NOT deleted LIMIT ?3)"),
    /* records other than tasks: reader_records.c */
    [RD_KEYS] = "SELECT rowid" API_KEY_COLUMNS(
        SQL_NAME) " FROM api_keys WHERE tenant_id = ?1 AND expires_ms >= 0 AND parent IS NULL ORDER BY id LIMIT ?2",
    [RD_DEDUPE] = "SELECT d.task_id FROM dedupe d JOIN tasks t ON t.id = d.task_id "
                  "WHERE d.tenant_id = ?1 AND d.key = ?2 AND d.until_ms > ?3 AND NOT t.deleted",
    [RD_NEXT_NAME] = "SELECT name FROM tasks INDEXED BY tasks_name WHERE kind <> 2 AND tenant_id = ?1 AND name > ?2 "
                     "ORDER BY name LIMIT 1",
    [RD_NAMED] = "SELECT id FROM tasks INDEXED BY tasks_name WHERE kind <> 2 AND tenant_id = ?1 AND name = ?2 "
                 "AND NOT deleted ORDER BY id DESC LIMIT 2",
    [RD_NEXT_CAUSE] = "SELECT cause " DEAD_LETTERS "AND cause > ?2 ORDER BY cause LIMIT 1",
    [RD_CAUSE] = "WITH x AS MATERIALIZED (SELECT id, failed_ms " DEAD_LETTERS
                 "AND cause IS ?2 ORDER BY id DESC LIMIT ?3) SELECT count(*), min(failed_ms), max(failed_ms), "
                 "(SELECT id FROM x ORDER BY failed_ms DESC, id DESC LIMIT 1) FROM x",
    [RD_LAST_ERROR] = "SELECT last_error FROM tasks WHERE id = ?1",
    [RD_CATALOG] = CATALOG "AND tenant_id = ?2 AND name = ?3",
    [RD_CATALOG_LIST] = CATALOG "AND tenant_id = ?2 AND name > ?3 ORDER BY name LIMIT ?4",
    [RD_LIST_CALENDAR] = TASKS "tasks_calendar WHERE kind = 1 AND state < " SQL_RUNNING
                               " AND deleted = 0 AND tenant_id = ?4 AND calendar = ?1 AND id < ?2" DOWN,
    [RD_PENDING] = SQL_PENDING,
    [RD_RECURRING] = SQL_RECURRING ")",
    [RD_LEASE] = "SELECT 0, l.tenant_id, l.task_id, l.queue, l.fence, l.until_ms, l.worker, l.progress "
                 "FROM task_leases AS l CROSS JOIN tasks AS t ON t.id = l.task_id AND t.state = " SQL_RUNNING
                 " AND t.fence = l.fence WHERE l.task_id = ?1 AND l.tenant_id = ?2",
    [RD_WORKERS] = "SELECT 0" WORKER_COLUMNS(SQL_NAME) " FROM workers WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    [RD_ABORT_REQUESTED] = "SELECT 1 FROM wishes WHERE task_id = ?1 AND fence = ?2 AND abort",
    [RD_SEALED] = "SELECT 1 FROM tasks WHERE instr(target_config, '\"enc:1:' || ?1) UNION ALL "
                  "SELECT 1 FROM definitions WHERE instr(text, '\"enc:1:' || ?1) UNION ALL "
                  "SELECT 1 FROM catalog WHERE instr(doc, '\"enc:1:' || ?1) LIMIT 1",
    [RD_SEALED_PAGE] = "SELECT id, tenant_id, kind, parent_id, state, CASE WHEN instr(replace(target_config, "
                       "'\"enc:1:' || ?1 || ':', ''), '\"enc:1:') THEN target_config END FROM tasks WHERE id > ?2 "
                       "ORDER BY id LIMIT ?3",
    [RD_AUDIT] = "SELECT 0" AUDIT_COLUMNS(
        SQL_NAME) " FROM audit WHERE id < ?1 AND id >= ?2 AND (?3 = 0 OR tenant_id = ?3) "
                  "AND (?4 = '' OR actor = ?4) AND (?5 = '' OR object = ?5) AND (?6 = '' OR action = ?6 "
                  "OR (?7 AND substr(action, 1, length(?6)) = ?6)) ORDER BY id DESC LIMIT ?8",
    [RD_AUDIT_SCANNED] = "SELECT id FROM audit WHERE id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3",
    /* rowids grow with time: rows are written when their attempt ends */
    [RD_HISTORY] = "SELECT rowid" EXECUTION_COLUMNS(
        SQL_NAME) ", (SELECT t.name FROM tasks AS t WHERE t.id = ifnull(occurrence_id, task_id)), "
                  "(SELECT t.lane FROM tasks AS t WHERE t.id = ifnull(occurrence_id, task_id)), "
                  "(SELECT t.queue FROM tasks AS t WHERE t.id = ifnull(occurrence_id, task_id)) "
                  "FROM executions WHERE rowid < ?1 AND rowid >= ?2 AND tenant_id = ?3 AND (?4 = 0 OR ?4 >> status & 1) "
                  "AND (?5 = '' OR worker = ?5) AND completed_us >= ?6 AND completed_us < ?7 AND (?8 = '' OR error = ?8) "
                  "ORDER BY rowid DESC",
    [RD_HISTORY_AT] = "SELECT rowid, completed_us FROM executions WHERE rowid >= ?1 ORDER BY rowid LIMIT 1",
    [RD_HISTORY_ENDS] = "SELECT (SELECT min(rowid) FROM executions), (SELECT max(rowid) FROM executions)",
    [RD_HITS] = "SELECT 0" HIT_COLUMNS(SQL_NAME) " FROM hits ORDER BY id LIMIT ?",
    [RD_RECORDS] = "SELECT 0" RECORD_COLUMNS(SQL_NAME) " FROM incident_records WHERE " SQL_RECORD_FILTER
                                                       "ORDER BY id DESC LIMIT ?10",
    [RD_RECORDS_DUE] = "SELECT 0" RECORD_COLUMNS(SQL_NAME) " FROM incident_records WHERE next_ms > 0 AND next_ms <= ?9 "
                                                           "AND " SQL_RECORD_FILTER "ORDER BY next_ms, id LIMIT ?10",
    [RD_BREAKERS] = "SELECT 0" BREAKER_COLUMNS(
        SQL_NAME) " FROM breakers WHERE id < ?1 AND (?2 < 0 OR tenant_id = ?2) "
                  "AND (?3 IS NULL OR ?3 = '' OR host = ?3) AND (?4 = 0 OR (host = '*') = (?4 = 2)) "
                  "ORDER BY id DESC LIMIT ?5",
    [RD_STATS] = "SELECT 0, ?2 + (minute_ms - ?2) / ?4 * ?4" STATS_MAP(
        STATS_TOTAL) " FROM stats WHERE tenant_id = ?1 "
                     "AND minute_ms >= ?2 AND minute_ms < ?3 GROUP BY (minute_ms - ?2) / ?4 ORDER BY 2",
    [RD_UNSTARTED] = "SELECT (SELECT count(*) FROM tasks INDEXED BY tasks_spawned WHERE parent_id = ?1 "
                     "AND state < " SQL_RUNNING " AND " UNSTARTED
                     ") + (SELECT count(*) FROM tasks INDEXED BY tasks_parent WHERE parent_id = ?1 "
                     "AND id >= ?2 AND state = " SQL_RUNNING " AND due_ms > ?3 AND " UNSTARTED ")",
    /* runs: reader_runs.c */
    [RD_LIST_RUNS] =
        TASKS "tasks_runs WHERE target = 4 AND run_id IS NULL AND ?1 IS NULL AND tenant_id = ?4 AND id < ?2" DOWN,
    [RD_DEFINITIONS] = "SELECT tenant_id, hash, text FROM definitions WHERE (tenant_id, hash) > (?1, ?2) "
                       "ORDER BY tenant_id, hash LIMIT ?3",
    [RD_DEFINITION] = "SELECT text FROM definitions WHERE tenant_id = ?1 AND hash = ?2",
    [RD_WORKFLOW] = "SELECT 0" WORKFLOW_COLUMNS(SQL_NAME) " FROM workflows WHERE tenant_id = ?1 AND name = ?2 "
                                                          "AND (?3 = 0 OR version = ?3) AND NOT removed "
                                                          "ORDER BY version DESC LIMIT 1",
    [RD_WORKFLOWS] = "SELECT 0" WORKFLOW_COLUMNS(
        SQL_NAME) " FROM workflows AS w WHERE tenant_id = ?1 AND name > ?2 AND NOT removed AND NOT EXISTS "
                  "(SELECT 1 FROM workflows AS x WHERE x.tenant_id = ?1 AND x.name = w.name AND x.version > w.version) "
                  "ORDER BY name LIMIT ?3",
    [RD_RUN] = "SELECT 0" RUN_COLUMNS(SQL_NAME) " FROM runs WHERE run_id = ?1",
    [RD_STEPS] = TASKS "tasks_run WHERE run_id = ?1 AND tenant_id = ?2 AND place > ?3 AND (?4 < 0 OR "
                       "(place >> 24 & 0xffffff = ?4 AND place >> 48 < 2)) AND (?5 = 0 OR ?5 >> " SQL_SHOWN_STATE(
                           "?7") " & 1) "
                                 "ORDER BY place LIMIT ?6",
    [RD_OUTPUTS] = "SELECT place, whole, text FROM outputs WHERE run_id = ?1 AND place BETWEEN ?2 AND ?3 "
                   "ORDER BY place LIMIT ?4",
    [RD_SIGNALS] = "SELECT 0" SIGNAL_COLUMNS(SQL_NAME) " FROM signals WHERE run_id = ?1 AND name = ?2 "
                                                       "ORDER BY time_ms, sender",
    [RD_CATALOG_LIST_ALL] = CATALOG "AND (tenant_id, name) > (?2, ?3) ORDER BY tenant_id, name LIMIT ?4",
};
static_assert(array_count(reader_sql) == RD_COUNT, "a statement without a text");
static_assert(TASK_OCCURRENCE == 2 && TARGET_WORKFLOW == 4 && PLACE_KIND_DEADLINE == 2,
              "statements name them by number");

enum { SLICE = 4000, DUE_MAX = COUNT_SLOW_MAX };

enum err reader_sqlite_read_one(struct reader_sqlite *r, sqlite3_stmt *st, const struct table *t, struct arena *a,
                                void *row, bool *ret_found, struct error *e)
{
    if (conn_step(&r->conn, st, ret_found, e))
        return e->code;
    if (!*ret_found)
        return ERR_OK;
    enum err rc = row_read(&r->conn, st, 1, t, a, row, e);
    sqlite3_reset(st);
    return rc;
}

static enum err reader_sqlite_get(struct reader *base, int32_t tenant, struct uuid id, struct arena *a,
                                  struct task *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_TASK);
    struct task t = { 0 };
    bool found;
    sqlite3_bind_blob(st, 1, id.b, sizeof id.b, SQLITE_STATIC);
    if (reader_sqlite_read_one(r, st, &table_tasks, a, &t, &found, e))
        return e->code;
    if (!found || t.tenant != tenant || t.deleted)
        return reader_not_found("task", e);
    *ret = t;
    return ERR_OK;
}

/* ---- walking down an index ---- */

struct index_walk {
    struct reader_sqlite *r;
    sqlite3_stmt *st; /* ?1 is bound */
    int32_t tenant;
    int id_column;
    struct uuid before; /* the id of the last visited row */
    int64_t visited;
    /* Checks the current row of st; sets *stop to end the walk at it. */
    enum err (*visit)(struct index_walk *w, bool *stop, struct error *e);
    void *context;
    struct arena *arena;
};

static const struct uuid highest = { { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                       255 } };

static enum err reader_sqlite_walk_slice(struct index_walk *w, int *ret_rows, bool *stop, struct error *e)
{
    sqlite3_bind_blob(w->st, 2, w->before.b, sizeof w->before.b, SQLITE_TRANSIENT);
    sqlite3_bind_int(w->st, 3, SLICE);
    sqlite3_bind_int(w->st, 4, w->tenant);
    int rows = 0;
    enum err rc = ERR_OK;
    while (!rc && !*stop) {
        bool row;
        rc = conn_step(&w->r->conn, w->st, &row, e);
        if (rc || !row)
            break;
        rows++;
        rc = w->visit(w, stop, e);
        if (!*stop)
            w->before = row_uuid(w->st, w->id_column);
    }
    sqlite3_reset(w->st);
    *ret_rows = rows;
    return rc;
}

/* Walks until a visit says stop, no row is left, or LIST_VISIT_MAX rows were visited (*ret_cut). */
static enum err reader_sqlite_walk_down(struct index_walk *w, bool *ret_cut, struct error *e)
{
    bool stop = false;
    int rows = SLICE;
    w->before = uuid_is_nil(w->before) ? highest : w->before;
    while (!stop && rows == SLICE && w->visited < LIST_VISIT_MAX) {
        if (reader_sqlite_walk_slice(w, &rows, &stop, e))
            return e->code;
        w->visited += rows;
    }
    *ret_cut = !stop && rows == SLICE;
    return ERR_OK;
}

/* ---- tasks ---- */

static bool reader_sqlite_name_matches(struct str wanted, struct str name)
{
    return name_is_prefix(wanted) ? str_starts(name, str_sub(wanted, 0, wanted.n - 1)) : str_eq(name, wanted);
}

static bool reader_sqlite_kind_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    int kind = sqlite3_column_int(st, AT_kind);
    if (uuid_is_nil(f->parent) ? kind == TASK_OCCURRENCE && !f->occurrences
                               : kind != TASK_OCCURRENCE || !uuid_eq(row_uuid(st, AT_parent_id), f->parent))
        return false;
    return !f->by_kind || kind == (f->recurring ? TASK_RECURRING : TASK_ONE_TIME);
}

/* Steps are listed with their runs only. */
static bool reader_sqlite_run_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    return sqlite3_column_type(st, AT_run_id) == SQLITE_NULL &&
           (!f->runs || (sqlite3_column_int(st, AT_target) == TARGET_WORKFLOW &&
                         sqlite3_column_int(st, AT_kind) != TASK_RECURRING));
}

static bool reader_sqlite_times_match(const struct task_filter *f, sqlite3_stmt *st)
{
    int64_t due_ms = sqlite3_column_int64(st, AT_due_ms), created_ms = sqlite3_column_int64(st, AT_created_ms);
    return (!f->due_before_ms || due_ms < f->due_before_ms) && (!f->due_after_ms || due_ms >= f->due_after_ms) &&
           (!f->created_before_ms || created_ms < f->created_before_ms) &&
           (!f->created_after_ms || created_ms >= f->created_after_ms);
}

static enum err reader_sqlite_queue_matches(struct reader_sqlite *r, const struct task_filter *f, sqlite3_stmt *st,
                                            bool *ret, struct error *e)
{
    const struct lane_row *lane;
    if (lanes_at(&r->conn, sqlite3_column_int64(st, AT_lane), &lane, e))
        return e->code;
    *ret = str_eq(lane->lane.queue, f->queue) || str_eq(row_text(st, AT_queue), f->queue);
    return ERR_OK;
}

static bool reader_sqlite_conflict_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    bool failed = sqlite3_column_int(st, AT_state) == TASK_FAILED;
    return (!f->cause.n || (failed && str_eq(f->cause, row_text(st, AT_cause)))) &&
           (!f->by_resolved || (failed && (sqlite3_column_int64(st, AT_resolved_ms) != 0) == f->resolved)) &&
           (!f->waits_for.n || str_eq(f->waits_for, row_text(st, AT_waits_for)));
}

static bool reader_sqlite_state_matches(const struct task_filter *f, sqlite3_stmt *st)
{
    struct task t = { .state = (enum task_state)sqlite3_column_int(st, AT_state) };
    if (f->states && f->shown_at_ms) {
        t.links = sqlite3_column_int(st, AT_links);
        t.due_ms = sqlite3_column_int64(st, AT_due_ms);
        t.run = row_uuid(st, AT_run_id);
        t.state = task_shown_state(&t, f->shown_at_ms);
    }
    return !f->states || f->states >> t.state & 1;
}

/* Checks single columns, so that rows which do not match are not read as a whole. */
static enum err reader_sqlite_matches(struct reader_sqlite *r, const struct task_filter *f, sqlite3_stmt *st, bool *ret,
                                      struct error *e)
{
    *ret = sqlite3_column_int(st, AT_tenant_id) == f->tenant && !sqlite3_column_int(st, AT_deleted) &&
           reader_sqlite_state_matches(f, st) && reader_sqlite_kind_matches(f, st) &&
           reader_sqlite_run_matches(f, st) && reader_sqlite_times_match(f, st) &&
           (!f->name.n || reader_sqlite_name_matches(f->name, row_text(st, AT_name))) &&
           (!f->task_type.n || str_eq(f->task_type, row_text(st, AT_task_type))) &&
           reader_sqlite_conflict_matches(f, st) && (!f->calendar.n || str_eq(f->calendar, row_text(st, AT_calendar)));
    return *ret && f->queue.n ? reader_sqlite_queue_matches(r, f, st, ret, e) : ERR_OK;
}

static sqlite3_stmt *reader_sqlite_bind_text(struct reader_sqlite *r, enum reader_statement which, struct str text)
{
    (void)bind_str(conn_stmt(&r->conn, which), 1, text);
    return conn_stmt(&r->conn, which);
}

static sqlite3_stmt *reader_sqlite_list_statement(struct reader_sqlite *r, const struct task_filter *f)
{
    switch (list_walk_of(f)) {
    case WALK_PARENT:
        (void)bind_uuid(conn_stmt(&r->conn, RD_LIST_PARENT), 1, &f->parent);
        return conn_stmt(&r->conn, RD_LIST_PARENT);
    case WALK_CALENDAR: return reader_sqlite_bind_text(r, RD_LIST_CALENDAR, f->calendar);
    case WALK_NAME: return reader_sqlite_bind_text(r, RD_LIST_NAME, f->name);
    case WALK_WAITING: return reader_sqlite_bind_text(r, RD_LIST_WAITING, f->waits_for);
    case WALK_CAUSE: return reader_sqlite_bind_text(r, RD_LIST_CAUSE, f->cause);
    case WALK_FAILED: return conn_stmt(&r->conn, RD_LIST_FAILED);
    case WALK_TYPE: return reader_sqlite_bind_text(r, RD_LIST_TYPE, f->task_type);
    default: return conn_stmt(&r->conn, f->runs ? RD_LIST_RUNS : RD_LIST);
    }
}

struct task_listing {
    const struct task_filter *filter;
    size_t skipped, n, max;
    bool counting;
    bool more;
};

static enum err reader_sqlite_visit_task(struct index_walk *w, bool *stop, struct error *e)
{
    struct task_listing *l = w->context;
    bool wanted;
    if (uuid_cmp(row_uuid(w->st, AT_id), l->filter->from) < 0) {
        *stop = true; /* all further ids are lower */
        return ERR_OK;
    }
    if (reader_sqlite_matches(w->r, l->filter, w->st, &wanted, e))
        return e->code;
    if (!wanted)
        return ERR_OK;
    if (l->counting) {
        *stop = ++l->n == l->max;
        return ERR_OK;
    }
    if (l->skipped < l->filter->offset) {
        l->skipped++;
        return ERR_OK;
    }
    if (l->n == l->max) {
        l->more = *stop = true;
        return ERR_OK;
    }
    struct task *t = &w->r->tasks[l->n++];
    *t = (struct task){ 0 };
    return row_read_without(&w->r->conn, w->st, 1, &table_tasks, l->filter->brief ? AT_payload : -1, w->arena, t, e);
}

static struct index_walk reader_sqlite_walk_over_tasks(struct reader_sqlite *r, const struct task_filter *f,
                                                       struct task_listing *l, struct arena *a)
{
    return (struct index_walk){ .r = r,
                                .st = reader_sqlite_list_statement(r, f),
                                .tenant = f->tenant,
                                .id_column = AT_id,
                                .before = f->before,
                                .visit = reader_sqlite_visit_task,
                                .context = l,
                                .arena = a };
}

void reader_sqlite_make_room(struct reader_sqlite *r, size_t tasks)
{
    if (tasks <= r->task_room)
        return;
    free(r->tasks);
    r->tasks = xmalloc(tasks * sizeof *r->tasks);
    r->task_room = tasks;
}

static enum err reader_sqlite_list(struct reader *base, const struct task_filter *f, struct arena *a,
                                   struct task_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct task_listing l = { .filter = f, .max = f->limit };
    struct index_walk w = reader_sqlite_walk_over_tasks(r, f, &l, a);
    bool cut;
    reader_sqlite_make_room(r, f->limit);
    if (reader_sqlite_walk_down(&w, &cut, e))
        return e->code;
    struct task_page page = { .tasks = { arena_alloc(a, l.n * sizeof(struct task)), l.n }, .more = l.more || cut };
    if (!page.tasks.v)
        return reader_no_room(e);
    memcpy(page.tasks.v, r->tasks, l.n * sizeof(struct task));
    if (page.more)
        page.next_before = l.more ? page.tasks.v[l.n - 1].id : w.before;
    *ret = page;
    return ERR_OK;
}

static enum err reader_sqlite_count(struct reader *base, const struct task_filter *f, size_t max,
                                    struct task_count *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct task_listing l = { .filter = f, .max = max, .counting = true };
    struct index_walk w = reader_sqlite_walk_over_tasks(r, f, &l, NULL);
    bool cut = false;
    if (max && reader_sqlite_walk_down(&w, &cut, e))
        return e->code;
    *ret = (struct task_count){ .n = l.n, .is_cut = cut };
    return ERR_OK;
}

/* ---- executions ---- */

enum { EXECUTION_ID = 1, EXECUTION_TENANT = 2, EXECUTION_STATUS = 5 }; /* column numbers in RD_EXECUTIONS */

struct execution_listing {
    const struct execution_filter *filter;
    size_t n;
    bool more;
};

static enum err reader_sqlite_visit_execution(struct index_walk *w, bool *stop, struct error *e)
{
    struct execution_listing *h = w->context;
    const struct execution_filter *f = h->filter;
    if (sqlite3_column_int(w->st, EXECUTION_TENANT) != f->tenant ||
        (f->statuses && !(f->statuses >> sqlite3_column_int(w->st, EXECUTION_STATUS) & 1)))
        return ERR_OK;
    if (h->n == f->limit) {
        h->more = *stop = true;
        return ERR_OK;
    }
    struct execution *x = &w->r->executions[h->n++];
    *x = (struct execution){ 0 };
    return row_read(&w->r->conn, w->st, 1, &table_executions, w->arena, x, e);
}

static enum err reader_sqlite_executions(struct reader *base, const struct execution_filter *f, struct arena *a,
                                         struct execution_page *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    struct execution_listing h = { .filter = f };
    struct index_walk w = { .r = r,
                            .st = conn_stmt(&r->conn, RD_EXECUTIONS),
                            .tenant = f->tenant,
                            .id_column = EXECUTION_ID,
                            .before = f->before,
                            .visit = reader_sqlite_visit_execution,
                            .context = &h,
                            .arena = a };
    bool cut;
    sqlite3_bind_blob(w.st, 1, f->task.b, sizeof f->task.b, SQLITE_STATIC);
    r->executions = xrealloc(r->executions, f->limit * sizeof *r->executions);
    if (reader_sqlite_walk_down(&w, &cut, e))
        return e->code;
    struct execution_page page = { .executions = { arena_alloc(a, h.n * sizeof(struct execution)), h.n },
                                   .more = h.more || cut };
    if (!page.executions.v)
        return reader_no_room(e);
    memcpy(page.executions.v, r->executions, h.n * sizeof(struct execution));
    if (page.more)
        page.next_before = h.more ? page.executions.v[h.n - 1].id : w.before;
    *ret = page;
    return ERR_OK;
}

/* ---- idempotency records, API keys, slots, lanes, counts ---- */

static enum err reader_sqlite_idempotency(struct reader *base, int32_t tenant, const uint8_t key[32], struct arena *a,
                                          struct idempotency *ret, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_IDEMPOTENCY);
    struct idempotency record = { 0 };
    bool found;
    sqlite3_bind_blob(st, 1, key, 32, SQLITE_STATIC);
    sqlite3_bind_int(st, 2, tenant);
    if (reader_sqlite_read_one(r, st, &table_idempotency, a, &record, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("key", e);
    *ret = record;
    return ERR_OK;
}

static enum err reader_sqlite_key(struct reader *base, struct str id, struct arena *a, struct api_key *ret,
                                  struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_KEY);
    struct api_key k = { 0 };
    bool found;
    (void)bind_str(st, 1, id);
    if (reader_sqlite_read_one(r, st, &table_api_keys, a, &k, &found, e))
        return e->code;
    if (!found)
        return reader_not_found("key", e);
    *ret = k;
    return ERR_OK;
}

static enum err reader_sqlite_slots(struct reader *base, struct str key, struct arena *a, struct slot_holders *ret,
                                    struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    sqlite3_stmt *st = conn_stmt(c, RD_SLOTS);
    struct slot_holder found[LIST_MAX];
    struct slot_holders holders = { 0 };
    (void)bind_str(st, 1, key);
    sqlite3_bind_int(st, 2, LIST_MAX);
    for (bool row;;) {
        if (conn_step(c, st, &row, e))
            return e->code;
        if (!row)
            break;
        found[holders.n++] = (struct slot_holder){ row_uuid(st, 0), (enum task_state)sqlite3_column_int(st, 1),
                                                   sqlite3_column_int64(st, 2) };
    }
    holders.v = arena_alloc(a, holders.n * sizeof *holders.v);
    if (!holders.v)
        return reader_no_room(e);
    memcpy(holders.v, found, holders.n * sizeof *holders.v);
    *ret = holders;
    return ERR_OK;
}

static enum err reader_sqlite_lanes(struct reader *base, struct arena *a, struct lane **ret, size_t *ret_count,
                                    struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    if (lanes_load(c, e))
        return e->code;
    return store_lanes_list(&c->lanes, a, ret, ret_count) ? ERR_OK : reader_no_room(e);
}

static enum err reader_sqlite_queues(struct reader *base, int32_t tenant, struct arena *a, struct used_queues *ret,
                                     struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    if (lanes_load(c, e))
        return e->code;
    return store_lanes_queues(&c->lanes, tenant, a, ret) ? ERR_OK : reader_no_room(e);
}

static enum err reader_sqlite_count_states(struct conn *c, struct store_counts *ret, struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_COUNTS);
    for (bool row;;) {
        if (conn_step(c, st, &row, e))
            return e->code;
        if (!row)
            return ERR_OK;
        int state = sqlite3_column_int(st, 0);
        if (state >= 0 && state <= TASK_EXPIRED)
            ret->by_state[state] = sqlite3_column_int64(st, 1);
    }
}

static enum err reader_sqlite_count_due(struct conn *c, int64_t lane, int64_t now_ms, int64_t max, int64_t *total,
                                        struct error *e)
{
    sqlite3_stmt *st = conn_stmt(c, RD_DUE);
    bool row;
    sqlite3_bind_int64(st, 1, lane);
    sqlite3_bind_int64(st, 2, now_ms);
    sqlite3_bind_int64(st, 3, max);
    if (conn_step(c, st, &row, e))
        return e->code;
    *total += sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return ERR_OK;
}

static enum err reader_sqlite_counts(struct reader *base, int64_t now_ms, struct store_counts *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    struct store_counts counted = { 0 };
    if (reader_sqlite_count_states(c, &counted, e) || lanes_load(c, e))
        return e->code;
    for (size_t i = 0; i < c->lanes.top && counted.due < DUE_MAX; i++)
        if (reader_sqlite_count_due(c, c->lanes.by_number[i]->number, now_ms, DUE_MAX - counted.due, &counted.due, e))
            return e->code;
    *ret = counted;
    return ERR_OK;
}

static bool reader_sqlite_is_claimable(const struct lane_row *l)
{
    return l->pool == POOL_DISPATCHED || l->pool == POOL_LEASED || l->pool == POOL_LATE;
}

static enum err reader_sqlite_backlog(struct reader *base, int64_t now_ms, struct arena *a, struct backlog_rows *ret,
                                      struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    if (lanes_load(c, e))
        return e->code;
    struct backlog_rows rows = { .v = arena_array(a, struct backlog_row, c->lanes.top) };
    if (!rows.v)
        return reader_no_room(e);
    for (size_t i = 0; i < c->lanes.top; i++) {
        const struct lane_row *l = c->lanes.by_number[i];
        struct backlog_row row = { .tenant = l->lane.tenant, .priority = l->lane.priority };
        if (!reader_sqlite_is_claimable(l))
            continue;
        if (reader_sqlite_count_due(c, l->number, now_ms, INT64_MAX, &row.due, e))
            return e->code;
        if (row.due && !arena_str(a, l->lane.queue, &row.queue))
            return reader_no_room(e);
        if (row.due)
            rows.v[rows.n++] = row;
        rows.by_partition[0] += row.due;
    }
    *ret = rows;
    return ERR_OK;
}

static enum err reader_sqlite_queue_due(struct reader *base, int32_t tenant, struct str queue, int64_t now_ms,
                                        int64_t *ret, struct error *e)
{
    struct conn *c = &reader_sqlite_of(base)->conn;
    int64_t due = 0;
    if (lanes_load(c, e))
        return e->code;
    for (size_t i = 0; i < c->lanes.top && due < DUE_MAX; i++) {
        const struct lane_row *l = c->lanes.by_number[i];
        bool is_its = reader_sqlite_is_claimable(l) && l->lane.tenant == tenant && str_eq(l->lane.queue, queue);
        if (is_its && reader_sqlite_count_due(c, l->number, now_ms, DUE_MAX - due, &due, e))
            return e->code;
    }
    *ret = due;
    return ERR_OK;
}

static void reader_sqlite_free(struct reader *base)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    conn_release(&r->conn);
    free(r->tasks);
    free(r->executions);
    free(r);
}

static const struct reader_ops reader_sqlite_ops = { .get = reader_sqlite_get,
                                                     .list = reader_sqlite_list,
                                                     .count = reader_sqlite_count,
                                                     .executions = reader_sqlite_executions,
                                                     .history = reader_sqlite_history,
                                                     .idempotency = reader_sqlite_idempotency,
                                                     .key = reader_sqlite_key,
                                                     .keys = reader_sqlite_keys,
                                                     .dedupe = reader_sqlite_dedupe,
                                                     .causes = reader_sqlite_causes,
                                                     .names = reader_sqlite_names,
                                                     .catalog_get = reader_sqlite_catalog_get,
                                                     .catalog_list = reader_sqlite_catalog_list,
                                                     .slots = reader_sqlite_slots,
                                                     .links = reader_sqlite_links,
                                                     .lanes = reader_sqlite_lanes,
                                                     .queues = reader_sqlite_queues,
                                                     .counts = reader_sqlite_counts,
                                                     .queue_due = reader_sqlite_queue_due,
                                                     .backlog = reader_sqlite_backlog,
                                                     .usage = reader_sqlite_usage,
                                                     .lease = reader_sqlite_lease,
                                                     .unstarted = reader_sqlite_unstarted,
                                                     .workers = reader_sqlite_workers,
                                                     .breakers = reader_sqlite_breakers,
                                                     .stats = reader_sqlite_stats,
                                                     .hits = reader_sqlite_hits,
                                                     .records = reader_sqlite_records,
                                                     .audit = reader_sqlite_audit,
                                                     .sealed = reader_sqlite_sealed,
                                                     .sealed_page = reader_sqlite_sealed_page,
                                                     .key_prints = reader_sqlite_key_prints,
                                                     .definitions = reader_sqlite_definitions,
                                                     .definition = reader_sqlite_definition,
                                                     .workflow = reader_sqlite_workflow,
                                                     .workflows = reader_sqlite_workflows,
                                                     .run = reader_sqlite_run,
                                                     .steps = reader_sqlite_steps,
                                                     .outputs = reader_sqlite_outputs,
                                                     .signals = reader_sqlite_signals,
                                                     .free = reader_sqlite_free };

enum err reader_sqlite_open(const char *path, struct reader **ret, struct error *e)
{
    struct reader_sqlite *r = xnew(*r);
    r->base.ops = &reader_sqlite_ops;
    if (conn_open(&r->conn, path, CONN_READER, e) ||
        conn_set_statements(&r->conn, reader_sql, array_count(reader_sql), e)) {
        reader_sqlite_free(&r->base);
        return e->code;
    }
    *ret = &r->base;
    return ERR_OK;
}
