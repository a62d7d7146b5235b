#include "core/target/message_target.h"

static const struct {
    const char *scheme;
    enum message_target_broker kind;
    bool many; /* accepts several hosts */
} schemes[] = {
    { "redis://", MESSAGE_TARGET_REDIS, false }, { "rediss://", MESSAGE_TARGET_REDIS, false },
    { "amqp://", MESSAGE_TARGET_AMQP, false },   { "amqps://", MESSAGE_TARGET_AMQP, false },
    { "kafka://", MESSAGE_TARGET_KAFKA, true },
};

/* Returns the index of the scheme, or the table's length if the address has none of them. */
static size_t message_target_scheme(struct str broker)
{
    size_t i = 0;
    while (i < array_count(schemes) && !str_starts(broker, str_from(schemes[i].scheme)))
        i++;
    return i;
}

enum message_target_broker message_target_broker_of(struct str broker)
{
    size_t i = message_target_scheme(broker);
    return i < array_count(schemes) ? schemes[i].kind : MESSAGE_TARGET_NAMED;
}

/* Returns "host:port,host:port"; *ret_path is the text after the slash. */
static struct str message_target_hosts(struct str broker, struct str *ret_path)
{
    size_t from = strlen(schemes[message_target_scheme(broker)].scheme), to = str_find(broker, '/', from);
    *ret_path = str_sub(broker, min_of(to + 1, broker.n), broker.n);
    return str_sub(broker, from, to);
}

static size_t message_target_host_end(struct str host)
{
    size_t bracket = host.n && host.p[0] == '[' ? str_find(host, ']', 0) : 0;
    return bracket ? bracket + 1 : str_find(host, ':', 0);
}

bool message_target_next_host(struct str broker, struct str *rest, struct str *ret_host)
{
    struct str path, host;
    if (!rest->p)
        *rest = message_target_hosts(broker, &path);
    if (!str_cut(rest, ',', &host))
        return false;
    host = str_sub(host, 0, message_target_host_end(host));
    *ret_host = host.n > 2 && host.p[0] == '[' ? str_sub(host, 1, host.n - 1) : host;
    return true;
}

/* ---- checks ---- */

bool message_target_is_name(struct str broker)
{
    return broker.n <= MESSAGE_TARGET_NAME_MAX && str_is_plain(broker, "-_");
}

static enum err message_target_check_host(struct str host, struct error *e)
{
    int64_t port;
    size_t end = message_target_host_end(host);
    bool v6 = host.n && host.p[0] == '[';
    if (end > host.n || end > MESSAGE_TARGET_HOST_MAX || !str_is_plain(str_sub(host, v6, end - v6), v6 ? ":." : "-._"))
        return error_field(e, "broker", "has no valid host name");
    if (end < host.n && (host.p[end] != ':' || !str_to_i64(str_sub(host, end + 1, host.n), 1, 65535, &port)))
        return error_field(e, "broker", "has a port that is not between 1 and 65535");
    return ERR_OK;
}

static enum err message_target_check_address(struct str broker, struct error *e)
{
    const char *forbidden = "@?#%\\\"<>";
    for (size_t i = 0; i < broker.n; i++) {
        if (broker.p[i] == '@')
            return error_field(e, "broker", "must not hold a user or password; have it set up as brokers.NAME");
        if (broker.p[i] == '?')
            return error_field(e, "broker", "must not hold parameters; have it set up as brokers.NAME");
        if (broker.p[i] <= ' ' || broker.p[i] > '~' || strchr(forbidden, broker.p[i]))
            return error_field(e, "broker", "holds a character that is not allowed in an address (at position %zu)",
                               i + 1);
    }
    struct str path, rest = message_target_hosts(broker, &path), host;
    size_t n = 0;
    if (rest.n == 0)
        return error_field(e, "broker", "has no host");
    while (str_cut(&rest, ',', &host)) {
        if (message_target_check_host(host, e))
            return ERR_INVALID;
        n++;
    }
    if (n > (schemes[message_target_scheme(broker)].many ? MESSAGE_TARGET_HOSTS_MAX : 1))
        return error_field(e, "broker", "has too many hosts");
    if (path.n && message_target_broker_of(broker) == MESSAGE_TARGET_KAFKA)
        return error_field(e, "broker", "must have no path: kafka:// takes hosts only");
    return ERR_OK;
}

