#pragma once
/* cli/table.h - prints aligned columns: a header and rows, each column as wide as its widest cell.
 *
 *   table_row(&t, 3, "LOCAL", "UTC", "NOTE");   the first row is the header
 *
 * On a terminal, the widest columns are cut so that a row fits; a column that was marked by table_keep never is. Piped
 * output is never cut. */
#include "base/buf.h"

enum { TABLE_COLUMNS_MAX = 16, CELL_WIDTH = 60, CELL_TEXT = 4 * CELL_WIDTH + 4 };

struct table {
    char **cells; /* row after row */
    size_t count, cap, columns;
    size_t widths[TABLE_COLUMNS_MAX]; /* in characters, of the widest cell so far */
    size_t fit;                       /* columns of the terminal; 0: cut nothing */
    unsigned kept;                    /* bit i: column i is never cut */
    char *texts[TABLE_COLUMNS_MAX];   /* cells of the row that is being built */
    size_t text_count;
};

void table_init(struct table *t, size_t columns);
void table_release(struct table *t);
void table_row(struct table *t, size_t columns, ...); /* const char * each; copied */
void table_print(const struct table *t, struct buf *out);
void table_keep(struct table *t, size_t column); /* it holds an id, or the reason that a user looks for */
void table_reserve(struct table *t, size_t column, size_t width); /* it is at least so wide, for rows yet to come */
void table_clear(struct table *t); /* removes the rows, but keeps the widths: later rows stay aligned */

/* Appends text from outside in a form that is safe for a terminal: one line, a blank for a line break or a tab, '?' for
 * other control characters, cut at `width` characters with '…'. */
void table_plain_text(struct str text, size_t width, struct buf *out);
const char *table_cell(struct str text, char out[CELL_TEXT]); /* the same for a short text in a sentence; returns out */

/* Text from outside as a cell of the next row: safe for a terminal, not cut. Valid until table_row has copied it. */
const char *table_text(struct table *t, struct str text);
