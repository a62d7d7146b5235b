/* The tracer against a collector of the test: batches, retries, a full ring, the end of the process. */
#include "check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/clock_system.h"
#include "platform/otlp/otlp_tracer.h"

enum { RETRY_MS = 5, REQUESTS_MAX = 64, BODY_MAX = 1 << 20 };

/* Answers each request on a connection of its own with the next status; the last one is repeated. A status of 0: no
 * answer until the test ends. */
struct collector {
    int fd;
    uint16_t port;
    pthread_t thread;
    const char *answers[8];
    int requests; /* read by the test after the tracer has ended */
    size_t bytes[REQUESTS_MAX];
};

static size_t read_request(int fd)
{
    char *text = xmalloc(BODY_MAX);
    size_t n = 0, want = SIZE_MAX, length = 0;
    ssize_t got;
    while (n < want && (got = read(fd, text + n, BODY_MAX - 1 - n)) > 0) {
        n += (size_t)got;
        text[n] = '\0';
        const char *end = strstr(text, "\r\n\r\n"), *head = strcasestr(text, "content-length: ");
        if (end && head && want == SIZE_MAX) {
            length = strtoul(head + sizeof "content-length: " - 1, NULL, 10);
            want = (size_t)(end - text) + 4 + length;
        }
    }
    free(text);
    return n == want ? length : 0;
}

static void *collect(void *context)
{
    struct collector *c = context;
    for (int fd, i = 0; (fd = accept(c->fd, NULL, NULL)) >= 0;) {
        size_t length = read_request(fd);
        if (length) {
            c->bytes[c->requests++] = length;
            if (write(fd, c->answers[i], strlen(c->answers[i])) < 0)
                abort();
            i += c->answers[i + 1] != NULL;
        }
        close(fd);
    }
    return NULL;
}

static void collector_open(struct collector *c)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(c->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(c->fd, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(listen(c->fd, 16), 0);
    c->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&c->thread, NULL, collect, c), 0);
}

static void collector_close(struct collector *c)
{
    shutdown(c->fd, SHUT_RDWR);
    pthread_join(c->thread, NULL);
    close(c->fd);
}

#define ANSWER(status, headers) "HTTP/1.1 " status " x\r\nConnection: close\r\n" headers "Content-Length: 0\r\n\r\n"

struct told {
    char why[200];
    size_t spans;
};

static void on_failed(void *context, const struct error *why, size_t spans)
{
    struct told *t = context;
    snprintf(t->why, sizeof t->why, "%s", why->text);
    t->spans += spans;
}

static const char *getenv_none(const char *name)
{
    (void)name;
    return NULL;
}

static struct tracer *opened(uint16_t port, struct metrics *m, struct told *told)
{
    char url[64];
    struct otlp_settings s = { 0 };
    struct error e;
    struct tracer *t = NULL;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    assert_ok(otlp_settings_read(str_from(url), S("1"), "host:1", getenv_none, &s, &e), &e);
    struct otlp_tracer_setup setup = { .settings = &s,
                                       .metrics = m,
                                       .clock = clock_system(),
                                       .retry_ms = RETRY_MS,
                                       .failed = on_failed,
                                       .context = told };
    assert_ok(otlp_tracer_new(&setup, &t, &e), &e);
    otlp_settings_release(&s);
    return t;
}

static void record(struct tracer *t, int n)
{
    struct span s = { .trace = trace_new((struct uuid){ { 1 } }), .kind = SPAN_CONSUMER, .name = S("run") };
    for (int i = 0; i < n; i++) {
        s.id = (uint64_t)i + 1;
        tracer_record(t, &s);
    }
}

enum { EXPORTED, DROPPED, FAILED, REJECTED };

static int64_t counted(struct metrics *m, size_t result)
{
    return metric_count_labelled(m, METRIC_SPANS, result);
}

static void spans_are_sent_in_batches(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("200", "") } };
    collector_open(&c);
    struct tracer *t = opened(c.port, m, &told);
    record(t, 2 * OTLP_BATCH + 1);
    tracer_free(t);
    collector_close(&c);
    assert_in_range(c.requests, 3, 5);
    assert_int_equal(counted(m, EXPORTED), 2 * OTLP_BATCH + 1);
    assert_int_equal(told.spans, 0);
    metrics_free(m);
}

