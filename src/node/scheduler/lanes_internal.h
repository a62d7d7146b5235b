#pragma once
/* node/scheduler/lanes_internal.h - what lanes*.c share.
 *
 *  - lanes.c: the known lanes, and which are due or closed
 *  - lanes_limits.c: how much may be claimed
 *  - lanes_hosts.c: hosts whose circuit breaker is open
 *  - lanes_pools.c: the workers that can run a lane's tasks, and their places
 *  - lanes_rounds.c: what a claim asks for
 *  - lanes_ahead.c: claims seconds ahead, and the tasks of these that are due
 *  - lanes_forecast.c: what explain asks about times to come */
#include "base/heap.h"
#include "base/map.h"
#include "core/sharing/bucket.h"
#include "core/sharing/class_slots.h"
#include "node/scheduler/lanes.h"
#include "node/scheduler/limit_shares.h"

enum { UNBLOCKED_LANE_BITS = 64 };

enum lane_place { LANE_IDLE, LANE_DUE, LANE_CLOSED, LANE_ASKED };

/* The workers that can run the tasks of some lanes. Without a fleet there is one pool: this node. */
struct pool_entry {
    struct list link;         /* in lanes.pools */
    int64_t number;           /* in the tree of lanes.fair */
    bool nobody;              /* the pool of lanes whose tasks no worker can run */
    bool queues;              /* some of its places are in the fleet's queue, before a worker */
    size_t slots, workers;    /* of a fleet's workers; else of this node, and 0 */
    size_t places;            /* how many tasks may be held */
    int64_t full_ms[CLASSES]; /* wall: when a class had no place left for the last time; 0: never */
    size_t held[CLASSES];     /* tasks with a place */
    size_t queued[CLASSES];   /* of these: the shared queue has them */
    struct heap due[CLASSES];
    size_t lanes, ready; /* how many lanes; ready tasks of them */
    size_t open_due;     /* lanes of the open round that had something due */
    size_t ended;        /* tasks that left their place in this interval of lanes.rates_ms */
    size_t waiting;      /* how many tasks may wait in the queue */
    int cap;             /* the first of its caps */
    uint64_t round;      /* in which `cap` was given */
    struct lane needs;   /* of its lanes: cpu_milli, memory_mb */
    size_t group_count;  /* the groups that it consists of */
    uint32_t groups[];   /* their numbers, ascending */
};

/* A tenant in a pool: it does not get all places. */
struct pool_tenant {
    struct pool_entry *pool;
    struct tenant_entry *tenant;
    size_t lines, held;
    int cap;
    uint64_t round;
    struct fair_key key;
};

/* What the tasks of some lanes lack. */
struct missing_entry {
    size_t lanes; /* that have something due */
    struct pool_shortage shortage;
};

/* A host of a tenant for which tasks were put aside; "*": the tenant's own breaker. */
struct host_entry {
    struct list lines;
    size_t held;      /* tasks of these with a place */
    bool open;        /* its breaker is: nothing is claimed before until_ms, and then one task at a time */
    int64_t until_ms; /* wall */
    int cap;
    uint64_t cap_round; /* in which `cap` was given */
    size_t key_n;
    char key[]; /* the tenant's number and the name */
};

