/* A queue on Redis over TLS: which servers are accepted, what is said of the others, and a server that restarts. The
 * certificates are in BELFRY_TEST_TLS (tests/support/with-redis-tls). */
#include "redis_fixture.h"
#include "redis_servers.h"

enum { PATH_SIZE = 256 };

struct tls_server {
    struct redis_process process; /* its port without TLS is for the test's own commands */
    int port;
    char number[16], cert[PATH_SIZE], key[PATH_SIZE], cacert[PATH_SIZE];
};

static const char *certificate(const char *name, char out[PATH_SIZE])
{
    const char *folder = getenv("BELFRY_TEST_TLS");
    if (!folder)
        fail_msg("BELFRY_TEST_TLS names no folder: run this by tests/support/with-redis-tls --own");
    snprintf(out, PATH_SIZE, "%s/%s", folder, name);
    return out;
}

/* name: whose certificate it shows. clients: whether clients need one ("yes", "no"). */
static void tls_server_open(struct tls_server *s, const char *name, const char *clients)
{
    char file[64];
    *s = (struct tls_server){ .port = free_port() };
    snprintf(s->number, sizeof s->number, "%d", s->port);
    snprintf(file, sizeof file, "%s.pem", name);
    certificate(file, s->cert);
    snprintf(file, sizeof file, "%s.key", name);
    certificate(file, s->key);
    certificate("ca.pem", s->cacert);
    const char *const more[] = { "--tls-port",
                                 s->number,
                                 "--tls-cert-file",
                                 s->cert,
                                 "--tls-key-file",
                                 s->key,
                                 "--tls-ca-cert-file",
                                 s->cacert,
                                 "--tls-auth-clients",
                                 clients,
                                 NULL };
    server_open(&s->process, more);
}

/* Asks until there is an answer: on a busy machine a connect may take longer than it is given. */
__attribute__((format(printf, 4, 5))) static enum err ask(const struct tls_server *s, const char *host, struct error *e,
                                                          const char *parameters, ...)
{
    char url[SERVER_URL], text[SERVER_URL];
    va_list args;
    va_start(args, parameters);
    vsnprintf(text, sizeof text, parameters, args);
    va_end(args);
    snprintf(url, sizeof url, "rediss://%s:%d/0?prefix=tls%s", host, s->port, text);
    struct queue *q = redis_queue(url, NULL);
    struct queue_state state;
    enum err rc = queue_stats(q, &state, e);
    for (int64_t end = steady_ms() + SERVER_WAIT_MS; rc && strstr(e->text, "in time") && steady_ms() < end; nap_ms(20))
        rc = queue_stats(q, &state, e);
    queue_free(q);
    return rc;
}

static void a_server_of_the_right_authority_is_used(void **state)
{
    (void)state;
    struct tls_server s;
    struct error e = { 0 };
    tls_server_open(&s, "localhost", "no");
    assert_ok(ask(&s, "127.0.0.1", &e, "&cacert=%s", s.cacert), &e);
    assert_ok(ask(&s, "localhost", &e, "&cacert=%s", s.cacert), &e);
    server_close(&s.process);
}

static void a_server_of_another_authority_is_refused(void **state)
{
    (void)state;
    struct tls_server s;
    struct error e = { 0 };
    char other[PATH_SIZE];
    tls_server_open(&s, "localhost", "no");
    assert_int_equal(ask(&s, "localhost", &e, "&cacert=%s", certificate("other/ca.pem", other)), ERR_UNAVAILABLE);
    assert_says(&e, "its certificate is not accepted");
    assert_int_equal(ask(&s, "localhost", &e, "%s", ""), ERR_UNAVAILABLE); /* the system's CAs */
    assert_says(&e, "its certificate is not accepted");
    server_close(&s.process);
}

static void a_server_with_another_name_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host, *says;
    } rows[] = { { "localhost", "hostname mismatch" }, { "127.0.0.1", "IP address mismatch" } };
    struct tls_server s;
    tls_server_open(&s, "elsewhere", "no");
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e = { 0 };
        assert_int_equal(ask(&s, rows[i].host, &e, "&cacert=%s", s.cacert), ERR_UNAVAILABLE);
        assert_says(&e, rows[i].says);
    }
    server_close(&s.process);
}

