/* The routes of jobs: create, read, list, cancel. */
#include "api/resource/jobs.h"

#include <stdio.h>

#include "api/server/internal.h"
#include "api/server/query.h"
#include "api/server/request_input.h"
#include "api/task/pause_body.h"
#include "base/json/json.h"

enum { TOTAL_MAX = 100000 };

struct job_body {
    struct str action;
    json_t *filter;
    bool has_filter;
    int64_t rate, max_failed_percent;
    struct pause_body pause;
};

static const struct json_field bulk_fields[] = {
    { .name = "action", .kind = JSON_KIND_STR, .offset = offsetof(struct job_body, action), .required = true },
    { .name = "filter", .kind = JSON_KIND_RAW, .offset = offsetof(struct job_body, filter), .required = true },
    PAUSE_BODY_ROWS(struct job_body, pause),
};

static const struct json_field redrive_fields[] = {
    { .name = "filter", .kind = JSON_KIND_RAW, .offset = offsetof(struct job_body, filter), .required = true },
    { .name = "rate", .kind = JSON_KIND_I64, .offset = offsetof(struct job_body, rate), .min = 1, .max = JOB_RATE_MAX },
    { .name = "max_failed_percent",
      .kind = JSON_KIND_I64,
      .offset = offsetof(struct job_body, max_failed_percent),
      .min = 0,
      .max = 100 },
};

/* ---- create ---- */

static enum err jobs_bulk_action(struct str name, enum action *ret, struct error *e)
{
    bool known = action_parse(name, ret) && *ret != ACTION_FORCE_COMPLETE && *ret != ACTION_ARCHIVE;
    return known
               ? ERR_OK
               : error_field(e, "action", "must be cancel, pause, resume, retry, run-now or delete, not '" STR_FMT "'",
                             STR_ARG(str_utf8_cut(name, 40)));
}

/* The body that each task is paused with. The end is the same for all of them. */
static enum err jobs_set_pause(struct request *q, struct pause_body *b, struct job *job, struct error *e)
{
    enum { PAUSE_TEXT_MAX = 16 << 10 };
    cleanup_with(buf_release) struct buf text;
    struct jw w;
    buf_init(&text, PAUSE_TEXT_MAX);
    if (!b->reason.n && !b->until_ms && !b->for_ms)
        return ERR_OK;
    if (job->action != ACTION_PAUSE)
        return error_field(e, b->reason.n ? "reason" : b->until_ms ? "until" : "for", "is only for the action pause");
    if (pause_body_check(b, q->now_ms, e))
        return e->code;
    jw_init(&w, &text);
    jw_object(&w);
    if (b->reason.n)
        jw_kv_str(&w, "reason", b->reason);
    if (b->until_ms)
        jw_kv_time(&w, "until", b->until_ms);
    jw_object_end(&w);
    q->act_reason = b->reason;
    q->act_until_ms = b->until_ms;
    return arena_str(&q->arena, buf_str(&text), &job->pause) ? ERR_OK : error_no_room(e);
}

static enum err jobs_read_body(struct request *q, bool redrive, struct job *ret, struct error *e)
{
    struct job_body b = { .rate = JOB_RATE_DEFAULT, .max_failed_percent = JOB_PERCENT_DEFAULT };
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    const struct json_field *fields = redrive ? redrive_fields : bulk_fields;
    size_t count = redrive ? array_count(redrive_fields) : array_count(bulk_fields);
    if (json_parse(q->body.n ? buf_str(&q->body) : S("{}"), &doc, e) ||
        json_read(doc.root, fields, count, &b, &q->arena, e))
        return e->code;
    *ret = (struct job){ .id = request_new_id(q),
                         .redrive = redrive,
                         .action = ACTION_RETRY,
                         .by = str_from(q->who.key_id),
                         .without_workflows = !identity_may(&q->who, SCOPE_WORKFLOWS_WRITE),
                         .created_ms = q->now_ms,
                         .rate = b.rate,
                         .max_failed_percent = b.max_failed_percent };
    if (!redrive && (jobs_bulk_action(b.action, &ret->action, e) || jobs_set_pause(q, &b.pause, ret, e)))
        return e->code;
    bool fits = arena_str(&q->arena, json_member_text(&doc, "filter"), &ret->filter);
    return fits ? ERR_OK : error_set(e, ERR_LIMIT, "the filter is too large");
}

/* Counts the tasks once, to show the progress. The count has an upper bound, because counting a million tasks takes a
 * second. */
static enum err jobs_count_total(struct request *q, struct reader *r, struct job *job, struct error *e)
{
    struct task_filter f;
    struct task_count total = { 0 };
    if (job_filter(job, q->who.tenant, q->now_ms, &q->arena, &f, e))
        return e->code;
    if (reader_count_tasks(r, &f, TOTAL_MAX + 1, &total, e))
        return e->code;
    job->total = (int64_t)min_of(total.n, (size_t)TOTAL_MAX);
    job->total_exact = total.n <= TOTAL_MAX && !total.is_cut;
    return ERR_OK;
}

