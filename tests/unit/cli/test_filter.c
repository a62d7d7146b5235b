#include "cli/filter.h"

#include "check.h"

static void a_filter_becomes_a_query(void **state)
{
    (void)state;
    static const struct {
        const char *filter, *query;
    } rows[] = {
        { "status=paused", "/t?status=PAUSED" },
        { "Status=PAUSED", NULL },
        { " status = FAILED , queue = mail ", "/t?status=FAILED&queue=mail" },
        { "queue=a b&c=d?#/%ü", "/t?queue=a%20b%26c%3Dd%3F%23%2F%25%C3%BC" },
        { "task-type=t.u_v-w", "/t?task_type=t.u_v-w" },
        { "task_type=t", "/t?task_type=t" },
        { "type=recurring", "/t?type=RECURRING" },
        { "status=dead_lettered", "/t?status=DEAD_LETTERED" },
        { "due-after=2026-02-10T09:00:00+01:00", "/t?due_after=2026-02-10T08%3A00%3A00.000Z" },
        { "name=--status", "/t?name=--status" },
        { "name=a=b", "/t?name=a%3Db" },
        { "recurring=true", NULL },
        { "status=A=B", NULL },
        { "a-name-that-is-longer-than-any-of-ours=1", NULL },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf query;
        struct error e;
        buf_init(&query, 1000);
        buf_text(&query, "/t");
        enum err rc = filter_parse(str_from(rows[i].filter), "--filter", &query, &e);
        assert_int_equal(rc, rows[i].query ? ERR_OK : ERR_INVALID);
        if (rows[i].query)
            assert_str(buf_str(&query), rows[i].query);
        else
            assert_string_equal(e.field, "--filter");
        buf_release(&query);
    }
}

static void wrong_filters_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *filter, *sentence;
    } rows[] = {
        { "", "is empty: write it as status=PAUSED,queue=mail" },
        { "  ", "is empty: write it as status=PAUSED,queue=mail" },
        { "status", "contains 'status', but must be name=value pairs such as status=PAUSED,queue=mail" },
        { "status=", "contains 'status=', but must be name=value pairs such as status=PAUSED,queue=mail" },
        { "=PAUSED", "contains '=PAUSED', but must be name=value pairs such as status=PAUSED,queue=mail" },
        { "queue=a,,", "contains '', but must be name=value pairs such as status=PAUSED,queue=mail" },
        { "quue=a", "has no filter 'quue'; did you mean 'queue'?" },
        { "frobnicate=1",
          "has no filter 'frobnicate'; use status=, type=, name=, queue=, task-type=, due-before=, due-after=, "
          "created-before= or created-after=" },
        { "type=both", "type must be one of ONE_TIME, RECURRING, not 'both'" },
        { "queue=a,queue=b", "contains 'queue' twice" },
        { "due_after=2026-02-10T00:00:00Z,due-after=2026-02-10T00:00:00Z", "contains 'due-after' twice" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf query;
        struct error e;
        buf_init(&query, 1000);
        assert_int_equal(filter_parse(str_from(rows[i].filter), "--filter", &query, &e), ERR_INVALID);
        assert_string_equal(e.text, rows[i].sentence);
        buf_release(&query);
    }
}

static void several_filters_share_a_query(void **state)
{
    (void)state;
    struct buf query;
    struct error e;
    buf_init(&query, 1000);
    buf_text(&query, "/t");
    assert_ok(filter_parse(S("queue=a"), "--filter", &query, &e), &e);
    assert_ok(filter_parse(S("name=b"), "--filter", &query, &e), &e);
    assert_int_equal(filter_parse(S("queue=c"), "--filter", &query, &e), ERR_INVALID);
    query_add(&query, "limit", S("5"));
    assert_str(buf_str(&query), "/t?queue=a&name=b&limit=5");
    buf_release(&query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_becomes_a_query),
        cmocka_unit_test(wrong_filters_say_what_is_wrong),
        cmocka_unit_test(several_filters_share_a_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
