/* One row for each alert. Its function gives the value at the end of a minute, which is compared with the threshold.
 * If the condition has a second part, such as a least number of failures, its value is 0 while that does not hold. */
#include "core/stats/alert_rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *const alert_severity_names[] = {
    [ALERT_CRITICAL] = "critical", [ALERT_HIGH] = "high", [ALERT_MEDIUM] = "medium", [ALERT_NONE] = "none"
};
const char *const alert_state_names[] = {
    [ALERT_INACTIVE] = "inactive", [ALERT_PENDING] = "pending", [ALERT_FIRING] = "firing"
};

enum { FAILURES_LEAST = 20 };

/* ---- values ---- */

static double alert_ratio(int64_t part, int64_t of)
{
    return of > 0 ? (double)part / (double)of : 0;
}

static double alert_level(const struct stats_history *h, size_t at, enum stats_id id, double unit)
{
    return (double)h->v[at].v[id] / unit;
}

/* Due tasks that wait while none is claimed. */
static double alert_nothing_claimed(const struct stats_history *h, size_t at)
{
    return stats_history_sum(h, at, 2, STAT_CLAIMED) ? 0 : alert_level(h, at, STAT_BACKLOG, 1);
}

static double alert_dead_letters(const struct stats_history *h, size_t at)
{
    return (double)stats_history_sum(h, at, 5, STAT_FAILED) / 5;
}

static double alert_slow_runs(const struct stats_history *h, size_t at)
{
    return stats_history_quantile(h, at, 5, STAT_RUN_0, 0.95);
}

static int64_t alert_attempts(const struct stats_history *h, size_t at, size_t minutes)
{
    return stats_history_sum(h, at, minutes, STAT_EXECUTED) + stats_history_sum(h, at, minutes, STAT_LOST);
}

static double alert_failed_part(const struct stats_history *h, size_t at)
{
    return alert_ratio(stats_history_sum(h, at, 10, STAT_FAULTS), alert_attempts(h, at, 10));
}

static double alert_failures(const struct stats_history *h, size_t at)
{
    return stats_history_sum(h, at, 10, STAT_FAULTS) < FAILURES_LEAST ? 0 : alert_failed_part(h, at);
}

static double alert_late(const struct stats_history *h, size_t at)
{
    return stats_history_quantile(h, at, 5, STAT_DELAY_0, 0.99);
}

static double alert_backlog_growing(const struct stats_history *h, size_t at)
{
    return stats_history_slope(h, at, 10, STAT_BACKLOG);
}

static double alert_queue_deep(const struct stats_history *h, size_t at)
{
    return alert_level(h, at, STAT_BACKLOG, 1);
}

static double alert_busy(const struct stats_history *h, size_t at)
{
    return alert_level(h, at, STAT_BUSY_MILLI, 1000);
}

static double alert_low_waits(const struct stats_history *h, size_t at)
{
    return alert_level(h, at, STAT_LOW_WAIT_MS, 1000);
}

static double alert_recoveries(const struct stats_history *h, size_t at)
{
    return (double)stats_history_sum(h, at, 2, STAT_LOST) / 2;
}

static double alert_clock_skew(const struct stats_history *h, size_t at)
{
    return alert_level(h, at, STAT_SKEW_MS, 1000);
}

static double alert_store_slow(const struct stats_history *h, size_t at)
{
    return stats_history_quantile(h, at, 5, STAT_STORE_WAIT_0, 0.99);
}

static double alert_claims_failing(const struct stats_history *h, size_t at)
{
    return (double)stats_history_sum(h, at, 2, STAT_CLAIM_FAILURES) / 2;
}

/* ---- what the node sees ---- */

/* Each says since when its alert holds by what the node sees, and the value; 0: it does not. */

/* Nobody knows what waits, and nothing was claimed meanwhile. */
static int64_t alert_uncounted_since(const struct stats_history *h, const struct alert_facts *f, double *ret)
{
    int64_t since_ms = f->uncounted_since_ms + ALERTS_UNCOUNTED_MS;
    int64_t end_ms = h->from_ms + (int64_t)h->n * STATS_MINUTE_MS;
    size_t first = h->n;
    if (!f->uncounted_since_ms || since_ms > end_ms)
        return 0;
    while (first > 0 && h->n - first < ALERTS_BACK_MINUTES && !stats_history_sum(h, first - 1, 2, STAT_CLAIMED))
        first--;
    *ret = 1;
    return first < h->n ? max_of(since_ms, h->from_ms + (int64_t)first * STATS_MINUTE_MS) : 0;
}

