#include "node/trace/transition_log.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/task/trace.h"

enum { FIELDS_MAX = 16, NO_STATE = -1 };

struct transition_log {
    struct transition_log_setup setup;
    pthread_mutex_t lock; /* guards everything below */
    int64_t second;       /* steady: of the numbers below */
    int64_t written, dropped;
};

/* What a line tells. */
struct transition {
    struct uuid id, parent;
    int32_t tenant;
    struct str queue;
    int from; /* enum task_state; NO_STATE: it is new */
    enum task_state to;
    int attempt;
    int64_t fence;
    struct trace trace;
    bool has_span; /* an attempt began, or ended */
    struct str error, reason;
};

struct transition_log *transition_log_new(const struct transition_log_setup *setup)
{
    struct transition_log *l = xnew(*l);
    l->setup = *setup;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void transition_log_tell_dropped(const struct transition_log *l, int64_t dropped)
{
    if (dropped)
        log_warn("transitions_dropped", kv_i64("lines", dropped), kv_str("node", l->setup.node));
}

void transition_log_free(struct transition_log *l)
{
    if (!l)
        return;
    transition_log_tell_dropped(l, l->dropped);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* Counts `lines` more. Returns how many of the last second were dropped, once; *ret_admitted: the new ones are not. */
static int64_t transition_log_count(struct transition_log *l, int64_t lines, bool *ret_admitted)
{
    int64_t second = clock_steady_ms(l->setup.clock) / 1000, dropped = 0;
    pthread_mutex_lock(&l->lock);
    if (second != l->second) {
        dropped = l->dropped;
        l->written = l->dropped = 0;
        l->second = second;
    }
    *ret_admitted = l->written + lines <= TRANSITIONS_A_SECOND;
    *(*ret_admitted ? &l->written : &l->dropped) += lines;
    pthread_mutex_unlock(&l->lock);
    return dropped;
}

void transition_log_tick(struct transition_log *l)
{
    bool admitted;
    if (l)
        transition_log_tell_dropped(l, transition_log_count(l, 0, &admitted));
}

static bool transition_log_admits(struct transition_log *l)
{
    bool admitted;
    transition_log_tell_dropped(l, transition_log_count(l, 1, &admitted));
    if (!admitted)
        metric_add(l->setup.metrics, METRIC_TRANSITIONS_DROPPED, 1);
    return admitted;
}

/* They did not even come here. */
static void transition_log_leave_out(struct transition_log *l, size_t lines)
{
    if (!lines || !log_wants(LOG_INFO))
        return;
    transition_log_tick(l);
    pthread_mutex_lock(&l->lock);
    l->dropped += (int64_t)lines;
    pthread_mutex_unlock(&l->lock);
    metric_add(l->setup.metrics, METRIC_TRANSITIONS_DROPPED, (int64_t)lines);
}

static void transition_log_write(struct transition_log *l, const struct transition *t)
{
    struct kv v[FIELDS_MAX];
    size_t n = 0;
    char span[TRACE_SPAN + 1];
    if (!log_wants(LOG_INFO) || !transition_log_admits(l))
        return;
    v[n++] = kv_uuid("task", t->id);
    if (!uuid_is_nil(t->parent))
        v[n++] = kv_uuid("parent", t->parent);
    v[n++] = kv_i64("tenant", t->tenant);
    v[n++] = kv_str("node", l->setup.node);
    if (t->queue.n)
        v[n++] = kv_str("queue", t->queue);
    if (t->from != NO_STATE)
        v[n++] = kv_cstr("from", task_state_name((enum task_state)t->from));
    v[n++] = kv_cstr("to", task_state_name(t->to));
    v[n++] = kv_i64("attempt", t->attempt);
    v[n++] = kv_i64("fence", t->fence);
    v[n++] = kv_cstr("trace", t->trace.id);
    if (t->has_span) {
        trace_span_text(trace_span(t->id, t->fence, TRACE_RUN), span);
        v[n++] = kv_cstr("span", span);
    }
    if (t->trace.request.n)
        v[n++] = kv_str("request", t->trace.request);
    if (t->error.n)
        v[n++] = kv_str("error", t->error);
    if (t->reason.n)
        v[n++] = kv_str("reason", t->reason);
    log_event(LOG_INFO, "transition", v, n);
}

static bool transition_log_wants_all(const struct transition_log *l)
{
    return l && l->setup.which == TRANSITIONS_ALL;
}

bool transition_log_listens(const struct transition_log *l)
{
    return transition_log_wants_all(l);
}

static struct transition transition_of_task(const struct task *t, int from)
{
    return (struct transition){ .id = t->id,
                                .parent = t->parent,
                                .tenant = t->tenant,
                                .queue = t->queue,
                                .from = from,
                                .to = t->state,
                                .attempt = t->attempts,
                                .fence = t->fence,
                                .trace = trace_of(t) };
}

/* A task that ended before its attempt began was SCHEDULED for those who watch it, although a node had claimed it. Runs
 * and steps that no worker runs are as people see them (change_state). */
static enum task_state transition_settled_from(const struct settle_facts *t, const struct outcome *o, bool *ret_began)
{
    *ret_began = o->kind == OUTCOME_OK || o->kind == OUTCOME_FAILED || o->kind == OUTCOME_LOST || o->started_us;
    return change_state(*ret_began ? TASK_RUNNING : TASK_SCHEDULED, t->links);
}

static bool transition_is_failure(const struct settlement *s)
{
    const struct verdict *v = &s->verdict;
    return s->ret_state == TASK_FAILED || s->ret_state == TASK_EXPIRED ||
           (v->has_execution && (v->execution.status == EXECUTION_FAILED || v->execution.status == EXECUTION_LOST));
}

void transition_log_settled(struct transition_log *l, const struct settle_facts *t, const struct outcome *o,
                            const struct settlement *s)
{
    if (!l || s->stale || l->setup.which == TRANSITIONS_NONE)
        return;
    bool failed = transition_is_failure(s), began;
    enum task_state from = transition_settled_from(t, o, &began);
    if (from == s->ret_state || (!failed && l->setup.which != TRANSITIONS_ALL))
        return;
    transition_log_write(l, &(struct transition){ .id = t->id,
                                                  .parent = t->parent,
                                                  .tenant = t->tenant,
                                                  .queue = t->queue,
                                                  .from = from,
                                                  .to = s->ret_state,
                                                  .attempt = t->attempts + began,
                                                  .fence = t->fence,
                                                  .trace = trace_read(t->trace, t->kind, t->id, t->run),
                                                  .has_span = began,
                                                  .error = failed ? s->verdict.last_error : S("") });
}

void transition_log_started(struct transition_log *l, const struct task *t)
{
    if (!transition_log_wants_all(l))
        return;
    struct transition x = transition_of_task(t, TASK_SCHEDULED);
    x.to = TASK_RUNNING;
    x.attempt++;
    x.has_span = true;
    transition_log_write(l, &x);
}

void transition_log_created(struct transition_log *l, const struct task *v, size_t n)
{
    for (size_t i = 0; transition_log_wants_all(l) && i < n; i++) {
        struct transition x = transition_of_task(&v[i], NO_STATE);
        transition_log_write(l, &x);
    }
}

void transition_log_changed(struct transition_log *l, const struct task *t, enum task_state from)
{
    bool failed = t->state == TASK_EXPIRED || t->state == TASK_FAILED;
    if (!l || t->state == from || !(failed ? l->setup.which != TRANSITIONS_NONE : transition_log_wants_all(l)))
        return;
    struct transition x = transition_of_task(t, (int)from);
    if (failed)
        x.error = t->last_error;
    transition_log_write(l, &x);
}

void transition_log_told(struct transition_log *l, const struct task_change *v, size_t n, size_t left_out)
{
    if (!transition_log_wants_all(l))
        return;
    for (size_t i = 0; i < n; i++) {
        cleanup_with(log_request_leave) struct log_request before = log_request_enter(v[i].request);
        struct transition x = transition_of_task(&v[i].task, v[i].from == CHANGE_NEW ? NO_STATE : v[i].from);
        x.to = v[i].to;
        x.attempt += x.from == TASK_SCHEDULED && x.to == TASK_RUNNING;
        x.reason = v[i].task.last_error;
        transition_log_write(l, &x);
    }
    transition_log_leave_out(l, left_out);
}
