/* belfry queue - shows queues, sets their limits, pauses and resumes them. */
#include "base/duration.h"
#include "cli/command/commands.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/time_text.h"
#include "cli/verbs.h"

enum { COLUMNS = 8, BODY_MAX = 64 * 1024 };
#define COLLECTION "/v1/queues"

/* clang-format off */
static const struct option options[] = {
    { .flag = "rate", .type = OPTION_TEXT, .value = "N", .only = "set",
      .help = "N dispatches a second on average, such as 10 or 0.5; --burst says how many of them may start at once; 0: no limit" },
    { .flag = "burst", .type = OPTION_INT, .value = "N", .min = 1, .max = 1000000, .only = "set",
      .help = "with --rate: up to N dispatches at once after an idle time; default: those of one second, at least 1; 1: evenly spaced, never more than the rate" },
    { .flag = "concurrent", .type = OPTION_INT, .value = "N", .min = 0, .max = 1000000,
      .only = "set", .help = "at most N running tasks; 0: no limit" },
    { .flag = "weight", .type = OPTION_INT, .value = "N", .min = 1, .max = 1000,
      .only = "set", .help = "share of this queue among all queues of the tenant, if many tasks are due; default: 100" },
    { .flag = "reason", .type = OPTION_TEXT, .value = "TEXT", .only = "pause", .help = "the reason" },
    { .flag = "for", .type = OPTION_DURATION, .value = "DURATION", .min = 1000, .max = DURATION_MAX_MS, .only = "pause", .help = "for this duration" },
    { .flag = "until", .type = OPTION_TIME, .value = "TIME", .only = "pause", .help = "until this time" },
};
/* clang-format on */

static const char detail[] = "  list            list all queues that have settings or tasks\n"
                             "  show NAME       show a queue\n"
                             "  set NAME        change the limits of a queue; only the given options change\n"
                             "  pause NAME      stop dispatching from a queue; running tasks continue\n"
                             "  resume NAME     resume dispatching, slowly at first\n"
                             "  rm NAME         remove the settings of a queue; its tasks run without limits\n"
                             "\n"
                             "Examples:\n"
                             "  belfry queue set mail --rate 10 --burst 50 --concurrent 4\n"
                             "  belfry queue pause mail --reason 'provider is down' --for 2h\n"
                             "  belfry queue list\n";

static const struct named_fact facts[] = {
    { "Name", "name", FACT_TEXT },
    { "State", "state", FACT_TEXT },
    { "Paused by", "paused.by", FACT_TEXT },
    { "because", "paused.reason", FACT_TEXT },
    { "since", "paused.since", FACT_MOMENT },
    { "until", "paused.until", FACT_MOMENT },
    { "Resumed", "resumed_at", FACT_MOMENT },
    { "Due", "due", FACT_NUMBER },
    { "Running", "running", FACT_NUMBER },
    { "Rate a second", "max_dispatches_per_second", FACT_NUMBER },
    { "Burst", "max_burst", FACT_NUMBER },
    { "Concurrent", "max_concurrent", FACT_NUMBER },
    { "Weight", "weight", FACT_NUMBER },
    { "Version", "version", FACT_NUMBER },
    { "Updated", "updated_at", FACT_MOMENT },
};

static void queue_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "STATE", "DUE", "RUNNING", "RATE/S", "CONCURRENT", "WEIGHT", "PAUSED");
}

/* Writes "by ann until 2026-02-10 08:00:00Z: disk full". */
static void queue_pause_text(const json_t *queue, struct buf *out)
{
    char utc[TIME_TEXT];
    int64_t until_ms;
    struct str by = json_text_at(queue, "paused.by"), reason = json_text_at(queue, "paused.reason");
    if (by.n)
        buf_printf(out, "by " STR_FMT, STR_ARG(by));
    if (json_time_at(queue, "paused.until", &until_ms)) {
        time_text_utc(until_ms, utc);
        buf_printf(out, " until %s", utc);
    }
    if (reason.n)
        buf_printf(out, ": " STR_FMT, STR_ARG(reason));
}

static void queue_add_row(struct rows *r, const json_t *queue)
{
    char due[32], running[32], rate[32], concurrent[32], weight[32];
    number_text(queue, "due", due);
    number_text(queue, "running", running);
    number_text(queue, "max_dispatches_per_second", rate);
    number_text(queue, "max_concurrent", concurrent);
    number_text(queue, "weight", weight);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(queue, "name")),
              table_text(&r->table, json_text_at(queue, "state")), due, running, rate, concurrent, weight,
              task_cell(&r->table, queue_pause_text, queue));
}

static enum exit_code queue_list(struct verb_work *w)
{
    struct pages p = { .client = w->client, .path = COLLECTION, .member = "queues", .limit = INT64_MAX };
    struct rows r = { .header = queue_header, .add = queue_add_row, .keep = { COLUMNS } };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "there are no queues yet");
}

static void queue_print(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    named_facts_print(w->cli, doc->root, facts, array_count(facts), out);
}

static enum exit_code queue_show(struct verb_work *w)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    return verb_call(w, &(struct client_request){ .method = "GET", .path = path, .about = w->name }, queue_print, NULL);
}

