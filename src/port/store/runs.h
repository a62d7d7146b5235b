#pragma once
/* port/store/runs.h - runs of workflows: OP_OPEN, OP_AWAIT, OP_STOP, OP_SIGNAL, OP_DEFINE, and what is read of them. A
 * part of port/store.h.
 *
 * A run is a task of target WORKFLOW. Its steps are tasks, too: `run` names the run, `place` the step and the item
 * (core/flow/place.h). Their edges and joins are rows like those of plain tasks (port/store/dependencies.h), so
 * whatever ends a step releases or skips its children in the same transaction. No store knows definitions: who opens a
 * run brings the rows.
 *
 * Control tasks have target WORKFLOW: runs, and of the steps those that have `map`, `await` or a workflow as target. No
 * worker runs them. The scheduler that claims one plans what happens (port/planner.h), and settles, opens or awaits:
 *
 *   SCHEDULED ─claim→ RUNNING ─OP_OPEN, last→ RUNNING without a claim (TASK_OPEN), until its children have arrived
 *                                             ─→ SCHEDULED, TASK_OPENED ─claim→ RUNNING ─settle→ COMPLETED, FAILED …
 *
 * So a node that dies leaves nothing half-done that another cannot do again: an opening is repeated with the same ids.
 *
 * Rules for all operations
 *  1. A task with TASK_OPEN is RUNNING and under no claim: no claim's list, lease or recall finds it.
 *  2. If its join is decided, either way, it becomes SCHEDULED with due_ms now_ms: TASK_OPEN and TASK_WAITS are
 *     cleared. Its join is decided if all expected edges have arrived, or if more than max_broken are broken.
 *  3. A task with TASK_OPENED or TASK_AWAITS is in the lane of its tenant's control work (task_lane): no rule of a
 *     queue holds it.
 *  4. Tasks with a run are not listed with other tasks, are no dead letters, and are purged with their run. reader_get
 *     finds them.
 *  5. If a task with TASK_KEEPS_OUTPUT becomes COMPLETED, the output of its execution is kept whole (OUTPUT_KEPT_MAX):
 *     of a step at its run and place, of a run at itself and PLACE_RUN, of a run that is a step at both. The execution
 *     has its head (EXECUTION_OUTPUT_MAX).
 *  6. If a verdict of OP_SETTLE makes a task with TASK_OPENED SCHEDULED and has an execution, the run begins again: it
 *     gets TASK_AGAIN. OP_PUT keeps that bit of the new row. The last page of OP_OPEN with `again` clears it, and so
 *     does a stop. TASK_BEGUN is set by the first of these pages, and cleared by the last, by a stop, and when
 *     TASK_AGAIN is set: an opening that has it was cut off, and is repeated.
 *  7. If OP_SETTLE would make a step SCHEDULED, and its run was stopped or paused meanwhile, the step becomes CANCELLED
 *     or PAUSED instead (settle_in_run): nothing of the run starts. If it makes a step CANCELLED, and the run was
 *     stopped at its deadline, the reason is that, whoever has aborted the step. A stop leaves compensations and opened
 *     steps alone, a pause the deadline, opened steps of a run that is stopped, too, and a replacement that has
 *     TASK_BY_HAND: a user has started that step.
 *  8. If OP_SETTLE would make a run COMPLETED that was cancelled meanwhile, or would let it begin again (rule 6), the
 *     run becomes SCHEDULED with due_ms now_ms instead, without an execution, and the settlement is stale: who claims
 *     it plans its end anew. If it would become FAILED, it becomes CANCELLED, and so does its execution
 *     (settle_of_run). The stop of a run with
 *     TASK_AGAIN is older than its retry: it does not keep the run from the next attempt.
 *  9. If OP_PUT makes a run that is final begin again (TASK_AGAIN), run_row.paused is cleared: a user who retries a run
 *     wants it to go on. A pause that comes later holds, and so does one while the run is retried by itself.
 * 10. If OP_SETTLE would make a step COMPLETED or FAILED that has TASK_SIGNALLED, the step becomes SCHEDULED with
 *     due_ms now_ms instead, without an execution, and the settlement is stale (settle_of_await): a signal that was
 *     accepted after the step was planned is in the next plan. A verdict that is not final clears the bit, and so does
 *     OP_AWAIT.
 * 11. A map has TASK_BROKEN from the moment on when more of its items are broken than its max_broken, also while it is
 *     being opened: its planner lets no item start any more.
 * 12. If OP_PUT or a replacement of OP_SETTLE has TASK_NEW_INPUT, the signals of the run are deleted: they were sent
 *     for another input. */
