/* Leases: tasks with the target WORKER, for external workers. A worker that asks for tasks waits suspended, on no
 * thread. What it reports of them is in lease_reports.c. */
#include <stdlib.h>

#include "api/resource/lease.h"
#include "api/server/internal.h"
#include "api/task/json.h"
#include "core/task/trace.h"
#include "node/lease/leasing.h"

enum { WAIT_MAX_MS = 60000, WORKER_CHARACTERS = 200, QUEUE_BYTES = 100 };

struct acquire_body {
    struct str queue, worker;
    int64_t max, wait_ms, lease_ms;
};

#define AT(type, member) .offset = offsetof(struct type, member)
static const struct json_field acquire_fields[] = {
    { .name = "queue", .kind = JSON_KIND_STR, AT(acquire_body, queue), .min = 1, .max = QUEUE_BYTES, .nullable = true },
    { .name = "max", .kind = JSON_KIND_I64, AT(acquire_body, max), .min = 1, .max = LEASES_MAX, .nullable = true },
    { .name = "wait_seconds",
      .kind = JSON_KIND_SECONDS,
      AT(acquire_body, wait_ms),
      .min = 0,
      .max = WAIT_MAX_MS,
      .nullable = true },
    { .name = "lease_seconds",
      .kind = JSON_KIND_SECONDS,
      AT(acquire_body, lease_ms),
      .min = LEASE_MIN_MS,
      .max = LEASE_MAX_MS,
      .nullable = true },
    { .name = "worker",
      .kind = JSON_KIND_STR,
      AT(acquire_body, worker),
      .min = 1,
      .max = WORKER_CHARACTERS,
      .characters = true,
      .nullable = true },
};

struct lease_acquire {
    struct lease_ask ask;
    struct request *q;
    struct tasks expired; /* not answered: they expired before this lease */
    bool is_refused;      /* the answer says why, and holds no task */
};

/* The worker goes on in the span of the attempt. */
static void leases_write_trace(const struct request *q, struct jw *w, const struct task *t)
{
    char parent[TRACE_PARENT + 1];
    struct trace trace = trace_of(t);
    if (q->server->setup.tracer)
        trace.sampled = tracer_wants(q->server->setup.tracer, &trace);
    trace_parent(&trace, trace_span(t->id, t->fence, TRACE_RUN), parent);
    jw_kv_cstr(w, "traceparent", parent);
}

static void leases_write_acquired(struct request *q, const struct lease_ask *a)
{
    struct task_context c = { .tenant = q->who.tenant, .now_ms = q->now_ms, .zones = NULL };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "leases");
    jw_array(&w);
    for (size_t i = 0; i < a->claim.ret.n; i++) {
        const struct task *t = &a->claim.ret.v[i];
        char id[SEAL_TEXT_MAX + 1];
        jw_object(&w);
        jw_kv_str(&w, "id", lease_format_id(q, t, id));
        jw_kv_i64(&w, "fence", t->fence);
        jw_kv_time(&w, "expires_at", min_of(a->terms.until_ms, lease_deadline_ms(t)));
        jw_kv_i64(&w, "attempt", t->attempts + 1);
        leases_write_trace(q, &w, t);
        jw_key(&w, "task");
        task_to_json(&w, t, &c);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
}

static void leases_end_acquire(struct request *q)
{
    struct lease_acquire *acquire = q->context;
    struct op *op = &acquire->ask.claim.op;
    for (size_t i = 0; !op->rc && i < acquire->ask.claim.ret.n; i++) {
        live_on_started(q->server->live, &acquire->ask.claim.ret.v[i]);
        transition_log_started(q->server->setup.transitions, &acquire->ask.claim.ret.v[i]);
    }
    if (op->rc && !acquire->is_refused)
        request_fail(q, &op->error);
    else if (!acquire->is_refused)
        leases_write_acquired(q, &acquire->ask);
    arena_release(&op->arena);
    free(acquire);
}

/* If the store could not shorten a lease, the next heartbeat does. */
static void leases_on_shortened(struct op *op)
{
    struct request *q = request_finish_op(op);
    leases_end_acquire(q);
    request_answer(q);
}

