/* belfry worker - takes due tasks from the queue of a fleet, runs them, and reports outcomes as events. It has no
 * store and no API. */
#include <stdlib.h>

#include "base/log.h"
#include "cli/command/check.h"
#include "cli/command/commands.h"
#include "server/settings/guard_settings.h"
#include "server/settings/options.h"
#include "server/settings/secret_url.h"
#include "server/worker_process.h"

enum { TEXT_MAX = 16384, WORDS_MAX = 256 };

static int64_t worker_command_log_clock(void *context)
{
    return clock_wall_ms(context);
}

/* A comma-separated option, split. */
struct word_list {
    struct str v[WORDS_MAX];
    size_t n;
};

static enum err worker_command_read_list(const struct options *o, const char *name, struct word_list *ret,
                                         struct error *e)
{
    char field[32];
    struct str rest = option_get(o, name)->text, word;
    snprintf(field, sizeof field, "--%s", name);
    while (rest.p && str_cut(&rest, ',', &word)) {
        word = str_trim(word);
        if (word.n == 0)
            return error_field(e, field, "contains an empty entry; separate entries by one comma");
        if (ret->n == WORDS_MAX)
            return error_field(e, field, "may have at most %d entries", WORDS_MAX);
        ret->v[ret->n++] = word;
    }
    return ERR_OK;
}

/* "0-3", "7". */
static enum err worker_command_read_priorities(const struct options *o, struct queue_filter *ret, struct error *e)
{
    struct str text = option_get(o, "priorities")->text;
    size_t dash = str_find(text, '-', 0);
    struct str low = str_trim(str_sub(text, 0, dash)),
               high = dash < text.n ? str_trim(str_sub(text, dash + 1, text.n)) : low;
    int64_t min, max;
    if (!str_to_i64(low, 0, PRIORITY_MAX, &min) || !str_to_i64(high, 0, PRIORITY_MAX, &max) || min > max)
        return error_field(e, "--priorities",
                           "must be a range such as 0-3, or one priority such as 7, between 0 and %d", PRIORITY_MAX);
    ret->priority_min = (int)min;
    ret->priority_max = (int)max;
    return ERR_OK;
}

/* "2", "0.5" cores. */
static enum err worker_command_read_cpu(const struct options *o, int64_t *ret_milli, struct error *e)
{
    if (!option_given(o, "cpu"))
        return ERR_OK;
    const char *text = option_get(o, "cpu")->text.p;
    char *end;
    double cores = strtod(text, &end);
    if (end == text || *end || !(cores >= 0.001 && cores <= 100000))
        return error_field(e, "--cpu", "must be a number of cores, such as 2 or 0.5");
    *ret_milli = (int64_t)(cores * 1000 + 0.5);
    return ERR_OK;
}

struct worker_lists {
    struct word_list queues, tenants, labels;
};

static enum err worker_command_read_filter(const struct options *o, struct worker_lists *lists,
                                           struct worker_process_setup *ret, struct error *e)
{
    if (worker_command_read_list(o, "queues", &lists->queues, e) ||
        worker_command_read_list(o, "tenants", &lists->tenants, e) ||
        worker_command_read_list(o, "labels", &lists->labels, e) ||
        worker_command_read_priorities(o, &ret->filter, e) || worker_command_read_cpu(o, &ret->cpu_milli, e))
        return e->code;
    struct queue_filter *f = &ret->filter;
    f->queues = lists->queues.v;
    f->queue_count = lists->queues.n;
    f->tenants = lists->tenants.v;
    f->tenant_count = lists->tenants.n;
    f->labels = lists->labels.v;
    f->label_count = lists->labels.n;
    return ERR_OK;
}

static enum err worker_command_read_setup(const struct options *o, struct worker_lists *lists,
                                          struct worker_process_setup *ret, struct error *e)
{
    if (worker_command_read_filter(o, lists, ret, e))
        return e->code;
    ret->memory_mb = option_given(o, "memory-mb") ? option_get(o, "memory-mb")->number : 0;
    ret->slots = (size_t)option_get(o, "concurrency")->number;
    ret->tenant_connections = (size_t)option_get(o, "messages.connections_per_tenant")->number;
    ret->visibility_ms = option_get(o, "visibility")->number;
    ret->key_file = option_given(o, "secrets.key_file") ? option_get(o, "secrets.key_file")->text.p : NULL;
    ret->ca_file = option_given(o, "ca-file") ? option_get(o, "ca-file")->text.p : options_getenv("SSL_CERT_FILE");
    ret->listen = option_given(o, "listen") ? option_get(o, "listen")->text.p : NULL;
    ret->drain_ms = option_get(o, "drain-deadline")->number;
    ret->trace = options_trace(o);
    if (options_check_trace(o, e))
        return e->code;
    ret->transitions = (enum transitions)option_get(o, "log.transitions")->number;
    if (!ret->fleet->queue.n)
        return error_field(e, "--queue", "is missing: give the queue to take tasks from, such as redis://127.0.0.1");
    if (!ret->fleet->events.n)
        return error_field(e, "--events", "is missing: give the events server to report to, such as redis://127.0.0.1");
    return ERR_OK;
}

