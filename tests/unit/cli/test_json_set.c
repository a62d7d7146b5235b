#include "cli/json_set.h"

#include "check.h"

static void a_member_is_added_or_replaced_and_all_others_stay_as_written(void **state)
{
    (void)state;
    static const struct {
        const char *object, *path, *value, *result;
        bool replaced;
    } rows[] = {
        { "{}", "priority", "3", "{\"priority\":3}", false },
        { "{\"a\": 1.50, \"priority\": 1}", "priority", "3", "{\"a\":1.50,\"priority\":3}", true },
        { "{\"big\": 123456789012345678901234567890}", "x", "null",
          "{\"big\":123456789012345678901234567890,\"x\":null}", false },
        { "{}", "retry.backoff", "\"FIXED\"", "{\"retry\":{\"backoff\":\"FIXED\"}}", false },
        { "{\"retry\": {\"jitter\": \"FULL\", \"backoff\": 1}, \"b\": []}", "retry.backoff", "2",
          "{\"retry\":{\"jitter\":\"FULL\",\"backoff\":2},\"b\":[]}", true },
        { "{\"retry\": {\"jitter\": 1}}", "retry", "{}", "{\"retry\":{}}", true },
        { "{\"retry\": {\"jitter\": 1}}", "retry.a.b", "[1]", "{\"retry\":{\"jitter\":1,\"a\":{\"b\":[1]}}}", false },
        { "{\"retry\": null}", "retry.a", "1", "{\"retry\":{\"a\":1}}", false },
        { "{\"k\\\"ey\": 1}", "x", "2", "{\"k\\\"ey\":1,\"x\":2}", false },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf out;
        struct error e;
        bool replaced = !rows[i].replaced;
        buf_init(&out, 1000);
        assert_int_equal(
            json_set(str_from(rows[i].object), str_from(rows[i].path), str_from(rows[i].value), &replaced, &out, &e),
            ERR_OK);
        assert_str(buf_str(&out), rows[i].result);
        assert_int_equal(replaced, rows[i].replaced);
        buf_release(&out);
    }
}

static void a_path_that_names_no_field_is_refused(void **state)
{
    (void)state;
    static const char *const paths[] = { "", ".", "a.", ".a", "a..b", "a b", "a\"b", "a[0]", "ü" };
    for (size_t i = 0; i < array_count(paths); i++) {
        struct buf out;
        struct error e;
        bool replaced;
        buf_init(&out, 1000);
        assert_int_equal(json_set(S("{}"), str_from(paths[i]), S("1"), &replaced, &out, &e), ERR_INVALID);
        assert_non_null(strstr(e.text, "is not the name of a field"));
        assert_int_equal(out.n, 0);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_added_or_replaced_and_all_others_stay_as_written),
        cmocka_unit_test(a_path_that_names_no_field_is_refused),
    };
    return cmocka_run_group_tests_name("json_set", tests, NULL, NULL);
}
