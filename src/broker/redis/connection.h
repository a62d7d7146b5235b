#pragma once
/* broker/redis/connection.h - a connection to Redis, for the adapters that use one.
 *
 * The call that needs the connection opens it, and opens it again after it broke. If connecting fails, calls fail at
 * once with the same error until the backoff is over. Every wait has a timeout. A connection is used by one thread
 * at a time. */
#include "base/buf.h"
#include "broker/redis/link.h"
#include "broker/redis/redis.h"
#include "broker/redis/url.h"

enum {
    REDIS_RUN_MAX = 48, /* a server's run id */
    REDIS_SHA = 40,
    REDIS_COMMAND_MAX = 256 << 20,
    REDIS_ANSWER_MS = 1500, /* for the reply to a command that does not block */
};

/* The error of a script that was called after its deadline, and has done nothing. */
#define REDIS_LATE "LATE "

/* The text of a Lua script that is embedded in the binary. */
struct str redis_script_text(const char *name);

struct redis_script {
    struct str text;
    char sha[REDIS_SHA + 1]; /* empty: not loaded on this connection */
};

struct redis_conn {
    struct redis_address address;
    struct clock *clock;
    bool (*address_allowed)(void *context, const struct sockaddr *to); /* from redis_setup, like context */
    void *context;
    struct redis_link *link;    /* NULL: not connected */
    struct redis_host moved_to; /* the target of a MOVED error; empty name: none */
    size_t next_host;
    int64_t retry_at_ms, backoff_ms; /* by the steady clock */
    struct error last_error;         /* why the last attempt to connect failed */
    char run_id[REDIS_RUN_MAX];      /* the server's run id; changes with a restart or a failover */
    /* number of connects: a user of the connection compares it to see whether its state is from this connection */
    uint64_t connect_count;
    struct buf args; /* arguments of the command that was begun, encoded */
    size_t arg_count;
    struct buf out;         /* commands that are not sent yet, encoded */
    size_t pending_replies; /* replies that the server still owes */
    bool sent;              /* in the current call: a command may have reached the server */
    struct redis_script script;
};

enum err redis_conn_init(struct redis_conn *c, const struct redis_setup *setup, struct str script,
                         struct error *e) must_use;
void redis_conn_release(struct redis_conn *c);

/* Called first by every call: returns ERR_OK if the connection is open, connects if it is not. ERR_UNAVAILABLE: not
 * connected. */
enum err redis_connect(struct redis_conn *c, struct error *e) must_use;

/* A command is begun, its arguments are added, and it is ended. Ended commands are sent together, when the first
 * reply is asked for (a pipeline). */
void redis_command_begin(struct redis_conn *c);
void redis_arg_str(struct redis_conn *c, struct str word);
void redis_arg_text(struct redis_conn *c, const char *word);
void redis_arg_i64(struct redis_conn *c, int64_t word);
void redis_arg_key(struct redis_conn *c, const char *suffix); /* {prefix}suffix */
void redis_command_end(struct redis_conn *c);

/* The encoding of a command: the number of its arguments, then each of them. */
void redis_append_arg_count(struct buf *b, size_t args);
void redis_append_arg(struct buf *b, struct str word);

/* For callers that take error replies as they are: sends what is not sent yet, and returns the next reply. After a
 * failure the connection is closed. */
enum err redis_send_commands(struct redis_conn *c, struct error *e) must_use;
enum err redis_receive_reply(struct redis_conn *c, redisReply **ret, struct error *e) must_use;

/* Sends what is not sent yet and returns the next reply; the caller frees it. An error reply becomes an error.
 * wait_ms: how long the server was asked to block. After a failure the connection is either open with no reply
 * outstanding, or closed. */
enum err redis_reply_next(struct redis_conn *c, int64_t wait_ms, redisReply **ret, struct error *e) must_use;
void redis_reply_free(redisReply **r); /* for cleanup_with */

/* Runs the connection's script on the key {prefix}suffix, with the arguments added since redis_command_begin, and
 * returns its reply. If the server does not have the script, loads it. */
enum err redis_run_script(struct redis_conn *c, const char *suffix, redisReply **ret, struct error *e) must_use;

/* Closes the connection, which is of no use any more. Returns ERR_UNAVAILABLE with the reason. */
enum err redis_drop_connection(struct redis_conn *c, const char *why, struct error *e);

enum err redis_server_error(struct redis_conn *c, const char *text, struct error *e);

/* The server's reply to a command has the wrong shape: ERR_CORRUPT. */
enum err redis_unexpected_reply(struct error *e, const char *where);

/* reply_str: the text of a reply, empty if it is no text. reply_i64: an integer reply, or a text of digits. */
struct str reply_str(const redisReply *r);
bool reply_i64(const redisReply *r, int64_t *ret);
static inline size_t reply_count(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
}
