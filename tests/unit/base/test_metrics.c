#include "check.h"

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/metrics.h"
#include "base/openmetrics/openmetrics.h"

static int open_metrics(void **state)
{
    *state = metrics_new();
    return 0;
}

static int close_metrics(void **state)
{
    metrics_free(*state);
    return 0;
}

/* The lines of one metric, from its HELP to the next HELP; the caller frees it. */
static char *printed(const struct metrics *m, const char *name)
{
    char head[128];
    struct buf out;
    buf_init(&out, 1 << 20);
    metrics_print(m, &out);
    assert_false(out.full);
    snprintf(head, sizeof head, "# HELP %s ", name);
    char *start = strstr(out.p, head);
    assert_non_null(start);
    char *end = strstr(start + 1, "# HELP ");
    if (end)
        *end = '\0';
    char *text = xstrdup(start);
    buf_release(&out);
    return text;
}

static void counters_count_from_zero(void **state)
{
    struct metrics *m = *state;
    assert_int_equal(metric_count(m, METRIC_CLAIMS), 0);
    metric_add(m, METRIC_CLAIMS, 3);
    metric_add(m, METRIC_CLAIMS, 0);
    metric_add(m, METRIC_CLAIMS, 5000000000);
    assert_int_equal(metric_count(m, METRIC_CLAIMS), 5000000003);
    assert_int_equal(metric_count(m, METRIC_TASKS_FAILED), 0);
    cleanup_with(free_charp) char *text = printed(m, "belfry_claims_total");
    assert_string_equal(text, "# HELP belfry_claims_total Claims made\n"
                              "# TYPE belfry_claims_total counter\n"
                              "belfry_claims_total 5000000003\n");
}

static void gauges_show_the_last_value(void **state)
{
    struct metrics *m = *state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        { 0, "0" },       { 0.1, "0.1" },    { 4096, "4096" },
        { -1.5, "-1.5" }, { 1e21, "1e+21" }, { 1.0 / 3, "0.3333333333333333" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char expected[256];
        metric_set(m, METRIC_UTILIZATION, rows[i].value);
        assert_true(metric_level(m, METRIC_UTILIZATION) == rows[i].value);
        cleanup_with(free_charp) char *text = printed(m, "belfry_worker_utilization");
        snprintf(expected, sizeof expected,
                 "# HELP belfry_worker_utilization Fraction of the worker slots in use, 0 to 1\n"
                 "# TYPE belfry_worker_utilization gauge\n"
                 "belfry_worker_utilization %s\n",
                 rows[i].text);
        assert_string_equal(text, expected);
    }
}

static void histograms_are_printed_as_prometheus_reads_them(void **state)
{
    struct metrics *m = *state;
    static const int64_t observed_us[] = { 0,    -5,     100,     101,      250,      1000,
                                           1001, 999999, 1000000, 60000000, 60000001, 3600000000 };
    for (size_t i = 0; i < array_count(observed_us); i++)
        metric_observe_us(m, METRIC_STORE_TIME, observed_us[i]);
    assert_int_equal(metric_count(m, METRIC_STORE_TIME), 12);
    assert_int_equal(metric_count(m, METRIC_CLAIM_TIME), 0);
    cleanup_with(free_charp) char *text = printed(m, "belfry_store_commit_duration_seconds");
    assert_string_equal(text, "# HELP belfry_store_commit_duration_seconds One transaction of the store\n"
                              "# TYPE belfry_store_commit_duration_seconds histogram\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.0001\"} 3\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.00025\"} 5\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.0005\"} 5\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.001\"} 6\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.0025\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.005\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.01\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.025\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.05\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.1\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.25\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"0.5\"} 7\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"1\"} 9\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"2.5\"} 9\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"5\"} 9\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"10\"} 9\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"30\"} 9\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"60\"} 10\n"
                              "belfry_store_commit_duration_seconds_bucket{le=\"+Inf\"} 12\n"
                              "belfry_store_commit_duration_seconds_sum 3722.002452\n"
                              "belfry_store_commit_duration_seconds_count 12\n");
}

