/* Members are written in the order of the table, so the source text of the next member usually follows right after the
 * previous one: a reader searches from there to the end, and then once from the beginning. */
#include "core/task/wire.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static const void *wire_member_at(const struct wire_field *f, const void *of)
{
    return (const char *)of + f->offset;
}

/* ---- writing ---- */

static int64_t wire_number_of(const struct wire_field *f, const void *at)
{
    switch (f->kind) {
    case WIRE_BOOL: return *(const bool *)at;
    case WIRE_I64: return *(const int64_t *)at;
    default: return *(const int *)at;
    }
}

static bool wire_is_absent(const struct wire_field *f, const void *at);

static bool wire_all_absent(const struct wire_field *fields, size_t count, const void *from)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].always || !wire_is_absent(&fields[i], wire_member_at(&fields[i], from)))
            return false;
    return true;
}

static bool wire_is_absent(const struct wire_field *f, const void *at)
{
    switch (f->kind) {
    case WIRE_UUID: return uuid_is_nil(*(const struct uuid *)at);
    case WIRE_TEXT:
    case WIRE_JSON: return ((const struct str *)at)->n == 0;
    case WIRE_OBJECT: return wire_all_absent(f->fields, f->count, at);
    default: return wire_number_of(f, at) == f->absent;
    }
}

static void wire_write_members(struct jw *w, const struct wire_field *fields, size_t count, const void *from);

static void wire_write_one(struct jw *w, const struct wire_field *f, const void *at)
{
    switch (f->kind) {
    case WIRE_BOOL: jw_kv_bool(w, f->name, *(const bool *)at); break;
    case WIRE_INT:
    case WIRE_I64: jw_kv_i64(w, f->name, wire_number_of(f, at)); break;
    case WIRE_ENUM:
        assert((size_t)wire_number_of(f, at) < f->name_count);
        jw_kv_cstr(w, f->name, f->names[wire_number_of(f, at)]);
        break;
    case WIRE_UUID: jw_kv_uuid(w, f->name, *(const struct uuid *)at); break;
    case WIRE_TEXT: jw_kv_str(w, f->name, *(const struct str *)at); break;
    case WIRE_JSON:
        jw_key(w, f->name);
        jw_raw(w, *(const struct str *)at);
        break;
    case WIRE_OBJECT:
        jw_key(w, f->name);
        jw_object(w);
        wire_write_members(w, f->fields, f->count, at);
        jw_object_end(w);
        break;
    }
}

static void wire_write_members(struct jw *w, const struct wire_field *fields, size_t count, const void *from)
{
    for (const struct wire_field *f = fields; f < fields + count; f++)
        if (f->always || !wire_is_absent(f, wire_member_at(f, from)))
            wire_write_one(w, f, wire_member_at(f, from));
}

void wire_write(struct jw *w, const struct wire_field *fields, size_t count, const void *from)
{
    jw_object(w);
    jw_kv_i64(w, "v", WIRE_VERSION);
    wire_write_members(w, fields, count, from);
    jw_object_end(w);
}

/* ---- reading ---- */

struct wire_reader {
    struct arena *a;
    struct error *e;
};

static enum err wire_set_corrupt(struct error *e)
{
    if (e)
        e->code = ERR_CORRUPT;
    return ERR_CORRUPT;
}

