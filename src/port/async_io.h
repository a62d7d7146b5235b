#pragma once
/* port/async_io.h - I/O requests to the queue, the events and the lease, for a node, which must not wait for a network.
 *
 *  - The node fills in a request and submits it. `done` is called exactly once, on the node's thread, before a later
 *    step. Over adapters in memory it is called before submit returns.
 *  - Requests of one channel run in the order of submission. The channels are: (1) push, renew, ack, timed out, recall,
 *    abort, want back, unblock, known and stats; (2) take; (3) publish, barrier and barrier passed; (4) poll and the
 *    ack of events; (5) the lease.
 *  - If a request fails, only what its port says is known.
 *  - Arguments are borrowed until done. Results are in the request's arena, where it has one. */
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
    IO_WANT_BACK,
    IO_UNBLOCK,
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
    struct list link; /* the channel's */
};

struct io_push {
    struct io_request io_request;
    const struct task *tasks;
    size_t n;
    uint64_t epoch; /* 0: any */
    struct pushed ret;
};

struct io_take {
    struct io_request io_request;
    struct take ask;
    struct arena arena; /* the submitter inits and releases it, here and below */
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

struct io_want_back {
    struct io_request io_request;
    const struct task *task;
    uint64_t epoch; /* in which it was pushed; 0: unknown */
    enum want_back_answer ret;
};

struct io_unblock {
    struct io_request io_request;
    struct uuid worker;
};

struct io_known {
    struct io_request io_request;
    const struct fenced_id *v;
    const uint64_t *epochs; /* NULL: unknown */
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

struct io_barrier { /* BARRIER, BARRIER_PASSED */
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
    int64_t ttl_ms; /* 0: release it */
    bool ret_held;
};

/* The ports that requests go to. A port that this process does not use is NULL. */
struct async_io_ports {
    struct queue *queue, *take; /* two handles of the same queue; in memory one and the same */
    struct events *publish, *poll;
    struct lease *lease;
};

struct async_io {
    const struct async_io_ops *ops;
    bool at_once;    /* `done` is called before submit returns, and the depths below are exact */
    bool push_again; /* of the queue (port/queue.h) */
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

/* For adapters: runs a request on its port and fills in the result. The caller calls `done`. */
void io_run(const struct async_io_ports *ports, struct io_request *e);
