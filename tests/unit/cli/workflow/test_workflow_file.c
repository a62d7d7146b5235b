#include "cli/workflow/file.h"

#include "check.h"

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
        cmocka_unit_test(files_are_told_from_names),
        cmocka_unit_test(layout_is_not_sent_but_texts_stay),
    };
    return cmocka_run_group_tests_name("workflow_file", tests, NULL, NULL);
}
