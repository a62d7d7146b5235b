#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/auth/admin_keys.h"
#include "api/auth/auth.h"
#include "api/auth/session_keys.h"
#include "model/store_memory.h"
#include "port/crypto.h"

#define PEPPER S("pepper-of-at-least-16")

struct test_clock {
    struct clock base;
    int64_t us;
};

static int64_t now_us(struct clock *c)
{
    return container_of(c, struct test_clock, base)->us;
}

static int64_t now_ns(struct clock *c)
{
    return now_us(c) * 1000;
}

static const struct clock_ops clock_ops = { .wall_us = now_us, .steady_ns = now_ns };

static struct test_clock clock_at(int64_t ms)
{
    return (struct test_clock){ { &clock_ops }, ms * 1000 };
}

static void store_key(struct store *s, struct str id, struct str scopes, int64_t expires_ms, char text[])
{
    struct api_key row;
    struct error e = { 0 };
    auth_key_make(PEPPER, id, 1, S("n"), scopes, 1, text, &row);
    row.expires_ms = expires_ms;
    struct op_key_put op = { .op = { .kind = OP_KEY_PUT }, .key = &row };
    arena_init(&op.op.arena, 4096);
    struct op *const ops[] = { &op.op };
    assert_ok(store_apply(s, ops, 1, &e), &e);
    arena_release(&op.op.arena);
}

static struct str bearer(const char *text, char out[128])
{
    snprintf(out, 128, "Bearer %s", text);
    return str_from(out);
}

static void a_key_has_its_form_and_a_checksum(void **state)
{
    (void)state;
    char text[AUTH_KEY_TEXT + 1], other[AUTH_KEY_TEXT + 1];
    struct api_key row;
    auth_key_make(PEPPER, S("0123456789"), 1, S("n"), S("admin"), 7, text, &row);
    auth_key_make(PEPPER, S("0123456789"), 1, S("n"), S("admin"), 7, other, &row);
    assert_int_equal(strlen(text), AUTH_KEY_TEXT);
    assert_int_equal(strncmp(text, "bf_0123456789", 13), 0);
    assert_string_not_equal(text, other);
    assert_true(auth_key_is_well_formed(str_from(text)));
    assert_int_equal(row.created_ms, 7);
    uint8_t hash[SHA256_SIZE];
    crypto_hmac_sha256(PEPPER, str_from(other), hash);
    assert_memory_equal(hash, row.hash, sizeof hash);
    for (size_t i = 0; i < AUTH_KEY_TEXT; i++) { /* one wrong character anywhere is detected */
        char typo[AUTH_KEY_TEXT + 1];
        memcpy(typo, text, sizeof typo);
        typo[i] = typo[i] == 'x' ? 'y' : 'x';
        assert_false(auth_key_is_well_formed(str_from(typo)));
    }
    assert_false(auth_key_is_well_formed(str_sub(str_from(text), 0, AUTH_KEY_TEXT - 1)));
    text[20] = '-';
    assert_false(auth_key_is_well_formed(str_from(text)));
}

static void headers_that_hold_no_key_are_told_apart(void **state)
{
    (void)state;
    struct test_clock c = clock_at(1);
    struct auth *a = auth_new(PEPPER, &c.base);
    struct identity who;
    char key[AUTH_KEY_TEXT + 1], header[128];
    struct api_key row;
    auth_key_make(PEPPER, S("0123456789"), 1, S(""), S(""), 0, key, &row);
    assert_int_equal(auth_check(a, S(""), &who), AUTH_MISSING);
    assert_int_equal(auth_check(a, S("Bearer"), &who), AUTH_MALFORMED);
    assert_int_equal(auth_check(a, S("Bearer "), &who), AUTH_MALFORMED);
    assert_int_equal(auth_check(a, S("Basic abc"), &who), AUTH_MALFORMED);
    assert_int_equal(auth_check(a, str_from(key), &who), AUTH_MALFORMED);
    assert_int_equal(auth_check(a, bearer(key, header), &who), AUTH_NOT_CACHED);
    snprintf(header, sizeof header, "bearer   %s", key);
    assert_int_equal(auth_check(a, str_from(header), &who), AUTH_NOT_CACHED);
    auth_free(a);
    auth_free(NULL);
}

