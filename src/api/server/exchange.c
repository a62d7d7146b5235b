/* The API key is checked before the body is read: a stranger cannot fill our memory. If the key is not cached, a pool
 * thread asks the store, and the connection waits. */
#include "api/server/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/dashboard/session_cookie.h"
#include "api/dashboard/site.h"
#include "api/server/cors.h"
#include "api/server/gzip.h"
#include "api/server/internal.h"
#include "api/server/negotiate.h"
#include "api/server/query.h"
#include "base/sentence.h"
#include "core/task/trace.h"

/* ---- headers ---- */

static const struct {
    const char *name;
    size_t offset;
    bool is_list; /* it may be given several times */
} exchange_headers[] = {
    { "Authorization", offsetof(struct request_head, authorization), false },
    { "Idempotency-Key", offsetof(struct request_head, idempotency_key), false },
    { "If-Match", offsetof(struct request_head, if_match), false },
    { "Content-Type", offsetof(struct request_head, content_type), false },
    { "Content-Encoding", offsetof(struct request_head, content_encoding), true },
    { "Accept", offsetof(struct request_head, accept), true },
    { "Accept-Encoding", offsetof(struct request_head, accept_encoding), true },
    { "If-None-Match", offsetof(struct request_head, if_none_match), true },
    { "Origin", offsetof(struct request_head, origin), false },
    { "Host", offsetof(struct request_head, host), false },
    { "X-CSRF-Token", offsetof(struct request_head, csrf_token), false },
    { "Cookie", offsetof(struct request_head, cookie), true },
    { "Sec-Fetch-Site", offsetof(struct request_head, sec_fetch_site), true }, /* given twice it is not valid */
    { "Forwarded", offsetof(struct request_head, forwarded), true },
    { "X-Forwarded-For", offsetof(struct request_head, forwarded), true },
    { "X-Forwarded-Host", offsetof(struct request_head, forwarded), true },
    { "traceparent", offsetof(struct request_head, traceparent), true }, /* given twice it is not valid: no error */
    { "tracestate", offsetof(struct request_head, tracestate), true },
    { "Last-Event-ID", offsetof(struct request_head, last_event_id), false },
    { "X-Request-Id", offsetof(struct request_head, request_id), true },
    { "Belfry-Timing", offsetof(struct request_head, timing), false },
};

static struct str exchange_join(struct arena *a, struct str one, struct str other)
{
    size_t n = one.n + 2 + other.n;
    char *p = arena_alloc(a, n);
    if (!p)
        abort(); /* the limit of an arena is above that of the headers */
    memcpy(p, one.p, one.n);
    memcpy(p + one.n, ", ", 2);
    memcpy(p + one.n + 2, other.p, other.n);
    return (struct str){ p, n };
}

static void exchange_read_field(struct request *q, struct str name, struct str value)
{
    struct request_head *h = &q->head;
    for (size_t i = 0; i < array_count(exchange_headers); i++) {
        struct str *place = (struct str *)(void *)((char *)h + exchange_headers[i].offset);
        if (!str_eq_nocase(name, str_from(exchange_headers[i].name)))
            continue;
        if (place->p && exchange_headers[i].is_list)
            value = exchange_join(&q->arena, *place, value);
        else if (place->p)
            h->repeated = exchange_headers[i].name;
        *place = value;
    }
}

static void exchange_read_fields(struct request *q)
{
    const struct http_exchange *x = q->exchange;
    for (size_t i = 0; i < x->head->field_count; i++)
        exchange_read_field(q, http_span_str(x->head->fields[i].name, x->text),
                            http_span_str(x->head->fields[i].value, x->text));
    if (trace_request_is_valid(q->head.request_id))
        q->response.request_id = q->head.request_id;
}

