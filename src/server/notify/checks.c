/* Checks that are due: a task that did not succeed in time becomes part of an incident. The rules are in
 * core/notify/check.h; here they meet the store.
 *
 * The record of a check is due when its task is written, so whatever changed is noticed without a notice: the new
 * deadline is computed then, and written as next_ms. Between deadlines nothing is read or written of it. */
#include "api/task/json.h"
#include "base/log.h"
#include "server/notify/internal.h"

enum {
    CHECKS_LOOKED_AT = 50,
    CHECK_PAGE = 100, /* attempts, newest first */
    CHECK_PAGES_MAX = 50,
    CHECK_BROKEN_MS = 3600000 /* a check that cannot be judged is tried again */
};

/* A check that is looked at. */
struct look {
    const struct record *record;
    struct check check;
    struct task task;
    struct task_check of;
};

/* ---- what is known ---- */

/* The last attempt with one of these statuses; NULL: none. */
static enum err look_last(struct turn *t, const struct look *l, unsigned statuses, const struct execution **ret,
                          struct error *e)
{
    struct execution_filter f = { .tenant = l->task.tenant, .task = l->task.id, .statuses = statuses, .limit = 1 };
    struct execution_page page = { 0 };
    if (reader_executions(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    *ret = page.executions.n ? &page.executions.v[0] : NULL;
    return ERR_OK;
}

/* Since when the task runs, or the oldest of its occurrences that do; 0: none does. */
static enum err look_running(struct turn *t, const struct look *l, int64_t *ret, struct error *e)
{
    struct task_filter f = {
        .tenant = l->task.tenant, .parent = l->task.id, .states = 1U << TASK_RUNNING, .limit = CHECK_PAGE, .brief = true
    };
    struct task own = l->task;
    struct task_page page = { .tasks = { &own, 1 } };
    *ret = 0;
    if (l->task.kind == TASK_RECURRING && reader_list(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    for (size_t i = 0; i < page.tasks.n; i++) {
        const struct task *x = &page.tasks.v[i];
        if (task_shown_state(x, t->now_ms) != TASK_RUNNING)
            continue;
        int64_t since_ms = task_running_since_ms(x);
        *ret = *ret ? min_of(*ret, since_ms) : since_ms;
    }
    return ERR_OK;
}

/* Whether an attempt met the deadline of success_by. What ended before the period cannot. */
static enum err look_is_met(struct turn *t, const struct look *l, int64_t deadline_ms, bool *ret, struct error *e)
{
    struct execution_filter f = {
        .tenant = l->task.tenant, .task = l->task.id, .statuses = 1U << EXECUTION_COMPLETED, .limit = CHECK_PAGE
    };
    *ret = false;
    for (int n = 0; n < CHECK_PAGES_MAX; n++) {
        struct arena_mark mark = arena_mark(&t->arena);
        struct execution_page page = { 0 };
        bool is_over = false;
        if (reader_executions(t->notifier->reader, &f, &t->arena, &page, e))
            return e->code;
        for (size_t i = 0; i < page.executions.n && !*ret && !is_over; i++) {
            const struct execution *x = &page.executions.v[i];
            *ret = check_is_met_by(&l->check, deadline_ms, x);
            is_over = x->completed_us / 1000 < l->check.from_ms;
        }
        f.before = page.next_before;
        arena_rewind(&t->arena, mark);
        if (*ret || is_over || !page.more)
            return ERR_OK;
    }
    return ERR_OK;
}

/* *ret: the task still has a check. */
static enum err look_read(struct turn *t, struct look *l, bool *ret, struct error *e)
{
    const struct notifier_setup *setup = &t->notifier->setup;
    const struct record *r = l->record;
    struct check_facts *f = &l->of.facts;
    const struct execution *ok;
    *ret = false;
    enum err rc = reader_get(t->notifier->reader, r->tenant, r->incident, &t->arena, &l->task, e);
    if (rc == ERR_NOT_FOUND || (!rc && (l->task.deleted || task_is_final(l->task.state))))
        return ERR_OK;
    if (rc || check_read(r->doc, &t->arena, &l->check, e) ||
        task_check_read(&l->task, setup->zones, setup->catalog, &t->arena, &l->of, e))
        return e->code;
    if (expectation_is_none(&f->expect))
        return ERR_OK;
    if (look_last(t, l, 1U << EXECUTION_COMPLETED, &ok, e))
        return e->code;
    f->ok_ms = ok ? ok->completed_us / 1000 : 0;
    *ret = true;
    return ERR_OK;
}

/* ---- a missed deadline ---- */

static enum err look_explain(struct turn *t, const struct look *l, int64_t deadline_ms, struct str *ret,
                             struct error *e)
{
    const struct catalog_cache *catalog = t->notifier->setup.catalog;
    cleanup_with(buf_release) struct buf text;
    struct tenant_rules tenant = { 0 };
    struct check_reason why = { 0 };
    if (look_last(t, l, 0, &why.last, e) || look_running(t, l, &why.running_ms, e))
        return e->code;
    struct queue_rules queue = catalog_cache_queue(catalog, l->task.tenant, l->task.queue, NULL);
    why.tenant_disabled = catalog_cache_tenant(catalog, l->task.tenant, NULL, &tenant) && tenant.disabled;
    why.queue_paused = queue_is_paused(&queue, t->now_ms);
    buf_init(&text, 4 * INCIDENT_ERROR_MAX);
    check_explain(&l->of.facts, &why, deadline_ms, &text);
    return arena_str(&t->arena, str_utf8_cut(buf_str(&text), INCIDENT_ERROR_MAX), ret) ? ERR_OK : error_no_room(e);
}

/* The incident awaits the success of the task itself, so it is its own parent here. The time is that of the judgement
 * that was due, not the time now: a success since then recovers it. */
static enum err look_tell(struct turn *t, const struct look *l, int64_t deadline_ms, struct error *e)
{
    struct hit hit = { .tenant = l->task.tenant,
                       .kind = HIT_MISSED,
                       .at_ms = deadline_ms + CHECK_GRACE_MS,
                       .count = 1,
                       .cause = S(CAUSE_CHECK) };
    struct task shown = l->task;
    shown.parent = shown.id;
    shown.scheduled_ms = deadline_ms;
    if (look_explain(t, l, deadline_ms, &shown.last_error, e))
        return e->code;
    return fold_happening(t, &hit, &shown, 1, e);
}

/* ---- one check ---- */

static enum err look_judge(struct turn *t, struct look *l, struct error *e)
{
    bool is_met = false, exists;
    if (look_read(t, l, &exists, e))
        return e->code;
    if (!exists)
        return turn_add_check(t, l->record, &l->check, -1, e);
    check_begin(&l->check, &l->of.facts);
    int64_t deadline_ms = check_deadline(&l->check, &l->of.facts);
    bool is_over = deadline_ms != INT64_MAX && t->now_ms >= deadline_ms + CHECK_GRACE_MS;
    if (is_over && l->of.facts.deadlines && look_is_met(t, l, deadline_ms, &is_met, e))
        return e->code;
    struct check_plan p = check_plan(&l->check, &l->of.facts, is_met, t->now_ms);
    if (p.is_missed && look_tell(t, l, p.deadline_ms, e))
        return e->code;
    return turn_add_check(t, l->record, &l->check, p.next_ms, e);
}

/* A check that cannot be judged is in no other's way. */
static enum err look_at(struct turn *t, const struct record *r, struct error *e)
{
    struct look *l = arena_new(&t->arena, struct look);
    if (!l)
        return error_no_room(e);
    *l = (struct look){ .record = r };
    enum err rc = look_judge(t, l, e);
    rule_base_release(&l->of.base);
    if (!rc || rc == ERR_CONFLICT || rc == ERR_UNAVAILABLE)
        return rc;
    log_error("check_failed", kv_uuid("task", r->incident), kv_err(e));
    return turn_add_check(t, r, &l->check, t->now_ms + CHECK_BROKEN_MS, e);
}

enum err notifier_look_at_checks(struct turn *t, bool *ret_more, struct error *e)
{
    struct record_filter f = { .kind = RECORD_CHECK, .due_ms = t->now_ms, .limit = CHECKS_LOOKED_AT };
    struct record_page page = { 0 };
    const size_t enough = FOLD_INCIDENTS - SETTINGS_MAX;
    if (reader_records(t->notifier->reader, &f, &t->arena, &page, e))
        return e->code;
    *ret_more = page.more;
    for (size_t i = 0; i < page.n && t->incident_count < enough && t->arena.total < t->arena.max / 2; i++)
        if (look_at(t, &page.v[i], e))
            return e->code;
    return fold_carry_out_all(t, e) ? e->code : turn_write(t, NULL, 0, e);
}
