/* Three owners. The loop's thread submits and is called back. A place's thread runs what its list holds, first come, first served. Between
 * them are lists under locks: one a place for what was submitted, one for all that is done, which a single call takes to the loop however
 * much has gathered.
 *
 * The loop sees of a handle only what its thread has left in atomics: how deep it is, and whether what may be there can be pushed again. */
#include "platform/async_io_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "platform/clock_system.h"

struct threads;

struct place {
    struct threads *owner;
    enum async_io_channel which;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* over what follows, up to the ports */
    struct list submitted;
    bool stopping;
    pthread_cond_t wake;
    bool answered;
    int64_t down_since_ms; /* on a clock that nobody sets; 0: it is not */
    struct error down_why;

    struct async_io_ports ports; /* the thread's, like the next two */
    bool open;
    int64_t open_at_ms; /* not before, on a clock that nobody sets */
    struct error why;   /* it is not open */
    atomic_size_t depth;
};

struct threads {
    struct async_io base;
    struct async_io_threads_setup setup;
    struct place places[ASYNC_IO_PLACES];
    atomic_bool push_again;

    pthread_mutex_t lock; /* over the next two */
    struct list completed;
    bool posted; /* the call is on its way */
    struct call call;
};

static const enum async_io_channel place_of[IO_KINDS] = {
    [IO_PUSH] = ASYNC_IO_QUEUE,      [IO_TAKE] = ASYNC_IO_TAKE,       [IO_RENEW] = ASYNC_IO_QUEUE,
    [IO_ACK] = ASYNC_IO_QUEUE,       [IO_TIMED_OUT] = ASYNC_IO_QUEUE, [IO_RECALL] = ASYNC_IO_QUEUE,
    [IO_ABORT] = ASYNC_IO_QUEUE,     [IO_KNOWN] = ASYNC_IO_QUEUE,     [IO_STATS] = ASYNC_IO_QUEUE,
    [IO_PUBLISH] = ASYNC_IO_PUBLISH, [IO_BARRIER] = ASYNC_IO_PUBLISH, [IO_BARRIER_PASSED] = ASYNC_IO_PUBLISH,
    [IO_POLL] = ASYNC_IO_POLL,       [IO_EVENTS_ACK] = ASYNC_IO_POLL, [IO_LEASE] = ASYNC_IO_LEASE,
};

static int64_t steady_ms(void)
{
    return clock_steady_ms(clock_system());
}

/* ---- the loop's side ---- */

static struct threads *threads_of(struct async_io *c)
{
    return container_of(c, struct threads, base);
}

