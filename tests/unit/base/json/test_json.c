#include "check.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "base/prng.h"

static void valid_texts_of_every_type_parse(void **state)
{
    (void)state;
    static const char *const rows[] = { "{}",     "[]",   " \t\r\n{ }\n", "\"text\"",     "0",
                                        "-1.5e3", "true", "null",         "[\"\\u0000\"]" };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct json_doc d;
        struct error e;
        assert_ok(json_parse(str_from(rows[i]), &d, &e), &e);
        assert_non_null(d.root);
        json_doc_release(&d);
        assert_null(d.root);
    }
}

static void broken_texts_are_refused_with_place_and_path(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { "", "", "is empty" },
        { " \n\t", "", "is empty" },
        { "{\"a\":}", "a", "is not valid JSON: unexpected token near '}' (line 1, column 6)" },
        { "{\n  \"a\": 1,\n  \"b\": tru\n}", "b", "invalid token near 'tru' (line 3, column 10)" },
        { "{\"ü\": x}", "ü", "(line 1, column 7)" },
        { "{\"retry\":{\"rules\":[1,{\"on\":[,]}]}}", "retry.rules[1].on[0]", "unexpected token near ','" },
        { "[1, 2", "[1]", "near end of file (line 1, column 5)" },
        { "{\"a\"", "", "near end of file" },
        { "{} {}", "", "end of file expected near '{' (line 1, column 4)" },
        { "[1]]", "", "end of file expected" },
        { "]", "", "unexpected token near ']' (line 1, column 1)" },
        { "{'a':1}", "", "near '''" },
        { "[\"\\ud800\"]", "[0]", "is not valid JSON" },
        { "[\"a\nb\"]", "[0]", "is not valid JSON" },
        { "{\"n\": 9223372036854775808}", "n", "has a number that is too large (line 1, column 25)" },
        { "{\"a\":[1e400]}", "a[0]", "has a number that is too large" },
        { "{\"\\u0000\": 1}", "", "NUL byte" },
        { "\xef\xbb\xbf{}", "", "is not valid JSON" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct json_doc d = { 0 };
        struct error e;
        assert_int_equal(json_parse(str_from(rows[i].text), &d, &e), ERR_INVALID);
        assert_null(d.root);
        if (strcmp(e.field, rows[i].field) != 0 || !strstr(e.text, rows[i].says))
            fail_msg("%s: '%s' '%s', not '%s' '%s'", rows[i].text, e.field, e.text, rows[i].field, rows[i].says);
    }
}

