#pragma once
/* bench/sink_server.h - a webhook receiver with little overhead: one thread, epoll, one receive and one send for
 * each call.
 *
 * Demos, tests and benchmarks call it. Its log has one line for each call, in order of arrival; fault tests rely on
 * that. One thread calls all functions. */
#include <stdio.h>

#include "bench/sink_parse.h"
#include "port/clock.h"

struct sink;

struct sink_setup {
    struct str listen; /* 127.0.0.1:8089, [::1]:0; port 0: any free port */
    struct sink_behaviour behaviour;
    struct clock *clock;
    int log_fd;         /* gets a JSON line for each call; -1: none */
    FILE *shown;        /* gets a readable line for each call; NULL: none */
    bool shows_headers; /* and a line for each of its headers */
    int stop_fd;        /* sink_run returns when this is readable; -1: never */
};

enum { SINK_ADDRESS_TEXT = 64, SINK_BODY_SHOWN = 256 };

enum err sink_open(const struct sink_setup *setup, struct sink **ret, struct error *e) must_use;
void sink_free(struct sink *s);
void sink_address(const struct sink *s, char out[SINK_ADDRESS_TEXT]); /* the address and port that it listens on */
enum err sink_run(struct sink *s, struct error *e) must_use;
uint64_t sink_count(const struct sink *s); /* calls answered */
