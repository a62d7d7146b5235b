#include <stdlib.h>

#include "check_with_arena.h"
#include "core/target/message_target.h"

static enum err read_letter(const char *config, const char *payload, struct message_target *ret, struct error *e)
{
    arena_reset(&arena);
    struct task t = { .target = TARGET_MESSAGE, .target_config = str_from(config), .payload = str_from(payload) };
    return message_target_read(&t, &arena, ret, e);
}

static struct message_target must_read(const char *config, const char *payload)
{
    struct message_target l;
    struct error e = { 0 };
    assert_ok(read_letter(config, payload, &l, &e), &e);
    return l;
}

static void a_broker_by_name_gets_the_payload(void **state)
{
    (void)state;
    struct message_target l = must_read("{\"broker\": \"jobs\", \"destination\": \"orders\"}", "{\"a\": 1.50}");
    assert_int_equal(l.kind, MESSAGE_TARGET_NAMED);
    assert_str(l.broker, "jobs");
    assert_str(l.destination, "orders");
    assert_int_equal(l.key.n, 0);
    assert_str(l.content.body, "{\"a\": 1.50}");
    assert_true(l.content.has_body && l.content.body_is_json);
    assert_int_equal(l.content.timeout_ms, 0);
}

static void all_members_are_read(void **state)
{
    (void)state;
    struct message_target l = must_read(
        "{\"broker\": \"kafka://a:1,b\", \"destination\": \"t\", \"key\": \"k\", \"headers\": {\"X-A\": \"b\"}, "
        "\"body\": \"text\", \"timeout_ms\": 5}",
        "{}");
    assert_int_equal(l.kind, MESSAGE_TARGET_KAFKA);
    assert_str(l.key, "k");
    assert_int_equal(l.content.header_count, 1);
    assert_str(l.content.headers[0].name, "X-A");
    assert_str(l.content.body, "text");
    assert_false(l.content.body_is_json);
    assert_int_equal(l.content.timeout_ms, 5);
}

static void null_means_no_body(void **state)
{
    (void)state;
    assert_false(must_read("{\"broker\":\"j\",\"destination\":\"d\",\"body\":null}", "{\"a\":1}").content.has_body);
}

static void hosts_come_without_ports_and_brackets(void **state)
{
    (void)state;
    static const struct {
        const char *broker, *hosts;
    } rows[] = {
        { "redis://a", "a " },
        { "redis://a.example:6379/0", "a.example " },
        { "amqp://[::1]:5672/vhost", "::1 " },
        { "amqps://[fe80::1]", "fe80::1 " },
        { "kafka://a:1,10.0.0.1,[::2]:3", "a 10.0.0.1 ::2 " },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char config[256], found[256] = "";
        snprintf(config, sizeof config, "{\"broker\":\"%s\",\"destination\":\"d\"}", rows[i].broker);
        struct message_target l = must_read(config, "{}");
        struct str rest = { 0 }, host;
        while (message_target_next_host(l.broker, &rest, &host))
            snprintf(found + strlen(found), sizeof found - strlen(found), STR_FMT " ", STR_ARG(host));
        assert_string_equal(found, rows[i].hosts);
    }
}

static void what_is_no_broker_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *broker, *says;
    } rows[] = {
        { "a b", "must be a name of 1 to 64" },
        { "ftp://a", "must be a name, or begin with redis://" },
        { "redis+unix:///etc/passwd", "must be a name, or begin with" },
        { "redis+sentinel://a/m", "must be a name, or begin with" },
        { "redis://u@a", "user or password" },
        { "amqp://a?heartbeat=1", "must not hold parameters" },
        { "kafka://a/?plugin.library.paths=/tmp/x.so", "must not hold parameters" },
        { "redis://", "has no host" },
        { "redis://,", "has no valid host name" },
        { "redis://a..b_c:70000", "port" },
        { "redis://a:", "port" },
        { "redis://a:1x", "port" },
        { "redis://[::1", "has no valid host name" },
        { "redis://[]", "has no valid host name" },
        { "redis://a%62", "holds a character" },
        { "redis://a\\u0000b", "" },
        { "redis://a\\u00e4", "holds a character" },
        { "amqp://a,b", "too many hosts" },
        { "kafka://1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7", "too many hosts" },
        { "kafka://a/x", "must have no path" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char config[256];
        struct message_target l;
        struct error e = { 0 };
        snprintf(config, sizeof config, "{\"broker\":\"%s\",\"destination\":\"d\"}", rows[i].broker);
        if (read_letter(config, "{}", &l, &e) != ERR_INVALID)
            fail_msg("%s is taken", rows[i].broker);
        assert_string_equal(e.field, "broker");
        assert_says(&e, rows[i].says);
        assert_int_equal(read_letter(config, "{}", &l, NULL), ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broker_by_name_gets_the_payload),
        cmocka_unit_test(all_members_are_read),
        cmocka_unit_test(null_means_no_body),
        cmocka_unit_test(hosts_come_without_ports_and_brackets),
        cmocka_unit_test(what_is_no_broker_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_set_up, arena_tear_down);
}
