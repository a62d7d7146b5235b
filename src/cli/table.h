#pragma once
/* cli/table.h - columns for a person: a header, rows, each column as wide as it needs.
 *
 *   table_row(&t, 3, "LOCAL", "UTC", "NOTE");   the first row is the header */
#include "base/buf.h"

enum { TABLE_COLUMNS_MAX = 16, CELL_WIDTH = 60, CELL_TEXT = 4 * CELL_WIDTH + 4 };

struct table {
    char **cells; /* row after row */
    size_t count, cap, columns;
    size_t widths[TABLE_COLUMNS_MAX]; /* in characters, of the widest cell so far */
};

void table_init(struct table *t, size_t columns);
void table_release(struct table *t);
void table_row(struct table *t, size_t columns, ...); /* const char * each; copied */
void table_print(const struct table *t, struct buf *out);
void table_clear(struct table *t); /* forgets the rows, but not how wide they were: what follows stays in line */

/* Text that came from elsewhere, made harmless: one line, nothing that would act on a terminal, cut at `width` characters with
 * a mark. */
void table_plain_text(struct str text, size_t width, struct buf *out);
const char *table_cell(struct str text, char out[CELL_TEXT]); /* the same for a cell; returns out */
