/* Parameters in PostgreSQL's binary format: integers are big-endian; an array has a header, and a length before each
 * element. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "store/postgres/internal.h"

enum { BYTES_MAX = 1 << 30, TEXT_MAX = 1 << 20, ARRAY_HEAD = 20 };

static const struct {
    Oid element, array;
    int width; /* in bytes; 0: variable */
} types[] = {
    [PG_BOOL] = { 16, 1000, 1 },  [PG_I16] = { 21, 1005, 2 },     [PG_I32] = { 23, 1007, 4 },
    [PG_I64] = { 20, 1016, 8 },   [PG_DOUBLE] = { 701, 1022, 8 }, [PG_UUID] = { 2950, 2951, 16 },
    [PG_BYTES] = { 17, 1001, 0 }, [PG_TEXT] = { 25, 1009, 0 },
};

void pg_params_init(struct pg_params *p)
{
    *p = (struct pg_params){ 0 };
    buf_init(&p->bytes, BYTES_MAX);
    buf_init(&p->text, TEXT_MAX);
}

void pg_params_release(struct pg_params *p)
{
    buf_release(&p->bytes);
    buf_release(&p->text);
}

void pg_params_reset(struct pg_params *p)
{
    p->n = 0;
    buf_reset(&p->bytes);
}

/* ---- raw bytes ---- */

static void pg_params_put(struct pg_params *p, const void *bytes, size_t n)
{
    buf_add(&p->bytes, (struct str){ bytes, n });
}

static void pg_params_put_i32(struct pg_params *p, int32_t v)
{
    uint32_t big = htobe32((uint32_t)v);
    pg_params_put(p, &big, sizeof big);
}

static void pg_params_put_i64(struct pg_params *p, int64_t v)
{
    uint64_t big = htobe64((uint64_t)v);
    pg_params_put(p, &big, sizeof big);
}

static void pg_params_put_integer(struct pg_params *p, int width, int64_t v)
{
    uint16_t small = htobe16((uint16_t)v);
    switch (width) {
    case 2: pg_params_put(p, &small, sizeof small); break;
    case 4: pg_params_put_i32(p, (int32_t)v); break;
    default: pg_params_put_i64(p, v);
    }
}

static void pg_params_put_double(struct pg_params *p, double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    pg_params_put_i64(p, bits);
}

static void pg_params_put_text(struct pg_params *p, struct str v)
{
    text_add_clean(&p->bytes, v);
}

/* ---- single values ---- */

static void pg_params_begin(struct pg_params *p, Oid type)
{
    assert(p->n < PG_PARAMS_MAX);
    p->types[p->n] = type;
    p->at[p->n] = p->bytes.n;
}

static void pg_params_end(struct pg_params *p)
{
    p->lengths[p->n] = (int)(p->bytes.n - p->at[p->n]);
    p->n++;
}

void pg_add_bool(struct pg_params *p, bool v)
{
    pg_params_begin(p, types[PG_BOOL].element);
    pg_params_put(p, v ? "\1" : "\0", 1);
    pg_params_end(p);
}

void pg_add_i32(struct pg_params *p, int32_t v)
{
    pg_params_begin(p, types[PG_I32].element);
    pg_params_put_i32(p, v);
    pg_params_end(p);
}

void pg_add_i64(struct pg_params *p, int64_t v)
{
    pg_params_begin(p, types[PG_I64].element);
    pg_params_put_i64(p, v);
    pg_params_end(p);
}

void pg_add_null(struct pg_params *p, enum pg_type type)
{
    pg_params_begin(p, types[type].element);
    p->at[p->n] = SIZE_MAX;
    p->lengths[p->n++] = 0;
}

void pg_add_partitions(struct pg_params *p, const struct partitions *own)
{
    char bits[PARTITIONS / 8];
    if (!own) {
        pg_add_null(p, PG_BYTES);
        return;
    }
    for (size_t i = 0; i < sizeof bits; i++)
        bits[i] = (char)(own->bits[i / 8] >> (i % 8 * 8));
    pg_add_bytes(p, (struct str){ bits, sizeof bits });
}

void pg_add_uuid(struct pg_params *p, struct uuid v)
{
    if (uuid_is_nil(v)) {
        pg_add_null(p, PG_UUID);
        return;
    }
    pg_params_begin(p, types[PG_UUID].element);
    pg_params_put(p, v.b, sizeof v.b);
    pg_params_end(p);
}

void pg_add_text(struct pg_params *p, struct str v)
{
    pg_params_begin(p, types[PG_TEXT].element);
    pg_params_put_text(p, v);
    pg_params_end(p);
}

void pg_add_bytes(struct pg_params *p, struct str v)
{
    pg_params_begin(p, types[PG_BYTES].element);
    pg_params_put(p, v.p, v.n);
    pg_params_end(p);
}

/* ---- arrays ---- */

void pg_array(struct pg_params *p, enum pg_type type)
{
    static const char head[ARRAY_HEAD];
    pg_params_begin(p, types[type].array);
    p->array_at = p->bytes.n;
    p->array_type = type;
    p->array_count = 0;
    p->array_nulls = false;
    pg_params_put(p, head, sizeof head);
}

