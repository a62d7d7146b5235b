/* belfry deps - prints the tasks that a task depends on, and those that depend on it. */
#include "cli/command/commands.h"
#include "cli/task_answer.h"
#include "cli/task_view.h"

enum { COLUMNS = 6 };

static void deps_add_list(struct table *t, const json_t *x, const char *list, const char *side)
{
    size_t i;
    const json_t *other;
    json_array_foreach (json_at(x, list), i, other) {
        struct str status = json_text_at(other, "status");
        table_row(t, COLUMNS, side, table_text(t, json_text_at(other, "task_id")),
                  table_text(t, status.n ? status : S("removed")), table_text(t, json_text_at(other, "type")),
                  table_text(t, json_text_at(other, "state")), table_text(t, json_text_at(other, "name")));
    }
}

static void deps_write_text(struct cli *cli, const json_t *x, struct buf *out)
{
    (void)cli;
    struct table t;
    char status[CELL_TEXT], join[CELL_TEXT];
    int64_t arrived = json_i64_at(x, "arrived", 0), expected = json_i64_at(x, "expected", 0);
    buf_printf(out, "%s: %lld of %lld task%s that it depends on ha%s ended (%s)\n",
               table_cell(json_text_at(x, "status"), status), (long long)arrived, (long long)expected,
               expected == 1 ? "" : "s", expected == 1 ? "s" : "ve", table_cell(json_text_at(x, "join"), join));
    if (!json_count_at(x, "depends_on") && !json_count_at(x, "dependents"))
        return;
    table_init(&t, COLUMNS);
    table_keep(&t, 1);
    table_row(&t, COLUMNS, "", "TASK", "STATUS", "TYPE", "STATE", "NAME");
    deps_add_list(&t, x, "depends_on", "after");
    deps_add_list(&t, x, "dependents", "before");
    table_print(&t, out);
    table_release(&t);
}

static enum exit_code command_deps_run(struct cli *cli, const struct options *o)
{
    return task_answer_print(cli, o, "dependencies", deps_write_text);
}

const struct command command_deps = {
    .name = "deps",
    .words = "TASK",
    .summary = "list the tasks that a task depends on, and those that depend on it",
    .detail =
        "'after' marks a task that it depends on, 'before' one that depends on it. TYPE says what the task that is\n"
        "waited for must do, STATE whether it did: WAITING, MET, BROKEN or UNMET. 'belfry add --after' creates a task\n"
        "that depends on others.\n"
        "\n"
        "Examples:\n"
        "  belfry deps report\n"
        "  belfry deps --json 019c3f2e-7a40-7000-8000-000000000001\n",
    .run = command_deps_run,
};
