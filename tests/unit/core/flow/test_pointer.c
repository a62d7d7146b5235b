#include "check.h"
#include "seed.h"

#include "core/flow/reference.h"

/* The examples of RFC 6901, section 5. */
static void a_pointer_names_one_value(void **state)
{
    (void)state;
    static const char text[] =
        "{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2, \"e^f\": 3, \"g|h\": 4,"
        "\"i\\\\j\": 5, \"k\\\"l\": 6, \" \": 7, \"m~n\": 8, \"~1\": 9, \"deep\": {\"\": {\"x\": 10}}}";
    static const struct {
        const char *pointer;
        int value;
    } rows[] = {
        { "/", 0 },     { "/a~1b", 1 }, { "/c%d", 2 },  { "/e^f", 3 }, { "/g|h", 4 },      { "/i\\j", 5 },
        { "/k\"l", 6 }, { "/ ", 7 },    { "/m~0n", 8 }, { "/~01", 9 }, { "/deep//x", 10 },
    };
    static const char *const absent[] = { "/no",     "/foo/2",   "/foo/-",
                                          "/foo/01", "/foo/",    "/foo/1x",
                                          "/foo/-1", "/foo/0/x", "/foo/99999999999999999999",
                                          "/a~1b/c", "//" };
    struct json_doc d;
    struct error e;
    assert_ok(json_parse(str_from(text), &d, &e), &e);
    for (size_t i = 0; i < array_count(rows); i++) {
        assert_ok(pointer_check(str_from(rows[i].pointer), &e), &e);
        json_t *v = pointer_get(str_from(rows[i].pointer), d.root);
        assert_true(json_is_integer(v));
        assert_int_equal(json_integer_value(v), rows[i].value);
    }
    assert_ptr_equal(pointer_get(S(""), d.root), d.root);
    assert_string_equal(json_string_value(pointer_get(S("/foo/1"), d.root)), "baz");
    for (size_t i = 0; i < array_count(absent); i++) {
        assert_ok(pointer_check(str_from(absent[i]), &e), &e);
        assert_null(pointer_get(str_from(absent[i]), d.root));
    }
    assert_null(pointer_get(S("/a"), NULL));
    json_doc_release(&d);
}

static void a_wrong_pointer_is_refused_with_its_position(void **state)
{
    (void)state;
    char text[POINTER_BYTES_MAX + 2];
    struct error e;
    const struct {
        struct str text;
        const char *says;
    } rows[] = {
        { S("foo"), "must begin with '/'" },
        { S("/a~"), "'~' at position 3" },
        { S("/a~2/b"), "'~' at position 3" },
        { S("/a\0b"), "NUL character (at position 3)" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        assert_int_equal(pointer_check(rows[i].text, &e), ERR_INVALID);
        assert_says(&e, rows[i].says);
    }
    memset(text, '/', sizeof text);
    assert_int_equal(pointer_check((struct str){ text, sizeof text }, &e), ERR_INVALID);
    assert_says(&e, "must be at most 1024 bytes long");
    assert_int_equal(pointer_check((struct str){ text, POINTER_TOKENS_MAX + 1 }, &e), ERR_INVALID);
    assert_says(&e, "must have at most 32 levels, not 33");
    assert_ok(pointer_check((struct str){ text, POINTER_TOKENS_MAX }, &e), &e);
}

/* ---- references ---- */

static void a_reference_has_a_root_and_a_rest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum reference_root root;
        const char *step, *rest;
    } rows[] = {
        { "/input", REFERENCE_INPUT, "", "" },
        { "/input/a~1b/0", REFERENCE_INPUT, "", "/a~1b/0" },
        { "/steps/a-b.c/output", REFERENCE_STEP_OUTPUT, "a-b.c", "" },
        { "/steps/a/output/x", REFERENCE_STEP_OUTPUT, "a", "/x" },
        { "/steps/a/status", REFERENCE_STEP_STATUS, "a", "" },
        { "/steps/a/error", REFERENCE_STEP_ERROR, "a", "" },
        { "/item/", REFERENCE_ITEM, "", "/" },
        { "/index", REFERENCE_INDEX, "", "" },
        { "/output/x", REFERENCE_OUTPUT, "", "/x" },
        { "/run/failures/0", REFERENCE_RUN, "", "/failures/0" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct reference r;
        struct error e;
        assert_ok(reference_read(str_from(rows[i].text), &r, &e), &e);
        assert_int_equal(r.root, rows[i].root);
        assert_str(r.step, rows[i].step);
        assert_str(r.rest, rows[i].rest);
        assert_str(r.text, rows[i].text);
    }
}

