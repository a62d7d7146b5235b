#pragma once
/* bench/load.h - a load generator: many connections to one HTTP server, one request at a time on each.
 *
 * It sends a fixed number of requests, as fast as they are answered or at a fixed rate, and understands only the
 * HTTP/1.1 that our server sends (Content-Length, keep-alive). */
#include "base/buf.h"
#include "port/clock.h"

struct load_answer {
    size_t request;
    int64_t sent_ns, received_ns; /* steady */
    bool ok;                      /* a 2xx answer */
    struct str text;              /* headers and body */
};

struct load {
    struct clock *clock;
    uint16_t port;      /* on 127.0.0.1 */
    const char *cacert; /* the server speaks TLS, with a certificate of this authority; NULL: plain HTTP */
    size_t connections;
    size_t requests;  /* in total */
    int64_t every_us; /* between two requests; 0: the next one is sent when a connection has its answer */
    /* Writes request i, headers and body, to out, which is empty. */
    void (*make)(void *context, size_t i, struct buf *out);
    void *context;
    struct buf *answer; /* NULL, or gets the latest answer, headers and body */
    void (*on_answer)(void *context, const struct load_answer *a); /* NULL, or gets each answer */

    size_t ok;      /* result: number of 2xx answers; the fields below are results, too */
    size_t refused; /* any other answer */
    int64_t took_us;
    char first_refusal[400];
};

enum err load_run(struct load *l, struct error *e) must_use;
