#pragma once
/* queue/amqp/internal.h - the state that the files of the queue on RabbitMQ share. docs/RABBITMQ.md describes the
 * queues at the broker and the reasons.
 *
 * Twin handles of one process share a hub. The hub has two links, each with its own lock:
 *  - `push` publishes. A broker that is short of memory stops reading from connections that publish, so nothing else
 *    may depend on this link;
 *  - `link` takes and acknowledges.
 * A thread holds a lock while it calls the broker, not while it waits for work. No thread waits for one lock while
 * it holds the other, except that catalogue_add takes `lock` briefly under `push_lock`.
 *
 * A route is one task queue at the broker. All its tasks have the same facts, so a worker serves either all of them
 * or none. Workers learn of routes from a stream that all read from its beginning (the catalogue). Its first epoch
 * record is the queue's epoch. */
#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "broker/amqp/declare.h"
#include "queue/amqp/queue_amqp.h"

enum { /* channels of `link`; `push` publishes on channel 1 and uses CHANNEL_CALLS and CHANNEL_CONSUME likewise */
       CHANNEL_TIMED_OUT = 1,
       CHANNEL_CALLS = 2,   /* calls that the broker may refuse */
       CHANNEL_CONSUME = 3, /* consumers: the catalogue, control messages, wakeups */
       /* the first of GET_CHANNELS: the broker answers one basic.get after the other on a channel, each when it is on
        * disk */
       CHANNEL_GET = 4,
       GET_CHANNELS = 64,
};
enum { CONSUME_PREFETCH = 1000 };
#define CONSUMER_CONTROL   "control"
#define CONSUMER_CATALOGUE "catalogue"
/* types of control messages about a task */
#define CONTROL_ABORT     "abort"
#define CONTROL_WANT_BACK "want_back"

/* The facts that all tasks of a route have in common. */
struct route_facts {
    struct str tenant; /* empty: tenants without queues of their own */
    struct str queue, requires;
    int64_t cpu_milli, memory_mb;
    int priority_min, priority_max;
    bool suspect;
};

struct route {
    struct route_facts facts; /* its texts and `text` are allocated behind the struct */
    struct str text;          /* JSON, as written to the catalogue */
    char name[RABBIT_NAME], wakeup[RABBIT_NAME];
    size_t number;                /* index in route_set.v */
    bool catalogued;              /* was read from the catalogue by this connection */
    uint64_t declared_generation; /* generation of the `push` connection that declared its queues */
    int64_t found_ms;             /* when this process read it from the catalogue; 0: not yet */
    /* until then a crash may make the broker lose the new queue (new_queue_guard.c); 0: it cannot */
    int64_t new_until_ms;
    size_t get_count;       /* basic.gets to send in this round */
    bool wakeup_subscribed; /* its wakeup queue is consumed */
    bool wanted;            /* while subscriptions change: it is to be consumed */
    size_t push_count;      /* tasks of the current push */
};

struct route_set {
    struct map by_text;
    struct route **v; /* unordered */
    size_t n, cap;
};

/* A delivery on a channel of `link`, until it is acknowledged or rejected. */
struct unacked_delivery {
    struct list link;
    uint64_t tag;
    uint16_t channel;
    bool done; /* to be acknowledged by unacked_ack_done */
};

/* A message that was received and not handed out yet. */
struct received {
    struct list link;
    struct unacked_delivery *unacked_delivery;
    uint64_t generation;
    bool redelivered, fired;
    char reason[RABBIT_WORD], order[RABBIT_WORD];
    struct buf body;
};

/* A delivery that a worker of this process has; or a delivery timeout that was reported. */
struct outstanding {
    struct fenced_id id;
    struct unacked_delivery *unacked_delivery;
    int64_t since_ms;
    bool aborted; /* the worker was told */
};

/* What users want of deliveries: told to the worker by its next take. */
struct delivery_requests {
    struct fenced_id *v;
    size_t n, cap;
};

enum { TOMBSTONES = 1024, TIMES = 8 };

/* The last requests about tasks that are not here: a task may arrive after its request. */
struct tombstones {
    struct fenced_id v[TOMBSTONES];
    size_t next;
};

struct queue_hub {
    struct rabbit_url url;
    const struct queue_names *names;
    char routes_name[RABBIT_NAME], timed_out_name[RABBIT_NAME], dead_name[RABBIT_NAME], control_name[RABBIT_NAME];