static void a_server_that_asks_for_a_certificate_gets_it(void **state)
{
    (void)state;
    struct tls_server s;
    struct error e = { 0 };
    char cert[PATH_SIZE], key[PATH_SIZE], both[PATH_SIZE];
    tls_server_open(&s, "localhost", "yes");
    certificate("client.pem", cert);
    certificate("client.key", key);
    assert_ok(ask(&s, "localhost", &e, "&cacert=%s&cert=%s&key=%s", s.cacert, cert, key), &e);
    assert_ok(ask(&s, "localhost", &e, "&cacert=%s&cert=%s", s.cacert, certificate("client.both", both)), &e);
    assert_int_equal(ask(&s, "localhost", &e, "&cacert=%s", s.cacert), ERR_UNAVAILABLE);
    server_close(&s.process);
}

/* It takes the greeting for the beginning of a command, and waits for the rest. */
static void a_server_without_tls_is_given_up_in_time(void **state)
{
    (void)state;
    struct tls_server s;
    struct error e = { 0 };
    struct queue_state none;
    char url[SERVER_URL];
    tls_server_open(&s, "localhost", "no");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?cacert=%s", s.process.port, s.cacert);
    struct queue *q = redis_queue(url, NULL);
    int64_t start = steady_ms();
    assert_int_equal(queue_stats(q, &none, &e), ERR_UNAVAILABLE);
    assert_true(steady_ms() - start < 2500);
    assert_says(&e, "no answer in time");
    queue_free(q);
    server_close(&s.process);
}

static enum err stats_at_last(struct queue *q, struct queue_state *ret, struct error *e)
{
    enum err rc = ERR_UNAVAILABLE;
    for (int64_t end = steady_ms() + SERVER_WAIT_MS; rc == ERR_UNAVAILABLE && steady_ms() < end; nap_ms(20))
        rc = queue_stats(q, ret, e);
    return rc;
}

static void a_queue_outlives_its_server(void **state)
{
    (void)state;
    struct tls_server s;
    struct error e = { 0 };
    struct queue_state before, after;
    char url[SERVER_URL];
    tls_server_open(&s, "localhost", "no");
    snprintf(url, sizeof url, "rediss://localhost:%d?cacert=%s", s.port, s.cacert);
    struct queue *q = redis_queue(url, NULL);
    assert_ok(stats_at_last(q, &before, &e), &e);
    server_stop(&s.process, SIGKILL);
    assert_int_equal(queue_stats(q, &after, &e), ERR_UNAVAILABLE);
    server_start(&s.process);
    assert_ok(stats_at_last(q, &after, &e), &e);
    assert_true(after.epoch != before.epoch);
    queue_free(q);
    server_close(&s.process);
}

static void files_that_cannot_be_used_are_said_at_the_start(void **state)
{
    (void)state;
    char cert[PATH_SIZE], other[PATH_SIZE], url[SERVER_URL];
    certificate("client.pem", cert);
    certificate("localhost.key", other);
    const struct {
        const char *parameters[2], *files[2], *field;
    } rows[] = { { { "cacert", "" }, { "/nowhere.pem", "" }, "cacert" },
                 { { "cert", "" }, { "/nowhere.pem", "" }, "cert" },
                 { { "cert", "&key" }, { cert, other }, "key" },
                 { { "key", "" }, { other, "" }, "key" } };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct queue *q = NULL;
        struct error e = { 0 };
        snprintf(url, sizeof url, "rediss://localhost?%s=%s%s%s%s", rows[i].parameters[0], rows[i].files[0],
                 rows[i].parameters[1], rows[i].files[1][0] ? "=" : "", rows[i].files[1]);
        struct redis_setup setup = { .url = str_from(url), .clock = clock_system() };
        assert_int_equal(queue_redis_open(&setup, NULL, &q, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_of_the_right_authority_is_used),
        cmocka_unit_test(a_server_of_another_authority_is_refused),
        cmocka_unit_test(a_server_with_another_name_is_refused),
        cmocka_unit_test(a_server_that_asks_for_a_certificate_gets_it),
        cmocka_unit_test(a_server_without_tls_is_given_up_in_time),
        cmocka_unit_test(a_queue_outlives_its_server),
        cmocka_unit_test(files_that_cannot_be_used_are_said_at_the_start),
    };
    return cmocka_run_group_tests_name("redis_tls", tests, NULL, NULL);
}
