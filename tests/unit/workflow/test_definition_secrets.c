/* Secret headers of definitions, as the store has them. */
#include "check.h"

#include <stdio.h>

#include "workflow/definition_secrets.h"

enum { TENANT = 7 };

#define URL    "https://a.example/x"
#define JOINED "{ \"$join\": [\"Bearer s3cret-1\", {\"$ref\": \"/input/id\", \"default\": \"s3cret-2\"}] }"
#define STEP(u)                                                                                                        \
    "{\"name\":\"a\",\"target_config\":{\"url\":\"" u "\", \"headers\" : {\"Authorization\":" JOINED                   \
    ",\"X-Team\":\"a\"}}"
#define TEXT(u)                                                                                                        \
    "{\"steps\": [ " STEP(u) ",\"compensate\":{\"target_config\":{\"url\":\"" URL                                      \
                             "\",\"headers\":{\"x-api-key\":\"s3cret-\\u0033 \\\"\"}}}} ]}"

static const struct secrets old_keys = { .keys = { { "aaaaaaaa", { 1 } } }, .n = 1 },
                            new_keys = { .keys = { { "bbbbbbbb", { 2 } }, { "aaaaaaaa", { 1 } } }, .n = 2 };

static struct definition seal(const struct secrets *s, int32_t tenant, const char *text, struct arena *a)
{
    struct definition d;
    struct error e = { 0 };
    assert_ok(definition_secrets_seal(s, tenant, str_from(text), a, &d, &e), &e);
    return d;
}

static struct str open_ok(const struct secrets *s, int32_t tenant, struct str stored, struct arena *a)
{
    struct str text;
    struct error e = { 0 };
    assert_ok(definition_secrets_open(s, tenant, stored, a, &text, &e), &e);
    return text;
}

static bool has(struct str text, const char *part)
{
    return str_contains_nocase(text, str_from(part));
}

/* The text with one part replaced. */
static struct str replaced(struct str text, const char *old, const char *new, struct arena *a)
{
    struct buf out;
    struct str result;
    const char *at = memmem(text.p, text.n, old, strlen(old));
    assert_non_null(at);
    size_t before = (size_t)(at - text.p);
    buf_init(&out, 1 << 16);
    buf_add(&out, str_sub(text, 0, before));
    buf_text(&out, new);
    buf_add(&out, str_sub(text, before + strlen(old), text.n));
    assert_true(arena_str(a, buf_str(&out), &result));
    buf_release(&out);
    return result;
}

static void nothing_of_them_is_stored_and_all_of_them_come_back(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    struct definition d = seal(&old_keys, TENANT, TEXT(URL), &a);
    assert_false(has(d.text, "s3cret"));
    assert_true(has(d.text, "\"$ref\": \"/input/id\"") && has(d.text, "\"X-Team\":\"a\""));
    assert_str(open_ok(&old_keys, TENANT, d.text, &a), TEXT(URL));
    assert_str(open_ok(&new_keys, TENANT, d.text, &a), TEXT(URL));
    arena_release(&a);
}

static void one_text_has_one_hash_that_needs_the_key(void **state)
{
    (void)state;
    struct arena a;
    uint8_t plain[SHA256_SIZE];
    arena_init(&a, 1 << 20);
    struct definition d = seal(&old_keys, TENANT, TEXT(URL), &a), again = seal(&old_keys, TENANT, TEXT(URL), &a);
    assert_memory_equal(d.hash, again.hash, DEFINITION_HASH);
    assert_memory_not_equal(d.hash, seal(&old_keys, TENANT + 1, TEXT(URL), &a).hash, DEFINITION_HASH);
    assert_memory_not_equal(d.hash, seal(&new_keys, TENANT, TEXT(URL), &a).hash, DEFINITION_HASH);
    assert_memory_not_equal(d.hash, seal(&old_keys, TENANT, TEXT(URL "y"), &a).hash, DEFINITION_HASH);
    crypto_sha256(S(TEXT(URL)), plain);
    assert_memory_not_equal(d.hash, plain, DEFINITION_HASH);
    struct definition open = seal(NULL, TENANT, TEXT(URL), &a);
    assert_memory_equal(open.hash, plain, DEFINITION_HASH);
    assert_str(open.text, TEXT(URL));
    crypto_sha256(S("{\"steps\":[]}"), plain);
    assert_memory_equal(seal(&old_keys, TENANT, "{\"steps\":[]}", &a).hash, plain, DEFINITION_HASH);
    arena_release(&a);
}

static void what_was_moved_stays_encrypted(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    struct str stored = seal(&old_keys, TENANT, TEXT(URL), &a).text;
    struct str elsewhere = replaced(stored, URL, "https://b.example/x", &a);
    assert_str(open_ok(&old_keys, TENANT, elsewhere, &a), elsewhere.p);
    assert_false(has(open_ok(&old_keys, TENANT + 1, stored, &a), "s3cret"));
    /* Two secrets of one definition change places. */
    size_t first = (size_t)((const char *)memmem(stored.p, stored.n, "\"enc:1:", 7) - stored.p) + 1;
    size_t second = str_find(str_sub(stored, first, stored.n), '"', 0) + first;
    const char *default_at = memmem(stored.p + second, stored.n - second, "\"enc:1:", 7);
    assert_non_null(default_at);
    struct str one = str_sub(stored, first, second), rest = { default_at + 1, 0 };
    rest.n = str_find(str_sub(stored, (size_t)(rest.p - stored.p), stored.n), '"', 0);
    char text[512];
    snprintf(text, sizeof text, STR_FMT, STR_ARG(one));
    char other[512];
    snprintf(other, sizeof other, STR_FMT, STR_ARG(rest));
    struct str swapped = replaced(stored, other, text, &a);
    assert_true(has(open_ok(&old_keys, TENANT, swapped, &a), "\"default\": \"enc:1:"));
    arena_release(&a);
}

