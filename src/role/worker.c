/* A take's tasks live in one arena, freed when the last of them has ended. Outcomes are borrowed for the call that reports
 * them, so they are copied into the outbox, which is published at the next step as one batch and kept whole until that
 * succeeded: a worker that cannot report takes no more work once its slots are full of unpublished outcomes, and drops
 * nothing. */
#include "role/worker.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "core/target_url.h"

enum {
    TAKE_BATCH = 1024,
    TAKE_ARENA = 128 << 20,
    OUTBOX_ARENA = 256 << 20,
    PUBLISH_BATCH = 1024,
    RETRY_MS = 200,
    BREAKERS_MAX = 10000,
    WHY_MAX = 128,
    HELD_TEXT = TARGET_HOST_MAX + 128,
};

struct taken {
    struct arena arena;
    size_t references;
    struct job *jobs;
};

struct job {
    struct run run;
    struct worker *worker;
    struct taken *taken;
    struct breakers_answer asked; /* of one that calls a host */
    bool disowned;                /* whatever comes of it, nobody wants to know */
};

/* One that a later run replaces. */
struct doomed {
    struct delivery_id id;
    size_t why_size;
    char why[WHY_MAX];
};

struct outbox {
    struct arena arena;
    struct event *v;
    size_t n, cap;
};

struct worker {
    struct worker_setup setup;
    struct map running; /* id → job */
    struct map doomed;  /* delivery_id → struct doomed */
    struct breakers breakers;
    struct outbox outbox;
    struct outbox spare;                                 /* what is being published: the outbox may grow meanwhile */
    int64_t now_ms, behind_ms, renew_at_ms, retry_at_ms; /* retry: publishing what could not be published */
    int64_t take_at_ms;                                  /* taking, after the queue could not be reached */
    size_t disowned;                                     /* that have not ended yet */
    bool stopped, giving_up;
};

struct worker *worker_new(const struct worker_setup *setup)
{
    assert(setup->slots > 0 && setup->visibility_ms > 0);
    struct worker *w = xnew(*w);
    w->setup = *setup;
    w->renew_at_ms = INT64_MAX;
    map_init(&w->running, HASH_STABLE);
    map_init(&w->doomed, HASH_STABLE);
    breakers_init(&w->breakers, BREAKERS_MAX, setup->hash);
    arena_init(&w->outbox.arena, OUTBOX_ARENA);
    arena_init(&w->spare.arena, OUTBOX_ARENA);
    metric_set(setup->metrics, METRIC_WORKER_SLOTS, (double)setup->slots);
    return w;
}

static void outbox_release(struct outbox *o)
{
    arena_release(&o->arena);
    free(o->v);
}

static void forget_doomed(struct worker *w)
{
    map_each (&w->doomed, slot)
        free(slot->value);
    map_release(&w->doomed);
    map_init(&w->doomed, HASH_STABLE);
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    assert(worker_running(w) == 0);
    map_release(&w->running);
    forget_doomed(w);
    breakers_release(&w->breakers);
    outbox_release(&w->outbox);
    outbox_release(&w->spare);
    free(w);
}

static void taken_unref(struct taken *t)
{
    if (--t->references)
        return;
    arena_release(&t->arena);
    free(t->jobs);
    free(t);
}

/* ---- outcomes ---- */

static void keep_text(struct arena *a, struct str *s)
{
    if (s->n && !arena_str(a, *s, s))
        *s = S("");
}

static void report(struct worker *w, const struct task *t, const struct outcome *o)
{
    struct outbox *b = &w->outbox;
    if (b->n == b->cap) {
        b->cap = max_of(b->cap * 2, (size_t)256);
        b->v = xrealloc(b->v, b->cap * sizeof *b->v);
    }
    struct event *e = &b->v[b->n++];
    *e = (struct event){ .task = settle_facts_of(t, o, &b->arena), .outcome = *o };
    e->outcome.worker = w->setup.name; /* ours: outlives the event */
    keep_text(&b->arena, &e->task.retry.rules);
    keep_text(&b->arena, &e->outcome.error);
    keep_text(&b->arena, &e->outcome.output);
    keep_text(&b->arena, &e->outcome.trace_id);
}

static struct str key_of(const struct delivery_id *id)
{
    _Static_assert(sizeof *id == sizeof id->task + sizeof id->fence, "no gap in what is hashed");
    return (struct str){ (const char *)id, sizeof *id };
}

