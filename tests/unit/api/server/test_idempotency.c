#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/server/idempotency.h"

static struct idempotency record(int32_t tenant, const char *method, const char *path, const char *key,
                                 const char *body)
{
    return idempotency_of(tenant, str_from(method), str_from(path), S(""), str_from(key), str_from(body), 42);
}

static bool same_key(struct idempotency a, struct idempotency b)
{
    return memcmp(a.key, b.key, sizeof a.key) == 0;
}

static void a_record_is_that_of_method_path_and_key(void **state)
{
    (void)state;
    struct idempotency a = record(1, "POST", "/v1/tasks", "k", "body");
    assert_true(same_key(a, record(1, "POST", "/v1/tasks", "k", "other body")));
    assert_false(same_key(a, record(1, "PATCH", "/v1/tasks", "k", "body")));
    assert_false(same_key(a, record(1, "POST", "/v1/tasks/batch", "k", "body")));
    assert_false(same_key(a, record(1, "POST", "/v1/tasks", "K", "body")));
    assert_int_equal(a.tenant, 1);
    assert_int_equal(a.created_ms, 42);
    uint8_t hash[SHA256_SIZE];
    crypto_sha256(S("body"), hash);
    assert_memory_equal(a.payload, hash, sizeof hash);
}

static void the_query_is_part_of_what_was_asked_for(void **state)
{
    (void)state;
    struct idempotency a = idempotency_of(1, S("PUT"), S("/c"), S("a=1"), S("k"), S("body"), 42);
    struct idempotency b = idempotency_of(1, S("PUT"), S("/c"), S("a=2"), S("k"), S("body"), 42);
    struct idempotency none = record(1, "PUT", "/c", "k", "body");
    assert_true(same_key(a, b) && same_key(a, none));
    assert_memory_not_equal(a.payload, b.payload, sizeof a.payload);
    assert_memory_not_equal(a.payload, none.payload, sizeof a.payload);
}

static void keys_are_visible_text_of_some_length(void **state)
{
    (void)state;
    struct error e = { 0 };
    char longest[IDEMPOTENCY_KEY_MAX + 2];
    memset(longest, 'k', sizeof longest);
    assert_int_equal(idempotency_check_key(S("a b~!"), "f", &e), ERR_OK);
    assert_int_equal(idempotency_check_key((struct str){ longest, IDEMPOTENCY_KEY_MAX }, "f", &e), ERR_OK);
    assert_int_equal(idempotency_check_key((struct str){ longest, IDEMPOTENCY_KEY_MAX + 1 }, "f", &e), ERR_INVALID);
    assert_string_equal(e.field, "f");
    assert_says(&e, "1 to 255");
    assert_int_equal(idempotency_check_key(S(""), "f", &e), ERR_INVALID);
    assert_int_equal(idempotency_check_key(S("a\tb"), "f", &e), ERR_INVALID);
    assert_says(&e, "byte 0x09");
    assert_int_equal(idempotency_check_key(S("\xc3\xa9"), "f", &e), ERR_INVALID);
    assert_int_equal(idempotency_check_key(S("\x7f"), "f", &e), ERR_INVALID);
}

static void only_one_of_a_key_is_in_flight(void **state)
{
    (void)state;
    struct inflight_keys f;
    inflight_keys_init(&f);
    struct idempotency a = record(1, "POST", "/", "a", ""), b = record(1, "POST", "/", "b", "");
    struct idempotency other_tenant = record(2, "POST", "/", "a", "");
    struct inflight_key one = { 0 }, two = { 0 }, three = { 0 }, four = { 0 };
    assert_true(inflight_keys_add(&f, &one, &a));
    assert_false(inflight_keys_add(&f, &two, &a));
    assert_true(inflight_keys_add(&f, &three, &b));
    assert_true(inflight_keys_add(&f, &four, &other_tenant));
    inflight_keys_remove(&f, &two); /* was not added: no effect */
    assert_false(inflight_keys_add(&f, &two, &a));
    inflight_keys_remove(&f, &one);
    inflight_keys_remove(&f, &one);
    assert_true(inflight_keys_add(&f, &two, &a));
    inflight_keys_remove(&f, &two);
    inflight_keys_remove(&f, &three);
    inflight_keys_remove(&f, &four);
    inflight_keys_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_that_of_method_path_and_key),
        cmocka_unit_test(the_query_is_part_of_what_was_asked_for),
        cmocka_unit_test(keys_are_visible_text_of_some_length),
        cmocka_unit_test(only_one_of_a_key_is_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
