#pragma once
/* api/server/respond.h - answers: a status, a body, a few headers. Refusals are application/problem+json (RFC 9457).
 *
 * Every refusal is a row of PROBLEM_MAP. The client sees error sentences about its own request. It does not see
 * sentences about the store or other backends: those go to the log only.
 *
 * All functions act on their arguments only. The thread that owns the request calls them. */
#include "base/json/jsonw.h"
#include "base/uuid.h"

#define PROBLEM_MAP(X)                                                                                                 \
    X(INVALID, 400, "invalid-request", "The request is not valid")                                                     \
    X(KEY_MISSING, 400, "idempotency-key-missing", "An Idempotency-Key is required")                                   \
    X(UNAUTHORIZED, 401, "unauthorized", "A valid API key is required")                                                \
    X(FORBIDDEN, 403, "forbidden", "The API key does not allow this")                                                  \
    X(CROSS_SITE, 403, "cross-site-request", "The request does not come from the dashboard")                           \
    X(NOT_FOUND, 404, "not-found", "Not found")                                                                        \
    X(METHOD, 405, "method-not-allowed", "The method is not allowed for this path")                                    \
    X(ACCEPT, 406, "not-acceptable", "The Accept header allows no form of the answer")                                 \
    X(CONFLICT, 409, "conflict", "The current state does not allow this")                                              \
    X(RUNNING, 409, "running", "The task is running")                                                                  \
    X(IN_FLIGHT, 409, "request-in-flight", "A request with this Idempotency-Key is in progress")                       \
    X(PRECONDITION, 412, "precondition-failed", "It was changed since it was read")                                    \
    X(TOO_LARGE, 413, "body-too-large", "The body is too large")                                                       \
    X(URI_TOO_LONG, 414, "uri-too-long", "The URI is too long")                                                        \
    X(MEDIA_TYPE, 415, "unsupported-media-type", "The Content-Type of the body is not supported")                      \
    X(EXPECTATION, 417, "expectation-failed", "The expectation of the request cannot be met")                          \
    X(MISDIRECTED, 421, "misdirected-request", "Browsers may not use the server under this name")                      \
    X(KEY_REUSED, 422, "idempotency-key-reused", "This Idempotency-Key was used for another request")                  \
    X(QUOTA, 429, "limit-reached", "A limit of the tenant is reached")                                                 \
    X(KEY_LIMIT, 429, "too-many-failed-keys", "Too many wrong API keys came from this address")                        \
    X(LOGIN_LIMIT, 429, "too-many-logins", "Too many logins came from this address")                                   \
    X(HEADERS_TOO_LARGE, 431, "headers-too-large", "The headers are too large")                                        \
    X(INTERNAL, 500, "internal", "Internal server error")                                                              \
    X(NOT_IMPLEMENTED, 501, "not-implemented", "The server does not support this")                                     \
    X(UNAVAILABLE, 503, "unavailable", "The service is unavailable")                                                   \
    X(VERSION, 505, "http-version-not-supported", "The version of HTTP is not supported")

enum problem {
#define X(id, status, slug, title) PROBLEM_##id,
    PROBLEM_MAP(X)
#undef X
        PROBLEM_COUNT
};

enum { ANSWER_MAX = 64 << 20, RETRY_AFTER_S = 1, QUOTA_RETRY_AFTER_S = 10 };

#define TYPE_JSON    "application/json"
#define TYPE_PROBLEM "application/problem+json"
#define TYPE_EVENTS  "text/event-stream"
#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

struct response {
    int status;
    struct buf body;
    const char *type; /* of the body; NULL: there is none */
    char etag[64];    /* the next are left out if empty */
    char location[160];
    char allow[64];
    char cookie[192]; /* Set-Cookie */
    int retry_after_s;
    char rate_policy[48], rate[48]; /* RateLimit-Policy and RateLimit; a later respond_* call keeps them */
    bool replayed;                  /* the stored answer to an earlier request with the same Idempotency-Key */
    bool partly_applied;            /* a live node has not confirmed the change in time (Belfry-Applied) */
    bool is_gzip;                   /* the body is compressed */
    bool is_static;                 /* the same for every client until the next release; its ETag is complete */
    bool is_page;                   /* for browsers: with the headers of the dashboard (api/dashboard/site.h) */
    const char *cache;              /* Cache-Control; NULL: no-cache if it is static, else no-store */
    bool close;                     /* close the connection after this answer */
    struct str request_id;          /* the caller's X-Request-Id, borrowed; empty: none. Problems name it */
};

void response_init(struct response *r);
void response_release(struct response *r);

enum problem problem_of_status(int status); /* the first with this status; PROBLEM_INTERNAL if there is none */

/* Writes one object: type, title, status, detail, and `errors` if e has a field. detail NULL: e's field and sentence,
 * or the title if e is NULL or has no sentence. */
void problem_write(struct jw *w, enum problem p, const struct error *e, const char *detail);

/* Each of these replaces whatever answer was begun. */
void respond_problem(struct response *r, enum problem p, const char *detail, ...) __attribute__((format(printf, 3, 4)));
void respond_field(struct response *r, enum problem p, const struct error *e);
void respond_invalid(struct response *r, const struct error *e, size_t n); /* n errors, at least one */
void respond_error(struct response *r,
                   const struct error *e); /* by e's code; hides the sentences of ERR_UNAVAILABLE and ERR_CORRUPT */
enum problem
problem_of(const struct error *e); /* a tenant limit is recognised by e's field (core/sharing/tenant_rules.h) */

/* 200 (or another status) with a JSON body. Returns a writer for the empty body. */
struct jw respond_json(struct response *r, int status);
void respond_nothing(struct response *r);                            /* 204 */
void respond_page(struct response *r, int status, const char *type); /* for browsers; type NULL: no body */
void respond_etag(struct response *r, int64_t version);
void respond_etag_of_body(struct response *r); /* adds a hash of the body: "3" becomes "3-…", and no tag becomes "…" */
void respond_etag_gzip(struct response *r);    /* marks the tag as that of the compressed body */
void respond_not_modified(struct response *r); /* 304; keeps the ETag */

/* Whether If-Match (a list of tags, or '*') allows this version. An empty header allows every version. Of a tag, only
 * the version counts: an edit is not refused because the state of the task has changed since it was read. */
bool if_match_allows(struct str if_match, int64_t version);

/* "pagination": {…}, the same for every list. total < 0: no total. */
struct pagination {
    bool more;
    struct uuid next;
    struct str next_name; /* in place of next, in lists ordered by name */
    int64_t limit, page, total;
    bool total_exact;
};
struct request;
void pagination_write(const struct request *q, struct jw *w, const struct pagination *p);
