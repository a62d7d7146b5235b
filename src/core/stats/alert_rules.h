#pragma once
/* core/stats/alert_rules.h - the alerts of deploy/monitoring/belfry.rules.yml, computed from figures of minutes.
 *
 * So an installation without Prometheus has them, too. The table in alert_rules.c and the rules have the same names,
 * severities, thresholds and `for`; a test compares them. An alert is judged at the end of each minute. It is pending
 * from the first minute on in which its condition holds, and fires once it has held for `for`. Figures decide, so that
 * every node comes to the same answer, and a new leader goes on where the last one was; but for struct alert_facts. */
#include "core/stats/stats_history.h"

enum alert_severity { ALERT_CRITICAL, ALERT_HIGH, ALERT_MEDIUM, ALERT_NONE };
enum alert_state { ALERT_INACTIVE, ALERT_PENDING, ALERT_FIRING };
extern const char *const alert_severity_names[], *const alert_state_names[];

enum {
    ALERTS_BACK_MINUTES = 1440,                          /* so far back the begin of an alert is looked for */
    ALERTS_HISTORY_MINUTES = 4320 + ALERTS_BACK_MINUTES, /* with the longest window, 3 days, before it */
    ALERTS_WRITTEN_MS = 10000, /* so long after its end a minute is judged: the rows of all nodes are there */
    ALERTS_UNCOUNTED_MS = 2 * STATS_MINUTE_MS, /* a backlog that was counted longer ago is not known */
};

/* What this node sees, and no figure tells: figures are in the store, which may be what is broken. */
struct alert_facts {
    int64_t nodes;                 /* that live */
    int64_t leaderless_since_ms;   /* 0: some node leads */
    int64_t uncounted_since_ms;    /* when the backlog was last counted; 0: it is, or another node counts it */
    int64_t store_lost_since_ms;   /* the store does not take what this node writes; 0: it does */
    int64_t claim_failures;        /* since then */
    int64_t clock_set_ms;          /* when the clock was set, in the last minutes; 0: it was not */
    int64_t clock_jump_ms;         /* by how much */
    int64_t backend_lost_since_ms; /* the queue, the events or the lease of the fleet cannot be reached; 0: they can */
    int64_t untold_since_ms;       /* so long something is due to be told, and is not; 0: nothing is */
};

struct alert {
    const char *name; /* also of its section in docs/RUNBOOK.md, in lower case */
    const char *summary, *unit;
    const char *when; /* it holds then, in words; NULL: above the threshold */
    enum alert_severity severity;
    enum alert_state state;
    double value, threshold;
    bool has_threshold;
    int64_t for_ms;
    int64_t since_ms; /* the first minute in which the condition held; 0: it does not hold, or that is not known */
};

enum { ALERTS_MAX = 32, ALERT_TEXT = 64 };

/* Judges all alerts at the end of the last minute of the history. Returns how many there are. */
size_t alerts_judge(const struct stats_history *h, const struct alert_facts *facts, struct alert ret[ALERTS_MAX]);

/* The value with its unit in words: "26 %", "1 server". */
void alert_value_text(const struct alert *a, char out[ALERT_TEXT]);
/* On which side of which limit it holds: "above 1 %", "below 1 server". The alert must have a threshold. */
void alert_limit_text(const struct alert *a, char out[ALERT_TEXT]);
