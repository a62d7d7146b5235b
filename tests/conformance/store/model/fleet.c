/* What others run, made up and compared: claims that are handed, leases, workers. */
#include <stdio.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)

static const char *const texts[] = { "", "w:1", "{\"cpu\":0.5}" };

/* ---- making ---- */

/* A RUNNING task, if a few looks find one. */
static struct task some_running(struct model *m)
{
    struct task t = { .id = uuid_next(&m->ids, m->now_ms), .tenant = TENANT, .fence = 1 };
    for (int i = 0; i < 40 && model_look(m, &t) && (t.state != TASK_RUNNING || (t.links & TASK_OPEN && !chance(m, 10)));
         i++)
        ;
    t.fence = max_of(t.fence + (chance(m, 10) ? 1 : 0), (int64_t)1);
    return t;
}

static struct task some_leased(struct model *m)
{
    struct task t = some_running(m);
    for (int i = 0; i < 10 && t.target != TARGET_WORKER; i++)
        t = some_running(m);
    return t;
}

const struct lease_terms *model_terms(struct model *m)
{
    if (!chance(m, 30))
        return NULL;
    struct lease_terms *terms = arena_new(&m->arena, struct lease_terms);
    *terms = (struct lease_terms){ m->now_ms + (int64_t)below(m, 60), one_of(m, texts, array_count(texts)) };
    return terms;
}

/* Whose claims they are, is a guess. */
void model_make_hand(struct model *m, union any_op *op)
{
    size_t n = 1 + below(m, 8);
    struct uuid *claims = arena_array(&m->arena, struct uuid, n);
    uint64_t *epochs = chance(m, 80) ? arena_array(&m->arena, uint64_t, n) : NULL;
    for (size_t i = 0; i < n; i++) {
        claims[i] = some_running(m).claim;
        if (epochs)
            epochs[i] = claims[i].b[15] % 4; /* a claim was pushed in one */
    }
    op->hand = (struct op_handoff){ .op.kind = OP_HANDOFF,
                                    .node = model_node(m),
                                    .claims = claims,
                                    .epochs = epochs,
                                    .n = n,
                                    .orphaned = claims[0].b[15] % 3 == 0 };
}

void model_make_handed(struct model *m, union any_op *op)
{
    op->handed = (struct op_handed_off){ .op.kind = OP_HANDED_OFF,
                                         .before_ms = m->now_ms + prng_between(&m->random, -100, 20),
                                         .max = chance(m, 50) ? 1 + below(m, 6) : 1000,
                                         .max_bytes = chance(m, 50) ? 1 + below(m, 100) : 0 };
    if (chance(m, 50))
        op->handed.after = (struct handed_place){ some_running(m).claim, some_running(m).id };
}

void model_make_running(struct model *m, union any_op *op)
{
    size_t n = 1 + below(m, 8);
    struct fenced_id *v = arena_array(&m->arena, struct fenced_id, n);
    for (size_t i = 0; i < n; i++) {
        struct task t = some_running(m);
        v[i] = (struct fenced_id){ t.id, t.fence };
    }
    op->running = (struct op_running){ .op.kind = OP_RUNNING, .v = v, .n = n, .ret = arena_array(&m->arena, bool, n) };
}

/* Some of them have more bytes than it may take, some are wished back, some are over. */
void model_make_retake(struct model *m, union any_op *op)
{
    size_t n = 0, max = 1 + below(m, 8);
    struct fenced_id *v = arena_array(&m->arena, struct fenced_id, max);
    for (size_t i = 0; i < max; i++) {
        struct task t = some_running(m);
        bool twice = false;
        for (size_t j = 0; j < n; j++)
            twice = twice || uuid_eq(v[j].id, t.id);
        if (!twice)
            v[n++] = (struct fenced_id){ t.id, t.fence };
    }
    op->retake = (struct op_retake){ .op.kind = OP_RETAKE,
                                     .claim = uuid_next(&m->ids, m->now_ms),
                                     .node = model_node(m),
                                     .v = v,
                                     .n = n,
                                     .max_bytes = chance(m, 30) ? below(m, 30) : 1000 };
}

