/* A round: pages of handed tasks, each followed by the question which of them the queue knows, until all are seen; a look whether it was the
 * same queue all the time; a mark in the events, and a wait until it has passed; then what is missing is settled, a batch at a time. One step of it is under way at a time. Of what is missing, only what settling needs is kept: there may be as many as wait in a
 * large queue. A round that fails is given up and begun anew soon: nothing was settled before its end.
 *
 * After another epoch what is missing is asked about once more, when workers have had time to renew what they run: that makes it known
 * again. So it is when we begin, and do not know what was before; until a round has come to its end; and when something is missing that was
 * pushed in another epoch: it was handed over since the last round, though its queue was gone by then. */
#include "node/fleet/reconcile.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/fleet/event_barrier.h"

enum {
    PAGE = 2000,
    PAGE_ARENA = 256 << 20,
    PAGE_BYTES = 64 << 20,
    QUEUE_LOSS_ARENA = 1 << 30,
    AGAIN_MS = 1000, /* after a round that failed */
};

enum phase { REST, PAGES, CHECK, SAME, MARK, SETTLE };

struct reconcile {
    struct reconcile_setup setup;

    struct io_stats look;
    struct queue_state state;
    bool looking, answers, has_epoch;
    int64_t look_at_ms;       /* steady */
    int looks_wanted;         /* SAME: before one that was sent after the last question has come back */
    bool changed;             /* another epoch was noticed, and no round since has looked at all before it */
    struct moment changed_at; /* when */

    enum phase phase;
    bool busy;           /* the phase's step is under way */
    bool again, stopped; /* the round has failed */
    uint64_t round_epoch;
    int64_t round_at_ms, check_at_ms; /* steady; check: INT64_MIN if nothing is asked about again */
    int64_t before_ms;                /* wall */
    union {
        struct op op;
        struct op_handed_off handed;
    };
    struct io_known known;
    struct fenced_id *ids;  /* PAGE of them, like the next two */
    uint64_t *asked_epochs; /* in which they were pushed */
    bool *answer;
    size_t checked, kept; /* of those that are missing: asked about again; and not known still */
    struct event_barrier_wait mark;
    struct arena arena; /* of what is missing, like the next */
    struct queue_loss_task *missing;
    uint64_t *epochs; /* of those that are missing, until they are asked about again */
    size_t n, cap, done;
    struct queue_loss settling;
    size_t batch;
    struct moment now;
};

static bool reconcile_is_busy(const struct reconcile *r)
{
    return r->busy || r->mark.asking;
}

/* ---- looking ---- */

static void reconcile_on_look(struct io_request *e)
{
    struct reconcile *r = e->context;
    r->looking = false;
    if (e->rc && r->answers)
        log_warn("queue_down", kv_err(&e->error));
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
    metric_set(r->setup.reaper.metrics, METRIC_QUEUE_DEPTH, (double)max_of(r->state.waiting, (int64_t)0));
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
    event_barrier_leave(&r->mark);
    r->phase = REST;
    r->again = false;
    r->round_at_ms = r->now.steady_ms + next_ms;
}

static void reconcile_fail_round(struct reconcile *r, const struct error *e)
{
    log_warn("reconcile_failed", kv_err(e));
    r->again = true;
}

/* Pushed in an epoch that is over: as after one that ends while we look. */
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
        return; /* too many for one round: the next one finds it */
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
    r->phase = r->handed.ret_more ? PAGES : CHECK;
    if (page.n)
        r->handed.after = (struct handed_place){ page.v[page.n - 1].claim, page.v[page.n - 1].id };
    arena_release(&r->op.arena);
}

/* Those that are missing still move to the front. */
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
    r->phase = SAME;
    r->looks_wanted = r->looking ? 2 : 1; /* one that is under way may have been there before the last question */
    r->look_at_ms = r->now.steady_ms;
    reconcile_look(r);
}

