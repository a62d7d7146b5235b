#pragma once
/* port/secrets.h - the keys that encrypt secrets in the store, and the secret headers of tasks.
 *
 * A key file has a line for each key: its id, a blank and 32 bytes in base64url. The first key encrypts; all decrypt.
 * The word "lost" in place of the bytes says that nobody has this key any more: secrets that need it are given up. A
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

enum {
    SECRETS_KEYS_MAX = 16,
    SECRETS_ID = 8,
    SECRETS_LINE = SECRETS_ID + 1 + 43 + 1,
    SECRETS_PRINT = 16,
    KEY_PRINTS_MAX = 64
};

struct secrets {
    struct secrets_key {
        char id[SECRETS_ID + 1];
        uint8_t key[SEAL_KEY_SIZE];
    } keys[SECRETS_KEYS_MAX];
    size_t n;
    char lost[SECRETS_KEYS_MAX][SECRETS_ID + 1];
    size_t lost_count;
};

/* What a store knows of the keys that its secrets are encrypted with. */
struct key_print {
    char id[SECRETS_ID + 1];
    uint8_t print[SECRETS_PRINT];
};
struct key_prints {
    struct key_print v[KEY_PRINTS_MAX];
    size_t n;
    bool has_current;
    uint8_t
        current[SECRETS_PRINT]; /* of the key that nodes encrypt with: the first one of the node that started last */
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
/* The fingerprint of key i, which says nothing about the key. */
struct key_print secrets_print(const struct secrets *s, size_t i);
bool secrets_is_id(struct str id); /* 8 letters or digits */
/* Whether the file says that the key with this id is lost. */
bool secrets_is_lost(const struct secrets *s, struct str id);
/* The first key that the store knows, and the file neither has nor says to be lost; NULL: there is none. */
const struct key_print *secrets_lack(const struct secrets *s, const struct key_prints *known);
/* The number of the key with this fingerprint; s->n: the file has none. */
size_t secrets_find_print(const struct secrets *s, const uint8_t print[SECRETS_PRINT]);
const struct key_print *key_prints_find(const struct key_prints *known, struct str id); /* NULL: none */
/* For stores: adds what they keep under a name, "key:ID" or "key_print". false: it is not what Belfry wrote there. */
bool key_prints_add(struct key_prints *known, struct str name, struct str value);

#define SECRET_PREFIX "enc:1:" /* of every ciphertext */
bool secret_is_sealed(struct str text);
void secret_seal(const struct secrets *s, const struct secret_place *at, struct str plain, struct buf *out);
/* ERR_NOT_FOUND: the file has no such key. ERR_CORRUPT: it was sealed for another place, or changed, or its key is
 * lost. */
enum err secret_open(const struct secrets *s, const struct secret_place *at, struct str sealed, struct arena *a,
                     struct str *ret, struct error *e) must_use;

/* HMAC-SHA-256 of a text under a key that is made of the first one of the file, for this tenant and purpose: who has no
 * key file cannot try values of which he knows the result. */
void secrets_mac(const struct secrets *s, int32_t tenant, struct str purpose, struct str text,
                 uint8_t out[SHA256_SIZE]);

/* ---- headers ---- */

/* Whether the value of this header is a secret: Authorization, Cookie, and names with token, secret, key or password.
 * A name with an escape may be any. */
bool header_is_secret(struct str name);

/* The row that the secrets of a task are bound to: an occurrence has those of its recurring task. */
struct uuid task_secrets_row(const struct task *t);

/* A task whose key this process lacks is tried again after this time, perhaps by a process that has it. */
enum { SECRETS_RETRY_MS = 5000 };

/* Decrypts the secret headers of a target. s may be NULL: then ciphertexts fail. ERR_UNAVAILABLE: the file of this
 * process lacks a key; another process may have it. */
enum err secret_headers_open(const struct secrets *s, const struct task *t, struct webhook *w, struct arena *a,
                             struct error *e) must_use;
