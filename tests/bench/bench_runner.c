/* Measures webhook calls a second from one thread to a sink in a second process: by a bare loop around libcurl, and
 * by the HTTP runner. Their ratio is the overhead of the runner (docs/BENCHMARKS.md).
 *
 *   bench_runner [CALLS [CONCURRENCY]]      build it optimised */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bare_curl.h"
#include "bench/sink_server.h"
#include "platform/clock_system.h"
#include "runner/http/runner_http.h"

enum { ROUNDS = 3 };

static const char payload[] =
    "{\"order\": 4711, \"state\": \"paid\", \"note\": \"a body of about three hundred bytes\", "
    "\"lines\": [{\"sku\": \"a-1\", \"n\": 2}, {\"sku\": \"b-22\", \"n\": 1}], \"pad\": "
    "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}";

static double seconds_since(int64_t begun_ns)
{
    return (double)(clock_steady_ns(clock_system()) - begun_ns) / 1e9;
}

/* ---- the runner ---- */

struct load {
    struct runner *runner;
    struct task task;
    long left, failed;
    struct uuid_gen ids;
};

static void load_done(struct run *run, const struct outcome *o)
{
    struct load *l = run->context;
    if (o->kind != OUTCOME_OK && l->failed++ == 0)
        fprintf(stderr, "runner: " STR_FMT "\n", STR_ARG(o->error));
    if (l->left-- <= 0)
        return;
    ((struct task *)(uintptr_t)run->task)->id = uuid_next(&l->ids, 1767225600000);
    runner_start(l->runner, run);
}

static double runner_rate(const char *url, long calls, long concurrency)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct runner_http_setup setup = RUNNER_HTTP_SETUP;
    setup.guard.allow_loopback = true;
    struct error e;
    struct load l = { .runner = runner_http_new(&loop, clock_system(), &setup, &e), .left = calls };
    uuid_gen_init(&l.ids, 1);
    char config[256];
    snprintf(config, sizeof config, "{\"url\": \"%s\", \"headers\": {\"X-Team\": \"a\"}}", url);
    struct task *tasks = xcalloc((size_t)concurrency, sizeof *tasks);
    struct run *runs = xcalloc((size_t)concurrency, sizeof *runs);
    int64_t begun = clock_steady_ns(clock_system());
    for (long i = 0; i < concurrency; i++) {
        tasks[i] = (struct task){ .id = uuid_next(&l.ids, 1767225600000),
                                  .state = TASK_RUNNING,
                                  .scheduled_ms = 1767225600000,
                                  .fence = 1,
                                  .timeout_ms = 30000,
                                  .target_config = str_from(config),
                                  .payload = str_from(payload) };
        runs[i] = (struct run){ .task = &tasks[i], .worker = S("bench"), .done = load_done, .context = &l };
        l.left--;
        runner_start(l.runner, &runs[i]);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    double rate = (double)calls / seconds_since(begun);
    runner_free(l.runner);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(tasks);
    free(runs);
    return rate;
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
    long concurrency = argc > 2 ? strtol(argv[2], NULL, 10) : 64;
    struct sink *sink;
    struct error e;
    struct sink_setup setup = {
        .listen = S("127.0.0.1:0"), .behaviour = { .status = 200 }, .clock = clock_system(), .log_fd = -1, .stop_fd = -1
    };
    if (sink_open(&setup, &sink, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    char address[SINK_ADDRESS_TEXT], url[128];
    sink_address(sink, address);
    snprintf(url, sizeof url, "http://%s/hook", address);
    pid_t child = fork();
    if (child == 0)
        return sink_run(sink, &e) == ERR_OK ? 0 : 1;
    struct bare_curl_load load = {
        .clock = clock_system(), .url = url, .payload = payload, .calls = calls, .concurrency = concurrency
    };
    for (int round = 0; round < ROUNDS; round++) {
        double bare = 0, ours = runner_rate(url, calls, concurrency);
        if (bench_bare_curl(&load, &bare, &e)) {
            fprintf(stderr, "%s\n", e.text);
            break;
        }
        printf("bare libcurl %8.0f/s   runner %8.0f/s   ratio %.2f\n", bare, ours, ours / bare);
        fflush(stdout);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    double cpu_s =
        (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    printf("sink %8.0f calls a second of CPU\n", 2.0 * ROUNDS * (double)calls / cpu_s);
    sink_free(sink);
    return 0;
}
