#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/noop/runner_noop.h"
#include "runner_fixture.h"

static void assert_failed(const struct probe *p, enum failure failure, bool sent, const char *error)
{
    assert_int_equal(p->outcome.kind, OUTCOME_FAILED);
    if (p->outcome.failure != failure || p->outcome.sent != sent || strcmp(p->error, error) != 0)
        fail_msg("%s: failure %d, sent %d, '%s'", p->config, (int)p->outcome.failure, p->outcome.sent, p->error);
}

static void assert_sent(const struct fixture *f, const char *line)
{
    if (!strstr(f->target.last, line))
        fail_msg("no '%s' in:\n%s", line, f->target.last);
}

static void assert_not_sent(const struct fixture *f, const char *text)
{
    if (strcasestr(f->target.last, text))
        fail_msg("'%s' in:\n%s", text, f->target.last);
}

/* ---- requests ---- */

static void a_call_carries_what_receivers_rely_on(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/ok", ", \"headers\": {\"X-Team\": \"a b\", \"X-Empty\": \"\"}");
    p.task.scheduled_ms = 1767225600123;
    p.task.attempts = 1;
    int64_t before_us = clock_wall_us(clock_system());
    call(f, &p);
    int64_t after_us = clock_wall_us(clock_system());
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(p.outcome.failure, FAILURE_NONE);
    assert_true(p.outcome.sent);
    assert_int_equal(p.outcome.http_status, 200);
    assert_int_equal(p.outcome.retry_after_ms, -1);
    assert_int_equal(p.output_n, 4);
    assert_memory_equal(p.output, "done", 4);
    assert_true(p.outcome.started_us >= before_us && p.outcome.completed_us <= after_us);
    assert_int_equal(strlen(p.trace_id), 32);
    char text[128];
    assert_true(str_starts(str_from(f->target.last), S("POST /ok HTTP/1.1\r\n")));
    snprintf(text, sizeof text, "Host: 127.0.0.1:%d\r\n", f->target.port);
    assert_sent(f, text);
    assert_sent(f, "webhook-id: 01890a5d-ac96-774b-bcce-b302099a8057\r\n");
    snprintf(text, sizeof text, "webhook-timestamp: %lld\r\n", (long long)(p.outcome.started_us / 1000000));
    assert_sent(f, text);
    assert_sent(f, "\r\nIdempotency-Key: 01890a5d-ac96-774b-bcce-b302099a8057\r\n");
    assert_sent(f, "\r\nX-Idempotency-Key: 01890a5d-ac96-774b-bcce-b302099a8057\r\n");
    assert_sent(f, "Belfry-Task-Id: 01890a5d-ac96-774b-bcce-b302099a8057\r\n");
    assert_sent(f, "Belfry-Attempt: 2\r\n");
    assert_sent(f, "Belfry-Fence: 3\r\n");
    assert_sent(f, "Belfry-Scheduled-At: 2026-01-01T00:00:00.123Z\r\n");
    snprintf(text, sizeof text, "traceparent: 00-%s-", p.trace_id);
    assert_sent(f, text);
    assert_sent(f, "User-Agent: Belfry/" BELFRY_VERSION "\r\n");
    assert_sent(f, "Content-Type: application/json\r\n");
    assert_sent(f, "Content-Length: 8\r\n");
    assert_sent(f, "X-Team: a b\r\n");
    assert_sent(f, "X-Empty:\r\n");
    assert_sent(f, "\r\n\r\n{\"n\": 1}");
    assert_not_sent(f, "Expect");
}

static void an_occurrence_is_named_after_its_parent(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/ok", "");
    p.task.kind = TASK_OCCURRENCE;
    (void)uuid_parse(S("01890a5d-0000-7000-8000-000000000001"), &p.task.parent);
    call(f, &p);
    assert_sent(f, "webhook-id: 01890a5d-ac96-774b-bcce-b302099a8057\r\n");
    assert_sent(f, "Belfry-Task-Id: 01890a5d-0000-7000-8000-000000000001\r\n");
}

