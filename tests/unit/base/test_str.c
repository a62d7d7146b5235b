#include "check.h"

static const struct str nothing = { NULL, 0 };

static void equality_looks_at_length_and_bytes(void **state)
{
    (void)state;
    assert_true(str_eq(S("abc"), str_from("abc")));
    assert_true(str_eq(S("a\0b"), S("a\0b")));
    assert_false(str_eq(S("a\0b"), S("a\0c")));
    assert_false(str_eq(S("abc"), S("ab")));
    assert_false(str_eq(S("abc"), S("abC")));
    assert_true(str_eq(nothing, S("")));
}

static void texts_are_ordered_by_their_bytes(void **state)
{
    (void)state;
    static const struct str rising[] = { { NULL, 0 }, { "A", 1 }, { "a", 1 },   { "a\0", 2 },
                                         { "ab", 2 }, { "b", 1 }, { "\xc3", 1 } };
    for (size_t i = 0; i < array_count(rising); i++)
        for (size_t j = 0; j < array_count(rising); j++) {
            int order = str_cmp(rising[i], rising[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
}

static void case_is_ignored_for_ascii_letters_only(void **state)
{
    (void)state;
    assert_true(str_eq_nocase(S("Europe/Berlin"), S("eUROPE/bERLIN")));
    assert_true(str_eq_nocase(nothing, S("")));
    assert_false(str_eq_nocase(S("abc"), S("ab")));
    assert_false(str_eq_nocase(S("abc"), S("abd")));
    assert_false(str_eq_nocase(S("@"), S("`")));
    assert_false(str_eq_nocase(S("["), S("{")));
    assert_false(str_eq_nocase(S("\xc3\x84"), S("\xc3\xa4")));
}

static void a_prefix_starts_a_text(void **state)
{
    (void)state;
    assert_true(str_starts(S("BELFRY_API"), S("BELFRY_")));
    assert_true(str_starts(S("x"), S("x")));
    assert_true(str_starts(S("x"), S("")));
    assert_true(str_starts(nothing, nothing));
    assert_false(str_starts(S("x"), S("xy")));
    assert_false(str_starts(S("yx"), S("x")));
}

static void trim_takes_blanks_off_both_ends(void **state)
{
    (void)state;
    assert_str(str_trim(S(" \t a b\t ")), "a b");
    assert_str(str_trim(S("a")), "a");
    assert_str(str_trim(S("  a")), "a");
    assert_str(str_trim(S("a  ")), "a");
    assert_str(str_trim(S(" \t ")), "");
    assert_str(str_trim(S("\na")), "\na");
    assert_str(str_trim(nothing), "");
}

static void control_characters_and_separators_are_found(void **state)
{
    (void)state;
    static const char *const with[] = { "a\nb",
                                        "\x1b[1m",
                                        "\x7f",
                                        "a\xc2\x85",
                                        "\xc2\x9b",
                                        "a\xe2\x80\xa8",
                                        "\xe2\x80\xa9"
                                        "b",
                                        "\t" };
    static const char *const without[] = { "", "plain", "\xc2\xa0", "\xc3\xa4", "\xe2\x80\xa6", "\xe2\x82\xac" };
    for (size_t i = 0; i < array_count(with); i++)
        assert_true(str_has_control(str_from(with[i])));
    for (size_t i = 0; i < array_count(without); i++)
        assert_false(str_has_control(str_from(without[i])));
    assert_false(str_has_control((struct str){ "\xe2\x80\xa8", 2 })); /* it ends there */
}

static void characters_that_are_not_shown_are_hidden(void **state)
{
    (void)state;
    static const unsigned hidden[] = { 0x0A,   0x9F,   0xAD,   0x061C, 0x180E, 0x200B, 0x200D,  0x200F, 0x2028,
                                       0x202A, 0x202E, 0x2060, 0x2064, 0x2069, 0xFEFF, 0xE0000, 0xE007F };
    static const unsigned shown[] = { ' ',    0xA0,   0xAC,   0xAE,   0x180D, 0x180F, 0x200A,
                                      0x2010, 0x2027, 0x202F, 0x205F, 0x206A, 0xFEFE, 0xE0080 };
    for (size_t i = 0; i < array_count(hidden); i++)
        assert_true(is_hidden_char(hidden[i]));
    for (size_t i = 0; i < array_count(shown); i++)
        assert_false(is_hidden_char(shown[i]));
    static const char *const with[] = { "a\nb", "op\xe2\x80\x8bs", "\xc2\xad", "ops\xf3\xa0\x81\xbf", "\xe2\x81\xa0" };
    static const char *const without[] = { "", "plain", "\xc3\xa4\xe2\x82\xac", "\xf0\x9f\x94\x94", "\xff" };
    for (size_t i = 0; i < array_count(with); i++)
        assert_true(str_has_hidden(str_from(with[i])));
    for (size_t i = 0; i < array_count(without); i++)
        assert_false(str_has_hidden(str_from(without[i])));
}

static void parts_are_views_of_the_whole(void **state)
{
    (void)state;
    struct str s = S("abcdef");
    assert_str(str_sub(s, 2, 4), "cd");
    assert_ptr_equal(str_sub(s, 2, 4).p, s.p + 2);
    assert_str(str_sub(s, 6, 6), "");
    assert_null(str_sub(nothing, 0, 0).p);
}

static void find_gives_the_first_place_or_the_length(void **state)
{
    (void)state;
    struct str s = S("a,b,c");
    assert_int_equal(str_find(s, ',', 0), 1);
    assert_int_equal(str_find(s, ',', 1), 1);
    assert_int_equal(str_find(s, ',', 2), 3);
    assert_int_equal(str_find(s, ',', 4), 5);
    assert_int_equal(str_find(s, 'x', 0), 5);
    assert_int_equal(str_find(s, ',', 99), 5);
    assert_int_equal(str_find(nothing, ',', 0), 0);
}

static void cut_gives_the_pieces_in_turn(void **state)
{
    (void)state;
    struct str rest = S("a,,bc"), piece;
    assert_true(str_cut(&rest, ',', &piece));
    assert_str(piece, "a");
    assert_str(rest, ",bc");
    assert_true(str_cut(&rest, ',', &piece));
    assert_str(piece, "");
    assert_true(str_cut(&rest, ',', &piece));
    assert_str(piece, "bc");
    assert_str(rest, "");
    assert_false(str_cut(&rest, ',', &piece));
    assert_str(piece, "bc");
    rest = nothing;
    assert_false(str_cut(&rest, ',', &piece));
}

static void integers_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t min, max, expected;
        bool ok;
    } rows[] = {
        { "0", 0, 9, 0, true },
        { "-0", 0, 9, 0, true },
        { "007", 0, 9, 7, true },
        { "-5", -5, 5, -5, true },
        { "5", -5, 5, 5, true },
        { "6", -5, 5, 0, false },
        { "-6", -5, 5, 0, false },
        { "9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX, true },
        { "-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, true },
        { "9223372036854775808", INT64_MIN, INT64_MAX, 0, false },
        { "-9223372036854775809", INT64_MIN, INT64_MAX, 0, false },
        { "99999999999999999999", INT64_MIN, INT64_MAX, 0, false },
        { "", INT64_MIN, INT64_MAX, 0, false },
        { "-", INT64_MIN, INT64_MAX, 0, false },
        { "+1", INT64_MIN, INT64_MAX, 0, false },
        { "--1", INT64_MIN, INT64_MAX, 0, false },
        { " 1", INT64_MIN, INT64_MAX, 0, false },
        { "1 ", INT64_MIN, INT64_MAX, 0, false },
        { "1.0", INT64_MIN, INT64_MAX, 0, false },
        { "0x1", INT64_MIN, INT64_MAX, 0, false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t v = 77;
        assert_int_equal(str_to_i64(str_from(rows[i].text), rows[i].min, rows[i].max, &v), rows[i].ok);
        assert_int_equal(v, rows[i].ok ? rows[i].expected : 77);
    }
}

static void distance_counts_single_edits(void **state)
{
    (void)state;
    assert_int_equal(str_distance(S("kitten"), S("sitting")), 3);
    assert_int_equal(str_distance(S("Europe/Berlin"), S("europe/berln")), 1);
    assert_int_equal(str_distance(S("flaw"), S("lawn")), 2);
    assert_int_equal(str_distance(S("cuont"), S("count")), 1); /* two characters are swapped */
    assert_int_equal(str_distance(S("ab"), S("BA")), 1);
    assert_int_equal(str_distance(S("abc"), S("ca")), 3);
    assert_int_equal(str_distance(S(""), S("abc")), 3);
    assert_int_equal(str_distance(S("abc"), S("")), 3);
    assert_int_equal(str_distance(nothing, nothing), 0);
    char long_text[65];
    memset(long_text, 'a', sizeof long_text);
    assert_int_equal(str_distance((struct str){ long_text, 64 }, (struct str){ long_text, 63 }), 1);
    assert_true(str_distance((struct str){ long_text, 65 }, S("a")) == SIZE_MAX);
    assert_true(str_distance(S("a"), (struct str){ long_text, 65 }) == SIZE_MAX);
}

static void well_formed_utf8_is_told_from_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
    } rows[] = {
        { "plain", true },
        { "\x7f", true },
        { "\xc2\x80 \xdf\xbf", true },
        { "\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf", true },
        { "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf \xf1\x80\x80\x80", true },
        { "\x80", false },
        { "\xc0\x80", false },
        { "\xc1\xbf", false },
        { "\xc2", false },
        { "\xc2\x7f", false },
        { "\xc2\xc0", false },
        { "\xe0\x9f\xbf", false },
        { "\xe1\x80", false },
        { "\xe1\x80\x7f", false },
        { "\xed\xa0\x80", false },
        { "\xf0\x8f\xbf\xbf", false },
        { "\xf0\x90\x80", false },
        { "\xf1\x80\x80\xc0", false },
        { "\xf4\x90\x80\x80", false },
        { "\xf5\x80\x80\x80", false },
        { "\xff", false },
        { "good then \xff", false },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_is_utf8(str_from(rows[i].text)) != rows[i].ok)
            fail_msg("row %zu", i);
    assert_true(str_is_utf8(nothing));
    assert_true(str_is_utf8(S("a\0b")));
}

/* Encodes a number of up to 21 bits in the shortest form, including surrogates and numbers above U+10FFFF. */
static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80)
        return out[0] = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = { [2] = 0xc0, [3] = 0xe0, [4] = 0xf0 };
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(leads[n] | c);
    return n;
}

