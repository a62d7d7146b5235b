/* core/task/fingerprint: dead letters with the same cause have the same fingerprint. */
#include "core/task/fingerprint.h"

#include <stdio.h>

#include "check_with_arena.h"

static struct str place_of(enum target_kind target, const char *config)
{
    struct task t = { .target = target, .target_config = str_from(config), .queue = S("mail") };
    return fingerprint_place(&t, &arena);
}

static struct str place_of_url(const char *url)
{
    char config[2000];
    snprintf(config, sizeof config, "{\"url\": \"%s\"}", url);
    return place_of(TARGET_HTTP, config);
}

static void ids_in_a_path_are_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *url, *place;
    } rows[] = {
        { "https://a.example", "https://a.example" },
        { "HTTPS://A.Example:443/", "https://a.example/" },
        { "http://u:p@a.example:8080/x?y=1#z", "http://a.example:8080/x" },
        { "https://a.example/orders/12345/items/6", "https://a.example/orders/*/items/*" },
        { "https://a.example/v2/x", "https://a.example/v2/x" },
        { "https://a.example/users/018f3c1e-7b1a-7c3d-9e2f-0123456789ab/x", "https://a.example/users/*/x" },
        { "https://a.example/u-018F3C1E-7B1A-7C3D-9E2F-0123456789AB", "https://a.example/u-*" },
        { "https://a.example/018f3c1e-7b1a-7c3d-9e2f-0123456789abc",
          "https://a.example/018f3c1e-7b1a-7c3d-9e2f-0123456789abc" },
        { "https://a.example/c/9f86d081884c7d65/x", "https://a.example/c/*/x" },
        { "https://a.example/c/deadbeef", "https://a.example/c/deadbeef" },
        { "https://a.example/c/feedfacedeadbeef", "https://a.example/c/feedfacedeadbeef" },
        { "https://a.example/2026-02-10/run", "https://a.example/*-*-*/run" },
        { "https://a.example/0xff", "https://a.example/*" },
        { "https://a.example/session1234567890x/{id}", "https://a.example/session1234567890x/{id}" },
        { "https://a.example/Hook.PHP", "https://a.example/Hook.PHP" },
        { "no url", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_str(place_of_url(rows[i].url), rows[i].place);
}

static void other_targets_have_places_too(void **state)
{
    (void)state;
    assert_str(place_of(TARGET_MESSAGE, "{\"broker\": \"events\", \"destination\": \"orders\"}"), "events orders");
    assert_str(place_of(TARGET_MESSAGE, "{\"broker\": \"amqp://u:p@h:5672/v\", \"destination\": \"orders\"}"),
               "h:5672/v orders");
    assert_str(place_of(TARGET_MESSAGE, "{\"broker\": \"kafka://h:9092\", \"destination\": \"orders\"}"),
               "kafka://h:9092 orders");
    assert_str(place_of(TARGET_MESSAGE, "{}"), " ");
    assert_str(place_of(TARGET_COMMAND, "{\"argv\": [\"/usr/bin/backup\", \"7\"]}"), "/usr/bin/backup");
    assert_str(place_of(TARGET_WORKFLOW, "{\"workflow\": \"nightly\"}"), "nightly");
    assert_str(place_of(TARGET_WORKER, "{}"), "mail");
    assert_str(place_of(TARGET_NOOP, "{}"), "");
    assert_str(place_of(TARGET_COMMAND, "no json"), "");
}

static void a_place_is_cut_between_characters_and_needs_memory(void **state)
{
    (void)state;
    char url[1000] = "https://a.example/", config[500] = "{\"workflow\": \"x";
    for (size_t i = strlen(url); i < sizeof url - 1; i++)
        url[i] = "x/"[i % 2];
    assert_int_equal(place_of_url(url).n, PLACE_MAX);
    for (int i = 0; i < 150; i++)
        memcpy(config + strlen(config), "ä", 3);
    memcpy(config + strlen(config), "\"}", 3);
    struct str place = place_of(TARGET_WORKFLOW, config);
    assert_int_equal(place.n, PLACE_MAX - 1);
    assert_true(str_is_utf8(place));
    struct arena full;
    arena_init(&full, 1);
    struct task t = { .target = TARGET_WORKER, .queue = S("mail") };
    assert_str(fingerprint_place(&t, &full), "");
    arena_release(&full);
}

static struct fingerprint of_error(const char *error)
{
    return fingerprint_of(TARGET_HTTP, S("https://a.example"), 500, str_from(error));
}

static void errors_that_differ_in_numbers_only_are_one_cause(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        { "timed out after 30s", "timed out after 5s" },
        { "no order 17 at 0x7f33ab", "no order 4 at 0x1" },
        { "request 018f3c1e-7b1a-7c3d-9e2f-0123456789ab failed",
          "request 018f3c1e-7b1a-7c3d-9e2f-ffffffffffff failed" },
        { "object 9f86d081 is gone", "object 00000abc is gone" },
        { "line 1: 10.0.0.1:5432 refused", "line 22: 10.0.10.12:5433 refused" },
        { "12 of them", "7 of them" },
        { "1", "2" },
        { "id0001final", "id12final" },
        { "", "" },
    };
    for (size_t i = 0; i < array_count(pairs); i++)
        assert_string_equal(of_error(pairs[i][0]).text, of_error(pairs[i][1]).text);
}

