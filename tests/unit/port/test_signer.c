/* Signers: secrets are opened with the keys of this process, sign until their end, and a missing key is said. */
#include "check.h"

#include "port/signer.h"

#define SECRET "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define OTHER  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

static struct secrets file_keys(void)
{
    struct secrets s;
    struct error e = { 0 };
    char line[SECRETS_LINE + 1];
    secrets_new_line(line);
    assert_ok(secrets_parse(str_from(line), &s, &e), &e);
    return s;
}

static struct signing_key sealed_key(const struct secrets *s, int32_t tenant, struct buf *text)
{
    struct signing_key k = { .count = 2 };
    k.id.b[0] = 7;
    buf_init(text, 4096);
    secret_seal(s, &(struct secret_place){ tenant, k.id, S(SIGNING_FIELD) }, S(SECRET), text);
    k.secrets[0].secret = buf_str(text);
    k.secrets[1] = (struct signing_secret){ .secret = S(OTHER), .until_ms = 5000 };
    return k;
}

static size_t signatures(const struct signer *s, int64_t now_ms)
{
    cleanup_with(buf_release) struct buf out;
    size_t n = 0;
    buf_init(&out, SIGNER_TEXT_MAX);
    signer_write(s, S("id"), now_ms, S("body"), &out);
    for (struct str rest = buf_str(&out), word; str_cut(&rest, ' ', &word); n++) {
        struct webhook_signed given = { .id = S("id"), .timestamp = S("4"), .body = S("body"), .signatures = word };
        given.timestamp = now_ms / 1000 == 4 ? S("4") : S("5");
        assert_int_equal(webhook_verify(str_from(s->v[n].text), &given), WEBHOOK_SIGNED);
    }
    return n;
}

static void secrets_sign_until_their_end(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf text;
    struct secrets s = file_keys();
    struct signing_key k = sealed_key(&s, 3, &text);
    struct signer signer;
    struct error e = { 0 };
    assert_ok(signer_open(&s, 3, &k, &signer, &e), &e);
    assert_string_equal(signer.v[0].text, SECRET);
    assert_int_equal(signatures(&signer, 4999), 2);
    assert_int_equal(signatures(&signer, 5000), 1);
    signer_wipe(&signer);
    assert_int_equal(signer.n, 0);
}

static void a_key_that_this_process_lacks_is_said(void **state)
{
    (void)state;
    cleanup_with(buf_release) struct buf text;
    struct secrets s = file_keys(), others = file_keys();
    struct signing_key k = sealed_key(&s, 3, &text);
    struct signer signer;
    struct error e = { 0 };
    assert_int_equal(signer_open(&others, 3, &k, &signer, &e), ERR_UNAVAILABLE);
    assert_string_equal(e.field, "signing_key");
    assert_int_equal(signer_open(NULL, 3, &k, &signer, &e), ERR_UNAVAILABLE);
    assert_int_equal(signer_open(&s, 4, &k, &signer, &e), ERR_INVALID); /* of another tenant */
    assert_int_equal(signer.n, 0);
}

static void a_task_from_a_queue_has_its_key(void **state)
{
    (void)state;
    struct task t = { .tenant = 3 };
    struct signing_source none = { 0 };
    struct signer signer;
    struct error e = { 0 };
    assert_ok(signer_of_task(&none, NULL, &t, &signer, &e), &e);
    assert_int_equal(signer.n, 0);
    t.signing = S("{\"id\":\"01234567-89ab-8def-8123-456789abcdef\",\"name\":\"\",\"host\":\"\","
                  "\"secrets\":[{\"algorithm\":\"HMAC_SHA256\",\"secret\":\"" SECRET "\"}]}");
    assert_ok(signer_of_task(&none, NULL, &t, &signer, &e), &e);
    assert_int_equal(signatures(&signer, 4000), 1);
    t.signing = S("{}");
    assert_int_equal(signer_of_task(&none, NULL, &t, &signer, &e), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_sign_until_their_end),
        cmocka_unit_test(a_key_that_this_process_lacks_is_said),
        cmocka_unit_test(a_task_from_a_queue_has_its_key),
    };
    return cmocka_run_group_tests_name("signer", tests, NULL, NULL);
}