static void every_code_point_but_surrogates_is_utf8(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x1fffff; c += c < 0x11000 ? 1 : 61) {
        char text[4];
        size_t n = encode(c, text);
        bool valid = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        assert_true(str_is_utf8((struct str){ text, n }) == valid);
    }
}

static void odd_characters_are_shown_as_their_number(void **state)
{
    (void)state;
    char out[STR_CHAR_TEXT];
    assert_string_equal(str_show_char('x', out), "'x'");
    assert_string_equal(str_show_char(' ', out), "' '");
    assert_string_equal(str_show_char('~', out), "'~'");
    assert_string_equal(str_show_char('\0', out), "byte 0x00");
    assert_string_equal(str_show_char('\n', out), "byte 0x0a");
    assert_string_equal(str_show_char(0x7f, out), "byte 0x7f");
    assert_string_equal(str_show_char((char)0xc3, out), "byte 0xc3");
}

static void texts_are_packed_one_behind_the_other(void **state)
{
    (void)state;
    char place[8], *at = place;
    memset(place, 'x', sizeof place);
    struct str a = str_pack(S("abc"), &at), none = str_pack((struct str){ NULL, 0 }, &at), b = str_pack(S("de"), &at);
    assert_str(a, "abc");
    assert_str(none, "");
    assert_str(b, "de");
    assert_ptr_equal(at, place + str_pack_size(a) + str_pack_size(none) + str_pack_size(b));
    assert_memory_equal(place, "abc\0de\0x", 8);
}

