#pragma once
/* broker/amqp/internal.h - what the files of the AMQP adapters share. */
#include "broker/amqp/link.h"

/* The library could not go on with this connection: it is dropped. Returns ERR_UNAVAILABLE. */
enum err rabbit_broken(struct rabbit_link *l, int status, struct error *e);

/* ---- what is kept at the broker (declare.c) ---- */

enum { WAKEUP_MAX = 64 }; /* in a queue of that kind */

/* A name: the prefix, a dot and what is written by the format. */
void rabbit_name(const struct rabbit_url *u, char out[RABBIT_NAME], const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum rabbit_kind {
    RABBIT_TASKS,   /* a queue whose deliveries come once: what comes back from a worker goes to the lapsed */
    RABBIT_KEPT,    /* a queue that gives again what was not acknowledged, for ever */
    RABBIT_ORDERED, /* the same, for one consumer at a time; what it rejects goes to the dead letters */
    RABBIT_STREAM,  /* read by all from its first message on */
    RABBIT_WAKEUP, /* whoever waits for work consumes it: what is in it only says that there may be some, for a second */
    RABBIT_LIFE,   /* holds one message for as long as the broker runs */
    RABBIT_OWN,    /* gone with the connection */
};

/* Asks for a queue that may be there already, of the best type that the broker has; answers how many messages wait in it. */
enum err rabbit_declare(struct rabbit_link *l, uint16_t channel, const char *name, enum rabbit_kind kind,
                        uint32_t *ret_ready, struct error *e) must_use;
/* The same for bells, many at once or without an answer: who listens is in the channel's `consumers`. */
enum err rabbit_tell_declare_wakeup(struct rabbit_link *l, uint16_t channel, const char *name, bool answered,
                                    struct error *e) must_use;
/* How many messages wait in a queue, for many at once: the answers are in the channel's `ready`. One that is not there ends it. */
enum err rabbit_tell_count(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e) must_use;
/* An exchange to all queues that are bound to it. */
enum err rabbit_declare_fanout(struct rabbit_link *l, uint16_t channel, const char *name, struct error *e) must_use;
enum err rabbit_bind(struct rabbit_link *l, uint16_t channel, const char *queue, const char *exchange,
                     struct error *e) must_use;
enum err rabbit_consume(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag, bool no_ack,
                        struct error *e) must_use;
/* A stream's from its first message on. */
enum err rabbit_consume_stream(struct rabbit_link *l, uint16_t channel, const char *queue, const char *tag,
                               struct error *e) must_use;

/* Opens a publisher's channel, and learns whether the broker takes anything at all now: `blocked`. */
enum err rabbit_open_publisher(struct rabbit_link *l, struct error *e) must_use;
/* Connected, and it does. */
enum err rabbit_ready_to_publish(struct rabbit_link *l, struct error *e) must_use;
