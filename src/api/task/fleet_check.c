/* Refuses a task when it is created, not when it is due, if no worker can run it: if it needs workers and there is no
 * fleet, or its timeout is longer than the queue allows. */
#include "api/task/body.h"
#include "base/duration.h"
#include "node/tenant_needs.h"

static enum err task_check_needs(const struct task *t, const struct task_context *c, struct error *e)
{
    if (!c->needs || tenant_needs_accept(c->needs, t))
        return ERR_OK;
    error_set(
        e, ERR_LIMIT,
        "cannot be new: the waiting tasks of this tenant have %d different combinations of 'requires' and 'resources', "
        "which is the limit; use one of those, for example by rounding 'resources', or wait until some have run",
        TENANT_NEEDS_MAX);
    return error_in(e, t->requires.n ? "requires" : "resources");
}

/* Fields that an edit does not change were accepted before and are not checked again. */
enum err task_check_fleet(const struct task *current, const struct task *t, const struct task_context *c,
                          struct error *e)
{
    static const char remedy[] =
        "needs workers to choose from: start the server with --queue and --events, and workers "
        "with belfry worker";
    bool leased = t->target == TARGET_WORKER; /* a worker leases it directly: the queue is not involved */
    bool wants_label = t->requires.n && !(current && str_eq(current->requires, t->requires));
    bool wants_room = (t->cpu_milli || t->memory_mb) &&
                      !(current && current->cpu_milli == t->cpu_milli && current->memory_mb == t->memory_mb);
    if (c->no_workers && !leased && (wants_label || wants_room))
        return error_field(e, wants_label ? "requires" : "resources", "%s", remedy);
    if (!leased && c->timeout_max_ms && t->timeout_ms > c->timeout_max_ms &&
        !(current && current->timeout_ms == t->timeout_ms)) {
        char most[DURATION_TEXT];
        duration_format(c->timeout_max_ms, most);
        return error_field(e, "timeout_ms",
                           "must be at most %s: the queue takes a task away from a worker that has had it for longer "
                           "(RabbitMQ's consumer_timeout; raise it there and in --queue)",
                           most);
    }
    return wants_label || wants_room ? task_check_needs(t, c, e) : ERR_OK;
}
