#pragma once
/* node/scheduler/scheduler.h - claims due tasks a moment early and pushes them to the queue exactly when they are
 * due.
 *
 * A state machine on the loop's thread. scheduler_step(now) does everything that is to be done at now and returns
 * when to call again (see node.h). Operations that it submitted complete through their `done` on the same thread,
 * before a later step. The scheduler owns the claimed tasks until they are pushed: nothing touches the store at the
 * moment of firing.
 *
 * A step does three things:
 *  - it pushes the tasks on the wheel that are due (push.c);
 *  - if there is room and something is due within the arm window, it makes a claim (claim.c); lanes.h says of which
 *    lanes and how many; if nothing is, it claims tasks that are due within the next seconds (ahead.c);
 *  - it spawns occurrences of recurring tasks whose cursor comes near (spawner.h). */
#include "node/scheduler/lanes.h"
#include "node/scheduler/spawner.h"
#include "port/async_io.h"
#include "port/planner.h"

struct scheduler_setup {
    struct writer *writer;
    struct async_io *async_io; /* the queue that tasks are pushed to */
    struct planner *planner;   /* NULL: tasks of workflows wait */
    struct async_io *own; /* fleet: the queue of this process, used while the shared one is down; NULL: tasks wait */
    const struct queue_filter *own_filter; /* which tasks the worker behind `own` serves */
    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* NULL: no rules, no calendars */
    struct metrics *metrics;
    struct uuid node;
    uint64_t seed;
    size_t open_rows;       /* of a page of OP_OPEN; 0: OPEN_ROWS_MAX */
    size_t slots;           /* tasks that may run at once; in a fleet, see scheduler_set_workers */
    size_t host_calls;      /* calls that one host gets at once; 0: as many as there are */
    bool fleet;             /* a pushed task belongs to the shared queue: see `handed` */
    bool shared;            /* limits hold for all nodes of the store together */
    int64_t spawn_ahead_ms; /* longer than a failover takes */
    int64_t arm_min_ms, arm_max_ms;
    int64_t ahead_ms;   /* tasks are claimed so long before they are due, or longer if claims are slow; 0: not ahead */
    size_t ahead_bytes; /* memory of tasks that are claimed ahead */
    int64_t poll_ms;    /* claim at least this often although nobody nudged; 0: never */

    /* Whether the claims of this node are certainly still its own; if not, nothing fires. NULL: always. */
    bool (*may_fire)(void *context);
    /* Tasks are about to fire. NULL: nobody wants to know. */
    void (*before_fire)(void *context, int64_t now_ms);
    /* The store says that this node is dead. NULL: nobody wants to know. */
    void (*refused)(void *context);
    /* A claim ends before its task has fired: RETURNED, EXPIRED, CANCELLED or HELD. False: the outcome could not be
     * published; the scheduler tries again. */
    bool (*end)(void *context, const struct task *t, const struct outcome *o);
    /* Fleet: the queue has every task of this claim that was not settled otherwise. epoch: the queue's, when the
     * first was pushed; 0: not known. */
    void (*handed)(void *context, struct uuid claim, uint64_t epoch);
    /* Fleet: these tasks were claimed anew in place. Their former claims, here or on another node, are over. */
    void (*retaken)(void *context, const struct tasks *t);
    /* A claim has found no slot for this task: it is BLOCKED, SKIPPED or CANCELLED, as it is now. Or it is a missed
     * occurrence, which is SKIPPED. */
    void (*gated)(void *context, const struct task *t, bool is_missed);
    /* Tasks of these lanes are SCHEDULED (OP_CLAIM 17). */
    void (*unblocked)(void *context, uint64_t lanes);
    /* An occurrence was written, or may have been. NULL: nobody wants to know. */
    void (*spawned)(void *context, const struct task *occurrence);
    /* A run, a map or a wait for a signal begins: no worker starts it. NULL: nobody wants to know. */
    void (*opened)(void *context, const struct task *t);
    void (*nudge)(void *context, const struct task *t); /* it was put into another lane, or may expire */
    /* Its run was stopped: take it back, or abort it if it has fired. Another node may hold it. */
    void (*abort)(void *context, const struct fenced_id *id);
    /* A later run replaces this claimed task: end it. */
    void (*replaced)(void *context, const struct replaced *r);
    void *context;
};

