/* Audit rows. */
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"
#include "port/store/operation_table.h"

enum { AUDIT_TEXTS = 8 };

static void memory_audit_texts(struct audit *row, struct str *ret[AUDIT_TEXTS])
{
    ret[0] = &row->actor;
    ret[1] = &row->address;
    ret[2] = &row->action;
    ret[3] = &row->kind;
    ret[4] = &row->object;
    ret[5] = &row->actor_name;
    ret[6] = &row->object_name;
    ret[7] = &row->details;
}

void memory_audit_write(struct store_memory *s, const struct op *op)
{
    const struct audit *given = op_audit(op);
    if (!given || order_get(&s->audit, 0, given->id))
        return;
    struct audit copy = *given;
    struct str *texts[AUDIT_TEXTS];
    size_t size = sizeof copy;
    memory_audit_texts(&copy, texts);
    for (size_t i = 0; i < AUDIT_TEXTS; i++)
        size += texts[i]->n;
    struct audit *row = xmalloc(size);
    char *at = (char *)(row + 1);
    *row = copy;
    memset(&row->strand, 1, sizeof row->strand);
    row->seq = ++s->audit_seq;
    memory_audit_texts(row, texts);
    for (size_t i = 0; i < AUDIT_TEXTS; i++) {
        if (texts[i]->n)
            memcpy(at, texts[i]->p, texts[i]->n);
        texts[i]->p = at;
        at += texts[i]->n;
    }
    order_add(&s->audit, 0, row->id, row);
}

size_t memory_audit_purge(struct store_memory *s, int64_t before_ms, size_t max)
{
    size_t n = 0;
    while (n < max && order_count(&s->audit)) {
        struct audit *row = order_at(&s->audit, 0)->value;
        if (row->at_ms >= before_ms)
            break;
        order_remove(&s->audit, 0, row->id);
        free(row);
        n++;
    }
    return n;
}

static bool memory_audit_copy(struct arena *a, const struct audit *row, struct audit *ret)
{
    struct str *texts[AUDIT_TEXTS];
    *ret = *row;
    memory_audit_texts(ret, texts);
    for (size_t i = 0; i < AUDIT_TEXTS; i++)
        if (!arena_str(a, *texts[i], texts[i]))
            return false;
    return true;
}

static bool memory_audit_matches(const struct audit_filter *f, const struct audit *row)
{
    struct audit_range r = audit_range_of(f);
    return uuid_cmp(row->id, r.lowest) >= 0 && uuid_cmp(row->id, r.below) < 0 &&
           (!f->tenant || row->tenant == f->tenant) && (!f->actor.n || str_eq(row->actor, f->actor)) &&
           (!f->object.n || str_eq(row->object, f->object)) &&
           (r.is_prefix ? str_starts(row->action, r.action) : !r.action.n || str_eq(row->action, r.action));
}

enum err memory_audit(struct reader *r, const struct audit_filter *f, struct arena *a, struct audit_page *ret,
                      struct error *e)
{
    cleanup_with(memory_unlock) struct store_memory *s = memory_lock(r);
    struct audit_page page = { .v = arena_array(a, struct audit, f->limit) };
    if (!page.v)
        return memory_no_room(e);
    for (size_t i = order_count(&s->audit); i-- > 0 && !page.more;) {
        const struct audit *row = order_at(&s->audit, i)->value;
        if (!memory_audit_matches(f, row))
            continue;
        page.more = page.n == f->limit;
        if (page.more)
            page.next_before = page.v[page.n - 1].id;
        else if (!memory_audit_copy(a, row, &page.v[page.n++]))
            return memory_no_room(e);
    }
    *ret = page;
    return ERR_OK;
}
