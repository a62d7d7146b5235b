/* A round has these phases, one step of which is under way at a time:
 *  1. pages of handed-off tasks, each followed by the question which of them the queue knows, until all are seen;
 *  2. after a change of epoch, the missing tasks are asked about once more;
 *  3. the queue's state is read again: it must be the same epoch as at the beginning;
 *  4. an event barrier;
 *  5. the missing tasks are settled, a batch at a time (queue_loss.h).
 * Of a missing task only what settling needs is kept: there may be as many as wait in a large queue. A round that
 * fails is given up and begun anew soon: nothing was settled before its end.
 *
 * After a change of epoch, workers need time to renew what they run, which makes it known to the queue again. That is
 * why missing tasks are asked about a second time. So they are
 *  - when this node starts and does not know the epoch before;
 *  - until a round has come to its end;
 *  - if a missing task was pushed in another epoch: it was handed off since the last round, although its queue was
 *    gone by then. */
#include "node/fleet/reconcile.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/fleet/event_barrier.h"

enum {
    RECONCILE_PAGE = 2000,
    RECONCILE_PAGE_ARENA = 256 << 20,
    RECONCILE_PAGE_BYTES = 64 << 20,
    RECONCILE_MISSING_ARENA = 1 << 30,
    RECONCILE_RETRY_MS = 1000, /* after a round that failed */
};

enum round_phase { ROUND_NONE, ROUND_PAGES, ROUND_CHECK, ROUND_EPOCH, ROUND_BARRIER, ROUND_SETTLE };

struct reconcile {
    struct reconcile_setup setup;

    struct io_stats look;
    struct queue_state state;
    bool looking, answers, has_epoch;
    int64_t silent_ms;  /* steady: since when it does not answer */
    int64_t look_at_ms; /* steady */
    int looks_wanted;   /* ROUND_EPOCH: reads of the state that must come back, the last one sent after all questions */
    bool changed;       /* the epoch has changed, and no round since has seen every claim from before that */
    struct moment changed_at; /* when */

    enum round_phase phase;
    bool busy;           /* the step of the phase is under way */
    bool again, stopped; /* again: the round has failed */
    uint64_t round_epoch;
    int64_t round_at_ms, check_at_ms; /* steady; check_at_ms: INT64_MIN if missing tasks are not asked about again */
    int64_t before_ms;                /* wall: claims from before that are asked about */
    union {
        struct op op;
        struct op_handed_off handed;
    };
    struct io_known known;
    struct fenced_id *ids;  /* of the page, like the next two */
    uint64_t *asked_epochs; /* the epochs in which they were pushed */
    bool *answer;
    size_t checked, kept; /* missing tasks that were asked about again; those that are still not known */
    struct event_barrier_wait barrier;
    struct arena arena; /* for the missing tasks */
    struct queue_loss_task *missing;
    uint64_t *epochs; /* in which the missing tasks were pushed, until they are asked about again */
    size_t n, cap, done;
    struct queue_loss settling;
    size_t batch;
    struct moment now;
};

static bool reconcile_is_busy(const struct reconcile *r)
{
    return r->busy || r->barrier.asking;
}

/* ---- the queue's state ---- */

static void reconcile_on_look(struct io_request *e)
{
    struct reconcile *r = e->context;
    r->looking = false;
    if (e->rc && r->answers) {
        log_warn("queue_down", kv_err(&e->error));
        r->silent_ms = r->now.steady_ms;
    }
    r->answers = e->rc == ERR_OK;
    if (e->rc)
        return;
    bool changed = r->has_epoch && r->look.ret.epoch != r->state.epoch;
    if (changed)
        log_warn("queue_changed", kv_cstr("remedy", "what it has forgotten is claimed anew"));
    if (changed || !r->has_epoch) {
        r->changed = true;
        r->changed_at = r->now;
        r->round_at_ms = r->now.steady_ms;
    }
    r->has_epoch = true;
    r->looks_wanted -= r->looks_wanted > 0;
    r->state = r->look.ret;
    metric_set(r->setup.reaper.metrics, METRIC_QUEUE_WAITING, (double)max_of(r->state.waiting, (int64_t)0));
    r->setup.answers(r->setup.reaper.context);
}

static void reconcile_look(struct reconcile *r)
{
    if (r->looking || r->stopped || r->look_at_ms > r->now.steady_ms)
        return;
    r->looking = true;
    r->look_at_ms = r->now.steady_ms + RECONCILE_LOOK_MS;
    r->look = (struct io_stats){ .io_request = { .kind = IO_STATS, .done = reconcile_on_look, .context = r } };
    async_io_submit(r->setup.reaper.async_io, &r->look.io_request);
}

