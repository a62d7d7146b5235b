/* Order of the checks: did it succeed; did it end without an outcome; may it be retried; when. */
#include "core/task/settle.h"

#include <assert.h>
#include <stdio.h>

#include "base/rfc3339.h"
#include "core/task/backoff.h"
#include "core/task/retry_rules.h"
#include "core/task/trace.h"

enum { EXPIRED_ERROR_MAX = 400, EXPIRED_TEXT = EXPIRED_ERROR_MAX + 128 };

/* Most tasks succeed. Only an outcome that may fail the task needs its place. */
static bool settle_may_fail(const struct outcome *o)
{
    return o->kind == OUTCOME_FAILED || o->kind == OUTCOME_LOST;
}

struct settle_facts settle_facts_of(const struct task *t, const struct outcome *o, struct arena *a)
{
    return (struct settle_facts){
        .id = t->id,
        .parent = t->parent,
        .tenant = t->tenant,
        .kind = t->kind,
        .fence = t->fence,
        .scheduled_ms = t->scheduled_ms,
        .due_ms = t->due_ms,
        .awaited_ms = t->awaited_ms,
        .late_by = t->late_by,
        .attempts = t->attempts,
        .losses = t->losses,
        .delivery = t->delivery,
        .retry = t->retry,
        .expires_ms = task_expires_ms(t),
        .target = t->target,
        .place = a && settle_may_fail(o) ? fingerprint_place(t, a) : S(""),
        .queue = t->queue,
        .name = t->name,
        .version = t->version,
        .run = t->run,
        .trace = trace_without_state(t->trace),
        .links = t->links,
    };
}

/* The same attempt always gets the same id, so its row is written once, however often it is reported. */
static struct uuid settle_execution_id(const struct settle_facts *t, int64_t started_us)
{
    return uuid_derived_from(started_us / 1000, t->id, t->fence);
}

static int64_t settle_awaited_ms(const struct settle_facts *t)
{
    return t->awaited_ms ? t->awaited_ms : t->due_ms;
}

/* A map or an await is due once more when it ends, after its start: it was awaited from its release on. */
static struct execution settle_execution(const struct settle_facts *t, const struct outcome *o,
                                         enum execution_status status, int64_t now_ms)
{
    bool occurrence = t->kind == TASK_OCCURRENCE;
    int64_t started_us = o->started_us ? o->started_us : t->due_ms * 1000;
    int64_t completed_us = o->completed_us ? o->completed_us : now_ms * 1000, awaited_ms = settle_awaited_ms(t);
    bool again = t->target == TARGET_WORKFLOW && started_us < awaited_ms * 1000;
    return (struct execution){
        .id = settle_execution_id(t, started_us),
        .tenant = t->tenant,
        .task = occurrence ? t->parent : t->id,
        .occurrence = occurrence ? t->id : (struct uuid){ { 0 } },
        .scheduled_ms = t->scheduled_ms,
        .due_ms = o->begun_again ? started_us / 1000
                  : again        ? min_of(t->scheduled_ms, started_us / 1000)
                                 : awaited_ms,
        .started_us = started_us,
        .completed_us = max_of(completed_us, started_us),
        .attempt = t->attempts + 1,
        .fence = t->fence,
        .status = status,
        .http_status = o->http_status,
        .worker = o->worker,
        .error = o->error,
        .output = o->output,
        .trace_id = o->trace_id,
        .late_by = late_cause_of(started_us / 1000 - awaited_ms, o->late_by ? o->late_by : t->late_by),
    };
}

/* ---- verdicts ---- */

/* The claim cost no attempt: only the due time changes. The user waits for the same moment as before. */
static struct verdict settle_back_to_scheduled(const struct settle_facts *t, int64_t due_ms, enum late_cause by)
{
    int64_t awaited_ms = settle_awaited_ms(t);
    return (struct verdict){ .next = TASK_SCHEDULED,
                             .due_ms = due_ms,
                             .awaited_ms = awaited_ms == due_ms ? 0 : awaited_ms,
                             .late_by = by ? by : t->late_by,
                             .attempts = t->attempts,
                             .losses = t->losses };
}

