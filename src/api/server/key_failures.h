#pragma once
/* api/server/key_failures.h - requests without a valid API key: counted by their reason, logged, and limited for each
 * address (http/peers.h: of IPv6, its /64).
 *
 * A key is always looked up first, so a valid key passes whatever else comes from its address: behind a proxy, all
 * clients have one. After 10 wrong keys in a second, the next ones get 429 in place of 401. The lookups of unknown keys
 * share one turn at the pool (pool.h), so they delay the requests of a tenant by one each. A missing or malformed key
 * is counted, but not limited: it costs nothing.
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

struct key_refusal {
    bool limited; /* the address has sent too many wrong keys in the last second; this one is counted as `limited` */
    int64_t unrecorded; /* failures of the address that the log has a line for now, and the audit table gets a row: */
    const char *reason; /* at most one a minute for an address, and one a second in all. 0: none now */
};

/* Counts a failure. LIMITED is not a reason to pass. */
struct key_refusal key_failures_add(struct key_failures *f, const union peer *peer, enum key_failure reason);
