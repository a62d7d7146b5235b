#pragma once
/* server/server.h - one server process: store, writer, node, loop and API, started and stopped in the right order.
 *
 * Only this module knows which adapter implements each port in a server. `belfry serve` runs it until it is stopped,
 * `belfry bench` for one scenario.
 *
 * Threads: server_new, server_run and server_free are called by one thread, which is the loop thread while server_run
 * runs. The other functions say which threads may call them. */
#include "api/server/api_server.h"
#include "base/metrics.h"
#include "node/node.h"
#include "node/trace/transition_log.h"
#include "platform/batcher.h"
#include "platform/loop_uv.h"
#include "port/zoneinfo.h"
#include "server/brokers.h"
#include "server/process.h"
#include "server/retention.h"
#include "server/settings/fleet_url.h"
#include "server/settings/mail_settings.h"
#include "server/settings/tls_settings.h"

struct server_setup {
    struct clock *clock;
    struct zoneinfo *zones;
    const char *data_dir;
    const char *store_url;          /* PostgreSQL database that nodes share; NULL: SQLite in the data directory */
    const char *archive_dir;        /* of PostgreSQL: expired months of executions are written here; NULL: not kept */
    const char *store_read_url;     /* PostgreSQL replica for reads; NULL: store_url */
    const char *store_listen_url;   /* PostgreSQL connection for LISTEN, past a pooler; NULL: store_url */
    int64_t heartbeat_ms;           /* interval of the node's heartbeats; 0: the default */
    struct fleet_urls *fleet;       /* queue and events that workers share; borrowed. NULL: tasks run in this process */
    bool falls_back;                /* while that queue is down, due tasks run in this process */
    unsigned roles;                 /* NODE_…; 0: all */
    size_t queue_waiting;           /* how many tasks may wait in that queue; 0: derived from the number of workers */
    const char *listen;             /* NULL: no API */
    const char *admin_listen;       /* the operator's listener of the API; NULL: none */
    const struct tls_settings *tls; /* of the API; borrowed. NULL: plain HTTP */
    size_t slots;                   /* how many attempts may run at once */
    int64_t visibility_ms;          /* 0: WORKER_VISIBILITY_MS */
    size_t metric_tenants;          /* that have series of their own in /metrics */
    size_t ahead_bytes;             /* of tasks that are claimed ahead; 0: 64 MiB */
    size_t tenant_connections;      /* of one tenant to brokers by address; 0: the default */
    struct guard_setup guard;       /* which addresses tasks may call; borrowed */
    bool loopback_if_alone;         /* also loopback, while `default` is the only tenant */
    const char *key_file;           /* secrets.key_file; NULL: secrets.key in the data directory */
    const struct mail_settings *mail; /* of notifications; borrowed. NULL: no mail */
    const char *ca_file;              /* trusted certificates of https targets; NULL: the system's list */
    const struct brokers *brokers;    /* brokers that tasks may name; borrowed. NULL: none */
    struct str cors_origins;          /* of web pages that may call the API; borrowed */
    struct str public_url;            /* under which browsers see the API; borrowed */
    bool makes_login_code;            /* server_login_code */
    bool require_idempotency_key;
    struct http_limits http; /* of the API */
    int64_t drain_ms;
    enum transitions transitions; /* of tasks, that are logged */
    struct trace_setup trace;
    struct retention retention;
    /* NULL, or called for each settled attempt, on the loop thread. */
    void (*observe)(void *context, const struct event *e, const struct settlement *s);
    void *observe_context;
};

struct server;

/* Opens everything and listens; claims no task yet. On the first start on a store, ret_key gets the text of the
 * admin key (also written to <data dir>/admin.key, readable by its owner only); later it is empty. */
enum { SERVER_KEY_TEXT = 64 };
/* A login code of an admin key, made at the start; empty: the setup did not ask for it, or there is no such key. */
const char *server_login_code(const struct server *a);

enum err server_new(const struct server_setup *setup, char ret_key[SERVER_KEY_TEXT], struct server **ret,
                    struct error *e) must_use;
void server_free(struct server *a); /* NULL is fine */

/* Runs the loop on the calling thread. SIGTERM or SIGINT starts a drain; returns when that has ended. A second signal
 * does not wait for running tasks. */
void server_run(struct server *a);

/* The data directory had no pepper, but the store has API keys: none of them works any more. Any thread. */
bool server_has_useless_keys(const struct server *a);

bool server_has_one_tenant(const struct server *a); /* `default` is the only one. Any thread */

uint16_t server_port(const struct server *a);                 /* of the API; 0: there is none. Any thread */
uint16_t server_admin_port(const struct server *a);           /* of the operator's listener; the same */
int64_t server_count(const struct server *a, enum metric id); /* the value of a counter. Any thread */
double server_level(const struct server *a, enum metric id);  /* the value of a gauge. Any thread */
