#pragma once
/* node/scheduler/lanes_internal.h - what lanes*.c share.
 *
 *  - lanes.c: the known lanes, and which are due or closed
 *  - lanes_limits.c: how much may be claimed
 *  - lanes_rounds.c: what a claim asks for */
#include "base/heap.h"
#include "base/map.h"
#include "core/sharing/bucket.h"
#include "node/scheduler/lanes.h"
#include "node/scheduler/limit_shares.h"

enum { UNBLOCKED_LANE_BITS = 64 };

enum lane_place { LANE_IDLE, LANE_DUE, LANE_CLOSED, LANE_ASKED };

struct tenant_entry {
    int32_t number;
    uint64_t generation; /* of the catalog cache, when the rules were read; 0: never */
    struct tenant_rules rules;
    size_t held, returning;
    size_t leased; /* tasks that external workers have, if only this node counts them */
    bool waits;
    struct limit_share *share; /* of max_running; NULL: not limited, or not shared */
    struct list queues;
    int cap;
    uint64_t round; /* in which `cap` was given */
};

struct queue_entry {
    struct tenant_entry *tenant;
    struct list of_tenant;
    struct str name; /* points into key */
    uint64_t generation;
    struct queue_rules rules;
    struct bucket bucket;
    bool has_bucket;
    struct limit_share *share; /* replaces the bucket and the count of places; NULL: not limited yet, or not shared */
    size_t held, armed, returning, leased;
    bool waits;
    struct list lanes;
    int cap;
    uint64_t round;
    char key[];
};

struct lane_entry {
    struct lane lane;
    struct queue_entry *queue;
    struct list of_queue, of_bit;
    struct fair_lane fair;
    enum lane_place place;
    struct heap_node at;   /* in lanes.due or lanes.closed */
    struct heap_node head; /* in lanes.heads */
    struct heap_node suspect;
    int64_t next_due_ms, suspect_ms;
    int64_t look_ms;  /* CLOSED only because nothing may be claimed before this time; 0: closed by a gate */
    int64_t heard_ms; /* ASKED: the earliest due time that was told meanwhile, like the next */
    int64_t heard_suspect_ms;
    enum lane_gate gate;
};

struct lanes {
    struct lanes_setup setup;
    struct fair *fair;
    struct map queues, tenants;
    struct limit_shares *shares; /* NULL: limits are this node's alone */
    struct lane_entry **v;
    size_t n, cap;
    struct list by_bit[UNBLOCKED_LANE_BITS];
    struct heap due, closed, suspects;
    struct heap heads[CLASS_HIGH + 1];
    int64_t window_ms;
    int64_t wanted_ms; /* wall: when shares were last asked for */
    uint64_t generation, round;
    bool asked_suspects;       /* by the last round */
    bool suspects_open;        /* a round of suspects is open */
    struct lane_entry **found; /* for one call */
    size_t found_cap;
};

struct allowance {
    int64_t n;             /* INT64_MAX: no limit */
    struct lane_hold hold; /* if n is 0 */
};
#define NO_LIMIT ((struct allowance){ .n = INT64_MAX })

struct allowance lanes_queue_allows(struct lanes *l, struct queue_entry *q, int64_t now_ms);
struct allowance lanes_tenant_allows(struct lanes *l, struct tenant_entry *t);

/* Something of the lane is due: asks for shares of its limits. Notes that the lane waits for them. */
void lanes_want_shares(struct lanes *l, struct lane_entry *e, struct moment now);
void lanes_wait_for_shares(struct lanes *l, struct lane_entry *e, enum lane_gate gate);
void lanes_share_changed(void *context, struct limit_share *e);
void lanes_read_limits(struct lanes *l); /* of every queue and tenant that shares its limits */

/* Moves the lane out of the heap that it is in. */
void lane_set_place(struct lanes *l, struct lane_entry *e, enum lane_place place);
void lane_open(struct lanes *l, struct lane_entry *e); /* DUE at its next_due_ms, or IDLE */
/* Until a time; INT64_MAX: until lane_open. */
void lane_close(struct lanes *l, struct lane_entry *e, enum lane_gate gate, int64_t until_ms);
void lane_suspect_due(struct lanes *l, struct lane_entry *e, int64_t due_ms);
void lanes_reopen_queue(struct lanes *l, struct queue_entry *q);
void lanes_reopen_tenant(struct lanes *l, struct tenant_entry *t);
