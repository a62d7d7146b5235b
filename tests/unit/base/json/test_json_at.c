#include "base/json/json.h"

#include "base/buf.h"
#include "check.h"

static struct json_doc parsed(const char *text)
{
    struct json_doc d;
    struct error e;
    assert_ok(json_parse(str_from(text), &d, &e), &e);
    return d;
}

static const char answer[] =
    "{\"a\": {\"b\": {\"c\": \"deep\"}}, \"list\": [{\"x\": 1}, {\"x\": [10, 20, [30]]}], \"n\": null, \"s\": \"\", "
    "\"i\": -5, \"r\": 1.75, \"huge\": 1e300, \"low\": -1e300, \"t\": \"2026-02-10T09:00:00+01:00\"}";

static void paths_lead_to_texts(void **state)
{
    (void)state;
    struct json_doc d = parsed(answer);
    assert_str(json_text_at(d.root, "a.b.c"), "deep");
    assert_str(json_text_at(d.root, "s"), "");
    assert_non_null(json_text_at(d.root, "s").p);
    static const char *const nowhere[] = { "a", "a.b.x", "a.b.c.d", "x", "i", "n", "list", "a[0]", "s.x" };
    for (size_t i = 0; i < array_count(nowhere); i++)
        assert_null(json_text_at(d.root, nowhere[i]).p);
    assert_null(json_text_at(NULL, "a").p);
    json_doc_release(&d);
}

static void paths_lead_to_numbers(void **state)
{
    (void)state;
    struct json_doc d = parsed(answer);
    static const struct {
        const char *path;
        int64_t number;
    } rows[] = {
        { "i", -5 },
        { "r", 1 },
        { "list[0].x", 1 },
        { "list[1].x[1]", 20 },
        { "list[1].x[2][0]", 30 },
        { "huge", 77 },
        { "low", 77 },
        { "s", 77 },
        { "list[2].x", 77 },
        { "list[-1].x", 77 },
        { "list[].x", 77 },
        { "list[x].x", 77 },
        { "list[0]x", 77 },
        { "list[99999999999].x", 77 },
        { "i[0]", 77 },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        assert_int_equal(json_i64_at(d.root, rows[i].path, 77), rows[i].number);
    assert_int_equal(json_i64_at(json_at(d.root, "list"), "[0].x", 77), 1);
    assert_ptr_equal(json_at(d.root, ""), d.root);
    char name[200];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_null(json_at(d.root, name));
    json_doc_release(&d);
}

static void paths_lead_to_times_and_counts(void **state)
{
    (void)state;
    struct json_doc d = parsed(answer);
    int64_t ms = 1;
    assert_true(json_time_at(d.root, "t", &ms));
    assert_int_equal(ms, 1770710400000);
    assert_false(json_time_at(d.root, "s", &ms));
    assert_false(json_time_at(d.root, "i", &ms));
    assert_int_equal(ms, 1770710400000);
    assert_int_equal(json_count_at(d.root, "list"), 2);
    assert_int_equal(json_count_at(d.root, "list[1].x"), 3);
    assert_int_equal(json_count_at(d.root, "a"), 0);
    assert_int_equal(json_count_at(d.root, "none"), 0);
    json_doc_release(&d);
}

/* The texts that json_next returns, each in brackets, after the member's name. */
static void walk_texts(const char *text, struct buf *out)
{
    struct json_doc d = parsed(text);
    struct json_cursor c = { .text = d.text };
    struct str name, value;
    while (json_next(&c, &name, &value))
        buf_printf(out, STR_FMT "<" STR_FMT ">", STR_ARG(c.is_object ? name : S("")), STR_ARG(value));
    assert_false(json_next(&c, &name, &value)); /* and stays false at the end */
    json_doc_release(&d);
}

static void members_and_elements_come_as_they_were_written(void **state)
{
    (void)state;
    static const struct {
        const char *json, *texts;
    } rows[] = {
        { "[]", "" },
        { " [ ] ", "" },
        { "{}", "" },
        { " { } ", "" },
        { "5", "" },
        { "\"a,b\"", "" },
        { "[1]", "<1>" },
        { "[1, 2.50 ,\n[3, {\"a\": 4}], {\"b\":[5]} ] ", "<1><2.50><[3, {\"a\": 4}]><{\"b\":[5]}>" },
        { "[\"]\", \",\", \"\\\"\", null]", "<\"]\"><\",\"><\"\\\"\"><null>" },
        { "{\"a\": 1, \"b\" : {\"c\": [1, 2]}, \"d\":\"}\"}", "a<1>b<{\"c\": [1, 2]}>d<\"}\">" },
        { " {\"\": true, \"e\\\"f\":[]} ", "<true>e\\\"f<[]>" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf out;
        buf_init(&out, 1000);
        walk_texts(rows[i].json, &out);
        assert_str(buf_str(&out), rows[i].texts);
        buf_release(&out);
    }
    struct json_cursor empty = { .text = S("") };
    struct str value;
    assert_false(json_next(&empty, NULL, &value));
}

static void answers_may_be_a_little_deeper_than_requests(void **state)
{
    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_ANSWER_DEPTH_MAX + 1; depth++) {
        struct buf text;
        struct json_doc d;
        struct error e;
        buf_init(&text, 1000);
        for (int i = 0; i < 2 * depth; i++)
            buf_char(&text, i < depth ? '[' : ']');
        assert_int_equal(json_parse(buf_str(&text), &d, &e), depth == JSON_DEPTH_MAX ? ERR_OK : ERR_INVALID);
        if (depth == JSON_DEPTH_MAX)
            json_doc_release(&d);
        bool fits = depth <= JSON_ANSWER_DEPTH_MAX;
        assert_int_equal(json_parse_answer(buf_str(&text), &d, &e), fits ? ERR_OK : ERR_INVALID);
        struct json_cursor c = { .text = buf_str(&text) };
        struct str value;
        assert_true(!fits || json_next(&c, NULL, &value));
        if (fits)
            json_doc_release(&d);
        else
            assert_says(&e, "is nested more than 40 levels deep");
        buf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_lead_to_texts),
        cmocka_unit_test(paths_lead_to_numbers),
        cmocka_unit_test(paths_lead_to_times_and_counts),
        cmocka_unit_test(members_and_elements_come_as_they_were_written),
        cmocka_unit_test(answers_may_be_a_little_deeper_than_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
