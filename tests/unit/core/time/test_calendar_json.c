/* core/time/calendar_json: a business calendar as a JSON document. */
#include "core/time/calendar_json.h"

#include <stdio.h>

#include "check.h"
#include "seed.h"

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 64 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct calendar_doc must_read(struct str text)
{
    struct calendar_doc d;
    struct error e;
    assert_ok(calendar_doc_read(text, &arena, &d, &e), &e);
    return d;
}

static void write(struct buf *b, const struct calendar_doc *d)
{
    struct jw w;
    buf_init(b, 4 << 20);
    jw_init(&w, b);
    jw_object(&w);
    calendar_doc_write(&w, d);
    jw_object_end(&w);
}

static int64_t day(int year, int month, int d)
{
    return day_number((struct date){ year, month, d });
}

static void a_document_makes_a_calendar(void **state)
{
    (void)state;
    struct calendar_doc d =
        must_read(S("{\"description\": \"Germany\", \"excluded_weekdays\": [\"SAT\", \"SUN\"],"
                    " \"excluded\": [\"2026-12-25\", {\"date\": \"2026-01-01\", \"name\": \"New Year\"}],"
                    " \"included\": [\"2026-12-26\"]}"));
    struct calendar c;
    assert_true(calendar_of_doc(&d, "de", &arena, &c));
    assert_string_equal(c.name, "de");
    assert_str(d.description, "Germany");
    assert_int_equal(c.excluded_weekdays, 1 | 1 << 6);
    assert_false(calendar_is_business_day(&c, day(2026, 12, 25)));
    assert_false(calendar_is_business_day(&c, day(2026, 1, 1)));
    assert_true(calendar_is_business_day(&c, day(2026, 12, 26))); /* a Saturday, but included */
    assert_str(calendar_reason(&c, day(2026, 1, 1)), "New Year");
    assert_str(calendar_reason(&c, day(2026, 12, 25)), "");
    assert_str(calendar_reason(&c, day(2026, 12, 27)), "Sunday");
    assert_str(calendar_reason(&c, day(2026, 12, 26)), "");
    assert_false(calendar_is_business_day(&c, day(2026, 12, 27))); /* a Sunday */
    assert_true(calendar_is_business_day(&c, day(2026, 12, 28)));
}

static void nothing_said_excludes_nothing(void **state)
{
    (void)state;
    static const char *const docs[] = {
        "{}", "{\"description\": null, \"excluded_weekdays\": null, \"excluded\": null, \"included\": []}"
    };
    for (size_t i = 0; i < array_count(docs); i++) {
        struct calendar_doc d = must_read(str_from(docs[i]));
        struct calendar c;
        assert_true(calendar_of_doc(&d, "none", &arena, &c));
        assert_true(calendar_is_business_day(&c, day(2026, 12, 25)));
        assert_int_equal(c.excluded_count + c.included_count + d.description.n, 0);
    }
}

static void dates_are_sorted_and_each_is_there_once_with_its_name(void **state)
{
    (void)state;
    struct calendar_doc d = must_read(S(
        "{\"excluded\": [\"2026-12-25\", {\"date\": \"2026-12-25\", \"name\": \"Xmas Day\"}, \"1969-12-31\","
        "{\"date\": \"2026-12-25\", \"name\": \"Xmas\"}, {\"date\": \"2026-12-25\", \"name\": \"Yule\"}, \"2026-12-25\", {\"date\": \"2026-12-25\", \"name\": null},"
        "{\"date\": \"2026-12-25\", \"name\": \"Xmas\"}, \"2026-05-01\"]}"));
    assert_int_equal(d.excluded_count, 3);
    assert_int_equal(d.excluded[0].day, -1);
    assert_int_equal(d.excluded[1].day, day(2026, 5, 1));
    assert_int_equal(d.excluded[2].day, day(2026, 12, 25));
    assert_str(d.excluded[2].name, "Xmas");
}

static void a_document_comes_back_as_it_was_written(void **state)
{
    (void)state;
    const char *text = "{\"description\":\"Germany\",\"excluded_weekdays\":[\"SAT\",\"SUN\"],"
                       "\"excluded\":[{\"date\":\"2026-01-01\",\"name\":\"New \\\"Year\\\"\"},\"2026-12-25\"],"
                       "\"included\":[\"0000-01-01\",\"9999-12-31\"]}";
    struct calendar_doc d = must_read(str_from(text));
    cleanup_with(buf_release) struct buf b;
    write(&b, &d);
    assert_str(buf_str(&b), text);
}