/* A request that may change something is a span. Then it is the caller of the tasks that it makes. */
static void exchange_read_trace(struct request *q)
{
    struct api_server *s = q->server;
    const struct request_head *h = &q->head;
    bool is_read = q->method == HTTP_GET || q->method == HTTP_OPTIONS;
    if (s->setup.tracer && !is_read) {
        int64_t now_us = clock_wall_us(s->setup.clock);
        pthread_mutex_lock(&s->lock);
        struct uuid id = uuid_next(&s->ids, now_us / 1000);
        pthread_mutex_unlock(&s->lock);
        request_span_begin(&q->span, s->setup.tracer, h->traceparent, id, now_us);
    }
    struct str parent = q->span.parent[0] ? str_from(q->span.parent) : h->traceparent;
    if (!trace_keep(parent, h->tracestate, h->request_id, &q->arena, &q->trace))
        abort(); /* the limit of an arena is above that of the headers */
}

static void exchange_end_span(const struct request *q)
{
    const struct api_setup *setup = &q->server->setup;
    if (!q->span.id || !q->route)
        return;
    request_span_end(&q->span, setup->tracer,
                     &(struct request_span_facts){ .route = q->route->action,
                                                   .status = q->response.status,
                                                   .tenant = q->authenticated ? q->who.tenant : 0,
                                                   .request = q->response.request_id },
                     clock_wall_us(setup->clock));
}

bool media_type_is_ical(struct str type)
{
    struct str rest = type, name = { 0 };
    return str_cut(&rest, ';', &name) && str_eq_nocase(str_trim(name), S("text/calendar"));
}

bool media_type_is_known(struct str type, bool *ret_ndjson)
{
    struct str rest = type, name;
    *ret_ndjson = false;
    if (!str_cut(&rest, ';', &name))
        return true; /* no Content-Type: JSON */
    name = str_trim(name);
    *ret_ndjson = str_eq_nocase(name, S("application/x-ndjson"));
    struct str tail = name.n > 5 ? str_sub(name, name.n - 5, name.n) : S("");
    return *ret_ndjson || str_eq_nocase(name, S("application/json")) || str_eq_nocase(tail, S("+json")) ||
           str_eq_nocase(name, S("application/x-www-form-urlencoded")); /* the type that curl -d sends for any body */
}

static bool exchange_refuse(struct request *q, enum problem p, const char *detail)
{
    request_refuse(q, p, detail);
    return false;
}

/* Each check returns false if it has refused the request. */

static bool exchange_check_head(struct request *q)
{
    pthread_mutex_lock(&q->server->lock);
    bool stopping = q->server->stopping;
    pthread_mutex_unlock(&q->server->lock);
    if (stopping) {
        q->response.close = true;
        return exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down; try again");
    }
    if (q->head.repeated) {
        respond_problem(&q->response, PROBLEM_INVALID, "the header %s is given twice; send it once", q->head.repeated);
        return false;
    }
    if (q->head.if_match.p && q->head.if_match.n == 0) /* it would guard nothing, and the client thinks that it does */
        return exchange_refuse(q, PROBLEM_INVALID,
                               "the header If-Match is empty; send the ETag of the resource, or leave it out");
    return true;
}

