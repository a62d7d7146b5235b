#pragma once
/* api/auth/auth.h - authentication: API keys, their scopes, and a cache of the keys in use.
 *
 * A key is `bf_`, 10 characters of id, 30 random characters (178 bits) and 6 characters of checksum, all base62.
 * Because of the checksum, a mistyped or truncated key is recognised without reading the store. The key is shown once.
 * The store has only its HMAC, keyed with the server's pepper.
 *
 * A session of a browser and a login code look like keys, and are rows beside them with a parent, the key that they act
 * for (session_keys.h). They end with their parent. Each is valid in its own place only: a key in Authorization, a
 * session in a cookie, a code in a login.
 *
 * The functions on struct auth lock it and may be called on any thread; those with a reader run on the thread that owns
 * the reader. */
#include <pthread.h>

#include "api/auth/scopes.h"
#include "base/buf.h"
#include "port/clock.h"
#include "port/store.h"

enum {
    AUTH_ID = 10,
    AUTH_SECRET = 30,
    AUTH_CHECK = 6,
    AUTH_KEY_TEXT = 3 + AUTH_ID + AUTH_SECRET + AUTH_CHECK,
    AUTH_CACHE_MAX = 1024,
    AUTH_CACHE_MS = 10000, /* a changed or revoked key is noticed within this time */
    IDENTITY_TEXT = 48,
    AUTH_NAME_BYTES = 4 * 100, /* of the name of a key: 100 characters */
    TENANT_DEFAULT = 1,
};

/* For requests that wait: how long the check of a key holds. */
struct identity_check {
    uint64_t changes;   /* of keys and tenants before it (auth_check_again) */
    int64_t until_ns;   /* steady */
    int64_t expires_ms; /* wall: of the key or the client certificate; 0: never */
};

struct identity {
    int32_t tenant;
    uint32_t scopes;                    /* bit s for scope s */
    char key_id[IDENTITY_TEXT];         /* or cert:NAME, by a client certificate */
    char session[AUTH_ID + 1];          /* the id of the session that acts for the key; empty: none */
    char key_name[AUTH_NAME_BYTES + 1]; /* when the key was looked up; empty: it has none, or is no key */
    struct identity_check check;
};
bool identity_may(const struct identity *who, enum scope scope);

struct auth;

struct auth *auth_new(struct str pepper, struct clock *clock);
void auth_free(struct auth *a); /* NULL is fine */

/* Checks an Authorization header against the cache. AUTH_NOT_CACHED: well formed, but not in the cache; call
 * auth_check_store. AUTH_STALE: the same, and the key was valid when it was last looked up. */
enum auth_result {
    AUTH_OK,
    AUTH_NOT_CACHED,
    AUTH_STALE,
    AUTH_MISSING,
    AUTH_MALFORMED,
    AUTH_REFUSED, /* unknown or wrong */
    AUTH_REVOKED, /* it was right: *ret is set */
    AUTH_EXPIRED  /* the same */
};
enum auth_result auth_check(struct auth *a, struct str header, struct identity *ret);
/* Whether the key of the header was valid when it was last looked up. For what needs no store, while it is unavailable.
 */
bool auth_was_valid(struct auth *a, struct str header, struct identity *ret);
enum auth_result auth_check_session(struct auth *a, struct str text, struct identity *ret);

/* How a text was given: each kind is refused in the place of another. */
enum auth_kind { AUTH_KEY, AUTH_SESSION, AUTH_CODE };

/* Checks a text against the store, as auth_check_store does. A code has no scopes. */
enum err auth_check_text(struct auth *a, struct str text, enum auth_kind kind, struct reader *r,
                         enum auth_result *ret_result, struct identity *ret, struct error *e) must_use;

/* Checks the header against the store. ERR_OK with AUTH_OK, REFUSED, REVOKED or EXPIRED in *ret_result, or the store's
 * failure. A pool thread. */
enum err auth_check_store(struct auth *a, struct str header, struct reader *r, enum auth_result *ret_result,
                          struct identity *ret, struct error *e) must_use;

/* Reads a key. If its parent was revoked or expires earlier, so does the key that is returned. */
enum err auth_read_key(struct reader *r, struct str id, struct arena *a, struct api_key *ret, struct error *e) must_use;

/* A key was revoked: removes it and its sessions from the cache. If another thread is reading the key at this
 * moment, that result is not cached. */
void auth_cache_remove(struct auth *a, struct str id);
void auth_cache_set_stale(struct auth *a); /* another node may have changed keys: each is looked up again */

/* A tenant may have been disabled, or keys have changed: what was checked before is to be checked again. */
void auth_check_again(struct auth *a);
/* Whether nothing has changed since who was checked. False: check it again. Cheap, takes no lock. */
bool auth_still_holds(const struct auth *a, const struct identity *who);
/* Of an identity that is no key, and is checked now. */
struct identity_check auth_check_of_certificate(const struct auth *a, int64_t expires_ms);

void auth_id_make(char out[AUTH_ID + 1]); /* a random id for a new key */

/* Makes a new key: its text, and the row to store for it. id, name and scopes of the row borrow from the arguments. */
void auth_key_make(struct str pepper, struct str id, int32_t tenant, struct str name, struct str scopes, int64_t now_ms,
                   char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret);
bool auth_key_is_well_formed(struct str text);

bool api_key_is_admin(const struct api_key *k, int64_t now_ms); /* and has not expired */
