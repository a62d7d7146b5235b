#include "api/catalog/catalog_barrier.h"

#include <stdlib.h>

#include "api/server/internal.h"
#include "api/server/timers.h"

/* Three users hold the wait: the store, the timer, and catalog_barrier_wait itself. A user ends when it has been
 * called, or when it is cancelled. The last one to end continues with the request. So nothing touches the server after
 * the request has continued. */
struct barrier_wait {
    struct store_barrier barrier;
    struct timer timer;
    struct request *q;
    struct store *store;
    struct timers *timers;
    void (*then)(struct request *q);
    atomic_int users;
    atomic_bool late;
};

static void catalog_barrier_unref(struct barrier_wait *h, int users)
{
    if (atomic_fetch_sub(&h->users, users) > users)
        return;
    struct barrier_wait over = { .q = h->q, .then = h->then };
    over.q->response.partly_applied = atomic_load(&h->late);
    free(h);
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(over.q);
    over.then(over.q);
}

static void catalog_barrier_on_timeout(struct timer *timer)
{
    struct barrier_wait *h = container_of(timer, struct barrier_wait, timer);
    assert_owned(timers_thread(h->timers));
    atomic_store(&h->late, true);
    catalog_barrier_unref(h, store_barrier_cancel(h->store, &h->barrier) ? 2 : 1);
}

static void catalog_barrier_on_applied(struct store_barrier *barrier)
{
    struct barrier_wait *h = container_of(barrier, struct barrier_wait, barrier);
    catalog_barrier_unref(h, timers_cancel(h->timers, &h->timer) ? 2 : 1);
}

void catalog_barrier_wait(struct request *q, void (*then)(struct request *q))
{
    struct store *store = q->server->setup.store;
    if (!store_is_shared(store)) {
        then(q);
        return;
    }
    struct barrier_wait *h = xnew(*h);
    h->barrier.done = catalog_barrier_on_applied;
    h->timer.fire = catalog_barrier_on_timeout;
    h->q = q;
    h->store = store;
    h->timers = q->server->timers;
    h->then = then;
    h->users = 3;
    timers_add(h->timers, &h->timer, CATALOG_BARRIER_MS);
    store_barrier_wait(store, &h->barrier);
    bool too_late = atomic_load(&h->late) &&
                    store_barrier_cancel(store, &h->barrier); /* the timer fired before there was a barrier to cancel */
    catalog_barrier_unref(h, too_late ? 2 : 1);
}