static int64_t alert_store_lost_since(const struct stats_history *h, const struct alert_facts *f, double *ret)
{
    int64_t end_ms = h->from_ms + (int64_t)h->n * STATS_MINUTE_MS;
    double minutes = (double)max_of(end_ms - f->store_lost_since_ms, (int64_t)STATS_MINUTE_MS) / STATS_MINUTE_MS;
    *ret = (double)max_of(f->claim_failures, (int64_t)1) / minutes;
    return f->store_lost_since_ms;
}

static int64_t alert_clock_set_since(const struct stats_history *h, const struct alert_facts *f, double *ret)
{
    (void)h;
    *ret = (double)max_of(f->clock_jump_ms, -f->clock_jump_ms) / 1000;
    return f->clock_set_ms;
}

static int64_t alert_backend_lost_since(const struct stats_history *h, const struct alert_facts *f, double *ret)
{
    (void)h;
    *ret = 1;
    return f->backend_lost_since_ms;
}

/* ---- objectives: the part of the events of a window that were bad ---- */

typedef double alert_bad_fn(const struct stats_history *h, size_t at, size_t minutes);

static double alert_bad_starts(const struct stats_history *h, size_t at, size_t minutes)
{
    int64_t all = 0, good = 0;
    for (size_t i = 0; i < STATS_BUCKETS_COUNT; i++) {
        int64_t n = stats_history_sum(h, at, minutes, (enum stats_id)(STAT_DELAY_0 + i));
        all += n;
        good += stats_bounds_us[i] <= 5000000 ? n : 0;
    }
    return alert_ratio(all - good, all);
}

static double alert_bad_attempts(const struct stats_history *h, size_t at, size_t minutes)
{
    return alert_ratio(stats_history_sum(h, at, minutes, STAT_BELFRY_FAULTS), alert_attempts(h, at, minutes));
}

static double alert_bad_requests(const struct stats_history *h, size_t at, size_t minutes)
{
    return alert_ratio(stats_history_sum(h, at, minutes, STAT_REQUEST_ERRORS),
                       stats_history_sum(h, at, minutes, STAT_REQUESTS));
}

static double alert_lower(double a, double b)
{
    return a < b ? a : b;
}

/* How many times the budget was used: 14.4 times within 1 h and 5 min, or 6 times within 6 h and 30 min. The second is
 * scaled to the first. */
static double alert_fast_burn(alert_bad_fn *bad, double budget, const struct stats_history *h, size_t at)
{
    double hour = alert_lower(bad(h, at, 60), bad(h, at, 5));
    double quarter = alert_lower(bad(h, at, 360), bad(h, at, 30)) * 14.4 / 6;
    return (hour > quarter ? hour : quarter) / budget;
}

/* The same within 3 days and 6 h. */
static double alert_slow_burn(alert_bad_fn *bad, double budget, const struct stats_history *h, size_t at)
{
    return alert_lower(bad(h, at, 4320), bad(h, at, 360)) / budget;
}

#define BURN(what, bad, budget)                                                                                        \
    static double alert_##what##_fast(const struct stats_history *h, size_t at)                                        \
    {                                                                                                                  \
        return alert_fast_burn(bad, budget, h, at);                                                                    \
    }                                                                                                                  \
    static double alert_##what##_slow(const struct stats_history *h, size_t at)                                        \
    {                                                                                                                  \
        return alert_slow_burn(bad, budget, h, at);                                                                    \
    }
BURN(start, alert_bad_starts, 0.001)
BURN(success, alert_bad_attempts, 0.0001)
BURN(api, alert_bad_requests, 0.001)
#undef BURN

/* ---- the table ---- */

#define STARTS   "Tasks start more than 5 s late"
#define ATTEMPTS "Attempts fail by faults of Belfry"
#define REQUESTS "Requests are answered with 500 or 503"
#define FAST     ": the error budget of a month for that is used up within days"
#define SLOW     ": the error budget of a month for that is used up before its end"

