#pragma once
/* core/sharing/breaker.h - circuit breakers: who keeps failing is left alone for a while (R3.6).
 *
 * CLOSED: everything goes, and outcomes are counted over a sliding window. Too many failures: OPEN, nothing goes until its time is over.
 * Then HALF_OPEN: one trial at a time; its success closes the breaker, its failure opens it again. One state machine, two sets of
 * rules: a host (of one tenant: nobody's failures hold another's tasks), and a tenant as a whole, which goes on with one a minute until
 * one succeeds. Besides, a host's Retry-After holds everything for that host, whatever the state.
 *
 * What may not go now is told when to come again. Those times are spread, one a millisecond, so that a backlog of any size neither
 * comes back all at once nor is asked over and over.
 *
 * A clock that is set back moves all times with it; times within a second of each other may come in any order. */
#include "base/list.h"
#include "base/map.h"
#include "core/target/target_url.h"
#include "core/task/settle.h"

struct breaker_rules {
    int64_t window_ms;
    int total_min, failures_percent; /* opens when there were this many, and more than that failed */
    int64_t open_ms;
    bool follows_retry_after;
};
extern const struct breaker_rules breaker_host;   /* over 50 % of at least 10 in a minute: 30 s */
extern const struct breaker_rules breaker_tenant; /* over 90 % of at least 20 in five minutes: a minute */

enum {
    BREAKER_SLICES = 12,            /* of the window */
    BREAKER_HOLD_MAX_MS = 3600000,  /* the longest Retry-After that holds the others, too */
    BREAKER_SPREAD_MAX_MS = 600000, /* what is held comes back within this time */
    BREAKER_TRIAL_WAIT_MS = 1000,   /* for others, while a trial runs */
    BREAKER_TRIAL_GRACE_MS = 10000, /* a trial that has not been reported this long after its timeout is forgotten */
};

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };
const char *breaker_state_name(enum breaker_state s); /* "closed", "open", "half-open" */

struct breaker {
    const struct breaker_rules *rules;
    enum breaker_state state;
    int64_t since_ms;       /* of this state */
    int64_t until_ms;       /* OPEN */
    int64_t hold_until_ms;  /* by Retry-After; 0: not */
    int64_t trial_until_ms; /* HALF_OPEN: a trial runs, and is forgotten then; 0: none does */
    int64_t last_given_ms;  /* the latest time that was given to one that was held */
    int64_t held;           /* how often one was, since it last closed */
    int64_t seen_ms;        /* the latest time that it was told */
    int64_t slice;          /* number of the newest one */
    int total, failures;    /* over all slices */
    struct {
        int total, failures;
    } slices[BREAKER_SLICES];
};

void breaker_init(struct breaker *b, const struct breaker_rules *rules, int64_t now_ms);

/* Whether one may go now; if not, until when it is held, a time that nobody else was given. One that goes as a trial says so when it
 * is reported; its timeout_ms bounds how long it is waited for. */
struct breaker_answer {
    bool go, trial;
    int64_t until_ms;
};
struct breaker_answer breaker_ask(struct breaker *b, int64_t timeout_ms, int64_t now_ms);
bool breaker_would_go(struct breaker *b, int64_t now_ms); /* the same question, and nothing is changed by it */

/* What came of one that went. Every trial must be reported, whatever became of it. */
void breaker_report(struct breaker *b, bool trial, const struct outcome *o, int64_t now_ms);

/* Connect, TLS, timeout, network, 5xx and 429 are failures; success and any other answer are signs of life; what never called (refused,
 * cancelled, returned, lost …) says nothing. */
enum breaker_sign { BREAKER_NOTHING, BREAKER_ALIVE, BREAKER_FAILURE };
enum breaker_sign breaker_sign_of(const struct outcome *o);

/* For metrics, status and explain. until_ms: when the next may go, by the state or by Retry-After; 0: now. */
struct breaker_status {
    enum breaker_state state;
    bool held_by_retry_after;
    int64_t since_ms, until_ms;
    int failures, total; /* in the window */
    int64_t held;
};
struct breaker_status breaker_status(struct breaker *b, int64_t now_ms);

/* ---- all of them ---- */

/* Of each tenant, and of each host that it calls; at most max. When there are more, one that is closed and was not used for long
 * goes; if all those are open, the one not used for longest. */
struct breakers {
    struct map by_key;
    struct list recent; /* the least recently used first */
    size_t max;
};

void breakers_init(struct breakers *b, size_t max,
                   struct hash_key key); /* max at least 32; a random key: hosts are users' */
void breakers_release(struct breakers *b);

/* Asks the tenant's and the host's breaker (host: as target_host gives it, empty when it calls none). Both must let it go; keep the answer for the report. */
struct breakers_answer {
    bool go;
    bool host_trial, tenant_trial;
    bool by_tenant; /* the tenant's holds it, else the host's */
    int64_t until_ms;
};
struct breakers_answer breakers_ask(struct breakers *b, int32_t tenant, struct str host, int64_t timeout_ms,
                                    int64_t now_ms);
void breakers_report(struct breakers *b, int32_t tenant, struct str host, const struct breakers_answer *went,
                     const struct outcome *o, int64_t now_ms);

/* Without making one: false if there is none, and so nothing that holds anybody. An empty host: the tenant's own. */
bool breakers_status(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_status *ret);

/* Each that is not simply closed, in no order; the callback must not change the table. */
struct breaker_view {
    int32_t tenant;
    struct str host; /* empty: the tenant's own */
    struct breaker_status status;
};
void breakers_each(struct breakers *b, int64_t now_ms, void (*see)(void *context, const struct breaker_view *),
                   void *context);