/* ---- a round ---- */

static void reconcile_end_round(struct reconcile *r, int64_t next_ms)
{
    arena_release(&r->arena);
    free(r->missing);
    free(r->epochs);
    free(r->ids);
    free(r->asked_epochs);
    free(r->answer);
    r->missing = NULL;
    r->epochs = NULL;
    r->ids = NULL;
    r->asked_epochs = NULL;
    r->answer = NULL;
    r->n = r->cap = r->done = r->checked = r->kept = 0;
    event_barrier_leave(&r->barrier);
    r->phase = ROUND_NONE;
    r->again = false;
    r->round_at_ms = r->now.steady_ms + next_ms;
}

static void reconcile_fail_round(struct reconcile *r, const struct error *e)
{
    log_warn("reconcile_failed", kv_err(e));
    r->again = true;
}

/* It was pushed in an epoch that is over. */
static bool reconcile_is_of_another_epoch(const struct reconcile *r, uint64_t epoch)
{
    return epoch && epoch != r->round_epoch;
}

static bool reconcile_checks_again(const struct reconcile *r)
{
    return r->check_at_ms != INT64_MIN;
}

static void reconcile_note_missing(struct reconcile *r, const struct task *t, uint64_t epoch)
{
    if (r->n == r->cap) {
        r->cap = max_of(r->cap * 2, (size_t)256);
        r->missing = xrealloc(r->missing, r->cap * sizeof *r->missing);
        r->epochs = xrealloc(r->epochs, r->cap * sizeof *r->epochs);
    }
    if (!reconcile_checks_again(r) && reconcile_is_of_another_epoch(r, epoch))
        r->check_at_ms = r->now.steady_ms + RECONCILE_RENEW_MS;
    if (!queue_loss_note(&r->settling, t, &r->arena, &r->missing[r->n]))
        return; /* no room: the next round finds it */
    r->epochs[r->n++] = epoch;
}

static void reconcile_ask_known(struct reconcile *r, size_t n, void (*done)(struct io_request *e))
{
    r->known = (struct io_known){ .io_request = { .kind = IO_KNOWN, .done = done, .context = r },
                                  .v = r->ids,
                                  .epochs = r->asked_epochs,
                                  .n = n,
                                  .ret = r->answer };
    async_io_submit(r->setup.reaper.async_io, &r->known.io_request);
}

static void reconcile_on_page_known(struct io_request *e)
{
    struct reconcile *r = e->context;
    struct tasks page = r->handed.ret;
    r->busy = false;
    if (e->rc)
        reconcile_fail_round(r, &e->error);
    for (size_t i = 0; e->rc == ERR_OK && i < page.n; i++)
        if (!r->answer[i])
            reconcile_note_missing(r, &page.v[i], r->asked_epochs[i]);
    r->phase = r->handed.ret_more ? ROUND_PAGES : ROUND_CHECK;
    if (page.n)
        r->handed.after = (struct handed_place){ page.v[page.n - 1].claim, page.v[page.n - 1].id };
    arena_release(&r->op.arena);
}

/* Tasks that are still missing move to the front. */
static void reconcile_on_checked(struct io_request *e)
{
    struct reconcile *r = e->context;
    r->busy = false;
    if (e->rc) {
        reconcile_fail_round(r, &e->error);
        return;
    }
    for (size_t i = 0; i < r->known.n; i++)
        if (!r->answer[i])
            r->missing[r->kept++] = r->missing[r->checked + i];
    r->checked += r->known.n;
}

static void reconcile_ask_epoch_again(struct reconcile *r)
{
    r->phase = ROUND_EPOCH;
    r->looks_wanted = r->looking ? 2 : 1; /* one that is in flight may have been answered before the last question */
    r->look_at_ms = r->now.steady_ms;
    reconcile_look(r);
}

/* Only after a change of epoch: otherwise a worker that runs the task has renewed it all the time. */
static void reconcile_check(struct reconcile *r)
{
    size_t n = min_of(r->n - r->checked, (size_t)RECONCILE_PAGE);
    if (!reconcile_checks_again(r) || !n) {
        r->n = reconcile_checks_again(r) ? r->kept : r->n;
        r->phase = ROUND_NONE;
        if (r->n)
            reconcile_ask_epoch_again(r);
        return;
    }
    if (r->check_at_ms > r->now.steady_ms)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct settle_facts *t = &r->missing[r->checked + i].facts;
        r->ids[i] = (struct fenced_id){ t->id, t->fence };
        r->asked_epochs[i] = r->epochs[r->checked + i];
    }
    r->busy = true;
    reconcile_ask_known(r, n, reconcile_on_checked);
}

