#include "api/auth/session_keys.h"

#include <assert.h>
#include <stdio.h>

#include "port/crypto.h"

/* Not before its parent: the clocks of nodes differ a little. */
static void auth_child_make(struct str pepper, struct str id, const struct api_key *parent, int64_t now_ms,
                            int64_t life_ms, char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret)
{
    assert(!parent->parent.n);
    auth_key_make(pepper, id, parent->tenant, parent->name, parent->scopes, max_of(now_ms, parent->created_ms),
                  ret_text, ret);
    ret->expires_ms = parent->expires_ms ? min_of(now_ms + life_ms, parent->expires_ms) : now_ms + life_ms;
    ret->parent = parent->id;
}

void auth_session_make(struct str pepper, struct str id, const struct api_key *parent, int64_t now_ms,
                       char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret)
{
    auth_child_make(pepper, id, parent, now_ms, SESSION_MS, ret_text, ret);
}

void auth_code_make(struct str pepper, struct str id, const struct api_key *parent, int64_t now_ms,
                    char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret)
{
    auth_child_make(pepper, id, parent, now_ms, LOGIN_CODE_MS, ret_text, ret);
    ret->scopes = S(LOGIN_CODE_SCOPES);
}

void auth_csrf_token(struct str pepper, struct str session, char ret[CSRF_TEXT + 1])
{
    uint8_t hash[SHA256_SIZE];
    char text[AUTH_KEY_TEXT + 8];
    assert(session.n == AUTH_KEY_TEXT);
    snprintf(text, sizeof text, "csrf " STR_FMT, STR_ARG(session)); /* no key begins like this */
    crypto_hmac_sha256(pepper, str_from(text), hash);
    for (size_t i = 0; i < CSRF_TEXT / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", hash[i]);
    explicit_bzero(text, sizeof text);
}
