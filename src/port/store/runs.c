#include "port/store/runs.h"

#include <assert.h>

/* ---- definitions ---- */

int definition_cmp(const struct definition *a, const struct definition *b)
{
    int order = (a->tenant > b->tenant) - (a->tenant < b->tenant);
    return order ? order : memcmp(a->hash, b->hash, DEFINITION_HASH);
}

/* ---- OP_OPEN ---- */

bool task_is_claimed(enum task_state state, int64_t row_fence, int links, int64_t fence)
{
    return state == TASK_RUNNING && row_fence == fence && !(links & TASK_OPEN);
}

struct run_row run_begin(const struct op_open *op, const struct run_row *old, const struct run_row *outer, int links)
{
    struct run_row next = *op->begin;
    bool again = op->again && !(links & TASK_BEGUN);
    bool was_paused = old && old->paused && !(outer && again);
    next.paused = was_paused || (outer && outer->paused);
    if (!old)
        return next;
    next.opened_ms = old->opened_ms;
    next.tasks = old->tasks;
    next.generation = old->generation + again;
    next.stop = again ? RUN_GOES_ON : old->stop;
    next.stopped_by = again ? (struct str){ 0 } : old->stopped_by;
    return next;
}

bool open_is_stopped(const struct op_open *op, const struct run_row *run, const struct run_row *outer, int links)
{
    bool is_reset = !(links & TASK_OPENED); /* a run within another, which was retried */
    bool is_over = op->begin && op->again && (links & TASK_AGAIN || is_reset) && !(links & TASK_BEGUN);
    bool is_known = op->despite_stop && run && run->stop == op->stop;
    bool is_stopped = run && run->stop != RUN_GOES_ON && !is_over && !is_known;
    return is_stopped || (outer && outer->stop != RUN_GOES_ON && !op->despite_stop);
}

bool open_begins(const struct op_open *op, int links)
{
    return op->first && (op->again || !(links & TASK_OPENED));
}

bool open_starts(const struct op_open *op, int links)
{
    return op->first && !(links & TASK_BEGUN) && (!(links & TASK_OPENED) || links & TASK_AGAIN);
}

bool open_asks_arrivals(const struct op_open *op)
{
    return op->begin && op->again;
}

bool open_replaces(const struct op_open *op, const struct open_row *r, enum task_state old, int64_t old_created_ms)
{
    return op->again && task_is_final(old) && old_created_ms < r->task.created_ms;
}

struct task open_row_task(const struct open_row *r, bool paused, int64_t old_fence)
{
    struct task t = r->task;
    t.fence = max_of(t.fence, old_fence);
    t.links |= r->ends ? TASK_HAS_CHILDREN : 0;
    if (paused && place_kind(t.place) != PLACE_KIND_DEADLINE && (t.state == TASK_SCHEDULED || t.state == TASK_BLOCKED))
        t.state = TASK_PAUSED;
    return t;
}

static void open_count(struct flow_counts *c, enum edge_state s, int sign)
{
    struct flow_counts d = edge_counts(s);
    c->arrived += (uint32_t)sign * d.arrived;
    c->met += (uint32_t)sign * d.met;
    c->broken += (uint32_t)sign * d.broken;
}

struct flow_counts open_row_counts(const struct open_row *r)
{
    struct flow_counts c = { 0 };
    for (size_t i = 0; i < r->n; i++)
        open_count(&c, r->edges[i].state, 1);
    return c;
}

bool end_edge_apply(struct end_edge *edge, const struct task *parent, enum dag_type type, struct open_join *join,
                    bool is_more)
{
    enum flow_outcome o = dependency_outcome(parent->state, parent->links);
    enum edge_state now = o == FLOW_OPEN ? EDGE_OPEN : edge_arrives(type, o);
    if (edge->counts && (edge->state == EDGE_OPEN || now != EDGE_OPEN))
        return false;
    if (edge->counts)
        open_count(&join->counts, edge->state, -1);
    else
        join->expected += is_more;
    open_count(&join->counts, now, 1);
    *edge = (struct end_edge){ .counts = true, .state = now };
    return true;
}

