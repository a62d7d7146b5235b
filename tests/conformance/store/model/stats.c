/* Figures of minutes: made up, and read on both stores. */
#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)

/* In minutes before now: of nodes, of all nodes, of hours, and older than what is kept. */
static const int64_t ages[] = { 0, 1, 9, 11, 40, 1300, 1500, 1530, 3000, 9000, 11000 };

static int32_t stats_tenant(struct model *m)
{
    static const int32_t tenants[] = { STATS_ALL, TENANT, OTHER_TENANT, STATS_OTHER };
    return tenants[below(m, array_count(tenants))];
}

void model_make_stats(struct model *m, union any_op *op)
{
    struct stats_row *row = arena_new(&m->arena, struct stats_row);
    int64_t now = m->now_ms / STATS_MINUTE_MS * STATS_MINUTE_MS;
    *row = (struct stats_row){ .minute_ms = now - ages[below(m, array_count(ages))] * STATS_MINUTE_MS,
                               .node = m->nodes[below(m, NODES)],
                               .tenant = stats_tenant(m),
                               .written = 1 + (int64_t)below(m, 5) };
    for (int i = 0; i < 6; i++)
        row->stats.v[below(m, STATS)] = (int64_t)below(m, 100);
    op->stats = (struct op_stats){ .op.kind = OP_STATS, .v = row, .n = 1 };
}

bool same_stats(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct stats_points p, q;
    int64_t now = m->now_ms / STATS_MINUTE_MS * STATS_MINUTE_MS, step = 1 + (int64_t)below(m, 90);
    struct stats_filter f = { .tenant = stats_tenant(m),
                              .from_ms = now - ages[below(m, array_count(ages))] * STATS_MINUTE_MS,
                              .to_ms = now + STATS_MINUTE_MS,
                              .step_ms = step * STATS_MINUTE_MS };
    if (reader_stats(a, &f, &m->arena, &p, NULL) || reader_stats(b, &f, &m->arena, &q, NULL))
        return differ("stats failed");
    if (p.n != q.n)
        return differ("%zu and %zu points of stats", p.n, q.n);
    for (size_t i = 0; i < p.n; i++)
        if (p.v[i].at_ms != q.v[i].at_ms || memcmp(&p.v[i].stats, &q.v[i].stats, sizeof p.v[i].stats) != 0)
            return differ("point %zu of stats differs", i);
    return true;
}

/* ---- planted bugs ---- */

bool drops_one_minute_in_twenty(struct op *op, struct prng *random)
{
    return op->kind == OP_STATS && prng_below(random, 20) == 0;
}