static const struct doomed *find_doomed(const struct worker *w, const struct task *t)
{
    struct delivery_id id = { t->id, t->fence };
    return w->doomed.n ? map_get(&w->doomed, key_of(&id)) : NULL;
}

/* What an aborted attempt is reported as. By our own deadline: nobody cancelled it, so it runs again elsewhere or later. */
static struct outcome cancelled(const struct worker *w, const struct task *t, const struct outcome *o)
{
    struct outcome ret = *o;
    const struct doomed *d = find_doomed(w, t);
    if (w->giving_up)
        ret.kind = OUTCOME_LOST;
    ret.error = d ? (struct str){ d->why, d->why_size } : S("cancelled while it ran");
    return ret;
}

static bool calls_a_host(const struct task *t)
{
    return t->target == TARGET_HTTP;
}

static void tell_breakers(struct worker *w, struct job *j, const struct outcome *o)
{
    const struct task *t = j->run.task;
    struct outcome told = *o;
    char host[TARGET_HOST_MAX];
    if (told.retry_after_ms > 0)
        told.retry_after_ms += w->behind_ms; /* the clock may catch up meanwhile */
    if (calls_a_host(t))
        breakers_report(&w->breakers, t->tenant, target_host(t, host), &j->asked, &told, o->completed_us / 1000);
}

static void job_done(struct run *run, const struct outcome *o)
{
    struct job *j = container_of(run, struct job, run);
    struct worker *w = j->worker;
    const struct task *t = run->task;
    failpoint("after_call");
    tell_breakers(w, j, o);
    if (j->disowned) {
        w->disowned--;
        taken_unref(j->taken);
        return;
    }
    map_remove(&w->running, uuid_bytes(&t->id));
    struct outcome aborted;
    if (o->kind == OUTCOME_CANCELLED) {
        aborted = cancelled(w, t, o);
        o = &aborted;
    }
    report(w, t, o);
    metric_observe_us(w->setup.metrics, METRIC_EXECUTION_DELAY, o->started_us - t->due_ms * 1000);
    metric_observe_us(w->setup.metrics, METRIC_EXECUTION_TIME, o->completed_us - o->started_us);
    taken_unref(j->taken);
}

static bool publish_batch(struct worker *w, struct outbox *b, size_t from, size_t n)
{
    struct delivery_id done[PUBLISH_BATCH];
    struct error e;
    if (events_publish(w->setup.events, b->v + from, n, &e)) {
        log_warn("publish_failed", kv_err(&e), kv_i64("outcomes", (int64_t)n));
        return false;
    }
    for (size_t i = 0; i < n; i++)
        done[i] = (struct delivery_id){ b->v[from + i].task.id, b->v[from + i].task.fence };
    if (queue_ack(w->setup.queue, done, n, &e)) /* its delivery lapses and is refused by its fence */
        log_warn("ack_failed", kv_err(&e), kv_i64("deliveries", (int64_t)n));
    return true;
}

static void publish(struct worker *w)
{
    if (w->spare.n == 0 && w->outbox.n) {
        struct outbox full = w->outbox;
        w->outbox = w->spare;
        w->spare = full;
    }
    if (w->spare.n == 0 || w->now_ms < w->retry_at_ms)
        return;
    size_t from = 0;
    while (from < w->spare.n && publish_batch(w, &w->spare, from, min_of(w->spare.n - from, (size_t)PUBLISH_BATCH)))
        from += min_of(w->spare.n - from, (size_t)PUBLISH_BATCH);
    if (from < w->spare.n) { /* what went out is out; the rest waits */
        memmove(w->spare.v, w->spare.v + from, (w->spare.n - from) * sizeof *w->spare.v);
        w->spare.n -= from;
        w->retry_at_ms = w->now_ms + RETRY_MS;
        return;
    }
    w->spare.n = 0;
    arena_reset(&w->spare.arena);
}

/* ---- taking ---- */

/* Asks the breakers; one that must wait is reported so. */
static bool is_held(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    char host[TARGET_HOST_MAX], text[HELD_TEXT];
    struct str at = target_host(t, host);
    j->asked = breakers_ask(&w->breakers, t->tenant, at, t->timeout_ms, w->now_ms);
    if (j->asked.go)
        return false;
    int n =
        j->asked.by_tenant
            ? snprintf(text, sizeof text, "held: nearly all that this tenant runs fails; its circuit breaker is open")
            : snprintf(text, sizeof text, "held: the circuit breaker of " STR_FMT " is open", STR_ARG(at));
    struct outcome o = { .kind = OUTCOME_HELD,
                         .retry_after_ms = max_of(j->asked.until_ms - w->now_ms, (int64_t)1),
                         .error = { text, (size_t)n } };
    metric_add(w->setup.metrics, METRIC_TASKS_HELD, 1);
    report(w, t, &o);
    return true;
}