#include "core/flow/place.h"
#include "port/store/claims.h"
#include "port/store/dependencies.h"

enum {
    DEFINITION_HASH = 32,
    EXECUTION_OUTPUT_MAX = 16 << 10, /* bytes that an execution has of an output */
    STEP_OUTPUT_MAX = 256 << 10,
    RUN_RESULT_MAX = 1 << 20,
    OUTPUT_KEPT_MAX = RUN_RESULT_MAX, /* a longer one is kept as cut: without its text */
    RUN_TASKS_MAX = 100000,           /* of a run with its sub-runs */
    RUN_DEPTH_MAX = 8,
    OPEN_ROWS_MAX = 250,
    STOP_RUNNING_MAX = 10000,     /* of ret_running */
    SIGNALS_MAX = 1000,           /* of a run and name */
    SIGNAL_BYTES_MAX = 256 << 10, /* of all these */
    SIGNAL_SENDER_MAX = 200,
};

/* ---- runs ---- */

enum run_stop { RUN_GOES_ON, RUN_CANCELLED, RUN_CANCELLED_AND_UNDONE, RUN_AT_DEADLINE };

/* What is known of a run beside its task: from its first opening on. */
struct run_row {
    struct uuid run;
    int32_t tenant;
    uint8_t hash[DEFINITION_HASH]; /* of its definition */
    struct str workflow;           /* the definition's name; empty: it was posted with the run */
    int64_t version;               /* of that name */
    struct uuid root;              /* the outermost run; its own id: it is that */
    int32_t depth;                 /* 0: the outermost */
    int64_t opened_ms;             /* the first time */
    int64_t deadline_ms;           /* 0: none */
    int64_t tasks;                 /* of the root: the tasks of all its runs */
    int32_t generation;            /* how many times it was opened again by a retry */
    enum run_stop stop;
    struct str stopped_by; /* for people; empty: not stopped */
    bool paused;
};

