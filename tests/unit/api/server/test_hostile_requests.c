/* Hostile or faulty clients: requests that are too large, too slow, malformed, or without a key. */
#include "check.h"
#include "http_client.h"

static struct harness *h;
static struct harness *impatient; /* meanwhile, of a test that has a server of its own */

static int start(void **state)
{
    (void)state;
    h = harness_new(true, &(struct api_limits){ .http = { .header_ms = 300,
                                                          .body_ms = 2000,
                                                          .idle_ms = 700,
                                                          .connections_per_address = 24,
                                                          .body_total = 24 << 20 } });
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_free(h);
    return 0;
}

/* A server that waits an hour for a client: the test is about what it holds meanwhile, however long the machine takes. */
static int start_patient(void **state)
{
    enum { PATIENCE_MS = 3600 * 1000 };
    (void)state;
    impatient = h;
    h = harness_new(true, &(struct api_limits){ .http = { .header_ms = PATIENCE_MS,
                                                          .body_ms = PATIENCE_MS,
                                                          .idle_ms = PATIENCE_MS,
                                                          .idle_unknown_ms = PATIENCE_MS,
                                                          .body_total = 24 << 20 } });
    return 0;
}

static int stop_patient(void **state)
{
    (void)state;
    harness_free(h);
    h = impatient;
    return 0;
}

#define NOOP "{\"target_type\":\"NOOP\"}"

/* Sends the text as it is and reads the answer. */
static struct answer say(const char *text)
{
    int fd = client_connect(h);
    client_send(fd, str_from(text));
    struct answer a = client_read(fd, false);
    close(fd);
    return a;
}

