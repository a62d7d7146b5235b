/* Hits, and OP_FOLD: plain lists, in the order of their ids. */
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"

/* ---- hits ---- */

void memory_hits_write(struct store_memory *s, const struct op *op)
{
    struct hits *hits = xnew(*hits);
    hits_of_op(op, s->base.wants, hits);
    for (size_t i = 0; i < hits->n; i++) {
        const struct hit *given = &hits->v[i];
        if (order_get(&s->hits, 0, given->id))
            continue;
        struct hit *row = xmalloc(sizeof *row + str_pack_size(given->cause) + str_pack_size(given->tasks));
        char *at = (char *)(row + 1);
        *row = *given;
        row->cause = str_pack(given->cause, &at);
        row->tasks = str_pack(given->tasks, &at);
        order_add(&s->hits, 0, row->id, row);
    }
    free(hits);
}

enum err memory_hits(struct reader *r, size_t max, struct arena *a, struct hit_list *ret, struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct hit_list all = { arena_array(a, struct hit, max), min_of(max, order_count(&s->hits)) };
    for (size_t i = 0; all.v && i < all.n; i++) {
        all.v[i] = *(const struct hit *)order_at(&s->hits, i)->value;
        if (!arena_str(a, all.v[i].cause, &all.v[i].cause) || !arena_str(a, all.v[i].tasks, &all.v[i].tasks))
            return memory_no_room(e);
    }
    if (!all.v)
        return memory_no_room(e);
    *ret = all;
    return ERR_OK;
}

/* ---- OP_FOLD ---- */

static bool memory_record_key_taken(const struct store_memory *s, const struct record *of)
{
    for (size_t i = 0; of->key.n && i < order_count(&s->records); i++) {
        const struct record *r = order_at(&s->records, i)->value;
        if (str_eq(r->key, of->key) && !uuid_eq(r->id, of->id))
            return true;
    }
    return false;
}

static bool memory_record_change(struct store_memory *s, const struct record_change *c)
{
    struct record *was = order_get(&s->records, 0, c->record.id);
    if (c->version ? !was || was->tenant != c->record.tenant || was->version != c->version : was != NULL)
        return false;
    if (!c->remove && memory_record_key_taken(s, &c->record))
        return false;
    struct record next = was ? *was : c->record;
    next.key = c->record.key;
    next.next_ms = c->record.next_ms;
    next.doc = c->record.doc;
    next.version = c->version + 1;
    struct record *row = xmalloc(sizeof *row + str_pack_size(next.key) + str_pack_size(next.doc));
    char *at = (char *)(row + 1);
    *row = next;
    row->key = str_pack(next.key, &at);
    row->doc = str_pack(next.doc, &at);
    if (was)
        order_remove(&s->records, 0, was->id);
    free(was);
    if (c->remove)
        free(row);
    else
        order_add(&s->records, 0, row->id, row);
    return true;
}

static void memory_records_copy(const struct order *from, struct order *to)
{
    order_init(to);
    for (size_t i = 0; i < order_count(from); i++) {
        const struct record *r = order_at(from, i)->value;
        struct record *row = xmalloc(sizeof *row + str_pack_size(r->key) + str_pack_size(r->doc));
        char *at = (char *)(row + 1);
        *row = *r;
        row->key = str_pack(r->key, &at);
        row->doc = str_pack(r->doc, &at);
        order_add(to, 0, row->id, row);
    }
}

static void memory_records_free(struct order *o)
{
    for (size_t i = 0; i < order_count(o); i++)
        free(order_at(o, i)->value);
    order_release(o);
}

void memory_checks_write(struct store_memory *s, const struct op *op)
{
    struct record given;
    for (size_t at = 0; op_next_record(op, &at, &given);) {
        const struct record *was = order_get(&s->records, 0, given.id);
        struct record_change c = { .record = was ? *was : given, .version = was ? was->version : 0 };
        c.record.next_ms = given.next_ms;
        (void)memory_record_change(s, &c);
    }
}

enum err memory_fold(struct store_memory *s, struct op *base)
{
    struct op_fold *op = container_of(base, struct op_fold, op);
    struct order before;
    bool done = true;
    if (memory_idempotency_check(s, op->idempotency, &base->error) || fold_docs_fit(op, &base->error))
        return base->error.code;
    for (size_t i = 0; i < op->hit_count; i++)
        if (!order_get(&s->hits, 0, op->hits[i]))
            return fold_hit_gone(&base->error);
    memory_records_copy(&s->records, &before);
    for (size_t i = 0; done && i < op->n; i++)
        done = memory_record_change(s, &op->v[i]);
    if (!done) {
        struct order changed = s->records;
        s->records = before;
        memory_records_free(&changed);
        return fold_record_changed(&base->error);
    }
    memory_records_free(&before);
    for (size_t i = 0; i < op->hit_count; i++) {
        free(order_get(&s->hits, 0, op->hits[i]));
        order_remove(&s->hits, 0, op->hits[i]);
    }
    memory_idempotency_put(s, op->idempotency);
    return ERR_OK;
}

void memory_incidents_release(struct store_memory *s)
{
    memory_records_free(&s->records);
    memory_records_free(&s->hits);
}

/* ---- reading records ---- */

static bool memory_record_matches(const struct record *r, const struct record_filter *f)
{
    struct uuid lowest, below;
    record_range_of(f, &lowest, &below);
    return r->kind == f->kind && (!f->tenant || r->tenant == f->tenant) &&
           (uuid_is_nil(f->setting) || uuid_eq(r->setting, f->setting)) &&
           (uuid_is_nil(f->incident) || uuid_eq(r->incident, f->incident)) && (!f->key.n || str_eq(r->key, f->key)) &&
           (!f->due_ms || (r->next_ms > 0 && r->next_ms <= f->due_ms)) && uuid_cmp(r->id, lowest) >= 0 &&
           uuid_cmp(r->id, below) < 0 && (!f->open || r->key.n);
}

static int memory_record_compare_due(const void *x, const void *y)
{
    const struct record *a = *(const struct record *const *)x, *b = *(const struct record *const *)y;
    return a->next_ms != b->next_ms ? (a->next_ms > b->next_ms) - (a->next_ms < b->next_ms) : uuid_cmp(a->id, b->id);
}

enum err memory_records(struct reader *r, const struct record_filter *f, struct arena *a, struct record_page *ret,
                        struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    const struct record **all = xcalloc(order_count(&s->records) + 1, sizeof *all);
    size_t n = 0;
    for (size_t i = order_count(&s->records); i-- > 0;)
        if (memory_record_matches(order_at(&s->records, i)->value, f))
            all[n++] = order_at(&s->records, i)->value;
    if (f->due_ms && n)
        qsort(all, n, sizeof *all, memory_record_compare_due);
    struct record_page page = { arena_array(a, struct record, f->limit), min_of(n, f->limit), n > f->limit };
    bool fits = page.v != NULL;
    for (size_t i = 0; fits && i < page.n; i++) {
        page.v[i] = *all[i];
        fits = arena_str(a, all[i]->key, &page.v[i].key) && arena_str(a, all[i]->doc, &page.v[i].doc);
    }
    free(all);
    if (!fits)
        return memory_no_room(e);
    *ret = page;
    return ERR_OK;
}
