#pragma once
/* workflow/internal.h - what the planner's files share.
 *
 *  - planner.c: which kind of task it is
 *  - plan_run.c: runs: opening, ending
 *  - plan_again.c: runs that begin again, reruns, compensation
 *  - plan_step.c: steps: calls, maps, awaits, deadlines
 *  - run_view.c: a run, its definition and its data
 *  - open_rows.c: the rows that a run or a map is opened with
 *
 * All run on the thread that makes the plan (workflow/planner.h). */
#include "core/flow/flow.h"
#include "core/flow/step_data.h"
#include "workflow/definition.h"
#include "workflow/planner.h"

/* A run as far as plans need it. Release it with run_view_release. */
struct run_view {
    const struct planner_context *c;
    struct arena *a;
    struct task task; /* the run's row; without has_task only its id and tenant */
    bool has_task;
    bool has_row; /* it was opened before */
    struct run_row row;
    struct cached_definition *definition;
    const struct dag *dag;
    struct run_view *outer; /* of a sub-run: the run that it is a step of; NULL */
    struct json_doc config; /* of the run, with its references resolved */
    bool has_config;
    struct run_doc *docs; /* values that references named */
};

/* The run with that id, its row and its definition. ERR_NOT_FOUND: it was purged. */
enum err run_view_read(struct run_view *v, const struct planner_context *c, int32_t tenant, struct uuid run,
                       struct arena *a, struct error *e) must_use;
void run_view_release(struct run_view *v);
/* The row of the run, which may have a large input: read when it is needed, or given. With it the run around it. */
enum err run_view_task(struct run_view *v, struct error *e) must_use;
enum err run_view_set_task(struct run_view *v, const struct task *t, struct error *e) must_use;

/* For a run that was not opened before: finds and pins its definition. ERR_INVALID: an error of the run's own. */
enum err run_view_pin(struct run_view *v, struct error *e) must_use;

/* The run's config, with the references of a sub-run resolved. */
enum err run_view_config(struct run_view *v, struct error *e) must_use;

/* Its deadline, counted from now_ms, when it is opened. */
enum err run_view_deadline(struct run_view *v, int64_t now_ms, struct error *e) must_use;

/* The data for a task of the run; task NULL: for its result. */
struct run_data {
    struct run_view *v;
    const struct task *task;
};
struct reference_data run_data_references(struct run_data *d);

/* All tasks of a run, by place; in the run's arena. */
enum err run_view_tasks(struct run_view *v, struct tasks *ret, struct error *e) must_use;
enum err run_view_tasks_of(struct run_view *v, uint32_t step, struct tasks *ret, struct error *e) must_use;

struct run_facts run_view_facts(const struct run_view *v);

/* How the steps ended (by step), and what is still open: ids of tasks that are not final. */
struct run_progress {
    struct tasks tasks;
    enum flow_outcome *outcomes; /* by step */
    const struct task **steps;   /* by step; NULL: it has no row */
    struct uuid *open;           /* not final, without the deadline */
    size_t open_count;
    size_t open_steps; /* of these: steps and their items, no compensations */
    size_t waiting;    /* of these: SCHEDULED, BLOCKED or PAUSED, unless a plan ends them (OP_STOP 8) */
    size_t missing;    /* steps without a row */
    bool has_timer;    /* the deadline waits */
    bool has_undo;     /* compensations have begun */
    /* What rows of the current opening have as created_ms; rows with an earlier time are of an earlier one. Set by
     * plan_run. */
    int64_t begun_ms;
    bool again; /* the run begins again, with rows of that time */
    bool begun; /* some of these rows are stored: the opening was cut off */
};
enum err run_progress_read(struct run_view *v, struct run_progress *ret, struct error *e) must_use;

/* ---- plans ---- */

#define MAP_HAS_FAILED "cancelled: too many items of its map have failed"

void plan_end(struct plan *p, const struct outcome *o);
int64_t plan_started_us(const struct plan *p); /* when the task was opened or began to wait, or now */
/* FAILED for good: the workflow itself is wrong. The error's field is put before its text. */
void plan_fail(struct plan *p, const struct error *e);
void plan_fail_text(struct plan *p, enum failure failure, struct str text);
void plan_cancel(struct plan *p, struct str why);

/* These return an error only if the store could not be read. */
enum err plan_run(struct run_view *v, struct plan *p, struct error *e) must_use;
enum err plan_step(struct run_view *v, struct plan *p, struct error *e) must_use;
/* A run that begins again has failed and was not retried by a user, who begins to count anew. */
static inline bool run_awaits_attempt(const struct task *t)
{
    return t->attempts > 0;
}
enum err plan_again(struct run_view *v, const struct run_progress *g, struct plan *p, struct error *e) must_use;
/* The first opening of a run that copies what another one has done. */
enum err plan_rerun(struct run_view *v, const struct json_doc *extra, struct plan *p, struct error *e) must_use;
/* The next wave of compensations, or what is missing of one, and those that are not final. *ret_over: none is left. */
enum err plan_undo(struct run_view *v, const struct run_progress *g, struct plan *p, bool *ret_over,
                   struct error *e) must_use;

/* ---- rows ---- */

/* All rows of a run: those that wait first, those that start at once last. */
enum err open_run_rows(struct run_view *v, struct plan *p, struct error *e) must_use;
/* The rows of the steps that run again, by the state that a retry makes of the run. */
struct open_completed { /* a step that a user completes with it */
    bool is_set;
    uint32_t step;
    struct str output; /* JSON text; empty: none */
    struct str by;     /* the API key */
};
enum err open_again_rows(struct run_view *v, const enum flow_outcome *kept, const struct open_completed *done,
                         int64_t begun_ms, struct plan *p, struct error *e) must_use;
/* The rows of a rerun: copies of the old run's rows of the steps that are kept, with their outputs, and the others. */
enum err open_copy_rows(struct run_view *v, struct run_view *old, const struct run_progress *g,
                        const enum flow_outcome *kept, struct plan *p, struct error *e) must_use;
/* items: JSON array text. done: items that are COMPLETED and stay, by index; NULL: none. */
enum err open_item_rows(struct run_view *v, uint32_t step, struct str items, size_t n, const bool *done, struct plan *p,
                        struct error *e) must_use;
void open_begin(struct run_view *v, struct plan *p); /* what all pages of an opening have */
