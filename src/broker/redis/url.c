/* broker/redis/redis.h describes the addresses. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/redis/url.h"

enum { REDIS_PORT = 6379, SENTINEL_PORT = 26379, DATABASE_MAX = 1 << 20 };

static bool redis_url_has_scheme(struct str url)
{
    return str_starts(url, S("redis://")) || str_starts(url, S("redis+unix://")) ||
           str_starts(url, S("redis+sentinel://")) || str_starts(url, S("rediss://")) ||
           str_starts(url, S("rediss+sentinel://"));
}

static enum err redis_url_invalid(struct error *e, const char *what)
{
    return error_set(e, ERR_INVALID, "is not a Redis address: %s", what);
}

static enum err redis_url_read_login(struct redis_address *a, struct str login, struct error *e)
{
    size_t colon = str_find(login, ':', 0);
    struct str user = str_sub(login, 0, colon), password = { 0 };
    if (colon < login.n)
        password = str_sub(login, colon + 1, login.n);
    if (!str_percent_decode(user, a->user, sizeof a->user) ||
        !str_percent_decode(password, a->password, sizeof a->password))
        return redis_url_invalid(e, "its user or password is too long or escaped wrongly (%40 is an @)");
    return ERR_OK;
}

/* host, host:port, [v6], [v6]:port */
static enum err redis_url_read_host(struct str text, int port, struct redis_host *ret, struct error *e)
{
    size_t end = text.n && text.p[0] == '[' ? str_find(text, ']', 0) : 0;
    struct str name = end ? str_sub(text, 1, end) : str_sub(text, 0, str_find(text, ':', 0));
    struct str rest = str_sub(text, end ? min_of(end + 1, text.n) : name.n, text.n);
    int64_t number = port;
    if (rest.n && (rest.p[0] != ':' || !str_to_i64(str_sub(rest, 1, rest.n), 1, 65535, &number)))
        return redis_url_invalid(e, "a port is a number from 1 to 65535");
    if (name.n == 0 || !str_percent_decode(name, ret->name, sizeof ret->name))
        return redis_url_invalid(e, "a host is missing or too long");
    ret->port = (int)number;
    return ERR_OK;
}

static enum err redis_url_read_hosts(struct redis_address *a, struct str hosts, int port, struct error *e)
{
    struct str host;
    while (str_cut(&hosts, ',', &host)) {
        if (a->host_count == REDIS_HOSTS_MAX)
            return redis_url_invalid(e, "it names more than 16 hosts");
        if (redis_url_read_host(host, port, &a->hosts[a->host_count++], e))
            return e->code;
    }
    return a->host_count ? ERR_OK : redis_url_invalid(e, "it names no host");
}

static enum err redis_url_read_database(struct redis_address *a, struct str text, struct error *e)
{
    int64_t number = 0;
    if (text.n && !str_to_i64(text, 0, DATABASE_MAX, &number))
        return redis_url_invalid(e, "a database is a number, as in redis://host/0");
    a->database = (int)number;
    return ERR_OK;
}

static bool redis_url_is_prefix(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-");
    return n > 0 && s[n] == '\0';
}

static enum err redis_url_read_parameter(struct redis_address *a, struct str name, struct str value, struct error *e)
{
    if (str_eq(name, S("prefix")))
        return str_percent_decode(value, a->prefix, sizeof a->prefix) && redis_url_is_prefix(a->prefix)
                   ? ERR_OK
                   : redis_url_invalid(e, "a prefix is up to 63 letters, digits and . _ : -");
    if (str_eq(name, S("database")))
        return redis_url_read_database(a, value, e);
    const struct {
        const char *name;
        char *file;
    } files[] = { { "cacert", a->cacert }, { "cert", a->cert }, { "key", a->key } };
    for (size_t i = 0; a->tls && i < array_count(files); i++)
        if (str_eq(name, str_from(files[i].name)))
            return str_percent_decode(value, files[i].file, REDIS_FILE_MAX)
                       ? ERR_OK
                       : redis_url_invalid(e, "the path of a certificate is too long or escaped wrongly");
    if (str_eq(name, S("sentinel_password")))
        return str_percent_decode(value, a->sentinel_password, sizeof a->sentinel_password)
                   ? ERR_OK
                   : redis_url_invalid(e, "its sentinel_password is too long or escaped wrongly");
    return error_set(e, ERR_INVALID,
                     "is not a Redis address: there is no parameter '" STR_FMT
                     "', only prefix, database, sentinel_password and, for rediss://, cacert, cert, key",
                     STR_ARG(name));
}

