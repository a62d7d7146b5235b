#pragma once
/* base/metrics.h - counters, gauges and histograms, printed in the Prometheus text format.
 *
 * A new metric needs one row in METRIC_MAP. Any thread may update and read; each number is read atomically. */
#include "base/buf.h"

#define METRIC_MAP(X)                                                                                                  \
    X(TASKS_SCHEDULED, COUNTER, "belfry_tasks_scheduled_total", "Tasks accepted")                                      \
    X(TASKS_DEDUPLICATED, COUNTER, "belfry_tasks_deduplicated_total", "Creates that returned an existing task")        \
    X(TASKS_EXECUTED, COUNTER, "belfry_tasks_executed_total", "Attempts that ended, with any outcome")                 \
    X(TASKS_COMPLETED, COUNTER, "belfry_tasks_completed_total", "Tasks that ended in success")                         \
    X(TASKS_FAILED, COUNTER, "belfry_tasks_failed_total", "Tasks that ended in failure, after all retries")            \
    X(TASKS_RETRIED, COUNTER, "belfry_task_retries_total", "Attempts that failed and will be tried again")             \
    X(RUNS_SKIPPED, COUNTER, "belfry_runs_skipped_total", "Occurrences of recurring tasks that were skipped")          \
    X(TASKS_BLOCKED, COUNTER, "belfry_tasks_blocked_total",                                                            \
      "Times a due task was blocked because no concurrency slot was free")                                             \
    X(TASKS_REPLACED, COUNTER, "belfry_tasks_replaced_total", "Runs cancelled because a later run replaces them")      \
    X(TASKS_EXPIRED, COUNTER, "belfry_tasks_expired_total", "Tasks dropped because they were too late to be useful")   \
    X(TASKS_HELD, COUNTER, "belfry_tasks_held_total", "Times a task was delayed because a circuit breaker was open")   \
    X(TASKS_ASIDE, COUNTER, "belfry_tasks_aside_total", "Times a task was put aside because its host was busy")        \
    X(TASKS_WITHOUT_KEY, COUNTER, "belfry_tasks_without_key_total",                                                    \
      "Times a task was put back because this process lacks the key of its secrets")                                   \
    X(TASKS_RECOVERED, COUNTER, "belfry_tasks_recovered_total", "Claims released after the process holding them died") \
    X(DEAD_LETTERS, COUNTER, "belfry_dead_letters_total", "Tasks that became dead letters, and failed steps")          \
    X(RUN_TIME, SECONDS, "belfry_run_seconds_total", "Time that attempts took that ended, in all")                     \
    X(RESULTS_STALE, COUNTER, "belfry_results_stale_total", "Results refused because their fence was old")             \
    X(PURGED, COUNTER, "belfry_forgotten_total", "Records purged after their retention period")                        \
    X(CLAIMS, COUNTER, "belfry_claims_total", "Claims made")                                                           \
    X(CLAIM_FAILURES, COUNTER, "belfry_claim_failures_total", "Claims that the store did not answer")                  \
    X(TASKS_CLAIMED, COUNTER, "belfry_tasks_claimed_total", "Tasks that were claimed or leased to a worker")           \
    X(CLAIM_CONFLICTS, COUNTER, "belfry_claim_conflicts_total",                                                        \
      "Due tasks that a claim skipped because another node was claiming them")                                         \
    X(EXECUTION_DELAY, HISTOGRAM, "belfry_execution_delay_seconds",                                                    \
      "From the awaited time to the start of an attempt")                                                              \
    X(START_DELAY, HISTOGRAM, "belfry_start_delay_seconds",                                                            \
      "From the due time to the start, of first attempts that nothing but Belfry delayed")                             \
    X(EXECUTION_TIME, HISTOGRAM, "belfry_execution_duration_seconds", "From the start of an attempt to its end")       \
    X(CLAIM_TIME, HISTOGRAM, "belfry_claim_duration_seconds", "Time from requesting due tasks to receiving them")      \
    X(STORE_TIME, HISTOGRAM, "belfry_store_commit_duration_seconds", "One transaction of the store")                   \
    X(STORE_WAIT, HISTOGRAM, "belfry_store_wait_seconds", "Time that an operation waits for its transaction")          \
    X(HTTP_REQUESTS, COUNTER, "belfry_http_requests_total", "Requests to the API")                                     \
    X(HTTP_ERRORS, COUNTER, "belfry_http_errors_total", "Requests answered with 500 or 503")                           \
    X(HTTP_CONNECTIONS, GAUGE, "belfry_http_connections", "Open connections to the API")                               \
    X(HTTP_BODY_BYTES, GAUGE, "belfry_http_body_bytes", "Bytes of large request bodies that are in memory")            \
    X(HTTP_ANSWER_BYTES, GAUGE, "belfry_http_answer_bytes", "Bytes of large answers that are not sent yet")            \
    X(EVENT_STREAMS, GAUGE, "belfry_event_streams", "Open streams of live events")                                     \
    X(EVENTS_FOLDED, COUNTER, "belfry_events_folded_total", "Task events that a stream was only told the number of")   \
    X(TRANSITIONS_DROPPED, COUNTER, "belfry_transitions_dropped_total",                                                \
      "Lines about changes of tasks that the log left out, because there were too many")                               \
    X(QUEUE_WAITING, GAUGE, "belfry_queue_waiting", "Claimed tasks in the queue, waiting for a worker")                \
    X(TASKS_PARKED, GAUGE, "belfry_tasks_parked", "Taken tasks that wait because their host is busy")                  \
    X(TASKS_RUNNING, GAUGE, "belfry_tasks_running", "Attempts under way")                                              \
    X(WORKER_SLOTS, GAUGE, "belfry_worker_slots", "Attempts that may be under way at once")                            \
    X(TASKS_ARMED, GAUGE, "belfry_tasks_armed", "Claimed tasks waiting for their due time")                            \
    X(TASKS_AHEAD, GAUGE, "belfry_tasks_ahead", "Tasks claimed ahead of their due time that have no slot yet")         \
    X(AHEAD_BYTES, GAUGE, "belfry_tasks_ahead_bytes", "Memory of the tasks that are claimed ahead")                    \
    X(UTILIZATION, GAUGE, "belfry_worker_utilization", "Fraction of the worker slots in use, 0 to 1")                  \
    X(CLOCK_JUMPS, COUNTER, "belfry_clock_jumps_total", "Times that the clock was set, by a second or more")           \
    X(WORKERS_WANTED, OPTIONAL, "belfry_workers_wanted", "Workers that the load needs; only on the leader")

