/* The server with TLS, and a client by OpenSSL: however the bytes are split, whoever closes when, and whichever
 * certificate is in use. */
#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "http_socket.h"
#include "platform/certificate_make.h"
#include "platform/clock_system.h"
#include "scratch.h"

enum { PATH = 128, YEAR = 365 };

static char folder[SCRATCH_PATH];
static struct certificate *authority;
static struct tls *tls;
static struct http_server *server;
static struct metrics *metrics;
static _Atomic int heads, ends;
static _Atomic size_t body_bytes;

/* ---- the handler: /large/N answers with N bytes, /who with the names of the client's certificate ---- */

static enum http_next on_head(void *context, struct http_exchange *x)
{
    (void)context;
    heads++;
    x->body_max = 1 << 20;
    return HTTP_READ;
}

static enum http_next on_body(void *context, struct http_exchange *x)
{
    (void)context;
    body_bytes = x->body.n;
    return HTTP_ANSWER;
}

static void on_body_refused(void *context, struct http_exchange *x, enum http_refusal why)
{
    (void)context;
    (void)x;
    (void)why;
}

static void on_answer(void *context, struct http_exchange *x, struct http_answer *ret)
{
    (void)context;
    struct buf body;
    buf_init(&body, 8 << 20);
    ret->status = 200;
    size_t n = str_starts(x->target, S("/large/")) ? strtoul(x->target.p + 7, NULL, 10) : 0;
    for (size_t i = 0; i < n; i++)
        buf_char(&body, (char)('a' + i % 26));
    if (str_eq(x->target, S("/who")) && x->client)
        for (size_t i = 0; i < x->client->name_count; i++)
            buf_printf(&body, "%s:" STR_FMT " ", tls_name_kind_text(x->client->names[i].kind),
                       STR_ARG(x->client->names[i].text));
    buf_text(&body, "ok");
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

/* ---- certificates ---- */

static const char *in_folder(const char *name)
{
    static char paths[8][PATH];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH, "%s/%s", folder, name);
    return path;
}

static int64_t now_ms(void)
{
    return clock_wall_ms(clock_system());
}

static void issue(const char *name, bool is_client, const char *const *names, size_t count, int64_t from_ms,
                  int64_t days)
{
    struct error e = { 0 };
    struct certificate *c = NULL;
    char cert[PATH], key[PATH];
    struct certificate_order order = {
        .name = name, .names = names, .name_count = count, .is_client = is_client, .from_ms = from_ms, .days = days
    };
    snprintf(cert, sizeof cert, "%s/%s.crt", folder, name);
    snprintf(key, sizeof key, "%s/%s.key", folder, name);
    assert_ok(certificate_issue(authority, &order, &c, &e), &e);
    assert_ok(certificate_write(c, cert, key, &e), &e);
    certificate_free(c);
}

static const char *const server_names[] = { "DNS:localhost", "IP:127.0.0.1" };

static int set_up(void **state)
{
    (void)state;
    static const char *const client_names[] = { "DNS:Worker.example", "URI:spiffe://here/worker", "email:a@b.example" };
    struct error e = { 0 };
    signal(SIGPIPE, SIG_IGN);
    assert_true(scratch_make("tls", folder));
    authority = certificate_authority_new("Test CA", now_ms(), YEAR);
    assert_ok(certificate_write(authority, in_folder("ca.crt"), in_folder("ca.key"), &e), &e);
    issue("server", false, server_names, 2, now_ms() - 1000, 30);
    issue("other", false, server_names, 2, now_ms() - 1000, 60);
    issue("client", true, client_names, 3, now_ms() - 1000, 30);
    issue("expired", false, server_names, 2, now_ms() - 10 * 86400000LL, 5);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    certificate_free(authority);
    return scratch_remove(folder) ? 0 : -1;
}

static void begin(struct http_limits limits, bool asks, bool requires)
{
    struct error e = { 0 };
    heads = ends = 0;
    struct tls_files files = { in_folder("server.crt"), in_folder("server.key"), asks ? in_folder("ca.crt") : NULL,
                               requires };
    assert_ok(tls_new(&files, now_ms(), &tls, &e), &e);
    limits.threads = 2;
    metrics = metrics_new();
    struct http_server_setup setup = { .listen = "127.0.0.1:0",
                                       .tls = tls,
                                       .clock = clock_system(),
                                       .metrics = metrics,
                                       .handler = &handler,
                                       .limits = limits };
    assert_ok(http_server_new(&setup, &server, &e), &e);
}

