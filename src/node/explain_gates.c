/* Gates of the task itself: its time, pauses, the workers that there are, slots. */
#include <stdio.h>

#include "core/task/settle.h"
#include "node/explain_internal.h"

enum { RULES_ARENA = 1 << 16 };

/* ---- the task itself ---- */

void explain_look_holds(struct explain_walk *w)
{
    for (size_t i = 0; w->holds && i < w->holds->n; i++) {
        const struct explain_hold *h = &w->holds->v[i];
        w->is_paused = w->is_paused || h->gate == EXPLAIN_PAUSED;
        w->held_ms = max_of(w->held_ms, h->until_ms);
        w->is_open = w->is_open || h->why;
        if (h->until_ms)
            explain_gate_until(w, h->gate, h->until_ms, "%s", h->text);
        else
            explain_gate_unknown(w, h->gate, h->why, "%s", h->text);
        if (h->why)
            explain_unsure(w, h->why);
        if (h->gate == EXPLAIN_PAUSED && !h->until_ms)
            explain_needs_people(w);
    }
    w->near = w->near && !w->is_open;
}

void explain_look_time(struct explain_walk *w)
{
    const struct task *t = w->task;
    struct explain_when due = explain_when(t->due_ms);
    int64_t expires_ms = task_expires_ms(t);
    if (t->state == TASK_BLOCKED)
        return;
    if (!w->holds && t->due_ms <= w->now_ms && is_expired(expires_ms, w->now_ms)) {
        explain_add(w->ret, EXPLAIN_EXPIRED, expires_ms, "it expired at %s and will not run",
                    explain_when(expires_ms).text);
        explain_decided(w, EXPLAIN_WILL_EXPIRED, expires_ms);
        return;
    }
    if (t->due_ms <= max_of(w->now_ms, w->held_ms))
        return;
    if (w->claimed)
        explain_gate_until(w, EXPLAIN_ARMED, t->due_ms, "it is claimed, and fires at %s", due.text);
    else if (str_starts(t->last_error, S("held: "))) /* by another node or worker, or its breaker closed meanwhile */
        explain_gate_until(w, EXPLAIN_DUE_TIME, t->due_ms, "it is due again at %s; it was " STR_FMT, due.text,
                           STR_ARG(explain_cut(t->last_error)));
    else
        explain_gate_until(w, EXPLAIN_DUE_TIME, t->due_ms,
                           t->attempts ? "its next attempt is due at %s" : "it is due at %s", due.text);
}

void explain_look_recovery(struct explain_walk *w)
{
    const struct task *t = w->task;
    struct scheduler_status s = scheduler_status(w->view->scheduler);
    if (w->claimed || !explain_is_due(w) || t->target == TARGET_WORKER)
        return;
    if (w->view->recovering)
        explain_gate_unknown(
            w, EXPLAIN_RECOVERY, "the node must be ready first",
            "this node has just started: it first settles tasks that were running when it died, and catches up");
    else if (s.isolating && !task_is_suspect(t))
        explain_gate_unknown(
            w, EXPLAIN_RECOVERY, "a suspect must end first",
            "this node has restarted after a crash: for a few seconds it first runs the tasks that may "
            "have caused it, one at a time");
    else if (task_is_suspect(t) && s.suspects)
        explain_gate_unknown(
            w, EXPLAIN_SUSPECT, "the other one must end first",
            "the process that ran it died %d times: such tasks run one at a time, and another one is running",
            t->losses);
}

/* ---- the store and the queue ---- */

/* The error itself is in the log: it may name hosts and files. */
void explain_look_store(struct explain_walk *w)
{
    int64_t since_ms = scheduler_status(w->view->scheduler).failing_since_ms;
    if (!since_ms || w->claimed || !explain_is_due(w) || w->task->target == TARGET_WORKER)
        return;
    explain_gate_unknown(w, EXPLAIN_STORE, "the store must answer first",
                         "this node cannot claim it: the store cannot be reached, or cannot write, since %s",
                         explain_when(since_ms).text);
}

