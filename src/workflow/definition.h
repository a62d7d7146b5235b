#pragma once
/* workflow/definition.h - definitions of workflows, checked as a whole, and the rows of their steps.
 *
 * core/flow/dag.h checks the graph and the references. Here the fields that a step has in common with a task are
 * checked as those of a task are (src/api/task), so that the author of a definition learns of every mistake at once.
 * A reference stands for a value that fits its place. Of a URL the part before the first reference is checked, which
 * has the host.
 *
 * Any thread: the functions act on their arguments. */
#include "api/task/json.h"
#include "core/flow/dag.h"
#include "core/flow/place.h"

/* The last error of a row that a rerun has copied: the step was done by another run, which answers for it. */
#define COPIED_ROW "copied from the run that this one repeats"

/* Reads and checks a definition. Errors have the whole path as field ("steps[3].retry.max_attempts"). Of *c these are
 * used: tenant, now_ms, payload_bytes, no_workers, timeout_max_ms. All may be zero, as for a check without a server. */
enum err definition_read(struct str text, const struct task_context *c, struct dag **ret, struct error *e) must_use;

/* What the rows of a run's steps have of their run. */
struct run_facts {
    struct uuid id;
    int32_t tenant;
    struct str queue;
    int priority;
    struct str trace;
    const struct secrets *secrets; /* that encrypt the secret headers of its rows; NULL: none */
};

/* The rows of a run: ONE_TIME, SCHEDULED, without edges, with run, place and derived id. due_ms is now_ms plus the
 * step's delay. If the step has no queue or no priority, the run's is taken. Everything lives in the arena.
 *  - An ordinary step: target_config and payload as written, or, if they have references or the step has `when`, empty
 *    and TASK_PLANNED. TASK_KEEPS_OUTPUT if its output is used.
 *  - A control step (`map`, `await`, a workflow as target): target WORKFLOW and no config; TASK_PLANNED is not set. If
 *    its target is a workflow, its retries are those of the step, and it has TASK_KEEPS_OUTPUT. If it has `map` or
 *    `await`, it has one attempt and no key; `await` keeps an output that is used. The items of a map keep theirs. */
enum err definition_step_task(const struct dag *d, uint32_t step, const struct run_facts *run, int64_t now_ms,
                              struct arena *a, struct task *ret, struct error *e) must_use;

/* The row of item 0 of a step with `map`, as that of a step without. With map.max_concurrent it has a key that only the
 * items of this step have. If it has encrypted secrets, it is TASK_PLANNED and has no target_config: these are bound to
 * one row. */
enum err definition_item_task(const struct dag *d, uint32_t step, const struct run_facts *run, int64_t now_ms,
                              struct arena *a, struct task *ret, struct error *e) must_use;

/* The compensation of a step, or with item >= 0, of one item. Compensations of items differ by place and id only. */
enum err definition_undo_task(const struct dag *d, uint32_t step, int64_t item, const struct run_facts *run,
                              int64_t now_ms, struct arena *a, struct task *ret, struct error *e) must_use;

/* Makes the row of one place that of another, as of the other items of a map. */
void definition_move_task(struct task *t, int64_t place);

/* Whether it is no worker that runs the step. */
static inline bool definition_is_control(const struct dag_step *s)
{
    return s->map.is_set || s->await.signal.n || s->is_workflow;
}
