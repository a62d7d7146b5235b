#include "cli/remedy.h"

#include "check.h"

static void requests_become_commands(void **state)
{
    (void)state;
    static const struct {
        const char *sentence, *says;
    } rows[] = {
        { "", "" },
        { "the task is RUNNING", "the task is RUNNING" },
        { "it waits for something; use {\"force\": true} to not wait",
          "it waits for something; use --force to not wait" },
        { "is RECURRING and cannot be changed; create a new task",
          "is RECURRING and cannot be changed; create a new one with 'belfry add'" },
        { "no; use POST /v1/workflows/019c/cancel", "no; use 'belfry workflow cancel 019c'" },
        { "no; use POST /v1/workflows/019c/steps/a.b/run-now", "no; use 'belfry workflow step run-now 019c a.b'" },
        { "no; use POST /v1/workflows/", "no; use POST /v1/workflows/" },
        { "no; use POST /v1/workflows/019c", "no; use POST /v1/workflows/019c" },
        { "no; use POST /v1/workflows/019c/steps/a", "no; use POST /v1/workflows/019c/steps/a" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf out;
        buf_init(&out, 1000);
        remedy_write(str_from(rows[i].sentence), &out);
        assert_string_equal(buf_cstr(&out), rows[i].says);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_become_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
