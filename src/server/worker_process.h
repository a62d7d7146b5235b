#pragma once
/* server/worker_process.h - one worker process of a fleet: a loop, the worker role, I/O threads to queue and events,
 * and the runners of targets. It has no store.
 *
 * It uses the queue's clock, if the queue has one. It may be killed at any time: its deliveries time out, and the
 * tasks run elsewhere.
 *
 * Threads: one thread calls all functions; it is the loop thread while worker_process_run runs. */
#include "node/trace/transition_log.h"
#include "server/process.h"
#include "server/settings/fleet_url.h"

struct worker_process_setup {
    struct clock *clock;
    struct fleet_urls *fleet; /* queue and events; borrowed */
    struct queue_filter filter;
    int64_t cpu_milli, memory_mb; /* capacity for tasks that declare their needs; 0: that of the machine */
    size_t slots;
    int64_t visibility_ms;     /* how long it keeps a delivery that it does not renew; 0: WORKER_VISIBILITY_MS */
    size_t tenant_connections; /* as in server_setup */
    struct guard_setup guard;
    const char *key_file;          /* secrets.key_file; NULL: none */
    const char *ca_file;           /* trusted certificates; NULL: the system's list */
    const struct brokers *brokers; /* brokers that tasks may name; borrowed. NULL: none */
    const char *listen;            /* of /health, /ready and /metrics; NULL: not served */
    int64_t drain_ms;
    enum transitions transitions; /* of tasks, that are logged */
    struct trace_setup trace;
};

struct worker_process;

/* Opens everything and listens; takes no task yet. */
enum err worker_process_new(const struct worker_process_setup *setup, struct worker_process **ret,
                            struct error *e) must_use;
void worker_process_free(struct worker_process *p); /* NULL is fine */

/* Runs until it has drained, after SIGTERM or SIGINT. False: it could not report every outcome; those deliveries
 * time out. */
bool worker_process_run(struct worker_process *p);

uint16_t worker_process_port(const struct worker_process *p); /* of the health server; 0: none */
const char *worker_process_name(const struct worker_process *p);