/* An outcome was reported, so the worker survived: losses go back to 0. */
static struct verdict settle_reported(const struct settle_facts *t, const struct outcome *o, enum task_state next,
                                      int64_t now_ms)
{
    enum execution_status status = next == TASK_COMPLETED   ? EXECUTION_COMPLETED
                                   : next == TASK_CANCELLED ? EXECUTION_CANCELLED
                                                            : EXECUTION_FAILED;
    return (struct verdict){ .next = next,
                             .attempts = t->attempts + 1,
                             .has_execution = true,
                             .execution = settle_execution(t, o, status, now_ms) };
}

/* leased: a worker of the user held the task, and its lease expired. */
static struct str settle_lost_error(bool leased, bool poison, bool at_most_once)
{
    if (at_most_once)
        return leased ? S("outcome unknown: its lease expired, and the task must run at most once")
                      : S("outcome unknown: the node or worker that had it died, and the task must run at most once");
    if (poison)
        return leased
                   ? S("poison: three leases in a row expired without a report")
                   : S("poison: the node or worker that had it died each time, the last time with nothing else running");
    return leased ? S("lost: its lease expired before its worker reported; the task may have run")
                  : S("lost: the node or worker that had it died before the outcome was stored; the task may have run");
}

static struct verdict settle_lost(const struct settle_facts *t, const struct outcome *o, int64_t now_ms)
{
    bool at_most_once = t->delivery == DELIVER_AT_MOST_ONCE, poison = o->alone && t->losses >= SUSPECT_LOSSES;
    bool suspect = t->losses >= SUSPECT_LOSSES; /* keeps its due time, so that it is retried before other suspects */
    struct verdict v = settle_back_to_scheduled(t, suspect ? t->due_ms : max_of(now_ms, t->due_ms), LATE_DOWN);
    v.losses++;
    v.has_execution = true;
    v.execution = settle_execution(t, o, EXECUTION_LOST, now_ms);
    if (poison || at_most_once)
        v.next = TASK_FAILED;
    v.last_error = v.execution.error = settle_lost_error(t->target == TARGET_WORKER, poison, at_most_once);
    return v;
}

