#pragma once
/* bench/workflow.h - the parts of the scenario `workflow`, and what they share. A part finds a fresh server.
 *
 * Times of steps and runs are those of their executions, as they are stored; nothing is polled. "POST to final" is from
 * the sending of the request until the settle of the run is committed. */
#include "bench/scenario.h"

enum { WORKFLOW_BODY_MAX = 8 << 20, WORKFLOW_ROUNDS_MAX = 9 };

/* The body of a run with a definition of its own, step by step. A step depends on the steps from..to, without `to`. */
void workflow_body_begin(struct buf *out);
void workflow_body_step(struct buf *out, size_t step, const char *target, size_t from, size_t to);
void workflow_body_end(struct buf *out);
extern const char workflow_noop[]; /* a target */

struct bench_run {
    struct uuid id;
    int64_t posted_us; /* when its request was sent, since 1970 */
    int64_t took_us;   /* until its 201 */
};

/* Posts a run. Earlier samples stay. */
enum err workflow_post(struct bench *b, struct str body, struct bench_run *ret, struct error *e) must_use;
/* Removes all samples, posts a run, and waits until it and `tasks` tasks of it have ended. */
enum err workflow_post_and_wait(struct bench *b, struct str body, size_t tasks, struct bench_run *ret,
                                struct error *e) must_use;

/* The samples of a run's steps, by step; the caller frees them. A missing one is an error. */
enum err workflow_samples(struct bench *b, const struct bench_run *r, size_t steps, const struct bench_sample ***ret,
                          struct error *e) must_use;
/* From the sending of the request until the run's settle. */
enum err workflow_total_us(struct bench *b, const struct bench_run *r, int64_t *ret, struct error *e) must_use;

/* Adds the median and the slowest of some rounds, in milliseconds. Sorts them. */
void workflow_add_rounds(struct bench *b, const char *name, int64_t *us, size_t n);

/* --tasks if it is given and smaller, else `otherwise`. */
size_t workflow_count(const struct bench *b, size_t otherwise);

/* The parts; each says in its file what it measures. */
enum err workflow_chain(struct bench *b, struct error *e) must_use;
enum err workflow_webhooks(struct bench *b, struct error *e) must_use;
enum err workflow_slow(struct bench *b, struct error *e) must_use;
enum err workflow_fan(struct bench *b, struct error *e) must_use;
enum err workflow_map(struct bench *b, struct error *e) must_use;
enum err workflow_join(struct bench *b, struct error *e) must_use;
enum err workflow_throughput(struct bench *b, struct error *e) must_use;
enum err workflow_open(struct bench *b, struct error *e) must_use;
