#include "cli/task_view.h"

#include "base/duration.h"
#include "base/uuid.h"
#include "cli/time_text.h"
#include "cli/verbs.h"
#include "core/time/cron.h"

static void task_view_add(struct str text, struct buf *out)
{
    table_plain_text(text, SIZE_MAX, out);
}

void schedule_text(const json_t *task, struct buf *out)
{
    struct str cron = json_text_at(task, "cron_expression"), zone = json_text_at(task, "time_zone");
    int64_t every_ms = json_seconds_at(task, "interval_seconds");
    char span[DURATION_TEXT];
    if (cron.n) {
        task_view_add(cron, out);
        buf_text(out, zone.n && !str_eq(zone, S("UTC")) ? " " : "");
        task_view_add(str_eq(zone, S("UTC")) ? S("") : zone, out);
    } else if (every_ms > 0) {
        duration_format(every_ms, span);
        buf_printf(out, "every %s", span);
    } else {
        buf_text(out, "once");
    }
}

void target_text(const json_t *task, struct buf *out)
{
    struct str kind = json_text_at(task, "target_type"), url = json_text_at(task, "target_config.url");
    struct str method = json_text_at(task, "target_config.method");
    struct str broker = json_text_at(task, "target_config.broker"),
               to = json_text_at(task, "target_config.destination");
    if (url.n) {
        task_view_add(method.n ? method : S("POST"), out);
        buf_char(out, ' ');
        task_view_add(url, out);
    } else if (broker.n) {
        buf_text(out, "message to ");
        task_view_add(broker, out);
        buf_char(out, ' ');
        task_view_add(to, out);
    } else {
        task_view_add(kind.n ? kind : S("-"), out);
    }
}

void waiting_text(const json_t *task, struct buf *out)
{
    struct str kind = json_text_at(task, "waiting_for.kind");
    if (str_eq(kind, S("overlap"))) {
        buf_text(out, "its previous run");
    } else if (str_eq(kind, S("dependencies"))) {
        buf_text(out, "tasks that it depends on ('belfry deps' lists them)");
    } else if (kind.n) {
        buf_text(out, "a slot of key '");
        task_view_add(json_text_at(task, "waiting_for.key"), out);
        buf_char(out, '\'');
    }
}

void joined_text(const json_t *object, const char *path, struct buf *out)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_at(object, path), i, item) {
        buf_text(out, i ? "," : "");
        task_view_add(json_text_at(item, ""), out);
    }
}

const char *task_cell(struct table *t, void (*write)(const json_t *task, struct buf *out), const json_t *task)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, TASK_TEXT_MAX);
    write(task, &text);
    return table_text(t, buf_str(&text));
}

void moment_text(const json_t *object, const char *path, int64_t now_ms, char out[CELL_TEXT])
{
    int64_t at_ms;
    char relative[TIME_TEXT], utc[TIME_TEXT];
    if (!json_time_at(object, path, &at_ms)) {
        snprintf(out, CELL_TEXT, "-");
        return;
    }
    time_text_relative(at_ms, now_ms, relative);
    time_text_utc(at_ms, utc);
    snprintf(out, CELL_TEXT, "%s, %s", relative, utc);
}

static void task_view_describe_cron(const json_t *task, struct buf *out)
{
    struct str cron = json_text_at(task, "cron_expression"), zone = json_text_at(task, "time_zone");
    struct cron parsed;
    struct error ignored;
    char shown[CELL_TEXT];
    if (!cron.n || cron_parse(cron, 0, &parsed, &ignored))
        return;
    cron_describe(cron, out);
    buf_printf(out, ", %s\n", table_cell(zone.n ? zone : S("UTC"), shown));
}

static void task_view_describe_calendar(const json_t *task, struct buf *out)
{
    struct str name = json_text_at(task, "calendar"), policy = json_text_at(task, "calendar_policy");
    char shown[CELL_TEXT];
    if (!name.n)
        return;
    buf_printf(out, "On business days of the calendar %s; a fire on another day %s\n", table_cell(name, shown),
               str_eq(policy, S("NEXT_DAY"))       ? "moves to the next one"
               : str_eq(policy, S("PREVIOUS_DAY")) ? "moves to the previous one"
                                                   : "is skipped");
}

void task_pause_end_text(const struct cli *cli, struct client *client, const json_t *task, struct buf *out)
{
    cleanup_with(client_answer_release) struct client_answer run = { 0 };
    char utc[TIME_TEXT], path[VERB_PATH], id[UUID_TEXT + 1];
    int64_t until_ms;
    bool is_step = outermost_run_id(client, task, id);
    snprintf(path, sizeof path, "/v1/workflows/%s", id);
    struct client_request call = { .method = "GET", .path = path, .quiet = true };
    bool has_run = is_step && client_call(client, &call, &run) == EXIT_DONE;
    if (json_time_at(has_run ? run.doc.root : task, has_run ? "pause.until" : "paused.until", &until_ms)) {
        time_text_utc(until_ms, utc);
        buf_printf(out, "%s, or ", utc);
    }
    buf_printf(out, "'belfry %sresume %s%s'", is_step ? "workflow " : "", id, cli->where);
}

