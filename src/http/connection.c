/* A connection is closed in two steps: connection_close releases everything but the struct itself, which libuv needs
 * for one more turn of the loop. So callers may look at the state of a connection that was closed under them. */
#include "http/connection.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "http/internal.h"

enum { NS_PER_MS = 1000000 };

/* ---- the states ---- */

#define LIMIT(field) offsetof(struct http_limits, field)
#define NO_LIMIT     SIZE_MAX

static void connection_greet(struct connection *c);
static void connection_read_more(struct connection *c);
static void connection_pause(struct connection *c), connection_watch(struct connection *c);
static void connection_tell_gone(struct connection *c);

static const struct connection_row {
    const char *name;                          /* for the log */
    size_t unknown_limit, known_limit;         /* how long it may take, by whether the client is known */
    bool is_quiet;                             /* that its time is over is normal: not logged */
    bool may_evict;                            /* the client keeps us waiting: at 90 % of the connections it may go */
    void (*on_readable)(struct connection *c); /* bytes have come, or the client has closed */
    bool (*step)(struct connection *c);        /* goes on without new bytes; false: it needs some */
    void (*on_gone)(struct connection *c);     /* the client has closed its side. Only with UV_DISCONNECT */
    bool is_writing;                           /* steps when the socket has room */
} connection_states[STATE_COUNT] = {
    [STATE_HANDSHAKE] = { "handshake", LIMIT(handshake_ms), LIMIT(handshake_ms), false, true, connection_greet, NULL },
    [STATE_ACCEPTED] = { "request line", LIMIT(idle_unknown_ms), LIMIT(idle_unknown_ms), false, true,
                         connection_read_head, NULL },
    [STATE_HEAD] = { "headers", LIMIT(header_ms), LIMIT(header_ms), false, true, connection_read_head,
                     connection_step_head },
    [STATE_BODY] = { "body", LIMIT(body_ms), LIMIT(body_ms), false, true, connection_read_body, connection_step_body },
    [STATE_HANDLING] = { "answer", NO_LIMIT, NO_LIMIT, false, false, connection_watch, NULL, connection_tell_gone },
    [STATE_WRITING] = { "answer", NO_LIMIT, NO_LIMIT, false, false, connection_pause, connection_step_write, NULL,
                        true },
    [STATE_STREAMING] = { "stream", NO_LIMIT, NO_LIMIT, true, false, connection_watch, connection_step_stream,
                          connection_on_lost },
    [STATE_SENDING] = { "stream", NO_LIMIT, NO_LIMIT, false, false, connection_watch, connection_step_write,
                        connection_on_lost, true },
    [STATE_IDLE] = { "request line", LIMIT(idle_unknown_ms), LIMIT(idle_ms), true, true, connection_read_head, NULL },
    [STATE_LINGERING] = { "answer", LIMIT(linger_ms), LIMIT(linger_ms), true, true, connection_read_rest, NULL },
    [STATE_CLOSED] = { "closed", NO_LIMIT, NO_LIMIT, true, false, NULL, NULL },
};

void connection_enter(struct connection *c, enum connection_state state)
{
    struct http_thread *t = c->thread;
    assert_owned(&t->owner);
    if (list_linked(&c->link))
        list_remove(&c->link);
    c->state = state;
    c->since_ns = http_thread_now_ns(t);
    if (state != STATE_HANDLING) /* else the exchange belongs to the handler, on another thread perhaps */
        c->is_known |= c->exchange.is_known;
    list_push(&t->states[state][c->is_known], &c->link);
}

void connection_run(struct connection *c)
{
    while (connection_states[c->state].step && connection_states[c->state].step(c))
        continue;
}

void connection_resume(struct connection *c)
{
    assert(c->state == STATE_HANDLING);
    connection_follow(c, c->next);
    connection_run(c);
    connection_read_more(c);
}

/* ---- log events, at debug level ---- */

