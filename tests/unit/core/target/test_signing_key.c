/* Signing keys: which key is for which host, and its document. */
#include "check.h"

#include "core/target/signing_key.h"

#define ID "01234567-89ab-8def-8123-456789abcdef"

static void assert_host(const char *given, const char *becomes)
{
    char text[SIGNING_HOST_MAX];
    struct error e = { 0 };
    struct str host;
    enum err rc = signing_host_check(str_from(given), text, &host, &e);
    assert_int_equal(rc, becomes ? ERR_OK : ERR_INVALID);
    if (becomes)
        assert_str(host, becomes);
    else
        assert_string_equal(e.field, "host");
}

static void a_host_is_a_name_an_address_or_all_names_below_one(void **state)
{
    (void)state;
    assert_host("API.Example.com", "api.example.com");
    assert_host("*.Example.com", "*.example.com");
    assert_host("*.com", "*.com");
    assert_host("192.0.2.1", "192.0.2.1");
    assert_host("2001:DB8::1", "2001:db8::1");
    assert_host("0:0:0:0:0:0:0:1", "::1");
    assert_host("2001:0db8:0000::0001", "2001:db8::1");
    assert_host("1::3:4:5:6:7:8", "1:0:3:4:5:6:7:8"); /* longer than it was */
    assert_host("a_b-c.example", "a_b-c.example");
    const char *const bad[] = { "",
                                "*",
                                "*.",
                                "a.*.b",
                                "*example.com",
                                ".example.com",
                                "example.com.",
                                "a..b",
                                "example.com:80",
                                "a/b",
                                "https://a.b",
                                "*.192.0.2.1",
                                "*.2001:db8::1",
                                "[::1]",
                                "a b",
                                "*.0.0.1",
                                "7",
                                "a.7" };
    for (size_t i = 0; i < array_count(bad); i++)
        assert_host(bad[i], NULL);
    char longest[300];
    memset(longest, 'a', sizeof longest);
    longest[SIGNING_HOST_MAX + 1] = '\0';
    assert_host(longest, NULL);
}

static void the_nearest_key_fits_best(void **state)
{
    (void)state;
    struct str host = S("a.b.example.com");
    const struct str order[] = {
        S("x.example.com"), S(""), S("*.com"), S("*.example.com"), S("*.b.example.com"), host
    };
    assert_int_equal(signing_host_fit(order[0], host), 0);
    for (size_t i = 1; i < array_count(order); i++)
        assert_true(signing_host_fit(order[i], host) > signing_host_fit(order[i - 1], host));
    assert_int_equal(signing_host_fit(S("*.example.com"), S("example.com")), 0);
    assert_int_equal(signing_host_fit(S("*.example.com"), S("badexample.com")), 0);
    assert_int_equal(signing_host_fit(S("*.example.com"), S(".example.com")), 0);
    assert_int_equal(signing_host_fit(S("example.com"), S("")), 0);
    assert_true(signing_host_fit(S(""), S("")) > 0);
    assert_true(signing_host_fit(S("2001:db8::1"), S("2001:db8:0:0:0:0:0:1")) > 0);
    assert_int_equal(signing_host_fit(S("2001:db8::1"), S("2001:db8::2")), 0);
    assert_true(signing_host_is_same(S("0:0:0:0:0:0:0:1"), S("::1")) && signing_host_is_same(S("a.b"), S("a.b")));
    assert_true(!signing_host_is_same(S("*.b"), S("a.b")) && !signing_host_is_same(S(""), S("::1")));
}

static void assert_task_host(enum target_kind target, const char *config, const char *wanted)
{
    char out[TARGET_HOST_MAX];
    struct task t = { .target = target, .target_config = str_from(config) };
    assert_str(signing_host(&t, out), wanted);
}

static void the_host_of_a_task_is_that_of_its_url_or_broker(void **state)
{
    (void)state;
    assert_task_host(TARGET_HTTP, "{\"url\":\"https://API.example.com:8443/x\"}", "api.example.com");
    assert_task_host(TARGET_HTTP, "{\"url\":\"https:\\/\\/api.example.com.\\/x\"}", "api.example.com");
    assert_task_host(TARGET_HTTP, "{\"url\":\"http://[2001:db8::1]:80/\"}", "2001:db8::1");
    assert_task_host(TARGET_HTTP, "{}", "");
    assert_task_host(TARGET_MESSAGE, "{\"broker\":\"orders\"}", "");
    assert_task_host(TARGET_MESSAGE, "{\"broker\":\"kafka://A.example:9092,b.example:9092\"}", "a.example");
    assert_task_host(TARGET_MESSAGE, "{\"broker\":\"redis://[::1]:6379/0\"}", "::1");
    assert_task_host(TARGET_NOOP, "{\"url\":\"https://a.b/\"}", "");
    char out[TARGET_HOST_MAX];
    assert_str(signing_host_of_url(S("https://API.example.com.:8443/x?y"), out), "api.example.com");
    assert_str(signing_host_of_url(S("http://[::1]"), out), "::1");
    assert_str(signing_host_of_url(S("no url"), out), "");
}

static void a_document_reads_back_and_ended_secrets_go(void **state)
{
    (void)state;
    cleanup_with(arena_release) struct arena a;
    cleanup_with(buf_release) struct buf text;
    struct signing_key k = { .name = S("n"), .host = S("*.example.com"), .count = 3 }, back, copy;
    struct error e = { 0 };
    struct jw w;
    arena_init(&a, 1 << 16);
    buf_init(&text, 1 << 16);
    assert_true(uuid_parse(S(ID), &k.id));
    k.secrets[0] = (struct signing_secret){ .algorithm = SIGNING_ED25519, .secret = S("x"), .public_key = S("p") };
    k.secrets[1] = (struct signing_secret){ .secret = S("y"), .until_ms = 2000 };
    k.secrets[2] = (struct signing_secret){ .secret = S("z"), .until_ms = 1000 };
    jw_init(&w, &text);
    signing_key_write(&w, &k);
    assert_ok(signing_key_read(buf_str(&text), &a, &back, &e), &e);
    assert_true(signing_key_copy(&back, &a, &copy));
    assert_true(uuid_eq(copy.id, k.id));
    assert_str(copy.host, "*.example.com");
    assert_int_equal(copy.count, 3);
    assert_int_equal(copy.secrets[0].algorithm, SIGNING_ED25519);
    assert_str(copy.secrets[0].public_key, "p");
    assert_int_equal(copy.secrets[1].until_ms, 2000);
    signing_key_drop_ended(&copy, 1000);
    assert_int_equal(copy.count, 2);
    assert_str(copy.secrets[1].secret, "y");
    assert_int_equal(signing_key_read(S("{}"), &a, &back, &e), ERR_CORRUPT);
    assert_int_equal(signing_key_read(S("{\"id\":\"" ID "\",\"secrets\":[]}"), &a, &back, &e), ERR_CORRUPT);
    assert_int_equal(signing_key_read(S("["), &a, &back, &e), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_a_name_an_address_or_all_names_below_one),
        cmocka_unit_test(the_nearest_key_fits_best),
        cmocka_unit_test(the_host_of_a_task_is_that_of_its_url_or_broker),
        cmocka_unit_test(a_document_reads_back_and_ended_secrets_go),
    };
    return cmocka_run_group_tests_name("signing_key", tests, NULL, NULL);
}
