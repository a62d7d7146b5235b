/* belfry explain - says what will happen to a task, and what holds it. */
#include "cli/command/commands.h"
#include "cli/task_answer.h"
#include "cli/task_view.h"

enum { TEXT_WIDTH = 1000 };

static void explain_line(struct buf *out, const char *before, struct str text)
{
    buf_printf(out, "%s", before);
    table_plain_text(text, TEXT_WIDTH, out);
    buf_char(out, '\n');
}

/* One line for each gate ahead. A single one is in the sentence already. */
static void explain_write_gates(const json_t *x, int64_t now_ms, struct buf *out)
{
    size_t i;
    const json_t *step, *gates = json_at(x, "gates");
    if (json_array_size(gates) == 1)
        return;
    json_array_foreach (gates, i, step) {
        char gate[CELL_TEXT], when[CELL_TEXT];
        int64_t ms;
        moment_text(step, "until", now_ms, when);
        bool known = json_time_at(step, "until", &ms);
        buf_printf(out, "  %s, %s%s: ", table_cell(json_text_at(step, "gate"), gate), known ? "until " : "",
                   known ? when : "nobody knows until when");
        explain_line(out, "", json_text_at(step, "explanation"));
    }
}

/* Why there is no estimate: the first gate without an end. */
static void explain_write_unknown(const json_t *x, struct buf *out)
{
    size_t i;
    const json_t *step;
    json_array_foreach (json_at(x, "gates"), i, step) {
        int64_t ms;
        if (json_time_at(step, "until", &ms))
            continue;
        explain_line(out, "When cannot be known: ", json_text_at(step, "explanation"));
        return;
    }
}

static void explain_write_outcome(const json_t *x, int64_t now_ms, struct buf *out)
{
    static const struct {
        const char *outcome, *says;
    } rows[] = { { "RUN", "Expected" }, { "SKIPPED", "Skipped" }, { "EXPIRED", "Expires" } };
    char when[CELL_TEXT];
    int64_t ms, position = json_i64_at(x, "position", -1);
    bool runs = str_eq(json_text_at(x, "status"), S("RUNNING"));
    if (position >= 0)
        buf_printf(out, "Ahead of it in its line: %lld\n", (long long)position);
    if (str_eq(json_text_at(x, "outcome"), S("UNKNOWN")) && !runs) /* of a run that goes on, the sentence says all */
        explain_write_unknown(x, out);
    if (str_eq(json_text_at(x, "outcome"), S("EXPIRED")) && !json_time_at(x, "estimate", &ms))
        buf_text(out, "Expires when it is resumed\n");
    moment_text(x, "estimate", now_ms, when);
    for (size_t i = 0; i < array_count(rows) && json_time_at(x, "estimate", &ms); i++)
        if (str_eq(json_text_at(x, "outcome"), str_from(rows[i].outcome)))
            buf_printf(out, "%s %s\n", runs ? "Started" : rows[i].says, when);
}

static void explain_write_text(struct cli *cli, const json_t *x, struct buf *out)
{
    char status[CELL_TEXT];
    int64_t now_ms = clock_wall_ms(cli->clock);
    buf_printf(out, "%s: ", table_cell(json_text_at(x, "status"), status));
    explain_line(out, "", json_text_at(x, "explanation"));
    explain_write_gates(x, now_ms, out);
    explain_write_outcome(x, now_ms, out);
    size_t i;
    const json_t *holder;
    json_array_foreach (json_at(x, "holders"), i, holder) {
        char id[CELL_TEXT], state[CELL_TEXT];
        buf_printf(out, "Held by %s, %s\n", table_cell(json_text_at(holder, "task_id"), id),
                   table_cell(json_text_at(holder, "status"), state));
    }
}

static enum exit_code command_explain_run(struct cli *cli, const struct options *o)
{
    return task_answer_print(cli, o, "explain", explain_write_text);
}

const struct command command_explain = {
    .name = "explain",
    .words = "TASK",
    .summary = "say what will happen to a task, and what holds it",
    .detail =
        "Prints what holds the task now, then each gate ahead of it on a line, and what will happen:\n"
        "  - Expected: when its call starts\n"
        "  - Skipped, Expires: it will not run, and since when that is decided\n"
        "  - When cannot be known: the gate that nobody can foresee\n"
        "Gates are:\n"
        "  - its due time, its expiry, a pause of the task or its queue\n"
        "  - a slot, and the tasks that hold it; the previous run of a recurring task\n"
        "  - other tasks that it depends on\n"
        "  - the rate or limit of its queue, or the limit of its tenant\n"
        "  - a circuit breaker\n"
        "  - a host that has as many calls as the server makes to one host at once\n"
        "  - a worker: in a fleet, one that serves its queue, tenant and priority and has the labels, CPU and memory that it\n"
        "    needs; for the target WORKER, one that asks for tasks of its queue\n"
        "  - tasks that are due before it\n"
        "Of a recurring task, the next occurrence is explained. The answer holds if nobody changes anything.\n"
        "\n"
        "Examples:\n"
        "  belfry explain report\n"
        "  belfry explain 019c3f2e-7a40-7000-8000-000000000001\n",
    .run = command_explain_run,
};