struct scheduler;

struct scheduler *scheduler_new(const struct scheduler_setup *setup, struct moment now);
void scheduler_free(struct scheduler *s); /* nothing is in flight */

int64_t scheduler_step(struct scheduler *s, struct moment now);

/* A task was written or changed: claim it in time. Its lane becomes known. */
void scheduler_nudge(struct scheduler *s, const struct task *t);

/* If the catalog cache has changed, its rules hold from now on: limits apply, and armed tasks of a queue that was
 * paused are returned. Every step does that first. */
void scheduler_apply_rules(struct scheduler *s);

/* Another node has changed rules, and they are being read: claims wait for them, 100 ms at most, then go on with the
 * old ones. */
void scheduler_await_rules(struct scheduler *s, bool await);

/* Allows claims, unless the scheduler is suspended: the claims of dead nodes are settled. If suspects were among
 * them, the first suspect is tried with nothing else running, for a few seconds: if the process dies again, the cause
 * is known. */
void scheduler_begin(struct scheduler *s, bool found_suspects);

/* The claim on a task has ended. If it was made here, there is room again. The verdict says when the task is due
 * next; NULL: the caller nudges. Events may come twice, so this may be called twice. */
void scheduler_on_settled(struct scheduler *s, struct uuid id, int64_t fence, const struct verdict *v);
/* The outcome of a task is known, and not settled yet: its place is free. */
void scheduler_on_ended(struct scheduler *s, struct uuid id, int64_t fence);
/* These outcomes are about to be settled. If others waited for their tasks: a claim of those, to be submitted right
 * behind the settle, so that a task and the one before it cost one transaction. Its tasks are subject to every rule
 * of a claim. NULL: none. */
struct op *scheduler_claim_behind(struct scheduler *s, const struct event *v, size_t n);
/* Whether another step can start more: not all tasks that are due were fired, or a place became free since the step. */
bool scheduler_has_more(const struct scheduler *s);
bool scheduler_holds(const struct scheduler *s, struct uuid id, int64_t fence); /* claimed here and not settled */

bool scheduler_is_placed(const struct scheduler *s, struct uuid id, int64_t fence); /* it runs, or is about to */

/* So many fired tasks wait in the worker of this process for their host, and use no slot. */
void scheduler_set_parked(struct scheduler *s, size_t parked);

/* ---- functions of a fleet ---- */

/* The workers that run the tasks from now on (lanes_set_workers). */
void scheduler_set_workers(struct scheduler *s, const struct lanes_workers *w);
/* The queue is down, and due tasks run in this process. False as soon as the queue has answered somebody: the next
 * push, of whatever task, is to tell whether it is back. */
bool scheduler_runs_here(const struct scheduler *s);

/* The queue has answered a request: if it was down, it is tried again. */
void scheduler_queue_answers(struct scheduler *s);

/* Tasks that the queue has had longest without a check: those pushed or last returned by this function before
 * before_ms (steady). At most max. */
size_t scheduler_queued_since(struct scheduler *s, int64_t before_ms, struct fenced_id *ret, size_t max);

/* The facts needed to end a task that is pushed or being pushed; NULL: it is not held here, or not in the queue. */
const struct settle_facts *scheduler_queued(const struct scheduler *s, struct uuid id, int64_t fence);
/* The queue is to be asked to abort it; false: it was asked less than 500 ms ago. */
bool scheduler_ask_abort(struct scheduler *s, struct uuid id, int64_t fence);
/* The epoch of the shared queue in which it got the task; 0: not known here. */
uint64_t scheduler_queue_epoch(const struct scheduler *s, struct uuid id, int64_t fence);

/* Whether a task that the queue has forgotten may be claimed anew in place (OP_RETAKE): it may simply run once more,
 * and no limit counts it for another node. Such a task becomes this node's even if there is no room. */
bool scheduler_may_retake(struct scheduler *s, const struct task *t);

struct scheduler_retake {
    const struct fenced_id *v; /* up to CLAIM_MAX; borrowed until done */
    size_t n;
    void (*done)(void *context, const struct tasks *taken); /* called once; the tasks live for the call */
    void *context;
};
bool scheduler_retake(struct scheduler *s, const struct scheduler_retake *r); /* false: not now */

