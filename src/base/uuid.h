#pragma once
/* base/uuid.h - UUIDv7 (RFC 9562): ids that sort by the time they were made.
 *
 * A generator's ids rise strictly, also within one millisecond and when the clock steps back. Derived ids carry a given
 * time and the hash of what they stand for: whoever derives them gets the same id. */
#include "base/hash.h"
#include "base/prng.h"

struct uuid {
    uint8_t b[16];
};

enum { UUID_TEXT = 36 };

struct uuid_gen {
    struct prng random;
    int64_t last_ms;
    uint32_t counter; /* the 12 bits behind the time and 14 more: seeded per millisecond, then counted up */
};

void uuid_gen_init(struct uuid_gen *g, uint64_t seed);
struct uuid uuid_next(struct uuid_gen *g, int64_t now_ms);

/* Time from time_ms (moments before 1970 count as 1970), the other 74 bits from HASH_STABLE over bytes. */
struct uuid uuid_derived(int64_t time_ms, struct str bytes);
struct uuid uuid_derived_from(int64_t time_ms, struct uuid of, int64_t number); /* the number-th thing of `of` */

/* The bytes, as a map's key: they live as long as u does. */
static inline struct str uuid_bytes(const struct uuid *u)
{
    return (struct str){ (const char *)u->b, sizeof u->b };
}

int64_t uuid_time_ms(struct uuid u);
struct uuid uuid_floor(int64_t time_ms);    /* below all that were made then or later, above all from before */
int uuid_cmp(struct uuid a, struct uuid b); /* as memcmp: also the order of time */
bool uuid_eq(struct uuid a, struct uuid b);
bool uuid_is_nil(struct uuid u);

void uuid_format(struct uuid u, char out[UUID_TEXT + 1]);
bool uuid_parse(struct str text, struct uuid *ret); /* the 36-character form, any case */
