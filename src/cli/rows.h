#pragma once
/* cli/rows.h - a list as it is printed: a table for a person, or the server's own JSON, one object a line. Long lists are
 * printed as they come. */
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
};

/* p names the list; its row, page and context are set here. An empty list says `none` on stderr. */
enum exit_code rows_print(struct cli *cli, const struct options *o, struct pages *p, struct rows *r, size_t columns,
                          const char *none) must_use;
