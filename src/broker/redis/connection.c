/* Connects to Redis and reconnects: finds the host that accepts writes among several, by its ROLE, by a Sentinel or
 * by the MOVED errors of a Cluster.
 *
 * An attempt takes at most CONNECT_MS over all hosts. After a failed attempt the next one waits for a backoff that
 * doubles. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/redis/connection.h"

enum {
    CONNECT_MS = 1000,
    HOST_MS = 400, /* for one host, if the address has several */
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 1000,
    HOPS_MAX = 4,      /* redirects from one Cluster node to the next */
    VERSION_MIN = 602, /* 6.2: ZMSCORE, ZRANGE BYSCORE */
};

static struct tls_client_files redis_tls_files(const struct redis_address *a)
{
    return (struct tls_client_files){ .cacert = a->cacert, .cert = a->cert, .key = a->key };
}

enum err redis_conn_init(struct redis_conn *c, const struct redis_setup *setup, struct str script, struct error *e)
{
    *c = (struct redis_conn){ .clock = setup->clock,
                              .address_allowed = setup->address_allowed,
                              .context = setup->context,
                              .script = { .text = script } };
    if (redis_address_read(setup->url, &c->address, e))
        return e->code;
    struct tls_client_files files = redis_tls_files(&c->address);
    if (c->address.tls && tls_client_check(&files, e))
        return e->code;
    buf_init(&c->out, REDIS_COMMAND_MAX);
    buf_init(&c->args, REDIS_COMMAND_MAX);
    return ERR_OK;
}

static void redis_disconnect(struct redis_conn *c)
{
    redis_link_free(take(c->link));
    c->pending_replies = 0;
    c->script.sha[0] = '\0';
    buf_reset(&c->out);
}

void redis_conn_release(struct redis_conn *c)
{
    redis_disconnect(c);
    buf_release(&c->out);
    buf_release(&c->args);
}

void redis_reply_free(redisReply **r)
{
    if (*r)
        freeReplyObject(*r);
}

/* ---- one host ---- */

struct redis_attempt {
    struct redis_conn *c;
    int64_t end_ms;
    struct error *e;
};

static int64_t redis_attempt_left_ms(const struct redis_attempt *a)
{
    int64_t left = a->end_ms - clock_steady_ms(a->c->clock);
    return left < 1 ? 1 : left;
}

static void redis_link_freep(struct redis_link **l)
{
    redis_link_free(*l);
}

static enum err redis_host_failed(const struct redis_attempt *a, const struct redis_host *h, const char *why)
{
    return h->port ? error_set(a->e, ERR_UNAVAILABLE, "Redis at %s:%d: %s", h->name, h->port, why)
                   : error_set(a->e, ERR_UNAVAILABLE, "Redis at %s: %s", h->name, why);
}

static struct redis_link *redis_open_link(const struct redis_attempt *a, const struct redis_host *h)
{
    int64_t ms =
        a->c->address.host_count > 1 ? min_of(redis_attempt_left_ms(a), (int64_t)HOST_MS) : redis_attempt_left_ms(a);
    struct tls_client_files files = redis_tls_files(&a->c->address);
    struct redis_link_setup setup = { .host = h,
                                      .tls = a->c->address.tls ? &files : NULL,
                                      .clock = a->c->clock,
                                      .end_ms = clock_steady_ms(a->c->clock) + ms,
                                      .address_allowed = a->c->address_allowed,
                                      .context = a->c->context };
    char why[REDIS_WHY_MAX] = "out of memory";
    struct redis_link *l = redis_link_open(&setup, why);
    if (!l)
        (void)redis_host_failed(a, h, why);
    else
        redis_link_set_timeout(l, ms);
    return l;
}

/* Sends a command and returns its reply, which may be an error reply. NULL: no reply. */
static redisReply *redis_host_call(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l,
                                   size_t n, const char *const *args)
{
    cleanup_with(buf_release) struct buf command;
    buf_init(&command, REDIS_COMMAND_MAX);
    redis_append_arg_count(&command, n);
    for (size_t i = 0; i < n; i++)
        redis_append_arg(&command, str_from(args[i]));
    redisReply *reply = redis_link_send(l, buf_str(&command)) ? redis_link_receive(l) : NULL;
    if (!reply)
        (void)redis_host_failed(a, h, l->why);
    return reply;
}

/* The same, but an error reply is a failure. */
static enum err redis_host_call_ok(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l,
                                   size_t n, const char *const *args)
{
    cleanup_with(redis_reply_free) redisReply *reply = redis_host_call(a, h, l, n, args);
    if (!reply)
        return ERR_UNAVAILABLE;
    return reply->type == REDIS_REPLY_ERROR ? redis_host_failed(a, h, reply->str) : ERR_OK;
}

static enum err redis_log_in(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l,
                             const char *user, const char *password)
{
    if (!password[0])
        return ERR_OK;
    return user[0] ? redis_host_call_ok(a, h, l, 3, (const char *const[]){ "AUTH", user, password })
                   : redis_host_call_ok(a, h, l, 2, (const char *const[]){ "AUTH", password });
}

