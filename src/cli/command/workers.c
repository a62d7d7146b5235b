/* belfry workers - lists the workers of a fleet. */
#include "cli/command/commands.h"
#include "cli/rows.h"
#include "cli/task_view.h"
#include "cli/time_text.h"
#include "cli/verbs.h"

enum { COLUMNS = 11, MACHINE_TEXT = 80 };

static void workers_header(struct table *t)
{
    table_row(t, COLUMNS, "NAME", "STATE", "RUNNING", "SLOTS", "QUEUES", "TENANTS", "PRIORITIES", "LABELS", "CPU",
              "MEMORY", "SEEN");
}

/* "a,b" for an array of strings, or `none` if it is empty. */
static const char *workers_list_text(struct table *t, const json_t *worker, const char *path, const char *none)
{
    cleanup_with(buf_release) struct buf all;
    buf_init(&all, TASK_TEXT_MAX);
    joined_text(worker, path, &all);
    return table_text(t, all.n ? buf_str(&all) : str_from(none));
}

/* "0-9"; "-": an older worker does not report it. */
static void workers_priorities_text(const json_t *worker, char out[MACHINE_TEXT])
{
    int64_t min = json_i64_at(worker, "about.priority_min", -1), max = json_i64_at(worker, "about.priority_max", -1);
    if (min < 0 || max < 0)
        snprintf(out, MACHINE_TEXT, "-");
    else if (min == max)
        snprintf(out, MACHINE_TEXT, "%lld", (long long)min);
    else
        snprintf(out, MACHINE_TEXT, "%lld-%lld", (long long)min, (long long)max);
}

/* "1.5/4": the load of the machine, and the cores for tasks. "35% of 16000 MB, 8000 for tasks". */
static void workers_machine_text(const json_t *worker, char cpu[MACHINE_TEXT], char memory[MACHINE_TEXT])
{
    const json_t *load = json_at(worker, "about.cpu.load");
    int64_t total = json_i64_at(worker, "about.memory.machine_mb", 0), own = json_i64_at(worker, "about.memory.mb", 0);
    int64_t used = json_i64_at(worker, "about.memory.used_mb", 0);
    snprintf(cpu, MACHINE_TEXT, "-");
    snprintf(memory, MACHINE_TEXT, "-");
    if (json_is_number(load))
        snprintf(cpu, MACHINE_TEXT, "%.1f/%g", json_number_value(load),
                 (double)json_i64_at(worker, "about.cpu.milli", 0) / 1000);
    if (total > 0 && own && own != total)
        snprintf(memory, MACHINE_TEXT, "%lld%% of %lld MB, %lld for tasks", (long long)(used * 100 / total),
                 (long long)total, (long long)own);
    else if (total > 0)
        snprintf(memory, MACHINE_TEXT, "%lld%% of %lld MB", (long long)(used * 100 / total), (long long)total);
}

static void workers_add_row(struct rows *r, const json_t *worker)
{
    char running[32], slots[32], priorities[MACHINE_TEXT], cpu[MACHINE_TEXT], memory[MACHINE_TEXT],
        seen[TIME_TEXT] = "-";
    struct table *t = &r->table;
    int64_t seen_ms;
    number_text(worker, "running", running);
    number_text(worker, "slots", slots);
    workers_priorities_text(worker, priorities);
    workers_machine_text(worker, cpu, memory);
    if (json_time_at(worker, "seen_at", &seen_ms))
        time_text_utc(seen_ms, seen);
    table_row(t, COLUMNS, table_text(t, json_text_at(worker, "name")), table_text(t, json_text_at(worker, "state")),
              running, slots, workers_list_text(t, worker, "about.queues", "all"),
              workers_list_text(t, worker, "about.tenants", "all"), priorities,
              workers_list_text(t, worker, "about.labels", "-"), cpu, memory, seen);
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
    struct rows r = { .header = workers_header, .add = workers_add_row, .keep = { 1 } };
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
        "A worker reports itself every 2 s. After 10 s without a report its state is silent: it was killed, or is cut off.\n"
        "QUEUES, TENANTS, PRIORITIES and LABELS say which tasks it runs. CPU is the load of its machine and the cores it gives\n"
        "to tasks. MEMORY is how much of the memory of its machine is in use, and how much it gives to tasks if not all.\n"
        "\n"
        "Examples:\n"
        "  belfry workers\n"
        "  belfry workers --all --json\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_workers_run,
};
