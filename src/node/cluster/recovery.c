/* A batch is one answer of OP_ORPHANS. It is asked again until nothing is left. */
#include "node/cluster/recovery.h"

#include <stdlib.h>

enum { RECOVERY_LOOK_MS = 1000 };

struct recovery {
    struct reaper reaper;
    struct orphans orphans;
    bool in_fleet, over;
};

static struct recovery *recovery_of(struct reaper *r)
{
    return container_of(r, struct recovery, reaper);
}

static void recovery_nothing_is_left(struct recovery *r)
{
    r->over = orphans_rest(&r->orphans) || r->over;
}

static void recovery_found(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    if (r->orphans.ask.ret.n == 0)
        recovery_nothing_is_left(r);
    reaper_found(reaper, r->orphans.ask.ret.n);
}

static void recovery_ask(struct reaper *reaper)
{
    orphans_ask(&recovery_of(reaper)->orphans);
}

/* In a fleet: settles what cannot have fired. The others may wait for the queue, but claims do not wait for them. */
static void recovery_decide_unfired(struct recovery *r)
{
    for (size_t i = 0; i < r->orphans.ask.ret.n; i++)
        if (!orphans_may_have_fired(&r->orphans, i))
            orphans_settle(&r->orphans, i, false);
    if (r->reaper.n)
        return;
    r->over = true;
    if (orphans_are_full(&r->orphans))
        r->reaper.ask_at_ms = r->reaper.now.steady_ms + RECOVERY_LOOK_MS; /* there may be some behind them */
    else
        recovery_nothing_is_left(r);
}

static void recovery_decide(struct reaper *reaper)
{
    struct recovery *r = recovery_of(reaper);
    struct orphans *o = &r->orphans;
    size_t fired = 0, left = orphans_left_behind(o);
    if (r->in_fleet) {
        recovery_decide_unfired(r);
        return;
    }
    for (size_t i = 0; i < o->ask.ret.n; i++)
        fired += orphans_may_have_fired(o, i);
    bool alone = !orphans_are_full(o) && fired == 1;
    for (size_t i = 0; i < o->ask.ret.n; i++) {
        bool leaves = left && orphans_may_have_fired(o, i);
        left -= leaves;
        if (!leaves)
            orphans_settle(o, i, alone);
    }
}

static void recovery_on_settled(struct reaper *r, size_t i)
{
    orphans_on_settled(&recovery_of(r)->orphans, i);
}

static void recovery_on_batch_over(struct reaper *r)
{
    orphans_on_batch_over(&recovery_of(r)->orphans);
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
    r->in_fleet = setup->in_fleet;
    reaper_init(&r->reaper, &recovery_source, &setup->reaper);
    orphans_init(&r->orphans, &r->reaper, recovery_found, &setup->orphans);
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
    r->orphans.node = node;
    r->over = false;
    recovery_look_again(r, now);
}

void recovery_look_again(struct recovery *r, struct moment now)
{
    orphans_look_again(&r->orphans, now);
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
    return r->orphans.suspects;
}

bool recovery_is_idle(const struct recovery *r)
{
    return reaper_is_idle(&r->reaper);
}
