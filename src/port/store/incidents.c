#include "port/store/incidents.h"

#include <string.h>

/* ---- OP_FOLD ---- */

enum err fold_docs_fit(const struct op_fold *op, struct error *e)
{
    for (size_t i = 0; i < op->n; i++) {
        if (op->v[i].remove || op->v[i].record.doc.n <= RECORD_DOC_MAX)
            continue;
        error_set(e, ERR_LIMIT, "has more than %d bytes", RECORD_DOC_MAX);
        return error_in(e, "doc");
    }
    return ERR_OK;
}

enum err fold_hit_gone(struct error *e)
{
    error_set(e, ERR_CONFLICT, "were folded by another node");
    return error_in(e, "hits");
}

enum err fold_record_changed(struct error *e)
{
    error_set(e, ERR_CONFLICT, "was changed since it was read");
    return error_in(e, "version");
}

/* ---- reading records ---- */

void record_range_of(const struct record_filter *f, struct uuid *ret_lowest, struct uuid *ret_below)
{
    struct uuid until = f->until_ms ? uuid_floor(f->until_ms) : (struct uuid){ 0 };
    *ret_lowest = f->from_ms ? uuid_floor(f->from_ms) : (struct uuid){ 0 };
    *ret_below = f->before;
    if (uuid_is_nil(*ret_below))
        memset(ret_below->b, 0xff, sizeof ret_below->b);
    if (f->until_ms && uuid_cmp(until, *ret_below) < 0)
        *ret_below = until;
    if (uuid_is_nil(f->id))
        return;
    *ret_lowest = *ret_below = f->id;
    for (size_t i = sizeof f->id.b; i-- > 0 && ++ret_below->b[i] == 0;)
        continue;
}