/* Soon the node runs due tasks itself, unless it is told to wait (queue.fallback). */
void explain_look_fleet_queue(struct explain_walk *w)
{
    struct scheduler_status s = scheduler_status(w->view->scheduler);
    if (!s.queue_down_since_ms || s.falls_back || !explain_is_due(w) || w->task->target == TARGET_WORKER)
        return;
    explain_gate_unknown(w, EXPLAIN_QUEUE_DOWN, "the queue must answer first",
                         "the queue of the fleet does not answer since %s, and no worker gets it before it does",
                         explain_when(s.queue_down_since_ms).text);
}

/* ---- pauses ---- */

static void explain_queue_pause(struct explain_walk *w, const struct queue_rules *r)
{
    const struct task *t = w->task;
    char text[EXPLAIN_TEXT / 2];
    snprintf(text, sizeof text, "its queue " STR_FMT " is paused since %s%s" STR_FMT "%s" STR_FMT,
             STR_ARG(explain_cut(t->queue)), explain_when(r->paused_ms).text, r->paused_by.n ? " by " : "",
             STR_ARG(str_utf8_cut(r->paused_by, EXPLAIN_SHOWN_MAX / 4)), r->paused_reason.n ? ": " : "",
             STR_ARG(str_utf8_cut(r->paused_reason, EXPLAIN_SHOWN_MAX / 2)));
    if (r->paused_until_ms) {
        explain_gate_until(w, EXPLAIN_QUEUE_PAUSED, r->paused_until_ms, "%s, until %s", text,
                           explain_when(r->paused_until_ms).text);
        return;
    }
    explain_gate_unknown(w, EXPLAIN_QUEUE_PAUSED, "a person must resume the queue", "%s", text);
    explain_needs_people(w);
}

void explain_look_pause(struct explain_walk *w)
{
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, RULES_ARENA);
    if (!w->view->catalog || !task_lane(w->task).queue.n) /* no rule of a queue holds control work that goes on */
        return;
    struct queue_rules r = catalog_cache_queue(w->view->catalog, w->task->tenant, w->task->queue, &a);
    if (queue_is_paused(&r, w->now_ms))
        w->resumes_ms = r.paused_until_ms;
    if (queue_is_paused(&r, w->at_ms))
        explain_queue_pause(w, &r);
}

void explain_look_tenant(struct explain_walk *w)
{
    struct tenant_rules r;
    cleanup_with(arena_release) struct arena a;
    arena_init(&a, RULES_ARENA);
    if (!w->view->catalog || !catalog_cache_tenant(w->view->catalog, w->task->tenant, &a, &r) || !r.disabled)
        return;
    explain_gate_unknown(w, EXPLAIN_TENANT_DISABLED, "a person must enable the tenant",
                         "its tenant is disabled: what it has scheduled waits");
    explain_needs_people(w);
}

void explain_look_workers(struct explain_walk *w)
{
    struct lane_entry *e = lanes_get(w->lanes, task_lane(w->task));
    struct pool_shortage s = { .need = POOL_NOTHING };
    if (e && !w->placed)
        s = lanes_shortage(w->lanes, e);
    if (s.need == POOL_NOTHING)
        return;
    explain_gate_unknown(w, EXPLAIN_NO_WORKER, "a worker that can run it must join",
                         "%s: it waits until one joins that can run it", s.reason);
    explain_needs_people(w);
}

/* A worker outside of the fleet must ask for it (POST /v1/leases). */
void explain_look_outside(struct explain_walk *w)
{
    if (w->task->target != TARGET_WORKER)
        return;
    explain_gate_unknown(w, EXPLAIN_WORKER, "a worker must ask for it",
                         "%s a worker that asks for tasks of the queue '" STR_FMT "' (POST /v1/leases)",
                         explain_is_due(w) ? "it is due, and waits for" : "then it waits for",
                         STR_ARG(explain_cut(w->task->queue)));
    explain_needs_people(w);
}

/* ---- slots ---- */

