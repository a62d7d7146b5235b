/* OP_INSERT. */
#include <stdlib.h>

#include "model/internal.h"

enum err memory_id_conflict(const struct task *t, struct error *e)
{
    char text[UUID_TEXT + 1];
    uuid_format(t->id, text);
    error_set(e, ERR_CONFLICT, "there is another task %s already", text);
    return error_in(e, "id");
}

/* Checks all tasks against the table and against each other. */
static enum err memory_insert_check(const struct store_memory *s, const struct op_insert *op,
                                    struct dedupe_taking *keys, struct error *e)
{
    cleanup_with(map_release) struct map seen; /* id → created_ms */
    map_init(&seen, HASH_STABLE);
    int64_t *created_ms = xcalloc(op->count, sizeof *created_ms);
    enum err rc = ERR_OK;
    for (size_t i = 0; i < op->count && rc == ERR_OK; i++) {
        const struct task *t = &op->tasks[i], *there = table_get(&s->table, t->id);
        const int64_t *expected = there ? &there->created_ms : map_get(&seen, uuid_bytes(&t->id));
        if (!expected)
            rc = memory_calendar_check(s, t, e) ||
                         (op->depends && memory_depends_check(s, op->depends[i].v, op->depends[i].n, t->tenant, e))
                     ? e->code
                     : dedupe_take(keys, t, op->takes_over ? op->takes_over[i] : (struct uuid){ 0 }, e);
        else if (*expected != t->created_ms)
            rc = memory_id_conflict(t, e);
        created_ms[i] = t->created_ms;
        map_put(&seen, uuid_bytes(&t->id), &created_ms[i]);
    }
    free(created_ms);
    return rc;
}

void memory_insert_absent(struct store_memory *s, const struct task *t)
{
    if (!table_get(&s->table, t->id))
        table_put(&s->table, t);
}

enum err memory_insert(struct store_memory *s, struct op *base)
{
    struct op_insert *op = op_as(struct op_insert, base);
    cleanup_with(dedupe_release) struct dedupe_taking keys = dedupe_begin(s, NULL);
    if (memory_idempotency_check(s, op->idempotency, &base->error) || memory_insert_check(s, op, &keys, &base->error) ||
        memory_limits_check(s, op, &base->error))
        return base->error.code;
    for (size_t i = 0; i < op->count; i++) {
        if (op->depends && op->depends[i].n)
            memory_insert_child(s, &op->tasks[i], &op->depends[i]);
        else
            memory_insert_absent(s, &op->tasks[i]);
    }
    if (op->definition)
        memory_definition_put(s, op->definition, op->count ? op->tasks[0].created_ms : 0);
    dedupe_keep(&keys);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}
