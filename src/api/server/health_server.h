#pragma once
/* api/server/health_server.h - what a process without an API says of itself to whoever looks after it: /health, /ready and /metrics, and nothing else.
 *
 * No keys: it tells no more than whether it works and how much, and belongs on an address that only such callers reach. */
#include "base/buf.h"
#include <stdint.h>

#include "base/err.h"

struct health_server_setup {
    const char *listen; /* "127.0.0.1:9090" */
    /* Both on a thread of the server's. */
    bool (*ready)(void *context, struct error *e); /* false: why */
    void (*metrics)(void *context, struct buf *out);
    void *context;
};

struct health_server;

enum err health_server_new(const struct health_server_setup *setup, struct health_server **ret,
                           struct error *e) must_use;
uint16_t health_server_port(const struct health_server *v);
void health_server_free(struct health_server *v); /* NULL is fine */
