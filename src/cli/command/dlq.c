/* belfry dlq - the dead-letter queue: lists failed tasks, by cause if wanted, and retries or archives them. */
#include "base/json/jsonw.h"
#include "cli/command/commands.h"
#include "cli/command/job.h"
#include "cli/command/show.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/verbs.h"

enum { COLUMNS = 5, GROUP_COLUMNS = 7, QUERY_MAX = 8192, BODY_MAX = 2 << 20, PATH_TEXT = 128 };

/* ---- list and show ---- */

static void dlq_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "NAME", "CAUSE", "FAILED", "ERROR");
}

static void dlq_add_row(struct rows *r, const json_t *task)
{
    char when[CELL_TEXT];
    moment_text(task, "completed_at", clock_wall_ms(r->cli->clock), when);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(task, "id")),
              table_text(&r->table, json_text_at(task, "name")), table_text(&r->table, json_text_at(task, "cause")),
              when, table_text(&r->table, json_text_at(task, "last_error")));
}

static void dlq_archived_header(struct table *t)
{
    table_row(t, COLUMNS, "ID", "NAME", "CAUSE", "ARCHIVED", "REASON");
}

static void dlq_add_archived_row(struct rows *r, const json_t *task)
{
    char when[CELL_TEXT];
    struct table *t = &r->table;
    struct str reason = json_text_at(task, "resolution.reason");
    moment_text(task, "resolved_at", clock_wall_ms(r->cli->clock), when);
    table_row(t, COLUMNS, table_text(t, json_text_at(task, "id")), table_text(t, json_text_at(task, "name")),
              table_text(t, json_text_at(task, "cause")), when, table_text(t, reason.n ? reason : S("-")));
}

static void dlq_group_header(struct table *t)
{
    table_row(t, GROUP_COLUMNS, "CAUSE", "COUNT", "HOST", "LATEST", "EXAMPLE", "NAME", "ERROR");
}

static void dlq_add_group_row(struct rows *r, const json_t *group)
{
    char count[32], when[CELL_TEXT];
    struct str called = json_text_at(group, "host");
    snprintf(count, sizeof count, "%lld", (long long)json_i64_at(group, "count", 0));
    moment_text(group, "last_failed_at", clock_wall_ms(r->cli->clock), when);
    table_row(&r->table, GROUP_COLUMNS, table_text(&r->table, json_text_at(group, "cause")), count,
              table_text(&r->table, called.n ? called : S("-")), when,
              table_text(&r->table, json_text_at(group, "latest_task_id")),
              table_text(&r->table, json_text_at(group, "latest_task_name")),
              table_text(&r->table, json_text_at(group, "last_error")));
}

/* Returns whether there is a filter. */
static bool dlq_add_filters(const struct options *o, struct buf *path)
{
    static const char *const names[] = { "cause", "queue", "name" };
    bool any = false;
    for (size_t i = 0; i < array_count(names); i++) {
        if (!option_given(o, names[i]))
            continue;
        query_add(path, names[i], option_get(o, names[i])->text);
        any = true;
    }
    return any;
}

static enum exit_code dlq_list_tasks(struct cli *cli, const struct options *o, struct client *client)
{
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, QUERY_MAX);
    buf_text(&path, "/v1/dlq");
    bool archived = option_get(o, "archived")->number, filtered = dlq_add_filters(o, &path) || archived;
    if (archived)
        query_add(&path, "resolved", S("true"));
    struct pages p = { .client = client, .path = buf_cstr(&path), .member = "tasks", .limit = pages_limit(o) };
    struct rows r = { .header = dlq_header, .add = dlq_add_row, .keep = { 1, COLUMNS } };
    if (archived) {
        r.header = dlq_archived_header;
        r.add = dlq_add_archived_row;
    }
    return rows_print(cli, o, &p, &r, COLUMNS, filtered ? "no failed task matches" : "there are no failed tasks");
}

static enum exit_code dlq_list_groups(struct cli *cli, const struct options *o, struct client *client)
{
    struct pages p = { .client = client, .path = "/v1/dlq?group_by=cause", .member = "groups", .limit = INT64_MAX };
    struct rows r = { .header = dlq_group_header, .add = dlq_add_group_row, .keep = { 1, 5, GROUP_COLUMNS } };
    return rows_print(cli, o, &p, &r, GROUP_COLUMNS, "there are no failed tasks");
}

static enum exit_code dlq_show(struct cli *cli, const struct options *o, struct client *client, const struct ids *ids)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 64 << 20);
    enum exit_code worst = EXIT_DONE;
    for (size_t i = 0; i < ids->n && worst != EXIT_UNREACHABLE; i++) {
        char path[PATH_TEXT];
        bool json = option_get(o, "json")->number;
        snprintf(path, sizeof path, "/v1/dlq/%s", ids->v[i]);
        enum exit_code code = show_task(cli, client, path, ids->v[i], json, true, &out);
        worst = max_of(worst, code);
    }
    cli_print(cli, &out);
    return worst;
}

