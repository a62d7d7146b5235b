/* Leases: tasks with the target WORKER, for external workers. A worker that asks for tasks waits suspended, on no
 * thread. A worker that has a task extends its lease by heartbeats, and completes or fails it.
 *
 * The id of a lease is its task and fence, sealed for the API key that took it (api/server/seal.h), so nothing is
 * stored for it here. If the fence is no longer the task's, the lease has ended, and the answer says why. A report that
 * was made before is answered as it was then. */
#include <stdio.h>
#include <stdlib.h>

#include "api/server/internal.h"
#include "api/task/json.h"
#include "core/task/retry_after.h"
#include "core/task/settle_metrics.h"
#include "core/task/trace.h"
#include "node/lease/leasing.h"

enum {
    LEASE_DEFAULT_MS = 60000,
    LEASE_MIN_MS = 1000,
    LEASE_MAX_MS = 24 * 3600 * 1000,
    WAIT_MAX_MS = 60000,
    WORKER_CHARACTERS = 200,
    ERROR_CHARACTERS = 16 << 10,
    OUTPUT_BYTES = 16 << 10,
    PROGRESS_BYTES = 4 << 10,
    QUEUE_BYTES = 100,
    EXECUTIONS_SEARCHED = 100, /* how far back a repeated report is searched for */
    US_PER_MS = 1000,
};

static struct str leases_format_id(const struct request *q, const struct task *t, char out[SEAL_TEXT_MAX + 1])
{
    struct fenced_id lease = { t->id, t->fence };
    return seal_text(q, SEAL_LEASE, (struct str){ (const char *)&lease, sizeof lease }, out);
}

static bool leases_parse_id(const struct request *q, struct str text, struct fenced_id *ret)
{
    char plain[SEAL_PLAIN_MAX + 1];
    if (seal_open(q, SEAL_LEASE, text, plain) != sizeof *ret)
        return false;
    memcpy(ret, plain, sizeof *ret);
    return true;
}

static enum err leases_read_body(struct request *q, const struct json_field *fields, size_t count, void *into,
                                 struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(q->body.n ? buf_str(&q->body) : S("{}"), &doc, e))
        return e->code;
    if (!json_is_object(doc.root))
        return error_set(e, ERR_INVALID, "the body must be a JSON object");
    return json_read(doc.root, fields, count, into, &q->arena, e);
}

/* The JSON text of a member; empty: it is absent or null. */
static struct str leases_member_text(const struct request *q, const char *name)
{
    struct str text = buf_str(&q->body);
    struct json_part parts[16];
    size_t n = q->body.n ? json_parts(text, parts, array_count(parts)) : 0;
    for (size_t i = 0; i < n; i++)
        if (json_part_is(&parts[i], name))
            return str_eq(parts[i].text, S("null")) ? S("") : parts[i].text;
    return S("");
}

/* ---- POST /v1/leases ---- */

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

/* A worker may extend its lease until the timeout of the task. */
static int64_t leases_deadline_ms(const struct task *t)
{
    return t->timeout_ms ? uuid_time_ms(t->claim) + t->timeout_ms : INT64_MAX;
}

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
        jw_kv_str(&w, "id", leases_format_id(q, t, id));
        jw_kv_i64(&w, "fence", t->fence);
        jw_kv_time(&w, "expires_at", min_of(a->terms.until_ms, leases_deadline_ms(t)));
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
        if (leases_deadline_ms(t) < a->terms.until_ms)
            v[n++] = (struct lease_renewal){ .id = t->id, .fence = t->fence, .until_ms = leases_deadline_ms(t) };
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
    if (leases_read_body(q, acquire_fields, array_count(acquire_fields), &b, &e))
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

/* ---- heartbeat ---- */

enum report { REPORT_COMPLETE, REPORT_FAIL };

struct fail_body {
    struct str error;
    int64_t retry_after_ms;
    bool final;
};

struct complete_body {
    json_t *result;
};

struct heartbeat_body {
    int64_t lease_ms;
    json_t *progress;
};

static const struct json_field heartbeat_fields[] = {
    { .name = "lease_seconds",
      .kind = JSON_KIND_SECONDS,
      AT(heartbeat_body, lease_ms),
      .min = LEASE_MIN_MS,
      .max = LEASE_MAX_MS,
      .nullable = true },
    { .name = "progress", .kind = JSON_KIND_RAW, AT(heartbeat_body, progress), .nullable = true },
};

