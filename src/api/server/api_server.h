#pragma once
/* api/server/api_server.h - the HTTP API server. Its threads:
 * - HTTP threads (http/server.h) read requests and send answers. They never touch the store.
 * - Pool threads, each with a store reader of its own, run the handlers that read. Half of them at most run slow ones
 *   (ROUTE_SLOW); one thread beside them runs probes only (ROUTE_PROBE).
 * - The timer thread calls back when a time limit has passed.
 * - The operator's listener, if there is one, has an HTTP thread and a pool thread of its own. So no load on the API
 *   delays it. It serves the routes with ROUTE_OPERATOR only.
 *
 * A change goes as an operation to the writer. Its `done` finishes the answer and wakes the connection. No thread
 * blocks to wait for another: a request that waits holds no thread.
 *
 * Everything in the setup must outlive the server. The writer must be driven until api_server_stop has returned. */
#include <stdatomic.h>

#include "api/auth/client_identity.h"
#include "base/json/jsonw.h"
#include "base/metrics.h"
#include "http/server.h"
#include "node/catalog_cache.h"
#include "node/lease/leasing.h"
#include "node/node.h"
#include "port/clock.h"
#include "port/store.h"
#include "port/zoneinfo.h"
#include "workflow/definition_cache.h"

/* A request to the owner of a RUNNING task to change it, and the answer (node/node.h). The results:
 * - RECALL_DONE: the owner took the task off the wheel or the queue and wrote the row `replace`, under its fence,
 *   together with the idempotency record. `became` is the state that was stored.
 * - RECALL_ABORTING: with `abort`, the owner breaks off the call. The caller re-reads the row until it is settled. Also
 *   the result for a task that no node has any more.
 * - RECALL_FREED: another node had the task and gave it back, or the task has ended. The caller starts again with the
 *   row as it is now.
 * - RECALL_RUNNING: the task goes on unchanged.
 * - RECALL_ANSWERED: the idempotency key has a record by now; its answer counts.
 *
 * The answer is given exactly once, on any thread, perhaps before `recall` returns. The recall_order stays valid until
 * then. */
struct recall_order {
    const struct task *running, *replace;
    const struct idempotency *record; /* NULL: none */
    const struct audit *audit;        /* NULL: none */
    bool abort;
    bool lasts; /* as of struct recall (node/recall.h) */
    bool tells; /* the request asks what comes of it (recall_group_begin) */
};

struct recall_answer {
    void (*done)(struct recall_answer *answer);
    enum recall_result result;
    enum task_state became; /* as of struct recall; until then, the state of recall_order.replace */
    bool known;             /* false: the owner does not know of the claim yet; ask again */
    bool told, unsure;      /* as of struct recall */
    atomic_int state; /* enum recall_state. GIVEN_UP: the client got 409, and the owner leaves the task unchanged */
    const atomic_bool *over; /* as of struct recall */
};

/* What will happen to a task, as its node sees it. The answer is given once, on any thread. The task, its holds and the
 * facts stay valid until then. */
struct explain_answer {
    void (*done)(struct explain_answer *answer);
    const struct task *task;
    const struct explain_holds *holds; /* NULL: none */
    const struct explain_facts *facts;
    struct explanation explanation;
};

/* 0 stands for the default, which the comment gives. */
struct api_limits {
    size_t api_threads;      /* 2, and at least that; they read from the store and parse batches */
    int64_t recall_ms;       /* 500: for the owner of a claimed task to give it back */
    int64_t recall_stall_ms; /* 10,000: the same, if the task cannot have fired: only the store is slow */
    struct http_limits http;
};

/* The current state of queues, as the node sees it. The caller gives the names. The answer is given exactly once, on
 * any thread, perhaps before `queues` returns. */
struct queues_answer {
    void (*done)(struct queues_answer *answer);
    int32_t tenant;
    struct queue_standing *v; /* the caller fills in the names, the node the rest */
    size_t n;
};

