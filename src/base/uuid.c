/* Layout, most significant bit first: 48 bits of milliseconds, 4 of version, 12 of `a`, 2 of variant, 62 of `b`.
 *
 * A generator stores the upper 12 bits of its counter in a, and the lower 14 bits at the top of b; the rest of b is
 * random. At each new millisecond the counter starts at a random value in its lower half, so at least 2^25 more ids
 * fit. If the counter overflows, the generator moves on to the next millisecond and stays there until the clock catches
 * up. It does the same after the clock was set back. A ranked id has its rank where a generator has the counter. */
#include "base/uuid.h"

#include <assert.h>

enum { COUNTER_BITS = UUID_RANK_BITS, COUNTER_LOW_BITS = 14 };
#define TIME_MAX_MS ((INT64_C(1) << 48) - 1) /* in the year 10889 */
#define B_BITS      62

static void uuid_put_be(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        to[i] = (uint8_t)value;
}

static struct uuid uuid_compose(int64_t time_ms, uint64_t a, uint64_t b)
{
    assert(time_ms >= 0 && time_ms <= TIME_MAX_MS);
    struct uuid u;
    uuid_put_be(u.b, (uint64_t)time_ms, 6);
    uuid_put_be(u.b + 6, 0x7000 | (a & 0xfff), 2);
    uuid_put_be(u.b + 8, UINT64_C(2) << B_BITS | (b & ((UINT64_C(1) << B_BITS) - 1)), 8);
    return u;
}

static struct uuid uuid_compose_counted(int64_t time_ms, uint32_t counter, uint64_t low)
{
    return uuid_compose(time_ms, counter >> COUNTER_LOW_BITS, (uint64_t)counter << (B_BITS - COUNTER_LOW_BITS) | low);
}

static void uuid_start_ms(struct uuid_gen *g, int64_t ms)
{
    g->last_ms = ms;
    g->counter = (uint32_t)(prng_u64(&g->random) >> (64 - (COUNTER_BITS - 1)));
}

void uuid_gen_init(struct uuid_gen *g, uint64_t seed)
{
    prng_init(&g->random, seed);
    uuid_start_ms(g, 0);
}

struct uuid uuid_next(struct uuid_gen *g, int64_t now_ms)
{
    if (now_ms > g->last_ms)
        uuid_start_ms(g, now_ms);
    else if (++g->counter >> COUNTER_BITS)
        uuid_start_ms(g, g->last_ms + 1);
    uint64_t low = prng_u64(&g->random) >> (64 - (B_BITS - COUNTER_LOW_BITS));
    return uuid_compose_counted(g->last_ms, g->counter, low);
}

struct uuid uuid_derived(int64_t time_ms, struct str bytes)
{
    struct hash_key second = HASH_STABLE; /* 74 bits need a second hash, with another key */
    second.k1 = ~second.k1;
    int64_t ms = max_of(min_of(time_ms, TIME_MAX_MS), 0);
    return uuid_compose(ms, hash_bytes(second, bytes), hash_bytes(HASH_STABLE, bytes));
}

struct uuid uuid_derived_from(int64_t time_ms, struct uuid of, int64_t number)
{
    char bytes[sizeof of.b + 8];
    memcpy(bytes, of.b, sizeof of.b);
    for (size_t i = 0; i < 8; i++)
        bytes[sizeof of.b + i] = (char)(number >> (56 - 8 * i));
    return uuid_derived(time_ms, (struct str){ bytes, sizeof bytes });
}

struct uuid uuid_derived_ranked(int64_t time_ms, uint32_t rank, struct uuid of, int64_t number)
{
    struct uuid u = uuid_derived_from(time_ms, of, number);
    uint64_t low = 0;
    for (size_t i = sizeof u.b - (B_BITS - COUNTER_LOW_BITS) / 8; i < sizeof u.b; i++)
        low = low << 8 | u.b[i];
    return uuid_compose_counted(uuid_time_ms(u), rank, low);
}

int64_t uuid_time_ms(struct uuid u)
{
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | u.b[i];
    return ms;
}

struct uuid uuid_floor(int64_t time_ms)
{
    struct uuid u = { 0 };
    uint64_t ms = time_ms < 0 ? 0 : (uint64_t)time_ms;
    if (ms >> 48) { /* later than the largest timestamp */
        memset(u.b, 0xff, sizeof u.b);
        return u;
    }
    for (int i = 0; i < 6; i++)
        u.b[i] = (uint8_t)(ms >> (40 - 8 * i));
    return u;
}

int uuid_cmp(struct uuid a, struct uuid b)
{
    return memcmp(a.b, b.b, sizeof a.b);
}

bool uuid_eq(struct uuid a, struct uuid b)
{
    return uuid_cmp(a, b) == 0;
}

bool uuid_is_nil(struct uuid u)
{
    return uuid_eq(u, (struct uuid){ 0 });
}

static bool uuid_dash_at(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

void uuid_format(struct uuid u, char out[UUID_TEXT + 1])
{
    static const char hex[] = "0123456789abcdef";
    size_t nibble = 0;
    for (size_t i = 0; i < UUID_TEXT; i++) {
        if (uuid_dash_at(i)) {
            out[i] = '-';
            continue;
        }
        uint8_t byte = u.b[nibble / 2];
        out[i] = hex[nibble % 2 ? byte & 0xf : byte >> 4];
        nibble++;
    }
    out[UUID_TEXT] = '\0';
}

/* Reads the digits of text; those that it does not have are `rest`. */
static bool uuid_read_digits(struct str text, int rest, struct uuid *ret)
{
    struct uuid u = { 0 };
    size_t nibble = 0;
    for (size_t i = 0; i < UUID_TEXT; i++) {
        if (uuid_dash_at(i)) {
            if (i < text.n && text.p[i] != '-')
                return false;
            continue;
        }
        int value = i < text.n ? hex_value(text.p[i]) : rest;
        if (value < 0)
            return false;
        u.b[nibble / 2] = (uint8_t)(u.b[nibble / 2] << 4 | value);
        nibble++;
    }
    *ret = u;
    return true;
}

bool uuid_parse(struct str text, struct uuid *ret)
{
    return text.n == UUID_TEXT && uuid_read_digits(text, 0, ret);
}

bool uuid_parse_prefix(struct str text, struct uuid *ret_lowest, struct uuid *ret_highest)
{
    return text.n > 0 && text.n <= UUID_TEXT && uuid_read_digits(text, 0, ret_lowest) &&
           uuid_read_digits(text, 15, ret_highest);
}
