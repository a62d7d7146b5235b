#pragma once
/* base/uuid.h - UUIDv7 (RFC 9562): ids that sort by creation time.
 *
 * The ids of one generator increase strictly, even within one millisecond and after the clock was set back. A derived
 * id is computed from a time and a hash of given bytes: every node derives the same id. */
#include "base/hash.h"
#include "base/prng.h"

struct uuid {
    uint8_t b[16];
};

enum { UUID_TEXT = 36 };

struct uuid_gen {
    struct prng random;
    int64_t last_ms;
    uint32_t counter; /* the 12 bits after the time and 14 more: random at each new millisecond, then incremented */
};

void uuid_gen_init(struct uuid_gen *g, uint64_t seed);
struct uuid uuid_next(struct uuid_gen *g, int64_t now_ms);

/* The time is time_ms (times before 1970 count as 1970); the other 74 bits are HASH_STABLE over bytes. */
struct uuid uuid_derived(int64_t time_ms, struct str bytes);
struct uuid uuid_derived_from(int64_t time_ms, struct uuid of, int64_t number); /* the number-th item of `of` */

/* The same, but ids of one time sort by rank, a number of UUID_RANK_BITS bits; 48 bits are of the hash. */
enum { UUID_RANK_BITS = 26 };
struct uuid uuid_derived_ranked(int64_t time_ms, uint32_t rank, struct uuid of, int64_t number);

/* The bytes of u as a map key; valid as long as u. */
static inline struct str uuid_bytes(const struct uuid *u)
{
    return (struct str){ (const char *)u->b, sizeof u->b };
}

int64_t uuid_time_ms(struct uuid u);
struct uuid
uuid_floor(int64_t time_ms); /* less than every id made at or after time_ms, greater than every earlier id */
int uuid_cmp(struct uuid a, struct uuid b); /* like memcmp; this is also the order by time */
bool uuid_eq(struct uuid a, struct uuid b);
bool uuid_is_nil(struct uuid u);

void uuid_format(struct uuid u, char out[UUID_TEXT + 1]);
bool uuid_parse(struct str text, struct uuid *ret); /* the 36-character form, any case */

/* The lowest and the highest id whose 36-character form begins with text, any case; text may be a whole id. */
bool uuid_parse_prefix(struct str text, struct uuid *ret_lowest, struct uuid *ret_highest);