/* The leases of one claim end at the same time. A task whose timeout comes first gets a shorter one. */
static bool leases_shorten(struct request *q, const struct lease_ask *a)
{
    struct lease_renewal *v = arena_array(&q->arena, struct lease_renewal, a->claim.ret.n);
    size_t n = 0;
    for (size_t i = 0; v && i < a->claim.ret.n; i++) {
        const struct task *t = &a->claim.ret.v[i];
        if (lease_deadline_ms(t) < a->terms.until_ms)
            v[n++] = (struct lease_renewal){ .id = t->id, .fence = t->fence, .until_ms = lease_deadline_ms(t) };
    }
    if (n == 0)
        return false;
    q->write.lease_renew = (struct op_lease_renew){
        .op = { .kind = OP_LEASE_RENEW }, .tenant = q->who.tenant, .v = v, .n = n, .now_ms = q->now_ms
    };
    (void)request_submit(q, leases_on_shortened);
    return true;
}

static struct settlement leases_settlement(struct request *q, const struct task *t, const struct outcome *o,
                                           struct prng *random)
{
    struct settle_facts facts = settle_facts_of(t, o, NULL);
    return (struct settlement){ .id = t->id,
                                .fence = t->fence,
                                .parent = t->parent,
                                .tenant = t->tenant,
                                .verdict = settle(&facts, o, q->now_ms, random, &q->arena) };
}

/* ---- a worker that waited and is gone, or is not allowed any more ---- */

static void leases_on_given_back(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct lease_acquire *acquire = q->context;
    const struct api_setup *setup = &q->server->setup;
    struct tasks *leased = &acquire->ask.claim.ret;
    for (size_t i = 0; op->rc == ERR_OK && i < leased->n; i++) {
        struct task *t = &leased->v[i];
        if (setup->lease_over)
            setup->lease_over(setup->context, t, i ? 0 : q->write.settle.ret_unblocked_lanes);
        t->state = TASK_SCHEDULED;
        t->claim = (struct uuid){ 0 };
    }
    if (op->rc == ERR_OK)
        request_nudge(q, leased->v, leased->n);
    leased->n = 0;
    leases_end_acquire(q);
    request_answer(q);
}

/* Nobody would hear the answer, and the tasks would wait until their leases end. They have not started: the claim costs
 * no attempt. If the store fails, they do wait until then. */
static bool leases_give_back(struct request *q, const struct lease_acquire *acquire)
{
    const struct tasks *leased = &acquire->ask.claim.ret;
    struct settlement *v = arena_array(&q->arena, struct settlement, leased->n);
    struct outcome back = { .kind = OUTCOME_RETURNED, .retry_after_ms = -1 };
    struct prng random = { 0 };
    bool is_gone = acquire->ask.wait_ms && http_peer_is_gone(q->exchange);
    if (!v || !leased->n || (!is_gone && !acquire->is_refused))
        return false;
    for (size_t i = 0; i < leased->n; i++)
        v[i] = leases_settlement(q, &leased->v[i], &back, &random);
    q->write.settle = (struct op_settle){ .op = { .kind = OP_SETTLE }, .v = v, .n = leased->n, .now_ms = q->now_ms };
    (void)request_submit(q, leases_on_given_back);
    return true;
}

/* ---- tasks that expired before they were leased ---- */

#define LEASES_TOO_LATE "expired: no worker leased it within expires_after_seconds of its due time"

static enum handled leases_answer_valid(struct request *q, struct reader *r)
{
    (void)r;
    struct lease_acquire *acquire = q->context;
    if (leases_shorten(q, &acquire->ask))
        return HANDLED_LATER;
    leases_end_acquire(q);
    return HANDLED_DONE;
}

static const struct outcome leases_too_late = {
    .kind = OUTCOME_EXPIRED,
    .retry_after_ms = -1,
    .error = { LEASES_TOO_LATE, sizeof LEASES_TOO_LATE - 1 },
};

/* If the store failed, the leases end unused, and the tasks expire then. */
static void leases_on_expired(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct lease_acquire *acquire = q->context;
    const struct api_setup *setup = &q->server->setup;
    uint64_t unblocked = op_unblocked(q->write.settle.ret_unblocked_lanes, q->write.settle.ret_arrivals_left);
    for (size_t i = 0; op->rc == ERR_OK && i < acquire->expired.n; i++) {
        if (setup->lease_over)
            setup->lease_over(setup->context, &acquire->expired.v[i], i ? 0 : unblocked);
        metric_add_for(setup->metrics, METRIC_TASKS_EXPIRED, acquire->expired.v[i].tenant, 1);
        struct settle_facts facts = settle_facts_of(&acquire->expired.v[i], &leases_too_late, NULL);
        transition_log_settled(setup->transitions, &facts, &leases_too_late, &q->write.settle.v[i]);
    }
    request_later(q, leases_answer_valid);
}