/* ---- OP_OPEN ----
 *
 * Gives a claimed control task its children, page by page, and lets it wait for them.
 *
 *  1. The task must be RUNNING under exactly that fence, and not have TASK_OPEN: else ERR_CONFLICT, field "fence".
 *  2. `begin`, in the first page of a run: the run's row is stored; one that exists keeps opened_ms, tasks, stop,
 *     stopped_by and paused, unless `again`: then its generation rises by one and its stop is RUN_GOES_ON. If the task
 *     has TASK_BEGUN, this page is repeated, and they stay. `first` and begun_ms: started_ms becomes begun_ms, and the
 *     task gets TASK_BEGUN. `first`: if
 *     the task has no TASK_OPENED yet, or with `again`: edges to the task are those of an earlier join, and open ones
 *     are closed (EDGE_UNMET), because from now on its join is that of its children; the join is stored with expected,
 *     max_broken and no arrivals, and the task gets TASK_OPENED. A repeated first page changes nothing of this.
 *  3. If the run of the page is stopped (run_row.stop of `run`): ret_stopped, and nothing else happens. A stop from
 *     before a retry does not count in the first page of the retry, as long as the task has TASK_AGAIN, or if it has no
 *     TASK_OPENED: the run around it was retried, and its row was replaced. It counts if the task has TASK_BEGUN. If it
 *     is paused, rows that would be SCHEDULED or BLOCKED are PAUSED, except the deadline. With
 *     `outer`: if that run is stopped: ret_stopped.
 *     If it is paused, a run that begins is paused from the start.
 *  4. A row whose id does not exist is inserted with its edges and its join; if it exists, it stays, unless `again`, it
 *     is final and its created_ms is earlier: then the row replaces it, with a fence that is not lower, its edges are
 *     replaced by the given ones, its output is deleted, and so are the signals of the run if its place awaits one
 *     (`drops_signals`). All rows of one opening with `again` have the same created_ms: if it is repeated, rows that
 *     have started and ended meanwhile do not run once more.
 *  5. A row has the states, counts and bits that its opener gives it; nothing is decided here. Rows whose parents may
 *     end at once come last, so that an arrival never comes before the row that it is for.
 *  6. A row with `ends`, also one that stays, has TASK_HAS_CHILDREN and an edge to the task, of end_type: open, or if
 *     the row is final, arrived. Edges of an earlier join (rule 2) do not count, and begin anew. If an edge of this
 *     join has arrived and its row is not final any more, it is open again, and its arrival does not count
 *     (end_edge_apply).
 *  7. The tasks of the root rise by the number of rows that were inserted. Beyond RUN_TASKS_MAX: ERR_LIMIT, field "tasks".
 *  8. also: tasks that exist, and which the task is to wait for as well. A task that does not exist: ERR_INVALID, as by
 *     OP_PUT with `depends`. They get edges as by rule 6; one that this join did not have raises what it expects.
 *  9. started_ms is set with the first page if it is 0: from then on the task has started, and its occurrence is not
 *     withdrawn. last: the task leaves its claim and gets TASK_OPEN and TASK_WAITS. If its join is
 *     decided already, rule 2 of the store applies at once: it is SCHEDULED. A planner that finds TASK_OPENED and not
 *     all rows opens it once more.
 * 10. max_pending does not count here. Slots are not taken: rows with a concurrency key take theirs when claimed.
 * 11. The first page of a retry (`begin` and `again`) changes nothing while arrivals of steps of the run are left
 *     (dependencies.h 11): ret_arrivals_left. They would tell steps that run again how their parents had ended. A run
 *     that is retried has no step that is not final, so later pages need not look. */
struct open_edge_row {
    struct uuid parent;
    enum dag_type type;
    enum edge_state state;
};

struct open_row {
    struct task task;
    enum dag_join join;
    const struct open_edge_row *edges; /* its join expects as many arrivals; its counts are those of their states */
    size_t n;                          /* 0: no join */
    bool ends;
    bool drops_signals;
    struct str signal; /* with drops_signals */
    bool has_output;   /* a step that a rerun copies: its output is stored with it */
    struct str output;
};

struct op_open {
    struct op op;
    int32_t tenant;
    struct uuid id; /* the task */
    int64_t fence;
    struct uuid run; /* whose stop is looked at: the task itself, or its run */
    struct uuid root;
    struct uuid outer;           /* of a run within another: that one; else nil */
    const struct run_row *begin; /* NULL: not a run's first page. A map's first page has first and no begin */
    bool first, last, again;
    bool despite_stop;  /* compensations: rule 3 does not hold for `stop`, nor for a stop of `outer` */
    enum run_stop stop; /* of the run, when this was planned */
    int64_t begun_ms;   /* with first and again: created_ms of the rows; 0: the task itself does not begin again */
    uint32_t expected;  /* with first */
    int64_t max_broken; /* with first; -1: the join waits for all */
    enum dag_type end_type;
    const struct open_row *rows;
    size_t n; /* at most OPEN_ROWS_MAX */
    const struct uuid *also;
    size_t also_count;
    int64_t now_ms;
    bool ret_stopped, ret_arrivals_left;
    uint64_t ret_unblocked_lanes; /* OP_CLAIM 17: lanes of rows that are SCHEDULED now, and of the task itself */
};

