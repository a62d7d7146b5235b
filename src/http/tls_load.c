/* Makes a context from files. Each check that fails names the setting, the file and the remedy, because a certificate
 * is usually replaced by a program, and its log is all that is read. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rfc3339.h"
#include "http/tls_internal.h"

enum { SESSION_SECONDS = 3600 };

static void tls_context_freep(SSL_CTX **c)
{
    SSL_CTX_free(*c);
}

/* ---- the files ---- */

/* Whether the file has a certificate and no key. */
static bool tls_is_certificate_only(int fd)
{
    char head[16384];
    ssize_t n = pread(fd, head, sizeof head - 1, 0);
    head[max_of(n, (ssize_t)0)] = '\0';
    return strstr(head, "-----BEGIN CERTIFICATE-----") && !strstr(head, "PRIVATE KEY-----");
}

static enum err tls_check_file(const char *field, const char *path, bool is_secret, struct error *e)
{
    struct stat s;
    char why[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s)) {
        const char *text = strerror_r(errno, why, sizeof why);
        if (fd >= 0)
            close(fd);
        return error_field(e, field, "cannot be read: %s: %s", path, text);
    }
    bool is_swapped = is_secret && tls_is_certificate_only(fd);
    close(fd);
    if (S_ISDIR(s.st_mode))
        return error_field(e, field, "cannot be read: %s is a directory", path);
    if (is_swapped)
        return error_field(e, field,
                           "holds no private key, but a certificate: %s; perhaps the settings cert and key are swapped",
                           path);
    if (is_secret && s.st_mode & S_IRWXO)
        return error_field(e, field, "%s is open to every user of this machine: chmod 600 %s", path, path);
    return ERR_OK;
}

static enum err tls_check_settings(const struct tls_files *f, struct error *e)
{
    if (!f->cert)
        return error_field(e, "cert", "is missing: give the certificate of the server%s",
                           f->key ? ", which belongs to the key" : " and its key; 'belfry tls init' makes both");
    if (!f->key)
        return error_field(e, "key", "is missing: give the key of the certificate; 'belfry tls init' makes both");
    if (f->require_client && !f->client_ca)
        return error_field(e, "require_client", "requires client_ca: the authorities whose certificates are accepted");
    if (tls_check_file("cert", f->cert, false, e) || tls_check_file("key", f->key, true, e))
        return e->code;
    return f->client_ca ? tls_check_file("client_ca", f->client_ca, false, e) : ERR_OK;
}

/* ---- certificate and key ---- */

static enum err tls_use_certificate(SSL_CTX *c, const char *path, int64_t now_ms, struct error *e)
{
    char when[RFC3339_TEXT + 1];
    if (SSL_CTX_use_certificate_chain_file(c, path) != 1)
        return error_field(e, "cert", "%s holds no certificate that can be used; it must be in PEM form", path);
    const X509 *cert = SSL_CTX_get0_certificate(c);
    int64_t from_ms = tls_time_ms(X509_get0_notBefore(cert)), to_ms = tls_time_ms(X509_get0_notAfter(cert));
    bool is_early = now_ms < from_ms;
    if (!is_early && now_ms < to_ms)
        return ERR_OK;
    rfc3339_format(is_early ? from_ms : to_ms, when);
    if (is_early)
        return error_field(e, "cert", "%s is not valid before %s; is the clock of this machine right?", path, when);
    return error_field(e, "cert", "%s has expired at %s; replace it by a new one", path, when);
}

/* A server that starts by itself cannot ask for a password. */
static int tls_on_password(char *out, int size, int is_writing, void *context)
{
    (void)out;
    (void)size;
    (void)is_writing;
    *(bool *)context = true;
    return -1;
}