static void other_words_places_and_statuses_are_other_causes(void **state)
{
    (void)state;
    struct fingerprint one = of_error("no connection");
    assert_string_not_equal(one.text, of_error("no route").text);
    assert_string_not_equal(one.text,
                            fingerprint_of(TARGET_HTTP, S("https://b.example"), 500, S("no connection")).text);
    assert_string_not_equal(one.text,
                            fingerprint_of(TARGET_HTTP, S("https://a.example"), 501, S("no connection")).text);
    assert_string_not_equal(one.text,
                            fingerprint_of(TARGET_NOOP, S("https://a.example"), 500, S("no connection")).text);
}

static void a_fingerprint_is_the_same_for_ever(void **state)
{
    (void)state;
    struct fingerprint f = fingerprint_of(TARGET_HTTP, S("https://a.example/x"), 503, S("HTTP 503"));
    assert_int_equal(strlen(f.text), FINGERPRINT_TEXT);
    for (size_t i = 0; i < FINGERPRINT_TEXT; i++)
        assert_non_null(strchr("0123456789abcdef", f.text[i]));
    assert_string_equal(f.text, "4c5b0978e1d3ec04");
}

static void a_very_long_error_is_looked_at_as_far_as_needed(void **state)
{
    (void)state;
    char a[5000], b[5000];
    memset(a, 'a', sizeof a);
    memset(b, 'a', sizeof b);
    a[4999] = b[4999] = '\0';
    b[4998] = 'b';
    assert_string_equal(of_error(a).text, of_error(b).text);
    b[100] = 'b';
    assert_string_not_equal(of_error(a).text, of_error(b).text);
    struct str place = { a, 5000 };
    struct fingerprint f = fingerprint_of(TARGET_HTTP, place, 500, str_from(a));
    assert_int_equal(strlen(f.text), FINGERPRINT_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_in_a_path_are_left_out),
        cmocka_unit_test(other_targets_have_places_too),
        cmocka_unit_test(a_place_is_cut_between_characters_and_needs_memory),
        cmocka_unit_test(errors_that_differ_in_numbers_only_are_one_cause),
        cmocka_unit_test(other_words_places_and_statuses_are_other_causes),
        cmocka_unit_test(a_fingerprint_is_the_same_for_ever),
        cmocka_unit_test(a_very_long_error_is_looked_at_as_far_as_needed),
    };
    return cmocka_run_group_tests(tests, arena_set_up, arena_tear_down);
}
