#pragma once
/* bench/bench_server.h - a server of its own for a benchmark: another process on a fresh data directory, or several on one database, and workers, whose
 * settled attempts are seen through shared memory. */
#include <stdatomic.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "server/fleet_url.h"

enum { BENCH_SAMPLES_MAX = 4000000, BENCH_KEY_TEXT = 64, BENCH_NODES_MAX = 16, BENCH_WORKERS_MAX = 64 };

struct bench_sample {
    int64_t due_ms, started_us, settled_us;
    int32_t tenant;
};

struct bench_shared {
    atomic_size_t n, taken;                          /* that may be read; places given out */
    atomic_int_least64_t conflicts[BENCH_NODES_MAX]; /* of each node's claims, as of its last settle */
    struct bench_sample v[BENCH_SAMPLES_MAX];
};

struct bench_server {
    struct cli *cli;
    size_t slots;
    const char *store;        /* NULL: a file in the data directory; else a database, which is emptied when it stops */
    size_t nodes;             /* on it */
    struct fleet_urls *fleet; /* NULL: nodes run everything themselves */
    size_t workers;           /* of the fleet */
    pid_t pids[BENCH_NODES_MAX + BENCH_WORKERS_MAX]; /* nodes, then workers; 0: it does not run now */
    uint16_t port;                                   /* of the first */
    char key[BENCH_KEY_TEXT];
    char dir[256];
    struct bench_shared *shared;
};

/* dir: where the data directory is made; NULL: /tmp, or $TMPDIR. A database must be empty. */
struct bench_setup {
    const char *dir, *store;
    size_t nodes;
    struct fleet_urls *fleet; /* NULL: none */
    size_t workers;
};
enum err bench_server_start(struct cli *cli, size_t slots, const struct bench_setup *place, struct bench_server *ret,
                            struct error *e) must_use;
void bench_server_stop(struct bench_server *s); /* SIGTERM, waits, removes its data; once more is fine */

/* Ends the process, by SIGTERM or SIGKILL, and waits for that; starts one again on the same data, which returns when it
 * listens. */
void bench_server_signal(struct bench_server *s, int signal);
enum err bench_server_restart(struct bench_server *s, struct error *e) must_use;

/* A receiver of webhooks in a process of its own, for tasks to call. */
struct bench_sink {
    pid_t pid;
    int stop; /* closing it ends the process */
    char address[64];
};
enum err bench_sink_start(struct cli *cli, struct bench_sink *ret, struct error *e) must_use;
void bench_sink_stop(struct bench_sink *s);

/* Waits until n samples were seen, or none came for idle_ms. Returns how many there are. */
size_t bench_server_wait(const struct bench_server *s, size_t n, int64_t idle_ms);
int64_t bench_server_rss_kib(const struct bench_server *s);   /* of the first node */
int64_t bench_server_conflicts(const struct bench_server *s); /* tasks that a claim found in another's hands, so far */
int64_t
bench_server_cpu_us(const struct bench_server *s); /* all its threads, nodes and workers, so far; not the database's */
