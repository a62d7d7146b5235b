#include "port/store/tasks.h"

#include <string.h>

bool task_needs_calendar(const struct task *t)
{
    return t->kind == TASK_RECURRING && t->schedule.calendar.n && !t->deleted && !task_is_final(t->state);
}

bool put_cut_applies(const struct op_put *op, const struct spawn_cut *c)
{
    int64_t last_ms = c->last_was_ms + schedule_spread(&op->task->schedule, op->task->id);
    return task_is_final(op->task->state) || op->task->deleted || op->ret_cursor_ms <= last_ms;
}

bool put_cut_deletes(struct op_put *op, const struct spawn_cut *c)
{
    int64_t at_ms = c->first_ms + schedule_spread(&op->task->schedule, op->task->id);
    bool deletes = c->count == 0 || op->ret_cursor_ms <= at_ms;
    op->ret_cut += deletes ? c->count_was : c->count_was - c->count;
    return deletes;
}

bool put_keeps_requested(const struct op_put *op)
{
    return !task_is_final(op->task->state);
}

bool schedule_is_cancelled(const struct task *recurring)
{
    return recurring->state == TASK_CANCELLED || recurring->deleted;
}

bool put_ends_fired(const struct op_put *op)
{
    return schedule_is_cancelled(op->task);
}

bool put_cancels(const struct op_put *op, const struct task *occurrence)
{
    if (task_has_fired(occurrence))
        return true;
    bool has_ended = task_is_final(op->task->state) && occurrence->due_ms <= op->task->updated_ms;
    return has_ended || occurrence->due_ms < op->withdraw_from_ms || !occurrence->runs_count;
}

struct str put_cancel_reason(const struct task *recurring)
{
    if (!task_is_final(recurring->state) && !recurring->deleted)
        return S("its schedule was edited");
    return recurring->state == TASK_CANCELLED ? S("its schedule was cancelled") : S("its schedule has ended");
}

enum err limit_reached(const char *field, int64_t limit, struct error *e)
{
    error_set(e, ERR_LIMIT, "the tenant may have at most %lld %s tasks; this request would exceed that",
              (long long)limit, strcmp(field, "max_recurring") == 0 ? "recurring" : "unfinished");
    return error_in(e, field);
}

enum err calendar_missing(struct str name, struct error *e)
{
    return error_field(e, "calendar", "'" STR_FMT "' is not a calendar", STR_ARG(name));
}

enum err calendar_used(struct str name, struct error *e)
{
    error_set(e, ERR_CONFLICT, "'" STR_FMT "' is used by recurring tasks", STR_ARG(name));
    return error_in(e, "calendar");
}
