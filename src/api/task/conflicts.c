/* The fields that prevent a task from running beside others, twice, or too late: concurrency key, dedupe key,
 * expiry. */
#include "api/task/body.h"

static enum err task_conflicts_set_concurrency(const struct task_body *b, struct task *t, struct error *e)
{
    if (b->has.concurrency_limit && !b->concurrency_key.n)
        return error_field(e, "concurrency_limit", "needs a concurrency_key");
    t->concurrency_key = b->concurrency_key;
    t->concurrency_limit = b->concurrency_key.n ? (int)max_of(b->concurrency_limit, (int64_t)1) : 0;
    return ERR_OK;
}

/* The dedupe fields have their effect when the task is created. */
static enum err task_conflicts_check_dedupe_unchanged(const struct task_body *b, const struct task *t, struct error *e)
{
    static const char sentence[] = "is used when a task is created and cannot be changed; create a new task";
    int64_t window_ms = t->dedupe_key.n ? t->dedupe_window_ms : task_body_default.dedupe_window_ms;
    if (!str_eq(b->dedupe_key, t->dedupe_key))
        return error_field(e, "dedupe_key", "%s", sentence);
    if (b->dedupe_window_ms != window_ms)
        return error_field(e, "dedupe_window_seconds", "%s", sentence);
    if (b->dedupe != (int)t->dedupe)
        return error_field(e, "dedupe_action", "%s", sentence);
    if (b->dedupe_max_wait_ms != t->dedupe_max_wait_ms)
        return error_field(e, "dedupe_max_wait_seconds", "%s", sentence);
    return ERR_OK;
}

static enum err task_conflicts_set_dedupe(const struct task_body *b, const struct task *current, struct task *t,
                                          struct error *e)
{
    static const char keyless[] = "needs a dedupe_key";
    if (current)
        return task_conflicts_check_dedupe_unchanged(b, current, e);
    if (b->has.dedupe_window && !b->dedupe_key.n)
        return error_field(e, "dedupe_window_seconds", "%s", keyless);
    if (b->has.dedupe && !b->dedupe_key.n)
        return error_field(e, "dedupe_action", "%s", keyless);
    if (b->dedupe_max_wait_ms && b->dedupe == DEDUPE_RETURN)
        return error_field(e, "dedupe_max_wait_seconds", "needs a dedupe_key and dedupe_action RESCHEDULE or REPLACE");
    if (b->dedupe != DEDUPE_RETURN && t->kind == TASK_RECURRING)
        return error_field(e, "dedupe_action",
                           "RESCHEDULE and REPLACE move the run_at of a ONE_TIME task, and this one is RECURRING; use "
                           "RETURN, and PATCH the task that is returned");
    if (!b->dedupe_key.n)
        return ERR_OK;
    t->dedupe_key = b->dedupe_key;
    t->dedupe_window_ms = b->dedupe_window_ms;
    t->dedupe = (enum dedupe)b->dedupe;
    t->dedupe_max_wait_ms = b->dedupe_max_wait_ms;
    return ERR_OK;
}

enum err task_set_conflicts(const struct task_body *b, const struct task *current, struct task *t, struct error *e)
{
    t->expires_after_ms = b->expires_ms;
    enum err rc = task_conflicts_set_concurrency(b, t, e);
    return rc ? rc : task_conflicts_set_dedupe(b, current, t, e);
}
