#include "core/time/offset.h"

#include <assert.h>

#include "base/mem.h"

enum { DRIFT_PER_MILLION = 200, MILLION = 1000000 };

static int64_t offset_drift_us(const struct offset_sample *s, int64_t steady_us)
{
    return max_of(steady_us - s->at_us, (int64_t)0) * DRIFT_PER_MILLION / MILLION;
}

/* Returns false if the bounds contradict each other. */
static bool offset_bounds(const struct offset *o, int64_t steady_us, int64_t *ret_low_us, int64_t *ret_high_us)
{
    int64_t low_us = INT64_MIN, high_us = INT64_MAX;
    for (size_t i = 0; i < o->n; i++) {
        int64_t by_us = offset_drift_us(&o->v[i], steady_us);
        low_us = max_of(low_us, o->v[i].low_us - by_us);
        high_us = min_of(high_us, o->v[i].high_us + by_us);
    }
    *ret_low_us = low_us;
    *ret_high_us = high_us;
    return low_us <= high_us;
}

void offset_add(struct offset *o, int64_t sent_us, int64_t arrived_us, int64_t store_us)
{
    assert(arrived_us >= sent_us);
    struct offset_sample s = { .low_us = store_us - arrived_us, .high_us = store_us - sent_us, .at_us = arrived_us };
    int64_t low_us, high_us;
    o->v[o->next] = s;
    o->next = (o->next + 1) % OFFSET_SAMPLES;
    o->n = min_of(o->n + 1, (size_t)OFFSET_SAMPLES);
    if (!offset_bounds(o, arrived_us, &low_us, &high_us))
        *o = (struct offset){ .v = { s }, .n = 1, .next = 1 };
}

struct offset_view offset_view(const struct offset *o, int64_t steady_us)
{
    int64_t low_us, high_us;
    if (o->n == 0)
        return (struct offset_view){ 0 };
    /* true: they agreed when the last answer came, and drift only widens them */
    bool agree = offset_bounds(o, steady_us, &low_us, &high_us);
    assert(agree);
    return (struct offset_view){ .known = true,
                                 .low_us = low_us,
                                 .middle_us = low_us + (high_us - low_us) / 2,
                                 .error_us = (high_us - low_us + 1) / 2 };
}
