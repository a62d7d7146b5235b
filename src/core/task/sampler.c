#include "core/task/sampler.h"

enum { SAMPLED_DIGITS = 13 }; /* 52 bits: a double holds them exactly */

void sampler_init(struct sampler *s, double ratio, int64_t now_ms)
{
    s->ratio = ratio;
    bucket_init(&s->by_callers, SAMPLED_BY_CALLERS, SAMPLED_BY_CALLERS, now_ms);
    bucket_init(&s->failures, SAMPLED_FAILURES, SAMPLED_FAILURES, now_ms);
}

bool sampler_is_fixed(const struct trace *t)
{
    return !t->span[0] || !t->sampled;
}

/* The last digits are random in the ids of every tracing library. */
static bool sampler_is_in_ratio(uint64_t low, double ratio)
{
    uint64_t range = 1ull << (4 * SAMPLED_DIGITS);
    return (double)(low & (range - 1)) < ratio * (double)range;
}

bool sampler_wants(struct sampler *s, const struct trace *t, int64_t now_ms)
{
    if (t->span[0])
        return t->sampled && bucket_take(&s->by_callers, 1, now_ms) == 1;
    return sampler_is_in_ratio(trace_span_parse(t->id + TRACE_ID - TRACE_SPAN), s->ratio);
}

bool sampler_wants_new(const struct sampler *s, struct uuid id)
{
    return sampler_is_in_ratio(trace_new_low(id), s->ratio);
}

bool sampler_wants_failure(struct sampler *s, int64_t now_ms)
{
    return bucket_take(&s->failures, 1, now_ms) == 1;
}
