/* Known answers: FIPS 180-2 (appendix B, including its million letters) for SHA-256, RFC 4231 for HMAC. */
#include "check.h"

#include <stdio.h>

#include "port/crypto.h"

static void assert_hex(const uint8_t *bytes, size_t n, const char *hex)
{
    char text[2 * SHA256_SIZE + 1];
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    assert_string_equal(text, hex);
}

/* N times the same byte, freed by the caller. */
static char *repeat(int byte, size_t n)
{
    return memset(xmalloc(n), byte, n);
}

static void sha256_gives_known_answers(void **state)
{
    (void)state;
    const struct {
        struct str data;
        const char *hex;
    } rows[] = {
        { { NULL, 0 }, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { S("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { S("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    uint8_t out[SHA256_SIZE];
    for (size_t i = 0; i < array_count(rows); i++) {
        crypto_sha256(rows[i].data, out);
        assert_hex(out, sizeof out, rows[i].hex);
    }
    cleanup_with(free_charp) char *million = repeat('a', 1000000);
    crypto_sha256((struct str){ million, 1000000 }, out);
    assert_hex(out, sizeof out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void hmac_gives_known_answers(void **state)
{
    (void)state;
    cleanup_with(free_charp) char *key_0b = repeat(0x0b, 20), *key_aa = repeat(0xaa, 131);
    cleanup_with(free_charp) char *data_dd = repeat(0xdd, 50), *data_cd = repeat(0xcd, 50);
    const struct {
        struct str key, data;
        const char *hex;
    } rows[] = {
        { { key_0b, 20 }, S("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { S("Jefe"), S("what do ya want for nothing?"),
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { { key_aa, 20 }, { data_dd, 50 }, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
        { S("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19"),
          { data_cd, 50 },
          "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
        { { key_aa, 131 },
          S("Test Using Larger Than Block-Size Key - Hash Key First"),
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        { { key_aa, 131 },
          S("This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
            "hashed before being used by the HMAC algorithm."),
          "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
        { { NULL, 0 }, { NULL, 0 }, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad" },
    };
    for (size_t i = 0; i < array_count(rows); i++) {
        uint8_t out[SHA256_SIZE];
        crypto_hmac_sha256(rows[i].key, rows[i].data, out);
        assert_hex(out, sizeof out, rows[i].hex);
    }
}

static void random_bytes_fill_all_and_differ(void **state)
{
    (void)state;
    uint8_t seen[33] = { 0 }, a[32], b[32];
    crypto_random(a, 0); /* no bytes are allowed */
    crypto_random(a, sizeof a);
    crypto_random(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    for (int round = 0; round < 64; round++) { /* a byte that is never written stays 0 in all of them */
        uint8_t some[33] = { 0 };
        crypto_random(some, 32);
        for (size_t i = 0; i < sizeof some; i++)
            seen[i] |= some[i];
    }
    for (size_t i = 0; i < 32; i++)
        assert_int_not_equal(seen[i], 0);
    assert_int_equal(seen[32], 0); /* and no byte after them */
}

static void equal_looks_at_every_byte(void **state)
{
    (void)state;
    uint8_t a[32] = { 0 }, b[32] = { 0 };
    assert_true(crypto_equal(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] = 0x80;
        assert_false(crypto_equal(a, b, sizeof a));
        assert_true(crypto_equal(a, b, i));
        b[i] = 0;
    }
}

static void what_is_sealed_is_read_by_its_key_and_bound_only(void **state)
{
    (void)state;
    enum { N = 24 };
    uint8_t key[SEAL_KEY_SIZE] = { 1 }, other[SEAL_KEY_SIZE] = { 2 };
    char sealed[N + SEAL_EXTRA], again[sizeof sealed], out[N];
    struct str plain = S("the last task of a page!"), text = { sealed, sizeof sealed };
    assert_int_equal(plain.n, N);
    crypto_seal(key, S("tenant 1"), plain, sealed);
    crypto_seal(key, S("tenant 1"), plain, again);
    assert_memory_not_equal(sealed, again, sizeof sealed);
    assert_null(memmem(sealed, sizeof sealed, "task", 4));
    assert_true(crypto_unseal(key, S("tenant 1"), text, out));
    assert_memory_equal(out, plain.p, N);
    assert_false(crypto_unseal(other, S("tenant 1"), text, out));
    assert_false(crypto_unseal(key, S("tenant 2"), text, out));
    assert_false(crypto_unseal(key, S("tenant 1"), (struct str){ sealed, SEAL_EXTRA - 1 }, out));
    for (size_t i = 0; i < sizeof sealed; i++) {
        sealed[i] ^= 1;
        assert_false(crypto_unseal(key, S("tenant 1"), text, out));
        sealed[i] ^= 1;
    }
    crypto_seal(key, S(""), S(""), sealed);
    assert_true(crypto_unseal(key, S(""), (struct str){ sealed, SEAL_EXTRA }, out));
}

static void hkdf_gives_known_answers(void **state) /* RFC 5869, A.1 and A.3: the first 32 bytes */
{
    (void)state;
    cleanup_with(free_charp) char *secret = repeat(0x0b, 22);
    uint8_t out[SHA256_SIZE];
    crypto_hkdf_sha256((struct str){ secret, 22 }, S("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c"),
                       S("\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9"), out);
    assert_hex(out, sizeof out, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    crypto_hkdf_sha256((struct str){ secret, 22 }, (struct str){ NULL, 0 }, (struct str){ NULL, 0 }, out);
    assert_hex(out, sizeof out, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

static void ed25519_gives_known_answers(void **state) /* RFC 8032, 7.1: TEST 2 */
{
    (void)state;
    static const uint8_t key[ED25519_KEY] = { 0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3,
                                              0x46, 0xec, 0x11, 0x4e, 0x0f, 0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab,
                                              0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb };
    uint8_t public_key[ED25519_KEY], signature[ED25519_SIGNATURE];
    crypto_ed25519_public(key, public_key);
    assert_hex(public_key, sizeof public_key, "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    crypto_ed25519_sign(key, S("\x72"), signature);
    assert_hex(signature, 32, "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da");
    assert_hex(signature + 32, 32, "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
    assert_true(crypto_ed25519_verify(public_key, S("\x72"), signature));
    assert_false(crypto_ed25519_verify(public_key, S("\x73"), signature));
    for (size_t i = 0; i < sizeof signature; i++) {
        signature[i] ^= 1;
        assert_false(crypto_ed25519_verify(public_key, S("\x72"), signature));
        signature[i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_known_answers),
        cmocka_unit_test(hmac_gives_known_answers),
        cmocka_unit_test(hkdf_gives_known_answers),
        cmocka_unit_test(ed25519_gives_known_answers),
        cmocka_unit_test(random_bytes_fill_all_and_differ),
        cmocka_unit_test(equal_looks_at_every_byte),
        cmocka_unit_test(what_is_sealed_is_read_by_its_key_and_bound_only),
    };
    return cmocka_run_group_tests_name("crypto", tests, NULL, NULL);
}