/* ---- OP_AWAIT ----
 *
 * Lets a claimed step wait for signals.
 *
 *  1. RUNNING under exactly that fence: else ERR_CONFLICT, field "fence".
 *  2. It leaves its claim and gets TASK_AWAITS. started_ms is now_ms if it is 0.
 *  3. If there are more signals of that run and name than `seen`, it is SCHEDULED with due_ms now_ms.
 *  4. Else it is SCHEDULED with due_ms started_ms + timeout_ms; without a timeout (0), BLOCKED with an empty waits_for.
 *  5. If its run is paused, it is PAUSED instead, with the same due_ms; 0: no timeout.
 *  6. If its run is stopped, it is SCHEDULED with due_ms now_ms in any case: who claims it cancels it. OP_STOP came
 *     after the plan and before this. */
struct op_await {
    struct op op;
    struct uuid id;
    int64_t fence;
    struct str signal;
    size_t seen;
    int64_t timeout_ms, now_ms;
    uint64_t ret_unblocked_lanes;
};

/* ---- OP_SIGNAL ----
 *
 *  1. The record of the idempotency key is checked first.
 *  2. The run must exist, be of that tenant and not deleted: else ERR_NOT_FOUND. If it is final: ERR_CONFLICT, field "run".
 *  3. A signal of the same run, name and sender: if payload and decision are equal, ret_repeated, and nothing changes;
 *     else ERR_CONFLICT, field "by".
 *  4. If every one of the steps is final, or its time to wait is over at time_ms (await_is_over): ERR_CONFLICT, field
 *     "step". Steps without a row, of a run that is not open yet, are neither.
 *  5. More than SIGNALS_MAX of that name, or SIGNAL_BYTES_MAX of payloads: ERR_LIMIT, field "payload".
 *  6. A step with TASK_AWAITS that is SCHEDULED or BLOCKED becomes SCHEDULED with due_ms now_ms. A PAUSED one stays
 *     PAUSED with due_ms now_ms: it sees the signal when it is resumed. If its time is over, it stays as it is. A
 *     RUNNING one gets TASK_SIGNALLED: its plan may have been made before (rule 10 of the store). */
struct signal_row {
    struct uuid run;
    struct str name, sender, payload; /* payload: JSON text; empty: none */
    bool rejects;
    int64_t time_ms;
};

struct op_signal {
    struct op op;
    int32_t tenant;
    const struct signal_row *signal;
    const struct uuid *steps;   /* that await it */
    const int64_t *timeouts_ms; /* of these steps; 0: none. NULL: none has one */
    size_t n;
    const struct idempotency *idempotency; /* NULL: none */
    bool ret_repeated;
    uint64_t ret_unblocked_lanes;
};