/* One handle makes all of these calls in turn: no call may affect the next. */
static void methods_and_bodies_do_not_rub_off(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *path, *more, *starts, *has, *has_not;
    } rows[] = {
        { "/ok", "", "POST /ok HTTP", "\r\n\r\n{\"n\": 1}", "none" },
        { "/ok?a=1", ", \"method\": \"GET\"", "GET /ok?a=1 HTTP", "Accept: */*", "Content-" },
        { "/ok", ", \"method\": \"PUT\", \"body\": [1]", "PUT /ok HTTP", "Content-Length: 3\r\n", "n\": 1" },
        { "/ok", ", \"method\": \"HEAD\"", "HEAD /ok HTTP", "Belfry-Attempt: 1", "Content-" },
        { "/ok", ", \"method\": \"DELETE\", \"body\": null", "DELETE /ok HTTP", "Content-Length: 0\r\n",
          "Content-Type" },
        { "/ok", ", \"body\": \"plain text\"", "POST /ok HTTP", "Content-Type: text/plain; charset=utf-8\r\n", "json" },
        { "/ok", ", \"body\": \"a,b\", \"headers\": {\"content-type\": \"text/csv\"}", "POST /ok HTTP",
          "content-type: text/csv\r\n", "plain" },
        { "/ok", ", \"body\": null", "POST /ok HTTP", "Content-Length: 0\r\n", "Content-Type" },
        { "/ok", ", \"method\": \"GET\", \"body\": {}", "GET /ok HTTP", "Content-Length: 2\r\n", "POST" },
        { "/ok", ", \"headers\": {\"User-Agent\": \"mine\"}", "POST /ok HTTP", "User-Agent: mine\r\n", "Belfry/" },
        { "/ok", ", \"method\": \"OPTIONS\"", "OPTIONS /ok HTTP", "\r\n\r\n{\"n\": 1}", "mine" },
        { "/ok", ", \"method\": \"GET\"", "GET /ok HTTP", "Accept: */*", "Content-" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct probe p;
        prepare(f, &p, "127.0.0.1", rows[i].path, rows[i].more);
        runner_start(runner(f), &p.run);
        finish(f, &p);
        if (!strchr(rows[i].path, '?') && !strstr(rows[i].more, "HEAD")) /* the target does not support it */
            assert_int_equal(p.outcome.kind, OUTCOME_OK);
        if (!str_starts(str_from(f->target.last), str_from(rows[i].starts)))
            fail_msg("row %zu: %s", i, f->target.last);
        assert_sent(f, rows[i].has);
        assert_not_sent(f, rows[i].has_not);
    }
}

static void calls_one_after_the_other_share_a_connection(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    for (int i = 0; i < 20; i++) {
        call_path(f, &p, i % 2 ? "/created" : "/ok");
        assert_int_equal(p.outcome.http_status, i % 2 ? 201 : 200);
    }
    assert_int_equal(f->target.requests, 20);
    assert_int_equal(f->target.connections, 1);
}

/* ---- responses ---- */

static void statuses_decide(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *path, *error;
        int status;
        int64_t retry_after_ms;
    } rows[] = {
        { "/redirect", "HTTP 302", 302, -1 }, { "/teapot", "HTTP 418", 418, -1 },
        { "/busy", "HTTP 503", 503, 7000 },   { "/busy-date", "HTTP 429", 429, 86400000 },
        { "/busy-odd", "HTTP 503", 503, -1 }, { "/endless-no", "HTTP 500", 500, -1 },
    };
    struct probe p;
    for (size_t i = 0; i < array_count(rows); i++) {
        call_path(f, &p, rows[i].path);
        assert_failed(&p, FAILURE_HTTP, true, rows[i].error);
        assert_int_equal(p.outcome.http_status, rows[i].status);
        assert_int_equal(p.outcome.retry_after_ms, rows[i].retry_after_ms);
    }
    call_path(f, &p, "/teapot");
    assert_memory_equal(p.output, "short", 5);
    call_path(f, &p, "/empty");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(p.outcome.http_status, 204);
    assert_int_equal(p.output_n, 0);
    assert_int_equal(f->target.requests, (int)array_count(rows) + 2);
}

