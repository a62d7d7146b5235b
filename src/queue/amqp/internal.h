#pragma once
/* queue/amqp/internal.h - the queue over AMQP. docs/RABBITMQ.md says what is kept at the broker, and why so.
 *
 * Handles of one process that are twins share a hub. It has two links: one publishes, for the broker stops reading from who publishes when
 * it is short of memory, and one takes and acknowledges. Each has its lock, held while a broker is asked, but not while one waits for work.
 * Nobody asks for the lock of a link while holding the other's.
 *
 * A route is a queue at the broker: tasks that every worker either serves or does not. Workers find out about routes by a stream that all
 * read from its beginning (the catalogue), whose first record is also the queue's epoch. */
#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "broker/amqp/internal.h"
#include "queue/amqp/queue_amqp.h"

enum { /* channels of the link that takes; of the link that publishes, the second is for declaring */
       CHANNEL_TIMED_OUT = 1,
       CHANNEL_ASK = 2,  /* whatever may be refused */
       CHANNEL_NEWS = 3, /* the catalogue, what all workers are told, bells */
       CHANNEL_GET =
           4, /* and those behind it: a channel is given one task after the other, each when it is written down */
       GET_CHANNELS = 64,
};
enum { NEWS_PREFETCH = 1000 };
#define CONSUMER_CONTROL   "control"
#define CONSUMER_CATALOGUE "catalogue"

/* What the tasks of a route have in common. */
struct route_facts {
    struct str tenant; /* empty: those without queues of their own */
    struct str queue, requires;
    int64_t cpu_milli, memory_mb;
    int priority_min, priority_max;
    bool suspect;
};

struct route {
    struct route_facts facts; /* texts are behind it, like the next */
    struct str text;          /* as the catalogue has it */
    char name[RABBIT_NAME], wakeup[RABBIT_NAME];
    size_t number;        /* among the hub's */
    bool catalogued;      /* the catalogue has it, for sure */
    uint64_t declared;    /* by the connection of that generation */
    int64_t heard_ms;     /* when this process heard of it; 0: not yet */
    int64_t new_until_ms; /* until then its queue may be forgotten by the broker; 0: it will not */
    size_t asked;         /* of its messages, in the round that runs */
    bool ringing;         /* its bell is consumed */
    size_t pushed;        /* of a batch */
};

struct route_set {
    struct map by_text;
    struct route **v; /* in no order */
    size_t n, cap;
};

/* What came by a channel of the link that takes, until it is acknowledged or given back. */
struct unacked_delivery {
    struct list link;
    uint64_t tag;
    uint16_t channel;
    bool done; /* it is to be acknowledged */
};

/* A message that was read, and not handed out. */
struct held {
    struct list link;
    struct unacked_delivery *unacked_delivery;
    uint64_t generation;
    bool redelivered, fired;
    char reason[RABBIT_WORD], order[RABBIT_WORD];
    struct buf body;
};

/* A delivery that is with a worker here; or a lapse that was reported. */
struct outstanding {
    struct fenced_id id;
    struct unacked_delivery *unacked_delivery;
    int64_t since_ms;
    bool aborted; /* told */
};

enum { TOMBSTONES = 1024, TIMES = 8 };

struct queue_hub {
    struct rabbit_url url;
    const struct queue_names *names;
    char routes_name[RABBIT_NAME], timed_out_name[RABBIT_NAME], dead_name[RABBIT_NAME], control_name[RABBIT_NAME];

    pthread_mutex_t push_lock; /* of these */
    struct rabbit_link push;
    struct route_set pushed;
    uint64_t push_epoch;         /* of all that is confirmed by this connection; 0: not read yet */
    struct buf text;             /* of what is published */
    int64_t told_ms;             /* when the time was */
    int64_t stamp_us;            /* of what was published last */
    struct list new_queue_guard; /* what was pushed to queues that may be forgotten */
    bool new_queue_guard_open;   /* some of that are not confirmed yet */
    char life_name[RABBIT_NAME];
    uint64_t life; /* the generation that has begun it */

    pthread_mutex_t lock; /* of all below */
    int handles;
    struct rabbit_link link;
    struct {
        struct list unsettled; /* struct parcel */
        bool done;             /* some are */
    } unacked_list[RABBIT_CHANNELS + 1];
    uint16_t get_channels; /* that are open */
    struct route_set routes;
    size_t turn;                  /* whose routes are asked first, for fairness */
    struct map delivered;         /* fenced_id → struct outstanding */
    struct list inbox;            /* struct held: came, and was not handed out */
    struct map delivery_timeouts; /* fenced_id → struct outstanding: reported, not acknowledged */
    struct list timed_out_inbox;  /* struct held */
    uint64_t listening;           /* the generation that hears what is said to all workers */
    bool rung;                    /* something may be there to take, or something else was said */
    struct fenced_id *aborts;     /* not told yet */
    size_t abort_count, abort_cap;
    struct fenced_id tombstones[TOMBSTONES]; /* asked to abort, and not here: they may still come */
    size_t tombstone_next;
    uint64_t epoch;          /* of the catalogue; 0: not read yet */
    uint64_t epoch_before;   /* that this process knew of */
    int64_t epoch_lost_ms;   /* when it was seen to have changed; 0: never */
    int64_t ahead_us[TIMES]; /* of our steady clock, by what was told last: what came late makes it less, never more */
    size_t time_count;
    int wake_fd; /* for who waits while another thread reads */
    int waiting; /* who do */
};

