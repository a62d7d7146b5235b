#pragma once
/* api/server/key_failures.h - requests without a valid API key: counted by their reason, logged, and limited for each
 * address (http/peers.h: of IPv6, its /64).
 *
 * An address may send 10 wrong keys a second. After that, its keys are refused without a look into the store, until
 * there is room again. A key that the cache knows is not affected: a client with a valid key is not locked out by
 * another one behind the same proxy. A missing or malformed key is counted, but not limited: it costs nothing.
 *
 * Any thread. */
#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "base/metrics.h"
#include "http/peers.h"
#include "port/clock.h"

#define KEY_FAILURE_MAP(X)                                                                                             \
    X(MISSING, "missing")                                                                                              \
    X(MALFORMED, "malformed")                                                                                          \
    X(REFUSED, "refused")                                                                                              \
    X(LIMITED, "limited")

enum key_failure {
#define X(id, name) KEY_FAILURE_##id,
    KEY_FAILURE_MAP(X)
#undef X
};

enum { KEY_FAILURES_PER_SECOND = 10, KEY_FAILURES_ADDRESSES = 4096 };

struct key_failures {
    struct clock *clock;
    struct metrics *metrics;
    pthread_mutex_t lock;
    struct map addresses; /* struct key_failure_address, at most KEY_FAILURES_ADDRESSES */
    struct list by_age;   /* the same; the one whose last failure is oldest is first */
    int64_t logged_ns;    /* the last line in the log; 0: none */
};

void key_failures_init(struct key_failures *f, struct clock *clock, struct metrics *metrics);
void key_failures_release(struct key_failures *f);

void key_failures_add(struct key_failures *f, const union peer *peer, enum key_failure reason);
/* Whether the address has failed too often in the last second. If so, that is counted. */
bool key_failures_limits(struct key_failures *f, const union peer *peer);
