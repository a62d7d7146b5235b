#pragma once
/* http/internal.h - the private state of the server and of its threads. */
#include "base/thread_owner.h"
#include "http/budget.h"
#include "http/connection.h"
#include "http/stream.h"

/* Why connections were closed by the server. */
#define HTTP_CLOSE_MAP(X)                                                                                              \
    X(ADDRESS, "address-limit")                                                                                        \
    X(LIMIT, "connection-limit")                                                                                       \
    X(EVICTED, "evicted")                                                                                              \
    X(SLOW, "slow")                                                                                                    \
    X(UNREADABLE, "unreadable")                                                                                        \
    X(HANDSHAKE, "handshake")

enum http_close {
#define X(id, name) HTTP_CLOSE_##id,
    HTTP_CLOSE_MAP(X)
#undef X
};

enum { SCRATCH_BYTES = 64 * 1024, DATE_TEXT = 40 };

struct http_thread {
    struct http_server *server;
    pthread_t thread;

    struct thread_owner owner;
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t sweep;
    uv_poll_t listener;
    int listen_fd; /* -1: closed */
    bool is_listening, is_sweeping;
    struct list states[STATE_COUNT][2]; /* the connections, by state and by whether the client is known */
    size_t connection_count;
    char scratch[SCRATCH_BYTES]; /* bodies are received here */
    char date[DATE_TEXT];
    int64_t date_s;

    pthread_mutex_t lock; /* guards the next */
    struct list resumed;
    struct list streams; /* that were written to or ended */
    bool quiescing, stopping;

    bool is_quiesced; /* the loop's copy of quiescing */
};

struct http_server {
    struct http_server_setup setup;
    struct http_limits limits;
    struct http_parse_limits parse;
    uint16_t port;
    atomic_size_t connections;
    struct peers peers;
    struct budget bodies, answers, streams;
    struct http_thread *threads;
    size_t thread_count;
    _Atomic int64_t certificate_logged_ns; /* the last line about a refused client certificate; 0: none */
};

struct http_stream {
    struct http_stream_setup setup;
    size_t max;
    atomic_size_t refs;
    struct list link;              /* in the thread's inbox, under its lock */
    pthread_mutex_t lock;          /* guards the next */
    struct connection *connection; /* NULL: it has ended */
    struct buf waiting;            /* not given to the connection yet */
    size_t sending;                /* bytes that the connection has and the socket has not accepted all of */
    bool is_ending;                /* after what waits */
    bool wants_room;               /* a write did not fit */
    bool is_queued;                /* in the inbox */
};

/* connection.c */
void connection_enter(struct connection *c, enum connection_state state);
void connection_want(struct connection *c, int events); /* UV_READABLE, UV_WRITABLE, UV_DISCONNECT; 0: none */
void connection_want_again(struct connection *c);       /* after TRANSPORT_LATER: what the transport waits for */
void connection_run(struct connection *c);              /* goes on with what has been received, as far as possible */
void connection_on_lost(struct connection *c);          /* the client has closed, or the connection is broken */
void connection_log_unreadable(struct connection *c, const char *why);
void connection_end_exchange(struct connection *c);

/* connection_read.c: the first three are called when bytes have come, the others are steps (connection_run). */
void connection_read_head(struct connection *c);
void connection_read_body(struct connection *c);
void connection_read_rest(struct connection *c);
bool connection_step_head(struct connection *c);
bool connection_step_body(struct connection *c);
void connection_follow(struct connection *c, enum http_next next);
void connection_begin_next(struct connection *c); /* the answer was sent; the next request may be there already */

/* connection_write.c */
void connection_answer(struct connection *c);
void connection_refuse(struct connection *c, int status, const char *text); /* and close */
bool connection_step_write(struct connection *c);

/* connection_stream.c */
void connection_begin_stream(struct connection *c); /* before the head is made */
bool connection_step_stream(struct connection *c);
bool connection_continue_stream(struct connection *c); /* false: there is no stream, or it has ended */
void connection_resume_stream(struct http_stream *s);  /* what other threads have written is sent now */
void connection_drop_stream(struct connection *c);
void connections_keep_streams_alive(struct http_thread *t, bool is_known, int64_t now_ns);
void connections_end_streams(struct http_thread *t);

int64_t http_thread_now_ns(const struct http_thread *t);
const char *http_thread_date(struct http_thread *t); /* the header Date, as of this second */
void http_thread_start_sweep(struct http_thread *t);
void http_server_count_close(struct http_server *s, enum http_close why);
