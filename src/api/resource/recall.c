#include "api/resource/recall.h"

#include <assert.h>
#include <stdlib.h>

#include "api/server/internal.h"
#include "api/server/timers.h"

enum { ROWS_MAX = 16 << 20 };

/* Lives as long as the request, and until each owner has answered. */
struct recall_group {
    struct clock *clock;
    atomic_int users;
    atomic_bool over;             /* the request asks no more */
    atomic_size_t open;           /* owners that have not answered */
    atomic_int_least64_t sure_ms; /* steady: from then on a task that a worker was asked for does not start */
    size_t n, max;
    atomic_bool sure[]; /* of the first max orders: whether it is certain what comes of its task */
};

/* Lives until the owner has answered and the timer has ended. */
struct recall_wait {
    struct recall_answer answer;
    struct timer timer;
    struct request *q;
    struct timers *timers;
    struct recall_group *group; /* NULL: nobody asks what comes of it */
    size_t at;                  /* in the group */
    struct arena arena;
    struct recall_order order; /* points to the copies below */
    struct task running, replace;
    struct idempotency record;
    struct audit audit;
    recall_then *then;
    int64_t stall_ms;
    atomic_bool answered; /* `then` was called, or is about to be */
    bool stalls;          /* the timer's: the owner has the task, and the store does not answer */
    atomic_int users;
};

static void recall_unref(struct recall_wait *w, int users)
{
    if (atomic_fetch_sub(&w->users, users) > users)
        return;
    arena_release(&w->arena);
    free(w);
}

static void recall_answer_once(struct recall_wait *w, enum recall_result result, enum task_state became, bool known,
                               bool told)
{
    if (atomic_exchange(&w->answered, true))
        return;
    w->q->became = became;
    if (told && result == RECALL_RUNNING)
        w->q->sure_ms = clock_steady_ms(w->q->server->setup.clock) + DELIVERY_HEARD_MS;
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(w->q);
    w->then(w->q, result, known);
}

/* If the owner has taken the task back, it is cancelled, paused or edited as soon as the store answers: waits for
 * that. */
static void recall_on_timeout(struct timer *timer)
{
    struct recall_wait *w = container_of(timer, struct recall_wait, timer);
    int open = RECALL_OPEN;
    assert_owned(timers_thread(w->timers));
    bool taken = !atomic_compare_exchange_strong(&w->answer.state, &open, RECALL_GIVEN_UP);
    if (taken && !w->stalls && !atomic_load(&w->answered)) {
        w->stalls = true;
        timers_add(w->timers, &w->timer, w->stall_ms);
        return;
    }
    recall_answer_once(w, taken ? RECALL_DONE : RECALL_RUNNING, w->replace.state, false, false);
    recall_unref(w, 1);
}

static void recall_on_answer(struct recall_answer *answer)
{
    struct recall_wait *w = container_of(answer, struct recall_wait, answer);
    bool known = answer->known || answer->result != RECALL_RUNNING;
    recall_answer_once(w, answer->result, answer->became, known, answer->told);
    recall_unref(w, timers_cancel(w->timers, &w->timer) ? 2 : 1); /* also for the timer, if it will not fire any more */
}

static bool recall_copy_audit(struct recall_wait *w)
{
    struct str *const texts[] = { &w->audit.actor,      &w->audit.address,     &w->audit.object,
                                  &w->audit.actor_name, &w->audit.object_name, &w->audit.details };
    for (size_t i = 0; i < array_count(texts); i++)
        if (!arena_str(&w->arena, *texts[i], texts[i]))
            return false;
    return true;
}

static bool recall_copy_order(struct recall_wait *w, const struct recall_order *order)
{
    w->order = (struct recall_order){ .running = &w->running,
                                      .replace = &w->replace,
                                      .abort = order->abort,
                                      .lasts = order->lasts,
                                      .tells = order->tells };
    if (order->record) {
        w->record = *order->record;
        w->order.record = &w->record;
    }
    if (order->audit) {
        w->audit = *order->audit;
        w->order.audit = &w->audit;
    }
    return recall_copy_audit(w) && task_copy(&w->arena, order->running, &w->running) &&
           task_copy(&w->arena, order->replace, &w->replace) &&
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
    w->stall_ms = q->server->limits.recall_stall_ms;
    w->users = 2;
    arena_init(&w->arena, ROWS_MAX);
    if (!recall_copy_order(w, order)) {
        w->users = 1;
        recall_unref(w, 1);
        return false;
    }
    w->answer.became = w->replace.state;
    timers_add(w->timers, &w->timer, wait_ms);
    setup->recall(setup->context, &w->order, &w->answer);
    return true;
}

