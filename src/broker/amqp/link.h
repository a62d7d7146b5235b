#pragma once
/* broker/amqp/link.h - one connection to a broker: opened when it is needed, on whichever host answers, and again after it broke.
 *
 * All frames are read in one place (rabbit_pump) and told of by hooks, so that answers, confirms, deliveries and alarms may come in any
 * order. A link that could not be opened says so without trying until its backoff is over. No call waits longer than RABBIT_CALL_MS for a
 * broker that is silent: then the link is dropped.
 * A broker short of memory or disk stops reading from who publishes, and says so (`blocked`): who consumes and acknowledges therefore has
 * another link than who publishes. Not for two threads at once: its owner locks. */
#include <amqp.h>

#include "base/buf.h"
#include "broker/amqp/url.h"

enum {
    RABBIT_CALL_MS = 2000,
    RABBIT_CHANNELS = 67,       /* numbered from 1 */
    RABBIT_BODY_MAX = 64 << 20, /* what is larger is no message of ours */
    RABBIT_WORD = 80,
    RABBIT_NAME = 256,
};

/* A delivery, all of it. Texts are cut at their ends. */
struct rabbit_message {
    uint16_t channel;
    uint64_t tag;
    bool redelivered; /* somebody had it before and did not acknowledge it */
    bool got;         /* asked for, not consumed */
    bool returned;    /* what was published here reached no queue */
    bool fired;       /* what its header of that name says */
    char consumer[RABBIT_WORD], type[RABBIT_WORD], message_id[RABBIT_WORD], reply_to[RABBIT_NAME];
    char reason[RABBIT_WORD]; /* why it was dead-lettered, the latest time; empty: it was not */
    struct buf body;          /* who keeps it moves it out; full: it was too large */
};

struct rabbit_link;

struct rabbit_hooks {
    enum err (*opened)(struct rabbit_link *, struct error *e); /* opens channels, declares and consumes */
    void (*message)(struct rabbit_link *, struct rabbit_message *m);
    void (*closed)(struct rabbit_link *); /* what was delivered by it goes back to its queues; NULL: nobody cares */
    void (*returned)(struct rabbit_link *,
                     const struct rabbit_message *m); /* it reached no queue; NULL: the count will do */
    bool (*judge)(struct rabbit_link *,
                  int fd); /* whether a broker that was connected to may be spoken with; NULL: any may */
};

struct rabbit_channel {
    bool open;
    bool vital; /* without it the link is of no use: set by who opens it */
    int close_code;
    size_t replies;  /* answers since rabbit_begin */
    uint32_t *ready; /* of declared queues: how many messages wait there */
    size_t ready_count, ready_cap;
    uint32_t *consumers;      /* likewise: who consume them */
    struct rabbit_message in; /* the delivery that is being put together */
    uint64_t missing;         /* bytes of its body */
};

/* Of what was published since rabbit_publish_begin. */
struct rabbit_confirms {
    uint64_t first, next; /* numbers on the channel, as the broker counts */
    size_t left, refused, returned;
    int64_t latest_ms;
    bool *seen;
    size_t cap;
};

struct rabbit_link {
    const struct rabbit_url *url;
    const struct rabbit_hooks *hooks;
    void *owner;
    amqp_connection_state_t state; /* NULL: not connected */
    uint64_t generation;           /* how often it was connected */
    bool blocked;
    bool classic; /* the broker has no quorum queues */
    size_t host;  /* the next to try */
    int64_t retry_at_ms, backoff_ms;
    struct error why; /* it is not connected */
    struct rabbit_channel channels[RABBIT_CHANNELS + 1];
    struct rabbit_confirms confirms;
};

int64_t rabbit_now_ms(void);                          /* on a clock that only goes on */
static inline amqp_bytes_t rabbit_bytes(struct str s) /* which the library only reads */
{
    amqp_bytes_t b = { .len = s.n };
    memcpy(&b.bytes, &s.p, sizeof b.bytes);
    return b;
}
static inline amqp_bytes_t rabbit_text(const char *text)
{
    return rabbit_bytes(str_from(text));
}

void rabbit_link_init(struct rabbit_link *l, const struct rabbit_url *url, const struct rabbit_hooks *hooks,
                      void *owner);
void rabbit_link_release(struct rabbit_link *l);

/* Connected, or why not. What came is read first: a connection that broke while nobody looked is opened again at once. */
enum err rabbit_ready(struct rabbit_link *l, struct error *e) must_use;
void rabbit_drop(struct rabbit_link *l, const struct error *why); /* not connected any more */
int rabbit_fd(const struct rabbit_link *l);                       /* to wait on; -1: not connected */

/* Reads what is there, having waited for the first of it for at most wait_ms; heartbeats are sent and checked. ERR_UNAVAILABLE: dropped. */
enum err rabbit_pump(struct rabbit_link *l, int64_t wait_ms, struct error *e) must_use;

/* ---- questions: begun, asked one or many on a channel, answered in order ---- */

void rabbit_begin(struct rabbit_link *l, uint16_t channel);
enum err rabbit_tell(struct rabbit_link *l, uint16_t channel, amqp_method_number_t method, void *decoded,
                     struct error *e) must_use;
/* Until so many were answered. A broker that refuses closes the channel: ERR_NOT_FOUND, or ERR_CONFLICT if it is otherwise than we say. */
enum err rabbit_await(struct rabbit_link *l, uint16_t channel, size_t answers, struct error *e) must_use;
enum err rabbit_ask(struct rabbit_link *l, uint16_t channel, amqp_method_number_t method, void *decoded,
                    struct error *e) must_use;
enum err rabbit_open_channel(struct rabbit_link *l, uint16_t channel, bool confirms, struct error *e) must_use;
/* Several, from `first` on, that live as long as the link. */
enum err rabbit_open_channels(struct rabbit_link *l, uint16_t first, uint16_t count, struct error *e) must_use;
enum err rabbit_qos(struct rabbit_link *l, uint16_t channel, uint16_t prefetch, struct error *e) must_use;
/* Asks for the next message of a queue: it comes by the hook, and counts as an answer, or there is none, and that does. */
enum err rabbit_tell_get(struct rabbit_link *l, uint16_t channel, const char *queue, struct error *e) must_use;

/* What is told while a link is corked goes in as few packets as it fits into: a broker reads packet by packet. */
void rabbit_cork(struct rabbit_link *l, bool on);

/* Fire and forget, as acknowledgements are. */
enum err rabbit_ack(struct rabbit_link *l, uint16_t channel, uint64_t tag, bool and_before, struct error *e) must_use;
enum err rabbit_reject(struct rabbit_link *l, uint16_t channel, uint64_t tag, bool requeue, struct error *e) must_use;

/* ---- publishing on channel 1, which confirms ---- */

struct rabbit_envelope {
    struct str exchange, key, body;
    const char *type, *message_id, *reply_to; /* NULL: none */
    bool transient, mandatory, fired;         /* mandatory: one that reaches no queue counts as returned */
    amqp_table_t headers;                     /* beside `fired`, which can not be there with them */
    const char *content_type;                 /* NULL: JSON */
};

void rabbit_publish_begin(struct rabbit_link *l);
enum err rabbit_publish(struct rabbit_link *l, const struct rabbit_envelope *letter, struct error *e) must_use;
/* Until all are confirmed. ERR_UNAVAILABLE: of some nothing is known; ERR_NOT_FOUND: some reached no queue, the others did. */
enum err rabbit_publish_end(struct rabbit_link *l, struct error *e) must_use;
enum err rabbit_is_blocked(struct error *e);