static void pg_array_begin_element(struct pg_params *p, int n)
{
    p->array_count++;
    pg_params_put_i32(p, n);
}

void pg_element_bool(struct pg_params *p, bool v)
{
    assert(p->array_type == PG_BOOL);
    pg_array_begin_element(p, 1);
    pg_params_put(p, v ? "\1" : "\0", 1);
}

void pg_element_i64(struct pg_params *p, int64_t v)
{
    assert(p->array_type == PG_I16 || p->array_type == PG_I32 || p->array_type == PG_I64);
    pg_array_begin_element(p, types[p->array_type].width);
    pg_params_put_integer(p, types[p->array_type].width, v);
}

void pg_element_double(struct pg_params *p, double v)
{
    assert(p->array_type == PG_DOUBLE);
    pg_array_begin_element(p, 8);
    pg_params_put_double(p, v);
}

void pg_element_null(struct pg_params *p)
{
    p->array_nulls = true;
    pg_array_begin_element(p, -1);
}

void pg_element_uuid(struct pg_params *p, struct uuid v)
{
    assert(p->array_type == PG_UUID);
    if (uuid_is_nil(v)) {
        pg_element_null(p);
        return;
    }
    pg_array_begin_element(p, sizeof v.b);
    pg_params_put(p, v.b, sizeof v.b);
}

void pg_element_text(struct pg_params *p, struct str v)
{
    assert(p->array_type == PG_TEXT || p->array_type == PG_BYTES);
    size_t head = p->bytes.n;
    pg_array_begin_element(p, (int)v.n);
    if (p->array_type == PG_BYTES) {
        pg_params_put(p, v.p, v.n);
        return;
    }
    pg_params_put_text(p, v);
    uint32_t length = htobe32((uint32_t)(p->bytes.n - head - sizeof length));
    if (!p->bytes.full)
        memcpy(p->bytes.p + head, &length, sizeof length);
}

void pg_element_text_or_null(struct pg_params *p, struct str v)
{
    if (v.n)
        pg_element_text(p, v);
    else
        pg_element_null(p);
}

void pg_array_end(struct pg_params *p)
{
    const uint32_t head[] = { htobe32(1), htobe32(p->array_nulls), htobe32(types[p->array_type].element),
                              htobe32((uint32_t)p->array_count), htobe32(1) };
    static_assert(sizeof head == ARRAY_HEAD, "dimensions, nulls, type, length, first index");
    if (!p->bytes.full)
        memcpy(p->bytes.p + p->array_at, head, sizeof head);
    pg_params_end(p);
}

void pg_add_column(struct pg_params *p, enum pg_type type, const void *rows, size_t n, size_t size, size_t offset)
{
    pg_array(p, type);
    for (size_t i = 0; i < n; i++) {
        const void *member = (const char *)rows + i * size + offset;
        if (type == PG_UUID)
            pg_element_uuid(p, *(const struct uuid *)member);
        else
            pg_element_i64(p, *(const int64_t *)member);
    }
    pg_array_end(p);
}

/* ---- rows ---- */

static enum pg_type pg_type_of_column(enum column_kind kind)
{
    switch (kind) {
    case COL_UUID: return PG_UUID;
    case COL_BYTES32: return PG_BYTES;
    case COL_BOOL: return PG_BOOL;
    case COL_INT: return PG_I32;
    case COL_LANE:
    case COL_I64:
    case COL_DEAD_I64:
    case COL_FAILED: return PG_I64;
    default: return PG_TEXT;
    }
}

static void pg_element_number(struct pg_params *p, const struct column *c, const void *row)
{
    int64_t v;
    if (column_number(c, row, &v))
        pg_element_i64(p, v);
    else
        pg_element_null(p);
}

static void pg_element_column(struct pg_params *p, const struct column *c, const void *row, const int64_t *lane)
{
    const void *member = (const char *)row + c->offset;
    switch (c->kind) {
    case COL_UUID: pg_element_uuid(p, *(const struct uuid *)member); break;
    case COL_BYTES32: pg_element_text(p, (struct str){ member, 32 }); break;
    case COL_BOOL: pg_element_bool(p, *(const bool *)member); break;
    case COL_LANE: pg_element_i64(p, *lane); break;
    case COL_INT:
    case COL_I64:
    case COL_DEAD_I64:
    case COL_FAILED: pg_element_number(p, c, row); break;
    default: pg_element_text_or_null(p, column_text(c, row, &p->text));
    }
}

void pg_add_rows(struct pg_params *p, const struct table *t, const void *const *rows, const int64_t *lanes, size_t n)
{
    for (int column = 0; column < t->count; column++) {
        pg_array(p, pg_type_of_column(t->columns[column].kind));
        for (size_t i = 0; i < n; i++)
            pg_element_column(p, &t->columns[column], rows[i], lanes ? &lanes[i] : NULL);
        pg_array_end(p);
    }
}
