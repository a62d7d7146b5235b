#pragma once
/* bench/load.h - a load generator: many connections to one HTTP server, one request in flight on each.
 *
 * Bounded in count; speaks just enough HTTP/1.1 for a server of ours (Content-Length, keep-alive). */
#include "base/buf.h"
#include "port/clock.h"

struct load {
    struct clock *clock;
    uint16_t port; /* on 127.0.0.1 */
    size_t connections;
    size_t requests; /* in all */
    /* The whole request i, headers and body, into out (emptied before). */
    void (*make)(void *context, size_t i, struct buf *out);
    void *context;
    struct buf *answer; /* NULL, or where the latest answer goes, headers and body */

    size_t ok;      /* results: answers of 2xx */
    size_t refused; /* any other answer */
    int64_t took_us;
    char first_refusal[400];
};

enum err load_run(struct load *l, struct error *e) must_use;
