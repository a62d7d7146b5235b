/* belfry add - creates a task. */
#include "base/duration.h"
#include "base/rfc3339.h"
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/task_body.h"
#include "cli/task_parents.h"
#include "cli/task_view.h"

enum { VERSION_MAX = 1000000000 };

/* clang-format off */
static const struct option options[] = {
    { .flag = "noop", .type = OPTION_FLAG, .help = "call nothing; for trying things out" },
    { .flag = "message", .type = OPTION_TEXT, .value = "BROKER",
      .help = "publish a message instead of calling a URL: the name of a broker in the server's settings, or redis://…, rediss://…, amqp://…, amqps://…, kafka://…" },
    { .flag = "destination", .type = OPTION_TEXT, .value = "NAME",
      .help = "with --message: where to publish: a stream or list:NAME (Redis), an exchange or queue:NAME (RabbitMQ), a topic (Kafka)" },
    { .flag = "message-key", .type = OPTION_TEXT, .value = "KEY", .help = "with --message: the routing key (RabbitMQ) or the key of the record (Kafka)" },
    { .flag = "target", .type = OPTION_CHOICE, .value = "KIND", .choices = "HTTP_CALLBACK|WORKER|NOOP|WORKFLOW",
      .help = "kind of target; WORKER: your own programs lease the task from its --queue (docs/WORKERS.md), and -d is its payload; WORKFLOW: see --workflow" },
    { .flag = "workflow", .type = OPTION_TEXT, .value = "NAME",
      .help = "run this stored workflow instead of calling a URL ('belfry workflow apply' stores one)" },
    { .flag = "version", .type = OPTION_INT, .value = "N", .min = 1, .max = VERSION_MAX,
      .help = "with --workflow: this version; default: the latest at the start of each run" },
    { .flag = "input", .type = OPTION_TEXT, .value = "JSON", .help = "with --workflow: the input of each run, as JSON; @FILE reads it from a file, - from stdin" },
    { .flag = "deadline", .type = OPTION_DURATION, .value = "DURATION", .min = 1, .max = DURATION_MAX_MS,
      .help = "with --workflow: stop a run this long after its start; it is then FAILED" },
    { .flag = "quiet", .letter = 'q', .type = OPTION_FLAG, .help = "print only the id" },
};
/* clang-format on */

static const char detail[] =
    "Without --at, --in, --every or --cron the task fires now. -X and -H mean the same as in curl. So does -d,\n"
    "but a JSON object or array is sent as it is written, with Content-Type application/json, unless -H gives another type.\n"
    "Data that begins like JSON ('{', or '[' and a value) and is not is refused, unless -H gives its type.\n"
    "--set target_config.body=@FILE sends a text file with its line breaks, as text/plain.\n"
    "Times are RFC 3339 with an offset. Status 2xx is success. Status 5xx, 408, 425 and 429, a timeout and a failed connection are\n"
    "retried. After any other answer, the task is FAILED at once. --dedupe-key with --dedupe-action replace is a debounce: of\n"
    "several tasks with the key, one runs, with the last payload, when no further one has come for the time of --in.\n"
    "\n"
    "Examples:\n"
    "  belfry add --in 10m https://example.com/remind -d '{\"user\": 42}'\n"
    "  belfry add --at 2026-12-24T18:00:00+01:00 --name 'Merry Christmas' https://example.com/greet\n"
    "  belfry add --cron '0 8 * * MON-FRI' --tz Europe/Berlin --name report https://example.com/report\n"
    "  belfry add --every 5m -X GET -H 'X-Team: ops' https://example.com/ping\n"
    "  belfry add --in 5s https://example.com/upload -d @order.json\n"
    "  belfry add --cron '@hourly' --overlap queue-one --expires 30m https://example.com/sync\n"
    "  belfry add --in 5m --dedupe-key reindex --dedupe-action replace https://example.com/reindex\n"
    "  belfry add --concurrency-key customer-42 --dedupe-key invoice-7 https://example.com/invoice\n"
    "  belfry add --in 1h --message orders --destination reminders --message-key 42 -d '{\"order\": 42}'\n"
    "  belfry add --after 019c3f2e-7a40-7000-8000-000000000001 https://example.com/load\n"
    "  belfry add --after nightly-load:must-finish https://example.com/report\n"
    "  belfry add --cron '0 22 * * *' --tz Europe/Berlin --name nightly --workflow etl --input '{\"full\": true}'\n"
    "  belfry add --target WORKER --queue video -d '{\"file\": \"a.mov\"}'\n"
    "  belfry add --every 1h --max-attempts 3 --set 'metadata={\"team\": \"a\"}' https://example.com/sync\n"
    "  id=$(belfry add -q --in 1h --noop) && belfry show $id\n";