static const char *connection_phase(const struct connection *c)
{
    if (c->state == STATE_HEAD && c->parser.stage == HTTP_STAGE_LINE)
        return "request line";
    return connection_states[c->state].name;
}

void connection_log_unreadable(struct connection *c, const char *why)
{
    char peer[PEER_TEXT];
    http_server_count_close(c->thread->server, HTTP_CLOSE_UNREADABLE);
    if (!log_wants(LOG_DEBUG) || c->is_logged)
        return;
    c->is_logged = true;
    log_debug("request_unreadable", kv_cstr("peer", peer_text(&c->peer, peer)), kv_cstr("at", connection_phase(c)),
              kv_cstr("why", why));
}

/* At most one line a second: anybody can send a certificate. */
static bool connection_may_log_certificate(struct http_server *s, const char *why)
{
    enum { SECOND_NS = 1000000000 };
    int64_t last_ns = atomic_load(&s->certificate_logged_ns);
    if (!strstr(why, "certificate verify failed"))
        return false;
    int64_t now_ns = clock_steady_ns(s->setup.clock);
    return (!last_ns || now_ns - last_ns >= SECOND_NS) &&
           atomic_compare_exchange_strong(&s->certificate_logged_ns, &last_ns, now_ns);
}

static void connection_log_no_handshake(struct connection *c, const char *why)
{
    char peer[PEER_TEXT];
    http_server_count_close(c->thread->server, HTTP_CLOSE_HANDSHAKE);
    if (connection_may_log_certificate(c->thread->server, why))
        log_warn("client_certificate_refused", kv_cstr("peer", peer_text(&c->peer, peer)),
                 kv_cstr("why", "no authority of api.tls.client_ca has signed it, or it is not valid now"));
    if (log_wants(LOG_DEBUG))
        log_debug("handshake_failed", kv_cstr("peer", peer_text(&c->peer, peer)), kv_cstr("why", why));
}

static void connection_log_too_slow(struct connection *c)
{
    char peer[PEER_TEXT];
    http_server_count_close(c->thread->server, HTTP_CLOSE_SLOW);
    if (!log_wants(LOG_DEBUG) || c->is_logged)
        return;
    c->is_logged = true;
    log_debug("client_too_slow", kv_cstr("peer", peer_text(&c->peer, peer)), kv_cstr("at", connection_phase(c)));
}

/* ---- events of the socket ---- */

static bool connection_reads(const struct connection *c)
{
    const struct connection_row *row = &connection_states[c->state];
    return row->on_readable && !row->is_writing && !row->on_gone;
}

/* TLS may have received more than was read, and no event of the socket tells of it. */
static void connection_read_more(struct connection *c)
{
    while (c->transport.has_more && connection_reads(c))
        connection_states[c->state].on_readable(c);
}

/* `events` are those that the transport waits for; to read, TLS may have to wait until it can write. */
static void connection_on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;
    const struct connection_row *row = &connection_states[c->state];
    if (status < 0)
        c->events = 0; /* libuv has stopped the poll */
    if (row->on_gone && (status < 0 || events & UV_DISCONNECT))
        row->on_gone(c);
    else if (row->is_writing)
        connection_run(c);
    else
        row->on_readable(c);
    connection_read_more(c);
}

void connection_want(struct connection *c, int events)
{
    if (c->events == events)
        return;
    c->events = events;
    if (events)
        uv_poll_start(&c->poll, events, connection_on_poll);
    else
        uv_poll_stop(&c->poll);
}

/* Back-pressure: while the handler works, what comes stays in the socket. Most clients send nothing then, so the poll
 * is stopped only if something comes. */
static void connection_pause(struct connection *c)
{
    connection_want(c, 0);
}

void connection_want_again(struct connection *c)
{
    int events = c->transport.wants == TRANSPORT_WRITABLE ? UV_WRITABLE : UV_READABLE;
    connection_want(c, connection_states[c->state].on_gone ? events | UV_DISCONNECT : events);
}

