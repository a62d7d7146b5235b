/* A batch is one answer of OP_ORPHANS. It is asked again until nothing is left.
 *
 * Whether a task was alone can be told only from an answer that was not full. Of a full one, LEFT_BEHIND claims that
 * may have fired are left for later: if this node dies before that, the next one must not find a task alone that was
 * not.
 *
 * In a fleet (view_queue) a batch is either settled or asked about: if any of its tasks cannot have fired, these are
 * returned, and the others wait for a batch that has none. A claim is handed off whole, so such a batch should have all
 * that is left: while it is full, more are read at a time. If even the largest batch is full, what a claim holds beyond
 * it is left to reconcile, as soon as half of the batch is in the queue. */
#include "node/cluster/recovery.h"

#include <stdlib.h>

#include "base/log.h"
#include "node/fleet/queued_orphans.h"

enum {
    ORPHANS_MAX = 1000,
    ORPHANS_MOST = 16 * ORPHANS_MAX, /* in a fleet */
    ORPHANS_MIN = 4,
    ORPHANS_ARENA = 256 << 20,
    ORPHANS_RETRY_MS = 500,
    QUEUE_RETRY_MS = 2000,
    LEFT_BEHIND = 2,
};

struct recovery {
    struct reaper reaper;
    struct recovery_setup setup;
    struct op_orphans ask;     /* its arena holds the tasks of the batch */
    bool *fired;               /* of the batch: those that may have fired, `fired_count` of them */
    const struct task **tasks; /* of the batch: those that are being settled */
    size_t fired_count, max, total;
    size_t known, handed; /* of the batch, those that the queue has; of all, those that were handed off */
    struct uuid node;     /* this node's id: its own claims are not orphaned */
    bool over, suspects;
    bool again;      /* a node was marked dead since the last question */
    bool large;      /* the tasks are: as many as `max` have no room */
    bool waits;      /* some wait for the queue, and that was logged */
    bool asks_queue; /* the batch is asked about: all of it may have fired */
    struct queued_orphans queued;
};

static struct recovery *recovery_of(struct reaper *r)
{
    return container_of(r, struct recovery, reaper);
}

static bool recovery_is_full(const struct recovery *r)
{
    return r->ask.ret.n >= r->max;
}

static void recovery_wait(struct recovery *r, int64_t ms)
{
    r->reaper.ask_at_ms = r->reaper.now.steady_ms + ms;
}

/* ---- finding orphaned claims ---- */

static void recovery_nothing_is_left(struct recovery *r)
{
    if (r->again)
        return;
    r->reaper.ask_at_ms = INT64_MAX;
    r->over = true;
    if (r->total || r->handed)
        log_info("recovered", kv_i64("tasks", (int64_t)r->total), kv_i64("in_queue", (int64_t)r->handed));
    r->total = r->handed = 0;
    r->max = ORPHANS_MAX;
    r->large = r->waits = false;
}

/* A task that is due after everything that its node has fired cannot have fired, nor can one that is not due yet. If
 * the clock was set back since, the claim's id was made in what is now the future: then only the node's own word
 * counts. A task that runs at most once is never claimed before its time. */
static bool recovery_may_have_fired(const struct recovery *r, size_t i)
{
    const struct task *t = &r->ask.ret.v[i];
    int64_t now_ms = r->reaper.now.wall_ms;
    if (t->delivery == DELIVER_AT_MOST_ONCE)
        return true;
    if (t->due_ms > r->ask.ret_fires_until_ms[i])
        return false;
    return t->due_ms <= min_of(now_ms, r->setup.last_fired_ms) || uuid_time_ms(t->claim) > now_ms;
}

/* Once for a batch: the clock goes on, or is set, before it is settled. */
static void recovery_judge(struct recovery *r)
{
    size_t n = r->ask.ret.n;
    r->fired = xcalloc(n, sizeof *r->fired);
    r->fired_count = 0;
    for (size_t i = 0; i < n; i++)
        r->fired_count += r->fired[i] = recovery_may_have_fired(r, i);
}

static void recovery_wait_for_queue(struct recovery *r)
{
    if (log_first_failure(&r->waits, ERR_UNAVAILABLE))
        log_warn("orphans_wait_for_queue", kv_i64("tasks", (int64_t)r->ask.ret.n));
    recovery_wait(r, QUEUE_RETRY_MS);
    reaper_found(&r->reaper, 0);
}

