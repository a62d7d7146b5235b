/* When is a refusal sent, if it is known from the headers alone? Closing a socket with unread bytes resets the
 * connection, and the client may never see the answer. So the body is read and dropped first. The refusal is sent at
 * once only if the client waits before it sends the body (Expect), the body is too long to read, or its end is
 * unknown. */
#include "api/server/exchange.h"

#include <stdio.h>

#include "api/server/internal.h"
#include "api/server/query.h"
#include "core/target/webhook.h"

enum { URI_MAX = 8 * 1024, HEADERS_MAX = 16 * 1024, DRAIN_MAX = 32 << 20 };

void *exchange_on_uri(void *server, const char *uri, struct MHD_Connection *connection)
{
    struct request *q = request_new(server, connection, str_from(uri));
    q->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    thread_owner_take(&q->http_thread);
    connection_set_phase(server, q->socket, CONNECTION_HEAD);
    return q;
}

/* ---- headers ---- */

static const struct {
    const char *name;
    size_t offset;
} exchange_headers[] = {
    { "Authorization", offsetof(struct request_head, authorization) },
    { "Idempotency-Key", offsetof(struct request_head, idempotency_key) },
    { "If-Match", offsetof(struct request_head, if_match) },
    { "Content-Type", offsetof(struct request_head, content_type) },
    { "Content-Length", offsetof(struct request_head, content_length) },
    { "Transfer-Encoding", offsetof(struct request_head, transfer_encoding) },
    { "Expect", offsetof(struct request_head, expect) },
    { "Host", offsetof(struct request_head, host) },
};

static enum MHD_Result exchange_on_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct request_head *h = context;
    struct str n = str_from(name), v = value ? str_from(value) : S("");
    h->bytes += n.n + v.n + strlen(": \r\n");
    h->bad_name = h->bad_name || !is_header_name(n);
    for (size_t i = 0; i < array_count(exchange_headers); i++) {
        struct str *place = (struct str *)(void *)((char *)h + exchange_headers[i].offset);
        if (!str_eq_nocase(n, str_from(exchange_headers[i].name)))
            continue;
        if (place->p)
            h->repeated = exchange_headers[i].name;
        *place = str_trim(v);
    }
    return MHD_YES;
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
    q->refused = true;
    return false;
}

/* Each check returns false if it has refused the request. */

/* The end of a request must be certain. If this server and a proxy in front of it disagree, the proxy may read a part
 * of the body as the next request. libmicrohttpd ignores a header "Content-Length : 5", and finds no end of a body with
 * a transfer encoding other than chunked. */
