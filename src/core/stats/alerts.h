#pragma once
/* core/stats/alerts.h - the alerts of deploy/monitoring/belfry.rules.yml, computed from figures of minutes.
 *
 * So an installation without Prometheus has them, too. The table in alerts.c and the rules have the same names,
 * severities, thresholds and `for`; a test compares them. An alert is judged at the end of each minute. It is pending
 * from the first minute on in which its condition holds, and fires once it has held for `for`. Figures alone decide, so
 * that every node comes to the same answer, and a new leader goes on where the last one was. */
#include "core/stats/stats_history.h"

enum alert_severity { ALERT_CRITICAL, ALERT_HIGH, ALERT_MEDIUM, ALERT_NONE };
enum alert_state { ALERT_INACTIVE, ALERT_PENDING, ALERT_FIRING };
extern const char *const alert_severity_names[], *const alert_state_names[];

enum {
    ALERTS_BACK_MINUTES = 1440,                          /* so far back the begin of an alert is looked for */
    ALERTS_HISTORY_MINUTES = 4320 + ALERTS_BACK_MINUTES, /* with the longest window, 3 days, before it */
    ALERTS_WRITTEN_MS = 10000, /* so long after its end a minute is judged: the rows of all nodes are there */
};

/* What this node sees, and no figure tells. */
struct alert_facts {
    int64_t nodes;               /* that live */
    int64_t leaderless_since_ms; /* 0: some node leads */
    int64_t untold_since_ms;     /* so long something is due to be told, and is not; 0: nothing is */
};

struct alert {
    const char *name; /* also of its section in docs/RUNBOOK.md, in lower case */
    const char *summary, *unit;
    enum alert_severity severity;
    enum alert_state state;
    double value, threshold;
    bool has_threshold;
    int64_t for_ms;
    int64_t since_ms; /* the first minute in which the condition held; 0: it does not hold, or that is not known */
};

enum { ALERTS_MAX = 32 };

/* Judges all alerts at the end of the last minute of the history. Returns how many there are. */
size_t alerts_judge(const struct stats_history *h, const struct alert_facts *facts, struct alert ret[ALERTS_MAX]);
