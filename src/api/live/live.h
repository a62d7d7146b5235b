#pragma once
/* api/live/live.h - live events: what happens to the tasks of a tenant, for those who watch it (GET /v1/events).
 *
 * The node and the API tell `live` what happened; that costs a few counts if nobody watches the tenant. While someone
 * does, events are kept (live_log.h), and every 100 ms each stream gets what is new:
 * - `task`: at most LIVE_RATE a second, the others are folded: the reader learns how many there were;
 * - `job`, `incident` for readers with the scope notifications:read, and `node` for the tenant `default`;
 * - `counts`, each second.
 * A reader that falls behind is folded, too. A stream ends with its API key, and when the node is stopped.
 *
 * A tenant stays watched for LIVE_KEPT_MS after its last stream, so that a reader can come back with Last-Event-ID.
 *
 * On a shared store, the heartbeat of a node names the tenants that are watched there. The other nodes send it what
 * happens to their tasks (live_message.h): again at most LIVE_RATE tasks a second, and how many more.
 *
 * Functions without a note: any thread. */
#include "api/live/live_message.h"
#include "base/json/jsonw.h"
#include "port/events.h"
#include "port/store.h"

enum { LIVE_RATE = 50, LIVE_TICK_MS = 100, LIVE_STREAMS_MAX = 100, LIVE_STREAMS_KEY = 10, LIVE_KEPT_MS = 60000 };

struct api_server;
struct live;

struct live *live_new(struct api_server *s);
void live_stop(struct live *l); /* ends all streams: their readers are to come back. No timer is set afterwards */
void live_free(struct live *l); /* the HTTP server has ended; NULL is fine */
size_t live_stream_count(struct live *l);

/* ---- what happened ---- */

void live_on_created(struct live *l, const struct task *v, size_t n); /* accepted; live_on_written comes as well */
void live_on_written(struct live *l, const struct task *v, size_t n); /* as they are now */
void live_on_spawned(struct live *l, const struct task *occurrence);
void live_on_started(struct live *l, const struct task *t);
void live_on_opened(struct live *l, const struct task *t); /* an attempt of a run, a map or a wait, without a worker */
/* worker: the name of the worker inside this process, whose starts were told. */
void live_on_settled(struct live *l, const struct event *e, const struct settlement *s, struct str worker);
/* The same of a leased task. */
void live_on_lease_settled(struct live *l, const struct task *t, const struct settlement *s);
void live_on_job(struct live *l, int32_t tenant, const struct job *j);
void live_on_incident(struct live *l, int32_t tenant, const struct incident *i, enum incident_change change);

/* API keys or tenants were changed, perhaps on another node: streams whose key is not valid end. */
void live_on_keys_changed(struct live *l);

/* ---- other nodes ---- */

void live_describe(struct live *l, struct jw *w); /* adds the watched tenants to the document of this node */
void live_on_nodes(struct live *l, const struct node_rows *rows, struct uuid self); /* as of the last heartbeat */
void live_on_line(struct live *l, struct str line);                                 /* store_notice.broadcast */
