/* belfry bench - measures a scenario on this machine: a server process of its own on a fresh data directory, driven from here.
 * Each scenario is a row; figures are printed as a table, or one JSON object a scenario. */
#include <poll.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "base/rfc3339.h"
#include "cli/bench_load.h"
#include "cli/bench_server.h"
#include "cli/commands.h"
#include "cli/table.h"

enum {
    FIGURES_MAX = 16,
    BATCH = 1000,
    BATCH_CONNECTIONS = 4,
    SLOTS = 10000,
    LEAD_MS = 3000,
    IDLE_MS = 15000,
    PAD = 180
};

struct figure {
    const char *name, *unit;
    double value;
};

struct bench {
    struct cli *cli;
    const struct options *options;
    struct bench_server server;
    struct figure figures[FIGURES_MAX];
    size_t figure_count;
    const char *target; /* the members of a task that say what it does */
    uint64_t run;       /* makes idempotency keys of one run differ from the next */
};

static void add_figure(struct bench *b, const char *name, const char *unit, double value)
{
    if (b->figure_count < FIGURES_MAX)
        b->figures[b->figure_count++] = (struct figure){ name, unit, value };
}

/* ---- requests ---- */

/* What a body is to hold: the time it is due, spread over spread_ms in order of its index. */
struct bodies {
    struct bench *bench;
    size_t tasks, per_request;
    int64_t due_ms, spread_ms;
    bool random_due;
};

static int64_t due_of(const struct bodies *w, size_t i)
{
    if (w->random_due)
        return w->due_ms +
               (int64_t)(hash_bytes(HASH_STABLE, (struct str){ (const char *)&i, sizeof i }) % (uint64_t)w->spread_ms);
    return w->due_ms + (w->spread_ms ? (int64_t)i * w->spread_ms / (int64_t)w->tasks : 0);
}

static void add_body(const struct bodies *w, size_t i, struct buf *out)
{
    char due[RFC3339_TEXT + 1];
    rfc3339_format(due_of(w, i), due);
    buf_printf(out, "{\"name\":\"bench %zu\",\"run_at\":\"%s\",%s,\"payload\":{\"order\":%zu,\"note\":\"%0*d\"}}", i,
               due, w->bench->target, i, PAD, 0);
}

static void add_head(const struct bodies *w, size_t request, const char *path, size_t length, struct buf *out)
{
    buf_printf(out,
               "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
               "Idempotency-Key: bench-%llx-%zu\r\nContent-Length: %zu\r\n\r\n",
               path, w->bench->server.key, (unsigned long long)w->bench->run, request, length);
}

static void make_request(void *context, size_t request, struct buf *out)
{
    const struct bodies *w = context;
    cleanup_with(buf_release) struct buf body;
    buf_init(&body, 16 << 20);
    size_t from = request * w->per_request, to = min_of(from + w->per_request, w->tasks);
    if (w->per_request == 1) {
        add_body(w, from, &body);
    } else {
        for (size_t i = from; i < to; i++) {
            buf_char(&body, i == from ? '[' : ',');
            add_body(w, i, &body);
        }
        buf_char(&body, ']');
    }
    add_head(w, request, w->per_request == 1 ? "/v1/tasks" : "/v1/tasks/batch", body.n, out);
    buf_add(out, buf_str(&body));
}

/* Creates the tasks; *ret_rate is how many a second. */
static enum err create(struct bench *b, struct bodies *w, size_t connections, double *ret_rate, struct error *e)
{
    w->bench = b;
    struct load load = { .clock = b->cli->clock,
                         .port = b->server.port,
                         .connections = connections,
                         .requests = (w->tasks + w->per_request - 1) / w->per_request,
                         .make = make_request,
                         .context = w };
    b->run = (uint64_t)clock_wall_us(b->cli->clock);
    if (load_run(&load, e))
        return e->code;
    if (load.refused)
        return error_set(e, ERR_UNAVAILABLE, "%zu requests were refused, the first: %.300s", load.refused,
                         load.first_refusal);
    *ret_rate = (double)w->tasks * 1e6 / (double)load.took_us;
    return ERR_OK;
}

