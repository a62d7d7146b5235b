/* The walk. A gate whose end is known moves at_ms; a gate whose end is not known sets `unknown`, and the walk goes on:
 * later gates are told, too, and may still put the task off beyond its expiry. */
#include "node/explain.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/rfc3339.h"
#include "core/target/target_url.h"
#include "core/task/settle.h"
#include "node/explain_internal.h"

const char *explain_gate_name(enum explain_gate g)
{
    static const char *const names[] = {
#define X(id, name) [EXPLAIN_##id] = name,
        EXPLAIN_GATE_MAP(X)
#undef X
    };
    return names[g];
}

const char *explain_outcome_name(enum explain_outcome o)
{
    static const char *const names[] = {
#define X(name) [EXPLAIN_WILL_##name] = #name,
        EXPLAIN_OUTCOME_MAP(X)
#undef X
    };
    return names[o];
}

struct explain_when explain_when(int64_t ms)
{
    struct explain_when w;
    static_assert(sizeof w.text > RFC3339_TEXT, "a time fits");
    rfc3339_format(ms, w.text);
    return w;
}

/* ---- steps ---- */

__attribute__((format(printf, 4, 0))) static void explain_vadd(struct explanation *x, enum explain_gate gate,
                                                               int64_t until_ms, const char *fmt, va_list args)
{
    if (x->n == 0)
        x->gate = gate;
    if (x->n == EXPLAIN_STEPS_MAX)
        return;
    struct explain_step *s = &x->steps[x->n++];
    s->gate = gate;
    s->until_ms = until_ms;
    vsnprintf(s->text, sizeof s->text, fmt, args);
}

void explain_add(struct explanation *x, enum explain_gate gate, int64_t until_ms, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    explain_vadd(x, gate, until_ms, fmt, args);
    va_end(args);
}

void explain_state(struct explanation *x, enum explain_gate gate, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    x->gate = gate;
    vsnprintf(x->text, sizeof x->text, fmt, args);
    va_end(args);
}

void explain_gate_until(struct explain_walk *w, enum explain_gate gate, int64_t until_ms, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    explain_vadd(w->ret, gate, until_ms, fmt, args);
    va_end(args);
    w->at_ms = max_of(w->at_ms, until_ms);
}

void explain_unsure(struct explain_walk *w, const char *why)
{
    w->unknown = w->unknown ? w->unknown : why;
}

void explain_gate_unknown(struct explain_walk *w, enum explain_gate gate, const char *why, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    explain_vadd(w->ret, gate, 0, fmt, args);
    va_end(args);
    explain_unsure(w, why);
}

void explain_needs_people(struct explain_walk *w)
{
    w->ret->needs_people = true;
}

void explain_decided(struct explain_walk *w, enum explain_outcome outcome, int64_t at_ms)
{
    w->ret->outcome = outcome;
    w->ret->estimate_ms = at_ms;
    w->over = true;
}

/* ---- what it comes to ---- */

/* Gates that it would have met after its expiry do not matter. A task that is paused expires when it is resumed;
 * 0: that is not known. */
static void explain_will_expire(struct explain_walk *w, int64_t expires_ms)
{
    struct explanation *x = w->ret;
    bool at_resume = w->is_paused && expires_ms == w->held_ms;
    while (x->n > 1 && (!expires_ms || x->steps[x->n - 2].until_ms >= expires_ms))
        x->n--;
    x->n = min_of(x->n, (size_t)EXPLAIN_STEPS_MAX - 1);
    explain_add(x, EXPLAIN_EXPIRED, expires_ms, "it expires%s%s%s", at_resume ? " when it is resumed" : "",
                at_resume && expires_ms ? ", at "
                : expires_ms            ? " at "
                                        : "",
                expires_ms ? explain_when(expires_ms).text : "");
    x->outcome = EXPLAIN_WILL_EXPIRED;
    x->estimate_ms = expires_ms;
}

static bool explain_is_paused_without_end(const struct explain_walk *w)
{
    return w->is_paused && !w->held_ms;
}

static void explain_conclude(struct explain_walk *w)
{
    struct explanation *x = w->ret;
    int64_t expires_ms = task_expires_ms(w->task);
    bool by_hand = explain_is_paused_without_end(w);
    if (w->over)
        return;
    if (by_hand && is_expired(expires_ms, w->now_ms)) {
        explain_will_expire(w, 0);
    } else if (!by_hand && (w->at_ms >= expires_ms || (x->needs_people && expires_ms != INT64_MAX))) {
        explain_will_expire(w, max_of(expires_ms, w->is_paused ? w->held_ms : 0));
    } else if (w->unknown) {
        x->outcome = EXPLAIN_WILL_UNKNOWN;
        x->estimate_ms = 0;
    } else {
        x->outcome = EXPLAIN_WILL_RUN;
        x->estimate_ms = w->at_ms;
    }
}

