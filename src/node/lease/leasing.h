#pragma once
/* node/lease/leasing.h - leases tasks with the target WORKER to external workers that ask for them, and ends leases
 * that ran out.
 *
 * An ask waits here, on the loop's thread, until a task of its queue is due or its time is over; asks for one queue
 * are served in the order in which they came. A claim is made only if it may find something: when an ask begins to
 * wait, at the due time that the last claim named, when a task is nudged, and once a second. The limits of queues and
 * tenants hold for leases, too (lanes.h). Nothing of a lease is kept here: the store has it, and its id consists of
 * the task's id and fence.
 *
 * The leader looks for leases that ran out (lease_expiry.h). */
#include "node/reaper/reaper.h"
#include "node/scheduler/lanes.h"

enum { LEASES_MAX = 1000 };

struct leasing;

/* The caller's memory. The answer's memory is in claim.op.arena, which the caller releases. */
struct lease_ask {
    int32_t tenant;
    struct str queue, worker;
    size_t max; /* up to LEASES_MAX */
    int64_t lease_ms, wait_ms;
    void (*done)(struct lease_ask *a); /* on the loop's thread; claim.op.rc is the result, claim.ret the leased tasks */
    void *context;
    /* Whether tasks may be claimed for it now; NULL: yes. If not, it is answered with nothing and ret_not_allowed. On
     * the loop's thread. */
    bool (*allowed)(struct lease_ask *a);
    bool ret_not_allowed;
    uint64_t turn; /* its place in the line; 0: the end. An ask that was not allowed may come again with its turn */

    struct op_claim claim; /* from here on leasing's, until done */
    struct lease_terms terms;
    struct lane_quota lanes[PRIORITIES];
    struct claim_line lines[CLASSES];
    struct leasing *leasing;
    struct lease_queue *of;
    struct list link;
    int64_t until_ms; /* steady: until when it waits */
    size_t reserved;
    bool tried; /* a claim or a limit has been checked for it */
};

struct leasing_setup {
    struct reaper_setup reaper; /* the writer, and who is told of leases that ran out */
    const struct uuid *node;    /* this node's id. It changes when the node rejoins */
    struct lanes *lanes;
    bool shared; /* other nodes give leases, too: the store counts running leases */
    /* Called with the reaper's context: what a claim has blocked, replaced or unblocked. */
    void (*answered)(void *context, const struct op_claim *claim);
    void (*expired)(void *context, const struct task *t, enum task_state from); /* as lease_expiry_setup.expired */
};

struct leasing *leasing_new(const struct leasing_setup *setup);
void leasing_free(struct leasing *l); /* idle; NULL is fine */

void leasing_ask(struct leasing *l, struct lease_ask *a, struct moment now);

/* Something is due in that queue. Something may be due in any queue: a rule has changed, or a task was unblocked. */
void leasing_due(struct leasing *l, int32_t tenant, struct str queue, int64_t due_ms);
void leasing_may_expire(struct leasing *l); /* a task of any target that has an expiry waits, or may do so */
void leasing_all_due(struct leasing *l, int64_t due_ms);

/* The task of a lease from this queue is settled. */
void leasing_on_settled(struct leasing *l, int32_t tenant, struct str queue);

int64_t leasing_step(struct leasing *l, struct moment now, bool leads); /* when to call again */
void leasing_stop_waiting(struct leasing *l);                           /* every waiting ask is answered with nothing */
void leasing_stop(struct leasing *l);
bool leasing_is_idle(const struct leasing *l);