/* The value on the line "name:value" of INFO. */
static struct str redis_info_value(struct str info, struct str name)
{
    struct str line;
    while (str_cut(&info, '\n', &line))
        if (str_starts(line, name) && line.n > name.n && line.p[name.n] == ':') {
            struct str value = str_sub(line, name.n + 1, line.n);
            return value.n && value.p[value.n - 1] == '\r' ? str_sub(value, 0, value.n - 1) : value;
        }
    return S("");
}

static enum err redis_read_server_info(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l)
{
    cleanup_with(redis_reply_free) redisReply *reply =
        redis_host_call(a, h, l, 2, (const char *const[]){ "INFO", "server" });
    if (!reply)
        return ERR_UNAVAILABLE;
    if (reply->type == REDIS_REPLY_ERROR)
        return redis_host_failed(a, h, reply->str);
    struct str info = reply_str(reply), run_id = redis_info_value(info, S("run_id")), part;
    struct str version = redis_info_value(info, S("redis_version"));
    int64_t major = 0, minor = 0;
    if (str_cut(&version, '.', &part) && str_to_i64(part, 0, 1000, &major) && str_cut(&version, '.', &part) &&
        str_to_i64(part, 0, 99, &minor) && major * 100 + minor < VERSION_MIN)
        return redis_host_failed(a, h, "it is older than Redis 6.2, which Belfry needs");
    if (run_id.n == 0 || run_id.n >= REDIS_RUN_MAX)
        return redis_host_failed(a, h, "INFO server shows no run_id");
    memcpy(a->c->run_id, run_id.p, run_id.n);
    a->c->run_id[run_id.n] = '\0';
    return ERR_OK;
}

/* Fails if the server is a replica, which cannot be written to. If the ACL forbids ROLE, the server is accepted. */
static enum err redis_check_role(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l)
{
    cleanup_with(redis_reply_free) redisReply *reply = redis_host_call(a, h, l, 1, (const char *const[]){ "ROLE" });
    if (!reply)
        return ERR_UNAVAILABLE;
    if (reply_count(reply) && !str_eq(reply_str(reply->element[0]), S("master")))
        return redis_host_failed(a, h, "it is a replica, and cannot be written to");
    return ERR_OK;
}

/* Parses "MOVED 3999 127.0.0.1:6381". If it has no host, the host is `from`. */
static bool redis_parse_moved(const char *text, const struct redis_host *from, struct redis_host *ret)
{
    struct str rest = str_from(text), word;
    if (!str_starts(rest, S("MOVED ")) || !str_cut(&rest, ' ', &word) || !str_cut(&rest, ' ', &word) ||
        !str_cut(&rest, ' ', &word))
        return false;
    size_t colon = word.n;
    while (colon > 0 && word.p[colon - 1] != ':')
        colon--;
    int64_t port;
    if (colon == 0 || colon > sizeof ret->name || !str_to_i64(str_sub(word, colon, word.n), 1, 65535, &port))
        return false;
    *ret = *from;
    if (colon > 1)
        snprintf(ret->name, sizeof ret->name, "%.*s", (int)colon - 1, word.p);
    ret->port = (int)port;
    return true;
}

/* Checks that the node serves the hash slot of the prefix. If it does not, *ret_next is the node that does. */
static enum err redis_check_slot(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l,
                                 struct redis_host *ret_next)
{
    char key[REDIS_PREFIX_MAX + 8];
    snprintf(key, sizeof key, "{%s}", a->c->address.prefix);
    cleanup_with(redis_reply_free) redisReply *reply =
        redis_host_call(a, h, l, 2, (const char *const[]){ "EXISTS", key });
    if (!reply)
        return ERR_UNAVAILABLE;
    if (reply->type != REDIS_REPLY_ERROR || redis_parse_moved(reply->str, h, ret_next))
        return ERR_OK;
    return redis_host_failed(a, h, reply->str);
}

static enum err redis_handshake(const struct redis_attempt *a, const struct redis_host *h, struct redis_link *l,
                                struct redis_host *ret_next)
{
    const struct redis_address *address = &a->c->address;
    char number[16];
    snprintf(number, sizeof number, "%d", address->database);
    if (redis_log_in(a, h, l, address->user, address->password) ||
        (address->database && redis_host_call_ok(a, h, l, 2, (const char *const[]){ "SELECT", number })) ||
        redis_check_slot(a, h, l, ret_next))
        return a->e->code;
    if (ret_next->name[0])
        return ERR_OK;
    return redis_check_role(a, h, l) || redis_read_server_info(a, h, l) ? a->e->code : ERR_OK;
}

/* Connects to a host and follows MOVED redirects to the Cluster node that serves the prefix. */
static enum err redis_connect_node(const struct redis_attempt *a, const struct redis_host *first)
{
    struct redis_host host = *first;
    for (int hop = 0; hop < HOPS_MAX; hop++) {
        struct redis_host next = { 0 };
        cleanup_with(redis_link_freep) struct redis_link *l = redis_open_link(a, &host);
        if (!l || redis_handshake(a, &host, l, &next))
            return a->e->code;
        if (!next.name[0]) {
            a->c->link = take(l);
            return ERR_OK;
        }
        host = next;
    }
    return redis_host_failed(a, &host, "its Cluster redirects from node to node without end");
}

