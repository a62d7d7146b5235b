#include "check.h"

#include "base/buf.h"
#include "core/flow/step_data.h"
#include "core/flow/template.h"

static const char data_text[] =
    "{\"id\": 7, \"name\": \"a b/ü\", \"dots\": \"..\", \"dot\": \".\", \"line\": \"a\\nb\", \"yes\": true, \"nothing\": null,"
    "\"rate\": 0.25, \"list\": [1, {\"$ref\": \"/input/id\"}], \"secret\": {\"$literal\": 1}, \"q\\\"k\": {\"x\\ty\": \"\\u0001\"}}";

/* A step without rest: the whole data. Of /run the data cannot be used. */
static enum err find_data(void *ctx, const struct reference *r, json_t **ret, struct error *e)
{
    struct json_doc *d = ctx;
    if (r->root == REFERENCE_RUN)
        return error_set(e, ERR_INVALID, "the output of 'a' is cut");
    *ret = r->root == REFERENCE_STEP_ERROR ? NULL : d->root;
    return ERR_OK;
}

static enum err count_reference(void *ctx, const struct reference *r, struct error *e)
{
    (void)r;
    (void)e;
    ++*(int *)ctx;
    return ERR_OK;
}

struct fixture {
    struct json_doc data;
    struct reference_data d;
    struct arena a;
    struct error e;
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){ 0 };
    arena_init(&f->a, 32 << 20);
    assert_ok(json_parse(str_from(data_text), &f->data, &f->e), &f->e);
    f->d = (struct reference_data){ &f->data, find_data };
}

static void release(struct fixture *f)
{
    json_doc_release(&f->data);
    arena_release(&f->a);
}

/* Checks and resolves; out gets the text. */
static enum err resolve(struct fixture *f, struct str template, enum template_kind kind, size_t max, struct buf *out)
{
    struct json_doc doc;
    struct jw w;
    int references = 0;
    struct reference_visitor v = { &references, count_reference };
    assert_ok(json_parse(template, &doc, &f->e), &f->e);
    buf_init(out, max);
    jw_init(&w, out);
    enum err rc = template_check(doc.root, kind, &v, &f->e);
    if (rc == ERR_OK)
        rc = template_resolve(&w, doc.root, kind, &f->d, &f->e);
    json_doc_release(&doc);
    return rc;
}

struct row {
    enum template_kind kind;
    const char *template, *result;
};

static void templates_are_resolved(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { TEMPLATE_VALUE, "{\"a\":[1,\"x\",{\"$ref\":\"/input/id\"}],\"b\":null}", "{\"a\":[1,\"x\",7],\"b\":null}" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/input/list\"}", "[1,{\"$ref\":\"/input/id\"}]" }, /* not scanned again */
        { TEMPLATE_VALUE, "{\"$ref\":\"/input/no\",\"default\":[{\"$ref\":1}]}", "[{\"$ref\":1}]" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/input/no\",\"default\":null}", "null" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/input/nothing\",\"default\":1}", "null" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/steps/a/error\",\"default\":\"fine\"}", "\"fine\"" },
        { TEMPLATE_VALUE, "{\"$literal\":{\"$ref\":\"/input/id\"}}", "{\"$ref\":\"/input/id\"}" },
        { TEMPLATE_VALUE, "{\"$literal\":{\"$in\":[1,2]}}", "{\"$in\":[1,2]}" },
        { TEMPLATE_VALUE, "{\"in$\":\"$in\"}", "{\"in$\":\"$in\"}" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/input/q\\\"k\"}", "{\"x\\ty\":\"\\u0001\"}" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/input/rate\"}", "0.25" },
        { TEMPLATE_VALUE, "{\"$join\":[\"o-\",{\"$ref\":\"/input/id\"},\"-\",true,1.5,{\"$ref\":\"/input/yes\"}]}",
          "\"o-7-true1.5true\"" },
        { TEMPLATE_TEXT, "\"plain\"", "\"plain\"" },
        { TEMPLATE_TEXT, "{\"$ref\":\"/input/id\"}", "\"7\"" },
        { TEMPLATE_TEXT, "{\"$join\":[\"Bearer \",{\"$ref\":\"/input/name\"}]}", "\"Bearer a b/ü\"" },
        { TEMPLATE_URL, "\"https://h/x\"", "\"https://h/x\"" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h/x/\",{\"$ref\":\"/input/name\"},\"?q=\",{\"$ref\":\"/input/id\"}]}",
          "\"https://h/x/a%20b%2F%C3%BC?q=7\"" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h?q=\",{\"$ref\":\"/input/dots\"}]}", "\"https://h?q=..\"" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h/a\",{\"$ref\":\"/input/dots\"}]}", "\"https://h/a..\"" },
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf out;
        assert_ok(resolve(&f, str_from(rows[i].template), rows[i].kind, 4096, &out), &f.e);
        assert_str(buf_str(&out), rows[i].result);
        buf_release(&out);
    }
    release(&f);
}