/* ---- retry and archive ---- */

static enum exit_code dlq_resolve(struct cli *cli, const struct options *o, struct client *client, const char *id,
                                  const char *verb, struct str body)
{
    char path[PATH_TEXT];
    cleanup_with(buf_release) struct buf out;
    cleanup_with(client_answer_release) struct client_answer a = { 0 };
    buf_init(&out, BODY_MAX);
    snprintf(path, sizeof path, "/v1/dlq/%s/%s", id, verb);
    struct client_request call = { .method = "POST", .path = path, .body = body, .about = id };
    enum exit_code code = client_call(client, &call, &a);
    if (code)
        return code;
    if (option_get(o, "json")->number)
        client_json_line(&out, buf_str(&a.body));
    else
        buf_printf(&out, "%s %s\n", id, verb[0] == 'r' ? "set to try again" : "archived");
    cli_print(cli, &out);
    return EXIT_DONE;
}

static enum exit_code dlq_resolve_all(struct cli *cli, const struct options *o, struct client *client,
                                      const struct ids *ids, const char *verb, struct str body)
{
    enum exit_code worst = EXIT_DONE;
    for (size_t i = 0; i < ids->n && worst != EXIT_UNREACHABLE; i++) {
        enum exit_code code = dlq_resolve(cli, o, client, ids->v[i], verb, body);
        worst = max_of(worst, code);
    }
    return worst;
}

/* Writes the body of a retry by filter. Retrying all failed tasks requires --all. */
static enum err dlq_write_redrive(const struct options *o, struct buf *body, struct error *e)
{
    static const char *const names[] = { "cause", "queue", "name" };
    struct jw w;
    size_t given = 0;
    jw_init(&w, body);
    jw_object(&w);
    jw_key(&w, "filter");
    jw_object(&w);
    for (size_t i = 0; i < array_count(names); i++) {
        if (option_given(o, names[i]))
            jw_kv_str(&w, names[i], option_get(o, names[i])->text);
        given += option_given(o, names[i]);
    }
    if (!given && !option_get(o, "all")->number)
        return error_set(e, ERR_INVALID, "give ids, --cause, --queue, --name or --all");
    if (!given)
        jw_kv_bool(&w, "all", true);
    jw_object_end(&w);
    if (option_given(o, "rate"))
        jw_kv_i64(&w, "rate", option_get(o, "rate")->number);
    if (option_given(o, "max-failed"))
        jw_kv_i64(&w, "max_failed_percent", option_get(o, "max-failed")->number);
    jw_object_end(&w);
    return ERR_OK;
}

static enum err dlq_write_archive(const struct options *o, struct buf *body)
{
    struct jw w;
    jw_init(&w, body);
    jw_object(&w);
    if (option_given(o, "reason"))
        jw_kv_str(&w, "reason", option_get(o, "reason")->text);
    jw_object_end(&w);
    return ERR_OK;
}

/* ---- the command ---- */

enum dlq_verb { VERB_LIST, VERB_GROUPS, VERB_SHOW, VERB_RETRY, VERB_ARCHIVE, VERBS };
static const char *const verbs[VERBS] = { "list", "groups", "show", "retry", "archive" };

static enum err dlq_read_verb(const struct options *o, enum dlq_verb *ret, struct error *e)
{
    *ret = VERB_LIST;
    if (o->word_count == 0)
        return ERR_OK;
    for (unsigned v = 0; v < VERBS; v++) {
        if (str_eq(o->words[0], str_from(verbs[v]))) {
            *ret = (enum dlq_verb)v;
            return ERR_OK;
        }
    }
    return error_set(e, ERR_INVALID, "the verb must be list, groups, show, retry or archive");
}

/* A retry of given tasks and a retry by filter take different options. */
static enum err dlq_check_retry(const struct options *o, bool by_id, struct error *e)
{
    static const char *const filters[] = { "cause", "queue", "name", "all", "rate", "max-failed" };
    for (size_t i = 0; by_id && i < array_count(filters); i++) {
        char field[24];
        snprintf(field, sizeof field, "--%s", filters[i]);
        if (option_given(o, filters[i]))
            return error_field(e, field, "is for a retry by filter: leave out the tasks, or this option");
    }
    if (!by_id && option_given(o, "edit"))
        return error_field(
            e, "--edit",
            "is for a retry of given tasks; to change many, name them: belfry dlq retry --edit JSON $(belfry dlq list --all --json --cause CAUSE | jq -r .id)");
    return ERR_OK;
}