static void answers_are_kept_and_read_up_to_a_cap(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    call_path(f, &p, "/long");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(p.output_n, 16384);
    assert_int_equal(p.output[16383], 'x');
    call_path(f, &p, "/endless");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(p.outcome.http_status, 200);
    assert_int_equal(p.output_n, 16384);
    call_path(f, &p, "/heads");
    assert_failed(&p, FAILURE_NETWORK, true, "response headers are too long");
}

static void broken_answers_are_network_failures(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    call_path(f, &p, "/close");
    assert_failed(&p, FAILURE_NETWORK, true, "connection closed without a response");
    call_path(f, &p, "/half");
    assert_failed(&p, FAILURE_NETWORK, true, "response ended early");
    call_path(f, &p, "/garbage");
    assert_failed(&p, FAILURE_NETWORK, true, "response is not HTTP");
    assert_int_equal(p.outcome.http_status, 0);
}

static void a_call_at_most_once_is_never_sent_again(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    call_path(f, &p, "/ok"); /* leaves a connection open */
    prepare(f, &p, "127.0.0.1", "/close", "");
    p.task.delivery = DELIVER_AT_MOST_ONCE;
    call(f, &p);
    assert_failed(&p, FAILURE_NETWORK, true, "connection closed without a response");
    assert_int_equal(f->target.requests, 2);
    call_path(f, &p, "/ok");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(f->target.connections, 2); /* the first connection is still used for others */
}

static void failed_connections_are_known_to_be_unsent(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/ok", "");
    snprintf(p.config, sizeof p.config, "{\"url\": \"http://127.0.0.1:1/\"}");
    p.task.target_config = str_from(p.config);
    call(f, &p);
    assert_failed(&p, FAILURE_CONNECT, false, "connection refused");
    prepare(f, &p, "127.0.0.1", "/ok", "");
    snprintf(p.config, sizeof p.config, "{\"url\": \"https://127.0.0.1:%d/\"}", f->target.port);
    p.task.target_config = str_from(p.config);
    call(f, &p);
    assert_failed(&p, FAILURE_TLS, false, "TLS handshake failed");
}

/* ---- timeouts ---- */

static void a_silent_target_times_out(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/silent", "");
    p.task.timeout_ms = 60;
    call(f, &p);
    assert_failed(&p, FAILURE_TIMEOUT, true, "timed out after 60ms");
    assert_in_range(p.outcome.completed_us - p.outcome.started_us, 59000, 2000000);
    prepare(f, &p, "127.0.0.1", "/silent", ", \"timeout_ms\": 40"); /* the shorter of the two */
    call(f, &p);
    assert_failed(&p, FAILURE_TIMEOUT, true, "timed out after 40ms");
}