static bool exchange_check_route(struct request *q)
{
    struct error e = { 0 };
    if (url_decode(q->path, false, &q->arena, &q->path, &e)) {
        error_in(&e, "path");
        respond_field(&q->response, PROBLEM_INVALID, &e);
        return false;
    }
    char allow[ALLOW_TEXT];
    struct route_params words = { 0 };
    q->route = route_find(q->method, q->path, &words, allow);
    q->id = words.id;
    q->other = words.other;
    q->name = words.name;
    if (q->route && q->pool == q->server->admin.pool && !(q->route->flags & ROUTE_OPERATOR))
        return exchange_refuse(q, PROBLEM_NOT_FOUND,
                               "the operator's listener does not serve this path; send the request to api.listen");
    if (q->route && (q->route->flags & ROUTE_PROBE) && q->pool != q->server->admin.pool)
        q->pool = q->server->probes;
    if (q->route)
        return true;
    struct str word;
    char quoted[QUOTE_TEXT];
    if (!allow[0] && route_misses_id(q->path, &word)) {
        quote_text(word, quoted);
        respond_problem(&q->response, PROBLEM_NOT_FOUND,
                        "%s is no id: an id looks like 019c3f2e-7a40-7000-8000-000000000001", quoted);
        return false;
    }
    if (!allow[0] && !str_eq(q->path, S("*")))
        return exchange_refuse(q, PROBLEM_NOT_FOUND, ROUTE_MISSING);
    if (q->method == HTTP_OPTIONS) {
        respond_nothing(&q->response);
    } else {
        exchange_refuse(q, PROBLEM_METHOD, "the header Allow lists the methods of this path");
    }
    memcpy(q->response.allow, allow[0] ? allow : "GET, HEAD, OPTIONS", allow[0] ? sizeof allow : 19);
    return false;
}

/* The certificate may expire while its connection lives, so it is judged for each request. */
static bool exchange_check_certificate(struct request *q, const struct client_identity **ret)
{
    const struct api_setup *setup = &q->server->setup;
    const struct tls_client *client = q->exchange->client;
    struct tenant_rules tenant = { .number = TENANT_DEFAULT };
    if (client && client->expires_ms <= clock_wall_ms(setup->clock)) {
        q->response.close = true;
        return exchange_refuse(q, PROBLEM_UNAUTHORIZED, REQUEST_CERTIFICATE_EXPIRED);
    }
    const struct client_identity *i = client ? client_identity_find(&setup->identities, client) : NULL;
    bool is_known = !i || (setup->catalog ? catalog_cache_tenant_named(setup->catalog, i->tenant, NULL, &tenant)
                                          : str_eq(i->tenant, S("default")));
    if (!is_known) {
        respond_problem(&q->response, PROBLEM_FORBIDDEN,
                        "there is no tenant '" STR_FMT "', which api.tls.identities names for this client certificate",
                        STR_ARG(i->tenant));
        return false;
    }
    q->certificate_tenant = i ? tenant.number : 0;
    *ret = i;
    return true;
}

static bool exchange_refuse_unmapped(struct request *q)
{
    cleanup_with(buf_release) struct buf names;
    buf_init(&names, TLS_NAME_BYTES_MAX);
    client_names_write(q->exchange->client, &names);
    respond_problem(&q->response, PROBLEM_UNAUTHORIZED,
                    "no identity is set for the client certificate (%s): add one to api.tls.identities, or send a "
                    "header 'Authorization: Bearer bf_…'",
                    buf_cstr(&names));
    return false;
}

/* A browser sends its certificate with the requests of every page: only those of this server may write by it. */
static bool exchange_check_page(struct request *q)
{
    struct browser_origin o;
    bool is_known = browser_origin_read(q, &o);
    if (q->method == HTTP_GET || !browser_request_is_foreign(q, is_known ? &o : NULL))
        return true;
    return exchange_refuse(q, PROBLEM_CROSS_SITE,
                           "a page of another origin made this request; it needs an API key in Authorization");
}

static bool exchange_check_identity(struct request *q)
{
    q->authenticated = q->route->scope == SCOPE_PUBLIC;
    if (q->authenticated)
        return true;
    const struct client_identity *certificate;
    if (!exchange_check_certificate(q, &certificate))
        return false;
    if (!session_cookie_check(q))
        return false;
    enum auth_result result = q->session.n ? auth_check_session(q->server->auth, q->session, &q->who)
                                           : auth_check(q->server->auth, q->head.authorization, &q->who);
    if (result == AUTH_STALE || result == AUTH_NOT_CACHED)
        return true; /* a pool thread looks it up, however many wrong keys came from this address */
    if (result == AUTH_MISSING && certificate) {
        if (!exchange_check_page(q))
            return false;
        q->who = (struct identity){ .tenant = q->certificate_tenant, .scopes = certificate->scopes };
        q->who.check = auth_check_of_certificate(q->server->auth, q->exchange->client->expires_ms);
        snprintf(q->who.key_id, sizeof q->who.key_id, "cert:" STR_FMT, STR_ARG(certificate->name));
        result = AUTH_OK;
    }
    if (result == AUTH_MISSING && q->exchange->client)
        return exchange_refuse_unmapped(q);
    if (result == AUTH_OK)
        return request_admit(q);
    request_refuse_key(q, result);
    return false;
}

