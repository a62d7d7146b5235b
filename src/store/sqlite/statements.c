/* The texts of the writer's statements. */
#include "store/sqlite/statements.h"

#include <assert.h>

#include "store/sqlite/row.h"

#define SQL_MARK(column, kind, member, max) ", ?"

#define JOIN_TASK                                                                                                      \
    "t.rid, t.id, t.tenant_id, t.kind, t.state, t.deleted, t.links, t.due_ms, t.scheduled_ms, t.awaited_ms, "          \
    "t.late_by, t.lane, t.completed_ms"
#define STEP                                                                                                           \
    JOIN_TASK ", t.fence, t.claim_id, t.started_ms, t.priority, t.target, t.run_id, t.place, t.queue, "                \
              "t.gates IS NOT NULL, t.losses"
#define PURGED "rid, id, tenant_id, state, deleted, links, target"
#define UNNAMED                                                                                                        \
    "SELECT d.rowid FROM definitions AS d INDEXED BY definitions_put WHERE d.put_ms < ?1 "                             \
    "AND NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.tenant_id = d.tenant_id AND w.hash = d.hash "                \
    "AND NOT w.removed) "                                                                                              \
    "AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.tenant_id = d.tenant_id AND r.hash = d.hash) ORDER BY d.put_ms"
#define WAITING "FROM tasks INDEXED BY tasks_waiting WHERE waits_for = ?1 "
#define HOLDERS "FROM slots AS s CROSS JOIN tasks AS t ON t.id = s.task_id WHERE s.key = ?1"
#define DUE     "FROM tasks INDEXED BY tasks_due WHERE " SQL_NEAR "AND lane = ?1 "

/* ORPHANED: claims of nodes that are not alive. STILL_RUNS: the task of a recall request is still RUNNING under the
 * same fence. UNREFUSED: its node has to look at it. */
#define OF_THE_DEAD(not_node) "node <> " not_node " AND node NOT IN (SELECT id FROM nodes WHERE NOT dead) AND hold = 0"
#define ORPHANED              "FROM claims WHERE " OF_THE_DEAD("?1")
#define STILL_RUNS                                                                                                     \
    "EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = wishes.task_id AND t.state = " SQL_RUNNING                          \
    " AND t.fence = wishes.fence AND NOT t.links & 16)"
#define UNREFUSED "(abort OR refused_fence <> fence)"
#define LEASED(index)                                                                                                  \
    "task_leases AS l INDEXED BY " index " CROSS JOIN tasks AS t "                                                     \
    "ON t.id = l.task_id AND t.state = " SQL_RUNNING " AND t.fence = l.fence "
#define COUNT_LEASED(which)                                                                                            \
    "SELECT count(*) FROM (SELECT 1 FROM " LEASED("task_leases_queue") "WHERE " which " LIMIT ?3)"

/* Rows are nearly in the order of their time: examines the first ?3 rows, and deletes at most ?2 of them. */
#define OLDEST(table, time)                                                                                            \
    "DELETE FROM " table " WHERE rowid IN (SELECT rowid FROM (SELECT rowid, " time " FROM " table                      \
    " ORDER BY rowid LIMIT ?3) WHERE " time " < ?1 LIMIT ?2)"

