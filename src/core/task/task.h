#pragma once
/* core/task/task.h - a task: what a user asked for, and its current state.
 *
 * Everything that fires is a task with a due time. Four counters are never mixed:
 * - `version` counts the users' edits (the ETag);
 * - `fence` counts claims and only rises;
 * - `cursor_ms` moves with spawning;
 * - `attempts` counts outcomes.
 *
 * The legal state transitions are one table (task_may_become); a test compares docs/STATE_MACHINE.md with it. */
#include "base/arena.h"
#include "base/uuid.h"
#include "core/task/late.h"
#include "core/time/calendar.h"
#include "core/time/recurrence.h"

#define TASK_STATE_MAP(X)                                                                                              \
    X(SCHEDULED) X(BLOCKED) X(PAUSED) X(RUNNING) X(COMPLETED) X(FAILED) X(CANCELLED) X(SKIPPED) X(EXPIRED)
enum task_state {
#define X(name) TASK_##name,
    TASK_STATE_MAP(X)
#undef X
};

/* A RECURRING task is never dispatched itself: it spawns OCCURRENCEs, which are dispatched. */
enum task_kind { TASK_ONE_TIME, TASK_RECURRING, TASK_OCCURRENCE };
enum target_kind { TARGET_HTTP, TARGET_MESSAGE, TARGET_COMMAND, TARGET_WORKER, TARGET_WORKFLOW, TARGET_NOOP };
enum { TARGET_KINDS = TARGET_NOOP + 1 };
enum delivery { DELIVER_AT_LEAST_ONCE, DELIVER_AT_MOST_ONCE };
enum catch_up { CATCH_UP_ONE, CATCH_UP_ALL, CATCH_UP_NONE };
enum overlap { OVERLAP_SKIP, OVERLAP_ALLOW, OVERLAP_QUEUE_ONE, OVERLAP_QUEUE_ALL, OVERLAP_CANCEL_PREVIOUS };

/* Priority classes, lowest first. */
enum priority_class { CLASS_LOW, CLASS_NORMAL, CLASS_HIGH };
enum { CLASSES = CLASS_HIGH + 1 };
enum { PRIORITY_MIN = 0, PRIORITY_DEFAULT = 5, PRIORITY_MAX = 9, PRIORITIES = PRIORITY_MAX + 1 };
enum priority_class priority_class_of(int priority);
extern const char *const priority_class_names[CLASSES]; /* "low" … */

/* A task gains one priority level for every AGEING_MS that it waits, so that none waits for ever. */
enum { AGEING_MS = 600000 };

/* A lane is the unit of claiming: tasks of one tenant, queue and priority that the same gates hold back, ordered by due
 * time. Tasks that ask different things of a worker are in different lanes, so that those which no worker can take are
 * in nobody's way; so are tasks that were put aside for the sake of their host (struct task, `aside`). */
struct lane {
    int32_t tenant;
    struct str queue;
    int priority;
    struct str requires; /* as in struct task, like the next two */
    int64_t cpu_milli, memory_mb;
    struct str host; /* of tasks that were put aside; empty: the others */
    bool late;       /* its tasks are claimed only when they are due, see task_is_late */
};

/* What creating a second task with the same dedupe_key does within the window of the first: return the first, or move
 * it to the new time. */
enum dedupe { DEDUPE_RETURN, DEDUPE_RESCHEDULE, DEDUPE_REPLACE };

enum backoff { BACKOFF_EXPONENTIAL, BACKOFF_FIXED };
enum jitter { JITTER_FULL, JITTER_NONE };

struct retry_policy {
    int max_attempts; /* 1: no retry */
    enum backoff backoff;
    int64_t base_delay_ms, max_delay_ms;
    enum jitter jitter;
    struct str rules; /* JSON text of retry.rules, or empty */
};
#define RETRY_DEFAULT ((struct retry_policy){ .max_attempts = 5, .base_delay_ms = 1000, .max_delay_ms = 3600000 })

/* When a RECURRING task fires, as its user wrote it; schedule_rule turns it into a recurrence. All zero in other tasks,
 * and not stored for them. */
struct schedule {
    struct str cron; /* empty: interval_ms applies */
    int64_t interval_ms;
    struct str time_zone;
    struct str calendar;
    enum calendar_policy calendar_policy;
    enum dst_gap gap;
    enum dst_repeat repeat;
    int64_t start_ms; /* 0: from the task's creation */
    int64_t end_ms;   /* INT64_MAX: no end */
    int64_t max_runs; /* 0: no limit */
    int64_t spread_ms;
    enum catch_up catch_up;
    int64_t catch_up_window_ms;
    enum overlap overlap;
};