/* Stores the answer as the record of the job, in place of `now`. */
static enum handled jobs_put(struct request *q, const struct catalog_entry *now, void (*done)(struct op *op))
{
    q->job_change = (struct catalog_change){
        .entry = { .tenant = q->who.tenant, .kind = CATALOG_JOB, .name = now->name, .doc = buf_str(&q->response.body) },
        .version = now->version
    };
    q->write.catalog = (struct op_catalog){
        .op = { .kind = OP_CATALOG }, .v = &q->job_change, .n = 1, .now_ms = q->now_ms, .idempotency = request_record(q)
    };
    return request_submit(q, done);
}

static void jobs_on_created(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc)
        request_fail(q, &op->error);
    else
        job_start(q->server, q->who.tenant, ((const struct job *)q->context)->id);
    if (op->rc == ERR_OK)
        live_on_job(q->server->live, q->who.tenant, q->context);
    request_answer(q);
}

static enum handled jobs_create(struct request *q, struct reader *r, bool redrive)
{
    struct error e = { 0 };
    struct job *job = arena_new(&q->arena, struct job);
    if (jobs_are_full_for(q->server, q->who.tenant))
        return request_refuse(q, PROBLEM_QUOTA,
                              "4 jobs of this tenant are running, which is the most; wait until one has ended");
    if (jobs_are_full(q->server))
        return request_refuse(q, PROBLEM_UNAVAILABLE,
                              "this server runs as many jobs as it may; wait until one has ended");
    if (jobs_read_body(q, redrive, job, &e) || jobs_count_total(q, r, job, &e))
        return request_fail(q, &e);
    char *name = arena_array(&q->arena, char, UUID_TEXT + 1);
    uuid_format(job->id, name);
    struct jw w = respond_json(&q->response, 202);
    job_write(&w, job);
    snprintf(q->response.location, sizeof q->response.location, "/v1/jobs/%s", name);
    q->context = job;
    return jobs_put(q, &(struct catalog_entry){ .name = str_from(name) }, jobs_on_created);
}

enum handled jobs_bulk(struct request *q, struct reader *r)
{
    return jobs_create(q, r, false);
}

enum handled jobs_redrive(struct request *q, struct reader *r)
{
    return jobs_create(q, r, true);
}

/* ---- read ---- */

static enum err jobs_read(struct request *q, struct reader *r, struct catalog_entry *ret, struct error *e)
{
    char name[UUID_TEXT + 1];
    uuid_format(q->id, name);
    enum err rc = reader_catalog_get(r, q->who.tenant, CATALOG_JOB, str_from(name), &q->arena, ret, e);
    return rc == ERR_NOT_FOUND ? error_set(e, rc, "there is no such job") : rc;
}

enum handled jobs_get(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct catalog_entry entry;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || jobs_read(q, r, &entry, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_raw(&w, entry.doc);
    return HANDLED_DONE;
}

enum handled jobs_list(struct request *q, struct reader *r)
{
    int64_t limit = LIST_DEFAULT;
    const struct query_field fields[] = { { .name = "limit", .kind = QUERY_I64, .min = 1, .max = LIST_MAX } };
    struct error e = { 0 };
    struct catalog_page page = { 0 };
    struct catalog_filter f = { .kind = CATALOG_JOB, .tenant = q->who.tenant, .limit = CATALOG_LIST_MAX };
    if (query_read(q->query, fields, array_count(fields), &limit, &q->arena, &e) ||
        reader_catalog_list(r, &f, &q->arena, &page, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_key(&w, "jobs");
    jw_array(&w);
    for (size_t i = page.entries.n; i > 0 && limit-- > 0; i--) /* newest first: a name begins with its time */
        jw_raw(&w, page.entries.v[i - 1].doc);
    jw_array_end(&w);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* ---- cancel ---- */

static void jobs_on_cancel_written(struct op *op)
{
    struct request *q = request_finish_op(op);
    if (request_replayed(q, op))
        return;
    if (op->rc == ERR_CONFLICT) { /* the job has advanced, or has ended */
        request_later(q, jobs_cancel);
        return;
    }
    if (op->rc)
        request_fail(q, &op->error);
    request_answer(q);
}

/* A conflict means that the job has finished a page meanwhile. So the retries stop when the job ends, at the latest. */
enum handled jobs_cancel(struct request *q, struct reader *r)
{
    struct error e = { 0 };
    struct catalog_entry entry;
    struct job *job = arena_new(&q->arena, struct job);
    if (request_check_no_body(q, &e) || jobs_read(q, r, &entry, &e) || job_read(entry.doc, &q->arena, job, &e))
        return request_fail(q, &e);
    if (job->state != JOB_RUNNING)
        return request_refuse(q, PROBLEM_CONFLICT, "the job has already ended");
    bool is_news = !job->cancelling;
    job->cancelling = true;
    struct jw w = respond_json(&q->response, 202);
    job_write(&w, job);
    return is_news ? jobs_put(q, &entry, jobs_on_cancel_written) : HANDLED_DONE;
}