static void a_wrong_reference_is_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "", "has no root ''" },
        { "/inputs/x", "did you mean '/input'?" },
        { "/step/x/output", "did you mean '/steps'?" },
        { "/zzz", "it must be /input, /steps/NAME/output" },
        { "/steps", "must name a step" },
        { "/steps//output", "must name a step" },
        { "/steps/a", "must go on with output, status or error: /steps/a/output" },
        { "/steps/a/outptu", "must name output, status or error of a step, not 'outptu'" },
        { "/steps/a/status/x", "goes on behind 'status', which is a text" },
        { "/index/0", "goes on behind '/index', which is a number" },
        { "input", "must begin with '/'" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct reference r = { .root = REFERENCE_RUN };
        struct error e;
        assert_int_equal(reference_read(str_from(rows[i].text), &r, &e), ERR_INVALID);
        assert_says(&e, rows[i].says);
        assert_int_equal(r.root, REFERENCE_RUN);
    }
}

static void the_name_of_a_step_needs_no_escape_anywhere(void **state)
{
    (void)state;
    static const char *const good[] = { "a", "_", "9", "A-b.c_9" }, *const bad[] = { "",    "*",   ".a", "a/b",
                                                                                     "a~b", "a b", "ä" };
    char text[STEP_NAME_MAX + 1];
    struct error e;
    for (size_t i = 0; i < array_count(good); i++)
        assert_ok(step_name_check(str_from(good[i]), &e), &e);
    for (size_t i = 0; i < array_count(bad); i++)
        assert_int_equal(step_name_check(str_from(bad[i]), &e), ERR_INVALID);
    memset(text, 'a', sizeof text);
    assert_ok(step_name_check((struct str){ text, STEP_NAME_MAX }, &e), &e);
    assert_int_equal(step_name_check((struct str){ text, STEP_NAME_MAX + 1 }, &e), ERR_INVALID);
    assert_says(&e, "between 1 and 64 bytes long, not 65");
}

/* Each member of a value is found by the pointer that its path makes. */
static void random_keys_are_found_by_their_escaped_pointers(void **state)
{
    (void)state;
    struct prng r = seeded_prng(__func__);
    for (int round = 0; round < 2000; round++) {
        static const char letters[] = "a/~01-";
        char key[8], pointer[64], text[64];
        size_t n = prng_below(&r, sizeof key), p = 0;
        struct json_doc d;
        struct error e;
        pointer[p++] = '/';
        for (size_t i = 0; i < n; i++) {
            key[i] = letters[prng_below(&r, sizeof letters - 1)];
            bool escape = key[i] == '/' || key[i] == '~';
            pointer[p++] = escape ? '~' : key[i];
            if (escape)
                pointer[p++] = key[i] == '/' ? '1' : '0';
        }
        snprintf(text, sizeof text, "{\"%.*s\": [0, {\"k\": 77}]}", (int)n, key);
        assert_ok(json_parse(str_from(text), &d, &e), &e);
        p += (size_t)snprintf(pointer + p, sizeof pointer - p, "/1/k");
        assert_ok(pointer_check((struct str){ pointer, p }, &e), &e);
        assert_int_equal(json_integer_value(pointer_get((struct str){ pointer, p }, d.root)), 77);
        json_doc_release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pointer_names_one_value),
        cmocka_unit_test(a_wrong_pointer_is_refused_with_its_position),
        cmocka_unit_test(a_reference_has_a_root_and_a_rest),
        cmocka_unit_test(a_wrong_reference_is_explained),
        cmocka_unit_test(the_name_of_a_step_needs_no_escape_anywhere),
        cmocka_unit_test(random_keys_are_found_by_their_escaped_pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