/* All of the batch may have fired. It is asked about, or settled, or read again. */
static void recovery_found_fired(struct recovery *r)
{
    uint64_t epoch;
    bool grows = recovery_is_full(r) && !r->large && r->max < ORPHANS_MOST;
    enum queue_view view = r->setup.view_queue(r->setup.context, &epoch);
    if (r->reaper.stopped || grows) {
        r->max = grows ? r->max * 4 : r->max;
        reaper_found(&r->reaper, 0);
        return;
    }
    r->over = r->over || uuid_eq(r->ask.not_node, r->node); /* else this node has joined anew since the question */
    if (view == QUEUE_VIEW_WAIT) {
        recovery_wait_for_queue(r);
    } else if (view == QUEUE_VIEW_DOWN) {
        reaper_found(&r->reaper, r->ask.ret.n);
    } else {
        r->asks_queue = true;
        queued_orphans_ask(&r->queued, &r->ask.ret, epoch);
    }
}

static void recovery_on_queue_answered(void *context, bool ok)
{
    struct recovery *r = context;
    if (!ok) {
        recovery_wait_for_queue(r);
        return;
    }
    r->waits = false;
    r->reaper.barrier_wanted = true;
    reaper_found(&r->reaper, r->ask.ret.n);
}

static void recovery_found(struct recovery *r)
{
    size_t n = r->ask.ret.n;
    if (n == 0)
        recovery_nothing_is_left(r);
    recovery_judge(r);
    if (n == 0 || !r->setup.view_queue || r->fired_count < n)
        reaper_found(&r->reaper, n);
    else
        recovery_found_fired(r);
}

static void recovery_on_orphans(struct op *op)
{
    struct recovery *r = op->context;
    if (op->rc == ERR_OK) {
        recovery_found(r);
        return;
    }
    bool too_many = op->rc == ERR_LIMIT ? r->max > ORPHANS_MIN : r->max > ORPHANS_MAX;
    if (too_many) {
        r->max = max_of(r->max / 2, (size_t)ORPHANS_MIN); /* fewer at a time */
        r->large = r->large || op->rc == ERR_LIMIT;
        if (op->rc != ERR_LIMIT)
            recovery_wait(r, ORPHANS_RETRY_MS);
    } else {
        log_warn("recovery_failed", kv_err(&op->error));
        recovery_wait(r, ORPHANS_RETRY_MS);
    }
    reaper_found(&r->reaper, 0);
}

static void recovery_ask(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    r->ask = (struct op_orphans){ .op = { .kind = OP_ORPHANS, .done = recovery_on_orphans, .context = r },
                                  .not_node = r->node,
                                  .max = r->max };
    arena_init(&r->ask.op.arena, ORPHANS_ARENA);
    r->again = false;
    writer_submit(r->reaper.setup.writer, &r->ask.op);
}

/* ---- verdicts ---- */

static void recovery_decide_one(struct recovery *r, size_t i, bool alone)
{
    const struct task *t = &r->ask.ret.v[i];
    struct lost how = { r->fired[i], alone };
    r->tasks[r->reaper.n] = t;
    reaper_add(&r->reaper, lost_verdict_settle(t, how, reaper_verdict_ms(&r->reaper), &r->reaper.random,
                                               &r->reaper.arena, reaper_next_event(&r->reaper)));
}

/* Without a queue that could be asked, or some tasks of the batch cannot have fired: the others are left then. */
static void recovery_decide_all(struct recovery *r)
{
    bool in_fleet = r->setup.view_queue && r->fired_count < r->ask.ret.n;
    bool alone = !recovery_is_full(r) && r->fired_count == 1;
    size_t left = recovery_is_full(r) ? LEFT_BEHIND : 0;
    for (size_t i = 0; i < r->ask.ret.n; i++) {
        bool leaves = r->fired[i] && (in_fleet || left);
        left -= leaves && left;
        if (!leaves)
            recovery_decide_one(r, i, alone);
    }
}

/* A task that the queue does not know was on its way there, or ran in the dead node itself. It is the one to blame only
 * if nothing else is known of that node. */
