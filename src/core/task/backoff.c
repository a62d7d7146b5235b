#include "core/task/backoff.h"

#include <assert.h>

#include "core/task/retry_after.h"

static int64_t backoff_double(int64_t delay_ms, int64_t max_ms)
{
    return delay_ms > max_ms / 2 ? max_ms : delay_ms * 2;
}

int64_t backoff_delay_ms(const struct retry_policy *p, const struct outcome *o, int attempts, struct prng *random)
{
    assert(attempts > 0);
    int64_t asked_ms = min_of(o->retry_after_ms, RETRY_AFTER_MAX_MS); /* -1: for nothing */
    if (asked_ms >= 0 && !o->http_status)                             /* the user's own worker says when */
        return asked_ms;
    int64_t delay = p->base_delay_ms;
    for (int i = 1; p->backoff == BACKOFF_EXPONENTIAL && i < attempts && delay < p->max_delay_ms; i++)
        delay = backoff_double(delay, p->max_delay_ms);
    if (asked_ms < 0 && (o->http_status == 429 || o->http_status == 503))
        delay = backoff_double(delay, p->max_delay_ms); /* the target is overloaded and did not say for how long */
    delay = min_of(delay, p->max_delay_ms);
    delay = p->jitter == JITTER_FULL ? prng_between(random, 0, delay) : delay;
    /* A target that asks for less than the backoff must not use up the attempts: "Retry-After: 0" is a common default. */
    return max_of(asked_ms, delay);
}