enum { MESSAGE_TEXT_MAX = 8192 };

enum { TARGETS_HTTP, TARGETS_WORKER, TARGETS_NOOP, TARGETS_WORKFLOW };

static bool add_target_is(const struct options *o, int which)
{
    return option_given(o, "target") && option_get(o, "target")->number == which;
}

static bool add_is_noop(const struct options *o)
{
    return option_get(o, "noop")->number || add_target_is(o, TARGETS_NOOP);
}

/* Whether --set says what to do: a target, or a payload with a webhook_url. */
static bool add_sets_target(const struct options *o)
{
    return task_sets_begin_with(o, "target_") || task_sets_begin_with(o, "payload");
}

static enum err add_check_workflow(const struct options *o, struct error *e)
{
    static const char *const flags[] = { "version", "input", "deadline" };
    bool given = option_given(o, "workflow"), is_target = add_target_is(o, TARGETS_WORKFLOW);
    char field[32];
    if (given && option_given(o, "target") && !is_target)
        return error_field(e, "--workflow", "is for --target WORKFLOW");
    if (given && (o->word_count || option_given(o, "message") || option_get(o, "noop")->number))
        return error_field(e, "--workflow", "runs a workflow, so it takes no URL, no --message and no --noop");
    if (is_target && !given && !add_sets_target(o))
        return error_field(e, "--target", "WORKFLOW needs --workflow NAME");
    for (size_t i = 0; !given && i < array_count(flags); i++) {
        snprintf(field, sizeof field, "--%s", flags[i]);
        if (option_given(o, flags[i]))
            return error_field(e, field, "requires --workflow");
    }
    return ERR_OK;
}

static enum err add_read_url(const struct options *o, struct str *ret, struct error *e)
{
    bool noop = add_is_noop(o), message = option_given(o, "message"), worker = add_target_is(o, TARGETS_WORKER);
    *ret = S("");
    if (option_given(o, "workflow") || add_target_is(o, TARGETS_WORKFLOW))
        return ERR_OK;
    if (worker && (option_get(o, "noop")->number || message || o->word_count))
        return error_field(e, "--target",
                           "WORKER is leased by your programs, so it takes no URL, no --message and no --noop");
    if (worker)
        return ERR_OK;
    if (noop && (o->word_count || message))
        return error_field(e, "--noop", "calls nothing, so it takes no URL and no --message");
    if (message && o->word_count)
        return error_field(e, "--message", "publishes to a broker, so it takes no URL");
    if (!noop && !message && !o->word_count && !add_sets_target(o))
        return error_set(e, ERR_INVALID, "a URL to call is missing (--noop: call nothing)");
    if (o->word_count > 1)
        return error_set(e, ERR_INVALID, "takes one URL, but got another: '%s'", o->words[1].p);
    *ret = noop || message || !o->word_count ? S("") : o->words[0];
    return ERR_OK;
}

static enum err add_check_message(const struct options *o, struct error *e)
{
    bool message = option_given(o, "message");
    if (message && !option_given(o, "destination"))
        return error_field(e, "--destination", "is missing: name the stream, exchange, queue or topic at the broker");
    if (message && option_given(o, "method"))
        return error_field(e, "--method", "is for HTTP calls, not for messages");
    for (size_t i = 0; !message && i < 2; i++) {
        static const char *const flags[] = { "destination", "message-key" };
        char field[32];
        snprintf(field, sizeof field, "--%s", flags[i]);
        if (option_given(o, flags[i]))
            return error_field(e, field, "requires --message");
    }
    return ERR_OK;
}

/* Writes the members of target_config that only a message has, as a JSON object; target_write adds headers and body. */
static void add_write_message(const struct options *o, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_str(&w, "broker", option_get(o, "message")->text);
    jw_kv_str(&w, "destination", option_get(o, "destination")->text);
    if (option_given(o, "message-key"))
        jw_kv_str(&w, "key", option_get(o, "message-key")->text);
    jw_object_end(&w);
}

/* Writes target_type and target_config of a run. */
static enum err add_write_workflow(const struct options *o, const struct target *t, struct jw *w, struct error *e)
{
    if (t->given)
        return error_field(e, "--workflow", "makes no HTTP call, so it takes no -X, -H or -d; its data is --input");
    jw_kv_cstr(w, "target_type", "WORKFLOW");
    if (!option_given(o, "workflow"))
        return ERR_OK; /* --set has it */
    jw_key(w, "target_config");
    jw_object(w);
    jw_kv_str(w, "workflow", option_get(o, "workflow")->text);
    if (option_given(o, "version"))
        jw_kv_i64(w, "version", option_get(o, "version")->number);
    if (option_json_write(o, "input", w, e))
        return e->code;
    if (option_given(o, "deadline"))
        jw_kv_seconds(w, "deadline_seconds", option_get(o, "deadline")->number);
    jw_object_end(w);
    return ERR_OK;
}

