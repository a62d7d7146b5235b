/* Answers whose body is not known in advance (http/stream.h): who may hold what, and how streams end. */
#include <arpa/inet.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "http/stream.h"
#include "http_socket.h"
#include "platform/clock_system.h"

/* Paths: /stream opens a stream, /wait waits for the test. The header Owner gives the owner. The last stream that was
 * opened is in `stream`, with a reference for the test. */
static struct http_server *server;
static struct metrics *metrics;
static struct http_stream *_Atomic stream;
static struct http_exchange *_Atomic waiting;
static _Atomic int opened, refused, ended, rooms, quiets, gone, heads, ends;

static enum http_next on_head(void *context, struct http_exchange *x)
{
    (void)context;
    heads++;
    for (size_t i = 0; i < x->head->field_count; i++)
        if (str_eq_nocase(http_span_str(x->head->fields[i].name, x->text), S("Owner")))
            x->owner = http_span_str(x->head->fields[i].value, x->text).p[0];
    return HTTP_READ;
}

static enum http_next on_body(void *context, struct http_exchange *x)
{
    (void)context;
    if (!str_eq(x->target, S("/wait")))
        return HTTP_ANSWER;
    waiting = x;
    return HTTP_WAIT;
}

static void on_room(void *context)
{
    (void)context;
    rooms++;
}

static void on_quiet(void *context, struct buf *out)
{
    (void)context;
    quiets++;
    buf_text(out, ": keep-alive\n\n");
}

static void on_ended(void *context)
{
    (void)context;
    ended++;
}

static void on_answer(void *context, struct http_exchange *x, struct http_answer *ret)
{
    static const struct http_stream_setup setup = { .on_room = on_room, .on_quiet = on_quiet, .on_ended = on_ended };
    (void)context;
    struct buf body;
    buf_init(&body, 100);
    buf_text(&body, "xx");
    ret->status = 200;
    http_answer_set_body(ret, &body); /* a stream ignores it */
    if (!str_eq(x->target, S("/stream")))
        return;
    struct http_stream *s = http_stream_open(x, &setup);
    if (s) {
        http_stream_unref(atomic_exchange(&stream, s));
        opened++;
    } else {
        ret->status = 503;
        refused++;
    }
}

static void on_end(void *context, struct http_exchange *x)
{
    (void)context;
    (void)x;
    ends++;
}

static void on_refuse(void *context, int status, const char *text, struct http_answer *ret)
{
    (void)context;
    (void)text;
    ret->status = status;
}

static void on_gone(void *context, struct http_exchange *x)
{
    (void)context;
    assert_ptr_equal(x, waiting);
    gone++;
}

static const struct http_handler handler = { .on_head = on_head,
                                             .on_body = on_body,
                                             .on_answer = on_answer,
                                             .on_end = on_end,
                                             .on_refuse = on_refuse,
                                             .on_gone = on_gone };

static void begin(struct http_limits limits)
{
    struct error e = { 0 };
    opened = refused = ended = rooms = quiets = gone = heads = ends = 0;
    waiting = NULL;
    limits.threads = 1;
    metrics = metrics_new();
    struct http_server_setup setup = {
        .listen = "127.0.0.1:0", .clock = clock_system(), .metrics = metrics, .handler = &handler, .limits = limits
    };
    assert_ok(http_server_new(&setup, &server, &e), &e);
}

static void end(void)
{
    http_server_free(server);
    http_stream_unref(atomic_exchange(&stream, NULL));
    assert_int_equal(opened, ended);
    assert_int_equal(heads, ends);
    metrics_free(metrics);
}

/* ---- the client ---- */

#define GET(path)   "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define CHUNKED_200 "Transfer-Encoding: chunked\r\n\r\n"

static int dial_with(const char *text, int receive_buffer)
{
    int fd = http_socket_connect(http_server_port(server), NULL, receive_buffer);
    http_socket_say(fd, text);
    return fd;
}

