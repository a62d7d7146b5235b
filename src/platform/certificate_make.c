/* OpenSSL's calls that cannot fail, unless memory is missing, are asserted. */
#include "platform/certificate_make.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SERIAL_BYTES = 16, CERT_MODE = 0644, KEY_MODE = 0600, DAY_S = 86400 };

struct certificate {
    X509 *cert;
    EVP_PKEY *key;
};

void certificate_free(struct certificate *c)
{
    if (!c)
        return;
    X509_free(c->cert);
    EVP_PKEY_free(c->key);
    free(c);
}

static void certificate_freep(struct certificate **c)
{
    certificate_free(*c);
}

/* ---- making ---- */

static void certificate_set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    int good = RAND_bytes(bytes, sizeof bytes);
    bytes[0] &= 0x7F; /* a serial number is positive */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    assert(good == 1 && number);
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
}

static struct certificate *certificate_new(const char *name, int64_t from_ms, int64_t days)
{
    struct certificate *c = xnew(*c);
    c->key = EVP_EC_gen("P-256");
    c->cert = X509_new();
    assert(c->key && c->cert);
    certificate_set_serial(c->cert);
    X509_NAME *subject = X509_get_subject_name(c->cert);
    int good = X509_set_version(c->cert, X509_VERSION_3) && X509_set_pubkey(c->cert, c->key) &&
               X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) &&
               ASN1_TIME_set(X509_getm_notBefore(c->cert), from_ms / 1000) &&
               ASN1_TIME_set(X509_getm_notAfter(c->cert), from_ms / 1000 + days * DAY_S);
    assert(good);
    return c;
}

/* False: the text is not a valid value. */
static bool certificate_add_extension(X509 *cert, X509 *issuer, int id, const char *text)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, id, text);
    bool good = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return good;
}

static void certificate_sign(struct certificate *c, const struct certificate *by)
{
    int good = X509_set_issuer_name(c->cert, X509_get_subject_name(by->cert)) &&
               certificate_add_extension(c->cert, by->cert, NID_subject_key_identifier, "hash") &&
               certificate_add_extension(c->cert, by->cert, NID_authority_key_identifier, "keyid:always") &&
               X509_sign(c->cert, by->key, EVP_sha256()) > 0;
    assert(good);
}

