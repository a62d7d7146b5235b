/* belfry upcoming - prints the next fires of a task, or of all tasks between two times. */
#include "base/rfc3339.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"

enum { COLUMNS = 3, MINUTE_COLUMNS = 2, QUERY_MAX = 4096 };

static void upcoming_header(struct table *t)
{
    table_row(t, COLUMNS, "AT", "TASK", "NOTE");
}

static void upcoming_add_row(struct rows *r, const json_t *fire)
{
    char when[CELL_TEXT], name[CELL_TEXT], note[CELL_TEXT];
    struct str called = json_text_at(fire, "name");
    moment_text(fire, "at", clock_wall_ms(r->cli->clock), when);
    table_row(&r->table, COLUMNS, when, table_cell(called.n ? called : json_text_at(fire, "task_id"), name),
              table_cell(json_text_at(fire, "note"), note));
}

static void upcoming_minute_header(struct table *t)
{
    table_row(t, MINUTE_COLUMNS, "MINUTE", "FIRES");
}

static void upcoming_add_minute(struct rows *r, const json_t *minute)
{
    char when[CELL_TEXT], fires[32];
    snprintf(fires, sizeof fires, "%lld", (long long)json_i64_at(minute, "fires", 0));
    table_row(&r->table, MINUTE_COLUMNS, table_cell(json_text_at(minute, "at"), when), fires);
}

static void upcoming_add_time(const struct options *o, const char *flag, struct buf *path)
{
    char text[RFC3339_TEXT + 1];
    if (!option_given(o, flag))
        return;
    rfc3339_format(option_get(o, flag)->number, text);
    query_add(path, flag, str_from(text));
}

static enum err upcoming_check(const struct options *o, struct error *e)
{
    if (!o->word_count)
        return ERR_OK;
    if (option_given(o, "to") || option_get(o, "minutes")->number || option_given(o, "queue"))
        return error_set(e, ERR_INVALID, "--to, --queue and --minutes are for all tasks: leave out the task");
    return ids_check_one(o, e);
}

/* id: of one task; NULL: all tasks. */
static void upcoming_write_path(const struct options *o, const char *id, struct buf *path)
{
    bool one = id;
    char count[24];
    if (one)
        buf_printf(path, "/v1/tasks/%s/upcoming", id);
    else
        buf_text(path, "/v1/upcoming");
    snprintf(count, sizeof count, "%lld", (long long)option_get(o, "count")->number);
    if (!option_get(o, "minutes")->number && one)
        query_add(path, "count", str_from(count));
    upcoming_add_time(o, "from", path);
    upcoming_add_time(o, "to", path);
    if (option_given(o, "queue"))
        query_add(path, "queue", option_get(o, "queue")->text);
    if (option_get(o, "minutes")->number)
        query_add(path, "group_by", S("minute"));
}

static enum exit_code command_upcoming_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, QUERY_MAX);
    struct error e;
    if (upcoming_check(o, &e))
        return cli_fail(cli, "upcoming", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    if (code)
        return code;
    upcoming_write_path(o, ids.n ? ids.v[0] : NULL, &path);
    bool minutes = option_get(o, "minutes")->number;
    struct pages p = { .client = client, .path = buf_cstr(&path), .unlimited = o->word_count > 0 || minutes };
    p.member = minutes ? "minutes" : "upcoming";
    p.limit = minutes ? INT64_MAX : option_get(o, "count")->number;
    struct rows r = { .header = minutes ? upcoming_minute_header : upcoming_header,
                      .add = minutes ? upcoming_add_minute : upcoming_add_row };
    return rows_print(cli, o, &p, &r, minutes ? MINUTE_COLUMNS : COLUMNS, "there are no fires in that time");
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "count", .letter = 'n', .type = OPTION_INT, .value = "N", .preset = "10", .min = 1, .max = 1000,
      .help = "number of fires" },
    { .flag = "from", .type = OPTION_TIME, .value = "TIME", .help = "from this time on; default: now" },
    { .flag = "to", .type = OPTION_TIME, .value = "TIME", .help = "without TASK: until this time; default: 1 h after --from" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "without TASK: only tasks of this queue" },
    { .flag = "minutes", .type = OPTION_FLAG, .help = "without TASK: print the number of fires in each minute" },
};
/* clang-format on */

const struct command command_upcoming = {
    .name = "upcoming",
    .words = "[TASK]",
    .summary = "print the next fires of one task or of all tasks",
    .detail = "NOTE says why a fire is shifted or skipped. Times are UTC.\n"
              "\n"
              "Examples:\n"
              "  belfry upcoming\n"
              "  belfry upcoming 019c3f2e-7a40-7000-8000-000000000001 -n 20\n"
              "  belfry upcoming --from 2026-12-24T00:00:00Z --to 2026-12-25T00:00:00Z -n 1000\n"
              "  belfry upcoming --minutes\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_upcoming_run,
};
