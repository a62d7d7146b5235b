#include "port/async_io.h"

typedef enum err (*errand_fn)(const struct courier_ports *p, struct errand *e);

static enum err run_push(const struct courier_ports *p, struct errand *e)
{
    struct errand_push *x = container_of(e, struct errand_push, errand);
    return queue_push(p->queue, x->tasks, x->n, x->epoch, &x->ret, &e->error);
}

static enum err run_take(const struct courier_ports *p, struct errand *e)
{
    struct errand_take *x = container_of(e, struct errand_take, errand);
    return queue_take(p->take, &x->ask, &x->arena, &x->ret, &e->error);
}

static enum err run_renew(const struct courier_ports *p, struct errand *e)
{
    struct errand_renew *x = container_of(e, struct errand_renew, errand);
    return queue_renew(p->queue, x->running, x->n, &x->by, &e->error);
}

static enum err run_ack(const struct courier_ports *p, struct errand *e)
{
    struct errand_ids *x = container_of(e, struct errand_ids, errand);
    return queue_ack(p->queue, x->v, x->n, &e->error);
}

static enum err run_lapsed(const struct courier_ports *p, struct errand *e)
{
    struct errand_lapsed *x = container_of(e, struct errand_lapsed, errand);
    return queue_lapsed(p->queue, x->now_ms, &x->arena, &x->ret, &e->error);
}

static enum err run_recall(const struct courier_ports *p, struct errand *e)
{
    struct errand_one *x = container_of(e, struct errand_one, errand);
    return queue_recall(p->queue, x->id, &x->ret_recalled, &e->error);
}

static enum err run_abort(const struct courier_ports *p, struct errand *e)
{
    return queue_abort(p->queue, container_of(e, struct errand_one, errand)->id, &e->error);
}

static enum err run_known(const struct courier_ports *p, struct errand *e)
{
    struct errand_known *x = container_of(e, struct errand_known, errand);
    return queue_known(p->queue, x->v, x->epochs, x->n, x->ret, &e->error);
}

static enum err run_look(const struct courier_ports *p, struct errand *e)
{
    return queue_look(p->queue, &container_of(e, struct errand_look, errand)->ret, &e->error);
}

static enum err run_publish(const struct courier_ports *p, struct errand *e)
{
    struct errand_publish *x = container_of(e, struct errand_publish, errand);
    return events_publish(p->publish, x->v, x->n, &e->error);
}

static enum err run_mark(const struct courier_ports *p, struct errand *e)
{
    return events_mark(p->publish, &container_of(e, struct errand_mark, errand)->mark, &e->error);
}

static enum err run_passed(const struct courier_ports *p, struct errand *e)
{
    struct errand_mark *x = container_of(e, struct errand_mark, errand);
    return events_passed(p->publish, &x->mark, &x->ret_passed, &e->error);
}

static enum err run_poll(const struct courier_ports *p, struct errand *e)
{
    struct errand_poll *x = container_of(e, struct errand_poll, errand);
    return events_poll(p->poll, x->max, x->wait_ms, &x->arena, &x->ret, &e->error);
}

static enum err run_events_ack(const struct courier_ports *p, struct errand *e)
{
    struct errand_events_ack *x = container_of(e, struct errand_events_ack, errand);
    return events_ack(p->poll, x->sequences, x->n, &e->error);
}

static enum err run_lease(const struct courier_ports *p, struct errand *e)
{
    struct errand_lease *x = container_of(e, struct errand_lease, errand);
    x->ret_held = false;
    return x->ttl_ms ? lease_take(p->lease, x->name, x->holder, x->ttl_ms, &x->ret_held, &e->error)
                     : lease_let_go(p->lease, x->name, x->holder, &e->error);
}

void errand_run(const struct courier_ports *ports, struct errand *e)
{
    static const errand_fn runs[ERRAND_KINDS] = {
        [ERRAND_PUSH] = run_push,     [ERRAND_TAKE] = run_take,
        [ERRAND_RENEW] = run_renew,   [ERRAND_ACK] = run_ack,
        [ERRAND_LAPSED] = run_lapsed, [ERRAND_RECALL] = run_recall,
        [ERRAND_ABORT] = run_abort,   [ERRAND_KNOWN] = run_known,
        [ERRAND_LOOK] = run_look,     [ERRAND_PUBLISH] = run_publish,
        [ERRAND_MARK] = run_mark,     [ERRAND_PASSED] = run_passed,
        [ERRAND_POLL] = run_poll,     [ERRAND_EVENTS_ACK] = run_events_ack,
        [ERRAND_LEASE] = run_lease,
    };
    e->error = (struct error){ 0 };
    e->rc = runs[e->kind](ports, e);
}
