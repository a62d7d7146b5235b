#pragma once
/* node/scheduler/lanes_internal.h - what lanes*.c share.
 *
 *  - lanes.c: the known lanes, and which are due or closed
 *  - lanes_limits.c: how much may be claimed
 *  - lanes_rounds.c: what a claim asks for
 *  - lanes_ahead.c: claims seconds ahead, and the tasks of these that are due */
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
    size_t ahead;  /* claimed ahead and not held yet */
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
    size_t held, armed, returning, leased, ahead;
    bool waits;
    struct list lanes, lines;
    struct lane_entry *plain[PRIORITIES]; /* lanes without needs and host, by priority; NULL: not known */
    int cap;
    uint64_t round;
    char key[];
};

/* The lanes of a queue that are claimed as one, in the order of their tasks' priority and age: those of one class that
 * differ in nothing but priority. */
struct line_entry {
    struct queue_entry *queue;
    struct list of_queue;
    enum priority_class class_;
    const struct lane *like; /* the first of them that became known */
    struct fair_line fair;
    size_t held;              /* tasks with a place */
    bool waits;               /* it closes its lanes until one of them is settled */
    struct heap ready;        /* due tasks that were claimed ahead and wait for a place, by lane_order_ms */
    struct list with_ready;   /* in lanes.ready, while there are any */
    int cap;                  /* of lanes_line_allows */
    uint64_t cap_round;       /* in which `cap` was given */
    uint64_t round;           /* in which the next two were set */
    struct fair_ask *ask;     /* what it asks for */
    struct lane_entry *asked; /* its lanes in the round */
};

struct lane_entry {
    struct lane lane; /* its texts point into texts[] */
    struct queue_entry *queue;
    struct line_entry *line;
    struct list of_queue, of_bit;
    struct lane_entry *next_asked; /* of its line, in the round */
    enum lane_place place;
    struct heap_node at;   /* in lanes.due or lanes.closed */
    struct heap_node head; /* in lanes.heads */
    struct heap_node suspect;
    struct heap_node soon; /* in lanes.soon */
    int64_t next_due_ms, suspect_ms;
    int64_t own_ms;   /* the earliest due time of this node's partitions, as far as is known */
    int64_t defer_ms; /* nothing is claimed ahead before this time */
    int64_t look_ms;  /* CLOSED only because nothing may be claimed before this time; 0: closed by a gate */
    int64_t heard_ms; /* ASKED: the earliest due time that was told meanwhile, like the next */
    int64_t heard_suspect_ms;
    enum lane_gate gate;
    char texts[];
};

struct lanes {
    struct lanes_setup setup;
    struct fair *fair;
    struct map queues, tenants;
    struct limit_shares *shares; /* NULL: limits are this node's alone */
    struct lane_entry **v;
    size_t n, cap;
    struct list by_bit[UNBLOCKED_LANE_BITS];
    struct heap due[CLASSES], closed, suspects;
    struct heap heads[CLASSES];
    struct heap soon;  /* lanes by the time at which claiming ahead is worth it */
    struct list ready; /* lines with ready tasks */
    size_t ready_count;
    int64_t now_ms;   /* wall: of the latest call that told it */
    int64_t ready_ms; /* wall: when a ready task that a gate holds back may go; INT64_MAX: after an event */
    int64_t ahead_ms; /* how far ahead claims are made; 0: not at all */
    size_t open_due;  /* lanes of the open round that had something due */
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
struct allowance lanes_line_allows(const struct lanes *l, const struct line_entry *line);

void lanes_read_queue(struct lanes *l, struct queue_entry *q); /* its rules, if they have changed */
void lanes_read_tenant(struct lanes *l, struct tenant_entry *t);
/* The queue's rate, or the lower one with which it ramps up after a pause; 0: no rate. */
double lanes_rate(const struct queue_entry *q, int64_t now_ms, int64_t *ret_burst);

/* Something of the queue is due: asks for shares of its limits. Notes that the queue waits for them. */
void lanes_want_shares(struct lanes *l, struct queue_entry *q, struct moment now);
void lanes_wait_for_shares(struct lanes *l, struct queue_entry *q, enum lane_gate gate);
void lanes_share_changed(void *context, struct limit_share *e);
void lanes_read_limits(struct lanes *l); /* of every queue and tenant that shares its limits */

static inline enum priority_class lane_class(const struct lane_entry *e)
{
    return priority_class_of(e->lane.priority);
}

void lanes_heap_put(struct heap *h, struct heap_node *node, int64_t key); /* wherever it was before */
void lanes_heap_remove(struct heap *h, struct heap_node *node);           /* if it is there */

/* Whether claiming ahead is worth it for the lane, and from when on. */
void lane_plan_ahead(struct lanes *l, struct lane_entry *e);
void lane_defer_ahead(struct lane_entry *e, int64_t now_ms); /* for a while; lane_plan_ahead comes next */

/* What rounds of both kinds are made of. */
void lanes_round_make(struct lanes_round *r, size_t lanes, size_t lines);
void lanes_round_end(struct lanes_round *r);
int lanes_round_cap(struct lanes *l, struct lanes_round *r, uint64_t *round, int *cap, struct allowance a);
struct fair_ask *lanes_round_ask_of(struct lanes *l, struct lanes_round *r, struct line_entry *line);
void lanes_round_add_lane(struct lanes *l, struct lanes_round *r, struct lane_entry *e);
void lanes_round_make_lines(struct lanes *l, struct lanes_round *r); /* the claim asks lines with a quota left */
void lanes_remember_found(struct lanes *l, size_t n, struct lane_entry *e);

/* Moves the lane out of the heap that it is in. */
void lane_set_place(struct lanes *l, struct lane_entry *e, enum lane_place place);
void lane_open(struct lanes *l, struct lane_entry *e); /* DUE at its next_due_ms, or IDLE */
/* Until a time; INT64_MAX: until lane_open. */
void lane_close(struct lanes *l, struct lane_entry *e, enum lane_gate gate, int64_t until_ms);
void lane_suspect_due(struct lanes *l, struct lane_entry *e, int64_t due_ms);
void lanes_reopen_queue(struct lanes *l, struct queue_entry *q);
void lanes_reopen_tenant(struct lanes *l, struct tenant_entry *t);
void lanes_reopen_line(struct lanes *l, struct line_entry *line);
