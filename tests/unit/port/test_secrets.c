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
    struct key_print a = secrets_print(&s, 0), b = secrets_print(&s, 1);
    assert_memory_not_equal(a.print, b.print, sizeof a.print);
    assert_memory_not_equal(a.print, s.keys[0].key, sizeof a.print);
    assert_string_equal(b.id, "bbbbbbbb");
    assert_int_equal(secrets_find_print(&s, b.print), 1);
}

/* As a store gives back what it knows of these keys. */
static struct key_prints known_of(const struct secrets *s)
{
    struct key_prints known = { 0 };
    for (size_t i = 0; i < s->n; i++) {
        struct key_print k = secrets_print(s, i);
        char name[16];
        snprintf(name, sizeof name, "key:%s", k.id);
        assert_true(key_prints_add(&known, str_from(name), (struct str){ (const char *)k.print, sizeof k.print }));
    }
    return known;
}

static void a_file_without_a_key_of_the_store_is_found(void **state)
{
    (void)state;
    struct secrets both = parse(two_keys), one = parse(strstr(two_keys, "bbbbbbbb"));
    struct key_prints known = known_of(&both);
    assert_null(secrets_lack(&both, &known));
    assert_string_equal(secrets_lack(&one, &known)->id, "aaaaaaaa");
    struct secrets same_id = both;
    same_id.keys[1].key[0] ^= 1;
    assert_string_equal(secrets_lack(&same_id, &known)->id, "bbbbbbbb");
    struct secrets renamed = both;
    renamed.keys[0].id[0] = 'c';
    assert_string_equal(secrets_lack(&renamed, &known)->id, "aaaaaaaa");
    struct secrets none = { 0 };
    assert_string_equal(secrets_lack(&none, &known)->id, "aaaaaaaa");
    known = known_of(&one);
    assert_null(secrets_lack(&both, &known));
    assert_null(key_prints_find(&known, S("aaaaaaaa")));
}

static void what_a_store_knows_is_read_strictly(void **state)
{
    (void)state;
    struct key_prints known = { 0 };
    assert_true(key_prints_add(&known, S("key_print"), S("0123456789abcdef")));
    assert_true(known.has_current && known.n == 0 && memcmp(known.current, "0123456789abcdef", 16) == 0);
    assert_true(key_prints_add(&known, S("key:aaaaaaaa"), S("0123456789abcdef")));
    assert_false(key_prints_add(&known, S("key:aaaaaaaa"), S("short")));
    assert_false(key_prints_add(&known, S("key:aaaa"), S("0123456789abcdef")));
    assert_false(key_prints_add(&known, S("key"), S("0123456789abcdef")));
    assert_int_equal(known.n, 1);
}

static void a_lost_key_is_given_up(void **state)
{
    (void)state;
    struct secrets old = parse(strstr(two_keys, "bbbbbbbb"));
    struct secrets now = parse("bbbbbbbb lost\naaaaaaaa AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n");
    struct key_prints known = known_of(&old);
    struct secret_place at = place(1, 1, "Cookie");
    struct sealed x;
    struct str plain;
    struct error e;
    assert_true(now.n == 1 && secrets_is_lost(&now, S("bbbbbbbb")) && !secrets_is_lost(&now, S("aaaaaaaa")));
    assert_null(secrets_lack(&now, &known));
    sealed_init(&x, &old, &at, "a");
    assert_int_equal(secret_open(&now, &at, buf_str(&x.text), &x.arena, &plain, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "'bbbbbbbb', which is lost"));
    sealed_release(&x);
}

/* A worker keeps 127 bytes of an error. */
static void a_missing_key_is_told_in_a_short_text_and_is_no_failure_of_the_task(void **state)
{
    (void)state;
    struct secrets old = parse(strstr(two_keys, "bbbbbbbb"));
    struct secret_place at = place(1, 1, "Proxy-Authorization");
    struct task t = { .id = at.row, .tenant = 1 };
    struct sealed x;
    struct error e = { 0 };
    sealed_init(&x, &old, &at, "a");
    struct webhook_header header = { at.field, buf_str(&x.text) };
    struct webhook w = { .headers = &header, .header_count = 1 };
    assert_int_equal(secret_headers_open(NULL, &t, &w, &x.arena, &e), ERR_UNAVAILABLE);
    assert_string_equal(e.field, "headers.Proxy-Authorization");
    assert_string_equal(e.text, "needs key 'bbbbbbbb', which secrets.key_file lacks here");
    assert_true(strlen(e.field) + 2 + strlen(e.text) < 128);
    t.tenant = 2;
    assert_int_equal(secret_headers_open(&old, &t, &w, &x.arena, &e), ERR_INVALID);
    sealed_release(&x);
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
        cmocka_unit_test(a_file_without_a_key_of_the_store_is_found),
        cmocka_unit_test(what_a_store_knows_is_read_strictly),
        cmocka_unit_test(a_lost_key_is_given_up),
        cmocka_unit_test(a_missing_key_is_told_in_a_short_text_and_is_no_failure_of_the_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