static void explain_blocked_by(struct explain_walk *w, const struct explain_slot *s)
{
    char holder[UUID_TEXT + 1] = "nobody any more";
    w->ret->position = (int64_t)s->waiting;
    if (s->holders.n)
        uuid_format(s->holders.v[0].task, holder);
    if (s->need.kind == SLOT_OVERLAP)
        explain_gate_unknown(w, EXPLAIN_OVERLAP, "the previous run may take any time",
                             "the previous run, %s, has not ended; %zu task%s ahead of it", holder, s->waiting,
                             s->waiting == 1 ? " waits" : "s wait");
    else
        explain_gate_unknown(w, EXPLAIN_CONCURRENCY_KEY, "the tasks that hold its slots may take any time",
                             "it waits for a slot of the concurrency key '" STR_FMT
                             "', held by %s%s; %zu task%s ahead of it",
                             STR_ARG(explain_cut(slot_key_name(s->need.key))), holder,
                             s->holders.n > 1 ? " and others" : "", s->waiting, s->waiting == 1 ? " waits" : "s wait");
}

void explain_look_blocked(struct explain_walk *w)
{
    const struct task *t = w->task;
    if (t->state != TASK_BLOCKED)
        return;
    for (size_t i = 0; i < w->facts->slot_count; i++)
        if (str_eq(w->facts->slots[i].need.key, t->waits_for))
            explain_blocked_by(w, &w->facts->slots[i]);
    if (!t->waits_for.n)
        explain_gate_unknown(w, EXPLAIN_DEPENDENCY, "the tasks that it depends on may take any time",
                             "it waits for the tasks that it depends on");
}

/* The run that holds the overlap slot. */
struct explain_holder {
    bool stays;            /* it has the slot when the claim is made: as nothing changes, or since that is now */
    int64_t not_before_ms; /* it does not start earlier; 0: it runs, or a person must let it go on */
    char breaker[EXPLAIN_TEXT / 2]; /* the circuit breaker that holds it; "": none */
};

static void explain_holder_breaker(const struct explanation *x, struct explain_holder *h)
{
    for (size_t i = 0; i < x->n; i++)
        if (x->steps[i].gate == EXPLAIN_HOST_BREAKER || x->steps[i].gate == EXPLAIN_TENANT_BREAKER)
            snprintf(h->breaker, sizeof h->breaker, "; " STR_FMT,
                     STR_ARG(str_utf8_cut(str_from(x->steps[i].text), sizeof h->breaker - 3)));
}

static struct explain_holder explain_holder_of(const struct explain_walk *w, const struct explain_slot *s)
{
    struct explain_holder h = { .stays = w->at_ms <= w->now_ms };
    struct explanation x = { 0 };
    if (!s->has_holder || task_is_final(s->holder.state))
        return h;
    if (s->holder.state != TASK_PAUSED)
        explain(w->view, &s->holder, NULL, s->holder_facts, w->now_ms, &x);
    bool expires = x.not_before_ms && task_expires_ms(&s->holder) <= w->at_ms; /* before it starts */
    bool waits = x.not_before_ms > w->at_ms && !expires;
    h.not_before_ms = waits ? x.not_before_ms : 0;
    if (waits)
        explain_holder_breaker(&x, &h);
    h.stays = h.stays || waits || s->holder.state == TASK_PAUSED || x.needs_people;
    return h;
}

static bool explain_overlap_skips(const struct explain_slot *s)
{
    return s->need.policy == OVERLAP_SKIP || (s->need.policy == OVERLAP_QUEUE_ONE && s->waiting);
}

