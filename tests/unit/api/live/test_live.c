/* Streams of live events, with an API server in this process: who reads slowly, and how many may read. */
#include <sched.h>

#include "api/live/live_internal.h"
#include "check.h"
#include "http_client.h"

enum { SMALL = 4096 };

static struct harness *h;

static int start(void **state)
{
    (void)state;
    h = harness_new(false, &(struct api_limits){ .http = { .stream_bytes = SMALL, .threads = 1 } });
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_free(h);
    return 0;
}

static int stream_open(const char *query, const char *key)
{
    char text[256];
    int fd = http_socket_connect(api_server_port(h->server), NULL, 2048);
    snprintf(text, sizeof text, "GET /v1/events%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", query, key);
    client_send(fd, str_from(text));
    return fd;
}

static void tell(size_t count)
{
    static struct task v[1000];
    for (size_t i = 0; i < count; i++)
        v[i] = (struct task){
            .id = { { (uint8_t)(i >> 8), (uint8_t)i, 7 } }, .tenant = 1, .queue = S("mail"), .version = 1
        };
    live_on_written(api_server_live(h->server), v, count);
}

/* How often the text occurs. */
static size_t occurrences(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static uint64_t folded_in(const char *text)
{
    uint64_t n = 0;
    for (const char *at = text; (at = strstr(at, "{\"folded\":")); at++)
        n += strtoull(at + strlen("{\"folded\":"), NULL, 10);
    return n;
}

/* Until as many tasks were shown or folded. How many were shown. */
static size_t assert_reader_gets(int fd, size_t told)
{
    size_t shown = 0;
    uint64_t folded = 0;
    for (int i = 0; shown + folded < told && i < 400; i++) {
        const char *text = http_socket_hear(fd, "\n\n");
        shown += occurrences(text, "\"status\":");
        folded += folded_in(text);
    }
    assert_int_equal(shown + folded, told);
    return shown;
}

/* The reader stops reading until the stream is full: the events of a second fill it more than once. */
static void a_slow_reader_is_folded_and_misses_no_count(void **state)
{
    (void)state;
    int fd = stream_open("", h->key), other = stream_open("", h->key);
    assert_non_null(strstr(http_socket_hear(other, "\"due\":null"), "event: counts"));
    assert_non_null(strstr(http_socket_hear(fd, "\"due\":null"), "event: counts"));
    size_t told = 0;
    for (int second = 0; second < 3; second++) {
        tell(200);
        told += 200;
        (void)http_socket_hear(other, "event: counts\n"); /* each second */
    }
    size_t shown = assert_reader_gets(fd, told);
    assert_true(shown < 150); /* three seconds of 50, and not all of them fitted */
    assert_true(metric_count(h->metrics, METRIC_EVENTS_FOLDED) >= (int64_t)(told - shown));
    close(fd);
    close(other);
}

/* The number of events of the tenant that were written, as JSON, and kept. */
static uint64_t written(void)
{
    struct live *l = api_server_live(h->server);
    pthread_mutex_lock(&l->lock);
    uint64_t last = live_tenant_get(l, 1)->part.last;
    pthread_mutex_unlock(&l->lock);
    return last;
}

/* What a reader costs does not grow with the events: LIVE_RATE are written in a second, and as many more that a filter
 * wants. The others are counted. */
static void a_burst_is_counted_not_written(void **state)
{
    enum { TOLD = 100000, AT_ONCE = 1000 };
    (void)state;
    int fd = stream_open("", h->key), filtered = stream_open("?queue=mail", h->key);
    (void)http_socket_hear(fd, "\"due\":null");
    (void)http_socket_hear(filtered, "\"due\":null");
    int64_t begin_ms = clock_steady_ms(clock_system());
    for (size_t i = 0; i < TOLD / AT_ONCE; i++)
        tell(AT_ONCE);
    uint64_t seconds = (uint64_t)(clock_steady_ms(clock_system()) - begin_ms) / 1000 + 2;
    assert_in_range(written(), LIVE_RATE, 2 * LIVE_RATE * seconds);
    assert_reader_gets(fd, TOLD);
    assert_reader_gets(filtered, TOLD);
    close(fd);
    close(filtered);
}

static void many_readers_come_and_go(void **state)
{
    (void)state;
    int fds[LIVE_STREAMS_KEY];
    for (size_t i = 0; i < array_count(fds); i++) {
        fds[i] = stream_open("", h->key);
        assert_non_null(strstr(http_socket_hear(fds[i], "\"due\":null"), "200 OK"));
    }
    assert_problem(ask(h, "GET", "/v1/events", NULL), 429, "limit-reached", "10 streams");
    for (size_t i = 0; i < array_count(fds); i++)
        close(fds[i]);
    while (live_stream_count(api_server_live(h->server)))
        sched_yield();
}

static void a_stop_ends_streams_with_a_word(void **state)
{
    (void)state;
    int fd = stream_open("", h->key);
    (void)http_socket_hear(fd, "\"due\":null");
    api_server_stop(h->server);
    const char *rest = http_socket_hear(fd, NULL);
    assert_non_null(strstr(rest, "retry: "));
    assert_non_null(strstr(rest, "event: end\ndata: {\"reason\":\"SHUTDOWN\""));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slow_reader_is_folded_and_misses_no_count, start, stop),
        cmocka_unit_test_setup_teardown(a_burst_is_counted_not_written, start, stop),
        cmocka_unit_test_setup_teardown(many_readers_come_and_go, start, stop),
        cmocka_unit_test_setup_teardown(a_stop_ends_streams_with_a_word, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
