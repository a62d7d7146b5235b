#pragma once
/* platform/otlp/otlp_tracer.h - a tracer that sends spans to a collector: OTLP over HTTP, as protobuf.
 *
 * Spans wait in a ring of OTLP_RING. A thread of its own sends them, OTLP_BATCH at once, or those of the last second.
 * If the collector is busy (429, 502, 503, 504) or cannot be reached, a batch is tried OTLP_TRIES times. Retry-After is
 * honoured. Meanwhile the ring fills up; spans that find no room are dropped. belfry_spans_total counts all of them.
 * When the tracer is freed, it has OTLP_END_MS to send the rest. */
#include "base/metrics.h"
#include "platform/otlp/otlp_settings.h"
#include "port/clock.h"
#include "port/tracer.h"

enum { OTLP_RING = 8192, OTLP_BATCH = 512, OTLP_WAIT_MS = 1000, OTLP_TIMEOUT_MS = 10000, OTLP_TRIES = 5 };
enum { OTLP_END_MS = 2000, OTLP_RETRY_MS = 1000, OTLP_RETRY_AFTER_MAX_MS = 30000, OTLP_TELL_MS = 60000 };

struct otlp_tracer_setup {
    const struct otlp_settings *settings; /* with a URL; for the call */
    const char *ca_file;                  /* trusted certificates; NULL: the system's list */
    struct metrics *metrics;
    struct clock *clock;
    int64_t retry_ms; /* before the second try; doubles with each; 0: OTLP_RETRY_MS */
    /* So many spans were given up since the last call, which is at least OTLP_TELL_MS ago. On the tracer's thread.
     * NULL: nobody wants to know. */
    void (*failed)(void *context, const struct error *why, size_t spans);
    void *context;
};

enum err otlp_tracer_new(const struct otlp_tracer_setup *setup, struct tracer **ret, struct error *e) must_use;
