#pragma once
/* node/scheduler/internal.h - what the files of the scheduler share.
 *
 *  - scheduler.c: public functions
 *  - claim.c: claims
 *  - retake.c: claims anew tasks that a queue has forgotten
 *  - ahead.c: claims ahead, and places for the tasks of these that are due
 *  - plan.c: runs of workflows, and steps whose call comes from a definition
 *  - push.c: fires */
#include "base/map.h"
#include "core/time/wheel.h"
#include "node/scheduler/scheduler.h"

/* How long a suspect is tried alone after a crash. A suspect that is lost again is tried twice as long, and so on. */
enum { SCHEDULER_ISOLATION_MS = 5000 };

/* One claim and its tasks. It lives until the last of its tasks has been pushed. */
struct claim {
    union {
        struct op op;
        struct op_claim ask;
        struct op_retake retake;
        struct op_claimed readback;
    };
    struct scheduler *scheduler;
    struct armed *armed;
    struct lanes_round round;
    struct uuid id;
    size_t references;
    size_t armed_count; /* tasks that have not left the scheduler */
    size_t ending;      /* fleet: tasks that have left it unpushed, while that is not stored yet */
    size_t pushing;     /* of those that have not left: on their way to the shared queue, or perhaps there already */
    bool pushed;        /* the shared queue has some of its tasks; then `kept` is false */
    uint64_t epoch;     /* the queue's, when the first was pushed; 0: not known */
    bool kept;          /* this process runs some of its tasks: it is not handed over */
    int64_t begun_ms;   /* steady */
    struct partitions own;
    bool ahead;          /* its tasks have no place before they are due, see ahead.c */
    struct list planned; /* tasks whose call was planned (plan.c) */
    bool contested;      /* places were given away since it was made: its tasks may find none */
    bool waits;          /* it is to be read back at retry_at_ms; else it is with the writer */
    bool disowned;       /* its tasks belong to another node */
};

/* Where a held task is: on the wheel, or ready; with the planner; on its way to the queue; in the shared queue; in the
 * queue of this process; at its end, not settled yet. */
enum held_where { HELD_ARMED, HELD_PLANNING, HELD_PUSHING, HELD_QUEUED, HELD_OWN, HELD_ENDED };

/* A claimed task until its settlement. It outlives the claim's memory. */
struct held {
    struct fenced_id key;
    struct lane_entry *lane;
    enum held_where where;
    struct armed *armed;      /* while ARMED, PLANNING or PUSHING */
    struct claim *left_claim; /* NULL, or the claim that it has left unpushed, of whose `ending` it is one */
    bool placed;              /* it counts among the tasks that run: it has fired, or is about to */
    bool fired;               /* it has taken a token of its queue's rate */
    bool ahead;               /* it counts among the tasks that are claimed without a place */
    bool returned;            /* it counts in scheduler.returning */
    bool suspect, taken_back;
    bool wanted_back; /* by a user, while it was planned or on its way to the queue: if it comes back, it is returned */
    bool is_parent;   /* others waited for it when it was claimed */
    char *replaced;   /* why it is not to run; NULL: it may */
    struct settle_facts *facts; /* fleet: what is needed to end it when the queue has it; without texts */
    struct list link;           /* QUEUED: in scheduler.queued, by asked_ms */
    int64_t asked_ms;           /* steady: when it was pushed, or last checked in the store */
    int64_t abort_asked_ms;     /* steady: when the queue was last asked to abort it; 0: never */
    uint64_t epoch;             /* QUEUED: of the queue, when it was pushed; 0: not known */
};