static void a_wrong_template_or_value_is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct {
        enum template_kind kind;
        const char *template, *field, *says;
    } rows[] = {
        { TEMPLATE_VALUE, "{\"a\":{\"$ref\":\"/input\",\"x\":1}}", "a", "must have no member besides \"$ref\"" },
        { TEMPLATE_VALUE, "[{\"$ref\":5}]", "[0].$ref", "must be a text" },
        { TEMPLATE_VALUE, "[{\"$ref\":\"/inptu\"}]", "[0].$ref", "did you mean '/input'?" },
        { TEMPLATE_VALUE, "{\"$join\":[]}", "$join", "at least one" },
        { TEMPLATE_VALUE, "[{\"$reff\":\"/input\"}]", "[0].$reff", "did you mean '$ref'?" },
        { TEMPLATE_VALUE, "{\"a\":1,\"$elemMatch\":{}}", "$elemMatch", "quote the object" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/run/fialures\"}", "$ref", "did you mean '/run/failures'?" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/run/foo\"}", "$ref", "which /run does not have; it has id" },
        { TEMPLATE_VALUE, "{\"$ref\":\"/run/id/x\"}", "$ref", "goes on behind '/run/id'" },
        { TEMPLATE_VALUE, "{\"$join\":[\"a\"],\"x\":1}", "", "besides \"$join\"" },
        { TEMPLATE_VALUE, "{\"$join\":[\"a\",{\"$join\":[\"b\"]}]}", "$join[1]", "must be a text, a number" },
        { TEMPLATE_VALUE, "{\"$join\":[\"a\",{\"$ref\":\"x\"}]}", "$join[1].$ref", "must begin with '/'" },
        { TEMPLATE_VALUE, "{\"$literal\":1,\"x\":2}", "", "besides \"$literal\"" },
        { TEMPLATE_VALUE, "{\"a\":[{\"$ref\":\"/input/no\"}]}", "a[0].$ref",
          "there is no value at '/input/no', and no default" },
        { TEMPLATE_VALUE, "{\"a\":{\"$ref\":\"/run/id\"}}", "a.$ref", "the output of 'a' is cut" },
        { TEMPLATE_VALUE, "{\"$join\":[\"a\",{\"$ref\":\"/input/list\"}]}", "$join[1]", "yields neither a text" },
        { TEMPLATE_VALUE, "{\"$join\":[{\"$ref\":\"/input/no\"}]}", "$join[0].$ref", "there is no value" },
        { TEMPLATE_TEXT, "5", "", "must be a text" },
        { TEMPLATE_TEXT, "{\"$literal\":\"x\"}", "", "must be a text" },
        { TEMPLATE_TEXT, "{\"$ref\":\"/input/line\"}", "", "yields a control character (at position 2)" },
        { TEMPLATE_TEXT, "{\"$join\":[\"a\",{\"$ref\":\"/input/line\"}]}", "", "control character (at position 3)" },
        { TEMPLATE_TEXT, "{\"$join\":[{\"$ref\":\"/input/nothing\"}]}", "$join[0]", "yields neither" },
        { TEMPLATE_TEXT, "{\"$ref\":\"/input/no\"}", "$ref", "there is no value" },
        { TEMPLATE_TEXT, "{\"$ref\":\"/input/list\"}", "", "yields neither" },
        { TEMPLATE_URL, "{\"$ref\":\"/input/name\"}", "", "data cannot choose the host" },
        { TEMPLATE_URL, "{\"$join\":[{\"$ref\":\"/input/name\"}]}", "$join[0]", "reaches beyond the host" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h\",{\"$ref\":\"/input/name\"}]}", "$join[0]",
          "reaches beyond the host" },
        { TEMPLATE_URL, "{\"$join\":[\"https://\",\"h/\"]}", "$join[0]", "reaches beyond the host" },
        { TEMPLATE_URL, "{\"$join\":[\"h/x\",\"y\"]}", "$join[0]", "reaches beyond the host" },
        { TEMPLATE_URL, "{\"$join\":5}", "$join", "must be an array" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h/x/\",{\"$ref\":\"/input/dots\"},\"/y\"]}", "$join", "a segment" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h/x/%2E\",{\"$ref\":\"/input/dot\"}]}", "$join", "a segment" },
        { TEMPLATE_URL, "{\"$join\":[\"https://h/\",{\"$ref\":\"/input/no\"}]}", "$join[1].$ref", "there is no value" },
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf out;
        assert_int_equal(resolve(&f, str_from(rows[i].template), rows[i].kind, 4096, &out), ERR_INVALID);
        assert_string_equal(f.e.field, rows[i].field);
        assert_says(&f.e, rows[i].says);
        buf_release(&out);
    }
    release(&f);
}