/* A task that was lost this often is a suspect: it may be the cause of its worker's death. Suspects run one at a
 * time. */
enum { SUSPECT_LOSSES = 2 };

/* How a task depends on others: bits of struct task, `links`. */
enum task_link {
    TASK_HAS_PARENTS = 1,  /* it was given tasks to wait for */
    TASK_HAS_CHILDREN = 2, /* others were told to wait for it */
    TASK_WAITS = 4,        /* its join is not decided: not final, BLOCKED or PAUSED */
    /* SKIPPED, because a task that it depends on failed. Of a map: more of its items have failed than may. */
    TASK_BROKEN = 8,
    /* Of runs and their steps (port/store/runs.h): */
    TASK_OPEN = 16,          /* RUNNING, under no claim: it waits for the tasks that it was opened with */
    TASK_OPENED = 32,        /* it was opened: it is control work from now on */
    TASK_PLANNED = 64,       /* what it calls comes from the definition of its run, after its claim */
    TASK_KEEPS_OUTPUT = 128, /* its output is kept whole */
    TASK_AWAITS = 256,       /* it waits for a signal */
    TASK_BY_HAND = 512,      /* a user decided over it: its join did not */
    TASK_AGAIN = 1024,       /* a run that was opened: the next claim retries its steps */
    TASK_BEGUN = 2048,       /* the first page of its opening with `again` is stored, the last one is not */
    TASK_SIGNALLED = 4096,   /* an await: a signal came after its claim, so its plan may not know it */
    TASK_NEW_INPUT = 8192,   /* of a change by a user, never stored: a run that has not opened does something else */
    TASK_LINKS = 16383,
};

/* Of a run that was opened, when it is retried. */
static inline int task_links_again(int links)
{
    return (links | TASK_AGAIN) & ~TASK_BEGUN;
}

/* A task under one of its claims, which the fence identifies. */
struct fenced_id {
    struct uuid id;
    int64_t fence;
};

/* As a key of maps. */
static inline struct str fenced_id_key(const struct fenced_id *id)
{
    _Static_assert(sizeof *id == sizeof id->id + sizeof id->fence, "no gap in what is hashed");
    return (struct str){ (const char *)id, sizeof *id };
}

struct task {
    struct uuid id;
    int32_t tenant;
    struct str tenant_name; /* of a task that was taken from a queue; else empty. Not stored */
    struct str signing;     /* likewise: the key that signs its call, as JSON text (core/target/signing_key.h) */
    enum task_kind kind;
    enum task_state state;
    struct uuid parent; /* of an OCCURRENCE; else nil */
    struct uuid run;    /* of a step: the task that is its run; else nil */
    int64_t place;      /* of a step: where in its run (core/flow/place.h); else 0 */

    int64_t due_ms;          /* when it fires, first attempt or retry; never set before now */
    int64_t scheduled_ms;    /* the requested time: run_at, or the occurrence's time */
    int64_t awaited_ms;      /* the moment that its user waits for, if that is not due_ms; else 0 (task_awaited_ms) */
    enum late_cause late_by; /* what has put it off since that moment, as far as is known */
    int64_t version, fence;
    int attempts;      /* outcomes so far */
    int losses;        /* claims lost after the task may have fired */
    struct uuid claim; /* while RUNNING: the claim that holds it */

    int priority;
    struct str queue, name, task_type;
    enum delivery delivery;
    int64_t timeout_ms;         /* of one attempt; 0: no limit, WORKER only */
    int64_t expires_after_ms;   /* 0: never */
    struct str concurrency_key; /* empty: none (core/sharing/slot.h) */
    int concurrency_limit;      /* how many tasks with that key may run at once; 0: no key */
    /* Of an OCCURRENCE: its recurring task's policy, but ALLOW if it was run by hand. Of other tasks: SKIP. */
    enum overlap overlap;
    struct str waits_for;                         /* BLOCKED: the slot key that it waits for; else empty */
    struct str dedupe_key;                        /* empty: none */
    int64_t dedupe_window_ms, dedupe_max_wait_ms; /* max_wait: creates move it no further than that; 0: no bound */
    enum dedupe dedupe;
    struct retry_policy retry;
    struct str requires;          /* labels that a worker must have, sorted, separated by commas; empty: none */
    int64_t cpu_milli, memory_mb; /* the worker capacity that it declares; 0: not declared */
    /* The host that it calls, if it was put aside because that host takes no more calls: then it waits in a lane of
     * that host, where it is in no other task's way. Else empty. */
    struct str aside;
    bool recalled; /* a user is about to change it: it is not claimed again before it is due */
    int links;     /* enum task_link; the store keeps all but TASK_WAITS as they are */
    enum target_kind target;
    struct str target_config; /* JSON text as received; empty: {} */
    struct str payload;       /* JSON text as received; empty: none */
    struct str extra;         /* JSON object text of rare fields (task_extra); empty: none */
    struct str trace;         /* whose call made it (core/task/trace.h); empty: not known */

