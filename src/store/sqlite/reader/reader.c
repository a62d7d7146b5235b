/* A reader: the texts of its statements, its connection, and reading one task. The other reads are in list.c and its
 * neighbours, and in the folders of their subjects. */
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
    /* other reads */
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
    /* runs: flow/reader_runs.c */
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

void reader_sqlite_make_room(struct reader_sqlite *r, size_t tasks)
{
    if (tasks <= r->task_room)
        return;
    free(r->tasks);
    r->tasks = xmalloc(tasks * sizeof *r->tasks);
    r->task_room = tasks;
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

enum err reader_sqlite_unstarted(struct reader *base, struct task *v, size_t n, int64_t now_ms, struct error *e)
{
    struct reader_sqlite *r = reader_sqlite_of(base);
    sqlite3_stmt *st = conn_stmt(&r->conn, RD_UNSTARTED);
    for (size_t i = 0; i < n; i++) {
        bool row;
        if (v[i].kind != TASK_RECURRING)
            continue;
        struct uuid from = unstarted_from(&v[i], now_ms);
        (void)bind_uuid(st, 1, &v[i].id);
        (void)bind_uuid(st, 2, &from);
        sqlite3_bind_int64(st, 3, now_ms);
        if (conn_step(&r->conn, st, &row, e))
            return e->code;
        v[i].unstarted_count = sqlite3_column_int64(st, 0);
        sqlite3_reset(st);
    }
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
