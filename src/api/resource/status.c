/* Health, readiness, the state of the scheduler, metrics, and the description of the API. */
#include "api/server/internal.h"
#include "api/server/negotiate.h"
#include "api/server/openapi.h"
#include "api/server/query.h"
#include "base/openmetrics/openmetrics.h"

enum handled status_health(struct request *q, struct reader *r)
{
    (void)r;
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "status", "ok");
    jw_kv_cstr(&w, "version", BELFRY_VERSION);
    jw_object_end(&w);
    return HANDLED_DONE;
}

/* Ready: the store can be read, and the roles of the node are up. */
enum handled status_ready(struct request *q, struct reader *r)
{
    const struct api_setup *setup = &q->server->setup;
    struct error e = { 0 };
    struct api_key key;
    enum err rc = reader_key(r, S("ready"), &q->arena, &key, &e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return request_fail(q, &e);
    e = (struct error){ 0 };
    if (setup->ready && !setup->ready(setup->context, &e))
        return request_refuse(q, PROBLEM_UNAVAILABLE, e.text[0] ? e.text : "the server is still starting");
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "status", "ready");
    jw_object_end(&w);
    return HANDLED_DONE;
}

static void status_write_counts(struct jw *w, const struct store_counts *counts)
{
    jw_key(w, "tasks");
    jw_object(w);
    for (size_t s = 0; s < array_count(counts->by_state); s++)
        jw_kv_i64(w, task_state_name((enum task_state)s), counts->by_state[s]);
    jw_object_end(w);
    jw_kv_i64(w, "due", counts->due);
}

/* Counts since this process started. Two samples give the rates. */
static void status_write_totals(struct jw *w, const struct metrics *m)
{
    static const struct {
        const char *name;
        enum metric metric;
    } rows[] = {
        { "scheduled", METRIC_TASKS_SCHEDULED }, { "executed", METRIC_TASKS_EXECUTED },
        { "completed", METRIC_TASKS_COMPLETED }, { "failed", METRIC_TASKS_FAILED },
        { "retried", METRIC_TASKS_RETRIED },     { "skipped", METRIC_RUNS_SKIPPED },
    };
    jw_key(w, "totals");
    jw_object(w);
    for (size_t i = 0; i < array_count(rows); i++)
        jw_kv_i64(w, rows[i].name, metric_count(m, rows[i].metric));
    jw_object_end(w);
}

enum handled status_scheduler(struct request *q, struct reader *r)
{
    const struct api_setup *setup = &q->server->setup;
    struct error e = { 0 };
    struct store_counts counts = { 0 };
    if (!request_require_default_tenant(q))
        return HANDLED_DONE;
    if (query_read(q->query, NULL, 0, NULL, &q->arena, &e) || reader_counts(r, q->now_ms, &counts, &e))
        return request_fail(q, &e);
    struct jw w = respond_json(&q->response, 200);
    jw_object(&w);
    jw_kv_cstr(&w, "status", "running");
    jw_kv_cstr(&w, "version", BELFRY_VERSION);
    jw_kv_time(&w, "time", q->now_ms);
    status_write_counts(&w, &counts);
    status_write_totals(&w, setup->metrics);
    if (setup->status)
        setup->status(setup->context, &w);
    jw_object_end(&w);
    return HANDLED_DONE;
}

static void status_write_openmetrics(struct request *q)
{
    const struct api_setup *setup = &q->server->setup;
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, q->response.body.max);
    metrics_print_exemplars(setup->metrics, &text);
    if (setup->metrics_more)
        setup->metrics_more(setup->context, &text);
    q->response.type = OPENMETRICS_TYPE;
    openmetrics_convert(buf_str(&text), &q->response.body);
}

enum handled status_metrics(struct request *q, struct reader *r)
{
    (void)r;
    if (!request_require_default_tenant(q))
        return HANDLED_DONE;
    respond_json(&q->response, 200);
    q->response.type = TYPE_METRICS;
    api_server_measure(q->server);
    if (accept_names(q->head.accept, S(OPENMETRICS))) {
        status_write_openmetrics(q);
        return HANDLED_DONE;
    }
    metrics_print(q->server->setup.metrics, &q->response.body);
    if (q->server->setup.metrics_more)
        q->server->setup.metrics_more(q->server->setup.context, &q->response.body);
    return HANDLED_DONE;
}

enum handled status_openapi(struct request *q, struct reader *r)
{
    (void)r;
    const struct openapi *o = &q->server->openapi;
    struct response *answer = &q->response;
    bool is_gzip = accept_encoding_allows_gzip(q->head.accept_encoding);
    respond_json(answer, 200);
    buf_add(&answer->body, is_gzip ? buf_str(&o->gzip) : openapi_json());
    memcpy(answer->etag, o->etag, sizeof o->etag);
    answer->is_gzip = is_gzip;
    answer->is_static = true;
    return HANDLED_DONE;
}
