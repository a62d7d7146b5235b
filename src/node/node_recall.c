/* A recalled task is off the wheel and out of the queue, so nobody else settles it: its settlement is with the
 * writer, or waits to be sent again. */
#include "base/log.h"
#include "node/node_internal.h"

enum {
    RECALL_ARENA = 4096,
    RECALL_RETRY_MS = 200,
    RECALL_WINDOW = 16 /* recalls that last: more at once would delay what else the shared queue is asked */
};

/* ---- recalls that last ---- */

static void recall_finish(struct recall *first)
{
    if (first->lasts)
        (void)map_remove(&first->node->lasting_recalls, fenced_id_key(&first->key));
    for (struct recall *r = first->joined; r; r = r->joined) {
        r->result = first->result == RECALL_RUNNING ? RECALL_RUNNING : RECALL_FREED;
        r->known = first->known;
        r->told = first->told;
        r->unsure = first->unsure;
    }
    for (struct recall *r = first, *next; r; r = next) {
        next = r->joined;
        r->done(r);
    }
}

/* Of those that have joined the first one. */
static void recall_end_unawaited(struct recall *first)
{
    for (struct recall **at = &first->joined; *at;) {
        struct recall *r = *at;
        if (recall_is_awaited(r)) {
            at = &r->joined;
            continue;
        }
        *at = r->joined;
        r->result = RECALL_RUNNING;
        r->known = false;
        r->done(r);
    }
}

/* True: another one asks for the same claimed task. While the queue is down, users may try again and again. */
static bool recall_joins(struct node *n, struct recall *r)
{
    r->key = (struct fenced_id){ r->running->id, r->running->fence };
    struct recall *first = map_get(&n->lasting_recalls, fenced_id_key(&r->key));
    if (!first) {
        (void)map_put(&n->lasting_recalls, fenced_id_key(&r->key), r);
        return false;
    }
    recall_end_unawaited(first);
    r->joined = first->joined;
    first->joined = r;
    return true;
}

/* ---- settling ---- */

static void recall_submit(struct node *n, struct recall *r)
{
    n->recalls++;
    r->op.op.rc = ERR_OK;
    writer_submit(n->setup.writer, &r->op.op);
}

/* The idempotency key has a record: the first try was applied and its answer lost, or the same request was answered
 * in another way. Or the caller has stopped waiting. The task is off the wheel in any case, so it is returned as it
 * was. If it has become its replacement already, that is stale. */
static void recall_hand_back(struct node *n, struct recall *r)
{
    struct outcome o = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 };
    struct arena *a = &r->op.op.arena;
    struct settle_facts facts = settle_facts_of(r->running, &o, a);
    r->settlement.verdict = settle(&facts, &o, n->now.wall_ms, &n->random, a);
    r->settlement.replace = NULL;
    r->op.idempotency = NULL;
    r->op.op.audit = NULL;
    recall_submit(n, r);
}

static void recall_wait_to_retry(struct node *n, struct recall *r)
{
    log_warn("recall_failed", kv_uuid("task", r->running->id), kv_err(&r->op.op.error));
    r->tried = true;
    r->retry_at_ms = n->now.steady_ms + RECALL_RETRY_MS;
    list_push(&n->waiting_recalls, &r->link);
    node_on_lanes_unblocked(n, UINT64_MAX);
}

/* If the store could not take the settlement, it is sent again until it does. */
static void recall_on_settled(struct op *op)
{
    struct recall *r = container_of(op, struct recall, op.op);
    struct node *n = r->node;
    n->recalls--;
    if (op->rc == ERR_CONFLICT) {
        recall_hand_back(n, r);
        return;
    }
    if (op->rc) {
        recall_wait_to_retry(n, r);
        return;
    }
    node_fleet_settled(n, &r->settlement);
    node_fleet_on_batch_settled(n);
    scheduler_on_settled(n->scheduler, r->running->id, r->running->fence, NULL);
    worker_settled(n->worker, r->running->id, r->running->fence);
    node_on_lanes_unblocked(n, op_unblocked(r->op.ret_unblocked_lanes, r->op.ret_arrivals_left));
    /* Nobody else could settle the task: stale at a second try means that the first one was applied and its answer
     * lost. On a shared store another node may have marked this one dead in between; then only the row can tell. */
    bool applied = !r->settlement.stale || (r->tried && !n->setup.shared);
    r->known = !r->tried;
    r->result = !r->settlement.replace ? RECALL_ANSWERED : applied ? RECALL_DONE : RECALL_RUNNING;
    r->became = r->settlement.stale ? r->replace->state : r->settlement.ret_state;
    if (applied && r->replace->state == TASK_SCHEDULED) /* the caller may have stopped waiting */
        scheduler_nudge(n->scheduler, r->replace);
    if (r->result == RECALL_ANSWERED)
        scheduler_nudge(n->scheduler, r->running);
    arena_release(&op->arena);
    recall_finish(r);
}