struct tenant_entry {
    int32_t number;
    char *name;          /* as the filters of workers name it; "": not known yet */
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

/* The lanes of a queue that are claimed as one, in the order of their tasks' priority and age: those of one class and
 * pool that differ in nothing but priority. */
struct line_entry {
    struct queue_entry *queue;
    struct pool_entry *pool;
    struct pool_tenant *tenant;
    struct host_entry *host; /* NULL: its tasks were not put aside */
    struct list of_queue, of_host, lanes;
    enum priority_class class_;
    const struct lane *like; /* the first of them that became known */
    struct fair_line fair;
    size_t held;              /* tasks with a place */
    bool waits;               /* it closes its lanes until one of them is settled */
    int64_t busy_until_ms;    /* wall: a task was put aside into it; until then none is claimed */
    size_t ready;             /* due tasks of its lanes that were claimed ahead and wait for a place */
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
    struct list of_queue, of_bit, of_line;
    struct lane_entry *next_asked; /* of its line, in the round */
    size_t held, queued;           /* as in struct pool_entry */
    struct heap ready;             /* due tasks that were claimed ahead and wait for a place, by lane_order_ms */
    struct missing_entry *missing; /* what its tasks lack, if that was told; else NULL */
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
    int64_t closed_ms;        /* wall: since when a gate closes it, if one does */
    enum lane_gate last_gate; /* that closed it */
    int64_t last_open_ms;     /* wall: when that gate opened */
    enum lane_gate long_gate; /* of several in a row, the one that closed it for longest, like the next two */
    int64_t long_from_ms, long_until_ms;
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
    struct heap closed, suspects;
    struct heap heads[CLASSES];
    struct list pools;
    struct pool_entry *nobody, *control;
    struct map pool_tenants;      /* by pool and tenant */
    struct map missing;           /* by pool_shortage.missing */
    struct map hosts;             /* by tenant and host */
    size_t open_hosts;            /* how many of these have an open breaker */
    bool fleet;                   /* the next members say who runs tasks; else this node does, all of them */
    struct worker_groups workers; /* of the fleet, or this node alone while it falls back; sorted */
    uint32_t *numbers;            /* of these groups: a group keeps its number while it is there */
    uint32_t last_number;
    int64_t last_pool;
    struct arena workers_arena;
    struct lanes_workers terms; /* as they were told last */
    size_t parked;              /* tasks with a place in this process that use no slot */
    bool regroup;               /* the workers have changed while a round was open */
    int64_t rates_ms;           /* steady: when pool_entry.ended began */
    int64_t look_ms;            /* wall: when to look whether tasks still wait for a worker; INT64_MAX: none do */
    size_t look_at;             /* in v: where the next look begins */
    struct heap soon;           /* lanes by the time at which claiming ahead is worth it */
    struct list ready;          /* lines with ready tasks */
    size_t ready_count;
    int64_t now_ms;   /* wall: of the latest call that told it */
    int64_t ready_ms; /* wall: when a ready task that a gate holds back may go; INT64_MAX: after an event */
    int64_t ahead_ms; /* how far ahead claims are made; 0: not at all */
    bool open;        /* a round is */
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
struct allowance lanes_share_allows(const struct lanes *l, const struct pool_tenant *t);
/* Its pool, its host. */
struct allowance lanes_line_allows(const struct lanes *l, const struct line_entry *line, int64_t now_ms);
struct allowance lanes_tenant_allows_line(struct lanes *l, const struct line_entry *line);
struct allowance lanes_nobody_allows(struct lanes *l, const struct line_entry *line, int64_t now_ms);

void lanes_read_queue(struct lanes *l, struct queue_entry *q); /* its rules, if they have changed */
void lanes_read_tenant(struct lanes *l, struct tenant_entry *t);
/* The queue's rate, or the lower one with which it ramps up after a pause; 0: no rate. */
double lanes_rate(const struct queue_entry *q, int64_t now_ms, int64_t *ret_burst);
struct bucket *lanes_bucket(struct queue_entry *q, int64_t now_ms); /* NULL: no rate */

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

/* The caps of a line. The first are parts of the room: the places of its pool, less those that lower classes leave to
 * higher ones; what the line can use. */
enum { ASK_POOL, ASK_POOL_NOT_HIGH, ASK_POOL_LOW, ASK_OWN, ASK_QUEUE, ASK_TENANT, ASK_SHARE, ASK_LINE };
void lanes_round_make(struct lanes_round *r, size_t lanes, size_t lines);
void lanes_round_end(struct lanes_round *r);
int lanes_round_cap(struct lanes *l, struct lanes_round *r, uint64_t *round, int *cap, struct allowance a, size_t room);
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

/* The line of a lane, which it joins or leaves with all that is held or ready of it. */
void lane_join_line(struct lanes *l, struct lane_entry *e, struct pool_entry *pool);
void lane_leave_line(struct lanes *l, struct lane_entry *e);

struct host_entry *lanes_add_host(struct lanes *l, int32_t tenant, struct str host);
struct host_entry *lanes_find_host(const struct lanes *l, int32_t tenant, struct str host); /* NULL: none */
void lanes_hosts_release(struct lanes *l);
/* A task of the host has left its place: if it was a trial, the next one may come. */
void lanes_host_settled(struct lanes *l, struct host_entry *h);
static inline bool lane_waits_for_breaker(const struct lane_entry *e)
{
    return e->line->host && e->line->host->open;
}

void lanes_pools_init(struct lanes *l);
void lanes_pools_release(struct lanes *l);
struct pool_entry *lanes_pool_for(struct lanes *l, const struct lane_entry *e);
struct pool_tenant *lanes_pool_tenant(struct lanes *l, struct pool_entry *pool, struct tenant_entry *t);
void lanes_pool_tenant_unref(struct lanes *l, struct pool_tenant *t);
int64_t lanes_tenant_share(const struct lanes *l, const struct pool_tenant *t); /* INT64_MAX: all places */
/* How many tasks of each class may get a place; a lower class has no more room than a higher one. */
void lanes_pool_room(const struct lanes *l, const struct pool_entry *pool, size_t ret[CLASSES]);
bool lanes_pool_has_room(const struct lanes *l, const struct pool_entry *pool); /* it has lanes, and a place */
/* A round of lanes that no worker serves takes nothing: it asks whether something is due there, so that only lanes with
 * something due are said to lack a worker. */
bool lanes_is_to_look(const struct lanes *l, int64_t now_ms);
bool lanes_ask_missing(struct lanes *l, int64_t now_ms, struct lanes_round *ret);
void lanes_missing_answered(struct lanes *l, struct lane_entry *e, int64_t until_ms);
void lanes_round_is_over(struct lanes *l);
void lanes_regroup_if_due(struct lanes *l); /* the workers have changed, and no round is open */
void lanes_measure_rates(struct lanes *l, int64_t steady_ms);
