/* The server with a handler of the test: what is read when, who may hold what, and how connections end. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "http_socket.h"
#include "platform/clock_system.h"

/* Paths: /wait waits for the test, /read/N reads a body of at most N bytes, /no refuses at once, /large/N answers with N
 * bytes; a header Owner makes the client known. */
static struct http_server *server;
static struct metrics *metrics;
static struct http_exchange *_Atomic waiting;
static _Atomic int heads, bodies, ends;
static _Atomic size_t body_bytes;

static enum http_next on_head(void *context, struct http_exchange *x)
{
    (void)context;
    heads++;
    for (size_t i = 0; i < x->head->field_count; i++)
        if (str_eq_nocase(http_span_str(x->head->fields[i].name, x->text), S("Owner"))) {
            x->owner = http_span_str(x->head->fields[i].value, x->text).p[0];
            x->is_known = true;
        }
    if (str_starts(x->target, S("/no")))
        return HTTP_ANSWER;
    x->body_max = str_starts(x->target, S("/read/")) ? strtoul(x->target.p + 6, NULL, 10) : 0;
    if (str_eq(x->target, S("/wait-head"))) {
        x->body_max = 100;
        waiting = x;
        return HTTP_WAIT;
    }
    return HTTP_READ;
}

static enum http_next on_body(void *context, struct http_exchange *x)
{
    (void)context;
    bodies++;
    body_bytes = x->body.n;
    if (!str_eq(x->target, S("/wait")))
        return HTTP_ANSWER;
    waiting = x;
    return HTTP_WAIT;
}

static void on_body_refused(void *context, struct http_exchange *x, enum http_refusal why)
{
    (void)context;
    static char too_large[] = "/413", no_room[] = "/503";
    x->target = str_from(why == HTTP_BODY_TOO_LARGE ? too_large : no_room);
}

static void on_answer(void *context, struct http_exchange *x, struct http_answer *ret)
{
    (void)context;
    struct buf body;
    buf_init(&body, 64 << 20);
    ret->status = str_starts(x->target, S("/no")) ? 403 : 200;
    if (str_eq(x->target, S("/413")) || str_eq(x->target, S("/503")))
        ret->status = (int)strtol(x->target.p + 1, NULL, 10);
    size_t n = str_starts(x->target, S("/large/")) ? strtoul(x->target.p + 7, NULL, 10) : 2;
    for (size_t i = 0; i < n; i++)
        buf_char(&body, 'x');
    http_answer_add(ret, "X-Test", "yes");
    http_answer_add(ret, "X-Empty", "");
    http_answer_set_body(ret, &body);
}

static void on_end(void *context, struct http_exchange *x)
{
    (void)context;
    (void)x;
    ends++;
}

static const struct http_handler handler = {
    on_head, on_body, on_body_refused, on_answer, on_end, http_refuse_in_words
};

static void begin(struct http_limits limits)
{
    struct error e = { 0 };
    heads = bodies = ends = 0;
    waiting = NULL;
    limits.threads = limits.threads ? limits.threads : 1;
    metrics = metrics_new();
    struct http_server_setup setup = {
        .listen = "127.0.0.1:0", .clock = clock_system(), .metrics = metrics, .handler = &handler, .limits = limits
    };
    assert_ok(http_server_new(&setup, &server, &e), &e);
}

static void end(void)
{
    http_server_free(server);
    assert_int_equal(heads, ends);
    metrics_free(metrics);
}

/* ---- the client ---- */

static int dial_from(const char *from, int receive_buffer)
{
    return http_socket_connect(http_server_port(server), from, receive_buffer);
}