static enum err tls_use_key(SSL_CTX *c, const struct tls_files *f, struct error *e)
{
    bool is_encrypted = false;
    SSL_CTX_set_default_passwd_cb(c, tls_on_password);
    SSL_CTX_set_default_passwd_cb_userdata(c, &is_encrypted);
    int good = SSL_CTX_use_PrivateKey_file(c, f->key, SSL_FILETYPE_PEM);
    bool is_other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
                    ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH;
    SSL_CTX_set_default_passwd_cb_userdata(c, NULL);
    SSL_CTX_set_default_passwd_cb(c, NULL);
    if (is_encrypted)
        return error_field(e, "key", "%s is encrypted; decrypt it: openssl pkey -in %s -out NEW-FILE", f->key, f->key);
    if (good != 1 && !is_other)
        return error_field(e, "key", "%s holds no private key that can be used; it must be in PEM form", f->key);
    if (good != 1 || SSL_CTX_check_private_key(c) != 1)
        return error_field(e, "key", "%s is not the key of the certificate in %s; give the two of one pair", f->key,
                           f->cert);
    return ERR_OK;
}

/* ---- clients ---- */

/* A session says which authorities had verified its client. If they change, it cannot be resumed. */
static void tls_set_session_scope(SSL_CTX *c, const struct tls_files *f, STACK_OF(X509_NAME) * names)
{
    unsigned char scope[EVP_MAX_MD_SIZE], name[EVP_MAX_MD_SIZE];
    unsigned n = 0, size;
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    int good = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) &&
               EVP_DigestUpdate(digest, &f->require_client, sizeof f->require_client);
    X509_STORE *store = SSL_CTX_get_cert_store(c);
    STACK_OF(X509_OBJECT) *objects = names ? X509_STORE_get0_objects(store) : NULL;
    for (int i = 0; good && objects && i < sk_X509_OBJECT_num(objects); i++) {
        const X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
        good = !ca || (X509_digest(ca, EVP_sha256(), name, &size) && EVP_DigestUpdate(digest, name, size));
    }
    good = good && EVP_DigestFinal_ex(digest, scope, &n) && SSL_CTX_set_session_id_context(c, scope, n);
    assert(good);
    EVP_MD_CTX_free(digest);
}

static enum err tls_ask_clients(SSL_CTX *c, const struct tls_files *f, struct error *e)
{
    STACK_OF(X509_NAME) *names = NULL;
    if (f->client_ca) {
        names = SSL_load_client_CA_file(f->client_ca);
        if (!names || SSL_CTX_load_verify_file(c, f->client_ca) != 1) {
            sk_X509_NAME_pop_free(names, X509_NAME_free);
            return error_field(e, "client_ca", "%s holds no certificate; give those of the authorities in PEM form",
                               f->client_ca);
        }
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER | (f->require_client ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    }
    tls_set_session_scope(c, f, names);
    SSL_CTX_set_client_CA_list(c, names); /* takes them */
    return ERR_OK;
}

/* A client that offers other protocols only, such as h2, would send what we cannot read. */
static int tls_on_protocols(SSL *s, const unsigned char **ret, unsigned char *ret_n, const unsigned char *offered,
                            unsigned offered_n, void *context)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;
    (void)s;
    (void)context;
    if (SSL_select_next_proto(&chosen, ret_n, ours, sizeof ours - 1, offered, offered_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- the context ---- */

static SSL_CTX *tls_context_alloc(void)
{
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    assert(c);
    int good = SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) &&
               SSL_CTX_set_cipher_list(c, "ECDHE+AESGCM:ECDHE+CHACHA20") && SSL_CTX_set_num_tickets(c, 1);
    assert(good);
    SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(c, 1);                          /* one system call a record instead of two */
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF); /* sessions are in the tickets of the clients */
    SSL_CTX_set_timeout(c, SESSION_SECONDS);
    SSL_CTX_set_alpn_select_cb(c, tls_on_protocols, NULL);
    return c;
}

enum err tls_context_new(const struct tls_files *files, int64_t now_ms, SSL_CTX **ret, struct error *e)
{
    if (tls_check_settings(files, e))
        return e->code;
    ERR_clear_error();
    cleanup_with(tls_context_freep) SSL_CTX *c = tls_context_alloc();
    enum err rc = tls_use_certificate(c, files->cert, now_ms, e);
    if (rc == ERR_OK)
        rc = tls_use_key(c, files, e);
    if (rc == ERR_OK)
        rc = tls_ask_clients(c, files, e);
    ERR_clear_error();
    if (rc == ERR_OK)
        *ret = take(c);
    return rc;
}