void model_make_keep(struct model *m, union any_op *op)
{
    size_t n = 0, max = 1 + below(m, 4);
    struct lease_renewal *v = arena_array(&m->arena, struct lease_renewal, max);
    for (size_t i = 0; i < max; i++) {
        struct task t = some_leased(m);
        bool twice = false;
        for (size_t j = 0; j < n; j++)
            twice = twice || uuid_eq(v[j].id, t.id);
        if (!twice)
            v[n++] = (struct lease_renewal){ .id = t.id,
                                             .fence = t.fence,
                                             .until_ms = m->now_ms + (int64_t)below(m, 60),
                                             .progress = one_of(m, texts, array_count(texts)) };
    }
    op->keep = (struct op_lease_renew){
        .op.kind = OP_LEASE_RENEW, .tenant = chance(m, 70) ? TENANT : OTHER_TENANT, .v = v, .n = n, .now_ms = m->now_ms
    };
}

void model_make_leases_over(struct model *m, union any_op *op)
{
    op->leases_over = (struct op_leases_expired){ .op.kind = OP_LEASES_EXPIRED,
                                                  .now_ms = m->now_ms,
                                                  .max = chance(m, 50) ? 1 + below(m, 3) : 1000,
                                                  .max_waiting = chance(m, 50) ? below(m, 4) : 1000 };
}

static struct worker_kind some_kind(struct model *m)
{
    static const char *const names[] = { "", "a", "a,b" };
    if (chance(m, 50))
        return WORKER_KIND_UNKNOWN;
    return (struct worker_kind){ .queues = one_of(m, names, array_count(names)),
                                 .tenants = one_of(m, names, array_count(names)),
                                 .labels = one_of(m, names, array_count(names)),
                                 .priority_min = (int)below(m, 2),
                                 .priority_max = PRIORITY_MAX - (int)below(m, 2),
                                 .cpu_milli = (int64_t)below(m, 3) - 1,
                                 .memory_mb = (int64_t)below(m, 3) - 1 };
}

void model_make_worker(struct model *m, union any_op *op)
{
    size_t n = 1 + below(m, 4);
    struct worker_row *v = arena_array(&m->arena, struct worker_row, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct worker_row){ .id = { { (uint8_t)(1 + below(m, 12)) } },
                                    .name = one_of(m, texts, array_count(texts)),
                                    .version = one_of(m, texts, array_count(texts)),
                                    .doc = one_of(m, texts, array_count(texts)),
                                    .kind = some_kind(m),
                                    .slots = (int64_t)below(m, chance(m, 50) ? 2 : 100),
                                    .running = (int64_t)below(m, 100),
                                    .left_ms = chance(m, 10) };
    op->worker = (struct op_worker_report){
        .op.kind = OP_WORKER_REPORT, .v = v, .n = n, .now_ms = m->now_ms - (int64_t)below(m, chance(m, 90) ? 10 : 20000)
    };
}

void model_make_breakers(struct model *m, union any_op *op)
{
    static const char *const hosts[] = { "*", "a.example", "b.example:8443" };
    size_t n = 1 + below(m, array_count(hosts));
    struct breaker_change *v = arena_array(&m->arena, struct breaker_change, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct breaker_change){ .row = { .id = uuid_next(&m->ids, m->now_ms),
                                                 .tenant = chance(m, 80) ? TENANT : OTHER_TENANT,
                                                 .host = str_from(hosts[i]),
                                                 .opened_ms = m->now_ms,
                                                 .until_ms = m->now_ms + (int64_t)below(m, 3) * 100,
                                                 .calls = (int64_t)below(m, 50),
                                                 .failures = (int64_t)below(m, 50),
                                                 .reason = one_of(m, texts, array_count(texts)) },
                                        .close = chance(m, 30) };
    for (size_t i = 0; i < n; i++)
        if (v[i].close)
            v[i].row.id = (struct uuid){ 0 };
    op->breakers = (struct op_breakers){ .op.kind = OP_BREAKERS, .v = v, .n = n, .must_exist = chance(m, 20) };
}