static void every_metric_is_printed_once_in_the_order_of_the_table(void **state)
{
    struct metrics *m = *state;
    static const char *const names[] = {
#define X(id, type, name, help) name,
        METRIC_MAP(X)
#undef X
    };
    struct buf out;
    buf_init(&out, 1 << 20);
    metric_set(m, METRIC_WORKERS_WANTED, 1); /* it is printed while it is set */
    metrics_print(m, &out);
    const char *at = out.p;
    for (size_t i = 0; i < array_count(names); i++) {
        char head[128];
        snprintf(head, sizeof head, "# TYPE %s ", names[i]);
        at = strstr(at, head);
        assert_non_null(at);
        assert_null(strstr(at + 1, head));
    }
    buf_release(&out);
}

static void only_what_a_process_feeds_is_printed(void **state)
{
    struct metrics *m = *state;
    static const enum metric ids[] = { METRIC_TASKS_HELD, METRIC_EXECUTION_TIME };
    struct buf out;
    buf_init(&out, 1 << 20);
    metric_add(m, METRIC_TASKS_HELD, 3);
    metrics_print_some(m, ids, array_count(ids), &out);
    assert_non_null(strstr(buf_cstr(&out), "\nbelfry_tasks_held_total 3\n"));
    assert_non_null(strstr(buf_cstr(&out), "belfry_execution_duration_seconds_count 0\n"));
    assert_non_null(strstr(buf_cstr(&out), "# TYPE belfry_late_executions_total counter\n"));
    assert_null(strstr(buf_cstr(&out), "belfry_tasks_executed_total"));
    buf_release(&out);
}

static void an_optional_gauge_is_printed_while_it_is_set(void **state)
{
    struct metrics *m = *state;
    for (int round = 0; round < 2; round++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        metrics_print(m, &out);
        assert_null(strstr(buf_cstr(&out), "belfry_workers_wanted"));
        buf_release(&out);
        metric_set(m, METRIC_WORKERS_WANTED, 3);
        cleanup_with(free_charp) char *text = printed(m, "belfry_workers_wanted");
        assert_non_null(strstr(text, "\nbelfry_workers_wanted 3\n"));
        metric_unset(m, METRIC_WORKERS_WANTED);
    }
}

static void counters_with_two_labels_show_what_was_counted(void **state)
{
    struct metrics *m = *state;
    metric_add_pair(m, METRIC_HTTP_RESPONSES, 3, "GET /v1/tasks/{id}", 3, "4xx");
    metric_add_pair(m, METRIC_HTTP_RESPONSES, 3, "GET /v1/tasks/{id}", 1, "2xx");
    metric_add_pair(m, METRIC_HTTP_RESPONSES, 3, "GET /v1/tasks/{id}", 1, "2xx");
    metric_add_pair(m, METRIC_HTTP_RESPONSES, 0, "_unknown", 3, "4xx");
    cleanup_with(free_charp) char *text = printed(m, "belfry_http_responses_total");
    assert_non_null(strstr(text, "# TYPE belfry_http_responses_total counter\n"
                                 "belfry_http_responses_total{route=\"_unknown\",code=\"4xx\"} 1\n"
                                 "belfry_http_responses_total{route=\"GET /v1/tasks/{id}\",code=\"2xx\"} 2\n"
                                 "belfry_http_responses_total{route=\"GET /v1/tasks/{id}\",code=\"4xx\"} 1\n"));
}

static void seconds_are_counted_in_microseconds(void **state)
{
    struct metrics *m = *state;
    metric_add(m, METRIC_RUN_TIME, 1500000);
    cleanup_with(free_charp) char *text = printed(m, "belfry_run_seconds_total");
    assert_non_null(strstr(text, " counter\nbelfry_run_seconds_total 1.500000\n"));
}

static void openmetrics_have_exemplars_and_an_end(void **state)
{
    struct metrics *m = *state;
    struct buf text, out;
    buf_init(&text, 1 << 20);
    buf_init(&out, 1 << 20);
    metric_add(m, METRIC_TASKS_EXECUTED, 3);
    metric_observe_us(m, METRIC_EXECUTION_TIME, 2000);
    metric_note_exemplar(m, METRIC_EXECUTION_TIME, 1500, "00000000000000000000000000000001", 1700000000123);
    metric_note_exemplar(m, METRIC_EXECUTION_TIME, 2000, "4bf92f3577b34da6a3ce929d0e0e4736", 1700000000456);
    metrics_print_exemplars(m, &text);
    openmetrics_convert(buf_str(&text), &out);
    const char *shown = buf_cstr(&out);
    assert_non_null(strstr(shown, "# TYPE belfry_tasks_executed counter\nbelfry_tasks_executed_total 3\n"));
    assert_non_null(strstr(shown, "belfry_execution_duration_seconds_bucket{le=\"0.001\"} 0\n"));
    assert_non_null(strstr(shown, "belfry_execution_duration_seconds_bucket{le=\"0.0025\"} 1 # "
                                  "{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.002000 1700000000.456\n"));
    assert_null(strstr(shown, "00000000000000000000000000000001")); /* the latest one of a bucket stays */
    assert_true(out.n > 6 && strcmp(shown + out.n - 6, "# EOF\n") == 0);
    buf_reset(&text);
    metrics_print(m, &text);
    assert_null(strstr(buf_cstr(&text), "trace_id"));
    buf_release(&text);
    buf_release(&out);
}

