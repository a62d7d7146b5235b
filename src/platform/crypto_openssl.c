/* These OpenSSL calls fail only if memory or the system's randomness is missing. An assertion then ends the process:
 * going on with wrong bytes would be worse. */
#include "port/crypto.h"

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>

/* For speed: the digest is fetched once, because OpenSSL's lookup takes longer than hashing a short text, and each
 * thread keeps one context. HMAC is computed from two digests, because OpenSSL's own HMAC repeats these lookups on
 * every call. */
static EVP_MD *sha256;
static pthread_key_t contexts;

static void crypto_free_context(void *context)
{
    EVP_MD_CTX_free(context);
}

static void crypto_init_once(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    int failed = pthread_key_create(&contexts, crypto_free_context);
    assert(sha256 && !failed);
}

static EVP_MD_CTX *crypto_sha256_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, crypto_init_once);
    EVP_MD_CTX *c = pthread_getspecific(contexts);
    if (!c) {
        c = EVP_MD_CTX_new();
        int failed = pthread_setspecific(contexts, c);
        assert(c && !failed);
    }
    int good = EVP_DigestInit_ex(c, sha256, NULL);
    assert(good == 1);
    return c;
}

static void crypto_sha256_two(struct str first, struct str second, uint8_t out[SHA256_SIZE])
{
    EVP_MD_CTX *c = crypto_sha256_begin();
    int good = EVP_DigestUpdate(c, first.p, first.n) && EVP_DigestUpdate(c, second.p, second.n) &&
               EVP_DigestFinal_ex(c, out, NULL);
    assert(good);
}

void crypto_sha256(struct str data, uint8_t out[SHA256_SIZE])
{
    crypto_sha256_two(data, (struct str){ NULL, 0 }, out);
}

/* HMAC as in RFC 2104. */
void crypto_hmac_sha256(struct str key, struct str data, uint8_t out[SHA256_SIZE])
{
    enum { BLOCK = 64, INNER = 0x36, OUTER = 0x5C };
    uint8_t pad[BLOCK] = { 0 }, inner[SHA256_SIZE];
    struct str block = { (const char *)pad, BLOCK };
    if (key.n > BLOCK)
        crypto_sha256(key, pad);
    else if (key.n)
        memcpy(pad, key.p, key.n);
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] ^= INNER;
    crypto_sha256_two(block, data, inner);
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] ^= INNER ^ OUTER;
    crypto_sha256_two(block, (struct str){ (const char *)inner, sizeof inner }, out);
    explicit_bzero(pad, sizeof pad);
}

void crypto_hkdf_sha256(struct str secret, struct str salt, struct str info, uint8_t out[SHA256_SIZE])
{
    enum { INFO_MAX = 512 };
    uint8_t prk[SHA256_SIZE];
    char block[INFO_MAX + 1];
    assert(info.n <= INFO_MAX);
    if (info.n)
        memcpy(block, info.p, info.n);
    block[info.n] = 1;
    crypto_hmac_sha256(salt, secret, prk);
    crypto_hmac_sha256((struct str){ (const char *)prk, sizeof prk }, (struct str){ block, info.n + 1 }, out);
    explicit_bzero(prk, sizeof prk);
}

void crypto_random(void *out, size_t n)
{
    assert(n <= INT_MAX);
    int good = RAND_bytes(out, (int)n);
    assert(good == 1);
}

bool crypto_equal(const void *a, const void *b, size_t n)
{
    return CRYPTO_memcmp(a, b, n) == 0;
}

/* ---- sealed texts: nonce, AES-256-GCM, tag ---- */

enum { NONCE_SIZE = 12, TAG_SIZE = 16 };

void crypto_seal(const uint8_t key[SEAL_KEY_SIZE], struct str bound, struct str plain, void *out)
{
    uint8_t *nonce = out, *body = nonce + NONCE_SIZE, *tag = body + plain.n;
    int n;
    assert(plain.n <= INT_MAX && bound.n <= INT_MAX);
    crypto_random(nonce, NONCE_SIZE);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int good = c && EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) &&
               EVP_EncryptUpdate(c, NULL, &n, (const uint8_t *)bound.p, (int)bound.n) &&
               EVP_EncryptUpdate(c, body, &n, (const uint8_t *)plain.p, (int)plain.n) &&
               EVP_EncryptFinal_ex(c, tag, &n) && EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG_SIZE, tag);
    assert(good);
    EVP_CIPHER_CTX_free(c);
}

bool crypto_unseal(const uint8_t key[SEAL_KEY_SIZE], struct str bound, struct str sealed, void *out)
{
    uint8_t tag[TAG_SIZE];
    int n;
    if (sealed.n < SEAL_EXTRA || sealed.n > INT_MAX)
        return false;
    const uint8_t *nonce = (const uint8_t *)sealed.p, *body = nonce + NONCE_SIZE;
    size_t size = sealed.n - SEAL_EXTRA;
    memcpy(tag, body + size, TAG_SIZE);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int good = c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) &&
               EVP_DecryptUpdate(c, NULL, &n, (const uint8_t *)bound.p, (int)bound.n);
    assert(good);
    uint8_t *end = (uint8_t *)out + size;
    good = EVP_DecryptUpdate(c, out, &n, body, (int)size) &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG_SIZE, tag) && EVP_DecryptFinal_ex(c, end, &n) > 0;
    EVP_CIPHER_CTX_free(c);
    return good;
}

/* ---- Ed25519 ---- */

static EVP_PKEY *crypto_ed25519_open(const uint8_t private_key[ED25519_KEY])
{
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, ED25519_KEY);
    assert(key);
    return key;
}

void crypto_ed25519_public(const uint8_t private_key[ED25519_KEY], uint8_t out[ED25519_KEY])
{
    size_t n = ED25519_KEY;
    EVP_PKEY *key = crypto_ed25519_open(private_key);
    int good = EVP_PKEY_get_raw_public_key(key, out, &n);
    assert(good == 1 && n == ED25519_KEY);
    EVP_PKEY_free(key);
}

void crypto_ed25519_sign(const uint8_t private_key[ED25519_KEY], struct str data, uint8_t out[ED25519_SIGNATURE])
{
    size_t n = ED25519_SIGNATURE;
    EVP_PKEY *key = crypto_ed25519_open(private_key);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    int good = c && EVP_DigestSignInit(c, NULL, NULL, NULL, key) == 1 &&
               EVP_DigestSign(c, out, &n, (const uint8_t *)data.p, data.n) == 1;
    assert(good && n == ED25519_SIGNATURE);
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(key);
}

/* Bytes that are no point of the curve make no key, or no signature that fits. */
bool crypto_ed25519_verify(const uint8_t public_key[ED25519_KEY], struct str data,
                           const uint8_t signature[ED25519_SIGNATURE])
{
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, ED25519_KEY);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool good = key && c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(c, signature, ED25519_SIGNATURE, (const uint8_t *)data.p, data.n) == 1;
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(key);
    return good;
}
