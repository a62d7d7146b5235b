#pragma once
/* port/crypto.h - the few primitives that Belfry needs. Any thread may call. A maintained library implements them. */
#include "base/str.h"

enum { SHA256_SIZE = 32, SEAL_KEY_SIZE = 32, SEAL_EXTRA = 12 + 16, ED25519_KEY = 32, ED25519_SIGNATURE = 64 };

void crypto_sha256(struct str data, uint8_t out[SHA256_SIZE]);
void crypto_hmac_sha256(struct str key, struct str data, uint8_t out[SHA256_SIZE]);
/* HKDF (RFC 5869), the first 32 bytes. */
void crypto_hkdf_sha256(struct str secret, struct str salt, struct str info, uint8_t out[SHA256_SIZE]);
void crypto_random(void *out, size_t n);                   /* from the system; cannot fail */
bool crypto_equal(const void *a, const void *b, size_t n); /* in constant time */

/* Encrypts a text so that only the key reads it, and any change to it, or another `bound`, is noticed. `out` has room
 * for plain.n + SEAL_EXTRA bytes; no two results are equal. */
void crypto_seal(const uint8_t key[SEAL_KEY_SIZE], struct str bound, struct str plain, void *out);
/* False: it was not sealed with this key and `bound`. `out` has room for sealed.n - SEAL_EXTRA bytes. */
bool crypto_unseal(const uint8_t key[SEAL_KEY_SIZE], struct str bound, struct str sealed, void *out);

/* Ed25519 (RFC 8032). A private key is its seed. */
void crypto_ed25519_public(const uint8_t private_key[ED25519_KEY], uint8_t out[ED25519_KEY]);
void crypto_ed25519_sign(const uint8_t private_key[ED25519_KEY], struct str data, uint8_t out[ED25519_SIGNATURE]);
bool crypto_ed25519_verify(const uint8_t public_key[ED25519_KEY], struct str data,
                           const uint8_t signature[ED25519_SIGNATURE]);
