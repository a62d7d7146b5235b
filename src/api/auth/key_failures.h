#pragma once
/* api/auth/key_failures.h - requests without a valid API key: counted by their reason, recorded, and limited for each
 * address (http/peers.h: of IPv6, its /64).
 *
 * A key is always looked up first, so a valid key passes whatever else comes from its address: behind a proxy, all
 * clients have one. After 10 wrong keys in a second, the next ones get 429 in place of 401. The lookups of unknown keys
 * share one turn at the pool (pool.h), so they delay the requests of a tenant by one each. A missing or malformed key
 * is counted, but not limited: it costs nothing.
 *
 * Each failure but a missing key is recorded, in the log and the audit table. Failures of one address, reason and key
 * are a line. Its first failure is recorded at once, if none was in the last second, and the rest when the minute ends.
 * So that they cannot fill the disk, a minute has a fixed number of lines; failures beyond them are counted by their
 * reason only.
 *
 * Any thread. */
#include <pthread.h>

#include "api/auth/auth.h"
#include "base/metrics.h"
#include "http/peer_buckets.h"
#include "port/clock.h"

#define KEY_FAILURE_MAP(X)                                                                                             \
    X(MISSING, "missing")                                                                                              \
    X(MALFORMED, "malformed")                                                                                          \
    X(REFUSED, "refused")                                                                                              \
    X(REVOKED, "revoked")                                                                                              \
    X(EXPIRED, "expired")                                                                                              \
    X(LIMITED, "limited")

enum key_failure {
#define X(id, name) KEY_FAILURE_##id,
    KEY_FAILURE_MAP(X)
#undef X
        KEY_FAILURE_COUNT
};
const char *key_failure_name(enum key_failure reason);

enum {
    KEY_FAILURES_PER_SECOND = 10,
    KEY_FAILURES_ADDRESSES = 4096,
    KEY_FAILURES_MINUTE_MS = 60000,
    KEY_FAILURES_LINES = 60, /* of keys that are not known, and as many of revoked and expired keys */
    KEY_FAILURES_ROWS = 2 * KEY_FAILURES_LINES + KEY_FAILURE_COUNT
};

/* What is recorded. */
struct key_failure_row {
    union peer peer;
    bool is_of_others; /* of several addresses, which had no line of their own */
    enum key_failure reason;
    struct identity who; /* of a revoked or expired key; else only the tenant `default` */
    int64_t count;
};

struct key_failures {
    struct clock *clock;
    struct metrics *metrics;
    pthread_mutex_t lock;
    struct peer_buckets addresses;
    struct key_failure_row lines[2][KEY_FAILURES_LINES]; /* [1]: of keys that are known */
    size_t line_count[2];
    int64_t others[KEY_FAILURE_COUNT];
    bool has_timer;      /* key_failures_take will be called */
    int64_t recorded_ns; /* when a first failure was recorded; 0: never */
};

void key_failures_init(struct key_failures *f, struct clock *clock, struct metrics *metrics);
void key_failures_release(struct key_failures *f);

struct key_refusal {
    bool limited; /* the address has sent too many wrong keys in the last second; this one is counted as `limited` */
    bool starts;  /* a minute begins: call key_failures_take when it ends */
    bool is_due;  /* record this row now */
    struct key_failure_row row;
};

/* Counts a failure. LIMITED is not a reason to pass. who: of a key that was revoked or has expired; else NULL. */
struct key_refusal key_failures_add(struct key_failures *f, const union peer *peer, enum key_failure reason,
                                    const struct identity *who);

/* The minute has ended: what to record. Returns the number of rows. *ret_again: another minute begins, because some
 * failures were counted in this one. */
size_t key_failures_take(struct key_failures *f, struct key_failure_row rows[KEY_FAILURES_ROWS], bool *ret_again);
