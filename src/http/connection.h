#pragma once
/* http/connection.h - one connection: a state, a time limit for it, and the request that is read or answered.
 *
 *   handshake ─▶ accepted ─▶ head ─▶ body ─▶ handling ─▶ writing ─▶ idle ─▶ head …
 *                              ╰──────────────────────────▶╯ │ ╰─────▶ lingering ─▶ closed
 *                                                            ╰─▶ streaming ⇄ sending ─▶ idle or lingering
 *
 * The states are rows of a table in connection.c. Each thread has its connections in one list for each state and for
 * whether the client is known. The lists are in the order in which the connections came into the state. So the next
 * connection whose time is over is at the front, and so is the one that has been idle for longest.
 *
 * The thread of the connection, for everything here. */
#include <uv.h>

#include "base/list.h"
#include "http/peers.h"
#include "http/server.h"
#include "http/transport.h"

struct http_thread;

enum connection_state {
    STATE_HANDSHAKE, /* of TLS */
    STATE_ACCEPTED,  /* no byte has come yet */
    STATE_HEAD,      /* a request has begun */
    STATE_BODY,      /* its head was read */
    STATE_HANDLING,  /* the handler works on it; no limit, because clients may wait for tasks */
    STATE_WRITING,   /* the answer is being sent, or the head of a stream */
    STATE_STREAMING, /* all that was written to the stream has been sent; no limit */
    STATE_SENDING,   /* a piece of the stream is being sent */
    STATE_IDLE,      /* between two requests */
    STATE_LINGERING, /* the last answer was sent; what still comes is dropped until the client closes */
    STATE_CLOSED,
    STATE_COUNT
};

struct connection {
    struct http_exchange exchange; /* first member: http_resume gets this */
    struct list link;              /* in a list of its thread, by state */
    struct list resumed;           /* in the thread's inbox */
    enum http_next next;           /* what http_resume said */
    struct http_thread *thread;
    struct transport transport;
    struct tls_client *client; /* its certificate; NULL: none */
    union peer peer;
    uv_poll_t poll;
    int events; /* that `poll` waits for */
    enum connection_state state;
    int64_t since_ns; /* when it came into the state */
    bool is_known;    /* as of its last request */
    bool is_logged;   /* a problem of this connection was logged: once is enough */

    /* The request. `in` has its head and what came with it; in_used bytes of it were read. */
    char *in;
    size_t in_n, in_cap, in_used;
    struct buf behind; /* came with the end of a chunked body. `in` must not move while the handler looks at the head */
    struct http_parser parser;
    struct http_chunks chunks;
    uint64_t body_seen;
    size_t body_counted; /* in the budget of bodies, for exchange.owner */
    bool is_open;        /* on_head was called, and on_end was not */
    bool body_ended;
    bool body_dropped; /* the answer is known; the body is read and dropped before it is sent */

    /* The answer: its first line and our headers, the handler's headers, the body. */
    char begin[256];
    size_t begin_n;
    struct buf fields;
    char *body;
    size_t body_n, sent, answer_counted;
    bool close_after;
    struct http_stream *stream; /* NULL: the answer is not a stream */
    bool stream_is_last;        /* the piece that is being sent ends it */
    int64_t measured_ns;        /* since when the reader's rate is measured, and what was sent then */
    size_t measured_sent;
};

/* Takes fd. peer is counted (peers.h). */
void connection_start(struct http_thread *t, int fd, const union peer *peer);
void connection_resume(struct connection *c); /* what http_resume said is done now */
void connection_close(struct connection *c);  /* not in STATE_HANDLING */

/* Closes the connections whose time is over. */
void connections_sweep(struct http_thread *t);
/* Closes the connection of an unknown client that has been waiting for longest, or else, with also_known, of a known
 * one that has been idle for longest. False: there is none. */
bool connections_evict(struct http_thread *t, bool also_known);