static int dial(const char *text)
{
    return dial_with(text, 0);
}

static void assert_hears(int fd, const char *until, const char *part)
{
    const char *text = http_socket_hear(fd, until);
    if (!strstr(text, part))
        fail_msg("'%s' does not contain '%s'", text, part);
}

static void await(_Atomic int *counter, int n)
{
    while (*counter < n)
        sched_yield();
}

static enum http_stream_result put(const char *text)
{
    return http_stream_write(stream, str_from(text));
}

/* ---- the body ---- */

static void each_write_is_sent_and_the_connection_goes_on(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial(GET("/stream") GET("/a"));
    assert_hears(fd, "\r\n\r\n", CHUNKED_200);
    assert_int_equal(put("one"), HTTP_STREAM_TAKEN);
    assert_string_equal(http_socket_hear(fd, "one\r\n"), "3\r\none\r\n");
    assert_int_equal(put("0123456789abcdef"), HTTP_STREAM_TAKEN);
    assert_string_equal(http_socket_hear(fd, "def\r\n"), "10\r\n0123456789abcdef\r\n");
    http_stream_end(stream);
    assert_int_equal(put("late"), HTTP_STREAM_ENDED);
    assert_string_equal(http_socket_hear(fd, "0\r\n\r\n"), "0\r\n\r\n");
    assert_hears(fd, "\r\n\r\nxx", "HTTP/1.1 200"); /* the next request was there before */
    assert_int_equal(ended, 1);
    close(fd);
    end();
}

static void an_old_client_gets_the_body_without_chunks(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const char *head = http_socket_hear(fd, "\r\n\r\n");
    assert_null(strstr(head, "chunked"));
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(put("one"), HTTP_STREAM_TAKEN);
    assert_string_equal(http_socket_hear(fd, "one"), "one");
    assert_int_equal(put("two"), HTTP_STREAM_TAKEN);
    http_stream_end(stream);
    assert_string_equal(http_socket_hear(fd, NULL), "two");
    close(fd);
    end();
}

static void head_of_a_stream_has_no_body(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n" GET("/a"));
    assert_hears(fd, "\r\n\r\n", CHUNKED_200);
    assert_hears(fd, "\r\n\r\nxx", "HTTP/1.1 200");
    assert_int_equal(ended, 1);
    assert_int_equal(put("late"), HTTP_STREAM_ENDED);
    close(fd);
    end();
}

/* ---- slow and silent clients ---- */

/* Writes until nothing fits. The number of bytes that were taken. */
static size_t fill(size_t piece_size)
{
    char piece[1000];
    size_t n = 0;
    memset(piece, 'x', sizeof piece);
    for (int refusals = 0; refusals < 1000;) { /* the kernel takes some at first */
        enum http_stream_result r = http_stream_write(stream, (struct str){ piece, piece_size });
        assert_int_not_equal(r, HTTP_STREAM_ENDED);
        n += r == HTTP_STREAM_TAKEN ? piece_size : 0;
        refusals = r == HTTP_STREAM_FULL ? refusals + 1 : 0;
        if (r == HTTP_STREAM_FULL)
            sched_yield();
    }
    return n;
}

/* The bytes of the body, without the framing: all of them are x. */
static size_t count_body(int fd, bool *ret_ended)
{
    static char text[65536];
    char last[5] = { 0 };
    size_t n = 0;
    for (ssize_t got; (got = recv(fd, text, sizeof text, 0)) > 0;) {
        for (ssize_t i = 0; i < got; i++) {
            n += text[i] == 'x';
            memmove(last, last + 1, 4);
            last[4] = text[i];
        }
        if ((*ret_ended = memcmp(last, "0\r\n\r\n", 5) == 0))
            break;
    }
    return n;
}