void open_apply(struct task *t, const struct op_open *op, const struct open_join *join)
{
    assert(t->state == TASK_RUNNING);
    t->links |= op->first && !op->again ? TASK_OPENED : 0; /* again: with the last page, so that all rows are given */
    t->updated_ms = op->now_ms;
    if (op->first && op->again && op->begun_ms) {
        t->links |= TASK_BEGUN;
        t->started_ms = op->begun_ms;
    }
    t->started_ms = t->started_ms ? t->started_ms : op->now_ms;
    if (!op->last)
        return;
    t->claim = (struct uuid){ 0 };
    t->links &= op->again ? ~(TASK_AGAIN | TASK_BEGUN) : ~0;
    t->links |= TASK_OPEN | TASK_OPENED | TASK_WAITS;
    enum flow_decision d = open_decide(join->expected, join->max_broken, join->counts);
    if (d != FLOW_WAIT)
        dependency_apply(t, d, (struct str){ 0 }, op->now_ms);
}

int settled_links(int links, enum task_state next, bool has_execution)
{
    bool again = !task_is_final(next) && has_execution && links & TASK_OPENED;
    links = again ? task_links_again(links) : links;
    return task_is_final(next) ? links : links & ~TASK_SIGNALLED;
}

bool settle_asks_run(const struct settlement *v, struct uuid run)
{
    enum task_state next = v->replace ? v->replace->state : v->verdict.next;
    return !uuid_is_nil(run) && (next == TASK_SCHEDULED || (next == TASK_CANCELLED && !v->replace));
}

struct str run_stop_reason(enum run_stop s)
{
    return s == RUN_AT_DEADLINE ? S("cancelled: its run was not over at its deadline")
                                : S("cancelled: its run was stopped");
}

static enum task_state settled_state(const struct run_row *run, int links, int64_t place)
{
    if (run->stop != RUN_GOES_ON && place_kind(place) == PLACE_KIND_STEP && !(links & TASK_OPENED))
        return TASK_CANCELLED;
    bool ends = run->stop != RUN_GOES_ON && links & TASK_OPENED; /* its plan ends it */
    return run->paused && place_kind(place) != PLACE_KIND_DEADLINE && !ends ? TASK_PAUSED : TASK_SCHEDULED;
}

void settle_in_run(const struct run_row *run, int links, int64_t place, int64_t now_ms, struct settlement *v,
                   struct task *row)
{
    enum task_state next = settled_state(run, links, place);
    bool cancelled = next == TASK_CANCELLED;
    struct str why = run_stop_reason(run->stop);
    if (!v->replace && v->verdict.next == TASK_CANCELLED) {
        if (run->stop == RUN_AT_DEADLINE && place_kind(place) == PLACE_KIND_STEP)
            v->verdict.last_error = v->verdict.execution.error = why;
        return;
    }
    bool is_started = v->replace && v->replace->links & TASK_BY_HAND; /* a user starts it although the run is paused */
    if (next == TASK_SCHEDULED || (next == TASK_PAUSED && is_started))
        return;
    if (!v->replace) {
        v->verdict.next = next;
        v->verdict.last_error = cancelled ? why : v->verdict.last_error;
        return;
    }
    *row = *v->replace;
    row->state = next;
    row->completed_ms = cancelled ? now_ms : 0;
    row->last_error = cancelled ? why : row->last_error;
    v->replace = row;
}

bool settle_asks_own(const struct settlement *v, int links)
{
    enum task_state next = v->verdict.next;
    bool again = next == TASK_SCHEDULED && v->verdict.has_execution;
    bool ends = next == TASK_COMPLETED || next == TASK_FAILED || (again && !(links & TASK_AGAIN));
    return links & TASK_OPENED && !v->replace && ends;
}

/* The verdict was made of less than is known now: the task is to be planned anew. */
static void settle_anew(struct verdict *d, int64_t now_ms)
{
    d->attempts -= d->has_execution && d->attempts > 0;
    d->next = TASK_SCHEDULED;
    d->has_execution = false;
    d->due_ms = d->awaited_ms = now_ms;
    d->late_by = LATE_NONE;
}