static char *repeat(char c, size_t n)
{
    char *text = xmalloc(n + 1);
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

static void without_a_good_key_there_is_nothing(void **state)
{
    (void)state;
    char wrong[AUTH_KEY_TEXT + 1], unknown[AUTH_KEY_TEXT + 1];
    struct api_key row;
    auth_key_make(PEPPER, S("admin00001"), 1, S(""), S(""), 0, wrong, &row);
    auth_key_make(PEPPER, S("stranger01"), 1, S(""), S(""), 0, unknown, &row);
    struct answer a = ask_with(h, NULL, "GET", "/v1/tasks", NULL, NULL);
    assert_string_equal(header_of(&a, "WWW-Authenticate"), "Bearer realm=\"belfry\"");
    client_answer_release(&a);
    assert_problem(ask_with(h, NULL, "GET", "/v1/tasks", NULL, NULL), 401, "unauthorized", "Authorization");
    assert_problem(ask_with(h, wrong, "GET", "/v1/tasks", NULL, NULL), 401, "unauthorized", "unknown or wrong");
    assert_problem(ask_with(h, unknown, "GET", "/v1/tasks", NULL, NULL), 401, "unauthorized", "wrong");
    assert_problem(ask_with(h, "bf_short", "GET", "/v1/tasks", NULL, NULL), 401, "unauthorized",
                   "not a complete API key");
    assert_problem(ask_with(h, NULL, "GET", "/metrics", "Authorization: Basic YTpi\r\n", NULL), 401, "unauthorized",
                   "");
    struct answer good = ask(h, "GET", "/v1/tasks", NULL);
    assert_status(&good, 200);
    assert_problem(ask_with(h, wrong, "GET", "/v1/tasks", NULL, NULL), 401, "unauthorized", "wrong"); /* now cached */
    client_answer_release(&good);
}

static void put_key(struct str id, int32_t tenant, struct str scopes, int64_t expires_ms, char text[AUTH_KEY_TEXT + 1])
{
    struct api_key row;
    auth_key_make(PEPPER, id, tenant, S("test"), scopes, 1, text, &row);
    row.expires_ms = expires_ms;
    struct op_key_put op = { .op = { .kind = OP_KEY_PUT }, .key = &row };
    arena_init(&op.op.arena, 4096);
    harness_apply(h, &op.op);
    assert_int_equal(op.op.rc, ERR_OK);
    arena_release(&op.op.arena);
}

static void a_key_opens_what_its_scopes_name(void **state)
{
    (void)state;
    char reader[AUTH_KEY_TEXT + 1], old[AUTH_KEY_TEXT + 1];
    put_key(S("reader0001"), 1, S("tasks:read nonsense"), 0, reader);
    put_key(S("expired001"), 1, S("admin"), 5, old);
    for (int i = 0; i < 2; i++) { /* first checked by the store, then from the cache */
        struct answer a = ask_with(h, reader, "GET", "/v1/tasks", NULL, NULL);
        assert_status(&a, 200);
        client_answer_release(&a);
        assert_problem(ask_with(h, reader, "POST", "/v1/tasks", NULL, NOOP), 403, "forbidden", "tasks:write");
        assert_problem(ask_with(h, reader, "GET", "/metrics", NULL, NULL), 403, "forbidden", "metrics:read");
        assert_problem(ask_with(h, old, "GET", "/v1/tasks", NULL, NULL), 401, "unauthorized", "expired");
    }
}

static void one_tenant_does_not_see_another(void **state)
{
    (void)state;
    char other[AUTH_KEY_TEXT + 1], path[128], key[] = "Idempotency-Key: tenants\r\n";
    put_key(S("tenant0002"), 2, S("admin"), 0, other);
    struct answer mine = ask_with(h, h->key, "POST", "/v1/tasks", key, NOOP);
    assert_status(&mine, 201);
    snprintf(path, sizeof path, "/v1/tasks/%s", text_of(&mine, "id"));
    assert_problem(ask_with(h, other, "GET", path, NULL, NULL), 404, "not-found", "");
    assert_problem(ask_with(h, other, "DELETE", path, key, NULL), 404, "not-found", "");
    struct answer list = ask_with(h, other, "GET", "/v1/tasks", NULL, NULL);
    assert_int_equal(json_array_size(json_object_get(list.json, "tasks")), 0);
    struct answer theirs = ask_with(h, other, "POST", "/v1/tasks", key, NOOP); /* the same key, another tenant */
    assert_status(&theirs, 201);
    assert_string_not_equal(text_of(&mine, "id"), text_of(&theirs, "id"));
    client_answer_release(&mine);
    client_answer_release(&list);
    client_answer_release(&theirs);
}

static void a_key_that_is_required_is_missed(void **state)
{
    (void)state;
    assert_problem(ask(h, "POST", "/v1/tasks", NOOP), 400, "idempotency-key-missing", "Idempotency-Key");
    assert_problem(ask(h, "POST", "/v1/tasks/batch", "[" NOOP "]"), 400, "idempotency-key-missing", "");
    assert_problem(ask(h, "DELETE", "/v1/tasks/0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", NULL), 400,
                   "idempotency-key-missing", "");
    struct answer a = ask(h, "POST", "/v1/tasks", "{\"target_type\":\"NOOP\",\"idempotency_key\":\"b\"}");
    assert_status(&a, 201);
    client_answer_release(&a);
}

static void paths_match_exactly(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/",
        "/v1",
        "/v1/tasks/",
        "/v1/tasks/xyz",
        "//health",
        "/health/",
        "/Health",
        "/v1/tasks/../tasks",
        "/v1/tasks/0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b/explode",
    };
    for (size_t i = 0; i < array_count(paths); i++)
        assert_problem(ask(h, "GET", paths[i], NULL), 404, "not-found", "");
    assert_problem(ask(h, "GET", "/health%2f..", NULL), 400, "invalid-request", "path"); /* proxies decode it, or not */
    assert_problem(ask(h, "GET", "/v1%2ftasks", NULL), 400, "invalid-request", "path");
    assert_problem(ask(h, "GET", "/health%00", NULL), 400, "invalid-request", "path");
    assert_problem(ask(h, "GET", "/health%f", NULL), 400, "invalid-request", "path");
    assert_problem(ask(h, "GET", "/%ff", NULL), 400, "invalid-request", "UTF-8");
    struct answer a = ask(h, "GET", "/he%61lth", NULL);
    assert_status(&a, 200);
    client_answer_release(&a);
    struct answer method = ask(h, "PUT", "/v1/tasks/batch", NULL);
    assert_status(&method, 405);
    assert_string_equal(header_of(&method, "Allow"), "POST, OPTIONS");
    client_answer_release(&method);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    char *uri = repeat('a', 9000), *value = repeat('v', 17000), *body = repeat(' ', (1 << 20) + 1);
    char *large = repeat(' ', 3 << 20);
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_printf(&text, "/v1/tasks?name=%s", uri);
    assert_problem(ask(h, "GET", buf_cstr(&text), NULL), 414, "uri-too-long", "8 KiB");
    buf_reset(&text);
    buf_printf(&text, "X-Big: %s\r\n", value);
    assert_problem(ask_with(h, h->key, "GET", "/v1/tasks", buf_cstr(&text), NULL), 431, "headers-too-large", "16 KiB");
    assert_problem(ask(h, "POST", "/v1/tasks", body), 413, "body-too-large", "1024 KiB");
    assert_problem(ask(h, "POST", "/v1/tasks", large), 413, "body-too-large", "1024 KiB");
    assert_problem(say("POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"), 401,
                   "unauthorized", "");
    buf_reset(&text);
    buf_printf(&text,
               "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\n"
               "Content-Length: 2000000\r\n\r\n",
               h->key);
    assert_problem(say(buf_cstr(&text)), 413, "body-too-large", ""); /* before the body is sent */
    struct answer many = { 0 };
    buf_reset(&text);
    buf_text(&text, "GET /health HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 60000; i++)
        buf_text(&text, "a: b\r\n");
    buf_text(&text, "\r\n");
    many = say(buf_cstr(&text));
    assert_status(&many, 431);
    client_answer_release(&many);
    struct answer deep =
        ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: deep\r\n",
                 "{\"payload\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}");
    assert_status(&deep, 400);
    client_answer_release(&deep);
    buf_release(&text);
    free(uri);
    free(value);
    free(body);
    free(large);
}

