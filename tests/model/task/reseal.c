/* OP_RESEAL, and the search for the tasks that need it. The model knows no keys. */
#include <stdio.h>

#include "model/internal.h"
#include "store/common/reading.h"

enum err memory_reseal(struct store_memory *s, struct op *base)
{
    struct op_reseal *op = container_of(base, struct op_reseal, op);
    op->ret_changed = 0;
    for (size_t i = 0; i < op->n; i++) {
        const struct task *was = table_get(&s->table, op->v[i].id);
        if (!was || was->state == TASK_RUNNING || !str_eq(was->target_config, op->v[i].was))
            continue;
        struct task next = *was;
        next.target_config = op->v[i].becomes;
        table_put(&s->table, &next);
        op->ret_changed++;
    }
    for (size_t i = 0; i < op->definition_count; i++)
        op->ret_changed += memory_definition_reseal(s, &op->definitions[i]);
    return ERR_OK;
}

static bool memory_has_other_key(struct str config, struct str key_id)
{
    char own[64];
    size_t n = (size_t)snprintf(own, sizeof own, "\"" SECRET_PREFIX STR_FMT ":", STR_ARG(key_id));
    const char *at = config.p, *end = config.p + config.n;
    while (config.n && (at = memmem(at, (size_t)(end - at), own, n - key_id.n - 1))) {
        if ((size_t)(end - at) < n || memcmp(at, own, n) != 0)
            return true;
        at += n;
    }
    return false;
}

enum err memory_sealed_page(struct reader *r, struct str key_id, struct uuid after, size_t max, struct arena *a,
                            struct sealed_page *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct sealed_page page = { .tasks.v = arena_array(a, struct task, max) };
    size_t seen = 0;
    bool has_room = page.tasks.v;
    if (!has_room)
        return reader_no_room(e);
    for (size_t i = 0; i < order_count(&s->table.by_id) && has_room && seen < max; i++) {
        const struct task *row = task_at(&s->table.by_id, i);
        if (uuid_cmp(row->id, after) <= 0)
            continue;
        bool found = memory_has_other_key(row->target_config, key_id);
        struct task t = { .id = row->id,
                          .tenant = row->tenant,
                          .kind = row->kind,
                          .parent = row->parent,
                          .state = row->state,
                          .target_config = found ? row->target_config : S("") };
        if (sealed_page_add(&page, &t, seen++, max, a, &has_room, e))
            return e->code;
    }
    *ret = page;
    return ERR_OK;
}

enum err memory_key_prints(struct reader *r, struct key_prints *ret, struct error *e)
{
    (void)r;
    (void)e;
    *ret = (struct key_prints){ 0 };
    return ERR_OK;
}