/* Writes target_type and target_config, or the payload of a WORKER task. */
static enum err add_write_target(const struct options *o, struct target *t, struct jw *w, struct error *e)
{
    if (option_given(o, "workflow") || add_target_is(o, TARGETS_WORKFLOW))
        return add_write_workflow(o, t, w, e);
    cleanup_with(buf_release) struct buf message;
    bool noop = add_is_noop(o), worker = add_target_is(o, TARGETS_WORKER), sends = option_given(o, "message");
    buf_init(&message, MESSAGE_TEXT_MAX);
    if (noop && t->given)
        return error_field(e, "--noop", "calls nothing, so it takes no -X, -H or -d");
    if (worker && (option_given(o, "method") || option_given(o, "header")))
        return error_field(e, "--target", "WORKER makes no HTTP call, so it takes no -X or -H; -d is its payload");
    if (sends)
        add_write_message(o, &message);
    if (noop || worker || sends || t->given || !add_sets_target(o))
        jw_kv_cstr(w, "target_type", worker ? "WORKER" : noop ? "NOOP" : sends ? "QUEUE_MESSAGE" : "HTTP_CALLBACK");
    if (worker && t->body.n) {
        jw_key(w, "payload");
        jw_raw(w, buf_str(&t->body));
    }
    t->as_curl = !worker && !sends;
    if (target_check_data(t, e))
        return e->code;
    return !worker && (t->given || sends) ? target_write(o, t, buf_str(&message), w, e) : ERR_OK;
}

static enum err add_write_body(const struct options *o, struct buf *out, struct error *e)
{
    struct str url;
    struct jw w;
    cleanup_with(target_release) struct target t = { 0 };
    cleanup_with(buf_release) struct buf given;
    buf_init(&given, TASK_BODY_MAX);
    if (add_check_workflow(o, e) || add_read_url(o, &url, e) || add_check_message(o, e) || target_read(o, url, &t, e) ||
        task_fields_write(o, &given, e))
        return e->code;
    jw_init(&w, out);
    jw_object(&w);
    task_members_copy(buf_str(&given), &w);
    if (add_write_target(o, &t, &w, e))
        return e->code;
    jw_object_end(&w);
    if (task_sets_apply(o, NULL, out, e) || target_type_apply(&t, NULL, out, e))
        return e->code;
    return out->full ? error_set(e, ERR_LIMIT, "the task is larger than %d bytes", TASK_BODY_MAX * 2) : ERR_OK;
}

/* What became of the task that had the dedupe key. */
static void add_write_deduplicated(const struct options *o, struct buf *out)
{
    static const char *const done[] = { "; it was not changed", "; it was moved to the new time",
                                        "; its payload was replaced, and it was moved to the new time" };
    bool is_known = option_given(o, "dedupe-action") || !task_sets_begin_with(o, "dedupe_action");
    int64_t action = option_given(o, "dedupe-action") ? option_get(o, "dedupe-action")->number : 0;
    buf_printf(out, "The task existed already, with this dedupe key%s\n", is_known ? done[action] : "");
}

static void add_print_task(struct cli *cli, const struct options *o, struct client *client,
                           const struct client_answer *a)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, TASK_BODY_MAX * 2);
    if (option_get(o, "json")->number) {
        client_json_line(&out, buf_str(&a->body));
    } else {
        char id[CELL_TEXT];
        bool quiet = option_get(o, "quiet")->number;
        buf_printf(&out, "%s\n", table_cell(json_text_at(a->doc.root, "id"), id));
        if (!quiet && json_is_true(json_at(a->doc.root, "deduplicated")))
            add_write_deduplicated(o, &out);
        if (!quiet) {
            next_fire_lines(cli, client, a->doc.root, &out);
            paused_queue_line(cli, client, a->doc.root, &out);
        }
    }
    cli_print(cli, &out);
}

/* ---- warning about a crowded minute ---- */

enum { MINUTE_MS = 60000, AROUND = 5, CROWDED_MIN = 20, CROWDED_TIMES = 4 };

struct minute_counts {
    int64_t there;      /* fires in the minute of the new task, including its own */
    int64_t others_sum; /* fires in the minutes around it */
    int64_t quietest, quietest_ms;
};