struct armed {
    struct wheel_entry entry;
    struct list link;         /* in scheduler.armed, while its task is ARMED */
    struct heap_node ready;   /* due, and waiting for a place, instead of on the wheel */
    struct list ready_since;  /* then: in scheduler.ready */
    int64_t ready_ms;         /* then: since when (steady) */
    struct heap_node to_plan; /* due, and waiting for the planner, instead of on the wheel */
    const struct task *task;
    struct claim *claim;
    struct held *held;         /* NULL: settled while it was pushed once more */
    struct planned_call *call; /* its call, if that was planned (plan.c) */
    bool pushing;              /* it counts in claim.pushing */
    bool unsure;               /* the queue may have it: it was pushed, and the answer was lost */
    bool ends;                 /* it cannot be pushed again: its claim ends */
    enum late_cause late_by;   /* what keeps it from firing although it is due; NONE: nothing so far */
    struct str trial_of;       /* the host whose breaker it tries although it was not put aside; empty: none */
};

/* Tasks that a queue has forgotten, on their way to be claimed anew. */
struct retaking {
    struct claim *claim; /* NULL: none */
    struct scheduler_retake ask;
    int64_t retry_at_ms, retry_ms; /* steady: when the claim is read back */
};

struct scheduler {
    struct scheduler_setup setup;
    struct uuid_gen ids;
    struct moment now;
    struct lanes *lanes;
    struct spawner *spawner;

    struct wheel wheel;
    struct map held;   /* id and fence → struct held */
    struct list armed; /* tasks on the wheel, or ready */
    size_t armed_count;
    struct list ready;                 /* armed tasks that wait for a place, the longest first */
    bool freed;                        /* a place became free after the last step */
    size_t returning;                  /* overdue tasks that were given back and are not settled */
    size_t ahead_count, ahead_bytes;   /* of tasks without a place */
    size_t ready_count;                /* in ready */
    int64_t ahead_at_ms;               /* steady: when a claim ahead was last made */
    int64_t slow_ms[2], slow_since_ms; /* the slowest claims of this and of the last SLOW_MS */
    size_t parents;                    /* among the held tasks: held.is_parent */
    size_t suspects;                   /* among the held tasks */
    bool shares;                       /* other nodes have partitions, too */
    struct partitions own;
    bool busy;            /* the last claim was full of tasks of our own partitions */
    int64_t help_from_ms; /* steady: from then on, tasks of other partitions are claimed as well */
    bool begun, suspended, isolating;
    int64_t resumed_ms;     /* wall: nothing was claimed before; INT64_MIN: it has not begun */
    int64_t alone_until_ms; /* steady: until then the suspect runs alone; before it is claimed, it is waited for */
    uint64_t generation;    /* of the catalog cache, when its rules were applied */
    int64_t rules_come_ms;  /* steady: until then claims wait for changed rules; INT64_MIN: none are being read */
    int64_t rules_came_ms;  /* steady: when claims last began to wait for rules */

    struct list planning; /* tasks with the planner, or whose plan is being stored */
    size_t planning_count, planned_bytes;
    struct heap to_plan;       /* armed tasks that wait until the planner takes more, the most urgent first */
    struct list pushing;       /* batches in flight */
    struct pushing *free_push; /* kept for the next one */
    struct list queued;        /* held tasks that the shared queue has, by asked_ms */
    uint64_t epoch;            /* of the queue, at the last push; 0: none yet */
    bool is_down;              /* the last push to it failed */
    int64_t down_ms;           /* steady: since when */
    bool probe;                /* the queue has answered somebody: push something to it */

    struct claim *claiming; /* NULL: none in flight */
    struct retaking retaking;
    int64_t retry_at_ms, polled_ms; /* steady */
    int64_t retry_ms, last_claim_ms;
    int64_t failing_ms, failed_ms; /* steady: since when claims fail, and when the last one did; 0: they do not */
    int64_t failures;              /* since failing_ms */
    int64_t slowest_ms, window_ms, ahead_ms;
    bool answered;             /* a claim was answered since the last step: the next step measures how long it took */
    int64_t answered_begun_ms; /* steady: when that claim was made */
    bool answered_full;
    bool draining;
};

