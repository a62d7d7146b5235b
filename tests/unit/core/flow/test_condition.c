#include "check.h"
#include "seed.h"

#include "base/buf.h"
#include "core/flow/condition.h"

static const char input[] =
    "{\"n\": 5, \"real\": 5.0, \"half\": 0.5, \"big\": 9007199254740993, \"huge\": 1e300, \"s\": \"eu-west\","
    "\"t\": true, \"f\": false, \"null\": null, \"list\": [1, {\"a\": 2.0}], \"object\": {\"x\": 1, \"y\": [\"z\"]},"
    "\"max\": 9223372036854775807, \"min\": -9223372036854775808}";

static enum err find_input(void *ctx, const struct reference *r, json_t **ret, struct error *e)
{
    const struct json_doc *d = ctx;
    if (r->root == REFERENCE_RUN)
        return error_set(e, ERR_INVALID, "the output is too large");
    *ret = r->root == REFERENCE_INPUT ? d->root : NULL;
    return ERR_OK;
}

static enum err eval(const char *text, bool *ret, struct error *e)
{
    struct json_doc data, doc;
    struct arena a;
    const struct condition *c;
    arena_init(&a, 1 << 20);
    assert_ok(json_parse(str_from(input), &data, e), e);
    assert_ok(json_parse(str_from(text), &doc, e), e);
    struct reference_data d = { &data, find_input };
    enum err rc = condition_read(doc.root, &a, &c, e);
    if (rc == ERR_OK)
        rc = condition_holds(c, &d, ret, e);
    json_doc_release(&doc);
    json_doc_release(&data);
    arena_release(&a);
    return rc;
}

static bool holds(const char *text)
{
    struct error e;
    bool ret = false;
    assert_ok(eval(text, &ret, &e), &e);
    return ret;
}

/* "n gt 4": true or false */
static void values_are_compared_without_conversion(void **state)
{
    (void)state;
    static const struct {
        const char *name, *op, *value;
        bool holds;
    } rows[] = {
        { "n", "eq", "5", true },
        { "n", "eq", "5.0", true },
        { "real", "eq", "5", true },
        { "n", "eq", "\"5\"", false },
        { "n", "ne", "\"5\"", true },
        { "n", "ne", "5.0", false },
        { "t", "eq", "true", true },
        { "t", "eq", "1", false },
        { "f", "eq", "null", false },
        { "null", "eq", "null", true },
        { "s", "ne", "null", true },
        { "null", "ne", "null", false },
        { "n", "gt", "4", true },
        { "n", "gt", "5", false },
        { "n", "ge", "5", true },
        { "n", "lt", "5.5", true },
        { "n", "le", "4.9", false },
        { "half", "lt", "1", true },
        { "half", "gt", "0", true },
        { "s", "gt", "1", false },
        { "s", "lt", "1", false },
        { "s", "lt", "\"eu-x\"", true },
        { "s", "ge", "\"eu-west\"", true },
        { "t", "gt", "0", false },
        { "big", "gt", "9007199254740992.0", true },
        { "big", "eq", "9007199254740992.0", false },
        { "huge", "gt", "9223372036854775807", true },
        { "max", "lt", "1e300", true },
        { "min", "gt", "-1e300", true },
        { "max", "lt", "9223372036854775808.0", true },
        { "min", "eq", "-9223372036854775808.0", true },
        { "huge", "eq", "1e300", true },
        { "half", "eq", "0.5", true },
        { "half", "lt", "0.25", false },
        { "n", "in", "[1, 5.0]", true },
        { "n", "in", "[\"5\"]", false },
        { "n", "in", "[]", false },
        { "s", "prefix", "\"eu-\"", true },
        { "s", "prefix", "\"us\"", false },
        { "n", "prefix", "\"5\"", false },
        { "list", "eq", "[1.0, {\"a\": 2}]", true },
        { "list", "eq", "[1]", false },
        { "list", "ne", "[1, {\"a\": 3}]", true },
        { "object", "eq", "{\"y\": [\"z\"], \"x\": 1}", true },
        { "object", "eq", "{\"y\": [\"z\"]}", false },
        { "object", "eq", "{\"y\": [\"z\"], \"z\": 1}", false },
        { "object", "eq", "[]", false },
        { "null", "exists", "true", true },
        { "no", "exists", "true", false },
        { "no", "exists", "false", true },
        { "n", "exists", "false", false },
        { "no", "eq", "null", false },
        { "no", "ne", "1", false },
        { "no", "lt", "1", false },
        { "no", "in", "[null]", false },
        { "no", "prefix", "\"\"", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"ref\": \"/input/%s\", \"op\": \"%s\", \"value\": %s}", rows[i].name, rows[i].op,
                 rows[i].value);
        if (holds(text) != rows[i].holds)
            fail_msg("%s must be %s", text, rows[i].holds ? "true" : "false");
    }
    assert_true(holds("{\"ref\": \"/input/n\", \"op\": \"exists\"}"));
    assert_false(holds("{\"ref\": \"/steps/a/output\", \"op\": \"exists\"}"));
}