/* Only after another epoch: else whoever runs one has renewed it all the time. */
static void reconcile_check(struct reconcile *r)
{
    size_t n = min_of(r->n - r->checked, (size_t)PAGE);
    if (!reconcile_checks_again(r) || !n) {
        r->n = reconcile_checks_again(r) ? r->kept : r->n;
        r->phase = REST;
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

/* Had it been wiped in the middle of the round, what runs would be missing, too: nobody has renewed it yet. */
static void reconcile_check_epoch(struct reconcile *r)
{
    if (r->looks_wanted)
        return;
    bool is_same = r->state.epoch == r->round_epoch;
    r->phase = is_same ? MARK : REST;
    r->n = is_same ? r->n : 0;
    if (is_same)
        event_barrier_begin(&r->mark, r->now);
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
                                        .max = PAGE,
                                        .max_bytes = PAGE_BYTES };
    arena_init(&r->op.arena, PAGE_ARENA);
    writer_submit(r->setup.reaper.writer, &r->op);
}

static void reconcile_wait_for_barrier(struct reconcile *r)
{
    event_barrier_step(&r->mark, r->now);
    if (r->mark.state == EVENT_BARRIER_PASSED)
        r->phase = SETTLE;
    else if (r->mark.state == EVENT_BARRIER_FAILED)
        reconcile_fail_round(r, &r->mark.error);
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
    if (r->changed) /* all that was claimed before that; the clock may have been set back since */
        r->before_ms = max_of(r->before_ms, min_of(r->changed_at.wall_ms, r->now.wall_ms));
    r->check_at_ms = r->changed ? r->changed_at.steady_ms + RECONCILE_RENEW_MS : INT64_MIN;
    r->round_epoch = r->state.epoch;
    r->phase = PAGES;
    r->handed.after = (struct handed_place){ 0 };
    r->ids = xcalloc(PAGE, sizeof *r->ids);
    r->asked_epochs = xcalloc(PAGE, sizeof *r->asked_epochs);
    r->answer = xcalloc(PAGE, sizeof *r->answer);
    arena_init(&r->arena, QUEUE_LOSS_ARENA);
}

static bool reconcile_is_time(const struct reconcile *r)
{
    return r->round_at_ms <= r->now.steady_ms && r->answers && r->has_epoch && !r->stopped;
}

/* What it has asked so far says nothing of the queue as it is now: the next one does not wait for the rest. */
static bool reconcile_is_outdated(const struct reconcile *r)
{
    return (r->phase == PAGES || r->phase == CHECK) && r->state.epoch != r->round_epoch;
}

/* One step of the round, if it is time for one. */
static void reconcile_go_on(struct reconcile *r)
{
    if (reconcile_is_outdated(r)) {
        r->phase = REST;
        r->n = 0;
        return;
    }
    if (r->phase == REST && reconcile_is_time(r) && r->setup.is_leader(r->setup.reaper.context))
        reconcile_begin_round(r);
    switch (r->phase) {
    case REST: break;
    case PAGES: reconcile_ask_page(r); break;
    case CHECK: reconcile_check(r); break;
    case SAME: reconcile_check_epoch(r); break;
    case MARK: reconcile_wait_for_barrier(r); break;
    case SETTLE:
        if (r->done < r->n)
            reconcile_settle_batch(r);
        break;
    }
}

/* Whether it was ended here, and the next one has time. */
static bool reconcile_ends_round(struct reconcile *r)
{
    if (r->phase == REST && !r->ids)
        return false;
    if (r->again || r->stopped) {
        reconcile_end_round(r, AGAIN_MS);
        return true;
    }
    if (r->phase != REST && (r->phase != SETTLE || r->done < r->n))
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
        wake = r->phase == MARK                       ? min_of(wake, r->mark.ask_at_ms)
               : r->phase == CHECK                    ? min_of(wake, r->check_at_ms)
               : r->phase == REST || r->phase == SAME ? wake
                                                      : r->now.steady_ms;
    return moment_wall_at(r->now, wake);
}

/* ---- doors ---- */

struct reconcile *reconcile_new(const struct reconcile_setup *setup, struct moment now)
{
    struct reconcile *r = xnew(*r);
    r->setup = *setup;
    r->mark.async_io = setup->reaper.async_io;
    r->now = now;
    r->look_at_ms = now.steady_ms;
    r->round_at_ms = now.steady_ms; /* whoever led before us may have died in a round */
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
        enum phase before = r->phase;
        size_t checked = r->checked, done = r->done;
        reconcile_go_on(r);
        if (reconcile_is_busy(r) || (r->phase == before && r->checked == checked && r->done == done))
            break; /* under way, or there is nothing to do now */
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
    return !reconcile_is_busy(r) && !r->looking && r->phase == REST && !r->ids && queue_loss_is_idle(&r->settling);
}

bool reconcile_state(const struct reconcile *r, struct queue_state *ret)
{
    if (!r->answers || !r->has_epoch)
        return false;
    *ret = r->state;
    return true;
}
