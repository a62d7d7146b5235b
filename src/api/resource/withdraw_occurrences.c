/* One round lists the claimed occurrences, page by page, and recalls one after the other. A claim may be committed and
 * not yet known to its owner; then there is another round a moment later. All rounds together take at most recall_ms,
 * and longer only for occurrences that are not due yet (recall_wait_ms). The change itself is done in any case.
 *
 * Occurrences that are not wanted any more are PAUSED first, so that nobody claims them again. Then one change of the
 * recurring task withdraws them like those that were never claimed: they are deleted, the cursor moves back to them,
 * and they do not count as runs. If that is never done, because the node dies, the next change of the recurring task
 * does it, at the latest when it is resumed. */
#include "api/resource/withdraw_occurrences.h"

#include "api/resource/recall.h"
#include "api/server/internal.h"
#include "api/server/timers.h"
#include "api/task/json.h"
#include "core/task/spawn.h"

enum {
    RETRY_MS = 5, /* after the first round; doubled from round to round */
    RETRY_MAX_MS = 200,
    STORE_RETRY_MS = 100,
    TELL_MS = 1500, /* until all that may have an occurrence are told */
    TELL_POLL_MS = 10,
    NS_PER_MS = 1000000,
    ROW_MS = 48 * 3600 * 1000, /* more than a day with a clock change: no row of skipped times is longer */
    ROWS_MAX = 16,
    PAGE = 100, /* occurrences, with their payloads */
    PAGE_ARENA = 256 << 20
};

struct withdrawal {
    struct request *q;
    const struct task *parent;
    int64_t begun_ns;
    struct arena page; /* of `claimed` */
    struct tasks claimed;
    bool has_more;      /* claimed occurrences: `claimed` is a page of them */
    struct uuid before; /* if so: where the next page begins; nil: with the newest */
    size_t at;
    struct task replace;
    struct task now; /* the recurring task, to withdraw what was paused */
    int64_t from_ms; /* as withdraw_from_ms of OP_PUT */
    bool again;
    bool unfired; /* again, and because of an occurrence that has not fired */
    bool paused;  /* occurrences were paused, and are to be withdrawn */
    bool failed;  /* paused, and the store could not withdraw them */
    bool told;    /* the owners of what was left were asked all at once */
    int64_t retry_ms;
    struct timer timer;
    route_handler *then; /* NULL: answer the request */
};

static route_handler withdraw_run;

/* False: a user triggered the occurrence. It does not follow the schedule, and the overlap policy does not apply to
 * it. */
static bool withdraw_is_by_schedule(const struct task *p, const struct task *t)
{
    return uuid_eq(t->id, occurrence_id(p->id, t->scheduled_ms));
}

/* Whether the changed task still has this occurrence. */
static bool withdraw_is_still_wanted(const struct withdrawal *w, const struct task *t)
{
    const struct task *p = w->parent;
    struct recurrence rule;
    struct occurrence o;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    const struct api_setup *setup = &w->q->server->setup;
    if (p->state != TASK_SCHEDULED || p->deleted)
        return false;
    if (!withdraw_is_by_schedule(p, t))
        return true;
    return task_rule(p, setup->zones, setup->catalog, &rule, &base, NULL) == ERR_OK &&
           recurrence_next(&rule, t->due_ms, &o) && o.scheduled_ms == t->scheduled_ms;
}

/* A row is made before its times come, and no other row of the schedule lies between them. So the rows that reach past
 * now are among the latest. */
enum err withdraw_cuts(struct request *q, struct reader *r, const struct task *was, struct arena *a, struct op_put *op,
                       struct error *e)
{
    const struct task *next = op->task;
    const struct api_setup *setup = &q->server->setup;
    struct task_filter f = { .tenant = was->tenant,
                             .parent = was->id,
                             .states = 1U << TASK_SKIPPED,
                             .from = uuid_floor(max_of(q->now_ms - ROW_MS, (int64_t)0)),
                             .limit = ROWS_MAX,
                             .brief = true };
    struct task_page page;
    struct recurrence rule;
    cleanup_with(rule_base_release) struct rule_base base = { 0 };
    if (was->cursor_ms <= q->now_ms || task_rule(was, setup->zones, setup->catalog, &rule, &base, NULL))
        return ERR_OK; /* no row reaches past the cursor; or the rule cannot be made, and spawning logs it */
    if (reader_list(r, &f, a, &page, e))
        return e->code;
    struct spawn_cut *cuts = arena_array(a, struct spawn_cut, page.tasks.n + 1);
    if (!cuts)
        return error_no_room(e);
    int64_t before_ms = min_of(q->now_ms, next->cursor_ms) - schedule_spread(&next->schedule, next->id);
    op->cuts = cuts;
    for (size_t i = page.tasks.n; i-- > 0;) { /* by id, as rows are locked */
        bool is_cut;
        if (spawn_cut(&page.tasks.v[i], &rule, before_ms, a, &cuts[op->cut_count], &is_cut, e))
            return e->code;
        op->cut_count += is_cut;
    }
    return ERR_OK;
}

