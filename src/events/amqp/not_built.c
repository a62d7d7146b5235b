/* Replaces the adapter in a binary that was built without librabbitmq. */
#include "events/amqp/events_amqp.h"

enum err events_amqp_open(struct str url, struct events **ret, struct error *e)
{
    (void)url;
    (void)ret;
    return error_set(e, ERR_INVALID,
                     "needs RabbitMQ, which this belfry was built without: build it where librabbitmq is installed");
}
