/* One take is in flight at a time. It asks for the places that are free when it is sent; if more become free while it
 * waits, its wait is ended, and the next one asks for them all. While tasks have arrived that must not start before
 * more was heard of what users want (worker_has_heard), it asks for no tasks, and does not wait. */
#include <assert.h>

#include "base/log.h"
#include "node/worker/internal.h"

enum { TAKE_BATCH = 1024, TAKE_ARENA = 128 << 20, TAKE_WAIT_MS = 1000 };

/* So many answers in turn that came too late to start anything are logged: one may come late because this process was
 * stopped. */
enum { LATE_ANSWERS_TOLD = 3 };

/* The worker asks again by itself: no notice will come for tasks that were pushed before. */
static void worker_take_failed(struct worker *w, struct delivery_batch *h)
{
    if (!w->queue_down)
        log_warn("take_failed", kv_err(&h->take.io_request.error));
    w->queue_down = true;
    w->asked = (struct class_slots){ 0 };
    worker_return_unheard(w);
    w->take_at_ms = w->now.steady_ms + WORKER_RETRY_MS;
    delivery_batch_unref(h);
}

/* The answer to a take that waited in vain may be as old as its wait. */
static void worker_note_late_answer(struct worker *w, const struct io_take *t)
{
    if (t->ask.wait_ms && !t->ret.tasks.n)
        return;
    w->late_answers = worker_has_heard(w) ? 0 : w->late_answers + 1;
    if (w->late_answers == LATE_ANSWERS_TOLD)
        log_warn("queue_slow", kv_i64("answered_after_ms", clock_steady_ms(w->setup.clock) - w->heard_ms),
                 kv_i64("limit_ms", DELIVERY_HEARD_MS));
}

static void worker_on_taken(struct io_request *e)
{
    struct delivery_batch *h = container_of(e, struct delivery_batch, take.io_request);
    struct worker *w = h->worker;
    w->taking = false;
    if (e->rc) {
        worker_take_failed(w, h);
        return;
    }
    w->queue_down = w->must_hear = false;
    w->heard_ms = h->take.ret.heard_ms;
    worker_note_late_answer(w, &h->take);
    if (h->take.ret.unheard)
        worker_return_unheard(w);
    if (h->take.ret.queue_us && w->setup.queue_time)
        w->setup.queue_time(w->setup.context, h->take.ret.queue_us);
    if (h->take.ask.max == 0)
        w->end_at_ms = w->now.steady_ms + WORKER_RETRY_MS;
    if (!w->arrived) {
        w->arrived = h;
        return;
    }
    assert(h->take.ask.max == 0);
    worker_apply_requests(w, &h->take.ret);
    delivery_batch_unref(h);
}

bool worker_has_place(const struct worker *w, const struct task *t)
{
    struct class_slots slots = worker_free_slots(w), left = class_slots_without(&slots, &w->asked);
    return class_slots_for(&left, priority_class_of(t->priority)) > 0;
}

/* The places that it may fill now. An unpublished outcome takes up a slot. */
static struct class_slots worker_room(const struct worker *w)
{
    bool alone = w->setup.fleet && w->suspects; /* a suspect runs alone */
    if (w->stopped || alone || w->arrived || w->must_hear || !worker_may_start(w, NULL) ||
        (w->setup.may_take && !w->setup.may_take(w->setup.context)))
        return (struct class_slots){ 0 };
    struct class_slots slots = worker_free_slots(w),
                       left = class_slots_without(&slots, &(struct class_slots){ .free = worker_unpublished(w) });
    return class_slots_limit(&left, TAKE_BATCH);
}

/* The lowest class that it serves and has room for; CLASSES: none. */
static int worker_lowest_class(const struct worker *w, const struct class_slots *room)
{
    int c = class_slots_lowest(room);
    while (c < CLASSES && !w->serves[c])
        c++;
    return c;
}

static int64_t worker_rest(int64_t room, int64_t used)
{
    return room > 0 ? max_of(room - used, (int64_t)0) : -1;
}

/* A queue in memory is asked when it has something. Any other queue is asked all the time, and now and then also by a
 * full worker: its answer names the tasks that are to be aborted. */
static bool worker_is_worth_asking(const struct worker *w, size_t room)
{
    struct async_io *c = w->setup.async_io;
    return c->at_once
               ? room > 0 && c->ops->queue_depth(c) > 0
               : room > 0 || w->arrived || w->must_hear || (w->running.n > 0 && w->end_at_ms <= w->now.steady_ms);
}

