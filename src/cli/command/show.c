/* belfry show - prints all fields of a task, and its latest executions. */
#include "cli/command/show.h"

#include "base/duration.h"
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/task_view.h"
#include "cli/when.h"

enum { OUT_MAX = 64 << 20, PATH_BYTES = 128, FACT_COLUMNS = 2, FACT_WIDTH = 4000 };

static const char detail[] = "Examples:\n"
                             "  belfry show 019c3f2e-7a40-7000-8000-000000000001\n"
                             "  belfry show --json 019c3f2e-7a40-7000-8000-000000000001 | jq .status\n"
                             "\n"
                             "Times are UTC. 'belfry history' prints all executions.\n";

/* Fields are printed one a line, in this order; absent, null and 0 ones are left out. */
enum fact_format {
    SHOWS_TEXT,
    SHOWS_NUMBER,
    SHOWS_MILLIS,
    SHOWS_MOMENT,
    SHOWS_JSON,
    SHOWS_PROGRESS,
    SHOWS_SCHEDULE,
    SHOWS_TARGET,
    SHOWS_SECONDS,
    SHOWS_WAITING,
    SHOWS_ATTEMPTS
};

static const struct task_fact {
    const char *label, *path;
    enum fact_format shows;
} facts[] = {
    { "Id", "id", SHOWS_TEXT },
    { "Name", "name", SHOWS_TEXT },
    { "Status", "status", SHOWS_TEXT },
    { "Schedule", "type", SHOWS_SCHEDULE },
    { "Waits for", "waiting_for", SHOWS_WAITING },
    { "Leased by", "lease.worker", SHOWS_TEXT },
    { "until", "lease.expires_at", SHOWS_MOMENT },
    { "progress", "lease", SHOWS_PROGRESS },
    { "Next", "next_execution", SHOWS_MOMENT },
    { "Calendar", "calendar", SHOWS_TEXT },
    { "on other days", "calendar_policy", SHOWS_TEXT },
    { "Starts", "start_time", SHOWS_MOMENT },
    { "Ends", "end_date", SHOWS_MOMENT },
    { "Max runs", "max_runs", SHOWS_NUMBER },
    { "Runs", "runs_count", SHOWS_NUMBER },
    { "Skipped", "skipped_count", SHOWS_NUMBER },
    { "Last run", "last_run_at", SHOWS_MOMENT },
    { "Catch-up", "catch_up_mode", SHOWS_TEXT },
    { "Overlap", "overlap_policy", SHOWS_TEXT },
    { "Concurrency key", "concurrency_key", SHOWS_TEXT },
    { "at most at once", "concurrency_limit", SHOWS_NUMBER },
    { "Dedupe key", "dedupe_key", SHOWS_TEXT },
    { "for", "dedupe_window_seconds", SHOWS_SECONDS },
    { "then", "dedupe_action", SHOWS_TEXT },
    { "Expires after", "expires_after_seconds", SHOWS_SECONDS },
    { "Expires", "expires_at", SHOWS_MOMENT },
    { "Target", "target_type", SHOWS_TARGET },
    { "Config", "target_config", SHOWS_JSON },
    { "Payload", "payload", SHOWS_JSON },
    { "Task type", "task_type", SHOWS_TEXT },
    { "Queue", "queue", SHOWS_TEXT },
    { "Priority", "priority", SHOWS_NUMBER },
    { "Delivery", "delivery", SHOWS_TEXT },
    { "Timeout", "timeout_ms", SHOWS_MILLIS },
    { "Requires", "requires", SHOWS_JSON },
    { "Resources", "resources", SHOWS_JSON },
    { "Attempts", "attempts", SHOWS_ATTEMPTS },
    { "Last error", "last_error", SHOWS_TEXT },
    { "Metadata", "metadata", SHOWS_JSON },
    { "Created", "created_at", SHOWS_MOMENT },
    { "Updated", "updated_at", SHOWS_MOMENT },
    { "Started", "started_at", SHOWS_MOMENT },
    { "Completed", "completed_at", SHOWS_MOMENT },
    { "Version", "version", SHOWS_NUMBER },
};

static void show_write_moment(const json_t *task, const char *path, int64_t now_ms, struct buf *out)
{
    char text[CELL_TEXT];
    int64_t ms;
    moment_text(task, path, now_ms, text);
    buf_text(out, json_time_at(task, path, &ms) ? text : "");
}

static void show_write_number(int64_t number, bool is_millis, struct buf *out)
{
    char span[WHEN_TEXT];
    if (is_millis && number > 0) {
        when_took(number, span);
        buf_text(out, span);
    } else if (number) {
        buf_printf(out, "%lld", (long long)number);
    }
}

static void show_write_duration(int64_t ms, struct buf *out)
{
    char span[DURATION_TEXT];
    if (ms == 0)
        return;
    duration_format(ms, span);
    buf_text(out, span);
}

