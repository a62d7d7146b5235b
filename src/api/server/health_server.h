#pragma once
/* api/server/health_server.h - what a process without an API says of itself to whoever looks after it: /health, /ready and /metrics, and nothing else.
 *
 * No keys: it tells no more than whether it works and how much, and belongs on an address that only such callers reach. */
#include "base/buf.h"
#include <stdint.h>

#include "base/err.h"

struct vitals_setup {
    const char *listen; /* "127.0.0.1:9090" */
    /* Both on a thread of the server's. */
    bool (*ready)(void *context, struct error *e); /* false: why */
    void (*metrics)(void *context, struct buf *out);
    void *context;
};

struct vitals;

enum err vitals_new(const struct vitals_setup *setup, struct vitals **ret, struct error *e) must_use;
uint16_t vitals_port(const struct vitals *v);
void vitals_free(struct vitals *v); /* NULL is fine */
