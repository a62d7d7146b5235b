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

static void cells_are_made_harmless_and_short(void **state)
{
    (void)state;
    char cell[CELL_TEXT], text[300], expected[300];
    assert_string_equal(table_cell(S("plain \"ü\" text"), cell), "plain \"ü\" text");
    assert_string_equal(table_cell(S(""), cell), "");
    assert_string_equal(table_cell((struct str){ NULL, 0 }, cell), "");
    assert_string_equal(table_cell(S("a\x1b[31m\n\x7f\xff\xe2\x80\xae b"), cell), "a?[31m???? b");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_characters),
        cmocka_unit_test(no_line_ends_in_blanks),
        cmocka_unit_test(a_cleared_table_keeps_its_widths),
        cmocka_unit_test(cells_are_made_harmless_and_short),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
