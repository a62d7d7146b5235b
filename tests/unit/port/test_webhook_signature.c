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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_standard_is_signed_as_there),
        cmocka_unit_test(a_secret_has_a_prefix_and_enough_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
