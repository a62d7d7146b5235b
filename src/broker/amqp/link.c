/* Connects to RabbitMQ, calls methods and publishes. frames.c reads frames. */
#include "broker/amqp/link.h"

#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/amqp/declare.h"
#include "platform/clock_system.h"
#include "platform/tls_client.h"

enum { BACKOFF_MIN_MS = 50, BACKOFF_MAX_MS = 2000, FRAME_MAX = 131072, CONNECT_MS = 1000 };

int64_t rabbit_now_ms(void)
{
    return clock_steady_ns(clock_system()) / 1000000;
}

void rabbit_link_init(struct rabbit_link *l, const struct rabbit_url *url, const struct rabbit_hooks *hooks,
                      void *owner)
{
    *l = (struct rabbit_link){ .url = url, .hooks = hooks, .owner = owner, .classic = url->classic };
}

static void rabbit_reset_channels(struct rabbit_link *l)
{
    for (size_t i = 1; i <= RABBIT_CHANNELS; i++) {
        buf_release(&l->channels[i].in.body);
        free(l->channels[i].ready);
        free(l->channels[i].consumers);
        l->channels[i] = (struct rabbit_channel){ 0 };
    }
}

static void rabbit_disconnect(struct rabbit_link *l)
{
    if (!l->state)
        return;
    amqp_destroy_connection(take(l->state));
    l->blocked = false;
    l->confirms.left = 0;
    rabbit_reset_channels(l);
    if (l->hooks->closed)
        l->hooks->closed(l);
}

void rabbit_drop(struct rabbit_link *l, const struct error *why)
{
    l->why = *why;
    rabbit_disconnect(l);
}

/* A proper close keeps the broker from logging a lost client. A blocked broker would not answer it, so it is skipped
 * then. */
void rabbit_link_release(struct rabbit_link *l)
{
    if (l->state && !l->blocked)
        (void)amqp_connection_close(l->state, AMQP_REPLY_SUCCESS);
    rabbit_disconnect(l);
    free(l->confirms.seen);
}

int rabbit_fd(const struct rabbit_link *l)
{
    return l->state ? amqp_get_sockfd(l->state) : -1;
}

/* ---- connecting ---- */

static enum err rabbit_login_failed(const struct rabbit_link *l, amqp_rpc_reply_t r, struct error *e)
{
    const struct rabbit_host *host = &l->url->hosts[l->host];
    const char *library = r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? amqp_error_string2(r.library_error) : "";
    if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = r.reply.decoded;
        return error_set(e, ERR_UNAVAILABLE, "RabbitMQ at %s:%d: %.*s", host->name, host->port,
                         (int)close->reply_text.len, (const char *)close->reply_text.bytes);
    }
    if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && r.library_error == AMQP_STATUS_SSL_ERROR)
        return error_set(e, ERR_UNAVAILABLE, "RabbitMQ at %s:%d ended TLS%s", host->name, host->port,
                         l->url->cert ? "; perhaps it does not accept the client certificate (cert)"
                                      : "; perhaps it asks for a client certificate (cert, key)");
    return error_set(e, ERR_UNAVAILABLE, "RabbitMQ at %s:%d refuses %s '%s' on vhost '%s'%s%s", host->name, host->port,
                     l->url->by_certificate ? "certificate" : "user",
                     l->url->by_certificate ? l->url->cert : l->url->user, l->url->vhost, *library ? ": " : "",
                     library);
}

/* With a guard, librabbitmq is given an address to connect to, and would look for it in the certificate. OpenSSL looks
 * for the host's name instead. */
static amqp_socket_t *rabbit_tls_socket(struct rabbit_link *l, amqp_connection_state_t state, struct error *e)
{
    const struct rabbit_url *u = l->url;
    amqp_socket_t *s = amqp_ssl_socket_new(state);
    if (!s || amqp_ssl_socket_set_ssl_versions(s, AMQP_TLSv1_2, AMQP_TLSvLATEST))
        error_set(e, ERR_UNAVAILABLE, "RabbitMQ: librabbitmq offers no TLS 1.2");
    else if (amqp_ssl_socket_set_cacert(s, u->cacert))
        error_field(e, "cacert", "'%s' cannot be read, or holds no certificates", u->cacert);
    else if (u->cert && amqp_ssl_socket_set_key(s, u->cert, u->key ? u->key : u->cert))
        error_field(e, "cert", "'%s' or its key cannot be read", u->cert);
    else if (!l->hooks->address_allowed ||
             !tls_context_set_host(amqp_ssl_socket_get_context(s), l->url->hosts[l->host].name, e)) {
        amqp_ssl_socket_set_verify_peer(s, 1);
        amqp_ssl_socket_set_verify_hostname(s, !l->hooks->address_allowed);
        return s;
    }
    return NULL;
}

