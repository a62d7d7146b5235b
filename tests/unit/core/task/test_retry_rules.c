/* core/task/retry_rules: a user's rules for certain failures. */
#include "core/task/retry_rules.h"

#include <stdio.h>

#include "check.h"

static const struct retry_policy POLICY = { .max_attempts = 5, .base_delay_ms = 1000, .max_delay_ms = 60000 };

static struct outcome status(int http_status)
{
    return (struct outcome){ .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = http_status };
}

static struct outcome kind(enum failure failure)
{
    return (struct outcome){ .kind = OUTCOME_FAILED, .failure = failure };
}

static bool names(const char *on, struct outcome o)
{
    char rules[128];
    snprintf(rules, sizeof rules, "[{\"on\": [\"%s\"], \"max_attempts\": 42}]", on);
    struct retry_policy p = POLICY;
    bool named;
    p.rules = str_from(rules);
    struct retry_policy answer = retry_policy_for(&p, &o, &named);
    assert_int_equal(answer.max_attempts, named ? 42 : 5);
    return named;
}

static void a_status_names_itself_and_its_class(void **state)
{
    (void)state;
    assert_true(names("503", status(503)));
    assert_false(names("503", status(502)));
    assert_false(names("503", status(403)));
    assert_true(names("5xx", status(500)));
    assert_true(names("5XX", status(599)));
    assert_false(names("5xx", status(499)));
    assert_true(names("404", status(404)));
    assert_true(names("400", status(400)));
    assert_false(names("400", status(404)));
    assert_true(names("3xx", status(301)));
    assert_false(names("5xx", kind(FAILURE_TIMEOUT)));
    struct outcome late = kind(FAILURE_NETWORK);
    late.http_status = 503; /* the connection broke off after the answer began: a network failure, not an HTTP one */
    assert_false(names("503", late));
}

static void a_kind_names_itself_in_any_case(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum failure failure;
    } rows[] = {
        { "connect", FAILURE_CONNECT }, { "tls", FAILURE_TLS },           { "timeout", FAILURE_TIMEOUT },
        { "network", FAILURE_NETWORK }, { "internal", FAILURE_INTERNAL },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        for (size_t k = 0; k < array_count(rows); k++)
            assert_int_equal(names(rows[i].name, kind(rows[k].failure)), i == k);
    assert_true(names("TimeOut", kind(FAILURE_TIMEOUT)));
    assert_false(names("timeout", status(504)));
}

static void the_first_rule_that_names_it_counts(void **state)
{
    (void)state;
    struct retry_policy p = POLICY;
    struct outcome o = status(503);
    bool named;
    p.rules = S("[{\"on\": [\"timeout\", \"404\"], \"max_attempts\": 2},"
                " {\"on\": [\"4xx\", \"5xx\"], \"max_attempts\": 3, \"base_delay_ms\": 50, \"max_delay_ms\": 70},"
                " {\"on\": [\"503\"], \"max_attempts\": 4}]");
    struct retry_policy answer = retry_policy_for(&p, &o, &named);
    assert_true(named);
    assert_int_equal(answer.max_attempts, 3);
    assert_true(answer.base_delay_ms == 50 && answer.max_delay_ms == 70);
}

static void what_a_rule_does_not_say_stays_as_the_policy_has_it(void **state)
{
    (void)state;
    struct retry_policy p = POLICY;
    struct outcome o = status(503);
    bool named;
    p.backoff = BACKOFF_FIXED;
    p.jitter = JITTER_NONE;
    p.rules = S("[{\"on\": [\"503\"]}]");
    struct retry_policy answer = retry_policy_for(&p, &o, &named);
    assert_true(named);
    assert_int_equal(answer.max_attempts, 5);
    assert_true(answer.base_delay_ms == 1000 && answer.max_delay_ms == 60000);
    assert_int_equal(answer.backoff, BACKOFF_FIXED);
    assert_int_equal(answer.jitter, JITTER_NONE);
}

static void a_rule_with_a_longer_base_raises_the_cap_with_it(void **state)
{
    (void)state;
    struct retry_policy p = POLICY;
    struct outcome o = status(503);
    bool named;
    p.rules = S("[{\"on\": [\"503\"], \"base_delay_ms\": 90000}]");
    struct retry_policy answer = retry_policy_for(&p, &o, &named);
    assert_true(answer.base_delay_ms == 90000 && answer.max_delay_ms == 90000);
}

static void without_rules_or_with_unreadable_ones_nothing_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "[]", "{}", "nonsense", "[1]", "[{\"max_attempts\": 2}]", "[{\"on\": \"503\"}]"
    };
    struct outcome o = status(503);
    for (size_t i = 0; i < array_count(texts); i++) {
        struct retry_policy p = POLICY;
        bool named = true;
        p.rules = str_from(texts[i]);
        struct retry_policy answer = retry_policy_for(&p, &o, &named);
        assert_false(named);
        assert_int_equal(answer.max_attempts, 5);
    }
}

