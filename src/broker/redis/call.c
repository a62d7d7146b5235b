/* Encodes commands (the RESP protocol), sends them and reads replies. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/embed.h"
#include "broker/redis/connection.h"

extern const struct embedded_file redis_scripts[];
extern const size_t redis_scripts_count;

enum { KEY_MAX = REDIS_PREFIX_MAX + 128 };

/* ---- encoding commands ---- */

void redis_append_arg(struct buf *b, struct str word)
{
    buf_char(b, '$');
    buf_u64(b, word.n);
    buf_text(b, "\r\n");
    buf_add(b, word);
    buf_text(b, "\r\n");
}

void redis_append_arg_count(struct buf *b, size_t args)
{
    buf_char(b, '*');
    buf_u64(b, args);
    buf_text(b, "\r\n");
}

void redis_command_begin(struct redis_conn *c)
{
    buf_reset(&c->args);
    c->arg_count = 0;
}

void redis_arg_str(struct redis_conn *c, struct str word)
{
    redis_append_arg(&c->args, word);
    c->arg_count++;
}

void redis_arg_text(struct redis_conn *c, const char *word)
{
    redis_arg_str(c, str_from(word));
}

void redis_arg_i64(struct redis_conn *c, int64_t word)
{
    char text[24];
    redis_arg_str(c, (struct str){ text, (size_t)snprintf(text, sizeof text, "%lld", (long long)word) });
}

static struct str redis_key_text(const struct redis_conn *c, const char *suffix, char out[KEY_MAX])
{
    return (struct str){ out, (size_t)snprintf(out, KEY_MAX, "{%s}%s", c->address.prefix, suffix) };
}

void redis_arg_key(struct redis_conn *c, const char *suffix)
{
    char text[KEY_MAX];
    redis_arg_str(c, redis_key_text(c, suffix, text));
}

static void redis_append_args(struct redis_conn *c)
{
    buf_add(&c->out, buf_str(&c->args));
    c->out.full |= c->args.full;
    c->pending_replies++;
}

void redis_command_end(struct redis_conn *c)
{
    redis_append_arg_count(&c->out, c->arg_count);
    redis_append_args(c);
}

/* ---- replies ---- */

enum err redis_send_commands(struct redis_conn *c, struct error *e)
{
    if (c->out.full) {
        (void)redis_drop_connection(c, "the command is too large", e);
        return error_set(e, ERR_LIMIT, "the command for Redis is larger than %d MiB", REDIS_COMMAND_MAX >> 20);
    }
    c->sent = true;
    if (!redis_link_send(c->link, buf_str(&c->out)))
        return redis_drop_connection(c, c->link->why, e);
    buf_reset(&c->out);
    return ERR_OK;
}

enum err redis_receive_reply(struct redis_conn *c, redisReply **ret, struct error *e)
{
    redisReply *reply = redis_link_receive(c->link);
    if (!reply)
        return redis_drop_connection(c, c->link->why, e);
    c->pending_replies--;
    *ret = reply;
    return ERR_OK;
}

/* After an error reply, reads and drops the replies to the commands behind it: the caller does not ask for them. */
static void redis_drain_replies(struct redis_conn *c)
{
    struct error e;
    while (c->link && c->pending_replies) {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        if (redis_receive_reply(c, &reply, &e))
            return;
    }
}

enum err redis_reply_next(struct redis_conn *c, int64_t wait_ms, redisReply **ret, struct error *e)
{
    redisReply *reply = NULL;
    if (!c->link)
        return error_set(e, ERR_UNAVAILABLE, "Redis: the connection is gone");
    redis_link_set_timeout(c->link, wait_ms + REDIS_ANSWER_MS);
    if ((c->out.n && redis_send_commands(c, e)) || redis_receive_reply(c, &reply, e))
        return e->code;
    assert(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_drain_replies(c);
        (void)redis_server_error(c, reply->str, e);
        freeReplyObject(reply);
        return e->code;
    }
    *ret = reply;
    return ERR_OK;
}

/* ---- scripts ---- */

struct str redis_script_text(const char *name)
{
    size_t i = 0;
    while (i + 1 < redis_scripts_count && strcmp(redis_scripts[i].name, name) != 0)
        i++;
    return redis_scripts[i].text;
}

static enum err redis_load_script(struct redis_conn *c, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    redis_append_arg_count(&c->out, 3);
    redis_append_arg(&c->out, S("SCRIPT"));
    redis_append_arg(&c->out, S("LOAD"));
    redis_append_arg(&c->out, c->script.text);
    c->pending_replies++;
    if (redis_reply_next(c, 0, &reply, e))
        return e->code;
    struct str sha = reply ? reply_str(reply) : S("");
    if (sha.n != REDIS_SHA)
        return redis_unexpected_reply(e, "SCRIPT LOAD");
    memcpy(c->script.sha, sha.p, REDIS_SHA);
    return ERR_OK;
}

enum err redis_run_script(struct redis_conn *c, const char *suffix, redisReply **ret, struct error *e)
{
    enum err rc = ERR_OK;
    char key[KEY_MAX];
    for (int i = 0; i < 2; i++) { /* twice: a restart or SCRIPT FLUSH removes the script from the server */
        if (!c->script.sha[0] && redis_load_script(c, e))
            return e->code;
        redis_append_arg_count(&c->out, c->arg_count + 4);
        redis_append_arg(&c->out, S("EVALSHA"));
        redis_append_arg(&c->out, str_from(c->script.sha));
        redis_append_arg(&c->out, S("1"));
        redis_append_arg(&c->out, redis_key_text(c, suffix, key));
        redis_append_args(c);
        rc = redis_reply_next(c, 0, ret, e);
        if (rc == ERR_OK || !strstr(e->text, "NOSCRIPT"))
            break;
        c->script.sha[0] = '\0';
    }
    return rc;
}

/* ---- reading replies ---- */

enum err redis_unexpected_reply(struct error *e, const char *where)
{
    return error_set(e, ERR_CORRUPT, "Redis: unexpected reply to %s", where);
}

struct str reply_str(const redisReply *r)
{
    if (r->type != REDIS_REPLY_STRING && r->type != REDIS_REPLY_STATUS && r->type != REDIS_REPLY_ERROR)
        return S("");
    return (struct str){ r->str, (size_t)r->len };
}

bool reply_i64(const redisReply *r, int64_t *ret)
{
    if (r->type == REDIS_REPLY_INTEGER) {
        *ret = r->integer;
        return true;
    }
    return r->type == REDIS_REPLY_STRING && str_to_i64(reply_str(r), INT64_MIN, INT64_MAX, ret);
}
