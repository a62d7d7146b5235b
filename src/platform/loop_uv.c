/* Wake-ups: one async handle collects all calls and completed operations of other threads. A prepare handle calls step
 * before each wait of the loop; the loop turns only if something happened. The timerfd is armed for the time that step
 * returned, so an idle loop sleeps.
 *
 * A sleeping thread is woken tens of microseconds late, by nearly the same delay each time. The timer is therefore set
 * earlier by `lead_us`. The lead rises by 1 us after a late wake-up and falls by 3 us after an early one, so about one
 * wake-up of four is early; the loop then busy-waits for the rest. */
#include "platform/loop_uv.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    NEAR_US = 20,      /* two readings of a corrected clock differ by less than this */
    LEAD_MAX_US = 100, /* upper bound of the lead, and so of a busy-wait */
    LEAD_RISE_US = 1,  /* rise to fall is 1 to 3: one wake-up of four is early */
    LEAD_FALL_US = 3,
};

struct loop_writer {
    struct writer base;
    struct loop *loop;
};

struct loop {
    struct loop_setup setup;
    struct thread_owner owner; /* taken while loop_run runs */
    uv_loop_t uv;
    uv_async_t async;
    uv_prepare_t prepare;
    uv_idle_t idle; /* active while step wants to be called again at once: the loop then polls without waiting */
    uv_poll_t timer;
    int timer_fd;
    int64_t armed_us; /* machine's clock; -1: not armed */
    int64_t lead_us;  /* how much earlier the timer is set */
    struct loop_writer writer;
    pthread_mutex_t lock; /* protects the two lists */
    struct list completed, calls;
};

/* ---- operations and calls from other threads ---- */

static void loop_uv_on_committed(struct op *op)
{
    struct loop *l = op->deliver_context;
    pthread_mutex_lock(&l->lock);
    list_push(&l->completed, &op->link);
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->async);
}

static struct loop *loop_uv_deliver_to(struct writer *w, struct op *op)
{
    struct loop *l = container_of(w, struct loop_writer, base)->loop;
    assert_owned(&l->owner);
    op->deliver = loop_uv_on_committed;
    op->deliver_context = l;
    return l;
}

static void loop_uv_submit(struct writer *w, struct op *op)
{
    writer_submit(loop_uv_deliver_to(w, op)->setup.writer, op);
}

static void loop_uv_submit_pair(struct writer *w, struct op *first, struct op *second)
{
    (void)loop_uv_deliver_to(w, first);
    writer_submit_pair(loop_uv_deliver_to(w, second)->setup.writer, first, second);
}

void loop_call(struct loop *l, struct call *c)
{
    pthread_mutex_lock(&l->lock);
    list_push(&l->calls, &c->link);
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->async);
}

void loop_cancel_call(struct loop *l, struct call *c)
{
    assert_owned(&l->owner);
    pthread_mutex_lock(&l->lock);
    if (list_linked(&c->link))
        list_remove(&c->link);
    pthread_mutex_unlock(&l->lock);
}

static void loop_uv_take_all(struct list *from, struct list *into)
{
    list_init(into);
    while (!list_empty(from))
        list_push(into, list_pop(from));
}

static void loop_uv_on_wakeup(uv_async_t *handle)
{
    struct loop *l = handle->data;
    struct list ops, calls;
    pthread_mutex_lock(&l->lock); /* once: a call may be about an operation that was completed before it was made */
    loop_uv_take_all(&l->completed, &ops);
    loop_uv_take_all(&l->calls, &calls);
    pthread_mutex_unlock(&l->lock);
    while (!list_empty(&ops)) {
        struct op *op = container_of(list_pop(&ops), struct op, link);
        op->deliver = NULL; /* done may submit the operation again, to another writer */
        op->done(op);
    }
    while (!list_empty(&calls)) {
        struct call *c = container_of(list_pop(&calls), struct call, link);
        c->fn(c);
    }
}

/* ---- the timer ---- */

/* Converts a time to the machine's clock. */
static int64_t loop_uv_machine_time_us(struct loop *l, int64_t wake_ms)
{
    return wake_ms == INT64_MAX ? INT64_MAX : wake_ms * 1000 - clock_ahead_us(l->setup.clock);
}

static int64_t loop_uv_machine_us(struct loop *l)
{
    return clock_wall_us(l->setup.clock) - clock_ahead_us(l->setup.clock);
}