__attribute__((format(printf, 3, 4))) static enum err wire_refuse(struct wire_reader *r, const struct wire_field *f,
                                                                  const char *fmt, ...)
{
    if (!r->e)
        return ERR_CORRUPT;
    char text[sizeof r->e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_field(r->e, f->name, "%s", text);
    return wire_set_corrupt(r->e);
}

static enum err wire_read_number(struct wire_reader *r, const struct wire_field *f, const json_t *v, void *at)
{
    if (!json_is_integer(v))
        return wire_refuse(r, f, "must be a whole number");
    int64_t n = json_integer_value(v);
    if (n < f->min || n > f->max)
        return wire_refuse(r, f, "is %lld, but must be between %lld and %lld", (long long)n, (long long)f->min,
                           (long long)f->max);
    if (f->kind == WIRE_I64)
        *(int64_t *)at = n;
    else
        *(int *)at = (int)n;
    return ERR_OK;
}

static enum err wire_read_enum(struct wire_reader *r, const struct wire_field *f, const json_t *v, void *at)
{
    const char *text = json_string_value(v);
    for (size_t i = 0; text && *text && i < f->name_count; i++) {
        if (strcmp(text, f->names[i]) == 0) {
            *(int *)at = (int)i;
            return ERR_OK;
        }
    }
    return wire_refuse(r, f, "is not known to this version of Belfry");
}

static enum err wire_read_uuid(struct wire_reader *r, const struct wire_field *f, const json_t *v, void *at)
{
    if (!json_is_string(v) || !uuid_parse((struct str){ json_string_value(v), json_string_length(v) }, at))
        return wire_refuse(r, f, "must be a UUID");
    return ERR_OK;
}

static enum err wire_copy_text(struct wire_reader *r, const struct wire_field *f, struct str text, void *at)
{
    if (f->max && text.n > (size_t)f->max)
        return wire_refuse(r, f, "has %zu bytes, but may have no more than %lld", text.n, (long long)f->max);
    if (!arena_str(r->a, text, at))
        return error_set(r->e, ERR_LIMIT, "there is no room for '%s', of %zu bytes", f->name, text.n);
    return ERR_OK;
}

static enum err wire_read_text(struct wire_reader *r, const struct wire_field *f, const json_t *v, void *at)
{
    if (!json_is_string(v))
        return wire_refuse(r, f, "must be a string");
    return wire_copy_text(r, f, (struct str){ json_string_value(v), json_string_length(v) }, at);
}

static enum err wire_read_members(struct wire_reader *r, const json_t *object, struct str text,
                                  const struct wire_field *fields, size_t count, void *into);

static enum err wire_read_object(struct wire_reader *r, const struct wire_field *f, const json_t *v, struct str text,
                                 void *at)
{
    if (!json_is_object(v))
        return wire_refuse(r, f, "must be an object");
    enum err rc = wire_read_members(r, v, text, f->fields, f->count, at);
    if (rc == ERR_CORRUPT && r->e)
        (void)error_in(r->e, f->name);
    return rc;
}

static enum err wire_read_one(struct wire_reader *r, const struct wire_field *f, const json_t *v, struct str text,
                              void *at)
{
    switch (f->kind) {
    case WIRE_BOOL:
        if (!json_is_boolean(v))
            return wire_refuse(r, f, "must be true or false");
        *(bool *)at = json_is_true(v);
        return ERR_OK;
    case WIRE_INT:
    case WIRE_I64: return wire_read_number(r, f, v, at);
    case WIRE_ENUM: return wire_read_enum(r, f, v, at);
    case WIRE_UUID: return wire_read_uuid(r, f, v, at);
    case WIRE_TEXT: return wire_read_text(r, f, v, at);
    case WIRE_JSON: return wire_copy_text(r, f, text, at);
    case WIRE_OBJECT: return wire_read_object(r, f, v, text, at);
    }
    assert(false);
    return ERR_CORRUPT;
}

static enum err wire_read_absent(struct wire_reader *r, const struct wire_field *f, void *at)
{
    bool out_of_bounds = (f->kind == WIRE_INT || f->kind == WIRE_I64) && (f->absent < f->min || f->absent > f->max);
    if (f->required || out_of_bounds)
        return wire_refuse(r, f, "is missing");
    switch (f->kind) {
    case WIRE_BOOL: *(bool *)at = f->absent; break;
    case WIRE_I64: *(int64_t *)at = f->absent; break;
    case WIRE_INT:
    case WIRE_ENUM: *(int *)at = (int)f->absent; break;
    case WIRE_UUID: *(struct uuid *)at = (struct uuid){ 0 }; break;
    case WIRE_TEXT:
    case WIRE_JSON: *(struct str *)at = (struct str){ 0 }; break;
    case WIRE_OBJECT:
        return f->optional ? ERR_OK : wire_read_members(r, NULL, (struct str){ 0 }, f->fields, f->count, at);
    }
    return ERR_OK;
}

/* Returns the source text of a member that is present, or nothing if its name is written with escapes. */
static struct str wire_find_source(struct json_cursor *c, const char *name)
{
    struct str key, value;
    for (int round = 0; round < 2; round++, c->at = 0)
        while (json_next(c, &key, &value))
            if (key.n == strlen(name) && memcmp(key.p, name, key.n) == 0)
                return value;
    return (struct str){ 0 };
}

static enum err wire_read_members(struct wire_reader *r, const json_t *object, struct str text,
                                  const struct wire_field *fields, size_t count, void *into)
{
    struct json_cursor cursor = { .text = text };
    for (const struct wire_field *f = fields; f < fields + count; f++) {
        const json_t *v = json_object_get(object, f->name);
        void *at = (char *)into + f->offset;
        bool by_text = f->kind == WIRE_JSON || f->kind == WIRE_OBJECT;
        bool there = v && !json_is_null(v);
        struct str own = there && by_text ? wire_find_source(&cursor, f->name) : (struct str){ 0 };
        if (there && by_text && !own.p)
            return wire_refuse(r, f, "must be written without escapes in its name");
        enum err rc = there ? wire_read_one(r, f, v, own, at) : wire_read_absent(r, f, at);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err wire_check_version(const json_t *root, struct error *e)
{
    const json_t *v = json_object_get(root, "v");
    if (!json_is_integer(v) || json_integer_value(v) < 1)
        return error_set(e, ERR_CORRUPT, "not a Belfry message: it must be an object with a version, \"v\": %d",
                         WIRE_VERSION);
    if (json_integer_value(v) > WIRE_VERSION)
        return error_set(e, ERR_CORRUPT, "the message has version %lld; this Belfry reads version %d: update it",
                         (long long)json_integer_value(v), WIRE_VERSION);
    return ERR_OK;
}

enum err wire_read(struct arena *a, struct str text, const struct wire_field *fields, size_t count, void *into,
                   struct error *e)
{
    struct json_doc doc;
    enum err rc = json_parse_answer(text, &doc, e);
    if (rc)
        return wire_set_corrupt(e);
    struct wire_reader r = { .a = a, .e = e };
    rc = wire_check_version(doc.root, e);
    if (rc == ERR_OK)
        rc = wire_read_members(&r, doc.root, text, fields, count, into);
    json_doc_release(&doc);
    return rc;
}
