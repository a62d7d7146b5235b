#pragma once
/* api/server/auth.h - who asks: API keys, their scopes, and a cache of the keys in use.
 *
 * A key is `bf_`, 10 characters that name it, 30 random ones (178 bits), 6 of checksum, all base62: a typo or a truncated
 * copy is told from a wrong key without asking the store. It is shown once; the store keeps an HMAC of it under the
 * server's pepper. */
#include <pthread.h>

#include "base/buf.h"
#include "port/clock.h"
#include "port/store.h"

enum {
    AUTH_ID = 10,
    AUTH_SECRET = 30,
    AUTH_CHECK = 6,
    AUTH_KEY_TEXT = 3 + AUTH_ID + AUTH_SECRET + AUTH_CHECK,
    AUTH_CACHE_MAX = 1024,
    AUTH_CACHE_MS = 10000, /* a key that was changed or taken away is noticed by then */
    TENANT_DEFAULT = 1,
};

/* What a route asks for. NONE is no scope: a route that has it does not compile. ADMIN may do everything. */
#define SCOPE_MAP(X)                                                                                                   \
    X(TASKS_READ, "tasks:read")                                                                                        \
    X(TASKS_WRITE, "tasks:write")                                                                                      \
    X(TASKS_LEASE, "tasks:lease")                                                                                      \
    X(DLQ_READ, "dlq:read")                                                                                            \
    X(QUEUES_READ, "queues:read")                                                                                      \
    X(QUEUES_WRITE, "queues:write")                                                                                    \
    X(CALENDARS_READ, "calendars:read")                                                                                \
    X(CALENDARS_WRITE, "calendars:write")                                                                              \
    X(DLQ_WRITE, "dlq:write")                                                                                          \
    X(STATUS_READ, "status:read")                                                                                      \
    X(METRICS_READ, "metrics:read")                                                                                    \
    X(ADMIN, "admin")
enum scope {
    SCOPE_NONE,
    SCOPE_PUBLIC,
#define X(id, name) SCOPE_##id,
    SCOPE_MAP(X)
#undef X
};
const char *scope_name(enum scope s); /* "public" for what asks for none */

struct identity {
    int32_t tenant;
    uint32_t scopes; /* bit s */
    char key_id[AUTH_ID + 1];
};
uint32_t scopes_parse(struct str words); /* words that it does not know give nothing */
void scopes_names(struct buf *out);      /* all of them, commas between them */
bool identity_may(const struct identity *who, enum scope scope);

struct auth;

struct auth *auth_new(struct str pepper, struct clock *clock);
void auth_free(struct auth *a); /* NULL is fine */

/* From an Authorization header. AUTH_ASK: well formed, but only the store knows: call auth_ask. */
enum auth_result { AUTH_OK, AUTH_ASK, AUTH_MISSING, AUTH_MALFORMED, AUTH_REFUSED };
enum auth_result auth_check(struct auth *a, struct str header, struct identity *ret);

/* The same with a reader. ERR_OK and AUTH_OK or AUTH_REFUSED in *ret_result, or the store's failure. */
enum err auth_ask(struct auth *a, struct str header, struct reader *r, enum auth_result *ret_result,
                  struct identity *ret, struct error *e) must_use;

/* A key was revoked: what is remembered of it goes, and what is being read of it at this moment is not remembered. */
void auth_forget(struct auth *a, struct str id);
void auth_forget_all(struct auth *a); /* another node may have changed some */

void auth_id_make(char out[AUTH_ID + 1]); /* a new key's name, by chance */

/* A new key's text, and the row to be stored for it; id, name and scopes of the row borrow from the arguments. */
void auth_key_make(struct str pepper, struct str id, int32_t tenant, struct str name, struct str scopes, int64_t now_ms,
                   char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret);
bool auth_key_is_well_formed(struct str text);
bool api_key_is_admin(const struct api_key *k, int64_t now_ms); /* and has not expired */

/* The first start: makes an admin key of tenant `default` unless there is one that has not expired. ret_text is empty if there was. Of
 * several nodes that start on one store, one makes it; the others wait. Before anyone else of this process writes to the store. */
enum err auth_bootstrap(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                        struct error *e) must_use;