static void an_unreadable_rule_does_not_hide_a_sound_one(void **state)
{
    (void)state;
    struct retry_policy p = POLICY;
    struct outcome o = status(503);
    bool named;
    p.rules = S("[{\"on\": []}, {\"on\": [\"503\"], \"max_attempts\": 9}]");
    assert_int_equal(retry_policy_for(&p, &o, &named).max_attempts, 9);
    assert_true(named);
}

/* ---- checks ---- */

static void sound_rules_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[]",
        "[{\"on\": [\"503\", \"5xx\", \"timeout\"], \"max_attempts\": 3, \"base_delay_ms\": 5000, \"max_delay_ms\": 60000}]",
        "[{\"on\": [\"100\", \"599\", \"1xx\", \"TLS\", \"Internal\"], \"max_attempts\": 100}]",
        "[{\"on\": [\"connect\"], \"max_attempts\": 1, \"base_delay_ms\": 1, \"max_delay_ms\": 604800000}]",
    };
    for (size_t i = 0; i < array_count(texts); i++) {
        struct error e = { 0 };
        assert_ok(retry_rules_check(str_from(texts[i]), &e), &e);
    }
}

static void unsound_rules_are_refused_by_their_path(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { "{}", "", "must be a list of at most 20 rules" },
        { "7", "", "must be a list" },
        { "[7]", "[0]", "" },
        { "[{}]", "[0].on", "" },
        { "[{\"on\": []}]", "[0].on", "" },
        { "[{\"on\": [\"503\"]}, {\"on\": [\"timeout\", \"600\"]}]", "[1].on[1]",
          "'600' is neither a status (503, 5xx)" },
        { "[{\"on\": [\"5x\"]}]", "[0].on[0]", "'5x' is neither" },
        { "[{\"on\": [\"5x3\"]}]", "[0].on[0]", "neither" },
        { "[{\"on\": [\"099\"]}]", "[0].on[0]", "neither" },
        { "[{\"on\": [\"5033\"]}]", "[0].on[0]", "neither" },
        { "[{\"on\": [\"refused\"]}]", "[0].on[0]", "connect, tls, timeout, network" },
        { "[{\"on\": [503]}]", "[0].on[0]", "" },
        { "[{\"on\": [\"503\"], \"max_attempts\": 0}]", "[0].max_attempts", "" },
        { "[{\"on\": [\"503\"], \"max_attempts\": 101}]", "[0].max_attempts", "" },
        { "[{\"on\": [\"503\"], \"base_delay_ms\": 0}]", "[0].base_delay_ms", "" },
        { "[{\"on\": [\"503\"], \"base_delay_ms\": 86400001}]", "[0].base_delay_ms", "" },
        { "[{\"on\": [\"503\"], \"max_delay_ms\": 604800001}]", "[0].max_delay_ms", "" },
        { "[{\"on\": [\"503\"], \"often\": 1}]", "[0].often", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e = { 0 };
        assert_int_equal(retry_rules_check(str_from(rows[i].text), &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
    }
}

static void too_many_rules_are_refused(void **state)
{
    (void)state;
    char text[1024] = "[";
    struct error e = { 0 };
    size_t n = 1;
    for (int i = 0; i < 20; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{\"on\": [\"503\"]}", i ? ", " : "");
    snprintf(text + n, sizeof text - n, "]");
    assert_ok(retry_rules_check(str_from(text), &e), &e);
    snprintf(text + n, sizeof text - n, ", {\"on\": [\"503\"]}]");
    assert_int_equal(retry_rules_check(str_from(text), &e), ERR_INVALID);
    assert_says(&e, "at most 20 rules");
}

static void text_that_is_no_json_is_refused_without_an_error_to_fill_too(void **state)
{
    (void)state;
    struct error e = { 0 };
    assert_int_equal(retry_rules_check(S("[{"), &e), ERR_INVALID);
    assert_true(e.text[0] != '\0');
    assert_int_equal(retry_rules_check(S("[{"), NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_names_itself_and_its_class),
        cmocka_unit_test(a_kind_names_itself_in_any_case),
        cmocka_unit_test(the_first_rule_that_names_it_counts),
        cmocka_unit_test(what_a_rule_does_not_say_stays_as_the_policy_has_it),
        cmocka_unit_test(a_rule_with_a_longer_base_raises_the_cap_with_it),
        cmocka_unit_test(without_rules_or_with_unreadable_ones_nothing_is_named),
        cmocka_unit_test(an_unreadable_rule_does_not_hide_a_sound_one),
        cmocka_unit_test(sound_rules_pass),
        cmocka_unit_test(unsound_rules_are_refused_by_their_path),
        cmocka_unit_test(too_many_rules_are_refused),
        cmocka_unit_test(text_that_is_no_json_is_refused_without_an_error_to_fill_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
