#pragma once
/* server/worker_process.h - one worker of a fleet: a loop, the role, a courier to queue and events, and those who run targets. No store is
 * near it.
 *
 * Its time is the queue's where that has a clock. It may be killed at any moment: what it ran lapses. */
#include "server/fleet_url.h"
#include "server/process.h"

struct worker_process_setup {
    struct clock *clock;
    struct fleet_urls *fleet; /* queue and events; borrowed */
    struct queue_filter filter;
    int64_t cpu_milli, memory_mb; /* room for tasks that say how much they need; 0: what the machine has */
    size_t slots;
    bool allow_loopback;
    const char *ca_file;           /* NULL: the system's list */
    const struct brokers *brokers; /* that tasks may name; borrowed. NULL: none */
    const char *listen;            /* of its vitals; NULL: none */
    int64_t drain_ms;
};

struct worker_process;

/* It listens, and has asked for nothing yet. */
enum err worker_process_new(const struct worker_process_setup *setup, struct worker_process **ret,
                            struct error *e) must_use;
void worker_process_free(struct worker_process *p); /* NULL is fine */

/* Until it has drained, after SIGTERM or SIGINT; false: what it could not report to anybody is left to lapse. */
bool worker_process_run(struct worker_process *p);

uint16_t worker_process_port(const struct worker_process *p); /* of its vitals; 0: none */
const char *worker_process_name(const struct worker_process *p);