static void a_duplicate_key_is_named_with_its_path(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *place;
    } rows[] = {
        { "{\"a\":1,\"a\":2}", "a", "(line 1, column 10)" },
        { "{\"a\":1,\"\\u0061\":2}", "\\u0061", "" },
        { "{\"x\":[],\"retry\":{\"b\":{},\n\"b\" :3}}", "retry.b", "(line 2, column 3)" },
        { "{\"l\":[{\"}\":\"]{\"},{\"k\\\"\":[1],\"k\\\"\":0}]}", "l[1].k\\\"", "" },
        { "[[],[0,{\"a\":{\"a\":1},\"b\":\"a\",\"a\":1}]]", "[1][1].a", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct json_doc d;
        struct error e;
        assert_int_equal(json_parse(str_from(rows[i].text), &d, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, "is given twice");
        assert_says(&e, rows[i].place);
    }
}

static void bytes_that_stand_in_no_json_are_refused_with_their_place(void **state)
{
    (void)state;
    struct json_doc d;
    struct error e;
    assert_int_equal(json_parse(S("{\"ü\":\n \"a\xff\"}"), &d, &e), ERR_INVALID);
    assert_string_equal(e.text, "is not UTF-8 (line 2, column 4)");
    assert_int_equal(json_parse(S("[\"\xed\xa0\x80\"]"), &d, NULL), ERR_INVALID);
    assert_int_equal(json_parse(S("[1\0,2]"), &d, &e), ERR_INVALID); /* jansson accepts this */
    assert_string_equal(e.text, "holds a NUL byte (line 1, column 3)");
}

static void nesting_is_capped_before_anything_recurses(void **state)
{
    (void)state;
    enum { FAR = 200000 };
    char *text = xmalloc(FAR * 2);
    struct json_doc d;
    struct error e;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        enum err rc = json_parse((struct str){ text, 2 * (size_t)depth }, &d, &e);
        if (depth == JSON_DEPTH_MAX) {
            assert_ok(rc, &e);
            json_doc_release(&d);
        } else {
            assert_int_equal(rc, ERR_INVALID);
            assert_string_equal(e.text, "is nested more than 32 levels deep");
        }
    }
    memset(text, '[', FAR);
    assert_int_equal(json_parse((struct str){ text, FAR }, &d, &e), ERR_INVALID);
    for (size_t i = 0; i < FAR; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    assert_int_equal(json_parse((struct str){ text, FAR }, &d, &e), ERR_INVALID);
    assert_says(&e, "levels deep");
    memset(text, '[', 100); /* brackets inside a string are text */
    text[0] = text[99] = '"';
    assert_ok(json_parse((struct str){ text, 100 }, &d, &e), &e);
    json_doc_release(&d);
    free(text);
}

static void a_text_beyond_the_limit_is_not_looked_at(void **state)
{
    (void)state;
    struct json_doc d;
    struct error e;
    assert_int_equal(json_parse((struct str){ "", (size_t)JSON_TEXT_MAX + 1 }, &d, &e), ERR_LIMIT);
}

static void a_path_too_long_for_its_place_is_cut(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 16);
    buf_text(&b, "{\"");
    for (int i = 0; i < 5000; i++)
        buf_char(&b, 'k');
    buf_text(&b, "\":}");
    struct json_doc d;
    struct error e;
    assert_int_equal(json_parse(buf_str(&b), &d, &e), ERR_INVALID);
    assert_int_equal(strlen(e.field), sizeof e.field - 1);
    assert_int_equal(strspn(e.field, "k"), sizeof e.field - 1);
    buf_cut(&b, b.n - 1);
    buf_text(&b, "1}");
    assert_ok(json_parse(buf_str(&b), &d, &e), &e);
    assert_int_equal(json_read(d.root, NULL, 0, NULL, NULL, &e), ERR_INVALID);
    assert_int_equal(strspn(e.field, "k"), sizeof e.field - 1);
    assert_string_equal(e.text, "is unknown");
    json_doc_release(&d);
    buf_release(&b);
}

static void a_members_text_comes_as_it_was_written(void **state)
{
    (void)state;
    static const char text[] =
        " { \"x\" : {\"payload\": 0, \"s\": \"}\\\"{\"} ,\n\"payload\": \t[1.50, {\"a\" :\"],}\\\\\"}]\r\n, \"n\":1e2,"
        "\"k\\u0065y\": \"\\u00e9,\" , \"q\\\"\":true, \"\": null,\"last\":  -0.0 }\n";
    static const struct {
        const char *name, *value;
    } rows[] = {
        { "payload", "[1.50, {\"a\" :\"],}\\\\\"}]" },
        { "x", "{\"payload\": 0, \"s\": \"}\\\"{\"}" },
        { "n", "1e2" },
        { "key", "\"\\u00e9,\"" },
        { "q\"", "true" },
        { "", "null" },
        { "last", "-0.0" },
        { "s", NULL },
        { "k\\u0065y", NULL },
        { "a", NULL },
    };
    struct json_doc d;
    struct error e;
    assert_ok(json_parse(str_from(text), &d, &e), &e);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct str v = json_member_text(&d, rows[i].name);
        if (rows[i].value)
            assert_str(v, rows[i].value);
        else
            assert_null(v.p);
    }
    json_doc_release(&d);
}

static void what_is_no_object_has_no_members(void **state)
{
    (void)state;
    static const char *const rows[] = { "[{\"a\":1}]", "\"a\"", "{}", "{\"b\":{\"a\":1}}" };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct json_doc d;
        struct error e;
        assert_ok(json_parse(str_from(rows[i]), &d, &e), &e);
        assert_null(json_member_text(&d, "a").p);
        json_doc_release(&d);
    }
}

/* One field of each kind, nested both ways. */
struct rule {
    struct json_array on; /* of struct str */
    int64_t after_ms;
};

struct sample {
    bool yes, saw_count, saw_name;
    int64_t count, any, at_ms, wait_ms, least, every_ms;
    double ratio, free_ratio;
    struct str name, note, title;
    int color;
    struct {
        struct json_array rules; /* of struct rule */
        int64_t max;
    } retry;
    struct json_array numbers; /* of int64_t */
    json_t *payload, *extra;
};

