#pragma once
/* cli/rows.h - prints a list of the API: as a table, or with --json as the server's JSON, one object a line. Each
 * page is printed when it arrives. */
#include "cli/client.h"
#include "cli/pages.h"
#include "cli/table.h"

struct rows {
    struct cli *cli;
    struct table table;
    struct buf out;
    size_t count;
    bool json;
    void (*header)(struct table *t);
    void (*add)(struct rows *r, const json_t *item);
    size_t keep[4]; /* columns that are never cut, counted from 1; 0: no more */
};

/* Sets p->row, p->page and p->context. For an empty list, prints `none` to stderr, unless it is NULL. */
enum exit_code rows_print(struct cli *cli, const struct options *o, struct pages *p, struct rows *r, size_t columns,
                          const char *none) must_use;
