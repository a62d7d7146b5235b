/* OP_STATS: the figures of each minute, in a plain list. */
#include <stdlib.h>

#include "model/internal.h"

static struct stats_row *memory_stats_find(struct store_memory *s, const struct stats_row *key)
{
    for (size_t i = 0; i < s->stats.n; i++) {
        struct stats_row *r = &s->stats.v[i];
        if (r->minute_ms == key->minute_ms && r->tenant == key->tenant && r->grain == key->grain &&
            uuid_eq(r->node, key->node))
            return r;
    }
    return NULL;
}

static void memory_stats_add(struct store_memory *s, const struct stats_row *row)
{
    struct stats_row *there = memory_stats_find(s, row);
    if (!there) {
        MEMORY_GROW(s->stats.v, s->stats.n, s->stats.cap);
        s->stats.v[s->stats.n++] = *row;
        return;
    }
    stats_add(&there->stats, &row->stats);
    there->written = row->written;
}

enum err memory_stats(struct store_memory *s, struct op *base)
{
    struct op_stats *op = container_of(base, struct op_stats, op);
    for (size_t i = 0; i < op->n; i++) {
        const struct stats_row *there = memory_stats_find(s, &op->v[i]);
        if (!there || there->written < op->v[i].written)
            memory_stats_add(s, &op->v[i]);
    }
    return ERR_OK;
}

/* ---- merging ---- */

static int memory_stats_compare(const void *x, const void *y)
{
    const struct stats_row *a = x, *b = y;
    if (a->minute_ms != b->minute_ms)
        return a->minute_ms < b->minute_ms ? -1 : 1;
    return a->tenant != b->tenant ? (a->tenant > b->tenant) - (a->tenant < b->tenant) : uuid_cmp(a->node, b->node);
}

static size_t memory_stats_merge(struct store_memory *s, enum stats_grain grain, int64_t before_ms, size_t max)
{
    struct stats_row *old = xcalloc(max, sizeof *old);
    size_t n = 0, kept = 0;
    if (s->stats.n)
        qsort(s->stats.v, s->stats.n, sizeof *s->stats.v, memory_stats_compare);
    for (size_t i = 0; i < s->stats.n; i++)
        if (n < max && s->stats.v[i].grain == grain && s->stats.v[i].minute_ms < before_ms)
            old[n++] = s->stats.v[i];
        else
            s->stats.v[kept++] = s->stats.v[i];
    s->stats.n = kept;
    for (size_t i = 0; grain != STATS_OF_HOUR && i < n; i++) {
        struct stats_row row = old[i];
        row.grain = grain + 1;
        row.minute_ms -= row.minute_ms % (grain == STATS_OF_NODE ? STATS_MINUTE_MS : STATS_HOUR_MS);
        row.written = 0;
        memset(row.node.b, 0xff, sizeof row.node.b);
        memory_stats_add(s, &row);
    }
    free(old);
    return n;
}

bool memory_stats_purge(struct store_memory *s, int64_t now_ms, size_t max)
{
    bool more = false;
    if (!s->stats.n)
        return false;
    for (int i = STATS_OF_HOUR; i >= STATS_OF_NODE; i--) {
        enum stats_grain grain = (enum stats_grain)i;
        more = memory_stats_merge(s, grain, stats_old_before(grain, now_ms), max) == max || more;
    }
    return more;
}

/* ---- reading ---- */

enum err memory_reader_stats(struct reader *r, const struct stats_filter *f, struct arena *a, struct stats_points *ret,
                             struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    size_t max = stats_points_max(f);
    struct stats_points all = { .v = arena_array(a, struct stats_point, max) };
    if (!all.v)
        return memory_no_room(e);
    if (s->stats.n)
        qsort(s->stats.v, s->stats.n, sizeof *s->stats.v, memory_stats_compare);
    for (size_t i = 0; i < s->stats.n; i++) {
        const struct stats_row *row = &s->stats.v[i];
        if (row->tenant != f->tenant || row->minute_ms < f->from_ms || row->minute_ms >= f->to_ms)
            continue;
        int64_t at_ms = f->from_ms + (row->minute_ms - f->from_ms) / f->step_ms * f->step_ms;
        if (!all.n || all.v[all.n - 1].at_ms != at_ms)
            all.v[all.n++] = (struct stats_point){ .at_ms = at_ms };
        stats_add(&all.v[all.n - 1].stats, &row->stats);
    }
    *ret = all;
    return ERR_OK;
}
