#include "cli/bench_server.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/clock_system.h"
#include "cli/assembly.h"
#include "cli/sink_server.h"

enum { WAIT_STEP_MS = 2, FILES_AT_ONCE = 16 };

/* What the child tells once it listens. */
struct hello {
    bool ok;
    uint16_t port;
    char key[BENCH_KEY_TEXT];
    struct error error;
};

struct child {
    struct clock *clock;
    struct bench_shared *shared;
};

static void observe(void *context, const struct event *ev, const struct settlement *s)
{
    struct child *c = context;
    size_t n = atomic_load_explicit(&c->shared->n, memory_order_relaxed);
    if (s->stale || n == BENCH_SAMPLES_MAX)
        return;
    c->shared->v[n] =
        (struct bench_sample){ ev->task.due_ms, ev->outcome.started_us, clock_wall_us(c->clock), ev->task.tenant };
    atomic_store_explicit(&c->shared->n, n + 1, memory_order_release);
}

static _Noreturn void run_child(const struct bench_server *s, int tell)
{
    struct cli *cli = s->cli;
    struct child child = { cli->clock, s->shared };
    struct assembly_setup setup = { .clock = cli->clock,
                                    .zones = cli->zones,
                                    .data_dir = s->dir,
                                    .listen = "127.0.0.1:0",
                                    .slots = s->slots,
                                    .allow_loopback = true,
                                    .drain_ms = 10000,
                                    .retention = { .tasks_ms = 7 * DAY_MS,
                                                   .dlq_ms = 7 * DAY_MS,
                                                   .executions_ms = 90 * DAY_MS,
                                                   .idempotency_ms = DAY_MS,
                                                   .jobs_ms = 7 * DAY_MS,
                                                   .interval_ms = 60000 },
                                    .observe = observe,
                                    .observe_context = &child };
    struct hello hello = { 0 };
    struct assembly *a = NULL;
    hello.ok = assembly_new(&setup, hello.key, &a, &hello.error) == ERR_OK;
    hello.port = hello.ok ? assembly_port(a) : 0;
    bool told = write(tell, &hello, sizeof hello) == (ssize_t)sizeof hello;
    if (hello.ok && told)
        assembly_run(a);
    assembly_free(a);
    _exit(0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, FILES_AT_ONCE, FTW_DEPTH | FTW_PHYS);
}

static enum err hear_child(struct bench_server *s, int hear, struct error *e)
{
    struct hello hello = { 0 };
    bool heard = read(hear, &hello, sizeof hello) == (ssize_t)sizeof hello;
    if (!heard || !hello.ok)
        return error_set(e, ERR_UNAVAILABLE, "start a server: %s", heard ? hello.error.text : "it ended");
    s->port = hello.port;
    if (hello.key[0]) /* shown at the first start only */
        memcpy(s->key, hello.key, sizeof s->key);
    return ERR_OK;
}

enum err bench_server_again(struct bench_server *s, struct error *e)
{
    int ends[2];
    if (pipe(ends) != 0)
        return error_set(e, ERR_UNAVAILABLE, "pipe: %s", strerror(errno));
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        close(ends[0]);
        run_child(s, ends[1]);
    }
    close(ends[1]);
    enum err rc = s->pid < 0 ? error_set(e, ERR_UNAVAILABLE, "fork: %s", strerror(errno)) : hear_child(s, ends[0], e);
    close(ends[0]);
    return rc;
}

enum err bench_server_start(struct cli *cli, size_t slots, const char *dir, struct bench_server *ret, struct error *e)
{
    struct bench_server s = { .cli = cli, .slots = slots };
    const char *tmp = dir ? dir : getenv("TMPDIR");
    snprintf(s.dir, sizeof s.dir, "%s/belfry-bench.XXXXXX", tmp ? tmp : "/tmp");
    s.shared = mmap(NULL, sizeof *s.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s.shared == MAP_FAILED || !mkdtemp(s.dir))
        return error_set(e, ERR_UNAVAILABLE, "prepare a server in '%s': %s", s.dir, strerror(errno));
    enum err rc = bench_server_again(&s, e);
    if (rc) {
        bench_server_stop(&s);
        return rc;
    }
    *ret = s;
    return ERR_OK;
}

void bench_server_end(struct bench_server *s, int signal)
{
    if (s->pid > 0) {
        kill(s->pid, signal);
        waitpid(s->pid, NULL, 0);
    }
    s->pid = 0;
}

void bench_server_stop(struct bench_server *s)
{
    bench_server_end(s, SIGTERM);
    if (s->shared) {
        munmap(s->shared, sizeof *s->shared);
        remove_tree(s->dir);
    }
    s->shared = NULL;
}

static _Noreturn void run_sink(struct sink *sink)
{
    struct error e;
    _exit(sink_run(sink, &e) ? 1 : 0);
}

enum err bench_sink_start(struct cli *cli, struct bench_sink *ret, struct error *e)
{
    int ends[2];
    struct sink *sink = NULL;
    if (pipe(ends) != 0)
        return error_set(e, ERR_UNAVAILABLE, "pipe: %s", strerror(errno));
    struct sink_setup setup = {
        .listen = S("127.0.0.1:0"), .behaviour.status = 200, .clock = cli->clock, .log_fd = -1, .stop_fd = ends[0]
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
        run_sink(sink);
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
    return clock_cpu_us(s->pid);
}

int64_t bench_server_rss_kib(const struct bench_server *s)
{
    char path[64], line[128];
    int64_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)s->pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoll(line + 6, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}
