/* Tasks for workers outside (target WORKER): who asks for some waits suspended, on no thread; who has one goes on with it, completes it or
 * fails it. A lease's id is "TASK.FENCE": nothing is kept for it here. What its fence does not fit any more is over, and says why; a
 * report that was made before is answered as it was then. */
#include <stdio.h>
#include <stdlib.h>

#include "api/server/internal.h"
#include "api/task/json.h"
#include "node/lease/leasing.h"

enum {
    LEASE_DEFAULT_S = 60,
    LEASE_MAX_S = 24 * 3600,
    WAIT_MAX_S = 60,
    WORKER_BYTES = 200,
    ERROR_BYTES = 16 << 10,
    OUTPUT_BYTES = 16 << 10,
    PROGRESS_BYTES = 4 << 10,
    RETRY_AFTER_MAX_S = 86400,
    QUEUE_BYTES = 100,
    FENCE_TEXT = 20,
    LEASE_TEXT = UUID_TEXT + 1 + FENCE_TEXT,
    EXECUTIONS_LOOK = 100, /* how far back a repeated report is looked for */
    US_PER_MS = 1000,
};

struct lease_name {
    struct uuid task;
    int64_t fence;
};

static void lease_format(struct uuid task, int64_t fence, char out[LEASE_TEXT + 1])
{
    uuid_format(task, out);
    snprintf(out + UUID_TEXT, LEASE_TEXT + 1 - UUID_TEXT, ".%lld", (long long)fence);
}

static bool lease_parse(struct str text, struct lease_name *ret)
{
    return text.n > UUID_TEXT + 1 && text.p[UUID_TEXT] == '.' && uuid_parse(str_sub(text, 0, UUID_TEXT), &ret->task) &&
           str_to_i64(str_sub(text, UUID_TEXT + 1, text.n), 1, INT64_MAX, &ret->fence);
}

static enum err read_body(struct request *q, const struct json_field *fields, size_t count, void *into, struct error *e)
{
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(q->body.n ? buf_str(&q->body) : S("{}"), &doc, e))
        return e->code;
    if (!json_is_object(doc.root))
        return error_set(e, ERR_INVALID, "the body must be a JSON object");
    return json_read(doc.root, fields, count, into, &q->arena, e);
}

/* A member as it was written; empty: it is not there, or null. */
static struct str member_text(const struct request *q, const char *name)
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

struct ask_body {
    struct str queue, worker;
    int64_t max, wait_s, lease_s;
};

#define AT(type, member) .offset = offsetof(struct type, member)
static const struct json_field ask_fields[] = {
    { .name = "queue", .kind = JSON_KIND_STR, AT(ask_body, queue), .min = 1, .max = QUEUE_BYTES, .nullable = true },
    { .name = "max", .kind = JSON_KIND_I64, AT(ask_body, max), .min = 1, .max = LEASES_MAX, .nullable = true },
    { .name = "wait_seconds",
      .kind = JSON_KIND_I64,
      AT(ask_body, wait_s),
      .min = 0,
      .max = WAIT_MAX_S,
      .nullable = true },
    { .name = "lease_seconds",
      .kind = JSON_KIND_I64,
      AT(ask_body, lease_s),
      .min = 1,
      .max = LEASE_MAX_S,
      .nullable = true },
    { .name = "worker", .kind = JSON_KIND_STR, AT(ask_body, worker), .min = 1, .max = WORKER_BYTES, .nullable = true },
};

struct asking {
    struct lease_ask ask;
    struct request *q;
};

static void write_given(struct request *q, const struct lease_ask *a)
{
    struct task_context c = { .tenant = q->who.tenant, .now_ms = q->now_ms, .zones = NULL };
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "leases");
    jw_array(&w);
    for (size_t i = 0; i < a->claim.ret.n; i++) {
        const struct task *t = &a->claim.ret.v[i];
        char id[LEASE_TEXT + 1];
        lease_format(t->id, t->fence, id);
        jw_object(&w);
        jw_kv_cstr(&w, "id", id);
        jw_kv_time(&w, "expires_at", a->terms.until_ms);
        jw_kv_i64(&w, "attempt", t->attempts + 1);
        jw_key(&w, "task");
        task_to_json(&w, t, &c);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
}

