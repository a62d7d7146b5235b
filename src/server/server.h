#pragma once
/* server/server.h - one process of Belfry, put together: store, writer, node, loop and API, in the order they need each other.
 *
 * This is the one place that knows which adapter stands behind each port on one machine. `belfry serve` runs it for ever,
 * `belfry bench` for a scenario. */
#include "api/server/api_server.h"
#include "base/metrics.h"
#include "node/node.h"
#include "platform/batcher.h"
#include "platform/loop_uv.h"
#include "port/zoneinfo.h"
#include "server/brokers.h"
#include "server/fleet_url.h"
#include "server/retention.h"

struct server_setup {
    struct clock *clock;
    struct zoneinfo *zones;
    const char *data_dir;
    const char *store_url;      /* of a database that other nodes may share; NULL: the store is in the data directory */
    const char *archive_dir;    /* of that database: where months of executions go; NULL: nowhere */
    const char *store_read_url; /* NULL: the same */
    const char *store_listen_url; /* NULL: the same */
    int64_t beat_ms;              /* of a node among others; 0: as it is by default */
    struct fleet_urls *fleet;     /* of a queue and events that workers share; borrowed. NULL: all runs here */
    bool falls_back;              /* while that queue is down, what is due runs here */
    unsigned roles;               /* NODE_…; 0: all */
    size_t queue_waiting;         /* how many may wait there; 0: as many as suits the workers */
    const char *listen;           /* NULL: no API */
    size_t slots;                 /* attempts under way at once */
    bool allow_loopback;
    const char *ca_file;           /* whom https targets are to be known by; NULL: the system's list */
    const struct brokers *brokers; /* that tasks may name; borrowed. NULL: none */
    bool require_idempotency_key;
    int64_t drain_ms;
    struct retention retention;
    void (*observe)(void *context, const struct event *e,
                    const struct settlement *s); /* NULL, or told what was settled */
    void *observe_context;
};

struct server;

/* Everything up and listening, nothing claimed yet. On the first start of a data directory *ret_key is its admin key's text
 * (also left in <data dir>/admin.key, readable by the owner alone), else empty. */
enum { SERVER_KEY_TEXT = 64 };
enum err server_new(const struct server_setup *setup, char ret_key[SERVER_KEY_TEXT], struct server **ret,
                    struct error *e) must_use;
void server_free(struct server *a); /* NULL is fine */

/* Runs on the caller's thread until it has drained: after SIGTERM or SIGINT, or server_stop from any thread. */
void server_run(struct server *a);
void server_stop(struct server *a);

uint16_t server_port(const struct server *a);
int64_t server_count(const struct server *a, enum metric id); /* of a counter; from any thread */

/* Tasks were written past the API: the node looks in time for them. From any thread. */
void server_on_tasks_written(struct server *a, const struct task *tasks, size_t count);

/* The book has changed: the node holds to it from now on. From any thread. */
void server_on_catalog_changed(struct server *a);