/* ---- OP_STOP ----
 *
 * Stops, pauses or resumes what waits of an open run.
 *
 *  1. The record of the idempotency key is checked first. A run without a run_row, or of another tenant: ERR_NOT_FOUND.
 *     CANCEL without a range of a run whose task is final: ERR_CONFLICT, field "run". The same for PAUSE and RESUME with
 *     `follows` of a run that is not paused, or is: only its steps are changed, as it is already.
 *  2. CANCEL: run_row.stop and stopped_by are set unless it is stopped already. Steps of the run that are SCHEDULED,
 *     BLOCKED or PAUSED become CANCELLED with last_error `why`; at most `max`, by place; their slots are free; their
 *     arrivals are recorded (dependencies.h 11), not applied: ret_unblocked_lanes is UINT64_MAX then (op_unblocked),
 *     and may be if nobody waits for these steps. A run within the run that waits for its next attempt (TASK_AGAIN) has
 *     to undo what it did, unless `stop` is RUN_CANCELLED: it becomes RUNNING with TASK_OPEN instead, and is one of
 *     ret_runs.
 *     Compensations and the deadline stay as they are. If nothing is left to cancel (stop_wake): a run that has
 *     TASK_OPEN becomes SCHEDULED with due_ms now_ms, as by rule 2 of the store: who claims it decides how it ends. A
 *     run that was about to begin again (TASK_AGAIN) does not: its earlier stop is replaced by this one, TASK_AGAIN is
 *     cleared, and if it is not claimed and waits for no slot, it is SCHEDULED with due_ms now_ms, too.
 *  3. PAUSE: run_row.paused is set. Steps that are SCHEDULED or BLOCKED become PAUSED; TASK_WAITS stays. The deadline
 *     stays as it is: it stops a run that is paused, too. If the run is stopped, steps that have TASK_OPENED and are
 *     not about to begin again stay as they are: their plan ends them.
 *  4. RESUME: run_row.paused is cleared. Steps that are PAUSED become BLOCKED if they have TASK_WAITS, or TASK_AWAITS
 *     and no timeout (due_ms 0), else SCHEDULED. If due_ms has passed, it is now_ms then, as by ACTION_RESUME. If the
 *     run is late (run_is_late), only compensations are resumed: steps stay PAUSED until the deadline cancels them.
 *  5. CLOSE: as CANCEL, but the run is not stopped, and its own row stays as it is: for what is left at its end, or of
 *     a map. The caller stops the runs that became RUNNING.
 *  6. With a range, only steps of the places from..to (inclusive) are changed and returned; the run's row stays.
 *  7. ret_more: more than max are left; call again. ret_running: steps that are RUNNING under a claim, at most
 *     STOP_RUNNING_MAX, by place: the caller recalls them. Those with TASK_OPENED are none of them: a recall would end
 *     them without what they have to undo, and their plan sees the stop. ret_runs: open control steps (TASK_OPEN) with
 *     TARGET_WORKFLOW, which may be runs of their own: the caller stops those, too. PAUSE and RESUME also return those
 *     that are being opened (TASK_OPENED or TASK_BEGUN, RUNNING under a claim): the pages that are left see the pause.
 *     A CANCEL need not: these pages see the stop of the run around it (OP_OPEN 3).
 *  8. CANCEL and CLOSE leave a step that has TASK_OPENED and is not about to begin again to its plan, which ends it
 *     with all that it has to undo: if it is SCHEDULED or BLOCKED, it stays as it is; if it is PAUSED, it becomes
 *     SCHEDULED with due_ms now_ms. */
enum run_change { RUN_CANCEL, RUN_PAUSE, RUN_RESUME, RUN_CLOSE };

struct op_stop {
    struct op op;
    int32_t tenant;
    struct uuid run;
    enum run_change change;
    enum run_stop stop; /* with RUN_CANCEL */
    bool follows;       /* with RUN_PAUSE and RUN_RESUME: another one may have come since */
    struct str why;
    bool has_range;
    int64_t from, to; /* places, with has_range */
    size_t max;
    int64_t now_ms;
    const struct idempotency *idempotency; /* NULL: none */
    struct fenced_id *ret_running;
    size_t ret_running_count;
    struct uuid *ret_runs;
    size_t ret_run_count;
    size_t ret_changed;
    bool ret_more;
    uint64_t ret_unblocked_lanes;
};

/* ---- definitions ---- */

/* A definition is stored once for each tenant, by a hash of its text (workflow/definition_secrets.h). */
struct definition {
    int32_t tenant;
    uint8_t hash[DEFINITION_HASH];
    struct str text;
};
int definition_cmp(const struct definition *a, const struct definition *b); /* by tenant and hash */

/* OP_DEFINE - gives a definition a name, or removes a name.
 *
 *  1. The record of the idempotency key is checked first.
 *  2. If the latest version of the name has the same hash, nothing changes: ret_version is that version.
 *  3. Else the definition is stored and the name gets the next version. A name that was removed goes on counting.
 *  4. remove: the name has no version any more; ERR_NOT_FOUND if it had none; ret_version is 0. Definitions stay: runs
 *     have them by hash.
 *  5. An empty name: the definition is stored alone, for a task that will name it by its hash. ret_version is 0. */
