/* belfry next - prints when a schedule fires. Uses core only: no server and no store. */
#include <stdlib.h>

#include "base/duration.h"
#include "base/hash.h"
#include "base/json/jsonw.h"
#include "base/rfc3339.h"
#include "cli/command/commands.h"
#include "cli/command/next/calendar_file.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/time/recurrence_shown.h"

enum { COUNT_MAX = 100000, OUT_MAX = 4 << 20, FLUSH_AT = 64 * 1024, LOCAL_TEXT = 48, PAGE_CELLS = 3 * 500 };

static const struct option options[] = {
    { .flag = "tz", .type = OPTION_TEXT, .value = "ZONE", .preset = "UTC", .help = "time zone, such as Europe/Berlin" },
    { .flag = "from",
      .type = OPTION_DAY,
      .value = "TIME",
      .help = "print fires at or after this time or date (its first moment in UTC); default: now" },
    { .flag = "to",
      .type = OPTION_DAY,
      .value = "TIME",
      .help = "print fires before this time or date; without --count, all of them" },
    { .flag = "count",
      .letter = 'n',
      .type = OPTION_INT,
      .value = "N",
      .preset = "5",
      .min = 1,
      .max = COUNT_MAX,
      .help = "number of fires to print" },
    { .flag = "dst-gap",
      .type = OPTION_CHOICE,
      .value = "POLICY",
      .choices = "shift|skip",
      .help = "when the clock is set forward over a fire: shift it to the first valid time after the gap, or skip it" },
    { .flag = "dst-overlap",
      .type = OPTION_CHOICE,
      .value = "POLICY",
      .choices = "first|last|both",
      .help = "when the clock is set back and a local time occurs twice: which of the two fires" },
    { .flag = "every",
      .type = OPTION_DURATION,
      .value = "DURATION",
      .min = 1,
      .max = DURATION_MAX_MS,
      .help = "a fixed interval instead of an expression: 90s, 15m, 1h30m" },
    { .flag = "calendar",
      .type = OPTION_TEXT,
      .value = "FILE",
      .help =
          "fire only on business days: an iCalendar file of holidays, or the JSON that 'belfry calendar show --json' prints" },
    { .flag = "calendar-policy",
      .type = OPTION_CHOICE,
      .value = "POLICY",
      .choices = "skip|next-day|previous-day",
      .help = "with --calendar: what happens to a fire on any other day; default: skip" },
    { .flag = "no-weekends",
      .type = OPTION_FLAG,
      .help = "with --calendar: Saturdays and Sundays are no business days" },
    { .flag = "start",
      .type = OPTION_TIME,
      .value = "TIME",
      .help = "no fire before this time; with --every, the first fire (default: --from)" },
    { .flag = "end", .type = OPTION_TIME, .value = "TIME", .help = "no fire after this time" },
    { .flag = "spread",
      .type = OPTION_DURATION,
      .value = "DURATION",
      .max = DURATION_MAX_MS,
      .help = "delay each fire by a fixed part of this, which depends on --id" },
    { .flag = "id",
      .type = OPTION_TEXT,
      .value = "ID",
      .preset = "",
      .help = "id of the task, which decides H and the delay of --spread" },
    { .flag = "skips", .type = OPTION_FLAG, .help = "with --json: also print skipped fires, as \"skipped\": true" },
};

static const char detail[] =
    "An expression has five fields, or six with seconds in front:\n"
    "  [second] minute hour day-of-month month day-of-week\n"
    "  *  5  1-5  1,15  */10  10-40/10  5/15  MON-FRI  JAN  ?  @hourly @daily @weekly @monthly @yearly\n"
    "  day of month: L (last), L-2, 15W (weekday nearest to the 15th), LW;  day of week: FRI#2, FRIL\n"
    "  H, H/15, H(0-29): a fixed value that depends on the task's id\n"
    "If both day fields are restricted, a day matches if either does.\n"
    "\n"
    "When daylight saving time changes, an expression with a fixed hour and minute fires once a day: in spring after the gap, in\n"
    "autumn at the first of the two equal local times. An expression with *, a range or a step in hour or minute follows the\n"
    "clock: no fires in the gap, and fires at both equal local times. --dst-gap and --dst-overlap override this.\n"
    "\n"
    "Examples:\n"
    "  belfry next '0 8 * * MON-FRI' --tz Europe/Berlin\n"
    "  belfry next '30 2 * * *' --tz Europe/Berlin --from 2026-03-28 --count 3\n"
    "  belfry next 5m\n"
    "  belfry next --every 90m --start 2026-01-01T00:00:00Z --json\n"
    "  belfry next '0 9 LW * *' --to 2027-01-01\n"
    "\n"
    "A calendar of the server has no file: 'belfry upcoming TASK' shows what it makes of a task, POST /v1/preview of any schedule.\n"
    "On a terminal, prints a table; otherwise one UTC time a line.\n";

