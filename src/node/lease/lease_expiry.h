#pragma once
/* node/lease/lease_expiry.h - settles tasks whose lease ran out: lost, or cancelled if their user asked for that. And
 * ends tasks of any target that expired before they started.
 *
 * A source of node/reaper/reaper.h. The leader asks the store every LEASE_EXPIRY_ASK_MS, when the next lease ends, and
 * when the next task expires. */
#include "node/reaper/reaper.h"

enum { LEASE_EXPIRY_ASK_MS = 1000, LEASE_EXPIRY_BATCH = 500, LEASE_EXPIRY_WAITING = 100 };

struct lease_expiry_setup {
    struct reaper_setup reaper;
    bool shared; /* other nodes give leases too: the store is asked even if this node has given none */
    void (*over)(void *leasing, const struct task *t); /* a lease is over, and its task settled */
    void *leasing;
    /* Called with the reaper's context: a task has expired before it started, and is as t says. NULL: nobody wants to
     * know. */
    void (*expired)(void *context, const struct task *t, enum task_state from);
};

struct lease_expiry;

struct lease_expiry *lease_expiry_new(const struct lease_expiry_setup *setup);
void lease_expiry_free(struct lease_expiry *l);                                   /* idle; NULL is fine */
int64_t lease_expiry_step(struct lease_expiry *l, struct moment now, bool leads); /* when to call again */
void lease_expiry_given(struct lease_expiry *l); /* a lease was given, or may have been: it will end */
void lease_expiry_waits(struct lease_expiry *l); /* a task that has an expiry waits, or may do so */
/* Tasks were released or changed. They may expire if any task has an expiry. */
void lease_expiry_released(struct lease_expiry *l);
void lease_expiry_stop(struct lease_expiry *l);
bool lease_expiry_is_idle(const struct lease_expiry *l);
