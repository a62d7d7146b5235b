#include "api/resource/recall.h"

#include <stdlib.h>

#include "api/server/internal.h"
#include "api/server/timers.h"

enum { ROWS_MAX = 16 << 20 };

/* Lives until the owner has answered and the timer has ended. */
struct recall_wait {
    struct recall_answer answer;
    struct timer timer;
    struct request *q;
    struct timers *timers;
    struct arena arena;
    struct recall_order order; /* points to the copies below */
    struct task running, replace;
    struct idempotency record;
    recall_then *then;
    atomic_int users;
};

static void recall_unref(struct recall_wait *w, int users)
{
    if (atomic_fetch_sub(&w->users, users) > users)
        return;
    arena_release(&w->arena);
    free(w);
}

static void recall_on_timeout(struct timer *timer)
{
    struct recall_wait *w = container_of(timer, struct recall_wait, timer);
    assert_owned(timers_thread(w->timers));
    atomic_store(&w->answer.given_up, true);
    w->then(w->q, RECALL_RUNNING, false);
    recall_unref(w, 1);
}

static void recall_on_answer(struct recall_answer *answer)
{
    struct recall_wait *w = container_of(answer, struct recall_wait, answer);
    bool in_time = timers_cancel(w->timers, &w->timer);
    if (in_time)
        w->then(w->q, answer->result, answer->known);
    recall_unref(w, in_time ? 2 : 1); /* also for the timer, which will not fire any more */
}

static bool recall_copy_order(struct recall_wait *w, const struct recall_order *order)
{
    w->order = (struct recall_order){ .running = &w->running, .replace = &w->replace, .abort = order->abort };
    if (order->record) {
        w->record = *order->record;
        w->order.record = &w->record;
    }
    return task_copy(&w->arena, order->running, &w->running) && task_copy(&w->arena, order->replace, &w->replace) &&
           arena_str(&w->arena, w->record.answer, &w->record.answer);
}

bool recall_ask(struct request *q, const struct recall_order *order, int64_t wait_ms, recall_then *then)
{
    const struct api_setup *setup = &q->server->setup;
    if (!setup->recall || wait_ms <= 0)
        return false;
    struct recall_wait *w = xnew(*w);
    w->answer.done = recall_on_answer;
    w->timer.fire = recall_on_timeout;
    w->q = q;
    w->timers = q->server->timers;
    w->then = then;
    w->users = 2;
    arena_init(&w->arena, ROWS_MAX);
    if (!recall_copy_order(w, order)) {
        w->users = 1;
        recall_unref(w, 1);
        return false;
    }
    timers_add(w->timers, &w->timer, wait_ms);
    setup->recall(setup->context, &w->order, &w->answer);
    return true;
}

void task_undo_delay(struct task *t, const struct task *claimed)
{
    bool same = uuid_eq(t->id, claimed->id) && t->fence == claimed->fence && t->version == claimed->version &&
                t->attempts == claimed->attempts && t->losses == claimed->losses;
    if (same && t->state == TASK_SCHEDULED && claimed->state == TASK_RUNNING)
        t->due_ms = min_of(t->due_ms, claimed->due_ms);
}
