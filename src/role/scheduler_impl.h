#pragma once
/* role/scheduler_impl.h - what scheduler*.c share: scheduler.c fires and has the doors, scheduler_claim.c claims. */
#include "base/map.h"
#include "core/wheel.h"
#include "role/scheduler.h"

/* How long a suspect is tried alone after a crash; one that was lost again, twice as long, and so on. */
enum { SCHEDULER_ISOLATION_MS = 5000 };

/* One claim and what it brought; lives until the last of its tasks has been pushed. */
struct claim {
    union {
        struct op op;
        struct op_claim ask;
        struct op_claimed readback;
    };
    struct scheduler *scheduler;
    struct armed *armed;
    struct lanes_round round;
    size_t references;
    int64_t begun_ms;
    struct partitions own;
    bool waits;    /* to be read back, at retry_at_ms; else it is with the writer */
    bool disowned; /* whatever it brings is others' */
};

/* A task of ours from its claim to its settlement, which outlives the claim's memory. */
struct held_key {
    struct uuid id;
    int64_t fence;
};

struct held {
    struct held_key key;
    struct lane_entry *lane;
    bool suspect, taken_back;
    char *replaced; /* why it is not to run; NULL: it may */
};

struct armed {
    struct wheel_entry entry;
    const struct task *task;
    struct claim *claim;
    struct held *held;
};

struct scheduler {
    struct scheduler_setup setup;
    struct uuid_gen ids;
    int64_t now_ms;
    struct lanes *lanes;
    struct spawner *spawner;

    struct wheel wheel;
    struct map index; /* id → armed */
    struct map held;  /* id and fence → struct held */
    size_t suspects;  /* among those held */
    bool shares;      /* the partitions, with other nodes */
    struct partitions own;
    bool busy; /* with them */
    bool begun, held_back, isolating;
    int64_t alone_until_ms; /* the suspect that is tried, or, before it is there, whoever it will be */
    uint64_t generation;    /* of the book, as far as it was heeded */
    int64_t rules_come_ms;  /* until then nothing is claimed: other rules are on their way; 0: none are */
    int64_t rules_came_ms;  /* when they were last awaited */

    struct claim *claiming; /* NULL: none in flight */
    int64_t retry_at_ms, retry_ms, last_claim_ms, polled_ms;
    int64_t slowest_ms, window_ms;
    int64_t
        answered_begun_ms; /* of a claim that was answered since the last step, which knows what time it is; else 0 */
    bool answered_full;
    bool draining;
};

void claim_unref(struct claim *c);

/* Reads a claim back, or makes one, if it is time for that. */
void scheduler_claim(struct scheduler *s);
bool scheduler_may_claim(struct scheduler *s);
enum lanes_wish scheduler_wish(const struct scheduler *s);
void scheduler_measure_claim(struct scheduler *s); /* after it was answered: now the time is known */

struct held *scheduler_find_held(const struct scheduler *s, struct uuid id, int64_t fence);
struct held *scheduler_remove_held(struct scheduler *s, struct uuid id, int64_t fence);
