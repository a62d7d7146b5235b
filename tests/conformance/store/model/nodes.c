/* What nodes do, made up and compared: beats, burials, shares, wishes. */
#include <stdio.h>
#include <stdlib.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)

static const char *const share_keys[] = { "q:1:a", "q:2:b", "t:1" };
static const char *const texts[] = { "", "a:1", "{\"lag_ms\":1}" };

/* ---- making ---- */

struct uuid model_node(struct model *m)
{
    return m->nodes[below(m, NODES)];
}

const struct partitions *model_own(struct model *m)
{
    if (chance(m, 50))
        return NULL;
    struct partitions *own = arena_new(&m->arena, struct partitions);
    for (size_t i = 0; i < array_count(own->bits); i++)
        own->bits[i] = prng_u64(&m->random);
    return own;
}

void model_make_beat(struct model *m, union any_op *op)
{
    struct uuid node = model_node(m);
    op->beat = (struct op_heartbeat){ .op.kind = OP_HEARTBEAT,
                                      .node = { .id = node,
                                                .name = one_of(m, texts, array_count(texts)),
                                                .version = one_of(m, texts, array_count(texts)),
                                                .doc = one_of(m, texts, array_count(texts)),
                                                .beats = chance(m, 3) ? 1 + (int64_t)below(m, 9) : 0,
                                                .fires_until_ms = chance(m, 30) ? 0 : m->now_ms + below(m, 2000) },
                                      .now_ms = m->now_ms,
                                      .alone = chance(m, 5),
                                      .leave = chance(m, 10) };
}

void model_make_bury(struct model *m, union any_op *op)
{
    size_t i = below(m, NODES);
    int64_t beats = m->beats[i] + (chance(m, 15) ? 1 : 0);
    op->bury = (struct op_node_dead){
        .op.kind = OP_NODE_DEAD, .node = m->nodes[i], .beats = max_of(beats, 1), .now_ms = m->now_ms
    };
}

static struct share some_share(struct model *m, const char *key)
{
    struct share s = { .key = str_from(key) };
    if (chance(m, 70)) {
        s.rate = (double)(1 + below(m, 40)) / 3;
        s.burst = 1 + (int64_t)below(m, 5);
    }
    s.want_tokens = (int64_t)below(m, 6);
    s.give_back_tokens = chance(m, 20) ? (int64_t)below(m, 4) : 0;
    s.concurrency = chance(m, 80) ? 1 + (int64_t)below(m, 6) : 0;
    s.want_places = (int64_t)below(m, 6);
    return s;
}

void model_make_share(struct model *m, union any_op *op)
{
    size_t n = 1 + below(m, array_count(share_keys));
    struct share *v = arena_array(&m->arena, struct share, n);
    for (size_t i = 0; i < n; i++)
        v[i] = some_share(m, share_keys[i]);
    op->share = (struct op_limit_take){ .op.kind = OP_LIMIT_TAKE,
                                        .node = model_node(m),
                                        .v = v,
                                        .n = n,
                                        .now_ms = m->now_ms - (chance(m, 10) ? (int64_t)below(m, 2000) : 0) };
}

void model_make_recall(struct model *m, union any_op *op)
{
    struct task t = { .id = uuid_next(&m->ids, m->now_ms) };
    for (int i = 0; i < 30 && model_look(m, &t) && (t.state != TASK_RUNNING || (t.links & TASK_OPEN && !chance(m, 10)));
         i++)
        ;
    op->recall_request = (struct op_recall){ .op.kind = OP_RECALL,
                                             .id = t.id,
                                             .fence = max_of(t.fence + (chance(m, 10) ? 1 : 0), 1),
                                             .abort = chance(m, 60),
                                             .by_scheduled_ms = chance(m, 30) ? m->now_ms : 0,
                                             .now_ms = m->now_ms };
}

void model_make_recall_list(struct model *m, union any_op *op)
{
    enum { REFUSED_MAX = 3 };
    struct task t = { 0 };
    struct fenced_id *refused = arena_array(&m->arena, struct fenced_id, REFUSED_MAX);
    size_t n = 0;
    for (size_t i = chance(m, 30) ? below(m, REFUSED_MAX + 1) : 0; i > 0; i--)
        if (model_look(m, &t) && t.fence > 0)
            refused[n++] = (struct fenced_id){ t.id, t.fence };
    if (!chance(m, 20) || !model_look(m, &t))
        t.id = (struct uuid){ { 0 } };
    op->recall_requests = (struct op_recall_list){ .op.kind = OP_RECALL_LIST,
                                                   .node = model_node(m),
                                                   .after = t.id,
                                                   .max = chance(m, 20) ? 1 + below(m, 2) : 100,
                                                   .refused = refused,
                                                   .refused_count = n };
}