/* The parsed options. */
struct next_query {
    struct recurrence rule;
    struct tz *zone;
    struct next_calendar calendar;
    struct buf expression; /* empty for an interval */
    int64_t from_ms, to_ms;
    int64_t count;
    bool json, skips;
};

static void next_query_release(struct next_query *q)
{
    tz_unref(q->zone);
    next_calendar_release(&q->calendar);
    buf_release(&q->expression);
}

/* A single word such as 5m: no expression has one field, except those that begin with @. */
static bool next_is_interval(const struct options *o, int64_t *ret_ms)
{
    struct error ignored;
    int64_t ms;
    if (o->word_count != 1 || duration_parse(o->words[0], &ms, &ignored) || ms < 1 || ms > DURATION_MAX_MS)
        return false;
    *ret_ms = ms;
    return true;
}

/* An expression without quotes arrives as several arguments: joins them. */
static enum err next_read_expression(const struct options *o, struct next_query *q, struct error *e)
{
    bool by_word = next_is_interval(o, &q->rule.interval_ms), every = by_word || option_given(o, "every");
    if (option_given(o, "every") && o->word_count)
        return error_field(e, "--every", "and an expression exclude each other; give only one of them");
    if (every && (option_given(o, "dst-gap") || option_given(o, "dst-overlap")))
        return error_field(
            e, "--every",
            "counts elapsed time, which has no gap and no overlap; leave out --dst-gap and --dst-overlap");
    if (!every && !o->word_count)
        return error_set(e, ERR_INVALID, "an expression is missing: give one in quotes, or use --every");
    for (size_t i = 0; !by_word && i < o->word_count; i++) {
        buf_text(&q->expression, i ? " " : "");
        buf_add(&q->expression, o->words[i]);
    }
    if (q->expression.full)
        return error_field(e, "expression", "is too long; at most %d characters are allowed", CRON_TEXT_MAX);
    if (every && !by_word)
        q->rule.interval_ms = option_get(o, "every")->number;
    q->rule.kind = every ? RECUR_INTERVAL : RECUR_CRON;
    return every ? ERR_OK : cron_parse(buf_str(&q->expression), q->rule.hash, &q->rule.cron, e);
}

static int64_t next_time_or(const struct options *o, const char *name, int64_t otherwise)
{
    return option_given(o, name) ? option_get(o, name)->number : otherwise;
}

static enum err next_read_zone(struct cli *cli, const struct options *o, struct next_query *q, struct error *e)
{
    enum err rc = zoneinfo_get(cli->zones, option_get(o, "tz")->text, &q->zone, e);
    if (rc != ERR_INVALID)
        return rc;
    e->field[0] = '\0'; /* it names the API field time_zone */
    return error_wrap(e, "--tz");
}

/* The table always shows skips. Plain lines cannot show them, because a skip would look like a fire. */
static enum err next_read_output(struct cli *cli, const struct options *o, struct next_query *q, struct error *e)
{
    q->json = option_get(o, "json")->number;
    q->skips = option_get(o, "skips")->number;
    if (q->skips && !q->json)
        return error_field(e, "--skips", "requires --json; the table on a terminal always shows skips");
    if (!q->json)
        q->skips = cli->out_is_terminal;
    return ERR_OK;
}

static enum err next_read_query(struct cli *cli, const struct options *o, struct next_query *q, struct error *e)
{
    q->rule.hash = hash_bytes(HASH_STABLE, option_get(o, "id")->text);
    if (next_read_expression(o, q, e) || next_read_zone(cli, o, q, e) || next_read_output(cli, o, q, e))
        return e->code;
    q->from_ms = next_time_or(o, "from", clock_wall_ms(cli->clock));
    q->to_ms = next_time_or(o, "to", INT64_MAX);
    q->count = option_given(o, "to") && !option_given(o, "count") ? INT64_MAX : option_get(o, "count")->number;
    q->rule.zone = q->zone;
    q->rule.start_ms = next_time_or(o, "start", q->rule.kind == RECUR_INTERVAL ? q->from_ms : 0);
    q->rule.end_ms = next_time_or(o, "end", INT64_MAX);
    q->rule.spread_ms = option_given(o, "spread") ? option_get(o, "spread")->number : 0;
    if (option_given(o, "dst-gap"))
        q->rule.gap = (enum dst_gap)(DST_GAP_SHIFT + option_get(o, "dst-gap")->number);
    if (option_given(o, "dst-overlap"))
        q->rule.repeat = (enum dst_repeat)(DST_REPEAT_FIRST + option_get(o, "dst-overlap")->number);
    return next_calendar_read(cli, o, &q->calendar, &q->rule, e);
}

/* 2026-03-29T03:00:00.000+02:00 */
static void next_local_time(const struct next_query *q, int64_t ms, char out[LOCAL_TEXT])
{
    int64_t second = floor_div(ms, 1000);
    int offset_s = tz_span_at(q->zone, second).offset_s;
    struct civil c = civil_of(second + offset_s);
    snprintf(out, LOCAL_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%03d%c%02d:%02d", c.date.year, c.date.month, c.date.day,
             c.hour, c.minute, c.second, (int)(ms - second * 1000), offset_s < 0 ? '-' : '+', abs(offset_s) / HOUR_S,
             abs(offset_s) % HOUR_S / MINUTE_S);
}

