/* OP_DEFINE, and the definitions of workflows. */
#include <stdio.h>

#include "model/internal.h"

static bool memory_hash_eq(const uint8_t a[DEFINITION_HASH], const uint8_t b[DEFINITION_HASH])
{
    return memcmp(a, b, DEFINITION_HASH) == 0;
}

void memory_definition_put(struct store_memory *s, const struct definition *d, int64_t now_ms)
{
    struct memory_runs *v = &s->runs;
    for (size_t i = 0; i < v->definition_count; i++) {
        struct memory_definition *x = &v->definitions[i];
        if (x->definition.tenant == d->tenant && memory_hash_eq(x->definition.hash, d->hash)) {
            x->put_ms = max_of(x->put_ms, now_ms);
            return;
        }
    }
    MEMORY_GROW(v->definitions, v->definition_count, v->definition_cap);
    struct memory_definition *x = &v->definitions[v->definition_count++];
    *x = (struct memory_definition){ *d, now_ms };
    x->definition.text = memory_text(d->text);
}

bool memory_definition_reseal(struct store_memory *s, const struct resealed_definition *r)
{
    struct memory_runs *v = &s->runs;
    for (size_t i = 0; i < v->definition_count; i++) {
        struct definition *d = &v->definitions[i].definition;
        if (definition_cmp(d, r->definition) != 0 || !str_eq(d->text, r->definition->text))
            continue;
        memory_text_free(d->text);
        d->text = memory_text(r->becomes);
        return true;
    }
    return false;
}

/* The latest version of the name, removed or not; NULL: it never had one. */
static struct memory_workflow *memory_workflow_latest(const struct memory_runs *v, int32_t tenant, struct str name)
{
    struct memory_workflow *best = NULL;
    for (size_t i = 0; i < v->workflow_count; i++) {
        struct memory_workflow *x = &v->workflows[i];
        if (x->row.tenant == tenant && str_eq(x->row.name, name) && (!best || x->row.version > best->row.version))
            best = x;
    }
    return best;
}

static void memory_workflow_add(struct store_memory *s, struct op_define *op, int64_t version)
{
    struct memory_runs *v = &s->runs;
    struct workflow_row row = { .tenant = op->tenant, .version = version, .created_ms = op->now_ms };
    memcpy(row.hash, op->definition->hash, sizeof row.hash);
    row.name = memory_text(op->name);
    MEMORY_GROW(v->workflows, v->workflow_count, v->workflow_cap);
    v->workflows[v->workflow_count++] = (struct memory_workflow){ .row = row };
    memory_definition_put(s, op->definition, op->now_ms);
}

static void memory_workflow_remove(struct memory_runs *v, const struct op_define *op)
{
    for (size_t i = 0; i < v->workflow_count; i++)
        if (v->workflows[i].row.tenant == op->tenant && str_eq(v->workflows[i].row.name, op->name))
            v->workflows[i].removed = true;
}

enum err memory_define(struct store_memory *s, struct op *base)
{
    struct op_define *op = container_of(base, struct op_define, op);
    if (memory_idempotency_check(s, op->idempotency, &base->error))
        return base->error.code;
    if (!op->name.n) {
        memory_definition_put(s, op->definition, op->now_ms);
        memory_idempotency_put(s, op->idempotency);
        return ERR_OK;
    }
    const struct memory_workflow *last = memory_workflow_latest(&s->runs, op->tenant, op->name);
    bool exists = last && !last->removed;
    if (op->remove && !exists)
        return memory_not_found("workflow", &base->error);
    bool same = !op->remove && exists && memory_hash_eq(last->row.hash, op->definition->hash);
    op->ret_version = op->remove ? 0 : same ? last->row.version : last ? last->row.version + 1 : 1;
    op->ret_created_ms = op->remove ? 0 : same ? last->row.created_ms : op->now_ms;
    op->ret_changed = !same;
    if (op->remove)
        memory_workflow_remove(&s->runs, op);
    else if (!same)
        memory_workflow_add(s, op, op->ret_version);
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

static bool memory_definition_is_used(const struct memory_runs *v, const struct definition *d)
{
    for (size_t i = 0; i < v->workflow_count; i++) {
        const struct memory_workflow *w = &v->workflows[i];
        if (!w->removed && w->row.tenant == d->tenant && memory_hash_eq(w->row.hash, d->hash))
            return true;
    }
    for (size_t i = 0; i < v->run_count; i++)
        if (v->runs[i].tenant == d->tenant && memory_hash_eq(v->runs[i].hash, d->hash))
            return true;
    return false;
}

/* By a task that was not opened yet: its target_config has the hash as text. */
static bool memory_definition_is_awaited(const struct store_memory *s, const struct definition *d)
{
    char hex[2 * DEFINITION_HASH + 1];
    for (size_t i = 0; i < DEFINITION_HASH; i++)
        snprintf(hex + 2 * i, 3, "%02x", d->hash[i]);
    for (size_t i = 0; i < order_count(&s->table.by_id); i++) {
        const struct task *t = task_at(&s->table.by_id, i);
        if (t->tenant == d->tenant && t->target == TARGET_WORKFLOW && !(t->links & TASK_OPENED) && t->target_config.n &&
            memmem(t->target_config.p, t->target_config.n, hex, 2 * DEFINITION_HASH))
            return true;
    }
    return false;
}

size_t memory_purge_definitions(struct store_memory *s, int64_t before_ms, size_t max)
{
    struct memory_runs *v = &s->runs;
    size_t n = 0, gone = 0;
    for (size_t i = 0; i < v->definition_count; i++) {
        struct memory_definition *x = &v->definitions[i];
        bool old = gone < max && x->put_ms < before_ms && !memory_definition_is_used(v, &x->definition);
        if (old && !memory_definition_is_awaited(s, &x->definition)) {
            memory_text_free(x->definition.text);
            gone++;
        } else {
            v->definitions[n++] = *x;
        }
    }
    v->definition_count = n;
    return gone;
}
