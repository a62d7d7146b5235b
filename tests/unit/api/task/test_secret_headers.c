#include "check.h"

#include <stdio.h>

#include "api/task/secret_headers.h"

static const char stored[] =
    "{\"url\":\"https://a.example/x\",\"headers\":{\"Authorization\":\"Bearer s3cret\",\"X-Team\":\"a\","
    "\"x-api-KEY\":\"k\"},\"body\":{\"headers\":{\"Cookie\":\"in the body\"}}}";

static void assert_shown(const char *config, const char *expected)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 1 << 16);
    jw_init(&w, &out);
    secret_headers_hide(&w, str_from(config));
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

static void secrets_are_not_shown(void **state)
{
    (void)state;
    assert_shown(stored, "{\"url\":\"https://a.example/x\",\"headers\":{\"Authorization\":\"***\",\"X-Team\":\"a\","
                         "\"x-api-KEY\":\"***\"},\"body\":{\"headers\":{\"Cookie\":\"in the body\"}}}");
    assert_shown("{}", "{}");
    assert_shown("{\"url\":\"https://a.example/\"}", "{\"url\":\"https://a.example/\"}");
    assert_shown("{\"headers\":{}}", "{\"headers\":{}}");
    assert_shown("{\"headers\":null}", "{\"headers\":null}");
    assert_shown("{ \"headers\" : { \"A\" : \"1\" , \"\\u0041uthorization\":\"x\" } }",
                 "{\"headers\":{\"A\":\"1\",\"\\u0041uthorization\":\"***\"}}");
}

static void names_decide(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool secret;
    } rows[] = { { "authorization", true },    { "Proxy-Authorization", true },
                 { "COOKIE", true },           { "X-Token", true },
                 { "x-hub-secret-256", true }, { "Api-Key", true },
                 { "password", true },         { "Accept", false },
                 { "X-Request-Id", false },    { "Content-Type", false } };
    for (size_t i = 0; i < array_count(rows); i++) {
        char config[128], expected[128];
        snprintf(config, sizeof config, "{\"headers\":{\"%s\":\"v\"}}", rows[i].name);
        snprintf(expected, sizeof expected, "{\"headers\":{\"%s\":\"%s\"}}", rows[i].name,
                 rows[i].secret ? "***" : "v");
        assert_shown(config, expected);
    }
}

static enum err keep(const struct task *current, const char *config, struct arena *a, struct str *ret, struct error *e)
{
    *e = (struct error){ 0 };
    return secret_headers_keep(current, TARGET_HTTP, str_from(config), &(struct secret_sealer){ 0 }, a, ret, e);
}

static void what_comes_back_hidden_is_kept(void **state)
{
    (void)state;
    struct arena a;
    struct str is;
    struct error e;
    struct task t = { .target = TARGET_HTTP, .target_config = str_from(stored) };
    arena_init(&a, 1 << 16);
    assert_ok(keep(&t, "{\"url\":\"https://a.example/y\",\"headers\":{\"X-Team\":\"***\",\"AUTHORIZATION\":\"***\"}}",
                   &a, &is, &e),
              &e);
    assert_str(
        is, "{\"url\":\"https://a.example/y\",\"headers\":{\"X-Team\":\"***\",\"AUTHORIZATION\":\"Bearer s3cret\"}}");
    assert_ok(keep(&t, "{\"url\":\"https://b.example/\",\"headers\":{\"Cookie\":\"new\"}}", &a, &is, &e), &e);
    assert_str(is, "{\"url\":\"https://b.example/\",\"headers\":{\"Cookie\":\"new\"}}");
    arena_release(&a);
}

static void what_nobody_knows_or_another_host_would_get_is_refused(void **state)
{
    (void)state;
    struct arena a;
    struct str is;
    struct error e;
    struct task t = { .target = TARGET_HTTP, .target_config = str_from(stored) };
    arena_init(&a, 1 << 16);
    assert_int_equal(keep(NULL, "{\"url\":\"https://a.example/\",\"headers\":{\"Cookie\":\"***\"}}", &a, &is, &e),
                     ERR_INVALID);
    assert_string_equal(e.field, "target_config.headers.Cookie");
    assert_string_equal(e.text, "is ***, which stands for a value that is not shown; give the value");
    assert_int_equal(keep(&t, "{\"url\":\"https://a.example/\",\"headers\":{\"Cookie\":\"***\"}}", &a, &is, &e),
                     ERR_INVALID);
    static const char *const elsewhere[] = { "https://b.example/x", "http://a.example/x", "https://a.example:8443/x",
                                             "https://a.example.evil.example/" };
    for (size_t i = 0; i < array_count(elsewhere); i++) {
        char config[160];
        snprintf(config, sizeof config, "{\"url\":\"%s\",\"headers\":{\"Authorization\":\"***\"}}", elsewhere[i]);
        assert_int_equal(keep(&t, config, &a, &is, &e), ERR_INVALID);
        assert_string_equal(e.text, "must be given again, or be null, because the host or broker is another one");
    }
    arena_release(&a);
}

