/* belfry pause, resume, cancel, rm, run, retry - one action each, on the given ids or on all tasks that match a
 * filter. */
#include <unistd.h>

#include "base/json/json.h"
#include "cli/command/commands.h"
#include "cli/command/job.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/pause_options.h"
#include "cli/task_view.h"
#include "cli/time_text.h"

enum { PATH_BYTES = 8192, OUT_MAX = 64 << 20, PROGRESS_EVERY = 20 };

static const struct task_action {
    const struct command *command;
    const char *method, *verb; /* verb: suffix of the task's path */
    const char *done;          /* "12 paused" */
    const char *action;        /* name of the bulk action, for a filter */
    const char *becomes;       /* status of the task afterwards; NULL: what it does next is printed */
} acts[] = {
    { &command_pause, "POST", "/pause", "paused", "pause", "PAUSED" },
    { &command_resume, "POST", "/resume", "resumed", "resume", NULL },
    { &command_cancel, "POST", "/cancel", "cancelled", "cancel", "CANCELLED" },
    { &command_rm, "DELETE", "", "removed", "delete", NULL },
    { &command_run, "POST", "/run-now", "set to run now", "run-now", NULL },
    { &command_retry, "POST", "/retry", "set to try again", "retry", NULL },
};

/* State of the running command. */
struct action_run {
    struct cli *cli;
    struct client *client;
    const struct task_action *act;
    bool json, one; /* one: exactly one id was given */
    struct str body;
    struct buf out;
    size_t done, refused;
};

static const struct task_action *action_of_command(const struct command *c)
{
    size_t i = 0;
    while (acts[i].command != c)
        i++;
    return &acts[i];
}

static void action_print_task(struct action_run *w, const char *id, const json_t *task)
{
    struct str status = json_text_at(task, "status"), run = json_text_at(task, "occurrence_id");
    const char *becomes = w->act->becomes;
    char until[TIME_TEXT];
    int64_t until_ms;
    if (becomes && status.n && !str_eq(status, str_from(becomes))) {
        buf_printf(&w->out, "%s is " STR_FMT "\n", id, STR_ARG(str_utf8_cut(status, 40)));
        paused_run_line(w->cli, w->client, task, &w->out);
        return;
    }
    buf_printf(&w->out, "%s %s", id, w->act->done);
    if (becomes && json_time_at(task, "paused.until", &until_ms)) { /* a schedule that is run now stays paused */
        time_text_utc(until_ms, until);
        buf_printf(&w->out, " until %s", until);
    }
    buf_char(&w->out, '\n');
    if (becomes || !task)
        return;
    if (run.n)
        buf_printf(&w->out, "The additional run is " STR_FMT "\n", STR_ARG(str_utf8_cut(run, UUID_TEXT)));
    else
        next_fire_lines(w->cli, w->client, task, &w->out);
    paused_queue_line(w->cli, w->client, task, &w->out);
}

static void action_print_result(struct action_run *w, const char *id, const struct client_answer *a)
{
    if (w->json && a->doc.root)
        client_json_line(&w->out, buf_str(&a->body));
    else if (w->json)
        buf_printf(&w->out, "{\"id\":\"%s\",\"removed\":true}\n", id);
    else if (w->one)
        action_print_task(w, id, a->doc.root);
}

static enum exit_code action_send(struct action_run *w, const char *id)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/tasks/%s%s", id, w->act->verb);
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    struct client_request call = { .method = w->act->method, .path = path, .about = id, .body = w->body };
    enum exit_code code = client_call(w->client, &call, &a);
    if (code == EXIT_DONE)
        action_print_result(w, id, &a);
    w->done += code == EXIT_DONE;
    w->refused += code == EXIT_REFUSED;
    return code;
}

/* Prints the collected output, and on a terminal the progress. False: the output is closed. */
static bool action_print_progress(struct action_run *w, size_t at, size_t of)
{
    if (!w->one && isatty(fileno(w->cli->err)))
        fprintf(w->cli->err, "\r%zu of %zu", at, of);
    bool taken = cli_print(w->cli, &w->out);
    buf_reset(&w->out);
    return taken;
}

