/* belfry top - shows the state of the server on one screen, updated each second. */
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/task_view.h"
#include "cli/time_text.h"

enum { OUT_MAX = 1 << 20, COLUMNS = 4, RECENT_S = 300 };
enum { RUNNING_SHOWN = 8, FAILED_SHOWN = 5, BREAKERS_SHOWN = 5 };

/* Counters at one time; two of them give rates. */
struct top_counters {
    int64_t at_us, scheduled, executed, failed, retried;
};

struct top_screen {
    struct cli *cli;
    struct client *client;
    struct buf out;
    struct top_counters before;
    bool has_before;
};

/* ---- parts of the screen ---- */

static double top_rate(int64_t now, int64_t before, int64_t us)
{
    return us > 0 ? (double)(now - before) * 1e6 / (double)us : 0;
}

static void top_write_head(struct top_screen *s, const json_t *status)
{
    char time[CELL_TEXT], version[CELL_TEXT], name[CELL_TEXT];
    buf_printf(&s->out, "Belfry %s on %s   %s\n", table_cell(json_text_at(status, "version"), version),
               table_cell(json_text_at(status, "node.name"), name), table_cell(json_text_at(status, "time"), time));
    buf_printf(&s->out, "Running %lld of %lld   queued %lld   armed %lld   due and waiting %lld\n",
               (long long)json_i64_at(status, "node.running", 0), (long long)json_i64_at(status, "node.slots", 0),
               (long long)json_i64_at(status, "node.queued", 0), (long long)json_i64_at(status, "node.armed", 0),
               (long long)json_i64_at(status, "due", 0));
}

/* What an operator has to mend. */
static void top_write_warnings(struct top_screen *s, const json_t *status)
{
    struct str reload = json_text_at(status, "tls.reload_error");
    size_t links = json_count_at(status, "tls.unverified_links");
    if (json_is_true(json_at(status, "tls.plaintext")))
        buf_text(&s->out, "Warning: the API speaks plain HTTP on an address that other machines can reach\n");
    if (json_is_false(json_at(status, "secrets.encrypted")))
        buf_text(&s->out, "Warning: secret headers are not encrypted in the store: secrets.key_file is not set\n");
    if (reload.n) {
        buf_text(&s->out, "Warning: the certificate could not be read again: ");
        table_plain_text(reload, SIZE_MAX, &s->out);
        buf_char(&s->out, '\n');
    }
    for (size_t i = 0; i < links; i++) {
        char name[CELL_TEXT];
        const json_t *link = json_array_get(json_at(status, "tls.unverified_links"), i);
        buf_printf(&s->out, "%s%s%s", i ? ", " : "Warning: certificates are not checked on the link to: ",
                   table_cell(json_text_at(link, ""), name), i + 1 == links ? "\n" : "");
    }
}

/* Names the circuit breakers that are not closed. A key without queues:read sees none. */
static void top_write_breakers(struct top_screen *s)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = "/v1/breakers", .quiet = true };
    size_t n = client_call(s->client, &call, &a) ? 0 : json_count_at(a.doc.root, "breakers");
    for (size_t i = 0; i < n && i < BREAKERS_SHOWN; i++) {
        char host[CELL_TEXT], state[CELL_TEXT];
        const json_t *b = json_array_get(json_at(a.doc.root, "breakers"), i);
        struct str name = json_text_at(b, "host");
        buf_printf(&s->out, "%s%s %s", i ? ", " : "Circuit breakers: ", table_cell(name.n ? name : S("*"), host),
                   table_cell(json_text_at(b, "state"), state));
    }
    if (n)
        buf_printf(&s->out, "%s ('belfry breakers list%s')\n", n > BREAKERS_SHOWN ? " and others" : "", s->cli->where);
}

static void top_write_counts(struct top_screen *s, const json_t *status)
{
    static const char *const states[] = { "SCHEDULED", "BLOCKED", "PAUSED", "RUNNING", "FAILED" };
    for (size_t i = 0; i < array_count(states); i++) {
        char path[64];
        snprintf(path, sizeof path, "tasks.%s", states[i]);
        buf_printf(&s->out, "%s%s %lld", i ? "   " : "", states[i], (long long)json_i64_at(status, path, 0));
    }
    buf_char(&s->out, '\n');
}

static void top_write_rates(struct top_screen *s, const json_t *status)
{
    struct top_counters now = {
        .at_us = clock_steady_ns(s->cli->clock) / 1000,
        .scheduled = json_i64_at(status, "totals.scheduled", 0),
        .executed = json_i64_at(status, "totals.executed", 0),
        .failed = json_i64_at(status, "totals.failed", 0),
        .retried = json_i64_at(status, "totals.retried", 0),
    };
    const struct top_counters *b = &s->before;
    int64_t us = now.at_us - b->at_us;
    if (s->has_before)
        buf_printf(&s->out, "A second: %.0f accepted, %.0f attempts, %.1f retried, %.1f failed\n",
                   top_rate(now.scheduled, b->scheduled, us), top_rate(now.executed, b->executed, us),
                   top_rate(now.retried, b->retried, us), top_rate(now.failed, b->failed, us));
    else
        buf_printf(&s->out, "Since its start: %lld accepted, %lld attempts, %lld retried, %lld failed\n",
                   (long long)now.scheduled, (long long)now.executed, (long long)now.retried, (long long)now.failed);
    s->before = now;
    s->has_before = true;
}