static void a_result_is_limited_in_size_and_depth(void **state)
{
    (void)state;
    struct fixture f;
    struct buf out, deep;
    setup(&f);
    assert_int_equal(resolve(&f, S("[{\"$ref\":\"/input\"}]"), TEMPLATE_VALUE, 40, &out), ERR_LIMIT);
    assert_says(&f.e, "is longer than 40 bytes with its data");
    buf_release(&out);
    buf_init(&deep, 4096);
    for (int i = 0; i < JSON_DEPTH_MAX - 1; i++)
        buf_char(&deep, '[');
    buf_text(&deep, "{\"$ref\":\"/input/list\"}");
    for (int i = 0; i < JSON_DEPTH_MAX - 1; i++)
        buf_char(&deep, ']');
    assert_int_equal(resolve(&f, buf_str(&deep), TEMPLATE_VALUE, 4096, &out), ERR_LIMIT);
    assert_says(&f.e, "is nested more than 32 levels deep with its data");
    buf_release(&out);
    buf_release(&deep);
    release(&f);
}

/* ---- the data of a step ---- */

static struct dag *read_step(const char *members)
{
    struct buf b;
    struct dag *d = NULL;
    struct error e;
    buf_init(&b, 1 << 16);
    buf_printf(&b, "{\"steps\":[{\"name\":\"a\",%s}],\"result\":{\"r\":{\"$ref\":\"/steps/a/output/id\"}}}", members);
    assert_ok(dag_read(buf_str(&b), &d, &e), &e);
    buf_release(&b);
    return d;
}

