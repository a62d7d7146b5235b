/* Due tasks go to the queue in batches. While a batch is on its way, its tasks are neither on the wheel nor
 * ready: whoever wants to recall one asks the queue, which got the task before the question. The claim's memory stays
 * until the queue has answered.
 *
 * A push that failed is repeated. If the queue may have a task all the same (`unsure`):
 *  - If the queue can tell which tasks it has, it is asked first. A task that it does not know may have run
 *    meanwhile and would run again under the same fence. So its claim ends: the task is returned, and the fence
 *    rises; or it is lost, if it must not run twice.
 *  - If the queue cannot tell, the claim ends in the same way.
 *  - If a fleet's queue stays down, due tasks run in this process.
 *
 * A claim is handed over whole or not at all, because only its owner looks for tasks of it that the queue forgets. So
 * the tasks of one claim never go to both queues: when the shared queue goes down or comes back, the rest of a claim
 * is returned and claimed anew. A queue that cannot tell which tasks it has is judged by epochs, one for each claim:
 * when another epoch begins, the rest of a claim is returned as well. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "node/scheduler/internal.h"
#include "port/planner.h"

enum {
    PUSH_BATCH = 256,
    PUSH_RETRY_MS = 1000,
    FLEET_RETRY_MS = 200,
    FALLBACK_AFTER_MS = 1000,
    END_RETRY_MS = 200,
    FIRE_BATCH = 500, /* tasks that are fired together */
    FIRE_MAX = 2000,  /* if places are short: tasks that are put in order and fired together */
};

struct pushing {
    struct io_push io_request;
    struct io_known known; /* instead of a push: which of the tasks the queue has */
    struct scheduler *scheduler;
    struct list link; /* in scheduler.pushing, while it is on its way */
    int64_t begun_ms; /* steady */
    bool own;         /* to the queue of this process */
    bool asks;        /* the queue is asked about the tasks */
    bool disowned;    /* the tasks belong to another node */
    size_t n;
    struct armed *armed[PUSH_BATCH];
    struct task tasks[PUSH_BATCH];
    struct fenced_id ids[PUSH_BATCH];
    bool answer[PUSH_BATCH];
};

/* ---- leaving the wheel ---- */

static void push_not_counted(struct armed *a)
{
    a->claim->pushing -= a->pushing;
    a->pushing = false;
}

/* With its last task the claim is handed over: the queue owns its tasks from then on, whatever happens here. A task
 * that is not in the queue and that the store has under this claim would not be looked for again if this node died. */
static void push_hand_over(struct scheduler *s, const struct claim *c)
{
    if (!c->armed_count && !c->ending && c->pushed)
        s->setup.handed(s->setup.context, c->id, c->epoch);
}

static void push_leave_claim(struct scheduler *s, struct armed *a)
{
    struct claim *c = a->claim;
    push_not_counted(a);
    scheduler_drop_planned(s, a);
    assert(c->armed_count > 0 && !(c->pushed && c->kept));
    c->armed_count--;
    push_hand_over(s, c);
    claim_unref(c);
}

void scheduler_off_list(struct scheduler *s, struct armed *a)
{
    list_remove(&a->link);
    s->armed_count--;
}

void scheduler_disarm(struct scheduler *s, struct armed *a)
{
    struct held *h = a->held;
    h->armed = NULL;
    scheduler_off_list(s, a);
    if (s->setup.fleet && !h->left_claim) {
        h->left_claim = a->claim;
        h->left_claim->references++;
        h->left_claim->ending++;
    }
    push_leave_claim(s, a);
}

void scheduler_end_stored(struct scheduler *s, struct held *h)
{
    struct claim *c = take(h->left_claim);
    if (!c)
        return;
    c->ending--;
    push_hand_over(s, c);
    claim_unref(c);
}

/* The push's answer was lost, the task was in the queue all the same, and has run. */
void scheduler_settled_unpushed(struct scheduler *s, struct held *h)
{
    struct armed *a = h->armed;
    if (!a)
        return;
    if (h->where == HELD_PUSHING) {
        a->held = NULL;
        return;
    }
    scheduler_off_wheel(s, a);
    scheduler_leave_armed(s, a);
    scheduler_disarm(s, a);
}

