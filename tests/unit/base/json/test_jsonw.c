#include "check.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/json/jsonw.h"
#include "base/prng.h"
#include "random_bytes.h"

struct out {
    struct buf b;
    struct jw w;
};

static int setup(void **state)
{
    struct out *o = xnew(*o);
    buf_init(&o->b, 1 << 20);
    jw_init(&o->w, &o->b);
    *state = o;
    return 0;
}

static int teardown(void **state)
{
    struct out *o = *state;
    buf_release(&o->b);
    free(o);
    return 0;
}

static void commas_and_nesting_are_the_writers_job(void **state)
{
    struct out *o = *state;
    jw_object(&o->w);
    jw_kv_str(&o->w, "name", S("x"));
    jw_key(&o->w, "empty");
    jw_array(&o->w);
    jw_array_end(&o->w);
    jw_key(&o->w, "list");
    jw_array(&o->w);
    jw_i64(&o->w, 1);
    jw_object(&o->w);
    jw_object_end(&o->w);
    jw_array(&o->w);
    jw_null(&o->w);
    jw_null(&o->w);
    jw_array_end(&o->w);
    jw_object(&o->w);
    jw_kv_bool(&o->w, "yes", true);
    jw_kv_bool(&o->w, "no", false);
    jw_object_end(&o->w);
    jw_array_end(&o->w);
    jw_kv_cstr(&o->w, "text", "t");
    jw_kv_cstr(&o->w, "none", NULL);
    jw_kv_i64(&o->w, "n", -5);
    jw_kv_time(&o->w, "at", 0);
    jw_kv_i64_or_null(&o->w, "limit", 3);
    jw_kv_i64_or_null(&o->w, "no_limit", 0);
    jw_kv_time_or_null(&o->w, "since", 1);
    jw_kv_time_or_null(&o->w, "until", 0);
    jw_key(&o->w, "raw");
    jw_raw(&o->w, S("{ \"a\": 1 }"));
    jw_object_end(&o->w);
    assert_str(buf_str(&o->b),
               "{\"name\":\"x\",\"empty\":[],\"list\":[1,{},[null,null],{\"yes\":true,\"no\":false}],\"text\":\"t\","
               "\"none\":null,\"n\":-5,\"at\":\"1970-01-01T00:00:00.000Z\",\"limit\":3,\"no_limit\":null,"
               "\"since\":\"1970-01-01T00:00:00.001Z\",\"until\":null,\"raw\":{ \"a\": 1 }}");
}

static void numbers_keep_every_digit(void **state)
{
    struct out *o = *state;
    jw_array(&o->w);
    jw_i64(&o->w, INT64_MIN);
    jw_i64(&o->w, INT64_MAX);
    jw_u64(&o->w, UINT64_MAX);
    jw_f64(&o->w, 0.1);
    jw_f64(&o->w, 1.0 / 3);
    jw_f64(&o->w, 1e300);
    jw_f64(&o->w, (double)NAN);
    jw_f64(&o->w, (double)INFINITY);
    jw_f64(&o->w, -(double)INFINITY);
    jw_array_end(&o->w);
    assert_str(buf_str(&o->b), "[-9223372036854775808,9223372036854775807,18446744073709551615,0.1,0.3333333333333333,"
                               "1e+300,null,null,null]");
}

static void random_doubles_read_back_the_same(void **state)
{
    struct out *o = *state;
    struct prng r;
    prng_init(&r, 7);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = prng_u64(&r);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        buf_reset(&o->b);
        jw_init(&o->w, &o->b);
        jw_f64(&o->w, v);
        if (strtod(buf_cstr(&o->b), NULL) != v)
            fail_msg("%s is not %a", buf_cstr(&o->b), v);
    }
}