static void a_target_is_resolved_where_references_may_stand(void **state)
{
    (void)state;
    struct fixture f;
    struct step_data s;
    struct step_target t;
    setup(&f);
    struct dag *d = read_step(
        "\"target_config\":{\"method\":\"PUT\",\"url\":{\"$join\":[\"https://h/\",{\"$ref\":\"/input/id\"}]},\"timeout_ms\":5,"
        "\"headers\":{\"X-Id\":{\"$ref\":\"/input/id\"},\"Y\":\"z\"},\"body\":{\"n\":{\"$ref\":\"/input/name\"}},\"other\":{\"$ref\":1}},"
        "\"payload\":[{\"$ref\":\"/input/yes\"}],"
        "\"compensate\":{\"target_config\":{\"body\":{\"$ref\":\"/output/id\"}},\"payload\":{\"$ref\":\"/input/no\"}}");
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_ok(step_data_target(&s, STEP_ITSELF, &f.d, &f.a, &t, &f.e), &f.e);
    assert_str(t.config,
               "{\"method\":\"PUT\",\"url\":\"https://h/7\",\"timeout_ms\":5,\"headers\":{\"X-Id\":\"7\",\"Y\":\"z\"},"
               "\"body\":{\"n\":\"a b/ü\"},\"other\":{\"$ref\":1}}");
    assert_str(t.payload, "[true]");
    assert_int_equal(step_data_target(&s, STEP_COMPENSATION, &f.d, &f.a, &t, &f.e), ERR_INVALID);
    assert_string_equal(f.e.field, "compensate.payload.$ref");
    assert_int_equal(step_data_target(&s, STEP_COMPENSATION, &f.d, &f.a, &t, NULL), ERR_INVALID);
    step_data_release(&s);
    dag_free(d);

    d = read_step("\"target_config\":{\"headers\":{\"X\":{\"$ref\":\"/input/line\"}}}");
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_int_equal(step_data_target(&s, STEP_ITSELF, &f.d, &f.a, &t, &f.e), ERR_INVALID);
    assert_string_equal(f.e.field, "target_config.headers.X");
    step_data_release(&s);
    dag_free(d);

    d = read_step("\"target_type\":\"NOOP\"");
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_ok(step_data_target(&s, STEP_ITSELF, &f.d, &f.a, &t, &f.e), &f.e);
    assert_int_equal(t.config.n + t.payload.n, 0);
    struct str result;
    assert_ok(dag_result(d, &f.d, &f.a, &result, &f.e), &f.e);
    assert_str(result, "{\"r\":7}");
    step_data_release(&s);
    dag_free(d);
    release(&f);
}

static void a_condition_decides_whether_a_step_runs(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        bool runs;
    } rows[] = {
        { "\"may_fail\":true", true },
        { "\"when\":null", true },
        { "\"when\":{\"ref\":\"/input/id\",\"op\":\"gt\",\"value\":6}", true },
        { "\"when\":{\"ref\":\"/input/id\",\"op\":\"gt\",\"value\":7}", false },
    };
    struct fixture f;
    struct step_data s;
    bool runs = false;
    setup(&f);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct dag *d = read_step(rows[i].members);
        assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
        assert_ok(step_data_when(&s, &f.d, &runs, &f.e), &f.e);
        assert_int_equal(runs, rows[i].runs);
        step_data_release(&s);
        dag_free(d);
    }
    struct dag *d = read_step("\"when\":{\"ref\":\"/run/id\",\"op\":\"exists\"}");
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_int_equal(step_data_when(&s, &f.d, &runs, &f.e), ERR_INVALID);
    assert_string_equal(f.e.field, "when");
    step_data_release(&s);
    dag_free(d);
    release(&f);
}

static void a_map_has_the_items_of_an_array(void **state)
{
    (void)state;
    static const struct {
        const char *over, *text, *says;
        size_t count;
    } rows[] = {
        { "{\"$ref\":\"/input/list\"}", "[1,{\"$ref\":\"/input/id\"}]", NULL, 2 },
        { "[]", "[]", NULL, 0 },
        { "[[1],{\"$ref\":\"/input/id\"}]", "[[1],7]", NULL, 2 },
        { "{\"$ref\":\"/input/id\"}", NULL, "must be an array", 0 },
        { "{\"$ref\":\"/input/no\"}", NULL, "there is no value", 0 },
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < array_count(rows); i++) {
        char members[256];
        struct step_data s;
        struct str items;
        size_t count;
        snprintf(members, sizeof members, "\"map\":{\"over\":%s}", rows[i].over);
        struct dag *d = read_step(members);
        assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
        if (rows[i].text) {
            assert_ok(step_data_items(&s, &f.d, &f.a, &items, &count, &f.e), &f.e);
            assert_str(items, rows[i].text);
            assert_int_equal(count, rows[i].count);
        } else {
            assert_int_equal(step_data_items(&s, &f.d, &f.a, &items, &count, &f.e), ERR_INVALID);
            assert_true(strncmp(f.e.field, "map.over", 8) == 0);
            assert_says(&f.e, rows[i].says);
        }
        step_data_release(&s);
        dag_free(d);
    }
    release(&f);
}

