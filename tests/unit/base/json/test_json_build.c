/* jansson is the reference: json_build accepts the same texts and builds the same values. */
#include "check.h"

#include "base/json/json_build.h"
#include "base/prng.h"

enum { DEPTH = 32, TEXT_MAX = 300 };

static void compare(struct str text)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    json_t *judge = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_t *built = json_build(text, DEPTH, &a);
    if (!judge != !built || (judge && !json_equal(judge, built)))
        fail_msg("'" STR_FMT "' is %s to jansson, and %s here", STR_ARG(text), judge ? "JSON" : "none",
                 built ? "taken" : "not");
    json_decref(judge);
    json_decref(built);
    arena_release(&a);
}

static const char *const seeds[] = {
    "{\"name\":\"n\",\"run_at\":\"2026-01-01T00:00:00Z\",\"payload\":{\"order\":7,\"note\":\"000\"},\"ok\":true}",
    "[1,-0,0,-1.5e3,1E+2,0.25,123456789012345678,1234567890123456789,-9223372036854775808,1e400,9223372036854775808]",
    "[\"\\u00e9\\ud83d\\ude00\\u0000\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"é😀 eight bytes and more\", \"\"]",
    " { \"a\" : [ { } , [ ] , null , false ] , \"a\\u0062\" : 1 , \"ab\" : 2 } ",
    "[\"\\ud800\",\"\\udc00\\ud800\",\"\\u12G4\",\"\\x\"]",
    "{\"\\u0000\":1}",
    "[01,-,1.,.5,1e,+1,1 2,tru,nul,True]",
    "{\"a\":1,}",
    "[1,]",
    "\"1234567\x01\"",
    "\"12345678",
};

static void jansson_and_we_agree_on_what_is_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_count(seeds); i++)
        for (size_t n = 1; n <= strlen(seeds[i]); n++) {
            if (str_is_utf8((struct str){ seeds[i], n }))
                compare((struct str){ seeds[i], n });
        }
}

/* Bytes of one seed, with a few of them replaced, removed or duplicated. */
static struct str scramble(struct prng *r, char out[TEXT_MAX])
{
    static const char alphabet[] = "{}[]\",:\\u0123456789eE+-.truefalsnd8DCb \t\n\x1f\x7f";
    const char *seed = seeds[prng_below(r, array_count(seeds))];
    size_t n = 0;
    for (const char *p = seed; *p && n + 2 < TEXT_MAX; p++) {
        uint64_t chance = prng_below(r, 40);
        if (chance == 0)
            out[n++] = alphabet[prng_below(r, sizeof alphabet - 1)];
        if (chance != 1)
            out[n++] = *p;
        if (chance == 2)
            out[n++] = *p;
    }
    return (struct str){ out, n };
}

static void we_agree_on_a_hundred_thousand_scrambled_texts(void **state)
{
    (void)state;
    struct prng r;
    prng_init(&r, 7);
    for (int i = 0; i < 100000; i++) {
        char text[TEXT_MAX];
        struct str s = scramble(&r, text);
        if (str_is_utf8(s))
            compare(s);
    }
}

static void what_is_too_deep_is_not_built(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 4096);
    json_t *fits = json_build(S("[{\"a\":[1]},[[]]]"), 3, &a);
    assert_non_null(fits);
    json_decref(fits);
    assert_null(json_build(S("[{\"a\":[[]]}]"), 3, &a));
    assert_null(json_build(S("[]"), 0, &a));
    arena_release(&a);
}

static void a_string_that_does_not_fit_is_not_decoded(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 16);
    assert_null(json_build(S("[\"sixteen bytes and a line\\n\"]"), DEPTH, &a));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jansson_and_we_agree_on_what_is_json),
        cmocka_unit_test(we_agree_on_a_hundred_thousand_scrambled_texts),
        cmocka_unit_test(what_is_too_deep_is_not_built),
        cmocka_unit_test(a_string_that_does_not_fit_is_not_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
