#pragma once
/* base/buf.h - a growing byte buffer with a mandatory maximum.
 *
 * Adding beyond the maximum sets `full` and drops that addition and all later ones, so that a writer checks once, at
 * its end. A NUL always stands behind the content. */
#include "base/str.h"

struct buf {
    char *p; /* NULL until the first byte */
    size_t n, cap, max;
    bool full;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_reset(struct buf *b);         /* empties it and clears `full`, keeping its memory */
void buf_cut(struct buf *b, size_t n); /* back to its first n bytes, and no longer full */

void buf_add(struct buf *b, struct str s);
void buf_u64(struct buf *b, uint64_t v); /* its decimal digits */
void buf_text(struct buf *b, const char *cstr);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Answers are written a sign at a time: most find room. */
static inline void buf_char(struct buf *b, char c)
{
    if (b->full || b->n >= b->max || b->n + 1 >= b->cap) {
        buf_add(b, (struct str){ &c, 1 });
        return;
    }
    b->p[b->n++] = c;
    b->p[b->n] = '\0';
}

struct str buf_str(const struct buf *b);   /* borrowed, until the next change */
const char *buf_cstr(const struct buf *b); /* the same, "" when empty */
char *buf_take(struct buf *b) must_use;    /* moves the content out; the caller frees it */