static size_t tasks_wanted(const struct bench *b, size_t otherwise)
{
    return option_given(b->options, "tasks") ? (size_t)option_get(b->options, "tasks")->number : otherwise;
}

/* ---- figures from samples ---- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Start minus due time. Early is what was never to happen. */
static void add_lag(struct bench *b, size_t n)
{
    int64_t *lag = xcalloc(n, sizeof *lag);
    size_t early = 0;
    for (size_t i = 0; i < n; i++) {
        lag[i] = b->server.shared->v[i].started_us - b->server.shared->v[i].due_ms * 1000;
        early += lag[i] < 0;
    }
    qsort(lag, n, sizeof *lag, compare);
    if (n) {
        size_t half = n / 2, most = n * 99 / 100, nearly_all = n * 999 / 1000;
        add_figure(b, "lag p50", "ms", (double)lag[half] / 1000);
        add_figure(b, "lag p99", "ms", (double)lag[most] / 1000);
        add_figure(b, "lag p99.9", "ms", (double)lag[nearly_all] / 1000);
        add_figure(b, "lag max", "ms", (double)lag[n - 1] / 1000);
    }
    add_figure(b, "early", "tasks", (double)early);
    free(lag);
}

static enum err expect_all(struct bench *b, size_t n, struct error *e)
{
    size_t seen = bench_server_wait(&b->server, n, IDLE_MS);
    return seen == n ? ERR_OK : error_set(e, ERR_CORRUPT, "%zu of %zu tasks were settled", seen, n);
}

/* From the due time they share to the last settle: what was claimed ahead of it is a part, so it is taken off. */
static double drain_rate(const struct bench *b, size_t n, int64_t due_ms)
{
    int64_t last_us = 0;
    for (size_t i = 0; i < n; i++)
        last_us = max_of(last_us, b->server.shared->v[i].settled_us);
    size_t ahead = min_of(n / 2, (size_t)SLOTS);
    return (double)(n - ahead) * 1e6 / (double)(last_us - due_ms * 1000);
}

/* ---- scenarios ---- */

static int64_t soon(struct bench *b, int64_t ms)
{
    return clock_wall_ms(b->cli->clock) + ms;
}

/* What other processes take of the machine does not show in this one. */
static void add_cpu(struct bench *b, int64_t before_us, size_t tasks)
{
    add_figure(b, "  server CPU", "us/task", (double)(bench_server_cpu_us(&b->server) - before_us) / (double)tasks);
}

static enum err bench_create(struct bench *b, struct error *e)
{
    struct bodies single = { .tasks = tasks_wanted(b, 100000), .per_request = 1, .due_ms = soon(b, 30 * DAY_MS) };
    struct bodies batch = { .tasks = 4 * single.tasks, .per_request = BATCH, .due_ms = soon(b, 30 * DAY_MS) };
    double rate;
    int64_t cpu_us = bench_server_cpu_us(&b->server);
    if (create(b, &single, 64, &rate, e))
        return e->code;
    add_figure(b, "single, 64 connections", "tasks/s", rate);
    add_cpu(b, cpu_us, single.tasks);
    cpu_us = bench_server_cpu_us(&b->server);
    if (create(b, &batch, BATCH_CONNECTIONS, &rate, e))
        return e->code;
    add_figure(b, "batches of 1000", "tasks/s", rate);
    add_cpu(b, cpu_us, batch.tasks);
    return ERR_OK;
}

/* Time to create n tasks in batches, with much to spare: they are to be due after the last was created. */
static int64_t lead_for(size_t n)
{
    return LEAD_MS + (int64_t)n / 20;
}

