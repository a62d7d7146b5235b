/* Measures a queue on Redis: one thread pushes NOOP tasks in batches, while several take and acknowledge them.
 * Prints figures; it does not pass or fail.
 *
 *   meson setup build --buildtype=release && ninja -C build bench_queue
 *   build/tests/bench/bench_queue redis://… [TASKS [WORKERS]] */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/clock_system.h"
#include "queue/redis/queue_redis.h"

enum { BATCH = 1000, WORKERS_MAX = 64, US_IN_S = 1000000, ARENA = 64 << 20 };

static struct {
    const char *url;
    size_t count;
    _Atomic size_t done;
} bench;

static void die(const char *what, const struct error *e)
{
    fprintf(stderr, "bench_queue: %s: %s\n", what, e->text);
    exit(1);
}

static struct queue *open_queue(void)
{
    struct queue *q = NULL;
    struct error e = { 0 };
    struct redis_setup setup = { .url = str_from(bench.url), .clock = clock_system() };
    if (queue_redis_open(&setup, NULL, &q, &e))
        die("open", &e);
    return q;
}

static void *work(void *context)
{
    struct queue *q = open_queue();
    struct arena a;
    struct error e = { 0 };
    struct take t = { .max = BATCH,
                      .wait_ms = 100,
                      .visibility_ms = 60000,
                      .worker = *(struct uuid *)context,
                      .cpu_milli = -1,
                      .memory_mb = -1 };
    arena_init(&a, ARENA);
    while (bench.done < bench.count) {
        struct taken got = { 0 };
        if (queue_take(q, &t, &a, &got, &e))
            die("take", &e);
        struct fenced_id ids[BATCH];
        for (size_t i = 0; i < got.tasks.n; i++)
            ids[i] = (struct fenced_id){ got.tasks.v[i].id, got.tasks.v[i].fence };
        if (queue_ack(q, ids, got.tasks.n, &e))
            die("ack", &e);
        bench.done += got.tasks.n;
        arena_reset(&a);
    }
    arena_release(&a);
    queue_free(q);
    return NULL;
}

static void push_all(struct uuid_gen *gen)
{
    struct queue *q = open_queue();
    struct task *v = xcalloc(BATCH, sizeof *v);
    struct error e = { 0 };
    struct pushed pushed;
    for (size_t done = 0; done < bench.count; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++)
            v[i] = (struct task){ .id = uuid_next(gen, 1770710400000),
                                  .tenant = 1,
                                  .state = TASK_RUNNING,
                                  .fence = 1,
                                  .claim = uuid_next(gen, 1770710400000),
                                  .priority = PRIORITY_DEFAULT,
                                  .queue = S("default"),
                                  .name = S("noop"),
                                  .retry = RETRY_DEFAULT,
                                  .target = TARGET_NOOP };
        if (queue_push(q, v, BATCH, 0, &pushed, &e))
            die("push", &e);
    }
    free(v);
    queue_free(q);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_queue redis://… [TASKS [WORKERS]]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    bench.url = argv[1];
    bench.count = (argc > 2 ? strtoul(argv[2], NULL, 10) : 200000) / BATCH * BATCH;
    size_t workers = min_of(argc > 3 ? strtoul(argv[3], NULL, 10) : 4, (size_t)WORKERS_MAX);
    struct uuid_gen gen;
    struct uuid ids[WORKERS_MAX];
    pthread_t threads[WORKERS_MAX];
    uuid_gen_init(&gen, (uint64_t)clock_steady_ns(clock_system()));
    int64_t start_us = clock_steady_us(clock_system());
    for (size_t i = 0; i < workers; i++) {
        ids[i] = uuid_next(&gen, 1770710400000);
        if (pthread_create(&threads[i], NULL, work, &ids[i]))
            return 1;
    }
    push_all(&gen);
    int64_t pushed_us = clock_steady_us(clock_system()) - start_us;
    for (size_t i = 0; i < workers; i++)
        pthread_join(threads[i], NULL);
    int64_t all_us = clock_steady_us(clock_system()) - start_us;
    printf("%zu tasks, %zu workers: pushed %.0f a second, pushed, taken and acknowledged %.0f a second\n", bench.count,
           workers, (double)bench.count * US_IN_S / (double)pushed_us, (double)bench.count * US_IN_S / (double)all_us);
    return 0;
}