/* What keeps the task from firing at its time; false: nothing that it tells itself. */
static bool task_view_held_line(const struct cli *cli, struct client *client, const json_t *task, struct buf *out)
{
    struct str status = json_text_at(task, "status");
    static const char *const final[] = { "COMPLETED", "FAILED", "CANCELLED", "SKIPPED", "EXPIRED" };
    for (size_t i = 0; i < array_count(final); i++) {
        if (str_eq(status, str_from(final[i]))) {
            buf_printf(out, "It is %s and does not fire again\n", final[i]);
            return true;
        }
    }
    if (str_eq(status, S("PAUSED"))) {
        buf_text(out, "It does not fire until ");
        task_pause_end_text(cli, client, task, out);
        buf_char(out, '\n');
    }
    if (str_eq(status, S("RUNNING")))
        buf_text(out, "It is running\n");
    if (str_eq(status, S("BLOCKED"))) {
        buf_text(out, "It waits");
        buf_text(out, json_text_at(task, "waiting_for.kind").n ? " for " : "");
        waiting_text(task, out);
        buf_char(out, '\n');
    }
    return str_eq(status, S("PAUSED")) || str_eq(status, S("RUNNING")) || str_eq(status, S("BLOCKED"));
}

void next_fire_lines(struct cli *cli, struct client *client, const json_t *task, struct buf *out)
{
    cleanup_with(tz_unrefp) struct tz *zone = NULL;
    struct str zone_name = json_text_at(task, "time_zone");
    int64_t at_ms, now_ms = clock_wall_ms(cli->clock);
    struct error ignored;
    char relative[TIME_TEXT], utc[TIME_TEXT], local[TIME_TEXT];
    task_view_describe_cron(task, out);
    task_view_describe_calendar(task, out);
    if (task_view_held_line(cli, client, task, out) || !json_time_at(task, "next_execution", &at_ms))
        return;
    time_text_relative(at_ms, now_ms, relative);
    time_text_utc(at_ms, utc);
    const char *verb = at_ms < now_ms && strcmp(relative, "now") != 0 ? "Was due" : "Fires";
    if (!zone_name.n || str_eq(zone_name, S("UTC")) || zoneinfo_get(cli->zones, zone_name, &zone, &ignored)) {
        buf_printf(out, "%s %s: %s\n", verb, relative, utc);
        return;
    }
    time_text_local(zone, at_ms, local);
    buf_printf(out, "%s %s: %s (%s)\n", verb, relative, local, utc);
}

void paused_queue_line(const struct cli *cli, struct client *client, const json_t *task, struct buf *out)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct str queue = json_text_at(task, "queue");
    char path[VERB_PATH], utc[TIME_TEXT];
    int64_t until_ms, due_ms;
    if (!verb_name_is_valid(queue))
        return;
    snprintf(path, sizeof path, "/v1/queues/" STR_FMT, STR_ARG(queue));
    struct client_request call = { .method = "GET", .path = path, .quiet = true };
    if (client_call(client, &call, &a) || !str_eq(json_text_at(a.doc.root, "state"), S("paused")))
        return;
    bool has_end = json_time_at(a.doc.root, "paused.until", &until_ms);
    if (has_end && json_time_at(task, "next_execution", &due_ms) && due_ms >= until_ms)
        return;
    time_text_utc(has_end ? until_ms : 0, utc);
    buf_printf(out, "Its queue is paused, so it waits until %s%s'belfry queue resume " STR_FMT "%s'\n",
               has_end ? utc : "", has_end ? ", or " : "", STR_ARG(queue), cli->where);
}

void task_print_warnings(struct cli *cli, struct client *client, const json_t *task)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf text;
    struct str id = str_utf8_cut(json_text_at(task, "id"), UUID_TEXT);
    char path[VERB_PATH];
    const json_t *within = json_at(task, "expect.within_seconds"), *warning;
    size_t i;
    buf_init(&text, TASK_TEXT_MAX);
    if (!within || json_is_null(within))
        return;
    snprintf(path, sizeof path, "/v1/tasks/" STR_FMT "/upcoming?count=1", STR_ARG(id));
    if (client_call(client, &(struct client_request){ .method = "GET", .path = path, .quiet = true }, &a))
        return;
    json_array_foreach (json_at(a.doc.root, "warnings"), i, warning) {
        buf_printf(&text, "belfry %s: ", cli->command->name);
        table_plain_text(json_text_at(warning, "field"), SIZE_MAX, &text);
        buf_char(&text, ' ');
        table_plain_text(json_text_at(warning, "message"), SIZE_MAX, &text);
        buf_char(&text, '\n');
    }
    fputs(buf_cstr(&text), cli->err);
}