static void submit(struct async_io *c, struct io_request *e)
{
    struct place *p = &threads_of(c)->places[place_of[e->kind]];
    assert(p->running);
    pthread_mutex_lock(&p->lock);
    list_push(&p->submitted, &e->link);
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static size_t queue_depth_known(struct async_io *c)
{
    return atomic_load(&threads_of(c)->places[ASYNC_IO_QUEUE].depth);
}

static size_t events_depth_known(struct async_io *c)
{
    struct threads *t = threads_of(c);
    return atomic_load(&t->places[ASYNC_IO_PUBLISH].depth) + atomic_load(&t->places[ASYNC_IO_POLL].depth);
}

static void deliver(struct call *call)
{
    struct threads *t = container_of(call, struct threads, call);
    struct list done;
    list_init(&done);
    pthread_mutex_lock(&t->lock);
    list_append(&done, &t->completed);
    t->posted = false;
    pthread_mutex_unlock(&t->lock);
    t->base.push_again = atomic_load(&t->push_again);
    while (!list_empty(&done)) {
        struct io_request *e = container_of(list_pop(&done), struct io_request, link);
        e->done(e);
    }
}

/* ---- a place's side ---- */

static bool open_port(struct place *p)
{
    struct threads *t = p->owner;
    if (p->open)
        return true;
    if (steady_ms() < p->open_at_ms)
        return false;
    p->open = t->setup.open(t->setup.context, p->which, &p->ports, &p->why) == ERR_OK;
    p->open_at_ms = steady_ms() + ASYNC_IO_REOPEN_MS;
    if (p->open && p->ports.queue)
        atomic_store(&t->push_again, p->ports.queue->ops->push_again);
    return p->open;
}

static size_t depth_of(const struct place *p)
{
    const struct async_io_ports *at = &p->ports;
    struct events *events = at->publish ? at->publish : at->poll;
    return at->queue ? queue_depth(at->queue) : events ? events_depth(events) : 0;
}

/* Nothing has been sent: what was to be pushed is not there, for sure. */
static void fail(struct io_request *e, const struct error *why)
{
    e->rc = why->code;
    e->error = *why;
    if (e->kind == IO_PUSH)
        container_of(e, struct io_push, io_request)->ret = (struct pushed){ 0 };
}

static void complete(struct threads *t, struct io_request *e)
{
    pthread_mutex_lock(&t->lock);
    list_push(&t->completed, &e->link);
    bool post = !t->posted;
    t->posted = true;
    pthread_mutex_unlock(&t->lock);
    if (post)
        loop_call(t->setup.loop, &t->call);
}

static void note_health(struct place *p, const struct io_request *e)
{
    bool down = e->rc == ERR_UNAVAILABLE;
    pthread_mutex_lock(&p->lock);
    p->answered = p->answered || !down;
    if (!down)
        p->down_since_ms = 0;
    else if (p->down_since_ms == 0)
        p->down_since_ms = steady_ms();
    if (down)
        p->down_why = e->error;
    pthread_mutex_unlock(&p->lock);
}

static void run(struct place *p, struct io_request *e)
{
    if (open_port(p)) {
        io_run(&p->ports, e);
        atomic_store(&p->depth, depth_of(p));
    } else {
        fail(e, &p->why);
    }
    note_health(p, e);
    complete(p->owner, e);
}

static void close_port(struct place *p)
{
    queue_free(p->ports.queue);
    queue_free(p->ports.take);
    events_free(p->ports.publish);
    events_free(p->ports.poll);
    lease_free(p->ports.lease);
}

static void *work(void *context)
{
    struct place *p = context;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        struct list *link = list_pop(&p->submitted);
        if (!link) {
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        run(p, container_of(link, struct io_request, link));
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    close_port(p);
    return NULL;
}

/* ---- beginning and end ---- */

static enum err start(struct threads *t, enum async_io_channel which, struct error *e)
{
    static const char *const names[] = {
        [ASYNC_IO_QUEUE] = "queue", [ASYNC_IO_TAKE] = "take",   [ASYNC_IO_PUBLISH] = "publish",
        [ASYNC_IO_POLL] = "poll",   [ASYNC_IO_LEASE] = "lease",
    };
    struct place *p = &t->places[which];
    p->owner = t;
    p->which = which;
    list_init(&p->submitted);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    int failed = pthread_create(&p->thread, NULL, work, p);
    if (failed)
        return error_set(e, ERR_UNAVAILABLE, "start a thread: %s", strerror(failed));
    pthread_setname_np(p->thread, names[which]);
    p->running = true;
    return ERR_OK;
}

enum err async_io_threads_new(const struct async_io_threads_setup *setup, struct async_io **ret, struct error *e)
{
    static const struct async_io_ops ops = { submit, queue_depth_known, events_depth_known };
    struct threads *t = xnew(*t);
    t->base.ops = &ops;
    t->setup = *setup;
    t->call.fn = deliver;
    list_init(&t->completed);
    pthread_mutex_init(&t->lock, NULL);
    for (int i = 0; i < ASYNC_IO_PLACES; i++)
        if (setup->wanted[i] && start(t, (enum async_io_channel)i, e)) {
            async_io_threads_free(&t->base);
            return e->code;
        }
    *ret = &t->base;
    return ERR_OK;
}

void async_io_threads_health(struct async_io *c, enum async_io_channel place, struct async_io_health *ret)
{
    struct place *p = &threads_of(c)->places[place];
    *ret = (struct async_io_health){ 0 };
    if (!p->running)
        return;
    pthread_mutex_lock(&p->lock);
    ret->answered = p->answered;
    ret->why = p->down_why;
    if (p->down_since_ms)
        ret->down_ms = max_of(steady_ms() - p->down_since_ms, (int64_t)1);
    pthread_mutex_unlock(&p->lock);
}

static void tell_to_stop(struct place *p)
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
    struct threads *t = threads_of(c);
    for (int i = 0; i < ASYNC_IO_PLACES; i++) /* all, before the first is waited for */
        tell_to_stop(&t->places[i]);
    for (int i = 0; i < ASYNC_IO_PLACES; i++) {
        if (!t->places[i].owner)
            continue;
        if (t->places[i].running)
            pthread_join(t->places[i].thread, NULL);
        pthread_mutex_destroy(&t->places[i].lock);
        pthread_cond_destroy(&t->places[i].wake);
    }
    loop_forget(t->setup.loop, &t->call);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
