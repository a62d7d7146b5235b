/* Cases that the end-to-end tests cannot reach: cells with non-ASCII text, and rows that end in empty cells. */
#include "cli/table.h"

#include "check.h"

static void columns_are_as_wide_as_their_characters(void **state)
{
    (void)state;
    struct table t;
    struct buf out;
    buf_init(&out, 1000);
    table_init(&t, 2);
    table_row(&t, 2, "NAME", "X");
    table_row(&t, 2, "über", "1");
    table_row(&t, 2, "每天早上八点", "2");
    table_print(&t, &out);
    assert_str(buf_str(&out), "NAME    X\n"
                              "über    1\n"
                              "每天早上八点  2\n");
    buf_release(&out);
    table_release(&t);
}

static void no_line_ends_in_blanks(void **state)
{
    (void)state;
    struct table t;
    struct buf out;
    buf_init(&out, 1000);
    table_init(&t, 3);
    table_row(&t, 3, "A", "B", "C");
    table_row(&t, 3, "1", "", "3");
    table_row(&t, 3, "1", "2", "");
    table_row(&t, 3, "1", "", "");
    table_row(&t, 3, "", "", "");
    table_print(&t, &out);
    assert_str(buf_str(&out), "A  B  C\n"
                              "1     3\n"
                              "1  2\n"
                              "1\n"
                              "\n");
    buf_release(&out);
    table_release(&t);
}

static void a_cleared_table_keeps_its_widths(void **state)
{
    (void)state;
    struct table t;
    struct buf out;
    buf_init(&out, 1000);
    table_init(&t, 2);
    for (int i = 0; i < 100; i++)
        table_row(&t, 2, i == 50 ? "wide" : "w", "x");
    table_clear(&t);
    table_print(&t, &out);
    assert_int_equal(out.n, 0);
    table_row(&t, 2, "a", "b");
    table_print(&t, &out);
    assert_str(buf_str(&out), "a     b\n");
    buf_release(&out);
    table_release(&t);
}

static void a_reserved_column_is_as_wide_before_its_widest_cell_comes(void **state)
{
    (void)state;
    struct table t;
    struct buf out;
    buf_init(&out, 1000);
    table_init(&t, 2);
    table_reserve(&t, 0, 9);
    table_row(&t, 2, "RUNNING", "x");
    table_print(&t, &out);
    table_clear(&t);
    table_row(&t, 2, "COMPLETED", "x");
    table_print(&t, &out);
    assert_str(buf_str(&out), "RUNNING    x\nCOMPLETED  x\n");
    buf_release(&out);
    table_release(&t);
}

static void cells_are_made_harmless_and_short(void **state)
{
    (void)state;
    char cell[CELL_TEXT], text[300], expected[300];
    assert_string_equal(table_cell(S("plain \"ü\" text"), cell), "plain \"ü\" text");
    assert_string_equal(table_cell(S(""), cell), "");
    assert_string_equal(table_cell((struct str){ NULL, 0 }, cell), "");
    assert_string_equal(table_cell(S("a\x1b[31m\n\x7f\xff\xe2\x80\xae b"), cell), "a?[31m ??? b");
    for (size_t i = 0; i < 120; i += 2) /* 60 characters of two bytes */
        memcpy(text + i, "ü", 2);
    assert_str(str_from(table_cell((struct str){ text, 120 }, cell)), (text[120] = '\0', text));
    memcpy(expected, text, 118);
    memcpy(expected + 118, "…", sizeof "…");
    memcpy(text + 120, "ü", 2);
    assert_string_equal(table_cell((struct str){ text, 122 }, cell), expected);
    for (size_t i = 0; i < 240; i += 4) /* 60 characters of four bytes, the maximum */
        memcpy(text + i, "\xf0\x9f\x94\x94", 4);
    assert_int_equal(strlen(table_cell((struct str){ text, 240 }, cell)), 240);
}

static void the_widest_columns_are_cut_to_fit_a_terminal(void **state)
{
    (void)state;
    struct table t;
    struct buf out;
    buf_init(&out, 1000);
    table_init(&t, 3);
    table_row(&t, 3, "ID", "NAME", "TARGET");
    table_row(&t, 3, "0123456789", table_text(&t, S("a name of 24 characters.")), table_text(&t, S("übermäßig lang")));
    table_keep(&t, 0);
    t.fit = 38; /* 10 + 2 + 12 + 2 + 12 */
    table_print(&t, &out);
    assert_str(buf_str(&out), "ID          NAME          TARGET\n"
                              "0123456789  a name of 2…  übermäßig l…\n");
    buf_reset(&out);
    t.fit = 10; /* too narrow: columns stay readable */
    table_print(&t, &out);
    assert_str(buf_str(&out), "ID          NAME      TARGET\n"
                              "0123456789  a name …  übermäß…\n");
    buf_reset(&out);
    t.fit = 0;
    table_print(&t, &out);
    assert_non_null(strstr(buf_cstr(&out), "a name of 24 characters.  übermäßig lang\n"));
    buf_release(&out);
    table_release(&t);
}

static void a_reason_at_the_end_is_left_to_the_terminal_to_wrap(void **state)
{
    (void)state;
    struct table t;
    struct buf out;
    buf_init(&out, 1000);
    table_init(&t, 2);
    table_row(&t, 2, "NAME", "ERROR");
    table_row(&t, 2, "a name of 24 characters.", "an error that is much longer than the terminal is wide, and whole");
    table_keep(&t, 1);
    t.fit = 56; /* 24 + 2 + 30: the beginning of the error fits beside the name */
    table_print(&t, &out);
    assert_non_null(strstr(buf_cstr(&out), "\na name of 24 characters.  an error that is much longer"));
    assert_non_null(strstr(buf_cstr(&out), "wide, and whole\n"));
    buf_reset(&out);
    t.fit = 55;
    table_print(&t, &out);
    assert_non_null(strstr(buf_cstr(&out), "\na name of 24 character…  an error"));
    assert_non_null(strstr(buf_cstr(&out), "wide, and whole\n"));
    buf_release(&out);
    table_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_characters),
        cmocka_unit_test(no_line_ends_in_blanks),
        cmocka_unit_test(a_cleared_table_keeps_its_widths),
        cmocka_unit_test(a_reserved_column_is_as_wide_before_its_widest_cell_comes),
        cmocka_unit_test(cells_are_made_harmless_and_short),
        cmocka_unit_test(the_widest_columns_are_cut_to_fit_a_terminal),
        cmocka_unit_test(a_reason_at_the_end_is_left_to_the_terminal_to_wrap),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
