#pragma once
/* api/server/internal.h - the server's inside, for the files that are the server: server.c, connection.c, exchange.c, request.c. */
#include <netinet/in.h>
#include <pthread.h>

#include "api/resource/uncertain_writes.h"
#include "api/server/pool.h"
#include "api/server/request.h"
#include "api/server/tenant_limits.h"

struct MHD_Daemon;

/* Where a connection is, for the limits on slow clients. */
enum connection_phase {
    CONNECTION_NEW,    /* accepted, no request yet: the header's time runs */
    CONNECTION_IDLE,   /* between requests */
    CONNECTION_HEAD,   /* the request line is there */
    CONNECTION_BODY,   /* the headers are there */
    CONNECTION_ANSWER, /* ours to act, or to send */
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
    uint64_t heard_bytes; /* when the last request ended; counted only while debug is logged */
    bool is_told;         /* that something is wrong with it: once is enough */
};

struct api_server {
    struct api_setup setup;
    struct http_limits limits;
    struct MHD_Daemon *daemon;
    uint16_t port;
    int listen_fd; /* ours again after the daemon was told to accept no more; else -1 */
    struct pool *pool;
    struct timers *timers;
    struct auth *auth;
    struct flights flights;
    struct limits tenant_limits;
    struct uncertain_writes uncertain_writes;
    bool stopped;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t idle;
    struct list connections;
    size_t busy;    /* requests whose headers are here and whose answer is not sent */
    size_t running; /* those among them that run or wait for request_answer: their connection must not be closed */
    bool closed;    /* nothing is run any more */
    bool stopping;
    struct uuid_gen ids;
    struct list jobs; /* those that are worked on here (api/resource/jobs.h) */
    size_t job_count;
    struct job_watch *job_watch; /* NULL: nobody else works on any */

    struct timer sweep;
    bool sweeping;
    atomic_size_t body_total;
    _Atomic int64_t logged_ns;
};

/* Around whatever may suspend a connection. False: too late. */
bool api_server_begin_run(struct api_server *s);
void api_server_end_run(struct api_server *s);

/* connection.c */
void connection_enter(struct api_server *s, struct connection *c, enum connection_phase phase);
void connection_rest(struct api_server *s, struct connection *c); /* its request is over, however it went */
void connections_sweep(struct timer *timer);
