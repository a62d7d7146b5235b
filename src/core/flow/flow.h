#pragma once
/* core/flow/flow.h - what a run of a workflow does next, as pure decisions over its definition (core/flow/dag.h).
 *
 * The store counts arrivals in the transaction that makes a step final (port/store/dependencies.h). It knows edges and
 * joins, but no definitions. Who retries, reruns or ends a run asks for the state of all its steps (flow_state).
 *
 * The end of a run. A run waits for its steps with `ends_run`: if these are final, all others are, too, because a child
 * that waits for its parent in any case is not final before it. That does not hold for a step that was decided by hand
 * or was kept by a retry: it did not wait for its parents. So who ends a run looks for open steps first. */
#include "core/flow/flow_join.h"
#include "core/task/task.h"

enum task_state flow_task_state(enum flow_outcome o); /* o is an end */

/* ---- a run as a whole ---- */

struct flow_step_state {
    enum flow_outcome outcome;   /* as given, or a skip that follows from the others */
    enum flow_decision decision; /* of an open step: WAIT or START */
    struct flow_counts counts;   /* of the edges from final parents */
};

struct flow_state {
    struct flow_step_state *v; /* by step */
    uint32_t open;             /* steps that are not final */
};

/* The state of a run in which exactly these steps have ended so (given[step]; FLOW_OPEN: it has not, or is skipped
 * because of others). given NULL: no step has. This is also how a run is retried or rerun: every open step starts, or
 * waits with the counts. */
enum err flow_state(const struct dag *d, const enum flow_outcome *given, struct arena *a, struct flow_state *ret,
                    struct error *e) must_use;

/* Whether the outcome of this step fails its run: it failed, expired or was cancelled alone, and has neither may_fail
 * nor a child that names it with MUST_FAIL and is COMPLETED. */
bool flow_step_fails_run(const struct dag *d, const struct flow_state *s, uint32_t step);

enum flow_stop { FLOW_NOT_STOPPED, FLOW_STOP_CANCEL, FLOW_STOP_DEADLINE };
enum flow_cause { FLOW_CAUSE_NONE, FLOW_CAUSE_STEP, FLOW_CAUSE_RESULT, FLOW_CAUSE_DEADLINE };

struct flow_result {
    enum task_state state; /* COMPLETED, FAILED, CANCELLED */
    enum flow_cause cause;
    uint32_t step; /* FLOW_CAUSE_STEP: the first one in the definition */
};

/* How a run ends whose steps are all final, or which was stopped. */
struct flow_result flow_result(const struct dag *d, const struct flow_state *s, enum flow_stop stop,
                               bool result_resolved);

/* ---- steps that wait for signals ---- */

/* An await. rejects: for each sender, in order of time, whether the decision is REJECT. The first that decides, counts:
 * `approvals` senders before a rejection, or the rejection. */
enum flow_outcome flow_await(int64_t approvals, const bool *rejects, size_t n);

/* ---- again ---- */

struct flow_retry {
    const enum flow_outcome *was; /* by step */
    const uint32_t *steps;        /* only these; count 0: all that can be retried */
    size_t count;
    bool completes; /* steps[0], the only one, becomes COMPLETED by hand instead; all others are retried */
    bool begun;     /* the opening of this retry was cut off: steps that are open belong to it */
};

/* Which outcomes a retry keeps (ret[step]); FLOW_OPEN: the step runs again. These are the FAILED, EXPIRED and CANCELLED
 * steps and all SKIPPED ones below them. A COMPLETED step is always kept. ERR_CONFLICT: a step is none that can be
 * retried. Give the result to flow_state. */
enum err flow_retry(const struct dag *d, const struct flow_retry *r, struct arena *a, enum flow_outcome *ret,
                    struct error *e) must_use;

/* Which outcomes a rerun copies: COMPLETED and SKIPPED ones that are neither `from` nor undone nor below one of these,
 * and of the SKIPPED ones those that are not below a step that runs again. undone: by step, or NULL. */
enum err flow_rerun(const struct dag *d, const enum flow_outcome *was, const bool *undone, uint32_t from,
                    struct arena *a, enum flow_outcome *ret, struct error *e) must_use;

/* ---- compensation ---- */

/* What the outside has seen of a step; of one with `map`, the most that it has seen of an item. A step that a rerun has
 * copied is UNTOUCHED. */
enum flow_reach { FLOW_UNTOUCHED, FLOW_SENT, FLOW_DONE };

/* The compensations of a run in waves. A wave begins when all compensations of the wave before are final, however they
 * ended. So each comes after those of all its descendants, and one counter for each wave is enough. */
struct flow_undo {
    uint32_t *steps; /* wave after wave */
    uint32_t n;
    uint32_t *wave_from; /* wave w: steps[wave_from[w]] to steps[wave_from[w + 1] - 1] */
    uint32_t waves;
};

enum err flow_undo(const struct dag *d, const enum flow_reach *reach, struct arena *a, struct flow_undo *ret,
                   struct error *e) must_use;
