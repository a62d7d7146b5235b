#pragma once
/* base/prng.h - a seedable pseudo-random generator (xoshiro256**), for everything but secrets.
 *
 * The caller owns the state. Equal seeds give equal sequences on every machine, so a failing test can be repeated from
 * its seed. */
#include <stddef.h>
#include <stdint.h>

struct prng {
    uint64_t s[4];
};

void prng_init(struct prng *r, uint64_t seed);
uint64_t prng_u64(struct prng *r);
uint64_t prng_below(struct prng *r, uint64_t limit);             /* [0, limit), unbiased; limit > 0 */
int64_t prng_between(struct prng *r, int64_t low, int64_t high); /* [low, high], both included */
