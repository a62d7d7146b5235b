#include "check.h"

static void set_fills_in_all_and_returns_the_code(void **state)
{
    (void)state;
    struct error e = { .code = ERR_CORRUPT, .field = "stale", .text = "stale" };
    assert_int_equal(error_set(&e, ERR_NOT_FOUND, "no queue '%s' in %d", "mail", 3), ERR_NOT_FOUND);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_string_equal(e.field, "");
    assert_string_equal(e.text, "no queue 'mail' in 3");
}

static void a_field_is_always_invalid_input(void **state)
{
    (void)state;
    struct error e = { 0 };
    assert_int_equal(error_field(&e, "retry", "must be %d", 1), ERR_INVALID);
    assert_int_equal(e.code, ERR_INVALID);
    assert_string_equal(e.field, "retry");
    assert_string_equal(e.text, "must be 1");
}

static void nobody_needs_to_want_the_sentence(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ERR_LIMIT, "x"), ERR_LIMIT);
    assert_int_equal(error_field(NULL, "f", "x"), ERR_INVALID);
}

static void wrap_puts_context_in_front(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(error_field(&e, "store", "disk I/O error"), ERR_INVALID);
    assert_int_equal(error_wrap(&e, "open '%s'", "x.db"), ERR_INVALID);
    assert_string_equal(e.text, "open 'x.db': disk I/O error");
    assert_string_equal(e.field, "store");
    assert_int_equal(error_wrap(&e, "start"), ERR_INVALID);
    assert_string_equal(e.text, "start: open 'x.db': disk I/O error");
}

static void in_builds_a_field_path(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(error_field(&e, "on", "x"), ERR_INVALID);
    assert_int_equal(error_in(&e, "rules[2]"), ERR_INVALID);
    assert_string_equal(e.field, "rules[2].on");
    assert_int_equal(error_in(&e, "retry"), ERR_INVALID);
    assert_string_equal(e.field, "retry.rules[2].on");
    assert_int_equal(error_field(&e, "[3]", "x"), ERR_INVALID);
    assert_int_equal(error_in(&e, "rules"), ERR_INVALID);
    assert_string_equal(e.field, "rules[3]");
    assert_int_equal(error_set(&e, ERR_LIMIT, "x"), ERR_LIMIT);
    assert_int_equal(error_in(&e, "rules"), ERR_LIMIT);
    assert_string_equal(e.field, "rules");
}

static void what_is_too_long_is_cut(void **state)
{
    (void)state;
    struct error e;
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(error_field(&e, long_text, "%s", long_text), ERR_INVALID);
    assert_int_equal(strlen(e.field), sizeof e.field - 1);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(error_wrap(&e, "open"), ERR_INVALID);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_memory_equal(e.text, "open: xxx", 9);
    assert_int_equal(error_in(&e, "a"), ERR_INVALID);
    assert_memory_equal(e.field, "a.xxx", 5);
    assert_int_equal(strlen(e.field), sizeof e.field - 1);
    assert_int_equal(error_wrap(&e, "%s", long_text), ERR_INVALID); /* no room for the inner sentence */
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_null(strchr(e.text, ':'));
}

static void every_code_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(err_text(ERR_OK), "no error");
    assert_string_equal(err_text(ERR_INVALID), "invalid input");
    assert_string_equal(err_text(ERR_NOT_FOUND), "not found");
    assert_string_equal(err_text(ERR_CONFLICT), "changed by another");
    assert_string_equal(err_text(ERR_LIMIT), "limit reached");
    assert_string_equal(err_text(ERR_UNAVAILABLE), "backend down, safe to retry");
    assert_string_equal(err_text(ERR_CORRUPT), "invariant broken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_in_all_and_returns_the_code),
        cmocka_unit_test(a_field_is_always_invalid_input),
        cmocka_unit_test(nobody_needs_to_want_the_sentence),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(in_builds_a_field_path),
        cmocka_unit_test(what_is_too_long_is_cut),
        cmocka_unit_test(every_code_has_a_text),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
