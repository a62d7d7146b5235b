/* What the log says of changes of tasks, and how much of it. */
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "core/task/trace.h"
#include "node/trace/transition_log.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static int64_t now_ns;
static int fd = -1;
static char text[4 << 20];

static int64_t test_steady(struct clock *c)
{
    (void)c;
    return now_ns;
}

static int64_t test_wall(void *context)
{
    (void)context;
    return 1770710400123;
}

static const struct clock_ops clock_ops = { .steady_ns = test_steady };
static struct clock test_clock = { &clock_ops };

static struct transition_log *opened(enum transitions which, struct metrics *m)
{
    fd = memfd_create("log", MFD_CLOEXEC);
    log_open(&(struct log_setup){ .fd = fd, .format = LOG_LOGFMT, .level = LOG_INFO, .now_ms = test_wall });
    return transition_log_new(
        &(struct transition_log_setup){ .which = which, .node = S("host:1"), .clock = &test_clock, .metrics = m });
}

static const char *written(void)
{
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return text;
}

static size_t lines(const char *with)
{
    size_t n = 0;
    for (const char *at = written(); (at = strstr(at, with)); at++)
        n++;
    return n;
}

static struct task task_of(enum task_state state)
{
    return (struct task){ .id = { { 1 } },
                          .tenant = 3,
                          .queue = S("mail"),
                          .state = state,
                          .attempts = 1,
                          .fence = 7,
                          .trace = S(PARENT " req-7 vendor=a") };
}

static void settle_one(struct transition_log *l, enum outcome_kind kind, enum execution_status status,
                       enum task_state to)
{
    struct task t = task_of(TASK_RUNNING);
    struct outcome o = { .kind = kind };
    struct settle_facts f = settle_facts_of(&t, &o, NULL);
    struct settlement s = { .ret_state = to,
                            .verdict = { .has_execution = kind != OUTCOME_RETURNED,
                                         .execution = { .status = status },
                                         .last_error = S("HTTP 503") } };
    transition_log_settled(l, &f, &o, &s);
    s.stale = true;
    transition_log_settled(l, &f, &o, &s);
}

static void a_line_names_task_trace_span_and_request(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct transition_log *l = opened(TRANSITIONS_FAILURES, m);
    char span[TRACE_SPAN + 1], want[800];
    settle_one(l, OUTCOME_FAILED, EXECUTION_FAILED, TASK_SCHEDULED);
    trace_span_text(trace_span(task_of(TASK_RUNNING).id, 7, TRACE_RUN), span);
    snprintf(want, sizeof want,
             "event=transition task=01000000-0000-0000-0000-000000000000 tenant=3 node=host:1 queue=mail "
             "from=RUNNING to=SCHEDULED attempt=2 fence=7 trace=4bf92f3577b34da6a3ce929d0e0e4736 span=%s "
             "request=req-7 error=\"HTTP 503\"\n",
             span);
    if (!strstr(written(), want))
        fail_msg("%s", text);
    assert_int_equal(lines("event="), 1);
    transition_log_free(l);
    metrics_free(m);
}

static void failures_are_attempts_that_failed_and_tasks_that_did(void **state)
{
    (void)state;
    static const struct {
        enum outcome_kind kind;
        enum execution_status status;
        enum task_state to;
        bool failure, change;
    } rows[] = {
        { OUTCOME_OK, EXECUTION_COMPLETED, TASK_COMPLETED, false, true },
        { OUTCOME_FAILED, EXECUTION_FAILED, TASK_SCHEDULED, true, true },
        { OUTCOME_FAILED, EXECUTION_FAILED, TASK_FAILED, true, true },
        { OUTCOME_LOST, EXECUTION_LOST, TASK_SCHEDULED, true, true },
        { OUTCOME_EXPIRED, EXECUTION_FAILED, TASK_EXPIRED, true, true },
        { OUTCOME_RETURNED, EXECUTION_COMPLETED, TASK_SCHEDULED, false, false },
        { OUTCOME_CANCELLED, EXECUTION_CANCELLED, TASK_CANCELLED, false, true },
    };
    for (int which = TRANSITIONS_NONE; which <= TRANSITIONS_ALL; which++) {
        for (size_t i = 0; i < array_count(rows); i++) {
            struct metrics *m = metrics_new();
            struct transition_log *l = opened((enum transitions)which, m);
            settle_one(l, rows[i].kind, rows[i].status, rows[i].to);
            bool want = which == TRANSITIONS_ALL ? rows[i].change : which == TRANSITIONS_FAILURES && rows[i].failure;
            if (lines("event=transition") != want)
                fail_msg("which %d, row %zu: %s", which, i, text);
            transition_log_free(l);
            metrics_free(m);
        }
    }
}

