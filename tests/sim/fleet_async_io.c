/* async_io over a network: each place carries one request at a time, applies it after a while and answers after
 * another. It may fail before it is applied; or after, and then its answer is lost. A process that is stopped gets no
 * answers meanwhile, and sends its requests when it goes on. */
#include <assert.h>
#include <stdlib.h>

#include "sim.h"

static int place_of(enum io_kind kind)
{
    switch (kind) {
    case IO_TAKE: return 1;
    case IO_PUBLISH:
    case IO_BARRIER:
    case IO_BARRIER_PASSED: return 2;
    case IO_POLL:
    case IO_EVENTS_ACK: return 3;
    case IO_LEASE: return 4;
    default: return 0;
    }
}

static const char *const names[IO_KINDS] = {
    [IO_PUSH] = "push",        [IO_TAKE] = "take",         [IO_RENEW] = "renew",  [IO_ACK] = "ack",
    [IO_TIMED_OUT] = "lapsed", [IO_RECALL] = "recall",     [IO_ABORT] = "abort",  [IO_KNOWN] = "known",
    [IO_STATS] = "look",       [IO_PUBLISH] = "publish",   [IO_BARRIER] = "mark", [IO_BARRIER_PASSED] = "passed",
    [IO_POLL] = "poll",        [IO_EVENTS_ACK] = "polled", [IO_LEASE] = "lease",  [IO_UNBLOCK] = "unblock",
    [IO_WANT_BACK] = "want",
};

static struct io_request *head_of(struct sim_place *p)
{
    return container_of(p->io_requests.next, struct io_request, link);
}

static int64_t latency_us(struct sim *s)
{
    return between(s, 50, s->profile.latency_us);
}

/* ---- what the queue and the events do ---- */

static void forget_results(struct io_request *e)
{
    if (e->kind == IO_TAKE)
        container_of(e, struct io_take, io_request)->ret = (struct taken){ 0 };
    else if (e->kind == IO_POLL)
        container_of(e, struct io_poll, io_request)->ret = (struct event_list){ 0 };
    else if (e->kind == IO_TIMED_OUT)
        container_of(e, struct io_timed_out, io_request)->ret = (struct delivery_timeouts){ 0 };
    else if (e->kind == IO_RECALL)
        container_of(e, struct io_one, io_request)->ret_recalled = false;
}

static void wake_all(struct sim *s, int place);

/* Delivers again events that were polled and not acknowledged. */
static void come_again(struct sim *s, void *context)
{
    struct error e;
    (void)context;
    if (events_reset(s->fleet.events, &e))
        abort();
    wake_all(s, place_of(IO_POLL));
}

void fleet_events_again(struct sim *s)
{
    after_us(s, 0, come_again, NULL);
}

static void fail(struct sim_node *n, struct io_request *e, const char *why, bool unsure)
{
    forget_results(e);
    e->rc = error_set(&e->error, ERR_UNAVAILABLE, "%s", why);
    if (e->kind == IO_POLL || e->kind == IO_EVENTS_ACK)
        after_us(n->sim, between(n->sim, 0, 2000000), come_again, NULL);
    if (e->kind == IO_PUSH && unsure) {
        struct io_push *x = container_of(e, struct io_push, io_request);
        x->ret.unsure = n->sim->plant != PLANT_SURE;
        for (size_t i = 0; i < x->n && x->ret.unsure; i++)
            fleet_doubt(n->sim, x->tasks[i].id, x->tasks[i].fence);
    }
}

/* The queue goes by its own clock. */
static void set_times(struct sim *s, struct io_request *e)
{
    if (e->kind == IO_TAKE)
        container_of(e, struct io_take, io_request)->ask.now_ms = wall_ms(s);
    else if (e->kind == IO_RENEW)
        container_of(e, struct io_renew, io_request)->by.now_ms = wall_ms(s);
    else if (e->kind == IO_TIMED_OUT)
        container_of(e, struct io_timed_out, io_request)->now_ms = wall_ms(s);
}

static bool brought_nothing(struct io_request *e)
{
    if (e->kind == IO_TAKE) {
        const struct io_take *x = container_of(e, struct io_take, io_request);
        return x->ret.tasks.n == 0 && x->ret.abort_count == 0 && x->ret.wanted_count == 0;
    }
    return e->kind == IO_POLL && container_of(e, struct io_poll, io_request)->ret.n == 0;
}

static int64_t wait_us(struct io_request *e)
{
    return 1000 * (e->kind == IO_TAKE   ? container_of(e, struct io_take, io_request)->ask.wait_ms
                   : e->kind == IO_POLL ? container_of(e, struct io_poll, io_request)->wait_ms
                                        : 0);
}