struct workflow_row {
    int32_t tenant;
    struct str name;
    int64_t version;
    uint8_t hash[DEFINITION_HASH];
    int64_t created_ms;
};

struct op_define {
    struct op op;
    const struct definition *definition; /* NULL with remove */
    int32_t tenant;
    struct str name;
    bool remove;
    int64_t now_ms;
    const struct idempotency *idempotency; /* NULL: none */
    int64_t ret_version, ret_created_ms;
    bool ret_changed;
};

/* ---- reading ---- */

struct workflow_rows {
    struct workflow_row *v;
    size_t n;
    bool more;
};

/* Definitions of all tenants, for OP_RESEAL. */
struct definition_page {
    struct definition *v; /* by tenant and hash */
    size_t n;
    bool more;
    struct definition next_after; /* if more: its tenant and hash */
};

struct step_filter {
    int32_t tenant;
    struct uuid run;
    unsigned states;     /* bit s; 0: any */
    int64_t shown_at_ms; /* as of struct task_filter */
    bool by_step;        /* only this step: its row, its items, its compensations */
    uint32_t step;
    bool has_after; /* only places behind it */
    int64_t after;
    size_t limit; /* at most STEPS_READ_MAX */
};
enum { STEPS_READ_MAX = 1000 };

struct run_output {
    int64_t place; /* PLACE_RUN: of the run itself, its result */
    bool whole;    /* false: it was too large, and has no text */
    struct str text;
};

struct run_outputs {
    struct run_output *v;
    size_t n;
};

struct signal_rows {
    struct signal_row *v;
    size_t n;
};

/* How many of the signals reject; the others approve. */
static inline size_t signal_rejections(const struct signal_rows *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        n += v->v[i].rejects;
    return n;
}

/* ---- for stores, so that all answer alike ---- */

/* RUNNING under a claim of that fence: OP_OPEN 1, OP_AWAIT 1, OP_SETTLE. */
bool task_is_claimed(enum task_state state, int64_t row_fence, int links, int64_t fence);
/* The row of a run after `begin` (OP_OPEN 2, 3); old: the one that exists, outer: that of op_open.outer, or NULL;
 * links: of the task. */
struct run_row run_begin(const struct op_open *op, const struct run_row *old, const struct run_row *outer, int links);
/* OP_OPEN 3. run, outer: NULL if there is none; links: of the task. */
bool open_is_stopped(const struct op_open *op, const struct run_row *run, const struct run_row *outer, int links);
bool open_begins(const struct op_open *op, int links); /* the join is stored: OP_OPEN 2 */
bool open_starts(const struct op_open *op, int links); /* changes.h 4: the task was not RUNNING for people before */
bool open_asks_arrivals(const struct op_open *op);     /* OP_OPEN 11 may apply */
/* OP_OPEN 4: whether the row replaces the one that exists. */
bool open_replaces(const struct op_open *op, const struct open_row *r, enum task_state old, int64_t old_created_ms);
/* The row to write (OP_OPEN 3 to 6). old_fence: of the row that it replaces; else 0. */
struct task open_row_task(const struct open_row *r, bool paused, int64_t old_fence);
struct flow_counts open_row_counts(const struct open_row *r);
/* The join of the task. */
struct open_join {
    uint32_t expected;
    int64_t max_broken;
    struct flow_counts counts;
};

/* An edge from a row to the task (OP_OPEN 6, 8). */
struct end_edge {
    bool counts; /* it is there, and one of this join. False: of an earlier join, or not there; the state is not set */
    enum edge_state state;
};
/* Changes the edge and the join. parent: its state and links. is_more: the join did not expect it (`also`). False: the
 * edge stays as it is. */
bool end_edge_apply(struct end_edge *edge, const struct task *parent, enum dag_type type, struct open_join *join,
                    bool is_more);