static void items_and_texts_beyond_the_limits_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct buf b;
    struct step_data s;
    struct str items;
    struct step_target t;
    size_t count;
    setup(&f);
    buf_init(&b, 8 << 20);
    buf_text(&b, "{\"many\":[0");
    for (int i = 0; i < DAG_ITEMS_MAX; i++)
        buf_text(&b, ",1");
    buf_text(&b, "]}");
    json_doc_release(&f.data);
    assert_ok(json_parse(buf_str(&b), &f.data, &f.e), &f.e);
    buf_reset(&b);
    buf_text(&b, "{\"steps\":[{\"name\":\"a\",\"map\":{\"over\":{\"$ref\":\"/input/many\"}},\"payload\":\"");
    while (b.n < STEP_RESOLVED_MAX + 65536)
        buf_text(&b, "xxxxxxxxxxxxxxxx");
    buf_text(&b, "\"}]}");
    struct dag *d = NULL;
    assert_ok(dag_read(buf_str(&b), &d, &f.e), &f.e);
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_int_equal(step_data_items(&s, &f.d, &f.a, &items, &count, &f.e), ERR_INVALID);
    assert_says(&f.e, "has 10001 items; a map has at most 10000");
    assert_int_equal(step_data_target(&s, STEP_ITSELF, &f.d, &f.a, &t, &f.e), ERR_LIMIT);
    assert_string_equal(f.e.field, "payload");
    struct str result;
    assert_ok(dag_result(d, &f.d, &f.a, &result, &f.e), &f.e);
    assert_str(result, "null");
    step_data_release(&s);
    dag_free(d);
    buf_release(&b);
    release(&f);
}

static void an_await_may_have_a_value_for_its_timeout(void **state)
{
    (void)state;
    struct fixture f;
    struct step_data s;
    setup(&f);
    struct dag *d = read_step("\"await\":{\"signal\":\"s\",\"timeout\":\"1h\",\"on_timeout\":{\"late\":true}}");
    assert_true(d->steps[0].await.has_on_timeout);
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_str(step_data_on_timeout(&s, &f.a), "{\"late\":true}");
    step_data_release(&s);
    dag_free(d);
    d = read_step("\"await\":{\"signal\":\"s\"}");
    assert_ok(step_data_read(&d->steps[0], &s, &f.e), &f.e);
    assert_int_equal(step_data_on_timeout(&s, &f.a).n, 0);
    step_data_release(&s);
    dag_free(d);
    release(&f);
}

static void a_result_that_cannot_be_resolved_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    struct str result;
    struct dag *d = NULL;
    setup(&f);
    assert_ok(dag_read(S("{\"steps\":[{\"name\":\"a\"}],\"result\":[{\"$ref\":\"/steps/a/error\"}]}"), &d, &f.e), &f.e);
    assert_int_equal(dag_result(d, &f.d, &f.a, &result, &f.e), ERR_INVALID);
    assert_string_equal(f.e.field, "result[0].$ref");
    dag_free(d);
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_resolved),
        cmocka_unit_test(a_wrong_template_or_value_is_refused_at_its_place),
        cmocka_unit_test(a_result_is_limited_in_size_and_depth),
        cmocka_unit_test(a_target_is_resolved_where_references_may_stand),
        cmocka_unit_test(a_condition_decides_whether_a_step_runs),
        cmocka_unit_test(a_map_has_the_items_of_an_array),
        cmocka_unit_test(items_and_texts_beyond_the_limits_are_refused),
        cmocka_unit_test(an_await_may_have_a_value_for_its_timeout),
        cmocka_unit_test(a_result_that_cannot_be_resolved_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
