#include "core/sharing/bucket.h"

#include <assert.h>

#include "base/mem.h"

enum { JITTER_MS = 1000 };

/* A longer wait counts as never. Below it, a double is exact to the millisecond. */
static const double wait_max_ms = 1e15;

static double bucket_level_at(const struct bucket *b, int64_t now_ms)
{
    double since = (double)(now_ms - b->since_ms);
    return b->level + since * b->rate / 1000 - (double)b->taken;
}

/* Makes now_ms the moment from which the level is computed. */
static void bucket_set_level(struct bucket *b, double level, int64_t now_ms)
{
    b->level = level;
    b->since_ms = now_ms;
    b->taken = 0;
}

/* Caps the level at burst. If the clock went back, moves since_ms with it, so that no token is lost. Returns the time
 * that counts as now: if now_ms is up to JITTER_MS behind the latest time seen, that time counts, so that times that go
 * back and forth bring no tokens. */
static int64_t bucket_refill(struct bucket *b, int64_t now_ms)
{
    if (now_ms < b->seen_ms && now_ms >= b->seen_ms - JITTER_MS)
        now_ms = b->seen_ms;
    if (now_ms < b->seen_ms)
        b->since_ms -= b->seen_ms - now_ms;
    b->seen_ms = now_ms;
    if (bucket_level_at(b, now_ms) >= (double)b->burst)
        bucket_set_level(b, (double)b->burst, now_ms);
    return now_ms;
}

void bucket_init(struct bucket *b, double rate, int64_t burst, int64_t now_ms)
{
    assert(rate > 0 && burst >= 1);
    *b = (struct bucket){ .rate = rate, .burst = burst, .seen_ms = now_ms };
    bucket_set_level(b, (double)burst, now_ms);
}

void bucket_set(struct bucket *b, double rate, int64_t burst, int64_t now_ms)
{
    assert(rate > 0 && burst >= 1);
    now_ms = bucket_refill(b, now_ms);
    if (rate == b->rate && burst == b->burst)
        return;
    bucket_set_level(b, min_of(bucket_level_at(b, now_ms), (double)burst), now_ms);
    b->rate = rate;
    b->burst = burst;
}

int64_t bucket_available(struct bucket *b, int64_t now_ms)
{
    now_ms = bucket_refill(b, now_ms);
    return (int64_t)bucket_level_at(b, now_ms);
}

double bucket_level(struct bucket *b, int64_t now_ms)
{
    now_ms = bucket_refill(b, now_ms);
    return bucket_level_at(b, now_ms);
}

int64_t bucket_take(struct bucket *b, int64_t n, int64_t now_ms)
{
    int64_t taken = max_of(min_of(n, bucket_available(b, now_ms)), (int64_t)0);
    b->taken += taken;
    return taken;
}

void bucket_give_back(struct bucket *b, int64_t n, int64_t now_ms)
{
    assert(n >= 0);
    b->taken -= n;
    (void)bucket_refill(b, now_ms);
}

int64_t bucket_next_ms(struct bucket *b, int64_t now_ms)
{
    if (bucket_available(b, now_ms) > 0)
        return now_ms;
    now_ms = b->seen_ms;
    double wait = (1 - bucket_level_at(b, now_ms)) * 1000 / b->rate;
    if (wait > wait_max_ms)
        return now_ms + (int64_t)wait_max_ms;
    int64_t at = now_ms + (int64_t)wait;
    while (bucket_level_at(b, at) < 1) /* the fraction that the cast cut off, and rounding errors */
        at++;
    return at;
}
