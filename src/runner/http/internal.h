#pragma once
/* runner/http/internal.h - what the files of the HTTP runner share.
 *
 *   runner_http.c        runs, hosts and their queues: who may call now
 *   call.c   one call: its request, its answer, its outcome
 *   headers.c its headers
 *   caller.c a tenant's share of libcurl: its connections, its handles
 *   sockets.c   libcurl's sockets on the loop, counted
 *   dns.c  c-ares on the loop
 *
 * A run's `done` is only ever called outside of libcurl's callbacks, so what it starts or aborts meets libcurl at rest. */
#include <curl/curl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "core/target/webhook.h"
#include "platform/ssrf_guard.h"
#include "runner/http/runner_http.h"

enum {
    CALL_TEXT_MAX = 8 << 20,         /* of one request's texts: several times what the API lets in */
    RESPONSE_HEADERS_MAX = 64 << 10, /* an answer with more is broken off */
    OWN_HEADERS = 12,
    HEADER_TEXT = 96,
    ADDRESSES_TEXT = 512,
};

struct names;
struct poller;

/* What libcurl keeps for one tenant: connections, TLS sessions and pinned names are never shared with another. Made when the
 * tenant first calls, dropped when it has not called for a while. */
struct caller {
    int32_t tenant;
    struct runner_http *runner;
    CURLM *multi;
    uv_timer_t timer;
    struct list running; /* calls that libcurl has */
    struct list spare;   /* calls whose handles wait for their next use */
    struct list touched; /* in the poller's list: libcurl may be done with some calls */
    size_t open;         /* runs started and not done */
    int64_t idle_since_ns;
};

/* Where calls go, by the name in the URL. */
struct host {
    char *name; /* lower case, no brackets */
    bool is_literal;
    enum { HOST_NEW, HOST_LOOKUP, HOST_READY, HOST_FAILED } state;
    enum failure failure; /* if HOST_FAILED, and why: */
    const char *why;
    int64_t expires_ns;             /* when the name is to be looked up again */
    char addresses[ADDRESSES_TEXT]; /* of a name: those allowed, as CURLOPT_RESOLVE takes them */
    size_t running;                 /* calls that libcurl has */
    size_t sockets;                 /* connections, those included that nobody uses now */
    struct list waiting;            /* tickets, oldest first */
    struct list ready;              /* in the runner's list: some wait, and may go */
    struct list idle;               /* sockets that nobody uses now, oldest first */
    struct runner_http *runner;
};

struct runner_http {
    struct runner base;
    uv_loop_t *loop;
    struct clock *clock;
    struct runner_http_setup setup;
    struct guard guard;
    char *user_agent;
    struct poller *poller;
    struct names *names;
    struct map hosts, callers;
    struct list ready;  /* hosts, in turn */
    size_t spare_count; /* of all callers */
    size_t running;     /* calls that libcurl has */
    size_t open;        /* runs started and not done */
    bool pumping, closing;
    struct prng random;
    uv_timer_t *sweep_timer;
};

/* One run, from its start to its end. What waits for a crowded host has no call: ten thousand handles of libcurl that nobody uses
 * would push those in use out of the caches. */
struct ticket {
    struct list link; /* waiting at its host */
    struct run *run;
    struct host *host; /* NULL: not known yet */
    struct call *call; /* NULL: it waits, and has not been read */
    int64_t queued_ns;
};

/* A handle of libcurl, and the run that has it: most options are set once. */
struct call {
    struct list link; /* running or spare in its caller */
    struct ticket *ticket;
    struct runner_http *runner;
    struct caller *caller;
    struct run *run;
    struct host *host;
    struct webhook webhook;
    struct arena texts;
    CURL *easy;
    CURLU *url;
    long port;
    bool is_tls;
    bool is_started, is_reached, is_blocked, is_capped, is_head_too_long;
    bool wants_fresh; /* set on the handle: connection not to be shared with earlier calls */
    int64_t started_us, timeout_ms, connect_ms;
    struct buf output;
    size_t response_bytes, header_bytes;
    char retry_after[64];
    char trace_id[33];
    char error[128];
    struct curl_slist headers[OWN_HEADERS + WEBHOOK_HEADERS_MAX];
    char own_headers[OWN_HEADERS][HEADER_TEXT];
    struct curl_slist resolve;
};

/* call.c */
struct call *call_new(struct caller *caller);
void call_free(struct call *c);
void call_reset(struct call *c);                                                    /* ready for the next run */
enum err call_read(struct call *c, struct str *ret_host, struct error *e) must_use; /* what the task asks for */
void call_prepare(struct call *c);                 /* everything that libcurl must know, just before it gets the call */
void call_headers(struct call *c, int64_t now_us); /* headers.c */
struct outcome call_outcome(struct call *c, CURLcode code);
struct outcome call_failure(struct call *c, enum failure failure, const char *why); /* before libcurl had it */
struct outcome call_cancelled(struct call *c);

/* runner_http.c */
void runner_http_finished(struct call *c, CURLcode code);

/* caller.c */
struct caller *caller_of(struct runner_http *r, int32_t tenant);
void caller_free(struct caller *who); /* nothing is open in it; frees itself once the loop has closed its timer */
struct call *caller_take(struct caller *who);
void caller_give_back(struct call *c);
bool caller_add(struct call *c); /* to libcurl */
void caller_remove(struct call *c);
void caller_reap(struct caller *who); /* ends the runs whose calls libcurl has finished */

/* sockets.c */
struct poller *poller_new(uv_loop_t *loop, const struct runner_http_setup *setup);
void poller_free(struct poller *p);            /* frees itself once the loop has closed its handle */
void poller_hold(struct poller *p, bool busy); /* whether the loop is to stay alive for it */
void poller_watch(struct caller *caller);      /* its sockets, from now on */
int poller_open(struct poller *p, struct call *c, const struct curl_sockaddr *to); /* a socket, or CURL_SOCKET_BAD */
void poller_shut(struct poller *p, const struct caller *who, struct host *h,
                 long port);                      /* an idle socket, by its own port */
void poller_attach(struct poller *p, CURL *easy); /* options that every handle gets */

/* dns.c */
struct lookup {
    const struct sockaddr *addresses[16];
    size_t count; /* 0: failed, why says how */
    const char *why;
    int ttl_s;
};
typedef void lookup_done(void *context, const struct lookup *l);
struct names *names_new(uv_loop_t *loop, const char *servers, struct error *e);
void names_free(struct names *n); /* as poller_free; lookups under way end with count 0 */
void names_lookup(struct names *n, const char *name, lookup_done *done, void *context); /* perhaps done at once */
