/* A batch is one answer of OP_ORPHANS. It is asked again until nothing is left.
 *
 * Whether a task was alone can be told only from an answer that was not full. Of a full one, LEFT_BEHIND claims that
 * may have fired are left for later: if this node dies before that, the next one must not find a task alone that was
 * not. */
#include "node/cluster/recovery.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/reaper/reaper.h"

enum { ORPHANS_MAX = 1000, ORPHANS_MIN = 4, ORPHANS_ARENA = 256 << 20, ORPHANS_RETRY_MS = 500, LEFT_BEHIND = 2 };

struct recovery {
    struct reaper reaper;
    struct recovery_setup setup;
    struct op_orphans ask; /* its arena holds the tasks of the batch */
    const struct task **tasks;
    size_t max, total;
    struct uuid node; /* this node's id: its own claims are not orphaned */
    bool over, suspects;
    bool again; /* a node was marked dead since the last question */
};

static struct recovery *recovery_of(struct reaper *r)
{
    return container_of(r, struct recovery, reaper);
}

/* ---- finding orphaned claims ---- */

static void recovery_nothing_is_left(struct recovery *r)
{
    if (r->again)
        return;
    r->reaper.ask_at_ms = INT64_MAX;
    r->over = true;
    if (r->total)
        log_info("recovered", kv_i64("tasks", (int64_t)r->total));
    r->total = 0;
}

static void recovery_on_orphans(struct op *op)
{
    struct recovery *r = op->context;
    if (op->rc == ERR_LIMIT && r->max > ORPHANS_MIN) {
        r->max = max_of(r->max / 2, (size_t)ORPHANS_MIN); /* the tasks are large: fewer at a time */
    } else if (op->rc) {
        log_warn("recovery_failed", kv_err(&op->error));
        r->reaper.ask_at_ms = r->reaper.now.steady_ms + ORPHANS_RETRY_MS;
    } else if (r->ask.ret.n == 0) {
        recovery_nothing_is_left(r);
    }
    reaper_found(&r->reaper, op->rc ? 0 : r->ask.ret.n);
}

static void recovery_ask(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    r->ask = (struct op_orphans){ .op = { .kind = OP_ORPHANS, .done = recovery_on_orphans, .context = r },
                                  .not_node = r->node,
                                  .max = r->max };
    arena_init(&r->ask.op.arena, ORPHANS_ARENA);
    r->again = false;
    writer_submit(r->setup.writer, &r->ask.op);
}

/* ---- verdicts ---- */

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

static void recovery_decide_one(struct recovery *r, size_t i, bool alone)
{
    const struct task *t = &r->ask.ret.v[i];
    struct lost how = { recovery_may_have_fired(r, i), alone };
    r->tasks[r->reaper.n] = t;
    reaper_add(&r->reaper, lost_verdict_settle(t, how, reaper_verdict_ms(&r->reaper), &r->reaper.random,
                                               &r->reaper.arena, reaper_next_event(&r->reaper)));
}

static void recovery_decide(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    size_t n = r->ask.ret.n, fired = 0;
    bool full = n >= r->max;
    for (size_t i = 0; i < n; i++)
        fired += recovery_may_have_fired(r, i);
    bool alone = !full && fired == 1;
    size_t left = full ? LEFT_BEHIND : 0;
    r->tasks = xcalloc(n, sizeof *r->tasks);
    for (size_t i = 0; i < n; i++) {
        bool leaves = left && recovery_may_have_fired(r, i);
        left -= leaves;
        if (!leaves)
            recovery_decide_one(r, i, alone);
    }
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

static void recovery_on_batch_over(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    arena_release(&r->ask.op.arena);
    free(r->tasks);
    r->tasks = NULL;
}

static const struct reaper_source recovery_source = {
    .name = "recovery",
    .ask = recovery_ask,
    .decide = recovery_decide,
    .settled = recovery_on_settled,
    .batch_over = recovery_on_batch_over,
};

/* ---- public functions ---- */

struct recovery *recovery_new(const struct recovery_setup *setup)
{
    struct recovery *r = xnew(*r);
    r->setup = *setup;
    r->max = ORPHANS_MAX;
    reaper_init(&r->reaper, &recovery_source,
                &(struct reaper_setup){ .writer = setup->writer,
                                        .metrics = setup->metrics,
                                        .seed = setup->seed,
                                        .unblocked = setup->unblocked,
                                        .context = setup->context });
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
    recovery_look_again(r, now);
}

void recovery_look_again(struct recovery *r, struct moment now)
{
    r->again = true;
    if (r->reaper.ask_at_ms == INT64_MAX)
        r->reaper.ask_at_ms = now.steady_ms;
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
