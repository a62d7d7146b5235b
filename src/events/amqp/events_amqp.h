#pragma once
/* events/amqp/events_amqp.h - events on RabbitMQ. docs/RABBITMQ.md describes the queues at the broker,
 * broker/amqp/url.h the address. A binary built without librabbitmq fails with ERR_INVALID. */
#include "port/events.h"

/* Opens a handle without connecting: the first call connects, and returns ERR_UNAVAILABLE if it cannot. url is
 * copied. */
enum err events_amqp_open(struct str url, struct events **ret, struct error *e) must_use;
