/* Declares queues and exchanges with their arguments. Every user declares what it needs: if the queue exists, that
 * changes nothing; if someone deleted it, it is created again. */
#include <stdarg.h>
#include <stdio.h>

#include "broker/amqp/declare.h"

enum { SURE_MS = 100 }; /* a broker that confirmed a message this recently is not blocked */
/* Newer brokers count redeliveries and drop a message after 20, unless x-delivery-limit says otherwise. */
enum { DELIVERIES_FOR_EVER = 1000000000, WAKEUP_MS = 1000, WAKEUP_UNUSED_MS = 3600000, LIFE_UNUSED_MS = 3600000 };

void rabbit_name(const struct rabbit_url *u, char out[RABBIT_NAME], const char *fmt, ...)
{
    int n = snprintf(out, RABBIT_NAME, "%s.", u->prefix);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + n, (size_t)(RABBIT_NAME - n), fmt, args);
    va_end(args);
}

/* ---- arguments ---- */

struct rabbit_arguments {
    amqp_table_entry_t v[8];
    int n;
};

static void rabbit_add_text(struct rabbit_arguments *a, const char *key, const char *value)
{
    a->v[a->n++] =
        (amqp_table_entry_t){ rabbit_text(key), { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = rabbit_text(value) } };
}

static void rabbit_add_number(struct rabbit_arguments *a, const char *key, int32_t value)
{
    a->v[a->n++] = (amqp_table_entry_t){ rabbit_text(key), { .kind = AMQP_FIELD_KIND_I32, .value.i32 = value } };
}

static void rabbit_add_flag(struct rabbit_arguments *a, const char *key)
{
    a->v[a->n++] = (amqp_table_entry_t){ rabbit_text(key), { .kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1 } };
}

/* A quorum queue moves a message that was returned once to the queue of timed out deliveries, and keeps it until it
 * has arrived there. A classic queue does not count redeliveries: there the worker that gets a redelivered message
 * moves it (queue/amqp/take.c). */
static void rabbit_add_task_arguments(struct rabbit_arguments *a, bool classic, const char *timed_out_queue)
{
    rabbit_add_text(a, "x-dead-letter-exchange", "");
    rabbit_add_text(a, "x-dead-letter-routing-key", timed_out_queue);
    if (classic)
        return;
    rabbit_add_number(a, "x-delivery-limit", 0);
    rabbit_add_text(a, "x-dead-letter-strategy", "at-least-once");
    rabbit_add_text(a, "x-overflow", "reject-publish"); /* required by at-least-once */
}

static void rabbit_add_kind_arguments(struct rabbit_arguments *a, const struct rabbit_link *l, enum rabbit_kind kind,
                                      const char *timed_out_queue, const char *dead_queue)
{
    if (kind == RABBIT_EXCLUSIVE)
        return;
    if (kind == RABBIT_STREAM) {
        rabbit_add_text(a, "x-queue-type", "stream");
        return;
    }
    if (kind == RABBIT_WAKEUP) {
        rabbit_add_number(a, "x-message-ttl", WAKEUP_MS);
        rabbit_add_number(a, "x-max-length", WAKEUP_MAX);
        rabbit_add_number(a, "x-expires", WAKEUP_UNUSED_MS);
        return;
    }
    if (kind == RABBIT_LIFE) {
        rabbit_add_number(a, "x-max-length", 1);
        rabbit_add_number(a, "x-expires", LIFE_UNUSED_MS);
        return;
    }
    if (!l->classic)
        rabbit_add_text(a, "x-queue-type", "quorum");
    if (kind == RABBIT_TASKS)
        rabbit_add_task_arguments(a, l->classic, timed_out_queue);
    else if (!l->classic)
        rabbit_add_number(a, "x-delivery-limit", DELIVERIES_FOR_EVER);
    if (kind == RABBIT_ORDERED) {
        rabbit_add_flag(a, "x-single-active-consumer");
        rabbit_add_text(a, "x-dead-letter-exchange", "");
        rabbit_add_text(a, "x-dead-letter-routing-key", dead_queue);
    }
}

static enum err rabbit_send_declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                                    bool answered, struct error *e)
{
    char timed_out_queue[RABBIT_NAME], dead_queue[RABBIT_NAME];
    struct rabbit_arguments a = { .n = 0 };
    rabbit_name(l->url, timed_out_queue, "lapsed");
    rabbit_name(l->url, dead_queue, "dead");
    rabbit_add_kind_arguments(&a, l, kind, timed_out_queue, dead_queue);
    bool own = kind == RABBIT_EXCLUSIVE;
    amqp_queue_declare_t d = { .queue = rabbit_text(name),
                               .durable = !own,
                               .exclusive = own,
                               .auto_delete = own,
                               .nowait = !answered,
                               .arguments = { a.n, a.v } };
    return rabbit_send(l, channel, AMQP_QUEUE_DECLARE_METHOD, &d, e);
}