void model_twin_fleet(struct model *m, union any_op *twin)
{
    if (twin->op.kind == OP_LEASE_RENEW) {
        size_t size = twin->keep.n * sizeof *twin->keep.v;
        twin->keep.v = memcpy(arena_alloc(&m->arena, size), twin->keep.v, size);
    }
    if (twin->op.kind == OP_RUNNING)
        twin->running.ret = arena_array(&m->arena, bool, twin->running.n);
}

void model_count_fleet(struct tally *t, const union any_op *op)
{
    if (op->op.kind == OP_HANDED_OFF)
        t->handed += op->handed.ret.n;
    if (op->op.kind == OP_RETAKE && op->op.rc == ERR_OK)
        t->retaken += op->retake.ret.n;
    if (op->op.kind == OP_LEASES_EXPIRED)
        t->leases_over += op->leases_over.ret.n;
    for (size_t i = 0; op->op.kind == OP_RUNNING && i < op->running.n; i++)
        t->running += op->running.ret[i];
    for (size_t i = 0; op->op.kind == OP_LEASE_RENEW && i < op->keep.n; i++) {
        t->kept += op->keep.v[i].ret_kept;
        t->ended += op->keep.v[i].ret_ended;
    }
    if (op->op.kind == OP_CLAIM && op->claim.lease)
        t->leased += op->claim.ret.n;
}

/* ---- comparing ---- */

bool same_running(const struct op_running *a, const struct op_running *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->n; i++)
        if (a->ret[i] != b->ret[i])
            return differ("running %zu: %d and %d", i, a->ret[i], b->ret[i]);
    return true;
}

bool same_epochs(const struct op_handed_off *a, const struct op_handed_off *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->ret.n; i++)
        if (a->ret_epochs[i] != b->ret_epochs[i])
            return differ("handed %zu: in epoch %llu and %llu", i, (unsigned long long)a->ret_epochs[i],
                          (unsigned long long)b->ret_epochs[i]);
    return true;
}

bool same_keeps(const struct op_lease_renew *a, const struct op_lease_renew *b, char why[WHY_MAX])
{
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].ret_kept != b->v[i].ret_kept || a->v[i].ret_ended != b->v[i].ret_ended)
            return differ("lease %zu: kept %d and %d, ended %d and %d", i, a->v[i].ret_kept, b->v[i].ret_kept,
                          a->v[i].ret_ended, b->v[i].ret_ended);
    return true;
}

static bool same_workers(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct worker_rows p, q;
    struct uuid before = { { (uint8_t)below(m, 14) } };
    size_t max = 1 + below(m, 14);
    if (reader_workers(a, before, max, &m->arena, &p, NULL) || reader_workers(b, before, max, &m->arena, &q, NULL))
        return differ("workers failed");
    if (p.n != q.n)
        return differ("%zu and %zu workers", p.n, q.n);
    for (size_t i = 0; i < p.n; i++) {
        const struct worker_row *x = &p.v[i], *y = &q.v[i];
        if (!uuid_eq(x->id, y->id) || !str_eq(x->name, y->name) || !str_eq(x->version, y->version) ||
            !str_eq(x->doc, y->doc) || worker_kind_compare(&x->kind, &y->kind) != 0 || x->slots != y->slots ||
            x->running != y->running || x->joined_ms != y->joined_ms || x->seen_ms != y->seen_ms ||
            x->left_ms != y->left_ms)
            return differ("worker %zu differs", i);
    }
    return true;
}