void model_saw_nodes(struct model *m, const struct op_heartbeat *op)
{
    for (size_t i = 0; i < NODES; i++) {
        for (size_t j = 0; j < op->ret.n; j++)
            if (uuid_eq(m->nodes[i], op->ret.v[j].id))
                m->beats[i] = op->ret.v[j].beats;
        if (op->ret_dead && uuid_eq(m->nodes[i], op->node.id) && chance(m, 50)) { /* it joins again under a new id */
            m->nodes[i] = uuid_next(&m->ids, m->now_ms);
            m->beats[i] = 0;
        }
    }
}

/* ---- comparing ---- */

static bool same_node(const struct node_row *a, const struct node_row *b)
{
    return uuid_eq(a->id, b->id) && str_eq(a->name, b->name) && str_eq(a->version, b->version) &&
           a->beats == b->beats && a->joined_ms == b->joined_ms && a->dead == b->dead && a->dead_ms == b->dead_ms &&
           str_eq(a->doc, b->doc) && a->fires_until_ms == b->fires_until_ms;
}

static const struct worker_group *group_like(const struct worker_groups *all, const struct worker_group *g)
{
    for (size_t i = 0; i < all->n; i++)
        if (worker_kind_compare(&all->v[i].kind, &g->kind) == 0)
            return &all->v[i];
    return NULL;
}

static bool same_groups(const struct worker_groups *a, const struct worker_groups *b, char why[WHY_MAX])
{
    if (a->n != b->n)
        return differ("a beat: %zu and %zu groups of workers", a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct worker_group *x = &a->v[i], *y = group_like(b, x);
        if (!y || x->slots != y->slots || x->workers != y->workers)
            return differ("a beat: group %zu of workers differs", i);
    }
    return true;
}

bool same_beats(const struct op_heartbeat *a, const struct op_heartbeat *b, char why[WHY_MAX])
{
    if (a->ret.n != b->ret.n)
        return differ("%zu and %zu nodes", a->ret.n, b->ret.n);
    for (size_t i = 0; i < a->ret.n; i++)
        if (!same_node(&a->ret.v[i], &b->ret.v[i]))
            return differ("node %zu differs", i);
    if (a->ret_dead != b->ret_dead || a->ret_recall_requested != b->ret_recall_requested ||
        a->ret_has_orphans != b->ret_has_orphans)
        return differ("a beat: dead %d and %d, wished %d and %d, held by dead %d and %d", a->ret_dead, b->ret_dead,
                      a->ret_recall_requested, b->ret_recall_requested, a->ret_has_orphans, b->ret_has_orphans);
    return same_groups(&a->ret_workers, &b->ret_workers, why);
}

bool same_shares(const struct op_limit_take *a, const struct op_limit_take *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->n; i++) {
        const struct share *x = &a->v[i], *y = &b->v[i];
        if (x->ret_tokens != y->ret_tokens || x->ret_places != y->ret_places || x->ret_next_ms != y->ret_next_ms)
            return differ("share %zu: %lld and %lld tokens, %lld and %lld places, next %lld and %lld", i,
                          (long long)x->ret_tokens, (long long)y->ret_tokens, (long long)x->ret_places,
                          (long long)y->ret_places, (long long)x->ret_next_ms, (long long)y->ret_next_ms);
    }
    return true;
}

bool same_recall_requests(const struct op_recall_list *a, const struct op_recall_list *b, char why[WHY_MAX])
{
    if (a->ret_count != b->ret_count)
        return differ("%zu and %zu wishes", a->ret_count, b->ret_count);
    for (size_t i = 0; i < a->ret_count; i++)
        if (!uuid_eq(a->ret[i].id, b->ret[i].id) || a->ret[i].fence != b->ret[i].fence ||
            a->ret[i].abort != b->ret[i].abort || a->ret[i].by_scheduled_ms != b->ret[i].by_scheduled_ms)
            return differ("wish %zu differs", i);
    return true;
}