static void chunks_are_counted_too(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 8 << 20);
    buf_printf(&text,
               "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: chunks\r\n"
               "Transfer-Encoding: chunked\r\n\r\n",
               h->key);
    size_t head = text.n;
    buf_text(&text, "8\r\n{\"target\r\ne\r\n_type\":\"NOOP\"}\r\n0\r\n\r\n");
    struct answer a = say(buf_cstr(&text));
    assert_status(&a, 201);
    client_answer_release(&a);
    buf_cut(&text, head);
    char *piece = repeat(' ', 65536);
    for (int i = 0; i < 20; i++)
        buf_printf(&text, "10000\r\n%s\r\n", piece);
    buf_text(&text, "0\r\n\r\n");
    assert_problem(say(buf_cstr(&text)), 413, "body-too-large", "");
    buf_cut(&text, head);
    buf_text(&text, "zz\r\nnonsense");
    struct answer bad = say(buf_cstr(&text));
    assert_true(bad.status == 400 || bad.status == 0);
    client_answer_release(&bad);
    free(piece);
    buf_release(&text);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    assert_problem(say("POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "0\r\n\r\n"),
                   400, "invalid-request", "not both");
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: a\r\nidempotency-key: b\r\n", NOOP), 400,
                   "invalid-request", "Idempotency-Key is given twice");
    assert_problem(ask_with(h, h->key, "GET", "/v1/tasks", "Authorization: x\r\n", NULL), 400, "invalid-request",
                   "Authorization");
    assert_problem(ask(h, "GET", "/v1/tasks", "{}"), 400, "invalid-request", "no body");
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", "Content-Type: text/xml\r\n", "<a/>"), 415,
                   "unsupported-media-type", "application/json");
    static const char *const broken[] = {
        "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02garbage\r\n\r\n",
        "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    };
    for (size_t i = 0; i < array_count(broken); i++) {
        struct answer a = say(broken[i]);
        assert_true(a.status == 0 || (a.status >= 400 && a.status <= 505));
        client_answer_release(&a);
    }
}