static void a_connection_that_never_comes_times_out_unsent(void **state)
{
    struct fixture *f = *state;
    int full = socket(AF_INET, SOCK_STREAM, 0), fillers[4];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    assert_int_equal(bind(full, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(full, 0), 0);
    assert_int_equal(getsockname(full, (struct sockaddr *)&at, &n), 0);
    for (size_t i = 0; i < array_count(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fillers[i], (struct sockaddr *)&at, n);
    }
    struct probe p;
    f->setup.connect_timeout_ms = 80;
    prepare(f, &p, "127.0.0.1", "/ok", "");
    snprintf(p.config, sizeof p.config, "{\"url\": \"http://127.0.0.1:%d/\"}", ntohs(at.sin_port));
    p.task.target_config = str_from(p.config);
    call(f, &p);
    assert_failed(&p, FAILURE_TIMEOUT, false, "no connection after 80ms");
    for (size_t i = 0; i < array_count(fillers); i++)
        close(fillers[i]);
    close(full);
}

/* A run behind others is read late; the result is the same as if it had been read at once. */
static void what_waits_is_judged_when_its_turn_comes(void **state)
{
    struct fixture *f = *state;
    f->setup.host_connections_max = 1;
    struct probe p[4];
    for (int i = 0; i < 4; i++) {
        prepare(f, &p[i], "127.0.0.1", i == 0 ? "/silent" : "/ok", "");
        if (i == 2)
            p[i].task.target_config = S("{\"url\": \"http://user@127.0.0.1/\"}");
        runner_start(runner(f), &p[i].run);
        assert_int_equal(p[i].done, 0);
    }
    runner_abort(f->runner, &p[0].run);
    finish(f, &p[3]);
    assert_int_equal(p[1].outcome.kind, OUTCOME_OK);
    assert_failed(&p[2], FAILURE_REFUSED, false, "url must not hold a user name or password");
    assert_int_equal(p[3].outcome.kind, OUTCOME_OK);
    assert_int_equal(f->target.requests, 2);
}

/* ---- abort ---- */

static void an_aborted_call_ends_at_once(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/silent", "");
    runner_start(runner(f), &p.run);
    while (f->target.requests == 0)
        uv_run(&f->loop, UV_RUN_ONCE);
    runner_abort(f->runner, &p.run);
    assert_int_equal(p.done, 1);
    assert_int_equal(p.outcome.kind, OUTCOME_CANCELLED);
    assert_true(p.outcome.sent);
    assert_string_equal(p.error, "cancelled");
    runner_abort(f->runner, &p.run); /* a second abort has no effect */
    assert_int_equal(p.done, 1);
    call_path(f, &p, "/ok");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
}

static void a_waiting_call_is_aborted_unsent(void **state)
{
    struct fixture *f = *state;
    f->setup.host_connections_max = 1;
    struct probe p[3];
    for (int i = 0; i < 3; i++) {
        prepare(f, &p[i], "127.0.0.1", i == 0 ? "/silent" : "/ok", "");
        runner_start(runner(f), &p[i].run);
    }
    runner_abort(f->runner, &p[1].run);
    assert_int_equal(p[1].outcome.kind, OUTCOME_CANCELLED);
    assert_false(p[1].outcome.sent);
    assert_int_equal(p[1].outcome.started_us, 0);
    runner_abort(f->runner, &p[0].run); /* makes room for the third */
    assert_true(p[0].outcome.started_us > 0);
    finish(f, &p[2]);
    assert_int_equal(p[2].outcome.kind, OUTCOME_OK);
    assert_int_equal(f->target.requests, 1);
}

static void a_lookup_can_be_abandoned(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "mute.test", "/ok", "");
    runner_start(runner(f), &p.run);
    while (f->target.queries == 0)
        uv_run(&f->loop, UV_RUN_ONCE);
    runner_abort(f->runner, &p.run);
    assert_int_equal(p.done, 1);
    assert_int_equal(p.outcome.kind, OUTCOME_CANCELLED);
    assert_int_equal(p.outcome.started_us, 0);
} /* the runner is freed during the lookup */

/* ---- refused targets ---- */