static struct outcome push_outcome(const struct armed *a, enum outcome_kind kind)
{
    struct outcome o = { .kind = kind, .retry_after_ms = -1 };
    if (kind == OUTCOME_RETURNED)
        o.late_by = a->late_by;
    if (kind == OUTCOME_EXPIRED)
        o.error = S("expired: it did not start within expires_after_seconds of its due time");
    if (kind == OUTCOME_CANCELLED)
        o.error = str_from(a->held->replaced);
    return o;
}

void scheduler_end_as(struct scheduler *s, struct armed *a, const struct outcome *o)
{
    if (!s->setup.end(s->setup.context, a->task, o)) {
        wheel_add(&s->wheel, &a->entry, s->now.wall_ms + END_RETRY_MS);
        return;
    }
    scheduler_leave_armed(s, a);
    scheduler_disarm(s, a);
}

void scheduler_end(struct scheduler *s, struct armed *a, enum outcome_kind kind)
{
    struct outcome o = push_outcome(a, kind);
    scheduler_end_as(s, a, &o);
}

/* The workers of a fleet do not know of each other's breakers: a task whose host's breaker is open is put aside before
 * one gets it. A task that waited in a lane of that host is the trial. */
static bool push_is_held(struct scheduler *s, struct armed *a)
{
    char host[TARGET_HOST_MAX], text[TARGET_HOST_MAX + 64];
    if (!s->setup.fleet || a->unsure || !lanes_breakers_open(s->lanes))
        return false;
    struct str at = target_host(a->task, host);
    if (!at.n || str_eq(a->task->aside, at) ||
        !lanes_breaker_holds(s->lanes, a->task->tenant, at, s->now.wall_ms, &a->trial_of))
        return false;
    struct outcome o = push_outcome(a, OUTCOME_HELD);
    int n = snprintf(text, sizeof text, "held: the circuit breaker of " STR_FMT " is open", STR_ARG(at));
    o.error = (struct str){ text, (size_t)n };
    o.aside = at;
    o.late_by = LATE_BREAKER;
    metric_add(s->setup.metrics, METRIC_TASKS_HELD, 1);
    scheduler_end_as(s, a, &o);
    return true;
}

/* The queue may have the task: it is not known whether it has run, or will. */
static enum outcome_kind push_unsure_outcome(const struct armed *a)
{
    return a->task->delivery == DELIVER_AT_MOST_ONCE ? OUTCOME_LOST : OUTCOME_RETURNED;
}

/* ---- results of a push ---- */

void scheduler_rearm(struct scheduler *s, struct armed *a, int64_t in_ms)
{
    a->held->where = HELD_ARMED;
    list_push(&s->armed, &a->link);
    s->armed_count++;
    if (a->held->fired)
        lanes_not_fired(s->lanes, a->held->lane, s->now.wall_ms);
    a->held->fired = false;
    wheel_add(&s->wheel, &a->entry, s->now.wall_ms + in_ms);
}

static void push_is_there(struct scheduler *s, struct armed *a, bool own, uint64_t epoch)
{
    struct held *h = a->held;
    h->armed = NULL;
    h->where = own || !s->setup.fleet ? HELD_OWN : HELD_QUEUED;
    a->claim->kept = a->claim->kept || own;
    if (h->where == HELD_QUEUED) {
        h->asked_ms = s->now.steady_ms;
        h->epoch = epoch;
        list_push(&s->queued, &h->link);
        lanes_on_queued(s->lanes, h->lane, true);
        a->claim->epoch = a->claim->pushed ? a->claim->epoch : epoch;
        a->claim->pushed = true;
    }
    push_leave_claim(s, a);
}

static void push_failed(struct scheduler *s, struct armed *a, bool unsure)
{
    a->unsure = a->unsure || unsure;
    a->ends = unsure && !s->setup.async_io->push_again;
    if (!a->unsure)
        push_not_counted(a);
    scheduler_rearm(s, a, a->ends ? 0 : s->setup.fleet ? FLEET_RETRY_MS : PUSH_RETRY_MS);
}