/* One answer, then the end of the connection: nothing after the headers is read as a request. */
static void a_request_has_one_reading(void **state)
{
    (void)state;
    static const char *const framings[] = {
        "Host: x\r\nContent-Length : 29\r\n", "Host: x\r\nTransfer-Encoding: gzip\r\n",
        "Host: x\r\nTransfer-Encoding: gzip, chunked\r\n", "Accept: text/plain\r\n", /* no Host */
    };
    for (size_t i = 0; i < array_count(framings); i++) {
        char text[256];
        snprintf(text, sizeof text, "POST /health HTTP/1.1\r\n%s\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n",
                 framings[i]);
        int fd = client_connect(h);
        client_send(fd, str_from(text));
        struct answer a = client_read(fd, false), next = client_read(fd, false);
        if (a.status != 400 && a.status != 501)
            fail_msg("%s: status %d, %s", framings[i], a.status, a.head);
        assert_string_equal(header_of(&a, "Connection"), "close");
        assert_int_equal(next.status, 0);
        client_answer_release(&a);
        client_answer_release(&next);
        close(fd);
    }
    struct answer old = say("GET /health HTTP/1.0\r\n\r\n"); /* HTTP/1.0 has no Host header */
    assert_status(&old, 200);
    client_answer_release(&old);
}

static void bad_bytes_are_refused_at_the_door(void **state)
{
    (void)state;
    const char *key = "Idempotency-Key: bytes\r\n";
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", key, "{\"name\":\"\xff\xfe\"}"), 400, "invalid-request",
                   "UTF-8");
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", key, "{\"name\":\"a\",\"name\":\"b\"}"), 400,
                   "invalid-request", "twice");
    assert_problem(ask_with(h, h->key, "POST", "/v1/tasks", key, "{\"name\":\"\\ud800\"}"), 400, "invalid-request", "");
}