/* A claimed task that has not fired; NULL: it has fired, or is not claimed here. */
const struct task *scheduler_armed(const struct scheduler *s, struct uuid id, int64_t fence);

/* Takes a task that has not fired off the wheel; false: there is none. The caller settles it. */
bool scheduler_unarm(struct scheduler *s, struct uuid id, int64_t fence);

/* A user wants a task back that scheduler_unarm does not have. If it is on its way to the shared queue and comes back,
 * because the queue is down, it does not fire: its claim ends, and the store decides what becomes of it. The same if
 * its call is being planned, perhaps of a run as it was before, or a run is being planned that is not opened; true: so
 * it is. */
bool scheduler_want_back(struct scheduler *s, struct uuid id, int64_t fence);
/* It has left the wheel and does not fire: somebody settles it. */
bool scheduler_is_being_settled(const struct scheduler *s, struct uuid id, int64_t fence);
/* It is planned, on its way to a queue, or in the hands of this process's queue and worker: not known here is whether
 * it has started. */
bool scheduler_may_start(const struct scheduler *s, struct uuid id, int64_t fence);

/* A later run replaces the task, and `why` says so: it is taken off the wheel and ended as CANCELLED; false: it has
 * fired, or is not claimed here. */
bool scheduler_replace(struct scheduler *s, struct uuid id, int64_t fence, struct str why);
/* It is held and has tasks of its own (port/store/runs.h): only its plan ends it. */
bool scheduler_is_opened(const struct scheduler *s, struct uuid id, int64_t fence);

/* While suspended, the scheduler makes no claim and does not visit recurring tasks; armed tasks fire. It begins
 * suspended: catch-up comes first. When it resumes, it looks at every lane and recurring task anew. */
void scheduler_suspend(struct scheduler *s);
/* There was an outage: tasks that were claimed ahead and are overdue are returned. */
void scheduler_return_overdue(struct scheduler *s, struct moment now);
bool scheduler_is_returning(const struct scheduler *s); /* some of these are not settled yet */
void scheduler_resume(struct scheduler *s);

/* Another node owns everything that is held here: nothing of it fires or is reported any more. Later claims are made
 * as `node`, after scheduler_begin and scheduler_resume. */
void scheduler_disown(struct scheduler *s, struct uuid node);

/* The partitions of this node; tasks of other partitions are claimed only if their node does not take them in time.
 * NULL: all. Every lane and recurring task is looked at anew. */
void scheduler_set_own(struct scheduler *s, const struct partitions *own);

/* The wall clock was set back: armed tasks wait anew, closed lanes are reopened, and the spawner visits all recurring
 * tasks. */
void scheduler_on_clock_set_back(struct scheduler *s, struct moment now);

/* Drain: no more claims or spawns. Each claimed task that has not fired is returned (`end`). Call it again until the
 * scheduler is idle. */
void scheduler_drain(struct scheduler *s);
bool scheduler_awaits(const struct scheduler *s);  /* an operation is in flight */
bool scheduler_is_idle(const struct scheduler *s); /* nothing is in flight, and nothing is armed */

struct scheduler_status {
    size_t armed, held, lanes, suspects;
    size_t placed;   /* of the held tasks: those that run, or are about to */
    size_t ahead;    /* of the held tasks: those that were claimed ahead and have no place yet */
    size_t ready;    /* of these: those that are due and wait for a place */
    size_t room;     /* how many tasks may run, or wait in a queue for a worker */
    bool falls_back; /* the fleet's queue is down, and due tasks run in this process */
    bool isolating;  /* a suspect is tried, and nothing else runs */
    int64_t window_ms, ahead_ms, last_claim_ms, next_claim_ms, next_spawn_ms;
    int64_t failing_since_ms;              /* wall: the store takes no claims; 0: it does, as far as is known */
    int64_t claim_failures;                /* since then */
    int64_t queue_down_since_ms;           /* wall: the fleet's queue takes no tasks; 0: it does */
    int64_t oldest_due_ms[CLASS_HIGH + 1]; /* the oldest due time of a class; INT64_MAX: nothing waits */
};
struct scheduler_status scheduler_status(const struct scheduler *s);
struct lanes *scheduler_lanes(struct scheduler *s); /* for explain and leasing */
/* Reports tasks that a claim has blocked, skipped or replaced. */
void scheduler_report_gated(struct scheduler *s, const struct op_claim *a);
