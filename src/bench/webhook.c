/* The scenario `webhook`: tasks that call a local sink. */
#include "bench/bare_curl.h"
#include "bench/scenario.h"

enum { BACKLOG = 100000, SPREAD = 10000, SPREAD_RATE = 1000, BURST = 10000, BARE_CONCURRENCY = 64 };

/* About as large as the body that a task sends. */
static const char payload[] = "{\"order\":12345,\"note\":\"0000000000000000000000000000000000000000000000000000000000"
                              "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                              "0000000000000000000000000000000000000000\"}";

/* Measures a backlog of calls; then the same number of calls by libcurl alone, while the server is idle. */
static enum err webhook_run_backlog(struct bench *b, const char *url, struct error *e)
{
    size_t n = bench_task_count(b, BACKLOG);
    struct bare_curl_load load = {
        .clock = b->cli->clock, .url = url, .payload = payload, .calls = (long)n, .concurrency = BARE_CONCURRENCY
    };
    struct burst_result ours;
    double bare;
    if (bench_run_burst(b, n, &ours, e))
        return e->code;
    ours.rate = bench_samples_rate(b, n); /* claims happen before the due time, but calls do not */
    if (bench_bare_curl(&load, &bare, e))
        return e->code;
    bench_add_burst(b, "claim, call and settle", &ours);
    bench_add_figure(b, "bare libcurl", "calls/s", bare);
    bench_add_figure(b, "  ratio to it", "%", 100 * ours.rate / bare);
    return ERR_OK;
}

static enum err webhook_run_lags(struct bench *b, struct error *e)
{
    size_t spread = min_of(bench_task_count(b, SPREAD), (size_t)SPREAD),
           burst = min_of(bench_task_count(b, BURST), (size_t)BURST);
    struct burst_result all;
    if (bench_run_spread(b, spread, SPREAD_RATE, e))
        return e->code;
    bench_add_lag(b, "spread: ", spread);
    if (bench_run_burst(b, burst, &all, e))
        return e->code;
    bench_add_lag(b, "burst: ", burst);
    return ERR_OK;
}

enum err bench_webhook(struct bench *b, struct error *e)
{
    struct bench_sink sink;
    char url[96], target[192];
    if (bench_sink_start(b->cli, "127.0.0.1:0", &sink, e))
        return e->code;
    snprintf(url, sizeof url, "http://%s/", sink.address);
    snprintf(target, sizeof target, "\"target_type\":\"HTTP_CALLBACK\",\"target_config\":{\"url\":\"%s\"}", url);
    b->target = target;
    enum err rc = webhook_run_backlog(b, url, e) || webhook_run_lags(b, e) ? e->code : ERR_OK;
    b->target = NULL;
    bench_sink_stop(&sink);
    return rc;
}
