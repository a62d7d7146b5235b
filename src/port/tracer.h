#pragma once
/* port/tracer.h - records spans of traces, and says which traces are recorded.
 *
 * A NULL tracer records nothing. No call waits: a span that finds no room is dropped and counted. Any thread. */
#include "core/task/trace.h"

/* As OTLP numbers them. */
enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2, SPAN_CLIENT = 3, SPAN_PRODUCER = 4, SPAN_CONSUMER = 5 };

enum { SPAN_TEXT_MAX = 256 }; /* bytes; longer texts are cut */

struct span_attribute {
    const char *key;
    struct str text; /* p is NULL: the number counts */
    int64_t number;
};

/* Borrowed for the call. */
struct span {
    struct trace trace;  /* its id, state, flag and link */
    uint64_t id, parent; /* parent 0: none */
    enum span_kind kind;
    struct str name;
    int64_t start_us, end_us;
    const struct span_attribute *attributes;
    size_t attribute_count;
    bool failed;
    struct str error; /* if failed */
};

struct tracer {
    const struct tracer_ops *ops;
};

struct tracer_ops {
    bool (*wants)(struct tracer *, const struct trace *);
    bool (*wants_new)(struct tracer *, struct uuid id);
    bool (*wants_failure)(struct tracer *);
    void (*record)(struct tracer *, const struct span *);
    void (*free)(struct tracer *);
};

/* Whether the spans of this trace are recorded: if its caller says so, at most 1,000 a second; a trace that begins here
 * by its id, so that all processes with the same ratio decide alike. */
static inline bool tracer_wants(struct tracer *t, const struct trace *trace)
{
    return t && t->ops->wants(t, trace);
}

/* The same of trace_new(id), without making that trace. */
static inline bool tracer_wants_new(struct tracer *t, struct uuid id)
{
    return t && t->ops->wants_new(t, id);
}

/* Whether a span of a failure is recorded although its trace is not: at most 50 a second. */
static inline bool tracer_wants_failure(struct tracer *t)
{
    return t && t->ops->wants_failure(t);
}

static inline void tracer_record(struct tracer *t, const struct span *s)
{
    if (t)
        t->ops->record(t, s);
}

static inline void tracer_free(struct tracer *t)
{
    if (t)
        t->ops->free(t);
}