/* A skipped fire has no local time with a zone, only the nominal time of the rule. */
static void next_table_time(const struct next_query *q, const struct occurrence *f, char out[TIME_TEXT])
{
    if (f->fires)
        time_text_local(q->zone, f->at_ms, out);
    else
        time_text_wall(f->nominal_local, 0, "", out);
}

static void next_add_json(const struct next_query *q, const struct occurrence *f, const char *note, struct buf *out)
{
    char local[LOCAL_TEXT];
    next_local_time(q, f->at_ms, local);
    struct jw w;
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_time(&w, "at", f->at_ms);
    jw_kv_cstr(&w, "local", local);
    jw_kv_cstr(&w, "note", note[0] ? note : NULL);
    if (!f->fires)
        jw_kv_bool(&w, "skipped", true);
    jw_object_end(&w);
    buf_char(out, '\n');
}

static void next_add_line(const struct next_query *q, const struct occurrence *f, struct table *t, struct buf *out)
{
    cleanup_with(buf_release) struct buf note;
    buf_init(&note, 1024);
    occurrence_explain(&q->rule, f, &note);
    char utc[RFC3339_TEXT + 1], local[TIME_TEXT];
    rfc3339_format(f->at_ms, utc);
    if (t) {
        next_table_time(q, f, local);
        table_row(t, 3, local, f->fires ? utc : "-", buf_cstr(&note));
    } else if (q->json) {
        next_add_json(q, f, buf_cstr(&note), out);
    } else {
        buf_printf(out, "%s\n", utc);
    }
}

/* Prints the collected output when it is large, so that a long answer neither waits nor fills the memory. False: the
 * output is closed. */
static bool next_flush(struct cli *cli, struct table *t, struct buf *out)
{
    if (t && t->count >= PAGE_CELLS) {
        table_print(t, out);
        table_clear(t);
    }
    if (out->n <= FLUSH_AT)
        return true;
    bool taken = cli_print(cli, out);
    buf_reset(out);
    return taken;
}

/* Returns the number of fires. t NULL: prints lines, not a table. */
static int64_t next_print_fires(struct cli *cli, const struct next_query *q, struct table *t, struct buf *out)
{
    int64_t from_ms = q->from_ms, fires = 0;
    bool is_first = true;
    struct occurrence f;
    while (fires < q->count && from_ms < q->to_ms) {
        bool found = q->skips ? recurrence_next_shown(&q->rule, from_ms, &f)
                              : recurrence_next_before(&q->rule, from_ms, q->to_ms, &f);
        if (!found || f.at_ms >= q->to_ms)
            break;
        if (t && is_first)
            table_row(t, 3, "LOCAL", "UTC", "NOTE");
        is_first = false;
        next_add_line(q, &f, t, out);
        fires += f.fires;
        from_ms = occurrence_behind(&q->rule, &f);
        if (!next_flush(cli, t, out))
            return fires;
    }
    if (t)
        table_print(t, out);
    cli_print(cli, out);
    return fires;
}

static void next_describe(const struct next_query *q, struct buf *out)
{
    char every[DURATION_TEXT];
    if (q->rule.kind == RECUR_CRON) {
        cron_describe(buf_str(&q->expression), out);
    } else {
        duration_format(q->rule.interval_ms, every);
        buf_printf(out, "Every %s", every);
    }
    buf_printf(out, ", %s\n\n", tz_name(q->zone));
}

static enum exit_code command_next_run(struct cli *cli, const struct options *o)
{
    cleanup_with(next_query_release) struct next_query q = { 0 };
    buf_init(&q.expression, 4 * CRON_TEXT_MAX);
    struct error e;
    if (next_read_query(cli, o, &q, &e))
        return cli_fail(cli, "next", &e, e.code == ERR_INVALID ? EXIT_USAGE : EXIT_REFUSED);

    cleanup_with(buf_release) struct buf out;
    buf_init(&out, OUT_MAX);
    cleanup_with(table_release) struct table table;
    table_init(&table, 3);
    bool as_table = cli->out_is_terminal && !q.json;
    if (as_table)
        next_describe(&q, &out);
    int64_t fires = next_print_fires(cli, &q, as_table ? &table : NULL, &out);
    if (!fires && !cli->out_errno)
        fputs("belfry next: there are no fires in that time\n", cli->err);
    if (q.rule.kind == RECUR_CRON && q.rule.cron.uses_hash && !option_given(o, "id"))
        fputs("belfry next: H depends on the task's id; give it with --id\n", cli->err);
    return EXIT_DONE;
}

const struct command command_next = {
    .name = "next",
    .words = "EXPR",
    .summary = "print the next fires of a cron expression or an interval; needs no server",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_next_run,
};