/* The recurring task goes on, now or when it is resumed. */
static bool withdraw_comes_again(const struct task *p)
{
    return p->state == TASK_PAUSED || (p->state == TASK_SCHEDULED && !p->deleted);
}

/* Nothing of it is to start, now or later: not even what a queue has that cannot be reached at the moment. */
static bool withdraw_is_called_off(const struct task *p)
{
    return p->state != TASK_SCHEDULED || p->deleted;
}

static struct task withdraw_replacement(const struct withdrawal *w, const struct task *t)
{
    const struct task *p = w->parent;
    struct task r = *t;
    r.claim = (struct uuid){ 0 };
    r.version++;
    r.updated_ms = w->q->now_ms;
    task_forget_delays(&r);
    if (withdraw_is_still_wanted(w, t)) {
        r.state = TASK_SCHEDULED;
        spawn_inherit(&r, p);
        if (withdraw_is_by_schedule(p, t))
            r.overlap = p->schedule.overlap;
        return r;
    }
    if (withdraw_comes_again(p)) {
        r.state = TASK_PAUSED;
        return r;
    }
    r.state = TASK_CANCELLED;
    r.completed_ms = w->q->now_ms;
    r.last_error = put_cancel_reason(p);
    return r;
}

static void withdraw_on_retry_timer(struct timer *timer)
{
    struct withdrawal *w = container_of(timer, struct withdrawal, timer);
    request_later(w->q, withdraw_run);
}

/* The time that is left, if the whole may take so long. */
static int64_t withdraw_left_ms(const struct withdrawal *w, int64_t wait_ms)
{
    return wait_ms - (clock_steady_ns(w->q->server->setup.clock) - w->begun_ns) / NS_PER_MS;
}

/* An occurrence that is not due yet has not fired: it is recalled, however long the store has taken until now. */
static int64_t withdraw_wait_ms(const struct withdrawal *w, const struct task *t)
{
    int64_t wait_ms = recall_wait_ms(w->q, t);
    return wait_ms > w->q->server->limits.recall_ms ? wait_ms : withdraw_left_ms(w, wait_ms);
}

static enum handled withdraw_recall_next(struct withdrawal *w);

static route_handler withdraw_end_later, withdraw_tell_rest;

static void withdraw_on_end_timer(struct timer *timer)
{
    request_later(container_of(timer, struct withdrawal, timer)->q, withdraw_end_later);
}

static enum handled withdraw_end_in(struct withdrawal *w, int64_t ms)
{
    w->timer.fire = withdraw_on_end_timer;
    timers_add(w->q->server->timers, &w->timer, ms);
    return HANDLED_LATER;
}

/* A worker that was asked for an occurrence may be about to start it: then it does so before the answer. */
static enum handled withdraw_end(struct withdrawal *w)
{
    int64_t left_ms = w->q->sure_ms - clock_steady_ms(w->q->server->setup.clock);
    if (w->told && !recall_is_answered(w->q) && withdraw_left_ms(w, w->q->server->limits.recall_ms + TELL_MS) > 0)
        return withdraw_end_in(w, TELL_POLL_MS);
    if (w->told)
        left_ms = max_of(left_ms, recall_sure_in_ms(w->q));
    if (left_ms > 0)
        return withdraw_end_in(w, left_ms);
    arena_release(&w->page);
    return w->then ? request_later(w->q, w->then) : HANDLED_DONE;
}

static enum handled withdraw_end_later(struct request *q, struct reader *r)
{
    (void)r;
    return withdraw_end(q->withdrawal);
}

/* What has fired before goes on with its retries, unless the task is cancelled. A user requested the occurrence
 * (OP_PUT 9): it runs, also while the task is paused; an edit changes its fields. */
static bool withdraw_keeps(const struct withdrawal *w, const struct task *t)
{
    if (!withdraw_comes_again(w->parent))
        return false;
    return task_has_fired(t) || (t->runs_count == 0 && w->parent->state == TASK_PAUSED);
}

static void withdraw_continue(struct request *q)
{
    if (withdraw_recall_next(q->withdrawal) == HANDLED_DONE)
        request_answer(q);
}

