#pragma once
/* port/crypto.h - the few primitives that Belfry needs. Any thread may call. A maintained library implements them. */
#include "base/str.h"

enum { SHA256_SIZE = 32 };

void crypto_sha256(struct str data, uint8_t out[SHA256_SIZE]);
void crypto_hmac_sha256(struct str key, struct str data, uint8_t out[SHA256_SIZE]);
void crypto_random(void *out, size_t n);                   /* from the system; cannot fail */
bool crypto_equal(const void *a, const void *b, size_t n); /* in constant time */
