/* Measures a store on one connection; every batch is durable. Inserts, and claim + settle with executions, in
 * batches of 1,000, and purges in batches of 250; with 1,000 and with 1,000,000 other waiting tasks. Prints figures
 * (docs/BENCHMARKS.md); it does not pass or fail. CPU is that of this process, which for SQLite includes the store.
 *
 *   meson setup build --buildtype=release && ninja -C build bench_store
 *   build/tests/bench/bench_store [DIRECTORY [WAITING…]]
 *   build/tests/bench/bench_store postgres://… [WAITING]     an empty database; one WAITING only: its data remains */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/clock_system.h"
#include "store/postgres/store_postgres.h"
#include "store/sqlite/store_sqlite.h"

enum {
    BATCH = 1000,
    BATCH_MS = 100 /* simulated time for each batch */,
    MEASURED = 100000,
    DRAINED = 100000,
    PURGED = 250
};

static const char payload[] =
    "{\"order\":\"8f14e45f-ceea-467f-a8d5-0b1c7c0f1c11\",\"customer\":\"c-20394\",\"lines\":[{\"sku\":"
    "\"A-100\",\"n\":2},{\"sku\":\"B-220\",\"n\":1}],\"note\":\"leave at the door, ring twice\"}";
static const char target[] =
    "{\"url\":\"https://hooks.example.com/orders/due\",\"method\":\"POST\",\"headers\":{\"x-team\":\"orders\"}}";

struct bench {
    struct store *store;
    struct uuid_gen ids;
    struct prng random;
    int64_t now_ms;
    struct uuid node;
};

static void die(const char *what, const struct error *e)
{
    fprintf(stderr, "bench_store: %s: %s\n", what, e->text);
    exit(1);
}

static int64_t now_ns(void)
{
    return clock_steady_ns(clock_system());
}

/* CPU time of the writing thread, without waits for the disk or other processes. */
static int64_t cpu_ns(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

struct figure {
    int64_t wall_ns, cpu_ns, count;
};

static struct figure begin(void)
{
    return (struct figure){ .wall_ns = now_ns(), .cpu_ns = cpu_ns() };
}

static void print_figure(const char *what, const struct figure *f)
{
    printf("%12s %7.0f/s (%4.1f us of CPU)", what, (double)f->count * 1e9 / (double)f->wall_ns,
           (double)f->cpu_ns / 1000 / (double)f->count);
    fflush(stdout);
}

static void print_claims(const struct figure *f)
{
    printf(" %.1f ms a claim", (double)f->wall_ns / 1e6 / (double)f->count);
    fflush(stdout);
}

static struct figure end(struct figure begun, int64_t count)
{
    return (struct figure){ now_ns() - begun.wall_ns, cpu_ns() - begun.cpu_ns, count };
}

static struct task make_task(struct bench *b, int64_t due_ms)
{
    return (struct task){
        .id = uuid_next(&b->ids, b->now_ms),
        .tenant = 1,
        .due_ms = due_ms,
        .scheduled_ms = due_ms,
        .version = 1,
        .priority = PRIORITY_DEFAULT,
        .queue = S("default"),
        .timeout_ms = 30000,
        .retry = RETRY_DEFAULT,
        .target_config = str_from(target),
        .payload = str_from(payload),
        .created_ms = b->now_ms,
        .updated_ms = b->now_ms,
    };
}

static void apply(struct bench *b, struct op *op)
{
    struct error e;
    if (store_apply(b->store, &op, 1, &e))
        die("apply", &e);
    if (op->rc)
        die("operation", &op->error);
}

/* spread_ms 0: due now. */
static struct figure insert(struct bench *b, int64_t count, int64_t spread_ms)
{
    static struct task tasks[BATCH];
    struct figure begun = begin();
    for (int64_t done = 0; done < count; done += BATCH) {
        b->now_ms += BATCH_MS;
        for (size_t i = 0; i < BATCH; i++)
            tasks[i] = make_task(b, b->now_ms + (spread_ms ? prng_between(&b->random, DAY_MS, spread_ms) : 0));
        struct op_insert op = { .op.kind = OP_INSERT, .tasks = tasks, .count = (size_t)min_of(count - done, BATCH) };
        apply(b, &op.op);
    }
    return end(begun, count);
}

static void settle_all(struct bench *b, const struct tasks *tasks)
{
    static struct settlement v[BATCH];
    for (size_t i = 0; i < tasks->n; i++) {
        const struct task *t = &tasks->v[i];
        v[i] = (struct settlement){ .id = t->id, .fence = t->fence };
        v[i].verdict = (struct verdict){ .next = TASK_COMPLETED, .attempts = 1, .has_execution = true };
        v[i].verdict.execution = (struct execution){
            .id = uuid_next(&b->ids, b->now_ms),
            .tenant = 1,
            .task = t->id,
            .scheduled_ms = t->scheduled_ms,
            .due_ms = t->due_ms,
            .started_us = b->now_ms * 1000,
            .completed_us = b->now_ms * 1000 + 900,
            .attempt = 1,
            .fence = t->fence,
            .http_status = 200,
            .worker = S("node-1/7"),
            .output = S("{\"ok\":true}"),
        };
    }
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = tasks->n, .now_ms = b->now_ms };
    apply(b, &op.op);
}

