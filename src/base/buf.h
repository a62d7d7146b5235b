#pragma once
/* base/buf.h - a growing byte buffer with a mandatory maximum size.
 *
 * An addition that would exceed the maximum sets `full` and is dropped, and so are all later additions. A writer
 * therefore checks `full` once, after its last addition. The content always ends in NUL (which does not count). */
#include "base/str.h"

struct buf {
    char *p; /* NULL until the first byte */
    size_t n, cap, max;
    bool full;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_reset(struct buf *b);         /* empties the buffer and clears `full`; keeps the memory */
void buf_cut(struct buf *b, size_t n); /* truncates to the first n bytes and clears `full` */

void buf_add(struct buf *b, struct str s);
void buf_u64(struct buf *b, uint64_t v); /* as decimal digits */
void buf_text(struct buf *b, const char *cstr);
/* A text of a user on one line: a character that is not shown, such as a line break or a bidirectional control, and a
 * byte that is not UTF-8 becomes a blank. Never longer than s. */
void buf_plain(struct buf *b, struct str s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Inline, because JSON is written one character at a time and most characters need no growth. */
static inline void buf_char(struct buf *b, char c)
{
    if (b->full || b->n >= b->max || b->n + 1 >= b->cap) {
        buf_add(b, (struct str){ &c, 1 });
        return;
    }
    b->p[b->n++] = c;
    b->p[b->n] = '\0';
}

struct str buf_str(const struct buf *b);   /* borrowed; valid until the next change */
const char *buf_cstr(const struct buf *b); /* the same as a C string; "" if empty */
char *buf_take(struct buf *b) must_use;    /* moves the content out; the caller frees it */