static const char *const colors[] = { "RED", "", "BLUE", NULL };
static const struct json_field on_field = { .kind = JSON_KIND_STR, .min = 1, .max = 8 };
static const struct json_field rule_fields[] = {
    { .name = "on",
      .kind = JSON_KIND_ARRAY,
      .offset = offsetof(struct rule, on),
      .fields = &on_field,
      .count = 1,
      .size = sizeof(struct str),
      .required = true },
    { .name = "after", .kind = JSON_KIND_DURATION, .offset = offsetof(struct rule, after_ms) },
};
static const struct json_field rule_field = { .kind = JSON_KIND_OBJECT, .fields = rule_fields, .count = 2 };
static const struct json_field retry_fields[] = {
    { .name = "rules",
      .kind = JSON_KIND_ARRAY,
      .offset = offsetof(struct sample, retry.rules) - offsetof(struct sample, retry),
      .fields = &rule_field,
      .count = 1,
      .size = sizeof(struct rule),
      .min = 0,
      .max = 3 },
    { .name = "max",
      .kind = JSON_KIND_I64,
      .offset = offsetof(struct sample, retry.max) - offsetof(struct sample, retry),
      .min = 1,
      .max = 10,
      .required = true },
};
static const struct json_field number_field = { .kind = JSON_KIND_I64, .nullable = true };
#define AT(member) .offset = offsetof(struct sample, member)
static const struct json_field fields[] = {
    { .name = "yes", .kind = JSON_KIND_BOOL, AT(yes) },
    { .name = "count",
      .kind = JSON_KIND_I64,
      AT(count),
      .seen_offset = offsetof(struct sample, saw_count),
      .min = 1,
      .max = 10,
      .nullable = true },
    { .name = "any", .kind = JSON_KIND_I64, AT(any) },
    { .name = "least", .kind = JSON_KIND_I64, AT(least), .min = 5, .max = INT64_MAX },
    { .name = "ratio", .kind = JSON_KIND_F64, AT(ratio), .min = 0, .max = 1 },
    { .name = "free_ratio", .kind = JSON_KIND_F64, AT(free_ratio) },
    { .name = "name",
      .kind = JSON_KIND_STR,
      AT(name),
      .seen_offset = offsetof(struct sample, saw_name),
      .min = 1,
      .max = 5 },
    { .name = "title", .kind = JSON_KIND_STR, AT(title), .min = 1, .max = 5, .characters = true },
    { .name = "every", .kind = JSON_KIND_SECONDS, AT(every_ms), .min = 100, .max = 60000 },
    { .name = "note", .kind = JSON_KIND_STR, AT(note) },
    { .name = "color", .kind = JSON_KIND_ENUM, AT(color), .names = colors },
    { .name = "at", .kind = JSON_KIND_TIME, AT(at_ms) },
    { .name = "wait", .kind = JSON_KIND_DURATION, AT(wait_ms), .min = 1000, .max = 3600000 },
    { .name = "retry", .kind = JSON_KIND_OBJECT, AT(retry), .fields = retry_fields, .count = 2 },
    { .name = "numbers",
      .kind = JSON_KIND_ARRAY,
      AT(numbers),
      .fields = &number_field,
      .count = 1,
      .size = sizeof(int64_t) },
    { .name = "payload", .kind = JSON_KIND_RAW, AT(payload) },
    { .name = "extra", .kind = JSON_KIND_RAW, AT(extra), .nullable = true },
};

static enum err read_text(const char *text, struct sample *into, struct arena *a, struct error *e)
{
    struct json_doc d;
    assert_ok(json_parse(str_from(text), &d, e), e);
    enum err rc = json_read(d.root, fields, array_count(fields), into, a, e);
    json_doc_release(&d);
    return rc;
}

