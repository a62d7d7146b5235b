#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "core/target/webhook.h"

static struct arena arena;

static enum err read_target(const char *config, const char *payload, struct webhook *ret, struct error *e)
{
    arena_reset(&arena);
    struct task t = { .target_config = str_from(config), .payload = str_from(payload) };
    return webhook_read(&t, &arena, ret, e);
}

static struct webhook must_read(const char *config, const char *payload)
{
    struct webhook w;
    struct error e;
    assert_ok(read_target(config, payload, &w, &e), &e);
    return w;
}

static void a_url_alone_posts_the_payload(void **state)
{
    (void)state;
    struct webhook w = must_read("{\"url\": \"http://a.example/x\"}", "{\"a\": 1.50}");
    assert_str(w.url, "http://a.example/x");
    assert_int_equal(w.method, METHOD_POST);
    assert_true(w.has_body && w.body_is_json);
    assert_str(w.body, "{\"a\": 1.50}");
    assert_int_equal(w.header_count, 0);
    assert_int_equal(w.timeout_ms, 0);
}

static void a_body_is_sent_as_it_was_written(void **state)
{
    (void)state;
    struct webhook w = must_read("{\"url\": \"http://a\", \"body\": {\"z\": 1.50, \"a\":[ ]} }", "{}");
    assert_str(w.body, "{\"z\": 1.50, \"a\":[ ]}");
    assert_true(w.body_is_json);
    w = must_read("{\"url\": \"http://a\", \"body\": \"line\\n\"}", "{}");
    assert_str(w.body, "line\n");
    assert_true(w.has_body);
    assert_false(w.body_is_json);
    w = must_read("{\"url\": \"http://a\", \"body\": \"\"}", "{}");
    assert_true(w.has_body);
    assert_int_equal(w.body.n, 0);
    w = must_read("{\"url\": \"http://a\", \"body\": false}", "{}");
    assert_str(w.body, "false");
}

static void null_means_no_body_at_all(void **state)
{
    (void)state;
    assert_false(must_read("{\"url\": \"http://a\", \"body\": null}", "{\"a\": 1}").has_body);
    assert_false(must_read("{\"url\": \"http://a\"}", "").has_body);
}

static void get_and_head_do_not_send_the_payload(void **state)
{
    (void)state;
    assert_false(must_read("{\"url\": \"http://a\", \"method\": \"GET\"}", "{}").has_body);
    assert_false(must_read("{\"url\": \"http://a\", \"method\": \"HEAD\"}", "{}").has_body);
    assert_true(must_read("{\"url\": \"http://a\", \"method\": \"GET\", \"body\": 1}", "{}").has_body);
    assert_true(must_read("{\"url\": \"http://a\", \"method\": \"DELETE\"}", "{}").has_body);
}

static void null_is_the_same_as_absent_for_the_rest(void **state)
{
    (void)state;
    struct webhook w =
        must_read("{\"url\": \"http://a\", \"method\": null, \"headers\": null, \"timeout_ms\": null}", "{}");
    assert_int_equal(w.method, METHOD_POST);
    assert_int_equal(w.header_count, 0);
    assert_int_equal(w.timeout_ms, 0);
}

static void headers_and_timeout_are_read(void **state)
{
    (void)state;
    struct webhook w = must_read("{\"url\": \"http://a\", \"method\": \"PATCH\", \"timeout_ms\": 1500, \"headers\": "
                                 "{\"X-Team\": \" a b \", \"content-TYPE\": \"text/csv\", \"X-Empty\": \"\"}}",
                                 "");
    assert_int_equal(w.method, METHOD_PATCH);
    assert_string_equal(webhook_method_name(w.method), "PATCH");
    assert_int_equal(w.timeout_ms, 1500);
    assert_int_equal(w.header_count, 3);
    assert_str(w.headers[0].name, "X-Team");
    assert_str(w.headers[0].value, "a b");
    assert_true(w.has_content_type);
    assert_int_equal(w.headers[2].value.n, 0);
}

