/* A refusal known from the headers is answered at once only if the body is not on its way or too long to read: who closes
 * with unread bytes in the socket resets the connection, and the client may never see the answer. Otherwise the body is
 * read and dropped first. */
#include "api/server/exchange.h"

#include <stdio.h>

#include "api/server/internal.h"
#include "api/server/query.h"
#include "core/target/webhook.h"

enum { URI_MAX = 8 * 1024, HEADERS_MAX = 16 * 1024, DRAIN_MAX = 32 << 20 };

void *exchange_begin(void *server, const char *uri, struct MHD_Connection *connection)
{
    struct request *q = request_new(server, connection, str_from(uri));
    q->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    connection_enter(server, q->socket, CONNECTION_HEAD);
    return q;
}

/* ---- headers ---- */

static const struct {
    const char *name;
    size_t offset;
} wanted[] = {
    { "Authorization", offsetof(struct request_head, authorization) },
    { "Idempotency-Key", offsetof(struct request_head, idempotency_key) },
    { "If-Match", offsetof(struct request_head, if_match) },
    { "Content-Type", offsetof(struct request_head, content_type) },
    { "Content-Length", offsetof(struct request_head, content_length) },
    { "Transfer-Encoding", offsetof(struct request_head, transfer_encoding) },
    { "Expect", offsetof(struct request_head, expect) },
    { "Host", offsetof(struct request_head, host) },
};

static enum MHD_Result take_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct request_head *h = context;
    struct str n = str_from(name), v = value ? str_from(value) : S("");
    h->bytes += n.n + v.n + strlen(": \r\n");
    h->odd_name = h->odd_name || !is_header_name(n);
    for (size_t i = 0; i < array_count(wanted); i++) {
        struct str *place = (struct str *)(void *)((char *)h + wanted[i].offset);
        if (!str_eq_nocase(n, str_from(wanted[i].name)))
            continue;
        if (place->p)
            h->twice = wanted[i].name;
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
        return true; /* none was named: JSON it is */
    name = str_trim(name);
    *ret_ndjson = str_eq_nocase(name, S("application/x-ndjson"));
    struct str tail = name.n > 5 ? str_sub(name, name.n - 5, name.n) : S("");
    return *ret_ndjson || str_eq_nocase(name, S("application/json")) || str_eq_nocase(tail, S("+json")) ||
           str_eq_nocase(name, S("application/x-www-form-urlencoded")); /* what curl -d says of anything */
}

static bool refuse(struct request *q, enum problem p, const char *detail)
{
    request_refuse(q, p, detail);
    q->refused = true;
    return false;
}

/* Each check returns false once the request is refused. */

/* Where a request ends must be beyond doubt: what one reads as its body, a proxy in front of us may read as the next request.
 * "Content-Length : 5" is no Content-Length to the library, and a body that is not in chunks has no end it would find. */