static void a_slow_reader_costs_a_fixed_amount_and_the_source_is_told(void **state)
{
    (void)state;
    begin((struct http_limits){ .stream_bytes = 5000 });
    int fd = dial_with(GET("/stream"), 4096);
    http_socket_hear(fd, "\r\n\r\n");
    size_t taken = fill(999);
    assert_true(taken < 200000); /* the buffers of the kernel, and 5,000 */
    rooms = 0;                   /* there was room while the kernel took the first bytes */
    bool whole = false;
    char piece[5001] = { 0 };
    assert_int_equal(http_stream_write(stream, (struct str){ piece, sizeof piece }), HTTP_STREAM_FULL);
    char byte;
    while (rooms == 0) {
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        taken -= byte == 'x';
    }
    assert_int_equal(http_stream_write(stream, S("xxx")), HTTP_STREAM_TAKEN);
    http_stream_end(stream);
    assert_int_equal(count_body(fd, &whole), taken + 3);
    assert_true(whole);
    close(fd);
    end();
}

static void a_stream_that_is_not_read_is_cut(void **state)
{
    (void)state;
    begin((struct http_limits){ .stream_bytes = 5000, .reader_ms = 300 });
    int fd = dial_with(GET("/stream"), 4096), other = dial(GET("/a"));
    http_socket_hear(fd, "\r\n\r\n");
    while (put("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") !=
           HTTP_STREAM_ENDED)
        continue;
    await(&ended, 1);
    assert_true(metric_count_labelled(metrics, METRIC_HTTP_CLOSED, 3 /* slow */) == 1);
    assert_hears(other, "\r\n\r\nxx", "HTTP/1.1 200");
    close(fd);
    close(other);
    end();
}

static void silence_is_no_reason_to_end(void **state)
{
    (void)state;
    begin((struct http_limits){
        .header_ms = 40, .body_ms = 40, .idle_ms = 40, .linger_ms = 40, .reader_ms = 40, .keep_alive_ms = 60 });
    int fd = dial(GET("/stream"));
    http_socket_hear(fd, "\r\n\r\n");
    for (int i = 0; i < 3; i++)
        assert_string_equal(http_socket_hear(fd, "\n\n\r\n"), "e\r\n: keep-alive\n\n\r\n");
    assert_true(quiets >= 3);
    assert_int_equal(ended, 0);
    close(fd);
    await(&ended, 1);
    end();
}

/* ---- the end ---- */

static void a_client_that_closes_ends_its_stream_at_once(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial(GET("/stream") GET("/a")); /* what is not read does not hide the end */
    http_socket_hear(fd, "\r\n\r\n");
    shutdown(fd, SHUT_WR);
    await(&ended, 1);
    assert_int_equal(put("late"), HTTP_STREAM_ENDED);
    assert_string_equal(http_socket_hear(fd, NULL), "");
    assert_int_equal(http_server_levels(server).streams, 0);
    close(fd);
    fd = dial_with(GET("/stream"), 4096);
    await(&opened, 2);
    http_socket_hear(fd, "\r\n\r\n");
    (void)fill(1000);
    close(fd); /* while bytes wait */
    await(&ended, 2);
    end();
}

static void a_client_that_waits_and_closes_is_noticed_at_once(void **state)
{
    (void)state;
    begin((struct http_limits){ 0 });
    int fd = dial(GET("/wait") GET("/a"));
    while (!waiting)
        sched_yield();
    assert_int_equal(gone, 0);
    close(fd);
    await(&gone, 1);
    http_resume(waiting, HTTP_ANSWER);
    await(&ends, 1);
    assert_int_equal(gone, 1);
    end();
}

static void a_server_that_stops_ends_its_streams_properly(void **state)
{
    (void)state;
    for (int quiesce = 0; quiesce < 2; quiesce++) {
        begin((struct http_limits){ 0 });
        int fds[3];
        for (int i = 0; i < 3; i++) {
            fds[i] = dial(GET("/stream"));
            http_socket_hear(fds[i], "\r\n\r\n");
        }
        assert_int_equal(put("one"), HTTP_STREAM_TAKEN);
        if (quiesce) {
            http_server_quiesce(server);
            await(&ended, 3);
            assert_int_equal(put("late"), HTTP_STREAM_ENDED);
        }
        end();
        assert_string_equal(http_socket_hear(fds[0], NULL), "0\r\n\r\n");
        assert_hears(fds[2], NULL, "3\r\none\r\n");
        for (int i = 0; i < 3; i++)
            close(fds[i]);
    }
}

