#pragma once
/* tests/conformance/store/postgres/postgres_claimers.h - several nodes that claim or lease all due tasks at the same
 * moment. */
#include <stdlib.h>

#include "postgres_sessions.h"

enum { CLAIMERS = 3, CLAIMER_INSERT = 500, CLAIMER_LANES = 3 };

struct claimer {
    struct store *store;
    struct uuid node;
    const struct lease_terms *lease; /* NULL: it claims */
    size_t each;                     /* tasks for each claim */
    size_t lanes; /* of one line: that of some_lane, then those of the next higher priorities, up to CLAIMER_LANES */
    struct uuid *ids;
    size_t n, most;
    pthread_t thread;
    bool failed;
};

static inline void *claim_all(void *context)
{
    struct claimer *c = context;
    struct uuid_gen ids;
    uuid_gen_init(&ids, c->node.b[0]);
    for (int empty = 0; empty < 3 && !c->failed;) {
        struct lane_quota lanes[CLAIMER_LANES];
        for (size_t i = 0; i < c->lanes; i++) {
            lanes[i] = (struct lane_quota){ .lane = some_lane(), .max = c->each };
            lanes[i].lane.priority += (int)i;
        }
        struct op_claim op = { .op.kind = OP_CLAIM,
                               .claim = uuid_next(&ids, NOW),
                               .node = c->node,
                               .lease = c->lease,
                               .lanes = lanes,
                               .lane_count = c->lanes,
                               .lines = &(struct claim_line){ c->lanes, c->each },
                               .line_count = 1,
                               .now_ms = NOW,
                               .until_ms = NOW,
                               .max = c->each,
                               .max_bytes = 1 << 20 };
        struct op *base = &op.op;
        struct error e;
        arena_init(&op.op.arena, 1 << 24);
        c->failed = store_apply(c->store, &base, 1, &e) || op.op.rc;
        for (size_t i = 0; !c->failed && i < op.ret.n && c->n < c->most; i++)
            c->ids[c->n++] = op.ret.v[i].id;
        empty = op.ret.n ? 0 : empty + 1;
        arena_release(&op.op.arena);
    }
    return NULL;
}

static inline int by_id(const void *a, const void *b)
{
    return uuid_cmp(*(const struct uuid *)a, *(const struct uuid *)b);
}

/* Inserts the tasks and lets all nodes claim them from a line of so many lanes: together they get each task once. */
static inline void assert_each_is_taken_once(struct world *w, const struct task *tasks, size_t count, size_t each,
                                             const struct lease_terms *lease, size_t lanes)
{
    struct claimer nodes[CLAIMERS];
    for (size_t i = 0; i < count; i += CLAIMER_INSERT)
        insert(w, tasks + i, min_of(count - i, (size_t)CLAIMER_INSERT));
    for (int i = 0; i < CLAIMERS; i++)
        nodes[i] = (struct claimer){ .store = another_node(),
                                     .node = { { (uint8_t)(i + 1) } },
                                     .lease = lease,
                                     .each = each,
                                     .lanes = lanes,
                                     .ids = xcalloc(count, sizeof(struct uuid)),
                                     .most = count };
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&nodes[i].thread, NULL, claim_all, &nodes[i]), 0);
    struct uuid *all = xcalloc(CLAIMERS * count, sizeof *all);
    size_t n = 0;
    for (int i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_join(nodes[i].thread, NULL), 0);
        assert_false(nodes[i].failed);
        memcpy(all + n, nodes[i].ids, nodes[i].n * sizeof *all);
        n += nodes[i].n;
        store_free(nodes[i].store);
        free(nodes[i].ids);
    }
    assert_int_equal(n, count);
    qsort(all, n, sizeof *all, by_id);
    for (size_t i = 1; i < n; i++)
        assert_true(uuid_cmp(all[i - 1], all[i]) < 0);
    free(all);
}