static enum handled given(struct request *q, struct reader *r)
{
    (void)r;
    struct asking *asking = q->context;
    struct op *op = &asking->ask.claim.op;
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (op->rc)
        request_fail(q, &op->error);
    else
        write_given(q, &asking->ask);
    arena_release(&op->arena);
    free(asking);
    return HANDLED_DONE;
}

static void answered(struct lease_ask *a)
{
    request_later(container_of(a, struct asking, ask)->q, given);
}

enum handled leases_ask(struct request *q, struct reader *r)
{
    (void)r;
    const struct api_setup *setup = &q->server->setup;
    struct ask_body b = { .queue = S("default"), .max = 1, .lease_s = LEASE_DEFAULT_S };
    struct error e = { 0 };
    if (read_body(q, ask_fields, array_count(ask_fields), &b, &e))
        return request_fail(q, &e);
    if (!setup->lease)
        return request_refuse(q, PROBLEM_UNAVAILABLE, "this server gives no leases");
    struct asking *asking = xnew(*asking);
    asking->q = q;
    q->context = asking;
    asking->ask = (struct lease_ask){ .tenant = q->who.tenant,
                                      .queue = b.queue,
                                      .worker = b.worker.n ? b.worker : str_from(q->who.key_id),
                                      .max = (size_t)b.max,
                                      .lease_ms = b.lease_s * 1000,
                                      .wait_ms = b.wait_s * 1000,
                                      .done = answered };
    setup->lease(setup->context, &asking->ask);
    return HANDLED_LATER;
}

/* ---- who has one ---- */

enum report { REPORT_COMPLETE, REPORT_FAIL };

struct fail_body {
    struct str error;
    int64_t retry_after_s;
    bool final;
};

struct complete_body {
    json_t *result;
};

struct heartbeat_body {
    int64_t lease_s;
    json_t *progress;
};

static const struct json_field heartbeat_fields[] = {
    { .name = "lease_seconds",
      .kind = JSON_KIND_I64,
      AT(heartbeat_body, lease_s),
      .min = 1,
      .max = LEASE_MAX_S,
      .nullable = true },
    { .name = "progress", .kind = JSON_KIND_RAW, AT(heartbeat_body, progress), .nullable = true },
};

static const struct json_field complete_fields[] = {
    { .name = "result", .kind = JSON_KIND_RAW, AT(complete_body, result), .nullable = true },
};

static const struct json_field fail_fields[] = {
    { .name = "error", .kind = JSON_KIND_STR, AT(fail_body, error), .min = 1, .max = ERROR_BYTES, .required = true },
    { .name = "retry_after_seconds",
      .kind = JSON_KIND_I64,
      AT(fail_body, retry_after_s),
      .min = 0,
      .max = RETRY_AFTER_MAX_S,
      .nullable = true },
    { .name = "final", .kind = JSON_KIND_BOOL, AT(fail_body, final), .nullable = true },
};

/* One request about a lease, on its way. */
struct held {
    struct lease_name name;
    enum report report;
    struct fail_body fail;
    struct task task;
    struct lease_row row;
    struct lease_renewal keep;
    struct settlement settlement;
    bool settled; /* it was tried */
};

static enum handled refuse_id(struct request *q)
{
    return request_refuse(q, PROBLEM_NOT_FOUND, "there is no such lease: its id is the one that POST /v1/leases gave");
}

static enum handled refuse_over(struct request *q, const struct task *t)
{
    char text[200];
    bool again = t->state == TASK_RUNNING;
    snprintf(text, sizeof text, "this lease is over: the task %s%s; stop working on it",
             again ? "was leased or claimed again since" : "is ", again ? "" : task_state_name(t->state));
    return request_refuse(q, PROBLEM_CONFLICT, text);
}

static enum handled answer_keep(struct request *q)
{
    const struct held *h = q->context;
    char id[LEASE_TEXT + 1];
    lease_format(h->name.task, h->name.fence, id);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "id", id);
    jw_kv_time(&w, "expires_at", h->keep.until_ms);
    jw_kv_bool(&w, "cancel_requested", h->keep.ret_ended);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static struct held *new_held(struct request *q)
{
    struct held *h = arena_new(&q->arena, struct held);
    q->context = h;
    return lease_parse(q->name, &h->name) ? h : NULL;
}

static void submit_keep(struct request *q, void (*done)(struct op *))
{
    struct held *h = q->context;
    q->write.lease_renew = (struct op_lease_renew){
        .op = { .kind = OP_LEASE_RENEW }, .tenant = q->who.tenant, .v = &h->keep, .n = 1, .now_ms = q->now_ms
    };
    (void)request_submit(q, done);
}

