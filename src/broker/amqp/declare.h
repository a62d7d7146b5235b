#pragma once
/* broker/amqp/declare.h - declaring queues and exchanges on a RabbitMQ connection (broker/amqp/link.h), for the
 * adapters that use one, and opening the channel that publishes. */
#include "broker/amqp/link.h"

enum { WAKEUP_MAX = 64 }; /* messages in a RABBIT_WAKEUP queue */

/* Writes the name of a queue or an exchange: the prefix, a dot and the formatted text. */
void rabbit_name(const struct rabbit_url *u, char out[RABBIT_NAME], const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum rabbit_kind {
    RABBIT_TASKS,   /* delivers a message once: if a worker returns it, it goes to the queue of timed out deliveries */
    RABBIT_KEPT,    /* delivers a message that was not acknowledged again, without limit */
    RABBIT_ORDERED, /* the same for one consumer at a time; a rejected message goes to the dead-letter queue */
    RABBIT_STREAM,  /* a stream: every consumer reads it from its first message */
    RABBIT_WAKEUP,  /* consumed by workers that wait; a message says that there may be work, and expires after 1 s */
    RABBIT_LIFE,    /* holds one message, which is lost when the broker restarts */
    RABBIT_EXCLUSIVE, /* exclusive to the connection and deleted with it */
};

/* Declares a queue, of the best type that the broker has. *ret_ready (may be NULL): how many messages wait in it. */
enum err rabbit_declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                        uint32_t *ret_ready, struct error *e) must_use;
/* Sends the declaration of a wakeup queue, for many at once. answered: the broker replies, and the channel's
 * `consumers` has the number of consumers of each. */
enum err rabbit_send_declare_wakeup(struct rabbit_link *l, uint16_t channel, const char *name, bool answered,
                                    struct error *e) must_use;
/* Asks how many messages wait in a queue, for many at once: the replies are in the channel's `ready`. If a queue
 * does not exist, the broker closes the channel. */
enum err rabbit_send_count(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e) must_use;
/* Declares an exchange that copies each message to all queues bound to it. */
enum err rabbit_declare_fanout(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e) must_use;
enum err rabbit_bind(struct rabbit_link *l, uint16_t channel, const char *queue, const char *exchange,
                     struct error *e) must_use;
enum err rabbit_consume(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag, bool no_ack,
                        struct error *e) must_use;
/* Consumes a stream from its first message. */
enum err rabbit_consume_stream(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag,
                               struct error *e) must_use;

/* Opens channel 1 with publisher confirms, and learns whether the broker blocks publishers now (`blocked`). */
enum err rabbit_open_publisher(struct rabbit_link *l, struct error *e) must_use;
/* Connects if needed. ERR_UNAVAILABLE: not connected, or the broker blocks publishers. */
enum err rabbit_connect_to_publish(struct rabbit_link *l, struct error *e) must_use;