    struct schedule schedule; /* RECURRING only, like the next five */
    int64_t cursor_ms;        /* the next occurrence to spawn */
    /* Of an OCCURRENCE, runs_count is 1 if it counts among its task's runs, and 0 if it was run by hand or ended
     * without a start; skipped_count is 0. */
    int64_t runs_count, skipped_count;
    int64_t unstarted_count; /* of runs_count: runs that have not started. Not stored: reader_unstarted sets it */
    int64_t last_run_ms;     /* 0: never */

    int64_t created_ms, updated_ms;
    int64_t started_ms, completed_ms; /* of the latest attempt, of the final state; 0: not yet */
    struct str last_error;
    struct str cause;    /* FAILED: the fingerprint of the failure (core/task/fingerprint.h), to group by; else empty */
    int64_t resolved_ms; /* FAILED: when a user removed it from the dead letters; 0: not removed */
    /* JSON object text. FAILED: who removed it, and how. PAUSED: who paused it, why and until when (core/task/pause.h).
     * Empty: none, not known. */
    struct str resolution;
    bool deleted; /* a user removed it from the lists; its executions stay */
};

struct tasks {
    struct task *v;
    size_t n;
};

/* One attempt, stored permanently. It holds enough of the task to be read alone. CANCELLED: a user ended it. */
enum execution_status { EXECUTION_COMPLETED, EXECUTION_FAILED, EXECUTION_LOST, EXECUTION_CANCELLED };

struct execution {
    struct uuid id;
    int32_t tenant;
    struct uuid task;       /* the one-time task, or the recurring task */
    struct uuid occurrence; /* nil for a one-time task */
    int64_t scheduled_ms;
    int64_t due_ms;                   /* the moment that the user waited for: its delay counts from here */
    int64_t started_us, completed_us; /* since 1970 */
    int attempt;                      /* 1 for the first */
    int64_t fence;
    enum execution_status status;
    int http_status; /* 0: none */
    struct str worker, error, output, trace_id;
    enum late_cause late_by; /* NONE: it was on time */
};

struct executions {
    struct execution *v;
    size_t n;
};

const char *task_state_name(enum task_state s);
/* also accepts PENDING, IN_PROGRESS, SUCCESS, DEAD_LETTERED */
bool task_state_parse(struct str text, enum task_state *ret);
/* A state as a filter names it, to a set with bit s for each state. ACTIVE: neither paused nor final. */
bool task_states_parse(struct str text, unsigned *ret);
bool task_may_become(enum task_state from, enum task_state to);
bool task_may_begin_again(enum task_state from, enum task_state to); /* by a retry of a run: the run, its steps */
bool task_is_final(enum task_state s);
/* An attempt of it has begun, or may have. A retry by a user resets the attempts, not started_ms. */
static inline bool task_has_fired(const struct task *t)
{
    return t->attempts || t->losses || t->started_ms;
}
/* BLOCKED because of the tasks that it depends on, not for a slot. */
bool task_waits_for_parents(const struct task *t);

/* The state that users see: a RUNNING task is shown as SCHEDULED until its due time, since it was only claimed
 * early. A run that is open is RUNNING, and a step that awaits a signal BLOCKED, whatever moves them in between. A step
 * that is a run is SCHEDULED until its next attempt. */
enum task_state task_shown_state(const struct task *t, int64_t now_ms);
bool task_awaits_attempt(const struct task *t, int64_t now_ms); /* a run that has failed, until its next attempt */

/* Whether an OCCURRENCE counts among the runs of its task although it has not started. */
bool task_is_unstarted(const struct task *t, int64_t now_ms);
/* Since when a RUNNING task is held by the one who runs it, as far as its row says: its node may start it a moment
 * later. Of an open run: since its start. */
