/* A courier over a network: each place carries one errand at a time, applies it after a while and answers after another. It may fail
 * before it is applied, or after, its answer lost. A process that is stopped hears nothing meanwhile, and what it was about to send goes
 * out when it goes on. */
#include <assert.h>
#include <stdlib.h>

#include "sim.h"

static int place_of(enum errand_kind kind)
{
    switch (kind) {
    case ERRAND_TAKE: return 1;
    case ERRAND_PUBLISH:
    case ERRAND_MARK:
    case ERRAND_PASSED: return 2;
    case ERRAND_POLL:
    case ERRAND_EVENTS_ACK: return 3;
    case ERRAND_LEASE: return 4;
    default: return 0;
    }
}

static const char *const names[ERRAND_KINDS] = {
    [ERRAND_PUSH] = "push",     [ERRAND_TAKE] = "take",         [ERRAND_RENEW] = "renew", [ERRAND_ACK] = "ack",
    [ERRAND_LAPSED] = "lapsed", [ERRAND_RECALL] = "recall",     [ERRAND_ABORT] = "abort", [ERRAND_KNOWN] = "known",
    [ERRAND_LOOK] = "look",     [ERRAND_PUBLISH] = "publish",   [ERRAND_MARK] = "mark",   [ERRAND_PASSED] = "passed",
    [ERRAND_POLL] = "poll",     [ERRAND_EVENTS_ACK] = "polled", [ERRAND_LEASE] = "lease",
};

static struct errand *head_of(struct sim_place *p)
{
    return container_of(p->errands.next, struct errand, link);
}

static int64_t latency_us(struct sim *s)
{
    return between(s, 50, s->profile.latency_us);
}

/* ---- what is done where it arrives ---- */

static void forget_results(struct errand *e)
{
    if (e->kind == ERRAND_TAKE)
        container_of(e, struct errand_take, errand)->ret = (struct taken){ 0 };
    else if (e->kind == ERRAND_POLL)
        container_of(e, struct errand_poll, errand)->ret = (struct event_list){ 0 };
    else if (e->kind == ERRAND_LAPSED)
        container_of(e, struct errand_lapsed, errand)->ret = (struct lapses){ 0 };
    else if (e->kind == ERRAND_RECALL)
        container_of(e, struct errand_one, errand)->ret_recalled = false;
}

static void wake_all(struct sim *s, int place);

/* What was polled and never heard of comes again. */
static void come_again(struct sim *s, void *context)
{
    struct error e;
    (void)context;
    if (events_reset(s->fleet.events, &e))
        abort();
    wake_all(s, place_of(ERRAND_POLL));
}

void fleet_events_again(struct sim *s)
{
    after_us(s, 0, come_again, NULL);
}

static void fail(struct sim_node *n, struct errand *e, const char *why, bool unsure)
{
    forget_results(e);
    e->rc = error_set(&e->error, ERR_UNAVAILABLE, "%s", why);
    if (e->kind == ERRAND_POLL || e->kind == ERRAND_EVENTS_ACK)
        after_us(n->sim, between(n->sim, 0, 2000000), come_again, NULL);
    if (e->kind == ERRAND_PUSH && unsure) {
        struct errand_push *x = container_of(e, struct errand_push, errand);
        x->ret.unsure = n->sim->plant != PLANT_SURE;
        for (size_t i = 0; i < x->n && x->ret.unsure; i++)
            fleet_doubt(n->sim, x->tasks[i].id, x->tasks[i].fence);
    }
}

/* The queue goes by its own clock. */
static void set_times(struct sim *s, struct errand *e)
{
    if (e->kind == ERRAND_TAKE)
        container_of(e, struct errand_take, errand)->ask.now_ms = wall_ms(s);
    else if (e->kind == ERRAND_RENEW)
        container_of(e, struct errand_renew, errand)->by.now_ms = wall_ms(s);
    else if (e->kind == ERRAND_LAPSED)
        container_of(e, struct errand_lapsed, errand)->now_ms = wall_ms(s);
}

static bool brought_nothing(struct errand *e)
{
    if (e->kind == ERRAND_TAKE) {
        const struct errand_take *x = container_of(e, struct errand_take, errand);
        return x->ret.tasks.n == 0 && x->ret.abort_count == 0;
    }
    return e->kind == ERRAND_POLL && container_of(e, struct errand_poll, errand)->ret.n == 0;
}

