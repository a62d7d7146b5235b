/* A sentence or a field that is too long is truncated. */
#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void error_fill(struct error *e, enum err code, const char *field,
                                                             const char *fmt, va_list args)
{
    e->code = code;
    snprintf(e->field, sizeof e->field, "%s", field);
    vsnprintf(e->text, sizeof e->text, fmt, args);
}

enum err error_set(struct error *e, enum err code, const char *fmt, ...)
{
    assert(code != ERR_OK);
    if (!e)
        return code;
    va_list args;
    va_start(args, fmt);
    error_fill(e, code, "", fmt, args);
    va_end(args);
    return code;
}

enum err error_field(struct error *e, const char *field, const char *fmt, ...)
{
    if (!e)
        return ERR_INVALID;
    va_list args;
    va_start(args, fmt);
    error_fill(e, ERR_INVALID, field, fmt, args);
    va_end(args);
    return ERR_INVALID;
}

enum err error_no_room(struct error *e)
{
    return error_set(e, ERR_LIMIT, "does not fit in the memory allowed");
}

enum err error_wrap(struct error *e, const char *fmt, ...)
{
    assert(e && e->code != ERR_OK);
    struct error inner = *e;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", inner.text);
    return e->code;
}

enum err error_in(struct error *e, const char *parent)
{
    assert(e && e->code != ERR_OK);
    struct error inner = *e;
    const char *dot = inner.field[0] && inner.field[0] != '[' ? "." : "";
    snprintf(e->field, sizeof e->field, "%s%s%s", parent, dot, inner.field);
    return e->code;
}

const char *err_text(enum err code)
{
    static const char *const texts[] = { [ERR_OK] = "no error",
#define X(name, text) [ERR_##name] = (text),
                                         ERR_MAP(X)
#undef X
    };
    assert((size_t)code < array_count(texts));
    return texts[code];
}
