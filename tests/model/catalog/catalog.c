/* The catalog: one map over all kinds. Lists sort the entries that match, because entries are few. */
#include <assert.h>
#include <stdlib.h>

#include "model/internal.h"

enum { KEY_HEAD = 1 + sizeof(int32_t), KEY_MAX = KEY_HEAD + CATALOG_NAME_MAX };

static struct str memory_catalog_key(int32_t tenant, enum catalog_kind kind, struct str name, char out[KEY_MAX])
{
    assert(name.n > 0 && name.n <= CATALOG_NAME_MAX);
    out[0] = (char)kind;
    memcpy(out + 1, &tenant, sizeof tenant);
    memcpy(out + KEY_HEAD, name.p, name.n);
    return (struct str){ out, KEY_HEAD + name.n };
}

const struct catalog_entry *memory_catalog_find(const struct store_memory *s, int32_t tenant, enum catalog_kind kind,
                                                struct str name)
{
    char bytes[KEY_MAX];
    const struct catalog_row *row = map_get(&s->catalog, memory_catalog_key(tenant, kind, name, bytes));
    return row ? &row->entry : NULL;
}

/* ---- changing ---- */

/* The state of an entry between two changes of an operation: the map is changed only after all changes were checked. */
struct entry_state {
    int64_t version; /* 0: the entry does not exist */
    int64_t created_ms;
};

static bool memory_catalog_same(const struct catalog_entry *a, const struct catalog_entry *b)
{
    return a->tenant == b->tenant && a->kind == b->kind && str_eq(a->name, b->name);
}

static struct entry_state memory_catalog_before(const struct store_memory *s, const struct op_catalog *op,
                                                const struct entry_state *after, size_t i)
{
    const struct catalog_entry *x = &op->v[i].entry;
    for (size_t j = i; j-- > 0;)
        if (memory_catalog_same(&op->v[j].entry, x))
            return after[j];
    const struct catalog_entry *there = memory_catalog_find(s, x->tenant, x->kind, x->name);
    return there ? (struct entry_state){ there->version, there->created_ms } : (struct entry_state){ 0 };
}

static enum err memory_catalog_check(const struct catalog_change *c, struct entry_state now, struct error *e)
{
    if (!now.version && (c->remove || c->version > 0))
        return error_set(e, ERR_NOT_FOUND, "there is no such entry");
    if (c->version == -1 || c->version == now.version)
        return ERR_OK;
    error_set(e, ERR_CONFLICT, "the entry has changed since");
    return error_in(e, "version");
}

static struct entry_state memory_catalog_after(const struct catalog_change *c, struct entry_state now, int64_t now_ms)
{
    if (c->remove)
        return (struct entry_state){ 0 };
    return (struct entry_state){ now.version + 1, now.version ? now.created_ms : now_ms };
}

static void memory_catalog_put(struct store_memory *s, const struct catalog_change *c, int64_t now_ms)
{
    const struct catalog_entry *x = &c->entry;
    char bytes[KEY_MAX];
    struct str key = memory_catalog_key(x->tenant, x->kind, x->name, bytes);
    if (c->remove) {
        free(map_remove(&s->catalog, key));
        return;
    }
    struct catalog_row *row = xmalloc(sizeof *row + str_pack_size(key) + str_pack_size(x->doc));
    char *at = row->bytes;
    row->key = str_pack(key, &at);
    row->entry = (struct catalog_entry){ .tenant = x->tenant,
                                         .kind = x->kind,
                                         .name = str_sub(row->key, KEY_HEAD, key.n),
                                         .version = c->ret_version,
                                         .doc = str_pack(x->doc, &at),
                                         .created_ms = c->ret_created_ms,
                                         .updated_ms = now_ms };
    free(map_put(&s->catalog, row->key, row));
}

static enum err memory_catalog_check_all(struct store_memory *s, struct op_catalog *op, struct entry_state *after,
                                         struct error *e)
{
    for (size_t i = 0; i < op->n; i++) {
        struct entry_state now = memory_catalog_before(s, op, after, i);
        if (memory_catalog_check(&op->v[i], now, e))
            return e->code;
        const struct catalog_entry *x = &op->v[i].entry;
        if (op->v[i].remove && x->kind == CATALOG_CALENDAR && memory_calendar_unused(s, x, e))
            return e->code;
        after[i] = memory_catalog_after(&op->v[i], now, op->now_ms);
    }
    return ERR_OK;
}