static void end(void)
{
    http_server_free(server);
    assert_int_equal(heads, ends);
    tls_free(tls);
    metrics_free(metrics);
}

/* ---- the client: what it sends goes to the socket in pieces of `step` bytes ---- */

struct client {
    int fd;
    size_t step;
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
};

static int dial(int receive_buffer)
{
    return http_socket_connect(http_server_port(server), NULL, receive_buffer);
}

static void flush_out(struct client *c)
{
    char bytes[65536];
    int n;
    while ((n = BIO_read(c->out, bytes, sizeof bytes)) > 0)
        for (size_t i = 0; i < (size_t)n; i += c->step)
            if (send(c->fd, bytes + i, min_of(c->step, (size_t)n - i), MSG_NOSIGNAL) < 0)
                return;
}

/* False: the server has closed. */
static bool fill_in(struct client *c)
{
    char bytes[65536];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    if (n > 0)
        BIO_write(c->in, bytes, (int)n);
    return n > 0;
}

static void client_prepare(struct client *c, size_t step, bool has_certificate)
{
    *c = (struct client){ .fd = dial(0), .step = step, .context = SSL_CTX_new(TLS_client_method()) };
    SSL_CTX_load_verify_file(c->context, in_folder("ca.crt"));
    SSL_CTX_set_verify(c->context, SSL_VERIFY_PEER, NULL);
    if (has_certificate) {
        SSL_CTX_use_certificate_file(c->context, in_folder("client.crt"), SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(c->context, in_folder("client.key"), SSL_FILETYPE_PEM);
    }
    int one = 1;
    setsockopt(c->fd, 6, 1, &one, sizeof one); /* TCP_NODELAY */
}

static bool client_connect(struct client *c)
{
    c->ssl = SSL_new(c->context);
    c->in = BIO_new(BIO_s_mem());
    c->out = BIO_new(BIO_s_mem());
    SSL_set_bio(c->ssl, c->in, c->out);
    SSL_set1_host(c->ssl, "localhost");
    SSL_set_alpn_protos(c->ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12);
    for (;;) {
        int rc = SSL_connect(c->ssl);
        flush_out(c);
        if (rc == 1)
            return true;
        if (SSL_get_error(c->ssl, rc) != SSL_ERROR_WANT_READ || !fill_in(c))
            return false;
    }
}

static void client_open(struct client *c, size_t step, bool has_certificate)
{
    client_prepare(c, step, has_certificate);
    assert_true(client_connect(c));
}

static void client_close(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
    close(c->fd);
}

static void say(struct client *c, const char *text, size_t n)
{
    assert_int_equal(SSL_write(c->ssl, text, (int)n), n);
    flush_out(c);
}

/* Reads until `until` has come at the end; NULL: until the server says that nothing follows. */
static const char *hear(struct client *c, const char *until)
{
    static char text[4 << 20];
    size_t n = 0;
    text[0] = '\0';
    while (n < sizeof text - 1 && !(until && n >= strlen(until) && strcmp(text + n - strlen(until), until) == 0)) {
        int got = SSL_read(c->ssl, text + n, (int)(sizeof text - 1 - n));
        if (got > 0) {
            n += (size_t)got;
            text[n] = '\0';
        } else if (SSL_get_error(c->ssl, got) != SSL_ERROR_WANT_READ || !fill_in(c)) {
            break;
        }
    }
    return text;
}

#define GET(path)  "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define LAST(path) "GET " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static void ask(struct client *c, const char *request, const char *end_of_answer)
{
    say(c, request, strlen(request));
    const char *text = hear(c, end_of_answer);
    if (!strstr(text, end_of_answer))
        fail_msg("'%.400s' does not end in '%s'", text, end_of_answer);
}

/* ---- bytes ---- */

static void requests_on_one_connection_are_answered(void **state)
{
    (void)state;
    struct client c;
    const unsigned char *protocol;
    unsigned n;
    begin((struct http_limits){ 0 }, false, false);
    client_open(&c, SIZE_MAX / 2, false);
    SSL_get0_alpn_selected(c.ssl, &protocol, &n);
    assert_str(((struct str){ (const char *)protocol, n }), "http/1.1");
    ask(&c, GET("/a"), "\r\n\r\nok");
    ask(&c, GET("/a"), "\r\n\r\nok");
    say(&c, LAST("/a"), strlen(LAST("/a")));
    assert_non_null(strstr(hear(&c, NULL), "Connection: close"));
    assert_int_equal(SSL_get_shutdown(c.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    client_close(&c);
    end();
}

static void bytes_may_come_in_pieces_of_any_size(void **state)
{
    (void)state;
    static const size_t steps[] = { 1, 2, 3, 5, 7, 64, 1000 };
    begin((struct http_limits){ 0 }, false, false);
    for (size_t i = 0; i < array_count(steps); i++) {
        struct client c;
        client_open(&c, steps[i], false);
        ask(&c, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "\r\n\r\nok");
        assert_int_equal(body_bytes, 5);
        client_close(&c);
    }
    end();
}

/* TLS has received them, and no event of the socket tells of them. */
static void requests_in_one_record_are_answered_in_turn(void **state)
{
    (void)state;
    struct client c;
    char text[12000];
    size_t n = (size_t)snprintf(text, sizeof text, "%s%s", GET("/a"), GET("/b"));
    begin((struct http_limits){ 0 }, false, false);
    client_open(&c, SIZE_MAX / 2, false);
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 15000\r\nConnection: close\r\n\r\n");
    memset(text + n, 'x', sizeof text - n);
    say(&c, text, sizeof text);
    static const char zeros[15000];
    say(&c, zeros, n + 15000 - sizeof text);
    const char *answers = hear(&c, NULL);
    for (int i = 0; i < 3; i++, answers++)
        assert_non_null(answers = strstr(answers, "HTTP/1.1 200"));
    assert_int_equal(body_bytes, 15000);
    client_close(&c);
    end();
}

static void a_large_answer_reaches_a_slow_reader(void **state)
{
    (void)state;
    struct client c;
    begin((struct http_limits){ 0 }, false, false);
    client_prepare(&c, SIZE_MAX / 2, false);
    close(c.fd);
    c.fd = dial(4096);
    assert_true(client_connect(&c));
    say(&c, LAST("/large/2000000"), strlen(LAST("/large/2000000")));
    const char *body = strstr(hear(&c, NULL), "\r\n\r\n") + 4;
    assert_int_equal(strlen(body), 2000002);
    for (size_t i = 0; i < 2000000; i++)
        if (body[i] != (char)('a' + i % 26))
            fail_msg("byte %zu is wrong", i);
    client_close(&c);
    end();
}

/* ---- ends ---- */

static void clients_may_leave_at_any_moment(void **state)
{
    (void)state;
    struct client c;
    begin((struct http_limits){ 0 }, false, false);
    close(dial(0));
    client_open(&c, SIZE_MAX / 2, false);
    say(&c, "GET /a HT", 9);
    client_close(&c); /* no close_notify */
    client_open(&c, SIZE_MAX / 2, false);
    say(&c, GET("/large/2000000"), strlen(GET("/large/2000000")));
    client_close(&c);
    client_open(&c, SIZE_MAX / 2, false);
    ask(&c, GET("/a"), "\r\n\r\nok");
    client_close(&c);
    end();
}

static void a_client_that_sends_no_more_gets_its_answer(void **state)
{
    (void)state;
    struct client c;
    begin((struct http_limits){ 0 }, false, false);
    client_open(&c, SIZE_MAX / 2, false);
    SSL_write(c.ssl, GET("/large/100000"), (int)strlen(GET("/large/100000")));
    SSL_shutdown(c.ssl);
    flush_out(&c);
    assert_non_null(strstr(hear(&c, NULL), "HTTP/1.1 200"));
    client_close(&c);
    end();
}

static void plain_http_is_told_to_use_tls(void **state)
{
    (void)state;
    char text[2000] = "";
    begin((struct http_limits){ 0 }, false, false);
    int fd = dial(0);
    send(fd, GET("/a"), strlen(GET("/a")), MSG_NOSIGNAL);
    size_t n = 0;
    for (ssize_t got; (got = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0;)
        n += (size_t)got;
    assert_non_null(strstr(text, "HTTP/1.1 400 "));
    assert_non_null(strstr(text, "use https://"));
    close(fd);
    assert_int_equal(heads, 0);
    end();
}

static void a_slow_handshake_is_cut_off(void **state)
{
    (void)state;
    char byte;
    struct client c;
    begin((struct http_limits){ .handshake_ms = 1000 }, false,
          false); /* long enough for the other, on a busy machine */
    int fd = dial(0);
    send(fd, "\x16\x03\x01", 3, MSG_NOSIGNAL);
    client_open(&c, SIZE_MAX / 2, false);
    ask(&c, GET("/a"), "\r\n\r\nok");
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    ask(&c, GET("/a"), "\r\n\r\nok");
    close(fd);
    client_close(&c);
    end();
}

static void old_versions_are_refused(void **state)
{
    (void)state;
    struct client c;
    begin((struct http_limits){ 0 }, false, false);
    client_prepare(&c, SIZE_MAX / 2, false);
    SSL_CTX_set_security_level(c.context, 0);
    SSL_CTX_set_min_proto_version(c.context, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(c.context, TLS1_1_VERSION);
    assert_false(client_connect(&c));
    client_close(&c);
    client_prepare(&c, SIZE_MAX / 2, false);
    SSL_CTX_set_max_proto_version(c.context, TLS1_2_VERSION);
    assert_true(client_connect(&c));
    ask(&c, GET("/a"), "\r\n\r\nok");
    client_close(&c);
    end();
}

/* ---- client certificates ---- */

static void the_handler_sees_the_names_of_a_client(void **state)
{
    (void)state;
    struct client c;
    begin((struct http_limits){ 0 }, true, false);
    client_open(&c, SIZE_MAX / 2, true);
    ask(&c, GET("/who"), "\r\n\r\nuri:spiffe://here/worker dns:Worker.example email:a@b.example ok");
    SSL_SESSION *session = SSL_get1_session(c.ssl);
    SSL_shutdown(c.ssl); /* else the session counts as broken */
    SSL_free(c.ssl);
    close(c.fd);
    c.fd = dial(0);
    c.ssl = SSL_new(c.context);
    c.in = BIO_new(BIO_s_mem());
    c.out = BIO_new(BIO_s_mem());
    SSL_set_bio(c.ssl, c.in, c.out);
    SSL_set_session(c.ssl, session);
    SSL_set_connect_state(c.ssl);
    while (SSL_do_handshake(c.ssl) != 1) {
        flush_out(&c);
        assert_true(fill_in(&c));
    }
    flush_out(&c);
    assert_true(SSL_session_reused(c.ssl)); /* and it still has its certificate */
    ask(&c, GET("/who"), "\r\n\r\nuri:spiffe://here/worker dns:Worker.example email:a@b.example ok");
    SSL_SESSION_free(session);
    client_close(&c);
    client_open(&c, SIZE_MAX / 2, false);
    ask(&c, GET("/who"), "\r\n\r\nok");
    client_close(&c);
    end();
}

/* In TLS 1.3 the client learns of it after its own part of the handshake. */
static void a_required_certificate_is_required(void **state)
{
    (void)state;
    struct client c;
    begin((struct http_limits){ 0 }, true, true);
    client_prepare(&c, SIZE_MAX / 2, false);
    if (client_connect(&c)) {
        SSL_write(c.ssl, GET("/who"), (int)strlen(GET("/who")));
        flush_out(&c);
        assert_string_equal(hear(&c, "ok"), "");
    }
    client_close(&c);
    client_open(&c, SIZE_MAX / 2, true);
    ask(&c, GET("/who"), " ok");
    client_close(&c);
    assert_int_equal(heads, 1);
    end();
}

/* ---- loading ---- */

static bool shows(struct client *c, const char *name)
{
    char subject[100] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(c->ssl)), NID_commonName, subject,
                              sizeof subject);
    return strcmp(subject, name) == 0;
}

static void copy_file(const char *from, const char *to)
{
    size_t n;
    char *text = scratch_read_file(in_folder(from), &n);
    char next[PATH];
    snprintf(next, sizeof next, "%s.next", in_folder(to));
    FILE *f = fopen(next, "wb");
    assert_int_equal(fwrite(text, 1, n, f), n);
    free(text);
    fclose(f);
    chmod(next, 0600);
    assert_int_equal(rename(next, in_folder(to)), 0);
}

static void a_new_certificate_is_for_new_connections(void **state)
{
    (void)state;
    struct client old, new;
    struct error e = { 0 };
    begin((struct http_limits){ 0 }, false, false);
    client_open(&old, SIZE_MAX / 2, false);
    assert_true(shows(&old, "server"));
    assert_false(tls_files_have_changed(tls));
    int64_t expires_ms = tls_view(tls).expires_ms;
    copy_file("server.crt", "kept.crt");
    copy_file("server.key", "kept.key");
    copy_file("other.crt", "server.crt"); /* the key is not there yet */
    assert_true(tls_files_have_changed(tls));
    assert_int_equal(tls_load(tls, now_ms(), &e), ERR_INVALID);
    assert_says(&e, "is not the key of the certificate");
    assert_false(tls_files_have_changed(tls));
    client_open(&new, SIZE_MAX / 2, false);
    assert_true(shows(&new, "server"));
    client_close(&new);
    copy_file("other.key", "server.key");
    assert_true(tls_files_have_changed(tls));
    assert_ok(tls_load(tls, now_ms(), &e), &e);
    assert_true(tls_view(tls).expires_ms > expires_ms);
    client_open(&new, SIZE_MAX / 2, false);
    assert_true(shows(&new, "other"));
    ask(&old, GET("/a"), "\r\n\r\nok");
    ask(&new, GET("/a"), "\r\n\r\nok");
    client_close(&new);
    client_close(&old);
    copy_file("kept.crt", "server.crt");
    copy_file("kept.key", "server.key");
    end();
}

static void refused_files_are_named_with_the_remedy(void **state)
{
    (void)state;
    struct error e = { 0 };
    FILE *plain = fopen(in_folder("server.key"), "r"), *f = fopen(in_folder("encrypted.key"), "w");
    EVP_PKEY *key = PEM_read_PrivateKey(plain, NULL, NULL, NULL);
    unsigned char password[] = "secret";
    assert_int_equal(PEM_write_PrivateKey(f, key, EVP_aes_128_cbc(), password, 6, NULL, NULL), 1);
    EVP_PKEY_free(key);
    fclose(plain);
    fclose(f);
    chmod(in_folder("encrypted.key"), 0600);
    copy_file("server.key", "open.key");
    chmod(in_folder("open.key"), 0644);
    const struct {
        const char *cert, *key, *client_ca, *field, *says;
    } cases[] = {
        { "server.crt", NULL, NULL, "key", "is missing" },
        { NULL, "server.key", NULL, "cert", "is missing" },
        { "none.crt", "server.key", NULL, "cert", "none.crt: No such file" },
        { "server.key", "server.key", NULL, "cert", "holds no certificate" },
        { "expired.crt", "expired.key", NULL, "cert", "expired.crt has expired at 20" },
        { "server.crt", "other.key", NULL, "key", "other.key is not the key of the certificate in" },
        { "server.crt", "server.crt", NULL, "key", "holds no private key" },
        { "server.crt", "open.key", NULL, "key", "chmod 600" },
        { "server.crt", "encrypted.key", NULL, "key", "is encrypted; decrypt it: openssl pkey -in" },
        { "server.crt", "server.key", "server.key", "client_ca", "holds no certificate" },
    };
    for (size_t i = 0; i < array_count(cases); i++) {
        struct tls_files files = { cases[i].cert ? in_folder(cases[i].cert) : NULL,
                                   cases[i].key ? in_folder(cases[i].key) : NULL,
                                   cases[i].client_ca ? in_folder(cases[i].client_ca) : NULL, false };
        if (cases[i].key && strcmp(cases[i].key, "server.crt") == 0)
            chmod(in_folder("server.crt"), 0600);
        assert_int_equal(tls_files_check(&files, now_ms(), &e), ERR_INVALID);
        assert_string_equal(e.field, cases[i].field);
        assert_says(&e, cases[i].says);
    }
    struct tls_files files = { in_folder("server.crt"), in_folder("server.key"), NULL, true };
    assert_int_equal(tls_files_check(&files, now_ms(), &e), ERR_INVALID);
    assert_string_equal(e.field, "require_client");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_on_one_connection_are_answered),
        cmocka_unit_test(bytes_may_come_in_pieces_of_any_size),
        cmocka_unit_test(requests_in_one_record_are_answered_in_turn),
        cmocka_unit_test(a_large_answer_reaches_a_slow_reader),
        cmocka_unit_test(clients_may_leave_at_any_moment),
        cmocka_unit_test(a_client_that_sends_no_more_gets_its_answer),
        cmocka_unit_test(plain_http_is_told_to_use_tls),
        cmocka_unit_test(a_slow_handshake_is_cut_off),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(the_handler_sees_the_names_of_a_client),
        cmocka_unit_test(a_required_certificate_is_required),
        cmocka_unit_test(a_new_certificate_is_for_new_connections),
        cmocka_unit_test(refused_files_are_named_with_the_remedy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
