/* How a connection is made, and made again: which of several hosts is written to, by its own word, by a Sentinel's or by a Cluster's.
 *
 * An attempt takes CONNECT_MS at most, over all hosts; after one that failed the next is due after a while that grows. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/redis/internal.h"

enum {
    CONNECT_MS = 1000,
    HOST_MS = 400, /* for one of several */
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 1000,
    HOPS_MAX = 4, /* from one node of a Cluster to the next */
    WORDS_MAX = 4,
    VERSION_MIN = 602, /* 6.2: ZMSCORE, ZRANGE BYSCORE */
};

enum err redis_conn_init(struct redis_conn *c, const struct redis_setup *setup, struct str script, struct error *e)
{
    *c = (struct redis_conn){
        .clock = setup->clock, .judge = setup->judge, .context = setup->context, .script = { .text = script }
    };
    if (redis_address_read(setup->url, &c->address, e))
        return e->code;
    buf_init(&c->out, REDIS_COMMAND_MAX);
    buf_init(&c->words, REDIS_COMMAND_MAX);
    return ERR_OK;
}

static void disconnect(struct redis_conn *c)
{
    if (c->redis)
        redisFree(c->redis);
    c->redis = NULL;
    c->asked = 0;
    c->script.sha[0] = '\0';
    buf_reset(&c->out);
}

void redis_conn_release(struct redis_conn *c)
{
    disconnect(c);
    buf_release(&c->out);
    buf_release(&c->words);
}

void redis_reply_free(redisReply **r)
{
    if (*r)
        freeReplyObject(*r);
}

/* ---- one host ---- */

struct attempt {
    struct redis_conn *c;
    int64_t end_ms;
    struct error *e;
};

static int64_t left_ms(const struct attempt *a)
{
    int64_t left = a->end_ms - clock_steady_ms(a->c->clock);
    return left < 1 ? 1 : left;
}

static void freep(redisContext **r)
{
    if (*r)
        redisFree(*r);
}

static enum err unreachable(const struct attempt *a, const struct redis_host *h, const char *why)
{
    return h->port ? error_set(a->e, ERR_UNAVAILABLE, "Redis at %s:%d: %s", h->name, h->port, why)
                   : error_set(a->e, ERR_UNAVAILABLE, "Redis at %s: %s", h->name, why);
}

const char *redis_reason(const redisContext *r)
{
    return r->err == REDIS_ERR_IO && errno == EAGAIN ? "no answer in time" : r->errstr;
}

static redisContext *dial(const struct attempt *a, const struct redis_host *h)
{
    int64_t ms = a->c->address.host_count > 1 ? min_of(left_ms(a), (int64_t)HOST_MS) : left_ms(a);
    struct timeval limit = { ms / 1000, ms % 1000 * 1000 };
    redisContext *r =
        h->port ? redisConnectWithTimeout(h->name, h->port, limit) : redisConnectUnixWithTimeout(h->name, limit);
    if (!r || r->err) {
        (void)unreachable(a, h, r ? redis_reason(r) : "out of memory");
        freep(&r);
        return NULL;
    }
    if (a->c->judge && !a->c->judge(a->c->context, r->fd)) {
        (void)unreachable(a, h, "address is not allowed");
        freep(&r);
        return NULL;
    }
    (void)redisSetTimeout(r, limit);
    if (h->port)
        (void)redisEnableKeepAlive(r);
    return r;
}

/* The answer to a few words, which may be an error of Redis's; NULL: there is none. */
static redisReply *ask(const struct attempt *a, const struct redis_host *h, redisContext *r, size_t n,
                       const char *const *words)
{
    size_t lengths[WORDS_MAX];
    const char *copy[WORDS_MAX];
    for (size_t i = 0; i < n; i++) {
        copy[i] = words[i];
        lengths[i] = strlen(words[i]);
    }
    redisReply *reply = redisCommandArgv(r, (int)n, copy, lengths);
    if (!reply)
        (void)unreachable(a, h, r->err ? redis_reason(r) : "no answer");
    return reply;
}

/* The same where an error is a failure. */
static enum err tell(const struct attempt *a, const struct redis_host *h, redisContext *r, size_t n,
                     const char *const *words)
{
    cleanup_with(redis_reply_free) redisReply *reply = ask(a, h, r, n, words);
    if (!reply)
        return ERR_UNAVAILABLE;
    return reply->type == REDIS_REPLY_ERROR ? unreachable(a, h, reply->str) : ERR_OK;
}

