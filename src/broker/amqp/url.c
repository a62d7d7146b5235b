/* Parses addresses of RabbitMQ. Texts are copied with their percent escapes decoded, and end in NUL for librabbitmq. */
#include "broker/amqp/url.h"

#include <stdlib.h>

#include "base/duration.h"
#include "platform/tls_client.h"

static bool rabbit_url_has_scheme(struct str url)
{
    return str_starts(url, S("amqp://")) || str_starts(url, S("amqps://"));
}

static enum err rabbit_url_set_text(char **to, struct str s, const char *what, struct error *e)
{
    char *text = xmalloc(s.n + 1);
    if (!str_percent_decode(s, text, s.n + 1)) {
        free(text);
        return error_field(e, what, "has a broken percent escape");
    }
    free(*to);
    *to = text;
    return ERR_OK;
}

/* name, name:port, [::1]:port */
static enum err rabbit_url_add_host(struct rabbit_url *u, struct str text, struct error *e)
{
    size_t end = text.n && text.p[0] == '[' ? str_find(text, ']', 0) : 0;
    size_t colon = str_find(text, ':', end);
    int64_t port = u->tls ? 5671 : 5672;
    struct str name = str_sub(text, 0, colon);
    if (u->host_count == RABBIT_HOSTS_MAX)
        return error_field(e, "host", "is one too many: %d are allowed", RABBIT_HOSTS_MAX);
    if (colon < text.n && !str_to_i64(str_sub(text, colon + 1, text.n), 1, 65535, &port))
        return error_field(e, "host", "'" STR_FMT "' has no port from 1 to 65535", STR_ARG(text));
    if (end && end < name.n)
        name = str_sub(name, 1, end);
    if (name.n == 0)
        return error_field(e, "host", "is missing: amqp://user:password@host:5672/vhost");
    struct rabbit_host *host = &u->hosts[u->host_count++];
    host->port = (int)port;
    return rabbit_url_set_text(&host->name, name, "host", e);
}

static enum err rabbit_url_read_authority(struct rabbit_url *u, struct str text, struct error *e)
{
    size_t at = text.n;
    while (at > 0 && text.p[at - 1] != '@')
        at--;
    if (at > 0) {
        struct str who = str_sub(text, 0, at - 1);
        size_t colon = str_find(who, ':', 0);
        if (rabbit_url_set_text(&u->user, str_sub(who, 0, colon), "user", e) ||
            rabbit_url_set_text(&u->password, str_sub(who, min_of(colon + 1, who.n), who.n), "password", e))
            return e->code;
    }
    struct str rest = str_sub(text, at, text.n), host;
    if (rest.n == 0)
        return rabbit_url_add_host(u, rest, e);
    while (str_cut(&rest, ',', &host))
        if (rabbit_url_add_host(u, host, e))
            return e->code;
    return ERR_OK;
}

static enum err rabbit_url_read_duration(struct str text, const char *name, int64_t min_ms, int64_t max_ms,
                                         int64_t *ret, struct error *e)
{
    int64_t ms;
    if (duration_parse(text, &ms, e))
        return error_in(e, name);
    if (ms < min_ms || ms > max_ms)
        return error_field(e, name, "must be from %lld to %lld ms", (long long)min_ms, (long long)max_ms);
    *ret = ms;
    return ERR_OK;
}

static enum err rabbit_url_read_choice(struct str text, const char *name, const char *no, const char *yes, bool *ret,
                                       struct error *e)
{
    if (!str_eq(text, str_from(no)) && !str_eq(text, str_from(yes)))
        return error_field(e, name, "must be %s or %s", no, yes);
    *ret = str_eq(text, str_from(yes));
    return ERR_OK;
}