/* Claims and settles up to count tasks that are due by until_ms, one claim and one settle in turn. *ret_claims: the
 * claims alone. */
static struct figure drain(struct bench *b, int64_t count, int64_t until_ms, struct figure *ret_claims)
{
    struct lane_quota lanes[] = {
        { { .tenant = 1, .queue = S("default"), .priority = PRIORITY_MAX }, BATCH },
        { { .tenant = 1, .queue = S("default"), .priority = PRIORITY_DEFAULT }, BATCH },
        { { .tenant = 1, .queue = S("default"), .priority = PRIORITY_MIN }, BATCH },
    };
    struct op_claim op = { .op.kind = OP_CLAIM, .node = b->node, .lanes = lanes, .lane_count = array_count(lanes) };
    struct figure begun = begin();
    int64_t done = 0;
    *ret_claims = (struct figure){ 0 };
    arena_init(&op.op.arena, 64 << 20);
    while (done < count) {
        b->now_ms += BATCH_MS;
        op.claim = uuid_next(&b->ids, b->now_ms);
        op.now_ms = op.until_ms = until_ms ? until_ms : b->now_ms;
        op.max = BATCH;
        op.max_bytes = 64 << 20;
        struct figure claim = begin();
        apply(b, &op.op);
        claim = end(claim, 1);
        ret_claims->wall_ns += claim.wall_ns;
        ret_claims->count++;
        settle_all(b, &op.ret);
        done += (int64_t)op.ret.n;
        if (op.ret.n == 0)
            break;
        arena_reset(&op.op.arena);
    }
    arena_release(&op.op.arena);
    return end(begun, done);
}

/* Purges all finished tasks with their executions, in small batches. *ret_slowest_ns: CPU time of the slowest batch,
 * for which a settle may have to wait. */
static struct figure forget(struct bench *b, int64_t *ret_slowest_ns)
{
    struct figure begun = begin();
    int64_t count = 0;
    *ret_slowest_ns = 0;
    for (size_t n = PURGED; n == PURGED; count += (int64_t)n) {
        struct op_purge op = { .op.kind = OP_PURGE,
                               .tasks_before_ms = INT64_MAX / 2000,
                               .executions_before_ms = INT64_MAX / 2000,
                               .max = PURGED };
        int64_t start_ns = cpu_ns();
        apply(b, &op.op);
        *ret_slowest_ns = max_of(*ret_slowest_ns, cpu_ns() - start_ns);
        n = op.ret_purged;
    }
    return end(begun, count);
}

static double rss_mib(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &ignored, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static struct store *open_store(const char *where, int64_t waiting)
{
    char path[512];
    struct error e;
    struct store *store;
    struct store_postgres_setup setup = { .url = where, .clock = clock_system(), .migrate = true };
    snprintf(path, sizeof path, "%s/%lld", where, (long long)waiting);
    if (is_postgres_url(str_from(where)) ? store_postgres_open(&setup, &store, &e)
                                         : store_sqlite_open(path, 0, &store, &e))
        die("open", &e);
    return store;
}

static void measure(const char *where, int64_t waiting)
{
    struct bench b = { .now_ms = INT64_C(1790000000000), .node = { { 1 } } };
    uuid_gen_init(&b.ids, 1);
    prng_init(&b.random, 1);
    b.store = open_store(where, waiting);
    printf("%7lld waiting:", (long long)waiting);
    struct figure f = insert(&b, waiting, 30 * DAY_MS);
    print_figure("fill", &f);
    f = insert(&b, MEASURED, 0);
    print_figure("insert", &f);
    struct figure claims;
    f = drain(&b, MEASURED, 0, &claims);
    print_figure("claim+settle", &f);
    print_claims(&claims);
    if (waiting >= DRAINED) {
        f = drain(&b, DRAINED, b.now_ms + 30 * DAY_MS, &claims);
        print_figure("random", &f);
        print_claims(&claims);
    }
    int64_t slowest_ns;
    f = forget(&b, &slowest_ns);
    print_figure("forget", &f);
    printf(", at most %.1f ms for %d", (double)slowest_ns / 1e6, PURGED);
    double mib = rss_mib();
    int64_t begun = now_ns();
    store_free(b.store);
    int64_t closed = now_ns();
    b.store = open_store(where, waiting);
    printf("   close %4.0f ms   open %3.0f ms   %3.0f MiB\n", (double)(closed - begun) / 1e6,
           (double)(now_ns() - closed) / 1e6, mib);
    fflush(stdout);
    store_free(b.store);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = { "1000", "1000000" };
    const char *const *sizes = argc > 2 ? (const char *const *)argv + 2 : usual;
    char made[] = "/tmp/belfry-bench-XXXXXX";
    const char *where = argc > 1 ? argv[1] : mkdtemp(made);
    size_t n = argc > 2 ? (size_t)argc - 2 : array_count(usual);
    if (where && is_postgres_url(str_from(where)))
        n = 1;
    for (size_t i = 0; where && i < n; i++)
        measure(where, strtoll(sizes[i], NULL, 10));
    return where ? 0 : 1;
}