static bool exchange_refuse_too_large(struct request *q)
{
    respond_problem(&q->response, PROBLEM_TOO_LARGE, "the body of this request may be at most %zu KiB",
                    q->route->body_max / 1024);
    return false;
}

static bool exchange_check_accept(struct request *q)
{
    struct str type = q->route->flags & ROUTE_TEXT     ? S("text/plain")
                      : q->route->flags & ROUTE_EVENTS ? S(TYPE_EVENTS)
                                                       : S("application/json");
    if (q->route->flags & ROUTE_PAGE || accept_allows(q->head.accept, type) ||
        (q->route->flags & ROUTE_TEXT && accept_names(q->head.accept, S(OPENMETRICS))))
        return true;
    respond_problem(&q->response, PROBLEM_ACCEPT, "the answer is " STR_FMT ", which the header Accept does not allow",
                    STR_ARG(type));
    return false;
}

static bool exchange_check_body(struct request *q)
{
    const struct http_parser *head = q->exchange->head;
    bool ndjson = false;
    if (!http_has_body(head))
        return true;
    if (q->route->body_max == 0)
        return exchange_refuse(q, PROBLEM_INVALID, "this request takes no body");
    if (head->length > q->route->body_max)
        return exchange_refuse_too_large(q);
    if (q->head.content_encoding.n && !str_eq_nocase(q->head.content_encoding, S("identity")))
        return exchange_refuse(q, PROBLEM_MEDIA_TYPE,
                               "send the body as it is: no Content-Encoding is supported in requests");
    bool ical = q->route->flags & ROUTE_ICAL;
    if (media_type_is_known(q->head.content_type, &ndjson) || (ical && media_type_is_ical(q->head.content_type)))
        return true;
    return exchange_refuse(q, PROBLEM_MEDIA_TYPE,
                           ical ? "set Content-Type to application/json or text/calendar"
                                : "set Content-Type to application/json");
}

/* ---- the answer ---- */

static void exchange_add_headers(struct http_answer *a, const struct response *r)
{
    char seconds[16] = "";
    if (r->retry_after_s)
        snprintf(seconds, sizeof seconds, "%d", r->retry_after_s);
    http_answer_add(a, "Content-Type", r->type);
    http_answer_add(a, "Content-Encoding", r->is_gzip ? "gzip" : NULL);
    http_answer_add(a, "Cache-Control", r->cache ? r->cache : r->is_static ? "no-cache" : "no-store");
    http_answer_add(a, "X-Content-Type-Options", "nosniff");
    http_answer_add(a, "X-Accel-Buffering", r->type && strcmp(r->type, TYPE_EVENTS) == 0 ? "no" : NULL);
    http_answer_add(a, "ETag", r->etag);
    http_answer_add(a, "Location", r->location);
    http_answer_add(a, "Set-Cookie", r->cookie);
    http_answer_add(a, "Allow", r->allow);
    http_answer_add(a, "Retry-After", seconds);
    http_answer_add(a, "RateLimit-Policy", r->rate_policy);
    http_answer_add(a, "RateLimit", r->rate);
    http_answer_add(a, "WWW-Authenticate", r->status == 401 ? "Bearer realm=\"belfry\"" : NULL);
    http_answer_add(a, "Idempotency-Replayed", r->replayed ? "true" : NULL);
    http_answer_add(a, "Belfry-Applied", r->partly_applied ? "some-nodes" : NULL);
    if (r->is_page)
        site_add_headers(a);
}