static enum err rabbit_url_read_parameter(struct rabbit_url *u, struct str name, struct str value, struct error *e)
{
    const struct {
        const char *name;
        char **text;
    } texts[] = { { "prefix", &u->prefix },
                  { "cacert", &u->cacert },
                  { "cert", &u->cert },
                  { "key", &u->key },
                  { "tenants", &u->tenants } };
    for (size_t i = 0; i < array_count(texts); i++)
        if (str_eq(name, str_from(texts[i].name)))
            return rabbit_url_set_text(texts[i].text, value, texts[i].name, e);
    if (str_eq(name, S("heartbeat")))
        return rabbit_url_read_duration(value, "heartbeat", 1000, 600000, &u->heartbeat_ms, e);
    if (str_eq(name, S("consumer_timeout")))
        return rabbit_url_read_duration(value, "consumer_timeout", 0, DURATION_MAX_MS, &u->consumer_timeout_ms, e);
    if (str_eq(name, S("queues")))
        return rabbit_url_read_choice(value, "queues", "quorum", "classic", &u->classic, e);
    if (str_eq(name, S("priorities")))
        return rabbit_url_read_choice(value, "priorities", "class", "exact", &u->exact_priorities, e);
    if (str_eq(name, S("auth_mechanism")))
        return rabbit_url_read_choice(value, "auth_mechanism", "plain", "external", &u->by_certificate, e);
    return error_field(e, "url",
                       "'" STR_FMT
                       "' is not a parameter of a RabbitMQ address, only prefix, heartbeat, consumer_timeout, "
                       "queues, tenants, priorities, cacert, cert, key, auth_mechanism",
                       STR_ARG(name));
}

static enum err rabbit_url_read_parameters(struct rabbit_url *u, struct str text, struct error *e)
{
    struct str one;
    while (str_cut(&text, '&', &one)) {
        size_t equals = str_find(one, '=', 0);
        if (rabbit_url_read_parameter(u, str_sub(one, 0, equals), str_sub(one, min_of(equals + 1, one.n), one.n), e))
            return e->code;
    }
    if (strlen(u->prefix) == 0 || strlen(u->prefix) > RABBIT_PREFIX_MAX)
        return error_field(e, "prefix", "must have 1 to %d bytes", RABBIT_PREFIX_MAX);
    if (u->by_certificate && (!u->tls || !u->cert))
        return error_field(e, "auth_mechanism", "external needs amqps:// and a client certificate (cert, key)");
    return ERR_OK;
}

static enum err rabbit_url_read(struct rabbit_url *u, struct str text, struct error *e)
{
    u->tls = str_starts(text, S("amqps://"));
    if (!rabbit_url_has_scheme(text))
        return error_field(e, "url", "must begin with amqp:// or amqps://");
    text = str_sub(text, u->tls ? 8 : 7, text.n);
    size_t question = str_find(text, '?', 0);
    struct str where = str_sub(text, 0, question);
    size_t slash = str_find(where, '/', 0);
    if (rabbit_url_read_authority(u, str_sub(where, 0, slash), e) ||
        (slash + 1 < where.n && rabbit_url_set_text(&u->vhost, str_sub(where, slash + 1, where.n), "vhost", e)))
        return e->code;
    return rabbit_url_read_parameters(u, str_sub(text, min_of(question + 1, text.n), text.n), e);
}

enum err rabbit_url_parse(struct str text, struct rabbit_url *ret, struct error *e)
{
    struct rabbit_url u = { .user = xstrdup("guest"),
                            .password = xstrdup("guest"),
                            .vhost = xstrdup("/"),
                            .prefix = xstrdup("belfry"),
                            .tenants = xstrdup("*"),
                            .cacert = xstrdup("/etc/ssl/certs/ca-certificates.crt"),
                            .heartbeat_ms = 3000,
                            .consumer_timeout_ms = 1800000 };
    struct error own;
    enum err rc = rabbit_url_read(&u, text, e ? e : &own);
    if (rc)
        rabbit_url_release(&u);
    else
        *ret = u;
    return rc;
}

void rabbit_url_release(struct rabbit_url *u)
{
    char *texts[] = { u->user, u->password, u->vhost, u->prefix, u->cacert, u->cert, u->key, u->tenants };
    for (size_t i = 0; i < array_count(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < u->host_count; i++)
        free(u->hosts[i].name);
    *u = (struct rabbit_url){ 0 };
}

bool rabbit_url_separates_tenant(const struct rabbit_url *u, struct str tenant)
{
    struct str rest = str_from(u->tenants), one;
    if (str_eq(rest, S("*")))
        return true;
    while (str_cut(&rest, ',', &one))
        if (str_eq(one, tenant))
            return true;
    return false;
}

enum err rabbit_url_open(struct str text, struct rabbit_url *ret, struct error *e)
{
    struct rabbit_url u;
    if (rabbit_url_parse(text, &u, e))
        return e->code;
    struct tls_client_files files = { .cacert = u.cacert, .cert = u.cert, .key = u.key };
    enum err rc = u.tls ? tls_client_check(&files, e) : ERR_OK;
    if (rc)
        rabbit_url_release(&u);
    else
        *ret = u;
    return rc;
}
