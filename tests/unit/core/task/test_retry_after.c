#include "check.h"
#include "core/task/retry_after.h"

static void retry_after_is_seconds_or_a_date(void **state)
{
    (void)state;
    enum { NOW_S = 784111777 }; /* Sun, 06 Nov 1994 08:49:37 GMT */
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "0", 0 },
        { "120", 120000 },
        { " 7 ", 7000 },
        { "86400", 86400000 },
        { "86401", 86400000 },
        { "99999999999999999999999999", 86400000 },
        { "Sun, 06 Nov 1994 08:49:38 GMT", 1000 },
        { "Sun, 06 Nov 1994 08:49:37 GMT", 0 },
        { "Sun, 06 Nov 1994 08:49:30 GMT", 0 },
        { "Mon, 07 Nov 1994 08:49:36 GMT", 86399000 },
        { "Wed, 09 Nov 1994 08:49:37 GMT", 86400000 },
        { "Sunday, 06-Nov-94 08:50:37 GMT", 60000 },
        { "Sunday, 06-Nov-44 08:50:37 GMT", 86400000 }, /* 2044 */
        { "Sunday, 06-Nov-45 08:50:37 GMT", 0 },        /* 1945 */
        { "Sun Nov  6 09:49:37 1994", 3600000 },
        { "", -1 },
        { "-1", -1 },
        { "1.5", -1 },
        { "7s", -1 },
        { "soon", -1 },
        { "Sun, 06 Nov 1994 08:49:38", -1 },
        { "Sun, 06 Nov 1994 08:49:38 CET", -1 },
        { "Sun, 06 Nov 1994 08:49:38 GMT+1", -1 },
        { "Sun, 31 Feb 1994 08:49:38 GMT", -1 },
        { "Sun, 06 Foo 1994 08:49:38 GMT", -1 },
        { "Sun, 06 Nov 1994 24:00:00 GMT", -1 },
        { "Sun, 06 Nov 1994 08:60:00 GMT", -1 },
        { "Sun, 06 Nov 1994 08:49:61 GMT", -1 },
        { "Sun, 06 N", -1 },
        { "Sun, 0", -1 },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        int64_t ms = retry_after_ms(str_from(rows[i].text), NOW_S * 1000LL);
        if (ms != rows[i].ms)
            fail_msg("'%s' is %lld ms, not %lld", rows[i].text, (long long)ms, (long long)rows[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(retry_after_is_seconds_or_a_date) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