static void trace_io_request(const struct sim_node *n, struct io_request *e, const char *how)
{
    struct sim *s = n->sim;
    if (!s->verbose || (e->rc == ERR_OK && brought_nothing(e)) || e->kind == IO_STATS)
        return;
    trace(s, "%s %d: %s %s%s%s", n->worker ? "worker" : "node", n->number, names[e->kind], how, e->rc ? ": " : "",
          e->rc ? e->error.text : "");
    if (e->kind == IO_PUSH) {
        const struct io_push *x = container_of(e, struct io_push, io_request);
        for (size_t i = 0; i < x->n; i++)
            trace(s, "  %s fence %lld%s", short_id(x->tasks[i].id), (long long)x->tasks[i].fence,
                  x->ret.unsure ? " (unsure)" : "");
    } else if (e->kind == IO_TAKE) {
        const struct io_take *x = container_of(e, struct io_take, io_request);
        for (size_t i = 0; i < x->ret.tasks.n; i++)
            trace(s, "  %s fence %lld", short_id(x->ret.tasks.v[i].id), (long long)x->ret.tasks.v[i].fence);
    } else if (e->kind == IO_TIMED_OUT) {
        const struct io_timed_out *x = container_of(e, struct io_timed_out, io_request);
        for (size_t i = 0; i < x->ret.n; i++)
            trace(s, "  %s fence %lld", short_id(x->ret.v[i].task.id), (long long)x->ret.v[i].task.fence);
    }
}

static timer_fn wake_place;

/* Requests that wait for something to arrive look again. */
static void wake_all(struct sim *s, int place)
{
    for (int i = 0; i < sim_process_count(s); i++) {
        struct sim_place *p = &sim_process(s, i)->fleet_async_io.places[place];
        if (!p->waits)
            continue;
        timer_cancel(s, p->timer);
        p->timer = after_us(s, latency_us(s), wake_place, p);
    }
}

/* The take of this process ends its wait, or will not wait. */
static void unblock_take(struct sim *s, struct sim_node *n)
{
    struct sim_place *p = &n->fleet_async_io.places[place_of(IO_TAKE)];
    p->unblocked = !p->waits;
    if (!p->waits)
        return;
    p->until_us = s->steady_us;
    timer_cancel(s, p->timer);
    p->timer = after_us(s, latency_us(s), wake_place, p);
}

/* Only in the epoch that it is for. */
static void run_push(struct sim *s, const struct async_io_ports *ports, struct io_push *x)
{
    uint64_t wanted = x->epoch;
    x->epoch = 0;
    if (wanted && wanted != s->fleet.epoch)
        x->io_request.rc = queue_is_another(&x->io_request.error);
    else
        io_run(ports, &x->io_request);
    x->epoch = wanted;
    x->ret.epoch = s->fleet.epoch;
}

/* A queue that refuses a second push cannot tell what it has, either: it has everything that was pushed since it was
 * wiped, or that is not known. */
static void run_known(struct sim *s, const struct async_io_ports *ports, struct io_known *x)
{
    io_run(ports, &x->io_request);
    for (size_t i = 0; !s->fleet.push_again && i < x->n; i++)
        x->ret[i] = x->ret[i] || !x->epochs || !x->epochs[i] || x->epochs[i] == s->fleet.epoch;
}

static void run_io_request(struct sim *s, const struct async_io_ports *ports, struct io_request *e)
{
    if (e->kind == IO_PUSH)
        run_push(s, ports, container_of(e, struct io_push, io_request));
    else if (e->kind == IO_KNOWN)
        run_known(s, ports, container_of(e, struct io_known, io_request));
    else
        io_run(ports, e);
}

static void run(struct sim_node *n, struct io_request *e)
{
    struct sim *s = n->sim;
    struct async_io_ports ports = {
        .queue = s->fleet.queue, .take = s->fleet.queue, .publish = s->fleet.events, .poll = s->fleet.events
    };
    set_times(s, e);
    if (!fleet_plant_runs(n, e))
        run_io_request(s, &ports, e);
    if (e->kind == IO_TAKE)
        container_of(e, struct io_take, io_request)->ret.queue_us = wall_us(s);
    if (e->kind == IO_STATS)
        container_of(e, struct io_stats, io_request)->ret.epoch = s->fleet.epoch;
    if (e->kind == IO_PUSH || e->kind == IO_ABORT || e->kind == IO_WANT_BACK)
        wake_all(s, place_of(IO_TAKE));
    if (e->kind == IO_UNBLOCK && s->plant != PLANT_WRONG_CLASS)
        unblock_take(s, n);
    if (e->kind == IO_PUBLISH)
        wake_all(s, place_of(IO_POLL));
}

/* ---- requests on their way ---- */

static bool is_down(const struct sim *s, enum io_kind kind)
{
    int place = place_of(kind);
    bool polls = place == place_of(IO_POLL);
    int64_t until_us = place <= 1 ? s->fleet.queue_down_us : s->fleet.events_down_us;
    return s->steady_us < until_us || (polls && s->steady_us < s->fleet.cut_us);
}

static timer_fn apply, deliver;