static void seconds_are_rounded_to_milliseconds_and_whole_numbers_may_have_a_point(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t every_ms, count;
    } rows[] = {
        { "{\"every\":0.5}", 500, 0 },       { "{\"every\":2}", 2000, 0 },  { "{\"every\":0.1004}", 100, 0 },
        { "{\"every\":59.9996}", 60000, 0 }, { "{\"every\":0.1}", 100, 0 }, { "{\"every\":60}", 60000, 0 },
        { "{\"every\":1e1}", 10000, 0 },     { "{\"count\":5.0}", 0, 5 },   { "{\"count\":1e1}", 0, 10 },
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < array_count(rows); i++) {
        struct error e;
        struct sample s = { 0 };
        assert_ok(read_text(rows[i].text, &s, &a, &e), &e);
        assert_int_equal(s.every_ms, rows[i].every_ms);
        assert_int_equal(s.count, rows[i].count);
    }
    struct error e;
    struct sample s = { 0 };
    assert_ok(read_text("{\"title\":\"äöüß€\"}", &s, &a, &e), &e);
    assert_int_equal(s.title.n, strlen("äöüß€"));
    arena_release(&a);
}

static void every_kind_is_read_into_its_place(void **state)
{
    (void)state;
    static const char text[] =
        "{\"yes\": true, \"count\": 10, \"any\": -9223372036854775808, \"least\": 5, \"ratio\": 0.25, \"free_ratio\": "
        "-7, \"name\": \"Zür\", \"note\": \"\", \"color\": \"BLUE\", \"at\": \"2026-02-10T09:00:00+01:00\", \"wait\": "
        "\"15m\", \"retry\": {\"max\": 3, \"rules\": [{\"on\": [\"5xx\", \"429\"], \"after\": \"1s\"}, {\"on\": []}]}, "
        "\"numbers\": [1, null, 3], \"payload\": null, \"extra\": {\"free\": [true]}}";
    struct arena a;
    arena_init(&a, 1 << 16);
    struct json_doc d;
    struct error e;
    struct sample s = { 0 };
    assert_ok(json_parse(str_from(text), &d, &e), &e);
    assert_ok(json_read(d.root, fields, array_count(fields), &s, &a, &e), &e);
    assert_true(s.yes && s.saw_count && s.saw_name);
    assert_int_equal(s.count, 10);
    assert_true(s.any == INT64_MIN && s.least == 5 && s.ratio == 0.25 && s.free_ratio == -7);
    assert_str(s.name, "Zür");
    assert_int_equal(s.name.p[s.name.n], '\0');
    assert_str(s.note, "");
    assert_int_equal(s.color, 2);
    assert_int_equal(s.at_ms, 1770710400000);
    assert_int_equal(s.wait_ms, 900000);
    assert_int_equal(s.retry.max, 3);
    assert_int_equal(s.retry.rules.n, 2);
    const struct rule *rules = s.retry.rules.v;
    assert_int_equal(rules[0].on.n, 2);
    assert_str(((struct str *)rules[0].on.v)[1], "429");
    assert_int_equal(rules[0].after_ms, 1000);
    assert_int_equal(rules[1].on.n + (size_t)rules[1].after_ms, 0);
    assert_int_equal(s.numbers.n, 3);
    const int64_t *numbers = s.numbers.v;
    assert_true(numbers[0] == 1 && numbers[1] == 0 && numbers[2] == 3);
    assert_true(json_is_null(s.payload));
    assert_true(json_is_object(s.extra));
    json_doc_release(&d);
    arena_release(&a);
}

static void absent_fields_leave_defaults_and_null_counts_as_seen(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    struct error e;
    struct sample s = { .count = 7, .name = S("kept"), .color = 2 };
    assert_ok(read_text("{}", &s, &a, &e), &e);
    assert_false(s.saw_count);
    assert_int_equal(s.count, 7);
    assert_str(s.name, "kept");
    assert_int_equal(s.color, 2);
    assert_ok(read_text("{\"count\": null, \"extra\": null}", &s, &a, &e), &e);
    assert_true(s.saw_count);
    assert_int_equal(s.count, 7);
    assert_null(s.extra);
    s.yes = true;
    assert_ok(read_text("{\"yes\": false}", &s, &a, &e), &e);
    assert_false(s.yes);
    arena_release(&a);
}