/* Brokers, addresses and URLs are checked as those of serve. */
static enum err worker_command_check_filter(const struct options *o, struct error *e)
{
    struct worker_process_setup setup = { 0 };
    struct worker_lists *lists = xnew(*lists);
    enum err rc = worker_command_read_filter(o, lists, &setup, e);
    free(lists);
    return rc;
}

static enum err worker_command_check_listen(const struct options *o, struct error *e)
{
    return options_check_listen(o, "listen", e) ? error_in(e, "--listen") : ERR_OK;
}

value_check *const worker_value_checks[] = { worker_command_check_filter, worker_command_check_listen, NULL };

static void worker_command_print_banner(struct cli *cli, const struct worker_process *p, const struct fleet_urls *fleet)
{
    cleanup_with(buf_release) struct buf out;
    buf_init(&out, TEXT_MAX);
    buf_printf(&out, "Belfry " BELFRY_VERSION " worker %s takes from ", worker_process_name(p));
    secret_url_show(buf_str(&fleet->queue), &out);
    buf_text(&out, ", reports by ");
    secret_url_show(buf_str(&fleet->events), &out);
    if (worker_process_port(p))
        buf_printf(&out, "; /health, /ready and /metrics on port %u", worker_process_port(p));
    buf_char(&out, '\n');
    fputs(buf_cstr(&out), cli->err);
    fflush(cli->err);
}

static enum exit_code worker_command_until_stopped(struct cli *cli, struct worker_process_setup *setup)
{
    struct worker_process *p = NULL;
    struct error e;
    if (worker_process_new(setup, &p, &e))
        return cli_fail(cli, "worker", &e, EXIT_REFUSED);
    worker_command_print_banner(cli, p, setup->fleet);
    bool all_reported = worker_process_run(p);
    worker_process_free(p);
    log_info("stopped");
    return all_reported ? EXIT_DONE : EXIT_REFUSED;
}

static enum exit_code command_worker_run(struct cli *cli, const struct options *given)
{
    struct options *o;
    struct error e;
    if (options_begin_process(given, &o, &e))
        return cli_fail(cli, "worker", &e, EXIT_USAGE);
    options_find_unknown_variables(cli_on_unknown_variable, cli);
    cleanup_with(fleet_urls_release) struct fleet_urls fleet = { 0 };
    cleanup_with(brokers_release) struct brokers brokers;
    struct worker_lists *lists = xnew(*lists);
    struct worker_process_setup setup = { .clock = cli->clock, .fleet = &fleet, .brokers = &brokers };
    struct guard_settings allowed;
    enum exit_code rc;
    if (brokers_read(o, &brokers, &e) || guard_settings_read(o, &allowed, &setup.guard, &e) ||
        fleet_urls_read(o, &fleet, &e) || worker_command_read_setup(o, lists, &setup, &e)) {
        rc = cli_fail(cli, "worker", &e, EXIT_USAGE);
    } else {
        brokers_close_own(&brokers, buf_str(&fleet.queue), buf_str(&fleet.events));
        log_open(&(struct log_setup){ .fd = 2,
                                      .format = (enum log_format)option_get(o, "log-format")->number,
                                      .level = (enum log_level)option_get(o, "log-level")->number,
                                      .now_ms = worker_command_log_clock,
                                      .context = cli->clock });
        rc = worker_command_until_stopped(cli, &setup);
    }
    free(lists);
    return rc;
}

const struct command command_worker = {
    .name = "worker",
    .words = "",
    .summary = "run a worker of a fleet",
    .detail =
        "Takes due tasks from the queue that the servers push to (belfry serve --queue …), runs them, and reports the outcomes\n"
        "as events. It needs no database and no correct clock. It may be started and killed at any time: its tasks are run\n"
        "elsewhere some seconds later. SIGTERM and SIGINT drain: running tasks finish. A second signal does not wait for them.\n"
        "\n"
        "Examples:\n"
        "  belfry worker --queue redis://queue --events redis://queue\n"
        "  belfry worker --queue file:/etc/belfry/queue --events kafka://k1,k2 --queues mail,reports --concurrency 50\n"
        "  belfry worker --queue amqp://rabbit --events amqp://rabbit --labels gpu --memory-mb 16000\n",
    .options = worker_options,
    .option_count = WORKER_OPTION_COUNT,
    .run = command_worker_run,
};