static enum auth_result asked(struct auth *a, struct reader *r, const char *key, struct identity *who)
{
    char header[128];
    struct error e = { 0 };
    enum auth_result result = AUTH_MISSING;
    assert_ok(auth_check_store(a, bearer(key, header), r, &result, who, &e), &e);
    return result;
}

static enum auth_result checked(struct auth *a, const char *key, struct identity *who)
{
    char header[128];
    return auth_check(a, bearer(key, header), who);
}

static void the_store_is_asked_once_and_again_when_it_was_long_ago(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct test_clock c = clock_at(1000);
    struct auth *a = auth_new(PEPPER, &c.base);
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    assert_ok(store_reader(s, &r, &e), &e);
    char key[AUTH_KEY_TEXT + 1], forged[AUTH_KEY_TEXT + 1], old[AUTH_KEY_TEXT + 1];
    struct identity who = { 0 };
    struct api_key row;
    auth_key_make(PEPPER, S("key0000001"), 1, S(""), S("admin"), 0, forged, &row);
    store_key(s, S("key0000001"), S("tasks:read  dlq:read bogus"), 0, key);
    store_key(s, S("key0000002"), S("admin"), 2000, old);
    assert_int_equal(checked(a, key, &who), AUTH_NOT_CACHED);
    assert_int_equal(asked(a, r, forged, &who), AUTH_REFUSED);
    assert_int_equal(checked(a, key, &who), AUTH_NOT_CACHED); /* a forged key is not cached */
    assert_int_equal(asked(a, r, key, &who), AUTH_OK);
    assert_int_equal(who.tenant, 1);
    assert_string_equal(who.key_id, "key0000001");
    assert_true(identity_may(&who, SCOPE_TASKS_READ) && identity_may(&who, SCOPE_DLQ_READ));
    assert_true(identity_may(&who, SCOPE_PUBLIC));
    assert_false(identity_may(&who, SCOPE_TASKS_WRITE) || identity_may(&who, SCOPE_ADMIN));
    assert_int_equal(checked(a, key, &who), AUTH_OK);
    assert_int_equal(checked(a, forged, &who), AUTH_REFUSED);
    assert_int_equal(asked(a, r, old, &who), AUTH_OK);
    assert_true(identity_may(&who, SCOPE_METRICS_READ));
    c.us = 2000 * 1000;
    assert_int_equal(checked(a, old, &who), AUTH_EXPIRED);
    assert_int_equal(asked(a, r, old, &who), AUTH_EXPIRED);
    c.us = (1000 + AUTH_CACHE_MS) * 1000;
    who = (struct identity){ 0 };
    assert_int_equal(checked(a, key, &who), AUTH_STALE);
    assert_int_equal(checked(a, forged, &who), AUTH_NOT_CACHED);
    assert_int_equal(who.scopes, 0); /* the store decides */
    assert_int_equal(asked(a, r, key, &who), AUTH_OK);
    assert_int_equal(checked(a, key, &who), AUTH_OK);
    reader_free(r);
    store_free(s);
    auth_free(a);
}

static void the_cache_is_bounded(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct test_clock c = clock_at(1000);
    struct auth *a = auth_new(PEPPER, &c.base);
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    struct identity who;
    char first[AUTH_KEY_TEXT + 1], key[AUTH_KEY_TEXT + 1];
    assert_ok(store_reader(s, &r, &e), &e);
    for (int i = 0; i <= AUTH_CACHE_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "many%06d", i);
        store_key(s, str_from(id), S("admin"), 0, i ? key : first);
        assert_int_equal(asked(a, r, i ? key : first, &who), AUTH_OK);
    }
    assert_int_equal(checked(a, first, &who), AUTH_NOT_CACHED);
    assert_int_equal(checked(a, key, &who), AUTH_OK);
    reader_free(r);
    store_free(s);
    auth_free(a);
}