    pthread_mutex_t push_lock; /* guards the members up to `lock` */
    struct rabbit_link push;
    struct route_set pushed;
    uint64_t push_epoch;              /* epoch of everything that this connection has confirmed; 0: not read yet */
    struct buf text;                  /* the body that is published */
    int64_t time_published_ms;        /* when the time was published last */
    int64_t stamp_us;                 /* order stamp of the last published task */
    struct list new_queue_guard;      /* struct new_queue_copy: copies of tasks in queues that a crash may lose */
    bool new_queue_guard_unconfirmed; /* some copies belong to the push that is running */
    char life_name[RABBIT_NAME];
    uint64_t life_generation; /* generation of the connection that published to life_name */

    pthread_mutex_t lock; /* guards all members below */
    int handles;
    struct rabbit_link link;
    struct {
        struct list unsettled; /* struct unacked_delivery, in the order of arrival */
        bool done;             /* at least one is `done` */
    } unacked_list[RABBIT_CHANNELS + 1];
    uint16_t get_channels; /* number of open get channels */
    struct route_set routes;
    size_t turn;                  /* rotates which routes are asked first, for fairness */
    struct map delivered;         /* fenced_id → struct outstanding */
    struct list inbox;            /* struct received: not handed out yet */
    struct map delivery_timeouts; /* fenced_id → struct outstanding: reported, not acknowledged */
    struct list timed_out_inbox;  /* struct received */
    uint64_t control_generation;  /* generation of the connection that consumes control messages */
    bool has_news;                /* a wakeup, an abort or a new route has arrived */
    bool unblocked;               /* the take that waits, or the next one, returns */
    struct delivery_requests aborts, wanted;
    uint64_t heard_generation; /* of the connection by which the last take has heard of them */
    /* The pause of a large run asks for more tasks than fit, and must not push out aborts. */
    struct tombstones aborted_early, wanted_early;
    uint64_t epoch;        /* from the catalogue; 0: not read yet */
    uint64_t last_epoch;   /* the epoch that this process read last */
    int64_t epoch_lost_ms; /* when the epoch was seen to change; 0: never */
    /* published time minus steady clock, of the last TIMES messages; a late message shows too small a difference, so
     * the largest counts */
    int64_t clock_offset_us[TIMES];
    size_t time_count;
    int wake_fd; /* eventfd: wakes threads that wait while another thread reads */
    int waiting; /* number of threads that wait */
};

struct queue_amqp {
    struct queue base;
    struct queue_hub *hub;
};

static inline struct queue_hub *hub_of(struct queue *q)
{
    return container_of(q, struct queue_amqp, base)->hub;
}

/* ---- routes (routes.c) ---- */

void routes_init(struct route_set *s);
void routes_release(struct route_set *s);
struct route *routes_get(struct route_set *s, struct queue_hub *hub,
                         const struct route_facts *facts); /* created if missing */
struct route_facts route_of(const struct queue_hub *hub, const struct task *t, struct str tenant);
/* Whether a worker with this filter serves a route. ERR_INVALID: the filter would split the route. */
enum err route_serves(const struct route_facts *r, const struct queue_filter *f, bool *ret, struct error *e) must_use;
/* The facts of a route, from its text. They borrow from the arena. */
enum err route_read_facts(struct str text, struct arena *a, struct route_facts *ret, struct error *e) must_use;

/* ---- the catalogue (catalogue.c) ---- */

/* Applies a record of the catalogue. The caller holds `lock`. */
void catalogue_on_record(struct queue_hub *hub, const struct rabbit_message *m);
/* The caller holds push_lock. Declares the queues of a route and adds the route to the catalogue, if this connection
 * has not done so. */
enum err catalogue_add(struct queue_hub *hub, struct route *r, struct error *e) must_use;
/* The caller holds push_lock. Appends a record to the catalogue and waits for the confirm. */
enum err catalogue_write(struct queue_hub *hub, const char *type, struct str body, struct error *e) must_use;

/* ---- the epoch (epoch.c) ---- */

bool epoch_is(const struct rabbit_message *m, uint64_t *ret); /* whether a record is an epoch */
/* The caller holds `lock`; epoch_read releases it for a while. If the catalogue has no epoch, epoch_read appends
 * one. */
void epoch_on_record(struct queue_hub *hub, uint64_t epoch);
enum err epoch_read(struct queue_hub *hub, struct error *e) must_use;
/* Likewise, after epoch_read. Whether a delivery that was pushed in this epoch (0: unknown) may still be there. */
bool epoch_may_have(const struct queue_hub *hub, const struct fenced_id *id, uint64_t pushed_in);
enum err queue_amqp_known(struct queue *q, const struct fenced_id *v, const uint64_t *epochs, size_t n, bool *ret,
                          struct error *e) must_use;
/* The caller holds push_lock. push_epoch_begin: when the connection opens. push_epoch_on_record: for each record.
 * push_epoch_read: waits until push_epoch is known. */
