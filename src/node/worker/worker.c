/* The tasks of a take live in one arena, which is freed when the outcome of the last of them was published
 * (outbox.c). They are started in the step after the take (take.c), which has the current time. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "core/target/target_url.h"
#include "node/trace/spans.h"
#include "node/worker/internal.h"

enum {
    BREAKERS_MAX = 10000,
    DOC_MAX = 64 << 10,
    KIND_MAX = 1 << 20,
    WHY_MAX = 128,
    HELD_TEXT = TARGET_HOST_MAX + 128,
};

/* Why a task that a later run replaces is cancelled. */
struct cancel_reason {
    struct fenced_id id;
    size_t why_size;
    char why[WHY_MAX];
};

/* It keeps no slots for classes that never come. */
static void worker_note_classes(struct worker *w)
{
    const struct queue_filter *f = w->setup.filter;
    for (int p = PRIORITY_MIN; p <= PRIORITY_MAX; p++)
        if (!f || (p >= f->priority_min && p <= f->priority_max))
            w->serves[priority_class_of(p)] = true;
}

struct worker *worker_new(const struct worker_setup *setup)
{
    assert(setup->slots > 0 && setup->visibility_ms > 0);
    struct worker *w = xnew(*w);
    w->setup = *setup;
    w->renew_at_ms = INT64_MAX;
    map_init(&w->running, HASH_STABLE);
    map_init(&w->cancel_reason, HASH_STABLE);
    worker_host_calls_init(w);
    worker_note_classes(w);
    w->renewed_ms = INT64_MIN;
    breakers_init(&w->breakers, BREAKERS_MAX, setup->hash);
    buf_init(&w->doc, DOC_MAX);
    arena_init(&w->kind_arena, KIND_MAX);
    w->kind = queue_worker_kind(setup->filter, setup->cpu_milli, setup->memory_mb, &w->kind_arena);
    worker_outbox_init(w);
    metric_set(setup->metrics, METRIC_WORKER_SLOTS, (double)setup->slots);
    return w;
}

static void worker_forget_cancel_reasons(struct worker *w)
{
    map_each (&w->cancel_reason, slot)
        free(slot->value);
    map_release(&w->cancel_reason);
    map_init(&w->cancel_reason, HASH_STABLE);
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    thread_owner_drop(&w->owner); /* the loop has ended, perhaps on another thread */
    assert(worker_running(w) == 0 && !w->taking && !w->unblocking && !w->arrived && !w->reporting);
    for (size_t i = 0; i < w->outbox.n; i++)
        delivery_batch_unref(w->outbox.jobs[i]->delivery_batch);
    for (size_t i = w->sent; i < w->spare.n; i++)
        delivery_batch_unref(w->spare.jobs[i]->delivery_batch);
    map_release(&w->running);
    worker_host_calls_release(w);
    worker_forget_cancel_reasons(w);
    breakers_release(&w->breakers);
    worker_outbox_release(w);
    buf_release(&w->doc);
    arena_release(&w->kind_arena);
    free(w);
}

void delivery_batch_unref(struct delivery_batch *h)
{
    if (--h->references)
        return;
    arena_release(&h->take.arena);
    free(h->jobs);
    free(h);
}

/* ---- outcomes ---- */

static const struct cancel_reason *worker_find_cancel_reason(const struct worker *w, const struct job *j)
{
    return w->cancel_reason.n ? map_get(&w->cancel_reason, fenced_id_key(&j->id)) : NULL;
}

/* The outcome of an aborted attempt. If the worker aborted it at its own drain deadline, nobody cancelled the task:
 * it is lost, or returned if its call still waited in the runner, and runs elsewhere or later. */
static struct outcome worker_cancelled_outcome(const struct worker *w, const struct job *j, const struct outcome *o)
{
    struct outcome ret = *o;
    const struct cancel_reason *d = worker_find_cancel_reason(w, j);
    if (w->giving_up)
        ret.kind = o->started_us ? OUTCOME_LOST : OUTCOME_RETURNED;
    ret.error = d               ? (struct str){ d->why, d->why_size }
                : o->started_us ? S("cancelled while it ran")
                                : S("cancelled before it began");
    return ret;
}

/* A task that waited for a breaker's sake is a trial of it, also if the breaker of this worker is closed: then others
 * hold calls back, and hear of its result. */
