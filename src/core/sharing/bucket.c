#include "core/sharing/bucket.h"

#include <assert.h>

#include "base/mem.h"

enum { JITTER_MS = 1000 };

/* Beyond this a time is as good as never, and a double still holds each millisecond. */
static const double wait_max_ms = 1e15;

static double level_at(const struct bucket *b, int64_t now_ms)
{
    double since = (double)(now_ms - b->since_ms);
    return b->level + since * b->rate / 1000 - (double)b->taken;
}

/* A known moment: this one. */
static void restart(struct bucket *b, double level, int64_t now_ms)
{
    b->level = level;
    b->since_ms = now_ms;
    b->taken = 0;
}

/* A full bucket gains nothing by waiting; a clock that went back takes nothing out. Returns what counts as now: who asks may be a
 * little behind who asked last, and to and fro must not bring tokens. */
static int64_t look(struct bucket *b, int64_t now_ms)
{
    if (now_ms < b->seen_ms && now_ms >= b->seen_ms - JITTER_MS)
        now_ms = b->seen_ms;
    if (now_ms < b->seen_ms)
        b->since_ms -= b->seen_ms - now_ms;
    b->seen_ms = now_ms;
    if (level_at(b, now_ms) >= (double)b->burst)
        restart(b, (double)b->burst, now_ms);
    return now_ms;
}

void bucket_init(struct bucket *b, double rate, int64_t burst, int64_t now_ms)
{
    assert(rate > 0 && burst >= 1);
    *b = (struct bucket){ .rate = rate, .burst = burst, .seen_ms = now_ms };
    restart(b, (double)burst, now_ms);
}

void bucket_set(struct bucket *b, double rate, int64_t burst, int64_t now_ms)
{
    assert(rate > 0 && burst >= 1);
    now_ms = look(b, now_ms);
    if (rate == b->rate && burst == b->burst)
        return;
    restart(b, min_of(level_at(b, now_ms), (double)burst), now_ms);
    b->rate = rate;
    b->burst = burst;
}

int64_t bucket_available(struct bucket *b, int64_t now_ms)
{
    now_ms = look(b, now_ms);
    return (int64_t)level_at(b, now_ms);
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
    (void)look(b, now_ms);
}

int64_t bucket_next_ms(struct bucket *b, int64_t now_ms)
{
    if (bucket_available(b, now_ms) > 0)
        return now_ms;
    now_ms = b->seen_ms;
    double wait = (1 - level_at(b, now_ms)) * 1000 / b->rate;
    if (wait > wait_max_ms)
        return now_ms + (int64_t)wait_max_ms;
    int64_t at = now_ms + (int64_t)wait;
    while (level_at(b, at) < 1) /* what was cut off, and a hair that rounding left */
        at++;
    return at;
}
