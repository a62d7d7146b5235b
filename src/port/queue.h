#pragma once
/* port/queue.h - carries claimed tasks from the schedulers to the workers.
 *
 * Every adapter passes tests/conformance/queue/queue_suite.c, which holds it to these rules:
 *  1. A queue holds only due tasks: they are pushed at their exact time, so workers need no clock.
 *  2. A pushed task is delivered to exactly one worker, or times out.
 *  3. A delivery that is not renewed within its visibility timeout times out. So does one whose worker is gone, if the
 *     queue notices sooner, and one whose contents the queue has lost. It is never delivered again.
 *  4. queue_timed_out reports it until it is acknowledged. If the first caller has not acknowledged it for
 *     TIMED_OUT_AGAIN_MS, it is reported again, to the next caller.
 *  5. A delivery times out at its time, not before, by the queue's clock; in a queue without a clock, by the caller's
 *     now_ms. Until queue_timed_out has reported it, renew and ack still work.
 *  6. A recalled task is not delivered. A delivered task cannot be recalled. It can be wanted back: its worker is told,
 *     and returns it unless it has started. A worker starts nothing later than DELIVERY_HEARD_MS after the heard_ms of
 *     the last answer that it has. So DELIVERY_HEARD_MS after queue_want_back has answered WANT_BACK_TOLD, a task
 *     has started, or never starts under that fence. A queue that cannot look tasks up answers WANT_BACK_UNKNOWN by
 *     epoch, as queue_known does, and otherwise takes a task that does not wait for a delivered one.
 *  7. Deliveries of one lane come in the order of their pushes. A task of a higher priority comes before one of a lower
 *     priority that has not waited longer; in a queue that keeps classes apart but not priorities, a task of a higher
 *     class. A task that is pushed again while the queue knows it counts once, if push_again is set.
 *  8. A worker gets only tasks that its filter lets through and that fit into its room. A place that it keeps for a
 *     higher class goes to no task of a lower one, and it is not woken for tasks that it has no place for.
 *  9. A suspect (core/task/task.h) comes alone: only to a worker that says that nothing else runs there, and with
 *     nothing else.
 * 10. Renewing a delivery that the queue has lost makes it known again: the worker that renews it runs it.
 * 11. Renew and ack of a waiting task, ack of an unknown one and recall of an unknown one change nothing and succeed.
 * 12. If an arena is too small for all results, it gets as many as fit and the rest stays; ERR_LIMIT if not even one
 *     fits.
 * 13. ERR_UNAVAILABLE: the queue cannot be reached. It reconnects by itself, with one of the next calls.
 * 14. Arguments are borrowed for the call. Results are in the caller's arena.
 * 15. queue_unblock ends the wait of a worker's take. If none waits, the worker's next take does not wait.
 * A queue is used by one thread at a time. A caller that must not wait for a network uses port/async_io.h. */
#include "core/sharing/class_slots.h"
#include "core/sharing/pools.h"

enum { TAKE_MAX = 4096, PUSH_MAX = 8192, TIMED_OUT_AGAIN_MS = 3000, DELIVERY_HEARD_MS = 300 };

/* Maps the number of a tenant to its name: tasks carry numbers, filters and messages carry names. And finds the key
 * that signs the call of a task, as JSON text. Called on the thread that uses the queue. The answer is borrowed until
 * the next call. */
struct queue_names {
    struct str (*tenant)(const struct queue_names *, int32_t number);       /* empty: unknown */
    struct str (*signing)(const struct queue_names *, const struct task *); /* empty: none. NULL: never */
};

/* Which tasks a worker takes. An empty list lets everything through. */
struct queue_filter {
    const struct str *queues;
    size_t queue_count;
    const struct str *tenants; /* by name */
    size_t tenant_count;
    int priority_min, priority_max; /* 0 and PRIORITY_MAX: all */
    const struct str *labels;       /* of the worker: it gets tasks that require no others */
    size_t label_count;
};

/* The kind of a worker with this filter (NULL: every task that requires no labels) and room for so much (<= 0: no
 * limit). Its texts are in the arena. If they do not fit, the kind counts as not known. */
struct worker_kind queue_worker_kind(const struct queue_filter *f, int64_t cpu_milli, int64_t memory_mb,
                                     struct arena *a);

struct take {
    size_t max;           /* 0: only requests to abort */
    size_t kept[CLASSES]; /* of these: places that no class below takes (core/sharing/class_slots.h) */
    int64_t now_ms;
    int64_t wait_ms; /* how long to wait for a task, if the queue can; 0: not at all */
    int64_t visibility_ms;
    struct uuid worker;
    bool alone;                        /* nothing runs at the worker: a suspect may come */
    int64_t cpu_milli, memory_mb;      /* room for tasks that name their needs; -1: no limit */
    const struct queue_filter *filter; /* NULL: every task that requires no labels */
};

