/* Whose checks an operation makes due. The same for every store. */
#include "port/store.h"

enum { CHECK_OF_TASK = 1 << 20 }; /* no other item that is derived from a task has this number */

static bool check_is_wanted(const struct task *t)
{
    return t->kind != TASK_OCCURRENCE && uuid_is_nil(t->run) && str_starts(t->extra, S("{\"" TASK_EXPECT "\":"));
}

/* The at-th task that the operation writes; NULL: none. *ret_more: there may be one after it. */
static const struct task *check_task_of(const struct op *op, size_t at, bool *ret_more)
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

bool op_next_check(const struct op *op, size_t *at, struct record *ret)
{
    bool more = op->rc == ERR_OK;
    while (more) {
        const struct task *t = check_task_of(op, (*at)++, &more);
        if (!t || !check_is_wanted(t))
            continue;
        *ret = (struct record){ .id = uuid_derived_from(t->created_ms, t->id, CHECK_OF_TASK),
                                .kind = RECORD_CHECK,
                                .tenant = t->tenant,
                                .incident = t->id,
                                .version = 1,
                                .next_ms = t->updated_ms,
                                .doc = S("{}") };
        return true;
    }
    return false;
}
