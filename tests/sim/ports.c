/* Queue and events as they are over a network: calls fail, events come twice, late and out of order. And the
 * receiver, which the tasks call. */
#include <stdlib.h>

#include "events/memory/events_memory.h"
#include "platform/async_io_direct.h"
#include "queue/memory/queue_memory.h"
#include "sim.h"

/* ---- queue ---- */

static struct sim_node *node_of_queue(struct queue *q)
{
    return container_of(q, struct sim_node, queue);
}

static enum err queue_down(struct sim *s, struct error *e)
{
    return faulty(s, s->profile.ports_percent, FAULT_QUEUE_FAIL) ? error_set(e, ERR_UNAVAILABLE, "the queue is down")
                                                                 : ERR_OK;
}

static enum err q_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                       struct error *e)
{
    struct sim_node *node = node_of_queue(q);
    return queue_down(node->sim, e) ? e->code : queue_push(node->queue_inner, tasks, n, epoch, ret, e);
}

static enum err q_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret, struct error *e)
{
    struct sim_node *node = node_of_queue(q);
    return queue_down(node->sim, e) ? e->code : queue_take(node->queue_inner, t, a, ret, e);
}

static enum err q_renew(struct queue *q, const struct task *const *v, size_t n, const struct take *by, struct error *e)
{
    struct sim_node *node = node_of_queue(q);
    return queue_down(node->sim, e) ? e->code : queue_renew(node->queue_inner, v, n, by, e);
}

static enum err q_ack(struct queue *q, const struct fenced_id *v, size_t n, struct error *e)
{
    struct sim_node *node = node_of_queue(q);
    return queue_down(node->sim, e) ? e->code : queue_ack(node->queue_inner, v, n, e);
}

static enum err q_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                            struct error *e)
{
    return queue_timed_out(node_of_queue(q)->queue_inner, now_ms, a, ret, e);
}

static enum err q_recall(struct queue *q, struct fenced_id d, bool *ret_recalled, struct error *e)
{
    return queue_recall(node_of_queue(q)->queue_inner, d, ret_recalled, e);
}

static size_t q_depth(struct queue *q)
{
    return queue_depth(node_of_queue(q)->queue_inner);
}

/* ---- events ---- */

static struct sim_node *node_of_events(struct events *ev)
{
    return container_of(ev, struct sim_node, events);
}

static enum err events_down(struct sim *s, struct error *e)
{
    return faulty(s, s->profile.ports_percent, FAULT_EVENT_FAIL) ? error_set(e, ERR_UNAVAILABLE, "events are down")
                                                                 : ERR_OK;
}

/* A copy that arrives once more, perhaps much later. */
struct barrier {
    struct event event;
    struct sim_node *node;
    uint64_t life;
};

static void arrive_again(struct sim *s, void *context)
{
    (void)s;
    struct barrier *barrier = context;
    struct sim_node *node = barrier->node;
    struct error e;
    if (node->node && barrier->life == node->life &&
        events_publish(node->events_inner, &barrier->event, 1, &e) == ERR_OK)
        node->poked = true;
    free(barrier);
}

static void barrier_some(struct sim_node *node, const struct event *v, size_t n)
{
    struct sim *s = node->sim;
    for (size_t i = 0; i < n; i++) {
        if (!faulty(s, s->profile.ports_percent, FAULT_EVENT_TWICE))
            continue;
        struct barrier *barrier = xnew(*barrier);
        *barrier = (struct barrier){ v[i], node, node->life };
        barrier->event.task.queue = barrier->event.task.name = barrier->event.task.trace = S("");
        barrier->event.task.retry.rules = barrier->event.outcome.error = barrier->event.outcome.output = S("");
        if (v[i].outcome.output.n && flows_task(s, v[i].task.id)) {
            cleanup_with(buf_release) struct buf text;
            buf_init(&text, v[i].outcome.output.n + 1);
            buf_add(&text, v[i].outcome.output);
            barrier->event.outcome.output = flows_keep(s, &text);
        }
        barrier->event.outcome.worker = barrier->event.outcome.trace_id = barrier->event.outcome.aside = S("");
        after_us(s, chance(s, 50) ? 0 : between(s, 0, 20000000), arrive_again, barrier);
    }
}

static enum err e_publish(struct events *ev, const struct event *v, size_t n, struct error *e)
{
    struct sim_node *node = node_of_events(ev);
    if (events_down(node->sim, e))
        return e->code;
    barrier_some(node, v, n);
    for (size_t i = 0; i < n && node->sim->ghost != node; i++)
        blame_judge(node->sim, &v[i]);
    return events_publish(node->events_inner, v, n, e);
}