static bool same_breakers(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct breaker_rows p, q;
    struct breaker_filter f = { .all_tenants = chance(m, 70),
                                .tenant = TENANT,
                                .scope = (enum breaker_scope)below(m, 3),
                                .limit = 1 + below(m, 5) };
    if (reader_breakers(a, &f, &m->arena, &p, NULL) || reader_breakers(b, &f, &m->arena, &q, NULL))
        return differ("breakers failed");
    if (p.n != q.n)
        return differ("%zu and %zu breakers", p.n, q.n);
    for (size_t i = 0; i < p.n; i++) {
        const struct breaker_row *x = &p.v[i], *y = &q.v[i];
        if (!uuid_eq(x->id, y->id) || x->tenant != y->tenant || !str_eq(x->host, y->host) ||
            x->opened_ms != y->opened_ms || x->until_ms != y->until_ms || x->calls != y->calls ||
            x->failures != y->failures || x->reopened != y->reopened || !str_eq(x->reason, y->reason))
            return differ("breaker %zu differs", i);
    }
    return true;
}

static bool same_lease(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct task t = some_leased(m);
    struct lease_row x, y;
    int32_t tenant = chance(m, 90) ? t.tenant : OTHER_TENANT;
    enum err p = reader_lease(a, tenant, t.id, &m->arena, &x, NULL);
    enum err q = reader_lease(b, tenant, t.id, &m->arena, &y, NULL);
    if (p != q)
        return differ("a lease: %s and %s", err_text(p), err_text(q));
    if (p == ERR_OK && (x.fence != y.fence || x.until_ms != y.until_ms || !str_eq(x.worker, y.worker) ||
                        !str_eq(x.progress, y.progress)))
        return differ("a lease differs");
    return true;
}

bool same_fleet(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    return same_workers(m, a, b, why) && same_breakers(m, a, b, why) && same_lease(m, a, b, why);
}

/* ---- planted bugs ---- */

bool hands_nothing(struct op *op, struct prng *random)
{
    (void)random;
    return op->kind == OP_HANDOFF;
}

bool retakes_under_any_fence(struct op *op, struct prng *random)
{
    (void)random;
    static struct fenced_id names[64][8];
    static size_t at;
    struct op_retake *retake = container_of(op, struct op_retake, op);
    if (op->kind != OP_RETAKE || retake->n > array_count(names[0]))
        return false;
    struct fenced_id *v = names[at++ % array_count(names)];
    for (size_t i = 0; i < retake->n; i++)
        v[i] = (struct fenced_id){ retake->v[i].id, max_of(retake->v[i].fence - 1, (int64_t)1) };
    retake->v = v;
    return false;
}

bool retakes_what_is_large(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_RETAKE)
        container_of(op, struct op_retake, op)->max_bytes = 1000;
    return false;
}

bool hands_nothing_of_the_dead(struct op *op, struct prng *random)
{
    (void)random;
    return op->kind == OP_HANDOFF && container_of(op, struct op_handoff, op)->orphaned;
}

bool hands_in_no_epoch(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_HANDOFF)
        container_of(op, struct op_handoff, op)->epochs = NULL;
    return false;
}

bool leases_a_millisecond_too_long(struct op *op, struct prng *random)
{
    (void)random;
    static struct lease_terms terms[64];
    static size_t at;
    struct op_claim *claim = container_of(op, struct op_claim, op);
    if (op->kind == OP_CLAIM && claim->lease) {
        struct lease_terms *t = &terms[at++ % array_count(terms)];
        *t = *claim->lease;
        t->until_ms++;
        claim->lease = t;
    }
    return false;
}

bool keeps_leases_of_any_fence(struct op *op, struct prng *random)
{
    (void)random;
    struct op_lease_renew *keep = container_of(op, struct op_lease_renew, op);
    for (size_t i = 0; op->kind == OP_LEASE_RENEW && i < keep->n; i++)
        keep->v[i].fence += keep->v[i].fence > 1;
    return false;
}

bool leases_what_nodes_claim(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_CLAIM)
        container_of(op, struct op_claim, op)->lease = NULL;
    return false;
}

bool hears_half_of_the_workers(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_WORKER_REPORT)
        container_of(op, struct op_worker_report, op)->n /= 2;
    return false;
}
