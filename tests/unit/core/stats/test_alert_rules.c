/* Each alert fires once its condition has held for its `for`, and is silent just below its threshold and just before. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/stats/alert_rules.h"

#define FROM INT64_C(1770710400000) /* 2026-02-10T08:00:00Z */
enum { MINUTES = 400, NO_MINUTE = -1 };

struct world {
    struct stats_history history;
    struct alert_facts facts;
    struct alert alerts[ALERTS_MAX];
};

/* A history in which each minute from `first` on has these figures; the minutes before are empty. */
static void begin(struct world *w, int first, const struct stats *each)
{
    *w = (struct world){ .facts.nodes = 1 };
    stats_history_init(&w->history, FROM, MINUTES);
    for (int i = first; i >= 0 && i < MINUTES; i++)
        stats_history_add(&w->history, FROM + (int64_t)i * STATS_MINUTE_MS, each);
    stats_history_close(&w->history);
}

static struct alert judge(struct world *w, const char *name)
{
    size_t n = alerts_judge(&w->history, &w->facts, w->alerts);
    for (size_t i = 0; i < n; i++)
        if (strcmp(w->alerts[i].name, name) == 0)
            return w->alerts[i];
    fail_msg("no alert is named %s", name);
    return (struct alert){ 0 };
}

static struct alert judged(const char *name, int first, const struct stats *each)
{
    struct world w;
    begin(&w, first, each);
    struct alert a = judge(&w, name);
    stats_history_release(&w.history);
    return a;
}

/* One or two figures that each minute has. */
struct given {
    enum stats_id id;
    int64_t n;
    enum stats_id also;
    int64_t also_n;
};

static struct stats stats_of(struct given g)
{
    struct stats s = { 0 };
    s.v[g.id] += g.n;
    s.v[g.also] += g.also_n;
    return s;
}

/* `minutes`: how many minutes of it are enough, with `for`. */
static const struct {
    const char *name;
    struct given below, above;
    int minutes;
} cases[] = {
    { "BelfryNothingClaimed", { STAT_BACKLOG, 5, STAT_CLAIMED, 1 }, { STAT_BACKLOG, 5 }, 6 },
    { "BelfryDeadLetters", { STAT_FAILED, 10 }, { STAT_FAILED, 11 }, 15 },
    { "BelfrySlowRuns", { STAT_RUN_0, 951, STAT_RUN_7, 49 }, { STAT_RUN_0, 949, STAT_RUN_7, 51 }, 16 },
    { "BelfryFailures", { STAT_EXECUTED, 1000, STAT_FAULTS, 10 }, { STAT_EXECUTED, 1000, STAT_FAULTS, 21 }, 6 },
    { "BelfryFailures", { STAT_EXECUTED, 3, STAT_FAULTS, 1 }, { STAT_EXECUTED, 3, STAT_FAULTS, 3 }, 12 },
    { "BelfryLate", { STAT_DELAY_0, 991, STAT_DELAY_6, 9 }, { STAT_DELAY_0, 989, STAT_DELAY_6, 11 }, 6 },
    { "BelfryQueueDeep", { STAT_BACKLOG, 1000 }, { STAT_BACKLOG, 1001 }, 6 },
    { "BelfryBusy", { STAT_BUSY_MILLI, 800 }, { STAT_BUSY_MILLI, 801 }, 11 },
    { "BelfryLowWaits", { STAT_LOW_WAIT_MS, 300000 }, { STAT_LOW_WAIT_MS, 300001 }, 2 },
    { "BelfryRecoveries", { STAT_LOST, 0 }, { STAT_LOST, 1 }, 6 },
    { "BelfryClockSkew", { STAT_SKEW_MS, 500 }, { STAT_SKEW_MS, 501 }, 3 },
    { "BelfryStoreSlow",
      { STAT_STORE_WAIT_0, 991, STAT_STORE_WAIT_5, 9 },
      { STAT_STORE_WAIT_0, 989, STAT_STORE_WAIT_5, 11 },
      6 },
    { "BelfryClaimsFailing", { STAT_CLAIM_FAILURES, 0 }, { STAT_CLAIM_FAILURES, 1 }, 6 },
    { "BelfryStartBudgetFast", { STAT_DELAY_0, 9942, STAT_DELAY_6, 58 }, { STAT_DELAY_0, 9850, STAT_DELAY_6, 150 }, 1 },
    { "BelfryStartBudgetSlow",
      { STAT_DELAY_0, 99910, STAT_DELAY_6, 90 },
      { STAT_DELAY_0, 99890, STAT_DELAY_6, 110 },
      1 },
    { "BelfrySuccessBudgetFast",
      { STAT_EXECUTED, 100000, STAT_BELFRY_FAULTS, 58 },
      { STAT_EXECUTED, 100000, STAT_BELFRY_FAULTS, 150 },
      1 },
    { "BelfrySuccessBudgetSlow",
      { STAT_EXECUTED, 100000, STAT_BELFRY_FAULTS, 9 },
      { STAT_EXECUTED, 100000, STAT_BELFRY_FAULTS, 11 },
      1 },
    { "BelfryApiBudgetFast",
      { STAT_REQUESTS, 10000, STAT_REQUEST_ERRORS, 58 },
      { STAT_REQUESTS, 10000, STAT_REQUEST_ERRORS, 150 },
      1 },
    { "BelfryApiBudgetSlow",
      { STAT_REQUESTS, 100000, STAT_REQUEST_ERRORS, 90 },
      { STAT_REQUESTS, 100000, STAT_REQUEST_ERRORS, 110 },
      1 },
};

