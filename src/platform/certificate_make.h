#pragma once
/* platform/certificate_make.h - makes a private certificate authority and certificates that it signs, for `belfry tls
 * init` and for tests. Keys are of P-256, which every TLS client takes. Any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A certificate and its key. */
struct certificate;

struct certificate_order {
    const char *name;         /* common name of its subject */
    const char *const *names; /* alternative names: "DNS:localhost", "IP:127.0.0.1", "URI:…", "email:…" */
    size_t name_count;
    bool is_client;  /* of a client; else of a server */
    int64_t from_ms; /* valid from */
    int64_t days;
};

struct certificate *certificate_authority_new(const char *name, int64_t from_ms, int64_t days);

/* ERR_INVALID: a name cannot be used. */
enum err certificate_issue(const struct certificate *authority, const struct certificate_order *order,
                           struct certificate **ret, struct error *e) must_use;

/* Files in PEM form. The key is written with mode 0600, the certificate with 0644; files that exist are replaced. */
enum err certificate_write(const struct certificate *c, const char *cert_path, const char *key_path,
                           struct error *e) must_use;
enum err certificate_read(const char *cert_path, const char *key_path, struct certificate **ret,
                          struct error *e) must_use;
void certificate_free(struct certificate *c); /* NULL is fine */

/* The DNS names and addresses that a certificate is for, in their order; none if the file is no certificate. */
void certificate_each_host(const char *cert_path, void (*found)(void *context, const char *host), void *context);
