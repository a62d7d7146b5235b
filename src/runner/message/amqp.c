/* A destination is an exchange, and the key is its routing key; or queue:NAME, which is published through the default
 * exchange. Messages for one exchange are published and confirmed together, separately from other exchanges: a missing
 * exchange closes the channel, and this must not fail messages for others. RabbitMQ returns an unroutable message,
 * which is found by its id. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/amqp/declare.h"
#include "runner/message/internal.h"

struct message_sender_amqp {
    struct message_sender base;
    struct peer_check *check;
    struct rabbit_url url;
    struct rabbit_link link;
    struct message_in_flight **v; /* the messages that are being published */
    size_t n;
};

static bool message_amqp_check_peer(struct rabbit_link *l, int fd)
{
    struct message_sender_amqp *s = l->owner;
    bool allowed = !s->check->guard || guard_allows_peer(s->check->guard, fd);
    s->check->blocked |= !allowed;
    return allowed;
}

static bool message_amqp_check_address(struct rabbit_link *l, const struct sockaddr *to)
{
    struct message_sender_amqp *s = l->owner;
    bool allowed = !s->check->guard || guard_allows(s->check->guard, to);
    s->check->blocked |= !allowed;
    return allowed;
}

static enum err message_amqp_on_opened(struct rabbit_link *l, struct error *e)
{
    enum err rc = rabbit_open_publisher(l, e);
    l->channels[1].vital = true;
    return rc;
}

static void message_amqp_on_message(struct rabbit_link *l, struct rabbit_message *m)
{
    (void)l; /* this connection consumes nothing */
    (void)m;
}

static void message_amqp_on_returned(struct rabbit_link *l, const struct rabbit_message *m)
{
    struct message_sender_amqp *s = l->owner;
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i]->id, m->message_id) == 0)
            message_set_failed(s->v[i], FAILURE_CONNECT, false,
                               "it reached no queue: no queue is bound to the exchange with this key");
}

static const struct rabbit_hooks message_amqp_hooks = { .opened = message_amqp_on_opened,
                                                        .message = message_amqp_on_message,
                                                        .returned = message_amqp_on_returned,
                                                        .address_allowed = message_amqp_check_address,
                                                        .peer_allowed = message_amqp_check_peer };

static bool message_amqp_is_queue(struct str destination, struct str *ret_name)
{
    static const struct str queue = { "queue:", 6 }, exchange = { "exchange:", 9 };
    bool is = str_starts(destination, queue);
    size_t from = is ? queue.n : str_starts(destination, exchange) ? exchange.n : 0;
    *ret_name = str_sub(destination, from, destination.n);
    return is;
}

static enum err message_amqp_publish(struct message_sender_amqp *s, const struct message_in_flight *msg,
                                     struct error *e)
{
    struct str name;
    amqp_table_entry_t headers[MESSAGE_OWN_HEADERS + WEBHOOK_HEADERS_MAX];
    bool queue = message_amqp_is_queue(msg->target.destination, &name);
    for (size_t i = 0; i < msg->header_count; i++)
        headers[i] = (amqp_table_entry_t){
            .key = rabbit_bytes(msg->headers[i].name),
            .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = rabbit_bytes(msg->headers[i].value) },
        };
    const struct rabbit_envelope envelope = { .exchange = queue ? S("") : name,
                                              .key = queue ? name : msg->target.key,
                                              .body = msg->target.content.body,
                                              .message_id = msg->id,
                                              .content_type = msg->content_type,
                                              .headers = { (int)msg->header_count, headers },
                                              .mandatory = true };
    return rabbit_publish(&s->link, &envelope, e);
}

/* Sets the result of each message that has none yet: FAILURE_INTERNAL is the initial value. */
static void message_amqp_set_results(struct message_sender_amqp *s, enum err rc, bool sent, const struct error *e)
{
    for (size_t i = 0; i < s->n; i++) {
        struct message_in_flight *msg = s->v[i];
        if (msg->failure != FAILURE_INTERNAL)
            continue;
        if (rc == ERR_OK) {
            msg->failure = FAILURE_NONE;
            snprintf(msg->output, sizeof msg->output, "confirmed");
            /* No such exchange: RabbitMQ closed the channel and took no message. */
        } else if (strstr(e->text, "NOT_FOUND")) {
            message_tell_detail(s->check, e->text);
            message_set_failed(msg, FAILURE_CONNECT, false, "there is no exchange of this name");
        } else if (strstr(e->text, "ACCESS_REFUSED")) {
            message_tell_detail(s->check, e->text);
            message_set_failed(msg, FAILURE_REFUSED, false, "RabbitMQ does not permit it (ACCESS_REFUSED)");
        } else {
            message_set_lost(msg, s->check, sent, e->text);
        }
    }
}

static void message_amqp_deliver_exchange(struct message_sender_amqp *s, struct message_in_flight **v, size_t n)
{
    struct error e = { 0 };
    enum err rc;
    s->v = v;
    s->n = n;
    if (rabbit_connect(&s->link, &e) || (s->link.blocked && rabbit_error_blocked(&e))) {
        message_amqp_set_results(s, e.code, false, &e);
        return;
    }
    rabbit_publish_begin(&s->link);
    for (size_t i = 0; i < n; i++) {
        rc = message_amqp_publish(s, v[i], &e);
        if (rc) {
            message_amqp_set_results(s, rc, true, &e);
            return;
        }
    }
    rc = rabbit_publish_end(&s->link, &e);
    bool some_returned = rc == ERR_NOT_FOUND && s->link.confirms.returned > 0; /* the other messages were confirmed */
    message_amqp_set_results(s, some_returned ? ERR_OK : rc, true, &e);
}

static int message_amqp_compare_destination(const void *a, const void *b)
{
    const struct message_in_flight *msg = *(struct message_in_flight *const *)a,
                                   *q = *(struct message_in_flight *const *)b;
    return str_cmp(msg->target.destination, q->target.destination);
}

static void message_amqp_deliver(struct message_sender *base, struct message_in_flight **v, size_t n)
{
    struct message_sender_amqp *s = container_of(base, struct message_sender_amqp, base);
    qsort(v, n, sizeof(struct message_in_flight *), message_amqp_compare_destination);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && message_amqp_compare_destination(&v[from], &v[to]) == 0;)
            to++;
        message_amqp_deliver_exchange(s, v + from, to - from);
    }
}

static void message_amqp_free(struct message_sender *base)
{
    struct message_sender_amqp *s = container_of(base, struct message_sender_amqp, base);
    rabbit_link_release(&s->link);
    rabbit_url_release(&s->url);
    free(s);
}

static const struct message_sender_ops message_amqp_ops = { message_amqp_deliver, message_amqp_free };

enum err message_sender_amqp_new(struct str url, struct peer_check *check, struct message_sender **ret, struct error *e)
{
    struct message_sender_amqp *s = xnew(*s);
    s->base.ops = &message_amqp_ops;
    s->check = check;
    enum err rc = rabbit_url_open(url, &s->url, e);
    if (rc) {
        free(s);
        return rc;
    }
    rabbit_link_init(&s->link, &s->url, &message_amqp_hooks, s);
    *ret = &s->base;
    return ERR_OK;
}
