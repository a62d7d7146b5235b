/* Order of the questions: did it succeed; did it end without an outcome; may it be tried again; when. */
#include "core/settle.h"

#include <assert.h>

#include "core/retry_rules.h"

enum { RETRY_AFTER_MAX_MS = 86400000 };

struct settle_facts settle_facts_of(const struct task *t)
{
    return (struct settle_facts){
        .id = t->id,
        .parent = t->parent,
        .tenant = t->tenant,
        .kind = t->kind,
        .fence = t->fence,
        .scheduled_ms = t->scheduled_ms,
        .due_ms = t->due_ms,
        .attempts = t->attempts,
        .losses = t->losses,
        .delivery = t->delivery,
        .retry = t->retry,
    };
}

bool outcome_is_final(const struct outcome *o)
{
    if (o->failure == FAILURE_REFUSED)
        return true;
    if (o->failure != FAILURE_HTTP)
        return false;
    int s = o->http_status;
    if (s == 408 || s == 425 || s == 429)
        return false;
    return s >= 300 && s < 500; /* a redirect is not followed: asking again would not change it */
}

static int64_t doubled(int64_t delay_ms, int64_t max_ms)
{
    return delay_ms > max_ms / 2 ? max_ms : delay_ms * 2;
}

int64_t retry_delay_ms(const struct retry_policy *p, const struct outcome *o, int attempts, struct prng *random)
{
    assert(attempts > 0);
    if (o->retry_after_ms >= 0)
        return min_of(o->retry_after_ms, (int64_t)RETRY_AFTER_MAX_MS);
    int64_t delay = p->base_delay_ms;
    for (int i = 1; p->backoff == BACKOFF_EXPONENTIAL && i < attempts && delay < p->max_delay_ms; i++)
        delay = doubled(delay, p->max_delay_ms);
    if (o->http_status == 429 || o->http_status == 503)
        delay = doubled(delay, p->max_delay_ms); /* it said that it is overloaded, but not for how long */
    delay = min_of(delay, p->max_delay_ms);
    return p->jitter == JITTER_FULL ? prng_between(random, 0, delay) : delay;
}

/* The same attempt gives the same id, so that its row is written once however often it is reported. */
static struct uuid execution_id(const struct settle_facts *t, int64_t started_us)
{
    return uuid_derived_from(started_us / 1000, t->id, t->fence);
}

static struct execution execution_of(const struct settle_facts *t, const struct outcome *o,
                                     enum execution_status status)
{
    bool occurrence = t->kind == TASK_OCCURRENCE;
    int64_t started_us = o->started_us ? o->started_us : t->due_ms * 1000;
    return (struct execution){
        .id = execution_id(t, started_us),
        .tenant = t->tenant,
        .task = occurrence ? t->parent : t->id,
        .occurrence = occurrence ? t->id : (struct uuid){ { 0 } },
        .scheduled_ms = t->scheduled_ms,
        .due_ms = t->due_ms,
        .started_us = started_us,
        .completed_us = max_of(o->completed_us, started_us),
        .attempt = t->attempts + 1,
        .fence = t->fence,
        .status = status,
        .http_status = o->http_status,
        .worker = o->worker,
        .error = o->error,
        .output = o->output,
        .trace_id = o->trace_id,
    };
}

static struct verdict lost(const struct settle_facts *t, const struct outcome *o, int64_t now_ms)
{
    struct verdict v = { .next = TASK_SCHEDULED,
                         .due_ms = max_of(now_ms, t->due_ms),
                         .attempts = t->attempts,
                         .losses = t->losses + 1,
                         .has_execution = true,
                         .execution = execution_of(t, o, EXECUTION_LOST) };
    v.last_error = S("lost: whoever ran it died before it reported; it may have run");
    if (t->delivery == DELIVER_AT_MOST_ONCE) {
        v.next = TASK_FAILED;
        v.last_error = S("outcome unknown: whoever ran it died, and it is to run at most once");
    } else if (v.losses >= LOSSES_MAX) {
        v.next = TASK_FAILED;
        v.last_error = S("lost too often: whoever runs it dies");
    }
    v.execution.error = v.last_error;
    return v;
}

static bool may_try_again(const struct settle_facts *t, const struct outcome *o, int attempts,
                          struct retry_policy *ret_policy)
{
    bool named;
    *ret_policy = retry_policy_for(&t->retry, o, &named);
    if (o->failure == FAILURE_REFUSED || o->http_status == 410 || (outcome_is_final(o) && !named))
        return false;
    if (t->delivery == DELIVER_AT_MOST_ONCE && o->sent)
        return false;
    return attempts < ret_policy->max_attempts;
}

static struct verdict failed(const struct settle_facts *t, const struct outcome *o, int64_t now_ms, struct prng *random)
{
    struct verdict v = { .next = TASK_FAILED,
                         .attempts = t->attempts + 1,
                         .losses = t->losses,
                         .has_execution = true,
                         .execution = execution_of(t, o, EXECUTION_FAILED),
                         .last_error = o->error };
    struct retry_policy policy;
    if (may_try_again(t, o, v.attempts, &policy)) {
        v.next = TASK_SCHEDULED;
        v.due_ms = now_ms + retry_delay_ms(&policy, o, v.attempts, random);
    }
    return v;
}

struct verdict settle(const struct settle_facts *t, const struct outcome *o, int64_t now_ms, struct prng *random)
{
    switch (o->kind) {
    case OUTCOME_OK:
        return (struct verdict){ .next = TASK_COMPLETED,
                                 .attempts = t->attempts + 1,
                                 .losses = t->losses,
                                 .has_execution = true,
                                 .execution = execution_of(t, o, EXECUTION_COMPLETED) };
    case OUTCOME_RETURNED:
        return (struct verdict){
            .next = TASK_SCHEDULED, .due_ms = max_of(now_ms, t->due_ms), .attempts = t->attempts, .losses = t->losses
        };
    case OUTCOME_CANCELLED:
        return (struct verdict){ .next = TASK_CANCELLED,
                                 .attempts = t->attempts + 1,
                                 .losses = t->losses,
                                 .has_execution = true,
                                 .execution = execution_of(t, o, EXECUTION_FAILED),
                                 .last_error = S("cancelled while it ran") };
    case OUTCOME_LOST: return lost(t, o, now_ms);
    case OUTCOME_FAILED: return failed(t, o, now_ms, random);
    }
    __builtin_unreachable();
}
