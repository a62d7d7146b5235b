/* The figures of a scenario: those that are measured, and percentiles of times. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/scenario.h"

void bench_add_figure(struct bench *b, const char *name, const char *unit, double value)
{
    if (b->figure_count == FIGURES_MAX)
        return;
    struct bench_figure *f = &b->figures[b->figure_count++];
    *f = (struct bench_figure){ .unit = unit, .value = value };
    snprintf(f->name, sizeof f->name, "%s", name);
}

void bench_add_burst(struct bench *b, const char *name, const struct burst_result *u)
{
    bench_add_figure(b, name, "tasks/s", u->rate);
    bench_add_figure(b, "  server CPU", "us/task", u->cpu_us);
}

int bench_compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void bench_add_percentiles(struct bench *b, const char *label, enum bench_percentiles which, const int64_t *sorted_us,
                           size_t n)
{
    static const struct {
        const char *name;
        size_t per_mille;
        enum bench_percentiles from; /* which has this row */
    } rows[] = { { "p50", 500, BENCH_P50_P99 },
                 { "p99", 990, BENCH_P50_P99 },
                 { "p99.9", 999, BENCH_P50_TO_MAX },
                 { "max", 1000, BENCH_P50_P99_MAX } };
    char name[64];
    for (size_t i = 0; n && i < array_count(rows); i++) {
        if (which < rows[i].from)
            continue;
        snprintf(name, sizeof name, "%s %s", label, rows[i].name);
        bench_add_figure(b, name, "ms", (double)sorted_us[min_of(n * rows[i].per_mille / 1000, n - 1)] / 1000);
    }
}

void bench_add_lags(struct bench *b, const char *label, int64_t *lag_us, size_t n)
{
    size_t early = 0;
    for (size_t i = 0; i < n; i++)
        early += lag_us[i] < 0;
    qsort(lag_us, n, sizeof *lag_us, bench_compare_i64);
    char name[64];
    snprintf(name, sizeof name, "%slag", label);
    bench_add_percentiles(b, name, BENCH_P50_TO_MAX, lag_us, n);
    snprintf(name, sizeof name, "%searly", label);
    bench_add_figure(b, name, "tasks", (double)early);
}

int64_t bench_sample_lag_us(const struct bench_sample *s)
{
    return s->started_us - s->due_ms * 1000;
}

void bench_add_lag(struct bench *b, const char *label, size_t n)
{
    int64_t *lag_us = xcalloc(n + 1, sizeof *lag_us);
    for (size_t i = 0; i < n; i++)
        lag_us[i] = bench_sample_lag_us(&b->server.shared->v[i]);
    bench_add_lags(b, label, lag_us, n);
    free(lag_us);
}