static enum err run_burst(struct bench *b, size_t n, struct error *e)
{
    struct bodies w = { .tasks = n, .per_request = BATCH, .due_ms = soon(b, lead_for(n)) };
    double rate;
    if (create(b, &w, 2, &rate, e))
        return e->code;
    int64_t cpu_us = bench_server_cpu_us(&b->server);
    if (expect_all(b, n, e))
        return e->code;
    add_figure(b, "claim, run and settle", "tasks/s", drain_rate(b, n, w.due_ms));
    add_cpu(b, cpu_us, n);
    return ERR_OK;
}

static enum err bench_noop(struct bench *b, struct error *e)
{
    return run_burst(b, tasks_wanted(b, 300000), e);
}

static enum err bench_burst(struct bench *b, struct error *e)
{
    size_t n = tasks_wanted(b, 10000);
    if (run_burst(b, n, e))
        return e->code;
    add_lag(b, n);
    return ERR_OK;
}

static enum err bench_lag(struct bench *b, struct error *e)
{
    size_t n = tasks_wanted(b, 10000);
    struct bodies w = { .tasks = n, .per_request = BATCH, .due_ms = soon(b, lead_for(n)), .spread_ms = (int64_t)n };
    double rate;
    if (create(b, &w, 2, &rate, e) || expect_all(b, n, e))
        return e->code;
    add_lag(b, n);
    return ERR_OK;
}

static enum err bench_pending(struct bench *b, struct error *e)
{
    size_t n = tasks_wanted(b, 1000000), small = 50000;
    struct bodies waiting = {
        .tasks = n, .per_request = BATCH, .due_ms = soon(b, DAY_MS), .spread_ms = 30 * DAY_MS, .random_due = true
    };
    struct bodies more = { .tasks = small, .per_request = BATCH, .due_ms = soon(b, 30 * DAY_MS) };
    double before, fill, after;
    if (create(b, &more, 2, &before, e) || create(b, &waiting, 2, &fill, e) || create(b, &more, 2, &after, e))
        return e->code;
    add_figure(b, "create, few waiting", "tasks/s", before);
    add_figure(b, "create while filling", "tasks/s", fill);
    add_figure(b, "create, all waiting", "tasks/s", after);
    if (run_burst(b, 100000, e))
        return e->code;
    add_figure(b, "server memory", "MiB", (double)bench_server_rss_kib(&b->server) / 1024);
    return ERR_OK;
}

/* Tasks that call a sink on this machine: as many as fit in flight, then the lag of a spread and of a burst. */
static enum err call_sink(struct bench *b, const char *address, struct error *e)
{
    char target[160];
    snprintf(target, sizeof target, "\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"http://%s/\"}",
             address);
    b->target = target;
    size_t n = tasks_wanted(b, 100000);
    enum err rc = run_burst(b, n, e);
    struct bodies spread = { .tasks = 10000, .per_request = BATCH, .due_ms = soon(b, LEAD_MS), .spread_ms = 10000 };
    double rate;
    atomic_store(&b->server.shared->n, 0);
    if (rc == ERR_OK && (rc = create(b, &spread, 2, &rate, e)) == ERR_OK &&
        (rc = expect_all(b, spread.tasks, e)) == ERR_OK)
        add_lag(b, spread.tasks);
    b->target = NULL;
    return rc;
}

static enum err bench_webhook(struct bench *b, struct error *e)
{
    struct bench_sink sink;
    if (bench_sink_start(b->cli, &sink, e))
        return e->code;
    enum err rc = call_sink(b, sink.address, e);
    bench_sink_stop(&sink);
    return rc;
}

static const struct scenario {
    const char *name, *help;
    const char *target;
    enum err (*run)(struct bench *b, struct error *e);
} scenarios[] = {
    { "create", "tasks accepted a second, single and in batches, each durable before its answer",
      "\"target_type\":\"NOOP\"", bench_create },
    { "noop", "a backlog of no-op tasks: claim, run and settle, every step durable", "\"target_type\":\"NOOP\"",
      bench_noop },
    { "lag", "1,000 a second, spread: start minus due time", "\"target_type\":\"NOOP\"", bench_lag },
    { "burst", "10,000 due at one instant: start minus due time", "\"target_type\":\"NOOP\"", bench_burst },
    { "webhook", "calls to a local sink: a backlog, then 1,000 a second", NULL, bench_webhook },
    { "pending", "the same rates with 1,000,000 tasks waiting, and memory", "\"target_type\":\"NOOP\"", bench_pending },
};

