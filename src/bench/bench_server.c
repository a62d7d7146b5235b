#include "bench/bench_server.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/sink_server.h"
#include "platform/certificate_make.h"
#include "platform/clock_system.h"
#include "server/server.h"
#include "server/settings/tls_settings.h"
#include "server/worker_process.h"
#include "store/postgres/store_postgres.h"

enum { WAIT_STEP_MS = 2, FILES_AT_ONCE = 16, VERSIONS_ARENA = 1 << 20 };

enum { WORKERS_KNOWN_MS = 4000 }; /* after this time the nodes know the slots of their workers */

/* Message of a child process to its parent, when it listens or has failed. */
struct bench_ready_message {
    bool ok;
    uint16_t port;
    char key[BENCH_KEY_TEXT];
    struct error error;
};

struct bench_node_context {
    struct clock *clock;
    struct bench_shared *shared;
    const struct server *server;
    size_t node;
};

static void bench_raise_peak(atomic_int_least64_t *peak, double value)
{
    if ((int64_t)value > atomic_load_explicit(peak, memory_order_relaxed))
        atomic_store_explicit(peak, (int64_t)value, memory_order_relaxed);
}

static void bench_update_view(const struct bench_node_context *c)
{
    struct bench_node_view *v = &c->shared->nodes[c->node];
    atomic_store_explicit(&v->conflicts, server_count(c->server, METRIC_CLAIM_CONFLICTS), memory_order_relaxed);
    atomic_store_explicit(&v->commits, server_count(c->server, METRIC_STORE_TIME), memory_order_relaxed);
    bench_raise_peak(&v->ahead_peak, server_level(c->server, METRIC_TASKS_AHEAD));
    bench_raise_peak(&v->ahead_bytes_peak, server_level(c->server, METRIC_AHEAD_BYTES));
}

static int64_t bench_count_commits(const struct bench_shared *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < BENCH_NODES_MAX; i++)
        n += atomic_load_explicit(&s->nodes[i].commits, memory_order_relaxed);
    return n;
}

/* Several nodes write samples: each reserves the next one, and publishes it after all earlier ones were published. */
static void bench_server_on_settled(void *context, const struct event *ev, const struct settlement *s)
{
    struct bench_node_context *c = context;
    if (s->stale)
        return;
    bench_update_view(c);
    if (!s->verdict.has_execution)
        return;
    size_t at = atomic_fetch_add(&c->shared->taken, 1);
    if (at >= BENCH_SAMPLES_MAX)
        return;
    c->shared->v[at] = (struct bench_sample){ .due_ms = ev->task.due_ms,
                                              .started_us = ev->outcome.started_us,
                                              .settled_us = clock_wall_us(c->clock),
                                              .completed_us = s->verdict.execution.completed_us,
                                              .commits = bench_count_commits(c->shared),
                                              .id = ev->task.id,
                                              .tenant = ev->task.tenant };
    while (atomic_load_explicit(&c->shared->n, memory_order_relaxed) != at)
        sched_yield();
    atomic_store_explicit(&c->shared->n, at + 1, memory_order_release);
}

/* In a process of the benchmark, never in the one that runs the command. */
static enum err bench_arm_stall(const struct bench_server *s, struct error *e)
{
    char spec[64];
    snprintf(spec, sizeof spec, "stall=%lldms/%lldms", (long long)s->stall.length_ms, (long long)s->stall.period_ms);
    return s->stall.length_ms ? failpoint_arm(str_from(spec), e) : ERR_OK;
}

/* ---- TLS ---- */

static void bench_tls_path(const struct bench_server *s, const char *name, char out[BENCH_PATH])
{
    snprintf(out, BENCH_PATH, "%s/%s", s->dir, name);
}

const char *bench_server_cacert(const struct bench_server *s)
{
    return s->tls ? s->cacert : NULL;
}

