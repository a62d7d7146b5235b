/* One async handle gathers all wake-ups from other threads. A prepare handle steps the node before the loop waits: the loop
 * turns only when something happened. The timerfd is armed for what the step asked for: an idle loop sleeps for ever.
 *
 * A thread that sleeps is woken tens of microseconds late, by the same few nearly every time. So the timer is set as much earlier as three of
 * four wakings have been late, and the fourth waits the rest of it out. */
#include "platform/loop_uv.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    NEAR_US = 20,      /* two readings of a corrected clock differ by less */
    LEAD_MAX_US = 100, /* the most that is waited out, and so the most that a waking can cost in vain */
    LEAD_RISE_US = 1,  /* one to three: one of four wakings is earlier than that */
    LEAD_FALL_US = 3,
};

struct loop_writer {
    struct writer base;
    struct loop *loop;
};

struct loop {
    struct loop_setup setup;
    uv_loop_t uv;
    uv_async_t async;
    uv_prepare_t prepare;
    uv_idle_t again; /* active while a step wants the next one at once: the loop then looks for I/O without waiting */
    uv_poll_t timer;
    int timer_fd;
    int64_t armed_us; /* by the machine's clock; -1: nothing is armed */
    int64_t lead_us;  /* so much earlier the timer is set */
    struct loop_writer writer;
    pthread_mutex_t lock; /* over the two lists */
    struct list completed, calls;
};

/* ---- other threads ---- */

static void deliver_later(struct op *op)
{
    struct loop *l = op->relay_context;
    pthread_mutex_lock(&l->lock);
    list_push(&l->completed, &op->link);
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->async);
}

static void submit(struct writer *w, struct op *op)
{
    struct loop *l = container_of(w, struct loop_writer, base)->loop;
    op->relay = op->done;
    op->relay_context = l;
    op->done = deliver_later;
    writer_submit(l->setup.writer, op);
}

void loop_call(struct loop *l, struct call *c)
{
    pthread_mutex_lock(&l->lock);
    list_push(&l->calls, &c->link);
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->async);
}

void loop_forget(struct loop *l, struct call *c)
{
    pthread_mutex_lock(&l->lock);
    if (list_linked(&c->link))
        list_remove(&c->link);
    pthread_mutex_unlock(&l->lock);
}

static void take_all(struct loop *l, struct list *from, struct list *into)
{
    list_init(into);
    pthread_mutex_lock(&l->lock);
    while (!list_empty(from))
        list_push(into, list_pop(from));
    pthread_mutex_unlock(&l->lock);
}

static void on_async(uv_async_t *handle)
{
    struct loop *l = handle->data;
    struct list ops, calls;
    take_all(l, &l->completed, &ops);
    take_all(l, &l->calls, &calls);
    while (!list_empty(&ops)) {
        struct op *op = container_of(list_pop(&ops), struct op, link);
        op->done = op->relay; /* as it was given to us: it may be submitted again */
        op->done(op);
    }
    while (!list_empty(&calls)) {
        struct call *c = container_of(list_pop(&calls), struct call, link);
        c->fn(c);
    }
}

/* ---- time ---- */

/* When that is by the machine's clock. */
static int64_t on_machine_us(struct loop *l, int64_t wake_ms)
{
    return wake_ms == INT64_MAX ? INT64_MAX : wake_ms * 1000 - clock_ahead_us(l->setup.clock);
}

static int64_t machine_us(struct loop *l)
{
    return clock_wall_us(l->setup.clock) - clock_ahead_us(l->setup.clock);
}

static void arm(struct loop *l, int64_t wake_ms)
{
    int64_t wake_us = on_machine_us(l, wake_ms);
    if (wake_us == l->armed_us || (wake_us != INT64_MAX && llabs(wake_us - l->armed_us) < NEAR_US))
        return;
    l->armed_us = wake_us;
    struct itimerspec when = { 0 };
    if (wake_us != INT64_MAX) {
        int64_t set_us = wake_us - l->lead_us;
        when.it_value.tv_sec = set_us / 1000000;
        when.it_value.tv_nsec = set_us % 1000000 * 1000 + 1; /* not zero: that would disarm it */
    }
    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL);
}

/* The clock may be set meanwhile: the steady one says when it is enough. */
static void wait_out(struct loop *l)
{
    int64_t begun_us = clock_steady_us(l->setup.clock), early_us = l->armed_us - machine_us(l);
    if (early_us > LEAD_MAX_US)
        return;
    l->lead_us += early_us > 0 ? -LEAD_FALL_US : LEAD_RISE_US;
    l->lead_us = max_of(min_of(l->lead_us, (int64_t)LEAD_MAX_US), (int64_t)0);
    while (machine_us(l) < l->armed_us && clock_steady_us(l->setup.clock) - begun_us <= LEAD_MAX_US)
        continue;
}

static void on_timer(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct loop *l = handle->data;
    uint64_t expirations;
    ssize_t n = read(l->timer_fd, &expirations, sizeof expirations);
    if (n == sizeof expirations && l->armed_us != INT64_MAX)
        wait_out(l);
    /* ECANCELED: somebody set the clock, which is just as good a reason to look */
    l->armed_us = -1; /* nothing is armed: not even a time that never comes */
}

static void on_again(uv_idle_t *handle)
{
    (void)handle;
}

static void on_prepare(uv_prepare_t *handle)
{
    struct loop *l = handle->data;
    struct moment now = clock_now(l->setup.clock);
    int64_t wake_ms = l->setup.step(l->setup.context, now);
    if (wake_ms <= now.wall_ms) {
        uv_idle_start(&l->again, on_again);
    } else {
        uv_idle_stop(&l->again);
        arm(l, wake_ms);
    }
}

/* ---- beginning and end ---- */

uv_loop_t *loop_uv(struct loop *l)
{
    return &l->uv;
}

struct writer *loop_writer(struct loop *l)
{
    return &l->writer.base;
}

enum err loop_new(const struct loop_setup *setup, struct loop **ret, struct error *e)
{
    static const struct writer_ops writer_ops = { submit };
    struct loop *l = xnew(*l);
    l->setup = *setup;
    l->armed_us = -1;
    l->writer = (struct loop_writer){ { &writer_ops }, l };
    list_init(&l->completed);
    list_init(&l->calls);
    pthread_mutex_init(&l->lock, NULL);
    l->timer_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    int rc = l->timer_fd < 0 ? -errno : uv_loop_init(&l->uv);
    if (rc < 0) {
        if (l->timer_fd >= 0)
            close(l->timer_fd);
        free(l);
        return error_set(e, ERR_UNAVAILABLE, "start an event loop: %s", uv_strerror(rc));
    }
    uv_async_init(&l->uv, &l->async, on_async);
    uv_prepare_init(&l->uv, &l->prepare);
    uv_idle_init(&l->uv, &l->again);
    uv_poll_init(&l->uv, &l->timer, l->timer_fd);
    l->async.data = l->prepare.data = l->timer.data = l;
    uv_prepare_start(&l->prepare, on_prepare);
    uv_poll_start(&l->timer, UV_READABLE, on_timer);
    *ret = l;
    return ERR_OK;
}

void loop_run(struct loop *l)
{
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *l)
{
    uv_stop(&l->uv);
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    uv_prepare_stop(&l->prepare);
    uv_close((uv_handle_t *)&l->async, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_close((uv_handle_t *)&l->again, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
    close(l->timer_fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
