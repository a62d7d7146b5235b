/* Commands and their answers. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/embed.h"
#include "broker/redis/internal.h"

extern const struct embedded_file redis_scripts[];
extern const size_t redis_scripts_count;

enum { ANSWER_MS = 1500, MS_IN_S = 1000, US_IN_MS = 1000, KEY_MAX = REDIS_PREFIX_MAX + 128 };

/* ---- words ---- */

static void add_word(struct buf *b, struct str word)
{
    buf_char(b, '$');
    buf_u64(b, word.n);
    buf_text(b, "\r\n");
    buf_add(b, word);
    buf_text(b, "\r\n");
}

static void add_count(struct buf *b, size_t words)
{
    buf_char(b, '*');
    buf_u64(b, words);
    buf_text(b, "\r\n");
}

void redis_begin(struct redis_conn *c)
{
    buf_reset(&c->words);
    c->word_count = 0;
}

void redis_word(struct redis_conn *c, struct str word)
{
    add_word(&c->words, word);
    c->word_count++;
}

void redis_text(struct redis_conn *c, const char *word)
{
    redis_word(c, str_from(word));
}

void redis_i64(struct redis_conn *c, int64_t word)
{
    char text[24];
    redis_word(c, (struct str){ text, (size_t)snprintf(text, sizeof text, "%lld", (long long)word) });
}

static struct str key_text(const struct redis_conn *c, const char *suffix, char out[KEY_MAX])
{
    return (struct str){ out, (size_t)snprintf(out, KEY_MAX, "{%s}%s", c->address.prefix, suffix) };
}

void redis_key(struct redis_conn *c, const char *suffix)
{
    char text[KEY_MAX];
    redis_word(c, key_text(c, suffix, text));
}

static void put_words(struct redis_conn *c)
{
    buf_add(&c->out, buf_str(&c->words));
    c->out.full |= c->words.full;
    c->asked++;
}

void redis_end(struct redis_conn *c)
{
    add_count(&c->out, c->word_count);
    put_words(c);
}

/* ---- answers ---- */

/* The server was asked to wait so long itself. */
static void set_limit(struct redis_conn *c, int64_t wait_ms)
{
    int64_t ms = wait_ms + ANSWER_MS;
    (void)redisSetTimeout(c->redis, (struct timeval){ ms / MS_IN_S, ms % MS_IN_S * US_IN_MS });
}

static enum err send_words(struct redis_conn *c, struct error *e)
{
    if (c->out.full) {
        (void)redis_lose(c, "the command is too large", e);
        return error_set(e, ERR_LIMIT, "more than Redis can be told at once");
    }
    c->sent = true;
    if (redisAppendFormattedCommand(c->redis, c->out.p, c->out.n) != REDIS_OK)
        return redis_lose(c, c->redis->errstr, e);
    buf_reset(&c->out);
    return ERR_OK;
}

static enum err next_reply(struct redis_conn *c, redisReply **ret, struct error *e)
{
    void *reply = NULL;
    if (redisGetReply(c->redis, &reply) != REDIS_OK || !reply)
        return redis_lose(c, redis_reason(c->redis), e);
    c->asked--;
    *ret = reply;
    return ERR_OK;
}

/* After an error nobody asks for the answers behind it. */
static void drain(struct redis_conn *c)
{
    struct error e;
    while (c->redis && c->asked) {
        cleanup_with(redis_reply_free) redisReply *reply = NULL;
        if (next_reply(c, &reply, &e))
            return;
    }
}

enum err redis_answer(struct redis_conn *c, int64_t wait_ms, redisReply **ret, struct error *e)
{
    redisReply *reply = NULL;
    if (!c->redis)
        return error_set(e, ERR_UNAVAILABLE, "Redis: the connection is gone");
    set_limit(c, wait_ms);
    if ((c->out.n && send_words(c, e)) || next_reply(c, &reply, e))
        return e->code;
    assert(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        drain(c);
        (void)redis_meaning(c, reply->str, e);
        freeReplyObject(reply);
        return e->code;
    }
    *ret = reply;
    return ERR_OK;
}

/* ---- the script ---- */

struct str redis_script_text(const char *name)
{
    size_t i = 0;
    while (i + 1 < redis_scripts_count && strcmp(redis_scripts[i].name, name) != 0)
        i++;
    return redis_scripts[i].text;
}

static enum err load(struct redis_conn *c, struct error *e)
{
    cleanup_with(redis_reply_free) redisReply *reply = NULL;
    add_count(&c->out, 3);
    add_word(&c->out, S("SCRIPT"));
    add_word(&c->out, S("LOAD"));
    add_word(&c->out, c->script.text);
    c->asked++;
    if (redis_answer(c, 0, &reply, e))
        return e->code;
    struct str sha = reply ? reply_str(reply) : S("");
    if (sha.n != REDIS_SHA)
        return redis_strange(e, "SCRIPT LOAD");
    memcpy(c->script.sha, sha.p, REDIS_SHA);
    return ERR_OK;
}

enum err redis_run(struct redis_conn *c, const char *suffix, redisReply **ret, struct error *e)
{
    enum err rc = ERR_OK;
    char key[KEY_MAX];
    for (int i = 0; i < 2; i++) { /* a server forgets its scripts when it restarts, or is told to */
        if (!c->script.sha[0] && load(c, e))
            return e->code;
        add_count(&c->out, c->word_count + 4);
        add_word(&c->out, S("EVALSHA"));
        add_word(&c->out, str_from(c->script.sha));
        add_word(&c->out, S("1"));
        add_word(&c->out, key_text(c, suffix, key));
        put_words(c);
        rc = redis_answer(c, 0, ret, e);
        if (rc == ERR_OK || !strstr(e->text, "NOSCRIPT"))
            break;
        c->script.sha[0] = '\0';
    }
    return rc;
}

/* ---- what was answered ---- */

enum err redis_strange(struct error *e, const char *where)
{
    return error_set(e, ERR_CORRUPT, "Redis gave an answer to %s that is none", where);
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