/* ---- several hosts ---- */

static enum err redis_connect_by_sentinel(const struct redis_attempt *a, const struct redis_host *sentinel)
{
    const struct redis_address *address = &a->c->address;
    struct redis_host master = { 0 };
    int64_t port = 0;
    {
        cleanup_with(redis_link_freep) struct redis_link *l = redis_open_link(a, sentinel);
        if (!l || redis_log_in(a, sentinel, l, "", address->sentinel_password))
            return a->e->code;
        cleanup_with(redis_reply_free) redisReply *reply = redis_host_call(
            a, sentinel, l, 3, (const char *const[]){ "SENTINEL", "get-master-addr-by-name", address->master });
        if (!reply)
            return ERR_UNAVAILABLE;
        if (reply_count(reply) != 2 || !reply_i64(reply->element[1], &port))
            return redis_host_failed(a, sentinel, "this Sentinel does not know the master in the address");
        snprintf(master.name, sizeof master.name, STR_FMT, STR_ARG(reply_str(reply->element[0])));
        master.port = (int)port;
    }
    return redis_connect_node(a, &master);
}

static enum err redis_try_hosts(const struct redis_attempt *a)
{
    struct redis_conn *c = a->c;
    const struct redis_address *address = &c->address;
    if (c->moved_to.name[0]) {
        struct redis_host moved_to = c->moved_to;
        c->moved_to.name[0] = '\0';
        if (redis_connect_node(a, &moved_to) == ERR_OK)
            return ERR_OK;
    }
    for (size_t i = 0; i < address->host_count; i++) {
        const struct redis_host *h = &address->hosts[c->next_host % address->host_count];
        if ((address->master[0] ? redis_connect_by_sentinel(a, h) : redis_connect_node(a, h)) == ERR_OK)
            return ERR_OK;
        c->next_host++;
        if (clock_steady_ms(c->clock) >= a->end_ms)
            break;
    }
    return a->e->code;
}

static enum err redis_connect_any_host(struct redis_conn *c, struct error *e)
{
    struct redis_attempt a = { c, clock_steady_ms(c->clock) + CONNECT_MS, &c->last_error };
    if (redis_try_hosts(&a) == ERR_OK) {
        c->backoff_ms = 0;
        c->connect_count++;
        return ERR_OK;
    }
    c->backoff_ms = min_of(max_of(c->backoff_ms * 2, (int64_t)BACKOFF_MIN_MS), (int64_t)BACKOFF_MAX_MS);
    c->retry_at_ms = clock_steady_ms(c->clock) + c->backoff_ms;
    *e = c->last_error;
    return e->code;
}

enum err redis_connect(struct redis_conn *c, struct error *e)
{
    c->sent = false;
    if (c->link && c->pending_replies == 0 && redis_link_is_idle(c->link)) /* saves a call from failing */
        return ERR_OK;
    redis_disconnect(c);
    if (c->backoff_ms && clock_steady_ms(c->clock) < c->retry_at_ms) {
        *e = c->last_error;
        return e->code;
    }
    return redis_connect_any_host(c, e);
}

/* ---- errors ---- */

enum err redis_drop_connection(struct redis_conn *c, const char *why, struct error *e)
{
    enum err rc = error_set(e, ERR_UNAVAILABLE, "Redis: %s", why);
    redis_disconnect(c);
    return rc;
}

/* Translates an error reply. The errors in the table are temporary and the command was not executed:
 * ERR_UNAVAILABLE. After some of them (`leave`) the server is no longer the right one, and the connection is closed.
 * Any other error is ERR_CORRUPT. */
enum err redis_server_error(struct redis_conn *c, const char *text, struct error *e)
{
    static const struct {
        const char *sign;
        bool leave;
    } pass[] = { { "READONLY", true },    { "UNBLOCKED", true }, { "MASTERDOWN", true }, { "CLUSTERDOWN", true },
                 { "NOAUTH", true },      { "WRONGPASS", true }, { "LOADING", false },   { "TRYAGAIN", false },
                 { "ASK ", false },       { "OOM", false },      { "BUSY", false },      { "MISCONF", false },
                 { "NOREPLICAS", false }, { "NOSCRIPT", false }, { "NOPERM", false },    { REDIS_LATE, false } };
    struct redis_host from = { 0 };
    if (c->link && c->link->host.port)
        from = c->link->host;
    if (redis_parse_moved(text, &from, &c->moved_to))
        return redis_drop_connection(c, text, e);
    for (size_t i = 0; i < array_count(pass); i++)
        if (strstr(text, pass[i].sign))
            return pass[i].leave ? redis_drop_connection(c, text, e) : error_set(e, ERR_UNAVAILABLE, "Redis: %s", text);
    return error_set(e, ERR_CORRUPT, "Redis: %s", text);
}