static void wrong_targets_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *config, *field, *says;
    } rows[] = {
        { "", "url", "is required" },
        { "{", "", "is not valid JSON" },
        { "[]", "", "must be an object" },
        { "{\"url\": \"\"}", "url", "must not be empty" },
        { "{\"url\": \"http://a/ b\"}", "url", "visible ASCII" },
        { "{\"url\": \"http://a/\\r\\nX: y\"}", "url", "visible ASCII" },
        { "{\"url\": \"http://\\u00fc/\"}", "url", "visible ASCII" },
        { "{\"url\": \"http://a\", \"methode\": \"GET\"}", "methode", "did you mean 'method'" },
        { "{\"url\": \"http://a\", \"method\": \"TRACE\"}", "method", "must be one of POST, GET" },
        { "{\"url\": \"http://a\", \"timeout_ms\": 0}", "timeout_ms", "between 1 and 86400000" },
        { "{\"url\": \"http://a\", \"headers\": []}", "headers", "must be an object" },
        { "{\"url\": \"http://a\", \"headers\": {\"a\": 1}}", "headers.a", "must be a string" },
        { "{\"url\": \"http://a\", \"headers\": {\"a b\": \"\"}}", "headers.a b", "is not a valid header name" },
        { "{\"url\": \"http://a\", \"headers\": {\"\": \"\"}}", "headers.", "is not a valid header name" },
        { "{\"url\": \"http://a\", \"headers\": {\"Host\": \"b\"}}", "headers.Host", "is reserved" },
        { "{\"url\": \"http://a\", \"headers\": {\"a\": \"b\\r\\nc: d\"}}", "headers.a", "visible ASCII" },
        { "{\"url\": \"http://a\", \"headers\": {\"a\": \"\\u0000\"}}", "headers.a", "visible ASCII" },
        { "{\"url\": \"http://a\", \"method\": \"HEAD\", \"body\": 1}", "body", "cannot go with HEAD" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct webhook w = { .timeout_ms = -7 };
        struct error e;
        assert_int_equal(read_target(rows[i].config, "", &w, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
        assert_int_equal(w.timeout_ms, -7);
        assert_int_equal(read_target(rows[i].config, "", &w, NULL), ERR_INVALID);
    }
}

static void headers_of_ours_and_of_the_connection_are_reserved(void **state)
{
    (void)state;
    static const char *const reserved[] = {
        "Host",
        "Content-Length",
        "TRANSFER-ENCODING",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "webhook-id",
        "Webhook-Signature",
        "webhook-",
        "belfry-fence",
        "Belfry-X",
        "Idempotency-Key",
        "x-idempotency-key",
        "traceparent",
    };
    static const char *const free_to_use[] = {
        "Authorization", "X-Host",  "Hosts", "Content-Type", "User-Agent",
        "Accept",        "webhook", "trace", "Cookie",       "X!#$%&'*+-.^_`|~9"
    };
    struct error e;
    for (size_t i = 0; i < array_count(reserved); i++) {
        assert_int_equal(webhook_header_check(str_from(reserved[i]), S("v"), &e), ERR_INVALID);
        assert_says(&e, "is reserved");
    }
    for (size_t i = 0; i < array_count(free_to_use); i++)
        assert_ok(webhook_header_check(str_from(free_to_use[i]), S("a\tb ~!"), &e), &e);
    assert_int_equal(webhook_header_check(S("X:"), S("v"), &e), ERR_INVALID);
    assert_int_equal(webhook_header_check((struct str){ "X\0", 2 }, S("v"), &e), ERR_INVALID);
    assert_int_equal(webhook_header_check(S("X"), S("\xc3\xbc"), &e), ERR_INVALID);
    assert_int_equal(webhook_header_check(S("X"), S("\x7f"), &e), ERR_INVALID);
    static char long_value[WEBHOOK_HEADER_VALUE_MAX + 1];
    memset(long_value, 'a', sizeof long_value);
    assert_ok(webhook_header_check(S("X"), (struct str){ long_value, sizeof long_value - 1 }, &e), &e);
    assert_int_equal(webhook_header_check(S("X"), (struct str){ long_value, sizeof long_value }, &e), ERR_INVALID);
    assert_says(&e, "at most 8192 bytes");
}

static void too_many_headers_are_refused(void **state)
{
    (void)state;
    char config[4096] = "{\"url\": \"http://a\", \"headers\": {";
    for (int i = 0; i <= WEBHOOK_HEADERS_MAX; i++)
        snprintf(config + strlen(config), sizeof config - strlen(config), "%s\"X-%d\": \"\"", i ? "," : "", i);
    snprintf(config + strlen(config), sizeof config - strlen(config), "}}");
    struct webhook w;
    struct error e;
    assert_int_equal(read_target(config, "", &w, &e), ERR_INVALID);
    assert_string_equal(e.field, "headers");
    assert_says(&e, "at most 64");
}

static void a_full_arena_is_a_limit(void **state)
{
    (void)state;
    struct task t = { .target_config = S("{\"url\": \"http://a\", \"headers\": {\"X-Long-Name\": \"and a value\"}, "
                                         "\"body\": \"some text that takes a few bytes\"}") };
    int limits = 0;
    for (size_t max = 16; max < 4096; max += 16) {
        struct arena small;
        arena_init(&small, max);
        struct webhook w;
        struct error e;
        enum err rc = webhook_read(&t, &small, &w, &e);
        assert_true(rc == ERR_OK || rc == ERR_LIMIT);
        limits += rc == ERR_LIMIT;
        arena_release(&small);
    }
    assert_in_range(limits, 3, 30);
}

int main(void)
{
    arena_init(&arena, 1 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_alone_posts_the_payload),
        cmocka_unit_test(a_body_is_sent_as_it_was_written),
        cmocka_unit_test(null_means_no_body_at_all),
        cmocka_unit_test(get_and_head_do_not_send_the_payload),
        cmocka_unit_test(null_is_the_same_as_absent_for_the_rest),
        cmocka_unit_test(headers_and_timeout_are_read),
        cmocka_unit_test(wrong_targets_name_their_field),
        cmocka_unit_test(headers_of_ours_and_of_the_connection_are_reserved),
        cmocka_unit_test(too_many_headers_are_refused),
        cmocka_unit_test(a_full_arena_is_a_limit),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return failed;
}