static void urls_that_deceive_are_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *url, *error;
    } rows[] = {
        { "ftp://127.0.0.1/", "url must start with http:// or https://" },
        { "file:///etc/passwd", "url must start with http:// or https://" },
        { "gopher://127.0.0.1/", "url must start with http:// or https://" },
        { "127.0.0.1/", "url must start with http:// or https://" },
        { "http://", "url is not a valid URL" },
        { "http://user@127.0.0.1/", "url must not hold a user name or password" },
        { "http://u:p@127.0.0.1/", "url must not hold a user name or password" },
        { "http://127.0.0.1:99999/", "url has no valid port" },
        { "http://127.0.0.1:0/", "url has no valid port" },
        { "http://127.1/", "url must have its host written plainly: a name, or an address as four decimal numbers" },
        { "http://2130706433/",
          "url must have its host written plainly: a name, or an address as four decimal numbers" },
        { "http://0x7f.0.0.1/",
          "url must have its host written plainly: a name, or an address as four decimal numbers" },
        { "http://0177.0.0.1/",
          "url must have its host written plainly: a name, or an address as four decimal numbers" },
        { "http://%31%32%37.0.0.1/",
          "url must have its host written plainly: a name, or an address as four decimal numbers" },
        { "http://256.0.0.1/", "url has no valid address" },
        { "http://1.2.3.4.5/", "url has no valid address" },
        { "http://[fe80::1%25eth0]/", "url must not have an IPv6 zone" },
        { "http://a~b/", "url has no valid host name" },
        { "http:///127.0.0.1/",
          "url must have its host written plainly: a name, or an address as four decimal numbers" },
        { "http://10.0.0.1/", GUARD_REFUSED },
        { "http://169.254.169.254/", GUARD_REFUSED },
        { "http://[::ffff:10.0.0.1]/", GUARD_REFUSED },
        { "http://[fd00::1]/", GUARD_REFUSED },
        { "http://0.0.0.0/", GUARD_REFUSED },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct probe p;
        prepare(f, &p, "127.0.0.1", "/", "");
        snprintf(p.config, sizeof p.config, "{\"url\": \"%s\"}", rows[i].url);
        p.task.target_config = str_from(p.config);
        runner_start(runner(f), &p.run);
        assert_int_equal(p.done, 1);
        assert_failed(&p, FAILURE_REFUSED, false, rows[i].error);
    }
    assert_int_equal(f->target.connections, 0);
}

static void wrong_targets_are_refused(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "127.0.0.1", "/", ", \"headers\": {\"Belfry-Fence\": \"9\"}");
    call(f, &p);
    assert_failed(&p, FAILURE_REFUSED, false,
                  "headers.Belfry-Fence is reserved: Belfry or the HTTP connection sets it");
    assert_int_equal(f->target.connections, 0);
}

/* All that stands for 127.0.0.1 or ::1, in any notation that some parser reads, and what reaches other machines of the
 * operator. */
static void loopback_is_blocked_unless_allowed(void **state)
{
    struct fixture *f = *state;
    f->setup.guard.allow_loopback = false;
    static const char *const hosts[] = {
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "127.0.0.2",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7F000001",
        "0x7f.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "0177.1",
        "0177.0.0.01",
        "127.0.0.0x1",
        "127.000.000.001",
        "00000177.0.0.1",
        "0",
        "0.0.0.0",
        "0.0",
        "0x0",
        "00",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "LocalHost",
        "ok.test",
        "OK.test",
        "%31%32%37.0.0.1",
        "%6cocalhost",
        "127%2e0%2e0%2e1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[0000::0001]",
        "[::0.0.0.1]",
        "[::127.0.0.1]",
        "[::7f00:1]",
        "[::ffff:127.0.0.1]",
        "[::FFFF:7F00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::ffff:0:127.0.0.1]",
        "[::ffff:0:7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2002:7f00:1::7f00:1]",
        "[2001::7f00:1]",
        "[fe80::1]",
        "[fe80::5efe:127.0.0.1]",
        "[::1%25lo]",
        "[fe80::1%25lo]",
        "[::ffff:127.1]",
        "[::ffff:0x7f.0.0.1]",
        "[100::1]",
        "[5f00::1]",
        "[3fff::1]",
    };
    for (size_t i = 0; i < array_count(hosts); i++) {
        struct probe p;
        prepare(f, &p, hosts[i], "/ok", "");
        call(f, &p);
        if (p.outcome.kind != OUTCOME_FAILED || p.outcome.sent ||
            (p.outcome.failure != FAILURE_REFUSED &&
             strcmp(p.error, "host name not found, or its address is not allowed") != 0))
            fail_msg("%s: %s", hosts[i], p.error);
    }
    assert_int_equal(f->target.connections, 0);
}

