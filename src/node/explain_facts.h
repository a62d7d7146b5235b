#pragma once
/* node/explain_facts.h - what the store knows about the tasks that are ahead of a task. For explain.h.
 *
 * Every count is bounded: it costs at most EXPLAIN_COUNT_MAX rows of an index, however many tasks there are. */
#include "core/sharing/slot.h"
#include "node/catalog_cache.h"
#include "port/store.h"

enum {
    EXPLAIN_COUNT_MAX = 10000, /* a count may stop here */
    EXPLAIN_LIST_MAX = 50,     /* so many tasks ahead are looked at one by one */
    EXPLAIN_CLAIM_MS = 1000,   /* a task may be claimed, and take a place, so long before it is due */
    EXPLAIN_NEAR_MS = 60000,   /* how far explain looks ahead: if a task is due later, calls of now are over by then */
};

/* A slot that the task needs (core/sharing/slot.h). */
struct explain_slot {
    struct slot_need need;
    bool has; /* the task holds it */
    struct slot_holders holders;
    size_t waiting;     /* tasks that wait for it and are due before this one */
    int64_t waiting_ms; /* overlap: scheduled_ms of the last of them; 0: none waits */
    int64_t earlier_ms; /* overlap: scheduled_ms of the last earlier occurrence that is to come; 0: none is */
    struct task holder; /* overlap: the first holder, if has_holder */
    bool has_holder;
    struct explain_facts *holder_facts; /* its; NULL: not read */
};

struct explain_facts {
    /* Tasks of its queue that a claim could take and that are due before it, or at the same time with a lower id. */
    int64_t queue_ahead;
    int64_t queue_overdue; /* those of them that are due by now */
    int64_t queue_twins;   /* others of its queue that are due at the same time, with a higher id */
    int64_t queue_soon;    /* others of its queue that are due at the same time or within EXPLAIN_CLAIM_MS after it */
    int64_t queue_mortal;  /* of queue_ahead, if the queue has a rate: those that may end without using it */
    /* SCHEDULED tasks of all queues and tenants, besides it, that are due by now, that may be claimed by its due
     * time, and that are due by the end of the time that explain looks ahead. */
    int64_t all_overdue, all_before, all_near;
    int64_t all_running; /* on all nodes, besides it; also those that are claimed ahead */
    struct explain_slot slots[SLOTS_MAX];
    size_t slot_count;
};

/* *ret must not be copied: it has texts that point into it. The rest lives in the arena. */
enum err explain_read(struct reader *r, const struct catalog_cache *catalog, const struct task *t, int64_t now_ms,
                      struct arena *a, struct explain_facts *ret, struct error *e) must_use;