static void the_first_start_makes_one_admin_key(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    struct test_clock c = clock_at(5);
    struct auth *a = auth_new(PEPPER, &c.base);
    char key[AUTH_KEY_TEXT + 1] = "?", again[AUTH_KEY_TEXT + 1] = "?";
    struct identity who;
    assert_ok(auth_bootstrap(s, PEPPER, 5, key, &e), &e);
    assert_true(auth_key_is_well_formed(str_from(key)));
    assert_ok(auth_bootstrap(s, PEPPER, 6, again, &e), &e);
    assert_string_equal(again, "");
    assert_ok(store_reader(s, &r, &e), &e);
    assert_int_equal(asked(a, r, key, &who), AUTH_OK);
    assert_int_equal(who.tenant, TENANT_DEFAULT);
    for (enum scope scope = SCOPE_PUBLIC; scope <= SCOPE_ADMIN; scope++)
        assert_true(identity_may(&who, scope));
    reader_free(r);
    store_free(s);
    auth_free(a);
}

static void a_start_makes_a_key_when_none_that_works_is_left(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    char mine[AUTH_KEY_TEXT + 1], made[AUTH_KEY_TEXT + 1] = "?";
    store_key(s, S("0123456789"), S("tasks:read admin"), 100, mine);
    assert_ok(auth_bootstrap(s, PEPPER, 99, made, &e), &e);
    assert_string_equal(made, "");
    assert_ok(auth_bootstrap(s, PEPPER, 100, made, &e), &e); /* the key has expired by now */
    assert_true(auth_key_is_well_formed(str_from(made)));
    store_free(s);
}

static void take_lease(struct store *s, struct str name, int64_t now_ms, int64_t ttl_ms)
{
    struct op_lease op = {
        .op = { .kind = OP_LEASE }, .name = name, .holder = { { 1 } }, .now_ms = now_ms, .ttl_ms = ttl_ms
    };
    struct op *const ops[] = { &op.op };
    struct error e = { 0 };
    arena_init(&op.op.arena, 1 << 16);
    assert_ok(store_apply(s, ops, 1, &e), &e);
    assert_true(op.ret_held);
    arena_release(&op.op.arena);
}

static void a_start_waits_for_another_that_makes_the_key_and_no_longer_than_it_may_take(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    cleanup_with(arena_release) struct arena arena;
    struct api_key key;
    char made[AUTH_KEY_TEXT + 1] = "?";
    arena_init(&arena, 1 << 16);
    take_lease(s, S("bootstrap"), 1000, 200);
    /* the node that held the lease died: nobody else makes the key */
    assert_ok(auth_bootstrap(s, PEPPER, 1000, made, &e), &e);
    assert_true(auth_key_is_well_formed(str_from(made)));
    assert_ok(store_reader(s, &r, &e), &e);
    assert_ok(reader_key(r, (struct str){ made + 3, AUTH_ID }, &arena, &key, &e), &e);
    assert_int_equal(key.created_ms, 1200); /* not before the lease expired */
    reader_free(r);
    take_lease(s, S("bootstrap"), 1200, 1); /* the lease was released at the end */
    store_free(s);
}

static void a_key_that_was_forgotten_is_asked_for_again(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    struct test_clock c = clock_at(5);
    struct auth *a = auth_new(PEPPER, &c.base);
    char key[AUTH_KEY_TEXT + 1], header[128];
    struct identity who;
    store_key(s, S("0123456789"), S("tasks:read"), 0, key);
    assert_ok(store_reader(s, &r, &e), &e);
    assert_int_equal(asked(a, r, key, &who), AUTH_OK);
    assert_int_equal(auth_check(a, bearer(key, header), &who), AUTH_OK);
    auth_cache_remove(a, S("9876543210"));
    assert_int_equal(auth_check(a, bearer(key, header), &who), AUTH_OK);
    auth_cache_remove(a, S("0123456789"));
    assert_int_equal(auth_check(a, bearer(key, header), &who), AUTH_NOT_CACHED);
    reader_free(r);
    store_free(s);
    auth_free(a);
}

/* The key is revoked while another thread reads it. */
static struct auth *revoked_from;
static const struct reader_ops *honest;

static enum err read_key_late(struct reader *r, struct str id, struct arena *arena, struct api_key *ret,
                              struct error *e)
{
    enum err rc = honest->key(r, id, arena, ret, e);
    auth_cache_remove(revoked_from, id);
    return rc;
}

