#pragma once
/* bench/tasks.h - what the scenarios of `belfry bench` are made of: tasks created by the thousand, what became of them, and
 * figures. */
#include "bench/bench_server.h"

enum { FIGURES_MAX = 32, BENCH_BATCH = 1000, BENCH_SLOTS = 10000, BATCH_CONNECTIONS = 4 };

struct bench_figure {
    char name[64];
    const char *unit;
    double value;
};

struct bench {
    struct cli *cli;
    const struct options *options;
    struct bench_setup place;
    struct bench_server server;
    struct bench_figure figures[FIGURES_MAX];
    size_t figure_count;
    const char *target; /* the members of a task that say what it does */
    uint64_t run;       /* makes idempotency keys of one run differ from the next */
    size_t made;        /* tasks so far: numbers go on, as the orders of a shop do */
};

int bench_compare_i64(const void *a, const void *b); /* for qsort */
void bench_add_figure(struct bench *b, const char *name, const char *unit, double value);

/* Start minus due time of the n samples there are. label goes in front of the names: "burst ". Early is what was never to
 * happen. */
void bench_add_lag(struct bench *b, const char *label, size_t n);

/* What bodies are to hold: the time each is due, spread over spread_ms in order of its index, or at random. */
struct bench_workload {
    struct bench *bench;
    size_t tasks, per_request;
    size_t first; /* the number of the first; create_tasks sets it */
    int64_t due_ms, spread_ms;
    bool random_due;
    /* Of those at random, every so many (0: none) is due at random over SOON_SPREAD_MS from soon_ms on. */
    size_t soon_each;
    int64_t soon_ms;
    struct buf scratch; /* the request's body while it is made */
};
enum { SOON_SPREAD_MS = 5000 };

/* Creates the tasks; *ret_rate is how many a second. Samples of earlier ones are forgotten. */
enum err bench_create_tasks(struct bench *b, struct bench_workload *w, size_t connections, double *ret_rate,
                            struct error *e) must_use;

/* Waits until n samples are there. */
enum err bench_wait_settled(struct bench *b, size_t n, int64_t due_ms, struct error *e) must_use;

/* n tasks due all at one instant, and created before it: claimed, run and settled. */
struct burst_result {
    double rate;   /* tasks a second */
    double cpu_us; /* of the server, a task: what other processes take of the machine does not show in it */
};
enum err bench_run_burst(struct bench *b, size_t n, struct burst_result *ret, struct error *e) must_use;
void bench_add_burst(struct bench *b, const char *name, const struct burst_result *u);

/* Of n samples: how many a second, from the first start to the last settle. */
double bench_samples_rate(const struct bench *b, size_t n);

/* n tasks, 1,000 a second. */
enum err bench_run_spread(struct bench *b, size_t n, struct error *e) must_use;

/* --tasks, or else as many. */
size_t bench_task_count(const struct bench *b, size_t otherwise);
int64_t bench_ms_from_now(struct bench *b, int64_t ms); /* so many milliseconds from now */
int64_t bench_lead_ms(size_t n);                        /* time to create n tasks in batches, with much to spare */

/* The larger scenarios. */
enum err bench_pending(struct bench *b, struct error *e) must_use;
enum err bench_webhook(struct bench *b, struct error *e) must_use;
enum err bench_fairness(struct bench *b, struct error *e) must_use;