/* If the queue was wiped in the middle of the round, running tasks are missing, too: no worker has renewed them yet. */
static void reconcile_check_epoch(struct reconcile *r)
{
    if (r->looks_wanted)
        return;
    bool is_same = r->state.epoch == r->round_epoch;
    r->phase = is_same ? ROUND_BARRIER : ROUND_NONE;
    r->n = is_same ? r->n : 0;
    if (is_same)
        event_barrier_begin(&r->barrier, r->now);
}

static void reconcile_on_page(struct op *op)
{
    struct reconcile *r = op->context;
    if (op->rc == ERR_OK) {
        for (size_t i = 0; i < r->handed.ret.n; i++) {
            r->ids[i] = (struct fenced_id){ r->handed.ret.v[i].id, r->handed.ret.v[i].fence };
            r->asked_epochs[i] = r->handed.ret_epochs[i];
        }
        reconcile_ask_known(r, r->handed.ret.n, reconcile_on_page_known);
        return;
    }
    r->busy = false;
    reconcile_fail_round(r, &op->error);
    arena_release(&op->arena);
}

static void reconcile_ask_page(struct reconcile *r)
{
    struct handed_place after = r->handed.after;
    r->busy = true;
    r->handed = (struct op_handed_off){ .op = { .kind = OP_HANDED_OFF, .done = reconcile_on_page, .context = r },
                                        .before_ms = r->before_ms,
                                        .after = after,
                                        .max = RECONCILE_PAGE,
                                        .max_bytes = RECONCILE_PAGE_BYTES };
    arena_init(&r->op.arena, RECONCILE_PAGE_ARENA);
    writer_submit(r->setup.reaper.writer, &r->op);
}

static void reconcile_wait_for_barrier(struct reconcile *r)
{
    event_barrier_step(&r->barrier, r->now);
    if (r->barrier.state == EVENT_BARRIER_PASSED)
        r->phase = ROUND_SETTLE;
    else if (r->barrier.state == EVENT_BARRIER_FAILED)
        reconcile_fail_round(r, &r->barrier.error);
}

static void reconcile_on_batch_settled(void *context)
{
    struct reconcile *r = context;
    r->busy = false;
    r->done += r->batch;
    r->setup.reaper.batch_settled(r->setup.reaper.context);
}

static void reconcile_settle_batch(struct reconcile *r)
{
    r->batch = min_of(r->n - r->done, (size_t)QUEUE_LOSS_BATCH);
    r->busy = true;
    queue_loss_settle(&r->settling, r->missing + r->done, r->batch);
}

static void reconcile_begin_round(struct reconcile *r)
{
    r->before_ms = r->now.wall_ms - RECONCILE_MS;
    if (r->changed) /* every claim from before the change; the clock may have been set back since */
        r->before_ms = max_of(r->before_ms, min_of(r->changed_at.wall_ms, r->now.wall_ms));
    r->check_at_ms = r->changed ? r->changed_at.steady_ms + RECONCILE_RENEW_MS : INT64_MIN;
    r->round_epoch = r->state.epoch;
    r->phase = ROUND_PAGES;
    r->handed.after = (struct handed_place){ 0 };
    r->ids = xcalloc(RECONCILE_PAGE, sizeof *r->ids);
    r->asked_epochs = xcalloc(RECONCILE_PAGE, sizeof *r->asked_epochs);
    r->answer = xcalloc(RECONCILE_PAGE, sizeof *r->answer);
    arena_init(&r->arena, RECONCILE_MISSING_ARENA);
}

static bool reconcile_is_time(const struct reconcile *r)
{
    return r->round_at_ms <= r->now.steady_ms && r->answers && r->has_epoch && !r->stopped;
}

/* The epoch has changed: the answers so far say nothing of the queue as it is now. The next round begins at once. */
static bool reconcile_is_outdated(const struct reconcile *r)
{
    return (r->phase == ROUND_PAGES || r->phase == ROUND_CHECK) && r->state.epoch != r->round_epoch;
}