static void withdraw_on_freed_put(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct withdrawal *w = q->withdrawal;
    w->again = w->again || op->rc == ERR_CONFLICT; /* it was claimed or changed meanwhile */
    if (op->rc == ERR_OK)
        transition_log_changed(q->server->setup.transitions, &w->replace, TASK_SCHEDULED);
    if (op->rc == ERR_OK && w->replace.state == TASK_SCHEDULED)
        request_nudge(q, &w->replace, 1);
    w->paused = w->paused || (op->rc == ERR_OK && w->replace.state == TASK_PAUSED);
    withdraw_continue(q);
}

/* Another node gave the occurrence back, or it has ended. If it waits, it is changed here as its owner would have
 * changed it. */
static enum handled withdraw_change_freed(struct request *q, struct reader *r)
{
    struct withdrawal *w = q->withdrawal;
    const struct task *claimed = &w->claimed.v[w->at - 1];
    struct error e = { 0 };
    struct task t;
    if (reader_get(r, claimed->tenant, claimed->id, &q->arena, &t, &e) || t.state != TASK_SCHEDULED ||
        withdraw_keeps(w, &t))
        return withdraw_recall_next(w);
    task_undo_delay(&t, claimed);
    w->replace = withdraw_replacement(w, &t);
    q->write.put = (struct op_put){
        .op = { .kind = OP_PUT }, .task = &w->replace, .version = t.version, .fence = t.fence, .state = t.state
    };
    return request_submit(q, withdraw_on_freed_put);
}

static void withdraw_on_recalled(struct request *q, enum recall_result result, bool known)
{
    struct withdrawal *w = q->withdrawal;
    bool unfired = w->claimed.v[w->at - 1].due_ms > clock_wall_ms(q->server->setup.clock);
    w->again = w->again || (result == RECALL_RUNNING && !known);
    w->unfired = w->unfired || (result == RECALL_RUNNING && !known && unfired);
    if (result == RECALL_DONE)
        w->replace.state = q->became;
    w->paused = w->paused || (result == RECALL_DONE && w->replace.state == TASK_PAUSED);
    if (result == RECALL_DONE && known) /* it had not fired */
        transition_log_changed(q->server->setup.transitions, &w->replace, TASK_SCHEDULED);
    if (result == RECALL_FREED)
        request_later(q, withdraw_change_freed);
    else
        withdraw_continue(q);
}

static void withdraw_on_withdrawn(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct withdrawal *w = q->withdrawal;
    w->paused = op->rc != ERR_OK; /* the task was changed meanwhile, or the store could not write: once more */
    w->failed = w->paused && op->rc != ERR_CONFLICT;
    if (op->rc == ERR_OK) {
        w->now.cursor_ms = q->write.put.ret_cursor_ms;
        request_nudge(q, &w->now, 1);
    }
    request_later(q, withdraw_run);
}

static enum handled withdraw_paused(struct request *q, struct reader *r)
{
    struct withdrawal *w = q->withdrawal;
    struct error e = { 0 };
    if (reader_get(r, w->parent->tenant, w->parent->id, &q->arena, &w->now, &e) || task_is_final(w->now.state))
        return withdraw_end(w);
    q->write.put = (struct op_put){ .op = { .kind = OP_PUT },
                                    .task = &w->now,
                                    .version = w->now.version,
                                    .fence = w->now.fence,
                                    .state = w->now.state,
                                    .cursor_ms = w->now.cursor_ms,
                                    .withdraw = true,
                                    .withdraw_from_ms = w->from_ms };
    /* spawning has gone on meanwhile, and may have made a row of skipped times behind the occurrence */
    if (withdraw_cuts(q, r, &w->now, &q->arena, &q->write.put, &e))
        return withdraw_end(w);
    return request_submit(q, withdraw_on_withdrawn);
}

/* The page from w->before on. */
static enum err withdraw_list_claimed(struct withdrawal *w, struct reader *r)
{
    struct error e = { 0 };
    struct task_page page = { 0 };
    struct task_filter f = { .tenant = w->parent->tenant,
                             .parent = w->parent->id,
                             .states = 1U << TASK_RUNNING,
                             .before = w->before,
                             .limit = PAGE };
    w->q->now_ms = clock_wall_ms(w->q->server->setup.clock);
    arena_reset(&w->page);
    enum err rc = reader_list(r, &f, &w->page, &page, &e);
    w->claimed = page.tasks;
    w->has_more = page.more;
    w->before = page.more ? page.next_before : (struct uuid){ { 0 } };
    return rc;
}