static void a_key_that_is_missing_may_be_elsewhere_and_a_lost_one_is_not(void **state)
{
    (void)state;
    struct arena a;
    struct error e = { 0 };
    struct str text;
    struct secrets lost = { .keys = { { "bbbbbbbb", { 2 } } }, .n = 1, .lost = { "aaaaaaaa" }, .lost_count = 1 };
    arena_init(&a, 1 << 20);
    struct str stored = seal(&old_keys, TENANT, TEXT(URL), &a).text;
    struct secrets other = { .keys = { { "bbbbbbbb", { 2 } } }, .n = 1 };
    assert_int_equal(definition_secrets_open(&other, TENANT, stored, &a, &text, &e), ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, "needs key 'aaaaaaaa', which secrets.key_file lacks here"));
    assert_int_equal(definition_secrets_open(NULL, TENANT, stored, &a, &text, &e), ERR_UNAVAILABLE);
    text = open_ok(&lost, TENANT, stored, &a);
    assert_str(text, stored.p);
    assert_int_equal(definition_secrets_keep(S("{\"steps\":[{\"name\":\"a\",\"target_config\":{\"url\":\"" URL
                                               "\",\"headers\":{\"Authorization\":\"***\"}}}]}"),
                                             text, &a, &text, &e),
                     ERR_INVALID);
    assert_string_equal(e.text, "must be given again, because its value cannot be decrypted any more");
    arena_release(&a);
}

struct noted {
    size_t n;
    char ids[8][SECRETS_ID + 1];
};

static void on_key(void *context, struct str id)
{
    struct noted *n = context;
    assert_int_equal(id.n, SECRETS_ID);
    memcpy(n->ids[n->n++], id.p, SECRETS_ID);
}

static void it_says_which_keys_it_needs(void **state)
{
    (void)state;
    struct arena a;
    struct noted n = { 0 };
    arena_init(&a, 1 << 20);
    struct str stored = seal(&old_keys, TENANT, TEXT(URL), &a).text;
    assert_true(definition_secrets_lack_key(stored, S("bbbbbbbb"), on_key, &n));
    assert_int_equal(n.n, 3);
    assert_string_equal(n.ids[2], "aaaaaaaa");
    assert_false(definition_secrets_lack_key(stored, S("aaaaaaaa"), on_key, &n));
    n.n = 0;
    assert_true(definition_secrets_lack_key(S(TEXT(URL)), S("aaaaaaaa"), on_key, &n));
    assert_int_equal(n.n, 0);
    arena_release(&a);
}

static void a_value_must_not_look_encrypted(void **state)
{
    (void)state;
    struct arena a;
    struct error e = { 0 };
    struct definition d;
    arena_init(&a, 1 << 20);
    struct str text = replaced(S(TEXT(URL)), "Bearer s3cret-1", "enc:1:mine", &a);
    assert_int_equal(definition_secrets_seal(&old_keys, TENANT, text, &a, &d, &e), ERR_INVALID);
    assert_string_equal(e.field, "steps[0].target_config.headers.Authorization");
    assert_int_equal(definition_secrets_seal(NULL, TENANT, text, &a, &d, &e), ERR_INVALID);
    arena_release(&a);
}

static void headers_that_a_version_drops_are_named(void **state)
{
    (void)state;
    static const char next[] =
        "{\"steps\":[{\"name\":\"new\"},{\"name\":\"a\",\"target_config\":{\"headers\":{\"AUTHORIZATION\":\"x\"}},"
        "\"compensate\":{\"target_config\":{\"headers\":{}}}}]}";
    struct definition_dropped v[4];
    assert_int_equal(definition_secrets_dropped(S(TEXT(URL)), S(TEXT(URL)), v, 4), 0);
    assert_int_equal(definition_secrets_dropped(str_from(next), S(TEXT(URL)), v, 4), 1);
    assert_true(v[0].step == 1 && v[0].compensates && str_eq(v[0].header, S("x-api-key")));
    assert_int_equal(definition_secrets_dropped(S("{\"steps\":[{\"name\":\"a\"}]}"), S(TEXT(URL)), v, 4), 1);
    assert_false(v[0].compensates);
    assert_int_equal(definition_secrets_dropped(S("{\"steps\":[{\"name\":\"b\"}]}"), S(TEXT(URL)), v, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_them_is_stored_and_all_of_them_come_back),
        cmocka_unit_test(one_text_has_one_hash_that_needs_the_key),
        cmocka_unit_test(what_was_moved_stays_encrypted),
        cmocka_unit_test(a_key_that_is_missing_may_be_elsewhere_and_a_lost_one_is_not),
        cmocka_unit_test(it_says_which_keys_it_needs),
        cmocka_unit_test(a_value_must_not_look_encrypted),
        cmocka_unit_test(headers_that_a_version_drops_are_named),
    };
    return cmocka_run_group_tests_name("definition_secrets", tests, NULL, NULL);
}
