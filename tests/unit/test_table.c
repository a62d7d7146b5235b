/* What the end-to-end tests cannot reach: cells beyond ASCII, and rows that end in empty cells. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_characters),
        cmocka_unit_test(no_line_ends_in_blanks),
        cmocka_unit_test(a_cleared_table_keeps_its_widths),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
