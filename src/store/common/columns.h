#pragma once
/* store/common/columns.h - the columns of each table, for every store that uses SQL.
 *
 * A row of these lists is a column, and the only place that says which struct member it stores and how. Long and rare
 * values (a task's own retry policy, a schedule, gates) are JSON text, which people and a database's JSON functions can
 * read. */
#include "base/buf.h"
#include "port/store.h"

enum column_kind {
    COL_UUID, /* nil is NULL */
    COL_BYTES32,
    COL_I64,
    COL_INT, /* int and enums: 0 to max */
    COL_BOOL,
    COL_TEXT,      /* empty is NULL */
    COL_LANE,      /* the lane's number; read back as the queue's name */
    COL_RETRY,     /* JSON, NULL for RETRY_DEFAULT */
    COL_SCHEDULE,  /* JSON, NULL for an empty schedule */
    COL_DEAD_TEXT, /* empty and NULL unless the task is FAILED */
    COL_HELD_TEXT, /* empty and NULL unless the task is FAILED or PAUSED */
    COL_DEAD_I64,  /* 0 unless the task is FAILED */
    COL_FAILED,    /* the time since which the task is FAILED, else NULL; written, never read back */
    COL_GATES,     /* JSON of concurrency, overlap and dedupe; NULL: nothing can hold the task back */
    COL_QUEUE,     /* the queue of control work, whose lane has none (task_lane); else NULL */
    COL_NEEDS,     /* JSON of the labels and resources that the task needs of a worker; NULL: none */
};

/* X(column, kind, member, max), in the order of the statements. */
#define TASK_COLUMNS_SHORT(X)                                                                                          \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(state, COL_INT, state, TASK_EXPIRED)                                                                             \
    X(fence, COL_I64, fence, 0)                                                                                        \
    X(deleted, COL_BOOL, deleted, 0)                                                                                   \
    X(claim_id, COL_UUID, claim, 0)                                                                                    \
    X(kind, COL_INT, kind, TASK_OCCURRENCE)                                                                            \
    X(lane, COL_LANE, queue, 0)                                                                                        \
    X(due_ms, COL_I64, due_ms, 0)                                                                                      \
    X(delivery, COL_INT, delivery, DELIVER_AT_MOST_ONCE)                                                               \
    X(version, COL_I64, version, 0)                                                                                    \
    X(attempts, COL_INT, attempts, INT32_MAX)                                                                          \
    X(losses, COL_INT, losses, INT32_MAX)                                                                              \
    X(completed_ms, COL_I64, completed_ms, 0)                                                                          \
    X(scheduled_ms, COL_I64, scheduled_ms, 0)                                                                          \
    X(started_ms, COL_I64, started_ms, 0)                                                                              \
    X(updated_ms, COL_I64, updated_ms, 0)                                                                              \
    X(created_ms, COL_I64, created_ms, 0)                                                                              \
    X(parent_id, COL_UUID, parent, 0)                                                                                  \
    X(cursor_ms, COL_I64, cursor_ms, 0)                                                                                \
    X(last_run_ms, COL_I64, last_run_ms, 0)                                                                            \
    X(runs_count, COL_I64, runs_count, 0)                                                                              \
    X(skipped_count, COL_I64, skipped_count, 0)                                                                        \
    X(priority, COL_INT, priority, PRIORITY_MAX)                                                                       \
    X(target, COL_INT, target, TARGET_NOOP)                                                                            \
    X(timeout_ms, COL_I64, timeout_ms, 0)                                                                              \
    X(expires_after_ms, COL_I64, expires_after_ms, 0)                                                                  \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(task_type, COL_TEXT, task_type, 0)                                                                               \
    X(retry, COL_RETRY, retry, 0)                                                                                      \
    X(schedule, COL_SCHEDULE, schedule, 0)                                                                             \
    X(last_error, COL_TEXT, last_error, 0)

#define TASK_COLUMNS_BEFORE_PAYLOAD(X)                                                                                 \
    TASK_COLUMNS_SHORT(X)                                                                                              \
    X(target_config, COL_TEXT, target_config, 0)                                                                       \
    X(extra, COL_TEXT, extra, 0)