static struct minute_counts add_count_minutes(const json_t *forecast, int64_t minute_ms)
{
    struct minute_counts m = { .quietest = INT64_MAX };
    for (int64_t at_ms = minute_ms - AROUND * MINUTE_MS; at_ms <= minute_ms + AROUND * MINUTE_MS; at_ms += MINUTE_MS) {
        int64_t fires = 0, found_ms;
        size_t i;
        const json_t *minute;
        json_array_foreach (json_at(forecast, "minutes"), i, minute)
            if (json_time_at(minute, "at", &found_ms) && found_ms == at_ms)
                fires = json_i64_at(minute, "fires", 0);
        if (at_ms == minute_ms)
            m.there = fires;
        else
            m.others_sum += fires;
        if (at_ms != minute_ms && fires < m.quietest) {
            m.quietest = fires;
            m.quietest_ms = at_ms;
        }
    }
    return m;
}

/* Many users write '0 8 * * *'. If many tasks fire in the same minute, prints a warning that names a quieter one
 * nearby. If the server does not answer, prints nothing. */
static void add_warn_crowded_minute(struct cli *cli, struct client *client, const json_t *task)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf path = { 0 };
    char from[RFC3339_TEXT + 1], to[RFC3339_TEXT + 1], quiet[RFC3339_TEXT + 1];
    int64_t next_ms;
    if (!json_time_at(task, "next_execution", &next_ms))
        return;
    int64_t minute_ms = next_ms - next_ms % MINUTE_MS;
    rfc3339_format(minute_ms - AROUND * MINUTE_MS, from);
    rfc3339_format(minute_ms + (AROUND + 1) * MINUTE_MS, to);
    buf_init(&path, 256);
    buf_text(&path, "/v1/upcoming?group_by=minute");
    query_add(&path, "from", str_from(from));
    query_add(&path, "to", str_from(to));
    if (client_call(client, &(struct client_request){ .method = "GET", .path = buf_cstr(&path), .quiet = true }, &a))
        return;
    struct minute_counts m = add_count_minutes(a.doc.root, minute_ms);
    if (m.there < CROWDED_MIN || m.there * 2 * AROUND < m.others_sum * CROWDED_TIMES)
        return;
    rfc3339_format(m.quietest_ms, quiet);
    fprintf(cli->err,
            "belfry add: %lld tasks fire in that minute, but only %lld at %.16sZ; use H as the minute, or --spread\n",
            (long long)m.there, (long long)m.quietest, quiet);
}

/* Commands that are given a name refuse it if it fits several tasks. If the server does not answer, prints nothing. */
static void add_note_same_name(struct cli *cli, struct client *client, const json_t *task)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    cleanup_with(buf_release) struct buf path;
    struct str name = json_text_at(task, "name");
    buf_init(&path, TASK_BODY_MAX);
    buf_text(&path, "/v1/tasks?limit=2");
    query_add(&path, "name", name);
    struct client_request call = { .method = "GET", .path = buf_cstr(&path), .quiet = true };
    if (!name.n || name.p[name.n - 1] == '*' || client_call(client, &call, &a) ||
        json_count_at(a.doc.root, "tasks") < 2)
        return;
    fprintf(cli->err,
            "belfry add: note: another task has that name already; commands that are given the name refuse it, "
            "so give them the id\n");
}

static enum exit_code command_add_run(struct cli *cli, const struct options *o)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, TASK_BODY_MAX * 2);
    struct error e;
    if (option_get(o, "quiet")->number && option_get(o, "json")->number) {
        (void)error_field(&e, "--quiet", "and --json exclude each other; give only one of them");
        return cli_fail(cli, "add", &e, EXIT_USAGE);
    }
    if (add_write_body(o, &body, &e))
        return cli_fail(cli, "add", &e, EXIT_USAGE);
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = task_parents_resolve(client, o, &body);
    struct client_request call = {
        .method = "POST", .path = "/v1/tasks", .body = buf_str(&body), .idempotency_key = task_idempotency_key(o)
    };
    if (code == EXIT_DONE)
        code = client_call(client, &call, &a);
    if (code == EXIT_DONE)
        add_print_task(cli, o, client, &a);
    if (code == EXIT_DONE && option_given(o, "cron") && !option_get(o, "quiet")->number)
        add_warn_crowded_minute(cli, client, a.doc.root);
    if (code == EXIT_DONE && option_given(o, "name") && !option_get(o, "quiet")->number)
        add_note_same_name(cli, client, a.doc.root);
    if (code == EXIT_DONE && !option_get(o, "quiet")->number)
        task_print_warnings(cli, client, a.doc.root);
    return code;
}

const struct command command_add = {
    .name = "add",
    .words = "URL",
    .summary = "create a task: call a URL later, or repeatedly",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .shared_options = task_options,
    .shared_count = TASK_OPTION_COUNT,
    .run = command_add_run,
};
