#pragma once
/* port/events.h - carries outcomes from the workers to the updaters.
 *
 * Every adapter passes tests/conformance/events_suite.c, which holds it to this:
 *  - what was published is polled at least once, also after whoever polled it died before its ack;
 *  - an event polled and not acknowledged comes again after events_reset (a restart);
 *  - events of one task come in the order they were published;
 *  - one that was acknowledged never comes again; an ack of what is unknown changes nothing and succeeds;
 *  - an arena too small for all gets as many as fit, the rest comes with the next poll; ERR_LIMIT when not even one does;
 *  - arguments are borrowed for the call; results live in the caller's arena. */
#include "core/settle.h"

enum { EVENTS_MAX = 4096 };

struct event {
    struct settle_facts task;
    struct outcome outcome;
    uint64_t sequence; /* given by the adapter: what ack takes */
};

struct event_list {
    struct event *v;
    size_t n;
};

struct events {
    const struct events_ops *ops;
};

struct events_ops {
    enum err (*publish)(struct events *, const struct event *, size_t n, struct error *); /* all or none */
    enum err (*poll)(struct events *, size_t max, struct arena *, struct event_list *ret, struct error *);
    enum err (*ack)(struct events *, const uint64_t *sequences, size_t n, struct error *);
    enum err (*reset)(struct events *, struct error *);
    size_t (*depth)(struct events *); /* published and not acknowledged */
    void (*free)(struct events *);
};

enum err events_publish(struct events *ev, const struct event *v, size_t n, struct error *e) must_use;
enum err events_poll(struct events *ev, size_t max, struct arena *a, struct event_list *ret, struct error *e) must_use;
enum err events_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e) must_use;
enum err events_reset(struct events *ev, struct error *e) must_use;
size_t events_depth(struct events *ev);
void events_free(struct events *ev);
