#include "platform/tls_client.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls_session {
    SSL *ssl;
    int wants; /* the result of SSL_get_error for the last call */
    char error[192];
};

static bool tls_is_given(const char *file)
{
    return file && file[0];
}

static void tls_context_freep(SSL_CTX **c)
{
    SSL_CTX_free(*c);
}

static enum err tls_load_files(SSL_CTX *c, const struct tls_client_files *files, struct error *e)
{
    const char *key = tls_is_given(files->key) ? files->key : files->cert;
    if (tls_is_given(files->cacert) ? SSL_CTX_load_verify_locations(c, files->cacert, NULL) != 1
                                    : SSL_CTX_set_default_verify_paths(c) != 1)
        return error_field(e, "cacert", "'%s' cannot be read, or holds no certificates",
                           tls_is_given(files->cacert) ? files->cacert : "the system's CAs");
    if (!tls_is_given(files->cert))
        return tls_is_given(files->key) ? error_field(e, "key", "needs a cert") : ERR_OK;
    if (SSL_CTX_use_certificate_chain_file(c, files->cert) != 1)
        return error_field(e, "cert", "'%s' cannot be read, or holds no certificate", files->cert);
    if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1)
        return error_field(e, "key", "'%s' cannot be read, or is not the key of the certificate", key);
    return ERR_OK;
}

static enum err tls_context_new(const struct tls_client_files *files, SSL_CTX **ret, struct error *e)
{
    cleanup_with(tls_context_freep) SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1)
        return error_set(e, ERR_UNAVAILABLE, "OpenSSL offers no TLS 1.2");
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    enum err rc = tls_load_files(c, files, e);
    ERR_clear_error();
    if (rc == ERR_OK)
        *ret = take(c);
    return rc;
}

enum err tls_client_check(const struct tls_client_files *files, struct error *e)
{
    SSL_CTX *c = NULL;
    enum err rc = tls_context_new(files, &c, e);
    SSL_CTX_free(c);
    return rc;
}

/* A certificate has names and addresses in different fields, and only a name is sent to the server (SNI). */
static bool tls_is_address(const char *host)
{
    uint8_t bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool tls_require_host(X509_VERIFY_PARAM *p, const char *host)
{
    if (tls_is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1;
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(p, host, 0) == 1;
}

/* NULL: the server is told no name. */
static bool tls_set_server_name(SSL *ssl, const char *host)
{
    char name[TLSEXT_MAXLEN_host_name + 1], *told = host ? name : NULL;
    snprintf(name, sizeof name, "%s", host ? host : "");
    return SSL_set_tlsext_host_name(ssl, told) == 1;
}

/* Called before the first message is made. The name of the session is that of its context; NULL: it is an address. */
static void tls_on_progress(const SSL *ssl, int where, int value)
{
    (void)value;
    SSL *own; /* OpenSSL says const, and means that it stays alive */
    memcpy(&own, &ssl, sizeof own);
    if (where & SSL_CB_HANDSHAKE_START)
        (void)tls_set_server_name(own, X509_VERIFY_PARAM_get0_host(SSL_get0_param(own), 0));
}

enum err tls_context_set_host(void *context, const char *host, struct error *e)
{
    SSL_CTX *c = context;
    if (!tls_require_host(SSL_CTX_get0_param(c), host))
        return error_set(e, ERR_UNAVAILABLE, "TLS cannot be started for the host '%s'", host);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_info_callback(c, tls_on_progress);
    return ERR_OK;
}

static bool tls_set_host(SSL *ssl, const char *host)
{
    return tls_require_host(SSL_get0_param(ssl), host) && (tls_is_address(host) || tls_set_server_name(ssl, host));
}

enum err tls_session_new(const struct tls_client_files *files, int fd, const char *host, struct tls_session **ret,
                         struct error *e)
{
    cleanup_with(tls_context_freep) SSL_CTX *c = NULL;
    if (tls_context_new(files, &c, e))
        return e->code;
    struct tls_session *s = xnew(*s);
    s->ssl = SSL_new(c); /* keeps the context */
    if (!s->ssl || !tls_set_host(s->ssl, host) || SSL_set_fd(s->ssl, fd) != 1) {
        tls_session_free(s);
        return error_set(e, ERR_UNAVAILABLE, "TLS cannot be started for the host '%s'", host);
    }
    SSL_set_connect_state(s->ssl);
    *ret = s;
    return ERR_OK;
}

void tls_session_free(struct tls_session *s)
{
    if (!s)
        return;
    SSL_free(s->ssl);
    free(s);
}

/* A failed verification is the cause that an operator can remove; OpenSSL's own sentence does not name it. */
static void tls_set_error(struct tls_session *s, int system_error)
{
    long verified = SSL_get_verify_result(s->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (verified != X509_V_OK)
        snprintf(s->error, sizeof s->error, "its certificate is not accepted: %s",
                 X509_verify_cert_error_string(verified));
    else if (reason)
        snprintf(s->error, sizeof s->error, "TLS: %s", reason);
    else
        snprintf(s->error, sizeof s->error, "TLS: %s",
                 system_error ? strerror(system_error) : "the server closed the connection");
}

static enum tls_result tls_session_result(struct tls_session *s, int rc)
{
    int system_error = errno;
    s->wants = SSL_get_error(s->ssl, rc);
    switch (s->wants) {
    case SSL_ERROR_NONE: return TLS_OK;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return TLS_AGAIN;
    case SSL_ERROR_ZERO_RETURN: return TLS_CLOSED;
    default: tls_set_error(s, system_error); return TLS_FAILED;
    }
}

/* SSL_get_error reads the thread's queue of errors, which must be empty before each call. */
static void tls_begin_call(void)
{
    ERR_clear_error();
    errno = 0;
}

enum tls_result tls_session_handshake(struct tls_session *s)
{
    tls_begin_call();
    return tls_session_result(s, SSL_do_handshake(s->ssl));
}

enum tls_result tls_session_read(struct tls_session *s, char *to, size_t max, size_t *ret_n)
{
    tls_begin_call();
    return tls_session_result(s, SSL_read_ex(s->ssl, to, max, ret_n));
}

enum tls_result tls_session_write(struct tls_session *s, struct str bytes, size_t *ret_n)
{
    tls_begin_call();
    return tls_session_result(s, SSL_write_ex(s->ssl, bytes.p, bytes.n, ret_n));
}

short tls_session_wants(const struct tls_session *s)
{
    return s->wants == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
}

const char *tls_session_error(const struct tls_session *s)
{
    return s->error;
}
