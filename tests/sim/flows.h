#pragma once
/* tests/sim/flows.h - runs of workflows in the simulated world.
 *
 * Users define workflows and start runs of them (flows_make.c), send signals, stop, pause and retry (flows_client.c).
 * The planner is the real one, over a reader of the memory store; it reads, and its answer comes later, or not at all
 * (flows.c).
 *
 * The oracle (flows_judge.c) knows the definition, what users asked for and what the receiver answered. Of each task of
 * a run it notes how it was settled, and judges that by the same rules as the product: flow_state and flow_result over
 * these outcomes. Each call is judged when it starts: whether the joins allow it, and whether its body has what the
 * receiver answered before. At the end no run may wait although the model says how it goes on. */
#include "core/flow/flow.h"
#include "core/flow/place.h"
#include "workflow/planner.h"

struct sim;
struct sim_node;
struct subject;

enum { FLOW_STEPS_MAX = 6, FLOW_ITEMS_MAX = 5, FLOW_NAMES = 3, FLOW_SENDERS = 4, FLOW_NO_VALUE = -1 };

/* What the oracle must know of a step beside the graph. */
struct flow_step_facts {
    uint32_t refs[FLOW_STEPS_MAX]; /* parents whose output is in its body */
    size_t ref_count;
    int when_of; /* the parent whose output its condition compares; -1: no condition */
    int64_t when_below;
};

struct flow_definition {
    struct list link;
    int number; /* is in each body */
    int32_t tenant;
    struct str text;
    struct definition row;
    struct dag *dag;
    int name;           /* of FLOW_NAMES; -1: it is posted with its run */
    uint32_t result_of; /* the step whose number is its result */
    struct flow_step_facts steps[FLOW_STEPS_MAX];
};

/* A task of a run, or a run. */
struct flow_task {
    struct uuid id;
    struct flow *flow; /* that it is a task of; NULL: none */
    struct flow *run;  /* that it is; NULL: none */
    int64_t place;
    enum flow_outcome outcome; /* as it was settled for good; FLOW_OPEN: it was not */
    int64_t output;            /* the number in it; FLOW_NO_VALUE: none */
    struct str body;           /* of its first call since the run was opened or opened again */
    int64_t claimed_us;        /* steady: when it was claimed last */
    int64_t fired_fence;       /* who paused its run was told that it runs under this fence */
    bool called;               /* since the run was opened or opened again */
    bool was_called;           /* ever */
    bool by_hand;              /* a user has started, completed or skipped it, likewise */
    bool copied;               /* by a rerun: it is not called, nor undone */
    unsigned senders;          /* of an await that is COMPLETED by its signals: bit i, sender i is in its output */
    bool has_senders;
};

struct flow_signal {
    bool sent, acked, rejects;
    int64_t value;
};

struct flow {
    struct list link;
    struct uuid id;
    int32_t tenant;
    struct flow_task *own;
    const struct flow_definition *definition;
    struct flow_task *tasks;
    size_t task_count;
    struct subject *subject; /* NULL: a run within another */
    int64_t input;           /* a number in its input */
    int64_t items;           /* of every map */
    int64_t deadline_ms;     /* from its opening on; 0: none */
    int max_attempts;
    bool opened, ended, busy;
    bool waits;        /* at the end: for a reason */
    int64_t opened_ms; /* wall: when it was opened first */
    enum task_state end;
    int generation;
    int64_t moved_us;                                         /* steady: when something of it last happened */
    struct flow_signal signals[FLOW_STEPS_MAX][FLOW_SENDERS]; /* by awaiting step */

    const struct flow *rerun_of; /* NULL: it begins with its first steps */
    uint32_t rerun_from;
    bool was_rerun;       /* another run has copies of its steps: it is not retried any more */
    unsigned retry_steps; /* that the user named for its last retry: bit i, step i; 0: all that failed */