bool settle_of_await(int links, int64_t now_ms, struct settlement *v)
{
    bool ends = v->verdict.next == TASK_COMPLETED || v->verdict.next == TASK_FAILED;
    if (!(links & TASK_SIGNALLED) || v->replace || !ends)
        return false;
    settle_anew(&v->verdict, now_ms);
    v->verdict.last_error = (struct str){ 0 };
    return true;
}

bool settle_of_run(const struct run_row *run, int64_t now_ms, struct settlement *v)
{
    struct verdict *d = &v->verdict;
    if (run->stop != RUN_CANCELLED && run->stop != RUN_CANCELLED_AND_UNDONE)
        return false;
    if (d->next == TASK_FAILED) {
        d->next = TASK_CANCELLED;
        d->last_error = run->stopped_by.n ? run->stopped_by : S("cancelled");
        d->cause = (struct fingerprint){ 0 };
        d->execution.status = d->has_execution ? EXECUTION_CANCELLED : d->execution.status;
        return false;
    }
    settle_anew(d, now_ms);
    return true;
}

bool put_resumes_run(enum task_state was, const struct task *next)
{
    return task_is_final(was) && next->links & TASK_AGAIN;
}

enum err open_too_many(struct error *e)
{
    (void)error_set(e, ERR_LIMIT, "a run has at most %d tasks, with those of the workflows that it starts",
                    RUN_TASKS_MAX);
    return error_in(e, "tasks");
}

/* ---- OP_AWAIT, OP_SIGNAL ---- */

void await_apply(struct task *t, const struct op_await *op, size_t signals, bool paused, bool stopped)
{
    assert(t->state == TASK_RUNNING);
    bool has_news = signals > op->seen || stopped;
    t->claim = (struct uuid){ 0 };
    t->links = (t->links | TASK_AWAITS) & ~TASK_SIGNALLED;
    t->started_ms = t->started_ms ? t->started_ms : op->now_ms;
    t->updated_ms = op->now_ms;
    task_set_due(t, has_news ? op->now_ms : op->timeout_ms ? t->started_ms + op->timeout_ms : 0);
    t->state = paused && !stopped ? TASK_PAUSED : t->due_ms ? TASK_SCHEDULED : TASK_BLOCKED;
}

bool await_is_over(const struct task *t, int64_t timeout_ms, int64_t time_ms)
{
    return timeout_ms && t->links & TASK_AWAITS && t->started_ms && time_ms >= t->started_ms + timeout_ms;
}

bool signal_takes(const struct op_signal *op, const struct task *t)
{
    int64_t timeout_ms = 0;
    for (size_t i = 0; op->timeouts_ms && i < op->n; i++)
        if (uuid_eq(op->steps[i], t->id))
            timeout_ms = op->timeouts_ms[i];
    return !task_is_final(t->state) && !await_is_over(t, timeout_ms, op->signal->time_ms);
}

bool signal_wakes(struct task *t, int64_t now_ms)
{
    if (t->state == TASK_RUNNING && !(t->links & TASK_SIGNALLED)) {
        t->links |= TASK_SIGNALLED;
        t->updated_ms = now_ms;
        return true;
    }
    if (!(t->links & TASK_AWAITS) ||
        (t->state != TASK_SCHEDULED && t->state != TASK_BLOCKED && t->state != TASK_PAUSED))
        return false;
    t->state = t->state == TASK_PAUSED ? TASK_PAUSED : TASK_SCHEDULED;
    t->updated_ms = now_ms;
    task_set_due(t, now_ms);
    return true;
}

enum err run_not_found(struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, "there is no such run");
}

enum err signal_check_run(const struct task *run, bool found, int32_t tenant, struct error *e)
{
    if (!found || run->deleted || run->tenant != tenant || run->target != TARGET_WORKFLOW)
        return run_not_found(e);
    if (!task_is_final(run->state))
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "the run is %s: it takes no signals any more", task_state_name(run->state));
    return error_in(e, "run");
}

