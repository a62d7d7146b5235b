#pragma once
/* api/auth/admin_keys.h - admin keys and login codes that the server makes by itself, for the person who starts it. The
 * thread that owns the server. */
#include "api/auth/auth.h"

/* At the first start: creates an admin key of the tenant `default`, unless an unexpired one exists. ret_text is empty
 * if one exists. If several nodes start on one store, one of them creates the key and the others wait for it. Call it
 * before any other thread of this process writes to the store. */
enum err auth_bootstrap(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                        struct error *e) must_use;

/* Makes a login code of an admin key of the default tenant, for somebody who starts the server. Call it like
 * auth_bootstrap, after it. ret_text is empty if there is no such key. */
enum err auth_add_code(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                       struct error *e) must_use;

/* Makes one more admin key of the default tenant, with an id of its own. */
enum err auth_add_admin(struct store *store, struct str pepper, int64_t now_ms, char ret_text[AUTH_KEY_TEXT + 1],
                        struct error *e) must_use;
