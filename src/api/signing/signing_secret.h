#pragma once
/* api/signing/signing_secret.h - makes or imports the secret of a signing key, and encrypts it if there is a key
 * file. A pool thread that owns the request. */
#include "api/server/request.h"
#include "core/target/signing_key.h"

/* What a request says of the secret. */
struct signing_secret_body {
    int algorithm;     /* enum signing_algorithm; -1: not given */
    struct str secret; /* to import; empty: make one */
};

/* otherwise: the algorithm if the body says nothing of it. *ret_shown is the secret that its receiver needs and nobody
 * has yet; empty: there is none to show. */
enum err signing_secret_make(struct request *q, struct uuid key, const struct signing_secret_body *body, int otherwise,
                             struct signing_secret *ret, struct str *ret_shown, struct error *e) must_use;
