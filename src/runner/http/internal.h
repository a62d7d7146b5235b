#pragma once
/* runner/http/internal.h - declarations that the files of the HTTP runner share.
 *
 *   runner_http.c   runs, hosts and their queues: which call may start now
 *   call.c          one call: its request, its response, its outcome
 *   request_headers.c its request headers
 *   tenant.c        one tenant's libcurl state: connections and handles
 *   sockets.c       libcurl's sockets on the loop, and the limit on connections
 *   dns.c           c-ares on the loop
 *
 * Everything here runs on the loop's thread. A run's `done` is never called inside a libcurl callback, so a `done` that
 * starts or aborts runs may call libcurl. */
#include <curl/curl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/thread_owner.h"
#include "core/target/webhook.h"
#include "platform/ssrf_guard.h"
#include "runner/http/runner_http.h"

enum {
    CALL_TEXT_MAX = 8 << 20,         /* texts of one request: several times the API's limit */
    RESPONSE_HEADERS_MAX = 64 << 10, /* a response with more is aborted */
    OWN_HEADERS = 13,
    HEADER_TEXT = 96,
    ADDRESSES_TEXT = 512,
    FILES_RETRY_MS = 1000, /* after there was no descriptor for a connection */
};

/* One sentence and one failure for a name that does not exist and for one with internal addresses: else tasks could
 * find out internal names. */

struct http_dns;
struct http_poller;

/* libcurl's state for one tenant: its connections, TLS sessions and pinned names are never shared with another tenant.
 * Created at the tenant's first call, freed when the tenant has not called for idle_timeout_ms. */
struct http_tenant {
    int32_t id; /* the tenant's number */
    struct runner_http *runner;
    CURLM *multi;
    uv_timer_t timer;
    struct list running; /* calls that libcurl has */
    struct list spare;   /* idle calls whose handles are reused */
    struct list touched; /* in the poller's list: libcurl may have finished some calls */
    size_t open;         /* runs started and not done */
    int64_t idle_since_ns;
};

/* A host that calls go to, by the name in the URL. */
struct http_host {
    char *name; /* lower case, no brackets */
    bool is_literal;
    struct address literal;
    enum { HOST_NEW, HOST_LOOKUP, HOST_READY, HOST_FAILED } state;
    enum failure failure; /* if HOST_FAILED, like `why` */
    bool lacks_file;      /* if HOST_FAILED: there was no descriptor to look it up */
    const char *why;
    int64_t expires_ns;             /* when the name must be looked up again */
    char addresses[ADDRESSES_TEXT]; /* of a name: the allowed ones, in CURLOPT_RESOLVE's format */
    size_t running;                 /* calls that libcurl has */
    size_t sockets;                 /* connections, idle ones included */
    struct list waiting;            /* struct http_run, oldest first */
    struct list ready;              /* in the runner's list: a waiting run may start */
    struct list idle;               /* idle sockets, oldest first */
    struct runner_http *runner;
};

struct runner_http {
    struct runner base;
    struct thread_owner owner; /* the loop's thread, from the first start on */
    uv_loop_t *loop;
    struct clock *clock;
    struct runner_http_setup setup;
    struct guard guard;
    char *user_agent;
    struct http_poller *poller;
    struct http_dns *dns;
    struct map hosts, tenants;
    struct list ready;  /* hosts that may start a call, in turn */
    size_t spare_count; /* of all tenants */
    size_t running;     /* calls that libcurl has */
    size_t open;        /* runs started and not done */
    bool starting_calls, closing;
    struct prng random;
    uv_timer_t *sweep_timer;
};

/* One run, from start to end. A run that waits for a busy host has no call: ten thousand unused libcurl handles would
 * push the used ones out of the CPU caches. */
struct http_run {
    struct list link; /* in its host's `waiting` */
    struct run *run;
    struct http_host *host; /* NULL: not known yet */
    struct http_call *call; /* NULL: the run waits, and its target has not been read */
};

