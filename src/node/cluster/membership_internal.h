#pragma once
/* node/cluster/membership_internal.h - what membership.c (heartbeats, the leader's lease) and membership_peers.c (the
 * other nodes) share. */
#include "node/cluster/membership.h"

enum {
    DEAD_BEATS = 5, /* a node that is silent for so long is dead */
    MEMBERSHIP_ARENA = 1 << 20,
    US_PER_MS = 1000,
};

/* How the document of a node begins, and its next member. */
#define STATE(name) "{\"state\":\"" name "\""
#define BEAT        "beat_ms"

enum { PEER_NAME_TEXT = 96 }; /* of a node's name, in the log */

struct peer {
    struct uuid id;
    int64_t beats, since_us, heartbeat_ms;
    bool risen; /* its heartbeats have risen since this node joined or called membership_forget_peers */
};

struct membership {
    struct membership_setup setup;
    struct uuid_gen ids;
    struct uuid id;
    struct moment now;
    bool joined, ready, closing, leaving, left;

    struct op_heartbeat beat;
    struct buf doc;
    bool beating, at_once;
    int64_t asked_us; /* when the heartbeat in flight, or the last one, was sent */
    /* Wall: this node fires nothing that is due later, by the last answered heartbeat; by the last one sent. 0: the
     * store does not know anything yet, and nothing fires. */
    int64_t fires_until_ms, promised_ms;
    int64_t sent_us, answered_us; /* of the last heartbeat that was answered without error; 0: none */
    uint64_t failed;              /* in a row */
    int64_t failing_us;           /* when the first of these was sent */
    bool is_skewed;               /* the log has it */
    int64_t beats;                /* this node's count, as of the last answer */
    bool dead_held;               /* the last heartbeat said that dead nodes hold claims */

    struct arena arena; /* holds the rows and the groups */
    struct node_rows rows;
    struct worker_groups workers;
    uint64_t generation;
    struct peer *peers;
    size_t peer_count;
    enum active_peers active_peers;

    struct op_node_dead mark_dead;
    char mark_dead_name[PEER_NAME_TEXT];
    bool marking_dead;

    struct op_lease lease;
    struct io_lease io_request; /* instead, if the lease is not the store's */
    bool renewing;
    int64_t renewed_us, leader_until_us; /* when it was asked for; until when it is held */

    bool sharing; /* other nodes have partitions, too */
    struct partitions own;
    struct uuid *sharers; /* the nodes that share the partitions, as of the last heartbeat */
    size_t ready_count;

    struct offset offset;
    int64_t skew_us;
};

/* ---- the other nodes (membership_peers.c), as the rows of the last heartbeat show them ---- */

void peers_watch(struct membership *m, bool gap, int64_t now_us); /* gap: in our own heartbeats before it */
const struct node_row *peers_row(const struct membership *m, struct uuid id);
enum active_peers peers_active(const struct membership *m);
void peers_share(struct membership *m);
void peers_mark_silent_dead(struct membership *m);
