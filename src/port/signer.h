#pragma once
/* port/signer.h - signs one call or message with the secrets of a signing key (core/target/signing_key.h).
 *
 * The secrets are opened when the target is read, because this process may lack the key that they are encrypted with.
 * They sign just before the call, and are wiped then. One thread at a time uses a signer. */
#include "core/target/signing_key.h"
#include "port/secrets.h"
#include "port/webhook_signature.h"

struct signer {
    struct signer_secret {
        char text[WEBHOOK_KEY_MAX + 1];
        int64_t until_ms; /* 0: no end */
    } v[SIGNING_SECRETS_MAX];
    size_t n;
};

/* Letters of all signatures, with blanks between them. */
enum { SIGNER_TEXT_MAX = SIGNING_SECRETS_MAX * (WEBHOOK_SIGNATURE_MAX + 1) };

#define SIGNING_FIELD "secret" /* of struct secret_place */

/* s may be NULL: then ciphertexts fail. ERR_UNAVAILABLE: the file of this process lacks a key; another process may have
 * it. */
enum err signer_open(const struct secrets *s, int32_t tenant, const struct signing_key *k, struct signer *ret,
                     struct error *e) must_use;
/* The value of the header webhook-signature. */
void signer_write(const struct signer *s, struct str id, int64_t now_ms, struct str body, struct buf *out);
void signer_wipe(struct signer *s);

/* Where a runner gets the key of a task. */
struct signing_source {
    /* ERR_NOT_FOUND: it is not signed. NULL: the key is in the task, which was taken from a queue. */
    enum err (*find)(void *context, const struct task *t, struct arena *a, struct signing_key *ret, struct error *e);
    void *context;
};
/* Finds and opens the key of a task; ret->n is 0: it is not signed. Otherwise as signer_open. */
enum err signer_of_task(const struct signing_source *from, const struct secrets *s, const struct task *t,
                        struct signer *ret, struct error *e) must_use;
