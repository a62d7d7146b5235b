/* workflow/text_place: where a value is in the JSON text of a definition. */
#include "workflow/text_place.h"

#include "check.h"

static size_t line_of(const char *json, const char *path)
{
    struct text_place p = text_place_find(str_from(json), str_from(path));
    return text_place_line(str_from(json), &p);
}

static void a_path_has_the_line_of_its_value_or_of_what_is_around_it(void **state)
{
    (void)state;
    static const char json[] = "\n{\"steps\": [\n"                          /* 2 */
                               "  {\"name\": \"a\",\n"                      /* 3 */
                               "   \"depends_on\": [\n"                     /* 4 */
                               "     \"x\",\n"                              /* 5 */
                               "     \"y\"]},\n"                            /* 6 */
                               "  {\"headers\": {\"a\": 1,\n"               /* 7 */
                               "                 \"a.b\": {\"c\": 1}}}],\n" /* 8 */
                               " \"result\": {}}\n";                        /* 9 */
    static const struct {
        const char *path;
        size_t line;
    } rows[] = {
        { "", 2 },
        { "steps", 2 },
        { "steps[0]", 3 },
        { "steps[0].name", 3 },
        { "steps[0].depends_on", 4 },
        { "steps[0].depends_on[0]", 5 },
        { "steps[0].depends_on[1]", 6 },
        { "steps[0].depends_on[2]", 4 },
        { "steps[0].missing", 3 },
        { "steps[1].headers.a", 7 },
        { "steps[1].headers.a.b", 8 },
        { "steps[1].headers.a.b.c", 8 },
        { "steps[9].name", 2 },
        { "result", 9 },
        { "nothing.like[3].it", 2 },
    };
    for (size_t i = 0; i < array_count(rows); i++)
        if (line_of(json, rows[i].path) != rows[i].line)
            fail_msg("'%s' is not in line %zu but in %zu", rows[i].path, rows[i].line, line_of(json, rows[i].path));
    assert_int_equal(line_of("", "a"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_path_has_the_line_of_its_value_or_of_what_is_around_it) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
