/* OpenSSL fails in these calls only when it has no memory, or the system no randomness: then nothing sensible is left to do,
 * and going on with bytes that are not what they claim to be would be worse than to stop. */
#include "port/crypto.h"

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <pthread.h>

/* Fetched once: OpenSSL would look it up anew for each digest, which takes longer than a short one. */
static EVP_MD *sha256;

static void fetch_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    assert(sha256);
}

void crypto_sha256(struct str data, uint8_t out[SHA256_SIZE])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fetch_sha256);
    int good = EVP_Digest(data.p, data.n, out, NULL, sha256, NULL);
    assert(good == 1);
}

void crypto_hmac_sha256(struct str key, struct str data, uint8_t out[SHA256_SIZE])
{
    assert(key.n <= INT_MAX);
    const uint8_t *mac = HMAC(EVP_sha256(), key.n ? key.p : "", (int)key.n, (const uint8_t *)data.p, data.n, out, NULL);
    assert(mac == out);
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