static enum err log_in(const struct attempt *a, const struct redis_host *h, redisContext *r, const char *user,
                       const char *password)
{
    if (!password[0])
        return ERR_OK;
    return user[0] ? tell(a, h, r, 3, (const char *const[]){ "AUTH", user, password })
                   : tell(a, h, r, 2, (const char *const[]){ "AUTH", password });
}

/* "name:value" on a line of INFO. */
static struct str info_value(struct str info, struct str name)
{
    struct str line;
    while (str_cut(&info, '\n', &line))
        if (str_starts(line, name) && line.n > name.n && line.p[name.n] == ':') {
            struct str value = str_sub(line, name.n + 1, line.n);
            return value.n && value.p[value.n - 1] == '\r' ? str_sub(value, 0, value.n - 1) : value;
        }
    return S("");
}

static enum err read_server(const struct attempt *a, const struct redis_host *h, redisContext *r)
{
    cleanup_with(redis_reply_free) redisReply *reply = ask(a, h, r, 2, (const char *const[]){ "INFO", "server" });
    if (!reply)
        return ERR_UNAVAILABLE;
    if (reply->type == REDIS_REPLY_ERROR)
        return unreachable(a, h, reply->str);
    struct str info = reply_str(reply), run = info_value(info, S("run_id")), part;
    struct str version = info_value(info, S("redis_version"));
    int64_t major = 0, minor = 0;
    if (str_cut(&version, '.', &part) && str_to_i64(part, 0, 1000, &major) && str_cut(&version, '.', &part) &&
        str_to_i64(part, 0, 99, &minor) && major * 100 + minor < VERSION_MIN)
        return unreachable(a, h, "it is older than Redis 6.2, which Belfry needs");
    if (run.n == 0 || run.n >= REDIS_RUN_MAX)
        return unreachable(a, h, "it does not tell its run id (INFO server)");
    memcpy(a->c->run, run.p, run.n);
    a->c->run[run.n] = '\0';
    return ERR_OK;
}

/* Only who is not a replica is written to. Who must not ask is not told. */
static enum err check_role(const struct attempt *a, const struct redis_host *h, redisContext *r)
{
    cleanup_with(redis_reply_free) redisReply *reply = ask(a, h, r, 1, (const char *const[]){ "ROLE" });
    if (!reply)
        return ERR_UNAVAILABLE;
    if (reply_count(reply) && !str_eq(reply_str(reply->element[0]), S("master")))
        return unreachable(a, h, "it is a replica, and cannot be written to");
    return ERR_OK;
}

/* "MOVED 3999 127.0.0.1:6381"; where no host is named, it is the same one. */
static bool read_moved(const char *text, const struct redis_host *from, struct redis_host *ret)
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

/* Whether our keys are there. *ret_next: where else, if they are not. */
static enum err probe(const struct attempt *a, const struct redis_host *h, redisContext *r, struct redis_host *ret_next)
{
    char key[REDIS_PREFIX_MAX + 8];
    snprintf(key, sizeof key, "{%s}", a->c->address.prefix);
    cleanup_with(redis_reply_free) redisReply *reply = ask(a, h, r, 2, (const char *const[]){ "EXISTS", key });
    if (!reply)
        return ERR_UNAVAILABLE;
    if (reply->type != REDIS_REPLY_ERROR || read_moved(reply->str, h, ret_next))
        return ERR_OK;
    return unreachable(a, h, reply->str);
}

static enum err greet(const struct attempt *a, const struct redis_host *h, redisContext *r, struct redis_host *ret_next)
{
    const struct redis_address *address = &a->c->address;
    char number[16];
    snprintf(number, sizeof number, "%d", address->database);
    if (log_in(a, h, r, address->user, address->password) ||
        (address->database && tell(a, h, r, 2, (const char *const[]){ "SELECT", number })) || probe(a, h, r, ret_next))
        return a->e->code;
    if (ret_next->name[0])
        return ERR_OK;
    return check_role(a, h, r) || read_server(a, h, r) ? a->e->code : ERR_OK;
}

/* From there on, to where our keys are. */
static enum err settle_at(const struct attempt *a, const struct redis_host *first)
{
    struct redis_host host = *first;
    for (int hop = 0; hop < HOPS_MAX; hop++) {
        struct redis_host next = { 0 };
        cleanup_with(freep) redisContext *r = dial(a, &host);
        if (!r || greet(a, &host, r, &next))
            return a->e->code;
        if (!next.name[0]) {
            a->c->redis = take(r);
            return ERR_OK;
        }
        host = next;
    }
    return unreachable(a, &host, "its Cluster sends us from node to node");
}

/* ---- several hosts ---- */

