#pragma once
/* node/trace/spans.h - the spans of tasks and requests.
 *
 *  - SERVER: a request of the API that may change something. It continues the caller's trace.
 *  - CONSUMER `run`: an attempt, from the moment that its user waits for until it is settled. Its parent is the request
 *    that made the task, or the span of the run whose step it is.
 *  - INTERNAL `workflow`, `step`: a run of a workflow, or a step that no worker runs (a map, a signal, another
 *    workflow), from its begin to its end. It is recorded when it has ended.
 *  - CLIENT `HTTP`, PRODUCER `send`: its call to the target. The id of this span travels in traceparent.
 * Spans are recorded if the tracer wants their trace. Those of failures are recorded on their own, too. With a NULL
 * tracer, nothing is. Any thread. */
#include "port/runner.h"
#include "port/store/claims.h"
#include "port/tracer.h"

/* Decides whether the trace of an attempt that begins is recorded. */
void spans_decide(struct tracer *t, struct run *run);
/* Its runner has ended. */
void spans_add_call(struct tracer *t, const struct run *run, const struct outcome *o);
/* Whether the settle of an attempt may be recorded: no, for most of them. A cheap question before spans_add_run. */
bool spans_may_add_run(const struct tracer *t, const struct settle_facts *f, const struct outcome *o);
/* It is settled, at now_us. */
void spans_add_run(struct tracer *t, const struct settle_facts *f, const struct outcome *o, const struct settlement *s,
                   int64_t now_us);

struct request_span {
    struct trace trace;
    uint64_t id; /* 0: there is no span */
    bool is_wanted;
    int64_t start_us;
    char parent[TRACE_PARENT + 1]; /* of tasks that the request makes; empty: as the caller says */
};

/* id: a new one. */
void request_span_begin(struct request_span *s, struct tracer *t, struct str traceparent, struct uuid id,
                        int64_t now_us);

struct request_span_facts {
    const char *route; /* "POST /v1/tasks" */
    int status;
    int32_t tenant;     /* 0: not known */
    struct str request; /* the caller's X-Request-Id; empty: none */
};
void request_span_end(const struct request_span *s, struct tracer *t, const struct request_span_facts *f,
                      int64_t now_us);
