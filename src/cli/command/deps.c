/* belfry deps - prints the tasks that a task depends on, and those that depend on it. */
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/task_view.h"

enum { OUT_MAX = 16 << 20, PATH_BYTES = 128, COLUMNS = 6 };

static void deps_add_list(struct table *t, const json_t *x, const char *list, const char *side)
{
    for (size_t i = 0; i < json_count_at(x, list); i++) {
        char path[48];
        snprintf(path, sizeof path, "%s[%zu]", list, i);
        const json_t *other = json_at(x, path);
        struct str status = json_text_at(other, "status");
        table_row(t, COLUMNS, side, table_text(t, json_text_at(other, "task_id")),
                  table_text(t, status.n ? status : S("removed")), table_text(t, json_text_at(other, "type")),
                  table_text(t, json_text_at(other, "state")), table_text(t, json_text_at(other, "name")));
    }
}

static void deps_write_text(const json_t *x, struct buf *out)
{
    struct table t;
    char status[CELL_TEXT], join[CELL_TEXT];
    buf_printf(out, "%s: %lld of %lld tasks that it depends on have ended (%s)\n",
               table_cell(json_text_at(x, "status"), status), (long long)json_i64_at(x, "arrived", 0),
               (long long)json_i64_at(x, "expected", 0), table_cell(json_text_at(x, "join"), join));
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
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    struct error e;
    char path[PATH_BYTES];
    if (ids_check_one(o, &e))
        return cli_fail(cli, "deps", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code)
        return code;
    snprintf(path, sizeof path, "/v1/tasks/%s/dependencies", ids.v[0]);
    code = client_call(client, &(struct client_request){ .method = "GET", .path = path, .about = ids.v[0] }, &a);
    if (code)
        return code;
    if (option_get(o, "json")->number)
        client_json_line(&out, buf_str(&a.body));
    else
        deps_write_text(a.doc.root, &out);
    cli_print(cli, &out);
    return EXIT_DONE;
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
