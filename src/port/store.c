/* One door a verb, so that every adapter is asserted alike. */
#include "port/store.h"

#include <assert.h>

static void check_claim(const struct op_claim *c)
{
    assert(!uuid_is_nil(c->claim) && !uuid_is_nil(c->node) && c->max > 0 && c->max <= CLAIM_MAX);
    assert(c->until_ms >= c->now_ms && c->lane_count > 0);
}

static void check_claim_result(const struct op_claim *c)
{
    assert(c->ret.n <= c->max);
    for (size_t i = 0; i < c->ret.n; i++) {
        const struct task *t = &c->ret.v[i];
        assert(t->state == TASK_RUNNING && t->fence > 0 && uuid_eq(t->claim, c->claim));
        assert(t->kind != TASK_RECURRING && t->due_ms <= c->until_ms);
    }
}

static void check_settle(const struct op_settle *s)
{
    for (size_t i = 0; i < s->n; i++) {
        assert(s->v[i].fence > 0);
        assert(s->v[i].replace || task_may_become(TASK_RUNNING, s->v[i].verdict.next));
    }
}

enum err store_apply(struct store *s, struct op *const *ops, size_t n, struct error *e)
{
    assert(n > 0 && n <= STORE_BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->kind == OP_CLAIM)
            check_claim((const struct op_claim *)ops[i]);
        if (ops[i]->kind == OP_SETTLE)
            check_settle((const struct op_settle *)ops[i]);
    }
    enum err rc = s->ops->apply(s, ops, n, e);
    for (size_t i = 0; rc == ERR_OK && i < n; i++)
        if (ops[i]->kind == OP_CLAIM && ops[i]->rc == ERR_OK)
            check_claim_result((const struct op_claim *)ops[i]);
    return rc;
}

enum err store_reader(struct store *s, struct reader **ret, struct error *e)
{
    return s->ops->reader(s, ret, e);
}

void store_free(struct store *s)
{
    if (s)
        s->ops->free(s);
}

enum err reader_get(struct reader *r, int32_t tenant, struct uuid id, struct arena *a, struct task *ret,
                    struct error *e)
{
    enum err rc = r->ops->get(r, tenant, id, a, ret, e);
    assert(rc != ERR_OK || (ret->tenant == tenant && uuid_eq(ret->id, id)));
    return rc;
}

enum err reader_list(struct reader *r, const struct task_filter *f, struct arena *a, struct task_page *ret,
                     struct error *e)
{
    assert(f->tenant > 0 && f->limit > 0 && f->limit <= LIST_MAX);
    enum err rc = r->ops->list(r, f, a, ret, e);
    for (size_t i = 0; rc == ERR_OK && i < ret->tasks.n; i++)
        assert(ret->tasks.v[i].tenant == f->tenant);
    return rc;
}

enum err reader_count(struct reader *r, const struct task_filter *f, size_t max, size_t *ret, struct error *e)
{
    assert(f->tenant > 0);
    return r->ops->count(r, f, max, ret, e);
}

enum err reader_executions(struct reader *r, const struct execution_filter *f, struct arena *a,
                           struct execution_page *ret, struct error *e)
{
    assert(f->tenant > 0 && f->limit > 0 && f->limit <= LIST_MAX);
    return r->ops->executions(r, f, a, ret, e);
}

enum err reader_idempotency(struct reader *r, int32_t tenant, const uint8_t key[32], struct arena *a,
                            struct idempotency *ret, struct error *e)
{
    return r->ops->idempotency(r, tenant, key, a, ret, e);
}

enum err reader_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e)
{
    return r->ops->key(r, id, a, ret, e);
}

enum err reader_lanes(struct reader *r, struct arena *a, struct lane **ret, size_t *ret_count, struct error *e)
{
    return r->ops->lanes(r, a, ret, ret_count, e);
}

enum err reader_counts(struct reader *r, int64_t now_ms, struct store_counts *ret, struct error *e)
{
    return r->ops->counts(r, now_ms, ret, e);
}

void reader_free(struct reader *r)
{
    if (r)
        r->ops->free(r);
}
