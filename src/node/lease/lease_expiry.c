/* One question is under way at a time: which are over; whether their users wanted them ended, which who keeps a lease is told; then they
 * are settled. A worker that goes on with its lease in between may find it gone, as if it had come later. */
#include "node/lease/lease_expiry.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { ARENA = 128 << 20, KEEP_ARENA = 4096, RETRY_MS = 500 };

#define RAN_OUT "lost: its lease ran out before its worker reported; it may have run"

struct lease_expiry {
    struct lease_expiry_setup setup;
    struct prng random;
    struct op_leases_expired ask;
    struct op_lease_renew *keeps; /* one a tenant */
    size_t keep_count, keeps_left;
    struct lease_renewal *kept; /* as in ask.ret */
    struct ends ends;
    struct event *events; /* in the answer's arena, like the next */
    struct settlement *settlements;
    const struct task **tasks; /* which they are of */
    bool asking, arrived, keeping, judging, stopped;
    bool given; /* one, since it was asked the last time */
    struct moment now;
    int64_t ask_at_ms; /* steady */
};

static void settled(void *context, const struct event *e, const struct settlement *s)
{
    struct lease_expiry *l = context;
    l->setup.settled(l->setup.context, l->tasks[e - l->events], e, s);
}

static void unblocked(void *context, uint64_t lanes)
{
    struct lease_expiry *l = context;
    l->setup.unblocked(l->setup.context, lanes);
}

static void forget(struct lease_expiry *l)
{
    arena_release(&l->ask.op.arena);
    free(l->keeps);
    l->keeps = NULL;
    l->arrived = l->keeping = l->judging = false;
}

static void all_settled(void *context)
{
    struct lease_expiry *l = context;
    l->setup.batch_settled(l->setup.context);
    if (l->ask.ret.n == LEASE_EXPIRY_BATCH)
        l->ask_at_ms = l->now.steady_ms; /* there may be more */
    forget(l);
}

struct lease_expiry *lease_expiry_new(const struct lease_expiry_setup *setup)
{
    struct lease_expiry *l = xnew(*l);
    l->setup = *setup;
    prng_init(&l->random, setup->seed);
    l->ends.setup = (struct settle_retry_setup){ .writer = setup->writer,
                                                 .metrics = setup->metrics,
                                                 .settled = settled,
                                                 .unblocked = unblocked,
                                                 .done = all_settled,
                                                 .context = l };
    return l;
}

bool lease_expiry_is_idle(const struct lease_expiry *l)
{
    return !l->asking && !l->keeping && settle_retry_is_idle(&l->ends);
}

void lease_expiry_free(struct lease_expiry *l)
{
    assert(!l || lease_expiry_is_idle(l));
    if (l && (l->arrived || l->judging))
        forget(l);
    free(l);
}

/* ---- which ---- */

static void asked(struct op *op)
{
    struct lease_expiry *l = op->context;
    l->asking = false;
    l->arrived = op->rc == ERR_OK && l->ask.ret.n > 0;
    bool none = op->rc == ERR_OK && l->ask.ret.n == 0 && l->ask.ret_next_ms == INT64_MAX;
    if (op->rc)
        log_warn("leases_over_failed", kv_err(&op->error));
    else
        l->ask_at_ms = min_of(l->ask_at_ms, moment_steady_at(l->now, max_of(l->ask.ret_next_ms, l->now.wall_ms + 1)));
    if (none && !l->setup.shared && !l->given)
        l->ask_at_ms = INT64_MAX; /* until one is given here: an idle node sleeps */
    if (!l->arrived)
        arena_release(&op->arena);
}

static void ask(struct lease_expiry *l)
{
    l->asking = true;
    l->given = false;
    l->ask_at_ms = l->now.steady_ms + LEASE_EXPIRY_ASK_MS;
    l->ask = (struct op_leases_expired){ .op = { .kind = OP_LEASES_EXPIRED, .done = asked, .context = l },
                                         .now_ms = l->now.wall_ms,
                                         .max = LEASE_EXPIRY_BATCH };
    arena_init(&l->ask.op.arena, ARENA);
    writer_submit(l->setup.writer, &l->ask.op);
}

/* ---- whether they were to end ---- */

static void kept(struct op *op)
{
    struct lease_expiry *l = op->context;
    arena_release(&op->arena);
    if (op->rc)
        log_warn("keep_failed", kv_err(&op->error));
    if (--l->keeps_left)
        return;
    l->keeping = false;
    l->judging = true;
}

static int by_tenant(const void *x, const void *y)
{
    int32_t a = ((const struct task *)x)->tenant, b = ((const struct task *)y)->tenant;
    return (a > b) - (a < b);
}