static void it_fires_above_its_threshold_once_it_has_held_long_enough(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(cases); i++) {
        struct stats below = stats_of(cases[i].below), above = stats_of(cases[i].above);
        int first = MINUTES - cases[i].minutes;
        struct alert silent = judged(cases[i].name, 0, &below), soon = judged(cases[i].name, first + 1, &above),
                     fires = judged(cases[i].name, first, &above);
        if (silent.state != ALERT_INACTIVE || silent.since_ms || soon.state == ALERT_FIRING ||
            fires.state != ALERT_FIRING)
            fail_msg("%s: %d below, %d a minute before, %d (value %g, threshold %g)", cases[i].name, silent.state,
                     soon.state, fires.state, fires.value, fires.threshold);
        assert_true(fires.value > fires.threshold && fires.has_threshold);
    }
}

static void it_is_pending_since_its_first_minute(void **state)
{
    (void)state;
    struct stats deep = stats_of((struct given){ STAT_BACKLOG, 2000 });
    struct alert pending = judged("BelfryQueueDeep", MINUTES - 3, &deep);
    assert_int_equal(pending.state, ALERT_PENDING);
    assert_int_equal(pending.since_ms, FROM + (int64_t)(MINUTES - 3) * STATS_MINUTE_MS);
    struct alert fires = judged("BelfryQueueDeep", MINUTES - 30, &deep);
    assert_true(fires.state == ALERT_FIRING && fires.value == 2000 && fires.threshold == 1000);
    assert_int_equal(fires.since_ms, FROM + (int64_t)(MINUTES - 30) * STATS_MINUTE_MS);
    assert_true(fires.for_ms == 300000 && fires.severity == ALERT_MEDIUM);
}

static void few_failures_are_shown_but_do_not_fire(void **state)
{
    (void)state;
    struct stats each = { 0 };
    each.v[STAT_FAULTS] = 1;
    each.v[STAT_EXECUTED] = 4;
    struct alert a = judged("BelfryFailures", 0, &each);
    char text[ALERT_TEXT];
    assert_true(a.state == ALERT_INACTIVE && a.value == 0.25 && !a.since_ms);
    alert_value_text(&a, text);
    assert_string_equal(text, "25 %");
    alert_limit_text(&a, text);
    assert_string_equal(text, "above 1 %, if at least 20 fail in 10 min");
}

static void a_minute_below_begins_it_anew(void **state)
{
    (void)state;
    struct world w = { .facts.nodes = 1 };
    struct stats deep = stats_of((struct given){ STAT_BACKLOG, 2000 });
    stats_history_init(&w.history, FROM, MINUTES);
    for (int i = 0; i < MINUTES; i++)
        if (i != MINUTES - 4)
            stats_history_add(&w.history, FROM + (int64_t)i * STATS_MINUTE_MS, &deep);
    stats_history_close(&w.history);
    struct alert a = judge(&w, "BelfryQueueDeep");
    assert_true(a.state == ALERT_PENDING && a.since_ms == FROM + (int64_t)(MINUTES - 3) * STATS_MINUTE_MS);
    stats_history_release(&w.history);
}

