/* Measures the duration of a claim, on one connection or on several databases in turn, so that other load of the
 * machine affects all of them alike. Each turn inserts due tasks, claims them (only this is timed), and settles
 * them. tests/bench/claims fills databases for it.
 *
 *   build/tests/bench/bench_claim SECONDS postgres://… [postgres://…]
 *
 * One line a database for each ten seconds and one for all: claims, and the time of one in milliseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock_system.h"
#include "store/postgres/store_postgres.h"

enum { CLAIMED = 100, DATABASES_MAX = 4, SAMPLES_MAX = 1 << 20, WINDOW_S = 10 };

static const char payload[] = "{\"order\":\"8f14e45f-ceea-467f-a8d5-0b1c7c0f1c11\",\"customer\":\"c-20394\"}";
static const char target[] = "{\"url\":\"https://hooks.example.com/orders/due\",\"method\":\"POST\"}";

struct database {
    struct store *store;
    struct uuid_gen ids;
    struct uuid node;
    double *ms; /* duration of each claim, in order */
    size_t n, window_from;
};

static void die(const char *what, const struct error *e)
{
    fprintf(stderr, "bench_claim: %s: %s\n", what, e->text);
    exit(1);
}

static void apply(struct database *d, struct op *op)
{
    struct error e;
    if (store_apply(d->store, &op, 1, &e))
        die("apply", &e);
    if (op->rc)
        die("operation", &op->error);
}

static void insert(struct database *d, int64_t now_ms)
{
    struct task tasks[CLAIMED];
    for (size_t i = 0; i < CLAIMED; i++)
        tasks[i] = (struct task){
            .id = uuid_next(&d->ids, now_ms),
            .tenant = 1,
            .due_ms = now_ms,
            .scheduled_ms = now_ms,
            .version = 1,
            .priority = PRIORITY_DEFAULT,
            .queue = S("default"),
            .timeout_ms = 30000,
            .retry = RETRY_DEFAULT,
            .target_config = str_from(target),
            .payload = str_from(payload),
            .created_ms = now_ms,
            .updated_ms = now_ms,
        };
    struct op_insert op = { .op.kind = OP_INSERT, .tasks = tasks, .count = CLAIMED };
    apply(d, &op.op);
}

static void settle_all(struct database *d, const struct tasks *tasks, int64_t now_ms)
{
    struct settlement v[CLAIMED];
    for (size_t i = 0; i < tasks->n; i++) {
        const struct task *t = &tasks->v[i];
        v[i] = (struct settlement){ .id = t->id, .fence = t->fence };
        v[i].verdict = (struct verdict){ .next = TASK_COMPLETED, .attempts = 1, .has_execution = true };
        v[i].verdict.execution = (struct execution){ .id = uuid_next(&d->ids, now_ms),
                                                     .tenant = 1,
                                                     .task = t->id,
                                                     .scheduled_ms = t->scheduled_ms,
                                                     .due_ms = t->due_ms,
                                                     .started_us = now_ms * 1000,
                                                     .completed_us = now_ms * 1000 + 900,
                                                     .attempt = 1,
                                                     .fence = t->fence };
    }
    struct op_settle op = { .op.kind = OP_SETTLE, .v = v, .n = tasks->n, .now_ms = now_ms };
    apply(d, &op.op);
}

static void claim(struct database *d, int64_t now_ms)
{
    struct lane_quota lanes[] = { { { .tenant = 1, .queue = S("default"), .priority = PRIORITY_DEFAULT }, CLAIMED } };
    struct op_claim op = { .op.kind = OP_CLAIM,
                           .node = d->node,
                           .claim = uuid_next(&d->ids, now_ms),
                           .lanes = lanes,
                           .lane_count = array_count(lanes),
                           .now_ms = now_ms,
                           .until_ms = now_ms,
                           .max = CLAIMED,
                           .max_bytes = 64 << 20 };
    arena_init(&op.op.arena, 64 << 20);
    int64_t begun_ns = clock_steady_ns(clock_system());
    apply(d, &op.op);
    int64_t took_ns = clock_steady_ns(clock_system()) - begun_ns;
    if (op.ret.n == CLAIMED && d->n < SAMPLES_MAX)
        d->ms[d->n++] = (double)took_ns / 1e6;
    settle_all(d, &op.ret, now_ms);
    arena_release(&op.op.arena);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints percentiles of the samples from index `from` on. */
static void print(const struct database *d, int number, const char *when, size_t from)
{
    size_t n = d->n - from;
    double *v = xcalloc(n + 1, sizeof *v);
    if (n)
        memcpy(v, d->ms + from, n * sizeof *v);
    qsort(v, n, sizeof *v, by_size);
    printf("%-6s database %d: %6zu claims of %d: p10 %.3f p50 %.3f p90 %.3f p99 %.3f ms\n", when, number, n, CLAIMED,
           v[n / 10], v[n / 2], v[n * 9 / 10], v[n * 99 / 100]);
    fflush(stdout);
    free(v);
}

static struct database open_database(const char *url, int number)
{
    struct store_postgres_setup setup = { .url = url, .clock = clock_system(), .migrate = true };
    struct database d = { .node = { { (uint8_t)(number + 1) } }, .ms = xcalloc(SAMPLES_MAX, sizeof(double)) };
    struct error e;
    uuid_gen_init(&d.ids, (uint64_t)clock_steady_ns(clock_system()));
    if (store_postgres_open(&setup, &d.store, &e))
        die("open", &e);
    return d;
}

static void run(struct database *v, int n, int64_t seconds)
{
    int64_t begun_ms = clock_wall_ms(clock_system()), now_ms, window = 1;
    while ((now_ms = clock_wall_ms(clock_system())) < begun_ms + seconds * 1000) {
        for (int i = 0; i < n; i++) {
            insert(&v[i], now_ms);
            claim(&v[i], now_ms);
        }
        if (now_ms < begun_ms + window * WINDOW_S * 1000)
            continue;
        char when[16];
        snprintf(when, sizeof when, "%lld s", (long long)(window++ * WINDOW_S));
        for (int i = 0; i < n; i++) {
            print(&v[i], i, when, v[i].window_from);
            v[i].window_from = v[i].n;
        }
    }
}

int main(int argc, char **argv)
{
    struct database v[DATABASES_MAX];
    int n = argc - 2;
    if (n < 1 || n > DATABASES_MAX) {
        fprintf(stderr, "usage: bench_claim SECONDS postgres://… [postgres://…]\n");
        return 2;
    }
    for (int i = 0; i < n; i++)
        v[i] = open_database(argv[2 + i], i);
    run(v, n, strtoll(argv[1], NULL, 10));
    for (int i = 0; i < n; i++) {
        print(&v[i], i, "all", 0);
        store_free(v[i].store);
        free(v[i].ms);
    }
    return 0;
}