static const struct json_field complete_fields[] = {
    { .name = "result", .kind = JSON_KIND_RAW, AT(complete_body, result), .nullable = true },
};

static const struct json_field fail_fields[] = {
    { .name = "error",
      .kind = JSON_KIND_STR,
      AT(fail_body, error),
      .min = 1,
      .max = ERROR_CHARACTERS,
      .characters = true,
      .required = true },
    { .name = "retry_after_seconds",
      .kind = JSON_KIND_SECONDS,
      AT(fail_body, retry_after_ms),
      .min = 0,
      .max = RETRY_AFTER_MAX_MS,
      .nullable = true },
    { .name = "final", .kind = JSON_KIND_BOOL, AT(fail_body, final), .nullable = true },
};

/* A request about one lease. */
struct lease_request {
    struct fenced_id name;
    enum report report;
    struct fail_body fail;
    struct task task;
    struct trace trace; /* of the task */
    struct lease_row row;
    struct lease_renewal renewal;
    struct settlement settlement;
    bool settled; /* a settle was tried */
};

static enum handled leases_refuse_id(struct request *q)
{
    return request_refuse(q, PROBLEM_NOT_FOUND,
                          "this API key has no such lease; use the id that POST /v1/leases returned to it");
}

static enum handled leases_refuse_ended(struct request *q, const struct task *t)
{
    char text[200];
    bool again = t->state == TASK_RUNNING;
    snprintf(text, sizeof text, "this lease has ended: the task %s%s; stop working on it",
             again ? "was leased or claimed again since" : "is ", again ? "" : task_state_name(t->state));
    return request_refuse(q, PROBLEM_CONFLICT, text);
}

static enum handled leases_refuse_timed_out(struct request *q, const struct task *t)
{
    char text[200];
    snprintf(text, sizeof text,
             "this lease has ended: the task has taken longer than its timeout_ms, %lld; stop working on it",
             (long long)t->timeout_ms);
    return request_refuse(q, PROBLEM_CONFLICT, text);
}