void open_apply(struct task *t, const struct op_open *op, const struct open_join *join); /* the task (OP_OPEN 2, 9) */
int settled_links(int links, enum task_state next, bool has_execution);                  /* rule 6 of the store */
enum err open_too_many(struct error *e);
/* "cancelled: its run was not over at its deadline", or that it was stopped. */
struct str run_stop_reason(enum run_stop s);
/* Rule 7: whether the run has to be asked, and what it makes of the settlement, which is the caller's copy. row: room
 * for a replacement that changes. links and place are those of the step. */
bool settle_asks_run(const struct settlement *v, struct uuid run);
void settle_in_run(const struct run_row *run, int links, int64_t place, int64_t now_ms, struct settlement *v,
                   struct task *row);

/* Rule 8: the same for the run itself. True: the settlement is stale, and there is something to claim. */
bool settle_asks_own(const struct settlement *v, int links);
bool settle_of_run(const struct run_row *run, int64_t now_ms, struct settlement *v);

/* Rule 10: the same for a step that awaits signals; links: of the step. */
bool settle_of_await(int links, int64_t now_ms, struct settlement *v);

bool put_resumes_run(enum task_state was, const struct task *next); /* rule 9 */

void await_apply(struct task *t, const struct op_await *op, size_t signals, bool paused, bool stopped);

/* Whether a signal of that time comes too late for a step that has begun to wait. */
bool await_is_over(const struct task *t, int64_t timeout_ms, int64_t time_ms);
bool signal_takes(const struct op_signal *op, const struct task *t); /* OP_SIGNAL 4: t is one of the steps */
bool signal_wakes(struct task *t, int64_t now_ms);                   /* OP_SIGNAL 6; false: nothing changes */
enum err signal_check_run(const struct task *run, bool found, int32_t tenant, struct error *e) must_use;
enum err signal_check_same(const struct signal_row *old, const struct signal_row *s, struct error *e) must_use;
enum err signal_check_room(size_t count, int64_t bytes, struct error *e) must_use; /* with the new one */
enum err signal_too_late(struct error *e);

bool stop_finds_planned(int links, int64_t place);        /* OP_STOP 8 */
bool stop_reaches_run(enum run_change change, int links); /* OP_STOP 7: a RUNNING step with TARGET_WORKFLOW */
/* Bit s: steps in state s are changed. stop: of the run, as it was. */
unsigned stop_states(enum run_change c, bool planned, enum run_stop stop);
bool run_is_late(const struct run_row *run, int64_t now_ms); /* it was not stopped yet at its deadline */
/* OP_STOP 2, 3, 4 and 6. run: its stop and its deadline, as they were before. */
void stop_places(const struct op_stop *op, const struct run_row *run, int64_t *ret_from, int64_t *ret_to);
void stop_run(struct run_row *run, const struct op_stop *op, int links); /* its row; links: of its task */
bool stop_wake(struct task *t, int64_t now_ms); /* its task, when nothing is left to cancel; false: it stays */
void stop_step(struct task *t, const struct op_stop *op); /* a step in one of these states */
enum err stop_check(const struct op_stop *op, bool paused, enum task_state run,
                    struct error *e) must_use; /* OP_STOP 1 */
enum err run_not_found(struct error *e);

/* What is kept of an output, and what its execution has of it (rule 5 of the store). */
struct run_output output_kept(struct str output);
struct str output_head(struct str output);
/* A step that a user has completed has its output in its row; empty: none. */
struct str output_by_hand(const struct task *t);
/* The API key that completed or skipped a step, which its row has as SETTLED_BY; empty: nobody did. */
#define SETTLED_BY "settled_by"
struct str settled_by(const struct task *t);
/* A definition may be purged if it was put before now_ms - DEFINITION_KEPT_MS (OP_PURGE 11). */
enum { DEFINITION_KEPT_MS = 24 * 3600 * 1000 };