static void an_allowed_range_is_called(void **state)
{
    struct fixture *f = *state;
    struct address_range only[] = { { .first = { .b = { 127, 0, 0, 1 } }, .bits = 32 } };
    f->setup.guard.allow_loopback = false;
    f->setup.guard.allowed = only;
    f->setup.guard.allowed_count = 1;
    struct probe p;
    call_path(f, &p, "/ok");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    prepare(f, &p, "127.0.0.2", "/ok", "");
    call(f, &p);
    assert_failed(&p, FAILURE_REFUSED, false, GUARD_REFUSED);
}

static void an_allowed_port_is_called(void **state)
{
    struct fixture *f = *state;
    struct address_range only[] = { { .first = { .b = { 127, 0, 0, 1 } }, .bits = 32, .port = f->target.port } };
    f->setup.guard = (struct guard_setup){ .allowed = only, .allowed_count = 1 };
    struct probe p;
    call_path(f, &p, "/ok");
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    prepare(f, &p, "127.0.0.1", "/ok", "");
    snprintf(p.config, sizeof p.config, "{\"url\": \"http://127.0.0.1:%d/\"}", f->target.names_port);
    p.task.target_config = str_from(p.config);
    call(f, &p);
    assert_failed(&p, FAILURE_REFUSED, false, GUARD_REFUSED);
}

static bool loopback_now;

static bool loopback_holds(void *context)
{
    (void)context;
    return loopback_now;
}

/* Loopback is allowed at first: neither the host's entry nor its open connection outlives that. */
static void loopback_is_judged_at_each_call(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    static const char *const hosts[] = { "127.0.0.1", "ok.test" };
    f->setup.guard.loopback_holds = loopback_holds;
    for (size_t i = 0; i < array_count(hosts); i++) {
        loopback_now = true;
        prepare(f, &p, hosts[i], "/ok", "");
        call(f, &p);
        assert_int_equal(p.outcome.kind, OUTCOME_OK);
        loopback_now = false;
        for (int fresh = 0; fresh < 2; fresh++) {
            prepare(f, &p, hosts[i], "/ok", "");
            p.task.delivery = fresh ? DELIVER_AT_MOST_ONCE : DELIVER_AT_LEAST_ONCE; /* fresh: needs a new connection */
            call(f, &p);
            assert_failed(&p, i ? FAILURE_CONNECT : FAILURE_REFUSED, false,
                          i ? "host name not found, or its address is not allowed" : GUARD_REFUSED_NOW);
        }
    }
    assert_int_equal(f->target.connections, 2);
    loopback_now = true;
    prepare(f, &p, "127.0.0.1", "/ok", "");
    call(f, &p);
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
}

/* ---- host names ---- */

static void names_are_looked_up_once(void **state)
{
    struct fixture *f = *state;
    struct probe p[20];
    for (int i = 0; i < 20; i++) {
        prepare(f, &p[i], i % 2 ? "ok.test" : "OK.Test", "/ok", "");
        runner_start(runner(f), &p[i].run);
    }
    for (int i = 0; i < 20; i++) {
        finish(f, &p[i]);
        assert_int_equal(p[i].outcome.kind, OUTCOME_OK);
    }
    assert_int_equal(f->target.queries, 2); /* IPv4 and IPv6 */
    call_path(f, &p[0], "/ok");
    prepare(f, &p[0], "ok.test", "/ok", "");
    call(f, &p[0]);
    assert_int_equal(f->target.queries, 2);
    char text[64];
    snprintf(text, sizeof text, "Host: ok.test:%d\r\n", f->target.port);
    assert_sent(f, text);
}

static void localhost_is_found_without_a_server(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "localhost", "/ok", "");
    call(f, &p);
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(f->target.queries, 0);
}

static void only_allowed_addresses_of_a_name_are_called(void **state)
{
    struct fixture *f = *state;
    struct probe p;
    prepare(f, &p, "mixed.test", "/ok", "");
    call(f, &p);
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    prepare(f, &p, "private.test", "/ok", ""); /* what is said of gone.test: nobody finds internal names by this */
    call(f, &p);
    assert_failed(&p, FAILURE_CONNECT, false, "host name not found, or its address is not allowed");
}