static amqp_socket_t *rabbit_new_socket(struct rabbit_link *l, amqp_connection_state_t state, struct error *e)
{
    amqp_socket_t *s = l->url->tls ? rabbit_tls_socket(l, state, e) : amqp_tcp_socket_new(state);
    if (!s && !l->url->tls)
        error_set(e, ERR_UNAVAILABLE, "RabbitMQ: librabbitmq has no memory");
    return s;
}

/* Limits how long a write may block if the broker does not read or the network drops packets. */
static void rabbit_set_write_timeout(amqp_connection_state_t state)
{
    int fd = amqp_get_sockfd(state), ms = RABBIT_CALL_MS, on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Announces the client's capabilities: without them the broker sends no notice of an alarm or of a deleted queue. */
static amqp_rpc_reply_t rabbit_login(const struct rabbit_link *l, amqp_connection_state_t state)
{
    static const char *const names[] = { "connection.blocked", "consumer_cancel_notify", "basic.nack",
                                         "publisher_confirms" };
    amqp_table_entry_t can[array_count(names)], all[2];
    for (size_t i = 0; i < array_count(names); i++)
        can[i] = (amqp_table_entry_t){ rabbit_text(names[i]), { .kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1 } };
    all[0] = (amqp_table_entry_t){ rabbit_text("capabilities"),
                                   { .kind = AMQP_FIELD_KIND_TABLE, .value.table = { array_count(names), can } } };
    all[1] = (amqp_table_entry_t){ rabbit_text("connection_name"),
                                   { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = rabbit_text(l->url->prefix) } };
    int heartbeat_s = (int)(l->url->heartbeat_ms / 1000);
    const amqp_table_t about = { array_count(all), all };
    if (l->url->by_certificate) /* the broker ignores the name, and librabbitmq fails on an empty one */
        return amqp_login_with_properties(state, l->url->vhost, RABBIT_CHANNELS, FRAME_MAX, heartbeat_s, &about,
                                          AMQP_SASL_METHOD_EXTERNAL, l->url->user);
    return amqp_login_with_properties(state, l->url->vhost, RABBIT_CHANNELS, FRAME_MAX, heartbeat_s, &about,
                                      AMQP_SASL_METHOD_PLAIN, l->url->user, l->url->password);
}

static bool rabbit_may_connect(struct rabbit_link *l, const struct addrinfo *all)
{
    bool allowed = all;
    for (const struct addrinfo *i = all; allowed && i; i = i->ai_next)
        allowed = l->hooks->address_allowed(l, i->ai_addr);
    return allowed;
}

/* Connects to the first of the addresses that answers. */
static int rabbit_open_addresses(struct rabbit_link *l, amqp_connection_state_t state, const struct addrinfo *all,
                                 const struct timeval *limit)
{
    int status = AMQP_STATUS_SOCKET_ERROR;
    struct error ignored;
    for (const struct addrinfo *i = all; i && status; i = i->ai_next) {
        char address[INET6_ADDRSTRLEN + IF_NAMESIZE];
        amqp_socket_t *s = rabbit_new_socket(l, state, &ignored); /* replaces the one before */
        if (s && !getnameinfo(i->ai_addr, i->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST))
            status = amqp_socket_open_noblock(s, address, l->url->hosts[l->host].port, limit);
    }
    return status;
}

/* Resolves the name of the host, asks for each address, and connects. *ret_allowed false: it may not. */
static int rabbit_open_checked(struct rabbit_link *l, amqp_connection_state_t state, const struct timeval *limit,
                               bool *ret_allowed)
{
    const struct rabbit_host *host = &l->url->hosts[l->host];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    char port[8];
    snprintf(port, sizeof port, "%d", host->port);
    if (getaddrinfo(host->name, port, &hints, &all))
        return AMQP_STATUS_HOSTNAME_RESOLUTION_FAILED;
    *ret_allowed = rabbit_may_connect(l, all);
    int status = *ret_allowed ? rabbit_open_addresses(l, state, all, limit) : AMQP_STATUS_OK;
    freeaddrinfo(all);
    return status;
}

/* With a guard, by the addresses that the guard has seen. */
static int rabbit_open_socket(struct rabbit_link *l, amqp_connection_state_t state, amqp_socket_t *s,
                              const struct timeval *limit, bool *ret_allowed)
{
    const struct rabbit_host *host = &l->url->hosts[l->host];
    *ret_allowed = true;
    if (l->hooks->address_allowed)
        return rabbit_open_checked(l, state, limit, ret_allowed);
    return amqp_socket_open_noblock(s, host->name, host->port, limit);
}

static enum err rabbit_connect_host(struct rabbit_link *l, amqp_connection_state_t state, struct error *e)
{
    const struct rabbit_host *host = &l->url->hosts[l->host];
    struct timeval connecting = { .tv_usec = CONNECT_MS * 1000 - 1 }, calling = { .tv_sec = RABBIT_CALL_MS / 1000 };
    amqp_socket_t *s = rabbit_new_socket(l, state, e);
    if (!s)
        return e->code;
    amqp_set_handshake_timeout(state, &calling);
    amqp_set_rpc_timeout(state, &calling);
    bool allowed;
    int status = rabbit_open_socket(l, state, s, &connecting, &allowed);
    if (status) /* librabbitmq keeps the cause of a socket error to itself */
        return error_set(e, ERR_UNAVAILABLE, "RabbitMQ at %s:%d: %s", host->name, host->port,
                         status == AMQP_STATUS_SOCKET_ERROR ? "the connection is refused, or the host is not reachable"
                                                            : amqp_error_string2(status));
    if (!allowed || (l->hooks->peer_allowed && !l->hooks->peer_allowed(l, amqp_get_sockfd(state))))
        return error_set(e, ERR_UNAVAILABLE, "RabbitMQ at %s:%d: address is not allowed", host->name, host->port);
    rabbit_set_write_timeout(state);
    amqp_rpc_reply_t r = rabbit_login(l, state);
    return r.reply_type == AMQP_RESPONSE_NORMAL ? ERR_OK : rabbit_login_failed(l, r, e);
}

static enum err rabbit_open_host(struct rabbit_link *l, struct error *e)
{
    amqp_connection_state_t state = amqp_new_connection();
    if (rabbit_connect_host(l, state, e)) {
        amqp_destroy_connection(state);
        return e->code;
    }
    l->state = state;
    l->generation++;
    enum err rc = l->hooks->opened(l, e);
    if (rc)
        rabbit_disconnect(l);
    return rc;
}

/* Tries every host once, beginning with the one that was used last. */
static enum err rabbit_connect_any_host(struct rabbit_link *l, struct error *e)
{
    struct error own = { 0 };
    int64_t began = rabbit_now_ms();
    if (l->state)
        return ERR_OK;
    if (began < l->retry_at_ms) {
        *e = l->why;
        return e->code;
    }
    for (size_t i = 0; i < l->url->host_count && rabbit_now_ms() - began < RABBIT_CALL_MS; i++) {
        if (rabbit_open_host(l, &own) == ERR_OK) {
            l->backoff_ms = 0;
            return ERR_OK;
        }
        l->host = (l->host + 1) % l->url->host_count;
    }
    l->backoff_ms = min_of(max_of(l->backoff_ms * 2, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
    l->retry_at_ms = rabbit_now_ms() + l->backoff_ms;
    /* a wrong setting in the address stays wrong: not retryable */
    own.code = own.code == ERR_INVALID ? ERR_INVALID : ERR_UNAVAILABLE;
    l->why = own;
    *e = own;
    return own.code;
}

enum err rabbit_connect(struct rabbit_link *l, struct error *e)
{
    if (l->state && rabbit_pump(l, 0, e) == ERR_OK)
        return ERR_OK;
    return rabbit_connect_any_host(l, e);
}

/* ---- calls ---- */

enum err rabbit_connection_error(struct rabbit_link *l, int status, struct error *e)
{
    const struct rabbit_host *host = &l->url->hosts[l->host];
    error_set(e, ERR_UNAVAILABLE, "RabbitMQ at %s:%d: %s", host->name, host->port, amqp_error_string2(status));
    rabbit_drop(l, e);
    return e->code;
}

void rabbit_calls_begin(struct rabbit_link *l, uint16_t channel)
{
    l->channels[channel].replies = l->channels[channel].ready_count = 0;
}

static enum err rabbit_not_connected(const struct rabbit_link *l, struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE, "%s", l->why.text[0] ? l->why.text : "RabbitMQ: not connected");
}

void rabbit_cork(struct rabbit_link *l, bool on)
{
    int value = on;
    if (l->state)
        (void)setsockopt(rabbit_fd(l), IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

enum err rabbit_send(struct rabbit_link *l, uint16_t channel, amqp_method_number_t method, void *decoded,
                     struct error *e)
{
    if (!l->state)
        return rabbit_not_connected(l, e);
    int status = amqp_send_method(l->state, channel, method, decoded);
    return status ? rabbit_connection_error(l, status, e) : ERR_OK;
}

static enum err rabbit_timed_out(struct rabbit_link *l, struct error *e)
{
    return rabbit_connection_error(l, AMQP_STATUS_TIMEOUT, e);
}

enum err rabbit_await_replies(struct rabbit_link *l, uint16_t channel, size_t replies, struct error *e)
{
    struct rabbit_channel *c = &l->channels[channel];
    int64_t end = rabbit_now_ms() + RABBIT_CALL_MS;
    for (size_t seen = c->replies; c->replies < replies && l->state && !c->close_code;) {
        int64_t left = end - rabbit_now_ms();
        /* a blocked broker answers too late: close the connection, so that the late reply cannot be mistaken for
         * another */
        if (l->blocked) {
            rabbit_error_blocked(e);
            rabbit_drop(l, e);
            return e->code;
        }
        if (left <= 0)
            return rabbit_timed_out(l, e);
        if (rabbit_pump(l, left, e))
            return e->code;
        if (c->replies != seen) { /* the broker makes progress: many calls may take longer than one */
            seen = c->replies;
            end = rabbit_now_ms() + RABBIT_CALL_MS;
        }
    }
    if (!l->state)
        return rabbit_not_connected(l, e);
    if (!c->close_code)
        return ERR_OK;
    *e = l->why;
    return c->close_code == 404 ? (e->code = ERR_NOT_FOUND) : c->close_code == 406 ? (e->code = ERR_CONFLICT) : e->code;
}

enum err rabbit_call(struct rabbit_link *l, uint16_t channel, amqp_method_number_t method, void *decoded,
                     struct error *e)
{
    rabbit_calls_begin(l, channel);
    return rabbit_send(l, channel, method, decoded, e) || rabbit_await_replies(l, channel, 1, e) ? e->code : ERR_OK;
}

enum err rabbit_open_channel(struct rabbit_link *l, uint16_t channel, bool confirms, struct error *e)
{
    assert(channel >= 1 && channel <= RABBIT_CHANNELS);
    l->channels[channel].close_code = 0;
    if (rabbit_call(l, channel, AMQP_CHANNEL_OPEN_METHOD, &(amqp_channel_open_t){ 0 }, e))
        return e->code;
    l->channels[channel].open = true;
    if (!confirms)
        return ERR_OK;
    l->confirms.first = l->confirms.next = 1;
    return rabbit_call(l, channel, AMQP_CONFIRM_SELECT_METHOD, &(amqp_confirm_select_t){ 0 }, e);
}

enum err rabbit_open_channels(struct rabbit_link *l, uint16_t first, uint16_t count, struct error *e)
{
    assert(first >= 1 && first + count - 1 <= RABBIT_CHANNELS);
    for (uint16_t c = first; c < first + count; c++) {
        rabbit_calls_begin(l, c);
        if (rabbit_send(l, c, AMQP_CHANNEL_OPEN_METHOD, &(amqp_channel_open_t){ 0 }, e))
            return e->code;
    }
    for (uint16_t c = first; c < first + count; c++) {
        if (rabbit_await_replies(l, c, 1, e))
            return e->code;
        l->channels[c].open = l->channels[c].vital = true;
    }
    return ERR_OK;
}

enum err rabbit_qos(struct rabbit_link *l, uint16_t channel, uint16_t prefetch, struct error *e)
{
    return rabbit_call(l, channel, AMQP_BASIC_QOS_METHOD, &(amqp_basic_qos_t){ .prefetch_count = prefetch }, e);
}

enum err rabbit_send_get(struct rabbit_link *l, uint16_t channel, const char *queue, struct error *e)
{
    return rabbit_send(l, channel, AMQP_BASIC_GET_METHOD, &(amqp_basic_get_t){ .queue = rabbit_text(queue) }, e);
}

enum err rabbit_ack(struct rabbit_link *l, uint16_t channel, uint64_t tag, bool and_before, struct error *e)
{
    return rabbit_send(l, channel, AMQP_BASIC_ACK_METHOD, &(amqp_basic_ack_t){ tag, and_before }, e);
}

enum err rabbit_reject(struct rabbit_link *l, uint16_t channel, uint64_t tag, bool requeue, struct error *e)
{
    return rabbit_send(l, channel, AMQP_BASIC_REJECT_METHOD, &(amqp_basic_reject_t){ tag, requeue }, e);
}

/* ---- publishing ---- */

enum err rabbit_error_blocked(struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE, "the broker is short of memory or disk");
}

void rabbit_publish_begin(struct rabbit_link *l)
{
    struct rabbit_confirms *c = &l->confirms;
    c->first = c->next;
    c->left = c->refused = c->returned = 0;
}

static void rabbit_expect_confirm(struct rabbit_confirms *c)
{
    size_t i = (size_t)(c->next++ - c->first);
    if (i == c->cap) {
        c->cap = c->cap * 2 + 64;
        c->seen = xrealloc(c->seen, c->cap * sizeof *c->seen);
    }
    c->seen[i] = false;
    c->left++;
}

enum err rabbit_publish(struct rabbit_link *l, const struct rabbit_envelope *envelope, struct error *e)
{
    amqp_table_entry_t fired = { .key = rabbit_text("fired"),
                                 .value = { .kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = envelope->fired } };
    amqp_basic_properties_t p = { ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG,
                                  .delivery_mode = envelope->transient ? 1 : 2,
                                  .content_type = rabbit_text(envelope->content_type ? envelope->content_type
                                                                                     : "application/json") };
    const struct {
        const char *text;
        amqp_flags_t flag;
        amqp_bytes_t *to;
    } texts[] = { { envelope->type, AMQP_BASIC_TYPE_FLAG, &p.type },
                  { envelope->message_id, AMQP_BASIC_MESSAGE_ID_FLAG, &p.message_id },
                  { envelope->reply_to, AMQP_BASIC_REPLY_TO_FLAG, &p.reply_to } };
    for (size_t i = 0; i < array_count(texts); i++)
        if (texts[i].text) {
            *texts[i].to = rabbit_text(texts[i].text);
            p._flags |= texts[i].flag;
        }
    p.headers = envelope->fired ? (amqp_table_t){ 1, &fired } : envelope->headers;
    if (p.headers.num_entries)
        p._flags |= AMQP_BASIC_HEADERS_FLAG;
    if (!l->state)
        return rabbit_not_connected(l, e);
    rabbit_expect_confirm(&l->confirms);
    int status = amqp_basic_publish(l->state, 1, rabbit_bytes(envelope->exchange), rabbit_bytes(envelope->key),
                                    envelope->mandatory, 0, &p, rabbit_bytes(envelope->body));
    return status ? rabbit_connection_error(l, status, e) : ERR_OK;
}

enum err rabbit_publish_end(struct rabbit_link *l, struct error *e)
{
    struct rabbit_confirms *c = &l->confirms;
    int64_t end = rabbit_now_ms() + RABBIT_CALL_MS;
    for (size_t left = c->left; c->left && !l->blocked;) {
        int64_t wait = end - rabbit_now_ms();
        if (wait <= 0)
            return rabbit_timed_out(l, e);
        if (rabbit_pump(l, wait, e))
            return e->code;
        if (!l->state)
            return rabbit_not_connected(l, e);
        if (c->left != left) {
            left = c->left;
            end = rabbit_now_ms() + RABBIT_CALL_MS;
        }
    }
    if (c->left)
        return rabbit_error_blocked(e);
    if (c->refused)
        return error_set(e, ERR_UNAVAILABLE, "RabbitMQ refused %zu messages", c->refused);
    return c->returned ? error_set(e, ERR_NOT_FOUND, "RabbitMQ: %zu messages were routed to no queue", c->returned)
                       : ERR_OK;
}
