#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_SIZE = 256, DIGITS_MAX = 20 };

void buf_init(struct buf *b, size_t max)
{
    assert(max > 0 && max < SIZE_MAX / 2);
    *b = (struct buf){ .max = max };
}

void buf_release(struct buf *b)
{
    free(b->p);
    *b = (struct buf){ .max = b->max };
}

void buf_reset(struct buf *b)
{
    buf_cut(b, 0);
}

void buf_cut(struct buf *b, size_t n)
{
    assert(n <= b->n);
    b->n = n;
    b->full = false;
    if (b->p)
        b->p[n] = '\0';
}

/* Makes room for n more bytes and the NUL. If that exceeds the maximum, sets `full` and returns false. */
static bool buf_reserve(struct buf *b, size_t n)
{
    if (b->full || n > b->max - b->n) {
        b->full = true;
        return false;
    }
    size_t need = b->n + n + 1;
    if (need > b->cap) {
        b->cap = max_of(need, max_of((size_t)FIRST_SIZE, min_of(b->cap * 2, b->max + 1)));
        b->p = xrealloc(b->p, b->cap);
    }
    return true;
}

void buf_add(struct buf *b, struct str s)
{
    if (!buf_reserve(b, s.n))
        return;
    if (s.n)
        memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
    b->p[b->n] = '\0';
}

void buf_text(struct buf *b, const char *cstr)
{
    buf_add(b, str_from(cstr));
}

/* Without printf, for speed: every response holds many numbers. */
void buf_plain(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n;) {
        size_t bytes = str_utf8_at(s, i);
        if (bytes && !is_hidden_char(str_code_point(s, i, bytes)))
            buf_add(b, str_sub(s, i, i + bytes));
        else
            buf_char(b, ' ');
        i += max_of(bytes, (size_t)1);
    }
}

void buf_u64(struct buf *b, uint64_t v)
{
    char digits[DIGITS_MAX];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    buf_add(b, (struct str){ digits + at, sizeof digits - at });
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert(n >= 0);
    if (!buf_reserve(b, (size_t)n))
        return;
    va_start(args, fmt);
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, args);
    va_end(args);
    b->n += (size_t)n;
}

struct str buf_str(const struct buf *b)
{
    return (struct str){ buf_cstr(b), b->n };
}

const char *buf_cstr(const struct buf *b)
{
    return b->p ? b->p : "";
}

char *buf_take(struct buf *b)
{
    char *p = b->p ? b->p : xstrdup("");
    *b = (struct buf){ .max = b->max };
    return p;
}
