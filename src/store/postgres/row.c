/* Reading results in PostgreSQL's binary format, and rows into structs. */
#include <endian.h>
#include <string.h>

#include "store/postgres/internal.h"

void pg_result_release(struct pg_result *r)
{
    PQclear(r->r);
    *r = (struct pg_result){ 0 };
}

/* ---- values ---- */

bool pg_is_null(const struct pg_result *r, int row, int column)
{
    return PQgetisnull(r->r, row, column);
}

struct str pg_text(const struct pg_result *r, int row, int column)
{
    if (pg_is_null(r, row, column))
        return (struct str){ 0 };
    return (struct str){ PQgetvalue(r->r, row, column), (size_t)PQgetlength(r->r, row, column) };
}

static int64_t pg_read_integer(const void *p, size_t width)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (width) {
    case 1: return *(const char *)p;
    case sizeof two: memcpy(&two, p, sizeof two); return (int16_t)be16toh(two);
    case sizeof four: memcpy(&four, p, sizeof four); return (int32_t)be32toh(four);
    case sizeof eight: memcpy(&eight, p, sizeof eight); return (int64_t)be64toh(eight);
    default: return 0;
    }
}

int64_t pg_i64(const struct pg_result *r, int row, int column)
{
    struct str v = pg_text(r, row, column);
    return pg_read_integer(v.p, v.n);
}

bool pg_bool(const struct pg_result *r, int row, int column)
{
    return pg_i64(r, row, column) != 0;
}

double pg_double(const struct pg_result *r, int row, int column)
{
    int64_t bits = pg_i64(r, row, column);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

struct uuid pg_uuid(const struct pg_result *r, int row, int column)
{
    struct uuid u = { 0 };
    struct str v = pg_text(r, row, column);
    if (v.n == sizeof u.b)
        memcpy(u.b, v.p, sizeof u.b);
    return u;
}

/* ---- arrays ---- */

enum { ARRAY_HEAD = 20, AT_LENGTH = 12 };

struct pg_walk pg_array_of(const struct pg_result *r, int row, int column)
{
    struct str v = pg_text(r, row, column);
    if (v.n < ARRAY_HEAD) /* an empty array has no dimensions, and a shorter header */
        return (struct pg_walk){ 0 };
    return (struct pg_walk){ .at = v.p + ARRAY_HEAD, .left = (int)pg_read_integer(v.p + AT_LENGTH, 4) };
}

static bool pg_walk_next(struct pg_walk *w, struct str *ret)
{
    if (w->left == 0)
        return false;
    int64_t n = pg_read_integer(w->at, 4);
    *ret = (struct str){ w->at + 4, n < 0 ? 0 : (size_t)n };
    w->at = ret->p + ret->n;
    w->left--;
    return true;
}

bool pg_next_uuid(struct pg_walk *w, struct uuid *ret)
{
    struct str v;
    if (!pg_walk_next(w, &v))
        return false;
    *ret = (struct uuid){ 0 };
    if (v.n == sizeof ret->b)
        memcpy(ret->b, v.p, sizeof ret->b);
    return true;
}

/* ---- rows ---- */

static enum err pg_row_read_lane(struct pg_conn *c, struct store_lanes *l, int64_t number, const struct table *t,
                                 const struct column *column, struct arena *a, void *row, struct error *e)
{
    const struct lane_row *lane;
    if (pg_lanes_at(c, l, number, &lane, e))
        return e->code;
    return column_read_text(t, column, lane->lane.queue, a, row, e);
}

static enum err pg_row_read_bytes32(const struct table *t, const struct column *column, struct str v, void *ret,
                                    struct error *e)
{
    if (v.n != 32)
        return column_wrong(t, column, (int64_t)v.n, e);
    memcpy(ret, v.p, 32);
    return ERR_OK;
}

enum err pg_row_read(struct pg_conn *c, struct store_lanes *lanes, const struct pg_result *r, int row, int first,
                     const struct table *t, struct arena *a, void *ret, struct error *e)
{
    for (int i = 0; i < t->count; i++) {
        const struct column *column = &t->columns[i];
        void *member = (char *)ret + column->offset;
        int at = first + i;
        enum err rc = ERR_OK;
        switch (column->kind) {
        case COL_UUID: *(struct uuid *)member = pg_uuid(r, row, at); break;
        case COL_BYTES32: rc = pg_row_read_bytes32(t, column, pg_text(r, row, at), member, e); break;
        case COL_LANE: rc = pg_row_read_lane(c, lanes, pg_i64(r, row, at), t, column, a, ret, e); break;
        case COL_I64: *(int64_t *)member = pg_i64(r, row, at); break;
        case COL_INT:
        case COL_BOOL:
        case COL_DEAD_I64:
        case COL_FAILED: rc = column_read_number(t, column, pg_i64(r, row, at), ret, e); break;
        default: rc = column_read_text(t, column, pg_text(r, row, at), a, ret, e);
        }
        if (rc)
            return rc;
    }
    return ERR_OK;
}
