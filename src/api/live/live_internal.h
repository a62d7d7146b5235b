#pragma once
/* api/live/live_internal.h - what the files of live events share.
 *
 *  - live_log.c keeps the latest events, live_message.c writes and reads them, live_filter.c says who wants them: all
 *    are pure
 *  - live.c: what happened, by tenant
 *  - live_nodes.c: what other nodes tell, and what they are told
 *  - live_streams.c: the streams, from the request to the end
 *  - live_tick.c: writes to the streams, every LIVE_TICK_MS
 *
 * One lock guards everything. It is taken before the locks of streams (http/stream.h), of timers, and of what the
 * callbacks in the setup use. */
#include <pthread.h>

#include "api/live/live.h"
#include "api/live/live_filter.h"
#include "api/live/live_log.h"
#include "api/live/live_streams.h"
#include "api/server/internal.h"
#include "base/map.h"
#include "http/stream.h"

enum {
    LIVE_TEXT_MAX = 1024,        /* of an event */
    LIVE_WRITE_MAX = 32 << 10,   /* to one stream, in one tick */
    LIVE_SENDERS_MAX = 64,       /* nodes whose counts are known, of a tenant */
    LIVE_TOLD_MS = 5000,         /* the next heartbeats name a tenant that someone began to watch */
    LIVE_SENDER_STALE_MS = 5000, /* a node that was silent for so long has no running tasks */
    LIVE_STATE_TEXT = 16,
    LIVE_NAME_TEXT = 96,
};

/* How many of a second's LIVE_RATE events are used up. */
struct live_window {
    int64_t second;
    int used;
};

/* The counts of a tenant on another node. */
struct live_sender {
    char name[LIVE_NODE_NAME + 1];
    struct live_counts counts;
    int64_t at_ms; /* steady */
};

struct live_tenant {
    int32_t number;
    int64_t own[LIVE_COUNTS];       /* since this node began */
    int64_t elsewhere[LIVE_COUNTS]; /* on other nodes, while someone watches it here */
    struct list active;             /* in live.active, while it is watched or told */

    bool is_watched; /* its events are kept */
    struct list streams;
    struct live_filters filters;
    int64_t kept_until_ms; /* steady: how long it is watched without a stream */
    struct live_part part;
    struct live_window any, filtered; /* what is kept: the first events of a second, and others that a filter wants */
    struct live_window incidents;
    struct live_sender *senders;
    size_t sender_count;

    bool is_told;          /* other nodes watch it */
    bool was_told;         /* as of the heartbeat before */
    int64_t told_until_ms; /* steady: if a node has just said so, until its heartbeat does */
    struct live_window told;
    struct buf words; /* the rest of a line for them */
    uint64_t more;    /* tasks that are not among the words */
};

/* A node as the last heartbeat showed it. */
struct live_peer {
    struct uuid id;
    char state[LIVE_STATE_TEXT], name[LIVE_NAME_TEXT];
};

struct live_stream {
    struct list link, of_tenant;
    struct live *live;
    struct live_tenant *tenant;
    char key_id[IDENTITY_TEXT];
    int32_t key_tenant;
    int64_t expires_ms; /* wall: of the client certificate; INT64_MAX: there is none */
    bool sees_nodes, sees_incidents;
    struct live_filter *filter; /* NULL: it wants all tasks */
    uint64_t folded;            /* of the tasks that its filter has folded: those that are in `missed` or were told */

    struct http_stream *http; /* NULL: not opened yet */
    bool has_begun;           /* its first lines were written */
    bool has_gap;             /* the reader is to be told */
    bool is_ending;           /* the last line was written */
    bool is_over;             /* the next tick frees it */
    uint64_t cursor;          /* the number of the last event that was written, or passed over */
    struct live_window shown;
    uint64_t missed; /* tasks that were not shown, and not told as folded */
};

struct live {
    struct api_server *server;
    char name[LIVE_NODE_NAME + 1]; /* of this life of this node */
    struct timer tick;
    struct request *internal; /* never answered: keys are looked up on it */
    pthread_mutex_t lock;     /* guards everything below */
    struct map tenants;       /* by number */
    struct live_tenant *last; /* that something happened in */
    struct list active;       /* tenants that are watched or told */
    struct list streams;
    size_t stream_count; /* without those that are over */
    struct live_log log;
    struct prng random;
    bool is_ticking, is_stopped;
    int64_t now_ms; /* steady: as of the last tick; what is used up of a second goes by it */
    int64_t second; /* steady: of the last counts */
    bool is_checking, keys_changed;
    int64_t checked_ms; /* steady: when keys were looked up */
    struct live_peer *peers;
    size_t peer_count;
};

/* All of these: with the lock held. */

struct live_tenant *live_tenant_get(struct live *l, int32_t number); /* makes it */
bool live_window_take(struct live_window *w, int64_t now_ms);        /* false: nothing of this second is left */
void live_tenant_activate(struct live *l, struct live_tenant *t);
void live_tenant_deactivate(struct live_tenant *t); /* unless it is watched or told */

/* Keeps an event of a tenant that is watched. */
void live_keep_task(struct live *l, struct live_tenant *t, const struct live_task *task);
void live_keep_job(struct live *l, struct live_tenant *t, const struct live_job *j);
void live_keep_incident(struct live *l, struct live_tenant *t, const struct live_incident *i, int64_t now_ms);

/* Adds it to the words for other nodes, if they watch the tenant. */
void live_tell_task(struct live *l, struct live_tenant *t, const struct live_task *task);
void live_tell_job(struct live_tenant *t, const struct live_job *j);
void live_tell_incident(struct live_tenant *t, const struct live_incident *i);
void live_send_watch(struct live *l, const struct live_tenant *t);             /* that this node watches it */
void live_send_words(struct live *l, struct live_tenant *t, bool with_counts); /* as a line */

struct live_counts live_counts_here(const struct live *l, const struct live_tenant *t); /* of this node */
struct live_counts live_counts_all(const struct live *l, const struct live_tenant *t, int64_t now_ms);

void live_start_ticking(struct live *l);
void live_on_tick(struct timer *timer); /* the timer thread; takes the lock */

void live_stream_end(struct live_stream *s, const char *reason, const char *detail, int64_t retry_ms);
void live_stream_free(struct live_stream *s);
void live_check_keys(struct live *l); /* begins to look up keys; releases the lock meanwhile */
