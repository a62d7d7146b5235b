/* What external workers say of the tasks that they have leased: heartbeats extend a lease; complete and fail settle the
 * task. If the lease has ended, the answer says why. A report that was made before is answered as it was then. */
#include <stdio.h>

#include "api/resource/lease.h"
#include "api/server/internal.h"
#include "core/task/retry_after.h"
#include "core/task/settle_metrics.h"
#include "core/task/trace.h"

enum {
    ERROR_CHARACTERS = 16 << 10,
    OUTPUT_BYTES = 16 << 10,
    PROGRESS_BYTES = 4 << 10,
    EXECUTIONS_SEARCHED = 100, /* how far back a repeated report is searched for */
    US_PER_MS = 1000,
};

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

#define AT(type, member) .offset = offsetof(struct type, member)
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
    return lease_parse_id(q, q->name, &h->name) ? h : NULL;
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
    if (lease_read_body(q, heartbeat_fields, array_count(heartbeat_fields), &b, &e))
        return request_fail(q, &e);
    struct str progress = leases_member_text(q, "progress");
    if (progress.n > PROGRESS_BYTES) {
        (void)error_field(&e, "progress", "must have at most %d bytes", PROGRESS_BYTES);
        return request_fail(q, &e);
    }
    if (reader_get(r, q->who.tenant, h->name.id, &q->arena, &h->task, &e))
        return e.code == ERR_NOT_FOUND ? leases_refuse_id(q) : request_fail(q, &e);
    bool holds = h->task.state == TASK_RUNNING && h->task.fence == h->name.fence;
    int64_t deadline_ms = holds ? lease_deadline_ms(&h->task) : INT64_MAX;
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
    if (request_op_failed(q, op))
        return;
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
    if (request_op_failed(q, op))
        return;
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
    if (fails ? lease_read_body(q, fail_fields, array_count(fail_fields), &fail, &e)
              : lease_read_body(q, complete_fields, array_count(complete_fields), &done, &e))
        return request_fail(q, &e);
    h->report = fails ? REPORT_FAIL : REPORT_COMPLETE;
    h->fail = fail;
    return leases_run_report(q, r);
}
