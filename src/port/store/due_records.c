/* Whose checks and pauses an operation makes due. The same for every store. */
#include "core/task/pause.h"
#include "port/store.h"

/* No other items that are derived from a task have these numbers. */
enum { CHECK_OF_TASK = 1 << 20, PAUSE_OF_TASK };

/* The at-th task that the operation writes; NULL: none. *ret_more: there may be one after it. */
static const struct task *due_record_task(const struct op *op, size_t at, bool *ret_more)
{
    const struct op_insert *insert = (const struct op_insert *)op;
    const struct op_settle *settle = (const struct op_settle *)op;
    *ret_more = false;
    switch (op->kind) {
    case OP_INSERT: *ret_more = at < insert->count; return *ret_more ? &insert->tasks[at] : NULL;
    case OP_PUT: *ret_more = at == 0; return at == 0 ? ((const struct op_put *)op)->task : NULL;
    case OP_SETTLE: *ret_more = at < settle->n; return *ret_more && !settle->v[at].stale ? settle->v[at].replace : NULL;
    default: return NULL;
    }
}

static bool check_of_task(const struct task *t, struct record *ret)
{
    if (t->kind == TASK_OCCURRENCE || !uuid_is_nil(t->run) || !str_starts(t->extra, S("{\"" TASK_EXPECT "\":")))
        return false;
    *ret = (struct record){ .id = uuid_derived_from(t->created_ms, t->id, CHECK_OF_TASK),
                            .kind = RECORD_CHECK,
                            .next_ms = t->updated_ms };
    return true;
}

struct uuid pause_record_id(const struct task *t)
{
    return uuid_derived_from(t->created_ms, t->id, PAUSE_OF_TASK);
}

static bool pause_of_task(const struct task *t, struct record *ret)
{
    int64_t until_ms = task_paused_until_ms(t);
    if (!until_ms)
        return false;
    *ret = (struct record){ .id = pause_record_id(t), .kind = RECORD_PAUSE, .next_ms = until_ms };
    return true;
}

static bool (*const records_of_task[])(const struct task *t, struct record *ret) = { check_of_task, pause_of_task };

bool op_next_record(const struct op *op, size_t *at, struct record *ret)
{
    const size_t each = array_count(records_of_task);
    bool more = op->rc == ERR_OK;
    while (more) {
        size_t place = (*at)++;
        const struct task *t = due_record_task(op, place / each, &more);
        if (!t || !records_of_task[place % each](t, ret))
            continue;
        ret->tenant = t->tenant;
        ret->incident = t->id;
        ret->version = 1;
        ret->doc = S("{}");
        return true;
    }
    return false;
}