static void print_figures(struct bench *b, const struct scenario *s)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, 64 * 1024);
    if (option_get(b->options, "json")->number) {
        struct jw w;
        jw_init(&w, &out);
        jw_object(&w);
        jw_kv_cstr(&w, "scenario", s->name);
        for (size_t i = 0; i < b->figure_count; i++) {
            char key[80];
            snprintf(key, sizeof key, "%s (%s)", b->figures[i].name, b->figures[i].unit);
            jw_key(&w, key);
            jw_f64(&w, b->figures[i].value);
        }
        jw_object_end(&w);
        buf_char(&out, '\n');
    } else {
        cleanup_with(table_release) struct table t;
        table_init(&t, 3);
        table_row(&t, 3, s->name, "FIGURE", "UNIT");
        for (size_t i = 0; i < b->figure_count; i++) {
            char value[40];
            snprintf(value, sizeof value, b->figures[i].value < 100 ? "%.2f" : "%.0f", b->figures[i].value);
            table_row(&t, 3, b->figures[i].name, value, b->figures[i].unit);
        }
        table_print(&t, &out);
    }
    cli_print(b->cli, &out);
}

static enum exit_code run_scenario(struct cli *cli, const struct options *o, const struct scenario *s)
{
    struct bench *b = xnew(*b);
    struct error e = { 0 };
    b->cli = cli;
    b->options = o;
    b->target = s->target;
    const char *dir = option_given(o, "dir") ? option_get(o, "dir")->text.p : NULL;
    enum err rc = bench_server_start(cli, SLOTS, dir, &b->server, &e);
    if (rc == ERR_OK) {
        rc = s->run(b, &e);
        bench_server_stop(&b->server);
    }
    if (rc == ERR_OK)
        print_figures(b, s);
    free(b);
    return rc ? cli_fail(cli, "bench", &e, EXIT_REFUSED) : EXIT_DONE;
}

static enum exit_code run_bench(struct cli *cli, const struct options *o)
{
    struct error e;
    for (size_t i = 0; o->word_count == 1 && i < array_count(scenarios); i++)
        if (str_eq(o->words[0], str_from(scenarios[i].name)))
            return run_scenario(cli, o, &scenarios[i]);
    error_set(&e, ERR_INVALID, "name one scenario: create, noop, lag, burst, webhook or pending");
    return cli_fail(cli, "bench", &e, EXIT_USAGE);
}

static const struct option options[] = {
    { .flag = "tasks",
      .letter = 'n',
      .type = OPTION_INT,
      .value = "N",
      .min = 100,
      .max = BENCH_SAMPLES_MAX,
      .help = "how many tasks; default: as many as the scenario needs" },
    { .flag = "dir", .type = OPTION_TEXT, .value = "DIR", .help = "make the data directory in DIR; default: /tmp" },
};

const struct command command_bench = {
    .name = "bench",
    .words = "SCENARIO",
    .summary = "measure Belfry on this machine",
    .detail = "Scenarios:\n"
              "  create   tasks accepted a second, single and in batches, each durable before its answer\n"
              "  noop     a backlog of no-op tasks: claim, run and settle, every step durable, history kept\n"
              "  lag      1,000 tasks a second, spread: start minus due time\n"
              "  burst    10,000 tasks due at one instant: start minus due time\n"
              "  webhook  calls to a local sink: a backlog, then 1,000 a second: start minus due time\n"
              "  pending  the same rates with 1,000,000 tasks waiting, and the server's memory\n"
              "\n"
              "Starts a server of its own on a fresh data directory and removes it afterwards.\n",
    .options = options,
    .option_count = array_count(options),
    .run = run_bench,
};
