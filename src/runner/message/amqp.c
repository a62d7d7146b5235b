/* A destination is an exchange, and the key is its routing key; or queue:NAME, which goes there by the exchange that has no name. Messages of
 * one exchange go out together and are confirmed together: an exchange that is not there ends the channel, and with it what goes to others
 * must not fail. One that reaches no queue comes back by its id. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/amqp/internal.h"
#include "runner/message/internal.h"

struct sender_amqp {
    struct sender base;
    struct judge *judge;
    struct rabbit_url url;
    struct rabbit_link link;
    struct post **v; /* that are being published */
    size_t n;
};

static bool judge_peer(struct rabbit_link *l, int fd)
{
    struct sender_amqp *s = l->owner;
    bool allowed = !s->judge->guard || guard_allows_peer(s->judge->guard, fd);
    s->judge->blocked |= !allowed;
    return allowed;
}

static enum err on_opened(struct rabbit_link *l, struct error *e)
{
    enum err rc = rabbit_open_publisher(l, e);
    l->channels[1].vital = true;
    return rc;
}

static void on_message(struct rabbit_link *l, struct rabbit_message *m)
{
    (void)l; /* nothing is consumed here */
    (void)m;
}

static void on_returned(struct rabbit_link *l, const struct rabbit_message *m)
{
    struct sender_amqp *s = l->owner;
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i]->id, m->message_id) == 0)
            post_failed(s->v[i], FAILURE_CONNECT, false, "it reached no queue: nothing is bound there for this key");
}

static const struct rabbit_hooks hooks = {
    .opened = on_opened, .message = on_message, .returned = on_returned, .peer_allowed = judge_peer
};

static bool is_queue(struct str destination, struct str *ret_name)
{
    static const struct str queue = { "queue:", 6 }, exchange = { "exchange:", 9 };
    bool is = str_starts(destination, queue);
    size_t from = is ? queue.n : str_starts(destination, exchange) ? exchange.n : 0;
    *ret_name = str_sub(destination, from, destination.n);
    return is;
}

static enum err publish(struct sender_amqp *s, const struct post *p, struct error *e)
{
    struct str name;
    amqp_table_entry_t headers[POST_OWN_HEADERS + WEBHOOK_HEADERS_MAX];
    bool queue = is_queue(p->letter.destination, &name);
    for (size_t i = 0; i < p->header_count; i++)
        headers[i] = (amqp_table_entry_t){
            .key = rabbit_bytes(p->headers[i].name),
            .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = rabbit_bytes(p->headers[i].value) },
        };
    const struct rabbit_envelope letter = { .exchange = queue ? S("") : name,
                                            .key = queue ? name : p->letter.key,
                                            .body = p->letter.content.body,
                                            .message_id = p->id,
                                            .content_type = p->content_type,
                                            .headers = { (int)p->header_count, headers },
                                            .mandatory = true };
    return rabbit_publish(&s->link, &letter, e);
}

/* What has no word of its own yet: FAILURE_INTERNAL is what a post begins with. */
static void note_all(struct sender_amqp *s, enum err rc, bool sent, const struct error *e)
{
    for (size_t i = 0; i < s->n; i++) {
        struct post *p = s->v[i];
        if (p->failure != FAILURE_INTERNAL)
            continue;
        if (rc == ERR_OK) {
            p->failure = FAILURE_NONE;
            snprintf(p->output, sizeof p->output, "confirmed");
        } else if (strstr(e->text, "NOT_FOUND")) { /* the exchange: RabbitMQ ended the channel, and took nothing */
            post_failed(p, FAILURE_CONNECT, false, e->text);
        } else if (strstr(e->text, "ACCESS_REFUSED")) {
            post_failed(p, FAILURE_REFUSED, false, e->text);
        } else {
            post_lost(p, s->judge, sent, e->text);
        }
    }
}

static void deliver_group(struct sender_amqp *s, struct post **v, size_t n)
{
    struct error e = { 0 };
    enum err rc;
    s->v = v;
    s->n = n;
    if (rabbit_connect(&s->link, &e) || (s->link.blocked && rabbit_error_blocked(&e))) {
        note_all(s, e.code, false, &e);
        return;
    }
    rabbit_publish_begin(&s->link);
    for (size_t i = 0; i < n; i++) {
        rc = publish(s, v[i], &e);
        if (rc) {
            note_all(s, rc, true, &e);
            return;
        }
    }
    rc = rabbit_publish_end(&s->link, &e);
    bool some_returned = rc == ERR_NOT_FOUND && s->link.confirms.returned > 0; /* the others are there */
    note_all(s, some_returned ? ERR_OK : rc, true, &e);
}

static int by_destination(const void *a, const void *b)
{
    const struct post *p = *(struct post *const *)a, *q = *(struct post *const *)b;
    return str_cmp(p->letter.destination, q->letter.destination);
}

static void deliver(struct sender *base, struct post **v, size_t n)
{
    struct sender_amqp *s = container_of(base, struct sender_amqp, base);
    qsort(v, n, sizeof(struct post *), by_destination);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && by_destination(&v[from], &v[to]) == 0;)
            to++;
        deliver_group(s, v + from, to - from);
    }
}

static void release(struct sender *base)
{
    struct sender_amqp *s = container_of(base, struct sender_amqp, base);
    rabbit_link_release(&s->link);
    rabbit_url_release(&s->url);
    free(s);
}

static const struct sender_ops ops = { deliver, release };

enum err sender_amqp_new(struct str url, struct judge *j, struct sender **ret, struct error *e)
{
    struct sender_amqp *s = xnew(*s);
    s->base.ops = &ops;
    s->judge = j;
    enum err rc = rabbit_url_parse(url, &s->url, e);
    if (rc) {
        free(s);
        return rc;
    }
    rabbit_link_init(&s->link, &s->url, &hooks, s);
    *ret = &s->base;
    return ERR_OK;
}
