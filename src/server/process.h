#pragma once
/* server/process.h - what a node and a worker have in common as processes: limits, a name, and who runs targets. */
#include <uv.h>

#include "node/worker/worker.h"
#include "port/clock.h"
#include "port/runner.h"
#include "server/brokers.h"

enum { PROCESS_NAME_TEXT = 96 };

void process_prepare(void); /* thousands of calls at once; memory that comes and goes in large pieces */
void process_name(char out[PROCESS_NAME_TEXT]); /* host:pid */

struct runners_setup {
    uv_loop_t *loop;
    struct clock *clock;
    size_t slots;
    bool allow_loopback;
    const char *ca_file;           /* NULL: the system's list */
    const struct brokers *brokers; /* NULL: none */
};

struct runners {
    struct runner *v[RUNNER_KINDS]; /* by target; NULL: not run here */
};

enum err runners_open(const struct runners_setup *setup, struct runners *ret, struct error *e) must_use;
void runners_free(struct runners *r); /* nothing runs; the loop must run once more */
