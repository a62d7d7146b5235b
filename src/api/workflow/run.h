#pragma once
/* api/workflow/run.h - a run of a workflow as the API reads and shows it. All functions: a pool thread that
 * owns the request. */
#include "api/server/request.h"
#include "base/json/json.h"
#include "core/task/pause.h"
#include "workflow/definition_cache.h"
#include "workflow/definition_errors.h"

enum { TASK_STATES = TASK_EXPIRED + 1 };

/* What the target_config of a run says. Texts are borrowed from the task or in the request's arena. */
struct run_config {
    struct str workflow; /* empty: it has a definition by hash */
    int64_t version;     /* 0: the latest when it is opened */
    bool has_hash;
    uint8_t hash[DEFINITION_HASH];
    struct str input; /* JSON text; empty: none */
    int64_t deadline_ms;
};

struct workflow_run {
    struct task task;
    bool opened; /* it has a row */
    bool found;  /* in the answer to a create: it existed, with the same dedupe_key */
    struct run_row row;
    struct run_config config;
    bool has_pause; /* it is paused, and it is known by whom and why */
    struct pause pause;
};

/* The run in the path. ERR_NOT_FOUND: there is none. */
enum err run_read(struct request *q, struct reader *r, struct workflow_run *ret, struct error *e) must_use;
/* The same of a task that was read. */
enum err run_read_of(struct request *q, struct reader *r, const struct task *t, struct workflow_run *ret,
                     struct error *e) must_use;
/* Who paused a run, why and until when. Its record has version 0 if there is none. False in ret_known: not known. The
 * caller knows whether the run is paused. */
enum err run_pause_read(struct request *q, struct reader *r, const struct task *run, struct record *ret_record,
                        struct pause *ret, bool *ret_known, struct error *e) must_use;
enum err run_config_read(struct request *q, const struct task *t, struct run_config *ret, struct error *e) must_use;

/* A stored definition; version 0: the latest. ERR_NOT_FOUND says which name is near, or which version is the latest. */
enum err run_find_workflow(struct request *q, struct reader *r, struct str name, int64_t version,
                           struct workflow_row *ret, struct error *e) must_use;

/* The definition of a run: the one that it was opened with, or would be opened with now. */
enum err run_definition(struct request *q, struct reader *r, const struct workflow_run *run,
                        struct cached_definition **ret, struct error *e) must_use;

/* Finds what the target_config of a new task of target WORKFLOW names. Errors are fields below target_config. */
enum err run_check_target(struct request *q, struct reader *r, const struct task *t, struct error *e) must_use;

/* Binds a new run to the version that is the latest now, or to the one that it names, and to its content, whatever
 * becomes of the name. Errors as above. */
enum err run_bind(struct request *q, struct reader *r, struct task *t, struct error *e) must_use;

/* Answers with all errors of a definition. parent: where it is in the body; NULL: it is the body. */
enum handled run_refuse_definition(struct request *q, struct definition_errors *errors, const char *parent);

/* False: not every node can run workflows yet, and the request is answered with 503. */
bool run_is_possible(struct request *q);

/* False: the task is a run or a schedule of runs, and the API key may not change these. The request is answered. */
bool run_may_change(struct request *q, const struct task *t);

/* The name of the step that a task is; empty: it is none, or its run is gone. */
enum err run_step_name(struct request *q, struct reader *r, const struct task *t, struct str *ret,
                       struct error *e) must_use;
/* The same, and puts names of steps in place of ids into its last error. */
enum err run_step_names(struct request *q, struct reader *r, struct task *t, struct str *ret, struct error *e) must_use;
/* The beginning of what a COMPLETED step answered, or of what a user completed it with; empty: nothing, or it is no
 * COMPLETED step. */
enum err run_step_output(struct request *q, struct reader *r, const struct task *t, struct str *ret,
                         struct error *e) must_use;
/* A step as its run has it, besides its row. Texts are in the request's arena. */
struct run_step_shown {
    const char *target;                     /* MAP, AWAIT or that of the row */
    struct str definition;                  /* JSON text */
    int64_t items[TASK_STATES], item_count; /* of a map, by state; item_count -1: it is none */
};
/* Writes `items`. */
void run_write_items(struct jw *w, const int64_t by_state[TASK_STATES], int64_t total);
/* Writes the definition of a step with its secret headers hidden. */
void run_write_step_definition(struct jw *w, struct str text);
/* Of a step whose call has references, and that has started: puts the call that they resolve to into the row. If they
 * have no value, the row stays as it is. */
enum err run_resolve_call(struct request *q, struct reader *r, struct task *t, struct error *e) must_use;

/* Writes `step` and `item` of a task that is a step. */
void run_write_place(struct jw *w, const struct task *t, struct str step);

/* ---- what the steps of a run are doing ---- */

enum { FAILURES_SHOWN = 20, AWAITING_SHOWN = 100 };

struct run_failure {
    uint32_t step;
    int64_t item; /* -1: none */
    enum task_state state;
    struct str error;
};

struct run_awaiting {
    uint32_t step;
    int64_t since_ms, timeout_ms; /* timeout_ms 0: none */
};

struct run_tally {
    int64_t by_state[TASK_STATES];  /* of steps, without items and compensations */
    int64_t undone, undo_total;     /* compensations that are COMPLETED; all */
    struct flow_step_state *states; /* by step: only the outcome */
    bool stopped, has_failed_step;
    uint32_t failed_step; /* the first that fails the run */
    struct run_failure failures[FAILURES_SHOWN];
    size_t failure_count;
    struct run_awaiting awaiting[AWAITING_SHOWN];
    size_t awaiting_count;
};

enum err run_tally(struct request *q, struct reader *r, const struct workflow_run *run, const struct dag *d,
                   struct run_tally *ret, struct error *e) must_use;

/* Whether a run that is not over undoes what it did: it has compensations. */
enum err run_is_undoing(struct request *q, struct reader *r, const struct task *run, bool *ret,
                        struct error *e) must_use;
/* Why the run is being undone, as its last_error says at its end. */
enum { RUN_CAUSE_TEXT = 512 };
struct str run_undo_cause(const struct workflow_run *run, const struct dag *d, const struct run_tally *tally,
                          char text[RUN_CAUSE_TEXT]);

/* Writes {"total", "by_status"} as two members. */
void run_write_counts(struct jw *w, const struct dag *d, const struct run_tally *tally);

/* The state that lists show of a run, and by which they find it: PAUSED if it is `paused`, whatever its status. */
enum task_state run_listed_state(const struct workflow_run *run, int64_t now_ms);

/* Writes a run as one object. d and tally NULL: without `steps`. result: JSON text; empty: null. */
void run_write(struct jw *w, const struct request *q, const struct workflow_run *run, const struct dag *d,
               const struct run_tally *tally, struct str result);

/* Reads all about the run and answers with it. */
enum handled run_answer(struct request *q, struct reader *r, const struct workflow_run *run, int status);

/* The answer to a change of a run that is written before the change is stored: without its steps. */
enum err run_answer_brief(struct request *q, struct reader *r, const struct task *t, int status,
                          struct error *e) must_use;
