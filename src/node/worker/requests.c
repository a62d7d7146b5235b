/* What users want of deliveries that have arrived: aborts, and what is wanted back. Until the worker has heard from its
 * queue, nothing starts (worker.h). */
#include "node/worker/internal.h"

/* How long ago it was taken, at most; or renewed, while it was parked. The queue's time may be unknown, and the clocks
 * may differ; heard_ms is before the queue was asked. A queue without both is in this process. */
static int64_t worker_held_ms(const struct worker *w, const struct job *j)
{
    const struct taken *t = &j->delivery_batch->take.ret;
    if (j->parked_ms && w->renewed_ms >= j->parked_ms)
        return w->now.steady_ms - w->renewed_ms;
    return max_of(t->queue_us ? w->now.wall_ms - t->queue_us / 1000 : 0,
                  t->heard_ms ? w->now.steady_ms - t->heard_ms : 0);
}

bool worker_is_late(const struct worker *w, const struct job *j)
{
    return worker_held_ms(w, j) >= w->setup.visibility_ms / 2;
}

bool worker_may_be_wanted(const struct worker *w, const struct job *j)
{
    const struct taken *t = &j->delivery_batch->take.ret;
    return w->setup.clock && t->unheard && clock_steady_ms(w->setup.clock) - t->heard_ms >= DELIVERY_HEARD_MS;
}

bool worker_has_heard(const struct worker *w)
{
    return !w->setup.clock || !w->heard_ms || clock_steady_ms(w->setup.clock) - w->heard_ms < DELIVERY_HEARD_MS;
}

struct job *worker_arrived_jobs(const struct worker *w, size_t *ret_count)
{
    const struct delivery_batch *h = w->arrived;
    *ret_count = h && h->jobs ? h->take.ret.tasks.n - h->begun : 0;
    return *ret_count ? h->jobs + h->begun : NULL;
}

/* Of those that have arrived and not started. NULL: it is none of them. */
static struct job *worker_find_arrived(const struct worker *w, const struct fenced_id *id)
{
    size_t n;
    struct job *jobs = worker_arrived_jobs(w, &n);
    for (size_t i = 0; i < n; i++)
        if (str_eq(fenced_id_key(&jobs[i].id), fenced_id_key(id)))
            return &jobs[i];
    return NULL;
}

/* An abort is the stronger of two requests: a task that is only returned runs again. */
static void worker_request_return(struct job *j)
{
    if (j->request == JOB_STARTS)
        j->request = JOB_WANTED;
}

void worker_apply_requests(struct worker *w, const struct taken *heard)
{
    for (size_t i = 0; i < heard->abort_count; i++) {
        struct job *arrived = worker_find_arrived(w, &heard->aborts[i]);
        if (arrived)
            arrived->request = JOB_ABORTED;
        else
            worker_abort(w, heard->aborts[i].id, heard->aborts[i].fence);
    }
    for (size_t i = 0; i < heard->wanted_count; i++) {
        struct job *arrived = worker_find_arrived(w, &heard->wanted[i]);
        struct job *parked = arrived ? NULL : worker_take_off_line(w, &heard->wanted[i]);
        if (arrived)
            worker_request_return(arrived);
        if (parked)
            worker_return_job(w, parked);
    }
}

void worker_return_unheard(struct worker *w)
{
    if (!w->setup.clock)
        return;
    size_t n;
    struct job *jobs = worker_arrived_jobs(w, &n);
    for (size_t i = 0; i < n; i++)
        worker_request_return(&jobs[i]);
    worker_return_parked(w);
}

bool worker_must_hear_first(const struct worker *w, const struct job *j)
{
    return !worker_has_heard(w) && j->request == JOB_STARTS && !w->stopped && !worker_is_late(w, j) &&
           !worker_may_be_wanted(w, j);
}

int64_t worker_arrived_late_ms(const struct worker *w)
{
    size_t n;
    const struct job *first = worker_arrived_jobs(w, &n);
    return n ? w->now.steady_ms - worker_held_ms(w, first) + w->setup.visibility_ms / 2 : INT64_MAX;
}
