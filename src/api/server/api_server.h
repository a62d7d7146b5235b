#pragma once
/* api/server/api_server.h - the API server.
 *
 * HTTP threads (libmicrohttpd, epoll) gather requests and send answers; a few API threads, each with a reader of its own,
 * do what needs one; what changes goes as an operation to the writer, whose `done` finishes the answer and wakes the
 * connection. No HTTP thread touches a store, and no thread waits for another: a request that waits is suspended.
 *
 * Everything in the setup must outlive the server; the writer must be driven until api_server_stop has returned. */
#include <stdatomic.h>

#include "base/json/jsonw.h"
#include "base/metrics.h"
#include "node/catalog_cache.h"
#include "node/lease/leasing.h"
#include "node/node.h"
#include "port/clock.h"
#include "port/store.h"
#include "port/zoneinfo.h"

/* What a user wants a RUNNING task to become, and what became of it (node/node.h): its owner takes it off the wheel or the queue
 * and makes the row `replace`, durably, under its fence, and keeps the request's record with it (RECALL_DONE); or, with `abort`,
 * breaks off its call, and the row is looked at again until it is settled (RECALL_ABORTING; also for a task that nobody holds
 * any more); or leaves it (RECALL_RUNNING; RECALL_ANSWERED if the key has a record by now, whose answer holds). The answer may come
 * on any thread, also before `recall` returns, and is given exactly once; the wish that recall got is there until then. */
struct recall_order {
    const struct task *running, *replace;
    const struct idempotency *record; /* NULL: none */
    bool abort;
};

struct recall_answer {
    void (*done)(struct recall_answer *answer);
    enum recall_result result;
    bool known;           /* else its owner has yet to hear of the claim: ask again */
    atomic_bool given_up; /* the caller was told 409 meanwhile: best leave the task as it is */
};

/* Why a task has not run yet, as its node sees it. The answer may come on any thread; the task is there until then. */
struct explain_answer {
    void (*done)(struct explain_answer *answer);
    struct explanation explanation;
};

/* 0 stands for the default, which is the number behind it. */
struct http_limits {
    size_t api_threads;             /* 2: they read, and parse batches */
    size_t http_threads;            /* 1: they gather and answer, and parse single creates */
    size_t connections;             /* 4096 */
    size_t connections_per_address; /* 1024 */
    int64_t header_ms;              /* 10,000: from the first byte we may expect to the last of the headers */
    int64_t body_ms;                /* 30,000 */
    int64_t idle_ms;                /* 60,000: between two requests of a connection */
    int64_t recall_ms;              /* 500 */
    size_t body_total;              /* 512 MiB: of all requests under way */
};

/* What the node knows of queues at this moment. They are asked for by name; the answer may come on any thread, also before `queues`
 * returns, and is given exactly once. */
struct queues_answer {
    void (*done)(struct queues_answer *answer);
    int32_t tenant;
    struct queue_standing *v; /* the names are the caller's, the rest is filled in */
    size_t n;
};

struct api_setup {
    const char *listen; /* "127.0.0.1:8080", "[::1]:8080", "localhost:0" */
    struct store *store;
    struct writer *writer;
    struct clock *clock;
    struct zoneinfo *zones;
    struct catalog_cache *catalog; /* NULL: queues, tenants and calendars are not served */
    struct metrics *metrics;
    struct str pepper; /* at least 16 bytes */
    bool require_idempotency_key;
    struct http_limits limits;

    /* Each may be NULL. */
    void *context;
    void (*nudge)(void *context, const struct task *tasks,
                  size_t n); /* they were written just now; on the writer's thread */
    void (*recall)(void *context, const struct recall_order *recall_request,
                   struct recall_answer *answer);         /* NULL: whatever runs, stays */
    void (*status)(void *context, struct jw *w);          /* more members of /v1/scheduler/status */
    void (*metrics_more)(void *context, struct buf *out); /* more lines of /metrics */
    bool (*ready)(void *context, struct error *e);        /* false: /ready says 503 and why */
    void (*catalog_changed)(void *context);               /* the book knows it already; on any thread */
    struct uuid (*node)(
        void *context); /* as which it shares limits with others; NULL: there are no others. On any thread */
    void (*explain)(void *context, const struct task *t, struct explain_answer *answer);
    /* Tasks for a worker outside (node/lease/leasing.h), answered on any thread; one that had been leased was settled, and whom that let go on. */
    void (*lease)(void *context, struct lease_ask *ask);
    void (*lease_over)(void *context, const struct task *t, uint64_t unblocked);
    void (*queues)(void *context, struct queues_answer *answer); /* NULL: nothing is known of them */
    /* The longest that the queue of a fleet lets a task run; 0: as long as it takes. NULL: there is no fleet. On any thread */
    int64_t (*queue_timeout_max)(void *context);
};

struct api_server;

enum err api_server_new(const struct api_setup *setup, struct api_server **ret, struct error *e) must_use;
uint16_t api_server_port(const struct api_server *s);

/* Another node may have changed API keys: what is remembered of them is asked for again. From any thread. */
void api_server_forget_keys(struct api_server *s);

/* Takes no more, finishes what is under way, then returns. Once. */
void api_server_stop(struct api_server *s);
void api_server_free(struct api_server *s); /* stops it if need be; NULL is fine */
