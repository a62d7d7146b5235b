#pragma once
/* broker/amqp/amqp.h - RabbitMQ as a queue and as events, over AMQP 0-9-1 by librabbitmq. docs/RABBITMQ.md says what lies where.
 *
 *   amqp://user:password@host:5672,other:5672/vhost?prefix=belfry&heartbeat=3s      amqps:// with TLS; of several hosts the first that answers
 *
 *  prefix            begins the name of everything that is kept there                                      belfry
 *  heartbeat         a connection that is silent for twice that long is over, for both sides               3s
 *  consumer_timeout  the broker's: how long a delivery may stay with a worker; 0s: for ever                30m
 *  queues            quorum, or classic; a broker that has no quorum queues gets classic ones              quorum
 *  tenants           that have queues of their own: names, or * for all, or - for none; the others share   *
 *  priorities        class, or exact: a queue for each number instead of one a class                       class
 *  cacert            PEM file of who vouches for the broker                         /etc/ssl/certs/ca-certificates.crt
 *  cert, key         PEM files by which a broker knows us */
#include "port/events.h"
#include "port/queue.h"

struct amqp_setup {
    struct str url;                  /* copied */
    const struct queue_names *names; /* for who pushes; else NULL */
};

bool is_amqp_url(struct str url);

/* Opening asks nobody: a broker that can not be reached is told of by the first call. */
enum err queue_amqp_open(const struct amqp_setup *setup, struct queue **ret, struct error *e) must_use;

/* One more handle, for another thread: what was taken by either can be acknowledged by both. That a delivery is acknowledged by the connection
 * that it came by is how AMQP works, so a worker's handles must be such twins. Each is freed for itself. */
struct queue *queue_amqp_twin(struct queue *q);

/* Whether a worker may have such a filter, there: ERR_INVALID says which setting of the URL stands against it. */
enum err queue_amqp_can_filter(struct str url, const struct queue_filter *f, struct error *e) must_use;

enum err events_amqp_open(const struct amqp_setup *setup, struct events **ret, struct error *e) must_use;