    bool cancel_sent, pause_sent;
    bool has_closed;    /* it has cancelled what was left of a map, or at its end */
    bool again;         /* a user retried it, and it has not begun again yet */
    enum run_stop stop; /* as it was stored */
    int64_t stopped_us; /* steady: when */
    int64_t quiet_us;   /* steady: since when nothing of it may start; INT64_MAX: it may */
};

struct flows {
    struct arena memory;
    struct list definitions, runs, requests;
    int definition_count;
    struct map by_id; /* id → struct flow_task */
    struct definition_cache *cache;
    struct reader *reader;
};

/* ---- flows.c ---- */

void flows_init(struct sim *s);
void flows_release(struct sim *s);
struct planner *flows_planner(struct sim_node *n); /* NULL: there are no workflows in this world */
void flows_planner_init(struct sim_node *n);
void flows_planner_crash(struct sim_node *n);
void flows_planner_answer_ghosts(struct sim_node *n);

struct flow_task *flows_task(struct sim *s, struct uuid id); /* NULL: it is no run and no task of one */
struct flow_task *flow_task_at(const struct flow *f, int64_t place);
/* own: the task that the run is; NULL: it is in no other run */
struct flow *flow_new(struct sim *s, const struct flow_definition *d, struct uuid id, struct flow_task *own);
struct flow *flow_new_rerun(struct sim *s, struct flow *old, uint32_t from, struct uuid id);
const struct flow_definition *flows_definition(struct sim *s, int32_t tenant, const uint8_t hash[DEFINITION_HASH]);
struct str flows_keep(struct sim *s, const struct buf *text);     /* until the end of the world */
void flow_outcomes(const struct flow *f, enum flow_outcome *ret); /* by step */
void flow_model(const struct flow *f, struct arena *a, struct flow_state *ret);

/* ---- flows_make.c ---- */

void flows_plan(struct sim *s); /* what users define before they start runs, and new versions of it */

/* ---- flows_client.c ---- */

void flows_send_signals(struct sim *s, struct flow *f); /* to all its steps that await one */
void flows_act(struct sim *s);                          /* one random request for a run that exists */
struct flow *flows_some_ended(struct sim *s);           /* that a user may rerun; NULL: none was found */
/* The run was just opened: users stop, pause and resume it, when its first steps begin. */
void flows_pounce(struct sim *s, struct flow *f);
void flows_free_requests(struct sim *s);

/* ---- flows_judge.c ---- */

void flows_applied(struct sim_node *by, const struct op *op);
void flows_settled(struct sim *s, const struct settlement *v);
void flows_judge_start(struct sim *s, const struct task *t);
bool flows_were_put_off(struct sim *s, struct uuid id);                /* it is a task of a run that was paused */
bool flows_is_control(struct sim *s, struct uuid id);                  /* a run, a map, an await or a deadline */
struct str flows_output(struct sim *s, struct uuid id, int64_t fence); /* what the receiver answers */
bool flow_value_fits(const struct flow_task *t, int64_t value);        /* in the output of a step */
bool undo_is_wanted(const struct flow *f, const struct flow_task *of);
void flows_judge_signals(struct sim *s, const struct flow *f,
                         uint32_t step); /* whether accepted ones are in the output */

/* ---- flows_again.c ---- */

/* The first page of a retry: what does not run again stays as it is. */
void flow_begins_again(struct sim *s, struct flow *f);
/* A run that was retried repeats what failed of its compensation. */
void flow_undoes_again(struct sim *s, const struct op_open *op);
/* A later page of a rerun, and its first one. */
void flow_goes_on_as_rerun(struct sim *s, const struct flow *f, const struct op_open *op);
void flow_begins_as_rerun(struct sim *s, struct flow *f, const struct op_open *op);

/* ---- flows_check.c: everything has drained ---- */

void flows_check(struct sim *s);
int64_t flows_count_open(struct sim *s); /* tasks that are RUNNING under no claim */