/* Why it could not be kept. */
static enum handled explain_over(struct request *q, struct reader *r)
{
    const struct held *h = q->context;
    struct error e = { 0 };
    struct task t;
    if (reader_get(r, q->who.tenant, h->name.task, &q->arena, &t, &e))
        return e.code == ERR_NOT_FOUND ? refuse_id(q) : request_fail(q, &e);
    return refuse_over(q, &t);
}

static void kept(struct op *op)
{
    struct request *q = request_finish_op(op);
    const struct held *h = q->context;
    if (op->rc)
        request_fail(q, &op->error);
    else if (h->keep.ret_kept)
        answer_keep(q);
    else {
        request_later(q, explain_over);
        return;
    }
    request_answer(q);
}

enum handled leases_heartbeat(struct request *q, struct reader *r)
{
    (void)r;
    struct heartbeat_body b = { .lease_s = LEASE_DEFAULT_S };
    struct error e = { 0 };
    struct held *h = new_held(q);
    if (!h)
        return refuse_id(q);
    if (read_body(q, heartbeat_fields, array_count(heartbeat_fields), &b, &e))
        return request_fail(q, &e);
    struct str progress = member_text(q, "progress");
    if (progress.n > PROGRESS_BYTES) {
        (void)error_field(&e, "progress", "must have at most %d bytes", PROGRESS_BYTES);
        return request_fail(q, &e);
    }
    h->keep = (struct lease_renewal){
        .id = h->name.task, .fence = h->name.fence, .until_ms = q->now_ms + b.lease_s * 1000, .progress = progress
    };
    submit_keep(q, kept);
    return HANDLED_LATER;
}

/* ---- complete and fail ---- */

static route_handler report_run;

static enum handled answer_report(struct request *q, enum task_state state, int64_t next_ms)
{
    const struct held *h = q->context;
    char id[LEASE_TEXT + 1], task[UUID_TEXT + 1];
    lease_format(h->name.task, h->name.fence, id);
    uuid_format(h->name.task, task);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "id", id);
    jw_kv_cstr(&w, "task_id", task);
    jw_kv_cstr(&w, "status", task_state_name(state));
    if (state == TASK_SCHEDULED)
        jw_kv_time(&w, "next_execution", next_ms);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* A report that was taken before is answered alike; one that says something else is too late. */
