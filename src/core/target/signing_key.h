#pragma once
/* core/target/signing_key.h - a key that signs the calls and messages of a tenant, as read from its catalog entry.
 * Pure: nothing is signed here (port/signer.h).
 *
 * A key is for all calls of its tenant, or for those to a host. It has a current secret, and after a rotation older
 * ones that sign as well for a while. Secrets may be encrypted (port/secrets.h), in the place tenant, id, "secret". */
#include "base/json/jsonw.h"
#include "core/target/target_url.h"

enum {
    SIGNING_SECRETS_MAX = 3, /* signatures of one call */
    SIGNING_KEYS_MAX = 100,  /* of a tenant */
    SIGNING_NAME_MAX = 200,
    SIGNING_HOST_MAX = 253,
};

enum signing_algorithm { SIGNING_HMAC_SHA256, SIGNING_ED25519 };
enum { SIGNING_ALGORITHMS = SIGNING_ED25519 + 1 };
extern const char *const signing_algorithm_names[SIGNING_ALGORITHMS + 1]; /* NULL at the end */

struct signing_secret {
    int algorithm;         /* enum signing_algorithm */
    struct str secret;     /* whsec_… or whsk_…, or encrypted */
    struct str public_key; /* whpk_… of ED25519; else empty */
    int64_t until_ms;      /* of an older one: it signs until then; 0: the current one */
    int64_t rotated_ms;    /* of an older one: when another one took its place; 0: not known */
};

struct signing_key {
    struct uuid id;
    struct str name;
    struct str host;                                    /* a host, "*.example.com", or empty: all others */
    struct signing_secret secrets[SIGNING_SECRETS_MAX]; /* the current one first, then newest first */
    size_t count;
};

/* Texts live in the arena. ERR_CORRUPT: it is not such a document. */
enum err signing_key_read(struct str doc, struct arena *a, struct signing_key *ret, struct error *e) must_use;
void signing_key_write(struct jw *w, const struct signing_key *k); /* an object, with its secrets */
/* A copy whose texts are in the arena; false: it is full. */
bool signing_key_copy(const struct signing_key *k, struct arena *a, struct signing_key *ret) must_use;

/* Removes the older secrets that do not sign any more. */
void signing_key_drop_ended(struct signing_key *k, int64_t now_ms);

/* ---- hosts ---- */

/* Checks the host of a new key. *ret is its one form, in `out`: in lower case, an address as address_format has it. */
enum err signing_host_check(struct str host, char out[SIGNING_HOST_MAX], struct str *ret, struct error *e) must_use;
/* Whether two hosts of keys are one. A host from before may be an address in another form. */
bool signing_host_is_same(struct str a, struct str b);

/* The host that decides which key signs the task: that of its URL, or the first one of its broker's address. Lower
 * case, without port, brackets and final dot. Empty: a named broker, or nothing that is signed. */
struct str signing_host(const struct task *t, char out[TARGET_HOST_MAX]);
struct str signing_host_of_url(struct str url, char out[TARGET_HOST_MAX]); /* the same of a url; empty: it has none */

/* How well a key for `pattern` fits a host: 0, not at all; else the higher, the better. */
size_t signing_host_fit(struct str pattern, struct str host);