struct queue_amqp {
    struct queue base;
    struct queue_hub *hub;
};

static inline struct queue_hub *hub_of(struct queue *q)
{
    return container_of(q, struct queue_amqp, base)->hub;
}

static inline struct str delivery_bytes(const struct fenced_id *d)
{
    return (struct str){ (const char *)d, sizeof *d };
}

/* ---- routes (routes.c) ---- */

void routes_init(struct route_set *s);
void routes_release(struct route_set *s);
struct route *routes_get(struct route_set *s, struct queue_hub *hub,
                         const struct route_facts *facts); /* made if need be */
struct route_facts route_of(const struct queue_hub *hub, const struct task *t, struct str tenant);
/* Whether a worker serves a route. ERR_INVALID: it would serve a part of it. */
enum err route_serves(const struct route_facts *r, const struct queue_filter *f, bool *ret, struct error *e) must_use;
/* What the catalogue says. */
void catalogue_heard(struct queue_hub *hub, const struct rabbit_message *m);
/* With the lock of who publishes: what was pushed there will find its queue, and workers the route. */
enum err catalogue_add(struct queue_hub *hub, struct route *r, struct error *e) must_use;
/* With the same lock: one record more, for good. */
enum err catalogue_write(struct queue_hub *hub, const char *type, struct str body, struct error *e) must_use;

/* ---- the epoch (epoch.c) ---- */

bool epoch_is(const struct rabbit_message *m, uint64_t *ret); /* a record that names one */
/* With the lock of who takes, which others may have meanwhile. One that is not there yet is made, by somebody. */
void epoch_heard(struct queue_hub *hub, uint64_t epoch);
enum err epoch_read(struct queue_hub *hub, struct error *e) must_use;
enum err queue_amqp_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                          struct error *e) must_use;
/* With the lock of who publishes: as it is opened; what comes; and until push_epoch is known. */
enum err push_epoch_begin(struct queue_hub *hub, struct error *e) must_use;
void push_epoch_heard(struct queue_hub *hub, const struct rabbit_message *m);
enum err push_epoch_read(struct queue_hub *hub, struct error *e) must_use;

/* ---- pushing (push.c) ---- */

enum { TASK_TEXT_MAX = 32 << 20 };

enum err queue_amqp_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                         struct error *e) must_use;
enum err queue_amqp_abort(struct queue *q, struct fenced_id d, struct error *e) must_use;
/* Without locks: a broker has no clock, so who asks for lapses, a control node, tells workers the time. */
void tell_time(struct queue_hub *hub);

/* ---- what may be forgotten (new_queue_guard.c); with the lock of who publishes, but for the last ---- */

enum { NEW_QUEUE_MS = 2000 };

void new_queue_guard_init(struct queue_hub *hub);
void new_queue_guard_release(struct queue_hub *hub);
/* For each connection once: a route that may be new. */
enum err new_queue_guard_route(struct queue_hub *hub, struct route *r, bool is_new, struct error *e) must_use;
/* Of what is published to a route, if it is young; and whether all of the push was confirmed: else it is forgotten. */
void new_queue_guard_keep(struct queue_hub *hub, struct route *r, struct str text, bool once);
void new_queue_guard_pushed(struct queue_hub *hub, bool confirmed);
/* Connected: what was pushed by a connection before, and what is old enough. */
enum err new_queue_guard_settle(struct queue_hub *hub, struct error *e) must_use;
void new_queue_guard_look(struct queue_hub *hub);

/* ---- taking (take.c) and lapses (delivery_timeout.c) ---- */

enum err queue_amqp_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret,
                         struct error *e) must_use;
enum err queue_amqp_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                              struct error *e) must_use;
/* ---- what is not settled (unacked.c) ---- */

void unacked_list_init(struct queue_hub *hub);
void unacked_list_forget(struct queue_hub *hub);
struct unacked_delivery *unacked_new(struct queue_hub *hub, uint16_t channel, uint64_t tag);
void unacked_done(struct queue_hub *hub, struct unacked_delivery *p);
enum err unacked_ack_done(struct queue_hub *hub, struct error *e) must_use; /* all that are */
enum err unacked_reject(struct queue_hub *hub, struct unacked_delivery *p, bool requeue, struct error *e) must_use;

/* ---- asking (get.c) ---- */

/* Of the link that takes. Who unlocks wakes who waits: what it waits for may have been read. */
void hub_lock(struct queue_hub *hub);
void hub_unlock(struct queue_hub *hub);
/* With the lock, which others may have meanwhile: until something came, or was read by another; or so long. The link may be another then. */
void hub_wait(struct queue_hub *hub, int64_t ms);
/* From each route as many as it was `asked` for, if they are there: then they are in the inbox. */
enum err routes_get_asked(struct queue_hub *hub, struct route *const *v, size_t n, struct error *e) must_use;
/* How many wait on each route; the answer is the channel's. */
enum err routes_count(struct queue_hub *hub, struct route *const *v, size_t n, const uint32_t **ret,
                      struct error *e) must_use;
void control_heard(struct queue_hub *hub, const struct rabbit_message *m);
void held_free(struct held *h);
void held_free_all(struct list *l);

/* Without locks: to another queue, confirmed, and then acknowledged where it came from. */
enum err held_move(struct queue_hub *hub, struct list *from, const char *to, bool fired, struct error *e) must_use;
