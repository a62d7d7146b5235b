#include "node/reaper/lost_verdict.h"

#include "base/log.h"

#define LOST_ALONE "lost alone: whoever ran it died, and nothing else was running"

/* The verdict of the first time is found in last_error. */
static bool lost_verdict_was_alone_before(const struct task *t)
{
    return str_starts(t->last_error, S(LOST_ALONE));
}

struct settlement lost_verdict_settle(const struct task *t, struct lost how, int64_t now_ms, struct prng *random,
                                      struct arena *a, struct event *ret)
{
    bool alone = how.alone && how.fired;
    struct outcome o = { .kind = how.fired ? OUTCOME_LOST : OUTCOME_RETURNED,
                         .alone = alone && lost_verdict_was_alone_before(t),
                         .retry_after_ms = -1,
                         .late_by = LATE_DOWN };
    *ret = (struct event){ .task = settle_facts_of(t, &o, a), .outcome = o };
    struct verdict v = settle(&ret->task, &o, now_ms, random, a);
    if (alone && task_is_suspect(t) && v.next == TASK_SCHEDULED)
        v.last_error = v.execution.error = S(LOST_ALONE "; should that happen again, it is to blame");
    if (o.alone && v.next == TASK_FAILED)
        log_warn("poison_found", kv_uuid("task", t->id), kv_i64("losses", v.losses));
    return (
        struct settlement){ .id = t->id, .fence = t->fence, .parent = t->parent, .tenant = t->tenant, .verdict = v };
}