static void text_that_does_not_fit_shows_as_full(void **state)
{
    struct metrics *m = *state;
    struct buf out;
    buf_init(&out, 1000);
    metrics_print(m, &out);
    assert_true(out.full && out.n <= 1000);
    buf_release(&out);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *add_many(void *context)
{
    struct metrics *m = context;
    for (int i = 0; i < ROUNDS; i++) {
        metric_add(m, METRIC_TASKS_EXECUTED, 2);
        metric_observe_us(m, METRIC_EXECUTION_TIME, i % 2 ? 300 : 70000000);
        metric_set(m, METRIC_QUEUE_WAITING, i % 2 ? 1e300 : -1e300);
    }
    return NULL;
}

static double depth_of(const struct metrics *m)
{
    cleanup_with(free_charp) char *text = printed(m, "belfry_queue_waiting");
    return strtod(strstr(text, "\nbelfry_queue_waiting ") + strlen("\nbelfry_queue_waiting "), NULL);
}

static void no_addition_of_any_thread_is_lost_and_reads_are_whole(void **state)
{
    struct metrics *m = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, m), 0);
    for (int i = 0; i < 50; i++) {
        double depth = depth_of(m);
        assert_true(depth == 0 || depth == 1e300 || depth == -1e300);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(metric_count(m, METRIC_TASKS_EXECUTED), 2 * THREADS * ROUNDS);
    assert_int_equal(metric_count(m, METRIC_EXECUTION_TIME), THREADS * ROUNDS);
    cleanup_with(free_charp) char *text = printed(m, "belfry_execution_duration_seconds");
    assert_non_null(strstr(text, "{le=\"0.0005\"} 40000\n"));
    assert_non_null(strstr(text, "_sum 2800012.000000\n"));
}

/* Pipes text to `promtool check metrics`; returns its exit status, or -1 if promtool is not installed. */
static int promtool_status(const char *text)
{
    char *const arguments[] = { (char[]){ "promtool" }, (char[]){ "check" }, (char[]){ "metrics" }, NULL };
    FILE *file = tmpfile();
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0;
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fflush(file) == 0);
    rewind(file);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(file), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO); /* our stdout is TAP */
    int failed = posix_spawnp(&child, "promtool", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!failed)
        assert_int_equal(waitpid(child, &status, 0), child);
    fclose(file);
    return failed ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void promtool_has_nothing_to_object(void **state)
{
    struct metrics *m = *state;
    struct buf out;
    buf_init(&out, 1 << 20);
    metric_observe_us(m, METRIC_EXECUTION_DELAY, 1234);
    metric_set(m, METRIC_UTILIZATION, 0.25);
    metrics_print(m, &out);
    int status = promtool_status(buf_cstr(&out));
    if (status == -1)
        printf("# promtool is not installed: not checked\n");
    else
        assert_int_equal(status, 0);
    if (status != -1)
        assert_int_not_equal(promtool_status("# TYPE x counter\nx{ 1\n"), 0); /* promtool detects an error */
    buf_release(&out);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_metrics, close_metrics)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(counters_count_from_zero),
        test(gauges_show_the_last_value),
        test(histograms_are_printed_as_prometheus_reads_them),
        test(every_metric_is_printed_once_in_the_order_of_the_table),
        test(only_what_a_process_feeds_is_printed),
        test(an_optional_gauge_is_printed_while_it_is_set),
        test(counters_with_two_labels_show_what_was_counted),
        test(seconds_are_counted_in_microseconds),
        test(openmetrics_have_exemplars_and_an_end),
        test(text_that_does_not_fit_shows_as_full),
        test(no_addition_of_any_thread_is_lost_and_reads_are_whole),
        test(promtool_has_nothing_to_object),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
