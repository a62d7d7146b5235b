/* belfry sink - a test receiver of webhooks: answers every request and shows it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "bench/sink_server.h"
#include "cli/command/commands.h"

static const struct option options[] = {
    { .flag = "listen",
      .letter = 'l',
      .type = OPTION_TEXT,
      .value = "ADDRESS",
      .preset = "127.0.0.1:8089",
      .help = "address and port; port 0: any free port" },
    { .flag = "log",
      .type = OPTION_TEXT,
      .value = "FILE",
      .help = "append a JSON line for each call to FILE; -: stdout" },
    { .flag = "headers", .type = OPTION_FLAG, .help = "show the headers of each call, secret ones too" },
    { .flag = "quiet", .letter = 'q', .type = OPTION_FLAG, .help = "do not print the calls" },
    { .flag = "status",
      .type = OPTION_INT,
      .value = "N",
      .preset = "200",
      .min = 200,
      .max = 599,
      .help = "status of the answers" },
    { .flag = "delay",
      .type = OPTION_DURATION,
      .value = "DURATION",
      .preset = "0s",
      .max = 3600000,
      .help = "delay of the answers" },
    { .flag = "fail-first",
      .type = OPTION_INT,
      .value = "N",
      .preset = "0",
      .max = 1000000,
      .help = "answer the first N calls with the same webhook-id with status 500" },
};

static const char detail[] =
    "The path of a request overrides the options: /status/503, /delay/250 (ms), /fail/2; combine them: /delay/250/status/503.\n"
    "\n"
    "Examples:\n"
    "  belfry sink                                   show each call\n"
    "  belfry sink --headers                         show their headers, too\n"
    "  belfry sink --listen 127.0.0.1:0 --log calls.jsonl\n"
    "  belfry sink --status 503 --delay 250ms        a slow receiver that fails\n";

static enum err sink_command_open_log(struct str name, int *ret, struct error *e)
{
    if (!name.p)
        return ERR_OK;
    bool to_stdout = str_eq(name, S("-"));
    int fd = to_stdout ? STDOUT_FILENO : open(name.p, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_field(e, "--log", "cannot be opened: %s", strerror(errno));
    *ret = fd;
    return ERR_OK;
}

static void sink_command_raise_file_limit(void)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
        most.rlim_cur = most.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &most);
    }
}

/* A descriptor that becomes readable after SIGINT or SIGTERM. */
static int sink_command_open_signal_fd(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static enum err sink_command_serve(struct cli *cli, const struct sink_setup *setup, struct error *e)
{
    struct sink *s;
    if (sink_open(setup, &s, e))
        return e->code;
    char address[SINK_ADDRESS_TEXT];
    sink_address(s, address);
    FILE *banner = setup->log_fd == STDOUT_FILENO ? cli->err : cli->out; /* with --log -, stdout carries only JSON */
    fprintf(banner, "http://%s\n", address);
    fflush(banner);
    enum err rc = sink_run(s, e);
    fprintf(cli->err, "belfry sink: answered %llu calls\n", (unsigned long long)sink_count(s));
    sink_free(s);
    return rc;
}

static enum exit_code command_sink_run(struct cli *cli, const struct options *o)
{
    struct error e;
    struct sink_setup setup = {
        .listen = option_get(o, "listen")->text,
        .behaviour = { .status = option_get(o, "status")->number,
                       .delay_ms = option_get(o, "delay")->number,
                       .fail_first = option_get(o, "fail-first")->number },
        .clock = cli->clock,
        .log_fd = -1,
        .shows_headers = option_get(o, "headers")->number,
    };
    if (sink_command_open_log(option_get(o, "log")->text, &setup.log_fd, &e))
        return cli_fail(cli, "sink", &e, EXIT_USAGE);
    setup.shown = setup.log_fd < 0 && !option_get(o, "quiet")->number ? cli->out : NULL;
    setup.stop_fd = sink_command_open_signal_fd();
    sink_command_raise_file_limit();
    enum err rc = sink_command_serve(cli, &setup, &e);
    close(setup.stop_fd);
    if (setup.log_fd > STDERR_FILENO)
        close(setup.log_fd);
    return rc == ERR_OK ? EXIT_DONE : cli_fail(cli, "sink", &e, rc == ERR_INVALID ? EXIT_USAGE : EXIT_REFUSED);
}

const struct command command_sink = {
    .name = "sink",
    .words = "",
    .summary = "receive webhooks and show them, for demos, tests and benchmarks",
    .detail = detail,
    .options = options,
    .option_count = array_count(options),
    .run = command_sink_run,
};
