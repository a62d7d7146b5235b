/* OP_FOLD: hits that operations have left, and records of incidents, messages and checks, made up and compared. */
#include <stdlib.h>

#include "store_model.h"

#define differ(...) (snprintf(why, WHY_MAX, __VA_ARGS__), false)

enum { RECORDS = 8, CHANGES_MAX = 3, HITS_LOOKED_AT = 12 };

static const char *const fold_keys[] = { "", "", "down", "slow" };
static const char *const fold_docs[] = { "{}", "{\"n\":1}", "{\"n\":2}" };

/* ---- making ---- */

/* Few ids, so that changes meet. Their kinds differ. */
static struct record fold_record(struct model *m)
{
    size_t i = below(m, RECORDS);
    return (struct record){ .id = uuid_derived_from(NOW + (int64_t)i, m->nodes[0], (int64_t)i),
                            .kind = i % 2 ? RECORD_INCIDENT : RECORD_MESSAGE,
                            .tenant = chance(m, 85) ? TENANT : OTHER_TENANT,
                            .setting = uuid_derived_from(NOW, m->nodes[1], (int64_t)i % 2),
                            .key = one_of(m, fold_keys, array_count(fold_keys)),
                            .next_ms = chance(m, 30) ? 0 : m->now_ms + (int64_t)below(m, 40),
                            .doc = one_of(m, fold_docs, array_count(fold_docs)) };
}

/* A record that is there, or a new one; now and then the check of some task. */
static struct record_change fold_change(struct model *m)
{
    struct record_change c = { .record = fold_record(m) };
    bool is_check = chance(m, 25);
    struct record_filter f = { .kind = c.record.kind, .id = c.record.id, .limit = 1 };
    struct record_page page = { 0 };
    if (is_check)
        f = (struct record_filter){ .kind = RECORD_CHECK, .limit = LIST_MAX };
    assert_int_equal(reader_records(m->reader, &f, &m->arena, &page, NULL), ERR_OK);
    const struct record *there = page.n ? &page.v[below(m, page.n)] : NULL;
    if (there && is_check) {
        c.record.id = there->id;
        c.record.kind = RECORD_CHECK;
        c.record.incident = there->incident;
        c.record.tenant = there->tenant;
        c.record.key = S("");
    }
    c.version = chance(m, 20) ? (int64_t)below(m, 4) : there ? there->version : 0;
    c.remove = c.version > 0 && chance(m, 20);
    return c;
}

static int fold_compare_changes(const void *a, const void *b)
{
    return uuid_cmp(((const struct record_change *)a)->record.id, ((const struct record_change *)b)->record.id);
}

static const struct record_change *fold_changes(struct model *m, size_t *ret)
{
    size_t n = below(m, CHANGES_MAX + 1), kept = 0;
    struct record_change *v = arena_array(&m->arena, struct record_change, CHANGES_MAX);
    for (size_t i = 0; i < n; i++)
        v[i] = fold_change(m);
    if (n)
        qsort(v, n, sizeof *v, fold_compare_changes);
    for (size_t i = 0; i < n; i++)
        if (!kept || !uuid_eq(v[kept - 1].record.id, v[i].record.id))
            v[kept++] = v[i];
    if (kept && chance(m, 2))
        v[0].record.doc = (struct str){ arena_alloc(&m->arena, RECORD_DOC_MAX + 1), RECORD_DOC_MAX + 1 };
    *ret = kept;
    return v;
}

/* Some of the oldest hits, and now and then one that is not there. */
static const struct uuid *fold_hits(struct model *m, size_t *ret)
{
    struct hit_list hits = { 0 };
    struct uuid *v = arena_array(&m->arena, struct uuid, HITS_LOOKED_AT + 1);
    size_t n = 0;
    assert_int_equal(reader_hits(m->reader, HITS_LOOKED_AT, &m->arena, &hits, NULL), ERR_OK);
    for (size_t i = 0; i < hits.n; i++)
        if (chance(m, 50))
            v[n++] = hits.v[i].id;
    if (chance(m, 10))
        v[n++] = (struct uuid){ { 0xff } };
    *ret = n;
    return v;
}