static void withdraw_tell_page(struct withdrawal *w)
{
    for (size_t i = 0; i < w->claimed.n; i++) {
        const struct task *t = &w->claimed.v[i];
        if (withdraw_keeps(w, t))
            continue;
        w->replace = withdraw_replacement(w, t);
        recall_tell(w->q, &(struct recall_order){ .running = t, .replace = &w->replace, .lasts = true, .tells = true });
    }
}

/* The time is over, and not all owners have answered: some have many tasks, or a queue is slow. All that is left is
 * asked for at once. What is returned now becomes what the recurring task says (OP_SETTLE 10, 11). */
static enum handled withdraw_tell_rest(struct request *q, struct reader *r)
{
    struct withdrawal *w = q->withdrawal;
    if (!w->told) {
        w->before = (struct uuid){ { 0 } };
        recall_group_begin(q, 0);
    }
    w->told = true;
    if (withdraw_list_claimed(w, r))
        return withdraw_end(w); /* the change is made, and the answer says so */
    withdraw_tell_page(w);
    return w->has_more ? request_later(q, withdraw_tell_rest) : withdraw_end(w);
}

static enum handled withdraw_next_page(struct request *q, struct reader *r)
{
    struct withdrawal *w = q->withdrawal;
    if (withdraw_list_claimed(w, r))
        return withdraw_end(w); /* the change is made, and the answer says so */
    w->at = 0;
    return withdraw_recall_next(w);
}

/* Each round lists all claimed occurrences. */
static enum handled withdraw_retry(struct withdrawal *w, int64_t left_ms)
{
    w->timer.fire = withdraw_on_retry_timer;
    timers_add(w->q->server->timers, &w->timer, w->failed ? STORE_RETRY_MS : min_of(w->retry_ms, left_ms));
    w->retry_ms = min_of(w->retry_ms * 2, (int64_t)RETRY_MAX_MS);
    w->failed = false;
    return HANDLED_LATER;
}

static enum handled withdraw_recall_next(struct withdrawal *w)
{
    while (w->at < w->claimed.n) {
        const struct task *t = &w->claimed.v[w->at++];
        if (withdraw_keeps(w, t))
            continue;
        w->replace = withdraw_replacement(w, t);
        struct recall_order order = { .running = t,
                                      /* the record is stored with the change itself */
                                      .replace = &w->replace,
                                      .lasts = withdraw_is_called_off(w->parent) };
        int64_t wait_ms = withdraw_wait_ms(w, t);
        if (recall_ask(w->q, &order, wait_ms, withdraw_on_recalled))
            return HANDLED_LATER;
        if (order.lasts && wait_ms <= 0)
            w->again = true;   /* withdraw_tell_rest */
        else if (wait_ms <= 0) /* an owner that was held up hears of it before it fires */
            recall_tell(w->q, &order);
    }
    if (w->has_more)
        return request_later(w->q, withdraw_next_page);
    if (w->paused && !w->failed)
        return request_later(w->q, withdraw_paused);
    const struct api_limits *l = &w->q->server->limits;
    bool is_long = w->unfired || w->failed;
    int64_t left_ms = withdraw_left_ms(w, is_long ? l->recall_stall_ms : l->recall_ms);
    bool is_over = left_ms <= 0;
    if (w->again && is_over && !w->told && withdraw_is_called_off(w->parent))
        return request_later(w->q, withdraw_tell_rest);
    if (!(w->again || w->failed) || is_over)
        return withdraw_end(w);
    return withdraw_retry(w, left_ms);
}

static enum handled withdraw_run(struct request *q, struct reader *r)
{
    struct withdrawal *w = q->withdrawal;
    w->before = (struct uuid){ { 0 } };
    w->again = w->unfired = false;
    return withdraw_next_page(q, r);
}

enum handled withdraw_claimed_then(struct request *q, const struct task *parent, int64_t from_ms, route_handler *then)
{
    struct api_server *s = q->server;
    if (!q->withdrawal)
        q->withdrawal = arena_new(&q->arena, struct withdrawal);
    *q->withdrawal = (struct withdrawal){ .from_ms = from_ms, .then = then, .retry_ms = RETRY_MS };
    arena_init(&q->withdrawal->page, PAGE_ARENA);
    q->withdrawal->q = q;
    q->withdrawal->parent = parent;
    q->withdrawal->begun_ns = clock_steady_ns(s->setup.clock);
    return request_later(q, withdraw_run);
}

enum handled withdraw_claimed(struct request *q, const struct task *parent, int64_t from_ms)
{
    return withdraw_claimed_then(q, parent, from_ms, NULL);
}