static void a_busy_collector_is_tried_again(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("503", ""), ANSWER("429", ""), ANSWER("502", ""), ANSWER("504", ""),
                                        ANSWER("200", "") } };
    collector_open(&c);
    struct tracer *t = opened(c.port, m, &told);
    record(t, OTLP_BATCH);
    while (!counted(m, EXPORTED) && !counted(m, FAILED))
        sched_yield();
    tracer_free(t);
    collector_close(&c);
    assert_int_equal(c.requests, OTLP_TRIES);
    assert_true(c.bytes[0] > 0 && c.bytes[0] == c.bytes[4]); /* the same batch */
    assert_int_equal(counted(m, EXPORTED), OTLP_BATCH);
    metrics_free(m);
}

static void after_five_tries_spans_are_dropped_and_counted(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("503", "") } };
    collector_open(&c);
    struct tracer *t = opened(c.port, m, &told);
    record(t, OTLP_BATCH);
    while (!counted(m, FAILED))
        sched_yield();
    tracer_free(t);
    collector_close(&c);
    assert_int_equal(c.requests, OTLP_TRIES);
    assert_int_equal(counted(m, FAILED), OTLP_BATCH);
    assert_int_equal(told.spans, OTLP_BATCH);
    assert_non_null(strstr(told.why, "503"));
    metrics_free(m);
}

static void what_is_refused_is_not_tried_again(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("400", "") } };
    collector_open(&c);
    struct tracer *t = opened(c.port, m, &told);
    record(t, 3);
    tracer_free(t);
    collector_close(&c);
    assert_int_equal(c.requests, 1);
    assert_int_equal(counted(m, FAILED), 3);
    metrics_free(m);
}

static void retry_after_is_honoured(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("429", "Retry-After: 1\r\n"), ANSWER("200", "") } };
    collector_open(&c);
    struct tracer *t = opened(c.port, m, &told);
    int64_t begun_ms = clock_steady_ms(clock_system());
    record(t, OTLP_BATCH);
    while (!counted(m, EXPORTED))
        sched_yield();
    assert_true(clock_steady_ms(clock_system()) - begun_ms >= 1000);
    tracer_free(t);
    collector_close(&c);
    metrics_free(m);
}

static void a_full_ring_drops_and_never_waits(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("429", "Retry-After: 30\r\n") } };
    collector_open(&c);
    struct tracer *t = opened(c.port, m, &told);
    record(t, OTLP_RING + OTLP_BATCH + 7); /* a batch is with the sender, or will be */
    assert_in_range(counted(m, DROPPED), 7, OTLP_BATCH + 7);
    int64_t begun_ms = clock_steady_ms(clock_system());
    tracer_free(t);
    assert_true(clock_steady_ms(clock_system()) - begun_ms < 2 * OTLP_END_MS);
    collector_close(&c);
    int64_t all = counted(m, EXPORTED) + counted(m, DROPPED) + counted(m, FAILED) + counted(m, REJECTED);
    assert_int_equal(all, OTLP_RING + OTLP_BATCH + 7);
    metrics_free(m);
}

static void nobody_listens_and_the_process_ends_soon(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct told told = { "" };
    struct collector c = { .answers = { ANSWER("200", "") } };
    collector_open(&c);
    collector_close(&c);
    struct tracer *t = opened(c.port, m, &told);
    record(t, 5);
    int64_t begun_ms = clock_steady_ms(clock_system());
    tracer_free(t);
    assert_true(clock_steady_ms(clock_system()) - begun_ms < 2 * OTLP_END_MS);
    assert_int_equal(counted(m, FAILED), 5);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_sent_in_batches),
        cmocka_unit_test(a_busy_collector_is_tried_again),
        cmocka_unit_test(after_five_tries_spans_are_dropped_and_counted),
        cmocka_unit_test(what_is_refused_is_not_tried_again),
        cmocka_unit_test(retry_after_is_honoured),
        cmocka_unit_test(a_full_ring_drops_and_never_waits),
        cmocka_unit_test(nobody_listens_and_the_process_ends_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
