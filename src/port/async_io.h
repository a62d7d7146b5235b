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

enum io_kind {
    IO_PUSH,
    IO_TAKE,
    IO_RENEW,
    IO_ACK,
    IO_TIMED_OUT,
    IO_RECALL,
    IO_ABORT,
    IO_KNOWN,
    IO_STATS,
    IO_PUBLISH,
    IO_BARRIER,
    IO_BARRIER_PASSED,
    IO_POLL,
    IO_EVENTS_ACK,
    IO_LEASE,
};
enum { IO_KINDS = IO_LEASE + 1 };

struct io_request {
    enum io_kind kind;
    enum err rc;
    struct error error;
    void (*done)(struct io_request *e);
    void *context;
    struct list link; /* the courier's */
};

struct io_push {
    struct io_request io_request;
    const struct task *tasks;
    size_t n;
    uint64_t epoch; /* 0: whichever it is */
    struct pushed ret;
};

struct io_take {
    struct io_request io_request;
    struct take ask;
    struct arena arena; /* whoever made it inits and releases it, here and below */
    struct taken ret;
};

struct io_renew {
    struct io_request io_request;
    const struct task *const *running;
    size_t n;
    struct take by;
};

struct io_ids { /* ACK */
    struct io_request io_request;
    const struct fenced_id *v;
    size_t n;
};

struct io_timed_out {
    struct io_request io_request;
    int64_t now_ms;
    struct arena arena;
    struct delivery_timeouts ret;
};

struct io_one { /* RECALL, ABORT */
    struct io_request io_request;
    struct fenced_id id;
    bool ret_recalled;
};

struct io_known {
    struct io_request io_request;
    const struct fenced_id *v;
    const uint64_t *epochs; /* NULL: nobody knows them */
    size_t n;
    bool *ret; /* the caller's, n of them */
};

struct io_stats {
    struct io_request io_request;
    struct queue_state ret;
};

struct io_publish {
    struct io_request io_request;
    const struct event *v;
    size_t n;
};

struct io_barrier { /* MARK, PASSED */
    struct io_request io_request;
    struct events_barrier mark;
    bool ret_passed;
};

struct io_poll {
    struct io_request io_request;
    size_t max;
    int64_t wait_ms;
    struct arena arena;
    struct event_list ret;
};

struct io_events_ack {
    struct io_request io_request;
    const uint64_t *sequences;
    size_t n;
};

struct io_lease {
    struct io_request io_request;
    struct str name;
    struct uuid holder;
    int64_t ttl_ms; /* 0: it is let go */
    bool ret_held;
};

/* Where errands go; what nobody here needs is NULL. */
struct async_io_ports {
    struct queue *queue, *take; /* two handles of the same queue; in memory one and the same */
    struct events *publish, *poll;
    struct lease *lease;
};

struct async_io {
    const struct async_io_ops *ops;
    bool at_once;    /* done is called before submit returns, and the depths below are true */
    bool push_again; /* the queue's */
};

struct async_io_ops {
    void (*submit)(struct async_io *, struct io_request *e);
    size_t (*queue_depth)(struct async_io *);
    size_t (*events_depth)(struct async_io *);
};

static inline void async_io_submit(struct async_io *c, struct io_request *e)
{
    c->ops->submit(c, e);
}

/* For couriers: runs an errand on its port, here and now, and fills in its result; `done` is for the caller to call. */
void io_run(const struct async_io_ports *ports, struct io_request *e);
