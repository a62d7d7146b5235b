#pragma once
/* bench/scenario.h - building blocks of the scenarios of `belfry bench`: create many tasks, wait until they are
 * settled, and compute figures. */
#include "bench/bench_server.h"

enum { FIGURES_MAX = 64, BENCH_BATCH = 1000, BENCH_SLOTS = 10000, BATCH_CONNECTIONS = 4 };

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
    const char *target; /* JSON members of the task's target */
    struct str part;    /* of the scenario, if it has parts; empty: all */
    uint64_t run;       /* part of the idempotency keys, so that they differ between runs */
    size_t made;        /* tasks created so far: their numbers continue */
};

int64_t bench_sample_lag_us(const struct bench_sample *s); /* start minus due time */
int bench_compare_i64(const void *a, const void *b);       /* for qsort */
void bench_add_figure(struct bench *b, const char *name, const char *unit, double value);

/* Adds percentiles of start minus due time of the first n samples, and the number of early starts, which must be 0.
 * The names of the figures begin with label ("burst: "). bench_add_lags takes them in microseconds, and sorts them. */
void bench_add_lag(struct bench *b, const char *label, size_t n);
void bench_add_lags(struct bench *b, const char *label, int64_t *lag_us, size_t n);

/* Adds some percentiles of times in microseconds, which are sorted already: "LABEL p50", "LABEL p99". */
enum bench_percentiles { BENCH_P50_P99, BENCH_P50_P99_MAX, BENCH_P50_TO_MAX /* with p99.9 */ };
void bench_add_percentiles(struct bench *b, const char *label, enum bench_percentiles which, const int64_t *sorted_us,
                           size_t n);

/* A single request. */
struct bench_request {
    const char *method, *path;
    const char *key; /* API key; NULL: that of the admin */
    struct str body;
    struct clock *clock;              /* bench_send sets this and the next two */
    int64_t ret_sent_us, ret_took_us; /* when it was sent, since 1970; how long until its answer */
};
/* Sends it. An answer other than 2xx is an error. ret_answer: NULL, or gets headers and body. */
enum err bench_send(struct bench *b, struct bench_request *q, struct buf *ret_answer, struct error *e) must_use;

void bench_remove_samples(struct bench *b);

/* Tasks to create. Their due times are spread over spread_ms from due_ms on: evenly by index, or at random. */
struct bench_workload {
    struct bench *bench;
    const char *target; /* JSON members of the task's target; NULL: the bench's */
    const char *key;    /* API key; NULL: that of the admin */
    struct uuid *ids;   /* NULL, or gets the ids of the tasks */
    size_t tasks, per_request;
    size_t first; /* number of the first task; bench_create_tasks sets it */
    int64_t due_ms, spread_ms;
    bool random_due;
    /* With random_due: every soon_each-th task (0: none) is due at random over SOON_SPREAD_MS from soon_ms on. */
    size_t soon_each;
    int64_t soon_ms;
    struct buf scratch; /* body of the request that is being written */
    size_t id_count;    /* in `ids` */
};
enum { SOON_SPREAD_MS = 5000 };

/* Creates the tasks; *ret_rate: tasks a second. Removes all earlier samples. */
enum err bench_create_tasks(struct bench *b, struct bench_workload *w, size_t connections, double *ret_rate,
                            struct error *e) must_use;

/* Waits until there are n samples. */
enum err bench_wait_settled(struct bench *b, size_t n, int64_t due_ms, struct error *e) must_use;

/* Creates n tasks that are due at the same time, and measures how fast they are claimed, run and settled. */
struct burst_result {
    double rate;   /* tasks a second */
    double cpu_us; /* CPU time of the server for each task; other processes on the machine do not change it */
};
enum err bench_run_burst(struct bench *b, size_t n, struct burst_result *ret, struct error *e) must_use;
void bench_add_burst(struct bench *b, const char *name, const struct burst_result *u);

/* Samples a second of the first n, from the first start to the last settle. */
double bench_samples_rate(const struct bench *b, size_t n);

/* Creates n tasks of which `rate` are due each second, and waits until they are settled. */
enum err bench_run_spread(struct bench *b, size_t n, size_t rate, struct error *e) must_use;

/* --tasks, or `otherwise` if it is not given. */
size_t bench_task_count(const struct bench *b, size_t otherwise);
int64_t bench_ms_from_now(const struct bench *b, int64_t ms); /* the time in ms milliseconds */
void bench_wait_until(const struct bench *b, int64_t wall_ms);
int64_t bench_lead_ms(size_t n); /* ample time to create n tasks in batches */

/* Starts a server with that number of slots in place of the one that runs, on fresh data. Kills the old one, whose
 * tasks may still run. Nodes of a database or a fleet drain, so that they leave it. */
enum err bench_replace_server(struct bench *b, size_t slots, struct error *e) must_use;

/* The larger scenarios, each in a file of its own. */
enum err bench_lag(struct bench *b, struct error *e) must_use;
enum err bench_pending(struct bench *b, struct error *e) must_use;
enum err bench_webhook(struct bench *b, struct error *e) must_use;
enum err bench_fairness(struct bench *b, struct error *e) must_use;
enum err bench_fairness_check(const struct bench *b, struct error *e) must_use; /* whether --part fits the processes */
enum err bench_workflow(struct bench *b, struct error *e) must_use;
enum err bench_workflow_check(const struct bench *b, struct error *e) must_use; /* whether there is such a part */