static void push_was_asked(struct scheduler *s, struct armed *a, bool known)
{
    if (known) {
        push_is_there(s, a, false, 0);
        return;
    }
    a->ends = true;
    scheduler_rearm(s, a, 0);
}

/* The queue is in another epoch than the push was for, and has taken nothing. */
static bool push_is_refused(const struct pushing *p, const struct io_request *e)
{
    return e->rc == ERR_CONFLICT && !p->asks && !p->io_request.ret.unsure;
}

static void push_refused(struct scheduler *s, struct armed *a)
{
    push_not_counted(a);
    scheduler_rearm(s, a, 0);
}

static void push_note_queue_state(struct scheduler *s, const struct pushing *p, const struct io_request *e)
{
    bool was_down = s->is_down;
    s->epoch = p->io_request.ret.epoch ? p->io_request.ret.epoch : s->epoch;
    if (e->rc && !push_is_refused(p, e)) {
        if (!was_down)
            log_warn("push_failed", kv_err(&e->error), kv_i64("tasks", (int64_t)p->n));
        s->down_ms = was_down ? s->down_ms : p->begun_ms;
        s->is_down = true;
        return;
    }
    if (was_down)
        log_info("queue_back", kv_i64("down_ms", s->now.steady_ms - s->down_ms));
    s->is_down = false;
}

static void push_recycle(struct scheduler *s, struct pushing *p)
{
    if (s->free_push)
        free(p);
    else
        s->free_push = p;
}

static void push_on_answer(struct pushing *p, const struct io_request *e)
{
    struct scheduler *s = p->scheduler;
    list_remove(&p->link);
    if (!p->own)
        push_note_queue_state(s, p, e);
    for (size_t i = 0; i < p->n; i++) {
        if (p->disowned)
            claim_unref(p->armed[i]->claim);
        else if (!p->armed[i]->held)
            push_leave_claim(s, p->armed[i]);
        else if (push_is_refused(p, e))
            push_refused(s, p->armed[i]);
        else if (e->rc)
            push_failed(s, p->armed[i], p->asks || p->io_request.ret.unsure);
        else if (p->asks)
            push_was_asked(s, p->armed[i], p->answer[i]);
        else
            push_is_there(s, p->armed[i], p->own, p->io_request.ret.epoch);
    }
    push_recycle(s, p);
}

static void push_on_pushed(struct io_request *e)
{
    push_on_answer(container_of(e, struct pushing, io_request.io_request), e);
}

static void push_on_known(struct io_request *e)
{
    push_on_answer(container_of(e, struct pushing, known.io_request), e);
}

void scheduler_forget_pushes(struct scheduler *s)
{
    list_each (&s->pushing, link)
        container_of(link, struct pushing, link)->disowned = true;
}

/* ---- firing ---- */

/* A task that was put aside waited for its host. Of others, of the gates that were closed after the due time, one after
 * the other, the one that was closed for longest is the cause. */
static enum late_cause scheduler_late_cause(const struct scheduler *s, const struct armed *a)
{
    const struct task *t = a->task;
    if (s->now.wall_ms - t->due_ms < LATE_MS || (t->aside.n && t->late_by))
        return t->late_by;
    enum late_cause by = lanes_late_cause(s->lanes, a->held->lane, t->due_ms, a->late_by);
    if (by || t->late_by)
        return by ? by : t->late_by;
    return t->due_ms <= s->resumed_ms ? LATE_DOWN : LATE_NONE;
}

bool scheduler_falls_back(const struct scheduler *s)
{
    return s->setup.own && s->is_down && s->now.steady_ms - s->down_ms >= FALLBACK_AFTER_MS;
}

bool scheduler_runs_here(const struct scheduler *s)
{
    return scheduler_falls_back(s) && !s->probe;
}

/* Whether the task runs in this process. */
static bool push_goes_own(const struct scheduler *s, const struct armed *a)
{
    return scheduler_runs_here(s) && !a->unsure && queue_lets_through(s->setup.own_filter, a->task, S(""));
}

/* The shared queue is down, and the worker of this process does not serve the task. */
static bool push_has_to_wait(const struct scheduler *s, const struct armed *a)
{
    return scheduler_runs_here(s) && !a->unsure && !push_goes_own(s, a);
}

