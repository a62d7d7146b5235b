#pragma once
/* api/auth/client_identity.h - who a client is by its certificate: the settings api.tls.identities.
 *
 * The names of a certificate are compared in the order of tls.h: URIs, DNS names, e-mail addresses. The first one that
 * has an identity counts. */
#include "api/auth/auth.h"
#include "http/tls.h"

struct client_identity {
    struct str name;           /* of the setting; shown as the actor, "cert:NAME" */
    struct tls_name alternate; /* the name in the certificate */
    struct str tenant;
    uint32_t scopes;
};

struct client_identities {
    const struct client_identity *v;
    size_t n;
};

/* NULL: none of its names has an identity. Any thread. */
const struct client_identity *client_identity_find(const struct client_identities *all, const struct tls_client *c);

/* Appends "dns:a.example, uri:spiffe://b", for people. */
void client_names_write(const struct tls_client *c, struct buf *out);