static void recall_ask_queue(struct node *n, struct recall *r);
static void recall_submit_to_queue(struct node *n, struct recall *r);

int64_t node_retry_recalls(struct node *n)
{
    int64_t wake = INT64_MAX;
    while (n->recalls_asking < RECALL_WINDOW && !list_empty(&n->recalls_in_line))
        recall_submit_to_queue(n, container_of(list_pop(&n->recalls_in_line), struct recall, link));
    list_each (&n->waiting_recalls, link) {
        struct recall *r = container_of(link, struct recall, link);
        if (r->retry_at_ms <= n->now.steady_ms || (r->asks_again && n->draining)) {
            list_remove(link);
            if (r->asks_again)
                recall_ask_queue(n, r);
            else
                recall_submit(n, r);
        } else {
            wake = min_of(wake, moment_wall_at(n->now, r->retry_at_ms));
        }
    }
    return wake;
}

static void recall_settle(struct node *n, struct recall *r)
{
    r->tried = false;
    r->settlement = (struct settlement){ .id = r->running->id,
                                         .fence = r->running->fence,
                                         .parent = r->running->parent,
                                         .tenant = r->running->tenant,
                                         .replace = r->replace };
    r->op = (struct op_settle){
        .op = { .kind = OP_SETTLE, .done = recall_on_settled, .audit = r->audit },
        .v = &r->settlement,
        .n = 1,
        .now_ms = n->now.wall_ms,
        .idempotency = r->idempotency,
    };
    arena_init(&r->op.op.arena, RECALL_ARENA);
    if (recall_take(r))
        recall_submit(n, r);
    else
        recall_hand_back(n, r);
}

/* ---- another node holds it ---- */

/* It may have pushed the task after the queue was asked. */
static void recall_on_owner_decided(struct recall *r)
{
    if (r->result == RECALL_FREED || !r->decided)
        recall_finish(r);
    else
        recall_ask_queue(r->node, r);
}

static void recall_ask_owner(struct node *n, struct recall *r)
{
    r->answered = n->setup.fleet && r->lasts ? recall_on_owner_decided : recall_finish;
    recall_requests_ask(n->recall_requests, r);
}

static void recall_on_owner_told(struct recall *r)
{
    if (r->result == RECALL_FREED)
        recall_finish(r);
    else
        recall_ask_queue(r->node, r);
}

/* The queue may not answer for long: meanwhile the node that has the task on its way there would run it itself. So that
 * node is told before. */
static void recall_tell_owner(struct node *n, struct recall *r)
{
    r->answered = recall_on_owner_told;
    recall_requests_tell(n->recall_requests, r);
}

/* The task has fired, or another node holds it. In a fleet its worker hears of the abort through the queue. */
static void recall_report_fired(struct node *n, struct recall *r)
{
    struct uuid id = r->running->id;
    int64_t fence = r->running->fence;
    bool own = worker_runs(n->worker, id, fence);
    r->known = scheduler_holds(n->scheduler, id, fence) || r->decided;
    if (r->abort && !own)
        node_fleet_abort(n, id, fence);
    if (!r->known && n->setup.shared) {
        recall_ask_owner(n, r);
        return;
    }
    bool aborts = r->abort && (own ? worker_abort(n->worker, id, fence) : n->setup.fleet);
    r->result = aborts ? RECALL_ABORTING : RECALL_RUNNING;
    recall_finish(r);
}

/* ---- the queue that has it ---- */

static void recall_leave_window(struct node *n, struct recall *r)
{
    n->recalls_asking -= r->in_window;
    r->in_window = false;
}

/* It is asked for again, as the queue has not answered. */
static void recall_wait_to_ask(struct node *n, struct recall *r)
{
    recall_leave_window(n, r);
    r->asks_again = true;
    r->retry_at_ms = n->now.steady_ms + RECALL_RETRY_MS;
    list_push(&n->waiting_recalls, &r->link);
}

/* The queue has lost the task: it would be claimed anew (queue_loss.h), unless the store has a recall request for it
 * (OP_RETAKE 2). If another node holds the task, the store has one already. */
static bool recall_is_forgotten(const struct node *n, const struct recall *r)
{
    struct uuid id = r->running->id;
    int64_t fence = r->running->fence;
    if (r->wanted.ret != WANT_BACK_UNKNOWN || r->decided)
        return false;
    return scheduler_holds(n->scheduler, id, fence) ? scheduler_queued(n->scheduler, id, fence) != NULL
                                                    : !n->setup.shared;
}

