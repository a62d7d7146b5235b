/* A stream's entry has the body, the key and each header as fields; a list's element is one JSON object with all of them. Commands go out
 * together, and answers come in their order. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json/jsonw.h"
#include "broker/redis/internal.h"
#include "platform/clock_system.h"
#include "runner/message/internal.h"

enum { ANSWER_S = 2 };

struct sender_redis {
    struct sender base;
    struct judge *judge;
    struct redis_conn conn;
    struct buf text;
};

static bool judge_peer(void *context, int fd)
{
    struct judge *j = context;
    bool allowed = !j->guard || guard_allows_peer(j->guard, fd);
    j->blocked |= !allowed;
    return allowed;
}

static bool is_list(struct str destination, struct str *ret_name)
{
    static const struct str list = { "list:", 5 }, stream = { "stream:", 7 };
    bool is = str_starts(destination, list);
    size_t from = is ? list.n : str_starts(destination, stream) ? stream.n : 0;
    *ret_name = str_sub(destination, from, destination.n);
    return is;
}

static struct str element_of(struct sender_redis *s, const struct post *p)
{
    struct jw w;
    const struct webhook *content = &p->letter.content;
    buf_reset(&s->text);
    jw_init(&w, &s->text);
    jw_object(&w);
    jw_kv_str_or_null(&w, "key", p->letter.key);
    jw_key(&w, "headers");
    jw_object(&w);
    for (size_t i = 0; i < p->header_count; i++)
        jw_kv_str(&w, p->headers[i].name.p, p->headers[i].value);
    jw_object_end(&w);
    jw_key(&w, "body");
    if (!content->has_body)
        jw_null(&w);
    else if (content->body_is_json)
        jw_raw(&w, content->body);
    else
        jw_str(&w, content->body);
    jw_object_end(&w);
    return buf_str(&s->text);
}

static void put_command(struct sender_redis *s, const struct post *p)
{
    struct redis_conn *c = &s->conn;
    struct str name;
    bool list = is_list(p->letter.destination, &name);
    redis_command_begin(c);
    redis_arg_text(c, list ? "RPUSH" : "XADD");
    redis_arg_str(c, name);
    if (list) {
        redis_arg_str(c, element_of(s, p));
    } else {
        redis_arg_text(c, "*");
        redis_arg_text(c, "body");
        redis_arg_str(c, p->letter.content.body);
        if (p->letter.key.n) {
            redis_arg_text(c, "key");
            redis_arg_str(c, p->letter.key);
        }
        for (size_t i = 0; i < p->header_count; i++) {
            redis_arg_str(c, p->headers[i].name);
            redis_arg_str(c, p->headers[i].value);
        }
    }
    redis_command_end(c);
}

static void note_answer(struct post *p, const redisReply *reply)
{
    p->failure = FAILURE_NONE;
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(p->output, sizeof p->output, "length %lld", reply->integer);
    else
        snprintf(p->output, sizeof p->output, "%.*s", (int)min_of(reply->len, (size_t)64),
                 reply->str ? reply->str : "");
}

/* What Redis refused was not done. That it never will be is known of a key of another type, and of who may not; the rest may pass. */
static void note_refusal(struct post *p, const char *text)
{
    bool for_good = strstr(text, "WRONGTYPE") || strstr(text, "NOPERM") || strstr(text, "NOAUTH");
    char why[sizeof p->error];
    snprintf(why, sizeof why, "Redis refuses it: %s", text);
    post_failed(p, for_good ? FAILURE_REFUSED : FAILURE_CONNECT, false, why);
}

/* From here on what was sent is unknown, unless an answer comes. How many have one is returned; e says why there are no more. */
static size_t read_answers(struct sender_redis *s, struct post **v, size_t n, struct error *e)
{
    struct redis_conn *c = &s->conn;
    char refusal[256] = "";
    size_t i = 0;
    for (; i < n; i++) {
        void *reply = NULL;
        if (redisGetReply(c->redis, &reply) != REDIS_OK || !reply) {
            (void)redis_drop_connection(c, c->redis->err == REDIS_ERR_IO ? "no answer in time" : c->redis->errstr, e);
            return i;
        }
        c->pending_replies--;
        cleanup_with(redis_reply_free) redisReply *r = reply;
        if (r->type == REDIS_REPLY_ERROR) {
            snprintf(refusal, sizeof refusal, "%s", r->str);
            note_refusal(v[i], r->str);
        } else {
            note_answer(v[i], r);
        }
    }
    if (refusal[0])
        (void)redis_server_error(c, refusal, e); /* it may be another's to answer by now */
    return i;
}

static void deliver(struct sender *base, struct post **v, size_t n)
{
    struct sender_redis *s = container_of(base, struct sender_redis, base);
    struct redis_conn *c = &s->conn;
    struct error e = { 0 };
    size_t done = 0;
    bool ready = redis_connect(c, &e) == ERR_OK, sent = false;
    for (size_t i = 0; ready && i < n; i++)
        put_command(s, v[i]);
    if (ready && c->out.full) {
        (void)redis_drop_connection(c, "the command is too large", &e);
    } else if (ready) {
        sent = true;
        (void)redisSetTimeout(c->redis, (struct timeval){ .tv_sec = ANSWER_S });
        (void)redisAppendFormattedCommand(c->redis, c->out.p, c->out.n);
        buf_reset(&c->out);
        done = read_answers(s, v, n, &e);
    }
    for (size_t i = done; i < n; i++)
        post_lost(v[i], s->judge, sent, e.text);
}

static void release(struct sender *base)
{
    struct sender_redis *s = container_of(base, struct sender_redis, base);
    redis_conn_release(&s->conn);
    buf_release(&s->text);
    free(s);
}

static const struct sender_ops ops = { deliver, release };

enum err sender_redis_new(struct str url, struct judge *j, struct sender **ret, struct error *e)
{
    struct sender_redis *s = xnew(*s);
    struct redis_setup setup = { .url = url, .clock = clock_system(), .peer_allowed = judge_peer, .context = j };
    s->base.ops = &ops;
    s->judge = j;
    buf_init(&s->text, POST_TEXTS_MAX * 2);
    enum err rc = redis_conn_init(&s->conn, &setup, S(""), e);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return ERR_OK;
}
