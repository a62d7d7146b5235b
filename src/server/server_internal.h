#pragma once
/* server/server_internal.h - declarations that the server*.c files share.
 *
 *  - server.c assembles the process, runs it and takes it apart;
 *  - server_node.c makes the node and passes on what it tells;
 *  - server_runners.c opens the runners and says which addresses they may call;
 *  - server_api.c starts the API, and server_status.c writes the status and metrics that it shows;
 *  - server_backlog.c counts the backlog of all nodes and judges alerts;
 *  - server_store.c opens the store and its secrets;
 *  - server_keys.c reads the key file, and server_reencryption.c encrypts again what older keys encrypted;
 *  - server_inbox.c passes notifications of other threads and other nodes to the loop;
 *  - server_loop_calls.c runs requests of API threads on the loop;
 *  - server_tls.c loads the certificate of the API, and again when it changes;
 *  - notify/server_notify.c starts the notifier;
 *  - server_fleet.c connects the node to the queue, events and lease of a fleet. */
#include <limits.h>
#include <pthread.h>

#include "base/thread_owner.h"
#include "platform/writer_split.h"
#include "server/backlog.h"
#include "server/catalog_watcher.h"
#include "server/fleet_watch.h"
#include "server/node_view.h"
#include "server/planner_threads.h"
#include "server/process.h"
#include "server/server.h"
#include "server/settings/unverified_links.h"
#include "server/stats/alert_watch.h"
#include "server/stats/stats_writer.h"

enum { PEPPER_SIZE = 32 };

/* One lane in which tasks were written, with their earliest due time; or the earliest cursor of recurring tasks. */
struct inbox_nudge {
    struct task task; /* only the fields that scheduler_nudge reads */
    char *texts;      /* of the task; kept for the next nudge */
};

/* A circuit breaker. */
struct inbox_breaker {
    int32_t tenant;
    size_t host_n;
    char host[TARGET_HOST_MAX];
};

/* Notifications for the loop. Any thread adds them under the lock; one loop call delivers all of them. */
struct server_inbox {
    struct call call;
    pthread_mutex_t lock;       /* guards everything below */
    bool call_pending;          /* the call was submitted to the loop and has not run yet */
    bool catalog_changed;       /* the catalog cache has changed */
    bool check_leases;          /* requests for leases that wait are to be checked (lease_ask.allowed) */
    bool catalog_reading;       /* another node changed the catalog; the catalog watcher is to read it */
    bool catalog_read;          /* the catalog watcher has read it, or has failed */
    uint64_t applied_barrier;   /* for store_catalog_applied, once the node uses the catalog; 0: none */
    uint64_t unblocked_lanes;   /* bits of lanes in which a task waited for a slot and got it */
    struct store_notice notice; /* all notices of other nodes, merged */
    struct arena lanes_arena;   /* of the next field */
    struct lane *lanes;         /* the lanes in the store, as the catalog watcher read them */
    size_t lane_count;
    struct arena breakers_arena;  /* of the next field */
    struct breaker_rows breakers; /* in the store, as the catalog watcher read them */
    bool breakers_read;
    struct inbox_breaker *closed; /* by users of this node's API */
    size_t closed_count, closed_cap;
    struct fenced_id *settled; /* tasks that other nodes settled; this node may hold some of them */
    size_t settled_count, settled_cap;
    struct inbox_nudge *nudges;
    size_t nudge_count, nudge_cap;
};

/* Finds a tenant's name and the signing key of a task in the catalog cache, for messages in a queue. */
struct catalog_cache_names {
    struct queue_names base;
    struct catalog_cache *catalog;
    struct arena arena;
    struct buf signing;
};

/* The queue, events and lease of a fleet (server_fleet.c). */
struct server_fleet {
    bool enabled;
    struct fleet fleet; /* owns each port until the I/O thread of that port takes it */
    struct async_io *async_io;
    struct catalog_cache_names names;
    struct queue_filter filter; /* of the worker inside this node */
    struct fleet_watch watch;
    uv_timer_t timer;

    pthread_mutex_t lock; /* guards the next two: the loop writes them, API threads read them */
    struct queue_state state;
    bool state_known;
};

/* The certificate of the API (server_tls.c). */
struct server_tls {
    struct tls *tls; /* NULL: plain HTTP */
    bool is_open;
    uv_timer_t timer;
    uv_signal_t hangup;
    int64_t tried_ms, warned_ms; /* the loop's */

    pthread_mutex_t lock; /* guards the next two: the loop writes them, API threads read them */
    struct error failure; /* of the last try; code 0: none */
    int64_t failures;
};

/* Is told of changes that the store makes by itself. */
struct server_changes {
    struct change_listener base;
    struct transition_log *log;
};

