#pragma once
/* port/events.h - carries outcomes and reports of workers from the workers to the updaters.
 *
 * Every adapter passes tests/conformance/events/events_suite.c, which holds it to these rules:
 *  1. A published event is polled at least once, even if the updater that polled it dies before its ack.
 *  2. An event that was polled and not acknowledged comes again after events_reset (a restart).
 *  3. Events of one task come in the order of publication, to one updater at a time.
 *  4. An acknowledged event never comes again, unless two updaters polled it (a fault) and one has not acknowledged it.
 *     An ack of an unknown event changes nothing and succeeds.
 *  5. If an arena is too small for all events, it gets as many as fit and the rest comes with the next poll; ERR_LIMIT
 *     if not even one fits.
 *  6. Several updaters that poll the same events share them. If one dies, the others get what it had polled.
 *  7. An event that cannot be read (a foreign message on the same topic, a newer version) is logged and skipped for
 *     good.
 *  8. ERR_UNAVAILABLE of a publish: the events may be published or not. Publish them again; they may then come twice.
 *  9. Arguments are borrowed for the call. Results are in the caller's arena.
 * A handle is used by one thread at a time. */
#include "core/sharing/breaker.h"
#include "core/sharing/pools.h"
#include "core/task/settle.h"

enum { EVENTS_MAX = 4096 };

enum event_kind { EVENT_OUTCOME, EVENT_WORKER };

/* The report of a worker, sent every few seconds. */
struct worker_report {
    struct uuid id;
    struct str name, version; /* host and process; of the program */
    int64_t slots, running;
    bool left;               /* it leaves and runs nothing any more */
    struct worker_kind kind; /* which tasks it can run */
    struct str doc;          /* JSON object for people: what it serves, CPU, memory */
};

struct event {
    enum event_kind kind;
    struct settle_facts task; /* OUTCOME, like the next */
    struct outcome outcome;
    struct breakers_news breakers; /* what the worker's circuit breakers say of the call, or why they held it */
    struct str host;               /* if there are news: that the task calls */
    struct worker_report worker;   /* WORKER */
    uint64_t sequence;             /* set by the adapter, for ack */
};

struct event_list {
    struct event *v;
    size_t n;
};

/* Event barrier: a position in the stream of events. Everything published before it comes before it. */
struct events_barrier {
    uint8_t bytes[512]; /* the adapter's */
};

struct events {
    const struct events_ops *ops;
};

struct events_ops {
    enum err (*publish)(struct events *, const struct event *, size_t n,
                        struct error *); /* all are published, or it is unknown (rule 8) */
    enum err (*poll)(struct events *, size_t max, int64_t wait_ms, struct arena *, struct event_list *ret,
                     struct error *);
    enum err (*ack)(struct events *, const uint64_t *sequences, size_t n, struct error *);
    enum err (*reset)(struct events *, struct error *);
    /* Sets a barrier now; says whether every event published before it has been acknowledged by its updater. */
    enum err (*barrier)(struct events *, struct events_barrier *ret, struct error *);
    enum err (*barrier_passed)(struct events *, const struct events_barrier *, bool *ret, struct error *);
    size_t (*depth)(struct events *); /* published and not acknowledged, as far as this process knows without asking */
    void (*free)(struct events *);
};

enum err events_publish(struct events *ev, const struct event *v, size_t n, struct error *e) must_use;
enum err events_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                     struct error *e) must_use;
enum err events_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e) must_use;
enum err events_reset(struct events *ev, struct error *e) must_use;
enum err events_barrier(struct events *ev, struct events_barrier *ret, struct error *e) must_use;
enum err events_barrier_passed(struct events *ev, const struct events_barrier *m, bool *ret, struct error *e) must_use;
size_t events_depth(struct events *ev);
void events_free(struct events *ev);