static enum handled leases_answer_heartbeat(struct request *q)
{
    const struct lease_request *h = q->context;
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_str(&w, "id", q->name);
    jw_kv_time(&w, "expires_at", h->renewal.until_ms);
    jw_kv_bool(&w, "cancel_requested", h->renewal.ret_ended);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static struct lease_request *leases_new_request(struct request *q)
{
    struct lease_request *h = arena_new(&q->arena, struct lease_request);
    q->context = h;
    return leases_parse_id(q, q->name, &h->name) ? h : NULL;
}

static void leases_submit_renewal(struct request *q, void (*done)(struct op *))
{
    struct lease_request *h = q->context;
    q->write.lease_renew = (struct op_lease_renew){
        .op = { .kind = OP_LEASE_RENEW }, .tenant = q->who.tenant, .v = &h->renewal, .n = 1, .now_ms = q->now_ms
    };
    (void)request_submit(q, done);
}

/* Says why the lease could not be renewed. */
static enum handled leases_explain_ended(struct request *q, struct reader *r)
{
    const struct lease_request *h = q->context;
    struct error e = { 0 };
    struct task t;
    if (reader_get(r, q->who.tenant, h->name.id, &q->arena, &t, &e))
        return e.code == ERR_NOT_FOUND ? leases_refuse_id(q) : request_fail(q, &e);
    return leases_refuse_ended(q, &t);
}

static void leases_on_renewed(struct op *op)
{
    struct request *q = request_finish_op(op);
    const struct lease_request *h = q->context;
    if (op->rc)
        request_fail(q, &op->error);
    else if (h->renewal.ret_kept)
        leases_answer_heartbeat(q);
    else {
        request_later(q, leases_explain_ended);
        return;
    }
    request_answer(q);
}

enum handled leases_heartbeat(struct request *q, struct reader *r)
{
    struct heartbeat_body b = { .lease_ms = LEASE_DEFAULT_MS };
    struct error e = { 0 };
    struct lease_request *h = leases_new_request(q);
    if (!h)
        return leases_refuse_id(q);
    if (leases_read_body(q, heartbeat_fields, array_count(heartbeat_fields), &b, &e))
        return request_fail(q, &e);
    struct str progress = leases_member_text(q, "progress");
    if (progress.n > PROGRESS_BYTES) {
        (void)error_field(&e, "progress", "must have at most %d bytes", PROGRESS_BYTES);
        return request_fail(q, &e);
    }
    if (reader_get(r, q->who.tenant, h->name.id, &q->arena, &h->task, &e))
        return e.code == ERR_NOT_FOUND ? leases_refuse_id(q) : request_fail(q, &e);
    bool holds = h->task.state == TASK_RUNNING && h->task.fence == h->name.fence;
    int64_t deadline_ms = holds ? leases_deadline_ms(&h->task) : INT64_MAX;
    if (deadline_ms <= q->now_ms)
        return leases_refuse_timed_out(q, &h->task);
    h->renewal = (struct lease_renewal){ .id = h->name.id,
                                         .fence = h->name.fence,
                                         .until_ms = min_of(q->now_ms + b.lease_ms, deadline_ms),
                                         .progress = progress };
    leases_submit_renewal(q, leases_on_renewed);
    return HANDLED_LATER;
}

/* ---- complete and fail ---- */

static route_handler leases_run_report;

static enum handled leases_answer_report(struct request *q, enum task_state state, int64_t next_ms)
{
    const struct lease_request *h = q->context;
    char task[UUID_TEXT + 1];
    uuid_format(h->name.id, task);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_str(&w, "id", q->name);
    jw_kv_cstr(&w, "task_id", task);
    jw_kv_cstr(&w, "status", task_state_name(state));
    if (state == TASK_SCHEDULED)
        jw_kv_time(&w, "next_execution", next_ms);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* A report that was accepted before gets the same answer. A different report is too late. */
static enum handled leases_answer_repeated(struct request *q, struct reader *r, const struct task *t)
{
    const struct lease_request *h = q->context;
    struct error e = { 0 };
    struct execution_page page = { 0 };
    struct execution_filter f = { .tenant = q->who.tenant,
                                  .task = t->kind == TASK_OCCURRENCE ? t->parent : t->id,
                                  .limit = EXECUTIONS_SEARCHED };
    unsigned said =
        h->report == REPORT_COMPLETE ? 1U << EXECUTION_COMPLETED : 1U << EXECUTION_FAILED | 1U << EXECUTION_CANCELLED;
    if (reader_executions(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    for (size_t i = 0; i < page.executions.n; i++) {
        const struct execution *x = &page.executions.v[i];
        bool is_it = x->fence == h->name.fence && (t->kind != TASK_OCCURRENCE || uuid_eq(x->occurrence, t->id));
        if (is_it && said >> x->status & 1)
            return leases_answer_report(q, h->report == REPORT_COMPLETE ? TASK_COMPLETED : t->state, t->due_ms);
    }
    return leases_refuse_ended(q, t);
}

static void leases_count_outcome(const struct request *q, const struct task *t, const struct settlement *s)
{
    struct metrics *m = q->server->setup.metrics;
    const struct lease_request *h = q->context;
    late_measure(m, task_awaited_ms(t), s->verdict.execution.started_us, s->verdict.execution.late_by);
    settle_count(m, &(struct settled_attempt){ .tenant = t->tenant,
                                               .verdict = &s->verdict,
                                               .state = s->ret_state,
                                               .fault = h->fail.final ? FAULT_REQUEST : FAULT_TARGET,
                                               .target = t->target });
}

static struct outcome leases_outcome_of(const struct request *q, const struct lease_request *h)
{
    struct str result = leases_member_text(q, "result");
    struct outcome o = { .kind = OUTCOME_OK,
                         .sent = true,
                         .retry_after_ms = -1,
                         .started_us = task_leased_ms(&h->task) * US_PER_MS,
                         .completed_us = q->now_ms * US_PER_MS,
                         .worker = h->row.worker,
                         .trace_id = str_from(h->trace.id),
                         .late_by = task_lease_late_cause(&h->task) };
    if (h->report == REPORT_COMPLETE) {
        o.output = h->task.links & TASK_KEEPS_OUTPUT ? result : str_utf8_cut(result, OUTPUT_BYTES);
        return o;
    }
    o.kind = h->renewal.ret_ended ? OUTCOME_CANCELLED : OUTCOME_FAILED;
    o.failure = h->fail.final ? FAILURE_REFUSED : FAILURE_INTERNAL;
    o.error = h->fail.error;
    if (h->fail.retry_after_ms >= 0)
        o.retry_after_ms = h->fail.retry_after_ms;
    return o;
}

static void leases_tell_settled(const struct request *q, const struct lease_request *h)
{
    struct outcome o = leases_outcome_of(q, h);
    struct settle_facts facts = settle_facts_of(&h->task, &o, NULL);
    o.sampled = tracer_wants(q->server->setup.tracer, &h->trace);
    transition_log_settled(q->server->setup.transitions, &facts, &o, &h->settlement);
    spans_add_run(q->server->setup.tracer, &facts, &o, &h->settlement, clock_wall_us(q->server->setup.clock));
}

static void leases_on_settled(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct lease_request *h = q->context;
    const struct api_setup *setup = &q->server->setup;
    const struct verdict *v = &h->settlement.verdict;
    h->settled = true;
    if (op->rc == ERR_OK && h->settlement.stale) {
        request_later(q, leases_run_report); /* another settle came first: perhaps by the same report */
        return;
    }
    if (op->rc) {
        request_fail(q, &op->error);
        request_answer(q);
        return;
    }
    enum task_state state = h->settlement.ret_state;
    leases_count_outcome(q, &h->task, &h->settlement);
    live_on_lease_settled(q->server->live, &h->task, &h->settlement);
    leases_tell_settled(q, h);
    if (setup->lease_over)
        setup->lease_over(setup->context, &h->task,
                          op_unblocked(q->write.settle.ret_unblocked_lanes, q->write.settle.ret_arrivals_left));
    if (state == TASK_SCHEDULED) {
        h->task.state = TASK_SCHEDULED;
        h->task.due_ms = v->due_ms;
        h->task.attempts = v->attempts;
        request_nudge(q, &h->task, 1);
    }
    leases_answer_report(q, state, v->due_ms);
    request_answer(q);
}

static void leases_submit_settle(struct request *q)
{
    struct lease_request *h = q->context;
    h->trace = trace_of(&h->task);
    struct outcome o = leases_outcome_of(q, h);
    struct settle_facts facts = settle_facts_of(&h->task, &o, &q->arena);
    struct prng random;
    prng_init(&random, (uint64_t)clock_steady_ns(q->server->setup.clock));
    h->settlement = (struct settlement){ .id = h->task.id,
                                         .fence = h->task.fence,
                                         .parent = h->task.parent,
                                         .tenant = h->task.tenant,
                                         .verdict = settle(&facts, &o, q->now_ms, &random, &q->arena) };
    q->write.settle =
        (struct op_settle){ .op = { .kind = OP_SETTLE }, .v = &h->settlement, .n = 1, .now_ms = q->now_ms };
    (void)request_submit(q, leases_on_settled);
}

/* If a task fails after its user asked to cancel it, it becomes CANCELLED. The renewal of the lease tells whether a
 * cancel was requested. */
static void leases_on_checked(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (op->rc) {
        request_fail(q, &op->error);
        request_answer(q);
        return;
    }
    leases_submit_settle(q);
}

static enum handled leases_run_report(struct request *q, struct reader *r)
{
    struct lease_request *h = q->context;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (reader_get(r, q->who.tenant, h->name.id, &q->arena, &h->task, &e))
        return e.code == ERR_NOT_FOUND ? leases_refuse_id(q) : request_fail(q, &e);
    enum err rc = reader_lease(r, q->who.tenant, h->name.id, &q->arena, &h->row, &e);
    if (rc && rc != ERR_NOT_FOUND)
        return request_fail(q, &e);
    if (rc || h->row.fence != h->name.fence || h->task.fence != h->name.fence || h->task.state != TASK_RUNNING ||
        h->settled)
        return leases_answer_repeated(q, r, &h->task);
    h->renewal = (struct lease_renewal){ .id = h->name.id, .fence = h->name.fence, .until_ms = h->row.until_ms };
    if (h->report == REPORT_FAIL)
        leases_submit_renewal(q, leases_on_checked);
    else
        leases_submit_settle(q);
    return HANDLED_LATER;
}

enum handled leases_report(struct request *q, struct reader *r)
{
    struct complete_body done = { 0 };
    struct fail_body fail = { .retry_after_ms = -1 };
    struct error e = { 0 };
    bool fails = q->route->argument == REPORT_FAIL;
    struct lease_request *h = leases_new_request(q);
    if (!h)
        return leases_refuse_id(q);
    if (fails ? leases_read_body(q, fail_fields, array_count(fail_fields), &fail, &e)
              : leases_read_body(q, complete_fields, array_count(complete_fields), &done, &e))
        return request_fail(q, &e);
    h->report = fails ? REPORT_FAIL : REPORT_COMPLETE;
    h->fail = fail;
    return leases_run_report(q, r);
}
