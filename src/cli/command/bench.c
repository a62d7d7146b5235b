/* belfry bench - runs a benchmark scenario against a server process of its own, on a fresh data directory. Each
 * scenario is a row of a table. Figures are printed as a table, or with --json as one JSON object. */
#include <stdlib.h>
#include <unistd.h>

#include "base/date.h"
#include "base/json/jsonw.h"
#include "bench/scenario.h"
#include "cli/command/commands.h"
#include "cli/table.h"
#include "server/settings/store_url.h"

enum { SINGLE_CONNECTIONS = 64, STORE_URL_MAX = 4096 };

/* ---- scenarios ---- */

static enum err bench_add_creates(struct bench *b, const char *name, struct bench_workload *w, size_t connections,
                                  struct error *e)
{
    double rate;
    int64_t before_us = bench_server_cpu_us(&b->server);
    if (bench_create_tasks(b, w, connections, &rate, e))
        return e->code;
    bench_add_figure(b, name, "tasks/s", rate);
    bench_add_figure(b, "  server CPU", "us/task",
                     (double)(bench_server_cpu_us(&b->server) - before_us) / (double)w->tasks);
    return ERR_OK;
}

static enum err bench_create(struct bench *b, struct error *e)
{
    struct bench_workload single = { .tasks = bench_task_count(b, 100000),
                                     .per_request = 1,
                                     .due_ms = bench_ms_from_now(b, 30 * DAY_MS) };
    struct bench_workload batch = { .tasks = 4 * single.tasks, .per_request = BENCH_BATCH, .due_ms = single.due_ms };
    if (bench_add_creates(b, "single, 64 connections", &single, SINGLE_CONNECTIONS, e))
        return e->code;
    return bench_add_creates(b, "batches of 1000", &batch, BATCH_CONNECTIONS, e);
}

static enum err bench_noop(struct bench *b, struct error *e)
{
    struct burst_result all;
    if (bench_run_burst(b, bench_task_count(b, 300000), &all, e))
        return e->code;
    bench_add_burst(b, "claim, run and settle", &all);
    if (b->place.nodes > 1)
        bench_add_figure(b, "  claim conflicts", "tasks", (double)bench_server_conflicts(&b->server));
    return ERR_OK;
}

static enum err bench_burst(struct bench *b, struct error *e)
{
    size_t n = bench_task_count(b, 10000);
    struct burst_result all;
    if (bench_run_burst(b, n, &all, e))
        return e->code;
    bench_add_burst(b, "claim, run and settle", &all);
    bench_add_lag(b, "", n);
    return ERR_OK;
}

#define NOOP "\"target_type\":\"NOOP\""

static const struct bench_scenario {
    const char *name;
    size_t words; /* its name, and a part */
    const char *target;
    enum err (*run)(struct bench *b, struct error *e);
    enum err (*check)(const struct bench *b, struct error *e); /* of its options, before a server starts; NULL: none */
} scenarios[] = {
    { "create", 1, NOOP, bench_create, NULL },
    { "noop", 1, NOOP, bench_noop, NULL },
    { "lag", 1, NOOP, bench_lag, NULL },
    { "burst", 1, NOOP, bench_burst, NULL },
    { "webhook", 1, NULL, bench_webhook, NULL },
    { "pending", 1, NOOP, bench_pending, NULL },
    { "fairness", 1, NULL, bench_fairness, bench_fairness_check },
    { "workflow", 2, NULL, bench_workflow, bench_workflow_check },
};

/* ---- the command ---- */

/* An indented figure belongs to the figure above it: its JSON key begins with that name. */
static void bench_print_json(const struct bench *b, const char *scenario, struct buf *out)
{
    struct jw w;
    const char *above = "";
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_cstr(&w, "scenario", scenario);
    for (size_t i = 0; i < b->figure_count; i++) {
        const struct bench_figure *f = &b->figures[i];
        char key[160];
        if (f->name[0] == ' ')
            snprintf(key, sizeof key, "%s: %s (%s)", above, f->name + 2, f->unit);
        else
            snprintf(key, sizeof key, "%s (%s)", above = f->name, f->unit);
        jw_key(&w, key);
        jw_f64(&w, f->value);
    }
    jw_object_end(&w);
    buf_char(out, '\n');
}

static void bench_print_table(const struct bench *b, const char *scenario, struct buf *out)
{
    cleanup_with(table_release) struct table t;
    table_init(&t, 3);
    table_row(&t, 3, scenario, "FIGURE", "UNIT");
    for (size_t i = 0; i < b->figure_count; i++) {
        char value[40];
        snprintf(value, sizeof value, b->figures[i].value < 100 ? "%.2f" : "%.0f", b->figures[i].value);
        table_row(&t, 3, b->figures[i].name, value, b->figures[i].unit);
    }
    table_print(&t, out);
}