static bool may_start(const struct worker *w, const struct task *t)
{
    return !w->setup.may_start || w->setup.may_start(w->setup.context, t);
}

/* What must not run any more, though it was pushed. */
static bool is_over(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    const struct doomed *d = find_doomed(w, t);
    struct outcome o = { .retry_after_ms = -1 };
    if (!may_start(w, t)) { /* we were stopped just now, or it was others' already: given back, if it is ours to give */
        o.kind = OUTCOME_RETURNED;
    } else if (d) {
        o.kind = OUTCOME_CANCELLED;
        o.error = (struct str){ d->why, d->why_size };
    } else if (is_expired(task_expires_ms(t), w->now_ms)) {
        o.kind = OUTCOME_EXPIRED;
        o.error = S("expired: it could not be started while it was of use");
    } else {
        return false;
    }
    report(w, t, &o);
    return true;
}

static void refuse(struct worker *w, struct job *j)
{
    struct outcome o = { .kind = OUTCOME_FAILED,
                         .failure = FAILURE_REFUSED,
                         .retry_after_ms = -1,
                         .started_us = w->now_ms * 1000,
                         .completed_us = w->now_ms * 1000,
                         .error = S("this release can not run such a target") };
    job_done(&j->run, &o);
}

/* False: its claim ends before it has begun, and that is reported. */
static bool start(struct worker *w, struct job *j)
{
    const struct task *t = j->run.task;
    struct runner *r = w->setup.runners[t->target];
    if (is_over(w, j) || (calls_a_host(t) && is_held(w, j)))
        return false;
    map_put(&w->running, uuid_bytes(&t->id), j);
    if (str_eq(t->task_type, S("poison")))
        failpoint("poison_call");
    failpoint("before_call");
    if (r)
        runner_start(r, &j->run);
    else
        refuse(w, j);
    return true;
}

static size_t free_slots(const struct worker *w)
{
    size_t used = worker_running(w) + w->outbox.n + w->spare.n;
    return w->setup.slots - min_of(used, w->setup.slots);
}

/* Returns how many were taken. */
static size_t take_some(struct worker *w)
{
    size_t room = min_of(free_slots(w), (size_t)TAKE_BATCH);
    if (room == 0 || w->stopped || w->now_ms < w->take_at_ms || queue_depth(w->setup.queue) == 0 || !may_start(w, NULL))
        return 0;
    struct taken *t = xnew(*t);
    struct tasks tasks = { 0 };
    struct error e;
    struct take ask = {
        .max = room, .now_ms = w->now_ms, .visibility_ms = w->setup.visibility_ms, .worker = w->setup.id
    };
    arena_init(&t->arena, TAKE_ARENA);
    t->references = 1;
    if (queue_take(w->setup.queue, &ask, &t->arena, &tasks, &e)) {
        log_warn("take_failed", kv_err(&e));
        w->take_at_ms = w->now_ms + RETRY_MS; /* nobody else would call: what waits there was pushed before */
    }
    t->jobs = xcalloc(tasks.n, sizeof *t->jobs);
    for (size_t i = 0; i < tasks.n; i++) {
        t->jobs[i] = (struct job){ .run = { .task = &tasks.v[i], .worker = w->setup.name, .done = job_done },
                                   .worker = w,
                                   .taken = t };
        t->references++;
        if (!start(w, &t->jobs[i]))
            t->references--;
    }
    taken_unref(t);
    return tasks.n;
}

/* A delivery that is not renewed lapses: who runs it may be dead. */
static void renew(struct worker *w)
{
    if (w->running.n == 0) {
        w->renew_at_ms = INT64_MAX;
        return;
    }
    if (w->renew_at_ms == INT64_MAX)
        w->renew_at_ms = w->now_ms + w->setup.visibility_ms / 3;
    if (w->now_ms < w->renew_at_ms)
        return;
    struct delivery_id *ids = xcalloc(w->running.n, sizeof *ids);
    struct error e;
    size_t n = 0;
    map_each (&w->running, slot) {
        const struct task *t = ((const struct job *)slot->value)->run.task;
        ids[n++] = (struct delivery_id){ t->id, t->fence };
    }
    if (queue_renew(w->setup.queue, ids, n, w->now_ms + w->setup.visibility_ms, &e))
        log_warn("renew_failed", kv_err(&e));
    free(ids);
    w->renew_at_ms = w->now_ms + w->setup.visibility_ms / 3;
}