int64_t task_running_since_ms(const struct task *t);
/* Of a leased task: when the lease began, which is its start, and what made it late if it was. */
int64_t task_leased_ms(const struct task *t);
enum late_cause task_lease_late_cause(const struct task *t);
/* Whether an OCCURRENCE was cancelled, or expired, before its start although it counts among the runs of its task. */
bool task_is_called_off(const struct task *t);

extern const char *const target_kind_names[TARGET_KINDS + 1];   /* "HTTP_CALLBACK" …; NULL at the end */
extern const char *const target_kind_choices[TARGET_KINDS + 1]; /* those that a user may give; "" for others */
const char *target_kind_name(enum target_kind k);
bool task_is_control(const struct task *t); /* it is in the lane of its tenant's control work */
/* An external worker leases it. A step of this target is planned first. */
bool task_is_leased(const struct task *t);
/* Its texts are borrowed from the task. Control work that goes on (TASK_OPENED, TASK_AWAITS, a leased step that is to
 * be planned) is in a lane without a queue, which no rule of a queue holds. External workers lease tasks by queue: a
 * WORKER task's lane says nothing about needs and hosts. */
struct lane task_lane(const struct task *t);
bool lane_eq(const struct lane *a, const struct lane *b);
/* Orders the tasks of lanes that share a class: the earliest is next. The higher a lane's priority, the earlier its
 * tasks, by AGEING_MS for each level. */
int64_t lane_order_ms(const struct lane *lane, int64_t due_ms);
uint64_t lane_bit(struct lane lane); /* one of 64 bits: a word holds a set of lanes; two lanes may share a bit */
bool task_is_suspect(const struct task *t);
/* Whether the task is not to be claimed seconds ahead of its due time: it runs at most once, and would be given up if
 * its node died; or a slot of its concurrency key would stay idle meanwhile; or a user is about to change it. */
bool task_is_late(const struct task *t);
/* A user has changed it: it waits in its ordinary lane again. */
void task_forget_delays(struct task *t);

/* The moment that the user waits for: the requested time of a first attempt, the due time of a retry. due_ms is later
 * if the task was put off. */
int64_t task_awaited_ms(const struct task *t);
/* Moves due_ms by a cause; the user goes on waiting for the same moment. Less than LATE_MS has no cause. */
void task_put_off(struct task *t, int64_t due_ms, enum late_cause by);
/* Sets a new time that the user asks for. */
void task_set_due(struct task *t, int64_t due_ms);

/* When the task is too late to be useful: scheduled_ms plus expires_after_ms; INT64_MAX: never. A manual retry moves
 * scheduled_ms of a task that can expire. */
int64_t task_expires_ms(const struct task *t);
/* Whether it waits for its start, and becomes EXPIRED at that time if nothing starts it before: SCHEDULED, or BLOCKED
 * for a slot. A task that waits for its parents cannot: its expiry counts from its release. Nor can one that is paused,
 * a run that was opened, and a step that awaits a signal. */
bool task_may_expire(const struct task *t);

/* A member of `extra` as JSON text; empty: it is not there. TASK_EXPECT is its first one. Occurrences inherit all. */
#define TASK_EXPECT   "expect"   /* core/notify/check.h; without effect in occurrences and steps */
#define TASK_METADATA "metadata" /* the user's own */
#define TASK_NOTIFY   "notify"   /* array: which notification settings are told of it (core/notify/setting.h) */
/* Of a run that takes over steps of another: that one, and the step from which on it does not. They stay with it, also
 * if it is edited or retried before it is opened: else it would repeat all steps. */
#define TASK_RERUN_OF   "rerun_of"
#define TASK_RERUN_FROM "from"
struct str task_extra(const struct task *t, const char *name);

/* A deep copy into the arena; false if the arena is full. */
bool task_copy(struct arena *a, const struct task *t, struct task *ret) must_use;

/* For callers that keep each task in one allocation: the bytes that its texts take, and a deep copy with its texts at
 * `at`. */
size_t task_text_size(const struct task *t);
struct task task_pack(const struct task *t, char *at);

/* Makes the recurrence of a schedule. zone and calendar (may be NULL) must outlive it. */
enum err schedule_rule(const struct schedule *s, struct uuid task, const struct tz *zone,
                       const struct calendar *calendar, int64_t created_ms, struct recurrence *ret,
                       struct error *e) must_use;

/* By how much spread_ms delays each occurrence of a task: an occurrence is due at its scheduled_ms plus this. */
int64_t schedule_spread(const struct schedule *s, struct uuid task);

/* An occurrence's id is derived: every node that spawns it gets the same id. */
struct uuid occurrence_id(struct uuid parent, int64_t scheduled_ms);
