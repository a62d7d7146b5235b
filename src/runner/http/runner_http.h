#pragma once
/* runner/http/runner_http.h - calls HTTP targets: thousands at once, on one thread, on the caller's loop.
 *
 * Limits are ours, not libcurl's: a call waits in its host's queue until the host has a connection to spare, and hosts take
 * turns. They hold over all tenants together, but a connection serves one tenant only. Addresses are judged by core/address
 * twice: when a name was looked up, and when the socket is opened. What is blocked, not a URL, or carries a header that users
 * may not set is refused for good (FAILURE_REFUSED).
 *
 * runner_free closes handles on the loop, which must run once more before it is closed. */
#include <uv.h>

#include "core/target/address.h"
#include "port/clock.h"
#include "port/runner.h"

struct runner_http_setup {
    size_t in_flight_max;                /* calls handed to libcurl at once, and connections open */
    size_t host_connections_max;         /* of those, to one host */
    int64_t connect_timeout_ms;          /* name lookup apart */
    int64_t queue_timeout_ms;            /* a call that waited this long for its host fails, unsent */
    int64_t idle_timeout_ms;             /* a tenant's connections are closed when it has not called for this long */
    size_t output_max;                   /* bytes of the answer that are kept */
    size_t response_max;                 /* bytes of the answer that are read; then the status decides */
    const char *user_agent;              /* NULL: Belfry/VERSION */
    const char *ca_file;                 /* whom to trust instead of the system's list; NULL: that */
    const char *name_servers;            /* "192.0.2.1:53,…" instead of the system's; NULL: those */
    bool allow_loopback;                 /* 127.0.0.0/8 and ::1 */
    const struct address_range *allowed; /* blocked otherwise; copied */
    size_t allowed_count;
};
#define RUNNER_HTTP_SETUP                                                                                              \
    ((struct runner_http_setup){ .in_flight_max = 10000,                                                               \
                                 .host_connections_max = 256,                                                          \
                                 .connect_timeout_ms = 10000,                                                          \
                                 .queue_timeout_ms = 60000,                                                            \
                                 .idle_timeout_ms = 30000,                                                             \
                                 .output_max = 16384,                                                                  \
                                 .response_max = 1 << 20 })

/* NULL: why is in e. */
struct runner *runner_http_new(uv_loop_t *loop, struct clock *clock, const struct runner_http_setup *setup,
                               struct error *e);