static int64_t wait_us(struct errand *e)
{
    return 1000 * (e->kind == ERRAND_TAKE   ? container_of(e, struct errand_take, errand)->ask.wait_ms
                   : e->kind == ERRAND_POLL ? container_of(e, struct errand_poll, errand)->wait_ms
                                            : 0);
}

static void trace_errand(const struct sim_node *n, struct errand *e, const char *how)
{
    struct sim *s = n->sim;
    if (!s->verbose || (e->rc == ERR_OK && brought_nothing(e)) || e->kind == ERRAND_LOOK)
        return;
    trace(s, "%s %d: %s %s%s%s", n->worker ? "worker" : "node", n->number, names[e->kind], how, e->rc ? ": " : "",
          e->rc ? e->error.text : "");
    if (e->kind == ERRAND_PUSH) {
        const struct errand_push *x = container_of(e, struct errand_push, errand);
        for (size_t i = 0; i < x->n; i++)
            trace(s, "  %s fence %lld%s", short_id(x->tasks[i].id), (long long)x->tasks[i].fence,
                  x->ret.unsure ? " (unsure)" : "");
    } else if (e->kind == ERRAND_TAKE) {
        const struct errand_take *x = container_of(e, struct errand_take, errand);
        for (size_t i = 0; i < x->ret.tasks.n; i++)
            trace(s, "  %s fence %lld", short_id(x->ret.tasks.v[i].id), (long long)x->ret.tasks.v[i].fence);
    } else if (e->kind == ERRAND_LAPSED) {
        const struct errand_lapsed *x = container_of(e, struct errand_lapsed, errand);
        for (size_t i = 0; i < x->ret.n; i++)
            trace(s, "  %s fence %lld", short_id(x->ret.v[i].task.id), (long long)x->ret.v[i].task.fence);
    }
}

static timer_fn wake_place;

/* Who waits for something to come looks again. */
static void wake_all(struct sim *s, int place)
{
    for (int i = 0; i < sim_process_count(s); i++) {
        struct sim_place *p = &sim_process(s, i)->fleet_courier.places[place];
        if (!p->waits)
            continue;
        timer_cancel(s, p->timer);
        p->timer = after_us(s, latency_us(s), wake_place, p);
    }
}

/* Only in the epoch that it is for. */
static void run_push(struct sim *s, const struct courier_ports *ports, struct errand_push *x)
{
    uint64_t wanted = x->epoch;
    x->epoch = 0;
    if (wanted && wanted != s->fleet.epoch)
        x->errand.rc = queue_is_another(&x->errand.error);
    else
        errand_run(ports, &x->errand);
    x->epoch = wanted;
    x->ret.epoch = s->fleet.epoch;
}

/* One that does not take again what it has can not tell what that is, either: it has all that was pushed since it was wiped, or nobody knows
 * when. */
static void run_known(struct sim *s, const struct courier_ports *ports, struct errand_known *x)
{
    errand_run(ports, &x->errand);
    for (size_t i = 0; !s->fleet.push_again && i < x->n; i++)
        x->ret[i] = x->ret[i] || !x->epochs[i] || x->epochs[i] == s->fleet.epoch;
}

static void run_errand(struct sim *s, const struct courier_ports *ports, struct errand *e)
{
    if (e->kind == ERRAND_PUSH)
        run_push(s, ports, container_of(e, struct errand_push, errand));
    else if (e->kind == ERRAND_KNOWN)
        run_known(s, ports, container_of(e, struct errand_known, errand));
    else
        errand_run(ports, e);
}

static void run(struct sim_node *n, struct errand *e)
{
    struct sim *s = n->sim;
    struct courier_ports ports = {
        .queue = s->fleet.queue, .take = s->fleet.queue, .publish = s->fleet.events, .poll = s->fleet.events
    };
    set_times(s, e);
    if (!fleet_plant_runs(n, e))
        run_errand(s, &ports, e);
    if (e->kind == ERRAND_TAKE)
        container_of(e, struct errand_take, errand)->ret.queue_us = wall_us(s);
    if (e->kind == ERRAND_LOOK)
        container_of(e, struct errand_look, errand)->ret.epoch = s->fleet.epoch;
    if (e->kind == ERRAND_PUSH || e->kind == ERRAND_ABORT)
        wake_all(s, place_of(ERRAND_TAKE));
    if (e->kind == ERRAND_PUBLISH)
        wake_all(s, place_of(ERRAND_POLL));
}

