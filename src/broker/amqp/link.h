#pragma once
/* broker/amqp/link.h - one connection to RabbitMQ: opened when it is needed, to the first host that answers, and
 * opened again after it broke.
 *
 * rabbit_pump reads all frames and passes them to hooks, because replies, confirms, deliveries and alarms come in
 * any order. If connecting fails, calls fail at once with the same error until the backoff is over. No call waits
 * longer than RABBIT_CALL_MS for a silent broker: then the connection is closed.
 * A broker that is short of memory or disk stops reading from connections that publish, and says so (`blocked`).
 * Therefore consuming and publishing use different links.
 * A link is used by one thread at a time: its owner locks. */
#include <sys/socket.h>

#include <amqp.h>

#include "base/buf.h"
#include "broker/amqp/url.h"

enum {
    RABBIT_CALL_MS = 2000,
    RABBIT_CHANNELS = 67,       /* numbered from 1 */
    RABBIT_BODY_MAX = 64 << 20, /* a larger message is not Belfry's */
    RABBIT_WORD = 80,
    RABBIT_NAME = 256,
};

/* A complete delivery. Texts that are too long are truncated. */
struct rabbit_message {
    uint16_t channel;
    uint64_t tag;
    bool redelivered; /* a consumer had it before and did not acknowledge it */
    bool got;         /* by basic.get, not by a consumer */
    bool returned;    /* published on this link, and routed to no queue */
    bool fired;       /* value of the header `fired`: a worker had the task */
    char consumer[RABBIT_WORD], type[RABBIT_WORD], message_id[RABBIT_WORD], reply_to[RABBIT_NAME];
    char reason[RABBIT_WORD]; /* why it was dead-lettered last; empty: it was not */
    /* a hook that keeps the body moves it out; `full`: the body was larger than RABBIT_BODY_MAX */
    struct buf body;
};

struct rabbit_link;

struct rabbit_hooks {
    /* Connected: opens channels, declares queues and starts consumers. */
    enum err (*opened)(struct rabbit_link *, struct error *e);
    void (*message)(struct rabbit_link *, struct rabbit_message *m);
    /* The connection was closed: unacknowledged deliveries return to their queues. May be NULL. */
    void (*closed)(struct rabbit_link *);
    /* A published message was routed to no queue. May be NULL. */
    void (*returned)(struct rabbit_link *, const struct rabbit_message *m);
    /* May this address be connected to? If one of a name's addresses may not, none is. A name is resolved once, and the
     * addresses that were checked are connected to. NULL: all may. */
    bool (*address_allowed)(struct rabbit_link *, const struct sockaddr *to);
    /* Called after a connect: may this broker be used? NULL: every broker may. */
    bool (*peer_allowed)(struct rabbit_link *, int fd);
};

struct rabbit_channel {
    bool open;
    bool vital; /* set by the owner: if the broker closes this channel, the link is closed */
    int close_code;
    size_t replies;  /* replies since rabbit_calls_begin */
    uint32_t *ready; /* number of messages of each declared queue */
    size_t ready_count, ready_cap;
    uint32_t *consumers;      /* number of consumers of each declared queue */
    struct rabbit_message in; /* the delivery that is being assembled */
    uint64_t missing;         /* bytes of its body that have not arrived */
};

/* Confirms of the messages published since rabbit_publish_begin. */
struct rabbit_confirms {
    uint64_t first, next; /* delivery tags: the broker counts publishes from 1 */
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
    uint64_t generation;           /* number of connects */
    bool blocked;
    bool classic; /* the broker has no quorum queues */
    size_t host;  /* index of the next host to try */
    int64_t retry_at_ms, backoff_ms;
    struct error why; /* why it is not connected */
    struct rabbit_channel channels[RABBIT_CHANNELS + 1];
    struct rabbit_confirms confirms;
};