struct taken {
    struct tasks tasks;
    struct fenced_id *aborts; /* deliveries of this worker that are to be aborted, each told once */
    size_t abort_count;
    struct fenced_id *wanted; /* likewise: those that are wanted back unless they have started */
    size_t wanted_count;
    /* Steady: aborts and tasks wanted back before this moment are in this answer, or were in an earlier one. 0: the
     * queue is in this process, and a recall is never too late. */
    int64_t heard_ms;
    /* Some may have been in an answer that was lost: tasks of earlier answers that have not started must not start,
     * and those of this one only until DELIVERY_HEARD_MS after heard_ms, whatever is heard later. */
    bool unheard;
    int64_t queue_us; /* the queue's clock at the answer, in microseconds since 1970; 0: it has none */
};

struct timed_out_delivery {
    struct task task; /* if the queue has lost its contents: id and fence only, no claim */
    bool fired;       /* a worker had it: it may have run */
    bool alone;       /* nothing else ran at that worker */
};

struct delivery_timeouts {
    struct timed_out_delivery *v;
    size_t n;
};

struct queue_state {
    int64_t waiting, delivered; /* -1: unknown */
    uint64_t epoch; /* never 0. Changes if the queue may have lost or gained deliveries: wiped, restored, failed over */
    int64_t timeout_max_ms; /* the queue takes away a task that runs longer; INT64_MAX: it takes none */
};

/* The result of a push. */
struct pushed {
    uint64_t epoch; /* the epoch that has all of them; after ERR_CONFLICT: the queue's current one */
    bool unsure;    /* it failed, but some may be in the queue: the answer was lost */
};

/* Where a delivery that is wanted back is. */
enum want_back_answer {
    WANT_BACK_TOLD,   /* its worker is told; or it has timed out */
    WANT_BACK_WAITS,  /* it may wait in the queue, where it stays */
    WANT_BACK_UNKNOWN /* the queue does not know it: it has ended, or is lost. Nobody is told for certain */
};

struct queue {
    const struct queue_ops *ops;
};

struct queue_ops {
    /* All are stored durably in one epoch, or it fails. ERR_CONFLICT if the queue is not in the given epoch; 0: any
     * epoch. */
    enum err (*push)(struct queue *, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                     struct error *);
    enum err (*take)(struct queue *, const struct take *, struct arena *, struct taken *ret, struct error *);
    /* For visibility_ms from now. */
    enum err (*renew)(struct queue *, const struct task *const *running, size_t n, const struct take *by,
                      struct error *);
    enum err (*ack)(struct queue *, const struct fenced_id *, size_t n, struct error *);
    enum err (*timed_out_deliveries)(struct queue *, int64_t now_ms, struct arena *, struct delivery_timeouts *ret,
                                     struct error *);
    enum err (*recall)(struct queue *, struct fenced_id, bool *ret_recalled, struct error *);
    enum err (*abort)(struct queue *, struct fenced_id, struct error *); /* asks its worker to end it */
    /* Asks its worker to return it unless it has started. epoch: in which it was pushed; 0: unknown. */
    enum err (*want_back)(struct queue *, const struct task *, uint64_t epoch, enum want_back_answer *ret,
                          struct error *);
    /* Used beside a take of the same worker, by another handle. */
    enum err (*unblock)(struct queue *, struct uuid worker, struct error *);
    /* Which of these wait, are delivered or have timed out. epochs: in which each was pushed; 0: unknown; NULL: none is
     * known. A queue that cannot look them up answers by epoch: it knows those of its current epoch, and all of unknown
     * epoch until its epoch changes, then none of these. */
    enum err (*known)(struct queue *, const struct fenced_id *, const uint64_t *epochs, size_t n, bool *ret,
                      struct error *);
    enum err (*stats)(struct queue *, struct queue_state *ret, struct error *);
    size_t (*depth)(struct queue *); /* waiting, not yet delivered, as far as this process knows without asking */
    void (*free)(struct queue *);
    bool push_again; /* a task that may be in the queue already can be pushed again: it counts once (rule 7) */
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
enum err queue_want_back(struct queue *q, const struct task *t, uint64_t epoch, enum want_back_answer *ret,
                         struct error *e) must_use;
enum err queue_unblock(struct queue *q, struct uuid worker, struct error *e) must_use;
enum err queue_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                     struct error *e) must_use;
enum err queue_stats(struct queue *q, struct queue_state *ret, struct error *e) must_use;
size_t queue_depth(struct queue *q);
void queue_free(struct queue *q);

/* For adapters: the queue is not in the epoch of the push (ERR_CONFLICT). */
enum err queue_is_another(struct error *e);

/* For adapters: the name of a task's tenant (names may be NULL); whether a filter lets a task of that tenant through;
 * whether the task fits into the worker's room. */
struct str queue_tenant(const struct queue_names *names, int32_t number);
struct str queue_signing(const struct queue_names *names, const struct task *t);
bool queue_lets_through(const struct queue_filter *f, const struct task *t, struct str tenant);
bool queue_has_room(const struct take *by, const struct task *t);
/* The worker's places. */
struct class_slots queue_places(const struct take *by);
