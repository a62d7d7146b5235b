#pragma once
/* queue/amqp/queue_amqp.h - the queue on RabbitMQ. docs/RABBITMQ.md describes the queues and exchanges at the broker,
 * broker/amqp/url.h the address. A binary built without librabbitmq fails with ERR_INVALID. */
#include "port/queue.h"

/* Opens a handle without connecting: the first call connects, and returns ERR_UNAVAILABLE if it cannot.
 *  - url: copied;
 *  - names: needed by a handle that pushes; must outlive the queue. NULL: the handle does not push. */
enum err queue_amqp_open(struct str url, const struct queue_names *names, struct queue **ret, struct error *e) must_use;

/* Returns one more handle on the same connection, for another thread. AMQP accepts an acknowledgement only on the
 * connection that carried the delivery. Therefore all handles of a worker must be twins: a delivery taken by one can be
 * acknowledged by another. Each handle is freed separately. */
struct queue *queue_amqp_twin(struct queue *q);

/* Checks that a worker can use the filter with this address. ERR_INVALID: the sentence names the parameter of the URL
 * that forbids it. */
enum err queue_amqp_can_filter(struct str url, const struct queue_filter *f, struct error *e) must_use;