static int dial(const char *text)
{
    int fd = dial_from(NULL, 0);
    http_socket_say(fd, text);
    return fd;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

static void assert_says_all(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not contain '%s'", text, part);
}

static struct http_exchange *await(void)
{
    struct http_exchange *x;
    while (!(x = waiting))
        sched_yield();
    waiting = NULL;
    return x;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* ---- requests and answers ---- */

static void an_answer_has_what_http_asks_for(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const char *text = http_socket_hear(fd, NULL);
    assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\nDate: ", 23), 0);
    assert_says_all(text, " GMT\r\nContent-Length: 2\r\nConnection: close\r\nX-Test: yes\r\n\r\nxx");
    assert_null(strstr(text, "X-Empty"));
    close(fd);
    fd = dial("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    text = http_socket_hear(fd, NULL);
    assert_says_all(text, "Content-Length: 2\r\n");
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    close(fd);
    fd = dial("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "Connection: keep-alive\r\n");
    http_socket_say(fd, "GET /a HTTP/1.0\r\n\r\n");
    assert_says_all(http_socket_hear(fd, NULL), "Connection: close\r\n");
    close(fd);
    end();
}

/* RFC 9112, 9.3.2: pipelined requests are answered in order, each before the next one is read. */
static void requests_in_one_packet_are_answered_in_turn(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("POST /read/9 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" GET("/wait") GET(
        "/no") "POST /read/9 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" GET("/a"));
    struct http_exchange *x = await();
    assert_int_equal(heads, 2);
    http_socket_say(fd, GET("/a")); /* nobody reads it now */
    http_resume(x, HTTP_ANSWER);
    for (int i = 0; i < 6; i++)
        assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), i == 2 ? "HTTP/1.1 403" : "HTTP/1.1 200");
    assert_int_equal(heads, 6);
    close(fd);
    end();
}

/* The next requests come with the end of a chunked body, and are longer than the buffer that has the head. */
static void the_head_stays_while_the_next_requests_come(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("POST /wait-head HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    http_resume(await(), HTTP_READ);
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_text(&text, "3\r\nabc\r\n0\r\n\r\n");
    for (int i = 0; i < 500; i++)
        buf_text(&text, GET("/a"));
    http_socket_say(fd, buf_cstr(&text));
    for (int i = 0; i < 501; i++)
        assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_int_equal(heads, 501);
    buf_release(&text);
    close(fd);
    end();
}

static void a_request_comes_byte_by_byte(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    const char *text =
        "POST /read/9 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    int fd = dial(""), one = 1;
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof one);
    for (size_t i = 0; i < strlen(text); i++)
        assert_int_equal(send(fd, text + i, 1, MSG_NOSIGNAL), 1);
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_int_equal(body_bytes, 3);
    close(fd);
    end();
}

/* RFC 9110, 10.1.1. */
static void a_client_that_waits_is_told_to_go_on_or_refused(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("POST /read/9 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(http_socket_hear(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    http_socket_say(fd, "abc");
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    http_socket_say(fd, "POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    const char *text = http_socket_hear(fd, NULL);
    assert_int_equal(count(text, "\r\nDate: "), 1);
    assert_says_all(text, "403");
    assert_says_all(text, "Connection: close\r\n");
    close(fd);
    end();
}

static void the_body_is_read_after_the_handler_has_agreed(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("POST /wait-head HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc");
    struct http_exchange *x = await();
    assert_false(http_peer_is_gone(x));
    assert_int_equal(bodies, 0);
    http_resume(x, HTTP_READ);
    http_socket_say(fd, "def");
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_int_equal(body_bytes, 6);
    http_socket_say(fd, "POST /wait-head HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc");
    x = await();
    http_resume(x, HTTP_ANSWER); /* refused: the body is dropped, and the connection goes on */
    http_socket_say(fd, "def" GET("/a"));
    for (int i = 0; i < 2; i++)
        assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_int_equal(bodies, 2);
    close(fd);
    end();
}

static void a_client_that_is_gone_is_noticed(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial(GET("/wait"));
    struct http_exchange *x = await();
    close(fd);
    while (!http_peer_is_gone(x))
        sched_yield();
    http_resume(x, HTTP_ANSWER);
    while (ends == 0)
        sched_yield();
    end();
}

/* ---- refusals ---- */

/* A refusal is seen, although the client has sent much more than was read; and nothing behind it is a request. */
static void what_cannot_be_read_is_refused_and_the_connection_closes(void **state)
{
    (void)state;
    static const struct {
        const char *head, *status;
    } rows[] = {
        { "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "HTTP/1.1 400" },
        { "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400" },
        { "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501" },
        { "POST /read/9 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nb\r\n0\r\n\r\n",
          "HTTP/1.1 400" },
        { "POST /no HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400" },
        { "GET / HTTP/2.0\r\n\r\n", "HTTP/1.1 505" },
        { "GET /v1%2ftasks HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400" },
        { "GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", "HTTP/1.1 400" },
        { "POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 403" },
    };
    begin((struct http_limits){ 0 });
    for (size_t i = 0; i < array_count(rows); i++) {
        int fd = dial(rows[i].head);
        for (int k = 0; k < 2000; k++)
            send(fd, GET("/a"), strlen(GET("/a")), MSG_NOSIGNAL);
        const char *text = http_socket_hear(fd, NULL);
        assert_says_all(text, rows[i].status);
        assert_says_all(text, "Connection: close\r\n");
        if (count(text, "\r\nDate: ") != 1)
            fail_msg("%s has %zu answers", rows[i].head, count(text, "\r\nDate: "));
        close(fd);
    }
    end();
}

static void bodies_have_limits(void **state)
{
    (void)state;
    begin((struct http_limits){ .body_total = 4 << 20 }); /* 1 MiB for one owner */
    int fd =
        dial("POST /read/3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n" GET("/a"));
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 413");
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    size_t n = 900 << 10;
    char *much = memset(xmalloc(n), 'a', n);
    char head[200];
    snprintf(head, sizeof head, "POST /read/9999999 HTTP/1.1\r\nHost: x\r\nOwner: A\r\nContent-Length: %zu\r\n\r\n",
             n + 1);
    int holding = dial(head);
    assert_int_equal(send(holding, much, n, MSG_NOSIGNAL), n);
    while (http_server_levels(server).body_bytes < n - (16 << 10))
        sched_yield();
    static const char *const rows[][2] = { { "A", "HTTP/1.1 503" }, { "B", "HTTP/1.1 200" } };
    for (size_t i = 0; i < array_count(rows); i++) {
        snprintf(head, sizeof head,
                 "POST /read/9999999 HTTP/1.1\r\nHost: x\r\nOwner: %s\r\nContent-Length: %zu\r\n\r\n", rows[i][0], n);
        http_socket_say(fd, head);
        assert_int_equal(send(fd, much, n, MSG_NOSIGNAL), n);
        assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), rows[i][1]);
    }
    http_socket_say(holding, "b");
    assert_says_all(http_socket_hear(holding, "\r\n\r\nxx"), "HTTP/1.1 200");
    while (http_server_levels(server).body_bytes > 0)
        sched_yield();
    free(much);
    close(holding);
    close(fd);
    end();
}

/* ---- slow and idle clients ---- */

static bool ends_now(int fd)
{
    char c;
    ssize_t n;
    while ((n = recv(fd, &c, 1, 0)) > 0)
        continue;
    return n == 0 || errno == ECONNRESET;
}

static void a_reader_that_stops_is_cut_off_and_has_a_share(void **state)
{
    (void)state;
    begin((struct http_limits){ .answer_total = 96 << 20, .reader_ms = 600 }); /* 24 MiB for one owner */
    const char *request = "GET /large/20000000 HTTP/1.1\r\nHost: x\r\nOwner: A\r\n\r\n";
    int slow = dial_from("127.0.0.1", 4096);
    http_socket_say(slow, request);
    while (http_server_levels(server).answer_bytes < 20000000)
        sched_yield();
    int fd = dial(request);
    assert_says_all(http_socket_hear(fd, "try again"), "HTTP/1.1 503");
    while (http_server_levels(server).answer_bytes > 0)
        sched_yield();
    assert_true(metric_count_labelled(metrics, METRIC_HTTP_CLOSED, 3 /* slow */) == 1);
    http_socket_say(fd, GET("/a"));
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    close(fd);
    close(slow);
    end();
}

static void an_answer_counts_before_it_is_sent(void **state)
{
    (void)state;
    begin((struct http_limits){ .answer_total = 4 << 20 }); /* 1 MiB for one owner */
    const char *request = "GET /wait HTTP/1.1\r\nHost: x\r\nOwner: A\r\n\r\n";
    int one = dial(request);
    struct http_exchange *first = await();
    assert_true(http_reserve_answer(first, 900 << 10));
    waiting = NULL;
    int other = dial(request);
    struct http_exchange *second = await();
    assert_false(http_reserve_answer(second, 200 << 10));
    assert_true(http_reserve_answer(second, 10 << 10)); /* small ones are not counted */
    assert_int_equal(http_server_levels(server).answer_bytes, 900 << 10);
    http_resume(first, HTTP_ANSWER);
    http_resume(second, HTTP_ANSWER);
    assert_says_all(http_socket_hear(one, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_says_all(http_socket_hear(other, "\r\n\r\nxx"), "HTTP/1.1 200");
    while (http_server_levels(server).answer_bytes > 0)
        sched_yield();
    close(one);
    close(other);
    end();
}

static void who_waits_for_an_answer_is_not_cut_off(void **state)
{
    (void)state;
    begin((struct http_limits){ .header_ms = 40, .body_ms = 40, .idle_ms = 40, .linger_ms = 40, .reader_ms = 40 });
    int fd = dial(GET("/wait")), idle = dial(GET("/a"));
    struct http_exchange *x = await();
    http_socket_hear(idle, "\r\n\r\nxx");
    assert_true(ends_now(idle)); /* that takes longer than all limits */
    http_resume(x, HTTP_ANSWER);
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    close(fd);
    close(idle);
    end();
}

static void unknown_clients_may_not_stay_idle(void **state)
{
    (void)state;
    begin((struct http_limits){ .idle_unknown_ms = 50 });
    int known = dial("GET /a HTTP/1.1\r\nHost: x\r\nOwner: A\r\n\r\n"), unknown = dial(GET("/a")), silent = dial("");
    http_socket_hear(known, "\r\n\r\nxx");
    http_socket_hear(unknown, "\r\n\r\nxx");
    assert_true(ends_now(unknown));
    assert_true(ends_now(silent));
    http_socket_say(known, GET("/a"));
    assert_says_all(http_socket_hear(known, "\r\n\r\nxx"), "HTTP/1.1 200");
    close(known);
    close(unknown);
    close(silent);
    end();
}

/* Many addresses hold all connections that there may be; a new client is served all the same. */
static void the_longest_idle_unknown_client_makes_room(void **state)
{
    (void)state;
    begin((struct http_limits){ .connections = 20, .connections_per_address = 10 });
    int held[20], known = dial("GET /a HTTP/1.1\r\nHost: x\r\nOwner: A\r\n\r\n");
    http_socket_hear(known, "\r\n\r\nxx");
    for (size_t i = 0; i < array_count(held); i++) {
        char from[16];
        snprintf(from, sizeof from, "127.0.0.%d", (int)(2 + i / 10));
        held[i] = dial_from(from, 0);
        send(held[i], GET("/a"), strlen(GET("/a")), MSG_NOSIGNAL);
        http_socket_hear(held[i], "\r\n\r\nxx");
    }
    int fd = dial(GET("/a"));
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_true(ends_now(held[0])); /* the longest idle one */
    http_socket_say(known, GET("/a"));
    assert_says_all(http_socket_hear(known, "\r\n\r\nxx"), "HTTP/1.1 200");
    for (size_t i = 0; i < array_count(held); i++)
        close(held[i]);
    close(fd);
    close(known);
    end();
}

static void known_clients_that_are_idle_make_room_for_others(void **state)
{
    (void)state;
    begin((struct http_limits){ .connections = 20, .connections_per_address = 20 });
    int held[20];
    for (size_t i = 0; i < array_count(held); i++) {
        held[i] = dial("GET /a HTTP/1.1\r\nHost: x\r\nOwner: A\r\n\r\n");
        http_socket_hear(held[i], "\r\n\r\nxx");
    }
    int fd = dial_from("127.0.0.2", 0);
    http_socket_say(fd, GET("/a"));
    assert_says_all(http_socket_hear(fd, "\r\n\r\nxx"), "HTTP/1.1 200");
    assert_true(ends_now(held[0]));
    http_socket_say(held[1], GET("/a"));
    assert_says_all(http_socket_hear(held[1], "\r\n\r\nxx"), "HTTP/1.1 200");
    for (size_t i = 0; i < array_count(held); i++)
        close(held[i]);
    close(fd);
    end();
}

static void one_address_has_so_many_connections(void **state)
{
    (void)state;
    begin((struct http_limits){ .connections_per_address = 3, .threads = 3 });
    int fds[5], served = 0;
    for (size_t i = 0; i < array_count(fds); i++)
        fds[i] = dial_from("127.0.0.1", 0);
    for (size_t i = 0; i < array_count(fds); i++) {
        send(fds[i], GET("/a"), strlen(GET("/a")), MSG_NOSIGNAL);
        served += strstr(http_socket_hear(fds[i], "\r\n\r\nxx"), "200 OK") != NULL;
    }
    for (size_t i = 0; i < array_count(fds); i++)
        close(fds[i]);
    assert_int_equal(served, 3);
    end();
}

static void a_server_that_is_quiesced_answers_and_closes(void **state)
{
    (void)state;
    struct error e = { 0 };
    begin((struct http_limits){ .threads = 2 });
    int fd = dial(GET("/wait"));
    struct http_exchange *x = await();
    struct http_server *second = NULL;
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%d", http_server_port(server));
    struct http_server_setup setup = { .listen = listen, .clock = clock_system(), .handler = &handler };
    assert_int_equal(http_server_new(&setup, &second, &e), ERR_UNAVAILABLE); /* also while ports are shared */
    assert_says(&e, "--listen");
    http_server_quiesce(server);
    http_resume(x, HTTP_ANSWER);
    assert_says_all(http_socket_hear(fd, NULL), "Connection: close\r\n");
    close(fd);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_has_what_http_asks_for),
        cmocka_unit_test(requests_in_one_packet_are_answered_in_turn),
        cmocka_unit_test(the_head_stays_while_the_next_requests_come),
        cmocka_unit_test(a_request_comes_byte_by_byte),
        cmocka_unit_test(a_client_that_waits_is_told_to_go_on_or_refused),
        cmocka_unit_test(the_body_is_read_after_the_handler_has_agreed),
        cmocka_unit_test(a_client_that_is_gone_is_noticed),
        cmocka_unit_test(what_cannot_be_read_is_refused_and_the_connection_closes),
        cmocka_unit_test(bodies_have_limits),
        cmocka_unit_test(a_reader_that_stops_is_cut_off_and_has_a_share),
        cmocka_unit_test(an_answer_counts_before_it_is_sent),
        cmocka_unit_test(who_waits_for_an_answer_is_not_cut_off),
        cmocka_unit_test(unknown_clients_may_not_stay_idle),
        cmocka_unit_test(the_longest_idle_unknown_client_makes_room),
        cmocka_unit_test(known_clients_that_are_idle_make_room_for_others),
        cmocka_unit_test(one_address_has_so_many_connections),
        cmocka_unit_test(a_server_that_is_quiesced_answers_and_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
