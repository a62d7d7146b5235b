#include "check.h"

#include <stdio.h>

#include "port/secrets.h"

static const char two_keys[] = "# a comment\n"
                               "\n"
                               "aaaaaaaa AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n"
                               "bbbbbbbb ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8\n";

static struct secrets parse(const char *text)
{
    struct secrets s;
    struct error e = { 0 };
    assert_ok(secrets_parse(str_from(text), &s, &e), &e);
    return s;
}

static struct secret_place place(int32_t tenant, uint8_t row, const char *field)
{
    return (struct secret_place){ tenant, { { row } }, str_from(field) };
}

static void a_key_file_is_read(void **state)
{
    (void)state;
    struct secrets s = parse(two_keys);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.keys[0].id, "aaaaaaaa");
    assert_true(s.keys[0].key[31] == 31 && s.keys[1].key[0] == 32);
    char line[SECRETS_LINE + 1];
    secrets_new_line(line);
    assert_int_equal(parse(line).n, 1);
    assert_int_equal(strlen(line), SECRETS_LINE);
}

static void what_is_no_key_file_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "# nothing\n",
        "aaaaaaaa\n",
        "aaaaaaaa short\n",
        "aaa AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
        "aaaa:aaa AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
        "aaaaaaaa AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9\n",
    };
    struct secrets s;
    struct error e;
    for (size_t i = 0; i < array_count(rows); i++)
        assert_int_equal(secrets_parse(str_from(rows[i]), &s, &e), ERR_INVALID);
}

struct sealed {
    struct arena arena;
    struct buf text;
};

static void sealed_init(struct sealed *x, const struct secrets *s, const struct secret_place *at, const char *plain)
{
    arena_init(&x->arena, 1 << 16);
    buf_init(&x->text, 1 << 12);
    secret_seal(s, at, str_from(plain), &x->text);
}

static void sealed_release(struct sealed *x)
{
    arena_release(&x->arena);
    buf_release(&x->text);
}

static enum err open_at(struct sealed *x, const struct secrets *s, struct secret_place at, struct str *ret)
{
    struct error e;
    return secret_open(s, &at, buf_str(&x->text), &x->arena, ret, &e);
}

static void a_secret_comes_back_at_its_place_only(void **state)
{
    (void)state;
    struct secrets s = parse(two_keys);
    struct secret_place at = place(7, 9, "Authorization");
    struct sealed x;
    struct str plain;
    sealed_init(&x, &s, &at, "Bearer abc");
    assert_true(secret_is_sealed(buf_str(&x.text)) && str_starts(buf_str(&x.text), S("enc:1:aaaaaaaa:")));
    assert_int_equal(open_at(&x, &s, at, &plain), ERR_OK);
    assert_str(plain, "Bearer abc");
    assert_int_equal(open_at(&x, &s, place(7, 9, "AUTHORIZATION"), &plain), ERR_OK);
    assert_int_equal(open_at(&x, &s, place(8, 9, "Authorization"), &plain), ERR_CORRUPT);
    assert_int_equal(open_at(&x, &s, place(7, 8, "Authorization"), &plain), ERR_CORRUPT);
    assert_int_equal(open_at(&x, &s, place(7, 9, "Cookie"), &plain), ERR_CORRUPT);
    sealed_release(&x);
}

static void equal_secrets_have_other_ciphertexts(void **state)
{
    (void)state;
    struct secrets s = parse(two_keys);
    struct secret_place at = place(1, 1, "Cookie");
    struct sealed x, y;
    sealed_init(&x, &s, &at, "a");
    sealed_init(&y, &s, &at, "a");
    assert_false(str_eq(buf_str(&x.text), buf_str(&y.text)));
    sealed_release(&x);
    sealed_release(&y);
}

static void every_changed_byte_is_noticed(void **state)
{
    (void)state;
    struct secrets s = parse(two_keys);
    struct secret_place at = place(1, 1, "Cookie");
    struct sealed x;
    struct str plain;
    sealed_init(&x, &s, &at, "session=1");
    for (size_t i = 0; i < x.text.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            x.text.p[i] = (char)(x.text.p[i] ^ 1 << bit);
            assert_int_not_equal(open_at(&x, &s, at, &plain), ERR_OK);
            x.text.p[i] = (char)(x.text.p[i] ^ 1 << bit);
        }
    for (; x.text.n; x.text.n--) {
        struct buf cut = { .p = x.text.p, .n = x.text.n - 1 };
        struct error e;
        assert_int_not_equal(secret_open(&s, &at, buf_str(&cut), &x.arena, &plain, &e), ERR_OK);
    }
    sealed_release(&x);
}

static void an_older_key_still_decrypts_and_a_missing_one_is_named(void **state)
{
    (void)state;
    struct secrets both = parse(two_keys), old = parse(strstr(two_keys, "bbbbbbbb")), other;
    struct secret_place at = place(1, 1, "Cookie");
    struct sealed x;
    struct str plain;
    struct error e;
    sealed_init(&x, &old, &at, "a");
    assert_int_equal(open_at(&x, &both, at, &plain), ERR_OK);
    other = both;
    other.n = 1;
    assert_int_equal(secret_open(&other, &at, buf_str(&x.text), &x.arena, &plain, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, "'bbbbbbbb'"));
    assert_int_equal(open_at(&x, NULL, at, &plain), ERR_NOT_FOUND);
    sealed_release(&x);
}

static void a_fingerprint_tells_keys_apart(void **state)
{
    (void)state;
    struct secrets s = parse(two_keys);
    uint8_t a[SECRETS_PRINT], b[SECRETS_PRINT];
    secrets_fingerprint(&s, 0, a);
    secrets_fingerprint(&s, 1, b);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, s.keys[0].key, sizeof a);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_file_is_read),
        cmocka_unit_test(what_is_no_key_file_is_refused),
        cmocka_unit_test(a_secret_comes_back_at_its_place_only),
        cmocka_unit_test(equal_secrets_have_other_ciphertexts),
        cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(an_older_key_still_decrypts_and_a_missing_one_is_named),
        cmocka_unit_test(a_fingerprint_tells_keys_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