static bool check_frame(struct request *q, const char *version)
{
    const struct request_head *h = &q->head;
    const char *why = NULL;
    if (h->odd_name)
        why = "a header's name may hold no blank, and nothing else that stands outside of a token";
    else if (h->transfer_encoding.p && !str_eq_nocase(h->transfer_encoding, S("chunked")))
        why = "Transfer-Encoding may be chunked, and nothing else";
    else if (!h->host.p && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        why = "the header Host is missing";
    else if (str_find(q->uri, ' ', 0) < q->uri.n)
        why = "a blank in the URI is written %20";
    if (!why)
        return true;
    q->unframed = true;
    return refuse(q, PROBLEM_INVALID, why);
}

static bool check_size(struct request *q)
{
    pthread_mutex_lock(&q->server->lock);
    bool stopping = q->server->stopping;
    pthread_mutex_unlock(&q->server->lock);
    if (stopping) {
        q->response.close = true;
        return refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down");
    }
    if (q->uri.n > URI_MAX)
        return refuse(q, PROBLEM_URI_TOO_LONG, "it may have 8 KiB");
    if (q->head.bytes > HEADERS_MAX)
        return refuse(q, PROBLEM_HEADERS_TOO_LARGE, "they may have 16 KiB");
    if (q->head.twice) {
        respond_problem(&q->response, PROBLEM_INVALID, "the header %s is given twice", q->head.twice);
        return !(q->refused = true);
    }
    if (q->head.content_length.p && q->head.transfer_encoding.p) {
        q->response.close = true;
        return refuse(q, PROBLEM_INVALID, "Content-Length and Transfer-Encoding contradict each other");
    }
    return true;
}

static bool check_route(struct request *q)
{
    struct error e = { 0 };
    if (url_decode(q->path, false, &q->arena, &q->path, &e)) {
        error_in(&e, "path");
        respond_field(&q->response, PROBLEM_INVALID, &e);
        return !(q->refused = true);
    }
    char allow[ALLOW_TEXT];
    struct route_words words = { 0 };
    q->route = route_find(q->method, q->path, &words, allow);
    q->id = words.id;
    q->name = words.name;
    if (q->route)
        return true;
    if (!allow[0] && !str_eq(q->path, S("*")))
        return refuse(q, PROBLEM_NOT_FOUND, "there is nothing at this path; /openapi.json lists what there is");
    if (q->method == HTTP_OPTIONS) {
        q->response.status = MHD_HTTP_NO_CONTENT;
        q->refused = true;
    } else {
        refuse(q, PROBLEM_METHOD, "the header Allow lists what can be done here");
    }
    memcpy(q->response.allow, allow[0] ? allow : "GET, HEAD, OPTIONS", allow[0] ? sizeof allow : 19);
    return false;
}

static bool check_identity(struct request *q)
{
    static const char *const says[] = {
        [AUTH_MISSING] = "send a header 'Authorization: Bearer bf_…'",
        [AUTH_MALFORMED] = "this is no API key: they look like 'Bearer bf_…' and have a checksum",
        [AUTH_REFUSED] = "the API key is unknown, expired or wrong",
    };
    q->known = q->route->scope == SCOPE_PUBLIC;
    if (q->known)
        return true;
    enum auth_result result = auth_check(q->server->auth, q->head.authorization, &q->who);
    if (result == AUTH_ASK)
        return true;
    if (result != AUTH_OK)
        return refuse(q, PROBLEM_UNAUTHORIZED, says[result]);
    if (!identity_may(&q->who, q->route->scope)) {
        respond_problem(&q->response, PROBLEM_FORBIDDEN, "it takes the scope '%s'", scope_name(q->route->scope));
        return !(q->refused = true);
    }
    return q->known = true;
}

static int64_t declared_length(const struct request *q)
{
    int64_t length = 0;
    if (!q->head.content_length.p)
        return 0;
    return str_to_i64(q->head.content_length, 0, INT64_MAX, &length) ? length : INT64_MAX;
}

static bool refuse_too_large(struct request *q)
{
    respond_problem(&q->response, PROBLEM_TOO_LARGE, "it may have %zu KiB here", q->route->body_max / 1024);
    return !(q->refused = true);
}

static bool check_body(struct request *q)
{
    int64_t length = declared_length(q);
    bool has_body = length > 0 || q->head.transfer_encoding.p, ndjson = false;
    buf_init(&q->body, max_of(q->route->body_max, (size_t)1));
    if (!has_body)
        return true;
    if (q->route->body_max == 0)
        return refuse(q, PROBLEM_INVALID, "this request takes no body");
    if (length > (int64_t)q->route->body_max)
        return refuse_too_large(q);
    bool ical = q->route->flags & ROUTE_ICAL;
    if (!media_type_is_known(q->head.content_type, &ndjson) && !(ical && media_type_is_ical(q->head.content_type)))
        return refuse(q, PROBLEM_MEDIA_TYPE, ical ? "send application/json or text/calendar" : "send application/json");
    q->body_counted = length > 0 ? (size_t)length : q->route->body_max;
    if (atomic_fetch_add(&q->server->body_total, q->body_counted) + q->body_counted > q->server->limits.body_total)
        return refuse(q, PROBLEM_UNAVAILABLE, "too many large requests are under way");
    return true;
}

/* ---- answer ---- */

static void add_header(struct MHD_Response *answer, const char *name, const char *value)
{
    if (value && value[0])
        MHD_add_response_header(answer, name, value);
}

static void add_headers(struct MHD_Response *answer, const struct response *r)
{
    char seconds[16] = "";
    if (r->retry_after_s)
        snprintf(seconds, sizeof seconds, "%d", r->retry_after_s);
    add_header(answer, "Content-Type", r->type);
    add_header(answer, "Cache-Control", "no-store");
    add_header(answer, "X-Content-Type-Options", "nosniff");
    add_header(answer, "ETag", r->etag);
    add_header(answer, "Location", r->location);
    add_header(answer, "Allow", r->allow);
    add_header(answer, "Retry-After", seconds);
    add_header(answer, "RateLimit-Policy", r->rate_policy);
    add_header(answer, "RateLimit", r->rate);
    add_header(answer, "WWW-Authenticate", r->status == MHD_HTTP_UNAUTHORIZED ? "Bearer realm=\"belfry\"" : NULL);
    add_header(answer, "Idempotency-Replayed", r->replayed ? "true" : NULL);
    add_header(answer, "Connection", r->close ? "close" : NULL);
}

static enum MHD_Result send_answer(struct request *q)
{
    struct response *r = &q->response;
    flights_leave(&q->server->flights, &q->flight);
    if (r->body.full)
        respond_problem(r, PROBLEM_INVALID, "the answer would be larger than 64 MiB; ask for less at once, by 'limit'");
    if (r->status >= MHD_HTTP_INTERNAL_SERVER_ERROR)
        metric_add(q->server->setup.metrics, METRIC_HTTP_ERRORS, 1);
    size_t n = r->body.n;
    struct MHD_Response *answer = MHD_create_response_from_buffer(n, buf_take(&r->body), MHD_RESPMEM_MUST_FREE);
    add_headers(answer, r);
    enum MHD_Result rc = MHD_queue_response(q->connection, (unsigned)r->status, answer);
    MHD_destroy_response(answer);
    return rc;
}

/* ---- the three kinds of calls ---- */

static enum MHD_Result enter(struct request *q, const char *method, const char *version)
{
    struct api_server *s = q->server;
    q->entered = true;
    q->method = method_parse(method);
    metric_add(s->setup.metrics, METRIC_HTTP_REQUESTS, 1);
    pthread_mutex_lock(&s->lock);
    s->busy++;
    pthread_mutex_unlock(&s->lock);
    connection_enter(s, q->socket, CONNECTION_BODY);
    MHD_get_connection_values(q->connection, MHD_HEADER_KIND, take_header, &q->head);
    if (check_frame(q, version) && check_size(q) && check_route(q) && check_identity(q) && check_body(q))
        return MHD_YES;
    if (!q->unframed && q->head.expect.n == 0 && declared_length(q) <= DRAIN_MAX)
        return MHD_YES;
    q->response.close = true;
    connection_enter(s, q->socket, CONNECTION_ANSWER);
    return send_answer(q);
}

static enum MHD_Result gather(struct request *q, struct str data)
{
    q->body_seen += data.n;
    if (q->refused)
        return q->body_seen <= DRAIN_MAX ? MHD_YES : MHD_NO;
    if (q->route->body_max == 0)
        refuse(q, PROBLEM_INVALID, "this request takes no body");
    else
        buf_add(&q->body, data);
    if (q->body.full)
        refuse_too_large(q);
    return MHD_YES;
}

static enum MHD_Result run(struct request *q)
{
    connection_enter(q->server, q->socket, CONNECTION_ANSWER);
    if (q->refused || q->answered)
        return send_answer(q);
    if (!api_server_begin_run(q->server)) {
        refuse(q, PROBLEM_UNAVAILABLE, "the server is shutting down");
        return send_answer(q);
    }
    bool here = q->known && (q->route->flags & ROUTE_INLINE);
    if ((here ? request_run(q, NULL) : request_later(q, request_run)) == HANDLED_LATER)
        return MHD_YES; /* q may be another thread's by now */
    api_server_end_run(q->server);
    return send_answer(q);
}

enum MHD_Result exchange_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **request)
{
    (void)server;
    (void)connection;
    (void)url;
    struct request *q = *request;
    if (!q->entered)
        return enter(q, method, version);
    if (*size == 0)
        return run(q);
    struct str piece = { data, *size };
    *size = 0;
    return gather(q, piece);
}

void exchange_end(void *server, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode why)
{
    (void)connection;
    (void)why;
    struct api_server *s = server;
    struct request *q = *request;
    if (!q)
        return;
    *request = NULL;
    connection_rest(s, q->socket);
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
