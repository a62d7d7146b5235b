/* Gates with a line: the rate of the queue, the limits of queue and tenant, the places of the pool.
 *
 * When a running task ends cannot be known. So a limit is known to let the task start only if there is a place for it
 * beside all that run now and all that may start before it: explain_crowd. */
#include <stdio.h>

#include "node/explain_internal.h"

enum { RATE_SLACK_MS = 50, RAMP_SURE = 50 /* how many tasks start in the first second after a pause */ };

int64_t explain_crowd(const struct explain_walk *w)
{
    const struct explain_facts *f = w->facts;
    int64_t all = w->at_ms <= max_of(w->task->due_ms, w->now_ms) ? f->all_before : f->all_near;
    int64_t ahead = (int64_t)scheduler_status(w->view->scheduler).ahead - (w->claimed && !w->placed);
    if (all >= EXPLAIN_COUNT_MAX - 1 || f->all_overdue >= EXPLAIN_COUNT_MAX - 1)
        return INT32_MAX;
    int64_t coming = max_of(all - f->all_overdue, (int64_t)0);
    return coming + ahead + (lanes_may_open_by(w->lanes, w->at_ms) ? f->all_overdue : 0);
}

/* How many tasks may run on all nodes when its turn comes: a limit that all nodes share has room if this is less. */
static int64_t explain_everywhere(const struct explain_walk *w)
{
    const struct explain_facts *f = w->facts;
    int64_t coming = w->at_ms <= max_of(w->task->due_ms, w->now_ms) ? f->all_before : f->all_near;
    return max_of(coming, f->all_running) >= EXPLAIN_COUNT_MAX - 1 ? INT32_MAX : coming + f->all_running;
}

int64_t explain_about_to_fire(const struct explain_walk *w)
{
    size_t fired = worker_running(w->view->worker) + worker_parked(w->view->worker);
    return max_of((int64_t)scheduler_status(w->view->scheduler).placed - (int64_t)fired - w->placed, (int64_t)0);
}

/* ---- the rate ---- */

/* If the queue is paused, all that are due before it wait until the pause ends. */
static struct lanes_rate_question explain_rate_question(const struct explain_walk *w)
{
    const struct explain_facts *f = w->facts;
    const struct lane_facts *l = &w->lane_facts;
    bool held_up = w->at_ms > max_of(w->task->due_ms, w->now_ms);
    struct lanes_rate_question q = { .from_ms = held_up ? w->at_ms : max_of(w->now_ms, w->resumes_ms),
                                     .at_ms = w->at_ms };
    q.maybe = (int64_t)(l->queue_armed - w->placed) + (int64_t)l->queue_ahead - (w->claimed && !w->placed);
    if (w->placed)
        return q;
    q.overdue = held_up || explain_is_due(w) ? f->queue_ahead : f->queue_overdue;
    q.coming = f->queue_ahead - q.overdue;
    q.mortal = f->queue_mortal;
    q.maybe += lanes_queue_has_others(w->of_queue, w->at_ms) ? f->queue_twins : 0;
    if (explain_is_due(w)) { /* they were claimed before it */
        q.overdue += (int64_t)l->queue_armed;
        q.maybe -= (int64_t)l->queue_armed;
    }
    return q;
}

void explain_look_rate(struct explain_walk *w)
{
    if (!w->of_queue || !w->near || w->at_ms - w->now_ms > EXPLAIN_NEAR_MS)
        return;
    struct lanes_rate_question q = explain_rate_question(w);
    struct lanes_rate_forecast f = lanes_forecast_rate(w->lanes, w->of_queue, &q, w->now_ms);
    bool overtaken = !w->placed && f.rate > 0 && lanes_queue_has_others(w->of_queue, f.latest_ms);
    if (overtaken ||
        worker_parked(w->view->worker)) { /* a parked task may be put aside, and takes another token then */
        q.maybe += explain_crowd(w) + (worker_parked(w->view->worker) ? EXPLAIN_COUNT_MAX : 0);
        f = lanes_forecast_rate(w->lanes, w->of_queue, &q, w->now_ms);
    }
    struct str queue = explain_cut(w->task->queue);
    int64_t ahead = q.overdue + q.coming;
    if (f.rate <= 0 || f.latest_ms <= w->at_ms + RATE_SLACK_MS)
        return;
    if (explain_is_due(w) && !w->claimed && !overtaken)
        w->ret->position = ahead;
    char text[EXPLAIN_TEXT / 2];
    const char *says = !explain_is_due(w) ? "has a rate of" : "has used up its rate for now,";
    snprintf(text, sizeof text, "%sits queue " STR_FMT " %s %g task%s a second; %lld %s",
             w->claimed && explain_is_due(w) ? "it is claimed, and " : "", STR_ARG(queue), says, f.rate,
             f.rate == 1 ? "" : "s", (long long)ahead, overtaken ? "are due before it" : "are ahead of it");
    bool exact = f.latest_ms - f.earliest_ms <= EXPLAIN_EXACT_MS && ahead < EXPLAIN_COUNT_MAX - 1 &&
                 (w->at_ms == max_of(w->task->due_ms, w->now_ms) || ahead < RAMP_SURE);
    if (exact && !overtaken && !f.shared) {
        explain_gate_until(w, EXPLAIN_QUEUE_RATE, f.latest_ms, "%s", text);
        return;
    }
    explain_gate_unknown(w, EXPLAIN_QUEUE_RATE,
                         f.shared    ? "the store keeps the rate, for all nodes together"
                         : overtaken ? "tasks of its queue with other priorities or needs may go first"
                                     : "how many will be ahead of it then is not certain",
                         "%s", text);
}

