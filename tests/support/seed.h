#pragma once
/* tests/support/seed.h - the seed of a random test: always printed, the same on every run, set by BELFRY_SEED=n. */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"

static inline struct prng seeded_prng(const char *test)
{
    const char *given = getenv("BELFRY_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20260210;
    printf("# %s: seed %llu\n", test, (unsigned long long)seed);
    struct prng r;
    prng_init(&r, seed);
    return r;
}
