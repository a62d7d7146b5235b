#pragma once
/* workflow/definition_secrets.h - secret headers of steps in definitions of workflows (api/task/secret_headers.h).
 * Answers have *** in place of their values, and a definition that sends *** back keeps them. All other bytes stay, so
 * a definition that comes back as it was shown is the same version.
 *
 * With a key file they are encrypted in the store. Encrypted are the texts within a value, as they are written:
 * {"$join": ["Bearer abc", {"$ref": "/input/id"}]} keeps its form, so the references stay readable. A text is bound to
 * the tenant, to the definition without its secrets, and to its position there. So it is of no use in another
 * definition, nor in this one with another URL. A definition is decrypted when it is read from the store
 * (workflow/definition_cache.h); the rows of its steps are encrypted for themselves, like those of other tasks.
 * Any thread. */
#include "base/arena.h"
#include "base/json/jsonw.h"
#include "core/flow/dag.h"
#include "port/secrets.h"
#include "port/store/runs.h"

enum { DEFINITION_STORED_MAX = 2 * DAG_TEXT_MAX }; /* bytes, with its secrets encrypted */

/* Writes a definition without the secrets. */
void definition_secrets_hide(struct jw *w, struct str text);

/* Replaces each *** by the value that the step of the same name had in the latest version, if the step's target is
 * still at the same host or broker. ERR_INVALID, with the field: there is no such value, or the target is elsewhere. */
enum err definition_secrets_keep(struct str text, struct str latest, struct arena *a, struct str *ret,
                                 struct error *e) must_use;

/* A secret header that the latest version has, and this one has not, although it has the step. */
struct definition_dropped {
    size_t step; /* its index in this version */
    bool compensates;
    struct str header; /* as written */
};
/* Returns how many there are, at most max. */
size_t definition_secrets_dropped(struct str text, struct str latest, struct definition_dropped *ret, size_t max);

/* The row to store: the hash of the definition, and its text with the secrets encrypted; secrets NULL: as it is. With
 * encrypted secrets the hash has a key, so that nobody finds a secret by trying values. ERR_INVALID: a secret looks
 * like an encrypted one. ERR_LIMIT: the text is too long. */
enum err definition_secrets_seal(const struct secrets *secrets, int32_t tenant, struct str text, struct arena *a,
                                 struct definition *ret, struct error *e) must_use;

/* The text as it was given. A secret whose key is lost, or that was changed or moved, stays encrypted: the step that
 * uses it fails. ERR_UNAVAILABLE: the file of this process lacks a key. */
enum err definition_secrets_open(const struct secrets *secrets, int32_t tenant, struct str stored, struct arena *a,
                                 struct str *ret, struct error *e) must_use;

/* Whether a secret of a stored text is not encrypted with this key. Calls `found` with the key of each one that is
 * encrypted. */
bool definition_secrets_lack_key(struct str stored, struct str key_id, void (*found)(void *context, struct str key_id),
                                 void *context);
