/* Before the verdicts, each lease is renewed until now (OP_LEASE_RENEW): that changes nothing, and its answer tells
 * whether the lease is still there and whether its user asked to cancel the task, as it tells a worker that renews. A
 * worker that renews its lease in between may find it gone, as if it had come later. */
#include "node/lease/lease_expiry.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

enum { LEASES_ARENA = 128 << 20, RENEWAL_ARENA = 4096, TIMEOUT_TEXT = 96 };

struct lease_expiry_put {
    struct op_put op;
    struct task next;
};

struct lease_expiry {
    struct reaper reaper;
    struct lease_expiry_setup setup;
    struct op_leases_expired ask;       /* its arena holds the tasks of the batch, and the next */
    struct lease_renewal *renewals;     /* one for each task */
    const struct task **tasks;          /* of the settlements, in their order */
    struct op_lease_renew *renewal_ops; /* one for each tenant */
    size_t renewal_op_count, renewals_in_flight;
    struct lease_expiry_put *puts; /* one for each task that expired before it started */
    size_t puts_in_flight;
    bool given;   /* a lease was given, or a task that may expire began to wait, since the last question */
    bool expires; /* a task that is not final has an expiry, or may have one */
};

static struct lease_expiry *lease_expiry_of(struct reaper *r)
{
    return container_of(r, struct lease_expiry, reaper);
}

/* ---- tasks that expired before they started ---- */

static void lease_expiry_on_put(struct op *op)
{
    struct lease_expiry *l = op->context;
    struct reaper *r = &l->reaper;
    const struct op_put *put = container_of(op, struct op_put, op);
    arena_release(&op->arena);
    if (op->rc == ERR_OK) {
        metric_add_for(r->setup.metrics, METRIC_TASKS_EXPIRED, put->task->tenant, 1);
        if (l->setup.expired)
            l->setup.expired(r->setup.context, put->task, put->state);
    } else if (op->rc != ERR_CONFLICT && op->rc != ERR_NOT_FOUND) { /* else it was claimed or changed meanwhile */
        log_warn("expire_failed", kv_err(&op->error));
    }
    r->setup.unblocked(r->setup.context,
                       op->rc ? UINT64_MAX : op_unblocked(put->ret_unblocked_lanes, put->ret_arrivals_left));
    if (--l->puts_in_flight)
        return;
    free(l->puts);
    l->puts = NULL;
    reaper_found(r, l->ask.ret.n);
}

static void lease_expiry_make_put(struct lease_expiry *l, const struct task *t, struct lease_expiry_put *ret)
{
    int64_t now_ms = l->reaper.now.wall_ms;
    ret->next = *t;
    ret->next.state = TASK_EXPIRED;
    ret->next.updated_ms = ret->next.completed_ms = now_ms;
    ret->next.waits_for = (struct str){ 0 };
    ret->next.last_error = task_is_leased(t)
                               ? S("expired: no worker leased it within expires_after_seconds of its due time")
                               : S("expired: it did not start within expires_after_seconds of its due time");
    ret->op = (struct op_put){ .op = { .kind = OP_PUT, .done = lease_expiry_on_put, .context = l },
                               .task = &ret->next,
                               .version = t->version,
                               .fence = t->fence,
                               .state = t->state };
}

/* The leases that ran out come after them: the answer's arena holds both. */
static void lease_expiry_end_waiting(struct lease_expiry *l)
{
    const struct tasks *t = &l->ask.ret_waiting;
    l->puts = xcalloc(t->n, sizeof *l->puts);
    l->puts_in_flight = t->n;
    log_info("tasks_expired", kv_i64("tasks", (int64_t)t->n));
    for (size_t i = 0, n = t->n; i < n; i++) {
        struct lease_expiry_put *put = &l->puts[i];
        lease_expiry_make_put(l, &t->v[i], put);
        arena_init(&put->op.op.arena, RENEWAL_ARENA);
        writer_submit(l->reaper.setup.writer, &put->op.op);
    }
}

/* ---- finding them ---- */

/* A node that is alone on its store, has no lease and no task that may expire sleeps until it gets one. */
static void lease_expiry_on_answer(struct op *op)
{
    struct lease_expiry *l = op->context;
    struct reaper *r = &l->reaper;
    size_t waiting = op->rc ? 0 : l->ask.ret_waiting.n, n = op->rc ? 0 : l->ask.ret.n;
    int64_t next_ms = op->rc ? 0 : min_of(l->ask.ret_next_ms, l->ask.ret_next_waiting_ms);
    bool none = !op->rc && !n && !waiting && next_ms == INT64_MAX;
    if (!op->rc)
        l->expires = l->ask.ret_expires || l->given;
    if (none && !l->setup.shared && !l->given)
        r->ask_at_ms = INT64_MAX;
    if (op->rc)
        log_warn("leases_expired_failed", kv_err(&op->error));
    else if (next_ms != INT64_MAX)
        r->ask_at_ms = min_of(r->ask_at_ms, moment_steady_at(r->now, max_of(next_ms, r->now.wall_ms + 1)));
    if (waiting)
        lease_expiry_end_waiting(l);
    else
        reaper_found(r, n);
}

