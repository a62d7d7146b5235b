#include "api/resource/catalog_barrier.h"

#include <stdlib.h>

#include "api/server/internal.h"
#include "api/server/timers.h"

/* The store, the timer and whoever begins it each have a part in it. A part ends when it has been played, or when it is called off; who ends
 * the last one goes on with the request, so nobody touches the server behind its back. */
struct heed {
    struct store_barrier barrier;
    struct timer timer;
    struct request *q;
    struct store *store;
    struct timers *timers;
    void (*then)(struct request *q);
    atomic_int parts;
    atomic_bool late;
};

static void end_parts(struct heed *h, int parts)
{
    if (atomic_fetch_sub(&h->parts, parts) > parts)
        return;
    struct heed over = { .q = h->q, .then = h->then };
    free(h);
    over.then(over.q);
}

static void timed_out(struct timer *timer)
{
    struct heed *h = container_of(timer, struct heed, timer);
    atomic_store(&h->late, true);
    end_parts(h, store_barrier_cancel(h->store, &h->barrier) ? 2 : 1);
}

static void heeded(struct store_barrier *barrier)
{
    struct heed *h = container_of(barrier, struct heed, barrier);
    end_parts(h, timers_cancel(h->timers, &h->timer) ? 2 : 1);
}

void catalog_barrier_wait(struct request *q, void (*then)(struct request *q))
{
    struct store *store = q->server->setup.store;
    if (!store_is_shared(store)) {
        then(q);
        return;
    }
    struct heed *h = xnew(*h);
    h->barrier.done = heeded;
    h->timer.fire = timed_out;
    h->q = q;
    h->store = store;
    h->timers = q->server->timers;
    h->then = then;
    h->parts = 3;
    timers_add(h->timers, &h->timer, CATALOG_BARRIER_MS);
    store_barrier_wait(store, &h->barrier);
    bool too_late = atomic_load(&h->late) &&
                    store_barrier_cancel(store, &h->barrier); /* it fired before there was anything to call off */
    end_parts(h, too_late ? 2 : 1);
}
