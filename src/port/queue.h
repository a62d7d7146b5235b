#pragma once
/* port/queue.h - carries claimed tasks from the schedulers to the workers.
 *
 * Every adapter passes tests/conformance/queue/queue_suite.c, which holds it to this:
 *  - a queue holds only what is due: tasks are pushed at their exact time, so workers need no clock;
 *  - what was pushed is delivered to exactly one worker, or lapses;
 *  - a delivery not renewed within its visibility timeout lapses (so does one whose worker is gone, where the queue notices sooner, and one
 *    whose contents the queue has lost): it is never delivered again. `lapsed` reports it until it is acknowledged: again, to whoever
 *    asks then, when the one before has not acknowledged it for TIMED_OUT_AGAIN_MS;
 *  - what was recalled is not delivered; what was delivered cannot be recalled;
 *  - deliveries of one lane come in the order they were pushed; a high class comes before a low one that waits no longer. One pushed again
 *    while it is known counts once, where push_again says so;
 *  - a worker gets only what its filter lets through, and only what fits into the room that it has;
 *  - a suspect (core/task/task.h) comes alone: only to who says that nothing else runs there, and then nothing else with it;
 *  - a timeout is over at its time, not before, by the queue's clock, which is the caller's now_ms in a queue that has none; until
 *    `lapsed` has reported it, renew and ack still hold;
 *  - renewing a delivery that a queue has lost makes it known again: who renews it runs it;
 *  - renew and ack of what still waits, ack of what is unknown, and recall of what is unknown, change nothing and succeed;
 *  - an arena too small for all gets as many as fit, the rest stays; ERR_LIMIT when not even one does;
 *  - ERR_UNAVAILABLE: the queue can not be reached; it reconnects by itself, with the next call that may;
 *  - arguments are borrowed for the call; results live in the caller's arena.
 * A queue is used by one thread at a time. Whoever must not wait for a network uses a courier (port/async_io.h). */
#include "core/task/task.h"

enum { TAKE_MAX = 4096, PUSH_MAX = 8192, TIMED_OUT_AGAIN_MS = 3000 };

/* Who knows what a tenant of that number is called: tasks carry numbers, filters and messages name names. Asked on the thread that uses the
 * queue; the answer is borrowed until the next. */
struct queue_names {
    struct str (*tenant)(const struct queue_names *, int32_t number); /* empty: nobody knows */
};

/* What a worker may be given. What is empty lets everything through. */
struct queue_filter {
    const struct str *queues;
    size_t queue_count;
    const struct str *tenants; /* by name */
    size_t tenant_count;
    int priority_min, priority_max; /* 0 and PRIORITY_MAX: all */
    const struct str *labels;       /* that the worker has: it gets what requires no others */
    size_t label_count;
};

struct take {
    size_t max; /* 0: only what it is asked to abort */
    int64_t now_ms;
    int64_t wait_ms; /* how long to wait for something, where the queue can; 0: not at all */
    int64_t visibility_ms;
    struct uuid worker;
    bool alone;                        /* nothing runs there: a suspect may come */
    int64_t cpu_milli, memory_mb;      /* room for what says how much it needs; -1: no limit */
    const struct queue_filter *filter; /* NULL: everything that requires no labels */
};

/* What names one delivery. */
struct taken {
    struct tasks tasks;
    struct fenced_id *aborts; /* deliveries of this worker's that somebody wants ended, each told once */
    size_t abort_count;
    int64_t queue_us; /* the queue's clock when it answered, in microseconds since 1970; 0: it has none */
};

struct lapse {
    struct task task; /* whose contents are lost: its id and fence, and no claim */
    bool fired;       /* a worker had it: it may have run */
    bool alone;       /* nothing else ran there */
};

struct delivery_timeouts {
    struct lapse *v;
    size_t n;
};

struct queue_state {
    int64_t waiting, delivered; /* -1: not known */
    uint64_t
        epoch; /* never 0; changes when the queue may have lost or gained deliveries: wiped, restored, failed over */
    int64_t timeout_max_ms; /* a task that may run longer is taken away by the queue itself; INT64_MAX: none is */
};

/* What came of a push. */
struct pushed {
    uint64_t epoch; /* in which all are there; of a push that failed with ERR_CONFLICT: the queue's now */
    bool unsure;    /* it failed, and some may be there all the same: the answer was lost */
};

struct queue {
    const struct queue_ops *ops;
};

struct queue_ops {
    /* All are there, for good, in one epoch, or it fails. Only in the epoch that is asked for, else ERR_CONFLICT; 0: whichever it is. */
    enum err (*push)(struct queue *, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                     struct error *);
    enum err (*take)(struct queue *, const struct take *, struct arena *, struct taken *ret, struct error *);
    /* For visibility_ms from now on. */
    enum err (*renew)(struct queue *, const struct task *const *running, size_t n, const struct take *by,
                      struct error *);
    enum err (*ack)(struct queue *, const struct fenced_id *, size_t n, struct error *);
    enum err (*timed_out_deliveries)(struct queue *, int64_t now_ms, struct arena *, struct delivery_timeouts *ret,
                                     struct error *);
    enum err (*recall)(struct queue *, struct fenced_id, bool *ret_recalled, struct error *);
    enum err (*abort)(struct queue *, struct fenced_id, struct error *); /* whoever runs it is asked to end it */
    /* Which of these wait, are delivered or lapse. epochs: in which each was pushed; 0: nobody knows, and NULL: of none. A queue that can
     * not tell says those that were pushed in its present epoch; of the others all, until it is seen to change: then none. */
    enum err (*known)(struct queue *, const struct fenced_id *, const uint64_t *epochs, size_t n, bool *ret,
                      struct error *);
    enum err (*look)(struct queue *, struct queue_state *ret, struct error *);
    size_t (*depth)(struct queue *); /* waiting, not yet delivered, as far as it is known here without asking anybody */
    void (*free)(struct queue *);
    bool
        push_again; /* what may be there already can be asked about, and pushed again: while it is known it counts once */
};

enum err queue_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                    struct error *e) must_use;
enum err queue_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret,
                    struct error *e) must_use;
enum err queue_renew(struct queue *q, const struct task *const *running, size_t n, const struct take *by,
                     struct error *e) must_use;
enum err queue_ack(struct queue *q, const struct fenced_id *v, size_t n, struct error *e) must_use;
enum err queue_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                         struct error *e) must_use;
enum err queue_recall(struct queue *q, struct fenced_id d, bool *ret_recalled, struct error *e) must_use;
enum err queue_abort(struct queue *q, struct fenced_id d, struct error *e) must_use;
enum err queue_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                     struct error *e) must_use;
enum err queue_look(struct queue *q, struct queue_state *ret, struct error *e) must_use;
size_t queue_depth(struct queue *q);
void queue_free(struct queue *q);

/* For adapters: it is not the epoch that a push is for (ERR_CONFLICT). */
enum err queue_is_another(struct error *e);

/* For adapters: the name of a task's tenant (names may be NULL); whether a worker may be given a task of a tenant of that name, and whether it
 * fits into the room that the worker has. */
struct str queue_tenant(const struct queue_names *names, int32_t number);
bool queue_lets_through(const struct queue_filter *f, const struct task *t, struct str tenant);
bool queue_has_room(const struct take *by, const struct task *t);