enum err push_epoch_begin(struct queue_hub *hub, struct error *e) must_use;
void push_epoch_on_record(struct queue_hub *hub, const struct rabbit_message *m);
enum err push_epoch_read(struct queue_hub *hub, struct error *e) must_use;

/* ---- pushing (push.c) ---- */

enum { TASK_TEXT_MAX = 32 << 20 };

enum err queue_amqp_push(struct queue *q, const struct task *tasks, size_t n, uint64_t epoch, struct pushed *ret,
                         struct error *e) must_use;
enum err queue_amqp_abort(struct queue *q, struct fenced_id d, struct error *e) must_use;
enum err queue_amqp_want_back(struct queue *q, const struct task *t, uint64_t epoch, enum want_back_answer *ret,
                              struct error *e) must_use;
/* Called without locks. A broker has no clock that can be asked, so control nodes, which ask for delivery timeouts,
 * publish the time to the workers. */
void queue_amqp_publish_time(struct queue_hub *hub);

/* ---- tasks in new queues (new_queue_guard.c); the caller holds push_lock, except of new_queue_guard_check ---- */

enum { NEW_QUEUE_MS = 2000 };

void new_queue_guard_init(struct queue_hub *hub);
void new_queue_guard_release(struct queue_hub *hub);
/* Called once for each connection and route. is_new: the route's queue may have been created just now. */
enum err new_queue_guard_route(struct queue_hub *hub, struct route *r, bool is_new, struct error *e) must_use;
/* new_queue_guard_add_copy: keeps a copy of a published task, if the route's queue is new.
 * new_queue_guard_push_ended: drops the copies of a push that was not confirmed. */
void new_queue_guard_add_copy(struct queue_hub *hub, struct route *r, struct str text, bool once);
void new_queue_guard_push_ended(struct queue_hub *hub, bool confirmed);
/* Needs a connection. Decides about the copies of earlier connections, and drops those that are old enough. */
enum err new_queue_guard_resolve(struct queue_hub *hub, struct error *e) must_use;
void new_queue_guard_check(struct queue_hub *hub);

/* ---- taking (take.c) and delivery timeouts (delivery_timeout.c) ---- */

enum err queue_amqp_take(struct queue *q, const struct take *t, struct arena *a, struct taken *ret,
                         struct error *e) must_use;
enum err queue_amqp_unblock(struct queue *q, struct uuid worker, struct error *e) must_use;
enum err queue_amqp_timed_out(struct queue *q, int64_t now_ms, struct arena *a, struct delivery_timeouts *ret,
                              struct error *e) must_use;
/* Applies a control message about a task. The caller holds `lock`. */
void control_on_message(struct queue_hub *hub, const struct rabbit_message *m);
void received_free(struct received *h);
void received_free_all(struct list *l);
/* Called without locks. Publishes messages to another queue, waits for the confirms, then acknowledges them where
 * they came from. */
enum err received_move(struct queue_hub *hub, struct list *from, const char *to, bool fired, struct error *e) must_use;

/* ---- unacknowledged deliveries (unacked.c); the caller holds `lock` ---- */

void unacked_list_init(struct queue_hub *hub);
void unacked_list_clear(struct queue_hub *hub);
struct unacked_delivery *unacked_new(struct queue_hub *hub, uint16_t channel, uint64_t tag);
void unacked_done(struct queue_hub *hub, struct unacked_delivery *p);
enum err unacked_ack_done(struct queue_hub *hub, struct error *e) must_use; /* acknowledges all that are done */
enum err unacked_reject(struct queue_hub *hub, struct unacked_delivery *p, bool requeue, struct error *e) must_use;

/* ---- locking and waiting (hub_lock.c) ---- */

/* The lock of `link`. hub_unlock wakes waiting threads: what they wait for may have been read. */
void hub_lock(struct queue_hub *hub);
void hub_unlock(struct queue_hub *hub);
/* The caller holds `lock`, which is released while waiting. Returns when something arrived, when another thread
 * unlocked, or after ms. The link may have been reconnected then. */
void hub_wait(struct queue_hub *hub, int64_t ms);
/* ---- counting and basic.get (get.c); the caller holds `lock` ---- */

/* Gets get_count messages from each route, as far as they are there, into the inbox. */
enum err routes_get_messages(struct queue_hub *hub, struct route *const *v, size_t n, struct error *e) must_use;
/* Counts the waiting messages of each route; *ret belongs to the channel. */
enum err routes_count(struct queue_hub *hub, struct route *const *v, size_t n, const uint32_t **ret,
                      struct error *e) must_use;
