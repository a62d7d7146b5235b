/* xoshiro256**, its state filled by splitmix64: that never gives four zeros, the one state the generator cannot leave,
 * and makes streams of seeds 1, 2, 3 as unlike as those of any other seeds. */
#include "base/prng.h"

#include <assert.h>

static uint64_t rotate(uint64_t x, int by)
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
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t prng_below(struct prng *r, uint64_t limit)
{
    assert(limit > 0);
    /* 2^64 mod limit values at the bottom are too many for a fair share: drawn again, what is left divides evenly. */
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

double prng_unit(struct prng *r)
{
    return (double)(prng_u64(r) >> 11) * 0x1p-53; /* as many bits as a double holds */
}

void prng_fill(struct prng *r, void *p, size_t n)
{
    unsigned char *to = p;
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++, word >>= 8) {
        if (i % 8 == 0)
            word = prng_u64(r);
        to[i] = (unsigned char)word;
    }
}