/* What the notification settings of tenants want. */
struct server_wants {
    struct hit_wants base;
    const struct catalog_cache *catalog;
};

struct server {
    struct server_setup setup;
    struct thread_owner loop_thread; /* taken while server_run runs */
    struct metrics *metrics;
    struct clock *clock;         /* the clock of a shared store; NULL: setup.clock is the machine's clock */
    struct store *store;         /* for reads and notices; one of `ways` */
    struct last_fire *last_fire; /* of a store that is not shared; NULL: not remembered */
    int64_t last_fired_ms;       /* wall: by the process before this one; INT64_MAX: not known */
    struct tenant_set *needs;    /* of tasks that the API accepts */
    struct catalog_cache *catalog;
    struct store *ways[OP_ROUTES]; /* one connection for each way of writing; SQLite has OP_VIA_ALL only */
    struct batcher *batchers[OP_ROUTES];
    struct writer_split split;
    struct loop *loop;
    struct queue *queue;       /* inside this process */
    struct events *events;     /* inside this process */
    struct async_io *async_io; /* of `queue` and `events`: calls them directly */
    struct server_fleet fleet;
    struct server_tls tls;
    struct unverified_links unverified;
    struct runners runners;
    struct definition_cache *definitions; /* of workflows */
    struct planner_threads *planner;
    struct node *node;
    struct api_server *http;
    uint8_t pepper[PEPPER_SIZE];
    struct secrets secrets; /* n is 0: secrets are not encrypted */
    bool made_pepper;       /* the data directory had none */
    char login_code[SERVER_KEY_TEXT];
    bool loopback_ended;   /* `default` is not the only tenant, and the log says so; loop thread */
    bool has_useless_keys; /* of another pepper: they are refused */
    char name[PROCESS_NAME_TEXT];

    uv_signal_t signals[2];
    uv_timer_t deadline;
    struct retention_task retention_task;
    struct stats_writer stats_writer;
    uv_work_t stop_http;
    bool handles_open, stopping, draining;
    struct server_inbox inbox;
    struct store_watch watch;
    struct catalog_watcher *watcher;
    struct backlog *backlog;
    struct alert_watch alerts;         /* the backlog's thread */
    struct server_wants wants;         /* of the stores in `ways` */
    struct notifier *notifier;         /* NULL: this node does not schedule */
    int64_t claim_failures;            /* as of the last heartbeat: the notifier's thread */
    struct reencryption *reencryption; /* NULL: secrets are not encrypted */
    struct node_view *view;
    struct transition_log *transitions;
    struct server_changes changes;
    struct tracer *tracer;     /* NULL: no spans are recorded */
    uint64_t shown_generation; /* of the nodes that were told to those who watch */
};

/* ---- the node (server_node.c) ---- */

void server_make_node(struct server *a); /* the thread that assembles the server; its ports are open */
/* Reads the lanes of the store and tells the node of each. Loop thread, or the thread that assembles the server. */
enum err server_load_lanes(struct server *a, struct error *e) must_use;
struct uuid server_node_id(void *context); /* any thread */
bool server_acts_for_all(void *context);   /* the only node, or the leader; any thread */

/* ---- runners (server_runners.c); the thread that assembles the server ---- */

enum err server_open_runners(struct server *a, struct error *e) must_use; /* once the loop exists */
void server_note_loopback(struct server *a);       /* logs once that tasks may no longer call loopback addresses */
struct guard_setup server_guard(struct server *a); /* which addresses users' targets may be at */

/* ---- the API (server_api.c, server_status.c) ---- */

/* The thread that assembles the server, once the node, the notifier and the backlog exist. */
enum err server_start_api(struct server *a, struct error *e) must_use;
/* Callbacks of the API server: `context` is the server. Any thread. */
void server_write_status(void *context, struct jw *w);
void server_write_metrics(void *context, struct buf *out);
bool server_is_ready(void *context, struct error *e);

/* ---- the backlog and alerts (server_backlog.c) ---- */

enum err server_start_backlog(struct server *a, struct error *e) must_use; /* once the node exists */
struct alert_facts server_alert_facts(void *context);                      /* any thread */
void server_tenant_load(void *context, int32_t tenant, int64_t *ret_running, int64_t *ret_due); /* any thread */

/* ---- store and secrets (server_store.c); the thread that assembles the server ---- */

enum err server_open_store(struct server *a, char ret_key[SERVER_KEY_TEXT], struct error *e) must_use;
/* Nodes of a shared store use the store's clock, because due times must mean the same on all of them. It is measured
 * before the API takes the first request; heartbeats measure it better later. */
