#pragma once
/* node/worker/internal.h - what worker*.c share: worker.c takes and starts and has the doors, outbox.c reports what came of it and
 * renews, report.c tells of the worker itself. */
#include "base/list.h"
#include "base/map.h"
#include "base/thread_owner.h"
#include "node/worker/worker.h"

enum { WORKER_RETRY_MS = 200, WORKER_PUBLISH_MAX = 1024 };

/* What one take brought: it lives until the outcome of its last task was published. */
struct delivery_batch {
    struct io_take take;
    struct worker *worker;
    size_t references;
    struct job *jobs;
};

struct job {
    struct run run;
    struct fenced_id id;
    struct worker *worker;
    struct delivery_batch *delivery_batch;
    struct breakers_answer asked; /* of one that calls a host */
    bool disowned;                /* whatever comes of it, nobody wants to know */
};

struct outbox {
    struct arena arena;
    struct event *v;
    struct job **jobs; /* whose they are */
    size_t n, cap;
};

struct acking;
struct renewing;

struct worker {
    struct thread_owner owner; /* the loop's thread, from the first step on */
    struct worker_setup setup;
    struct map running;       /* fenced_id → job */
    struct map cancel_reason; /* fenced_id → struct doomed */
    struct breakers breakers;
    struct outbox outbox;
    struct outbox spare; /* what is being published: the outbox may grow meanwhile */
    size_t sent;         /* of the spare one, from the front: published */
    struct io_publish publish;
    bool publishing;
    bool events_down;              /* nothing could be published the last time */
    int64_t events_down_ms;        /* steady: since when */
    bool acks_down, renewals_down; /* the last one failed, and that was said */
    struct acking *free_ack;       /* for the next one */
    size_t acking;                 /* in flight, or waiting to be sent again */
    struct list unacked;           /* the latter */
    struct renewing *renewing;

    bool taking;
    struct delivery_batch *arrived; /* taken, and not looked at */
    bool queue_down;                /* the last take failed */
    int64_t cpu_used, memory_used;
    size_t suspects; /* that run */

    struct io_publish report;
    struct event told;
    struct buf doc;
    bool reporting, has_left;
    int64_t report_at_ms; /* steady */

    struct moment now;
    int64_t behind_ms;
    int64_t renew_at_ms; /* steady, like the next three */
    int64_t retry_at_ms; /* publishing what could not be published */
    int64_t take_at_ms;  /* taking, after the queue could not be reached */
    int64_t end_at_ms;   /* asking what is to be ended, though there is no room */
    size_t disowned;     /* that have not ended yet */
    bool stopped, giving_up;
};

static inline struct str delivery_key(const struct fenced_id *id)
{
    _Static_assert(sizeof *id == sizeof id->id + sizeof id->fence, "no gap in what is hashed");
    return (struct str){ (const char *)id, sizeof *id };
}

void delivery_batch_unref(struct delivery_batch *h);

/* The job's haul stays until that is published. */
void worker_add_outcome(struct worker *w, struct job *j, const struct outcome *o);
void worker_publish(struct worker *w);
void worker_renew(struct worker *w); /* a delivery that is not renewed lapses: who runs it may be dead */
void worker_outbox_init(struct worker *w);
void worker_outbox_release(struct worker *w);

int64_t worker_report(struct worker *w); /* when to call again */