static enum handled answer_repeat(struct request *q, struct reader *r, const struct task *t)
{
    const struct held *h = q->context;
    struct error e = { 0 };
    struct execution_page page = { 0 };
    struct execution_filter f = { .tenant = q->who.tenant,
                                  .task = t->kind == TASK_OCCURRENCE ? t->parent : t->id,
                                  .limit = EXECUTIONS_LOOK };
    enum execution_status said = h->report == REPORT_COMPLETE ? EXECUTION_COMPLETED : EXECUTION_FAILED;
    if (reader_executions(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    for (size_t i = 0; i < page.executions.n; i++) {
        const struct execution *x = &page.executions.v[i];
        bool is_it = x->fence == h->name.fence && (t->kind != TASK_OCCURRENCE || uuid_eq(x->occurrence, t->id));
        if (is_it && x->status == said)
            return answer_report(q, h->report == REPORT_COMPLETE ? TASK_COMPLETED : t->state, t->due_ms);
    }
    return refuse_over(q, t);
}

static void count(const struct request *q, const struct verdict *v)
{
    struct metrics *m = q->server->setup.metrics;
    metric_add(m, METRIC_TASKS_EXECUTED, 1);
    if (v->next == TASK_COMPLETED)
        metric_add(m, METRIC_TASKS_COMPLETED, 1);
    if (v->next == TASK_SCHEDULED)
        metric_add(m, METRIC_TASKS_RETRIED, 1);
    if (v->next == TASK_FAILED)
        metric_add(m, METRIC_TASKS_FAILED, 1);
    if (v->next == TASK_EXPIRED)
        metric_add(m, METRIC_TASKS_EXPIRED, 1);
}

static void settled(struct op *op)
{
    struct request *q = request_finish_op(op);
    struct held *h = q->context;
    const struct api_setup *setup = &q->server->setup;
    const struct verdict *v = &h->settlement.verdict;
    h->settled = true;
    if (op->rc == ERR_OK && h->settlement.stale) {
        request_later(q, report_run); /* somebody was faster: perhaps the same report */
        return;
    }
    if (op->rc) {
        request_fail(q, &op->error);
        request_answer(q);
        return;
    }
    count(q, v);
    if (setup->lease_over)
        setup->lease_over(setup->context, &h->task, q->write.settle.ret_unblocked_lanes);
    if (v->next == TASK_SCHEDULED) {
        h->task.state = TASK_SCHEDULED;
        h->task.due_ms = v->due_ms;
        request_nudge(q, &h->task, 1);
    }
    answer_report(q, v->next, v->due_ms);
    request_answer(q);
}

static struct outcome outcome_of(const struct request *q, const struct held *h)
{
    struct str result = member_text(q, "result");
    struct outcome o = { .kind = OUTCOME_OK,
                         .sent = true,
                         .retry_after_ms = -1,
                         .started_us = uuid_time_ms(h->task.claim) * US_PER_MS,
                         .completed_us = q->now_ms * US_PER_MS,
                         .worker = h->row.worker };
    if (h->report == REPORT_COMPLETE) {
        o.output = str_utf8_cut(result, OUTPUT_BYTES);
        return o;
    }
    o.kind = h->keep.ret_ended ? OUTCOME_CANCELLED : OUTCOME_FAILED;
    o.failure = h->fail.final ? FAILURE_REFUSED : FAILURE_INTERNAL;
    o.error = h->fail.error;
    if (h->fail.retry_after_s >= 0)
        o.retry_after_ms = h->fail.retry_after_s * 1000;
    return o;
}

static void submit_settle(struct request *q)
{
    struct held *h = q->context;
    struct outcome o = outcome_of(q, h);
    struct settle_facts facts = settle_facts_of(&h->task, &o, &q->arena);
    struct prng random;
    prng_init(&random, (uint64_t)clock_steady_ns(q->server->setup.clock));
    h->settlement = (struct settlement){ .id = h->task.id,
                                         .fence = h->task.fence,
                                         .parent = h->task.parent,
                                         .verdict = settle(&facts, &o, q->now_ms, &random, &q->arena) };
    q->write.settle =
        (struct op_settle){ .op = { .kind = OP_SETTLE }, .v = &h->settlement, .n = 1, .now_ms = q->now_ms };
    (void)request_submit(q, settled);
}

/* What fails though its user wanted it ended is cancelled; whether he did, who keeps the lease is told. */
static void looked(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (op->rc) {
        request_fail(q, &op->error);
        request_answer(q);
        return;
    }
    submit_settle(q);
}

static enum handled report_run(struct request *q, struct reader *r)
{
    struct held *h = q->context;
    struct error e = { 0 };
    q->now_ms = clock_wall_ms(q->server->setup.clock);
    if (reader_get(r, q->who.tenant, h->name.task, &q->arena, &h->task, &e))
        return e.code == ERR_NOT_FOUND ? refuse_id(q) : request_fail(q, &e);
    enum err rc = reader_lease(r, q->who.tenant, h->name.task, &q->arena, &h->row, &e);
    if (rc && rc != ERR_NOT_FOUND)
        return request_fail(q, &e);
    if (rc || h->row.fence != h->name.fence || h->task.fence != h->name.fence || h->task.state != TASK_RUNNING ||
        h->settled)
        return answer_repeat(q, r, &h->task);
    h->keep = (struct lease_renewal){ .id = h->name.task, .fence = h->name.fence, .until_ms = h->row.until_ms };
    if (h->report == REPORT_FAIL)
        submit_keep(q, looked);
    else
        submit_settle(q);
    return HANDLED_LATER;
}

enum handled leases_report(struct request *q, struct reader *r)
{
    struct complete_body done = { 0 };
    struct fail_body fail = { .retry_after_s = -1 };
    struct error e = { 0 };
    bool fails = q->route->argument == REPORT_FAIL;
    struct held *h = new_held(q);
    if (!h)
        return refuse_id(q);
    if (fails ? read_body(q, fail_fields, array_count(fail_fields), &fail, &e)
              : read_body(q, complete_fields, array_count(complete_fields), &done, &e))
        return request_fail(q, &e);
    h->report = fails ? REPORT_FAIL : REPORT_COMPLETE;
    h->fail = fail;
    return report_run(q, r);
}
