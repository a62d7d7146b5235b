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

struct news_item {
    struct task task; /* only what scheduler_nudge looks at */
    char queue[QUEUE_NAME_MAX];
};

struct news {
    struct call call;
    pthread_mutex_t lock;        /* over what follows */
    bool posted;                 /* the call is on its way */
    bool rules;                  /* the book has changed */
    bool reading, read;          /* rules of other nodes are being read; they were */
    uint64_t heeded;             /* what others are told of once the node goes by what was read; 0: nothing */
    uint64_t woke;               /* lanes of those who go on */
    struct store_news elsewhere; /* what other nodes did */
    struct arena lanes_arena;    /* of the next: those that the store has */
    struct lane *lanes;
    size_t lane_count;
    struct delivery_name *settled; /* by other nodes: ours, perhaps */
    size_t settled_count, settled_cap;
    struct news_item *v;
    size_t n, cap;
};

/* Who knows tenants by their numbers, for messages. */
struct book_names {
    struct queue_names base;
    struct book *book;
    struct arena arena;
};

/* The queue and the events of a fleet (server_fleet.c). */
struct assembly_fleet {
    bool there;
    struct fleet fleet; /* until the courier has taken it */
    struct courier *courier;
    struct book_names names;
    struct queue_filter filter; /* of what this node's own worker takes there */
    struct fleet_watch watch;
    uv_timer_t timer;

    pthread_mutex_t lock; /* over the next two */
    struct queue_state state;
    bool known;
};

struct assembly {
    struct assembly_setup setup;
    struct metrics *metrics;
    struct clock *clock; /* of a store that is shared; NULL: the machine's is the one */
    struct store *store; /* what is read, and news */
    struct book *book;
    struct store *ways[WRITER_WAYS]; /* to write; of a store that carries one transaction, the first alone */
    struct batcher *batchers[WRITER_WAYS];
    struct writer_split split;
    struct loop *loop;
    struct queue *queue;
    struct events *events;
    struct courier *courier; /* to both */
    struct assembly_fleet fleet;
    struct runners runners;
    struct node *node;
    struct http_server *http;
    uint8_t pepper[PEPPER_SIZE];
    char name[PROCESS_NAME_TEXT];

    uv_signal_t signals[2];
    uv_timer_t deadline;
    struct upkeep upkeep;
    uv_work_t stop_http;
    bool handles, stopping, draining;
    struct call stop_call;
    struct news news;
    struct store_watch watch;
    struct watcher *watcher;
    struct node_view *view;
};

enum err assembly_know_lanes(struct assembly *a, struct error *e) must_use; /* those that the store has; on the loop */

/* ---- the store and its secrets (server_store.c) ---- */

enum err assembly_open_store(struct assembly *a, char ret_key[ASSEMBLY_KEY_TEXT], struct error *e) must_use;
/* Once the store is open: who writes to it for the node. */
struct writer *assembly_open_writer(struct assembly *a);
void assembly_close_store(struct assembly *a); /* once nobody writes */

/* ---- what happened elsewhere (server_news.c) ---- */

void assembly_news_init(struct assembly *a);
void assembly_news_release(struct assembly *a);
void assembly_woke(void *context, uint64_t lanes); /* of the batcher, on its thread */

/* Of other nodes on the same store, until assembly_unwatch. */
enum err assembly_watch(struct assembly *a, struct error *e) must_use;
void assembly_unwatch(struct assembly *a);

/* ---- questions to the loop (server_ask.c): what the API's threads want of the node ---- */

void assembly_lease(void *context, struct lease_ask *ask);
void assembly_lease_over(void *context, const struct task *t, uint64_t woke);
void assembly_recall(void *context, const struct recall_wish *wish, struct recall_answer *answer);
void assembly_explain(void *context, const struct task *t, struct explain_answer *answer);
void assembly_ask_queues(void *context, struct queues_answer *answer);

/* ---- the fleet (server_fleet.c): each does nothing where there is none ---- */

enum err assembly_open_fleet(struct assembly *a, struct error *e) must_use; /* the book and the loop are there */
void assembly_join_fleet(struct assembly *a, struct node_setup *setup);     /* what the node is told of it */
void assembly_see_queue(struct assembly *a);                                /* how it is, after a step */
void assembly_close_courier(struct assembly *a);                            /* before the node */
void assembly_close_fleet(struct assembly *a);
void assembly_watch_fleet(struct assembly *a); /* who does not answer is told of */
void assembly_unwatch_fleet(struct assembly *a);
int64_t assembly_queue_timeout_max(void *context);
void assembly_write_fleet(struct assembly *a, int64_t now_ms, struct jw *w); /* members of the status */