static void recall_group_unref(struct recall_group *g)
{
    if (atomic_fetch_sub(&g->users, 1) == 1)
        free(g);
}

void recall_group_leave(struct recall_group *g)
{
    if (!g)
        return;
    atomic_store(&g->over, true);
    recall_group_unref(g);
}

void recall_group_begin(struct request *q, size_t max)
{
    recall_group_leave(q->recalls);
    struct recall_group *g = xcalloc(1, sizeof *g + max * sizeof g->sure[0]);
    g->clock = q->server->setup.clock;
    g->max = max;
    atomic_init(&g->users, 1);
    q->recalls = g;
}

static void recall_group_note_told(struct recall_group *g)
{
    int64_t sure_ms = clock_steady_ms(g->clock) + DELIVERY_HEARD_MS, before_ms = atomic_load(&g->sure_ms);
    while (before_ms < sure_ms && !atomic_compare_exchange_weak(&g->sure_ms, &before_ms, sure_ms))
        continue;
}

static void recall_group_on_answer(struct recall_group *g, size_t at, const struct recall_answer *answer)
{
    bool runs = answer->result == RECALL_RUNNING;
    if (runs && answer->told)
        recall_group_note_told(g);
    if (at < g->max && !answer->unsure && (!runs || answer->known))
        atomic_store(&g->sure[at], true);
    atomic_fetch_sub(&g->open, 1);
    recall_group_unref(g);
}

bool recall_is_sure(const struct request *q, size_t at)
{
    assert(at < min_of(q->recalls->n, q->recalls->max));
    return atomic_load(&q->recalls->sure[at]);
}

bool recall_is_answered(const struct request *q)
{
    return atomic_load(&q->recalls->open) == 0;
}

int64_t recall_sure_in_ms(const struct request *q)
{
    return max_of(atomic_load(&q->recalls->sure_ms) - clock_steady_ms(q->recalls->clock), (int64_t)0);
}

static void recall_on_told(struct recall_answer *answer)
{
    struct recall_wait *w = container_of(answer, struct recall_wait, answer);
    if (w->group)
        recall_group_on_answer(w->group, w->at, answer);
    recall_unref(w, 1);
}

void recall_tell(struct request *q, const struct recall_order *order)
{
    const struct api_setup *setup = &q->server->setup;
    if (!setup->recall)
        return;
    struct recall_wait *w = xnew(*w);
    w->answer.done = recall_on_told;
    if (order->lasts) /* nobody waits: the task is returned, and becomes what its recurring task says by then */
        w->answer.state = RECALL_GIVEN_UP;
    w->users = 1;
    w->answer.result = RECALL_RUNNING;
    w->group = order->tells ? q->recalls : NULL;
    if (w->group) {
        w->at = w->group->n++;
        w->answer.over = &w->group->over;
        atomic_fetch_add(&w->group->open, 1);
        atomic_fetch_add(&w->group->users, 1);
    }
    arena_init(&w->arena, ROWS_MAX);
    if (recall_copy_order(w, order))
        setup->recall(setup->context, &w->order, &w->answer);
    else
        recall_on_told(&w->answer);
}

int64_t recall_wait_ms(const struct request *q, const struct task *claimed)
{
    const struct api_limits *l = &q->server->limits;
    int64_t ahead_ms = claimed->due_ms - clock_wall_ms(q->server->setup.clock);
    bool fired = ahead_ms <= 0 || claimed->target == TARGET_WORKER;
    return l->recall_ms + (fired ? 0 : min_of(ahead_ms, l->recall_stall_ms));
}

void task_undo_delay(struct task *t, const struct task *claimed)
{
    bool same = uuid_eq(t->id, claimed->id) && t->fence == claimed->fence && t->version == claimed->version &&
                t->attempts == claimed->attempts && t->losses == claimed->losses;
    if (!same || t->state != TASK_SCHEDULED || claimed->state != TASK_RUNNING || t->due_ms <= claimed->due_ms)
        return;
    t->due_ms = claimed->due_ms;
    t->awaited_ms = claimed->awaited_ms;
    t->late_by = claimed->late_by;
}