static void strings_are_escaped_so_that_nothing_acts_up(void **state)
{
    (void)state;
    static const struct {
        struct str in;
        const char *out;
    } rows[] = {
        { { "", 0 }, "" },
        { { NULL, 0 }, "" },
        { { "plain", 5 }, "plain" },
        { { "\"\\/", 3 }, "\\\"\\\\/" },
        { { "\b\f\n\r\t", 5 }, "\\b\\f\\n\\r\\t" },
        { { "a\0b\x1b\x7f", 5 }, "a\\u0000b\\u001b\\u007f" },
        { { "Zürich €", 11 }, "Zürich €" },
        { { "\xf0\x9f\x94\x94", 4 }, "\xf0\x9f\x94\x94" },
        { { "\xc2\x9b", 2 }, "\\u009b" },
        { { "\xe2\x80\xae", 3 }, "\\u202e" },
        { { "\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9", 9 }, "\\u202a\\u2066\\u2069" },
        { { "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", 8 }, "\\u200e\\u200f\\u061c" },
        { { "\xe2\x80\xa8\xef\xbb\xbf", 6 }, "\\u2028\\ufeff" },
        { { "\xc2\xad\xe2\x80\x8b\xf3\xa0\x81\xbf", 9 }, "\\u00ad\\u200b\\udb40\\udc7f" },
        { { "a\xff\xfe"
            "b",
            4 },
          "a\\ufffd\\ufffdb" },
        { { "\xc3", 1 }, "\\ufffd" },
        { { "\xed\xa0\x80", 3 }, "\\ufffd\\ufffd\\ufffd" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        struct buf b;
        buf_init(&b, 100);
        json_escape(&b, rows[i].in);
        assert_str(buf_str(&b), rows[i].out);
        buf_release(&b);
    }
}

static void keys_are_escaped_too(void **state)
{
    struct out *o = *state;
    jw_object(&o->w);
    jw_kv_i64(&o->w, "a\"b", 1);
    jw_object_end(&o->w);
    assert_str(buf_str(&o->b), "{\"a\\\"b\":1}");
}

static void any_bytes_make_valid_json_that_shows_no_control(void **state)
{
    struct out *o = *state;
    struct prng r;
    prng_init(&r, 42);
    for (int i = 0; i < 3000; i++) {
        char bytes[24];
        size_t n = prng_below(&r, sizeof bytes + 1);
        random_bytes(&r, bytes, n);
        buf_reset(&o->b);
        jw_init(&o->w, &o->b);
        jw_str(&o->w, (struct str){ bytes, n });
        assert_true(str_is_utf8(buf_str(&o->b)));
        for (size_t k = 0; k < o->b.n; k++)
            assert_true((unsigned char)o->b.p[k] >= ' ' && o->b.p[k] != 0x7F);
        json_t *v = json_loadb(o->b.p, o->b.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!v)
            fail_msg("round %d of seed 42: %s", i, o->b.p);
        if (str_is_utf8((struct str){ bytes, n }))
            assert_true(json_string_length(v) == n && memcmp(json_string_value(v), bytes, n) == 0);
        json_decref(v);
    }
}

static void nests_as_deep_as_it_promises(void **state)
{
    struct out *o = *state;
    for (int i = 0; i < JW_DEPTH_MAX; i++)
        jw_array(&o->w);
    for (int i = 0; i < JW_DEPTH_MAX; i++)
        jw_array_end(&o->w);
    assert_int_equal(o->b.n, 2 * JW_DEPTH_MAX);
    assert_false(memchr(o->b.p, ',', o->b.n));
}

static void a_full_buffer_shows_at_the_end(void **state)
{
    (void)state;
    struct buf b;
    struct jw w;
    buf_init(&b, 10);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kv_str(&w, "much", S("too much for ten bytes"));
    jw_object_end(&w);
    assert_true(b.full);
    buf_release(&b);
}

static void a_buffer_can_be_cut_back(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_cut(&b, 0);
    assert_string_equal(buf_cstr(&b), "");
    buf_text(&b, "abcd");
    buf_text(&b, "ef");
    assert_true(b.full);
    buf_cut(&b, 2);
    assert_false(b.full);
    buf_text(&b, "xyz");
    assert_str(buf_str(&b), "abxyz");
    assert_false(b.full);
    buf_release(&b);
}

/* Writes the text's value and compares it with `expected`; NULL: it is too deep. */
static void rewrite(const char *text, int depth_max, const char *expected)
{
    struct json_doc d;
    struct error e;
    struct buf b;
    struct jw w;
    assert_ok(json_parse(str_from(text), &d, &e), &e);
    buf_init(&b, 4096);
    jw_init(&w, &b);
    assert_int_equal(jw_json(&w, d.root, depth_max), expected != NULL);
    if (expected)
        assert_str(buf_str(&b), expected);
    buf_release(&b);
    json_doc_release(&d);
}

static void values_are_written_in_their_order(void **state)
{
    (void)state;
    rewrite("{\"z\": [1, -2.5, true, false, null, {}], \"a\\\"b\": \"\\u0000\\n\", \"big\": 9223372036854775807}", 32,
            "{\"z\":[1,-2.5,true,false,null,{}],\"a\\\"b\":\"\\u0000\\n\",\"big\":9223372036854775807}");
    rewrite("[[[]]]", 3, "[[[]]]");
    rewrite("[[[]]]", 2, NULL);
    rewrite("[{\"a\": {}}]", 2, NULL);
    rewrite("7", 0, "7");
    rewrite("{}", 0, NULL);
}

int main(void)
{
#define WITH_OUT(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_OUT(commas_and_nesting_are_the_writers_job),
        WITH_OUT(numbers_keep_every_digit),
        WITH_OUT(random_doubles_read_back_the_same),
        cmocka_unit_test(strings_are_escaped_so_that_nothing_acts_up),
        WITH_OUT(keys_are_escaped_too),
        WITH_OUT(any_bytes_make_valid_json_that_shows_no_control),
        WITH_OUT(nests_as_deep_as_it_promises),
        cmocka_unit_test(values_are_written_in_their_order),
        cmocka_unit_test(a_full_buffer_shows_at_the_end),
        cmocka_unit_test(a_buffer_can_be_cut_back),
    };
    return cmocka_run_group_tests_name("jsonw", tests, NULL, NULL);
}