#define T   "{\"ref\":\"/input\",\"op\":\"exists\"}"
#define F   "{\"ref\":\"/item\",\"op\":\"exists\"}"
#define BAD "{\"ref\":\"/run\",\"op\":\"exists\"}" /* its data cannot be read */

static void conditions_are_combined(void **state)
{
    (void)state;
    struct error e;
    bool ret = false;
    assert_true(holds("{\"all\":[" T "," T "]}") && !holds("{\"all\":[" T "," F "]}"));
    assert_true(holds("{\"any\":[" F "," T "]}") && !holds("{\"any\":[" F "," F "]}"));
    assert_true(holds("{\"not\":" F "}") && !holds("{\"not\":" T "}"));
    assert_true(holds("{\"all\":[{\"not\":" F "},{\"any\":[" F ",{\"all\":[" T "]}]}]}"));
    assert_true(holds("{\"any\":[" T "," BAD "]}") && !holds("{\"all\":[" F "," BAD "]}")); /* certain before */
    assert_int_equal(eval("{\"all\":[" T "," BAD "]}", &ret, &e), ERR_INVALID);
    assert_says(&e, "the output is too large");
    assert_int_equal(eval("{\"not\":" BAD "}", &ret, &e), ERR_INVALID);
}

static void a_wrong_condition_is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { "5", "", "must be an object" },
        { "{}", "", "must be {" },
        { "{\"all\":[" T "],\"not\":" T "}", "", "must be {" },
        { "{\"ref\":\"/input\",\"op\":\"eq\",\"value\":1,\"all\":[" T "]}", "", "must be {" },
        { "{\"ref\":\"/input\"}", "op", "is required" },
        { "{\"op\":\"exists\"}", "ref", "is required" },
        { "{\"value\":1}", "ref", "is required" },
        { "{\"ref\":\"/inputt\",\"op\":\"exists\"}", "ref", "did you mean '/input'?" },
        { "{\"ref\":\"/input\",\"op\":\"like\"}", "op", "must be one of eq, ne" },
        { "{\"ref\":\"/input\",\"op\":\"eq\"}", "value", "is required with 'eq'" },
        { "{\"ref\":\"/input\",\"op\":\"ne\"}", "value", "is required with 'ne'" },
        { "{\"ref\":\"/input\",\"op\":\"gt\"}", "value", "must be a number or a text with 'gt'" },
        { "{\"ref\":\"/input\",\"op\":\"le\",\"value\":true}", "value", "must be a number or a text with 'le'" },
        { "{\"ref\":\"/input\",\"op\":\"in\",\"value\":1}", "value", "must be an array with 'in'" },
        { "{\"ref\":\"/input\",\"op\":\"prefix\",\"value\":1}", "value", "must be a text with 'prefix'" },
        { "{\"ref\":\"/input\",\"op\":\"exists\",\"value\":1}", "value", "must be true or false" },
        { "{\"all\":[]}", "all", "at least one condition" },
        { "{\"any\":5}", "any", "at least one condition" },
        { "{\"not\":5}", "not", "must be an object" },
        { "{\"all\":[" T ",{\"any\":[" T ",{\"not\":{\"ref\":\"x\",\"op\":\"exists\"}}]}]}", "all[1].any[1].not.ref",
          "must begin with '/'" },
        { "{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":" T "}}}}}}}}",
          "not.not.not.not.not.not.not.not", "nested more than 8 levels deep" },
    };
    bool ret;
    struct error e;
    for (size_t i = 0; i < array_count(rows); i++) {
        assert_int_equal(eval(rows[i].text, &ret, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
    }
    assert_true(holds("{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":{\"not\":" F "}}}}}}}"));
}

static void write_many(struct buf *b, int lists, int each)
{
    buf_reset(b);
    buf_text(b, "{\"all\":[");
    for (int i = 0; i < lists; i++) {
        buf_printf(b, "%s{\"any\":[", i ? "," : "");
        for (int k = 0; k < each; k++)
            buf_printf(b, "%s" T, k ? "," : "");
        buf_text(b, "]}");
    }
    buf_text(b, "]}");
}

static void operators_and_memory_are_limited(void **state)
{
    (void)state;
    struct buf b;
    struct error e;
    struct json_doc doc;
    struct arena a;
    const struct condition *c = NULL;
    bool ret;
    buf_init(&b, 1 << 20);
    write_many(&b, 7, 8); /* 1 + 7 + 56 = 64 */
    assert_true(holds(buf_cstr(&b)));
    write_many(&b, 8, 8);
    assert_int_equal(eval(buf_cstr(&b), &ret, &e), ERR_INVALID);
    assert_string_equal(e.field, "all[7]");
    assert_says(&e, "a condition has at most 64");
    write_many(&b, 65, 1);
    assert_int_equal(eval(buf_cstr(&b), &ret, &e), ERR_INVALID);
    assert_says(&e, "must have at most 64 conditions, not 65");
    assert_ok(json_parse(S("{\"all\":[{\"not\":" T "}]}"), &doc, &e), &e);
    for (size_t max = 1; max < 300; max += 16) {
        arena_init(&a, max);
        assert_int_equal(condition_read(doc.root, &a, &c, &e), ERR_LIMIT);
        assert_int_equal(condition_read(doc.root, &a, &c, NULL), ERR_LIMIT);
        arena_release(&a);
    }
    json_doc_release(&doc);
    buf_release(&b);
}

/* ---- references ---- */

static enum err count_references(void *ctx, const struct reference *r, struct error *e)
{
    int *left = ctx;
    return --*left < 0 ? error_field(e, "", "'" STR_FMT "' is too much", STR_ARG(r->text)) : ERR_OK;
}

static void references_are_visited_with_their_path(void **state)
{
    (void)state;
    struct json_doc doc;
    struct arena a;
    struct error e;
    const struct condition *c;
    int left = 3;
    struct reference_visitor v = { &left, count_references };
    arena_init(&a, 1 << 20);
    assert_ok(json_parse(S("{\"any\":[" T ",{\"not\":{\"all\":[" T "," F "]}}]}"), &doc, &e), &e);
    assert_ok(condition_read(doc.root, &a, &c, &e), &e);
    assert_ok(condition_references(c, &v, &e), &e);
    assert_int_equal(left, 0);
    left = 2;
    assert_int_equal(condition_references(c, &v, &e), ERR_INVALID);
    assert_string_equal(e.field, "any[1].not.all[1].ref");
    left = 0;
    assert_int_equal(condition_references(c, &v, NULL), ERR_INVALID);
    json_doc_release(&doc);
    arena_release(&a);
}

/* ---- random ---- */

static void random_value(struct prng *r, struct buf *b, int depth)
{
    static const char *const words[] = { "null",         "true",       "1",      "1.5",        "\"a\"",
                                         "\"/input/n\"", "\"/x\"",     "\"eq\"", "\"exists\"", "\"lt\"",
                                         "\"in\"",       "\"prefix\"", "[]",     "{}" };
    static const char *const keys[] = { "ref", "op", "value", "all", "any", "not" };
    uint64_t kind = depth > 9 ? 0 : prng_below(r, 3);
    if (kind == 0) {
        buf_text(b, words[prng_below(r, array_count(words))]);
        return;
    }
    if (kind == 2 && prng_below(r, 2)) {
        static const char *const ops[] = { "eq", "ne", "lt", "le", "in", "prefix", "exists", "?" };
        buf_printf(b, "{\"ref\":\"/input/n\",\"op\":\"%s\",\"value\":", ops[prng_below(r, array_count(ops))]);
        random_value(r, b, depth + 1);
        buf_text(b, "}");
        return;
    }
    uint64_t first = prng_below(r, array_count(keys)), n = 1 + prng_below(r, 3);
    buf_char(b, kind == 1 ? '[' : '{');
    for (uint64_t i = 0; i < n; i++) {
        if (kind == 2)
            buf_printf(b, "%s\"%s\":", i ? "," : "", keys[(first + i) % array_count(keys)]);
        else
            buf_text(b, i ? "," : "");
        random_value(r, b, depth + 1);
    }
    buf_char(b, kind == 1 ? ']' : '}');
}

static bool random_condition(struct prng *r, struct buf *b, int depth)
{
    uint64_t kind = depth >= CONDITION_DEPTH_MAX || b->n > 900 ? 3 : prng_below(r, 4);
    if (kind == 3) {
        bool yes = prng_below(r, 2);
        buf_text(b, yes ? T : F);
        return yes;
    }
    if (kind == 2) {
        buf_text(b, "{\"not\":");
        bool inner = random_condition(r, b, depth + 1);
        buf_text(b, "}");
        return !inner;
    }
    bool all = true, any = false;
    buf_printf(b, "{\"%s\":[", kind ? "all" : "any");
    for (uint64_t i = 0, n = 1 + prng_below(r, 3); i < n; i++) {
        buf_text(b, i ? "," : "");
        bool inner = random_condition(r, b, depth + 1);
        all &= inner;
        any |= inner;
    }
    buf_text(b, "]}");
    return kind ? all : any;
}

static void random_conditions_hold_as_they_were_built(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int round = 0; round < 2000; round++) {
        buf_reset(&b);
        bool expected = random_condition(&r, &b, 1), ret = !expected;
        struct error e;
        if (eval(buf_cstr(&b), &ret, &e) == ERR_OK)
            assert_int_equal(ret, expected);
        else
            assert_says(&e, "at most 64");
    }
    buf_release(&b);
}

static void random_values_are_read_or_refused(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    struct buf b;
    int read = 0;
    buf_init(&b, 1 << 20);
    for (int round = 0; round < 5000; round++) {
        struct error e = { 0 };
        bool ret;
        buf_reset(&b);
        random_value(&r, &b, 0);
        if (eval(buf_cstr(&b), &ret, &e) == ERR_OK)
            read++;
        else
            assert_true(e.text[0] != '\0');
    }
    assert_true(read > 100);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_compared_without_conversion),
        cmocka_unit_test(conditions_are_combined),
        cmocka_unit_test(a_wrong_condition_is_refused_at_its_place),
        cmocka_unit_test(operators_and_memory_are_limited),
        cmocka_unit_test(references_are_visited_with_their_path),
        cmocka_unit_test(random_conditions_hold_as_they_were_built),
        cmocka_unit_test(random_values_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
