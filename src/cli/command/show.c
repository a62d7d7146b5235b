/* belfry show - prints all fields of a task, and its latest executions. */
#include "cli/command/show.h"

#include "base/duration.h"
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/task_view.h"
#include "cli/time_text.h"
#include "cli/verbs.h"

enum { OUT_MAX = 64 << 20, PATH_BYTES = 128, FACT_COLUMNS = 2 };

static const char detail[] =
    "Examples:\n"
    "  belfry show 019c3f2e-7a40-7000-8000-000000000001\n"
    "  belfry show --json 019c3f2e-7a40-7000-8000-000000000001 | jq .status\n"
    "\n"
    "Times are UTC. Output is what the latest attempt got as an answer, or the result of a worker.\n"
    "'belfry history' prints all executions, and with --json their outputs.\n";

/* Fields are printed one a line, in this order; absent and null ones are left out. A field that has no row here is
 * printed after them under its own name, so that nothing is hidden. */
enum fact_format {
    SHOWS_TEXT,
    SHOWS_NUMBER,
    SHOWS_MILLIS,
    SHOWS_MOMENT,
    SHOWS_JSON,
    SHOWS_CONFIG, /* of a step that is defined, and has none yet: nothing */
    SHOWS_PROGRESS,
    SHOWS_SCHEDULE,
    SHOWS_TARGET,
    SHOWS_SECONDS,
    SHOWS_WAITING,
    SHOWS_ATTEMPTS,
    SHOWS_OUTPUT, /* of a step, or of the latest attempt, unless all are printed below */
    SHOWS_NOTHING /* another row has it */
};

static const struct task_fact {
    const char *label, *path;
    enum fact_format shows;
} facts[] = {
    { "Id", "id", SHOWS_TEXT },
    { "Name", "name", SHOWS_TEXT },
    { "Run", "run", SHOWS_TEXT },
    { "Step", "step", SHOWS_TEXT },
    { "Item", "item", SHOWS_NUMBER },
    { "Status", "status", SHOWS_TEXT },
    { "Type", "type", SHOWS_TEXT },
    { "Occurrence of", "parent_id", SHOWS_TEXT },
    { "Scheduled for", "scheduled_for", SHOWS_MOMENT },
    { "Schedule", "cron_expression", SHOWS_SCHEDULE },
    { "", "interval_seconds", SHOWS_NOTHING },
    { "Time zone", "time_zone", SHOWS_TEXT },
    { "Run at", "run_at", SHOWS_MOMENT },
    { "Waits for", "waiting_for", SHOWS_WAITING },
    { "Leased by", "lease.worker", SHOWS_TEXT },
    { "until", "lease.expires_at", SHOWS_MOMENT },
    { "progress", "lease", SHOWS_PROGRESS },
    { "Next", "next_execution", SHOWS_MOMENT },
    { "Calendar", "calendar", SHOWS_TEXT },
    { "on other days", "calendar_policy", SHOWS_TEXT },
    { "DST policy", "dst_policy", SHOWS_JSON },
    { "Starts", "start_time", SHOWS_MOMENT },
    { "Ends", "end_date", SHOWS_MOMENT },
    { "Max runs", "max_runs", SHOWS_NUMBER },
    { "Runs", "runs_count", SHOWS_NUMBER },
    { "Skipped", "skipped_count", SHOWS_NUMBER },
    { "Last run", "last_run_at", SHOWS_MOMENT },
    { "Spread", "spread_seconds", SHOWS_SECONDS },
    { "Catch-up", "catch_up_mode", SHOWS_TEXT },
    { "within", "catch_up_window_seconds", SHOWS_SECONDS },
    { "Overlap", "overlap_policy", SHOWS_TEXT },
    { "Concurrency key", "concurrency_key", SHOWS_TEXT },
    { "at most at once", "concurrency_limit", SHOWS_NUMBER },
    { "Dedupe key", "dedupe_key", SHOWS_TEXT },
    { "for", "dedupe_window_seconds", SHOWS_SECONDS },
    { "then", "dedupe_action", SHOWS_TEXT },
    { "at the latest", "dedupe_max_wait_seconds", SHOWS_SECONDS },
    { "Expires after", "expires_after_seconds", SHOWS_SECONDS },
    { "Expires", "expires_at", SHOWS_MOMENT },
    { "Target", "target_type", SHOWS_TARGET },
    { "Defined as", "definition", SHOWS_JSON },
    { "Config", "target_config", SHOWS_CONFIG },
    { "Payload", "payload", SHOWS_JSON },
    { "Task type", "task_type", SHOWS_TEXT },
    { "Queue", "queue", SHOWS_TEXT },
    { "Priority", "priority", SHOWS_NUMBER },
    { "Delivery", "delivery", SHOWS_TEXT },
    { "Timeout", "timeout_ms", SHOWS_MILLIS },
    { "Requires", "requires", SHOWS_JSON },
    { "Resources", "resources", SHOWS_JSON },
    { "Attempts", "attempts", SHOWS_ATTEMPTS },
    { "Retry", "retry", SHOWS_JSON },
    { "Last error", "last_error", SHOWS_TEXT },
    { "Cause", "cause", SHOWS_TEXT },
    { "Resolved", "resolved_at", SHOWS_MOMENT },
    { "how", "resolution.how", SHOWS_TEXT },
    { "by key", "resolution.by", SHOWS_TEXT },
    { "because", "resolution.reason", SHOWS_TEXT },
    { "Paused by", "paused.by", SHOWS_TEXT },
    { "because", "paused.reason", SHOWS_TEXT },
    { "since", "paused.since", SHOWS_MOMENT },
    { "until", "paused.until", SHOWS_MOMENT },
    { "Expected", "expect", SHOWS_JSON },
    { "Tells", "notify", SHOWS_JSON },
    { "Metadata", "metadata", SHOWS_JSON },
    { "Created", "created_at", SHOWS_MOMENT },
    { "Updated", "updated_at", SHOWS_MOMENT },
    { "Started", "started_at", SHOWS_MOMENT },
    { "Completed", "completed_at", SHOWS_MOMENT },
    { "Output", "executions[0].output", SHOWS_OUTPUT },
    { "Version", "version", SHOWS_NUMBER },
    { "", "executions", SHOWS_NOTHING },
    { "", "output", SHOWS_NOTHING },
    { "", "items", SHOWS_NOTHING }, /* printed below the facts */
};