static enum err by_sentinel(const struct attempt *a, const struct redis_host *sentinel)
{
    const struct redis_address *address = &a->c->address;
    struct redis_host master = { 0 };
    int64_t port = 0;
    {
        cleanup_with(freep) redisContext *r = dial(a, sentinel);
        if (!r || log_in(a, sentinel, r, "", address->sentinel_password))
            return a->e->code;
        cleanup_with(redis_reply_free) redisReply *reply =
            ask(a, sentinel, r, 3, (const char *const[]){ "SENTINEL", "get-master-addr-by-name", address->master });
        if (!reply)
            return ERR_UNAVAILABLE;
        if (reply_count(reply) != 2 || !reply_i64(reply->element[1], &port))
            return unreachable(a, sentinel, "this Sentinel knows no master of that name");
        snprintf(master.name, sizeof master.name, STR_FMT, STR_ARG(reply_str(reply->element[0])));
        master.port = (int)port;
    }
    return settle_at(a, &master);
}

static enum err try_hosts(const struct attempt *a)
{
    struct redis_conn *c = a->c;
    const struct redis_address *address = &c->address;
    if (c->moved.name[0]) {
        struct redis_host moved = c->moved;
        c->moved.name[0] = '\0';
        if (settle_at(a, &moved) == ERR_OK)
            return ERR_OK;
    }
    for (size_t i = 0; i < address->host_count; i++) {
        const struct redis_host *h = &address->hosts[c->next_host % address->host_count];
        if ((address->master[0] ? by_sentinel(a, h) : settle_at(a, h)) == ERR_OK)
            return ERR_OK;
        c->next_host++;
        if (clock_steady_ms(c->clock) >= a->end_ms)
            break;
    }
    return a->e->code;
}

static enum err connect_now(struct redis_conn *c, struct error *e)
{
    struct attempt a = { c, clock_steady_ms(c->clock) + CONNECT_MS, &c->why };
    if (try_hosts(&a) == ERR_OK) {
        c->backoff_ms = 0;
        c->connected++;
        return ERR_OK;
    }
    c->backoff_ms = min_of(max_of(c->backoff_ms * 2, (int64_t)BACKOFF_MIN_MS), (int64_t)BACKOFF_MAX_MS);
    c->retry_at_ms = clock_steady_ms(c->clock) + c->backoff_ms;
    *e = c->why;
    return e->code;
}

/* Nothing was asked, so nothing is to be read: else the server has hung up since, and a call need not fail to find that out. */
static bool is_there(const struct redis_conn *c)
{
    struct pollfd p = { .fd = c->redis->fd, .events = POLLIN };
    return c->asked == 0 && poll(&p, 1, 0) == 0;
}

enum err redis_ready(struct redis_conn *c, struct error *e)
{
    c->sent = false;
    if (c->redis && is_there(c))
        return ERR_OK;
    disconnect(c);
    if (c->backoff_ms && clock_steady_ms(c->clock) < c->retry_at_ms) {
        *e = c->why;
        return e->code;
    }
    return connect_now(c, e);
}

/* ---- what went wrong ---- */

enum err redis_lose(struct redis_conn *c, const char *why, struct error *e)
{
    enum err rc = error_set(e, ERR_UNAVAILABLE, "Redis: %s", why);
    disconnect(c);
    return rc;
}

/* What an error of Redis's means for us. Of those that pass nothing was done; after some of them it is no longer who we want. */
enum err redis_meaning(struct redis_conn *c, const char *text, struct error *e)
{
    static const struct {
        const char *sign;
        bool leave;
    } pass[] = { { "READONLY", true },    { "UNBLOCKED", true }, { "MASTERDOWN", true }, { "CLUSTERDOWN", true },
                 { "NOAUTH", true },      { "WRONGPASS", true }, { "LOADING", false },   { "TRYAGAIN", false },
                 { "ASK ", false },       { "OOM", false },      { "BUSY", false },      { "MISCONF", false },
                 { "NOREPLICAS", false }, { "NOSCRIPT", false }, { "NOPERM", false } };
    struct redis_host from = { 0 };
    if (c->redis && c->redis->tcp.host)
        snprintf(from.name, sizeof from.name, "%s", c->redis->tcp.host);
    if (read_moved(text, &from, &c->moved))
        return redis_lose(c, text, e);
    for (size_t i = 0; i < array_count(pass); i++)
        if (strstr(text, pass[i].sign))
            return pass[i].leave ? redis_lose(c, text, e) : error_set(e, ERR_UNAVAILABLE, "Redis: %s", text);
    return error_set(e, ERR_CORRUPT, "Redis: %s", text);
}
