/* Addresses of RabbitMQ: their parts, and errors in them. */
#include "amqp_world.h"

static void an_address_is_taken_apart(void **state)
{
    (void)state;
    struct rabbit_url u;
    struct error e = { 0 };
    assert_ok(
        rabbit_url_parse(
            S("amqps://a%40b:p%3Aw@one,two:99,[::1]:7/my%2Fhost?prefix=x&heartbeat=10s&consumer_timeout=2h"
              "&queues=classic&priorities=exact&tenants=acme,globex&cacert=/c&cert=/d&key=/k&auth_mechanism=external"),
            &u, &e),
        &e);
    assert_true(u.tls && u.classic && u.exact_priorities && u.by_certificate);
    assert_string_equal(u.user, "a@b");
    assert_string_equal(u.password, "p:w");
    assert_string_equal(u.vhost, "my/host");
    assert_string_equal(u.prefix, "x");
    assert_int_equal(u.host_count, 3);
    assert_string_equal(u.hosts[0].name, "one");
    assert_int_equal(u.hosts[0].port, 5671);
    assert_int_equal(u.hosts[1].port, 99);
    assert_string_equal(u.hosts[2].name, "::1");
    assert_int_equal(u.hosts[2].port, 7);
    assert_int_equal(u.heartbeat_ms, 10000);
    assert_int_equal(u.consumer_timeout_ms, 7200000);
    assert_string_equal(u.cacert, "/c");
    assert_true(rabbit_url_separates_tenant(&u, S("acme")) && !rabbit_url_separates_tenant(&u, S("acm")));
    rabbit_url_release(&u);
}

static void what_is_not_said_is_what_brokers_begin_with(void **state)
{
    (void)state;
    struct rabbit_url u;
    struct error e = { 0 };
    for (int i = 0; i < 2; i++) {
        assert_ok(rabbit_url_parse(i ? S("amqp://localhost/") : S("amqp://localhost"), &u, &e), &e);
        assert_false(u.tls);
        assert_string_equal(u.user, "guest");
        assert_string_equal(u.vhost, "/");
        assert_int_equal(u.hosts[0].port, 5672);
        assert_true(rabbit_url_separates_tenant(&u, S("any")));
        rabbit_url_release(&u);
    }
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *url, *field;
    } rows[] = {
        { "redis://a", "url" },
        { "amqp://", "host" },
        { "amqp://a:0", "host" },
        { "amqp://a,:5672", "host" },
        { "amqp://a/?prefix=", "prefix" },
        { "amqp://a/%zz", "vhost" },
        { "amqp://u%00:p@a", "user" },
        { "amqp://a?heartbeat=1ms", "heartbeat" },
        { "amqp://a?heartbeat=often", "heartbeat" },
        { "amqp://a?queues=many", "queues" },
        { "amqp://a?colour=red", "url" },
        { "amqps://a?auth_mechanism=magic", "auth_mechanism" },
        { "amqps://a?auth_mechanism=external", "auth_mechanism" },
        { "amqp://a?auth_mechanism=external&cert=/c", "auth_mechanism" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct rabbit_url u;
        struct error e = { 0 };
        if (rabbit_url_parse(str_from(rows[i].url), &u, &e) != ERR_INVALID || strcmp(e.field, rows[i].field) != 0)
            fail_msg("%s: %s %s", rows[i].url, e.field, e.text);
    }
}

static void an_error_tells_no_password(void **state)
{
    (void)state;
    struct queue *q = NULL;
    struct error e = { 0 };
    struct queue_state seen;
    assert_ok(queue_amqp_open(S("amqp://me:s3cret@127.0.0.1:1"), NULL, &q, &e), &e);
    assert_int_equal(queue_stats(q, &seen, &e), ERR_UNAVAILABLE);
    assert_null(strstr(e.text, "s3cret"));
    assert_says(&e, "127.0.0.1:1");
    queue_free(q);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_address_is_taken_apart),
    cmocka_unit_test(what_is_not_said_is_what_brokers_begin_with),
    cmocka_unit_test(what_is_wrong_is_named),
    cmocka_unit_test(an_error_tells_no_password),
};
const struct test_list url_tests = { tests, array_count(tests) };
