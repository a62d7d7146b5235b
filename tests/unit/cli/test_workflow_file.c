#include "cli/workflow/file.h"

#include "check.h"

static void a_path_has_the_line_of_its_value_or_of_what_is_around_it(void **state)
{
    (void)state;
    static const char json[] = "\n{\"steps\": [\n"                          /* 2 */
                               "  {\"name\": \"a\",\n"                      /* 3 */
                               "   \"depends_on\": [\n"                     /* 4 */
                               "     \"x\",\n"                              /* 5 */
                               "     \"y\"]},\n"                            /* 6 */
                               "  {\"headers\": {\"a\": 1,\n"               /* 7 */
                               "                 \"a.b\": {\"c\": 1}}}],\n" /* 8 */
                               " \"result\": {}}\n";                        /* 9 */
    static const struct {
        const char *path;
        size_t line;
    } rows[] = {
        { "", 2 },
        { "steps", 2 },
        { "steps[0]", 3 },
        { "steps[0].name", 3 },
        { "steps[0].depends_on", 4 },
        { "steps[0].depends_on[0]", 5 },
        { "steps[0].depends_on[1]", 6 },
        { "steps[0].depends_on[2]", 4 },
        { "steps[0].missing", 3 },
        { "steps[1].headers.a", 7 },
        { "steps[1].headers.a.b", 8 },
        { "steps[1].headers.a.b.c", 8 },
        { "steps[9].name", 2 },
        { "result", 9 },
        { "nothing.like[3].it", 2 },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (workflow_file_line(str_from(json), str_from(rows[i].path)) != rows[i].line)
            fail_msg("'%s' is not in line %zu but in %zu", rows[i].path, rows[i].line,
                     workflow_file_line(str_from(json), str_from(rows[i].path)));
    assert_int_equal(workflow_file_line(S(""), S("a")), 1);
}

static void files_are_told_from_names(void **state)
{
    (void)state;
    static const char *const files[] = { "-", "./x", "a/b", "etl.yaml", "etl.YML", "x.json" };
    static const char *const names[] = { "etl", "etl.v2", ".yaml", "yaml", "019c3f2e-7a40-7000-8000-000000000001", "" };
    for (size_t i = 0; i < array_count(files); i++)
        assert_true(workflow_file_is_named(str_from(files[i])));
    for (size_t i = 0; i < array_count(names); i++)
        assert_false(workflow_file_is_named(str_from(names[i])));
    assert_str(workflow_file_stem("a/b.c/etl.v2.yaml"), "etl");
    assert_str(workflow_file_stem("etl.yaml"), "etl");
    assert_str(workflow_file_stem("-"), "");
}

static void layout_is_not_sent_but_texts_stay(void **state)
{
    (void)state;
    struct workflow_file f = { 0 };
    struct buf out;
    buf_init(&f.text, 1000);
    buf_init(&out, 1000);
    buf_text(&f.text, "\n{ \"a\" : [ 1 ,\n 2 ],\t\"b c\": \"x \\\" \\\\\" , \"d\": \"  \" }\n");
    workflow_file_compact(&f, &out);
    assert_str(buf_str(&out), "{\"a\":[1,2],\"b c\":\"x \\\" \\\\\",\"d\":\"  \"}");
    buf_release(&out);
    buf_release(&f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_has_the_line_of_its_value_or_of_what_is_around_it),
        cmocka_unit_test(files_are_told_from_names),
        cmocka_unit_test(layout_is_not_sent_but_texts_stay),
    };
    return cmocka_run_group_tests_name("workflow_file", tests, NULL, NULL);
}