static enum exit_code queue_patch(struct verb_work *w, const struct buf *body,
                                  void (*show_it)(struct verb_work *w, const struct json_doc *doc, struct buf *out),
                                  const char *done)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    struct client_request call = { .method = "PATCH", .path = path, .body = buf_str(body), .about = w->name };
    return verb_call(w, &call, show_it, done);
}

static bool queue_is_rate(struct str text)
{
    size_t digits = 0, dots = 0;
    for (size_t i = 0; i < text.n; i++) {
        digits += is_digit(text.p[i]);
        dots += text.p[i] == '.';
    }
    return digits && digits + dots == text.n && dots <= 1 && is_digit(text.p[0]) && is_digit(text.p[text.n - 1]) &&
           (text.p[0] != '0' || text.n == 1 || text.p[1] == '.');
}

static enum err queue_write_limits(const struct options *o, struct jw *w, struct error *e)
{
    static const struct {
        const char *flag, *field;
    } numbers[] = { { "burst", "max_burst" }, { "concurrent", "max_concurrent" }, { "weight", "weight" } };
    if (option_given(o, "rate")) {
        struct str rate = option_get(o, "rate")->text;
        if (!queue_is_rate(rate))
            return error_field(e, "--rate", "must be a number from 0 to 1000000, such as 10 or 0.5");
        jw_key(w, "max_dispatches_per_second");
        jw_raw(w, rate);
    }
    for (size_t i = 0; i < array_count(numbers); i++)
        if (option_given(o, numbers[i].flag))
            jw_kv_i64(w, numbers[i].field, option_get(o, numbers[i].flag)->number);
    return ERR_OK;
}

static enum exit_code queue_set(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    struct error e;
    struct jw j;
    jw_init(&j, &body);
    jw_object(&j);
    enum err rc = queue_write_limits(w->o, &j, &e);
    if (rc)
        return cli_fail(w->cli, "queue", &e, EXIT_USAGE);
    jw_object_end(&j);
    if (str_eq(buf_str(&body), S("{}"))) {
        error_set(&e, ERR_INVALID, "nothing to change: give --rate, --burst, --concurrent or --weight");
        return cli_fail(w->cli, "queue", &e, EXIT_USAGE);
    }
    return queue_patch(w, &body, queue_print, NULL);
}

/* A pause of a queue that nobody uses is kept, because tasks may name it later. It may as well be a typing error. */
static bool queue_is_unknown(struct verb_work *w)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    struct client_request call = { .method = "GET", .path = path, .quiet = true, .may_be_missing = true };
    return client_call(w->client, &call, &a) == EXIT_DONE && a.status == 404;
}

static void queue_print_paused(struct verb_work *w, const struct json_doc *doc, struct buf *out)
{
    char until[TIME_TEXT];
    int64_t until_ms;
    buf_printf(out, "%s paused", w->name);
    if (json_time_at(doc->root, "paused.until", &until_ms)) {
        time_text_utc(until_ms, until);
        buf_printf(out, " until %s", until);
    }
    buf_char(out, '\n');
}

static enum exit_code queue_pause(struct verb_work *w)
{
    bool is_unknown = queue_is_unknown(w);
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    struct jw j;
    jw_init(&j, &body);
    jw_object(&j);
    jw_kv_bool(&j, "paused", true);
    if (option_given(w->o, "reason"))
        jw_kv_str(&j, "reason", option_get(w->o, "reason")->text);
    if (option_given(w->o, "for"))
        jw_kv_str(&j, "for", option_get(w->o, "for")->text);
    if (option_given(w->o, "until"))
        jw_kv_time(&j, "until", option_get(w->o, "until")->number);
    jw_object_end(&j);
    enum exit_code code = queue_patch(w, &body, queue_print_paused, NULL);
    if (code == EXIT_DONE && is_unknown)
        fprintf(w->cli->err,
                "belfry queue: note: no queue '%s' was known before: it had neither settings nor tasks; if the name is "
                "wrong, 'belfry queue rm %s%s' removes the pause\n",
                w->name, w->name, w->cli->where);
    return code;
}

static enum exit_code queue_resume(struct verb_work *w)
{
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    buf_text(&body, "{\"paused\": false}");
    return queue_patch(w, &body, NULL, "resumed");
}

static enum exit_code queue_remove(struct verb_work *w)
{
    char path[VERB_PATH];
    verb_path(w, COLLECTION, path);
    return verb_call(w, &(struct client_request){ .method = "DELETE", .path = path, .about = w->name }, NULL,
                     "has its default settings again");
}

static enum exit_code command_queue_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = {
        { "list", NULL, false, 0, queue_list },      { "show", "NAME", true, false, queue_show },
        { "set", "NAME", true, 0, queue_set },       { "pause", "NAME", true, false, queue_pause },
        { "resume", "NAME", true, 0, queue_resume }, { "rm", "NAME", true, false, queue_remove },
    };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_queue = {
    .name = "queue",
    .words = "list|show|set|pause|resume|rm [NAME]",
    .summary = "list, limit and pause queues",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_queue_run,
};
