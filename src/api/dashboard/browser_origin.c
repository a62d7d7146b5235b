#include "api/dashboard/browser_origin.h"

#include <stdio.h>

#include "api/dashboard/site.h"
#include "api/server/internal.h"
#include "http/peers.h"

#define SECURE_COOKIE "__Host-belfry"
#define HTTPS         "https://"
#define HTTP          "http://"

/* ---- Host ---- */

/* Name and port of a Host; the port is empty if it has none. */
static void host_split(struct str host, struct str *ret_name, struct str *ret_port)
{
    size_t from = host.n && host.p[0] == '[' ? str_find(host, ']', 0) : 0;
    size_t colon = str_find(host, ':', from);
    *ret_name = str_sub(host, 0, colon);
    *ret_port = str_sub(host, min_of(colon + 1, host.n), host.n);
}

static bool host_is_loopback(struct str name)
{
    if (str_eq_nocase(name, S("localhost")) || str_eq(name, S("[::1]")))
        return true;
    for (size_t i = 0; i < name.n; i++)
        if (!is_digit(name.p[i]) && name.p[i] != '.')
            return false;
    return str_starts(name, S("127."));
}

/* The same as browsers write it: in lower case, and without the port that the scheme has anyway. */
static struct str host_normalize(struct str host, bool is_secure, char out[BROWSER_ORIGIN_MAX])
{
    struct str name, port;
    host_split(host, &name, &port);
    bool is_usual = port.n == 0 || str_eq(port, is_secure ? S("443") : S("80"));
    size_t n = is_usual ? name.n : host.n;
    if (n >= BROWSER_ORIGIN_MAX - sizeof HTTPS)
        return (struct str){ 0 };
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(host.p[i] >= 'A' && host.p[i] <= 'Z' ? host.p[i] - 'A' + 'a' : host.p[i]);
    out[n] = '\0';
    return (struct str){ out, n };
}

/* ---- api.public_url ---- */

/* Without a slash at its end. */
static struct str public_url_origin(struct str url)
{
    return url.n && url.p[url.n - 1] == '/' ? str_sub(url, 0, url.n - 1) : url;
}

enum err public_url_check(struct str url, struct error *e)
{
    struct str origin = public_url_origin(url), name, port;
    bool is_secure = str_starts(origin, S(HTTPS)), is_plain = str_starts(origin, S(HTTP));
    struct str host = str_sub(origin, is_secure ? strlen(HTTPS) : strlen(HTTP), origin.n);
    bool is_valid = (is_secure || is_plain) && host.n && host.n < BROWSER_ORIGIN_MAX - sizeof HTTPS;
    if (!url.n)
        return ERR_OK;
    for (size_t i = 0; is_valid && i < host.n; i++)
        is_valid = host.p[i] > ' ' && host.p[i] < 127 && (host.p[i] < 'A' || host.p[i] > 'Z') &&
                   !strchr("/?#@,*\"'<>;\\", host.p[i]);
    if (!is_valid)
        return error_field(e, "api.public_url",
                           "must be an origin such as https://belfry.example.com: in lower case and without a path, "
                           "not '" STR_FMT "'",
                           STR_ARG(str_utf8_cut(url, 100)));
    host_split(host, &name, &port);
    if (is_plain && !host_is_loopback(name))
        return error_field(e, "api.public_url",
                           "must begin with https://: browsers send the cookie of a session only "
                           "over TLS, or to this machine");
    return ERR_OK;
}

/* ---- the origin ---- */

static bool browser_origin_set(struct browser_origin *ret, bool is_secure, struct str host)
{
    char text[BROWSER_ORIGIN_MAX];
    struct str normal = host_normalize(host, is_secure, text), name, port;
    if (!normal.n)
        return false;
    host_split(normal, &name, &port);
    *ret = (struct browser_origin){ .is_secure = is_secure };
    snprintf(ret->text, sizeof ret->text, "%s" STR_FMT, is_secure ? HTTPS : HTTP, STR_ARG(normal));
    if (is_secure)
        snprintf(ret->cookie, sizeof ret->cookie, SECURE_COOKIE);
    else
        snprintf(ret->cookie, sizeof ret->cookie, "belfry_%.5s", port.n ? port.p : "80");
    return true;
}

bool browser_origin_read(const struct request *q, struct browser_origin *ret)
{
    const struct api_setup *setup = &q->server->setup;
    struct str url = public_url_origin(setup->public_url), name, port;
    bool speaks_tls = setup->tls != NULL;
    if (str_starts(url, S(HTTPS)) && browser_origin_set(ret, true, q->head.host) && str_eq(str_from(ret->text), url))
        return true;
    if (!url.n && speaks_tls)
        return browser_origin_set(ret, true, q->head.host);
    host_split(q->head.host, &name, &port);
    bool is_local = peer_is_loopback(http_peer(q->exchange)) && host_is_loopback(name) && !q->head.forwarded.p;
    return is_local && browser_origin_set(ret, speaks_tls, q->head.host);
}

bool browser_request_is_foreign(const struct request *q, const struct browser_origin *o)
{
    struct str site = q->head.sec_fetch_site, origin = q->head.origin;
    bool by_user = str_eq(site, S("none")) && q->method == HTTP_GET; /* typed into the address bar */
    if (site.p && !str_eq(site, S("same-origin")) && !by_user)
        return true;
    return origin.p && !(o && str_eq(origin, str_from(o->text)));
}

bool browser_origin_refuse(struct request *q)
{
    static const char detail[] =
        "browsers may not use this server under the name in the header Host: open it at the address of api.public_url, "
        "or on the machine of the server at http://127.0.0.1 and its port";
    if (q->route->flags & ROUTE_PAGE)
        site_refuse(q, 421, detail);
    else
        respond_problem(&q->response, PROBLEM_MISDIRECTED, detail);
    return false;
}
