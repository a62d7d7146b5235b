#pragma once
/* server/settings/tls_settings.h - the settings api.tls.… and api.plaintext. */
#include "api/auth/client_identity.h"
#include "base/option/option.h"

struct tls_settings {
    struct tls_files files; /* cert NULL: the API speaks plain HTTP */
    struct client_identity identities[OPTION_LIST_MAX];
    size_t identity_count;
    bool is_plaintext_allowed; /* on an address that other machines can reach */
};

/* Texts borrow from o. Reads the files, so that an error is seen before anything is started. An API on an address that
 * is not loopback must have TLS, unless api.plaintext is true. */
enum err tls_settings_read(const struct options *o, int64_t now_ms, struct tls_settings *ret, struct error *e) must_use;
enum err tls_settings_check_listen(const struct options *o, const struct tls_settings *s, struct error *e) must_use;