static void names_that_are_not_there_fail_and_are_remembered(void **state)
{
    struct fixture *f = *state;
    struct probe p[3];
    for (int i = 0; i < 2; i++) {
        prepare(f, &p[i], "gone.test", "/ok", "");
        runner_start(runner(f), &p[i].run);
    }
    finish(f, &p[0]);
    finish(f, &p[1]);
    assert_failed(&p[0], FAILURE_CONNECT, false, "host name not found, or its address is not allowed");
    assert_failed(&p[1], FAILURE_CONNECT, false, "host name not found, or its address is not allowed");
    int queries = f->target.queries;
    prepare(f, &p[2], "gone.test", "/ok", "");
    runner_start(runner(f), &p[2].run);
    assert_int_equal(p[2].done, 1);
    assert_int_equal(f->target.queries, queries);
    prepare(f, &p[0], "nothing.test", "/ok", "");
    call(f, &p[0]);
    assert_failed(&p[0], FAILURE_CONNECT, false, "host name not found, or its address is not allowed");
    prepare(f, &p[0], "broken.test", "/ok", "");
    call(f, &p[0]);
    assert_failed(&p[0], FAILURE_CONNECT, false, "host name could not be looked up");
}

static void a_bad_name_server_is_told(void **state)
{
    struct fixture *f = *state;
    struct error e;
    f->setup.name_servers = "not an address";
    assert_null(runner_http_new(&f->loop, clock_system(), &f->setup, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_says(&e, "name lookup");
}

static void noop_is_done_at_once(void **state)
{
    struct fixture *f = *state;
    struct runner *noop = runner_noop_new(clock_system());
    struct probe p;
    prepare(f, &p, "x", "/", "");
    runner_start(noop, &p.run);
    assert_int_equal(p.done, 1);
    assert_int_equal(p.outcome.kind, OUTCOME_OK);
    assert_int_equal(p.outcome.retry_after_ms, -1);
    assert_true(p.outcome.started_us > 0);
    assert_int_equal(p.outcome.started_us, p.outcome.completed_us);
    runner_abort(noop, &p.run);
    assert_int_equal(p.done, 1);
    runner_free(noop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_call_carries_what_receivers_rely_on),
        WITH_FIXTURE(an_occurrence_is_named_after_its_parent),
        WITH_FIXTURE(methods_and_bodies_do_not_rub_off),
        WITH_FIXTURE(calls_one_after_the_other_share_a_connection),
        WITH_FIXTURE(statuses_decide),
        WITH_FIXTURE(answers_are_kept_and_read_up_to_a_cap),
        WITH_FIXTURE(broken_answers_are_network_failures),
        WITH_FIXTURE(a_call_at_most_once_is_never_sent_again),
        WITH_FIXTURE(failed_connections_are_known_to_be_unsent),
        WITH_FIXTURE(a_silent_target_times_out),
        WITH_FIXTURE(a_connection_that_never_comes_times_out_unsent),
        WITH_FIXTURE(what_waits_is_judged_when_its_turn_comes),
        WITH_FIXTURE(an_aborted_call_ends_at_once),
        WITH_FIXTURE(a_waiting_call_is_aborted_unsent),
        WITH_FIXTURE(a_lookup_can_be_abandoned),
        WITH_FIXTURE(urls_that_deceive_are_refused),
        WITH_FIXTURE(wrong_targets_are_refused),
        WITH_FIXTURE(loopback_is_blocked_unless_allowed),
        WITH_FIXTURE(an_allowed_range_is_called),
        WITH_FIXTURE(an_allowed_port_is_called),
        WITH_FIXTURE(loopback_is_judged_at_each_call),
        WITH_FIXTURE(names_are_looked_up_once),
        WITH_FIXTURE(localhost_is_found_without_a_server),
        WITH_FIXTURE(only_allowed_addresses_of_a_name_are_called),
        WITH_FIXTURE(names_that_are_not_there_fail_and_are_remembered),
        WITH_FIXTURE(a_bad_name_server_is_told),
        WITH_FIXTURE(noop_is_done_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