static void parts_are_found_in_any_case(void **state)
{
    (void)state;
    assert_true(str_contains_nocase(S("X-Api-KEY"), S("key")) && str_contains_nocase(S("key"), S("Key")));
    assert_true(str_contains_nocase(S("a"), S("")));
    assert_false(str_contains_nocase(S("ke"), S("key")) || str_contains_nocase(S(""), S("k")));
}

static void percent_escapes_are_decoded(void **state)
{
    (void)state;
    char out[8], place[] = "a%2Fb%2fc";
    assert_true(str_percent_decode(S("a%40b%25"), out, sizeof out));
    assert_string_equal(out, "a@b%");
    assert_true(str_percent_decode(S(""), out, 1));
    assert_string_equal(out, "");
    assert_true(str_percent_decode(S("%ff"), out, sizeof out));
    assert_string_equal(out, "\xff");
    assert_true(str_percent_decode(str_from(place), place, sizeof place)); /* in place */
    assert_string_equal(place, "a/b/c");
}

static void broken_percent_escapes_and_nul_are_refused(void **state)
{
    (void)state;
    const struct str broken[] = { S("%"), S("a%4"), S("%4x"), S("%x4"), S("%%41"), S("%00"), S("a\0b") };
    char out[8];
    for (size_t i = 0; i < array_count(broken); i++)
        assert_false(str_percent_decode(broken[i], out, sizeof out));
    assert_true(str_percent_decode(S("1234567"), out, sizeof out));
    assert_false(str_percent_decode(S("12345678"), out, sizeof out));
    assert_true(str_percent_decode(S("123456%41"), out, sizeof out));
    assert_string_equal(out, "123456A");
    assert_false(str_percent_decode(S(""), out, 0));
}