static enum err bench_make_certificates(struct bench_server *s, struct error *e)
{
    static const char *const names[] = { "IP:127.0.0.1" };
    enum { DAYS = 2 };
    char ca_key[BENCH_PATH], cert[BENCH_PATH], key[BENCH_PATH];
    int64_t now_ms = clock_wall_ms(s->cli->clock);
    bench_tls_path(s, "ca.crt", s->cacert);
    bench_tls_path(s, "ca.key", ca_key);
    bench_tls_path(s, "server.crt", cert);
    bench_tls_path(s, "server.key", key);
    struct certificate *authority = certificate_authority_new("belfry bench", now_ms - DAY_MS, DAYS), *issued = NULL;
    const struct certificate_order order = { .name = "belfry bench",
                                             .names = names,
                                             .name_count = array_count(names),
                                             .from_ms = now_ms - DAY_MS,
                                             .days = DAYS };
    enum err rc = certificate_issue(authority, &order, &issued, e);
    rc = rc ? rc : certificate_write(authority, s->cacert, ca_key, e);
    rc = rc ? rc : certificate_write(issued, cert, key, e);
    certificate_free(authority);
    certificate_free(issued);
    return rc;
}

/* ---- processes ---- */

static _Noreturn void bench_run_node(const struct bench_server *s, size_t node, int to_parent)
{
    struct cli *cli = s->cli;
    char dir[sizeof s->dir + 16];
    snprintf(dir, sizeof dir, node ? "%s/node%zu" : "%s", s->dir, node);
    struct bench_node_context child = { .clock = cli->clock, .shared = s->shared, .node = node };
    char cert[BENCH_PATH], key[BENCH_PATH];
    bench_tls_path(s, "server.crt", cert);
    bench_tls_path(s, "server.key", key);
    struct tls_settings tls = { .files = { .cert = cert, .key = key } };
    struct server_setup setup = { .clock = cli->clock,
                                  .zones = cli->zones,
                                  .data_dir = dir,
                                  .store_url = s->store,
                                  .fleet = s->fleet,
                                  .falls_back = true,
                                  .roles = s->fleet ? NODE_SCHEDULER | NODE_UPDATER : 0,
                                  .listen = "127.0.0.1:0",
                                  .tls = s->tls ? &tls : NULL,
                                  .slots = s->slots,
                                  .guard.allow_loopback = true,
                                  .drain_ms = 10000,
                                  .retention = { .tasks_ms = 7 * DAY_MS,
                                                 .dlq_ms = 7 * DAY_MS,
                                                 .executions_ms = 90 * DAY_MS,
                                                 .idempotency_ms = DAY_MS,
                                                 .jobs_ms = 7 * DAY_MS,
                                                 .interval_ms = 60000 },
                                  .observe = bench_server_on_settled,
                                  .observe_context = &child };
    struct bench_ready_message message = { 0 };
    struct server *a = NULL;
    message.ok =
        bench_arm_stall(s, &message.error) == ERR_OK && server_new(&setup, message.key, &a, &message.error) == ERR_OK;
    child.server = a;
    message.port = message.ok ? server_port(a) : 0;
    bool sent = write(to_parent, &message, sizeof message) == (ssize_t)sizeof message;
    if (message.ok && sent)
        server_run(a);
    server_free(a);
    _exit(0);
}

static _Noreturn void bench_run_worker(const struct bench_server *s, size_t worker, int to_parent)
{
    static const struct queue_filter any = { .priority_max = PRIORITY_MAX };
    struct worker_process_setup setup = { .clock = s->cli->clock,
                                          .fleet = s->fleet,
                                          .filter = s->filters ? s->filters[worker] : any,
                                          .slots = max_of(s->slots / s->workers, (size_t)1),
                                          .guard.allow_loopback = true,
                                          .drain_ms = 10000 };
    struct bench_ready_message message = { 0 };
    struct worker_process *p = NULL;
    message.ok = worker_process_new(&setup, &p, &message.error) == ERR_OK;
    bool sent = write(to_parent, &message, sizeof message) == (ssize_t)sizeof message;
    if (message.ok && sent)
        (void)!worker_process_run(p);
    worker_process_free(p);
    _exit(0);
}

