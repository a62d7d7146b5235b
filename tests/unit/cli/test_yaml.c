#include "cli/yaml.h"

#include "base/json/json.h"
#include "check.h"

static enum err convert(const char *yaml, size_t max, struct buf *out, size_t *line, struct error *e)
{
    buf_init(out, max);
    *line = 0;
    *e = (struct error){ 0 };
    return yaml_to_json(str_from(yaml), out, line, e);
}

static void check_is(const char *yaml, const char *json)
{
    struct buf out;
    struct error e;
    size_t line;
    if (convert(yaml, 10000, &out, &line, &e))
        fail_msg("'%s': %s", yaml, e.text);
    assert_string_equal(buf_cstr(&out), json);
    buf_release(&out);
}

static void check_refused(const char *yaml, size_t at, const char *sentence)
{
    struct buf out;
    struct error e;
    size_t line;
    if (!convert(yaml, 10000, &out, &line, &e))
        fail_msg("'%s' became '%s'", yaml, buf_cstr(&out));
    if (!strstr(e.text, sentence))
        fail_msg("'%s': '%s' has not '%s'", yaml, e.text, sentence);
    assert_int_equal(line, at);
    buf_release(&out);
}

static void scalars_are_those_of_the_core_schema(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        { "[null, Null, NULL, ~, ]", "[null,null,null,null]" },
        { "a:", "{\"a\":null}" },
        { "[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]" },
        { "[no, yes, on, off, y, n, No]", "[\"no\",\"yes\",\"on\",\"off\",\"y\",\"n\",\"No\"]" },
        { "[0, -1, +2, 123456789012345678901234567890]", "[0,-1,2,123456789012345678901234567890]" },
        { "[1.50, .5, -.5, 5., 1e3, 1.5E-7, 1e+2]", "[1.50,0.5,-0.5,5,1e3,1.5e-7,1e+2]" },
        { "[0x1F, 0o17, 0x, 0xG, 0o8]", "[31,15,\"0x\",\"0xG\",\"0o8\"]" },
        { "[12:30, 2026-02-10, 1.2.3, 2d, 1_000, -, e5, ., +, 1e]",
          "[\"12:30\",\"2026-02-10\",\"1.2.3\",\"2d\",\"1_000\",\"-\",\"e5\",\".\",\"+\",\"1e\"]" },
        { "['1', \"true\", 'null', '']", "[\"1\",\"true\",\"null\",\"\"]" },
        { "true: 1\n2: b", "{\"true\":1,\n\"2\":\"b\"}" },
        { "\"a\\\"b\\n\"", "\"a\\\"b\\n\"" },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        check_is(rows[i].yaml, rows[i].json);
}

static void a_value_is_on_the_line_of_its_yaml(void **state)
{
    (void)state;
    check_is(
        "# a comment\nsteps:\n\n  - name: a\n    # another\n    queue: mail\n  - {name: b}\nresult: |\n  two\n  lines\n",
        "\n{\"steps\":\n\n[{\"name\":\"a\",\n\n\"queue\":\"mail\"},\n{\"name\":\"b\"}],\n\"result\":\"two\\nlines\\n\"}");
}

static void an_alias_repeats_a_value_where_it_stands(void **state)
{
    (void)state;
    check_is("a: &x {q: 1}\nb: *x\nc: [*x, *x]", "{\"a\":{\"q\":1},\n\"b\":{\"q\":1},\n\"c\":[{\"q\":1},{\"q\":1}]}");
    check_is("- &x 1\n- &x 2\n- *x", "[1,\n2,\n2]");
}

