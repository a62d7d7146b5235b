#pragma once
/* api/resource/jobs.h - long work done by the server (core/task/job.h), carried out by requests that it makes to itself: a bulk cancel of a thousand
 * tasks is a thousand cancels, with all that one does, and each has an idempotency key of its own, so that a page done twice after a
 * restart changes nothing twice.
 *
 * On a store that several nodes share, one of them works on a job: who holds its lease. Every node looks for jobs that run and whose
 * lease is free, and goes on with them where their record says. The lease keeps two from doing the same work; that nothing is counted
 * twice or forgotten when it lapses under a slow node is the record's version's doing. What a user wants of a job stands in its record
 * too, where who works on it finds it before the next page. */
#include "api/server/request.h"
#include "core/task/job.h"

/* Goes on with a job where its record says, if it runs and is not another node's; nothing if it is worked on here already. */
void job_start(struct api_server *s, int32_t tenant, struct uuid id);
bool job_is_here(struct api_server *s, int32_t tenant, struct uuid id);
bool jobs_are_full(struct api_server *s);

/* Hands the lease of a job to the writer, for q->write.lease.ret_held to tell whether it is ours. Its name lives in q's arena. */
enum handled job_lease(struct request *q, struct uuid id, void (*done)(struct op *op));

/* Starts all that were running when the server last stopped; on a shared store, what nobody works on, from now on. */
enum err jobs_begin(struct api_server *s, struct error *e) must_use;
void jobs_drop(struct api_server *s);    /* those that wait for their next turn; nothing runs any more */
void jobs_release(struct api_server *s); /* these, and who looks for others */

/* Which tasks a job is about; texts live in the arena. */
enum err job_filter(const struct job *j, int32_t tenant, struct arena *a, struct task_filter *ret,
                    struct error *e) must_use;