/* Alerts without a function go by struct alert_facts in their own way. */
/* clang-format off */
static const struct alert_rule {
    const char *name;
    enum alert_severity severity;
    int for_minutes;
    double threshold; /* it holds above it */
    double (*value)(const struct stats_history *h, size_t at);
    const char *unit, *summary;
    int64_t (*since)(const struct stats_history *h, const struct alert_facts *f, double *ret);
    const char *when;                                          /* it holds then; NULL: above the threshold */
    double (*shown)(const struct stats_history *h, size_t at); /* the value while it does not hold; NULL: the same */
} alert_rules[] = {
    { "BelfryDown", ALERT_CRITICAL, 1, 0, NULL, "servers", "No server of Belfry answers", .when = "below 1 server" },
    { "BelfryNothingClaimed", ALERT_CRITICAL, 5, 0, alert_nothing_claimed, "tasks", "Due tasks wait, and none is claimed", alert_uncounted_since, .when = "above 0 tasks, if none is claimed for 2 min" },
    { "BelfryDeadLetters", ALERT_HIGH, 10, 10, alert_dead_letters, "tasks/min", "Tasks become dead letters" },
    { "BelfrySlowRuns", ALERT_HIGH, 15, 30, alert_slow_runs, "s", "One in 20 attempts runs for longer than 30 s" },
    { "BelfryFailures", ALERT_HIGH, 5, 0.01, alert_failures, "ratio", "More than 1 % of the attempts fail", .when = "above 1 %, if at least 20 fail in 10 min", .shown = alert_failed_part },
    { "BelfryLate", ALERT_HIGH, 5, 5, alert_late, "s", "One in 100 tasks starts more than 5 s late" },
    { "BelfryBacklogGrowing", ALERT_MEDIUM, 15, 500, alert_backlog_growing, "tasks/min", "The backlog grows" },
    { "BelfryQueueDeep", ALERT_MEDIUM, 5, 1000, alert_queue_deep, "tasks", "More than 1,000 due tasks wait" },
    { "BelfryBusy", ALERT_MEDIUM, 10, 0.8, alert_busy, "ratio", "More than 80 % of the worker slots are in use" },
    { "BelfryLowWaits", ALERT_MEDIUM, 1, 300, alert_low_waits, "s", "A due task of low priority has waited for more than 5 min" },
    { "BelfryNoLeader", ALERT_MEDIUM, 2, 0, NULL, "leaders", "No node of the cluster leads", .when = "below 1 leader" },
    { "BelfryRecoveries", ALERT_MEDIUM, 5, 0, alert_recoveries, "tasks/min", "Claims of processes that died are released again and again" },
    { "BelfryClockSkew", ALERT_MEDIUM, 2, 0.5, alert_clock_skew, "s", "The clock of a node differs from that of the store", alert_clock_set_since },
    { "BelfryNotificationsStuck", ALERT_MEDIUM, 1, 300, NULL, "s", "A notification has been due for more than 5 min" },
    { "BelfryStoreSlow", ALERT_MEDIUM, 5, 1, alert_store_slow, "s", "One in 100 operations waits for more than 1 s for the store" },
    { "BelfryClaimsFailing", ALERT_MEDIUM, 5, 0, alert_claims_failing, "claims/min", "The store does not answer claims", alert_store_lost_since },
    { "BelfryBackendDown", ALERT_MEDIUM, 1, 0, NULL, "backends", "The queue, the events or the lease of the fleet cannot be reached", alert_backend_lost_since },
    { "BelfryStartBudgetFast", ALERT_CRITICAL, 0, 14.4, alert_start_fast, "x budget", STARTS FAST },
    { "BelfryStartBudgetSlow", ALERT_MEDIUM, 0, 1, alert_start_slow, "x budget", STARTS SLOW },
    { "BelfrySuccessBudgetFast", ALERT_CRITICAL, 0, 14.4, alert_success_fast, "x budget", ATTEMPTS FAST },
    { "BelfrySuccessBudgetSlow", ALERT_MEDIUM, 0, 1, alert_success_slow, "x budget", ATTEMPTS SLOW },
    { "BelfryApiBudgetFast", ALERT_CRITICAL, 0, 14.4, alert_api_fast, "x budget", REQUESTS FAST },
    { "BelfryApiBudgetSlow", ALERT_MEDIUM, 0, 1, alert_api_slow, "x budget", REQUESTS SLOW },
    { "BelfryWatchdog", ALERT_NONE, 0, 0, NULL, "", "Always fires: if it does not arrive, alerting is broken" },
};
/* clang-format on */
static_assert(array_count(alert_rules) <= ALERTS_MAX, "raise ALERTS_MAX");

/* ---- for people ---- */

static void alert_number_text(const char *unit, double value, char out[ALERT_TEXT])
{
    static const struct {
        const char *unit, *one, *many;
        double factor;
    } words[] = {
        { "ratio", "%", "%", 100 },
        { "servers", "server", "servers", 1 },
        { "leaders", "leader", "leaders", 1 },
        { "backends", "backend", "backends", 1 },
        { "tasks", "task", "tasks", 1 },
        { "tasks/min", "task a minute", "tasks a minute", 1 },
        { "claims/min", "claim a minute", "claims a minute", 1 },
        { "x budget", "times the budget", "times the budget", 1 },
    };
    const char *word = unit;
    double factor = 1;
    for (size_t i = 0; i < array_count(words); i++)
        if (strcmp(words[i].unit, unit) == 0) {
            factor = words[i].factor;
            word = value * factor == 1 ? words[i].one : words[i].many;
        }
    value *= factor;
    snprintf(out, ALERT_TEXT, value > -1000 && value < 1000 ? "%.3g%s%s" : "%.0f%s%s", value, *word ? " " : "", word);
}

