/* Pauses of tasks that end by themselves. The record of a pause is due at its end. The task is resumed as a user would
 * resume it, by an OP_PUT that names the version that was read: whatever another node or a user did first, it is
 * resumed once. Then the record is removed. A kill in between leaves a record that finds nothing to do. run_pauses.c
 * does the same for runs that have started. */
#include "api/server/audit.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "core/task/action.h"
#include "core/task/pause.h"
#include "server/pause/internal.h"

enum { PAUSES_LOOKED_AT = 50, PAUSE_BROKEN_MS = 60000 /* a task that cannot be resumed is tried again */ };

static enum err pauses_resume(const struct pause_turn *t, const struct task *now, const struct task *next,
                              struct error *e)
{
    char id[UUID_TEXT + 1];
    uuid_format(now->id, id);
    struct audit row = audit_by_system("resume task", "task", str_from(id), t->now_ms);
    row.tenant = now->tenant;
    struct op_put op = { .op = { .kind = OP_PUT, .audit = &row },
                         .task = next,
                         .version = now->version,
                         .fence = now->fence,
                         .state = now->state,
                         .cursor_ms = now->cursor_ms };
    arena_init(&op.op.arena, 4096);
    failpoint("before_resume");
    enum err rc = t->apply(t->context, &op.op, e);
    failpoint("after_resume");
    arena_release(&op.op.arena);
    return rc;
}

enum err pauses_remove(const struct pause_turn *t, const struct record *r, struct error *e)
{
    return t->write(t->context, &(struct record_change){ .record = *r, .version = r->version, .remove = true }, e);
}

enum err pauses_put_off(const struct pause_turn *t, const struct record *r, int64_t next_ms, struct error *e)
{
    struct record_change c = { .record = *r, .version = r->version };
    c.record.next_ms = next_ms;
    return t->write(t->context, &c, e);
}

static enum err pauses_end(const struct pause_turn *t, const struct record *r, struct error *e)
{
    struct task now;
    struct action_plan plan;
    enum err rc = reader_get(t->reader, r->tenant, r->incident, t->arena, &now, e);
    if (!rc && !now.deleted && !task_is_final(now.state) && now.links & TASK_OPENED)
        return run_pause_end(t, r, &now, e);
    int64_t until_ms = rc ? 0 : task_paused_until_ms(&now);
    if (rc == ERR_NOT_FOUND || (!rc && (now.deleted || !until_ms)))
        return pauses_remove(t, r, e);
    if (rc)
        return rc;
    if (until_ms > t->now_ms) /* the pause was changed a moment ago */
        return pauses_put_off(t, r, until_ms, e);
    if (task_act(&now, ACTION_RESUME, false, NULL, (struct uuid){ 0 }, t->now_ms, &plan, e))
        return e->code;
    plan.task.updated_ms = max_of(now.updated_ms, until_ms); /* what was missed is judged by the end (spawn_plan) */
    if (pauses_resume(t, &now, &plan.task, e))
        return e->code;
    log_info("task_resumed", kv_uuid("task", now.id), kv_i64("tenant", now.tenant));
    t->resumed(t->context, &plan.task);
    t->changed(t->context, &plan.task);
    return pauses_remove(t, r, e);
}

enum err pause_ends_step(const struct pause_turn *t, bool *ret_more, struct error *e)
{
    struct record_filter f = { .kind = RECORD_PAUSE, .due_ms = t->now_ms, .limit = PAUSES_LOOKED_AT };
    struct record_page page = { 0 };
    if (reader_records(t->reader, &f, t->arena, &page, e))
        return e->code;
    for (size_t i = 0; i < page.n; i++) {
        struct arena_mark mark = arena_mark(t->arena);
        enum err rc = pauses_end(t, &page.v[i], e);
        arena_rewind(t->arena, mark);
        if (rc == ERR_UNAVAILABLE)
            return rc;
        if (!rc ||
            rc == ERR_CONFLICT) /* the task or its pause was changed: it is looked at again, if it is still due */
            continue;
        log_error("resume_failed", kv_uuid("task", page.v[i].incident), kv_err(e));
        if (pauses_put_off(t, &page.v[i], t->now_ms + PAUSE_BROKEN_MS, e) == ERR_UNAVAILABLE)
            return e->code;
    }
    *ret_more = page.more;
    return ERR_OK;
}