int64_t rabbit_now_ms(void);                          /* steady clock */
static inline amqp_bytes_t rabbit_bytes(struct str s) /* librabbitmq does not write to it */
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

/* Called first by every call: reads pending frames, so that a connection that broke meanwhile is opened again at
 * once, and connects if needed. ERR_UNAVAILABLE: not connected. */
enum err rabbit_connect(struct rabbit_link *l, struct error *e) must_use;
void rabbit_drop(struct rabbit_link *l, const struct error *why); /* closes the connection */
int rabbit_fd(const struct rabbit_link *l);                       /* for poll; -1: not connected */

/* librabbitmq failed with `status`: closes the connection. Returns ERR_UNAVAILABLE. */
enum err rabbit_connection_error(struct rabbit_link *l, int status, struct error *e);

/* Reads all frames that are there, after waiting at most wait_ms for the first. Sends and checks heartbeats.
 * ERR_UNAVAILABLE: the connection is closed. */
enum err rabbit_pump(struct rabbit_link *l, int64_t wait_ms, struct error *e) must_use;

/* ---- calls: begun, sent (one or many on a channel), replies awaited in order ---- */

void rabbit_calls_begin(struct rabbit_link *l, uint16_t channel);
enum err rabbit_send(struct rabbit_link *l, uint16_t channel, amqp_method_number_t method, void *decoded,
                     struct error *e) must_use;
/* Waits until `replies` calls were answered. If the broker refuses one, it closes the channel: ERR_NOT_FOUND, or
 * ERR_CONFLICT if a queue or exchange exists with other arguments. */
enum err rabbit_await_replies(struct rabbit_link *l, uint16_t channel, size_t replies, struct error *e) must_use;
enum err rabbit_call(struct rabbit_link *l, uint16_t channel, amqp_method_number_t method, void *decoded,
                     struct error *e) must_use;
enum err rabbit_open_channel(struct rabbit_link *l, uint16_t channel, bool confirms, struct error *e) must_use;
/* Opens several channels from `first` on. If the broker closes one of them, the link is closed. */
enum err rabbit_open_channels(struct rabbit_link *l, uint16_t first, uint16_t count, struct error *e) must_use;
enum err rabbit_qos(struct rabbit_link *l, uint16_t channel, uint16_t prefetch, struct error *e) must_use;
/* Sends basic.get. The reply is a message, which goes to the message hook, or that the queue is empty; both count as
 * a reply. */
enum err rabbit_send_get(struct rabbit_link *l, uint16_t channel, const char *queue, struct error *e) must_use;

/* While a link is corked, what is sent goes into as few packets as possible, because the broker reads packet by
 * packet. */
void rabbit_cork(struct rabbit_link *l, bool on);

/* Acknowledgements have no reply. */
enum err rabbit_ack(struct rabbit_link *l, uint16_t channel, uint64_t tag, bool and_before, struct error *e) must_use;
enum err rabbit_reject(struct rabbit_link *l, uint16_t channel, uint64_t tag, bool requeue, struct error *e) must_use;

/* ---- publishing on channel 1, with publisher confirms ---- */

struct rabbit_envelope {
    struct str exchange, key, body;
    const char *type, *message_id, *reply_to; /* NULL: none */
    bool transient, mandatory, fired;         /* mandatory: counted as returned if it is routed to no queue */
    amqp_table_t headers;                     /* must be empty if `fired` is set */
    const char *content_type;                 /* NULL: JSON */
};

void rabbit_publish_begin(struct rabbit_link *l);
enum err rabbit_publish(struct rabbit_link *l, const struct rabbit_envelope *envelope, struct error *e) must_use;
/* Waits until all are confirmed. ERR_UNAVAILABLE: the fate of some is unknown. ERR_NOT_FOUND: some were routed to no
 * queue, the others were confirmed. */
enum err rabbit_publish_end(struct rabbit_link *l, struct error *e) must_use;
enum err rabbit_error_blocked(struct error *e);
