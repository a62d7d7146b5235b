#pragma once
/* api/server/cors.h - which web pages of other origins may call the API (CORS, the Fetch standard). None, unless the
 * setting api.cors_origins names their origins. Credentials of the browser (cookies, certificates) are never allowed:
 * a page sends an API key. Any thread. */
#include "api/server/request.h"

/* Checks a list of origins, separated by blanks. */
enum err cors_origins_check(struct str origins, struct error *e) must_use;

void cors_add_headers(const struct request *q, struct http_answer *a);
