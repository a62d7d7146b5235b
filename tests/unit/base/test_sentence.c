#include "check.h"

#include "base/sentence.h"

static const char *closest(const char *given, const char *const *known)
{
    struct suggest s;
    suggest_init(&s, str_from(given));
    for (; *known; known++)
        suggest_offer(&s, str_from(*known));
    return s.closest.p;
}

static void a_typing_error_finds_the_name_that_was_meant(void **state)
{
    (void)state;
    static const char *const known[] = { "count", "from", "tz", "time-zone", "a", NULL };
    assert_string_equal(closest("cuont", known), "count");
    assert_string_equal(closest("COUNT", known), "count");
    assert_string_equal(closest("form", known), "from");
    assert_string_equal(closest("tzz", known), "tz");
    assert_string_equal(closest("timezne", known), "time-zone");
    assert_null(closest("zebra", known));
    static const char *const options[] = { "timeout", "requires", "at", "tz", "status", "completion", NULL };
    assert_null(closest("timezone", options)); /* each is similar, and means something else */
    assert_null(closest("retries", options));
    assert_null(closest("wat", options));
    assert_null(closest("Z", options));
    assert_string_equal(closest("stauts", options), "status");
    assert_string_equal(closest("complete", options), "completion");
    assert_string_equal(closest("no-status", options), "status");
    assert_null(closest("x", known)); /* a one-letter name with one error is not similar */
    assert_null(closest("", known));
}

static void the_first_of_equally_close_names_is_suggested(void **state)
{
    (void)state;
    static const char *const known[] = { "bat", "cat", "hat", NULL };
    assert_string_equal(closest("rat", known), "bat");
}

static void ranges_say_only_what_binds(void **state)
{
    (void)state;
    static const struct {
        struct range r;
        const char *text, *short_text;
    } rows[] = {
        { { 1, 10, INT64_MIN, INT64_MAX, false }, "between 1 and 10", "1 to 10" },
        { { 1, INT64_MAX, INT64_MIN, INT64_MAX, false }, "at least 1", "at least 1" },
        { { INT64_MIN, 10, INT64_MIN, INT64_MAX, false }, "at most 10", "at most 10" },
        { { 3, 3, 0, 9, false }, "exactly 3", "exactly 3" },
        { { INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX, false }, "", "" },
        { { 1000, 5400000, 0, INT64_MAX, true }, "between 1s and 1h30m", "1s to 1h30m" },
        { { 0, 60000, 0, INT64_MAX, true }, "at most 1m", "at most 1m" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[RANGE_TEXT];
        range_text(rows[i].r, text);
        assert_string_equal(text, rows[i].text);
        range_short_text(rows[i].r, text);
        assert_string_equal(text, rows[i].short_text);
    }
}

static void quotes_show_a_value_harmlessly_and_within_their_room(void **state)
{
    (void)state;
    char out[QUOTE_TEXT];
    quote_text(S("0"), out);
    assert_string_equal(out, "'0'");
    quote_text((struct str){ NULL, 0 }, out);
    assert_string_equal(out, "''");
    quote_text(S("a\x1b[31m\n\x7f\xff\xc3z"), out);
    assert_string_equal(out, "'a?[31m????z'");
    quote_text(S("Zürich"), out);
    assert_string_equal(out, "'Zürich'");
    quote_text(S("1234567890123456789012345678901234567890123456789012345678901"), out); /* 61: just fits */
    assert_string_equal(out, "'1234567890123456789012345678901234567890123456789012345678901'");
    quote_text(S("1234567890123456789012345678901234567890123456789012345678901_"), out);
    assert_string_equal(out, "'1234567890123456789012345678901234567890123456789012345678…'");
    quote_text(S("123456789012345678901234567890123456789012345678901234567ü_____"), out); /* ü would be split */
    assert_string_equal(out, "'123456789012345678901234567890123456789012345678901234567…'");
}

static void cutting_splits_no_character(void **state)
{
    (void)state;
    assert_str(str_utf8_cut(S("aüb"), 4), "aüb");
    assert_str(str_utf8_cut(S("aüb"), 3), "aü");
    assert_str(str_utf8_cut(S("aüb"), 2), "a");
    assert_str(str_utf8_cut(S("€"), 2), "");
    /* Not UTF-8: at most 3 bytes are cut. */
    assert_int_equal(str_utf8_cut(S("\x80\x80\x80\x80\x80\x80\x80\x80"), 6).n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typing_error_finds_the_name_that_was_meant),
        cmocka_unit_test(the_first_of_equally_close_names_is_suggested),
        cmocka_unit_test(ranges_say_only_what_binds),
        cmocka_unit_test(quotes_show_a_value_harmlessly_and_within_their_room),
        cmocka_unit_test(cutting_splits_no_character),
    };
    return cmocka_run_group_tests_name("sentence", tests, NULL, NULL);
}