static struct alert growing(int64_t a_minute, int minutes)
{
    struct world w = { .facts.nodes = 1 };
    stats_history_init(&w.history, FROM, MINUTES);
    for (int i = 0; i < MINUTES; i++) {
        struct stats s = stats_of((struct given){ STAT_BACKLOG, max_of(i - (MINUTES - minutes), 0) * a_minute });
        stats_history_add(&w.history, FROM + (int64_t)i * STATS_MINUTE_MS, &s);
    }
    stats_history_close(&w.history);
    struct alert a = judge(&w, "BelfryBacklogGrowing");
    stats_history_release(&w.history);
    return a;
}

static void a_backlog_that_grows_for_long_fires(void **state)
{
    (void)state;
    assert_int_equal(growing(490, 300).state, ALERT_INACTIVE);
    assert_int_equal(growing(560, 300).state, ALERT_FIRING);
    assert_int_equal(growing(560, 14).state, ALERT_PENDING);
    double slope = growing(560, 300).value;
    assert_true(slope > 559.9 && slope < 560.1);
}

static void without_figures_only_the_watchdog_fires(void **state)
{
    (void)state;
    struct world w;
    struct stats none = { 0 };
    begin(&w, NO_MINUTE, &none);
    size_t n = alerts_judge(&w.history, &w.facts, w.alerts);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(w.alerts[i].state,
                         strcmp(w.alerts[i].name, "BelfryWatchdog") == 0 ? ALERT_FIRING : ALERT_INACTIVE);
    struct alert down = judge(&w, "BelfryDown");
    assert_true(down.value == 1 && down.severity == ALERT_CRITICAL);
    stats_history_release(&w.history);
}

static void a_cluster_without_a_leader_fires_after_two_minutes(void **state)
{
    (void)state;
    struct world w;
    struct stats none = { 0 };
    begin(&w, NO_MINUTE, &none);
    int64_t end_ms = FROM + (int64_t)MINUTES * STATS_MINUTE_MS;
    w.facts.leaderless_since_ms = end_ms - 119999;
    assert_int_equal(judge(&w, "BelfryNoLeader").state, ALERT_PENDING);
    w.facts.leaderless_since_ms = end_ms - 120000;
    struct alert a = judge(&w, "BelfryNoLeader");
    assert_true(a.state == ALERT_FIRING && a.since_ms == end_ms - 120000 && a.value == 0);
    stats_history_release(&w.history);
}

/* By what the node sees, of figures that are all 0, or say that tasks are claimed. */
static struct alert seen(const char *name, struct alert_facts facts, int64_t claimed)
{
    struct world w;
    struct stats each = stats_of((struct given){ STAT_CLAIMED, claimed });
    begin(&w, 0, &each);
    facts.nodes = 1;
    w.facts = facts;
    struct alert a = judge(&w, name);
    stats_history_release(&w.history);
    return a;
}

static void a_store_that_takes_nothing_is_told_of_without_figures(void **state)
{
    (void)state;
    int64_t end_ms = FROM + (int64_t)MINUTES * STATS_MINUTE_MS;
    struct alert_facts facts = { .store_lost_since_ms = end_ms + 5000, .claim_failures = 7 };
    struct alert a = seen("BelfryClaimsFailing", facts, 0);
    assert_true(a.state == ALERT_PENDING && a.value == 7 && a.since_ms == end_ms + 5000);
    facts.store_lost_since_ms = end_ms - 5 * STATS_MINUTE_MS + 1;
    assert_int_equal(seen("BelfryClaimsFailing", facts, 0).state, ALERT_PENDING);
    facts.store_lost_since_ms = end_ms - 5 * STATS_MINUTE_MS;
    a = seen("BelfryClaimsFailing", facts, 0);
    assert_true(a.state == ALERT_FIRING && a.value > 1.3 && a.value < 1.5);
}

static void a_backlog_that_nobody_counts_fires_unless_tasks_are_claimed(void **state)
{
    (void)state;
    int64_t end_ms = FROM + (int64_t)MINUTES * STATS_MINUTE_MS;
    struct alert_facts facts = { .uncounted_since_ms = end_ms - ALERTS_UNCOUNTED_MS + 1 };
    assert_int_equal(seen("BelfryNothingClaimed", facts, 0).state, ALERT_INACTIVE);
    facts.uncounted_since_ms--;
    assert_int_equal(seen("BelfryNothingClaimed", facts, 0).state, ALERT_PENDING);
    facts.uncounted_since_ms = end_ms - ALERTS_UNCOUNTED_MS - 5 * STATS_MINUTE_MS;
    struct alert a = seen("BelfryNothingClaimed", facts, 0);
    assert_true(a.state == ALERT_FIRING && a.value > a.threshold && a.since_ms == end_ms - 5 * STATS_MINUTE_MS);
    assert_int_equal(seen("BelfryNothingClaimed", facts, 1).state, ALERT_INACTIVE);
}

