#pragma once
/* server/server_internal.h - what assembly*.c share: assembly.c puts the process together and takes it apart, server_news.c tells the node what
 * happened elsewhere, server_ask.c asks it for others. */
#include <limits.h>
#include <pthread.h>

#include "platform/writer_split.h"
#include "server/catalog_watcher.h"
#include "server/fleet_watch.h"
#include "server/node_view.h"
#include "server/process.h"
#include "server/server.h"

enum { PEPPER_SIZE = 32, QUEUE_NAME_MAX = 128 };

struct inbox_nudge {
    struct task task; /* only what scheduler_nudge looks at */
    char queue[QUEUE_NAME_MAX];
};

struct server_inbox {
    struct call call;
    pthread_mutex_t lock;          /* over what follows */
    bool posted;                   /* the call is on its way */
    bool rules;                    /* the book has changed */
    bool reading, read;            /* rules of other nodes are being read; they were */
    uint64_t heeded;               /* what others are told of once the node goes by what was read; 0: nothing */
    uint64_t unblocked;            /* lanes of those who go on */
    struct store_notice elsewhere; /* what other nodes did */
    struct arena lanes_arena;      /* of the next: those that the store has */
    struct lane *lanes;
    size_t lane_count;
    struct fenced_id *settled; /* by other nodes: ours, perhaps */
    size_t settled_count, settled_cap;
    struct inbox_nudge *v;
    size_t n, cap;
};

/* Who knows tenants by their numbers, for messages. */
struct catalog_cache_names {
    struct queue_names base;
    struct catalog_cache *catalog;
    struct arena arena;
};

/* The queue and the events of a fleet (server_fleet.c). */
struct server_fleet {
    bool there;
    struct fleet fleet; /* until the courier has taken it */
    struct async_io *async_io;
    struct catalog_cache_names names;
    struct queue_filter filter; /* of what this node's own worker takes there */
    struct fleet_watch watch;
    uv_timer_t timer;

    pthread_mutex_t lock; /* over the next two */
    struct queue_state state;
    bool known;
};

struct server {
    struct server_setup setup;
    struct metrics *metrics;
    struct clock *clock; /* of a store that is shared; NULL: the machine's is the one */
    struct store *store; /* what is read, and news */
    struct catalog_cache *catalog;
    struct store *ways[WRITER_WAYS]; /* to write; of a store that carries one transaction, the first alone */
    struct batcher *batchers[WRITER_WAYS];
    struct writer_split split;
    struct loop *loop;
    struct queue *queue;
    struct events *events;
    struct async_io *async_io; /* to both */
    struct server_fleet fleet;
    struct runners runners;
    struct node *node;
    struct api_server *http;
    uint8_t pepper[PEPPER_SIZE];
    char name[PROCESS_NAME_TEXT];

    uv_signal_t signals[2];
    uv_timer_t deadline;
    struct retention_task retention_task;
    uv_work_t stop_http;
    bool handles, stopping, draining;
    struct call stop_call;
    struct server_inbox news;
    struct store_watch watch;
    struct catalog_watcher *watcher;
    struct node_view *view;
};

enum err server_load_lanes(struct server *a, struct error *e) must_use; /* those that the store has; on the loop */

/* ---- the store and its secrets (server_store.c) ---- */

enum err server_open_store(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e) must_use;
/* Once the store is open: who writes to it for the node. */
struct writer *server_open_writer(struct server *a);
void server_close_store(struct server *a); /* once nobody writes */

/* ---- what happened elsewhere (server_news.c) ---- */

void server_inbox_init(struct server *a);
void server_inbox_release(struct server *a);
void server_on_lanes_unblocked(void *context, uint64_t lanes); /* of the batcher, on its thread */

/* Of other nodes on the same store, until server_unwatch. */
enum err server_start_store_watch(struct server *a, struct error *e) must_use;
void server_stop_store_watch(struct server *a);

/* ---- questions to the loop (server_ask.c): what the API's threads want of the node ---- */

void server_lease(void *context, struct lease_ask *ask);
void server_lease_over(void *context, const struct task *t, uint64_t unblocked);
void server_recall(void *context, const struct recall_order *recall_request, struct recall_answer *answer);
void server_explain(void *context, const struct task *t, struct explain_answer *answer);
void server_describe_queues(void *context, struct queues_answer *answer);

/* ---- the fleet (server_fleet.c): each does nothing where there is none ---- */

enum err server_open_fleet(struct server *a, struct error *e) must_use;    /* the book and the loop are there */
void server_fleet_set_up_node(struct server *a, struct node_setup *setup); /* what the node is told of it */
void server_update_queue_state(struct server *a);                          /* how it is, after a step */
void server_close_fleet_io(struct server *a);                              /* before the node */
void server_close_fleet(struct server *a);
void server_start_fleet_watch(struct server *a); /* who does not answer is told of */
void server_stop_fleet_watch(struct server *a);
int64_t server_queue_timeout_max(void *context);
void server_write_fleet_status(struct server *a, int64_t now_ms, struct jw *w); /* members of the status */
