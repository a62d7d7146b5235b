/* OP_WORKER_REPORT: the workers of a fleet, as last reported. */
#include <stdlib.h>

#include "model/internal.h"

struct worker_entry {
    struct worker_row row;
    char text[];
};

static void memory_worker_put(struct store_memory *s, const struct worker_row *row)
{
    struct worker_entry *x =
        xmalloc(sizeof *x + str_pack_size(row->name) + str_pack_size(row->version) + str_pack_size(row->doc));
    char *at = x->text;
    x->row = *row;
    x->row.name = str_pack(row->name, &at);
    x->row.version = str_pack(row->version, &at);
    x->row.doc = str_pack(row->doc, &at);
    free(map_put(&s->workers, uuid_bytes(&x->row.id), x));
}

enum err memory_worker_report(struct store_memory *s, struct op *base)
{
    struct op_worker_report *op = container_of(base, struct op_worker_report, op);
    for (size_t i = 0; i < op->n; i++) {
        struct worker_row row = op->v[i];
        const struct worker_entry *there = map_get(&s->workers, uuid_bytes(&row.id));
        row.joined_ms = row.seen_ms = op->now_ms;
        row.left_ms = row.left_ms ? op->now_ms : 0;
        if (there) {
            row.joined_ms = there->row.joined_ms;
            row.seen_ms = max_of(row.seen_ms, there->row.seen_ms);
            row.left_ms = there->row.left_ms ? there->row.left_ms : row.left_ms;
        }
        memory_worker_put(s, &row);
    }
    return ERR_OK;
}

int64_t memory_worker_slots(const struct store_memory *s, int64_t now_ms)
{
    int64_t slots = 0;
    map_each (&s->workers, slot) {
        const struct worker_row *w = &((const struct worker_entry *)slot->value)->row;
        if (!w->left_ms && w->seen_ms >= now_ms - WORKER_SILENT_MS)
            slots += w->slots;
    }
    return slots;
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
           arena_str(a, w->doc, &ret->doc);
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