static void show_write_moment(const json_t *task, const char *path, int64_t now_ms, struct buf *out)
{
    char text[CELL_TEXT];
    int64_t ms;
    moment_text(task, path, now_ms, text);
    buf_text(out, json_time_at(task, path, &ms) ? text : "");
}

static void show_write_number(const json_t *task, const char *path, struct buf *out)
{
    char text[32];
    number_text(task, path, text);
    buf_text(out, json_is_number(json_at(task, path)) ? text : "");
}

static void show_write_millis(const json_t *task, const char *path, struct buf *out)
{
    char span[TIME_TEXT];
    if (!json_is_number(json_at(task, path)))
        return;
    time_text_took(json_i64_at(task, path, 0), span);
    buf_text(out, span);
}

static void show_write_seconds(const json_t *task, const char *path, struct buf *out)
{
    char span[DURATION_TEXT];
    int64_t ms = json_seconds_at(task, path);
    if (!json_is_number(json_at(task, path)))
        return;
    duration_format(ms, span);
    buf_text(out, ms > 0 ? span : "0s");
}

static void show_write_attempts(const json_t *task, struct buf *out)
{
    int64_t max = json_i64_at(task, "retry.max_attempts", 0);
    if (max)
        buf_printf(out, "%lld of at most %lld", (long long)json_i64_at(task, "attempts", 0), (long long)max);
    else
        show_write_number(task, "attempts", out);
}

static void show_write_progress(const struct json_doc *doc, struct buf *out)
{
    struct json_cursor c = { .text = json_member_text(doc, "lease") };
    struct str name, value;
    while (c.text.n && json_next(&c, &name, &value))
        if (str_eq(name, S("progress")) && !str_eq(value, S("null")))
            table_plain_text(value, SIZE_MAX, out);
}

/* A step that a user has completed has another output than its latest attempt. */
static void show_write_output(const json_t *task, const char *path, struct buf *out)
{
    struct str output = json_text_at(task, json_at(task, "output") ? "output" : path);
    while (output.n && (output.p[output.n - 1] == '\n' || output.p[output.n - 1] == '\r'))
        output.n--;
    table_plain_text(output, SIZE_MAX, out);
}

/* A step has what it is defined as. Its call is in its task once its references are resolved, or if it has none. */
static void show_write_config(const struct json_doc *doc, struct buf *out)
{
    struct str config = json_member_text(doc, "target_config");
    if (!json_at(doc->root, "definition") || !str_eq(config, S("{}")))
        table_plain_text(config, SIZE_MAX, out);
}

/* Appends nothing if the task has no such value. */
static void show_write_fact(const struct task_fact *f, const struct json_doc *doc, int64_t now_ms, struct buf *out)
{
    switch (f->shows) {
    case SHOWS_OUTPUT: show_write_output(doc->root, f->path, out); break;
    case SHOWS_TEXT: table_plain_text(json_text_at(doc->root, f->path), SIZE_MAX, out); break;
    case SHOWS_PROGRESS: show_write_progress(doc, out); break;
    case SHOWS_CONFIG: show_write_config(doc, out); break;
    case SHOWS_JSON: table_plain_text(json_member_text(doc, f->path), SIZE_MAX, out); break;
    case SHOWS_NUMBER: show_write_number(doc->root, f->path, out); break;
    case SHOWS_MILLIS: show_write_millis(doc->root, f->path, out); break;
    case SHOWS_MOMENT: show_write_moment(doc->root, f->path, now_ms, out); break;
    case SHOWS_SCHEDULE: schedule_text(doc->root, out); break;
    case SHOWS_TARGET: target_text(doc->root, out); break;
    case SHOWS_WAITING: waiting_text(doc->root, out); break;
    case SHOWS_ATTEMPTS: show_write_attempts(doc->root, out); break;
    case SHOWS_SECONDS: show_write_seconds(doc->root, f->path, out); break;
    case SHOWS_NOTHING: break;
    }
}