static void a_key_that_is_revoked_while_it_is_read_is_not_remembered(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    struct test_clock c = clock_at(5);
    struct auth *a = auth_new(PEPPER, &c.base);
    char key[AUTH_KEY_TEXT + 1], header[128];
    struct identity who;
    store_key(s, S("0123456789"), S("tasks:read"), 0, key);
    assert_ok(store_reader(s, &r, &e), &e);
    struct reader_ops late = *r->ops;
    honest = r->ops;
    late.key = read_key_late;
    r->ops = &late;
    revoked_from = a;
    assert_int_equal(asked(a, r, key, &who), AUTH_OK); /* the read came first */
    assert_int_equal(auth_check(a, bearer(key, header), &who), AUTH_NOT_CACHED);
    r->ops = honest;
    reader_free(r);
    store_free(s);
    auth_free(a);
}

/* ---- sessions and codes ---- */

static void store_row(struct store *s, const struct api_key *key, bool remove, int64_t now_ms)
{
    struct error e = { 0 };
    struct op_key_put op = { .op = { .kind = OP_KEY_PUT }, .key = key, .remove = remove, .now_ms = now_ms };
    struct op *const ops[] = { &op.op };
    arena_init(&op.op.arena, 1 << 16);
    assert_ok(store_apply(s, ops, 1, &e), &e);
    assert_int_equal(op.op.rc, ERR_OK);
    arena_release(&op.op.arena);
}

static enum auth_result given(struct auth *a, struct reader *r, const char *text, enum auth_kind kind)
{
    struct error e = { 0 };
    struct identity who = { 0 };
    enum auth_result result = AUTH_MISSING;
    assert_ok(auth_check_text(a, str_from(text), kind, r, &result, &who, &e), &e);
    if (result == AUTH_OK)
        assert_string_equal(who.key_id, "key0000001");
    return result;
}

static void a_session_and_a_code_end_in_time_and_are_valid_in_their_place_only(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    struct test_clock c = clock_at(5000);
    struct auth *a = auth_new(PEPPER, &c.base);
    char key[AUTH_KEY_TEXT + 1], session[AUTH_KEY_TEXT + 1], code[AUTH_KEY_TEXT + 1];
    struct api_key parent, row;
    struct identity who;
    auth_key_make(PEPPER, S("key0000001"), 1, S("n"), S("tasks:read"), 1000, key, &parent);
    store_row(s, &parent, false, 0);
    auth_session_make(PEPPER, S("session001"), &parent, 5000, session, &row);
    store_row(s, &row, false, 0);
    auth_code_make(PEPPER, S("code000001"), &parent, 5000, code, &row);
    store_row(s, &row, false, 0);
    assert_ok(store_reader(s, &r, &e), &e);
    const char *const texts[] = { [AUTH_KEY] = key, [AUTH_SESSION] = session, [AUTH_CODE] = code };
    for (enum auth_kind is = AUTH_KEY; is <= AUTH_CODE; is++)
        for (enum auth_kind as = AUTH_KEY; as <= AUTH_CODE; as++)
            assert_int_equal(given(a, r, texts[is], as), is == as ? AUTH_OK : AUTH_REFUSED);
    assert_int_equal(checked(a, session, &who), AUTH_REFUSED); /* the cache tells them apart, too */
    assert_int_equal(auth_check_session(a, str_from(key), &who), AUTH_REFUSED);
    assert_int_equal(auth_check_session(a, str_from(session), &who), AUTH_OK);
    assert_string_equal(who.session, "session001");
    c.us = (5000 + LOGIN_CODE_MS - 1) * 1000LL;
    assert_int_equal(given(a, r, code, AUTH_CODE), AUTH_OK);
    c.us = (5000 + LOGIN_CODE_MS) * 1000LL;
    assert_int_equal(given(a, r, code, AUTH_CODE), AUTH_EXPIRED);
    c.us = (5000 + SESSION_MS - 1) * 1000LL;
    assert_int_equal(given(a, r, session, AUTH_SESSION), AUTH_OK);
    c.us = (5000 + SESSION_MS) * 1000LL;
    assert_int_equal(given(a, r, session, AUTH_SESSION), AUTH_EXPIRED);
    reader_free(r);
    store_free(s);
    auth_free(a);
}