/* No run has the slot yet, but an earlier one waits, perhaps for the same queue: it gets it first. */
static void explain_earlier(struct explain_walk *w, const struct explain_slot *s)
{
    bool goes_just_before = w->near || w->resumes_ms > w->task->due_ms, held = s->earlier_ms < w->resumes_ms;
    char run[EXPLAIN_TEXT / 4];
    if (!s->earlier_ms || !goes_just_before)
        return;
    snprintf(run, sizeof run, "an earlier run, that of %s%s%s,", explain_when(s->earlier_ms).text,
             held ? ", which its paused queue holds until " : "", held ? explain_when(w->resumes_ms).text : "");
    if (s->need.policy != OVERLAP_SKIP) {
        explain_gate_unknown(w, EXPLAIN_OVERLAP, "an earlier run may take any time", "%s is to come before it", run);
        return;
    }
    w->may_be_skipped = true;
    explain_gate_unknown(w, EXPLAIN_OVERLAP, "it is skipped if an earlier run, which waits too, is not over by then",
                         "%s is to come before it, and if that is not over by then, it is skipped", run);
}

static void explain_overlap(struct explain_walk *w, const struct explain_slot *s)
{
    if (!s->holders.n) {
        explain_earlier(w, s);
        return;
    }
    struct explain_holder h = explain_holder_of(w, s);
    struct explain_when of = explain_when(s->holders.v[0].scheduled_ms);
    const char *line = s->need.policy == OVERLAP_QUEUE_ONE ? ", and another one waits for its end" : "";
    bool ahead = s->has_holder && slot_is_held_ahead(&s->holder, w->at_ms);
    if (!h.stays && !w->near) /* it is over by then */
        return;
    if (explain_overlap_skips(s) && h.stays && !w->unknown && !ahead) {
        if (h.not_before_ms)
            explain_add(w->ret, EXPLAIN_OVERLAP, w->at_ms,
                        "the run of %s is not over by then%s: it does not start before %s%s", of.text, line,
                        explain_when(h.not_before_ms).text, h.breaker);
        else
            explain_add(w->ret, EXPLAIN_OVERLAP, w->at_ms, "the run of %s is not over by then%s", of.text, line);
        w->ret->resumes_ms = h.not_before_ms;
        explain_decided(w, EXPLAIN_WILL_SKIPPED, w->at_ms);
    } else if (s->need.policy == OVERLAP_CANCEL_PREVIOUS) {
        explain_gate_unknown(w, EXPLAIN_OVERLAP, "the run before it must end first",
                             "it replaces the run of %s, which is asked to end", of.text);
    } else if (explain_overlap_skips(s)) {
        w->may_be_skipped = true;
        explain_gate_unknown(w, EXPLAIN_OVERLAP, "it is skipped if the previous run is not over by then",
                             "if the run of %s is not over by then%s, it is skipped", of.text, line);
    } else if (s->waiting) {
        w->ret->position = (int64_t)s->waiting;
        explain_gate_unknown(w, EXPLAIN_OVERLAP, "the runs before it may take any time",
                             "it waits until the run of %s is over, which waits itself; %zu task%s ahead of it",
                             explain_when(s->waiting_ms).text, s->waiting, s->waiting == 1 ? " waits" : "s wait");
    } else {
        explain_gate_unknown(w, EXPLAIN_OVERLAP, "the previous run may take any time",
                             "it waits until the run of %s is over", of.text);
    }
}

static void explain_key(struct explain_walk *w, const struct explain_slot *s)
{
    if (!w->near || (int64_t)(s->holders.n + s->waiting) + explain_crowd(w) < s->need.limit)
        return;
    if (s->holders.n >= (size_t)s->need.limit && explain_is_due(w)) {
        explain_blocked_by(w, s);
        return;
    }
    explain_gate_unknown(w, EXPLAIN_CONCURRENCY_KEY, "other tasks may hold its slots then",
                         "it needs a slot of the concurrency key '" STR_FMT
                         "', of which there are %d: %zu hold one now",
                         STR_ARG(explain_cut(slot_key_name(s->need.key))), s->need.limit, s->holders.n);
}

void explain_look_slots(struct explain_walk *w)
{
    if (w->claimed || w->task->state == TASK_BLOCKED)
        return;
    for (size_t i = 0; i < w->facts->slot_count && !w->over; i++) {
        const struct explain_slot *s = &w->facts->slots[i];
        if (s->has)
            continue;
        if (s->need.kind == SLOT_OVERLAP)
            explain_overlap(w, s);
        else
            explain_key(w, s);
    }
}
