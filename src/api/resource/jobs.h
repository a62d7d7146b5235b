#pragma once
/* api/resource/jobs.h - background jobs (core/task/job.h): bulk actions and re-drives. The server carries a job out by
 * internal requests: a bulk cancel of 1,000 tasks is 1,000 cancels, with all their effects. Each has its own
 * idempotency key, so a page that is repeated after a restart changes nothing twice.
 *
 * If several nodes share a store, the node that holds the lease of a job runs it. Every node looks for running jobs
 * whose lease is free and continues them from their record. The lease prevents two nodes from doing the same work. If a
 * lease expires while a slow node still works, the version of the record ensures that nothing is counted twice or
 * forgotten. A cancel request of a user is stored in the record too; the node that runs the job reads it before the
 * next page. */
#include "api/server/request.h"
#include "core/task/job.h"

/* Continues a job from its record, if the job is running and no other node has it. Does nothing if it runs here
 * already. Any thread, as the next two. */
void job_start(struct api_server *s, int32_t tenant, struct uuid id);
bool job_runs_here(struct api_server *s, int32_t tenant, struct uuid id);
bool jobs_are_full(struct api_server *s);
bool jobs_are_full_for(struct api_server *s, int32_t tenant); /* the tenant runs as many jobs here as it may */

/* Submits an operation that takes the lease of a job. In done, q->write.lease.ret_held says whether this node has it.
 * The lease's name lives in q's arena. The thread that owns the request; passes q on. */
enum handled job_take_lease(struct request *q, struct uuid id, void (*done)(struct op *op));

/* Starts all jobs that were running when the server last stopped. On a shared store: looks for jobs without a node,
 * from now on. The thread that owns the server, like the next two. */
enum err jobs_begin(struct api_server *s, struct error *e) must_use;
void jobs_drop(struct api_server *s);    /* frees the jobs that wait for their next turn; no job may be in a turn */
void jobs_release(struct api_server *s); /* the same, and ends the search for jobs */

/* The filter of a job as a task_filter; its statuses are those shown at now_ms. Texts live in the arena. Any thread. */
enum err job_filter(const struct job *j, int32_t tenant, int64_t now_ms, struct arena *a, struct task_filter *ret,
                    struct error *e) must_use;
