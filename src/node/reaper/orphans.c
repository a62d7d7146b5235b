#include "node/reaper/orphans.h"

#include <stdlib.h>

#include "base/log.h"

enum { ORPHANS_MAX = 1000, ORPHANS_MIN = 4, ORPHANS_ARENA = 256 << 20, ORPHANS_RETRY_MS = 500, LEFT_BEHIND = 2 };

void orphans_init(struct orphans *o, struct reaper *reaper, void (*found)(struct reaper *r),
                  const struct orphans_setup *setup)
{
    *o = (struct orphans){ .setup = *setup, .reaper = reaper, .found = found, .max = ORPHANS_MAX };
    reaper->ask_at_ms = INT64_MAX;
}

/* ---- finding orphaned claims ---- */

void orphans_look_again(struct orphans *o, struct moment now)
{
    o->again = true;
    if (o->reaper->ask_at_ms == INT64_MAX)
        o->reaper->ask_at_ms = now.steady_ms;
}

static void orphans_on_answer(struct op *op)
{
    struct orphans *o = op->context;
    struct reaper *r = o->reaper;
    if (op->rc == ERR_OK) {
        o->found(r);
        return;
    }
    if (op->rc == ERR_LIMIT && o->max > ORPHANS_MIN) {
        o->max = max_of(o->max / 2, (size_t)ORPHANS_MIN); /* the tasks are large: fewer at a time */
    } else {
        log_warn("recovery_failed", kv_err(&op->error), kv_cstr("source", r->source->name));
        r->ask_at_ms = r->now.steady_ms + ORPHANS_RETRY_MS;
    }
    reaper_found(r, 0);
}

void orphans_ask(struct orphans *o)
{
    o->ask = (struct op_orphans){ .op = { .kind = OP_ORPHANS, .done = orphans_on_answer, .context = o },
                                  .not_node = o->node,
                                  .max = o->max };
    arena_init(&o->ask.op.arena, ORPHANS_ARENA);
    o->again = false;
    writer_submit(o->reaper->setup.writer, &o->ask.op);
}

bool orphans_are_full(const struct orphans *o)
{
    return o->ask.ret.n >= o->max;
}

/* If the clock was set back since, the claim's id was made in what is now the future: then only the node's own word
 * counts. A task that runs at most once is never claimed before its time. */
bool orphans_may_have_fired(const struct orphans *o, size_t i)
{
    const struct task *t = &o->ask.ret.v[i];
    int64_t now_ms = o->reaper->now.wall_ms;
    if (t->delivery == DELIVER_AT_MOST_ONCE)
        return true;
    if (t->due_ms > o->ask.ret_fires_until_ms[i])
        return false;
    return t->due_ms <= min_of(now_ms, o->setup.last_fired_ms) || uuid_time_ms(t->claim) > now_ms;
}

size_t orphans_left_behind(const struct orphans *o)
{
    return orphans_are_full(o) ? LEFT_BEHIND : 0;
}

/* ---- verdicts ---- */

void orphans_settle(struct orphans *o, size_t i, bool alone)
{
    struct reaper *r = o->reaper;
    const struct task *t = &o->ask.ret.v[i];
    struct lost how = { orphans_may_have_fired(o, i), alone };
    if (!o->tasks)
        o->tasks = xcalloc(o->ask.ret.n, sizeof *o->tasks);
    o->tasks[r->n] = t;
    reaper_add(r, lost_verdict_settle(t, how, reaper_verdict_ms(r), &r->random, &r->arena, reaper_next_event(r)));
}

void orphans_on_settled(struct orphans *o, size_t i)
{
    const struct reaper *r = o->reaper;
    const struct verdict *v = &r->settlements[i].verdict;
    struct task now = *o->tasks[i];
    o->total++;
    o->setup.settled(o->setup.context, &r->events[i], &r->settlements[i]);
    if (v->next != TASK_SCHEDULED)
        return;
    now.losses = v->losses;
    now.due_ms = v->due_ms;
    o->setup.nudge(o->setup.context, &now);
    o->suspects = o->suspects || task_is_suspect(&now);
}

void orphans_on_batch_over(struct orphans *o)
{
    arena_release(&o->ask.op.arena);
    free(o->tasks);
    o->tasks = NULL;
}

bool orphans_rest(struct orphans *o)
{
    if (o->again)
        return false;
    o->reaper->ask_at_ms = INT64_MAX;
    if (o->total)
        log_info("recovered", kv_i64("tasks", (int64_t)o->total));
    o->total = 0;
    return true;
}
