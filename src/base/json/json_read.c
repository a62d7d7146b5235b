/* Reads JSON by table, with one small function per kind. The current path is a linked list of json_place on the stack,
 * as deep as the table. It is written out only for an error. */
#include <assert.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/json/json.h"
#include "base/rfc3339.h"
#include "base/sentence.h"

enum { STRING_MAX = 65536, ARRAY_MAX = 10000, FIELDS_MAX = 64, NAME_SHOWN = 96 /* a user may choose the name */ };

#define EXACT_MAX 9007199254740992.0 /* 2^53: a double represents every integer up to it */

struct json_place {
    const struct json_place *up; /* NULL: the root */
    const char *name;            /* NULL: an element of an array */
    size_t index;
};

struct json_reader {
    struct arena *a;
    struct error *e;
};

typedef enum err json_read_fn(struct json_reader *r, const struct json_place *at, const struct json_field *f, json_t *v,
                              void *into);

static void json_read_write_path(const struct json_place *at, struct buf *out)
{
    if (at->up)
        json_read_write_path(at->up, out);
    if (at->name)
        buf_printf(out, "%s" STR_FMT, out->n ? "." : "", STR_ARG(str_utf8_cut(str_from(at->name), NAME_SHOWN)));
    else if (at->up)
        buf_printf(out, "[%zu]", at->index);
}

__attribute__((format(printf, 3, 4))) static enum err
json_read_refuse(struct json_reader *r, const struct json_place *at, const char *fmt, ...)
{
    if (!r->e)
        return ERR_INVALID;
    va_list args;
    va_start(args, fmt);
    char text[sizeof r->e->text];
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, 4096);
    json_read_write_path(at, &path);
    return error_field(r->e, buf_cstr(&path), "%s", text);
}

/* The arena is full: the field is the path at which that happened. */
static enum err json_read_no_room(struct json_reader *r, const struct json_place *at)
{
    (void)json_read_refuse(r, at, "does not fit in the memory allowed");
    if (r->e)
        r->e->code = ERR_LIMIT;
    return ERR_LIMIT;
}

static const char *json_type_text(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: break;
    }
    return "null";
}

static enum err json_read_refuse_type(struct json_reader *r, const struct json_place *at, const char *expected,
                                      const json_t *v)
{
    return json_read_refuse(r, at, "must be %s, not %s", expected, json_type_text(v));
}

static struct str json_string_of(const json_t *v)
{
    return (struct str){ json_string_value(v), json_string_length(v) };
}

/* A row's bounds, or the type's own bounds if it has none. */
static struct range json_read_bounds(const struct json_field *f, int64_t least, int64_t most)
{
    assert(f->min <= f->max);
    bool none = f->min == 0 && f->max == 0;
    return (struct range){
        .min = none ? least : f->min,
        .max = none ? most : f->max,
        .least = least,
        .most = most,
        .is_duration = f->kind == JSON_KIND_DURATION,
    };
}

static enum err json_read_bool(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                               json_t *v, void *into)
{
    (void)f;
    if (!json_is_boolean(v))
        return json_read_refuse_type(r, at, "true or false", v);
    *(bool *)into = json_is_true(v);
    return ERR_OK;
}

static enum err json_read_i64(struct json_reader *r, const struct json_place *at, const struct json_field *f, json_t *v,
                              void *into)
{
    double d = json_real_value(v); /* 0 of an integer */
    bool whole =
        d > -EXACT_MAX && d < EXACT_MAX && d == (double)(int64_t)d; /* 5.0 and 1e3 are integers, as in JSON Schema */
    if (!whole)
        return json_read_refuse(r, at, "must be a whole number");
    if (!json_is_number(v))
        return json_read_refuse_type(r, at, "a number", v);
    struct range range = json_read_bounds(f, INT64_MIN, INT64_MAX);
    int64_t i = json_is_real(v) ? (int64_t)d : json_integer_value(v);
    if (i < range.min || i > range.max) {
        char text[RANGE_TEXT];
        range_text(range, text);
        return json_read_refuse(r, at, "must be %s, not %lld", text, (long long)i);
    }
    *(int64_t *)into = i;
    return ERR_OK;
}

static enum err json_read_f64(struct json_reader *r, const struct json_place *at, const struct json_field *f, json_t *v,
                              void *into)
{
    if (!json_is_number(v))
        return json_read_refuse_type(r, at, "a number", v);
    double d = json_number_value(v);
    bool bounded = f->min != 0 || f->max != 0;
    char text[RANGE_TEXT];
    range_text(json_read_bounds(f, INT64_MIN, INT64_MAX), text);
    if (bounded && (d < (double)f->min || d > (double)f->max))
        return json_read_refuse(r, at, "must be %s, not %g", text, d);
    *(double *)into = d;
    return ERR_OK;
}

