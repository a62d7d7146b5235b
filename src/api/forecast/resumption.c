#include "api/forecast/resumption.h"

#include "base/rfc3339.h"
#include "core/task/settle.h"
#include "core/task/spawn.h"

enum { ROWS_MAX = 1000, VISITS_MAX = 4, ROWS_ARENA = 64 << 20, PLAN_ARENA = 4 << 20 };

/* The times from its cursor on that have rows. Of more than ROWS_MAX, the latest. */
static enum err resumption_read_taken(struct reader *r, const struct task *t, struct arena *a, struct spawn_taken *ret,
                                      struct error *e)
{
    struct task_filter f = { .tenant = t->tenant,
                             .parent = t->id,
                             .from = uuid_floor(t->cursor_ms - schedule_spread(&t->schedule, t->id)),
                             .limit = ROWS_MAX,
                             .brief = true };
    struct task_page page = { 0 };
    *ret = (struct spawn_taken){ .before_ms = INT64_MAX };
    enum err rc = reader_list(r, &f, a, &page, e);
    if (rc)
        return rc;
    struct spawn_span *v = arena_array(a, struct spawn_span, page.tasks.n + 1);
    if (!v)
        return error_no_room(e);
    for (size_t i = page.tasks.n; i-- > 0;) /* newest first */
        ret->n += spawned_span(&page.tasks.v[i], &v[ret->n]);
    ret->v = v;
    return ERR_OK;
}

static void resumption_add(struct resumption *s, const struct spawn_plan *plan, int64_t starts_ms)
{
    s->missed += plan->missed;
    for (size_t i = 0; i < plan->occurrences.n; i++) {
        const struct task *o = &plan->occurrences.v[i];
        if (o->state != TASK_SCHEDULED)
            continue;
        if (is_expired(task_expires_ms(o), starts_ms)) {
            s->expired++;
        } else if (s->runs++ == 0) {
            s->first_ms = o->scheduled_ms;
            s->overlap = o->overlap;
        }
    }
}

/* A visit plans a limited number of times (SPAWN_MAX), as the spawner's do. */
static enum err resumption_plan(const struct task *t, const struct recurrence *rule, const struct spawn_taken *taken,
                                int64_t at_ms, int64_t starts_ms, struct resumption *ret, struct error *e)
{
    struct task at = *t;
    struct spawn_plan plan = { .more = true };
    for (int visits = 0; plan.more && visits < VISITS_MAX; visits++) {
        cleanup_with(arena_release) struct arena a;
        arena_init(&a, PLAN_ARENA);
        if (spawn_plan(&at, rule, taken, at_ms, at_ms, &a, &plan, e))
            return e->code;
        resumption_add(ret, &plan, starts_ms);
        at.cursor_ms = plan.cursor_ms;
        at.runs_count += plan.runs;
    }
    ret->cut = plan.more;
    return ERR_OK;
}

enum err resumption_read(struct reader *r, const struct task *t, const struct recurrence *rule, int64_t at_ms,
                         int64_t starts_ms, struct resumption *ret, struct error *e)
{
    struct spawn_taken taken;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, ROWS_ARENA);
    *ret = (struct resumption){ 0 };
    enum err rc = resumption_read_taken(r, t, &a, &taken, e);
    return rc ? rc : resumption_plan(t, rule, &taken, at_ms, starts_ms, ret, e);
}

/* If not all could be looked at, the latest one is among the rest. */
static bool resumption_is_open(const struct resumption *s, const struct task *t)
{
    return s->cut && t->schedule.catch_up == CATCH_UP_ONE;
}

static bool resumption_is_all(const struct resumption *s, const struct task *t)
{
    bool used_up = t->schedule.max_runs && t->runs_count + s->runs >= t->schedule.max_runs;
    return s->runs == s->missed && !s->cut && !used_up;
}

bool resumption_runs(const struct resumption *s, const struct task *t)
{
    return s->runs || resumption_is_open(s, t);
}

static void resumption_explain_late(const struct resumption *s, const char *when, struct buf *out)
{
    char first[RFC3339_TEXT + 1];
    rfc3339_format(s->first_ms, first);
    if (s->runs == 1)
        buf_printf(out, "its time %s runs %s: it is too recent to count as missed", first, when);
    else if (s->runs)
        buf_printf(out, "its %lld times from %s on run %s: they are too recent to count as missed", (long long)s->runs,
                   first, when);
    else if (s->expired)
        buf_printf(out, "what came during the pause expires %s (expires_after_seconds)", when);
}

static void resumption_explain_none(const struct resumption *s, const struct task *t, struct buf *out)
{
    buf_printf(out, "none of them runs (%s)",
               t->schedule.catch_up == CATCH_UP_NONE ? "catch_up_mode"
               : s->expired                          ? "expires_after_seconds"
                                                     : "catch_up_window_seconds");
}

void resumption_explain(const struct resumption *s, const struct task *t, const char *when, struct buf *out)
{
    char first[RFC3339_TEXT + 1];
    rfc3339_format(s->first_ms, first);
    if (!s->missed) {
        resumption_explain_late(s, when, out);
        return;
    }
    buf_text(out, "of the times that it has missed, ");
    if (resumption_is_open(s, t))
        buf_printf(out, "the latest one runs %s, if it is within catch_up_window_seconds (catch_up_mode)", when);
    else if (!s->runs)
        resumption_explain_none(s, t, out);
    else if (t->schedule.catch_up == CATCH_UP_ONE)
        buf_printf(out, "the latest one runs %s, that of %s (catch_up_mode)", when, first);
    else if (resumption_is_all(s, t))
        buf_printf(out, "all of them run %s (catch_up_mode)", when);
    else
        buf_printf(out, "%lld%s run%s %s, from that of %s on (catch_up_mode)", (long long)s->runs,
                   s->cut ? " or more" : "", s->runs == 1 && !s->cut ? "s" : "", when, first);
}