static void every_refusal_names_the_path_and_the_rule(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        { "[]", "", "must be an object, not an array" },
        { "{\"cuont\":1}", "cuont", "is unknown, did you mean 'count'?" },
        { "{\"zebra\":1}", "zebra", "is unknown" },
        { "{\"retry\":{\"max\":1,\"rule\":[]}}", "retry.rule", "is unknown, did you mean 'rules'?" },
        { "{\"retry\":{}}", "retry.max", "is required" },
        { "{\"retry\":null}", "retry", "must be an object, not null" },
        { "{\"yes\":1}", "yes", "must be true or false, not a number" },
        { "{\"yes\":\"true\"}", "yes", "must be true or false, not a string" },
        { "{\"count\":\"1\"}", "count", "must be a number, not a string" },
        { "{\"count\":true}", "count", "must be a number, not a boolean" },
        { "{\"count\":false}", "count", "must be a number, not a boolean" },
        { "{\"count\":1.5}", "count", "must be a whole number" },
        { "{\"any\":1e300}", "any", "must be a whole number" },
        { "{\"every\":0.0994}", "every", "must be between 0.1 and 60, not 0.0994" },
        { "{\"every\":0.09999}", "every", "must be between 0.1 and 60, not 0.09999" },
        { "{\"every\":60.0004}", "every", "must be between 0.1 and 60, not 60.0004" },
        { "{\"every\":60.001}", "every", "must be between 0.1 and 60, not 60.001" },
        { "{\"every\":-1e300}", "every", "must be between 0.1 and 60, not -1e+300" },
        { "{\"every\":1e300}", "every", "must be between 0.1 and 60, not 1e+300" },
        { "{\"every\":\"1s\"}", "every", "must be a number, not a string" },
        { "{\"title\":\"äöüß€x\"}", "title", "must be between 1 and 5 characters long, not 6" },
        { "{\"count\":0}", "count", "must be between 1 and 10, not 0" },
        { "{\"count\":11}", "count", "must be between 1 and 10, not 11" },
        { "{\"least\":4}", "least", "must be at least 5, not 4" },
        { "{\"any\":null}", "any", "must be a number, not null" },
        { "{\"ratio\":1.5}", "ratio", "must be between 0 and 1, not 1.5" },
        { "{\"ratio\":-1}", "ratio", "must be between 0 and 1, not -1" },
        { "{\"ratio\":[]}", "ratio", "must be a number, not an array" },
        { "{\"name\":1}", "name", "must be a string, not a number" },
        { "{\"name\":\"\"}", "name", "must not be empty" },
        { "{\"name\":\"123456\"}", "name", "must be between 1 and 5 bytes long, not 6" },
        { "{\"name\":\"a\\u0000b\"}", "name", "must not contain a NUL character" },
        { "{\"color\":\"GREEN\"}", "color", "must be one of RED, BLUE, not 'GREEN'" },
        { "{\"color\":\"red\"}", "color", "must be one of RED, BLUE, not 'red'" },
        { "{\"color\":\"\"}", "color", "must be one of RED, BLUE, not ''" },
        { "{\"color\":\"RED\\u0000\"}", "color", "must be one of RED, BLUE, not 'RED?'" },
        { "{\"color\":{}}", "color", "must be a string, not an object" },
        { "{\"at\":\"2026-02-30T00:00:00Z\"}", "at", "has day 30, which does not exist in February" },
        { "{\"at\":0}", "at", "must be a string, not a number" },
        { "{\"wait\":\"1.5h\"}", "wait", "takes whole numbers only" },
        { "{\"wait\":\"2h\"}", "wait", "must be between 1s and 1h, not '2h'" },
        { "{\"wait\":\"999ms\"}", "wait", "must be between 1s and 1h, not '999ms'" },
        { "{\"wait\":60}", "wait", "must be a string, not a number" },
        { "{\"numbers\":{}}", "numbers", "must be an array, not an object" },
        { "{\"numbers\":[1,\"2\"]}", "numbers[1]", "must be a number, not a string" },
        { "{\"retry\":{\"max\":1,\"rules\":[{},{}]}}", "retry.rules[0].on", "is required" },
        { "{\"retry\":{\"max\":1,\"rules\":[{\"on\":[]},{\"on\":[]},{\"on\":[\"a\",0]}]}}", "retry.rules[2].on[1]",
          "must be a string, not a number" },
        { "{\"retry\":{\"max\":1,\"rules\":[{\"on\":[\"\"]}]}}", "retry.rules[0].on[0]", "must not be empty" },
        { "{\"retry\":{\"max\":1,\"rules\":[{\"on\":[],\"x\":1}]}}", "retry.rules[0].x", "is unknown" },
        { "{\"retry\":{\"max\":1,\"rules\":[1,1,1,1]}}", "retry.rules", "must have at most 3 elements, not 4" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct arena a;
        arena_init(&a, 1 << 16);
        struct error e;
        struct sample s = { 0 };
        assert_int_equal(read_text(rows[i].text, &s, &a, &e), ERR_INVALID);
        if (strcmp(e.field, rows[i].field) != 0 || !strstr(e.text, rows[i].says))
            fail_msg("%s: '%s' '%s', not '%s' '%s'", rows[i].text, e.field, e.text, rows[i].field, rows[i].says);
        assert_int_equal(e.code, ERR_INVALID);
        arena_release(&a);
    }
}

