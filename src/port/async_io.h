#pragma once
/* port/async_io.h - runs errands to the queue, the events and the lease for roles, which must not wait for a network.
 *
 * Like the writer's operations: a role fills in an errand, submits it, and is called back (`done`) on its own thread, exactly once, before
 * a later step; over adapters in memory that is before submit returns. Errands that go to the same place are run in the order they were
 * submitted: one place is push, renew, ack, lapsed, recall, abort, known and look; one is take; one is publish, mark and passed; one is poll
 * and the ack of events; one is the lease. Of an errand that failed nothing is known but what its port says.
 * Arguments are borrowed until done; results live in the errand's arena, where it has one. */
#include "base/list.h"
#include "port/events.h"
#include "port/lease.h"
#include "port/queue.h"

enum errand_kind {
    ERRAND_PUSH,
    ERRAND_TAKE,
    ERRAND_RENEW,
    ERRAND_ACK,
    ERRAND_LAPSED,
    ERRAND_RECALL,
    ERRAND_ABORT,
    ERRAND_KNOWN,
    ERRAND_LOOK,
    ERRAND_PUBLISH,
    ERRAND_MARK,
    ERRAND_PASSED,
    ERRAND_POLL,
    ERRAND_EVENTS_ACK,
    ERRAND_LEASE,
};
enum { ERRAND_KINDS = ERRAND_LEASE + 1 };

struct errand {
    enum errand_kind kind;
    enum err rc;
    struct error error;
    void (*done)(struct errand *e);
    void *context;
    struct list link; /* the courier's */
};

struct errand_push {
    struct errand errand;
    const struct task *tasks;
    size_t n;
    uint64_t epoch; /* 0: whichever it is */
    struct pushed ret;
};

struct errand_take {
    struct errand errand;
    struct take ask;
    struct arena arena; /* whoever made it inits and releases it, here and below */
    struct taken ret;
};

struct errand_renew {
    struct errand errand;
    const struct task *const *running;
    size_t n;
    struct take by;
};

struct errand_ids { /* ACK */
    struct errand errand;
    const struct delivery_id *v;
    size_t n;
};

struct errand_lapsed {
    struct errand errand;
    int64_t now_ms;
    struct arena arena;
    struct lapses ret;
};

struct errand_one { /* RECALL, ABORT */
    struct errand errand;
    struct delivery_id id;
    bool ret_recalled;
};

struct errand_known {
    struct errand errand;
    const struct delivery_id *v;
    const uint64_t *epochs; /* NULL: nobody knows them */
    size_t n;
    bool *ret; /* the caller's, n of them */
};

struct errand_look {
    struct errand errand;
    struct queue_state ret;
};

struct errand_publish {
    struct errand errand;
    const struct event *v;
    size_t n;
};

struct errand_mark { /* MARK, PASSED */
    struct errand errand;
    struct events_mark mark;
    bool ret_passed;
};

struct errand_poll {
    struct errand errand;
    size_t max;
    int64_t wait_ms;
    struct arena arena;
    struct event_list ret;
};

struct errand_events_ack {
    struct errand errand;
    const uint64_t *sequences;
    size_t n;
};

struct errand_lease {
    struct errand errand;
    struct str name;
    struct uuid holder;
    int64_t ttl_ms; /* 0: it is let go */
    bool ret_held;
};

/* Where errands go; what nobody here needs is NULL. */
struct courier_ports {
    struct queue *queue, *take; /* two handles of the same queue; in memory one and the same */
    struct events *publish, *poll;
    struct lease *lease;
};

struct courier {
    const struct courier_ops *ops;
    bool at_once;    /* done is called before submit returns, and the depths below are true */
    bool push_again; /* the queue's */
};

struct courier_ops {
    void (*submit)(struct courier *, struct errand *e);
    size_t (*queue_depth)(struct courier *);
    size_t (*events_depth)(struct courier *);
};

static inline void courier_submit(struct courier *c, struct errand *e)
{
    c->ops->submit(c, e);
}

/* For couriers: runs an errand on its port, here and now, and fills in its result; `done` is for the caller to call. */
void errand_run(const struct courier_ports *ports, struct errand *e);
