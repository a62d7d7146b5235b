#pragma once
/* port/secrets.h - the keys that encrypt secrets in the store, and the secret headers of tasks.
 *
 * A key file has a line for each key: its id, a blank and 32 bytes in base64url. The first key encrypts; all decrypt. A
 * secret is encrypted by AES-256-GCM under a key of its own: HKDF-SHA256 of the key in the file, with tenant, row and
 * field. The same place is authenticated, so a ciphertext is of no use in another tenant, row or field. Its text is
 * "enc:1:", the id of the key, ':' and base64url.
 *
 * All functions: any thread; the keys do not change after secrets_parse. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/target/webhook.h"
#include "port/crypto.h"

enum { SECRETS_KEYS_MAX = 16, SECRETS_ID = 8, SECRETS_LINE = SECRETS_ID + 1 + 43 + 1, SECRETS_PRINT = 16 };

struct secrets {
    struct secrets_key {
        char id[SECRETS_ID + 1];
        uint8_t key[SEAL_KEY_SIZE];
    } keys[SECRETS_KEYS_MAX];
    size_t n;
};

struct secret_place {
    int32_t tenant;
    struct uuid row;
    struct str field; /* of a header: its name, in any case */
};

/* Empty lines and lines that begin with # are skipped. ERR_INVALID: not a key file, or more than SECRETS_KEYS_MAX
 * keys. */
enum err secrets_parse(struct str text, struct secrets *ret, struct error *e) must_use;
/* The line of a new key, with its line end. */
void secrets_new_line(char out[SECRETS_LINE + 1]);
/* A fingerprint of key i: says nothing about the key. */
void secrets_fingerprint(const struct secrets *s, size_t i, uint8_t out[SECRETS_PRINT]);

#define SECRET_PREFIX "enc:1:" /* of every ciphertext */
bool secret_is_sealed(struct str text);
void secret_seal(const struct secrets *s, const struct secret_place *at, struct str plain, struct buf *out);
/* ERR_NOT_FOUND: the file has no such key. ERR_CORRUPT: it was sealed for another place, or changed. */
enum err secret_open(const struct secrets *s, const struct secret_place *at, struct str sealed, struct arena *a,
                     struct str *ret, struct error *e) must_use;

/* ---- headers ---- */

/* Whether the value of this header is a secret: Authorization, Cookie, and names with token, secret, key or password.
 * A name with an escape may be any. */
bool header_is_secret(struct str name);

/* The row that the secrets of a task are bound to: an occurrence has those of its recurring task. */
struct uuid task_secrets_row(const struct task *t);

/* Decrypts the secret headers of a target. s may be NULL: then ciphertexts fail. */
enum err secret_headers_open(const struct secrets *s, const struct task *t, struct webhook *w, struct arena *a,
                             struct error *e) must_use;