struct alert_facts;
struct api_setup {
    const char *listen;       /* "127.0.0.1:8080", "[::1]:8080", "localhost:0" */
    const char *admin_listen; /* of the operator's listener; NULL: there is none */
    struct tls *tls;          /* of both; NULL: plain HTTP */
    struct client_identities identities;
    struct store *store;
    struct writer *writer;
    struct clock *clock;
    struct zoneinfo *zones;
    struct catalog_cache *catalog;        /* NULL: queues, tenants and calendars are not served */
    const struct broker_rules *brokers;   /* of messages; NULL: not checked */
    struct tenant_set *needs;             /* NULL: not limited */
    struct definition_cache *definitions; /* NULL: the server has one of its own */
    struct metrics *metrics;
    struct transition_log *transitions; /* NULL: none */
    struct tracer *tracer;              /* NULL: no spans are recorded */
    struct str pepper;                  /* at least 16 bytes */
    const struct secrets *secrets;      /* that encrypt secret headers; NULL: they are stored as they are */
    struct str cors_origins;            /* separated by blanks; empty: none */
    struct str public_url;              /* under which browsers see the server; empty: not told */
    bool require_idempotency_key;
    bool loopback_if_alone;  /* tasks may call loopback addresses while `default` is the only tenant */
    bool sends_mail;         /* smtp.url is set */
    struct str mail_domains; /* notify.email_domains */
    struct api_limits limits;

    /* Each of these may be NULL. */
    void *context;
    void (*nudge)(void *context, const struct task *tasks, size_t n); /* Tasks were just written. On any thread. */
    void (*recall)(void *context, const struct recall_order *order,
                   struct recall_answer *answer);         /* NULL: running tasks cannot be changed */
    void (*status)(void *context, struct jw *w);          /* adds members to /v1/scheduler/status. On a pool thread */
    void (*metrics_more)(void *context, struct buf *out); /* adds lines to /metrics. On an HTTP thread */
    bool (*ready)(void *context, struct error *e);        /* false: /ready answers 503 with e. On a pool thread */
    void (*catalog_changed)(void *context);               /* the catalog cache already has the change. On any thread */
    /* The store no longer has this circuit breaker. On the writer's thread */
    void (*breaker_closed)(void *context, int32_t tenant, struct str host);
    /* this node's id, for limits shared with other nodes; NULL: there are no others. On any thread */
    struct uuid (*node)(void *context);
    void (*explain)(void *context, struct explain_answer *answer);
    /* Tasks for external workers (node/lease/leasing.h). lease: answered on any thread. lease_over: a leased task was
     * settled, and these lanes were unblocked by it; on the writer's thread. */
    void (*lease)(void *context, struct lease_ask *ask);
    void (*lease_over)(void *context, const struct task *t, uint64_t unblocked);
    void (*check_leases)(
        void *context); /* asks that wait may not be allowed any more (lease_ask.allowed). Any thread */
    void (*queues)(void *context, struct queues_answer *answer); /* NULL: their state is not known */
    /* The longest time that the queue of a fleet lets a task run; 0: no limit. NULL: there is no fleet. On any
     * thread. */
    int64_t (*queue_timeout_max)(void *context);
    struct alert_facts (*alert_facts)(void *context); /* NULL: one node, which leads. On a pool thread */
    /* How many tasks of a tenant this node holds, and how many are due over all nodes, if this node counts them; what
     * is not known stays as it is. On any thread; must not wait */
    void (*tenant_load)(void *context, int32_t tenant, int64_t *ret_running, int64_t *ret_due);
    /* Whether every live node can run workflows; NULL: yes. On a pool thread */
    bool (*workflows_are_known)(void *context);
    bool (*notifications_are_known)(void *context); /* the same for notifications */
    bool (*signatures_are_known)(void *context);    /* the same for signing keys */
    void (*message_made)(void *context);            /* of a notification: the notifier may send it. Any thread */
};

struct api_server;
struct live;

enum err api_server_new(const struct api_setup *setup, struct api_server **ret, struct error *e) must_use;
uint16_t api_server_port(const struct api_server *s);
uint16_t api_server_admin_port(const struct api_server *s); /* 0: there is no operator's listener */

struct live *api_server_live(struct api_server *s); /* live events (api/live/live.h), until the server is freed */

/* Another node may have changed API keys: empties the key cache, so that they are read again. Any thread. */
void api_server_clear_key_cache(struct api_server *s);
/* Tenants or keys were changed, and the caches have it: requests that wait and streams of events are checked again. Any
 * thread. */
void api_server_check_again(struct api_server *s);

/* Accepts no more requests, finishes those in progress, then returns. One thread, once; never one of the server's own
 * threads. */
void api_server_stop(struct api_server *s);
void api_server_free(struct api_server *s); /* stops it if it still runs; NULL is fine */
