/* Every answer is made at once on the HTTP thread. Nothing here waits. */
#include "api/server/health_server.h"

#include <stdlib.h>

#include "api/server/negotiate.h"
#include "base/json/jsonw.h"
#include "base/openmetrics/openmetrics.h"
#include "http/server.h"

enum { ANSWER_MAX = 1 << 20, CONNECTIONS = 64, IDLE_MS = 10000 };

struct health_server {
    struct health_server_setup setup;
    struct http_server *http;
};

struct health_server_answer {
    bool openmetrics; /* the client asks for it */
    int status;
    const char *type;
    struct buf body;
};

static void health_server_write_json(struct health_server_answer *a, int status, const char *word,
                                     const char *more_name, const char *more)
{
    struct jw w;
    a->status = status;
    a->type = "application/json";
    jw_init(&w, &a->body);
    jw_object(&w);
    jw_kv_cstr(&w, "status", word);
    if (more)
        jw_kv_cstr(&w, more_name, more);
    jw_object_end(&w);
}

static void health_server_answer_health(struct health_server *v, struct health_server_answer *a)
{
    (void)v;
    health_server_write_json(a, 200, "ok", "version", BELFRY_VERSION);
}

static void health_server_answer_ready(struct health_server *v, struct health_server_answer *a)
{
    struct error e = { 0 };
    if (v->setup.ready(v->setup.context, &e))
        health_server_write_json(a, 200, "ready", NULL, NULL);
    else
        health_server_write_json(a, 503, "not ready", "detail", e.text);
}

static void health_server_answer_metrics(struct health_server *v, struct health_server_answer *a)
{
    cleanup_with(buf_release) struct buf text;
    buf_init(&text, ANSWER_MAX);
    a->status = 200;
    a->type = a->openmetrics ? OPENMETRICS_TYPE : "text/plain; version=0.0.4";
    v->setup.metrics(v->setup.context, a->openmetrics, a->openmetrics ? &text : &a->body);
    if (a->openmetrics)
        openmetrics_convert(buf_str(&text), &a->body);
}

static void health_server_make_answer(struct health_server *v, struct str method, struct str path,
                                      struct health_server_answer *a)
{
    static const struct {
        const char *path;
        void (*answer)(struct health_server *v, struct health_server_answer *a);
    } rows[] = { { "/health", health_server_answer_health },
                 { "/ready", health_server_answer_ready },
                 { "/metrics", health_server_answer_metrics } };
    if (!str_eq(method, S("GET")) && !str_eq(method, S("HEAD"))) {
        health_server_write_json(a, 405, "error", "detail", "only GET and HEAD are supported");
        return;
    }
    for (size_t i = 0; i < array_count(rows); i++)
        if (str_eq(path, str_from(rows[i].path))) {
            rows[i].answer(v, a);
            return;
        }
    health_server_write_json(a, 404, "error", "detail",
                             "there is nothing at this path; a worker serves /health, /ready and /metrics");
}

static void health_server_send(struct health_server_answer *a, struct http_answer *ret)
{
    ret->status = a->status;
    http_answer_add(ret, "Content-Type", a->type);
    http_answer_set_body(ret, &a->body);
}

/* A body is dropped: no path takes one. */
static enum http_next health_server_on_head(void *context, struct http_exchange *x)
{
    (void)context;
    (void)x;
    return HTTP_ANSWER;
}

static bool health_server_wants_openmetrics(const struct http_exchange *x)
{
    for (size_t i = 0; i < x->head->field_count; i++)
        if (str_eq_nocase(http_span_str(x->head->fields[i].name, x->text), S("Accept")) &&
            accept_names(http_span_str(x->head->fields[i].value, x->text), S(OPENMETRICS)))
            return true;
    return false;
}

static void health_server_on_answer(void *context, struct http_exchange *x, struct http_answer *ret)
{
    struct health_server_answer a = { .openmetrics = health_server_wants_openmetrics(x) };
    buf_init(&a.body, ANSWER_MAX);
    health_server_make_answer(context, x->method, str_sub(x->target, 0, str_find(x->target, '?', 0)), &a);
    health_server_send(&a, ret);
}

static void health_server_on_end(void *context, struct http_exchange *x)
{
    (void)context;
    (void)x;
}

static void health_server_on_refuse(void *context, int status, const char *text, struct http_answer *ret)
{
    (void)context;
    struct health_server_answer a = { 0 };
    buf_init(&a.body, ANSWER_MAX);
    health_server_write_json(&a, status, "error", "detail", text);
    health_server_send(&a, ret);
}

enum err health_server_new(const struct health_server_setup *setup, struct health_server **ret, struct error *e)
{
    static const struct http_handler handler = { .on_head = health_server_on_head,
                                                 .on_answer = health_server_on_answer,
                                                 .on_end = health_server_on_end,
                                                 .on_refuse = health_server_on_refuse };
    struct health_server *v = xnew(*v);
    v->setup = *setup;
    struct http_server_setup http = {
        .listen = setup->listen,
        .clock = setup->clock,
        .handler = &handler,
        .context = v,
        .limits = { .threads = 1,
                    .connections = CONNECTIONS,
                    .connections_per_address = CONNECTIONS,
                    .idle_ms = IDLE_MS,
                    .idle_unknown_ms = IDLE_MS },
    };
    enum err rc = http_server_new(&http, &v->http, e);
    if (rc) {
        free(v);
        return rc;
    }
    *ret = v;
    return ERR_OK;
}

uint16_t health_server_port(const struct health_server *v)
{
    return http_server_port(v->http);
}

void health_server_free(struct health_server *v)
{
    if (!v)
        return;
    http_server_free(v->http);
    free(v);
}
