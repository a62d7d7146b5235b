/* OpenSSL on the socket of a connection. OpenSSL keeps errors in a queue of the thread: it is emptied before each call,
 * so that SSL_get_error judges this call and not one of another connection. */
#include <openssl/err.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "http/tls_internal.h"
#include "http/transport.h"

enum { RECORD_MAX = 16 * 1024 };

/* What a call that failed means. */
static ssize_t transport_tls_result(struct transport *t, int rc)
{
    switch (SSL_get_error(t->session, rc)) {
    case SSL_ERROR_WANT_READ: t->wants = TRANSPORT_READABLE; return TRANSPORT_LATER;
    case SSL_ERROR_WANT_WRITE: t->wants = TRANSPORT_WRITABLE; return TRANSPORT_LATER;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: return TRANSPORT_BROKEN;
    }
}

/* The first byte of every record of a handshake is 22. A method begins with a letter. */
static bool transport_tls_peer_is_plain(const struct transport *t)
{
    char first;
    ssize_t n = SSL_in_before(t->session) ? recv(t->fd, &first, 1, MSG_PEEK) : 0;
    return n == 1 && first >= 'A' && first <= 'Z';
}

static enum transport_greeting transport_tls_greet(struct transport *t, const char **why)
{
    if (transport_tls_peer_is_plain(t))
        return GREETING_PLAIN;
    ERR_clear_error();
    int rc = SSL_accept(t->session);
    if (rc == 1) {
        t->has_more = SSL_has_pending(t->session);
        return GREETING_DONE;
    }
    if (transport_tls_result(t, rc) == TRANSPORT_LATER)
        return GREETING_LATER;
    *why = ERR_reason_error_string(ERR_peek_last_error());
    *why = *why ? *why : "the client closed the connection";
    return GREETING_BROKEN;
}

static ssize_t transport_tls_receive(struct transport *t, char *into, size_t n)
{
    size_t got;
    ERR_clear_error();
    int rc = SSL_read_ex(t->session, into, n, &got);
    t->has_more = rc == 1 && SSL_has_pending(t->session);
    return rc == 1 ? (ssize_t)got : transport_tls_result(t, rc);
}

/* Small pieces are sent as one record. They are put together again in each call, which gives the same bytes as long as
 * nothing was sent; OpenSSL demands that. */
static ssize_t transport_tls_send(struct transport *t, struct iovec *pieces, size_t count)
{
    char together[RECORD_MAX];
    const char *from = together;
    size_t n = 0, sent;
    if (count && (count == 1 || pieces[0].iov_len >= RECORD_MAX)) {
        from = pieces[0].iov_base;
        n = min_of(pieces[0].iov_len, (size_t)RECORD_MAX);
        count = 0;
    }
    for (size_t i = 0; i < count && n < RECORD_MAX; i++) {
        size_t part = min_of(pieces[i].iov_len, RECORD_MAX - n);
        memcpy(together + n, pieces[i].iov_base, part);
        n += part;
    }
    if (n == 0)
        return 0;
    ERR_clear_error();
    int rc = SSL_write_ex(t->session, from, n, &sent);
    ssize_t result = rc == 1 ? (ssize_t)sent : transport_tls_result(t, rc);
    return result == 0 ? TRANSPORT_BROKEN : result;
}

/* Says that nothing follows, so that the client can tell the end from a cut. */
static void transport_tls_end(struct transport *t)
{
    ERR_clear_error();
    if (SSL_is_init_finished(t->session))
        (void)SSL_shutdown(t->session);
    shutdown(t->fd, SHUT_WR);
}

static void transport_tls_release(struct transport *t)
{
    SSL_free(take(t->session));
    ERR_clear_error();
}

void transport_init_tls(struct transport *t, int fd, struct tls *tls)
{
    static const struct transport_ops ops = { .greet = transport_tls_greet,
                                              .receive = transport_tls_receive,
                                              .send = transport_tls_send,
                                              .end = transport_tls_end,
                                              .release = transport_tls_release };
    SSL *s = tls_accept_new(tls);
    SSL_set_fd(s, fd);
    SSL_set_accept_state(s);
    *t = (struct transport){ .ops = &ops, .fd = fd, .session = s };
}

struct tls_client *transport_client(const struct transport *t)
{
    X509 *certificate = t->session ? SSL_get0_peer_certificate(t->session) : NULL;
    bool is_verified = certificate && SSL_get_verify_result(t->session) == X509_V_OK;
    return is_verified ? tls_client_new(certificate) : NULL;
}
