/* belfry list - prints tasks. */
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/rows.h"
#include "cli/task_view.h"

enum { COLUMNS = 6, QUERY_MAX = 8192 };

static const char detail[] =
    "Examples:\n"
    "  belfry list\n"
    "  belfry list --status FAILED --all\n"
    "  belfry list --recurring --queue mail\n"
    "  belfry list --search order-4711 --all\n"
    "  belfry list --search 'payload:\"order\": 4711' --limit 5\n"
    "  belfry list --due-before 2026-02-10T08:00:00Z --limit 100\n"
    "  belfry list --status PAUSED --all --json | jq -r .id\n"
    "\n"
    "A search looks at all tasks, newest first, until it has found --limit of them.\n"
    "A run of a workflow that has started and is paused is RUNNING here; it is PAUSED in 'belfry workflow list'.\n"
    "Times are UTC.\n";

static void list_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "NAME", "STATUS", "NEXT", "SCHEDULE", "TARGET");
}

static void list_add_row(struct rows *r, const json_t *task)
{
    char next[CELL_TEXT];
    moment_text(task, "next_execution", clock_wall_ms(r->cli->clock), next);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(task, "id")),
              table_text(&r->table, json_text_at(task, "name")), table_text(&r->table, json_text_at(task, "status")),
              next, task_cell(&r->table, schedule_text, task), task_cell(&r->table, target_text, task));
}

static enum exit_code command_list_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, QUERY_MAX);
    buf_text(&path, "/v1/tasks");
    filter_from_options(o, &path);
    enum exit_code code = client_open(cli, o, &client);
    struct pages p = { .client = client, .path = buf_cstr(&path), .member = "tasks", .limit = pages_limit(o) };
    struct rows r = { .header = list_header, .add = list_add_row, .keep = { 1, 3, 4 } };
    return code ? code : rows_print(cli, o, &p, &r, COLUMNS, "there are no matching tasks");
}

const struct command command_list = {
    .name = "list",
    .words = "",
    .summary = "print tasks, optionally filtered",
    .detail = detail,
    .options = filter_options,
    .option_count = FILTER_LIST_COUNT,
    .shared_options = page_options,
    .shared_count = PAGE_OPTION_COUNT,
    .run = command_list_run,
};
