/* belfry job - lists, follows and cancels jobs: bulk work that the server does in the background. */
#include "cli/command/job.h"

#include <unistd.h>

#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/verbs.h"

enum { POLL_MIN_US = 100000, POLL_MAX_US = 1000000, PATH_TEXT = 128, WAITS_TEXT = 96, COLUMNS = 6, OUT_MAX = 1 << 20 };

static bool job_is_over(const json_t *job)
{
    return !str_eq(json_text_at(job, "state"), S("RUNNING"));
}

/* ---- following a job ---- */

/* What a re-drive waits for: it retries one task, then ten, then the rest, as long as they succeed. */
static void job_waits_text(const json_t *job, char out[WAITS_TEXT])
{
    struct str phase = json_text_at(job, "phase");
    size_t open = json_count_at(job, "watched");
    out[0] = '\0';
    if (str_eq(phase, S("FIRST")) && open)
        snprintf(out, WAITS_TEXT, ", waiting for the first one to succeed");
    else if (str_eq(phase, S("TEN")) && open)
        snprintf(out, WAITS_TEXT, ", waiting for %zu of the next ten to succeed", open);
    else if (str_eq(phase, S("REST")))
        snprintf(out, WAITS_TEXT, ", %lld succeeded, %lld failed again", (long long)json_i64_at(job, "succeeded", 0),
                 (long long)json_i64_at(job, "failed_again", 0));
}

static void job_print_progress(struct cli *cli, const json_t *job)
{
    if (!isatty(fileno(cli->err)))
        return;
    bool exact = json_is_true(json_at(job, "total_exact"));
    char waits[WAITS_TEXT];
    job_waits_text(job, waits);
    fprintf(cli->err, "\r\033[K%lld of %s%lld%s",
            (long long)json_i64_at(job, "done", 0) + (long long)json_i64_at(job, "failed", 0),
            exact ? "" : "more than ", (long long)json_i64_at(job, "total", 0), waits);
    fflush(cli->err);
}

static void job_write_outcomes(const json_t *job, struct buf *out)
{
    long long succeeded = json_i64_at(job, "succeeded", 0), failed = json_i64_at(job, "failed_again", 0);
    size_t open = json_count_at(job, "watched");
    if (succeeded || failed)
        buf_printf(out, ": %lld succeeded, %lld failed again", succeeded, failed);
    if ((succeeded || failed) && open)
        buf_printf(out, ", %zu not over yet", open);
}

static void job_write_failures(const json_t *job, struct buf *out)
{
    const json_t *failure;
    size_t i;
    json_array_foreach (json_at(job, "failures"), i, failure) {
        buf_printf(out, "  " STR_FMT ": ", STR_ARG(json_text_at(failure, "task_id")));
        table_plain_text(json_text_at(failure, "error"), SIZE_MAX, out);
        buf_char(out, '\n');
    }
    int64_t failed = json_i64_at(job, "failed", 0);
    if (failed > (int64_t)i)
        buf_printf(out, "  and %lld more\n", (long long)failed - (long long)i);
}

static enum exit_code job_print_summary(struct cli *cli, const struct client_answer *a, const char *done, bool json)
{
    const json_t *job = a->doc.root;
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    int64_t failed = json_i64_at(job, "failed", 0);
    bool finished = str_eq(json_text_at(job, "state"), S("DONE"));
    if (json) {
        client_json_line(&out, buf_str(&a->body));
    } else {
        buf_printf(&out, "%lld %s", (long long)json_i64_at(job, "done", 0), done);
        job_write_outcomes(job, &out);
        if (failed)
            buf_printf(&out, ", %lld refused:", (long long)failed);
        buf_char(&out, '\n');
        job_write_failures(job, &out);
        if (!finished)
            buf_printf(&out, STR_FMT ": " STR_FMT "\n", STR_ARG(json_text_at(job, "state")),
                       STR_ARG(json_text_at(job, "reason")));
    }
    cli_print(cli, &out);
    return finished && !failed ? EXIT_DONE : EXIT_REFUSED;
}

/* Polls the job until it is over, with doubling pauses of 100 ms to 1 s. */
static enum exit_code job_follow(struct cli *cli, struct client *c, struct client_answer *a)
{
    char path[PATH_TEXT];
    snprintf(path, sizeof path, "/v1/jobs/" STR_FMT, STR_ARG(json_text_at(a->doc.root, "id")));
    for (useconds_t pause = POLL_MIN_US; !job_is_over(a->doc.root);
         pause = min_of(pause * 2, (useconds_t)POLL_MAX_US)) {
        job_print_progress(cli, a->doc.root);
        usleep(pause);
        client_answer_release(a);
        *a = (struct client_answer){ 0 };
        enum exit_code code = client_call(c, &(struct client_request){ .method = "GET", .path = path }, a);
        if (code)
            return code;
    }
    if (isatty(fileno(cli->err)))
        fputs("\r\033[K", cli->err);
    return EXIT_DONE;
}