static bool settle_may_retry(const struct settle_facts *t, const struct outcome *o, int attempts,
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

/* The error says that the task expired, when, and the failure of its last attempt. */
static struct str settle_expired_error(const struct settle_facts *t, int64_t due_ms, struct str error, struct arena *a)
{
    char expires[RFC3339_TEXT + 1], due[RFC3339_TEXT + 1], text[EXPIRED_TEXT];
    rfc3339_format(t->expires_ms, expires);
    rfc3339_format(due_ms, due);
    struct str shown = str_utf8_cut(error, EXPIRED_ERROR_MAX), ret;
    size_t n =
        (size_t)snprintf(text, sizeof text,
                         "expired: it was valid until %s, the next attempt would come at %s; it failed with: " STR_FMT,
                         expires, due, STR_ARG(shown));
    return a && arena_str(a, (struct str){ text, n }, &ret) ? ret : S("expired: the next attempt would come too late");
}

static struct verdict settle_unstarted(const struct settle_facts *t, const struct outcome *o, enum task_state next)
{
    struct verdict v = settle_back_to_scheduled(t, 0, LATE_NONE);
    v.next = next;
    v.last_error = o->error;
    return v;
}

static struct verdict settle_failed(const struct settle_facts *t, const struct outcome *o, int64_t now_ms,
                                    struct prng *random, struct arena *a)
{
    if (o->failure == FAILURE_REFUSED && !o->started_us) /* a step that could not be called */
        return settle_unstarted(t, o, TASK_FAILED);
    struct verdict v = settle_reported(t, o, TASK_FAILED, now_ms);
    struct retry_policy policy;
    v.last_error = o->error;
    if (!settle_may_retry(t, o, v.attempts, &policy))
        return v;
    int64_t due_ms = now_ms + backoff_delay_ms(&policy, o, v.attempts, random);
    if (is_expired(t->expires_ms, due_ms)) {
        v.next = TASK_EXPIRED;
        v.last_error = settle_expired_error(t, due_ms, o->error, a);
        return v;
    }
    v.next = TASK_SCHEDULED;
    v.due_ms = due_ms;
    return v;
}

/* A task that never started leaves no execution. */
static struct verdict settle_cancelled(const struct settle_facts *t, const struct outcome *o, int64_t now_ms)
{
    struct verdict v =
        o->started_us ? settle_reported(t, o, TASK_CANCELLED, now_ms) : settle_back_to_scheduled(t, 0, LATE_NONE);
    v.next = TASK_CANCELLED;
    v.last_error = o->error.n ? o->error : o->started_us ? S("cancelled while it ran") : S("cancelled before it began");
    return v;
}

/* A task that never fired keeps its due time, and so its place and its age, unless it is to wait. */
static struct verdict settle_returned(const struct settle_facts *t, const struct outcome *o, int64_t now_ms)
{
    bool waits = o->retry_after_ms > 0;
    struct verdict v =
        settle_back_to_scheduled(t, waits ? max_of(now_ms + o->retry_after_ms, t->due_ms) : t->due_ms, o->late_by);
    v.recalled = o->recalled;
    return v;
}

/* If it is held beyond its expiry, it comes back at the expiry, so that it expires on time. */
static struct verdict settle_held(const struct settle_facts *t, const struct outcome *o, int64_t now_ms)
{
    struct verdict v = settle_returned(t, o, now_ms);
    if (o->retry_after_ms > 0)
        v = settle_back_to_scheduled(t, max_of(now_ms, min_of(v.due_ms, t->expires_ms)), o->late_by);
    v.last_error = o->error;
    v.aside = o->aside;
    return v;
}

static struct verdict settle_by_outcome(const struct settle_facts *t, const struct outcome *o, int64_t now_ms,
                                        struct prng *random, struct arena *a)
{
    switch (o->kind) {
    case OUTCOME_OK: return settle_reported(t, o, TASK_COMPLETED, now_ms);
    case OUTCOME_FAILED: return settle_failed(t, o, now_ms, random, a);
    case OUTCOME_LOST: return t->target == TARGET_WORKFLOW ? settle_returned(t, o, now_ms) : settle_lost(t, o, now_ms);
    case OUTCOME_RETURNED: return settle_returned(t, o, now_ms);
    case OUTCOME_CANCELLED: return settle_cancelled(t, o, now_ms);
    case OUTCOME_HELD: return settle_held(t, o, now_ms);
    case OUTCOME_EXPIRED: return settle_unstarted(t, o, TASK_EXPIRED);
    case OUTCOME_SKIPPED: return settle_unstarted(t, o, TASK_SKIPPED);
    }
    __builtin_unreachable();
}

int64_t settle_completed_ms(const struct verdict *v, int64_t now_ms)
{
    int64_t ended_ms = v->has_execution ? v->execution.completed_us / 1000 : now_ms;
    return task_is_final(v->next) ? max_of(now_ms, ended_ms) : 0;
}

struct verdict settle(const struct settle_facts *t, const struct outcome *o, int64_t now_ms, struct prng *random,
                      struct arena *a)
{
    struct verdict v = settle_by_outcome(t, o, now_ms, random, a);
    if (v.next == TASK_FAILED)
        v.cause = fingerprint_of(t->target, t->place, o->http_status, v.last_error);
    if (v.next == TASK_SCHEDULED && o->kind == OUTCOME_FAILED)
        v.retry_cause = fingerprint_of(t->target, t->place, o->http_status, v.last_error);
    return v;
}
