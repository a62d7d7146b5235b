#pragma once
/* bench/bare_curl.h - the fastest that libcurl alone can call a receiver from one thread: what our own calls are measured by. */
#include "port/clock.h"

#include "base/err.h"

struct bare_curl_load {
    struct clock *clock;
    const char *url;
    const char *payload; /* sent as the body of each POST */
    long calls, concurrency;
};

/* *ret_rate: calls a second. A call that fails is an error. */
enum err bench_bare_curl(const struct bare_curl_load *l, double *ret_rate, struct error *e) must_use;
