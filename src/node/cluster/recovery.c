/* Asks for what is held, as many as fit, settles them and asks again, until nothing is left. A settlement that failed is just asked
 * for again: what was applied is not held any more.
 *
 * Whether one was alone can be said only by who has seen all that is held: an answer that was not full. Of a full one, two that may
 * have fired are left for later: should we die before that, who comes next must not find one alone that was not. */
#include "node/cluster/recovery.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/updater/lost_verdict.h"

enum { HELD_MAX = 1000, HELD_MIN = 4, HELD_ARENA = 256 << 20, ERRORS_ARENA = 1 << 20, RETRY_MS = 500, LEFT_BEHIND = 2 };

struct recovery {
    struct recovery_setup setup;
    struct prng random;
    union {
        struct op op;
        struct op_orphans held;
        struct op_settle settle;
    };
    struct arena arena; /* of what is being settled */
    struct task *tasks; /* those that are, in the order of the settlements */
    struct moment now;
    int64_t ask_at_ms; /* steady */
    size_t max, total;
    struct uuid node; /* ours: not its claims */
    bool in_flight, over, stopped, suspects;
    bool idle;  /* nothing is to be asked */
    bool again; /* somebody died since the last question */
};

struct recovery *recovery_new(const struct recovery_setup *setup)
{
    struct recovery *r = xnew(*r);
    r->setup = *setup;
    r->idle = true;
    r->max = HELD_MAX;
    prng_init(&r->random, setup->seed);
    return r;
}

void recovery_free(struct recovery *r)
{
    assert(!r || !r->in_flight);
    free(r);
}

static void failed(struct recovery *r, const struct op *op)
{
    log_warn("recovery_failed", kv_err(&op->error));
    r->ask_at_ms = r->now.steady_ms + RETRY_MS;
}

static void settled(struct op *op)
{
    struct recovery *r = op->context;
    r->in_flight = false;
    if (op->rc)
        failed(r, op);
    for (size_t i = 0; i < r->settle.n; i++) {
        const struct verdict *v = &r->settle.v[i].verdict;
        struct task now = r->tasks[i];
        now.losses = v->losses;
        now.due_ms = v->due_ms;
        if (v->next == TASK_SCHEDULED) { /* if the answer was lost, it is so all the same */
            r->setup.nudge(r->setup.context, &now);
            r->suspects = r->suspects || task_is_suspect(&now);
        }
        if (op->rc == ERR_OK && v->has_execution && !r->settle.v[i].stale)
            metric_add(r->setup.metrics, METRIC_TASKS_RECOVERED, 1);
    }
    r->setup.unblocked(r->setup.context, op->rc ? UINT64_MAX : r->settle.ret_unblocked_lanes);
    r->total += op->rc ? 0 : r->settle.n;
    free(r->settle.v);
    arena_release(&op->arena);
    arena_release(&r->arena);
}

/* What was due may have fired, what was not yet due cannot have; unless the clock was set back since. Then the claim's id was
 * made in what is now the future; and what is to run at most once is never claimed before its time. */
static bool may_have_fired(const struct recovery *r, const struct task *t)
{
    return t->due_ms <= r->now.wall_ms || t->delivery == DELIVER_AT_MOST_ONCE ||
           uuid_time_ms(t->claim) > r->now.wall_ms;
}

/* Those to be settled now to the front; returns how many. */
static size_t choose(const struct recovery *r, struct tasks *held, bool *ret_alone)
{
    size_t n = 0, fired = 0;
    for (size_t i = 0; i < held->n; i++)
        fired += may_have_fired(r, &held->v[i]);
    *ret_alone = held->n < r->max && fired == 1;
    if (held->n < r->max)
        return held->n;
    fired = 0;
    for (size_t i = 0; i < held->n; i++)
        if (!may_have_fired(r, &held->v[i]) || ++fired > LEFT_BEHIND)
            held->v[n++] = held->v[i];
    return n;
}

static struct settlement judge(struct recovery *r, const struct task *t, bool alone)
{
    struct event e;
    return lost_verdict_settle(t, (struct lost){ may_have_fired(r, t), alone }, r->now.wall_ms, &r->random, &r->arena,
                               &e);
}

static void settle_some(struct recovery *r, struct tasks *held)
{
    bool alone;
    size_t n = choose(r, held, &alone);
    r->tasks = held->v;
    r->settle = (struct op_settle){
        .op = { .kind = OP_SETTLE, .done = settled, .context = r },
        .v = xcalloc(n, sizeof *r->settle.v),
        .n = n,
        .now_ms = r->now.wall_ms,
    };
    arena_init(&r->op.arena, ERRORS_ARENA);
    for (size_t i = 0; i < n; i++)
        r->settle.v[i] = judge(r, &held->v[i], alone);
    r->in_flight = true;
    writer_submit(r->setup.writer, &r->op);
}

static void nothing_is_left(struct recovery *r)
{
    r->idle = !r->again;
    r->over = r->over || r->idle;
    if (r->idle && r->total)
        log_info("recovered", kv_i64("tasks", (int64_t)r->total));
    r->total = r->idle ? 0 : r->total;
}

static void held_done(struct op *op)
{
    struct recovery *r = op->context;
    struct tasks held = r->held.ret;
    r->in_flight = false;
    r->arena = op->arena;
    if (op->rc == ERR_OK && held.n) {
        settle_some(r, &held);
        return;
    }
    if (op->rc == ERR_LIMIT && r->max > HELD_MIN)
        r->max = max_of(r->max / 2, (size_t)HELD_MIN); /* large ones: fewer at a time */
    else if (op->rc)
        failed(r, op);
    else
        nothing_is_left(r);
    arena_release(&r->arena);
}

static void ask(struct recovery *r)
{
    r->held = (struct op_orphans){ .op = { .kind = OP_ORPHANS, .done = held_done, .context = r },
                                   .not_node = r->node,
                                   .max = r->max };
    arena_init(&r->op.arena, HELD_ARENA);
    r->again = false;
    r->in_flight = true;
    writer_submit(r->setup.writer, &r->op);
}

int64_t recovery_step(struct recovery *r, struct moment now)
{
    r->now = now;
    bool waits = !r->idle && !r->in_flight && !r->stopped;
    if (waits && r->ask_at_ms <= now.steady_ms) {
        ask(r);
        waits = !r->idle && !r->in_flight;
    }
    return waits ? moment_wall_at(now, r->ask_at_ms) : INT64_MAX;
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
    if (r->idle)
        r->ask_at_ms = now.steady_ms;
    r->idle = false;
}

void recovery_stop(struct recovery *r)
{
    r->stopped = true;
}

bool recovery_is_over(const struct recovery *r)
{
    return r->over;
}

bool recovery_in_flight(const struct recovery *r)
{
    return r->in_flight;
}

bool recovery_found_suspects(const struct recovery *r)
{
    return r->suspects;
}
