#pragma once
/* bench/bench_server.h - the processes of a benchmark: a server on a fresh data directory, or several nodes on one
 * database, and workers. The nodes write a sample for each settled attempt to shared memory; tasks that come back to
 * the store before they have started leave none. */
#include <stdatomic.h>
#include <sys/types.h>

#include "base/failpoint.h"
#include "base/uuid.h"
#include "cli/cli.h"
#include "port/queue.h"
#include "server/settings/fleet_url.h"

enum {
    BENCH_SAMPLES_MAX = 4000000,
    BENCH_KEY_TEXT = 64,
    BENCH_NODES_MAX = 16,
    BENCH_WORKERS_MAX = 64,
    BENCH_PATH = 280
};

struct bench_sample {
    int64_t due_ms, started_us, settled_us;
    int64_t completed_us; /* like started_us, as its execution is stored */
    int64_t commits;      /* of all nodes so far, as of their last settles */
    struct uuid id;
    int32_t tenant;
};

/* Of one node, as of its last settle. */
struct bench_node_view {
    atomic_int_least64_t conflicts;                    /* claim conflicts */
    atomic_int_least64_t commits;                      /* transactions of its store */
    atomic_int_least64_t ahead_peak, ahead_bytes_peak; /* of the tasks that are claimed ahead */
};

struct bench_shared {
    atomic_size_t n, taken; /* complete samples; samples that a node has reserved */
    struct bench_node_view nodes[BENCH_NODES_MAX];
    struct bench_sample v[BENCH_SAMPLES_MAX];
};

struct bench_server {
    struct cli *cli;
    size_t slots;
    const char *store;                  /* PostgreSQL URL; its database is emptied at the end. NULL: SQLite in dir */
    size_t nodes;                       /* number of server processes */
    struct fleet_urls *fleet;           /* NULL: tasks run in the nodes */
    size_t workers;                     /* number of worker processes */
    const struct queue_filter *filters; /* of each worker; NULL: they take every task */
    struct failpoint_stall stall;       /* of the nodes' commits; length 0: none */
    bool tls;                           /* the API speaks TLS; certificates are in dir */
    pid_t pids[BENCH_NODES_MAX + BENCH_WORKERS_MAX]; /* nodes, then workers; 0: not running */
    uint16_t port;                                   /* of the first node */
    char key[BENCH_KEY_TEXT];
    char dir[256];
    char cacert[BENCH_PATH]; /* the authority, with tls */
    struct bench_shared *shared;
};

/* dir: where the data directory is created; NULL: $TMPDIR, else /tmp. The database must be empty. */
struct bench_setup {
    const char *dir, *store;
    size_t nodes;
    struct fleet_urls *fleet; /* NULL: none */
    size_t workers;
    const struct queue_filter *filters;
    struct failpoint_stall stall;
    bool tls;
};
enum err bench_server_start(struct cli *cli, size_t slots, const struct bench_setup *place, struct bench_server *ret,
                            struct error *e) must_use;
const char *bench_server_cacert(const struct bench_server *s); /* NULL: plain HTTP */
void bench_server_stop(struct bench_server *s); /* SIGTERM, waits, removes the data; may be called twice */

/* bench_server_signal sends a signal (SIGTERM or SIGKILL) to all processes and waits until they have ended.
 * bench_server_restart starts them again on the same data, and returns when they listen. */
void bench_server_signal(struct bench_server *s, int signal);
enum err bench_server_restart(struct bench_server *s, struct error *e) must_use;

/* A webhook receiver in a process of its own. */
struct bench_sink {
    pid_t pid;
    int stop; /* closing it ends the process */
    char address[64];
};
enum err bench_sink_start(struct cli *cli, const char *listen, struct bench_sink *ret, struct error *e) must_use;
void bench_sink_stop(struct bench_sink *s);

/* Waits until there are n samples, or no new one came for idle_ms. Returns their number. */
size_t bench_server_wait(const struct bench_server *s, size_t n, int64_t idle_ms);
int64_t bench_server_rss_kib(const struct bench_server *s);      /* memory of the first node */
int64_t bench_server_peak_rss_kib(const struct bench_server *s); /* the most that it had so far */
int64_t bench_server_conflicts(const struct bench_server *s);    /* tasks so far that another node had claimed first */

/* The most tasks that the nodes had claimed ahead at once, and their memory; each node's peak counts. */
struct bench_ahead {
    int64_t tasks, bytes;
};
struct bench_ahead bench_server_ahead_peak(const struct bench_server *s);
int64_t
bench_server_cpu_us(const struct bench_server *s); /* CPU time of all nodes and workers so far, without the database */
