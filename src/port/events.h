#pragma once
/* port/events.h - carries outcomes, and what workers say of themselves, from the workers to the updaters.
 *
 * Every adapter passes tests/conformance/events/events_suite.c, which holds it to this:
 *  - what was published is polled at least once, also after whoever polled it died before its ack;
 *  - an event polled and not acknowledged comes again after events_reset (a restart);
 *  - events of one task come in the order they were published, to one updater at a time;
 *  - one that was acknowledged never comes again, unless it was polled by two and one of them has not acknowledged it (a fault); an ack of
 *    what is unknown changes nothing and succeeds;
 *  - an arena too small for all gets as many as fit, the rest comes with the next poll; ERR_LIMIT when not even one does;
 *  - several updaters that poll the same events share them; what one that is gone had polled comes to the others;
 *  - one that can not be read (another's message on the same topic, a newer version) is told of in the log and passed over for good;
 *  - ERR_UNAVAILABLE: nothing is known of what was published: publish it again, it may then come twice;
 *  - arguments are borrowed for the call; results live in the caller's arena.
 * A handle is used by one thread at a time. */
#include "core/task/settle.h"

enum { EVENTS_MAX = 4096 };

enum event_kind { EVENT_OUTCOME, EVENT_WORKER };

/* What a worker says of itself, every few seconds. */
struct worker_report {
    struct uuid id;
    struct str name, version; /* host and process; of the program */
    int64_t slots, running;
    bool left; /* it goes, and runs nothing any more */
    struct str
        doc; /* JSON object: what it serves (queues, tenants, priorities, labels), CPU, memory, breakers; for those who look */
};

struct event {
    enum event_kind kind;
    struct settle_facts task; /* OUTCOME, like the next */
    struct outcome outcome;
    struct worker_report worker; /* WORKER */
    uint64_t sequence;           /* given by the adapter: what ack takes */
};

struct event_list {
    struct event *v;
    size_t n;
};

/* A place in the stream of events: what was published before it, and what comes after. */
struct events_barrier {
    uint8_t bytes[512]; /* the adapter's */
};

struct events {
    const struct events_ops *ops;
};

struct events_ops {
    enum err (*publish)(struct events *, const struct event *, size_t n,
                        struct error *); /* all are there, or unknown */
    enum err (*poll)(struct events *, size_t max, int64_t wait_ms, struct arena *, struct event_list *ret,
                     struct error *);
    enum err (*ack)(struct events *, const uint64_t *sequences, size_t n, struct error *);
    enum err (*reset)(struct events *, struct error *);
    /* Now; and whether all that was published before it has been acknowledged, by whoever polled it. */
    enum err (*mark)(struct events *, struct events_barrier *ret, struct error *);
    enum err (*passed)(struct events *, const struct events_barrier *, bool *ret, struct error *);
    size_t (*depth)(struct events *); /* published and not acknowledged, as far as it is known here without asking */
    void (*free)(struct events *);
};

enum err events_publish(struct events *ev, const struct event *v, size_t n, struct error *e) must_use;
enum err events_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                     struct error *e) must_use;
enum err events_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e) must_use;
enum err events_reset(struct events *ev, struct error *e) must_use;
enum err events_barrier(struct events *ev, struct events_barrier *ret, struct error *e) must_use;
enum err events_passed(struct events *ev, const struct events_barrier *m, bool *ret, struct error *e) must_use;
size_t events_depth(struct events *ev);
void events_free(struct events *ev);
