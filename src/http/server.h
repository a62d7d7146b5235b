#pragma once
/* http/server.h - an HTTP/1.1 server: several threads, each with a libuv loop, a listening socket of its own
 * (SO_REUSEPORT) and its connections. A connection belongs to one thread until it is closed.
 *
 * The handler sees a request twice: when its head was read, and when its body was read. In between it decides whether
 * the body is read at all, so that nobody sends bodies before the handler knows who asks. The answer is given at once,
 * or later from any thread, or piece by piece (stream.h). While a request is handled, nothing more is read from its
 * connection.
 *
 * What clients may hold is limited: connections (in total, by address), bytes of bodies and of answers (in total, by
 * owner), and the time that each state of a connection may take (connection.h). */
#include "base/buf.h"
#include "base/metrics.h"
#include "http/parse.h"
#include "http/tls.h"
#include "port/clock.h"

/* One request and its answer. The views are valid until on_end. */
struct http_exchange {
    const struct http_parser *head;
    struct str text; /* the head as it came, for the spans of `head` */
    struct str method, target;
    struct buf body;                 /* complete in on_body; the handler may take it */
    const struct tls_client *client; /* its verified certificate; NULL: none */

    /* Set by the handler, in on_head or before http_resume. */
    void *context;
    size_t body_max; /* a longer body is refused */
    int32_t owner;   /* whose share of the budgets it uses */
    bool is_known;   /* the client has proved who it is: its connection may stay idle for longer */
};

enum http_next {
    HTTP_WAIT,   /* http_resume will say what comes next */
    HTTP_READ,   /* after the head only: read the body, then on_body */
    HTTP_ANSWER, /* call on_answer and send the answer */
};

struct http_answer {
    int status;
    struct buf *fields; /* header lines; http_answer_add */
    char *body;         /* the server frees it; NULL: none */
    size_t body_bytes;
    bool close; /* the connection ends after this answer */
};

void http_answer_add(struct http_answer *a, const char *name, const char *value); /* NULL or "": nothing is added */
void http_answer_set_body(struct http_answer *a, struct buf *body);               /* takes its content */

enum http_refusal {
    HTTP_BODY_TOO_LARGE, /* more than body_max */
    HTTP_BODY_NO_ROOM,   /* the budget of bodies is used up */
};

/* Called on the thread of the connection. on_end may also be called on the thread that frees the server. */
struct http_handler {
    enum http_next (*on_head)(void *context, struct http_exchange *x);
    enum http_next (*on_body)(void *context, struct http_exchange *x); /* also if there is no body */
    /* The rest of the body is dropped; then comes on_answer, which says why. */
    void (*on_body_refused)(void *context, struct http_exchange *x, enum http_refusal why);
    void (*on_answer)(void *context, struct http_exchange *x, struct http_answer *ret);
    void (*on_end)(void *context, struct http_exchange *x); /* the answer was sent, or the connection has ended */
    /* An answer to a request that cannot be read, or that has no room. x may not exist, so it is not given. */
    void (*on_refuse)(void *context, int status, const char *text, struct http_answer *ret);
    /* The client has closed its side while the request is in HTTP_WAIT: perhaps nobody reads the answer. At most once
     * for each wait; http_resume is still due, and another thread may call it at the same time. NULL: not told. */
    void (*on_gone)(void *context, struct http_exchange *x);
};

/* 0 stands for the default, which the comment gives. */
struct http_limits {
    size_t threads;                 /* the number of processors, at most 4 */
    size_t connections;             /* 4,096 */
    size_t connections_per_address; /* 1,024 */
    size_t uri_max, headers_max;    /* 8 KiB and 16 KiB */
    size_t field_max;               /* 100 */
    int64_t handshake_ms;           /* 10,000: of TLS */
    int64_t header_ms;              /* 10,000: from the first byte of a request to the end of its head */
    int64_t body_ms;                /* 30,000 */
    int64_t idle_ms;                /* 60,000: between two requests */
    int64_t idle_unknown_ms;        /* 5,000: the same, and before the first request, if the client is not known */
    int64_t linger_ms;              /* 2,000: how long a closed connection is read, so that its last answer arrives */
    size_t body_total;              /* 512 MiB: bodies of all requests in progress */
    size_t answer_total;            /* 256 MiB: answers that are not sent yet */
    size_t reader_rate;             /* 1,024 bytes a second: a client that reads its answer more slowly is cut off */
    int64_t reader_ms;              /* 10,000: over which time the rate is measured */
    size_t streams;                 /* half of `connections`; a quarter of them for one owner (stream.h) */
    size_t stream_bytes;            /* 64 KiB: what one stream holds that was not sent */
    int64_t keep_alive_ms;          /* 15,000: after so much silence a stream sends something */
};

struct http_server_setup {
    const char *listen; /* "127.0.0.1:8080" (listen.h) */
    const char *option; /* the setting that gives `listen`, for errors; NULL: --listen */
    struct tls *tls;    /* NULL: plain HTTP */
    struct clock *clock;
    struct metrics *metrics; /* NULL: not counted */
    const struct http_handler *handler;
    void *context;
    struct http_limits limits;
};

struct http_server;

/* One thread makes, quiesces and frees a server; never one of its own. */
enum err http_server_new(const struct http_server_setup *setup, struct http_server **ret, struct error *e) must_use;
uint16_t http_server_port(const struct http_server *s);
void http_server_quiesce(struct http_server *s); /* accepts no more connections; those that exist go on */
void http_server_free(struct http_server *s);    /* no request may be in HTTP_WAIT; NULL is fine */

/* After HTTP_WAIT, exactly once. Any thread; the exchange may be gone when it returns. */
void http_resume(struct http_exchange *x, enum http_next next);

/* Counts the body of the answer before it is sent, for x->owner: answers that wait for the connection's thread take
 * memory too. Any thread, once, before http_resume. False: there is no room; the answer has to be a small one. */
#define HTTP_NO_ROOM_FOR_ANSWER "too many large answers are not read yet; try again"
bool http_reserve_answer(struct http_exchange *x, size_t bytes) must_use;

/* Whether the client has closed the connection. Any thread, while the exchange is in HTTP_WAIT. */
bool http_peer_is_gone(const struct http_exchange *x);

/* The address of the client. Any thread, until on_end. */
union peer;
const union peer *http_peer(const struct http_exchange *x);

/* The levels of the budgets. Any thread. */
struct http_levels {
    size_t connections, body_bytes, answer_bytes, streams;
};
struct http_levels http_server_levels(const struct http_server *s);