/* They stay over: until now. */
static void look_whether_ended(struct lease_expiry *l)
{
    const struct tasks *t = &l->ask.ret;
    l->arrived = false;
    l->kept = arena_array(&l->ask.op.arena, struct lease_renewal, t->n);
    l->events = arena_array(&l->ask.op.arena, struct event, t->n);
    l->settlements = arena_array(&l->ask.op.arena, struct settlement, t->n);
    l->tasks = arena_array(&l->ask.op.arena, const struct task *, t->n);
    l->keeps = xcalloc(t->n, sizeof *l->keeps);
    if (!l->kept || !l->events || !l->settlements || !l->tasks) {
        forget(l);
        return;
    }
    qsort(t->v, t->n, sizeof *t->v, by_tenant);
    l->keep_count = 0;
    for (size_t i = 0; i < t->n; i++) {
        l->kept[i] = (struct lease_renewal){ .id = t->v[i].id, .fence = t->v[i].fence, .until_ms = l->now.wall_ms };
        if (i == 0 || t->v[i].tenant != t->v[i - 1].tenant)
            l->keeps[l->keep_count++] =
                (struct op_lease_renew){ .op = { .kind = OP_LEASE_RENEW, .done = kept, .context = l },
                                         .tenant = t->v[i].tenant,
                                         .v = &l->kept[i],
                                         .now_ms = l->now.wall_ms };
        l->keeps[l->keep_count - 1].n++;
    }
    l->keeping = true;
    l->keeps_left = l->keep_count;
    for (size_t i = 0, n = l->keep_count; i < n; i++) {
        arena_init(&l->keeps[i].op.arena, KEEP_ARENA);
        writer_submit(l->setup.writer, &l->keeps[i].op);
    }
}

/* ---- what becomes of them ---- */

static struct settlement cancelled(const struct lease_expiry *l, const struct task *t, struct arena *a,
                                   struct event *ret)
{
    struct outcome o = { .kind = OUTCOME_CANCELLED,
                         .retry_after_ms = -1,
                         .started_us = uuid_time_ms(t->claim) * 1000,
                         .completed_us = l->now.wall_ms * 1000,
                         .error = S("cancelled: its worker was asked to end it, and let its lease run out") };
    *ret = (struct event){ .task = settle_facts_of(t, &o, a), .outcome = o };
    return (struct settlement){
        .id = t->id, .fence = t->fence, .parent = t->parent, .verdict = settle(&ret->task, &o, l->now.wall_ms, NULL, a)
    };
}

/* A worker that took it and was never heard of again: nobody knows what else it did. Three times in a row, the task is to blame. */
static struct settlement lost(struct lease_expiry *l, const struct task *t, struct arena *a, struct event *ret)
{
    struct outcome o = { .kind = OUTCOME_LOST,
                         .retry_after_ms = -1,
                         .alone = true,
                         .started_us = uuid_time_ms(t->claim) * 1000,
                         .completed_us = l->now.wall_ms * 1000 };
    *ret = (struct event){ .task = settle_facts_of(t, &o, a), .outcome = o };
    struct verdict v = settle(&ret->task, &o, l->now.wall_ms, &l->random, a);
    if (v.next == TASK_SCHEDULED)
        v.last_error = v.execution.error = S(RAN_OUT);
    return (struct settlement){ .id = t->id, .fence = t->fence, .parent = t->parent, .verdict = v };
}

static void judge(struct lease_expiry *l)
{
    const struct tasks *t = &l->ask.ret;
    size_t n = 0;
    l->judging = false;
    for (size_t i = 0; i < t->n; i++) {
        if (!l->kept[i].ret_kept) /* it has been settled meanwhile, or nobody knows: then the next question finds it */
            continue;
        l->settlements[n] = l->kept[i].ret_ended ? cancelled(l, &t->v[i], &l->ask.op.arena, &l->events[n])
                                                 : lost(l, &t->v[i], &l->ask.op.arena, &l->events[n]);
        l->tasks[n++] = &t->v[i];
    }
    if (n == 0) {
        forget(l);
        return;
    }
    log_info("leases_over", kv_i64("tasks", (int64_t)n));
    settle_retry_submit(&l->ends, l->events, l->settlements, n, l->now);
}

int64_t lease_expiry_step(struct lease_expiry *l, struct moment now, bool leads)
{
    l->now = now;
    int64_t wake = settle_retry_step(&l->ends, now);
    if (l->arrived)
        look_whether_ended(l);
    if (l->judging)
        judge(l);
    bool idle = !l->asking && !l->keeping && settle_retry_is_idle(&l->ends);
    if (!leads || l->stopped || !idle)
        return wake;
    if (l->ask_at_ms <= now.steady_ms)
        ask(l);
    return min_of(wake, moment_wall_at(now, l->ask_at_ms));
}

void lease_expiry_given(struct lease_expiry *l)
{
    l->given = true;
    l->ask_at_ms = min_of(l->ask_at_ms, l->now.steady_ms + LEASE_EXPIRY_ASK_MS);
}

void lease_expiry_stop(struct lease_expiry *l)
{
    l->stopped = true;
    settle_retry_give_up(&l->ends);
}