static enum err redis_url_read_query(struct redis_address *a, struct str query, struct error *e)
{
    struct str part;
    while (str_cut(&query, '&', &part)) {
        size_t eq = str_find(part, '=', 0);
        if (redis_url_read_parameter(a, str_sub(part, 0, eq), str_sub(part, min_of(eq + 1, part.n), part.n), e))
            return e->code;
    }
    return ERR_OK;
}

static enum err redis_url_read_socket(struct redis_address *a, struct str path, struct error *e)
{
    if (path.n == 0 || path.p[0] != '/' || !str_percent_decode(path, a->hosts[0].name, sizeof a->hosts[0].name))
        return redis_url_invalid(e, "a socket is named by its whole path, as in redis+unix:///run/redis.sock");
    a->host_count = 1;
    return ERR_OK;
}

/* hosts/database, or hosts/master/database: the part behind the scheme and the login, without the query. */
static enum err redis_url_read_place(struct redis_address *a, struct str rest, bool sentinel, struct error *e)
{
    size_t slash = str_find(rest, '/', 0);
    struct str path = str_sub(rest, min_of(slash + 1, rest.n), rest.n);
    if (redis_url_read_hosts(a, str_sub(rest, 0, slash), sentinel ? SENTINEL_PORT : REDIS_PORT, e))
        return e->code;
    if (sentinel) {
        size_t end = str_find(path, '/', 0);
        if (end == 0 || !str_percent_decode(str_sub(path, 0, end), a->master, sizeof a->master))
            return redis_url_invalid(e,
                                     "the name of the master is missing, as in redis+sentinel://host:26379/mymaster");
        path = str_sub(path, min_of(end + 1, path.n), path.n);
    }
    return redis_url_read_database(a, path, e);
}

/* The last '@' ends the login, so a '@' in a password need not be escaped. */
static size_t redis_url_login_end(struct str rest)
{
    size_t end = rest.n;
    for (size_t i = 0; i < rest.n && rest.p[i] != '?'; i++)
        if (rest.p[i] == '@')
            end = i;
    return end;
}

enum err redis_address_read(struct str url, struct redis_address *ret, struct error *e)
{
    struct redis_address a = { .prefix = "belfry" };
    if (!redis_url_has_scheme(url))
        return redis_url_invalid(
            e, "it must begin with redis://, rediss://, redis+unix://, redis+sentinel:// or rediss+sentinel://");
    struct str scheme = str_sub(url, 0, str_find(url, ':', 0));
    bool sentinel = str_find(scheme, '+', 0) < scheme.n && !str_eq(scheme, S("redis+unix"));
    bool socket = str_eq(scheme, S("redis+unix"));
    a.tls = str_starts(scheme, S("rediss"));
    struct str rest = str_sub(url, str_find(url, ':', 0) + 3, url.n);
    size_t at = socket ? rest.n : redis_url_login_end(rest);
    if (at < rest.n) {
        if (redis_url_read_login(&a, str_sub(rest, 0, at), e))
            return e->code;
        rest = str_sub(rest, at + 1, rest.n);
    }
    size_t question = str_find(rest, '?', 0);
    struct str query = str_sub(rest, min_of(question + 1, rest.n), rest.n);
    rest = str_sub(rest, 0, question);
    if (socket ? redis_url_read_socket(&a, rest, e) : redis_url_read_place(&a, rest, sentinel, e))
        return e->code;
    if (redis_url_read_query(&a, query, e))
        return e->code;
    *ret = a;
    return ERR_OK;
}