static struct breaker_news worker_trial_news(struct worker *w, const struct task *t, struct str host,
                                             const struct outcome *o)
{
    struct breaker_status s;
    enum breaker_sign sign = breaker_sign_of(o);
    bool closed = !breakers_status(&w->breakers, t->tenant, host, w->now.wall_ms, &s) ||
                  (s.state == BREAKER_CLOSED && !s.held_by_retry_after);
    if (!closed || sign == BREAKER_NOTHING)
        return (struct breaker_news){ 0 };
    bool failed = w->setup.fleet && sign == BREAKER_FAILURE;
    return (struct breaker_news){ .kind = failed ? BREAKER_TRIAL_FAILED : BREAKER_RECOVERED };
}

static void worker_tell_breakers(struct worker *w, struct job *j, const struct outcome *o)
{
    const struct task *t = j->run.task;
    struct outcome reported = *o;
    char host[TARGET_HOST_MAX];
    if (reported.retry_after_ms > 0)
        reported.retry_after_ms += w->behind_ms; /* the clock may catch up meanwhile */
    struct str at = target_host(t, host);
    j->news = breakers_report(&w->breakers, t->tenant, at, &j->asked, &reported, o->completed_us / 1000);
    if (at.n && j->news.host.kind == BREAKER_NO_NEWS && str_eq(t->aside, at))
        j->news.host = worker_trial_news(w, t, at, o);
    if (at.n && j->news.tenant.kind == BREAKER_NO_NEWS && str_eq(t->aside, BREAKER_ANY_HOST))
        j->news.tenant = worker_trial_news(w, t, S(""), o);
}

/* Adds (1) or removes (-1) the task's part of the worker's slots, CPU, memory and suspects. */
static void worker_occupy(struct worker *w, const struct task *t, int sign)
{
    w->running_of[priority_class_of(t->priority)] += (size_t)sign;
    w->cpu_used += sign * t->cpu_milli;
    w->memory_used += sign * t->memory_mb;
    w->suspects += (size_t)(sign * task_is_suspect(t));
}

struct class_slots worker_free_slots(const struct worker *w)
{
    struct class_slots slots = class_slots_of(w->setup.slots, w->running_of);
    for (int c = 0; c < CLASSES; c++)
        if (!w->serves[c])
            slots.kept[c] = 0;
    return slots;
}

/* A slot is about to become free. Tasks that are in the queue by now have waited for it. */
static void worker_note_full(struct worker *w, int64_t now_ms)
{
    struct class_slots slots = worker_free_slots(w);
    for (int c = 0; c < CLASSES; c++)
        if (class_slots_for(&slots, (enum priority_class)c) == 0)
            w->full_ms[c] = now_ms;
}

/* In a fleet, the node that pushed the task may not have known yet that no slot was free. */
static enum late_cause worker_late_cause(const struct job *j)
{
    if (j->was_parked)
        return LATE_HOST;
    return j->run.task->late_by == LATE_NONE && j->lacked_room ? LATE_ROOM : j->run.task->late_by;
}

/* Logged once a minute: the task itself waits, and shows the same error. */
static void worker_tell_missing_key(struct worker *w, const struct outcome *o)
{
    metric_add(w->setup.metrics, METRIC_TASKS_WITHOUT_KEY, 1);
    if (w->missing_key_told_ms && w->now.steady_ms - w->missing_key_told_ms < LACK_TELL_MS)
        return;
    w->missing_key_told_ms = w->now.steady_ms;
    log_error("secrets_key_missing", kv_str("error", o->error),
              kv_cstr("remedy", "give this process the key file of the nodes (secrets.key_file) and restart it"));
}

static void worker_tell_missing_file(struct worker *w)
{
    if (w->missing_file_told_ms && w->now.steady_ms - w->missing_file_told_ms < LACK_TELL_MS)
        return;
    w->missing_file_told_ms = w->now.steady_ms;
    log_error("files_used_up", kv_cstr("remedy", "let this process open more files (LimitNOFILE, ulimit -Hn), or set "
                                                 "worker.concurrency or api.connections lower; its tasks wait"));
}

