/* Signatures of webhooks: the example of Standard Webhooks, and what counts as a secret. */
#include "check.h"

#include "port/webhook_signature.h"

static void the_example_of_the_standard_is_signed_as_there(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 256);
    webhook_sign(S("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), S("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                 S("{\"test\": 2432232314}"), &out);
    assert_string_equal(buf_cstr(&out), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void a_secret_has_a_prefix_and_enough_bytes(void **state)
{
    (void)state;
    char made[WEBHOOK_SECRET_TEXT + 1], other[WEBHOOK_SECRET_TEXT + 1];
    webhook_secret_make(made);
    webhook_secret_make(other);
    assert_true(webhook_secret_is_valid(str_from(made)));
    assert_int_equal(strlen(made), WEBHOOK_SECRET_TEXT);
    assert_string_not_equal(made, other);
    assert_false(webhook_secret_is_valid(S("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")));
    assert_false(webhook_secret_is_valid(S("whsec_")));
    assert_false(webhook_secret_is_valid(S("whsec_YWJj")));
    assert_false(webhook_secret_is_valid(S("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaL!Sw")));
    assert_false(webhook_secret_is_valid(S("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaL-Sw")));
    assert_false(webhook_secret_is_valid(S("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=x==")));
    assert_false(webhook_secret_is_valid(S("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=")));
    assert_true(webhook_secret_is_valid(S("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")));
    assert_true(webhook_key_signs(str_from(made)));
}

#define SEED   "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define PAIR   "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA=="
#define PUBLIC "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

static void a_pair_signs_as_cryptography_of_python_does(void **state)
{
    (void)state;
    const struct str keys[] = { S(SEED), S(PAIR) };
    for (size_t i = 0; i < array_count(keys); i++) {
        cleanup_with(buf_release) struct buf out;
        char public_key[WEBHOOK_PUBLIC_TEXT + 1];
        buf_init(&out, 256);
        assert_true(webhook_private_key_is_valid(keys[i]));
        webhook_public_key(keys[i], public_key);
        assert_string_equal(public_key, PUBLIC);
        webhook_sign(keys[i], S("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330, S("{\"test\": 2432232314}"), &out);
        assert_string_equal(buf_cstr(&out), "v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4"
                                            "iaBGxTFRrl2iBQxtDQ==");
        buf_reset(&out);
        webhook_sign(keys[i], S("a"), 1, S(""), &out);
        assert_string_equal(buf_cstr(&out), "v1a,dRGx2Pqo2W7dVD9/oIk3cKQXDBsOPlX0c2SXM5VqAJPRa2ARRJn8luAVGvwZE8LkWVRl"
                                            "u0wo1UaTPjmO8OhBDQ==");
    }
    char made[WEBHOOK_PRIVATE_TEXT + 1];
    webhook_private_key_make(made);
    assert_true(webhook_private_key_is_valid(str_from(made)));
    assert_true(webhook_public_key_is_valid(S(PUBLIC)));
    assert_false(webhook_private_key_is_valid(S(PUBLIC)));
    assert_false(webhook_public_key_is_valid(S(SEED)));
    assert_false(webhook_private_key_is_valid(
        S("whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuQ==")));
    assert_false(webhook_key_signs(S(PUBLIC)));
}

static void a_signature_is_verified_among_others(void **state)
{
    (void)state;
#define V1  "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define V1A "v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ=="
    const struct str secret = S("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    struct webhook_signed s = { .id = S("msg_p5jXN8AQM9LWM0D4loKWxJek"),
                                .timestamp = S("1614265330"),
                                .body = S("{\"test\": 2432232314}"),
                                .signatures = S("v1,AAAA v2,x " V1 " " V1A) };
    assert_int_equal(webhook_verify(secret, &s), WEBHOOK_SIGNED);
    assert_int_equal(webhook_verify(S(PUBLIC), &s), WEBHOOK_SIGNED);
    assert_int_equal(webhook_verify(S(SEED), &s), WEBHOOK_SIGNED);
    assert_int_equal(webhook_verify(S("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"), &s), WEBHOOK_OTHER_SIGNED);
    s.body = S("{\"test\": 2432232315}");
    assert_int_equal(webhook_verify(secret, &s), WEBHOOK_OTHER_SIGNED);
    assert_int_equal(webhook_verify(S(PUBLIC), &s), WEBHOOK_OTHER_SIGNED);
    s.signatures = S(V1);
    assert_int_equal(webhook_verify(S(PUBLIC), &s), WEBHOOK_NO_SUCH);
    s.signatures = S("");
    assert_int_equal(webhook_verify(secret, &s), WEBHOOK_NO_SUCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_standard_is_signed_as_there),
        cmocka_unit_test(a_secret_has_a_prefix_and_enough_bytes),
        cmocka_unit_test(a_pair_signs_as_cryptography_of_python_does),
        cmocka_unit_test(a_signature_is_verified_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
