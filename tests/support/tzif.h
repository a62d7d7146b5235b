#pragma once
/* tests/support/tzif.h - writes TZif files, valid and invalid ones, so that no test depends on this machine's
 * tzdata. */
#include "base/buf.h"

struct tzif_type {
    int32_t offset_s;
    uint8_t dst, name; /* name: index into chars */
};

/* The content of a file. Counts are taken from the arrays, unless given here to be wrong. */
struct tzif {
    char version; /* 0, '2', '3', '4' */
    const int64_t *times;
    const uint8_t *indexes;
    size_t time_count;
    const struct tzif_type *types;
    size_t type_count;
    struct str chars;
    uint32_t leap_count, isstd_count, isut_count;
    const char *footer; /* with its newlines; NULL: none */
};

static inline void tzif_be(struct buf *b, uint64_t v, int bytes)
{
    while (bytes-- > 0)
        buf_char(b, (char)(v >> bytes * 8));
}

static inline void tzif_zeros(struct buf *b, size_t n)
{
    while (n-- > 0)
        buf_char(b, '\0');
}

static inline void tzif_block(struct buf *b, const struct tzif *t, int time_size)
{
    buf_text(b, "TZif");
    buf_char(b, t->version);
    tzif_zeros(b, 15);
    tzif_be(b, t->isut_count, 4);
    tzif_be(b, t->isstd_count, 4);
    tzif_be(b, t->leap_count, 4);
    tzif_be(b, t->time_count, 4);
    tzif_be(b, t->type_count, 4);
    tzif_be(b, t->chars.n, 4);
    for (size_t i = 0; i < t->time_count; i++)
        tzif_be(b, (uint64_t)t->times[i], time_size);
    for (size_t i = 0; i < t->time_count; i++)
        tzif_be(b, t->indexes[i], 1);
    for (size_t i = 0; i < t->type_count; i++) {
        tzif_be(b, (uint64_t)(int64_t)t->types[i].offset_s, 4);
        tzif_be(b, t->types[i].dst, 1);
        tzif_be(b, t->types[i].name, 1);
    }
    buf_add(b, t->chars);
    tzif_zeros(b, t->leap_count * (size_t)(time_size + 4) + t->isstd_count + t->isut_count);
}

/* Version 2 and later: an empty block for old readers, the real one, the footer. */
static inline void tzif_write(struct buf *b, const struct tzif *t)
{
    if (t->version == '\0') {
        tzif_block(b, t, 4);
        return;
    }
    tzif_block(b, &(struct tzif){ .version = t->version }, 4);
    tzif_block(b, t, 8);
    if (t->footer)
        buf_text(b, t->footer);
}
