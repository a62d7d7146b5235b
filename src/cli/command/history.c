/* belfry history - prints the attempts of a task or of all tasks, or the occurrences of a recurring task. */
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/time_text.h"

enum { OCCURRENCE_COLUMNS = 5, PATH_BYTES = 16384 };

/* clang-format off */
static const struct option options[] = {
    { .flag = "occurrences", .type = OPTION_FLAG,
      .help = "print the occurrences of a recurring task, including skipped (with the reason) and missed ones; without those to come" },
    { .flag = "status", .type = OPTION_TEXT, .value = "STATUS",
      .help = "only attempts in this state: COMPLETED, FAILED, LOST, CANCELLED; with --occurrences also SKIPPED, EXPIRED, SCHEDULED …" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "without TASK: only attempts of tasks in this queue" },
    { .flag = "worker", .type = OPTION_TEXT, .value = "WORKER", .help = "without TASK: only attempts of this worker" },
    { .flag = "error", .type = OPTION_TEXT, .value = "TEXT", .help = "without TASK: only attempts whose error is this whole text" },
    { .flag = "from", .type = OPTION_PAST, .value = "WHEN", .help = "without TASK: only attempts that ended then or later: a time, a date, or how long ago, such as 2h" },
    { .flag = "to", .type = OPTION_PAST, .value = "WHEN", .help = "without TASK: only attempts that ended before then" },
};
/* clang-format on */

static const char detail[] = "DELAY is the start minus the scheduled time, of a retry minus its due time; if it\n"
                             "is 100 ms or more, the cause follows. TOOK is the run time. Times are UTC; the\n"
                             "latest is first. --occurrences --status SCHEDULED prints those to come.\n"
                             "Outputs (answers, results of workers) are in --json; 'belfry show' prints the latest.\n"
                             "Without TASK it prints what ran over all tasks: what ended last comes first.\n"
                             "\n"
                             "Examples:\n"
                             "  belfry history 019c3f2e-7a40-7000-8000-000000000001\n"
                             "  belfry history --status FAILED --all --json report\n"
                             "  belfry history --occurrences 019c3f2e-7a\n"
                             "  belfry history --status FAILED --queue mail\n";

static void history_add_execution(struct rows *r, const json_t *execution)
{
    execution_row(&r->table, execution);
}

enum { STATUS_WIDTH = 9 }; /* of COMPLETED and the like: a first page may have shorter ones only */

static void history_occurrence_header(struct table *t)
{
    table_row(t, OCCURRENCE_COLUMNS, "WHEN", "STATUS", "ATTEMPTS", "ID", "NOTE");
    table_reserve(t, 1, STATUS_WIDTH);
}

/* In the words of `belfry upcoming`. */
static void history_write_moved(const json_t *occurrence, struct buf *out)
{
    struct str from = json_text_at(occurrence, "moved.from"), time = S("");
    struct str date = str_sub(from, 0, str_find(from, 'T', 0));
    if (date.n < from.n)
        time = str_sub(from, date.n + 1, from.n);
    if (time.n > 5 && str_eq(str_sub(time, 5, time.n), S(":00")))
        time = str_sub(time, 0, 5);
    if (str_eq(json_text_at(occurrence, "moved.reason"), S("CALENDAR")))
        buf_printf(out, "moved from " STR_FMT ", which the calendar excludes", STR_ARG(date));
    else
        buf_printf(out, STR_FMT " does not exist that day, the clock is set forward over it", STR_ARG(time));
}

/* The note says what the occurrence waits for, why it was skipped, or its error. */
static void history_add_occurrence(struct rows *r, const json_t *occurrence)
{
    char when[TIME_TEXT] = "-", attempts[24];
    cleanup_with(buf_release) struct buf waits;
    buf_init(&waits, TASK_TEXT_MAX);
    int64_t at_ms;
    struct str why = json_text_at(occurrence, "reason"), error = json_text_at(occurrence, "last_error");
    if (json_time_at(occurrence, "scheduled_for", &at_ms) || json_time_at(occurrence, "run_at", &at_ms))
        time_text_utc(at_ms, when);
    waiting_text(occurrence, &waits);
    struct str said = why.n ? why : error, moved = json_text_at(occurrence, "moved.from");
    if (moved.n && !said.n && !waits.n)
        history_write_moved(occurrence, &waits);
    snprintf(attempts, sizeof attempts, "%lld", (long long)json_i64_at(occurrence, "attempts", 0));
    table_row(&r->table, OCCURRENCE_COLUMNS, when, table_text(&r->table, json_text_at(occurrence, "status")), attempts,
              table_text(&r->table, json_text_at(occurrence, "id")),
              table_text(&r->table, waits.n ? buf_str(&waits) : said));
}

/* Occurrences are created some seconds ahead. A history is about the past, unless they are asked for. */
static bool history_has_come(void *context, const json_t *occurrence)
{
    struct rows *r = context;
    int64_t at_ms;
    bool waits = str_eq(json_text_at(occurrence, "status"), S("SCHEDULED"));
    return !waits || !json_time_at(occurrence, "run_at", &at_ms) || at_ms <= clock_wall_ms(r->cli->clock);
}

