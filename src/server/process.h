#pragma once
/* server/process.h - setup that server and worker processes share: resource limits, process name, runners of
 * targets. */
#include <uv.h>

#include "node/worker/worker.h"
#include "port/clock.h"
#include "port/runner.h"
#include "port/signer.h"
#include "port/tracer.h"
#include "server/brokers.h"

enum { PROCESS_NAME_TEXT = 96 };

/* Hides the memory, raises the descriptor limit and tunes malloc. Before other threads start. */
void process_prepare(void);
/* Tells in the log if the process may open too few descriptors for so many calls at once and so many connections of the
 * API. Returns how many connections the API may have: half of the descriptors are kept for calls and stores, so that
 * clients cannot keep tasks from running. */
size_t process_share_descriptors(size_t calls, size_t connections);
void process_name(char out[PROCESS_NAME_TEXT]); /* host:pid */

/* trace.*: which spans are recorded, and where they go; texts are borrowed. */
struct trace_setup {
    struct str endpoint, ratio;
    bool sends_state;
};
/* Checks what can be checked before the start. */
enum err trace_setup_check(const struct trace_setup *setup, struct error *e) must_use;
/* *ret is NULL if no endpoint is set. */
enum err process_open_tracer(const struct trace_setup *setup, const char *ca_file, struct metrics *metrics,
                             struct tracer **ret, struct error *e) must_use;

struct runners_setup {
    uv_loop_t *loop;
    struct clock *clock;
    size_t slots;
    size_t tenant_connections; /* to brokers by address; 0: the default */
    struct guard_setup guard;
    const char *ca_file;           /* trusted certificates; NULL: the system's list */
    const struct brokers *brokers; /* NULL: none */
    const struct secrets *secrets; /* NULL: none */
    struct signing_source signing;
    bool sends_tracestate;
    struct str (*tenant_name)(void *context, int32_t number, struct arena *a); /* as in runner_message_setup */
    void *context;
};

struct runners {
    struct runner *v[RUNNER_KINDS]; /* by target kind; NULL: this process does not run that kind */
};

enum err runners_open(const struct runners_setup *setup, struct runners *ret, struct error *e) must_use;
void runners_free(struct runners *r); /* when no attempt runs; loop_free then closes their handles */