/* Counters with one label, X(id, unit, name, label, help). A value of the label is the index of a name. */
#define METRIC_LABELLED_MAP(X)                                                                                         \
    X(HTTP_CLOSED, COUNT, "belfry_http_closed_total", "cause", "Connections that the API closed, by the reason")       \
    X(KEY_FAILURES, COUNT, "belfry_api_key_failures_total", "reason",                                                  \
      "Requests without a valid API key, by the reason")                                                               \
    X(TASK_FAILURES, COUNT, "belfry_task_failures_total", "fault", "Attempts that failed or were lost, by the fault")  \
    X(SPANS, COUNT, "belfry_spans_total", "result", "Spans of traces, by what became of them")                         \
    X(LATE_EXECUTIONS, COUNT, "belfry_late_executions_total", "cause",                                                 \
      "Attempts that started at least 0.1 s after the awaited time, by what made them late")                           \
    X(LATE_TIME, MICROSECONDS, "belfry_late_seconds_total", "cause", "By how much, in all")

enum { METRIC_LABELS_MAX = 16 };

/* Counters with two labels, X(id, name, label of the row, label of the column, help). */
#define METRIC_PAIR_MAP(X)                                                                                             \
    X(HTTP_RESPONSES, "belfry_http_responses_total", "route", "code",                                                  \
      "Answers of the API, by route and class of status")

enum { METRIC_ROWS_MAX = 160, METRIC_COLUMNS_MAX = 6 };

enum metric {
#define X(id, type, name, help) METRIC_##id,
    METRIC_MAP(X)
#undef X
        METRIC_COUNT
};

enum metric_labelled {
#define X(id, unit, name, label, help) METRIC_##id,
    METRIC_LABELLED_MAP(X)
#undef X
        METRIC_LABELLED_COUNT
};

enum metric_pair {
#define X(id, name, row, column, help) METRIC_##id,
    METRIC_PAIR_MAP(X)
#undef X
        METRIC_PAIR_COUNT
};

struct metrics;
struct tenant_metrics;
struct stats_counters;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
void metric_add(struct metrics *m, enum metric id, int64_t n); /* counters; of SECONDS: microseconds */
/* A counter that is also a figure of the tenant's minute (base/stats/stats.h). Tenant 0, Belfry's own work, does not
 * count. */
void metric_add_for(struct metrics *m, enum metric id, int32_t tenant, int64_t n);
void metric_set(struct metrics *m, enum metric id, double value);      /* gauges */
void metric_unset(struct metrics *m, enum metric id);                  /* OPTIONAL gauges: not printed until set */
void metric_observe_us(struct metrics *m, enum metric id, int64_t us); /* histograms; a negative value counts as 0 */
int64_t metric_count(const struct metrics *m, enum metric id);         /* a counter's value, a histogram's count */
int64_t metric_count_up_to(const struct metrics *m, enum metric id,
                           int64_t us); /* a histogram's, up to a bound of it */
/* names: of all values of the label, the same in every call; they outlive the metrics. */
void metric_add_labelled(struct metrics *m, enum metric_labelled id, const char *const *names, size_t value, int64_t n);
int64_t metric_count_labelled(const struct metrics *m, enum metric_labelled id, size_t value);
/* The names of row and column are the same in every call, and outlive the metrics. */
void metric_add_pair(struct metrics *m, enum metric_pair id, size_t row, const char *row_name, size_t column,
                     const char *column_name);
/* A text as the value of a label: quotes, backslashes and what is not printable become '_'. */
void metric_print_label(struct str s, struct buf *out);
struct tenant_metrics *metrics_tenants(struct metrics *m);    /* base/tenant_metrics.h */
struct stats_counters *metrics_stats(struct metrics *m);      /* base/stats/stats.h */
double metric_level(const struct metrics *m, enum metric id); /* a gauge's value */
void metrics_print(const struct metrics *m, struct buf *out);
/* Only these, and those with labels: for a process that does not feed the others. A 0 would be untrue. */
void metrics_print_some(const struct metrics *m, const enum metric *ids, size_t n, struct buf *out);

/* ---- exemplars, of histograms: the trace of one of the values that a bucket counts ---- */

enum { EXEMPLAR_TRACE = 32 }; /* hexadecimal digits of a trace id */

/* One of the values of a histogram, with its trace; the latest one of each bucket is kept. Of EXECUTION_DELAY,
 * EXECUTION_TIME and START_DELAY. metric_observe_us counts the value. */
void metric_note_exemplar(struct metrics *m, enum metric id, int64_t us, const char trace[EXEMPLAR_TRACE],
                          int64_t now_ms);

/* As metrics_print and metrics_print_some, with exemplars. */
void metrics_print_exemplars(struct metrics *m, struct buf *out);
void metrics_print_some_exemplars(struct metrics *m, const enum metric *ids, size_t n, struct buf *out);