static enum err dlq_read_request(const struct options *o, const struct options *rest, enum dlq_verb verb,
                                 struct buf *body, struct error *e)
{
    bool takes_ids = verb >= VERB_SHOW;
    if (verb_check_options(o, verbs[verb], e) || (verb == VERB_RETRY && dlq_check_retry(o, rest->word_count > 0, e)))
        return e->code;
    if (!takes_ids && rest->word_count)
        return error_set(e, ERR_INVALID, "%s takes no ids", verbs[verb]);
    if (takes_ids && (rest->word_count || verb != VERB_RETRY) && ids_check_some(rest, e))
        return e->code;
    if (verb == VERB_RETRY && rest->word_count == 0)
        return dlq_write_redrive(o, body, e);
    if (verb == VERB_RETRY && option_given(o, "edit"))
        buf_add(body, option_get(o, "edit")->text);
    return verb == VERB_ARCHIVE ? dlq_write_archive(o, body) : ERR_OK;
}

static enum exit_code command_dlq_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, BODY_MAX);
    struct error e;
    enum dlq_verb verb;
    struct options rest = *o; /* the arguments after the verb */
    rest.words += o->word_count > 0;
    rest.word_count -= o->word_count > 0;
    if (dlq_read_verb(o, &verb, &e) || dlq_read_request(o, &rest, verb, &body, &e))
        return cli_fail(cli, "dlq", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, &rest, "/v1/dlq", &ids);
    if (code)
        return code;
    switch (verb) {
    case VERB_LIST: return dlq_list_tasks(cli, o, client);
    case VERB_GROUPS: return dlq_list_groups(cli, o, client);
    case VERB_SHOW: return dlq_show(cli, o, client, &ids);
    case VERB_ARCHIVE: return dlq_resolve_all(cli, o, client, &ids, "archive", buf_str(&body));
    case VERB_RETRY:
    case VERBS: break;
    }
    if (ids.n)
        return dlq_resolve_all(cli, o, client, &ids, "retry", buf_str(&body));
    return job_start_and_follow(cli, client, "/v1/dlq/retry", buf_str(&body), "set to try again",
                                option_get(o, "json")->number);
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "cause", .type = OPTION_TEXT, .value = "CAUSE", .only = "list|retry",
      .help = "only tasks with this cause; 'belfry dlq groups' prints the causes" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .only = "list|retry", .help = "only tasks of this queue" },
    { .flag = "name", .type = OPTION_TEXT, .value = "NAME", .only = "list|retry",
      .help = "only tasks with this name; a '*' at its end matches anything" },
    { .flag = "archived", .type = OPTION_FLAG, .only = "list", .help = "print archived tasks" },
    { .flag = "edit", .type = OPTION_TEXT, .value = "JSON", .only = "retry",
      .help = "fields of the given tasks to change first; fields that are not in JSON stay, null removes one" },
    { .flag = "rate", .type = OPTION_INT, .value = "N", .min = 1, .max = 10000, .preset = "50", .only = "retry",
      .help = "without TASK: at most N tasks a second" },
    { .flag = "max-failed", .type = OPTION_INT, .value = "PERCENT", .min = 0, .max = 100, .preset = "20", .only = "retry",
      .help = "without TASK: stop if more than this percentage fails again" },
    { .flag = "reason", .type = OPTION_TEXT, .value = "TEXT", .only = "archive", .help = "the reason" },
    { .flag = "limit", .letter = 'n', .type = OPTION_INT, .value = "N", .preset = "20", .min = 1, .max = 1000000,
      .only = "list", .help = "print at most N" },
    { .flag = "all", .letter = 'a', .type = OPTION_FLAG, .only = "list|retry", .help = "all of them" },
};
/* clang-format on */

const struct command command_dlq = {
    .name = "dlq",
    .words = "[list | groups | show TASK… | retry [TASK…] | archive TASK…]",
    .summary = "list, retry or archive failed tasks (dead-letter queue)",
    .detail =
        "groups: HOST, LATEST, EXAMPLE, NAME and ERROR are of the task that failed last for this cause;\n"
        "'belfry dlq show EXAMPLE' prints it.\n"
        "\n"
        "Retry by filter starts with 1 task, then 10, then the rest at --rate. It stops if too many tasks fail again.\n"
        "'retry --all' retries all failed tasks; 'list --all' prints all of them.\n"
        "\n"
        "Examples:\n"
        "  belfry dlq groups\n"
        "  belfry dlq list --cause 1f0c5e2a9b7d4433\n"
        "  belfry dlq show 019c3f2e-7a40-7000-8000-000000000001\n"
        "  belfry dlq retry --cause 1f0c5e2a9b7d4433 --rate 100\n"
        "  belfry dlq retry 019c3f2e-7a40-7000-8000-000000000001 --edit '{\"target_config\": {\"url\": \"https://b.example/\"}}'\n"
        "  belfry dlq archive 019c3f2e-7a40-7000-8000-000000000001 --reason 'order was cancelled'\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_dlq_run,
};