void worker_ask_for_more(struct worker *w)
{
    if (w->taking || w->now.steady_ms < w->take_at_ms)
        return;
    struct class_slots room = worker_room(w);
    if (!worker_is_worth_asking(w, room.free))
        return;
    bool waits = room.free && !w->setup.async_io->at_once;
    struct delivery_batch *h = xnew(*h);
    h->worker = w;
    h->references = 1;
    h->take.io_request = (struct io_request){ .kind = IO_TAKE, .done = worker_on_taken };
    h->take.ask = (struct take){ .max = room.free,
                                 .now_ms = w->now.wall_ms,
                                 .wait_ms = waits ? TAKE_WAIT_MS : 0,
                                 .visibility_ms = w->setup.visibility_ms,
                                 .worker = w->setup.id,
                                 .alone = !w->setup.fleet || w->running.n + w->parked.n == 0,
                                 .cpu_milli = worker_rest(w->setup.cpu_milli, w->cpu_used),
                                 .memory_mb = worker_rest(w->setup.memory_mb, w->memory_used),
                                 .filter = w->setup.filter };
    memcpy(h->take.ask.kept, room.kept, sizeof room.kept);
    arena_init(&h->take.arena, TAKE_ARENA);
    w->asked = room;
    w->asked_cpu = h->take.ask.cpu_milli;
    w->asked_memory = h->take.ask.memory_mb;
    w->asked_class = waits ? worker_lowest_class(w, &room) : CLASSES;
    w->taking = true;
    async_io_submit(w->setup.async_io, &h->take.io_request);
}

static void worker_on_unblocked(struct io_request *e)
{
    ((struct worker *)e->context)->unblocking = false; /* if it failed: the take waits for TAKE_WAIT_MS at most */
}

/* A take that waits said which classes have a slot, and how much CPU and memory is free. */
static bool worker_has_more_than_asked(const struct worker *w)
{
    struct class_slots room = worker_room(w);
    return worker_lowest_class(w, &room) < w->asked_class ||
           worker_rest(w->setup.cpu_milli, w->cpu_used) > w->asked_cpu ||
           worker_rest(w->setup.memory_mb, w->memory_used) > w->asked_memory;
}

void worker_unblock_take(struct worker *w)
{
    if (!w->taking || w->unblocking || w->asked_class == CLASSES || !(w->must_hear || worker_has_more_than_asked(w)))
        return;
    w->asked_class = CLASSES;
    w->unblocking = true;
    w->unblock = (struct io_unblock){ .io_request = { .kind = IO_UNBLOCK, .done = worker_on_unblocked, .context = w },
                                      .worker = w->setup.id };
    async_io_submit(w->setup.async_io, &w->unblock.io_request);
}

int64_t worker_next_take_ms(const struct worker *w)
{
    bool asks = !w->setup.async_io->at_once && (!w->stopped || w->running.n > 0);
    if (w->taking)
        return INT64_MAX;
    if (w->take_at_ms > w->now.steady_ms)
        return w->take_at_ms;
    return asks ? max_of(w->end_at_ms, w->now.steady_ms + WORKER_RETRY_MS) : INT64_MAX;
}

static void worker_on_queue_emptied(struct io_request *e)
{
    if (e->rc)
        log_warn("take_failed", kv_err(&e->error));
}

void worker_drop_queued(struct worker *w)
{
    struct async_io *c = w->setup.async_io;
    assert(c->at_once && !w->taking);
    struct io_take all = { .io_request = { .kind = IO_TAKE, .done = worker_on_queue_emptied },
                           .ask = { .max = TAKE_BATCH,
                                    .now_ms = w->now.wall_ms,
                                    .visibility_ms = w->setup.visibility_ms,
                                    .worker = w->setup.id,
                                    .alone = true,
                                    .cpu_milli = -1,
                                    .memory_mb = -1,
                                    .filter = w->setup.filter } };
    arena_init(&all.arena, TAKE_ARENA);
    while (c->ops->queue_depth(c)) {
        async_io_submit(c, &all.io_request);
        if (all.io_request.rc || !all.ret.tasks.n)
            break;
        for (size_t i = 0; i < all.ret.tasks.n; i++)
            worker_drop_delivery(w, (struct fenced_id){ all.ret.tasks.v[i].id, all.ret.tasks.v[i].fence });
        arena_reset(&all.arena);
    }
    arena_release(&all.arena);
}
