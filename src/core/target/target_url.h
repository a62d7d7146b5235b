#pragma once
/* core/target/target_url.h - the parts of a URL, and the host of an HTTP target, for statistics, limits and displays by
 * host. Pure.
 *
 * The result is never used to make a call: whether the text is a valid URL is decided by the runner's parser. It is
 * read before each call, so it allocates no memory and is fast. */
#include "core/task/task.h"

enum { TARGET_URL_MAX = 1024 /* bytes that are read; the rest is ignored */, TARGET_HOST_MAX = 255 };

/* As written. */
struct target_url {
    struct str scheme;
    struct str user; /* and password, up to their '@'; empty: there is none */
    struct str host; /* with its port */
    struct str path; /* without query. If it begins with a backslash, some parsers take it as part of the host */
};

/* Returns false if the text has no scheme or no host. */
bool target_url_split(struct str url, struct target_url *ret);
/* The url of a task; in `text` if it has escapes. Returns false for other targets, too. */
bool target_url_read(const struct task *t, char text[TARGET_URL_MAX], struct target_url *ret);

/* The first TARGET_URL_MAX bytes of a member that is an address; empty: there is none. In `out` if it has escapes. */
struct str target_config_text(struct str config, const char *member, char out[TARGET_URL_MAX]);

/* Host and port in lower case, without the scheme's default port: "api.example.com:8443". Empty for other targets, and
 * if there is none. */
struct str target_host(const struct task *t, char out[TARGET_HOST_MAX]);
struct str target_url_host(const struct target_url *u, char out[TARGET_HOST_MAX]);
/* The name or address in a host that target_host returned: without port and brackets. */
struct str target_host_name(struct str host);
/* Whether it is written as a name: labels of letters, digits, '-' and '_', without a final dot, of which the last is
 * not a number, since that would be an address. */
bool target_is_host_name(struct str s);

/* The bytes by which tables find what a tenant has at a host: the tenant's number, then the host. */
struct host_key {
    char p[sizeof(int32_t) + TARGET_HOST_MAX];
    size_t n;
};
struct host_key host_key_of(int32_t tenant, struct str host); /* an empty host is fine */
static inline struct str host_key_bytes(const struct host_key *k)
{
    return (struct str){ k->p, k->n };
}