static bool show_has_fact(struct str member)
{
    for (size_t i = 0; i < array_count(facts); i++) {
        struct str path = str_from(facts[i].path);
        if (str_eq(str_sub(path, 0, str_find(path, '.', 0)), member))
            return true;
    }
    return false;
}

static void show_add_other_members(const struct json_doc *doc, struct table *t)
{
    struct json_cursor c = { .text = doc->text };
    struct str name, value;
    while (json_is_object(doc->root) && json_next(&c, &name, &value))
        if (!show_has_fact(name) && !str_eq(value, S("null")))
            table_row(t, FACT_COLUMNS, table_text(t, name), table_text(t, value));
}

static void show_write_facts(struct cli *cli, const struct json_doc *doc, bool outputs, struct buf *out)
{
    cleanup_with(table_release) struct table t;
    table_init(&t, FACT_COLUMNS);
    for (size_t i = 0; i < array_count(facts); i++) {
        cleanup_with(buf_release) struct buf text;
        buf_init(&text, OUT_MAX);
        if (outputs && facts[i].shows == SHOWS_OUTPUT)
            continue;
        show_write_fact(&facts[i], doc, clock_wall_ms(cli->clock), &text);
        if (text.n && !str_eq(buf_str(&text), S("null")))
            table_row(&t, FACT_COLUMNS, facts[i].label, buf_cstr(&text));
    }
    show_add_other_members(doc, &t);
    table_print(&t, out);
}

static void show_write_executions(struct cli *cli, const json_t *task, struct buf *out)
{
    size_t count;
    const json_t *execution;
    cleanup_with(table_release) struct table t;
    table_init(&t, EXECUTION_COLUMNS);
    t.fit = cli_columns(cli);
    table_keep(&t, 0);
    table_keep(&t, EXECUTION_COLUMNS - 1);
    execution_header(&t);
    json_array_foreach (json_at(task, "executions"), count, execution)
        execution_row(&t, execution);
    if (!count)
        return;
    buf_char(out, '\n');
    table_print(&t, out);
}

static void show_write_line(struct str text, struct buf *out)
{
    if (!text.n)
        return;
    buf_text(out, "  ");
    table_plain_text(text, SIZE_MAX, out);
    buf_char(out, '\n');
}

/* The oldest attempt first. */
static void show_write_outputs(const json_t *task, struct buf *out)
{
    buf_text(out, json_count_at(task, "executions") ? "\n" : "");
    for (size_t i = json_count_at(task, "executions"); i > 0; i--) {
        const json_t *x = json_array_get(json_at(task, "executions"), i - 1);
        struct str error = json_text_at(x, "error_message"), output = json_text_at(x, "output");
        buf_printf(out, "Attempt %lld%s\n", (long long)json_i64_at(x, "attempt_number", 0),
                   error.n || output.n ? ":" : "");
        show_write_line(error, out);
        show_write_line(output, out);
    }
}

enum exit_code show_task(struct cli *cli, struct client *client, const char *path, const char *about, bool json,
                         bool outputs, struct buf *out)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = path, .about = about };
    enum exit_code code = client_call(client, &call, &a);
    if (code)
        return code;
    if (json) {
        client_json_line(out, buf_str(&a.body));
    } else {
        buf_text(out, out->n ? "\n" : "");
        show_write_facts(cli, &a.doc, outputs, out);
        paused_run_line(cli, client, a.doc.root, out);
        show_write_executions(cli, a.doc.root, out);
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
    if (ids_check_some(o, &e))
        return cli_fail(cli, "show", &e, EXIT_USAGE);
    enum exit_code worst = client_open(cli, o, &client);
    if (worst == EXIT_DONE)
        worst = ids_resolve(client, o, "/v1/tasks", &ids);
    for (size_t i = 0; i < ids.n && worst != EXIT_UNREACHABLE; i++) {
        char path[PATH_BYTES];
        bool json = option_get(o, "json")->number;
        snprintf(path, sizeof path, "/v1/tasks/%s", ids.v[i]);
        enum exit_code code = show_task(cli, client, path, ids.v[i], json, false, &out);
        worst = max_of(worst, code);
    }
    cli_print(cli, &out);
    return worst;
}

const struct command command_show = {
    .name = "show",
    .words = "TASK…",
    .summary = "print all fields of a task, and its latest executions",
    .detail = detail,
    .run = command_show_run,
};
