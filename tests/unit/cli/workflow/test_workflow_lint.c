#include "cli/workflow/lint.h"

#include "check.h"

enum { TEXT_MAX = 1 << 20, FOUND_MAX = 4096 };

/* Lists the errors as "LINE PATH\n…". */
static void lint(const char *json, char ret[FOUND_MAX])
{
    struct lint_errors *errors = xnew(*errors);
    struct dag *d = NULL;
    struct buf text, found;
    buf_init(&text, TEXT_MAX);
    buf_init(&found, FOUND_MAX - 1);
    buf_text(&text, json);
    for (size_t i = 0; i < text.n; i++)
        text.p[i] = text.p[i] == '\'' ? '"' : text.p[i];
    workflow_lint(&text, &d, errors);
    assert_int_equal(errors->n == 0, d != NULL);
    for (size_t i = 0; i < errors->n; i++)
        buf_printf(&found, "%zu %s\n", errors->v[i].line, errors->v[i].e.field);
    snprintf(ret, FOUND_MAX, "%s", buf_cstr(&found));
    dag_free(d);
    buf_release(&text);
    buf_release(&found);
    free(errors);
}

#define NOOP "'target_type':'NOOP'"

static void errors_are_found_together_and_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *json, *found;
    } rows[] = {
        { "{'steps':[{'name':'a'," NOOP "}]}", "" },
        { "{'steps':[{'name':'a',}]}", "1 steps[0]\n" },
        { "{}", "1 steps\n" },
        { "{'steps':[]}", "1 steps\n" },
        { "{'steps':[\n1,\n{'name':'a'," NOOP ",'queue':7}]}", "2 steps[0]\n" },
        /* a field that is taken out is not missed, and nothing that is in it counts */
        { "{'steps':[{'name':'a',\n'target_type':'NOPE',\n'priority':'x'}]}",
          "2 steps[0].target_type\n3 steps[0].priority\n" },
        { "{'steps':[{'name':'a','target_config':{'url':7,\n'body':{'$ref':'/nowhere'}}}]}",
          "1 steps[0].target_config.url\n2 steps[0].target_config.body.$ref\n" },
        /* /item belongs to the map that is wrong */
        { "{'steps':[{'name':'a','map':3,'target_config':{'url':'http://x/','body':{'$ref':'/item'}}}]}",
          "1 steps[0].map\n" },
        /* it would wait for what it refers to, if its dependencies were right */
        { "{'steps':[{'name':'a'," NOOP "},{'name':'b'," NOOP ",'depends_on':['a']},\n{'name':'c','depends_on':[3],"
          "'target_config':{'url':'http://x/','body':{'$ref':'/steps/a/output'}}}]}",
          "2 steps[2].depends_on[0]\n" },
        { "{'steps':[{'name':'a','target_config':{'url':'http://x/','headers':{'Cookie':'***'}}}]}", "" },
        { "{'name':'n',\n'steps':[{'name':'a'," NOOP "}]}", "1 name\n" },
        /* indexes stay as they are in the file */
        { "{'steps':[{'name':'a'," NOOP ",'depends_on':['x1x',\n'y2y',\n'z3z']}]}",
          "1 steps[0].depends_on[0]\n2 steps[0].depends_on[1]\n3 steps[0].depends_on[2]\n" },
        /* every cycle */
        { "{'steps':[{'name':'a'," NOOP ",'depends_on':['b']},\n{'name':'b'," NOOP ",'depends_on':['a']},\n"
          "{'name':'c'," NOOP ",'depends_on':['d']},\n{'name':'d'," NOOP ",'depends_on':['c']}]}",
          "2 steps[1].depends_on[0]\n4 steps[3].depends_on[0]\n" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char found[FOUND_MAX];
        lint(rows[i].json, found);
        if (strcmp(found, rows[i].found) != 0)
            fail_msg("%s\nhas\n%sinstead of\n%s", rows[i].json, found, rows[i].found);
    }
}

static void many_errors_end(void **state)
{
    (void)state;
    struct buf text;
    char found[FOUND_MAX];
    buf_init(&text, TEXT_MAX);
    buf_text(&text, "{'steps':[");
    for (int i = 0; i < 200; i++)
        buf_printf(&text, "%s{'name':'s%d','depends_on':['nowhere%d'],'queue':''," NOOP "}\n", i ? "," : "", i, i);
    buf_text(&text, "]}");
    lint(buf_cstr(&text), found);
    size_t n = 0;
    for (const char *c = found; *c; c++)
        n += *c == '\n';
    assert_int_equal(n, LINT_ERRORS_MAX);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_found_together_and_by_line),
        cmocka_unit_test(many_errors_end),
    };
    return cmocka_run_group_tests_name("workflow_lint", tests, NULL, NULL);
}