int64_t worker_step(struct worker *w, int64_t now_ms, int64_t behind_ms)
{
    if (now_ms < w->now_ms) /* the clock was set back: whatever waits for a time does not wait for that one */
        w->renew_at_ms = w->retry_at_ms = w->take_at_ms = now_ms;
    w->now_ms = now_ms;
    w->behind_ms = behind_ms;
    do
        publish(w);
    while (take_some(w) > 0);
    publish(w);
    renew(w);
    metric_set(w->setup.metrics, METRIC_TASKS_RUNNING, (double)w->running.n);
    metric_set(w->setup.metrics, METRIC_UTILIZATION, (double)w->running.n / (double)w->setup.slots);
    metric_set(w->setup.metrics, METRIC_QUEUE_DEPTH, (double)queue_depth(w->setup.queue));
    int64_t wake = min_of(w->renew_at_ms, w->spare.n ? w->retry_at_ms : INT64_MAX);
    return w->take_at_ms > now_ms ? min_of(wake, w->take_at_ms) : wake;
}

bool worker_abort(struct worker *w, struct uuid id, int64_t fence)
{
    struct job *j = map_get(&w->running, uuid_bytes(&id));
    if (!j || j->run.task->fence != fence)
        return false;
    runner_abort(w->setup.runners[j->run.task->target], &j->run);
    return true;
}

void worker_replace(struct worker *w, struct uuid id, int64_t fence, struct str why)
{
    struct doomed *d = xnew(*d);
    d->id = (struct delivery_id){ id, fence };
    d->why_size = min_of(why.n, sizeof d->why);
    memcpy(d->why, why.p, d->why_size);
    free(map_put(&w->doomed, key_of(&d->id), d));
    worker_abort(w, id, fence);
}

void worker_settled(struct worker *w, struct uuid id, int64_t fence)
{
    struct delivery_id key = { id, fence };
    if (w->doomed.n)
        free(map_remove(&w->doomed, key_of(&key)));
}

struct breakers *worker_breakers(struct worker *w)
{
    return &w->breakers;
}

void worker_stop_taking(struct worker *w)
{
    w->stopped = true;
}

void worker_give_up(struct worker *w)
{
    w->giving_up = true;
    struct job **jobs = xcalloc(w->running.n, sizeof *jobs);
    size_t n = 0;
    map_each (&w->running, slot)
        jobs[n++] = slot->value;
    for (size_t i = 0; i < n; i++)
        runner_abort(w->setup.runners[jobs[i]->run.task->target], &jobs[i]->run);
    free(jobs);
}

static void drop_queued(struct worker *w)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, TAKE_ARENA);
    struct take all = {
        .max = TAKE_BATCH, .now_ms = w->now_ms, .visibility_ms = w->setup.visibility_ms, .worker = w->setup.id
    };
    struct tasks tasks = { 0 };
    struct error e;
    /* What the queue does not give us now is refused when it does: see may_start. */
    while (queue_depth(w->setup.queue) && queue_take(w->setup.queue, &all, &a, &tasks, &e) == ERR_OK && tasks.n) {
        for (size_t i = 0; i < tasks.n; i++) {
            struct delivery_id d = { tasks.v[i].id, tasks.v[i].fence };
            if (queue_ack(w->setup.queue, &d, 1, &e))
                log_warn("ack_failed", kv_err(&e));
        }
        arena_reset(&a);
    }
}

void worker_disown(struct worker *w)
{
    struct job **jobs = xcalloc(w->running.n, sizeof *jobs);
    size_t n = 0;
    map_each (&w->running, slot)
        jobs[n++] = slot->value;
    for (size_t i = 0; i < n; i++) {
        jobs[i]->disowned = true;
        map_remove(&w->running, uuid_bytes(&jobs[i]->run.task->id));
    }
    w->disowned += n;
    for (size_t i = 0; i < n; i++)
        runner_abort(w->setup.runners[jobs[i]->run.task->target], &jobs[i]->run);
    free(jobs);
    forget_doomed(w);
    drop_queued(w);
}

size_t worker_running(const struct worker *w)
{
    return w->running.n + w->disowned;
}

size_t worker_unpublished(const struct worker *w)
{
    return w->outbox.n + w->spare.n;
}
