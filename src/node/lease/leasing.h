#pragma once
/* node/lease/leasing.h - gives tasks to workers outside that ask for them (target WORKER), and ends leases that ran out.
 *
 * Whoever asks waits here, on the node's loop, until something of its queue is due or its time is over; several of one queue in the order
 * they came. A claim is made only if something may be there: when somebody begins to wait, at the time that the last claim named, when
 * a task is told of, and once a second. What queues and tenants may run at once holds for leases, too (role/lanes). Of a lease that was
 * given nothing is kept here: the store has it, and its id is made of the task and its fence.
 *
 * The node that leads looks for leases that are over. Their tasks are lost, or cancelled if their users wanted them ended. */
#include "node/reaper/reaper.h"
#include "node/scheduler/lanes.h"

enum { LEASES_MAX = 1000, LEASE_CLASSES = CLASS_HIGH + 1 };

struct leasing;

/* Its memory is the caller's; the answer's is in claim.op.arena, which whoever is told releases. */
struct lease_ask {
    int32_t tenant;
    struct str queue, worker;
    size_t max; /* up to LEASES_MAX */
    int64_t lease_ms, wait_ms;
    void (*done)(
        struct lease_ask *a); /* on the loop's thread; claim.op.rc says how it went, claim.ret what was given */
    void *context;

    struct op_claim claim; /* from here on the role's, until done */
    struct lease_terms terms;
    struct lane_quota lanes[LEASE_CLASSES];
    struct leasing *leasing;
    struct lease_queue *of;
    struct list link;
    int64_t until_ms; /* steady: how long it waits */
    uint64_t turn;    /* before whom it came */
    size_t reserved;
    bool tried; /* it has been looked for something */
};

struct leasing_setup {
    struct reaper_setup reaper; /* the writer, and who is told of leases that ran out */
    const struct uuid *node;    /* it may change */
    struct lanes *lanes;
    bool shared; /* other nodes give leases too: what runs by them, the store counts */
    void (*answered)(void *context,
                     const struct op_claim *claim); /* what a claim did to others: gated, replaced, woken */
};

struct leasing *leasing_new(const struct leasing_setup *setup);
void leasing_free(struct leasing *l); /* idle; NULL is fine */

void leasing_ask(struct leasing *l, struct lease_ask *a, struct moment now);

/* Something is due there; somewhere (tenant 0: anywhere). A rule has changed, somebody was let go on: look at all of them. */
void leasing_due(struct leasing *l, int32_t tenant, struct str queue, int64_t due_ms);
void leasing_all_due(struct leasing *l, int64_t due_ms);

/* One that was leased from this queue is settled, by whoever reported it. */
void leasing_on_settled(struct leasing *l, int32_t tenant, struct str queue);

int64_t leasing_step(struct leasing *l, struct moment now, bool leads); /* when to call again */
void leasing_stop_waiting(struct leasing *l);                           /* who waits is answered: nothing */
void leasing_stop(struct leasing *l);
bool leasing_is_idle(const struct leasing *l);