static bool exchange_check_framing(struct request *q, const char *version)
{
    const struct request_head *h = &q->head;
    const char *why = NULL;
    if (h->bad_name)
        why = "a header name holds a space or another character that is not allowed there";
    else if (h->transfer_encoding.p && !str_eq_nocase(h->transfer_encoding, S("chunked")))
        why = "Transfer-Encoding must be chunked; other values are not supported";
    else if (!h->host.p && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        why = "the header Host is missing";
    else if (str_find(q->uri, ' ', 0) < q->uri.n)
        why = "the URI holds a space; write it as %20";
    if (!why)
        return true;
    q->unframed = true;
    return exchange_refuse(q, PROBLEM_INVALID, why);
}

static bool exchange_check_head(struct request *q)
{
    pthread_mutex_lock(&q->server->lock);
    bool stopping = q->server->stopping;
    pthread_mutex_unlock(&q->server->lock);
    if (stopping) {
        q->response.close = true;
        return exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down; try again");
    }
    if (q->uri.n > URI_MAX)
        return exchange_refuse(q, PROBLEM_URI_TOO_LONG, "the URI may be at most 8 KiB long");
    if (q->head.bytes > HEADERS_MAX)
        return exchange_refuse(q, PROBLEM_HEADERS_TOO_LARGE, "all headers together may be at most 16 KiB");
    if (q->head.repeated) {
        respond_problem(&q->response, PROBLEM_INVALID, "the header %s is given twice; send it once", q->head.repeated);
        return !(q->refused = true);
    }
    if (q->head.if_match.p && q->head.if_match.n == 0) /* it would guard nothing, and the client thinks that it does */
        return exchange_refuse(q, PROBLEM_INVALID,
                               "the header If-Match is empty; send the ETag of the resource, or leave it out");
    if (q->head.content_length.p && q->head.transfer_encoding.p) {
        q->response.close = true;
        return exchange_refuse(q, PROBLEM_INVALID, "send Content-Length or Transfer-Encoding, not both");
    }
    return true;
}

static bool exchange_check_route(struct request *q)
{
    struct error e = { 0 };
    if (url_decode(q->path, false, &q->arena, &q->path, &e)) {
        error_in(&e, "path");
        respond_field(&q->response, PROBLEM_INVALID, &e);
        return !(q->refused = true);
    }
    char allow[ALLOW_TEXT];
    struct route_params words = { 0 };
    q->route = route_find(q->method, q->path, &words, allow);
    q->id = words.id;
    q->other = words.other;
    q->name = words.name;
    if (q->route)
        return true;
    if (!allow[0] && !str_eq(q->path, S("*")))
        return exchange_refuse(q, PROBLEM_NOT_FOUND,
                               "there is no route at this path; GET /openapi.json lists all routes");
    if (q->method == HTTP_OPTIONS) {
        q->response.status = MHD_HTTP_NO_CONTENT;
        q->refused = true;
    } else {
        exchange_refuse(q, PROBLEM_METHOD, "the header Allow lists the methods of this path");
    }
    memcpy(q->response.allow, allow[0] ? allow : "GET, HEAD, OPTIONS", allow[0] ? sizeof allow : 19);
    return false;
}

static bool exchange_check_identity(struct request *q)
{
    static const char *const says[] = {
        [AUTH_MISSING] = "send a header 'Authorization: Bearer bf_…'",
        [AUTH_MALFORMED] = "this is not a complete API key: send 'Bearer bf_…'; the end of a key is its checksum",
        [AUTH_REFUSED] = "the API key is unknown, expired or wrong",
    };
    q->authenticated = q->route->scope == SCOPE_PUBLIC;
    if (q->authenticated)
        return true;
    enum auth_result result = auth_check(q->server->auth, q->head.authorization, &q->who);
    if (result == AUTH_NOT_CACHED)
        return true;
    if (result != AUTH_OK)
        return exchange_refuse(q, PROBLEM_UNAUTHORIZED, says[result]);
    if (!identity_may(&q->who, q->route->scope)) {
        respond_problem(&q->response, PROBLEM_FORBIDDEN, "the API key needs the scope '%s' for this request",
                        scope_name(q->route->scope));
        return !(q->refused = true);
    }
    return q->authenticated = true;
}

static int64_t exchange_declared_length(const struct request *q)
{
    int64_t length = 0;
    if (!q->head.content_length.p)
        return 0;
    return str_to_i64(q->head.content_length, 0, INT64_MAX, &length) ? length : INT64_MAX;
}

static bool exchange_refuse_too_large(struct request *q)
{
    respond_problem(&q->response, PROBLEM_TOO_LARGE, "the body of this request may be at most %zu KiB",
                    q->route->body_max / 1024);
    return !(q->refused = true);
}

static bool exchange_check_body(struct request *q)
{
    int64_t length = exchange_declared_length(q);
    bool has_body = length > 0 || q->head.transfer_encoding.p, ndjson = false;
    buf_init(&q->body, max_of(q->route->body_max, (size_t)1));
    if (!has_body)
        return true;
    if (q->route->body_max == 0)
        return exchange_refuse(q, PROBLEM_INVALID, "this request takes no body");
    if (length > (int64_t)q->route->body_max)
        return exchange_refuse_too_large(q);
    bool ical = q->route->flags & ROUTE_ICAL;
    if (!media_type_is_known(q->head.content_type, &ndjson) && !(ical && media_type_is_ical(q->head.content_type)))
        return exchange_refuse(q, PROBLEM_MEDIA_TYPE,
                               ical ? "set Content-Type to application/json or text/calendar"
                                    : "set Content-Type to application/json");
    q->body_counted = length > 0 ? (size_t)length : q->route->body_max;
    if (atomic_fetch_add(&q->server->body_total, q->body_counted) + q->body_counted > q->server->limits.body_total)
        return exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server holds too many large request bodies; try again");
    return true;
}

/* ---- the answer ---- */

static void exchange_add_header(struct MHD_Response *answer, const char *name, const char *value)
{
    if (value && value[0])
        MHD_add_response_header(answer, name, value);
}

static void exchange_add_headers(struct MHD_Response *answer, const struct response *r)
{
    char seconds[16] = "";
    if (r->retry_after_s)
        snprintf(seconds, sizeof seconds, "%d", r->retry_after_s);
    exchange_add_header(answer, "Content-Type", r->type);
    exchange_add_header(answer, "Cache-Control", "no-store");
    exchange_add_header(answer, "X-Content-Type-Options", "nosniff");
    exchange_add_header(answer, "ETag", r->etag);
    exchange_add_header(answer, "Location", r->location);
    exchange_add_header(answer, "Allow", r->allow);
    exchange_add_header(answer, "Retry-After", seconds);
    exchange_add_header(answer, "RateLimit-Policy", r->rate_policy);
    exchange_add_header(answer, "RateLimit", r->rate);
    exchange_add_header(answer, "WWW-Authenticate",
                        r->status == MHD_HTTP_UNAUTHORIZED ? "Bearer realm=\"belfry\"" : NULL);
    exchange_add_header(answer, "Idempotency-Replayed", r->replayed ? "true" : NULL);
    exchange_add_header(answer, "Belfry-Applied", r->partly_applied ? "some-nodes" : NULL);
    exchange_add_header(answer, "Connection", r->close ? "close" : NULL);
}

static enum MHD_Result exchange_send_answer(struct request *q)
{
    struct response *r = &q->response;
    inflight_keys_remove(&q->server->inflight_keys, &q->inflight_key);
    if (r->body.full)
        respond_problem(r, PROBLEM_INVALID,
                        "the answer would be larger than 64 MiB; ask for fewer items, with 'limit'");
    if (r->status >= MHD_HTTP_INTERNAL_SERVER_ERROR)
        metric_add(q->server->setup.metrics, METRIC_HTTP_ERRORS, 1);
    size_t n = r->body.n;
    struct MHD_Response *answer = MHD_create_response_from_buffer(n, buf_take(&r->body), MHD_RESPMEM_MUST_FREE);
    exchange_add_headers(answer, r);
    enum MHD_Result rc = MHD_queue_response(q->connection, (unsigned)r->status, answer);
    MHD_destroy_response(answer);
    return rc;
}

/* ---- the callbacks ---- */

static enum MHD_Result exchange_read_head(struct request *q, const char *method, const char *version)
{
    struct api_server *s = q->server;
    q->entered = true;
    q->method = method_parse(method);
    metric_add(s->setup.metrics, METRIC_HTTP_REQUESTS, 1);
    pthread_mutex_lock(&s->lock);
    s->busy++;
    pthread_mutex_unlock(&s->lock);
    connection_set_phase(s, q->socket, CONNECTION_BODY);
    MHD_get_connection_values(q->connection, MHD_HEADER_KIND, exchange_on_header, &q->head);
    if (exchange_check_framing(q, version) && exchange_check_head(q) && exchange_check_route(q) &&
        exchange_check_identity(q) && exchange_check_body(q))
        return MHD_YES;
    if (!q->unframed && q->head.expect.n == 0 && exchange_declared_length(q) <= DRAIN_MAX)
        return MHD_YES;
    q->response.close = true;
    connection_set_phase(s, q->socket, CONNECTION_ANSWER);
    return exchange_send_answer(q);
}

static enum MHD_Result exchange_append_body(struct request *q, struct str data)
{
    q->body_seen += data.n;
    if (q->refused)
        return q->body_seen <= DRAIN_MAX ? MHD_YES : MHD_NO;
    if (q->route->body_max == 0)
        exchange_refuse(q, PROBLEM_INVALID, "this request takes no body");
    else
        buf_add(&q->body, data);
    if (q->body.full)
        exchange_refuse_too_large(q);
    return MHD_YES;
}

static enum MHD_Result exchange_run(struct request *q)
{
    connection_set_phase(q->server, q->socket, CONNECTION_ANSWER);
    if (q->refused || q->answered)
        return exchange_send_answer(q);
    if (!api_server_begin_run(q->server)) {
        exchange_refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down; try again");
        return exchange_send_answer(q);
    }
    bool here = q->authenticated && (q->route->flags & ROUTE_INLINE);
    if ((here ? request_run(q, NULL) : request_later(q, request_run)) == HANDLED_LATER)
        return MHD_YES; /* q may belong to another thread now */
    api_server_end_run(q->server);
    return exchange_send_answer(q);
}

enum MHD_Result exchange_on_access(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                   const char *version, const char *data, size_t *size, void **request)
{
    (void)server;
    (void)connection;
    (void)url;
    struct request *q = *request;
    assert_owned(&q->http_thread);
    if (!q->entered)
        return exchange_read_head(q, method, version);
    if (*size == 0)
        return exchange_run(q);
    struct str piece = { data, *size };
    *size = 0;
    return exchange_append_body(q, piece);
}

void exchange_on_completed(void *server, struct MHD_Connection *connection, void **request,
                           enum MHD_RequestTerminationCode why)
{
    (void)connection;
    (void)why;
    struct api_server *s = server;
    struct request *q = *request;
    if (!q)
        return;
    *request = NULL;
    connection_on_request_end(s, q->socket);
    bool entered = q->entered;
    request_free(q);
    if (!entered)
        return;
    pthread_mutex_lock(&s->lock);
    s->busy--;
    if (s->busy == 0)
        pthread_cond_signal(&s->idle);
    pthread_mutex_unlock(&s->lock);
}
