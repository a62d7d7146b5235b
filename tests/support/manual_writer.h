#pragma once
/* tests/support/manual_writer.h - a store writer that the test controls: submitted operations wait until the test completes or
 * fails them. It also records the claims that ended. */
#include <stdlib.h>

#include "base/metrics.h"
#include "check.h"
#include "port/events.h"
#include "port/store.h"

enum { TOLD_MAX = 16 };

struct manual_writer {
    struct writer writer;
    struct list pending;
    struct metrics *metrics;
    struct fenced_id told[TOLD_MAX]; /* settled finally */
    size_t told_count;
    int batches;
    uint64_t unblocked;
};

static inline void manual_writer_submit(struct writer *w, struct op *op)
{
    list_push(&container_of(w, struct manual_writer, writer)->pending, &op->link);
}

static inline void manual_writer_settled(void *context, const struct event *e, const struct settlement *s)
{
    struct manual_writer *d = context;
    assert_true(uuid_eq(e->task.id, s->id) && e->task.fence == s->fence);
    assert_true(d->told_count < TOLD_MAX);
    d->told[d->told_count++] = (struct fenced_id){ s->id, s->fence };
}

static inline void manual_writer_batch_settled(void *context)
{
    ((struct manual_writer *)context)->batches++;
}

static inline void manual_writer_woke(void *context, uint64_t lanes)
{
    ((struct manual_writer *)context)->unblocked |= lanes;
}

static inline void manual_writer_init(struct manual_writer *d)
{
    static const struct writer_ops ops = { manual_writer_submit };
    *d = (struct manual_writer){ .writer.ops = &ops, .metrics = metrics_new() };
    list_init(&d->pending);
}

static inline void manual_writer_release(struct manual_writer *d)
{
    assert_true(list_empty(&d->pending));
    metrics_free(d->metrics);
}

/* The first waiting operation, which must be of this kind. */
static inline struct op *asked(struct manual_writer *d, enum op_kind kind)
{
    if (list_empty(&d->pending))
        fail_msg("no operation %d was submitted", kind);
    struct op *op = container_of(d->pending.next, struct op, link);
    assert_int_equal(op->kind, kind);
    return op;
}

static inline void answer(struct manual_writer *d, struct op *op, enum err rc)
{
    (void)d;
    list_remove(&op->link);
    op->rc = rc;
    if (rc)
        error_set(&op->error, rc, "no");
    op->done(op);
}

static inline bool asks_nothing(const struct manual_writer *d)
{
    return list_empty(&d->pending);
}

/* A task that was pushed to the queue. */
static inline struct task queued_task(int n)
{
    return (struct task){ .id = { { (uint8_t)(n >> 8), (uint8_t)n, 1 } },
                          .tenant = 1,
                          .state = TASK_RUNNING,
                          .fence = 1,
                          .claim = { { 1, 2, 3 } },
                          .priority = PRIORITY_DEFAULT,
                          .queue = S("default"),
                          .timeout_ms = 1000,
                          .target = TARGET_NOOP,
                          .retry = { .max_attempts = 3, .base_delay_ms = 500, .max_delay_ms = 500 } };
}