static void loop_uv_arm(struct loop *l, int64_t wake_ms)
{
    int64_t wake_us = loop_uv_machine_time_us(l, wake_ms);
    if (wake_us == l->armed_us || (wake_us != INT64_MAX && llabs(wake_us - l->armed_us) < NEAR_US))
        return;
    l->armed_us = wake_us;
    struct itimerspec when = { 0 };
    if (wake_us != INT64_MAX) {
        int64_t set_us = wake_us - l->lead_us;
        when.it_value.tv_sec = set_us / 1000000;
        when.it_value.tv_nsec = set_us % 1000000 * 1000 + 1; /* never zero, which would disarm the timer */
    }
    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL);
}

/* Busy-waits until the armed time. The clock may be set meanwhile, so the steady clock limits the wait. */
static void loop_uv_wait_rest(struct loop *l)
{
    int64_t begun_us = clock_steady_us(l->setup.clock), early_us = l->armed_us - loop_uv_machine_us(l);
    if (early_us > LEAD_MAX_US)
        return;
    l->lead_us += early_us > 0 ? -LEAD_FALL_US : LEAD_RISE_US;
    l->lead_us = max_of(min_of(l->lead_us, (int64_t)LEAD_MAX_US), (int64_t)0);
    while (loop_uv_machine_us(l) < l->armed_us && clock_steady_us(l->setup.clock) - begun_us <= LEAD_MAX_US)
        continue;
}

static void loop_uv_on_timer(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct loop *l = handle->data;
    uint64_t expirations;
    ssize_t n = read(l->timer_fd, &expirations, sizeof expirations);
    if (n == sizeof expirations && l->armed_us != INT64_MAX)
        loop_uv_wait_rest(l);
    /* ECANCELED means that the clock was set: step is called then too */
    l->armed_us = -1; /* nothing is armed: the next step arms the timer anew */
}

static void loop_uv_on_idle(uv_idle_t *handle)
{
    (void)handle;
}

static void loop_uv_on_prepare(uv_prepare_t *handle)
{
    struct loop *l = handle->data;
    struct moment now = clock_now(l->setup.clock);
    int64_t wake_ms = l->setup.step(l->setup.context, now);
    if (wake_ms <= now.wall_ms) {
        uv_idle_start(&l->idle, loop_uv_on_idle);
    } else {
        uv_idle_stop(&l->idle);
        loop_uv_arm(l, wake_ms);
    }
}

/* ---- construction and destruction ---- */

uv_loop_t *loop_uv(struct loop *l)
{
    return &l->uv;
}

const struct thread_owner *loop_owner(const struct loop *l)
{
    return &l->owner;
}

struct writer *loop_writer(struct loop *l)
{
    return &l->writer.base;
}

enum err loop_new(const struct loop_setup *setup, struct loop **ret, struct error *e)
{
    static const struct writer_ops single = { loop_uv_submit, NULL }, paired = { loop_uv_submit, loop_uv_submit_pair };
    bool pairs = setup->writer && writer_has_pairs(setup->writer); /* a worker's loop has no writer */
    struct loop *l = xnew(*l);
    l->setup = *setup;
    l->armed_us = -1;
    l->writer = (struct loop_writer){ { pairs ? &paired : &single }, l };
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
    uv_async_init(&l->uv, &l->async, loop_uv_on_wakeup);
    uv_prepare_init(&l->uv, &l->prepare);
    uv_idle_init(&l->uv, &l->idle);
    uv_poll_init(&l->uv, &l->timer, l->timer_fd);
    l->async.data = l->prepare.data = l->timer.data = l;
    uv_prepare_start(&l->prepare, loop_uv_on_prepare);
    uv_poll_start(&l->timer, UV_READABLE, loop_uv_on_timer);
    *ret = l;
    return ERR_OK;
}

void loop_run(struct loop *l)
{
    assert_owned(&l->owner);
    thread_owner_take(&l->owner);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    thread_owner_drop(&l->owner); /* another thread may free the loop and everything on it */
}

void loop_stop(struct loop *l)
{
    assert_owned(&l->owner);
    uv_stop(&l->uv);
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    assert_owned(&l->owner);
    uv_prepare_stop(&l->prepare);
    uv_close((uv_handle_t *)&l->async, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_close((uv_handle_t *)&l->idle, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
    close(l->timer_fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