/* The queue may have lost the pushed tasks of this claim, and could not be asked about the others separately. */
static bool push_is_cut_off(const struct scheduler *s, const struct claim *c)
{
    return c->pushed && c->epoch != s->epoch && !s->setup.async_io->push_again;
}

/* Pushing it would split the claim between two queues, or between two epochs. */
static bool push_splits_claim(const struct scheduler *s, const struct armed *a)
{
    const struct claim *c = a->claim;
    return push_goes_own(s, a) ? c->pushed || c->pushing : c->kept || push_is_cut_off(s, c);
}

/* The task may be in a queue that is down. It does not wait for that queue: it runs here, under another fence. */
static bool push_starts_anew(const struct scheduler *s, const struct armed *a)
{
    return a->unsure && scheduler_runs_here(s);
}

static void push_wait_for_rate(struct scheduler *s, struct armed *a, int64_t when_ms)
{
    a->late_by = LATE_LIMIT;
    wheel_add(&s->wheel, &a->entry, when_ms);
}

/* The task is due and off the wheel. Whether it is to be pushed now. */
static bool push_is_to_go(struct scheduler *s, struct armed *a)
{
    int64_t when_ms;
    if (a->ends || push_starts_anew(s, a))
        scheduler_end(s, a, push_unsure_outcome(a));
    else if (a->held->replaced)
        scheduler_end(s, a, OUTCOME_CANCELLED);
    else if (a->held->taken_back || (a->held->wanted_back && !a->unsure))
        scheduler_end(s, a, a->unsure ? push_unsure_outcome(a) : OUTCOME_RETURNED);
    else if (!task_is_control(a->task) && is_expired(task_expires_ms(a->task), s->now.wall_ms))
        scheduler_end(s, a, a->unsure ? OUTCOME_LOST : OUTCOME_EXPIRED);
    else if (push_is_held(s, a))
        ; /* it was put aside */
    else if (push_has_to_wait(s, a))
        wheel_add(&s->wheel, &a->entry, s->now.wall_ms + FLEET_RETRY_MS);
    else if (push_splits_claim(s, a))
        scheduler_end(s, a, OUTCOME_RETURNED);
    else if (task_needs_plan(a->task) && !a->call)
        scheduler_plan(s, a);
    else if (!a->held->placed && !scheduler_take_place(s, a))
        return false; /* it is ready */
    else if (!lanes_may_fire(s->lanes, a->held->lane, s->now.wall_ms, &when_ms))
        push_wait_for_rate(s, a, when_ms);
    else
        return a->held->fired = true;
    return false;
}

/* If a claim must stay in one epoch, the first push tells which epoch it is: the others wait for its answer. */
static bool push_learns_epoch(const struct scheduler *s)
{
    return s->setup.fleet && !s->epoch && !s->setup.async_io->push_again && !list_empty(&s->pushing);
}

/* One batch is on its way and another waits for it: tasks that become due meanwhile go together after the first. */
static bool push_line_is_long(const struct scheduler *s)
{
    return push_learns_epoch(s) || (!list_empty(&s->pushing) && s->pushing.next != s->pushing.prev);
}

bool scheduler_may_fire(const struct scheduler *s)
{
    return !push_line_is_long(s) && (!s->setup.may_fire || s->setup.may_fire(s->setup.context));
}

bool scheduler_has_due(const struct scheduler *s)
{
    return wheel_next(&s->wheel) <= s->now.wall_ms && scheduler_may_fire(s);
}

static struct pushing *push_new(struct scheduler *s, bool own, bool asks)
{
    struct pushing *p = s->free_push ? take(s->free_push) : xmalloc(sizeof *p);
    p->scheduler = s;
    p->own = own;
    p->asks = asks;
    p->disowned = false;
    p->n = 0;
    return p;
}