/* RECALL_FREED: it may have been claimed anew before the request. */
static void recall_on_request_stored(struct recall *r)
{
    if (r->result == RECALL_FREED)
        recall_finish(r);
    else
        recall_report_fired(r->node, r);
}

static void recall_on_wanted_back(struct io_request *e)
{
    struct recall *r = container_of(e, struct recall, wanted.io_request);
    struct node *n = r->node;
    n->recalls--;
    if (e->rc && !n->draining) {
        recall_wait_to_ask(n, r);
        return;
    }
    recall_leave_window(n, r);
    r->told = true;
    r->unsure = e->rc || r->wanted.ret != WANT_BACK_TOLD;
    if (e->rc == ERR_OK && recall_is_forgotten(n, r)) {
        r->answered = recall_on_request_stored;
        recall_requests_ask(n->recall_requests, r);
        return;
    }
    recall_report_fired(n, r);
}

/* A worker may have it that has not started it yet: it stands still, or other tasks are first. */
static void recall_want_back(struct node *n, struct recall *r)
{
    n->recalls++;
    r->wanted =
        (struct io_want_back){ .io_request = { .kind = IO_WANT_BACK, .done = recall_on_wanted_back },
                               .task = r->running,
                               .epoch = scheduler_queue_epoch(n->scheduler, r->running->id, r->running->fence) };
    async_io_submit(n->setup.async_io, &r->wanted.io_request);
}

static void recall_on_queue_answer(struct io_request *e)
{
    struct recall *r = container_of(e, struct recall, asked.io_request);
    struct node *n = r->node;
    struct uuid id = r->running->id;
    int64_t fence = r->running->fence;
    n->recalls--;
    if ((e->rc == ERR_OK && r->asked.ret_recalled) || worker_recall(n->worker, id, fence) ||
        scheduler_unarm(n->scheduler, id, fence)) { /* the last: its push has failed meanwhile */
        recall_leave_window(n, r);
        recall_settle(n, r);
    } else if (e->rc && r->lasts && !n->draining) {
        recall_wait_to_ask(n, r);
    } else if (r->lasts && n->setup.fleet && !worker_runs(n->worker, id, fence)) {
        recall_want_back(n, r);
    } else {
        recall_leave_window(n, r);
        r->unsure = e->rc != ERR_OK;
        recall_report_fired(n, r);
    }
}

/* The queue that has the task, if one has. */
static struct async_io *recall_queue_of(const struct node *n, const struct task *t)
{
    bool own = scheduler_holds(n->scheduler, t->id, t->fence) && !scheduler_queued(n->scheduler, t->id, t->fence);
    return own ? n->setup.own : n->setup.async_io;
}

static void recall_submit_to_queue(struct node *n, struct recall *r)
{
    r->in_window = r->lasts;
    n->recalls_asking += r->in_window;
    n->recalls++;
    r->asked = (struct io_one){ .io_request = { .kind = IO_RECALL, .done = recall_on_queue_answer },
                                .id = { r->running->id, r->running->fence } };
    async_io_submit(recall_queue_of(n, r->running), &r->asked.io_request);
}

static void recall_ask_queue(struct node *n, struct recall *r)
{
    r->asks_again = false;
    if (scheduler_want_back(n->scheduler, r->running->id, r->running->fence)) {
        r->known = false;
        r->result = RECALL_RUNNING;
        recall_finish(r);
    } else if (r->lasts && n->recalls_asking >= RECALL_WINDOW) {
        list_push(&n->recalls_in_line, &r->link); /* node_retry_recalls */
    } else {
        recall_submit_to_queue(n, r);
    }
}

/* The external worker hears of the cancellation when it renews the lease, at the latest when the lease ends. */
static void recall_leased(struct node *n, struct recall *r)
{
    if (r->abort)
        recall_requests_replace(n->recall_requests, r->running->id, r->running->fence, 0);
    r->known = true;
    r->result = r->abort ? RECALL_ABORTING : RECALL_RUNNING;
    r->done(r);
}

void node_recall(struct node *n, struct recall *r)
{
    assert_owned(&n->owner);
    r->node = n;
    if (task_is_leased(r->running)) {
        recall_leased(n, r);
        return;
    }
    if (r->lasts && recall_joins(n, r))
        return;
    if (scheduler_unarm(n->scheduler, r->running->id, r->running->fence))
        recall_settle(n, r);
    else if (r->lasts && n->setup.fleet && n->setup.shared &&
             !scheduler_holds(n->scheduler, r->running->id, r->running->fence))
        recall_tell_owner(n, r);
    else
        recall_ask_queue(n, r);
}