enum exit_code job_start_and_follow(struct cli *cli, struct client *c, const char *path, struct str body,
                                    const char *done, bool json)
{
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    enum exit_code code = client_call(c, &(struct client_request){ .method = "POST", .path = path, .body = body }, &a);
    if (code == EXIT_DONE && str_eq(json_text_at(a.doc.root, "kind"), S("redrive")) && !json)
        fprintf(cli->err, "Job " STR_FMT ": tries 1 task, then 10, then the rest, as long as they succeed\n",
                STR_ARG(str_utf8_cut(json_text_at(a.doc.root, "id"), UUID_TEXT)));
    if (code == EXIT_DONE)
        code = job_follow(cli, c, &a);
    return code ? code : job_print_summary(cli, &a, done, json);
}

/* ---- the command ---- */

static const struct ids_source jobs = { .path = "/v1/jobs", .member = "jobs", .what = "job", .list = "job list" };

static void job_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "ACTION", "STATE", "DONE", "FAILED", "CREATED");
}

static void job_add_row(struct rows *r, const json_t *job)
{
    char created[CELL_TEXT], done[32], failed[32];
    moment_text(job, "created_at", clock_wall_ms(r->cli->clock), created);
    snprintf(done, sizeof done, "%lld of %lld", (long long)json_i64_at(job, "done", 0),
             (long long)json_i64_at(job, "total", 0));
    snprintf(failed, sizeof failed, "%lld", (long long)json_i64_at(job, "failed", 0));
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(job, "id")),
              table_text(&r->table, json_text_at(job, "action")), table_text(&r->table, json_text_at(job, "state")),
              done, failed, created);
}

static enum exit_code job_show(struct cli *cli, const struct options *o, struct client *c, const char *id, bool cancel)
{
    char path[PATH_TEXT];
    snprintf(path, sizeof path, "/v1/jobs/%s%s", id, cancel ? "/cancel" : "");
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = cancel ? "POST" : "GET", .path = path, .about = id };
    enum exit_code code = client_call(c, &call, &a);
    if (code == EXIT_DONE && (cancel || option_get(o, "wait")->number))
        code = job_follow(cli, c, &a);
    if (code)
        return code;
    code = job_print_summary(cli, &a, "done", option_get(o, "json")->number);
    return cancel || !job_is_over(a.doc.root) ? EXIT_DONE : code;
}

static enum err job_read_words(const struct options *o, struct str *ret_verb, struct error *e)
{
    *ret_verb = o->word_count ? o->words[0] : S("list");
    bool lists = str_eq(*ret_verb, S("list"));
    if (!lists && !str_eq(*ret_verb, S("show")) && !str_eq(*ret_verb, S("cancel")))
        return error_set(e, ERR_INVALID, "the verb must be list, show or cancel");
    if (o->word_count != (lists ? min_of(o->word_count, (size_t)1) : 2))
        return error_set(e, ERR_INVALID,
                         lists ? "list takes no id" : "give the id of one job; 'belfry job list' prints them");
    return ERR_OK;
}

static enum exit_code command_job_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(buf_release) struct buf id;
    struct error e;
    struct str verb;
    buf_init(&id, PATH_TEXT / 2);
    if (job_read_words(o, &verb, &e) || verb_check_options(o, verb.p, &e))
        return cli_fail(cli, "job", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE && o->word_count == 2)
        code = ids_pick(client, &jobs, o->words[1], &id);
    if (code)
        return code;
    if (id.n)
        return job_show(cli, o, client, buf_cstr(&id), str_eq(verb, S("cancel")));
    struct pages p = { .client = client, .path = "/v1/jobs", .member = "jobs", .limit = INT64_MAX };
    struct rows r = { .header = job_header, .add = job_add_row, .keep = { 1 } };
    return rows_print(cli, o, &p, &r, COLUMNS, "there are no jobs");
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "wait", .type = OPTION_FLAG, .only = "show", .help = "wait until the job is over" },
};
/* clang-format on */

const struct command command_job = {
    .name = "job",
    .words = "[list | show ID | cancel ID]",
    .summary = "list, follow or cancel jobs: bulk work of the server",
    .detail =
        "Commands with --filter, and 'belfry dlq retry' without ids, start a job. The server continues it even if the command\n"
        "is interrupted or the server restarts.\n"
        "\n"
        "Examples:\n"
        "  belfry job\n"
        "  belfry job show 019c3f2e-7a40-7000-8000-000000000001 --wait\n"
        "  belfry job cancel 019c3f2e-7a40-7000-8000-000000000001\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_job_run,
};
