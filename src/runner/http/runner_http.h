#pragma once
/* runner/http/runner_http.h - calls HTTP targets: thousands at once, on one thread, on the caller's libuv loop.
 *
 * - Limits are enforced here, not in libcurl: a call waits in its host's queue until the host is below its connection
 *   limit, and the hosts take turns. The limits count all tenants together, but a connection serves one tenant only.
 * - Addresses are checked twice (core/target/blocked_addresses.h): after a name lookup, and when a socket is opened.
 * - A call fails for good (FAILURE_REFUSED) if its address is blocked, its URL is invalid, or it has a header that
 *   users may not set.
 * - Threads: runner_start and runner_abort are for the loop's thread, and `done` is called on it. runner_free may be
 *   called there, or on another thread after the loop has ended. It closes handles, so the loop must run once more
 *   before it is closed. */
#include <uv.h>

#include "platform/ssrf_guard.h"
#include "port/clock.h"
#include "port/runner.h"
#include "port/signer.h"

struct runner_http_setup {
    size_t in_flight_max;        /* calls in libcurl at once, and open connections */
    size_t host_connections_max; /* of those, to one host */
    int64_t connect_timeout_ms;  /* without the name lookup */
    int64_t idle_timeout_ms;     /* a tenant's connections are closed if it has not called for this long */
    size_t output_max;           /* bytes of the response that are stored */
    size_t kept_output_max;      /* the same if others use it; one byte more shows that it was longer */
    /* Bytes of the response that are read; if there are more, the status decides. */
    size_t response_max;
    const char *user_agent;        /* NULL: Belfry/VERSION */
    const char *ca_file;           /* trusted certificates; NULL: the system's */
    const char *name_servers;      /* "192.0.2.1:53,…"; NULL: the system's */
    struct guard_setup guard;      /* which addresses may be called */
    const struct secrets *secrets; /* that decrypt headers and signing keys; borrowed. NULL: none */
    struct signing_source signing; /* of the keys that sign calls */
    bool sends_tracestate;         /* that of the caller who made the task */
};
#define RUNNER_HTTP_SETUP                                                                                              \
    ((struct runner_http_setup){ .in_flight_max = 10000,                                                               \
                                 .host_connections_max = 256,                                                          \
                                 .connect_timeout_ms = 10000,                                                          \
                                 .idle_timeout_ms = 30000,                                                             \
                                 .output_max = 16384,                                                                  \
                                 .kept_output_max = 256 << 10,                                                         \
                                 .response_max = 1 << 20 })

/* Returns NULL and fills e on failure. */
struct runner *runner_http_new(uv_loop_t *loop, struct clock *clock, const struct runner_http_setup *setup,
                               struct error *e);
