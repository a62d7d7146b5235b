#pragma once
/* tests/support/random_bytes.h - what only tests draw from base/prng.h. */
#include "base/prng.h"

static inline void random_bytes(struct prng *r, void *p, size_t n)
{
    unsigned char *to = p;
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++, word >>= 8) {
        if (i % 8 == 0)
            word = prng_u64(r);
        to[i] = (unsigned char)word;
    }
}