/* Appends a sentence to the text. */
__attribute__((format(printf, 2, 3))) static void explain_say(struct explanation *x, const char *fmt, ...)
{
    size_t n = strlen(x->text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(x->text + n, sizeof x->text - n, fmt, args);
    va_end(args);
}

/* The first gate, and then what will happen, unless that is clear from it. */
static void explain_put_into_words(const struct explain_walk *w)
{
    struct explanation *x = w->ret;
    int64_t expires_ms = task_expires_ms(w->task);
    snprintf(x->text, sizeof x->text, "%s", x->steps[0].text);
    switch (x->outcome) {
    case EXPLAIN_WILL_RUN:
        if (x->n > 1)
            explain_say(x, ". It starts at %s", explain_when(x->estimate_ms).text);
        break;
    case EXPLAIN_WILL_SKIPPED:
        explain_say(x, ". It is skipped at %s%s%s", explain_when(x->estimate_ms).text, x->n > 1 ? ": " : "",
                    x->n > 1 ? x->steps[x->n - 1].text : "");
        break;
    case EXPLAIN_WILL_EXPIRED:
        if (x->n > 1)
            explain_say(x, ". It expires %s%s and will not run, unless something changes before",
                        x->estimate_ms ? "at " : "when it is resumed",
                        x->estimate_ms ? explain_when(x->estimate_ms).text : "");
        break;
    case EXPLAIN_WILL_UNKNOWN:
        explain_say(x, ". %s cannot be known: %s", w->may_be_skipped ? "Whether it starts" : "When it starts",
                    w->unknown);
        if (expires_ms != INT64_MAX)
            explain_say(x, ". If it has not started by %s, it expires%s", explain_when(expires_ms).text,
                        explain_is_paused_without_end(w) ? " when it is resumed" : "");
        break;
    case EXPLAIN_WILL_ENDED: break;
    }
}

/* ---- a task that has fired ---- */

static struct worker_standing explain_standing(const struct explain_view *v, const struct task *t)
{
    struct worker_standing s = worker_standing(v->worker, t->id, t->fence);
    return s.at == WORKER_HAS_NOT && v->fleet_worker ? worker_standing(v->fleet_worker, t->id, t->fence) : s;
}

static void explain_parked(struct explain_walk *w, const struct worker_standing *s)
{
    char text[TARGET_HOST_MAX];
    struct str host = target_host_name(target_host(w->task, text));
    w->ret->waits = true;
    w->ret->position = (int64_t)s->ahead;
    explain_gate_unknown(w, EXPLAIN_HOST_BUSY, "a call to its host must end first",
                         "it waits for one of the connections to " STR_FMT
                         ", and has not started: all are in use, and %zu tasks wait ahead of it",
                         STR_ARG(host), s->ahead);
}

/* Since when is not known here. */
static void explain_runs(struct explain_walk *w, const char *text)
{
    explain_state(w->ret, EXPLAIN_RUNNING, "%s", text);
    explain_decided(w, EXPLAIN_WILL_RUN, 0);
}

/* The fleet's queue has it. Unless there are more of them than slots, a worker has taken it. */
static void explain_in_fleet_queue(struct explain_walk *w)
{
    struct pool_shortage s = { .need = POOL_NOTHING };
    const struct lane_facts *f = &w->lane_facts;
    int64_t down_ms = scheduler_status(w->view->scheduler).queue_down_since_ms;
    if (w->lane)
        s = lanes_shortage(w->lanes, w->lane);
    if (down_ms)
        explain_gate_unknown(
            w, EXPLAIN_QUEUE_DOWN, "the queue must answer first",
            "it has fired: unless a worker has taken it, it waits in the fleet's queue, which does not "
            "answer since %s",
            explain_when(down_ms).text);
    else if (s.need != POOL_NOTHING)
        explain_gate_unknown(w, EXPLAIN_NO_WORKER, "a worker that can run it must join",
                             "it has fired, and %s: unless it runs, it waits in the queue", s.reason);
    else if (f->pool_workers && f->pool_taken > f->pool_slots)
        explain_gate_unknown(w, EXPLAIN_FLEET_QUEUE, "a worker takes it when another task ends",
                             "unless it runs, it waits in the fleet's queue: the %zu worker%s that can run it ha%s %zu "
                             "slots for this node, which has given them %zu tasks",
                             f->pool_workers, f->pool_workers == 1 ? "" : "s", f->pool_workers == 1 ? "s" : "ve",
                             f->pool_slots, f->pool_taken);
    else
        explain_runs(w,
                     "it has fired: a worker runs it, or will take it from the fleet's queue, or its outcome is being "
                     "written");
}

/* False: it is claimed, and has not fired. */
static bool explain_fired(struct explain_walk *w)
{
    const struct task *t = w->task;
    struct scheduler *s = w->view->scheduler;
    struct worker_standing at = explain_standing(w->view, t);
    if (t->state != TASK_RUNNING || scheduler_armed(s, t->id, t->fence))
        return false;
    w->at_ms = w->now_ms;
    if (at.at == WORKER_PARKED) {
        explain_parked(w, &at);
    } else if (at.at == WORKER_STARTED) {
        explain_state(w->ret, EXPLAIN_RUNNING, "it has fired: it runs since %s", explain_when(at.started_ms).text);
        explain_decided(w, EXPLAIN_WILL_RUN, at.started_ms);
        w->ret->started_ms = at.started_ms;
    } else if (scheduler_queued(s, t->id, t->fence)) {
        explain_in_fleet_queue(w);
    } else if (scheduler_holds(s, t->id, t->fence)) {
        explain_runs(w, "it has fired: it runs, or its outcome is being written");
    } else if (t->due_ms > w->now_ms) {
        explain_gate_until(w, EXPLAIN_ARMED, t->due_ms, "another node has claimed it; it fires at %s",
                           explain_when(t->due_ms).text);
    } else {
        explain_runs(w,
                     "another node has claimed it: it runs there, or its outcome is being written. If that node dies, "
                     "another one takes the task over");
    }
    return true;
}

/* ---- the walk ---- */

/* A task that was put aside meets its breaker before it is claimed; others when they have fired. */
static void (*const explain_gates[])(struct explain_walk *w) = {
    explain_look_holds,  explain_look_time,        explain_look_recovery, explain_look_store, explain_look_blocked,
    explain_look_pause,  explain_look_tenant,      explain_look_workers,  explain_look_aside, explain_look_rate,
    explain_look_limits, explain_look_unseen,      explain_look_places,   explain_look_slots, explain_look_breakers,
    explain_look_host,   explain_look_fleet_queue, explain_look_outside,
};

static void explain_begin_walk(struct explain_walk *w)
{
    const struct task *t = w->task;
    struct scheduler *s = w->view->scheduler;
    w->lanes = scheduler_lanes(s);
    w->lane = lanes_get(w->lanes, task_lane(t));
    w->of_queue = w->lane ? w->lane : lanes_of_queue(w->lanes, t->tenant, task_lane(t).queue);
    if (w->of_queue)
        w->lane_facts = lanes_facts(w->lanes, w->of_queue);
    w->at_ms = max_of(w->now_ms, t->due_ms);
    w->near = t->due_ms - w->now_ms <= EXPLAIN_NEAR_MS;
    w->claimed = t->state == TASK_RUNNING && scheduler_armed(s, t->id, t->fence);
    w->placed = w->claimed && scheduler_is_placed(s, t->id, t->fence);
}

struct task explain_behind(const struct task *t, const struct explain_holds *holds, int64_t now_ms)
{
    struct task behind = *t;
    bool waits = t->links & TASK_WAITS;
    behind.state = TASK_SCHEDULED;
    behind.waits_for = S("");
    behind.links &= ~TASK_WAITS;
    if (t->kind == TASK_RECURRING) { /* which one it is, is decided when the task is resumed */
        behind.kind = TASK_OCCURRENCE;
        behind.overlap = OVERLAP_ALLOW;
        behind.due_ms = now_ms;
    }
    if (t->kind == TASK_RECURRING || waits) /* counted from its time, or from the end of the last one */
        behind.expires_after_ms = 0;
    for (size_t i = 0; i < holds->n; i++)
        behind.due_ms = max_of(behind.due_ms, holds->v[i].until_ms);
    return behind;
}

void explain(const struct explain_view *v, const struct task *t, const struct explain_holds *holds,
             const struct explain_facts *facts, int64_t now_ms, struct explanation *ret)
{
    assert(!task_is_final(t->state) && t->state != TASK_PAUSED && t->kind != TASK_RECURRING);
    struct explain_walk w = { .view = v, .task = t, .holds = holds, .facts = facts, .now_ms = now_ms, .ret = ret };
    *ret = (struct explanation){ .position = -1 };
    explain_begin_walk(&w);
    ret->waits = w.claimed;
    if (!explain_fired(&w))
        for (size_t i = 0; i < array_count(explain_gates) && !w.over; i++)
            explain_gates[i](&w);
    ret->not_before_ms = ret->gate == EXPLAIN_RUNNING ? 0 : w.at_ms;
    explain_conclude(&w);
    if (ret->n)
        explain_put_into_words(&w);
    else if (!ret->text[0])
        explain_state(ret, EXPLAIN_NONE, "nothing holds it: it is about to be claimed");
}

void explain_held_by_others(const char *why, struct explanation *ret)
{
    static const struct task forever = { 0 };
    struct explain_walk w = { .task = &forever, .unknown = why, .ret = ret };
    explain_conclude(&w);
    explain_put_into_words(&w);
}