#define TASK_COLUMNS_AFTER_PAYLOAD(X)                                                                                  \
    X(needs, COL_NEEDS, requires, 0)                                                                                   \
    X(aside, COL_TEXT, aside, 0)                                                                                       \
    X(recalled, COL_BOOL, recalled, 0)                                                                                 \
    X(awaited_ms, COL_I64, awaited_ms, 0)                                                                              \
    X(late_by, COL_INT, late_by, LATE_CAUSES - 1)                                                                      \
    X(links, COL_INT, links, TASK_LINKS)                                                                               \
    X(run_id, COL_UUID, run, 0)                                                                                        \
    X(place, COL_I64, place, 0)                                                                                        \
    X(queue, COL_QUEUE, queue, 0)                                                                                      \
    X(trace, COL_TEXT, trace, 0)

#define TASK_COLUMNS_DUE(X)                                                                                            \
    TASK_COLUMNS_BEFORE_PAYLOAD(X)                                                                                     \
    X(payload, COL_TEXT, payload, 0)                                                                                   \
    TASK_COLUMNS_AFTER_PAYLOAD(X)

/* A task that is SCHEDULED and not RECURRING has none of these except gates. */
#define TASK_COLUMNS_REST(X)                                                                                           \
    X(gates, COL_GATES, concurrency_key, 0)                                                                            \
    X(waits_for, COL_TEXT, waits_for, 0)                                                                               \
    X(cause, COL_DEAD_TEXT, cause, 0)                                                                                  \
    X(resolved_ms, COL_DEAD_I64, resolved_ms, 0)                                                                       \
    X(resolution, COL_HELD_TEXT, resolution, 0)                                                                        \
    X(failed_ms, COL_FAILED, completed_ms, 0)                                                                          \
    X(calendar, COL_TEXT, schedule.calendar, 0)

#define TASK_COLUMNS(X) TASK_COLUMNS_DUE(X) TASK_COLUMNS_REST(X)

#define EXECUTION_COLUMNS(X)                                                                                           \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(task_id, COL_UUID, task, 0)                                                                                      \
    X(occurrence_id, COL_UUID, occurrence, 0)                                                                          \
    X(status, COL_INT, status, EXECUTION_CANCELLED)                                                                    \
    X(attempt, COL_INT, attempt, INT32_MAX)                                                                            \
    X(fence, COL_I64, fence, 0)                                                                                        \
    X(scheduled_ms, COL_I64, scheduled_ms, 0)                                                                          \
    X(due_ms, COL_I64, due_ms, 0)                                                                                      \
    X(started_us, COL_I64, started_us, 0)                                                                              \
    X(completed_us, COL_I64, completed_us, 0)                                                                          \
    X(http_status, COL_INT, http_status, INT32_MAX)                                                                    \
    X(worker, COL_TEXT, worker, 0)                                                                                     \
    X(error, COL_TEXT, error, 0)                                                                                       \
    X(output, COL_TEXT, output, 0)                                                                                     \
    X(trace_id, COL_TEXT, trace_id, 0)                                                                                 \
    X(late_by, COL_INT, late_by, LATE_CAUSES - 1)

#define IDEMPOTENCY_COLUMNS(X)                                                                                         \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(key, COL_BYTES32, key, 0)                                                                                        \
    X(payload, COL_BYTES32, payload, 0)                                                                                \
    X(status, COL_INT, status, INT32_MAX)                                                                              \
    X(answer, COL_TEXT, answer, 0)                                                                                     \
    X(created_ms, COL_I64, created_ms, 0)