static void bench_print_figures(struct bench *b, const char *scenario)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 64 * 1024);
    if (option_get(b->options, "json")->number)
        bench_print_json(b, scenario, &out);
    else
        bench_print_table(b, scenario, &out);
    cli_print(b->cli, &out);
}

/* Adds a prefix of its own for all names in the queue or events server, so that other data there is not touched. */
static void bench_add_prefix(struct buf *url)
{
    if (!url->n || strstr(buf_cstr(url), "prefix="))
        return;
    buf_printf(url, "%sprefix=belfry-bench-%d", strchr(buf_cstr(url), '?') ? "&" : "?", (int)getpid());
}

static enum err bench_read_fleet(struct bench *b, struct fleet_urls *fleet, struct error *e)
{
    size_t workers = (size_t)option_get(b->options, "workers")->number;
    if (fleet_urls_read(b->options, fleet, e))
        return e->code;
    if (!fleet->queue.n != !fleet->events.n)
        return error_field(e, fleet->queue.n ? "--events" : "--queue",
                           "is missing: a fleet needs --queue and --events");
    if (!fleet->queue.n && option_given(b->options, "workers"))
        return error_field(e, "--workers", "requires --queue and --events");
    bench_add_prefix(&fleet->queue);
    bench_add_prefix(&fleet->events);
    b->place.fleet = fleet->queue.n ? fleet : NULL;
    b->place.workers = fleet->queue.n ? workers : 0;
    return ERR_OK;
}

static enum err bench_read_setup(struct bench *b, struct buf *store, struct error *e)
{
    const struct options *o = b->options;
    if (store_url_read(o, "store", store, e))
        return e->code;
    b->place = (struct bench_setup){ .dir = option_given(o, "dir") ? option_get(o, "dir")->text.p : NULL,
                                     .store = store->n ? buf_cstr(store) : NULL,
                                     .nodes = (size_t)option_get(o, "nodes")->number,
                                     .tls = option_get(o, "tls")->number };
    if (option_given(o, "stall") && failpoint_parse_stall(option_get(o, "stall")->text, &b->place.stall, e))
        return error_field(e, "--stall", "must be a length and a longer period of at most 1h, such as 900ms/4s");
    return b->place.nodes == 1 || store->n
               ? ERR_OK
               : error_field(e, "--nodes", "requires --store, a database that the nodes share");
}

static enum err bench_run_and_print(struct bench *b, const struct bench_scenario *s, struct error *e)
{
    if (bench_server_start(b->cli, BENCH_SLOTS, &b->place, &b->server, e))
        return e->code;
    enum err rc = s->run(b, e);
    bench_server_stop(&b->server);
    if (rc == ERR_OK)
        bench_print_figures(b, s->name);
    return rc;
}

static enum exit_code bench_run_scenario(struct cli *cli, const struct options *o, const struct bench_scenario *s)
{
    struct bench *b = xnew(*b);
    struct error e = { 0 };
    b->cli = cli;
    b->options = o;
    b->target = s->target;
    b->part = o->word_count > 1 ? o->words[1] : S("");
    cleanup_with(buf_release) struct buf store;
    buf_init(&store, STORE_URL_MAX);
    cleanup_with(fleet_urls_release) struct fleet_urls fleet = { 0 };
    bool refused = bench_read_setup(b, &store, &e) || bench_read_fleet(b, &fleet, &e) || (s->check && s->check(b, &e));
    enum exit_code code = refused ? EXIT_USAGE : bench_run_and_print(b, s, &e) ? EXIT_REFUSED : EXIT_DONE;
    free(b);
    return code ? cli_fail(cli, "bench", &e, code) : EXIT_DONE;
}

static enum exit_code command_bench_run(struct cli *cli, const struct options *o)
{
    struct error e;
    for (size_t i = 0; o->word_count && i < array_count(scenarios); i++)
        if (o->word_count <= scenarios[i].words && str_eq(o->words[0], str_from(scenarios[i].name)))
            return bench_run_scenario(cli, o, &scenarios[i]);
    error_set(&e, ERR_INVALID, "give one scenario: create, noop, lag, burst, webhook, pending, fairness or workflow");
    return cli_fail(cli, "bench", &e, EXIT_USAGE);
}

