#pragma once
/* api/auth/session_keys.h - sessions of browsers, and the codes that start them: how they are made, how long they last,
 * and how often an address may log in. api/dashboard/session.c answers the requests; auth.h checks them. Any thread. */
#include "api/auth/auth.h"

enum { SESSION_MS = 12 * 3600 * 1000, LOGIN_CODE_MS = 60 * 1000 };
enum { LOGINS_BURST = 10, LOGINS_ADDRESSES = 4096 }; /* of one address in a minute */
#define LOGIN_CODE_SCOPES "login"                    /* of a login code; no key can have it */

/* Makes a session or a login code of a key, as auth_key_make does. It expires with the key at the latest. */
void auth_session_make(struct str pepper, struct str id, const struct api_key *parent, int64_t now_ms,
                       char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret);
void auth_code_make(struct str pepper, struct str id, const struct api_key *parent, int64_t now_ms,
                    char ret_text[AUTH_KEY_TEXT + 1], struct api_key *ret);

/* What a page must send with each write, so that other pages cannot write with its cookie. It follows from the session,
 * so every node knows it. */
enum { CSRF_TEXT = 32 };
void auth_csrf_token(struct str pepper, struct str session, char ret[CSRF_TEXT + 1]);