static void lease_expiry_ask(struct reaper *r)
{
    struct lease_expiry *l = lease_expiry_of(r);
    l->given = false;
    r->ask_at_ms = r->now.steady_ms + LEASE_EXPIRY_ASK_MS;
    l->ask =
        (struct op_leases_expired){ .op = { .kind = OP_LEASES_EXPIRED, .done = lease_expiry_on_answer, .context = l },
                                    .now_ms = r->now.wall_ms,
                                    .max = LEASE_EXPIRY_BATCH,
                                    .max_waiting = LEASE_EXPIRY_WAITING };
    arena_init(&l->ask.op.arena, LEASES_ARENA);
    writer_submit(r->setup.writer, &l->ask.op);
}

/* ---- whether their users asked to cancel them ---- */

static void lease_expiry_on_renewed(struct op *op)
{
    struct lease_expiry *l = op->context;
    arena_release(&op->arena);
    if (op->rc)
        log_warn("lease_check_failed", kv_err(&op->error));
    if (--l->renewals_in_flight == 0)
        reaper_prepared(&l->reaper);
}

static int lease_expiry_by_tenant(const void *x, const void *y)
{
    int32_t a = ((const struct task *)x)->tenant, b = ((const struct task *)y)->tenant;
    return (a > b) - (a < b);
}

/* One operation for each tenant. */
static void lease_expiry_make_renewals(struct lease_expiry *l)
{
    const struct tasks *t = &l->ask.ret;
    int64_t now_ms = l->reaper.now.wall_ms;
    qsort(t->v, t->n, sizeof *t->v, lease_expiry_by_tenant);
    l->renewal_ops = xcalloc(t->n, sizeof *l->renewal_ops);
    l->renewal_op_count = 0;
    for (size_t i = 0; i < t->n; i++) {
        l->renewals[i] = (struct lease_renewal){ .id = t->v[i].id, .fence = t->v[i].fence, .until_ms = now_ms };
        if (i == 0 || t->v[i].tenant != t->v[i - 1].tenant)
            l->renewal_ops[l->renewal_op_count++] = (struct op_lease_renew){
                .op = { .kind = OP_LEASE_RENEW, .done = lease_expiry_on_renewed, .context = l },
                .tenant = t->v[i].tenant,
                .v = &l->renewals[i],
                .now_ms = now_ms
            };
        l->renewal_ops[l->renewal_op_count - 1].n++;
    }
}

static bool lease_expiry_prepare(struct reaper *r)
{
    struct lease_expiry *l = lease_expiry_of(r);
    l->renewals = arena_array(&l->ask.op.arena, struct lease_renewal, r->found);
    l->tasks = arena_array(&l->ask.op.arena, const struct task *, r->found);
    if (!l->renewals || !l->tasks) /* `decide` finds no renewal, and the next question finds the leases again */
        return false;
    lease_expiry_make_renewals(l);
    struct op_lease_renew *ops = l->renewal_ops;
    size_t n = l->renewals_in_flight = l->renewal_op_count;
    for (size_t i = 0; i < n; i++) {
        arena_init(&ops[i].op.arena, RENEWAL_ARENA);
        writer_submit(r->setup.writer, &ops[i].op);
    }
    return true;
}

/* ---- verdicts ---- */

static struct settlement lease_expiry_settle(struct reaper *r, const struct task *t, struct outcome o)
{
    struct event *e = reaper_next_event(r);
    o.retry_after_ms = -1;
    o.started_us = task_leased_ms(t) * 1000;
    o.completed_us = r->now.wall_ms * 1000;
    o.late_by = task_lease_late_cause(t);
    *e = (struct event){ .task = settle_facts_of(t, &o, &r->arena), .outcome = o };
    return (struct settlement){ .id = t->id,
                                .fence = t->fence,
                                .parent = t->parent,
                                .tenant = t->tenant,
                                .verdict = settle(&e->task, &o, reaper_verdict_ms(r), &r->random, &r->arena) };
}

static struct settlement lease_expiry_cancelled(struct reaper *r, const struct task *t)
{
    return lease_expiry_settle(
        r, t,
        (struct outcome){ .kind = OUTCOME_CANCELLED,
                          .error = S("cancelled: its worker was asked to end it, and let its lease run out") });
}

