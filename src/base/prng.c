/* xoshiro256**. splitmix64 fills the state from the seed: it never produces four zeros (the one state that the
 * generator cannot leave), and similar seeds (1, 2, 3) give unrelated sequences. */
#include "base/prng.h"

#include <assert.h>

static uint64_t prng_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void prng_init(struct prng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&seed);
}

uint64_t prng_u64(struct prng *r)
{
    uint64_t *s = r->s;
    uint64_t result = prng_rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = prng_rotate(s[3], 45);
    return result;
}

uint64_t prng_below(struct prng *r, uint64_t limit)
{
    assert(limit > 0);
    /* Rejects the lowest 2^64 mod limit values, so that the remaining ones divide evenly: no modulo bias. */
    uint64_t unfair = -limit % limit;
    uint64_t x;
    do
        x = prng_u64(r);
    while (x < unfair);
    return x % limit;
}

int64_t prng_between(struct prng *r, int64_t low, int64_t high)
{
    assert(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t offset = span == UINT64_MAX ? prng_u64(r) : prng_below(r, span + 1);
    return (int64_t)((uint64_t)low + offset);
}