static enum err json_read_str(struct json_reader *r, const struct json_place *at, const struct json_field *f, json_t *v,
                              void *into)
{
    if (!json_is_string(v))
        return json_read_refuse_type(r, at, "a string", v);
    struct str s = json_string_of(v);
    struct range range = json_read_bounds(f, 0, INT64_MAX);
    if (!f->max)
        range.max = STRING_MAX;
    if (s.n == 0 && range.min == 1)
        return json_read_refuse(r, at, "must not be empty");
    size_t length = f->characters ? str_utf8_count(s) : s.n;
    if ((int64_t)length < range.min || (int64_t)length > range.max) {
        char text[RANGE_TEXT];
        range_text(range, text);
        return json_read_refuse(r, at, "must be %s %s long, not %zu", text, f->characters ? "characters" : "bytes",
                                length);
    }
    if (str_find(s, '\0', 0) < s.n)
        return json_read_refuse(r, at, "must not contain a NUL character");
    return arena_str(r->a, s, into) ? ERR_OK : json_read_no_room(r, at);
}

static enum err json_read_refuse_enum(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                      struct str s)
{
    cleanup_with(buf_release) struct buf known;
    struct suggest near;
    suggest_init(&near, s);
    buf_init(&known, sizeof(struct error));
    for (int i = 0; f->names[i]; i++) {
        if (!f->names[i][0])
            continue;
        buf_printf(&known, "%s%s", known.n ? ", " : "", f->names[i]);
        suggest_offer(&near, str_from(f->names[i]));
    }
    char given[QUOTE_TEXT];
    quote_text(s, given);
    if (near.closest.p)
        return json_read_refuse(r, at, "must be one of %s, not %s; did you mean '" STR_FMT "'?", buf_cstr(&known),
                                given, STR_ARG(near.closest));
    return json_read_refuse(r, at, "must be one of %s, not %s", buf_cstr(&known), given);
}

static enum err json_read_enum(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                               json_t *v, void *into)
{
    if (!json_is_string(v))
        return json_read_refuse_type(r, at, "a string", v);
    struct str s = json_string_of(v);
    for (int i = 0; f->names[i]; i++) {
        if (f->names[i][0] && str_eq(s, str_from(f->names[i]))) {
            *(int *)into = i;
            return ERR_OK;
        }
    }
    return json_read_refuse_enum(r, at, f, s);
}

static enum err json_read_time(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                               json_t *v, void *into)
{
    (void)f;
    if (!json_is_string(v))
        return json_read_refuse_type(r, at, "a string", v);
    struct error why;
    if (rfc3339_parse(json_string_of(v), into, &why))
        return json_read_refuse(r, at, "%s", why.text);
    return ERR_OK;
}

static enum err json_read_duration(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                   json_t *v, void *into)
{
    if (!json_is_string(v))
        return json_read_refuse_type(r, at, "a string", v);
    struct error why;
    int64_t ms;
    if (duration_parse(json_string_of(v), &ms, &why))
        return json_read_refuse(r, at, "%s", why.text);
    struct range range = json_read_bounds(f, 0, DURATION_MAX_MS);
    char text[RANGE_TEXT], given[QUOTE_TEXT];
    range_text(range, text);
    quote_text(json_string_of(v), given);
    if (ms < range.min || ms > range.max)
        return json_read_refuse(r, at, "must be %s, not %s", text, given);
    *(int64_t *)into = ms;
    return ERR_OK;
}

/* Users write seconds, and everything else is in milliseconds. A double has every millisecond of 100 years. */
static enum err json_read_seconds(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                  json_t *v, void *into)
{
    if (!json_is_number(v))
        return json_read_refuse_type(r, at, "a number", v);
    struct range range = json_read_bounds(f, 0, DURATION_MAX_MS);
    double s = json_number_value(v), min = (double)range.min / 1000, max = (double)range.max / 1000;
    if (!(s >= min && s <= max)) /* before it is rounded, as the schema has it */
        return json_read_refuse(r, at, "must be between %.12g and %.12g, not %.12g", min, max, s);
    *(int64_t *)into = (int64_t)(s * 1000 + 0.5);
    return ERR_OK;
}

static enum err json_read_raw(struct json_reader *r, const struct json_place *at, const struct json_field *f, json_t *v,
                              void *into)
{
    (void)r;
    (void)at;
    (void)f;
    *(json_t **)into = v;
    return ERR_OK;
}

static json_read_fn json_read_object, json_read_array;

