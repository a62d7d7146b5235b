#pragma once
/* core/task/sampler.h - which traces are recorded. Pure.
 *
 *  - A trace that a caller began: if the caller records it, at most SAMPLED_BY_CALLERS a second.
 *  - A trace that begins here: if its id is in the first part of all ids, given by the ratio. All processes agree.
 *  - A failure in any other trace: at most SAMPLED_FAILURES a second. */
#include "core/sharing/bucket.h"
#include "core/task/trace.h"

enum { SAMPLED_BY_CALLERS = 1000, SAMPLED_FAILURES = 50 };

struct sampler {
    double ratio; /* 0 to 1 */
    struct bucket by_callers, failures;
};

void sampler_init(struct sampler *s, double ratio, int64_t now_ms);
/* Whether the answer depends on the trace alone: then sampler_wants changes nothing and may be called by any thread. */
bool sampler_is_fixed(const struct trace *t);
bool sampler_wants(struct sampler *s, const struct trace *t, int64_t now_ms);
/* The same of trace_new(id), and cheaper: it is asked of every attempt. Any thread. */
bool sampler_wants_new(const struct sampler *s, struct uuid id);
bool sampler_wants_failure(struct sampler *s, int64_t now_ms);
