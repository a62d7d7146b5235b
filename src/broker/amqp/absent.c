/* Stands in for RabbitMQ in a binary that was built without librabbitmq. */
#include "broker/amqp/amqp.h"

static enum err absent(struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "needs RabbitMQ, which this belfry was built without: build it where librabbitmq is installed");
}

bool is_amqp_url(struct str url)
{
    return str_starts(url, S("amqp://")) || str_starts(url, S("amqps://"));
}

enum err queue_amqp_open(const struct amqp_setup *setup, struct queue **ret, struct error *e)
{
    (void)setup, (void)ret;
    return absent(e);
}

struct queue *queue_amqp_twin(struct queue *q)
{
    return q; /* there is none */
}

enum err queue_amqp_can_filter(struct str url, const struct queue_filter *f, struct error *e)
{
    (void)url, (void)f;
    return absent(e);
}

enum err events_amqp_open(const struct amqp_setup *setup, struct events **ret, struct error *e)
{
    (void)setup, (void)ret;
    return absent(e);
}