enum err rabbit_send_declare_wakeup(struct rabbit_link *l, uint16_t channel, const char *name, bool answered,
                                    struct error *e)
{
    return rabbit_send_declare(l, channel, name, RABBIT_WAKEUP, answered, e);
}

enum err rabbit_send_count(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e)
{
    amqp_queue_declare_t d = { .queue = rabbit_text(name), .passive = 1 };
    return rabbit_send(l, channel, AMQP_QUEUE_DECLARE_METHOD, &d, e);
}

static enum err rabbit_declare_once(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                                    struct error *e)
{
    rabbit_calls_begin(l, channel);
    return rabbit_send_declare(l, channel, name, kind, true, e) || rabbit_await_replies(l, channel, 1, e) ? e->code
                                                                                                          : ERR_OK;
}

/* If the queue exists as a classic one, or the broker has no quorum queues, declares it as a classic queue. */
enum err rabbit_declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                        uint32_t *ret_ready, struct error *e)
{
    enum err rc = rabbit_declare_once(l, channel, name, kind, e);
    if (rc == ERR_CONFLICT && !l->classic) {
        l->classic = true;
        rc = rabbit_open_channel(l, channel, false, e) ? e->code : rabbit_declare_once(l, channel, name, kind, e);
    }
    if (rc)
        return error_wrap(e, "declare '%s'", name);
    if (ret_ready)
        *ret_ready = l->channels[channel].ready[0];
    return ERR_OK;
}

enum err rabbit_declare_fanout(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e)
{
    amqp_exchange_declare_t d = { .exchange = rabbit_text(name), .type = rabbit_text("fanout"), .durable = 1 };
    return rabbit_call(l, channel, AMQP_EXCHANGE_DECLARE_METHOD, &d, e);
}

enum err rabbit_bind(struct rabbit_link *l, uint16_t channel, const char *queue, const char *exchange, struct error *e)
{
    amqp_queue_bind_t b = { .queue = rabbit_text(queue), .exchange = rabbit_text(exchange) };
    return rabbit_call(l, channel, AMQP_QUEUE_BIND_METHOD, &b, e);
}

enum err rabbit_consume(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag, bool no_ack,
                        struct error *e)
{
    amqp_basic_consume_t c = { .queue = rabbit_text(queue), .consumer_tag = rabbit_text(tag), .no_ack = no_ack };
    return rabbit_call(l, channel, AMQP_BASIC_CONSUME_METHOD, &c, e);
}

enum err rabbit_consume_stream(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag,
                               struct error *e)
{
    struct rabbit_arguments a = { .n = 0 };
    rabbit_add_text(&a, "x-stream-offset", "first");
    amqp_basic_consume_t c = { .queue = rabbit_text(queue),
                               .consumer_tag = rabbit_text(tag),
                               .arguments = { a.n, a.v } };
    return rabbit_call(l, channel, AMQP_BASIC_CONSUME_METHOD, &c, e);
}

static enum err rabbit_publish_probe(struct rabbit_link *l, struct error *e)
{
    char name[RABBIT_NAME];
    rabbit_name(l->url, name, "nobody");
    rabbit_publish_begin(l);
    if (rabbit_publish(l, &(struct rabbit_envelope){ .key = str_from(name), .transient = true }, e))
        return e->code;
    enum err rc = rabbit_publish_end(l, e);
    return rc && !l->blocked ? rc : ERR_OK;
}

/* Publishes twice: the broker's notice of an alarm may arrive after the confirm of the first message. */
enum err rabbit_open_publisher(struct rabbit_link *l, struct error *e)
{
    return rabbit_open_channel(l, 1, true, e) || rabbit_publish_probe(l, e) ||
                   (!l->blocked && rabbit_publish_probe(l, e))
               ? e->code
               : ERR_OK;
}

/* A broker tells a connection of an alarm only when the connection publishes. So a message that is routed nowhere is
 * published first: a task published then would be neither confirmed nor refused. */
enum err rabbit_connect_to_publish(struct rabbit_link *l, struct error *e)
{
    if (rabbit_connect(l, e))
        return e->code;
    if (!l->blocked && rabbit_now_ms() - l->confirms.latest_ms > SURE_MS && rabbit_publish_probe(l, e))
        return e->code;
    return l->blocked ? rabbit_error_blocked(e) : ERR_OK;
}
