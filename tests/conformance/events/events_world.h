#pragma once
/* tests/conformance/events/events_world.h - the fixture of the events' suite: no events, one publisher, one updater.
 * A test that needs more than an adapter's row offers is skipped. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "needs.h"
#include "port/events.h"
#include "seed.h"

#define NOW INT64_C(1770710400000)

enum { UPDATERS = 3, ENOUGH_MS = 20000, A_MOMENT_MS = 30, EVENTS_PREFIX = 64 };

struct events_adapter {
    const char *name;
    /* Opens one more handle of the events with this name. No test used the name before. */
    struct events *(*open)(const char *prefix);
    void (*close)(struct events *);
    bool far;        /* over a network: events come after a while, and waiting takes real time */
    bool several;    /* updaters share the events; if one is gone, the others get the events that it had polled */
    bool counts;     /* depth is exact */
    bool keeps_acks; /* an ack is permanent, even if an earlier event was never acknowledged */
};
extern const struct events_adapter *adapter_under_test;
const struct events_adapter *events_adapter_of(int argc, char **argv);

struct world {
    char prefix[EVENTS_PREFIX];
    struct events *publisher;
    struct events *updaters[UPDATERS]; /* the first is open; tests open the others */
    struct arena arena;
    struct uuid_gen ids;
    struct uuid task; /* the task of the events made by fence */
};

int world_open(void **state);
int world_close(void **state);
#define events_test(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

struct test_list {
    const struct CMUnitTest *v;
    size_t n;
};
extern const struct test_list carry_tests, updater_tests;

int64_t monotonic_ms(void);
struct event event_of(struct world *w, struct uuid task, int64_t fence);
void publish(struct world *w, const struct event *v, size_t n);
void publish_fences(struct world *w, int64_t from, int64_t to); /* events of one task, so that they keep their order */

void open_updater(struct world *w, int updater);
void updater_dies(struct world *w, int updater);

/* poll_once: one call. poll_exactly: until n have come, and no more come. poll_none: nothing comes. */
struct event_list poll_once(struct world *w, int updater, size_t max, int64_t wait_ms);
struct event_list poll_exactly(struct world *w, int updater, size_t n);
void poll_none(struct world *w, int updater);

void ack(struct world *w, int updater, const struct event *event);
void reset(struct world *w, int updater);
struct events_barrier mark(struct world *w);
bool passed(struct world *w, const struct events_barrier *m);
void wait_passed(struct world *w, const struct events_barrier *m);
void assert_fences(const struct event_list *l, int64_t from, int64_t to); /* from … to, in this order */