static enum err e_poll(struct events *ev, size_t max, int64_t wait_ms, struct arena *a, struct event_list *ret,
                       struct error *e)
{
    struct sim_node *node = node_of_events(ev);
    struct sim *s = node->sim;
    if (events_down(s, e) || events_poll(node->events_inner, max, wait_ms, a, ret, e))
        return e->code;
    if (ret->n > 1 && faulty(s, 2 * s->profile.ports_percent, FAULT_EVENT_ORDER)) {
        for (size_t i = ret->n - 1; i > 0; i--) {
            size_t k = (size_t)between(s, 0, (int64_t)i);
            struct event moved = ret->v[i];
            ret->v[i] = ret->v[k];
            ret->v[k] = moved;
        }
    }
    return ERR_OK;
}

static void come_again(struct sim *s, void *context)
{
    (void)s;
    struct sim_node *node = context; /* of a later life: then the copy is for nothing */
    struct error e;
    if (node->node && events_reset(node->events_inner, &e) == ERR_OK)
        node->poked = true;
}

/* An acknowledgement that failed leaves its events unacknowledged: they come again, with all others that are under
 * way. */
static enum err e_ack(struct events *ev, const uint64_t *sequences, size_t n, struct error *e)
{
    struct sim_node *node = node_of_events(ev);
    struct sim *s = node->sim;
    if (events_down(s, e)) {
        after_us(s, between(s, 0, 2000000), come_again, node);
        return e->code;
    }
    return events_ack(node->events_inner, sequences, n, e);
}

static enum err e_reset(struct events *ev, struct error *e)
{
    return events_reset(node_of_events(ev)->events_inner, e);
}

static size_t e_depth(struct events *ev)
{
    return events_depth(node_of_events(ev)->events_inner);
}

void sim_ports_open(struct sim_node *n)
{
    static const struct queue_ops queue_ops = { .push = q_push,
                                                .take = q_take,
                                                .renew = q_renew,
                                                .ack = q_ack,
                                                .timed_out_deliveries = q_timed_out,
                                                .recall = q_recall,
                                                .depth = q_depth };
    static const struct events_ops events_ops = {
        .publish = e_publish, .poll = e_poll, .ack = e_ack, .reset = e_reset, .depth = e_depth
    };
    n->queue.ops = &queue_ops;
    n->events.ops = &events_ops;
    n->queue_inner = queue_memory_new();
    n->events_inner = events_memory_new();
    n->async_io = async_io_direct_new(
        &(struct async_io_ports){ .queue = &n->queue, .take = &n->queue, .publish = &n->events, .poll = &n->events });
}

void sim_ports_close(struct sim_node *n)
{
    async_io_direct_free(take(n->async_io));
    queue_free(n->queue_inner);
    events_free(n->events_inner);
    n->queue_inner = NULL;
    n->events_inner = NULL;
}

/* ---- time zones ---- */

/* tzdata is being replaced: tasks of this zone cannot be planned, all others must go on. */
static enum err z_get(struct zoneinfo *z, struct str name, struct tz **ret, struct error *e)
{
    struct sim *s = container_of(z, struct sim, node_zones);
    if (s->steady_us < s->no_zone_until_us && !str_eq(name, S("UTC")))
        return error_set(e, ERR_INVALID, "the time zone is gone");
    return zoneinfo_get(s->zones, name, ret, e);
}

void sim_zones_init(struct sim *s)
{
    static const struct zoneinfo_ops ops = { .get = z_get };
    s->node_zones.ops = &ops;
}

/* ---- the receiver ---- */

static struct sim_node *node_of_runner(struct runner *r)
{
    return container_of(container_of(r, struct sim_runner, base), struct sim_node, runner);
}

static void end_call(struct sim_node *n, struct call *c)
{
    struct sim *s = n->sim;
    struct run *run = c->run;
    struct outcome o = c->outcome;
    o.completed_us = wall_us(s);
    isolation_note_room(n);
    list_remove(&c->link);
    isolation_note_room(n);
    free(c);
    if (s->ghost != n)
        oracle_ended(s, run->task, &o);
    n->poked = true;
    if (s->plant == PLANT_RUDE)
        o.retry_after_ms = -1;
    run->done(run, &o);
}

static void call_is_over(struct sim *s, void *context)
{
    struct call *c = context;
    struct sim_node *n = c->node;
    c->timer = is_stopped(n) ? after_us(s, n->stopped_until_us - s->steady_us, call_is_over, c) : NULL;
    if (!c->timer)
        end_call(n, c);
}

