#include "node/trace/spans.h"

#include "core/target/target_url.h"

enum { ATTRIBUTES_MAX = 12, PLACE_ARENA = 4096 };

struct attributes {
    struct span_attribute v[ATTRIBUTES_MAX];
    size_t n;
};

static void spans_add_text(struct attributes *a, const char *key, struct str text)
{
    if (text.n)
        a->v[a->n++] = (struct span_attribute){ .key = key, .text = text };
}

static void spans_add_number(struct attributes *a, const char *key, int64_t number)
{
    a->v[a->n++] = (struct span_attribute){ .key = key, .number = number };
}

static void spans_record(struct tracer *t, struct span *s, const struct attributes *a)
{
    s->attributes = a->v;
    s->attribute_count = a->n;
    tracer_record(t, s);
}

/* ---- attempts ---- */

void spans_decide(struct tracer *t, struct run *run)
{
    const struct task *task = run->task;
    if (!t)
        return;
    run->is_decided = true;
    if (!task->trace.n) { /* as most tasks: there is no trace to continue */
        run->is_sampled = tracer_wants_new(t, trace_begin(task->id, task->run));
        return;
    }
    struct trace trace = trace_of(task);
    run->is_sampled = tracer_wants(t, &trace);
}

static bool spans_is_failure(const struct outcome *o)
{
    return o->kind == OUTCOME_FAILED || o->kind == OUTCOME_LOST || o->kind == OUTCOME_EXPIRED;
}

void spans_add_call(struct tracer *t, const struct run *run, const struct outcome *o)
{
    const struct task *task = run->task;
    bool is_call = task->target == TARGET_HTTP || task->target == TARGET_MESSAGE;
    if (!t || !is_call || (!run->is_sampled && !(spans_is_failure(o) && tracer_wants_failure(t))))
        return;
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, PLACE_ARENA);
    char host[TARGET_HOST_MAX];
    struct attributes a = { .n = 0 };
    bool is_http = task->target == TARGET_HTTP;
    spans_add_text(&a, "server.address", target_host(task, host));
    spans_add_text(&a, "belfry.place", fingerprint_place(task, &arena));
    if (o->http_status)
        spans_add_number(&a, "http.response.status_code", o->http_status);
    struct span s = { .trace = run_trace(run),
                      .id = trace_span(task->id, task->fence, TRACE_CALL),
                      .parent = trace_span(task->id, task->fence, TRACE_RUN),
                      .kind = is_http ? SPAN_CLIENT : SPAN_PRODUCER,
                      .name = is_http ? S("HTTP") : S("send"),
                      .start_us = o->started_us,
                      .end_us = o->completed_us,
                      .failed = o->kind == OUTCOME_FAILED,
                      .error = o->error };
    s.trace.linked_id[0] = '\0'; /* the run has it */
    spans_record(t, &s, &a);
}

static const char *spans_outcome_name(enum outcome_kind kind)
{
    static const char *const names[] = {
        [OUTCOME_OK] = "ok",
        [OUTCOME_FAILED] = "failed",
        [OUTCOME_LOST] = "lost",
        [OUTCOME_RETURNED] = "returned",
        [OUTCOME_CANCELLED] = "cancelled",
        [OUTCOME_HELD] = "held",
        [OUTCOME_EXPIRED] = "expired",
        [OUTCOME_SKIPPED] = "skipped",
    };
    return names[kind];
}

static void spans_describe_run(const struct settle_facts *f, const struct outcome *o, const struct settlement *s,
                               char id[UUID_TEXT + 1], char parent[UUID_TEXT + 1], struct attributes *a)
{
    uuid_format(f->id, id);
    uuid_format(f->parent, parent);
    enum late_cause cause = o->late_by ? o->late_by : f->late_by;
    spans_add_text(a, "belfry.task", (struct str){ id, UUID_TEXT });
    spans_add_text(a, "belfry.parent", uuid_is_nil(f->parent) ? S("") : (struct str){ parent, UUID_TEXT });
    spans_add_text(a, "belfry.queue", f->queue);
    spans_add_number(a, "belfry.tenant", f->tenant);
    spans_add_number(a, "belfry.attempt", f->attempts + 1);
    spans_add_number(a, "belfry.fence", f->fence);
    spans_add_text(a, "belfry.outcome", str_from(spans_outcome_name(o->kind)));
    spans_add_text(a, "belfry.state", str_from(task_state_name(s->ret_state)));
    if (cause != LATE_NONE)
        spans_add_text(a, "belfry.delay_cause", str_from(late_cause_names[cause]));
    spans_add_text(a, "belfry.worker", o->worker);
}

