#pragma once
/* http/jobs.h - long work done by the server (core/job.h), carried out by requests that it makes to itself: a bulk cancel of a thousand
 * tasks is a thousand cancels, with all that one does, and each has an idempotency key of its own, so that a page done twice after a
 * restart changes nothing twice. */
#include "core/job.h"
#include "http/request.h"

struct job_run;

/* Goes on with a job, new or found at the start. The job's texts are copied. */
void job_start(struct http_server *s, int32_t tenant, const struct job *job);

/* All that were running when the server last stopped. */
enum err jobs_resume(struct http_server *s, struct error *e) must_use;

/* True if it runs here and will stop before its next page. */
bool job_cancel(struct http_server *s, int32_t tenant, struct uuid id);
bool jobs_are_full(struct http_server *s);
void jobs_release(struct http_server *s); /* nothing runs any more: what waited for its next step is dropped */

/* Which tasks a job is about; texts live in the arena. */
enum err job_filter(const struct job *j, int32_t tenant, struct arena *a, struct task_filter *ret,
                    struct error *e) must_use;
