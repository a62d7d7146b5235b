#pragma once
/* port/store/retention.h - OP_PURGE: deletes what has been kept long enough. A part of port/store.h. */
#include "port/store/operation.h"

/* OP_PURGE - deletes one small batch: at most max rows of all kinds together. Which kind comes first is not defined. A
 * limit of 0 deletes nothing of its kind.
 *
 *  1. Idempotency records, by created_ms.
 *  2. Final tasks, deleted ones too, by completed_ms. FAILED tasks that are not resolved have a limit of their own.
 *  3. Executions, by completed_us. Where they lie in monthly partitions: once all of their month is old enough.
 *  4. Dedupe keys whose window ended before now_ms.
 *  5. Catalog entries of kind JOB, by updated_ms, if their doc says {"state": …} other than "RUNNING".
 *  6. Dead nodes that hold no claim and died before now_ms - NODE_KEPT_MS.
 *  7. Recall requests that have ended (OP_RECALL 1).
 *  8. Workers, by seen_ms.
 *  9. Limits (OP_LIMIT_TAKE) that no node asked for since the workers' limit, with no place taken and a full bucket: a
 *     new row would be the same.
 * 10. Tasks with a run are purged with it, whatever their state: first the steps of a run, by place, then its outputs,
 *     its signals and its own row. A run of which only some steps are purged yet is deleted: nobody finds it, it cannot
 *     be retried, and the next OP_PURGE goes on with it.
 * 11. Definitions that have no name, that no run and no task of target WORKFLOW names, and that were put more than
 *     DEFINITION_KEPT_MS ago (port/store/runs.h).
 * 12. Audit rows, by at_ms.
 * 13. Rows of OP_STATS: those of nodes that are older than STATS_NODES_MS are merged into one of all nodes, minutes
 *     before the hour of now_ms - STATS_MINUTES_MS into hours, and hours before now_ms - STATS_KEPT_MS are deleted. At
 *     most max rows of each grain, by minute, tenant and node; ret_purged does not count them.
 * 14. A little of the freed space goes back to the file system, where that is the store's task. */
struct op_purge {
    struct op op;
    int64_t now_ms;
    int64_t idempotency_before_ms, tasks_before_ms, dlq_before_ms, executions_before_ms, jobs_before_ms;
    int64_t workers_before_ms, audit_before_ms;
    size_t max;
    size_t ret_purged;
    bool ret_more; /* ask again soon: there may be more to delete or to give back */
};