/* The runner could not start it: a key or a connection is missing. The task names the process that lacks it. */
static void worker_hold_done(struct worker *w, struct job *j, struct outcome *o)
{
    char text[HELD_TEXT];
    o->late_by = o->lacks_key || o->lacks_file ? LATE_ROOM : LATE_LIMIT;
    if (o->lacks_key)
        worker_tell_missing_key(w, o);
    if (o->lacks_file)
        worker_tell_missing_file(w);
    if (o->lacks_key || o->lacks_file) {
        snprintf(text, sizeof text, "held: " STR_FMT " (on " STR_FMT ")",
                 STR_ARG(str_utf8_cut(o->error, HELD_TEXT / 2)), STR_ARG(str_utf8_cut(w->setup.name, HELD_TEXT / 4)));
        o->error = str_from(text);
    }
    worker_add_outcome(w, j, o);
}

/* The trace of an attempt that is recorded stands for those of the same bucket. */
static void worker_note_exemplars(struct worker *w, const struct run *run, const struct outcome *o)
{
    if (!run->is_sampled)
        return;
    struct trace trace = trace_of(run->task);
    int64_t delay_us = o->started_us - task_awaited_ms(run->task) * 1000, now_ms = o->completed_us / 1000;
    metric_note_exemplar(w->setup.metrics, METRIC_EXECUTION_DELAY, delay_us, trace.id, now_ms);
    metric_note_exemplar(w->setup.metrics, METRIC_EXECUTION_TIME, o->completed_us - o->started_us, trace.id, now_ms);
}

static void worker_on_run_done(struct run *run, const struct outcome *o)
{
    struct job *j = container_of(run, struct job, run);
    struct worker *w = j->worker;
    const struct task *t = run->task;
    failpoint("after_call");
    worker_tell_breakers(w, j, o);
    worker_note_full(w, max_of(w->now.wall_ms, o->completed_us / 1000));
    worker_occupy(w, t, -1);
    worker_leave_host(w, j);
    if (j->disowned) {
        w->disowned--;
        delivery_batch_unref(j->delivery_batch);
        return;
    }
    map_remove(&w->running, fenced_id_key(&j->id));
    struct outcome aborted;
    if (o->kind == OUTCOME_CANCELLED) {
        aborted = worker_cancelled_outcome(w, j, o);
        o = &aborted;
    }
    struct outcome known = *o;
    if (o->kind == OUTCOME_HELD) {
        worker_hold_done(w, j, &known);
        return;
    }
    if (!o->started_us) { /* aborted while it waited in its runner: there is no call to measure */
        worker_add_outcome(w, j, &known);
        return;
    }
    known.late_by = worker_late_cause(j);
    known.sampled = run->is_sampled;
    spans_add_call(w->setup.tracer, run, &known);
    worker_add_outcome(w, j, &known);
    late_measure(w->setup.metrics, task_awaited_ms(t), (&known)->started_us, (&known)->late_by);
    metric_observe_us(w->setup.metrics, METRIC_EXECUTION_TIME, o->completed_us - o->started_us);
    worker_note_exemplars(w, run, &known);
}

/* ---- taking ---- */

/* A node claims from the lanes of a host whose breaker is open only to try it. In a fleet, that node may know better
 * than this worker when it is time: a user has closed the breaker, or another worker has opened it. */
static void worker_allow_trial(struct worker *w, const struct task *t, struct str host)
{
    if (!w->setup.fleet || !t->aside.n)
        return;
    if (str_eq(t->aside, host))
        breakers_allow_trial(&w->breakers, t->tenant, host, w->now.wall_ms);
    else if (str_eq(t->aside, BREAKER_ANY_HOST))
        breakers_allow_trial(&w->breakers, t->tenant, S(""), w->now.wall_ms);
}

static enum late_cause worker_hold_cause(struct worker *w, const struct job *j, struct str host)
{
    struct breaker_status s;
    bool asked_for = !j->asked.by_tenant &&
                     breakers_status(&w->breakers, j->run.task->tenant, host, w->now.wall_ms, &s) &&
                     s.state == BREAKER_CLOSED && s.held_by_retry_after;
    return asked_for ? LATE_RETRY_AFTER : LATE_BREAKER;
}

/* Asks the breakers. A task that must wait is reported as HELD: it keeps its due time, and waits in a lane of its host,
 * or of the tenant's breaker. */