/* Moves expired tasks out of the answer. False: there is none. */
static bool leases_take_expired(struct request *q, struct lease_acquire *acquire)
{
    struct tasks *leased = &acquire->ask.claim.ret;
    size_t kept = 0;
    acquire->expired = (struct tasks){ .v = arena_array(&q->arena, struct task, leased->n) };
    for (size_t i = 0; acquire->expired.v && i < leased->n; i++)
        if (is_expired(task_expires_ms(&leased->v[i]), q->now_ms))
            acquire->expired.v[acquire->expired.n++] = leased->v[i];
        else
            leased->v[kept++] = leased->v[i];
    if (acquire->expired.n)
        leased->n = kept;
    return acquire->expired.n > 0;
}

static bool leases_expire(struct request *q, struct lease_acquire *acquire)
{
    struct settlement *v = arena_array(&q->arena, struct settlement, acquire->ask.claim.ret.n);
    struct prng random = { 0 };
    if (!v || !leases_take_expired(q, acquire))
        return false;
    for (size_t i = 0; i < acquire->expired.n; i++)
        v[i] = leases_settlement(q, &acquire->expired.v[i], &leases_too_late, &random);
    q->write.settle =
        (struct op_settle){ .op = { .kind = OP_SETTLE }, .v = v, .n = acquire->expired.n, .now_ms = q->now_ms };
    (void)request_submit(q, leases_on_expired);
    return true;
}

static bool leases_is_allowed(struct lease_ask *a)
{
    const struct request *q = container_of(a, struct lease_acquire, ask)->q;
    return auth_still_holds(q->server->auth, &q->who);
}

/* It was not allowed because its key had to be checked again, and it is allowed: it waits for the rest of its time. */
static void leases_ask_again(struct request *q, struct lease_ask *a)
{
    const struct api_setup *setup = &q->server->setup;
    a->wait_ms = max_of(a->until_ms - clock_steady_ms(setup->clock), (int64_t)0);
    setup->lease(setup->context, a);
}

static enum handled leases_answer_acquired(struct request *q, struct reader *r)
{
    struct lease_acquire *acquire = q->context;
    bool done = acquire->ask.claim.op.rc == ERR_OK;
    acquire->is_refused = !request_still_allowed(q, r);
    if (!acquire->is_refused && acquire->ask.ret_not_allowed) {
        leases_ask_again(q, &acquire->ask);
        return HANDLED_LATER;
    }
    if (done)
        metric_add(q->server->setup.metrics, METRIC_TASKS_CLAIMED, (int64_t)acquire->ask.claim.ret.n);
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (done && (leases_give_back(q, acquire) || leases_expire(q, acquire) || leases_shorten(q, &acquire->ask)))
        return HANDLED_LATER;
    leases_end_acquire(q);
    return HANDLED_DONE;
}

static void leases_on_acquired(struct lease_ask *a)
{
    request_later(container_of(a, struct lease_acquire, ask)->q, leases_answer_acquired);
}

enum handled leases_acquire(struct request *q, struct reader *r)
{
    (void)r;
    const struct api_setup *setup = &q->server->setup;
    struct acquire_body b = { .queue = S("default"), .max = 1, .lease_ms = LEASE_DEFAULT_MS };
    struct error e = { 0 };
    if (lease_read_body(q, acquire_fields, array_count(acquire_fields), &b, &e))
        return request_fail(q, &e);
    if (!route_name_is_valid(b.queue)) {
        (void)error_field(&e, "queue", "must consist of letters, digits and . _ : -");
        return request_fail(q, &e);
    }
    if (!setup->lease)
        return request_refuse(q, PROBLEM_UNAVAILABLE, "this server does not lease tasks");
    struct lease_acquire *acquire = xnew(*acquire);
    acquire->q = q;
    q->context = acquire;
    acquire->ask = (struct lease_ask){ .tenant = q->who.tenant,
                                       .queue = b.queue,
                                       .worker = b.worker.n ? b.worker : str_from(q->who.key_id),
                                       .max = (size_t)b.max,
                                       .lease_ms = b.lease_ms,
                                       .wait_ms = b.wait_ms,
                                       .done = leases_on_acquired,
                                       .allowed = leases_is_allowed };
    setup->lease(setup->context, &acquire->ask);
    return HANDLED_LATER;
}