/* Attempts do not have these states. */
static enum err history_check_status(const struct options *o, struct error *e)
{
    static const char *const of_occurrences[] = { "SKIPPED", "EXPIRED", "SCHEDULED", "BLOCKED", "PAUSED" };
    struct str rest = option_given(o, "status") ? option_get(o, "status")->text : S(""), word;
    if (option_get(o, "occurrences")->number)
        return ERR_OK;
    while (str_cut(&rest, ',', &word))
        for (size_t i = 0; i < array_count(of_occurrences); i++)
            if (str_eq_nocase(str_trim(word), str_from(of_occurrences[i])))
                return error_field(e, "--status", "%s is a state of occurrences, not of attempts; add --occurrences",
                                   of_occurrences[i]);
    return ERR_OK;
}

/* ---- over all tasks ---- */

enum { ALL_COLUMNS = 8 };

static void history_all_header(struct table *t)
{
    table_row(t, ALL_COLUMNS, "ENDED", "STATUS", "TASK", "QUEUE", "ATTEMPT", "TOOK", "WORKER", "ERROR");
    table_reserve(t, 1, STATUS_WIDTH);
}

static void history_add_of_all(struct rows *r, const json_t *x)
{
    char when[TIME_TEXT] = "-", took[TIME_TEXT], attempt[24];
    int64_t ended_ms;
    if (json_time_at(x, "completed_at", &ended_ms))
        time_text_utc(ended_ms, when);
    execution_duration_text(x, took);
    struct str name = json_text_at(x, "task_name"), queue = json_text_at(x, "queue"),
               worker = json_text_at(x, "worker");
    snprintf(attempt, sizeof attempt, "%lld", (long long)json_i64_at(x, "attempt_number", 0));
    table_row(&r->table, ALL_COLUMNS, when, table_text(&r->table, json_text_at(x, "status")),
              table_text(&r->table, name.n ? name : json_text_at(x, "task_id")),
              table_text(&r->table, queue.n ? queue : S("-")), attempt, took,
              table_text(&r->table, worker.n ? worker : S("-")),
              table_text(&r->table, json_text_at(x, "error_message")));
}

static enum exit_code history_of_all(struct cli *cli, const struct options *o)
{
    static const char *const texts[] = { "status", "queue", "worker", "error" };
    int64_t now_ms = clock_wall_ms(cli->clock);
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_BYTES);
    enum exit_code code = client_open(cli, o, &client);
    if (code)
        return code;
    buf_text(&path, "/v1/executions");
    for (size_t i = 0; i < array_count(texts); i++)
        if (option_given(o, texts[i]))
            query_add(&path, texts[i], option_get(o, texts[i])->text);
    query_add_past(&path, o, "from", "from", now_ms);
    query_add_past(&path, o, "to", "to", now_ms);
    struct pages p = { .client = client, .path = buf_cstr(&path), .member = "executions", .limit = pages_limit(o) };
    struct rows r = { .header = history_all_header, .add = history_add_of_all, .keep = { 1, 2, 3, ALL_COLUMNS } };
    return rows_print(cli, o, &p, &r, ALL_COLUMNS, "nothing ran");
}

/* Options that only one of the two forms has. */
static enum err history_check_form(const struct options *o, struct error *e)
{
    static const char *const of_all[] = { "queue", "worker", "error", "from", "to" };
    if (!o->word_count)
        return option_get(o, "occurrences")->number
                   ? error_field(e, "--occurrences", "needs a recurring task: belfry history --occurrences TASK")
                   : ERR_OK;
    for (size_t i = 0; i < array_count(of_all); i++)
        if (option_given(o, of_all[i]))
            return error_set(e, ERR_INVALID, "--%s is for the history of all tasks; leave TASK out", of_all[i]);
    return ids_check_one(o, e);
}

static enum exit_code command_history_run(struct cli *cli, const struct options *o)
{
    struct error e;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, PATH_BYTES);
    if (history_check_form(o, &e) || history_check_status(o, &e))
        return cli_fail(cli, "history", &e, EXIT_USAGE);
    if (!o->word_count)
        return history_of_all(cli, o);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code)
        return code;
    bool occurrences = option_get(o, "occurrences")->number;
    const char *member = occurrences ? "tasks" : "executions"; /* an occurrence is a task like any other */
    buf_printf(&path, "/v1/tasks/%s/%s", ids.v[0], occurrences ? "occurrences" : "executions");
    if (option_given(o, "status"))
        query_add(&path, "status", option_get(o, "status")->text);
    struct pages p = {
        .client = client, .path = buf_cstr(&path), .member = member, .limit = pages_limit(o), .about = ids.v[0]
    };
    struct rows r = { .header = execution_header,
                      .add = history_add_execution,
                      .keep = { 1, 3, 5, EXECUTION_COLUMNS } };
    if (occurrences)
        r = (struct rows){ .header = history_occurrence_header, .add = history_add_occurrence, .keep = { 1, 2, 4, 5 } };
    if (occurrences && !option_given(o, "status"))
        p.wanted = history_has_come;
    return rows_print(cli, o, &p, &r, occurrences ? OCCURRENCE_COLUMNS : EXECUTION_COLUMNS, "there are no runs yet");
}

const struct command command_history = {
    .name = "history",
    .words = "[TASK]",
    .summary = "print what ran: a task's attempts, those of all tasks, or the occurrences of a recurring one",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .shared_options = page_options,
    .shared_count = PAGE_OPTION_COUNT,
    .run = command_history_run,
};
