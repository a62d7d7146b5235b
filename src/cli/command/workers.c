/* belfry workers - lists the workers of a fleet. */
#include "cli/command/commands.h"
#include "cli/rows.h"
#include "cli/verbs.h"
#include "cli/when.h"

enum { COLUMNS = 9 };

static void workers_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "STATE", "RUNNING", "SLOTS", "QUEUES", "LABELS", "CPU", "MEMORY", "SEEN");
}

/* Writes "a,b" for an array of strings, or `none` if it is empty. */
static void workers_list_text(const json_t *worker, const char *path, const char *none, char out[CELL_TEXT])
{
    cleanup_with(buf_release) struct buf all;
    buf_init(&all, CELL_TEXT * 4);
    size_t i;
    json_t *word;
    json_array_foreach (json_at(worker, path), i, word)
        buf_printf(&all, "%s%s", i ? "," : "", json_is_string(word) ? json_string_value(word) : "?");
    table_cell(all.n ? buf_str(&all) : str_from(none), out);
}

static void workers_machine_text(const json_t *worker, char cpu[40], char memory[40])
{
    const json_t *load = json_at(worker, "about.cpu.load");
    int64_t total = json_i64_at(worker, "about.memory.machine_mb", 0);
    snprintf(cpu, 40, "-");
    snprintf(memory, 40, "-");
    if (json_is_number(load))
        snprintf(cpu, 40, "%.1f/%g", json_number_value(load), (double)json_i64_at(worker, "about.cpu.milli", 0) / 1000);
    if (total)
        snprintf(memory, 40, "%lld%% of %lld MB",
                 (long long)(json_i64_at(worker, "about.memory.used_mb", 0) * 100 / total), (long long)total);
}

static void workers_add_row(struct rows *r, const json_t *worker)
{
    char name[CELL_TEXT], state[CELL_TEXT], queues[CELL_TEXT], labels[CELL_TEXT], running[32], slots[32], cpu[40],
        memory[40], seen[WHEN_TEXT] = "-";
    int64_t seen_ms;
    number_text(worker, "running", running);
    number_text(worker, "slots", slots);
    workers_list_text(worker, "about.queues", "all", queues);
    workers_list_text(worker, "about.labels", "-", labels);
    workers_machine_text(worker, cpu, memory);
    if (json_time_at(worker, "seen_at", &seen_ms))
        when_utc(seen_ms, seen);
    table_row(&r->table, COLUMNS, table_cell(json_text_at(worker, "name"), name),
              table_cell(json_text_at(worker, "state"), state), running, slots, queues, labels, cpu, memory, seen);
}

static enum exit_code command_workers_run(struct cli *cli, const struct options *o)
{
    cleanup_with(client_freep) struct client *c = NULL;
    struct error e;
    if (o->word_count) {
        error_set(&e, ERR_INVALID, "takes no arguments; --all also lists workers that are gone");
        return cli_fail(cli, "workers", &e, EXIT_USAGE);
    }
    enum exit_code rc = client_open(cli, o, &c);
    if (rc)
        return rc;
    bool all = option_get(o, "all")->number;
    struct pages p = {
        .client = c, .path = all ? "/v1/workers?all=true" : "/v1/workers", .member = "workers", .limit = INT64_MAX
    };
    struct rows r = { .header = workers_header, .add = workers_add_row };
    return rows_print(cli, o, &p, &r, COLUMNS,
                      all ? "there are no workers" : "there are no workers; start one with 'belfry worker'");
}

static const struct option options[] = {
    { .flag = "all", .type = OPTION_FLAG, .help = "also list workers that left, or have been silent for over 1 h" },
};

const struct command command_workers = {
    .name = "workers",
    .words = "",
    .summary = "list the workers of a fleet",
    .detail =
        "A worker reports itself every 2 s. After 10 s without a report its state is silent: it was killed, or is cut off. CPU\n"
        "is the load of its machine and the cores it gives to tasks. MEMORY is the used memory of its machine.\n"
        "\n"
        "Examples:\n"
        "  belfry workers\n"
        "  belfry workers --all --json\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_workers_run,
};