enum err signal_check_same(const struct signal_row *old, const struct signal_row *s, struct error *e)
{
    if (old->rejects == s->rejects && str_eq(old->payload, s->payload))
        return ERR_OK;
    (void)error_set(e, ERR_CONFLICT, "this sender has sent the signal before, with another payload or decision");
    return error_in(e, "by");
}

enum err signal_check_room(size_t count, int64_t bytes, struct error *e)
{
    if (count <= SIGNALS_MAX && bytes <= SIGNAL_BYTES_MAX)
        return ERR_OK;
    (void)error_set(e, ERR_LIMIT, "a run takes at most %d signals of a name, and %d bytes of their payloads",
                    SIGNALS_MAX, SIGNAL_BYTES_MAX);
    return error_in(e, "payload");
}

enum err signal_too_late(struct error *e)
{
    (void)error_set(e, ERR_CONFLICT, "every step that awaits this signal has ended");
    return error_in(e, "step");
}

/* ---- OP_STOP ---- */

bool stop_finds_planned(int links, int64_t place)
{
    return (links & (TASK_OPENED | TASK_AGAIN)) == TASK_OPENED && place_kind(place) == PLACE_KIND_STEP;
}

unsigned stop_states(enum run_change c, bool planned, enum run_stop stop)
{
    if (planned && (c == RUN_CANCEL || c == RUN_CLOSE))
        return 1u << TASK_PAUSED;
    if (planned && c == RUN_PAUSE && stop != RUN_GOES_ON)
        return 0;
    static const unsigned states[] = {
        [RUN_CANCEL] = 1u << TASK_SCHEDULED | 1u << TASK_BLOCKED | 1u << TASK_PAUSED,
        [RUN_PAUSE] = 1u << TASK_SCHEDULED | 1u << TASK_BLOCKED,
        [RUN_RESUME] = 1u << TASK_PAUSED,
        [RUN_CLOSE] = 1u << TASK_SCHEDULED | 1u << TASK_BLOCKED | 1u << TASK_PAUSED,
    };
    return states[c];
}

enum err stop_check(const struct op_stop *op, bool paused, enum task_state run, struct error *e)
{
    if (op->follows && paused != (op->change == RUN_PAUSE))
        (void)error_set(e, ERR_CONFLICT, "the run is %s", paused ? "paused" : "not paused");
    else if (op->change == RUN_CANCEL && !op->has_range && task_is_final(run))
        (void)error_set(e, ERR_CONFLICT, "the run is %s", task_state_name(run));
    else
        return ERR_OK;
    return error_in(e, "run");
}

bool run_is_late(const struct run_row *run, int64_t now_ms)
{
    return run->deadline_ms && now_ms >= run->deadline_ms && run->stop == RUN_GOES_ON;
}

void stop_places(const struct op_stop *op, const struct run_row *run, int64_t *ret_from, int64_t *ret_to)
{
    bool is_late = op->change == RUN_RESUME && run_is_late(run, op->now_ms);
    int64_t ends[] = {
        [RUN_CANCEL] = place_of_undo(0, -1) - 1,
        [RUN_PAUSE] = place_of_deadline() - 1,
        [RUN_RESUME] = INT64_MAX,
        [RUN_CLOSE] = INT64_MAX,
    };
    *ret_from = op->has_range ? op->from : is_late ? place_of_undo(0, -1) : INT64_MIN;
    *ret_to = op->has_range ? op->to : ends[op->change];
}

bool stop_reaches_run(enum run_change change, int links)
{
    bool is_pause = change == RUN_PAUSE || change == RUN_RESUME;
    return links & (is_pause ? TASK_OPEN | TASK_OPENED | TASK_BEGUN : TASK_OPEN);
}

