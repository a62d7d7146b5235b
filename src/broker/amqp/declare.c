/* What is kept at the broker, and by which arguments it is what it is. Declared again by whoever needs it: that changes nothing, unless
 * somebody has deleted it. */
#include <stdarg.h>
#include <stdio.h>

#include "broker/amqp/internal.h"

/* What a queue redelivers is counted by newer brokers, and dropped after 20 times if nobody says otherwise. */
enum { SURE_MS = 100 }; /* a broker that took something this long ago takes the next */
enum { DELIVERIES_FOR_EVER = 1000000000, WAKEUP_MS = 1000, WAKEUP_UNUSED_MS = 3600000, LIFE_UNUSED_MS = 3600000 };

void rabbit_name(const struct rabbit_url *u, char out[RABBIT_NAME], const char *fmt, ...)
{
    int n = snprintf(out, RABBIT_NAME, "%s.", u->prefix);
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(out + n, (size_t)(RABBIT_NAME - n), fmt, arguments);
    va_end(arguments);
}

/* ---- arguments ---- */

struct arguments {
    amqp_table_entry_t v[8];
    int n;
};

static void add_text(struct arguments *a, const char *key, const char *value)
{
    a->v[a->n++] =
        (amqp_table_entry_t){ rabbit_text(key), { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = rabbit_text(value) } };
}

static void add_number(struct arguments *a, const char *key, int32_t value)
{
    a->v[a->n++] = (amqp_table_entry_t){ rabbit_text(key), { .kind = AMQP_FIELD_KIND_I32, .value.i32 = value } };
}

static void add_flag(struct arguments *a, const char *key)
{
    a->v[a->n++] = (amqp_table_entry_t){ rabbit_text(key), { .kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1 } };
}

/* A quorum queue itself moves to the lapsed what comes back once, and keeps it until it is there. A classic one does not count: there a
 * worker moves what it gets again (take.c). */
static void add_tasks(struct arguments *a, bool classic, const char *timed_out_deliveries)
{
    add_text(a, "x-dead-letter-exchange", "");
    add_text(a, "x-dead-letter-routing-key", timed_out_deliveries);
    if (classic)
        return;
    add_number(a, "x-delivery-limit", 0);
    add_text(a, "x-dead-letter-strategy", "at-least-once");
    add_text(a, "x-overflow", "reject-publish"); /* the strategy wants it */
}

static void add_kind(struct arguments *a, const struct rabbit_link *l, enum rabbit_kind kind,
                     const char *timed_out_deliveries, const char *dead)
{
    if (kind == RABBIT_OWN)
        return;
    if (kind == RABBIT_STREAM) {
        add_text(a, "x-queue-type", "stream");
        return;
    }
    if (kind == RABBIT_WAKEUP) {
        add_number(a, "x-message-ttl", WAKEUP_MS);
        add_number(a, "x-max-length", WAKEUP_MAX);
        add_number(a, "x-expires", WAKEUP_UNUSED_MS);
        return;
    }
    if (kind == RABBIT_LIFE) {
        add_number(a, "x-max-length", 1);
        add_number(a, "x-expires", LIFE_UNUSED_MS);
        return;
    }
    if (!l->classic)
        add_text(a, "x-queue-type", "quorum");
    if (kind == RABBIT_TASKS)
        add_tasks(a, l->classic, timed_out_deliveries);
    else if (!l->classic)
        add_number(a, "x-delivery-limit", DELIVERIES_FOR_EVER);
    if (kind == RABBIT_ORDERED) {
        add_flag(a, "x-single-active-consumer");
        add_text(a, "x-dead-letter-exchange", "");
        add_text(a, "x-dead-letter-routing-key", dead);
    }
}

static enum err tell_declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                             bool answered, struct error *e)
{
    char timed_out_deliveries[RABBIT_NAME], dead[RABBIT_NAME];
    struct arguments a = { .n = 0 };
    rabbit_name(l->url, timed_out_deliveries, "lapsed");
    rabbit_name(l->url, dead, "dead");
    add_kind(&a, l, kind, timed_out_deliveries, dead);
    bool own = kind == RABBIT_OWN;
    amqp_queue_declare_t d = { .queue = rabbit_text(name),
                               .durable = !own,
                               .exclusive = own,
                               .auto_delete = own,
                               .nowait = !answered,
                               .arguments = { a.n, a.v } };
    return rabbit_tell(l, channel, AMQP_QUEUE_DECLARE_METHOD, &d, e);
}

