/* belfry upcoming - prints the next fires of a task, or of all tasks between two times. */
#include "base/date.h"
#include "cli/command/commands.h"
#include "cli/filter.h"
#include "cli/ids.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/time_text.h"

enum {
    COLUMNS = 3,
    LOCAL_COLUMNS = 4,
    NOTE_MAX = 4096,
    MINUTE_COLUMNS = 2,
    QUERY_MAX = 4096,
    PATH_BYTES = 128,
    WHY_TEXT = 96
};

static void upcoming_header(struct table *t)
{
    table_row(t, COLUMNS, "AT", "TASK", "NOTE");
}

static void upcoming_local_header(struct table *t)
{
    table_row(t, LOCAL_COLUMNS, "LOCAL", "AT", "TASK", "NOTE");
}

/* Of one task, the fires do not say which. */
struct upcoming_rows {
    struct rows rows;
    struct client_answer task; /* of `belfry upcoming TASK`; empty: all tasks */
    struct tz *zone;           /* of that task; NULL: no local times are shown */
    int offset_s;              /* of the row before */
};

static void upcoming_add_row(struct rows *r, const json_t *fire)
{
    const json_t *task = container_of(r, struct upcoming_rows, rows)->task.doc.root;
    char when[CELL_TEXT];
    struct str called = json_text_at(task ? task : fire, "name"),
               id = json_text_at(task ? task : fire, task ? "id" : "task_id");
    moment_text(fire, "at", clock_wall_ms(r->cli->clock), when);
    table_row(&r->table, COLUMNS, when, table_text(&r->table, called.n ? called : id),
              table_text(&r->table, json_text_at(fire, "note")));
}

/* As upcoming_add_row, with the time in the zone of the task. A fire keeps its local time over a clock change, which
 * looks like a mistake in UTC: so the first one after it says so. */
static void upcoming_add_local_row(struct rows *r, const json_t *fire)
{
    struct upcoming_rows *u = container_of(r, struct upcoming_rows, rows);
    char when[CELL_TEXT], local[TIME_TEXT] = "-";
    struct str called = json_text_at(u->task.doc.root, "name"), note = json_text_at(fire, "note");
    int64_t at_ms;
    cleanup_with(buf_release) struct buf notes;
    buf_init(&notes, NOTE_MAX);
    buf_add(&notes, note);
    if (json_time_at(fire, "at", &at_ms)) {
        int offset_s = tz_span_at(u->zone, floor_div(at_ms, 1000)).offset_s;
        time_text_local(u->zone, at_ms, local);
        if (r->count > 0 && offset_s != u->offset_s)
            buf_printf(&notes, "%sthe clocks have changed", note.n ? "; " : "");
        u->offset_s = offset_s;
    }
    moment_text(fire, "at", clock_wall_ms(r->cli->clock), when);
    table_row(&r->table, LOCAL_COLUMNS, local, when,
              table_text(&r->table, called.n ? called : json_text_at(u->task.doc.root, "id")),
              table_text(&r->table, buf_str(&notes)));
}

static void upcoming_minute_header(struct table *t)
{
    table_row(t, MINUTE_COLUMNS, "MINUTE", "FIRES");
}

static void upcoming_add_minute(struct rows *r, const json_t *minute)
{
    char fires[32];
    snprintf(fires, sizeof fires, "%lld", (long long)json_i64_at(minute, "fires", 0));
    table_row(&r->table, MINUTE_COLUMNS, table_text(&r->table, json_text_at(minute, "at")), fires);
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
    query_add_day(path, o, "from");
    query_add_day(path, o, "to");
    if (option_given(o, "queue"))
        query_add(path, "queue", option_get(o, "queue")->text);
    if (option_get(o, "minutes")->number)
        query_add(path, "group_by", S("minute"));
}

/* A task that is not SCHEDULED does not fire at the times that its schedule gives. */
static void upcoming_print_status(struct cli *cli, struct client *client, const json_t *task)
{
    cleanup_with(buf_release) struct buf end;
    buf_init(&end, NOTE_MAX);
    if (!str_eq(json_text_at(task, "status"), S("PAUSED")))
        return;
    task_pause_end_text(cli, client, task, &end);
    fprintf(cli->err, "belfry upcoming: the task is PAUSED: it does not fire until %s\n", buf_cstr(&end));
}