void stop_run(struct run_row *run, const struct op_stop *op, int links)
{
    if (op->has_range)
        return;
    if (op->change == RUN_PAUSE || op->change == RUN_RESUME)
        run->paused = op->change == RUN_PAUSE;
    if (op->change == RUN_CANCEL && run->stop == RUN_CANCELLED && op->stop == RUN_CANCELLED_AND_UNDONE)
        run->stop = op->stop; /* asked for later, before its end */
    if (op->change != RUN_CANCEL || (run->stop != RUN_GOES_ON && !(links & TASK_AGAIN)))
        return;
    run->stop = op->stop;
    run->stopped_by = op->why;
}

bool stop_wake(struct task *t, int64_t now_ms)
{
    bool again = t->links & TASK_AGAIN;
    if (task_is_final(t->state) || !(t->links & (TASK_OPEN | TASK_AGAIN)))
        return false;
    t->links &= ~(TASK_AGAIN | TASK_BEGUN);
    t->updated_ms = now_ms;
    if (t->links & TASK_OPEN) {
        dependency_apply(t, FLOW_START, (struct str){ 0 }, now_ms);
    } else if (again && t->state != TASK_RUNNING && t->state != TASK_BLOCKED) { /* BLOCKED: it waits for its slot */
        t->state = TASK_SCHEDULED;
        task_set_due(t, now_ms);
    }
    return true;
}

static void stop_resume(struct task *t, int64_t now_ms)
{
    bool is_blocked = t->links & TASK_WAITS || (t->links & TASK_AWAITS && t->due_ms == 0);
    t->state = is_blocked ? TASK_BLOCKED : TASK_SCHEDULED;
    if (!is_blocked && t->due_ms < now_ms)
        task_put_off(t, now_ms, LATE_PAUSED);
}

/* A run within the run that waits for its next attempt, and has to undo what its last one did. */
static bool stop_opens(const struct task *t, const struct op_stop *op)
{
    bool undoes = op->change == RUN_CLOSE || (op->change == RUN_CANCEL && op->stop != RUN_CANCELLED);
    return undoes && t->links & TASK_AGAIN;
}

void stop_step(struct task *t, const struct op_stop *op)
{
    bool planned = stop_finds_planned(t->links, t->place), ends = op->change == RUN_CANCEL || op->change == RUN_CLOSE;
    assert(stop_states(op->change, planned, RUN_GOES_ON) >> t->state & 1);
    t->updated_ms = op->now_ms;
    t->waits_for = (struct str){ 0 };
    if (planned && ends) {
        t->state = TASK_SCHEDULED;
        task_set_due(t, op->now_ms);
        return;
    }
    if (stop_opens(t, op)) {
        t->state = TASK_RUNNING;
        t->links |= TASK_OPEN | TASK_WAITS;
        task_set_due(t, op->now_ms);
        return;
    }
    switch (op->change) {
    case RUN_CANCEL:
    case RUN_CLOSE:
        t->state = TASK_CANCELLED;
        t->links &= ~TASK_WAITS;
        t->completed_ms = op->now_ms;
        t->last_error = op->why;
        break;
    case RUN_PAUSE: t->state = TASK_PAUSED; break;
    case RUN_RESUME: stop_resume(t, op->now_ms); break;
    }
}

/* ---- outputs ---- */

struct run_output output_kept(struct str output)
{
    bool whole = output.n <= OUTPUT_KEPT_MAX;
    return (struct run_output){ .whole = whole, .text = whole ? output : (struct str){ 0 } };
}

struct str output_head(struct str output)
{
    return str_utf8_cut(output, EXECUTION_OUTPUT_MAX);
}

struct str output_by_hand(const struct task *t)
{
    bool completed = t->state == TASK_COMPLETED && t->links & TASK_BY_HAND;
    return completed ? task_extra(t, "output") : S("");
}

struct str settled_by(const struct task *t)
{
    bool settled = task_is_final(t->state) && t->links & TASK_BY_HAND;
    struct str quoted = settled ? task_extra(t, SETTLED_BY) : S("");
    return quoted.n > 2 ? str_sub(quoted, 1, quoted.n - 1) : S(""); /* ids of keys need no escape */
}