/* The worker took the task and was never heard of again: nobody knows what else it did. After three times in a row, the
 * task is to blame. */
static struct settlement lease_expiry_lost(struct reaper *r, const struct task *t)
{
    return lease_expiry_settle(r, t, (struct outcome){ .kind = OUTCOME_LOST, .alone = true });
}

/* Its worker has extended the lease until the timeout of the task, or had no time to. */
static bool lease_expiry_is_timeout(const struct task *t, int64_t now_ms)
{
    return t->timeout_ms && now_ms >= uuid_time_ms(t->claim) + t->timeout_ms;
}

static struct settlement lease_expiry_timed_out(struct reaper *r, const struct task *t)
{
    char *text = arena_alloc(&r->arena, TIMEOUT_TEXT);
    if (text)
        snprintf(text, TIMEOUT_TEXT, "timed out: its worker had it for longer than timeout_ms, %lld",
                 (long long)t->timeout_ms);
    return lease_expiry_settle(r, t,
                               (struct outcome){ .kind = OUTCOME_FAILED,
                                                 .failure = FAILURE_TIMEOUT,
                                                 .sent = true,
                                                 .error = text ? str_from(text) : S("timed out") });
}

static struct settlement lease_expiry_verdict(struct reaper *r, const struct task *t, bool cancelled)
{
    if (cancelled)
        return lease_expiry_cancelled(r, t);
    return lease_expiry_is_timeout(t, r->now.wall_ms) ? lease_expiry_timed_out(r, t) : lease_expiry_lost(r, t);
}

/* A lease that could not be renewed was settled meanwhile, or the answer was lost: then the next question finds it. */
static void lease_expiry_decide(struct reaper *r)
{
    struct lease_expiry *l = lease_expiry_of(r);
    const struct tasks *t = &l->ask.ret;
    for (size_t i = 0; l->renewal_ops && i < t->n; i++) {
        if (!l->renewals[i].ret_kept)
            continue;
        l->tasks[r->n] = &t->v[i];
        reaper_add(r, lease_expiry_verdict(r, &t->v[i], l->renewals[i].ret_ended));
    }
    if (r->n)
        log_info("leases_expired", kv_i64("tasks", (int64_t)r->n));
}

static void lease_expiry_on_settled(struct reaper *r, size_t i)
{
    struct lease_expiry *l = lease_expiry_of(r);
    r->setup.settled(r->setup.context, &r->events[i], &r->settlements[i]);
    if (!r->settlements[i].stale)
        l->setup.over(l->setup.leasing, l->tasks[i]);
    if (l->ask.ret.n == LEASE_EXPIRY_BATCH)
        r->ask_at_ms = r->now.steady_ms; /* there may be more */
}

static void lease_expiry_on_batch_over(struct reaper *r)
{
    struct lease_expiry *l = lease_expiry_of(r);
    arena_release(&l->ask.op.arena);
    free(l->renewal_ops);
    l->renewal_ops = NULL;
}

static const struct reaper_source lease_expiry_source = {
    .name = "lease_expiry",
    .ask = lease_expiry_ask,
    .prepare = lease_expiry_prepare,
    .decide = lease_expiry_decide,
    .settled = lease_expiry_on_settled,
    .batch_over = lease_expiry_on_batch_over,
};

/* ---- public functions ---- */

struct lease_expiry *lease_expiry_new(const struct lease_expiry_setup *setup)
{
    struct lease_expiry *l = xnew(*l);
    l->setup = *setup;
    reaper_init(&l->reaper, &lease_expiry_source, &setup->reaper);
    return l;
}

void lease_expiry_free(struct lease_expiry *l)
{
    if (!l)
        return;
    reaper_release(&l->reaper);
    free(l);
}

int64_t lease_expiry_step(struct lease_expiry *l, struct moment now, bool leads)
{
    return reaper_step(&l->reaper, now, 0, leads);
}

void lease_expiry_given(struct lease_expiry *l)
{
    l->given = true;
    l->reaper.ask_at_ms = min_of(l->reaper.ask_at_ms, l->reaper.now.steady_ms + LEASE_EXPIRY_ASK_MS);
}

void lease_expiry_waits(struct lease_expiry *l)
{
    l->expires = true;
    lease_expiry_given(l);
}

void lease_expiry_released(struct lease_expiry *l)
{
    if (l->expires)
        lease_expiry_given(l);
}

void lease_expiry_stop(struct lease_expiry *l)
{
    reaper_stop(&l->reaper);
}

bool lease_expiry_is_idle(const struct lease_expiry *l)
{
    return reaper_is_idle(&l->reaper);
}
