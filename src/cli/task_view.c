#include "cli/task_view.h"

#include "base/duration.h"
#include "cli/when.h"
#include "core/time/cron.h"

static void task_view_cell(struct str text, char out[CELL_TEXT])
{
    table_cell(text.n ? text : S("-"), out);
}

void schedule_text(const json_t *task, char out[CELL_TEXT])
{
    struct str cron = json_text_at(task, "cron_expression"), zone = json_text_at(task, "time_zone");
    int64_t every_s = json_i64_at(task, "interval_seconds", 0);
    char span[DURATION_TEXT];
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 4096);
    if (cron.n) {
        buf_add(&text, cron);
        if (zone.n && !str_eq(zone, S("UTC")))
            buf_printf(&text, " " STR_FMT, STR_ARG(zone));
    } else if (every_s > 0 && every_s <= DURATION_MAX_MS / 1000) {
        duration_format(every_s * 1000, span);
        buf_printf(&text, "every %s", span);
    } else {
        buf_text(&text, "once");
    }
    task_view_cell(buf_str(&text), out);
}

void target_text(const json_t *task, char out[CELL_TEXT])
{
    struct str kind = json_text_at(task, "target_type"), url = json_text_at(task, "target_config.url");
    struct str method = json_text_at(task, "target_config.method");
    struct str broker = json_text_at(task, "target_config.broker"),
               to = json_text_at(task, "target_config.destination");
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 64 * 1024);
    if (url.n)
        buf_printf(&text, STR_FMT " " STR_FMT, STR_ARG(method.n ? method : S("POST")), STR_ARG(url));
    else if (broker.n)
        buf_printf(&text, "message to " STR_FMT " " STR_FMT, STR_ARG(broker), STR_ARG(to));
    else
        buf_add(&text, kind);
    task_view_cell(buf_str(&text), out);
}

void waiting_text(const json_t *task, char out[CELL_TEXT])
{
    char key[CELL_TEXT];
    struct str kind = json_text_at(task, "waiting_for.kind");
    out[0] = '\0';
    if (str_eq(kind, S("overlap")))
        snprintf(out, CELL_TEXT, "its previous run");
    else if (kind.n)
        snprintf(out, CELL_TEXT, "a slot of key '%s'", table_cell(json_text_at(task, "waiting_for.key"), key));
}

void moment_text(const json_t *object, const char *path, int64_t now_ms, char out[CELL_TEXT])
{
    int64_t at_ms;
    char relative[WHEN_TEXT], utc[WHEN_TEXT];
    if (!json_time_at(object, path, &at_ms)) {
        task_view_cell(S("-"), out);
        return;
    }
    when_relative(at_ms, now_ms, relative);
    when_utc(at_ms, utc);
    snprintf(out, CELL_TEXT, "%s, %s", relative, utc);
}

static void task_view_describe_cron(const json_t *task, struct buf *out)
{
    struct str cron = json_text_at(task, "cron_expression"), zone = json_text_at(task, "time_zone");
    struct cron parsed;
    struct error ignored;
    char shown[CELL_TEXT];
    if (!cron.n || cron_parse(cron, 0, &parsed, &ignored))
        return;
    cron_describe(cron, out);
    buf_printf(out, ", %s\n", table_cell(zone.n ? zone : S("UTC"), shown));
}

void next_fire_lines(struct cli *cli, const json_t *task, struct buf *out)
{
    cleanup_with(tz_unrefp) struct tz *zone = NULL;
    struct str zone_name = json_text_at(task, "time_zone");
    int64_t at_ms;
    struct error ignored;
    char relative[WHEN_TEXT], utc[WHEN_TEXT], local[WHEN_TEXT];
    task_view_describe_cron(task, out);
    if (!json_time_at(task, "next_execution", &at_ms))
        return;
    when_relative(at_ms, clock_wall_ms(cli->clock), relative);
    when_utc(at_ms, utc);
    if (!zone_name.n || str_eq(zone_name, S("UTC")) || zoneinfo_get(cli->zones, zone_name, &zone, &ignored)) {
        buf_printf(out, "Fires %s: %s\n", relative, utc);
        return;
    }
    when_local(zone, at_ms, local);
    buf_printf(out, "Fires %s: %s (%s)\n", relative, local, utc);
}

void execution_header(struct table *t)
{
    table_row(t, EXECUTION_COLUMNS, "WHEN", "ATTEMPT", "STATUS", "HTTP", "DELAY", "TOOK", "ERROR");
}

static void execution_number_text(int64_t number, char out[24])
{
    if (number > 0)
        snprintf(out, 24, "%lld", (long long)number);
    else
        snprintf(out, 24, "-");
}

static void execution_duration_text(const json_t *x, char out[WHEN_TEXT])
{
    int64_t from_ms, to_ms;
    if (json_time_at(x, "started_at", &from_ms) && json_time_at(x, "completed_at", &to_ms))
        when_took(to_ms - from_ms, out);
    else
        snprintf(out, WHEN_TEXT, "-");
}

enum { DELAY_TEXT = WHEN_TEXT + 16 };

static void execution_delay_text(const json_t *x, char out[DELAY_TEXT])
{
    int64_t delay_ms = json_i64_at(x, "delay_ms", -1);
    struct str cause = json_text_at(x, "delay_cause");
    char took[WHEN_TEXT] = "-";
    if (delay_ms >= 0)
        when_took(delay_ms, took);
    snprintf(out, DELAY_TEXT, "%s%s%.*s", took, cause.n ? " " : "", (int)min_of(cause.n, (size_t)12), cause.p);
}

void execution_row(struct table *t, const json_t *x)
{
    char when[WHEN_TEXT] = "-", attempt[24], status[CELL_TEXT], http[24], delay[DELAY_TEXT], took[WHEN_TEXT],
         error[CELL_TEXT];
    int64_t at_ms;
    if (json_time_at(x, "started_at", &at_ms) || json_time_at(x, "scheduled_for", &at_ms))
        when_utc(at_ms, when);
    execution_number_text(json_i64_at(x, "attempt_number", 0), attempt);
    execution_number_text(json_i64_at(x, "http_status", 0), http);
    execution_delay_text(x, delay);
    execution_duration_text(x, took);
    task_view_cell(json_text_at(x, "status"), status);
    table_cell(json_text_at(x, "error_message"), error);
    table_row(t, EXECUTION_COLUMNS, when, attempt, status, http, delay, took, error);
}

void joined_text(const json_t *object, const char *path, char out[CELL_TEXT])
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, 4096);
    for (size_t i = 0; i < json_count_at(object, path); i++) {
        char at[64];
        snprintf(at, sizeof at, "%s[%zu]", path, i);
        struct str word = json_text_at(object, at);
        buf_printf(&text, "%s" STR_FMT, i ? "," : "", STR_ARG(word));
    }
    table_cell(buf_str(&text), out);
}