static json_read_fn *const readers[] = {
    [JSON_KIND_BOOL] = json_read_bool,         [JSON_KIND_I64] = json_read_i64,
    [JSON_KIND_F64] = json_read_f64,           [JSON_KIND_STR] = json_read_str,
    [JSON_KIND_ENUM] = json_read_enum,         [JSON_KIND_TIME] = json_read_time,
    [JSON_KIND_DURATION] = json_read_duration, [JSON_KIND_SECONDS] = json_read_seconds,
    [JSON_KIND_OBJECT] = json_read_object,     [JSON_KIND_ARRAY] = json_read_array,
    [JSON_KIND_RAW] = json_read_raw,
};

static enum err json_read_value(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                json_t *v, void *into)
{
    assert((size_t)f->kind < array_count(readers));
    return json_is_null(v) && f->nullable ? ERR_OK : readers[f->kind](r, at, f, v, into);
}

static enum err json_read_array(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                json_t *v, void *into)
{
    assert(f->fields && f->count == 1 && f->size > 0 && f->fields->offset == 0);
    if (!json_is_array(v))
        return json_read_refuse_type(r, at, "an array", v);
    size_t n = json_array_size(v);
    struct range range = json_read_bounds(f, 0, INT64_MAX);
    if (!f->max)
        range.max = ARRAY_MAX;
    char text[RANGE_TEXT];
    range_text(range, text);
    if (n == 0 && range.min == 1)
        return json_read_refuse(r, at, "must not be empty");
    if ((int64_t)n < range.min || (int64_t)n > range.max)
        return json_read_refuse(r, at, "must have %s elements, not %zu", text, n);
    char *elements = arena_zarray(r->a, n, f->size);
    if (!elements)
        return json_read_no_room(r, at);
    for (size_t i = 0; i < n; i++) {
        struct json_place here = { .up = at, .index = i };
        enum err rc = json_read_value(r, &here, f->fields, json_array_get(v, i), elements + i * f->size);
        if (rc)
            return rc;
    }
    *(struct json_array *)into = (struct json_array){ .v = elements, .n = n };
    return ERR_OK;
}

static enum err json_read_refuse_unknown(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                         const char *name)
{
    struct suggest s;
    suggest_init(&s, str_from(name));
    for (size_t i = 0; i < f->count; i++)
        suggest_offer(&s, str_from(f->fields[i].name));
    struct json_place here = { .up = at, .name = name };
    if (s.closest.p)
        return json_read_refuse(r, &here, "is unknown, did you mean '" STR_FMT "'?", STR_ARG(s.closest));
    return json_read_refuse(r, &here, "is unknown");
}

/* Index of the row, or f->count. Compares the first letter before it calls strcmp, because most names differ there. */
static size_t json_read_row_of(const struct json_field *f, const char *name)
{
    size_t i = 0;
    while (i < f->count && (f->fields[i].name[0] != name[0] || strcmp(f->fields[i].name, name) != 0))
        i++;
    return i;
}

static enum err json_read_member(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                 json_t *v, char *into)
{
    struct json_place here = { .up = at, .name = f->name };
    if (!v)
        return f->required ? json_read_refuse(r, &here, "is required") : ERR_OK;
    if (f->seen_offset)
        *(bool *)(into + f->seen_offset) = true;
    return json_read_value(r, &here, f, v, into + f->offset);
}

/* Objects have few members and tables have many rows: finds the row of each member first, then reads in the order of
 * the table. */
static enum err json_read_object(struct json_reader *r, const struct json_place *at, const struct json_field *f,
                                 json_t *v, void *into)
{
    assert(f->count <= FIELDS_MAX);
    if (!json_is_object(v))
        return json_read_refuse_type(r, at, "an object", v);
    json_t *values[FIELDS_MAX] = { 0 };
    const char *name;
    json_t *member;
    json_object_foreach (v, name, member) {
        size_t row = json_read_row_of(f, name);
        if (row == f->count)
            return json_read_refuse_unknown(r, at, f, name);
        values[row] = member;
    }
    enum err rc = ERR_OK;
    for (size_t i = 0; rc == ERR_OK && i < f->count; i++)
        rc = json_read_member(r, at, &f->fields[i], values[i], into);
    return rc;
}

enum err json_read(json_t *object, const struct json_field *fields, size_t count, void *into, struct arena *a,
                   struct error *e)
{
    struct json_reader r = { .a = a, .e = e };
    struct json_place root = { 0 };
    struct json_field f = { .kind = JSON_KIND_OBJECT, .fields = fields, .count = count };
    return json_read_value(&r, &root, &f, object, into);
}