static void without_keys_a_value_must_not_look_encrypted(void **state)
{
    (void)state;
    struct arena a;
    struct str is;
    struct error e;
    arena_init(&a, 1 << 16);
    static const char *const values[] = { "enc:1:aaaaaaaa:AAAA", "\\u0065nc:1:aaaaaaaa:AAAA" };
    for (size_t i = 0; i < array_count(values); i++) {
        char config[160];
        snprintf(config, sizeof config, "{\"url\":\"https://a.example/\",\"headers\":{\"Cookie\":\"%s\"}}", values[i]);
        assert_int_equal(keep(NULL, config, &a, &is, &e), ERR_INVALID);
        assert_string_equal(e.field, "target_config.headers.Cookie");
    }
    const char *good = "{\"url\":\"https://a.example/\",\"headers\":{\"X-Team\":\"enc:1:a\",\"Cookie\":\"a\\u0065\"}}";
    assert_ok(keep(NULL, good, &a, &is, &e), &e);
    assert_str(is, good);
    arena_release(&a);
}

/* The value of a header as the runner reads it. */
static void assert_header(const struct secrets *s, const struct task *t, const char *name, const char *value)
{
    struct arena a;
    struct webhook w;
    struct error e = { 0 };
    arena_init(&a, 1 << 16);
    assert_ok(webhook_read(t, &a, &w, &e), &e);
    assert_ok(secret_headers_open(s, t, &w, &a, &e), &e);
    for (size_t i = 0; i < w.header_count; i++)
        if (str_eq_nocase(w.headers[i].name, str_from(name))) {
            assert_str(w.headers[i].value, value);
            arena_release(&a);
            return;
        }
    fail_msg("no header %s", name);
}

static void with_keys_secrets_are_stored_encrypted(void **state)
{
    (void)state;
    struct secrets s = { .keys = { { "aaaaaaaa", { 1 } } }, .n = 1 };
    struct secret_sealer here = { &s, 7, { { 1 } } }, there = { &s, 7, { { 2 } } };
    struct arena a;
    struct str is, moved, kept;
    struct error e = { 0 };
    arena_init(&a, 1 << 18);
    const char *config =
        "{\"url\":\"https://a.example/x\",\"headers\":{\"\\u0041uthorization\":\"Bearer \\\"s3cret\",\"X-T\\u0065am\":\"a\","
        "\"api-key\":\"enc:1:mine\"}}";
    assert_ok(secret_headers_keep(NULL, TARGET_HTTP, str_from(config), &here, &a, &is, &e), &e);
    assert_null(memmem(is.p, is.n, "s3cret", 6));
    assert_null(memmem(is.p, is.n, "mine", 4));
    struct task t = { .id = here.row, .tenant = 7, .target = TARGET_HTTP, .target_config = is };
    assert_header(&s, &t, "Authorization", "Bearer \"s3cret");
    assert_header(&s, &t, "X-Team", "a");
    assert_header(&s, &t, "api-key", "enc:1:mine"); /* what a user calls so is a secret like any other */
    struct task occurrence = {
        .id = there.row, .kind = TASK_OCCURRENCE, .parent = here.row, .tenant = 7, .target_config = is
    };
    assert_header(&s, &occurrence, "Authorization", "Bearer \"s3cret");
    assert_ok(secret_headers_keep(&t, TARGET_HTTP,
                                  S("{\"url\":\"https://a.example/y\",\"headers\":{\"api-key\":\"***\"}}"), &here, &a,
                                  &kept, &e),
              &e);
    struct task edited = { .id = here.row, .tenant = 7, .target = TARGET_HTTP, .target_config = kept };
    assert_header(&s, &edited, "api-key", "enc:1:mine");
    assert_ok(secret_headers_move(&there, here.row, is, S(""), &a, &moved, &e), &e);
    struct task holder = { .id = there.row, .tenant = 7, .target = TARGET_HTTP, .target_config = moved };
    assert_header(&s, &holder, "Authorization", "Bearer \"s3cret");
    holder.target_config = is; /* copied by somebody who can write to the store */
    struct webhook w;
    assert_ok(webhook_read(&holder, &a, &w, &e), &e);
    assert_int_equal(secret_headers_open(&s, &holder, &w, &a, &e), ERR_INVALID);
    arena_release(&a);
}

static void a_value_from_before_the_keys_is_encrypted_by_the_next_edit(void **state)
{
    (void)state;
    struct secrets s = { .keys = { { "aaaaaaaa", { 1 } } }, .n = 1 };
    struct secret_sealer sealer = { &s, 7, { { 1 } } };
    struct arena a;
    struct str is;
    struct error e = { 0 };
    struct task t = { .id = sealer.row, .tenant = 7, .target = TARGET_HTTP, .target_config = str_from(stored) };
    arena_init(&a, 1 << 16);
    assert_header(&s, &t, "Authorization", "Bearer s3cret");
    assert_ok(secret_headers_keep(&t, TARGET_HTTP,
                                  S("{\"url\":\"https://a.example/y\",\"headers\":{\"Authorization\":\"***\"}}"),
                                  &sealer, &a, &is, &e),
              &e);
    assert_null(memmem(is.p, is.n, "s3cret", 6));
    t.target_config = is;
    assert_header(&s, &t, "Authorization", "Bearer s3cret");
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_not_shown),
        cmocka_unit_test(names_decide),
        cmocka_unit_test(what_comes_back_hidden_is_kept),
        cmocka_unit_test(what_nobody_knows_or_another_host_would_get_is_refused),
        cmocka_unit_test(without_keys_a_value_must_not_look_encrypted),
        cmocka_unit_test(with_keys_secrets_are_stored_encrypted),
        cmocka_unit_test(a_value_from_before_the_keys_is_encrypted_by_the_next_edit),
    };
    return cmocka_run_group_tests_name("secret_headers", tests, NULL, NULL);
}