static void errors_name_field_and_index(void **state)
{
    (void)state;
    static const struct {
        const char *doc, *field, *says;
    } rows[] = {
        { "[]", "", "object" },
        { "{\"excluded\": \"2026-12-25\"}", "excluded", "array" },
        { "{\"excluded\": [\"2026-12-25\", \"2026-02-30\"]}", "excluded[1]", "February" },
        { "{\"excluded\": [\"25.12.2026\"]}", "excluded[0]", "" },
        { "{\"excluded\": [\"2026-1-1\"]}", "excluded[0]", "2026-12-25" },
        { "{\"included\": [\"2026-12-25\", 5]}", "included[1]", "date" },
        { "{\"included\": [{\"name\": \"x\"}]}", "included[0].date", "" },
        { "{\"included\": [{\"date\": \"x\"}]}", "included[0].date", "2026-12-25" },
        { "{\"included\": [{\"date\": \"2026-13-01\"}]}", "included[0].date", "" },
        { "{\"included\": [{\"date\": \"2026-12-25\", \"nmae\": \"x\"}]}", "included[0].nmae", "name" },
        { "{\"excluded_weekdays\": [\"SAT\", \"Son\"]}", "excluded_weekdays[1]", "" },
        { "{\"holidays\": []}", "holidays", "" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct calendar_doc d;
        struct error e = { 0 };
        assert_int_equal(calendar_doc_read(str_from(rows[i].doc), &arena, &d, &e), ERR_INVALID);
        assert_string_equal(e.field, rows[i].field);
        assert_says(&e, rows[i].says);
    }
    struct calendar_doc d;
    assert_int_equal(calendar_doc_read(S("no json"), &arena, &d, NULL), ERR_INVALID);
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char doc[400];
    struct calendar_doc d;
    struct error e;
    snprintf(doc, sizeof doc, "{\"excluded\": [{\"date\": \"2026-12-25\", \"name\": \"%*d\"}]}", CALENDAR_TEXT_MAX + 1,
             1);
    assert_int_equal(calendar_doc_read(str_from(doc), &arena, &d, &e), ERR_INVALID);
    assert_string_equal(e.field, "excluded[0].name");
}

static void too_little_memory_is_said(void **state)
{
    (void)state;
    struct str text = S("{\"excluded\": [\"2026-12-25\", \"2026-12-26\"], \"included\": [\"2026-12-27\"]}");
    struct calendar_doc d = must_read(text), ignored;
    struct calendar c;
    bool read = false, made = false;
    for (size_t max = 1; !read || !made; max += max < 1000 ? 1 : 97) {
        struct arena small;
        struct error e = { 0 };
        arena_init(&small, max);
        enum err rc = calendar_doc_read(text, &small, &ignored, &e);
        assert_true(rc == ERR_OK || rc == ERR_LIMIT);
        read = rc == ERR_OK;
        arena_reset(&small);
        made = calendar_of_doc(&d, "x", &small, &c);
        arena_release(&small);
        assert_true(max < 10000 + CALENDAR_WORDS * sizeof(uint64_t));
    }
}

static void many_dates_are_read_and_one_too_many_is_not(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int extra = 0; extra < 2; extra++) {
        cleanup_with(buf_release) struct buf b;
        struct calendar_doc d;
        struct error e;
        buf_init(&b, 4 << 20);
        buf_text(&b, "{\"excluded\": [");
        for (int i = 0; i < CALENDAR_DATES_MAX + extra; i++)
            buf_printf(&b, "%s\"%04d-%02d-%02d\"", i ? "," : "", (int)prng_between(&r, 0, 9999),
                       (int)prng_between(&r, 1, 12), (int)prng_between(&r, 1, 28));
        buf_text(&b, "]}");
        enum err rc = calendar_doc_read(buf_str(&b), &arena, &d, &e);
        assert_int_equal(rc, extra ? ERR_INVALID : ERR_OK);
        for (size_t i = 1; !extra && i < d.excluded_count; i++)
            assert_true(d.excluded[i - 1].day < d.excluded[i].day);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_makes_a_calendar),
        cmocka_unit_test(nothing_said_excludes_nothing),
        cmocka_unit_test(dates_are_sorted_and_each_is_there_once_with_its_name),
        cmocka_unit_test(a_document_comes_back_as_it_was_written),
        cmocka_unit_test(errors_name_field_and_index),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(too_little_memory_is_said),
        cmocka_unit_test(many_dates_are_read_and_one_too_many_is_not),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