/* A libcurl handle and the run that uses it. Handles are reused, because most options are set only once. */
struct http_call {
    struct list link; /* in its tenant's `running` or `spare` */
    struct http_run *http_run;
    struct runner_http *runner;
    struct http_tenant *tenant;
    struct run *run;
    struct http_host *host;
    struct webhook webhook;
    struct arena texts;
    CURL *easy;
    CURLU *url;
    long port;
    bool is_tls;
    bool is_started, is_reached, is_blocked, is_capped, is_head_too_long;
    bool lacks_file;  /* there was no descriptor for its connection */
    bool wants_fresh; /* set on the handle: uses a new connection */
    int64_t started_us, timeout_ms, connect_ms;
    struct buf output;
    size_t response_bytes, header_bytes;
    char retry_after[64];
    char trace_id[33];
    char error[128];
    struct curl_slist headers[OWN_HEADERS + WEBHOOK_HEADERS_MAX];
    char own_headers[OWN_HEADERS][HEADER_TEXT];
    struct curl_slist resolve;
    struct signer signer;
};

/* call.c */
struct http_call *http_call_new(struct http_tenant *tenant);
void http_call_free(struct http_call *c);
/* Makes the handle ready for the next run. */
void http_call_reset(struct http_call *c);
/* Reads the task's target. */
enum err http_call_read(struct http_call *c, struct str *ret_host, struct error *e) must_use;
/* Sets all options of the request, just before libcurl gets the call. */
void http_call_prepare(struct http_call *c);
void http_call_set_headers(struct http_call *c, int64_t now_us); /* request_headers.c */
struct outcome http_call_outcome(struct http_call *c, CURLcode code);
/* For a call that libcurl has not finished. */
struct outcome http_call_failure(struct http_call *c, enum failure failure, const char *why);
struct outcome http_call_cancelled(struct http_call *c);
struct outcome http_call_lacks_key(struct http_call *c, const char *why); /* this process lacks the key of a secret */
struct outcome http_call_lacks_file(struct http_call *c); /* this process may open no more connections */

/* runner_http.c */
void runner_http_finished(struct http_call *c, CURLcode code);

/* tenant.c */
struct http_tenant *http_tenant_of(struct runner_http *r, int32_t id);
/* No run is open; memory is freed when the loop has closed the timer. */
void http_tenant_free(struct http_tenant *tenant);
struct http_call *http_tenant_take_call(struct http_tenant *tenant);
void http_tenant_return_call(struct http_call *c);
bool http_tenant_add_call(struct http_call *c); /* hands the call to libcurl */
void http_tenant_remove_call(struct http_call *c);
void http_tenant_reap(struct http_tenant *tenant); /* ends the runs whose calls libcurl has finished */

/* sockets.c */
struct http_poller *http_poller_new(uv_loop_t *loop, const struct runner_http_setup *setup);
void http_poller_free(struct http_poller *p); /* memory is freed when the loop has closed the handle */
void http_poller_keep_loop_alive(struct http_poller *p, bool busy); /* whether the loop stays alive for the poller */
void http_poller_watch(struct http_tenant *tenant);                 /* registers the tenant's socket callback */
/* Returns a socket or CURL_SOCKET_BAD. */
int http_poller_open_socket(struct http_poller *p, struct http_call *c, const struct curl_sockaddr *to);
void http_poller_shut_socket(struct http_poller *p, const struct http_tenant *tenant, struct http_host *h,
                             long port);                    /* shuts down an idle socket, by its local port */
void http_poller_attach(struct http_poller *p, CURL *easy); /* sets the poller's options on a handle */

/* dns.c */
struct http_lookup {
    const struct sockaddr *addresses[16];
    size_t count; /* 0: the lookup failed, see `why` */
    const char *why;
    bool lacks_file; /* it failed, and no descriptor is free */
    int ttl_s;       /* how long the addresses may be used */
};
typedef void http_dns_done(void *context, const struct http_lookup *l);
struct http_dns *http_dns_new(uv_loop_t *loop, const char *servers, struct error *e);
void http_dns_free(struct http_dns *n); /* like http_poller_free; pending lookups end with count 0 */
/* May call done before it returns. */
void http_dns_lookup(struct http_dns *n, const char *name, http_dns_done *done, void *context);