/* ---- how many ---- */

static void streams_are_limited_in_total_and_by_owner(void **state)
{
    (void)state;
    static const char *const owners[] = { "A", "A", "B", "B", "C", "C", "D", "D" };
    begin((struct http_limits){ .streams = 8 });
    int fds[array_count(owners)], other;
    for (size_t i = 0; i < array_count(owners); i++) {
        char text[100];
        snprintf(text, sizeof text, "GET /stream HTTP/1.1\r\nHost: x\r\nOwner: %s\r\n\r\n", owners[i]);
        fds[i] = dial(text);
        assert_hears(fds[i], "\r\n\r\n", "HTTP/1.1 200");
        if (i == 1) {
            other = dial(text);
            assert_hears(other, "\r\n\r\nxx", "HTTP/1.1 503");
            close(other);
        }
    }
    assert_int_equal(http_server_levels(server).streams, 8);
    other = dial("GET /stream HTTP/1.1\r\nHost: x\r\nOwner: E\r\n\r\n");
    assert_hears(other, "\r\n\r\nxx", "HTTP/1.1 503");
    close(fds[0]);
    await(&ended, 1);
    assert_int_equal(send(other, GET("/stream"), strlen(GET("/stream")), MSG_NOSIGNAL), strlen(GET("/stream")));
    assert_hears(other, "\r\n\r\n", CHUNKED_200);
    for (size_t i = 1; i < array_count(owners); i++)
        close(fds[i]);
    close(other);
    end();
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void thousands_of_streams_cost_little(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    enum { STREAMS = 5000, EACH_MAX = 128 << 10 }; /* with its shadow memory */
#else
    enum { STREAMS = 5000, EACH_MAX = 32 << 10 };
#endif
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 2 * STREAMS + 100)
        skip();
    begin((struct http_limits){
        .connections = STREAMS + 1, .connections_per_address = STREAMS + 1, .streams = 4 * STREAMS });
    int *fds = xcalloc(STREAMS, sizeof *fds);
    size_t before = resident_bytes();
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = dial(GET("/stream"));
        http_socket_hear(fds[i], "\r\n\r\n");
        assert_int_equal(put("data: something happened\n\n"), HTTP_STREAM_TAKEN);
    }
    for (int i = 0; i < STREAMS; i++)
        http_socket_hear(fds[i], "\n\n\r\n");
    size_t each = (resident_bytes() - before) / STREAMS;
    print_message("# %d streams: %zu bytes each\n", STREAMS, each);
    assert_true(each < EACH_MAX);
    for (int i = 0; i < STREAMS; i++)
        close(fds[i]);
    await(&ended, STREAMS);
    free(fds);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_write_is_sent_and_the_connection_goes_on),
        cmocka_unit_test(an_old_client_gets_the_body_without_chunks),
        cmocka_unit_test(head_of_a_stream_has_no_body),
        cmocka_unit_test(a_slow_reader_costs_a_fixed_amount_and_the_source_is_told),
        cmocka_unit_test(a_stream_that_is_not_read_is_cut),
        cmocka_unit_test(silence_is_no_reason_to_end),
        cmocka_unit_test(a_client_that_closes_ends_its_stream_at_once),
        cmocka_unit_test(a_client_that_waits_and_closes_is_noticed_at_once),
        cmocka_unit_test(a_server_that_stops_ends_its_streams_properly),
        cmocka_unit_test(streams_are_limited_in_total_and_by_owner),
        cmocka_unit_test(thousands_of_streams_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