enum err rabbit_tell_declare_wakeup(struct rabbit_link *l, uint16_t channel, const char *name, bool answered,
                                    struct error *e)
{
    return tell_declare(l, channel, name, RABBIT_WAKEUP, answered, e);
}

enum err rabbit_tell_count(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e)
{
    amqp_queue_declare_t d = { .queue = rabbit_text(name), .passive = 1 };
    return rabbit_tell(l, channel, AMQP_QUEUE_DECLARE_METHOD, &d, e);
}

static enum err declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                        struct error *e)
{
    rabbit_begin(l, channel);
    return tell_declare(l, channel, name, kind, true, e) || rabbit_await(l, channel, 1, e) ? e->code : ERR_OK;
}

/* One that is there as a classic queue, or a broker without quorum queues, refuses the better type. */
enum err rabbit_declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                        uint32_t *ret_ready, struct error *e)
{
    enum err rc = declare(l, channel, name, kind, e);
    if (rc == ERR_CONFLICT && !l->classic) {
        l->classic = true;
        rc = rabbit_open_channel(l, channel, false, e) ? e->code : declare(l, channel, name, kind, e);
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
    return rabbit_ask(l, channel, AMQP_EXCHANGE_DECLARE_METHOD, &d, e);
}

enum err rabbit_bind(struct rabbit_link *l, uint16_t channel, const char *queue, const char *exchange, struct error *e)
{
    amqp_queue_bind_t b = { .queue = rabbit_text(queue), .exchange = rabbit_text(exchange) };
    return rabbit_ask(l, channel, AMQP_QUEUE_BIND_METHOD, &b, e);
}

enum err rabbit_consume(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag, bool no_ack,
                        struct error *e)
{
    amqp_basic_consume_t c = { .queue = rabbit_text(queue), .consumer_tag = rabbit_text(tag), .no_ack = no_ack };
    return rabbit_ask(l, channel, AMQP_BASIC_CONSUME_METHOD, &c, e);
}

enum err rabbit_consume_stream(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag,
                               struct error *e)
{
    struct arguments a = { .n = 0 };
    add_text(&a, "x-stream-offset", "first");
    amqp_basic_consume_t c = { .queue = rabbit_text(queue),
                               .consumer_tag = rabbit_text(tag),
                               .arguments = { a.n, a.v } };
    return rabbit_ask(l, channel, AMQP_BASIC_CONSUME_METHOD, &c, e);
}

static enum err publish_to_nobody(struct rabbit_link *l, struct error *e)
{
    char nobody[RABBIT_NAME];
    rabbit_name(l->url, nobody, "nobody");
    rabbit_publish_begin(l);
    if (rabbit_publish(l, &(struct rabbit_envelope){ .key = str_from(nobody), .transient = true }, e))
        return e->code;
    enum err rc = rabbit_publish_end(l, e);
    return rc && !l->blocked ? rc : ERR_OK;
}

/* What tells of an alarm comes by another way than the confirm: so two are published. */
enum err rabbit_open_publisher(struct rabbit_link *l, struct error *e)
{
    return rabbit_open_channel(l, 1, true, e) || publish_to_nobody(l, e) || (!l->blocked && publish_to_nobody(l, e))
               ? e->code
               : ERR_OK;
}

/* A broker tells of an alarm only who publishes while there is one. Better something that nobody misses than a task of which nothing is known
 * then. */
enum err rabbit_ready_to_publish(struct rabbit_link *l, struct error *e)
{
    if (rabbit_ready(l, e))
        return e->code;
    if (!l->blocked && rabbit_now_ms() - l->confirms.latest_ms > SURE_MS && publish_to_nobody(l, e))
        return e->code;
    return l->blocked ? rabbit_is_blocked(e) : ERR_OK;
}