/* How receivers answer, and how often, in percent. */
static const struct answer {
    int percent;
    struct outcome outcome;
} answers[] = {
    { 14, { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 503, .retry_after_ms = -1 } },
    { 4, { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 429, .retry_after_ms = 3000 } },
    { 3, { .kind = OUTCOME_FAILED, .failure = FAILURE_HTTP, .http_status = 404, .retry_after_ms = -1 } },
    { 1, { .kind = OUTCOME_FAILED, .failure = FAILURE_REFUSED, .retry_after_ms = -1 } },
    { 5, { .kind = OUTCOME_FAILED, .failure = FAILURE_CONNECT, .retry_after_ms = -1 } },
    { 4, { .kind = OUTCOME_FAILED, .failure = FAILURE_TIMEOUT, .retry_after_ms = -1 } },
    { 4, { .kind = OUTCOME_FAILED, .failure = FAILURE_NETWORK, .retry_after_ms = -1 } },
};

static struct outcome choose_outcome(struct sim *s, const struct task *t)
{
    struct outcome o = { .kind = OUTCOME_OK, .http_status = 200, .retry_after_ms = -1 };
    int64_t roll = between(s, 0, 99);
    int host = gates_host(t);
    bool fails = host >= 0 && s->gates.failing[host];
    if (s->profile.isolation && (!fails || !chance(s, s->profile.fail_calls_percent)))
        return o;
    if (fails)
        roll %= s->profile.isolation ? 14 : 20; /* 503 and 429; or 503 alone, so that only breakers hold */
    for (size_t i = 0; i < array_count(answers) && !s->healed; i++) {
        if (roll >= 0 && roll < answers[i].percent)
            o = answers[i].outcome;
        roll -= answers[i].percent;
    }
    if (o.kind == OUTCOME_FAILED)
        o.error = S("it did not work");
    o.sent = o.failure != FAILURE_CONNECT && o.failure != FAILURE_REFUSED;
    return o;
}

static void start(struct runner *r, struct run *run)
{
    struct sim_node *n = node_of_runner(r);
    struct sim *s = n->sim;
    struct call *c = xnew(*c);
    c->run = run;
    c->node = n;
    c->outcome = choose_outcome(s, run->task);
    c->outcome.started_us = wall_us(s);
    if (c->outcome.kind == OUTCOME_OK && flows_task(s, run->task->id))
        c->outcome.output = flows_output(s, run->task->id, run->task->fence);
    run->handle = c;
    isolation_note_room(n);
    list_push(&n->runner.calls, &c->link);
    if (s->ghost == n)
        return;
    struct known_call *known = oracle_started(n, run->task);
    isolation_note_room(n);
    known->sent = c->outcome.sent;
    if (gates_strike(n, run->task))
        return;
    if (chance(s, 10)) {
        end_call(n, c);
        return;
    }
    int64_t took_us = chance(s, 90) ? between(s, 100, 300000) : between(s, 300000, 8000000);
    if (s->profile.isolation)
        took_us = between(s, 100, s->profile.call_us);
    if (c->outcome.failure == FAILURE_TIMEOUT)
        took_us = run->task->timeout_ms * 1000;
    c->timer = after_us(s, took_us, call_is_over, c);
}

static void abort_later(struct sim *s, void *context)
{
    (void)s;
    struct call *c = context;
    c->timer = NULL;
    c->outcome.kind = OUTCOME_CANCELLED;
    end_call(c->node, c);
}

static void abort_call(struct runner *r, struct run *run)
{
    struct sim_node *n = node_of_runner(r);
    struct sim *s = n->sim;
    struct call *c = run->handle;
    if (s->ghost == n || chance(s, 50)) {
        timer_cancel(s, c->timer);
        abort_later(s, c);
    } else if (chance(s, 70)) { /* else it was about to end by itself */
        timer_cancel(s, c->timer);
        c->timer = after_us(s, between(s, 0, 100000), abort_later, c);
    }
}

void sim_runner_init(struct sim_node *n)
{
    static const struct runner_ops ops = { start, abort_call, NULL };
    n->runner.base.ops = &ops;
    n->runner.base.host_calls_max = n->sim->plant == PLANT_NO_HOST_LIMIT ? 0 : n->sim->profile.connections;
    list_init(&n->runner.calls);
}

/* The receiver goes on with the calls; the node hears nothing of them. */
void sim_runner_crash(struct sim_node *n)
{
    list_each (&n->runner.calls, link) {
        struct call *c = container_of(link, struct call, link);
        timer_cancel(n->sim, c->timer);
        c->timer = NULL;
    }
}