static const char *upcoming_none(const json_t *task, char out[WHY_TEXT])
{
    struct str status = json_text_at(task, "status");
    bool is_over = status.n && json_at(task, "completed_at") && !json_is_null(json_at(task, "completed_at"));
    snprintf(out, WHY_TEXT, "the task is " STR_FMT " and does not fire again", STR_ARG(str_utf8_cut(status, 40)));
    return is_over ? out : "there are no fires in that time";
}

/* Chooses the columns; returns how many. */
static size_t upcoming_choose_columns(struct cli *cli, struct upcoming_rows *r, bool minutes)
{
    struct str zone = json_text_at(r->task.doc.root, "time_zone");
    struct error ignored;
    r->rows.header = minutes ? upcoming_minute_header : upcoming_header;
    r->rows.add = minutes ? upcoming_add_minute : upcoming_add_row;
    if (minutes)
        return MINUTE_COLUMNS;
    r->rows.keep[0] = COLUMNS; /* NOTE */
    r->rows.keep[1] = 1;
    if (!cli->out_is_terminal || !zone.n || str_eq(zone, S("UTC")) ||
        zoneinfo_get(cli->zones, zone, &r->zone, &ignored))
        return COLUMNS;
    r->rows.header = upcoming_local_header;
    r->rows.add = upcoming_add_local_row;
    r->rows.keep[0] = LOCAL_COLUMNS;
    r->rows.keep[1] = 1;
    return LOCAL_COLUMNS;
}

static enum exit_code upcoming_print(struct cli *cli, const struct options *o, struct client *client, const char *id)
{
    struct upcoming_rows r = { 0 };
    cleanup_with(buf_release) struct buf path;
    buf_init(&path, QUERY_MAX);
    char task_path[PATH_BYTES], why[WHY_TEXT];
    snprintf(task_path, sizeof task_path, "/v1/tasks/%s", id ? id : "");
    struct client_request call = { .method = "GET", .path = task_path, .about = id };
    enum exit_code code = id ? client_call(client, &call, &r.task) : EXIT_DONE;
    if (code)
        return code;
    upcoming_write_path(o, id, &path);
    bool minutes = option_get(o, "minutes")->number;
    struct pages p = { .client = client, .path = buf_cstr(&path), .unlimited = id || minutes };
    p.member = minutes ? "minutes" : "upcoming";
    p.limit = minutes || id ? INT64_MAX : option_get(o, "count")->number; /* of one task, the server counts */
    size_t columns = upcoming_choose_columns(cli, &r, minutes);
    upcoming_print_status(cli, client, r.task.doc.root);
    code = rows_print(cli, o, &p, &r.rows, columns, upcoming_none(r.task.doc.root, why));
    client_answer_release(&r.task);
    tz_unref(r.zone);
    return code;
}

static enum exit_code command_upcoming_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    cleanup_with(ids_release) struct ids ids = { 0 };
    struct error e;
    if (upcoming_check(o, &e))
        return cli_fail(cli, "upcoming", &e, EXIT_USAGE);
    enum exit_code code = client_open(cli, o, &client);
    if (code == EXIT_DONE)
        code = ids_resolve(client, o, "/v1/tasks", &ids);
    return code ? code : upcoming_print(cli, o, client, ids.n ? ids.v[0] : NULL);
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "count", .letter = 'n', .type = OPTION_INT, .value = "N", .preset = "10", .min = 1, .max = 1000,
      .help = "number of fires; skipped ones are shown in addition" },
    { .flag = "from", .type = OPTION_DAY, .value = "TIME", .help = "from this time or date on; default: now" },
    { .flag = "to", .type = OPTION_DAY, .value = "TIME", .help = "without TASK: until this time or date; default: 1 h after --from" },
    { .flag = "queue", .type = OPTION_TEXT, .value = "QUEUE", .help = "without TASK: only tasks of this queue" },
    { .flag = "minutes", .type = OPTION_FLAG, .help = "without TASK: print the number of fires in each minute" },
};
/* clang-format on */

const struct command command_upcoming = {
    .name = "upcoming",
    .words = "[TASK]",
    .summary = "print the next fires of one task or of all tasks",
    .detail =
        "NOTE says why a fire is shifted or skipped. Times are UTC. Of one task with a time zone, a terminal also shows the local\n"
        "time, and NOTE says when the clocks have changed.\n"
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
