#pragma once
/* bench/bare_curl.h - measures how fast libcurl alone can call a receiver from one thread: the baseline for webhook
 * calls. */
#include "base/err.h"
#include "port/clock.h"

struct bare_curl_load {
    struct clock *clock;
    const char *url;
    const char *payload; /* body of each POST */
    long calls, concurrency;
};

/* *ret_rate: calls a second. If a call fails, the result is an error. */
enum err bench_bare_curl(const struct bare_curl_load *l, double *ret_rate, struct error *e) must_use;
