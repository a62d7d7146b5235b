#include "cli/rows.h"

enum { OUT_MAX = 64 << 20 };

static bool rows_on_row(void *context, const json_t *item, struct str text)
{
    struct rows *r = context;
    if (r->json)
        client_json_line(&r->out, text);
    else if (r->count == 0)
        r->header(&r->table);
    if (!r->json)
        r->add(r, item);
    r->count++;
    return true;
}

/* Prints the page. False: the output is closed. */
static bool rows_on_page(void *context)
{
    struct rows *r = context;
    table_print(&r->table, &r->out);
    table_clear(&r->table);
    bool taken = cli_print(r->cli, &r->out);
    buf_reset(&r->out);
    return taken;
}

enum exit_code rows_print(struct cli *cli, const struct options *o, struct pages *p, struct rows *r, size_t columns,
                          const char *none)
{
    r->cli = cli;
    r->json = option_get(o, "json")->number;
    buf_init(&r->out, OUT_MAX);
    table_init(&r->table, columns);
    r->table.fit = cli_columns(cli);
    for (size_t i = 0; i < array_count(r->keep) && r->keep[i]; i++)
        table_keep(&r->table, r->keep[i] - 1);
    p->row = rows_on_row;
    p->page = rows_on_page;
    p->context = r;
    enum exit_code code = pages_walk(p);
    if (code == EXIT_DONE && r->count == 0 && !r->json && none)
        fprintf(cli->err, "belfry %s: %s\n", cli->command->name, none);
    if (code == EXIT_DONE && p->has_more && (!r->json || !option_given(o, "limit")))
        fprintf(cli->err, "%zu shown, there are more: use --limit N or --all\n", r->count);
    table_release(&r->table);
    buf_release(&r->out);
    return code;
}