static void push_submit(struct scheduler *s, struct pushing *p)
{
    if (s->setup.before_fire && !p->asks)
        s->setup.before_fire(s->setup.context, s->now.wall_ms);
    failpoint("before_fire");
    p->begun_ms = s->now.steady_ms;
    p->io_request = (struct io_push){ .io_request = { .kind = IO_PUSH, .done = push_on_pushed },
                                      .tasks = p->tasks,
                                      .n = p->n,
                                      .epoch = p->own || s->setup.async_io->push_again ? 0 : s->epoch };
    p->known = (struct io_known){
        .io_request = { .kind = IO_KNOWN, .done = push_on_known }, .v = p->ids, .n = p->n, .ret = p->answer
    };
    if (!p->own)
        s->probe = false;
    list_push(&s->pushing, &p->link);
    async_io_submit(p->own ? s->setup.own : s->setup.async_io,
                    p->asks ? &p->known.io_request : &p->io_request.io_request);
}

static void push_add(struct scheduler *s, struct pushing **at, struct armed *a, bool own)
{
    if (!*at)
        *at = push_new(s, own, a->unsure);
    struct pushing *p = *at;
    scheduler_off_list(s, a);
    a->held->where = HELD_PUSHING;
    if (!own && !a->pushing) {
        a->pushing = true;
        a->claim->pushing++;
    }
    p->tasks[p->n] = *a->task;
    p->tasks[p->n].late_by = scheduler_late_cause(s, a);
    if (a->trial_of.n)
        p->tasks[p->n].aside = a->trial_of; /* so that its worker tells the result */
    p->ids[p->n] = (struct fenced_id){ a->task->id, a->task->fence };
    p->armed[p->n++] = a;
    if (p->n == PUSH_BATCH)
        push_submit(s, take(*at));
}

/* Batches that are not full yet. */
struct pushes {
    struct pushing *there, *here, *asked;
};

struct due_task {
    int64_t order_ms;
    size_t n; /* those of one order stay as they were */
    struct armed *armed;
};

static int push_compare_due(const void *a, const void *b)
{
    const struct due_task *x = a, *y = b;
    if (x->order_ms != y->order_ms)
        return x->order_ms < y->order_ms ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

/* The next tasks that are due. If there may be more of them than free places, the most urgent ones come first: a task
 * that was claimed ahead later may be one of these. */
static size_t push_take_due(struct scheduler *s, struct due_task v[FIRE_MAX])
{
    struct wheel_entry *e;
    bool short_of_places = s->armed_count > lanes_room(s->lanes);
    size_t n = 0, max = short_of_places ? FIRE_MAX : FIRE_BATCH;
    while (n < max && (e = wheel_expire(&s->wheel, s->now.wall_ms))) {
        v[n] = (struct due_task){ .n = n, .armed = container_of(e, struct armed, entry) };
        n++;
    }
    if (!short_of_places)
        return n;
    for (size_t i = 0; i < n; i++) {
        const struct task *t = v[i].armed->task;
        v[i].order_ms = lane_order_ms(&(struct lane){ .priority = t->priority }, t->due_ms);
    }
    qsort(v, n, sizeof *v, push_compare_due);
    return n;
}

static void push_all(struct scheduler *s, const struct due_task *v, size_t n, struct pushes *p)
{
    for (size_t i = 0; i < n; i++) {
        struct armed *a = v[i].armed;
        if (push_learns_epoch(s)) {
            wheel_add(&s->wheel, &a->entry, s->now.wall_ms);
            continue;
        }
        bool own = push_goes_own(s, a);
        if (push_is_to_go(s, a))
            push_add(s, own ? &p->here : a->unsure ? &p->asked : &p->there, a, own);
    }
}

/* Nothing fires before its time: the wheel gives out only tasks that are due at now. Nothing fires that may belong to
 * another node: it waits on the wheel until that is known. One batch is fired for the worker of this process, which
 * starts it before the next; the workers of a fleet get all that is due. */
void scheduler_fire(struct scheduler *s)
{
    if (!scheduler_has_due(s))
        return;
    struct pushes p = { 0 };
    struct due_task *due = xmalloc(FIRE_MAX * sizeof *due);
    size_t n;
    do {
        n = push_take_due(s, due);
        push_all(s, due, n, &p);
    } while (n && s->setup.fleet && !push_learns_epoch(s));
    free(due);
    if (p.asked)
        push_submit(s, p.asked);
    if (p.there)
        push_submit(s, p.there);
    if (p.here)
        push_submit(s, p.here);
}