static void types_without_bounds_have_their_own(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_text(&b, "{\"note\":\"");
    for (int i = 0; i < 65536; i++)
        buf_char(&b, 'x');
    buf_text(&b, "\"}");
    struct arena a;
    arena_init(&a, 1 << 20);
    struct error e;
    struct sample s = { 0 };
    assert_ok(read_text(buf_cstr(&b), &s, &a, &e), &e);
    assert_int_equal(s.note.n, 65536);
    buf_cut(&b, b.n - 2);
    buf_text(&b, "x\"}");
    assert_int_equal(read_text(buf_cstr(&b), &s, &a, &e), ERR_INVALID);
    assert_says(&e, "must be at most 65536 bytes long, not 65537");
    buf_reset(&b);
    buf_text(&b, "{\"numbers\":[0");
    for (int i = 1; i < 10000; i++)
        buf_text(&b, ",0");
    buf_text(&b, "]}");
    assert_ok(read_text(buf_cstr(&b), &s, &a, &e), &e);
    assert_int_equal(s.numbers.n, 10000);
    buf_cut(&b, b.n - 2);
    buf_text(&b, ",0]}");
    assert_int_equal(read_text(buf_cstr(&b), &s, &a, &e), ERR_INVALID);
    assert_says(&e, "must have at most 10000 elements, not 10001");
    arena_release(&a);
    buf_release(&b);
}

static void an_array_that_must_not_be_empty_says_so(void **state)
{
    (void)state;
    struct json_array v;
    const struct json_field f = { .name = "v",
                                  .kind = JSON_KIND_ARRAY,
                                  .fields = &number_field,
                                  .count = 1,
                                  .size = sizeof(int64_t),
                                  .min = 1,
                                  .max = 9 };
    struct arena a;
    arena_init(&a, 4096);
    struct json_doc d;
    struct error e;
    assert_ok(json_parse(S("{\"v\":[]}"), &d, &e), &e);
    assert_int_equal(json_read(d.root, &f, 1, &v, &a, &e), ERR_INVALID);
    assert_string_equal(e.text, "must not be empty");
    json_doc_release(&d);
    struct json_field two = f;
    two.min = 2;
    assert_ok(json_parse(S("{\"v\":[1]}"), &d, &e), &e);
    assert_int_equal(json_read(d.root, &two, 1, &v, &a, &e), ERR_INVALID);
    assert_string_equal(e.text, "must have between 2 and 9 elements, not 1");
    json_doc_release(&d);
    arena_release(&a);
}

static void what_outgrows_the_arena_is_a_limit(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "{\"note\":\"0123456789012345678901234567890123456789\"}", "note" },
        { "{\"numbers\":[1,2,3,4,5,6]}", "numbers" },
        { "{\"retry\":{\"max\":1,\"rules\":[{\"on\":[\"a\"]}]}}", "retry.rules[0].on[0]" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct arena a;
        arena_init(&a, i == 2 ? 48 : 32);
        struct error e;
        struct sample s = { 0 };
        assert_int_equal(read_text(rows[i][0], &s, &a, &e), ERR_LIMIT);
        assert_int_equal(e.code, ERR_LIMIT);
        assert_string_equal(e.field, rows[i][1]);
        arena_release(&a);
    }
}

static void nobody_need_ask_for_the_sentence(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 16);
    struct json_doc d;
    struct sample s = { 0 };
    assert_int_equal(json_parse(S("{"), &d, NULL), ERR_INVALID);
    assert_int_equal(json_parse(S("{\"count\":0}"), &d, NULL), ERR_OK);
    assert_int_equal(json_read(d.root, fields, array_count(fields), &s, &a, NULL), ERR_INVALID);
    json_doc_release(&d);
    assert_int_equal(json_parse(S("{\"note\":\"longer than sixteen\"}"), &d, NULL), ERR_OK);
    assert_int_equal(json_read(d.root, fields, array_count(fields), &s, &a, NULL), ERR_LIMIT);
    json_doc_release(&d);
    arena_release(&a);
}

