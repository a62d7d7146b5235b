#pragma once
/* node/scheduler/internal.h - what scheduler*.c share: scheduler.c has the doors, claim.c claims, retake.c
 * claims anew what a queue has forgotten, push.c fires. */
#include "base/map.h"
#include "core/time/wheel.h"
#include "node/scheduler/scheduler.h"

/* How long a suspect is tried alone after a crash; one that was lost again, twice as long, and so on. */
enum { SCHEDULER_ISOLATION_MS = 5000 };

/* One claim and what it brought; lives until the last of its tasks has been pushed. */
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
    size_t pushing;     /* of those: on their way to a queue that others share, or there without its word */
    bool pushed;        /* that queue has some of it; kept is false then */
    uint64_t epoch;     /* in which that was pushed first; 0: nobody knows */
    bool kept;          /* this process runs some of it: it is not handed over */
    int64_t begun_ms;   /* steady */
    struct partitions own;
    bool waits;    /* to be read back, at retry_at_ms; else it is with the writer */
    bool disowned; /* whatever it brings is others' */
};

/* A task of ours from its claim to its settlement, which outlives the claim's memory. */
/* On the wheel; on its way to the queue; there; in the queue of this process, because the other is down. */
enum held_where { HELD_ARMED, HELD_PUSHING, HELD_QUEUED, HELD_OWN };

struct held {
    struct fenced_id key;
    struct lane_entry *lane;
    enum held_where where;
    struct armed *armed; /* while it is ARMED or PUSHING */
    bool suspect, taken_back;
    char *replaced;             /* why it is not to run; NULL: it may */
    struct settle_facts *facts; /* in a fleet: to end it by, when its task is the queue's; without texts */
    struct list link;           /* QUEUED: among those, by the next */
    int64_t asked_ms;           /* steady: when it was pushed, or the store last asked about it */
};

struct armed {
    struct wheel_entry entry;
    const struct task *task;
    struct claim *claim;
    struct held *held; /* NULL: settled while it was pushed once more */
    bool pushing;      /* it counts among its claim's */
    bool unsure;       /* the queue may have it: it was pushed, and its answer lost */
    bool ends;         /* and can not be pushed again: its claim ends */
};

/* What a queue has forgotten, on its way to be ours. */
struct retaking {
    struct claim *claim; /* NULL: nothing is */
    struct scheduler_retake ask;
    int64_t retry_at_ms, retry_ms; /* of one that is to be read back; steady */
};

struct scheduler {
    struct scheduler_setup setup;
    struct uuid_gen ids;
    struct moment now;
    struct lanes *lanes;
    struct spawner *spawner;

    struct wheel wheel;
    struct map index; /* id → armed */
    struct map held;  /* id and fence → struct held */
    size_t suspects;  /* among those held */
    bool shares;      /* the partitions, with other nodes */
    struct partitions own;
    bool busy;            /* with them */
    int64_t help_from_ms; /* steady: with what others have left */
    bool begun, suspended, isolating;
    int64_t alone_until_ms; /* steady: the suspect that is tried, or, before it is there, whoever it will be */
    uint64_t generation;    /* of the book, as far as it was heeded */
    int64_t
        rules_come_ms; /* steady: until then nothing is claimed, other rules are on their way; INT64_MIN: none are */
    int64_t rules_came_ms; /* steady: when they were last awaited */

    struct list pushing;       /* batches in flight */
    struct pushing *free_push; /* for the next one */
    struct list queued; /* held ones that a queue has which others share: the one asked about longest ago first */
    size_t queued_count;
    uint64_t epoch;  /* of the queue, when it was last pushed to; 0: it was not */
    bool is_down;    /* the last push to it failed */
    int64_t down_ms; /* steady: since when */
    bool probe;      /* somebody has reached it again: push something there */
    size_t room;     /* how many may be held; 0: the slots */

    struct claim *claiming; /* NULL: none in flight */
    struct retaking retaking;
    int64_t retry_at_ms, polled_ms; /* steady */
    int64_t retry_ms, last_claim_ms;
    int64_t slowest_ms, window_ms;
    bool answered;             /* a claim was, since the last step: the next step measures how long it took */
    int64_t answered_begun_ms; /* steady: when that claim was made */
    bool answered_full;
    bool draining;
};

void claim_unref(struct claim *c);
void claim_read_back(struct claim *c, void (*done)(struct op *op)); /* when it is submitted anew: it waits */
void scheduler_arm(struct scheduler *s, struct claim *c, const struct tasks *tasks); /* what it brought */
void scheduler_refused(struct scheduler *s, const struct op *op); /* told on, if that is what it says */

/* Off the wheel for good: the queue's, or whoever's settles it. The last one of a claim hands it over. */
void scheduler_disarm(struct scheduler *s, struct armed *a);
/* Off the wheel, and its claim ends here. If that cannot be told now, it waits on the wheel to be told. */
void scheduler_end(struct scheduler *s, struct armed *a, enum outcome_kind kind);
void scheduler_settled_unpushed(struct scheduler *s, struct held *h); /* and is about to be freed */
void scheduler_fire(struct scheduler *s);                             /* pushes what is due */
bool scheduler_may_fire(const struct scheduler *s);
bool scheduler_falls_back(const struct scheduler *s); /* to this process: the queue is down */
void scheduler_forget_pushes(struct scheduler *s);    /* whatever comes of them is others' */

/* Reads a claim back, or makes one, if it is time for that. */
void scheduler_claim(struct scheduler *s);
bool scheduler_may_claim(struct scheduler *s);
enum lanes_wanted scheduler_lanes_wanted(const struct scheduler *s);
void scheduler_measure_claim(struct scheduler *s); /* after it was answered: now the time is known */

int64_t scheduler_retake_step(struct scheduler *s); /* when to call again */
void scheduler_disown_retake(struct scheduler *s);

struct held *scheduler_find_held(const struct scheduler *s, struct uuid id, int64_t fence);
void scheduler_held_free(struct scheduler *s, struct held *h);
struct held *scheduler_remove_held(struct scheduler *s, struct uuid id, int64_t fence);