_Static_assert(OVERLAP_ALLOW == 1, "the number of ALLOW in ST_SLOT_EARLIER");
_Static_assert(TASK_OPEN == 16 && TASK_OPENED == 32, "statements name them by number");
const char *const sqlite_writer_statements[] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_SAVEPOINT] = "SAVEPOINT op",
    [ST_RELEASE] = "RELEASE op",
    [ST_ROLLBACK_TO] = "ROLLBACK TO op",
    [ST_COUNT_ADD] = "INSERT INTO counts (tenant_id, state, n) VALUES (?1, ?2, ?3) "
                     "ON CONFLICT (tenant_id, state) DO UPDATE SET n = n + ?3",
    [ST_LANE_INSERT] =
        "INSERT INTO lanes (lane, tenant_id, queue, priority, requires, cpu_milli, memory_mb, host, pool) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    /* tasks */
    [ST_TASK_INSERT] = "INSERT INTO tasks (rid" TASK_COLUMNS(SQL_NAME) ") VALUES (?" TASK_COLUMNS(
        SQL_MARK) ") "
                  "ON CONFLICT (id) DO NOTHING",
    [ST_TASK_INSERT_FRESH] = "INSERT INTO tasks (rid" TASK_COLUMNS(SQL_NAME) ") VALUES (NULL" TASK_COLUMNS(
        SQL_FRESH) ") "
                   "ON CONFLICT (id) DO NOTHING",
    [ST_TASK_CREATED] = "SELECT created_ms FROM tasks WHERE id = ?",
    [ST_TASK_GUARDS] = "SELECT rid, tenant_id, state, fence, deleted, claim_id, version, kind, cursor_ms, last_run_ms, "
                       "losses, lane, gates IS NOT NULL, waits_for IS NOT NULL, links, created_ms, "
                       "runs_count, skipped_count FROM tasks WHERE id = ?",
    [ST_SETTLE_GUARDS] =
        "SELECT rid, tenant_id, state, fence, deleted, claim_id, losses, lane, gates IS NOT NULL, links, run_id, "
        "place FROM tasks WHERE id = ?",
    [ST_TASK_BY_RID] = "SELECT rid" TASK_COLUMNS(SQL_NAME) " FROM tasks WHERE rid = ?",
    [ST_HANDED_BY_RID] = "SELECT rid" TASK_COLUMNS_SHORT(SQL_NAME) ", " HANDED_CONFIG(
        "") ", NULL, NULL, needs, aside, recalled, awaited_ms, late_by, links, run_id, place, queue, trace" TASK_COLUMNS_REST(SQL_NAME) " FROM tasks WHERE rid = ?",
    [ST_TASK_REPLACE] = "REPLACE INTO tasks (rid" TASK_COLUMNS(SQL_NAME) ") VALUES (?" TASK_COLUMNS(SQL_MARK) ")",
    [ST_TASK_DELETE] = "DELETE FROM tasks WHERE rid = ?",
    [ST_TASK_CHANGED] = "SELECT tenant_id, kind, parent_id, run_id, lane, queue, attempts, fence, trace, last_error "
                        "FROM tasks WHERE id = ?",
    /* claims */
    [ST_DUE] = "SELECT rid" TASK_COLUMNS_DUE(SQL_NAME) ", gates " DUE "AND due_ms <= ?2 ORDER BY due_ms, id",
    [ST_DUE_BEHIND] =
        "SELECT rid" TASK_COLUMNS_DUE(SQL_NAME) ", gates " DUE "AND due_ms <= ?2 AND (due_ms, id) > (?3, ?4) "
                                                "ORDER BY due_ms, id",
    [ST_DUE_KEYS] = "SELECT due_ms, id, rid " DUE "AND due_ms <= ?2 ORDER BY due_ms, id LIMIT ?3",
    [ST_DUE_KEYS_BEHIND] = "SELECT due_ms, id, rid " DUE "AND due_ms <= ?2 AND (due_ms, id) > (?4, ?5) "
                           "ORDER BY due_ms, id LIMIT ?3",
    [ST_DUE_BY_RID] =
        "SELECT rid" TASK_COLUMNS_DUE(SQL_NAME) ", gates FROM tasks WHERE rid = ?1 AND state = " SQL_SCHEDULED,
    [ST_NEXT_DUE] = "SELECT due_ms, id " DUE "ORDER BY due_ms, id",
    [ST_CLAIM_TASK] = "UPDATE tasks SET state = " SQL_RUNNING ", fence = ?3, claim_id = ?2, near = 1 "
                      "WHERE rid = ?1",
    [ST_BRING_NEAR] =
        "UPDATE tasks SET near = 1 WHERE rid IN (SELECT rid FROM tasks INDEXED BY tasks_far WHERE " SQL_FAR_UNTIL(
            "?1") "LIMIT ?2)",
    [ST_FAR_EXISTS] = "SELECT 1 FROM tasks INDEXED BY tasks_far WHERE " SQL_FAR "LIMIT 1",
    [ST_CLAIM_EXISTS] = "SELECT 1 FROM claims WHERE id = ?",
    [ST_CLAIM_INSERT] = "INSERT INTO claims (id, node, held, tasks, hold) VALUES (?, ?, ?, ?, ?)",
    [ST_CLAIM_JOIN] = "UPDATE claims SET held = held + 1, tasks = CAST(tasks || ?2 AS BLOB) WHERE id = ?1",
    [ST_CLAIM_LEAVE] = "UPDATE claims SET held = held - ?2 WHERE id = ?1",
    [ST_CLAIM_DELETE] = "DELETE FROM claims WHERE id = ? AND held <= 0",
    [ST_CLAIM_BY_ID] = "SELECT id, tasks FROM claims WHERE id = ?",
    [ST_CLAIMS_ORPHANED] =
        "SELECT id, tasks, coalesce((SELECT fires_until_ms FROM nodes WHERE nodes.id = claims.node), 0) " ORPHANED,
    /* tasks that run outside of their node: handoff.c, leases.c, workers.c */
    [ST_CLAIM_HAND] = "UPDATE claims SET hold = 1, epoch = ?3 WHERE id = ?1 AND node = ?2 AND hold = 0",
    [ST_ORPHAN_HAND] = "UPDATE claims SET hold = 1, epoch = ?3 WHERE id = ?1 AND " OF_THE_DEAD("?2"),
    [ST_CLAIMS_HANDED] =
        "SELECT id, tasks, epoch FROM claims INDEXED BY claims_id WHERE hold = 1 AND id >= ?2 AND id < ?1 ORDER BY id",
    [ST_CLAIMS_OF_NODE] = "SELECT id, tasks, epoch FROM claims WHERE hold < 2 AND node = ?1",
    [ST_TASK_OF_CLAIM] = "SELECT id, lane FROM tasks WHERE rid = ?1 AND state = " SQL_RUNNING " AND claim_id = ?2",
    [ST_RUNNING] = "SELECT 1 FROM tasks WHERE id = ?1 AND state = " SQL_RUNNING " AND fence = ?2 AND NOT links & 16",
    [ST_RETAKEN] = "SELECT rid" TASK_COLUMNS(
        SQL_NAME) " FROM tasks WHERE id = ?1 AND state = " SQL_RUNNING " AND fence = ?2 AND NOT links & 16 "
                  "AND " RETAKE_MAY("") " AND coalesce(length(CAST(payload AS BLOB)), 0) + "
                                        "coalesce(length(CAST(target_config AS BLOB)), 0) <= ?3 "
                                        "AND NOT EXISTS (SELECT 1 FROM wishes WHERE task_id = ?1 AND fence = ?2)",
    [ST_RETAKE] = "UPDATE tasks SET fence = ?3, claim_id = ?2 WHERE rid = ?1",
    [ST_TASK_LEASE_PUT] = "REPLACE INTO task_leases (tenant_id, task_id, queue, fence, until_ms, worker, progress) "
                          "VALUES (?, ?, ?, ?, ?, ?, ?)",
    [ST_TASK_LEASE_DELETE] = "DELETE FROM task_leases WHERE task_id = ?",
    [ST_TASK_LEASE_RENEW] =
        "UPDATE task_leases AS l SET until_ms = ?4, progress = coalesce(?5, progress) "
        "WHERE l.task_id = ?1 AND l.fence = ?2 AND l.tenant_id = ?3 AND EXISTS "
        "(SELECT 1 FROM tasks AS t WHERE t.id = l.task_id AND t.state = " SQL_RUNNING " AND t.fence = l.fence)",
    [ST_TASK_LEASES_OF_QUEUE] = COUNT_LEASED("l.tenant_id = ?1 AND l.queue = ?2"),
    [ST_TASK_LEASES_OF_TENANT] = COUNT_LEASED("l.tenant_id = ?1"),
    [ST_TASK_LEASES_DELETE_STALE] =
        "DELETE FROM task_leases WHERE task_id IN (SELECT l.task_id FROM task_leases AS l "
        "INDEXED BY task_leases_until LEFT JOIN tasks AS t ON t.id = l.task_id AND t.state = " SQL_RUNNING
        " AND t.fence = l.fence WHERE l.until_ms <= ?1 AND t.rid IS NULL)",
    [ST_TASK_LEASES_BY_EXPIRY] =
        "SELECT t.rid, l.until_ms FROM " LEASED("task_leases_until") "ORDER BY l.until_ms, l.task_id",
    [ST_ANY_EXPIRES] = "SELECT 1 FROM tasks INDEXED BY tasks_with_expiry "
                       "WHERE expires_after_ms > 0 AND state < 4 LIMIT 1",
    [ST_WAITING_BY_EXPIRY] =
        "SELECT rid, scheduled_ms + expires_after_ms FROM tasks INDEXED BY tasks_expiring "
        "WHERE expires_after_ms > 0 AND (state = 0 OR waits_for IS NOT NULL) AND kind <> 1 AND NOT deleted "
        "AND links & 288 = 0 ORDER BY scheduled_ms + expires_after_ms, id",
    [ST_ABORT_REQUESTED] = "SELECT 1 FROM wishes WHERE task_id = ?1 AND fence = ?2 AND abort",
    [ST_WORKER_PUT] =
        "INSERT INTO workers (id, name, version, slots, running, joined_ms, seen_ms, left_ms, doc, " WORKER_KIND_NAMES
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) "
        "ON CONFLICT (id) DO UPDATE SET name = ?2, "
        "version = ?3, slots = ?4, running = ?5, seen_ms = max(seen_ms, ?7), "
        "left_ms = CASE WHEN left_ms = 0 THEN ?8 ELSE left_ms END, doc = ?9, queues = ?10, tenants = ?11, "
        "labels = ?12, priority_min = ?13, priority_max = ?14, cpu_milli = ?15, memory_mb = ?16",
    [ST_WORKER] = "SELECT 0" WORKER_COLUMNS(SQL_NAME) " FROM workers WHERE id = ?",
    [ST_WORKER_GROUPS] = "SELECT 0, " WORKER_KIND_NAMES
                         ", sum(slots), count(*) FROM " LIVE_WORKERS("?1", "?2") " GROUP BY " WORKER_KIND_NAMES,
    [ST_BREAKER_PUT] =
        "INSERT INTO breakers (id, tenant_id, host, opened_ms, until_ms, calls, failures, reopened, reason) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (tenant_id, host) DO UPDATE SET until_ms = ?5, "
        "reason = ?9, reopened = reopened + 1 WHERE until_ms < ?5",
    [ST_BREAKER_CLOSE] = "DELETE FROM breakers WHERE tenant_id = ?1 AND id = ?2",
    [ST_RESEAL] = "UPDATE tasks SET target_config = ?3 WHERE id = ?1 AND target_config = ?2 AND state <> " SQL_RUNNING,
    [ST_RESEAL_DEFINITION] = "UPDATE definitions SET text = ?4 WHERE tenant_id = ?1 AND hash = ?2 AND text = ?3",
    [ST_BREAKER_CLOSE_HOST] = "DELETE FROM breakers WHERE tenant_id = ?1 AND host = ?2",
    [ST_STATS_ADD] = "INSERT INTO stats (" STATS_NAMES ") VALUES (?, ?, ?, ?, ?" STATS_MAP(
        STATS_PARAMETER) ") " STATS_CONFLICT ", written = excluded.written WHERE written < excluded.written",
    [ST_STATS_MERGE] = "INSERT INTO stats (" STATS_NAMES ") SELECT minute_ms - minute_ms % ?4, x'" STATS_NODES
                       "', tenant_id, ?1 + 1, 0" STATS_MAP(
                           STATS_TOTAL) " FROM (SELECT * " STATS_OLDEST
                                        ") GROUP BY minute_ms - minute_ms % ?4, tenant_id " STATS_CONFLICT,
    [ST_STATS_PURGE] = "DELETE FROM stats WHERE (" STATS_KEY ") IN (SELECT " STATS_KEY " " STATS_OLDEST ")",
    [ST_SETTLE] = "UPDATE tasks SET state = ?2, due_ms = coalesce(?3, due_ms), attempts = ?4, losses = ?5, "
                  "claim_id = NULL, updated_ms = ?6, started_ms = coalesce(?7, started_ms), completed_ms = ?8, "
                  "last_error = ?9, cause = ?10, failed_ms = ?11, awaited_ms = coalesce(?12, awaited_ms), "
                  "late_by = coalesce(?13, late_by), links = ?14 WHERE rid = ?1",
    [ST_SETTLE_DONE] = "UPDATE tasks SET state = ?2, attempts = ?4, losses = ?5, claim_id = NULL, updated_ms = ?6, "
                       "started_ms = coalesce(?7, started_ms), completed_ms = ?8, last_error = ?9 WHERE rid = ?1",
    [ST_MOVE_LANE] =
        "UPDATE tasks SET lane = ?2, aside = coalesce(?3, aside), recalled = recalled OR ?4 WHERE rid = ?1",
    [ST_UNCOUNT] = "UPDATE tasks SET runs_count = 0 WHERE rid = ?1 AND kind = 2 AND runs_count = 1 "
                   "AND started_ms = 0",
    [ST_UNCOUNT_PARENT] = "UPDATE tasks SET runs_count = max(runs_count - 1, 0), skipped_count = skipped_count + ?2 "
                          "WHERE id = ?1",
    [ST_EXECUTION_INSERT] = "INSERT INTO executions (rowid" EXECUTION_COLUMNS(
        SQL_NAME) ") "
                  "VALUES (?" EXECUTION_COLUMNS(SQL_MARK) ") ON CONFLICT (task_id, id) DO NOTHING",
    [ST_SETTLE_PARENT] =
        "SELECT p.rid, p.state, p.deleted, json_extract(p.schedule, '$.spread_ms'), o.runs_count, o.started_ms, "
        "o.scheduled_ms, o.version FROM tasks AS o, tasks AS p WHERE o.rid = ?1 AND o.kind = 2 AND p.id = ?2 AND p.kind = 1",
    [ST_LAST_RUN] = "UPDATE tasks SET last_run_ms = ?2 WHERE id = ?1 AND last_run_ms < ?2",
    /* slots */
    [ST_SLOT_COUNT] = "SELECT count(*) FROM slots WHERE key = ?1",
    [ST_SLOT_TAKE] = "INSERT INTO slots (tenant_id, key, task_id) VALUES (?1, ?2, ?3)",
    [ST_SLOT_DROP] = "DELETE FROM slots WHERE key = ?1 AND task_id = ?2",
    [ST_SLOTS_OF] = "SELECT key FROM slots INDEXED BY slots_task WHERE task_id = ?1",
    [ST_SLOT_FIRST] = "SELECT rid, id, due_ms, tenant_id, deleted, json_extract(gates, '$.concurrency_limit'), lane, "
                      "json_extract(gates, '$.overlap'), links " WAITING "ORDER BY due_ms, id LIMIT 1",
    [ST_SLOT_OTHER] = "SELECT rid, id, tenant_id, deleted, state, fence " WAITING "AND rid <> ?2 LIMIT 1",
    [ST_SLOT_HOLDERS] =
        "SELECT t.rid, t.id, t.tenant_id, t.deleted, iif(t.links & 32, " SQL_RUNNING ", t.state), t.fence " HOLDERS,
    [ST_SLOT_SINCE] = "SELECT min(t.scheduled_ms) " HOLDERS,
    [ST_SLOT_EARLIER] =
        "SELECT 1 FROM tasks INDEXED BY tasks_spawned WHERE parent_id = ?1 AND due_ms <= ?2 "
        "AND (due_ms, scheduled_ms, id) < (?2, ?3, ?4) AND state < " SQL_RUNNING " AND state <> " SQL_PAUSED
        " AND kind = 2 AND coalesce(json_extract(gates, '$.overlap'), 1) <> 1 "
        "LIMIT 1",
    [ST_SLOT_HELD_AHEAD] = "SELECT 1 " HOLDERS " AND t.due_ms > ?2 AND t.attempts = 0 AND t.losses = 0 "
                           "AND t.started_ms = 0 LIMIT 1",
    [ST_SLOT_WAITED_FOR] = "SELECT waits_for FROM tasks WHERE rid = ?1",
    [ST_SLOT_UNBLOCK] = "UPDATE tasks SET state = " SQL_SCHEDULED ", waits_for = NULL WHERE rid = ?1",
    [ST_SLOT_BLOCK] = "UPDATE tasks SET state = " SQL_BLOCKED ", waits_for = ?2, updated_ms = ?3, "
                      "late_by = CASE WHEN awaited_ms = 0 THEN ?4 ELSE late_by END WHERE rid = ?1",
    [ST_SLOT_GIVE_UP] = "UPDATE tasks SET state = ?2, waits_for = NULL, updated_ms = ?3, completed_ms = ?3, "
                        "last_error = ?4 WHERE rid = ?1",
    /* dependencies: joins.c */
    [ST_JOIN_TASK] = "SELECT " JOIN_TASK " FROM tasks AS t WHERE t.id = ?",
    [ST_JOIN_MARK] = "UPDATE tasks SET links = links | 2 WHERE id = ?",
    [ST_JOIN_CHILDREN] = "SELECT " JOIN_TASK ", e.type, j.kind, j.expected, j.arrived, j.met, j.broken, j.max_broken "
                         "FROM edges AS e INDEXED BY edges_open CROSS JOIN tasks AS t ON t.id = e.child_id "
                         "CROSS JOIN joins AS j ON j.child_id = e.child_id "
                         "WHERE e.parent_id = ?1 AND e.state = 0 ORDER BY e.child_id LIMIT ?2",
    [ST_JOIN_PUT] = "INSERT INTO joins (tenant_id, child_id, kind, expected, arrived, met, broken, max_broken) "
                    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (child_id) DO UPDATE SET kind = ?3, "
                    "expected = ?4, arrived = ?5, met = ?6, broken = ?7, max_broken = ?8",
    [ST_JOIN_COUNT] = "UPDATE joins SET arrived = ?2, met = ?3, broken = ?4 WHERE child_id = ?1",
    [ST_JOIN_GET] = "SELECT kind, expected, arrived, met, broken, max_broken FROM joins WHERE child_id = ?",
    [ST_JOIN_DELETE] = "DELETE FROM joins WHERE child_id = ?",
    [ST_JOIN_CHILD_PUT] = "UPDATE tasks SET state = ?2, links = ?3, due_ms = ?4, scheduled_ms = ?5, awaited_ms = ?6, "
                          "late_by = ?7, updated_ms = ?8, completed_ms = ?9, last_error = coalesce(?10, last_error), "
                          "near = near OR ?4 <= ?8 WHERE rid = ?1",
    [ST_EDGE_PUT] = "INSERT INTO edges (tenant_id, parent_id, child_id, type, state) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (parent_id, child_id) DO NOTHING",
    [ST_EDGE_ARRIVE] = "UPDATE edges SET state = ?3 WHERE parent_id = ?1 AND child_id = ?2",
    [ST_EDGE_REMOVE] = "DELETE FROM edges WHERE parent_id = ?1 AND child_id = ?2 RETURNING state",
    [ST_EDGES_DELETE] = "DELETE FROM edges WHERE child_id = ?",
    [ST_OPEN_PARENTS] = "SELECT parent_id FROM edges INDEXED BY edges_child WHERE child_id = ?1 AND state = 0 LIMIT ?2",
    [ST_ARRIVAL_LEAVE] = "INSERT INTO arrivals (parent_id, outcome, created_ms) SELECT ?1, ?2, ?3 WHERE EXISTS "
                         "(SELECT 1 FROM edges INDEXED BY edges_open WHERE parent_id = ?1 AND state = 0) "
                         "ON CONFLICT (parent_id) DO NOTHING",
    [ST_ARRIVALS] = "SELECT number, parent_id, outcome FROM arrivals ORDER BY number LIMIT ?",
    [ST_ARRIVAL_OF] = "SELECT 1 FROM arrivals WHERE parent_id = ?",
    [ST_ARRIVAL_OF_RUN] =
        "SELECT 1 FROM arrivals AS a CROSS JOIN tasks AS t ON t.id = a.parent_id WHERE t.run_id = ? LIMIT 1",
    [ST_ARRIVAL_DELETE] = "DELETE FROM arrivals WHERE number = ?",
    /* runs: runs.c, run_stop.c, definitions.c */
    [ST_ARRIVAL_DROP] = "DELETE FROM arrivals WHERE parent_id = ?",
    [ST_EDGES_CLOSE] = "UPDATE edges SET old = 1, state = iif(state = 0, 3, state) WHERE child_id = ?",
    [ST_END] = "SELECT state FROM edges WHERE parent_id = ?1 AND child_id = ?2 AND NOT old",
    [ST_END_PUT] = "INSERT INTO edges (tenant_id, parent_id, child_id, type, state) VALUES (?1, ?2, ?3, ?4, ?5) "
                   "ON CONFLICT (parent_id, child_id) DO UPDATE SET type = ?4, state = ?5, old = 0",
    [ST_STEP] = "SELECT " STEP " FROM tasks AS t WHERE t.id = ?",
    [ST_STEP_PUT] = "UPDATE tasks SET state = ?2, links = ?3, due_ms = ?4, scheduled_ms = ?5, awaited_ms = ?6, "
                    "late_by = ?7, updated_ms = ?8, completed_ms = ?9, last_error = coalesce(?10, last_error), "
                    "claim_id = ?11, started_ms = ?12, lane = ?13, queue = ?14, "
                    "waits_for = iif(?2 = " SQL_BLOCKED ", waits_for, NULL), near = near OR ?4 <= ?8 WHERE rid = ?1",
    [ST_STEPS] = "SELECT " STEP " FROM tasks AS t INDEXED BY tasks_run WHERE t.run_id = ?1 "
                 "AND t.place BETWEEN ?4 AND ?5 "
                 "AND CASE WHEN t.links & 1056 = 32 AND t.place >> 48 = 0 THEN ?6 ELSE ?2 END >> t.state & 1 "
                 "ORDER BY t.place LIMIT ?3",
    [ST_STEPS_RUNNING] = "SELECT id, fence, links, target FROM tasks INDEXED BY tasks_run WHERE run_id = ?1 "
                         "AND place BETWEEN ?2 AND ?3 AND state = " SQL_RUNNING " ORDER BY place",
    [ST_RUN] = "SELECT 0" RUN_COLUMNS(SQL_NAME) " FROM runs WHERE run_id = ?",
    [ST_RUN_PUT] = "REPLACE INTO runs (run_id" RUN_COLUMNS_REST(SQL_NAME) ") VALUES (?" RUN_COLUMNS_REST(SQL_MARK) ")",
    [ST_RUN_RESUME] = "UPDATE runs SET paused = 0 WHERE run_id = ?",
    [ST_RUN_COUNT] = "UPDATE runs SET tasks = tasks + ?2 WHERE run_id = ?1 RETURNING tasks",
    [ST_OUTPUT_PUT] = "REPLACE INTO outputs (run_id, place, whole, text) VALUES (?1, ?2, ?3, ?4)",
    [ST_OUTPUT_PUT_SUB_RUN] = "REPLACE INTO outputs (run_id, place, whole, text) SELECT ?1, ?2, ?3, ?4 "
                              "WHERE EXISTS (SELECT 1 FROM runs WHERE run_id = ?1)",
    [ST_OUTPUT_DELETE] = "DELETE FROM outputs WHERE run_id = ?1 AND place = ?2",
    [ST_SIGNAL] = "SELECT payload, rejects FROM signals WHERE run_id = ?1 AND name = ?2 AND sender = ?3",
    [ST_SIGNAL_PUT] = "INSERT INTO signals (run_id, name, sender, payload, rejects, time_ms) VALUES (?, ?, ?, ?, ?, ?)",
    [ST_SIGNALS_COUNT] = "SELECT count(*), coalesce(sum(length(CAST(payload AS BLOB))), 0) FROM signals "
                         "WHERE run_id = ?1 AND name = ?2",
    [ST_SIGNALS_DELETE] = "DELETE FROM signals WHERE run_id = ?1 AND name = ?2",
    [ST_DEFINITION_PUT] = "INSERT INTO definitions (tenant_id, hash, text, put_ms) VALUES (?1, ?2, ?3, ?4) "
                          "ON CONFLICT (tenant_id, hash) DO UPDATE SET put_ms = max(put_ms, ?4)",
    [ST_WORKFLOW] = "SELECT version, hash, created_ms, removed FROM workflows WHERE tenant_id = ?1 AND name = ?2 "
                    "ORDER BY version DESC LIMIT 1",
    [ST_WORKFLOW_PUT] =
        "INSERT INTO workflows (tenant_id, name, version, hash, created_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
    [ST_WORKFLOW_REMOVE] = "UPDATE workflows SET removed = 1 WHERE tenant_id = ?1 AND name = ?2",
    /* recurring tasks */
    [ST_RECURRING] = "SELECT rid" TASK_COLUMNS(SQL_NAME) " FROM tasks INDEXED BY tasks_cursor "
                                                         "WHERE state = " SQL_SCHEDULED
                                                         " AND kind = 1 AND (cursor_ms, id) > (?1, ?2) "
                                                         "ORDER BY cursor_ms, id",
    [ST_TAKEN] = "SELECT id, state, scheduled_ms, due_ms, cursor_ms, skipped_count FROM tasks INDEXED BY tasks_parent "
                 "WHERE parent_id = ?1 AND kind = 2 AND id >= ?2 ORDER BY id LIMIT ?3",
    [ST_SPAWN_MOVE] = "UPDATE tasks SET cursor_ms = ?2, runs_count = runs_count + ?3, "
                      "skipped_count = skipped_count + ?4 WHERE rid = ?1",
    [ST_SPAWN_END] = "UPDATE tasks SET state = " SQL_COMPLETED ", updated_ms = ?2, completed_ms = ?2 WHERE rid = ?1",
    [ST_SPAWNED] = "SELECT rid, tenant_id, state, deleted, scheduled_ms, runs_count, id, gates IS NOT NULL, waits_for, "
                   "due_ms, attempts, losses, started_ms "
                   "FROM tasks INDEXED BY tasks_spawned "
                   "WHERE parent_id = ?1 AND state < " SQL_RUNNING " AND kind = 2 AND (" SQL_NEVER_FIRED
                   " OR (?3 AND links & 32 = 0)) AND (runs_count > 0 OR NOT ?2)",
    [ST_CUT_FIND] = "SELECT rid, deleted FROM tasks WHERE id = ?1 AND parent_id = ?2 AND kind = 2 AND "
                    "state = " SQL_SKIPPED " AND skipped_count = ?3",
    [ST_CUT] = "UPDATE tasks SET cursor_ms = ?2, skipped_count = ?3, last_error = ?4 WHERE rid = ?1",
    [ST_SPAWNED_CANCEL] = "UPDATE tasks SET state = " SQL_CANCELLED ", waits_for = NULL, updated_ms = ?2, "
                          "completed_ms = ?2, last_error = ?3, "
                          "runs_count = CASE WHEN " SQL_NEVER_FIRED " THEN 0 ELSE runs_count END WHERE rid = ?1",
    [ST_CATCH_UP_NEXT] = "SELECT parent_id FROM tasks INDEXED BY tasks_spawned "
                         "WHERE parent_id > ? AND state < " SQL_RUNNING " ORDER BY parent_id LIMIT 1",
    [ST_CATCH_UP_TASK] =
        "SELECT rid, tenant_id, json_extract(schedule, '$.catch_up'), json_extract(schedule, '$.spread_ms'), "
        "json_extract(schedule, '$.catch_up_window_ms') FROM tasks "
        "WHERE id = ? AND kind = 1 AND state = " SQL_SCHEDULED,
    [ST_CATCH_UP_OCCURRENCES] =
        "SELECT rid, id, state, due_ms, scheduled_ms, version, attempts, losses, started_ms, runs_count, fence, "
        "gates IS NOT NULL, json_extract(gates, '$.overlap'), skipped_count "
        "FROM tasks INDEXED BY tasks_parent WHERE parent_id = ? AND kind = 2 ORDER BY id DESC",
    [ST_CATCH_UP_REWIND] = "UPDATE tasks SET cursor_ms = min(cursor_ms, ?2), runs_count = max(runs_count - ?3, 0) "
                           "WHERE rid = ?1",
    /* idempotency records, API keys, leases of names, dedupe keys */
    [ST_IDEMPOTENCY_INSERT] = "INSERT INTO idempotency (rowid" IDEMPOTENCY_COLUMNS(
        SQL_NAME) ") "
                  "VALUES (?" IDEMPOTENCY_COLUMNS(SQL_MARK) ") ON CONFLICT (key, tenant_id) DO NOTHING",
    [ST_IDEMPOTENCY_DELETE] = "DELETE FROM idempotency WHERE rowid = ?",
    [ST_KEY_PUT] = "REPLACE INTO api_keys (rowid" API_KEY_COLUMNS(SQL_NAME) ") VALUES (?" API_KEY_COLUMNS(SQL_MARK) ")",
    [ST_KEY_PURGE] = "DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys INDEXED BY api_keys_ended "
                     "WHERE parent IS NOT NULL AND abs(expires_ms) < ?1 LIMIT ?2)",
    [ST_KEY_REMOVE] = "UPDATE api_keys SET expires_ms = -?3 WHERE id = ?1 AND tenant_id = ?2 AND expires_ms >= 0",
    [ST_LEASE] = "INSERT INTO leases (name, holder, until_ms) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE "
                 "SET holder = ?2, until_ms = ?3 WHERE until_ms <= ?4 OR holder = ?2",
    [ST_DEDUPE_TAKE] = "INSERT INTO dedupe (tenant_id, key, task_id, until_ms) VALUES (?1, ?2, ?3, ?4) "
                       "ON CONFLICT (tenant_id, key) DO UPDATE SET task_id = ?3, until_ms = ?4 "
                       "WHERE task_id = ?6 OR until_ms <= ?5 OR task_id = ?3 OR NOT EXISTS "
                       "(SELECT 1 FROM tasks WHERE tasks.id = dedupe.task_id AND NOT deleted)",
    /* limits and calendars: limits.c */
    [ST_PENDING] = SQL_PENDING,
    [ST_RECURRING_COUNT] = SQL_RECURRING " LIMIT ?2)",
    [ST_CALENDAR_EXISTS] = "SELECT 1 FROM catalog WHERE kind = 1 AND tenant_id = ?1 AND name = ?2",
    [ST_CALENDAR_USED] = "SELECT 1 FROM tasks " SQL_BY_CALENDAR " AND calendar = ?2 LIMIT 1",
    [ST_CATALOG_FIND] =
        "SELECT rowid, version, created_ms FROM catalog WHERE kind = ?1 AND tenant_id = ?2 AND name = ?3",
    [ST_CATALOG_PUT] =
        "REPLACE INTO catalog (rowid" CATALOG_COLUMNS(SQL_NAME) ") VALUES (?" CATALOG_COLUMNS(SQL_MARK) ")",
    [ST_CATALOG_REMOVE] = "DELETE FROM catalog WHERE rowid = ?",
    /* nodes: nodes.c, limit_take.c, recall_requests.c */
    [ST_NODE_IS_DEAD] = "SELECT dead FROM nodes WHERE id = ?",
    [ST_NODE_HEARTBEAT] = "INSERT INTO nodes (id, name, version, beats, joined_ms, dead, dead_ms, doc, fires_until_ms) "
                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE "
                          "SET name = ?2, version = ?3, beats = beats + 1, doc = ?8, "
                          "fires_until_ms = max(fires_until_ms, ?9)",
    [ST_NODE_LEAVE] = "DELETE FROM nodes WHERE id = ?",
    [ST_NODE_MARK_DEAD] = "UPDATE nodes SET dead = 1, dead_ms = ?3 WHERE id = ?1 AND beats = ?2 AND NOT dead",
    [ST_NODE_MARK_OTHERS_DEAD] = "UPDATE nodes SET dead = 1, dead_ms = ?2 WHERE id <> ?1 AND NOT dead",
    [ST_NODES] = "SELECT 0" NODE_COLUMNS(SQL_NAME) " FROM nodes ORDER BY dead, dead * -joined_ms, id",
    [ST_ORPHAN_EXISTS] = "SELECT 1 " ORPHANED " LIMIT 1",
    [ST_SHARE] = "SELECT rate, burst, level, since_ms, taken, seen_ms FROM shares WHERE key = ?",
    [ST_SHARE_PUT] = "REPLACE INTO shares (key, rate, burst, level, since_ms, taken, seen_ms) "
                     "VALUES (?, ?, ?, ?, ?, ?, ?)",
    [ST_PLACES] = "SELECT node, n FROM places WHERE key = ?",
    [ST_PLACES_PUT] = "REPLACE INTO places (key, node, n) VALUES (?, ?, ?)",
    [ST_PLACES_GIVE_UP] = "DELETE FROM places WHERE key = ? AND node = ?",
    [ST_PLACES_OF_DEAD] = "DELETE FROM places WHERE node NOT IN (SELECT id FROM nodes WHERE NOT dead) "
                          "AND node NOT IN (SELECT node FROM claims WHERE hold < 2)",
    [ST_RECALL_OWNER] = "SELECT c.node, c.hold FROM tasks AS t CROSS JOIN claims AS c ON c.id = t.claim_id "
                        "WHERE t.id = ?1 AND t.state = " SQL_RUNNING " AND t.fence = ?2",
    [ST_RECALL] = "INSERT INTO wishes (task_id, node, fence, abort, by_scheduled_ms, created_ms) "
                  "VALUES (?1, ?2, ?3, ?4, ?6, ?5) ON CONFLICT (task_id) DO UPDATE SET "
                  "by_scheduled_ms = CASE WHEN ?6 = 0 AND fence = ?3 THEN by_scheduled_ms ELSE ?6 END, "
                  "abort = ?4 OR (fence = ?3 AND abort), node = ?2, fence = ?3, created_ms = ?5",
    [ST_RECALL_REFUSED] = "SELECT refused_fence = fence FROM wishes WHERE task_id = ?",
    [ST_RECALL_EXISTS] = "SELECT 1 FROM wishes WHERE node = ?1 AND " UNREFUSED " AND " STILL_RUNS " LIMIT 1",
    [ST_RECALLS_DELETE_OVER] = "DELETE FROM wishes WHERE node = ?1 AND NOT " STILL_RUNS,
    [ST_RECALL_REFUSE] = "UPDATE wishes SET refused_fence = fence WHERE task_id = ? AND fence = ?",
    [ST_RECALLS] = "SELECT task_id, fence, abort, by_scheduled_ms FROM wishes "
                   "WHERE node = ?1 AND task_id > ?2 AND " UNREFUSED " AND " STILL_RUNS " ORDER BY task_id LIMIT ?3",
    /* purge: purge.c */
    [ST_ENDED_INSERT] = "INSERT INTO ended (completed_ms, tasks) VALUES (?, ?)",
    [ST_ENDED_OLDEST] = "SELECT rowid, tasks FROM ended INDEXED BY ended_at WHERE completed_ms < ? "
                        "ORDER BY completed_ms LIMIT 1",
    [ST_ENDED_CUT] = "UPDATE ended SET tasks = ?2 WHERE rowid = ?1",
    [ST_ENDED_REMOVE] = "DELETE FROM ended WHERE rowid = ?",
    [ST_ENDED_TASK] = "SELECT " PURGED ", completed_ms, run_id FROM tasks WHERE rid = ?",
    [ST_STEPS_PURGED] = "SELECT " PURGED ", place, claim_id, gates IS NOT NULL FROM tasks INDEXED BY tasks_run "
                        "WHERE run_id = ?1 ORDER BY place LIMIT ?2",
    [ST_PURGE_OUTPUTS] = "DELETE FROM outputs WHERE run_id = ?",
    [ST_PURGE_SIGNALS] = "DELETE FROM signals WHERE run_id = ?",
    [ST_PURGE_RUN] = "DELETE FROM runs WHERE run_id = ?",
    [ST_PURGE_HIDE] = "UPDATE tasks SET deleted = 1 WHERE rid = ?",
    [ST_DEFINITIONS_USED] = "UPDATE definitions SET put_ms = ?3 WHERE rowid IN (" UNNAMED
                            " LIMIT ?2) AND EXISTS (SELECT 1 FROM tasks AS t INDEXED BY tasks_unopened "
                            "WHERE t.target = 4 AND NOT t.links & 32 AND t.tenant_id = definitions.tenant_id "
                            "AND instr(t.target_config, lower(hex(definitions.hash))) > 0)",
    [ST_PURGE_DEFINITIONS] = "DELETE FROM definitions WHERE rowid IN (" UNNAMED " LIMIT ?2)",
    [ST_FAILED_OLD] = "SELECT " PURGED " FROM tasks INDEXED BY tasks_failed_at WHERE failed_ms IS NOT NULL "
                      "AND (resolved_ms > 0) = ?1 AND failed_ms > 0 AND failed_ms < ?2 LIMIT ?3",
    [ST_JOBS_OLD] = "SELECT rowid, doc FROM catalog INDEXED BY catalog_jobs WHERE kind = 4 AND updated_ms < ?",
    [ST_PURGE_IDEMPOTENCY] = OLDEST("idempotency", "created_ms"),
    [ST_PURGE_EXECUTIONS] = OLDEST("executions", "completed_us"),
    [ST_PURGE_DEDUPE] = "DELETE FROM dedupe WHERE (tenant_id, key) IN (SELECT tenant_id, key FROM dedupe "
                        "INDEXED BY dedupe_until WHERE until_ms < ?1 LIMIT ?2)",
    [ST_PURGE_RECALLS] =
        "DELETE FROM wishes WHERE task_id IN (SELECT task_id FROM wishes WHERE NOT " STILL_RUNS " LIMIT ?2)",
    [ST_PURGE_SHARES] = "DELETE FROM shares WHERE key IN (SELECT key FROM shares WHERE seen_ms < ?1 "
                        "AND (rate = 0 OR level + (?3 - since_ms) * rate / 1000 - taken >= burst) "
                        "AND key NOT IN (SELECT key FROM places) LIMIT ?2)",
    [ST_PURGE_NODES] = "DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE dead AND dead_ms < ?1 "
                       "AND id NOT IN (SELECT node FROM claims) LIMIT ?2)",
    [ST_PURGE_WORKERS] = "DELETE FROM workers WHERE id IN (SELECT id FROM workers WHERE seen_ms < ?1 LIMIT ?2)",
    /* audit rows: audit.c */
    [ST_AUDIT_INSERT] = "INSERT INTO audit (id" AUDIT_COLUMNS_REST(SQL_NAME) ") VALUES (?" AUDIT_COLUMNS_REST(
        SQL_MARK) ") ON CONFLICT (id) DO NOTHING",
    [ST_AUDIT_OLDEST] = "SELECT 1 FROM audit WHERE id < ?",
    [ST_AUDIT_PURGE_BEGIN] = "INSERT INTO audit_purge (running) VALUES (1)",
    [ST_AUDIT_PURGE] = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ?1 ORDER BY id LIMIT ?2)",
    [ST_AUDIT_PURGE_END] = "DELETE FROM audit_purge",
    /* hits and incidents: incident/records.c */
    [ST_HIT_INSERT] = "INSERT INTO hits (id" HIT_COLUMNS_REST(SQL_NAME) ") VALUES (?" HIT_COLUMNS_REST(
        SQL_MARK) ") ON CONFLICT (id) DO NOTHING",
    [ST_HIT_DELETE] = "DELETE FROM hits WHERE id = ?",
    [ST_RECORD_INSERT] = "INSERT INTO incident_records (id" RECORD_COLUMNS_REST(
        SQL_NAME) ") VALUES (?" RECORD_COLUMNS_REST(SQL_MARK) ") ON CONFLICT DO NOTHING",
    [ST_CHECK_PUT] = "INSERT INTO incident_records (id" RECORD_COLUMNS_REST(SQL_NAME) ") VALUES (?" RECORD_COLUMNS_REST(
        SQL_MARK) ") ON CONFLICT (id) DO UPDATE SET version = version + 1, "
                  "next_ms = excluded.next_ms",
    [ST_RECORD_UPDATE] = "UPDATE OR IGNORE incident_records SET version = version + 1, key = ?4, next_ms = ?5, "
                         "doc = ?6 WHERE id = ?1 AND tenant_id = ?2 AND version = ?3",
    [ST_RECORD_DELETE] = "DELETE FROM incident_records WHERE id = ?1 AND tenant_id = ?2 AND version = ?3",
    [ST_VACUUM] = "PRAGMA incremental_vacuum(128)",
};
static_assert(array_count(sqlite_writer_statements) == ST_WRITER_COUNT, "a statement without a text");