/* ---- limits of running tasks ---- */

static const char *const explain_any_time = "the tasks that run may take any time";

static void explain_queue_limit(struct explain_walk *w)
{
    const struct lane_facts *f = &w->lane_facts;
    struct str queue = explain_cut(w->task->queue);
    int64_t used = (int64_t)(f->queue_held + f->queue_leased), own = w->claimed && !w->placed;
    int64_t before = w->facts->queue_ahead + w->facts->queue_soon + (int64_t)f->queue_ahead - own;
    if (f->queue_limit && lanes_queue_has_others(w->of_queue, w->at_ms))
        before = max_of(before, explain_crowd(w));
    int64_t all = f->shared ? explain_everywhere(w) : used + before;
    if (!f->queue_limit || all < f->queue_limit)
        return;
    if (explain_is_due(w))
        w->ret->position = w->facts->queue_ahead;
    if (explain_is_due(w) && f->queue_elsewhere)
        explain_gate_unknown(w, EXPLAIN_QUEUE_CONCURRENCY, explain_any_time,
                             "%zu of its queue " STR_FMT " run here, %lld of %lld places are with other nodes",
                             f->queue_held, STR_ARG(queue), (long long)f->queue_elsewhere, (long long)f->queue_limit);
    else if (explain_is_due(w) && used >= f->queue_limit)
        explain_gate_unknown(w, EXPLAIN_QUEUE_CONCURRENCY, explain_any_time,
                             "%lld of its queue " STR_FMT " run, and no more than %lld may", (long long)used,
                             STR_ARG(queue), (long long)f->queue_limit);
    else if (f->shared)
        explain_gate_unknown(w, EXPLAIN_QUEUE_CONCURRENCY, "other nodes may have the places",
                             "no more than %lld of its queue " STR_FMT
                             " run at once on all nodes together; %lld run here",
                             (long long)f->queue_limit, STR_ARG(queue), (long long)used);
    else if (!explain_is_due(w) || w->at_ms > w->now_ms)
        explain_gate_unknown(w, EXPLAIN_QUEUE_CONCURRENCY, "the tasks of its queue may take any time",
                             "%lld of its queue " STR_FMT
                             " run or come before it, and no more than %lld may run at once",
                             (long long)all, STR_ARG(queue), (long long)f->queue_limit);
}

/* Limits of the tenant that hold a due task now. */
static bool explain_tenant_holds(struct explain_walk *w)
{
    const struct lane_facts *f = &w->lane_facts;
    struct lane_hold h = { 0 };
    if (explain_is_due(w) && w->lane)
        h = lanes_hold_of(w->lanes, w->lane, w->now_ms);
    if (h.gate == LANE_TENANT_LIMIT && f->tenant_elsewhere)
        explain_gate_unknown(w, EXPLAIN_TENANT_LIMIT, explain_any_time,
                             "%zu tasks of its tenant run here, %lld of %lld places are with other nodes",
                             f->tenant_held, (long long)f->tenant_elsewhere, (long long)f->tenant_limit);
    else if (h.gate == LANE_TENANT_LIMIT)
        explain_gate_unknown(w, EXPLAIN_TENANT_LIMIT, explain_any_time,
                             "%zu tasks of its tenant run, and no more than %lld may",
                             f->tenant_held + f->tenant_leased, (long long)f->tenant_limit);
    else if (h.gate == LANE_TENANT_SHARE)
        explain_gate_unknown(
            w, EXPLAIN_TENANT_SHARE, explain_any_time,
            f->pool_workers
                ? "its tenant has %zu of the %zu places at workers that can run it, and %lld are the most for "
                  "one tenant among several"
                : "its tenant has %zu of this node's %zu slots, and %lld are the most for one tenant among "
                  "several",
            f->tenant_pool_held, f->pool_places, (long long)f->tenant_limit);
    else
        return false;
    w->ret->position = w->facts->queue_ahead;
    return true;
}

