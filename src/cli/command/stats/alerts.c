/* belfry alerts - prints the alerts with their current values. */
#include "base/duration.h"
#include "cli/client.h"
#include "cli/command/commands.h"
#include "cli/rows.h"
#include "cli/time_text.h"

enum { COLUMNS = 8 };

static const char detail[] =
    "The alerts are those of deploy/monitoring, computed by the server from the figures of past minutes: no Prometheus is\n"
    "needed. FIRES says on which side of which limit VALUE must be. An alert is pending while that holds, and fires when it\n"
    "has held for FOR. docs/RUNBOOK.md says what each means and how to mend it. BelfryWatchdog always fires. The key must be one of the\n"
    "tenant 'default'.\n"
    "\n"
    "Examples:\n"
    "  belfry alerts\n"
    "  belfry alerts --firing\n"
    "  belfry alerts --json\n";

static void alerts_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "STATE", "SEVERITY", "VALUE", "FIRES", "FOR", "SINCE", "SUMMARY");
}

static void alerts_add_row(struct rows *r, const json_t *alert)
{
    char wait[DURATION_TEXT], since[TIME_TEXT] = "-";
    struct str fires = json_text_at(alert, "fires");
    int64_t ms;
    duration_format(json_i64_at(alert, "for_seconds", 0) * 1000, wait);
    if (json_time_at(alert, "since", &ms))
        time_text_utc(ms, since);
    table_row(
        &r->table, COLUMNS, table_text(&r->table, json_text_at(alert, "name")),
        table_text(&r->table, json_text_at(alert, "state")), table_text(&r->table, json_text_at(alert, "severity")),
        table_text(&r->table, json_text_at(alert, "value_text")), table_text(&r->table, fires.n ? fires : S("always")),
        wait, since, table_text(&r->table, json_text_at(alert, "summary")));
}

static bool alerts_is_firing(void *context, const json_t *alert)
{
    (void)context;
    return str_eq(json_text_at(alert, "state"), S("firing"));
}

static enum exit_code command_alerts_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *client = NULL;
    enum exit_code code = client_open(cli, o, &client);
    if (code)
        return code;
    struct pages p = { .client = client,
                       .path = "/v1/alerts",
                       .member = "alerts",
                       .limit = INT64_MAX,
                       .unlimited = true,
                       .wanted = option_get(o, "firing")->number ? alerts_is_firing : NULL };
    struct rows r = { .header = alerts_header, .add = alerts_add_row, .keep = { 1, 2, 4 } };
    return rows_print(cli, o, &p, &r, COLUMNS, "no alert fires");
}

/* clang-format off */
static const struct option options[] = {
    { .flag = "firing", .type = OPTION_FLAG, .help = "only alerts that fire" },
};
/* clang-format on */

const struct command command_alerts = {
    .name = "alerts",
    .words = "",
    .summary = "print the alerts with their current values",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_alerts_run,
};