/* Not to strangers: how long a key took to check is nothing for them. */
static void exchange_add_timing(struct http_answer *a, const struct request *q)
{
    const struct request_timing *t = &q->timing;
    char text[160];
    if (!t->mark_ns || !q->authenticated)
        return;
    int64_t total_ns = clock_steady_ns(q->server->setup.clock) - t->begin_ns;
    snprintf(text, sizeof text, "auth;dur=%.3f, body;dur=%.3f, queue;dur=%.3f, store;dur=%.3f, total;dur=%.3f",
             (double)t->auth_ns / 1e6, (double)t->body_ns / 1e6, (double)t->queue_ns / 1e6, (double)t->store_ns / 1e6,
             (double)total_ns / 1e6);
    http_answer_add(a, "Server-Timing", text);
}

static void exchange_add_request_id(struct http_answer *a, const struct request *q)
{
    char text[TRACE_REQUEST_MAX + 1];
    if (!q->response.request_id.n)
        return;
    snprintf(text, sizeof text, STR_FMT, STR_ARG(q->response.request_id));
    http_answer_add(a, "X-Request-Id", text);
}

/* The headers that depend on the request, beside those of the answer itself. */
static void exchange_add_more(struct http_answer *a, const struct request *q)
{
    bool has_origins = q->server->setup.cors_origins.n > 0;
    http_answer_add(a, "Vary", has_origins ? "Accept-Encoding, Origin" : "Accept-Encoding");
    exchange_add_timing(a, q);
    exchange_add_request_id(a, q);
    cors_add_headers(q, a);
}

static void exchange_count_answer(const struct request *q)
{
    static const char *const classes[] = { "1xx", "2xx", "3xx", "4xx", "5xx" };
    size_t row = q->route ? (size_t)(q->route - routes) + 1 : 0, class_ = (size_t)(q->response.status / 100 - 1);
    assert(class_ < array_count(classes));
    metric_add_pair(q->server->setup.metrics, METRIC_HTTP_RESPONSES, row, q->route ? q->route->action : "_unknown",
                    class_, classes[class_]);
}

/* Takes the body. */
static void exchange_write_answer(struct api_server *s, struct response *r, struct http_answer *ret)
{
    ret->status = r->status;
    ret->close = ret->close || r->close;
    exchange_add_headers(ret, r);
    http_answer_set_body(ret, &r->body);
    if (r->status == 500 || r->status == 503)
        metric_add(s->setup.metrics, METRIC_HTTP_ERRORS, 1);
}

/* ---- the callbacks ---- */

static enum handled exchange_identify(struct request *q, struct reader *r)
{
    struct api_server *s = q->server;
    bool ok = request_identify(q, r);
    if (ok)
        request_name_owner(q);
    http_resume(q->exchange, ok ? HTTP_READ : HTTP_ANSWER); /* q may be freed from now on */
    api_server_end_run(s);
    return HANDLED_LATER;
}

static enum http_next exchange_accept(struct request *q)
{
    struct http_exchange *x = q->exchange;
    x->body_max = q->route->body_max;
    if (q->authenticated)
        request_name_owner(q);
    if (q->authenticated || !http_has_body(x->head))
        return HTTP_READ; /* without a body, the pool thread that runs the request looks up the key */
    if (!api_server_begin_run(q->server)) {
        exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down; try again");
        return HTTP_ANSWER;
    }
    q->next = exchange_identify;
    thread_pool_submit(q->pool, q->who.tenant, THREAD_POOL_QUICK, &q->link);
    return HTTP_WAIT;
}

