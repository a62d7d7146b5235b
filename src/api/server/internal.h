#pragma once
/* api/server/internal.h - the private state of the server, for its own files and for the resources. */
#include <netinet/in.h>
#include <pthread.h>

#include "api/resource/uncertain_writes.h"
#include "api/server/pool.h"
#include "api/server/request.h"
#include "api/server/seal.h"
#include "api/server/tenant_limits.h"
#include "port/crypto.h"

struct MHD_Daemon;

/* The phase of a connection, for the limits on slow clients. */
enum connection_phase {
    CONNECTION_NEW,    /* accepted, no request yet: the time for the headers runs */
    CONNECTION_IDLE,   /* between two requests */
    CONNECTION_HEAD,   /* the request line was read */
    CONNECTION_BODY,   /* the headers were read */
    CONNECTION_ANSWER, /* the server works on the answer or sends it */
};

struct connection {
    struct list link;
    int fd;
    enum connection_phase phase;
    int64_t since_ns;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer;
    uint64_t received_bytes; /* when the last request ended; counted only at log level debug */
    bool is_logged;          /* a problem of this connection was logged: once is enough */
};

struct api_server {
    struct api_setup setup;
    struct http_limits limits;
    struct MHD_Daemon *daemon;
    uint16_t port;
    int listen_fd; /* ours again after MHD_quiesce_daemon; else -1 */
    struct pool *pool;
    struct timers *timers;
    struct auth *auth;
    struct definition_cache *definitions; /* the setup's, or the next */
    struct definition_cache *own_definitions;
    uint8_t seal_key[SEAL_KEY_SIZE]; /* api/server/seal.h */
    struct inflight_keys inflight_keys;
    struct tenant_limits tenant_limits;
    struct uncertain_writes uncertain_writes;
    bool stopped;

    pthread_mutex_t lock; /* guards the fields below, except the atomic ones */
    pthread_cond_t idle;
    struct list connections;
    size_t busy; /* requests whose headers were read and whose answer is not sent yet */
    /* of those, the requests that run or wait for request_answer: their connections must not be closed */
    size_t running;
    bool closed; /* no request may start to run */
    bool stopping;
    struct uuid_gen ids;
    struct list jobs; /* the jobs that run on this node (api/resource/jobs.h) */
    size_t job_count;
    struct job_watch *job_watch; /* NULL: the store is not shared, so no other node runs jobs */

    struct timer sweep;
    bool sweeping;
    atomic_size_t body_total;
    _Atomic int64_t logged_ns;
};

/* Counts a run: a request that may suspend a connection, or a turn of a job. The server does not stop before the run
 * ends. False: the server has stopped. Any thread. */
bool api_server_begin_run(struct api_server *s);
void api_server_end_run(struct api_server *s);

/* connection.c. The HTTP thread of the connection. */
void connection_set_phase(struct api_server *s, struct connection *c, enum connection_phase phase);
void connection_on_request_end(struct api_server *s,
                               struct connection *c); /* the request has ended, with or without an answer */
void connections_on_sweep(struct timer *timer);       /* the timer thread */
/* Whether the client has closed the connection. Any thread, for the owner of a request of the connection. */
bool connection_peer_is_gone(const struct connection *c);