/* True if the server ended the connection within two seconds. */
static bool is_cut_off(int fd)
{
    char c;
    struct timeval patience = { .tv_sec = 4 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t n;
    while ((n = recv(fd, &c, 1, 0)) > 0)
        continue;
    return n == 0 || errno == ECONNRESET;
}

static void slow_clients_are_cut_off(void **state)
{
    (void)state;
    char body[256];
    snprintf(body, sizeof body,
             "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 500\r\n\r\n{", h->key);
    const char *texts[] = { "", "GET /hea", "GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ", body };
    int fds[array_count(texts)];
    for (size_t i = 0; i < array_count(texts); i++) {
        fds[i] = client_connect(h);
        client_send(fds[i], str_from(texts[i]));
    }
    for (size_t i = 0; i < array_count(texts); i++) {
        assert_true(is_cut_off(fds[i]));
        close(fds[i]);
    }
}

static void a_connection_serves_many_requests_and_is_closed_when_idle(void **state)
{
    (void)state;
    int fd = client_connect(h);
    for (int i = 0; i < 20; i++) {
        client_send(fd, S("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
        struct answer a = client_read(fd, false);
        assert_status(&a, 200);
        client_answer_release(&a);
    }
    client_send(fd, S("GET /ready HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")); /* pipelined */
    for (int i = 0; i < 2; i++) {
        struct answer a = client_read(fd, false);
        assert_status(&a, 200);
        client_answer_release(&a);
    }
    assert_true(is_cut_off(fd));
    close(fd);
}

static void one_address_has_so_many_connections(void **state)
{
    (void)state;
    int fds[40], refused = 0;
    for (size_t i = 0; i < array_count(fds); i++)
        fds[i] = client_connect(h);
    for (size_t i = 0; i < array_count(fds); i++) {
        client_send(fds[i], S("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
        struct answer a = client_read(fds[i], false);
        refused += a.status == 0;
        client_answer_release(&a);
    }
    for (size_t i = 0; i < array_count(fds); i++)
        close(fds[i]);
    assert_int_equal(refused, 16);
    struct answer a = { 0 };
    for (int i = 0; i < 100 && a.status != 200; i++) { /* when they are closed, there is room again */
        client_answer_release(&a);
        a = ask(h, "GET", "/health", NULL);
    }
    assert_status(&a, 200);
    client_answer_release(&a);
}

/* Sends the head of a batch and n bytes of its body, which has 16,000,000. */
static int begin_batch(const char *key, const char *framing, size_t n)
{
    struct buf text;
    buf_init(&text, 32 << 20);
    buf_printf(&text, "POST /v1/tasks/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n", key, framing);
    while (n--)
        buf_char(&text, ' ');
    int fd = client_connect(h);
    client_send(fd, buf_str(&text));
    buf_release(&text);
    return fd;
}

static void await_body_bytes(double least)
{
    double bytes = 0;
    while (bytes < least) {
        struct answer a = ask(h, "GET", "/metrics", NULL);
        const char *at = strstr(buf_cstr(&a.body), "\nbelfry_http_body_bytes ");
        assert_non_null(at);
        bytes = strtod(at + strlen("\nbelfry_http_body_bytes "), NULL);
        client_answer_release(&a);
    }
}

/* 24 MiB in all, so 6 MiB for one tenant. */
static void bodies_of_one_tenant_have_a_limit(void **state)
{
    (void)state;
    char other[AUTH_KEY_TEXT + 1];
    put_key(S("tenant0003"), 3, S("admin"), 0, other);
    int first = begin_batch(h->key, "Content-Length: 16000000\r\n", 5 << 20);
    await_body_bytes(5000000);
    int second = begin_batch(h->key, "Content-Length: 5000000\r\n", 5000000);
    assert_problem(client_read(second, false), 503, "unavailable", "large");
    int third = begin_batch(other, "Content-Length: 5000000\r\n", 5000000);
    struct answer a = client_read(third, false); /* another tenant has room; a body of blanks is no batch */
    assert_status(&a, 400);
    client_answer_release(&a);
    close(first);
    close(second);
    close(third);
}

/* What was declared is not counted, and strangers are told so before they send anything. */
static void strangers_cannot_use_up_the_room_for_bodies(void **state)
{
    (void)state;
    char unknown[AUTH_KEY_TEXT + 1];
    struct api_key row;
    int fds[8];
    auth_key_make(PEPPER, S("stranger02"), 1, S(""), S(""), 0, unknown, &row);
    for (size_t i = 0; i < array_count(fds); i++)
        fds[i] = begin_batch(i < 4 ? unknown : h->key, "Transfer-Encoding: chunked\r\n", 0);
    struct answer a = ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: room\r\n", NOOP);
    assert_status(&a, 201);
    client_answer_release(&a);
    int waiting = begin_batch(unknown, "Content-Length: 5000000\r\nExpect: 100-continue\r\n", 0);
    assert_problem(client_read(waiting, false), 401, "unauthorized", "wrong");
    close(waiting);
    for (size_t i = 0; i < array_count(fds); i++)
        close(fds[i]);
}

static void *ask_slowly(void *result)
{
    *(struct answer *)result = ask_with(h, h->key, "POST", "/v1/tasks", "Idempotency-Key: last\r\n", NOOP);
    return NULL;
}

static void *stop_server(void *server)
{
    api_server_stop(server);
    return NULL;
}

static void a_stop_finishes_what_is_under_way(void **state)
{
    (void)state;
    struct answer last;
    pthread_t asking, stopping;
    h->hold = true;
    int open = client_connect(h), half = client_connect(h);
    client_send(open, S("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    struct answer first = client_read(open, false);
    assert_status(&first, 200);
    client_send(half, S("GET /health HTTP/1.1\r\nHost: x\r\n"));
    pthread_create(&asking, NULL, ask_slowly, &last);
    while (harness_held(h) == 0)
        sched_yield();
    pthread_create(&stopping, NULL, stop_server, h->server);
    struct answer late = { 0 };
    for (int status = 200; status == 200;) { /* until the stop has begun: 503, or closed while it was idle */
        client_answer_release(&late);
        client_send(open, S("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
        late = client_read(open, false);
        status = late.status;
    }
    if (!late.status) {
        client_answer_release(&late);
        client_send(half, S("\r\n"));
        late = client_read(half, false);
    }
    assert_status(&late, 503);
    assert_string_equal(header_of(&late, "Connection"), "close");
    harness_release_held(h);
    pthread_join(asking, NULL);
    pthread_join(stopping, NULL);
    assert_status(&last, 201);
    close(open);
    close(half);
    client_answer_release(&first);
    client_answer_release(&late);
    client_answer_release(&last);
}

static void an_address_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "nonsense", "such as 127.0.0.1:8080" },
        { ":80", "such as 127.0.0.1:8080" },
        { "127.0.0.1:99999", "such as 127.0.0.1:8080" },
        { "127.0.0.1:", "such as 127.0.0.1:8080" },
        { "192.0.2.1:0", "listen on" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e = { 0 };
        struct api_server *s = NULL;
        struct api_setup setup = { .listen = rows[i][0], .store = h->store, .writer = &h->writer, .zones = h->zones };
        setup.clock = clock_system();
        setup.metrics = h->metrics;
        setup.pepper = PEPPER;
        assert_true(api_server_new(&setup, &s, &e) != ERR_OK);
        assert_says(&e, rows[i][1]);
        assert_null(s);
    }
    struct error e = { 0 };
    struct api_server *s = NULL;
    struct api_setup setup = { .listen = "127.0.0.1:0", .store = &h->sick->base, .writer = &h->writer };
    setup.clock = clock_system();
    setup.zones = h->zones;
    setup.metrics = h->metrics;
    setup.pepper = PEPPER;
    h->reads_before_broken = 0;
    assert_int_equal(api_server_new(&setup, &s, &e), ERR_UNAVAILABLE);
    h->reads_before_broken = INT_MAX;
    setup = (struct api_setup){ .listen = "[::1]:0", .store = h->store, .writer = &h->writer, .zones = h->zones };
    setup.limits.http.threads = 2;
    setup.clock = clock_system();
    setup.metrics = h->metrics;
    setup.pepper = PEPPER;
    if (api_server_new(&setup, &s, &e) == ERR_OK) /* where there is IPv6 */
        assert_true(api_server_port(s) > 0);
    api_server_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_good_key_there_is_nothing),
        cmocka_unit_test(a_key_opens_what_its_scopes_name),
        cmocka_unit_test(one_tenant_does_not_see_another),
        cmocka_unit_test(a_key_that_is_required_is_missed),
        cmocka_unit_test(paths_match_exactly),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(chunks_are_counted_too),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(a_request_has_one_reading),
        cmocka_unit_test(bad_bytes_are_refused_at_the_door),
        cmocka_unit_test(slow_clients_are_cut_off),
        cmocka_unit_test(a_connection_serves_many_requests_and_is_closed_when_idle),
        cmocka_unit_test(one_address_has_so_many_connections),
        cmocka_unit_test_setup_teardown(bodies_of_one_tenant_have_a_limit, start_patient, stop_patient),
        cmocka_unit_test(strangers_cannot_use_up_the_room_for_bodies),
        cmocka_unit_test(an_address_that_is_none_is_refused),
        cmocka_unit_test(a_stop_finishes_what_is_under_way),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