/* The last five minutes of all tenants and nodes, from GET /v1/stats. An older server has none. */
static enum exit_code top_write_recent(struct top_screen *s)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = "/v1/stats?tenant=*&step=5m", .may_be_missing = true };
    enum exit_code code = client_call(s->client, &call, &a);
    size_t n = code ? 0 : json_count_at(a.doc.root, "points");
    const json_t *last = n ? json_array_get(json_at(a.doc.root, "points"), n - 1) : NULL;
    int64_t completed = json_i64_at(last, "completed", 0);
    if (last)
        buf_printf(
            &s->out,
            "Last 5 min: %lld completed (%.1f a second), %lld failed, delay p50 %.3f s, p99 %.3f s, backlog %lld\n",
            (long long)completed, (double)completed / RECENT_S, (long long)json_i64_at(last, "failed", 0),
            json_number_value(json_at(last, "delay_seconds.p50")),
            json_number_value(json_at(last, "delay_seconds.p99")), (long long)json_i64_at(last, "backlog", 0));
    buf_char(&s->out, '\n');
    return code;
}

/* Writes a short list with its title; nothing if it is empty. */
static enum exit_code top_write_list(struct top_screen *s, const char *title, const char *path, const char *moment)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(table_release) struct table t;
    /* the operator's listener has no tasks */
    struct client_request call = { .method = "GET", .path = path, .may_be_missing = true };
    enum exit_code code = client_call(s->client, &call, &a);
    table_init(&t, COLUMNS);
    t.fit = cli_columns(s->cli);
    table_keep(&t, 0);
    size_t n = code ? 0 : json_count_at(a.doc.root, "tasks");
    for (size_t i = 0; i < n; i++) {
        char when[CELL_TEXT];
        const json_t *task = json_array_get(json_at(a.doc.root, "tasks"), i);
        moment_text(task, moment, clock_wall_ms(s->cli->clock), when);
        table_row(&t, COLUMNS, table_text(&t, json_text_at(task, "id")), table_text(&t, json_text_at(task, "name")),
                  when, task_cell(&t, target_text, task));
    }
    if (n) {
        buf_printf(&s->out, "%s\n", title);
        table_print(&t, &s->out);
        buf_char(&s->out, '\n');
    }
    return code;
}

static enum exit_code top_draw(struct top_screen *s)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = "GET", .path = "/v1/scheduler/status" };
    enum exit_code code = client_call(s->client, &call, &a);
    if (code)
        return code;
    char running[96], failed[96];
    snprintf(running, sizeof running, "/v1/tasks?status=RUNNING&limit=%d", RUNNING_SHOWN);
    snprintf(failed, sizeof failed, "/v1/dlq?limit=%d", FAILED_SHOWN);
    buf_reset(&s->out);
    top_write_head(s, a.doc.root);
    top_write_warnings(s, a.doc.root);
    top_write_breakers(s);
    top_write_counts(s, a.doc.root);
    top_write_rates(s, a.doc.root);
    code = top_write_recent(s);
    code = code ? code : top_write_list(s, "Running", running, "started_at");
    return code ? code : top_write_list(s, "Latest failed tasks", failed, "completed_at");
}

/* ---- the commands ---- */

static enum exit_code top_loop(struct top_screen *s, int64_t every_ms)
{
    struct screen screen;
    enum exit_code code;
    screen_open(&screen, s->cli);
    do
        code = top_draw(s);
    while (code == EXIT_DONE && screen_draw(&screen, &s->out) && !screen_wait(&screen, every_ms));
    screen_close(&screen);
    return code;
}

static enum exit_code command_top_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    struct error e;
    if (option_given(o, "every") && option_get(o, "once")->number) {
        (void)error_field(&e, "--every", "and --once exclude each other; give only one of them");
        return cli_fail(cli, "top", &e, EXIT_USAGE);
    }
    enum exit_code code = client_open(cli, o, &client);
    if (code)
        return code;
    struct top_screen s = { .cli = cli, .client = client };
    buf_init(&s.out, OUT_MAX);
    if (option_get(o, "once")->number || !cli->out_is_terminal) {
        code = top_draw(&s);
        cli_print(cli, &s.out);
    } else {
        code = top_loop(&s, option_get(o, "every")->number);
    }
    buf_release(&s.out);
    return code;
}

static enum exit_code command_status_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    enum exit_code code = client_open(cli, o, &client);
    if (code)
        return code;
    struct top_screen s = { .cli = cli, .client = client };
    struct client_request call = { .method = "GET", .path = "/v1/scheduler/status" };
    buf_init(&s.out, OUT_MAX);
    if (option_get(o, "json")->number) {
        code = client_call(client, &call, &a);
        if (code == EXIT_DONE)
            client_json_line(&s.out, buf_str(&a.body));
    } else {
        code = top_draw(&s);
    }
    cli_print(cli, &s.out);
    buf_release(&s.out);
    return code;
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "every", .type = OPTION_DURATION, .value = "DURATION", .preset = "1s", .min = 100, .max = 3600000,
      .help = "interval of updates" },
    { .flag = "once", .type = OPTION_FLAG, .help = "print once and exit; default if the output is not a terminal" },
};
/* clang-format on */

const struct command command_top = {
    .name = "top",
    .words = "",
    .summary = "watch the state of the server",
    .detail =
        "'Last 5 min' counts all nodes and tenants (GET /v1/stats), the other rates are of the node that answers.\n"
        "\n"
        "Examples:\n"
        "  belfry top\n"
        "  belfry top --every 5s\n"
        "  belfry top --once\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_top_run,
};

const struct command command_status = {
    .name = "status",
    .words = "",
    .summary = "print the state of the server once",
    .detail =
        "'belfry top' prints the same and updates it. The exit code is 3 if the server cannot be reached. Probes of load balancers\n"
        "and orchestrators use GET /health (the process answers) and GET /ready (the store and the roles are up), without a key.\n"
        "\n"
        "Examples:\n"
        "  belfry status\n"
        "  belfry status --json | jq .tasks\n",
    .run = command_status_run,
};