static bool worker_is_held_by_breaker(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    char host[TARGET_HOST_MAX], text[HELD_TEXT];
    struct str at = target_host(t, host);
    worker_allow_trial(w, t, at);
    j->asked = breakers_ask(&w->breakers, t->tenant, at, t->timeout_ms, w->now.wall_ms);
    if (j->asked.go)
        return false;
    int n =
        j->asked.by_tenant
            ? snprintf(text, sizeof text,
                       "held: the circuit breaker of the tenant is open, and no call to " STR_FMT " succeeded lately",
                       STR_ARG(at))
            : snprintf(text, sizeof text, "held: the circuit breaker of " STR_FMT " is open", STR_ARG(at));
    struct outcome o = { .kind = OUTCOME_HELD,
                         .retry_after_ms = -1,
                         .error = { text, (size_t)n },
                         .late_by = worker_hold_cause(w, j, at),
                         .aside = j->asked.by_tenant ? BREAKER_ANY_HOST : at };
    struct breaker_news held = { .kind = BREAKER_HELD, .until_ms = j->asked.until_ms };
    j->news = (struct breakers_news){ .host = j->asked.by_tenant ? (struct breaker_news){ 0 } : held,
                                      .tenant = j->asked.by_tenant ? held : (struct breaker_news){ 0 } };
    metric_add(w->setup.metrics, METRIC_TASKS_HELD, 1);
    worker_add_outcome(w, j, &o);
    return true;
}

bool worker_may_start(const struct worker *w, const struct task *t)
{
    return !w->setup.may_start || w->setup.may_start(w->setup.context, t);
}

/* A copy that was left in the queue: the task was claimed anew, and has been called. */
static bool worker_is_outdated(const struct worker *w, const struct job *j)
{
    return w->setup.fences && recent_fences_has_higher(w->setup.fences, j->id.id, j->id.fence);
}

/* Reports a task that must not start although it was pushed. */
static bool worker_must_not_start(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    const struct cancel_reason *d = worker_find_cancel_reason(w, j);
    struct outcome o = { .retry_after_ms = -1 };
    if (d || j->request == JOB_ABORTED) {
        o.kind = OUTCOME_CANCELLED;
        o.error = d ? (struct str){ d->why, d->why_size } : S("cancelled before it began");
    } else if (w->stopped || j->request == JOB_WANTED || worker_is_late(w, j) || worker_may_be_wanted(w, j) ||
               worker_is_outdated(w, j) || !worker_may_start(w, t)) {
        /* returned, if its claim is still valid */
        o.kind = OUTCOME_RETURNED;
    } else if (is_expired(task_expires_ms(t), w->now.wall_ms)) {
        o.kind = OUTCOME_EXPIRED;
        o.error = S("expired: it did not start within expires_after_seconds of its due time");
    } else {
        return false;
    }
    worker_add_outcome(w, j, &o);
    return true;
}

static void worker_refuse(struct worker *w, struct job *j)
{
    struct outcome o = { .kind = OUTCOME_FAILED,
                         .failure = FAILURE_REFUSED,
                         .retry_after_ms = -1,
                         .started_us = w->now.wall_ms * 1000,
                         .completed_us = w->now.wall_ms * 1000,
                         .error = S("this release cannot run such a target") };
    worker_on_run_done(&j->run, &o);
}

static void worker_run(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    struct runner *r = w->setup.runners[t->target];
    if (worker_is_held_by_breaker(w, j))
        return;
    map_put(&w->running, fenced_id_key(&j->id), j);
    worker_occupy(w, t, 1);
    worker_enter_host(w, j);
    j->started_ms = w->now.wall_ms;
    if (w->setup.fences)
        recent_fences_note(w->setup.fences, j->id.id, j->id.fence);
    spans_decide(w->setup.tracer, &j->run);
    if (w->setup.started)
        w->setup.started(w->setup.context, t);
    if (str_eq(t->task_type, S("poison")))
        failpoint("poison_call");
    failpoint("before_call");
    if (r)
        runner_start(r, &j->run);
    else
        worker_refuse(w, j);
}

/* Or reports an outcome without starting it. */
static void worker_start(struct worker *w, struct job *j)
{
    if (worker_runs(w, j->id.id, j->id.fence)) { /* a queue restored from an older copy may deliver it twice */
        delivery_batch_unref(j->delivery_batch);
        return;
    }
    if (!worker_must_not_start(w, j) && !worker_waits_for_host(w, j))
        worker_run(w, j);
}

