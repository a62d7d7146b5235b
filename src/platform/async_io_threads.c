/* Threads and the state they own:
 * - The loop's thread submits requests and runs their `done`.
 * - A channel's thread runs the requests of its channel, in the order of submission.
 * - Lists under locks pass requests between them: one list per channel for submitted requests, and one list for all
 *   completed requests. One loop_call delivers all completed requests that have gathered.
 *
 * The loop reads the state of a port only through an atomic that the channel's thread writes: the port's depth. */
#include "platform/async_io_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "platform/clock_system.h"

struct async_io_threads;

struct async_io_thread {
    struct async_io_threads *all;
    enum async_io_channel channel;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* protects the next members, up to down_why */
    struct list submitted;
    bool stopping;
    pthread_cond_t wake;
    bool answered;
    int64_t down_since_ms; /* steady clock; 0: not down */
    struct error down_why;

    struct async_io_ports ports; /* used by the channel's thread only, like the next three members */
    bool open;
    int64_t open_at_ms; /* earliest time of the next attempt to open, steady clock */
    struct error why;   /* of the last attempt to open that failed */
    atomic_size_t depth;
};

struct async_io_threads {
    struct async_io base;
    struct async_io_threads_setup setup;
    struct async_io_thread threads[ASYNC_IO_CHANNELS];

    pthread_mutex_t lock; /* protects the next two members */
    struct list completed;
    bool posted; /* loop_call was called and `call` has not run yet */
    struct call call;
};

static const enum async_io_channel channel_of[IO_KINDS] = {
    [IO_PUSH] = ASYNC_IO_QUEUE,  [IO_TAKE] = ASYNC_IO_TAKE,       [IO_RENEW] = ASYNC_IO_QUEUE,
    [IO_ACK] = ASYNC_IO_QUEUE,   [IO_TIMED_OUT] = ASYNC_IO_QUEUE, [IO_RECALL] = ASYNC_IO_QUEUE,
    [IO_ABORT] = ASYNC_IO_QUEUE, [IO_UNBLOCK] = ASYNC_IO_QUEUE,   [IO_KNOWN] = ASYNC_IO_QUEUE,
    [IO_STATS] = ASYNC_IO_QUEUE, [IO_PUBLISH] = ASYNC_IO_PUBLISH, [IO_BARRIER] = ASYNC_IO_PUBLISH,
    [IO_POLL] = ASYNC_IO_POLL,   [IO_EVENTS_ACK] = ASYNC_IO_POLL, [IO_BARRIER_PASSED] = ASYNC_IO_PUBLISH,
    [IO_LEASE] = ASYNC_IO_LEASE, [IO_WANT_BACK] = ASYNC_IO_QUEUE,
};

static int64_t async_io_steady_ms(void)
{
    return clock_steady_ms(clock_system());
}

/* ---- on the loop's thread ---- */

static struct async_io_threads *async_io_threads_of(struct async_io *c)
{
    return container_of(c, struct async_io_threads, base);
}