/* An attempt that did not begin is a span only if the task has ended by that. A run of a workflow is settled piece by
 * piece, and is a span when it has ended. */
static bool spans_is_run(const struct settle_facts *f, const struct outcome *o, const struct settlement *s)
{
    bool is_attempt = o->kind != OUTCOME_RETURNED && o->kind != OUTCOME_HELD && f->target != TARGET_WORKFLOW;
    return !s->stale && (is_attempt || task_is_final(s->ret_state));
}

/* The span of the run whose step it is, whether or not that is recorded; else the caller's. */
static uint64_t spans_parent(const struct settle_facts *f, const struct trace *trace)
{
    return uuid_is_nil(f->run) ? trace_span_parse(trace->span) : trace_span(f->run, 0, TRACE_WORKFLOW);
}

/* Workers say of the attempts that they ran whether they are recorded. */
static bool spans_is_decided(const struct settle_facts *f, const struct outcome *o)
{
    return o->started_us && f->target != TARGET_WORKFLOW;
}

bool spans_may_add_run(const struct tracer *t, const struct settle_facts *f, const struct outcome *o)
{
    return t && (!spans_is_decided(f, o) || o->sampled || spans_is_failure(o));
}

void spans_add_run(struct tracer *t, const struct settle_facts *f, const struct outcome *o, const struct settlement *s,
                   int64_t now_us)
{
    if (!spans_may_add_run(t, f, o) || !spans_is_run(f, o, s))
        return;
    struct trace trace = trace_read(f->trace, f->kind, f->id, f->run);
    bool is_failure = spans_is_failure(o), is_control = f->target == TARGET_WORKFLOW;
    trace.sampled = spans_is_decided(f, o) ? o->sampled : tracer_wants(t, &trace);
    if (!trace.sampled && !(is_failure && tracer_wants_failure(t)))
        return;
    struct attributes a = { .n = 0 };
    char id[UUID_TEXT + 1], parent[UUID_TEXT + 1];
    int64_t awaited_us = (f->awaited_ms ? f->awaited_ms : f->due_ms) * 1000;
    spans_describe_run(f, o, s, id, parent, &a);
    struct span span = { .trace = trace,
                         .id =
                             is_control ? trace_span(f->id, 0, TRACE_WORKFLOW) : trace_span(f->id, f->fence, TRACE_RUN),
                         .parent = spans_parent(f, &trace),
                         .kind = is_control ? SPAN_INTERNAL : SPAN_CONSUMER,
                         .name = !is_control           ? S("run")
                                 : uuid_is_nil(f->run) ? S("workflow")
                                                       : S("step"),
                         .start_us = o->started_us ? min_of(awaited_us, o->started_us) : awaited_us,
                         .end_us = now_us,
                         .failed = is_failure,
                         .error = s->verdict.last_error };
    spans_record(t, &span, &a);
}

/* ---- requests ---- */

void request_span_begin(struct request_span *s, struct tracer *t, struct str traceparent, struct uuid id,
                        int64_t now_us)
{
    *s = (struct request_span){ .id = trace_span(id, 0, TRACE_REQUEST), .start_us = now_us };
    if (!trace_parse(traceparent, &s->trace))
        s->trace = trace_new(id);
    s->is_wanted = tracer_wants(t, &s->trace);
    s->trace.sampled = s->is_wanted;
    if (s->is_wanted)
        trace_parent(&s->trace, s->id, s->parent);
}

void request_span_end(const struct request_span *s, struct tracer *t, const struct request_span_facts *f,
                      int64_t now_us)
{
    bool failed = f->status >= 500;
    if (!s->id || (!s->is_wanted && !(failed && tracer_wants_failure(t))))
        return;
    struct str method, path = str_from(f->route);
    struct attributes a = { .n = 0 };
    (void)str_cut(&path, ' ', &method);
    spans_add_text(&a, "http.request.method", method);
    spans_add_text(&a, "http.route", path);
    spans_add_number(&a, "http.response.status_code", f->status);
    if (f->tenant)
        spans_add_number(&a, "belfry.tenant", f->tenant);
    spans_add_text(&a, "belfry.request", f->request);
    struct span span = { .trace = s->trace,
                         .id = s->id,
                         .parent = trace_span_parse(s->trace.span),
                         .kind = SPAN_SERVER,
                         .name = str_from(f->route),
                         .start_us = s->start_us,
                         .end_us = now_us,
                         .failed = failed };
    spans_record(t, &span, &a);
}