void explain_look_limits(struct explain_walk *w)
{
    const struct lane_facts *f = &w->lane_facts;
    if (w->placed || !w->of_queue || !w->near)
        return;
    explain_queue_limit(w);
    if (explain_tenant_holds(w) || !f->tenant_limit || (explain_is_due(w) && w->at_ms <= w->now_ms && !f->shared))
        return;
    int64_t used = f->shared ? explain_everywhere(w) : (int64_t)(f->tenant_held + f->tenant_leased) + explain_crowd(w);
    if (used >= f->tenant_limit)
        explain_gate_unknown(w, EXPLAIN_TENANT_LIMIT, "the tasks of its tenant may take any time",
                             "up to %lld tasks run or come before it, and its tenant may run no more than %lld at once",
                             (long long)used, (long long)f->tenant_limit);
}

/* A task that is held may be the only one of its queue. Then the node has no lane for it, and knows less. */
void explain_look_unseen(struct explain_walk *w)
{
    const struct task *t = w->task;
    struct queue_rules r = QUEUE_RULES_DEFAULT;
    int64_t room = (int64_t)scheduler_status(w->view->scheduler).room - w->facts->all_running, crowd = explain_crowd(w);
    if (w->of_queue || !w->holds || !task_lane(t).queue.n || !w->near || w->at_ms - w->now_ms > EXPLAIN_NEAR_MS)
        return;
    if (w->view->catalog)
        r = catalog_cache_queue(w->view->catalog, t->tenant, t->queue, NULL);
    if (r.concurrent && explain_everywhere(w) >= r.concurrent)
        explain_gate_unknown(w, EXPLAIN_QUEUE_CONCURRENCY, "the tasks of its queue may take any time",
                             "no more than %lld of its queue " STR_FMT " run at once", (long long)r.concurrent,
                             STR_ARG(explain_cut(t->queue)));
    if (crowd >= room && t->target != TARGET_WORKER)
        explain_gate_unknown(w, EXPLAIN_BACKLOG, "whether a slot is free then is not certain",
                             "%lld slots are free, and up to %lld tasks may take one before it",
                             (long long)max_of(room, (int64_t)0), (long long)crowd);
}

/* ---- places ---- */

static void explain_no_place(struct explain_walk *w)
{
    const struct lane_facts *f = &w->lane_facts;
    w->ret->position = w->facts->queue_ahead;
    if (f->pool_workers)
        explain_gate_unknown(
            w, EXPLAIN_NO_FREE_SLOT, explain_any_time,
            "the %zu worker%s that can run it ha%s %zu slots, and %zu tasks of this node run there or wait for "
            "a slot: no more may",
            f->pool_workers, f->pool_workers == 1 ? "" : "s", f->pool_workers == 1 ? "s" : "ve", f->pool_slots,
            f->pool_taken);
    else if (f->pool_taken >= f->pool_places)
        explain_gate_unknown(w, EXPLAIN_NO_FREE_SLOT, explain_any_time, "all %zu slots of this node are taken",
                             f->pool_places);
    else
        explain_gate_unknown(w, EXPLAIN_NO_FREE_SLOT, explain_any_time,
                             "%zu of this node's %zu slots are taken, and the others are kept for higher priorities",
                             f->pool_taken, f->pool_places);
}

void explain_look_places(struct explain_walk *w)
{
    const struct lane_facts *f = &w->lane_facts;
    const struct task *t = w->task;
    if (w->placed || !w->of_queue || !w->near || w->at_ms - w->now_ms > EXPLAIN_NEAR_MS || t->target == TARGET_WORKER)
        return;
    bool now = explain_is_due(w) && w->at_ms <= w->now_ms && !w->unknown;
    int64_t crowd = explain_crowd(w);
    if (f->pool_waits && now)
        explain_no_place(w);
    else if (crowd >= (int64_t)f->pool_room)
        explain_gate_unknown(w, EXPLAIN_BACKLOG, "whether a slot is free then is not certain",
                             "%zu slots are free for it, and up to %lld tasks may take one before it", f->pool_room,
                             (long long)crowd);
    else if (now && w->lane && !w->claimed && f->next_due_ms < t->due_ms)
        explain_gate_until(w, EXPLAIN_BACKLOG, w->now_ms,
                           "others of its tenant, queue and priority wait longer: the first is due since %s",
                           explain_when(f->next_due_ms).text);
}
