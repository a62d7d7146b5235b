#pragma once
/* tests/conformance/events/events_world.h - what each test of the events' suite starts with: no events, one who publishes, one who polls.
 *
 * A test that needs more than an adapter's row says it has is skipped. */
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
    /* One more handle of the events of that name, which nobody used before this test. */
    struct events *(*open)(const char *prefix);
    void (*close)(struct events *);
    bool far;        /* over a network: what was published comes after a while, and waiting is real */
    bool several;    /* updaters share the events, and take over what one that is gone had polled */
    bool counts;     /* depth is exact */
    bool keeps_acks; /* each ack holds for ever, also when one before it never came */
};
extern const struct events_adapter *adapter_under_test;
const struct events_adapter *events_adapter_of(int argc, char **argv);

struct world {
    char prefix[EVENTS_PREFIX];
    struct events *publisher;
    struct events *updaters[UPDATERS]; /* the first one; others when a test opens them */
    struct arena arena;
    struct uuid_gen ids;
    struct uuid task; /* the one that events_of_fence are about */
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
void publish_fences(struct world *w, int64_t from, int64_t to); /* of one task, so that their order holds */

void open_updater(struct world *w, int updater);
void updater_dies(struct world *w, int updater);

/* One call; until n are there, and no more come; nothing comes. */
struct event_list poll_once(struct world *w, int updater, size_t max, int64_t wait_ms);
struct event_list poll_exactly(struct world *w, int updater, size_t n);
void poll_none(struct world *w, int updater);

void ack(struct world *w, int updater, const struct event *event);
void reset(struct world *w, int updater);
struct events_barrier mark(struct world *w);
bool passed(struct world *w, const struct events_barrier *m);
void wait_passed(struct world *w, const struct events_barrier *m);
void assert_fences(const struct event_list *l, int64_t from, int64_t to); /* from … to, in this order */
