#pragma once
/* core/sharing/breaker.h - circuit breakers: stop calling a host, or all failing hosts of a tenant, while they fail.
 *
 * States:
 * - CLOSED: all calls go. Outcomes are counted over a sliding window. A failure that makes too many opens the breaker.
 * - OPEN: no call goes until open_ms have passed. Then the breaker is HALF_OPEN.
 * - HALF_OPEN: one trial call at a time. If it succeeds, the breaker closes; if it fails, the breaker opens again.
 *
 * Two sets of rules:
 * - breaker_host: each host of each tenant has a breaker of its own. One tenant's failures never hold another tenant's
 *   tasks. A host's Retry-After also holds all calls to that host, in any state.
 * - breaker_tenant: each tenant that calls hosts has one more breaker, for trouble that no host causes alone: the
 *   tenant's network, its credentials, a provider with many names. It opens if calls fail on at least hosts_min hosts.
 *   Hosts whose own breaker is open, or opened within the window, do not count. While it is open, it holds calls to
 *   hosts without a sign of life within the window. All others go on.
 *
 * A call that may not go gets the time at which to ask again. These times are spread, one a millisecond, so that a
 * large backlog neither returns all at once nor asks over and over.
 *
 * A breaker is known to others by its news: openings and recoveries. They hold calls back by themselves, and can open
 * or close the breaker here (breakers_restore, breakers_close).
 *
 * If the clock is set back, all stored times move back with it. Times within one second of each other may come in any
 * order. */
#include "base/list.h"
#include "base/map.h"
#include "core/target/target_url.h"
#include "core/task/settle.h"

struct breaker_rules {
    int64_t window_ms;
    int total_min, failures_percent; /* opens if the window holds total_min outcomes and more than this share failed */
    int hosts_min;                   /* and at least so many hosts fail; 0: of one host */
    int64_t open_ms;
    bool follows_retry_after;
};
extern const struct breaker_rules breaker_host; /* over 50 % of at least 10 calls in 1 minute: open for 30 s */
/* over 90 % of at least 20 calls in 5 minutes, on at least 3 hosts: open for 1 minute */
extern const struct breaker_rules breaker_tenant;

enum {
    BREAKER_SLICES = 12,            /* a window is cut into this many */
    BREAKER_HOLD_MAX_MS = 3600000,  /* the longest Retry-After that holds the host's other calls, too */
    BREAKER_SPREAD_MAX_MS = 600000, /* held calls are spread over at most this time */
    BREAKER_TRIAL_WAIT_MS = 1000,   /* how long other calls wait while a trial runs */
    BREAKER_TRIAL_GRACE_MS = 10000, /* a trial that is not reported this long after its timeout is given up */
    BREAKER_SUM_MS = 1000,          /* between two looks at all hosts of a tenant */
};

/* The host under which a tenant's own breaker is known outside of this module. No URL has such a host. */
#define BREAKER_ANY_HOST S("*")

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };
const char *breaker_state_name(enum breaker_state s); /* "closed", "open", "half-open" */

/* Outcomes of calls. */
struct breaker_counts {
    int total, failures;
};

/* The outcomes of the last window_ms. */
struct breaker_window {
    int64_t slice;             /* the number of the newest slice */
    struct breaker_counts sum; /* over all slices */
    struct breaker_counts slices[BREAKER_SLICES];
};

struct breaker {
    const struct breaker_rules *rules;
    enum breaker_state state;
    int64_t since_ms;                 /* when the current state began */
    int64_t until_ms;                 /* end of OPEN */
    int64_t opened_ms;                /* when it last opened; 0: never */
    int64_t alive_ms;                 /* the last sign of life; 0: none */
    int64_t hold_until_ms;            /* end of the hold by Retry-After; 0: no hold */
    int64_t trial_until_ms;           /* HALF_OPEN: when the running trial is given up; 0: no trial runs */
    int64_t last_given_ms;            /* the latest time given to a held call */
    bool told;                        /* others know that it is open (breaker_news) */
    int64_t told_until_ms;            /* until when, as far as they know */
    bool restored;                    /* others opened it: what they know of its hosts is not known here */
    int64_t held;                     /* how many times a call was held since the breaker last closed */
    int64_t seen_ms;                  /* the latest time passed in */
    struct breaker_counts at_opening; /* the window when it left CLOSED */
    struct breaker_window window;     /* by the breaker's own rules. Counts while the breaker is CLOSED */
    struct breaker_window for_tenant; /* of a host: by the rules of breaker_tenant. Counts in any state */
};

void breaker_init(struct breaker *b, const struct breaker_rules *rules, int64_t now_ms);

/* Says whether a call may go now. If not, until_ms is a time that no other call was given. If `trial` is set, the
 * caller passes it back to breaker_report; timeout_ms bounds how long the breaker waits for that report. */
struct breaker_answer {
    bool go, trial;
    int64_t until_ms;
};
struct breaker_answer breaker_ask(struct breaker *b, int64_t timeout_ms, int64_t now_ms);
/* the same answer without starting a trial or assigning a time */
bool breaker_would_go(struct breaker *b, int64_t now_ms);

/* Reports the outcome of a call that went. Every trial must be reported, whatever its outcome. A breaker with hosts_min
 * does not open by itself: the table below opens it. */
void breaker_report(struct breaker *b, bool trial, const struct outcome *o, int64_t now_ms);