static int bench_remove_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void bench_remove_tree(const char *path)
{
    nftw(path, bench_remove_file, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
}

static enum err bench_read_ready_message(struct bench_server *s, int from_child, struct error *e)
{
    struct bench_ready_message message = { 0 };
    bool received = read(from_child, &message, sizeof message) == (ssize_t)sizeof message;
    if (!received || !message.ok)
        return error_set(e, ERR_UNAVAILABLE, "cannot start a server: %s",
                         received ? message.error.text : "the process ended");
    if (s->port == 0)
        s->port = message.port;
    if (message.key[0]) /* only the first start has it */
        memcpy(s->key, message.key, sizeof s->key);
    return ERR_OK;
}

/* child: index in pids; nodes come first, then workers. */
static enum err bench_start_child(struct bench_server *s, size_t child, struct error *e)
{
    int ends[2];
    if (pipe(ends) != 0)
        return error_set(e, ERR_UNAVAILABLE, "pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        if (child < s->nodes)
            bench_run_node(s, child, ends[1]);
        bench_run_worker(s, child - s->nodes, ends[1]);
    }
    close(ends[1]);
    s->pids[child] = max_of(pid, 0);
    enum err rc =
        pid < 0 ? error_set(e, ERR_UNAVAILABLE, "fork: %s", strerror(errno)) : bench_read_ready_message(s, ends[0], e);
    close(ends[0]);
    return rc;
}

enum err bench_server_restart(struct bench_server *s, struct error *e)
{
    s->port = 0;
    for (size_t i = 0; i < s->nodes + s->workers; i++)
        if (bench_start_child(s, i, e))
            return e->code;
    if (s->workers)
        poll(NULL, 0, WORKERS_KNOWN_MS);
    return ERR_OK;
}

static enum err bench_check_database_empty(const struct bench_setup *place, struct clock *clock, struct error *e)
{
    struct store_migration *v;
    size_t n;
    cleanup_with(arena_release) struct arena arena;
    arena_init(&arena, VERSIONS_ARENA);
    if (store_postgres_migrations(place->store, clock, &arena, &v, &n, e))
        return e->code;
    for (size_t i = 0; i < n; i++)
        if (v[i].applied)
            return error_field(e, "--store", "is in use by Belfry: a benchmark needs an empty database");
    return ERR_OK;
}

enum err bench_server_start(struct cli *cli, size_t slots, const struct bench_setup *place, struct bench_server *ret,
                            struct error *e)
{
    struct bench_server s = { .cli = cli,
                              .slots = slots,
                              .store = place->store,
                              .nodes = place->nodes,
                              .fleet = place->fleet,
                              .workers = place->workers,
                              .filters = place->filters,
                              .stall = place->stall,
                              .tls = place->tls };
    const char *tmp = place->dir ? place->dir : getenv("TMPDIR");
    if (place->store && bench_check_database_empty(place, cli->clock, e))
        return e->code;
    snprintf(s.dir, sizeof s.dir, "%s/belfry-bench.XXXXXX", tmp ? tmp : "/tmp");
    s.shared = mmap(NULL, sizeof *s.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s.shared == MAP_FAILED || !mkdtemp(s.dir))
        return error_set(e, ERR_UNAVAILABLE, "cannot create '%s': %s", s.dir, strerror(errno));
    enum err rc = s.tls ? bench_make_certificates(&s, e) : ERR_OK;
    rc = rc ? rc : bench_server_restart(&s, e);
    if (rc) {
        bench_server_stop(&s);
        return rc;
    }
    *ret = s;
    return ERR_OK;
}

void bench_server_signal(struct bench_server *s, int signal)
{
    for (size_t i = 0; i < s->nodes + s->workers; i++)
        if (s->pids[i])
            kill(s->pids[i], signal);
    for (size_t i = 0; i < s->nodes + s->workers; i++) {
        if (s->pids[i])
            waitpid(s->pids[i], NULL, 0);
        s->pids[i] = 0;
    }
}

void bench_server_stop(struct bench_server *s)
{
    bench_server_signal(s, SIGTERM);
    if (s->shared) {
        munmap(s->shared, sizeof *s->shared);
        bench_remove_tree(s->dir);
        struct error ignored; /* the next benchmark refuses a database that could not be emptied */
        if (s->store)
            (void)!store_postgres_migrate(s->store, s->cli->clock, 0, &ignored);
    }
    s->shared = NULL;
}

static _Noreturn void bench_run_sink(struct sink *sink)
{
    struct error e;
    _exit(sink_run(sink, &e) ? 1 : 0);
}

enum err bench_sink_start(struct cli *cli, const char *listen, struct bench_sink *ret, struct error *e)
{
    int ends[2];
    struct sink *sink = NULL;
    if (pipe(ends) != 0)
        return error_set(e, ERR_UNAVAILABLE, "pipe: %s", strerror(errno));
    struct sink_setup setup = {
        .listen = str_from(listen), .behaviour.status = 200, .clock = cli->clock, .log_fd = -1, .stop_fd = ends[0]
    };
    if (sink_open(&setup, &sink, e)) {
        close(ends[0]);
        close(ends[1]);
        return e->code;
    }
    struct bench_sink s = { .stop = ends[1] };
    sink_address(sink, s.address);
    fflush(NULL);
    s.pid = fork();
    if (s.pid == 0) {
        close(ends[1]);
        bench_run_sink(sink);
    }
    close(ends[0]);
    sink_free(sink);
    *ret = s;
    return ERR_OK;
}

void bench_sink_stop(struct bench_sink *s)
{
    close(s->stop);
    waitpid(s->pid, NULL, 0);
}

size_t bench_server_wait(const struct bench_server *s, size_t n, int64_t idle_ms)
{
    size_t seen = atomic_load_explicit(&s->shared->n, memory_order_acquire);
    for (int64_t idle = 0; seen < n && idle < idle_ms; idle += WAIT_STEP_MS) {
        poll(NULL, 0, WAIT_STEP_MS);
        size_t now = atomic_load_explicit(&s->shared->n, memory_order_acquire);
        if (now != seen)
            idle = 0;
        seen = now;
    }
    return seen;
}

int64_t bench_server_cpu_us(const struct bench_server *s)
{
    int64_t us = 0;
    for (size_t i = 0; i < s->nodes + s->workers; i++)
        us += clock_cpu_us(s->pids[i]);
    return us;
}

static int64_t bench_read_status_kib(const struct bench_server *s, const char *name)
{
    char path[64], line[128];
    int64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)s->pids[0]);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoll(line + strlen(name), NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

int64_t bench_server_rss_kib(const struct bench_server *s)
{
    return bench_read_status_kib(s, "VmRSS:");
}

int64_t bench_server_peak_rss_kib(const struct bench_server *s)
{
    return bench_read_status_kib(s, "VmHWM:");
}

struct bench_ahead bench_server_ahead_peak(const struct bench_server *s)
{
    struct bench_ahead all = { 0 };
    for (size_t i = 0; i < s->nodes; i++) {
        all.tasks += atomic_load_explicit(&s->shared->nodes[i].ahead_peak, memory_order_relaxed);
        all.bytes += atomic_load_explicit(&s->shared->nodes[i].ahead_bytes_peak, memory_order_relaxed);
    }
    return all;
}

int64_t bench_server_conflicts(const struct bench_server *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->nodes; i++)
        n += atomic_load_explicit(&s->shared->nodes[i].conflicts, memory_order_relaxed);
    return n;
}
