#include "check.h"

#include "base/base64.h"

static void known_texts(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } rows[] = { { "", "" }, { "f", "Zg" }, { "fo", "Zm8" }, { "foo", "Zm9v" }, { "\xfb\xff\xfe", "-__-" } };
    for (size_t i = 0; i < array_count(rows); i++) {
        char text[8], bytes[8];
        size_t n = base64_write(rows[i].bytes, strlen(rows[i].bytes), text);
        assert_str(((struct str){ text, n }), rows[i].text);
        n = base64_read(str_from(rows[i].text), bytes);
        assert_str(((struct str){ bytes, n }), rows[i].bytes);
    }
}

static void reading_stops_at_another_letter(void **state)
{
    (void)state;
    char bytes[8];
    assert_int_equal(base64_read(S("Zm9v+Zm9v"), bytes), 3);
    assert_int_equal(base64_read(S("Zm9vZ"), bytes), 3);
    assert_int_equal(base64_read((struct str){ "Zm\0v", 4 }, bytes), 1);
}

static void only_the_text_that_was_written_is_read_exactly(void **state)
{
    (void)state;
    char bytes[8];
    static const char *const good[] = { "Zg", "Zm8", "Zm9v", "Zm9vZg" };
    static const char *const bad[] = { "Zh", "Zv", "Zm9", "Zm+", "Zm9v+", "Zm9vZ", "Zm9vZg=", "Zm9vZ-", "" };
    for (size_t i = 0; i < array_count(good); i++)
        assert_int_equal(base64_read_exact(str_from(good[i]), bytes), strlen(good[i]) * 3 / 4);
    for (size_t i = 0; i < array_count(bad); i++)
        assert_int_equal(base64_read_exact(str_from(bad[i]), bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),
        cmocka_unit_test(reading_stops_at_another_letter),
        cmocka_unit_test(only_the_text_that_was_written_is_read_exactly),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
