#pragma once
/* api/dashboard/browser_origin.h - under which origin a browser sees this server, and whether a request comes from a
 * page of it.
 *
 * Sessions are served under an origin that nobody can forge:
 * - the one of the setting api.public_url, also if a proxy speaks TLS in front of this server;
 * - without that setting, any origin of a server that speaks TLS: its certificate has the name;
 * - plain HTTP only from this machine to a loopback address. A web page whose name was pointed at 127.0.0.1 has another
 *   Host; a proxy on this machine is recognised by its headers.
 *
 * All functions: the thread that owns the request. */
#include "base/err.h"
#include "base/str.h"

struct request;

enum { BROWSER_ORIGIN_MAX = 280 };

struct browser_origin {
    char text[BROWSER_ORIGIN_MAX]; /* such as https://belfry.example.com */
    char cookie[32];               /* the name of the cookie of its sessions */
    bool is_secure;                /* https */
};

/* False: no browser may use this server under the Host of the request. */
bool browser_origin_read(const struct request *q, struct browser_origin *ret);

/* Whether the headers that browsers send, Sec-Fetch-Site and Origin, name another page than one of this origin. o NULL:
 * the origin is not known, so every one is another. */
bool browser_request_is_foreign(const struct request *q, const struct browser_origin *o);

/* Answers 421. Returns false. */
bool browser_origin_refuse(struct request *q);

enum err public_url_check(struct str url, struct error *e) must_use; /* api.public_url */
