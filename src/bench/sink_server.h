#pragma once
/* bench/sink_server.h - a receiver of webhooks that costs next to nothing: one thread, epoll, a receive and a send a call.
 *
 * It is what demos, tests and benchmarks call, and what a fault test believes: one line a call, in the order of arrival. */
#include <stdio.h>

#include "bench/sink_parse.h"
#include "port/clock.h"

struct sink;

struct sink_setup {
    struct str listen; /* 127.0.0.1:8089, [::1]:0; port 0: any that is free */
    struct sink_behaviour behaviour;
    struct clock *clock;
    int log_fd;  /* a JSON line a call; -1: none */
    FILE *shown; /* a line for the eye; NULL: none */
    int stop_fd; /* sink_run ends when it is readable; -1: never */
};

enum { SINK_ADDRESS_TEXT = 64, SINK_BODY_SHOWN = 256 };

enum err sink_open(const struct sink_setup *setup, struct sink **ret, struct error *e) must_use;
void sink_free(struct sink *s);
void sink_address(const struct sink *s, char out[SINK_ADDRESS_TEXT]); /* what it listens on, port and all */
enum err sink_run(struct sink *s, struct error *e) must_use;
uint64_t sink_count(const struct sink *s); /* calls answered */