/* The same, and the end of the client is noticed. That asks nothing of the clients that send nothing. */
static void connection_watch(struct connection *c)
{
    connection_want(c, (c->events & ~UV_READABLE) | UV_DISCONNECT);
}

static void connection_tell_gone(struct connection *c)
{
    const struct http_server *s = c->thread->server;
    connection_want(c, 0);
    if (s->setup.handler->on_gone)
        s->setup.handler->on_gone(s->setup.context, &c->exchange);
}

void connection_on_lost(struct connection *c)
{
    if (c->state == STATE_HEAD || (c->state == STATE_BODY && !c->body_dropped))
        connection_log_unreadable(c, "the client closed the connection");
    connection_close(c);
}

/* ---- the handshake ---- */

/* A client of plain HTTP gets an answer that it can read. */
static void connection_refuse_plain(struct connection *c)
{
    static const char text[] = "this address speaks TLS: use https:// instead of http://";
    connection_log_no_handshake(c, "the client speaks plain HTTP");
    c->transport.ops->release(&c->transport);
    transport_init_plain(&c->transport, c->transport.fd);
    connection_refuse(c, 400, text);
    connection_run(c);
}

static void connection_greet(struct connection *c)
{
    const char *why = NULL;
    switch (c->transport.ops->greet(&c->transport, &why)) {
    case GREETING_DONE:
        c->client = transport_client(&c->transport);
        connection_enter(c, STATE_ACCEPTED);
        connection_want(c, UV_READABLE);
        break;
    case GREETING_LATER: connection_want_again(c); break;
    case GREETING_PLAIN: connection_refuse_plain(c); break;
    case GREETING_BROKEN:
        connection_log_no_handshake(c, why);
        connection_close(c);
        break;
    }
}

const union peer *http_peer(const struct http_exchange *x)
{
    return &((const struct connection *)(const void *)x)->peer;
}

bool http_peer_is_gone(const struct http_exchange *x)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    int fd = ((const struct connection *)(const void *)x)->transport.fd;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           (info.tcpi_state == TCP_CLOSE_WAIT || info.tcpi_state == TCP_CLOSE);
}

/* ---- slow clients ---- */

static int64_t connection_limit_ms(const struct connection *c)
{
    const struct connection_row *row = &connection_states[c->state];
    size_t offset = c->is_known ? row->known_limit : row->unknown_limit;
    const struct http_limits *l = &c->thread->server->limits;
    return offset == NO_LIMIT ? INT64_MAX : *(const int64_t *)(const void *)((const char *)l + offset);
}

static void connections_sweep_state(struct http_thread *t, enum connection_state state, bool is_known, int64_t now_ns)
{
    struct list *waiting = &t->states[state][is_known];
    while (!list_empty(waiting)) {
        struct connection *c = container_of(waiting->next, struct connection, link);
        int64_t limit_ms = connection_limit_ms(c);
        if (limit_ms == INT64_MAX || now_ns - c->since_ns < limit_ms * NS_PER_MS)
            return;
        if (!connection_states[state].is_quiet)
            connection_log_too_slow(c);
        connection_close(c);
    }
}

static bool connection_reads_too_slowly(struct connection *c, int64_t now_ns)
{
    const struct http_limits *l = &c->thread->server->limits;
    if (now_ns - c->measured_ns < l->reader_ms * NS_PER_MS)
        return false;
    size_t expected = l->reader_rate * (size_t)l->reader_ms / 1000, sent = c->sent - c->measured_sent;
    c->measured_ns = now_ns;
    c->measured_sent = c->sent;
    return sent < expected;
}

static void connections_sweep_readers(struct list *writing, int64_t now_ns)
{
    list_each (writing, link) {
        struct connection *c = container_of(link, struct connection, link);
        if (!connection_reads_too_slowly(c, now_ns))
            continue;
        connection_log_too_slow(c);
        connection_close(c);
    }
}

