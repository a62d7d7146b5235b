#pragma once
/* platform/tls_client.h - the client's side of TLS, on a socket that the caller has connected.
 *
 * TLS 1.2 or later. The server's certificate must be signed by a CA that is trusted, and must name the host. A session
 * is used by one thread at a time, and follows its socket: if the socket is non-blocking or has a timeout, a call
 * returns TLS_AGAIN. The process must ignore SIGPIPE. */
#include <sys/types.h>

#include "base/str.h"

/* PEM files; NULL or empty: not given. */
struct tls_client_files {
    const char *cacert; /* not given: the system's CAs */
    const char *cert;   /* the client's certificate, and the chain that goes with it */
    const char *key;    /* not given: the key is in the file of the certificate */
};

/* Checks that the files can be used. ERR_INVALID names the parameter: cacert, cert or key. */
enum err tls_client_check(const struct tls_client_files *files, struct error *e) must_use;

/* Reads the files, so that a session has the certificates of this moment. `host`: a name or an address, which the
 * server's certificate must have. */
struct tls_session;
enum err tls_session_new(const struct tls_client_files *files, int fd, const char *host, struct tls_session **ret,
                         struct error *e) must_use;
void tls_session_free(struct tls_session *s); /* NULL is fine; does not close the socket */

/* For a library that makes the session itself and connects to an address: `context` is its SSL_CTX. The server's
 * certificate must have `host`, and the server is told that name (SNI), whatever the library tells it. */
enum err tls_context_set_host(void *context, const char *host, struct error *e) must_use;

enum tls_result {
    TLS_OK,
    TLS_AGAIN,  /* the socket has to become ready: tls_session_wants says for what */
    TLS_CLOSED, /* the peer closed the connection */
    TLS_FAILED, /* tls_session_error says why */
};

enum tls_result tls_session_handshake(struct tls_session *s);
enum tls_result tls_session_read(struct tls_session *s, char *to, size_t max, size_t *ret_n);
enum tls_result tls_session_write(struct tls_session *s, struct str bytes, size_t *ret_n);

short tls_session_wants(const struct tls_session *s); /* POLLIN or POLLOUT */

/* Why the last call failed: a sentence without the name of the host. */
const char *tls_session_error(const struct tls_session *s);
