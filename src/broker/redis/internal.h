#pragma once
/* broker/redis/internal.h - a connection to Redis, for the adapters that use one.
 *
 * It is made when it is first needed and again when it broke, by the call that needs it; while that fails, calls fail at once until the
 * next attempt is due. Every wait has an end. */
#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "broker/redis/redis.h"

enum {
    REDIS_HOSTS_MAX = 16,
    REDIS_HOST_MAX = 256,
    REDIS_TEXT_MAX = 256, /* a user's name, a password, a master's name */
    REDIS_PREFIX_MAX = 64,
    REDIS_RUN_MAX = 48, /* a server's run id */
    REDIS_SHA = 40,
    REDIS_COMMAND_MAX = 256 << 20,
};

struct redis_host {
    char name[REDIS_HOST_MAX]; /* or a socket's path */
    int port;                  /* 0: it is a socket */
};

struct redis_address {
    struct redis_host hosts[REDIS_HOSTS_MAX];
    size_t host_count;
    char user[REDIS_TEXT_MAX], password[REDIS_TEXT_MAX], sentinel_password[REDIS_TEXT_MAX];
    char master[REDIS_TEXT_MAX]; /* empty: the hosts are not Sentinels */
    int database;
    char prefix[REDIS_PREFIX_MAX]; /* what all keys begin with, in braces: one hash slot */
};

/* Of those that travel in the binary. */
struct str redis_script_text(const char *name);

enum err redis_address_read(struct str url, struct redis_address *ret, struct error *e) must_use;

struct redis_script {
    struct str text;
    char sha[REDIS_SHA + 1]; /* empty: this connection has not loaded it */
};

struct redis_conn {
    struct redis_address address;
    struct clock *clock;
    bool (*judge)(void *context, int fd); /* the setup's, like the next */
    void *context;
    redisContext *redis;     /* NULL: not connected */
    struct redis_host moved; /* what a node of a Cluster pointed to; empty name: nobody did */
    size_t next_host;
    int64_t retry_at_ms, backoff_ms; /* by the steady clock */
    struct error why;                /* the last attempt failed */
    char run[REDIS_RUN_MAX];         /* the server's run id: another one after a restart or a failover */
    uint64_t connected; /* how often: who keeps something for a connection asks whether it still is that one */
    struct buf words;   /* of the command that was begun */
    size_t word_count;
    struct buf out; /* commands that are not sent yet */
    size_t asked;   /* answers that are still to come */
    bool sent;      /* of the current call: something may have reached the server */
    struct redis_script script;
};

enum err redis_conn_init(struct redis_conn *c, const struct redis_setup *setup, struct str script,
                         struct error *e) must_use;
void redis_conn_release(struct redis_conn *c);

/* Before a call: connected, or ERR_UNAVAILABLE. */
enum err redis_ready(struct redis_conn *c, struct error *e) must_use;

/* A command is begun, its words are added, and it is put behind those that go out with the first answer that is asked for. */
void redis_begin(struct redis_conn *c);
void redis_word(struct redis_conn *c, struct str word);
void redis_text(struct redis_conn *c, const char *word);
void redis_i64(struct redis_conn *c, int64_t word);
void redis_key(struct redis_conn *c, const char *suffix); /* {prefix}suffix */
void redis_end(struct redis_conn *c);

/* The next answer, which is no error; the caller frees it. wait_ms: how long the server was asked to wait. After a failure the connection
 * is either as it was, with no answer outstanding, or gone. */
enum err redis_answer(struct redis_conn *c, int64_t wait_ms, redisReply **ret, struct error *e) must_use;
void redis_reply_free(redisReply **r); /* for cleanup_with */

/* Begun and its words added, a call of the script on the key {prefix}suffix, and its answer. The script is loaded where it is missing. */
enum err redis_run(struct redis_conn *c, const char *suffix, redisReply **ret, struct error *e) must_use;

/* For those above: the connection is of no use any more; what an error of Redis's means. */
enum err redis_lose(struct redis_conn *c, const char *why, struct error *e);

/* Why the last call of hiredis failed, to be asked before anything else sets errno. */
const char *redis_reason(const redisContext *r);
enum err redis_meaning(struct redis_conn *c, const char *text, struct error *e);

/* What the server said is not what was asked for. */
enum err redis_strange(struct error *e, const char *where);

/* What it says, if it is a text; a number, be it one or its digits. */
struct str reply_str(const redisReply *r);
bool reply_i64(const redisReply *r, int64_t *ret);
static inline size_t reply_count(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
}
