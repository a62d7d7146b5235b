#pragma once
/* api/server/internal.h - the private state of the server, for its own files and for the resources. */
#include <pthread.h>

#include "api/auth/key_failures.h"
#include "api/catalog/uncertain_writes.h"
#include "api/live/live.h"
#include "api/live/live_streams.h"
#include "api/server/openapi.h"
#include "api/server/request.h"
#include "api/server/seal.h"
#include "api/server/tenant_limits.h"
#include "api/server/thread_pool.h"
#include "api/server/timers.h"
#include "core/stats/alert_rules.h"
#include "node/trace/transition_log.h"
#include "port/crypto.h"

/* An address that the server listens on, with what serves it. It is the context of the exchange_handler. */
struct api_listener {
    struct api_server *server;
    struct http_server *http; /* NULL: there is none */
    struct thread_pool *pool;
};

/* The alerts as they were last computed from figures, for the time when the store is away. */
struct kept_alerts {
    struct alert v[ALERTS_MAX];
    size_t n;
    int64_t as_of_ms; /* 0: never */
};

struct api_server {
    struct api_setup setup;
    struct api_limits limits;
    struct api_listener main, admin;
    struct thread_pool *probes; /* one thread, for the routes with ROUTE_PROBE of the main listener */
    struct timers *timers;
    struct live *live;
    struct auth *auth;
    struct key_failures key_failures;
    struct timer key_minute; /* of the key_failures */
    struct openapi openapi;
    struct definition_cache *definitions; /* the setup's, or the next */
    struct definition_cache *own_definitions;
    uint8_t seal_key[SEAL_KEY_SIZE]; /* api/server/seal.h */
    struct inflight_keys inflight_keys;
    struct tenant_limits tenant_limits;
    struct uncertain_writes uncertain_writes;
    bool stopped;

    pthread_mutex_t lock; /* guards the fields below, except the atomic ones */
    pthread_cond_t idle;
    size_t busy; /* requests whose headers were read and whose answer is not sent yet */
    /* of those, the requests that run or wait (HTTP_WAIT): their connections must not be closed */
    size_t running;
    bool closed; /* no request may start to run */
    bool stopping;
    struct uuid_gen ids;
    struct peer_buckets logins;
    struct list jobs; /* the jobs that run on this node (api/resource/jobs.h) */
    size_t job_count;
    struct job_watch *job_watch; /* NULL: the store is not shared, so no other node runs jobs */

    struct kept_alerts kept_alerts;

    _Atomic int64_t logged_ns;
};

/* Counts a run: a request that may wait, or a turn of a job. The server does not stop before the run
 * ends. False: the server has stopped. Any thread. */
bool api_server_begin_run(struct api_server *s);
void api_server_end_run(struct api_server *s);

void api_server_measure(struct api_server *s); /* sets the gauges of the HTTP server. Any thread */