static enum http_next exchange_on_head(void *context, struct http_exchange *x)
{
    struct api_listener *listener = context;
    struct api_server *s = listener->server;
    struct request *q = request_new(s, x, x->target);
    q->pool = listener->pool;
    x->context = q;
    thread_owner_take(&q->http_thread);
    q->method = method_parse(x->method);
    metric_add(s->setup.metrics, METRIC_HTTP_REQUESTS, 1);
    pthread_mutex_lock(&s->lock);
    s->busy++;
    pthread_mutex_unlock(&s->lock);
    exchange_read_fields(q);
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(q);
    exchange_read_trace(q);
    if (str_eq(q->head.timing, S("1")))
        q->timing.begin_ns = q->timing.mark_ns = clock_steady_ns(s->setup.clock);
    bool ok = exchange_check_head(q) && exchange_check_route(q) && exchange_check_identity(q) &&
              exchange_check_accept(q) && exchange_check_body(q);
    request_time(q, &q->timing.auth_ns);
    return ok ? exchange_accept(q) : HTTP_ANSWER;
}

static enum http_next exchange_on_body(void *context, struct http_exchange *x)
{
    (void)context;
    struct request *q = x->context;
    assert_owned(&q->http_thread);
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(q);
    request_time(q, &q->timing.body_ns);
    q->body = x->body;
    x->body = (struct buf){ 0 };
    if (!api_server_begin_run(q->server)) {
        exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down; try again");
        return HTTP_ANSWER;
    }
    bool here = q->authenticated && (q->route->flags & ROUTE_INLINE);
    if ((here ? request_run(q, NULL) : request_later(q, request_run)) == HANDLED_LATER)
        return HTTP_WAIT; /* q may belong to another thread now */
    api_server_end_run(q->server);
    return HTTP_ANSWER;
}

static void exchange_on_body_refused(void *context, struct http_exchange *x, enum http_refusal why)
{
    (void)context;
    struct request *q = x->context;
    if (why == HTTP_BODY_TOO_LARGE)
        exchange_refuse_too_large(q);
    else
        exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server holds too many large request bodies; try again");
}

static void exchange_on_answer(void *context, struct http_exchange *x, struct http_answer *ret)
{
    (void)context;
    struct request *q = x->context;
    struct response *r = &q->response;
    cleanup_with(log_request_leave) struct log_request before = request_log_enter(q);
    inflight_keys_remove(&q->server->inflight_keys, &q->inflight_key);
    if (q->authenticated)
        request_name_owner(q);
    if (r->body.full)
        respond_problem(r, PROBLEM_INVALID,
                        "the answer would be larger than 64 MiB; ask for fewer items, with 'limit'");
    if (q->live_stream && !live_stream_open(take(q->live_stream), x))
        respond_problem(r, PROBLEM_UNAVAILABLE, "the server has too many streams, or is shutting down; try again");
    request_finish(q, GZIP_INLINE_MAX);
    exchange_count_answer(q);
    exchange_end_span(q);
    exchange_write_answer(q->server, r, ret);
    exchange_add_more(ret, q);
    request_release_memory(q);
}

static void exchange_on_end(void *context, struct http_exchange *x)
{
    struct api_server *s = ((struct api_listener *)context)->server;
    request_free(x->context);
    pthread_mutex_lock(&s->lock);
    s->busy--;
    if (s->busy == 0)
        pthread_cond_signal(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

static void exchange_on_refuse(void *context, int status, const char *text, struct http_answer *ret)
{
    struct response r;
    response_init(&r);
    respond_problem(&r, problem_of_status(status), "%s", text);
    exchange_write_answer(((struct api_listener *)context)->server, &r, ret);
    response_release(&r);
}

const struct http_handler exchange_handler = {
    .on_head = exchange_on_head,
    .on_body = exchange_on_body,
    .on_body_refused = exchange_on_body_refused,
    .on_answer = exchange_on_answer,
    .on_end = exchange_on_end,
    .on_refuse = exchange_on_refuse,
};
