#pragma once
/* bench/load.h - a load generator: many connections to one HTTP server, one request at a time on each.
 *
 * It sends a fixed number of requests, and understands only the HTTP/1.1 that our server sends (Content-Length,
 * keep-alive). */
#include "base/buf.h"
#include "port/clock.h"

struct load {
    struct clock *clock;
    uint16_t port; /* on 127.0.0.1 */
    size_t connections;
    size_t requests; /* in total */
    /* Writes request i, headers and body, to out, which is empty. */
    void (*make)(void *context, size_t i, struct buf *out);
    void *context;
    struct buf *answer; /* NULL, or gets the latest answer, headers and body */

    size_t ok;      /* result: number of 2xx answers; the fields below are results, too */
    size_t refused; /* any other answer */
    int64_t took_us;
    char first_refusal[400];
};

enum err load_run(struct load *l, struct error *e) must_use;