/* ---- on its way ---- */

static bool is_down(const struct sim *s, enum errand_kind kind)
{
    int place = place_of(kind);
    bool polls = place == place_of(ERRAND_POLL);
    int64_t until_us = place <= 1 ? s->fleet.queue_down_us : s->fleet.events_down_us;
    return s->steady_us < until_us || (polls && s->steady_us < s->fleet.cut_us);
}

static timer_fn apply, deliver;

static void answer(struct sim_place *p)
{
    struct sim *s = p->process->sim;
    p->applied = true;
    p->waits = false;
    trace_errand(p->process, head_of(p), "answered");
    p->timer = after_us(s, latency_us(s), deliver, p);
}

static void apply(struct sim *s, void *context)
{
    struct sim_place *p = context;
    struct sim_node *n = p->process;
    struct errand *e = head_of(p);
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
    if (faulty(s, s->profile.ports_percent, FAULT_ERRAND_FAIL)) {
        fail(n, e, "the connection broke", chance(s, 30));
        answer(p);
        return;
    }
    run(n, e);
    if (e->rc == ERR_OK && brought_nothing(e) && wait_us(e)) {
        p->waits = true;
        p->until_us = p->until_us ? p->until_us : s->steady_us + wait_us(e);
        p->timer = after_us(s, p->until_us - s->steady_us, wake_place, p);
        return;
    }
    if (faulty(s, s->profile.ports_percent, FAULT_ERRAND_LOST))
        fail(n, e, "the answer was lost", true);
    answer(p);
}

/* Something came, or the time is over. */
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
    p->timer = list_empty(&p->errands) ? NULL : after_us(s, latency_us(s), apply, p);
}

static void deliver(struct sim *s, void *context)
{
    struct sim_place *p = context;
    struct sim_node *n = p->process;
    if (is_stopped(n)) {
        p->timer = after_us(s, n->stopped_until_us - s->steady_us, deliver, p);
        return;
    }
    struct errand *e = head_of(p);
    list_remove(&e->link);
    begin(p);
    n->poked = true;
    e->done(e);
}

/* What the errand of a dead process would have liked to hear: whatever makes it ask for nothing more. */
static void answer_ghost(struct errand *e)
{
    forget_results(e);
    bool asks = e->kind == ERRAND_KNOWN || e->kind == ERRAND_LOOK || e->kind == ERRAND_MARK || e->kind == ERRAND_PASSED;
    e->rc = asks ? error_set(&e->error, ERR_UNAVAILABLE, "nobody is there") : ERR_OK;
    e->done(e);
}

static void submit(struct courier *c, struct errand *e)
{
    struct sim_courier *x = container_of(c, struct sim_courier, base);
    struct sim_place *p = &x->places[place_of(e->kind)];
    if (p->process->sim->ghost == p->process) {
        answer_ghost(e);
        return;
    }
    bool first = list_empty(&p->errands);
    e->rc = ERR_OK;
    list_push(&p->errands, &e->link);
    if (first)
        begin(p);
}

static size_t depth(struct courier *c)
{
    (void)c;
    return 0;
}

void fleet_courier_init(struct sim_node *n)
{
    static const struct courier_ops ops = { submit, depth, depth };
    n->fleet_courier.base = (struct courier){ .ops = &ops, .push_again = n->sim->fleet.push_again };
    for (int i = 0; i < PLACES; i++) {
        n->fleet_courier.places[i] = (struct sim_place){ .process = n };
        list_init(&n->fleet_courier.places[i].errands);
    }
}

/* What was on its way arrives or does not; what stood behind it does not. */
void fleet_courier_crash(struct sim_node *n)
{
    struct sim *s = n->sim;
    fleet_events_again(s);
    for (int i = 0; i < PLACES; i++) {
        struct sim_place *p = &n->fleet_courier.places[i];
        if (list_empty(&p->errands))
            continue;
        struct errand *e = head_of(p);
        if (!p->applied && !is_down(s, e->kind) && chance(s, 50))
            run(n, e);
        timer_cancel(s, p->timer);
        p->timer = NULL;
        p->waits = false;
    }
}

void fleet_courier_answer_ghosts(struct sim_node *n)
{
    for (int i = 0; i < PLACES; i++)
        while (!list_empty(&n->fleet_courier.places[i].errands))
            answer_ghost(container_of(list_pop(&n->fleet_courier.places[i].errands), struct errand, link));
}
