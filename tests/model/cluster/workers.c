/* OP_WORKER_REPORT: the workers of a fleet, as last reported. */
#include <stdlib.h>

#include "model/internal.h"

struct worker_entry {
    struct worker_row row;
    char text[];
};

static void memory_worker_put(struct store_memory *s, const struct worker_row *row)
{
    const struct worker_kind *k = &row->kind;
    struct worker_entry *x =
        xmalloc(sizeof *x + str_pack_size(row->name) + str_pack_size(row->version) + str_pack_size(row->doc) +
                str_pack_size(k->queues) + str_pack_size(k->tenants) + str_pack_size(k->labels));
    char *at = x->text;
    x->row = *row;
    x->row.name = str_pack(row->name, &at);
    x->row.version = str_pack(row->version, &at);
    x->row.doc = str_pack(row->doc, &at);
    x->row.kind.queues = str_pack(k->queues, &at);
    x->row.kind.tenants = str_pack(k->tenants, &at);
    x->row.kind.labels = str_pack(k->labels, &at);
    free(map_put(&s->workers, uuid_bytes(&x->row.id), x));
}

enum err memory_worker_report(struct store_memory *s, struct op *base)
{
    struct op_worker_report *op = container_of(base, struct op_worker_report, op);
    struct worker_row *v = xcalloc(op->n + 1, sizeof *v);
    size_t n = worker_reports_merge(op, v);
    op->ret_changed = false;
    for (size_t i = 0; i < n; i++) {
        struct worker_row row = v[i];
        const struct worker_entry *there = map_get(&s->workers, uuid_bytes(&row.id));
        op->ret_changed = op->ret_changed || worker_report_changes(there ? &there->row : NULL, &row);
        if (there) {
            row.joined_ms = there->row.joined_ms;
            row.seen_ms = max_of(row.seen_ms, there->row.seen_ms);
            row.left_ms = there->row.left_ms ? there->row.left_ms : row.left_ms;
        }
        memory_worker_put(s, &row);
    }
    free(v);
    return ERR_OK;
}

static void memory_add_to_group(struct worker_groups *all, const struct worker_row *w)
{
    size_t i = 0;
    while (i < all->n && worker_kind_compare(&all->v[i].kind, &w->kind) != 0)
        i++;
    if (i == all->n)
        all->v[all->n++] = (struct worker_group){ .kind = w->kind };
    all->v[i].slots += w->slots;
    all->v[i].workers++;
}

static bool memory_copy_kind(struct arena *a, struct worker_kind *k)
{
    return arena_str(a, k->queues, &k->queues) && arena_str(a, k->tenants, &k->tenants) &&
           arena_str(a, k->labels, &k->labels);
}

bool memory_worker_groups(const struct store_memory *s, int64_t now_ms, struct arena *a, struct worker_groups *ret)
{
    struct worker_groups all = { arena_array(a, struct worker_group, s->workers.n), 0 };
    int64_t latest_ms = INT64_MIN;
    map_each (&s->workers, slot)
        latest_ms = max_of(latest_ms, ((const struct worker_entry *)slot->value)->row.seen_ms);
    map_each (&s->workers, slot) {
        const struct worker_row *w = &((const struct worker_entry *)slot->value)->row;
        if (all.v && !w->left_ms && w->seen_ms >= latest_ms - WORKER_SILENT_MS && w->seen_ms >= now_ms - WORKER_GONE_MS)
            memory_add_to_group(&all, w);
    }
    bool fits = all.v != NULL;
    for (size_t i = 0; fits && i < all.n; i++)
        fits = memory_copy_kind(a, &all.v[i].kind);
    *ret = all;
    return fits;
}

bool memory_worker_may_go(const void *entry, const struct sweep *w)
{
    return ((const struct worker_entry *)entry)->row.seen_ms < w->now_ms;
}

static int memory_workers_compare(const void *x, const void *y)
{
    const struct worker_row *const *a = x, *const *b = y;
    return uuid_cmp((*b)->id, (*a)->id);
}

static bool memory_worker_copy(struct arena *a, const struct worker_row *w, struct worker_row *ret)
{
    *ret = *w;
    return arena_str(a, w->name, &ret->name) && arena_str(a, w->version, &ret->version) &&
           arena_str(a, w->doc, &ret->doc) && memory_copy_kind(a, &ret->kind);
}

enum err memory_workers(struct reader *r, struct uuid before, size_t max, struct arena *a, struct worker_rows *ret,
                        struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct worker_row **all = xcalloc(s->workers.n, sizeof *all);
    size_t n = 0;
    map_each (&s->workers, slot) {
        const struct worker_row *w = &((const struct worker_entry *)slot->value)->row;
        if (uuid_is_nil(before) || uuid_cmp(w->id, before) < 0)
            all[n++] = w;
    }
    if (n)
        qsort(all, n, sizeof *all, memory_workers_compare);
    struct worker_rows found = { arena_array(a, struct worker_row, min_of(n, max)), min_of(n, max) };
    bool fits = found.v != NULL;
    for (size_t i = 0; fits && i < found.n; i++)
        fits = memory_worker_copy(a, all[i], &found.v[i]);
    free(all);
    if (!fits)
        return memory_no_room(e);
    *ret = found;
    return ERR_OK;
}