static enum err message_target_check_broker(struct message_target *l, struct error *e)
{
    l->kind = message_target_broker_of(l->broker);
    if (l->kind != MESSAGE_TARGET_NAMED)
        return message_target_check_address(l->broker, e);
    if (str_find(l->broker, ':', 0) < l->broker.n)
        return error_field(e, "broker",
                           "must be a name, or begin with redis://, rediss://, amqp://, amqps:// or kafka://");
    if (!message_target_is_name(l->broker))
        return error_field(e, "broker",
                           "must be a name of 1 to %d letters, digits, dashes and underscores, or an address",
                           MESSAGE_TARGET_NAME_MAX);
    return ERR_OK;
}

static enum err message_target_check_text(struct str s, const char *field, struct error *e)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7F)
            return error_field(e, field, "must not hold control characters (at position %zu)", i + 1);
    return ERR_OK;
}

/* ---- reading ---- */

struct message_target_config {
    struct str broker, destination, key;
    json_t *headers, *body;
    bool has_body;
    int64_t timeout_ms;
};

#define AT(member) .offset = offsetof(struct message_target_config, member)
/* clang-format off */
static const struct json_field fields[] = {
    { .name = "broker", .kind = JSON_KIND_STR, AT(broker), .min = 1, .max = MESSAGE_TARGET_BROKER_MAX, .required = true },
    { .name = "destination", .kind = JSON_KIND_STR, AT(destination), .min = 1, .max = MESSAGE_TARGET_DESTINATION_MAX, .required = true },
    { .name = "key", .kind = JSON_KIND_STR, AT(key), .min = 0, .max = MESSAGE_TARGET_KEY_MAX, .nullable = true },
    { .name = "headers", .kind = JSON_KIND_RAW, AT(headers), .nullable = true },
    { .name = "body", .kind = JSON_KIND_RAW, AT(body), .seen_offset = offsetof(struct message_target_config, has_body), .nullable = true },
    { .name = "timeout_ms", .kind = JSON_KIND_I64, AT(timeout_ms), .min = 1, .max = DAY_MS, .nullable = true },
};
/* clang-format on */

static enum err message_target_read_config(json_t *config, struct arena *a, struct message_target_config *c,
                                           struct message_target *l, struct error *e)
{
    if (json_read(config, fields, array_count(fields), c, a, e))
        return e->code;
    *l = (struct message_target){ .broker = c->broker,
                                  .destination = c->destination,
                                  .key = c->key,
                                  .content = { .method = METHOD_POST, .timeout_ms = c->timeout_ms } };
    if (message_target_check_broker(l, e) || message_target_check_text(l->destination, "destination", e) ||
        message_target_check_text(l->key, "key", e))
        return e->code;
    return webhook_headers_read(c->headers, a, &l->content, e);
}

enum err message_target_check(json_t *config, struct arena *a, struct message_target *ret, struct error *e)
{
    struct error own; /* so that e may be NULL */
    struct message_target_config c = { 0 };
    return message_target_read_config(config, a, &c, ret, e ? e : &own);
}

enum err message_target_read(const struct task *t, struct arena *a, struct message_target *ret, struct error *e)
{
    struct error own;
    e = e ? e : &own;
    cleanup_with(json_doc_release) struct json_doc doc = { 0 };
    if (json_parse(t->target_config.n ? t->target_config : S("{}"), &doc, e))
        return e->code;
    struct message_target_config c = { 0 };
    struct message_target l;
    if (message_target_read_config(doc.root, a, &c, &l, e) ||
        webhook_body_read(t, c.body, c.has_body, &doc, a, &l.content, e))
        return e->code;
    *ret = l;
    return ERR_OK;
}