void claim_unref(struct claim *c);
void claim_read_back(struct claim *c, void (*done)(struct op *op)); /* prepares the claim to be submitted again */
void scheduler_arm(struct scheduler *s, struct claim *c, const struct tasks *tasks); /* puts the tasks on the wheel */
/* Passes on that the store calls this node dead, if op says so. */
void scheduler_refused(struct scheduler *s, const struct op *op);

/* A place for the task: it counts among those that run. The place is given up once. */
void scheduler_give_place(struct scheduler *s, struct held *h);
bool scheduler_has_place(struct scheduler *s, const struct held *h); /* one could be given */
void scheduler_leave_place(struct scheduler *s, struct held *h);
void scheduler_add_ahead(struct scheduler *s, struct armed *a); /* it was claimed ahead, without a place */
/* A task without a place is due: whether it may fire now. If not, it is ready. */
bool scheduler_take_place(struct scheduler *s, struct armed *a);
void scheduler_off_wheel(struct scheduler *s, struct armed *a);   /* or no longer ready, or waiting for the planner */
void scheduler_leave_armed(struct scheduler *s, struct armed *a); /* it does not fire: its lane counts it no more */
void scheduler_return_ready(struct scheduler *s);                 /* tasks that found no place for too long */
void scheduler_claim_ahead(struct scheduler *s);
void scheduler_adapt_ahead(struct scheduler *s, int64_t took_ms); /* to how long a claim took */
int64_t scheduler_next_ahead_ms(const struct scheduler *s);       /* wall: when there is something to do for all this */
void scheduler_submit_claim(struct scheduler *s, struct claim *c, size_t max_bytes);

/* Off the wheel for good: the queue has the task, or another module settles it. With its last task, the claim is
 * handed over. */
void scheduler_disarm(struct scheduler *s, struct armed *a);
/* Off the wheel, and its claim ends. If the outcome cannot be published now, the task waits on the wheel and is
 * tried again. */
void scheduler_end(struct scheduler *s, struct armed *a, enum outcome_kind kind);
void scheduler_end_as(struct scheduler *s, struct armed *a,
                      const struct outcome *o);                            /* the same, off the wheel already */
void scheduler_rearm(struct scheduler *s, struct armed *a, int64_t in_ms); /* back on the wheel */
void scheduler_off_list(struct scheduler *s, struct armed *a);             /* out of scheduler.armed */
/* The task is due, off the wheel, and needs a plan. */
void scheduler_plan(struct scheduler *s, struct armed *a);
void scheduler_disown_plans(struct scheduler *s); /* their tasks belong to another node */
void scheduler_free_planned(struct scheduler *s, struct list *planned);
void scheduler_drop_planned(struct scheduler *s, struct armed *a); /* it has left the scheduler */
/* The task of a held entry that is about to be freed. */
void scheduler_settled_unpushed(struct scheduler *s, struct held *h);
void scheduler_end_stored(struct scheduler *s, struct held *h);
void scheduler_fire(struct scheduler *s);          /* pushes due tasks */
bool scheduler_has_due(const struct scheduler *s); /* tasks that are to be fired now */
bool scheduler_may_fire(const struct scheduler *s);
bool scheduler_falls_back(const struct scheduler *s); /* the queue is down, and this process runs due tasks */
void scheduler_forget_pushes(struct scheduler *s);    /* the tasks of batches in flight belong to another node */

/* Reads a claim back, or makes one, if it is time to. */
void scheduler_claim(struct scheduler *s);
int64_t scheduler_next_claim_ms(const struct scheduler *s); /* when a claim is worth making */
bool scheduler_may_claim(struct scheduler *s);
void scheduler_measure_claim(struct scheduler *s); /* after a claim was answered, with the time of the next step */

int64_t scheduler_retake_step(struct scheduler *s); /* when to call again */
void scheduler_disown_retake(struct scheduler *s);

struct held *scheduler_find_held(const struct scheduler *s, struct uuid id, int64_t fence);
struct held *scheduler_remove_held(struct scheduler *s, struct uuid id, int64_t fence);