static const struct option options[] = {
    { .flag = "tasks",
      .letter = 'n',
      .type = OPTION_INT,
      .value = "N",
      .min = 100,
      .max = BENCH_SAMPLES_MAX,
      .help = "number of tasks; default: that of the scenario" },
    { .flag = "store",
      .type = OPTION_TEXT,
      .value = "URL",
      .help =
          "postgres://… of an empty database, or file:/path of a file with that URL; it is emptied afterwards; default: SQLite" },
    { .flag = "nodes",
      .type = OPTION_INT,
      .value = "N",
      .min = 1,
      .max = BENCH_NODES_MAX,
      .preset = "1",
      .help = "number of nodes that share the database; requests go to the first" },
    { .flag = "queue",
      .type = OPTION_TEXT,
      .value = "URL",
      .help =
          "redis://…, rediss://…, amqp://… or amqps://… of a fleet's queue: tasks run in workers; requires --events" },
    { .flag = "events",
      .type = OPTION_TEXT,
      .value = "URL",
      .help = "kafka://…, redis://…, rediss://…, amqp://… or amqps://… by which the workers report" },
    { .flag = "workers",
      .type = OPTION_INT,
      .value = "N",
      .min = 1,
      .max = BENCH_WORKERS_MAX,
      .preset = "2",
      .help = "number of workers in the fleet" },
    { .flag = "rate",
      .type = OPTION_INT,
      .value = "N",
      .min = 100,
      .max = 100000,
      .help = "lag: tasks that are due each second; default: 1000" },
    { .flag = "stall",
      .type = OPTION_TEXT,
      .value = "LENGTH/PERIOD",
      .help = "commits of the store stall for LENGTH once in every PERIOD, as a disk does: 900ms/4s" },
    { .flag = "tls", .type = OPTION_FLAG, .preset = "false", .help = "the API speaks TLS" },
    { .flag = "target",
      .type = OPTION_CHOICE,
      .value = "TARGET",
      .choices = "both|noop|webhook",
      .preset = "both",
      .help = "lag with --rate or --stall: what the tasks call" },
    { .flag = "part",
      .type = OPTION_CHOICE,
      .value = "PART",
      .choices = "all|backlog|webhooks|hosts|slot|pools",
      .preset = "all",
      .help = "fairness: the part to run" },
    { .flag = "seconds",
      .type = OPTION_INT,
      .value = "N",
      .min = 1,
      .max = 600,
      .preset = "60",
      .help = "fairness: duration of the parts hosts and pools" },
    { .flag = "dir",
      .type = OPTION_TEXT,
      .value = "DIR",
      .help = "create the data directory in DIR; default: $TMPDIR, else /tmp" },
};

const struct command command_bench = {
    .name = "bench",
    .words = "SCENARIO [PART]",
    .summary = "measure Belfry on this machine",
    .detail =
        "Scenarios:\n"
        "  create    creates a second, single and in batches; each task is durable before its answer\n"
        "  noop      a backlog of no-op tasks: claim, run and settle; every step is durable and history is kept\n"
        "  lag       1,000 tasks a second, evenly spread: start minus due time. With --rate or --stall: no-op tasks and\n"
        "            webhooks, with the tasks claimed ahead, memory, and how long a cancel of a claimed task takes\n"
        "  burst     10,000 tasks due at the same time: start minus due time\n"
        "  webhook   HTTP calls to a local sink: a backlog, compared with a bare loop around libcurl; then 1,000 tasks a\n"
        "            second and 10,000 due at the same time: start minus due time\n"
        "  pending   create and noop with few and with 1,000,000 waiting tasks, due at random over 30 days; time until the\n"
        "            server is ready after a restart; drain of 100,000 tasks; memory. Takes minutes\n"
        "  fairness  start delay of the tasks of others, in parts:\n"
        "            backlog   another tenant's, and its own with priority 9, beside 500,000 due tasks of one tenant\n"
        "            webhooks  another tenant's, beside webhooks of 1 s that take all slots they get\n"
        "            hosts     priority 9, and webhooks to another host, beside 2,500 webhooks of 10 s to one host\n"
        "            slot      two tenants and three classes share one slot: how many of each are among the first 600\n"
        "            pools     a fleet's pool for priority 9, beside a pool that is behind and tasks that no worker can run\n"
        "  workflow  runs of workflows, all parts or one:\n"
        "            chain       1,000 no-op steps in a chain: from a start to the next, and commits for each\n"
        "            webhooks    40 HTTP calls in a chain; slow: 10 calls of 0.7 s\n"
        "            fan         400 parallel steps and a join; map: 10,000 items and a join\n"
        "            join        start of a step after the end of the last of 100 steps that it depends on\n"
        "            open        a run of 10,000 steps: time to its answer, delay of other tasks while it opens\n"
        "            throughput  steps a second of many runs of ten steps\n"
        "\n"
        "Starts a server on a fresh data directory and removes both afterwards; with --queue and --events also workers,\n"
        "with a name prefix of their own. \"server CPU\" does not include database, queue and events servers.\n",
    .options = options,
    .option_count = array_count(options),
    .run = command_bench_run,
};