/* One step of the round, if it is time for one. */
static void reconcile_go_on(struct reconcile *r)
{
    if (reconcile_is_outdated(r)) {
        r->phase = ROUND_NONE;
        r->n = 0;
        return;
    }
    if (r->phase == ROUND_NONE && reconcile_is_time(r) && r->setup.is_leader(r->setup.reaper.context))
        reconcile_begin_round(r);
    switch (r->phase) {
    case ROUND_NONE: break;
    case ROUND_PAGES: reconcile_ask_page(r); break;
    case ROUND_CHECK: reconcile_check(r); break;
    case ROUND_EPOCH: reconcile_check_epoch(r); break;
    case ROUND_BARRIER: reconcile_wait_for_barrier(r); break;
    case ROUND_SETTLE:
        if (r->done < r->n)
            reconcile_settle_batch(r);
        break;
    }
}

/* Ends the round if it is over; whether it did, and the next one has time. */
static bool reconcile_ends_round(struct reconcile *r)
{
    if (r->phase == ROUND_NONE && !r->ids)
        return false;
    if (r->again || r->stopped) {
        reconcile_end_round(r, RECONCILE_RETRY_MS);
        return true;
    }
    if (r->phase != ROUND_NONE && (r->phase != ROUND_SETTLE || r->done < r->n))
        return false;
    if (r->n)
        log_warn("queue_forgot", kv_i64("tasks", (int64_t)r->n));
    bool is_same = r->state.epoch == r->round_epoch;
    r->changed = r->changed && !is_same;
    reconcile_end_round(r, is_same ? RECONCILE_MS : 0);
    return is_same;
}

static int64_t reconcile_next_ms(const struct reconcile *r)
{
    int64_t wake = r->looking ? INT64_MAX : r->look_at_ms;
    if (!reconcile_is_busy(r))
        wake = r->phase == ROUND_BARRIER                           ? min_of(wake, r->barrier.ask_at_ms)
               : r->phase == ROUND_CHECK                           ? min_of(wake, r->check_at_ms)
               : r->phase == ROUND_NONE || r->phase == ROUND_EPOCH ? wake
                                                                   : r->now.steady_ms;
    return moment_wall_at(r->now, wake);
}

/* ---- public functions ---- */

struct reconcile *reconcile_new(const struct reconcile_setup *setup, struct moment now)
{
    struct reconcile *r = xnew(*r);
    r->setup = *setup;
    r->barrier.async_io = setup->reaper.async_io;
    r->now = now;
    r->look_at_ms = now.steady_ms;
    r->round_at_ms = now.steady_ms; /* the leader before this node may have died in a round */
    r->answers = true;
    struct queue_loss_setup settling = { .reaper = setup->reaper,
                                         .scheduler = setup->scheduler,
                                         .batch_over = reconcile_on_batch_settled,
                                         .batch_context = r };
    settling.reaper.batch_settled = NULL;
    queue_loss_init(&r->settling, &settling);
    return r;
}

void reconcile_free(struct reconcile *r)
{
    assert(!r || reconcile_is_idle(r));
    free(r);
}

int64_t reconcile_step(struct reconcile *r, struct moment now, int64_t behind_ms)
{
    r->now = now;
    int64_t wake = queue_loss_step(&r->settling, now, behind_ms);
    reconcile_look(r);
    while (!reconcile_is_busy(r) && !reconcile_ends_round(r)) {
        enum round_phase before = r->phase;
        size_t checked = r->checked, done = r->done;
        reconcile_go_on(r);
        if (reconcile_is_busy(r) || (r->phase == before && r->checked == checked && r->done == done))
            break; /* a step is under way, or there is nothing to do now */
    }
    return r->stopped ? wake : min_of(wake, reconcile_next_ms(r));
}

void reconcile_stop(struct reconcile *r)
{
    r->stopped = true;
    queue_loss_stop(&r->settling);
}

bool reconcile_is_idle(const struct reconcile *r)
{
    return !reconcile_is_busy(r) && !r->looking && r->phase == ROUND_NONE && !r->ids &&
           queue_loss_is_idle(&r->settling);
}

int64_t reconcile_silent_ms(const struct reconcile *r)
{
    return r->answers ? 0 : r->now.steady_ms - r->silent_ms;
}

bool reconcile_is_steady(const struct reconcile *r, uint64_t *ret_epoch)
{
    *ret_epoch = r->state.epoch;
    return r->answers && r->has_epoch && r->now.steady_ms - r->changed_at.steady_ms >= RECONCILE_RENEW_MS;
}

bool reconcile_state(const struct reconcile *r, struct queue_state *ret)
{
    if (!r->answers || !r->has_epoch)
        return false;
    *ret = r->state;
    return true;
}
