#include "api/dashboard/session_cookie.h"

#include <stdio.h>

#include "api/auth/session_keys.h"
#include "api/server/internal.h"
#include "port/crypto.h"

/* Cuts the next pair of a Cookie header. */
static bool cookie_next(struct str *rest, struct str *ret_name, struct str *ret_value)
{
    size_t end = 0;
    if (!rest->n)
        return false;
    while (end < rest->n && rest->p[end] != ';' && rest->p[end] != ',') /* several headers were joined by commas */
        end++;
    struct str pair = str_trim(str_sub(*rest, 0, end));
    *rest = str_sub(*rest, min_of(end + 1, rest->n), rest->n);
    size_t sign = str_find(pair, '=', 0);
    *ret_name = str_sub(pair, 0, sign);
    *ret_value = str_sub(pair, min_of(sign + 1, pair.n), pair.n);
    return true;
}

static bool cookie_is_ours(struct str header)
{
    struct str name, value;
    while (cookie_next(&header, &name, &value))
        if (str_eq(name, S("__Host-belfry")) || str_starts(name, S("belfry_")))
            return true;
    return false;
}

/* A cookie that is there twice is none: one of them was not set by this server. */
static struct str cookie_find(struct str header, const char *wanted)
{
    struct str name, value, found = { 0 };
    size_t n = 0;
    while (cookie_next(&header, &name, &value))
        if (str_eq(name, str_from(wanted))) {
            found = value;
            n++;
        }
    return n == 1 ? found : (struct str){ 0 };
}

struct str session_cookie_text(const struct request *q, const struct browser_origin *o)
{
    return cookie_find(q->head.cookie, o->cookie);
}

static bool session_token_is_right(const struct request *q)
{
    char token[CSRF_TEXT + 1];
    if (!auth_key_is_well_formed(q->session))
        return true; /* there is no such session: 401 tells more */
    auth_csrf_token(q->server->setup.pepper, q->session, token);
    struct str given = q->head.csrf_token;
    return given.n == CSRF_TEXT && crypto_equal((const uint8_t *)given.p, (const uint8_t *)token, CSRF_TEXT);
}

static bool session_refuse(struct request *q, const char *detail)
{
    request_refuse(q, PROBLEM_CROSS_SITE, detail);
    return false;
}

bool session_cookie_check(struct request *q)
{
    struct browser_origin o;
    if (q->head.authorization.p || !cookie_is_ours(q->head.cookie))
        return true;
    if (!browser_origin_read(q, &o))
        return browser_origin_refuse(q);
    q->session = session_cookie_text(q, &o);
    if (!q->session.n)
        return true;
    if (browser_request_is_foreign(q, &o))
        return session_refuse(q, "a page of another origin made this request; the session is for the dashboard only");
    if (q->method == HTTP_GET)
        return true;
    if (!q->head.sec_fetch_site.p && !q->head.origin.p)
        return session_refuse(q, "a write by a session needs the header Origin or Sec-Fetch-Site, which browsers send");
    if (!session_token_is_right(q))
        return session_refuse(q, "a write by a session needs a header X-CSRF-Token with the csrf_token of "
                                 "GET /v1/session");
    return true;
}

void session_cookie_set(struct request *q, const struct browser_origin *o, const char *session, int64_t life_s)
{
    snprintf(q->response.cookie, sizeof q->response.cookie, "%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
             o->cookie, session, (long long)life_s, o->is_secure ? "; Secure" : "");
}

void session_cookie_clear(struct request *q)
{
    struct browser_origin o;
    if (browser_origin_read(q, &o))
        session_cookie_set(q, &o, "", 0);
}
