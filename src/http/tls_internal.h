#pragma once
/* http/tls_internal.h - what the files of TLS share: OpenSSL's types show only in them. */
#include <openssl/ssl.h>

#include "http/tls.h"

/* tls_load.c: makes a context from the files. */
enum err tls_context_new(const struct tls_files *files, int64_t now_ms, SSL_CTX **ret, struct error *e) must_use;

/* tls_client_certificate.c */
int64_t tls_time_ms(const ASN1_TIME *t); /* INT64_MIN: not a time */
struct tls_client *tls_client_new(const X509 *certificate);

/* tls.c: a session with the context that is in use now. */
SSL *tls_accept_new(struct tls *t);
