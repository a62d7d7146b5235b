/* belfry explain - says why a task has not run yet, and when it will. */
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/task_view.h"

enum { OUT_MAX = 1 << 20, PATH_BYTES = 128, TEXT_WIDTH = 1000 };

static void explain_write_text(struct cli *cli, const json_t *x, struct buf *out)
{
    char status[CELL_TEXT], when[CELL_TEXT];
    int64_t ms;
    buf_printf(out, "%s: ", table_cell(json_text_at(x, "status"), status));
    table_plain_text(json_text_at(x, "explanation"), TEXT_WIDTH, out);
    buf_char(out, '\n');
    moment_text(x, "estimate", clock_wall_ms(cli->clock), when);
    if (json_time_at(x, "estimate", &ms))
        buf_printf(out, "Expected %s\n", when);
    for (size_t i = 0; i < json_count_at(x, "holders"); i++) {
        char path[32], id[CELL_TEXT], state[CELL_TEXT];
        snprintf(path, sizeof path, "holders[%zu]", i);
        const json_t *holder = json_at(x, path);
        buf_printf(out, "Held by %s, %s\n", table_cell(json_text_at(holder, "task_id"), id),
                   table_cell(json_text_at(holder, "status"), state));
    }
}

static enum exit_code command_explain_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    struct error e;
    char path[PATH_BYTES];
    if (ids_check_one(o, &e))
        return cli_fail(cli, "explain", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code)
        return code;
    snprintf(path, sizeof path, "/v1/tasks/%s/explain", ids.v[0]);
    code = client_call(client, &(struct client_request){ .method = "GET", .path = path, .about = ids.v[0] }, &a);
    if (code)
        return code;
    if (option_get(o, "json")->number)
        client_json_line(&out, buf_str(&a.body));
    else
        explain_write_text(cli, a.doc.root, &out);
    cli_print(cli, &out);
    return EXIT_DONE;
}

const struct command command_explain = {
    .name = "explain",
    .words = "TASK",
    .summary = "say why a task has not run yet, and when it will",
    .detail =
        "Prints what the task waits for:\n"
        "  - its due time, or a pause\n"
        "  - a slot, and the tasks that hold it\n"
        "  - other tasks that it depends on\n"
        "  - the rate, limit or pause of its queue, or the limit of its tenant\n"
        "  - a circuit breaker\n"
        "  - a host that has as many calls as the server makes to one host at once\n"
        "  - a worker: in a fleet, one that serves its queue, tenant and priority and has the labels, CPU and memory that it\n"
        "    needs; for the target WORKER, one that asks for tasks of its queue\n"
        "  - tasks that are due before it\n"
        "\n"
        "Examples:\n"
        "  belfry explain report\n"
        "  belfry explain 019c3f2e-7a40-7000-8000-000000000001\n",
    .run = command_explain_run,
};