void model_make_fold(struct model *m, union any_op *op)
{
    op->fold = (struct op_fold){ .op.kind = OP_FOLD, .idempotency = model_idempotency(m, 12) };
    op->fold.hits = fold_hits(m, &op->fold.hit_count);
    op->fold.v = fold_changes(m, &op->fold.n);
}

/* ---- comparing ---- */

/* The store under test and the model want all kinds of hits. */
static bool same_hits(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct hit_list p = { 0 }, q = { 0 };
    if (reader_hits(a, FOLD_HITS_MAX, &m->arena, &p, NULL) || reader_hits(b, FOLD_HITS_MAX, &m->arena, &q, NULL))
        return differ("hits failed");
    if (p.n != q.n)
        return differ("%zu and %zu hits", p.n, q.n);
    for (size_t i = 0; i < p.n; i++) {
        const struct hit *x = &p.v[i], *y = &q.v[i];
        if (!uuid_eq(x->id, y->id) || x->tenant != y->tenant || x->kind != y->kind || x->count != y->count ||
            x->at_ms != y->at_ms || !str_eq(x->cause, y->cause) || !str_eq(x->tasks, y->tasks))
            return differ("hit %zu differs", i);
    }
    return true;
}

static bool same_records(struct model *m, struct reader *a, struct reader *b, const struct record_filter *f,
                         char why[WHY_MAX])
{
    struct record_page p = { 0 }, q = { 0 };
    if (reader_records(a, f, &m->arena, &p, NULL) || reader_records(b, f, &m->arena, &q, NULL))
        return differ("records of kind %d failed", f->kind);
    if (p.n != q.n || p.more != q.more)
        return differ("%zu and %zu records of kind %d", p.n, q.n, f->kind);
    for (size_t i = 0; i < p.n; i++) {
        const struct record *x = &p.v[i], *y = &q.v[i];
        if (!uuid_eq(x->id, y->id) || x->tenant != y->tenant || !uuid_eq(x->incident, y->incident) ||
            !uuid_eq(x->setting, y->setting) || x->version != y->version || x->next_ms != y->next_ms ||
            !str_eq(x->doc, y->doc) || !str_eq(x->key, y->key))
            return differ("record %zu of kind %d differs", i, f->kind);
    }
    return true;
}

bool same_folds(struct model *m, struct reader *a, struct reader *b, char why[WHY_MAX])
{
    struct record x = fold_record(m);
    struct record_filter f = { .kind = x.kind, .limit = 1 + below(m, RECORDS) };
    if (chance(m, 30))
        f.tenant = x.tenant;
    if (chance(m, 20))
        f.setting = x.setting;
    if (chance(m, 20))
        f.key = x.key;
    if (chance(m, 30))
        f.due_ms = m->now_ms + (int64_t)below(m, 40);
    if (chance(m, 20))
        f.before = x.id;
    f.open = x.kind == RECORD_INCIDENT && chance(m, 20);
    const struct record_filter checks = { .kind = RECORD_CHECK, .limit = LIST_MAX };
    const struct record_filter pauses = { .kind = RECORD_PAUSE, .limit = LIST_MAX };
    return same_hits(m, a, b, why) && same_records(m, a, b, &f, why) && same_records(m, a, b, &checks, why) &&
           same_records(m, a, b, &pauses, why);
}

/* ---- planted bugs ---- */

bool keeps_hits_that_are_folded(struct op *op, struct prng *random)
{
    (void)random;
    if (op->kind == OP_FOLD)
        container_of(op, struct op_fold, op)->hit_count = 0;
    return false;
}

/* A message that a node takes has the version of before, and another node takes it, too. */
bool writes_one_record_in_twenty_not_at_all(struct op *op, struct prng *random)
{
    struct op_fold *fold = container_of(op, struct op_fold, op);
    if (op->kind == OP_FOLD && fold->n && prng_below(random, 20) == 0)
        fold->n--;
    return false;
}