static void a_session_dies_with_its_key_and_does_not_wake_with_another_of_its_id(void **state)
{
    (void)state;
    struct error e = { 0 };
    struct store *s = store_memory_new();
    struct reader *r = NULL;
    struct test_clock c = clock_at(5000);
    struct auth *a = auth_new(PEPPER, &c.base);
    char key[AUTH_KEY_TEXT + 1], session[AUTH_KEY_TEXT + 1], token[CSRF_TEXT + 1], other[CSRF_TEXT + 1];
    struct api_key parent, row;
    struct identity who;
    auth_key_make(PEPPER, S("key0000001"), 1, S("n"), S("admin"), 5100, key, &parent); /* by a clock that is ahead */
    parent.expires_ms = 9000;
    store_row(s, &parent, false, 0);
    auth_session_make(PEPPER, S("session001"), &parent, 5000, session, &row);
    assert_int_equal(row.expires_ms, 9000);
    store_row(s, &row, false, 0);
    assert_ok(store_reader(s, &r, &e), &e);
    assert_int_equal(given(a, r, session, AUTH_SESSION), AUTH_OK);
    store_row(s, &parent, true, 6000);
    auth_cache_remove(a, S("key0000001"));
    assert_int_equal(auth_check_session(a, str_from(session), &who), AUTH_STALE);
    assert_int_equal(given(a, r, session, AUTH_SESSION), AUTH_REVOKED);
    auth_key_make(PEPPER, S("key0000001"), 1, S("n"), S("admin"), 7000, key, &parent);
    store_row(s, &parent, false, 0);
    assert_int_equal(given(a, r, session, AUTH_SESSION), AUTH_REVOKED);
    auth_csrf_token(PEPPER, str_from(session), token);
    auth_csrf_token(PEPPER, str_from(key), other);
    assert_int_equal(strlen(token), CSRF_TEXT);
    assert_string_not_equal(token, other);
    reader_free(r);
    store_free(s);
    auth_free(a);
}

static void new_ids_are_letters_and_digits(void **state)
{
    (void)state;
    char id[AUTH_ID + 1], other[AUTH_ID + 1];
    auth_id_make(id);
    auth_id_make(other);
    assert_int_equal(strlen(id), AUTH_ID);
    assert_string_not_equal(id, other);
    for (size_t i = 0; i < AUTH_ID; i++)
        assert_true(is_digit(id[i]) || (ascii_lower(id[i]) >= 'a' && ascii_lower(id[i]) <= 'z'));
}

static void scopes_have_names(void **state)
{
    (void)state;
    assert_string_equal(scope_name(SCOPE_PUBLIC), "public");
    assert_string_equal(scope_name(SCOPE_TASKS_WRITE), "tasks:write");
    assert_int_equal(scopes_parse(S("")), 0);
    assert_int_equal(scopes_parse(S("public tasks")), 0);
    assert_int_equal(scopes_parse(S("status:read tasks:write")), 1U << SCOPE_STATUS_READ | 1U << SCOPE_TASKS_WRITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_its_form_and_a_checksum),
        cmocka_unit_test(headers_that_hold_no_key_are_told_apart),
        cmocka_unit_test(the_store_is_asked_once_and_again_when_it_was_long_ago),
        cmocka_unit_test(the_cache_is_bounded),
        cmocka_unit_test(the_first_start_makes_one_admin_key),
        cmocka_unit_test(a_start_makes_a_key_when_none_that_works_is_left),
        cmocka_unit_test(a_start_waits_for_another_that_makes_the_key_and_no_longer_than_it_may_take),
        cmocka_unit_test(a_key_that_was_forgotten_is_asked_for_again),
        cmocka_unit_test(a_key_that_is_revoked_while_it_is_read_is_not_remembered),
        cmocka_unit_test(a_session_and_a_code_end_in_time_and_are_valid_in_their_place_only),
        cmocka_unit_test(a_session_dies_with_its_key_and_does_not_wake_with_another_of_its_id),
        cmocka_unit_test(new_ids_are_letters_and_digits),
        cmocka_unit_test(scopes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
