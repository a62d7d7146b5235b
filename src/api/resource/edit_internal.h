#pragma once
/* api/resource/edit_internal.h - one change of a task, shared by the files that make it: edit.c reads the request and
 * the row, edit_plan.c says what the task becomes, edit_store.c stores it or asks the owner of the claim. A pool thread
 * that owns the request. */
#include "api/resource/edit.h"
#include "api/server/internal.h"

enum { ARCHIVE_REASON_MAX = 500 /* characters */ };

struct edit {
    struct request *q;
    bool is_patch; /* the fields in the body change; if there is an action too, before the action */
    bool has_action;
    enum action action;
    bool force;
    bool compensate;   /* with CANCEL, of a run */
    struct str reason; /* why a dead letter is archived */
    struct pause_body pause;

    struct task current;
    struct action_plan plan;
    int64_t withdraw_from_ms;
    int tries;
    bool was_admitted; /* run-now of a recurring task: the tenant's rate allows one more task */

    int64_t deadline_ns;    /* of a recall; 0: none yet */
    bool was_told;          /* another node was told to abort the task, and has answered */
    int64_t aborting_fence; /* the fence of the claim that its owner was told to abort; 0: none */
    struct task claimed;    /* the claim that another node was asked for and gave back; nil id: none */
    struct timer retry_timer;
};

/* Reads the row, and does what the request asks for: the first time, and again if somebody else changed it first. */
route_handler edit_attempt;

/* ---- edit_plan.c ---- */

/* What edit->current becomes: edit->plan. */
enum err edit_plan(struct request *q, struct reader *r, struct edit *edit, struct error *e) must_use;

/* ---- edit_store.c ---- */

/* Stores the plan of a task that nobody has claimed. */
enum handled edit_put(struct request *q, struct reader *r, struct edit *edit);
/* Asks the owner of a claimed task to give it up, and to settle it as the plan. */
enum handled edit_recall(struct request *q, struct edit *edit);

/* From the first call on, attempts are repeated for wait_ms. */
void edit_set_deadline(struct request *q, int64_t wait_ms);
/* Another attempt after a moment; after the deadline, the answer says that the task is running. */
enum handled edit_retry_later(struct request *q);
