#pragma once
/* tests/conformance/queue/queue_world.h - the fixture of the queue's suite: an empty queue, one handle that pushes,
 * three workers.
 *
 * Adapters differ in their clock, in what they notice and in what they can report. Their rows say so. A test that
 * needs more than an adapter has is skipped. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "needs.h"
#include "port/queue.h"
#include "seed.h"

#define NOW INT64_C(1770710400000)

enum { WORKERS = 3, ENOUGH_MS = 5000, A_MOMENT_MS = 30, PREFIX_MAX = 64 };

struct queue_adapter {
    const char *name;
    /* Opens one more handle of the queue with this name. No test used the name before. */
    struct queue *(*open)(const char *prefix, const struct queue_names *names);
    /* One more handle of the worker that has this one, for another thread. */
    struct queue *(*twin)(struct queue *q, const char *prefix);
    void (*close)(struct queue *);
    int64_t visibility_ms; /* short, but long enough for a few calls */
    bool own_clock;        /* the queue has a clock: time passes by waiting, not by now_ms */
    bool timeouts;         /* a delivery times out by itself, not only when its worker is gone */
    bool recalls;          /* waiting tasks can be recalled */
    bool aborts;
    bool knows;         /* queue_known answers for each delivery; otherwise the same for all */
    bool counts;        /* depth and look are exact */
    bool orders;        /* lanes keep their order, and a high class goes first */
    bool no_time;       /* own_clock, but take does not always return the time */
    bool whole_classes; /* a filter accepts all priorities of a class or none, and they are not kept apart */
};
extern const struct queue_adapter *adapter_under_test;
const struct queue_adapter *queue_adapter_of(int argc, char **argv);

struct queue_worker {
    struct queue *handle; /* NULL: the worker died */
    struct uuid id;
};

struct world {
    char prefix[PREFIX_MAX];
    struct queue *queue; /* the handle that pushes, recalls and queries */
    struct queue_worker workers[WORKERS];
    struct arena arena;
    struct uuid_gen ids;
    int64_t now_ms; /* the time that callers pass */
};

int world_open(void **state);
int world_close(void **state);
#define queue_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

struct test_list {
    const struct CMUnitTest *v;
    size_t n;
};
extern const struct test_list delivery_tests, timeout_tests, filter_tests, places_tests, random_tests;

struct task some_task(struct world *w);
struct task some_big_task(struct world *w); /* a little more than 20 KB */
struct fenced_id id_of(const struct task *t);
void push(struct world *w, const struct task *v, size_t n);
bool recall(struct world *w, const struct task *t);
void ask_abort(struct world *w, const struct task *t);
bool is_known(struct world *w, const struct task *t);

int64_t monotonic_ms(void);

/* Lets time pass, on the queue's clock or on now_ms. */
void pass(struct world *w, int64_t ms);

/* The arguments of a worker's take: no filter, no limit. */
struct take take_of(struct world *w, int worker, size_t max);
struct taken take_with(struct world *w, int worker, const struct take *t); /* one call */

/* Takes until n tasks have come, and checks that no more come. */
struct tasks take_exactly(struct world *w, int worker, size_t n);
struct tasks take_exactly_with(struct world *w, int worker, struct take t, size_t n);
void take_none(struct world *w, int worker);
void take_none_with(struct world *w, int worker, struct take t);

void ack(struct world *w, int worker, const struct task *t);           /* by the worker's handle */
void ack_timed_out(struct world *w, const struct task *t);             /* by the control node's handle */
void renew(struct world *w, int worker, const struct task *t);         /* for visibility_ms */
void worker_dies(struct world *w, int worker);                         /* closes its handle: its deliveries time out */
struct delivery_timeouts time_out_now(struct world *w);                /* one call */
struct delivery_timeouts timed_out_exactly(struct world *w, size_t n); /* n come in any order, and no more */
const struct timed_out_delivery *timed_out_of(const struct delivery_timeouts *l,
                                              const struct task *t); /* NULL: not in the list */

/* Compares the fields that a queue carries: NULL, or the name of the first that differs. */
const char *delivery_difference(const struct task *a, const struct task *b);
#define assert_same_delivery(a, b)                                                                                     \
    do {                                                                                                               \
        const char *field_ = delivery_difference((a), (b));                                                            \
        if (field_)                                                                                                    \
            fail_msg("%s and %s differ in %s", #a, #b, field_);                                                        \
    } while (0)
