/* belfry node - lists the nodes that share a store. */
#include "cli/command/commands.h"
#include "cli/rows.h"
#include "cli/time_text.h"
#include "cli/verbs.h"

enum { COLUMNS = 9 };

static const char detail[] =
    "  list            list all nodes of the store, including those that died within the last hour\n"
    "\n"
    "OFFSET is the store's clock minus the node's clock; nodes use the store's clock. LAG is how long the oldest due task\n"
    "has waited.\n"
    "\n"
    "Examples:\n"
    "  belfry node list\n"
    "  belfry node list --json\n";

static void node_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "STATE", "LEADER", "PARTITIONS", "RUNNING", "LAG", "OFFSET", "VERSION", "SINCE");
}

static void node_ms_text(const json_t *node, const char *path, char out[32])
{
    char number[32];
    number_text(node, path, number);
    bool none = number[0] == '-' && !number[1];
    snprintf(out, 32, "%.24s%s", number, none ? "" : " ms");
}

static void node_add_row(struct rows *r, const json_t *node)
{
    char partitions[32], running[32], lag[32], offset[32];
    char since[TIME_TEXT] = "-";
    int64_t since_ms;
    bool died = json_time_at(node, "died_at", &since_ms);
    number_text(node, "partitions", partitions);
    number_text(node, "running", running);
    node_ms_text(node, "lag_ms", lag);
    node_ms_text(node, "clock_offset_ms", offset);
    if (died || json_time_at(node, "joined_at", &since_ms))
        time_text_utc(since_ms, since);
    table_row(&r->table, COLUMNS, table_text(&r->table, json_text_at(node, "name")),
              table_text(&r->table, json_text_at(node, "state")), json_is_true(json_at(node, "leader")) ? "yes" : "-",
              partitions, running, lag, offset, table_text(&r->table, json_text_at(node, "version")), since);
}

static enum exit_code node_list(struct verb_work *w)
{
    struct pages p = {
        .client = w->client, .path = "/v1/scheduler/status", .member = "nodes", .limit = INT64_MAX, .unlimited = true
    };
    struct rows r = { .header = node_header, .add = node_add_row };
    return rows_print(w->cli, w->o, &p, &r, COLUMNS, "no node has joined yet");
}

static enum exit_code command_node_run(struct cli *cli, const struct options *o)
{
    static const struct verb verbs[] = { { "list", NULL, false, false, node_list } };
    return verbs_run(cli, o, verbs, array_count(verbs));
}

const struct command command_node = {
    .name = "node",
    .words = "list",
    .summary = "list the nodes that share the store",
    .detail = detail,
    .run = command_node_run,
};
