/* Part `open`: a run of 10,000 steps, in layers of 100; a step depends on two of the layer before. No-op tasks are due
 * beside it, 1,000 a second. Measures the time to its 201, the time to its first step, and how late the other tasks
 * start: those due while it opens, which is from the request to its first step, and those due until it is final. */
#include <stdlib.h>

#include "bench/sample_groups.h"
#include "bench/workflow.h"

enum {
    OPEN_STEPS = 10000,
    OPEN_ROUNDS = 3,
    LAYER = 100,
    OTHERS = 5000,
    OTHERS_A_SECOND = 1000,
    BEFORE_MS = 1000, /* others are due so long before the request */
};
enum { OPEN_PHASE_OPENING, OPEN_PHASE_RUNNING, OPEN_PHASES };

struct open_round {
    int64_t answered_us, opened_us, total_us;
};

struct open_lags {
    int64_t *us;
    size_t n;
};

static void open_write_body(struct buf *out, size_t n)
{
    workflow_body_begin(out);
    for (size_t i = 0; i < n; i++) {
        size_t above = i - i % LAYER - min_of(i - i % LAYER, (size_t)LAYER), from = above + i % (LAYER - 1);
        workflow_body_step(out, i, workflow_noop, from, i < LAYER ? from : from + 2);
    }
    workflow_body_end(out);
}

/* When its first step started. */
static int64_t open_first_us(const struct bench_sample **v, size_t n)
{
    int64_t first_us = INT64_MAX;
    for (size_t i = 0; i < n; i++)
        first_us = min_of(first_us, v[i]->started_us);
    return first_us;
}

static void open_collect_lags(struct bench *b, const struct uuid *others, const struct bench_run *r,
                              const struct open_round *round, struct open_lags lags[OPEN_PHASES])
{
    cleanup_with(sample_groups_release) struct sample_groups groups = { 0 };
    const struct bench_shared *shared = b->server.shared;
    sample_groups_add(&groups, 0, others, OTHERS);
    for (size_t i = 0, n = atomic_load_explicit(&shared->n, memory_order_acquire); i < n; i++) {
        int64_t after_us = shared->v[i].due_ms * 1000 - r->posted_us;
        if (sample_groups_find(&groups, shared->v[i].id) == SAMPLE_GROUP_NONE || after_us < 0 ||
            after_us > round->total_us)
            continue;
        struct open_lags *to = &lags[after_us < round->opened_us ? OPEN_PHASE_OPENING : OPEN_PHASE_RUNNING];
        to->us[to->n++] = bench_sample_lag_us(&shared->v[i]);
    }
}

static enum err open_measure(struct bench *b, struct str body, size_t n, struct uuid *others, struct open_round *ret,
                             struct open_lags lags[OPEN_PHASES], struct error *e)
{
    struct bench_workload w = { .target = workflow_noop,
                                .ids = others,
                                .tasks = OTHERS,
                                .per_request = BENCH_BATCH,
                                .due_ms = bench_ms_from_now(b, bench_lead_ms(OTHERS)),
                                .spread_ms = OTHERS * 1000 / OTHERS_A_SECOND };
    struct bench_run r;
    const struct bench_sample **v;
    double rate;
    if (bench_create_tasks(b, &w, 1, &rate, e))
        return e->code;
    bench_wait_until(b, w.due_ms + BEFORE_MS);
    if (workflow_post(b, body, &r, e) || bench_wait_settled(b, n + 1 + OTHERS, w.due_ms + w.spread_ms, e) ||
        workflow_samples(b, &r, n, &v, e))
        return e->code;
    ret->answered_us = r.took_us;
    ret->opened_us = open_first_us(v, n) - r.posted_us;
    free(v);
    if (workflow_total_us(b, &r, &ret->total_us, e))
        return e->code;
    open_collect_lags(b, others, &r, ret, lags);
    return ERR_OK;
}

static void open_add_figures(struct bench *b, const struct open_round *v, struct open_lags lags[OPEN_PHASES])
{
    static const char *const labels[OPEN_PHASES] = { "open: others' lag while it opens", "open: others' lag then" };
    int64_t answered_us[OPEN_ROUNDS], opened_us[OPEN_ROUNDS], total_us[OPEN_ROUNDS];
    for (size_t i = 0; i < OPEN_ROUNDS; i++) {
        answered_us[i] = v[i].answered_us;
        opened_us[i] = v[i].opened_us;
        total_us[i] = v[i].total_us;
    }
    workflow_add_rounds(b, "open: POST to 201", answered_us, OPEN_ROUNDS);
    workflow_add_rounds(b, "open: POST to its first step", opened_us, OPEN_ROUNDS);
    workflow_add_rounds(b, "open: POST to final", total_us, OPEN_ROUNDS);
    for (size_t i = 0; i < OPEN_PHASES; i++) {
        qsort(lags[i].us, lags[i].n, sizeof *lags[i].us, bench_compare_i64);
        bench_add_percentiles(b, labels[i], BENCH_P50_P99_MAX, lags[i].us, lags[i].n);
    }
}

enum err workflow_open(struct bench *b, struct error *e)
{
    cleanup_with(buf_release) struct buf body;
    size_t n = workflow_count(b, OPEN_STEPS);
    struct uuid *others = xcalloc(OTHERS, sizeof *others);
    struct open_round rounds[OPEN_ROUNDS];
    struct open_lags lags[OPEN_PHASES] = { 0 };
    enum err rc = ERR_OK;
    buf_init(&body, WORKFLOW_BODY_MAX);
    open_write_body(&body, n);
    for (size_t i = 0; i < OPEN_PHASES; i++)
        lags[i].us = xcalloc((size_t)OPEN_ROUNDS * OTHERS, sizeof *lags[i].us);
    for (size_t i = 0; i < OPEN_ROUNDS && !rc; i++)
        rc = open_measure(b, buf_str(&body), n, others, &rounds[i], lags, e);
    if (!rc)
        open_add_figures(b, rounds, lags);
    for (size_t i = 0; i < OPEN_PHASES; i++)
        free(lags[i].us);
    free(others);
    return rc;
}