void connections_sweep(struct http_thread *t)
{
    int64_t now_ns = http_thread_now_ns(t);
    for (int is_known = 0; is_known < 2; is_known++) {
        for (enum connection_state s = 0; s < STATE_CLOSED; s++)
            connections_sweep_state(t, s, is_known, now_ns);
        connections_sweep_readers(&t->states[STATE_WRITING][is_known], now_ns);
        connections_sweep_readers(&t->states[STATE_SENDING][is_known], now_ns);
        connections_keep_streams_alive(t, is_known, now_ns);
    }
}

/* Of unknown clients, one that keeps us waiting in any way. If all are known, one between two requests: else one tenant
 * could keep all connections for itself. Its client connects again. */
static struct connection *connections_oldest(struct http_thread *t, bool also_known)
{
    struct connection *oldest = NULL;
    for (enum connection_state s = 0; s < STATE_COUNT; s++) {
        struct list *waiting = &t->states[s][false];
        struct connection *c = container_of(waiting->next, struct connection, link);
        if (connection_states[s].may_evict && !list_empty(waiting) && (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    struct list *idle = &t->states[STATE_IDLE][true];
    return oldest || !also_known || list_empty(idle) ? oldest : container_of(idle->next, struct connection, link);
}

bool connections_evict(struct http_thread *t, bool also_known)
{
    struct connection *oldest = connections_oldest(t, also_known);
    if (!oldest)
        return false;
    http_server_count_close(t->server, HTTP_CLOSE_EVICTED);
    connection_close(oldest);
    return true;
}

/* ---- start and end ---- */

void connection_start(struct http_thread *t, int fd, const union peer *peer)
{
    struct connection *c = xnew(*c);
    c->thread = t;
    c->peer = *peer;
    if (t->server->setup.tls)
        transport_init_tls(&c->transport, fd, t->server->setup.tls);
    else
        transport_init_plain(&c->transport, fd);
    http_parser_init(&c->parser, &t->server->parse);
    buf_init(&c->fields, HTTP_HEAD_MAX);
    buf_init(&c->behind, SCRATCH_BYTES);
    c->poll.data = c;
    int rc = uv_poll_init(&t->uv, &c->poll, fd);
    assert(rc == 0);
    t->connection_count++;
    connection_enter(c, c->transport.ops->greet ? STATE_HANDSHAKE : STATE_ACCEPTED);
    connection_want(c, UV_READABLE);
    http_thread_start_sweep(t);
}

void connection_end_exchange(struct connection *c)
{
    const struct http_server *s = c->thread->server;
    budget_give_back(&c->thread->server->bodies, c->exchange.owner, c->body_counted);
    budget_give_back(&c->thread->server->answers, c->exchange.owner, c->answer_counted);
    c->body_counted = c->answer_counted = 0;
    buf_release(&c->exchange.body);
    free(take(c->body));
    connection_drop_stream(c);
    if (c->is_open)
        s->setup.handler->on_end(s->setup.context, &c->exchange);
    c->is_open = false;
    c->exchange = (struct http_exchange){ 0 };
}

static void connection_on_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    list_remove(&c->link);
    buf_release(&c->fields);
    buf_release(&c->behind);
    free(c->in);
    free(c);
}

void connection_close(struct connection *c)
{
    struct http_thread *t = c->thread;
    assert(c->state != STATE_HANDLING && c->state != STATE_CLOSED);
    if (c->state == STATE_IDLE)
        c->transport.ops->end(&c->transport);
    connection_end_exchange(c);
    connection_enter(c, STATE_CLOSED);
    uv_close((uv_handle_t *)&c->poll, connection_on_closed);
    c->transport.ops->release(&c->transport);
    c->transport.has_more = false;
    tls_client_free(take(c->client));
    close(c->transport.fd);
    peers_remove(&t->server->peers, &c->peer);
    atomic_fetch_sub(&t->server->connections, 1);
    t->connection_count--;
}