static void what_has_no_meaning_in_json_is_refused_with_its_line(void **state)
{
    (void)state;
    check_refused("a: 1\nb: 2\na: 3\n", 3, "the key 'a' is given twice, in lines 1 and 3");
    check_refused("a:\n  - {b: 1, 'b': 2}\n", 2, "the key 'b' is given twice, in lines 2 and 2");
    check_refused("a: 1\nb: !!str 2\n", 2, "the tag 'tag:yaml.org,2002:str' has no meaning here");
    check_refused("a: !x {}\n", 1, "the tag '!x'");
    check_refused("a: &x {q: 1}\nb:\n  <<: *x\n", 3, "merge keys (<<)");
    check_refused("a: 1\n---\nb: 1\n", 2, "a second document begins");
    check_refused("a: .inf\n", 1, ".inf is no number of JSON");
    check_refused("zip: 01234\n", 1, "the number '01234' begins with 0");
    check_refused("[a]: 1\n", 1, "a key must be a text");
    check_refused("a: *x\n", 1, "no complete value before this line has the anchor 'x'");
    check_refused("a: &x [*x]\n", 1, "no complete value before this line has the anchor 'x'");
    check_refused("", 0, "is empty");
    check_refused("# nothing\n", 0, "is empty");
}

static void bad_syntax_is_refused_with_its_line(void **state)
{
    (void)state;
    check_refused("a: 1\n b: 2\n", 2, "is not valid YAML: ");
    check_refused("a: [1,\n", 2, "is not valid YAML: ");
    check_refused("a: 1\nb: \"x\n", 3, "is not valid YAML: ");
    check_refused("a: 1\n\tb: 2\n", 2, "is not valid YAML: ");
    check_refused("a: \xff\n", 1, "is not valid YAML: ");
}

static void a_few_lines_cannot_become_gigabytes(void **state)
{
    (void)state;
    struct buf out, yaml;
    struct error e;
    size_t line;
    buf_init(&yaml, 10000);
    buf_text(&yaml, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for (int i = 1; i < 20; i++) {
        buf_printf(&yaml, "a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            buf_printf(&yaml, "%s*a%d", k ? ", " : "", i - 1);
        buf_text(&yaml, "]\n");
    }
    assert_int_equal(convert(buf_cstr(&yaml), 1 << 20, &out, &line, &e), ERR_LIMIT);
    assert_string_equal(e.text, "is larger than 1048576 bytes, with its aliases expanded");
    buf_release(&out);
    buf_release(&yaml);
}

static void depth_is_that_of_json(void **state)
{
    (void)state;
    struct buf yaml, out;
    struct json_doc doc;
    struct error e;
    size_t line;
    buf_init(&yaml, 10000);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_char(&yaml, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_char(&yaml, ']');
    assert_int_equal(convert(buf_cstr(&yaml), 10000, &out, &line, &e), ERR_OK);
    assert_int_equal(json_parse(buf_str(&out), &doc, &e), ERR_OK);
    json_doc_release(&doc);
    buf_release(&out);
    buf_reset(&yaml);
    for (int i = 0; i < 3000; i++)
        buf_char(&yaml, '[');
    check_refused(buf_cstr(&yaml), 1, "is nested more than 32 levels deep");
    buf_reset(&yaml);
    buf_text(&yaml, "- &a0 [1]\n");
    for (int i = 1; i < 40; i++)
        buf_printf(&yaml, "- &a%d [*a%d]\n", i, i - 1);
    struct error deep;
    assert_int_equal(convert(buf_cstr(&yaml), 10000, &out, &line, &deep), ERR_INVALID);
    assert_non_null(strstr(deep.text, "is nested more than 32 levels deep"));
    buf_release(&out);
    buf_release(&yaml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_those_of_the_core_schema),
        cmocka_unit_test(a_value_is_on_the_line_of_its_yaml),
        cmocka_unit_test(an_alias_repeats_a_value_where_it_stands),
        cmocka_unit_test(what_has_no_meaning_in_json_is_refused_with_its_line),
        cmocka_unit_test(bad_syntax_is_refused_with_its_line),
        cmocka_unit_test(a_few_lines_cannot_become_gigabytes),
        cmocka_unit_test(depth_is_that_of_json),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