static void show_write_attempts(const json_t *task, struct buf *out)
{
    int64_t max = json_i64_at(task, "retry.max_attempts", 0);
    if (max)
        buf_printf(out, "%lld of at most %lld", (long long)json_i64_at(task, "attempts", 0), (long long)max);
}

static void show_write_progress(const struct json_doc *doc, struct buf *out)
{
    struct json_cursor c = { .text = json_member_text(doc, "lease") };
    struct str name, value;
    while (c.text.n && json_next(&c, &name, &value))
        if (str_eq(name, S("progress")) && !str_eq(value, S("null")))
            table_plain_text(value, FACT_WIDTH, out);
}

/* Appends nothing if the task has no such value. */
static void show_write_fact(const struct task_fact *f, const struct json_doc *doc, int64_t now_ms, struct buf *out)
{
    char text[CELL_TEXT] = "";
    switch (f->shows) {
    case SHOWS_TEXT: table_plain_text(json_text_at(doc->root, f->path), FACT_WIDTH, out); break;
    case SHOWS_PROGRESS: show_write_progress(doc, out); break;
    case SHOWS_JSON: table_plain_text(json_member_text(doc, f->path), FACT_WIDTH, out); break;
    case SHOWS_NUMBER:
    case SHOWS_MILLIS: show_write_number(json_i64_at(doc->root, f->path, 0), f->shows == SHOWS_MILLIS, out); break;
    case SHOWS_MOMENT: show_write_moment(doc->root, f->path, now_ms, out); break;
    case SHOWS_SCHEDULE: schedule_text(doc->root, text); break;
    case SHOWS_TARGET: target_text(doc->root, text); break;
    case SHOWS_WAITING: waiting_text(doc->root, text); break;
    case SHOWS_ATTEMPTS: show_write_attempts(doc->root, out); break;
    case SHOWS_SECONDS: show_write_duration(json_seconds_at(doc->root, f->path), out); break;
    }
    buf_text(out, text);
}

static void show_write_facts(struct cli *cli, const struct json_doc *doc, struct buf *out)
{
    cleanup_with(table_release) struct table t;
    table_init(&t, FACT_COLUMNS);
    for (size_t i = 0; i < array_count(facts); i++) {
        cleanup_with(buf_release) struct buf text;
        buf_init(&text, 4 * FACT_WIDTH + 4);
        show_write_fact(&facts[i], doc, clock_wall_ms(cli->clock), &text);
        if (text.n && !str_eq(buf_str(&text), S("null")))
            table_row(&t, FACT_COLUMNS, facts[i].label, buf_cstr(&text));
    }
    table_print(&t, out);
}

static void show_write_executions(const json_t *task, struct buf *out)
{
    size_t count = json_count_at(task, "executions");
    cleanup_with(table_release) struct table t;
    table_init(&t, EXECUTION_COLUMNS);
    execution_header(&t);
    for (size_t i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "executions[%zu]", i);
        execution_row(&t, json_at(task, path));
    }
    if (!count)
        return;
    buf_char(out, '\n');
    table_print(&t, out);
}

/* The oldest attempt first. */
static void show_write_outputs(const json_t *task, struct buf *out)
{
    for (size_t i = json_count_at(task, "executions"); i > 0; i--) {
        char path[32];
        snprintf(path, sizeof path, "executions[%zu]", i - 1);
        const json_t *x = json_at(task, path);
        buf_printf(out, "\nAttempt %lld: ", (long long)json_i64_at(x, "attempt_number", 0));
        table_plain_text(json_text_at(x, "error_message"), FACT_WIDTH, out);
        buf_text(out, "\n  ");
        table_plain_text(json_text_at(x, "output"), FACT_WIDTH, out);
        buf_char(out, '\n');
    }
}

enum exit_code show_task(struct cli *cli, struct client *client, const char *list, const char *id, bool json,
                         bool outputs, struct buf *out)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", list, id);
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = path, .about = id };
    enum exit_code code = client_call(client, &call, &a);
    if (code)
        return code;
    if (json) {
        client_json_line(out, buf_str(&a.body));
    } else {
        buf_text(out, out->n ? "\n" : "");
        show_write_facts(cli, &a.doc, out);
        show_write_executions(a.doc.root, out);
        if (outputs)
            show_write_outputs(a.doc.root, out);
    }
    return EXIT_DONE;
}

static enum exit_code command_show_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    struct error e;
    if (ids_some(o, &ids, &e))
        return cli_fail(cli, "show", &e, EXIT_USAGE);
    enum exit_code worst = client_open(cli, o, &client);
    for (size_t i = 0; i < ids.n && worst != EXIT_UNREACHABLE && client; i++) {
        bool json = option_get(o, "json")->number;
        enum exit_code code = show_task(cli, client, "/v1/tasks", ids.v[i], json, false, &out);
        worst = max_of(worst, code);
    }
    cli_print(cli, &out);
    return worst;
}

const struct command command_show = {
    .name = "show",
    .words = "ID…",
    .summary = "print all fields of a task, and its latest executions",
    .detail = detail,
    .run = command_show_run,
};
