#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json/json.h"
#include "bench/sink_server.h"
#include "check.h"
#include "platform/clock_system.h"

/* ---- the parser ---- */

static void a_request_is_read_without_a_copy(void **state)
{
    (void)state;
    struct sink_request r;
    struct str text = S("POST /a?b HTTP/1.1\r\nHost: x\r\nWebhook-ID: 17\r\nBELFRY-TASK-ID:t\r\nbelfry-attempt: 2 \r\n"
                        "belfry-fence: 9\r\nbelfry-scheduled-at: now\r\nContent-Length: 3\r\n\r\nabcGET");
    assert_int_equal(sink_parse(text, &r), SINK_DONE);
    assert_str(r.method, "POST");
    assert_str(r.path, "/a?b");
    assert_str(r.webhook_id, "17");
    assert_str(r.task_id, "t");
    assert_str(r.attempt, "2");
    assert_str(r.fence, "9");
    assert_str(r.scheduled_at, "now");
    assert_int_equal(r.body_bytes, 3);
    assert_int_equal(r.head_bytes, text.n - 6);
    assert_true(r.keep_alive);
}

static void half_a_head_wants_more(void **state)
{
    (void)state;
    struct str whole = S("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    struct sink_request r;
    for (size_t n = 0; n < whole.n; n++)
        assert_int_equal(sink_parse(str_sub(whole, 0, n), &r), SINK_MORE);
    assert_int_equal(sink_parse(whole, &r), SINK_DONE);
    assert_true(r.keep_alive);
    assert_int_equal(sink_parse(S("GET / HTTP/1.0\r\n\r\n"), &r), SINK_DONE);
    assert_false(r.keep_alive);
    assert_int_equal(sink_parse(S("GET / HTTP/1.1\r\nconnection: CLOSE\r\n\r\n"), &r), SINK_DONE);
    assert_false(r.keep_alive);
}

static void what_two_readers_could_read_differently_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "GET / HTTP/1.1\n\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        " / HTTP/1.1\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "get / HTTP/1.1\r\n\r\n",
        "GET x HTTP/1.1\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\t: x\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\r\n\tb: folded\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nA: x\nB: y\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \x7f\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\r\n\r\n",
    };
    for (size_t i = 0; i < array_count(texts); i++) {
        struct sink_request r = { .body_bytes = 42 };
        if (sink_parse(str_from(texts[i]), &r) != SINK_BAD)
            fail_msg("row %zu was read", i);
        assert_int_equal(r.body_bytes, 42);
    }
    static char endless[SINK_HEAD_MAX];
    memset(endless, 'a', sizeof endless);
    struct sink_request r;
    assert_int_equal(sink_parse((struct str){ endless, sizeof endless - 1 }, &r), SINK_MORE);
    assert_int_equal(sink_parse((struct str){ endless, sizeof endless }, &r), SINK_BAD);
}

static void a_path_asks_for_behaviour(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        struct sink_behaviour b;
    } rows[] = {
        { "/", { 200, 0, 0 } },
        { "/status/503", { 503, 0, 0 } },
        { "/x/delay/250/y", { 200, 250, 0 } },
        { "/fail/2/delay/1/status/204", { 204, 1, 2 } },
        { "/status/99", { 200, 0, 0 } },
        { "/status/600", { 200, 0, 0 } },
        { "/status/", { 200, 0, 0 } },
        { "/status", { 200, 0, 0 } },
        { "/status/status/404", { 404, 0, 0 } },
        { "/delay/-1", { 200, 0, 0 } },
        { "/?/status/500", { 200, 0, 0 } },
        { "/status/500?x", { 500, 0, 0 } },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct sink_behaviour b = { .status = 200 };
        sink_parse_path(str_from(rows[i].path), &b);
        assert_int_equal(b.status, rows[i].b.status);
        assert_int_equal(b.delay_ms, rows[i].b.delay_ms);
        assert_int_equal(b.fail_first, rows[i].b.fail_first);
    }
}

/* ---- the server, on its own thread ---- */

struct served {
    struct sink *sink;
    pthread_t thread;
    int stop_fd, log_fd, port;
    FILE *shown;
    struct error error;
    enum err rc;
};

static void *serve(void *context)
{
    struct served *s = context;
    s->rc = sink_run(s->sink, &s->error);
    return NULL;
}

