/* Replaces the adapter in a binary that was built without librabbitmq. */
#include "queue/amqp/queue_amqp.h"

static enum err queue_amqp_not_built(struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "needs RabbitMQ, which this belfry was built without: build it where librabbitmq is installed");
}

enum err queue_amqp_open(struct str url, const struct queue_names *names, struct queue **ret, struct error *e)
{
    (void)url;
    (void)names;
    (void)ret;
    return queue_amqp_not_built(e);
}

struct queue *queue_amqp_twin(struct queue *q)
{
    return q; /* never called: no queue can be opened */
}

enum err queue_amqp_can_filter(struct str url, const struct queue_filter *f, struct error *e)
{
    (void)url;
    (void)f;
    return queue_amqp_not_built(e);
}
