#include "port/store/dependencies.h"

#include <assert.h>
#include <stdio.h>

#include "base/buf.h"

enum { PATH_SHOWN = 6, PATH_MAX_TEXT = 512 }; /* what fits into struct error */

enum flow_outcome dependency_outcome(enum task_state state, int links)
{
    switch (state) {
    case TASK_COMPLETED: return FLOW_COMPLETED;
    case TASK_FAILED: return FLOW_FAILED;
    case TASK_EXPIRED: return FLOW_EXPIRED;
    case TASK_CANCELLED: return FLOW_CANCELLED;
    case TASK_SKIPPED: return links & TASK_BROKEN ? FLOW_BROKEN : FLOW_SKIPPED;
    default: return FLOW_OPEN;
    }
}

enum edge_state edge_arrives(enum dag_type type, enum flow_outcome parent)
{
    struct flow_counts c = flow_arrival(type, parent);
    assert(c.arrived == 1);
    return c.met ? EDGE_MET : c.broken ? EDGE_BROKEN : EDGE_UNMET;
}

struct flow_counts edge_counts(enum edge_state s)
{
    return (struct flow_counts){ .arrived = s != EDGE_OPEN, .met = s == EDGE_MET, .broken = s == EDGE_BROKEN };
}

enum err dependency_check(const struct task *parent, bool found, const struct dependency *d, size_t i, int32_t tenant,
                          struct error *e)
{
    char field[32], id[UUID_TEXT + 1];
    uuid_format(d->parent, id);
    snprintf(field, sizeof field, "depends_on[%zu]", i);
    if (!found || parent->deleted || parent->tenant != tenant)
        return error_field(e, field, "names task %s, which does not exist; name a task that exists", id);
    if (parent->kind == TASK_ONE_TIME)
        return ERR_OK;
    return error_field(e, field, "names task %s, which is %s; name a one-time task", id,
                       parent->kind == TASK_RECURRING ? "recurring" : "an occurrence of a recurring task");
}

bool dependency_ends_anew(enum task_state was, int links, enum task_state next)
{
    return links & TASK_HAS_CHILDREN && task_is_final(was) && next != was;
}

enum err dependency_is_left(struct error *e)
{
    (void)error_set(e, ERR_CONFLICT, "tasks that depend on it are still being told how it ended; try again");
    return error_in(e, "arrivals");
}

enum err dependency_cycle(const struct uuid *path, size_t n, struct error *e)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, PATH_MAX_TEXT);
    for (size_t i = 0; i < n; i++) {
        char id[UUID_TEXT + 1];
        uuid_format(path[i], id);
        if (i == PATH_SHOWN && n > PATH_SHOWN + 1)
            buf_text(&text, " → …");
        if (i < PATH_SHOWN || i == n - 1)
            buf_printf(&text, "%s%s", i ? " → " : "", id);
    }
    (void)error_set(e, ERR_CONFLICT, "would make the task wait for itself: %s; remove one of these dependencies first",
                    buf_cstr(&text));
    return error_in(e, "depends_on");
}

enum flow_decision dependency_decide(enum dag_join join, uint32_t expected, struct flow_counts c)
{
    return expected ? flow_decide(join, expected, c) : FLOW_START;
}

enum flow_decision open_decide(uint32_t expected, int64_t max_broken, struct flow_counts c)
{
    if (max_broken >= 0 && c.broken > max_broken)
        return FLOW_SKIP_BROKEN;
    return c.arrived >= expected ? FLOW_START : FLOW_WAIT;
}

struct str dependency_skip_reason(struct uuid parent, enum dag_type type, enum flow_outcome is,
                                  char out[DEPENDENCY_REASON_MAX])
{
    char id[UUID_TEXT + 1];
    uuid_format(parent, id);
    int n = snprintf(out, DEPENDENCY_REASON_MAX, DEPENDENCY_SKIPPED "%s with %s, which is %s", id, dag_type_names[type],
                     task_state_name(flow_task_state(is)));
    assert(n > 0 && n < DEPENDENCY_REASON_MAX);
    return (struct str){ out, (size_t)n };
}

/* A paused one stays so; the time that it waits for its resume counts from here on. */
static void dependency_release(struct task *t, int64_t now_ms)
{
    if (t->state != TASK_BLOCKED && t->state != TASK_PAUSED)
        return;
    if (t->state == TASK_BLOCKED)
        t->state = TASK_SCHEDULED;
    t->waits_for = (struct str){ 0 };
    t->scheduled_ms = max_of(t->scheduled_ms, now_ms);
    if (t->due_ms < now_ms)
        task_set_due(t, now_ms);
}

void dependency_apply(struct task *t, enum flow_decision d, struct str why, int64_t now_ms)
{
    t->updated_ms = now_ms;
    if (d == FLOW_WAIT) {
        t->links |= TASK_WAITS;
        t->waits_for = (struct str){ 0 };
        if (t->state == TASK_SCHEDULED)
            t->state = TASK_BLOCKED;
        return;
    }
    t->links &= ~TASK_WAITS;
    if (t->links & TASK_OPEN) { /* control work goes on, whatever its join says */
        t->links &= ~TASK_OPEN;
        t->links |= d == FLOW_SKIP_BROKEN ? TASK_BROKEN : 0;
        t->state = TASK_SCHEDULED;
        task_set_due(t, now_ms);
        return;
    }
    if (d == FLOW_START) {
        dependency_release(t, now_ms);
        return;
    }
    t->links |= d == FLOW_SKIP_BROKEN ? TASK_BROKEN : 0;
    t->state = TASK_SKIPPED;
    t->waits_for = (struct str){ 0 };
    t->completed_ms = now_ms;
    t->last_error = why;
}

bool dependency_arrive(struct task *t, enum flow_decision d, struct str why, int64_t now_ms)
{
    bool breaks = t->links & TASK_OPENED && !(t->links & TASK_BROKEN) && d == FLOW_SKIP_BROKEN;
    if (t->links & TASK_WAITS && d != FLOW_WAIT) {
        dependency_apply(t, d, why, now_ms);
        return true;
    }
    if (t->links & TASK_WAITS || !breaks || task_is_final(t->state))
        return false;
    t->links |= TASK_BROKEN;
    t->updated_ms = now_ms;
    return true;
}

void dependency_tidy(struct task *next, int old_links)
{
    bool is_open = !task_is_final(next->state) && !next->deleted;
    bool waits = is_open && old_links & next->links & TASK_WAITS;
    int given = TASK_BY_HAND | TASK_AGAIN | TASK_BEGUN | TASK_PLANNED | TASK_KEEPS_OUTPUT;
    int kept = old_links & (TASK_LINKS & ~(TASK_WAITS | TASK_BROKEN | TASK_OPEN | given));
    kept |= next->links & given;
    if (next->state == TASK_SKIPPED)
        kept |= old_links & TASK_BROKEN;
    next->links = kept | (waits ? TASK_WAITS : 0);
    if (waits && next->state == TASK_SCHEDULED)
        next->state = TASK_BLOCKED;
    else if (!waits && is_open && task_waits_for_parents(next))
        dependency_release(next, next->updated_ms);
}