static void all_has_starts_creates_and_edits(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    for (int which = TRANSITIONS_FAILURES; which <= TRANSITIONS_ALL; which++) {
        struct transition_log *l = opened((enum transitions)which, m);
        struct task t = task_of(TASK_SCHEDULED);
        transition_log_created(l, &t, 1);
        transition_log_started(l, &t);
        transition_log_changed(l, &t, TASK_SCHEDULED); /* it stays as it was */
        t.state = TASK_PAUSED;
        transition_log_changed(l, &t, TASK_SCHEDULED);
        size_t each = which == TRANSITIONS_ALL;
        assert_int_equal(lines("event="), 3 * each);
        assert_int_equal(lines("queue=mail to=SCHEDULED attempt=1"), each); /* new: there is no `from` */
        assert_int_equal(lines("from=SCHEDULED to=RUNNING attempt=2"), each);
        assert_int_equal(lines("from=SCHEDULED to=PAUSED"), each);
        transition_log_free(l);
    }
    transition_log_settled(NULL, NULL, NULL, NULL);
    transition_log_tick(NULL);
    metrics_free(m);
}

static void all_has_what_the_store_tells(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    for (int which = TRANSITIONS_NONE; which <= TRANSITIONS_ALL; which++) {
        struct transition_log *l = opened((enum transitions)which, m);
        struct task_change v[] = { { task_of(TASK_SCHEDULED), TASK_BLOCKED, TASK_SKIPPED, S("stop-1") },
                                   { task_of(TASK_SCHEDULED), CHANGE_NEW, TASK_BLOCKED, S("") },
                                   { task_of(TASK_SCHEDULED), TASK_SCHEDULED, TASK_RUNNING, S("") } };
        size_t each = which == TRANSITIONS_ALL;
        v[0].task.last_error = S("its parent failed");
        now_ns += 1000000000;
        transition_log_told(l, v, array_count(v), 5);
        assert_int_equal(transition_log_listens(l), each);
        assert_int_equal(lines("event=transition "), 3 * each);
        assert_int_equal(lines("from=BLOCKED to=SKIPPED attempt=1"), each);
        assert_int_equal(lines("reason=\"its parent failed\""), each);
        assert_int_equal(lines("request=stop-1"), each);
        assert_int_equal(lines("queue=mail to=BLOCKED attempt=1"), each);
        assert_int_equal(lines("from=SCHEDULED to=RUNNING attempt=2"), each);
        assert_int_equal(metric_count(m, METRIC_TRANSITIONS_DROPPED), 5 * each);
        now_ns += 1000000000;
        transition_log_tick(l);
        assert_int_equal(lines("event=transitions_dropped lines=5"), each);
        transition_log_free(l);
    }
    transition_log_told(NULL, NULL, 0, 1);
    metrics_free(m);
}

static void beyond_a_thousand_lines_a_second_they_are_counted(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    now_ns = 5000000000;
    struct transition_log *l = opened(TRANSITIONS_FAILURES, m);
    for (int i = 0; i < TRANSITIONS_A_SECOND + 20; i++)
        settle_one(l, OUTCOME_FAILED, EXECUTION_FAILED, TASK_FAILED);
    transition_log_tick(l);
    assert_int_equal(lines("event=transition "), TRANSITIONS_A_SECOND);
    assert_int_equal(lines("event=transitions_dropped"), 0);
    assert_int_equal(metric_count(m, METRIC_TRANSITIONS_DROPPED), 20);
    now_ns += 1000000000;
    transition_log_tick(l);
    transition_log_tick(l);
    assert_int_equal(lines("event=transitions_dropped lines=20"), 1);
    settle_one(l, OUTCOME_FAILED, EXECUTION_FAILED, TASK_FAILED);
    assert_int_equal(lines("event=transition "), TRANSITIONS_A_SECOND + 1);
    transition_log_free(l);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_names_task_trace_span_and_request),
        cmocka_unit_test(failures_are_attempts_that_failed_and_tasks_that_did),
        cmocka_unit_test(all_has_starts_creates_and_edits),
        cmocka_unit_test(all_has_what_the_store_tells),
        cmocka_unit_test(beyond_a_thousand_lines_a_second_they_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
