#pragma once
/* api/server/health_server.h - serves /health, /ready and /metrics for a process that has no API (a worker), and
 * nothing else.
 *
 * No API keys: it shows only whether the process works and its metrics. Bind it to an address that only monitoring can
 * reach.
 *
 * One thread creates and frees it. health_server_port: any thread. */
#include "base/buf.h"
#include <stdint.h>

#include "base/err.h"
#include "port/clock.h"

struct health_server_setup {
    const char *listen; /* "127.0.0.1:9090" */
    struct clock *clock;
    /* Both are called on the HTTP thread of this server. */
    bool (*ready)(void *context, struct error *e);                   /* false: why */
    void (*metrics)(void *context, bool exemplars, struct buf *out); /* writes /metrics, perhaps with exemplars */
    void *context;
};

struct health_server;

enum err health_server_new(const struct health_server_setup *setup, struct health_server **ret,
                           struct error *e) must_use;
uint16_t health_server_port(const struct health_server *v);
void health_server_free(struct health_server *v); /* NULL is fine */
