#include "cli/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { GAP = 2, NARROW = 8, KEPT_COUNTED = 30, TEXT_MAX = 64 << 20 };

void table_init(struct table *t, size_t columns)
{
    assert(columns > 0 && columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){ .columns = columns };
}

void table_clear(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    t->count = 0;
}

static void table_free_texts(struct table *t)
{
    for (size_t i = 0; i < t->text_count; i++)
        free(t->texts[i]);
    t->text_count = 0;
}

void table_keep(struct table *t, size_t column)
{
    assert(column < t->columns);
    t->kept |= 1U << column;
}

void table_release(struct table *t)
{
    table_clear(t);
    table_free_texts(t);
    free(t->cells);
    *t = (struct table){ .columns = t->columns };
}

/* In characters: UTF-8 continuation bytes do not count. */
static size_t table_cell_width(const char *cell)
{
    size_t n = 0;
    for (; *cell; cell++)
        n += ((unsigned char)*cell & 0xC0) != 0x80;
    return n;
}

void table_row(struct table *t, size_t columns, ...)
{
    assert(columns == t->columns);
    if (t->count + columns > t->cap) {
        t->cap = max_of(t->cap * 2, columns * 16);
        t->cells = xrealloc(t->cells, t->cap * sizeof *t->cells);
    }
    va_list args;
    va_start(args, columns);
    for (size_t i = 0; i < columns; i++) {
        const char *cell = va_arg(args, const char *);
        t->widths[i] = max_of(t->widths[i], table_cell_width(cell));
        t->cells[t->count++] = xstrdup(cell);
    }
    va_end(args);
    table_free_texts(t);
}

static bool table_is_kept(const struct table *t, size_t column)
{
    return t->kept >> column & 1;
}

/* Narrows the widest columns, one character at a time, until a row fits. A kept column at the end counts only with its
 * beginning: the terminal wraps the rest. */
static void table_fit(const struct table *t, size_t ret[TABLE_COLUMNS_MAX])
{
    size_t total = GAP * (t->columns - 1);
    for (size_t i = 0; i < t->columns; i++) {
        ret[i] = t->widths[i];
        bool wraps = i + 1 == t->columns && table_is_kept(t, i);
        total += wraps ? min_of(ret[i], (size_t)KEPT_COUNTED) : ret[i];
    }
    for (; t->fit && total > t->fit; total--) {
        size_t widest = t->columns;
        for (size_t i = 0; i < t->columns; i++)
            if (!table_is_kept(t, i) && ret[i] > NARROW && (widest == t->columns || ret[i] > ret[widest]))
                widest = i;
        if (widest == t->columns)
            return;
        ret[widest]--;
    }
}

static void table_print_row(const struct table *t, char *const *cells, const size_t *widths, struct buf *out)
{
    size_t last = t->columns;
    while (last > 0 && cells[last - 1][0] == '\0')
        last--; /* no blanks at the end of a line */
    for (size_t i = 0; i < last; i++) {
        size_t width = min_of(table_cell_width(cells[i]), widths[i]);
        table_plain_text(str_from(cells[i]), widths[i], out);
        if (i + 1 < last)
            buf_printf(out, "%*s", (int)(widths[i] - width + GAP), "");
    }
    buf_char(out, '\n');
}

void table_reserve(struct table *t, size_t column, size_t width)
{
    assert(column < t->columns);
    t->widths[column] = max_of(t->widths[column], width);
}

void table_print(const struct table *t, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX];
    table_fit(t, widths);
    for (size_t i = 0; i < t->count; i += t->columns)
        table_print_row(t, t->cells + i, widths, out);
}

const char *table_text(struct table *t, struct str text)
{
    struct buf plain;
    assert(t->text_count < TABLE_COLUMNS_MAX);
    buf_init(&plain, TEXT_MAX);
    table_plain_text(text, SIZE_MAX, &plain);
    char *kept = plain.p ? buf_take(&plain) : xstrdup("");
    t->texts[t->text_count++] = kept;
    return kept;
}

void table_plain_text(struct str text, size_t width, struct buf *out)
{
    for (size_t i = 0, column = 1; i < text.n; column++) {
        size_t bytes = str_utf8_at(text, i), next = i + max_of(bytes, (size_t)1);
        bool is_shown = bytes && !is_hidden_char(str_code_point(text, i, bytes));
        bool is_blank = text.p[i] == '\n' || text.p[i] == '\r' || text.p[i] == '\t';
        bool is_cut = column == width && next < text.n;
        buf_add(out, is_cut ? S("…") : is_shown ? str_sub(text, i, next) : is_blank ? S(" ") : S("?"));
        i = is_cut ? text.n : next;
    }
}

const char *table_cell(struct str text, char out[CELL_TEXT])
{
    cleanup_with(buf_release) struct buf plain;
    buf_init(&plain, CELL_TEXT);
    table_plain_text(text, CELL_WIDTH, &plain);
    snprintf(out, CELL_TEXT, "%s", buf_cstr(&plain));
    return out;
}
