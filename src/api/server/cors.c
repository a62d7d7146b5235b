#include "api/server/cors.h"

#include "api/server/internal.h"

#define CORS_MAX_AGE "600"
#define CORS_REQUEST_HEADERS                                                                                           \
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Belfry-Timing"
#define CORS_ANSWER_HEADERS                                                                                            \
    "ETag, Location, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, Belfry-Applied, Server-Timing, X-Request-Id"

/* scheme://host or scheme://host:port: browsers send nothing behind it. */
static bool cors_origin_is_valid(struct str origin)
{
    static const char *const schemes[] = { "https://", "http://" };
    for (size_t i = 0; i < array_count(schemes); i++) {
        struct str scheme = str_from(schemes[i]);
        if (!str_starts(origin, scheme) || origin.n == scheme.n)
            continue;
        for (size_t k = scheme.n; k < origin.n; k++)
            if (origin.p[k] <= ' ' || (origin.p[k] >= 'A' && origin.p[k] <= 'Z') || strchr("/?#@,*\"", origin.p[k]))
                return false;
        return true;
    }
    return false;
}

enum err cors_origins_check(struct str origins, struct error *e)
{
    struct str rest = origins, origin;
    while (str_cut(&rest, ' ', &origin))
        if (origin.n && !cors_origin_is_valid(origin))
            return error_field(e, "api.cors_origins",
                               "must be origins separated by blanks, such as https://console.example.com: in lower "
                               "case and without a path, not '" STR_FMT "'",
                               STR_ARG(origin));
    return ERR_OK;
}

static bool cors_allows(struct str origins, struct str origin)
{
    struct str rest = origins, one;
    while (origin.n && str_cut(&rest, ' ', &one))
        if (str_eq(one, origin))
            return true;
    return false;
}

void cors_add_headers(const struct request *q, struct http_answer *a)
{
    struct str origins = q->server->setup.cors_origins;
    if (!origins.n || q->pool == q->server->admin.pool || !cors_allows(origins, q->head.origin))
        return;
    buf_add(a->fields, S("Access-Control-Allow-Origin: "));
    buf_add(a->fields, q->head.origin);
    buf_add(a->fields, S("\r\n"));
    if (q->method != HTTP_OPTIONS) {
        http_answer_add(a, "Access-Control-Expose-Headers", CORS_ANSWER_HEADERS);
        return;
    }
    http_answer_add(a, "Access-Control-Allow-Methods", q->response.allow);
    http_answer_add(a, "Access-Control-Allow-Headers", CORS_REQUEST_HEADERS);
    http_answer_add(a, "Access-Control-Max-Age", CORS_MAX_AGE);
}