void worker_start_parked_job(struct worker *w, struct job *j)
{
    if (!worker_must_not_start(w, j))
        worker_run(w, j);
}

static void worker_make_jobs(struct worker *w, struct delivery_batch *h)
{
    struct tasks tasks = h->take.ret.tasks;
    w->asked = (struct class_slots){ 0 };
    h->jobs = xcalloc(tasks.n + 1, sizeof *h->jobs);
    h->references += tasks.n;
    for (size_t i = 0; i < tasks.n; i++) {
        const struct task *t = &tasks.v[i];
        h->jobs[i] =
            (struct job){ .run = { .task = t, .worker = w->setup.name, .done = worker_on_run_done },
                          .id = { t->id, t->fence },
                          .worker = w,
                          .delivery_batch = h,
                          .lacked_room = w->setup.fleet && w->full_ms[priority_class_of(t->priority)] > t->due_ms };
    }
    worker_apply_requests(w, &h->take.ret);
}

/* Returns how many have started, or were reported. */
static size_t worker_start_arrived(struct worker *w)
{
    struct delivery_batch *h = w->arrived;
    size_t before = h->begun;
    if (!h->jobs)
        worker_make_jobs(w, h);
    for (; h->begun < h->take.ret.tasks.n; h->begun++) {
        struct job *j = &h->jobs[h->begun];
        if (worker_must_hear_first(w, j))
            return h->begun - before;
        worker_start(w, j);
    }
    w->arrived = NULL;
    size_t n = h->begun - before;
    delivery_batch_unref(h);
    return n;
}

/* Returns how many were taken. */
static size_t worker_take_some(struct worker *w)
{
    if (!w->arrived)
        worker_ask_for_more(w);
    return w->arrived ? worker_start_arrived(w) : 0;
}

static void worker_show_metrics(const struct worker *w)
{
    struct async_io *c = w->setup.async_io;
    metric_set(w->setup.metrics, METRIC_TASKS_RUNNING, (double)w->running.n);
    metric_set(w->setup.metrics, METRIC_TASKS_PARKED, (double)w->parked.n);
    metric_set(w->setup.metrics, METRIC_UTILIZATION, (double)w->running.n / (double)w->setup.slots);
    if (c->at_once)
        metric_set(w->setup.metrics, METRIC_QUEUE_WAITING, (double)c->ops->queue_depth(c));
}

int64_t worker_step(struct worker *w, struct moment now, int64_t behind_ms)
{
    if (!w->owner.thread)
        thread_owner_take(&w->owner);
    assert_owned(&w->owner);
    w->now = now;
    w->behind_ms = behind_ms;
    int64_t wake;
    do {
        worker_publish(w);
        wake = worker_start_parked(w);
    } while (worker_take_some(w) > 0);
    worker_publish(w);
    if (!w->setup.async_io->at_once)
        worker_ask_for_more(w); /* the last take brought nothing */
    worker_unblock_take(w);
    worker_renew(w);
    worker_show_metrics(w);
    wake = min_of(wake, w->renewing ? INT64_MAX : w->renew_at_ms);
    if (w->spare.n && !w->publishing)
        wake = min_of(wake, w->retry_at_ms);
    if (!list_empty(&w->unacked))
        wake = min_of(wake, now.steady_ms + WORKER_RETRY_MS);
    wake = min_of(wake, worker_next_take_ms(w));
    wake = min_of(wake, worker_arrived_late_ms(w));
    return moment_earlier(moment_wall_at(now, wake), worker_report(w));
}

bool worker_runs(const struct worker *w, struct uuid id, int64_t fence)
{
    assert_owned(&w->owner);
    struct fenced_id key = { id, fence };
    return map_get(&w->running, fenced_id_key(&key)) || map_get(&w->parked, fenced_id_key(&key));
}

bool worker_abort(struct worker *w, struct uuid id, int64_t fence)
{
    assert_owned(&w->owner);
    struct fenced_id key = { id, fence };
    struct job *j = map_get(&w->running, fenced_id_key(&key));
    const struct cancel_reason *d = map_get(&w->cancel_reason, fenced_id_key(&key));
    if (!j)
        return worker_cancel_parked(w, &key, d ? (struct str){ d->why, d->why_size } : S("cancelled before it began"));
    runner_abort(w->setup.runners[j->run.task->target], &j->run);
    return true;
}