static void a_clock_that_was_set_and_a_backend_that_is_away_are_told_of(void **state)
{
    (void)state;
    int64_t end_ms = FROM + (int64_t)MINUTES * STATS_MINUTE_MS;
    struct alert_facts facts = { .clock_set_ms = end_ms - STATS_MINUTE_MS,
                                 .clock_jump_ms = -3600000,
                                 .backend_lost_since_ms = end_ms - STATS_MINUTE_MS };
    struct alert a = seen("BelfryClockSkew", facts, 1);
    assert_true(a.state == ALERT_PENDING && a.value == 3600);
    assert_int_equal(seen("BelfryBackendDown", facts, 1).state, ALERT_FIRING);
    facts.backend_lost_since_ms++;
    assert_int_equal(seen("BelfryBackendDown", facts, 1).state, ALERT_PENDING);
}

static void what_is_not_told_fires_a_minute_after_its_limit(void **state)
{
    (void)state;
    struct world w;
    struct stats none = { 0 };
    begin(&w, NO_MINUTE, &none);
    int64_t end_ms = FROM + (int64_t)MINUTES * STATS_MINUTE_MS;
    w.facts.untold_since_ms = end_ms - 300000;
    assert_int_equal(judge(&w, "BelfryNotificationsStuck").state, ALERT_INACTIVE);
    w.facts.untold_since_ms = end_ms - 359999;
    assert_int_equal(judge(&w, "BelfryNotificationsStuck").state, ALERT_PENDING);
    w.facts.untold_since_ms = end_ms - 360000;
    struct alert a = judge(&w, "BelfryNotificationsStuck");
    assert_true(a.state == ALERT_FIRING && a.since_ms == end_ms - 60000 && a.value == 360);
    w.facts.untold_since_ms = end_ms + 1; /* after the minute that is judged */
    a = judge(&w, "BelfryNotificationsStuck");
    assert_true(a.state == ALERT_INACTIVE && a.value == 0);
    stats_history_release(&w.history);
}

static void windows_reach_back_to_the_first_minute_at_most(void **state)
{
    (void)state;
    struct world w;
    struct stats one = stats_of((struct given){ STAT_CREATED, 1 });
    begin(&w, 0, &one);
    assert_int_equal(stats_history_sum(&w.history, 0, 1, STAT_CREATED), 1);
    assert_int_equal(stats_history_sum(&w.history, 9, 5, STAT_CREATED), 5);
    assert_int_equal(stats_history_sum(&w.history, 9, 100, STAT_CREATED), 10);
    stats_history_add(&w.history, FROM - 1, &one); /* outside */
    stats_history_add(&w.history, FROM + (int64_t)MINUTES * STATS_MINUTE_MS, &one);
    assert_int_equal(stats_history_sum(&w.history, MINUTES - 1, MINUTES, STAT_CREATED), MINUTES);
    stats_history_release(&w.history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_fires_above_its_threshold_once_it_has_held_long_enough),
        cmocka_unit_test(it_is_pending_since_its_first_minute),
        cmocka_unit_test(few_failures_are_shown_but_do_not_fire),
        cmocka_unit_test(a_minute_below_begins_it_anew),
        cmocka_unit_test(a_backlog_that_grows_for_long_fires),
        cmocka_unit_test(without_figures_only_the_watchdog_fires),
        cmocka_unit_test(a_cluster_without_a_leader_fires_after_two_minutes),
        cmocka_unit_test(a_store_that_takes_nothing_is_told_of_without_figures),
        cmocka_unit_test(a_backlog_that_nobody_counts_fires_unless_tasks_are_claimed),
        cmocka_unit_test(a_clock_that_was_set_and_a_backend_that_is_away_are_told_of),
        cmocka_unit_test(what_is_not_told_fires_a_minute_after_its_limit),
        cmocka_unit_test(windows_reach_back_to_the_first_minute_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