void alert_value_text(const struct alert *a, char out[ALERT_TEXT])
{
    alert_number_text(a->unit, a->value, out);
}

void alert_limit_text(const struct alert *a, char out[ALERT_TEXT])
{
    char number[ALERT_TEXT];
    alert_number_text(a->unit, a->threshold, number);
    snprintf(out, ALERT_TEXT, "%s%s", a->when ? a->when : "above ", a->when ? "" : number);
}

/* ---- judging ---- */

static void alert_judge_figures(const struct alert_rule *r, const struct stats_history *h, struct alert *ret)
{
    size_t last = h->n - 1, first = last;
    ret->value = r->value(h, last);
    if (ret->value <= r->threshold) {
        ret->value = r->shown ? r->shown(h, last) : ret->value;
        return;
    }
    while (first > 0 && last - first < ALERTS_BACK_MINUTES && r->value(h, first - 1) > r->threshold)
        first--;
    ret->since_ms = h->from_ms + (int64_t)first * STATS_MINUTE_MS;
    ret->state = last - first >= (size_t)r->for_minutes ? ALERT_FIRING : ALERT_PENDING;
}

/* Facts may tell of it earlier than figures do, or if no figures can be written. */
static void alert_judge_since(const struct alert_rule *r, const struct stats_history *h,
                              const struct alert_facts *facts, struct alert *ret)
{
    double value = 0;
    int64_t since_ms = r->since(h, facts, &value), end_ms = h->from_ms + (int64_t)h->n * STATS_MINUTE_MS;
    if (!since_ms || (ret->since_ms && ret->since_ms <= since_ms))
        return;
    ret->value = value > ret->value ? value : ret->value;
    ret->since_ms = since_ms;
    ret->state = end_ms - since_ms >= ret->for_ms ? ALERT_FIRING : ALERT_PENDING;
}

/* Holds above its threshold, as an alert of figures does. */
static void alert_judge_untold(int64_t end_ms, int64_t untold_since_ms, struct alert *ret)
{
    int64_t waited_ms = untold_since_ms ? max_of(end_ms - untold_since_ms, (int64_t)0) : 0;
    int64_t limit_ms = (int64_t)ret->threshold * 1000;
    ret->value = (double)waited_ms / 1000;
    if (waited_ms <= limit_ms)
        return;
    ret->since_ms = (untold_since_ms + limit_ms) / STATS_MINUTE_MS * STATS_MINUTE_MS;
    ret->state = waited_ms >= limit_ms + ret->for_ms ? ALERT_FIRING : ALERT_PENDING;
}

/* The alerts that no figure tells of. The others hold if the value is 0. */
static void alert_judge_facts(const struct stats_history *h, const struct alert_facts *facts, struct alert *ret)
{
    int64_t end_ms = h->from_ms + (int64_t)h->n * STATS_MINUTE_MS;
    if (strcmp(ret->name, "BelfryWatchdog") == 0) {
        ret->value = 1;
        ret->state = ALERT_FIRING;
        ret->has_threshold = false;
    } else if (strcmp(ret->name, "BelfryDown") == 0) {
        ret->value = (double)facts->nodes; /* who judges lives: it is never 0 */
    } else if (strcmp(ret->name, "BelfryNotificationsStuck") == 0) {
        alert_judge_untold(end_ms, facts->untold_since_ms, ret);
    } else {
        ret->value = facts->leaderless_since_ms ? 0 : 1;
        ret->since_ms = facts->leaderless_since_ms;
        if (facts->leaderless_since_ms)
            ret->state = end_ms - facts->leaderless_since_ms >= ret->for_ms ? ALERT_FIRING : ALERT_PENDING;
    }
}

size_t alerts_judge(const struct stats_history *h, const struct alert_facts *facts, struct alert ret[ALERTS_MAX])
{
    assert(h->n > 0);
    for (size_t i = 0; i < array_count(alert_rules); i++) {
        const struct alert_rule *r = &alert_rules[i];
        ret[i] = (struct alert){ .name = r->name,
                                 .summary = r->summary,
                                 .unit = r->unit,
                                 .when = r->when,
                                 .severity = r->severity,
                                 .threshold = r->threshold,
                                 .has_threshold = true,
                                 .for_ms = (int64_t)r->for_minutes * STATS_MINUTE_MS };
        if (r->value)
            alert_judge_figures(r, h, &ret[i]);
        if (r->since)
            alert_judge_since(r, h, facts, &ret[i]);
        if (!r->value && !r->since)
            alert_judge_facts(h, facts, &ret[i]);
    }
    return array_count(alert_rules);
}
