#pragma once
/* http/impl.h - the server's inside, for the files that are the server: server.c, exchange.c, request.c. */
#include <pthread.h>

#include "http/pool.h"
#include "http/request.h"

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
};

struct http_server {
    struct http_setup setup;
    struct http_limits limits;
    struct MHD_Daemon *daemon;
    uint16_t port;
    int listen_fd; /* ours again after the daemon was told to accept no more; else -1 */
    struct pool *pool;
    struct timers *timers;
    struct auth *auth;
    struct flights flights;
    bool stopped;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t idle;
    struct list connections;
    size_t busy;    /* requests whose headers are here and whose answer is not sent */
    size_t running; /* those among them that run or wait for request_answer: their connection must not be closed */
    bool closed;    /* nothing is run any more */
    bool stopping;
    struct uuid_gen ids;

    struct timer sweep;
    bool sweeping;
    atomic_size_t body_total;
    _Atomic int64_t logged_ns;
};

/* Around whatever may suspend a connection. False: too late. */
bool server_begin_run(struct http_server *s);
void server_end_run(struct http_server *s);

void connection_enter(struct http_server *s, struct connection *c, enum connection_phase phase);