static void recovery_decide_by_queue(struct recovery *r)
{
    size_t n = r->ask.ret.n, known = 0;
    bool full = recovery_is_full(r);
    for (size_t i = 0; i < n; i++)
        known += queued_orphans_has(&r->queued, i);
    bool hands_off = known && (!full || known >= n / 2);
    size_t left = full && !hands_off ? LEFT_BEHIND : 0;
    for (size_t i = 0; i < n; i++) {
        if (!queued_orphans_has(&r->queued, i) && left)
            left--;
        else if (!queued_orphans_has(&r->queued, i))
            recovery_decide_one(r, i, !full && n == 1);
        else if (hands_off)
            queued_orphans_add_claim(&r->queued, r->ask.ret.v[i].claim);
    }
    r->known = known;
}

static void recovery_decide(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    r->tasks = xcalloc(r->ask.ret.n, sizeof *r->tasks);
    if (r->asks_queue)
        recovery_decide_by_queue(r);
    else
        recovery_decide_all(r);
}

static void recovery_on_settled(struct reaper *reaper, size_t i)
{
    struct recovery *r = recovery_of(reaper);
    const struct verdict *v = &reaper->settlements[i].verdict;
    struct task now = *r->tasks[i];
    r->total++;
    r->setup.settled(r->setup.context, &reaper->events[i], &reaper->settlements[i]);
    if (v->next != TASK_SCHEDULED)
        return;
    now.losses = v->losses;
    now.due_ms = v->due_ms;
    r->setup.nudge(r->setup.context, &now);
    r->suspects = r->suspects || task_is_suspect(&now);
}

/* ---- hand-off ---- */

static void recovery_on_handed_off(void *context, const struct op_handoff *op)
{
    struct recovery *r = context;
    if (op->op.rc == ERR_CONFLICT)
        r->setup.refused(r->setup.context);
    if (op->op.rc)
        recovery_wait(r, ORPHANS_RETRY_MS);
    else
        r->handed += r->known;
    reaper_acknowledged(&r->reaper);
}

static void recovery_acknowledge(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    if (!queued_orphans_hand_off(&r->queued, r->node))
        reaper_acknowledged(reaper);
}

static void recovery_on_batch_over(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    arena_release(&r->ask.op.arena);
    free(r->tasks);
    free(r->fired);
    r->tasks = NULL;
    r->fired = NULL;
    r->asks_queue = r->reaper.barrier_wanted = false;
    queued_orphans_release(&r->queued);
}

static const struct reaper_source recovery_source = {
    .name = "recovery",
    .ask = recovery_ask,
    .decide = recovery_decide,
    .settled = recovery_on_settled,
    .acknowledge = recovery_acknowledge,
    .batch_over = recovery_on_batch_over,
};

/* ---- public functions ---- */

struct recovery *recovery_new(const struct recovery_setup *setup)
{
    struct recovery *r = xnew(*r);
    r->setup = *setup;
    r->max = ORPHANS_MAX;
    reaper_init(&r->reaper, &recovery_source, &setup->reaper);
    queued_orphans_init(&r->queued, &(struct queued_orphans_setup){ .async_io = setup->reaper.async_io,
                                                                    .writer = setup->reaper.writer,
                                                                    .answered = recovery_on_queue_answered,
                                                                    .handed_off = recovery_on_handed_off,
                                                                    .context = r });
    r->reaper.ask_at_ms = INT64_MAX;
    return r;
}

void recovery_free(struct recovery *r)
{
    if (!r)
        return;
    reaper_release(&r->reaper);
    free(r);
}

int64_t recovery_step(struct recovery *r, struct moment now)
{
    return reaper_step(&r->reaper, now, 0, true);
}

void recovery_begin(struct recovery *r, struct uuid node, struct moment now)
{
    r->node = node;
    r->over = false;
    recovery_on_death(r, now);
}

void recovery_look_again(struct recovery *r, struct moment now)
{
    r->again = true;
    if (r->reaper.ask_at_ms == INT64_MAX)
        r->reaper.ask_at_ms = now.steady_ms;
}

void recovery_on_death(struct recovery *r, struct moment now)
{
    reaper_leave(&r->reaper);
    recovery_look_again(r, now);
}

void recovery_stop(struct recovery *r)
{
    reaper_stop(&r->reaper);
}

bool recovery_is_over(const struct recovery *r)
{
    return r->over;
}

bool recovery_found_suspects(const struct recovery *r)
{
    return r->suspects;
}

bool recovery_is_idle(const struct recovery *r)
{
    return reaper_is_idle(&r->reaper);
}