static void answer(struct sim_place *p)
{
    struct sim *s = p->process->sim;
    p->applied = true;
    p->waits = p->unblocked = false;
    trace_io_request(p->process, head_of(p), "answered");
    if (head_of(p)->kind == IO_TIMED_OUT && head_of(p)->rc == ERR_OK) {
        const struct io_timed_out *x = container_of(head_of(p), struct io_timed_out, io_request);
        for (size_t i = 0; i < x->ret.n; i++)
            oracle_timed_out(p->process, &x->ret.v[i].task);
    }
    p->timer = after_us(s, latency_us(s), deliver, p);
}

static void apply(struct sim *s, void *context)
{
    struct sim_place *p = context;
    struct sim_node *n = p->process;
    struct io_request *e = head_of(p);
    p->timer = NULL;
    if (is_stopped(n) && chance(s, 50)) { /* else it was on its way when the process was stopped */
        p->timer = after_us(s, n->stopped_until_us - s->steady_us, apply, p);
        return;
    }
    if (is_down(s, e->kind)) {
        fail(n, e, "it is down", chance(s, 20));
        answer(p);
        return;
    }
    if (faulty(s, s->profile.ports_percent, FAULT_IO_FAIL)) {
        fail(n, e, "the connection broke", chance(s, 30));
        answer(p);
        return;
    }
    run(n, e);
    if (e->rc == ERR_OK && brought_nothing(e) && wait_us(e) && !p->unblocked) {
        p->waits = true;
        p->until_us = p->until_us ? p->until_us : s->steady_us + wait_us(e);
        p->timer = after_us(s, p->until_us - s->steady_us, wake_place, p);
        return;
    }
    if (faulty(s, s->profile.ports_percent, FAULT_IO_LOST))
        fail(n, e, "the answer was lost", true);
    answer(p);
}

/* Something arrived, or the time is over. */
static void wake_place(struct sim *s, void *context)
{
    struct sim_place *p = context;
    p->waits = false;
    if (s->steady_us < p->until_us) {
        apply(s, p);
        return;
    }
    p->timer = NULL;
    answer(p);
}

static void begin(struct sim_place *p)
{
    struct sim *s = p->process->sim;
    p->applied = p->waits = false;
    p->until_us = 0;
    p->timer = list_empty(&p->io_requests) ? NULL : after_us(s, latency_us(s), apply, p);
}

static void deliver(struct sim *s, void *context)
{
    struct sim_place *p = context;
    struct sim_node *n = p->process;
    if (is_stopped(n)) {
        p->timer = after_us(s, n->stopped_until_us - s->steady_us, deliver, p);
        return;
    }
    struct io_request *e = head_of(p);
    list_remove(&e->link);
    begin(p);
    n->poked = true;
    e->done(e);
}

/* Answers a request of a dead process so that it asks for nothing more. */
static void answer_ghost(struct io_request *e)
{
    forget_results(e);
    bool asks = e->kind == IO_KNOWN || e->kind == IO_STATS || e->kind == IO_BARRIER || e->kind == IO_BARRIER_PASSED;
    e->rc = asks ? error_set(&e->error, ERR_UNAVAILABLE, "nobody is there") : ERR_OK;
    e->done(e);
}

static void submit(struct async_io *c, struct io_request *e)
{
    struct sim_async_io *x = container_of(c, struct sim_async_io, base);
    struct sim_place *p = &x->places[place_of(e->kind)];
    if (p->process->sim->ghost == p->process) {
        answer_ghost(e);
        return;
    }
    bool first = list_empty(&p->io_requests);
    e->rc = ERR_OK;
    list_push(&p->io_requests, &e->link);
    if (first)
        begin(p);
}

static size_t depth(struct async_io *c)
{
    (void)c;
    return 0;
}

void fleet_async_io_init(struct sim_node *n)
{
    static const struct async_io_ops ops = { submit, depth, depth };
    n->fleet_async_io.base = (struct async_io){ .ops = &ops, .push_again = n->sim->fleet.push_again };
    for (int i = 0; i < PLACES; i++) {
        n->fleet_async_io.places[i] = (struct sim_place){ .process = n };
        list_init(&n->fleet_async_io.places[i].io_requests);
    }
}

/* The request on its way arrives or does not; those behind it do not. */
void fleet_async_io_crash(struct sim_node *n)
{
    struct sim *s = n->sim;
    fleet_events_again(s);
    for (int i = 0; i < PLACES; i++) {
        struct sim_place *p = &n->fleet_async_io.places[i];
        if (list_empty(&p->io_requests))
            continue;
        struct io_request *e = head_of(p);
        if (!p->applied && !is_down(s, e->kind) && chance(s, 50))
            run(n, e);
        timer_cancel(s, p->timer);
        p->timer = NULL;
        p->waits = false;
    }
}

void fleet_async_io_answer_ghosts(struct sim_node *n)
{
    for (int i = 0; i < PLACES; i++)
        while (!list_empty(&n->fleet_async_io.places[i].io_requests))
            answer_ghost(container_of(list_pop(&n->fleet_async_io.places[i].io_requests), struct io_request, link));
}