static enum exit_code action_send_all(struct action_run *w, const struct ids *ids)
{
    enum exit_code worst = EXIT_DONE;
    for (size_t i = 0; i < ids->n && worst != EXIT_UNREACHABLE; i++) {
        enum exit_code code = action_send(w, ids->v[i]);
        worst = max_of(worst, code);
        if ((i + 1) % PROGRESS_EVERY == 0 && !action_print_progress(w, i + 1, ids->n))
            break;
    }
    if (!w->one && isatty(fileno(w->cli->err)))
        fputs("\r\033[K", w->cli->err);
    return worst;
}

static void action_print_summary(struct action_run *w, size_t asked)
{
    size_t rest = asked - w->done - w->refused;
    if (!w->json && !w->one) {
        buf_printf(&w->out, "%zu %s", w->done, w->act->done);
        if (w->refused)
            buf_printf(&w->out, ", %zu refused", w->refused);
        if (rest)
            buf_printf(&w->out, ", %zu not reached", rest);
        buf_char(&w->out, '\n');
    }
    cli_print(w->cli, &w->out);
}

/* ---- the body ---- */

static bool action_is_forced(const struct options *o)
{
    return option_known(o, "force") && option_get(o, "force")->number;
}

/* What is sent with the action; empty: nothing. */
static enum err action_write_body(const struct options *o, struct buf *out, struct error *e)
{
    struct jw w;
    if (!action_is_forced(o) && !pause_options_given(o))
        return ERR_OK;
    jw_init(&w, out);
    jw_object(&w);
    if (action_is_forced(o))
        jw_kv_bool(&w, "force", true);
    if (pause_options_write(o, &w, e))
        return e->code;
    jw_object_end(&w);
    return ERR_OK;
}

/* ---- the command ---- */

/* A filter that begins so is JSON, as the API has it: its values may have commas. */
static bool action_filter_is_json(const struct options *o)
{
    const struct option_value *v = option_get(o, "filter");
    return v->list_count == 1 && str_starts(v->list[0], S("{"));
}

/* Reads --filter into a query, which stays empty if ids are given. */
static enum err action_read_filter(const struct options *o, struct buf *path, struct error *e)
{
    const struct option_value *v = option_get(o, "filter");
    if (!v->list_count)
        return ERR_OK;
    if (o->word_count)
        return error_field(e, "--filter", "and ids exclude each other; give only one of them");
    if (action_is_forced(o))
        return error_field(e, "--force", "is for given tasks: leave out --filter");
    if (action_filter_is_json(o)) {
        cleanup_with(json_doc_release) struct json_doc doc = { 0 };
        struct error why;
        if (json_parse(v->list[0], &doc, &why))
            return error_field(e, "--filter", "%s", why.text);
        buf_add(path, v->list[0]);
        return path->full ? error_field(e, "--filter", "is too long") : ERR_OK;
    }
    for (size_t i = 0; i < v->list_count; i++)
        if (filter_parse(v->list[i], "--filter", path, e))
            return e->code;
    return ERR_OK;
}

/* With a filter, the server does the work as a job. */
static enum exit_code action_start_job(struct cli *cli, const struct options *o, struct client *client,
                                       struct str query)
{
    cleanup_with(buf_release) struct buf body;
    struct error e;
    struct jw w;
    const struct task_action *act = action_of_command(cli->command);
    buf_init(&body, 2 * PATH_BYTES);
    jw_init(&w, &body);
    jw_object(&w);
    jw_kv_cstr(&w, "action", act->action);
    jw_key(&w, "filter");
    if (action_filter_is_json(o))
        jw_raw(&w, query);
    else
        filter_json(query, &w);
    if (pause_options_write(o, &w, &e))
        return cli_fail(cli, cli->command->name, &e, EXIT_USAGE);
    jw_object_end(&w);
    return job_start_and_follow(cli, client, "/v1/tasks/bulk", buf_str(&body), act->done,
                                option_get(o, "json")->number);
}

