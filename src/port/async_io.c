#include "port/async_io.h"

typedef enum err (*io_fn)(const struct async_io_ports *p, struct io_request *e);

static enum err run_push(const struct async_io_ports *p, struct io_request *e)
{
    struct io_push *x = container_of(e, struct io_push, io_request);
    return queue_push(p->queue, x->tasks, x->n, x->epoch, &x->ret, &e->error);
}

static enum err run_take(const struct async_io_ports *p, struct io_request *e)
{
    struct io_take *x = container_of(e, struct io_take, io_request);
    return queue_take(p->take, &x->ask, &x->arena, &x->ret, &e->error);
}

static enum err run_renew(const struct async_io_ports *p, struct io_request *e)
{
    struct io_renew *x = container_of(e, struct io_renew, io_request);
    return queue_renew(p->queue, x->running, x->n, &x->by, &e->error);
}

static enum err run_ack(const struct async_io_ports *p, struct io_request *e)
{
    struct io_ids *x = container_of(e, struct io_ids, io_request);
    return queue_ack(p->queue, x->v, x->n, &e->error);
}

static enum err run_timed_out(const struct async_io_ports *p, struct io_request *e)
{
    struct io_timed_out *x = container_of(e, struct io_timed_out, io_request);
    return queue_timed_out(p->queue, x->now_ms, &x->arena, &x->ret, &e->error);
}

static enum err run_recall(const struct async_io_ports *p, struct io_request *e)
{
    struct io_one *x = container_of(e, struct io_one, io_request);
    return queue_recall(p->queue, x->id, &x->ret_recalled, &e->error);
}

static enum err run_abort(const struct async_io_ports *p, struct io_request *e)
{
    return queue_abort(p->queue, container_of(e, struct io_one, io_request)->id, &e->error);
}

static enum err run_want_back(const struct async_io_ports *p, struct io_request *e)
{
    struct io_want_back *x = container_of(e, struct io_want_back, io_request);
    return queue_want_back(p->queue, x->task, x->epoch, &x->ret, &e->error);
}

static enum err run_unblock(const struct async_io_ports *p, struct io_request *e)
{
    return queue_unblock(p->queue, container_of(e, struct io_unblock, io_request)->worker, &e->error);
}

static enum err run_known(const struct async_io_ports *p, struct io_request *e)
{
    struct io_known *x = container_of(e, struct io_known, io_request);
    return queue_known(p->queue, x->v, x->epochs, x->n, x->ret, &e->error);
}

static enum err run_look(const struct async_io_ports *p, struct io_request *e)
{
    return queue_stats(p->queue, &container_of(e, struct io_stats, io_request)->ret, &e->error);
}

static enum err run_publish(const struct async_io_ports *p, struct io_request *e)
{
    struct io_publish *x = container_of(e, struct io_publish, io_request);
    return events_publish(p->publish, x->v, x->n, &e->error);
}

static enum err run_mark(const struct async_io_ports *p, struct io_request *e)
{
    return events_barrier(p->publish, &container_of(e, struct io_barrier, io_request)->mark, &e->error);
}

static enum err run_passed(const struct async_io_ports *p, struct io_request *e)
{
    struct io_barrier *x = container_of(e, struct io_barrier, io_request);
    return events_barrier_passed(p->publish, &x->mark, &x->ret_passed, &e->error);
}

static enum err run_poll(const struct async_io_ports *p, struct io_request *e)
{
    struct io_poll *x = container_of(e, struct io_poll, io_request);
    return events_poll(p->poll, x->max, x->wait_ms, &x->arena, &x->ret, &e->error);
}

static enum err run_events_ack(const struct async_io_ports *p, struct io_request *e)
{
    struct io_events_ack *x = container_of(e, struct io_events_ack, io_request);
    return events_ack(p->poll, x->sequences, x->n, &e->error);
}

static enum err run_lease(const struct async_io_ports *p, struct io_request *e)
{
    struct io_lease *x = container_of(e, struct io_lease, io_request);
    x->ret_held = false;
    return x->ttl_ms ? lease_take(p->lease, x->name, x->holder, x->ttl_ms, &x->ret_held, &e->error)
                     : lease_release(p->lease, x->name, x->holder, &e->error);
}

void io_run(const struct async_io_ports *ports, struct io_request *e)
{
    static const io_fn runs[IO_KINDS] = {
        [IO_PUSH] = run_push,           [IO_TAKE] = run_take,
        [IO_RENEW] = run_renew,         [IO_ACK] = run_ack,
        [IO_TIMED_OUT] = run_timed_out, [IO_RECALL] = run_recall,
        [IO_ABORT] = run_abort,         [IO_UNBLOCK] = run_unblock,
        [IO_KNOWN] = run_known,         [IO_STATS] = run_look,
        [IO_PUBLISH] = run_publish,     [IO_BARRIER] = run_mark,
        [IO_POLL] = run_poll,           [IO_BARRIER_PASSED] = run_passed,
        [IO_LEASE] = run_lease,         [IO_EVENTS_ACK] = run_events_ack,
        [IO_WANT_BACK] = run_want_back,
    };
    e->error = (struct error){ 0 };
    e->rc = runs[e->kind](ports, e);
}
