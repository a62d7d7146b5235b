#include "port/store/schedules.h"

#include <assert.h>

#include "port/store/claims.h"

int64_t recurring_counts_as(const struct op_recurring *op, struct uuid id, int64_t cursor_ms)
{
    return partition_is_own(op->own, id) ? cursor_ms : later_by(cursor_ms, op->until_ms - op->help_until_ms);
}

bool recurring_gives(const struct op_recurring *op, struct uuid id, int64_t cursor_ms)
{
    return cursor_ms < op->until_ms && (cursor_ms < op->help_until_ms || partition_is_own(op->own, id));
}

bool taken_rows_begin(struct taken_rows *r, const struct op_recurring *op, const struct task *t, struct arena *a)
{
    *r = (struct taken_rows){ .arena = a };
    if (t->version <= 1 || !op->taken_ms || t->cursor_ms >= later_by(t->updated_ms, op->taken_ms))
        return false;
    r->from = uuid_floor(t->cursor_ms - schedule_spread(&t->schedule, t->id));
    return true;
}

enum err taken_rows_add(struct taken_rows *r, const struct task *occurrence, struct error *e)
{
    assert(r->rows < TAKEN_MAX);
    if (!r->v && !(r->v = arena_array(r->arena, struct spawn_span, TAKEN_MAX)))
        return error_set(e, ERR_LIMIT, "the answer is larger than the memory set aside for it");
    r->n += spawned_span(occurrence, &r->v[r->n]);
    r->rows++;
    r->last = occurrence->id;
    return ERR_OK;
}

struct spawn_taken taken_rows_end(const struct taken_rows *r)
{
    return (struct spawn_taken){ r->v, r->n, r->rows == TAKEN_MAX ? uuid_time_ms(r->last) : INT64_MAX };
}