static void async_io_threads_submit(struct async_io *c, struct io_request *io)
{
    struct async_io_thread *p = &async_io_threads_of(c)->threads[channel_of[io->kind]];
    assert_owned(loop_owner(p->all->setup.loop));
    assert(p->running);
    pthread_mutex_lock(&p->lock);
    list_push(&p->submitted, &io->link);
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static size_t async_io_threads_queue_depth(struct async_io *c)
{
    return atomic_load(&async_io_threads_of(c)->threads[ASYNC_IO_QUEUE].depth);
}

static size_t async_io_threads_events_depth(struct async_io *c)
{
    struct async_io_threads *t = async_io_threads_of(c);
    return atomic_load(&t->threads[ASYNC_IO_PUBLISH].depth) + atomic_load(&t->threads[ASYNC_IO_POLL].depth);
}

static void async_io_threads_on_completed(struct call *call)
{
    struct async_io_threads *t = container_of(call, struct async_io_threads, call);
    assert_owned(loop_owner(t->setup.loop));
    struct list done;
    list_init(&done);
    pthread_mutex_lock(&t->lock);
    list_append(&done, &t->completed);
    t->posted = false;
    pthread_mutex_unlock(&t->lock);
    while (!list_empty(&done)) {
        struct io_request *io = container_of(list_pop(&done), struct io_request, link);
        io->done(io);
    }
}

/* ---- on a channel's thread ---- */

static bool async_io_thread_open(struct async_io_thread *p)
{
    struct async_io_threads *t = p->all;
    if (p->open)
        return true;
    if (async_io_steady_ms() < p->open_at_ms)
        return false;
    p->open = t->setup.open(t->setup.context, p->channel, &p->ports, &p->why) == ERR_OK;
    p->open_at_ms = async_io_steady_ms() + ASYNC_IO_REOPEN_MS;
    return p->open;
}

static size_t async_io_thread_depth(const struct async_io_thread *p)
{
    const struct async_io_ports *at = &p->ports;
    struct events *events = at->publish ? at->publish : at->poll;
    return at->queue ? queue_depth(at->queue) : events ? events_depth(events) : 0;
}

/* The request was not sent, so it is certain that no task was pushed. */
static void async_io_request_fail(struct io_request *io, const struct error *why)
{
    io->rc = why->code;
    io->error = *why;
    if (io->kind == IO_PUSH)
        container_of(io, struct io_push, io_request)->ret = (struct pushed){ 0 };
}

static void async_io_request_complete(struct async_io_threads *t, struct io_request *io)
{
    pthread_mutex_lock(&t->lock);
    list_push(&t->completed, &io->link);
    bool post = !t->posted;
    t->posted = true;
    pthread_mutex_unlock(&t->lock);
    if (post)
        loop_call(t->setup.loop, &t->call);
}

static void async_io_thread_note_health(struct async_io_thread *p, const struct io_request *io)
{
    bool down = io->rc == ERR_UNAVAILABLE;
    pthread_mutex_lock(&p->lock);
    p->answered = p->answered || !down;
    if (!down)
        p->down_since_ms = 0;
    else if (p->down_since_ms == 0)
        p->down_since_ms = async_io_steady_ms();
    if (down)
        p->down_why = io->error;
    pthread_mutex_unlock(&p->lock);
}

static void async_io_thread_run(struct async_io_thread *p, struct io_request *io)
{
    if (async_io_thread_open(p)) {
        io_run(&p->ports, io);
        atomic_store(&p->depth, async_io_thread_depth(p));
    } else {
        async_io_request_fail(io, &p->why);
    }
    async_io_thread_note_health(p, io);
    async_io_request_complete(p->all, io);
}

static void async_io_thread_close(struct async_io_thread *p)
{
    queue_free(p->ports.queue);
    queue_free(p->ports.take);
    events_free(p->ports.publish);
    events_free(p->ports.poll);
    lease_free(p->ports.lease);
}

static void *async_io_thread_main(void *context)
{
    struct async_io_thread *p = context;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        struct list *link = list_pop(&p->submitted);
        if (!link) {
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        async_io_thread_run(p, container_of(link, struct io_request, link));
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    async_io_thread_close(p);
    return NULL;
}

/* ---- start and stop ---- */

static enum err async_io_thread_start(struct async_io_threads *t, enum async_io_channel channel, struct error *e)
{
    static const char *const names[] = {
        [ASYNC_IO_QUEUE] = "queue", [ASYNC_IO_TAKE] = "take",   [ASYNC_IO_PUBLISH] = "publish",
        [ASYNC_IO_POLL] = "poll",   [ASYNC_IO_LEASE] = "lease",
    };
    struct async_io_thread *p = &t->threads[channel];
    p->all = t;
    p->channel = channel;
    list_init(&p->submitted);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    int failed = pthread_create(&p->thread, NULL, async_io_thread_main, p);
    if (failed)
        return error_set(e, ERR_UNAVAILABLE, "start a thread: %s", strerror(failed));
    pthread_setname_np(p->thread, names[channel]);
    p->running = true;
    return ERR_OK;
}

enum err async_io_threads_new(const struct async_io_threads_setup *setup, struct async_io **ret, struct error *e)
{
    static const struct async_io_ops ops = { async_io_threads_submit, async_io_threads_queue_depth,
                                             async_io_threads_events_depth };
    struct async_io_threads *t = xnew(*t);
    t->base = (struct async_io){ .ops = &ops, .push_again = setup->push_again };
    t->setup = *setup;
    t->call.fn = async_io_threads_on_completed;
    list_init(&t->completed);
    pthread_mutex_init(&t->lock, NULL);
    for (int i = 0; i < ASYNC_IO_CHANNELS; i++) {
        enum err rc = setup->wanted[i] ? async_io_thread_start(t, (enum async_io_channel)i, e) : ERR_OK;
        if (rc) {
            async_io_threads_free(&t->base);
            return rc;
        }
    }
    *ret = &t->base;
    return ERR_OK;
}

void async_io_threads_health(struct async_io *c, enum async_io_channel channel, struct async_io_health *ret)
{
    struct async_io_thread *p = &async_io_threads_of(c)->threads[channel];
    *ret = (struct async_io_health){ 0 };
    if (!p->running)
        return;
    pthread_mutex_lock(&p->lock);
    ret->answered = p->answered;
    ret->why = p->down_why;
    if (p->down_since_ms)
        ret->down_ms = max_of(async_io_steady_ms() - p->down_since_ms, (int64_t)1);
    pthread_mutex_unlock(&p->lock);
}

static void async_io_thread_stop(struct async_io_thread *p)
{
    if (!p->running)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void async_io_threads_free(struct async_io *c)
{
    if (!c)
        return;
    struct async_io_threads *t = async_io_threads_of(c);
    assert_owned(loop_owner(t->setup.loop));
    for (int i = 0; i < ASYNC_IO_CHANNELS; i++) /* stop all threads before joining the first */
        async_io_thread_stop(&t->threads[i]);
    for (int i = 0; i < ASYNC_IO_CHANNELS; i++) {
        if (!t->threads[i].all)
            continue;
        if (t->threads[i].running)
            pthread_join(t->threads[i].thread, NULL);
        pthread_mutex_destroy(&t->threads[i].lock);
        pthread_cond_destroy(&t->threads[i].wake);
    }
    loop_cancel_call(t->setup.loop, &t->call);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
