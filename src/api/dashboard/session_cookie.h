#pragma once
/* api/dashboard/session_cookie.h - the cookie by which a browser proves its session, and the token that its page sends
 * with each write.
 *
 * A browser sends a cookie with every request to this server, whatever page makes it. So a write by cookie must come
 * from a page of this server, by Sec-Fetch-Site or Origin, and have the token, which only that page can read.
 *
 * All functions: the thread that owns the request. */
#include "api/dashboard/browser_origin.h"

/* If the request has no Authorization, looks for the cookie, and sets q->session. False: the request is answered (403
 * or 421). */
bool session_cookie_check(struct request *q);

/* The session in the cookie of the request, not checked; empty: there is none. */
struct str session_cookie_text(const struct request *q, const struct browser_origin *o);

void session_cookie_set(struct request *q, const struct browser_origin *o, const char *session, int64_t life_s);
void session_cookie_clear(struct request *q); /* the browser drops it */
