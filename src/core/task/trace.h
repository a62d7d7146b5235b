#pragma once
/* core/task/trace.h - the W3C trace context of a task.
 *
 * A one-time task that was created with a header traceparent continues that trace, in all its attempts. Every other
 * task, and every occurrence, has a trace of its own, whose id is computed from the task's id: all nodes compute the
 * same, and nothing is stored. The trace of an occurrence is linked to the call that made its recurring task. The steps
 * of a run are in the trace of their run. Pure. */
#include "core/task/task.h"

enum {
    TRACE_ID = 32,
    TRACE_SPAN = 16,
    TRACE_PARENT = 3 + TRACE_ID + 1 + TRACE_SPAN + 3, /* the header: 00-<id>-<span>-<flags> */
    TRACE_STATE_MAX = 512,
    TRACE_REQUEST_MAX = 128,
};

struct trace {
    char id[TRACE_ID + 1];
    char span[TRACE_SPAN + 1]; /* the caller's; empty: the trace is the task's own */
    bool sampled;
    struct str request; /* the caller's X-Request-Id; empty: none */
    struct str state;   /* the caller's tracestate; empty: none */
    /* of an occurrence: trace and span of the call that made its recurring task; empty: not known */
    char linked_id[TRACE_ID + 1], linked_span[TRACE_SPAN + 1];
};

/* Reads a header traceparent: its id, span and flag. False: it is not valid. */
bool trace_parse(struct str traceparent, struct trace *ret);
/* Whether a caller's request id can be kept: 1 to TRACE_REQUEST_MAX visible ASCII characters. */
bool trace_request_is_valid(struct str id);

/* What a task keeps of its caller (task.trace), from these headers; each may be empty. Invalid ones are left out, as
 * W3C demands. Empty: there is nothing to keep. False: the arena is full. */
bool trace_keep(struct str traceparent, struct str state, struct str request, struct arena *a, struct str *ret);

/* Texts are borrowed from the task. */
struct trace trace_of(const struct task *t);
/* The same, of a task that is known by these: its task.trace (whole, or as trace_without_state), kind, id and run. */
struct trace trace_read(struct str kept, enum task_kind kind, struct uuid id, struct uuid run);
struct str trace_without_state(struct str kept);    /* a part of it */
struct str trace_for_steps(const struct task *run); /* the task.trace of its steps */
struct trace trace_new(struct uuid id);             /* one that begins here, for a new id */
uint64_t trace_new_low(struct uuid id);             /* the second half of the id of that one */
/* The id that the trace of a task begins with, if it continues none: that of its run, or its own. */
struct uuid trace_begin(struct uuid id, struct uuid run);
uint64_t trace_span_parse(const char *text); /* digits, at most TRACE_SPAN; 0: the text is empty */

/* The spans of one attempt, of its call to the target, of a request, and of a run of a workflow or a step that has
 * steps of its own (fence 0: it has one span, whose id its steps can compute). Every process computes the same. Never
 * 0. */
enum trace_part { TRACE_RUN = 1, TRACE_CALL, TRACE_REQUEST, TRACE_WORKFLOW };
uint64_t trace_span(struct uuid task, int64_t fence, enum trace_part part);
void trace_span_text(uint64_t span, char out[TRACE_SPAN + 1]);

/* The header of a call in this trace, whose own span is `span`. */
void trace_parent(const struct trace *t, uint64_t span, char out[TRACE_PARENT + 1]);