void worker_replace(struct worker *w, struct uuid id, int64_t fence, struct str why)
{
    assert_owned(&w->owner);
    struct cancel_reason *d = xnew(*d);
    d->id = (struct fenced_id){ id, fence };
    d->why_size = min_of(why.n, sizeof d->why);
    memcpy(d->why, why.p, d->why_size);
    free(map_put(&w->cancel_reason, fenced_id_key(&d->id), d));
    worker_abort(w, id, fence);
}

void worker_settled(struct worker *w, struct uuid id, int64_t fence)
{
    assert_owned(&w->owner);
    struct fenced_id key = { id, fence };
    if (w->cancel_reason.n)
        free(map_remove(&w->cancel_reason, fenced_id_key(&key)));
}

struct breakers *worker_breakers(struct worker *w)
{
    assert_owned(&w->owner);
    return &w->breakers;
}

void worker_stop_taking(struct worker *w)
{
    assert_owned(&w->owner);
    w->stopped = true;
}

void worker_give_up(struct worker *w)
{
    assert_owned(&w->owner);
    w->giving_up = true;
    worker_return_parked(w);
    struct job **jobs = xcalloc(w->running.n, sizeof *jobs);
    size_t n = 0;
    map_each (&w->running, slot)
        jobs[n++] = slot->value;
    for (size_t i = 0; i < n; i++)
        runner_abort(w->setup.runners[jobs[i]->run.task->target], &jobs[i]->run);
    free(jobs);
}

static void worker_on_dropped(struct io_request *e)
{
    if (e->rc)
        log_warn("ack_failed", kv_err(&e->error));
}

void worker_drop_delivery(struct worker *w, struct fenced_id id)
{
    assert(w->setup.async_io->at_once);
    struct io_ids ack = { .io_request = { .kind = IO_ACK, .done = worker_on_dropped }, .v = &id, .n = 1 };
    async_io_submit(w->setup.async_io, &ack.io_request);
}

static void worker_drop_parked(struct worker *w, struct job *j)
{
    worker_drop_delivery(w, j->id);
    delivery_batch_unref(j->delivery_batch);
}

bool worker_recall(struct worker *w, struct uuid id, int64_t fence)
{
    assert_owned(&w->owner);
    struct job *j = worker_take_off_line(w, &(struct fenced_id){ id, fence });
    if (j)
        worker_drop_parked(w, j);
    return j != NULL;
}

bool worker_return(struct worker *w, struct uuid id, int64_t fence, const struct outcome *returned)
{
    assert_owned(&w->owner);
    assert(returned->kind == OUTCOME_RETURNED);
    struct job *j = worker_take_off_line(w, &(struct fenced_id){ id, fence });
    if (j)
        worker_add_outcome(w, j, returned);
    return j != NULL;
}

void worker_disown(struct worker *w)
{
    assert_owned(&w->owner);
    struct job **jobs = xcalloc(w->running.n, sizeof *jobs);
    size_t n = 0;
    map_each (&w->running, slot)
        jobs[n++] = slot->value;
    for (size_t i = 0; i < n; i++) {
        jobs[i]->disowned = true;
        map_remove(&w->running, fenced_id_key(&jobs[i]->id));
    }
    w->disowned += n;
    for (size_t i = 0; i < n; i++)
        runner_abort(w->setup.runners[jobs[i]->run.task->target], &jobs[i]->run);
    free(jobs);
    for (struct job *j; (j = worker_pop_parked(w));)
        worker_drop_parked(w, j);
    worker_forget_cancel_reasons(w);
    worker_drop_queued(w);
}

size_t worker_running(const struct worker *w)
{
    assert_owned(&w->owner);
    return w->running.n + w->disowned;
}

bool worker_is_idle(const struct worker *w)
{
    assert_owned(&w->owner);
    bool never_reported = uuid_is_nil(w->last_report.worker.id); /* it has never reported itself */
    bool reported = !w->stopped || !w->setup.fleet || w->has_left || never_reported;
    return reported && worker_running(w) == 0 && worker_parked(w) == 0 && worker_unpublished(w) == 0 && !w->taking &&
           !w->unblocking && !w->arrived && !w->publishing && !w->acking && !w->renewing && !w->reporting;
}