#define API_KEY_COLUMNS(X)                                                                                             \
    X(id, COL_TEXT, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(hash, COL_BYTES32, hash, 0)                                                                                      \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(scopes, COL_TEXT, scopes, 0)                                                                                     \
    X(created_ms, COL_I64, created_ms, 0)                                                                              \
    X(expires_ms, COL_I64, expires_ms, 0)                                                                              \
    X(parent, COL_TEXT, parent, 0)

#define CATALOG_COLUMNS(X)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(kind, COL_INT, kind, CATALOG_KINDS - 1)                                                                          \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(version, COL_I64, version, 0)                                                                                    \
    X(created_ms, COL_I64, created_ms, 0)                                                                              \
    X(updated_ms, COL_I64, updated_ms, 0)                                                                              \
    X(doc, COL_TEXT, doc, 0)

#define NODE_COLUMNS(X)                                                                                                \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(version, COL_TEXT, version, 0)                                                                                   \
    X(beats, COL_I64, beats, 0)                                                                                        \
    X(joined_ms, COL_I64, joined_ms, 0)                                                                                \
    X(dead, COL_BOOL, dead, 0)                                                                                         \
    X(dead_ms, COL_I64, dead_ms, 0)                                                                                    \
    X(doc, COL_TEXT, doc, 0)                                                                                           \
    X(fires_until_ms, COL_I64, fires_until_ms, 0)

/* The lease of a task that an external worker runs. */
struct task_lease {
    int32_t tenant;
    struct uuid task;
    struct str queue; /* from which the task was claimed */
    struct lease_row row;
};

#define TASK_LEASE_COLUMNS(X)                                                                                          \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(task_id, COL_UUID, task, 0)                                                                                      \
    X(queue, COL_TEXT, queue, 0)                                                                                       \
    X(fence, COL_I64, row.fence, 0)                                                                                    \
    X(until_ms, COL_I64, row.until_ms, 0)                                                                              \
    X(worker, COL_TEXT, row.worker, 0)                                                                                 \
    X(progress, COL_TEXT, row.progress, 0)

#define WORKER_KIND_COLUMNS(X, of)                                                                                     \
    X(queues, COL_TEXT, of.queues, 0)                                                                                  \
    X(tenants, COL_TEXT, of.tenants, 0)                                                                                \
    X(labels, COL_TEXT, of.labels, 0)                                                                                  \
    X(priority_min, COL_INT, of.priority_min, PRIORITY_MAX)                                                            \
    X(priority_max, COL_INT, of.priority_max, PRIORITY_MAX)                                                            \
    X(cpu_milli, COL_I64, of.cpu_milli, 0)                                                                             \
    X(memory_mb, COL_I64, of.memory_mb, 0)

#define WORKER_COLUMNS(X)                                                                                              \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(version, COL_TEXT, version, 0)                                                                                   \
    X(slots, COL_I64, slots, 0)                                                                                        \
    X(running, COL_I64, running, 0)                                                                                    \
    X(joined_ms, COL_I64, joined_ms, 0)                                                                                \
    X(seen_ms, COL_I64, seen_ms, 0)                                                                                    \
    X(left_ms, COL_I64, left_ms, 0)                                                                                    \
    X(doc, COL_TEXT, doc, 0)                                                                                           \
    WORKER_KIND_COLUMNS(X, kind)

#define BREAKER_COLUMNS(X)                                                                                             \
    X(id, COL_UUID, id, 0)                                                                                             \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(host, COL_TEXT, host, 0)                                                                                         \
    X(opened_ms, COL_I64, opened_ms, 0)                                                                                \
    X(until_ms, COL_I64, until_ms, 0)                                                                                  \
    X(calls, COL_I64, calls, 0)                                                                                        \
    X(failures, COL_I64, failures, 0)                                                                                  \
    X(reopened, COL_I64, reopened, 0)                                                                                  \
    X(reason, COL_TEXT, reason, 0)

/* The figures follow: STATS_MAP. */
#define STATS_KEY_COLUMNS(X)                                                                                           \
    X(minute_ms, COL_I64, minute_ms, 0)                                                                                \
    X(node_id, COL_UUID, node, 0)                                                                                      \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(grain, COL_INT, grain, STATS_OF_HOUR)                                                                            \
    X(written, COL_I64, written, 0)

#define RUN_COLUMNS_REST(X)                                                                                            \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(hash, COL_BYTES32, hash, 0)                                                                                      \
    X(workflow, COL_TEXT, workflow, 0)                                                                                 \
    X(version, COL_I64, version, 0)                                                                                    \
    X(root_id, COL_UUID, root, 0)                                                                                      \
    X(depth, COL_INT, depth, INT32_MAX)                                                                                \
    X(opened_ms, COL_I64, opened_ms, 0)                                                                                \
    X(deadline_ms, COL_I64, deadline_ms, 0)                                                                            \
    X(tasks, COL_I64, tasks, 0)                                                                                        \
    X(generation, COL_INT, generation, INT32_MAX)                                                                      \
    X(stop, COL_INT, stop, RUN_AT_DEADLINE)                                                                            \
    X(stopped_by, COL_TEXT, stopped_by, 0)                                                                             \
    X(paused, COL_BOOL, paused, 0)
#define RUN_COLUMNS(X) X(run_id, COL_UUID, run, 0) RUN_COLUMNS_REST(X)

#define SIGNAL_COLUMNS(X)                                                                                              \
    X(run_id, COL_UUID, run, 0)                                                                                        \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(sender, COL_TEXT, sender, 0)                                                                                     \
    X(payload, COL_TEXT, payload, 0)                                                                                   \
    X(rejects, COL_BOOL, rejects, 0)                                                                                   \
    X(time_ms, COL_I64, time_ms, 0)

#define WORKFLOW_COLUMNS(X)                                                                                            \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(name, COL_TEXT, name, 0)                                                                                         \
    X(version, COL_I64, version, 0)                                                                                    \
    X(hash, COL_BYTES32, hash, 0)                                                                                      \
    X(created_ms, COL_I64, created_ms, 0)

#define AUDIT_COLUMNS_REST(X)                                                                                          \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(strand, COL_UUID, strand, 0)                                                                                     \
    X(seq, COL_I64, seq, 0)                                                                                            \
    X(at_ms, COL_I64, at_ms, 0)                                                                                        \
    X(actor, COL_TEXT, actor, 0)                                                                                       \
    X(address, COL_TEXT, address, 0)                                                                                   \
    X(action, COL_TEXT, action, 0)                                                                                     \
    X(kind, COL_TEXT, kind, 0)                                                                                         \
    X(object, COL_TEXT, object, 0)                                                                                     \
    X(digest, COL_BYTES32, digest, 0)                                                                                  \
    X(outcome, COL_INT, outcome, AUDIT_REFUSED)                                                                        \
    X(count, COL_I64, count, 0)                                                                                        \
    X(actor_name, COL_TEXT, actor_name, 0)                                                                             \
    X(object_name, COL_TEXT, object_name, 0)                                                                           \
    X(details, COL_TEXT, details, 0)
#define AUDIT_COLUMNS(X) X(id, COL_UUID, id, 0) AUDIT_COLUMNS_REST(X)

#define HIT_COLUMNS_REST(X)                                                                                            \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(kind, COL_INT, kind, HIT_MISSED)                                                                                 \
    X(at_ms, COL_I64, at_ms, 0)                                                                                        \
    X(count, COL_I64, count, 0)                                                                                        \
    X(cause, COL_TEXT, cause, 0)                                                                                       \
    X(tasks, COL_TEXT, tasks, 0)
#define HIT_COLUMNS(X) X(id, COL_UUID, id, 0) HIT_COLUMNS_REST(X)

#define RECORD_COLUMNS_REST(X)                                                                                         \
    X(kind, COL_INT, kind, RECORD_PAUSE)                                                                               \
    X(tenant_id, COL_INT, tenant, INT32_MAX)                                                                           \
    X(setting_id, COL_UUID, setting, 0)                                                                                \
    X(incident_id, COL_UUID, incident, 0)                                                                              \
    X(key, COL_TEXT, key, 0)                                                                                           \
    X(version, COL_I64, version, 0)                                                                                    \
    X(next_ms, COL_I64, next_ms, 0)                                                                                    \
    X(doc, COL_TEXT, doc, 0)
#define RECORD_COLUMNS(X) X(id, COL_UUID, id, 0) RECORD_COLUMNS_REST(X)

/* Groups of live workers (OP_HEARTBEAT 8). */
#define WORKER_GROUP_COLUMNS(X)                                                                                        \
    WORKER_KIND_COLUMNS(X, kind)                                                                                       \
    X(slots, COL_I64, slots, 0)                                                                                        \
    X(workers, COL_I64, workers, 0)
#define WORKER_KIND_NAMES "queues, tenants, labels, priority_min, priority_max, cpu_milli, memory_mb"
/* The parameters of each store: WORKER_SILENT_MS, and now_ms - WORKER_GONE_MS. */
#define LIVE_WORKERS(silent, gone)                                                                                     \
    "workers WHERE left_ms = 0 AND seen_ms >= (SELECT max(seen_ms) FROM workers) - " silent " AND seen_ms >= " gone

/* The columns as SQL text, each with a leading comma: the statement names one more column before them. */
#define SQL_NAME(column, kind, member, max) ", " #column
#define SQL_FIGURE(id, column, how)         ", " #column /* of STATS_MAP */
#define STATS_NAMES                         "minute_ms, node_id, tenant_id, grain, written" STATS_MAP(SQL_FIGURE)
#define STATS_KEY                           "tenant_id, minute_ms, grain, node_id"

/* Of an OCCURRENCE: it counts among the runs of its task and never fired (task_is_unstarted). */
#define UNSTARTED "kind = 2 AND runs_count = 1 AND attempts = 0 AND losses = 0 AND started_ms = 0"

/* The expression for target_config that OP_HANDED_OFF returns: only of AT_MOST_ONCE tasks. `of` is "" or the table's
 * alias and a dot. */
#define HANDED_CONFIG(of) "CASE WHEN " of "delivery = 1 THEN " of "target_config END"

/* The condition under which OP_RETAKE may take a RUNNING task, apart from its size (retake_may). */
#define RETAKE_MAY(of) of "delivery = 0 AND " of "target <> 3 AND NOT " of "deleted"

/* The position of a column of tasks in "SELECT rid" TASK_COLUMNS(SQL_NAME), and its number as a parameter if rid is the
 * first. */
enum task_column {
    AT_rid,
#define X(column, kind, member, max) AT_##column,
    TASK_COLUMNS(X)
#undef X
};

struct column {
    const char *name;
    enum column_kind kind;
    size_t offset;
    int64_t max;
};

struct table {
    const char *what; /* the noun for error sentences, for example "task" */
    const struct column *columns;
    int count;
};
extern const struct table table_due; /* TASK_COLUMNS_DUE */
extern const struct table table_tasks, table_executions, table_idempotency, table_api_keys, table_catalog, table_nodes;
extern const struct table table_task_leases, table_workers, table_worker_groups, table_breakers;
extern const struct table table_runs, table_signals, table_workflows, table_audit, table_stats;
extern const struct table table_stats_points; /* of struct stats_point */
extern const struct table table_hits, table_records;

/* The value of a column, for writing.
 * - column_number: COL_I64, COL_INT, COL_BOOL, COL_DEAD_I64 and COL_FAILED. False: NULL.
 * - column_text: COL_TEXT, COL_DEAD_TEXT, COL_HELD_TEXT, COL_QUEUE, and the JSON of COL_RETRY, COL_SCHEDULE, COL_GATES
 *   and COL_NEEDS, which it writes into b. Empty: NULL. */
bool column_number(const struct column *c, const void *row, int64_t *ret);
struct str column_text(const struct column *c, const void *row, struct buf *b);

/* Read a column's value into a row that was zeroed and whose earlier columns were read. Texts are copied into the
 * arena. ERR_LIMIT: the arena is full. ERR_CORRUPT: the value is not one that a store writes. */
enum err column_read_number(const struct table *t, const struct column *c, int64_t number, void *row,
                            struct error *e) must_use;
enum err column_read_text(const struct table *t, const struct column *c, struct str text, struct arena *a, void *row,
                          struct error *e) must_use;
enum err column_wrong(const struct table *t, const struct column *c, int64_t number, struct error *e);

/* Some databases reject text that is not valid. Output of targets may hold any bytes: bytes that are not UTF-8, and
 * NUL, become U+FFFD, as in the API's JSON. */
bool text_is_clean(struct str text);
void text_add_clean(struct buf *out, struct str text);