enum err server_adopt_store_clock(struct server *a, struct error *e) must_use;
struct writer *server_open_writer(struct server *a); /* starts the batchers; after server_open_store */
void server_close_store(struct server *a);           /* after the batchers have ended */
enum err server_open_keys(struct server *a, struct error *e) must_use; /* server_keys.c; once the store is open */
/* What the store knows of the keys (reader_key_prints); any thread. */
enum err server_keys_known(struct server *a, struct key_prints *ret, struct error *e) must_use;
enum err server_keys_note(struct server *a, const struct key_print *k, struct error *e) must_use;
enum err server_keys_drop(struct server *a, const struct key_print *k, struct error *e) must_use;

enum err server_start_reencryption(struct server *a, struct error *e) must_use; /* once the writer is open */
void server_stop_reencryption(struct server *a);                                /* before the writer ends */
void server_write_secrets_status(struct server *a, struct jw *w);               /* any thread */

/* The log of changes of tasks (server_transitions.c); before the writer is open. */
void server_open_transitions(struct server *a);

/* ---- notifications of users (notify/server_notify.c) ---- */

void server_want_hits(struct server *a); /* once the catalog cache is filled, before the writer is open */
enum err server_start_notifier(struct server *a, struct error *e) must_use; /* once the writer is open */
bool server_signatures_are_known(void *context);                            /* any thread */
void server_watch_incidents(struct server *a, bool on);                     /* for live events, while there is an API */
bool server_notifications_are_known(void *context);                         /* any thread */
void server_on_message_made(void *context);                                 /* any thread */

/* ---- notifications to the loop (server_inbox.c) ---- */

void server_inbox_init(struct server *a);
void server_inbox_release(struct server *a);

/* Callbacks: `context` is the server. Each adds to the inbox and returns at once. */
void server_on_tasks_written(void *context, const struct task *tasks, size_t count); /* any thread */
void server_on_catalog_changed(void *context);                                       /* any thread */
void server_check_leases(void *context);                                             /* any thread */
void server_on_breaker_closed(void *context, int32_t tenant, struct str host);       /* any thread */
void server_on_lanes_unblocked(void *context, uint64_t lanes);                       /* the batcher's thread */

/* Starts and stops watching a shared store for changes by other nodes. Does nothing if the store is not shared. The
 * thread that assembles the server. */
enum err server_start_store_watch(struct server *a, struct error *e) must_use;
void server_stop_store_watch(struct server *a);

/* ---- requests of the API to the node (server_loop_calls.c); any thread ----
 *
 * Callbacks of the API server: `context` is the server. Each runs on the loop, and completes its answer there. */

void server_lease(void *context, struct lease_ask *ask);
void server_lease_over(void *context, const struct task *t, uint64_t unblocked);
void server_recall(void *context, const struct recall_order *recall_request, struct recall_answer *answer);
void server_explain(void *context, struct explain_answer *answer);
void server_describe_queues(void *context, struct queues_answer *answer);

/* ---- the fleet (server_fleet.c): without a fleet, each function does nothing ---- */

/* The thread that assembles the server, in this order; the catalog cache and the loop exist already. */
enum err server_open_fleet(struct server *a, struct error *e) must_use;
void server_fleet_set_up_node(struct server *a, struct node_setup *setup);
void server_start_fleet_watch(struct server *a); /* logs when a server of the fleet goes down or comes back */

void server_update_queue_state(struct server *a); /* after each step of the node; loop thread */

void server_stop_fleet_watch(struct server *a); /* loop thread */
void server_close_fleet_io(struct server *a);   /* before the node is freed: ends its requests */
void server_close_fleet(struct server *a);

int64_t server_queue_timeout_max(void *context);                                /* any thread */
void server_write_fleet_status(struct server *a, int64_t now_ms, struct jw *w); /* any thread */
void server_write_fleet_metrics(struct server *a, struct buf *out);             /* any thread */
/* Since when a server of the fleet cannot be reached; 0: all can, or there is no fleet. Any thread. */
int64_t server_backend_lost_ms(struct server *a);

/* ---- TLS of the API (server_tls.c) ---- */

enum err server_open_tls(struct server *a, struct error *e) must_use; /* before the API is started */
void server_warn_secrets(const struct server *a);                     /* once the store is open */
void server_warn_identities(const struct server *a);                  /* once the catalog cache is filled */
void server_start_tls_watch(struct server *a);                        /* once the loop exists */
void server_stop_tls_watch(struct server *a);                         /* loop thread */
void server_close_tls(struct server *a);                              /* after the API has ended */
void server_write_tls_status(struct server *a, struct jw *w);         /* any thread */
void server_write_tls_metrics(struct server *a, struct buf *out);     /* any thread */