struct certificate *certificate_authority_new(const char *name, int64_t from_ms, int64_t days)
{
    struct certificate *c = certificate_new(name, from_ms, days);
    int good = certificate_add_extension(c->cert, c->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
               certificate_add_extension(c->cert, c->cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
               X509_set_issuer_name(c->cert, X509_get_subject_name(c->cert)) &&
               certificate_add_extension(c->cert, c->cert, NID_subject_key_identifier, "hash") &&
               X509_sign(c->cert, c->key, EVP_sha256()) > 0;
    assert(good);
    return c;
}

/* The text of an extension separates names by commas: a name that holds one would be two. */
static enum err certificate_add_names(X509 *cert, const struct certificate_order *o, struct error *e)
{
    char text[4096];
    size_t n = 0;
    for (size_t i = 0; i < o->name_count; i++) {
        if (strpbrk(o->names[i], ", \t\n") || n + strlen(o->names[i]) + 2 > sizeof text)
            return error_set(e, ERR_INVALID, "'%s' is not a name for a certificate", o->names[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? "," : "", o->names[i]);
    }
    ERR_clear_error();
    bool good = n == 0 || certificate_add_extension(cert, NULL, NID_subject_alt_name, text);
    ERR_clear_error();
    return good ? ERR_OK : error_set(e, ERR_INVALID, "'%s' are not names for a certificate", text);
}

enum err certificate_issue(const struct certificate *authority, const struct certificate_order *order,
                           struct certificate **ret, struct error *e)
{
    cleanup_with(certificate_freep) struct certificate *c = certificate_new(order->name, order->from_ms, order->days);
    const char *use = order->is_client ? "clientAuth" : "serverAuth";
    int good = certificate_add_extension(c->cert, NULL, NID_basic_constraints, "critical,CA:FALSE") &&
               certificate_add_extension(c->cert, NULL, NID_key_usage, "critical,digitalSignature") &&
               certificate_add_extension(c->cert, NULL, NID_ext_key_usage, use);
    assert(good);
    if (certificate_add_names(c->cert, order, e))
        return e->code;
    certificate_sign(c, authority);
    *ret = take(c);
    return ERR_OK;
}

/* ---- files ---- */

static enum err certificate_file_error(const char *path, struct error *e)
{
    char why[128];
    return error_set(e, ERR_UNAVAILABLE, "%s: %s", path, strerror_r(errno, why, sizeof why));
}

/* Under another name first: a server that reads the file sees the old one or the new one. */
static enum err certificate_write_file(const char *path, BIO *text, unsigned mode, struct error *e)
{
    char next[4096], *bytes;
    long n = BIO_get_mem_data(text, &bytes);
    snprintf(next, sizeof next, "%s.new", path);
    unlink(next);
    int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    bool good = fd >= 0 && write(fd, bytes, (size_t)n) == n && fchmod(fd, mode) == 0 && fsync(fd) == 0;
    if (fd >= 0 && close(fd))
        good = false;
    return good && rename(next, path) == 0 ? ERR_OK : certificate_file_error(path, e);
}

enum err certificate_write(const struct certificate *c, const char *cert_path, const char *key_path, struct error *e)
{
    BIO *cert = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_secmem());
    int good = cert && key && PEM_write_bio_X509(cert, c->cert) &&
               PEM_write_bio_PrivateKey(key, c->key, NULL, NULL, 0, NULL, NULL);
    assert(good);
    enum err rc = certificate_write_file(key_path, key, KEY_MODE, e);
    if (rc == ERR_OK)
        rc = certificate_write_file(cert_path, cert, CERT_MODE, e);
    BIO_free(cert);
    BIO_free(key);
    return rc;
}

enum err certificate_read(const char *cert_path, const char *key_path, struct certificate **ret, struct error *e)
{
    cleanup_with(certificate_freep) struct certificate *c = xnew(*c);
    BIO *cert = BIO_new_file(cert_path, "r"), *key = BIO_new_file(key_path, "r");
    c->cert = cert ? PEM_read_bio_X509(cert, NULL, NULL, NULL) : NULL;
    c->key = key ? PEM_read_bio_PrivateKey(key, NULL, NULL, NULL) : NULL;
    bool is_pair = c->cert && c->key && X509_check_private_key(c->cert, c->key) == 1;
    BIO_free(cert);
    BIO_free(key);
    ERR_clear_error();
    if (!is_pair)
        return error_set(e, ERR_INVALID, "%s and %s are not a certificate and its key", cert_path, key_path);
    *ret = take(c);
    return ERR_OK;
}

/* ---- names ---- */

static void certificate_tell_host(const GENERAL_NAME *name, void (*found)(void *context, const char *host),
                                  void *context)
{
    char address[INET6_ADDRSTRLEN];
    int kind;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &kind);
    const unsigned char *bytes = kind == GEN_DNS || kind == GEN_IPADD ? ASN1_STRING_get0_data(value) : NULL;
    if (kind == GEN_DNS)
        found(context, (const char *)bytes); /* OpenSSL ends it by a NUL */
    else if (kind == GEN_IPADD &&
             inet_ntop(ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6, bytes, address, sizeof address))
        found(context, address);
}

void certificate_each_host(const char *cert_path, void (*found)(void *context, const char *host), void *context)
{
    BIO *file = BIO_new_file(cert_path, "r");
    X509 *cert = file ? PEM_read_bio_X509(file, NULL, NULL, NULL) : NULL;
    GENERAL_NAMES *all = cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
    for (int i = 0; all && i < sk_GENERAL_NAME_num(all); i++)
        certificate_tell_host(sk_GENERAL_NAME_value(all, i), found, context);
    GENERAL_NAMES_free(all);
    X509_free(cert);
    BIO_free(file);
    ERR_clear_error();
}