enum err memory_catalog(struct store_memory *s, struct op *base)
{
    struct op_catalog *op = container_of(base, struct op_catalog, op);
    struct error *e = &base->error;
    struct entry_state *after = xcalloc(op->n, sizeof *after);
    enum err rc = memory_idempotency_check(s, op->idempotency, e);
    if (!rc)
        rc = catalog_docs_fit(op, e);
    if (!rc)
        rc = memory_catalog_check_all(s, op, after, e);
    for (size_t i = 0; !rc && i < op->n; i++) {
        op->v[i].ret_version = after[i].version;
        op->v[i].ret_created_ms = after[i].created_ms;
        memory_catalog_put(s, &op->v[i], op->now_ms);
    }
    if (!rc)
        memory_idempotency_put(s, op->idempotency);
    free(after);
    return rc;
}

/* ---- reading ---- */

static bool memory_catalog_copy(struct arena *a, const struct catalog_entry *x, struct catalog_entry *ret)
{
    *ret = *x;
    return arena_str(a, x->name, &ret->name) && arena_str(a, x->doc, &ret->doc);
}

enum err memory_catalog_get(struct reader *r, int32_t tenant, enum catalog_kind kind, struct str name, struct arena *a,
                            struct catalog_entry *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct catalog_entry *x = memory_catalog_find(s, tenant, kind, name);
    if (!x)
        return memory_not_found("entry", e);
    struct catalog_entry copy;
    if (!memory_catalog_copy(a, x, &copy))
        return memory_no_room(e);
    *ret = copy;
    return ERR_OK;
}

static int memory_catalog_compare_keys(int32_t tenant_a, struct str a, int32_t tenant_b, struct str b)
{
    return tenant_a != tenant_b ? (tenant_a > tenant_b) - (tenant_a < tenant_b) : str_cmp(a, b);
}

static int memory_catalog_compare(const void *a, const void *b)
{
    const struct catalog_entry *x = *(const struct catalog_entry *const *)a,
                               *y = *(const struct catalog_entry *const *)b;
    return memory_catalog_compare_keys(x->tenant, x->name, y->tenant, y->name);
}

static bool memory_catalog_matches(const struct catalog_filter *f, const struct catalog_entry *x)
{
    if (x->kind != f->kind || (!f->all_tenants && x->tenant != f->tenant))
        return false;
    return !f->after.n ||
           memory_catalog_compare_keys(x->tenant, x->name, f->all_tenants ? f->after_tenant : f->tenant, f->after) > 0;
}

static enum err memory_catalog_copy_page(const struct catalog_entry **found, size_t n, const struct catalog_filter *f,
                                         struct arena *a, struct catalog_page *ret, struct error *e)
{
    struct catalog_page page = { .entries.n = min_of(n, f->limit), .more = n > f->limit };
    page.entries.v = arena_array(a, struct catalog_entry, page.entries.n);
    if (!page.entries.v)
        return memory_no_room(e);
    for (size_t i = 0; i < page.entries.n; i++)
        if (!memory_catalog_copy(a, found[i], &page.entries.v[i]))
            return memory_no_room(e);
    *ret = page;
    return ERR_OK;
}

enum err memory_catalog_list(struct reader *r, const struct catalog_filter *f, struct arena *a,
                             struct catalog_page *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct catalog_entry **found = xcalloc(s->catalog.n + 1, sizeof *found);
    size_t n = 0;
    map_each (&s->catalog, slot) {
        const struct catalog_entry *x = &((const struct catalog_row *)slot->value)->entry;
        if (memory_catalog_matches(f, x))
            found[n++] = x;
    }
    qsort(found, n, sizeof *found, memory_catalog_compare);
    enum err rc = memory_catalog_copy_page(found, n, f, a, ret, e);
    free(found);
    return rc;
}
