/* A stream entry has the body, the key and each header as fields. A list element is one JSON object with all of them.
 * Commands are sent together; replies arrive in the same order. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json/jsonw.h"
#include "broker/redis/connection.h"
#include "platform/clock_system.h"
#include "runner/message/internal.h"

enum { ANSWER_MS = 2000 };

struct message_sender_redis {
    struct message_sender base;
    struct peer_check *check;
    struct redis_conn conn;
    struct buf text;
};

static bool message_redis_check_address(void *context, const struct sockaddr *to)
{
    struct peer_check *check = context;
    bool allowed = !check->guard || guard_allows(check->guard, to);
    check->blocked |= !allowed;
    return allowed;
}

static bool message_redis_is_list(struct str destination, struct str *ret_name)
{
    static const struct str list = { "list:", 5 }, stream = { "stream:", 7 };
    bool is = str_starts(destination, list);
    size_t from = is ? list.n : str_starts(destination, stream) ? stream.n : 0;
    *ret_name = str_sub(destination, from, destination.n);
    return is;
}

static struct str message_redis_list_element(struct message_sender_redis *s, const struct message_in_flight *msg)
{
    struct jw w;
    const struct webhook *content = &msg->target.content;
    buf_reset(&s->text);
    jw_init(&w, &s->text);
    jw_object(&w);
    jw_kv_str_or_null(&w, "key", msg->target.key);
    jw_key(&w, "headers");
    jw_object(&w);
    for (size_t i = 0; i < msg->header_count; i++)
        jw_kv_str(&w, msg->headers[i].name.p, msg->headers[i].value);
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

static void message_redis_add_command(struct message_sender_redis *s, const struct message_in_flight *msg)
{
    struct redis_conn *c = &s->conn;
    struct str name;
    bool list = message_redis_is_list(msg->target.destination, &name);
    redis_command_begin(c);
    redis_arg_text(c, list ? "RPUSH" : "XADD");
    redis_arg_str(c, name);
    if (list) {
        redis_arg_str(c, message_redis_list_element(s, msg));
    } else {
        redis_arg_text(c, "*");
        redis_arg_text(c, "body");
        redis_arg_str(c, msg->target.content.body);
        if (msg->target.key.n) {
            redis_arg_text(c, "key");
            redis_arg_str(c, msg->target.key);
        }
        for (size_t i = 0; i < msg->header_count; i++) {
            redis_arg_str(c, msg->headers[i].name);
            redis_arg_str(c, msg->headers[i].value);
        }
    }
    redis_command_end(c);
}

static void message_redis_set_confirmed(struct message_in_flight *msg, const redisReply *reply)
{
    msg->failure = FAILURE_NONE;
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(msg->output, sizeof msg->output, "length %lld", reply->integer);
    else
        snprintf(msg->output, sizeof msg->output, "%.*s", (int)min_of(reply->len, (size_t)64),
                 reply->str ? reply->str : "");
}

/* A command that Redis refuses has no effect. It fails for good if the key has another type or access is denied; other
 * errors may be temporary. */
static void message_redis_set_refused(struct message_in_flight *msg, struct peer_check *check, const char *text)
{
    bool for_good = strstr(text, "WRONGTYPE") || strstr(text, "NOPERM") || strstr(text, "NOAUTH");
    char why[sizeof msg->error];
    int word = (int)strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); /* what follows may name a user or a host */
    message_tell_detail(check, text);
    snprintf(why, sizeof why, "Redis refused the command: %.*s", word ? word : (int)strlen("ERR"), word ? text : "ERR");
    message_set_failed(msg, for_good ? FAILURE_REFUSED : FAILURE_CONNECT, false, why);
}

/* The commands have been sent: the result of a command is unknown until its reply arrives. Returns the number of
 * replies; e says why there are no more. */
static size_t message_redis_read_replies(struct message_sender_redis *s, struct message_in_flight **v, size_t n,
                                         struct error *e)
{
    struct redis_conn *c = &s->conn;
    char refusal[256] = "";
    size_t i = 0;
    for (; i < n; i++) {
        cleanup_with(redis_reply_free) redisReply *r = NULL;
        if (redis_receive_reply(c, &r, e))
            return i;
        if (r->type == REDIS_REPLY_ERROR) {
            snprintf(refusal, sizeof refusal, "%s", r->str);
            message_redis_set_refused(v[i], s->check, r->str);
        } else {
            message_redis_set_confirmed(v[i], r);
        }
    }
    if (refusal[0])
        (void)redis_server_error(c, refusal, e); /* the error may mean that this server is no longer the primary */
    return i;
}

static void message_redis_deliver(struct message_sender *base, struct message_in_flight **v, size_t n)
{
    struct message_sender_redis *s = container_of(base, struct message_sender_redis, base);
    struct redis_conn *c = &s->conn;
    struct error e = { 0 };
    size_t done = 0;
    bool ready = redis_connect(c, &e) == ERR_OK, sent = false;
    for (size_t i = 0; ready && i < n; i++)
        message_redis_add_command(s, v[i]);
    if (ready && c->out.full) {
        (void)redis_drop_connection(c, "the messages do not fit in one Redis pipeline", &e);
    } else if (ready) {
        sent = true;
        redis_link_set_timeout(c->link, ANSWER_MS);
        done = redis_send_commands(c, &e) == ERR_OK ? message_redis_read_replies(s, v, n, &e) : 0;
    }
    for (size_t i = done; i < n; i++)
        message_set_lost(v[i], s->check, sent, e.text);
}

static void message_redis_free(struct message_sender *base)
{
    struct message_sender_redis *s = container_of(base, struct message_sender_redis, base);
    redis_conn_release(&s->conn);
    buf_release(&s->text);
    free(s);
}

static const struct message_sender_ops message_redis_ops = { message_redis_deliver, message_redis_free };

enum err message_sender_redis_new(struct str url, struct peer_check *check, struct message_sender **ret,
                                  struct error *e)
{
    struct message_sender_redis *s = xnew(*s);
    struct redis_setup setup = {
        .url = url, .clock = clock_system(), .address_allowed = message_redis_check_address, .context = check
    };
    s->base.ops = &message_redis_ops;
    s->check = check;
    buf_init(&s->text, MESSAGE_TEXTS_MAX * 2);
    enum err rc = redis_conn_init(&s->conn, &setup, S(""), e);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return ERR_OK;
}