static enum exit_code command_action_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(buf_release) struct buf path, body;
    buf_init(&path, PATH_BYTES);
    buf_init(&body, PATH_BYTES);
    struct error e;
    if (action_write_body(o, &body, &e) || action_read_filter(o, &path, &e) || (!path.n && ids_check_some(o, &e)))
        return cli_fail(cli, cli->command->name, &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE && !path.n)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code)
        return code;
    if (path.n)
        return action_start_job(cli, o, client, buf_str(&path));
    struct action_run w = { .cli = cli, .client = client, .act = action_of_command(cli->command), .one = ids.n == 1 };
    w.json = option_get(o, "json")->number;
    w.body = buf_str(&body);
    buf_init(&w.out, OUT_MAX);
    code = action_send_all(&w, &ids);
    action_print_summary(&w, ids.n);
    buf_release(&w.out);
    return code;
}

/* clang-format off */
#define FILTER_ROW { .flag = "filter", .type = OPTION_LIST, .value = "FILTER", \
      .help = "instead of ids: all tasks that match, such as status=FAILED,queue=mail" }
static const struct option options[] = { FILTER_ROW };
static const struct option pause_options[] = {
    FILTER_ROW,
    PAUSE_OPTIONS(),
};
static const struct option run_options[] = {
    FILTER_ROW,
    { .flag = "force", .type = OPTION_FLAG, .help = "also run a blocked task" },
};
/* clang-format on */

#define ACT_COMMAND(name_, rows, summary_, detail_)                                                                    \
    const struct command command_##name_ = {                                                                           \
        .name = #name_,                                                                                                \
        .words = "TASK…",                                                                                              \
        .summary = (summary_),                                                                                         \
        .detail = (detail_),                                                                                           \
        .options = (rows),                                                                                             \
        .option_count = array_count(rows),                                                                             \
        .run = command_action_run,                                                                                     \
    }

#define FILTERS                                                                                                           \
    "A filter is a comma-separated list of NAME=VALUE. Names: status, type, name (whole, or a beginning and *), queue,\n" \
    "task-type, due-before, due-after, created-before, created-after. Or a JSON object, as POST /v1/tasks/bulk takes it.\n\n"
#define AN_ID "019c3f2e-7a40-7000-8000-000000000001"

ACT_COMMAND(pause, pause_options, "pause tasks until they are resumed, or until a time",
            FILTERS "A task that is paused already stays so; --reason and --until change its pause.\n\n"
                    "The pause of a recurring task takes back all its occurrences that have not begun, also those that "
                    "are due and wait;\nwhen it ends, they count as missed, and catch_up_mode decides which of them "
                    "run.\n\nExamples:\n"
                    "  belfry pause " AN_ID "\n"
                    "  belfry pause " AN_ID " --reason 'the mail server is down' --until 2h\n"
                    "  belfry pause --filter queue=mail,type=RECURRING --reason 'maintenance'\n");
ACT_COMMAND(resume, options, "resume paused tasks",
            FILTERS "Examples:\n  belfry resume " AN_ID "\n  belfry resume --filter status=PAUSED,queue=mail\n");
ACT_COMMAND(cancel, options, "cancel tasks; a running task is aborted",
            FILTERS "Of a recurring task, nothing new starts; runs under way finish, without retries.\n\n"
                    "Examples:\n  belfry cancel " AN_ID "\n  belfry cancel --filter status=SCHEDULED,name=report\n");
ACT_COMMAND(
    rm, options, "delete tasks; a task that has not run yet is cancelled first",
    FILTERS
    "A running task is aborted. A run of a workflow that has started is refused: cancel it, or wait for its end.\n"
    "Executions are kept until their retention ends.\n\nExamples:\n  belfry rm " AN_ID
    "\n  belfry rm --filter status=COMPLETED,queue=mail\n");
ACT_COMMAND(
    run, run_options, "run tasks now, independently of their schedule",
    FILTERS
    "The schedule of a recurring task does not change: this is an additional run.\n\nExamples:\n  belfry run " AN_ID
    "\n  belfry run --filter name=report\n");
ACT_COMMAND(retry, options, "retry failed tasks, with a full set of attempts",
            FILTERS "Examples:\n  belfry retry " AN_ID "\n  belfry retry --filter status=FAILED,queue=mail\n");