/* Any text made of JSON's characters is either parsed or refused with a sentence. */
static void random_texts_never_get_through_half(void **state)
{
    (void)state;
    static const char *const pieces[] = { "{",   "}",    "[", "]",  ",",  ":",    "\"a\"", "\"b\\\"\"", "1",
                                          "tru", "true", " ", "\"", "\\", "null", "-",     "\xc3\xbc",  "\n" };
    struct prng r;
    prng_init(&r, 99);
    for (int i = 0; i < 20000; i++) {
        char text[200];
        size_t n = 0;
        for (size_t count = prng_below(&r, 12); count > 0; count--) {
            const char *piece = pieces[prng_below(&r, array_count(pieces))];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        char *exact = xmalloc(n);
        memcpy(exact, text, n);
        struct json_doc d;
        struct error e = { 0 };
        if (json_parse((struct str){ exact, n }, &d, &e) == ERR_OK) {
            struct str a = json_member_text(&d, "a");
            assert_int_equal(a.p != NULL, json_object_get(d.root, "a") != NULL);
            json_doc_release(&d);
        } else if (!e.text[0]) {
            fail_msg("round %d of seed 99 has no sentence", i);
        }
        free(exact);
    }
}

static void the_parts_of_a_text_are_found_in_one_walk(void **state)
{
    (void)state;
    struct json_part parts[8];
    struct str text = S(" {\"a\" : 1.50 ,\"\\u0062\":{ \"x\":[1,\"]}\"] },\n\"c\":\"q\\\"}\",\"d\" :null,\"\":[]} ");
    assert_int_equal(json_parts(text, parts, 8), 5);
    assert_str(parts[0].key, "a");
    assert_str(parts[0].text, "1.50");
    assert_str(parts[1].key, "\\u0062");
    assert_true(json_part_is(&parts[1], "b") && !json_part_is(&parts[1], "a"));
    assert_str(parts[1].text, "{ \"x\":[1,\"]}\"] }");
    assert_str(parts[2].text, "\"q\\\"}\"");
    assert_str(parts[3].text, "null");
    assert_str(parts[4].key, "");
    assert_str(parts[4].text, "[]");
    assert_int_equal(json_parts(text, parts, 2), 2);
    assert_int_equal(json_parts(S("[ {\"a\":1} , true,-2e3,\"x\" ]"), parts, 8), 4);
    assert_str(parts[0].text, "{\"a\":1}");
    assert_str(parts[1].text, "true");
    assert_str(parts[2].text, "-2e3");
    assert_str(parts[3].text, "\"x\"");
    static const char *const none[] = { "", " ", "{}", "[ ]", "7", "\"[1]\"", "null" };
    for (size_t i = 0; i < array_count(none); i++)
        assert_int_equal(json_parts(str_from(none[i]), parts, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts_of_every_type_parse),
        cmocka_unit_test(broken_texts_are_refused_with_place_and_path),
        cmocka_unit_test(a_duplicate_key_is_named_with_its_path),
        cmocka_unit_test(bytes_that_stand_in_no_json_are_refused_with_their_place),
        cmocka_unit_test(nesting_is_capped_before_anything_recurses),
        cmocka_unit_test(a_text_beyond_the_limit_is_not_looked_at),
        cmocka_unit_test(a_path_too_long_for_its_place_is_cut),
        cmocka_unit_test(a_members_text_comes_as_it_was_written),
        cmocka_unit_test(what_is_no_object_has_no_members),
        cmocka_unit_test(seconds_are_rounded_to_milliseconds_and_whole_numbers_may_have_a_point),
        cmocka_unit_test(every_kind_is_read_into_its_place),
        cmocka_unit_test(absent_fields_leave_defaults_and_null_counts_as_seen),
        cmocka_unit_test(every_refusal_names_the_path_and_the_rule),
        cmocka_unit_test(types_without_bounds_have_their_own),
        cmocka_unit_test(an_array_that_must_not_be_empty_says_so),
        cmocka_unit_test(what_outgrows_the_arena_is_a_limit),
        cmocka_unit_test(nobody_need_ask_for_the_sentence),
        cmocka_unit_test(random_texts_never_get_through_half),
        cmocka_unit_test(the_parts_of_a_text_are_found_in_one_walk),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