void breaker_open(struct breaker *b, struct breaker_counts counts, int64_t now_ms);
/* As breakers_restore and breakers_allow_trial, of one breaker. */
void breaker_restore(struct breaker *b, struct breaker_counts counts, int64_t until_ms, int64_t now_ms);
void breaker_allow_trial(struct breaker *b, int64_t now_ms);
/* Also ends a hold by Retry-After. Outcomes so far no longer count. No news comes of it. */
void breaker_close(struct breaker *b, int64_t now_ms);

/* What a breaker's report means to others that hold calls for its sake. OPENED: no call goes until until_ms; counts are
 * those that opened it. RECOVERED: after OPENED, calls go again. */
enum breaker_news_kind {
    BREAKER_NO_NEWS,
    BREAKER_OPENED,
    BREAKER_RECOVERED,
    BREAKER_HELD,         /* by a worker: it holds a call */
    BREAKER_TRIAL_FAILED, /* by a worker whose own breaker is closed: a call failed that others sent as a trial */
};
struct breaker_news {
    enum breaker_news_kind kind;
    bool by_retry_after; /* OPENED: only because the host asked for it */
    int64_t until_ms;
    struct breaker_counts counts;
};
/* What has changed since the last call. */
struct breaker_news breaker_news(struct breaker *b, int64_t now_ms);

/* Whether so many failures open a breaker with these rules, hosts_min aside. */
bool breaker_is_exceeded(const struct breaker_rules *r, struct breaker_counts c);

/* What a host's breaker says about its tenant: whether the host has shown a sign of life within the tenant's window;
 * and which outcomes count for the tenant: none if the host's own breaker is not closed, or opened within the window.
 * breaker_forget_for_tenant: the outcomes so far no longer count. */
bool breaker_is_alive(struct breaker *b, int64_t now_ms);
struct breaker_counts breaker_counts_for_tenant(struct breaker *b, int64_t now_ms);
void breaker_forget_for_tenant(struct breaker *b);

/* - FAILURE: connect, TLS, timeout, network, 5xx and 429.
 * - ALIVE: success, and any other answer.
 * - NOTHING: no call was made (refused, cancelled, returned, lost …). */
enum breaker_sign { BREAKER_NOTHING, BREAKER_ALIVE, BREAKER_FAILURE };
enum breaker_sign breaker_sign_of(const struct outcome *o);

/* For metrics, status and explain. until_ms: when the next call may go, by state or by Retry-After; 0: now. */
struct breaker_status {
    enum breaker_state state;
    bool held_by_retry_after;
    int64_t since_ms, until_ms;
    struct breaker_counts counts; /* CLOSED: in the window. Else those that opened it */
    int64_t held;
};
struct breaker_status breaker_status(struct breaker *b, int64_t now_ms);

/* ---- the table of all breakers ---- */

/* One breaker for each tenant that calls hosts and one for each of its hosts, at most max. If the table is full, adding
 * one evicts the least recently used breaker that is closed (among the 16 oldest), or else the least recently used
 * one. A tenant's breaker stays as long as one of its hosts. */
struct breakers {
    struct map by_key;
    struct list recent; /* least recently used first */
    size_t max;
};

void breakers_init(struct breakers *b, size_t max,
                   struct hash_key key); /* max: at least 32. key: random, since users choose the hosts */
void breakers_release(struct breakers *b);

/* Asks the tenant's and the host's breaker. host is as target_host returns it; if it is empty, the call goes. Keep
 * the answer for breakers_report. */
struct breakers_answer {
    bool go;
    bool host_trial, tenant_trial;
    bool by_tenant; /* the tenant's breaker holds the call, else the host's */
    int64_t until_ms;
};
struct breakers_answer breakers_ask(struct breakers *b, int32_t tenant, struct str host, int64_t timeout_ms,
                                    int64_t now_ms);
struct breakers_news {
    struct breaker_news host, tenant;
};
struct breakers_news breakers_report(struct breakers *b, int32_t tenant, struct str host,
                                     const struct breakers_answer *went, const struct outcome *o, int64_t now_ms);

/* Others know that the breaker is open until then, by these counts (empty host: the tenant's own): so it is open here,
 * too. Does nothing if it was told so before. A tenant's breaker that others opened holds only hosts that have failed
 * here: the others may be healthy. */
void breakers_restore(struct breakers *b, int32_t tenant, struct str host, int64_t until_ms,
                      struct breaker_counts counts, int64_t now_ms);
/* Each breaker notices by itself that the clock was set back, if it is asked meanwhile. This asks all. */
void breakers_on_clock_set_back(struct breakers *b, int64_t now_ms);
/* Others send a call as a trial: if the breaker is open, it is HALF_OPEN from now on. */
void breakers_allow_trial(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms);

/* One breaker as people see it. */
struct breaker_view {
    int32_t tenant;
    struct str host; /* empty: the tenant's own breaker */
    struct breaker_status status;
};

/* Which breaker would hold a call to the host now. Neither creates a breaker nor starts a trial. False: none. */
bool breakers_holds(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_view *ret);

/* False: there is no such breaker, and nothing is held. An empty host means the tenant's own breaker. */
bool breakers_status(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms, struct breaker_status *ret);

/* Closes a breaker by hand; empty host: the tenant's own. Also ends a hold by Retry-After. False: there is none. */
bool breakers_close(struct breakers *b, int32_t tenant, struct str host, int64_t now_ms);

/* Visits each breaker that is not CLOSED or is held by Retry-After, by tenant, then by host; a tenant's own breaker is
 * the first of its tenant. The callback must not change the table. */
void breakers_each(struct breakers *b, int64_t now_ms, void (*see)(void *context, const struct breaker_view *),
                   void *context);
