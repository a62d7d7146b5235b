/* What the query of a request asks for. */
#include "check.h"

#include "api/server/query.h"

static void a_short_page_is_a_limit_and_a_cursor_alone(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        bool is_short;
    } rows[] = {
        { "", true },
        { "limit=5", true },
        { "limit=100", true },
        { "limit=101", false },
        { "limit=", false },
        { "limit", false },
        { "limit=5&cursor=abc", true },
        { "cursor=abc", true },
        { "limit=5&status=FAILED", false },
        { "limit=5&page=2", false },
        { "search=x", false },
        { "cursors=x", false },
        { "%6cimit=1000", false },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (query_is_short_page(str_from(rows[i].query)) != rows[i].is_short)
            fail_msg("?%s", rows[i].query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_page_is_a_limit_and_a_cursor_alone),
    };
    return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