static void parameters_of_a_url_are_found_and_decoded(void **state)
{
    (void)state;
    char out[16];
    const struct str url = S("kafka://h:1,i:2/?a.long.name=1&pre%66ix=x%2dy&prefix=z&empty=&none");
    assert_true(str_url_parameter(url, "prefix", out, sizeof out));
    assert_string_equal(out, "x-y");
    assert_true(str_url_parameter(url, "a.long.name", out, 2)); /* the name need not fit, but the value */
    assert_string_equal(out, "1");
    assert_true(str_url_parameter(url, "empty", out, sizeof out));
    assert_string_equal(out, "");
    assert_false(str_url_parameter(url, "prefix", out, 3));
    assert_false(str_url_parameter(url, "none", out, sizeof out));
    assert_false(str_url_parameter(url, "Prefix", out, sizeof out));
    assert_false(str_url_parameter(S("redis://prefix=a"), "prefix", out, sizeof out));
    assert_false(str_url_parameter(S(""), "prefix", out, sizeof out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_ordered_by_their_bytes),
        cmocka_unit_test(equality_looks_at_length_and_bytes),
        cmocka_unit_test(case_is_ignored_for_ascii_letters_only),
        cmocka_unit_test(a_prefix_starts_a_text),
        cmocka_unit_test(trim_takes_blanks_off_both_ends),
        cmocka_unit_test(control_characters_and_separators_are_found),
        cmocka_unit_test(characters_that_are_not_shown_are_hidden),
        cmocka_unit_test(parts_are_views_of_the_whole),
        cmocka_unit_test(find_gives_the_first_place_or_the_length),
        cmocka_unit_test(cut_gives_the_pieces_in_turn),
        cmocka_unit_test(integers_are_read_whole_or_not_at_all),
        cmocka_unit_test(distance_counts_single_edits),
        cmocka_unit_test(well_formed_utf8_is_told_from_the_rest),
        cmocka_unit_test(every_code_point_but_surrogates_is_utf8),
        cmocka_unit_test(odd_characters_are_shown_as_their_number),
        cmocka_unit_test(texts_are_packed_one_behind_the_other),
        cmocka_unit_test(parts_are_found_in_any_case),
        cmocka_unit_test(percent_escapes_are_decoded),
        cmocka_unit_test(broken_percent_escapes_and_nul_are_refused),
        cmocka_unit_test(parameters_of_a_url_are_found_and_decoded),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