static void start(struct served *s, struct sink_behaviour b)
{
    s->stop_fd = eventfd(0, EFD_CLOEXEC);
    char name[] = "/tmp/belfry-sink-XXXXXX";
    s->log_fd = mkstemp(name);
    unlink(name);
    s->shown = tmpfile();
    struct sink_setup setup = { .listen = S("127.0.0.1:0"),
                                .behaviour = b,
                                .clock = clock_system(),
                                .log_fd = s->log_fd,
                                .shown = s->shown,
                                .stop_fd = s->stop_fd };
    assert_ok(sink_open(&setup, &s->sink, &s->error), &s->error);
    char address[SINK_ADDRESS_TEXT];
    sink_address(s->sink, address);
    assert_true(str_starts(str_from(address), S("127.0.0.1:")));
    s->port = (int)strtol(strrchr(address, ':') + 1, NULL, 10);
    assert_true(s->port > 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

/* Stops the sink and returns its log. */
static char *stop(struct served *s, uint64_t expected_count)
{
    assert_int_equal(write(s->stop_fd, &(uint64_t){ 1 }, 8), 8);
    pthread_join(s->thread, NULL);
    assert_int_equal(s->rc, ERR_OK);
    assert_int_equal(sink_count(s->sink), expected_count);
    sink_free(s->sink);
    char *text = xcalloc(1, 1 << 20);
    assert_true(pread(s->log_fd, text, (1 << 20) - 1, 0) >= 0);
    close(s->log_fd);
    close(s->stop_fd);
    fclose(s->shown);
    return text;
}

static int connect_to(const struct served *s)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)s->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until the expected text has arrived, or the end of the stream. */
static void hear(int fd, const char *expected)
{
    char got[4096] = "";
    size_t n = 0;
    while (!strstr(got, expected)) {
        ssize_t more = recv(fd, got + n, sizeof got - 1 - n, 0);
        if (more <= 0)
            fail_msg("'%s' instead of '%s'", got, expected);
        n += (size_t)more;
    }
}

static void hear_end(int fd)
{
    char c;
    while (recv(fd, &c, 1, 0) > 0)
        continue;
}

static size_t lines_in(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void calls_are_answered_and_logged(void **state)
{
    (void)state;
    struct served s = { 0 };
    start(&s, (struct sink_behaviour){ .status = 200 });
    int fd = connect_to(&s);
    say(fd, "POST /one HTTP/1.1\r\nwebhook-id: w1\r\nBelfry-Task-Id: t1\r\nBelfry-Attempt: 1\r\nBelfry-Fence: 7\r\n"
            "Belfry-Scheduled-At: 2026-01-01T00:00:00.000Z\r\nContent-Length: 7\r\n\r\n{\"a\":1");
    say(fd, "}"); /* in two pieces */
    hear(fd, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
    say(fd,
        "GET /two HTTP/1.1\r\n\r\nGET /status/404 HTTP/1.1\r\n\r\nGET /sta"); /* two pipelined requests and half of a third */
    hear(fd, "HTTP/1.1 404 Refused\r\nContent-Length: 3\r\n\r\nno\n");
    say(fd, "tus/204 HTTP/1.1\r\nConnection: close\r\n\r\n");
    hear(fd, "HTTP/1.1 204 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    hear_end(fd);
    close(fd);
    char *log = stop(&s, 4);
    assert_int_equal(lines_in(log), 4);
    char *first = strndup(log, (size_t)(strchr(log, '\n') - log));
    struct json_doc d;
    struct error e;
    assert_ok(json_parse(str_from(first), &d, &e), &e);
    assert_string_equal(json_string_value(json_object_get(d.root, "webhook_id")), "w1");
    assert_string_equal(json_string_value(json_object_get(d.root, "task_id")), "t1");
    assert_int_equal(json_integer_value(json_object_get(d.root, "attempt")), 1);
    assert_int_equal(json_integer_value(json_object_get(d.root, "fence")), 7);
    assert_string_equal(json_string_value(json_object_get(d.root, "scheduled_at")), "2026-01-01T00:00:00.000Z");
    assert_string_equal(json_string_value(json_object_get(d.root, "body")), "{\"a\":1}");
    assert_string_equal(json_string_value(json_object_get(d.root, "method")), "POST");
    assert_string_equal(json_string_value(json_object_get(d.root, "path")), "/one");
    assert_true(json_integer_value(json_object_get(d.root, "received_us")) > 1700000000000000);
    json_doc_release(&d);
    assert_non_null(strstr(log, "\"attempt\":null"));
    free(first);
    free(log);
}

static void the_first_calls_of_each_id_fail(void **state)
{
    (void)state;
    struct served s = { 0 };
    start(&s, (struct sink_behaviour){ .status = 200, .fail_first = 2 });
    int fd = connect_to(&s);
    static const struct {
        const char *id, *answer;
    } rows[] = {
        { "a", "500 Failed" }, { "b", "500 Failed" }, { "a", "500 Failed" }, { "a", "200 OK" },
        { "b", "500 Failed" }, { "b", "200 OK" },     { "a", "200 OK" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[128];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nwebhook-id: %s\r\n\r\n", rows[i].id);
        say(fd, text);
        hear(fd, rows[i].answer);
    }
    close(fd);
    free(stop(&s, array_count(rows)));
}

static void an_answer_can_be_held_back(void **state)
{
    (void)state;
    struct served s = { 0 };
    start(&s, (struct sink_behaviour){ .status = 200 });
    int slow = connect_to(&s), quick = connect_to(&s), gone = connect_to(&s);
    int64_t begun = clock_steady_ns(clock_system());
    say(gone, "GET /delay/3000000 HTTP/1.1\r\n\r\n");
    say(slow,
        "GET /delay/60 HTTP/1.1\r\n\r\nGET /status/201 HTTP/1.1\r\n\r\n"); /* the second answer waits for the first */
    say(quick, "GET /status/202 HTTP/1.1\r\n\r\n");
    hear(quick, "202 OK");
    close(gone);
    hear(slow, "201 OK");
    assert_true(clock_steady_ns(clock_system()) - begun >= 60000000);
    close(slow);
    close(quick);
    free(stop(&s, 3));
}

static void nonsense_is_answered_and_cut_off(void **state)
{
    (void)state;
    struct served s = { 0 };
    start(&s, (struct sink_behaviour){ .status = 200 });
    int fd = connect_to(&s);
    say(fd, "nonsense\r\n\r\n");
    hear(fd, "400 Refused");
    hear_end(fd);
    close(fd);
    char *log = stop(&s, 1);
    assert_string_equal(log, "");
    free(log);
}

static void a_large_body_and_many_answers_go_through(void **state)
{
    (void)state;
    struct served s = { 0 };
    start(&s, (struct sink_behaviour){ .status = 200 });
    int fd = connect_to(&s);
    enum { SIZE = 1 << 20, COUNT = 5000 };
    char *body = xcalloc(1, SIZE + 1);
    memset(body, 'x', SIZE);
    say(fd, "POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n");
    for (size_t at = 0; at < SIZE;) {
        ssize_t n = send(fd, body + at, SIZE - at, 0);
        assert_true(n > 0);
        at += (size_t)n;
    }
    free(body);
    hear(fd, "200 OK");
    for (int i = 0; i < COUNT; i++) /* without reading: the answers fill the socket buffer */
        say(fd, "GET / HTTP/1.1\r\n\r\n");
    say(fd, "GET /status/418 HTTP/1.1\r\nConnection: close\r\n\r\n");
    hear_end(fd);
    close(fd);
    free(stop(&s, COUNT + 2));
}

static void addresses_to_listen_on_are_checked(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",       "8080",           ":8080", "localhost:80", "127.0.0.1",  "127.0.0.1:65536",
        "::1:80", "[127.0.0.1]:80", "[::1]", "127.1:80",     "127.0.0.1:x"
    };
    struct sink *s = NULL;
    struct error e;
    for (size_t i = 0; i < array_count(wrong); i++) {
        struct sink_setup setup = { .listen = str_from(wrong[i]), .log_fd = -1, .stop_fd = -1 };
        assert_int_equal(sink_open(&setup, &s, &e), ERR_INVALID);
        assert_string_equal(e.field, "--listen");
    }
    struct sink_setup taken = { .listen = S("203.0.113.1:80"), .log_fd = -1, .stop_fd = -1 };
    assert_int_equal(sink_open(&taken, &s, &e), ERR_UNAVAILABLE);
    assert_says(&e, "cannot listen on 203.0.113.1:80");
    assert_null(s);
    sink_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_without_a_copy),
        cmocka_unit_test(half_a_head_wants_more),
        cmocka_unit_test(what_two_readers_could_read_differently_is_refused),
        cmocka_unit_test(a_path_asks_for_behaviour),
        cmocka_unit_test(calls_are_answered_and_logged),
        cmocka_unit_test(the_first_calls_of_each_id_fail),
        cmocka_unit_test(an_answer_can_be_held_back),
        cmocka_unit_test(nonsense_is_answered_and_cut_off),
        cmocka_unit_test(a_large_body_and_many_answers_go_through),
        cmocka_unit_test(addresses_to_listen_on_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
