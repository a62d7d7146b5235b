/* belfry edit - changes a task: only the given options change. */
#include "cli/command/commands.h"
#include "cli/ids.h"
#include "cli/task_body.h"
#include "cli/task_view.h"

enum { PATH_BYTES = 128 };

/* clang-format off */
static const struct option options[] = {
    { .flag = "url", .type = OPTION_TEXT, .value = "URL", .help = "URL to call" },
    { .flag = "if-version", .type = OPTION_INT, .value = "N", .min = 1, .max = INT64_MAX,
      .help = "edit only if the task still has this version; 'belfry show' prints it" },
};
/* clang-format on */

static const char detail[] =
    "Only the given options change. -H adds a header, or replaces the one of that name; all others stay.\n"
    "--set target_config.headers.NAME=null removes a header, --set target_config.body=null the body.\n"
    "-d keeps the Content-Type header that the task has; without one, the type is that of 'belfry add'. JSON in place of\n"
    "form data does not keep application/x-www-form-urlencoded.\n"
    "The tasks that a task waits for change with POST and DELETE /v1/tasks/{id}/dependencies (docs/DEPENDENCIES.md); its\n"
    "deduplication is that of its creation.\n"
    "An edit of the schedule withdraws occurrences that were created but have not fired.\n"
    "\n"
    "Examples:\n"
    "  belfry edit 019c3f2e-7a40-7000-8000-000000000001 --cron '0 9 * * MON-FRI'\n"
    "  belfry edit 019c3f2e-7a40-7000-8000-000000000001 --in 2h --priority 9\n"
    "  belfry edit 019c3f2e-7a40-7000-8000-000000000001 --url https://example.com/v2 --if-version 3\n";

struct edit {
    char path[PATH_BYTES];
    const char *id;
    int64_t version;      /* edit only this version; 0: any */
    struct target target; /* the given parts */
};

/* The API replaces some objects as a whole, such as metadata. So the present ones are read first, and the edit applies
 * only to the version that was read. */
static enum exit_code edit_read_current(struct client *client, struct edit *edit, struct client_answer *a)
{
    struct client_request call = { .method = "GET", .path = edit->path, .about = edit->id };
    enum exit_code code = client_call(client, &call, a);
    if (code)
        return code;
    if (!edit->version)
        edit->version = json_i64_at(a->doc.root, "version", 0);
    return EXIT_DONE;
}

/* current: the present task; NULL: it was not read. */
static enum err edit_write_body(const struct options *o, const struct edit *edit, const struct json_doc *current,
                                struct buf *out, struct error *e)
{
    struct jw w;
    cleanup_with(buf_release) struct buf given;
    buf_init(&given, TASK_BODY_MAX);
    if (task_fields_write(o, &given, e))
        return e->code;
    jw_init(&w, out);
    jw_object(&w);
    task_members_copy(buf_str(&given), &w);
    if (edit->target.given && target_write(o, &edit->target, S(""), &w, e)) /* the server merges it */
        return e->code;
    jw_object_end(&w);
    if (task_sets_apply(o, task_sets_are_nested(o) ? current : NULL, out, e) ||
        target_type_apply(&edit->target, current, out, e))
        return e->code;
    if (str_eq(buf_str(out), S("{}")))
        return error_set(e, ERR_INVALID, "nothing to change: give at least one option");
    return out->full ? error_set(e, ERR_LIMIT, "the task is larger than %d bytes", TASK_BODY_MAX * 2) : ERR_OK;
}

static void edit_print_task(struct cli *cli, const struct options *o, struct client *client,
                            const struct client_answer *a)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, TASK_BODY_MAX * 2);
    char id[CELL_TEXT];
    if (option_get(o, "json")->number) {
        client_json_line(&out, buf_str(&a->body));
    } else {
        buf_printf(&out, "%s is now version %lld\n", table_cell(json_text_at(a->doc.root, "id"), id),
                   (long long)json_i64_at(a->doc.root, "version", 0));
        next_fire_lines(cli, client, a->doc.root, &out);
        paused_queue_line(cli, client, a->doc.root, &out);
    }
    cli_print(cli, &out);
}

static enum exit_code edit_send(struct cli *cli, const struct options *o, struct client *client, struct edit *edit)
{
    cleanup_with(client_answer_release) struct client_answer before = { 0 };
    cleanup_with(client_answer_release) struct client_answer after = { 0 };
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, TASK_BODY_MAX * 2);
    struct error e;
    bool reads = task_sets_are_nested(o) || edit->target.body.n;
    enum exit_code code = reads ? edit_read_current(client, edit, &before) : EXIT_DONE;
    if (code)
        return code;
    edit->target.as_curl = reads && str_eq(json_text_at(before.doc.root, "target_type"), S("HTTP_CALLBACK"));
    if (target_check_data(&edit->target, &e) || edit_write_body(o, edit, reads ? &before.doc : NULL, &body, &e))
        return cli_fail(cli, "edit", &e, EXIT_USAGE);
    struct client_request call = { .method = "PATCH",
                                   .path = edit->path,
                                   .body = buf_str(&body),
                                   .if_version = edit->version,
                                   .about = edit->id,
                                   .idempotency_key = task_idempotency_key(o) };
    code = client_call(client, &call, &after);
    if (code == EXIT_DONE) {
        edit_print_task(cli, o, client, &after);
        task_print_warnings(cli, client, after.doc.root);
    }
    return code;
}

static enum exit_code command_edit_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    struct edit edit = { .version = option_given(o, "if-version") ? option_get(o, "if-version")->number : 0 };
    struct str url = option_given(o, "url") ? option_get(o, "url")->text : S("");
    cleanup_with(buf_release) struct buf unsent; /* checks the options before the server is asked */
    buf_init(&unsent, TASK_BODY_MAX * 2);
    struct error e;
    if (ids_check_one(o, &e) || target_read(o, url, &edit.target, &e) || edit_write_body(o, &edit, NULL, &unsent, &e)) {
        target_release(&edit.target);
        return cli_fail(cli, "edit", &e, EXIT_USAGE);
    }
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code == EXIT_DONE) {
        edit.id = ids.v[0];
        snprintf(edit.path, sizeof edit.path, "/v1/tasks/%s", edit.id);
        code = edit_send(cli, o, client, &edit);
    }
    target_release(&edit.target);
    return code;
}

const struct command command_edit = {
    .name = "edit",
    .words = "TASK",
    .summary = "change a task: its schedule, target, name, priority …",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .shared_options = task_options,
    .shared_count = TASK_EDIT_OPTION_COUNT,
    .run = command_edit_run,
};