bool outermost_run_id(struct client *client, const json_t *run, char ret_id[UUID_TEXT + 1])
{
    enum { DEPTH_MAX = 100 };
    char path[VERB_PATH];
    struct str id = json_text_at(run, "id"), outer = json_text_at(run, "run");
    snprintf(ret_id, UUID_TEXT + 1, STR_FMT, STR_ARG(str_utf8_cut(outer.n ? outer : id, UUID_TEXT)));
    for (int i = 0; outer.n && i < DEPTH_MAX; i++) {
        cleanup_with(client_answer_release) struct client_answer a = { 0 };
        snprintf(path, sizeof path, "/v1/workflows/%s", ret_id);
        if (client_call(client, &(struct client_request){ .method = "GET", .path = path, .quiet = true }, &a))
            break;
        outer = json_text_at(a.doc.root, "run");
        if (outer.n)
            snprintf(ret_id, UUID_TEXT + 1, STR_FMT, STR_ARG(str_utf8_cut(outer, UUID_TEXT)));
    }
    return json_text_at(run, "run").n;
}

void paused_run_line(const struct cli *cli, struct client *client, const json_t *task, struct buf *out)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct str id = str_utf8_cut(json_text_at(task, "id"), UUID_TEXT);
    char path[VERB_PATH], resumed[UUID_TEXT + 1];
    bool is_open_run =
        str_eq(json_text_at(task, "target_type"), S("WORKFLOW")) && str_eq(json_text_at(task, "status"), S("RUNNING"));
    snprintf(path, sizeof path, "/v1/workflows/" STR_FMT, STR_ARG(id));
    struct client_request call = { .method = "GET", .path = path, .quiet = true };
    if (!is_open_run || client_call(client, &call, &a) || !json_is_true(json_at(a.doc.root, "paused")))
        return;
    bool is_below = outermost_run_id(client, a.doc.root, resumed);
    buf_printf(out,
               "The run is paused%s: running steps finish, and no step starts. 'belfry resume %s%s' lets %s go on\n",
               is_below ? " with the run that it is a step of" : "", resumed, cli->where, is_below ? "them" : "it");
}

void execution_header(struct table *t)
{
    table_row(t, EXECUTION_COLUMNS, "WHEN", "ATTEMPT", "STATUS", "HTTP", "DELAY", "TOOK", "ERROR");
}

static void execution_number_text(int64_t number, char out[24])
{
    if (number > 0)
        snprintf(out, 24, "%lld", (long long)number);
    else
        snprintf(out, 24, "-");
}

void execution_duration_text(const json_t *x, char out[TIME_TEXT])
{
    int64_t from_ms, to_ms;
    if (json_time_at(x, "started_at", &from_ms) && json_time_at(x, "completed_at", &to_ms))
        time_text_took(to_ms - from_ms, out);
    else
        snprintf(out, TIME_TEXT, "-");
}

enum { DELAY_TEXT = TIME_TEXT + 16 };

static void execution_delay_text(const json_t *x, char out[DELAY_TEXT])
{
    int64_t delay_ms = json_i64_at(x, "delay_ms", -1);
    struct str cause = json_text_at(x, "delay_cause");
    char took[TIME_TEXT] = "-";
    if (delay_ms >= 0)
        time_text_took(delay_ms, took);
    snprintf(out, DELAY_TEXT, "%s%s%.*s", took, cause.n ? " " : "", (int)min_of(cause.n, (size_t)12), cause.p);
}

void execution_row(struct table *t, const json_t *x)
{
    char when[TIME_TEXT] = "-", attempt[24], http[24], delay[DELAY_TEXT], took[TIME_TEXT];
    struct str status = json_text_at(x, "status");
    int64_t at_ms;
    if (json_time_at(x, "started_at", &at_ms) || json_time_at(x, "scheduled_for", &at_ms))
        time_text_utc(at_ms, when);
    execution_number_text(json_i64_at(x, "attempt_number", 0), attempt);
    execution_number_text(json_i64_at(x, "http_status", 0), http);
    execution_delay_text(x, delay);
    execution_duration_text(x, took);
    table_row(t, EXECUTION_COLUMNS, when, attempt, table_text(t, status.n ? status : S("-")), http, delay, took,
              table_text(t, json_text_at(x, "error_message")));
}
